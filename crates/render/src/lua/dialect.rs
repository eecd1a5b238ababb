//! Lua 5.1 on the virtual machine of Lua 5.2.

use mlua::{Function, Lua, MultiValue, Table, Value};

/// Puts back what 5.2 took away, and takes away what it added and 5.1 does not have.
pub(super) fn restore(lua: &Lua) -> mlua::Result<()> {
    let globals = lua.globals();
    globals.raw_set("_VERSION", "Lua 5.1")?;
    globals.raw_remove("rawlen")?;
    let table: Table = globals.get("table")?;
    globals.raw_set("unpack", table.get::<Function>("unpack")?)?;
    table.raw_remove("unpack")?;
    table.raw_remove("pack")?;
    table.raw_set("maxn", lua.create_function(|_, table: Table| greatest_key(&table))?)?;
    // Deprecated in 5.1, and in gopher-lua: Argo CD's scripts of CronJobs and Rollouts call it.
    table.raw_set("getn", lua.create_function(|_, table: Table| Ok(table.raw_len()))?)?;
    let math: Table = globals.get("math")?;
    math.raw_set("log10", lua.create_function(|_, number: f64| Ok(number.log10()))?)?;
    let original: Function = globals.get("setmetatable")?;
    globals.raw_set(
        "setmetatable",
        lua.create_function(move |_, arguments: MultiValue| without_finalizer(&original, arguments))?,
    )
}

/// `table.maxn`: the greatest positive key, 0 without one.
fn greatest_key(table: &Table) -> mlua::Result<f64> {
    let mut greatest = 0.0_f64;
    for pair in table.pairs::<Value, Value>() {
        let key = match pair?.0 {
            Value::Number(number) => number,
            Value::Integer(number) => number as f64,
            _ => continue,
        };
        greatest = greatest.max(key);
    }
    Ok(greatest)
}

/// Sets a metatable as 5.1 does, where a table has no finalizer.
///
/// In 5.2 it has one if the metatable holds `__gc` at this moment, and while it runs no hook does: nothing would end it.
fn without_finalizer(original: &Function, arguments: MultiValue) -> mlua::Result<MultiValue> {
    let Some(Value::Table(metatable)) = arguments.get(1).cloned() else { return original.call(arguments) };
    let finalizer: Value = metatable.raw_get("__gc")?;
    if finalizer.is_nil() {
        return original.call(arguments);
    }
    metatable.raw_remove("__gc")?;
    let done = original.call(arguments);
    metatable.raw_set("__gc", finalizer)?;
    done
}
