//! What the console needs of chart repositories, registries and artifacts of several parts.

use std::fmt;

use async_trait::async_trait;
use plural_core::helm_repository::HelmUrl;
use plural_core::ids::ProjectId;
use plural_core::service::HelmVerify;
use secrecy::SecretString;

use super::git::{Built, GitAccess, GitError, SourceSpec};
use crate::source::SourceLimits;

/// A chart repository and the right to read it.
#[derive(Debug, Clone)]
pub struct ChartAccess {
    /// Where it is.
    pub url: HelmUrl,
    /// The only project whose services use it.
    pub project_id: Option<ProjectId>,
    /// How to sign in.
    pub credentials: Option<ChartCredentials>,
    /// Certificates (PEM) to trust besides the system's.
    pub ca: Option<String>,
    /// Proxy to go through.
    pub proxy: Option<String>,
}

/// How to sign in.
#[derive(Debug, Clone)]
pub enum ChartCredentials {
    /// User name and password.
    Basic {
        /// User name.
        username: String,
        /// Password or token.
        password: SecretString,
    },
    /// A token, sent as it is.
    Bearer {
        /// The token.
        token: SecretString,
    },
}

/// A folder of a git repository at a commit.
#[derive(Debug, Clone)]
pub struct GitPart {
    /// The repository.
    pub access: GitAccess,
    /// The commit.
    pub sha: String,
    /// What of it.
    pub source: SourceSpec,
}

/// Where a chart comes from that is not in the service's own folder.
#[derive(Debug, Clone)]
pub enum ChartPart {
    /// A chart repository or registry.
    Repository {
        /// Its address.
        address: String,
        /// The chart; none for an artifact at the address itself.
        chart: Option<String>,
        /// Version, range, tag or digest; empty for the highest.
        version: String,
        /// Who must have signed it.
        verify: Option<HelmVerify>,
        /// What the same question was answered with last.
        pin: Option<ChartPin>,
    },
    /// A folder of git.
    Git(GitPart),
}

/// A version and the digest of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChartPin {
    /// The version.
    pub version: String,
    /// `sha256:…`.
    pub digest: String,
}

/// The parts of one artifact. Where they lie: the chart, or else the service's own git folder, at the service's root; of
/// a git folder beside a chart only `files`, at their own paths; each source below its path, later ones over earlier.
#[derive(Debug, Clone, Default)]
pub struct Composition {
    /// The service's own folder.
    pub git: Option<GitPart>,
    /// A chart from elsewhere.
    pub chart: Option<ChartPart>,
    /// Paths relative to the service's root that are taken from its own folder beside a chart.
    pub files: Vec<String>,
    /// Further folders, each with the path that it goes to.
    pub sources: Vec<(String, GitPart)>,
    /// How to sign in to chart repositories.
    pub repositories: Vec<ChartAccess>,
    /// Ask repositories anew, however young the known answer is.
    pub fresh: bool,
    /// Whose it is, for turns with others: that of its services, an agent's own upgrade too, or that of its repository; none
    /// where its cluster went meanwhile.
    pub project: Option<ProjectId>,
    /// From where anything may be read. Held by the composer before it asks anybody: only it sees which addresses a
    /// chart's dependencies and a kustomization lead to.
    pub limits: SourceLimits,
}

/// An artifact of several parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composed {
    /// The artifact, stored.
    pub built: Built,
    /// What the chart's version turned out to be.
    pub chart: Option<ChartPin>,
}

/// Puts artifacts together. Every call has a deadline of its own inside.
#[async_trait]
pub trait Composer: Send + Sync + 'static {
    /// Resolves, fetches, verifies, lays out and stores. The chart's missing dependencies are part of it.
    async fn compose(&self, composition: &Composition) -> Result<Composed, ComposeError>;
}

/// Why an artifact cannot be put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComposeError {
    /// For the owner.
    pub error: GitError,
    /// It is the chart repository that cannot be read.
    pub repository: bool,
}

impl fmt::Display for ComposeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}
