//! Where services are read from, and their moves to new commits.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::Result;
use plural_core::address::Address;
use plural_core::ids::{ProjectId, RepositoryId, RevisionId, ServiceId};
use plural_core::project_limits::ProjectLimits;
use plural_core::service::{GitRef, Rendering};
use plural_core::service_error::ServiceError;
use serde::Serialize;

use crate::access::{Audited, Installation, Write};
use crate::ports::git::SourceSpec;

/// A service as the git job sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSource {
    /// Which.
    pub id: ServiceId,
    /// What of the repository.
    pub git: GitRef,
    /// Paths in the repository that its rendering names outside of its folder.
    pub beside: Vec<String>,
    /// Digest of the closure that its artifact was built from.
    pub closure_digest: Option<String>,
    /// Its commit.
    pub sha: Option<String>,
    /// The console's own error about it, if any.
    pub error: Option<ServiceError>,
    /// Its sequence when it was read.
    pub sequence: u64,
}

impl ServiceSource {
    /// What is taken from a commit for it.
    pub fn spec(&self) -> SourceSpec {
        let mut spec = SourceSpec::from(&self.git);
        spec.files.extend(self.beside.iter().cloned());
        spec
    }
}

/// A service that is put together from several places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComposedService {
    /// Which.
    pub id: ServiceId,
    /// Its own repository.
    pub repository_id: Option<RepositoryId>,
    /// What of it.
    pub git: Option<GitRef>,
    /// Where the rest comes from.
    pub rendering: Rendering,
    /// What its artifact was put together from.
    pub closure_digest: Option<String>,
    /// The console's own error about it, if any.
    pub error: Option<ServiceError>,
    /// Whose it is, an agent's own upgrade too; none where its cluster went meanwhile.
    pub project: Option<ProjectId>,
    /// From where its project lets it be read: an agent's own upgrade from anywhere.
    pub limits: SourceLimits,
}

/// From where the services of a project may be read, whatever leads there: the service itself, a chart's dependencies, a
/// kustomization.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct SourceLimits {
    /// The project's name.
    pub project: String,
    /// Patterns of addresses; empty: anywhere.
    pub repositories: Vec<String>,
    /// The project, where chart repositories have credentials for its services only.
    pub charts_of: Option<ProjectId>,
}

impl SourceLimits {
    /// Why nothing may be read from the address, if nothing may.
    pub fn problem(&self, address: &str) -> Option<String> {
        let Self { project, repositories, charts_of: _ } = self;
        if ProjectLimits::source_allowed(repositories, address) {
            return None;
        }
        // What a chart names may hold a password, or anything.
        let address = match address.parse::<Address>() {
            Ok(address) => address.to_string(),
            Err(reason) => format!("an address that cannot be read (it {reason})"),
        };
        Some(format!(
            "services of project {project} may not be read from {address}; its administrators can allow it \
             (limit repositories)"
        ))
    }
}

impl ComposedService {
    /// The git repositories that it is read from.
    pub fn repositories(&self) -> impl Iterator<Item = RepositoryId> {
        self.repository_id.into_iter().chain(self.rendering.repositories())
    }
}

/// A service's move to another artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRevise {
    /// Which.
    pub id: ServiceId,
    /// Id of the revision that the move makes.
    pub revision_id: RevisionId,
    /// What it was resolved from: no move when the service asks for something else by now.
    pub git: Option<GitRef>,
    /// The same of its rendering; none for a service that is one folder of one repository.
    pub rendering: Option<Rendering>,
    /// Commit; of what is in no repository, its digest.
    pub sha: String,
    /// First line of the commit's message, or name and version.
    pub message: String,
    /// Name of the commit's author; none for what is in no repository.
    pub author: Option<String>,
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
    /// Services that are one folder of this repository and are to be applied, for the git job.
    async fn service_sources(&self, repository: RepositoryId) -> Result<Vec<ServiceSource>>;
    /// Services that are put together from several places and are to be applied: all, or those among `only`.
    async fn composed_services(&self, only: Option<&[ServiceId]>) -> Result<Vec<ComposedService>>;
    /// From where the projects of these services let them be read; those that are absent, from anywhere.
    async fn source_limits(&self, services: &[ServiceId]) -> Result<HashMap<ServiceId, SourceLimits>>;
    /// Moves services to new artifacts, each with a revision, an audit line and an event, all in one
    /// transaction; those that changed meanwhile are left alone. Clears the console's error of those moved.
    async fn service_revise(
        &self,
        by: Audited<'_, Installation, Write>,
        moves: &[ServiceRevise],
    ) -> Result<Vec<ServiceId>>;
    /// The artifacts that any service or revision names, and the pieces of shared mirrors.
    async fn artifacts_named(&self) -> Result<HashSet<[u8; 32]>>;
    /// Records or clears the console's own error of each service; its artifact stays.
    async fn service_source_errors(
        &self,
        errors: &[(ServiceId, Option<ServiceError>)],
        now: DateTime<Utc>,
    ) -> Result<()>;
}
