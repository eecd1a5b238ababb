//! Who did what to what, and when.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::ids::{AuditId, RequestId, UserId};
use crate::page::Keyed;

/// One line of the audit log, kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Id.
    pub id: AuditId,
    /// What happened.
    pub entry: AuditEntry,
}

/// One line of the audit log. Never holds a value that was written, only what it was written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// "cluster.create".
    pub action: Cow<'static, str>,
    /// The user, when a user did it.
    pub user_id: Option<UserId>,
    /// The user's e-mail at that time, "cluster:ID" or "system".
    pub actor: String,
    /// To what.
    pub target: AuditTarget,
    /// In which request.
    pub request_id: RequestId,
    /// When; the last time where it happened more than once.
    pub at: DateTime<Utc>,
    /// How often: the same again within a while is counted.
    pub times: u32,
}

/// What an audit row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditTarget {
    /// "cluster".
    pub noun: Cow<'static, str>,
    /// Its id.
    pub id: Option<Uuid>,
    /// Its name at that time.
    pub name: String,
}

impl Keyed for AuditRow {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}
