//! Defaults of stacks: settings of their project, and of the installation.

use std::borrow::Cow;

use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use plural_app::project::ProjectSelector;
use plural_core::ids::ProjectId;
use plural_core::stack_settings::StackSettings as Core;
use plural_core::{Error, Result};

use super::{
    error::{IntoGraphql, Nullable, id, nullable, unsupported},
    project::Project,
    request::request,
    stack_spec::JobGateSpec,
    stack_spec_input::GateJobAttributes,
};

/// Defaults of stacks.
#[derive(SimpleObject)]
pub(crate) struct StackSettings {
    /// The Kubernetes Jobs of their runs: each field comes from the stack, else from its project, else from the installation.
    job_spec: Option<JobGateSpec>,
}

impl From<Core> for StackSettings {
    fn from(settings: Core) -> Self {
        let Core { job } = settings;
        Self { job_spec: Some(job.into()) }
    }
}

/// Settings of the installation.
#[derive(SimpleObject)]
pub(crate) struct DeploymentSettings {
    /// Defaults of all stacks, below the settings of stacks and projects.
    stacks: Option<StackSettings>,
}

impl From<Core> for DeploymentSettings {
    fn from(stacks: Core) -> Self {
        Self { stacks: Some(stacks.into()) }
    }
}

/// Defaults of stacks: replaces the previous ones as a whole.
#[derive(Debug, InputObject)]
pub(crate) struct StackSettingsAttributes {
    /// The Kubernetes Jobs of their runs. Absent fields have no default.
    job_spec: Option<GateJobAttributes>,
    /// Refused: stacks have no connection of their own.
    connection_id: Option<ID>,
}

impl StackSettingsAttributes {
    fn parse(self) -> Result<Core> {
        let Self { job_spec, connection_id } = self;
        unsupported(
            "attributes.connectionId",
            connection_id.is_some_and(|id| !id.is_empty()),
            "is not supported: stacks have no connection of their own. Leave it out",
        )?;
        let mut settings = Core::default();
        if let Some(job) = job_spec {
            job.over(&mut settings.job)?;
        }
        Ok(settings)
    }
}

/// Settings of the installation. What is absent stays as it is.
#[derive(Debug, InputObject)]
pub(crate) struct DeploymentSettingsAttributes {
    /// Defaults of all stacks, below the settings of stacks and projects; replaces the previous ones.
    stacks: Option<StackSettingsAttributes>,
}

/// Defaults of the stacks of a project.
pub(super) async fn settings_of(
    ctx: &Context<'_>,
    project: ProjectId,
) -> async_graphql::Result<Option<StackSettings>> {
    let request = request(ctx);
    let selector = ProjectSelector::Id(project);
    let settings = request.app.project_stack_settings(&request.op, &selector).await.into_graphql(ctx)?;
    Ok(Some(settings.into()))
}

/// An error with the name of its field in the settings of the installation.
fn among_stacks(error: Error) -> Error {
    match error {
        Error::Invalid { field, reason } => {
            let named = field.strip_prefix("attributes.").map(|rest| format!("attributes.stacks.{rest}"));
            Error::Invalid { field: named.map_or(field, Cow::Owned), reason }
        }
        error => error,
    }
}

/// Reading settings of stacks.
#[derive(Default)]
pub(crate) struct StackSettingsQuery;

/// Reading settings of stacks.
#[Object]
impl StackSettingsQuery {
    /// Settings of the installation.
    async fn deployment_settings(&self, ctx: &Context<'_>) -> Nullable<DeploymentSettings> {
        nullable(async {
            let request = request(ctx);
            let settings = request.app.stack_settings(&request.op).await.into_graphql(ctx)?;
            Ok(Some(settings.into()))
        })
        .await
    }
}

/// Changing settings of stacks.
#[derive(Default)]
pub(crate) struct StackSettingsMutation;

/// Changing settings of stacks.
#[Object]
impl StackSettingsMutation {
    /// Replaces the defaults of the stacks of a project. They apply to runs that are created from then on.
    /// For administrators of the project.
    async fn set_project_stack_settings(
        &self,
        ctx: &Context<'_>,
        project_id: ID,
        attributes: StackSettingsAttributes,
    ) -> Nullable<Project> {
        nullable(async {
            let request = request(ctx);
            let selector = ProjectSelector::Id(id(&project_id).into_graphql(ctx)?);
            let settings = attributes.parse().into_graphql(ctx)?;
            let set = request.app.project_stack_settings_set(&request.op, &selector, &settings).await;
            Ok(Some(set.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Changes settings of the installation; for its administrators. Defaults of stacks apply to runs that are created from then on.
    async fn update_deployment_settings(
        &self,
        ctx: &Context<'_>,
        attributes: DeploymentSettingsAttributes,
    ) -> Nullable<DeploymentSettings> {
        nullable(async {
            let request = request(ctx);
            let DeploymentSettingsAttributes { stacks } = attributes;
            let settings = match stacks {
                Some(stacks) => {
                    let settings = stacks.parse().map_err(among_stacks).into_graphql(ctx)?;
                    request.app.stack_settings_set(&request.op, &settings).await.map_err(among_stacks)
                }
                None => request.app.stack_settings_unchanged(&request.op).await,
            };
            Ok(Some(settings.into_graphql(ctx)?.into()))
        })
        .await
    }
}
