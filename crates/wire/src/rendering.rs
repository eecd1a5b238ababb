//! How a service becomes objects: charts, Kustomizations, renderers, further sources. Users write these as a file too,
//! with these names, and a name that is not known is an error there.

use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// A chart, and how it is rendered. Given as a whole: what is absent is not set.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HelmConfigAttributes {
    /// Name of the chart in the repository at `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// Its version, or a range of versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Helm repository: `https://` or `oci://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Git repository that holds the chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_id: Option<String>,
    /// Where in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<SourceGit>,
    /// Name of the release; the service's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Values as YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Secret>,
    /// One value by the path of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<HelmValue>,
    /// Files of values in the service's folder; later over earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values_files: Option<Vec<String>>,
    /// Leave out the chart's hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_hooks: Option<bool>,
    /// Leave out the chart's `crds/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_crds: Option<bool>,
    /// Lua that makes values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lua_script: Option<String>,
    /// The same in a file of the service's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lua_file: Option<String>,
    /// The same in all Lua files of a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lua_folder: Option<String>,
    /// Folder of a Kustomization that all objects are put through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kustomize_postrender: Option<String>,
    /// Who must have signed the chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<HelmVerify>,
}

/// One value by the path of its name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelmValue {
    /// `image.tag`.
    pub name: String,
    /// The value.
    pub value: Secret,
}

/// Who must have signed a chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HelmVerify {
    /// PEM of the public key of cosign's signatures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cosign_key: Option<String>,
    /// OpenPGP public keys, armoured, of Helm's provenance files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openpgp_keys: Option<String>,
}

/// A place in a repository with the files that it takes along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceGit {
    /// Branch, tag, commit or semver range of tags.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Folder from the repository's root.
    pub folder: String,
    /// Further files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
}

/// A Kustomization in the service's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KustomizeAttributes {
    /// Its folder, relative to the service's.
    pub path: String,
    /// Inflate `helmCharts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_helm: Option<bool>,
    /// Replace `${NAME}` in the output by the service's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envsubst: Option<bool>,
}

/// One part of the service's folder and what renders it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RendererAttributes {
    /// Folder or file, relative to the service's folder.
    pub path: String,
    /// `AUTO`, `RAW`, `HELM`, `KUSTOMIZE` or `COMMAND`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How its chart is rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmMinimalAttributes>,
    /// For `COMMAND`: a program that the agent's operator declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// How a renderer's chart is rendered.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HelmMinimalAttributes {
    /// Values as YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Secret>,
    /// Files of values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values_files: Option<Vec<String>>,
    /// Name of the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Leave out the chart's hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_hooks: Option<bool>,
}

/// A further place in git whose files join the service's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceSourceAttributes {
    /// Folder that its files go to, relative to the service's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The repository's id.
    pub repository_id: String,
    /// Where in it.
    pub git: SourceGit,
}

/// How a service becomes objects; what is absent stays as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RenderingAttributes {
    /// The chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmConfigAttributes>,
    /// The Kustomization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<KustomizeAttributes>,
    /// What renders which part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renderers: Option<Vec<RendererAttributes>>,
    /// Further sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<ServiceSourceAttributes>>,
}
