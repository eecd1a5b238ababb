//! Sprig's texts.
#![expect(clippy::unnecessary_wraps, reason = "all functions of templates have one signature")]

use std::borrow::Cow;

use super::{Action, Func, Ty, bytes, convert, int, take, text};
use crate::{
    exec::{Engine, Fault},
    format, strconv,
    value::{List, Map, MapType, Str, Value},
};

type Result = std::result::Result<Value, Fault>;

pub(super) static FUNCS: &[Func] = &[
    Func::pure("trim", &[Ty::Str], |args| keep(args, 0, |s| s.trim())),
    Func::pure("upper", &[Ty::Str], |args| Ok(text(args, 0).to_uppercase().into())),
    Func::pure("lower", &[Ty::Str], |args| Ok(lower(&text(args, 0)).into())),
    Func::pure("trimall", &[Ty::Str, Ty::Str], trim_all),
    Func::pure("trimAll", &[Ty::Str, Ty::Str], trim_all),
    Func::pure("trimSuffix", &[Ty::Str, Ty::Str], |args| {
        let suffix = text(args, 0).into_owned();
        keep(args, 1, |s| s.strip_suffix(&*suffix).unwrap_or(s))
    }),
    Func::pure("trimPrefix", &[Ty::Str, Ty::Str], |args| {
        let prefix = text(args, 0).into_owned();
        keep(args, 1, |s| s.strip_prefix(&*prefix).unwrap_or(s))
    }),
    Func::pure("trunc", &[Ty::Int, Ty::Str], trunc),
    Func::pure("substr", &[Ty::Int, Ty::Int, Ty::Str], substr),
    Func::engine("repeat", &[Ty::Int, Ty::Str], repeat),
    Func::pure("contains", &[Ty::Str, Ty::Str], |args| {
        Ok(memchr::memmem::find(bytes(args, 1), bytes(args, 0)).is_some().into())
    }),
    Func::pure("hasPrefix", &[Ty::Str, Ty::Str], |args| {
        Ok(bytes(args, 1).starts_with(bytes(args, 0)).into())
    }),
    Func::pure("hasSuffix", &[Ty::Str, Ty::Str], |args| Ok(bytes(args, 1).ends_with(bytes(args, 0)).into())),
    Func { name: "quote", params: &[], variadic: Some(Ty::Any), action: Action::Engine(quote) },
    Func { name: "squote", params: &[], variadic: Some(Ty::Any), action: Action::Engine(squote) },
    Func { name: "cat", params: &[], variadic: Some(Ty::Any), action: Action::Engine(cat) },
    Func::engine("indent", &[Ty::Int, Ty::Str], |engine, args| indent(engine, args, false)),
    Func::engine("nindent", &[Ty::Int, Ty::Str], |engine, args| indent(engine, args, true)),
    Func::engine("replace", &[Ty::Str, Ty::Str, Ty::Str], replace),
    Func::pure("plural", &[Ty::Str, Ty::Str, Ty::Int], |args| {
        let many = int(args, 2) != 1;
        Ok(take(args, usize::from(many)))
    }),
    Func::engine("split", &[Ty::Str, Ty::Str], |engine, args| {
        let parts = split_text(engine, args, 1, -1)?;
        Ok(numbered(&parts))
    }),
    Func::engine("splitn", &[Ty::Str, Ty::Int, Ty::Str], |engine, args| {
        let parts = split_text(engine, args, 2, int(args, 1))?;
        Ok(numbered(&parts))
    }),
    Func::engine("splitList", &[Ty::Str, Ty::Str], |engine, args| {
        let parts = split_text(engine, args, 1, -1)?;
        Ok(Value::List(List::strings(parts)))
    }),
];

/// Go's `ToLower` knows no final sigma.
fn lower(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars().flat_map(char::to_lowercase).collect()
}

/// A part of the text argument at `at`; the same text again when nothing is cut.
fn keep(args: &mut [Value], at: usize, part: impl FnOnce(&str) -> &str) -> Result {
    let whole = text(args, at);
    let part = part(&whole);
    if part.len() == whole.len() && matches!(whole, Cow::Borrowed(_)) {
        return Ok(take(args, at));
    }
    Ok(part.into())
}

fn trim_all(args: &mut [Value]) -> Result {
    let cut: Vec<char> = text(args, 0).chars().collect();
    keep(args, 1, |s| s.trim_matches(cut.as_slice()))
}

fn trunc(args: &mut [Value]) -> Result {
    let count = int(args, 0);
    let whole = bytes(args, 1);
    let len = whole.len() as i64;
    let part = if count < 0 && len.saturating_add(count) > 0 {
        &whole[(len + count) as usize..]
    } else if count >= 0 && len > count {
        &whole[..count as usize]
    } else {
        return Ok(take(args, 1));
    };
    Ok(Value::string_of(part.to_vec()))
}

fn substr(args: &mut [Value]) -> Result {
    let (start, end) = (int(args, 0), int(args, 1));
    let whole = bytes(args, 2);
    let len = whole.len() as i64;
    let oob = |shown: String| Err(format!("runtime error: slice bounds out of range [{shown}]").into());
    let range = if start < 0 {
        if end < 0 || end > len {
            let length = if end < 0 { String::new() } else { format!("] with length {len}") };
            return Err(format!(
                "runtime error: slice bounds out of range [:{end}{}",
                if end < 0 { "]" } else { &length }
            )
            .into());
        }
        0..end
    } else if end < 0 || end > len {
        if start > len {
            return oob(format!("{start}:{len}"));
        }
        start..len
    } else {
        if start > end {
            return oob(format!("{start}:{end}"));
        }
        start..end
    };
    Ok(Value::string_of(whole[range.start as usize..range.end as usize].to_vec()))
}

fn repeat(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let Ok(count) = usize::try_from(int(args, 0)) else {
        return Err("strings: negative Repeat count".into());
    };
    let unit = bytes(args, 1);
    engine.charge(unit.len().saturating_mul(count))?;
    Ok(Value::string_of(unit.repeat(count)))
}

fn made(engine: &mut Engine<'_>, text: String) -> Result {
    engine.charge(text.len())?;
    Ok(text.into())
}

fn quote(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let mut out = String::new();
    let mut first = true;
    for arg in args.iter().filter(|arg| !arg.is_nil()) {
        if !std::mem::take(&mut first) {
            out.push(' ');
        }
        match arg {
            Value::Raw(raw) | Value::Bytes(raw) => out.push_str(&strconv::quote_bytes(raw)),
            Value::Str(text)
                if text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'"' && b != b'\\') =>
            {
                out.push('"');
                out.push_str(text);
                out.push('"');
            }
            other => out.push_str(&strconv::quote(&convert::text_of(other))),
        }
    }
    made(engine, out)
}

fn squote(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let quoted: Vec<String> =
        args.iter().filter(|arg| !arg.is_nil()).map(|arg| format!("'{}'", format::display(arg))).collect();
    made(engine, quoted.join(" "))
}

fn cat(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let parts: Vec<String> = args.iter().filter(|arg| !arg.is_nil()).map(format::display).collect();
    made(engine, parts.join(" "))
}

fn indent(engine: &mut Engine<'_>, args: &mut [Value], newline: bool) -> Result {
    let Ok(count) = usize::try_from(int(args, 0)) else {
        return Err("strings: negative Repeat count".into());
    };
    let body = bytes(args, 1);
    let lines = memchr::memchr_iter(b'\n', body).count() + 1;
    let size = body.len().saturating_add(lines.saturating_mul(count)) + 1;
    engine.charge(size)?;
    let mut out = Vec::with_capacity(size);
    if newline {
        out.push(b'\n');
    }
    let mut from = 0;
    for end in memchr::memchr_iter(b'\n', body).chain([body.len()]) {
        out.extend(std::iter::repeat_n(b' ', count));
        out.extend_from_slice(&body[from..(end + 1).min(body.len())]);
        from = end + 1;
    }
    Ok(Value::string_of(out))
}

fn replace(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let (old, new) = (text(args, 0), text(args, 1));
    let source = text(args, 2);
    if !old.is_empty() && !source.contains(&*old) {
        return Ok(args[2].clone());
    }
    let hits = if old.is_empty() { source.len() + 1 } else { source.matches(&*old).count() };
    engine.charge(source.len().saturating_add(hits.saturating_mul(new.len())))?;
    Ok(source.replace(&*old, &new).into())
}

/// Go's `strings.SplitN` of the argument at `at` by the first one.
fn split_text(
    engine: &mut Engine<'_>,
    args: &[Value],
    at: usize,
    most: i64,
) -> std::result::Result<Vec<Str>, Fault> {
    let (separator, whole) = (text(args, 0), text(args, at));
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let parts: Vec<Str> = if most == 0 {
        Vec::new()
    } else if separator.is_empty() {
        let mut parts: Vec<Str> = Vec::new();
        let mut rest = &*whole;
        while let Some(c) = rest.chars().next() {
            if parts.len() + 1 == most {
                parts.push(rest.into());
                break;
            }
            parts.push(rest[..c.len_utf8()].into());
            rest = &rest[c.len_utf8()..];
        }
        parts
    } else {
        whole.splitn(most, &*separator).map(Into::into).collect()
    };
    engine.charge(whole.len() + parts.len() * size_of::<Value>())?;
    Ok(parts)
}

fn numbered(parts: &[Str]) -> Value {
    let entries = parts
        .iter()
        .enumerate()
        .map(|(at, part)| (format!("_{at}").into(), Value::Str(part.clone())))
        .collect();
    Value::Map(Map::typed(MapType::Str, entries))
}
