//! The code of a run: a tar, fetched, verified by its digest, and only then unpacked.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Instant,
};

use sha2::{Digest as _, Sha256};

use crate::{
    console::{Console, Trouble, cause},
    end::End,
    rescue::ERRORED,
};

/// Limits of an artifact.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Size of the tar in bytes.
    bytes: u64,
    /// Number of files and folders.
    entries: usize,
    /// Depth of folders.
    depth: usize,
}

/// More than the console ever packs.
const LIMITS: Limits = Limits { bytes: 256 << 20, entries: 50_000, depth: 100 };

/// Fetches the artifact with this digest, and unpacks it into a new folder.
pub(crate) async fn fetch(console: &Console, digest: &str, parent: &Path) -> Result<PathBuf, End> {
    let (packed, folder) = (parent.join("source.tar"), parent.join("source"));
    let since = Instant::now();
    let mut backoff = console.backoff();
    loop {
        match download(console, digest, &packed).await {
            Ok(()) => break,
            Err(Trouble::End(end)) => return Err(end),
            Err(Trouble::Again(why)) if console.is_too_long(since) => return Err(End::Away(why)),
            Err(Trouble::Again(_)) => tokio::time::sleep(backoff.next_wait()).await,
        }
    }
    let into = folder.clone();
    let unpacked = tokio::task::spawn_blocking(move || {
        let unpacked = fs::File::open(&packed)
            .map_err(|error| format!("the artifact cannot be read: {error}"))
            .and_then(|tar| unpack(io::BufReader::new(tar), &into, LIMITS));
        drop(fs::remove_file(&packed));
        unpacked
    });
    match unpacked.await {
        Ok(unpacked) => unpacked.map(|()| folder).map_err(End::Failed),
        Err(error) => Err(End::failed(format!("the artifact was not unpacked: {error}"))),
    }
}

/// Writes a tar while counting and hashing it.
struct Digested {
    file: fs::File,
    hasher: Sha256,
    bytes: u64,
}

impl Write for Digested {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let written = self.file.write(piece)?;
        self.hasher.update(&piece[..written]);
        self.bytes += written as u64;
        if self.bytes > LIMITS.bytes {
            return Err(io::Error::other(format!("it is larger than {} MiB", LIMITS.bytes >> 20)));
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

async fn download(console: &Console, digest: &str, to: &Path) -> Result<(), Trouble> {
    let damaged = |why: io::Error| Trouble::End(End::failed(format!("the artifact {digest}: {why}")));
    let mut response = console.artifact().await?;
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to);
    let digested = Digested { file: file.map_err(damaged)?, hasher: Sha256::new(), bytes: 0 };
    let mut decoder = zstd::stream::write::Decoder::new(digested).map_err(damaged)?;
    while let Some(chunk) = response.chunk().await.map_err(|error| Trouble::Again(cause(&error)))? {
        decoder.write_all(&chunk).map_err(damaged)?;
    }
    decoder.flush().map_err(damaged)?;
    let got = hex::encode(decoder.into_inner().hasher.finalize());
    if got != digest {
        return Err(Trouble::End(End::failed(format!(
            "the artifact is not the one of this run: its digest is {got}, and {digest} was expected"
        ))));
    }
    Ok(())
}

/// Unpacks files and folders below a folder of the harness; refuses anything else.
fn unpack(tar: impl Read, folder: &Path, limits: Limits) -> Result<(), String> {
    // The leftover of an earlier harness.
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(format!("cannot empty {}: {error}", folder.display()));
    }
    let unreadable = |error: io::Error| format!("the artifact cannot be read: {error}");
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut tar = tar::Archive::new(tar);
    for (count, entry) in tar.entries().map_err(unreadable)?.enumerate() {
        if count >= limits.entries {
            return Err(format!("the artifact holds more than {} files", limits.entries));
        }
        let mut entry = entry.map_err(unreadable)?;
        let raw = entry.path_bytes().into_owned();
        let kind = entry.header().entry_type();
        let is_folder = match kind {
            tar::EntryType::Regular | tar::EntryType::Continuous => false,
            tar::EntryType::Directory => true,
            tar::EntryType::XGlobalHeader => continue,
            _ => {
                let shown = String::from_utf8_lossy(&raw);
                return Err(format!(
                    "the artifact holds {shown:?}, which is neither file nor folder: nothing else may be in it"
                ));
            }
        };
        let path = folder.join(clean(&raw, limits.depth)?);
        // As part of the code it would be taken for a state that the tool could not write, and would become the stack's state, whatever was
        // approved.
        if !is_folder && path.file_name().is_some_and(|name| name == ERRORED) {
            continue;
        }
        let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
        if is_folder {
            fs::create_dir_all(&path).map_err(failed)?;
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let is_executable = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
        let mode = if is_executable { 0o755 } else { 0o644 };
        // The folder contains no links, and existing files are not overwritten.
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).map_err(failed)?;
        let written = io::copy(&mut entry, &mut file).map_err(failed)?;
        if written != entry.size() {
            return Err(format!("the artifact ends within {}", path.display()));
        }
    }
    Ok(())
}

/// A path that stays below the folder that it is joined to.
fn clean(raw: &[u8], depth: usize) -> Result<PathBuf, String> {
    let bad =
        |why: &str| format!("the artifact holds the path {:?}, which {why}", String::from_utf8_lossy(raw));
    let text = std::str::from_utf8(raw).map_err(|_| bad("is not UTF-8"))?;
    if text.starts_with('/') {
        return Err(bad("is absolute"));
    }
    if text.chars().any(char::is_control) {
        return Err(bad("holds a control character"));
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err(bad("leads out of it"));
    }
    if parts.is_empty() {
        return Err(bad("names nothing"));
    }
    if parts.len() > depth {
        return Err(bad("lies too deep"));
    }
    Ok(parts.iter().collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn packed(kind: tar::EntryType, path: &str, content: &[u8], mode: u32) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        // The library's own setter refuses the paths that this test needs.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        if matches!(kind, tar::EntryType::Symlink | tar::EntryType::Link) {
            header.as_mut_bytes()[157..168].copy_from_slice(b"/etc/passwd");
        }
        header.set_cksum();
        builder.append(&header, content).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn files_keep_whether_they_run() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("source");
        for (mode, expected) in [(0o755, true), (0o644, false)] {
            let tar = packed(tar::EntryType::Regular, "a/b.sh", b"x", mode);
            unpack(tar.as_slice(), &into, LIMITS).unwrap();
            let found = fs::metadata(into.join("a/b.sh")).unwrap();
            assert_eq!(found.permissions().mode() & 0o100 != 0, expected);
        }
    }

    #[test]
    fn nothing_leaves_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("source");
        for (kind, path, why) in [
            (tar::EntryType::Regular, "/etc/passwd", "absolute"),
            (tar::EntryType::Regular, "a/../../b", "leads out"),
            (tar::EntryType::Regular, "..", "leads out"),
            (tar::EntryType::Regular, "./", "names nothing"),
            (tar::EntryType::Regular, "a\nb", "control"),
            (tar::EntryType::Symlink, "a", "neither file nor folder"),
            (tar::EntryType::Link, "a", "neither file nor folder"),
            (tar::EntryType::Fifo, "a", "neither file nor folder"),
            (tar::EntryType::Char, "a", "neither file nor folder"),
        ] {
            let told = unpack(packed(kind, path, b"", 0o644).as_slice(), &into, LIMITS).unwrap_err();
            assert!(told.contains(why), "{path}: {told}");
        }
        assert!(!folder.path().join("b").exists());
    }

    #[test]
    fn no_state_comes_with_the_code() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("source");
        let forged = packed(tar::EntryType::Regular, "a/errored.tfstate", b"{}", 0o644);
        let code = packed(tar::EntryType::Regular, "a/main.tf", b"x", 0o644);
        // Without the blocks that end an archive.
        let both = [&forged[..1024], &code[..]].concat();
        unpack(both.as_slice(), &into, LIMITS).unwrap();
        assert!(into.join("a/main.tf").exists() && !into.join("a/errored.tfstate").exists());
    }

    #[test]
    fn a_file_is_there_once_and_within_limits() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("source");
        let one = packed(tar::EntryType::Regular, "a", b"x", 0o644);
        // Without the blocks that end an archive.
        let twice = [&one[..1024], &one[..]].concat();
        assert!(unpack(twice.as_slice(), &into, LIMITS).unwrap_err().contains("cannot write"));
        let told = unpack(twice.as_slice(), &into, Limits { entries: 1, ..LIMITS }).unwrap_err();
        assert!(told.contains("more than 1 files"), "{told}");
        let told = unpack(one.as_slice(), &into, Limits { depth: 0, ..LIMITS }).unwrap_err();
        assert!(told.contains("too deep"), "{told}");
        let told = unpack(&one[..512], &into, LIMITS).unwrap_err();
        assert!(told.contains("ends within"), "{told}");
    }
}
