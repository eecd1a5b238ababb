//! How many services are how.

use async_graphql::{Context, ID, Object, SimpleObject};
use plural_app::service::ServiceFilter;

use super::{
    error::{IntoGraphql, Nullable, id_option, nullable},
    page::counted,
    request::request,
    service::ServiceDeploymentStatus,
};

/// How many services have a status.
#[derive(SimpleObject)]
pub(crate) struct ServiceStatusCount {
    /// The status.
    status: ServiceDeploymentStatus,
    /// How many.
    count: i32,
}

impl From<(plural_core::status::ServiceStatus, u64)> for ServiceStatusCount {
    fn from((status, count): (plural_core::status::ServiceStatus, u64)) -> Self {
        Self { status: ServiceDeploymentStatus::from(status), count: counted(count) }
    }
}

#[derive(Default)]
pub(crate) struct ServiceStatusQuery;

#[Object]
impl ServiceStatusQuery {
    /// How many of the services that you may see have each status: what `serviceDeployments` would list.
    async fn service_statuses(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only of the cluster with this id.")] cluster_id: Option<ID>,
        #[graphql(desc = "Only from this repository.")] repository_id: Option<ID>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<Vec<ServiceStatusCount>> {
        nullable(async {
            let request = request(ctx);
            let filter = ServiceFilter {
                cluster_id: id_option(cluster_id.as_deref()).into_graphql(ctx)?,
                project_id: None,
                repository_id: id_option(repository_id.as_deref()).into_graphql(ctx)?,
                context_id: None,
                status: None,
                q,
            };
            let counts = request.app.service_statuses(&request.op, &filter).await.into_graphql(ctx)?;
            Ok(Some(counts.into_iter().map(Into::into).collect()))
        })
        .await
    }
}
