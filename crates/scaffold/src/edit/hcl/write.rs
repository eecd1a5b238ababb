//! Values as HCL.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::expression::said;

/// Names that mean more than themselves as the key of a map.
const WORDS: &[&str] = &["true", "false", "null", "for", "if", "in", "else", "endif", "endfor"];

/// A value as an expression; its first line is indented by `indent`.
pub(super) fn expression(value: &Value, indent: &str) -> String {
    let mut out = String::new();
    write(&mut out, value, indent);
    out
}

fn write(out: &mut String, value: &Value, indent: &str) {
    match value {
        Value::String(text) => quote(out, text),
        Value::Array(items) if items.iter().all(is_short) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write(out, item, indent);
            }
            out.push(']');
        }
        Value::Array(items) => {
            let inner = format!("{indent}  ");
            out.push('[');
            for item in items {
                let _ = write!(out, "\n{inner}");
                write(out, item, &inner);
                out.push(',');
            }
            let _ = write!(out, "\n{indent}]");
        }
        Value::Object(entries) if entries.is_empty() => out.push_str("{}"),
        Value::Object(entries) => {
            let inner = format!("{indent}  ");
            out.push('{');
            for (name, value) in entries {
                let _ = write!(out, "\n{inner}");
                key(out, name);
                out.push_str(" = ");
                write(out, value, &inner);
            }
            let _ = write!(out, "\n{indent}}}");
        }
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

fn is_short(value: &Value) -> bool {
    match value {
        Value::Object(entries) => entries.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    }
}

/// The key of an entry of a map.
pub(super) fn key(out: &mut String, name: &str) {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_name && !WORDS.contains(&name) {
        out.push_str(name);
    } else {
        quote(out, name);
    }
}

/// A text that means itself: nothing in it is a template.
fn quote(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '$' | '%' if rest.peek() == Some(&'{') => {
                out.push(c);
                out.push(c);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A block without the indentation of its first line.
pub(super) fn block(
    kind: &str,
    labels: &[String],
    attributes: &Map<String, Value>,
    indent: &str,
) -> Result<String, String> {
    let inner = format!("{indent}  ");
    let mut out = kind.to_owned();
    for label in labels {
        out.push(' ');
        quote(&mut out, label);
    }
    out.push_str(" {\n");
    for (name, value) in attributes {
        let _ = writeln!(out, "{inner}{name} = {}", said(value, &inner)?);
    }
    let _ = writeln!(out, "{indent}}}");
    Ok(out)
}
