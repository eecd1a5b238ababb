//! Shapes of answers that both hosts have.

use serde::Deserialize;

use crate::{
    folders, names,
    port::{
        ChangedFile, Check, EntryKind, FileStatus, PullRequest, PullRequestState, Review as Told,
        StatusState, TreeEntry, Verdict,
    },
};

#[derive(Deserialize)]
pub(super) struct Repository {
    pub(super) default_branch: String,
}

#[derive(Deserialize)]
pub(super) struct Branch {
    pub(super) commit: Sha,
}

/// GitHub says `sha` where Gitea says `id`, for branches.
#[derive(Deserialize)]
pub(super) struct Sha {
    #[serde(alias = "id")]
    pub(super) sha: String,
}

/// GitHub has the message beside the parents, Gitea below `commit`.
#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the API")]
pub(super) struct Commit {
    pub(super) message: Option<String>,
    pub(super) commit: Option<CommitText>,
    pub(super) parents: Vec<Sha>,
}

#[derive(Deserialize)]
pub(super) struct CommitText {
    pub(super) message: String,
}

#[derive(Deserialize)]
pub(super) struct User {
    pub(super) login: String,
}

#[derive(Deserialize)]
struct Label {
    name: String,
}

#[derive(Deserialize)]
struct Side {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
    repo: Option<SideRepository>,
}

#[derive(Deserialize)]
struct SideRepository {
    full_name: String,
}

#[derive(Deserialize)]
pub(super) struct Pull {
    number: u64,
    html_url: String,
    title: String,
    body: Option<String>,
    state: String,
    #[serde(default)]
    draft: bool,
    merged_at: Option<String>,
    merge_commit_sha: Option<String>,
    head: Side,
    base: Side,
    user: Option<User>,
    labels: Option<Vec<Label>>,
}

impl Pull {
    pub(super) fn told(self, repository: &names::Repository) -> PullRequest {
        let state = match (self.merged_at.is_some(), self.state.as_str()) {
            (true, _) => PullRequestState::Merged,
            (false, "open") => PullRequestState::Open,
            (false, _) => PullRequestState::Closed,
        };
        let home = repository.to_string();
        PullRequest {
            number: self.number,
            url: self.html_url,
            title: self.title,
            body: self.body.unwrap_or_default(),
            state,
            draft: self.draft,
            head: self.head.branch,
            head_commit: self.head.sha,
            fork: !self.head.repo.is_some_and(|repo| repo.full_name.eq_ignore_ascii_case(&home)),
            base: self.base.branch,
            author: self.user.map(|user| user.login).unwrap_or_default(),
            labels: self.labels.unwrap_or_default().into_iter().map(|label| label.name).collect(),
            // GitHub names a commit of a test merge too, while the pull request is open.
            merge_commit: self.merge_commit_sha.filter(|_| state == PullRequestState::Merged),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct File {
    filename: String,
    previous_filename: Option<String>,
    status: String,
}

impl File {
    pub(super) fn told(self) -> ChangedFile {
        let status = match self.status.as_str() {
            "added" | "copied" => FileStatus::Added,
            "removed" | "deleted" => FileStatus::Removed,
            "renamed" => FileStatus::Renamed,
            _ => FileStatus::Modified,
        };
        let previous = self.previous_filename.filter(|previous| !previous.is_empty());
        ChangedFile { path: self.filename, previous, status }
    }
}

#[derive(Deserialize)]
pub(super) struct Review {
    user: Option<User>,
    state: String,
    commit_id: Option<String>,
    #[serde(default)]
    dismissed: bool,
}

impl Review {
    /// Nothing for what is no review yet: one that was asked for, or is being written.
    pub(super) fn told(self) -> Option<Told> {
        let verdict = match self.state.as_str() {
            _ if self.dismissed => Verdict::Dismissed,
            "APPROVED" => Verdict::Approved,
            "CHANGES_REQUESTED" | "REQUEST_CHANGES" => Verdict::ChangesRequested,
            "COMMENTED" | "COMMENT" => Verdict::Commented,
            "DISMISSED" => Verdict::Dismissed,
            _ => return None,
        };
        let reviewer = self.user.map(|user| user.login).unwrap_or_default();
        Some(Told { reviewer, verdict, commit: self.commit_id.filter(|id| !id.is_empty()) })
    }
}

/// The newest status of each name.
#[derive(Deserialize)]
pub(super) struct Statuses {
    pub(super) statuses: Option<Vec<Status>>,
}

/// GitHub says `state` where Gitea says `status`.
#[derive(Deserialize)]
pub(super) struct Status {
    context: String,
    #[serde(alias = "status")]
    state: String,
}

impl Status {
    pub(super) fn told(self) -> Check {
        let state = match self.state.as_str() {
            "success" | "warning" | "skipped" => StatusState::Success,
            "failure" => StatusState::Failure,
            "error" => StatusState::Error,
            _ => StatusState::Pending,
        };
        Check { context: self.context, state }
    }
}

#[derive(Deserialize)]
pub(super) struct CheckRuns {
    pub(super) check_runs: Vec<CheckRun>,
}

#[derive(Deserialize)]
pub(super) struct CheckRun {
    name: String,
    conclusion: Option<String>,
}

impl CheckRun {
    pub(super) fn told(self) -> Check {
        let state = match self.conclusion.as_deref() {
            None => StatusState::Pending,
            Some("success" | "neutral" | "skipped") => StatusState::Success,
            Some("failure" | "timed_out" | "action_required") => StatusState::Failure,
            Some(_) => StatusState::Error,
        };
        Check { context: self.name, state }
    }
}

#[derive(Deserialize)]
pub(super) struct Comment {
    pub(super) id: u64,
    pub(super) body: String,
    pub(super) user: Option<User>,
    pub(super) performed_via_github_app: Option<App>,
}

#[derive(Deserialize)]
pub(super) struct App {
    pub(super) id: u64,
}

#[derive(Deserialize)]
pub(super) struct Hook {
    pub(super) id: u64,
    pub(super) config: HookConfig,
}

#[derive(Deserialize)]
pub(super) struct HookConfig {
    pub(super) url: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Tree {
    pub(super) tree: Vec<Entry>,
    #[serde(default)]
    pub(super) truncated: bool,
}

#[derive(Deserialize)]
pub(super) struct Entry {
    path: String,
    mode: String,
    sha: Option<String>,
}

impl Tree {
    pub(super) fn entries(&self) -> Vec<TreeEntry> {
        let told = |entry: &Entry| {
            let kind = EntryKind::of_mode(&entry.mode)?;
            Some(TreeEntry { path: entry.path.clone(), kind })
        };
        self.tree.iter().filter_map(told).collect()
    }

    /// Folders too.
    pub(super) fn all(&self) -> Vec<folders::Entry> {
        let told = |entry: &Entry| folders::entry_of(&entry.path, &entry.mode, entry.sha.as_deref());
        self.tree.iter().filter_map(told).collect()
    }
}
