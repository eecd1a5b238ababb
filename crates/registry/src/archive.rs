//! Archives become files: [`unpack`], [`unpack_chart`].

use std::{collections::BTreeMap, io::Read};

use crate::{
    access::printable,
    error::{Cause, Error, Result},
};

/// How large the content of an archive may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files together.
    pub total_bytes: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Entries of any kind.
    pub entries: usize,
    /// Times that the content may be larger than the archive; does not count below [`Limits::RATIO_FROM`] bytes.
    pub ratio: u64,
    /// Folders below each other.
    pub depth: usize,
}

impl Limits {
    /// Bytes of content from which on the ratio counts: a small file of spaces harms nobody.
    pub const RATIO_FROM: u64 = 4 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self { total_bytes: 64 << 20, file_bytes: 16 << 20, entries: 20_000, ratio: 200, depth: 64 }
    }
}

/// A file of an archive.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// What it holds.
    pub content: Vec<u8>,
    /// Whether it may be executed.
    pub executable: bool,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { content, executable } = self;
        f.debug_struct("File").field("bytes", &content.len()).field("executable", executable).finish()
    }
}

/// Files by path: `/` between parts, none at the ends, no `.` or `..`.
pub type Files = BTreeMap<String, File>;

/// Bytes that a file takes in a tree besides its path and content, about.
const ENTRY: usize = 160;

/// Bytes that a file takes in a tree, about.
pub fn weight(path: &str, content: usize) -> usize {
    path.len().saturating_add(content).saturating_add(ENTRY)
}

/// The files of a tar, compressed by gzip or not.
///
/// # Errors
/// [`Cause::TooLarge`] for what exceeds a limit, which is named; [`Cause::Malformed`] for a path that is absolute, leads
/// out, is there twice or holds a backslash or control character, for links and devices, and for what is no tar.
pub fn unpack(archive: &[u8], limits: &Limits) -> Result<Files> {
    let most = (archive.len() as u64).saturating_mul(limits.ratio).max(Limits::RATIO_FROM);
    // Headers and padding cost memory and time too.
    let overhead = limits.entries as u64 * 2048 + 2048;
    let budget = limits.total_bytes.min(most).saturating_add(overhead);
    if archive.starts_with(&[0x1f, 0x8b]) {
        let content = flate2::read::MultiGzDecoder::new(archive);
        read(Bounded { inner: content, left: budget, passed: false }, limits, most)
    } else {
        read(Bounded { inner: archive, left: budget, passed: false }, limits, most)
    }
}

/// What the `Chart.yaml` of a packed chart says; reads no further than to it.
///
/// # Errors
/// When the archive cannot be read up to there, or has none.
pub(crate) fn chart_file(archive: &[u8], limits: &Limits) -> Result<Vec<u8>> {
    let most = (archive.len() as u64).saturating_mul(limits.ratio).max(Limits::RATIO_FROM);
    let left = limits.total_bytes.min(most);
    let content = Bounded { inner: flate2::read::MultiGzDecoder::new(archive), left, passed: false };
    let mut tar = tar::Archive::new(content);
    let unreadable = |error: std::io::Error| Error::malformed(printable(&error.to_string()));
    for entry in tar.entries().map_err(unreadable)?.take(limits.entries) {
        let mut entry = entry.map_err(unreadable)?;
        let path = clean(&entry.path_bytes(), limits.depth)?;
        if path.split_once('/').is_some_and(|(_, name)| name == "Chart.yaml") {
            let mut content = Vec::new();
            entry.by_ref().take(limits.file_bytes).read_to_end(&mut content).map_err(unreadable)?;
            return Ok(content);
        }
    }
    Err(Error::malformed("the archive is not a chart: it has no Chart.yaml"))
}

/// The files of a packed chart, without the one folder that they all lie in.
///
/// # Errors
/// As [`unpack`], and when there is no such folder or no `Chart.yaml` in it.
pub fn unpack_chart(archive: &[u8], limits: &Limits) -> Result<Files> {
    if !archive.starts_with(&[0x1f, 0x8b]) {
        return Err(Error::malformed("the chart is not a gzip archive"));
    }
    let mut files = Files::new();
    for (path, file) in unpack(archive, limits)? {
        let Some((_, path)) = path.split_once('/') else {
            return Err(Error::malformed(format!("the chart holds {path:?} outside of its folder")));
        };
        if files.insert(path.to_owned(), file).is_some() {
            return Err(Error::malformed(format!("the chart holds {path:?} twice")));
        }
    }
    if !files.contains_key("Chart.yaml") {
        return Err(Error::malformed("the archive is not a chart: it has no Chart.yaml"));
    }
    Ok(files)
}

/// Ends the content after so many bytes, and remembers that there would have been more.
struct Bounded<R> {
    inner: R,
    left: u64,
    passed: bool,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            self.passed = true;
            return Err(std::io::Error::other("the archive's content is too large"));
        }
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.inner.read(&mut buffer[..most])?;
        self.left -= read as u64;
        Ok(read)
    }
}

fn read<R: Read>(content: Bounded<R>, limits: &Limits, most: u64) -> Result<Files> {
    let mut tar = tar::Archive::new(content);
    let read = entries(&mut tar, limits, most);
    if tar.into_inner().passed {
        return Err(too_large("bytes of content", limits.total_bytes.min(most)));
    }
    read
}

fn entries<R: Read>(tar: &mut tar::Archive<R>, limits: &Limits, most: u64) -> Result<Files> {
    let unreadable = |error: std::io::Error| {
        Error::malformed(format!("the archive cannot be read: {}", printable(&error.to_string())))
    };
    let mut files = Files::new();
    let mut total = 0_u64;
    for (count, entry) in tar.entries().map_err(unreadable)?.enumerate() {
        let mut entry = entry.map_err(unreadable)?;
        if count >= limits.entries {
            return Err(too_large("entries", limits.entries as u64));
        }
        let raw = entry.path_bytes().into_owned();
        match entry.header().entry_type() {
            tar::EntryType::Regular | tar::EntryType::Continuous => {}
            // Folders exist by their files.
            tar::EntryType::Directory | tar::EntryType::XGlobalHeader => continue,
            kind => {
                let kind = match kind {
                    tar::EntryType::Symlink | tar::EntryType::Link => "a link",
                    _ => "no plain file",
                };
                return Err(Error::malformed(format!(
                    "the archive holds {:?}, which is {kind}: only files may be in it",
                    printable(&String::from_utf8_lossy(&raw))
                )));
            }
        }
        let path = clean(&raw, limits.depth)?;
        let size = entry.size();
        if size > limits.file_bytes {
            return Err(too_large(&format!("bytes in the file {path:?}"), limits.file_bytes));
        }
        total = total.saturating_add(size);
        if total > limits.total_bytes.min(most) {
            return Err(too_large("bytes of content", limits.total_bytes.min(most)));
        }
        let executable = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(unreadable)?;
        if content.len() as u64 != size {
            return Err(Error::malformed(format!("the archive ends within {path:?}")));
        }
        if files.insert(path.clone(), File { content, executable }).is_some() {
            return Err(Error::malformed(format!("the archive holds {path:?} twice")));
        }
    }
    if files.is_empty() {
        return Err(Error::malformed("the archive holds no file"));
    }
    Ok(files)
}

fn clean(raw: &[u8], depth: usize) -> Result<String> {
    let bad = |why: &str| {
        let shown = printable(&String::from_utf8_lossy(raw));
        Error::malformed(format!("the archive holds the path {shown:?}, which {why}"))
    };
    let text = std::str::from_utf8(raw).map_err(|_| bad("is not UTF-8"))?;
    if text.len() > 4096 {
        return Err(bad("is too long"));
    }
    if text.starts_with('/') {
        return Err(bad("is absolute"));
    }
    if text.chars().any(|c| c.is_control() || c == '\\') {
        return Err(bad("holds a backslash or control character"));
    }
    let mut parts = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(bad("leads out of it")),
            part => parts.push(part),
        }
    }
    match parts.first() {
        None => return Err(bad("names no file")),
        Some(first) if first.len() == 2 && first.ends_with(':') => return Err(bad("names a drive")),
        Some(_) => {}
    }
    if parts.len() > depth {
        return Err(bad("lies too deep"));
    }
    Ok(parts.join("/"))
}

fn too_large(what: &str, limit: u64) -> Error {
    Error::new(Cause::TooLarge, format!("the archive holds more than {limit} {what}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    type Build<'a> = dyn Fn(&mut tar::Builder<Vec<u8>>) + 'a;

    fn tar(build: &Build<'_>) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        build(&mut builder);
        builder.into_inner().unwrap()
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(content).unwrap();
        gzip.finish().unwrap()
    }

    fn entry(builder: &mut tar::Builder<Vec<u8>>, kind: tar::EntryType, path: &str, content: &[u8]) {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_entry_type(kind);
        // `set_path` refuses what an attacker would write; the bytes are set by hand.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }

    fn file(builder: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8]) {
        entry(builder, tar::EntryType::Regular, path, content);
    }

    fn cause(archive: &[u8]) -> (Cause, String) {
        let error = unpack(archive, &Limits::default()).unwrap_err();
        (error.cause, error.message)
    }

    #[test]
    fn charts_lose_their_folder() {
        let archive = gzip(&tar(&|b| {
            file(b, "web/Chart.yaml", b"name: web");
            file(b, "./web/templates/a.yaml", b"a: b");
        }));
        let files = unpack_chart(&archive, &Limits::default()).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["Chart.yaml", "templates/a.yaml"]);
        for bad in [
            gzip(&tar(&|b| file(b, "Chart.yaml", b"x"))),
            gzip(&tar(&|b| file(b, "web/values.yaml", b"x"))),
            gzip(&tar(&|b| {
                file(b, "web/Chart.yaml", b"x");
                file(b, "other/Chart.yaml", b"y");
            })),
            tar(&|b| file(b, "web/Chart.yaml", b"x")),
            Vec::new(),
            b"\x1f\x8bnonsense".to_vec(),
        ] {
            assert_eq!(unpack_chart(&bad, &Limits::default()).unwrap_err().cause, Cause::Malformed);
        }
    }

    #[test]
    fn nothing_leaves_the_archive() {
        for bad in ["../x", "a/../../x", "/etc/passwd", "a\\..\\b", "a\nb", "C:/x", "..", "./"] {
            let (kind, message) = cause(&tar(&|b| file(b, bad, b"x")));
            assert_eq!(kind, Cause::Malformed, "{bad}: {message}");
        }
        for kind in [
            tar::EntryType::Symlink,
            tar::EntryType::Link,
            tar::EntryType::Char,
            tar::EntryType::Block,
            tar::EntryType::Fifo,
            tar::EntryType::GNUSparse,
        ] {
            let archive = tar(&|b| entry(b, kind, "a/b", b""));
            assert!(unpack(&archive, &Limits::default()).is_err(), "{kind:?}");
        }
        let (_, message) = cause(&tar(&|b| {
            file(b, "a", b"1");
            file(b, "a", b"2");
        }));
        assert!(message.contains("twice"), "{message}");
    }

    #[test]
    fn bombs_are_refused_without_being_held() {
        // A thousand to one, as gzip packs zeros.
        let (kind, message) = cause(&gzip(&tar(&|b| file(b, "zeros", &vec![0; 12 << 20]))));
        assert_eq!(kind, Cause::TooLarge, "{message}");
        let (kind, _) = cause(&gzip(&tar(&|b| (0..20_001).for_each(|n| file(b, &format!("f{n}"), b"")))));
        assert_eq!(kind, Cause::TooLarge);
        let large = Limits { file_bytes: 10, ..Limits::default() };
        let archive = tar(&|b| file(b, "a", b"12345678901"));
        assert_eq!(unpack(&archive, &large).unwrap_err().cause, Cause::TooLarge);
        // A header that claims ten gigabytes.
        let mut archive = tar(&|b| file(b, "a", b"x"));
        let mut header = tar::Header::from_byte_slice(&archive[..512]).clone();
        header.set_size(10 << 30);
        header.set_cksum();
        archive[..512].copy_from_slice(header.as_bytes());
        assert_eq!(cause(&archive).0, Cause::TooLarge);
        // Gzip in gzip stays as it is.
        let inner = gzip(&vec![0; 1 << 20]);
        let files = unpack(&gzip(&tar(&|b| file(b, "inner.gz", &inner))), &Limits::default()).unwrap();
        assert_eq!(files["inner.gz"].content, inner);
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..2000)) {
            let _ = unpack(&bytes, &Limits::default());
            let _ = unpack_chart(&gzip(&bytes), &Limits::default());
        }
    }
}
