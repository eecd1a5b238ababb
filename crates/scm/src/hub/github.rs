//! Commits by GitHub's git data API: objects first, which nobody sees, then one move of the branch.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::{SecondsFormat, Utc};
use futures::future::join3;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Hub, wire};
use crate::{
    common,
    error::{Cause, Error, Result},
    folders::{self, Entry},
    names::Repository,
    port::{Change, Committed, EntryKind, NewCommit, Onto, Person},
    signing::Signer,
};

#[derive(Deserialize)]
struct Parent {
    tree: wire::Sha,
}

pub(super) async fn commit(hub: &Hub, repository: &Repository, new: &NewCommit) -> Result<Committed> {
    let url = hub.of(repository, &["git/commits", new.parent.as_str()]);
    let found = folders::at_changes(hub, repository, &new.parent, &new.changes);
    let (head, parent, found) =
        join3(common::expect_parent(hub, repository, new), hub.http.get(url), found).await;
    head?;
    let (parent, found) = (parent?.json::<Parent>()?, found?);
    let mut entries = Vec::new();
    for change in &new.changes {
        entries.push(entry(hub, repository, folders::file_at(&found, change)?, change).await?);
    }
    let body = json!({"base_tree": parent.tree.sha, "tree": entries});
    let tree: wire::Sha =
        hub.http.send(Method::POST, hub.of(repository, &["git/trees"]), &body).await?.json()?;
    let mut body = json!({
        "message": new.message, "tree": tree.sha, "parents": [new.parent.as_str()],
    });
    if let Some(signer) = &hub.signer {
        sign(&mut body, signer, &committer(hub).await?, new, &tree.sha);
    } else if let Some(author) = &new.author {
        body["author"] = json!({"name": author.name, "email": author.email});
    }
    let made: wire::Sha =
        hub.http.send(Method::POST, hub.of(repository, &["git/commits"]), &body).await?.json()?;
    let committed = Committed { commit: common::commit_id(&made.sha)?, parent: new.parent.clone() };
    let branch = new.onto.branch();
    let moved = match &new.onto {
        Onto::NewBranch { .. } => {
            let body = json!({"ref": common::reference(branch), "sha": made.sha});
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

/// Adds people, time and signature to a commit: it is signed as the host will write it.
fn sign(body: &mut Value, signer: &Signer, committer: &Person, new: &NewCommit, tree: &str) {
    let (author, at, message) =
        (new.author.as_ref().unwrap_or(committer), Utc::now(), new.message.trim_end());
    let line = |person: &Person| format!("{} <{}> {} +0000", person.name, person.email, at.timestamp());
    let payload = format!(
        "tree {tree}\nparent {}\nauthor {}\ncommitter {}\n\n{message}",
        new.parent,
        line(author),
        line(committer)
    );
    let date = at.to_rfc3339_opts(SecondsFormat::Secs, true);
    let person = |person: &Person| json!({"name": person.name, "email": person.email, "date": date});
    body["message"] = message.into();
    body["author"] = person(author);
    body["committer"] = person(committer);
    body["signature"] = signer.sign(payload.as_bytes()).into();
}

#[derive(Deserialize)]
struct Me {
    id: u64,
    login: String,
    name: Option<String>,
    email: Option<String>,
}

/// The account of the connection: GitHub verifies a signature by the keys of whoever the commit names as its committer.
async fn committer(hub: &Hub) -> Result<Person> {
    let Me { id, login, name, email } = hub.http.get(hub.http.at(&["user"])).await?.json()?;
    let given = |text: Option<String>| {
        let text = text.map(|text| text.trim().to_owned());
        text.filter(|text| !text.is_empty() && !text.contains(|c: char| c.is_control() || "<>".contains(c)))
    };
    let is_public = hub.http.at(&[]).host_str() == Some("api.github.com");
    let hidden = is_public.then(|| format!("{id}+{login}@users.noreply.github.com"));
    let email = given(email).or(hidden).ok_or_else(|| {
        let why = "the connection's account shows no e-mail address, which a signed commit has to name: have it show one";
        Error::new(Cause::Refused, why)
    })?;
    Ok(Person { name: given(name).unwrap_or(login), email })
}

async fn entry(hub: &Hub, repository: &Repository, known: Option<&Entry>, change: &Change) -> Result<Value> {
    let path = change.path().as_str();
    let was_executable = known.is_some_and(|entry| entry.kind == Some(EntryKind::Executable));
    match change {
        Change::Write { content, executable, .. } => {
            // An executable file stays one.
            let is_executable = executable.unwrap_or(was_executable);
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
        Change::Delete { .. } => Ok(json!({"path": path, "mode": "100644", "type": "blob", "sha": null})),
    }
}
