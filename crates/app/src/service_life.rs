//! What a person does to a service besides changing it: roll back, release, stop, go on, copy.

use async_trait::async_trait;
use plural_core::access::Scope;
use plural_core::audit::AuditRow;
use plural_core::dependency::ServiceLinks;
use plural_core::ids::{RevisionId, ServiceId};
use plural_core::policy::BindingsChange;
use plural_core::service::{
    Configuration, HelmConfig, NewService, Pin, PinUntil, RendererConfig, Rendering, RenderingChange, Service,
};
use plural_core::service_error::ServiceError;
use plural_core::specs::{Change, KubeName};
use plural_core::{Error, Page, PageArgs, PageRequest, Result};

use crate::access::{Audited, Authorized, Read, Rollback, Write, authorize_installation};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::rendering::RenderingValues;
use crate::seal::Sealed;
use crate::service::{ServiceSelector, check_own};

/// What a person does to a service besides changing it.
#[async_trait]
pub trait ServiceLifeStore: Send + Sync + 'static {
    /// Goes back to a revision of the service and pins it there.
    async fn service_rollback(
        &self,
        by: Audited<'_, Service, Rollback>,
        to: RevisionId,
        until: PinUntil,
    ) -> Result<Service>;
    /// Goes on to the newest revision; the pin ends.
    async fn service_release(&self, by: Audited<'_, Service, Write>) -> Result<Service>;
    /// Has the agent write nothing.
    async fn service_pause(&self, by: Audited<'_, Service, Write>) -> Result<Service>;
    /// Lets the agent go on.
    async fn service_resume(&self, by: Audited<'_, Service, Write>) -> Result<Service>;
    /// Gives it another seed: what its templates generate is other from now on.
    async fn service_seed_rotate(&self, by: Audited<'_, Service, Write>, seed: &Sealed) -> Result<Service>;
    /// Marks it as the upgrade of its cluster's agent, or takes the mark off.
    ///
    /// # Errors
    /// [`plural_core::Error::Conflict`] when another service of the cluster has the mark.
    async fn service_agent_upgrade(&self, by: Audited<'_, Service, Write>, marked: bool) -> Result<Service>;
    /// Lines of the audit log that are about the service.
    async fn service_events(
        &self,
        service: &Authorized<Service, Read>,
        page: &PageRequest,
    ) -> Result<Page<AuditRow>>;
}

/// What is other about a copy of a service.
#[derive(Debug, Clone)]
pub struct ServiceClone {
    /// Its name.
    pub name: KubeName,
    /// Its namespace; else that of the service it is copied from.
    pub namespace: Option<KubeName>,
    /// Values that it is given besides, or instead.
    pub configuration: Configuration,
}

impl App {
    /// Goes back to one of the service's revisions and stays there: what comes from its sources
    /// waits until it is released, or for the next commit.
    pub async fn service_rollback(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
        to: RevisionId,
        until: PinUntil,
    ) -> Result<Service> {
        if matches!(until, PinUntil::Window | PinUntil::Dependencies) {
            return Err(Error::invalid("until", "must be RELEASE or NEXT_COMMIT"));
        }
        let service = self.authorized::<Service, _>(ctx, selector).await?;
        self.store.service_rollback(service.audited(ctx, "service.rollback"), to, until).await
    }

    /// Lets a pinned service go on to its newest revision.
    pub async fn service_release(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Service> {
        let service = self.authorized::<Service, _>(ctx, selector).await?;
        self.store.service_release(service.audited(ctx, "service.release")).await
    }

    /// Has the agent write nothing of the service: no apply, no repair, no deletion.
    pub async fn service_pause(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Service> {
        let service = self.authorized::<Service, _>(ctx, selector).await?;
        self.store.service_pause(service.audited(ctx, "service.pause")).await
    }

    /// Has its templates generate other passwords, keys and certificates than before, in its cluster only.
    pub async fn service_seed_rotate(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Service> {
        let service = self.authorized::<Service, _>(ctx, selector).await?;
        let owner = self.owner_on(service.cluster_id).await?;
        let seed = self.new_seed(owner, service.id).await?;
        self.store.service_seed_rotate(service.audited(ctx, "service.seed.rotate"), &seed).await
    }

    /// Lets the agent go on.
    pub async fn service_resume(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Service> {
        let service = self.authorized::<Service, _>(ctx, selector).await?;
        self.store.service_resume(service.audited(ctx, "service.resume")).await
    }

    /// Marks the service as the upgrade of its cluster's agent, which lets it reach the agent's namespace and leaves it to
    /// administrators of the installation; or takes the mark off. Only such administrators may; a cluster has one at most.
    pub async fn service_agent_upgrade(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
        marked: bool,
    ) -> Result<Service> {
        // Who may not see it hears nothing of it; who may hears who may mark it.
        let read = self.authorized::<Service, Read>(ctx, selector).await?;
        authorize_installation::<Write>(ctx, Scope::AdminOnly)?;
        check_own(&read)?;
        let service = self.authorized::<Service, Write>(ctx, selector).await?;
        let action = if marked { "service.agent_upgrade.mark" } else { "service.agent_upgrade.unmark" };
        self.store.service_agent_upgrade(service.audited(ctx, action), marked).await
    }

    /// What happened to the service, oldest first: who did what, and when.
    pub async fn service_events(
        &self,
        ctx: &OpCtx,
        id: ServiceId,
        page: &PageArgs,
    ) -> Result<Page<AuditRow>> {
        let service = self.authorized::<Service, _>(ctx, &ServiceSelector::Id(id)).await?;
        let mut events = self.store.service_events(&service, &page.request()?).await?;
        for edge in &mut events.edges {
            // From where, and with what, is for administrators of the installation.
            edge.node.entry.address = None;
            edge.node.entry.token_id = None;
        }
        Ok(events)
    }

    /// A copy of a service on a cluster, read from the same sources. Its secrets come along, so it
    /// needs write access to the service as well as to the cluster.
    pub async fn service_clone(
        &self,
        ctx: &OpCtx,
        of: &ServiceSelector,
        onto: &ClusterSelector,
        clone: ServiceClone,
    ) -> Result<Service> {
        let service = self.service_unsealed(ctx, of).await?;
        if service.pin.is_some() {
            return Err(Error::conflict(
                "the service is pinned to a revision, but a clone uses the newest one; `plural cd services release` lets it go on",
            ));
        }
        let secrets = self.store.service_secrets(&service).await?;
        let mut configuration = self.open_configuration(service.id, &secrets.configuration).await?;
        let values = self.open_values(service.id, &secrets).await?;
        let ServiceClone { name, namespace, configuration: other } = clone;
        let id = service.id;
        let contexts = self.services_contexts(ctx, &[id]).await?.remove(&id);
        let contexts = contexts.map(|all| all.iter().map(|context| context.id).collect());
        let imports = self.services_imports(ctx, &[id]).await?.remove(&id);
        let imports = imports.map(|all| all.iter().map(|import| import.stack_id).collect());
        configuration.extend(other);
        let Service {
            id: _,
            name: _,
            namespace: same_namespace,
            cluster_id: _,
            repository_id,
            git,
            version,
            docs_path,
            rendering,
            sync_config,
            protect: _,
            dry_run,
            templated,
            interval_seconds,
            status: _,
            component_status: _,
            failing_since: _,
            recovered_at: _,
            revision_id: _,
            sha: _,
            message: _,
            author: _,
            artifact_digest: _,
            pin: _,
            paused: _,
            sequence: _,
            observed: _,
            owner: _,
            withheld: _,
            cascaded: _,
            deleted_at: _,
            outlives: _,
            // A copy is marked by whoever may, and not before.
            agent_upgrade: _,
            created_at: _,
            updated_at: _,
        } = service.into_inner();
        let new = NewService {
            name,
            namespace: namespace.unwrap_or(same_namespace),
            repository_id,
            git,
            version: Some(version),
            docs_path,
            rendering: whole(rendering, values),
            sync_config,
            protect: false,
            dry_run,
            templated,
            interval_seconds,
            configuration,
            // Names of services on one cluster say nothing on another.
            links: ServiceLinks { contexts, imports, dependencies: None },
            bindings: BindingsChange::default(),
        };
        self.service_create(ctx, onto, new).await
    }
}

/// Whether the caller may change what a service is read from that upgrades its cluster's agent: another content of it is another
/// agent.
pub(crate) fn may_feed_agent_upgrades(ctx: &OpCtx) -> bool {
    authorize_installation::<Write>(ctx, Scope::AdminOnly).is_ok()
}

/// Refuses whoever may not, where such a service `is_fed`. It may be marked after this look: a store looks again.
pub(crate) fn check_fed(may_feed: bool, is_fed: bool, noun: &'static str) -> Result<()> {
    if is_fed && !may_feed { Err(feeds_agent_upgrade(noun)) } else { Ok(()) }
}

/// What is told to whoever may not change a thing because the upgrade of an agent is read from it.
pub fn feeds_agent_upgrade(noun: &'static str) -> Error {
    Error::forbidden(format!(
        "a service that is marked as the upgrade of its cluster's agent reads this {noun}; only installation \
         administrators can change it"
    ))
}

/// What is wrong with a service, and first what somebody did to it: whoever asks should not have to know.
pub(crate) fn with_notes(service: &Service, mut errors: Vec<ServiceError>) -> Vec<ServiceError> {
    // What waits by itself has notes that say for what.
    let by_person = |pin: &&Pin| matches!(pin.until, PinUntil::Release | PinUntil::NextCommit);
    if let Some(pin) = service.pin.as_ref().filter(by_person) {
        let words = pin.words(service.revision_id, service.sha.as_deref());
        errors.insert(0, ServiceError::note("pin", words));
    }
    if service.paused {
        let words = "paused: no apply, repair or prune until it is resumed";
        errors.insert(0, ServiceError::note("pause", words));
    }
    errors
}

/// A rendering with its values as something new is told of it.
fn whole(rendering: Rendering, values: RenderingValues) -> RenderingChange {
    let Rendering { helm, kustomize, renderers, sources, managed_namespace } = rendering;
    let mut inline = values.renderers.into_iter();
    let renderers: Vec<RendererConfig> = renderers
        .into_iter()
        .map(|renderer| RendererConfig { renderer, values: inline.next().flatten() })
        .collect();
    RenderingChange {
        helm: helm.map_or(Change::Keep, |helm| Change::Set(HelmConfig { helm, values: values.helm })),
        kustomize: kustomize.map_or(Change::Keep, Change::Set),
        renderers: if renderers.is_empty() { Change::Keep } else { Change::Set(renderers) },
        sources: if sources.is_empty() { Change::Keep } else { Change::Set(sources) },
        managed_namespace: managed_namespace.map_or(Change::Keep, Change::Set),
    }
}
