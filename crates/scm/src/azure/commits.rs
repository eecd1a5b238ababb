//! Commits by Azure DevOps' pushes: all files in one request, bound to the commit that the branch is at.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::Utc;
use futures::future::join3;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use super::{Azure, wire};
use crate::{
    common,
    error::{Cause, Error, Result},
    folders,
    names::{CommitId, Repository},
    port::{Change, Committed, GitHost as _, NewCommit, Onto},
};

pub(super) async fn commit(host: &Azure, repository: &Repository, new: &NewCommit) -> Result<Committed> {
    let found = folders::at_changes(host, repository, &new.parent, &new.changes);
    let parent = common::expect_parent(host, repository, new);
    let free = common::expect_new_branch(host, repository, &new.onto);
    let (parent, free, found) = join3(parent, free, found).await;
    parent?;
    free?;
    let found = found?;
    let mut changes: Vec<Value> = Vec::with_capacity(new.changes.len());
    for change in &new.changes {
        common::keeps_modes("Azure DevOps", change)?;
        let path = change.path().as_str();
        let item = json!({"path": format!("/{path}")});
        let is_there = folders::file_at(&found, change)?.is_some();
        changes.push(match change {
            Change::Delete { .. } => json!({"changeType": "delete", "item": item}),
            Change::Write { content, .. } => json!({
                "changeType": if is_there { "edit" } else { "add" },
                "item": item,
                "newContent": {"content": STANDARD.encode(content), "contentType": "base64encoded"},
            }),
        });
    }
    let mut commit = json!({"comment": new.message, "changes": changes});
    if let Some(author) = &new.author {
        let now = Utc::now().to_rfc3339();
        commit["author"] = json!({"name": author.name, "email": author.email, "date": now});
    }
    // A branch that is not there begins at what is told as its old commit.
    let update = json!({"name": common::reference(new.onto.branch()), "oldObjectId": new.parent.as_str()});
    let body = json!({"refUpdates": [update], "commits": [commit]});
    let pushed: wire::Pushed =
        match host.http.send(Method::POST, host.of(repository, &["pushes"]), &body).await {
            Ok(reply) => reply.json()?,
            // Its texts differ, so the state is read.
            Err(error) if matches!(error.status, Some(400 | 409)) => {
                return Err(cause(host, repository, new, error).await?);
            }
            Err(error) => return Err(error),
        };
    let missing = || Error::new(Cause::Malformed, format!("a push to {repository} tells no commit"));
    let made = pushed.commits.first().ok_or_else(missing)?;
    Ok(Committed { commit: common::commit_id(&made.commit_id)?, parent: new.parent.clone() })
}

/// The error of a push that was refused.
async fn cause(host: &Azure, repository: &Repository, new: &NewCommit, error: Error) -> Result<Error> {
    let at = host.head(repository, new.onto.branch()).await;
    let cause = match (&new.onto, at) {
        (Onto::Branch(_), Ok(at)) if at != new.parent => Cause::Moved,
        (Onto::Branch(_), Err(missing)) if missing.cause == Cause::NotFound => Cause::Moved,
        (Onto::Branch(_) | Onto::NewBranch { .. }, Ok(_)) => Cause::Conflict,
        (Onto::NewBranch { .. }, Err(missing)) if missing.cause == Cause::NotFound => Cause::Conflict,
        (_, Err(error)) => return Err(error),
    };
    Ok(error.with_cause(cause))
}

pub(super) enum Known {
    File,
    Folder,
}

/// The address of a path in a commit.
pub(super) fn item(host: &Azure, repository: &Repository, commit: &CommitId, path: &str) -> Url {
    let mut url = host.of(repository, &["items"]);
    url.query_pairs_mut()
        .append_pair("path", &format!("/{path}"))
        .append_pair("versionDescriptor.versionType", "commit")
        .append_pair("versionDescriptor.version", commit.as_str());
    url
}

/// What a path is in a commit.
pub(super) async fn kind(
    host: &Azure,
    repository: &Repository,
    commit: &CommitId,
    path: &str,
) -> Result<Option<Known>> {
    let mut url = item(host, repository, commit, path);
    url.query_pairs_mut().append_pair("$format", "json");
    match host.http.get(url).await {
        Ok(reply) => {
            let item: wire::Item = reply.json()?;
            Ok(Some(if item.is_folder() { Known::Folder } else { Known::File }))
        }
        Err(error) if error.cause == Cause::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The tree of a commit.
pub(super) async fn root(host: &Azure, repository: &Repository, commit: &CommitId) -> Result<String> {
    let found: wire::Commit =
        host.http.get(host.of(repository, &["commits", commit.as_str()])).await?.json()?;
    folders::object_id(&found.tree_id)
        .ok_or_else(|| Error::new(Cause::Malformed, format!("{commit} of {repository} has no tree")))
}

/// A tree, with those in it where it is `deep`. It comes in one answer, so one that is larger than is read is an error.
pub(super) async fn tree(
    host: &Azure,
    repository: &Repository,
    id: &str,
    deep: bool,
) -> Result<Vec<wire::Entry>> {
    let mut url = host.of(repository, &["trees", id]);
    if deep {
        url.query_pairs_mut().append_pair("recursive", "true");
    }
    let tree: wire::Tree = host.http.get(url).await?.json()?;
    Ok(tree.tree_entries)
}
