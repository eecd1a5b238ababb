//! Managed namespaces.

use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::managed_namespace::ManagedNamespaceSelector;
use plural_app::records::Search;
use plural_specs::Map;

use super::{
    cluster::{Cluster, ClusterDistro},
    error::{IntoGraphql, List, Nullable, id_or_name, list, nullable},
    global_service::{CascadeSettings, ServiceTemplate, service_template},
    managed_namespace_input::ManagedNamespaceAttributes,
    page::{connection, page_args},
    project::Project,
    record::{by_id, one, page_of},
    request::request,
    service::ServiceDeploymentStatus,
};

/// One namespace on every cluster that it targets.
pub(crate) struct ManagedNamespace(plural_core::managed_namespace::ManagedNamespace);

/// How a managed namespace is on its clusters.
#[derive(Debug, Clone, Copy, SimpleObject)]
pub(crate) struct ManagedNamespaceCounts {
    /// So many clusters have it.
    all: u64,
    /// On so many it is as it should be.
    synced: u64,
    /// On so many it, or the service in it, is on its way out.
    leaving: u64,
}

impl From<plural_app::managed_namespace::NamespaceCounts> for ManagedNamespaceCounts {
    fn from(counts: plural_app::managed_namespace::NamespaceCounts) -> Self {
        let plural_app::managed_namespace::NamespaceCounts { all, synced, leaving } = counts;
        Self { all, synced, leaving }
    }
}

impl From<plural_core::managed_namespace::ManagedNamespace> for ManagedNamespace {
    fn from(managed: plural_core::managed_namespace::ManagedNamespace) -> Self {
        Self(managed)
    }
}

connection!(ManagedNamespaceConnection, ManagedNamespaceEdge, ManagedNamespace);

/// Which clusters are meant: those that have all of it.
#[derive(SimpleObject)]
pub(crate) struct ClusterTarget {
    /// Tags.
    tags: Option<Map>,
    /// The distribution.
    distro: Option<ClusterDistro>,
}

/// How a managed namespace is on one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::managed_namespace::ManagedNamespaceState")]
pub(crate) enum ManagedNamespaceState {
    /// It is there as it should be, and so is its service.
    Synced,
    /// Its agent, or a person who must approve, has something to do.
    Waiting,
    /// Something is wrong; the errors of its services say what.
    Error,
}

/// A managed namespace on one cluster.
pub(crate) struct ManagedNamespaceInstance(plural_app::managed_namespace::NamespaceInstance);

impl From<plural_app::managed_namespace::NamespaceInstance> for ManagedNamespaceInstance {
    fn from(instance: plural_app::managed_namespace::NamespaceInstance) -> Self {
        Self(instance)
    }
}

connection!(ManagedNamespaceInstanceConnection, ManagedNamespaceInstanceEdge, ManagedNamespaceInstance);

/// A managed namespace on one cluster.
#[Object]
impl ManagedNamespaceInstance {
    /// How it is.
    async fn state(&self) -> ManagedNamespaceState {
        self.0.state().into()
    }

    /// It is on its way out: its objects go when somebody approves.
    async fn leaving(&self) -> bool {
        self.0.holder.iter().chain(&self.0.service).any(|one| one.deleted)
    }

    /// Id of the service that holds the namespace there.
    async fn namespace_id(&self) -> Option<ID> {
        self.0.holder.as_ref().map(|holder| holder.service_id.to_string().into())
    }

    /// How that fares.
    async fn namespace_status(&self) -> Option<ServiceDeploymentStatus> {
        self.0.holder.as_ref().map(|holder| holder.status.into())
    }

    /// Id of the service in it.
    async fn service_id(&self) -> Option<ID> {
        self.0.service.as_ref().map(|service| service.service_id.to_string().into())
    }

    /// How that fares.
    async fn service_status(&self) -> Option<ServiceDeploymentStatus> {
        self.0.service.as_ref().map(|service| service.status.into())
    }

    /// Its cluster.
    async fn cluster(&self, ctx: &Context<'_>) -> Nullable<Cluster> {
        nullable(by_id::<plural_core::cluster::Cluster, _>(ctx, self.0.cluster_id)).await
    }
}

/// One namespace on every cluster that it targets.
#[Object]
impl ManagedNamespace {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Name, unique.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// What the namespace is called in its clusters.
    async fn namespace(&self) -> &str {
        self.0.namespace.as_str()
    }

    /// For people.
    async fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// Labels that it has at least.
    async fn labels(&self) -> Option<Map> {
        Some(self.0.spec.content.labels.clone().into())
    }

    /// Annotations that it has at least.
    async fn annotations(&self) -> Option<Map> {
        Some(self.0.spec.content.annotations.clone().into())
    }

    /// Secrets in it that its default ServiceAccount pulls images with; absent when that account is left alone.
    async fn pull_secrets(&self) -> List<String> {
        self.0.spec.content.pull_secrets.clone().and_then(list)
    }

    /// The service in it.
    async fn service(&self, ctx: &Context<'_>) -> Nullable<ServiceTemplate> {
        nullable(async {
            match self.0.service.clone() {
                Some((_, template)) => service_template(ctx, template).await.map(Some),
                None => Ok(None),
            }
        })
        .await
    }

    /// Which clusters are meant.
    async fn target(&self) -> Option<ClusterTarget> {
        let target = &self.0.spec.target;
        Some(ClusterTarget { tags: Some(target.tags.clone().into()), distro: target.distro.map(Into::into) })
    }

    /// What becomes of it on clusters that are no longer meant.
    async fn cascade(&self) -> Option<CascadeSettings> {
        Some(self.0.spec.cascade.into())
    }

    /// The project whose clusters are meant; absent when all are.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// What it says now has been seen to: every cluster that it targets was told.
    async fn spread(&self) -> bool {
        self.0.spread
    }

    /// Why it could not be spread everywhere.
    async fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// On how many clusters it is, and how. A deploy token is not told.
    async fn instance_counts(&self, ctx: &Context<'_>) -> Nullable<ManagedNamespaceCounts> {
        nullable(async {
            let request = request(ctx);
            let look_up = async |ids: Vec<_>| {
                request.app.managed_namespaces_counts(&request.op, &ids).await.into_graphql(ctx)
            };
            Ok(request.batches.namespace_counts.get(self.0.id, look_up).await?.map(Into::into))
        })
        .await
    }

    /// How it is on each cluster.
    async fn instances(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<ManagedNamespaceInstanceConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            let look_up = async |ids: Vec<_>| {
                request.app.managed_namespaces_instances(&request.op, &ids, &page).await.into_graphql(ctx)
            };
            let found = request.batches.namespace_instances.of(&page).get(self.0.id, look_up).await?;
            Ok(found.map(Into::into))
        })
        .await
    }

    /// Set while its namespaces are let go.
    async fn deleted_at(&self) -> Option<DateTime<Utc>> {
        self.0.deleted_at
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// Reading managed namespaces.
#[derive(Default)]
pub(crate) struct ManagedNamespaceQuery;

/// Reading managed namespaces.
#[Object]
impl ManagedNamespaceQuery {
    /// One managed namespace, by id or by name.
    async fn managed_namespace(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        name: Option<String>,
    ) -> Nullable<ManagedNamespace> {
        let by = id_or_name(id, name, ManagedNamespaceSelector::Id, ManagedNamespaceSelector::Name);
        one::<plural_core::managed_namespace::ManagedNamespace, _>(ctx, by).await
    }

    /// The managed namespaces that you may see.
    async fn managed_namespaces(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<ManagedNamespaceConnection> {
        page_of::<plural_core::managed_namespace::ManagedNamespace, _>(
            ctx,
            Ok(Search { q }),
            page_args(after, first, before, last),
        )
        .await
    }

    /// Those that the cluster has whose deploy token asks.
    async fn cluster_managed_namespaces(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<ManagedNamespaceConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            let found = request.app.managed_namespace_list_of_cluster(&request.op, &page).await;
            Ok(Some(found.into_graphql(ctx)?.into()))
        })
        .await
    }
}

/// Changing managed namespaces.
#[derive(Default)]
pub(crate) struct ManagedNamespaceMutation;

/// Changing managed namespaces.
#[Object]
impl ManagedNamespaceMutation {
    /// Puts a namespace on every cluster that it targets.
    async fn create_managed_namespace(
        &self,
        ctx: &Context<'_>,
        attributes: ManagedNamespaceAttributes,
    ) -> Nullable<ManagedNamespace> {
        nullable(async {
            let request = request(ctx);
            let contexts = request.app.contexts_named(&request.op, &attributes.context_names()).await;
            let new = attributes.new_namespace(contexts.into_graphql(ctx)?).into_graphql(ctx)?;
            Ok(Some(request.app.managed_namespace_create(&request.op, new).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Changes a managed namespace; what is absent stays as it is.
    async fn update_managed_namespace(
        &self,
        ctx: &Context<'_>,
        id: ID,
        attributes: ManagedNamespaceAttributes,
    ) -> Nullable<ManagedNamespace> {
        nullable(async {
            let request = request(ctx);
            let selector = ManagedNamespaceSelector::Id(super::error::id(&id).into_graphql(ctx)?);
            let current = request
                .app
                .get::<plural_core::managed_namespace::ManagedNamespace>(&request.op, &selector)
                .await
                .into_graphql(ctx)?;
            let contexts = request.app.contexts_named(&request.op, &attributes.context_names()).await;
            let change = attributes.change(&current, contexts.into_graphql(ctx)?).into_graphql(ctx)?;
            let changed = Box::pin(request.app.managed_namespace_update(&request.op, &selector, change));
            Ok(Some(changed.await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Lets its namespaces go, as its cascade says, and then removes it.
    async fn delete_managed_namespace(&self, ctx: &Context<'_>, id: ID) -> Nullable<ManagedNamespace> {
        nullable(async {
            let request = request(ctx);
            let selector = ManagedNamespaceSelector::Id(super::error::id(&id).into_graphql(ctx)?);
            Ok(Some(
                request.app.managed_namespace_delete(&request.op, &selector).await.into_graphql(ctx)?.into(),
            ))
        })
        .await
    }
}
