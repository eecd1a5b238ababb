//! A repository of Gitea.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{Gitea, READY_WITHIN, REPOSITORY, SELF, text};
use crate::git_remote::GitRemote;

/// A repository of the server, and what other people do in it.
#[derive(Debug, Clone)]
pub struct GiteaRepository<'a> {
    gitea: &'a Gitea,
    owner: String,
}

impl<'a> GiteaRepository<'a> {
    pub(super) fn of(gitea: &'a Gitea, owner: String) -> Self {
        Self { gitea, owner }
    }
}

impl GiteaRepository<'_> {
    /// `OWNER/NAME`.
    pub fn name(&self) -> String {
        format!("{}/{REPOSITORY}", self.owner)
    }

    fn ask(&self, method: &str, path: &str, token: &str, body: &Value) -> anyhow::Result<Value> {
        self.gitea.ask(method, &format!("/repos/{}{path}", self.name()), token, body)
    }

    fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let found = self.ask("GET", path, &self.gitea.token, &Value::Null)?;
        found.as_array().cloned().with_context(|| format!("{path} is no list: {found}"))
    }

    /// Pushes a file to a branch.
    ///
    /// # Errors
    /// When it is refused.
    pub fn push(&self, branch: &str, path: &str, content: &str) -> anyhow::Result<()> {
        let known =
            self.ask("GET", &format!("/contents/{path}?ref={branch}"), &self.gitea.token, &Value::Null);
        let mut file = json!({"operation": "create", "path": path, "content": STANDARD.encode(content)});
        if let Ok(known) = known {
            file["operation"] = "update".into();
            file["sha"] = known["sha"].clone();
        }
        let body = json!({"branch": branch, "message": "Somebody else's", "files": [file]});
        self.ask("POST", "/contents", &self.gitea.token, &body).map(drop)
    }

    /// Pushes an executable file to a branch.
    ///
    /// # Errors
    /// When it is refused.
    pub fn push_executable(&self, branch: &str, path: &str, content: &str) -> anyhow::Result<()> {
        let (copy, at, reference) = (GitRemote::new()?, self.push_url(), format!("refs/heads/{branch}"));
        let both = format!("{reference}:{reference}");
        copy.git(["fetch", "--quiet", at.as_str(), format!("+{both}").as_str()])?;
        copy.commit(branch).executable(path, content).push()?;
        copy.git(["push", "--quiet", at.as_str(), both.as_str()]).map(drop)
    }

    /// Somebody else comments on a pull request.
    ///
    /// # Errors
    /// When it is refused.
    pub fn comment_by_another(&self, number: u64, body: &str) -> anyhow::Result<()> {
        let path = format!("/issues/{number}/comments");
        self.ask("POST", &path, &self.gitea.other, &json!({"body": body})).map(drop)
    }

    /// Somebody else reviews a pull request: `APPROVED`, `REQUEST_CHANGES`, `COMMENT`.
    ///
    /// # Errors
    /// When it is refused.
    pub fn review_by_another(&self, number: u64, event: &str) -> anyhow::Result<()> {
        let path = format!("/pulls/{number}/reviews");
        self.ask("POST", &path, &self.gitea.other, &json!({"event": event, "body": "read"})).map(drop)
    }

    /// Dismisses the reviews of a pull request.
    ///
    /// # Errors
    /// When it is refused.
    pub fn dismiss_reviews(&self, number: u64) -> anyhow::Result<()> {
        for review in self.list(&format!("/pulls/{number}/reviews"))? {
            let path = format!("/pulls/{number}/reviews/{}/dismissals", review["id"]);
            self.ask("POST", &path, &self.gitea.token, &json!({"message": "read again"}))?;
        }
        Ok(())
    }

    /// Comments of a pull request: who, what.
    ///
    /// # Errors
    /// When they are refused.
    pub fn comments(&self, number: u64) -> anyhow::Result<Vec<(String, String)>> {
        let found = self.list(&format!("/issues/{number}/comments"))?;
        Ok(found.iter().map(|comment| (text(&comment["user"]["login"]), text(&comment["body"]))).collect())
    }

    /// States of a commit: context, state.
    ///
    /// # Errors
    /// When they are refused.
    pub fn statuses(&self, commit: &str) -> anyhow::Result<Vec<(String, String)>> {
        let found = self.list(&format!("/commits/{commit}/statuses"))?;
        Ok(found.iter().map(|status| (text(&status["context"]), text(&status["status"]))).collect())
    }

    /// How many webhooks the repository has, and its organisation.
    ///
    /// # Errors
    /// When they are refused.
    pub fn webhooks(&self) -> anyhow::Result<(usize, usize)> {
        let path = format!("/orgs/{}/hooks", self.owner);
        let of_owner = self.gitea.ask("GET", &path, &self.gitea.token, &Value::Null)?;
        Ok((self.list("/hooks")?.len(), of_owner.as_array().map_or(0, Vec::len)))
    }

    /// How many pull requests there are.
    ///
    /// # Errors
    /// When they are refused.
    pub fn pull_requests(&self) -> anyhow::Result<usize> {
        Ok(self.list("/pulls?state=all")?.len())
    }

    /// Its owner, an organisation.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Where the host's API is.
    pub fn api_url(&self) -> String {
        self.gitea.api_url()
    }

    /// What lets a connection in.
    pub fn token(&self) -> String {
        self.gitea.token()
    }

    /// Where anybody clones it from.
    pub fn clone_url(&self) -> String {
        format!("{}/{}.git", self.gitea.url, self.name())
    }

    /// Where its owner pushes to: the address holds the token.
    pub fn push_url(&self) -> String {
        let host = self.gitea.url.trim_start_matches("http://");
        format!("http://{SELF}:{}@{host}/{}.git", self.gitea.token, self.name())
    }

    /// Has `main` of another repository in place of its own.
    ///
    /// # Errors
    /// When it is refused.
    pub fn push_from(&self, remote: &GitRemote) -> anyhow::Result<()> {
        let to = self.push_url();
        remote.git(["push", "--quiet", "--force", to.as_str(), "refs/heads/main:refs/heads/main"]).map(drop)
    }

    /// Has pushes and pull requests told to an address, signed with a secret.
    ///
    /// # Errors
    /// When it is refused.
    pub fn tell(&self, url: &str, secret: &str) -> anyhow::Result<()> {
        let config = json!({"url": url, "content_type": "json", "secret": secret});
        let hook = json!({
            "type": "gitea", "active": true, "events": ["push", "pull_request"], "config": config,
        });
        self.ask("POST", "/hooks", &self.gitea.token, &hook).map(drop)
    }

    /// The commit that a branch is at.
    ///
    /// # Errors
    /// When there is no such branch.
    pub fn head(&self, branch: &str) -> anyhow::Result<String> {
        let found = self.ask("GET", &format!("/branches/{branch}"), &self.gitea.token, &Value::Null)?;
        Ok(text(&found["commit"]["id"]))
    }

    /// The branches.
    ///
    /// # Errors
    /// When they are refused.
    pub fn branches(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.list("/branches?limit=50")?.iter().map(|branch| text(&branch["name"])).collect())
    }

    /// What is in a file of a branch or commit; nothing where it is not there.
    ///
    /// # Errors
    /// When it is refused.
    pub fn file(&self, at: &str, path: &str) -> anyhow::Result<Option<String>> {
        let asked = format!("/contents/{path}?ref={at}");
        match self.ask("GET", &asked, &self.gitea.token, &Value::Null) {
            Ok(found) => Ok(Some(String::from_utf8(STANDARD.decode(text(&found["content"]))?)?)),
            Err(error) if error.to_string().contains("404 Not Found") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The paths of the files of a branch, as the host lists them: a page at a time.
    ///
    /// # Errors
    /// When they are refused.
    pub fn paths(&self, branch: &str) -> anyhow::Result<Vec<String>> {
        let mut paths = Vec::new();
        for page in 1.. {
            let asked = format!("/git/trees/{branch}?recursive=true&page={page}");
            let found = self.ask("GET", &asked, &self.gitea.token, &Value::Null)?;
            let entries = found["tree"].as_array().context("a tree without entries")?;
            paths.extend(
                entries.iter().filter(|entry| entry["type"] == "blob").map(|entry| text(&entry["path"])),
            );
            if found["truncated"] != true {
                break;
            }
        }
        Ok(paths)
    }

    /// The pull requests, whatever became of them, as the host tells of them.
    ///
    /// # Errors
    /// When they are refused.
    pub fn all_pull_requests(&self) -> anyhow::Result<Vec<Value>> {
        self.list("/pulls?state=all&limit=50")
    }

    /// The files that a pull request changes: path, how.
    ///
    /// # Errors
    /// When they are refused.
    pub fn changed_files(&self, number: u64) -> anyhow::Result<Vec<(String, String)>> {
        let found = self.list(&format!("/pulls/{number}/files?limit=50"))?;
        Ok(found.iter().map(|file| (text(&file["filename"]), text(&file["status"]))).collect())
    }

    /// A commit of new files on a branch of its own, without a clone.
    ///
    /// # Errors
    /// When it is refused.
    pub fn commit(&self, branch: &str, files: &[(&str, &str)]) -> anyhow::Result<()> {
        let file = |(path, content): &(&str, &str)| json!({"operation": "create", "path": path, "content": STANDARD.encode(content)});
        let files: Vec<Value> = files.iter().map(file).collect();
        let body = json!({"branch": "main", "new_branch": branch, "message": "By hand", "files": files});
        self.ask("POST", "/contents", &self.gitea.token, &body).map(drop)
    }

    /// Opens a pull request of a branch; its number.
    ///
    /// # Errors
    /// When it is refused.
    pub fn open(&self, branch: &str) -> anyhow::Result<u64> {
        let body = json!({"head": branch, "base": "main", "title": "By hand"});
        let made = self.ask("POST", "/pulls", &self.gitea.token, &body)?;
        made["number"].as_u64().with_context(|| format!("it has no number: {made}"))
    }

    /// Merges a pull request as soon as the server knows that it can be, which it finds out in the background. When the
    /// request began that did it.
    ///
    /// # Errors
    /// When it is refused.
    pub fn merge(&self, number: u64) -> anyhow::Result<Instant> {
        let deadline = Instant::now() + READY_WITHIN;
        let path = format!("/pulls/{number}/merge");
        loop {
            let began = Instant::now();
            match self.ask("POST", &path, &self.gitea.token, &json!({"Do": "merge"})) {
                Ok(_) => return Ok(began),
                Err(error)
                    if error.to_string().contains("405 Method Not Allowed") && Instant::now() < deadline =>
                {
                    thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(error),
            }
        }
    }
}
