//! How a service becomes objects.

use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use plural_app::rendering::RenderingValues;
use plural_core::Error;
use plural_core::ids::ServiceId;
use plural_core::service::{RendererHelm, RendererKind};

use super::{
    error::{IntoGraphql, List, Nullable, list, nullable},
    git_repository::GitRepository,
    record::by_id,
    request::request,
    service::GitRef,
};

/// What renders a path of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum RendererType {
    /// Whatever its root holds: a chart, a Kustomization, or manifests.
    Auto,
    /// Manifests and templates.
    Raw,
    /// A Helm chart.
    Helm,
    /// A Kustomization.
    Kustomize,
    /// A program that the operator of the agent declared.
    Command,
}

/// A Kustomization in a service's folder.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct Kustomize {
    /// Its folder, relative to the service's.
    path: String,
    /// Whether `helmCharts` are inflated.
    enable_helm: Option<bool>,
    /// Whether `${NAME}` in the output is replaced by the service's configuration.
    envsubst: Option<bool>,
}

impl From<plural_core::service::Kustomize> for Kustomize {
    fn from(kustomize: plural_core::service::Kustomize) -> Self {
        let plural_core::service::Kustomize { path, enable_helm, envsubst } = kustomize;
        Self { path, enable_helm: Some(enable_helm), envsubst: Some(envsubst) }
    }
}

/// One value by the path of its name.
#[derive(SimpleObject)]
pub(crate) struct HelmValue {
    /// `image.tag`.
    name: String,
    /// The value.
    value: String,
}

/// A chart, and how it is rendered.
pub(crate) struct HelmSpec {
    /// Whose it is; none for one of a template, whose values are never shown.
    pub(crate) service: Option<ServiceId>,
    pub(crate) helm: plural_core::service::Helm,
}

/// A chart, and how it is rendered.
#[Object]
impl HelmSpec {
    /// Name of the chart in the repository at `url`.
    async fn chart(&self) -> Option<&str> {
        self.helm.chart.as_deref()
    }

    /// Its version, or a range of versions.
    async fn version(&self) -> Option<&str> {
        self.helm.version.as_deref()
    }

    /// Helm repository: `https://` or `oci://`.
    async fn url(&self) -> Option<&str> {
        self.helm.url.as_deref()
    }

    /// Git repository that holds the chart.
    async fn repository_id(&self) -> Option<ID> {
        self.helm.repository_id.map(|id| id.to_string().into())
    }

    /// Where in it.
    async fn git(&self) -> Option<GitRef> {
        self.helm.git.clone().map(Into::into)
    }

    /// Name of the release; the service's when absent.
    async fn release(&self) -> Option<&str> {
        self.helm.release.as_deref()
    }

    /// Files of values, later over earlier.
    async fn values_files(&self) -> List<&str> {
        list(self.helm.values_files.iter().map(String::as_str))
    }

    /// Values given inline, as YAML; absent when you may not change the service, and in a template.
    async fn values(&self, ctx: &Context<'_>) -> Nullable<String> {
        nullable(async {
            let Some(service) = self.service else { return Ok(None) };
            Ok(values_of(ctx, service).await?.and_then(|values| values.helm.inline))
        })
        .await
    }

    /// One value by the path of its name; absent when you may not change the service, and in a template.
    async fn set(&self, ctx: &Context<'_>) -> Nullable<HelmValue> {
        nullable(async {
            let Some(service) = self.service else { return Ok(None) };
            let set = values_of(ctx, service).await?.and_then(|values| values.helm.set);
            Ok(set.map(|plural_core::service::HelmSet { name, value }| HelmValue { name, value }))
        })
        .await
    }

    /// Whether the chart's hooks are left out.
    async fn ignore_hooks(&self) -> Option<bool> {
        Some(self.helm.ignore_hooks)
    }

    /// Whether the chart's `crds/` is left out.
    async fn ignore_crds(&self) -> Option<bool> {
        Some(self.helm.ignore_crds)
    }

    /// Lua that makes values.
    async fn lua_script(&self) -> Option<&str> {
        self.helm.lua_script.as_deref()
    }

    /// The same in a file of the service's folder.
    async fn lua_file(&self) -> Option<&str> {
        self.helm.lua_file.as_deref()
    }

    /// The same in all Lua files of a folder, in path order.
    async fn lua_folder(&self) -> Option<&str> {
        self.helm.lua_folder.as_deref()
    }

    /// Folder of a Kustomization that the chart's objects are put through.
    async fn kustomize_postrender(&self) -> Option<&str> {
        self.helm.kustomize_postrender.as_deref()
    }

    /// Who must have signed the chart.
    async fn verify(&self) -> Option<HelmVerify> {
        let plural_core::service::HelmVerify { cosign_key, openpgp_keys } = self.helm.verify.clone()?;
        Some(HelmVerify { cosign_key, openpgp_keys })
    }
}

/// Who must have signed a chart.
#[derive(SimpleObject)]
pub(crate) struct HelmVerify {
    /// PEM of the public key of cosign's signatures.
    cosign_key: Option<String>,
    /// OpenPGP public keys, armoured, of Helm's provenance files.
    openpgp_keys: Option<String>,
}

/// One part of a service's folder and what renders it.
pub(crate) struct Renderer {
    /// Whose it is; none for one of a template, whose values are never shown.
    pub(crate) service: Option<ServiceId>,
    /// Its place in the list.
    pub(crate) place: usize,
    pub(crate) stored: plural_core::service::Renderer,
}

/// One part of a service's folder and what renders it.
#[Object]
impl Renderer {
    /// Folder or file, relative to the service's folder.
    async fn path(&self) -> &str {
        &self.stored.path
    }

    /// What renders it.
    #[graphql(name = "type")]
    async fn kind(&self) -> RendererType {
        match self.stored.kind {
            RendererKind::Auto { .. } => RendererType::Auto,
            RendererKind::Raw => RendererType::Raw,
            RendererKind::Helm { .. } => RendererType::Helm,
            RendererKind::Kustomize => RendererType::Kustomize,
            RendererKind::Command { .. } => RendererType::Command,
        }
    }

    /// How its chart is rendered.
    async fn helm(&self) -> Option<HelmMinimal> {
        match &self.stored.kind {
            RendererKind::Auto { helm } | RendererKind::Helm { helm } => {
                Some(HelmMinimal { service: self.service, place: self.place, helm: helm.clone() })
            }
            RendererKind::Raw | RendererKind::Kustomize | RendererKind::Command { .. } => None,
        }
    }

    /// The program's name, for the type `COMMAND`.
    async fn command(&self) -> Option<&str> {
        match &self.stored.kind {
            RendererKind::Command { command } => Some(command),
            RendererKind::Auto { .. }
            | RendererKind::Raw
            | RendererKind::Helm { .. }
            | RendererKind::Kustomize => None,
        }
    }
}

/// How a renderer's chart is rendered.
pub(crate) struct HelmMinimal {
    service: Option<ServiceId>,
    place: usize,
    helm: RendererHelm,
}

/// How a renderer's chart is rendered.
#[Object]
impl HelmMinimal {
    /// Values given inline, as YAML; absent when you may not change the service, and in a template.
    async fn values(&self, ctx: &Context<'_>) -> Nullable<String> {
        nullable(async {
            let Some(service) = self.service else { return Ok(None) };
            let values = values_of(ctx, service).await?;
            Ok(values.and_then(|values| values.renderers.into_iter().nth(self.place).flatten()))
        })
        .await
    }

    /// Files of values, later over earlier.
    async fn values_files(&self) -> List<&str> {
        list(self.helm.values_files.iter().map(String::as_str))
    }

    /// Name of the release; the service's when absent.
    async fn release(&self) -> Option<&str> {
        self.helm.release.as_deref()
    }

    /// Whether the chart's hooks are left out.
    async fn ignore_hooks(&self) -> Option<bool> {
        Some(self.helm.ignore_hooks)
    }
}

/// A further place in git whose files join a service's.
pub(crate) struct ServiceSource(plural_core::service::SourceRef);

impl From<plural_core::service::SourceRef> for ServiceSource {
    fn from(source: plural_core::service::SourceRef) -> Self {
        Self(source)
    }
}

/// A further place in git whose files join a service's.
#[Object]
impl ServiceSource {
    /// Folder that its files go to, relative to the service's folder.
    async fn path(&self) -> Option<&str> {
        Some(&self.0.path)
    }

    /// Id of the repository.
    async fn repository_id(&self) -> Option<ID> {
        Some(self.0.repository_id.to_string().into())
    }

    /// The repository; absent when you may not see it.
    async fn repository(&self, ctx: &Context<'_>) -> Nullable<GitRepository> {
        nullable(by_id::<plural_core::repository::Repository, _>(ctx, self.0.repository_id)).await
    }

    /// Where in it.
    async fn git(&self) -> Option<GitRef> {
        Some(self.0.git.clone().into())
    }
}

/// The inline values, for those who may change the service.
async fn values_of(ctx: &Context<'_>, service: ServiceId) -> async_graphql::Result<Option<RenderingValues>> {
    let request = request(ctx);
    match request.app.service_values(&request.op, service).await {
        Ok(values) => Ok(Some(values)),
        Err(Error::Forbidden { .. }) => Ok(None),
        Err(error) => Err(error).into_graphql(ctx),
    }
}
