//! Lua scripts in a sandbox: dynamic Helm values, and health scripts as Argo CD runs them.
//!
//! The language is Lua 5.1 with `goto`, that of gopher-lua, for which these scripts are written. The virtual machine is that of
//! Lua 5.2, which has `goto` and the numbers of 5.1; what 5.2 took away is put back.
//!
//! # Guarantees
//! - A script sees its data, a subset of the standard library (`string`, `table`, `math` without
//!   randomness, `os.time` and `os.date` from the injected clock) and nothing else: no file, process,
//!   environment, bytecode, coroutine or debug access.
//! - Instructions, bytes held and steps of library calls are limited; a script cannot catch the error
//!   that ends it.

mod convert;
mod dialect;
mod fuel;
mod modules;
mod os;
mod pattern;
mod strings;
mod tables;
mod values;

use std::rc::Rc;

use mlua::{HookTriggers, Lua, LuaOptions, MultiValue, StdLib, VmState, chunk::ChunkMode};
use serde_json::Value;

use fuel::Fuel;
pub use fuel::LuaLimits;
pub use values::{LuaValues, lua_globals, lua_values};

/// Why a script gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LuaError {
    /// The script is not Lua, or raised an error. The text names chunk and line.
    #[error("{0}")]
    Script(String),
    /// A limit ended the script.
    #[error("the Lua script {script} used more than {limit} {unit}")]
    Limit {
        /// Name of the chunk.
        script: String,
        /// The limit.
        limit: u64,
        /// "steps", "bytes of memory".
        unit: &'static str,
    },
    /// The caller asked for the end.
    #[error("the Lua script {script} was stopped")]
    Stopped {
        /// Name of the chunk.
        script: String,
    },
}

/// One Lua state for one run. Not shared between threads; made and dropped by one render.
#[derive(Debug)]
pub struct Sandbox {
    lua: Lua,
    fuel: Rc<Fuel>,
}

/// The hook runs once for so many instructions.
const HOOK_INTERVAL: u32 = 1000;

/// What the base library has that a script may not use: loaders of files and bytecode, the
/// environment of other functions, the collector, output, and coroutines (which the step budget does
/// not follow).
const REMOVED: &[&str] = &[
    "dofile",
    "loadfile",
    "load",
    "loadstring",
    "require",
    "module",
    "package",
    "collectgarbage",
    "print",
    "newproxy",
    "getfenv",
    "setfenv",
    "gcinfo",
    "coroutine",
    "debug",
    "io",
];

impl Sandbox {
    /// A fresh state whose clock stands at `clock_ms` milliseconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// Only when the memory limit is too small for Lua itself.
    pub fn new(limits: LuaLimits, clock_ms: i64) -> Result<Self, LuaError> {
        let fuel = Rc::new(Fuel::new(limits));
        Self::build(&fuel, clock_ms).map_err(|error| fuel.explain("sandbox", &error))
    }

    fn build(fuel: &Rc<Fuel>, clock_ms: i64) -> mlua::Result<Self> {
        // A Rust panic must not become something that a script can catch.
        let options = LuaOptions::new().catch_rust_panics(false);
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, options)?;
        lua.set_memory_limit(fuel.limits().memory_bytes)?;
        let globals = lua.globals();
        for name in REMOVED {
            globals.raw_remove(*name)?;
        }
        let math: mlua::Table = globals.get("math")?;
        math.raw_remove("random")?;
        math.raw_remove("randomseed")?;
        dialect::restore(&lua)?;
        fuel::install_calls(&lua, fuel)?;
        strings::install(&lua, fuel)?;
        tables::install(&lua, fuel)?;
        os::install(&lua, clock_ms)?;
        let watched = Rc::clone(fuel);
        lua.set_hook(HookTriggers::new().every_nth_instruction(HOOK_INTERVAL), move |_, _| {
            watched.pay(u64::from(HOOK_INTERVAL)).map(|()| VmState::Continue)
        })?;
        Ok(Self { lua, fuel: Rc::clone(fuel) })
    }

    /// Gives the script a global. Objects become tables, lists become sequences, null becomes nil.
    ///
    /// # Errors
    /// When the memory limit does not hold it.
    pub fn set_global(&self, name: &str, value: &Value) -> Result<(), LuaError> {
        convert::to_lua(&self.lua, value)
            .and_then(|value| self.lua.globals().set(name, value))
            .map_err(|error| self.fuel.explain(name, &error))
    }

    /// Runs a chunk and answers what it returned, as JSON. `name` is what errors call it.
    ///
    /// # Errors
    /// See [`LuaError`].
    pub fn run(&self, name: &str, source: &str) -> Result<Vec<Value>, LuaError> {
        self.lua
            .load(source)
            .set_name(format!("={name}"))
            .set_mode(ChunkMode::Text)
            .call::<MultiValue>(())
            .and_then(|returned| returned.iter().map(|value| convert::from_lua(&self.fuel, value)).collect())
            .map_err(|error| self.fuel.explain(name, &error))
    }

    /// A global as JSON; null when the script did not set it.
    ///
    /// # Errors
    /// When it holds a function, a cycle, or more than the limits allow.
    pub fn global(&self, name: &str) -> Result<Value, LuaError> {
        self.lua
            .globals()
            .get::<mlua::Value>(name)
            .and_then(|value| convert::from_lua(&self.fuel, &value))
            .map_err(|error| self.fuel.explain(name, &error))
    }
}
