//! The objects that a service owns.

use async_graphql::{ComplexObject, Context, Enum, ID, SimpleObject};
use plural_core::ids::ServiceId;

use super::{
    error::{List, Nullable, list, nullable},
    limited::limited,
    record::by_id,
    service::ServiceDeployment,
    service_metadata::{ApiDeprecation, deprecations_of},
};

/// How an object fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::component::ComponentState")]
pub(crate) enum ComponentState {
    /// It does what it should.
    Running,
    /// It is on its way.
    Pending,
    /// It is broken.
    Failed,
    /// It waits for a person.
    Paused,
}

/// An object that a service owns, as its agent last saw it.
#[derive(Debug, Clone, SimpleObject)]
#[graphql(complex)]
pub(crate) struct ServiceComponent {
    /// Stable for one object of one service.
    id: ID,
    /// The API server's uid.
    uid: Option<String>,
    /// API group, empty for the core group.
    group: Option<String>,
    /// API version.
    version: Option<String>,
    /// Kind.
    kind: String,
    /// Namespace, absent for cluster-wide objects.
    namespace: Option<String>,
    /// Name.
    name: String,
    /// How it fares; absent while unknown.
    state: Option<ComponentState>,
    /// The live object carries what was applied.
    synced: bool,
    /// Why it is not running.
    message: Option<String>,
    #[graphql(skip)]
    of: ServiceId,
    #[graphql(skip)]
    owned: Vec<plural_core::component::ComponentChild>,
}

/// An object that a service owns, as its agent last saw it.
#[ComplexObject]
impl ServiceComponent {
    /// What it owns, down to Pods, each after its owner.
    async fn children(&self, ctx: &Context<'_>) -> List<ServiceComponentChild> {
        // The macro takes no function that is not async.
        std::future::ready(limited(ctx, self.owned.iter().cloned().map(Into::into))).await
    }

    /// The whole object, as it is and as it should be. Always null: plans tell the fields that differ, without the data that
    /// whoever may see the service may not see.
    async fn content(&self) -> Option<ComponentContent> {
        // The macro takes no function that is not async.
        std::future::ready(None).await
    }

    /// Whose it is.
    async fn service(&self, ctx: &Context<'_>) -> Nullable<ServiceDeployment> {
        nullable(by_id::<plural_core::service::Service, _>(ctx, self.of)).await
    }

    /// That it is written in an API version that is deprecated or gone in its cluster's version of Kubernetes, or will be in
    /// the next; at most one.
    async fn api_deprecations(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<ApiDeprecation>>> {
        nullable(async {
            let all = deprecations_of(ctx, self.of).await?;
            let own = all.into_iter().filter(|found| self.id.as_str() == found.component.id.to_string());
            Ok(list(own.map(Into::into)))
        })
        .await
    }
}

/// A whole object. There is none: fields of this type are null.
#[derive(SimpleObject)]
pub(crate) struct ComponentContent {
    /// Id.
    id: ID,
    /// As it is.
    live: Option<String>,
    /// As it should be.
    desired: Option<String>,
}

/// An object that a component owns, directly or through others.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct ServiceComponentChild {
    /// The API server's uid.
    uid: Option<String>,
    /// The uid of its owner: the component, or another child.
    parent_uid: Option<String>,
    /// API group, empty for the core group.
    group: Option<String>,
    /// API version.
    version: String,
    /// Kind.
    kind: String,
    /// Namespace, absent for cluster-wide objects.
    namespace: Option<String>,
    /// Name.
    name: String,
    /// How it fares; absent while unknown.
    state: Option<ComponentState>,
    /// Why it is not running.
    message: Option<String>,
}

impl From<plural_core::component::Component> for ServiceComponent {
    fn from(component: plural_core::component::Component) -> Self {
        let plural_core::component::Component { id, service_id, key, state, synced, uid, message, children } =
            component;
        let plural_core::component::ComponentKey { group, version, kind, namespace, name } = key;
        Self {
            id: id.to_string().into(),
            uid,
            group: Some(group),
            version: Some(version),
            kind,
            namespace: Some(namespace).filter(|namespace| !namespace.is_empty()),
            name,
            state: state.map(Into::into),
            synced,
            message,
            of: service_id,
            owned: children,
        }
    }
}

impl From<plural_core::component::ComponentChild> for ServiceComponentChild {
    fn from(child: plural_core::component::ComponentChild) -> Self {
        let plural_core::component::ComponentChild { key, uid, parent_uid, state, message } = child;
        let plural_core::component::ComponentKey { group, version, kind, namespace, name } = key;
        Self {
            uid: Some(uid),
            parent_uid,
            group: Some(group),
            version,
            kind,
            namespace: Some(namespace).filter(|namespace| !namespace.is_empty()),
            name,
            state: state.map(Into::into),
            message,
        }
    }
}
