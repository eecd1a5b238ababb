//! What lists ask of a database about all their rows at once, so that a page costs as many statements as one row.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::access::Actor;
use plural_core::{
    Binding, BindingTarget, Cluster, ClusterId, Component, Group, GroupId, Project, ProjectId, Repository,
    RepositoryId, Result, Revision, Service, ServiceError, ServiceId, User, UserId,
};

use super::contexts::ServiceContextRow;
use crate::access::{Authorized, Guarded, Installation, Read, Write};
use crate::rendering::ServiceSecrets;
use crate::seal::Sealed;

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
    /// The bindings on these very things, none inherited, oldest first.
    async fn bindings_on(&self, targets: &[Authorized<BindingTarget, Read>]) -> Result<Vec<Binding>>;
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
