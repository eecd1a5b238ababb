//! What lists show beside their rows, asked for all rows at once. What the caller may not see is left out.

use std::collections::HashMap;
use std::hash::Hash;

use async_trait::async_trait;
use plural_core::access::{Actor, Scope};
use plural_core::{
    Cluster, ClusterId, Component, Configuration, Group, GroupId, Project, ProjectId, Repository,
    RepositoryId, Result, Revision, Service, ServiceError, ServiceId, User, UserId,
};

use crate::access::{
    Act, Authorized, Guarded, Installation, Noun, Read, Write, authorize_each, authorize_installation,
};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::masking;
use crate::rendering::ServiceSecrets;
use crate::seal::Sealed;
use crate::service_context::ServiceContextRow;
use crate::service_life::with_notes;

/// What a service keeps sealed.
#[derive(Debug, Clone, Default)]
pub struct KeptSecrets {
    /// Of its revisions, each once.
    pub revisions: Vec<ServiceSecrets>,
    /// Of the contexts that it reads.
    pub contexts: Vec<ServiceContextRow>,
}

/// Many at once. Ids that are not there are left out; no answer is in an order.
#[async_trait]
pub trait ManyStore: Send + Sync + 'static {
    /// Projects, each guarded by its bindings that concern `actor`.
    async fn projects_for(&self, actor: &Actor, ids: &[ProjectId]) -> Result<Vec<Guarded<Project>>>;
    /// Clusters, each guarded by its and its project's bindings that concern `actor`.
    async fn clusters_for(&self, actor: &Actor, ids: &[ClusterId]) -> Result<Vec<Guarded<Cluster>>>;
    /// Repositories, each guarded by its project's bindings that concern `actor`.
    async fn repositories_for(&self, actor: &Actor, ids: &[RepositoryId])
    -> Result<Vec<Guarded<Repository>>>;
    /// Services, each guarded by its, its cluster's and its project's bindings that concern `actor`.
    async fn services_for(&self, actor: &Actor, ids: &[ServiceId]) -> Result<Vec<Guarded<Service>>>;
    /// What their agents last saw.
    async fn services_components(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<Component>>>;
    /// What is wrong with them.
    async fn services_errors(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<ServiceError>>>;
    /// Their current revisions.
    async fn services_revisions(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Revision>>;
    /// What their current revisions keep sealed.
    async fn services_secrets(
        &self,
        services: &[Authorized<Service, Write>],
    ) -> Result<HashMap<ServiceId, ServiceSecrets>>;
    /// All that their revisions keep sealed and what the contexts that they read keep, for whoever hides it from others.
    async fn services_kept(
        &self,
        services: &[Authorized<Service, Write>],
    ) -> Result<HashMap<ServiceId, KeptSecrets>>;
    /// Their current configurations, sealed.
    async fn services_configurations(
        &self,
        services: &[Authorized<Service, Write>],
    ) -> Result<HashMap<ServiceId, Sealed>>;
    /// Who is a member of which of these groups.
    async fn groups_members(
        &self,
        by: &Authorized<Installation, Read>,
        groups: &[GroupId],
    ) -> Result<Vec<(GroupId, User)>>;
    /// Which groups these users are members of.
    async fn users_groups(
        &self,
        by: &Authorized<Installation, Read>,
        users: &[UserId],
    ) -> Result<Vec<(UserId, Group)>>;
}

/// The audit log's word for a configuration that was read.
pub(crate) const CONFIGURATION_READ: &str = "service.configuration.read";

impl App {
    /// Projects by id.
    pub async fn projects_get(&self, ctx: &OpCtx, ids: &[ProjectId]) -> Result<HashMap<ProjectId, Project>> {
        let found = authorize_each(ctx, self.store.projects_for(ctx.actor(), ids).await?)?;
        Ok(by_id(found, |project| project.id))
    }

    /// Clusters by id.
    pub async fn clusters_get(&self, ctx: &OpCtx, ids: &[ClusterId]) -> Result<HashMap<ClusterId, Cluster>> {
        let found = authorize_each(ctx, self.store.clusters_for(ctx.actor(), ids).await?)?;
        Ok(by_id(found, |cluster| cluster.id))
    }

    /// Repositories by id.
    pub async fn repositories_get(
        &self,
        ctx: &OpCtx,
        ids: &[RepositoryId],
    ) -> Result<HashMap<RepositoryId, Repository>> {
        let found = authorize_each(ctx, self.store.repositories_for(ctx.actor(), ids).await?)?;
        Ok(by_id(found, |repository| repository.id))
    }

    /// Users by id.
    pub async fn users_get(&self, ctx: &OpCtx, ids: &[UserId]) -> Result<HashMap<UserId, User>> {
        let by = authorize_installation::<Read>(ctx, Scope::Installation)?;
        Ok(self.store.users_named(&by, ids).await?.into_iter().map(|user| (user.id, user)).collect())
    }

    /// Groups by id.
    pub async fn groups_get(&self, ctx: &OpCtx, ids: &[GroupId]) -> Result<HashMap<GroupId, Group>> {
        let by = authorize_installation::<Read>(ctx, Scope::Installation)?;
        Ok(self.store.groups_named(&by, ids).await?.into_iter().map(|group| (group.id, group)).collect())
    }

    /// Members of groups.
    pub async fn groups_members(&self, ctx: &OpCtx, ids: &[GroupId]) -> Result<HashMap<GroupId, Vec<User>>> {
        let by = authorize_installation::<Read>(ctx, Scope::Installation)?;
        Ok(gathered(self.store.groups_members(&by, ids).await?))
    }

    /// Groups of users.
    pub async fn users_groups(&self, ctx: &OpCtx, ids: &[UserId]) -> Result<HashMap<UserId, Vec<Group>>> {
        let by = authorize_installation::<Read>(ctx, Scope::Installation)?;
        Ok(gathered(self.store.users_groups(&by, ids).await?))
    }

    /// Services by id.
    pub async fn services_get(&self, ctx: &OpCtx, ids: &[ServiceId]) -> Result<HashMap<ServiceId, Service>> {
        Ok(by_id(self.services_for(ctx, ids).await?, |service| service.id))
    }

    /// What the agents of services last saw.
    pub async fn services_components(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, Vec<Component>>> {
        let mut found = self.store.services_components(&self.services_for(ctx, ids).await?).await?;
        let told = found.iter().filter(|(_, components)| !components.is_empty()).map(|(id, _)| *id);
        let masks = self.masks(ctx, told).await?;
        for (id, components) in &mut found {
            masks.apply_all(*id, components, masking::component);
        }
        Ok(found)
    }

    /// What is wrong with services.
    pub async fn services_errors(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, Vec<ServiceError>>> {
        let services = self.services_for(ctx, ids).await?;
        let mut errors = self.store.services_errors(&services).await?;
        for service in services.iter().filter(|service| service.pin.is_some() || service.paused) {
            let found = errors.remove(&service.id).unwrap_or_default();
            errors.insert(service.id, with_notes(service, found));
        }
        let errors = self.with_removed_apis(&services, errors).await?;
        let errors = self.with_waits(ctx, services, errors).await?;
        self.errors_masked(ctx, errors).await
    }

    pub(crate) async fn errors_masked(
        &self,
        ctx: &OpCtx,
        mut errors: HashMap<ServiceId, Vec<ServiceError>>,
    ) -> Result<HashMap<ServiceId, Vec<ServiceError>>> {
        let told = errors.iter().filter(|(_, errors)| !errors.is_empty()).map(|(id, _)| *id);
        let masks = self.masks(ctx, told).await?;
        for (id, errors) in &mut errors {
            masks.apply_all(*id, errors, masking::error);
        }
        Ok(errors)
    }

    /// The current revisions of services.
    pub async fn services_revisions(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, Revision>> {
        self.store.services_revisions(&self.services_for(ctx, ids).await?).await
    }

    /// The configurations of services in clear, of those whose secrets the caller may read.
    pub async fn services_configurations(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, Configuration>> {
        let (services, found) = self.configurations_opened(ctx, ids).await?;
        let holds =
            |id| found.get(&id).is_some_and(|configuration: &Configuration| !configuration.0.is_empty());
        let read: Vec<_> = services.iter().filter(|service| holds(service.id)).collect();
        self.audit_read_many(ctx, &read, CONFIGURATION_READ).await?;
        Ok(found)
    }

    /// The names of their configuration values, of the same services.
    pub async fn services_configuration_names(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, Vec<String>>> {
        let (_, found) = self.configurations_opened(ctx, ids).await?;
        Ok(found.into_iter().map(|(id, values)| (id, values.0.into_keys().collect())).collect())
    }

    async fn configurations_opened(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<(Vec<Authorized<Service, Write>>, HashMap<ServiceId, Configuration>)> {
        let services = self.secrets_readable(ctx, self.services_for::<Write>(ctx, ids).await?).await?;
        let sealed = self.store.services_configurations(&services).await?;
        let open = |(id, sealed)| Ok((id, self.open_configuration(id, &sealed)?));
        let found = sealed.into_iter().map(open).collect::<Result<HashMap<_, _>>>()?;
        Ok((services, found))
    }

    pub(crate) async fn services_for<A: Act>(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<Vec<Authorized<Service, A>>> {
        authorize_each(ctx, self.store.services_for(ctx.actor(), ids).await?)
    }
}

fn by_id<T: Noun, K: Eq + Hash>(found: Vec<Authorized<T, Read>>, id: impl Fn(&T) -> K) -> HashMap<K, T> {
    found.into_iter().map(|found| (id(&found), found.into_inner())).collect()
}

fn gathered<K: Eq + Hash, V>(pairs: Vec<(K, V)>) -> HashMap<K, Vec<V>> {
    let mut gathered: HashMap<K, Vec<V>> = HashMap::new();
    for (key, value) in pairs {
        gathered.entry(key).or_default().push(value);
    }
    gathered
}
