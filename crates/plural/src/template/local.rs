//! Files of this machine for a render: below one folder, and what links in it lead to below the same folder.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use plural_render::kustomize::{Entry, Files};

/// More than a chart or a folder of manifests has.
const MAX_FILES: usize = 50_000;
/// Bytes of all files together.
const MAX_BYTES: usize = 512 << 20;

/// The content of a file that was named on the command line.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// All files below `folder` with their paths from there. A link that leads out of it is left out, and told.
pub(super) fn files(folder: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let root = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
    let mut walk = Walk { root, found: Vec::new(), bytes: 0, open: Vec::new() };
    let root = walk.root.clone();
    walk.folder(&root, "")?;
    Ok(walk.found)
}

struct Walk {
    root: PathBuf,
    found: Vec<(String, Vec<u8>)>,
    bytes: usize,
    /// The folders that are being walked: a link to one of them would never end.
    open: Vec<PathBuf>,
}

impl Walk {
    fn folder(&mut self, folder: &Path, prefix: &str) -> anyhow::Result<()> {
        if self.open.iter().any(|open| open == folder) {
            return Ok(());
        }
        self.open.push(folder.to_owned());
        let cannot = || format!("cannot read {}", folder.display());
        for entry in fs::read_dir(folder).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name == ".git" {
                continue;
            }
            let path = format!("{prefix}{name}");
            let mut place = entry.path();
            let mut kind = entry.file_type()?;
            if kind.is_symlink() {
                let Some(target) = self.inside(&place) else { continue };
                kind = fs::metadata(&target)?.file_type();
                place = target;
            }
            if kind.is_dir() {
                self.folder(&place, &format!("{path}/"))?;
            } else if kind.is_file() {
                self.file(path, &place)?;
            }
        }
        self.open.pop();
        Ok(())
    }

    /// Where a link leads, if that is below the root and exists.
    fn inside(&self, link: &Path) -> Option<PathBuf> {
        let target = link.canonicalize().ok()?;
        if target.starts_with(&self.root) {
            return Some(target);
        }
        eprintln!("left out: {} leads out of {}", link.display(), self.root.display());
        None
    }

    fn file(&mut self, path: String, place: &Path) -> anyhow::Result<()> {
        let content = read(place)?;
        self.bytes += content.len();
        if self.found.len() >= MAX_FILES || self.bytes > MAX_BYTES {
            bail!(
                "{} holds more than {MAX_FILES} files or {} MiB: render a smaller folder",
                self.root.display(),
                MAX_BYTES >> 20
            );
        }
        self.found.push((path, content));
        Ok(())
    }
}

/// A folder whose files are read when a build asks for them: a kustomization lies in a repository that may be large.
#[derive(Debug)]
pub(super) struct Disk {
    root: PathBuf,
    seen: RefCell<HashMap<String, Option<Kept>>>,
}

/// What was found at a path. The program ends after one build, so it is kept to the end.
#[derive(Debug, Clone, Copy)]
enum Kept {
    File(&'static [u8]),
    Folder,
    Link(&'static str),
}

impl Disk {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), seen: RefCell::default() }
    }

    fn look(&self, path: &str) -> io::Result<Kept> {
        let place = self.root.join(path);
        let kind = fs::symlink_metadata(&place)?.file_type();
        if kind.is_dir() {
            return Ok(Kept::Folder);
        }
        if kind.is_symlink() {
            let target = fs::read_link(&place)?;
            // The build knows paths below the root alone.
            let below = target.strip_prefix(&self.root).map(|below| {
                let up = path.matches('/').map(|_| "..");
                up.collect::<PathBuf>().join(below)
            });
            let target = below.unwrap_or(target).into_os_string().into_string();
            let target = target.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            return Ok(Kept::Link(target.leak()));
        }
        if !kind.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Kept::File(fs::read(&place)?.leak()))
    }
}

impl Files for Disk {
    fn entry(&self, path: &str) -> Option<Entry<'_>> {
        let known = self.seen.borrow().get(path).copied();
        let found = known.unwrap_or_else(|| {
            let found = self.look(path).ok();
            self.seen.borrow_mut().insert(path.to_owned(), found);
            found
        });
        Some(match found? {
            Kept::File(bytes) => Entry::File(bytes),
            Kept::Folder => Entry::Folder,
            Kept::Link(target) => Entry::Link(target),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_as_far_as_the_folder_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (outside, root) = (folder.path().join("outside"), folder.path().join("root"));
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "s").unwrap();
        fs::write(root.join("sub/a"), "a").unwrap();
        for (target, name) in [
            ("sub/a", "file"),
            ("sub", "folder"),
            ("..", "sub/up"),
            ("../outside/secret", "out"),
            ("../outside", "outer"),
            ("/etc/passwd", "passwd"),
            ("gone", "dangling"),
        ] {
            symlink(target, root.join(name)).unwrap();
        }
        let mut found: Vec<String> = files(&root).unwrap().into_iter().map(|(path, _)| path).collect();
        found.sort();
        found.retain(|path| !path.contains("up/"));
        assert_eq!(found, ["file", "folder/a", "sub/a"]);
    }
}
