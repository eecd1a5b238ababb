//! Who asked which cluster's API server for what, through the console.

use std::net::IpAddr;

use chrono::{DateTime, Utc};
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

/// One line of the clusters' audit log. Never holds a body, a header, or a query's values that could be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterAuditEntry {
    /// Which cluster.
    pub cluster_id: ClusterId,
    /// Who asked.
    pub user_id: UserId,
    /// The user's e-mail at that time.
    pub actor: String,
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
