//! Go's template language with the functions of Helm: parsed once, run as often as needed.
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
mod toml;
pub mod value;
mod yaml;

pub use ast::Tree;
