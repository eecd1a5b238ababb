//! The one error of this crate.
//!
//! Every text says what was being done and to what, and ends with what a person can do about it. URLs are shown without
//! user information, and what git itself said has been cleaned of credentials and control characters before it gets here.

use std::{io, path::Path, time::Duration};

/// What can go wrong between a remote and an artifact. Cheap to clone, because callers that share one fetch share its
/// outcome.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A URL, reference, path or key that cannot be used as given.
    #[error("{what} {value:?} cannot be used: {why}")]
    BadInput {
        /// Which input.
        what: &'static str,
        /// The input, shortened and without credentials.
        value: String,
        /// What is wrong with it and what would be right.
        why: String,
    },
    /// The remote wants other credentials than it was given.
    #[error(
        "cannot fetch {url}: authentication failed ({detail}); check the credentials of this repository and that they may read it"
    )]
    Auth {
        /// The remote, without user information.
        url: String,
        /// What git said.
        detail: String,
    },
    /// The ssh host key is unknown or is not the one that was pinned.
    #[error(
        "cannot fetch {url}: the ssh host key was not accepted ({detail}); compare the host's key with the known_hosts of this repository"
    )]
    HostKey {
        /// The remote, without user information.
        url: String,
        /// What ssh said.
        detail: String,
    },
    /// The remote answers, but has no such repository (or hides it from these credentials).
    #[error(
        "cannot fetch {url}: repository not found ({detail}); check the URL, and that the credentials may see it"
    )]
    NotFound {
        /// The remote, without user information.
        url: String,
        /// What git said.
        detail: String,
    },
    /// The remote did not answer, or stopped answering, in time.
    #[error(
        "cannot fetch {url}: timed out after {} s ({detail}); check that the host is up and reachable from here",
        after.as_secs_f32().ceil()
    )]
    TimedOut {
        /// The remote, without user information.
        url: String,
        /// How long was waited.
        after: Duration,
        /// Which limit ended it.
        detail: String,
    },
    /// The remote, its proxy, or a place that it redirects to, is where this console does not connect to.
    #[error(
        "cannot fetch {url}: {host} {why}, which this console does not connect to; its operator decides how far it goes (--reach)"
    )]
    OutOfReach {
        /// The remote, without user information.
        url: String,
        /// The host that was not connected to.
        host: String,
        /// What its address is, as "is …".
        why: &'static str,
    },
    /// A password or token would be sent where everybody on the way can read it.
    #[error(
        "cannot fetch {url}: credentials are not sent over http; use https, or have the console's operator allow it (--allow-credentials-over-http)"
    )]
    PlainCredentials {
        /// The remote, without user information.
        url: String,
    },
    /// No connection, no name, no trusted certificate, or a server error.
    #[error(
        "cannot fetch {url}: the host cannot be reached ({detail}); check name, port, proxy and certificate"
    )]
    Unreachable {
        /// The remote, without user information.
        url: String,
        /// What git said.
        detail: String,
    },
    /// git failed in a way that has no name here.
    #[error("cannot fetch {url}: git failed ({detail})")]
    Git {
        /// The remote, without user information.
        url: String,
        /// What git said.
        detail: String,
    },
    /// `git`, `ssh` for an ssh repository, or what verifies signatures cannot be started.
    #[error(
        "cannot run {program}: {detail}; install it (git 2.30 or newer, OpenSSH, GnuPG for OpenPGP signatures) and put it on the PATH"
    )]
    NoProgram {
        /// The program.
        program: String,
        /// Why it did not start.
        detail: String,
    },
    /// There is no mirror yet, because no fetch has succeeded so far.
    #[error("repository {key} has not been fetched yet; fetch it first")]
    NotFetched {
        /// The mirror.
        key: String,
    },
    /// No branch, tag or commit answers to the reference.
    #[error("reference {reference:?} not found: {why}")]
    RefMissing {
        /// The reference as asked for.
        reference: String,
        /// What was looked for, and what there is.
        why: String,
    },
    /// An abbreviated commit id that more than one object answers to.
    #[error("reference {reference:?} is ambiguous: {why}")]
    RefAmbiguous {
        /// The reference as asked for.
        reference: String,
        /// Between what.
        why: String,
    },
    /// The commit is not (or no longer) in the repository.
    #[error(
        "commit {commit} is not in the repository; it may have been removed by a forced push; fetch and \
         resolve the reference again"
    )]
    CommitMissing {
        /// The commit, in hex.
        commit: String,
    },
    /// The repository asks for signed commits, and this one is not signed by anybody who may.
    #[error(
        "commit {commit} is refused: {why}; sign it with an allowed key, or change whose signatures this repository accepts"
    )]
    Unverified {
        /// The commit, in hex.
        commit: String,
        /// What is wrong with its signature.
        why: String,
    },
    /// A text is not signed by anybody whose signature is accepted.
    #[error("the signature is refused: {why}")]
    Unsigned {
        /// What is wrong with it.
        why: String,
    },
    /// The service's folder does not exist at the commit.
    #[error(
        "folder {folder:?} does not exist in commit {commit}; check the folder and reference of this service"
    )]
    FolderMissing {
        /// Path in the repository.
        folder: String,
        /// The commit, in hex.
        commit: String,
    },
    /// The service's folder is a file.
    #[error("{folder:?} is a file in commit {commit}, not a folder; name the folder that holds it")]
    NotAFolder {
        /// Path in the repository.
        folder: String,
        /// The commit, in hex.
        commit: String,
    },
    /// A values file or extra file that a service names does not exist at the commit.
    #[error("file {file:?}, which this service names, does not exist in commit {commit}")]
    FileMissing {
        /// Path in the repository.
        file: String,
        /// The commit, in hex.
        commit: String,
    },
    /// A file refers to a path outside of the repository.
    #[error("{file}: refers to {target:?}, which is outside of the repository; keep what it needs inside")]
    LeavesRepository {
        /// The file that refers, as a path in the repository.
        file: String,
        /// The path as written there.
        target: String,
    },
    /// A symbolic link that cannot be replaced by what it points to.
    #[error("symbolic link {path}: its target {target:?} {why}")]
    Symlink {
        /// The link, as a path in the repository.
        path: String,
        /// Its target as written.
        target: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A path in a commit that must not be unpacked anywhere.
    #[error("path {path:?} in the repository cannot be used: {why}")]
    BadPath {
        /// The path, lossily decoded.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A limit on sources was passed.
    #[error(
        "{file}: {what} is {actual}, over the limit of {limit}; remove it from the service's source or raise the limit"
    )]
    Limit {
        /// The file or folder that passed it, as a path in the repository.
        file: String,
        /// What was measured, with its unit.
        what: &'static str,
        /// The figure.
        actual: u64,
        /// The limit.
        limit: u64,
    },
    /// The repository needs more than repositories may have here.
    #[error(
        "cannot fetch {url}: {what} would be larger than {limit_mib} MiB (limit of bytes, {setting} of the \
         console); remove large files from the repository, or ask the console's operator for a higher limit"
    )]
    Quota {
        /// The remote, without user information.
        url: String,
        /// What would be too large.
        what: &'static str,
        /// The limit.
        limit_mib: u64,
        /// Where it is set.
        setting: &'static str,
    },
    /// The disk has no room.
    #[error("{doing}: the disk is full; free some space under {path}")]
    DiskFull {
        /// What was being written.
        doing: String,
        /// Where.
        path: String,
    },
    /// Data on disk is damaged. The mirror is made anew by the next fetch; a damaged blob has been put aside.
    #[error("{what} is damaged ({detail})")]
    Corrupt {
        /// Which data.
        what: String,
        /// How it was noticed.
        detail: String,
    },
    /// The blob store does not answer, or not as it should.
    #[error("{doing}: the blob store does not answer ({detail}); it is tried again, nothing is lost")]
    StoreAway {
        /// What was being done, and to which blob.
        doing: String,
        /// What was answered.
        detail: String,
    },
    /// An operation on a file failed.
    #[error("{doing}: {detail}")]
    Io {
        /// What was being done, with the path.
        doing: String,
        /// What the system said. No source, so that the text is whole wherever it is shown.
        detail: String,
    },
    /// The background thread that did the work ended without an answer.
    #[error("{doing}: the work was stopped before it ended")]
    Stopped {
        /// What was being done.
        doing: &'static str,
    },
}

impl Error {
    /// Turns an I/O error into ours; a full disk or quota becomes [`Error::DiskFull`].
    pub(crate) fn io(doing: impl Into<String>, path: &Path, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let doing = doing.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { doing, path: path.display().to_string() }
            }
            _ => Self::Io { doing: format!("{doing} {}", path.display()), detail: source.to_string() },
        }
    }

    /// Refuses an input. The value is shortened, so that it can be shown.
    pub(crate) fn bad(what: &'static str, value: &str, why: impl Into<String>) -> Self {
        Self::BadInput { what, value: value.chars().take(200).collect(), why: why.into() }
    }

    /// The file or folder of the repository that is at fault, where one is.
    pub fn location(&self) -> Option<&str> {
        match self {
            Self::FileMissing { file, .. }
            | Self::LeavesRepository { file, .. }
            | Self::Symlink { path: file, .. }
            | Self::BadPath { path: file, .. }
            | Self::FolderMissing { folder: file, .. }
            | Self::NotAFolder { folder: file, .. }
            | Self::Limit { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Whether trying again later, with nothing changed on our side, can help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::TimedOut { .. }
            | Self::Unreachable { .. }
            | Self::Git { .. }
            | Self::NotFetched { .. }
            | Self::CommitMissing { .. }
            | Self::DiskFull { .. }
            | Self::Corrupt { .. }
            | Self::StoreAway { .. }
            | Self::Io { .. }
            | Self::Stopped { .. } => true,
            Self::BadInput { .. }
            | Self::OutOfReach { .. }
            | Self::PlainCredentials { .. }
            | Self::Auth { .. }
            | Self::HostKey { .. }
            | Self::NotFound { .. }
            | Self::Quota { .. }
            | Self::NoProgram { .. }
            | Self::RefMissing { .. }
            | Self::RefAmbiguous { .. }
            | Self::Unverified { .. }
            | Self::Unsigned { .. }
            | Self::FolderMissing { .. }
            | Self::NotAFolder { .. }
            | Self::FileMissing { .. }
            | Self::LeavesRepository { .. }
            | Self::Symlink { .. }
            | Self::BadPath { .. }
            | Self::Limit { .. } => false,
        }
    }
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
