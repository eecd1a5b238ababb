//! What stacks have where they say nothing themselves: said for a project by its administrators, for the installation by those of that.
//! A run is made with what is said then; whatever is said later changes the runs that come.

use async_trait::async_trait;
use plural_core::Result;
use plural_core::access::Scope;
use plural_core::ids::ProjectId;
use plural_core::project::Project;
use plural_core::stack_settings::{JobDefaults, StackSettings};

use crate::access::{Admin, Audited, Installation, Read, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::project::ProjectSelector;

/// Settings of stacks that are no stack's own.
#[async_trait]
pub trait StackSettingsStore: Send + Sync + 'static {
    /// Those of a project, for whoever may read it and for the console itself.
    async fn project_stack_settings(&self, project: ProjectId) -> Result<StackSettings>;
    /// Those of the installation.
    async fn installation_stack_settings(&self) -> Result<StackSettings>;
    /// What both say of the Jobs of a project's stacks.
    async fn stack_job_defaults(&self, project: ProjectId) -> Result<JobDefaults>;
    /// Others for a project, in place of those so far.
    async fn project_stack_settings_set(
        &self,
        by: Audited<'_, Project, Admin>,
        settings: &StackSettings,
    ) -> Result<()>;
    /// Others for the installation, in place of those so far.
    async fn installation_stack_settings_set(
        &self,
        by: Audited<'_, Installation, Admin>,
        settings: &StackSettings,
    ) -> Result<()>;
}

impl App {
    /// What the stacks of a project have where they say nothing themselves.
    pub async fn project_stack_settings(
        &self,
        ctx: &OpCtx,
        selector: &ProjectSelector,
    ) -> Result<StackSettings> {
        let project = self.authorized::<Project, Read>(ctx, selector).await?;
        self.store.project_stack_settings(project.id).await
    }

    /// Sets what the stacks of a project have where they say nothing themselves, in place of what was said before; for its administrators.
    /// What the project's own limits do not allow is refused.
    pub async fn project_stack_settings_set(
        &self,
        ctx: &OpCtx,
        selector: &ProjectSelector,
        settings: &StackSettings,
    ) -> Result<Project> {
        settings.check()?;
        let project = self.authorized::<Project, Admin>(ctx, selector).await?;
        settings.check_limits(&project)?;
        let by = project.audited(ctx, "project.stack_settings");
        self.store.project_stack_settings_set(by, settings).await?;
        Ok(project.into_inner())
    }

    /// What is said besides of the Jobs of a project's stacks, as far as its limits let it count.
    pub(crate) async fn stack_job_said(&self, project: &Project) -> Result<JobDefaults> {
        Ok(self.store.stack_job_defaults(project.id).await?.within(&project.limits.of_runs()))
    }

    /// What all stacks have where neither they nor their projects say anything; for whoever is signed in.
    pub async fn stack_settings(&self, ctx: &OpCtx) -> Result<StackSettings> {
        authorize_installation::<Read>(ctx, Scope::Installation)?;
        self.store.installation_stack_settings().await
    }

    /// The same for administrators of the installation: a change that names nothing is one all the same.
    pub async fn stack_settings_unchanged(&self, ctx: &OpCtx) -> Result<StackSettings> {
        authorize_installation::<Admin>(ctx, Scope::Installation)?;
        self.store.installation_stack_settings().await
    }

    /// Sets what all stacks have where neither they nor their projects say anything, in place of what was said before; for administrators
    /// of the installation. The limits of each project hold when its stacks run.
    pub async fn stack_settings_set(&self, ctx: &OpCtx, settings: &StackSettings) -> Result<StackSettings> {
        settings.check()?;
        let by = authorize_installation::<Admin>(ctx, Scope::Installation)?;
        let by = by.audited(ctx, "installation.stack_settings");
        self.store.installation_stack_settings_set(by, settings).await?;
        Ok(settings.clone())
    }
}
