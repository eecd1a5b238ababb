//! Bitbucket Data Center. Pull requests are made by its REST API; that edits one file a commit, removes none, and tells no file's mode,
//! so trees and commits are git's own.

mod wire;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use plural_git::{Credentials as GitCredentials, HostKeys, Mirrors};
use reqwest::{Method, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use crate::{
    common::{self, named, reference},
    connection::{Connection, Credentials},
    error::{Cause, Error, Result},
    http::Http,
    names::{BranchName, CommitId, FilePath, Repository},
    plain::{PlainConnection, connect_plain},
    port::{
        ChangedFile, Check, Committed, GitHost, List, MergeMethod, NewCommit, NewPullRequest, Opened, Person,
        PullRequest, PullRequestEdit, PullRequestState, Review, Scope, Status, StatusState, TreeEntry,
        WebhookSpec,
    },
};

/// Characters of a status' key.
const KEY: usize = 255;
/// Characters of a status' description.
const DESCRIPTION: usize = 255;
/// Bytes of the address of a status' page.
const ADDRESS: usize = 450;
/// Entries of a page.
const PAGE: &str = "100";
/// How often a pull request is written that others change meanwhile.
const TRIES: usize = 3;
/// Where the API is below the host's address.
const API: [&str; 3] = ["rest", "api", "1.0"];

pub(crate) struct DataCenter {
    http: Http,
    /// The host's own address.
    root: Url,
    connection: Connection,
    mirrors: Mirrors,
    own: OnceCell<Option<wire::User>>,
}

impl fmt::Debug for DataCenter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataCenter").finish_non_exhaustive()
    }
}

/// The host's own address, of that of its API.
pub(crate) fn root(mut url: Url) -> Url {
    let path = url.path().trim_end_matches('/');
    let ends = ["/rest/api/1.0", "/rest/api/latest"];
    let path = ends.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path).to_owned();
    url.set_path(&path);
    url
}

impl DataCenter {
    /// `http` is at the host's own address, `root`.
    pub(crate) fn new(http: Http, root: Url, connection: &Connection, mirrors: Mirrors) -> Self {
        Self { http, root, connection: connection.clone(), mirrors, own: OnceCell::new() }
    }

    fn api(&self, places: &[&str]) -> Url {
        self.http.at_in(&[API.as_slice(), places].concat(), &[])
    }

    /// An address below a repository.
    fn of(&self, repository: &Repository, parts: &[&str]) -> Url {
        let places = ["projects", repository.owner(), "repos", repository.name()];
        self.http.at_in(&[API.as_slice(), places.as_slice()].concat(), parts)
    }

    fn at(&self, repository: &Repository, number: u64, parts: &[&str]) -> Url {
        let number = number.to_string();
        let mut all = vec!["pull-requests", number.as_str()];
        all.extend(parts);
        self.of(repository, &all)
    }

    /// Where the webhooks of a scope are, or one of them.
    fn hooks(&self, scope: &Scope, id: &[&str]) -> Result<Url> {
        let parts = [["webhooks"].as_slice(), id].concat();
        Ok(match scope {
            Scope::Repository(repository) => self.of(repository, &parts),
            Scope::Organisation(name) => {
                let project = common::organisation(name)?;
                self.api(&[["projects", project.as_str()].as_slice(), parts.as_slice()].concat())
            }
        })
    }

    /// Ids of the webhooks that send to this address.
    async fn hooks_to(&self, scope: &Scope, url: &str) -> Result<Vec<String>> {
        let found: List<wire::Hook> = self.list(&self.hooks(scope, &[])?).await?;
        common::sending(found, url, |hook| (Some(hook.url), hook.id.to_string()))
    }

    /// All pages of a list.
    async fn list<T: DeserializeOwned>(&self, url: &Url) -> Result<List<T>> {
        let mut items: Vec<T> = Vec::new();
        let (mut read, mut start) = (0, 0_u64);
        for _ in 0..self.http.pages() {
            let mut url = url.clone();
            url.query_pairs_mut().append_pair("start", &start.to_string()).append_pair("limit", PAGE);
            let reply = self.http.get(url).await?;
            self.http.count(&reply, &mut read)?;
            let page: wire::Page<T> = reply.json()?;
            items.extend(page.values);
            match page.next_page_start {
                Some(next) if !page.is_last && next > start => start = next,
                _ => return Ok(List { items, cut: false }),
            }
        }
        Ok(List { items, cut: true })
    }

    async fn pull(&self, repository: &Repository, number: u64) -> Result<wire::Pull> {
        self.http.get(self.at(repository, number, &[])).await?.json()
    }

    /// Who signs in; nobody for the token of a project or repository.
    async fn own(&self) -> Result<Option<&wire::User>> {
        Ok(self.own.get_or_try_init(|| self.find_own()).await?.as_ref())
    }

    /// No address tells it, but a header of every answer does.
    async fn find_own(&self) -> Result<Option<wire::User>> {
        if let Some(slug) = &self.connection.user {
            let user: wire::User = self.http.get(self.api(&["users", slug.as_str()])).await?.json()?;
            return Ok(Some(user));
        }
        let reply = self.http.get(self.api(&["application-properties"])).await?;
        let name = reply.headers.get("x-ausername").and_then(|name| name.to_str().ok());
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(None) };
        let mut url = self.api(&["users"]);
        url.query_pairs_mut().append_pair("filter", name);
        let found: List<wire::User> = self.list(&url).await?;
        Ok(found.items.into_iter().find(|user| user.name == name))
    }

    async fn user(&self, what: &str) -> Result<&wire::User> {
        let nobody = || {
            Error::invalid(format!(
                "{what} at Bitbucket Data Center needs a user, and its token belongs to none: give the connection the token of a \
                 user, and the user's slug"
            ))
        };
        self.own().await?.ok_or_else(nobody)
    }

    /// The same host by git.
    async fn git(&self) -> Result<Arc<dyn GitHost>> {
        let own = self.user("git").await?;
        let credentials = match &self.connection.credentials {
            Credentials::Basic { username, password } => {
                GitCredentials::basic(username.as_str(), password.expose_secret())
            }
            Credentials::Token(token) => {
                GitCredentials::basic(own.name.as_str(), token.expose_secret().trim())
            }
            Credentials::App { .. } => return Err(Error::invalid("only GitHub has Apps: give a token")),
        };
        let host = self.root.host_str().unwrap_or_default();
        let committer = Person {
            name: own.display_name.clone().unwrap_or_else(|| own.name.clone()),
            email: own.email_address.clone().unwrap_or_else(|| format!("{}@{host}", own.slug())),
        };
        let connection = PlainConnection {
            id: self.connection.id.clone(),
            url: format!("{}/scm", self.root.as_str().trim_end_matches('/')),
            credentials,
            host_keys: HostKeys::AcceptNew,
            ca_pem: self.connection.ca_pem.clone(),
            proxy: self.connection.proxy.clone().map(SecretString::from),
            committer,
        };
        Ok(connect_plain(connection, self.mirrors.clone()))
    }

    /// The open pull request of these branches of the repository itself.
    async fn open_one(&self, repository: &Repository, new: &NewPullRequest) -> Result<Option<PullRequest>> {
        let mut url = self.of(repository, &["pull-requests"]);
        url.query_pairs_mut()
            .append_pair("state", "OPEN")
            .append_pair("direction", "OUTGOING")
            .append_pair("at", &reference(&new.head));
        let found: List<wire::Pull> = self.list(&url).await?;
        let mut told = found.items.into_iter().map(wire::Pull::told);
        Ok(told.find(|pull| !pull.fork && pull.head == new.head.as_str() && pull.base == new.base.as_str()))
    }

    async fn set_verdict(
        &self,
        repository: &Repository,
        number: u64,
        own: &wire::User,
        status: &str,
    ) -> Result<wire::Participant> {
        let url = self.at(repository, number, &["participants", own.slug()]);
        let body = json!({"user": {"name": own.name}, "status": status});
        self.http.send(Method::PUT, url, &body).await?.json()
    }
}

/// As git's addresses name a repository.
fn by_git(repository: &Repository) -> Result<Repository> {
    Repository::parse(&format!("{repository}.git"))
}

#[async_trait]
impl GitHost for DataCenter {
    async fn default_branch(&self, repository: &Repository) -> Result<BranchName> {
        let found: wire::Branch = self.http.get(self.of(repository, &["default-branch"])).await?.json()?;
        common::branch_name(&found.display_id)
    }

    async fn head(&self, repository: &Repository, branch: &BranchName) -> Result<CommitId> {
        let mut url = self.of(repository, &["commits"]);
        url.query_pairs_mut().append_pair("until", &reference(branch)).append_pair("limit", "1");
        let found: wire::Page<wire::Commit> = self.http.get(url).await?.json()?;
        let missing = || Error::new(Cause::NotFound, format!("{repository} has no branch {branch}"));
        common::commit_id(&found.values.first().ok_or_else(missing)?.id)
    }

    async fn read(&self, repository: &Repository, commit: &CommitId, path: &FilePath) -> Result<Bytes> {
        let mut url = self.of(repository, &["raw", path.as_str()]);
        url.query_pairs_mut().append_pair("at", commit.as_str());
        Ok(self.http.get_as(url, "*/*").await?.body)
    }

    async fn tree(&self, repository: &Repository, commit: &CommitId) -> Result<List<TreeEntry>> {
        self.git().await?.tree(&by_git(repository)?, commit).await
    }

    async fn commit(&self, repository: &Repository, commit: &NewCommit) -> Result<Committed> {
        common::check(commit)?;
        self.git().await?.commit(&by_git(repository)?, commit).await
    }

    async fn delete_branch(&self, repository: &Repository, branch: &BranchName, at: &CommitId) -> Result<()> {
        if !common::is_at(self, repository, branch, at).await? {
            return Ok(());
        }
        let places = ["rest", "branch-utils", "1.0", "projects", repository.owner(), "repos"];
        let places = [places.as_slice(), [repository.name(), "branches"].as_slice()].concat();
        // The host looks at the commit, too.
        let body = json!({"name": reference(branch), "endPoint": at.as_str(), "dryRun": false});
        match self.http.send(Method::DELETE, self.http.at_in(&places, &[]), &body).await {
            Err(error) if error.cause != Cause::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    async fn open(&self, repository: &Repository, new: &NewPullRequest) -> Result<Opened> {
        let side = |branch: &BranchName| -> Value {
            let home = json!({"slug": repository.name(), "project": {"key": repository.owner()}});
            json!({"id": reference(branch), "repository": home})
        };
        let body = json!({
            "title": new.title, "description": new.body,
            "fromRef": side(&new.head), "toRef": side(&new.base),
        });
        match self.http.send(Method::POST, self.of(repository, &["pull-requests"]), &body).await {
            Ok(reply) => {
                let pull: wire::Pull = reply.json()?;
                Ok(Opened { pull_request: pull.told(), existed: false })
            }
            // Whether there is one is asked only now: between a question and an answer another could be opened.
            Err(error) if error.status == Some(409) => match self.open_one(repository, new).await? {
                Some(pull_request) => Ok(Opened { pull_request, existed: true }),
                None => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    async fn pull_request(&self, repository: &Repository, number: u64) -> Result<PullRequest> {
        Ok(self.pull(repository, number).await?.told())
    }

    async fn pull_requests(&self, repository: &Repository, open_only: bool) -> Result<List<PullRequest>> {
        let mut url = self.of(repository, &["pull-requests"]);
        url.query_pairs_mut()
            .append_pair("state", if open_only { "OPEN" } else { "ALL" })
            .append_pair("order", "NEWEST");
        let List { items, cut } = self.list::<wire::Pull>(&url).await?;
        Ok(List { items: items.into_iter().map(wire::Pull::told).collect(), cut })
    }

    async fn update(
        &self,
        repository: &Repository,
        number: u64,
        edit: &PullRequestEdit,
    ) -> Result<PullRequest> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            let now = self.pull(repository, number).await?;
            // What an edit leaves out is emptied, reviewers too.
            let reviewers: Vec<Value> =
                now.reviewers.iter().map(|reviewer| json!({"user": {"name": reviewer.user.name}})).collect();
            let body = json!({
                "version": now.version,
                "title": edit.title.as_ref().unwrap_or(&now.title),
                "description": edit.body.as_ref().or(now.description.as_ref()),
                "reviewers": reviewers,
            });
            match self.http.send(Method::PUT, self.at(repository, number, &[]), &body).await {
                Ok(reply) => return Ok(reply.json::<wire::Pull>()?.told()),
                Err(error) if error.status == Some(409) && tries > 0 => {
                    // Somebody else changed it between the two requests.
                    if self.pull(repository, number).await?.version == now.version {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn close(&self, repository: &Repository, number: u64) -> Result<PullRequest> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            let now = self.pull(repository, number).await?;
            let version = now.version;
            let told = now.told();
            match told.state {
                PullRequestState::Closed => return Ok(told),
                PullRequestState::Merged => return Err(common::is_merged(repository, number)),
                PullRequestState::Open => {}
            }
            let mut url = self.at(repository, number, &["decline"]);
            url.query_pairs_mut().append_pair("version", &version.to_string());
            match self.http.send(Method::POST, url, &json!({})).await {
                Ok(reply) => return Ok(reply.json::<wire::Pull>()?.told()),
                Err(error) if error.status == Some(409) && tries > 0 => {
                    if self.pull(repository, number).await?.version == version {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The head is looked at right before, and the merge names the version that was looked at.
    async fn merge(
        &self,
        repository: &Repository,
        number: u64,
        head: &CommitId,
        method: MergeMethod,
    ) -> Result<PullRequest> {
        let strategy = match method {
            MergeMethod::Merge => "no-ff",
            MergeMethod::Squash => "squash",
            MergeMethod::Rebase => "rebase-ff-only",
        };
        let mut tries = TRIES;
        loop {
            tries -= 1;
            let now = self.pull(repository, number).await?;
            let version = now.version;
            let told = now.told();
            common::expect_head(&told, repository, number, head)?;
            if told.state == PullRequestState::Merged {
                return Ok(told);
            }
            let mut url = self.at(repository, number, &["merge"]);
            url.query_pairs_mut().append_pair("version", &version.to_string());
            let sent = self.http.send(Method::POST, url, &json!({"strategyId": strategy})).await;
            let Err(error) = sent else { return self.pull_request(repository, number).await };
            if !matches!(error.status, Some(400 | 409)) {
                return Err(error);
            }
            let after = self.pull(repository, number).await?;
            if !after.is_at(head.as_str()) {
                return Err(error.with_cause(Cause::Moved));
            }
            if after.state == "MERGED" {
                // Somebody else merged this very commit.
                return Ok(after.told());
            }
            if after.version == version || tries == 0 {
                return Err(error.with_cause(Cause::Conflict));
            }
        }
    }

    async fn files(&self, repository: &Repository, number: u64) -> Result<List<ChangedFile>> {
        let List { items, cut } = self.list::<wire::File>(&self.at(repository, number, &["changes"])).await?;
        Ok(List { items: items.into_iter().map(wire::File::told).collect(), cut })
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
        let text = format!("{mark}\n{body}");
        let own = self.user("a comment that is edited").await?;
        let found: List<wire::Activity> = self.list(&self.at(repository, number, &["activities"])).await?;
        // A marker that somebody else quotes is not ours to edit.
        let is_it =
            |comment: &wire::Comment| comment.text.starts_with(&mark) && comment.author.name == own.name;
        let known = found.items.into_iter().filter_map(wire::Activity::comment).find(is_it);
        match known {
            Some(comment) => {
                let url = self.at(repository, number, &["comments", &comment.id.to_string()]);
                let body = json!({"text": text, "version": comment.version});
                self.http.send(Method::PUT, url, &body).await.map(drop)
            }
            None if found.cut => Err(common::too_many_comments(repository, number)),
            None => {
                let url = self.at(repository, number, &["comments"]);
                self.http.send(Method::POST, url, &json!({"text": text})).await.map(drop)
            }
        }
    }

    /// The host lists the builds of a commit of all repositories that have it, by an interface of its own.
    async fn checks(&self, _: &Repository, commit: &CommitId) -> Result<List<Check>> {
        let url = self.http.at_in(&["rest", "build-status", "1.0", "commits", commit.as_str()], &[]);
        let List { items, cut } = self.list::<wire::Build>(&url).await?;
        Ok(List { items: items.into_iter().map(wire::Build::told).collect(), cut })
    }

    async fn set_status(&self, repository: &Repository, commit: &CommitId, status: &Status) -> Result<()> {
        let state = match status.state {
            StatusState::Pending => "INPROGRESS",
            StatusState::Success => "SUCCESSFUL",
            StatusState::Failure => "FAILED",
            StatusState::Error => "CANCELLED",
        };
        let mut key = status.context.clone();
        if key.chars().count() > KEY {
            key = hex::encode(Sha256::digest(&key));
        }
        let description: String = status.description.chars().take(DESCRIPTION).collect();
        // It takes no status without a page.
        let (project, name) = (repository.owner(), repository.name());
        let page = self.http.at_in(&["projects", project, "repos", name, "commits", commit.as_str()], &[]);
        let body = json!({
            "key": key, "name": status.context, "state": state, "description": description,
            "url": status.url.as_deref().filter(|url| url.len() <= ADDRESS).unwrap_or(page.as_str()),
        });
        let url = self.of(repository, &["commits", commit.as_str(), "builds"]);
        self.http.send(Method::POST, url, &body).await.map(drop)
    }

    /// An approval cannot be bound to a commit: the head is looked at right before, and one that reached another head is taken back.
    async fn approve(&self, repository: &Repository, number: u64, head: &CommitId, body: &str) -> Result<()> {
        let pull = self.pull(repository, number).await?;
        let own = self.user("an approval").await?;
        if pull.author.as_ref().is_some_and(|author| author.user.name == own.name) {
            return Err(common::is_own(repository, number));
        }
        if !pull.is_at(head.as_str()) {
            let is = pull.from_ref.latest_commit.unwrap_or_default();
            return Err(common::moved(&named(repository, number), &is, head));
        }
        let done = self.set_verdict(repository, number, own, "APPROVED").await?;
        if let Some(other) = done.last_reviewed_commit.filter(|commit| commit != head.as_str()) {
            self.set_verdict(repository, number, own, "UNAPPROVED").await?;
            return Err(common::moved(&named(repository, number), &other, head));
        }
        if body.is_empty() {
            return Ok(());
        }
        // An approval has no text of its own.
        let url = self.at(repository, number, &["comments"]);
        self.http.send(Method::POST, url, &json!({"text": body})).await.map(drop)
    }

    async fn ensure_webhook(&self, scope: &Scope, webhook: &WebhookSpec) -> Result<()> {
        let known = self.hooks_to(scope, &webhook.url).await?;
        let events = [
            "pr:opened",
            "pr:from_ref_updated",
            "pr:modified",
            "pr:merged",
            "pr:declined",
            "pr:deleted",
            "pr:reviewer:approved",
            "pr:reviewer:unapproved",
            "pr:reviewer:needs_work",
            "pr:comment:added",
            "repo:refs_changed",
        ];
        let body = json!({
            "name": "Plural", "url": webhook.url, "active": true, "events": events,
            "configuration": {"secret": webhook.secret.expose_secret()},
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
