//! Services that are changed, one or many, in as many statements.

use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};
use plural_app::access::{Authorized, Grant, Read};
use plural_app::rendering::ServiceSecrets;
use plural_app::seal::Sealed;
use plural_app::service::ServiceUpdate;
use plural_app::service_import::ImportsRequest;
use plural_core::audit::AuditEntry;
use plural_core::ids::{RepositoryId, ServiceId};
use plural_core::repository::Repository;
use plural_core::service::{
    Pin, PinUntil, Rendering, Service, ServiceChange, ServiceDifference, ServiceSettings,
};
use plural_core::service_error::ServiceError;
use plural_core::status::ServiceStatus;
use plural_core::work::WorkChange;
use plural_core::{Error, Result};
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, EntityTrait, IntoActiveModel, Iterable, QueryFilter, QueryOrder,
    QuerySelect,
};
use uuid::Uuid;

use super::{event, gone_repository, place_of, rendering_of, row, tell_repositories};
use crate::agent_upgrade::check_mark;
use crate::convert::{json, to_json};
use crate::database::corrupt;
use crate::error::db;
use crate::health_change::Seen;
use crate::revision::{self, NewRevision};
use crate::service_error::Errors;
use crate::service_life::{newest_in_tx, pin_of};
use crate::transaction;
use crate::{
    context_import, data_key, dependency, instance, policy, repository, secret_backend, service_context,
    service_error, service_import, service_repository,
};

/// Services of one statement.
const AT_ONCE: usize = 500;

/// A service to change.
pub(super) struct Edit<'a> {
    id: Uuid,
    /// It was marked as the upgrade of its cluster's agent when this was allowed.
    was_marked: bool,
    by: &'a AuditEntry,
    repository: Option<&'a Authorized<Repository, Read>>,
    update: &'a ServiceUpdate,
    /// The bindings that come with it.
    grant: Option<&'a Grant>,
}

impl<'a> Edit<'a> {
    pub(super) fn new(
        service: &Service,
        by: &'a AuditEntry,
        repository: Option<&'a Authorized<Repository, Read>>,
        update: &'a ServiceUpdate,
    ) -> Self {
        Self { id: service.id.uuid(), was_marked: service.agent_upgrade, by, repository, update, grant: None }
    }

    pub(super) fn with(self, grant: Option<&'a Grant>) -> Self {
        Self { grant, ..self }
    }
}

/// What is known of a service that gets another revision.
struct Base {
    /// It as its newest revision is, from which the next one goes on.
    newest: row::Model,
    kept: ServiceSecrets,
    errors: Errors,
    /// What it depends on is not healthy: the revision waits.
    waits: bool,
}

/// Changes services, all or none of them, and tells of them. Answers them in their order.
pub(super) async fn change_in_tx(
    write: &mut transaction::Write<'_>,
    all: &[Edit<'_>],
    at: DateTime<Utc>,
) -> Result<Vec<row::Model>> {
    let ids: Vec<Uuid> = all.iter().map(|edit| edit.id).collect();
    if all.iter().any(|edit| edit.update.links.dependencies.is_some()) {
        dependency::lock_in_tx(write).await?;
    } else {
        dependency::lock_for_in_tx(write, &ids).await?;
    }
    // Before the services' rows, as everybody does who locks both: contexts, then repositories, then stacks.
    let wishes = all.iter().filter_map(|edit| edit.update.links.contexts.as_ref());
    service_context::still_plain_in_tx(&write.tx, wishes).await?;
    lock_repositories_in_tx(write, all).await?;
    service_import::hold_in_tx(write, all.iter().filter_map(|edit| edit.update.links.imports.as_ref()))
        .await?;
    let contexts = all.iter().filter_map(|edit| edit.update.links.contexts.as_ref());
    let contexts = contexts.flat_map(|wish| &wish.ids).map(|id| id.uuid());
    context_import::hold_of_contexts_in_tx(write, contexts).await?;
    let old = lock_in_tx(write, &ids).await?;
    let mut news = Vec::with_capacity(all.len());
    for (edit, old) in all.iter().zip(&old) {
        let new = changed(edit, old, at)?;
        check(edit, old, new.difference)?;
        news.push(new);
    }
    links_in_tx(write, all, &old).await?;
    let get_revisions = old.iter().zip(&news).filter(|(_, new)| new.difference.makes_revision);
    let get_revisions: Vec<&row::Model> = get_revisions.map(|(old, _)| old).collect();
    let mut bases = bases_in_tx(write, &get_revisions).await?;
    let mut rows = Vec::with_capacity(all.len());
    let mut revisions = Vec::new();
    let mut stays = Vec::with_capacity(all.len());
    let (mut repositories, mut renderings) = (Vec::new(), Vec::new());
    for ((edit, old), new) in all.iter().zip(&old).zip(news) {
        let Changed { mut row, rendering, difference } = new;
        stays.push(!difference.makes_revision);
        if let Some(base) = bases.remove(&edit.id) {
            revisions.push(revised(write, edit, (old, &mut row), base, difference)?);
        }
        if row.rendering != old.rendering {
            service_repository::replace_on(&write.tx, old.id, &rendering).await?;
        }
        if difference.moves_source {
            service_error::replace_on(&write.tx, old.id, true, &[]).await?;
            repositories.extend(row.repository_id);
            renderings.push(rendering);
        }
        rows.push(row);
    }
    write_on(write, &rows).await?;
    if !revisions.is_empty() {
        let of: Vec<ServiceId> = revisions.iter().map(|new| ServiceId::from_uuid(new.service_id)).collect();
        // Values that stay are copied as they were sealed.
        let keys = data_key::keys_of(revisions.iter().map(|new| &new.secrets));
        data_key::hold_in_tx(write, keys).await?;
        let sealed = revisions.iter().flat_map(|new| data_key::sealed_of(&new.secrets));
        let objects = secret_backend::objects_of(sealed.map(Sealed::as_bytes));
        secret_backend::name_on(&write.tx, objects).await?;
        revision::row::Entity::insert_many(revisions.into_iter().map(revision::row_of))
            .exec_without_returning(&write.tx)
            .await
            .map_err(db("making a revision"))?;
        revision::prune_many_on(&write.tx, &of).await?;
    }
    for ((edit, row), stays) in all.iter().zip(&mut rows).zip(stays) {
        if edit.update.links.dependencies.is_some() && stays {
            *row = dependency::go_on_in_tx(write, row.clone(), at).await?;
        }
    }
    for edit in all {
        policy::grant_in_tx(write, edit.grant).await?;
    }
    write.audit_many(&all.iter().map(|edit| edit.by.clone()).collect::<Vec<_>>()).await?;
    let events: Vec<_> = rows.iter().map(|row| event(row, WorkChange::Changed)).collect();
    write.publish_many(&events, at).await?;
    tell_repositories(write, repositories, renderings.iter(), at).await?;
    Ok(rows)
}

/// Locks the repositories that rows of these services are going to name.
async fn lock_repositories_in_tx(write: &transaction::Write<'_>, all: &[Edit<'_>]) -> Result<()> {
    let mut named: BTreeSet<Uuid> =
        all.iter().filter_map(|edit| edit.repository).map(|repository| repository.id.uuid()).collect();
    let renderings = all.iter().filter(|edit| !edit.update.change.rendering.is_empty());
    let mut others = Vec::new();
    for edit in renderings {
        others.push(edit.id);
        let rendering = edit.update.change.rendering.over(Rendering::default());
        named.extend(rendering.repositories().map(RepositoryId::uuid));
    }
    // What a part of a rendering names that stays is written anew with the others.
    for chunk in others.chunks(AT_ONCE) {
        named.extend(service_repository::named_on(&write.tx, chunk).await?);
    }
    repository::lock_named_in_tx(write, named).await
}

/// Locks and reads services, in the order of `ids`.
async fn lock_in_tx(write: &transaction::Write<'_>, ids: &[Uuid]) -> Result<Vec<row::Model>> {
    let rows = row::Entity::find()
        .filter(row::Column::Id.is_in(ids.iter().copied()))
        .order_by_asc(row::Column::Id)
        .lock_exclusive()
        .all(&write.tx)
        .await
        .map_err(db("reading a service"))?;
    let mut rows: HashMap<Uuid, row::Model> = rows.into_iter().map(|row| (row.id, row)).collect();
    ids.iter().map(|id| rows.remove(id).ok_or(Error::not_found("service"))).collect()
}

fn check(edit: &Edit<'_>, old: &row::Model, difference: ServiceDifference) -> Result<()> {
    check_mark(edit.was_marked, old)?;
    if old.deleted_at.is_some() {
        return Err(Error::conflict("the service is being deleted"));
    }
    let imports = edit.update.links.imports.as_ref();
    if old.agent_upgrade && imports.is_some_and(|ImportsRequest(all)| !all.is_empty()) {
        return Err(service_import::feeds_an_agent());
    }
    let pinned = pin_of(old)?.is_some_and(|pin| pin.until != PinUntil::Dependencies);
    if pinned && difference.makes_revision {
        return Err(Error::conflict(
            "the service is pinned to a revision; `plural cd services release` lets it go on",
        ));
    }
    Ok(())
}

/// What the services depend on, which contexts they read, and which stacks they import.
async fn links_in_tx(write: &transaction::Write<'_>, all: &[Edit<'_>], old: &[row::Model]) -> Result<()> {
    let contexts: Vec<_> = all
        .iter()
        .filter_map(|edit| Some((edit.id, edit.update.links.contexts.as_ref()?.ids.as_slice())))
        .collect();
    service_context::replace_in_tx(write, &contexts).await?;
    let marked: BTreeSet<Uuid> = old.iter().filter(|old| old.agent_upgrade).map(|old| old.id).collect();
    let fed = contexts.iter().map(|(service, _)| *service).filter(|service| marked.contains(service));
    context_import::check_fed_none_in_tx(write, fed.collect()).await?;
    let imports: Vec<_> =
        all.iter().filter_map(|edit| Some((edit.id, edit.update.links.imports.as_ref()?))).collect();
    service_import::replace_in_tx(write, &imports).await?;
    let ids: Vec<Uuid> = all.iter().map(|edit| edit.id).collect();
    let known: HashSet<Uuid> = dependency::of_on(&write.tx, &ids).await?.into_keys().collect();
    for (edit, old) in all.iter().zip(old) {
        match &edit.update.links.dependencies {
            Some(wishes) if !wishes.is_empty() || known.contains(&edit.id) => {
                dependency::replace_in_tx(write, old, wishes).await?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// What is known of those that get another revision.
async fn bases_in_tx(write: &transaction::Write<'_>, all: &[&row::Model]) -> Result<HashMap<Uuid, Base>> {
    let mut newest: Vec<row::Model> = Vec::with_capacity(all.len());
    for old in all {
        newest.push(newest_in_tx(write, (*old).clone()).await?);
    }
    let ids: Vec<Uuid> = newest.iter().map(|row| row.id).collect();
    let revisions: Vec<Uuid> = newest.iter().map(|row| row.revision_id).collect();
    let mut kept = revision::secrets_on(&write.tx, &revisions).await?;
    let mut errors = service_error::list_on(&write.tx, &ids).await?;
    let depend = dependency::of_on(&write.tx, &ids).await?;
    let mut bases = HashMap::with_capacity(newest.len());
    for newest in newest {
        let id = newest.id;
        let base = Base {
            kept: kept.remove(&newest.revision_id).ok_or_else(|| corrupt("a service's revision"))?,
            errors: errors.remove(&id).unwrap_or_default(),
            // One that waits goes on from its newest revision, not from the one it stands at.
            waits: depend.contains_key(&id) && dependency::waits_in_tx(write, id).await?,
            newest,
        };
        bases.insert(id, base);
    }
    Ok(bases)
}

/// A service with a change, as it is stored.
struct Changed {
    row: row::Model,
    rendering: Rendering,
    difference: ServiceDifference,
}

/// The locked service with what changes of it, and what that comes to. Only here it is known what there is to change: who
/// asked has read it earlier, and others may have changed it since.
fn changed(edit: &Edit<'_>, old: &row::Model, at: DateTime<Utc>) -> Result<Changed> {
    let ServiceUpdate {
        change,
        revision_id: _,
        configuration: _,
        configuration_over: _,
        values: _,
        links: _,
        owner,
    } = edit.update;
    let ServiceChange {
        namespace,
        // Part of the settings.
        repository_id,
        git: _,
        rendering: _,
        sync_config: _,
        dry_run: _,
        templated: _,
        // Of their own.
        version,
        protect,
        interval_seconds,
        configuration: _,
        links: _,
        bindings: _,
    } = change;
    let known = settings_of(old)?;
    let new = known.clone().changed(change)?;
    let difference = change.difference(&known, &new);
    let ServiceSettings { repository_id: _, git, rendering, sync_config, dry_run, templated } = new;
    let mut row = row::Model { updated_at: at, sequence: old.sequence + 1, ..old.clone() };
    if let Some(owner) = owner {
        instance::own(&mut row, *owner, at);
    }
    // Only one that its caller may read.
    if let (Some(_), Some(repository)) = (repository_id, edit.repository) {
        row.repository_id = Some(repository.id.uuid());
    }
    if git != known.git {
        row.git = git.map(|git| to_json(&git, "a git ref")).transpose()?;
    }
    if rendering != known.rendering {
        row.rendering = Some(to_json(&rendering, "a rendering")?);
    }
    if sync_config != known.sync_config {
        row.sync_config = to_json(&sync_config, "a sync config")?;
    }
    if let Some(namespace) = namespace {
        row.namespace = namespace.to_string();
    }
    row.dry_run = dry_run;
    row.templated = templated;
    if let Some(version) = version {
        row.version.clone_from(version);
    }
    row.protect = protect.unwrap_or(row.protect);
    if let Some(seconds) = interval_seconds {
        row.interval_seconds = Some(seconds.cast_signed());
    }
    if difference.moves_source {
        // The same files in another folder are another artifact: look again in any case.
        row.closure_digest = place_of(&rendering);
    }
    Ok(Changed { row, rendering, difference })
}

fn settings_of(row: &row::Model) -> Result<ServiceSettings> {
    Ok(ServiceSettings {
        repository_id: row.repository_id.map(RepositoryId::from_uuid),
        git: row.git.clone().map(|git| json(git, "a service's git ref")).transpose()?,
        rendering: rendering_of(row.rendering.clone())?,
        sync_config: json(row.sync_config.clone(), "a service's sync config")?,
        dry_run: row.dry_run,
        templated: row.templated,
    })
}

/// The revision that a change makes. The service stands at it, unless it waits.
fn revised(
    write: &mut transaction::Write<'_>,
    edit: &Edit<'_>,
    (old, row): (&row::Model, &mut row::Model),
    base: Base,
    difference: ServiceDifference,
) -> Result<NewRevision> {
    let Base { newest, kept, errors, waits } = base;
    let ServiceUpdate {
        change: _,
        revision_id,
        configuration,
        configuration_over,
        values,
        links: _,
        owner: _,
    } = edit.update;
    if configuration_over.as_ref().is_some_and(|over| *over != kept.configuration) {
        return Err(Error::conflict("the configuration of the service was changed meanwhile; try again"));
    }
    let at = edit.by.at;
    if waits {
        let known: Option<Pin> = pin_of(old)?;
        row.pin = Some(to_json(&dependency::waiting_pin(known.as_ref(), *revision_id, at), "a pin")?);
    } else {
        row.revision_id = revision_id.uuid();
        row.pin = None;
        row.sha.clone_from(&newest.sha);
        row.message.clone_from(&newest.message);
        row.author.clone_from(&newest.author);
        if newest.artifact_digest.is_some() {
            row.artifact_digest.clone_from(&newest.artifact_digest);
            row.artifact_folder.clone_from(&newest.artifact_folder);
        }
        // What the console found is about the place that it is not read from any more.
        let found: Vec<ServiceError> = if difference.moves_source { errors.agent } else { errors.all() };
        let fails = found.iter().any(|error| !error.warning);
        let status = if fails { ServiceStatus::Failed } else { ServiceStatus::Stale };
        write.turn(row, status, at, &Seen { components: &[], errors: &found });
    }
    // Until the job has looked, a moved source has no commit; and another place is another artifact, which the job has to
    // make first.
    let stays = !difference.moves_source;
    Ok(NewRevision {
        id: *revision_id,
        service_id: old.id,
        version: row.version.clone(),
        git: row.git.clone(),
        sha: newest.sha.filter(|_| stays),
        message: newest.message.filter(|_| stays),
        author: newest.author.filter(|_| stays),
        rendering: Some(match &row.rendering {
            Some(rendering) => rendering.clone(),
            // What an older release left empty.
            None => to_json(&Rendering::default(), "a rendering")?,
        }),
        secrets: ServiceSecrets {
            configuration: configuration.clone().unwrap_or(kept.configuration),
            helm_values: values.helm.clone().over(kept.helm_values),
            renderer_values: values.renderers.clone().over(kept.renderer_values),
        },
        artifact: newest.artifact_digest.filter(|_| stays).map(|digest| (digest, newest.artifact_folder)),
        by: edit.by.actor.clone(),
        at,
    })
}

/// In one statement where they are many: their rows are locked, so that inserting always meets them.
async fn write_on(write: &transaction::Write<'_>, rows: &[row::Model]) -> Result<()> {
    let doing = "changing a service";
    if let [row] = rows {
        let row = row.clone().into_active_model().reset_all();
        return row.update(&write.tx).await.map(drop).map_err(gone_repository(doing));
    }
    let columns = row::Column::iter().filter(|column| !matches!(column, row::Column::Id));
    let all = OnConflict::column(row::Column::Id).update_columns(columns).to_owned();
    row::Entity::insert_many(rows.iter().cloned().map(IntoActiveModel::into_active_model))
        .on_conflict(all)
        .exec_without_returning(&write.tx)
        .await
        .map(drop)
        .map_err(gone_repository(doing))
}
