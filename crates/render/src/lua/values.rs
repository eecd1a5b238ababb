//! Scripts that compute Helm values.

use plural_yaml::governor;
use serde_json::{Map, Value};

use super::{LuaError, LuaLimits, Sandbox, fuel::MEMORY, modules};
use crate::{inputs::Inputs, tree::Tree};

/// What the scripts of a service set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LuaValues {
    /// The global `values`: merged over the values of all files.
    pub values: Map<String, Value>,
    /// The global `valuesFiles`: more values files, by path from the service's folder.
    pub values_files: Vec<String>,
}

/// Runs `scripts` (name and source, in order, as one program) with the data that templates see.
///
/// The globals `configuration`, `cluster` and `service` hold the data; the modules `encoding`, `fs`
/// and `utils` can be required. The scripts set `values` (a table) and `valuesFiles` (a list).
///
/// # Errors
/// See [`LuaError`]; also when `values` is not a table of names or `valuesFiles` not a list of texts.
pub fn lua_values(
    tree: &Tree,
    inputs: &Inputs,
    scripts: &[(String, String)],
    limits: LuaLimits,
) -> Result<LuaValues, LuaError> {
    // Between two of its instructions a script can double what it holds, so its memory is asked for at once.
    let wanted = limits.memory_bytes as u64;
    let granted = governor::grant(wanted);
    if granted == 0 {
        // To Lua it would mean no limit.
        return Err(LuaError::Stopped { script: "values".to_owned() });
    }
    let limits = LuaLimits { memory_bytes: granted as usize, ..limits };
    computed(tree, inputs, scripts, limits).inspect_err(|error| {
        if granted < wanted && matches!(error, LuaError::Limit { unit: MEMORY, .. }) {
            governor::wants_more();
        }
    })
}

fn computed(
    tree: &Tree,
    inputs: &Inputs,
    scripts: &[(String, String)],
    limits: LuaLimits,
) -> Result<LuaValues, LuaError> {
    let sandbox = Sandbox::new(limits, inputs.clock_ms)?;
    modules::install(&sandbox.lua, &sandbox.fuel, tree, &inputs.folder)
        .map_err(|error| sandbox.fuel.explain("modules", &error))?;
    if let Value::Object(data) = inputs.data() {
        for (name, value) in &data {
            sandbox.set_global(name, value)?;
        }
    }
    sandbox.set_global("values", &Value::Object(Map::new()))?;
    sandbox.set_global("valuesFiles", &Value::Array(Vec::new()))?;
    for (name, source) in scripts {
        sandbox.run(name, source)?;
    }
    let values = match sandbox.global("values")? {
        Value::Object(values) => values,
        Value::Null => Map::new(),
        other => {
            let kind = kind_of(&other);
            return Err(LuaError::Script(format!("the global values is {kind}, not a table of names")));
        }
    };
    let values_files = match sandbox.global("valuesFiles")? {
        Value::Null => Vec::new(),
        Value::Object(empty) if empty.is_empty() => Vec::new(),
        Value::Array(files) => files
            .into_iter()
            .map(|file| match file {
                Value::String(path) => Ok(path),
                other => {
                    let kind = kind_of(&other);
                    Err(LuaError::Script(format!("an entry of the global valuesFiles is {kind}, not a text")))
                }
            })
            .collect::<Result<_, _>>()?,
        other => {
            let kind = kind_of(&other);
            return Err(LuaError::Script(format!("the global valuesFiles is {kind}, not a list of texts")));
        }
    };
    Ok(LuaValues { values, values_files })
}

/// Runs `scripts` (name and source, in order, as one program) over any data, and answers what the globals `asked` hold then.
///
/// The modules `encoding`, `fs` (the tree below `folder`) and `utils` can be required.
///
/// # Errors
/// See [`LuaError`].
pub fn lua_globals(
    tree: &Tree,
    folder: &str,
    data: &Map<String, Value>,
    scripts: &[(String, String)],
    asked: &[&str],
    limits: LuaLimits,
) -> Result<Vec<Value>, LuaError> {
    // The clock stands still: a script that asks for the time would give other files on every run.
    let sandbox = Sandbox::new(limits, 0)?;
    modules::install(&sandbox.lua, &sandbox.fuel, tree, folder)
        .map_err(|error| sandbox.fuel.explain("modules", &error))?;
    for (name, value) in data {
        sandbox.set_global(name, value)?;
    }
    for (name, source) in scripts {
        sandbox.run(name, source)?;
    }
    asked.iter().map(|name| sandbox.global(name)).collect()
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}
