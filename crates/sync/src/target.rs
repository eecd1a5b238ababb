//! Which service is synced, how, and what came of it.

use std::{collections::BTreeMap, time::Duration};

use plural_core::{ComponentState, ServiceId};

use crate::{key::ObjectKey, tree::Child};

/// A service on this cluster.
#[derive(Debug, Clone)]
pub struct Target {
    /// Which service.
    pub id: ServiceId,
    /// Its name, for messages and the record.
    pub name: String,
    /// Where its namespaced objects go unless they say otherwise.
    pub namespace: String,
    /// Plan only: no write of any kind.
    pub dry_run: bool,
    /// Create the namespace when it is missing.
    pub create_namespace: bool,
    /// Every object goes into the namespace; one that has none is an error.
    pub enforce_namespace: bool,
    /// Delete the namespace with the service.
    pub delete_namespace: bool,
    /// An object of another service is an error (otherwise a warning); it is never taken.
    pub require_ownership: bool,
    /// Labels to write on the namespace.
    pub namespace_labels: BTreeMap<String, String>,
    /// Annotations to write on the namespace.
    pub namespace_annotations: BTreeMap<String, String>,
}

/// Which part of the work a problem belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Applying.
    Sync,
    /// Deleting what is no longer wanted.
    Prune,
}

impl Part {
    /// The word in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Prune => "prune",
        }
    }
}

/// Something a person should know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Where it happened.
    pub part: Part,
    /// What is wrong and what to do.
    pub message: String,
    /// It does not keep the service from being applied.
    pub warning: bool,
    /// `path:line` in the artifact, empty when there is none.
    pub location: String,
}

/// A foreign change that was put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// Of which object.
    pub key: ObjectKey,
    /// Who made it, as far as `managedFields` tell.
    pub manager: Option<String>,
}

/// When the same sync should be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retry {
    /// Not before something changes.
    #[default]
    OnChange,
    /// The trouble may pass by itself: soon, with backoff.
    Soon,
    /// Only a person can help, but look now and then.
    Later,
    /// At a time that is known.
    After(Duration),
}

impl Retry {
    /// The sooner of two.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        let rank = |retry: Self| match retry {
            Self::Soon => Duration::ZERO,
            Self::After(wait) => wait,
            Self::Later => Duration::from_hours(1),
            Self::OnChange => Duration::MAX,
        };
        if rank(other) < rank(self) { other } else { self }
    }
}

/// What came of a sync.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Every wanted object is applied. What waits to be deleted does not matter here.
    pub applied: bool,
    /// Only for a destroy: the API server confirmed that nothing of the service is left.
    pub destroyed: bool,
    /// Objects that were written, or would be in a dry run.
    pub changed: usize,
    /// Objects that were as they should be: no request was made for them.
    pub unchanged: usize,
    /// Deletions that were confirmed.
    pub deleted: usize,
    /// Objects that are still on their way out.
    pub leaving: usize,
    /// What was put right although nothing new was wanted.
    pub drift: Vec<Drift>,
    /// What to tell.
    pub problems: Vec<Problem>,
    /// When to try again.
    pub retry: Retry,
}

impl Outcome {
    pub(crate) fn error(&mut self, part: Part, message: String, location: String, retry: Retry) {
        self.problems.push(Problem { part, message, warning: false, location });
        self.retry = self.retry.sooner(retry);
    }

    pub(crate) fn warn(&mut self, part: Part, message: String, location: String) {
        self.problems.push(Problem { part, message, warning: true, location });
    }

    /// Whether anything went wrong.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| !problem.warning)
    }

    pub(crate) fn sync_failed(&self) -> bool {
        self.problems.iter().any(|problem| !problem.warning && problem.part == Part::Sync)
    }
}

/// One object of a service as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Component {
    /// Which object.
    pub key: ObjectKey,
    /// The version it was written in.
    pub version: String,
    /// How it is; nothing when nobody can tell.
    pub state: Option<ComponentState>,
    /// The live object carries what was applied.
    pub synced: bool,
    /// The API server's uid, empty when it does not exist.
    pub uid: String,
    /// Why it is not running, in words; of something that runs, at most a remark.
    pub message: String,
    /// What it owns, down to Pods, each after its parent.
    pub children: Vec<Child>,
}
