//! What a thing is, as fields of its document: compared, merged, and without what must not be seen.
//!
//! A state holds no field that is as it is by default, names other things by their natural keys (`https://…`, `blue/web`) and
//! never a hidden value: those are kept apart in [`Hidden`].

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::schema::{Field, Type};

/// Fields of a document.
pub(super) type State = Map<String, Value>;

/// Hidden values by their path, `helm.values`. No `Debug`: they may be secret.
#[derive(Clone, Default)]
pub(super) struct Hidden(pub(super) BTreeMap<String, Value>);

impl Hidden {
    pub(super) fn get(&self, path: &str) -> Option<&Value> {
        self.0.get(path)
    }
}

/// `state` without what is as it is by default.
pub(super) fn normal(fields: &'static [Field], state: &State) -> State {
    let mut kept = State::new();
    for (name, value) in state {
        let Some(field) = fields.iter().find(|field| field.name == name) else { continue };
        let value = match (field.ty, value) {
            (Type::Fields(fields), Value::Object(below)) => Value::Object(normal(fields, below)),
            (Type::List(fields), Value::Array(items)) => Value::Array(
                items
                    .iter()
                    .map(|item| match item {
                        Value::Object(item) => Value::Object(normal(fields, item)),
                        other => other.clone(),
                    })
                    .collect(),
            ),
            (_, value) => value.clone(),
        };
        let is_usual = match &value {
            Value::Null => true,
            Value::Bool(value) => *value == field.on,
            Value::Number(_) => false,
            Value::String(text) => text.is_empty() && !field.required,
            Value::Array(items) => items.is_empty(),
            Value::Object(below) => below.is_empty() && !field.required,
        };
        if !is_usual {
            kept.insert(name.clone(), value);
        }
    }
    kept
}

/// `known` with what a document says over it: null takes a field away, fields of fields are merged, all else is replaced.
pub(super) fn over(fields: &'static [Field], known: &State, said: &State) -> State {
    let mut merged = known.clone();
    for (name, value) in said {
        let below = fields.iter().find(|field| field.name == name).map(|field| field.ty);
        match (below, value) {
            (_, Value::Null) => {
                merged.remove(name);
            }
            (Some(Type::Fields(fields)), Value::Object(said)) => {
                let empty = State::new();
                let known = merged.get(name).and_then(Value::as_object).unwrap_or(&empty);
                let both = over(fields, known, said);
                merged.insert(name.clone(), Value::Object(both));
            }
            (_, value) => {
                merged.insert(name.clone(), value.clone());
            }
        }
    }
    normal(fields, &merged)
}

/// Takes the hidden fields out of what a document says.
pub(super) fn hide(fields: &'static [Field], said: &mut State, path: &str, hidden: &mut Hidden) {
    let names: Vec<String> = said.keys().cloned().collect();
    for name in names {
        let Some(field) = fields.iter().find(|field| field.name == name) else { continue };
        let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if field.hidden {
            if let Some(value) = said.remove(&name) {
                hidden.0.insert(at, value);
            }
            continue;
        }
        match (field.ty, said.get_mut(&name)) {
            (Type::Fields(fields), Some(Value::Object(below))) => hide(fields, below, &at, hidden),
            (Type::List(fields), Some(Value::Array(items))) => {
                for (index, item) in items.iter_mut().enumerate() {
                    if let Value::Object(item) = item {
                        hide(fields, item, &format!("{at}[{index}]"), hidden);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The first of `fields` whose values differ.
pub(super) fn differs<'f>(fields: &[&'f str], a: &State, b: &State) -> Option<&'f str> {
    fields.iter().find(|field| a.get(**field) != b.get(**field)).copied()
}

/// Whether `path`, a field or one of fields, is there.
pub(super) fn has(state: &State, path: &str) -> bool {
    match path.split_once('.') {
        None => state.contains_key(path),
        Some((name, rest)) => below(state, name).is_some_and(|state| has(state, rest)),
    }
}

/// Text of a field.
pub(super) fn text<'s>(state: &'s State, name: &str) -> Option<&'s str> {
    state.get(name).and_then(Value::as_str)
}

/// The fields of a field; none when it is absent.
pub(super) fn below<'s>(state: &'s State, name: &str) -> Option<&'s State> {
    state.get(name).and_then(Value::as_object)
}

/// What `answer` says under these names, where it says anything.
pub(super) fn picked(answer: &Value, names: &[&str]) -> State {
    let all = names.iter().filter_map(|name| Some(((*name).to_owned(), answer.get(*name)?.clone())));
    all.filter(|(_, value)| !value.is_null()).collect()
}

/// Texts of a list, in order.
pub(super) fn sorted(list: Option<&Value>) -> Value {
    let mut all: Vec<Value> = list.and_then(Value::as_array).cloned().unwrap_or_default();
    all.sort_by_key(Value::to_string);
    Value::Array(all)
}
