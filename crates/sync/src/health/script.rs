//! Health scripts in Lua.
//!
//! Two contracts are understood, and may be mixed:
//! - Argo CD's: the object is the global `obj`; the script returns a table with `status` and `message`.
//! - `CustomHealth`'s: the object is the global `Obj`; the script sets the global `healthStatus`.

use plural_render::lua::{LuaError, LuaLimits, Sandbox};
use serde_json::Value;

use super::{Health, HealthStatus};

/// A health script looks at one object: what needs more than this is a mistake or an attack.
const STEPS: u64 = 1_000_000;
const MEMORY_BYTES: usize = 16 << 20;

/// Name of the script in messages.
const NAME: &str = "health.lua";

/// What scripts find besides their object: the helpers that scripts for `CustomHealth` use, and
/// `require` of the libraries that are there anyway.
const PRELUDE: &str = r#"
Obj = obj
local function condition(status, name)
  if type(status) ~= "table" or type(status.conditions) ~= "table" then return nil end
  for _, found in ipairs(status.conditions) do
    if found.type == name then return found end
  end
  return nil
end
function statusConditionExists(status, name) return condition(status, name) ~= nil end
function isStatusConditionTrue(status, name)
  local found = condition(status, name)
  return found ~= nil and found.status == "True"
end
function isStatusConditionFalse(status, name)
  local found = condition(status, name)
  return found ~= nil and found.status == "False"
end
local libraries = { os = os, string = string, table = table, math = math }
function require(name)
  return libraries[name] or error("there is no module " .. tostring(name) .. " here", 2)
end
"#;

/// Runs a health script on an object. `clock_ms` is the script's time, in milliseconds since 1970.
///
/// # Errors
/// The script is no Lua, raised an error, ended by a limit, or did not say a known status. Whoever
/// calls says Unknown with this error as the reason.
pub fn run(script: &str, object: &Value, clock_ms: i64) -> Result<Health, ScriptError> {
    let limits = LuaLimits { steps: STEPS, memory_bytes: MEMORY_BYTES, stop: None };
    let sandbox = Sandbox::new(limits, clock_ms)?;
    sandbox.set_global("obj", object)?;
    sandbox.run("prelude", PRELUDE)?;
    let returned = sandbox.run(NAME, script)?;
    let said = match returned.into_iter().next() {
        Some(said) if !said.is_null() => said,
        _ => match sandbox.global("healthStatus")? {
            Value::Null => sandbox.global("hs")?,
            said => said,
        },
    };
    let Value::Object(said) = said else {
        return Err(ScriptError::Contract(
            "it neither returned a table nor set healthStatus to one".to_owned(),
        ));
    };
    let word = said.get("status").and_then(Value::as_str).unwrap_or_default();
    let Some(status) = HealthStatus::parse(word) else {
        let known: Vec<&str> = HealthStatus::ALL.into_iter().map(HealthStatus::as_str).collect();
        return Err(ScriptError::Contract(format!(
            "its status is {word:?}; it must be one of {}",
            known.join(", ")
        )));
    };
    Ok(Health::new(status, said.get("message").and_then(Value::as_str).unwrap_or_default()))
}

/// Why a script says no health. The message is shown, so a cause is a part of it and no source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// It did not run to its end.
    #[error("the health script failed: {0}")]
    Lua(LuaError),
    /// It ran, and what it left cannot be used.
    #[error("the health script gave no health: {0}")]
    Contract(String),
}

impl From<LuaError> for ScriptError {
    fn from(cause: LuaError) -> Self {
        Self::Lua(cause)
    }
}

impl ScriptError {
    /// It used up what it may use. To run it on the next object would burn as much again.
    pub fn is_exhaustion(&self) -> bool {
        matches!(self, Self::Lua(LuaError::Limit { .. }))
    }
}
