//! How a service becomes objects, where that is said outside of its folder.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::GitRef;
use crate::error::{Error, Result};
use crate::helm_repository::HelmUrl;
use crate::ids::RepositoryId;
use crate::managed_namespace::NamespaceContent;

/// More renderers than one service has use for.
pub(super) const MAX_RENDERERS: usize = 64;
/// The same of further sources.
pub(super) const MAX_SOURCES: usize = 32;
/// The same of values files.
const MAX_VALUES_FILES: usize = 64;
/// Values and scripts in bytes: what fits beside a configuration into one message to an agent.
const MAX_TEXT: usize = 1 << 20;

/// What is set of a service's rendering. Values are not part of it: they are kept sealed, see [`HelmValues`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rendering {
    /// A chart from elsewhere, or how the folder's own is rendered.
    pub helm: Option<Helm>,
    /// Where in the folder the Kustomization is.
    pub kustomize: Option<Kustomize>,
    /// Replaces the detection by what the folder's root holds; each runs in this order.
    pub renderers: Vec<Renderer>,
    /// Further places in git whose files join the service's.
    pub sources: Vec<SourceRef>,
    /// Instead of all that: the service is a namespace, and has no files. Nobody says so but a managed namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_namespace: Option<NamespaceContent>,
}

/// A chart and how it is rendered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Helm {
    /// Name of the chart in the repository at `url`, or its folder in git.
    pub chart: Option<String>,
    /// Version of the chart, or a range of versions.
    pub version: Option<String>,
    /// Helm repository: `https://` or `oci://`.
    pub url: Option<String>,
    /// Git repository that holds the chart.
    pub repository_id: Option<RepositoryId>,
    /// Where in it.
    pub git: Option<GitRef>,
    /// Name of the release; the service's name when absent.
    pub release: Option<String>,
    /// Files of values, relative to the service's folder, later over earlier.
    pub values_files: Vec<String>,
    /// Leave out the chart's hooks.
    pub ignore_hooks: bool,
    /// Leave out the chart's `crds/`.
    pub ignore_crds: bool,
    /// Lua that makes values.
    pub lua_script: Option<String>,
    /// The same in a file of the service's folder.
    pub lua_file: Option<String>,
    /// The same in all Lua files of a folder, in path order.
    pub lua_folder: Option<String>,
    /// Kustomization that the chart's objects are put through: its folder, relative to the service's.
    pub kustomize_postrender: Option<String>,
    /// What must have signed the chart.
    pub verify: Option<HelmVerify>,
}

/// Who must have signed a chart; by each of the ways that are named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HelmVerify {
    /// PEM of the public key of cosign's signatures.
    pub cosign_key: Option<String>,
    /// OpenPGP public keys, armoured, of Helm's provenance files.
    pub openpgp_keys: Option<String>,
}

/// Values of a chart that were given inline. `Debug` does not show them.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HelmValues {
    /// YAML.
    pub inline: Option<String>,
    /// One value by the path of its name, as Helm's `--set`.
    pub set: Option<HelmSet>,
}

/// One value by the path of its name.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelmSet {
    /// `image.tag`.
    pub name: String,
    /// The value.
    pub value: String,
}

/// What a service is told of a chart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HelmConfig {
    /// What everybody who sees the service may see.
    pub helm: Helm,
    /// What is kept sealed.
    pub values: HelmValues,
}

/// A Kustomization in the service's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kustomize {
    /// Its folder, relative to the service's; empty for that itself.
    pub path: String,
    /// Whether `helmCharts` are inflated.
    #[serde(default)]
    pub enable_helm: bool,
    /// Whether `${NAME}` in the output is replaced by the service's configuration.
    #[serde(default)]
    pub envsubst: bool,
}

/// One part of the service's folder and what renders it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renderer {
    /// Folder or file, relative to the service's folder; empty for that itself.
    pub path: String,
    /// What renders it.
    #[serde(flatten)]
    pub kind: RendererKind,
}

/// What renders a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RendererKind {
    /// Whatever its root holds.
    Auto {
        /// In case it is a chart.
        helm: RendererHelm,
    },
    /// Manifests as they are, and templates.
    Raw,
    /// A chart.
    Helm {
        /// How.
        helm: RendererHelm,
    },
    /// A Kustomization.
    Kustomize,
    /// A program that the operator of the agent declared under this name.
    Command {
        /// The name.
        command: String,
    },
}

/// How a renderer's chart is rendered. Its inline values are kept sealed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RendererHelm {
    /// Files of values, relative to the renderer's path.
    pub values_files: Vec<String>,
    /// Name of the release.
    pub release: Option<String>,
    /// Leave out the chart's hooks.
    pub ignore_hooks: bool,
}

/// A renderer with its inline values.
#[derive(Clone, PartialEq, Eq)]
pub struct RendererConfig {
    /// What everybody who sees the service may see.
    pub renderer: Renderer,
    /// YAML; kept sealed.
    pub values: Option<String>,
}

/// A place in git whose files join the service's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRef {
    /// Folder that its files go to, relative to the service's folder; empty for that itself.
    pub path: String,
    /// The repository.
    pub repository_id: RepositoryId,
    /// Where in it.
    pub git: GitRef,
}

impl Rendering {
    /// The git repositories that it names.
    pub fn repositories(&self) -> impl Iterator<Item = RepositoryId> {
        let chart = self.helm.iter().filter_map(|helm| helm.repository_id);
        chart.chain(self.sources.iter().map(|source| source.repository_id))
    }

    /// Where in a repository it is read from besides the service's own folder: its chart and its further sources.
    pub fn refs_of(&self, repository: RepositoryId) -> impl Iterator<Item = &GitRef> {
        let chart = self.helm.iter().filter(move |helm| helm.repository_id == Some(repository));
        let sources = self.sources.iter().filter(move |source| source.repository_id == repository);
        chart.filter_map(|helm| helm.git.as_ref()).chain(sources.map(|source| &source.git))
    }

    /// Paths of the service's own repository that it names and that lie outside of the service's folder: files and
    /// folders that its source needs besides.
    pub fn beside(&self, folder: &str) -> Vec<String> {
        let Self { helm, kustomize, renderers, sources: _, managed_namespace: _ } = self;
        let mut named: Vec<&str> = Vec::new();
        if let Some(helm) = helm {
            named.extend(helm.values_files.iter().map(String::as_str));
            let paths = [&helm.lua_file, &helm.lua_folder, &helm.kustomize_postrender];
            named.extend(paths.into_iter().flatten().map(String::as_str));
        }
        named.extend(kustomize.iter().map(|kustomize| kustomize.path.as_str()));
        for Renderer { path, kind } in renderers {
            named.push(path);
            if let RendererKind::Auto { helm } | RendererKind::Helm { helm } = kind {
                named.extend(helm.values_files.iter().map(String::as_str));
            }
        }
        let mut beside: Vec<String> = named.into_iter().filter_map(|path| outside(folder, path)).collect();
        beside.sort_unstable();
        beside.dedup();
        beside
    }

    /// The service is put together from several places: from a chart of somewhere else, or from further sources.
    pub fn is_composed(&self) -> bool {
        self.helm.as_ref().is_some_and(Helm::has_chart) || !self.sources.is_empty()
    }

    /// It says what the service is made from, so that this needs no repository of its own.
    pub fn has_source(&self) -> bool {
        self.is_composed() || self.managed_namespace.is_some()
    }
}

impl Helm {
    /// Files and folders of the service that it names.
    pub fn paths(&self) -> impl Iterator<Item = &String> {
        let Self { values_files, lua_file, lua_folder, kustomize_postrender, .. } = self;
        values_files.iter().chain(lua_file).chain(lua_folder).chain(kustomize_postrender)
    }

    /// It says where a chart is that is not in the service's folder.
    pub fn has_chart(&self) -> bool {
        self.url.is_some() || self.git.is_some()
    }

    pub(super) fn checked(mut self) -> Result<Self> {
        match (&self.url, &self.git) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("helm.git", "cannot be combined with \"url\""));
            }
            (Some(url), None) => {
                check_url(url)?;
                if self.chart.is_none() && !url.starts_with("oci://") {
                    return Err(Error::invalid(
                        "helm.chart",
                        "must name the chart in the repository at \"url\"",
                    ));
                }
            }
            (None, Some(_)) if self.repository_id.is_none() => {
                return Err(Error::invalid("helm.repositoryId", "must name the git repository of \"git\""));
            }
            (None, None) if self.repository_id.is_some() => {
                return Err(Error::invalid("helm.git", "must name a ref and a folder"));
            }
            (None, _) => {}
        }
        if let Some(chart) = &self.chart {
            short("helm.chart", chart)?;
        }
        if let Some(version) = &self.version {
            short("helm.version", version)?;
        }
        if let Some(release) = &self.release {
            check_release("helm.release", release)?;
        }
        check_files("helm.valuesFiles", &self.values_files)?;
        if self.lua_script.as_ref().is_some_and(|script| script.len() > MAX_TEXT) {
            return Err(Error::invalid("helm.luaScript", "must not be larger than 1 MiB"));
        }
        for (field, path) in [
            ("helm.luaFile", &mut self.lua_file),
            ("helm.luaFolder", &mut self.lua_folder),
            ("helm.kustomizePostrender", &mut self.kustomize_postrender),
        ] {
            if let Some(path) = path {
                *path = relative(field, path)?;
            }
        }
        if let Some(HelmVerify { cosign_key, openpgp_keys }) = &self.verify {
            let bad = |keys: &String, limit: usize, begin: &str| keys.len() > limit || !keys.contains(begin);
            if cosign_key.as_ref().is_some_and(|key| bad(key, 16 << 10, "-----BEGIN PUBLIC KEY-----")) {
                return Err(Error::invalid("helm.verify.cosignKey", "must be a public key in PEM"));
            }
            let openpgp = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
            if openpgp_keys.as_ref().is_some_and(|keys| bad(keys, 256 << 10, openpgp)) {
                return Err(Error::invalid(
                    "helm.verify.openpgpKeys",
                    "must be OpenPGP public keys, armoured, of 256 KiB at most",
                ));
            }
            if cosign_key.is_none() && openpgp_keys.is_none() {
                return Err(Error::invalid("helm.verify", "must name a key: cosignKey, openpgpKeys or both"));
            }
            if openpgp_keys.is_some() && self.chart.is_none() {
                return Err(Error::invalid(
                    "helm.verify.openpgpKeys",
                    "is for a chart that is named in \"chart\"",
                ));
            }
            if self.url.is_none() {
                return Err(Error::invalid("helm.verify", "is for charts of a repository at \"url\""));
            }
        }
        Ok(self)
    }
}

impl HelmValues {
    /// Nothing was given.
    pub fn is_empty(&self) -> bool {
        self.inline.is_none() && self.set.is_none()
    }

    pub(super) fn check(&self) -> Result<()> {
        check_values("helm.values", self.inline.as_deref())?;
        if let Some(HelmSet { name, value }) = &self.set {
            short("helm.set.name", name)?;
            check_values("helm.set.value", Some(value))?;
        }
        Ok(())
    }
}

impl RendererConfig {
    pub(super) fn check(&mut self) -> Result<()> {
        self.renderer.path = relative("renderers.path", &self.renderer.path)?;
        check_values("renderers.helm.values", self.values.as_deref())?;
        match &self.renderer.kind {
            RendererKind::Auto { helm } | RendererKind::Helm { helm } => {
                if let Some(release) = &helm.release {
                    check_release("renderers.helm.release", release)?;
                }
                check_files("renderers.helm.valuesFiles", &helm.values_files)
            }
            RendererKind::Command { command } => short("renderers.command", command),
            RendererKind::Raw | RendererKind::Kustomize => Ok(()),
        }
    }
}

fn check_values(field: &'static str, values: Option<&str>) -> Result<()> {
    match values {
        Some(values) if values.len() > MAX_TEXT => {
            Err(Error::invalid(field, "must not be larger than 1 MiB"))
        }
        _ => Ok(()),
    }
}

/// A path without empty and `.` parts. It may begin with `..`: whether it stays inside of what the service is made
/// from shows when it is read.
pub(super) fn relative(field: &'static str, path: &str) -> Result<String> {
    if path.len() > 1024 || path.starts_with('/') || path.contains('\\') || path.chars().any(char::is_control)
    {
        return Err(Error::invalid(
            field,
            "must be a path relative to the service's folder, with \"/\" between its parts",
        ));
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." && parts.last().is_some_and(|last| *last != "..") {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    Ok(parts.join("/"))
}

/// `path` as seen from `folder`, if that lies in the repository and not in the folder.
fn outside(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    let depth = parts.len();
    let mut least = depth;
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop()?;
            least = least.min(parts.len());
        } else {
            parts.push(part);
        }
    }
    let joined = parts.join("/");
    let inside = least == depth || joined == folder || joined.starts_with(&format!("{folder}/"));
    (!inside && !joined.is_empty()).then_some(joined)
}

fn check_files(field: &'static str, files: &[String]) -> Result<()> {
    if files.len() > MAX_VALUES_FILES {
        return Err(Error::invalid(field, format!("must not name more than {MAX_VALUES_FILES} files")));
    }
    files.iter().try_for_each(|file| {
        if file.is_empty() || file.len() > 1024 || file.contains('\\') || file.chars().any(char::is_control) {
            return Err(Error::invalid(field, "must be paths with \"/\" between their parts"));
        }
        Ok(())
    })
}

fn check_url(url: &str) -> Result<()> {
    let rest = ["https://", "http://", "oci://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let Some(rest) = rest.filter(|rest| !rest.is_empty() && !rest.starts_with('/')) else {
        return Err(Error::invalid(
            "helm.url",
            "must begin with https://, http:// or oci:// and name a host",
        ));
    };
    // It would stand in clear in the database, in answers and in errors.
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    if authority.contains('@') {
        return Err(Error::invalid(
            "helm.url",
            "must not hold a password: give credentials to the Helm repository",
        ));
    }
    url.parse::<HelmUrl>().map_err(|error| Error::invalid("helm.url", error.to_string()))?;
    Ok(())
}

fn check_release(field: &'static str, name: &str) -> Result<()> {
    let good = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let inner = |letter: char| good(letter) || letter == '-' || letter == '.';
    if name.is_empty()
        || name.len() > 53
        || !name.chars().all(inner)
        || !name.starts_with(good)
        || !name.ends_with(good)
    {
        let reason = "must be a release's name: at most 53 lower-case letters, digits, \"-\" and \".\", \
                      with a letter or digit at both ends";
        return Err(Error::invalid(field, reason));
    }
    Ok(())
}

fn short(field: &'static str, text: &str) -> Result<()> {
    if text.trim().is_empty() || text.len() > 512 || text.chars().any(char::is_control) {
        return Err(Error::invalid(field, "must be a short text without control characters"));
    }
    Ok(())
}

impl fmt::Debug for HelmValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelmValues").finish_non_exhaustive()
    }
}

impl fmt::Debug for HelmSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelmSet").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for RendererConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RendererConfig").field("renderer", &self.renderer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use plural_specs::Change;

    use super::super::RenderingChange;
    use super::*;

    fn helm(helm: Helm) -> Result<RenderingChange> {
        let config = HelmConfig { helm, values: HelmValues::default() };
        RenderingChange { helm: Change::Set(config), ..RenderingChange::default() }.checked()
    }

    #[test]
    fn a_chart_has_one_home() {
        let url = |url: &str| Helm { url: Some(url.into()), chart: Some("web".into()), ..Helm::default() };
        helm(url("https://charts.example.com")).unwrap();
        helm(Helm { chart: None, ..url("oci://registry.example.com/charts/web") }).unwrap();
        for wrong in [
            "ftp://x",
            "https://",
            "https:///x",
            "https://user:pass@host/x",
            "https://ho st",
            "https://h/a/../b",
            "oci://h/a/%2e%2e/b",
        ] {
            helm(url(wrong)).expect_err(wrong);
        }
        let git = Some(GitRef::new("main", "charts/web", &[]).unwrap());
        helm(Helm { git: git.clone(), ..url("https://charts.example.com") }).unwrap_err();
        helm(Helm { git: git.clone(), ..Helm::default() }).unwrap_err();
        helm(Helm { repository_id: Some(RepositoryId::new()), ..Helm::default() }).unwrap_err();
        helm(Helm { git, repository_id: Some(RepositoryId::new()), ..Helm::default() }).unwrap();
    }

    #[test]
    fn paths_are_relative() {
        for wrong in ["/etc/x.lua", "a\\b", "a\nb"] {
            helm(Helm { lua_file: Some(wrong.into()), ..Helm::default() }).expect_err(wrong);
        }
        helm(Helm { release: Some("Web".into()), ..Helm::default() }).unwrap_err();
        let kustomize =
            Kustomize { path: "./overlays/../overlays//eu/".into(), enable_helm: false, envsubst: false };
        let change = RenderingChange { kustomize: Change::Set(kustomize), ..RenderingChange::default() };
        let rendering = change.checked().unwrap().over(Rendering::default());
        assert_eq!(rendering.kustomize.unwrap().path, "overlays/eu");
    }

    #[test]
    fn what_lies_beside_the_folder_is_known() {
        let rendering = Rendering {
            helm: Some(Helm {
                values_files: vec![
                    "prod.yaml".into(),
                    "../common/a.yaml".into(),
                    "../../../etc/passwd".into(),
                ],
                lua_folder: Some("../lua".into()),
                ..Helm::default()
            }),
            kustomize: Some(Kustomize { path: "../web/eu".into(), enable_helm: false, envsubst: false }),
            renderers: vec![Renderer { path: "../common/a.yaml".into(), kind: RendererKind::Raw }],
            ..Rendering::default()
        };
        assert_eq!(rendering.beside("apps/web"), ["apps/common/a.yaml", "apps/lua"]);
        assert!(rendering.beside("").is_empty());
        assert!(Rendering::default().beside("apps/web").is_empty());
    }

    #[test]
    fn a_change_replaces_what_it_names() {
        let old = Rendering {
            helm: Some(Helm { release: Some("old".into()), ..Helm::default() }),
            kustomize: Some(Kustomize { path: String::new(), enable_helm: false, envsubst: false }),
            ..Rendering::default()
        };
        assert_eq!(RenderingChange::default().over(old.clone()), old);
        let change = RenderingChange { helm: Change::Clear, ..RenderingChange::default() };
        let new = change.over(old.clone());
        assert_eq!((new.helm, new.kustomize), (None, old.kustomize));
    }

    #[test]
    fn values_are_not_debug_text() {
        let values = HelmValues {
            inline: Some("password: hunter2".into()),
            set: Some(HelmSet { name: "a".into(), value: "hunter2".into() }),
        };
        let config = HelmConfig { helm: Helm::default(), values };
        assert!(!format!("{config:?} {:?}", config.values.set).contains("hunter2"));
    }

    #[test]
    fn a_stored_renderer_is_read_back() {
        for kind in [
            RendererKind::Auto { helm: RendererHelm::default() },
            RendererKind::Raw,
            RendererKind::Helm {
                helm: RendererHelm { values_files: vec!["v.yaml".into()], ..RendererHelm::default() },
            },
            RendererKind::Kustomize,
            RendererKind::Command { command: "jsonnet".into() },
        ] {
            let renderer = Renderer { path: "a".into(), kind };
            let json = serde_json::to_value(&renderer).unwrap();
            assert_eq!(serde_json::from_value::<Renderer>(json).unwrap(), renderer);
        }
    }
}
