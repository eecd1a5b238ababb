//! What use cases need of the outside. Adapters implement these; `console` joins them.

mod agents;
mod blobs;
mod git;
mod many;
mod previews;
mod proxy;
mod sources;
mod store;

pub use agents::{
    AgentReportRow, AgentStore, ClusterCredential, FeedBatch, FeedEvent, FeedPosition, FeedSubject,
    FleetLoad, PingRow, ServiceReportRow, ServiceSpecRow,
};
pub use blobs::{BlobStream, Blobs};
pub use git::{
    Built, Closure, CommitInfo, FetchOutcome, GitAccess, GitCredentials, GitError, GitPort, SourceSpec,
};
pub use many::ManyStore;
pub use previews::{Preview, PreviewObject, Previews};
pub use proxy::ProxyStore;
pub use sources::{ServiceRevise, ServiceSource, SourceStore};
pub use store::{
    AuditStore, BindingStore, ClusterCreate, ClusterFilter, ClusterSelector, ClusterStore, GroupSelector,
    GroupStore, InitialAdmin, ProjectSelector, ProjectStore, RepositoryCreate, RepositoryFetched,
    RepositorySelector, RepositoryStore, RepositoryWork, ServiceCreate, ServiceFilter, ServiceSelector,
    ServiceStore, ServiceUpdate, Store, TokenCreate, TokenSelector, TokenStore, UserSelector, UserStore,
};
