//! What holds for every host.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::{
    error::{Cause, Error, Result},
    http::Reply,
    names::{BranchName, CommitId, Repository},
    port::{Change, GitHost, List, NewCommit, Onto, PullRequest},
};

/// Files of one commit.
const CHANGES: usize = 1000;
/// Times to wait for a host that still checks whether a pull request can be merged.
pub(crate) const STILL_CHECKED: [Duration; 6] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1600),
    Duration::from_millis(3200),
];

/// What a host tells as null is as if it had not told it.
pub(crate) fn or_nothing<'de, D, T>(told: D) -> std::result::Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(told)?.unwrap_or_default())
}

/// What no host can mean.
pub(crate) fn check(commit: &NewCommit) -> Result<()> {
    if commit.changes.is_empty() {
        return Err(Error::invalid("a commit changes at least one file"));
    }
    if commit.changes.len() > CHANGES {
        return Err(Error::invalid(format!("a commit changes at most {CHANGES} files")));
    }
    let mut paths: Vec<&str> = commit.changes.iter().map(|change| change.path().as_str()).collect();
    paths.sort_unstable();
    if let Some((path, _)) = paths.iter().zip(paths.iter().skip(1)).find(|(one, next)| one == next) {
        return Err(Error::invalid(format!("a commit changes {path:?} twice")));
    }
    Ok(())
}

/// The branch whose head a commit's parent has to be.
pub(crate) fn base(onto: &Onto) -> &BranchName {
    match onto {
        Onto::NewBranch { base, .. } => base,
        Onto::Branch(branch) => branch,
    }
}

/// Refuses a commit whose parent is not the head of the branch that it goes on top of.
pub(crate) async fn expect_parent(
    host: &dyn GitHost,
    repository: &Repository,
    commit: &NewCommit,
) -> Result<()> {
    let at = base(&commit.onto);
    let head = host.head(repository, at).await?;
    if head == commit.parent {
        return Ok(());
    }
    Err(moved(&format!("branch {at} of {repository}"), head.as_str(), &commit.parent))
}

/// Refuses a new branch that is there, for a host that would put the commit on it where it is at the parent.
pub(crate) async fn expect_new_branch(
    host: &dyn GitHost,
    repository: &Repository,
    onto: &Onto,
) -> Result<()> {
    let Onto::NewBranch { branch, .. } = onto else { return Ok(()) };
    match host.head(repository, branch).await {
        Ok(_) => Err(taken(repository, branch)),
        Err(error) if error.cause == Cause::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether a branch is there to be removed; [`Cause::Moved`] where it is at another commit.
pub(crate) async fn is_at(
    host: &dyn GitHost,
    repository: &Repository,
    branch: &BranchName,
    at: &CommitId,
) -> Result<bool> {
    match host.head(repository, branch).await {
        Ok(head) if head == *at => Ok(true),
        Ok(head) => Err(moved(&format!("branch {branch} of {repository}"), head.as_str(), at)),
        Err(error) if error.cause == Cause::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A new branch is there already.
pub(crate) fn taken(repository: &Repository, branch: &BranchName) -> Error {
    Error::new(Cause::Conflict, format!("{repository} has a branch {branch}"))
}

/// The full name of a branch.
pub(crate) fn reference(branch: &BranchName) -> String {
    format!("refs/heads/{branch}")
}

/// A pull request, as errors name it.
pub(crate) fn named(repository: &Repository, number: u64) -> String {
    format!("pull request {number} of {repository}")
}

/// Refuses to do something to a pull request whose head is another commit than whoever asks saw.
pub(crate) fn expect_head(
    now: &PullRequest,
    repository: &Repository,
    number: u64,
    head: &CommitId,
) -> Result<()> {
    if now.head_commit == head.as_str() {
        return Ok(());
    }
    Err(moved(&named(repository, number), &now.head_commit, head))
}

pub(crate) fn moved(what: &str, is: &str, expected: &CommitId) -> Error {
    Error::new(Cause::Moved, format!("{what} is at {is}, not at {expected}"))
}

pub(crate) fn is_missing(change: &Change) -> Error {
    Error::new(Cause::Conflict, format!("{} is to be deleted and is not there", change.path()))
}

/// Refuses a change of who may run a file, for a host whose API has no word for it.
pub(crate) fn keeps_modes(host: &str, change: &Change) -> Result<()> {
    match change {
        Change::Write { path, executable: Some(_), .. } => Err(Error::new(
            Cause::Unsupported,
            format!("{host}'s API changes of no file whether it may be run: {path} has to be made by git"),
        )),
        Change::Write { executable: None, .. } | Change::Delete { .. } => Ok(()),
    }
}

/// How the one comment with a marker begins.
pub(crate) fn mark(marker: &str) -> Result<String> {
    if marker.is_empty() || !marker.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(Error::invalid("a comment's marker has letters, digits and '-' only"));
    }
    Ok(format!("<!-- plural:{marker} -->"))
}

/// There may be the comment among those that are not read, so none is added.
pub(crate) fn too_many_comments(repository: &Repository, number: u64) -> Error {
    Error::new(Cause::TooLarge, format!("{} has more comments than are read", named(repository, number)))
}

/// A merged pull request is not closed.
pub(crate) fn is_merged(repository: &Repository, number: u64) -> Error {
    Error::new(Cause::Conflict, format!("{} is merged: it cannot be closed", named(repository, number)))
}

/// The connection opened it itself, and not every host refuses its approval.
pub(crate) fn is_own(repository: &Repository, number: u64) -> Error {
    let what = format!("{} is the connection's own: it is not approved", named(repository, number));
    Error::new(Cause::Refused, what)
}

/// An organisation's name, by the same rule as an owner's.
pub(crate) fn organisation(name: &str) -> Result<String> {
    Ok(Repository::parse(&format!("{name}/x"))?.owner().to_owned())
}

/// What was to be removed is not there any more.
pub(crate) fn gone(removed: Result<Reply>) -> Result<()> {
    match removed {
        Err(error) if error.cause != Cause::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The webhooks of a list that send to this address. One could be among those that are not read: then none is made.
pub(crate) fn sending<T, I>(
    found: List<T>,
    url: &str,
    told: impl Fn(T) -> (Option<String>, I),
) -> Result<Vec<I>> {
    let List { items, cut } = found;
    let known: Vec<I> =
        items.into_iter().map(told).filter(|(to, _)| to.as_deref() == Some(url)).map(|(_, id)| id).collect();
    if cut && known.is_empty() {
        return Err(Error::new(
            Cause::TooLarge,
            "the host has more webhooks there than are read: remove old ones first",
        ));
    }
    Ok(known)
}

/// A commit's id in an answer.
pub(crate) fn commit_id(text: &str) -> Result<CommitId> {
    CommitId::parse(text).map_err(|error| error.with_cause(Cause::Malformed))
}

/// A branch's name in an answer.
pub(crate) fn branch_name(text: &str) -> Result<BranchName> {
    BranchName::parse(text).map_err(|error| error.with_cause(Cause::Malformed))
}
