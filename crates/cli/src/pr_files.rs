//! Folders of this machine as trees of files, and what an automation made of them.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Component, Path, PathBuf},
};

use plural_scaffold::files::{Entry, File, Files};

use crate::error::CliError;

/// Files of a folder.
const MAX_FILES: usize = 50_000;
/// Bytes of them.
const MAX_BYTES: u64 = 512 << 20;
/// Folders below each other.
const MAX_DEPTH: usize = 64;

/// Folders, and a copy of one that is only thought of.
#[derive(Default)]
pub(crate) struct Folders {
    /// From where to where, both absolute.
    pub(crate) copied: Option<(PathBuf, PathBuf)>,
}

impl Folders {
    /// What is in an absolute folder, and what is copied there.
    pub(crate) fn load(&self, folder: &Path) -> Result<Files, CliError> {
        let mut load = Load { files: Files::default(), bytes: 0 };
        let Some((from, to)) = &self.copied else {
            load.gather(folder, "", 0)?;
            return Ok(load.files);
        };
        if folder.is_dir() {
            load.gather(folder, "", 0)?;
        }
        if let Ok(below) = to.strip_prefix(folder) {
            let name = below.to_string_lossy().replace('\\', "/");
            load.gather(from, &name, 0)?;
        } else if let Ok(below) = folder.strip_prefix(to) {
            load.gather(&from.join(below), "", 0)?;
        }
        Ok(load.files)
    }
}

struct Load {
    files: Files,
    bytes: u64,
}

impl Load {
    fn gather(&mut self, folder: &Path, name: &str, depth: usize) -> Result<(), CliError> {
        let unreadable =
            |error: io::Error| CliError::usage(format!("cannot read {}: {error}", folder.display()));
        if depth > MAX_DEPTH {
            return Err(CliError::usage(format!("{} has folders too deep", folder.display())));
        }
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            // What has no such name is nothing that an automation can name.
            let Ok(file) = entry.file_name().into_string() else { continue };
            if file == ".git" {
                continue;
            }
            let path = if name.is_empty() { file } else { format!("{name}/{file}") };
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() {
                self.gather(&entry.path(), &path, depth + 1)?;
                continue;
            }
            let made = if kind.is_symlink() {
                let target = fs::read_link(entry.path()).map_err(unreadable)?;
                Entry::Link(target.to_string_lossy().into_owned())
            } else if kind.is_file() {
                self.bytes += entry.metadata().map_err(unreadable)?.len();
                if self.bytes > MAX_BYTES || self.files.len() >= MAX_FILES {
                    return Err(CliError::usage(format!(
                        "the folder has more than {MAX_FILES} files or {} MiB",
                        MAX_BYTES >> 20
                    ))
                    .hint("name a smaller one by --dir"));
                }
                let bytes = fs::read(entry.path()).map_err(unreadable)?;
                Entry::File(File { bytes, executable: is_executable(&entry.path()) })
            } else {
                continue;
            };
            // A path that automations may not have is left alone.
            let _ = self.files.insert(&path, made);
        }
        Ok(())
    }
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o100 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    false
}

/// A path from the root, without `.` and `..`. What it leads to need not be there.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    let whole = std::path::absolute(path)
        .map_err(|error| CliError::usage(format!("{} is no path: {error}", path.display())))?;
    let mut out = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    Ok(out)
}

/// A path of a file of contracts, from the root: it stays in `base`, whoever wrote that file, and so does what a link leads to. What it
/// leads to need not be there.
pub(crate) fn within(base: &Path, path: &Path) -> Result<PathBuf, CliError> {
    let path = absolute(path)?;
    let is_outside = match (base.canonicalize(), path.canonicalize()) {
        (Ok(base), Ok(real)) => !real.starts_with(base),
        _ => false,
    };
    if is_outside || !path.starts_with(base) {
        return Err(CliError::usage(format!("{} is outside of {}", path.display(), base.display()))
            .hint("name a folder by --dir that holds all that the contracts name"));
    }
    Ok(path)
}

/// The content of a file.
pub(crate) fn bytes(what: &str, path: &Path) -> Result<Vec<u8>, CliError> {
    fs::read(path).map_err(|error| CliError::new(format!("cannot read {what} {}: {error}", path.display())))
}

/// Changes the files of a folder.
pub(crate) fn write(folder: &Path, changes: &BTreeMap<String, Option<Entry>>) -> Result<(), CliError> {
    for (name, entry) in changes {
        let path = folder.join(name);
        change(&path, entry.as_ref())
            .map_err(|error| CliError::new(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}

fn change(path: &Path, entry: Option<&Entry>) -> io::Result<()> {
    match entry {
        None => fs::remove_file(path),
        Some(Entry::File(file)) => {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(path, &file.bytes)?;
            if file.executable { make_executable(path) } else { Ok(()) }
        }
        // Automations make none; those of a copied folder stay where they are.
        Some(Entry::Link(_)) => Ok(()),
    }
}

#[cfg(unix)]
fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_mode(permissions.mode() | 0o111);
    fs::set_permissions(path, permissions)
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> io::Result<()> {
    Ok(())
}
