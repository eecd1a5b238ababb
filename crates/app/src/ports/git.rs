//! What the console needs of git.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::ids::RepositoryId;
use plural_core::repository::RepositoryUrl;
use plural_core::service::GitRef;
use secrecy::SecretString;
use tokio::sync::watch;

/// A repository and the right to read it.
#[derive(Debug, Clone)]
pub struct GitAccess {
    /// Names the mirror.
    pub id: RepositoryId,
    /// Where it is.
    pub url: RepositoryUrl,
    /// How to sign in.
    pub credentials: Option<GitCredentials>,
    /// How to get there, and whose commits are taken.
    pub reach: GitReach,
}

/// How a repository is reached besides signing in, and whose commits are taken from it.
#[derive(Debug, Clone, Default)]
pub struct GitReach {
    /// HTTP(S) or SOCKS proxy, with its user information.
    pub proxy: Option<SecretString>,
    /// Certificate authorities (PEM) that are trusted instead of the system's.
    pub ca_pem: Option<String>,
    /// The only SSH host keys that are accepted, as in `known_hosts`.
    pub known_hosts: Option<String>,
    /// Whose SSH signatures on commits are accepted, as in git's `allowedSignersFile`.
    pub allowed_signers: Option<String>,
    /// Whose OpenPGP signatures are, as armoured public keys.
    pub openpgp_keys: Option<String>,
}

/// A mirror in the store that replicas share, in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorBundle {
    /// Stands for its branches and tags.
    pub references: String,
    /// SHA-256 of each piece, in order.
    pub pieces: Vec<[u8; 32]>,
    /// All of them together.
    pub bytes: u64,
}

/// Whether a mirror is kept, by its repository and for how long nobody on this replica has asked for it.
pub type KeepMirror<'a> = dyn Fn(RepositoryId, Duration) -> bool + Send + Sync + 'a;

/// How to sign in.
#[derive(Debug, Clone)]
pub enum GitCredentials {
    /// User name and password or token.
    Basic {
        /// User name; many hosts take any with a token.
        username: String,
        /// Password or token.
        password: SecretString,
    },
    /// Private key.
    Ssh {
        /// PEM text.
        private_key: SecretString,
        /// Of the key.
        passphrase: Option<SecretString>,
    },
}

/// What a fetch brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchOutcome {
    /// Some ref moved, came or went.
    pub changed: bool,
}

/// A commit that a ref resolved to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitInfo {
    /// Full hex id.
    pub sha: String,
    /// First line of its message.
    pub message: String,
    /// Name of its author.
    pub author: String,
    /// E-mail addresses of its author and of whoever committed it, as the commit says.
    pub emails: Vec<String>,
    /// When it was committed.
    pub at: DateTime<Utc>,
}

/// Who made what a source is at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authors {
    /// E-mail addresses of those who wrote and committed what changes it, as the commits say.
    pub emails: Vec<String>,
    /// All commits that were looked at, also those that do not change it: the last one of a pull request may be one of them.
    pub commits: Vec<String>,
    /// That is all of them; there are too many to tell otherwise.
    pub is_whole: bool,
}

/// What a service takes from a commit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceSpec {
    /// Folder, "" for the root.
    pub folder: String,
    /// Further files.
    pub files: Vec<String>,
}

impl From<&GitRef> for SourceSpec {
    fn from(git: &GitRef) -> Self {
        let GitRef { reference: _, folder, files } = git;
        Self { folder: folder.clone(), files: files.clone() }
    }
}

/// A file of a folder at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderFile {
    /// Its path below the folder.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// It may be run.
    pub executable: bool,
}

/// What a merge of two commits makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// The second one as it is: it holds all of the first.
    Second,
    /// This commit, which is on this replica alone, and goes from there within days.
    Commit(String),
    /// Nothing: these files are changed on both sides.
    Conflicts(Vec<String>),
    /// Nothing: no commit is before both.
    Unrelated,
    /// It cannot be told here.
    Unknown,
}

/// A file as it would be at a commit that is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeChange {
    /// Its path in the repository.
    pub path: String,
    /// Its content; it goes without.
    pub content: Option<Vec<u8>>,
    /// It may be run.
    pub executable: bool,
}

/// The closure of a source at a commit: everything that it reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    /// Over the git object ids of all that is reached; equal digests mean equal artifacts.
    pub digest: String,
}

/// An artifact that is in the blob store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Lower-case hex SHA-256 of the uncompressed canonical tar.
    pub digest: String,
    /// Root of the service inside the artifact.
    pub folder: String,
    /// Size of the uncompressed tar.
    pub bytes: u64,
    /// It is a chart that names dependencies it does not hold.
    pub incomplete: bool,
}

/// Why git could not. Its text is for the service's or repository's owner: it names the cause and the
/// next step and never holds a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct GitError {
    /// For the owner.
    pub message: String,
    /// Path in the repository, where one is at fault.
    pub location: Option<String>,
    /// Trying again without a change may help.
    pub transient: bool,
}

/// Mirrors, refs, closures and artifacts. Every call has a deadline of its own inside.
#[async_trait]
pub trait GitPort: Send + Sync + 'static {
    /// Brings the mirror up to date.
    async fn fetch(&self, access: &GitAccess) -> Result<FetchOutcome, GitError>;

    /// The commit of a branch, tag, commit id or semver range of tags, as of the last fetch.
    async fn resolve(&self, access: &GitAccess, reference: &str) -> Result<CommitInfo, GitError>;

    /// Brings the head of a pull request, by the name that its host has for it, or, where there is none, the commit itself. Not every
    /// server gives commits that no branch leads to.
    async fn fetch_commit(
        &self,
        access: &GitAccess,
        sha: &str,
        reference: Option<&str>,
    ) -> Result<(), GitError>;

    /// Merges the second commit into the first, where nobody sees it.
    async fn merge(&self, access: &GitAccess, first: &str, second: &str) -> Result<Merged, GitError>;

    /// What these changes would make of a commit: another commit, which this replica's mirror has for a day and no reference leads to. The
    /// same changes of the same commit are the same everywhere.
    async fn overlay(
        &self,
        access: &GitAccess,
        sha: &str,
        message: &str,
        changes: Vec<TreeChange>,
    ) -> Result<CommitInfo, GitError>;

    /// Which of these sources reach one of these paths at a commit, each for itself.
    async fn reached(
        &self,
        access: &GitAccess,
        sha: &str,
        sources: &[SourceSpec],
        paths: &[String],
    ) -> Result<Vec<Result<bool, GitError>>, GitError>;

    /// The closures of many sources at one commit, each for itself: one broken folder does not stop the others.
    async fn closures(
        &self,
        access: &GitAccess,
        sha: &str,
        sources: &[SourceSpec],
    ) -> Result<Vec<Result<Closure, GitError>>, GitError>;

    /// The files of a source's closure that name modules ([`plural_core::module_code::is_module_code`]), by their paths in the repository.
    async fn module_code(
        &self,
        access: &GitAccess,
        sha: &str,
        source: &SourceSpec,
    ) -> Result<Vec<(String, Vec<u8>)>, GitError>;

    /// The files below a folder at a commit, `""` for the root, and nothing that they lead to. Links are left out.
    async fn folder(&self, access: &GitAccess, sha: &str, folder: &str) -> Result<Vec<FolderFile>, GitError>;

    /// Who wrote and committed what changed a source in the commits that lead to this one and not to the applied one; in all that lead to this
    /// one where the applied one does not.
    async fn authors(
        &self,
        access: &GitAccess,
        sha: &str,
        applied: Option<&str>,
        source: &SourceSpec,
    ) -> Result<Authors, GitError>;

    /// Builds the artifact of a source at a commit and stores it, once per closure.
    async fn build(&self, access: &GitAccess, sha: &str, source: &SourceSpec) -> Result<Built, GitError>;

    /// For a repository on this machine: a number that changes whenever its refs may have moved.
    /// `None` for remote ones.
    async fn watch(&self, access: &GitAccess) -> Result<Option<watch::Receiver<u64>>, GitError>;

    /// Whether this replica has a mirror of it, so that a fetch brings only what is new.
    fn has_mirror(&self, access: &GitAccess) -> bool;

    /// Puts this replica's mirror into the store that all share, unless that has `known`, which is the same. `None` also
    /// where the mirror is empty or too large.
    async fn share_mirror(
        &self,
        access: &GitAccess,
        known: Option<&MirrorBundle>,
    ) -> Result<Option<MirrorBundle>, GitError>;

    /// Makes this replica's mirror from what another put there.
    async fn restore_mirror(&self, access: &GitAccess, bundle: &MirrorBundle) -> Result<(), GitError>;

    /// Removes mirrors on this replica that are not to be kept; how many those were.
    async fn collect_mirrors(&self, keep: &KeepMirror<'_>) -> Result<u64, GitError>;

    /// Drops the mirror of a repository that is gone.
    async fn forget(&self, id: RepositoryId) -> Result<(), GitError>;
}

impl GitError {
    /// An error that trying again does not mend.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self { message: message.into(), location: None, transient: false }
    }
}

impl fmt::Display for SourceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.folder.is_empty() { "." } else { &self.folder })
    }
}
