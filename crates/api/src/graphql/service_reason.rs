//! Why a service is not as it should be.

use async_graphql::{Enum, SimpleObject};
use chrono::{DateTime, Utc};

/// What keeps a service from being as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::service_reason::ServiceReasonKind")]
pub(crate) enum ServiceReasonKind {
    /// The agent of its cluster is not connected: what is known of the service is from before.
    Agent,
    /// An error.
    Error,
    /// An object of it has failed.
    Component,
    /// It is paused.
    Paused,
    /// Deletions wait for approval.
    Approval,
    /// A sync window holds a revision back.
    Window,
    /// It waits for services that it depends on.
    Dependencies,
    /// It syncs manually, and a revision waits for that.
    Manual,
    /// It is a dry run: its changes are planned, and nothing is applied.
    DryRun,
    /// It is pinned to a revision that a person chose.
    Pinned,
    /// A sync goes on.
    Progressing,
    /// Something that does not keep it from being applied.
    Warning,
}

/// Why a service is not as it should be.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct ServiceReason {
    /// What kind of cause.
    kind: ServiceReasonKind,
    /// The cause.
    message: String,
    /// Waiting does not help: somebody has to change something first.
    terminal: bool,
    /// When it ends by itself, where that is known.
    until: Option<DateTime<Utc>>,
}

impl From<plural_core::service_reason::ServiceReason> for ServiceReason {
    fn from(reason: plural_core::service_reason::ServiceReason) -> Self {
        let plural_core::service_reason::ServiceReason { kind, message, terminal, until } = reason;
        Self { kind: kind.into(), message, terminal, until }
    }
}
