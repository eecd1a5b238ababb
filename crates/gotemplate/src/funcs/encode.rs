//! JSON, YAML, TOML, base64 and versions.
#![expect(clippy::unnecessary_wraps, reason = "all functions of templates have one signature")]

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{Func, Ty, bytes, text};
use crate::{
    exec::{Engine, Fault},
    json::{self, Style},
    semver::{Constraint, Version},
    toml,
    value::{List, Map, Value},
    yaml,
};

type Result = std::result::Result<Value, Fault>;

const PLAIN: Style = Style { pretty: false, escape_html: true };
const PRETTY: Style = Style { pretty: true, escape_html: true };
const RAW: Style = Style { pretty: false, escape_html: false };

pub(super) static FUNCS: &[Func] = &[
    Func::engine("toYaml", &[Ty::Any], |engine, args| {
        let mut text = yaml::to_string(&args[0]).unwrap_or_default();
        if text.ends_with('\n') {
            text.pop();
        }
        made(engine, text)
    }),
    Func::engine("toYamlPretty", &[Ty::Any], |engine, args| {
        let mut text = yaml::to_pretty(&args[0]).unwrap_or_default();
        if text.ends_with('\n') {
            text.pop();
        }
        made(engine, text)
    }),
    Func::engine("fromYaml", &[Ty::Str], |engine, args| read(engine, args, from_yaml)),
    Func::engine("fromYamlArray", &[Ty::Str], |engine, args| read(engine, args, from_yaml_array)),
    Func::engine("toJson", &[Ty::Any], |engine, args| {
        made(engine, json::to_string(&args[0], PLAIN).unwrap_or_default())
    }),
    Func::engine("mustToJson", &[Ty::Any], |engine, args| {
        made(engine, json::to_string(&args[0], PLAIN).map_err(Fault::Text)?)
    }),
    Func::engine("toPrettyJson", &[Ty::Any], |engine, args| {
        made(engine, json::to_string(&args[0], PRETTY).unwrap_or_default())
    }),
    Func::engine("mustToPrettyJson", &[Ty::Any], |engine, args| {
        made(engine, json::to_string(&args[0], PRETTY).map_err(Fault::Text)?)
    }),
    Func::engine("toRawJson", &[Ty::Any], |engine, args| {
        made(engine, json::to_string(&args[0], RAW).map_err(Fault::Text)?)
    }),
    Func::engine("mustToRawJson", &[Ty::Any], |engine, args| {
        made(engine, json::to_string(&args[0], RAW).map_err(Fault::Text)?)
    }),
    Func::engine("fromJson", &[Ty::Str], |engine, args| read(engine, args, from_json)),
    Func::engine("fromJsonArray", &[Ty::Str], |engine, args| read(engine, args, from_json_array)),
    Func::engine("mustFromJson", &[Ty::Str], |engine, args| {
        read(engine, args, |text| json::parse(text).map_err(Fault::Text))
    }),
    Func::engine("toToml", &[Ty::Any], |engine, args| {
        made(engine, toml::to_string(&args[0]).unwrap_or_else(|error| error))
    }),
    Func::engine("fromToml", &[Ty::Str], |engine, args| {
        read(engine, args, |text| {
            Ok(match toml::parse(text) {
                Ok(value) => value,
                Err(error) => error_map(error),
            })
        })
    }),
    Func::engine("b64enc", &[Ty::Str], |engine, args| made(engine, STANDARD.encode(bytes(args, 0)))),
    Func::engine("b64dec", &[Ty::Str], |engine, args| {
        engine.charge(bytes(args, 0).len())?;
        Ok(match decode64(bytes(args, 0)) {
            Ok(bytes) => Value::string_of(bytes),
            Err(at) => format!("illegal base64 data at input byte {at}").into(),
        })
    }),
    Func::engine("b32enc", &[Ty::Str], |engine, args| made(engine, encode32(bytes(args, 0)))),
    Func::engine("b32dec", &[Ty::Str], |engine, args| {
        engine.charge(bytes(args, 0).len())?;
        Ok(match decode32(bytes(args, 0)) {
            Ok(bytes) => Value::string_of(bytes),
            Err(at) => format!("illegal base32 data at input byte {at}").into(),
        })
    }),
    Func::pure("semver", &[Ty::Str], |args| {
        Ok(Value::Version(std::rc::Rc::new(Version::parse(&text(args, 0)).map_err(Fault::Text)?)))
    }),
    Func::pure("semverCompare", &[Ty::Str, Ty::Str], |args| {
        let constraint = Constraint::parse(&text(args, 0)).map_err(Fault::Text)?;
        let version = Version::parse(&text(args, 1)).map_err(Fault::Text)?;
        Ok(constraint.check(&version).into())
    }),
];

fn made(engine: &mut Engine<'_>, text: String) -> Result {
    engine.charge(text.len())?;
    Ok(text.into())
}

fn read(engine: &mut Engine<'_>, args: &[Value], run: fn(&str) -> Result) -> Result {
    // A value takes more room than its text.
    engine.charge(bytes(args, 0).len().saturating_mul(8))?;
    run(&text(args, 0))
}

fn error_map(error: String) -> Value {
    Value::Map(Map::of(vec![("Error".into(), error.into())]))
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Str(_) | Value::Raw(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        _ => "number",
    }
}

fn from_yaml(text: &str) -> Result {
    Ok(match yaml::parse(text.as_bytes()) {
        Ok(Value::Map(map)) => Value::Map(map),
        Ok(Value::Nil | Value::NilField) => Value::Map(Map::new()),
        Ok(other) => error_map(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_type(&other)
        )),
        Err(error) => error_map(format!("error converting YAML to JSON: {error}")),
    })
}

fn from_yaml_array(text: &str) -> Result {
    let error = |error: String| Value::List(List::new(vec![error.into()]));
    Ok(match yaml::parse(text.as_bytes()) {
        Ok(Value::List(list)) => Value::List(list),
        // Not as in fromJsonArray: the YAML library leaves the list that it is given as it is.
        Ok(Value::Nil | Value::NilField) => Value::List(List::new(Vec::new())),
        Ok(other) => error(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type []interface {{}}",
            go_type(&other)
        )),
        Err(inner) => error(format!("error converting YAML to JSON: {inner}")),
    })
}

fn from_json(text: &str) -> Result {
    Ok(match json::parse(text) {
        Ok(Value::Map(map)) => Value::Map(map),
        Ok(Value::Nil) => Value::Map(Map::new()),
        Ok(other) => error_map(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_type(&other)
        )),
        Err(error) => error_map(error),
    })
}

fn from_json_array(text: &str) -> Result {
    let error = |error: String| Value::List(List::new(vec![error.into()]));
    Ok(match json::parse(text) {
        Ok(Value::List(list)) => Value::List(list),
        Ok(Value::Nil) => Value::List(List::nil()),
        Ok(other) => error(format!(
            "json: cannot unmarshal {} into Go value of type []interface {{}}",
            go_type(&other)
        )),
        Err(inner) => error(inner),
    })
}

/// Go's standard decoding: line breaks are skipped; the position of the first bad byte otherwise.
fn decode64(text: &[u8]) -> std::result::Result<Vec<u8>, usize> {
    let clean: Vec<u8> = text.iter().copied().filter(|b| *b != b'\n' && *b != b'\r').collect();
    STANDARD.decode(&clean).map_err(|_| {
        let bad = |b: &u8| !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'));
        let at = text.iter().position(|b| *b != b'\n' && *b != b'\r' && bad(b));
        at.filter(|at| text[*at] != b'=').unwrap_or(text.len() / 4 * 4)
    })
}

const ALPHABET32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn encode32(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for chunk in bytes.chunks(5) {
        let mut block = [0u8; 8];
        block[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(block);
        let used = (chunk.len() * 8).div_ceil(5);
        for at in 0..8 {
            if at < used {
                out.push(ALPHABET32[(bits >> (35 - 5 * at)) as usize & 31] as char);
            } else {
                out.push('=');
            }
        }
    }
    out
}

fn decode32(text: &[u8]) -> std::result::Result<Vec<u8>, usize> {
    let clean: Vec<u8> = text.iter().copied().filter(|b| *b != b'\n' && *b != b'\r').collect();
    let body = clean.iter().position(|b| *b == b'=').unwrap_or(clean.len());
    if let Some(at) = clean[..body].iter().position(|b| !ALPHABET32.contains(b)) {
        return Err(at);
    }
    if !clean.len().is_multiple_of(8) || clean[body..].iter().any(|b| *b != b'=') {
        return Err(body);
    }
    let mut out = Vec::with_capacity(body * 5 / 8);
    let (mut bits, mut count) = (0u32, 0);
    for (at, b) in clean[..body].iter().enumerate() {
        let Some(value) = ALPHABET32.iter().position(|c| c == b) else { return Err(at) };
        bits = bits << 5 | value as u32;
        count += 5;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Ok(out)
}
