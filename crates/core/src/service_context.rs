//! Contexts: named documents that the templates of services read.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{ProjectId, ServiceContextId, StackId};
use crate::name::Name;
use crate::page::Keyed;
use crate::service::Configuration;

/// Contexts that one service may name.
pub const MAX_CONTEXTS: usize = 32;
/// Outputs of stacks that one context may take.
pub const MAX_OUTPUTS: usize = 64;
/// Bytes of one context, as JSON.
const MAX_BYTES: usize = 1 << 20;
/// Bytes of the name of an output, and of the name under which a context takes it.
const MAX_NAME: usize = 256;

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
    /// The outputs of stacks that it takes. Their values are not in here.
    pub imports: Vec<ContextImport>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

impl ServiceContext {
    /// Whether it gives templates what nobody is shown: whoever may have a service use it could read that there.
    pub fn hides(&self) -> bool {
        !self.secrets.is_empty() || self.imports.iter().any(|import| import.sensitive)
    }
}

/// An output of a stack that a context takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextImport {
    /// The stack.
    pub stack_id: StackId,
    /// Name of the output.
    pub output: String,
    /// The name under which templates read it.
    pub name: String,
    /// It is taken where the tool calls it sensitive, too: whoever saved it might read the stack's state.
    pub sensitive: bool,
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
    /// All outputs of stacks that it takes.
    pub imports: Option<Vec<ContextImport>>,
}

impl ServiceContextChange {
    /// Checks names and sizes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more than 1 MiB, a secret without a name, or outputs without a name or with one that another has.
    pub fn check(&self) -> Result<()> {
        let size = self
            .configuration
            .as_ref()
            .map_or(0, |document| serde_json::to_vec(document).map_or(usize::MAX, |json| json.len()));
        if size > MAX_BYTES {
            return Err(Error::invalid("attributes.configuration", "must not exceed 1 MiB"));
        }
        check_imports(self.imports.as_deref().unwrap_or_default())?;
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

fn check_imports(imports: &[ContextImport]) -> Result<()> {
    if imports.len() > MAX_OUTPUTS {
        return Err(Error::invalid("attributes.imports", format!("at most {MAX_OUTPUTS} are allowed")));
    }
    let mut names = BTreeSet::new();
    for ContextImport { stack_id: _, output, name, sensitive: _ } in imports {
        for (field, text) in [("attributes.imports.output", output), ("attributes.imports.name", name)] {
            if text.is_empty() || text.len() > MAX_NAME || text.contains('\0') {
                return Err(Error::invalid(field, format!("must have 1 to {MAX_NAME} bytes, without NUL")));
            }
        }
        if !names.insert(name) {
            return Err(Error::invalid(
                "attributes.imports.name",
                format!("must differ: two outputs are taken as {name:?}; give one of them another name"),
            ));
        }
    }
    Ok(())
}

/// What templates read as `contexts.NAME`: the document, over it the outputs of stacks, and over both the secret values, each under
/// its name.
pub fn context_data(
    document: Map<String, Value>,
    outputs: Map<String, Value>,
    secrets: Configuration,
) -> Value {
    let mut data = document;
    data.extend(outputs);
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
    fn outputs_lie_over_the_document_and_secrets_over_both() {
        let Value::Object(document) = json!({"host": "none", "password": "none", "port": 5432}) else {
            panic!()
        };
        let Value::Object(outputs) = json!({"host": "db", "password": "output"}) else { panic!() };
        let secrets = Configuration::from([("password".to_owned(), "hunter2".to_owned())]);
        assert_eq!(
            context_data(document, outputs, secrets),
            json!({"host": "db", "password": "hunter2", "port": 5432})
        );
    }

    #[test]
    fn outputs_have_names_that_differ() {
        let stack_id = StackId::new();
        let import = |output: &str, name: &str| ContextImport {
            stack_id,
            output: output.to_owned(),
            name: name.to_owned(),
            sensitive: false,
        };
        let check = |imports| {
            ServiceContextChange { imports: Some(imports), ..ServiceContextChange::default() }.check()
        };
        assert!(check(vec![import("a", "a"), import("a", "b")]).is_ok());
        assert!(check(vec![import("a", "a"), import("b", "a")]).is_err());
        assert!(check(vec![import("", "a")]).is_err());
        assert!(check(vec![import("a", "")]).is_err());
        let many = (0..=MAX_OUTPUTS).map(|number| import("a", &number.to_string())).collect();
        assert!(check(many).is_err());
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
