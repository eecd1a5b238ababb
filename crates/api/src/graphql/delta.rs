//! Subscriptions: which services, clusters and stacks changed.

use std::{sync::Arc, time::Duration};

use async_graphql::{Context, ID, Result, SimpleObject, Subscription as SubscriptionObject};
use futures::{Stream, stream::unfold};
use plural_app::delta::{DeltaEvent, DeltaFilter, DeltaSubscription};
use plural_core::ErrorCode;
use uuid::Uuid;

use super::{
    error::{IntoGraphql, id_in, server_error},
    request::request,
};
use crate::auth::Presented;

/// How long to wait before rights are asked again that could not be asked.
const AGAIN: Duration = Duration::from_secs(2);

/// What changed since the event before: which things, not what of them. Read them again.
#[derive(SimpleObject)]
pub(crate) struct Delta {
    /// Ids of things that came or changed. Those that you may not see are left out.
    changed: Vec<ID>,
    /// Ids of things that are gone.
    deleted: Vec<ID>,
    /// More changed than is told by id: read everything again.
    read_again: bool,
    /// Where to go on after a lost connection, as the argument `after`. It is good for half an hour.
    cursor: String,
}

impl From<DeltaEvent> for Delta {
    fn from(event: DeltaEvent) -> Self {
        let DeltaEvent { changed, deleted, read_again, cursor } = event;
        let ids = |ids: Vec<Uuid>| ids.into_iter().map(|id| id.to_string().into()).collect();
        Self { changed: ids(changed), deleted: ids(deleted), read_again, cursor }
    }
}

/// Listening.
#[derive(Default)]
pub(crate) struct Subscription;

/// Listening, over a WebSocket at `/gql`. Each event comes at most once a second; the first one at once.
#[SubscriptionObject(name = "RootSubscriptionType")]
impl Subscription {
    /// Services that came, changed, have another status, components or errors, or are gone: one, those of a cluster, or all
    /// that you may see.
    async fn service_deployment_delta(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        cluster_id: Option<ID>,
        after: Option<String>,
    ) -> Result<impl Stream<Item = Result<Delta>>> {
        let filter = id_in("id", id.as_deref()).and_then(|id| {
            Ok(DeltaFilter::Services { id, cluster: id_in("clusterId", cluster_id.as_deref())? })
        });
        events(ctx, filter, after).await
    }

    /// Clusters that came, changed, heard of their agent for the first time, or are gone: one, or all that you may see.
    async fn cluster_delta(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        after: Option<String>,
    ) -> Result<impl Stream<Item = Result<Delta>>> {
        events(ctx, id_in("id", id.as_deref()).map(|id| DeltaFilter::Clusters { id }), after).await
    }

    /// Stacks that came, changed, have a run that began, went on, waits or ended, found a drift, or are gone: one, or all that you may
    /// see. A run is told of by the id of its stack. The lines of its log are not: read them on from where you are.
    async fn infrastructure_stack_delta(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        after: Option<String>,
    ) -> Result<impl Stream<Item = Result<Delta>>> {
        events(ctx, id_in("id", id.as_deref()).map(|id| DeltaFilter::Stacks { id }), after).await
    }
}

async fn events(
    ctx: &Context<'_>,
    filter: plural_core::Result<DeltaFilter>,
    after: Option<String>,
) -> Result<impl Stream<Item = Result<Delta>> + use<>> {
    let request = request(ctx);
    let subscription =
        async { request.app.deltas_subscribe(&request.op, filter?, after.as_deref()).await }.await;
    let subscription = subscription.into_graphql(ctx)?;
    let presented = Arc::clone(ctx.data_unchecked::<Arc<Presented>>());
    Ok(unfold(Some((presented, subscription)), |state| async move {
        let (presented, mut subscription) = state?;
        match next(&presented, &mut subscription).await {
            Ok(event) => Some((Ok(event.into()), Some((presented, subscription)))),
            Err(error) => {
                let error = server_error(&error, presented.request_id);
                let async_graphql::ServerError { message, extensions, .. } = error;
                Some((Err(async_graphql::Error { message, source: None, extensions }), None))
            }
        }
    }))
}

/// The next event, with the rights that whoever listens has then. What cannot be asked now is asked again.
async fn next(
    presented: &Presented,
    subscription: &mut DeltaSubscription,
) -> plural_core::Result<DeltaEvent> {
    loop {
        subscription.ready().await;
        let taken = async {
            let op = presented.op().await?;
            presented.app.deltas_take(&op, subscription).await
        };
        match taken.await {
            Ok(Some(event)) => return Ok(event),
            Ok(None) => {}
            Err(error) if matches!(error.code(), ErrorCode::Unavailable | ErrorCode::Internal) => {
                tracing::warn!(
                    error = error.log_text(),
                    "cannot tell a subscriber what changed; trying again"
                );
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => return Err(error),
        }
    }
}
