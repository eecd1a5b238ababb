//! What the host answers.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Method, Uri};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::{
    ScmDialect,
    app::APP,
    state::{Files, Hook, Host, Listed, Pull, id},
};

/// Whose token it is.
pub(super) const SELF: &str = "plural-bot";
/// Who else has one.
pub(super) const OTHER: &str = "mallory";

#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) raw: Option<Vec<u8>>,
    pub(super) headers: Vec<(&'static str, String)>,
    /// The address of the next page.
    pub(super) next: Option<String>,
}

/// What a host's word for a way to merge means; nothing where it has no such word.
pub(super) fn method_of(known: &[(&str, &'static str)], word: &Value) -> Option<&'static str> {
    known.iter().find(|(own, _)| *word == **own).map(|(_, how)| *how)
}

/// A pull request is not opened.
pub(super) fn refused() -> Done {
    let why = "Pull requests are disabled here";
    // As each of the hosts writes it.
    let body = json!({"message": why, "error": {"message": why}, "errors": [{"message": why}]});
    Done { status: 403, body, ..Done::default() }
}

pub(super) fn ok(body: Value) -> Done {
    Done { status: 200, body, ..Done::default() }
}

pub(super) fn made(body: Value) -> Done {
    Done { status: 201, body, ..Done::default() }
}

pub(super) fn no(status: u16, message: &str) -> Done {
    Done { status, body: json!({"message": message}), ..Done::default() }
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The pieces of an address below `root`. A slash in a name is encoded, so they are told apart first.
pub(super) fn pieces(uri: &Uri, root: &str) -> Vec<String> {
    let path = uri.path().strip_prefix(root).unwrap_or_default();
    path.split('/').map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect()
}

impl Host {
    pub(super) fn answer(&mut self, who: &str, method: &Method, uri: &Uri, raw: &[u8]) -> Done {
        let body = &serde_json::from_slice(raw).unwrap_or(Value::Null);
        who.clone_into(&mut self.who);
        let query: Vec<(String, String)> = uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| {
                let value = value.replace('+', " ");
                (name.to_owned(), percent_decode_str(&value).decode_utf8_lossy().into_owned())
            })
            .collect();
        let of = |name: &str| {
            query.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
        };
        let mut done = match self.dialect {
            ScmDialect::GitHub | ScmDialect::Gitea => self.hub(method, uri, of, body),
            ScmDialect::GitLab => self.gitlab(method, uri, of, body),
            ScmDialect::BitbucketCloud => self.bitbucket(method, uri, of, body, raw),
            ScmDialect::BitbucketDataCenter => {
                self.refresh();
                let done = self.datacenter(method, uri, of, body);
                self.broken.take().map_or(done, |why| no(500, &why))
            }
            ScmDialect::AzureDevOps => self.azure(method, uri, of, body),
        };
        self.cut(&mut done, method, uri, of("page"));
        done
    }

    /// The page that is asked for, in place of the whole list.
    fn cut(&self, done: &mut Done, method: &Method, uri: &Uri, page: &str) {
        let Some(items) = done.body.as_array().cloned() else { return };
        if self.dialect == ScmDialect::BitbucketCloud {
            let page: usize = page.parse().unwrap_or(1).max(1);
            let query = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.starts_with("page="));
            let query = query.collect::<Vec<_>>().join("&");
            let next = (items.len() > page * self.page)
                .then(|| format!("{}{}?{query}&page={}", self.url, uri.path(), page + 1));
            let values: Vec<Value> = items.into_iter().skip((page - 1) * self.page).take(self.page).collect();
            done.body = json!({"values": values, "next": next});
            return;
        }
        if *method != Method::GET || page.is_empty() {
            return;
        }
        let page: usize = page.parse().unwrap_or(1).max(1);
        if items.len() > page * self.page {
            done.next = Some(format!("{}{}?page={}", self.url, uri.path(), page + 1));
        }
        done.body = items.into_iter().skip((page - 1) * self.page).take(self.page).collect();
    }

    fn hub<'a>(&mut self, method: &Method, uri: &Uri, of: impl Fn(&str) -> &'a str, body: &Value) -> Done {
        let path =
            percent_decode_str(uri.path().strip_prefix("/api/").unwrap_or_default()).decode_utf8_lossy();
        let parts: Vec<&str> = path.split('/').collect();
        match (method.as_str(), parts.as_slice()) {
            ("GET", ["user"]) => {
                return ok(json!({"id": 7, "login": self.who, "email": format!("{}@example.com", self.who)}));
            }
            (_, ["orgs", owner, "hooks", rest @ ..]) => {
                return if *owner == "plural" {
                    self.hook(method, "organisation", rest, body)
                } else {
                    no(404, "Not Found")
                };
            }
            _ => {}
        }
        let ["repos", "plural", "fleet", rest @ ..] = parts.as_slice() else { return no(404, "Not Found") };
        match (method.as_str(), rest) {
            (_, ["hooks", rest @ ..]) => self.hook(method, "repository", rest, body),
            ("GET", []) => ok(json!({"default_branch": "main"})),
            ("GET", ["branches", name @ ..]) => self.branch(&name.join("/")),
            // GitHub gives the bytes to whoever accepts them, as this client does.
            ("GET", ["contents", path @ ..]) => {
                let as_bytes = self.dialect == ScmDialect::GitHub;
                self.content(of("ref"), &path.join("/"), as_bytes)
            }
            ("GET", ["raw", path @ ..]) if self.dialect == ScmDialect::Gitea => {
                self.content(of("ref"), &path.join("/"), true)
            }
            ("GET", ["git", "trees", commit]) => {
                self.tree(commit, !of("recursive").is_empty(), of("page").parse().unwrap_or(1))
            }
            ("POST", ["contents"]) if self.dialect == ScmDialect::Gitea => self.change(body),
            ("DELETE", ["branches", name @ ..]) if self.dialect == ScmDialect::Gitea => {
                self.remove(&name.join("/"), 404)
            }
            ("GET", ["git", "commits", commit]) => self.commit_told(commit),
            (_, ["git", rest @ ..]) if self.dialect == ScmDialect::GitHub => self.git(method, rest, body),
            ("GET", ["labels"]) => {
                ok(self.labels.iter().enumerate().map(|(id, name)| json!({"id": id, "name": name})).collect())
            }
            ("POST", ["labels"]) => {
                self.labels.push(text(&body["name"]));
                made(json!({"id": self.labels.len() - 1, "name": body["name"]}))
            }
            ("GET", ["commits", commit, "status"]) => {
                let key = if self.dialect == ScmDialect::GitHub { "state" } else { "status" };
                let told = |status: Value| json!({"context": status["context"], key: status["state"]});
                let size = if self.dialect == ScmDialect::GitHub { of("per_page") } else { of("limit") };
                let size: usize = size.parse().unwrap_or(30);
                let page: usize = of("page").parse().unwrap_or(1).max(1);
                let newest = self.newest_statuses(commit, "context").into_iter();
                let told: Vec<Value> = newest.skip((page - 1) * size).take(size).map(told).collect();
                ok(json!({"state": "pending", "statuses": told}))
            }
            ("GET", ["commits", _, "check-runs"]) if self.dialect == ScmDialect::GitHub => {
                ok(json!({"total_count": 0, "check_runs": []}))
            }
            ("POST", ["statuses", commit]) => {
                self.statuses.push(((*commit).to_owned(), body.clone()));
                made(json!({}))
            }
            ("PATCH", ["issues", "comments", id]) => {
                let found = self.comments.iter_mut().find(|comment| comment.id.to_string() == *id);
                match found {
                    Some(comment) if comment.user == self.who => {
                        comment.body = text(&body["body"]);
                        ok(json!({}))
                    }
                    Some(_) => no(403, "it is somebody else's"),
                    None => no(404, "Not Found"),
                }
            }
            ("GET", ["pulls"]) => {
                let head = of("head").rsplit(':').next().unwrap_or_default();
                let is_meant = |pull: &&Pull| {
                    let is_open = !pull.closed && pull.merged.is_none();
                    (of("state") != "open" || is_open)
                        && (head.is_empty() || pull.head == head)
                        && (of("base").is_empty() || pull.base == of("base"))
                };
                ok(self.pulls.iter().rev().filter(is_meant).map(|pull| self.shown(pull)).collect())
            }
            ("POST", ["pulls"]) => self.open(body),
            (_, ["pulls" | "issues", number, rest @ ..]) => match number.parse::<u64>() {
                Ok(number) if number > 0 && number as usize <= self.pulls.len() => {
                    self.pull(method, number, rest, body)
                }
                _ => no(404, "Not Found"),
            },
            _ => no(404, "Not Found"),
        }
    }

    /// The address that a webhook sends to.
    pub(super) fn url_of(&self, hook: &Hook) -> String {
        match self.dialect {
            ScmDialect::GitHub | ScmDialect::Gitea => text(&hook.body["config"]["url"]),
            ScmDialect::GitLab | ScmDialect::BitbucketCloud | ScmDialect::BitbucketDataCenter => {
                text(&hook.body["url"])
            }
            ScmDialect::AzureDevOps => text(&hook.body["consumerInputs"]["url"]),
        }
    }

    /// The secret that a webhook has.
    pub(super) fn secret_of(&self, hook: &Hook) -> String {
        match self.dialect {
            ScmDialect::GitHub | ScmDialect::Gitea => text(&hook.body["config"]["secret"]),
            ScmDialect::GitLab => text(&hook.body["token"]),
            ScmDialect::BitbucketCloud => text(&hook.body["secret"]),
            ScmDialect::BitbucketDataCenter => text(&hook.body["configuration"]["secret"]),
            ScmDialect::AzureDevOps => text(&hook.body["consumerInputs"]["basicAuthPassword"]),
        }
    }

    /// Whether an open pull request's head was not looked at for conflicts yet. It is from now on.
    pub(super) fn is_unchecked(&mut self, index: usize) -> bool {
        let head = Some(self.head_of(index));
        let pull = &mut self.pulls[index];
        let is_new = pull.checked != head && !pull.closed && pull.merged.is_none();
        pull.checked = head;
        is_new
    }

    pub(super) fn head_of(&self, index: usize) -> String {
        self.branches.get(&self.pulls[index].head).cloned().unwrap_or_default()
    }

    /// Files that a pull request changes: `added`, `removed`, `modified`.
    pub(super) fn changed(&self, index: usize) -> Vec<(String, &'static str)> {
        let files = |branch: &str| {
            self.branches.get(branch).map(|commit| self.commits[commit].files.clone()).unwrap_or_default()
        };
        let (before, after) = (files(&self.pulls[index].base), files(&self.pulls[index].head));
        let mut changed = Vec::new();
        for path in before.keys().chain(after.keys().filter(|path| !before.contains_key(*path))) {
            let status = match (before.get(path), after.get(path)) {
                (None, Some(_)) => "added",
                (Some(_), None) => "removed",
                (one, other) if one != other => "modified",
                _ => continue,
            };
            changed.push((path.clone(), status));
        }
        changed
    }

    pub(super) fn review(&mut self, number: u64, who: &str, event: &str) {
        let index = number as usize - 1;
        match self.dialect {
            ScmDialect::BitbucketDataCenter => return self.datacenter_review(index, who, event),
            ScmDialect::AzureDevOps => return self.azure_review(number, who, event),
            ScmDialect::GitHub | ScmDialect::Gitea | ScmDialect::GitLab | ScmDialect::BitbucketCloud => {}
        }
        let state = match (self.dialect, event) {
            (ScmDialect::GitHub, "REQUEST_CHANGES") => "CHANGES_REQUESTED",
            (ScmDialect::GitHub, "COMMENT") => "COMMENTED",
            (ScmDialect::GitLab, "REQUEST_CHANGES") => "requested_changes",
            (ScmDialect::GitLab, "COMMENT") => "reviewed",
            (ScmDialect::GitLab, _) => "approved",
            _ => event,
        };
        if self.dialect == ScmDialect::GitLab {
            // It keeps the last word of each.
            self.pulls[index].reviews.retain(|review| review["user"]["username"] != who);
            self.pulls[index].reviews.push(json!({"user": {"username": who}, "state": state}));
            return;
        }
        if self.dialect == ScmDialect::BitbucketCloud {
            let state = match event {
                "APPROVED" => Some("approved"),
                "REQUEST_CHANGES" => Some("changes_requested"),
                _ => None,
            };
            let user = json!({"uuid": format!("{{{who}}}"), "nickname": who});
            self.pulls[index].reviews.retain(|review| review["user"]["nickname"] != who);
            let at = "2026-01-01T00:00:00+00:00";
            self.pulls[index].reviews.push(json!({"user": user, "state": state, "participated_on": at}));
            return;
        }
        let review = json!({"user": {"login": who}, "state": state, "commit_id": self.head_of(index)});
        self.pulls[index].reviews.push(review);
    }

    pub(super) fn dismiss_reviews(&mut self, number: u64) {
        for review in &mut self.pulls[number as usize - 1].reviews {
            match self.dialect {
                ScmDialect::GitHub => review["state"] = "DISMISSED".into(),
                ScmDialect::Gitea => review["dismissed"] = true.into(),
                ScmDialect::GitLab => review["state"] = "unapproved".into(),
                ScmDialect::BitbucketCloud => review["state"] = Value::Null,
                ScmDialect::BitbucketDataCenter => review["status"] = "UNAPPROVED".into(),
                ScmDialect::AzureDevOps => review["vote"] = json!(0),
            }
        }
    }

    fn branch(&self, name: &str) -> Done {
        let key = if self.dialect == ScmDialect::GitHub { "sha" } else { "id" };
        match self.branches.get(name) {
            Some(commit) => ok(json!({"name": name, "commit": {key: commit}})),
            None => no(404, "Branch not found"),
        }
    }

    fn content(&self, commit: &str, path: &str, as_bytes: bool) -> Done {
        let Some(commit) = self.commits.get(commit) else { return no(404, "Not Found") };
        let Some(content) = commit.files.get(path) else {
            let folder = format!("{path}/");
            let inside = commit.files.keys().any(|file| file.starts_with(&folder));
            return if inside { ok(json!([])) } else { no(404, "Not Found") };
        };
        if as_bytes {
            return Done { status: 200, raw: Some(content.clone()), ..Done::default() };
        }
        ok(json!({"type": "file", "sha": id(content), "path": path}))
    }

    fn tree(&mut self, tree: &str, deep: bool, page: usize) -> Done {
        let Some(listed) = self.listed(tree, deep) else { return no(404, "Not Found") };
        let entry =
            |one: &Listed| json!({"path": one.path, "mode": one.mode, "type": one.kind(), "sha": one.id});
        if self.dialect == ScmDialect::GitHub {
            let most = if deep { self.tree_cut } else { usize::MAX };
            let entries: Vec<Value> = listed.iter().take(most).map(entry).collect();
            return ok(json!({"tree": entries, "truncated": listed.len() > most}));
        }
        let page = page.max(1);
        let entries: Vec<Value> =
            listed.iter().skip((page - 1) * self.page).take(self.page).map(entry).collect();
        ok(json!({"tree": entries, "truncated": page * self.page < listed.len()}))
    }

    fn remove(&mut self, name: &str, missing: u16) -> Done {
        match self.branches.remove(name) {
            Some(_) => Done { status: 204, ..Done::default() },
            None => no(missing, "Reference does not exist"),
        }
    }

    /// Gitea: many files in one commit.
    fn change(&mut self, body: &Value) -> Done {
        let base = text(&body["branch"]);
        let new = body["new_branch"].as_str().unwrap_or(&base).to_owned();
        let Some(parent) = self.branches.get(&base).cloned() else { return no(404, "branch does not exist") };
        if new != base && self.branches.contains_key(&new) {
            return no(409, "branch already exists");
        }
        let mut files = self.commits[&parent].files.clone();
        for file in body["files"].as_array().into_iter().flatten() {
            let path = text(&file["path"]);
            let known = files.get(&path).map(|content| id(content));
            let content = STANDARD.decode(text(&file["content"])).unwrap_or_default();
            match (file["operation"].as_str(), known) {
                (Some("create"), None) => drop(files.insert(path, content)),
                (Some("update"), Some(known)) if file["sha"] == known.as_str() => {
                    files.insert(path, content);
                }
                (Some("delete"), Some(known)) if file["sha"] == known.as_str() => drop(files.remove(&path)),
                _ => return no(422, "sha does not match"),
            }
        }
        let commit = self.store(Some(parent.clone()), files);
        self.messages.insert(commit.clone(), text(&body["message"]));
        self.branches.insert(new, commit.clone());
        made(json!({"commit": {"sha": commit, "parents": [{"sha": parent}]}}))
    }

    /// GitHub and Gitea: a commit.
    fn commit_told(&self, id: &str) -> Done {
        let Some(commit) = self.commits.get(id) else { return no(404, "Not Found") };
        let message = self.messages.get(id).cloned().unwrap_or_default();
        let parents: Vec<Value> = commit.parent.iter().map(|parent| json!({"sha": parent})).collect();
        // A commit's tree is known by the commit's id here.
        if self.dialect == ScmDialect::GitHub {
            ok(json!({"sha": id, "tree": {"sha": id}, "message": message, "parents": parents}))
        } else {
            ok(json!({"sha": id, "commit": {"message": message}, "parents": parents}))
        }
    }

    /// GitHub: objects and references.
    fn git(&mut self, method: &Method, rest: &[&str], body: &Value) -> Done {
        match (method.as_str(), rest) {
            ("POST", ["blobs"]) => {
                let content = STANDARD.decode(text(&body["content"])).unwrap_or_default();
                let sha = id(&content);
                self.blobs.insert(sha.clone(), content);
                made(json!({"sha": sha}))
            }
            ("POST", ["trees"]) => {
                let base = self.commits.get(&text(&body["base_tree"])).map(|commit| commit.files.clone());
                let Some(mut files) = base else { return no(404, "Not Found") };
                for entry in body["tree"].as_array().into_iter().flatten() {
                    let path = text(&entry["path"]);
                    self.set_executable(&path, entry["mode"] == "100755");
                    if let Some(content) = entry["content"].as_str() {
                        files.insert(path, content.as_bytes().to_vec());
                    } else if let Some(blob) = self.blobs.get(&text(&entry["sha"])) {
                        files.insert(path, blob.clone());
                    } else if files.remove(&path).is_none() {
                        return no(422, "GitRPC::BadObjectState");
                    }
                }
                let sha = id(format!("tree {files:?}").as_bytes());
                self.trees.insert(sha.clone(), files);
                made(json!({"sha": sha}))
            }
            ("POST", ["commits"]) => {
                let Some(files) = self.trees.get(&text(&body["tree"])).cloned() else {
                    return no(422, "no tree");
                };
                let commit = self.store(Some(text(&body["parents"][0])), files);
                self.messages.insert(commit.clone(), text(&body["message"]));
                if body["signature"].is_string() {
                    self.signed.push(body.clone());
                }
                made(json!({"sha": commit}))
            }
            ("POST", ["refs"]) => {
                let name = text(&body["ref"]).trim_start_matches("refs/heads/").to_owned();
                if self.branches.contains_key(&name) {
                    return no(422, "Reference already exists");
                }
                self.branches.insert(name, text(&body["sha"]));
                made(json!({}))
            }
            ("PATCH", ["refs", "heads", name @ ..]) => {
                let (name, commit) = (name.join("/"), text(&body["sha"]));
                let Some(at) = self.branches.get(&name) else { return no(422, "Reference does not exist") };
                if body["force"] != true && !self.is_above(&commit, at) {
                    return no(422, "Update is not a fast forward");
                }
                self.branches.insert(name, commit);
                ok(json!({}))
            }
            ("DELETE", ["refs", "heads", name @ ..]) => self.remove(&name.join("/"), 422),
            _ => no(404, "Not Found"),
        }
    }

    /// Removes a webhook; one that is not there is told.
    pub(super) fn remove_hook(&mut self, is_it: impl Fn(&Hook) -> bool) -> Done {
        let before = self.hooks.len();
        self.hooks.retain(|hook| !is_it(hook));
        Done { status: if self.hooks.len() < before { 204 } else { 404 }, ..Done::default() }
    }

    fn hook(&mut self, method: &Method, scope: &str, rest: &[&str], body: &Value) -> Done {
        match (method.as_str(), rest) {
            ("GET", []) => {
                let of = self.hooks.iter().filter(|hook| hook.scope == scope);
                ok(of
                    .map(|hook| json!({"id": hook.id, "config": {"url": hook.body["config"]["url"]}}))
                    .collect())
            }
            ("POST", []) => {
                let id = self.next_id();
                self.hooks.push(Hook { id, scope: scope.to_owned(), body: body.clone() });
                made(json!({"id": id}))
            }
            ("PATCH", [id]) => match self.hooks.iter_mut().find(|hook| hook.id.to_string() == *id) {
                Some(hook) => {
                    let mut body = body.clone();
                    if self.dialect == ScmDialect::Gitea {
                        // It takes all of an edit but the secret.
                        body["config"]["secret"] = hook.body["config"]["secret"].clone();
                    }
                    hook.body = body;
                    ok(json!({}))
                }
                None => no(404, "Not Found"),
            },
            ("DELETE", [id]) => self.remove_hook(|hook| hook.scope == scope && hook.id.to_string() == *id),
            _ => no(404, "Not Found"),
        }
    }

    fn open(&mut self, body: &Value) -> Done {
        let (head, base) = (text(&body["head"]), text(&body["base"]));
        if !self.branches.contains_key(&head) || !self.branches.contains_key(&base) {
            return no(if self.dialect == ScmDialect::GitHub { 422 } else { 404 }, "no such branch");
        }
        let is_open = |pull: &Pull| !pull.closed && pull.merged.is_none();
        if self.pulls.iter().any(|pull| is_open(pull) && pull.head == head && pull.base == base) {
            let status = if self.dialect == ScmDialect::GitHub { 422 } else { 409 };
            return no(status, "A pull request already exists");
        }
        let number = self.add_pull(text(&body["title"]), text(&body["body"]), head, base);
        made(self.shown(&self.pulls[number as usize - 1]))
    }

    fn shown(&self, pull: &Pull) -> Value {
        let gone = pull.merged.as_ref().map(|(_, head)| head);
        let head = self.branches.get(&pull.head).or(gone);
        let is_over = pull.closed || pull.merged.is_some();
        let repository = json!({"full_name": "plural/fleet"});
        let of = json!({"full_name": if pull.fork { "mallory/fleet" } else { "plural/fleet" }});
        json!({
            "number": pull.number,
            "html_url": format!("{}/plural/fleet/pulls/{}", self.url, pull.number),
            "title": pull.title,
            "body": pull.body,
            "state": if is_over { "closed" } else { "open" },
            "draft": false,
            "merged_at": pull.merged.as_ref().map(|_| "2026-01-01T00:00:00Z"),
            "merge_commit_sha": pull.merged.as_ref().map(|(commit, _)| commit),
            "head": {"ref": pull.head, "sha": head.cloned().unwrap_or_default(), "repo": of},
            "base": {"ref": pull.base, "sha": self.branches.get(&pull.base), "repo": repository},
            "user": {"login": SELF},
            "labels": pull.labels.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        })
    }

    fn pull(&mut self, method: &Method, number: u64, rest: &[&str], body: &Value) -> Done {
        let index = number as usize - 1;
        match (method.as_str(), rest) {
            ("GET", []) => ok(self.shown(&self.pulls[index])),
            ("PATCH", []) => {
                let pull = &mut self.pulls[index];
                if let Some(title) = body["title"].as_str() {
                    title.clone_into(&mut pull.title);
                }
                if let Some(text) = body["body"].as_str() {
                    text.clone_into(&mut pull.body);
                }
                pull.closed |= body["state"] == "closed";
                ok(self.shown(&self.pulls[index]))
            }
            ("PUT" | "POST", ["merge"]) => self.merge(index, body),
            ("GET", ["files"]) => {
                let removed = if self.dialect == ScmDialect::GitHub { "removed" } else { "deleted" };
                let shown = |(path, status): (String, &str)| json!({"filename": path, "status": if status == "removed" { removed } else { status }});
                ok(self.changed(index).into_iter().map(shown).collect())
            }
            ("GET", ["reviews"]) => ok(self.pulls[index].reviews.clone().into()),
            // Pull requests are the connection's own here.
            ("POST", ["reviews"]) if self.who == SELF => no(422, "Can not approve your own pull request"),
            ("POST", ["reviews"]) => {
                let approves = if self.dialect == ScmDialect::GitHub { "APPROVE" } else { "APPROVED" };
                if body["event"] != approves || body["commit_id"] != self.head_of(index).as_str() {
                    return no(422, "no such event or commit");
                }
                let who = self.who.clone();
                self.review(number, &who, "APPROVED");
                ok(json!({}))
            }
            ("POST", ["labels"]) => {
                for label in body["labels"].as_array().into_iter().flatten() {
                    let name = match label.as_u64() {
                        Some(id) => self.labels[id as usize].clone(),
                        None => text(label),
                    };
                    if !self.pulls[index].labels.contains(&name) {
                        self.pulls[index].labels.push(name);
                    }
                }
                ok(json!([]))
            }
            ("GET", ["comments"]) => {
                let of = self.comments.iter().filter(|comment| comment.number == number);
                let shown = |comment: &super::state::Comment| {
                    let app = (comment.user == SELF).then(|| json!({"id": APP}));
                    json!({
                        "id": comment.id, "body": comment.body, "user": {"login": comment.user},
                        "performed_via_github_app": app,
                    })
                };
                ok(of.map(shown).collect())
            }
            ("POST", ["comments"]) => {
                let who = self.who.clone();
                let id = self.comment(number, &who, &text(&body["body"]));
                made(json!({"id": id}))
            }
            _ => no(404, "Not Found"),
        }
    }

    fn merge(&mut self, index: usize, body: &Value) -> Done {
        let expected =
            if self.dialect == ScmDialect::GitHub { &body["sha"] } else { &body["head_commit_id"] };
        if self.dialect == ScmDialect::Gitea && self.is_unchecked(index) {
            return no(405, "Please try again later");
        }
        let how = if self.dialect == ScmDialect::GitHub {
            let known = [("merge", "merge"), ("squash", "squash"), ("rebase", "rebase")];
            method_of(&known, &body["merge_method"])
        } else {
            let known = [
                ("merge", "merge"),
                ("squash", "squash"),
                ("rebase", "rebase"),
                ("rebase-merge", "merge"),
                ("fast-forward-only", "rebase"),
            ];
            method_of(&known, &body["Do"])
        };
        let Some(how) = how else { return no(422, "No such merge method") };
        match self.join(index, expected, how) {
            Some(true) => ok(json!({})),
            Some(false) => no(409, "Head branch was modified. Review and try the merge again."),
            None => no(405, "Pull Request is not mergeable"),
        }
    }

    /// Merges a pull request; false when its head is another, nothing when it cannot be merged.
    pub(super) fn join(&mut self, index: usize, expected: &Value, how: &'static str) -> Option<bool> {
        let pull = &self.pulls[index];
        let (branch, base) = (pull.head.clone(), pull.base.clone());
        if pull.closed || pull.merged.is_some() {
            return None;
        }
        let (head, at) = (self.branches.get(&branch).cloned()?, self.branches.get(&base).cloned()?);
        if *expected != head.as_str() {
            return Some(false);
        }
        let (ours, theirs) = (&self.commits[&at].files, &self.commits[&head].files);
        let files = match self.fork_of(&at, &head) {
            Some(fork) => merged(&self.commits[&fork].files, ours, theirs)?,
            // They have nothing in common that could be changed twice.
            None => {
                ours.iter().chain(theirs).map(|(path, content)| (path.clone(), content.clone())).collect()
            }
        };
        let commit = self.advance(&base, files);
        self.pulls[index].merged = Some((commit, head));
        self.pulls[index].merged_as = Some(how);
        Some(true)
    }
}

/// What two sides made of the same files; nothing where both changed one of them, and differently.
fn merged(was: &Files, ours: &Files, theirs: &Files) -> Option<Files> {
    let mut files = ours.clone();
    for path in was.keys().chain(theirs.keys()) {
        let (before, own, other) = (was.get(path), ours.get(path), theirs.get(path));
        if other == before || other == own {
            continue;
        }
        if own != before {
            return None;
        }
        match other {
            Some(content) => files.insert(path.clone(), content.clone()),
            None => files.remove(path),
        };
    }
    Some(files)
}
