//! Services: which of them, in which order, and how many of them are where and how.

use async_graphql::{Context, Enum, ID, InputObject, Object};
use plural_app::service::ServiceFilter;
use plural_app::service_context::ServiceContextSelector;
use plural_core::service::ServiceColumn;
use plural_core::sort::Sort;

use super::{
    cluster::Cluster,
    cluster_list::ProjectCount,
    error::{IntoGraphql, Nullable, exactly_one, id_option, nullable},
    page::{counted, counts, page_args},
    record::{by_id, page_in, page_of},
    request::request,
    service::{ServiceDeploymentConnection, ServiceDeploymentStatus, by_handle},
    service_status::ServiceStatusCount,
};

/// What services are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::service::ServiceColumn")]
pub(crate) enum ServiceSortField {
    /// The name.
    Name,
    /// The status: what needs somebody comes first.
    Status,
    /// When it was last changed.
    UpdatedAt,
}

/// The order of a list of services.
#[derive(Debug, Clone, Copy, InputObject)]
pub(crate) struct ServiceSort {
    /// By what.
    by: ServiceSortField,
    /// The other way round: the greatest first.
    descending: Option<bool>,
}

impl From<ServiceSort> for Sort<ServiceColumn> {
    fn from(sort: ServiceSort) -> Self {
        Self { column: sort.by.into(), descending: sort.descending == Some(true) }
    }
}

/// How many services are on a cluster.
pub(crate) struct ServiceClusterCount {
    cluster: plural_core::ids::ClusterId,
    count: u64,
}

impl From<(plural_core::ids::ClusterId, u64)> for ServiceClusterCount {
    fn from((cluster, count): (plural_core::ids::ClusterId, u64)) -> Self {
        Self { cluster, count }
    }
}

/// How many services are on a cluster.
#[Object]
impl ServiceClusterCount {
    /// The cluster; absent when you may see services on it but not the cluster.
    async fn cluster(&self, ctx: &Context<'_>) -> Nullable<Cluster> {
        nullable(by_id::<plural_core::cluster::Cluster, _>(ctx, self.cluster)).await
    }

    /// How many.
    async fn count(&self) -> i32 {
        counted(self.count)
    }
}

/// How many services are where and how, of those that you may see and that the arguments choose. What the arguments say about the counted
/// thing itself is left out of its counts: they say what choosing another value would show.
pub(crate) struct ServiceFacets(ServiceFilter);

/// How many services are where and how, of those that you may see and that the arguments choose. What the arguments say about the counted
/// thing itself is left out of its counts: they say what choosing another value would show.
#[Object]
impl ServiceFacets {
    /// By status: all statuses.
    async fn statuses(&self, ctx: &Context<'_>) -> Nullable<Vec<ServiceStatusCount>> {
        let request = request(ctx);
        let filter = ServiceFilter { status: None, ..self.0.clone() };
        counts(ctx, request.app.service_statuses(&request.op, &filter)).await
    }

    /// By cluster: the hundred with most services, the first first.
    async fn clusters(&self, ctx: &Context<'_>) -> Nullable<Vec<ServiceClusterCount>> {
        let request = request(ctx);
        counts(ctx, request.app.service_clusters(&request.op, &self.0)).await
    }

    /// By project of the cluster: the hundred with most services, the first first.
    async fn projects(&self, ctx: &Context<'_>) -> Nullable<Vec<ProjectCount>> {
        let request = request(ctx);
        counts(ctx, request.app.service_projects(&request.op, &self.0)).await
    }
}

/// Lists of services.
#[derive(Default)]
pub(crate) struct ServiceListQuery;

/// Lists of services.
#[Object]
impl ServiceListQuery {
    /// The services that you may see.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn service_deployments(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only of the cluster with this id.")] cluster_id: Option<ID>,
        #[graphql(desc = "Only of the cluster with this handle.")] cluster: Option<String>,
        #[graphql(desc = "Only on clusters of this project.")] project_id: Option<ID>,
        #[graphql(desc = "Only from this repository.")] repository_id: Option<ID>,
        #[graphql(desc = "Only those whose templates read this context.")] context_id: Option<ID>,
        #[graphql(desc = "Only with this status.")] status: Option<ServiceDeploymentStatus>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
        #[graphql(
            desc = "In this order; oldest first when absent. A cursor is good for the order that it was made in."
        )]
        sort: Option<ServiceSort>,
    ) -> Nullable<ServiceDeploymentConnection> {
        nullable(async {
            let chosen = Chosen { cluster_id, cluster, project_id, repository_id, context_id, status, q };
            let filter = Ok(chosen.filter(ctx).await?);
            let page = page_args(after, first, before, last);
            let found = match sort {
                None => page_of::<plural_core::service::Service, _>(ctx, filter, page).await,
                Some(sort) => {
                    page_in::<plural_core::service::Service, _>(ctx, filter, &sort.into(), page).await
                }
            };
            found.transpose()
        })
        .await
    }

    /// How many of the services that you may see are where and how: what `serviceDeployments` would list.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn service_facets(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only of the cluster with this id.")] cluster_id: Option<ID>,
        #[graphql(desc = "Only of the cluster with this handle.")] cluster: Option<String>,
        #[graphql(desc = "Only on clusters of this project.")] project_id: Option<ID>,
        #[graphql(desc = "Only from this repository.")] repository_id: Option<ID>,
        #[graphql(desc = "Only those whose templates read this context.")] context_id: Option<ID>,
        #[graphql(desc = "Only with this status.")] status: Option<ServiceDeploymentStatus>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<ServiceFacets> {
        nullable(async {
            let chosen = Chosen { cluster_id, cluster, project_id, repository_id, context_id, status, q };
            Ok(Some(ServiceFacets(chosen.filter(ctx).await?)))
        })
        .await
    }
}

/// Which services, as the arguments of a query say it.
struct Chosen {
    cluster_id: Option<ID>,
    cluster: Option<String>,
    project_id: Option<ID>,
    repository_id: Option<ID>,
    context_id: Option<ID>,
    status: Option<ServiceDeploymentStatus>,
    q: Option<String>,
}

impl Chosen {
    async fn filter(self, ctx: &Context<'_>) -> async_graphql::Result<ServiceFilter> {
        let Self { cluster_id, cluster, project_id, repository_id, context_id, status, q } = self;
        let request = request(ctx);
        let mut filter = ServiceFilter {
            cluster_id: id_option(cluster_id.as_deref()).into_graphql(ctx)?,
            project_id: id_option(project_id.as_deref()).into_graphql(ctx)?,
            repository_id: id_option(repository_id.as_deref()).into_graphql(ctx)?,
            context_id: id_option(context_id.as_deref()).into_graphql(ctx)?,
            status: status.map(Into::into),
            q,
        };
        if let Some(handle) = cluster {
            if filter.cluster_id.is_some() {
                return Err(exactly_one("clusterId and cluster")).into_graphql(ctx);
            }
            let selector = by_handle(&handle).into_graphql(ctx)?;
            let cluster = request.app.get::<plural_core::cluster::Cluster>(&request.op, &selector).await;
            filter.cluster_id = Some(cluster.into_graphql(ctx)?.id);
        }
        if let Some(id) = filter.context_id {
            // Whoever may not see a context does not learn who uses it.
            let context = ServiceContextSelector::Id(id);
            let seen = request.app.get::<plural_core::service_context::ServiceContext>(&request.op, &context);
            seen.await.into_graphql(ctx)?;
        }
        Ok(filter)
    }
}
