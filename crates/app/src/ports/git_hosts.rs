//! What use cases need of git hosts.

use std::sync::Arc;

use async_trait::async_trait;
use plural_core::pr_tree::Within;
use plural_core::pull_request::PrStatus;
use plural_core::pull_request_life::{PrChecks, PrMergeMethod, PrReviews};
use plural_core::scm_connection::ScmConnection;
use plural_core::scm_webhook::ScmWebhookScope;
use plural_core::{Error, Result};
use secrecy::SecretString;

use crate::ports::git_host_pulls::HostPulls;

/// What a connection signs in with, opened for one use.
pub struct HostSecrets {
    /// Token or password.
    pub token: Option<SecretString>,
    /// Private key of a GitHub App.
    pub app_key: Option<SecretString>,
    /// Private key that commits are signed with.
    pub signing_key: Option<SecretString>,
    /// Proxy, with its user.
    pub proxy: Option<SecretString>,
    /// Private key that signs in by ssh.
    pub ssh_key: Option<SecretString>,
    /// Passphrase of that key.
    pub ssh_passphrase: Option<SecretString>,
}

/// Why a host did not do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostCause {
    /// It may do it later. Whether a write was done is not known: read it back.
    Later,
    /// There is no such thing, or the credential does not see it.
    NotFound,
    /// A branch is not where it was expected.
    Moved,
    /// It is there already.
    Conflict,
    /// It will not do it.
    Refused,
}

/// An error of a host. Its text holds no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    /// What kind of trouble it is.
    pub cause: HostCause,
    /// For those who may open pull requests through the connection.
    pub message: String,
}

impl From<HostError> for Error {
    fn from(error: HostError) -> Self {
        match error.cause {
            HostCause::Later => Self::unavailable(error.message),
            HostCause::NotFound | HostCause::Refused => Self::invalid("connection", error.message),
            HostCause::Moved | HostCause::Conflict => Self::conflict(error.message),
        }
    }
}

/// What a host gives.
pub type HostResult<T> = std::result::Result<T, HostError>;

/// What a path of a repository is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostEntry {
    /// A file.
    File,
    /// A file that may be run.
    Executable,
    /// A link, or another repository.
    Link,
}

/// A change of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct HostChange {
    /// Where.
    pub path: String,
    /// Its content from then on; it is taken away without.
    pub content: Option<Vec<u8>>,
    /// Whether it may be run from then on, where that changes.
    pub executable: Option<bool>,
}

/// A commit on a branch that is made with it.
pub struct HostCommit {
    /// The branch that is made.
    pub branch: String,
    /// The branch that it comes from.
    pub base: String,
    /// The head that the base has to have.
    pub parent: String,
    /// The commit's message.
    pub message: String,
    /// At least one, each path once.
    pub changes: Vec<HostChange>,
}

/// A pull request to open.
pub struct HostNewPullRequest {
    /// From this branch.
    pub head: String,
    /// Into this one.
    pub base: String,
    /// Title.
    pub title: String,
    /// Text.
    pub body: String,
}

/// A pull request that a host has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostOpened {
    /// Its number.
    pub number: u64,
    /// Its address.
    pub url: String,
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// Who opened it.
    pub author: String,
    /// How it stands.
    pub status: PrStatus,
    /// It was open before.
    pub existed: bool,
}

/// A pull request as it stands at a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPull {
    /// Its number.
    pub number: u64,
    /// Its address.
    pub url: String,
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// Who opened it.
    pub author: String,
    /// How it stands.
    pub status: PrStatus,
    /// It is not ready for review.
    pub draft: bool,
    /// It comes from another repository.
    pub fork: bool,
    /// The branch that it comes from.
    pub branch: String,
    /// The branch that it goes to.
    pub base: String,
    /// Its head commit.
    pub head: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// The commit that merged it.
    pub merge_commit: Option<String>,
}

/// How a branch of a host without pull requests stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostBranch {
    /// Merged: the other branch has all of it. Closed: it is gone, and was not merged.
    pub status: PrStatus,
    /// The commit that it is at; nothing of one that is gone, or that has nothing of its own any more.
    pub head: Option<String>,
    /// The commit that the branch is at that it goes to.
    pub base: String,
}

/// A git host through one connection.
#[async_trait]
pub trait Host: HostPulls {
    /// The commit that a branch is at.
    async fn head(&self, repository: &str, branch: &str) -> HostResult<String>;
    /// Paths of a commit, of those folders that are looked into.
    async fn tree(
        &self,
        repository: &str,
        commit: &str,
        within: &Within,
    ) -> HostResult<Vec<(String, HostEntry)>>;
    /// A file of a commit.
    async fn read(&self, repository: &str, commit: &str, path: &str) -> HostResult<Vec<u8>>;
    /// Makes a commit, all of it or nothing; its id. [`HostCause::Moved`] when the base is elsewhere, [`HostCause::Conflict`] when the
    /// branch is there.
    async fn commit(&self, repository: &str, commit: &HostCommit) -> HostResult<String>;
    /// Whether a commit is this one: on top of its parent alone, and with its message; nothing where the host does not tell.
    async fn is_commit(&self, repository: &str, id: &str, commit: &HostCommit) -> HostResult<Option<bool>>;
    /// Removes a branch while it is at this commit, else [`HostCause::Moved`]; one that is gone is no error.
    async fn delete_branch(&self, repository: &str, branch: &str, at: &str) -> HostResult<()>;
    /// How a branch, made with this commit and seen at another one last, stands over the one that it is to go into: for a host without pull
    /// requests. [`HostCause::Conflict`] where that cannot be told any more.
    async fn follow(
        &self,
        repository: &str,
        branch: &str,
        base: &str,
        commit: &str,
        last: Option<&str>,
    ) -> HostResult<HostBranch>;
    /// Opens a pull request, or gives the one that is open for these branches.
    async fn open(&self, repository: &str, new: &HostNewPullRequest) -> HostResult<HostOpened>;
    /// The newest pull request of a branch whose text holds this, however it stands.
    async fn find(&self, repository: &str, head: &str, text: &str) -> HostResult<Option<HostOpened>>;
    /// Adds labels.
    async fn add_labels(&self, repository: &str, number: u64, labels: &[String]) -> HostResult<()>;
    /// A pull request as it stands now.
    async fn pull_request(&self, repository: &str, number: u64) -> HostResult<HostPull>;
    /// The pull requests that are open, as many as are listed; and whether there are more.
    async fn open_pull_requests(&self, repository: &str) -> HostResult<(Vec<HostPull>, bool)>;
    /// The checks of a commit; nothing where the host does not tell of them, or the credential may not see them.
    async fn checks(&self, repository: &str, commit: &str) -> HostResult<Option<PrChecks>>;
    /// What reviewers say; nothing where the host does not tell, or the credential may not see it.
    async fn reviews(&self, repository: &str, number: u64) -> HostResult<Option<PrReviews>>;
    /// Merges while the head is this commit, else [`HostCause::Moved`].
    async fn merge(&self, repository: &str, number: u64, head: &str, method: PrMergeMethod)
    -> HostResult<()>;
    /// Approves this head, with a text; [`HostCause::Moved`] when the head is another. Hosts refuse that to whoever opened it.
    async fn approve(&self, repository: &str, number: u64, head: &str, text: &str) -> HostResult<()>;
    /// Closes without a merge; one that is merged is a conflict.
    async fn close(&self, repository: &str, number: u64) -> HostResult<()>;
    /// Has a webhook that sends to this address and proves itself with the secret: makes it, or sets the secret of the one that is there.
    async fn webhook_set(&self, scope: &ScmWebhookScope, url: &str, secret: &SecretString) -> HostResult<()>;
    /// Removes the webhooks that send to this address; whether there was one.
    async fn webhook_remove(&self, scope: &ScmWebhookScope, url: &str) -> HostResult<bool>;
}

/// Git hosts.
pub trait GitHosts: Send + Sync + 'static {
    /// The host of a connection. Nothing is sent before the first call.
    ///
    /// # Errors
    /// `Invalid` for what is no connection.
    fn connect(&self, connection: &ScmConnection, secrets: HostSecrets) -> Result<Arc<dyn Host>>;
}
