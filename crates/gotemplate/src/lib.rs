//! Go's template language with the functions of Helm: parsed once, run as often as needed.
//!
//! Written here and not taken from a crate: charts depend on Go's types (what `kindOf` answers, how a nil
//! from a map prints) and on the texts of errors, bytes are compared with Helm's own on a corpus of real
//! charts, and a template from a repository must stop by steps, bytes and nesting.
//!
//! # Guarantees
//! - No clock, randomness, file or network of its own: [`exec::Engine`] is given all it may use.
//! - Steps, bytes and nesting are limited; nothing a template does ends the process.

mod ast;
pub mod dates;
pub mod exec;
pub mod format;
pub mod funcs;
pub mod glob;
pub mod json;
mod lex;
mod methods;
pub mod objects;
pub mod parse;
pub mod random;
mod semver;
pub mod strconv;
mod toml;
pub mod value;
mod yaml;

pub use ast::Tree;
