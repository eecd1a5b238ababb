//! Who did what to what, and when.

use std::borrow::Cow;
use std::net::IpAddr;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::audit_chain::AuditDigest;
use crate::ids::{AuditId, RequestId, TokenId, UserId};
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
    /// The access token that it was done with, when it was one.
    pub token_id: Option<TokenId>,
    /// The address that it was asked from, when it came over a network.
    pub address: Option<IpAddr>,
    /// To what.
    pub target: AuditTarget,
    /// In which request.
    pub request_id: RequestId,
    /// When; the last time where it happened more than once.
    pub at: DateTime<Utc>,
    /// How often: the same again within a while is counted.
    pub times: u32,
    /// The digest of the thing's own row before it, as its user saw it when they were let through.
    pub before: Option<AuditDigest>,
    /// The digest of the thing's own row after it; absent when it is gone.
    pub after: Option<AuditDigest>,
}

/// Which lines of the audit log are listed. What is absent matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Whose: the name in the line, or the user's id.
    pub actor: Option<String>,
    /// What was done: `cluster.create`, or `cluster.*` for all that begins so.
    pub action: Option<String>,
    /// To what kind of thing.
    pub noun: Option<String>,
    /// To which thing: its id or its name.
    pub target: Option<String>,
    /// In which request.
    pub request_id: Option<RequestId>,
    /// Not before.
    pub since: Option<DateTime<Utc>>,
    /// Before.
    pub until: Option<DateTime<Utc>>,
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
