//! The head of a document: the whole is read, because it must be YAML, and nearly nothing is kept.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use crate::{
    helm::load::json_type,
    yaml::{self, Build, JsonBuild, YamlError},
};

/// Members that decide about a document's place, without regard to case.
const KEPT: &[&str] =
    &["apiversion", "kind", "metadata", "name", "annotations", "helm.sh/hook", "helm.sh/hook-weight"];

/// Reads a document, and keeps what a [`Head`] is made of.
///
/// # Errors
/// When it is not YAML.
pub(super) fn read(document: &str) -> Result<Value, YamlError> {
    yaml::parse_with(document.as_bytes(), &mut Heads).map(|shape| shape.into_json(Level::Document))
}

/// How deep a map lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Document,
    Metadata,
    Annotations,
    /// Where only types count.
    Below,
}

/// A value without what no one will ask for. Texts are those of the document.
#[derive(Clone)]
enum Shape<'a> {
    /// Null, a boolean or a number.
    Plain(Value),
    Text(Cow<'a, str>),
    List(Vec<Self>),
    Map(Vec<(Cow<'a, str>, Self)>),
}

impl Shape<'_> {
    fn into_json(self, level: Level) -> Value {
        match self {
            Self::Plain(value) => value,
            Self::Text(text) => Value::String(text.into_owned()),
            // No list is looked into.
            Self::List(_) => Value::Array(Vec::new()),
            Self::Map(_) if level == Level::Below => Value::Object(Map::new()),
            Self::Map(entries) => {
                let below = |key: &str| match level {
                    Level::Document if key.eq_ignore_ascii_case("metadata") => Level::Metadata,
                    Level::Metadata if key.eq_ignore_ascii_case("annotations") => Level::Annotations,
                    _ => Level::Below,
                };
                let asked = |key: &str| level == Level::Annotations || is_kept(key);
                let entries = entries.into_iter().filter(|(key, _)| asked(key)).map(|(key, value)| {
                    let value = value.into_json(below(&key));
                    (key.into_owned(), value)
                });
                Value::Object(entries.collect())
            }
        }
    }
}

fn is_kept(key: &str) -> bool {
    KEPT.iter().any(|kept| kept.eq_ignore_ascii_case(key))
}

struct Heads;

impl<'a> Build<'a> for Heads {
    type Value = Shape<'a>;
    type Key = Cow<'a, str>;

    fn key(&mut self, text: Cow<'a, str>) -> Cow<'a, str> {
        text
    }

    fn null(&mut self) -> Shape<'a> {
        Shape::Plain(Value::Null)
    }

    fn bool(&mut self, value: bool) -> Shape<'a> {
        Shape::Plain(Value::Bool(value))
    }

    fn int(&mut self, value: i64) -> Shape<'a> {
        Shape::Plain(Value::Number(Number::from(value)))
    }

    fn uint(&mut self, value: u64) -> Shape<'a> {
        Shape::Plain(Value::Number(Number::from(value)))
    }

    fn float(&mut self, value: f64) -> Shape<'a> {
        Shape::Plain(JsonBuild::default().float(value))
    }

    fn string(&mut self, text: Cow<'a, str>) -> Shape<'a> {
        Shape::Text(text)
    }

    fn sequence(&mut self, items: Vec<Shape<'a>>) -> Shape<'a> {
        Shape::List(items)
    }

    fn mapping(&mut self, mut entries: Vec<(Cow<'a, str>, Shape<'a>)>) -> Shape<'a> {
        let collection = |value: &Shape<'_>| matches!(value, Shape::List(_) | Shape::Map(_));
        // Whether an annotation is a collection counts, whatever its name; then all stay, as a later entry
        // of the same name wins.
        if !entries.iter().any(|(key, value)| collection(value) && !is_kept(key)) {
            entries.retain(|(key, _)| is_kept(key));
        }
        Shape::Map(entries)
    }

    fn copy(&mut self, value: &Shape<'a>) -> Shape<'a> {
        value.clone()
    }

    fn entries(&mut self, value: &Shape<'a>) -> Option<Vec<(Cow<'a, str>, Shape<'a>)>> {
        match value {
            Shape::Map(entries) => Some(entries.clone()),
            _ => None,
        }
    }

    fn items(&mut self, value: &Shape<'a>) -> Option<Vec<Shape<'a>>> {
        match value {
            Shape::List(items) => Some(items.clone()),
            _ => None,
        }
    }

    fn key_text(&mut self, value: &Shape<'a>) -> Option<String> {
        match value {
            Shape::Plain(value) => JsonBuild::default().key_text(value),
            Shape::Text(text) => Some(text.clone().into_owned()),
            Shape::List(_) | Shape::Map(_) => None,
        }
    }
}

/// What decides about a document's place.
pub(super) struct Head {
    pub(super) kind: String,
    /// The annotation that makes it a hook.
    pub(super) hook: Option<String>,
    pub(super) weight: i64,
}

/// The member of an object whose name is `name`, case aside when there is none.
fn member<'v>(object: &'v serde_json::Map<String, Value>, name: &str) -> Option<&'v Value> {
    object
        .get(name)
        .or_else(|| object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
        .filter(|value| !value.is_null())
}

fn text(value: Option<&Value>, field: &str) -> Result<String, String> {
    match value {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
        Some(other) => {
            Err(format!("cannot unmarshal {} into Go struct field {field} of type string", json_type(other)))
        }
    }
}

impl Head {
    /// Takes it from a document, as far as [`read`] keeps it.
    ///
    /// # Errors
    /// When a part of it has another type than Helm reads it as.
    pub(super) fn of(value: &Value) -> Result<Self, String> {
        let object = match value {
            Value::Null => return Ok(Self { kind: String::new(), hook: None, weight: 0 }),
            Value::Object(object) => object,
            other => {
                return Err(format!(
                    "cannot unmarshal {} into Go value of type releaseutil.SimpleHead",
                    json_type(other)
                ));
            }
        };
        text(member(object, "apiVersion"), "SimpleHead.apiVersion")?;
        let kind = text(member(object, "kind"), "SimpleHead.kind")?;
        let mut head = Self { kind, hook: None, weight: 0 };
        let metadata = match member(object, "metadata") {
            None => return Ok(head),
            Some(Value::Object(metadata)) => metadata,
            Some(other) => {
                return Err(format!(
                    "cannot unmarshal {} into Go struct field SimpleHead.metadata of type struct {{ Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }}",
                    json_type(other)
                ));
            }
        };
        text(member(metadata, "name"), "SimpleHead.metadata.name")?;
        let annotations = match member(metadata, "annotations") {
            None => return Ok(head),
            Some(Value::Object(annotations)) => annotations,
            Some(other) => {
                return Err(format!(
                    "cannot unmarshal {} into Go struct field SimpleHead.metadata.annotations of type map[string]string",
                    json_type(other)
                ));
            }
        };
        for (key, value) in annotations {
            let value =
                text(Some(value).filter(|value| !value.is_null()), "SimpleHead.metadata.annotations")?;
            match key.as_str() {
                "helm.sh/hook" => head.hook = Some(value),
                "helm.sh/hook-weight" => head.weight = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        Ok(head)
    }
}
