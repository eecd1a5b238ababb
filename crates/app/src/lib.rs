//! Use cases by noun, authorisation, jobs. Knows no adapter: databases, git and blobs are ports that
//! `console` fills.
//!
//! # Guarantees
//! - Every use case passes [`plural_core::access::authorize`]: a store's lookup answers with a closed
//!   [`Guarded`], only [`Authorized`] handles open writes, and every such write carries its audit line ([`Audited`]).
//! - A request never waits for git: it validates, writes, and the feed wakes the jobs.
//! - An unchanged agent poll is answered from memory.

mod access;
mod agent;
mod agent_call;
mod agent_poll;
mod api_deprecation;
mod app;
mod audit;
mod canary_gate;
mod cluster;
mod cluster_audit;
mod ctx;
mod dependency;
mod deploy_token;
mod feed;
mod fleet;
mod global_service;
mod group;
mod hashing;
mod helm_repository;
mod instance;
mod job;
mod jobs;
mod lease;
mod login;
mod managed_namespace;
mod many;
mod marks;
mod masking;
mod mirror;
mod policy;
mod ports;
mod preview;
mod project;
mod project_limits;
mod proxy;
mod questions;
mod recorder;
mod recording;
mod rendering;
mod replica;
mod repository;
mod repository_reach;
mod repository_webhook;
mod seal;
mod secret;
mod service;
mod service_context;
mod service_file;
mod service_life;
mod service_metadata;
mod source;
mod store;
mod streams;
mod sync;
mod sync_report;
mod sync_window;
mod throttle;
mod token;
mod user;
mod webhook;

pub use access::{
    Act, Admin, Audited, Authorized, Bindable, Grant, Guarded, Home, Installation, Noun, Read,
    ReadRecordings, Write,
};
pub use agent::{AgentFacts, AgentHandle, AgentReport, AgentSync, ReportedService};
pub use agent_call::{AgentCall, AgentCallKind};
pub use agent_poll::{ClusterData, PollAnswer, PollAsked, ServiceSpec};
pub use api_deprecation::ApiDeprecationStore;
pub use app::{App, Ports, Settings};
pub use audit::AuditStore;
pub use canary_gate::{CanaryGateStore, GateAnswer};
pub use cluster::{ClusterCreate, ClusterFilter, ClusterSelector, ClusterStore, CreatedCluster};
pub use ctx::{Clock, OpCtx, SystemClock};
pub use dependency::{ContextsWish, DependencyStore, DependencyWish, LinksWish, ServiceDeletion};
pub use deploy_token::{
    CreatedJoinToken, DeployTokenStore, JOIN_TOKEN_PREFIX, JoinHandle, Joined, NextToken, TokenStanding,
};
pub use fleet::{AgentHint, AgentHints, FeedCursor, ServiceMove};
pub use global_service::{
    Generation, GlobalServiceCreate, GlobalServiceSelector, GlobalServiceStore, GlobalServiceWork, Instance,
    InstanceStore, NewGeneration, Ownership, RolloutAction, TemplateWish,
};
pub use group::{GroupSelector, GroupStore};
pub use helm_repository::{HelmRepositoryRow, HelmRepositoryStore, HelmRepositoryUpsert, NewHelmAccess};
pub use instance::{InstanceCounts, InstanceListStore};
pub use job::{
    ClaimedJob, Job, JobClaimer, JobCount, JobEnd, JobEntry, JobFailure, JobFilter, JobStore, NewJob,
};
pub use jobs::{RenewServices, RenewedRepository, Reseal, Resealed, ResealedWith};
pub use lease::{Fence, JobClaim};
pub use login::FirstAdmin;
pub use managed_namespace::{
    ManagedNamespaceCreate, ManagedNamespaceSelector, ManagedNamespaceStore, ManagedNamespaceUpdate,
    NamespaceCounts, NamespaceInstance, Part, ServicePart,
};
pub use many::{KeptSecrets, ManyStore};
pub use mirror::{MirrorStore, SharedMirror};
pub use policy::{BoundSubject, PolicyStore, SubjectNoun};
pub use ports::*;
pub use project::{ProjectSelector, ProjectStore};
pub use proxy::{ProxyGrant, ProxyStore};
pub use recorder::{Recorder, RecorderStopped, RecordingWriter};
pub use recording::{
    NewRecordingPolicy, RecordedProject, RecordingPiece, RecordingRow, RecordingSettings, RecordingStore,
    Recordings, RecordingsSelector,
};
pub use rendering::{RenderingValues, SealedValues, ServiceSecrets};
pub use replica::{Replica, ReplicaAddress, ReplicaBeat, ReplicaNews, ReplicaStore};
pub use repository::{
    CredentialsChange, NewCredentials, RepositoryBefore, RepositoryCreate, RepositoryFetched,
    RepositorySecrets, RepositorySelector, RepositoryStore, RepositoryWork,
};
pub use repository_reach::NewReach;
pub use repository_webhook::RepositoryWebhookStore;
pub use seal::{SealStore, Sealed, SealedColumn, SealedValue, Sealer};
pub use secret::{NewToken, TokenHash, hash_password, random, random_password, verify_password};
pub use service::{
    ServiceCreate, ServiceFilter, ServiceMake, ServiceRemake, ServiceSelector, ServiceStore, ServiceUpdate,
};
pub use service_context::{
    ContextUsers, ServiceContextFilter, ServiceContextRow, ServiceContextSave, ServiceContextSelector,
    ServiceContextStore,
};
pub use service_life::{ServiceClone, ServiceLifeStore, feeds_agent_upgrade};
pub use service_metadata::ServiceMetadataStore;
pub use source::{ComposedService, ServiceRevise, ServiceSource, SourceLimits, SourceStore};
pub use store::Store;
pub use sync::{NamedLimits, PlanSelector, SyncStore};
pub use sync_window::{NewSyncWindow, SyncWindowStore};
pub use throttle::{LoginDecision, LoginStore, LoginTries};
pub use token::{CreatedToken, TokenCreate, TokenSelector, TokenStore, TokenWish};
pub use user::{InitialAdmin, NewPassword, PasswordSet, Proof, UserCreate, UserSelector, UserStore};
pub use webhook::{WebhookProvider, WebhookRequest};
