//! Sprig's dictionaries.

use super::{Action, Func, Ty, convert, take, text};
use crate::{
    exec::{Engine, Fault},
    value::{List, MAX_DEPTH, Map, Str, Value},
};

type Result = std::result::Result<Value, Fault>;

const fn engine_many(
    name: &'static str,
    params: &'static [Ty],
    more: Ty,
    run: fn(&mut Engine<'_>, &mut [Value]) -> Result,
) -> Func {
    Func { name, params, variadic: Some(more), action: Action::Engine(run) }
}

pub(super) static FUNCS: &[Func] = &[
    engine_many("dict", &[], Ty::Any, dict),
    Func::pure("get", &[Ty::Map, Ty::Str], |args| {
        Ok(map(args, 0).and_then(|map| map.get(&text(args, 1))).unwrap_or_else(|| "".into()))
    }),
    Func::engine("set", &[Ty::Map, Ty::Str, Ty::Any], set),
    Func::pure("unset", &[Ty::Map, Ty::Str], |args| {
        if let Some(map) = map(args, 0) {
            map.remove(&text(args, 1));
        }
        Ok(take(args, 0))
    }),
    Func::pure("hasKey", &[Ty::Map, Ty::Str], |args| {
        Ok(map(args, 0).is_some_and(|map| map.contains(&text(args, 1))).into())
    }),
    Func::many("pluck", &[Ty::Str], Ty::Map, |args| {
        let key = text(args, 0);
        let found = (1..args.len()).filter_map(|at| map(args, at)?.get(&key)).collect();
        Ok(Value::List(List::new(found)))
    }),
    engine_many("keys", &[], Ty::Map, |engine, args| {
        let mut keys = Vec::new();
        for at in 0..args.len() {
            if let Some(map) = map(args, at) {
                keys.extend(map.entries().iter().map(|entry| entry.0.clone()));
            }
        }
        engine.charge(keys.len() * size_of::<Value>())?;
        Ok(Value::List(List::strings(keys)))
    }),
    engine_many("pick", &[Ty::Map], Ty::Str, |_, args| {
        let picked = Map::new();
        if let Some(map) = map(args, 0) {
            for at in 1..args.len() {
                let key = text(args, at);
                if let Some(value) = map.get(&key) {
                    picked.set(key.as_ref().into(), value);
                }
            }
        }
        Ok(Value::Map(picked))
    }),
    engine_many("omit", &[Ty::Map], Ty::Str, |engine, args| {
        let Some(map) = map(args, 0) else { return Ok(Value::Map(Map::new())) };
        let omitted: Vec<_> = (1..args.len()).map(|at| text(args, at)).collect();
        let kept: Vec<(Str, Value)> = map
            .entries()
            .iter()
            .filter(|entry| !omitted.iter().any(|key| **key == *entry.0))
            .cloned()
            .collect();
        engine.charge(kept.len() * size_of::<(Str, Value)>())?;
        Ok(Value::Map(Map::of(kept)))
    }),
    Func::pure("values", &[Ty::Map], |args| {
        let values = map(args, 0).map(|map| map.entries().iter().map(|entry| entry.1.clone()).collect());
        Ok(Value::List(List::new(values.unwrap_or_default())))
    }),
    engine_many("merge", &[Ty::Map], Ty::Map, |engine, args| merge_all(engine, args, false)),
    engine_many("mustMerge", &[Ty::Map], Ty::Map, |engine, args| merge_all(engine, args, false)),
    engine_many("mergeOverwrite", &[Ty::Map], Ty::Map, |engine, args| merge_all(engine, args, true)),
    engine_many("mustMergeOverwrite", &[Ty::Map], Ty::Map, |engine, args| merge_all(engine, args, true)),
    Func::many("dig", &[], Ty::Any, dig),
];

fn map(args: &[Value], at: usize) -> Option<Map> {
    match args.get(at) {
        Some(Value::Map(map)) => Some(map.clone()),
        _ => None,
    }
}

fn dict(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let mut entries = Vec::with_capacity(args.len().div_ceil(2));
    let mut at = 0;
    while at < args.len() {
        let key = match take(args, at) {
            Value::Str(key) => key,
            other => convert::text_of(&other),
        };
        let value = if at + 1 < args.len() { take(args, at + 1) } else { "".into() };
        entries.push((key, value));
        at += 2;
    }
    engine.charge(entries.len() * size_of::<(Str, Value)>())?;
    Ok(Value::Map(Map::of(entries)))
}

fn set(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let Some(map) = map(args, 0) else {
        return Err("assignment to entry in nil map".into());
    };
    let key = match take(args, 1) {
        Value::Str(key) => key,
        other => convert::text_of(&other),
    };
    let value = take(args, 2);
    engine.charge(size_of::<(Str, Value)>())?;
    engine.wrote(&map, &value);
    map.set(key, value);
    Ok(Value::Map(map))
}

fn merge_all(engine: &mut Engine<'_>, args: &mut [Value], overwrite: bool) -> Result {
    let Some(target) = map(args, 0) else {
        // A nil map takes the entries of the first that is not.
        let fresh = Map::new();
        for at in 1..args.len() {
            if let Some(source) = map(args, at) {
                merge(engine, &fresh, &source, overwrite, 0)?;
            }
        }
        return Ok(Value::Map(fresh));
    };
    for at in 1..args.len() {
        if let Some(source) = map(args, at) {
            merge(engine, &target, &source, overwrite, 0)?;
        }
    }
    Ok(Value::Map(target))
}

/// What `mergo` calls empty; unlike in templates, a struct with nothing in it is not asked for.
fn is_empty(value: &Value) -> bool {
    convert::is_empty(value)
}

/// Puts the entries of `source` into `target`. Without `overwrite` only where the target has
/// nothing, or something empty. Maps under both are merged; values are shared, not copied.
fn merge(
    engine: &mut Engine<'_>,
    target: &Map,
    source: &Map,
    overwrite: bool,
    depth: usize,
) -> std::result::Result<(), Fault> {
    if target.same(source) {
        return Ok(());
    }
    if depth > MAX_DEPTH {
        return Err("the value holds itself".into());
    }
    for (key, value) in source.snapshot() {
        engine.burn(1)?;
        let old = target.get(&key);
        if value.is_nil() {
            // A nil in the source only shows where it overwrites.
            if overwrite {
                target.set(key, value);
            }
            continue;
        }
        match (&old, &value) {
            (Some(Value::Map(old)), Value::Map(new)) => {
                merge(engine, old, new, overwrite, depth + 1)?;
                if !old.is_empty() {
                    continue;
                }
            }
            // A list is replaced when it may be, and never merged.
            (Some(old_value @ Value::List(_)), Value::List(_)) if !is_empty(old_value) && !overwrite => {
                continue;
            }
            _ => {}
        }
        let replace = match &old {
            None => true,
            Some(old) => overwrite || is_empty(old),
        };
        if replace {
            engine.wrote(target, &value);
            target.set(key, value);
        }
    }
    Ok(())
}

fn dig(args: &mut [Value]) -> Result {
    if args.len() < 3 {
        return Err("dig needs at least three arguments".into());
    }
    let last = args.len() - 1;
    let wrong = |value: &Value, wanted: &str| {
        let found = if value.is_nil() { "nil" } else { value.type_name() };
        Fault::Text(format!("interface conversion: interface {{}} is {found}, not {wanted}"))
    };
    let plain_map = |value: &Value| match value {
        Value::Map(map) if map.ty() == crate::value::MapType::Any => Ok(map.clone()),
        other => Err(wrong(other, "map[string]interface {}")),
    };
    let mut map = plain_map(&args[last])?;
    if let Some(key) = args[..last - 1].iter().find(|key| key.as_str().is_none()) {
        return Err(wrong(key, "string"));
    }
    for at in 0..last - 1 {
        let Some(step) = map.get(&text(args, at)) else { return Ok(take(args, last - 1)) };
        if at == last - 2 {
            return Ok(step);
        }
        map = plain_map(&step)?;
    }
    Ok(Value::Nil)
}
