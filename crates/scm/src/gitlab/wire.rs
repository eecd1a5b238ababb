//! Shapes of GitLab's answers.

use serde::Deserialize;

use crate::folders::{self, Folder};
use crate::port::{
    ChangedFile, Check, EntryKind, FileStatus, PullRequest, PullRequestState, StatusState, TreeEntry, Verdict,
};

#[derive(Deserialize)]
pub(super) struct Project {
    pub(super) default_branch: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Branch {
    pub(super) commit: Id,
}

#[derive(Deserialize)]
pub(super) struct Id {
    pub(super) id: String,
}

#[derive(Deserialize)]
pub(super) struct Made {
    pub(super) id: String,
    pub(super) parent_ids: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct User {
    pub(super) username: String,
}

#[derive(Deserialize)]
pub(super) struct MergeRequest {
    pub(super) iid: u64,
    web_url: String,
    title: String,
    description: Option<String>,
    state: String,
    #[serde(default)]
    draft: bool,
    source_branch: String,
    target_branch: String,
    /// Nothing while the branch is not there.
    pub(super) sha: Option<String>,
    source_project_id: Option<u64>,
    target_project_id: u64,
    author: Option<User>,
    #[serde(default)]
    labels: Vec<String>,
    merge_commit_sha: Option<String>,
    squash_commit_sha: Option<String>,
    detailed_merge_status: Option<String>,
}

impl MergeRequest {
    /// Whether it can be merged is not known yet.
    pub(super) fn is_checked(&self) -> bool {
        matches!(
            self.detailed_merge_status.as_deref(),
            Some("checking" | "unchecked" | "preparing" | "approvals_syncing")
        )
    }

    pub(super) fn told(self) -> PullRequest {
        let state = match self.state.as_str() {
            "merged" => PullRequestState::Merged,
            "closed" => PullRequestState::Closed,
            // A locked one is being merged.
            _ => PullRequestState::Open,
        };
        let head_commit = self.sha.unwrap_or_default();
        // A merge that only moves the branch makes no commit.
        let merged = self.merge_commit_sha.or(self.squash_commit_sha).unwrap_or_else(|| head_commit.clone());
        PullRequest {
            number: self.iid,
            url: self.web_url,
            title: self.title,
            body: self.description.unwrap_or_default(),
            state,
            draft: self.draft,
            head: self.source_branch,
            head_commit,
            fork: self.source_project_id != Some(self.target_project_id),
            base: self.target_branch,
            author: self.author.map(|user| user.username).unwrap_or_default(),
            labels: self.labels,
            merge_commit: (state == PullRequestState::Merged).then_some(merged),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct File {
    old_path: String,
    new_path: String,
    #[serde(default, rename = "new_file")]
    added: bool,
    #[serde(default, rename = "renamed_file")]
    renamed: bool,
    #[serde(default, rename = "deleted_file")]
    removed: bool,
}

impl File {
    pub(super) fn told(self) -> ChangedFile {
        let status = match (self.added, self.removed, self.renamed) {
            (true, ..) => FileStatus::Added,
            (_, true, _) => FileStatus::Removed,
            (.., true) => FileStatus::Renamed,
            _ => FileStatus::Modified,
        };
        let previous = (status == FileStatus::Renamed).then_some(self.old_path);
        ChangedFile { path: self.new_path, previous, status }
    }
}

#[derive(Deserialize)]
pub(super) struct Approvals {
    #[serde(default)]
    pub(super) approved_by: Vec<Approval>,
}

#[derive(Deserialize)]
pub(super) struct Approval {
    pub(super) user: User,
}

#[derive(Deserialize)]
pub(super) struct Reviewer {
    pub(super) user: User,
    state: String,
}

impl Reviewer {
    /// Nothing of who has not reviewed yet. Approvals are told apart from this list, for whoever is no reviewer too.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        match self.state.as_str() {
            "requested_changes" => Some(Verdict::ChangesRequested),
            "reviewed" => Some(Verdict::Commented),
            "unapproved" => Some(Verdict::Dismissed),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Note {
    pub(super) id: u64,
    pub(super) body: String,
    pub(super) author: Option<User>,
}

#[derive(Deserialize)]
pub(super) struct Hook {
    pub(super) id: u64,
    pub(super) url: String,
}

#[derive(Deserialize)]
pub(super) struct Entry {
    path: String,
    mode: String,
    id: Option<String>,
}

impl Entry {
    pub(super) fn told(self) -> Option<TreeEntry> {
        let kind = EntryKind::of_mode(&self.mode)?;
        Some(TreeEntry { path: self.path, kind })
    }

    /// Folders too.
    pub(super) fn below(&self, folder: &Folder) -> Option<folders::Entry> {
        folders::entry_of(folder.below(&self.path)?, &self.mode, self.id.as_deref())
    }
}

/// Without being asked for all, it tells the newest of each name.
#[derive(Deserialize)]
pub(super) struct Status {
    name: String,
    #[serde(rename = "status")]
    state: String,
    #[serde(default)]
    allow_failure: bool,
}

impl Status {
    pub(super) fn told(self) -> Check {
        let state = match self.state.as_str() {
            "success" | "skipped" | "manual" => StatusState::Success,
            "failed" | "canceled" if self.allow_failure => StatusState::Success,
            "failed" => StatusState::Failure,
            "canceled" => StatusState::Error,
            _ => StatusState::Pending,
        };
        Check { context: self.name, state }
    }
}

#[derive(Deserialize)]
pub(super) struct CommitRead {
    pub(super) message: String,
    pub(super) parent_ids: Vec<String>,
}
