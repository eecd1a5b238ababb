//! Objects as Go values: how one message prints them, and as JSON.

use std::fmt::Write as _;

use serde_json::{Map, Number as JsonNumber, Value};

use super::quote::quote;
use super::yaml::node::{Data, Node, Tag};
use super::yaml::number::{Number, format_g};
use super::yaml::resolve::{Dialect, Meaning, key_is_text, meaning};

/// The object as `%#v` prints the map that it decodes to. Secrets are left out of messages.
pub(crate) fn show(node: &Node) -> String {
    if node.get("kind").is_some_and(|k| k.text() == "Secret") {
        return "map[string]interface {}{\"kind\":\"Secret\"}".to_owned();
    }
    let mut out = String::new();
    let mut top = node.clone();
    for (key, _) in top.entries_mut() {
        key.tag = Tag::Str;
    }
    print(&top, &mut out);
    out
}

fn print(node: &Node, out: &mut String) {
    match &node.data {
        Data::Map(entries) => {
            let typed = entries.iter().all(|(k, _)| key_is_text(k));
            out.push_str(if typed { "map[string]interface {}{" } else { "map[interface {}]interface {}{" });
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_by(|a, b| a.0.text().cmp(b.0.text()));
            for (i, (k, v)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                if typed {
                    out.push_str(&quote(k.text()));
                } else {
                    print(k, out);
                }
                out.push(':');
                print(v, out);
            }
            out.push('}');
        }
        Data::Seq(items) => {
            out.push_str("[]interface {}{");
            for (i, v) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                print(v, out);
            }
            out.push('}');
        }
        Data::Scalar(text) => match meaning(node, Dialect::New) {
            Ok(Meaning::Null) => out.push_str("interface {}(nil)"),
            Ok(Meaning::Bool(b)) => out.push_str(if b { "true" } else { "false" }),
            Ok(Meaning::Number(Number::Int(i))) => out.push_str(&i.to_string()),
            Ok(Meaning::Number(Number::Uint(u))) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "0x{u:x}");
            }
            Ok(Meaning::Number(Number::Float(f))) if f.is_infinite() => {
                out.push_str(if f > 0.0 { "+Inf" } else { "-Inf" });
            }
            Ok(Meaning::Number(Number::Float(f))) if f.is_nan() => out.push_str("NaN"),
            Ok(Meaning::Number(Number::Float(f))) => out.push_str(&format_g(f)),
            _ => out.push_str(&quote(text)),
        },
    }
}

/// The object as JSON. What has no JSON form was refused before.
pub(crate) fn to_json(node: &Node) -> Value {
    match &node.data {
        Data::Map(_) if node.is_null() => Value::Null,
        Data::Map(entries) => {
            let pairs = entries.iter().map(|(k, v)| (k.text().to_owned(), to_json(v)));
            Value::Object(pairs.collect::<Map<String, Value>>())
        }
        Data::Seq(items) => Value::Array(items.iter().map(to_json).collect()),
        Data::Scalar(text) => match meaning(node, Dialect::New) {
            Ok(Meaning::Null) => Value::Null,
            Ok(Meaning::Bool(b)) => Value::Bool(b),
            Ok(Meaning::Number(Number::Int(i))) => Value::from(i),
            Ok(Meaning::Number(Number::Uint(u))) => Value::from(u),
            Ok(Meaning::Number(Number::Float(f))) if f.fract() == 0.0 && f.abs() < 9e15 => {
                Value::from(f as i64)
            }
            Ok(Meaning::Number(Number::Float(f))) => {
                JsonNumber::from_f64(f).map_or(Value::Null, Value::Number)
            }
            Ok(Meaning::Time(t)) => Value::String(t),
            _ => Value::String(text.to_string()),
        },
    }
}
