//! Values of services' configurations.

use async_graphql::SimpleObject;
use plural_core::service::{KeyRef, Reference};

/// A value for templates.
#[derive(SimpleObject)]
pub(crate) struct ServiceConfiguration {
    /// Its name.
    name: String,
    /// Its value in clear; empty where it is a reference, which only the agent resolves.
    value: String,
    /// Where the agent reads the value in the service's cluster.
    value_from: Option<ConfigurationReference>,
}

/// Where a value is in the service's cluster: one of these.
#[derive(SimpleObject)]
pub(crate) struct ConfigurationReference {
    /// A key of a Secret.
    secret_key_ref: Option<ConfigurationKeyRef>,
    /// A key of a ConfigMap.
    config_map_key_ref: Option<ConfigurationKeyRef>,
}

/// A key of an object.
#[derive(SimpleObject)]
pub(crate) struct ConfigurationKeyRef {
    /// Name of the object.
    name: String,
    /// The key in its data.
    key: String,
    /// Its namespace, where that is not the service's own.
    namespace: Option<String>,
}

impl From<Reference> for ConfigurationReference {
    fn from(reference: Reference) -> Self {
        let key = |KeyRef { name, key, namespace }| Some(ConfigurationKeyRef { name, key, namespace });
        match reference {
            Reference::SecretKeyRef(secret) => Self { secret_key_ref: key(secret), config_map_key_ref: None },
            Reference::ConfigMapKeyRef(map) => Self { secret_key_ref: None, config_map_key_ref: key(map) },
        }
    }
}

impl ServiceConfiguration {
    pub(super) fn of_value((name, value): (String, String)) -> Self {
        Self { name, value, value_from: None }
    }

    pub(super) fn of_reference((name, reference): (String, Reference)) -> Self {
        Self { name, value: String::new(), value_from: Some(reference.into()) }
    }
}
