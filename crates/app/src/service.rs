//! Services.

use async_trait::async_trait;
use plural_core::access::Scope;
use plural_core::cluster::Cluster;
use plural_core::component::Component;
use plural_core::data_key::KeyOwner;
use plural_core::ids::{ClusterId, ProjectId, RepositoryId, RevisionId, ServiceContextId, ServiceId};
use plural_core::policy::Policy;
use plural_core::repository::Repository;
use plural_core::revision::Revision;
use plural_core::service::{
    Configuration, ConfigurationEdit, NewService, Rendering, Service, ServiceChange, ServiceColumn,
};
use plural_core::service_error::ServiceError;
use plural_core::specs::{Edit, Handle, KubeName, SyncConfig};
use plural_core::status::ServiceStatus;
use plural_core::{Error, Page, PageArgs, PageRequest, Result};

use crate::access::{Audited, Authorized, Bindable, Grant, Noun, Read, Write};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::dependency::LinksRequest;
use crate::global_service::Ownership;
use crate::many::CONFIGURATION_READ;
use crate::masking;
use crate::policy;
use crate::project_limits::{Asks, references_refused};
use crate::records::{Sortable, record};
use crate::rendering::{SealedValues, ServiceSecrets, rendering_news};
use crate::repository::RepositorySelector;
use crate::seal::Sealed;
use crate::secret::random;
use crate::service_life::with_notes;
use uuid::Uuid;

/// Which service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceSelector {
    /// By id.
    Id(ServiceId),
    /// By its cluster's handle and its name.
    Handle(Handle, KubeName),
}

/// Which services of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ServiceFilter {
    /// On this cluster.
    pub cluster_id: Option<ClusterId>,
    /// On clusters of this project.
    pub project_id: Option<ProjectId>,
    /// Read from this repository: as their own, for their chart, or as a further source.
    pub repository_id: Option<RepositoryId>,
    /// Whose templates read this context.
    pub context_id: Option<ServiceContextId>,
    /// With this status.
    pub status: Option<ServiceStatus>,
    /// Name contains this.
    pub q: Option<String>,
}

/// A service to make.
#[derive(Debug)]
pub struct ServiceCreate {
    /// Id.
    pub id: ServiceId,
    /// Id of its first revision.
    pub revision_id: RevisionId,
    /// The rest. Its configuration is not kept from here but from `configuration`.
    pub new: NewService,
    /// Configuration, sealed for `service:ID:configuration`.
    pub configuration: Sealed,
    /// Values of its charts.
    pub values: SealedValues,
    /// The renderer's random seed, sealed for `service:ID:seed`.
    pub seed: Sealed,
    /// Whose instance it is.
    pub owner: Option<Ownership>,
    /// What it is tied to.
    pub links: LinksRequest,
}

/// A change of a service.
#[derive(Debug)]
pub struct ServiceUpdate {
    /// What changes.
    pub change: ServiceChange,
    /// Id of the revision it makes, when it makes one.
    pub revision_id: RevisionId,
    /// New configuration, sealed.
    pub configuration: Option<Sealed>,
    /// The sealed configuration that the new one was made from, where values of it stay. The store refuses the change with
    /// [`plural_core::Error::Conflict`] when the newest revision has another by then.
    pub configuration_over: Option<Sealed>,
    /// New values of its charts.
    pub values: SealedValues,
    /// Whose instance it becomes.
    pub owner: Option<Ownership>,
    /// What it is tied to.
    pub links: LinksRequest,
}

/// One of many services to make.
#[derive(Debug)]
pub struct ServiceMake<'a> {
    /// On this cluster, by whom.
    pub by: Audited<'a, Cluster, Write>,
    /// Where it is read from.
    pub repository: Option<Authorized<Repository, Read>>,
    /// The service.
    pub create: ServiceCreate,
}

/// One of many services to change.
#[derive(Debug)]
pub struct ServiceRemake<'a> {
    /// This one, by whom.
    pub by: Audited<'a, Service, Write>,
    /// Where it is read from, where that changes.
    pub repository: Option<Authorized<Repository, Read>>,
    /// The change.
    pub update: ServiceUpdate,
}

/// How often a change that keeps values of a configuration is tried while others change it.
const MERGE_TRIES: u32 = 5;

record!(Service, ServiceId, ServiceSelector, ServiceFilter);

impl Sortable for Service {
    type Column = ServiceColumn;
}

impl Noun for Service {
    const NOUN: &'static str = "service";

    fn identity(&self) -> (Option<Uuid>, String) {
        (Some(self.id.uuid()), self.name.to_string())
    }

    fn guarded_by(&self, scope: Scope) -> Scope {
        match scope {
            Scope::Chain(bindings) if self.agent_upgrade => Scope::AgentUpgrade(bindings),
            scope => scope,
        }
    }
}

impl Bindable for Service {
    fn policy(&self) -> Policy {
        self.id.into()
    }
}

/// Services.
#[async_trait]
pub trait ServiceStore: Send + Sync + 'static {
    /// A new service with its first revision and its bindings. [`plural_core::Error::Conflict`] for a cycle of dependencies.
    async fn service_create(
        &self,
        by: Audited<'_, Cluster, Write>,
        repository: Option<&Authorized<Repository, Read>>,
        service: &ServiceCreate,
        grant: Option<&Grant>,
    ) -> Result<Service>;
    /// A changed service with its bindings, and with a revision when it changes what is applied.
    async fn service_update(
        &self,
        by: Audited<'_, Service, Write>,
        repository: Option<&Authorized<Repository, Read>>,
        update: &ServiceUpdate,
        grant: Option<&Grant>,
    ) -> Result<Service>;
    /// New services without bindings of their own: all or none of them, in as many statements as for one.
    async fn services_create(&self, all: &[ServiceMake<'_>]) -> Result<()>;
    /// Changed services that keep their bindings: all or none of them, in few statements.
    async fn services_update(&self, all: &[ServiceRemake<'_>]) -> Result<()>;
    /// Intent destroy, of the service and of those in `with`, each after what depends on it; refuses a protected one, and while
    /// others depend on one of them.
    async fn service_delete(
        &self,
        by: Audited<'_, Service, Write>,
        with: &[Audited<'_, Service, Write>],
    ) -> Result<Service>;
    /// Forgets the service; its objects stay. Refuses while others depend on it.
    async fn service_detach(&self, by: Audited<'_, Service, Write>) -> Result<Service>;
    /// Asks the agent to look again though nothing changed, and the jobs to fetch its repository.
    async fn service_kick(&self, by: Audited<'_, Service, Write>) -> Result<Service>;
    /// What its agent last saw.
    async fn service_components(&self, service: &Authorized<Service, Read>) -> Result<Vec<Component>>;
    /// What is wrong with it.
    async fn service_errors(&self, service: &Authorized<Service, Read>) -> Result<Vec<ServiceError>>;
    /// Its revisions.
    async fn service_revisions(
        &self,
        service: &Authorized<Service, Read>,
        page: &PageRequest,
    ) -> Result<Page<Revision>>;
    /// Its current revision.
    async fn service_revision(&self, service: &Authorized<Service, Read>) -> Result<Revision>;
    /// What [`Service::settings_revision`] keeps sealed. Reading secrets needs the right to write them.
    async fn service_secrets(&self, service: &Authorized<Service, Write>) -> Result<ServiceSecrets>;
    /// What its newest revision keeps sealed, which a change goes on from: another one than the current where it is pinned.
    async fn service_newest_secrets(&self, service: &Authorized<Service, Write>) -> Result<ServiceSecrets>;
}

/// A new service that may be made wherever its project lets it be read from.
pub(crate) struct CheckedService {
    pub(crate) new: NewService,
    pub(crate) repository: Option<Authorized<Repository, Read>>,
    /// Taken out of `new`, and not sealed yet.
    pub(crate) configuration: Configuration,
    links: LinksRequest,
}

/// A change that may be made of any service that its project lets be read from there.
pub(crate) struct CheckedChange {
    pub(crate) change: ServiceChange,
    pub(crate) repository: Option<Authorized<Repository, Read>>,
    links: LinksRequest,
}

impl App {
    /// A new service; needs write access to the cluster, admin access where it comes with bindings of its own, and read
    /// access to the repository.
    pub async fn service_create(
        &self,
        ctx: &OpCtx,
        cluster: &ClusterSelector,
        new: NewService,
    ) -> Result<Service> {
        // Boxed: it is large, and part of what every request may be.
        Box::pin(self.service_make(ctx, cluster, new, None)).await
    }

    /// A new service, perhaps an instance of a global one.
    pub(crate) async fn service_make(
        &self,
        ctx: &OpCtx,
        selector: &ClusterSelector,
        new: NewService,
        owner: Option<Ownership>,
    ) -> Result<Service> {
        let cluster = self.authorized::<Cluster, Write>(ctx, selector).await?;
        if cluster.deleted_at.is_some() {
            return Err(Error::conflict("the cluster is being deleted"));
        }
        let checked = self.service_checked(ctx, cluster.id, new).await?;
        let rendering = checked.new.rendering.over(Rendering::default());
        if rendering.managed_namespace.is_some() && owner.is_none() {
            return Err(Error::conflict(
                "a managed namespace's service cannot be cloned; add targets to the managed namespace",
            ));
        }
        let asks = Asks {
            cluster: cluster.id,
            namespace: &checked.new.namespace,
            repository: checked.repository.as_deref(),
            rendering: &rendering,
            sync_config: &checked.new.sync_config,
        };
        self.limits_allow(ctx, &asks).await?;
        self.references_allow(cluster.id, asks.namespace, &checked.configuration).await?;
        let id = ServiceId::new();
        let bindings = &checked.new.bindings;
        let grant = if bindings.is_empty() {
            None
        } else {
            Some(policy::grant(ctx, self.authorized::<Cluster, _>(ctx, selector).await, id, bindings)?)
        };
        let create = self.service_sealed(id, cluster.id, &checked, owner).await?;
        let by = cluster.audited_new(ctx, "service.create", "service", id, &create.new.name);
        self.store.service_create(by, checked.repository.as_ref(), &create, grant.as_ref()).await
    }

    /// What can be known to be wrong with a new service, and what it names looked up.
    pub(crate) async fn service_checked(
        &self,
        ctx: &OpCtx,
        cluster: ClusterId,
        mut new: NewService,
    ) -> Result<CheckedService> {
        let repository = self.service_repository(ctx, new.repository_id).await?;
        new.rendering = self.rendering_checked(ctx, new.rendering).await?;
        match (&repository, &new.git) {
            (Some(_), Some(_)) => {}
            (Some(_), None) => return Err(Error::invalid("attributes.git", "must name a ref and a folder")),
            (None, Some(_)) => {
                return Err(Error::invalid("attributes.repositoryId", "must name the repository of \"git\""));
            }
            (None, None) if new.rendering.over(Rendering::default()).has_source() => {}
            (None, None) => {
                return Err(Error::invalid(
                    "attributes.repositoryId",
                    "a repository or a chart in \"helm\" is required",
                ));
            }
        }
        new.sync_config.check().map_err(|fault| fault.within("syncConfig"))?;
        check_version(new.version.as_deref())?;
        let links = self.links_checked(ctx, cluster, std::mem::take(&mut new.links)).await?;
        let configuration = std::mem::take(&mut new.configuration);
        configuration.check()?;
        Ok(CheckedService { new, repository, configuration, links })
    }

    /// A new service as it is stored.
    pub(crate) async fn service_sealed(
        &self,
        id: ServiceId,
        cluster: ClusterId,
        checked: &CheckedService,
        owner: Option<Ownership>,
    ) -> Result<ServiceCreate> {
        let CheckedService { new, repository: _, configuration, links } = checked;
        let key = self.owner_on(cluster).await?;
        Ok(ServiceCreate {
            id,
            revision_id: RevisionId::new(),
            configuration: self.seal_configuration(key, id, configuration).await?,
            values: self.seal_values(key, id, &new.rendering).await?,
            seed: self.new_seed(key, id).await?,
            owner,
            links: links.clone(),
            new: new.clone(),
        })
    }

    /// A changed service; its bindings need admin access to it. An instance of a global service is changed through that.
    pub async fn service_update(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
        change: ServiceChange,
    ) -> Result<Service> {
        let merges = matches!(change.configuration, Some(ConfigurationEdit::Merge(_)));
        let mut left = MERGE_TRIES;
        loop {
            left -= 1;
            match Box::pin(self.service_change(ctx, selector, change.clone(), None)).await {
                // Perhaps another change of the configuration came first: then this one is made over that.
                Err(Error::Conflict { .. }) if merges && left > 0 => {}
                done => return done,
            }
        }
    }

    /// A changed service, perhaps because its global service changed.
    pub(crate) async fn service_change(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
        change: ServiceChange,
        owner: Option<Ownership>,
    ) -> Result<Service> {
        let (selector, grant) = if change.bindings.is_empty() {
            (selector.clone(), None)
        } else {
            let service = self.authorized::<Service, _>(ctx, selector).await?;
            (ServiceSelector::Id(service.id), Some(Grant::on(&service, ctx, &change.bindings)?))
        };
        let service = self.authorized::<Service, Write>(ctx, &selector).await?;
        match owner {
            None => check_own(&service)?,
            Some(owner) => check_taken(&service, owner)?,
        }
        if service.deleted_at.is_some() {
            return Err(Error::conflict("the service is being deleted"));
        }
        // A reference without a namespace moves with the service, one with a namespace does not.
        let keeps = change.rendering.is_empty() && change.namespace.is_none();
        let secrets = if keeps && change.configuration.is_none() {
            None
        } else {
            Some(self.store.service_newest_secrets(&service).await?)
        };
        // Before anything is asked of its caller: to repeat what is so already needs no right to it.
        let mut change = self.service_news(&service, change, secrets.as_ref()).await?;
        if owner.is_none() {
            // Of an instance it makes a revision in any case: that is how a rollout sees that it arrived.
            change.version = change.version.filter(|version| *version != service.version);
        }
        let checked = self.change_checked(ctx, service.cluster_id, change).await?;
        let update = self.service_changed(&service, &checked, secrets.as_ref(), owner).await?;
        let settings = service.settings().changed(&update.change)?;
        let difference = update.change.difference(&service.settings(), &settings);
        if difference.asks_for_more && !service.agent_upgrade {
            let asks = Asks {
                cluster: service.cluster_id,
                namespace: update.change.namespace.as_ref().unwrap_or(&service.namespace),
                repository: checked.repository.as_deref(),
                rendering: &settings.rendering,
                sync_config: &settings.sync_config,
            };
            self.limits_allow(ctx, &asks).await?;
        }
        if (update.configuration.is_some() || update.change.namespace.is_some())
            && let Some(secrets) = &secrets
        {
            let sealed = update.configuration.as_ref().unwrap_or(&secrets.configuration);
            let configuration = self.open_configuration(service.id, sealed).await?;
            let namespace = update.change.namespace.as_ref().unwrap_or(&service.namespace);
            if service.agent_upgrade {
                references_refused(namespace, None, &configuration)?;
            } else {
                self.references_allow(service.cluster_id, namespace, &configuration).await?;
            }
        }
        let by = service.audited(ctx, "service.update");
        let service =
            self.store.service_update(by, checked.repository.as_ref(), &update, grant.as_ref()).await?;
        if grant.is_some() {
            self.proxy.access_changed();
        }
        Ok(service)
    }

    /// What can be known to be wrong with a change, whichever service it is of, and what it names looked up.
    pub(crate) async fn change_checked(
        &self,
        ctx: &OpCtx,
        cluster: ClusterId,
        mut change: ServiceChange,
    ) -> Result<CheckedChange> {
        check_version(change.version.as_deref())?;
        let repository = self.service_repository(ctx, change.repository_id).await?;
        change.rendering = self.rendering_checked(ctx, change.rendering).await?;
        if let Some(ConfigurationEdit::Replace(configuration)) = &change.configuration {
            configuration.check()?;
        }
        let links = self.links_checked(ctx, cluster, std::mem::take(&mut change.links)).await?;
        Ok(CheckedChange { change, repository, links })
    }

    /// The change without what is so already: clients send whole objects. `secrets` are the service's current ones, needed where
    /// it changes how it becomes objects.
    ///
    /// What is dropped here, the store does not write either. Otherwise it would put back what somebody else changed since this
    /// service was read, and nobody would have asked the limits of its project.
    async fn service_news(
        &self,
        service: &Service,
        mut change: ServiceChange,
        secrets: Option<&ServiceSecrets>,
    ) -> Result<ServiceChange> {
        // A ref, paths and charts are of a repository. Where it changes, what is given of them is part of the change, although it is so
        // already: without it, the store would join the new repository to a ref that somebody else has given meanwhile.
        let moves = change.repository_id.is_some_and(|id| service.repository_id != Some(id));
        if !moves {
            if let Some(secrets) = secrets {
                let values = self.open_values(service.id, secrets).await?;
                change.rendering = rendering_news(service, change.rendering, values);
            }
            change.git = change.git.filter(|git| service.git.as_ref() != Some(git));
            // And where they change, the repository is.
            if change.git.is_none() && change.rendering.is_empty() {
                change.repository_id = None;
            }
        }
        if let (Some(edit), Some(secrets)) = (&change.configuration, secrets) {
            let known = self.open_configuration(service.id, &secrets.configuration).await?;
            if edit.over(&known)? == known {
                change.configuration = None;
            }
        }
        // One that makes no sense is refused where it is applied.
        let is_so = |edit: &Edit<SyncConfig>| {
            edit.clone().over(service.sync_config.clone()).is_ok_and(|config| config == service.sync_config)
        };
        change.sync_config = change.sync_config.filter(|edit| !is_so(edit));
        change.namespace = change.namespace.filter(|namespace| *namespace != service.namespace);
        change.dry_run = change.dry_run.filter(|dry_run| *dry_run != service.dry_run);
        change.templated = change.templated.filter(|templated| *templated != service.templated);
        Ok(change)
    }

    /// A change of this service as it is stored. `secrets` are its current ones, needed where it changes how it becomes objects.
    pub(crate) async fn service_changed(
        &self,
        service: &Service,
        checked: &CheckedChange,
        secrets: Option<&ServiceSecrets>,
        owner: Option<Ownership>,
    ) -> Result<ServiceUpdate> {
        let CheckedChange { change, repository, links } = checked;
        if repository.is_some() && change.git.is_none() && service.git.is_none() {
            return Err(Error::invalid("attributes.git", "must name a ref and a folder"));
        }
        // Once more: a check brings a chart into the form in which it is stored.
        let change = self.service_news(service, change.clone(), secrets).await?;
        let key = self.owner_on(service.cluster_id).await?;
        let (mut configuration, mut configuration_over) = (None, None);
        if let Some(edit) = &change.configuration {
            let known = match (edit, secrets) {
                (ConfigurationEdit::Replace(_), _) => Configuration::default(),
                (ConfigurationEdit::Merge(_), Some(secrets)) => {
                    configuration_over = Some(secrets.configuration.clone());
                    self.open_configuration(service.id, &secrets.configuration).await?
                }
                (ConfigurationEdit::Merge(_), None) => {
                    return Err(Error::internal("changing a configuration", "its values were not read"));
                }
            };
            configuration = Some(self.seal_configuration(key, service.id, &edit.over(&known)?).await?);
        }
        Ok(ServiceUpdate {
            revision_id: RevisionId::new(),
            configuration,
            configuration_over,
            values: self.seal_values(key, service.id, &change.rendering).await?,
            links: links.clone(),
            owner,
            change,
        })
    }

    /// Destroys a service: its objects go first, then it. Refused while others depend on it.
    pub async fn service_delete(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Service> {
        let service = self.authorized::<Service, _>(ctx, selector).await?;
        if !service.cascaded {
            check_own(&service)?;
        }
        self.check_uncopied(ctx, service.id).await?;
        self.check_undepended(ctx, &service).await?;
        self.store.service_delete(service.audited(ctx, "service.delete"), &[]).await
    }

    /// Forgets a service; its objects stay.
    pub async fn service_detach(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Service> {
        let service = self.authorized::<Service, _>(ctx, selector).await?;
        check_own(&service)?;
        self.check_uncopied(ctx, service.id).await?;
        self.check_undepended(ctx, &service).await?;
        self.store.service_detach(service.audited(ctx, "service.detach")).await
    }

    /// Looks again though nothing changed: fetches its repository and makes its agent reconcile.
    pub async fn service_kick(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Service> {
        let service = self.authorized::<Service, _>(ctx, selector).await?;
        self.store.service_kick(service.audited(ctx, "service.kick")).await
    }

    /// What its agent last saw.
    pub async fn service_components(&self, ctx: &OpCtx, id: ServiceId) -> Result<Vec<Component>> {
        let service = self.authorized::<Service, _>(ctx, &ServiceSelector::Id(id)).await?;
        let mut components = self.store.service_components(&service).await?;
        if !components.is_empty() {
            self.masks(ctx, [id]).await?.apply_all(id, &mut components, masking::component);
        }
        Ok(components)
    }

    /// What is wrong with it.
    pub async fn service_errors(&self, ctx: &OpCtx, id: ServiceId) -> Result<Vec<ServiceError>> {
        let service = self.authorized::<Service, _>(ctx, &ServiceSelector::Id(id)).await?;
        let errors = self.store.service_errors(&service).await?;
        let services = vec![service];
        let noted = services.iter().map(|service| (id, with_notes(service, errors.clone()))).collect();
        let errors = self.with_removed_apis(&services, noted).await?;
        let errors = self.with_windows(&services, errors).await?;
        let errors = self.with_waits(ctx, services, errors).await?;
        Ok(self.errors_masked(ctx, errors).await?.remove(&id).unwrap_or_default())
    }

    /// Its revisions, oldest first.
    pub async fn service_revisions(
        &self,
        ctx: &OpCtx,
        id: ServiceId,
        page: &PageArgs,
    ) -> Result<Page<Revision>> {
        let service = self.authorized::<Service, _>(ctx, &ServiceSelector::Id(id)).await?;
        self.store.service_revisions(&service, &page.request()?).await
    }

    /// Its current revision.
    pub async fn service_revision(&self, ctx: &OpCtx, id: ServiceId) -> Result<Revision> {
        let service = self.authorized::<Service, _>(ctx, &ServiceSelector::Id(id)).await?;
        self.store.service_revision(&service).await
    }

    /// Its configuration in clear; needs write access, of an instance to its global service as well.
    pub async fn service_configuration(&self, ctx: &OpCtx, id: ServiceId) -> Result<Configuration> {
        let service = self.service_unsealed(ctx, &ServiceSelector::Id(id)).await?;
        let secrets = self.store.service_secrets(&service).await?;
        let configuration = self.open_configuration(id, &secrets.configuration).await?;
        if !configuration.values.is_empty() {
            self.audit_read(ctx, &service, CONFIGURATION_READ).await?;
        }
        Ok(configuration)
    }

    async fn service_repository(
        &self,
        ctx: &OpCtx,
        id: Option<RepositoryId>,
    ) -> Result<Option<Authorized<Repository, Read>>> {
        match id {
            None => Ok(None),
            Some(id) => {
                let found = self.authorized::<Repository, _>(ctx, &RepositorySelector::Id(id)).await;
                found.map(Some).map_err(|error| error.named_in("attributes.repositoryId"))
            }
        }
    }

    async fn seal_configuration(
        &self,
        owner: KeyOwner,
        id: ServiceId,
        configuration: &Configuration,
    ) -> Result<Sealed> {
        let json = serde_json::to_vec(configuration)
            .map_err(|cause| Error::internal("writing a configuration", cause))?;
        self.sealer.keep(owner, &configuration_context(id), &json).await
    }

    pub(crate) async fn open_configuration(&self, id: ServiceId, sealed: &Sealed) -> Result<Configuration> {
        let json = self.sealer.open(&configuration_context(id), sealed).await?;
        // The parser's own message could quote a value.
        serde_json::from_slice(&json)
            .map_err(|_| Error::internal("reading a configuration", "it is not what was sealed"))
    }

    /// What a service's templates draw from.
    pub(crate) async fn new_seed(&self, owner: KeyOwner, id: ServiceId) -> Result<Sealed> {
        self.sealer.keep(owner, &seed_context(id), &random::<32>()?).await
    }

    pub(crate) async fn open_seed(&self, id: ServiceId, sealed: &Sealed) -> Result<Vec<u8>> {
        self.sealer.open(&seed_context(id), sealed).await
    }
}

fn configuration_context(id: ServiceId) -> String {
    format!("service:{id}:configuration")
}

fn seed_context(id: ServiceId) -> String {
    format!("service:{id}:seed")
}

/// An instance that somebody changed would be changed back, and one that somebody deleted would be made again.
pub(crate) fn check_own(service: &Service) -> Result<()> {
    if service.owner.is_some() {
        return Err(Error::conflict(format!(
            "the service {} is managed by a global service or managed namespace; change that, or exclude \
             this cluster from its targets",
            service.name
        )));
    }
    Ok(())
}

/// What an administrator of the installation marked is nobody's to take over.
pub(crate) fn check_taken(service: &Service, owner: Ownership) -> Result<()> {
    if service.agent_upgrade && service.owner != Some(owner.owner) {
        return Err(Error::conflict(format!(
            "the service {} is marked as the upgrade of its cluster's agent; remove the mark before it \
             becomes an instance",
            service.name
        )));
    }
    Ok(())
}

fn check_version(version: Option<&str>) -> Result<()> {
    match version {
        Some(version)
            if version.is_empty() || version.len() > 64 || version.chars().any(char::is_control) =>
        {
            Err(Error::invalid("attributes.version", "must be a short label such as 1.2.3"))
        }
        _ => Ok(()),
    }
}
