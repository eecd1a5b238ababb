//! What lists show beside their rows, asked for all rows at once. What the caller may not see is left out.

use std::collections::HashMap;
use std::hash::Hash;

use async_trait::async_trait;
use plural_core::Result;
use plural_core::access::Scope;
use plural_core::component::Component;
use plural_core::group::Group;
use plural_core::ids::{GroupId, ServiceId, UserId};
use plural_core::revision::Revision;
use plural_core::service::{Configuration, Reference, Service};
use plural_core::service_error::ServiceError;
use plural_core::user::User;

use crate::access::{Authorized, Installation, Read, Write, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::masking;
use crate::rendering::ServiceSecrets;
use crate::seal::Sealed;
use crate::service_context::ServiceContextRow;
use crate::service_import::ServiceImportRow;
use crate::service_life::with_notes;

/// What a service keeps sealed.
#[derive(Debug, Clone, Default)]
pub struct KeptSecrets {
    /// Of its revisions, each once.
    pub revisions: Vec<ServiceSecrets>,
    /// Of the contexts that it reads.
    pub contexts: Vec<ServiceContextRow>,
    /// Of the stacks that it imports, what is sensitive.
    pub imports: Vec<ServiceImportRow>,
}

impl KeptSecrets {
    pub(crate) fn sealed(&self) -> impl Iterator<Item = &Sealed> {
        // Outputs of stacks are never kept outside of the database.
        let contexts = self.contexts.iter().filter_map(|context| context.secrets.as_ref());
        self.revisions.iter().flat_map(ServiceSecrets::sealed).chain(contexts)
    }
}

/// Many at once. Ids that are not there are left out; no answer is in an order.
#[async_trait]
pub trait ManyStore: Send + Sync + 'static {
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
    /// All that their revisions keep sealed and what the contexts and imports that they read keep, for whoever hides it from others.
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

    /// What the agents of services last saw.
    pub async fn services_components(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, Vec<Component>>> {
        let mut found =
            self.store.services_components(&self.authorized_many::<Service, _>(ctx, ids).await?).await?;
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
        let services = self.authorized_many::<Service, _>(ctx, ids).await?;
        let mut errors = self.store.services_errors(&services).await?;
        for service in services.iter().filter(|service| service.pin.is_some() || service.paused) {
            let found = errors.remove(&service.id).unwrap_or_default();
            errors.insert(service.id, with_notes(service, found));
        }
        let errors = self.with_removed_apis(&services, errors).await?;
        let errors = self.with_windows(&services, errors).await?;
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
        self.store.services_revisions(&self.authorized_many::<Service, _>(ctx, ids).await?).await
    }

    /// The configurations of services in clear, of those whose secrets the caller may read.
    pub async fn services_configurations(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, Configuration>> {
        let (services, found) = self.configurations_opened(ctx, ids).await?;
        let holds =
            |id| found.get(&id).is_some_and(|configuration: &Configuration| !configuration.values.is_empty());
        let read: Vec<_> = services.iter().filter(|service| holds(service.id)).collect();
        self.audit_read_many(ctx, &read, CONFIGURATION_READ).await?;
        Ok(found)
    }

    /// The names of their configuration values, of the same services, and where an agent reads those that are references.
    pub async fn services_configuration_names(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, Vec<(String, Option<Reference>)>>> {
        let (_, found) = self.configurations_opened(ctx, ids).await?;
        let names = |Configuration { values, references }: Configuration| {
            let values = values.into_keys().map(|name| (name, None));
            values.chain(references.into_iter().map(|(name, reference)| (name, Some(reference)))).collect()
        };
        Ok(found.into_iter().map(|(id, configuration)| (id, names(configuration))).collect())
    }

    async fn configurations_opened(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<(Vec<Authorized<Service, Write>>, HashMap<ServiceId, Configuration>)> {
        let services =
            self.secrets_readable(ctx, self.authorized_many::<Service, Write>(ctx, ids).await?).await?;
        let sealed = self.store.services_configurations(&services).await?;
        let mut found = HashMap::with_capacity(sealed.len());
        self.sealer.kept().fetch(sealed.values()).await;
        for (id, sealed) in sealed {
            found.insert(id, self.open_configuration(id, &sealed).await?);
        }
        Ok((services, found))
    }
}

fn gathered<K: Eq + Hash, V>(pairs: Vec<(K, V)>) -> HashMap<K, Vec<V>> {
    let mut gathered: HashMap<K, Vec<V>> = HashMap::new();
    for (key, value) in pairs {
        gathered.entry(key).or_default().push(value);
    }
    gathered
}
