//! The functions that Helm's templates may call: Go's own, Sprig's and Helm's.

mod builtin;
mod convert;
mod crypto;
mod data;
mod dicts;
mod encode;
mod helm;
mod lists;
mod numbers;
mod paths;
mod re2;
mod regexes;
mod strings;
mod times;
mod words;

pub use self::{
    helm::{WARN_END, WARN_START},
    paths::clean as clean_path,
    regexes::{COMPILE_STEPS, Compiled, Pattern, translate as go_regex},
};

use std::{collections::HashMap, sync::OnceLock};

use super::{
    exec::{Engine, Fault},
    objects,
    value::{ListType, Value},
};

/// The type of a parameter in Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ty {
    /// `interface{}`
    Any,
    /// `reflect.Value`
    Reflect,
    /// `string`
    Str,
    /// `int`
    Int,
    /// `float64`
    Float,
    /// `bool`
    Bool,
    /// `map[string]interface{}`
    Map,
    /// `[]interface{}`
    List,
    /// `time.Time`
    Time,
    /// `sprig.certificate`
    Certificate,
    /// `*semver.Version`
    Version,
}

impl Ty {
    /// As errors name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Reflect => "reflect.Value",
            Self::Str => "string",
            Self::Int => "int",
            Self::Float => "float64",
            Self::Bool => "bool",
            Self::Map => "map[string]interface {}",
            Self::List => "[]interface {}",
            Self::Time => "time.Time",
            Self::Certificate => "sprig.certificate",
            Self::Version => "*semver.Version",
        }
    }

    /// Whether nil is one of its values.
    pub fn nilable(self) -> bool {
        matches!(self, Self::Any | Self::Reflect | Self::Map | Self::List | Self::Version)
    }

    /// Whether a value can be given to a parameter of it.
    pub fn takes(self, value: &Value) -> bool {
        use super::value::MapType;
        match (self, value) {
            (Self::Any | Self::Reflect, _)
            | (Self::Str, Value::Str(_) | Value::Raw(_))
            | (Self::Int, Value::Int(_))
            | (Self::Float, Value::Float(_))
            | (Self::Bool, Value::Bool(_))
            | (Self::Time, Value::Time(_))
            | (Self::Version, Value::Version(_)) => true,
            (Self::Map, Value::Map(map)) => matches!(map.ty(), MapType::Any | MapType::Values),
            (Self::List, Value::List(list)) => list.ty() == ListType::Any,
            (Self::Certificate, Value::Struct(object)) => {
                std::ptr::eq(object.ty, &raw const objects::CERTIFICATE)
            }
            _ => false,
        }
    }
}

type Run = fn(&mut [Value]) -> Result<Value, Fault>;
type RunIn = fn(&mut Engine<'_>, &mut [Value]) -> Result<Value, Fault>;

/// What calling a function does.
#[derive(Clone, Copy)]
pub enum Action {
    /// Depends on its arguments only.
    Pure(Run),
    /// Needs the templates, the clock or chance.
    Engine(RunIn),
    /// `and` (false) and `or` (true): the first argument whose truth is this.
    Either(bool),
    /// `call`
    Call,
}

/// A function of templates.
pub struct Func {
    /// As templates call it.
    pub name: &'static str,
    /// Types of its first arguments.
    pub params: &'static [Ty],
    /// Type of the arguments after those.
    pub variadic: Option<Ty>,
    /// What a call does.
    pub action: Action,
}

impl std::fmt::Debug for Func {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Func {
    /// A function that depends on its arguments only.
    pub(crate) const fn pure(name: &'static str, params: &'static [Ty], run: Run) -> Self {
        Self { name, params, variadic: None, action: Action::Pure(run) }
    }

    /// The same with any number of further arguments.
    pub(crate) const fn many(name: &'static str, params: &'static [Ty], more: Ty, run: Run) -> Self {
        Self { name, params, variadic: Some(more), action: Action::Pure(run) }
    }

    /// A function that needs its surroundings.
    pub(crate) const fn engine(name: &'static str, params: &'static [Ty], run: RunIn) -> Self {
        Self { name, params, variadic: None, action: Action::Engine(run) }
    }
}

/// The function `name`.
pub fn lookup(name: &str) -> Option<&'static Func> {
    static TABLE: OnceLock<HashMap<&'static str, &'static Func>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        [
            builtin::FUNCS,
            crypto::FUNCS,
            data::FUNCS,
            dicts::FUNCS,
            encode::FUNCS,
            helm::FUNCS,
            lists::FUNCS,
            numbers::FUNCS,
            paths::FUNCS,
            regexes::FUNCS,
            strings::FUNCS,
            times::FUNCS,
            words::FUNCS,
        ]
        .into_iter()
        .flatten()
        .map(|function| (function.name, function))
        .collect()
    });
    table.get(name).copied()
}

/// What Go says when a function looks at the type of nil.
pub(crate) const NIL_POINTER: &str = "runtime error: invalid memory address or nil pointer dereference";

/// Takes an argument out.
fn take(args: &mut [Value], at: usize) -> Value {
    args.get_mut(at).map(std::mem::take).unwrap_or_default()
}

/// A text argument; parameters of type string make sure that it is one.
fn text(args: &[Value], at: usize) -> std::borrow::Cow<'_, str> {
    match args.get(at) {
        Some(Value::Str(text)) => std::borrow::Cow::Borrowed(text),
        Some(Value::Raw(bytes)) => String::from_utf8_lossy(bytes),
        _ => std::borrow::Cow::Borrowed(""),
    }
}

/// The bytes of a text argument.
fn bytes(args: &[Value], at: usize) -> &[u8] {
    args.get(at).and_then(Value::as_string_bytes).unwrap_or_default()
}

/// An integer argument.
fn int(args: &[Value], at: usize) -> i64 {
    match args.get(at) {
        Some(Value::Int(value) | Value::Int64(value)) => *value,
        _ => 0,
    }
}
