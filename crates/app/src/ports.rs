//! What use cases need of the outside besides the parts of a store, which stand beside their use cases. Adapters implement
//! these; `console` joins them.

mod agents;
mod blobs;
mod charts;
mod git;
mod previews;
mod templates;

pub use agents::{
    AgentReportRow, AgentStore, ClusterCredential, EventMark, FeedBatch, FeedEvent, FeedPosition,
    FeedSubject, FleetLoad, PingRow, ServiceReportRow, ServiceSpecRow,
};
pub use blobs::{BlobStream, Blobs};
pub use charts::{
    ChartAccess, ChartCredentials, ChartPart, ChartPin, ComposeError, Composed, Composer, Composition,
    GitPart,
};
pub use git::{
    Built, Closure, CommitInfo, FetchOutcome, GitAccess, GitCredentials, GitError, GitPort, GitReach,
    KeepMirror, MirrorBundle, SourceSpec,
};
pub use previews::{Preview, PreviewObject, Previews};
pub use templates::Templates;
