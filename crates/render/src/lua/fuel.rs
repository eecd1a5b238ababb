//! The budget of one script, and calls that cannot hide its end.

use std::{
    cell::Cell,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use mlua::{Error, Function, Lua, MultiValue, Value};
use plural_yaml::governor;

use super::LuaError;

/// What one script may use.
#[derive(Debug, Clone)]
pub struct LuaLimits {
    /// Lua instructions and steps of library calls together.
    pub steps: u64,
    /// Bytes that the Lua state may hold at one time.
    pub memory_bytes: usize,
    /// Set by the caller to end the script: the sandbox itself knows no clock.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for LuaLimits {
    fn default() -> Self {
        Self { steps: 20_000_000, memory_bytes: 64 << 20, stop: None }
    }
}

/// The unit of a limit that is about memory.
pub(super) const MEMORY: &str = "bytes of memory";

/// Steps left, shared by the hook and by every library function.
#[derive(Debug)]
pub(super) struct Fuel {
    limits: LuaLimits,
    left: Cell<u64>,
    ended: Cell<Option<End>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Steps,
    Memory,
    Stopped,
}

impl Fuel {
    pub(super) fn new(limits: LuaLimits) -> Self {
        Self { left: Cell::new(limits.steps), limits, ended: Cell::new(None) }
    }

    pub(super) fn limits(&self) -> &LuaLimits {
        &self.limits
    }

    /// Takes `steps` from the budget.
    pub(super) fn pay(&self, steps: u64) -> mlua::Result<()> {
        let stopped = self.limits.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
        if stopped || !governor::may_go_on(0) {
            self.ended.set(Some(End::Stopped));
        } else if let Some(left) = self.left.get().checked_sub(steps) {
            self.left.set(left);
        } else {
            self.left.set(0);
            self.ended.set(Some(End::Steps));
        }
        self.check()
    }

    /// Runs something that counts its own steps down.
    pub(super) fn spend<T>(&self, work: impl FnOnce(&mut u64) -> T) -> mlua::Result<T> {
        self.pay(1)?;
        let mut left = self.left.get();
        let done = work(&mut left);
        self.left.set(left);
        Ok(done)
    }

    fn check(&self) -> mlua::Result<()> {
        match self.ended.get() {
            None => Ok(()),
            // The text is for the log of a script that prints caught errors; callers get `explain`'s.
            Some(_) => Err(Error::runtime("the script's budget is spent")),
        }
    }

    /// Ends the script for good: no steps are left.
    pub(super) fn exhausted(&self) -> Error {
        self.left.set(0);
        self.ended.set(Some(End::Steps));
        Error::runtime("the script's budget is spent")
    }

    /// The error that a caller sees.
    pub(super) fn explain(&self, script: &str, error: &Error) -> LuaError {
        let script = script.to_owned();
        match self.ended.get().or_else(|| is_memory(error).then_some(End::Memory)) {
            Some(End::Steps) => LuaError::Limit { script, limit: self.limits.steps, unit: "steps" },
            Some(End::Memory) => {
                LuaError::Limit { script, limit: self.limits.memory_bytes as u64, unit: MEMORY }
            }
            Some(End::Stopped) => LuaError::Stopped { script },
            None => LuaError::Script(message(error)),
        }
    }
}

/// `pcall` and `xpcall` that let the end of the budget through, so that a loop around them ends too.
pub(super) fn install_calls(lua: &Lua, fuel: &Rc<Fuel>) -> mlua::Result<()> {
    let globals = lua.globals();
    let own = Rc::clone(fuel);
    globals.set(
        "pcall",
        lua.create_function(move |lua, (function, arguments): (Function, MultiValue)| {
            match protected(&own, &function, arguments)? {
                Ok(returned) => Ok(returned),
                Err(text) => Ok(MultiValue::from_vec(vec![
                    Value::Boolean(false),
                    Value::String(lua.create_string(text)?),
                ])),
            }
        })?,
    )?;
    let own = Rc::clone(fuel);
    globals.set(
        "xpcall",
        lua.create_function(move |_, (function, handler): (Function, Function)| {
            match protected(&own, &function, MultiValue::new())? {
                Ok(returned) => Ok(returned),
                Err(text) => {
                    let mut returned: MultiValue = handler.call(text)?;
                    returned.push_front(Value::Boolean(false));
                    Ok(returned)
                }
            }
        })?,
    )
}

fn protected(
    fuel: &Fuel,
    function: &Function,
    arguments: MultiValue,
) -> mlua::Result<Result<MultiValue, String>> {
    fuel.pay(10)?;
    match function.call::<MultiValue>(arguments) {
        Ok(mut returned) => {
            returned.push_front(Value::Boolean(true));
            Ok(Ok(returned))
        }
        Err(error) => {
            if is_memory(&error) {
                fuel.ended.set(Some(End::Memory));
            }
            fuel.check().map_err(|_| error.clone())?;
            Ok(Err(message(&error)))
        }
    }
}

fn is_memory(error: &Error) -> bool {
    match error {
        Error::MemoryError(_) => true,
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => is_memory(cause),
        _ => false,
    }
}

/// What Lua says, without the stack traceback that follows it.
fn message(error: &Error) -> String {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => message(cause),
        Error::SyntaxError { message, .. } => first_part(message),
        Error::RuntimeError(text) => first_part(text),
        other => first_part(&other.to_string()),
    }
}

fn first_part(text: &str) -> String {
    text.split("\nstack traceback:").next().unwrap_or(text).trim_end().to_owned()
}
