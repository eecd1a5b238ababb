//! How a service becomes objects: what clients give.

use async_graphql::{ID, InputObject, MaybeUndefined};
use plural_core::service::{
    Helm, HelmConfig, HelmSet, HelmValues, HelmVerify, Kustomize, Renderer, RendererConfig, RendererHelm,
    RendererKind, RenderingChange, SourceRef,
};
use plural_core::specs::Change;
use plural_core::{Error, Result};

use super::{
    error::{List, id, id_in, items, unsupported},
    rendering::RendererType,
    service_input::GitRefAttributes,
};

/// One value by the path of its name.
#[derive(InputObject)]
pub(crate) struct HelmValueAttributes {
    /// `image.tag`.
    name: Option<String>,
    /// The value.
    value: Option<String>,
}

/// A chart, and how it is rendered. What is not named is not set: the whole is replaced.
#[derive(InputObject)]
pub(crate) struct HelmConfigAttributes {
    /// Values, as YAML. Kept encrypted.
    values: Option<String>,
    /// Files of values, relative to the service's folder; later over earlier.
    values_files: List<String>,
    /// Name of the chart in the repository at `url`.
    chart: Option<String>,
    /// Its version, or a range of versions.
    version: Option<String>,
    /// Name of the release; the service's when absent.
    release: Option<String>,
    /// Helm repository: `https://` or `oci://`.
    url: Option<String>,
    /// Leave out the chart's hooks.
    ignore_hooks: Option<bool>,
    /// Leave out the chart's `crds/`.
    ignore_crds: Option<bool>,
    /// Lua that makes values.
    lua_script: Option<String>,
    /// The same in a file of the service's folder.
    lua_file: Option<String>,
    /// The same in all Lua files of a folder, in path order.
    lua_folder: Option<String>,
    /// Refused: values are not made with Python here.
    python_script: Option<String>,
    /// Refused: values are not made with Python here.
    python_file: Option<String>,
    /// Refused: values are not made with Python here.
    python_folder: Option<String>,
    /// One value by the path of its name, over all others but Lua's. Kept encrypted.
    set: Option<HelmValueAttributes>,
    /// Where in git the chart is.
    git: Option<GitRefAttributes>,
    /// Folder of a Kustomization that the chart's objects are put through.
    kustomize_postrender: Option<String>,
    /// Git repository that holds the chart.
    repository_id: Option<ID>,
    /// Who must have signed the chart.
    verify: Option<HelmVerifyAttributes>,
    /// A `HelmRepository` of Flux in some cluster. Refused: the console reads no cluster; give `url`.
    repository: Option<NamespacedName>,
}

/// Who must have signed a chart.
#[derive(Debug, InputObject)]
pub(crate) struct HelmVerifyAttributes {
    /// PEM of the public key of cosign's signatures.
    cosign_key: Option<String>,
    /// OpenPGP public keys, armoured, of Helm's provenance files.
    openpgp_keys: Option<String>,
}

/// An object of a namespace.
#[derive(Debug, InputObject)]
pub(crate) struct NamespacedName {
    /// Its name.
    pub(crate) name: String,
    /// Its namespace.
    pub(crate) namespace: String,
}

/// How a renderer's chart is rendered.
#[derive(InputObject)]
pub(crate) struct HelmMinimalAttributes {
    /// Values, as YAML. Kept encrypted.
    values: Option<String>,
    /// Files of values, relative to the renderer's path; later over earlier.
    values_files: List<String>,
    /// Name of the release; the service's when absent.
    release: Option<String>,
    /// Leave out the chart's hooks.
    ignore_hooks: Option<bool>,
}

/// A Kustomization in the service's folder.
#[derive(Debug, InputObject)]
pub(crate) struct KustomizeAttributes {
    /// Its folder, relative to the service's.
    path: String,
    /// Inflate `helmCharts`.
    enable_helm: Option<bool>,
    /// Replace `${NAME}` in the output by the service's configuration.
    envsubst: Option<bool>,
}

/// One part of the service's folder and what renders it.
#[derive(InputObject)]
pub(crate) struct RendererAttributes {
    /// Folder or file, relative to the service's folder.
    path: String,
    /// What renders it.
    #[graphql(name = "type")]
    kind: RendererType,
    /// How its chart is rendered.
    helm: Option<HelmMinimalAttributes>,
    /// For the type `COMMAND`: a program that the operator of the agent declared.
    command: Option<String>,
}

/// A further place in git whose files join the service's.
#[derive(Debug, InputObject)]
pub(crate) struct ServiceSourceAttributes {
    /// Folder that its files go to, relative to the service's folder.
    path: Option<String>,
    /// The repository.
    repository_id: Option<ID>,
    /// Where in it.
    git: Option<GitRefAttributes>,
}

/// What was given of a rendering.
pub(crate) struct RenderingAttributes {
    pub(crate) helm: MaybeUndefined<HelmConfigAttributes>,
    pub(crate) kustomize: MaybeUndefined<KustomizeAttributes>,
    pub(crate) renderers: MaybeUndefined<Vec<Option<RendererAttributes>>>,
    pub(crate) sources: MaybeUndefined<Vec<Option<ServiceSourceAttributes>>>,
}

impl RenderingAttributes {
    pub(crate) fn change(self) -> Result<RenderingChange> {
        let Self { helm, kustomize, renderers, sources } = self;
        Ok(RenderingChange {
            // Only a managed namespace says so.
            managed_namespace: plural_core::specs::Change::Keep,
            helm: change(helm, HelmConfigAttributes::parse)?,
            kustomize: change(kustomize, |given| {
                let KustomizeAttributes { path, enable_helm, envsubst } = given;
                Ok(Kustomize {
                    path,
                    enable_helm: enable_helm.unwrap_or(false),
                    envsubst: envsubst.unwrap_or(false),
                })
            })?,
            renderers: change(renderers, |all| {
                all.into_iter().flatten().map(RendererAttributes::parse).collect()
            })?,
            sources: change(sources, |all| {
                all.into_iter().flatten().map(ServiceSourceAttributes::parse).collect()
            })?,
        })
    }
}

/// What was given of a field: nothing, a null that clears it, or something.
pub(crate) fn change<G, T>(
    given: MaybeUndefined<G>,
    parse: impl FnOnce(G) -> Result<T>,
) -> Result<Change<T>> {
    Ok(match given {
        MaybeUndefined::Undefined => Change::Keep,
        MaybeUndefined::Null => Change::Clear,
        MaybeUndefined::Value(given) => Change::Set(parse(given)?),
    })
}

/// Clients send an empty text for what is not set.
fn some(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Why no Python is taken.
const NO_PYTHON: &str = "is not supported: values are made with Lua, not with Python; see luaScript, luaFile and \
    luaFolder";

impl HelmConfigAttributes {
    fn parse(self) -> Result<HelmConfig> {
        let Self {
            values,
            values_files,
            chart,
            version,
            release,
            url,
            ignore_hooks,
            ignore_crds,
            lua_script,
            lua_file,
            lua_folder,
            python_script,
            python_file,
            python_folder,
            set,
            git,
            kustomize_postrender,
            repository_id,
            verify,
            repository,
        } = self;
        unsupported("helm.pythonScript", some(python_script).is_some(), NO_PYTHON)?;
        unsupported("helm.pythonFile", some(python_file).is_some(), NO_PYTHON)?;
        unsupported("helm.pythonFolder", some(python_folder).is_some(), NO_PYTHON)?;
        if let Some(NamespacedName { name, namespace }) = repository {
            let reason = format!(
                "names the object {namespace}/{name} of a cluster, which the console does not read: give the \
                 repository's address as \"url\""
            );
            return Err(Error::invalid("helm.repository", reason));
        }
        let set = match set {
            None | Some(HelmValueAttributes { name: None, value: None }) => None,
            Some(HelmValueAttributes { name: Some(name), value }) => {
                Some(HelmSet { name, value: value.unwrap_or_default() })
            }
            Some(HelmValueAttributes { name: None, value: Some(_) }) => {
                return Err(Error::invalid("helm.set.name", "must name the value"));
            }
        };
        Ok(HelmConfig {
            helm: Helm {
                chart: some(chart),
                version: some(version),
                url: some(url),
                repository_id: id_in("attributes.repositoryId", repository_id.as_deref())?,
                git: git.map(GitRefAttributes::parse).transpose()?,
                release: some(release),
                values_files: items(values_files).unwrap_or_default(),
                ignore_hooks: ignore_hooks.unwrap_or(false),
                ignore_crds: ignore_crds.unwrap_or(false),
                lua_script: some(lua_script),
                lua_file: some(lua_file),
                lua_folder,
                kustomize_postrender,
                verify: verify.map(|HelmVerifyAttributes { cosign_key, openpgp_keys }| HelmVerify {
                    cosign_key,
                    openpgp_keys,
                }),
            },
            values: HelmValues { inline: some(values), set },
        })
    }
}

impl RendererAttributes {
    fn parse(self) -> Result<RendererConfig> {
        let Self { path, kind, helm, command } = self;
        if command.is_some() && kind != RendererType::Command {
            return Err(Error::invalid("renderers.command", "is for the type COMMAND only"));
        }
        if helm.is_some() && !matches!(kind, RendererType::Helm | RendererType::Auto) {
            return Err(Error::invalid("renderers.helm", "is for the types HELM and AUTO only"));
        }
        let (helm, values) = match helm {
            None => (RendererHelm::default(), None),
            Some(HelmMinimalAttributes { values, values_files, release, ignore_hooks }) => (
                RendererHelm {
                    values_files: items(values_files).unwrap_or_default(),
                    release: some(release),
                    ignore_hooks: ignore_hooks.unwrap_or(false),
                },
                some(values),
            ),
        };
        let kind = match kind {
            RendererType::Auto => RendererKind::Auto { helm },
            RendererType::Raw => RendererKind::Raw,
            RendererType::Helm => RendererKind::Helm { helm },
            RendererType::Kustomize => RendererKind::Kustomize,
            RendererType::Command => RendererKind::Command {
                command: command
                    .ok_or_else(|| Error::invalid("renderers.command", "must name the program"))?,
            },
        };
        Ok(RendererConfig { renderer: Renderer { path, kind }, values })
    }
}

impl ServiceSourceAttributes {
    fn parse(self) -> Result<SourceRef> {
        let Self { path, repository_id, git } = self;
        let repository = repository_id
            .ok_or_else(|| Error::invalid("sources.repositoryId", "must name the repository"))?;
        let git = git.ok_or_else(|| Error::invalid("sources.git", "must name a ref and a folder"))?;
        Ok(SourceRef { path: path.unwrap_or_default(), repository_id: id(&repository)?, git: git.parse()? })
    }
}
