//! Commits by GitHub's git data API: objects first, which nobody sees, then one move of the branch.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Hub, wire};
use crate::{
    common::{self, is_missing},
    error::{Cause, Result},
    names::Repository,
    port::{Change, Committed, EntryKind, GitHost as _, List, NewCommit, Onto},
};

#[derive(Deserialize)]
struct Parent {
    tree: wire::Sha,
}

pub(super) async fn commit(hub: &Hub, repository: &Repository, new: &NewCommit) -> Result<Committed> {
    let url = hub.of(repository, &["git/commits", new.parent.as_str()]);
    let parent: Parent = hub.http.get(url).await?.json()?;
    let List { items, cut } = hub.tree(repository, &new.parent).await?;
    let before = Before { kinds: items.into_iter().map(|entry| (entry.path, entry.kind)).collect(), cut };
    let mut entries = Vec::new();
    for change in &new.changes {
        entries.push(entry(hub, repository, &before, change).await?);
    }
    let body = json!({"base_tree": parent.tree.sha, "tree": entries});
    let tree: wire::Sha =
        hub.http.send(Method::POST, hub.of(repository, &["git/trees"]), &body).await?.json()?;
    let mut body = json!({
        "message": new.message, "tree": tree.sha, "parents": [new.parent.as_str()],
    });
    if let Some(author) = &new.author {
        body["author"] = json!({"name": author.name, "email": author.email});
    }
    let made: wire::Sha =
        hub.http.send(Method::POST, hub.of(repository, &["git/commits"]), &body).await?.json()?;
    let committed = Committed { commit: common::commit_id(&made.sha)?, parent: new.parent.clone() };
    let branch = new.onto.branch();
    let moved = match &new.onto {
        Onto::NewBranch { .. } => {
            let body = json!({"ref": format!("refs/heads/{branch}"), "sha": made.sha});
            hub.http.send(Method::POST, hub.of(repository, &["git/refs"]), &body).await
        }
        Onto::Branch(_) => {
            let url = hub.of(repository, &["git/refs/heads", branch.as_str()]);
            hub.http.send(Method::PATCH, url, &json!({"sha": made.sha, "force": false})).await
        }
    };
    match (moved, &new.onto) {
        (Ok(_), _) => Ok(committed),
        (Err(error), Onto::NewBranch { .. }) if error.said.contains("already exists") => {
            Err(error.with_cause(Cause::Conflict))
        }
        (Err(error), Onto::Branch(_)) if error.said.contains("not a fast forward") => {
            Err(error.with_cause(Cause::Moved))
        }
        (Err(error), _) => Err(error),
    }
}

/// What a path is in the commit before.
struct Before {
    kinds: HashMap<String, EntryKind>,
    /// There are more paths than the host lists.
    cut: bool,
}

async fn entry(hub: &Hub, repository: &Repository, before: &Before, change: &Change) -> Result<Value> {
    let path = change.path().as_str();
    let kind = before.kinds.get(path);
    match change {
        Change::Write { content, executable, .. } => {
            // An executable file stays one.
            let is_executable = executable.unwrap_or(kind == Some(&EntryKind::Executable));
            let mode = if is_executable { "100755" } else { "100644" };
            let mut entry = json!({"path": path, "mode": mode, "type": "blob"});
            if let Ok(text) = std::str::from_utf8(content) {
                entry["content"] = text.into();
            } else {
                let body = json!({"content": STANDARD.encode(content), "encoding": "base64"});
                let url = hub.of(repository, &["git/blobs"]);
                let blob: wire::Sha = hub.http.send(Method::POST, url, &body).await?.json()?;
                entry["sha"] = blob.sha.into();
            }
            Ok(entry)
        }
        Change::Delete { .. } if kind.is_none() && !before.cut => Err(is_missing(change)),
        Change::Delete { .. } => Ok(json!({"path": path, "mode": "100644", "type": "blob", "sha": null})),
    }
}
