//! What the services of a project may touch: set by its administrators, checked here for where a service
//! is read from, and by agents for every object.

use plural_core::ids::{ClusterId, RepositoryId};
use plural_core::project::Project;
use plural_core::project_limits::ProjectLimits;
use plural_core::repository::Repository;
use plural_core::service::{Configuration, Reference, Rendering};
use plural_core::service_account::AccountRule;
use plural_core::specs::{KubeName, SyncConfig};
use plural_core::{Error, Result};

use crate::access::{Admin, Read};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::project::ProjectSelector;
use crate::repository::RepositorySelector;
use crate::source::SourceLimits;
use crate::sync::NamedLimits;

impl App {
    /// Limits what the services of a project may touch; empty limits allow everything.
    pub async fn project_limits_set(
        &self,
        ctx: &OpCtx,
        selector: &ProjectSelector,
        limits: &ProjectLimits,
    ) -> Result<Project> {
        limits.check()?;
        let project = self.authorized::<Project, Admin>(ctx, selector).await?;
        self.store.project_limits_set(project.audited(ctx, "project.limits"), limits).await
    }

    /// Refuses a service on this cluster that would be read from where its project may not, or act as whom it may not.
    pub(crate) async fn limits_allow(&self, ctx: &OpCtx, asks: &Asks<'_>) -> Result<()> {
        let Asks { cluster, namespace, repository, rendering, sync_config } = asks;
        let NamedLimits { project, limits } = self.store.cluster_limits(*cluster).await?;
        if rendering.managed_namespace.is_none() {
            let account = limits.account_of(sync_config.service_account.clone());
            let rule = AccountRule {
                own_namespace: namespace.as_str(),
                // Only the agent knows it, and holds to it.
                agent_namespace: None,
                limits: Some((&project, &limits)),
            };
            if let Some(problem) = rule.problem(account.as_deref()) {
                return Err(Error::forbidden(problem));
            }
        }
        if limits.repositories.is_empty() {
            return Ok(());
        }
        let mut urls: Vec<String> =
            repository.map(|repository| repository.url.to_string()).into_iter().collect();
        urls.extend(rendering.helm.iter().filter_map(|helm| helm.url.clone()));
        let mut further: Vec<RepositoryId> = rendering.repositories().collect();
        further.sort_unstable();
        further.dedup();
        for id in further {
            let repository = self.authorized::<Repository, Read>(ctx, &RepositorySelector::Id(id)).await?;
            urls.push(repository.url.to_string());
        }
        let sources = SourceLimits { project, repositories: limits.repositories, charts_of: None };
        match urls.iter().find_map(|url| sources.problem(url)) {
            None => Ok(()),
            Some(problem) => Err(Error::forbidden(problem)),
        }
    }

    /// Refuses a service in this namespace of this cluster whose configuration refers to what its project may not.
    pub(crate) async fn references_allow(
        &self,
        cluster: ClusterId,
        namespace: &KubeName,
        configuration: &Configuration,
    ) -> Result<()> {
        if configuration.references.is_empty() {
            return Ok(());
        }
        let NamedLimits { project, limits } = self.store.cluster_limits(cluster).await?;
        references_refused(namespace, Some((&project, &limits)), configuration)
    }
}

/// Refuses references that a service of this namespace may not have.
pub(crate) fn references_refused(
    namespace: &KubeName,
    limits: Option<(&str, &ProjectLimits)>,
    configuration: &Configuration,
) -> Result<()> {
    let refusal = |reference: &Reference| reference.refusal(namespace.as_str(), limits);
    configuration
        .references
        .values()
        .find_map(refusal)
        .map_or(Ok(()), |problem| Err(Error::forbidden(problem)))
}

/// What a service asks for that limits may refuse.
pub(crate) struct Asks<'a> {
    pub(crate) cluster: ClusterId,
    pub(crate) namespace: &'a KubeName,
    pub(crate) repository: Option<&'a Repository>,
    pub(crate) rendering: &'a Rendering,
    pub(crate) sync_config: &'a SyncConfig,
}
