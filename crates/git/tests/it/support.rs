//! What these tests share.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    path::Path,
    time::Duration,
};

use async_trait::async_trait;
use plural_git::{Fetched, LocalPaths, MirrorKey, Mirrors, Oid, Options, RefSpec, Remote, Repository};
use plural_reach::{Guard, Lookup, Reach};
use plural_testkit::{GitRemote, OwnedFolder};

/// Long enough for a loaded machine; a test that waits this long has failed.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// Mirrors in a folder of their own.
pub(crate) struct Home {
    pub(crate) mirrors: Mirrors,
    pub(crate) folder: OwnedFolder,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        let folder = OwnedFolder::new("mirrors").unwrap();
        let mirrors = Mirrors::open(options(folder.path(), change)).unwrap();
        Self { mirrors, folder }
    }

    /// Another start on the same folder.
    pub(crate) fn again(&self, change: impl FnOnce(&mut Options)) -> Mirrors {
        Mirrors::open(options(self.folder.path(), change)).unwrap()
    }

    pub(crate) async fn fetch(&self, remote: &Remote) -> Fetched {
        self.mirrors.fetch(remote).await.unwrap()
    }
}

/// Every name leads to this machine.
pub(crate) struct Here;

#[async_trait]
impl Lookup for Here {
    async fn lookup(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

pub(crate) fn options(folder: &Path, change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::new(folder);
    options.local = LocalPaths::Read;
    // Servers of tests are on this machine, without TLS.
    options.guard = Guard::new(Reach::Local);
    options.credentials_over_http = true;
    change(&mut options);
    options
}

pub(crate) fn key(name: &str) -> MirrorKey {
    MirrorKey::new(name).unwrap()
}

pub(crate) fn remote(url: &str) -> Remote {
    Remote::new(key("one"), url).unwrap()
}

/// The repository of a remote on disk, read in place.
pub(crate) async fn in_place(git: &GitRemote) -> (Home, Repository) {
    let home = Home::new();
    let repository = home.fetch(&remote(git.path().to_str().unwrap())).await.repository;
    (home, repository)
}

pub(crate) fn spec(text: &str) -> RefSpec {
    RefSpec::parse(text).unwrap()
}

pub(crate) fn oid(hex: &str) -> Oid {
    hex.parse().unwrap()
}

pub(crate) fn resolve(repository: &Repository, text: &str) -> String {
    repository.resolve(&spec(text)).unwrap().commit.to_hex()
}

/// Ids of git processes that work in a folder or below it.
pub(crate) fn processes_in(folder: &Path) -> Vec<u32> {
    let folder = folder.canonicalize().unwrap();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(Result::ok)
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&folder))
        })
        .collect()
}

/// Bytes that no compressor makes shorter, the same every time.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()
    })
    .flatten()
    .take(bytes)
    .collect()
}

/// Every file below a folder.
pub(crate) fn files_in(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                folders.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    files
}
