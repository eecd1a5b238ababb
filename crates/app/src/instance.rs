//! Instances of global services: many services at once that are mostly alike.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use plural_core::cluster::Cluster;
use plural_core::global_service::GlobalService;
use plural_core::ids::{ClusterId, GlobalServiceId, ProjectId, ServiceId};
use plural_core::service::{Configuration, ConfigurationEdit, NewService, Rendering, Service, ServiceChange};
use plural_core::specs::KubeName;
use plural_core::{Error, Page, PageRequest, Result};

use crate::access::{Authorized, Read, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::global_service::{Instance, Ownership};
use crate::project_limits::Asks;
use crate::service::{ServiceMake, ServiceRemake, check_taken};

/// How the instances of a global service fare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InstanceCounts {
    /// So many there are.
    pub all: u64,
    /// So many stay and are healthy with what they were given.
    pub healthy: u64,
    /// So many stay and are healthy with the newest generation.
    pub newest: u64,
    /// So many are on their way out.
    pub leaving: u64,
}

/// Instances of global services, as lists show them.
#[async_trait]
pub trait InstanceListStore: Send + Sync + 'static {
    /// How the instances of each of these fare; those without any are left out.
    async fn instances_counts(
        &self,
        globals: &[Authorized<GlobalService, Read>],
    ) -> Result<HashMap<GlobalServiceId, InstanceCounts>>;
    /// The same page of the instances of each of these, oldest first.
    async fn instances_pages(
        &self,
        globals: &[Authorized<GlobalService, Read>],
        page: &PageRequest,
    ) -> Result<HashMap<GlobalServiceId, Page<Instance>>>;
}

/// For which projects that was allowed what the last item asks for.
#[derive(Default)]
struct Allowed(HashSet<(ProjectId, KubeName, Option<String>)>, HashSet<(ProjectId, KubeName)>);

impl Allowed {
    async fn check(&mut self, (app, ctx): (&App, &OpCtx), cluster: &Cluster, asks: &Asks<'_>) -> Result<()> {
        let key = (cluster.project_id, asks.namespace.clone(), asks.sync_config.service_account.clone());
        if !self.0.contains(&key) {
            app.limits_allow(ctx, asks).await?;
            self.0.insert(key);
        }
        Ok(())
    }

    async fn check_references(
        &mut self,
        app: &App,
        cluster: &Cluster,
        namespace: &KubeName,
        configuration: &Configuration,
    ) -> Result<()> {
        let key = (cluster.project_id, namespace.clone());
        if !self.1.contains(&key) {
            app.references_allow(cluster.id, namespace, configuration).await?;
            self.1.insert(key);
        }
        Ok(())
    }
}

impl App {
    /// New instances on clusters, all or none of them. What is the same for one after the other is looked at once.
    pub(crate) async fn instances_make(
        &self,
        ctx: &OpCtx,
        new: Vec<(ClusterId, NewService)>,
        owner: Ownership,
    ) -> Result<()> {
        let clusters = self.clusters_writable(ctx, new.iter().map(|(id, _)| *id).collect()).await?;
        self.sealer.know_projects(clusters.values().map(|cluster| (cluster.id, cluster.project_id)));
        let mut last = None;
        let mut allowed = Allowed::default();
        let mut makes = Vec::with_capacity(new.len());
        for (id, new) in new {
            let cluster = clusters.get(&id).ok_or(Error::not_found("cluster"))?;
            let known = last.take().filter(|(given, _)| *given == new);
            let (given, checked) = if let Some(known) = known {
                known
            } else {
                allowed = Allowed::default();
                (new.clone(), self.service_checked(ctx, id, new).await?)
            };
            let rendering = checked.new.rendering.over(Rendering::default());
            let asks = Asks {
                cluster: cluster.id,
                namespace: &checked.new.namespace,
                repository: checked.repository.as_deref(),
                rendering: &rendering,
                sync_config: &checked.new.sync_config,
            };
            allowed.check((self, ctx), cluster, &asks).await?;
            allowed.check_references(self, cluster, &checked.new.namespace, &checked.configuration).await?;
            let create = self.service_sealed(ServiceId::new(), cluster.id, &checked, Some(owner)).await?;
            let by = cluster.audited_new(ctx, "service.create", "service", create.id, &create.new.name);
            makes.push(ServiceMake { by, repository: checked.repository.clone(), create });
            last = Some((given, checked));
        }
        self.store.services_create(&makes).await
    }

    /// Gives services, which are instances or become some, what is new; all or none of them.
    pub(crate) async fn instances_change(
        &self,
        ctx: &OpCtx,
        changes: Vec<(ServiceId, ServiceChange)>,
        owner: Ownership,
    ) -> Result<()> {
        let ids: Vec<ServiceId> = changes.iter().map(|(id, _)| *id).collect();
        let services = self.authorized_many::<Service, Write>(ctx, &ids).await?;
        let secrets = self.store.services_secrets(&services).await?;
        let services: HashMap<ServiceId, Authorized<Service, Write>> =
            services.into_iter().map(|service| (service.id, service)).collect();
        let on = services.values().map(|service| service.cluster_id).collect();
        let clusters = self.clusters_readable(on).await?;
        let mut last = None;
        let mut allowed = Allowed::default();
        let mut edits = Vec::with_capacity(changes.len());
        for (id, change) in changes {
            let service = services.get(&id).ok_or(Error::not_found("service"))?;
            check_taken(service, owner)?;
            let known = last.take().filter(|(given, _)| *given == change);
            let (given, checked) = if let Some(known) = known {
                known
            } else {
                allowed = Allowed::default();
                (change.clone(), self.change_checked(ctx, service.cluster_id, change).await?)
            };
            let update = self.service_changed(service, &checked, secrets.get(&id), Some(owner)).await?;
            let settings = service.settings().changed(&update.change)?;
            if update.change.difference(&service.settings(), &settings).asks_for_more {
                let cluster = clusters.get(&service.cluster_id).ok_or(Error::not_found("cluster"))?;
                let asks = Asks {
                    cluster: cluster.id,
                    namespace: &service.namespace,
                    repository: checked.repository.as_deref(),
                    rendering: &settings.rendering,
                    sync_config: &settings.sync_config,
                };
                allowed.check((self, ctx), cluster, &asks).await?;
            }
            if let Some(ConfigurationEdit::Replace(configuration)) = &update.change.configuration {
                let cluster = clusters.get(&service.cluster_id).ok_or(Error::not_found("cluster"))?;
                allowed.check_references(self, cluster, &service.namespace, configuration).await?;
            }
            let by = service.audited(ctx, "service.update");
            edits.push(ServiceRemake { by, repository: checked.repository.clone(), update });
            last = Some((given, checked));
        }
        self.store.services_update(&edits).await
    }

    async fn clusters_writable(
        &self,
        ctx: &OpCtx,
        ids: Vec<ClusterId>,
    ) -> Result<HashMap<ClusterId, Authorized<Cluster, Write>>> {
        let found = self.authorized_many::<Cluster, _>(ctx, &ids).await?;
        Ok(found.into_iter().map(|cluster: Authorized<Cluster, Write>| (cluster.id, cluster)).collect())
    }

    /// Their projects decide what may be done, whoever asks.
    async fn clusters_readable(
        &self,
        ids: Vec<ClusterId>,
    ) -> Result<HashMap<ClusterId, Authorized<Cluster, Read>>> {
        let system = self.system_ctx();
        let found = self.authorized_many::<Cluster, _>(&system, &ids).await?;
        Ok(found.into_iter().map(|cluster: Authorized<Cluster, Read>| (cluster.id, cluster)).collect())
    }
}
