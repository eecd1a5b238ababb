//! Roots of Kustomizations and what may be read from them.

use std::rc::Rc;

use super::error::{Error, Res, Within};
use super::files::{Entry, Files};
use super::gitspec;

/// Longest chain of links.
const LINKS: usize = 255;

/// Resolves paths of the tree.
#[derive(Clone, Copy)]
pub(crate) struct Disk<'a> {
    pub(crate) files: &'a dyn Files,
    /// What messages put before the tree's own paths.
    pub(crate) shown: &'a str,
}

/// A path without `.`, with `..` worked out; may begin with `..`.
pub(crate) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|p| *p != "..") => {
                parts.pop();
            }
            p => parts.push(p),
        }
    }
    parts.join("/")
}

fn join(folder: &str, path: &str) -> String {
    clean(&format!("{folder}/{path}"))
}

fn last_part(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

enum Place {
    Folder(String),
    File(String),
}

impl<'a> Disk<'a> {
    pub(crate) fn show(&self, path: &str) -> String {
        match (self.shown, path) {
            ("", "") => "/".to_owned(),
            (s, "") => s.to_owned(),
            // Above the tree: worked out against the shown root, if that is a path.
            (s, p) if p.starts_with("..") && s.starts_with('/') => format!("/{}", clean(&format!("{s}/{p}"))),
            (s, p) => format!("{s}/{p}"),
        }
    }

    fn lstat(&self, path: &str, why: &str) -> Error {
        Error::new(format!("lstat {}: {why}", self.show(path)))
    }

    /// Follows links, like `filepath.EvalSymlinks`.
    fn follow(&self, path: &str) -> Res<Place> {
        let mut pending: Vec<String> =
            path.split('/').filter(|p| !p.is_empty()).rev().map(str::to_owned).collect();
        let mut at = String::new();
        let mut file = false;
        let mut links = 0;
        while let Some(part) = pending.pop() {
            if file {
                return Err(self.lstat(&at, "not a directory"));
            }
            if part == ".." {
                if at.is_empty() {
                    return Err(self.lstat(path, "no such file or directory"));
                }
                at = last_part(&at).0.to_owned();
                continue;
            }
            let next = if at.is_empty() { part } else { format!("{at}/{part}") };
            match self.files.entry(&next) {
                None => return Err(self.lstat(&next, "no such file or directory")),
                Some(Entry::File(_)) => {
                    at = next;
                    file = true;
                }
                Some(Entry::Folder) => at = next,
                Some(Entry::Link(target)) => {
                    links += 1;
                    if links > LINKS {
                        return Err(Error::new("EvalSymlinks: too many links"));
                    }
                    if target.starts_with('/') {
                        return Err(Error::new(format!("lstat {target}: no such file or directory")));
                    }
                    pending.extend(
                        target.split('/').filter(|p| !p.is_empty() && *p != ".").rev().map(str::to_owned),
                    );
                }
            }
        }
        Ok(if file { Place::File(at) } else { Place::Folder(at) })
    }

    fn place(&self, path: &str) -> Res<Place> {
        self.follow(path).within(|| format!("evalsymlink failure on '{}' ", self.show(path)))
    }

    /// The folder at `path`, links followed.
    fn folder(&self, path: &str) -> Res<String> {
        self.folder_shown(path, &self.show(path))
    }

    fn folder_shown(&self, path: &str, shown: &str) -> Res<String> {
        let place = self.follow(path).within(|| format!("evalsymlink failure on '{shown}' "));
        match place.within(|| "not a valid directory")? {
            Place::Folder(f) => Ok(f),
            Place::File(_) => Err(Error::new(format!("'{shown}': file is not directory"))),
        }
    }

    fn bytes(&self, path: &str) -> Res<&'a [u8]> {
        match self.files.entry(path) {
            Some(Entry::File(b)) => Ok(b),
            _ => Err(Error::new(format!("open {}: no such file or directory", self.show(path)))),
        }
    }
}

/// A root and the chain of roots that led to it.
pub(crate) struct Loader<'a> {
    disk: Disk<'a>,
    root: String,
    referrer: Option<Rc<Loader<'a>>>,
    /// The folder of a supplied remote that this root lies in.
    repository: Option<String>,
}

/// Does `folder` lie in `within` or is it the same?
fn is_in(folder: &str, within: &str) -> bool {
    within.is_empty() || folder == within || folder.strip_prefix(within).is_some_and(|r| r.starts_with('/'))
}

impl<'a> Loader<'a> {
    /// # Errors
    /// No folder is there.
    pub(crate) fn new(disk: Disk<'a>, path: &str) -> Res<Rc<Self>> {
        if gitspec::is_repository(path) {
            return match disk.files.remote(path) {
                Some(folder) => {
                    let root = disk.folder(&clean(&folder))?;
                    Ok(Rc::new(Self { disk, repository: Some(root.clone()), root, referrer: None }))
                }
                None => Err(gitspec::refused(path)),
            };
        }
        let root = disk.folder_shown(&clean(path), path).within(|| "must build at directory")?;
        Ok(Rc::new(Self { disk, root, referrer: None, repository: None }))
    }

    pub(crate) fn root(&self) -> String {
        self.disk.show(&self.root)
    }

    /// The last name of the root.
    pub(crate) fn root_name(&self) -> &str {
        last_part(&self.root).1
    }

    pub(crate) fn levels(&self) -> usize {
        1 + self.referrer.as_ref().map_or(0, |r| r.levels())
    }

    /// A root below or beside this one.
    ///
    /// # Errors
    /// It is remote and not supplied, absolute, no folder, or leads back here.
    pub(crate) fn enter(self: &Rc<Self>, path: &str) -> Res<Rc<Self>> {
        if path.is_empty() {
            return Err(Error::new("new root cannot be empty"));
        }
        if gitspec::is_repository(path) || gitspec::is_url(path) {
            let folder = self.disk.files.remote(path).ok_or_else(|| gitspec::refused(path))?;
            let root = self.disk.folder(&clean(&folder))?;
            self.refuse_cycle(&root)?;
            let repository = Some(root.clone());
            return Ok(Rc::new(Self { disk: self.disk, root, referrer: Some(Rc::clone(self)), repository }));
        }
        if path.starts_with('/') {
            return Err(Error::new(format!("new root '{path}' cannot be absolute")));
        }
        let root = self.disk.folder(&join(&self.root, path)).within(|| "must build at directory")?;
        if let Some(repository) = &self.repository
            && !is_in(&root, repository)
        {
            return Err(Error::new(format!(
                "security; bases in kustomizations found in cloned git repos must be within the repo, but base '{}' \
                 is outside '{}'",
                self.disk.show(&root),
                self.disk.show(repository)
            )));
        }
        self.refuse_cycle(&root)?;
        let repository = self.repository.clone();
        Ok(Rc::new(Self { disk: self.disk, root, referrer: Some(Rc::clone(self)), repository }))
    }

    fn refuse_cycle(&self, candidate: &str) -> Res<()> {
        if is_in(&self.root, candidate) {
            return Err(Error::new(format!(
                "cycle detected: candidate root '{}' contains visited root '{}'",
                self.disk.show(candidate),
                self.disk.show(&self.root)
            )));
        }
        self.referrer.as_ref().map_or(Ok(()), |r| r.refuse_cycle(candidate))
    }

    /// The bytes of a file in or below the root.
    ///
    /// # Errors
    /// It is missing, a folder, elsewhere, or remote and not supplied.
    pub(crate) fn load(&self, path: &str) -> Res<&'a [u8]> {
        if gitspec::is_url(path) {
            let file = self.disk.files.remote(path).ok_or_else(|| gitspec::refused(path))?;
            return self.disk.bytes(&clean(&file));
        }
        // An absolute path is outside of every tree.
        if path.starts_with('/') {
            return Err(Error::new(format!(
                "evalsymlink failure on '{path}' : lstat {path}: no such file or directory"
            )));
        }
        let wanted = join(&self.root, path);
        match self.disk.place(&wanted)? {
            Place::Folder(_) => {
                Err(Error::new(format!("'{}' must resolve to a file", self.disk.show(&wanted))))
            }
            Place::File(f) if !is_in(last_part(&f).0, &self.root) => Err(Error::new(format!(
                "security; file '{}' is not in or below '{}'",
                self.disk.show(&wanted),
                self.root()
            ))),
            Place::File(f) => self.disk.bytes(&f),
        }
    }

    /// The same as text.
    ///
    /// # Errors
    /// As [`Self::load`], and bytes that are not UTF-8.
    pub(crate) fn load_text(&self, path: &str) -> Res<&'a str> {
        let bytes = self.load(path)?;
        std::str::from_utf8(bytes).map_err(|_| Error::new("yaml: invalid leading UTF-8 octet"))
    }
}

impl Loader<'_> {
    /// A path below the root as a path of the tree.
    pub(crate) fn inside(&self, path: &str) -> String {
        join(&self.root, path)
    }
}
