//! A file tree and inputs become Kubernetes objects.
//!
//! # Guarantees
//! - No network, file, environment, clock or randomness of its own: the same tree and inputs give
//!   the same objects, in the same order, on every run.
//! - Limits count files, bytes and steps, so no input runs for ever. Memory that renders share, and deadlines, are the
//!   caller's: see [`governed`].
//! - An error names the file and, where one is known, the line; it never holds a configuration value.

mod chart;
mod envsubst;
mod error;
pub mod helm;
mod inputs;
mod kustomization;
mod liquid;
pub mod lua;
mod mask;
mod object;
mod raw;
mod renderers;
mod rendering;
mod tpl;
mod tree;

pub use envsubst::{SubstituteError, envsubst};
pub use error::{Problem, RenderError};
pub use inputs::{ApiServer, ClusterInput, Inputs, ServiceInput};
pub use kustomization::Charts;
pub use liquid::{Drawing, expand, expand_with};
pub use mask::mask_secrets;
pub use object::{Object, Origin, Rendered, Warning};
pub use plural_kustomize as kustomize;
pub use plural_yaml as yaml;
pub use plural_yaml::governor::{Governor, governed, may_go_on};
pub use raw::governed_json;
pub use renderers::render as render_with;
pub use rendering::{
    ChartAsked, CommandPort, HelmInput, KustomizeInput, Ports, RendererInput, RendererKind, RenderingInput,
};
pub use tree::{Tree, TreeError, TreeLimits};

/// Renders without answers from outside of the tree: see [`render_with`].
///
/// # Errors
/// As there.
pub fn render(tree: &Tree, inputs: &Inputs) -> Result<Rendered, RenderError> {
    render_with(tree, inputs, Ports::default())
}

/// Renders the manifests below `inputs.folder`, whatever else the folder may be.
///
/// # Errors
/// As [`render`].
pub fn render_raw(tree: &Tree, inputs: &Inputs) -> Result<Rendered, RenderError> {
    raw::render(tree, inputs)
}
