//! A file tree and inputs become Kubernetes objects.
//!
//! # Guarantees
//! - No network, file, environment, clock or randomness of its own: the same tree and inputs give
//!   the same objects, in the same order, on every run.
//! - Limits count files, bytes and steps, so no input runs for ever; deadlines are the caller's.
//! - An error names the file and, where one is known, the line; it never holds a configuration value.

mod chart;
mod envsubst;
mod error;
mod gotemplate;
pub mod helm;
mod inputs;
mod kustomization;
pub mod kustomize;
mod liquid;
pub mod lua;
mod object;
mod raw;
mod tpl;
mod tree;
pub mod yaml;

pub use envsubst::{SubstituteError, envsubst};
pub use error::{Problem, RenderError};
pub use inputs::{ClusterInput, Inputs, ServiceInput};
pub use kustomization::Charts;
pub use object::{Object, Origin, Rendered, Warning};
pub use tree::{Tree, TreeError, TreeLimits};

/// Renders the service that lives in `inputs.folder` of `tree`.
///
/// What the folder's root holds decides how: a `Chart.yaml` makes it a Helm chart, a
/// `kustomization.yaml` a Kustomize root, anything else is raw manifests.
///
/// # Errors
/// When any file cannot be read as what it claims to be: all such files are named, and no object is
/// returned, so that a broken file is never mistaken for a deleted one.
pub fn render(tree: &Tree, inputs: &Inputs) -> Result<Rendered, RenderError> {
    if !tree.has_folder(&inputs.folder) {
        return Err(RenderError::FolderMissing { folder: inputs.folder.clone() });
    }
    let in_root = |name: &str| tree.read(&tree::join(&inputs.folder, name)).is_some();
    if in_root("Chart.yaml") {
        return chart::render(tree, inputs);
    }
    if ["kustomization.yaml", "kustomization.yml", "Kustomization"].into_iter().any(in_root) {
        return kustomization::render(tree, inputs);
    }
    raw::render(tree, inputs)
}

/// Renders the manifests below `inputs.folder`, whatever else the folder may be.
///
/// # Errors
/// As [`render`].
pub fn render_raw(tree: &Tree, inputs: &Inputs) -> Result<Rendered, RenderError> {
    raw::render(tree, inputs)
}
