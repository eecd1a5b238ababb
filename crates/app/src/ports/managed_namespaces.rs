//! What managed namespaces need of a database.

use async_trait::async_trait;
use plural_core::access::{Actor, Visibility};
use plural_core::{
    ClusterId, GlobalServiceId, GlobalServiceSpec, KubeName, ManagedNamespace, ManagedNamespaceId,
    ManagedNamespaceSpec, Name, Page, PageRequest, Result, ServiceTemplate,
};

use super::global_services::Instance;
use crate::access::{Audited, Authorized, Guarded, Home, Read, Write};
use crate::seal::Sealed;

/// Which managed namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManagedNamespaceSelector {
    /// By id.
    Id(ManagedNamespaceId),
    /// By exact name.
    Name(String),
}

/// One of the global services that a managed namespace spreads by.
#[derive(Debug)]
pub struct Part {
    /// Id to give it.
    pub id: GlobalServiceId,
    /// How it spreads.
    pub spec: GlobalServiceSpec,
    /// Its first generation.
    pub template: ServiceTemplate,
    /// The template's secrets, sealed for `global-service:ID`.
    pub secrets: Sealed,
}

/// What becomes of such a part.
#[derive(Debug)]
pub enum PartChange {
    /// It is new.
    Make(Part),
    /// It spreads otherwise, or is made from something else.
    Change {
        /// Which.
        id: GlobalServiceId,
        /// How it spreads.
        spec: GlobalServiceSpec,
        /// Another template with its sealed secrets.
        template: Option<(ServiceTemplate, Sealed)>,
    },
    /// Its instances are let go, as its cascade says, and then it goes.
    Drop(GlobalServiceId),
}

/// A new managed namespace.
#[derive(Debug)]
pub struct ManagedNamespaceCreate {
    /// Id to give it.
    pub id: ManagedNamespaceId,
    /// Unique in the installation.
    pub name: Name,
    /// What it is called in its clusters.
    pub namespace: KubeName,
    /// For people.
    pub description: Option<String>,
    /// What it is like, and where.
    pub spec: ManagedNamespaceSpec,
    /// What it spreads by.
    pub parts: Vec<Part>,
}

/// A changed managed namespace.
#[derive(Debug)]
pub struct ManagedNamespaceUpdate {
    /// For people.
    pub description: Option<String>,
    /// What it is like, and where.
    pub spec: ManagedNamespaceSpec,
    /// What becomes of what it spreads by; who is not named stays as it is.
    pub parts: Vec<PartChange>,
}

/// The instances of the parts of a managed namespace.
#[derive(Debug, Default)]
pub struct PartInstances {
    /// Those that hold the namespace.
    pub holders: Vec<Instance>,
    /// Those of the service in it.
    pub services: Vec<Instance>,
}

/// Managed namespaces.
#[async_trait]
pub trait ManagedNamespaceStore: Send + Sync + 'static {
    /// One managed namespace, guarded by the bindings of its project.
    async fn managed_namespace_for(
        &self,
        actor: &Actor,
        selector: &ManagedNamespaceSelector,
    ) -> Result<Guarded<ManagedNamespace>>;
    /// Visible managed namespaces whose name contains `q`.
    async fn managed_namespace_list(
        &self,
        visibility: &Visibility,
        q: Option<&str>,
        page: &PageRequest,
    ) -> Result<Page<ManagedNamespace>>;
    /// Those that a cluster has, for its agent.
    async fn managed_namespace_list_of(
        &self,
        cluster: ClusterId,
        page: &PageRequest,
    ) -> Result<Page<ManagedNamespace>>;
    /// A new managed namespace with its parts.
    async fn managed_namespace_create(
        &self,
        by: Audited<'_, Home, Write>,
        create: &ManagedNamespaceCreate,
    ) -> Result<ManagedNamespace>;
    /// A changed one; refused when it changed since it was read.
    async fn managed_namespace_update(
        &self,
        by: Audited<'_, ManagedNamespace, Write>,
        update: &ManagedNamespaceUpdate,
    ) -> Result<ManagedNamespace>;
    /// Marks it and its parts: the job of global services lets their instances go; it goes with the last part.
    async fn managed_namespace_delete(
        &self,
        by: Audited<'_, ManagedNamespace, Write>,
    ) -> Result<ManagedNamespace>;
    /// Its instances.
    async fn managed_namespace_instances(
        &self,
        managed: &Authorized<ManagedNamespace, Read>,
    ) -> Result<PartInstances>;
}
