//! Azure DevOps, by its REST API 7.1. The address of a connection is that of an organisation; a repository's owner is a project.

mod commits;
mod wire;

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::{Method, Url, header::CONTENT_TYPE};
use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{sync::OnceCell, time::sleep};

use self::commits::Known;
use crate::{
    common::{self, STILL_CHECKED, named, reference},
    error::{Cause, Error, Result},
    folders::{self, Entry, Folder, Folders},
    http::Http,
    names::{BranchName, CommitId, FilePath, Repository, printable},
    objects::Objects,
    port::{
        ChangedFile, Check, Committed, GitHost, List, Looks, MergeMethod, NewCommit, NewPullRequest, Opened,
        PullRequest, PullRequestEdit, PullRequestState, Review, Scope, Status, StatusState, TreeEntry,
        WebhookSpec,
    },
};

/// The version of the API.
const VERSION: &str = "7.1";
/// Who signs in is told by a part of the API that has no other version.
const PREVIEW: &str = "7.1-preview.1";
/// Entries of a page.
const PAGE: usize = 100;
/// Characters of a pull request's text.
const TEXT: usize = 4000;
/// Characters of a status' description.
const DESCRIPTION: usize = 255;
/// What a webhook tells of: a service hook is about one kind of event.
const EVENTS: [&str; 5] = [
    "git.pullrequest.created",
    "git.pullrequest.updated",
    "git.pullrequest.merged",
    "ms.vss-code.git-pullrequest-comment-event",
    "git.push",
];

pub(crate) struct Azure {
    http: Http,
    objects: Objects,
    own: OnceCell<String>,
}

/// What webhooks tell of, by ids.
struct Hooked {
    project: String,
    /// Nothing means all of the project.
    repository: String,
}

impl fmt::Debug for Azure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Azure").finish_non_exhaustive()
    }
}

impl Azure {
    pub(crate) fn new(http: Http) -> Self {
        Self { http, objects: Objects::default(), own: OnceCell::new() }
    }

    async fn fetch(&self, repository: &Repository, commit: &CommitId, path: &FilePath) -> Result<Bytes> {
        let mut url = commits::item(self, repository, commit, path.as_str());
        url.query_pairs_mut().append_pair("$format", "octetStream");
        let reply = self.http.get_as(url, "application/octet-stream").await?;
        let kind = reply.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        // A folder is answered as something else.
        if !kind.starts_with("application/octet-stream")
            && let Some(Known::Folder) = commits::kind(self, repository, commit, path.as_str()).await?
        {
            return Err(Error::new(Cause::NotFound, format!("{path} is a folder")));
        }
        Ok(reply.body)
    }

    /// An address of the organisation.
    fn api(&self, parts: &[&str]) -> Url {
        let mut url = self.http.at_in(parts, &[]);
        url.query_pairs_mut().append_pair("api-version", VERSION);
        url
    }

    /// An address below a repository.
    fn of(&self, repository: &Repository, parts: &[&str]) -> Url {
        let places = [repository.owner(), "_apis", "git", "repositories", repository.name()];
        self.api(&[places.as_slice(), parts].concat())
    }

    fn at(&self, repository: &Repository, number: u64, parts: &[&str]) -> Url {
        let number = number.to_string();
        self.of(repository, &[["pullRequests", number.as_str()].as_slice(), parts].concat())
    }

    fn page_of(&self, repository: &Repository, number: u64) -> String {
        let number = number.to_string();
        let places = [repository.owner(), "_git", repository.name(), "pullrequest", number.as_str()];
        self.http.at_in(&places, &[]).to_string()
    }

    /// Where webhooks are, or one of them.
    fn hooks(&self, id: &[&str]) -> Url {
        self.api(&[["_apis", "hooks", "subscriptions"].as_slice(), id].concat())
    }

    async fn hooked(&self, scope: &Scope) -> Result<Hooked> {
        match scope {
            Scope::Repository(repository) => {
                let found = self.repository(repository).await?;
                Ok(Hooked { project: found.project.id, repository: found.id })
            }
            Scope::Organisation(name) => {
                let project = common::organisation(name)?;
                let url = self.api(&["_apis", "projects", project.as_str()]);
                let found: wire::Id = self.http.get(url).await?.json()?;
                Ok(Hooked { project: found.id, repository: String::new() })
            }
        }
    }

    /// The webhooks of a place that send to this address, one for each kind of event.
    async fn subscriptions(&self, place: &Hooked, to: &str) -> Result<Vec<wire::Subscription>> {
        let mut url = self.hooks(&[]);
        url.query_pairs_mut()
            .append_pair("publisherId", "tfs")
            .append_pair("consumerId", "webHooks")
            .append_pair("consumerActionId", "httpRequest");
        let mut found: Vec<wire::Subscription> = self.all(url).await?;
        found.retain(|hook| hook.is_of(&place.project, &place.repository, to));
        Ok(found)
    }

    async fn all<T: DeserializeOwned>(&self, url: Url) -> Result<Vec<T>> {
        let page: wire::Page<T> = self.http.get(url).await?.json()?;
        Ok(page.value)
    }

    async fn repository(&self, repository: &Repository) -> Result<wire::Repository> {
        self.http.get(self.of(repository, &[])).await?.json()
    }

    async fn pull(&self, repository: &Repository, number: u64) -> Result<wire::Pull> {
        self.http.get(self.at(repository, number, &[])).await?.json()
    }

    /// A pull request with the head that its branch has: the host tells the one that it looked at for conflicts last.
    async fn told(&self, repository: &Repository, number: u64, pull: wire::Pull) -> Result<PullRequest> {
        let mut told = pull.told(self.page_of(repository, number));
        if told.state == PullRequestState::Open && !told.fork {
            match self.head(repository, &common::branch_name(&told.head)?).await {
                Ok(head) => head.as_str().clone_into(&mut told.head_commit),
                Err(error) if error.cause == Cause::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(told)
    }

    /// Pull requests of such a query, the newest first. Their texts are cut after 400 characters.
    async fn pulls(&self, repository: &Repository, query: &[(&str, &str)]) -> Result<List<wire::Pull>> {
        let (mut items, mut read) = (Vec::new(), 0);
        for _ in 0..self.http.pages() {
            let mut url = self.of(repository, &["pullrequests"]);
            url.query_pairs_mut()
                .extend_pairs(query)
                .append_pair("$top", &PAGE.to_string())
                .append_pair("$skip", &items.len().to_string());
            let reply = self.http.get(url).await?;
            self.http.count(&reply, &mut read)?;
            let page: wire::Page<wire::Pull> = reply.json()?;
            // A page may be shorter than was asked for.
            if page.value.is_empty() {
                return Ok(List { items, cut: false });
            }
            items.extend(page.value);
        }
        Ok(List { items, cut: true })
    }

    /// The open pull request of these branches of the repository itself.
    async fn open_one(&self, repository: &Repository, new: &NewPullRequest) -> Result<Option<PullRequest>> {
        let (head, base) = (reference(&new.head), reference(&new.base));
        let query = [
            ("searchCriteria.status", "active"),
            ("searchCriteria.sourceRefName", head.as_str()),
            ("searchCriteria.targetRefName", base.as_str()),
        ];
        let found = self.pulls(repository, &query).await?;
        let mut told = found.items.into_iter().map(|pull| pull.told(String::new()));
        let is_it = |pull: &PullRequest| {
            !pull.fork && pull.head == new.head.as_str() && pull.base == new.base.as_str()
        };
        match told.find(is_it) {
            Some(pull) => self.pull_request(repository, pull.number).await.map(Some),
            None => Ok(None),
        }
    }

    async fn threads(&self, repository: &Repository, number: u64) -> Result<Vec<wire::Thread>> {
        self.all(self.at(repository, number, &["threads"])).await
    }

    /// The id of who signs in.
    async fn own(&self) -> Result<&str> {
        Ok(self.own.get_or_try_init(|| self.find_own()).await?.as_str())
    }

    async fn find_own(&self) -> Result<String> {
        let mut url = self.http.at_in(&["_apis", "connectionData"], &[]);
        url.query_pairs_mut().append_pair("api-version", PREVIEW);
        let found: wire::Connected = self.http.get(url).await?.json()?;
        Ok(found.authenticated_user.id)
    }

    async fn patch(&self, repository: &Repository, number: u64, body: &Value) -> Result<PullRequest> {
        let reply = self.http.send(Method::PATCH, self.at(repository, number, &[]), body).await?;
        self.told(repository, number, reply.json()?).await
    }

    async fn add_comment(&self, repository: &Repository, number: u64, text: &str) -> Result<()> {
        let comment = json!({"parentCommentId": 0, "content": text, "commentType": "text"});
        // An open thread would hold up a merge where comments have to be resolved.
        let body = json!({"comments": [comment], "status": "closed"});
        self.http.send(Method::POST, self.at(repository, number, &["threads"]), &body).await.map(drop)
    }
}

fn check_text(text: &str) -> Result<()> {
    if text.chars().count() > TEXT {
        return Err(Error::invalid(format!(
            "Azure DevOps takes a pull request's text of at most {TEXT} characters: make it shorter"
        )));
    }
    Ok(())
}

#[async_trait]
impl Folders for Azure {
    fn objects(&self) -> &Objects {
        &self.objects
    }

    /// It knows folders by their trees, of the root too.
    async fn list_folder(
        &self,
        repository: &Repository,
        commit: &CommitId,
        folder: &Folder,
        deep: bool,
    ) -> Result<List<Entry>> {
        let id = if folder.path.is_empty() {
            commits::root(self, repository, commit).await?
        } else {
            folder.tree(commit)?.to_owned()
        };
        let tree = commits::tree(self, repository, &id, deep).await?;
        Ok(List { items: tree.iter().filter_map(wire::Entry::all).collect(), cut: false })
    }
}

#[async_trait]
impl GitHost for Azure {
    async fn default_branch(&self, repository: &Repository) -> Result<BranchName> {
        let found = self.repository(repository).await?.default_branch.unwrap_or_default();
        let missing = || Error::new(Cause::NotFound, format!("{repository} has no default branch"));
        common::branch_name(found.strip_prefix("refs/heads/").ok_or_else(missing)?)
    }

    async fn head(&self, repository: &Repository, branch: &BranchName) -> Result<CommitId> {
        let mut url = self.of(repository, &["refs"]);
        url.query_pairs_mut().append_pair("filter", &format!("heads/{branch}"));
        let found: Vec<wire::Reference> = self.all(url).await?;
        // The filter is a beginning.
        let wanted = reference(branch);
        let missing = || Error::new(Cause::NotFound, format!("{repository} has no branch {branch}"));
        let found = found.iter().find(|known| known.name == wanted).ok_or_else(missing)?;
        common::commit_id(&found.object_id)
    }

    async fn read(&self, repository: &Repository, commit: &CommitId, path: &FilePath) -> Result<Bytes> {
        folders::read(self, repository, commit, path, self.fetch(repository, commit, path)).await
    }

    async fn tree(&self, repository: &Repository, commit: &CommitId) -> Result<List<TreeEntry>> {
        let tree =
            commits::tree(self, repository, &commits::root(self, repository, commit).await?, true).await?;
        Ok(List { items: tree.into_iter().filter_map(wire::Entry::told).collect(), cut: false })
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
        let nothing = "0".repeat(at.as_str().len());
        let body = json!([
            {"name": reference(branch), "oldObjectId": at.as_str(), "newObjectId": nothing},
        ]);
        let reply = self.http.send(Method::POST, self.of(repository, &["refs"]), &body).await?;
        // What was refused is told as a success, too.
        let done: wire::Page<wire::Updated> = reply.json()?;
        let Some(refused) = done.value.iter().find(|done| !done.success) else { return Ok(()) };
        let why = printable(refused.update_status.as_deref().unwrap_or("it does not say why"));
        Err(Error::new(Cause::Conflict, format!("branch {branch} of {repository} is not removed: {why}")))
    }

    async fn open(&self, repository: &Repository, new: &NewPullRequest) -> Result<Opened> {
        check_text(&new.body)?;
        let body = json!({
            "sourceRefName": reference(&new.head), "targetRefName": reference(&new.base),
            "title": new.title, "description": new.body,
        });
        match self.http.send(Method::POST, self.of(repository, &["pullrequests"]), &body).await {
            Ok(reply) => {
                let pull: wire::Pull = reply.json()?;
                let number = pull.number();
                let pull_request = self.told(repository, number, pull).await?;
                Ok(Opened { pull_request, existed: false })
            }
            // Whether there is one is asked only now: between a question and an answer another could be opened.
            Err(error) if matches!(error.status, Some(400 | 409)) => {
                match self.open_one(repository, new).await? {
                    Some(pull_request) => Ok(Opened { pull_request, existed: true }),
                    None => Err(error.with_cause(Cause::Conflict)),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn pull_request(&self, repository: &Repository, number: u64) -> Result<PullRequest> {
        let pull = self.pull(repository, number).await?;
        self.told(repository, number, pull).await
    }

    /// Their texts are cut after 400 characters, and their heads may be those of a moment ago.
    async fn pull_requests(&self, repository: &Repository, open_only: bool) -> Result<List<PullRequest>> {
        let status = if open_only { "active" } else { "all" };
        let List { items, cut } = self.pulls(repository, &[("searchCriteria.status", status)]).await?;
        let told = |pull: wire::Pull| {
            let url = self.page_of(repository, pull.number());
            pull.told(url)
        };
        Ok(List { items: items.into_iter().map(told).collect(), cut })
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
            check_text(text)?;
            body.insert("description".to_owned(), text.as_str().into());
        }
        self.patch(repository, number, &Value::Object(body)).await
    }

    async fn close(&self, repository: &Repository, number: u64) -> Result<PullRequest> {
        let now = self.pull_request(repository, number).await?;
        match now.state {
            PullRequestState::Closed => Ok(now),
            PullRequestState::Merged => Err(common::is_merged(repository, number)),
            PullRequestState::Open => self.patch(repository, number, &json!({"status": "abandoned"})).await,
        }
    }

    /// The host merges after its answer, so what became of it is read.
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
            MergeMethod::Merge => "noFastForward",
            MergeMethod::Squash => "squash",
            MergeMethod::Rebase => "rebase",
        };
        let body = json!({
            "status": "completed",
            "lastMergeSourceCommit": {"commitId": head.as_str()},
            "completionOptions": {"mergeStrategy": strategy, "deleteSourceBranch": false},
        });
        if let Err(error) = self.http.send(Method::PATCH, self.at(repository, number, &[]), &body).await {
            if !matches!(error.status, Some(400 | 409)) {
                return Err(error);
            }
            let after = self.pull_request(repository, number).await?;
            if after.head_commit != head.as_str() {
                return Err(error.with_cause(Cause::Moved));
            }
            // Somebody else merged this very commit.
            let is_merged = after.state == PullRequestState::Merged;
            return if is_merged { Ok(after) } else { Err(error.with_cause(Cause::Conflict)) };
        }
        for pause in STILL_CHECKED {
            let pull = self.pull(repository, number).await?;
            if let Some(why) = pull.failure() {
                let why = printable(&why);
                let what = format!("{} is not merged: {why}", named(repository, number));
                return Err(Error::new(Cause::Conflict, what));
            }
            if pull.status == "completed" {
                return self.told(repository, number, pull).await;
            }
            sleep(pause).await;
        }
        let what = format!("{} is still being merged: look again", named(repository, number));
        Err(Error::new(Cause::Temporary, what))
    }

    async fn files(&self, repository: &Repository, number: u64) -> Result<List<ChangedFile>> {
        let iterations: Vec<wire::Iteration> = self.all(self.at(repository, number, &["iterations"])).await?;
        let Some(last) = iterations.iter().map(|iteration| iteration.id).max() else {
            return Ok(List { items: Vec::new(), cut: false });
        };
        let (mut items, mut read, mut skip) = (Vec::new(), 0, 0_u64);
        for _ in 0..self.http.pages() {
            let mut url = self.at(repository, number, &["iterations", &last.to_string(), "changes"]);
            url.query_pairs_mut()
                .append_pair("$top", &PAGE.to_string())
                .append_pair("$skip", &skip.to_string());
            let reply = self.http.get(url).await?;
            self.http.count(&reply, &mut read)?;
            let page: wire::Changes = reply.json()?;
            items.extend(page.change_entries.into_iter().filter_map(wire::Change::told));
            if page.next_skip <= skip {
                return Ok(List { items, cut: false });
            }
            skip = page.next_skip;
        }
        Ok(List { items, cut: true })
    }

    async fn reviews(&self, repository: &Repository, number: u64) -> Result<List<Review>> {
        let pull = self.pull(repository, number).await?;
        let threads = self.threads(repository, number).await?;
        Ok(List { items: pull.reviews(threads), cut: false })
    }

    async fn add_labels(&self, repository: &Repository, number: u64, labels: &[String]) -> Result<()> {
        for label in labels {
            let url = self.at(repository, number, &["labels"]);
            self.http.send(Method::POST, url, &json!({"name": label})).await?;
        }
        Ok(())
    }

    async fn comment(&self, repository: &Repository, number: u64, marker: &str, body: &str) -> Result<()> {
        let mark = common::mark(marker)?;
        let text = format!("{mark}\n{body}");
        let threads = self.threads(repository, number).await?;
        let own = self.own().await?;
        // A marker that somebody else quotes is not ours to edit.
        let known = threads.iter().find_map(|thread| {
            let first = thread.comments.first()?;
            let is_it = first.is_by_hand() && first.author.id == own && first.content().starts_with(&mark);
            is_it.then(|| (thread.id.to_string(), first.id.to_string()))
        });
        match known {
            Some((thread, comment)) => {
                let parts = ["threads", thread.as_str(), "comments", comment.as_str()];
                let url = self.at(repository, number, &parts);
                self.http.send(Method::PATCH, url, &json!({"content": text})).await.map(drop)
            }
            None => self.add_comment(repository, number, &text).await,
        }
    }

    async fn checks(&self, repository: &Repository, commit: &CommitId) -> Result<List<Check>> {
        let (mut items, mut read) = (Vec::new(), 0);
        for _ in 0..self.http.pages() {
            let mut url = self.of(repository, &["commits", commit.as_str(), "statuses"]);
            url.query_pairs_mut()
                .append_pair("latestOnly", "true")
                .append_pair("top", &PAGE.to_string())
                .append_pair("skip", &items.len().to_string());
            let reply = self.http.get(url).await?;
            self.http.count(&reply, &mut read)?;
            let found: wire::Page<wire::Status> = reply.json()?;
            let is_last = found.value.len() < PAGE;
            items.extend(found.value.into_iter().map(wire::Status::told));
            if is_last {
                return Ok(List { items, cut: false });
            }
        }
        Ok(List { items, cut: true })
    }

    async fn set_status(&self, repository: &Repository, commit: &CommitId, status: &Status) -> Result<()> {
        let state = match status.state {
            StatusState::Pending => "pending",
            StatusState::Success => "succeeded",
            StatusState::Failure => "failed",
            StatusState::Error => "error",
        };
        // A name's group is told apart from it.
        let (genre, name) = status.context.rsplit_once('/').unwrap_or(("", status.context.as_str()));
        let mut context = json!({"name": name});
        if !genre.is_empty() {
            context["genre"] = genre.into();
        }
        let description: String = status.description.chars().take(DESCRIPTION).collect();
        let mut body = json!({"state": state, "description": description, "context": context});
        if let Some(url) = &status.url {
            body["targetUrl"] = url.as_str().into();
        }
        let url = self.of(repository, &["commits", commit.as_str(), "statuses"]);
        self.http.send(Method::POST, url, &body).await.map(drop)
    }

    /// The head is looked at right before: a vote cannot be bound to it. The host takes one of the author, which this does not send.
    async fn approve(&self, repository: &Repository, number: u64, head: &CommitId, body: &str) -> Result<()> {
        let pull = self.pull(repository, number).await?;
        let own = self.own().await?;
        if pull.created_by.id == own {
            return Err(common::is_own(repository, number));
        }
        let now = self.told(repository, number, pull).await?;
        common::expect_head(&now, repository, number, head)?;
        let url = self.at(repository, number, &["reviewers", own]);
        self.http.send(Method::PUT, url, &json!({"vote": 10})).await?;
        if body.is_empty() {
            return Ok(());
        }
        // A vote has no text of its own.
        self.add_comment(repository, number, body).await
    }

    async fn ensure_webhook(&self, scope: &Scope, webhook: &WebhookSpec) -> Result<()> {
        let place = self.hooked(scope).await?;
        let found = self.subscriptions(&place, &webhook.url).await?;
        for event in EVENTS {
            let body = json!({
                "publisherId": "tfs", "eventType": event, "resourceVersion": "1.0",
                "consumerId": "webHooks", "consumerActionId": "httpRequest",
                "publisherInputs": {"projectId": place.project, "repository": place.repository},
                "consumerInputs": {
                    "url": webhook.url, "basicAuthUsername": "plural",
                    "basicAuthPassword": webhook.secret.expose_secret(),
                    "resourceDetailsToSend": "all", "messagesToSend": "none", "detailedMessagesToSend": "none",
                },
            });
            let (method, url) = match found.iter().find(|hook| hook.event_type == event) {
                Some(hook) => (Method::PUT, self.hooks(&[hook.id.as_str()])),
                None => (Method::POST, self.hooks(&[])),
            };
            self.http.send(method, url, &body).await?;
        }
        Ok(())
    }

    async fn remove_webhook(&self, scope: &Scope, url: &str) -> Result<bool> {
        let place = self.hooked(scope).await?;
        let found = self.subscriptions(&place, url).await?;
        for hook in &found {
            common::gone(self.http.delete(self.hooks(&[hook.id.as_str()])).await)?;
        }
        Ok(!found.is_empty())
    }
}
