//! What makes the source of a service: [`ServiceSource`], [`Closure`].

mod build;
mod modules;
mod references;

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use sha2::{Digest as _, Sha256};

use crate::{
    artifact::Limits,
    cache::Bounded,
    error::{Error, Result},
    objects::{Mode, Objects, Oid},
    path,
};

use references::{Parsed, Reference};

/// SHA-256 of something. `Display` is 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub(crate) [u8; 32]);

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes)
            .map_err(|_| Error::bad("digest", text, "it must be 64 hex digits"))?;
        Ok(Self(bytes))
    }
}

/// Where in a repository a service's source is: a folder, and files that it needs besides.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServiceSource {
    folder: String,
    files: Vec<String>,
}

impl ServiceSource {
    /// A folder of the repository, with all that is in it. Empty, `.` or `/` is the whole repository.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a path that leaves the repository, or has a backslash or control character.
    pub fn new(folder: &str) -> Result<Self> {
        Ok(Self { folder: path::clean("folder", folder)?, files: Vec::new() })
    }

    /// Adds values files, which are written relative to the service's folder (`../common/values.yaml` is allowed as long as
    /// it stays in the repository) or with a leading slash relative to the repository.
    pub fn with_values_files<S: AsRef<str>>(self, files: impl IntoIterator<Item = S>) -> Result<Self> {
        let folder = self.folder.clone();
        self.with("values file", &folder, files)
    }

    /// Adds files or folders, which are written relative to the repository.
    pub fn with_extra_files<S: AsRef<str>>(self, files: impl IntoIterator<Item = S>) -> Result<Self> {
        self.with("extra file", "", files)
    }

    fn with<S: AsRef<str>>(
        mut self,
        what: &'static str,
        base: &str,
        files: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        for file in files {
            let file = file.as_ref();
            let clean = if file.starts_with('/') {
                path::clean(what, file)?
            } else {
                path::clean(what, &format!("{base}/{file}"))
                    .map_err(|_| Error::bad(what, file, "it leads out of the repository or is not a path"))?
            };
            if !self.files.contains(&clean) {
                self.files.push(clean);
            }
        }
        self.files.sort();
        Ok(self)
    }

    /// The folder, as a path in the repository.
    pub fn folder(&self) -> &str {
        &self.folder
    }
}

/// Everything at one commit that makes a service's source.
///
/// # Guarantees
/// - Two closures have the same `digest` if and only if they have the same root, folder and entries (paths, object ids and
///   modes), so an equal digest means an equal artifact.
/// - Every entry is a plain file whose path stays inside the repository. Symbolic links have been replaced by what they
///   point to, under the link's own path; a `..` in a linked kustomization is therefore seen from the link's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    /// The source digest.
    pub digest: Digest,
    /// The folder of the repository that holds everything; the artifact is laid out relative to it.
    pub root: String,
    /// The service's folder relative to `root`; empty when they are the same.
    pub folder: String,
    /// The files, sorted by path.
    pub entries: Vec<Entry>,
    /// What was referred to but is not part of the closure.
    pub notes: Vec<Note>,
}

/// One file of a [`Closure`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path in the repository.
    pub path: String,
    /// Id of its blob.
    pub oid: Oid,
    /// Whether it may be executed.
    pub executable: bool,
}

/// Something that a file refers to and that is not in the closure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The file that refers, as a path in the repository.
    pub file: String,
    /// What it refers to, as written there.
    pub target: String,
    /// Why it is not there.
    pub kind: NoteKind,
}

/// Why something is not in a closure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKind {
    /// It is fetched from elsewhere; sources are never fetched while rendering.
    Remote,
    /// It does not exist at this commit. Rendering will say so if it is needed; once it exists, the closure changes.
    Missing,
    /// It is a submodule, whose content is in another repository.
    Submodule,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, target, kind } = self;
        match kind {
            NoteKind::Remote => write!(f, "{file}: {target} is remote and not included"),
            NoteKind::Missing => write!(f, "{file}: {target} does not exist in the repository"),
            NoteKind::Submodule => write!(f, "{file}: is a submodule and not included"),
        }
    }
}

/// Parsed references of files, by repository number, blob and what it was read as. Weighed by references.
pub(crate) type ParseCache = Bounded<(u64, Oid, Parsed), Arc<Vec<Reference>>>;

/// Results by repository number, source and id of the folder's tree. Weighed by entries and look-ups.
pub(crate) type ClosureCache = Bounded<(u64, ServiceSource, Oid), Arc<Outcome>>;

/// A result, with everything outside of the service's folder that led to it. As long as all of it is still so (and the
/// folder's tree is the same), the result is too.
pub(crate) struct Outcome {
    seen: BTreeMap<String, Seen>,
    result: Result<Arc<Closure>>,
}

/// What was seen at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    /// A folder that was only passed through: its content may change.
    Folder,
    /// Exactly this; for a folder, with all that it holds.
    Exactly(Mode, Oid),
}

/// Where a closure is asked for.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) commit: Oid,
    pub(crate) root: Oid,
    /// The repository's number in shared caches.
    pub(crate) number: u64,
    pub(crate) limits: &'a Limits,
}

/// The closure of a source; from the cache when nothing it depends on has moved.
pub(crate) fn closure(
    objects: &mut Objects<'_>,
    closures: &ClosureCache,
    parses: &ParseCache,
    at: At<'_>,
    source: &ServiceSource,
) -> Result<Arc<Closure>> {
    // What the folder's own path names; a link on the way is followed, and recorded, by the build.
    let folder = objects.entry(at.root, &source.folder)?;
    let key = folder.map(|(_, oid)| (at.number, source.clone(), oid));
    if let Some(key) = &key
        && let Some(known) = closures.get(key)
    {
        if known.still_holds(objects, at.root)? {
            return known.result.clone();
        }
        closures.remove(key);
    }
    let built = build::build(objects, parses, at, source);
    if let Some(key) = key {
        let lasting = match &built.result {
            Ok(_) => true,
            Err(e) => !e.is_transient() && !names_commit(e),
        };
        if lasting {
            let weight = built.weight();
            let built = Arc::new(built);
            closures.put(key, Arc::clone(&built), weight);
            return built.result.clone();
        }
    }
    built.result
}

/// Errors that show the commit are made anew for each commit.
fn names_commit(error: &Error) -> bool {
    matches!(error, Error::FolderMissing { .. } | Error::NotAFolder { .. } | Error::FileMissing { .. })
}

impl Outcome {
    fn still_holds(&self, objects: &mut Objects<'_>, root: Oid) -> Result<bool> {
        for (path, seen) in &self.seen {
            let same = match (seen, objects.entry(root, path)?) {
                (Seen::Nothing, found) => found.is_none(),
                (Seen::Folder, found) => matches!(found, Some((Mode::Tree, _))),
                (Seen::Exactly(mode, oid), found) => found == Some((*mode, *oid)),
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn weight(&self) -> usize {
        let entries = self.result.as_ref().map_or(0, |c| c.entries.len() + c.notes.len());
        1 + entries + self.seen.len()
    }
}

impl Closure {
    fn new(folder: &str, files: BTreeMap<String, (Oid, bool)>, notes: Vec<Note>) -> Self {
        let mut root = folder;
        for path in files.keys() {
            root = path::common(root, path::parent(path));
        }
        let root = root.to_owned();
        let folder = folder[root.len()..].trim_start_matches('/').to_owned();
        let entries: Vec<Entry> =
            files.into_iter().map(|(path, (oid, executable))| Entry { path, oid, executable }).collect();
        let digest = digest(&root, &folder, &entries);
        Self { digest, root, folder, entries, notes }
    }
}

/// The source digest: a version line, root and folder, then each file's mode, object id and path, all ended by NUL, which
/// no path can hold.
fn digest(root: &str, folder: &str, entries: &[Entry]) -> Digest {
    let mut hash = Sha256::new();
    let mut part = |text: &[u8]| {
        hash.update(text);
        hash.update([0]);
    };
    part(b"source 1");
    part(root.as_bytes());
    part(folder.as_bytes());
    for Entry { path, oid, executable } in entries {
        part(if *executable { b"755" } else { b"644" });
        part(oid.to_hex().as_bytes());
        part(path.as_bytes());
    }
    Digest(hash.finalize().into())
}
