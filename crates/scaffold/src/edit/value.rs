//! Edits of values, and paths to them.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Edit;

/// Steps of a path.
const MAX_STEPS: usize = 64;
/// Items that a list may get by its index being set.
const MAX_ITEMS: usize = 100_000;

/// What becomes of a list under another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ListMerge {
    /// The other one takes its place.
    #[default]
    Overwrite,
    /// Items of the other that it does not have are added.
    Append,
    /// Items are told apart by this field: those that both have are merged, the others added. Lists whose items do not have the
    /// field are overwritten.
    #[serde(rename = "KEY")]
    Key(String),
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
    /// The item whose field is this text.
    Where(String, String),
}

/// Where in a value: `spec.containers[name=web].args[0]["a.b"]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Path {
    pub(super) steps: Vec<Step>,
}

impl Path {
    /// Whether it means the whole.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The same with other texts in its steps; a text stays one step whatever it holds.
    ///
    /// # Errors
    /// As `with`.
    pub fn map_texts<E>(&self, with: impl Fn(&str) -> Result<String, E>) -> Result<Self, E> {
        let step = |step: &Step| {
            Ok(match step {
                Step::Key(key) => Step::Key(with(key)?),
                Step::Index(index) => Step::Index(*index),
                Step::Where(key, value) => Step::Where(with(key)?, with(value)?),
            })
        };
        Ok(Self { steps: self.steps.iter().map(step).collect::<Result<_, E>>()? })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Key(key) if key.is_empty() || key.contains(['.', '[', ']', '"']) => {
                    write!(f, "[{}]", Value::String(key.clone()))?;
                }
                Step::Key(key) if at == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Where(key, value) => write!(f, "[{key}={value}]")?,
            }
        }
        Ok(())
    }
}

impl From<Path> for String {
    fn from(path: Path) -> Self {
        path.to_string()
    }
}

impl TryFrom<String> for Path {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl std::str::FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no path: write it as spec.containers[name=web].args[0]");
        let mut steps = Vec::new();
        let mut rest = text.trim();
        let mut first = true;
        while !rest.is_empty() {
            if steps.len() == MAX_STEPS {
                return Err(format!("a path has more than {MAX_STEPS} steps"));
            }
            if let Some(inner) = rest.strip_prefix('[') {
                if inner.starts_with('"') {
                    let mut texts = serde_json::Deserializer::from_str(inner).into_iter::<String>();
                    let key = texts.next().and_then(Result::ok).ok_or_else(bad)?;
                    rest = inner[texts.byte_offset()..].strip_prefix(']').ok_or_else(bad)?;
                    steps.push(Step::Key(key));
                } else {
                    let (inside, after) = inner.split_once(']').ok_or_else(bad)?;
                    rest = after;
                    steps.push(match inside.split_once('=') {
                        Some((key, value)) if !key.is_empty() => {
                            Step::Where(key.to_owned(), value.to_owned())
                        }
                        _ => Step::Index(inside.parse().map_err(|_| bad())?),
                    });
                }
            } else {
                if !first {
                    rest = rest.strip_prefix('.').ok_or_else(bad)?;
                }
                let end = step_end(rest);
                if end == 0 {
                    return Err(bad());
                }
                steps.push(Step::Key(rest[..end].to_owned()));
                rest = &rest[end..];
            }
            first = false;
        }
        Ok(Self { steps })
    }
}

/// Where the key at the beginning of `text` ends; dots in a template do not end it.
fn step_end(text: &str) -> usize {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("{{") {
            at += rest.find("}}").map_or(rest.len(), |end| end + 2);
        } else if rest.starts_with(['.', '[']) {
            break;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// Does `edit` on `value`.
pub(super) fn apply(value: &mut Value, edit: &Edit) -> Result<(), String> {
    match edit {
        Edit::Set { path, value: given } => {
            *reach(value, &path.steps, path)? = given.clone();
        }
        Edit::Merge { path, value: given, lists } => {
            merge(reach(value, &path.steps, path)?, given, lists);
        }
        Edit::Delete { path } => delete(value, &path.steps),
        Edit::Append { path, value: given, key } => {
            let list = reach(value, &path.steps, path)?;
            if list.is_null() {
                *list = Value::Array(Vec::new());
            }
            if !list.is_array() {
                return Err(format!("what stands at {path} is no list"));
            }
            let lists = key.clone().map_or(ListMerge::Append, ListMerge::Key);
            merge(list, &Value::Array(vec![given.clone()]), &lists);
        }
    }
    Ok(())
}

/// The value at the end of `steps`; maps on the way are made, and an item behind the last.
fn reach<'v>(value: &'v mut Value, steps: &[Step], path: &Path) -> Result<&'v mut Value, String> {
    let Some((step, rest)) = steps.split_first() else { return Ok(value) };
    let next = match step {
        Step::Key(key) => {
            if value.is_null() {
                *value = Value::Object(Map::new());
            }
            let map = value.as_object_mut().ok_or_else(|| format!("{path}: there is no map for {key:?}"))?;
            map.entry(key.clone()).or_insert(Value::Null)
        }
        Step::Index(index) => {
            if value.is_null() {
                *value = Value::Array(Vec::new());
            }
            let list =
                value.as_array_mut().ok_or_else(|| format!("{path}: there is no list for [{index}]"))?;
            if *index == list.len() && list.len() < MAX_ITEMS {
                list.push(Value::Null);
            }
            let length = list.len();
            list.get_mut(*index)
                .ok_or_else(|| format!("{path}: the list has {length} items, none is [{index}]"))?
        }
        Step::Where(key, wanted) => {
            if value.is_null() {
                *value = Value::Array(Vec::new());
            }
            let none = format!("{path}: there is no list for [{key}={wanted}]");
            let list = value.as_array_mut().ok_or(none)?;
            let at = list.iter().position(|item| is(item, key, wanted));
            let at = at.unwrap_or_else(|| {
                let entry = (key.clone(), Value::String(wanted.clone()));
                list.push(Value::Object([entry].into_iter().collect()));
                list.len() - 1
            });
            &mut list[at]
        }
    };
    reach(next, rest, path)
}

fn is(item: &Value, key: &str, wanted: &str) -> bool {
    match &item[key] {
        Value::String(text) => text == wanted,
        Value::Null => false,
        other => *other.to_string() == *wanted,
    }
}

fn delete(value: &mut Value, steps: &[Step]) {
    let Some((step, rest)) = steps.split_first() else {
        *value = Value::Null;
        return;
    };
    let at = match (step, &*value) {
        (Step::Index(index), Value::Array(_)) => Some(*index),
        (Step::Where(key, wanted), Value::Array(items)) => {
            items.iter().position(|item| is(item, key, wanted))
        }
        _ => None,
    };
    match (step, value) {
        (Step::Key(key), Value::Object(map)) if rest.is_empty() => {
            map.remove(key);
        }
        (Step::Key(key), Value::Object(map)) => {
            if let Some(next) = map.get_mut(key) {
                delete(next, rest);
            }
        }
        (_, Value::Array(items)) => {
            if let Some(at) = at.filter(|at| *at < items.len()) {
                if rest.is_empty() {
                    items.remove(at);
                } else {
                    delete(&mut items[at], rest);
                }
            }
        }
        _ => {}
    }
}

/// Puts `over` on `base`, map by map.
pub fn merge(base: &mut Value, over: &Value, lists: &ListMerge) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                match base.get_mut(key) {
                    Some(old) => merge(old, value, lists),
                    None => {
                        base.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(base), Value::Array(over)) if *lists != ListMerge::Overwrite => match lists {
            ListMerge::Key(key) if over.iter().all(|item| !item[key.as_str()].is_null()) => {
                for item in over {
                    match base.iter_mut().find(|old| old[key.as_str()] == item[key.as_str()]) {
                        Some(old) => merge(old, item, lists),
                        None => base.push(item.clone()),
                    }
                }
            }
            ListMerge::Append => {
                for item in over {
                    if !base.contains(item) {
                        base.push(item.clone());
                    }
                }
            }
            ListMerge::Key(_) | ListMerge::Overwrite => over.clone_into(base),
        },
        (base, over) => over.clone_into(base),
    }
}
