//! What use cases need of a database for contexts.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::access::{Actor, Visibility};
use plural_core::{
    GlobalServiceId, Name, Page, PageRequest, Project, ProjectId, Result, Service, ServiceContext,
    ServiceContextId, ServiceId,
};
use serde_json::{Map, Value};

use crate::access::{Audited, Authorized, Guarded, Read, Write};
use crate::seal::Sealed;

/// Which context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceContextSelector {
    /// By id.
    Id(ServiceContextId),
    /// By exact name.
    Name(String),
}

/// Which contexts of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceContextFilter {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// Name contains this.
    pub q: Option<String>,
}

/// A context to keep; `None` leaves a part as it is.
#[derive(Debug)]
pub struct ServiceContextSave {
    /// Its name.
    pub name: Name,
    /// The document.
    pub configuration: Option<Map<String, Value>>,
    /// Names of its secret values, and those sealed for `service_context:ID:secrets`.
    pub secrets: Option<(Vec<String>, Sealed)>,
}

/// A context as an agent's answer needs it.
#[derive(Debug, Clone)]
pub struct ServiceContextRow {
    /// The context.
    pub context: ServiceContext,
    /// Its secret values, sealed for `service_context:ID:secrets`.
    pub secrets: Option<Sealed>,
}

/// Who reads a context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextUsers {
    /// Services of their own.
    pub services: Vec<ServiceId>,
    /// Global services that give it to their instances, or did.
    pub globals: Vec<GlobalServiceId>,
}

impl ContextUsers {
    /// So many there are.
    pub fn count(&self) -> usize {
        self.services.len() + self.globals.len()
    }
}

/// Contexts.
#[async_trait]
pub trait ServiceContextStore: Send + Sync + 'static {
    /// One context, guarded by its project's bindings that concern `actor`.
    async fn context_for(
        &self,
        actor: &Actor,
        selector: &ServiceContextSelector,
    ) -> Result<Guarded<ServiceContext>>;
    /// Whether a service that upgrades its cluster's agent reads the context.
    async fn context_feeds_agent_upgrade(&self, id: ServiceContextId) -> Result<bool>;
    /// Contexts, each guarded by its project's bindings that concern `actor`. Ids that are not there are left out.
    async fn contexts_for(
        &self,
        actor: &Actor,
        ids: &[ServiceContextId],
    ) -> Result<Vec<Guarded<ServiceContext>>>;
    /// The same by name.
    async fn contexts_for_names(
        &self,
        actor: &Actor,
        names: &[String],
    ) -> Result<Vec<Guarded<ServiceContext>>>;
    /// Visible contexts.
    async fn context_list(
        &self,
        visibility: &Visibility,
        filter: &ServiceContextFilter,
        page: &PageRequest,
    ) -> Result<Page<ServiceContext>>;
    /// A new context.
    async fn context_create(
        &self,
        by: Audited<'_, Project, Write>,
        id: ServiceContextId,
        save: &ServiceContextSave,
    ) -> Result<ServiceContext>;
    /// A changed context; the services that use it are told. With `only`, [`plural_core::Error::Conflict`] when others than
    /// those read it. Unless it `may_feed` the upgrade of an agent, [`plural_core::Error::Forbidden`] where such a service uses
    /// it by then.
    async fn context_update(
        &self,
        by: Audited<'_, ServiceContext, Write>,
        save: &ServiceContextSave,
        only: Option<&ContextUsers>,
        may_feed: bool,
    ) -> Result<ServiceContext>;
    /// Removes a context; [`plural_core::Error::Conflict`] while a service uses it. `may_feed` as for a change.
    async fn context_delete(&self, by: Audited<'_, ServiceContext, Write>, may_feed: bool) -> Result<()>;
    /// The contexts that each of these services uses; those that use none are left out.
    async fn services_contexts(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<ServiceContextId>>>;
    /// Who reads a context.
    async fn context_users(&self, context: &Authorized<ServiceContext, Write>) -> Result<ContextUsers>;
    /// The services that use a context.
    async fn context_services(&self, context: &Authorized<ServiceContext, Write>) -> Result<Vec<ServiceId>>;
}
