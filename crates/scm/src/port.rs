//! What every git host does: [`GitHost`].

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use secrecy::SecretString;

use crate::{
    error::{Cause, Error, Result},
    names::{BranchName, CommitId, FilePath, Repository},
};

/// One change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Make the file, or replace what is in it.
    Write {
        /// Where.
        path: FilePath,
        /// Its whole content.
        content: Bytes,
        /// Whether it may be run from then on; without: as before, and not where it is new. A host whose API cannot say so refuses.
        executable: Option<bool>,
    },
    /// Remove it. A file that is not there is a conflict.
    Delete {
        /// Where.
        path: FilePath,
    },
}

impl Change {
    /// The file that it changes.
    pub fn path(&self) -> &FilePath {
        match self {
            Self::Write { path, .. } | Self::Delete { path } => path,
        }
    }
}

/// Who wrote a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Name.
    pub name: String,
    /// Address.
    pub email: String,
}

/// Where a commit goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Onto {
    /// To a branch that is made with it, from the head of `base`.
    NewBranch {
        /// Made; one that is there is a conflict.
        branch: BranchName,
        /// Where `parent` is the head.
        base: BranchName,
    },
    /// To a branch that is there.
    Branch(BranchName),
}

impl Onto {
    /// The branch that gets the commit.
    pub fn branch(&self) -> &BranchName {
        match self {
            Self::NewBranch { branch, .. } | Self::Branch(branch) => branch,
        }
    }
}

/// A commit in the making.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCommit {
    /// Where it goes.
    pub onto: Onto,
    /// What the branch's head (or the base's) has to be.
    pub parent: CommitId,
    /// Message.
    pub message: String,
    /// Its author; the credential's owner where there is none. Hosts that sign commits of an App sign only those.
    pub author: Option<Person>,
    /// At least one, each path once.
    pub changes: Vec<Change>,
}

/// A commit that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its id.
    pub commit: CommitId,
    /// What it is on top of. Where a host cannot bind a commit to its parent this is another than was asked for when the
    /// branch moved in the same moment and the changed files did not.
    pub parent: CommitId,
}

/// What a host tells of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitTold {
    /// The commits that it is on top of.
    pub parents: Vec<CommitId>,
    /// Its message.
    pub message: String,
}

/// How a branch stands over the one that it is to go into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// The commit that it is at; nothing of one that is gone.
    pub head: Option<CommitId>,
    /// The commit that the other one is at.
    pub base: CommitId,
    /// The other one has all of it: its commits, or what they change.
    pub is_merged: bool,
    /// It has nothing that the other one has not, and was not merged: somebody took back what it was made with, or changed and merged it.
    pub is_bare: bool,
}

/// A pull request in the making.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPullRequest {
    /// From this branch.
    pub head: BranchName,
    /// Into this one.
    pub base: BranchName,
    /// Title.
    pub title: String,
    /// Text, Markdown.
    pub body: String,
}

/// A pull request that is open for a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// It.
    pub pull_request: PullRequest,
    /// It was open before.
    pub existed: bool,
}

/// State of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullRequestState {
    /// Open.
    Open,
    /// Merged.
    Merged,
    /// Closed without a merge.
    Closed,
}

/// A pull request as the host tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// Its number in the repository.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// Title.
    pub title: String,
    /// Text.
    pub body: String,
    /// State.
    pub state: PullRequestState,
    /// Not ready for review.
    pub draft: bool,
    /// Branch that it comes from.
    pub head: String,
    /// Head commit.
    pub head_commit: String,
    /// It comes from another repository, or from one that is gone.
    pub fork: bool,
    /// Branch that it goes into.
    pub base: String,
    /// Who opened it.
    pub author: String,
    /// Labels.
    pub labels: Vec<String>,
    /// The commit that merged it.
    pub merge_commit: Option<String>,
}

/// What to change of a pull request; what is nothing stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PullRequestEdit {
    /// Title.
    pub title: Option<String>,
    /// Text.
    pub body: Option<String>,
}

/// How to merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeMethod {
    /// A merge commit.
    Merge,
    /// One commit with all changes.
    Squash,
    /// The commits on top of the base.
    Rebase,
}

/// What happened to a file in a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileStatus {
    /// New.
    Added,
    /// Changed.
    Modified,
    /// Gone.
    Removed,
    /// Has another name.
    Renamed,
}

/// A file that a pull request changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path.
    pub path: String,
    /// Its path before, where it is another.
    pub previous: Option<String>,
    /// What happened to it.
    pub status: FileStatus,
}

/// What a reviewer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Approved.
    Approved,
    /// Wants changes.
    ChangesRequested,
    /// Nothing of the two.
    Commented,
    /// Said something that counts no more.
    Dismissed,
}

/// A review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// Who.
    pub reviewer: String,
    /// What.
    pub verdict: Verdict,
    /// Of which commit, where the host tells.
    pub commit: Option<String>,
}

/// A list, up to as much as is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T> {
    /// What was read.
    pub items: Vec<T>,
    /// There is more.
    pub cut: bool,
}

/// What a path in a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// An executable file.
    Executable,
    /// A symbolic link.
    Link,
    /// Another repository.
    Submodule,
}

impl EntryKind {
    /// Of a mode as git writes it; nothing for a folder.
    pub(crate) fn of_mode(mode: &str) -> Option<Self> {
        match mode {
            "100644" | "100664" => Some(Self::File),
            "100755" => Some(Self::Executable),
            "120000" => Some(Self::Link),
            "160000" => Some(Self::Submodule),
            _ => None,
        }
    }
}

/// How much of a folder is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Nothing.
    Not,
    /// What lies in it; folders in it are asked about for themselves.
    Folder,
    /// Everything below it.
    All,
}

/// How much of each folder is looked at, by its path from the root, which is empty.
pub type Looks<'a> = &'a (dyn Fn(&str) -> Look + Send + Sync);

/// Whether what stands at a path is in a folder that is looked into.
fn is_within(path: &str, look: Looks<'_>) -> bool {
    let above = path.match_indices('/').map(|(at, _)| &path[..at]);
    for folder in std::iter::once("").chain(above) {
        match look(folder) {
            Look::Not => return false,
            Look::All => return true,
            Look::Folder => {}
        }
    }
    true
}

/// A path in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// From the root.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
}

/// State of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusState {
    /// Not done.
    Pending,
    /// Good.
    Success,
    /// Bad.
    Failure,
    /// Could not be told.
    Error,
}

/// A check of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its name; the next one of the same name replaces it.
    pub context: String,
    /// State.
    pub state: StatusState,
    /// In words; what is too long for the host is cut.
    pub description: String,
    /// Page with more.
    pub url: Option<String>,
}

/// A check of a commit as a host tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub context: String,
    /// State.
    pub state: StatusState,
}

/// Of what a webhook tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// One repository.
    Repository(Repository),
    /// All of an organisation or group.
    Organisation(String),
}

/// A webhook to have.
#[derive(Clone)]
pub struct WebhookSpec {
    /// Where it is sent to.
    pub url: String,
    /// What proves who sent it.
    pub secret: SecretString,
}

impl fmt::Debug for WebhookSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSpec").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A git host through one connection.
#[async_trait]
pub trait GitHost: Send + Sync + fmt::Debug {
    /// The branch that is meant where none is named.
    async fn default_branch(&self, repository: &Repository) -> Result<BranchName>;
    /// The commit that a branch is at.
    async fn head(&self, repository: &Repository, branch: &BranchName) -> Result<CommitId>;
    /// A file's content in a commit.
    async fn read(&self, repository: &Repository, commit: &CommitId, path: &FilePath) -> Result<Bytes>;
    /// All paths of a commit that are no folders.
    async fn tree(&self, repository: &Repository, commit: &CommitId) -> Result<List<TreeEntry>>;
    /// The paths of a commit that are no folders, of folders that are looked into: a host that lists folders is asked for those.
    async fn tree_within(
        &self,
        repository: &Repository,
        commit: &CommitId,
        look: Looks<'_>,
    ) -> Result<List<TreeEntry>> {
        let List { mut items, cut } = self.tree(repository, commit).await?;
        items.retain(|entry| is_within(&entry.path, look));
        Ok(List { items, cut })
    }
    /// Makes a commit, all of it or nothing. [`Cause::Moved`](crate::Cause::Moved) when `parent` is not the head,
    /// [`Cause::Conflict`](crate::Cause::Conflict) when a new branch is there or a file to delete is not.
    async fn commit(&self, repository: &Repository, commit: &NewCommit) -> Result<Committed>;
    /// What a commit tells of itself.
    async fn commit_told(&self, repository: &Repository, _commit: &CommitId) -> Result<CommitTold> {
        Err(Error::new(Cause::Unsupported, format!("commits of {repository} are not read from this host")))
    }
    /// Removes a branch while it is at this commit, else [`Cause::Moved`]; one that is gone is no error. A host whose API binds no removal to a
    /// commit is asked for the branch's head right before.
    async fn delete_branch(&self, repository: &Repository, branch: &BranchName, at: &CommitId) -> Result<()>;
    /// How a branch stands over the one that it is to go into, and whether a commit that it was made with is in there, or the last one that
    /// it was seen at: for a host without pull requests. The others tell it of the pull request. [`Cause::Conflict`] where the branch is gone
    /// and such a commit is not to be had any more, so that nobody knows.
    async fn follow(
        &self,
        repository: &Repository,
        _branch: &BranchName,
        _base: &BranchName,
        _commit: &CommitId,
        _last: Option<&CommitId>,
    ) -> Result<Followed> {
        let what = format!("branches of {repository} are followed by their pull requests");
        Err(Error::new(Cause::Unsupported, what))
    }
    /// Opens a pull request, or gives the one that is open for these branches.
    async fn open(&self, repository: &Repository, new: &NewPullRequest) -> Result<Opened>;
    /// Reads a pull request.
    async fn pull_request(&self, repository: &Repository, number: u64) -> Result<PullRequest>;
    /// Lists pull requests, the newest first; open ones only, or all.
    async fn pull_requests(&self, repository: &Repository, open_only: bool) -> Result<List<PullRequest>>;
    /// Changes title and text.
    async fn update(
        &self,
        repository: &Repository,
        number: u64,
        edit: &PullRequestEdit,
    ) -> Result<PullRequest>;
    /// Closes without a merge; a closed one stays closed, a merged one is a conflict.
    async fn close(&self, repository: &Repository, number: u64) -> Result<PullRequest>;
    /// Merges while the head is this commit, else [`Cause::Moved`](crate::Cause::Moved). A pull request whose merge of this
    /// commit is done is given as it is.
    async fn merge(
        &self,
        repository: &Repository,
        number: u64,
        head: &CommitId,
        method: MergeMethod,
    ) -> Result<PullRequest>;
    /// Files that a pull request changes.
    async fn files(&self, repository: &Repository, number: u64) -> Result<List<ChangedFile>>;
    /// Reviews, the oldest first.
    async fn reviews(&self, repository: &Repository, number: u64) -> Result<List<Review>>;
    /// Adds labels, and makes those that the repository has not.
    async fn add_labels(&self, repository: &Repository, number: u64, labels: &[String]) -> Result<()>;
    /// Writes the one comment with this marker (letters, digits, `-`): edits the connection's own, or adds it.
    async fn comment(&self, repository: &Repository, number: u64, marker: &str, body: &str) -> Result<()>;
    /// The checks of a commit, the newest of each name.
    async fn checks(&self, repository: &Repository, _commit: &CommitId) -> Result<List<Check>> {
        Err(Error::new(Cause::Unsupported, format!("checks of {repository} are not read from this host")))
    }
    /// Tells a check's state.
    async fn set_status(&self, repository: &Repository, commit: &CommitId, status: &Status) -> Result<()>;
    /// Approves this head. Hosts refuse that to the pull request's author.
    async fn approve(&self, repository: &Repository, number: u64, head: &CommitId, body: &str) -> Result<()>;
    /// Has a webhook that sends to this address: makes it, or sets the secret of the one that is there.
    async fn ensure_webhook(&self, scope: &Scope, webhook: &WebhookSpec) -> Result<()>;
    /// Removes the webhooks that send to this address; whether there was one.
    async fn remove_webhook(&self, scope: &Scope, url: &str) -> Result<bool>;
}
