//! Reading a repository: [`Repository`], [`Commit`], [`Resolved`].

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use gix::bstr::ByteSlice as _;

pub(crate) mod authors;

use crate::{
    artifact::{self, Artifact, Limits, SourceFile},
    closure::{self, Closure, ClosureCache, ParseCache, ServiceSource},
    error::{Error, Result},
    objects::{Mode, Objects, Oid, TreeCache, TreeEntry},
    path,
    refspec::{Kind, RefSpec},
    semver_range::Range,
    signature::Signed,
};

/// A repository on this machine: a mirror, or a local one read in place. Cheap to clone.
///
/// Every method reads files and may take milliseconds: in async code, call them inside `spawn_blocking`.
#[derive(Clone)]
pub struct Repository {
    inner: Arc<Inner>,
}

struct Inner {
    repo: gix::ThreadSafeRepository,
    /// The remote, as it may be shown.
    name: String,
    caches: Arc<Caches>,
    /// Tells apart repositories in the shared caches: content of one must not be reachable through another.
    number: u64,
    limits: Limits,
    /// Set when an object that must be there is not; the next fetch then makes the mirror anew.
    suspect: Arc<AtomicBool>,
}

/// Parsed results, shared by all repositories of one [`Mirrors`](crate::Mirrors) and bounded together.
pub(crate) struct Caches {
    pub(crate) trees: TreeCache,
    pub(crate) parses: ParseCache,
    pub(crate) closures: ClosureCache,
    next_number: AtomicU64,
}

impl Caches {
    pub(crate) fn new() -> Self {
        Self {
            // About 90 bytes an entry.
            trees: TreeCache::new(300_000),
            parses: ParseCache::new(100_000),
            closures: ClosureCache::new(400_000),
            next_number: AtomicU64::new(0),
        }
    }
}

/// A commit, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its id.
    pub id: Oid,
    /// Id of its tree.
    pub tree: Oid,
    /// Its parents' ids.
    pub parents: Vec<Oid>,
    /// First line of the message.
    pub summary: String,
    /// The whole message, at most 64 KiB of it.
    pub message: String,
    /// Who wrote it.
    pub author: String,
    /// The author's e-mail address.
    pub author_email: String,
    /// That of whoever committed it: whoever merged it, say.
    pub committer_email: String,
    /// When it was committed, in seconds since 1970-01-01 UTC.
    pub time: i64,
}

/// What a reference stands for at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The commit.
    pub commit: Oid,
    /// Full name of the reference that was taken (`refs/tags/v1.4.2`), nothing when a commit was named directly.
    pub reference: Option<String>,
}

/// A file or folder in a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Path in the repository.
    pub path: String,
    /// What it is.
    pub kind: ListedKind,
    /// Its object's id.
    pub oid: Oid,
}

impl Listed {
    fn of(folder: &str, entry: &TreeEntry) -> Self {
        let name = String::from_utf8_lossy(&entry.name);
        Self {
            path: if folder.is_empty() { name.into_owned() } else { format!("{folder}/{name}") },
            kind: match entry.mode {
                Mode::File => ListedKind::File,
                Mode::Executable => ListedKind::Executable,
                Mode::Link => ListedKind::Link,
                Mode::Tree => ListedKind::Folder,
                Mode::Submodule => ListedKind::Submodule,
            },
            oid: entry.oid,
        }
    }
}

/// What a [`Listed`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedKind {
    /// A file.
    File,
    /// A file that may be executed.
    Executable,
    /// A symbolic link.
    Link,
    /// A folder.
    Folder,
    /// A commit of another repository, whose content is not here.
    Submodule,
}

impl Repository {
    /// Opens a repository: bare, with a working tree, or a linked working tree.
    pub(crate) fn open(path: &Path, name: String, caches: Arc<Caches>, limits: Limits) -> Result<Self> {
        let repo = gix::open::Options::isolated()
            .strict_config(false)
            .open(path)
            .map_err(|e| Error::Git { url: name.clone(), detail: format!("cannot open it: {e}") })?;
        let number = caches.next_number.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            inner: Arc::new(Inner {
                repo,
                name,
                caches,
                number,
                limits,
                suspect: Arc::new(AtomicBool::new(false)),
            }),
        })
    }

    /// Folder that holds `refs` and `packed-refs`, and folder that holds `HEAD`.
    pub(crate) fn ref_folders(&self) -> (PathBuf, PathBuf) {
        let repo = self.local();
        (repo.common_dir().to_path_buf(), repo.git_dir().to_path_buf())
    }

    /// Whether something that must be there was found missing.
    pub(crate) fn is_suspect(&self) -> bool {
        self.inner.suspect.load(Ordering::Relaxed)
    }

    fn local(&self) -> gix::Repository {
        let mut repo = self.inner.repo.to_thread_local();
        repo.object_cache_size_if_unset(1 << 20);
        repo
    }

    fn note<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(Error::Corrupt { .. }) = &result {
            self.inner.suspect.store(true, Ordering::Relaxed);
        }
        result
    }

    fn damaged(&self, detail: impl std::fmt::Display) -> Error {
        Error::Corrupt { what: format!("repository {}", self.inner.name), detail: detail.to_string() }
    }

    /// Finds the commit that a reference stands for now.
    ///
    /// # Errors
    /// [`Error::RefMissing`], [`Error::RefAmbiguous`] or [`Error::CommitMissing`], with what was looked for.
    pub fn resolve(&self, spec: &RefSpec) -> Result<Resolved> {
        self.note(self.resolve_in(&self.local(), spec))
    }

    fn resolve_in(&self, repo: &gix::Repository, spec: &RefSpec) -> Result<Resolved> {
        let missing = |why: &str| Error::RefMissing { reference: spec.to_string(), why: why.to_owned() };
        match spec.kind() {
            Kind::Head => match self.by_name(repo, "refs/plural/HEAD")? {
                Some(found) => Ok(Resolved { reference: Some("HEAD".to_owned()), ..found }),
                None => self.by_name(repo, "HEAD")?.ok_or_else(|| {
                    missing("the repository is empty or its default branch does not exist; name a branch")
                }),
            },
            Kind::FullName => self
                .by_name(repo, spec.as_str())?
                .ok_or_else(|| missing("there is no such reference; only refs/heads/ and refs/tags/ are mirrored")),
            Kind::Commit => {
                let commit: Oid = spec.as_str().parse()?;
                self.commit_in(repo, commit)?;
                Ok(Resolved { commit, reference: None })
            }
            Kind::Range(range) => self.by_range(repo, range)?.ok_or_else(|| {
                missing("no tag that reads as a version lies in this semver range (pre-releases count only when the range names one)")
            }),
            Kind::Name { range } => {
                for prefix in ["refs/heads/", "refs/tags/"] {
                    if let Some(found) = self.by_name(repo, &format!("{prefix}{spec}"))? {
                        return Ok(found);
                    }
                }
                if spec.is_abbreviation()
                    && let Some(found) = Self::by_prefix(repo, spec)?
                {
                    return Ok(found);
                }
                if let Some(range) = range
                    && let Some(found) = self.by_range(repo, range)?
                {
                    return Ok(found);
                }
                Err(missing(&self.what_there_is(repo)))
            }
        }
    }

    fn by_name(&self, repo: &gix::Repository, name: &str) -> Result<Option<Resolved>> {
        let found = repo.try_find_reference(name).map_err(|e| self.damaged(format!("{name}: {e}")))?;
        let Some(mut found) = found else { return Ok(None) };
        let full = found.name().as_bstr().to_string();
        // `HEAD` names a branch that may not exist yet.
        let id = match found.peel_to_id() {
            Ok(id) => id,
            Err(_) if name == "HEAD" => return Ok(None),
            Err(e) => return Err(self.damaged(format!("{name}: {e}"))),
        };
        let object = id.object().map_err(|e| self.damaged(format!("{name}: {e}")))?;
        if object.kind != gix::objs::Kind::Commit {
            return Err(Error::RefMissing {
                reference: name.to_owned(),
                why: format!("it names a {}, not a commit", object.kind),
            });
        }
        Ok(Some(Resolved { commit: Oid(object.id), reference: Some(full) }))
    }

    fn by_prefix(repo: &gix::Repository, spec: &RefSpec) -> Result<Option<Resolved>> {
        use std::collections::HashSet;
        let Ok(prefix) = gix::hash::Prefix::from_hex(spec.as_str()) else { return Ok(None) };
        let mut found = HashSet::new();
        if repo.objects.lookup_prefix(prefix, Some(&mut found)).is_err() {
            return Ok(None);
        }
        let mut commits = found
            .into_iter()
            .filter(|id| repo.find_header(*id).is_ok_and(|h| h.kind() == gix::objs::Kind::Commit));
        let Some(first) = commits.next() else { return Ok(None) };
        let others = commits.count();
        if others > 0 {
            return Err(Error::RefAmbiguous {
                reference: spec.to_string(),
                why: format!("{} commits begin with it; use more digits", others + 1),
            });
        }
        Ok(Some(Resolved { commit: Oid(first), reference: None }))
    }

    fn by_range(&self, repo: &gix::Repository, range: &Range) -> Result<Option<Resolved>> {
        let tags = self.names(repo, "refs/tags/")?;
        match range.highest(tags.iter().map(String::as_str)) {
            Some(tag) => self.by_name(repo, &format!("refs/tags/{tag}")),
            None => Ok(None),
        }
    }

    /// Names below a prefix, without it.
    fn names(&self, repo: &gix::Repository, prefix: &str) -> Result<Vec<String>> {
        let refs = repo.references().map_err(|e| self.damaged(e))?;
        let all = refs.prefixed(prefix).map_err(|e| self.damaged(e))?;
        // A reference that cannot be read is skipped here: asking for it by name says what is wrong with it.
        Ok(all
            .filter_map(std::result::Result::ok)
            .filter_map(|r| r.name().as_bstr().to_str().ok()?.strip_prefix(prefix).map(str::to_owned))
            .collect())
    }

    fn what_there_is(&self, repo: &gix::Repository) -> String {
        let mut branches = self.names(repo, "refs/heads/").unwrap_or_default();
        if branches.is_empty() {
            return "the repository has no branches".to_owned();
        }
        branches.sort();
        let more = branches.len().saturating_sub(5);
        branches.truncate(5);
        let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("there is no branch, tag or commit of that name; branches are {}{tail}", branches.join(", "))
    }

    /// All branches and tags with the commits or tag objects that they name, sorted by name.
    pub fn references(&self) -> Result<Vec<(String, Oid)>> {
        let repo = self.local();
        let refs = repo.references().map_err(|e| self.damaged(e))?;
        let all = refs.all().map_err(|e| self.damaged(e))?;
        let mut out: Vec<(String, Oid)> = all
            .filter_map(std::result::Result::ok)
            .filter_map(|r| Some((r.name().as_bstr().to_string(), Oid(r.try_id()?.detach()))))
            .collect();
        out.sort();
        Ok(out)
    }

    /// Decodes a commit.
    pub fn commit(&self, id: Oid) -> Result<Commit> {
        self.note(self.commit_in(&self.local(), id))
    }

    /// A commit's signature and what it is over.
    pub(crate) fn signed(&self, id: Oid) -> Result<Signed> {
        let time = self.commit(id)?.time;
        let repo = self.local();
        let damaged = |detail: String| self.damaged(format!("commit {id}: {detail}"));
        let object = repo.find_object(id.0).map_err(|e| damaged(e.to_string()))?;
        let found = gix::objs::CommitRefIter::signature(&object.data, id.0.kind());
        let found = found.map_err(|e| damaged(e.to_string()))?;
        let (signature, payload) = match found {
            Some((signature, over)) => {
                (Some(signature.to_str_lossy().into_owned()), Vec::from(over.to_bstring()))
            }
            None => (None, Vec::new()),
        };
        Ok(Signed { commit: id.to_hex(), signature, payload, time })
    }

    fn commit_in(&self, repo: &gix::Repository, id: Oid) -> Result<Commit> {
        let object = repo
            .try_find_object(id.0)
            .map_err(|e| self.damaged(format!("commit {id}: {e}")))?
            .ok_or_else(|| Error::CommitMissing { commit: id.to_hex() })?;
        if object.kind != gix::objs::Kind::Commit {
            return Err(Error::RefMissing {
                reference: id.to_hex(),
                why: format!("it is the id of a {}, not of a commit", object.kind),
            });
        }
        let commit = object.into_commit();
        let decoded = commit.decode().map_err(|e| self.damaged(format!("commit {id}: {e}")))?;
        let author = commit.author().map_err(|e| self.damaged(format!("commit {id}: {e}")))?;
        let committer = commit.committer().map_err(|e| self.damaged(format!("commit {id}: {e}")))?;
        // No database takes a NUL character, and git lets them pass where objects are not checked.
        let mut message = decoded.message.to_str_lossy().replace('\0', "\u{fffd}");
        if message.len() > 65_536 {
            message.truncate(message.floor_char_boundary(65_536));
        }
        Ok(Commit {
            id,
            tree: Oid(decoded.tree()),
            parents: decoded.parents().map(Oid).collect(),
            summary: message.lines().next().unwrap_or_default().to_owned(),
            author: author.name.trim().to_str_lossy().into_owned(),
            author_email: author.email.trim().to_str_lossy().into_owned(),
            committer_email: committer.email.trim().to_str_lossy().into_owned(),
            // A commit with a time that cannot be read is still a commit.
            time: commit.time().map_or(0, |t| t.seconds),
            message,
        })
    }

    /// Reads a file at a commit, nothing when there is none. Links are not followed.
    ///
    /// # Errors
    /// [`Error::Limit`] for a file over `limit` bytes.
    pub fn read(&self, commit: Oid, file: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let file = path::clean("path", file)?;
        self.with_objects(|repo, objects| {
            let root = self.commit_in(repo, commit)?.tree;
            match objects.entry(root, &file)? {
                Some((Mode::File | Mode::Executable, oid)) => objects.blob(oid, limit, &file).map(Some),
                Some((Mode::Link | Mode::Tree | Mode::Submodule, _)) | None => Ok(None),
            }
        })
    }

    /// What a folder holds at a commit, one level deep, sorted by name.
    pub fn list(&self, commit: Oid, folder: &str) -> Result<Vec<Listed>> {
        let folder = path::clean("folder", folder)?;
        self.with_objects(|repo, objects| {
            let tree = self.folder(repo, objects, commit, &folder)?;
            Ok(objects.tree(tree)?.entries.iter().map(|e| Listed::of(&folder, e)).collect())
        })
    }

    /// Everything below a folder at a commit, folders before what they hold. Links are not followed.
    ///
    /// # Errors
    /// [`Error::Limit`] when there are more than `limit` files and folders.
    pub fn walk(&self, commit: Oid, folder: &str, limit: u64) -> Result<Vec<Listed>> {
        let folder = path::clean("folder", folder)?;
        self.with_objects(|repo, objects| {
            let tree = self.folder(repo, objects, commit, &folder)?;
            let mut found: Vec<Listed> = Vec::new();
            let mut todo = vec![(folder.clone(), tree)];
            while let Some((at, tree)) = todo.pop() {
                let start = found.len();
                found.extend(objects.tree(tree)?.entries.iter().map(|e| Listed::of(&at, e)));
                if found.len() as u64 > limit {
                    let actual = found.len() as u64;
                    return Err(Error::Limit {
                        file: folder,
                        what: "its number of files and folders",
                        actual,
                        limit,
                    });
                }
                let folders = found[start..].iter().filter(|l| l.kind == ListedKind::Folder);
                todo.extend(folders.rev().map(|l| (l.path.clone(), l.oid)));
            }
            Ok(found)
        })
    }

    fn folder(
        &self,
        repo: &gix::Repository,
        objects: &mut Objects<'_>,
        commit: Oid,
        folder: &str,
    ) -> Result<Oid> {
        let root = self.commit_in(repo, commit)?.tree;
        match objects.entry(root, folder)? {
            Some((Mode::Tree, oid)) => Ok(oid),
            Some(_) => Err(Error::NotAFolder { folder: folder.to_owned(), commit: commit.to_hex() }),
            None => Err(Error::FolderMissing { folder: folder.to_owned(), commit: commit.to_hex() }),
        }
    }

    /// The closures of many services at one commit, in the order asked for; one service's error leaves the others alone.
    ///
    /// An unchanged closure costs a few look-ups in decoded trees: no blob is read, and nothing is done per file.
    ///
    /// # Errors
    /// The outer error is about the commit; the inner ones about each service.
    pub fn closures(&self, commit: Oid, sources: &[ServiceSource]) -> Result<Vec<Result<Arc<Closure>>>> {
        self.with_objects(|repo, objects| {
            let root = self.commit_in(repo, commit)?.tree;
            let caches = &self.inner.caches;
            Ok(sources
                .iter()
                .map(|source| {
                    let at =
                        closure::At { commit, root, number: self.inner.number, limits: &self.inner.limits };
                    let found = closure::closure(objects, &caches.closures, &caches.parses, at, source);
                    self.note(found)
                })
                .collect())
        })
    }

    /// The closure of one service at a commit.
    pub fn closure(&self, commit: Oid, source: &ServiceSource) -> Result<Arc<Closure>> {
        match self.closures(commit, std::slice::from_ref(source))?.pop() {
            Some(result) => result,
            None => Err(self.damaged("no closure came back")),
        }
    }

    /// Packs a closure into its artifact.
    ///
    /// # Errors
    /// [`Error::Limit`] names the first file (in path order) that passes a limit; it is found before any content is read.
    pub fn artifact(&self, closure: &Closure) -> Result<Artifact> {
        self.with_objects(|_, objects| Artifact::pack(objects, closure, &self.inner.limits))
    }

    /// The files of a closure, by their path in the repository.
    ///
    /// # Errors
    /// As [`Repository::artifact`].
    pub fn files(&self, closure: &Closure) -> Result<BTreeMap<String, SourceFile>> {
        let mut files = BTreeMap::new();
        self.add_files(closure, &mut files)?;
        Ok(files)
    }

    /// Adds the files of a closure to those of others. All of them together are held to the limits of one artifact.
    ///
    /// # Errors
    /// As [`Repository::artifact`].
    pub fn add_files(&self, closure: &Closure, files: &mut BTreeMap<String, SourceFile>) -> Result<()> {
        self.with_objects(|_, objects| artifact::add_files(objects, closure, &self.inner.limits, files))
    }

    /// The limits of its artifacts.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    fn with_objects<T>(
        &self,
        work: impl FnOnce(&gix::Repository, &mut Objects<'_>) -> Result<T>,
    ) -> Result<T> {
        let repo = self.local();
        let mut objects = Objects::new(&repo, &self.inner.name, self.inner.number, &self.inner.caches.trees);
        self.note(work(&repo, &mut objects))
    }
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repository").field("name", &self.inner.name).finish_non_exhaustive()
    }
}
