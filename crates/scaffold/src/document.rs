//! Documents about automations, as files of a repository have them.

use plural_render::yaml;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::automation::Automation;

/// Values of a file.
const MAX_VALUES: usize = 100_000;
/// Automations of a file of contracts.
const MAX_CONTRACTS: usize = 1000;

/// One of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// A `PrAutomation`; or a `PrTemplate`, which has its answers with it.
    Automation {
        /// Its name.
        name: String,
        /// What it asks and does.
        automation: Box<Automation>,
        /// Its own answers.
        context: Map<String, Value>,
        /// Parts of it that only a console does.
        left_out: Vec<&'static str>,
    },
    /// `PrContracts`: automations, and the answers that they are tested with.
    Contracts(Contracts),
}

/// Automations, and the answers that they are tested with. Paths are relative to `workdir`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Contracts {
    /// The folder whose files the automations change.
    pub workdir: Option<String>,
    /// What is copied first; both paths are relative to where the command runs.
    pub templates: Option<TemplateCopy>,
    /// In order: each finds what those before it made.
    pub automations: Vec<Contract>,
}

/// A folder that is copied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateCopy {
    /// From here.
    pub from: String,
    /// To here.
    pub to: String,
}

/// An automation and its answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Contract {
    /// The file with the automation.
    pub file: String,
    /// The file with the answers.
    #[serde(default)]
    pub context: Option<String>,
    /// The folder with external templates.
    #[serde(default)]
    pub external_dir: Option<String>,
    /// The archive of the chart that is vendored.
    #[serde(default)]
    pub chart: Option<String>,
}

/// All documents about automations in a file; others are passed over.
///
/// # Errors
/// Where the file is no YAML, or one of its documents is not what its kind says, or there is none.
pub fn documents(text: &str) -> Result<Vec<Document>, String> {
    // The parser's words hold no parts of the text.
    let read = yaml::parse_documents(text.as_bytes(), MAX_VALUES).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for yaml::Document { value, line } in read {
        let bad = |error: &dyn std::fmt::Display| format!("the document of line {line}: {error}");
        let kind = value["kind"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            "PrAutomation" | "PrTemplate" => {
                found.push(automation(&value).map_err(|error| bad(&error))?);
            }
            "PrContracts" => {
                let contracts: Contracts =
                    serde_json::from_value(without_nulls(&value["spec"])).map_err(|error| bad(&error))?;
                if contracts.automations.is_empty() || contracts.automations.len() > MAX_CONTRACTS {
                    return Err(bad(&format_args!("it needs 1 to {MAX_CONTRACTS} automations")));
                }
                found.push(Document::Contracts(contracts));
            }
            _ => {}
        }
    }
    if found.is_empty() {
        return Err("it holds no PrAutomation, no PrTemplate and no PrContracts".to_owned());
    }
    Ok(found)
}

fn automation(value: &Value) -> Result<Document, serde_json::Error> {
    let mut spec = without_nulls(&value["spec"]);
    let name = value["spec"]["name"].as_str().or_else(|| value["metadata"]["name"].as_str());
    let name = name.unwrap_or("automation").to_owned();
    let questions = spec.get_mut("configuration").and_then(Value::as_array_mut);
    for question in questions.into_iter().flatten() {
        // YAML reads 5 as a number, and a default is a text.
        for at in ["/default", "/condition/value"] {
            if let Some(value) = question.pointer_mut(at)
                && (value.is_number() || value.is_boolean())
            {
                *value = Value::String(value.to_string());
            }
        }
    }
    let parts = ["ai", "secrets", "confirmation"];
    let left_out = parts.into_iter().filter(|part| spec.get(*part).is_some()).collect();
    if spec.is_null() {
        spec = Value::Object(Map::new());
    }
    let context = value.get("context").and_then(Value::as_object).cloned().unwrap_or_default();
    Ok(Document::Automation { name, automation: serde_json::from_value(spec)?, context, left_out })
}

/// What YAML leaves empty is not there.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(entries) => entries
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
