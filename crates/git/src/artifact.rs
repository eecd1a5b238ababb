//! A closure packed for its way to a cluster: [`Artifact`], [`Limits`].

mod tar;

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::{
    closure::{Closure, Digest},
    error::{Error, Result},
    objects::Objects,
};

/// How large a service's source may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files together.
    pub total_bytes: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Number of files.
    pub entries: u64,
    /// Folders below each other.
    pub depth: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { total_bytes: 64 << 20, file_bytes: 16 << 20, entries: 20_000, depth: 64 }
    }
}

/// A closure as one uncompressed tar.
///
/// # Guarantees
/// The same closure gives the same bytes on every machine and in every version of this program: files only, sorted by the
/// bytes of their paths, owner and time zero, mode 644 or 755, ustar with a pax record only for a path over 100 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Artifact {
    /// SHA-256 of `tar`.
    pub digest: Digest,
    /// The service's folder inside the tar; empty for its root.
    pub folder: String,
    /// The tar.
    pub tar: Vec<u8>,
}

impl std::fmt::Debug for Artifact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { digest, folder, tar } = self;
        f.debug_struct("Artifact")
            .field("digest", digest)
            .field("folder", folder)
            .field("bytes", &tar.len())
            .finish()
    }
}

/// A file on its way into an artifact.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// What it holds.
    pub content: Vec<u8>,
    /// Whether it may be executed.
    pub executable: bool,
}

impl std::fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { content, executable } = self;
        f.debug_struct("SourceFile").field("bytes", &content.len()).field("executable", executable).finish()
    }
}

impl Artifact {
    /// Packs files of any origin: path, content and whether it may be executed, in the order of the paths' bytes. The
    /// paths are clean: `/` between their parts, no `.` or `..`.
    ///
    /// # Errors
    /// [`Error::Limit`] names the first file that passes a limit.
    pub fn of_files<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a [u8], bool)>,
        folder: String,
        limits: &Limits,
    ) -> Result<Self> {
        let mut tar = Vec::new();
        let (mut count, mut total) = (0_u64, 0_u64);
        for (path, content, executable) in files {
            count += 1;
            total = total.saturating_add(content.len() as u64);
            for (what, actual, limit) in [
                ("its size in bytes", content.len() as u64, limits.file_bytes),
                ("the size in bytes of the source up to and with this file", total, limits.total_bytes),
                ("the number of files up to and with this one", count, limits.entries),
                ("its depth in folders", path.split('/').count() as u64 - 1, limits.depth),
            ] {
                if actual > limit {
                    return Err(Error::Limit { file: path.to_owned(), what, actual, limit });
                }
            }
            tar::append(&mut tar, path, executable, content);
        }
        tar::finish(&mut tar);
        Ok(Self { digest: Digest(Sha256::digest(&tar).into()), folder, tar })
    }

    pub(crate) fn pack(objects: &mut Objects<'_>, closure: &Closure, limits: &Limits) -> Result<Self> {
        let size = check(objects, closure, limits, (0, 0))?;
        let mut tar = Vec::with_capacity(size as usize + closure.entries.len() * 1024 + 1024);
        for entry in &closure.entries {
            let content = objects.blob(entry.oid, limits.file_bytes, &entry.path)?;
            let path = entry.path[closure.root.len()..].trim_start_matches('/');
            tar::append(&mut tar, path, entry.executable, &content);
        }
        tar::finish(&mut tar);
        Ok(Self { digest: Digest(Sha256::digest(&tar).into()), folder: closure.folder.clone(), tar })
    }
}

/// Adds the files of a closure by their path in the repository; all together stay within the limits of an artifact.
pub(crate) fn add_files(
    objects: &mut Objects<'_>,
    closure: &Closure,
    limits: &Limits,
    files: &mut BTreeMap<String, SourceFile>,
) -> Result<()> {
    let bytes = files.values().map(|file| file.content.len() as u64).sum();
    check(objects, closure, limits, (files.len() as u64, bytes))?;
    for entry in &closure.entries {
        if !files.contains_key(&entry.path) {
            let content = objects.blob(entry.oid, limits.file_bytes, &entry.path)?;
            files.insert(entry.path.clone(), SourceFile { content, executable: entry.executable });
        }
    }
    Ok(())
}

/// Checks every limit by the objects' headers alone, beside so many files of so many bytes; gives the size of all.
fn check(
    objects: &mut Objects<'_>,
    closure: &Closure,
    limits: &Limits,
    (mut count, mut total): (u64, u64),
) -> Result<u64> {
    for entry in &closure.entries {
        let over = |what, actual, limit| Error::Limit { file: entry.path.clone(), what, actual, limit };
        count += 1;
        if count > limits.entries {
            return Err(over("the number of files up to and with this one", count, limits.entries));
        }
        let size = objects.blob_size(entry.oid)?;
        if size > limits.file_bytes {
            return Err(over("its size in bytes", size, limits.file_bytes));
        }
        total = total.saturating_add(size);
        if total > limits.total_bytes {
            return Err(over(
                "the size in bytes of the source up to and with this file",
                total,
                limits.total_bytes,
            ));
        }
        let depth = entry.path.split('/').count() as u64;
        if depth > limits.depth + 1 {
            return Err(over("its depth in folders", depth - 1, limits.depth));
        }
    }
    Ok(total)
}
