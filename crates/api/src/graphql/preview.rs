//! What a service renders to.

use std::time::Duration;

use async_graphql::{Context, ID, Object, SimpleObject};
use plural_app::ports::previews::PreviewObject;
use plural_core::Error;
use plural_kit::{Turn, Turns};
use plural_specs::Map;

use super::{
    error::{IntoGraphql, List, Nullable, nullable},
    limited::limited,
    request::request,
    service::{ServiceError, selector},
};
use crate::auth::Party;

/// Artifacts that are looked at for one user at once, and those that wait: the console looks at few at a time for all.
const OF_USER: (usize, usize) = (2, 8);
/// How long one waits.
const PATIENCE: Duration = Duration::from_secs(20);

/// Turns of users at artifacts. Part of the schema's data.
pub(super) fn turns() -> Turns<Party> {
    Turns::new(OF_USER.0, OF_USER.1)
}

/// A turn of whoever asks, for as long as an artifact is looked at.
///
/// # Errors
/// `Unavailable` when the same user waits for many already.
pub(super) async fn turn(ctx: &Context<'_>) -> plural_core::Result<Turn<Party>> {
    let party = Party::of(request(ctx).op.actor(), None);
    let turn = tokio::time::timeout(PATIENCE, ctx.data_unchecked::<Turns<Party>>().take(party)).await;
    let busy = || Error::unavailable("too many previews in progress; retry in a few seconds");
    turn.ok().flatten().ok_or_else(busy)
}

/// One object of a preview.
pub(crate) struct RenderedObject(PreviewObject);

/// One object of a preview.
#[Object]
impl RenderedObject {
    /// API version.
    async fn api_version(&self) -> &str {
        self.0.value["apiVersion"].as_str().unwrap_or_default()
    }

    /// Kind.
    async fn kind(&self) -> &str {
        self.0.value["kind"].as_str().unwrap_or_default()
    }

    /// Namespace, where the object names one.
    async fn namespace(&self) -> Option<&str> {
        self.0.value["metadata"]["namespace"].as_str()
    }

    /// Name.
    async fn name(&self) -> &str {
        self.0.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// File and line that it was written at.
    async fn source(&self) -> String {
        match self.0.line {
            Some(line) => format!("{}:{line}", self.0.path),
            None => self.0.path.clone(),
        }
    }

    /// The whole object; values of Secrets are masked.
    async fn content(&self) -> Option<Map> {
        match &self.0.value {
            serde_json::Value::Object(map) => Some(Map(map.clone())),
            _ => None,
        }
    }
}

/// What a service renders to.
#[derive(SimpleObject)]
pub(crate) struct ServicePreview {
    /// Its objects.
    objects: List<RenderedObject>,
    /// Warnings; without any object: why there is none.
    errors: List<ServiceError>,
}

/// Previews of services.
#[derive(Default)]
pub(crate) struct PreviewQuery;

/// Previews of services.
#[Object]
impl PreviewQuery {
    /// What a service's current revision renders to, by id, or by its cluster's handle and its name. Rendered here,
    /// by the same code as in its agent, which alone answers `lookup` and knows which APIs its cluster serves.
    async fn service_preview(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        cluster: Option<String>,
        name: Option<String>,
    ) -> Nullable<ServicePreview> {
        nullable(async {
            let request = request(ctx);
            let selector = selector(id, cluster, name).into_graphql(ctx)?;
            let _turn = turn(ctx).await.into_graphql(ctx)?;
            let plural_app::ports::previews::Preview { objects, errors } =
                Box::pin(request.app.service_preview(&request.op, &selector)).await.into_graphql(ctx)?;
            Ok(Some(ServicePreview {
                objects: limited(ctx, objects.into_iter().map(RenderedObject)),
                errors: limited(ctx, errors.into_iter().map(Into::into)),
            }))
        })
        .await
    }
}
