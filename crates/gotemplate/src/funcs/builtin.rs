//! The functions of Go's text/template.

use std::{borrow::Cow, cmp::Ordering, fmt::Write as _};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Action, Func, Ty, bytes, convert, take};
use crate::{
    exec::{Fault, NO_VALUE},
    format, strconv,
    value::{MapType, Value},
};

type Result = std::result::Result<Value, Fault>;

pub(super) static FUNCS: &[Func] = &[
    Func { name: "and", params: &[Ty::Reflect], variadic: Some(Ty::Reflect), action: Action::Either(false) },
    Func { name: "or", params: &[Ty::Reflect], variadic: Some(Ty::Reflect), action: Action::Either(true) },
    Func { name: "call", params: &[Ty::Reflect], variadic: Some(Ty::Reflect), action: Action::Call },
    Func::pure("not", &[Ty::Reflect], |args| Ok(Value::Bool(!args[0].truth()))),
    Func::many("eq", &[Ty::Reflect], Ty::Reflect, eq),
    Func::pure("ne", &[Ty::Reflect, Ty::Reflect], |args| Ok(Value::Bool(!equal(&args[0], &args[1])?))),
    Func::pure("lt", &[Ty::Reflect, Ty::Reflect], |args| Ok(Value::Bool(less(&args[0], &args[1])?))),
    Func::pure("le", &[Ty::Reflect, Ty::Reflect], |args| Ok(Value::Bool(less_or_equal(&args[0], &args[1])?))),
    Func::pure("gt", &[Ty::Reflect, Ty::Reflect], |args| {
        Ok(Value::Bool(!less_or_equal(&args[0], &args[1])?))
    }),
    Func::pure("ge", &[Ty::Reflect, Ty::Reflect], |args| Ok(Value::Bool(!less(&args[0], &args[1])?))),
    Func::pure("len", &[Ty::Reflect], len),
    Func::many("index", &[Ty::Reflect], Ty::Reflect, index),
    Func {
        name: "print",
        params: &[],
        variadic: Some(Ty::Any),
        action: Action::Engine(|engine, args| {
            let text = format::sprint(args);
            engine.charge(text.len())?;
            Ok(Value::string_of(text))
        }),
    },
    Func {
        name: "println",
        params: &[],
        variadic: Some(Ty::Any),
        action: Action::Engine(|engine, args| {
            let text = format::sprintln(args);
            engine.charge(text.len())?;
            Ok(Value::string_of(text))
        }),
    },
    Func {
        name: "printf",
        params: &[Ty::Str],
        variadic: Some(Ty::Any),
        action: Action::Engine(|engine, args| {
            let text = format::sprintf(&super::text(args, 0), &args[1..]);
            engine.charge(text.len())?;
            Ok(Value::string_of(text))
        }),
    },
    Func::many("html", &[], Ty::Any, |args| Ok(html(&joined(args)).into())),
    Func::many("js", &[], Ty::Any, |args| Ok(js(&joined(args)).into())),
    Func::many("urlquery", &[], Ty::Any, |args| Ok(query_escape(&joined(args)).into())),
];

fn joined(args: &[Value]) -> Cow<'_, str> {
    if let [Value::Str(text)] = args {
        return Cow::Borrowed(text);
    }
    // What is not there counts as the text that is printed for it.
    let shown: Vec<Value> =
        args.iter().map(|arg| if arg.is_nil() { NO_VALUE.into() } else { arg.clone() }).collect();
    Cow::Owned(String::from_utf8_lossy(&format::sprint(&shown)).into_owned())
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0' => out.push('\u{FFFD}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '"' => out.push_str("\\\""),
            '<' => out.push_str("\\u003C"),
            '>' => out.push_str("\\u003E"),
            '&' => out.push_str("\\u0026"),
            '=' => out.push_str("\\u003D"),
            c if (c as u32) < 0x20 || (!c.is_ascii() && !strconv::is_print(c)) => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// Go's `url.QueryEscape`.
pub(super) fn query_escape(text: &str) -> String {
    const PLAIN: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b' ');
    utf8_percent_encode(text, PLAIN).to_string().replace(' ', "+")
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Basic {
    Bool,
    Int,
    Uint,
    Float,
    Complex,
    Text,
    None,
}

fn basic(value: &Value) -> Basic {
    match value {
        Value::Bool(_) => Basic::Bool,
        Value::Int(_) | Value::Int64(_) | Value::Duration(_) => Basic::Int,
        Value::Uint64(_) => Basic::Uint,
        Value::Float(_) => Basic::Float,
        Value::Complex(..) => Basic::Complex,
        Value::Str(_) | Value::Raw(_) => Basic::Text,
        _ => Basic::None,
    }
}

fn eq(args: &mut [Value]) -> Result {
    let Some((first, others)) = args.split_first() else { return Ok(Value::Bool(false)) };
    if others.is_empty() {
        return Err("missing argument for comparison".into());
    }
    for other in others {
        if equal(first, other)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (
            Value::Int(a) | Value::Int64(a) | Value::Duration(a),
            Value::Int(b) | Value::Int64(b) | Value::Duration(b),
        ) => Some(a.cmp(b)),
        (Value::Uint64(a), Value::Uint64(b)) => Some(a.cmp(b)),
        (Value::Int(a) | Value::Int64(a) | Value::Duration(a), Value::Uint64(b)) => {
            Some(i128::from(*a).cmp(&i128::from(*b)))
        }
        (Value::Uint64(a), Value::Int(b) | Value::Int64(b) | Value::Duration(b)) => {
            Some(i128::from(*a).cmp(&i128::from(*b)))
        }
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => Some(a.as_string_bytes()?.cmp(b.as_string_bytes()?)),
    }
}

fn incompatible(a: &Value, b: &Value) -> Fault {
    Fault::Text(format!("incompatible types for comparison: {} and {}", a.type_name(), b.type_name()))
}

fn equal(a: &Value, b: &Value) -> std::result::Result<bool, Fault> {
    if let (Value::Float(a), Value::Float(b)) = (a, b) {
        return Ok((a - b).abs() == 0.0);
    }
    if let (Value::Complex(real, imaginary), Value::Complex(other_real, other_imaginary)) = (a, b) {
        return Ok((real, imaginary) == (other_real, other_imaginary));
    }
    if let Some(order) = order(a, b) {
        return Ok(order.is_eq());
    }
    let nil = (a.is_nil(), b.is_nil());
    if basic(a) != basic(b) {
        return if nil.0 || nil.1 { Ok(false) } else { Err(incompatible(a, b)) };
    }
    match nil {
        (true, true) => return Ok(true),
        (true, false) | (false, true) => return Ok(false),
        (false, false) => {}
    }
    if a.kind() != b.kind() {
        return Err(Fault::Text(format!(
            "non-comparable types {}: {}, {}: {}",
            String::from_utf8_lossy(&format::sprintf("%s", std::slice::from_ref(a))),
            a.type_name(),
            b.type_name(),
            format::display(b)
        )));
    }
    match (a, b) {
        (Value::Time(a), Value::Time(b)) => Ok(a == b),
        (Value::Version(a), Value::Version(b)) => Ok(std::rc::Rc::ptr_eq(a, b)),
        (Value::Struct(a), Value::Struct(b)) => Ok(std::rc::Rc::ptr_eq(a, b)),
        _ => {
            let shown = String::from_utf8_lossy(&format::sprintf("%s", std::slice::from_ref(b))).into_owned();
            Err(Fault::Text(format!("non-comparable type {shown}: {}", b.type_name())))
        }
    }
}

fn less(a: &Value, b: &Value) -> std::result::Result<bool, Fault> {
    if let (Value::Float(a), Value::Float(b)) = (a, b) {
        return Ok(a < b);
    }
    let bad = || Fault::Text("invalid type for comparison".to_owned());
    match (basic(a), basic(b)) {
        (Basic::None, _)
        | (_, Basic::None)
        | (Basic::Bool, Basic::Bool)
        | (Basic::Complex, Basic::Complex) => Err(bad()),
        _ => match order(a, b) {
            Some(order) => Ok(order.is_lt()),
            None => Err(incompatible(a, b)),
        },
    }
}

fn less_or_equal(a: &Value, b: &Value) -> std::result::Result<bool, Fault> {
    Ok(less(a, b)? || equal(a, b)?)
}

fn len(args: &mut [Value]) -> Result {
    let len = match &args[0] {
        Value::Nil | Value::NilField => return Err("len of nil pointer".into()),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Bytes(inner) => inner.len(),
        other => match other.as_string_bytes() {
            Some(inner) => inner.len(),
            None => return Err(format!("len of type {}", other.type_name()).into()),
        },
    };
    Ok(Value::Int(len as i64))
}

/// An index into something with `len` items.
fn position(index: &Value, len: usize) -> std::result::Result<usize, Fault> {
    let at = match index {
        Value::Int(at) | Value::Int64(at) => *at,
        Value::Uint64(at) => i64::try_from(*at).unwrap_or(-1),
        Value::Nil | Value::NilField => return Err("cannot index slice/array with nil".into()),
        other => return Err(format!("cannot index slice/array with type {}", other.type_name()).into()),
    };
    match usize::try_from(at) {
        Ok(at) if at < len => Ok(at),
        Ok(at) if at == len => Err("reflect: slice index out of range".into()),
        _ => Err(format!("index out of range: {at}").into()),
    }
}

fn index(args: &mut [Value]) -> Result {
    let mut item = take(args, 0);
    if item.is_nil() {
        return Err("index of untyped nil".into());
    }
    for index in &args[1..] {
        item = match &item {
            Value::Nil | Value::NilField => return Err("index of nil pointer".into()),
            Value::List(list) => list.items()[position(index, list.len())?].clone(),
            Value::Bytes(inner) => Value::Uint64(u64::from(inner[position(index, inner.len())?])),
            Value::Str(_) | Value::Raw(_) => {
                let inner = bytes(std::slice::from_ref(&item), 0);
                if inner.len() as i64 == convert::to_int64(index) && matches!(index, Value::Int(_)) {
                    return Err("reflect: string index out of range".into());
                }
                Value::Uint64(u64::from(inner[position(index, inner.len())?]))
            }
            Value::Map(map) => {
                let key = match index {
                    Value::Str(key) => key.clone(),
                    Value::Nil | Value::NilField => {
                        return Err("value is nil; should be of type string".into());
                    }
                    other => {
                        return Err(format!("value has type {}; should be string", other.type_name()).into());
                    }
                };
                match (map.get(&key), map.ty()) {
                    (Some(value), _) => value,
                    (None, MapType::Str) => Value::str(""),
                    (None, MapType::Files) => Value::Bytes([].into()),
                    (None, MapType::Any | MapType::Values) => Value::NilField,
                }
            }
            other => return Err(format!("can't index item of type {}", other.type_name()).into()),
        };
    }
    Ok(item)
}
