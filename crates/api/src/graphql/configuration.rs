//! Values of services' configurations.

use async_graphql::SimpleObject;
use plural_core::service::{FileKeyRef, KeyRef, Reference, VaultKeyRef};

/// A value for templates.
#[derive(SimpleObject)]
pub(crate) struct ServiceConfiguration {
    /// Its name.
    name: String,
    /// Its value in clear; empty where it is a reference, which only the agent resolves.
    value: String,
    /// Where the agent of the service's cluster finds the value.
    value_from: Option<ConfigurationReference>,
}

/// Where the agent of the service's cluster finds a value: one of these.
#[derive(Default, SimpleObject)]
#[expect(clippy::struct_field_names, reason = "the names of the API")]
pub(crate) struct ConfigurationReference {
    /// A key of a Secret.
    secret_key_ref: Option<ConfigurationKeyRef>,
    /// A key of a ConfigMap.
    config_map_key_ref: Option<ConfigurationKeyRef>,
    /// A key of a secret in Vault.
    vault_key_ref: Option<ConfigurationVaultRef>,
    /// A value of a file that SOPS encrypted.
    sops_key_ref: Option<ConfigurationFileRef>,
    /// A file that age encrypted, or a value of it.
    age_key_ref: Option<ConfigurationFileRef>,
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

/// A key of a secret in the Vault that the agent's operator names.
#[derive(SimpleObject)]
pub(crate) struct ConfigurationVaultRef {
    /// The secret, with its mount first: `secret/shop/db`.
    path: String,
    /// The key in it.
    key: String,
}

/// A value in a file of the service's source.
#[derive(SimpleObject)]
pub(crate) struct ConfigurationFileRef {
    /// The file, from the service's folder.
    file: String,
    /// The value in it, as keys with dots between them; the whole file when absent.
    key: Option<String>,
}

impl From<Reference> for ConfigurationReference {
    fn from(reference: Reference) -> Self {
        let key = |KeyRef { name, key, namespace }| Some(ConfigurationKeyRef { name, key, namespace });
        let file = |FileKeyRef { file, key }| Some(ConfigurationFileRef { file, key });
        let none = Self::default();
        match reference {
            Reference::SecretKeyRef(secret) => Self { secret_key_ref: key(secret), ..none },
            Reference::ConfigMapKeyRef(map) => Self { config_map_key_ref: key(map), ..none },
            Reference::VaultKeyRef(VaultKeyRef { path, key }) => {
                Self { vault_key_ref: Some(ConfigurationVaultRef { path, key }), ..none }
            }
            Reference::SopsKeyRef(place) => Self { sops_key_ref: file(place), ..none },
            Reference::AgeKeyRef(place) => Self { age_key_ref: file(place), ..none },
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
