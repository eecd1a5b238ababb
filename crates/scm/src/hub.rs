//! GitHub and Gitea: Gitea's API has the shapes of GitHub's, and where they differ it is told here by [`Dialect`]. Commits differ most:
//! `github` and `gitea`.

mod gitea;
mod github;
mod wire;

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::{Method, Url};
use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    common::{self, STILL_CHECKED},
    error::{Cause, Result},
    folders::{self, Entry, Folder, Folders},
    http::Http,
    names::{BranchName, CommitId, FilePath, Repository},
    objects::Objects,
    port::{
        ChangedFile, Check, CommitTold, Committed, GitHost, List, Looks, MergeMethod, NewCommit,
        NewPullRequest, Opened, PullRequest, PullRequestEdit, PullRequestState, Review, Scope, Status,
        StatusState, TreeEntry, WebhookSpec,
    },
    signing::Signer,
};

/// Characters of a status' description.
const DESCRIPTION: usize = 140;

/// Which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    GitHub,
    Gitea,
}

pub(crate) struct Hub {
    http: Http,
    objects: Objects,
    dialect: Dialect,
    /// What commits are signed with.
    signer: Option<Signer>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("dialect", &self.dialect).finish_non_exhaustive()
    }
}

impl Hub {
    pub(crate) fn new(http: Http, dialect: Dialect, signer: Option<Signer>) -> Self {
        Self { http, objects: Objects::default(), dialect, signer }
    }

    /// An address below a repository.
    fn of(&self, repository: &Repository, parts: &[&str]) -> Url {
        // Neither host has groups in groups: such an owner is one piece, and so nobody.
        self.http.at_in(&["repos", repository.owner(), repository.name()], parts)
    }

    /// Where the webhooks of a scope are, or one of them.
    fn hooks(&self, scope: &Scope, id: &[&str]) -> Result<Url> {
        let parts = [["hooks"].as_slice(), id].concat();
        Ok(match scope {
            Scope::Repository(repository) => self.of(repository, &parts),
            Scope::Organisation(name) => {
                let owner = common::organisation(name)?;
                self.http.at_in(&[["orgs", owner.as_str()].as_slice(), parts.as_slice()].concat(), &[])
            }
        })
    }

    /// Ids of the webhooks that send to this address.
    async fn hooks_to(&self, scope: &Scope, url: &str) -> Result<Vec<String>> {
        let found: List<wire::Hook> = self.http.list(&self.hooks(scope, &[])?, self.size()).await?;
        common::sending(found, url, |hook| (hook.config.url, hook.id.to_string()))
    }

    /// How a page's size is asked for.
    fn size(&self) -> (&'static str, usize) {
        match self.dialect {
            Dialect::GitHub => ("per_page", 100),
            Dialect::Gitea => ("limit", 50),
        }
    }

    /// The open pull request of these branches of the repository itself.
    async fn open_one(&self, repository: &Repository, new: &NewPullRequest) -> Result<Option<PullRequest>> {
        let mut url = self.of(repository, &["pulls"]);
        url.query_pairs_mut().append_pair("state", "open");
        if self.dialect == Dialect::GitHub {
            let head = format!("{}:{}", repository.owner(), new.head);
            url.query_pairs_mut().append_pair("head", &head).append_pair("base", new.base.as_str());
        }
        let found: List<wire::Pull> = self.http.list(&url, self.size()).await?;
        let mut found = found.items.into_iter().map(|pull| pull.told(repository));
        Ok(found.find(|pull| !pull.fork && pull.head == new.head.as_str() && pull.base == new.base.as_str()))
    }

    /// All pages of a list that is a part of an object.
    async fn list_in<P: DeserializeOwned, T>(
        &self,
        url: &Url,
        list_of: impl Fn(P) -> Vec<T>,
    ) -> Result<List<T>> {
        let (name, most) = self.size();
        let (mut items, mut read) = (Vec::new(), 0);
        for page in 1..=self.http.pages() {
            let mut url = url.clone();
            url.query_pairs_mut().append_pair("page", &page.to_string()).append_pair(name, &most.to_string());
            let reply = self.http.get(url).await?;
            self.http.count(&reply, &mut read)?;
            let found = list_of(reply.json()?);
            // Gitea tells of no next page here: one that is not full is the last.
            let is_last = found.len() < most;
            items.extend(found);
            if is_last {
                return Ok(List { items, cut: false });
            }
        }
        Ok(List { items, cut: true })
    }

    async fn patch(&self, repository: &Repository, number: u64, body: &Value) -> Result<PullRequest> {
        let url = self.of(repository, &["pulls", &number.to_string()]);
        let pull: wire::Pull = self.http.send(Method::PATCH, url, body).await?.json()?;
        Ok(pull.told(repository))
    }

    /// Who writes this connection's comments.
    async fn writer(&self) -> Result<Writer> {
        if let Some(app) = self.http.app_id() {
            // An installation of an App is no user.
            return Ok(Writer::App(app));
        }
        let user: wire::User = self.http.get(self.http.at(&["user"])).await?.json()?;
        Ok(Writer::User(user.login))
    }
}

enum Writer {
    User(String),
    App(u64),
}

impl Writer {
    fn wrote(&self, comment: &wire::Comment) -> bool {
        match self {
            Self::User(login) => comment.user.as_ref().is_some_and(|user| user.login == *login),
            Self::App(id) => comment.performed_via_github_app.as_ref().is_some_and(|app| app.id == *id),
        }
    }
}

#[async_trait]
impl Folders for Hub {
    fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Both hosts know folders by their trees.
    async fn list_folder(
        &self,
        repository: &Repository,
        commit: &CommitId,
        folder: &Folder,
        deep: bool,
    ) -> Result<List<Entry>> {
        let id = folder.tree(commit)?;
        match self.dialect {
            Dialect::GitHub => {
                let mut url = self.of(repository, &["git/trees", id]);
                if deep {
                    url.query_pairs_mut().append_pair("recursive", "1");
                }
                let tree: wire::Tree = self.http.get(url).await?.json()?;
                Ok(List { items: tree.all(), cut: tree.truncated })
            }
            Dialect::Gitea => {
                let tree = gitea::tree(self, repository, id, deep).await?;
                Ok(List { items: tree.tree.all(), cut: tree.cut })
            }
        }
    }
}

#[async_trait]
impl GitHost for Hub {
    async fn default_branch(&self, repository: &Repository) -> Result<BranchName> {
        let found: wire::Repository = self.http.get(self.of(repository, &[])).await?.json()?;
        common::branch_name(&found.default_branch)
    }

    async fn head(&self, repository: &Repository, branch: &BranchName) -> Result<CommitId> {
        let url = self.of(repository, &["branches", branch.as_str()]);
        let found: wire::Branch = self.http.get(url).await?.json()?;
        common::commit_id(&found.commit.sha)
    }

    async fn read(&self, repository: &Repository, commit: &CommitId, path: &FilePath) -> Result<Bytes> {
        let (what, accept) = match self.dialect {
            Dialect::GitHub => ("contents", "application/vnd.github.raw+json"),
            Dialect::Gitea => ("raw", "*/*"),
        };
        let mut url = self.of(repository, &[what, path.as_str()]);
        url.query_pairs_mut().append_pair("ref", commit.as_str());
        let fetch = async { self.http.get_as(url, accept).await.map(|reply| reply.body) };
        folders::read(self, repository, commit, path, fetch).await
    }

    async fn commit_told(&self, repository: &Repository, commit: &CommitId) -> Result<CommitTold> {
        let mut url = self.of(repository, &["git/commits", commit.as_str()]);
        if self.dialect == Dialect::Gitea {
            let left_out = ["stat", "verification", "files"].map(|part| (part, "false"));
            url.query_pairs_mut().extend_pairs(left_out);
        }
        let wire::Commit { message, commit, parents } = self.http.get(url).await?.json()?;
        let parents: Result<Vec<CommitId>> =
            parents.iter().map(|parent| common::commit_id(&parent.sha)).collect();
        let message = message.or(commit.map(|commit| commit.message)).unwrap_or_default();
        Ok(CommitTold { parents: parents?, message })
    }

    async fn tree(&self, repository: &Repository, commit: &CommitId) -> Result<List<TreeEntry>> {
        match self.dialect {
            Dialect::GitHub => {
                let mut url = self.of(repository, &["git/trees", commit.as_str()]);
                url.query_pairs_mut().append_pair("recursive", "1");
                let tree: wire::Tree = self.http.get(url).await?.json()?;
                Ok(List { items: tree.entries(), cut: tree.truncated })
            }
            Dialect::Gitea => {
                let tree = gitea::tree(self, repository, commit.as_str(), true).await?;
                Ok(List { items: tree.tree.entries(), cut: tree.cut })
            }
        }
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
        match self.dialect {
            Dialect::GitHub => github::commit(self, repository, commit).await,
            Dialect::Gitea => gitea::commit(self, repository, commit).await,
        }
    }

    async fn delete_branch(&self, repository: &Repository, branch: &BranchName, at: &CommitId) -> Result<()> {
        if !common::is_at(self, repository, branch, at).await? {
            return Ok(());
        }
        let url = match self.dialect {
            Dialect::GitHub => self.of(repository, &["git/refs/heads", branch.as_str()]),
            Dialect::Gitea => self.of(repository, &["branches", branch.as_str()]),
        };
        match self.http.delete(url).await {
            Ok(_) => Ok(()),
            Err(error) if error.cause == Cause::NotFound => Ok(()),
            // GitHub's answer for a reference that is gone.
            Err(error) if error.said.contains("Reference does not exist") => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn open(&self, repository: &Repository, new: &NewPullRequest) -> Result<Opened> {
        let body = json!({
            "head": new.head.as_str(), "base": new.base.as_str(), "title": new.title, "body": new.body,
        });
        match self.http.send(Method::POST, self.of(repository, &["pulls"]), &body).await {
            Ok(reply) => {
                let pull: wire::Pull = reply.json()?;
                Ok(Opened { pull_request: pull.told(repository), existed: false })
            }
            // Whether there is one is asked only now: between a question and an answer another could be opened.
            Err(error) if matches!(error.status, Some(409 | 422)) => {
                match self.open_one(repository, new).await? {
                    Some(pull_request) => Ok(Opened { pull_request, existed: true }),
                    None => Err(error.with_cause(Cause::Conflict)),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn pull_request(&self, repository: &Repository, number: u64) -> Result<PullRequest> {
        let url = self.of(repository, &["pulls", &number.to_string()]);
        let pull: wire::Pull = self.http.get(url).await?.json()?;
        Ok(pull.told(repository))
    }

    async fn pull_requests(&self, repository: &Repository, open_only: bool) -> Result<List<PullRequest>> {
        let mut url = self.of(repository, &["pulls"]);
        url.query_pairs_mut().append_pair("state", if open_only { "open" } else { "all" });
        let List { items, cut } = self.http.list::<wire::Pull>(&url, self.size()).await?;
        Ok(List { items: items.into_iter().map(|pull| pull.told(repository)).collect(), cut })
    }

    async fn update(
        &self,
        repository: &Repository,
        number: u64,
        edit: &PullRequestEdit,
    ) -> Result<PullRequest> {
        let mut body = serde_json::Map::new();
        for (name, text) in [("title", &edit.title), ("body", &edit.body)] {
            if let Some(text) = text {
                body.insert(name.to_owned(), text.as_str().into());
            }
        }
        self.patch(repository, number, &Value::Object(body)).await
    }

    async fn close(&self, repository: &Repository, number: u64) -> Result<PullRequest> {
        let now = self.pull_request(repository, number).await?;
        match now.state {
            PullRequestState::Closed => Ok(now),
            PullRequestState::Merged => Err(common::is_merged(repository, number)),
            PullRequestState::Open => self.patch(repository, number, &json!({"state": "closed"})).await,
        }
    }

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
        let method = match method {
            MergeMethod::Merge => "merge",
            MergeMethod::Squash => "squash",
            MergeMethod::Rebase => "rebase",
        };
        let url = self.of(repository, &["pulls", &number.to_string(), "merge"]);
        let (verb, body) = match self.dialect {
            Dialect::GitHub => (Method::PUT, json!({"merge_method": method, "sha": head.as_str()})),
            Dialect::Gitea => (Method::POST, json!({"Do": method, "head_commit_id": head.as_str()})),
        };
        let mut sent = self.http.send(verb.clone(), url.clone(), &body).await;
        for pause in STILL_CHECKED {
            // Gitea looks for conflicts after each push, and merges nothing meanwhile.
            let is_checked = sent.as_ref().is_err_and(|error| error.said.contains("try again later"));
            if self.dialect != Dialect::Gitea || !is_checked {
                break;
            }
            sleep(pause).await;
            sent = self.http.send(verb.clone(), url.clone(), &body).await;
        }
        match sent {
            Ok(_) => self.pull_request(repository, number).await,
            Err(error) if matches!(error.status, Some(405 | 409)) => {
                let now = self.pull_request(repository, number).await?;
                if now.head_commit != head.as_str() {
                    return Err(error.with_cause(Cause::Moved));
                }
                // Somebody else merged this very commit.
                if now.state == PullRequestState::Merged { Ok(now) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    async fn files(&self, repository: &Repository, number: u64) -> Result<List<ChangedFile>> {
        let url = self.of(repository, &["pulls", &number.to_string(), "files"]);
        let List { items, cut } = self.http.list::<wire::File>(&url, self.size()).await?;
        Ok(List { items: items.into_iter().map(wire::File::told).collect(), cut })
    }

    async fn reviews(&self, repository: &Repository, number: u64) -> Result<List<Review>> {
        let url = self.of(repository, &["pulls", &number.to_string(), "reviews"]);
        let List { items, cut } = self.http.list::<wire::Review>(&url, self.size()).await?;
        Ok(List { items: items.into_iter().filter_map(wire::Review::told).collect(), cut })
    }

    async fn add_labels(&self, repository: &Repository, number: u64, labels: &[String]) -> Result<()> {
        if labels.is_empty() {
            return Ok(());
        }
        let labels = match self.dialect {
            // It makes what is missing.
            Dialect::GitHub => json!(labels),
            Dialect::Gitea => json!(gitea::label_ids(self, repository, labels).await?),
        };
        let url = self.of(repository, &["issues", &number.to_string(), "labels"]);
        self.http.send(Method::POST, url, &json!({"labels": labels})).await.map(drop)
    }

    async fn comment(&self, repository: &Repository, number: u64, marker: &str, body: &str) -> Result<()> {
        let mark = common::mark(marker)?;
        let text = json!({"body": format!("{mark}\n{body}")});
        let url = self.of(repository, &["issues", &number.to_string(), "comments"]);
        let found: List<wire::Comment> = self.http.list(&url, self.size()).await?;
        // A marker that somebody else quotes is not ours to edit.
        let writer = self.writer().await?;
        let is_it = |comment: &&wire::Comment| comment.body.starts_with(&mark) && writer.wrote(comment);
        match found.items.iter().find(is_it) {
            Some(comment) => {
                let url = self.of(repository, &["issues/comments", &comment.id.to_string()]);
                self.http.send(Method::PATCH, url, &text).await.map(drop)
            }
            None if found.cut => Err(common::too_many_comments(repository, number)),
            None => self.http.send(Method::POST, url, &text).await.map(drop),
        }
    }

    async fn checks(&self, repository: &Repository, commit: &CommitId) -> Result<List<Check>> {
        let at = |what: &str| self.of(repository, &["commits", commit.as_str(), what]);
        let statuses = |found: wire::Statuses| found.statuses.unwrap_or_default();
        let found = self.list_in(&at("status"), statuses).await?;
        let mut cut = found.cut;
        let mut items: Vec<Check> = found.items.into_iter().map(wire::Status::told).collect();
        // What runs as a check is no status at GitHub.
        if self.dialect == Dialect::GitHub {
            let found = self.list_in(&at("check-runs"), |found: wire::CheckRuns| found.check_runs).await?;
            cut |= found.cut;
            items.extend(found.items.into_iter().map(wire::CheckRun::told));
        }
        Ok(List { items, cut })
    }

    async fn set_status(&self, repository: &Repository, commit: &CommitId, status: &Status) -> Result<()> {
        let state = match status.state {
            StatusState::Pending => "pending",
            StatusState::Success => "success",
            StatusState::Failure => "failure",
            StatusState::Error => "error",
        };
        let description: String = status.description.chars().take(DESCRIPTION).collect();
        let mut body = json!({"state": state, "context": status.context, "description": description});
        if let Some(url) = &status.url {
            body["target_url"] = url.as_str().into();
        }
        let url = self.of(repository, &["statuses", commit.as_str()]);
        self.http.send(Method::POST, url, &body).await.map(drop)
    }

    async fn approve(&self, repository: &Repository, number: u64, head: &CommitId, body: &str) -> Result<()> {
        let event = match self.dialect {
            Dialect::GitHub => "APPROVE",
            Dialect::Gitea => "APPROVED",
        };
        let url = self.of(repository, &["pulls", &number.to_string(), "reviews"]);
        let review = json!({"event": event, "commit_id": head.as_str(), "body": body});
        match self.http.send(Method::POST, url, &review).await {
            Ok(_) => Ok(()),
            // Both hosts say so to the author of the pull request.
            Err(error) if error.status == Some(422) => Err(error.with_cause(Cause::Refused)),
            Err(error) => Err(error),
        }
    }

    async fn ensure_webhook(&self, scope: &Scope, webhook: &WebhookSpec) -> Result<()> {
        let known = self.hooks_to(scope, &webhook.url).await?;
        let events = match self.dialect {
            Dialect::GitHub => {
                json!(["pull_request", "pull_request_review", "issue_comment", "push", "status", "check_run"])
            }
            Dialect::Gitea => {
                json!(["pull_request", "pull_request_review", "pull_request_comment", "push", "status"])
            }
        };
        let config = json!({
            "url": webhook.url, "content_type": "json", "secret": webhook.secret.expose_secret(),
        });
        let mut body = json!({"active": true, "events": events, "config": config});
        match self.dialect {
            Dialect::GitHub => {
                if let Some(id) = known.first() {
                    let url = self.hooks(scope, &[id.as_str()])?;
                    return self.http.send(Method::PATCH, url, &body).await.map(drop);
                }
                body["name"] = "web".into();
                self.http.send(Method::POST, self.hooks(scope, &[])?, &body).await.map(drop)
            }
            // An edit of a webhook leaves its secret as it was, so another takes its place.
            Dialect::Gitea => {
                body["type"] = "gitea".into();
                self.http.send(Method::POST, self.hooks(scope, &[])?, &body).await?;
                for id in known {
                    self.http.delete(self.hooks(scope, &[id.as_str()])?).await?;
                }
                Ok(())
            }
        }
    }

    async fn remove_webhook(&self, scope: &Scope, url: &str) -> Result<bool> {
        let known = self.hooks_to(scope, url).await?;
        for id in &known {
            common::gone(self.http.delete(self.hooks(scope, &[id.as_str()])?).await)?;
        }
        Ok(!known.is_empty())
    }
}
