//! JSON to Lua and back.

use mlua::{Error, Lua, Value as LuaValue};
use serde_json::{Map, Number, Value};

use super::fuel::Fuel;

/// Nesting of tables and of JSON; conversion recurses once for each level.
const MAX_DEPTH: usize = 128;

/// Largest whole number that a double holds exactly.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_992.0;

/// A JSON value as Lua sees it. Null becomes nil, so a null field is absent.
pub(super) fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    to_lua_at(lua, value, 0)
}

fn to_lua_at(lua: &Lua, value: &Value, depth: usize) -> mlua::Result<LuaValue> {
    if depth > MAX_DEPTH {
        return Err(Error::runtime(format!("data is nested more than {MAX_DEPTH} levels deep")));
    }
    Ok(match value {
        Value::Null => LuaValue::Nil,
        Value::Bool(flag) => LuaValue::Boolean(*flag),
        Value::Number(number) => LuaValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => LuaValue::String(lua.create_string(text)?),
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in items.iter().enumerate() {
                table.raw_set(index + 1, to_lua_at(lua, item, depth + 1)?)?;
            }
            table.set_metatable(Some(list_metatable(lua)?))?;
            LuaValue::Table(table)
        }
        Value::Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (name, field) in fields {
                table.raw_set(name.as_str(), to_lua_at(lua, field, depth + 1)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

/// Marks tables that were JSON lists, so that an empty one comes back as a list.
fn list_metatable(lua: &Lua) -> mlua::Result<mlua::Table> {
    const KEY: &str = "plural.list";
    if let Ok(found) = lua.named_registry_value::<mlua::Table>(KEY) {
        return Ok(found);
    }
    let made = lua.create_table()?;
    // A script can neither read nor replace it.
    made.raw_set("__metatable", false)?;
    lua.set_named_registry_value(KEY, &made)?;
    Ok(made)
}

/// A Lua value as JSON. A table with only the keys 1..n is a list; an empty one is an object unless
/// it came in as a list.
///
/// # Errors
/// For functions, userdata, keys that are no strings or numbers, NaN and infinity, text that is not
/// UTF-8, and tables deeper than the limit (cycles among them).
pub(super) fn from_lua(fuel: &Fuel, value: &LuaValue) -> mlua::Result<Value> {
    from_lua_at(fuel, value, 0)
}

fn from_lua_at(fuel: &Fuel, value: &LuaValue, depth: usize) -> mlua::Result<Value> {
    if depth > MAX_DEPTH {
        return Err(Error::runtime(format!(
            "a table is nested more than {MAX_DEPTH} levels deep, or contains itself"
        )));
    }
    fuel.pay(1)?;
    Ok(match value {
        LuaValue::Nil => Value::Null,
        LuaValue::Boolean(flag) => Value::Bool(*flag),
        LuaValue::Integer(number) => Value::from(*number),
        LuaValue::Number(number) => Value::Number(to_number(*number)?),
        LuaValue::String(text) => Value::String(to_text(text)?),
        LuaValue::Table(table) => from_table(fuel, table, depth)?,
        other => return Err(Error::runtime(format!("a {} cannot become data", other.type_name()))),
    })
}

fn from_table(fuel: &Fuel, table: &mlua::Table, depth: usize) -> mlua::Result<Value> {
    let length = table.raw_len();
    let mut count = 0usize;
    for pair in table.pairs::<LuaValue, LuaValue>() {
        pair?;
        count += 1;
    }
    let marked =
        table.metatable().is_some_and(|meta| meta.raw_get::<bool>("__metatable").is_ok_and(|value| !value));
    if (count == length && length > 0) || (count == 0 && marked) {
        let mut items = Vec::with_capacity(length);
        for index in 1..=length {
            items.push(from_lua_at(fuel, &table.raw_get(index)?, depth + 1)?);
        }
        return Ok(Value::Array(items));
    }
    let mut fields = Map::new();
    for pair in table.pairs::<LuaValue, LuaValue>() {
        let (key, field) = pair?;
        let name = match &key {
            LuaValue::String(text) => to_text(text)?,
            LuaValue::Integer(number) => number.to_string(),
            LuaValue::Number(number) => to_number(*number)?.to_string(),
            other => {
                return Err(Error::runtime(format!("a table key is a {}, not a text", other.type_name())));
            }
        };
        fields.insert(name, from_lua_at(fuel, &field, depth + 1)?);
    }
    Ok(Value::Object(fields))
}

/// Whole numbers stay whole: Lua 5.1 has only doubles.
fn to_number(number: f64) -> mlua::Result<Number> {
    if number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER {
        return Ok(Number::from(number as i64));
    }
    Number::from_f64(number).ok_or_else(|| Error::runtime("a number is not finite"))
}

fn to_text(text: &mlua::LuaString) -> mlua::Result<String> {
    Ok(text.to_str().map_err(|_| Error::runtime("a text is not UTF-8"))?.to_owned())
}
