//! What plans on pull requests need of a git host.

use async_trait::async_trait;
use plural_core::pull_request::PrStatus;
use plural_core::stack_pull_comment::PullState;

use crate::ports::git_hosts::HostResult;

/// A pull request as its host tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPullHead {
    /// Its number.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// Its title.
    pub title: String,
    /// How it stands.
    pub status: PrStatus,
    /// Head commit; nothing of one that is over and whose host does not tell it.
    pub sha: String,
    /// It comes from another repository, or from one that is gone.
    pub fork: bool,
    /// Branch that it goes into.
    pub base: String,
}

/// A check of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCheck {
    /// Its name; the next one of the same name replaces it.
    pub context: String,
    /// How it stands.
    pub state: PullState,
    /// In words.
    pub description: String,
    /// Page with more.
    pub url: Option<String>,
}

/// A git host, for plans on its pull requests.
#[async_trait]
pub trait HostPulls: Send + Sync {
    /// Reads a pull request.
    async fn pull(&self, repository: &str, number: u64) -> HostResult<HostPullHead>;
    /// The numbers of pull requests that are open, with a text that is another one when head or base is; and whether there are more than the
    /// host lists.
    async fn pulls_open(&self, repository: &str) -> HostResult<(Vec<(u64, String)>, bool)>;
    /// Paths that a pull request changes, those too that files had before; and whether there are more than the host lists.
    async fn pull_paths(&self, repository: &str, number: u64) -> HostResult<(Vec<String>, bool)>;
    /// Writes the one comment with this marker (letters, digits, `-`): edits the connection's own, or adds it.
    async fn pull_tell(&self, repository: &str, number: u64, marker: &str, body: &str) -> HostResult<()>;
    /// Tells how a check of a commit stands.
    async fn check_tell(&self, repository: &str, commit: &str, check: &HostCheck) -> HostResult<()>;
}
