//! A git that holds commits in memory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use plural_app::agent_poll::{ClusterData, ServiceSpec};
use plural_app::ports::blobs::{BlobStream, Blobs};
use plural_app::ports::charts::{ChartPart, ComposeError, Composed, Composer, Composition};
use plural_app::ports::git::{
    Authors, Built, Closure, CommitInfo, FetchOutcome, FolderFile, GitAccess, GitCredentials, GitError,
    GitPort, GitReach, KeepMirror, Merged, MirrorBundle, SourceSpec, TreeChange,
};
use plural_app::ports::git_hosts::{GitHosts, Host, HostSecrets};
use plural_app::ports::governances::{GovernanceAnswer, GovernanceCall, Governances};
use plural_app::ports::previews::{Preview, Previews};
use plural_app::ports::rules::Rules;
use plural_app::ports::scaffolds::{
    ScaffoldEntry, ScaffoldMerge, ScaffoldMerged, ScaffoldRun, Scaffolded, Scaffolds,
};
use plural_core::ids::RepositoryId;
use plural_core::scm_connection::ScmConnection;
use plural_core::service_file::ServiceFile;
use plural_core::stack_policy_rules::{RuleFile, RuleFinding};
use plural_core::{Error, Result};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

/// Branch → (commit, folder → content), per repository address.
type Branches = BTreeMap<String, (String, BTreeMap<String, String>)>;

#[derive(Default)]
pub(crate) struct FakeGit {
    repositories: Mutex<HashMap<String, Branches>>,
    hanging: Mutex<Vec<String>>,
    pub(crate) fetches: AtomicUsize,
    pub(crate) builds: AtomicUsize,
    pub(crate) seen: Mutex<Vec<Option<GitCredentials>>>,
    pub(crate) reached: Mutex<Vec<GitReach>>,
    pub(crate) forgotten: Mutex<Vec<RepositoryId>>,
    /// Mirrors that a collection finds, and for how long nobody asked for them.
    pub(crate) mirrors: Mutex<Vec<(RepositoryId, std::time::Duration)>>,
    /// Digests of the blobs that a collection finds.
    pub(crate) stored: Mutex<HashSet<[u8; 32]>>,
    /// What was kept under them, of some.
    pub(crate) kept: Mutex<HashMap<[u8; 32], Vec<u8>>>,
    /// Notes by folder and name.
    pub(crate) notes: Mutex<BTreeMap<(String, String), Vec<u8>>>,
    /// Nothing can be kept.
    pub(crate) away: AtomicBool,
}

impl FakeGit {
    /// Commits to `main` of a repository: folder → content; other folders stay.
    pub(crate) fn commit(&self, url: &str, sha: &str, folders: &[(&str, &str)]) {
        let mut repositories = self.repositories.lock();
        let branches = repositories.entry(url.to_owned()).or_default();
        let (head, files) = branches.entry("main".to_owned()).or_default();
        sha.clone_into(head);
        for (folder, content) in folders {
            files.insert((*folder).to_owned(), (*content).to_owned());
        }
        // A commit can be asked for by its name, too.
        let files = files.clone();
        branches.insert(sha.to_owned(), (sha.to_owned(), files));
    }

    /// A commit beside `main`, which stays where it is: folder → content; other folders are as on `main`.
    pub(crate) fn propose(&self, url: &str, sha: &str, folders: &[(&str, &str)]) {
        let mut repositories = self.repositories.lock();
        let branches = repositories.entry(url.to_owned()).or_default();
        let mut files = branches.get("main").map(|(_, files)| files.clone()).unwrap_or_default();
        files.extend(folders.iter().map(|(folder, content)| ((*folder).to_owned(), (*content).to_owned())));
        branches.insert(sha.to_owned(), (sha.to_owned(), files));
    }

    /// Fetches of this repository never answer.
    pub(crate) fn hang(&self, url: &str) {
        self.hanging.lock().push(url.to_owned());
    }

    pub(crate) fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    pub(crate) fn builds(&self) -> usize {
        self.builds.load(Ordering::SeqCst)
    }

    fn read<T>(
        &self,
        access: &GitAccess,
        read: impl FnOnce(&Branches) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        let repositories = self.repositories.lock();
        let branches = repositories.get(access.url.as_str()).ok_or_else(|| GitError {
            transient: true,
            ..GitError::terminal("there is no repository at this address")
        })?;
        read(branches)
    }
}

pub(crate) fn digest(content: &str) -> String {
    hex::encode(Sha256::digest(content.as_bytes()))
}

fn content(branches: &Branches, sha: &str, folder: &str) -> Result<String, GitError> {
    let (_, files) = branches.values().find(|(head, _)| head == sha).expect("a commit that was resolved");
    files.get(folder).cloned().ok_or_else(|| GitError {
        location: Some(folder.to_owned()),
        ..GitError::terminal(format!("there is no folder {folder:?} at this commit"))
    })
}

#[async_trait]
impl GitPort for FakeGit {
    async fn fetch(&self, access: &GitAccess) -> Result<FetchOutcome, GitError> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        self.seen.lock().push(access.credentials.clone());
        self.reached.lock().push(access.reach.clone());
        let hangs = self.hanging.lock().contains(&access.url.to_string());
        if hangs {
            std::future::pending::<()>().await;
        }
        self.read(access, |_| Ok(FetchOutcome { changed: true }))
    }

    async fn resolve(&self, access: &GitAccess, reference: &str) -> Result<CommitInfo, GitError> {
        self.read(access, |branches| {
            let (sha, _) = branches
                .get(reference)
                .ok_or_else(|| GitError::terminal(format!("there is no ref {reference:?}")))?;
            Ok(CommitInfo {
                sha: sha.clone(),
                message: format!("commit {sha}"),
                author: "Ada".to_owned(),
                emails: vec!["ada@example.com".to_owned()],
                at: chrono::Utc::now(),
            })
        })
    }

    async fn fetch_commit(
        &self,
        access: &GitAccess,
        _sha: &str,
        _reference: Option<&str>,
    ) -> Result<(), GitError> {
        self.read(access, |_| Ok(()))
    }

    /// Nothing is merged here: branches are what a test says.
    async fn merge(&self, access: &GitAccess, _first: &str, _second: &str) -> Result<Merged, GitError> {
        self.read(access, |_| Ok(Merged::Unknown))
    }

    async fn overlay(
        &self,
        _: &GitAccess,
        _: &str,
        _: &str,
        _: Vec<TreeChange>,
    ) -> Result<CommitInfo, GitError> {
        Err(GitError::terminal("no commits are made here"))
    }

    async fn reached(
        &self,
        access: &GitAccess,
        _sha: &str,
        sources: &[SourceSpec],
        paths: &[String],
    ) -> Result<Vec<Result<bool, GitError>>, GitError> {
        let is_below =
            |source: &SourceSpec| paths.iter().any(|path| path.starts_with(source.folder.as_str()));
        self.read(access, |_| Ok(sources.iter().map(|source| Ok(is_below(source))).collect()))
    }

    async fn closures(
        &self,
        access: &GitAccess,
        sha: &str,
        sources: &[SourceSpec],
    ) -> Result<Vec<Result<Closure, GitError>>, GitError> {
        self.read(access, |branches| {
            Ok(sources
                .iter()
                .map(|source| {
                    content(branches, sha, &source.folder)
                        .map(|content| Closure { digest: digest(&format!("closure of {content}")) })
                })
                .collect())
        })
    }

    async fn module_code(
        &self,
        access: &GitAccess,
        sha: &str,
        source: &SourceSpec,
    ) -> Result<Vec<(String, Vec<u8>)>, GitError> {
        self.read(access, |branches| {
            let content = content(branches, sha, &source.folder)?;
            Ok(vec![(format!("{}/main.tf", source.folder), content.into_bytes())])
        })
    }

    async fn folder(&self, access: &GitAccess, sha: &str, folder: &str) -> Result<Vec<FolderFile>, GitError> {
        self.read(access, |branches| {
            let bytes = content(branches, sha, folder)?.into_bytes();
            Ok(vec![FolderFile { path: "file".to_owned(), bytes, executable: false }])
        })
    }

    /// The branches of a test have no history.
    async fn authors(
        &self,
        access: &GitAccess,
        sha: &str,
        _applied: Option<&str>,
        _source: &SourceSpec,
    ) -> Result<Authors, GitError> {
        self.read(access, |_| {
            Ok(Authors {
                emails: vec!["ada@example.com".to_owned()],
                commits: vec![sha.to_owned()],
                is_whole: true,
            })
        })
    }

    async fn build(&self, access: &GitAccess, sha: &str, source: &SourceSpec) -> Result<Built, GitError> {
        self.builds.fetch_add(1, Ordering::SeqCst);
        self.read(access, |branches| {
            let content = content(branches, sha, &source.folder)?;
            Ok(Built {
                digest: digest(&content),
                folder: source.folder.clone(),
                bytes: content.len() as u64,
                incomplete: false,
            })
        })
    }

    async fn watch(&self, _access: &GitAccess) -> Result<Option<watch::Receiver<u64>>, GitError> {
        Ok(None)
    }

    fn has_mirror(&self, _access: &GitAccess) -> bool {
        true
    }

    async fn share_mirror(
        &self,
        access: &GitAccess,
        known: Option<&MirrorBundle>,
    ) -> Result<Option<MirrorBundle>, GitError> {
        self.read(access, |branches| {
            let references = branches.get("main").map_or_else(String::new, |(sha, _)| sha.clone());
            let piece = Sha256::digest(&references).into();
            let is_new = known.is_none_or(|known| known.references != references);
            Ok(is_new.then(|| MirrorBundle { references, pieces: vec![piece, [8; 32]], bytes: 64 }))
        })
    }

    async fn restore_mirror(&self, _access: &GitAccess, _bundle: &MirrorBundle) -> Result<(), GitError> {
        Err(GitError::terminal("there are no mirrors here"))
    }

    async fn collect_mirrors(&self, keep: &KeepMirror<'_>) -> Result<u64, GitError> {
        let mut mirrors = self.mirrors.lock();
        let before = mirrors.len();
        mirrors.retain(|(id, unused)| keep(*id, *unused));
        Ok((before - mirrors.len()) as u64)
    }

    async fn forget(&self, id: RepositoryId) -> Result<(), GitError> {
        self.forgotten.lock().push(id);
        Ok(())
    }
}

#[async_trait]
impl Previews for FakeGit {
    async fn files(&self, digest: &str, root: &str, path: &str) -> Result<Vec<ServiceFile>> {
        let path = if path.is_empty() { root } else { path };
        Ok(ServiceFile::answer([(path, digest.as_bytes())], true))
    }

    async fn archive(&self, digest: &str, root: &str) -> Result<Vec<u8>> {
        Ok(format!("{digest}/{root}").into_bytes())
    }

    async fn render(&self, _: ServiceSpec, _: Option<ClusterData>) -> Result<Preview> {
        Ok(Preview::default())
    }
}

#[async_trait]
impl Composer for FakeGit {
    async fn compose(&self, composition: &Composition) -> Result<Composed, ComposeError> {
        let error = GitError::terminal("there are no charts here");
        let repository = matches!(composition.chart, Some(ChartPart::Repository { .. }));
        Err(ComposeError { error, repository })
    }
}

#[async_trait]
impl Blobs for FakeGit {
    async fn open(&self, digest: &str) -> Result<BlobStream> {
        let bytes = Bytes::from(digest.to_owned());
        Ok(futures::stream::iter([Ok(bytes)]).boxed())
    }

    async fn archive(&self, _: &str, _: &str, _: &str) -> Result<Vec<u8>> {
        Err(Error::not_found("artifact"))
    }

    async fn keep(&self, content: Vec<u8>) -> Result<[u8; 32]> {
        if self.away.load(Ordering::SeqCst) {
            return Err(plural_core::Error::unavailable("the blob store does not answer"));
        }
        let digest = <[u8; 32]>::from(Sha256::digest(&content));
        self.stored.lock().insert(digest);
        self.kept.lock().insert(digest, content);
        Ok(digest)
    }

    async fn read(&self, digest: [u8; 32]) -> Result<Vec<u8>> {
        let kept = self.kept.lock().get(&digest).cloned();
        kept.filter(|_| self.stored.lock().contains(&digest)).ok_or(plural_core::Error::not_found("blob"))
    }

    async fn collect(
        &self,
        live: HashSet<[u8; 32]>,
        _spare: std::time::Duration,
    ) -> plural_core::Result<u64> {
        let mut stored = self.stored.lock();
        let before = stored.len();
        stored.retain(|digest| live.contains(digest));
        Ok((before - stored.len()) as u64)
    }

    async fn forget(
        &self,
        these: HashSet<[u8; 32]>,
        _spare: std::time::Duration,
    ) -> plural_core::Result<u64> {
        let mut stored = self.stored.lock();
        let before = stored.len();
        stored.retain(|digest| !these.contains(digest));
        Ok((before - stored.len()) as u64)
    }

    async fn note_keep(&self, folder: &str, name: &str, content: Vec<u8>) -> plural_core::Result<()> {
        if self.away.load(Ordering::SeqCst) {
            return Err(plural_core::Error::unavailable("the blob store does not answer"));
        }
        self.notes.lock().insert((folder.to_owned(), name.to_owned()), content);
        Ok(())
    }

    async fn notes(&self, folder: &str, most: usize) -> plural_core::Result<Vec<(String, Vec<u8>)>> {
        let notes = self.notes.lock();
        let of = notes.iter().filter(|((of, _), _)| of == folder);
        let mut found: Vec<_> = of.map(|((_, name), content)| (name.clone(), content.clone())).collect();
        found.drain(..found.len().saturating_sub(most));
        Ok(found)
    }
}

/// Evaluates nothing: here no stack has a policy.
#[async_trait]
impl Rules for FakeGit {
    async fn check(
        &self,
        _: Vec<RuleFile>,
        _: String,
    ) -> Result<std::result::Result<Vec<RuleFinding>, String>> {
        Ok(Err("no rules are evaluated here".to_owned()))
    }
}

impl GitHosts for FakeGit {
    fn connect(&self, _: &ScmConnection, _: HostSecrets) -> Result<Arc<dyn Host>> {
        Err(Error::invalid("connection", "no git host is reached here"))
    }
}

#[async_trait]
impl Governances for FakeGit {
    fn check(&self, _: &str) -> std::result::Result<(), String> {
        Ok(())
    }

    async fn call(&self, _: GovernanceCall) -> std::result::Result<GovernanceAnswer, String> {
        Err("no governance is reached here".to_owned())
    }
}

#[async_trait]
impl Scaffolds for FakeGit {
    async fn run(&self, _: ScaffoldRun) -> Result<std::result::Result<Scaffolded, String>> {
        Ok(Err("no automation is run here".to_owned()))
    }

    async fn merge(&self, _: ScaffoldMerge) -> Result<std::result::Result<ScaffoldMerged, String>> {
        Ok(Err("nothing is merged here".to_owned()))
    }

    fn difference(&self, _: &str, _: Option<&ScaffoldEntry>, _: Option<&ScaffoldEntry>) -> String {
        String::new()
    }
}
