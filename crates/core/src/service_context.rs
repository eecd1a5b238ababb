//! Contexts: named documents that the templates of services read.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{ProjectId, ServiceContextId};
use crate::name::Name;
use crate::page::Keyed;
use crate::service::Configuration;

/// Contexts that one service may name.
pub const MAX_CONTEXTS: usize = 32;
/// Bytes of one context, as JSON.
const MAX_BYTES: usize = 1 << 20;

/// A named document. Its secret values are not in here.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceContext {
    /// Id.
    pub id: ServiceContextId,
    /// Unique in the installation: templates read it as `contexts.NAME`.
    pub name: Name,
    /// Whoever may read there may read it, and have services use it; whoever may write there may change it.
    pub project_id: ProjectId,
    /// What everybody may see who may read it.
    pub configuration: Map<String, Value>,
    /// Names of its secret values.
    pub secrets: Vec<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// What a context is given; `None` leaves a part as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServiceContextChange {
    /// Where it belongs. One that exists stays where it is.
    pub project_id: Option<ProjectId>,
    /// The whole document.
    pub configuration: Option<Map<String, Value>>,
    /// All secret values.
    pub secrets: Option<Configuration>,
}

impl ServiceContextChange {
    /// Checks names and sizes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more than 1 MiB, or a secret without a name.
    pub fn check(&self) -> Result<()> {
        let size = self
            .configuration
            .as_ref()
            .map_or(0, |document| serde_json::to_vec(document).map_or(usize::MAX, |json| json.len()));
        if size > MAX_BYTES {
            return Err(Error::invalid("attributes.configuration", "must not exceed 1 MiB"));
        }
        match &self.secrets {
            // One context is read in many namespaces and clusters: in which of them, nobody could say.
            Some(secrets) if !secrets.references.is_empty() => Err(Error::invalid(
                "attributes.secrets",
                "must be values: a context holds no references; give them to the services that read it",
            )),
            Some(secrets) => secrets.check().map_err(|_| {
                Error::invalid("attributes.secrets", "must have names, and not be more than 1 MiB")
            }),
            None => Ok(()),
        }
    }
}

/// What templates read as `contexts.NAME`: the document, and over it the secret values under their names.
pub fn context_data(document: Map<String, Value>, secrets: Configuration) -> Value {
    let mut data = document;
    data.extend(secrets.values.into_iter().map(|(name, value)| (name, Value::String(value))));
    Value::Object(data)
}

impl Keyed for ServiceContext {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_lie_over_the_document() {
        let Value::Object(document) = json!({"host": "db", "password": "none", "port": 5432}) else {
            panic!()
        };
        let secrets = Configuration::from([("password".to_owned(), "hunter2".to_owned())]);
        assert_eq!(
            context_data(document, secrets),
            json!({"host": "db", "password": "hunter2", "port": 5432})
        );
    }

    #[test]
    fn what_is_too_large_or_has_no_name_is_refused() {
        let change = |secrets: &[(&str, &str)]| ServiceContextChange {
            secrets: Some(Configuration {
                values: secrets
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                ..Configuration::default()
            }),
            ..ServiceContextChange::default()
        };
        assert!(change(&[("a", "b")]).check().is_ok());
        assert!(change(&[("", "b")]).check().is_err());
        let Value::Object(large) = json!({"a": "x".repeat(MAX_BYTES)}) else { panic!() };
        let large = ServiceContextChange { configuration: Some(large), ..ServiceContextChange::default() };
        assert!(large.check().is_err());
    }
}
