//! What a pull request is about. Whoever edits its text may claim anything: it is believed only where the service, stack or cluster that it
//! names reads this very repository, in the project of the record.

use plural_core::cluster::Cluster;
use plural_core::ids::{ClusterId, ProjectId, RepositoryId};
use plural_core::pull_request_life::{PrLinks, PrMarkers};
use plural_core::scm_connection::ScmConnection;
use plural_core::service::Service;
use plural_core::specs::{Handle, KubeName};
use plural_core::stack::Stack;
use plural_core::{PageArgs, Result};

use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ports::git_hosts::HostPull;
use crate::records::there;
use crate::service::{ServiceFilter, ServiceSelector};
use crate::stack::StackSelector;

impl App {
    /// What one says that it is about, as far as that is believed in this project; without one, in the project of the first that is.
    pub(crate) async fn pull_request_links(
        &self,
        connection: &ScmConnection,
        slug: &str,
        project: Option<ProjectId>,
        pull: &HostPull,
    ) -> Result<(Option<ProjectId>, PrLinks)> {
        let mut found = (project, PrLinks::default());
        let markers = PrMarkers::of(&pull.title, &pull.body);
        if markers.is_empty() {
            return Ok(found);
        }
        let PrMarkers { service, stack, cluster } = markers;
        let repositories = self.scm_repositories(connection, slug).await?;
        if repositories.is_empty() {
            return Ok(found);
        }
        // The connection of a project speaks for what is in it.
        let is_of = |known: Option<ProjectId>, own: ProjectId| {
            connection.project_id.is_none_or(|of| of == own) && known.is_none_or(|known| known == own)
        };
        if let Some((cluster, name)) = service
            && let Some((own, service)) = self.linked_service(cluster, name, &repositories).await?
            && is_of(found.0, own)
        {
            found.0 = Some(own);
            found.1.service = Some(service.id);
        }
        if let Some(name) = stack
            && let Some(stack) =
                there(self.get::<Stack>(&self.system_ctx(), &StackSelector::Name(name)).await)?
            && stack.source.as_ref().is_some_and(|source| repositories.contains(&source.repository_id))
            && is_of(found.0, stack.project_id)
        {
            found.0 = Some(stack.project_id);
            found.1.stack = Some(stack.id);
        }
        if let Some(handle) = cluster
            && let Some(cluster) = self.linked_cluster(handle).await?
            && is_of(found.0, cluster.project_id)
            && self.is_read_on(cluster.id, &repositories).await?
        {
            found.0 = Some(cluster.project_id);
            found.1.cluster = Some(cluster.id);
        }
        Ok(found)
    }

    /// A service that reads one of these, with its project.
    async fn linked_service(
        &self,
        cluster: Handle,
        name: KubeName,
        repositories: &[RepositoryId],
    ) -> Result<Option<(ProjectId, Service)>> {
        let by = ServiceSelector::Handle(cluster.clone(), name);
        let Some(service) = there(self.get::<Service>(&self.system_ctx(), &by).await)? else {
            return Ok(None);
        };
        // Its own, its chart's, or one of its further sources.
        let is_read = |id: RepositoryId| repositories.contains(&id);
        if !service.repository_id.into_iter().chain(service.rendering.repositories()).any(is_read) {
            return Ok(None);
        }
        Ok(self.linked_cluster(cluster).await?.map(|cluster| (cluster.project_id, service)))
    }

    async fn linked_cluster(&self, handle: Handle) -> Result<Option<Cluster>> {
        there(self.get::<Cluster>(&self.system_ctx(), &ClusterSelector::Handle(handle)).await)
    }

    /// Whether a service on this cluster reads one of these.
    async fn is_read_on(&self, cluster: ClusterId, repositories: &[RepositoryId]) -> Result<bool> {
        let one = PageArgs { first: Some(1), ..PageArgs::default() };
        for repository in repositories {
            let on = ServiceFilter {
                cluster_id: Some(cluster),
                repository_id: Some(*repository),
                ..ServiceFilter::default()
            };
            if !self.list::<Service>(&self.system_ctx(), &on, &one).await?.edges.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
