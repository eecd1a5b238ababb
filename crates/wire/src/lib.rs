//! What the console says over GraphQL, as its clients read it: shapes, error codes, documents and
//! a typed client.
//!
//! A document is a struct: its fields are the variables, [`Operation::Data`] is what its one root
//! field answers. `client.send(&GetCluster::by_handle("prod"))` is the whole call.
//!
//! # Guarantees
//! - A token is a [`secrecy::SecretString`] from the moment it is read; no error, log line or
//!   `Debug` output of this crate holds one.
//! - A call is repeated only when repeating it cannot do anything twice.

mod access_token;
mod background_job;
mod client;
mod cluster;
mod component;
mod dependency;
mod document;
mod error;
mod error_code;
mod git_repository;
mod global_service;
mod helm_repository;
mod managed_namespace;
mod page;
mod preview;
mod project;
mod recording;
mod rendering;
mod secret;
mod service;
mod service_context;
mod service_file;
mod service_life;
mod service_metadata;
mod shared;
mod sync;
mod sync_window;
mod user;

pub use access_token::{
    AccessToken, CreateAccessToken, CreateLastingAccessToken, CreateShortAccessToken, DeleteAccessToken,
    ListAccessTokens, ListedAccessToken, ScopeAttributes,
};
pub use background_job::{
    BackgroundJob, BackgroundJobState, DeleteBackgroundJob, ListBackgroundJobs, RetryBackgroundJob,
};
pub use client::{Client, ClientOptions, Download, ProxyOptions};
pub use cluster::{
    AgentUrl, Cluster, ClusterAttributes, ClusterDistro, ClusterRef, ClusterUpdateAttributes,
    ClusterWithJoinToken, ClusterWithToken, CreateCluster, CreateClusterWithToken, CreateJoinToken,
    DeleteCluster, DetachCluster, GetAgentUrl, GetCluster, GetClusterWithToken, ListClusters,
    RenewDeployToken, RotateDeployToken, TagQuery, UpdateCluster,
};
pub use component::{
    ComponentState, ComponentTree, GetServiceTree, ServiceComponent, ServiceComponentChild, ServiceTree,
};
pub use dependency::{
    DeleteServiceCascade, DoomedService, GetServiceDeletion, LinksAttributes, ServiceDeletion,
    ServiceDependency, ServiceDependencyAttributes,
};
pub use document::{Operation, OperationKind};
pub use error::{ClientError, GraphQlError};
pub use error_code::ErrorCode;
pub use git_repository::{
    AuthMethod, CreateGitRepository, DeleteGitRepository, GetGitRepository, GitAttributes, GitHealth,
    GitProxyAttributes, GitRepository, GitVerifyAttributes, ListGitRepositories,
};
pub use global_service::{
    CreateGlobalService, DeleteGlobalService, GetGlobalService, GlobalService, GlobalServiceAttributes,
    GlobalServiceInstance, GlobalServiceInstances, InstanceCounts, ListGlobalServiceInstances,
    ListGlobalServices, Rollout, RolloutState, RolloutSteering, SteerRollout, UpdateGlobalService,
};
pub use helm_repository::{
    DeleteHelmRepository, HelmAuthAttributes, HelmAuthProvider, HelmRepository, HelmRepositoryAttributes,
    ListHelmRepositories, UpsertHelmRepository,
};
pub use managed_namespace::{
    CreateManagedNamespace, DeleteManagedNamespace, GetManagedNamespace, ListManagedNamespaceInstances,
    ListManagedNamespaces, ManagedNamespace, ManagedNamespaceAttributes, ManagedNamespaceCascade,
    ManagedNamespaceCounts, ManagedNamespaceInstance, ManagedNamespaceInstances, ManagedNamespaceService,
    ManagedNamespaceState, ManagedNamespaceTarget, UpdateManagedNamespace,
};
pub use page::{Connection, Edge, PAGE_SIZE, PageInfo, all_pages};
pub use plural_specs::{
    Change, DiffNormalizer, DiffNormalizerPatch, Document, Fault, Json, NamespaceMetadata,
    NamespaceMetadataPatch, Seconds, SyncConfig, SyncConfigPatch, SyncPolicy, SyncPolicyPatch,
};
pub use preview::{GetServicePreview, RenderedObject, ServicePreview};
pub use project::{GetProject, Project, ProjectLimits, ProjectRef, SetProjectLimits};
pub use recording::{
    ClusterRecordings, GetRecordingPolicy, ListReadableRecordings, ListRecordings, ProjectRecordings,
    Recording, RecordingGroup, RecordingPolicy, RecordingPolicyAttributes, RecordingState,
    SetRecordingPolicy,
};
pub use rendering::{
    GetServiceRendering, HelmConfigAttributes, HelmMinimalAttributes, HelmSummary, HelmValue, HelmVerify,
    KustomizeAttributes, RendererAttributes, RendererSummary, RenderingAttributes, ServiceRendering,
    ServiceSourceAttributes, SourceGit,
};
pub use secret::Secret;
pub use service::{
    ConfigAttributes, CreateServiceDeployment, DeleteServiceDeployment, DetachServiceDeployment,
    GetServiceDeployment, GitRef, GitRefAttributes, KickService, ListServiceDeployments, Revision,
    ServiceConfiguration, ServiceDeployment, ServiceDeploymentAttributes, ServiceDeploymentStatus,
    ServiceDetails, ServiceError, ServiceUpdateAttributes, UpdateServiceDeployment,
};
pub use service_context::{
    ContextBindingAttributes, DeleteServiceContext, GetServiceContext, ListServiceContexts,
    SaveServiceContext, ServiceContext, ServiceContextAttributes, ServiceContextRef,
};
pub use service_file::{GetServiceFiles, ListServiceFiles, ServiceFile};
pub use service_life::{
    CloneService, ListServiceEvents, ListServiceRevisions, MarkAgentUpgrade, PauseService, PinUntil,
    ReleaseService, ResumeService, RevisionDetails, RollbackService, ServiceCloneAttributes, ServiceEvent,
    ServiceEvents, ServicePin, ServiceRevisions,
};
pub use service_metadata::{
    ApiDeprecation, ClusterDeprecations, DeprecatedComponent, GetServiceFacts, ListClusterDeprecations,
    RepositoryRef, ServiceFacts, ServiceMetadata, ServiceRef,
};
pub use shared::{Id, Tag};
pub use sync::{
    ApproveServicePrune, DriftEvent, DriftKind, FieldChange, GetServiceGateUrl, GetServicePlan, HookOutcome,
    IgnoreServiceDrift, ListServiceDrift, ObjectRef, PendingApproval, PlanAction, PlanService, PlannedObject,
    PromoteService, Promoted, Requested, ServiceDrift, ServicePlan, ServicePromotion, ServiceSync, SyncHook,
    SyncPhase, SyncService, SyncServiceAttributes, SyncStep, SyncWaiting,
};
pub use sync_window::{
    CreateSyncWindow, DeleteSyncWindow, ListSyncWindows, SyncWindow, SyncWindowAttributes, SyncWindowKind,
};
pub use user::{ChangePassword, Me, PasswordAttributes, PasswordChanged, SignIn, SignedIn, User};
