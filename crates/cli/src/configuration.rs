//! Values for templates, as the command line gives and shows them.

use std::collections::BTreeMap;

use plural_core::service::{FileKeyRef, KeyRef, Reference, VaultKeyRef};
use plural_wire::{
    ConfigAttributes, ConfigurationFileRef, ConfigurationFileRefAttributes, ConfigurationKeyRef,
    ConfigurationKeyRefAttributes, ConfigurationReference, ConfigurationReferenceAttributes,
    ConfigurationVaultRef, ConfigurationVaultRefAttributes, Secret, ServiceConfiguration,
};
use serde_json::{Map, Value};

use crate::{
    args::{ServiceSourceArgs, ServiceUpdateArgs},
    error::CliError,
    file,
    terminal::Terminal,
};

/// Values from `--conf-file` and `--conf`; the command line wins. `None` when neither is given.
pub(crate) fn configuration(
    source: &ServiceSourceArgs,
    terminal: &mut Terminal<'_>,
) -> Result<Option<Vec<ConfigAttributes>>, CliError> {
    if source.conf.is_empty() && source.conf_from.is_empty() && source.conf_file.is_none() {
        return Ok(None);
    }
    let mut values: BTreeMap<String, ConfigAttributes> = BTreeMap::new();
    if let Some(path) = &source.conf_file {
        let mapping = configuration_of(file::mapping("configuration", path, terminal)?)?;
        values.extend(mapping.into_iter().map(|value| (value.name.clone(), value)));
    }
    let given = source.conf.iter().map(|(name, value)| plain(name.clone(), value.clone()));
    values.extend(given.map(|value| (value.name.clone(), value)));
    for (name, reference) in &source.conf_from {
        if source.conf.iter().any(|(other, _)| other == name) {
            return Err(CliError::usage(format!("{name:?} is given by both --conf and --conf-from")));
        }
        values.insert(name.clone(), referring(name.clone(), reference));
    }
    Ok(Some(values.into_values().collect()))
}

/// A value in clear.
pub(crate) fn plain(name: String, value: String) -> ConfigAttributes {
    ConfigAttributes { name, value: Some(Secret::new(value)), value_from: None }
}

/// A value that only the agent of the service's cluster finds.
fn referring(name: String, reference: &Reference) -> ConfigAttributes {
    let key = |KeyRef { name, key, namespace }| ConfigurationKeyRefAttributes { name, key, namespace };
    let file = |FileKeyRef { file, key }| ConfigurationFileRefAttributes { file, key };
    let mut from = ConfigurationReferenceAttributes::default();
    match reference.clone() {
        Reference::SecretKeyRef(secret) => from.secret_key_ref = Some(key(secret)),
        Reference::ConfigMapKeyRef(map) => from.config_map_key_ref = Some(key(map)),
        Reference::VaultKeyRef(VaultKeyRef { path, key }) => {
            from.vault_key_ref = Some(ConfigurationVaultRefAttributes { path, key });
        }
        Reference::SopsKeyRef(place) => from.sops_key_ref = Some(file(place)),
        Reference::AgeKeyRef(place) => from.age_key_ref = Some(file(place)),
    }
    ConfigAttributes { name, value: None, value_from: Some(from) }
}

/// Values for templates, if any are given.
pub(crate) type Values = Option<Vec<ConfigAttributes>>;

/// What an update asks for: all values, or those to set and to remove.
pub(crate) fn configuration_change(
    args: &ServiceUpdateArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(Values, Values), CliError> {
    let given = configuration(&args.source, terminal)?;
    if args.replace_conf {
        return Ok((Some(given.unwrap_or_default()), None));
    }
    if given.is_none() && args.unset_conf.is_empty() {
        return Ok((None, None));
    }
    let mut changes = given.unwrap_or_default();
    for name in &args.unset_conf {
        if changes.iter().any(|change| change.name == *name) {
            return Err(CliError::usage(format!("{name:?} is both set and unset")));
        }
        changes.push(ConfigAttributes { name: name.clone(), value: None, value_from: None });
    }
    Ok((None, Some(changes)))
}

/// The values of a mapping, which must be plain.
pub(crate) fn configuration_of(mapping: Map<String, Value>) -> Result<Vec<ConfigAttributes>, CliError> {
    let value = |(name, value)| {
        let text = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(CliError::usage(format!(
                    "the value of {name:?} must be text, a number or a boolean"
                )));
            }
        };
        Ok(plain(name, text))
    };
    mapping.into_iter().map(value).collect()
}

/// The name of a value, and where a reference leads.
pub(crate) fn configured(value: &ServiceConfiguration) -> String {
    let ServiceConfiguration { name, value_from } = value;
    let key = |ConfigurationKeyRef { name, key, namespace }| KeyRef { name, key, namespace };
    let vault = |ConfigurationVaultRef { path, key }| VaultKeyRef { path, key };
    let file = |ConfigurationFileRef { file, key }| FileKeyRef { file, key };
    let reference = value_from.clone().and_then(|from| {
        let ConfigurationReference {
            secret_key_ref,
            config_map_key_ref,
            vault_key_ref,
            sops_key_ref,
            age_key_ref,
        } = from;
        let given = [
            secret_key_ref.map(key).map(Reference::SecretKeyRef),
            config_map_key_ref.map(key).map(Reference::ConfigMapKeyRef),
            vault_key_ref.map(vault).map(Reference::VaultKeyRef),
            sops_key_ref.map(file).map(Reference::SopsKeyRef),
            age_key_ref.map(file).map(Reference::AgeKeyRef),
        ];
        given.into_iter().flatten().next()
    });
    reference.map_or_else(|| name.clone(), |reference| format!("{name} ({reference})"))
}
