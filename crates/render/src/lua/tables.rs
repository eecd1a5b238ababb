//! `table`, `unpack` and `next`-like functions whose C versions walk whole tables for one instruction.

use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::fuel::Fuel;

pub(super) fn install(lua: &Lua, fuel: &Rc<Fuel>) -> mlua::Result<()> {
    let table: Table = lua.globals().get("table")?;
    // `foreach`, `foreachi` and `setn` are deprecated in 5.1 already, and gopher-lua has none of them.
    for name in ["foreach", "foreachi", "setn"] {
        table.raw_remove(name)?;
    }
    for name in ["insert", "remove", "concat", "maxn"] {
        charge(lua, fuel, &table, name, |length| length)?;
    }
    charge(lua, fuel, &table, "sort", |length| length.saturating_mul(u64::from(length.max(2).ilog2()) + 1))?;
    charge(lua, fuel, &lua.globals(), "unpack", |length| length)
}

/// Replaces `name` by a function that first pays for the length of the table it is given.
fn charge(
    lua: &Lua,
    fuel: &Rc<Fuel>,
    library: &Table,
    name: &str,
    cost: impl Fn(u64) -> u64 + 'static,
) -> mlua::Result<()> {
    let original: Function = library.get(name)?;
    let fuel = Rc::clone(fuel);
    library.set(
        name,
        lua.create_function(move |_, arguments: MultiValue| {
            let length = match arguments.front() {
                Some(Value::Table(table)) => table.raw_len() as u64,
                _ => 0,
            };
            fuel.pay(cost(length) + 1)?;
            original.call::<MultiValue>(arguments)
        })?,
    )
}
