//! What use cases need of the outside. Adapters implement these; `console` joins them.

mod blobs;
mod git;
mod store;

pub use blobs::{BlobStream, Blobs};
pub use git::{
    Built, Closure, CommitInfo, FetchOutcome, GitAccess, GitCredentials, GitError, GitPort, SourceSpec,
};
pub use store::{
    AgentReportRow, AgentStore, AuditStore, BindingStore, ClusterCreate, ClusterCredential, ClusterFilter,
    ClusterSelector, ClusterStore, FeedBatch, FeedEvent, FeedPosition, FeedSubject, FleetLoad, GroupSelector,
    GroupStore, InitialAdmin, PingRow, ProjectSelector, ProjectStore, RepositoryCreate, RepositoryFetched,
    RepositorySelector, RepositoryStore, RepositoryWork, ServiceCreate, ServiceFilter, ServiceReportRow,
    ServiceRevise, ServiceSelector, ServiceSource, ServiceSpecRow, ServiceStore, ServiceUpdate, Store,
    TokenCreate, TokenSelector, TokenStore, UserSelector, UserStore,
};
