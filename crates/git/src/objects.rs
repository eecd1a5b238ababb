//! Reading trees and blobs of one repository by their ids: [`Oid`], [`Objects`].

use std::{collections::HashMap, fmt, str::FromStr, sync::Arc};

use crate::{
    cache::Bounded,
    error::{Error, Result},
};

/// Id of a git object: a commit, tree or blob. `Display` is 40 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Oid(pub(crate) gix::ObjectId);

impl Oid {
    /// The 40 hex digits.
    pub fn to_hex(self) -> String {
        self.0.to_hex().to_string()
    }

    /// The first seven hex digits, for people.
    pub fn short(self) -> String {
        self.0.to_hex_with_len(7).to_string()
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.to_hex())
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Oid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        gix::ObjectId::from_hex(text.as_bytes())
            .map(Self)
            .map_err(|_| Error::bad("object id", text, "it must be 40 hex digits"))
    }
}

/// What an entry of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    File,
    Executable,
    Link,
    Tree,
    /// A commit of another repository.
    Submodule,
}

/// A decoded tree, ordered by the bytes of its names.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) entries: Vec<TreeEntry>,
}

#[derive(Debug)]
pub(crate) struct TreeEntry {
    pub(crate) name: Box<[u8]>,
    pub(crate) mode: Mode,
    pub(crate) oid: Oid,
}

impl Tree {
    pub(crate) fn get(&self, name: &[u8]) -> Option<&TreeEntry> {
        let at = self.entries.binary_search_by(|e| (*e.name).cmp(name)).ok()?;
        self.entries.get(at)
    }
}

/// Decoded trees of all repositories, by repository number and id. Weighed by entries.
pub(crate) type TreeCache = Bounded<(u64, Oid), Arc<Tree>>;

/// Reads objects for the length of one call. Not shared between threads.
pub(crate) struct Objects<'a> {
    repo: &'a gix::Repository,
    name: &'a str,
    number: u64,
    cache: &'a TreeCache,
    /// In front of the shared cache, so that a walk takes its lock once per tree.
    local: HashMap<Oid, Arc<Tree>>,
}

impl<'a> Objects<'a> {
    pub(crate) fn new(repo: &'a gix::Repository, name: &'a str, number: u64, cache: &'a TreeCache) -> Self {
        Self { repo, name, number, cache, local: HashMap::new() }
    }

    fn corrupt(&self, what: &str, oid: Oid, detail: impl fmt::Display) -> Error {
        Error::Corrupt {
            what: format!("repository {}", self.name),
            detail: format!("{what} {oid}: {detail}"),
        }
    }

    /// A tree by its id.
    pub(crate) fn tree(&mut self, oid: Oid) -> Result<Arc<Tree>> {
        if let Some(tree) = self.local.get(&oid) {
            return Ok(Arc::clone(tree));
        }
        let key = (self.number, oid);
        let tree = if let Some(tree) = self.cache.get(&key) {
            tree
        } else {
            let tree = Arc::new(self.read_tree(oid)?);
            self.cache.put(key, Arc::clone(&tree), tree.entries.len());
            tree
        };
        self.local.insert(oid, Arc::clone(&tree));
        Ok(tree)
    }

    fn read_tree(&self, oid: Oid) -> Result<Tree> {
        use gix::objs::tree::EntryKind;
        let object = self.object("tree", oid)?;
        let tree = object.try_into_tree().map_err(|e| self.corrupt("tree", oid, e))?;
        let tree = tree.decode().map_err(|e| self.corrupt("tree", oid, e))?;
        let mut entries: Vec<TreeEntry> = tree
            .entries
            .iter()
            .map(|entry| TreeEntry {
                name: entry.filename.to_vec().into_boxed_slice(),
                mode: match entry.mode.kind() {
                    EntryKind::Tree => Mode::Tree,
                    EntryKind::Blob => Mode::File,
                    EntryKind::BlobExecutable => Mode::Executable,
                    EntryKind::Link => Mode::Link,
                    EntryKind::Commit => Mode::Submodule,
                },
                oid: Oid(entry.oid.to_owned()),
            })
            .collect();
        // Git orders folders as if their names ended in '/'; here plain order makes a binary search right.
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Tree { entries })
    }

    fn object(&self, what: &str, oid: Oid) -> Result<gix::Object<'a>> {
        self.repo
            .try_find_object(oid.0)
            .map_err(|e| self.corrupt(what, oid, e))?
            .ok_or_else(|| self.corrupt(what, oid, "it is missing"))
    }

    /// Size of a blob in bytes, without reading its content.
    pub(crate) fn blob_size(&self, oid: Oid) -> Result<u64> {
        self.repo
            .try_find_header(oid.0)
            .map_err(|e| self.corrupt("blob", oid, e))?
            .map(|header| header.size())
            .ok_or_else(|| self.corrupt("blob", oid, "it is missing"))
    }

    /// Content of a blob that is at most `limit` bytes; `file` is its path, for the error.
    pub(crate) fn blob(&self, oid: Oid, limit: u64, file: &str) -> Result<Vec<u8>> {
        let size = self.blob_size(oid)?;
        if size > limit {
            return Err(Error::Limit {
                file: file.to_owned(),
                what: "its size in bytes",
                actual: size,
                limit,
            });
        }
        let mut object = self.object("blob", oid)?;
        if object.kind != gix::objs::Kind::Blob {
            return Err(self.corrupt("blob", oid, "it is something else"));
        }
        Ok(std::mem::take(&mut object.data))
    }

    /// What is at a path, seen from a root tree, without following links. Nothing where a part of the path is no
    /// folder.
    pub(crate) fn entry(&mut self, root: Oid, path: &str) -> Result<Option<(Mode, Oid)>> {
        let mut at = (Mode::Tree, root);
        for part in path.split('/').filter(|p| !p.is_empty()) {
            if at.0 != Mode::Tree {
                return Ok(None);
            }
            match self.tree(at.1)?.get(part.as_bytes()) {
                Some(entry) => at = (entry.mode, entry.oid),
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }
}
