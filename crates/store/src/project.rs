//! Projects.

use async_trait::async_trait;
use plural_app::{Admin, Audited, Grant, Guarded, Installation, ProjectSelector, ProjectStore, Write};
use plural_core::access::{Actor, Visibility};
use plural_core::{
    Error, NewProject, Page, PageRequest, PolicyNoun, Project, ProjectChange, ProjectId, Result,
};
use sea_orm::sea_query::{Query, SimpleExpr};
use sea_orm::{ActiveModelTrait, ColumnTrait, EntityTrait, QueryFilter};
use uuid::Uuid;

use crate::convert::parse;
use crate::database::Database;
use crate::error::{db, is_foreign_key, unique};
use crate::page::{contains, page};
use crate::service_life::renew_in_tx;
use crate::transaction::set;
use crate::{cluster, policy, project_limits, recording, service};

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
fn services_of(project: Uuid) -> SimpleExpr {
    let mut clusters = Query::select();
    clusters.column(cluster::row::Column::Id).from(cluster::row::Entity);
    clusters.and_where(cluster::row::Column::ProjectId.eq(project));
    service::row::Column::ClusterId.in_subquery(clusters)
}

#[async_trait]
impl ProjectStore for Database {
    async fn project_for(&self, actor: &Actor, selector: &ProjectSelector) -> Result<Guarded<Project>> {
        let query = row::Entity::find();
        let query = match selector {
            ProjectSelector::Id(id) => query.filter(row::Column::Id.eq(id.uuid())),
            ProjectSelector::Name(name) => query.filter(row::Column::Name.eq(name.as_str())),
            ProjectSelector::Default => query.filter(row::Column::IsDefault.eq(true)),
        };
        let row = query.one(&self.reader).await.map_err(db("reading a project"))?;
        let project = Project::try_from(row.ok_or(Error::not_found("project"))?)?;
        let scope = policy::scope(&self.reader, actor, &[project.id.into()]).await?;
        Ok(Guarded::new(project, scope))
    }

    async fn project_list(
        &self,
        visibility: &Visibility,
        q: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<Project>> {
        let seen = policy::visible(visibility, &[row::Column::Id], PolicyNoun::Project);
        let mut query = row::Entity::find().filter(seen);
        if let Some(q) = q.filter(|q| !q.is_empty()) {
            query = query.filter(contains(row::Column::Name, q));
        }
        page(&self.reader, query, row::Column::Id, request, Project::try_from).await
    }

    async fn project_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: ProjectId,
        new: &NewProject,
        grant: &Grant,
    ) -> Result<Project> {
        let NewProject { name, description } = new;
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
        policy::grant_in_tx(&write, id.into(), grant).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn project_update(
        &self,
        by: Audited<'_, Project, Write>,
        change: &ProjectChange,
    ) -> Result<Project> {
        let ProjectChange { name, description } = change;
        let at = by.entry().at;
        let mut write = self.write().await?;
        let mut row = row::ActiveModel {
            id: sea_orm::ActiveValue::Unchanged(by.target().id.uuid()),
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
        if row.limits.is_some() && name.as_ref().is_some_and(|name| *name != by.target().name) {
            // Agents name the project in what they refuse.
            renew_in_tx(&mut write, services_of(row.id), at).await?;
        }
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn project_delete(&self, by: Audited<'_, Project, Admin>) -> Result<()> {
        if by.target().default {
            return Err(Error::conflict("the default project cannot be deleted"));
        }
        let write = self.write().await?;
        row::Entity::delete_by_id(by.target().id.uuid()).exec(&write.tx).await.map_err(|cause| {
            if is_foreign_key(&cause) {
                Error::conflict(
                    "the project still has clusters, repositories, contexts, global services or managed namespaces: \
                     delete or detach them first",
                )
            } else {
                db("deleting a project")(cause)
            }
        })?;
        if recording::is_any_of_on(&write.tx, by.target().id).await? {
            policy::keep_in_tx(&write, by.target().id, by.target().name.as_str()).await?;
        } else {
            policy::forget_in_tx(&write, by.target().id).await?;
        }
        write.audit(by.entry()).await?;
        write.commit().await
    }
}
