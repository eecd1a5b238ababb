//! Values of templates from YAML and JSON, and back.

use std::borrow::Cow;

use plural_yaml::{Build, Emitter, Layout, Place, YamlError, numbers};

use super::{
    format, json,
    value::{List, MAX_DEPTH, Map, MapType, Str, Value},
};

/// What goes through JSON is read again as YAML, which has fewer characters.
const UNREADABLE: &str = "yaml: control characters are not allowed";

/// Builds values of templates: all numbers are floats, as JSON's are in Go.
pub(crate) struct ValueBuild;

impl<'a> Build<'a> for ValueBuild {
    type Value = Value;
    type Key = Str;

    fn key(&mut self, text: Cow<'a, str>) -> Str {
        text.into()
    }

    fn null(&mut self) -> Value {
        Value::Nil
    }

    fn bool(&mut self, value: bool) -> Value {
        Value::Bool(value)
    }

    fn int(&mut self, value: i64) -> Value {
        Value::Float(value as f64)
    }

    fn uint(&mut self, value: u64) -> Value {
        Value::Float(value as f64)
    }

    fn float(&mut self, value: f64) -> Value {
        Value::Float(value)
    }

    fn string(&mut self, text: Cow<'a, str>) -> Value {
        Value::Str(text.into())
    }

    fn sequence(&mut self, items: Vec<Value>) -> Value {
        Value::List(List::new(items))
    }

    fn mapping(&mut self, entries: Vec<(Str, Value)>) -> Value {
        Value::Map(Map::of(entries))
    }

    fn copy(&mut self, value: &Value) -> Value {
        super::value::deep_copy(value).unwrap_or_default()
    }

    fn entries(&mut self, value: &Value) -> Option<Vec<(Str, Value)>> {
        match self.copy(value) {
            Value::Map(map) => Some(map.snapshot()),
            _ => None,
        }
    }

    fn items(&mut self, value: &Value) -> Option<Vec<Value>> {
        match value {
            Value::List(list) => Some(list.items().to_vec()),
            _ => None,
        }
    }

    fn key_text(&mut self, value: &Value) -> Option<String> {
        match value {
            Value::Map(_) | Value::List(_) | Value::Nil | Value::NilField => None,
            Value::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                Some((*value as i64).to_string())
            }
            other => Some(format::display(other)),
        }
    }
}

/// Reads the first document of a text.
pub(crate) fn parse(text: &[u8]) -> Result<Value, YamlError> {
    plural_yaml::parse_with(text, &mut ValueBuild)
}

/// Writes a value as Helm's `toYaml` does, with the line break at the end.
///
/// # Errors
/// When the value holds itself, or a number that JSON does not have.
pub(crate) fn to_string(value: &Value) -> Result<String, String> {
    let mut out = String::new();
    let mut emitter = Emitter::new(&mut out, Layout::Compact);
    write(&mut emitter, Place::ROOT, value, 0, false)?;
    Ok(out)
}

/// Writes a value as `toYamlPretty` does: sequences indented, numbers as they are.
///
/// # Errors
/// As [`to_string`].
pub(crate) fn to_pretty(value: &Value) -> Result<String, String> {
    let mut out = String::new();
    let mut emitter = Emitter::new(&mut out, Layout::Indented);
    write(&mut emitter, Place::ROOT, value, 0, true)?;
    Ok(out)
}

fn write(
    emitter: &mut Emitter<'_>,
    place: Place,
    value: &Value,
    depth: usize,
    direct: bool,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("the value holds itself".to_owned());
    }
    match value {
        Value::Nil | Value::NilField => emitter.word(place, "null"),
        Value::Bool(value) => emitter.word(place, if *value { "true" } else { "false" }),
        Value::Int(value) | Value::Int64(value) | Value::Duration(value) => {
            emitter.word(place, &value.to_string());
        }
        Value::Uint64(value) => emitter.word(place, &value.to_string()),
        Value::Float(value) if direct => emitter.word(place, &numbers::format_g(*value)),
        Value::Float(value) if value.is_finite() => {
            if value.fract() == 0.0 && value.abs() < 1e15 {
                emitter.word(place, &(*value as i64).to_string());
            } else {
                emitter.word(place, &plural_yaml::float_through_json(*value));
            }
        }
        Value::Float(_) => return Err("json: unsupported value".to_owned()),
        Value::Complex(..) => return Err("json: unsupported type: complex128".to_owned()),
        Value::Str(text) if !direct && !plural_yaml::is_readable(text) => return Err(UNREADABLE.to_owned()),
        Value::Str(text) => emitter.text(place, text),
        Value::Raw(bytes) => {
            let mut text = String::new();
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
            }
            emitter.text(place, &text);
        }
        Value::Bytes(bytes) => emitter.text(place, &json::base64(bytes)),
        Value::Time(_) | Value::Version(_) => emitter.text(place, &json::text_of(value)),
        Value::List(list) if list.is_nil() => emitter.word(place, if direct { "[]" } else { "null" }),
        Value::List(list) if list.is_empty() => emitter.empty_sequence(place),
        Value::List(list) => {
            let sequence = emitter.begin_sequence(place);
            for (index, item) in list.items().iter().enumerate() {
                let place = emitter.item(sequence, index);
                write(emitter, place, item, depth + 1, direct)?;
            }
        }
        Value::Map(map) => {
            let entries = map.entries();
            write_entries(
                emitter,
                place,
                entries.iter().map(|e| (&*e.0, &e.1)),
                entries.len(),
                depth,
                direct,
            )?;
        }
        Value::Struct(object) => {
            let fields = json::fields(object);
            let count = fields.len();
            write_entries(emitter, place, fields.into_iter(), count, depth, direct)?;
        }
    }
    Ok(())
}

fn write_entries<'v>(
    emitter: &mut Emitter<'_>,
    place: Place,
    entries: impl Iterator<Item = (&'v str, &'v Value)>,
    count: usize,
    depth: usize,
    direct: bool,
) -> Result<(), String> {
    if count == 0 {
        emitter.empty_mapping(place);
        return Ok(());
    }
    let mut sorted: Vec<_> = entries.collect();
    if !sorted.is_sorted_by(|a, b| plural_yaml::compare_keys(a.0, b.0).is_le()) {
        sorted.sort_by(|a, b| plural_yaml::compare_keys(a.0, b.0));
    }
    let mapping = emitter.begin_mapping(place);
    for (index, (key, value)) in sorted.into_iter().enumerate() {
        let place = emitter.key(mapping, index, key);
        write(emitter, place, value, depth + 1, direct)?;
    }
    Ok(())
}

/// `Values` as `map[string]interface{}` and the like are one type to YAML.
pub(crate) fn map_of(entries: Vec<(Str, Value)>) -> Value {
    Value::Map(Map::typed(MapType::Any, entries))
}
