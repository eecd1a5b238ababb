//! `--set a.b[0]=c,d={x,y}`

use serde_json::{Map, Value};

/// Largest index of a list.
const MAX_INDEX: usize = 65_536;
/// Deepest nesting of a key.
const MAX_DEPTH: usize = 30;

/// How the values of a flag are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `--set`: booleans, integers and null are such.
    Typed,
    /// `--set-string`
    Text,
    /// `--set-json`
    Json,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// Sets all that a text says.
pub(super) fn set(values: &mut Map<String, Value>, text: &str, kind: Kind) -> Result<(), String> {
    let mut rest = text;
    while !rest.is_empty() {
        let (steps, stop, after) = path(rest)?;
        rest = after;
        if stop != Some('=') {
            if steps == [Step::Key(String::new())] {
                continue;
            }
            return Err(format!("key {:?} has no value", shown(&steps)));
        }
        let value = match kind {
            Kind::Json => {
                let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
                let value = match stream.next() {
                    Some(Ok(value)) => value,
                    Some(Err(error)) => return Err(error.to_string()),
                    None => return Err("EOF".to_owned()),
                };
                rest = rest[stream.byte_offset()..].trim_start().strip_prefix(',').unwrap_or("");
                value
            }
            _ if rest.starts_with('{') => {
                let (list, after) = list(&rest[1..], kind)?;
                rest = after;
                list
            }
            _ => {
                let (raw, after) = until(rest, &[',']);
                rest = after;
                typed(raw, kind)
            }
        };
        put(values, &steps, value)?;
    }
    Ok(())
}

/// Sets one key to a text.
pub(super) fn set_one(values: &mut Map<String, Value>, key: &str, text: &str) -> Result<(), String> {
    let (steps, _, _) = path(key)?;
    put(values, &steps, Value::String(text.to_owned()))
}

fn shown(steps: &[Step]) -> String {
    match steps.last() {
        Some(Step::Key(key)) => key.clone(),
        Some(Step::Index(index)) => index.to_string(),
        None => String::new(),
    }
}

/// Text up to one of the stops; a backslash takes the meaning from the next character.
fn until<'t>(text: &'t str, stops: &[char]) -> (String, &'t str) {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            if let Some((_, escaped)) = chars.next() {
                out.push(escaped);
            }
        } else if stops.contains(&c) {
            return (out, &text[at + c.len_utf8()..]);
        } else {
            out.push(c);
        }
    }
    (out, "")
}

/// Reads a path up to `=` or `,`: its steps, what stopped it, what follows.
fn path(text: &str) -> Result<(Vec<Step>, Option<char>, &str), String> {
    let mut steps = Vec::new();
    let mut key = String::new();
    let mut after_index = false;
    let mut chars = text.char_indices();
    let push_key = |steps: &mut Vec<Step>, key: &mut String, after_index: bool| {
        if !(after_index && key.is_empty()) {
            steps.push(Step::Key(std::mem::take(key)));
        }
    };
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => key.extend(chars.next().map(|(_, c)| c)),
            '=' | ',' => {
                push_key(&mut steps, &mut key, after_index);
                return Ok((steps, Some(c), &text[at + 1..]));
            }
            '.' => {
                push_key(&mut steps, &mut key, after_index);
                after_index = false;
            }
            '[' => {
                push_key(&mut steps, &mut key, after_index);
                let rest = &text[at + 1..];
                let Some(end) = rest.find(']') else {
                    return Err("list index is not closed".to_owned());
                };
                let number = &rest[..end];
                let index: i64 = number.parse().map_err(|_| {
                    format!("error parsing index: strconv.Atoi: parsing {number:?}: invalid syntax")
                })?;
                let index =
                    usize::try_from(index).map_err(|_| format!("negative {index} index not allowed"))?;
                if index > MAX_INDEX {
                    return Err(format!(
                        "index of {index} is greater than maximum supported index of {MAX_INDEX}"
                    ));
                }
                steps.push(Step::Index(index));
                after_index = true;
                for _ in 0..=end {
                    chars.next();
                }
            }
            c => key.push(c),
        }
        if steps.len() > MAX_DEPTH {
            return Err(format!(
                "value name nested level is greater than maximum supported nested level of {MAX_DEPTH}"
            ));
        }
    }
    push_key(&mut steps, &mut key, after_index);
    Ok((steps, None, ""))
}

/// A list in braces; the opening one is taken.
fn list(text: &str, kind: Kind) -> Result<(Value, &str), String> {
    let mut items = Vec::new();
    let mut item = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => item.extend(chars.next().map(|(_, c)| c)),
            ',' => items.push(typed(std::mem::take(&mut item), kind)),
            '}' => {
                if !(items.is_empty() && item.is_empty()) {
                    items.push(typed(item, kind));
                }
                let rest = &text[at + 1..];
                return Ok((Value::Array(items), rest.strip_prefix(',').unwrap_or(rest)));
            }
            c => item.push(c),
        }
    }
    Err("list must terminate with '}'".to_owned())
}

fn typed(text: String, kind: Kind) -> Value {
    if kind == Kind::Text {
        return Value::String(text);
    }
    match text.to_ascii_lowercase().as_str() {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        "null" => return Value::Null,
        "0" => return Value::from(0),
        _ => {}
    }
    // A number with a leading zero is a text.
    if !text.starts_with('0')
        && let Ok(number) = text.parse::<i64>()
    {
        return Value::from(number);
    }
    Value::String(text)
}

fn put(values: &mut Map<String, Value>, steps: &[Step], value: Value) -> Result<(), String> {
    let Some((Step::Key(first), rest)) = steps.split_first() else {
        return Err("a key must come before an index".to_owned());
    };
    if rest.is_empty() && value.is_null() {
        values.insert(first.clone(), Value::Null);
        return Ok(());
    }
    let mut place = values.entry(first.clone()).or_insert(Value::Null);
    for step in rest {
        place = match step {
            Step::Key(key) => {
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                let Value::Object(map) = place else { return Ok(()) };
                map.entry(key.clone()).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if !place.is_array() {
                    *place = Value::Array(Vec::new());
                }
                let Value::Array(items) = place else { return Ok(()) };
                if items.len() <= *index {
                    items.resize(index + 1, Value::Null);
                }
                &mut items[*index]
            }
        };
    }
    *place = value;
    Ok(())
}
