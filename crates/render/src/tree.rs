//! A read-only tree of files, built from an artifact's tar without touching a disk.

use std::{
    collections::BTreeMap,
    io::Cursor,
    ops::{Bound, Range},
    sync::Arc,
};

use plural_yaml::governor;

/// More links than any honest repository has in one service.
const MAX_LINKS: usize = 4096;
/// Longest chain of links that is followed.
const MAX_LINK_ROUNDS: usize = 64;

/// How large a tree may be.
#[derive(Debug, Clone, Copy)]
pub struct TreeLimits {
    /// Files, folders and links.
    pub entries: usize,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Bytes of one path.
    pub path_bytes: usize,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self { entries: 50_000, bytes: 256 << 20, path_bytes: 4096 }
    }
}

/// Why a tar is not a tree. A service shows the message, so a cause is a part of it and no source.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The bytes are not a tar.
    #[error("the artifact is not a readable tar: {0}")]
    Tar(std::io::Error),
    /// A path leaves the tree, is absolute or is not text.
    #[error("the artifact holds the path {path:?}, which {reason}")]
    Path {
        /// As in the tar, made printable.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Larger than the limits allow.
    #[error("the artifact holds more than {limit} {unit}")]
    TooLarge {
        /// The limit.
        limit: u64,
        /// "entries", "bytes".
        unit: &'static str,
    },
}

impl From<std::io::Error> for TreeError {
    fn from(cause: std::io::Error) -> Self {
        Self::Tar(cause)
    }
}

/// Files by path (`a/b.yaml`, no leading slash). Cheap to clone.
///
/// # Guarantees
/// Symbolic links are resolved when the tree is built and never leave it; reading follows none.
#[derive(Debug, Clone)]
pub struct Tree {
    bytes: Arc<[u8]>,
    files: Arc<BTreeMap<String, Range<usize>>>,
}

impl Tree {
    /// The tree inside an uncompressed tar.
    ///
    /// # Errors
    /// As [`TreeError`] says; nothing of a refused tar is kept.
    pub fn from_tar(tar: impl Into<Arc<[u8]>>, limits: &TreeLimits) -> Result<Self, TreeError> {
        let bytes: Arc<[u8]> = tar.into();
        let mut files = BTreeMap::new();
        let mut links: Vec<(String, String)> = Vec::new();
        let mut entries = 0usize;
        let mut total = 0u64;
        let mut archive = tar::Archive::new(Cursor::new(&bytes[..]));
        for entry in archive.entries()? {
            let entry = entry?;
            if !governor::may_go_on(0) {
                return Err(TreeError::Tar(std::io::Error::other(governor::STOPPED)));
            }
            entries += 1;
            if entries > limits.entries {
                return Err(TreeError::TooLarge { limit: limits.entries as u64, unit: "entries" });
            }
            let raw = entry.path_bytes();
            let path = normal_path(&raw, "", limits.path_bytes)?;
            match entry.header().entry_type() {
                tar::EntryType::Regular | tar::EntryType::Continuous => {
                    total = total.saturating_add(entry.size());
                    if total > limits.bytes {
                        return Err(TreeError::TooLarge { limit: limits.bytes, unit: "bytes" });
                    }
                    let start = entry.raw_file_position() as usize;
                    let end = start.saturating_add(entry.size() as usize);
                    if end > bytes.len() {
                        return Err(TreeError::Tar(std::io::ErrorKind::UnexpectedEof.into()));
                    }
                    files.insert(path, start..end);
                }
                tar::EntryType::Symlink => {
                    let target = entry.link_name_bytes().unwrap_or_default();
                    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                    links.push((path.clone(), normal_path(&target, folder, limits.path_bytes)?));
                }
                // Folders exist by their files; devices, pipes and hard links have no place here.
                _ => {}
            }
        }
        resolve_links(&mut files, &links, limits)?;
        Ok(Self { bytes, files: Arc::new(files) })
    }

    /// A tree of the given files; for callers that have them in memory already.
    ///
    /// # Errors
    /// When a path leaves the tree.
    pub fn from_files<P: AsRef<str>, B: AsRef<[u8]>>(
        files: impl IntoIterator<Item = (P, B)>,
    ) -> Result<Self, TreeError> {
        let mut bytes = Vec::new();
        let mut ranges = BTreeMap::new();
        for (path, content) in files {
            let path = normal_path(path.as_ref().as_bytes(), "", usize::MAX)?;
            let start = bytes.len();
            bytes.extend_from_slice(content.as_ref());
            ranges.insert(path, start..bytes.len());
        }
        Ok(Self { bytes: bytes.into(), files: Arc::new(ranges) })
    }

    /// The same files, all below a folder that the tar does not name: `apps/web`.
    #[must_use]
    pub fn below(self, folder: &str) -> Self {
        let folder = folder.trim_matches('/');
        if folder.is_empty() {
            return self;
        }
        let Self { bytes, files } = self;
        let files = files.iter().map(|(path, range)| (join(folder, path), range.clone())).collect();
        Self { bytes, files: Arc::new(files) }
    }

    /// The same tree with other content of some files.
    #[must_use]
    pub fn with_files(self, contents: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let Self { bytes, files } = self;
        let (mut bytes, mut files) = (bytes.to_vec(), Arc::unwrap_or_clone(files));
        for (path, content) in contents {
            let start = bytes.len();
            bytes.extend_from_slice(&content);
            files.insert(path, start..bytes.len());
        }
        Self { bytes: bytes.into(), files: Arc::new(files) }
    }

    /// The bytes of the file at `path`.
    pub fn read(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(|range| &self.bytes[range.clone()])
    }

    /// All files below `folder` (empty: all), in path order, with their whole paths.
    pub fn walk(&self, folder: &str) -> impl Iterator<Item = (&str, &[u8])> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.files
            .range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded))
            .take_while({
                let prefix = prefix.clone();
                move |(path, _)| path.starts_with(&prefix)
            })
            .map(|(path, range)| (path.as_str(), &self.bytes[range.clone()]))
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Whether any file lies below `folder`. The root always exists.
    pub fn has_folder(&self, folder: &str) -> bool {
        folder.is_empty() || self.walk(folder).next().is_some()
    }

    /// The tree with this file only.
    #[must_use]
    pub(crate) fn only(&self, path: &str) -> Self {
        let files = self.files.get_key_value(path).map(|(path, range)| (path.clone(), range.clone()));
        Self { bytes: Arc::clone(&self.bytes), files: Arc::new(files.into_iter().collect()) }
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

/// `folder` and `name` as one path.
pub(crate) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The folder of a path; empty for what lies at the root.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// `path` as seen from `base`; nothing when it leaves the tree or is none.
pub(crate) fn resolve(base: &str, path: &str) -> Option<String> {
    normal_path(path.as_bytes(), base, 4096).ok()
}

/// `path`, relative to `base`, without `.`, `..` and empty parts.
fn normal_path(path: &[u8], base: &str, limit: usize) -> Result<String, TreeError> {
    let bad =
        |reason| TreeError::Path { path: String::from_utf8_lossy(path).chars().take(200).collect(), reason };
    if path.len() > limit {
        return Err(bad("is too long"));
    }
    let text = std::str::from_utf8(path).map_err(|_| bad("is not UTF-8"))?;
    if text.starts_with('/') {
        return Err(bad("is absolute"));
    }
    if text.contains('\0') || text.contains('\\') {
        return Err(bad("holds a NUL or a backslash"));
    }
    let mut parts: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return Err(bad("leaves the artifact"));
                }
            }
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// Gives every link the files it leads to. A link to nothing, or into itself, is left out: reading
/// it says that the file does not exist, as it would on a disk.
fn resolve_links(
    files: &mut BTreeMap<String, Range<usize>>,
    links: &[(String, String)],
    limits: &TreeLimits,
) -> Result<(), TreeError> {
    if links.len() > MAX_LINKS {
        return Err(TreeError::TooLarge { limit: MAX_LINKS as u64, unit: "symbolic links" });
    }
    let mut open: BTreeMap<&str, &str> =
        links.iter().map(|(path, target)| (path.as_str(), target.as_str())).collect();
    let mut patient = true;
    // Each round resolves the links whose targets are known; a chain of n links takes n rounds.
    for _ in 0..MAX_LINK_ROUNDS {
        let mut found: Vec<(String, Range<usize>)> = Vec::new();
        let mut done = Vec::new();
        for (&path, &target) in &open {
            if let Some(range) = files.get(target) {
                found.push((path.to_owned(), range.clone()));
                done.push(path);
                continue;
            }
            let prefix = if target.is_empty() { String::new() } else { format!("{target}/") };
            if path.starts_with(&prefix) {
                done.push(path); // a folder that would hold itself
                continue;
            }
            let waits = open.range(prefix.as_str()..).next().is_some_and(|(p, _)| p.starts_with(&prefix));
            if patient && waits {
                continue; // the folder is complete only once the links in it are
            }
            let below: Vec<_> = files
                .range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded))
                .take_while(|(file, _)| file.starts_with(&prefix))
                .map(|(file, range)| (join(path, &file[prefix.len()..]), range.clone()))
                .take(limits.entries + 1)
                .collect();
            if !below.is_empty() {
                found.extend(below);
                done.push(path);
            }
            if files.len() + found.len() > limits.entries {
                return Err(TreeError::TooLarge { limit: limits.entries as u64, unit: "entries" });
            }
        }
        if done.is_empty() && !patient {
            break;
        }
        patient = !done.is_empty();
        for path in done {
            open.remove(path);
        }
        files.extend(found);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tar(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        build(&mut builder);
        builder.into_inner().unwrap()
    }

    fn file(builder: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8]) {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        // `set_path` refuses what an attacker would write; the bytes are set by hand.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }

    fn link(builder: &mut tar::Builder<Vec<u8>>, path: &str, target: &str) {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, &[][..]).unwrap();
    }

    #[test]
    fn reads_files_and_links_inside() {
        let bytes = tar(|b| {
            file(b, "base/a.yaml", b"a");
            file(b, "base/sub/b.yaml", b"b");
            link(b, "app/a.yaml", "../base/a.yaml");
            link(b, "app/sub", "../base/sub");
            link(b, "chain", "app/a.yaml");
            link(b, "nowhere", "missing");
            link(b, "self", "self");
        });
        let tree = Tree::from_tar(bytes, &TreeLimits::default()).unwrap();
        assert_eq!(tree.read("app/a.yaml"), Some(&b"a"[..]));
        assert_eq!(tree.read("app/sub/b.yaml"), Some(&b"b"[..]));
        assert_eq!(tree.read("chain"), Some(&b"a"[..]));
        assert_eq!(tree.read("nowhere"), None);
        let below: Vec<_> = tree.walk("app").map(|(path, _)| path).collect();
        assert_eq!(below, ["app/a.yaml", "app/sub/b.yaml"]);
        assert!(tree.has_folder("base/sub") && !tree.has_folder("bas"));
    }

    #[test]
    fn refuses_what_leaves_the_tree() {
        for (path, reason) in [("../x", "leaves"), ("a/../../x", "leaves"), ("/etc/passwd", "absolute")] {
            let bytes = tar(|b| file(b, path, b"x"));
            let error = Tree::from_tar(bytes, &TreeLimits::default()).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        let bytes = tar(|b| link(b, "a/evil", "../../etc/passwd"));
        let error = Tree::from_tar(bytes, &TreeLimits::default()).unwrap_err().to_string();
        assert!(error.contains("leaves the artifact"), "{error}");
    }

    #[test]
    fn limits_hold() {
        let bytes = tar(|b| (0..5).for_each(|n| file(b, &format!("f{n}"), b"12345")));
        let few = TreeLimits { entries: 4, ..TreeLimits::default() };
        assert!(matches!(
            Tree::from_tar(bytes.clone(), &few),
            Err(TreeError::TooLarge { unit: "entries", .. })
        ));
        let small = TreeLimits { bytes: 24, ..TreeLimits::default() };
        assert!(matches!(Tree::from_tar(bytes, &small), Err(TreeError::TooLarge { unit: "bytes", .. })));
        assert!(Tree::from_tar(&b"not a tar at all, far too short"[..], &TreeLimits::default()).is_err());
    }

    #[test]
    fn links_cannot_multiply_without_end() {
        // Each link doubles what lies below the one before it.
        let bytes = tar(|b| {
            file(b, "d0/f", b"x");
            for n in 1..40 {
                link(b, &format!("d{n}/l"), &format!("../d{}", n - 1));
                link(b, &format!("d{n}/r"), &format!("../d{}", n - 1));
            }
        });
        let error = Tree::from_tar(bytes, &TreeLimits { entries: 1000, ..TreeLimits::default() });
        assert!(matches!(error, Err(TreeError::TooLarge { unit: "entries", .. })));
    }
}
