//! JSON files: one value after another, each key of an object once.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::{error::Problem, yaml::Document};

/// The values of a file.
pub(super) fn parse(path: &str, text: &str) -> Result<Vec<Document>, Problem> {
    let mut documents = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Unique>();
    loop {
        let before = text.get(stream.byte_offset()..).unwrap_or_default();
        let blank = before.len() - before.trim_start().len();
        let line = 1 + line_breaks(text, stream.byte_offset() + blank);
        match stream.next() {
            None => return Ok(documents),
            Some(Ok(Unique(Value::Null))) => {}
            Some(Ok(Unique(value))) => documents.push(Document { value, line }),
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

/// A value in which no object has a key twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
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
        if value.fract() == 0.0 && value.abs() < 9e15 {
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
        while let Some(Unique(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((key, Unique(value))) = entries.next_entry::<String, Unique>()? {
            if all.contains_key(&key) {
                return Err(de::Error::custom(format_args!("the key {key:?} appears twice")));
            }
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}
