//! Go's template language with the functions of Helm: parsed once, run as often as needed.
//!
//! # Guarantees
//! - No clock, randomness, file or network of its own: [`exec::Engine`] is given all it may use.
//! - Steps, bytes and nesting are limited; nothing a template does ends the process.

pub(crate) mod ast;
pub(crate) mod dates;
pub(crate) mod exec;
pub(crate) mod format;
pub(crate) mod funcs;
pub(crate) mod glob;
pub(crate) mod json;
mod lex;
mod methods;
pub(crate) mod objects;
pub(crate) mod parse;
pub(crate) mod random;
pub(crate) mod semver;
mod toml;
pub(crate) mod value;
pub(crate) mod yaml;
