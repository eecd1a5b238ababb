//! What the auth proxy needs of a database: its key, and the clusters' audit log.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::{Cluster, ClusterAuditEntry, ClusterAuditRow, Page, PageRequest, Result};

use crate::access::{Admin, Authorized};
use crate::seal::Sealed;

/// The auth proxy's part of a store.
#[async_trait]
pub trait ProxyStore: Send + Sync + 'static {
    /// The sealed seed of the key that assertions are signed with; `fresh` when none was kept before.
    async fn proxy_key(&self, fresh: &Sealed) -> Result<Sealed>;
    /// Stores lines of the clusters' audit log in one transaction. Not somebody's write: it tells of one.
    async fn cluster_audit_write(&self, entries: &[ClusterAuditEntry]) -> Result<()>;
    /// Lines about one cluster.
    async fn cluster_audit_list(
        &self,
        cluster: &Authorized<Cluster, Admin>,
        page: &PageRequest,
    ) -> Result<Page<ClusterAuditRow>>;
    /// Removes lines from before `before`; returns how many went.
    async fn cluster_audit_prune(&self, before: DateTime<Utc>) -> Result<u64>;
}
