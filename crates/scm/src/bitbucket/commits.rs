//! Commits by Bitbucket's source endpoint: one form with all files, bound to its parent.

use bytes::Bytes;
use futures::future::join3;
use reqwest::{Method, header::LOCATION};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::{Bitbucket, wire};
use crate::{
    common,
    error::{Cause, Error, Result},
    folders,
    names::{CommitId, Repository},
    port::{Change, Committed, EntryKind, GitHost as _, NewCommit},
};

pub(super) async fn commit(host: &Bitbucket, repository: &Repository, new: &NewCommit) -> Result<Committed> {
    let found = folders::at_changes(host, repository, &new.parent, &new.changes);
    let parent = common::expect_parent(host, repository, new);
    let free = common::expect_new_branch(host, repository, &new.onto);
    let (parent, free, found) = join3(parent, free, found).await;
    parent?;
    free?;
    let found = found?;
    let mut form = Form::new()?;
    form.field("message", new.message.as_bytes());
    form.field("branch", new.onto.branch().as_str().as_bytes());
    form.field("parents", new.parent.as_str().as_bytes());
    if let Some(author) = &new.author {
        form.field("author", format!("{} <{}>", author.name, author.email).as_bytes());
    }
    for change in &new.changes {
        let path = change.path().as_str();
        if path.contains('"') {
            return Err(Error::invalid(format!("Bitbucket takes no path with a quotation mark: {path}")));
        }
        let known = folders::file_at(&found, change)?;
        match change {
            Change::Delete { .. } => form.field("files", path.as_bytes()),
            Change::Write { content, executable, .. } => {
                let was = known.is_some_and(|known| known.kind == Some(EntryKind::Executable));
                form.file(path, content, executable.unwrap_or(was));
            }
        }
    }
    let (kind, body) = form.done();
    let reply = match host.http.send_form(Method::POST, host.of(repository, &["src"]), kind, body).await {
        Ok(reply) => reply,
        // Its texts differ, so the state is read.
        Err(error) if matches!(error.status, Some(400 | 409)) => {
            let at = common::base(&new.onto);
            let is_moved = host.head(repository, at).await? != new.parent;
            return Err(error.with_cause(if is_moved { Cause::Moved } else { Cause::Conflict }));
        }
        Err(error) => return Err(error),
    };
    let location = reply.headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let made = location.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    Ok(Committed { commit: common::commit_id(made)?, parent: new.parent.clone() })
}

pub(super) enum Known {
    File,
    Folder,
}

/// What a path is in a commit.
pub(super) async fn kind(
    host: &Bitbucket,
    repository: &Repository,
    commit: &CommitId,
    path: &str,
) -> Result<Option<Known>> {
    let mut url = host.of(repository, &["src", commit.as_str(), path]);
    url.query_pairs_mut().append_pair("format", "meta");
    match host.http.get(url).await {
        Ok(reply) => {
            let entry: wire::Entry = reply.json()?;
            Ok(Some(entry.told().map_or(Known::Folder, |_| Known::File)))
        }
        Err(error) if error.cause == Cause::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// `multipart/form-data`.
struct Form {
    boundary: String,
    body: Vec<u8>,
}

impl Form {
    fn new() -> Result<Self> {
        // No content ends a part by chance.
        let mut random = [0_u8; 24];
        let filled = SystemRandom::new().fill(&mut random);
        filled.map_err(|_| Error::new(Cause::Temporary, "this machine gives no random numbers"))?;
        Ok(Self { boundary: hex::encode(random), body: Vec::new() })
    }

    fn part(&mut self, head: &str, content: &[u8]) {
        self.body.extend_from_slice(format!("--{}\r\n{head}\r\n\r\n", self.boundary).as_bytes());
        self.body.extend_from_slice(content);
        self.body.extend_from_slice(b"\r\n");
    }

    fn field(&mut self, name: &str, content: &[u8]) {
        self.part(&format!("Content-Disposition: form-data; name=\"{name}\""), content);
    }

    /// A file is named by its path, which begins with a slash, so that none is taken for a field.
    fn file(&mut self, path: &str, content: &[u8], is_executable: bool) {
        let attributes = if is_executable { "; x-attributes:\"executable\"" } else { "" };
        let head = format!(
            "Content-Disposition: form-data; name=\"/{path}\"; filename=\"file\"{attributes}\r\n\
             Content-Type: application/octet-stream"
        );
        self.part(&head, content);
    }

    fn done(mut self) -> (String, Bytes) {
        self.body.extend_from_slice(format!("--{}--\r\n", self.boundary).as_bytes());
        (format!("multipart/form-data; boundary={}", self.boundary), self.body.into())
    }
}
