//! What services' objects say of themselves, and which of their API versions go away.

use async_graphql::{ComplexObject, Context, Object, SimpleObject};
use plural_core::ids::ServiceId;

use super::{
    component::ServiceComponent,
    error::{IntoGraphql, List, Nullable, list, nullable},
    limited::limited,
    request::request,
};

/// What a service's objects say of themselves.
#[derive(SimpleObject)]
pub(crate) struct ServiceMetadata {
    /// Container images, as manifests name them.
    images: List<String>,
    /// Host names that they answer to: of Ingresses, routes, gateways, and annotations for external-dns.
    fqdns: List<String>,
}

impl From<plural_core::service_metadata::ServiceMetadata> for ServiceMetadata {
    fn from(metadata: plural_core::service_metadata::ServiceMetadata) -> Self {
        let plural_core::service_metadata::ServiceMetadata { images, fqdns } = metadata;
        Self { images: list(images), fqdns: list(fqdns) }
    }
}

/// That an object is written in an API version that goes away.
#[derive(SimpleObject)]
#[graphql(complex)]
pub(crate) struct ApiDeprecation {
    /// The version of Kubernetes that said so first.
    deprecated_in: Option<String>,
    /// The first that does not serve it; absent: none is planned.
    removed_in: Option<String>,
    /// What to write instead; absent: nothing takes its place.
    replacement: Option<String>,
    /// The first version of Kubernetes that serves the replacement.
    available_in: Option<String>,
    /// The cluster's next minor version does not serve it, or its own does not already.
    blocking: bool,
    #[graphql(skip)]
    of: plural_core::component::Component,
}

impl From<plural_core::api_deprecation::DeprecatedComponent> for ApiDeprecation {
    fn from(found: plural_core::api_deprecation::DeprecatedComponent) -> Self {
        let plural_core::api_deprecation::DeprecatedComponent { component, deprecation } = found;
        let plural_core::api_deprecation::ApiDeprecation {
            deprecated_in,
            removed_in,
            replacement,
            available_in,
            blocking,
            removed: _,
        } = deprecation;
        Self {
            deprecated_in: Some(deprecated_in),
            removed_in,
            replacement,
            available_in,
            blocking,
            of: component,
        }
    }
}

/// That an object is written in an API version that goes away.
#[ComplexObject]
impl ApiDeprecation {
    /// The object.
    async fn component(&self) -> Option<ServiceComponent> {
        Some(self.of.clone().into())
    }
}

/// The objects of a service that are written in API versions that go away.
pub(crate) async fn deprecations_of(
    ctx: &Context<'_>,
    service: ServiceId,
) -> async_graphql::Result<Vec<plural_core::api_deprecation::DeprecatedComponent>> {
    let request = request(ctx);
    let look_up =
        async |ids: Vec<_>| request.app.services_deprecations(&request.op, &ids).await.into_graphql(ctx);
    Ok(request.batches.deprecations.get(service, look_up).await?.unwrap_or_default())
}

/// What is told about a service's objects as a whole.
pub(crate) struct Described(pub(crate) ServiceId);

/// What is told about a service's objects as a whole.
#[Object]
impl Described {
    /// Images and host names; absent until its agent has told.
    async fn metadata(&self, ctx: &Context<'_>) -> Nullable<ServiceMetadata> {
        nullable(async {
            let request = request(ctx);
            let look_up =
                async |ids: Vec<_>| request.app.services_metadata(&request.op, &ids).await.into_graphql(ctx);
            Ok(request.batches.metadata.get(self.0, look_up).await?.map(Into::into))
        })
        .await
    }

    /// Its objects that are written in API versions that are deprecated or gone in its cluster's version of Kubernetes, or
    /// will be in the next.
    async fn api_deprecations(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<ApiDeprecation>>> {
        nullable(async { Ok(limited(ctx, deprecations_of(ctx, self.0).await?.into_iter().map(Into::into))) })
            .await
    }
}
