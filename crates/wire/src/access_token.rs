//! What an access token reaches, by hand.

use crate::ScopeAttributes;

impl ScopeAttributes {
    /// The Kubernetes API of one cluster, or of all.
    pub fn kubernetes(cluster: Option<String>) -> Self {
        Self { api: Some("k8s".to_owned()), identifier: cluster, ..Self::default() }
    }
}
