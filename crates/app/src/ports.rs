//! What use cases need of the outside. Adapters implement these; `console` joins them.

mod agents;
mod blobs;
mod canary_gates;
mod charts;
mod contexts;
mod dependencies;
mod deploy_tokens;
mod descriptions;
mod git;
mod global_services;
mod instances;
mod logins;
mod managed_namespaces;
mod many;
mod mirrors;
mod people;
mod previews;
mod proxy;
mod recordings;
mod replicas;
mod repositories;
mod repository_webhooks;
mod seals;
mod sources;
mod store;
mod sync;
mod templates;

pub use agents::{
    AgentReportRow, AgentStore, ClusterCredential, EventMark, FeedBatch, FeedEvent, FeedPosition,
    FeedSubject, FleetLoad, PingRow, ServiceReportRow, ServiceSpecRow,
};
pub use blobs::{BlobStream, Blobs};
pub use canary_gates::{CanaryGateStore, GateAnswer};
pub use charts::{
    ChartAccess, ChartCredentials, ChartPart, ChartPin, ComposeError, Composed, Composer, Composition,
    GitPart,
};
pub use contexts::{
    ContextUsers, ServiceContextFilter, ServiceContextRow, ServiceContextSave, ServiceContextSelector,
    ServiceContextStore,
};
pub use dependencies::{ContextsWish, DependencyStore, DependencyWish, LinksWish};
pub use deploy_tokens::{DeployTokenStore, Joined, NextToken};
pub use descriptions::{ApiDeprecationStore, ServiceMetadataStore};
pub use git::{
    Built, Closure, CommitInfo, FetchOutcome, GitAccess, GitCredentials, GitError, GitPort, GitReach,
    KeepMirror, MirrorBundle, SourceSpec,
};
pub use global_services::{
    Generation, GlobalServiceCreate, GlobalServiceSelector, GlobalServiceStore, GlobalServiceWork, Instance,
    InstanceStore, NewGeneration, Ownership, TemplateWish,
};
pub use instances::{InstanceCounts, InstanceListStore};
pub use logins::{LoginDecision, LoginStore, LoginTries};
pub use managed_namespaces::{
    ManagedNamespaceCreate, ManagedNamespaceSelector, ManagedNamespaceStore, ManagedNamespaceUpdate,
    NamespaceCounts, NamespaceInstance, Part, ServicePart,
};
pub use many::{KeptSecrets, ManyStore};
pub use mirrors::{MirrorStore, SharedMirror};
pub use people::{PasswordSet, Proof, TokenCreate, UserCreate};
pub use previews::{Preview, PreviewObject, Previews};
pub use proxy::ProxyStore;
pub use recordings::{RecordingPiece, RecordingRow, RecordingStore, Recordings, RecordingsSelector};
pub use replicas::{Replica, ReplicaAddress, ReplicaBeat, ReplicaNews, ReplicaStore};
pub use repositories::{
    CredentialsChange, RepositoryBefore, RepositoryCreate, RepositoryFetched, RepositorySecrets,
    RepositorySelector, RepositoryStore, RepositoryWork,
};
pub use repository_webhooks::RepositoryWebhookStore;
pub use seals::{SealStore, SealedColumn, SealedValue};
pub use sources::{ComposedService, ServiceRevise, ServiceSource, SourceLimits, SourceStore};
pub use store::{
    AuditStore, BindingStore, ClusterCreate, ClusterFilter, ClusterSelector, ClusterStore, GroupSelector,
    GroupStore, HelmRepositoryRow, HelmRepositoryStore, HelmRepositoryUpsert, InitialAdmin, ProjectSelector,
    ProjectStore, ServiceCreate, ServiceFilter, ServiceLifeStore, ServiceMake, ServiceRemake,
    ServiceSelector, ServiceStore, ServiceUpdate, Store, SyncWindowStore, TokenSelector, TokenStore,
    UserSelector, UserStore,
};
pub use sync::{NamedLimits, PlanSelector, SyncStore};
pub use templates::Templates;
