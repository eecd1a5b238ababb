//! What managed namespaces need of a database.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::access::{Actor, Visibility};
use plural_core::{
    ClusterId, GlobalServiceId, GlobalServiceSpec, Keyed, KubeName, ManagedNamespace, ManagedNamespaceId,
    ManagedNamespaceSpec, ManagedNamespaceSpecChange, ManagedNamespaceState, Name, Page, PageRequest, Result,
};
use uuid::Uuid;

use super::global_services::{Instance, TemplateWish};
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
    pub template: TemplateWish,
}

/// What becomes of the service in a managed namespace. How it spreads follows from the namespace.
#[derive(Debug)]
pub enum ServicePart {
    /// It stays as it is, or there is none.
    Keep,
    /// Its instances are let go, as its cascade says, and then it goes.
    Drop,
    /// The one that was read is made from something else; without a template from the same.
    Change {
        /// Which was read.
        id: GlobalServiceId,
        /// Another template.
        template: Option<TemplateWish>,
    },
    /// None was read, and there is one from now on.
    Make {
        /// Id to give it.
        id: GlobalServiceId,
        /// Its first generation.
        template: TemplateWish,
    },
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
    /// For people; what it was so far when absent.
    pub description: Option<String>,
    /// What changes of what it is like, and where.
    pub spec: ManagedNamespaceSpecChange,
    /// What holds the namespace.
    pub holder: GlobalServiceId,
    /// The secrets of its template, sealed for it: it has none.
    pub holder_secrets: Sealed,
    /// The service in it.
    pub service: ServicePart,
}

/// A managed namespace on one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceInstance {
    /// Which cluster.
    pub cluster_id: ClusterId,
    /// What holds the namespace there.
    pub holder: Option<Instance>,
    /// The service in it.
    pub service: Option<Instance>,
}

impl NamespaceInstance {
    /// How it is.
    pub fn state(&self) -> ManagedNamespaceState {
        let of = |one: &Instance| ManagedNamespaceState::of(one.status, one.deleted);
        let all = self.holder.iter().chain(&self.service).map(of);
        all.reduce(ManagedNamespaceState::and).unwrap_or(ManagedNamespaceState::Waiting)
    }
}

impl Keyed for NamespaceInstance {
    fn key(&self) -> Uuid {
        self.cluster_id.uuid()
    }
}

/// How a managed namespace is on its clusters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamespaceCounts {
    /// So many clusters have it.
    pub all: u64,
    /// On so many it is as it should be.
    pub synced: u64,
    /// On so many it, or the service in it, is on its way out.
    pub leaving: u64,
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
    /// A changed one: the change is merged with what it is by then. Refused when its service was made, or went, since it was read.
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
    /// Managed namespaces, each guarded by the bindings of its project. Ids that are not there are left out.
    async fn managed_namespaces_for(
        &self,
        actor: &Actor,
        ids: &[ManagedNamespaceId],
    ) -> Result<Vec<Guarded<ManagedNamespace>>>;
    /// How each of these is on its clusters; those that no cluster has are left out.
    async fn managed_namespaces_counts(
        &self,
        all: &[Authorized<ManagedNamespace, Read>],
    ) -> Result<HashMap<ManagedNamespaceId, NamespaceCounts>>;
    /// How it is on each cluster that has it, in the order of their ids.
    async fn managed_namespace_instances_page(
        &self,
        managed: &Authorized<ManagedNamespace, Read>,
        page: &PageRequest,
    ) -> Result<Page<NamespaceInstance>>;
}
