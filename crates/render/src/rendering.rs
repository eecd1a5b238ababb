//! How a service becomes objects, where that is said outside of its folder.

use std::fmt;

use crate::{helm::LookupPort, tree::Tree};

/// What is set of a service's rendering. Nothing: what its folder's root holds decides.
#[derive(Debug, Clone, Default)]
pub struct RenderingInput {
    /// How charts are rendered.
    pub helm: HelmInput,
    /// Makes the folder a Kustomization, whatever its root holds.
    pub kustomize: Option<KustomizeInput>,
    /// Run in this order instead of what the folder's root holds.
    pub renderers: Vec<RendererInput>,
}

/// How a chart is rendered. Paths are relative to the service's folder.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HelmInput {
    /// Name of the release; the service's name when absent.
    pub release: Option<String>,
    /// Values as YAML.
    pub values: Option<String>,
    /// Path of a value's name, and the value.
    pub set: Option<(String, String)>,
    /// Files of values, later over earlier.
    pub values_files: Vec<String>,
    /// Leave out the chart's hooks.
    pub ignore_hooks: bool,
    /// Leave out the chart's `crds/`.
    pub ignore_crds: bool,
    /// Lua that makes values.
    pub lua_script: Option<String>,
    /// The same in a file; looked at when there is no script.
    pub lua_file: Option<String>,
    /// The same in all Lua files of a folder, run before the script or file.
    pub lua_folder: Option<String>,
    /// Folder of a Kustomization that all objects of the service are put through.
    pub kustomize_postrender: Option<String>,
    /// What templates see as `service.helm`: chart, version and address that were asked for.
    pub asked: ChartAsked,
}

/// The chart that a service asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChartAsked {
    /// Its name.
    pub chart: String,
    /// Version or range.
    pub version: String,
    /// Address of its repository.
    pub url: String,
}

impl fmt::Debug for HelmInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the values, which may be secret.
        f.debug_struct("HelmInput")
            .field("release", &self.release)
            .field("values_files", &self.values_files)
            .finish_non_exhaustive()
    }
}

/// A Kustomization in the service's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KustomizeInput {
    /// Its folder, relative to the service's.
    pub path: String,
    /// Whether charts that it names are inflated.
    pub enable_helm: bool,
    /// Whether `${NAME}` in the output is replaced by the service's configuration.
    pub envsubst: bool,
}

/// One part of a service and what renders it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RendererInput {
    /// Folder, or for raw manifests a file, relative to the service's folder.
    pub path: String,
    /// What renders it.
    pub kind: RendererKind,
}

/// What renders a part of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RendererKind {
    /// What the root of the path holds.
    Auto(Option<HelmInput>),
    /// Manifests and templates.
    Raw,
    /// A chart; without settings of its own it takes the service's.
    Helm(Option<HelmInput>),
    /// A Kustomization.
    Kustomize,
    /// A program that somebody declared under this name.
    Command(String),
}

/// Answers from outside of the tree. A render with the same answers gives the same objects.
#[derive(Clone, Copy, Default)]
pub struct Ports<'p> {
    /// Answers `lookup` of charts; without it nothing is found.
    pub lookup: Option<&'p dyn LookupPort>,
    /// Runs declared programs; without it none is.
    pub commands: Option<&'p dyn CommandPort>,
}

impl fmt::Debug for Ports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ports").finish_non_exhaustive()
    }
}

/// Runs programs that render what this crate does not.
pub trait CommandPort {
    /// What the program `name` wrote, given the files below `folder` of `tree`.
    ///
    /// # Errors
    /// Why there is no program of this name, or what it said when it failed. Never holds a configuration value.
    fn run(&self, name: &str, tree: &Tree, folder: &str) -> Result<Vec<u8>, String>;
}
