//! Values for templates, in clear or by reference.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::reference::Reference;
use crate::error::{Error, Result};

/// References of one service at most.
const MAX_REFERENCES: usize = 1_000;

/// What templates read by name: values in clear, and references that only the agent resolves. No name is in both. Its `Debug`
/// shows no value.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, ConfigurationValue>", into = "BTreeMap<String, ConfigurationValue>")]
pub struct Configuration {
    /// Values in clear.
    pub values: BTreeMap<String, String>,
    /// Where the agent reads the others.
    pub references: BTreeMap<String, Reference>,
}

/// One value of a configuration. Stored as its text, or as the reference's object: a release that knows no references cannot read
/// a configuration with one, instead of taking it for another.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ConfigurationValue {
    /// In clear.
    Value(String),
    /// The agent reads it in its cluster.
    Reference(Reference),
}

impl From<&str> for ConfigurationValue {
    fn from(value: &str) -> Self {
        Self::Value(value.to_owned())
    }
}

impl From<String> for ConfigurationValue {
    fn from(value: String) -> Self {
        Self::Value(value)
    }
}

impl From<Reference> for ConfigurationValue {
    fn from(reference: Reference) -> Self {
        Self::Reference(reference)
    }
}

impl From<BTreeMap<String, ConfigurationValue>> for Configuration {
    fn from(all: BTreeMap<String, ConfigurationValue>) -> Self {
        let mut configuration = Self::default();
        for (name, value) in all {
            configuration.set(name, value);
        }
        configuration
    }
}

impl From<Configuration> for BTreeMap<String, ConfigurationValue> {
    fn from(configuration: Configuration) -> Self {
        let Configuration { values, references } = configuration;
        let values = values.into_iter().map(|(name, value)| (name, ConfigurationValue::Value(value)));
        let references = references.into_iter();
        values
            .chain(references.map(|(name, reference)| (name, ConfigurationValue::Reference(reference))))
            .collect()
    }
}

impl From<BTreeMap<String, String>> for Configuration {
    fn from(values: BTreeMap<String, String>) -> Self {
        Self { values, references: BTreeMap::new() }
    }
}

impl<const N: usize> From<[(String, String); N]> for Configuration {
    fn from(values: [(String, String); N]) -> Self {
        BTreeMap::from(values).into()
    }
}

impl std::fmt::Debug for Configuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl Configuration {
    /// Its names, those of values first.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.values.keys().chain(self.references.keys())
    }

    /// It holds nothing.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.references.is_empty()
    }

    /// Sets one value, in place of what had the name.
    pub fn set(&mut self, name: String, value: ConfigurationValue) {
        match value {
            ConfigurationValue::Value(value) => {
                self.references.remove(&name);
                self.values.insert(name, value);
            }
            ConfigurationValue::Reference(reference) => {
                self.values.remove(&name);
                self.references.insert(name, reference);
            }
        }
    }

    /// Whether there was something of this name, which is gone now.
    fn remove(&mut self, name: &str) -> bool {
        self.values.remove(name).is_some() || self.references.remove(name).is_some()
    }

    /// Takes in all of another one, which wins.
    pub fn extend(&mut self, other: Self) {
        for (name, value) in BTreeMap::from(other) {
            self.set(name, value);
        }
    }

    /// Checks names and sizes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty name, more than 1 MiB in all (what a Secret may hold), too many references, or one that can
    /// name nothing.
    pub fn check(&self) -> Result<()> {
        if self.names().any(String::is_empty) {
            return Err(Error::invalid("configuration", "must not hold an empty name"));
        }
        if self.values.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>() > 1 << 20 {
            return Err(Error::invalid("configuration", "must not hold more than 1 MiB"));
        }
        if self.references.len() > MAX_REFERENCES {
            let reason = format!("must not hold more than {MAX_REFERENCES} references");
            return Err(Error::invalid("configuration", reason));
        }
        for (name, reference) in &self.references {
            if let Some(problem) = reference.problem() {
                return Err(Error::invalid("configuration", format!("the reference of {name:?} {problem}")));
            }
        }
        Ok(())
    }
}

/// A change of a configuration. Its `Debug` shows names only.
#[derive(Clone, PartialEq, Eq)]
pub enum ConfigurationEdit {
    /// These values and no others.
    Replace(Configuration),
    /// Sets these values and removes those that are `None`; all others stay.
    Merge(BTreeMap<String, Option<ConfigurationValue>>),
}

impl std::fmt::Debug for ConfigurationEdit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Replace(configuration) => f.debug_tuple("Replace").field(configuration).finish(),
            Self::Merge(values) => f.debug_set().entries(values.keys()).finish(),
        }
    }
}

impl ConfigurationEdit {
    /// The configuration with this change.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the values that result are refused by [`Configuration::check`], or when a value that is to
    /// be removed does not exist.
    pub fn over(&self, old: &Configuration) -> Result<Configuration> {
        let new = match self {
            Self::Replace(configuration) => configuration.clone(),
            Self::Merge(values) => {
                let mut new = old.clone();
                for (name, value) in values {
                    match value {
                        Some(value) => new.set(name.clone(), value.clone()),
                        None if !new.remove(name) => {
                            let reason = format!("cannot remove {name:?}: the service has no such value");
                            return Err(Error::invalid("configuration", reason));
                        }
                        None => {}
                    }
                }
                new
            }
        };
        new.check()?;
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference() -> Reference {
        "secret:db#password".parse().unwrap()
    }

    #[test]
    fn values_are_not_debug_text() {
        let configuration = Configuration::from([("password".to_owned(), "hunter2".to_owned())]);
        assert_eq!(format!("{configuration:?}"), "{\"password\"}");
    }

    #[test]
    fn a_name_is_a_value_or_a_reference() {
        let old = Configuration::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        let merge = |name: &str, value: Option<ConfigurationValue>| {
            ConfigurationEdit::Merge([(name.to_owned(), value)].into())
        };
        let new = merge("a", Some(reference().into())).over(&old).unwrap();
        assert_eq!((new.values.len(), new.references.len()), (1, 1));
        assert_eq!(merge("a", Some("1".into())).over(&new).unwrap(), old);
        assert!(merge("a", None).over(&new).unwrap().references.is_empty());
        assert!(merge("c", None).over(&new).is_err());
    }

    #[test]
    fn what_is_stored_comes_back() {
        let mut configuration = Configuration::from([("a".to_owned(), "1".to_owned())]);
        configuration.set("b".to_owned(), reference().into());
        let json = serde_json::to_string(&configuration).unwrap();
        assert_eq!(json, r#"{"a":"1","b":{"secretKeyRef":{"name":"db","key":"password"}}}"#);
        assert_eq!(serde_json::from_str::<Configuration>(&json).unwrap(), configuration);
        // What an earlier release reads it as: not at all.
        assert!(serde_json::from_str::<BTreeMap<String, String>>(&json).is_err());
    }
}
