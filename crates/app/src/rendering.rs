//! How services become objects: who may name which repository, and the values that are kept sealed.

use plural_core::data_key::KeyOwner;
use plural_core::ids::{RepositoryId, ServiceId};
use plural_core::repository::Repository;
use plural_core::service::{HelmConfig, HelmValues, RendererConfig, Rendering, RenderingChange, Service};
use plural_core::specs::Change;
use plural_core::{Error, Result};

use crate::access::Read;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::repository::RepositorySelector;
use crate::seal::Sealed;
use crate::service::ServiceSelector;

/// Values of charts on their way to the store: they change with what they belong to.
#[derive(Debug)]
pub struct SealedValues {
    /// Those of the service's chart, sealed for `service:ID:helm`.
    pub helm: Change<Sealed>,
    /// Those of its renderers, sealed for `service:ID:renderers`.
    pub renderers: Change<Sealed>,
}

/// What a service's current revision keeps sealed.
#[derive(Debug, Clone)]
pub struct ServiceSecrets {
    /// Configuration, sealed for `service:ID:configuration`.
    pub configuration: Sealed,
    /// Values of its chart, sealed for `service:ID:helm`.
    pub helm_values: Option<Sealed>,
    /// Values of its renderers, sealed for `service:ID:renderers`.
    pub renderer_values: Option<Sealed>,
}

impl ServiceSecrets {
    /// All of it.
    pub(crate) fn sealed(&self) -> impl Iterator<Item = &Sealed> {
        let Self { configuration, helm_values, renderer_values } = self;
        std::iter::once(configuration).chain(helm_values).chain(renderer_values)
    }
}

/// Values of charts in clear. `Debug` does not show them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RenderingValues {
    /// Those of the service's chart.
    pub helm: HelmValues,
    /// Those of its renderers, by their place in the list.
    pub renderers: Vec<Option<String>>,
}

impl std::fmt::Debug for RenderingValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RenderingValues").finish_non_exhaustive()
    }
}

impl App {
    /// The inline values of a service's charts in clear; needs write access, of an instance to its global service as well.
    pub async fn service_values(&self, ctx: &OpCtx, id: ServiceId) -> Result<RenderingValues> {
        let service = self.service_unsealed(ctx, &ServiceSelector::Id(id)).await?;
        let secrets = self.store.service_secrets(&service).await?;
        let values = self.open_values(id, &secrets).await?;
        let RenderingValues { helm, renderers } = &values;
        if helm.inline.is_some() || helm.set.is_some() || renderers.iter().any(Option::is_some) {
            self.audit_read(ctx, &service, "service.values.read").await?;
        }
        Ok(values)
    }

    /// The change as it may be made: its parts fit, and the caller may read what it names.
    pub(crate) async fn rendering_checked(
        &self,
        ctx: &OpCtx,
        change: RenderingChange,
    ) -> Result<RenderingChange> {
        let change = change.checked()?;
        let mut named: Vec<RepositoryId> = change.over(Rendering::default()).repositories().collect();
        named.sort_unstable();
        named.dedup();
        for id in named {
            let found = self.authorized::<Repository, Read>(ctx, &RepositorySelector::Id(id)).await;
            found.map_err(|error| error.named_in("attributes.sources.repositoryId"))?;
        }
        Ok(change)
    }

    pub(crate) async fn seal_values(
        &self,
        owner: KeyOwner,
        id: ServiceId,
        change: &RenderingChange,
    ) -> Result<SealedValues> {
        let helm = change.helm.try_map(|config| json(&config.values))?;
        let renderers = change.renderers.try_map(|all| {
            let values: Vec<Option<&str>> = all.iter().map(|config| config.values.as_deref()).collect();
            json(&values)
        })?;
        Ok(SealedValues {
            helm: self.keep_change(owner, &helm_context(id), &helm).await?,
            renderers: self.keep_change(owner, &renderers_context(id), &renderers).await?,
        })
    }

    async fn keep_change(
        &self,
        owner: KeyOwner,
        context: &str,
        change: &Change<Vec<u8>>,
    ) -> Result<Change<Sealed>> {
        Ok(match change {
            Change::Keep => Change::Keep,
            Change::Clear => Change::Clear,
            Change::Set(json) => Change::Set(self.sealer.keep(owner, context, json).await?),
        })
    }

    pub(crate) async fn open_values(
        &self,
        id: ServiceId,
        secrets: &ServiceSecrets,
    ) -> Result<RenderingValues> {
        let ServiceSecrets { configuration: _, helm_values, renderer_values } = secrets;
        Ok(RenderingValues {
            helm: self.open_json(&helm_context(id), helm_values.as_ref()).await?,
            renderers: self.open_json(&renderers_context(id), renderer_values.as_ref()).await?,
        })
    }

    async fn open_json<T: serde::de::DeserializeOwned + Default>(
        &self,
        context: &str,
        sealed: Option<&Sealed>,
    ) -> Result<T> {
        let Some(sealed) = sealed else { return Ok(T::default()) };
        let json = self.sealer.open(context, sealed).await?;
        // The parser's own message could quote a value.
        serde_json::from_slice(&json)
            .map_err(|_| Error::internal("reading values", "they are not what was sealed"))
    }
}

fn json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|cause| Error::internal("writing values", cause))
}

/// The change without the parts that are so already: clients send whole objects. `values` are what the service has now.
pub(crate) fn rendering_news(
    service: &Service,
    mut change: RenderingChange,
    values: RenderingValues,
) -> RenderingChange {
    let Rendering { helm, kustomize, renderers, sources, managed_namespace } = service.rendering.clone();
    let helm = helm.map(|helm| HelmConfig { helm, values: values.helm });
    let mut inline = values.renderers.into_iter();
    let renderers: Vec<RendererConfig> = renderers
        .into_iter()
        .map(|renderer| RendererConfig { renderer, values: inline.next().flatten() })
        .collect();
    change.helm = change.helm.unless(helm.as_ref());
    change.kustomize = change.kustomize.unless(kustomize.as_ref());
    change.renderers = change.renderers.unless(Some(&renderers).filter(|all| !all.is_empty()));
    change.sources = change.sources.unless(Some(&sources).filter(|all| !all.is_empty()));
    change.managed_namespace = change.managed_namespace.unless(managed_namespace.as_ref());
    change
}

fn helm_context(id: ServiceId) -> String {
    format!("service:{id}:helm")
}

fn renderers_context(id: ServiceId) -> String {
    format!("service:{id}:renderers")
}
