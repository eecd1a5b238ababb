//! The ServiceAccount whose rights a service has.

use crate::{Fault, KubeName, Result};

/// Namespaces of Kubernetes itself: their accounts may do what no tenant may.
const KUBERNETES: &str = "kube-";

/// A ServiceAccount of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ServiceAccount {
    /// Reads `NAME`, which is of the service's own namespace, or `NAMESPACE/NAME`.
    ///
    /// # Errors
    /// [`Fault`] of the field `serviceAccount` for anything else.
    pub fn parse(text: &str, own_namespace: &str) -> Result<Self> {
        let (namespace, name) = text.split_once('/').unwrap_or((own_namespace, text));
        let named = |text: &str| text.parse::<KubeName>().is_ok();
        if !named(namespace) || !named(name) {
            let reason = "must be the name of a ServiceAccount, or NAMESPACE/NAME";
            return Err(Fault::at("service_account", reason));
        }
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// As the API server names it.
    pub fn user(&self) -> String {
        let Self { namespace, name } = self;
        format!("system:serviceaccount:{namespace}:{name}")
    }

    /// It belongs to Kubernetes itself.
    pub fn is_of_kubernetes(&self) -> bool {
        self.namespace.starts_with(KUBERNETES)
    }
}
