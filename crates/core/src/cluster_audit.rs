//! Who asked which cluster's API server for what, through the console.

use std::net::IpAddr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::{ClusterAuditId, ClusterId, RecordingId, RequestId, TokenId, UserId};
use crate::page::Keyed;

/// One line of the clusters' audit log, kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterAuditRow {
    /// Id.
    pub id: ClusterAuditId,
    /// What happened.
    pub entry: ClusterAuditEntry,
}

/// Groups that a line names at most.
const NAMED: usize = 100;

/// Who somebody is to a cluster: what its agent sets as `Impersonate-User` and `Impersonate-Group`, and what its RBAC decides by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Impersonated {
    /// The user.
    pub user: String,
    /// The groups, in order; of more than a hundred the first ones, and how many others there are.
    pub groups: Vec<String>,
}

impl Impersonated {
    /// This user, with these groups.
    pub fn new(user: &str, groups: &[String]) -> Self {
        let mut named: Vec<String> = groups.iter().take(NAMED).cloned().collect();
        let others = groups.len() - named.len();
        if others > 0 {
            named.push(format!("and {others} others"));
        }
        Self { user: user.to_owned(), groups: named }
    }
}

/// One line of the clusters' audit log. Never holds a body, a header, or a query's values that could be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterAuditEntry {
    /// Which cluster.
    pub cluster_id: ClusterId,
    /// Who asked.
    pub user_id: UserId,
    /// The user's e-mail at that time; of a service account, with who assumed it.
    pub actor: String,
    /// As whom the cluster was asked; absent in lines of earlier releases.
    pub impersonated: Option<Arc<Impersonated>>,
    /// The address that it was asked from, when it came over a network.
    pub address: Option<IpAddr>,
    /// The access token that it was asked with.
    pub token_id: Option<TokenId>,
    /// `GET`.
    pub method: String,
    /// The path, with those parts of its query that say what was asked.
    pub path: String,
    /// Status of the answer; 101 for a shell or another raw stream, 0 when there was none.
    pub response_code: u16,
    /// Milliseconds until the answer had ended; `None` in the line that tells of a raw stream's beginning.
    pub duration_ms: Option<u64>,
    /// Bytes from the client.
    pub received_bytes: u64,
    /// Bytes to the client.
    pub sent_bytes: u64,
    /// In which request.
    pub request_id: RequestId,
    /// What was recorded of it, when it was a shell that is recorded.
    pub recording_id: Option<RecordingId>,
    /// When it began.
    pub at: DateTime<Utc>,
}

impl Keyed for ClusterAuditRow {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_without_end_are_counted() {
        let groups: Vec<String> = (0..102).map(|group| format!("g{group}")).collect();
        let few = Impersonated::new("ada@example.com", &groups[..100]);
        assert_eq!(few.groups, groups[..100]);
        let many = Impersonated::new("ada@example.com", &groups);
        assert_eq!((many.groups.len(), many.groups[100].as_str()), (101, "and 2 others"));
    }
}
