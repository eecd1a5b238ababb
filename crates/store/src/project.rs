//! Projects.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Admin, Audited, Grant, Installation, Write};
use plural_app::job::NewJob;
use plural_app::jobs::{MoveSecrets, MovedSecrets, RenewProject, RenewedProject};
use plural_app::project::{ProjectSelector, ProjectStore};
use plural_app::records::Search;
use plural_core::access::Visibility;
use plural_core::ids::{ProjectId, ServiceId};
use plural_core::policy::PolicyNoun;
use plural_core::project::{NewProject, Project, ProjectChange};
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, LockType, Query, SimpleExpr};
use sea_orm::{ActiveModelTrait, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select};
use uuid::Uuid;

use crate::convert::parse;
use crate::database::Database;
use crate::error::{db, is_foreign_key, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::service_life::{RENEWED, renew_some_in_tx};
use crate::transaction::set;
use crate::{
    cluster, data_key, dependency, machine_account, policy, project_limits, recording, secret_backend,
    service,
};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "projects")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub name: String,
        pub description: Option<String>,
        pub is_default: bool,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
        pub limits: Option<Json>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] =
    &[("projects_name_key", "a project with this name already exists; choose another")];

impl TryFrom<row::Model> for Project {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model { id, name, description, is_default, created_at, updated_at, limits } = row;
        Ok(Self {
            id: ProjectId::from_uuid(id),
            name: parse(&name, "a project's name")?,
            description,
            default: is_default,
            limits: project_limits::of_row(limits)?,
            created_at,
            updated_at,
        })
    }
}

/// The services on the clusters of a project.
pub(crate) fn services_of(project: Uuid) -> SimpleExpr {
    let mut clusters = Query::select();
    clusters.column(cluster::row::Column::Id).from(cluster::row::Entity);
    clusters.and_where(cluster::row::Column::ProjectId.eq(project));
    service::row::Column::ClusterId.in_subquery(clusters)
}

impl Table for Project {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a project";

    fn find(rows: Select<row::Entity>, by: &ProjectSelector) -> Select<row::Entity> {
        match by {
            ProjectSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            ProjectSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
            ProjectSelector::Default => rows.filter(row::Column::IsDefault.eq(true)),
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        search(rows, &[row::Column::Name], q.as_deref())
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::Id], PolicyNoun::Project)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.id.into()])
    }
}

#[async_trait]
impl ProjectStore for Database {
    async fn project_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: ProjectId,
        new: &NewProject,
        grant: Option<&Grant>,
    ) -> Result<Project> {
        let NewProject { name, description, bindings: _ } = new;
        let at = by.entry().at;
        let write = self.write().await?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            name: set(name.to_string()),
            description: set(description.clone()),
            is_default: set(false),
            created_at: set(at),
            updated_at: set(at),
            limits: set(None),
        };
        let row = row.insert(&write.tx).await.map_err(unique("making a project", UNIQUE))?;
        policy::make_in_tx(&write, &[(id.into(), None)]).await?;
        policy::grant_in_tx(&write, grant).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn project_update(
        &self,
        by: Audited<'_, Project, Write>,
        change: &ProjectChange,
        grant: Option<&Grant>,
    ) -> Result<Project> {
        let ProjectChange { name, description, bindings: _ } = change;
        let (id, at) = (by.target().id, by.entry().at);
        let mut write = self.write().await?;
        if name.is_some() {
            // The project's services may be renewed below.
            dependency::lock_in_tx(&write).await?;
        }
        let stored = row::Entity::find_by_id(id.uuid())
            // Not against things that are made in it meanwhile.
            .lock(LockType::NoKeyUpdate)
            .one(&write.tx)
            .await
            .map_err(db("reading a project"))?
            .ok_or(Error::not_found("project"))?;
        let mut row = row::ActiveModel {
            id: sea_orm::ActiveValue::Unchanged(id.uuid()),
            updated_at: set(at),
            ..Default::default()
        };
        if let Some(name) = name {
            row.name = set(name.to_string());
        }
        if let Some(description) = description {
            row.description = set(Some(description.clone()));
        }
        let row = row.update(&write.tx).await.map_err(unique("changing a project", UNIQUE))?;
        let mut more = None;
        if row.name != stored.name {
            // Agents name the project in what they refuse, and open encrypted files by its keys.
            let which = Condition::all().add(services_of(row.id));
            more = renew_some_in_tx(&mut write, which, (None, RENEWED), at).await?;
        }
        policy::grant_in_tx(&write, grant).await?;
        write.audit(by.entry()).await?;
        if let Some(after) = more {
            let others = RenewedProject { project_id: id, after };
            write.enqueue(&[NewJob::of::<RenewProject>(&others)?], at).await?;
        }
        write.commit().await?;
        row.try_into()
    }

    async fn project_services_renew(
        &self,
        id: ProjectId,
        after: Option<ServiceId>,
        limit: u64,
        at: DateTime<Utc>,
    ) -> Result<Option<ServiceId>> {
        let mut write = self.write().await?;
        dependency::lock_in_tx(&write).await?;
        let which = Condition::all().add(services_of(id.uuid()));
        let more = renew_some_in_tx(&mut write, which, (after, limit), at).await?;
        write.commit().await?;
        Ok(more)
    }

    async fn project_make_default(&self, by: Audited<'_, Project, Write>) -> Result<Project> {
        let doing = "making a project the default one";
        let (id, at) = (by.target().id.uuid(), by.entry().at);
        let write = self.write().await?;
        // Of two that become it, one waits here.
        let both = Condition::any().add(row::Column::Id.eq(id)).add(row::Column::IsDefault.eq(true));
        let rows = row::Entity::find().filter(both).order_by_asc(row::Column::Id);
        let rows = rows.lock(LockType::NoKeyUpdate).all(&write.tx).await.map_err(db(doing))?;
        if !rows.iter().any(|row| row.id == id) {
            return Err(Error::not_found("project"));
        }
        for former in rows.iter().filter(|row| row.is_default && row.id != id) {
            let row = row::ActiveModel {
                id: sea_orm::ActiveValue::Unchanged(former.id),
                is_default: set(false),
                updated_at: set(at),
                ..Default::default()
            };
            row.update(&write.tx).await.map_err(db(doing))?;
        }
        let row = row::ActiveModel {
            id: sea_orm::ActiveValue::Unchanged(id),
            is_default: set(true),
            updated_at: set(at),
            ..Default::default()
        };
        let told = &[("projects_is_default_key", "another project became the default one at the same time")];
        let row = row.update(&write.tx).await.map_err(unique(doing, told))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn project_delete(&self, by: Audited<'_, Project, Admin>) -> Result<()> {
        let mut write = self.write().await?;
        // It may have become the default one since it was read.
        let known = row::Entity::find_by_id(by.target().id.uuid()).lock_exclusive().one(&write.tx).await;
        let known = known.map_err(db("reading a project"))?.ok_or(Error::not_found("project"))?;
        if known.is_default {
            return Err(Error::conflict(
                "the default project cannot be deleted: make another one the default first",
            ));
        }
        machine_account::forget_of_in_tx(&write, by.target().id).await?;
        row::Entity::delete_by_id(by.target().id.uuid()).exec(&write.tx).await.map_err(|cause| {
            if is_foreign_key(&cause) {
                Error::conflict(
                    "the project still has clusters, repositories, contexts, stacks, global services, managed namespaces, \
                     connections to git hosts, governances or automations of pull requests: delete or detach them first",
                )
            } else {
                db("deleting a project")(cause)
            }
        })?;
        let keeps_recordings = recording::is_any_of_on(&write.tx, by.target().id).await?;
        data_key::shred_in_tx(&write, by.target().id, keeps_recordings, by.entry().at).await?;
        if secret_backend::has_objects_in_tx(self, &write, by.target().id).await? {
            let job = NewJob::of::<MoveSecrets>(&MovedSecrets { project: by.target().id })?;
            write.enqueue(&[job], by.entry().at).await?;
        }
        if keeps_recordings {
            policy::keep_in_tx(&write, by.target().id, by.target().name.as_str()).await?;
        } else {
            policy::forget_in_tx(&write, by.target().id).await?;
        }
        write.audit(by.entry()).await?;
        write.commit().await
    }
}
