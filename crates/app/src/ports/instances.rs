//! What lists of global services need of a database.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::access::Actor;
use plural_core::{GlobalService, GlobalServiceId, Page, PageRequest, Result};

use super::global_services::Instance;
use crate::access::{Authorized, Guarded, Read};

/// How the instances of a global service fare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InstanceCounts {
    /// So many there are.
    pub all: u64,
    /// So many stay and are healthy with what they were given.
    pub healthy: u64,
    /// So many stay and are healthy with the newest generation.
    pub newest: u64,
    /// So many are on their way out.
    pub leaving: u64,
}

/// Instances of global services, as lists show them.
#[async_trait]
pub trait InstanceListStore: Send + Sync + 'static {
    /// Global services, each guarded by the bindings of its project. Ids that are not there are left out.
    async fn global_services_for(
        &self,
        actor: &Actor,
        ids: &[GlobalServiceId],
    ) -> Result<Vec<Guarded<GlobalService>>>;
    /// How the instances of each of these fare; those without any are left out.
    async fn instances_counts(
        &self,
        globals: &[Authorized<GlobalService, Read>],
    ) -> Result<HashMap<GlobalServiceId, InstanceCounts>>;
    /// The same page of the instances of each of these, oldest first.
    async fn instances_pages(
        &self,
        globals: &[Authorized<GlobalService, Read>],
        page: &PageRequest,
    ) -> Result<HashMap<GlobalServiceId, Page<Instance>>>;
}
