//! GitLab: projects in groups of any depth, and merge requests, which are pull requests here.

mod commits;
mod wire;

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::{Method, Url};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    common::{self, STILL_CHECKED},
    error::{Cause, Error, Result},
    folders::{self, Entry, Folder, Folders},
    http::Http,
    names::{BranchName, CommitId, FilePath, Repository},
    objects::Objects,
    port::{
        ChangedFile, Check, CommitTold, Committed, GitHost, List, Looks, MergeMethod, NewCommit,
        NewPullRequest, Opened, PullRequest, PullRequestEdit, PullRequestState, Review, Scope, Status,
        StatusState, TreeEntry, Verdict, WebhookSpec,
    },
};

/// Characters of a status' description.
const DESCRIPTION: usize = 255;
/// How a page's size is asked for.
const SIZE: (&str, usize) = ("per_page", 100);
/// Pages of a tree: 100 000 entries.
const TREE_PAGES: usize = 1000;

pub(crate) struct GitLab {
    http: Http,
    objects: Objects,
}

impl fmt::Debug for GitLab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitLab").finish_non_exhaustive()
    }
}

impl GitLab {
    pub(crate) fn new(http: Http) -> Self {
        Self { http, objects: Objects::default() }
    }

    /// An address below a project. Each part is one piece, whatever slashes it holds.
    fn of(&self, repository: &Repository, parts: &[&str]) -> Url {
        let project = repository.to_string();
        let mut all = vec!["projects", project.as_str()];
        all.extend(parts);
        self.http.at_in(&all, &[])
    }

    fn at(&self, repository: &Repository, number: u64, parts: &[&str]) -> Url {
        let number = number.to_string();
        let mut all = vec!["merge_requests", number.as_str()];
        all.extend(parts);
        self.of(repository, &all)
    }

    /// Where the webhooks of a scope are, or one of them.
    fn hooks(&self, scope: &Scope, id: &[&str]) -> Result<Url> {
        let parts = [["hooks"].as_slice(), id].concat();
        Ok(match scope {
            Scope::Repository(repository) => self.of(repository, &parts),
            Scope::Organisation(name) => {
                let group = common::organisation(name)?;
                self.http.at_in(&[["groups", group.as_str()].as_slice(), parts.as_slice()].concat(), &[])
            }
        })
    }

    /// Ids of the webhooks that send to this address.
    async fn hooks_to(&self, scope: &Scope, url: &str) -> Result<Vec<String>> {
        let found: List<wire::Hook> = self.http.list(&self.hooks(scope, &[])?, SIZE).await?;
        common::sending(found, url, |hook| (Some(hook.url), hook.id.to_string()))
    }

    async fn merge_request(&self, repository: &Repository, number: u64) -> Result<wire::MergeRequest> {
        self.http.get(self.at(repository, number, &[])).await?.json()
    }

    async fn put(&self, repository: &Repository, number: u64, body: &Value) -> Result<PullRequest> {
        let reply = self.http.send(Method::PUT, self.at(repository, number, &[]), body).await?;
        Ok(reply.json::<wire::MergeRequest>()?.told())
    }

    /// The open merge request of these branches of the project itself.
    async fn open_one(&self, repository: &Repository, new: &NewPullRequest) -> Result<Option<PullRequest>> {
        let mut url = self.of(repository, &["merge_requests"]);
        url.query_pairs_mut()
            .append_pair("state", "opened")
            .append_pair("source_branch", new.head.as_str())
            .append_pair("target_branch", new.base.as_str());
        let found: List<wire::MergeRequest> = self.http.list(&url, SIZE).await?;
        Ok(found.items.into_iter().map(wire::MergeRequest::told).find(|pull| !pull.fork))
    }
}

/// A text that asks for nothing. GitLab does what a line such as `/merge` or `/approve` says, with the rights of the connection, and a text
/// may hold answers.
fn inert(text: &str) -> String {
    let line = |line: &str| {
        let rest = line.trim_start();
        let before = &line[..line.len() - rest.len()];
        if rest.starts_with('/') { format!("{before}\\{rest}") } else { line.to_owned() }
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[async_trait]
impl Folders for GitLab {
    fn objects(&self) -> &Objects {
        &self.objects
    }

    async fn list_folder(
        &self,
        repository: &Repository,
        commit: &CommitId,
        folder: &Folder,
        deep: bool,
    ) -> Result<List<Entry>> {
        let mut url = self.of(repository, &["repository", "tree"]);
        url.query_pairs_mut().append_pair("ref", commit.as_str());
        if !folder.path.is_empty() {
            url.query_pairs_mut().append_pair("path", &folder.path);
        }
        if deep {
            url.query_pairs_mut().append_pair("recursive", "true");
        }
        let List { items, cut } = self.http.list_up_to::<wire::Entry>(&url, SIZE, TREE_PAGES).await?;
        Ok(List { items: items.iter().filter_map(|entry| entry.below(folder)).collect(), cut })
    }
}

#[async_trait]
impl GitHost for GitLab {
    async fn default_branch(&self, repository: &Repository) -> Result<BranchName> {
        let found: wire::Project = self.http.get(self.of(repository, &[])).await?.json()?;
        let name = found.default_branch;
        let name =
            name.ok_or_else(|| Error::new(Cause::NotFound, format!("{repository} has no default branch")))?;
        common::branch_name(&name)
    }

    async fn head(&self, repository: &Repository, branch: &BranchName) -> Result<CommitId> {
        let url = self.of(repository, &["repository", "branches", branch.as_str()]);
        let found: wire::Branch = self.http.get(url).await?.json()?;
        common::commit_id(&found.commit.id)
    }

    async fn commit_told(&self, repository: &Repository, commit: &CommitId) -> Result<CommitTold> {
        let url = self.of(repository, &["repository", "commits", commit.as_str()]);
        let wire::CommitRead { message, parent_ids } = self.http.get(url).await?.json()?;
        let parents: Result<Vec<CommitId>> =
            parent_ids.iter().map(|parent| common::commit_id(parent)).collect();
        Ok(CommitTold { parents: parents?, message })
    }

    async fn read(&self, repository: &Repository, commit: &CommitId, path: &FilePath) -> Result<Bytes> {
        let mut url = self.of(repository, &["repository", "files", path.as_str(), "raw"]);
        url.query_pairs_mut().append_pair("ref", commit.as_str());
        let fetch = async { self.http.get_as(url, "*/*").await.map(|reply| reply.body) };
        folders::read(self, repository, commit, path, fetch).await
    }

    async fn tree(&self, repository: &Repository, commit: &CommitId) -> Result<List<TreeEntry>> {
        let mut url = self.of(repository, &["repository", "tree"]);
        url.query_pairs_mut().append_pair("ref", commit.as_str()).append_pair("recursive", "true");
        let List { items, cut } = self.http.list_up_to::<wire::Entry>(&url, SIZE, TREE_PAGES).await?;
        Ok(List { items: items.into_iter().filter_map(wire::Entry::told).collect(), cut })
    }

    async fn tree_within(
        &self,
        repository: &Repository,
        commit: &CommitId,
        look: Looks<'_>,
    ) -> Result<List<TreeEntry>> {
        folders::within(self, repository, commit, look).await
    }

    async fn commit(&self, repository: &Repository, commit: &NewCommit) -> Result<Committed> {
        common::check(commit)?;
        commits::commit(self, repository, commit).await
    }

    async fn delete_branch(&self, repository: &Repository, branch: &BranchName, at: &CommitId) -> Result<()> {
        if !common::is_at(self, repository, branch, at).await? {
            return Ok(());
        }
        let url = self.of(repository, &["repository", "branches", branch.as_str()]);
        match self.http.delete(url).await {
            Err(error) if error.cause != Cause::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    async fn open(&self, repository: &Repository, new: &NewPullRequest) -> Result<Opened> {
        let body = json!({
            "source_branch": new.head.as_str(), "target_branch": new.base.as_str(),
            "title": new.title, "description": inert(&new.body),
        });
        match self.http.send(Method::POST, self.of(repository, &["merge_requests"]), &body).await {
            Ok(reply) => {
                let made: wire::MergeRequest = reply.json()?;
                if made.sha.is_none() {
                    // It is made for a branch that is not there, too.
                    self.put(repository, made.iid, &json!({"state_event": "close"})).await?;
                    let what = format!("branch {} of {repository} is not there", new.head);
                    return Err(Error::new(Cause::NotFound, what));
                }
                Ok(Opened { pull_request: made.told(), existed: false })
            }
            // Whether there is one is asked only now: between a question and an answer another could be opened.
            Err(error) if matches!(error.status, Some(400 | 409 | 422)) => {
                match self.open_one(repository, new).await? {
                    Some(pull_request) => Ok(Opened { pull_request, existed: true }),
                    None => Err(error.with_cause(Cause::Conflict)),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn pull_request(&self, repository: &Repository, number: u64) -> Result<PullRequest> {
        Ok(self.merge_request(repository, number).await?.told())
    }

    async fn pull_requests(&self, repository: &Repository, open_only: bool) -> Result<List<PullRequest>> {
        let mut url = self.of(repository, &["merge_requests"]);
        url.query_pairs_mut().append_pair("state", if open_only { "opened" } else { "all" });
        let List { items, cut } = self.http.list::<wire::MergeRequest>(&url, SIZE).await?;
        Ok(List { items: items.into_iter().map(wire::MergeRequest::told).collect(), cut })
    }

    async fn update(
        &self,
        repository: &Repository,
        number: u64,
        edit: &PullRequestEdit,
    ) -> Result<PullRequest> {
        let mut body = serde_json::Map::new();
        if let Some(title) = &edit.title {
            body.insert("title".to_owned(), title.as_str().into());
        }
        if let Some(text) = &edit.body {
            body.insert("description".to_owned(), inert(text).into());
        }
        if body.is_empty() {
            // It refuses an edit of nothing.
            return self.pull_request(repository, number).await;
        }
        self.put(repository, number, &Value::Object(body)).await
    }

    async fn close(&self, repository: &Repository, number: u64) -> Result<PullRequest> {
        let now = self.pull_request(repository, number).await?;
        match now.state {
            PullRequestState::Closed => Ok(now),
            PullRequestState::Merged => Err(common::is_merged(repository, number)),
            PullRequestState::Open => self.put(repository, number, &json!({"state_event": "close"})).await,
        }
    }

    async fn merge(
        &self,
        repository: &Repository,
        number: u64,
        head: &CommitId,
        method: MergeMethod,
    ) -> Result<PullRequest> {
        let squash = match method {
            MergeMethod::Merge => false,
            MergeMethod::Squash => true,
            MergeMethod::Rebase => {
                return Err(Error::new(
                    Cause::Unsupported,
                    "GitLab merges by rebase where the project's settings say so, not by request",
                ));
            }
        };
        let body = json!({"sha": head.as_str(), "squash": squash, "should_remove_source_branch": false});
        let mut pauses = STILL_CHECKED.into_iter();
        loop {
            let now = self.merge_request(repository, number).await?;
            let is_checked = now.is_checked();
            let now = now.told();
            common::expect_head(&now, repository, number, head)?;
            if now.state == PullRequestState::Merged {
                return Ok(now);
            }
            let url = self.at(repository, number, &["merge"]);
            match self.http.send(Method::PUT, url, &body).await {
                Ok(reply) => return Ok(reply.json::<wire::MergeRequest>()?.told()),
                Err(error) if matches!(error.status, Some(405 | 409 | 422)) => {
                    // After a push it merges nothing before it has looked for conflicts; a head that moved is told above.
                    match pauses.next() {
                        Some(pause) if is_checked || error.status == Some(409) => sleep(pause).await,
                        _ => return Err(error.with_cause(Cause::Conflict)),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn files(&self, repository: &Repository, number: u64) -> Result<List<ChangedFile>> {
        let url = self.at(repository, number, &["diffs"]);
        let List { items, cut } = self.http.list::<wire::File>(&url, SIZE).await?;
        Ok(List { items: items.into_iter().map(wire::File::told).collect(), cut })
    }

    /// The last word of each, without its commit: more it does not tell.
    async fn reviews(&self, repository: &Repository, number: u64) -> Result<List<Review>> {
        let reviewers: List<wire::Reviewer> =
            self.http.list(&self.at(repository, number, &["reviewers"]), SIZE).await?;
        let approvals: wire::Approvals =
            self.http.get(self.at(repository, number, &["approvals"])).await?.json()?;
        let told = |reviewer: String, verdict| Review { reviewer, verdict, commit: None };
        let approved = |name: &str| approvals.approved_by.iter().any(|one| one.user.username == name);
        let mut items: Vec<Review> = Vec::new();
        for reviewer in reviewers.items {
            if let Some(verdict) = reviewer.verdict()
                && !approved(&reviewer.user.username)
            {
                items.push(told(reviewer.user.username, verdict));
            }
        }
        for approval in &approvals.approved_by {
            items.push(told(approval.user.username.clone(), Verdict::Approved));
        }
        Ok(List { items, cut: reviewers.cut })
    }

    async fn add_labels(&self, repository: &Repository, number: u64, labels: &[String]) -> Result<()> {
        if labels.is_empty() {
            return Ok(());
        }
        if let Some(label) = labels.iter().find(|label| label.contains(',')) {
            return Err(Error::invalid(format!("GitLab takes no label with a comma: {label:?}")));
        }
        // It makes what is missing.
        self.put(repository, number, &json!({"add_labels": labels.join(",")})).await.map(drop)
    }

    async fn comment(&self, repository: &Repository, number: u64, marker: &str, body: &str) -> Result<()> {
        let mark = common::mark(marker)?;
        let text = json!({"body": format!("{mark}\n{}", inert(body))});
        let url = self.at(repository, number, &["notes"]);
        let mut oldest_first = url.clone();
        oldest_first.query_pairs_mut().append_pair("order_by", "created_at").append_pair("sort", "asc");
        let found: List<wire::Note> = self.http.list(&oldest_first, SIZE).await?;
        let own: wire::User = self.http.get(self.http.at(&["user"])).await?.json()?;
        // A marker that somebody else quotes is not ours to edit.
        let known = found.items.iter().find(|note| {
            note.body.starts_with(&mark)
                && note.author.as_ref().is_some_and(|author| author.username == own.username)
        });
        match known.map(|note| note.id.to_string()) {
            Some(id) => {
                let url = self.at(repository, number, &["notes", &id]);
                self.http.send(Method::PUT, url, &text).await.map(drop)
            }
            None if found.cut => Err(common::too_many_comments(repository, number)),
            None => self.http.send(Method::POST, url, &text).await.map(drop),
        }
    }

    async fn checks(&self, repository: &Repository, commit: &CommitId) -> Result<List<Check>> {
        let url = self.of(repository, &["repository", "commits", commit.as_str(), "statuses"]);
        let List { items, cut } = self.http.list::<wire::Status>(&url, SIZE).await?;
        Ok(List { items: items.into_iter().map(wire::Status::told).collect(), cut })
    }

    async fn set_status(&self, repository: &Repository, commit: &CommitId, status: &Status) -> Result<()> {
        let state = match status.state {
            StatusState::Pending => "pending",
            StatusState::Success => "success",
            StatusState::Failure | StatusState::Error => "failed",
        };
        let description: String = status.description.chars().take(DESCRIPTION).collect();
        let mut body = json!({"state": state, "name": status.context, "description": description});
        if let Some(url) = &status.url {
            body["target_url"] = url.as_str().into();
        }
        let url = self.of(repository, &["statuses", commit.as_str()]);
        match self.http.send(Method::POST, url, &body).await {
            // It is in this state already.
            Err(error) if error.said.contains("Cannot transition status") => Ok(()),
            sent => sent.map(drop),
        }
    }

    async fn approve(&self, repository: &Repository, number: u64, head: &CommitId, body: &str) -> Result<()> {
        let url = self.at(repository, number, &["approve"]);
        match self.http.send(Method::POST, url, &json!({"sha": head.as_str()})).await {
            Ok(_) => {}
            Err(error) if error.status == Some(409) => return Err(error.with_cause(Cause::Moved)),
            Err(error) => return Err(error),
        }
        if body.is_empty() {
            return Ok(());
        }
        // An approval has no text of its own.
        let url = self.at(repository, number, &["notes"]);
        self.http.send(Method::POST, url, &json!({"body": inert(body)})).await.map(drop)
    }

    async fn ensure_webhook(&self, scope: &Scope, webhook: &WebhookSpec) -> Result<()> {
        let known = self.hooks_to(scope, &webhook.url).await?;
        let body = json!({
            "url": webhook.url, "token": webhook.secret.expose_secret(), "enable_ssl_verification": true,
            "merge_requests_events": true, "note_events": true, "push_events": true, "pipeline_events": true,
        });
        let (method, url) = match known.first() {
            Some(id) => (Method::PUT, self.hooks(scope, &[id.as_str()])?),
            None => (Method::POST, self.hooks(scope, &[])?),
        };
        self.http.send(method, url, &body).await.map(drop)
    }

    async fn remove_webhook(&self, scope: &Scope, url: &str) -> Result<bool> {
        let known = self.hooks_to(scope, url).await?;
        for id in &known {
            common::gone(self.http.delete(self.hooks(scope, &[id.as_str()])?).await)?;
        }
        Ok(!known.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_text_is_a_quick_action() {
        for (text, expected) in [
            ("/merge", "\\/merge"),
            ("Add it\n/approve\r\n/label ~x\n", "Add it\n\\/approve\r\n\\/label ~x\n"),
            ("a\n\r/merge", "a\n\r\\/merge"),
            ("  /close", "  \\/close"),
            ("see /merge and a/b\n\nhttps://a/b", "see /merge and a/b\n\nhttps://a/b"),
            ("", ""),
        ] {
            assert_eq!(inert(text), expected, "{text:?}");
        }
    }
}
