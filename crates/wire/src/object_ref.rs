//! Objects of clusters: read in answers, and sent to say which ones are meant.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One object of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRef {
    /// API group, empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace; absent for one of the cluster.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind, namespace, name } = self;
        let dot = if group.is_empty() { "" } else { "." };
        match namespace {
            Some(namespace) => write!(f, "{kind}{dot}{group}/{namespace}/{name}"),
            None => write!(f, "{kind}{dot}{group}/{name}"),
        }
    }
}
