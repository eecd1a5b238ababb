//! What Azure DevOps answers. The API's address is that of an organisation, `plural` is a project of it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Method, Uri};
use serde_json::{Value, json};

use super::{
    answers::{Done, SELF, made, method_of, ok, pieces, text},
    state::{Hook, Host, Listed, Pull},
};

/// The ids of the project and the repository.
const PROJECT: &str = "6ce954b1-ce1f-45d1-b94d-e6bf2464ba2c";
const REPOSITORY: &str = "278d5cd2-584d-4b63-824a-2ba458937249";
/// Characters of a text in a list.
const CUT: usize = 400;

fn refuse(status: u16, message: &str) -> Done {
    let body = json!({"$id": "1", "message": message, "typeKey": "GitException", "errorCode": 0});
    Done { status, body, ..Done::default() }
}

fn missing() -> Done {
    refuse(404, "TF401174: The item could not be found")
}

fn list(items: Vec<Value>) -> Done {
    let count = items.len();
    ok(json!({"count": count, "value": Value::from(items)}))
}

fn user(who: &str) -> Value {
    json!({"id": format!("id-of-{who}"), "displayName": who, "uniqueName": who})
}

impl Host {
    pub(super) fn azure<'a>(
        &mut self,
        method: &Method,
        uri: &Uri,
        of: impl Fn(&str) -> &'a str,
        body: &Value,
    ) -> Done {
        let parts = pieces(uri, "/api/");
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        if parts.as_slice() == ["_apis", "connectionData"] {
            // This part of the API has no version that is released.
            if of("api-version").contains("-preview") {
                return ok(json!({"authenticatedUser": user(&self.who)}));
            }
            return refuse(400, "The requested version is under preview");
        }
        if of("api-version") != "7.1" {
            return refuse(400, "No api-version was supplied");
        }
        let rest = match parts.as_slice() {
            ["_apis", "projects", "plural"] => return ok(json!({"id": PROJECT, "name": "plural"})),
            ["_apis", "hooks", "subscriptions", rest @ ..] => return self.azure_hook(method, rest, body),
            ["plural", "_apis", "git", "repositories", "fleet", rest @ ..] => rest,
            _ => return missing(),
        };
        // A reader asks by what is encoded in the query.
        let skip: usize = of("%24skip").parse().unwrap_or(0);
        match (method.as_str(), rest) {
            ("GET", []) => ok(json!({
                "id": REPOSITORY, "name": "fleet", "defaultBranch": "refs/heads/main",
                "project": {"id": PROJECT, "name": "plural"},
            })),
            ("GET", ["refs"]) => {
                let filter = of("filter").strip_prefix("heads/").unwrap_or_default();
                let found = self.branches.iter().filter(|(name, _)| name.starts_with(filter));
                let shown = |(name, commit): (&String, &String)| json!({"name": format!("refs/heads/{name}"), "objectId": commit});
                list(found.map(shown).collect())
            }
            ("POST", ["refs"]) => self.azure_remove(body),
            ("GET", ["items"]) => self.azure_item(
                of("versionDescriptor.version"),
                of("path").trim_start_matches('/'),
                of("%24format"),
            ),
            ("GET", ["commits", commit]) if self.commits.contains_key(*commit) => {
                // A commit's tree is known by the commit's id here.
                ok(json!({"commitId": commit, "treeId": commit}))
            }
            ("GET", ["trees", tree]) => {
                let Some(listed) = self.listed(tree, of("recursive") == "true") else { return missing() };
                let entry = |one: &Listed| {
                    let mode = one.mode.trim_start_matches('0');
                    json!({"relativePath": one.path, "mode": mode, "gitObjectType": one.kind(), "objectId": one.id})
                };
                ok(json!({"treeEntries": listed.iter().map(entry).collect::<Vec<_>>()}))
            }
            ("POST", ["pushes"]) => self.azure_push(body),
            ("POST", ["commits", commit, "statuses"]) => {
                self.statuses.push(((*commit).to_owned(), body.clone()));
                made(json!({}))
            }
            ("GET", ["commits", commit, "statuses"]) => {
                let all =
                    self.statuses.iter().filter(|(of, _)| of == commit).map(|(_, status)| status.clone());
                let known = match of("latestOnly") {
                    "true" => self.newest_statuses(commit, "context"),
                    _ => all.collect(),
                };
                let top: usize = of("top").parse().unwrap_or(1000);
                let skip: usize = of("skip").parse().unwrap_or(0);
                list(known.into_iter().skip(skip).take(top).collect())
            }
            ("GET", ["pullrequests"]) => {
                let is_of = |name: &str, branch: &str| {
                    of(name).is_empty() || of(name) == format!("refs/heads/{branch}")
                };
                let is_meant = |pull: &&Pull| {
                    let is_open = !pull.closed && pull.merged.is_none();
                    (of("searchCriteria.status") == "all" || is_open)
                        && is_of("searchCriteria.sourceRefName", &pull.head)
                        && is_of("searchCriteria.targetRefName", &pull.base)
                };
                let found = self.pulls.iter().rev().filter(is_meant).skip(skip).take(self.page);
                let shown = |pull: &Pull| {
                    let mut shown = Self::azure_shown(pull);
                    let text: String = pull.body.chars().take(CUT).collect();
                    shown["description"] = text.into();
                    shown
                };
                list(found.map(shown).collect())
            }
            ("POST", ["pullrequests"]) => self.azure_open(body),
            (_, ["pullRequests", number, rest @ ..]) => match number.parse::<u64>() {
                Ok(number) if number > 0 && number as usize <= self.pulls.len() => {
                    self.azure_pull(method, number, rest, skip, body)
                }
                _ => missing(),
            },
            _ => missing(),
        }
    }

    fn azure_item(&self, commit: &str, path: &str, format: &str) -> Done {
        let Some(commit) = self.commits.get(commit) else { return missing() };
        let folder = format!("{path}/");
        match commit.files.get(path) {
            Some(_) if format == "json" => ok(json!({"gitObjectType": "blob", "path": format!("/{path}")})),
            Some(content) => {
                let headers = vec![("content-type", "application/octet-stream".to_owned())];
                Done { status: 200, raw: Some(content.clone()), headers, ..Done::default() }
            }
            None if commit.files.keys().any(|file| file.starts_with(&folder)) => {
                ok(json!({"gitObjectType": "tree", "isFolder": true, "path": format!("/{path}")}))
            }
            None => missing(),
        }
    }

    /// Several files in one commit, on top of what the branch has to be at.
    fn azure_push(&mut self, body: &Value) -> Done {
        let (update, commit) = (&body["refUpdates"][0], &body["commits"][0]);
        let name = text(&update["name"]).trim_start_matches("refs/heads/").to_owned();
        let parent = text(&update["oldObjectId"]);
        if self.branches.get(&name).is_some_and(|tip| *tip != parent) {
            return refuse(409, "TF401028: The reference has already been updated by another client");
        }
        // A branch that is not there begins at a commit that is.
        let Some(mut files) = self.commits.get(&parent).map(|commit| commit.files.clone()) else {
            return refuse(400, "TF401035: The object does not exist");
        };
        for change in commit["changes"].as_array().into_iter().flatten() {
            let path = text(&change["item"]["path"]).trim_start_matches('/').to_owned();
            let content = STANDARD.decode(text(&change["newContent"]["content"])).unwrap_or_default();
            match (change["changeType"].as_str(), files.contains_key(&path)) {
                (Some("add"), false) | (Some("edit"), true) => drop(files.insert(path, content)),
                (Some("delete"), true) => drop(files.remove(&path)),
                _ => return refuse(400, "TF401029: The change does not fit the item"),
            }
        }
        let commit = self.store(Some(parent), files);
        self.branches.insert(name, commit.clone());
        made(json!({"pushId": 1, "commits": [{"commitId": commit}]}))
    }

    fn azure_remove(&mut self, body: &Value) -> Done {
        let name = text(&body[0]["name"]).trim_start_matches("refs/heads/").to_owned();
        let is_old = self.branches.get(&name).is_some_and(|tip| body[0]["oldObjectId"] == tip.as_str());
        if is_old {
            self.branches.remove(&name);
        }
        let status = if is_old { "succeeded" } else { "staleOldObjectId" };
        list(vec![json!({"success": is_old, "updateStatus": status})])
    }

    fn azure_hook(&mut self, method: &Method, rest: &[&str], body: &Value) -> Done {
        let is_of_all = body["publisherInputs"]["repository"].as_str().unwrap_or_default().is_empty();
        let scope = if is_of_all { "organisation" } else { "repository" };
        match (method.as_str(), rest) {
            ("GET", []) => {
                let shown = |hook: &Hook| {
                    let mut shown = hook.body.clone();
                    shown["id"] = hook.id.to_string().into();
                    shown["consumerInputs"]["basicAuthPassword"] = "********".into();
                    shown
                };
                list(self.hooks.iter().map(shown).collect())
            }
            ("POST", []) => {
                let id = self.next_id();
                self.hooks.push(Hook { id, scope: scope.to_owned(), body: body.clone() });
                ok(json!({"id": id.to_string()}))
            }
            ("PUT", [id]) => match self.hooks.iter_mut().find(|hook| hook.id.to_string() == *id) {
                Some(hook) => {
                    hook.body = body.clone();
                    ok(json!({}))
                }
                None => missing(),
            },
            ("DELETE", [id]) => self.remove_hook(|hook| hook.id.to_string() == *id),
            _ => missing(),
        }
    }

    fn azure_open(&mut self, body: &Value) -> Done {
        let branch = |side: &str| text(&body[side]).trim_start_matches("refs/heads/").to_owned();
        let (head, base) = (branch("sourceRefName"), branch("targetRefName"));
        if !self.branches.contains_key(&head) || !self.branches.contains_key(&base) {
            return refuse(400, "TF401398: The source or target branch does not exist");
        }
        let is_it =
            |pull: &Pull| !pull.closed && pull.merged.is_none() && pull.head == head && pull.base == base;
        if self.pulls.iter().any(is_it) {
            return refuse(409, "TF401179: An active pull request for the source and target branch exists");
        }
        let number = self.add_pull(text(&body["title"]), text(&body["description"]), head, base);
        let index = number as usize - 1;
        self.pulls[index].checked = Some(self.head_of(index));
        made(Self::azure_shown(&self.pulls[index]))
    }

    /// The commits are those that were looked at for conflicts last, which may be others than there are now.
    fn azure_shown(pull: &Pull) -> Value {
        let is_told = pull.merged.as_ref().is_some_and(|(_, head)| pull.checked.as_ref() == Some(head));
        let status = match (is_told, pull.closed) {
            (true, _) => "completed",
            (false, true) => "abandoned",
            (false, false) => "active",
        };
        let head = pull.merged.as_ref().filter(|_| is_told).map(|(_, head)| head);
        let head = head.or(pull.checked.as_ref());
        let merged = pull.merged.as_ref().filter(|_| is_told).map(|(commit, _)| json!({"commitId": commit}));
        json!({
            "pullRequestId": pull.number,
            "status": status,
            "createdBy": user(SELF),
            "title": pull.title,
            "description": pull.body,
            "sourceRefName": format!("refs/heads/{}", pull.head),
            "targetRefName": format!("refs/heads/{}", pull.base),
            "mergeStatus": if pull.merged.is_some() && !is_told { "queued" } else { "succeeded" },
            "isDraft": false,
            "lastMergeSourceCommit": head.map(|head| json!({"commitId": head})),
            "lastMergeCommit": merged,
            "reviewers": pull.reviews,
            "labels": pull.labels.iter().map(|name| json!({"name": name, "active": true})).collect::<Vec<_>>(),
        })
    }

    pub(super) fn azure_review(&mut self, number: u64, who: &str, event: &str) {
        let vote: i64 = match event {
            "APPROVED" => 10,
            "REQUEST_CHANGES" => -10,
            _ => {
                self.comment(number, who, "hm");
                return;
            }
        };
        self.azure_vote(number as usize - 1, who, &json!(vote));
    }

    fn azure_vote(&mut self, index: usize, who: &str, vote: &Value) {
        let mut reviewer = user(who);
        reviewer["vote"] = vote.clone();
        self.pulls[index].reviews.retain(|review| review["displayName"] != who);
        self.pulls[index].reviews.push(reviewer);
    }

    fn azure_complete(&mut self, index: usize, body: &Value) -> Done {
        let strategies = [
            ("noFastForward", "merge"),
            ("squash", "squash"),
            ("rebase", "rebase"),
            ("rebaseMerge", "merge"),
        ];
        let Some(how) = method_of(&strategies, &body["completionOptions"]["mergeStrategy"]) else {
            return refuse(400, "No such merge strategy");
        };
        match self.join(index, &body["lastMergeSourceCommit"]["commitId"], how) {
            // That it is merged is told from the second look on.
            Some(true) => {
                self.pulls[index].checked = None;
                ok(Self::azure_shown(&self.pulls[index]))
            }
            Some(false) => refuse(409, "TF401192: The pull request's source branch was updated"),
            None => refuse(409, "TF401181: The pull request cannot be edited due to its state"),
        }
    }

    fn azure_pull(&mut self, method: &Method, number: u64, rest: &[&str], skip: usize, body: &Value) -> Done {
        let index = number as usize - 1;
        match (method.as_str(), rest) {
            ("GET", []) => {
                let shown = ok(Self::azure_shown(&self.pulls[index]));
                // It looks for conflicts now.
                let head = self.pulls[index].merged.as_ref().map(|(_, head)| head.clone());
                self.pulls[index].checked = head.or_else(|| Some(self.head_of(index)));
                shown
            }
            ("PATCH", []) if body["status"] == "completed" => self.azure_complete(index, body),
            ("PATCH", []) => {
                let pull = &mut self.pulls[index];
                if let Some(title) = body["title"].as_str() {
                    title.clone_into(&mut pull.title);
                }
                if let Some(text) = body["description"].as_str() {
                    text.clone_into(&mut pull.body);
                }
                pull.closed |= body["status"] == "abandoned";
                ok(Self::azure_shown(&self.pulls[index]))
            }
            ("GET", ["iterations"]) => list(vec![json!({"id": 1}), json!({"id": 2})]),
            ("GET", ["iterations", "2", "changes"]) => {
                let shown = |(path, status): (String, &str)| {
                    let kind = match status {
                        "added" => "add",
                        "removed" => "delete",
                        _ => "edit",
                    };
                    json!({"changeType": kind, "item": {"path": format!("/{path}")}})
                };
                let all: Vec<Value> = self.changed(index).into_iter().map(shown).collect();
                let end = skip + self.page;
                let next = if end < all.len() { end } else { 0 };
                let entries: Vec<Value> = all.into_iter().skip(skip).take(self.page).collect();
                ok(json!({"changeEntries": entries, "nextSkip": next, "nextTop": next}))
            }
            ("PUT", ["reviewers", id]) => {
                let who = self.who.clone();
                if *id != user(&who)["id"] {
                    return refuse(403, "Votes cannot be made for others");
                }
                self.azure_vote(index, &who, &body["vote"]);
                ok(json!({}))
            }
            ("POST", ["labels"]) => {
                let name = text(&body["name"]);
                if !self.pulls[index].labels.contains(&name) {
                    self.pulls[index].labels.push(name);
                }
                ok(json!({}))
            }
            ("GET", ["threads"]) => {
                let of = self.comments.iter().filter(|comment| comment.number == number);
                let shown = |comment: &super::state::Comment| {
                    json!({"id": comment.id, "status": "closed", "comments": [{
                        "id": 1, "content": comment.body, "author": user(&comment.user), "commentType": "text",
                    }]})
                };
                let mut all: Vec<Value> = of.map(shown).collect();
                // It writes of votes itself.
                let voted = json!({"id": 1, "content": "mallory voted", "author": user("mallory"), "commentType": "system"});
                all.push(json!({"id": 0, "comments": [voted]}));
                list(all)
            }
            ("POST", ["threads"]) => {
                let who = self.who.clone();
                let id = self.comment(number, &who, &text(&body["comments"][0]["content"]));
                ok(json!({"id": id}))
            }
            ("PATCH", ["threads", id, "comments", "1"]) => {
                let who = self.who.clone();
                match self.comments.iter_mut().find(|comment| comment.id.to_string() == *id) {
                    Some(comment) if comment.user == who => {
                        comment.body = text(&body["content"]);
                        ok(json!({}))
                    }
                    Some(_) => refuse(403, "It is somebody else's"),
                    None => missing(),
                }
            }
            _ => missing(),
        }
    }
}
