//! Projects.

use plural_core::access::{Scope, visibility};
use plural_core::{BindingTarget, NewProject, Page, PageArgs, Project, ProjectChange, ProjectId, Result};

use crate::access::{Act, Authorized, Grant, Read, Write, authorize_installation};
use crate::app::App;
use crate::binding::{self, BindingsChange};
use crate::ctx::OpCtx;
use crate::ports::ProjectSelector;

impl App {
    pub(crate) async fn project_for<A: Act>(
        &self,
        ctx: &OpCtx,
        selector: &ProjectSelector,
    ) -> Result<Authorized<Project, A>> {
        self.store.project_for(ctx.actor(), selector).await?.authorize(ctx)
    }

    /// One project.
    pub async fn project_get(&self, ctx: &OpCtx, selector: &ProjectSelector) -> Result<Project> {
        Ok(self.project_for::<Read>(ctx, selector).await?.into_inner())
    }

    /// Visible projects whose name contains `q`.
    pub async fn project_list(&self, ctx: &OpCtx, q: Option<&str>, page: &PageArgs) -> Result<Page<Project>> {
        self.store.project_list(&visibility(ctx.actor())?, q, &page.request()?).await
    }

    /// A new project; administrators only.
    pub async fn project_create(&self, ctx: &OpCtx, new: &NewProject) -> Result<Project> {
        self.project_create_bound(ctx, new, BindingsChange::default()).await
    }

    /// [`Self::project_create`] with the project's bindings.
    pub async fn project_create_bound(
        &self,
        ctx: &OpCtx,
        new: &NewProject,
        access: BindingsChange,
    ) -> Result<Project> {
        let by = authorize_installation::<Write>(ctx, Scope::Installation)?;
        let id = ProjectId::new();
        let grant = if access.is_empty() {
            Grant::none()
        } else {
            let parent = authorize_installation(ctx, Scope::Installation);
            binding::grant(ctx, parent, BindingTarget::Project(id), access)?
        };
        let by = by.audited_new(ctx, "project.create", "project", id, &new.name);
        self.store.project_create(by, id, new, &grant).await
    }

    /// A changed project.
    pub async fn project_update(
        &self,
        ctx: &OpCtx,
        id: ProjectId,
        change: &ProjectChange,
    ) -> Result<Project> {
        let project = self.project_for::<Write>(ctx, &ProjectSelector::Id(id)).await?;
        self.store.project_update(project.audited(ctx, "project.update"), change).await
    }

    /// Removes an empty project.
    pub async fn project_delete(&self, ctx: &OpCtx, id: ProjectId) -> Result<Project> {
        let project = self.project_for(ctx, &ProjectSelector::Id(id)).await?;
        self.store.project_delete(project.audited(ctx, "project.delete")).await?;
        Ok(project.into_inner())
    }
}
