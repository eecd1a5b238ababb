//! Sprig's lists.
#![expect(clippy::unnecessary_wraps, reason = "all functions of templates have one signature")]

use super::{Func, NIL_POINTER, Ty, convert, int, take, text};
use crate::{
    exec::{Engine, Fault},
    value::{List, ListType, Value, deep_equal},
};

type Result = std::result::Result<Value, Fault>;

pub(super) static FUNCS: &[Func] = &[
    Func::many("list", &[], Ty::Any, list),
    Func::many("tuple", &[], Ty::Any, list),
    Func::engine("append", &[Ty::Any, Ty::Any], push),
    Func::engine("push", &[Ty::Any, Ty::Any], push),
    Func::engine("mustAppend", &[Ty::Any, Ty::Any], push),
    Func::engine("mustPush", &[Ty::Any, Ty::Any], push),
    Func::engine("prepend", &[Ty::Any, Ty::Any], prepend),
    Func::engine("mustPrepend", &[Ty::Any, Ty::Any], prepend),
    Func::pure("first", &[Ty::Any], first),
    Func::pure("mustFirst", &[Ty::Any], first),
    Func::pure("last", &[Ty::Any], last),
    Func::pure("mustLast", &[Ty::Any], last),
    Func::engine("rest", &[Ty::Any], rest),
    Func::engine("mustRest", &[Ty::Any], rest),
    Func::engine("initial", &[Ty::Any], initial),
    Func::engine("mustInitial", &[Ty::Any], initial),
    Func::engine("reverse", &[Ty::Any], reverse),
    Func::engine("mustReverse", &[Ty::Any], reverse),
    Func::engine("compact", &[Ty::Any], compact),
    Func::engine("mustCompact", &[Ty::Any], compact),
    Func::engine("uniq", &[Ty::Any], uniq),
    Func::engine("mustUniq", &[Ty::Any], uniq),
    Func {
        name: "without",
        params: &[Ty::Any],
        variadic: Some(Ty::Any),
        action: super::Action::Engine(without),
    },
    Func {
        name: "mustWithout",
        params: &[Ty::Any],
        variadic: Some(Ty::Any),
        action: super::Action::Engine(without),
    },
    Func::engine("has", &[Ty::Any, Ty::Any], has),
    Func::engine("mustHas", &[Ty::Any, Ty::Any], has),
    Func { name: "slice", params: &[Ty::Any], variadic: Some(Ty::Any), action: super::Action::Engine(slice) },
    Func {
        name: "mustSlice",
        params: &[Ty::Any],
        variadic: Some(Ty::Any),
        action: super::Action::Engine(slice),
    },
    Func { name: "concat", params: &[], variadic: Some(Ty::Any), action: super::Action::Engine(concat) },
    Func::engine("chunk", &[Ty::Int, Ty::Any], chunk),
    Func::engine("mustChunk", &[Ty::Int, Ty::Any], chunk),
    Func::engine("sortAlpha", &[Ty::Any], sort_alpha),
    Func::engine("join", &[Ty::Str, Ty::Any], join),
    Func::pure("toStrings", &[Ty::Any], |args| Ok(strings_value(&args[0]))),
];

fn list(args: &mut [Value]) -> Result {
    Ok(Value::List(List::new(args.iter_mut().map(std::mem::take).collect())))
}

/// The items of a list argument, which is counted; `verb` says what cannot be done with others.
fn items(engine: &mut Engine<'_>, value: &Value, verb: &str) -> std::result::Result<Vec<Value>, Fault> {
    let items = items_of(value, verb)?;
    engine.charge(items.len() * size_of::<Value>())?;
    Ok(items)
}

fn items_of(value: &Value, verb: &str) -> std::result::Result<Vec<Value>, Fault> {
    match value {
        Value::List(list) => Ok(list.items().to_vec()),
        Value::Bytes(bytes) => Ok(bytes.iter().map(|b| Value::Uint64(u64::from(*b))).collect()),
        Value::Nil | Value::NilField => Err(NIL_POINTER.into()),
        other => Err(format!("Cannot {verb} type {}", other.kind()).into()),
    }
}

fn made(items: Vec<Value>) -> Result {
    Ok(Value::List(List::new(items)))
}

fn push(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let mut items = items(engine, &args[0], "push on")?;
    items.push(take(args, 1));
    made(items)
}

fn prepend(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let mut items = items(engine, &args[0], "prepend on")?;
    items.insert(0, take(args, 1));
    made(items)
}

fn first(args: &mut [Value]) -> Result {
    if let Value::List(list) = &args[0] {
        return Ok(list.items().first().cloned().unwrap_or_default());
    }
    Ok(items_of(&args[0], "find first on")?.into_iter().next().unwrap_or_default())
}

fn last(args: &mut [Value]) -> Result {
    if let Value::List(list) = &args[0] {
        return Ok(list.items().last().cloned().unwrap_or_default());
    }
    Ok(items_of(&args[0], "find last on")?.pop().unwrap_or_default())
}

fn rest(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let mut items = items(engine, &args[0], "find rest on")?;
    if items.is_empty() {
        return Ok(Value::List(List::nil()));
    }
    items.remove(0);
    made(items)
}

fn initial(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let mut items = items(engine, &args[0], "find initial on")?;
    if items.pop().is_none() {
        return Ok(Value::List(List::nil()));
    }
    made(items)
}

fn reverse(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let mut items = items(engine, &args[0], "find reverse on")?;
    items.reverse();
    made(items)
}

fn compact(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let mut items = items(engine, &args[0], "compact on")?;
    items.retain(|item| !convert::is_empty(item));
    made(items)
}

fn uniq(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let items = items(engine, &args[0], "find uniq on")?;
    let mut unique: Vec<Value> = Vec::new();
    let mut texts = std::collections::HashSet::new();
    for item in items {
        let new = match &item {
            Value::Str(text) => texts.insert(text.clone()),
            item => {
                engine.burn(unique.len() as u64)?;
                !unique.iter().any(|other| deep_equal(item, other))
            }
        };
        if new {
            unique.push(item);
        }
    }
    made(unique)
}

fn without(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let mut items = items(engine, &args[0], "find without on")?;
    engine.burn((items.len() * args.len()) as u64)?;
    items.retain(|item| !args[1..].iter().any(|other| deep_equal(item, other)));
    made(items)
}

fn has(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    match &args[1] {
        Value::Nil | Value::NilField | Value::Bytes(_) => Ok(Value::Bool(false)),
        Value::List(list) => {
            engine.burn(list.len() as u64)?;
            Ok(Value::Bool(list.items().iter().any(|item| deep_equal(&args[0], item))))
        }
        other => Err(format!("Cannot find has on type {}", other.kind()).into()),
    }
}

fn slice(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let (ty, all) = match &args[0] {
        Value::List(list) => (list.ty(), list.items()),
        Value::Nil | Value::NilField => return Err(NIL_POINTER.into()),
        other => return Err(format!("list should be type of slice or array but {}", other.kind()).into()),
    };
    if all.is_empty() {
        return Ok(Value::Nil);
    }
    let start = args.get(1).map_or(0, convert::to_int64);
    let end = args.get(2).map_or(all.len() as i64, convert::to_int64);
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let Some(items) = range.and_then(|(start, end)| all.get(start..end)) else {
        return Err("reflect.Value.Slice: slice index out of bounds".into());
    };
    engine.charge(std::mem::size_of_val(items))?;
    Ok(Value::List(List::typed(ty, items.to_vec())))
}

fn concat(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let mut all = Vec::new();
    for arg in args.iter() {
        match arg {
            Value::List(_) | Value::Bytes(_) => all.append(&mut items(engine, arg, "concat")?),
            Value::Nil | Value::NilField => return Err(NIL_POINTER.into()),
            other => return Err(format!("Cannot concat type {} as list", other.kind()).into()),
        }
    }
    if all.is_empty() {
        return Ok(Value::List(List::nil()));
    }
    made(all)
}

fn chunk(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let items = items(engine, &args[1], "chunk")?;
    let size = match int(args, 0) {
        0 => return Err("runtime error: makeslice: len out of range".into()),
        size => match usize::try_from(size) {
            Ok(size) => size,
            // Go makes as many parts as the list has negative sizes: none.
            Err(_) if items.len() as u64 <= size.unsigned_abs() => return made(Vec::new()),
            Err(_) => return Err("runtime error: makeslice: cap out of range".into()),
        },
    };
    made(items.chunks(size).map(|part| Value::List(List::new(part.to_vec()))).collect())
}

/// Sprig's `strslice`.
fn strings_of(value: &Value) -> Vec<crate::value::Str> {
    match value {
        Value::List(list) => {
            list.items().iter().filter(|item| !item.is_nil()).map(convert::text_of).collect()
        }
        Value::Bytes(bytes) => bytes.iter().map(|b| b.to_string().into()).collect(),
        Value::Nil | Value::NilField => Vec::new(),
        other => vec![convert::text_of(other)],
    }
}

fn strings_value(value: &Value) -> Value {
    Value::List(List::typed(ListType::Str, strings_of(value).into_iter().map(Value::Str).collect()))
}

fn sort_alpha(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let mut texts = match &args[0] {
        Value::Nil | Value::NilField => vec!["<nil>".into()],
        value => strings_of(value),
    };
    engine.charge(texts.len() * size_of::<Value>())?;
    texts.sort_unstable();
    Ok(Value::List(List::typed(ListType::Str, texts.into_iter().map(Value::Str).collect())))
}

fn join(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    if let Value::List(list) = &args[1]
        && list.items().iter().any(|item| matches!(item, Value::Raw(_)))
    {
        let parts: Vec<Vec<u8>> =
            list.items().iter().filter(|item| !item.is_nil()).map(convert::bytes_of).collect();
        return Ok(Value::string_of(parts.join(text(args, 0).as_bytes())));
    }
    let joined = strings_of(&args[1]).join(&text(args, 0));
    engine.charge(joined.len())?;
    Ok(joined.into())
}
