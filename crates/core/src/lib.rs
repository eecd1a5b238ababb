//! Nouns, ids, states and pure decisions. No IO, no async, no clock: whoever calls brings the time.
//!
//! Every other room may use this one; it uses only `specs`, the settings documents. A rule that can be said without a database,
//! a network or a cluster lives here, beside the noun it is about.

pub mod access;
mod address;
mod address_pattern;
mod api_deprecation;
mod asciicast;
mod audit;
mod canary_gate;
mod cluster;
mod cluster_audit;
mod cluster_tags;
mod component;
mod cron;
mod dependency;
mod destination;
mod error;
mod global_service;
mod group;
mod helm_repository;
mod ids;
mod job;
mod managed_namespace;
mod mask;
mod page;
pub mod pattern;
mod policy;
mod project;
mod project_limits;
mod promotion;
mod recording;
mod recording_policy;
mod repository;
mod revision;
mod rollout;
mod service;
mod service_account;
mod service_context;
mod service_error;
mod service_file;
mod service_metadata;
mod status;
mod sync;
mod sync_window;
mod target;
mod token;
mod user;
mod work;

pub use address::{Address, Scheme};
pub use address_pattern::{AddressPattern, address_allowed};
pub use api_deprecation::{ApiDeprecation, DeprecatedComponent, KubernetesMinor, ListedApi};
pub use asciicast::{CastEvent, Utf8Pieces, cast_event, cast_header};
pub use audit::{AuditEntry, AuditRow, AuditTarget};
pub use canary_gate::{CanaryGate, GateHook, GateQuestion};
pub use cluster::{Cluster, ClusterChange, ClusterDistro, ClusterFacts, NewCluster, TagsChange, check_tags};
pub use cluster_audit::{ClusterAuditEntry, ClusterAuditRow};
pub use cluster_tags::{ProtectedTag, TagAuthority, TagLevel};
pub use component::{Component, ComponentChild, ComponentKey, ComponentState};
pub use cron::Cron;
pub use dependency::{
    Dependency, DependencyOn, DependencyRef, MAX_DEPENDENCIES, ServiceLinks, Standing, check_dependencies,
    dependencies_first, find_cycle, obstacle,
};
pub use destination::{Destination, Route};
pub use error::{Error, ErrorCode, PublicError, Result};
pub use global_service::{
    Cascade, GlobalService, GlobalServiceChange, GlobalServiceSource, GlobalServiceSpec,
    GlobalServiceSpecChange, NewGlobalService, ServiceTemplate, TemplateSecrets,
};
pub use group::{Group, GroupChange, GroupMember, NewGroup};
pub use helm_repository::{HelmAuthProvider, HelmRepository, HelmUrl, chart_place};
pub use ids::{
    AuditId, BindingId, ClusterAuditId, ClusterId, DependencyId, DriftId, GlobalServiceId, GroupId,
    GroupMemberId, HelmRepositoryId, IdError, JobId, ManagedNamespaceId, PlanId, PolicyId, ProjectId,
    RecordingId, ReplicaId, RepositoryId, RequestId, RevisionId, ServiceContextId, ServiceId, SyncWindowId,
    TokenId, UserId,
};
pub use job::{BackgroundJob, JobState};
pub use managed_namespace::{
    ManagedNamespace, ManagedNamespaceChange, ManagedNamespaceSpec, ManagedNamespaceSpecChange,
    ManagedNamespaceState, NamespaceContent, NewManagedNamespace, in_namespace,
};
pub use mask::{MASK, Masker, SecretValues};
pub use page::{Direction, Edge, Keyed, Page, PageArgs, PageRequest};
use plural_specs::name;
pub use plural_specs::{
    Change, DiffNormalizer, Document, Edit, Email, Fault, Handle, KubeName, Name, NameError,
    NamespaceMetadata, Seconds, ServiceAccount, SyncConfig, SyncConfigPatch, SyncPolicy, SyncPolicyPatch,
};
pub use plural_specs::{HOLDS_NUL, has_nul, json_has_nul, without_nul};
pub use policy::{Binding, BindingSubject, BindingsChange, Policy, PolicyNoun, Rights, Role};
pub use project::{NewProject, Project, ProjectChange};
pub use project_limits::ProjectLimits;
pub use promotion::{PROMOTION_LASTS, Promoted, Promotion, PromotionRequest};
pub use recording::{Recording, RecordingEnd, RecordingState, Shell, ShellKind};
pub use recording_policy::RecordingPolicy;
pub use repository::{AuthMethod, GitHealth, NewRepository, Repository, RepositoryChange, RepositoryUrl};
pub use revision::Revision;
pub use rollout::{Advance, Cohort, CohortMembers, Member, Rollout, RolloutState, RolloutStrategy, Share};
pub use service::{
    Configuration, GitRef, Helm, HelmConfig, HelmSet, HelmValues, HelmVerify, Intent, Kustomize, NewService,
    Pin, PinUntil, Renderer, RendererConfig, RendererHelm, RendererKind, Rendering, RenderingChange,
    SecretsHome, Service, ServiceChange, ServiceDifference, ServiceSettings, SourceRef,
};
pub use service_account::AccountRule;
pub use service_context::{MAX_CONTEXTS, ServiceContext, ServiceContextChange, context_data};
pub use service_error::ServiceError;
pub use service_file::{FileContent, ServiceFile};
pub use service_metadata::ServiceMetadata;
pub use status::{ServiceStatus, StatusInput, component_status, service_status};
pub use sync::{
    ApprovedPrune, DriftEvent, DriftKind, FieldChange, HookOutcome, MAX_CHOSEN, ObjectRef, PendingApproval,
    PlanAction, PlannedObject, ReportedDrift, ReportedPlan, ServiceSync, SyncAsk, SyncHook, SyncPhase,
    SyncPlan, SyncProgress, SyncReport, SyncRequest, SyncStep, SyncWaiting,
};
pub use sync_window::{
    MAX_WINDOW_SECONDS, SyncWindow, SyncWindowKind, WindowDecision, WindowRule, window_decision,
};
pub use target::ClusterTarget;
pub use token::{
    AccessToken, DEPLOY_TOKEN_PREFIX, FRESH_SESSION, Issue, PresentedToken, SHORT_TOKEN, TokenScope,
    TokenScopes, USER_TOKEN_PREFIX, issue_token, unproven,
};
pub use user::{NewUser, User, UserChange};
pub use work::{Contract, ServiceHead, SourceHead, WorkChange, WorkKind, WorkRef, WorkSummary};
