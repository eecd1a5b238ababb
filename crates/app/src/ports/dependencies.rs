//! What use cases need of a database for services that depend on each other.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::{
    Cluster, ClusterId, Dependency, Handle, KubeName, Result, Service, ServiceContextId, ServiceId,
};

use crate::access::{Admin, Authorized, Read};

/// A dependency to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DependencyWish {
    /// Its cluster; absent: that of the service.
    pub cluster: Option<(ClusterId, Handle)>,
    /// Its name.
    pub name: KubeName,
}

/// What a service is tied to; `None` leaves a part as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinksWish {
    /// All that it depends on.
    pub dependencies: Option<Vec<DependencyWish>>,
    /// All contexts that its templates read; whoever asks may use them.
    pub contexts: Option<ContextsWish>,
}

/// The contexts that a service's templates read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextsWish {
    /// All of them.
    pub ids: Vec<ServiceContextId>,
    /// Those that held no secret values when it was decided that they may be used: had they any by now, more would have
    /// to be asked.
    pub plain: Vec<ServiceContextId>,
}

/// Services that depend on each other. What they are is written with the services; the store holds new revisions back, and lets
/// them go on, in the transactions that change how a service is: nobody has to look again later.
#[async_trait]
pub trait DependencyStore: Send + Sync + 'static {
    /// What each of these services depends on, as it is now; those without are left out.
    async fn services_dependencies(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<Dependency>>>;
    /// The services that depend on each of these; those that none depends on are left out.
    async fn services_dependents(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<ServiceId>>>;
    /// The services that depend on this one, directly or through others, and are not being destroyed.
    async fn service_dependents_all(&self, service: &Authorized<Service, Read>) -> Result<Vec<ServiceId>>;
    /// The services of other clusters that depend on one of this cluster, and are not being destroyed.
    async fn cluster_dependents(&self, cluster: &Authorized<Cluster, Admin>) -> Result<Vec<ServiceId>>;
    /// The same ids, each after those of them that it depends on.
    async fn dependencies_first(&self, ids: &[ServiceId]) -> Result<Vec<ServiceId>>;
}
