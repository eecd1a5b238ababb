//! Mirrors, tree ids, artifacts: from a git remote to the bytes that a cluster gets.
//!
//! ```text
//! Remote ──fetch──▶ Mirrors ──▶ Repository ──resolve(RefSpec)──▶ commit
//!                                   │ closures(commit, &[ServiceSource])
//!                                   ▼
//!                                Closure (source digest) ──artifact──▶ Artifact (tar, digest) ──put──▶ BlobStore
//! ```
//!
//! - [`Mirrors`] keeps a bare mirror per [`Remote`] under a data folder and fetches by the `git` program. Local paths are read
//!   in place and [`Mirrors::watch`] tells when their references move.
//! - [`Repository`] reads by gix: no checkout, no working tree, no filters. Its methods block for milliseconds; call them in
//!   `spawn_blocking`.
//! - [`Closure`] is the set of files that make a service's source; its digest moves only when one of them does.
//! - [`Artifact`] is the closure as a canonical tar; [`BlobStore`] keeps it under its digest.
//!
//! Nothing here is global: every setting is an option of [`Mirrors::open`] or [`DiskBlobs::open`].

mod artifact;
mod blobs;
mod bundle;
mod cache;
mod closure;
mod error;
mod fetch;
mod known_hosts;
mod merge;
mod mirrors;
mod objects;
mod overlay;
mod path;
mod push;
mod quota;
mod refspec;
mod relay;
mod remote;
mod repair;
mod repository;
mod route;
mod semver_range;
mod sessions;
mod signature;
mod single;
mod stderr;
mod watch;

pub use artifact::{Artifact, Limits, SourceFile};
pub use blobs::{
    Answer, BlobStore, Collected, DiskBlobs, DiskOptions, NOTE_BYTES, Stored, compress_blob, is_note_name,
    verify_blob,
};
pub use bundle::Bundle;
pub use cache::Bounded;
pub use closure::{Closure, Digest, Entry, Note, NoteKind, ServiceSource};
pub use error::{Error, Result};
pub use merge::Merge;
pub use mirrors::{Fetched, LocalPaths, Mirrors, NewHostKeys, Options};
pub use objects::Oid;
pub use push::{FileChange, Push};
pub use quota::Quota;
pub use refspec::RefSpec;
pub use remote::{Credentials, HostKeys, MirrorKey, Remote, RemoteUrl};
pub use repository::authors::Authors;
pub use repository::{Commit, Listed, ListedKind, Repository, Resolved};
pub use semver_range::Range;
pub use signature::Signers;
pub use watch::RefWatch;
