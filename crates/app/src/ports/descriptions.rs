//! What use cases need of a database for what is told about services' objects.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::{Cluster, Component, Result, Service, ServiceId, ServiceMetadata};

use crate::access::{Authorized, Read};

/// Images and host names.
#[async_trait]
pub trait ServiceMetadataStore: Send + Sync + 'static {
    /// What the objects of services say of themselves; a service whose agent has not told is left out.
    async fn services_metadata(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, ServiceMetadata>>;
}

/// Objects whose API versions [`plural_core::ApiDeprecation`] lists, whatever that means for their cluster.
#[async_trait]
pub trait ApiDeprecationStore: Send + Sync + 'static {
    /// Those of services, in the order of their names.
    async fn services_listed_components(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<Vec<Component>>;
    /// Those of all services of a cluster, the first `most`, each service's together.
    async fn cluster_listed_components(
        &self,
        cluster: &Authorized<Cluster, Read>,
        most: u64,
    ) -> Result<Vec<Component>>;
    /// The Kubernetes versions that the services' clusters run, where they are known.
    async fn services_kubernetes(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, String>>;
}
