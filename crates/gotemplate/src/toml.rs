//! TOML as BurntSushi's library writes it.

use std::fmt::Write as _;

use plural_yaml::numbers;

use super::{
    format, json,
    objects::Time,
    strconv,
    value::{List, MAX_DEPTH, Map, Value},
};

/// Writes a map; what is none is written as a value.
///
/// # Errors
/// When the value is no map, or holds what TOML does not have.
pub(crate) fn to_string(value: &Value) -> Result<String, String> {
    let entries = match value {
        Value::Map(map) => map.snapshot(),
        Value::Struct(object) => {
            json::fields(object).into_iter().map(|(name, value)| (name.into(), value.clone())).collect()
        }
        Value::Nil | Value::NilField => return Ok(String::new()),
        list if is_table_list(list) => {
            return Err("toml: top-level values must be Go maps or structs".to_owned());
        }
        plain => {
            let mut out = String::new();
            inline(&mut out, plain, 0)?;
            return Ok(out);
        }
    };
    let mut out = String::new();
    table(&mut out, &entries, &mut Vec::new(), 0)?;
    Ok(out)
}

fn is_table(value: &Value) -> bool {
    matches!(value, Value::Map(_) | Value::Struct(_))
}

fn is_table_list(value: &Value) -> bool {
    matches!(value, Value::List(list) if !list.is_empty() && list.items().iter().all(is_table))
}

fn key(text: &str) -> String {
    let bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { text.to_owned() } else { quote(text) }
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\x0C' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if (c as u32) < 0x20 || c == '\x7F' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

type Entries = [(super::value::Str, Value)];

fn indent(out: &mut String, path: &[String]) {
    out.extend(std::iter::repeat_n("  ", path.len().saturating_sub(1)));
}

fn table(out: &mut String, entries: &Entries, path: &mut Vec<String>, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("the value holds itself".to_owned());
    }
    for (name, value) in entries {
        let is_nil = value.is_nil() || matches!(value, Value::List(list) if list.is_nil());
        if is_nil || is_table(value) || is_table_list(value) {
            continue;
        }
        out.extend(std::iter::repeat_n("  ", path.len()));
        out.push_str(&key(name));
        out.push_str(" = ");
        inline(out, value, depth + 1)?;
        out.push('\n');
    }
    for (name, value) in entries {
        if !(is_table(value) || is_table_list(value)) {
            continue;
        }
        path.push(key(name));
        match value {
            Value::List(list) => {
                for item in list.items() {
                    if !out.is_empty() {
                        out.push('\n');
                    }
                    indent(out, path);
                    let _ = writeln!(out, "[[{}]]", path.join("."));
                    table(out, &entries_of(item), path, depth + 1)?;
                }
            }
            value => {
                if path.len() == 1 && !out.is_empty() {
                    out.push('\n');
                }
                indent(out, path);
                let _ = writeln!(out, "[{}]", path.join("."));
                table(out, &entries_of(value), path, depth + 1)?;
            }
        }
        path.pop();
    }
    Ok(())
}

fn entries_of(value: &Value) -> Vec<(super::value::Str, Value)> {
    match value {
        Value::Map(map) => map.snapshot(),
        Value::Struct(object) => {
            json::fields(object).into_iter().map(|(name, value)| (name.into(), value.clone())).collect()
        }
        _ => Vec::new(),
    }
}

fn inline(out: &mut String, value: &Value, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("the value holds itself".to_owned());
    }
    match value {
        Value::Float(value) => out.push_str(&float(*value)),
        Value::Time(time) => out.push_str(&json::text_of(&Value::Time(time.clone()))),
        Value::Bool(_) | Value::Int(_) | Value::Int64(_) | Value::Uint64(_) => {
            out.push_str(&format::display(value));
        }
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.items().iter().enumerate() {
                if item.is_nil() {
                    return Err("toml: cannot encode array with nil element".to_owned());
                }
                if index > 0 {
                    out.push_str(", ");
                }
                inline(out, item, depth + 1)?;
            }
            out.push(']');
        }
        Value::Map(_) | Value::Struct(_) => {
            out.push('{');
            for (index, (name, item)) in
                entries_of(value).iter().filter(|entry| !entry.1.is_nil()).enumerate()
            {
                if index > 0 {
                    out.push_str(", ");
                }
                out.push_str(&key(name));
                out.push_str(" = ");
                inline(out, item, depth + 1)?;
            }
            out.push('}');
        }
        other => out.push_str(&quote(&format::display(other))),
    }
    Ok(())
}

fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+inf" } else { "-inf" }.to_owned();
    }
    // The shortest digits, with an exponent from a million on and below a ten thousandth.
    let mut text = if value != 0.0 && !(1e-4..1e6).contains(&value.abs()) {
        numbers::format_e_shortest(value)
    } else {
        numbers::format_f_shortest(value)
    };
    if !text.contains(['.', 'e']) {
        text.push_str(".0");
    }
    text
}

/// Reads a document.
///
/// # Errors
/// Says what is wrong and where.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let table: ::toml::Table = text.parse().map_err(|error: ::toml::de::Error| problem(text, &error))?;
    Ok(from_toml(&::toml::Value::Table(table)))
}

/// What is wrong, with the line and the key before it; a missing value in the words of Go.
fn problem(text: &str, error: &::toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let current = before.rsplit('\n').next().unwrap_or_default();
    let Some((key, rest)) = current.split_once('=') else {
        return format!("toml: line {line}: {}", error.message());
    };
    let key = strconv::quote(key.trim());
    match text[at..].chars().next() {
        Some(c) if rest.trim().is_empty() => {
            let shown = strconv::quote(&c.to_string());
            let shown = &shown[1..shown.len() - 1];
            format!("toml: line {line} (last key {key}): expected value but found '{shown}' instead")
        }
        _ => format!("toml: line {line} (last key {key}): {}", error.message()),
    }
}

fn from_toml(value: &::toml::Value) -> Value {
    match value {
        ::toml::Value::String(text) => Value::str(text),
        ::toml::Value::Integer(value) => Value::Int64(*value),
        ::toml::Value::Float(value) => Value::Float(*value),
        ::toml::Value::Boolean(value) => Value::Bool(*value),
        ::toml::Value::Datetime(value) => time_of(value),
        ::toml::Value::Array(items) => Value::List(List::new(items.iter().map(from_toml).collect())),
        ::toml::Value::Table(table) => Value::Map(Map::of(
            table.iter().map(|(key, value)| (key.as_str().into(), from_toml(value))).collect(),
        )),
    }
}

fn time_of(value: &::toml::value::Datetime) -> Value {
    let date = value.date.map_or((0, 1, 1), |date| (i64::from(date.year), date.month, date.day));
    let days = super::objects::days_from_civil(date.0, u32::from(date.1), u32::from(date.2));
    let mut seconds = days * 86_400;
    let mut nanos = 0;
    if let Some(time) = value.time {
        seconds += i64::from(time.hour) * 3600 + i64::from(time.minute) * 60;
        seconds += i64::from(time.second.unwrap_or(0));
        nanos = time.nanosecond.unwrap_or(0);
    }
    Value::time(Time::utc(seconds, nanos))
}
