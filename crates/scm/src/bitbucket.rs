//! Bitbucket Cloud.

mod commits;
mod wire;

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::{Method, Url, header::CONTENT_TYPE};
use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use self::commits::Known;
use crate::{
    common,
    error::{Cause, Error, Result},
    folders::{self, Entry, Folder, Folders},
    http::Http,
    names::{BranchName, CommitId, FilePath, Repository},
    objects::Objects,
    port::{
        ChangedFile, Check, Committed, GitHost, List, Looks, MergeMethod, NewCommit, NewPullRequest, Opened,
        PullRequest, PullRequestEdit, PullRequestState, Review, Scope, Status, StatusState, TreeEntry,
        WebhookSpec,
    },
};

/// Characters of a status' key.
const KEY: usize = 40;
/// Characters of a status' description.
const DESCRIPTION: usize = 255;
/// Entries of a page; lists of pull requests have fewer.
const PAGE: &str = "50";
/// Pages of a tree: 50 000 entries.
const TREE_PAGES: usize = 1000;
/// Folders in folders of a tree.
const DEPTH: &str = "100";

pub(crate) struct Bitbucket {
    http: Http,
    objects: Objects,
}

impl fmt::Debug for Bitbucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bitbucket").finish_non_exhaustive()
    }
}

impl Bitbucket {
    pub(crate) fn new(http: Http) -> Self {
        Self { http, objects: Objects::default() }
    }

    /// An address below a repository.
    fn of(&self, repository: &Repository, parts: &[&str]) -> Url {
        self.http.at_in(&["repositories", repository.owner(), repository.name()], parts)
    }

    fn at(&self, repository: &Repository, number: u64, parts: &[&str]) -> Url {
        let number = number.to_string();
        let mut all = vec!["pullrequests", number.as_str()];
        all.extend(parts);
        self.of(repository, &all)
    }

    fn branch(&self, repository: &Repository, branch: &BranchName) -> Url {
        let places = ["repositories", repository.owner(), repository.name(), "refs", "branches"];
        let mut all = places.to_vec();
        all.push(branch.as_str());
        self.http.at_in(&all, &[])
    }

    /// Where the webhooks of a scope are, or one of them.
    fn hooks(&self, scope: &Scope, id: &[&str]) -> Result<Url> {
        let parts = [["hooks"].as_slice(), id].concat();
        Ok(match scope {
            Scope::Repository(repository) => self.of(repository, &parts),
            Scope::Organisation(name) => {
                let workspace = common::organisation(name)?;
                self.http
                    .at_in(&[["workspaces", workspace.as_str()].as_slice(), parts.as_slice()].concat(), &[])
            }
        })
    }

    /// Ids of the webhooks that send to this address.
    async fn hooks_to(&self, scope: &Scope, url: &str) -> Result<Vec<String>> {
        let found: List<wire::Hook> = self.list(self.hooks(scope, &[])?, self.http.pages()).await?;
        common::sending(found, url, |hook| (Some(hook.url), hook.uuid))
    }

    /// All pages of a list, up to so many.
    async fn list<T: DeserializeOwned>(&self, mut url: Url, pages: usize) -> Result<List<T>> {
        url.query_pairs_mut().append_pair("pagelen", PAGE);
        let mut items: Vec<T> = Vec::new();
        let mut read = 0;
        for _ in 0..pages {
            let reply = self.http.get(url).await?;
            self.http.count(&reply, &mut read)?;
            let page: wire::Page<T> = reply.json()?;
            items.extend(page.values);
            let Some(next) = page.next else { return Ok(List { items, cut: false }) };
            url = self.http.here(&next)?;
        }
        Ok(List { items, cut: true })
    }

    async fn pull(&self, repository: &Repository, number: u64) -> Result<wire::Pull> {
        self.http.get(self.at(repository, number, &[])).await?.json()
    }

    /// The whole id of a commit whose first digits are known.
    async fn whole(&self, repository: &Repository, digits: &str) -> Result<String> {
        if CommitId::parse(digits).is_ok() {
            return Ok(digits.to_owned());
        }
        let found: wire::Hash = self.http.get(self.of(repository, &["commit", digits])).await?.json()?;
        Ok(found.hash)
    }

    /// A pull request with whole ids: it tells their first digits.
    async fn told(&self, repository: &Repository, pull: wire::Pull) -> Result<PullRequest> {
        let mut told = pull.told();
        if !told.head_commit.is_empty() {
            match self.whole(repository, &told.head_commit).await {
                Ok(whole) => told.head_commit = whole,
                // A fork's commit may be in the fork alone.
                Err(error) if told.fork && error.cause == Cause::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(merged) = &told.merge_commit {
            told.merge_commit = Some(self.whole(repository, merged).await?);
        }
        Ok(told)
    }

    /// The open pull request of these branches of the repository itself.
    async fn open_one(&self, repository: &Repository, new: &NewPullRequest) -> Result<Option<PullRequest>> {
        let quoted = |branch: &BranchName| format!("\"{}\"", branch.as_str().replace('"', "\\\""));
        let query = format!(
            "state=\"OPEN\" AND source.branch.name={} AND destination.branch.name={}",
            quoted(&new.head),
            quoted(&new.base)
        );
        let mut url = self.of(repository, &["pullrequests"]);
        url.query_pairs_mut().append_pair("q", &query);
        let found: List<wire::Pull> = self.list(url, self.http.pages()).await?;
        for pull in found.items {
            let told = self.told(repository, pull).await?;
            if !told.fork && told.head == new.head.as_str() && told.base == new.base.as_str() {
                return Ok(Some(told));
            }
        }
        Ok(None)
    }

    async fn fetch(&self, repository: &Repository, commit: &CommitId, path: &FilePath) -> Result<Bytes> {
        let url = self.of(repository, &["src", commit.as_str(), path.as_str()]);
        let reply = self.http.get_as(url, "*/*").await?;
        let kind = reply.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        // A folder is answered as a list.
        if kind.starts_with("application/json")
            && let Some(Known::Folder) = commits::kind(self, repository, commit, path.as_str()).await?
        {
            return Err(Error::new(Cause::NotFound, format!("{path} is a folder")));
        }
        Ok(reply.body)
    }

    async fn own(&self) -> Result<wire::User> {
        self.http.get(self.http.at(&["user"])).await?.json()
    }
}

#[async_trait]
impl Folders for Bitbucket {
    fn objects(&self) -> &Objects {
        &self.objects
    }

    /// It tells no ids of objects, so what is held is held of a commit.
    async fn list_folder(
        &self,
        repository: &Repository,
        commit: &CommitId,
        folder: &Folder,
        deep: bool,
    ) -> Result<List<Entry>> {
        // An address of a folder ends with a slash.
        let mut parts = vec!["src", commit.as_str()];
        parts.extend(folder.path.split('/').filter(|part| !part.is_empty()));
        parts.push("");
        let mut url = self.of(repository, &parts);
        if deep {
            url.query_pairs_mut().append_pair("max_depth", DEPTH);
        }
        let List { items, cut } = self.list::<wire::Entry>(url, TREE_PAGES).await?;
        Ok(List { items: items.into_iter().filter_map(|entry| entry.below(folder)).collect(), cut })
    }
}

#[async_trait]
impl GitHost for Bitbucket {
    async fn default_branch(&self, repository: &Repository) -> Result<BranchName> {
        let found: wire::Repository = self.http.get(self.of(repository, &[])).await?.json()?;
        let missing = || Error::new(Cause::NotFound, format!("{repository} has no main branch"));
        common::branch_name(&found.mainbranch.ok_or_else(missing)?.name)
    }

    async fn head(&self, repository: &Repository, branch: &BranchName) -> Result<CommitId> {
        let found: wire::Branch = self.http.get(self.branch(repository, branch)).await?.json()?;
        common::commit_id(&found.target.hash)
    }

    async fn read(&self, repository: &Repository, commit: &CommitId, path: &FilePath) -> Result<Bytes> {
        folders::read(self, repository, commit, path, self.fetch(repository, commit, path)).await
    }

    async fn tree(&self, repository: &Repository, commit: &CommitId) -> Result<List<TreeEntry>> {
        let mut url = self.of(repository, &["src", commit.as_str(), ""]);
        url.query_pairs_mut().append_pair("max_depth", DEPTH);
        let List { items, cut } = self.list::<wire::Entry>(url, TREE_PAGES).await?;
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
        match self.http.delete(self.branch(repository, branch)).await {
            Err(error) if error.cause != Cause::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    async fn open(&self, repository: &Repository, new: &NewPullRequest) -> Result<Opened> {
        // It would be given the new title and text, and nothing tells that it was there.
        if let Some(pull_request) = self.open_one(repository, new).await? {
            return Ok(Opened { pull_request, existed: true });
        }
        let body = json!({
            "title": new.title, "description": new.body,
            "source": {"branch": {"name": new.head.as_str()}},
            "destination": {"branch": {"name": new.base.as_str()}},
        });
        let sent = self.http.send(Method::POST, self.of(repository, &["pullrequests"]), &body).await;
        let pull: wire::Pull = match sent {
            Ok(reply) => reply.json()?,
            Err(error) if error.status == Some(400) => return Err(error.with_cause(Cause::Conflict)),
            Err(error) => return Err(error),
        };
        Ok(Opened { pull_request: self.told(repository, pull).await?, existed: false })
    }

    async fn pull_request(&self, repository: &Repository, number: u64) -> Result<PullRequest> {
        let pull = self.pull(repository, number).await?;
        self.told(repository, pull).await
    }

    /// Their ids of commits are the first digits.
    async fn pull_requests(&self, repository: &Repository, open_only: bool) -> Result<List<PullRequest>> {
        let states: &[&str] =
            if open_only { &["OPEN"] } else { &["OPEN", "MERGED", "DECLINED", "SUPERSEDED"] };
        let mut url = self.of(repository, &["pullrequests"]);
        url.query_pairs_mut().append_pair("sort", "-created_on");
        for state in states {
            url.query_pairs_mut().append_pair("state", state);
        }
        let List { items, cut } = self.list::<wire::Pull>(url, self.http.pages()).await?;
        Ok(List { items: items.into_iter().map(wire::Pull::told).collect(), cut })
    }

    async fn update(
        &self,
        repository: &Repository,
        number: u64,
        edit: &PullRequestEdit,
    ) -> Result<PullRequest> {
        let now = self.pull(repository, number).await?;
        // What an edit leaves out is emptied.
        let body = json!({
            "title": edit.title.as_ref().unwrap_or(&now.title),
            "description": edit.body.as_ref().or(now.description.as_ref()),
        });
        let reply = self.http.send(Method::PUT, self.at(repository, number, &[]), &body).await?;
        self.told(repository, reply.json()?).await
    }

    async fn close(&self, repository: &Repository, number: u64) -> Result<PullRequest> {
        let now = self.pull_request(repository, number).await?;
        match now.state {
            PullRequestState::Closed => Ok(now),
            PullRequestState::Merged => Err(common::is_merged(repository, number)),
            PullRequestState::Open => {
                let url = self.at(repository, number, &["decline"]);
                let reply = self.http.send(Method::POST, url, &json!({})).await?;
                self.told(repository, reply.json()?).await
            }
        }
    }

    /// The head is looked at right before: a merge cannot be bound to it.
    async fn merge(
        &self,
        repository: &Repository,
        number: u64,
        head: &CommitId,
        method: MergeMethod,
    ) -> Result<PullRequest> {
        let now = self.pull_request(repository, number).await?;
        common::expect_head(&now, repository, number, head)?;
        if now.state == PullRequestState::Merged {
            return Ok(now);
        }
        let strategy = match method {
            MergeMethod::Merge => "merge_commit",
            MergeMethod::Squash => "squash",
            MergeMethod::Rebase => "rebase_fast_forward",
        };
        let body = json!({"merge_strategy": strategy, "close_source_branch": false});
        match self.http.send(Method::POST, self.at(repository, number, &["merge"]), &body).await {
            Ok(_) => self.pull_request(repository, number).await,
            Err(error) if matches!(error.status, Some(400 | 409)) => {
                let now = self.pull_request(repository, number).await?;
                if now.head_commit != head.as_str() {
                    return Err(error.with_cause(Cause::Moved));
                }
                // Somebody else merged this very commit.
                let is_merged = now.state == PullRequestState::Merged;
                if is_merged { Ok(now) } else { Err(error.with_cause(Cause::Conflict)) }
            }
            Err(error) => Err(error),
        }
    }

    async fn files(&self, repository: &Repository, number: u64) -> Result<List<ChangedFile>> {
        let url = self.at(repository, number, &["diffstat"]);
        let List { items, cut } = self.list::<wire::File>(url, self.http.pages()).await?;
        Ok(List { items: items.into_iter().filter_map(wire::File::told).collect(), cut })
    }

    async fn reviews(&self, repository: &Repository, number: u64) -> Result<List<Review>> {
        Ok(List { items: self.pull(repository, number).await?.reviews(), cut: false })
    }

    async fn add_labels(&self, _: &Repository, _: u64, labels: &[String]) -> Result<()> {
        if labels.is_empty() {
            return Ok(());
        }
        Err(Error::new(Cause::Unsupported, "Bitbucket's pull requests have no labels"))
    }

    async fn comment(&self, repository: &Repository, number: u64, marker: &str, body: &str) -> Result<()> {
        let mark = common::mark(marker)?;
        let text = json!({"content": {"raw": format!("{mark}\n{body}")}});
        let url = self.at(repository, number, &["comments"]);
        let found: List<wire::Comment> = self.list(url.clone(), self.http.pages()).await?;
        let own = self.own().await?;
        // A marker that somebody else quotes is not ours to edit.
        let known = found.items.iter().find(|comment| {
            comment.content.raw.starts_with(&mark)
                && comment.user.as_ref().is_some_and(|user| user.uuid == own.uuid)
        });
        match known.map(|comment| comment.id.to_string()) {
            Some(id) => {
                let url = self.at(repository, number, &["comments", &id]);
                self.http.send(Method::PUT, url, &text).await.map(drop)
            }
            None if found.cut => Err(common::too_many_comments(repository, number)),
            None => self.http.send(Method::POST, url, &text).await.map(drop),
        }
    }

    async fn checks(&self, repository: &Repository, commit: &CommitId) -> Result<List<Check>> {
        let url = self.of(repository, &["commit", commit.as_str(), "statuses"]);
        let List { items, cut } = self.list::<wire::Status>(url, self.http.pages()).await?;
        Ok(List { items: items.into_iter().map(wire::Status::told).collect(), cut })
    }

    async fn set_status(&self, repository: &Repository, commit: &CommitId, status: &Status) -> Result<()> {
        let state = match status.state {
            StatusState::Pending => "INPROGRESS",
            StatusState::Success => "SUCCESSFUL",
            StatusState::Failure => "FAILED",
            StatusState::Error => "STOPPED",
        };
        let mut key = status.context.clone();
        if key.chars().count() > KEY {
            key = hex::encode(Sha256::digest(&key));
            key.truncate(KEY);
        }
        let description: String = status.description.chars().take(DESCRIPTION).collect();
        // It takes no status without a page.
        let page = format!("https://bitbucket.org/{repository}/commits/{commit}");
        let body = json!({
            "key": key, "name": status.context, "state": state, "description": description,
            "url": status.url.as_ref().unwrap_or(&page),
        });
        let url = self.of(repository, &["commit", commit.as_str(), "statuses/build"]);
        self.http.send(Method::POST, url, &body).await.map(drop)
    }

    /// The head is looked at right before: an approval cannot be bound to it. It takes one of the author, which this does not send.
    async fn approve(&self, repository: &Repository, number: u64, head: &CommitId, body: &str) -> Result<()> {
        let pull = self.pull(repository, number).await?;
        let own = self.own().await?;
        if pull.author.as_ref().is_some_and(|author| author.uuid == own.uuid) {
            return Err(common::is_own(repository, number));
        }
        let now = self.told(repository, pull).await?;
        common::expect_head(&now, repository, number, head)?;
        self.http.send(Method::POST, self.at(repository, number, &["approve"]), &json!({})).await?;
        if body.is_empty() {
            return Ok(());
        }
        // An approval has no text of its own.
        let url = self.at(repository, number, &["comments"]);
        self.http.send(Method::POST, url, &json!({"content": {"raw": body}})).await.map(drop)
    }

    async fn ensure_webhook(&self, scope: &Scope, webhook: &WebhookSpec) -> Result<()> {
        let known = self.hooks_to(scope, &webhook.url).await?;
        let events = [
            "pullrequest:created",
            "pullrequest:updated",
            "pullrequest:fulfilled",
            "pullrequest:rejected",
            "pullrequest:approved",
            "pullrequest:unapproved",
            "pullrequest:changes_request_created",
            "pullrequest:changes_request_removed",
            "pullrequest:comment_created",
            "repo:push",
            "repo:commit_status_created",
            "repo:commit_status_updated",
        ];
        let body: Value = json!({
            "description": "Plural", "url": webhook.url, "active": true, "events": events,
            "secret": webhook.secret.expose_secret(),
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
