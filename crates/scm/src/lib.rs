//! Git hosts behind one port, [`GitHost`]: branches and commits without a clone, pull requests, reviews, statuses, webhooks.
//!
//! ```text
//! Connection + Options ──connect──▶ Arc<dyn GitHost>
//! ```
//!
//! # Guarantees
//! - A credential goes to the scheme, host and port of its connection only. Redirects to other places, and to
//!   other repositories, are refused.
//! - A token of an App opens the repository that a request is about, and no other.
//! - Every address is checked when it is connected to ([`plural_reach::Reach`]).
//! - Answers are bounded in bytes, lists in pages and bytes, requests in time. A list that was cut says so.
//! - What went wrong is typed ([`Cause`]). No error and no `Debug` text holds a credential.
//! - Folders and files of commits, which never change, are held for later questions of the same host: bounded, and by none else.
//! - Opening a pull request for a branch that has an open one gives that one.

mod app_token;
mod azure;
mod bitbucket;
mod common;
mod connection;
mod datacenter;
mod error;
mod folders;
mod gitlab;
mod http;
mod hub;
mod names;
mod objects;
mod plain;
mod port;
mod signing;

pub use connection::{Connection, Credentials, HostKind, Options, Proxies, connect};
pub use error::{Cause, Error, Result};
pub use names::{BranchName, CommitId, FilePath, Repository};
pub use plain::{MIRROR_PREFIX, PlainConnection, connect_plain};
pub use port::{
    Change, ChangedFile, Check, CommitTold, Committed, EntryKind, FileStatus, Followed, GitHost, List, Look,
    Looks, MergeMethod, NewCommit, NewPullRequest, Onto, Opened, Person, PullRequest, PullRequestEdit,
    PullRequestState, Review, Scope, Status, StatusState, TreeEntry, Verdict, WebhookSpec,
};
