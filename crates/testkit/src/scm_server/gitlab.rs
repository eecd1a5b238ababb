//! What GitLab answers.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Method, Uri};
use serde_json::{Value, json};

use super::{
    ScmDialect,
    answers::{Done, SELF, made, no, ok, pieces, text},
    state::{Comment, Hook, Host, Listed, Pull},
};

/// The group of its repository.
const GROUP: &str = "plural/platform";

impl Host {
    pub(super) fn gitlab<'a>(
        &mut self,
        method: &Method,
        uri: &Uri,
        of: impl Fn(&str) -> &'a str,
        body: &Value,
    ) -> Done {
        let parts = pieces(uri, "/api/");
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let rest = match parts.as_slice() {
            ["user"] => return ok(json!({"username": self.who})),
            ["groups", GROUP, "hooks", rest @ ..] => {
                return self.gitlab_hook(method, "organisation", rest, body);
            }
            ["projects", project, rest @ ..] if *project == ScmDialect::GitLab.repository() => rest,
            _ => return no(404, "404 Project Not Found"),
        };
        match (method.as_str(), rest) {
            (_, ["hooks", rest @ ..]) => self.gitlab_hook(method, "repository", rest, body),
            ("GET", []) => ok(json!({"default_branch": "main"})),
            ("GET", ["repository", "branches", name]) => match self.branches.get(*name) {
                Some(commit) => ok(json!({"name": name, "commit": {"id": commit}})),
                None => no(404, "404 Branch Not Found"),
            },
            ("DELETE", ["repository", "branches", name]) => match self.branches.remove(*name) {
                Some(_) => Done { status: 204, ..Done::default() },
                None => no(404, "404 Branch Not Found"),
            },
            ("GET" | "HEAD", ["repository", "files", path, rest @ ..]) => {
                let file = self.commits.get(of("ref")).and_then(|commit| commit.files.get(*path));
                match (file, rest) {
                    (Some(content), ["raw"]) => {
                        Done { status: 200, raw: Some(content.clone()), ..Done::default() }
                    }
                    (Some(_), []) => {
                        let last = self.last_change(of("ref"), path);
                        let headers = vec![("x-gitlab-last-commit-id", last)];
                        Done { status: 200, headers, ..Done::default() }
                    }
                    _ => no(404, "404 File Not Found"),
                }
            }
            ("GET", ["repository", "tree"]) => {
                let (folder, deep) = (of("path"), of("recursive") == "true");
                let Some(listed) = self.listed_at(of("ref"), folder, deep) else {
                    return no(404, "404 Tree Not Found");
                };
                let below = if folder.is_empty() { String::new() } else { format!("{folder}/") };
                let entry = |one: &Listed| {
                    let path = format!("{below}{}", one.path);
                    json!({"id": one.id, "path": path, "type": one.kind(), "mode": one.mode})
                };
                ok(listed.iter().map(entry).collect())
            }
            ("POST", ["repository", "commits"]) => self.gitlab_commit(body),
            ("GET", ["repository", "commits", id]) => match self.commits.get(*id) {
                Some(commit) => {
                    let message = self.messages.get(*id).cloned().unwrap_or_default();
                    let parents: Vec<&String> = commit.parent.iter().collect();
                    ok(json!({"id": id, "message": message, "parent_ids": parents}))
                }
                None => no(404, "404 Commit Not Found"),
            },
            ("GET", ["repository", "commits", commit, "statuses"]) => {
                let told = |status: Value| json!({"name": status["name"], "status": status["state"]});
                ok(self.newest_statuses(commit, "name").into_iter().map(told).collect())
            }
            ("POST", ["statuses", commit]) => {
                let same = |(of, known): &(String, Value)| {
                    of == commit && known["name"] == body["name"] && known["state"] == body["state"]
                };
                if self.statuses.iter().any(same) {
                    return no(400, "Cannot transition status via :drop from :failed");
                }
                self.statuses.push(((*commit).to_owned(), body.clone()));
                made(json!({}))
            }
            ("GET", ["merge_requests"]) => {
                let is_meant = |pull: &&Pull| {
                    let is_open = !pull.closed && pull.merged.is_none();
                    (of("state") != "opened" || is_open)
                        && (of("source_branch").is_empty() || pull.head == of("source_branch"))
                        && (of("target_branch").is_empty() || pull.base == of("target_branch"))
                };
                ok(self.pulls.iter().rev().filter(is_meant).map(|pull| self.merge_request(pull)).collect())
            }
            ("POST", ["merge_requests"]) => self.gitlab_open(body),
            (_, ["merge_requests", number, rest @ ..]) => match number.parse::<u64>() {
                Ok(number) if number > 0 && number as usize <= self.pulls.len() => {
                    self.gitlab_pull(method, number, rest, body)
                }
                _ => no(404, "404 Not found"),
            },
            _ => no(404, "404 Not Found"),
        }
    }

    /// The commit that changed a file last, at a commit.
    fn last_change(&self, commit: &str, path: &str) -> String {
        let mut at = commit.to_owned();
        while let Some(parent) = self.commits[&at].parent.clone() {
            if self.commits[&parent].files.get(path) != self.commits[&at].files.get(path) {
                break;
            }
            at = parent;
        }
        at
    }

    fn gitlab_commit(&mut self, body: &Value) -> Done {
        let branch = text(&body["branch"]);
        let parent = match body["start_sha"].as_str() {
            Some(_) if self.branches.contains_key(&branch) => {
                return no(400, &format!("A branch called '{branch}' already exists."));
            }
            Some(start) => start.to_owned(),
            None => self.branches.get(&branch).cloned().unwrap_or_default(),
        };
        let Some(mut files) = self.commits.get(&parent).map(|commit| commit.files.clone()) else {
            return no(400, "You can only create or edit files when you are on a branch");
        };
        for action in body["actions"].as_array().into_iter().flatten() {
            let path = text(&action["file_path"]);
            let is_there = files.contains_key(&path);
            let content = STANDARD.decode(text(&action["content"])).unwrap_or_default();
            if let (true, Some(last)) = (is_there, action["last_commit_id"].as_str())
                && self.last_change(&parent, &path) != last
            {
                return no(
                    400,
                    "You are attempting to update a file that has changed since you started editing it.",
                );
            }
            match (action["action"].as_str(), is_there) {
                (Some("create"), false) | (Some("update"), true) => drop(files.insert(path, content)),
                (Some("delete"), true) => drop(files.remove(&path)),
                (Some("chmod"), true) => self.set_executable(&path, action["execute_filemode"] == true),
                (Some("create"), true) => return no(400, "A file with this name already exists"),
                _ => return no(400, "A file with this name doesn't exist"),
            }
        }
        let commit = self.store(Some(parent.clone()), files);
        self.messages.insert(commit.clone(), text(&body["commit_message"]));
        self.branches.insert(branch, commit.clone());
        made(json!({"id": commit, "parent_ids": [parent]}))
    }

    fn gitlab_hook(&mut self, method: &Method, scope: &str, rest: &[&str], body: &Value) -> Done {
        match (method.as_str(), rest) {
            ("GET", []) => {
                let of = self.hooks.iter().filter(|hook| hook.scope == scope);
                ok(of.map(|hook| json!({"id": hook.id, "url": hook.body["url"]})).collect())
            }
            ("POST", []) => {
                let id = self.next_id();
                self.hooks.push(Hook { id, scope: scope.to_owned(), body: body.clone() });
                made(json!({"id": id}))
            }
            ("PUT", [id]) => match self.hooks.iter_mut().find(|hook| hook.id.to_string() == *id) {
                Some(hook) => {
                    hook.body = body.clone();
                    ok(json!({}))
                }
                None => no(404, "404 Not found"),
            },
            ("DELETE", [id]) => self.remove_hook(|hook| hook.scope == scope && hook.id.to_string() == *id),
            _ => no(404, "404 Not found"),
        }
    }

    fn gitlab_open(&mut self, body: &Value) -> Done {
        let (head, base) = (text(&body["source_branch"]), text(&body["target_branch"]));
        let is_open = |pull: &Pull| !pull.closed && pull.merged.is_none();
        if self.pulls.iter().any(|pull| is_open(pull) && pull.head == head && pull.base == base) {
            let message = json!(["Another open merge request already exists for this source branch: !1"]);
            return Done { status: 409, body: json!({"message": message}), ..Done::default() };
        }
        if !self.branches.contains_key(&head) || !self.branches.contains_key(&base) {
            return no(400, "Source branch does not exist");
        }
        let number = self.add_pull(text(&body["title"]), text(&body["description"]), head, base);
        made(self.merge_request(&self.pulls[number as usize - 1]))
    }

    fn merge_request(&self, pull: &Pull) -> Value {
        let state = match (&pull.merged, pull.closed) {
            (Some(_), _) => "merged",
            (None, true) => "closed",
            (None, false) => "opened",
        };
        let head = pull.merged.as_ref().map(|(_, head)| head.as_str());
        let head = head.or_else(|| self.branches.get(&pull.head).map(String::as_str));
        let merged_as = |how: &str| {
            let merged = pull.merged.as_ref().filter(|_| pull.merged_as == Some(how));
            merged.map(|(commit, _)| commit)
        };
        json!({
            "iid": pull.number,
            "web_url": format!("{}/plural/platform/fleet/-/merge_requests/{}", self.url, pull.number),
            "title": pull.title,
            "description": pull.body,
            "state": state,
            "draft": false,
            "source_branch": pull.head,
            "target_branch": pull.base,
            "sha": head,
            "source_project_id": 7,
            "target_project_id": 7,
            "author": {"username": SELF},
            "labels": pull.labels,
            "merge_commit_sha": merged_as("merge"),
            "squash_commit_sha": merged_as("squash"),
            "detailed_merge_status": if pull.checked.as_deref() == head { "mergeable" } else { "checking" },
        })
    }

    fn gitlab_pull(&mut self, method: &Method, number: u64, rest: &[&str], body: &Value) -> Done {
        let index = number as usize - 1;
        match (method.as_str(), rest) {
            ("GET", []) => ok(self.merge_request(&self.pulls[index])),
            ("PUT", []) => {
                let pull = &mut self.pulls[index];
                if let Some(title) = body["title"].as_str() {
                    title.clone_into(&mut pull.title);
                }
                if let Some(text) = body["description"].as_str() {
                    text.clone_into(&mut pull.body);
                }
                pull.closed |= body["state_event"] == "close";
                for label in body["add_labels"].as_str().into_iter().flat_map(|labels| labels.split(',')) {
                    if !pull.labels.iter().any(|known| known == label) {
                        pull.labels.push(label.to_owned());
                    }
                }
                ok(self.merge_request(&self.pulls[index]))
            }
            ("PUT", ["merge"]) if self.is_unchecked(index) => no(405, "405 Method Not Allowed"),
            ("PUT", ["merge"]) => {
                let how = if body["squash"] == true { "squash" } else { "merge" };
                match self.join(index, &body["sha"], how) {
                    Some(true) => ok(self.merge_request(&self.pulls[index])),
                    Some(false) => no(409, "SHA does not match HEAD of source branch"),
                    None => no(405, "405 Method Not Allowed"),
                }
            }
            ("GET", ["diffs"]) => {
                let shown = |(path, status): (String, &str)| {
                    json!({
                        "old_path": path, "new_path": path, "new_file": status == "added",
                        "deleted_file": status == "removed", "renamed_file": false,
                    })
                };
                ok(self.changed(index).into_iter().map(shown).collect())
            }
            ("GET", ["reviewers"]) => ok(self.pulls[index].reviews.clone().into()),
            ("GET", ["approvals"]) => {
                let approved =
                    self.pulls[index].reviews.iter().filter(|review| review["state"] == "approved");
                let by: Vec<Value> = approved.map(|review| json!({"user": review["user"]})).collect();
                ok(json!({"approved_by": by}))
            }
            ("POST", ["approve"]) if self.who == SELF => no(401, "401 Unauthorized"),
            ("POST", ["approve"]) if body["sha"] != self.head_of(index).as_str() => {
                no(409, "SHA does not match HEAD of source branch")
            }
            ("POST", ["approve"]) => {
                let who = self.who.clone();
                self.review(number, &who, "APPROVED");
                made(json!({}))
            }
            ("GET", ["notes"]) => {
                let of = self.comments.iter().filter(|comment| comment.number == number);
                let shown = |comment: &Comment| json!({"id": comment.id, "body": comment.body, "author": {"username": comment.user}});
                ok(of.map(shown).collect())
            }
            ("POST", ["notes"]) => {
                let who = self.who.clone();
                let id = self.comment(number, &who, &text(&body["body"]));
                made(json!({"id": id}))
            }
            ("PUT", ["notes", id]) => {
                let who = self.who.clone();
                match self.comments.iter_mut().find(|comment| comment.id.to_string() == *id) {
                    Some(comment) if comment.user == who => {
                        comment.body = text(&body["body"]);
                        ok(json!({}))
                    }
                    Some(_) => no(403, "403 Forbidden"),
                    None => no(404, "404 Not found"),
                }
            }
            _ => no(404, "404 Not found"),
        }
    }
}
