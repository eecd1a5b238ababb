//! Services that depend on each other.

use std::borrow::Cow;
use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::cluster::Cluster;
use plural_core::dependency::{Dependency, DependencyRef, ServiceLinks, check_dependencies};
use plural_core::ids::{ClusterId, ProjectId, ServiceContextId, ServiceId};
use plural_core::service::{PinUntil, Service};
use plural_core::service_error::ServiceError;
use plural_core::specs::{Handle, KubeName};
use plural_core::{Error, Result};

use crate::access::{Admin, Authorized, Read, Write};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::service::{ServiceSelector, check_own};
use crate::service_import::ImportsRequest;
use crate::source::ServiceRevise;

/// A dependency to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DependencyRequest {
    /// Its cluster; absent: that of the service.
    pub cluster: Option<(ClusterId, Handle)>,
    /// Its name.
    pub name: KubeName,
}

/// What a service is tied to; `None` leaves a part as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinksRequest {
    /// All that it depends on.
    pub dependencies: Option<Vec<DependencyRequest>>,
    /// All contexts that its templates read; whoever asks may use them.
    pub contexts: Option<ContextsRequest>,
    /// All stacks whose outputs its templates read; whoever asks may have it read them.
    pub imports: Option<ImportsRequest>,
}

/// The contexts that a service's templates read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextsRequest {
    /// All of them.
    pub ids: Vec<ServiceContextId>,
    /// Those that held no secret values when it was decided that they may be used: had they any by now, more would have
    /// to be asked.
    pub plain: Vec<ServiceContextId>,
}

/// Services that depend on each other. What they are is written with the services; the store holds new revisions back, and lets
/// them go on, in the transactions that change how a service is: nobody has to look again later.
#[async_trait]
pub trait DependencyStore: Send + Sync + 'static {
    /// What each of these services depends on, as it is now; those without are left out.
    async fn services_dependencies(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<Dependency>>>;
    /// The services that depend on each of these; those that none depends on are left out.
    async fn services_dependents(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<ServiceId>>>;
    /// The services that depend on this one, directly or through others, and are not being destroyed.
    async fn service_dependents_all(&self, service: &Authorized<Service, Read>) -> Result<Vec<ServiceId>>;
    /// The services of other clusters that depend on one of this cluster, and are not being destroyed.
    async fn cluster_dependents(&self, cluster: &Authorized<Cluster, Admin>) -> Result<Vec<ServiceId>>;
    /// The same ids, each after those of them that it depends on.
    async fn dependencies_first(&self, ids: &[ServiceId]) -> Result<Vec<ServiceId>>;
}

/// Services that a message names; the rest is counted.
const NAMED: usize = 10;
/// Services that are listed as depending on one.
const MOST_DEPENDENTS: usize = 100;
/// Dependents that are shown before a deletion; the rest is counted.
const SHOWN: usize = 100;

/// What a deletion takes with it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServiceDeletion {
    /// The services, in the order in which they go.
    pub services: Vec<Service>,
    /// Services that depend on it and that the caller may not see: they are in the way of a deletion.
    pub hidden: usize,
    /// Services that would go and are not listed because there are too many.
    pub omitted: usize,
}

impl App {
    /// What services depend on, as it is now.
    pub async fn services_dependencies(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, Vec<Dependency>>> {
        self.store.services_dependencies(&self.authorized_many::<Service, _>(ctx, ids).await?).await
    }

    /// The services that depend on these, as far as the caller may see them: the oldest [`MOST_DEPENDENTS`] of each.
    pub async fn services_dependents(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, Vec<Service>>> {
        let mut found =
            self.store.services_dependents(&self.authorized_many::<Service, _>(ctx, ids).await?).await?;
        for dependents in found.values_mut() {
            dependents.sort_unstable();
            dependents.truncate(MOST_DEPENDENTS);
        }
        let mut all: Vec<ServiceId> = found.values().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        let seen = self.authorized_many::<Service, Read>(ctx, &all).await?;
        let seen: HashMap<ServiceId, &Authorized<Service, Read>> =
            seen.iter().map(|service| (service.id, service)).collect();
        let visible = |ids: Vec<ServiceId>| -> Vec<Service> {
            ids.iter().filter_map(|id| seen.get(id)).map(|service| Service::clone(service)).collect()
        };
        Ok(found.into_iter().map(|(id, dependents)| (id, visible(dependents))).collect())
    }

    /// What would go with a service, in the order in which it would go: what depends on it first.
    pub async fn service_deletion(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
        cascade: bool,
    ) -> Result<ServiceDeletion> {
        let service = self.authorized::<Service, Read>(ctx, selector).await?;
        if !cascade {
            return Ok(ServiceDeletion {
                services: vec![service.into_inner()],
                ..ServiceDeletion::default()
            });
        }
        let mut ids = self.store.service_dependents_all(&service).await?;
        let visible = self.authorized_many::<Service, Read>(ctx, &ids).await?;
        let hidden = ids.len() - visible.len();
        let omitted = visible.len().saturating_sub(SHOWN);
        ids.push(service.id);
        let order = self.store.dependencies_first(&ids).await?;
        let places: HashMap<ServiceId, usize> = order.into_iter().rev().zip(0..).collect();
        let mut services: Vec<Service> = visible.into_iter().map(Authorized::into_inner).collect();
        services.sort_by_key(|one| places.get(&one.id).copied());
        services.truncate(SHOWN);
        services.push(service.into_inner());
        Ok(ServiceDeletion { services, hidden, omitted })
    }

    /// Destroys a service and everything that depends on it, each after what depends on it; needs write access to all.
    pub async fn service_delete_cascade(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Service> {
        let seen = self.authorized::<Service, Read>(ctx, selector).await?;
        let ids = self.store.service_dependents_all(&seen).await?;
        let service = self.authorized::<Service, _>(ctx, &ServiceSelector::Id(seen.id)).await?;
        let dependents = self.authorized_many::<Service, Write>(ctx, &ids).await?;
        if dependents.len() < ids.len() {
            return Err(Error::conflict(format!(
                "you cannot delete {} of the services that depend on it",
                ids.len() - dependents.len()
            )));
        }
        for one in dependents.iter().chain([&service]).filter(|one| !one.cascaded) {
            check_own(one)?;
        }
        for one in std::iter::once(service.id).chain(dependents.iter().map(|one| one.id)) {
            self.check_uncopied(ctx, one).await?;
        }
        let with: Vec<_> = dependents.iter().map(|one| one.audited(ctx, "service.delete")).collect();
        self.store.service_delete(service.audited(ctx, "service.delete"), &with).await
    }

    /// Refuses what would take away what others depend on, and names them.
    pub(crate) async fn check_undepended(
        &self,
        ctx: &OpCtx,
        service: &Authorized<Service, Write>,
    ) -> Result<()> {
        let seen = self.authorized::<Service, Read>(ctx, &ServiceSelector::Id(service.id)).await?;
        let ids = self.store.service_dependents_all(&seen).await?;
        if ids.is_empty() {
            return Ok(());
        }
        let names = self.names_of(ctx, &ids).await?;
        Err(Error::conflict(format!(
            "services depend on it: {}; delete them first, end their dependency, or delete with cascade",
            listed(&names)
        )))
    }

    /// Looks the clusters of dependencies up, and asks whether the caller may name what is named.
    pub(crate) async fn links_checked(
        &self,
        ctx: &OpCtx,
        cluster: ClusterId,
        links: ServiceLinks,
    ) -> Result<LinksRequest> {
        let ServiceLinks { dependencies, contexts, imports } = links;
        let dependencies = match dependencies {
            None => None,
            Some(named) => {
                check_dependencies(&named)?;
                let mut wishes = Vec::with_capacity(named.len());
                for one in named {
                    // Boxed: few name one elsewhere, and every change of a service has this in its future.
                    let wish = Box::pin(self.dependency_checked(ctx, cluster, one)).await?;
                    if wishes.contains(&wish) {
                        let reason = format!("lists {} twice", wish.name);
                        return Err(Error::invalid("attributes.dependencies", reason));
                    }
                    wishes.push(wish);
                }
                Some(wishes)
            }
        };
        let contexts = match contexts {
            None => None,
            Some(ids) => Some(self.contexts_usable(ctx, ids).await?),
        };
        let imports = match imports {
            None => None,
            // Boxed: few import anything.
            Some(ids) => Some(Box::pin(self.imports_usable(ctx, ids)).await?),
        };
        Ok(LinksRequest { dependencies, contexts, imports })
    }

    /// Whoever depends on a service elsewhere learns how it fares: they must be allowed to see it, or its cluster. And it cannot
    /// be deleted any more without them: across projects they must be allowed to change it, or its cluster.
    async fn dependency_checked(
        &self,
        ctx: &OpCtx,
        cluster: ClusterId,
        named: DependencyRef,
    ) -> Result<DependencyRequest> {
        let DependencyRef { cluster: handle, name } = named;
        let Some(handle) = handle else { return Ok(DependencyRequest { cluster: None, name }) };
        let seen = self.authorized::<Cluster, Read>(ctx, &ClusterSelector::Handle(handle.clone())).await;
        let id = match seen {
            Ok(seen) => seen.id,
            Err(Error::NotFound { .. }) => {
                let selector = ServiceSelector::Handle(handle.clone(), name.clone());
                let service =
                    self.authorized::<Service, Read>(ctx, &selector).await.map_err(|error| match error {
                        Error::NotFound { .. } => Error::invalid(
                            "attributes.dependencies",
                            format!("names {handle}/{name}: there is no such cluster, or you may not see it"),
                        ),
                        error => error,
                    })?;
                service.cluster_id
            }
            Err(error) => return Err(error),
        };
        if id != cluster && self.project_of(id).await? != self.project_of(cluster).await? {
            let selector = ServiceSelector::Handle(handle.clone(), name.clone());
            let may = match self.authorized::<Service, Write>(ctx, &selector).await {
                Err(Error::NotFound { .. }) => {
                    self.authorized::<Cluster, Write>(ctx, &ClusterSelector::Id(id)).await.map(drop)
                }
                other => other.map(drop),
            };
            may.map_err(|error| match error {
                Error::NotFound { .. } | Error::Forbidden { .. } => Error::forbidden(format!(
                    "depending on {handle}/{name} (another project) needs write access to it, because a \
                     dependency blocks its deletion"
                )),
                error => error,
            })?;
        }
        Ok(DependencyRequest { cluster: (id != cluster).then_some((id, handle)), name })
    }

    async fn project_of(&self, cluster: ClusterId) -> Result<ProjectId> {
        // Which project it is decides, and is told to nobody.
        let cluster =
            self.authorized::<Cluster, Read>(&self.system_ctx(), &ClusterSelector::Id(cluster)).await?;
        Ok(cluster.project_id)
    }

    /// Refuses to drain a cluster on whose services others depend, elsewhere, and names those that the caller may see.
    pub(crate) async fn check_undepended_elsewhere(
        &self,
        ctx: &OpCtx,
        cluster: &Authorized<Cluster, Admin>,
    ) -> Result<()> {
        let ids = self.store.cluster_dependents(cluster).await?;
        if ids.is_empty() {
            return Ok(());
        }
        let names = self.names_of(ctx, &ids).await?;
        Err(Error::conflict(format!(
            "services of other clusters depend on its services: {}; end their dependencies first",
            listed(&names)
        )))
    }

    /// The names of services; those that the caller may not see are counted.
    async fn names_of(&self, ctx: &OpCtx, ids: &[ServiceId]) -> Result<Vec<String>> {
        let visible = self.authorized_many::<Service, Read>(ctx, ids).await?;
        let mut names = self.service_names(ctx, visible.iter().map(|one| &**one)).await?;
        if visible.len() < ids.len() {
            names.push(format!("{} that you may not see", ids.len() - visible.len()));
        }
        Ok(names)
    }

    /// The moves that are made in several transactions, each after those that it depends on.
    pub(crate) async fn dependencies_first<'m>(
        &self,
        moves: &'m [ServiceRevise],
        at_once: usize,
    ) -> Result<Cow<'m, [ServiceRevise]>> {
        // The store orders those of one transaction.
        if moves.len() <= at_once {
            return Ok(Cow::Borrowed(moves));
        }
        let ids: Vec<ServiceId> = moves.iter().map(|step| step.id).collect();
        let order = self.store.dependencies_first(&ids).await?;
        let places: HashMap<ServiceId, usize> = order.into_iter().zip(0..).collect();
        let mut ordered = moves.to_vec();
        ordered.sort_by_key(|step| places.get(&step.id).copied());
        Ok(Cow::Owned(ordered))
    }

    /// Puts first for whom a service waits, and since when.
    pub(crate) async fn with_waits(
        &self,
        ctx: &OpCtx,
        services: Vec<Authorized<Service, Read>>,
        mut errors: HashMap<ServiceId, Vec<ServiceError>>,
    ) -> Result<HashMap<ServiceId, Vec<ServiceError>>> {
        let (leaving, staying): (Vec<_>, Vec<_>) = services.into_iter().partition(|one| one.outlives);
        let waiting: Vec<_> = staying
            .into_iter()
            .filter(|one| one.pin.as_ref().is_some_and(|pin| pin.until == PinUntil::Dependencies))
            .collect();
        if !waiting.is_empty() {
            let dependencies = self.store.services_dependencies(&waiting).await?;
            for service in &waiting {
                let none = Vec::new();
                let note = waiting_note(service, dependencies.get(&service.id).unwrap_or(&none));
                errors.entry(service.id).or_default().insert(0, note);
            }
        }
        if !leaving.is_empty() {
            let ids: Vec<ServiceId> = leaving.iter().map(|one| one.id).collect();
            let dependents = self.services_dependents(ctx, &ids).await?;
            for service in &leaving {
                let names = match dependents.get(&service.id) {
                    Some(found) if !found.is_empty() => self.service_names(ctx, found.iter()).await?,
                    _ => vec!["services that you may not see".to_owned()],
                };
                let words = format!("is deleted when these are gone, which depend on it: {}", listed(&names));
                errors.entry(service.id).or_default().insert(0, ServiceError::note("dependencies", words));
            }
        }
        Ok(errors)
    }

    pub(crate) async fn service_names<'s>(
        &self,
        ctx: &OpCtx,
        services: impl Iterator<Item = &'s Service>,
    ) -> Result<Vec<String>> {
        let services: Vec<&Service> = services.collect();
        let clusters: Vec<ClusterId> = services.iter().map(|one| one.cluster_id).collect();
        let clusters = self.get_many::<Cluster>(ctx, &clusters).await?;
        let mut names: Vec<String> = services
            .into_iter()
            .map(|one| match clusters.get(&one.cluster_id) {
                Some(cluster) => format!("{}/{}", cluster.handle, one.name),
                None => one.name.to_string(),
            })
            .collect();
        names.sort();
        Ok(names)
    }
}

fn waiting_note(service: &Service, dependencies: &[Dependency]) -> ServiceError {
    let waits: Vec<String> = dependencies
        .iter()
        .filter_map(|one| Some(format!("{} ({})", one.words(), one.obstacle()?)))
        .collect();
    let since = service.pin.as_ref().map(|pin| pin.at.format("%Y-%m-%d %H:%M:%S UTC").to_string());
    let what = if service.artifact_digest.is_some() {
        "the current revision keeps running"
    } else {
        "nothing is applied yet"
    };
    let whom = if waits.is_empty() { "its dependencies".to_owned() } else { listed(&waits) };
    let words = format!("waiting since {} for {whom}; {what}", since.unwrap_or_default());
    ServiceError::note("dependencies", words)
}

fn listed(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}
