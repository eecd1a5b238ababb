//! What Bitbucket Data Center answers. Its commits are made by git.

use http::{Method, Uri};
use serde_json::{Value, json};

use super::{
    answers::{Done, SELF, made, method_of, ok, pieces, text},
    state::{Hook, Host, Pull},
};

fn refuse(status: u16, message: &str) -> Done {
    let error = json!({"context": null, "message": message, "exceptionName": "com.atlassian.bitbucket"});
    Done { status, body: json!({"errors": [error]}), ..Done::default() }
}

fn missing() -> Done {
    refuse(404, "It does not exist")
}

/// A write that names another version than there is.
fn stale() -> Done {
    refuse(409, "You are attempting to modify a pull request based on out-of-date information.")
}

fn user(who: &str) -> Value {
    json!({
        "name": who, "slug": who, "id": who.len(), "displayName": who, "emailAddress": format!("{who}@example.com"),
    })
}

impl Host {
    pub(super) fn datacenter<'a>(
        &mut self,
        method: &Method,
        uri: &Uri,
        of: impl Fn(&str) -> &'a str,
        body: &Value,
    ) -> Done {
        let mut done = self.datacenter_answer(method, uri, &of, body);
        if let Some(items) = done.body.as_array() {
            let start: usize = of("start").parse().unwrap_or(0);
            let end = start + self.page;
            let values: Vec<Value> = items.iter().skip(start).take(self.page).cloned().collect();
            let is_last = end >= items.len();
            let next = (!is_last).then_some(end);
            done.body = json!({
                "values": values, "size": values.len(), "start": start, "isLastPage": is_last, "nextPageStart": next,
            });
        }
        if !self.is_nobody {
            done.headers.push(("x-ausername", self.who.clone()));
        }
        done
    }

    fn datacenter_answer<'a>(
        &mut self,
        method: &Method,
        uri: &Uri,
        of: impl Fn(&str) -> &'a str,
        body: &Value,
    ) -> Done {
        let parts = pieces(uri, "/rest/");
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let rest = match parts.as_slice() {
            ["branch-utils", "1.0", "projects", "plural", "repos", "fleet", "branches"]
                if *method == Method::DELETE =>
            {
                return self.datacenter_remove(&text(&body["name"]), &text(&body["endPoint"]));
            }
            ["build-status", "1.0", "commits", commit] if *method == Method::GET => {
                return ok(self.newest_statuses(commit, "key").into());
            }
            ["api", "1.0", rest @ ..] => rest,
            _ => return missing(),
        };
        let rest = match rest {
            ["application-properties"] => return ok(json!({"version": "8.19.0"})),
            ["users"] => {
                let all = [SELF, super::answers::OTHER].into_iter();
                return ok(all.filter(|who| who.contains(of("filter"))).map(user).collect());
            }
            ["users", slug] => return ok(user(slug)),
            ["projects", "plural", "webhooks", rest @ ..] => {
                return self.datacenter_hook(method, "organisation", rest, body);
            }
            ["projects", "plural", "repos", "fleet", rest @ ..] => rest,
            _ => return missing(),
        };
        match (method.as_str(), rest) {
            (_, ["webhooks", rest @ ..]) => self.datacenter_hook(method, "repository", rest, body),
            ("GET", ["default-branch"]) => ok(json!({"id": "refs/heads/main", "displayId": "main"})),
            ("GET", ["commits"]) => {
                let name = of("until").strip_prefix("refs/heads/").unwrap_or_default();
                match self.branches.get(name) {
                    Some(commit) => ok(json!([{"id": commit}])),
                    None => missing(),
                }
            }
            ("GET", ["raw", path @ ..]) => {
                let commit = self.commits.get(of("at"));
                match commit.and_then(|commit| commit.files.get(&path.join("/"))) {
                    Some(content) => Done { status: 200, raw: Some(content.clone()), ..Done::default() },
                    None => missing(),
                }
            }
            ("POST", ["commits", commit, "builds"]) => {
                let is_short = |name: &str| body[name].as_str().is_some_and(|text| text.len() <= 255);
                if !self.commits.contains_key(*commit)
                    || !is_short("key")
                    || !is_short("description")
                    || !body["url"].is_string()
                {
                    return refuse(400, "Bad request");
                }
                self.statuses.retain(|(of, known)| of != commit || known["key"] != body["key"]);
                self.statuses.push(((*commit).to_owned(), body.clone()));
                Done { status: 204, ..Done::default() }
            }
            ("GET", ["pull-requests"]) => {
                let is_meant = |pull: &&Pull| {
                    let is_open = !pull.closed && pull.merged.is_none();
                    (of("state") == "ALL" || is_open)
                        && (of("at").is_empty() || of("at") == format!("refs/heads/{}", pull.head))
                };
                ok(self.pulls.iter().rev().filter(is_meant).map(|pull| self.datacenter_shown(pull)).collect())
            }
            ("POST", ["pull-requests"]) => self.datacenter_open(body),
            (_, ["pull-requests", number, rest @ ..]) => match number.parse::<u64>() {
                Ok(number) if number > 0 && number as usize <= self.pulls.len() => {
                    self.datacenter_pull(method, number, rest, of("version"), body)
                }
                _ => missing(),
            },
            _ => missing(),
        }
    }

    fn datacenter_remove(&mut self, name: &str, at: &str) -> Done {
        let head = self.branches.get(name.trim_start_matches("refs/heads/"));
        if head.is_some_and(|head| head != at) {
            return refuse(409, "The branch is not at the expected commit");
        }
        let is_there = head.is_some();
        if let Some(git) = self.git.as_ref().filter(|_| is_there)
            && let Err(error) = git.delete_ref(name)
        {
            self.broken = Some(format!("{error:#}"));
        }
        self.refresh();
        Done { status: 204, ..Done::default() }
    }

    fn datacenter_hook(&mut self, method: &Method, scope: &str, rest: &[&str], body: &Value) -> Done {
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
                None => missing(),
            },
            ("DELETE", [id]) => self.remove_hook(|hook| hook.scope == scope && hook.id.to_string() == *id),
            _ => missing(),
        }
    }

    fn datacenter_open(&mut self, body: &Value) -> Done {
        let branch = |side: &str| text(&body[side]["id"]).trim_start_matches("refs/heads/").to_owned();
        let (head, base) = (branch("fromRef"), branch("toRef"));
        if !self.branches.contains_key(&head) || !self.branches.contains_key(&base) {
            return missing();
        }
        let is_it =
            |pull: &Pull| !pull.closed && pull.merged.is_none() && pull.head == head && pull.base == base;
        if self.pulls.iter().any(is_it) {
            return refuse(409, "Only one pull request may be open for a given source and target branch");
        }
        let number = self.add_pull(text(&body["title"]), text(&body["description"]), head, base);
        made(self.datacenter_shown(&self.pulls[number as usize - 1]))
    }

    fn datacenter_shown(&self, pull: &Pull) -> Value {
        let state = match (&pull.merged, pull.closed) {
            (Some(_), _) => "MERGED",
            (None, true) => "DECLINED",
            (None, false) => "OPEN",
        };
        let head = pull.merged.as_ref().map(|(_, head)| head.as_str());
        let head = head.or_else(|| self.branches.get(&pull.head).map(String::as_str));
        let side = |name: &str, commit: Option<&str>| {
            let home = json!({"id": 7, "slug": "fleet", "project": {"key": "plural"}});
            json!({
                "id": format!("refs/heads/{name}"), "displayId": name, "latestCommit": commit, "repository": home,
            })
        };
        let base = self.branches.get(&pull.base).map(String::as_str);
        let of_role = |role: &str| -> Vec<Value> {
            pull.reviews.iter().filter(|review| review["role"] == role).cloned().collect()
        };
        let merged = pull.merged.as_ref().map(|(commit, _)| json!({"mergeCommit": {"id": commit}}));
        json!({
            "id": pull.number,
            "version": pull.version,
            "title": pull.title,
            "description": pull.body,
            "state": state,
            "fromRef": side(&pull.head, head),
            "toRef": side(&pull.base, base),
            "author": {"user": user(SELF), "role": "AUTHOR", "status": "UNAPPROVED"},
            "reviewers": of_role("REVIEWER"),
            "participants": of_role("PARTICIPANT"),
            "properties": merged.unwrap_or_else(|| json!({})),
            "links": {"self": [{"href": format!("{}/projects/plural/repos/fleet/pull-requests/{}", self.url, pull.number)}]},
        })
    }

    pub(super) fn datacenter_review(&mut self, index: usize, who: &str, event: &str) {
        let (role, status) = match event {
            "APPROVED" => ("REVIEWER", "APPROVED"),
            "REQUEST_CHANGES" => ("REVIEWER", "NEEDS_WORK"),
            _ => ("PARTICIPANT", "UNAPPROVED"),
        };
        self.datacenter_verdict(index, who, role, status);
    }

    /// It keeps the last word of each.
    fn datacenter_verdict(&mut self, index: usize, who: &str, role: &str, status: &str) -> Value {
        let verdict = json!({
            "user": user(who), "role": role, "approved": status == "APPROVED", "status": status,
            "lastReviewedCommit": self.head_of(index),
        });
        self.pulls[index].reviews.retain(|review| review["user"]["name"] != who);
        self.pulls[index].reviews.push(verdict.clone());
        verdict
    }

    fn datacenter_pull(
        &mut self,
        method: &Method,
        number: u64,
        rest: &[&str],
        version: &str,
        body: &Value,
    ) -> Done {
        let index = number as usize - 1;
        let is_open = !self.pulls[index].closed && self.pulls[index].merged.is_none();
        let is_known = version == self.pulls[index].version.to_string();
        match (method.as_str(), rest) {
            ("GET", []) => ok(self.datacenter_shown(&self.pulls[index])),
            ("PUT", []) if !is_open || body["version"] != self.pulls[index].version => stale(),
            ("PUT", []) => {
                // Reviewers that it does not name are none any more.
                let names = |who: &Value| {
                    let mut named = body["reviewers"].as_array().into_iter().flatten();
                    named.any(|named| named["user"]["name"] == *who)
                };
                let pull = &mut self.pulls[index];
                pull.reviews.retain(|review| review["role"] != "REVIEWER" || names(&review["user"]["name"]));
                pull.title = text(&body["title"]);
                pull.body = text(&body["description"]);
                pull.version += 1;
                ok(self.datacenter_shown(&self.pulls[index]))
            }
            ("POST", ["decline" | "merge"]) if !is_open || !is_known => stale(),
            ("POST", ["decline"]) => {
                self.pulls[index].closed = true;
                self.pulls[index].version += 1;
                ok(self.datacenter_shown(&self.pulls[index]))
            }
            ("POST", ["merge"]) => {
                let strategies = [("no-ff", "merge"), ("squash", "squash"), ("rebase-ff-only", "rebase")];
                let Some(how) = method_of(&strategies, &body["strategyId"]) else {
                    return refuse(400, "No such merge strategy");
                };
                let head = Value::from(self.head_of(index));
                match self.join(index, &head, how) {
                    Some(true) => {
                        self.pulls[index].version += 1;
                        ok(self.datacenter_shown(&self.pulls[index]))
                    }
                    _ => refuse(409, "The pull request has conflicts"),
                }
            }
            ("GET", ["changes"]) => {
                let shown = |(path, status): (String, &str)| {
                    let kind = match status {
                        "added" => "ADD",
                        "removed" => "DELETE",
                        _ => "MODIFY",
                    };
                    json!({"path": {"toString": path}, "type": kind})
                };
                ok(self.changed(index).into_iter().map(shown).collect())
            }
            ("GET", ["activities"]) => {
                let of = self.comments.iter().rev().filter(|comment| comment.number == number);
                let mut all: Vec<Value> = of
                    .map(|comment| {
                        json!({"id": comment.id, "action": "COMMENTED", "comment": {
                            "id": comment.id, "version": comment.version, "text": comment.body,
                            "author": user(&comment.user),
                        }})
                    })
                    .collect();
                all.push(json!({"id": 0, "action": "OPENED", "user": user(SELF)}));
                ok(all.into())
            }
            ("POST", ["comments"]) => {
                let who = self.who.clone();
                let id = self.comment(number, &who, &text(&body["text"]));
                made(json!({"id": id}))
            }
            ("PUT", ["comments", id]) => {
                let who = self.who.clone();
                match self.comments.iter_mut().find(|comment| comment.id.to_string() == *id) {
                    Some(comment) if comment.user != who => refuse(409, "It is somebody else's"),
                    Some(comment) if body["version"] != comment.version => stale(),
                    Some(comment) => {
                        comment.body = text(&body["text"]);
                        comment.version += 1;
                        ok(json!({}))
                    }
                    None => missing(),
                }
            }
            ("PUT", ["participants", slug]) if *slug != self.who || *slug == SELF || !is_open => {
                refuse(409, "The status of this participant cannot be changed")
            }
            ("PUT", ["participants", slug]) => {
                ok(self.datacenter_verdict(index, slug, "REVIEWER", &text(&body["status"])))
            }
            _ => missing(),
        }
    }
}
