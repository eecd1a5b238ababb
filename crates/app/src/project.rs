//! Projects.

use async_trait::async_trait;
use plural_core::access::{Actor, Scope, Visibility, visibility};
use plural_core::{
    BindingsChange, NewProject, Page, PageArgs, PageRequest, Project, ProjectChange, ProjectId, Result,
};

use crate::access::{
    Act, Admin, Audited, Authorized, Grant, Guarded, Installation, Read, Write, authorize_installation,
};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::policy;

/// Which project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectSelector {
    /// By id.
    Id(ProjectId),
    /// By exact name.
    Name(String),
    /// The default one.
    Default,
}

/// Projects.
#[async_trait]
pub trait ProjectStore: Send + Sync + 'static {
    /// One project, guarded by its bindings that concern `actor`.
    async fn project_for(&self, actor: &Actor, selector: &ProjectSelector) -> Result<Guarded<Project>>;
    /// Visible projects whose name contains `q`.
    async fn project_list(
        &self,
        visibility: &Visibility,
        q: Option<&str>,
        page: &PageRequest,
    ) -> Result<Page<Project>>;
    /// A new project with its bindings.
    async fn project_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: ProjectId,
        new: &NewProject,
        grant: &Grant,
    ) -> Result<Project>;
    /// A changed project.
    async fn project_update(
        &self,
        by: Audited<'_, Project, Write>,
        change: &ProjectChange,
    ) -> Result<Project>;
    /// Removes an empty project; refuses the default one.
    async fn project_delete(&self, by: Audited<'_, Project, Admin>) -> Result<()>;
}

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
            policy::grant(ctx, parent, id, access)?
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
