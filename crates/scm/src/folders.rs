//! A part of a commit's tree, folder by folder: those that are looked into are listed, and no other. A folder of which everything is wanted
//! is listed with what lies below it in one answer; where that is cut, its folders are asked for themselves.
//!
//! What a host told once is not asked again: listings and files are held by the ids of their objects ([`Objects`]), so another commit is
//! asked only about what it changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream};

use crate::{
    common,
    error::{Cause, Error, Result},
    names::{CommitId, FilePath, Repository},
    objects::Objects,
    port::{Change, EntryKind, List, Look, Looks, TreeEntry},
};

pub(crate) use crate::objects::Entry;

/// Folders that are listed at a time.
pub(crate) const AT_ONCE: usize = 8;
/// Folders that are listed for one question.
const LISTED: usize = 1000;
/// Files and folders that are told of one commit.
const ENTRIES: usize = 200_000;

/// A folder of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    /// From the root, which is empty.
    pub(crate) path: String,
    /// Its tree's id, where the host told it.
    id: Option<String>,
}

impl Folder {
    fn root() -> Self {
        Self { path: String::new(), id: None }
    }

    /// What a host that knows folders by their trees is asked for: the root's tree by its commit.
    pub(crate) fn tree<'f>(&'f self, commit: &'f CommitId) -> Result<&'f str> {
        match self.id.as_deref() {
            Some(id) => Ok(id),
            None if self.path.is_empty() => Ok(commit.as_str()),
            None => {
                let what = format!("the host tells no tree of the folder {}", self.path);
                Err(Error::new(Cause::Malformed, what))
            }
        }
    }

    /// A path from the root, below this folder.
    pub(crate) fn below<'p>(&self, path: &'p str) -> Option<&'p str> {
        let path = path.trim_matches('/');
        let below = if self.path.is_empty() {
            path
        } else {
            path.strip_prefix(self.path.as_str())?.strip_prefix('/')?
        };
        (!below.is_empty()).then_some(below)
    }

    fn joined(&self, below: &str) -> String {
        if self.path.is_empty() { below.to_owned() } else { format!("{}/{below}", self.path) }
    }

    /// By its tree's id, which stays where its content does.
    fn key(&self, repository: &Repository, commit: &CommitId, deep: bool) -> String {
        let kind = if deep { "deep" } else { "flat" };
        match &self.id {
            Some(id) => format!("{kind} {repository} {id}"),
            None => format!("{kind} {repository} {commit} {}", self.path),
        }
    }
}

/// The id of an object as a host tells it; it becomes a part of an address.
pub(crate) fn object_id(text: &str) -> Option<String> {
    common::commit_id(text).ok().map(|id| id.as_str().to_owned())
}

/// An entry of this mode, as git writes it; nothing for what is neither a file nor a folder.
pub(crate) fn entry_of(path: &str, mode: &str, id: Option<&str>) -> Option<Entry> {
    let kind = EntryKind::of_mode(mode);
    let is_folder = mode.trim_start_matches('0') == "40000";
    (kind.is_some() || is_folder).then(|| Entry { path: path.to_owned(), kind, id: id.and_then(object_id) })
}

/// A host that lists folders.
#[async_trait]
pub(crate) trait Folders: Send + Sync {
    /// What it told.
    fn objects(&self) -> &Objects;
    /// What lies in a folder of a commit, and below the folders in it where it is `deep`; a cut list may lack anything.
    async fn list_folder(
        &self,
        repository: &Repository,
        commit: &CommitId,
        folder: &Folder,
        deep: bool,
    ) -> Result<List<Entry>>;
}

/// The paths of a commit in folders that are looked into, in their order.
pub(crate) async fn within(
    host: &dyn Folders,
    repository: &Repository,
    commit: &CommitId,
    look: Looks<'_>,
) -> Result<List<TreeEntry>> {
    let List { items, cut } = walk(host, repository, commit, look).await?;
    let file = |entry: Entry| Some(TreeEntry { kind: entry.kind?, path: entry.path });
    let mut items: Vec<TreeEntry> = items.into_iter().filter_map(file).collect();
    items.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(List { items, cut })
}

/// What stands at the paths of these changes in a commit.
pub(crate) async fn at_changes(
    host: &dyn Folders,
    repository: &Repository,
    commit: &CommitId,
    changes: &[Change],
) -> Result<BTreeMap<String, Entry>> {
    let (mut found, mut above) = (BTreeMap::new(), BTreeSet::new());
    for change in changes {
        let path = change.path().as_str();
        match held(host.objects(), repository, commit, path) {
            Held::Is(entry) => {
                found.insert(path.to_owned(), entry);
            }
            Held::Nothing => {}
            Held::Unknown => {
                above.insert("");
                above.extend(path.match_indices('/').map(|(at, _)| &path[..at]));
            }
        }
    }
    let look = |folder: &str| if above.contains(folder) { Look::Folder } else { Look::Not };
    let List { items, cut } = walk(host, repository, commit, &look).await?;
    if cut {
        let what = format!("{repository} has a folder with more files than the host lists");
        return Err(Error::new(Cause::TooLarge, what));
    }
    for entry in items {
        found.insert(entry.path.clone(), entry);
    }
    Ok(found)
}

/// What a change finds at its path: a file or link, or nothing.
pub(crate) fn file_at<'f>(found: &'f BTreeMap<String, Entry>, change: &Change) -> Result<Option<&'f Entry>> {
    let path = change.path().as_str();
    match (found.get(path), change) {
        (Some(entry), _) if entry.kind.is_none() => {
            Err(Error::new(Cause::Conflict, format!("{path} is a folder")))
        }
        (None, Change::Delete { .. }) => Err(common::is_missing(change)),
        (found, Change::Delete { .. } | Change::Write { .. }) => Ok(found),
    }
}

/// A file of a commit, as it was read before or as `fetch` gets it.
pub(crate) async fn read(
    host: &dyn Folders,
    repository: &Repository,
    commit: &CommitId,
    path: &FilePath,
    fetch: impl Future<Output = Result<Bytes>> + Send,
) -> Result<Bytes> {
    let objects = host.objects();
    let id = match held(objects, repository, commit, path.as_str()) {
        Held::Is(entry) => file_id(&entry),
        Held::Nothing | Held::Unknown => None,
    };
    let key = match id {
        Some(id) => format!("file {repository} {id}"),
        None => format!("file {repository} {commit} {path}"),
    };
    if let Some(file) = objects.file(&key) {
        return Ok(file);
    }
    let file = fetch.await?;
    objects.keep_file(key, &file);
    Ok(file)
}

/// What listings that are held tell of a path.
enum Held {
    Unknown,
    Nothing,
    Is(Entry),
}

fn held(objects: &Objects, repository: &Repository, commit: &CommitId, path: &str) -> Held {
    let is = |entry: Option<&Entry>| {
        entry.map_or(Held::Nothing, |entry| Held::Is(Entry { path: path.to_owned(), ..entry.clone() }))
    };
    let whole = |folder: &Folder, deep| {
        objects.folder(&folder.key(repository, commit, deep)).filter(|list| !list.cut)
    };
    let (mut folder, mut rest) = (Folder::root(), path);
    loop {
        if let Some(deep) = whole(&folder, true) {
            return is(deep.items.iter().find(|entry| entry.path == rest));
        }
        let Some(flat) = whole(&folder, false) else { return Held::Unknown };
        let Some((name, below)) = rest.split_once('/') else {
            return is(flat.items.iter().find(|entry| entry.path == rest));
        };
        match flat.items.iter().find(|entry| entry.path == name) {
            Some(next) if next.kind.is_none() => {
                folder = Folder { path: folder.joined(name), id: next.id.clone() };
                rest = below;
            }
            // What is no folder has nothing below it.
            Some(_) | None => return Held::Nothing,
        }
    }
}

/// The id of a file's content. Links have none: hosts differ in what they read there.
fn file_id(entry: &Entry) -> Option<String> {
    match entry.kind? {
        EntryKind::File | EntryKind::Executable => entry.id.clone(),
        EntryKind::Link | EntryKind::Submodule => None,
    }
}

/// A folder that is asked for.
struct Asked {
    folder: Folder,
    deep: bool,
}

async fn walk(
    host: &dyn Folders,
    repository: &Repository,
    commit: &CommitId,
    look: Looks<'_>,
) -> Result<List<Entry>> {
    let (mut items, mut listed) = (Vec::new(), 0);
    let mut level: Vec<Asked> = asked(Folder::root(), look("")).into_iter().collect();
    while !level.is_empty() {
        listed += level.len();
        if listed > LISTED {
            return Ok(List { items, cut: true });
        }
        let mut lists = Vec::with_capacity(level.len());
        for Asked { folder, deep } in std::mem::take(&mut level) {
            lists.push(async move {
                let list = list(host, repository, commit, &folder, deep).await;
                (folder, deep, list)
            });
        }
        let lists: Vec<_> = stream::iter(lists).buffered(AT_ONCE).collect().await;
        for (folder, deep, list) in lists {
            let list = list?;
            if list.cut && deep {
                level.push(Asked { folder, deep: false });
                continue;
            }
            if list.cut || items.len() + list.items.len() > ENTRIES {
                return Ok(List { items, cut: true });
            }
            for entry in &list.items {
                let path = folder.joined(&entry.path);
                if entry.kind.is_none() && !deep {
                    let inner = Folder { path: path.clone(), id: entry.id.clone() };
                    level.extend(asked(inner, look(&path)));
                }
                items.push(Entry { path, ..entry.clone() });
            }
        }
    }
    Ok(List { items, cut: false })
}

fn asked(folder: Folder, look: Look) -> Option<Asked> {
    match look {
        Look::Not => None,
        Look::Folder => Some(Asked { folder, deep: false }),
        Look::All => Some(Asked { folder, deep: true }),
    }
}

async fn list(
    host: &dyn Folders,
    repository: &Repository,
    commit: &CommitId,
    folder: &Folder,
    deep: bool,
) -> Result<Arc<List<Entry>>> {
    let objects = host.objects();
    let key = folder.key(repository, commit, deep);
    if let Some(list) = objects.folder(&key) {
        return Ok(list);
    }
    let list = Arc::new(host.list_folder(repository, commit, folder, deep).await?);
    objects.keep_folder(key, &list);
    Ok(list)
}
