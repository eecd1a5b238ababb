//! Projects.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::Result;
use plural_core::access::Scope;
use plural_core::ids::{ProjectId, ServiceId};
use plural_core::policy::Policy;
use plural_core::project::{NewProject, Project, ProjectChange};

use crate::access::{Admin, Audited, Bindable, Grant, Installation, Write, authorize_installation, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::policy;
use crate::records::{Search, record};

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

noun!(Project, "project", p => Some(p.id.uuid()), p.name.to_string(), project: p.id);
record!(Project, ProjectId, ProjectSelector, Search);

impl Bindable for Project {
    fn policy(&self) -> Policy {
        self.id.into()
    }
}

/// Projects.
#[async_trait]
pub trait ProjectStore: Send + Sync + 'static {
    /// A new project with its bindings.
    async fn project_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: ProjectId,
        new: &NewProject,
        grant: Option<&Grant>,
    ) -> Result<Project>;
    /// A changed project with its bindings.
    async fn project_update(
        &self,
        by: Audited<'_, Project, Write>,
        change: &ProjectChange,
        grant: Option<&Grant>,
    ) -> Result<Project>;
    /// Has agents look up services again that are on a project's clusters: at most `limit` of those after a service, in the order
    /// of their ids. The last one, when there may be more.
    async fn project_services_renew(
        &self,
        id: ProjectId,
        after: Option<ServiceId>,
        limit: u64,
        at: DateTime<Utc>,
    ) -> Result<Option<ServiceId>>;
    /// Makes a project the default one, in place of the one before.
    async fn project_make_default(&self, by: Audited<'_, Project, Write>) -> Result<Project>;
    /// Removes an empty project; refuses the default one.
    async fn project_delete(&self, by: Audited<'_, Project, Admin>) -> Result<()>;
}

impl App {
    /// A new project; administrators only.
    pub async fn project_create(&self, ctx: &OpCtx, new: &NewProject) -> Result<Project> {
        let by = authorize_installation::<Write>(ctx, Scope::Installation)?;
        let id = ProjectId::new();
        let grant = if new.bindings.is_empty() {
            None
        } else {
            let parent = authorize_installation(ctx, Scope::Installation);
            Some(policy::grant(ctx, parent, id, &new.bindings)?)
        };
        let by = by.audited_new(ctx, "project.create", "project", id, &new.name);
        self.store.project_create(by, id, new, grant.as_ref()).await
    }

    /// A changed project; its bindings need admin access to it.
    pub async fn project_update(
        &self,
        ctx: &OpCtx,
        id: ProjectId,
        change: &ProjectChange,
    ) -> Result<Project> {
        let selector = ProjectSelector::Id(id);
        let grant = if change.bindings.is_empty() {
            None
        } else {
            Some(Grant::on(&self.authorized::<Project, _>(ctx, &selector).await?, ctx, &change.bindings)?)
        };
        let project = self.authorized::<Project, Write>(ctx, &selector).await?;
        let by = project.audited(ctx, "project.update");
        let project = self.store.project_update(by, change, grant.as_ref()).await?;
        if grant.is_some() {
            self.proxy.access_changed();
        }
        Ok(project)
    }

    /// Makes a project the one where things go that name none; administrators of the installation only. What is in the project before
    /// stays there.
    pub async fn project_make_default(&self, ctx: &OpCtx, id: ProjectId) -> Result<Project> {
        let project = self.authorized::<Project, Write>(ctx, &ProjectSelector::Id(id)).await?;
        // It concerns whoever names no project, not only who is in this one.
        authorize_installation::<Write>(ctx, Scope::Installation)?;
        if project.default {
            return Ok(project.into_inner());
        }
        self.store.project_make_default(project.audited(ctx, "project.make_default")).await
    }

    /// Removes an empty project.
    pub async fn project_delete(&self, ctx: &OpCtx, id: ProjectId) -> Result<Project> {
        let project = self.authorized::<Project, _>(ctx, &ProjectSelector::Id(id)).await?;
        self.store.project_delete(project.audited(ctx, "project.delete")).await?;
        Ok(project.into_inner())
    }
}
