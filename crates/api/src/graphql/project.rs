//! Projects.

use async_graphql::{Context, ID, InputObject, Object, Result};
use chrono::{DateTime, Utc};
use plural_app::{ProjectSelector, RecordingsSelector};
use plural_core::{NewProject, ProjectChange, ProjectId, Role};

use super::{
    binding::{PolicyBinding, bindings_of, rebind},
    error::{List, Nullable, Told, id_or_name, nullable, parse, parse_option},
    page::{connection, page_args},
    project_limits::ProjectLimits,
    recording::RecordingConnection,
    recording_policy::RecordingPolicy,
    request::request,
    shared::{PolicyBindingAttributes, RbacAttributes},
};

/// A part of the fleet with its own readers, writers and administrators.
pub(crate) struct Project(plural_core::Project);

impl From<plural_core::Project> for Project {
    fn from(project: plural_core::Project) -> Self {
        Self(project)
    }
}

connection!(ProjectConnection, ProjectEdge, Project);

/// A part of the fleet with its own readers, writers and administrators.
#[Object]
impl Project {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique name.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// Things without a project go here.
    async fn default(&self) -> Option<bool> {
        Some(self.0.default)
    }

    /// What it is for.
    async fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// What its services may touch.
    async fn limits(&self) -> Option<ProjectLimits> {
        Some(self.0.limits.clone().into())
    }

    /// Whether shells in its clusters are recorded, and who may read that.
    async fn recording_policy(&self, ctx: &Context<'_>) -> Nullable<RecordingPolicy> {
        nullable(async {
            let request = request(ctx);
            let selector = ProjectSelector::Id(self.0.id);
            let policy = request.app.recording_policy_get(&request.op, &selector).await.told(ctx)?;
            Ok(Some(policy.into()))
        })
        .await
    }

    /// What was recorded of shells in its clusters, those among them that are gone; for whom its administrators named.
    async fn recordings(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<RecordingConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            let of = RecordingsSelector::Project(self.0.id);
            let found = request.app.recording_list(&request.op, &of, &page).await;
            Ok(Some(found.told(ctx)?.into()))
        })
        .await
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }

    /// Who may look at everything in it.
    async fn read_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(async { bindings_of(ctx, self.0.id.into(), Role::Read).await }).await
    }

    /// Who may change everything in it.
    async fn write_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(async { bindings_of(ctx, self.0.id.into(), Role::Write).await }).await
    }

    /// Who may delete things in it and decide who may do what.
    async fn admin_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(async { bindings_of(ctx, self.0.id.into(), Role::Admin).await }).await
    }
}

/// What a project is given.
#[derive(Debug, InputObject)]
pub(crate) struct ProjectAttributes {
    /// Unique name.
    name: String,
    /// What it is for.
    description: Option<String>,
    /// Who may look; replaces the list.
    read_bindings: List<PolicyBindingAttributes>,
    /// Who may change; replaces the list.
    write_bindings: List<PolicyBindingAttributes>,
}

/// Reading projects.
#[derive(Default)]
pub(crate) struct ProjectQuery;

/// Reading projects.
#[Object]
impl ProjectQuery {
    /// One project, by id or by name.
    async fn project(&self, ctx: &Context<'_>, id: Option<ID>, name: Option<String>) -> Nullable<Project> {
        nullable(async {
            let request = request(ctx);
            let selector = id_or_name(id, name, ProjectSelector::Id, ProjectSelector::Name).told(ctx)?;
            Ok(Some(request.app.project_get(&request.op, &selector).await.told(ctx)?.into()))
        })
        .await
    }

    /// The projects that you may see.
    async fn projects(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<ProjectConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            Ok(Some(request.app.project_list(&request.op, q.as_deref(), &page).await.told(ctx)?.into()))
        })
        .await
    }
}

/// Changing projects.
#[derive(Default)]
pub(crate) struct ProjectMutation;

/// Changing projects.
#[Object]
impl ProjectMutation {
    /// Makes a project.
    async fn create_project(&self, ctx: &Context<'_>, attributes: ProjectAttributes) -> Nullable<Project> {
        nullable(async {
            let request = request(ctx);
            let ProjectAttributes { name, description, read_bindings, write_bindings } = attributes;
            let rbac = RbacAttributes { read_bindings, write_bindings, admin_bindings: None };
            let new = NewProject { name: parse("attributes.name", &name).told(ctx)?, description };
            let access = rbac.change().told(ctx)?;
            Ok(Some(request.app.project_create_bound(&request.op, &new, access).await.told(ctx)?.into()))
        })
        .await
    }

    /// Changes a project.
    async fn update_project(
        &self,
        ctx: &Context<'_>,
        id: ID,
        attributes: ProjectAttributes,
    ) -> Nullable<Project> {
        nullable(async {
            let request = request(ctx);
            let ProjectAttributes { name, description, read_bindings, write_bindings } = attributes;
            let rbac = RbacAttributes { read_bindings, write_bindings, admin_bindings: None };
            let name = parse_option("attributes.name", Some(&name)).told(ctx)?;
            let change = ProjectChange { name, description };
            let access = rbac.change().told(ctx)?;
            let id: ProjectId = super::error::id(&id).told(ctx)?;
            rebind(ctx, id.into(), access).await?;
            Ok(Some(request.app.project_update(&request.op, id, &change).await.told(ctx)?.into()))
        })
        .await
    }

    /// Deletes a project that holds nothing; the default one stays.
    async fn delete_project(&self, ctx: &Context<'_>, id: ID) -> Nullable<Project> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).told(ctx)?;
            Ok(Some(request.app.project_delete(&request.op, id).await.told(ctx)?.into()))
        })
        .await
    }
}

/// The project of this id; `None` when the caller may not see it.
pub(crate) async fn by_id(ctx: &Context<'_>, id: plural_core::ProjectId) -> Result<Option<Project>> {
    let request = request(ctx);
    let look_up = async |ids: Vec<_>| request.app.projects_get(&request.op, &ids).await.told(ctx);
    Ok(request.projects.get(id, look_up).await?.map(Project::from))
}
