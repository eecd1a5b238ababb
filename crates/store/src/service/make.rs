//! Services that are made, one or many, in as many statements.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use plural_app::access::{Authorized, Grant, Read};
use plural_app::rendering::ServiceSecrets;
use plural_app::seal::Sealed;
use plural_app::service::ServiceCreate;
use plural_core::audit::AuditEntry;
use plural_core::ids::{ClusterId, PolicyId};
use plural_core::policy::Policy;
use plural_core::repository::Repository;
use plural_core::service::{NewService, Rendering};
use plural_core::status::{ServiceStatus, component_status};
use plural_core::work::WorkChange;
use plural_core::{Error, Result};
use sea_orm::{ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use super::{event, gone_repository, place_of, row, tell_repositories};
use crate::convert::to_json;
use crate::error::db;
use crate::revision::{self, NewRevision};
use crate::transaction;
use crate::{
    cluster, context_import, dependency, instance, policy, secret_backend, service_context, service_import,
    service_repository,
};

/// A service to make.
pub(super) struct Make<'a> {
    pub(super) cluster: Uuid,
    pub(super) by: &'a AuditEntry,
    pub(super) repository: Option<&'a Authorized<Repository, Read>>,
    pub(super) create: &'a ServiceCreate,
    /// The bindings that come with it.
    pub(super) grant: Option<&'a Grant>,
}

impl Make<'_> {
    pub(super) fn depends(&self) -> bool {
        self.create.links.dependencies.as_ref().is_some_and(|on| !on.is_empty())
    }

    fn row(&self) -> Result<row::Model> {
        let ServiceCreate { id, revision_id, new, configuration: _, values: _, seed, owner, links: _ } =
            self.create;
        let NewService {
            name,
            namespace,
            repository_id: _,
            git,
            rendering,
            version,
            docs_path,
            sync_config,
            protect,
            dry_run,
            templated,
            interval_seconds,
            configuration: _,
            links: _,
            bindings: _,
        } = new;
        let at = self.by.at;
        let rendering = rendering.over(Rendering::default());
        let mut row = row::Model {
            id: id.uuid(),
            cluster_id: self.cluster,
            name: name.to_string(),
            namespace: namespace.to_string(),
            repository_id: self.repository.map(|repository| repository.id.uuid()),
            git: git.as_ref().map(|git| to_json(git, "a git ref")).transpose()?,
            rendering: Some(to_json(&rendering, "a rendering")?),
            version: version.clone().unwrap_or_else(|| "0.0.1".to_owned()),
            docs_path: docs_path.clone(),
            sync_config: to_json(sync_config, "a sync config")?,
            protect: *protect,
            dry_run: *dry_run,
            templated: *templated,
            interval_seconds: interval_seconds.map(u32::cast_signed),
            status: ServiceStatus::Stale.as_str().to_owned(),
            component_status: component_status(&[]),
            failing_since: None,
            recovered_at: None,
            revision_id: revision_id.uuid(),
            sha: None,
            message: None,
            author: None,
            closure_digest: place_of(&rendering),
            artifact_digest: None,
            artifact_folder: String::new(),
            pin: None,
            paused: false,
            sequence: 1,
            seed: seed.as_bytes().to_vec(),
            applied_revision_id: None,
            applied_sha: None,
            reported_sequence: 0,
            owner_id: None,
            secrets_home: None,
            owner_generation: None,
            owner_given_at: None,
            cascaded: false,
            deleted_at: None,
            outlives: false,
            agent_upgrade: false,
            created_at: at,
            updated_at: at,
        };
        if let Some(owner) = owner {
            instance::own(&mut row, *owner, at);
        }
        Ok(row)
    }

    /// The first revision of this row.
    fn revision(&self, row: &row::Model) -> revision::row::ActiveModel {
        let ServiceCreate { revision_id, configuration, values, .. } = self.create;
        revision::row_of(NewRevision {
            id: *revision_id,
            service_id: row.id,
            version: row.version.clone(),
            git: row.git.clone(),
            sha: None,
            message: None,
            author: None,
            rendering: row.rendering.clone(),
            secrets: ServiceSecrets {
                configuration: configuration.clone(),
                helm_values: values.helm.clone().over(None),
                renderer_values: values.renderers.clone().over(None),
            },
            artifact: None,
            by: self.by.actor.clone(),
            at: self.by.at,
        })
    }
}

/// Makes services, all or none of them, and tells of them. Answers them in their order. Nobody sees them before the write ends, so that
/// it may lock the repositories that they name after them.
pub(super) async fn make_in_tx(
    write: &mut transaction::Write<'_>,
    all: &[Make<'_>],
    at: DateTime<Utc>,
) -> Result<Vec<row::Model>> {
    if all.iter().any(Make::depends) {
        dependency::lock_in_tx(write).await?;
    }
    // Before the rows of clusters and services, as everybody does who locks both.
    let wishes = all.iter().filter_map(|one| one.create.links.contexts.as_ref());
    service_context::still_plain_in_tx(&write.tx, wishes).await?;
    lock_clusters_in_tx(write, all.iter().map(|one| one.cluster).collect()).await?;
    service_import::hold_in_tx(write, all.iter().filter_map(|one| one.create.links.imports.as_ref())).await?;
    let contexts = all.iter().filter_map(|one| one.create.links.contexts.as_ref());
    let contexts = contexts.flat_map(|wish| &wish.ids).map(|id| id.uuid());
    context_import::hold_of_contexts_in_tx(write, contexts).await?;
    let mut rows = all.iter().map(Make::row).collect::<Result<Vec<_>>>()?;
    row::Entity::insert_many(rows.iter().cloned().map(IntoActiveModel::into_active_model))
        .exec_without_returning(&write.tx)
        .await
        .map_err(gone_repository("making a service"))?;
    let policies: Vec<(Policy, Option<PolicyId>)> = all
        .iter()
        .map(|one| (one.create.id.into(), Some(ClusterId::from_uuid(one.cluster).into())))
        .collect();
    policy::make_in_tx(write, &policies).await?;
    let sealed = all.iter().flat_map(|one| [&one.create.configuration, &one.create.seed]);
    let objects = secret_backend::objects_of(sealed.map(Sealed::as_bytes));
    secret_backend::name_on(&write.tx, objects).await?;
    revision::row::Entity::insert_many(all.iter().zip(&rows).map(|(one, row)| one.revision(row)))
        .exec_without_returning(&write.tx)
        .await
        .map_err(db("making a revision"))?;
    for (one, row) in all.iter().zip(&mut rows).filter(|(one, _)| one.depends()) {
        let wishes = one.create.links.dependencies.as_deref().unwrap_or_default();
        dependency::replace_in_tx(write, row, wishes).await?;
        if dependency::waits_in_tx(write, row.id).await? {
            let pin = dependency::waiting_pin(None, one.create.revision_id, at);
            *row = dependency::write_pin_on(&write.tx, row.clone(), Some(pin)).await?;
        }
    }
    let contexts: Vec<_> = all
        .iter()
        .filter_map(|one| Some((one.create.id.uuid(), one.create.links.contexts.as_ref()?.ids.as_slice())))
        .collect();
    service_context::add_in_tx(write, &contexts).await?;
    let imports: Vec<_> = all
        .iter()
        .filter_map(|one| Some((one.create.id.uuid(), one.create.links.imports.as_ref()?)))
        .collect();
    service_import::add_in_tx(write, &imports).await?;
    let mut repositories = Vec::new();
    let mut renderings = Vec::with_capacity(all.len());
    for (one, row) in all.iter().zip(&rows) {
        policy::grant_in_tx(write, one.grant).await?;
        repositories.extend(row.repository_id);
        renderings.push((row.id, one.create.new.rendering.over(Rendering::default())));
    }
    service_repository::add_on(&write.tx, &renderings).await?;
    write.audit_many(&all.iter().map(|one| one.by.clone()).collect::<Vec<_>>()).await?;
    let events: Vec<_> = rows.iter().map(|row| event(row, WorkChange::Changed)).collect();
    write.publish_many(&events, at).await?;
    tell_repositories(write, repositories, renderings.iter().map(|(_, rendering)| rendering), at).await?;
    Ok(rows)
}

/// Not onto a cluster that went, or began to go, since the decision.
async fn lock_clusters_in_tx(write: &transaction::Write<'_>, ids: BTreeSet<Uuid>) -> Result<()> {
    let rows = cluster::row::Entity::find()
        .filter(cluster::row::Column::Id.is_in(ids.iter().copied()))
        .order_by_asc(cluster::row::Column::Id)
        .lock_shared()
        .all(&write.tx)
        .await
        .map_err(db("reading a cluster"))?;
    let rows: HashMap<Uuid, cluster::row::Model> = rows.into_iter().map(|row| (row.id, row)).collect();
    for id in ids {
        let cluster = rows.get(&id).ok_or(Error::not_found("cluster"))?;
        if cluster.deleted_at.is_some() {
            return Err(Error::conflict("the cluster is being deleted"));
        }
    }
    Ok(())
}
