//! Things as documents, and the difference of two of them.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{
    console::Console,
    kind::{API_VERSION, Kind},
    schema::{Field, Type},
    state::{Hidden, State},
    thing::Live,
};
use crate::{error::CliError, output};

/// Lines around a difference.
const CONTEXT: usize = 3;

/// Names of documents for keys: those that the files gave, else those that the console's documents get.
pub(super) type Names = std::collections::HashMap<(Kind, String), String>;

/// The document of a thing.
pub(super) async fn document(
    kind: Kind,
    name: &str,
    state: &State,
    names: &Names,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let mut spec = state.clone();
    // The document is called so already.
    for field in ["name", "handle"] {
        if kind != Kind::Project && super::state::text(&spec, field) == Some(name) {
            spec.remove(field);
        }
    }
    let mut keys = Vec::new();
    collect(kind.info().fields, &spec, &mut keys);
    let mut known = names.clone();
    for (kind, key) in keys {
        if !known.contains_key(&(kind, key.clone())) {
            let name = console.document_name(kind, &key).await?;
            known.insert((kind, key), name);
        }
    }
    refer(kind.info().fields, &mut spec, &known);
    Ok(json!({
        "apiVersion": API_VERSION,
        "kind": kind.info().name,
        "metadata": {"name": name},
        "spec": spec,
    }))
}

/// The keys that a state refers to.
fn collect(fields: &'static [Field], state: &State, keys: &mut Vec<(Kind, String)>) {
    for (name, value) in state {
        let Some(field) = fields.iter().find(|field| field.name == name) else { continue };
        match (field.ty, value) {
            (Type::Reference(kind), Value::String(key)) => keys.push((kind, key.clone())),
            (Type::Fields(fields), Value::Object(below)) => collect(fields, below, keys),
            (Type::List(fields), Value::Array(items)) => {
                items.iter().filter_map(Value::as_object).for_each(|item| collect(fields, item, keys));
            }
            _ => {}
        }
    }
}

/// Puts references in place of keys.
fn refer(fields: &'static [Field], state: &mut State, names: &Names) {
    for (name, value) in state.iter_mut() {
        let Some(field) = fields.iter().find(|field| field.name == name) else { continue };
        match (field.ty, &mut *value) {
            (Type::Reference(kind), Value::String(key)) => {
                let name = names.get(&(kind, key.clone())).unwrap_or(key);
                *value = json!({"name": name});
            }
            (Type::Fields(fields), Value::Object(below)) => refer(fields, below, names),
            (Type::List(fields), Value::Array(items)) => {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| refer(fields, item, names));
            }
            _ => {}
        }
    }
}

/// A document as YAML, with comments about what is hidden.
pub(super) fn yaml(document: &Value, notes: &[String]) -> Result<String, CliError> {
    let mut text = output::yaml_text(&in_order(document))?;
    for note in notes {
        let _ = writeln!(text, "# {note}");
    }
    Ok(text)
}

/// The names of a service's hidden values, for people.
pub(super) fn notes(live: &Live) -> Vec<String> {
    let mut notes = live.notes.clone();
    for (path, value) in live.hidden.iter().flat_map(|hidden| &hidden.0) {
        match value {
            Value::Object(values) if values.is_empty() => {}
            Value::Object(values) if path == "configuration" => {
                let names: Vec<&str> = values.keys().map(String::as_str).collect();
                notes.push(format!("secret keys of spec.configuration: {}", names.join(", ")));
            }
            _ => notes.push(format!("secret: spec.{path}")),
        }
    }
    notes
}

/// A document with its fields in the order in which people write them.
fn in_order(document: &Value) -> Value {
    let mut ordered = Map::new();
    for name in ["apiVersion", "kind", "metadata", "spec", "status"] {
        ordered.extend(document.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    Value::Object(ordered)
}

/// One line for each hidden value: the same text on both sides where the value is the same.
pub(super) fn masked(known: Option<&Hidden>, wanted: &Hidden) -> [String; 2] {
    let mut before = String::new();
    let mut after = String::new();
    for (path, wanted) in &wanted.0 {
        let Some(known) = known else {
            let line = format!("# secret spec.{path}: *** (not compared: the console does not tell it)\n");
            before.push_str(&line);
            after.push_str(&line);
            continue;
        };
        match (known.get(path), wanted) {
            (known, Value::Object(wanted)) if path.ends_with("onfiguration") => {
                let empty = Map::new();
                let known = known.and_then(Value::as_object).unwrap_or(&empty);
                let mut keys: Vec<&String> = known.keys().chain(wanted.keys()).collect();
                keys.sort();
                keys.dedup();
                for key in keys {
                    let path = format!("{path}.{key}");
                    line(&path, known.get(key), wanted.get(key), [&mut before, &mut after]);
                }
            }
            (known, wanted) => line(path, known, Some(wanted), [&mut before, &mut after]),
        }
    }
    [before, after]
}

fn line(path: &str, known: Option<&Value>, wanted: Option<&Value>, [before, after]: [&mut String; 2]) {
    let is_same = matches!((known, wanted), (Some(known), Some(wanted)) if super::rendering::same_values(known, wanted));
    for (side, value, word) in [(before, known, " (before)"), (after, wanted, " (after)")] {
        if value.is_some_and(|value| !value.is_null()) {
            let word = if is_same { "" } else { word };
            let _ = writeln!(side, "# secret spec.{path}: ***{word}");
        }
    }
}

/// The difference of two texts, as `diff -u` writes it; empty where there is none.
pub(super) fn difference(name: &str, before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let (a, b): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let edits = edits(&a, &b);
    let mut text = format!("--- console/{name}\n+++ files/{name}\n");
    let mut at = 0;
    while let Some(first) = (at..edits.len()).find(|place| edits[*place].0 != ' ') {
        let start = first.saturating_sub(CONTEXT).max(at);
        // Differences with little between them share a hunk.
        let mut end = first + 1;
        let mut quiet = 0;
        for (place, (sign, ..)) in edits.iter().enumerate().skip(first + 1) {
            quiet = if *sign == ' ' { quiet + 1 } else { 0 };
            if quiet > 2 * CONTEXT {
                break;
            }
            if *sign != ' ' {
                end = place + 1;
            }
        }
        let end = (end + CONTEXT).min(edits.len());
        let count =
            |side: char| edits[start..end].iter().filter(|(sign, ..)| *sign == ' ' || *sign == side).count();
        let begin =
            |side: char| edits[..start].iter().filter(|(sign, ..)| *sign == ' ' || *sign == side).count() + 1;
        let _ = writeln!(text, "@@ -{},{} +{},{} @@", begin('-'), count('-'), begin('+'), count('+'));
        for (sign, line) in &edits[start..end] {
            let _ = writeln!(text, "{sign}{line}");
        }
        at = end;
    }
    text
}

/// The lines of both texts: kept (` `), only in the first (`-`), only in the second (`+`).
fn edits<'t>(a: &[&'t str], b: &[&'t str]) -> Vec<(char, &'t str)> {
    let mut longest = vec![vec![0_u32; b.len() + 1]; a.len() + 1];
    for (i, left) in a.iter().enumerate().rev() {
        for (j, right) in b.iter().enumerate().rev() {
            longest[i][j] = if left == right {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut edits = Vec::new();
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            edits.push((' ', a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && longest[i + 1][j] >= longest[i][j + 1]) {
            edits.push(('-', a[i]));
            i += 1;
        } else {
            edits.push(('+', b[j]));
            j += 1;
        }
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_read_as_diff_writes_them() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n";
        let after = "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\n";
        let expected = "--- console/x\n+++ files/x\n@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n d\n e\n@@ -10,3 +10,4 @@\n j\n k\n l\n+m\n";
        assert_eq!(difference("x", before, after), expected);
        assert_eq!(difference("x", before, before), "");
    }

    #[test]
    fn hidden_values_are_compared_and_not_shown() {
        let hidden = |value: &str| {
            Hidden([("configuration".to_owned(), json!({"A": "same", "B": value}))].into_iter().collect())
        };
        let [before, after] = masked(Some(&hidden("hunter2")), &hidden("hunter3"));
        assert_eq!(
            before,
            "# secret spec.configuration.A: ***\n# secret spec.configuration.B: *** (before)\n"
        );
        assert_eq!(after, "# secret spec.configuration.A: ***\n# secret spec.configuration.B: *** (after)\n");
        let [before, after] = masked(None, &hidden("hunter3"));
        assert_eq!(before, after);
    }
}
