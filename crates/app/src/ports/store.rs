//! What use cases need of a database: one method per transaction.
//!
//! Every method that changes desired state, people or access takes an [`Audited`] handle and writes
//! its audit line in the same transaction; times of such writes are the line's. What the console's own jobs
//! and agents record about the world (fetches, reports, pings) takes none: it is not somebody's wish.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::{Actor, UserActor, Visibility};
use plural_core::{
    AccessToken, AuditEntry, AuditRow, Binding, BindingSubject, BindingTarget, Cluster, ClusterChange,
    ClusterId, Component, Email, GitHealth, Group, GroupChange, GroupId, GroupMember, GroupMemberId, Handle,
    HelmAuthProvider, HelmRepository, HelmRepositoryId, HelmUrl, KubeName, NewCluster, NewGroup, NewProject,
    NewService, Page, PageRequest, PinUntil, Project, ProjectChange, ProjectId, Repository, RepositoryId,
    Result, Revision, RevisionId, Role, Service, ServiceChange, ServiceError, ServiceId, SyncWindow,
    SyncWindowId, TagAuthority, TokenId, User, UserChange, UserId,
};

use super::agents::AgentStore;
use super::canary_gates::CanaryGateStore;
use super::charts::ChartPin;
use super::contexts::ServiceContextStore;
use super::dependencies::{DependencyStore, LinksWish};
use super::deploy_tokens::DeployTokenStore;
use super::descriptions::{ApiDeprecationStore, ServiceMetadataStore};
use super::global_services::{GlobalServiceStore, InstanceStore, Ownership};
use super::instances::InstanceListStore;
use super::logins::LoginStore;
use super::managed_namespaces::ManagedNamespaceStore;
use super::many::ManyStore;
use super::mirrors::MirrorStore;
use super::people::{PasswordSet, Proof, TokenCreate, UserCreate};
use super::proxy::ProxyStore;
use super::recordings::RecordingStore;
use super::replicas::ReplicaStore;
use super::repositories::RepositoryStore;
use super::repository_webhooks::RepositoryWebhookStore;
use super::seals::SealStore;
use super::sources::SourceStore;
use super::sync::SyncStore;
use crate::access::{Admin, Audited, Authorized, Grant, Guarded, Installation, Read, Write};
use crate::job::JobStore;
use crate::rendering::{SealedValues, ServiceSecrets};
use crate::seal::Sealed;
use crate::secret::TokenHash;

/// All of a store.
pub trait Store:
    ProjectStore
    + UserStore
    + GroupStore
    + BindingStore
    + TokenStore
    + ClusterStore
    + DeployTokenStore
    + RepositoryStore
    + RepositoryWebhookStore
    + MirrorStore
    + HelmRepositoryStore
    + ServiceStore
    + ServiceLifeStore
    + SyncWindowStore
    + SyncStore
    + GlobalServiceStore
    + InstanceStore
    + ManagedNamespaceStore
    + InstanceListStore
    + DependencyStore
    + ServiceContextStore
    + ServiceMetadataStore
    + ApiDeprecationStore
    + CanaryGateStore
    + SourceStore
    + AuditStore
    + AgentStore
    + ManyStore
    + ProxyStore
    + RecordingStore
    + SealStore
    + ReplicaStore
    + LoginStore
    + JobStore
{
}

impl<T> Store for T where
    T: ProjectStore
        + UserStore
        + GroupStore
        + BindingStore
        + TokenStore
        + ClusterStore
        + DeployTokenStore
        + RepositoryStore
        + RepositoryWebhookStore
        + MirrorStore
        + HelmRepositoryStore
        + ServiceStore
        + ServiceLifeStore
        + SyncWindowStore
        + SyncStore
        + GlobalServiceStore
        + InstanceStore
        + ManagedNamespaceStore
        + InstanceListStore
        + DependencyStore
        + ServiceContextStore
        + ServiceMetadataStore
        + ApiDeprecationStore
        + CanaryGateStore
        + SourceStore
        + AuditStore
        + AgentStore
        + ManyStore
        + ProxyStore
        + RecordingStore
        + SealStore
        + ReplicaStore
        + LoginStore
        + JobStore
{
}

/// Which project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectSelector {
    /// By id.
    Id(ProjectId),
    /// By exact name.
    Name(String),
    /// The default one.
    Default,
}

/// The first administrator, made with the default project when there are no users yet.
#[derive(Debug)]
pub struct InitialAdmin {
    /// Id of the user to make.
    pub user_id: UserId,
    /// Id of the default project to make.
    pub project_id: ProjectId,
    /// Address.
    pub email: Email,
    /// Argon2id hash.
    pub password_hash: String,
}

/// Projects.
#[async_trait]
pub trait ProjectStore: Send + Sync + 'static {
    /// One project, guarded by its bindings that concern `actor`.
    async fn project_for(&self, actor: &Actor, selector: &ProjectSelector) -> Result<Guarded<Project>>;
    /// Visible projects whose name contains `q`.
    async fn project_list(
        &self,
        visibility: &Visibility,
        q: Option<&str>,
        page: &PageRequest,
    ) -> Result<Page<Project>>;
    /// A new project with its bindings.
    async fn project_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: ProjectId,
        new: &NewProject,
        grant: &Grant,
    ) -> Result<Project>;
    /// A changed project.
    async fn project_update(
        &self,
        by: Audited<'_, Project, Write>,
        change: &ProjectChange,
    ) -> Result<Project>;
    /// Removes an empty project; refuses the default one.
    async fn project_delete(&self, by: Audited<'_, Project, Admin>) -> Result<()>;
}

/// Which user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserSelector {
    /// By id.
    Id(UserId),
    /// By address.
    Email(Email),
}

/// Users.
#[async_trait]
pub trait UserStore: Send + Sync + 'static {
    /// Makes the default project and the first administrator; `false` when there already are users.
    async fn user_create_first(
        &self,
        by: Audited<'_, Installation, Admin>,
        admin: &InitialAdmin,
    ) -> Result<bool>;
    /// One user.
    async fn user_for(&self, actor: &Actor, selector: &UserSelector) -> Result<Guarded<User>>;
    /// Users whose address or name contains `q`.
    async fn user_list(
        &self,
        by: &Authorized<Installation, Read>,
        q: Option<&str>,
        page: &PageRequest,
    ) -> Result<Page<User>>;
    /// A new user.
    ///
    /// # Errors
    /// [`plural_core::Error::Unauthenticated`] or [`plural_core::Error::Forbidden`] when its proof holds no more.
    async fn user_create(&self, by: Audited<'_, Installation, Write>, user: UserCreate) -> Result<User>;
    /// A changed user; refuses to leave the installation without an administrator. A new password
    /// ends the user's sessions and what was made with them, and all of their tokens if it says so.
    ///
    /// # Errors
    /// [`plural_core::Error::Unauthenticated`] or [`plural_core::Error::Forbidden`] when the proof holds no more.
    async fn user_update(
        &self,
        by: Audited<'_, User, Write>,
        change: &UserChange,
        password: Option<PasswordSet>,
        proof: Option<&Proof>,
    ) -> Result<User>;
    /// Removes a user with tokens, memberships and bindings; refuses the last administrator.
    async fn user_delete(&self, by: Audited<'_, User, Admin>) -> Result<()>;
    /// What a login is checked against: the user and the password's hash, if it has one.
    async fn user_credentials(&self, email: &Email) -> Result<Option<(Guarded<User>, Option<String>)>>;
    /// Users by id, in no order; unknown ids are left out.
    async fn users_named(&self, by: &Authorized<Installation, Read>, ids: &[UserId]) -> Result<Vec<User>>;
}

/// Which group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupSelector {
    /// By id.
    Id(GroupId),
    /// By exact name.
    Name(String),
}

/// Groups.
#[async_trait]
pub trait GroupStore: Send + Sync + 'static {
    /// One group.
    async fn group_for(&self, actor: &Actor, selector: &GroupSelector) -> Result<Guarded<Group>>;
    /// Groups whose name contains `q`.
    async fn group_list(
        &self,
        by: &Authorized<Installation, Read>,
        q: Option<&str>,
        page: &PageRequest,
    ) -> Result<Page<Group>>;
    /// A new group.
    async fn group_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: GroupId,
        new: &NewGroup,
    ) -> Result<Group>;
    /// A changed group.
    async fn group_update(&self, by: Audited<'_, Group, Write>, change: &GroupChange) -> Result<Group>;
    /// Removes a group with memberships and bindings.
    async fn group_delete(&self, by: Audited<'_, Group, Write>) -> Result<()>;
    /// A membership; the one that exists already when there is one.
    async fn group_member_create(
        &self,
        by: Audited<'_, Group, Write>,
        id: GroupMemberId,
        user: &Authorized<User, Read>,
    ) -> Result<GroupMember>;
    /// Ends a membership.
    async fn group_member_delete(
        &self,
        by: Audited<'_, Group, Write>,
        user: &Authorized<User, Read>,
    ) -> Result<GroupMember>;
    /// Groups of a user.
    async fn groups_of(&self, user: &Authorized<User, Read>) -> Result<Vec<Group>>;
    /// Members of a group.
    async fn group_members(&self, group: &Authorized<Group, Read>) -> Result<Vec<User>>;
    /// Groups by id, in no order; unknown ids are left out.
    async fn groups_named(&self, by: &Authorized<Installation, Read>, ids: &[GroupId]) -> Result<Vec<Group>>;
}

/// Bindings.
#[async_trait]
pub trait BindingStore: Send + Sync + 'static {
    /// The bindings on this very thing, none inherited.
    async fn binding_list(&self, target: &Authorized<BindingTarget, Read>) -> Result<Vec<Binding>>;
    /// Replaces the bindings of the roles that are named; [`plural_core::Error::Invalid`] for a subject that does not exist.
    async fn binding_replace(
        &self,
        by: Audited<'_, BindingTarget, Admin>,
        roles: &[(Role, Vec<BindingSubject>)],
    ) -> Result<Vec<Binding>>;
}

/// Which token.
#[derive(Debug, Clone)]
pub enum TokenSelector {
    /// By id.
    Id(TokenId),
    /// By its text's hash.
    Hash(TokenHash),
}

/// Access tokens.
#[async_trait]
pub trait TokenStore: Send + Sync + 'static {
    /// The user that an unexpired token speaks for.
    async fn token_actor(&self, hash: &TokenHash, now: DateTime<Utc>) -> Result<Option<UserActor>>;
    /// One token.
    async fn token_for(&self, selector: &TokenSelector) -> Result<Guarded<AccessToken>>;
    /// Tokens of a user.
    async fn token_list(
        &self,
        user: &Authorized<User, Write>,
        page: &PageRequest,
    ) -> Result<Page<AccessToken>>;
    /// A new token; removes the user's expired ones on the way.
    ///
    /// # Errors
    /// [`plural_core::Error::Unauthenticated`] when what allowed it is gone: another password, or a token that was revoked;
    /// [`plural_core::Error::Forbidden`] when an administrator who makes it for somebody else is none any more.
    async fn token_create(&self, by: Audited<'_, User, Write>, token: &TokenCreate) -> Result<AccessToken>;
    /// Revokes a token.
    async fn token_delete(&self, by: Audited<'_, AccessToken, Write>) -> Result<()>;
}

/// Which cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClusterSelector {
    /// By id.
    Id(ClusterId),
    /// By handle.
    Handle(Handle),
}

/// A cluster to make.
#[derive(Debug)]
pub struct ClusterCreate {
    /// Id.
    pub id: ClusterId,
    /// Its handle.
    pub handle: Handle,
    /// The rest.
    pub new: NewCluster,
    /// Who sets its tags.
    pub tags_by: TagAuthority,
    /// Of its deploy token.
    pub token_hash: TokenHash,
}

/// Which clusters of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterFilter {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// With tags of these names and values.
    pub tags: BTreeMap<String, String>,
    /// One tag is enough.
    pub any_tag: bool,
    /// Name or handle contains this.
    pub q: Option<String>,
}

/// Clusters.
#[async_trait]
pub trait ClusterStore: Send + Sync + 'static {
    /// One cluster, guarded by its and its project's bindings that concern `actor`.
    async fn cluster_for(&self, actor: &Actor, selector: &ClusterSelector) -> Result<Guarded<Cluster>>;
    /// Visible clusters.
    async fn cluster_list(
        &self,
        visibility: &Visibility,
        filter: &ClusterFilter,
        page: &PageRequest,
    ) -> Result<Page<Cluster>>;
    /// A new cluster with its bindings; its event tells consoles to accept its token.
    async fn cluster_create(
        &self,
        by: Audited<'_, Project, Write>,
        cluster: &ClusterCreate,
        grant: &Grant,
    ) -> Result<Cluster>;
    /// A changed cluster; its services are told, since templates read it.
    async fn cluster_update(
        &self,
        by: Audited<'_, Cluster, Write>,
        change: &ClusterChange,
        tags_by: &TagAuthority,
    ) -> Result<Cluster>;
    /// Another deploy token; the old one ends at once.
    async fn cluster_token_rotate(
        &self,
        by: Audited<'_, Cluster, Admin>,
        hash: &TokenHash,
    ) -> Result<Cluster>;
    /// Marks the cluster and its services deleted; a cluster without services goes at once. Refuses
    /// a protected one, or one with a protected service.
    async fn cluster_delete(&self, by: Audited<'_, Cluster, Admin>) -> Result<Cluster>;
    /// Forgets the cluster and its services; nothing in the cluster is touched.
    async fn cluster_detach(&self, by: Audited<'_, Cluster, Admin>) -> Result<Cluster>;
}

/// A chart repository with what is kept sealed of it.
#[derive(Debug, Clone)]
pub struct HelmRepositoryRow {
    /// The repository.
    pub repository: HelmRepository,
    /// Credentials, certificates and proxy, sealed for `helm_repository:ID:access`.
    pub access: Sealed,
}

/// A chart repository to register or change.
#[derive(Debug)]
pub struct HelmRepositoryUpsert {
    /// Id: a known one is changed.
    pub id: HelmRepositoryId,
    /// Where it is.
    pub url: HelmUrl,
    /// The only project whose services use it.
    pub project_id: Option<ProjectId>,
    /// How we sign in.
    pub provider: Option<HelmAuthProvider>,
    /// Sealed for `helm_repository:ID:access`.
    pub access: Sealed,
    /// What this was merged with: where another is stored by then, nothing is written.
    pub before: Option<Sealed>,
    /// Credentials were removed, and why.
    pub dropped: Option<String>,
}

/// Chart repositories, and what charts were resolved to.
#[async_trait]
pub trait HelmRepositoryStore: Send + Sync + 'static {
    /// The repository with exactly this address.
    async fn helm_repository(
        &self,
        by: &Authorized<Installation, Read>,
        url: &HelmUrl,
    ) -> Result<Option<HelmRepository>>;
    /// The repositories of all projects, and those of visible ones.
    async fn helm_repository_list(
        &self,
        visibility: &Visibility,
        page: &PageRequest,
    ) -> Result<Page<HelmRepository>>;
    /// The repository with exactly this address, with what is sealed.
    async fn helm_repository_row(&self, url: &HelmUrl) -> Result<Option<HelmRepositoryRow>>;
    /// All of them with what is sealed, for the jobs: administrators make them, so they are few.
    async fn helm_repository_rows(&self) -> Result<Vec<HelmRepositoryRow>>;
    /// Registers or changes one.
    async fn helm_repository_upsert(
        &self,
        by: Audited<'_, Installation, Write>,
        upsert: &HelmRepositoryUpsert,
    ) -> Result<HelmRepository>;
    /// Forgets one.
    async fn helm_repository_delete(
        &self,
        by: Audited<'_, Installation, Write>,
        id: HelmRepositoryId,
    ) -> Result<()>;
    /// Records how it was read.
    async fn helm_repository_read(
        &self,
        id: HelmRepositoryId,
        health: GitHealth,
        error: Option<String>,
        now: DateTime<Utc>,
    ) -> Result<()>;
    /// What a question was answered with last.
    async fn chart_pin(&self, key: &str) -> Result<Option<ChartPin>>;
    /// Remembers an answer.
    async fn chart_pin_put(&self, key: &str, pin: &ChartPin, now: DateTime<Utc>) -> Result<()>;
}

/// Which service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceSelector {
    /// By id.
    Id(ServiceId),
    /// By its cluster's handle and its name.
    Handle(Handle, KubeName),
}

/// Which services of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceFilter {
    /// On this cluster.
    pub cluster_id: Option<ClusterId>,
    /// From this repository.
    pub repository_id: Option<RepositoryId>,
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
    pub links: LinksWish,
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
    /// New values of its charts.
    pub values: SealedValues,
    /// Whose instance it becomes.
    pub owner: Option<Ownership>,
    /// What it is tied to.
    pub links: LinksWish,
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

/// Services.
#[async_trait]
pub trait ServiceStore: Send + Sync + 'static {
    /// One service, guarded by its, its cluster's and its project's bindings that concern `actor`.
    async fn service_for(&self, actor: &Actor, selector: &ServiceSelector) -> Result<Guarded<Service>>;
    /// Visible services.
    async fn service_list(
        &self,
        visibility: &Visibility,
        filter: &ServiceFilter,
        page: &PageRequest,
    ) -> Result<Page<Service>>;
    /// A new service with its first revision and its bindings. [`plural_core::Error::Conflict`] for a cycle of dependencies.
    async fn service_create(
        &self,
        by: Audited<'_, Cluster, Write>,
        repository: Option<&Authorized<Repository, Read>>,
        service: &ServiceCreate,
        grant: &Grant,
    ) -> Result<Service>;
    /// A changed service, with a revision when it changes what is applied.
    async fn service_update(
        &self,
        by: Audited<'_, Service, Write>,
        repository: Option<&Authorized<Repository, Read>>,
        update: &ServiceUpdate,
    ) -> Result<Service>;
    /// New services without bindings of their own: all or none of them, in as many statements as for one.
    async fn services_create(&self, all: &[ServiceMake<'_>]) -> Result<()>;
    /// Changed services: all or none of them, in few statements.
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
    /// What its current revision keeps sealed. Reading secrets needs the right to write them.
    async fn service_secrets(&self, service: &Authorized<Service, Write>) -> Result<ServiceSecrets>;
}

/// What a person does to a service besides changing it.
#[async_trait]
pub trait ServiceLifeStore: Send + Sync + 'static {
    /// Goes back to a revision of the service and pins it there.
    async fn service_rollback(
        &self,
        by: Audited<'_, Service, Write>,
        to: RevisionId,
        until: PinUntil,
    ) -> Result<Service>;
    /// Goes on to the newest revision; the pin ends.
    async fn service_release(&self, by: Audited<'_, Service, Write>) -> Result<Service>;
    /// Has the agent write nothing.
    async fn service_pause(&self, by: Audited<'_, Service, Write>) -> Result<Service>;
    /// Lets the agent go on.
    async fn service_resume(&self, by: Audited<'_, Service, Write>) -> Result<Service>;
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

/// When new commits may go on.
#[async_trait]
pub trait SyncWindowStore: Send + Sync + 'static {
    /// The windows of this very thing, none inherited.
    async fn sync_window_list(&self, target: &Authorized<BindingTarget, Read>) -> Result<Vec<SyncWindow>>;
    /// Another one.
    async fn sync_window_create(
        &self,
        by: Audited<'_, BindingTarget, Write>,
        window: &SyncWindow,
    ) -> Result<()>;
    /// Removes one of this thing.
    async fn sync_window_delete(
        &self,
        by: Audited<'_, BindingTarget, Write>,
        id: SyncWindowId,
    ) -> Result<SyncWindow>;
    /// Services that windows hold back, each with all windows that concern it.
    async fn sync_window_held(&self) -> Result<Vec<(ServiceId, Vec<SyncWindow>)>>;
    /// Lets those of the services go on that are still held back by windows; answers how many.
    async fn sync_window_open(
        &self,
        by: Audited<'_, Installation, Write>,
        services: &[ServiceId],
    ) -> Result<usize>;
}

/// The audit log.
#[async_trait]
pub trait AuditStore: Send + Sync + 'static {
    /// Stores lines of what changed nothing.
    async fn audit_note(&self, entries: &[AuditEntry]) -> Result<()>;
    /// Lines.
    async fn audit_list(
        &self,
        by: &Authorized<Installation, Read>,
        page: &PageRequest,
    ) -> Result<Page<AuditRow>>;
}
