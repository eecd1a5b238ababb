//! What services wait for.

use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use plural_app::service::ServiceSelector;
use plural_core::dependency::{DependencyRef, ServiceLinks};
use plural_core::{Error, Result};

use super::{
    error::{IntoGraphql, List, Nullable, id, items, nullable},
    limited::limited,
    request::request,
    service::{ServiceDeployment, ServiceDeploymentStatus},
    service_context::{ContextBindingAttributes, ServiceContext},
    service_import::{ServiceImport, ServiceImportAttributes},
};

/// A service that has to be healthy before another one gets a new revision.
#[derive(Debug, InputObject)]
pub(crate) struct ServiceDependencyAttributes {
    /// Its name; `CLUSTER/NAME` is on another cluster.
    name: String,
    /// Handle of its cluster, when it is another one.
    cluster: Option<String>,
}

impl ServiceDependencyAttributes {
    fn parse(self) -> Result<DependencyRef> {
        let Self { name, cluster } = self;
        let name = cluster.map_or_else(|| name.clone(), |cluster| format!("{cluster}/{name}"));
        name.parse().map_err(|error| {
            Error::invalid(
                "attributes.dependencies.name",
                format!("{name:?} is not NAME or CLUSTER/NAME: {error}"),
            )
        })
    }
}

impl ServiceDependencyAttributes {
    /// Its name, where the cluster is whichever the service is on. It may be a template.
    pub(super) fn same_cluster(self) -> Result<String> {
        let Self { name, cluster } = self;
        if cluster.is_some() || name.contains('/') {
            return Err(Error::invalid(
                "attributes.template.dependencies",
                "must be names of services on the instance's own cluster",
            ));
        }
        Ok(name)
    }
}

/// What a service is tied to, as it was given.
pub(crate) fn links(
    dependencies: List<ServiceDependencyAttributes>,
    contexts: List<ContextBindingAttributes>,
    imports: List<ServiceImportAttributes>,
) -> Result<ServiceLinks> {
    let dependencies = items(dependencies)
        .map(|all| all.into_iter().map(ServiceDependencyAttributes::parse).collect())
        .transpose()?;
    let contexts = items(contexts)
        .map(|all| all.into_iter().map(ContextBindingAttributes::parse).collect::<Result<_>>())
        .transpose()?;
    let imports = items(imports).map(ServiceImportAttributes::parse_all).transpose()?;
    Ok(ServiceLinks { dependencies, contexts, imports })
}

/// A service that another one depends on. It need not exist yet.
#[derive(Debug, SimpleObject)]
pub(crate) struct ServiceDependency {
    /// Id.
    id: ID,
    /// Its name.
    name: String,
    /// Handle of its cluster.
    cluster: Option<String>,
    /// How it fares; absent while there is no such service.
    status: Option<ServiceDeploymentStatus>,
    /// Nothing waits for it: it is healthy at its current revision.
    healthy: Option<bool>,
    /// What it is waited for, in words.
    message: Option<String>,
}

impl From<plural_core::dependency::Dependency> for ServiceDependency {
    fn from(dependency: plural_core::dependency::Dependency) -> Self {
        let message = dependency.obstacle();
        let plural_core::dependency::Dependency { id, on, service_id: _, standing } = dependency;
        Self {
            id: id.to_string().into(),
            name: on.name.into(),
            cluster: Some(on.cluster),
            status: standing.map(|standing| standing.status.into()),
            healthy: Some(message.is_none()),
            message,
        }
    }
}

/// What a deletion takes with it.
#[derive(SimpleObject)]
pub(crate) struct ServiceDeletion {
    /// The services, in the order in which they go: each with its objects in `components`.
    services: List<ServiceDeployment>,
    /// Services that depend on it and that you may not see: it cannot be deleted with cascade then.
    hidden: Option<usize>,
    /// Services that would go and are not listed because there are too many.
    omitted: Option<usize>,
}

/// Asking before a deletion.
#[derive(Default)]
pub(crate) struct DeletionQuery;

/// Asking before a deletion.
#[Object]
impl DeletionQuery {
    /// What `deleteServiceDeployment` would take away.
    async fn service_deletion(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
        #[graphql(desc = "With what depends on it.")] cascade: Option<bool>,
    ) -> Nullable<ServiceDeletion> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            let cascade = cascade.unwrap_or(false);
            let found =
                request.app.service_deletion(&request.op, &selector, cascade).await.into_graphql(ctx)?;
            let plural_app::dependency::ServiceDeletion { services, hidden, omitted } = found;
            let services = limited(ctx, services.into_iter().map(Into::into));
            Ok(Some(ServiceDeletion { services, hidden: Some(hidden), omitted: Some(omitted) }))
        })
        .await
    }
}

/// What a service is tied to.
pub(crate) struct Links(pub(crate) plural_core::ids::ServiceId);

/// What a service is tied to.
#[Object]
impl Links {
    /// What it depends on: a new revision of it waits until all of that is healthy.
    async fn dependencies(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<ServiceDependency>>> {
        nullable(async {
            let request = request(ctx);
            let look_up = async |ids: Vec<_>| {
                request.app.services_dependencies(&request.op, &ids).await.into_graphql(ctx)
            };
            let found = request.batches.dependencies.get(self.0, look_up).await?.unwrap_or_default();
            Ok(limited(ctx, found.into_iter().map(Into::into)))
        })
        .await
    }

    /// The contexts that its templates read, as far as you may see them.
    async fn contexts(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<ServiceContext>>> {
        nullable(async {
            let request = request(ctx);
            let look_up =
                async |ids: Vec<_>| request.app.services_contexts(&request.op, &ids).await.into_graphql(ctx);
            let found = request.batches.contexts.get(self.0, look_up).await?.unwrap_or_default();
            Ok(limited(ctx, found.into_iter().map(Into::into)))
        })
        .await
    }

    /// The stacks whose outputs its templates read, as far as you may see them.
    async fn imports(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<ServiceImport>>> {
        nullable(async {
            let request = request(ctx);
            let look_up =
                async |ids: Vec<_>| request.app.services_imports(&request.op, &ids).await.into_graphql(ctx);
            let found = request.batches.imports.get(self.0, look_up).await?.unwrap_or_default();
            Ok(limited(ctx, found.into_iter().map(Into::into)))
        })
        .await
    }

    /// The services that depend on it, as far as you may see them: the oldest hundred.
    async fn dependents(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<ServiceDeployment>>> {
        nullable(async {
            let request = request(ctx);
            let look_up = async |ids: Vec<_>| {
                request.app.services_dependents(&request.op, &ids).await.into_graphql(ctx)
            };
            let found = request.batches.dependents.get(self.0, look_up).await?.unwrap_or_default();
            Ok(limited(ctx, found.into_iter().map(Into::into)))
        })
        .await
    }
}
