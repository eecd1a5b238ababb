//! Pods that somebody else runs.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;

/// Who runs a Pod once it is bound to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kubelet {
    /// The simulation: it gets ready, ends, goes.
    Simulated,
    /// The caller: it writes the Pod's status and ends its deletion, as a kubelet does.
    Other,
    /// The caller will say soon. It is asked again until it has.
    Undecided,
}

type Ask = Arc<dyn Fn(&Value) -> Kubelet + Send + Sync>;

/// Whom to ask; nobody at first.
#[derive(Default)]
pub(crate) struct Kubelets(RwLock<Option<Ask>>);

impl Kubelets {
    /// Asks `ask` from now on.
    pub(crate) fn set(&self, ask: Ask) {
        *self.0.write() = Some(ask);
    }

    /// Whose this Pod is.
    pub(crate) fn of(&self, pod: &Value) -> Kubelet {
        self.0.read().as_ref().map_or(Kubelet::Simulated, |ask| ask(pod))
    }
}

impl fmt::Debug for Kubelets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubelets").finish_non_exhaustive()
    }
}
