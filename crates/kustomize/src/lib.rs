//! `kustomize build` as a function: a file tree goes in, YAML and objects come out.
//!
//! Written here because no crate does it, and running the program would need its binary on every agent and
//! give it files.
//!
//! Follows version 5.8.1 without its plugins. Everything that the program would fetch or run (remote bases, Helm) is
//! given by the caller or refused.

mod config;
mod crds;
mod defaults;
mod error;
mod fields;
mod files;
mod generate;
mod gitspec;
mod gomap;
mod hash;
mod helm;
mod id;
mod json;
mod jsonpatch;
mod kustomization;
mod labels;
mod limits;
mod loader;
mod merge;
mod nameref;
mod origin;
mod patches;
mod path;
mod plugins;
mod quote;
mod replace;
mod resmap;
mod resource;
mod schema;
mod selector;
mod shown;
mod sort;
mod target;
mod transform;
mod vars;
mod yaml;

pub use error::{Error, ErrorKind};
pub use files::{Entry, Files};
pub use helm::{ChartRequest, HelmPort};
pub use limits::Limits;
pub use target::{Build, Options, build};
