//! What the host knows.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::ScmDialect;
use crate::git_remote::GitRemote;

pub(super) type Files = BTreeMap<String, Vec<u8>>;

#[derive(Debug)]
pub(super) struct Commit {
    pub(super) parent: Option<String>,
    pub(super) files: Files,
}

#[derive(Debug)]
pub(super) struct Pull {
    pub(super) number: u64,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) head: String,
    pub(super) base: String,
    pub(super) closed: bool,
    /// It comes from another repository.
    pub(super) fork: bool,
    /// The commit that merged it, and the head that it had.
    pub(super) merged: Option<(String, String)>,
    /// How it was asked to merge it: `merge`, `squash` or `rebase`.
    pub(super) merged_as: Option<&'static str>,
    /// The head that was looked at for conflicts, where a host takes its time for that.
    pub(super) checked: Option<String>,
    pub(super) labels: Vec<String>,
    pub(super) reviews: Vec<Value>,
    /// Counts its changes, where a host binds writes to that.
    pub(super) version: u64,
}

#[derive(Debug)]
pub(super) struct Comment {
    pub(super) id: u64,
    pub(super) number: u64,
    pub(super) user: String,
    pub(super) body: String,
    /// Counts its edits.
    pub(super) version: u64,
}

#[derive(Debug)]
pub(super) struct Hook {
    pub(super) id: u64,
    pub(super) scope: String,
    pub(super) body: Value,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) dialect: ScmDialect,
    pub(super) url: String,
    /// Who asks now.
    pub(super) who: String,
    pub(super) page: usize,
    /// Files and folders of the longest list of a whole tree, where a host cuts that.
    pub(super) tree_cut: usize,
    pub(super) commits: BTreeMap<String, Commit>,
    /// Trees and blobs that no commit has yet.
    pub(super) trees: BTreeMap<String, Files>,
    pub(super) blobs: BTreeMap<String, Vec<u8>>,
    /// By their ids: a commit that has the folder, and its path.
    folders: BTreeMap<String, (String, String)>,
    pub(super) branches: BTreeMap<String, String>,
    pub(super) pulls: Vec<Pull>,
    pub(super) comments: Vec<Comment>,
    pub(super) labels: Vec<String>,
    pub(super) statuses: Vec<(String, Value)>,
    pub(super) hooks: Vec<Hook>,
    /// Paths of files that are executable, in every commit.
    executable: BTreeSet<String>,
    /// Commits that came with a signature, as they were asked for.
    pub(super) signed: Vec<Value>,
    /// Messages of commits that came with one.
    pub(super) messages: BTreeMap<String, String>,
    ids: u64,
    /// Where branches and commits really are, of a host that is pushed to.
    pub(super) git: Option<GitRemote>,
    /// Its branches as they were read last.
    references: String,
    /// Its tokens are of a project, not of users.
    pub(super) is_nobody: bool,
    /// Why git did not do something.
    pub(super) broken: Option<String>,
}

/// A file or folder in another one.
#[derive(Debug)]
pub(super) struct Listed {
    /// Below the folder that was listed.
    pub(super) path: String,
    /// As git writes it.
    pub(super) mode: &'static str,
    pub(super) id: String,
}

impl Listed {
    pub(super) fn kind(&self) -> &'static str {
        if self.mode == FOLDER { "tree" } else { "blob" }
    }
}

/// The mode of a folder.
const FOLDER: &str = "040000";

/// The id of a content.
pub(super) fn id(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))[..40].to_owned()
}

impl Host {
    /// With `git`, branches and commits are there.
    pub(super) fn new(dialect: ScmDialect, git: Option<GitRemote>) -> Self {
        let mut host = Self {
            dialect,
            url: String::new(),
            who: String::new(),
            page: 50,
            tree_cut: usize::MAX,
            commits: BTreeMap::new(),
            trees: BTreeMap::new(),
            blobs: BTreeMap::new(),
            folders: BTreeMap::new(),
            branches: BTreeMap::new(),
            pulls: Vec::new(),
            comments: Vec::new(),
            labels: Vec::new(),
            statuses: Vec::new(),
            hooks: Vec::new(),
            executable: BTreeSet::new(),
            signed: Vec::new(),
            messages: BTreeMap::new(),
            ids: 0,
            git,
            references: String::new(),
            is_nobody: false,
            broken: None,
        };
        host.push("main", "README.md", "# Fleet\n");
        host.push("main", "apps/web/values.yaml", "replicas: 1\n");
        host
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    pub(super) fn push(&mut self, branch: &str, path: &str, content: &str) {
        self.push_files(branch, [(path.to_owned(), content.to_owned())]);
    }

    pub(super) fn push_files(&mut self, branch: &str, more: impl IntoIterator<Item = (String, String)>) {
        let parent = self.branches.get(branch).cloned();
        let mut files = parent.as_ref().map(|parent| self.commits[parent].files.clone()).unwrap_or_default();
        files.extend(more.into_iter().map(|(path, content)| (path, content.into_bytes())));
        self.advance(branch, files);
    }

    /// What lies in a tree, which is known by its id or that of its commit; in its folders too where it is `deep`.
    pub(super) fn listed(&mut self, tree: &str, deep: bool) -> Option<Vec<Listed>> {
        let (commit, folder) = if self.commits.contains_key(tree) {
            (tree.to_owned(), String::new())
        } else {
            self.folders.get(tree)?.clone()
        };
        self.listed_at(&commit, &folder, deep)
    }

    /// What lies in a folder of a commit; the root is empty.
    pub(super) fn listed_at(&mut self, commit: &str, folder: &str, deep: bool) -> Option<Vec<Listed>> {
        let files = &self.commits.get(commit)?.files;
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let (mut listed, mut folders) = (Vec::new(), BTreeMap::<String, DefaultHasher>::new());
        for (path, content) in files.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix))
        {
            let below = &path[prefix.len()..];
            for (at, _) in below.match_indices('/') {
                let hasher = folders.entry(below[..at].to_owned()).or_default();
                (&below[at..], content, self.mode(path)).hash(hasher);
                if !deep {
                    break;
                }
            }
            if deep || !below.contains('/') {
                listed.push(Listed { path: below.to_owned(), mode: self.mode(path), id: id(content) });
            }
        }
        for (name, hasher) in folders {
            let id = id(&hasher.finish().to_be_bytes());
            self.folders.insert(id.clone(), (commit.to_owned(), format!("{prefix}{name}")));
            listed.push(Listed { path: name, mode: FOLDER, id });
        }
        listed.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        (!listed.is_empty() || folder.is_empty()).then_some(listed)
    }

    /// A commit on top of a branch, with these files of it added or replaced; its id.
    pub(super) fn advance(&mut self, branch: &str, files: Files) -> String {
        let Some(git) = &self.git else {
            let commit = self.store(self.branches.get(branch).cloned(), files);
            self.branches.insert(branch.to_owned(), commit.clone());
            return commit;
        };
        let mut commit = git.commit(branch);
        for (path, content) in &files {
            commit = if self.executable.contains(path) {
                commit.executable(path, content)
            } else {
                commit.file(path, content)
            };
        }
        let made = commit.push();
        let made = made.unwrap_or_else(|error| {
            self.broken = Some(format!("{error:#}"));
            String::new()
        });
        self.refresh();
        made
    }

    /// Reads what was pushed.
    pub(super) fn refresh(&mut self) {
        if let Err(error) = self.load() {
            self.broken = Some(format!("{error:#}"));
        }
    }

    fn load(&mut self) -> anyhow::Result<()> {
        let Some(git) = &self.git else { return Ok(()) };
        let references = git.git(["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads"])?;
        if references == self.references {
            return Ok(());
        }
        self.branches.clear();
        for (commit, name) in references.lines().filter_map(|line| line.split_once(" refs/heads/")) {
            self.branches.insert(name.to_owned(), commit.to_owned());
        }
        let commits = git.git(["rev-list", "--parents", "--branches"])?;
        for line in commits.lines() {
            let (commit, parents) = line.split_once(' ').unwrap_or((line, ""));
            if self.commits.contains_key(commit) {
                continue;
            }
            let mut files = Files::new();
            for (path, content, is_executable) in git.files(commit)? {
                if is_executable {
                    self.executable.insert(path.clone());
                }
                files.insert(path, content);
            }
            let parent = parents.split(' ').next().filter(|parent| !parent.is_empty());
            self.commits.insert(commit.to_owned(), Commit { parent: parent.map(str::to_owned), files });
        }
        self.references = references;
        Ok(())
    }

    /// A file's mode, as git writes it.
    pub(super) fn mode(&self, path: &str) -> &'static str {
        if self.executable.contains(path) { "100755" } else { "100644" }
    }

    pub(super) fn set_executable(&mut self, path: &str, is_executable: bool) {
        if is_executable {
            self.executable.insert(path.to_owned());
        } else {
            self.executable.remove(path);
        }
    }

    /// A branch is at a commit that is known elsewhere by this id, with further files over those of `main`.
    pub(super) fn set_head(&mut self, branch: &str, commit: &str, changes: &[(&str, &str)]) {
        let parent = self.branches.get("main").cloned();
        let mut files = parent.as_ref().map(|parent| self.commits[parent].files.clone()).unwrap_or_default();
        for (path, content) in changes {
            files.insert((*path).to_owned(), content.as_bytes().to_vec());
        }
        self.commits.insert(commit.to_owned(), Commit { parent, files });
        self.branches.insert(branch.to_owned(), commit.to_owned());
    }

    /// A commit that no branch is at yet.
    pub(super) fn store(&mut self, parent: Option<String>, files: Files) -> String {
        let serial = self.next_id();
        let commit = id(format!("{serial} {parent:?} {files:?}").as_bytes());
        self.commits.insert(commit.clone(), Commit { parent, files });
        commit
    }

    /// Whether a commit is on top of another.
    pub(super) fn is_above(&self, commit: &str, other: &str) -> bool {
        let mut at = Some(commit.to_owned());
        while let Some(commit) = at {
            if commit == other {
                return true;
            }
            at = self.commits.get(&commit).and_then(|commit| commit.parent.clone());
        }
        false
    }

    /// The last commit that two have in common.
    pub(super) fn fork_of(&self, one: &str, other: &str) -> Option<String> {
        let mut at = Some(one.to_owned());
        while let Some(commit) = at {
            if self.is_above(other, &commit) {
                return Some(commit);
            }
            at = self.commits.get(&commit).and_then(|commit| commit.parent.clone());
        }
        None
    }

    /// Its number.
    pub(super) fn add_pull(&mut self, title: String, body: String, head: String, base: String) -> u64 {
        let number = self.pulls.len() as u64 + 1;
        let (labels, reviews) = (Vec::new(), Vec::new());
        self.pulls.push(Pull {
            number,
            title,
            body,
            head,
            base,
            closed: false,
            fork: false,
            merged: None,
            merged_as: None,
            checked: None,
            labels,
            reviews,
            version: 0,
        });
        number
    }

    pub(super) fn comment(&mut self, number: u64, user: &str, body: &str) -> u64 {
        let id = self.next_id();
        self.comments.push(Comment { id, number, user: user.to_owned(), body: body.to_owned(), version: 0 });
        id
    }

    pub(super) fn comments_of(&self, number: u64) -> Vec<(String, String)> {
        let of = self.comments.iter().filter(|comment| comment.number == number);
        of.map(|comment| (comment.user.clone(), comment.body.clone())).collect()
    }

    /// The newest status of each name of a commit, as they were written.
    pub(super) fn newest_statuses(&self, commit: &str, name: &str) -> Vec<Value> {
        let mut newest: Vec<Value> = Vec::new();
        for (_, status) in self.statuses.iter().filter(|(of, _)| of == commit) {
            newest.retain(|known| known[name] != status[name]);
            newest.push(status.clone());
        }
        newest
    }

    pub(super) fn statuses_of(&self, commit: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of = self.statuses.iter().filter(|(of, _)| of == commit);
        let told = |status: &Value| match self.dialect {
            ScmDialect::GitHub | ScmDialect::Gitea => (text(&status["context"]), text(&status["state"])),
            ScmDialect::BitbucketCloud => {
                (text(&status["name"]), text(&status["state"]).replace("FAILED", "failure"))
            }
            ScmDialect::GitLab => {
                (text(&status["name"]), text(&status["state"]).replace("failed", "failure"))
            }
            ScmDialect::BitbucketDataCenter => {
                (text(&status["key"]), text(&status["state"]).replace("FAILED", "failure"))
            }
            ScmDialect::AzureDevOps => {
                let context = &status["context"];
                let name = format!("{}/{}", text(&context["genre"]), text(&context["name"]));
                (name, text(&status["state"]).replace("failed", "failure"))
            }
        };
        of.map(|(_, status)| told(status)).collect()
    }
}
