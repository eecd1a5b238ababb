//! Projects.

use plural_core::access::{Scope, visibility};
use plural_core::{NewProject, Page, PageArgs, Project, ProjectChange, ProjectId, Result};

use crate::access::{Act, Authorized, Read, Write, authorize_installation};
use crate::app::App;
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
        let by = authorize_installation::<Write>(ctx, Scope::Installation)?;
        let id = ProjectId::new();
        self.store
            .project_create(by.audited_new(ctx, "project.create", "project", id, &new.name), id, new)
            .await
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
