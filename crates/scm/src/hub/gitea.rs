//! Commits by Gitea's contents API: many files in one commit. It takes a branch and no parent, so each file that is there is bound by its
//! blob's id, and what the commit is on top of is read from the answer. The ids are those of the parent's folders, which whoever made the
//! changes has read: then a commit is one question, where the branch is, and one request.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::join;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Hub, wire};
use crate::{
    common,
    error::{Cause, Error, Result},
    folders::{self, Entry},
    names::Repository,
    port::{Change, Committed, GitHost as _, List, NewCommit, Onto},
};

/// Entries of a tree's page.
const TREE_PAGE: usize = 1000;
/// Pages of a tree: 100 000 entries.
const TREE_PAGES: usize = 100;
/// Labels that are made get this colour.
const COLOUR: &str = "#1d76db";

#[derive(Deserialize)]
struct Answer {
    commit: Made,
}

#[derive(Deserialize)]
struct Made {
    sha: String,
    parents: Vec<wire::Sha>,
}

#[derive(Deserialize)]
struct Label {
    id: u64,
    name: String,
}

pub(super) async fn commit(hub: &Hub, repository: &Repository, new: &NewCommit) -> Result<Committed> {
    let found = folders::at_changes(hub, repository, &new.parent, &new.changes);
    let (parent, found) = join(common::expect_parent(hub, repository, new), found).await;
    parent?;
    let found = found?;
    let mut files = Vec::new();
    for change in &new.changes {
        files.push(file(folders::file_at(&found, change)?, change)?);
    }
    let mut body = json!({"message": new.message, "files": files});
    match &new.onto {
        Onto::NewBranch { branch, base } => {
            body["branch"] = base.as_str().into();
            body["new_branch"] = branch.as_str().into();
        }
        Onto::Branch(branch) => body["branch"] = branch.as_str().into(),
    }
    if let Some(author) = &new.author {
        body["author"] = json!({"name": author.name, "email": author.email});
    }
    let answer = match hub.http.send(Method::POST, hub.of(repository, &["contents"]), &body).await {
        Ok(reply) => reply.json::<Answer>()?,
        Err(error) if matches!(error.status, Some(409 | 422)) => {
            let cause = cause(hub, repository, new).await?;
            return Err(error.with_cause(cause));
        }
        Err(error) => return Err(error),
    };
    let Made { sha, parents } = answer.commit;
    let parent = parents.first().map(|parent| common::commit_id(&parent.sha)).transpose()?;
    let parent = parent.unwrap_or_else(|| new.parent.clone());
    if let (Onto::NewBranch { branch, base }, true) = (&new.onto, parent != new.parent) {
        // The base moved between the look and the commit. Nobody knows the branch yet, so it goes again.
        hub.delete_branch(repository, branch, &common::commit_id(&sha)?).await?;
        return Err(common::moved(&format!("branch {base} of {repository}"), parent.as_str(), &new.parent));
    }
    Ok(Committed { commit: common::commit_id(&sha)?, parent })
}

/// Why it was refused: the host's texts differ between versions, so the state is read.
async fn cause(hub: &Hub, repository: &Repository, new: &NewCommit) -> Result<Cause> {
    let at = match &new.onto {
        Onto::NewBranch { branch, base } => match hub.head(repository, branch).await {
            Ok(_) => return Ok(Cause::Conflict),
            Err(error) if error.cause == Cause::NotFound => base,
            Err(error) => return Err(error),
        },
        Onto::Branch(branch) => branch,
    };
    Ok(if hub.head(repository, at).await? == new.parent { Cause::Conflict } else { Cause::Moved })
}

fn file(known: Option<&Entry>, change: &Change) -> Result<Value> {
    common::keeps_modes("Gitea", change)?;
    let path = change.path().as_str();
    let sha = match known {
        Some(Entry { id: Some(id), .. }) => Some(id.as_str()),
        Some(Entry { id: None, .. }) => {
            return Err(Error::new(Cause::Malformed, format!("the host tells no id of {path}")));
        }
        None => None,
    };
    Ok(match (change, sha) {
        (Change::Write { content, .. }, None) => {
            json!({"operation": "create", "path": path, "content": STANDARD.encode(content)})
        }
        (Change::Write { content, .. }, Some(sha)) => {
            json!({"operation": "update", "path": path, "content": STANDARD.encode(content), "sha": sha})
        }
        (Change::Delete { .. }, sha) => json!({"operation": "delete", "path": path, "sha": sha}),
    })
}

/// A tree, or as much of it as is read.
pub(super) struct Read {
    pub(super) tree: wire::Tree,
    /// There is more.
    pub(super) cut: bool,
}

/// A tree by its id or its commit's, in pages; `truncated` means that there is another.
pub(super) async fn tree(hub: &Hub, repository: &Repository, id: &str, deep: bool) -> Result<Read> {
    let mut all = wire::Tree { tree: Vec::new(), truncated: false };
    let mut read = 0;
    for page in 1..=TREE_PAGES {
        let mut url = hub.of(repository, &["git/trees", id]);
        if deep {
            url.query_pairs_mut().append_pair("recursive", "true");
        }
        url.query_pairs_mut()
            .append_pair("page", &page.to_string())
            .append_pair("per_page", &TREE_PAGE.to_string());
        let reply = hub.http.get(url).await?;
        hub.http.count(&reply, &mut read)?;
        let tree: wire::Tree = reply.json()?;
        let is_last = !tree.truncated || tree.tree.is_empty();
        all.tree.extend(tree.tree);
        if is_last {
            return Ok(Read { tree: all, cut: false });
        }
    }
    Ok(Read { tree: all, cut: true })
}

/// Ids of these labels; those that are missing are made.
pub(super) async fn label_ids(hub: &Hub, repository: &Repository, names: &[String]) -> Result<Vec<u64>> {
    let url = hub.of(repository, &["labels"]);
    let known: List<Label> = hub.http.list(&url, hub.size()).await?;
    let mut ids = Vec::new();
    for name in names {
        if let Some(label) = known.items.iter().find(|label| label.name == *name) {
            ids.push(label.id);
            continue;
        }
        let body = json!({"name": name, "color": COLOUR});
        let made: Label = hub.http.send(Method::POST, url.clone(), &body).await?.json()?;
        ids.push(made.id);
    }
    Ok(ids)
}
