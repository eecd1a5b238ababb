//! Values of a chart, of the charts in it and of the user become one map, exactly as in Helm.

use plural_gotemplate::{
    format,
    value::{Map, Str, Value, deep_copy_map},
};

use super::dependencies::Node;

const GLOBAL: &str = "global";

/// `CoalesceValues` (or `MergeValues`): the user's values over those of the chart and its charts.
/// With `merge` nulls are kept instead of deleting what they are over.
///
/// # Errors
/// When the values of a dependency are not a map.
pub(super) fn coalesce(chart: &Node<'_>, user: &Map, merge: bool) -> Result<Map, String> {
    let target = deep_copy_map(user);
    coalesce_chart(chart, &target, merge)?;
    Ok(target)
}

fn coalesce_chart(chart: &Node<'_>, target: &Map, merge: bool) -> Result<(), String> {
    coalesce_values(chart, target, merge);
    for child in &chart.children {
        let inner = match target.get(&child.name) {
            None => {
                let inner = Map::new();
                target.set(child.name.as_str().into(), Value::Map(inner.clone()));
                inner
            }
            Some(Value::Map(inner)) => inner,
            Some(other) => {
                let shown = match &other {
                    Value::Bool(value) => value.to_string(),
                    other => {
                        format!("%!t({}={})", other.type_name(), format::display(other))
                    }
                };
                return Err(format!("type mismatch on {}: {shown}", child.name));
            }
        };
        coalesce_globals(&inner, target);
        coalesce_chart(child, &inner, merge)?;
    }
    Ok(())
}

/// The globals of a chart become those of a chart in it, over its own.
fn coalesce_globals(target: &Map, source: &Map) {
    let globals = |map: &Map| match map.get(GLOBAL) {
        None => Some(Map::new()),
        Some(Value::Map(globals)) => Some(globals),
        Some(_) => None,
    };
    let (Some(to), Some(from)) = (globals(target), globals(source)) else { return };
    for (key, value) in from.snapshot() {
        match value {
            Value::Map(inner) => {
                let copy = Map::of(inner.snapshot());
                match to.get(&key) {
                    None => to.set(key, Value::Map(copy)),
                    Some(Value::Map(old)) => {
                        tables(&copy, &old, true);
                        to.set(key, Value::Map(copy));
                    }
                    Some(_) => {}
                }
            }
            value => {
                if !matches!(to.get(&key), Some(Value::Map(_))) {
                    to.set(key, value);
                }
            }
        }
    }
    target.set(GLOBAL.into(), Value::Map(to));
}

fn coalesce_values(chart: &Node<'_>, target: &Map, merge: bool) {
    let defaults = deep_copy_map(&chart.values.borrow());
    for (key, value) in defaults.snapshot() {
        match target.get(&key) {
            None => target.set(key, value),
            Some(Value::Nil | Value::NilField) if !merge => {
                target.remove(&key);
            }
            Some(Value::Map(over)) => {
                if let Value::Map(under) = value {
                    // What belongs to a chart inside keeps its nulls until its own turn.
                    let merge = merge || chart.children.iter().any(|child| *child.name == *key);
                    tables(&over, &under, merge);
                }
            }
            Some(_) => {}
        }
    }
}

/// `coalesceTablesFullKey`: what `source` has and `target` has not; a null in the target deletes
/// what is under it.
pub(super) fn tables(target: &Map, source: &Map, merge: bool) {
    let source_had: Vec<Str> =
        source.entries().iter().filter(|entry| !entry.1.is_nil()).map(|entry| entry.0.clone()).collect();
    for (key, value) in target.snapshot() {
        if value.is_nil() {
            source.set(key, Value::Nil);
        }
    }
    for (key, value) in source.snapshot() {
        match (target.get(&key), value) {
            (Some(Value::Nil | Value::NilField), _) if !merge && source_had.contains(&key) => {
                target.remove(&key);
            }
            (None, value) => target.set(key, value),
            (Some(Value::Map(over)), Value::Map(under)) => tables(&over, &under, merge),
            _ => {}
        }
    }
}

/// The map under a path of keys (`a.b.c`).
pub(super) fn table(map: &Map, path: &str) -> Option<Map> {
    path.split('.').try_fold(map.clone(), |map, part| map.map(part))
}

/// The value under a path, unless it is a map.
pub(super) fn path_value(map: &Map, path: &str) -> Option<Value> {
    let (map, key) = match path.rsplit_once('.') {
        Some((tables, key)) => (table(map, tables)?, key),
        None => (map.clone(), path),
    };
    map.get(key).filter(|value| !matches!(value, Value::Map(_)))
}
