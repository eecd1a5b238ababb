//! The `string` library with every byte and every step of a pattern paid for.

use std::rc::Rc;

use mlua::{Error, Function, IntoLua, Lua, MultiValue, Table, Value};

use super::{
    fuel::Fuel,
    pattern::{self, Capture, Match, PatternError},
};

/// Longest text that one call may make.
const MAX_TEXT: usize = 16 << 20;

pub(super) fn install(lua: &Lua, fuel: &Rc<Fuel>) -> mlua::Result<()> {
    let string: Table = lua.globals().get("string")?;
    string.raw_remove("dump")?;
    string.raw_remove("gfind")?;
    for name in ["byte", "char", "format", "len", "lower", "reverse", "sub", "upper"] {
        let original: Function = string.get(name)?;
        let fuel = Rc::clone(fuel);
        string.set(
            name,
            lua.create_function(move |_, arguments: MultiValue| {
                fuel.pay(cost_of(&arguments))?;
                original.call::<MultiValue>(arguments)
            })?,
        )?;
    }
    let own = Rc::clone(fuel);
    string.set(
        "rep",
        lua.create_function(move |lua, (text, count): (mlua::LuaString, f64)| {
            let text = text.as_bytes();
            let count = if count.is_finite() && count > 0.0 { count as usize } else { 0 };
            let length = text.len().saturating_mul(count);
            if length > MAX_TEXT {
                return Err(Error::runtime(format!("string.rep would make more than {MAX_TEXT} bytes")));
            }
            own.pay(length as u64 / 16 + 1)?;
            lua.create_string(text.repeat(count))
        })?,
    )?;
    install_patterns(lua, fuel, &string)
}

/// A step for each 16 bytes of text that a call reads.
fn cost_of(arguments: &MultiValue) -> u64 {
    let bytes: usize = arguments
        .iter()
        .map(|argument| match argument {
            Value::String(text) => text.as_bytes().len(),
            _ => 16,
        })
        .sum();
    bytes as u64 / 16 + 1
}

fn install_patterns(lua: &Lua, fuel: &Rc<Fuel>, string: &Table) -> mlua::Result<()> {
    let own = Rc::clone(fuel);
    string.set(
        "find",
        lua.create_function(
            move |lua,
                  (text, pattern, init, plain): (
                mlua::LuaString,
                mlua::LuaString,
                Option<f64>,
                Option<bool>,
            )| {
                let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
                let Some(from) = start(init, text.len()) else { return Ok(nil()) };
                if plain.unwrap_or(false) {
                    own.pay((text.len() / 16 + 1) as u64)?;
                    return match find_plain(&text[from..], &pattern) {
                        Some(at) => Ok(MultiValue::from_vec(vec![
                            (from + at + 1).into_lua(lua)?,
                            (from + at + pattern.len()).into_lua(lua)?,
                        ])),
                        None => Ok(nil()),
                    };
                }
                match find(&own, &text, &pattern, from)? {
                    None => Ok(nil()),
                    Some(found) => {
                        let mut returned = captures(lua, &text, &found, false)?;
                        returned.push_front(found.end.into_lua(lua)?);
                        returned.push_front((found.start + 1).into_lua(lua)?);
                        Ok(returned)
                    }
                }
            },
        )?,
    )?;
    let own = Rc::clone(fuel);
    string.set(
        "match",
        lua.create_function(
            move |lua, (text, pattern, init): (mlua::LuaString, mlua::LuaString, Option<f64>)| {
                let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
                let Some(from) = start(init, text.len()) else { return Ok(nil()) };
                match find(&own, &text, &pattern, from)? {
                    None => Ok(nil()),
                    Some(found) => captures(lua, &text, &found, true),
                }
            },
        )?,
    )?;
    let own = Rc::clone(fuel);
    string.set(
        "gmatch",
        lua.create_function(move |lua, (text, pattern): (mlua::LuaString, mlua::LuaString)| {
            let own = Rc::clone(&own);
            let at = std::cell::Cell::new(0usize);
            lua.create_function(move |lua, _: MultiValue| {
                let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
                if at.get() > text.len() {
                    return Ok(nil());
                }
                match find(&own, &text, &pattern, at.get())? {
                    None => {
                        at.set(text.len() + 1);
                        Ok(nil())
                    }
                    Some(found) => {
                        at.set(found.end + usize::from(found.end == found.start));
                        captures(lua, &text, &found, true)
                    }
                }
            })
        })?,
    )?;
    let own = Rc::clone(fuel);
    string.set(
        "gsub",
        lua.create_function(
            move |lua, (text, pattern, by, limit): (mlua::LuaString, mlua::LuaString, Value, Option<f64>)| {
                substitute(lua, &own, &text.as_bytes(), &pattern.as_bytes(), &by, limit)
            },
        )?,
    )
}

fn substitute(
    lua: &Lua,
    fuel: &Fuel,
    text: &[u8],
    pattern: &[u8],
    by: &Value,
    limit: Option<f64>,
) -> mlua::Result<(mlua::LuaString, usize)> {
    let limit = limit.map_or(usize::MAX, |limit| if limit > 0.0 { limit as usize } else { 0 });
    let mut out = Vec::with_capacity(text.len());
    let (mut at, mut count) = (0, 0);
    while count < limit && at <= text.len() {
        let Some(found) = find(fuel, text, pattern, at)? else { break };
        count += 1;
        out.extend_from_slice(&text[at..found.start]);
        let whole = &text[found.start..found.end];
        match replacement(lua, text, &found, by)? {
            Some(new) => out.extend_from_slice(&new),
            None => out.extend_from_slice(whole),
        }
        if out.len() > MAX_TEXT {
            return Err(Error::runtime(format!("string.gsub would make more than {MAX_TEXT} bytes")));
        }
        fuel.pay(whole.len() as u64 / 16 + 1)?;
        at = found.end;
        if found.end == found.start {
            if let Some(&byte) = text.get(at) {
                out.push(byte);
            }
            at += 1;
        }
        if pattern.first() == Some(&b'^') {
            break;
        }
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    Ok((lua.create_string(out)?, count))
}

/// What a match becomes; `None` keeps it.
fn replacement(lua: &Lua, text: &[u8], found: &Match, by: &Value) -> mlua::Result<Option<Vec<u8>>> {
    let value = match by {
        Value::String(template) => return expand(text, found, &template.as_bytes()).map(Some),
        Value::Number(_) | Value::Integer(_) => {
            return Ok(lua.coerce_string(by.clone())?.map(|text| text.as_bytes().to_vec()));
        }
        Value::Table(table) => {
            let key = captures(lua, text, found, true)?.pop_front().unwrap_or(Value::Nil);
            table.get::<Value>(key)?
        }
        Value::Function(function) => function.call::<Value>(captures(lua, text, found, true)?)?,
        _ => return Err(Error::runtime("bad argument #3 to 'gsub' (string/function/table expected)")),
    };
    match value {
        Value::Nil | Value::Boolean(false) => Ok(None),
        Value::String(new) => Ok(Some(new.as_bytes().to_vec())),
        Value::Number(_) | Value::Integer(_) => {
            Ok(lua.coerce_string(value)?.map(|text| text.as_bytes().to_vec()))
        }
        other => Err(Error::runtime(format!("invalid replacement value (a {})", other.type_name()))),
    }
}

/// `%0`–`%9` and `%%` in a replacement text.
fn expand(text: &[u8], found: &Match, template: &[u8]) -> mlua::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(template.len());
    let mut bytes = template.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'0') => out.extend_from_slice(&text[found.start..found.end]),
            Some(digit @ b'1'..=b'9') => {
                let index = usize::from(digit - b'1');
                match found.captures.get(index) {
                    Some(Capture::Range(start, end)) => out.extend_from_slice(&text[*start..*end]),
                    Some(Capture::Position(at)) => out.extend_from_slice((at + 1).to_string().as_bytes()),
                    // Without captures the whole match counts as the first.
                    None if index == 0 && found.captures.is_empty() => {
                        out.extend_from_slice(&text[found.start..found.end]);
                    }
                    None => return Err(Error::runtime("invalid capture index")),
                }
            }
            Some(&other) => out.push(other),
            None => return Err(Error::runtime("invalid use of '%' in replacement string")),
        }
    }
    Ok(out)
}

fn find(fuel: &Fuel, text: &[u8], pattern: &[u8], from: usize) -> mlua::Result<Option<Match>> {
    match fuel.spend(|steps| pattern::find(text, pattern, from, steps))? {
        Ok(found) => Ok(found),
        Err(PatternError::Malformed(what)) => Err(Error::runtime(what)),
        Err(PatternError::Exhausted) => Err(fuel.exhausted()),
    }
}

fn find_plain(text: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// The captures as Lua values; the whole match when there are none and `whole_if_none`.
fn captures(lua: &Lua, text: &[u8], found: &Match, whole_if_none: bool) -> mlua::Result<MultiValue> {
    if found.captures.is_empty() && whole_if_none {
        let whole = lua.create_string(&text[found.start..found.end])?;
        return Ok(MultiValue::from_vec(vec![Value::String(whole)]));
    }
    let mut all = Vec::with_capacity(found.captures.len());
    for capture in &found.captures {
        all.push(match *capture {
            Capture::Range(start, end) => Value::String(lua.create_string(&text[start..end])?),
            Capture::Position(at) => (at + 1).into_lua(lua)?,
        });
    }
    Ok(MultiValue::from_vec(all))
}

/// 0-based start from Lua's 1-based, possibly negative `init`; `None` past the end.
fn start(init: Option<f64>, length: usize) -> Option<usize> {
    let init = init.unwrap_or(1.0);
    let from = if init > 0.0 {
        init as usize - 1
    } else if init < 0.0 {
        length.saturating_sub((-init) as usize)
    } else {
        0
    };
    (from <= length).then_some(from)
}

fn nil() -> MultiValue {
    MultiValue::from_vec(vec![Value::Nil])
}
