//! What services' statuses were.

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, Utc};
use plural_app::health_change::HealthChangeFilter;
use plural_core::ids::ServiceId;
use plural_core::status::ServiceStatus;

use super::{
    error::{IntoGraphql, Nullable, id_option, nullable},
    page::{connection, page_args},
    record::by_id,
    request::request,
    service::{ServiceDeployment, ServiceDeploymentStatus},
};

/// A service's status that became another.
pub(crate) struct HealthChange(plural_core::health_change::HealthChange);

impl From<plural_core::health_change::HealthChange> for HealthChange {
    fn from(change: plural_core::health_change::HealthChange) -> Self {
        Self(change)
    }
}

connection!(HealthChangeConnection, HealthChangeEdge, HealthChange);

/// A service's status that became another.
#[Object]
impl HealthChange {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The service.
    async fn service(&self, ctx: &Context<'_>) -> Nullable<ServiceDeployment> {
        nullable(by_id::<plural_core::service::Service, _>(ctx, self.0.service_id)).await
    }

    /// The revision that the service stood at from then on; it may be forgotten by now.
    async fn revision_id(&self) -> ID {
        self.0.revision_id.to_string().into()
    }

    /// The commit of that revision, once known.
    async fn sha(&self) -> Option<&str> {
        self.0.sha.as_deref()
    }

    /// What the status was.
    #[graphql(name = "from")]
    async fn status_before(&self) -> ServiceDeploymentStatus {
        self.0.from.into()
    }

    /// What the status became.
    #[graphql(name = "to")]
    async fn status(&self) -> ServiceDeploymentStatus {
        self.0.to.into()
    }

    /// Why, in words; absent where the service became healthy.
    async fn reason(&self) -> Option<&str> {
        self.0.reason.as_deref()
    }

    /// When the failure began that this belongs to: it begins, goes on or, where the service became healthy, is over.
    async fn failing_since(&self) -> Option<DateTime<Utc>> {
        self.0.failing_since
    }

    /// When the status changed.
    async fn at(&self) -> DateTime<Utc> {
        self.0.at
    }
}

/// How a service was.
pub(crate) struct PastHealth {
    id: ServiceId,
    failing_since: Option<DateTime<Utc>>,
    recovered_at: Option<DateTime<Utc>>,
}

impl From<&plural_core::service::Service> for PastHealth {
    fn from(service: &plural_core::service::Service) -> Self {
        Self {
            id: service.id,
            // What comes between two failures is kept for the second.
            failing_since: service.failing_since.filter(|_| service.status == ServiceStatus::Failed),
            recovered_at: service.recovered_at,
        }
    }
}

/// How a service was.
#[Object]
impl PastHealth {
    /// Since when it fails: it was not healthy in between. Absent unless it is `FAILED`, and where that is not known.
    async fn failing_since(&self) -> Option<DateTime<Utc>> {
        self.failing_since
    }

    /// When it was healthy again after it last failed.
    async fn last_recovered_at(&self) -> Option<DateTime<Utc>> {
        self.recovered_at
    }

    /// What its status was, newest first: the last 100 changes of the last 30 days.
    async fn health_changes(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<HealthChangeConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            let look_up = async |ids: Vec<_>| {
                request.app.services_health_changes(&request.op, &ids, &page).await.into_graphql(ctx)
            };
            let found = request.batches.health_changes.of(&page).get(self.id, look_up).await?;
            Ok(found.map(Into::into))
        })
        .await
    }
}

/// Reading what services' statuses were.
#[derive(Default)]
pub(crate) struct HealthChangeQuery;

/// Reading what services' statuses were.
#[Object]
impl HealthChangeQuery {
    /// What the statuses of the services that you may see were, newest first: the last 100 changes of each in the last 30 days.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn health_changes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only of services on clusters of the project with this id.")] project_id: Option<ID>,
        #[graphql(desc = "Only of services on the cluster with this id.")] cluster_id: Option<ID>,
        #[graphql(desc = "Only from then on.")] since: Option<DateTime<Utc>>,
        #[graphql(desc = "Only those of failures: one begins, goes on, or is over.")] failures: Option<bool>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<HealthChangeConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            let filter = HealthChangeFilter {
                cluster_id: id_option(cluster_id.as_deref()).into_graphql(ctx)?,
                project_id: id_option(project_id.as_deref()).into_graphql(ctx)?,
                since,
                failures: failures.unwrap_or(false),
            };
            let found = request.app.health_change_list(&request.op, &filter, &page).await;
            Ok(Some(found.into_graphql(ctx)?.into()))
        })
        .await
    }
}
