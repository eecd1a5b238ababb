//! What Helm adds: templates that call templates, required values, lookups.
#![expect(clippy::unnecessary_wraps, reason = "all functions of templates have one signature")]

use super::{Func, Ty, text};
use crate::{
    exec::{Engine, Fault},
    value::{Map, Str, Value},
};

type Result = std::result::Result<Value, Fault>;

/// Around a message that is meant for the person who called Helm.
pub const WARN_START: &str = "HELM_ERR_START";
/// See [`WARN_START`].
pub const WARN_END: &str = "HELM_ERR_END";

pub(super) static FUNCS: &[Func] = &[
    Func::engine("include", &[Ty::Str, Ty::Any], |engine, args| {
        let name = name(args);
        engine.include(&name, &args[1])
    }),
    Func::engine("tpl", &[Ty::Str, Ty::Any], |engine, args| {
        let text = name(args);
        engine.tpl(&text, &args[1])
    }),
    Func::pure("required", &[Ty::Str, Ty::Any], |args| {
        let missing = match &args[1] {
            Value::Nil | Value::NilField => true,
            Value::Str(text) => text.is_empty(),
            _ => false,
        };
        if missing {
            return Err(Fault::Text(format!("{WARN_START}{}{WARN_END}", text(args, 0))));
        }
        Ok(super::take(args, 1))
    }),
    Func::pure("fail", &[Ty::Str], |args| {
        Err(Fault::Text(format!("{WARN_START}{}{WARN_END}", text(args, 0))))
    }),
    Func::engine("lookup", &[Ty::Str, Ty::Str, Ty::Str, Ty::Str], lookup),
];

fn name(args: &[Value]) -> Str {
    match &args[0] {
        Value::Str(text) => text.clone(),
        _ => text(args, 0).as_ref().into(),
    }
}

fn lookup(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let found = engine
        .lookup
        .and_then(|port| port.lookup(&text(args, 0), &text(args, 1), &text(args, 2), &text(args, 3)));
    match found {
        Some(object) => {
            let value = Value::from_json(&object);
            Ok(if let Value::Map(_) = value { value } else { Value::Map(Map::new()) })
        }
        None => Ok(Value::Map(Map::new())),
    }
}
