//! Projects.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::project::ProjectSelector;
use plural_app::recording::RecordingsSelector;
use plural_app::records::Search;
use plural_core::policy::Role;
use plural_core::project::{NewProject, ProjectChange};

use super::{
    binding::{PolicyBinding, RoleBinding, bindings_of, role_bindings_of},
    data_key::{DataKey, SecretHoldings, holdings_of, keys_of},
    error::{IntoGraphql, List, Nullable, id_or_name, nullable, parse, parse_option, unsupported},
    limited::limited,
    page::{connection, page_args},
    project_limits::ProjectLimits,
    record::{one, page_of},
    recording::RecordingConnection,
    recording_policy::RecordingPolicy,
    request::request,
    secret_backend::{SecretStorage, storage_of},
    shared::{PolicyBindingAttributes, RbacAttributes},
    stack_policy::StackRule,
    stack_settings::{StackSettings, settings_of},
};

/// A part of the fleet with its own readers, writers and administrators.
pub(crate) struct Project(plural_core::project::Project);

impl From<plural_core::project::Project> for Project {
    fn from(project: plural_core::project::Project) -> Self {
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

    /// Insights by AI are off. Always true: there are none here.
    async fn disable_insights(&self) -> Option<bool> {
        Some(true)
    }

    /// What its services may touch.
    async fn limits(&self) -> Option<ProjectLimits> {
        Some(self.0.limits.clone().into())
    }

    /// Rules in Rego that the plans of all its stacks are checked by.
    async fn stack_rules(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackRule>>> {
        nullable(async {
            let request = request(ctx);
            let selector = ProjectSelector::Id(self.0.id);
            let rules = request.app.project_stack_rules(&request.op, &selector).await.into_graphql(ctx)?;
            Ok(limited(ctx, rules.into_iter().map(StackRule::from)))
        })
        .await
    }

    /// What its stacks have where they say nothing themselves.
    async fn stack_settings(&self, ctx: &Context<'_>) -> Nullable<StackSettings> {
        nullable(settings_of(ctx, self.0.id)).await
    }

    /// Whether shells in its clusters are recorded, and who may read that.
    async fn recording_policy(&self, ctx: &Context<'_>) -> Nullable<RecordingPolicy> {
        nullable(async {
            let request = request(ctx);
            let selector = ProjectSelector::Id(self.0.id);
            let policy = request.app.recording_policy_get(&request.op, &selector).await.into_graphql(ctx)?;
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
            Ok(Some(found.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// The keys that seal its secrets, those that were destroyed among them; for its administrators.
    async fn data_keys(&self, ctx: &Context<'_>) -> Nullable<Vec<DataKey>> {
        nullable(keys_of(ctx, self.0.id)).await
    }

    /// What secret values of it the console holds, without the values; for its administrators. A large project takes several answers:
    /// ask again after `endCursor` until there is none.
    async fn secret_holdings(&self, ctx: &Context<'_>, after: Option<String>) -> Nullable<SecretHoldings> {
        nullable(holdings_of(ctx, self.0.id, after.as_deref())).await
    }

    /// Where its secret values are kept, and how far they moved there; for its administrators.
    async fn secret_storage(&self, ctx: &Context<'_>) -> Nullable<SecretStorage> {
        nullable(storage_of(ctx, self.0.id)).await
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
        nullable(bindings_of(ctx, self.0.id.into(), Role::Read)).await
    }

    /// Who may change everything in it.
    async fn write_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.0.id.into(), Role::Write)).await
    }

    /// Who may delete things in it and decide who may do what.
    async fn admin_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.0.id.into(), Role::Admin)).await
    }

    /// Who may do what in it by a role that administrators made.
    async fn role_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<RoleBinding>>> {
        nullable(role_bindings_of(ctx, self.0.id.into())).await
    }
}

/// What a project is given.
#[derive(Debug, InputObject)]
pub(crate) struct ProjectAttributes {
    /// Unique name.
    name: String,
    /// What it is for.
    description: Option<String>,
    /// There are no insights here: `false` is refused.
    disable_insights: Option<bool>,
    /// Who may look; replaces the list.
    read_bindings: List<PolicyBindingAttributes>,
    /// Who may change; replaces the list.
    write_bindings: List<PolicyBindingAttributes>,
}

fn insights(disable: Option<bool>) -> plural_core::Result<()> {
    unsupported(
        "attributes.disableInsights",
        disable == Some(false),
        "cannot be false: this console has no insights to enable. Leave it out, or set it to true",
    )
}

/// Reading projects.
#[derive(Default)]
pub(crate) struct ProjectQuery;

/// Reading projects.
#[Object]
impl ProjectQuery {
    /// One project, by id or by name.
    async fn project(&self, ctx: &Context<'_>, id: Option<ID>, name: Option<String>) -> Nullable<Project> {
        let by = id_or_name(id, name, ProjectSelector::Id, ProjectSelector::Name);
        one::<plural_core::project::Project, _>(ctx, by).await
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
        page_of::<plural_core::project::Project, _>(
            ctx,
            Ok(Search { q }),
            page_args(after, first, before, last),
        )
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
            let ProjectAttributes { name, description, disable_insights, read_bindings, write_bindings } =
                attributes;
            insights(disable_insights).into_graphql(ctx)?;
            let rbac = RbacAttributes { read_bindings, write_bindings, admin_bindings: None };
            let name = parse("attributes.name", &name).into_graphql(ctx)?;
            let new = NewProject { name, description, bindings: rbac.change().into_graphql(ctx)? };
            Ok(Some(request.app.project_create(&request.op, &new).await.into_graphql(ctx)?.into()))
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
            let ProjectAttributes { name, description, disable_insights, read_bindings, write_bindings } =
                attributes;
            insights(disable_insights).into_graphql(ctx)?;
            let rbac = RbacAttributes { read_bindings, write_bindings, admin_bindings: None };
            let name = parse_option("attributes.name", Some(&name)).into_graphql(ctx)?;
            let change = ProjectChange { name, description, bindings: rbac.change().into_graphql(ctx)? };
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(request.app.project_update(&request.op, id, &change).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Makes a project the one where things go that name none, for administrators of the installation. What is in the one before
    /// stays there.
    async fn set_default_project(&self, ctx: &Context<'_>, id: ID) -> Nullable<Project> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(request.app.project_make_default(&request.op, id).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes a project that holds nothing; the default one stays.
    async fn delete_project(&self, ctx: &Context<'_>, id: ID) -> Nullable<Project> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(request.app.project_delete(&request.op, id).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
