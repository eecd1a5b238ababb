//! What the services of a project may touch: set by its administrators, checked here for where a service
//! is read from, and by agents for every object.

use plural_core::{ClusterId, Error, Project, ProjectLimits, Rendering, Repository, RepositoryId, Result};

use crate::access::{Admin, Read};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::ports::{ProjectSelector, RepositorySelector};

impl App {
    /// Limits what the services of a project may touch; empty limits allow everything.
    pub async fn project_limits_set(
        &self,
        ctx: &OpCtx,
        selector: &ProjectSelector,
        limits: &ProjectLimits,
    ) -> Result<Project> {
        limits.check()?;
        let project = self.project_for::<Admin>(ctx, selector).await?;
        self.store.project_limits_set(project.audited(ctx, "project.limits"), limits).await
    }

    /// Refuses a service on this cluster that would be read from where its project may not.
    pub(crate) async fn sources_allowed(
        &self,
        ctx: &OpCtx,
        cluster: ClusterId,
        repository: Option<&Repository>,
        rendering: &Rendering,
    ) -> Result<()> {
        let named = self.store.cluster_limits(cluster).await?;
        if named.limits.repositories.is_empty() {
            return Ok(());
        }
        let mut urls: Vec<String> =
            repository.map(|repository| repository.url.to_string()).into_iter().collect();
        urls.extend(rendering.helm.iter().filter_map(|helm| helm.url.clone()));
        let mut further: Vec<RepositoryId> = rendering.repositories().collect();
        further.sort_unstable();
        further.dedup();
        for id in further {
            let repository = self.repository_for::<Read>(ctx, &RepositorySelector::Id(id)).await?;
            urls.push(repository.url.to_string());
        }
        match named.limits.refused_source(urls.iter().map(String::as_str)) {
            None => Ok(()),
            Some(url) => Err(Error::forbidden(format!(
                "services of project {} may not be read from {url}; its administrators set from where they may",
                named.project
            ))),
        }
    }
}
