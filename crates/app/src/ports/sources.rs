//! What the git job needs of a database: where services are read from, and their moves to new commits.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::{GitRef, RepositoryId, Result, RevisionId, ServiceError, ServiceId};

use crate::access::{Audited, Installation, Write};

/// A service as the git job sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSource {
    /// Which.
    pub id: ServiceId,
    /// What of the repository.
    pub git: GitRef,
    /// Digest of the closure that its artifact was built from.
    pub closure_digest: Option<String>,
    /// Its commit.
    pub sha: Option<String>,
    /// The console's own error about it, if any.
    pub error: Option<ServiceError>,
    /// Its sequence when it was read.
    pub sequence: u64,
}

/// A service's move to another artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRevise {
    /// Which.
    pub id: ServiceId,
    /// Id of the revision that the move makes.
    pub revision_id: RevisionId,
    /// What it was resolved from: no move when the service asks for something else by now.
    pub git: GitRef,
    /// Commit.
    pub sha: String,
    /// First line of its message.
    pub message: String,
    /// Closure.
    pub closure_digest: String,
    /// Artifact.
    pub artifact_digest: String,
    /// Root inside the artifact.
    pub artifact_folder: String,
}

/// Where services are read from.
#[async_trait]
pub trait SourceStore: Send + Sync + 'static {
    /// Services of a repository that are to be applied, for the git job.
    async fn service_sources(&self, repository: RepositoryId) -> Result<Vec<ServiceSource>>;
    /// Moves services to new artifacts, each with a revision, an audit line and an event, all in one
    /// transaction; those that changed meanwhile are left alone. Clears the console's error of those moved.
    async fn service_revise(
        &self,
        by: Audited<'_, Installation, Write>,
        moves: &[ServiceRevise],
    ) -> Result<Vec<ServiceId>>;
    /// Records or clears the console's own error of each service; its artifact stays.
    async fn service_source_errors(
        &self,
        errors: &[(ServiceId, Option<ServiceError>)],
        now: DateTime<Utc>,
    ) -> Result<()>;
}
