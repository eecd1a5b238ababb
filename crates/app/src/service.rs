//! Services.

use std::collections::HashMap;

use plural_core::access::visibility;
use plural_core::{
    BindingTarget, Component, Configuration, Error, NewService, Page, PageArgs, Rendering, Repository,
    RepositoryId, Result, Revision, RevisionId, Service, ServiceChange, ServiceError, ServiceId,
};

use crate::access::{Act, Authorized, Grant, Read, Write};
use crate::app::App;
use crate::binding::{self, BindingsChange};
use crate::ctx::OpCtx;
use crate::ports::{
    ClusterSelector, Ownership, RepositorySelector, ServiceCreate, ServiceFilter, ServiceSelector,
    ServiceUpdate,
};
use crate::seal::Sealed;
use crate::secret::random;
use crate::service_life::with_notes;

impl App {
    pub(crate) async fn service_for<A: Act>(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
    ) -> Result<Authorized<Service, A>> {
        self.store.service_for(ctx.actor(), selector).await?.authorize(ctx)
    }

    /// One service.
    pub async fn service_get(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Service> {
        Ok(self.service_for::<Read>(ctx, selector).await?.into_inner())
    }

    /// Visible services.
    pub async fn service_list(
        &self,
        ctx: &OpCtx,
        filter: &ServiceFilter,
        page: &PageArgs,
    ) -> Result<Page<Service>> {
        self.store.service_list(&visibility(ctx.actor())?, filter, &page.request()?).await
    }

    /// A new service; needs write access to the cluster and read access to the repository.
    pub async fn service_create(
        &self,
        ctx: &OpCtx,
        cluster: &ClusterSelector,
        new: NewService,
    ) -> Result<Service> {
        self.service_make(ctx, cluster, new, BindingsChange::default(), None).await
    }

    /// [`Self::service_create`] with the service's own bindings; any of those need admin access to the cluster.
    pub async fn service_create_bound(
        &self,
        ctx: &OpCtx,
        cluster: &ClusterSelector,
        new: NewService,
        access: BindingsChange,
    ) -> Result<Service> {
        self.service_make(ctx, cluster, new, access, None).await
    }

    /// A new service, perhaps an instance of a global one.
    pub(crate) async fn service_make(
        &self,
        ctx: &OpCtx,
        selector: &ClusterSelector,
        mut new: NewService,
        access: BindingsChange,
        owner: Option<Ownership>,
    ) -> Result<Service> {
        let cluster = self.cluster_for::<Write>(ctx, selector).await?;
        if cluster.deleted_at.is_some() {
            return Err(Error::conflict("the cluster is being deleted"));
        }
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
                    "must be given, or a chart in \"helm\": a service is read from somewhere",
                ));
            }
        }
        new.sync_config.check()?;
        let rendering = new.rendering.over(Rendering::default());
        if rendering.managed_namespace.is_some() && owner.is_none() {
            return Err(Error::conflict(
                "a service that is a managed namespace has no copies: give the managed namespace more targets",
            ));
        }
        self.sources_allowed(ctx, cluster.id, repository.as_deref(), &rendering).await?;
        check_version(new.version.as_deref())?;
        let links = self.links_checked(ctx, cluster.id, std::mem::take(&mut new.links)).await?;
        let configuration = std::mem::take(&mut new.configuration);
        configuration.check()?;
        let id = ServiceId::new();
        let grant = if access.is_empty() {
            Grant::none()
        } else {
            binding::grant(ctx, self.cluster_for(ctx, selector).await, BindingTarget::Service(id), access)?
        };
        let create = ServiceCreate {
            id,
            revision_id: RevisionId::new(),
            configuration: self.seal_configuration(id, &configuration)?,
            values: self.seal_values(id, &new.rendering)?,
            seed: self.sealer.seal(&seed_context(id), &random::<32>()?)?,
            owner,
            links,
            new,
        };
        let by = cluster.audited_new(ctx, "service.create", "service", id, &create.new.name);
        self.store.service_create(by, repository.as_ref(), &create, &grant).await
    }

    /// A changed service. An instance of a global service is changed through that.
    pub async fn service_update(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
        change: ServiceChange,
    ) -> Result<Service> {
        self.service_change(ctx, selector, change, None).await
    }

    /// A changed service, perhaps because its global service changed.
    pub(crate) async fn service_change(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
        mut change: ServiceChange,
        owner: Option<Ownership>,
    ) -> Result<Service> {
        let service = self.service_for::<Write>(ctx, selector).await?;
        if owner.is_none() {
            check_own(&service)?;
        }
        if service.deleted_at.is_some() {
            return Err(Error::conflict("the service is being deleted"));
        }
        check_version(change.version.as_deref())?;
        let repository = self.service_repository(ctx, change.repository_id).await?;
        change.rendering = self.rendering_checked(ctx, change.rendering).await?;
        if repository.is_some() && change.git.is_none() && service.git.is_none() {
            return Err(Error::invalid("attributes.git", "must name a ref and a folder"));
        }
        if let Some(config) = &change.sync_config {
            config.check()?;
        }
        // A place that is not another place is no change: clients send whole objects.
        if change.repository_id == service.repository_id {
            change.repository_id = None;
        }
        if change.git == service.git {
            change.git = None;
        }
        let configuration = match &change.configuration {
            None => None,
            Some(configuration) => {
                configuration.check()?;
                Some(self.seal_configuration(service.id, configuration)?)
            }
        };
        change.rendering = self.rendering_news(&service, change.rendering).await?;
        if change.moves_source() {
            let rendering = change.rendering.over(service.rendering.clone());
            self.sources_allowed(ctx, service.cluster_id, repository.as_deref(), &rendering).await?;
        }
        if change.sync_config.as_ref() == Some(&service.sync_config) {
            change.sync_config = None;
        }
        let values = self.seal_values(service.id, &change.rendering)?;
        let links = self.links_checked(ctx, service.cluster_id, std::mem::take(&mut change.links)).await?;
        let update =
            ServiceUpdate { change, revision_id: RevisionId::new(), configuration, values, links, owner };
        self.store.service_update(service.audited(ctx, "service.update"), repository.as_ref(), &update).await
    }

    /// Destroys a service: its objects go first, then it. Refused while others depend on it.
    pub async fn service_delete(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Service> {
        let service = self.service_for(ctx, selector).await?;
        if !service.cascaded {
            check_own(&service)?;
        }
        self.check_uncopied(ctx, service.id).await?;
        self.check_undepended(ctx, &service).await?;
        self.store.service_delete(service.audited(ctx, "service.delete"), &[]).await
    }

    /// Forgets a service; its objects stay.
    pub async fn service_detach(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Service> {
        let service = self.service_for(ctx, selector).await?;
        check_own(&service)?;
        self.check_uncopied(ctx, service.id).await?;
        self.check_undepended(ctx, &service).await?;
        self.store.service_detach(service.audited(ctx, "service.detach")).await
    }

    /// Looks again though nothing changed: fetches its repository and makes its agent reconcile.
    pub async fn service_kick(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Service> {
        let service = self.service_for(ctx, selector).await?;
        self.store.service_kick(service.audited(ctx, "service.kick")).await
    }

    /// What its agent last saw.
    pub async fn service_components(&self, ctx: &OpCtx, id: ServiceId) -> Result<Vec<Component>> {
        let service = self.service_for(ctx, &ServiceSelector::Id(id)).await?;
        self.store.service_components(&service).await
    }

    /// What is wrong with it.
    pub async fn service_errors(&self, ctx: &OpCtx, id: ServiceId) -> Result<Vec<ServiceError>> {
        let service = self.service_for(ctx, &ServiceSelector::Id(id)).await?;
        let errors = self.store.service_errors(&service).await?;
        let errors = with_notes(&service, errors);
        self.with_waits(ctx, vec![service], HashMap::from([(id, errors)]))
            .await
            .map(|mut all| all.remove(&id).unwrap_or_default())
    }

    /// Its revisions, oldest first.
    pub async fn service_revisions(
        &self,
        ctx: &OpCtx,
        id: ServiceId,
        page: &PageArgs,
    ) -> Result<Page<Revision>> {
        let service = self.service_for(ctx, &ServiceSelector::Id(id)).await?;
        self.store.service_revisions(&service, &page.request()?).await
    }

    /// Its current revision.
    pub async fn service_revision(&self, ctx: &OpCtx, id: ServiceId) -> Result<Revision> {
        let service = self.service_for(ctx, &ServiceSelector::Id(id)).await?;
        self.store.service_revision(&service).await
    }

    /// Its configuration in clear; needs write access.
    pub async fn service_configuration(&self, ctx: &OpCtx, id: ServiceId) -> Result<Configuration> {
        let service = self.service_for::<Write>(ctx, &ServiceSelector::Id(id)).await?;
        let secrets = self.store.service_secrets(&service).await?;
        self.open_configuration(id, &secrets.configuration)
    }

    async fn service_repository(
        &self,
        ctx: &OpCtx,
        id: Option<RepositoryId>,
    ) -> Result<Option<Authorized<Repository, Read>>> {
        match id {
            None => Ok(None),
            Some(id) => Ok(Some(self.repository_for(ctx, &RepositorySelector::Id(id)).await?)),
        }
    }

    fn seal_configuration(&self, id: ServiceId, configuration: &Configuration) -> Result<Sealed> {
        let json = serde_json::to_vec(configuration)
            .map_err(|cause| Error::internal("writing a configuration", cause))?;
        self.sealer.seal(&configuration_context(id), &json)
    }

    pub(crate) fn open_configuration(&self, id: ServiceId, sealed: &Sealed) -> Result<Configuration> {
        let json = self.sealer.open(&configuration_context(id), sealed)?;
        // The parser's own message could quote a value.
        serde_json::from_slice(&json)
            .map_err(|_| Error::internal("reading a configuration", "it is not what was sealed"))
    }

    pub(crate) fn open_seed(&self, id: ServiceId, sealed: &Sealed) -> Result<Vec<u8>> {
        self.sealer.open(&seed_context(id), sealed)
    }
}

fn configuration_context(id: ServiceId) -> String {
    format!("service:{id}:configuration")
}

fn seed_context(id: ServiceId) -> String {
    format!("service:{id}:seed")
}

/// An instance that somebody changed would be changed back, and one that somebody deleted would be made again.
fn check_own(service: &Service) -> Result<()> {
    if service.owner.is_some() {
        return Err(Error::conflict(
            "the service is an instance of a global service or of a managed namespace: change that one, or leave this \
             cluster out of its targets",
        ));
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
