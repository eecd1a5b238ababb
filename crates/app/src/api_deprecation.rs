//! API versions that go away, where services use them.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::Result;
use plural_core::api_deprecation::{ApiDeprecation, DeprecatedComponent, KubernetesMinor};
use plural_core::cluster::Cluster;
use plural_core::component::Component;
use plural_core::ids::ServiceId;
use plural_core::service::Service;
use plural_core::service_error::ServiceError;

use crate::access::{Authorized, Read};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::masking;

/// Objects whose API versions [`plural_core::api_deprecation::ApiDeprecation`] lists, whatever that means for their cluster.
#[async_trait]
pub trait ApiDeprecationStore: Send + Sync + 'static {
    /// Those of services, in the order of their names.
    async fn services_listed_components(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<Vec<Component>>;
    /// Those of all services of a cluster, the first `most`, each service's together.
    async fn cluster_listed_components(
        &self,
        cluster: &Authorized<Cluster, Read>,
        most: u64,
    ) -> Result<Vec<Component>>;
    /// The Kubernetes versions that the services' clusters run, where they are known.
    async fn services_kubernetes(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, String>>;
}

/// Objects of one cluster that are listed.
const OF_A_CLUSTER: u64 = 1_000;
/// Objects that a service's warnings name; the rest is counted.
const WARNED: usize = 20;
/// Source of the warnings.
const SOURCE: &str = "deprecation";

impl App {
    /// Objects of services that are written in API versions that go away; services without any are left out.
    pub async fn services_deprecations(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, Vec<DeprecatedComponent>>> {
        let mut found = self.deprecations_of(&self.authorized_many::<Service, _>(ctx, ids).await?).await?;
        let masks = self.masks(ctx, found.keys().copied()).await?;
        for (id, deprecated) in &mut found {
            masks.apply_all(*id, deprecated, masking::deprecated);
        }
        Ok(found)
    }

    /// The same of all services of a cluster, each service's together.
    pub async fn cluster_deprecations(
        &self,
        ctx: &OpCtx,
        selector: &ClusterSelector,
    ) -> Result<Vec<DeprecatedComponent>> {
        let cluster = self.authorized::<Cluster, Read>(ctx, selector).await?;
        let version = cluster.facts.current_version.as_deref().and_then(KubernetesMinor::parse);
        let Some(version) = version else { return Ok(Vec::new()) };
        let listed = self.store.cluster_listed_components(&cluster, OF_A_CLUSTER).await?;
        let mut found: Vec<_> =
            listed.into_iter().filter_map(|component| deprecated(component, version)).collect();
        let masks = self.masks(ctx, found.iter().map(|one| one.component.service_id)).await?;
        for one in &mut found {
            masks.apply(one.component.service_id, one, masking::deprecated);
        }
        Ok(found)
    }

    /// Warns of objects whose API version the cluster does not serve any more.
    pub(crate) async fn with_removed_apis(
        &self,
        services: &[Authorized<Service, Read>],
        mut errors: HashMap<ServiceId, Vec<ServiceError>>,
    ) -> Result<HashMap<ServiceId, Vec<ServiceError>>> {
        for (id, found) in self.deprecations_of(services).await? {
            let gone: Vec<&DeprecatedComponent> =
                found.iter().filter(|one| one.deprecation.removed).collect();
            let told = errors.entry(id).or_default();
            told.extend(gone.iter().take(WARNED).map(|one| warning(words(one))));
            if let Some(more) = gone.len().checked_sub(WARNED).filter(|more| *more > 0) {
                told.push(warning(format!("and {more} more objects in API versions that are not served")));
            }
        }
        Ok(errors)
    }

    async fn deprecations_of(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<DeprecatedComponent>>> {
        let mut found: HashMap<ServiceId, Vec<DeprecatedComponent>> = HashMap::new();
        let listed = self.store.services_listed_components(services).await?;
        if listed.is_empty() {
            return Ok(found);
        }
        let versions = self.store.services_kubernetes(services).await?;
        for component in listed {
            let id = component.service_id;
            let version = versions.get(&id).and_then(|text| KubernetesMinor::parse(text));
            found.entry(id).or_default().extend(version.and_then(|version| deprecated(component, version)));
        }
        found.retain(|_, all| !all.is_empty());
        Ok(found)
    }
}

fn deprecated(component: Component, version: KubernetesMinor) -> Option<DeprecatedComponent> {
    let deprecation = ApiDeprecation::of(&component.key, version)?;
    Some(DeprecatedComponent { component, deprecation })
}

fn warning(message: String) -> ServiceError {
    ServiceError { source: SOURCE.to_owned(), message, warning: true, terminal: false, location: None }
}

fn words(DeprecatedComponent { component, deprecation }: &DeprecatedComponent) -> String {
    let key = &component.key;
    let place =
        if key.namespace.is_empty() { key.name.clone() } else { format!("{}/{}", key.namespace, key.name) };
    let api =
        if key.group.is_empty() { key.version.clone() } else { format!("{}/{}", key.group, key.version) };
    format!("{} {place} is written as {api}, {}", key.kind, deprecation.words())
}
