//! Edits of values.

use plural_core::pr_automation_spec::ListMerge as Rule;
pub(super) use plural_core::pr_edit::{Path, Step};
use serde_json::{Map, Value};

use super::Edit;

/// Items that a list may get by its index being set.
const MAX_ITEMS: usize = 100_000;

/// What becomes of a list under another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListMerge {
    /// The other one takes its place.
    #[default]
    Overwrite,
    /// Items of the other that it does not have are added.
    Append,
    /// Items are told apart by this field: those that both have are merged, the others added. Lists whose items do not have the
    /// field are overwritten.
    Key(String),
}

impl ListMerge {
    /// As an automation says it: with a field the rule is not looked at.
    pub(super) fn of(rule: Rule, key: Option<&str>) -> Self {
        match (key, rule) {
            (Some(key), _) => Self::Key(key.to_owned()),
            (None, Rule::Append) => Self::Append,
            (None, Rule::Overwrite) => Self::Overwrite,
        }
    }
}

/// Does `edit` on `value`.
pub(super) fn apply(value: &mut Value, edit: &Edit) -> Result<(), String> {
    match edit {
        Edit::Set { path, value: given } => {
            *reach(value, &path.steps, path)? = given.clone();
        }
        Edit::Merge { path, value: given, lists, key } => {
            let lists = ListMerge::of(*lists, key.as_deref());
            merge(reach(value, &path.steps, path)?, given, &lists);
        }
        Edit::Delete { path } => delete(value, &path.steps),
        Edit::Express { .. } | Edit::Block { .. } => {
            return Err("only HCL has blocks and expressions: use the op set".to_owned());
        }
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
    is_text(&item[key], wanted)
}

/// Whether a value is `wanted` as a path writes it.
pub(super) fn is_text(value: &Value, wanted: &str) -> bool {
    match value {
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
