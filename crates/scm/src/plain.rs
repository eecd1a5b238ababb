//! Any git server over https or ssh: branches and commits, and no pull requests. Commits are made in a mirror and pushed.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use plural_git::{
    Credentials, Error as GitError, Fetched, FileChange, HostKeys, ListedKind, Merge, MirrorKey, Mirrors,
    Oid, Push, RefSpec, Remote, Repository as Mirror, Resolved,
};
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};

use crate::{
    common,
    error::{Cause, Error, Result},
    names::{BranchName, CommitId, FilePath, Repository},
    port::{
        Change, ChangedFile, CommitTold, Committed, EntryKind, Followed, GitHost, List, MergeMethod,
        NewCommit, NewPullRequest, Onto, Opened, Person, PullRequest, PullRequestEdit, Review, Scope, Status,
        TreeEntry, WebhookSpec,
    },
};

/// How the keys of mirrors of git hosts begin. Other mirrors have other keys.
pub const MIRROR_PREFIX: &str = "scm-";
/// Files and folders of a tree.
const TREE: u64 = 200_000;
/// Bytes of a file.
const FILE: u64 = 16 << 20;

/// A git server and the right to use it.
#[derive(Clone)]
pub struct PlainConnection {
    /// Tells its mirrors apart from those of connections with other credentials.
    pub id: String,
    /// What its repositories are below: `https://git.example.com`, `ssh://git@git.example.com/srv`.
    pub url: String,
    /// How to get in.
    pub credentials: Credentials,
    /// Which ssh host keys are accepted.
    pub host_keys: HostKeys,
    /// Certificates (PEM) that are trusted in place of the system's.
    pub ca_pem: Option<String>,
    /// Proxy, with its user where it needs one.
    pub proxy: Option<SecretString>,
    /// Who makes commits, and writes those without an author.
    pub committer: Person,
}

impl fmt::Debug for PlainConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An address may hold a user by mistake, so none is shown.
        f.debug_struct("PlainConnection").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The host of a plain connection. Nothing is sent before the first call; limits are those of the mirrors.
pub fn connect_plain(connection: PlainConnection, mirrors: Mirrors) -> Arc<dyn GitHost> {
    Arc::new(Plain { connection, mirrors })
}

#[derive(Debug)]
struct Plain {
    connection: PlainConnection,
    mirrors: Mirrors,
}

impl Plain {
    fn remote(&self, repository: &Repository) -> Result<Remote> {
        let of = &self.connection;
        let key = hex::encode(Sha256::digest(format!("{}\n{}\n{repository}", of.id, of.url)));
        let key = MirrorKey::new(format!("{MIRROR_PREFIX}{}", &key[..40])).map_err(Error::from)?;
        let url = format!("{}/{repository}", of.url.trim().trim_end_matches('/'));
        let mut remote = Remote::new(key, &url).map_err(Error::from)?;
        remote = remote.with_credentials(of.credentials.clone()).with_host_keys(of.host_keys.clone());
        remote.ca_pem.clone_from(&of.ca_pem);
        remote.proxy.clone_from(&of.proxy);
        Ok(remote)
    }

    /// The repository as it is now.
    async fn now(&self, repository: &Repository) -> Result<Mirror> {
        let Fetched { repository: mirror, .. } =
            self.mirrors.fetch(&self.remote(repository)?).await.map_err(Error::from)?;
        Ok(mirror)
    }

    /// The repository as it was fetched last, or now where it lacks this commit.
    async fn with(&self, repository: &Repository, commit: Oid) -> Result<Mirror> {
        if let Ok(known) = self.mirrors.repository(&self.remote(repository)?).await {
            let mirror = known.clone();
            if blocking(move || mirror.commit(commit)).await.is_ok() {
                return Ok(known);
            }
        }
        self.now(repository).await
    }

    /// Whether one commit has all of another: it comes after it, or a merge of both would change nothing of it, as after a squash. Nothing
    /// where the other one is not to be had any more.
    async fn holds(
        &self,
        repository: &Repository,
        mirror: &Mirror,
        one: Oid,
        other: Oid,
    ) -> Result<Option<bool>> {
        if !self.has(repository, mirror, other).await? {
            return Ok(None);
        }
        let remote = self.remote(repository)?;
        if self.mirrors.is_before(&remote, other, one).await.map_err(Error::from)? {
            return Ok(Some(true));
        }
        let merged = self.mirrors.merge(&remote, other, one).await.map_err(Error::from)?;
        Ok(Some(merged == Merge::Second))
    }

    /// Whether the mirror has a commit, or the server still gives it: a mirror that was made anew has nothing that no branch leads to.
    async fn has(&self, repository: &Repository, mirror: &Mirror, commit: Oid) -> Result<bool> {
        let known = mirror.clone();
        match blocking(move || known.commit(commit)).await {
            Ok(_) => return Ok(true),
            Err(error) if error.cause == Cause::NotFound => {}
            Err(error) => return Err(error),
        }
        match self.mirrors.fetch_commit(&self.remote(repository)?, commit).await {
            Ok(Fetched { repository: mirror, .. }) => {
                Ok(blocking(move || mirror.commit(commit)).await.is_ok())
            }
            Err(error @ (GitError::Unreachable { .. } | GitError::TimedOut { .. })) => Err(error.into()),
            // Not every server gives what no branch leads to.
            Err(_) => Ok(false),
        }
    }

    /// Why a push did not succeed: what git says differs between servers, so the state is read.
    async fn cause(&self, repository: &Repository, new: &NewCommit, error: &Error) -> Result<Cause> {
        let mirror = self.now(repository).await?;
        let at = branch_of(&mirror, new.onto.branch()).await;
        Ok(match (&new.onto, at) {
            (Onto::NewBranch { .. }, Ok(_)) => Cause::Conflict,
            (Onto::Branch(_), Ok(at)) if at.to_hex() != new.parent.as_str() => Cause::Moved,
            (Onto::Branch(_), Err(missing)) if missing.cause == Cause::NotFound => Cause::Moved,
            _ => error.cause,
        })
    }
}

async fn branch_of(mirror: &Mirror, branch: &BranchName) -> Result<Oid> {
    let spec = RefSpec::parse(&common::reference(branch)).map_err(Error::from)?;
    let mirror = mirror.clone();
    let Resolved { commit, .. } = blocking(move || mirror.resolve(&spec)).await?;
    Ok(commit)
}

async fn kinds(mirror: &Mirror, commit: Oid) -> Result<BTreeMap<String, ListedKind>> {
    let mirror = mirror.clone();
    let found = blocking(move || mirror.walk(commit, "", TREE)).await?;
    Ok(found.into_iter().map(|listed| (listed.path, listed.kind)).collect())
}

/// Reads of a mirror take milliseconds, and must not hold others up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> plural_git::Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Error::from),
        Err(_) => Err(Error::new(Cause::Temporary, "reading a repository was stopped before it ended")),
    }
}

fn oid(commit: &CommitId) -> Result<Oid> {
    commit.as_str().parse().map_err(Error::from)
}

impl From<GitError> for Error {
    fn from(error: GitError) -> Self {
        let cause = match &error {
            GitError::Auth { .. }
            | GitError::HostKey { .. }
            | GitError::OutOfReach { .. }
            | GitError::PlainCredentials { .. } => Cause::Refused,
            GitError::NotFound { .. }
            | GitError::NotFetched { .. }
            | GitError::RefMissing { .. }
            | GitError::CommitMissing { .. }
            | GitError::FolderMissing { .. }
            | GitError::FileMissing { .. } => Cause::NotFound,
            GitError::Limit { .. } | GitError::Quota { .. } => Cause::TooLarge,
            error if error.is_transient() => Cause::Temporary,
            GitError::NoProgram { .. } => Cause::Unsupported,
            _ => Cause::Invalid,
        };
        Error::new(cause, error.to_string())
    }
}

/// An error of a push. git's errors speak of fetching.
fn of_push(error: GitError) -> Error {
    let mut error = Error::from(error);
    error.message = error.message.replacen("cannot fetch ", "cannot push to ", 1);
    error
}

fn unsupported<T>(what: &str) -> Result<T> {
    Err(Error::new(Cause::Unsupported, format!("a plain git server has no {what}")))
}

#[async_trait]
impl GitHost for Plain {
    /// Git tells a commit, not a name: the branch that is at it.
    async fn default_branch(&self, repository: &Repository) -> Result<BranchName> {
        let mirror = self.now(repository).await?;
        let (head, references) = blocking(move || {
            let head = mirror.resolve(&RefSpec::parse("HEAD")?)?.commit;
            Ok((head, mirror.references()?))
        })
        .await?;
        let branches: Vec<&str> = references
            .iter()
            .filter(|(_, commit)| *commit == head)
            .filter_map(|(name, _)| name.strip_prefix("refs/heads/"))
            .collect();
        let usual = ["main", "master"].into_iter().find(|name| branches.contains(name));
        let only = match branches.as_slice() {
            [name] => Some(*name),
            _ => None,
        };
        let missing = || {
            Error::new(Cause::NotFound, format!("{repository} does not tell its default branch: name one"))
        };
        common::branch_name(usual.or(only).ok_or_else(missing)?)
    }

    async fn head(&self, repository: &Repository, branch: &BranchName) -> Result<CommitId> {
        let mirror = self.now(repository).await?;
        common::commit_id(&branch_of(&mirror, branch).await?.to_hex())
    }

    async fn read(&self, repository: &Repository, commit: &CommitId, path: &FilePath) -> Result<Bytes> {
        let commit = oid(commit)?;
        let mirror = self.with(repository, commit).await?;
        let name = path.as_str().to_owned();
        let content = blocking(move || mirror.read(commit, &name, FILE)).await?;
        let missing =
            || Error::new(Cause::NotFound, format!("{path} is no file of {commit} of {repository}"));
        content.map(Bytes::from).ok_or_else(missing)
    }

    async fn tree(&self, repository: &Repository, commit: &CommitId) -> Result<List<TreeEntry>> {
        let commit = oid(commit)?;
        let mirror = self.with(repository, commit).await?;
        let kinds = kinds(&mirror, commit).await?;
        let entry = |(path, kind)| {
            let kind = match kind {
                ListedKind::File => EntryKind::File,
                ListedKind::Executable => EntryKind::Executable,
                ListedKind::Link => EntryKind::Link,
                ListedKind::Submodule => EntryKind::Submodule,
                ListedKind::Folder => return None,
            };
            Some(TreeEntry { path, kind })
        };
        Ok(List { items: kinds.into_iter().filter_map(entry).collect(), cut: false })
    }

    async fn commit(&self, repository: &Repository, new: &NewCommit) -> Result<Committed> {
        common::check(new)?;
        let parent = oid(&new.parent)?;
        let mirror = self.now(repository).await?;
        let at = common::base(&new.onto);
        let head = branch_of(&mirror, at).await?;
        if head != parent {
            let what = format!("branch {at} of {repository}");
            return Err(common::moved(&what, &head.to_hex(), &new.parent));
        }
        if let Onto::NewBranch { branch, .. } = &new.onto
            && branch_of(&mirror, branch).await.is_ok()
        {
            return Err(common::taken(repository, branch));
        }
        let kinds = kinds(&mirror, parent).await?;
        let changes: Result<Vec<FileChange>> =
            new.changes.iter().map(|change| file(&kinds, change)).collect();
        let person = |person: &Person| (person.name.clone(), person.email.clone());
        let committer = person(&self.connection.committer);
        let push = Push {
            branch: new.onto.branch().to_string(),
            exists: matches!(new.onto, Onto::Branch(_)),
            parent,
            message: new.message.clone(),
            author: new.author.as_ref().map_or_else(|| committer.clone(), person),
            committer,
            changes: changes?,
        };
        match self.mirrors.push(&self.remote(repository)?, &push).await.map_err(of_push) {
            Ok(commit) => {
                Ok(Committed { commit: common::commit_id(&commit.to_hex())?, parent: new.parent.clone() })
            }
            Err(error) => {
                let cause = self.cause(repository, new, &error).await?;
                Err(error.with_cause(cause))
            }
        }
    }

    async fn commit_told(&self, repository: &Repository, commit: &CommitId) -> Result<CommitTold> {
        let commit = oid(commit)?;
        let mirror = self.with(repository, commit).await?;
        let read = blocking(move || mirror.commit(commit)).await?;
        let parents: Result<Vec<CommitId>> =
            read.parents.iter().map(|parent| common::commit_id(&parent.to_hex())).collect();
        Ok(CommitTold { parents: parents?, message: read.message })
    }

    async fn delete_branch(&self, repository: &Repository, branch: &BranchName, at: &CommitId) -> Result<()> {
        if !common::is_at(self, repository, branch, at).await? {
            return Ok(());
        }
        let at = oid(at)?;
        self.mirrors.remove_branch(&self.remote(repository)?, branch.as_str(), at).await.map_err(of_push)
    }

    async fn follow(
        &self,
        repository: &Repository,
        branch: &BranchName,
        base: &BranchName,
        commit: &CommitId,
        last: Option<&CommitId>,
    ) -> Result<Followed> {
        let mirror = self.now(repository).await?;
        let (name, base) = (base, branch_of(&mirror, base).await?);
        let head = match branch_of(&mirror, branch).await {
            Ok(head) => Some(head),
            Err(error) if error.cause == Cause::NotFound => None,
            Err(error) => return Err(error),
        };
        // Somebody may have put another commit in its place before it was merged.
        let (mut is_merged, mut is_known) = (false, true);
        for made in [Some(commit), last].into_iter().flatten() {
            let held = self.holds(repository, &mirror, base, oid(made)?).await?;
            is_merged |= held == Some(true);
            is_known &= held.is_some();
        }
        let Some(head) = head else {
            if !is_merged && !is_known {
                return Err(Error::new(
                    Cause::Conflict,
                    format!(
                        "branch {branch} of {repository} is gone, and its commit with it: whether {name} has what it changed cannot be told"
                    ),
                ));
            }
            return Ok(Followed {
                head: None,
                base: common::commit_id(&base.to_hex())?,
                is_merged,
                is_bare: false,
            });
        };
        // What came onto the branch since has to be in there too.
        let has_head = self.holds(repository, &mirror, base, head).await? == Some(true);
        is_merged &= has_head;
        Ok(Followed {
            head: Some(common::commit_id(&head.to_hex())?),
            base: common::commit_id(&base.to_hex())?,
            is_merged,
            is_bare: has_head && !is_merged,
        })
    }

    async fn open(&self, _: &Repository, _: &NewPullRequest) -> Result<Opened> {
        unsupported("pull requests: its branches are merged by whoever has it")
    }

    async fn pull_request(&self, _: &Repository, _: u64) -> Result<PullRequest> {
        unsupported("pull requests")
    }

    async fn pull_requests(&self, _: &Repository, _: bool) -> Result<List<PullRequest>> {
        unsupported("pull requests")
    }

    async fn update(&self, _: &Repository, _: u64, _: &PullRequestEdit) -> Result<PullRequest> {
        unsupported("pull requests")
    }

    async fn close(&self, _: &Repository, _: u64) -> Result<PullRequest> {
        unsupported("pull requests")
    }

    async fn merge(&self, _: &Repository, _: u64, _: &CommitId, _: MergeMethod) -> Result<PullRequest> {
        unsupported("pull requests")
    }

    async fn files(&self, _: &Repository, _: u64) -> Result<List<ChangedFile>> {
        unsupported("pull requests")
    }

    async fn reviews(&self, _: &Repository, _: u64) -> Result<List<Review>> {
        unsupported("reviews")
    }

    async fn add_labels(&self, _: &Repository, _: u64, _: &[String]) -> Result<()> {
        unsupported("labels")
    }

    async fn comment(&self, _: &Repository, _: u64, _: &str, _: &str) -> Result<()> {
        unsupported("comments")
    }

    async fn set_status(&self, _: &Repository, _: &CommitId, _: &Status) -> Result<()> {
        unsupported("statuses of commits")
    }

    async fn approve(&self, _: &Repository, _: u64, _: &CommitId, _: &str) -> Result<()> {
        unsupported("reviews")
    }

    async fn ensure_webhook(&self, _: &Scope, _: &WebhookSpec) -> Result<()> {
        unsupported("webhooks")
    }

    async fn remove_webhook(&self, _: &Scope, _: &str) -> Result<bool> {
        unsupported("webhooks")
    }
}

/// A change as git makes it. git would put a file where a folder is, and a folder where a file is; no host's API does.
fn file(kinds: &BTreeMap<String, ListedKind>, change: &Change) -> Result<FileChange> {
    let path = change.path().as_str();
    let known = kinds.get(path);
    let conflict = |what: &str| Err(Error::new(Cause::Conflict, format!("{what} is in the way of {path}")));
    match (change, known) {
        (Change::Delete { .. }, None | Some(ListedKind::Folder)) => Err(common::is_missing(change)),
        (Change::Delete { .. }, Some(_)) => {
            Ok(FileChange { path: path.to_owned(), content: None, executable: false })
        }
        (Change::Write { .. }, Some(ListedKind::Folder | ListedKind::Submodule)) => conflict("a folder"),
        (Change::Write { content, executable, .. }, _) => {
            let mut above = path.match_indices('/').map(|(at, _)| &path[..at]);
            if above.any(|folder| kinds.get(folder).is_some_and(|kind| *kind != ListedKind::Folder)) {
                return conflict("a file");
            }
            let executable = executable.unwrap_or(known == Some(&ListedKind::Executable));
            Ok(FileChange { path: path.to_owned(), content: Some(content.clone()), executable })
        }
    }
}
