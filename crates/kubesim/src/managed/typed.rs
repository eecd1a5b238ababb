//! Walks over a value together with its schema: which paths it holds, how two differ, merging, removal.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::set::{FieldSet, Step};
use crate::schema::{Arena, ListKind, NodeId, Type};

/// A value that does not fit its schema: path and reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub(crate) struct TypedError {
    /// Path in dotted form, starting with a dot.
    pub path: String,
    /// What is wrong.
    pub why: String,
}

/// How a value is owned.
enum Shape<'a> {
    Leaf,
    Fields(&'a Map<String, Value>),
    Items(&'a [Value]),
}

fn shape<'a>(a: &Arena, id: NodeId, v: &'a Value) -> Shape<'a> {
    let n = a.node(id);
    match v {
        Value::Object(m) if !n.atomic => Shape::Fields(m),
        Value::Array(l) if n.list != ListKind::Atomic => Shape::Items(l),
        _ => Shape::Leaf,
    }
}

/// The step that names `item` in the list `id`.
pub(crate) fn item_step(a: &Arena, id: NodeId, index: usize, item: &Value) -> Result<Step, String> {
    match &a.node(id).list {
        ListKind::Atomic => Ok(Step::Index(index as u32)),
        ListKind::Set => Ok(Step::Value(item.to_string().into())),
        ListKind::Map(keys) => {
            let item_id = a.item(id);
            let Some(o) = item.as_object() else {
                return Err("associative list with keys may not have non-map elements".into());
            };
            let mut found = BTreeMap::new();
            for k in keys {
                let v = o.get(k).filter(|v| !v.is_null()).or_else(|| {
                    let (f, _) = a.field(item_id, k)?;
                    a.node(f).default.as_ref()
                });
                match v {
                    Some(v) => {
                        found.insert(k.as_str(), v);
                    }
                    None => {
                        return Err(format!(
                            "associative list with keys has an element that omits key field \"{k}\" (and doesn't have default value)"
                        ));
                    }
                }
            }
            Ok(Step::Key(serde_json::to_string(&found).unwrap_or_default().into()))
        }
    }
}

/// Checks that `v` fits: declared fields, JSON types, keys of lists.
pub(crate) fn check(a: &Arena, id: NodeId, v: &Value) -> Vec<TypedError> {
    let mut out = Vec::new();
    check_at(a, id, v, "", &mut out);
    out
}

#[expect(clippy::many_single_char_names, reason = "arena, value and node, everywhere in this file")]
fn check_at(a: &Arena, id: NodeId, v: &Value, path: &str, out: &mut Vec<TypedError>) {
    let n = a.node(id);
    let mut fail = |why: String| out.push(TypedError { path: path.to_owned(), why });
    if v.is_null() {
        return;
    }
    match n.ty {
        Type::Object => match v {
            Value::Object(m) => {
                for (k, sub) in m {
                    let below = format!("{path}.{k}");
                    match a.field(id, k) {
                        Some((f, _)) => check_at(a, f, sub, &below, out),
                        None => {
                            out.push(TypedError { path: below, why: "field not declared in schema".into() });
                        }
                    }
                }
            }
            other => fail(format!("expected map, got {}", wrapped(other))),
        },
        Type::Array => match v {
            Value::Array(l) => {
                let mut seen = BTreeSet::new();
                for (i, sub) in l.iter().enumerate() {
                    match item_step(a, id, i, sub) {
                        Err(why) => {
                            out.push(TypedError {
                                path: path.to_owned(),
                                why: format!("element {i}: {why}"),
                            });
                        }
                        Ok(step) => {
                            let below = format!("{path}{}", step.display());
                            check_at(a, a.item(id), sub, &below, out);
                            if !seen.insert(step.clone()) {
                                out.push(TypedError {
                                    path: path.to_owned(),
                                    why: format!("duplicate entries for key {}", step.display()),
                                });
                            }
                        }
                    }
                }
            }
            other => fail(format!("expected list, got {}", wrapped(other))),
        },
        Type::String | Type::Time if !v.is_string() => fail(format!("expected string, got {}", wrapped(v))),
        Type::Integer | Type::Number if !v.is_number() => {
            fail(format!("expected numeric (int or float), got {}", scalar_name(v)));
        }
        Type::Boolean if !v.is_boolean() => fail(format!("expected boolean, got {}", wrapped(v))),
        _ => {}
    }
}

fn scalar_name(v: &Value) -> &'static str {
    match v {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

fn wrapped(v: &Value) -> String {
    match v {
        Value::String(s) => format!("&value.valueUnstructured{{Value:\"{s}\"}}"),
        Value::Number(n) => format!("&value.valueUnstructured{{Value:{n}}}"),
        other => scalar_name(other).to_owned(),
    }
}

/// Every path of a configuration that its author owns.
pub(crate) fn owned(a: &Arena, id: NodeId, v: &Value) -> FieldSet {
    let mut out = FieldSet::default();
    match shape(a, id, v) {
        Shape::Leaf => {}
        Shape::Fields(m) => {
            for (k, sub) in m {
                let (f, declared) = a.field(id, k).unwrap_or((crate::schema::DEDUCED, false));
                let leaf = matches!(shape(a, f, sub), Shape::Leaf);
                let empty = sub.as_object().is_some_and(Map::is_empty);
                out.graft(Step::Field(k.as_str().into()), leaf || empty || !declared, owned(a, f, sub));
            }
        }
        Shape::Items(l) => {
            for (i, sub) in l.iter().enumerate() {
                if let Ok(step) = item_step(a, id, i, sub) {
                    out.graft(step, true, owned(a, a.item(id), sub));
                }
            }
        }
    }
    out
}

/// Paths that differ between two values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Only in the newer one.
    pub added: FieldSet,
    /// In both, with other values.
    pub modified: FieldSet,
    /// Only in the older one.
    pub removed: FieldSet,
}

impl Difference {
    fn leaf(&mut self, path: &[Step], old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, Some(_)) => self.added.insert(path),
            (Some(_), None) => self.removed.insert(path),
            (Some(o), Some(n)) if !same(o, n) => self.modified.insert(path),
            _ => {}
        }
    }
}

/// Equality that holds 1 and 1.0 for the same number.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(k, v)| y.get(k).is_some_and(|w| same(v, w)))
        }
        _ => a == b,
    }
}

/// Compares two values of one schema.
pub(crate) fn compare(a: &Arena, id: NodeId, old: &Value, new: &Value) -> Difference {
    let mut out = Difference::default();
    compare_at(a, id, Some(old), Some(new), &mut Vec::new(), &mut out);
    out
}

fn empty(v: Option<&Value>) -> bool {
    match v {
        None | Some(Value::Null) => true,
        Some(Value::Object(m)) => m.is_empty(),
        Some(Value::Array(l)) => l.is_empty(),
        _ => false,
    }
}

#[expect(clippy::many_single_char_names, reason = "arena, old and new, everywhere in this file")]
fn compare_at(
    a: &Arena,
    id: NodeId,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<Step>,
    out: &mut Difference,
) {
    if let (Some(o), Some(n)) = (old, new)
        && o == n
    {
        return;
    }
    let sample = match (old, new) {
        (_, Some(v)) if !v.is_null() => v,
        (Some(v), _) | (None, Some(v)) => v,
        (None, None) => return,
    };
    let same_shape = match (old, new) {
        (Some(o), Some(n)) => {
            o.is_null() || n.is_null() || std::mem::discriminant(o) == std::mem::discriminant(n)
        }
        _ => true,
    };
    // Two empty containers are compared as leaves, so that `{}` and absence stay apart.
    if !same_shape || (empty(old) && empty(new)) {
        return out.leaf(path, old, new);
    }
    match shape(a, id, sample) {
        Shape::Leaf => return out.leaf(path, old, new),
        Shape::Fields(_) => {
            let none = Map::new();
            let o = old.and_then(Value::as_object).unwrap_or(&none);
            let n = new.and_then(Value::as_object).unwrap_or(&none);
            for k in o.keys().chain(n.keys().filter(|k| !o.contains_key(*k))) {
                let (f, _) = a.field(id, k).unwrap_or((crate::schema::DEDUCED, false));
                path.push(Step::Field(k.as_str().into()));
                compare_at(a, f, o.get(k), n.get(k), path, out);
                path.pop();
            }
        }
        Shape::Items(_) => {
            let o = indexed(a, id, old);
            let n = indexed(a, id, new);
            let item = a.item(id);
            for (step, ov) in o.iter().chain(n.iter().filter(|(s, _)| !o.contains_key(*s))) {
                let (ov, nv) = if o.contains_key(step) { (Some(ov), n.get(step)) } else { (None, Some(ov)) };
                path.push(step.clone());
                match (ov.map(Vec::as_slice), nv.map(Vec::as_slice)) {
                    (Some([x]), Some([y])) => compare_at(a, item, Some(x), Some(y), path, out),
                    (Some([x]), None) => compare_at(a, item, Some(x), None, path, out),
                    (None, Some([y])) => compare_at(a, item, None, Some(y), path, out),
                    // Duplicates have one owner together.
                    (Some(x), Some(y)) if x == y => {}
                    (Some(_), Some(_)) => out.modified.insert(path),
                    (Some(_), None) => out.removed.insert(path),
                    (None, _) => out.added.insert(path),
                }
                path.pop();
            }
        }
    }
    if !path.is_empty() {
        if old.is_none() {
            out.added.insert(path);
        } else if new.is_none() {
            out.removed.insert(path);
        }
    }
}

fn indexed<'a>(a: &Arena, id: NodeId, v: Option<&'a Value>) -> BTreeMap<Step, Vec<&'a Value>> {
    let mut out: BTreeMap<Step, Vec<&Value>> = BTreeMap::new();
    for (i, item) in v.and_then(Value::as_array).map_or(&[][..], Vec::as_slice).iter().enumerate() {
        if let Ok(step) = item_step(a, id, i, item) {
            out.entry(step).or_default().push(item);
        }
    }
    out
}

/// Lays `config` over `live`.
pub(crate) fn merge(a: &Arena, id: NodeId, live: &Value, config: &Value) -> Value {
    match (shape(a, id, live), shape(a, id, config)) {
        (Shape::Fields(l), Shape::Fields(c)) => {
            let mut out = l.clone();
            for (k, cv) in c {
                let merged = match l.get(k) {
                    Some(lv) => {
                        let (f, _) = a.field(id, k).unwrap_or((crate::schema::DEDUCED, false));
                        merge(a, f, lv, cv)
                    }
                    None => cv.clone(),
                };
                out.insert(k.clone(), merged);
            }
            Value::Object(out)
        }
        (Shape::Items(l), Shape::Items(c)) => Value::Array(merge_items(a, id, l, c)),
        _ => config.clone(),
    }
}

/// Items of the configuration keep their order among themselves; items that only the live list has keep their
/// place before the live items that follow them.
fn merge_items(a: &Arena, id: NodeId, live: &[Value], config: &[Value]) -> Vec<Value> {
    let steps = |l: &[Value]| -> Vec<Option<Step>> {
        l.iter().enumerate().map(|(i, v)| item_step(a, id, i, v).ok()).collect()
    };
    let (ls, cs) = (steps(live), steps(config));
    let in_config: BTreeSet<&Step> = cs.iter().flatten().collect();
    let mut live_at: BTreeMap<&Step, usize> = BTreeMap::new();
    for (i, s) in ls.iter().enumerate() {
        if let Some(s) = s {
            live_at.entry(s).or_insert(i);
        }
    }
    let item = a.item(id);
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let mut done: BTreeSet<&Step> = BTreeSet::new();
    let (mut l, mut c) = (0, 0);
    // The next item of the configuration that the live list has too: the live list may only be walked past it in
    // the configuration's order.
    while l < live.len() || c < config.len() {
        if let Some(Some(step)) = ls.get(l) {
            if !in_config.contains(step) {
                out.push(live[l].clone());
                l += 1;
                continue;
            }
            if done.contains(step) {
                l += 1;
                continue;
            }
            let next_shared = cs[c..].iter().flatten().find(|s| live_at.contains_key(s));
            if next_shared.is_some_and(|n| n != step) {
                // Shared, but its turn comes later: it is written when the configuration reaches it.
                l += 1;
                continue;
            }
        } else if l < live.len() {
            out.push(live[l].clone());
            l += 1;
            continue;
        }
        if c < config.len() {
            match &cs[c] {
                Some(step) => {
                    out.push(match live_at.get(step) {
                        Some(i) => merge(a, item, &live[*i], &config[c]),
                        None => config[c].clone(),
                    });
                    done.insert(step);
                }
                None => out.push(config[c].clone()),
            }
            c += 1;
        } else {
            l += 1;
        }
    }
    out
}

/// Takes the paths of `set` out of `v`. A container that loses its last element becomes null.
pub(crate) fn remove(a: &Arena, id: NodeId, v: &Value, set: &FieldSet) -> Value {
    if set.is_empty() || empty(Some(v)) {
        return v.clone();
    }
    match shape(a, id, v) {
        Shape::Leaf => v.clone(),
        Shape::Fields(m) => {
            let mut out = Map::new();
            for (k, sub) in m {
                let step = Step::Field(k.as_str().into());
                if set.has(&step) {
                    continue;
                }
                let kept = match set.below(&step) {
                    Some(below) => {
                        let (f, _) = a.field(id, k).unwrap_or((crate::schema::DEDUCED, false));
                        remove(a, f, sub, below)
                    }
                    None => sub.clone(),
                };
                out.insert(k.clone(), kept);
            }
            if out.is_empty() { Value::Null } else { Value::Object(out) }
        }
        Shape::Items(l) => {
            let mut out = Vec::new();
            for (i, sub) in l.iter().enumerate() {
                let Ok(step) = item_step(a, id, i, sub) else {
                    out.push(sub.clone());
                    continue;
                };
                if set.has(&step) {
                    continue;
                }
                out.push(match set.below(&step) {
                    Some(below) => remove(a, a.item(id), sub, below),
                    None => sub.clone(),
                });
            }
            if out.is_empty() { Value::Null } else { Value::Array(out) }
        }
    }
}

/// Adds every declared field that leads to a member, so that a struct goes when all it held goes.
pub(crate) fn with_parents(a: &Arena, id: NodeId, set: &FieldSet) -> FieldSet {
    let mut out = FieldSet::default();
    for (step, member, below) in set.iter() {
        let (child, declared) = match step {
            Step::Field(f) => a.field(id, f).unwrap_or((crate::schema::DEDUCED, false)),
            _ => (a.item(id), false),
        };
        out.graft(step.clone(), member || (declared && !below.is_empty()), with_parents(a, child, below));
    }
    out
}
