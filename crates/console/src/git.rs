//! Git as the use cases need it: mirrors and closures of `plural-git`, artifacts into the blob store.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use chrono::DateTime;
use parking_lot::Mutex;
use plural_app::ports::git::{
    Authors, Built, Closure, CommitInfo, FetchOutcome, FolderFile, GitAccess, GitCredentials, GitError,
    GitPort, GitReach, KeepMirror, Merged, MirrorBundle, SourceSpec, TreeChange,
};
use plural_core::ids::RepositoryId;
use plural_core::module_code::is_module_code;
use plural_git::{
    BlobStore, Commit, Credentials, Digest, FileChange, HostKeys, ListedKind, Merge, MirrorKey, Mirrors, Oid,
    RefSpec, Remote, Repository, ServiceSource, Signers, SourceFile,
};
use secrecy::ExposeSecret;
use tokio::{
    fs::File,
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::watch,
    task::JoinSet,
};

/// How long the mirror of a git host's repository is kept that nobody commits to.
const HOST_MIRROR: Duration = Duration::from_hours(7 * 24);
/// Bytes of one file that is named by itself.
const FILE_BYTES: u64 = 16 << 20;
/// Bytes of a mirror that is shared with other replicas; a larger one is cloned by each.
const SHARED_BYTES: u64 = 2 << 30;
/// Bytes of it that are stored together: never all of it is in memory.
const PIECE: u64 = 16 << 20;

/// The adapter. Owns the tasks that watch repositories on this machine; they end with it.
pub(crate) struct Git {
    mirrors: Mirrors,
    blobs: Arc<dyn BlobStore>,
    watches: Mutex<Watches>,
}

#[derive(Default)]
struct Watches {
    by_repository: HashMap<RepositoryId, Watched>,
    tasks: JoinSet<()>,
}

struct Watched {
    url: String,
    moved: watch::Receiver<u64>,
    task: tokio::task::AbortHandle,
}

impl Git {
    /// The text of a provenance file, if one of these OpenPGP keys signed it.
    pub(crate) async fn signed_text(&self, document: &[u8], keys: &str) -> Result<String, GitError> {
        let document = std::str::from_utf8(document)
            .map_err(|_| GitError::terminal("the provenance file is not UTF-8"))?;
        self.mirrors.signed_text(document, keys).await.map_err(|error| {
            let error = explain(error);
            GitError { message: format!("the chart's provenance file: {}", error.message), ..error }
        })
    }

    pub(crate) fn new(mirrors: Mirrors, blobs: Arc<dyn BlobStore>) -> Self {
        Self { mirrors, blobs, watches: Mutex::new(Watches::default()) }
    }

    /// The content of a source, by path in the repository: all that it reaches, or what is named relative to its folder
    /// and, relative to the repository, as its further files. What is named and not there is left out.
    pub(crate) async fn files(
        &self,
        access: &GitAccess,
        sha: &str,
        source: &SourceSpec,
        taken: Taken,
    ) -> Result<BTreeMap<String, SourceFile>, GitError> {
        let repository = self.repository(access).await?;
        let commit = RefSpec::parse(sha).map_err(explain)?;
        let source = source.clone();
        blocking(move || {
            let commit = repository.resolve(&commit)?.commit;
            let Taken::Named(names) = taken else {
                let closure = repository.closure(commit, &service_source(&source)?)?;
                return repository.files(&closure);
            };
            let own = names.iter().filter_map(|name| inside(&source.folder, name));
            let further = source.files.iter().filter_map(|name| inside("", name));
            let mut files = BTreeMap::new();
            let mut bytes = 0_u64;
            for path in own.chain(further) {
                if files.contains_key(&path) {
                    continue;
                }
                // Each name can be a folder, and there are many names: what they hold is counted together.
                if let Some(content) = repository.read(commit, &path, FILE_BYTES)? {
                    bytes = bytes.saturating_add(content.len() as u64);
                    let limit = repository.limits().total_bytes;
                    if bytes > limit {
                        let what = "the size in bytes of the named files up to and with this one";
                        return Err(plural_git::Error::Limit { file: path, what, actual: bytes, limit });
                    }
                    files.insert(path, SourceFile { content, executable: false });
                } else if let Ok(closure) = repository.closure(commit, &ServiceSource::new(&path)?) {
                    repository.add_files(&closure, &mut files)?;
                    bytes = files.values().map(|file| file.content.len() as u64).sum();
                }
            }
            Ok(files)
        })
        .await
    }

    /// Whether every piece of a shared mirror is there.
    async fn is_shared(&self, bundle: &MirrorBundle) -> Result<bool, GitError> {
        for piece in &bundle.pieces {
            if !self.blobs.contains(Digest::from(*piece)).await.map_err(explain)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn repository(&self, access: &GitAccess) -> Result<Repository, GitError> {
        self.mirrors.repository(&remote(access)?).await.map_err(explain)
    }
}

#[async_trait]
impl GitPort for Git {
    async fn fetch(&self, access: &GitAccess) -> Result<FetchOutcome, GitError> {
        // An earlier release took addresses that this one cannot hold to limits.
        access.url.address().map_err(|error| {
            GitError::terminal(format!(
                "the repository's address {error}: give it another one, with its credentials"
            ))
        })?;
        let remote = remote(access)?;
        let fetched = self.mirrors.fetch(&remote).await.map_err(explain)?;
        if fetched.wants_tidying
            && let Err(error) = self.mirrors.tidy(&remote).await
        {
            tracing::warn!(repository.id = %access.id, error = %error, "cannot tidy a mirror; it stays usable");
        }
        Ok(FetchOutcome { changed: fetched.changed })
    }

    async fn resolve(&self, access: &GitAccess, reference: &str) -> Result<CommitInfo, GitError> {
        let spec = RefSpec::parse(reference).map_err(explain)?;
        let repository = self.repository(access).await?;
        let here = repository.clone();
        let commit = blocking(move || here.commit(here.resolve(&spec)?.commit)).await?;
        // Whatever is read of a repository is read of a commit that was resolved here.
        let signers = signers(access);
        if !signers.is_empty() {
            self.mirrors.verify(&repository, commit.id, &signers).await.map_err(explain)?;
        }
        Ok(info(commit))
    }

    async fn fetch_commit(
        &self,
        access: &GitAccess,
        sha: &str,
        reference: Option<&str>,
    ) -> Result<(), GitError> {
        let remote = remote(access)?;
        let fetched = if let Some(reference) = reference {
            let reference = RefSpec::parse(reference).map_err(explain)?;
            self.mirrors.fetch_reference(&remote, &reference).await
        } else {
            let commit = sha.parse::<Oid>().map_err(explain)?;
            self.mirrors.fetch_commit(&remote, commit).await
        };
        fetched.map(drop).map_err(explain)
    }

    async fn merge(&self, access: &GitAccess, first: &str, second: &str) -> Result<Merged, GitError> {
        let (first, second): (Oid, Oid) = (first.parse().map_err(explain)?, second.parse().map_err(explain)?);
        let merged = self.mirrors.merge(&remote(access)?, first, second).await.map_err(explain)?;
        Ok(match merged {
            Merge::Second => Merged::Second,
            Merge::Made(commit) => Merged::Commit(commit.to_hex()),
            Merge::Conflicts(files) => Merged::Conflicts(files),
            Merge::Unrelated => Merged::Unrelated,
            Merge::Unknown => Merged::Unknown,
        })
    }

    async fn overlay(
        &self,
        access: &GitAccess,
        sha: &str,
        message: &str,
        changes: Vec<TreeChange>,
    ) -> Result<CommitInfo, GitError> {
        let parent = sha.parse::<Oid>().map_err(explain)?;
        let change = |TreeChange { path, content, executable }| FileChange {
            path,
            content: content.map(Into::into),
            executable,
        };
        let changes: Vec<FileChange> = changes.into_iter().map(change).collect();
        let made = self.mirrors.overlay(&remote(access)?, parent, message, &changes).await;
        made.map(info).map_err(explain)
    }

    async fn reached(
        &self,
        access: &GitAccess,
        sha: &str,
        sources: &[SourceSpec],
        paths: &[String],
    ) -> Result<Vec<Result<bool, GitError>>, GitError> {
        let repository = self.repository(access).await?;
        let commit = RefSpec::parse(sha).map_err(explain)?;
        let (sources, paths) = (sources.to_vec(), paths.to_vec());
        blocking(move || {
            let commit = repository.resolve(&commit)?.commit;
            let paths: HashSet<String> = paths.into_iter().collect();
            let reaches = |source: &SourceSpec| -> plural_git::Result<bool> {
                let closure = repository.closure(commit, &service_source(source)?)?;
                Ok(closure.entries.iter().any(|entry| paths.contains(&entry.path)))
            };
            Ok(sources.iter().map(|source| reaches(source).map_err(explain)).collect::<Vec<_>>())
        })
        .await
    }

    async fn closures(
        &self,
        access: &GitAccess,
        sha: &str,
        sources: &[SourceSpec],
    ) -> Result<Vec<Result<Closure, GitError>>, GitError> {
        let started = Instant::now();
        let repository = self.repository(access).await?;
        let commit = RefSpec::parse(sha).map_err(explain)?;
        let sources = sources.to_vec();
        let closures = blocking(move || {
            let commit = repository.resolve(&commit)?.commit;
            let mut closures: Vec<Option<Result<Closure, GitError>>> = vec![None; sources.len()];
            let mut wanted = Vec::new();
            let mut places = Vec::new();
            for (place, source) in sources.iter().enumerate() {
                match service_source(source) {
                    Ok(source) => {
                        wanted.push(source);
                        places.push(place);
                    }
                    Err(error) => closures[place] = Some(Err(explain(error))),
                }
            }
            for (place, found) in places.into_iter().zip(repository.closures(commit, &wanted)?) {
                closures[place] = Some(match found {
                    Ok(closure) => Ok(Closure { digest: closure.digest.to_string() }),
                    Err(error) => Err(explain(error)),
                });
            }
            Ok(closures.into_iter().flatten().collect::<Vec<_>>())
        })
        .await?;
        metrics::histogram!("plural_git_closures_seconds").record(started.elapsed().as_secs_f64());
        Ok(closures)
    }

    async fn module_code(
        &self,
        access: &GitAccess,
        sha: &str,
        source: &SourceSpec,
    ) -> Result<Vec<(String, Vec<u8>)>, GitError> {
        let files = self.files(access, sha, source, Taken::All).await?;
        let code = files.into_iter().filter(|(path, _)| is_module_code(path));
        Ok(code.map(|(path, file)| (path, file.content)).collect())
    }

    async fn folder(&self, access: &GitAccess, sha: &str, folder: &str) -> Result<Vec<FolderFile>, GitError> {
        let repository = self.repository(access).await?;
        let commit = RefSpec::parse(sha).map_err(explain)?;
        let folder = folder.trim_matches('/').to_owned();
        blocking(move || {
            let commit = repository.resolve(&commit)?.commit;
            let limits = repository.limits();
            let (mut files, mut bytes) = (Vec::new(), 0_u64);
            for listed in repository.walk(commit, &folder, limits.entries)? {
                let executable = match listed.kind {
                    ListedKind::File => false,
                    ListedKind::Executable => true,
                    ListedKind::Folder | ListedKind::Link | ListedKind::Submodule => continue,
                };
                let read = repository.read(commit, &listed.path, limits.file_bytes)?;
                let Some(content) = read else { continue };
                bytes = bytes.saturating_add(content.len() as u64);
                if bytes > limits.total_bytes {
                    let what = "the size in bytes of the folder up to and with this file";
                    let limit = limits.total_bytes;
                    return Err(plural_git::Error::Limit { file: listed.path, what, actual: bytes, limit });
                }
                let path = listed.path.strip_prefix(folder.as_str()).unwrap_or(&listed.path);
                let path = path.trim_start_matches('/').to_owned();
                files.push(FolderFile { path, bytes: content, executable });
            }
            Ok(files)
        })
        .await
    }

    async fn authors(
        &self,
        access: &GitAccess,
        sha: &str,
        applied: Option<&str>,
        source: &SourceSpec,
    ) -> Result<Authors, GitError> {
        let repository = self.repository(access).await?;
        let tip = sha.parse::<Oid>().map_err(explain)?;
        // What is no whole id of a commit was applied by no run.
        let applied = applied.and_then(|sha| sha.parse::<Oid>().ok());
        let source = service_source(source).map_err(explain)?;
        let found = blocking(move || repository.authors(tip, applied, &source)).await?;
        let mut emails: Vec<String> = found.emails.iter().map(|email| author_line(email)).collect();
        let is_whole = found.is_whole && emails.len() <= AUTHORS;
        emails.truncate(AUTHORS);
        let commits = found.commits.into_iter().map(Oid::to_hex).collect();
        Ok(Authors { emails, commits, is_whole })
    }

    async fn build(&self, access: &GitAccess, sha: &str, source: &SourceSpec) -> Result<Built, GitError> {
        let started = Instant::now();
        let repository = self.repository(access).await?;
        let commit = RefSpec::parse(sha).map_err(explain)?;
        let source = service_source(source).map_err(explain)?;
        let (artifact, incomplete) = blocking(move || {
            let commit = repository.resolve(&commit)?.commit;
            let closure = repository.closure(commit, &source)?;
            let artifact = repository.artifact(&closure)?;
            let incomplete = lacks_charts(&artifact);
            Ok((artifact, incomplete))
        })
        .await?;
        let built = Built {
            digest: artifact.digest.to_string(),
            folder: artifact.folder,
            bytes: artifact.tar.len() as u64,
            incomplete,
        };
        self.blobs.put(artifact.digest, artifact.tar).await.map_err(explain)?;
        metrics::histogram!("plural_git_artifact_seconds").record(started.elapsed().as_secs_f64());
        Ok(built)
    }

    async fn watch(&self, access: &GitAccess) -> Result<Option<watch::Receiver<u64>>, GitError> {
        if !access.url.is_local() {
            return Ok(None);
        }
        let url = access.url.as_str().to_owned();
        {
            let watches = self.watches.lock();
            if let Some(found) = watches.by_repository.get(&access.id)
                && found.url == url
                && !found.task.is_finished()
            {
                return Ok(Some(found.moved.clone()));
            }
        }
        let mut refs = self.mirrors.watch(&remote(access)?).await.map_err(explain)?;
        let (sender, moved) = watch::channel(0_u64);
        let mut watches = self.watches.lock();
        // What ended is collected here, so that the set holds one task a repository.
        while watches.tasks.try_join_next().is_some() {}
        let task = watches.tasks.spawn(async move {
            loop {
                refs.changed().await;
                sender.send_modify(|moves| *moves += 1);
            }
        });
        let watched = Watched { url, moved: moved.clone(), task };
        if let Some(old) = watches.by_repository.insert(access.id, watched) {
            old.task.abort();
        }
        Ok(Some(moved))
    }

    fn has_mirror(&self, access: &GitAccess) -> bool {
        remote(access).is_ok_and(|remote| self.mirrors.has(&remote))
    }

    async fn share_mirror(
        &self,
        access: &GitAccess,
        known: Option<&MirrorBundle>,
    ) -> Result<Option<MirrorBundle>, GitError> {
        let mut same = None;
        if let Some(known) = known
            && self.is_shared(known).await?
        {
            same = Some(known.references.as_str());
        }
        let bundle = self.mirrors.bundle(&remote(access)?, same, SHARED_BYTES).await.map_err(explain)?;
        let Some(bundle) = bundle else { return Ok(None) };
        let mut file = File::open(bundle.path()).await.map_err(|error| on_disk(&error))?;
        let mut pieces = Vec::new();
        loop {
            let mut piece = Vec::new();
            (&mut file).take(PIECE).read_to_end(&mut piece).await.map_err(|error| on_disk(&error))?;
            if piece.is_empty() {
                break;
            }
            let digest = Digest::of(&piece);
            self.blobs.put(digest, piece).await.map_err(explain)?;
            pieces.push(*digest.as_bytes());
        }
        Ok(Some(MirrorBundle { references: bundle.references.clone(), pieces, bytes: bundle.bytes }))
    }

    async fn restore_mirror(&self, access: &GitAccess, bundle: &MirrorBundle) -> Result<(), GitError> {
        let file = self.mirrors.bundle_file().await.map_err(explain)?;
        let mut out = File::from_std(file.reopen().map_err(|error| on_disk(&error))?);
        for piece in &bundle.pieces {
            let content = self.blobs.get(Digest::from(*piece)).await.map_err(explain)?;
            let content =
                content.ok_or_else(|| GitError::terminal("a part of the shared mirror is missing"))?;
            out.write_all(&content).await.map_err(|error| on_disk(&error))?;
        }
        out.flush().await.map_err(|error| on_disk(&error))?;
        self.mirrors.restore(&remote(access)?, file.path()).await.map_err(explain)
    }

    async fn collect_mirrors(&self, keep: &KeepMirror<'_>) -> Result<u64, GitError> {
        let removed = self.mirrors.retain(|key, unused| match key.as_str().parse() {
            Ok(id) => keep(id, unused),
            // Those of git hosts are made anew when a commit needs one. Whatever else that is, it is not ours.
            Err(_) => !key.as_str().starts_with(plural_scm::MIRROR_PREFIX) || unused < HOST_MIRROR,
        });
        removed.await.map(|removed| removed as u64).map_err(explain)
    }

    async fn forget(&self, id: RepositoryId) -> Result<(), GitError> {
        if let Some(watched) = self.watches.lock().by_repository.remove(&id) {
            watched.task.abort();
        }
        // A mirror that is being fetched right now stays, and costs disk until the next start tidies up.
        self.mirrors.remove(&key(id)?).await.map(|_| ()).map_err(explain)
    }
}

/// What of a source is taken.
pub(crate) enum Taken {
    /// Its folder, and everything that this reaches.
    All,
    /// These files and folders.
    Named(Vec<String>),
}

/// A path seen from a folder, as a path in the repository; nothing when it leads out.
fn inside(folder: &str, name: &str) -> Option<String> {
    let mut parts: Vec<&str> = if name.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    parts.retain(|part| !part.is_empty());
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The artifact is a chart that names dependencies it does not hold. What cannot be read is the renderer's to name.
fn lacks_charts(artifact: &plural_git::Artifact) -> bool {
    let prefix = if artifact.folder.is_empty() { String::new() } else { format!("{}/", artifact.folder) };
    // Most services are no charts, or charts without dependencies: a search is cheaper than unpacking all.
    let says = |needle: &[u8]| artifact.tar.windows(needle.len()).any(|window| window == needle);
    let (depends, inflates) = (says(b"dependencies:"), says(b"helmChart"));
    if !depends && !inflates {
        return false;
    }
    let limits = plural_registry::Limits::default();
    let Ok(files) = plural_registry::unpack(&artifact.tar, &limits) else { return false };
    if inflates && plural_registry::lacks_charts(&files) {
        return true;
    }
    files.contains_key(&format!("{prefix}Chart.yaml"))
        && plural_registry::missing(&files, &artifact.folder, &limits)
            .is_ok_and(|missing| !missing.is_empty())
}

fn key(id: RepositoryId) -> Result<MirrorKey, GitError> {
    MirrorKey::new(id.to_string()).map_err(explain)
}

fn remote(access: &GitAccess) -> Result<Remote, GitError> {
    let credentials = match &access.credentials {
        None => Credentials::None,
        Some(GitCredentials::Basic { username, password }) => {
            Credentials::basic(username, password.expose_secret())
        }
        Some(GitCredentials::Ssh { private_key, passphrase }) => Credentials::ssh_key(
            private_key.expose_secret(),
            passphrase.as_ref().map(|passphrase| passphrase.expose_secret().to_owned()),
        ),
    };
    let GitReach { proxy, ca_pem, known_hosts, allowed_signers: _, openpgp_keys: _ } = &access.reach;
    let mut remote = Remote::new(key(access.id)?, access.url.as_str()).map_err(explain)?;
    remote.proxy.clone_from(proxy);
    remote.ca_pem.clone_from(ca_pem);
    if let Some(known_hosts) = known_hosts {
        remote = remote.with_host_keys(HostKeys::Pinned(known_hosts.clone()));
    }
    Ok(remote.with_credentials(credentials))
}

/// A commit as use cases see it.
fn info(commit: Commit) -> CommitInfo {
    CommitInfo {
        sha: commit.id.to_hex(),
        author: author_line(&commit.author),
        emails: vec![author_line(&commit.author_email), author_line(&commit.committer_email)],
        at: DateTime::from_timestamp(commit.time, 0).unwrap_or_default(),
        message: commit.summary,
    }
}

/// Whose commits are taken; nobody's where all are.
fn signers(access: &GitAccess) -> Signers {
    let GitReach { proxy: _, ca_pem: _, known_hosts: _, allowed_signers, openpgp_keys } = &access.reach;
    Signers { ssh: allowed_signers.clone(), openpgp: openpgp_keys.clone() }
}

fn on_disk(error: &std::io::Error) -> GitError {
    GitError {
        transient: true,
        ..GitError::terminal(format!("cannot write or read a shared mirror: {error}"))
    }
}

fn service_source(source: &SourceSpec) -> plural_git::Result<ServiceSource> {
    let SourceSpec { folder, files } = source;
    ServiceSource::new(folder)?.with_extra_files(files)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> plural_git::Result<T> + Send + 'static,
) -> Result<T, GitError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(explain),
        Err(error) => {
            tracing::error!(error = %error, "reading a repository failed unexpectedly");
            Err(GitError {
                message: "reading the repository failed unexpectedly: see the console's log".to_owned(),
                location: None,
                transient: true,
            })
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
pub(crate) fn explain(error: plural_git::Error) -> GitError {
    GitError {
        message: error.to_string(),
        location: error.location().map(ToOwned::to_owned),
        transient: error.is_transient(),
    }
}

/// E-mail addresses of a run's authors that are kept.
const AUTHORS: usize = 500;
/// Bytes of an author's name, or e-mail address, that are kept.
const AUTHOR: usize = 200;

/// The name of an author, or an e-mail address, as it may be kept and shown: one line, without control characters.
fn author_line(name: &str) -> String {
    let mut line: String =
        name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    line.truncate(line.floor_char_boundary(AUTHOR));
    line
}
