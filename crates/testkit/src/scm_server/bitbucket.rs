//! What Bitbucket Cloud answers.

use http::{Method, Uri};
use serde_json::{Value, json};

use super::{
    answers::{Done, SELF, made, method_of, no, ok, pieces, text},
    state::{Comment, Hook, Host, Listed, Pull},
};

/// Digits of a commit's id in a pull request.
const DIGITS: usize = 12;

fn refuse(status: u16, message: &str) -> Done {
    let body = json!({"type": "error", "error": {"message": message}});
    Done { status, body, ..Done::default() }
}

fn missing() -> Done {
    refuse(404, "Resource not found")
}

/// Somebody's id.
fn uuid(who: &str) -> String {
    format!("{{{who}}}")
}

fn user(who: &str) -> Value {
    json!({"uuid": uuid(who), "nickname": who, "display_name": who})
}

impl Host {
    pub(super) fn bitbucket<'a>(
        &mut self,
        method: &Method,
        uri: &Uri,
        of: impl Fn(&str) -> &'a str,
        body: &Value,
        raw: &[u8],
    ) -> Done {
        let parts = pieces(uri, "/api/");
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let rest = match parts.as_slice() {
            ["user"] => return ok(user(&self.who)),
            ["workspaces", "plural", "hooks", rest @ ..] => {
                return self.bitbucket_hook(method, "organisation", rest, body);
            }
            ["repositories", "plural", "fleet", rest @ ..] => rest,
            _ => return missing(),
        };
        match (method.as_str(), rest) {
            (_, ["hooks", rest @ ..]) => self.bitbucket_hook(method, "repository", rest, body),
            ("GET", []) => ok(json!({"mainbranch": {"name": "main"}})),
            ("GET", ["refs", "branches", name]) => match self.branches.get(*name) {
                Some(commit) => ok(json!({"name": name, "target": {"hash": commit}})),
                None => missing(),
            },
            ("DELETE", ["refs", "branches", name]) => match self.branches.remove(*name) {
                Some(_) => Done { status: 204, ..Done::default() },
                None => missing(),
            },
            ("GET", ["commit", digits]) => match self.commits.keys().find(|id| id.starts_with(*digits)) {
                Some(id) => ok(json!({"hash": id})),
                None => missing(),
            },
            ("GET", ["src", commit, path @ ..]) => {
                let path = path.join("/");
                match path.strip_suffix('/') {
                    Some(folder) => self.bitbucket_folder(commit, folder, !of("max_depth").is_empty()),
                    None if path.is_empty() => self.bitbucket_folder(commit, "", !of("max_depth").is_empty()),
                    None => self.bitbucket_source(commit, &path, of("format")),
                }
            }
            ("POST", ["src"]) => self.bitbucket_commit(raw),
            ("GET", ["commit", commit, "statuses"]) => ok(self.newest_statuses(commit, "key").into()),
            ("POST", ["commit", commit, "statuses", "build"]) => {
                if !body["url"].is_string() || body["key"].as_str().is_none_or(|key| key.len() > 40) {
                    return refuse(400, "Bad request");
                }
                self.statuses.retain(|(of, known)| of != commit || known["key"] != body["key"]);
                self.statuses.push(((*commit).to_owned(), body.clone()));
                made(json!({}))
            }
            ("GET", ["pullrequests"]) => {
                let is_meant = |pull: &&Pull| {
                    let is_open = !pull.closed && pull.merged.is_none();
                    let branches = format!(
                        "state=\"OPEN\" AND source.branch.name=\"{}\" AND destination.branch.name=\"{}\"",
                        pull.head, pull.base
                    );
                    // What is asked for by state alone comes with all states, or with the open ones.
                    let by_state = uri.query().is_some_and(|query| query.contains("state=MERGED"));
                    (by_state || is_open) && (of("q").is_empty() || of("q") == branches)
                };
                ok(self.pulls.iter().rev().filter(is_meant).map(|pull| self.bitbucket_shown(pull)).collect())
            }
            ("POST", ["pullrequests"]) => self.bitbucket_open(body),
            (_, ["pullrequests", number, rest @ ..]) => match number.parse::<u64>() {
                Ok(number) if number > 0 && number as usize <= self.pulls.len() => {
                    self.bitbucket_pull(method, number, rest, body)
                }
                _ => missing(),
            },
            _ => missing(),
        }
    }

    fn bitbucket_folder(&mut self, commit: &str, folder: &str, deep: bool) -> Done {
        let Some(listed) = self.listed_at(commit, folder, deep) else { return missing() };
        let below = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let entry = |one: &Listed| {
            let path = format!("{below}{}", one.path);
            match (one.kind(), one.mode) {
                ("tree", _) => json!({"type": "commit_directory", "path": path}),
                (_, "100755") => json!({"type": "commit_file", "path": path, "attributes": ["executable"]}),
                _ => json!({"type": "commit_file", "path": path, "attributes": []}),
            }
        };
        ok(listed.iter().map(entry).collect())
    }

    fn bitbucket_source(&self, commit: &str, path: &str, format: &str) -> Done {
        let Some(commit) = self.commits.get(commit) else { return missing() };
        let entry = |path: &String| {
            let attributes: &[&str] = if self.mode(path) == "100755" { &["executable"] } else { &[] };
            json!({"type": "commit_file", "path": path, "attributes": attributes})
        };
        let folder = format!("{path}/");
        match commit.files.get_key_value(path) {
            Some((path, _)) if format == "meta" => ok(entry(path)),
            Some((_, content)) => Done { status: 200, raw: Some(content.clone()), ..Done::default() },
            None if commit.files.keys().any(|file| file.starts_with(&folder)) => {
                ok(json!({"type": "commit_directory", "path": path}))
            }
            None => missing(),
        }
    }

    /// A form with files.
    fn bitbucket_commit(&mut self, raw: &[u8]) -> Done {
        let parts = parts(raw);
        let field = |name: &str| {
            let found = parts.iter().find(|part| part.name == name && !part.is_file);
            found.map(|part| String::from_utf8_lossy(&part.content).into_owned()).unwrap_or_default()
        };
        let (branch, parent) = (field("branch"), field("parents"));
        if self.branches.get(&branch).is_some_and(|tip| *tip != parent) {
            return refuse(409, "The parent is not the tip of the branch");
        }
        let Some(mut files) = self.commits.get(&parent).map(|commit| commit.files.clone()) else {
            return refuse(400, "No such parent");
        };
        for part in &parts {
            if part.is_file {
                let path = part.name.trim_start_matches('/');
                self.set_executable(path, part.is_executable);
                files.insert(path.to_owned(), part.content.clone());
            } else if part.name == "files" {
                files.remove(String::from_utf8_lossy(&part.content).trim_start_matches('/'));
            }
        }
        let commit = self.store(Some(parent), files);
        self.branches.insert(branch, commit.clone());
        let location = format!("{}/repositories/plural/fleet/commit/{commit}", self.url);
        Done { status: 201, headers: vec![("location", location)], ..Done::default() }
    }

    fn bitbucket_hook(&mut self, method: &Method, scope: &str, rest: &[&str], body: &Value) -> Done {
        match (method.as_str(), rest) {
            ("GET", []) => {
                let of = self.hooks.iter().filter(|hook| hook.scope == scope);
                ok(of
                    .map(|hook| json!({"uuid": uuid(&hook.id.to_string()), "url": hook.body["url"]}))
                    .collect())
            }
            ("POST", []) => {
                let id = self.next_id();
                self.hooks.push(Hook { id, scope: scope.to_owned(), body: body.clone() });
                made(json!({"uuid": uuid(&id.to_string())}))
            }
            ("PUT", [id]) => match self.hooks.iter_mut().find(|hook| uuid(&hook.id.to_string()) == *id) {
                Some(hook) => {
                    hook.body = body.clone();
                    ok(json!({}))
                }
                None => missing(),
            },
            ("DELETE", [id]) => {
                self.remove_hook(|hook| hook.scope == scope && uuid(&hook.id.to_string()) == *id)
            }
            _ => missing(),
        }
    }

    fn bitbucket_open(&mut self, body: &Value) -> Done {
        let branch = |side: &str| text(&body[side]["branch"]["name"]);
        let (head, base) = (branch("source"), branch("destination"));
        let (title, description) = (text(&body["title"]), text(&body["description"]));
        if !self.branches.contains_key(&head) || !self.branches.contains_key(&base) {
            return refuse(400, "source: branch not found");
        }
        let is_it =
            |pull: &Pull| !pull.closed && pull.merged.is_none() && pull.head == head && pull.base == base;
        if let Some(index) = self.pulls.iter().position(is_it) {
            // One that is open is edited.
            self.pulls[index].title = title;
            self.pulls[index].body = description;
            return made(self.bitbucket_shown(&self.pulls[index]));
        }
        let number = self.add_pull(title, description, head, base);
        made(self.bitbucket_shown(&self.pulls[number as usize - 1]))
    }

    fn bitbucket_shown(&self, pull: &Pull) -> Value {
        let state = match (&pull.merged, pull.closed) {
            (Some(_), _) => "MERGED",
            (None, true) => "DECLINED",
            (None, false) => "OPEN",
        };
        let short = |commit: &str| json!({"hash": &commit[..DIGITS.min(commit.len())]});
        let head = pull.merged.as_ref().map(|(_, head)| head.as_str());
        let head = head.or_else(|| self.branches.get(&pull.head).map(String::as_str)).unwrap_or_default();
        let repository = json!({"full_name": "plural/fleet"});
        json!({
            "id": pull.number,
            "title": pull.title,
            "description": pull.body,
            "state": state,
            "draft": false,
            "source": {"branch": {"name": pull.head}, "commit": short(head), "repository": repository},
            "destination": {"branch": {"name": pull.base}, "repository": repository},
            "author": user(SELF),
            "merge_commit": pull.merged.as_ref().map(|(commit, _)| short(commit)),
            "links": {"html": {"href": format!("{}/plural/fleet/pull-requests/{}", self.url, pull.number)}},
            "participants": pull.reviews,
        })
    }

    fn bitbucket_pull(&mut self, method: &Method, number: u64, rest: &[&str], body: &Value) -> Done {
        let index = number as usize - 1;
        match (method.as_str(), rest) {
            ("GET", []) => ok(self.bitbucket_shown(&self.pulls[index])),
            ("PUT", []) => {
                self.pulls[index].title = text(&body["title"]);
                self.pulls[index].body = text(&body["description"]);
                ok(self.bitbucket_shown(&self.pulls[index]))
            }
            ("POST", ["decline"]) => {
                self.pulls[index].closed = true;
                ok(self.bitbucket_shown(&self.pulls[index]))
            }
            ("POST", ["merge"]) => {
                let strategies =
                    [("merge_commit", "merge"), ("squash", "squash"), ("rebase_fast_forward", "rebase")];
                let Some(how) = method_of(&strategies, &body["merge_strategy"]) else {
                    return refuse(400, "No such merge strategy");
                };
                let head = Value::from(self.head_of(index));
                match self.join(index, &head, how) {
                    Some(true) => ok(self.bitbucket_shown(&self.pulls[index])),
                    _ => refuse(400, "You can't merge until the pull request is open"),
                }
            }
            ("GET", ["diffstat"]) => {
                let shown = |(path, status): (String, &str)| {
                    let place = json!({"path": path});
                    let old = (status != "added").then(|| place.clone());
                    let new = (status != "removed").then(|| place.clone());
                    json!({"status": status, "old": old, "new": new})
                };
                ok(self.changed(index).into_iter().map(shown).collect())
            }
            ("POST", ["approve"]) => {
                let who = self.who.clone();
                self.review(number, &who, "APPROVED");
                ok(json!({}))
            }
            ("GET", ["comments"]) => {
                let of = self.comments.iter().filter(|comment| comment.number == number);
                let shown = |comment: &Comment| json!({"id": comment.id, "content": {"raw": comment.body}, "user": user(&comment.user)});
                ok(of.map(shown).collect())
            }
            ("POST", ["comments"]) => {
                let who = self.who.clone();
                let id = self.comment(number, &who, &text(&body["content"]["raw"]));
                made(json!({"id": id}))
            }
            ("PUT", ["comments", id]) => {
                let who = self.who.clone();
                match self.comments.iter_mut().find(|comment| comment.id.to_string() == *id) {
                    Some(comment) if comment.user == who => {
                        comment.body = text(&body["content"]["raw"]);
                        ok(json!({}))
                    }
                    Some(_) => no(403, "Forbidden"),
                    None => missing(),
                }
            }
            _ => missing(),
        }
    }
}

/// A part of a form.
struct Part {
    name: String,
    is_file: bool,
    is_executable: bool,
    content: Vec<u8>,
}

/// The parts of a form. Its boundary is its first line.
fn parts(raw: &[u8]) -> Vec<Part> {
    let position = |text: &[u8], wanted: &[u8]| text.windows(wanted.len()).position(|at| at == wanted);
    let Some(end) = position(raw, b"\r\n") else { return Vec::new() };
    let (boundary, mut rest) = ([b"\r\n".as_slice(), &raw[..end]].concat(), &raw[end..]);
    let mut parts = Vec::new();
    while let Some(head) = position(rest, b"\r\n\r\n") {
        let Some(length) = position(&rest[head + 4..], &boundary) else { break };
        let lines = String::from_utf8_lossy(&rest[..head]).into_owned();
        let name = lines.split(" name=\"").nth(1).and_then(|after| after.split('"').next());
        parts.push(Part {
            name: name.unwrap_or_default().to_owned(),
            is_file: lines.contains("filename="),
            is_executable: lines.contains("x-attributes:\"executable\""),
            content: rest[head + 4..head + 4 + length].to_vec(),
        });
        rest = &rest[head + 4 + length + boundary.len()..];
    }
    parts
}
