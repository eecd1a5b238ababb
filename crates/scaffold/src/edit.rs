//! Edits of YAML, JSON, TOML and HCL that leave all bytes as they are that they do not have to change.
//!
//! An edit is done on the value that a text has; then the bytes are changed in which the two values differ, and the result
//! is read again: a text that does not say what it should is an error, never an answer.

mod hcl;
mod json;
mod splice;
mod toml;
mod value;
mod write;

pub use plural_core::pr_edit::{DocumentSelector, Edit, FileEdit, Format, Path};
use plural_render::yaml;
use serde_json::Value;

pub use value::{ListMerge, merge};

use splice::spliced;
use write::Style;

/// Bytes of a text that is edited.
const MAX_BYTES: usize = 4 << 20;
/// Values of a text, aliases expanded.
const MAX_VALUES: usize = 1_000_000;

/// Whether `selector` means this document.
fn takes(selector: &DocumentSelector, index: usize, document: &Value) -> bool {
    let is = |given: &Option<String>, found: &Value| {
        given.as_deref().is_none_or(|given| found.as_str() == Some(given))
    };
    selector.index.is_none_or(|given| u32::try_from(index) == Ok(given))
        && is(&selector.kind, &document["kind"])
        && is(&selector.name, &document["metadata"]["name"])
}

/// `text` after `edit`.
///
/// # Errors
/// In words: the text cannot be read, the path leads nowhere, more documents than one are meant, or the text shares values (by an
/// anchor) in a way that the edit would change elsewhere too.
pub fn edit(text: &str, format: Format, document: &DocumentSelector, edit: &Edit) -> Result<String, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("the file is larger than {} MiB", MAX_BYTES >> 20));
    }
    if format != Format::Yaml && !document.is_empty() {
        return Err("only YAML has more documents than one".to_owned());
    }
    match format {
        Format::Yaml => edit_yaml(text, document, edit),
        Format::Json => edit_json(text, edit),
        Format::Toml => toml::edit(text, edit),
        Format::Hcl => hcl::edit(text, edit),
    }
}

/// What a text says, as far as its keys and lists go; nothing where it is not of that language.
pub(crate) fn shape(text: &str, format: Format) -> Option<Value> {
    match format {
        Format::Yaml => {
            let documents = yaml::parse_documents(text.as_bytes(), MAX_VALUES).ok()?;
            Some(Value::Array(documents.into_iter().map(|document| document.value).collect()))
        }
        Format::Json => json::shape(text),
        Format::Toml => toml::value(text),
        Format::Hcl => hcl::shape(text),
    }
}

/// The shape of a map whose keys may stand twice.
fn entries_shape(entries: impl Iterator<Item = (String, Value)>) -> Value {
    let all: Value = entries.map(|entry| Value::Object([entry].into_iter().collect())).collect();
    Value::Object([("{}".to_owned(), all)].into_iter().collect())
}

fn edit_yaml(text: &str, document: &DocumentSelector, edit: &Edit) -> Result<String, String> {
    let read = |text: &str| {
        yaml::parse_documents(text.as_bytes(), MAX_VALUES)
            .map(|documents| documents.into_iter().map(|document| document.value).collect::<Vec<_>>())
    };
    let mut values = read(text).map_err(|error| error.to_string())?;
    let nodes = yaml::spans::spans(text).map_err(|error| error.to_string())?;
    if nodes.len() != values.len() {
        return Err("the documents of the file cannot be told apart".to_owned());
    }
    if values.is_empty() {
        let mut value = Value::Null;
        value::apply(&mut value, edit)?;
        if value.is_null() {
            return Ok(text.to_owned());
        }
        let break_before = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return Ok(format!("{text}{break_before}{}", yaml::to_string(&value)));
    }
    let at = chosen(&values, document, edit)?;
    let now = values[at].clone();
    value::apply(&mut values[at], edit)?;
    if values[at] == now {
        return Ok(text.to_owned());
    }
    let edited = spliced(text, &nodes[at], &now, &values[at], Style::Yaml);
    match read(&edited) {
        Ok(found) if found == values => Ok(edited),
        _ => Err("the file shares values by anchors, or is laid out in a way that this edit cannot keep; edit it by hand, or write \
                  out what the anchors stand for"
            .to_owned()),
    }
}

/// The document that is meant: the selected one, the one of the same kind and name as an overlay has, or the only one.
fn chosen(values: &[Value], document: &DocumentSelector, edit: &Edit) -> Result<usize, String> {
    let mut selector = document.clone();
    if selector.is_empty()
        && values.len() > 1
        && let Edit::Merge { path, value, .. } = edit
        && path.is_empty()
    {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        selector = DocumentSelector {
            index: None,
            kind: text(&value["kind"]),
            name: text(&value["metadata"]["name"]),
        };
    }
    let mut found = values
        .iter()
        .enumerate()
        .filter(|(index, value)| takes(&selector, *index, value))
        .map(|(index, _)| index);
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err("the file has no such document".to_owned()),
        (Some(_), Some(_)) => Err(format!(
            "the file has {} documents and more than one is meant: say which by index, kind or name",
            values.len()
        )),
    }
}

fn edit_json(text: &str, edit: &Edit) -> Result<String, String> {
    let read = |text: &str| serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}'));
    let now = read(text).map_err(|error| format!("the file is no JSON: {error}"))?;
    let mut want = now.clone();
    value::apply(&mut want, edit)?;
    if want == now {
        return Ok(text.to_owned());
    }
    let body = text.trim_start_matches('\u{feff}');
    let node = json::spans(body).ok_or("the file is no JSON that can be edited")?;
    let edited = spliced(body, &node, &now, &want, Style::Json);
    match read(&edited) {
        Ok(found) if found == want => Ok(format!("{}{edited}", &text[..text.len() - body.len()])),
        _ => Err("the file has a key twice, or is laid out in a way that this edit cannot keep".to_owned()),
    }
}
