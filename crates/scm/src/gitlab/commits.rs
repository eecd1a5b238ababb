//! Commits by GitLab's commits API: many files in one commit. A new branch begins at the parent itself, so what its files are is read from
//! the parent's folders, which whoever made the changes has read; on a branch that is there, each file is bound by the last commit that
//! changed it, and what the commit is on top of is read from the answer.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::{StreamExt as _, TryStreamExt as _, future::join, stream};
use reqwest::{Method, header::HeaderMap};
use serde_json::{Value, json};

use super::{GitLab, wire};
use crate::{
    common,
    error::{Cause, Result},
    folders::{self, AT_ONCE},
    names::Repository,
    port::{Change, Committed, GitHost as _, NewCommit, Onto},
};

pub(super) async fn commit(host: &GitLab, repository: &Repository, new: &NewCommit) -> Result<Committed> {
    let known = known(host, repository, new);
    let (parent, known) = join(common::expect_parent(host, repository, new), known).await;
    parent?;
    let mut actions = Vec::new();
    for (change, known) in new.changes.iter().zip(known?) {
        actions.push(action(change, &known)?);
        if let Change::Write { path, executable: Some(executable), .. } = change {
            actions.push(json!({
                "action": "chmod", "file_path": path.as_str(), "execute_filemode": executable,
            }));
        }
    }
    let mut body = json!({
        "branch": new.onto.branch().as_str(), "commit_message": new.message, "actions": actions,
    });
    if let Onto::NewBranch { .. } = &new.onto {
        body["start_sha"] = new.parent.as_str().into();
    }
    if let Some(author) = &new.author {
        body["author_name"] = author.name.as_str().into();
        body["author_email"] = author.email.as_str().into();
    }
    let url = host.of(repository, &["repository", "commits"]);
    let made = match host.http.send(Method::POST, url, &body).await {
        Ok(reply) => reply.json::<wire::Made>()?,
        // Its texts differ between versions, so the state is read.
        Err(error) if matches!(error.status, Some(400 | 409 | 422)) => {
            let is_moved = match &new.onto {
                Onto::Branch(branch) => host.head(repository, branch).await? != new.parent,
                Onto::NewBranch { .. } => false,
            };
            return Err(error.with_cause(if is_moved { Cause::Moved } else { Cause::Conflict }));
        }
        Err(error) => return Err(error),
    };
    let parent = made.parent_ids.first().map(|parent| common::commit_id(parent)).transpose()?;
    let parent = parent.unwrap_or_else(|| new.parent.clone());
    Ok(Committed { commit: common::commit_id(&made.id)?, parent })
}

/// What is known of a file before it is changed.
enum Known {
    Missing,
    /// It is there, and was changed last by this commit, where that binds the change.
    There(Option<String>),
}

/// What is known of the file of each change, in their order.
async fn known(host: &GitLab, repository: &Repository, new: &NewCommit) -> Result<Vec<Known>> {
    if let Onto::NewBranch { .. } = &new.onto {
        let found = folders::at_changes(host, repository, &new.parent, &new.changes).await?;
        let one = |change: &Change| -> Result<Known> {
            let file = folders::file_at(&found, change)?;
            Ok(file.map_or(Known::Missing, |_| Known::There(None)))
        };
        return new.changes.iter().map(one).collect();
    }
    let mut asked = Vec::with_capacity(new.changes.len());
    for change in &new.changes {
        asked.push(changed_last(host, repository, new, change));
    }
    stream::iter(asked).buffered(AT_ONCE).try_collect().await
}

async fn changed_last(
    host: &GitLab,
    repository: &Repository,
    new: &NewCommit,
    change: &Change,
) -> Result<Known> {
    let mut url = host.of(repository, &["repository", "files", change.path().as_str()]);
    url.query_pairs_mut().append_pair("ref", new.parent.as_str());
    let last = |headers: &HeaderMap| {
        let last = headers.get("x-gitlab-last-commit-id")?;
        last.to_str().ok().map(str::to_owned)
    };
    match host.http.head(url).await {
        Ok(reply) => Ok(Known::There(last(&reply.headers))),
        Err(error) if error.cause == Cause::NotFound => Ok(Known::Missing),
        Err(error) => Err(error),
    }
}

fn action(change: &Change, known: &Known) -> Result<Value> {
    let path = change.path().as_str();
    let mut action = match (change, known) {
        (Change::Delete { .. }, Known::Missing) => return Err(common::is_missing(change)),
        (Change::Delete { .. }, Known::There(_)) => json!({"action": "delete", "file_path": path}),
        (Change::Write { content, .. }, known) => json!({
            "action": if matches!(known, Known::Missing) { "create" } else { "update" },
            "file_path": path, "encoding": "base64", "content": STANDARD.encode(content),
        }),
    };
    if let Known::There(Some(last)) = known {
        action["last_commit_id"] = last.as_str().into();
    }
    Ok(action)
}
