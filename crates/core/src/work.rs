//! Work: what a cluster's agent looks after, by kind and id, and how it changes.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::ids::{ClusterId, RevisionId, ServiceId, StackRunId};

/// A kind of thing that a cluster's agent looks after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkKind {
    /// A service.
    Service,
    /// The cluster's own data, which templates read.
    Cluster,
    /// A run of a stack.
    StackRun,
}

impl WorkKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Service, Self::Cluster, Self::StackRun];

    /// Its name in the feed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Cluster => "cluster",
            Self::StackRun => "stack_run",
        }
    }

    /// The kind of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The first contract that has it. The console sends it to no agent of an earlier one.
    pub const fn since(self) -> Contract {
        match self {
            Self::Service => Contract::SERVICES,
            Self::Cluster => Contract::WORK,
            Self::StackRun => Contract::RUNS,
        }
    }
}

/// One piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkRef {
    /// Its kind.
    pub kind: WorkKind,
    /// The id of the service, cluster or run.
    pub id: Uuid,
}

impl WorkRef {
    /// A service.
    pub const fn service(id: ServiceId) -> Self {
        Self { kind: WorkKind::Service, id: id.uuid() }
    }

    /// A cluster's own data.
    pub const fn cluster(id: ClusterId) -> Self {
        Self { kind: WorkKind::Cluster, id: id.uuid() }
    }

    /// A run of a stack.
    pub const fn stack_run(id: StackRunId) -> Self {
        Self { kind: WorkKind::StackRun, id: id.uuid() }
    }

    /// The service, if it is one.
    pub const fn as_service(self) -> Option<ServiceId> {
        match self.kind {
            WorkKind::Service => Some(ServiceId::from_uuid(self.id)),
            WorkKind::Cluster | WorkKind::StackRun => None,
        }
    }

    /// The run, if it is one.
    pub const fn as_stack_run(self) -> Option<StackRunId> {
        match self.kind {
            WorkKind::StackRun => Some(StackRunId::from_uuid(self.id)),
            WorkKind::Cluster | WorkKind::Service => None,
        }
    }
}

/// How work changed. The greater one stands for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkChange {
    /// Only the revision of a service and its source: [`ServiceHead`] holds all that changed.
    Moved,
    /// Anything: read it again.
    Changed,
    /// A user asked to reconcile: read it again, now.
    Kicked,
}

impl WorkChange {
    /// All changes.
    pub const ALL: [Self; 3] = [Self::Moved, Self::Changed, Self::Kicked];

    /// Its name in the feed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Moved => "moved",
            Self::Changed => "changed",
            Self::Kicked => "kicked",
        }
    }

    /// The change of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|change| change.as_str() == name)
    }
}

/// The version of the contract that an agent speaks. Grows with what an answer may hold; compared, never matched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contract(pub u32);

impl Contract {
    /// Services only, each of them whole. Agents that do not send a contract speak it.
    pub const SERVICES: Self = Self(0);
    /// Work of every kind, and moves of services.
    pub const WORK: Self = Self(1);
    /// Settings of services as documents.
    pub const DOCUMENTS: Self = Self(2);
    /// Values of configurations by reference.
    pub const REFERENCES: Self = Self(3);
    /// Runs of stacks.
    pub const RUNS: Self = Self(4);
    /// Secrets of automations.
    pub const SECRETS: Self = Self(5);
    /// The newest one that the console speaks.
    pub const NEWEST: Self = Self::SECRETS;
}

/// The source of a revision, shared by all services that moved to it together.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SourceHead {
    /// The artifact's digest.
    pub digest: [u8; 32],
    /// Commit.
    pub sha: Option<String>,
    /// First line of the commit's message.
    pub message: Option<String>,
}

/// What of a service a commit changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceHead {
    /// The desired revision.
    pub revision_id: RevisionId,
    /// When it was made.
    pub revision_at: DateTime<Utc>,
    /// Its source; absent until the first artifact is built.
    pub source: Option<Arc<SourceHead>>,
}

/// One piece of work as the fleet keeps it in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkSummary {
    /// Which.
    pub work: WorkRef,
    /// Its cluster.
    pub cluster_id: ClusterId,
    /// Grows with each change; 0 for work that has none.
    pub sequence: u64,
    /// Of a service.
    pub head: Option<ServiceHead>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for kind in WorkKind::ALL {
            assert_eq!(WorkKind::parse(kind.as_str()), Some(kind));
        }
        for change in WorkChange::ALL {
            assert_eq!(WorkChange::parse(change.as_str()), Some(change));
        }
        assert_eq!((WorkKind::parse("run"), WorkChange::parse("Moved")), (None, None));
    }

    #[test]
    fn the_stronger_change_is_the_greater_one() {
        assert!(WorkChange::Moved < WorkChange::Changed && WorkChange::Changed < WorkChange::Kicked);
    }

    #[test]
    fn the_newest_contract_has_every_kind_and_the_first_has_services() {
        assert!(WorkKind::ALL.iter().all(|kind| kind.since() <= Contract::NEWEST));
        assert_eq!(WorkKind::Service.since(), Contract::default());
    }

    #[test]
    fn a_reference_to_a_service_gives_its_id_back() {
        let id = ServiceId::new();
        assert_eq!(WorkRef::service(id).as_service(), Some(id));
        assert_eq!(WorkRef::cluster(ClusterId::new()).as_service(), None);
    }
}
