//! The modules a values script may `require`: `encoding`, `fs` and `utils`.
//!
//! Functions that can fail on data return `nil` and a message, so that a script may fall back.

use std::rc::Rc;

use mlua::{Error, IntoLua, Lua, MultiValue, Table, Value as LuaValue};
use serde_json::{Map, Value};

use super::{convert, fuel::Fuel};
use crate::{helm::schema, tree::Tree, yaml};

/// Longest text that a script may decode, in bytes.
const MAX_DECODE: usize = 4 << 20;

/// Makes the three modules reachable as globals and through `require`. `fs` sees `tree` below `folder`.
pub(super) fn install(lua: &Lua, fuel: &Rc<Fuel>, tree: &Tree, folder: &str) -> mlua::Result<()> {
    let globals = lua.globals();
    for (name, module) in [
        ("encoding", encoding(lua, fuel, tree, folder)?),
        ("fs", files(lua, fuel, tree, folder)?),
        ("utils", utils(lua, fuel)?),
    ] {
        globals.set(name, &module)?;
        lua.set_named_registry_value(&format!("plural.module.{name}"), module)?;
    }
    globals.set(
        "require",
        lua.create_function(|lua, name: String| match name.as_str() {
            "encoding" | "fs" | "utils" => {
                lua.named_registry_value::<Table>(&format!("plural.module.{name}"))
            }
            _ => Err(Error::runtime(format!(
                "module {name:?} does not exist here: there are encoding, fs and utils"
            ))),
        })?,
    )
}

fn encoding(lua: &Lua, fuel: &Rc<Fuel>, tree: &Tree, folder: &str) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    let own = Rc::clone(fuel);
    module.set(
        "jsonEncode",
        lua.create_function(move |lua, value: LuaValue| {
            let text = serde_json::to_string(&convert::from_lua(&own, &value)?).map_err(Error::external)?;
            answer_text(lua, &own, &text)
        })?,
    )?;
    let own = Rc::clone(fuel);
    module.set(
        "jsonDecode",
        lua.create_function(move |lua, text: mlua::LuaString| {
            decode(lua, &own, &text, |text| serde_json::from_str(text).map_err(|error| error.to_string()))
        })?,
    )?;
    let own = Rc::clone(fuel);
    module.set(
        "yamlEncode",
        lua.create_function(move |lua, value: LuaValue| {
            let text = yaml::to_string(&convert::from_lua(&own, &value)?);
            answer_text(lua, &own, &text)
        })?,
    )?;
    let own = Rc::clone(fuel);
    module.set(
        "yamlDecode",
        lua.create_function(move |lua, text: mlua::LuaString| {
            decode(lua, &own, &text, |text| yaml::parse(text.as_bytes()).map_err(|error| error.to_string()))
        })?,
    )?;
    let (own, seen, base) = (Rc::clone(fuel), tree.clone(), folder.to_owned());
    module.set(
        "jsonSchema",
        lua.create_function(move |lua, (value, path): (LuaValue, String)| {
            let answer = |why: Option<&str>| -> mlua::Result<MultiValue> {
                let told = why.map(|why| lua.create_string(why)).transpose()?;
                let told = told.map_or(LuaValue::Nil, LuaValue::String);
                Ok(MultiValue::from_vec(vec![LuaValue::Boolean(why.is_none()), told]))
            };
            let Some(path) = below(&base, &path) else {
                return answer(Some(&format!("{path} is outside of the service's folder")));
            };
            let Some(schema) = seen.read(&path) else {
                return answer(Some(&format!("{path} does not exist")));
            };
            own.pay(schema.len() as u64 + 1)?;
            let (checked, steps) = schema::validated(schema, &convert::from_lua(&own, &value)?);
            own.pay(steps as u64)?;
            answer(checked.err().as_deref().map(str::trim_end))
        })?,
    )?;
    Ok(module)
}

fn answer_text(lua: &Lua, fuel: &Fuel, text: &str) -> mlua::Result<mlua::LuaString> {
    fuel.pay(text.len() as u64 / 16 + 1)?;
    lua.create_string(text)
}

fn decode(
    lua: &Lua,
    fuel: &Fuel,
    text: &mlua::LuaString,
    parse: impl Fn(&str) -> Result<Value, String>,
) -> mlua::Result<MultiValue> {
    let bytes = text.as_bytes();
    fuel.pay(bytes.len() as u64 + 1)?;
    if bytes.len() > MAX_DECODE {
        return failure(lua, &format!("the text has more than {MAX_DECODE} bytes"));
    }
    let Ok(text) = std::str::from_utf8(&bytes) else { return failure(lua, "the text is not UTF-8") };
    match parse(text) {
        Ok(value) => Ok(MultiValue::from_vec(vec![convert::to_lua(lua, &value)?])),
        Err(message) => failure(lua, &message),
    }
}

fn files(lua: &Lua, fuel: &Rc<Fuel>, tree: &Tree, folder: &str) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    let (own, seen, base) = (Rc::clone(fuel), tree.clone(), folder.to_owned());
    module.set(
        "read",
        lua.create_function(move |lua, path: String| {
            let Some(path) = below(&base, &path) else {
                return failure(lua, &format!("{path} is outside of the service's folder"));
            };
            match seen.read(&path) {
                Some(bytes) => {
                    own.pay(bytes.len() as u64 / 16 + 1)?;
                    Ok(MultiValue::from_vec(vec![LuaValue::String(lua.create_string(bytes)?)]))
                }
                None => failure(lua, &format!("{path} does not exist")),
            }
        })?,
    )?;
    let (own, seen, base) = (Rc::clone(fuel), tree.clone(), folder.to_owned());
    module.set(
        "walk",
        lua.create_function(move |lua, path: Option<String>| {
            let path = path.unwrap_or_default();
            let Some(root) = below(&base, &path) else {
                return failure(lua, &format!("{path} is outside of the service's folder"));
            };
            let list = lua.create_table()?;
            let prefix = if base.is_empty() { String::new() } else { format!("{base}/") };
            for (index, (file, _)) in seen.walk(&root).enumerate() {
                own.pay(1)?;
                list.raw_set(index + 1, file.strip_prefix(&prefix).unwrap_or(file))?;
            }
            Ok(MultiValue::from_vec(vec![LuaValue::Table(list)]))
        })?,
    )?;
    Ok(module)
}

/// `path` joined to `base` with `.` and `..` resolved; `None` when it leaves `base`.
fn below(base: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    let floor = parts.len();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.len() > floor => {
                parts.pop();
            }
            ".." => return None,
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn utils(lua: &Lua, fuel: &Rc<Fuel>) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    let own = Rc::clone(fuel);
    module.set(
        "merge",
        lua.create_function(move |lua, (base, over, lists): (LuaValue, LuaValue, Option<String>)| {
            let append = match lists.as_deref() {
                None | Some("override") => false,
                Some("append") => true,
                Some(other) => {
                    return failure(lua, &format!("merge mode {other:?}: use \"override\" or \"append\""));
                }
            };
            let mut merged = convert::from_lua(&own, &base)?;
            merge(&mut merged, convert::from_lua(&own, &over)?, append);
            Ok(MultiValue::from_vec(vec![convert::to_lua(lua, &merged)?]))
        })?,
    )?;
    let own = Rc::clone(fuel);
    module.set(
        "splitString",
        lua.create_function(move |lua, (text, separator): (String, String)| {
            own.pay(text.len() as u64 + 1)?;
            let list = lua.create_table()?;
            let parts: Box<dyn Iterator<Item = &str>> = if separator.is_empty() {
                Box::new(text.split_whitespace())
            } else {
                Box::new(text.split(separator.as_str()))
            };
            for (index, part) in parts.enumerate() {
                list.raw_set(index + 1, part)?;
            }
            Ok(list)
        })?,
    )?;
    module.set(
        "pathJoin",
        lua.create_function(|lua, arguments: MultiValue| {
            let mut parts = Vec::new();
            for argument in arguments {
                match argument {
                    LuaValue::String(part) => parts.push(part.to_str()?.to_owned()),
                    LuaValue::Table(list) => {
                        for part in list.sequence_values::<String>() {
                            parts.push(part?);
                        }
                    }
                    other => {
                        return Err(Error::runtime(format!(
                            "pathJoin takes texts, not a {}",
                            other.type_name()
                        )));
                    }
                }
            }
            clean(&parts.join("/")).into_lua(lua)
        })?,
    )?;
    Ok(module)
}

/// A path without empty, `.` and resolvable `..` parts; absolute stays absolute.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    let joined = parts.join("/");
    if path.starts_with('/') { format!("/{joined}") } else { joined }
}

/// Puts `over` on top of `base`: objects field by field; lists replaced, or appended when `append`.
fn merge(base: &mut Value, over: Value, append: bool) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => merge_fields(base, over, append),
        (Value::Array(base), Value::Array(over)) if append => base.extend(over),
        (base, over) => *base = over,
    }
}

fn merge_fields(base: &mut Map<String, Value>, over: Map<String, Value>, append: bool) {
    for (name, value) in over {
        match base.get_mut(&name) {
            Some(old) => merge(old, value, append),
            None => {
                base.insert(name, value);
            }
        }
    }
}

fn failure(lua: &Lua, message: &str) -> mlua::Result<MultiValue> {
    Ok(MultiValue::from_vec(vec![LuaValue::Nil, LuaValue::String(lua.create_string(message)?)]))
}
