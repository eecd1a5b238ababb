//! What a service was made of at one moment.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::ids::{RevisionId, ServiceId};
use crate::page::Keyed;
use crate::service::GitRef;

/// One revision. Configuration is kept sealed beside it and not part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// Id.
    pub id: RevisionId,
    /// Whose it is.
    pub service_id: ServiceId,
    /// The service's version label.
    pub version: String,
    /// Where it was read from.
    pub git: Option<GitRef>,
    /// Commit, once known.
    pub sha: Option<String>,
    /// First line of the commit's message.
    pub message: Option<String>,
    /// Name of the commit's author; absent for what is in no repository, and for revisions made before that was kept.
    pub author: Option<String>,
    /// Who made it, as the audit log calls them; absent for those made before that was kept.
    pub by: Option<String>,
    /// What it was made into is known, so that the service can go back to it.
    pub restorable: bool,
    /// When all of it was applied and ready for the first time; absent: it never was, or before that was kept.
    pub healthy_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

impl Keyed for Revision {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}
