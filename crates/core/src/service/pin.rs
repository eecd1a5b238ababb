//! A service that was rolled back, and stays there.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Service;
use crate::ids::RevisionId;

/// What ends a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinUntil {
    /// Only somebody who releases it.
    Release,
    /// The next commit that changes the service, too.
    NextCommit,
    /// The sync windows that hold it back, too.
    Window,
    /// The services that it depends on, once they are healthy, too.
    Dependencies,
}

/// Holds a service at one of its revisions: what comes from its sources waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The newest revision, which waits; the service goes on from here when it is released.
    pub newest: RevisionId,
    /// Who pinned it, as the audit log calls them.
    pub by: String,
    /// When.
    pub at: DateTime<Utc>,
    /// What ends it.
    pub until: PinUntil,
}

impl Service {
    /// The revision that was made by the last change of its settings, and keeps their secret values: one that waits for what the
    /// service depends on, or else the one that the service stands at.
    pub fn settings_revision(&self) -> RevisionId {
        match &self.pin {
            Some(pin) if pin.until == PinUntil::Dependencies => pin.newest,
            Some(_) | None => self.revision_id,
        }
    }
}

impl Pin {
    /// What everybody who looks at the service should know.
    pub fn words(&self, pinned: RevisionId, sha: Option<&str>) -> String {
        let Self { newest, by, at, until } = self;
        let at = at.format("%Y-%m-%d %H:%M UTC");
        let what = match sha {
            Some(sha) => format!("revision {pinned} (commit {})", sha.get(..10).unwrap_or(sha)),
            None => format!("revision {pinned}"),
        };
        let waits = if *newest == pinned { "" } else { "; a newer revision is pending" };
        let ends = match until {
            PinUntil::Release => "it stays until it is released",
            PinUntil::NextCommit => "it stays until it is released, or a new commit changes it",
            PinUntil::Window => "it is released automatically when a sync window opens",
            PinUntil::Dependencies => "it is released automatically when its dependencies are healthy",
        };
        format!("pinned to {what} by {by} at {at}{waits}; {ends}")
    }
}
