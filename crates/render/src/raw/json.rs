//! JSON files: one value after another, each key of an object once.

use std::fmt;

use plural_yaml::{Document, governor};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::Problem;

/// The values of a file.
pub(super) fn parse(path: &str, text: &str) -> Result<Vec<Document>, Problem> {
    let mut documents = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Governed<STRICT>>();
    loop {
        let before = text.get(stream.byte_offset()..).unwrap_or_default();
        let blank = before.len() - before.trim_start().len();
        let line = 1 + line_breaks(text, stream.byte_offset() + blank);
        match stream.next() {
            None => return Ok(documents),
            Some(Ok(Governed(Value::Null))) => {}
            Some(Ok(Governed(value))) => documents.push(Document { value, line }),
            Some(Err(error)) => {
                let message = error.to_string();
                let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(words, _)| words);
                return Err(Problem {
                    path: path.to_owned(),
                    line: error.line(),
                    message: message.to_owned(),
                });
            }
        }
    }
}

fn line_breaks(text: &str, end: usize) -> usize {
    text.as_bytes().get(..end).map_or(0, |bytes| memchr::memchr_iter(b'\n', bytes).count())
}

/// Reads a JSON value as part of a render: the governor is asked at each value of it.
///
/// # Errors
/// It is not JSON, or the governor ended the render.
pub fn governed_json(text: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice::<Governed<PLAIN>>(text).map(|Governed(value)| value)
}

/// No object has a key twice, and numbers are as from YAML.
const STRICT: bool = true;
/// As `serde_json` reads.
const PLAIN: bool = false;

/// A value, read under the governor.
struct Governed<const STRICT: bool>(Value);

impl<'de, const STRICT: bool> Deserialize<'de> for Governed<STRICT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !governor::may_go_on(0) {
            return Err(de::Error::custom(governor::STOPPED));
        }
        deserializer.deserialize_any(Reader::<STRICT>).map(Self)
    }
}

struct Reader<const STRICT: bool>;

impl<'de, const STRICT: bool> Visitor<'de> for Reader<STRICT> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // As from YAML: a whole float is an integer.
        if STRICT && value.fract() == 0.0 && value.abs() < 9e15 {
            return Ok(Value::Number((value as i64).into()));
        }
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Governed(item)) = items.next_element::<Governed<STRICT>>()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((key, Governed(value))) = entries.next_entry::<String, Governed<STRICT>>()? {
            if STRICT && all.contains_key(&key) {
                return Err(de::Error::custom(format_args!("the key {key:?} appears twice")));
            }
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}
