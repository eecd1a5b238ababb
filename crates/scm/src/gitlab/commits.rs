//! Commits by GitLab's commits API: many files in one commit. A new branch begins at the parent itself; on a branch that is there, each file
//! is bound by the last commit that changed it, and what the commit is on top of is read from the answer.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Method;
use serde_json::{Value, json};

use super::{GitLab, wire};
use crate::{
    common,
    error::{Cause, Result},
    names::Repository,
    port::{Change, Committed, GitHost as _, NewCommit, Onto},
};

pub(super) async fn commit(host: &GitLab, repository: &Repository, new: &NewCommit) -> Result<Committed> {
    let mut actions = Vec::new();
    for change in &new.changes {
        actions.push(action(host, repository, new, change).await?);
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

async fn action(host: &GitLab, repository: &Repository, new: &NewCommit, change: &Change) -> Result<Value> {
    let path = change.path().as_str();
    let mut url = host.of(repository, &["repository", "files", path]);
    url.query_pairs_mut().append_pair("ref", new.parent.as_str());
    let known = match host.http.head(url).await {
        Ok(reply) => Some(reply.headers),
        Err(error) if error.cause == Cause::NotFound => None,
        Err(error) => return Err(error),
    };
    let is_there = known.is_some();
    let mut action = match (change, is_there) {
        (Change::Delete { .. }, false) => return Err(common::is_missing(change)),
        (Change::Delete { .. }, true) => json!({"action": "delete", "file_path": path}),
        (Change::Write { content, .. }, _) => json!({
            "action": if is_there { "update" } else { "create" },
            "file_path": path, "encoding": "base64", "content": STANDARD.encode(content),
        }),
    };
    let last = known.as_ref().and_then(|headers| headers.get("x-gitlab-last-commit-id"));
    if let Some(last) = last.and_then(|last| last.to_str().ok()) {
        action["last_commit_id"] = last.into();
    }
    Ok(action)
}
