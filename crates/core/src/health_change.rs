//! Changes of services' statuses, kept for a while: when one began to fail, why, and when it was healthy again.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::ids::{HealthChangeId, RevisionId, ServiceId};
use crate::page::Keyed;
use crate::status::ServiceStatus;

/// A service's status that became another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthChange {
    /// Id.
    pub id: HealthChangeId,
    /// The service.
    pub service_id: ServiceId,
    /// The revision that it stood at from then on. It may be forgotten by now.
    pub revision_id: RevisionId,
    /// The commit of that revision, once known.
    pub sha: Option<String>,
    /// What it was.
    pub from: ServiceStatus,
    /// What it became.
    pub to: ServiceStatus,
    /// Why, in words; absent where it became healthy.
    pub reason: Option<String>,
    /// When the failure began that this belongs to: it begins, goes on or, where the service became healthy, is over.
    pub failing_since: Option<DateTime<Utc>>,
    /// When that was.
    pub at: DateTime<Utc>,
}

impl Keyed for HealthChange {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}
