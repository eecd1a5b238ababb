//! Shapes of Azure DevOps' answers.

use serde::Deserialize;
use serde_json::Value;

use crate::common::or_nothing;
use crate::folders;
use crate::port::{
    ChangedFile, Check, EntryKind, FileStatus, PullRequest, PullRequestState, Review, StatusState, TreeEntry,
    Verdict,
};

/// A list, or a page of one.
#[derive(Deserialize)]
pub(super) struct Page<T> {
    pub(super) value: Vec<T>,
}

#[derive(Deserialize)]
pub(super) struct Id {
    pub(super) id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Repository {
    pub(super) id: String,
    pub(super) default_branch: Option<String>,
    pub(super) project: Id,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) object_id: String,
}

/// What became of a reference that was to be changed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Updated {
    #[serde(default)]
    pub(super) success: bool,
    pub(super) update_status: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Commit {
    pub(super) tree_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommitId {
    pub(super) commit_id: String,
}

#[derive(Deserialize)]
pub(super) struct Pushed {
    pub(super) commits: Vec<CommitId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item {
    git_object_type: Option<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    is_folder: bool,
}

impl Item {
    pub(super) fn is_folder(&self) -> bool {
        self.is_folder || self.git_object_type.as_deref() == Some("tree")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tree {
    pub(super) tree_entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    relative_path: String,
    mode: String,
    object_id: Option<String>,
}

impl Entry {
    /// Nothing for a folder.
    pub(super) fn told(self) -> Option<TreeEntry> {
        let kind = EntryKind::of_mode(&self.mode)?;
        Some(TreeEntry { path: self.relative_path.trim_start_matches('/').to_owned(), kind })
    }

    /// Folders too.
    pub(super) fn all(&self) -> Option<folders::Entry> {
        let path = self.relative_path.trim_start_matches('/');
        folders::entry_of(path, &self.mode, self.object_id.as_deref())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct User {
    pub(super) id: String,
    display_name: Option<String>,
    unique_name: Option<String>,
}

impl User {
    fn name(self) -> String {
        self.unique_name.filter(|name| !name.is_empty()).or(self.display_name).unwrap_or(self.id)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Connected {
    pub(super) authenticated_user: Id,
}

#[derive(Deserialize)]
pub(super) struct Reviewer {
    #[serde(flatten)]
    user: User,
    #[serde(default, deserialize_with = "or_nothing")]
    vote: i64,
    /// It stands for a group, whose members vote.
    #[serde(default, rename = "isContainer", deserialize_with = "or_nothing")]
    is_group: bool,
}

#[derive(Deserialize)]
struct Label {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pull {
    #[serde(rename = "pullRequestId")]
    number: u64,
    pub(super) status: String,
    pub(super) created_by: User,
    title: String,
    description: Option<String>,
    source_ref_name: String,
    target_ref_name: String,
    pub(super) merge_status: Option<String>,
    merge_failure_message: Option<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    is_draft: bool,
    /// What was looked at for conflicts last, not the head.
    last_merge_source_commit: Option<CommitId>,
    last_merge_commit: Option<CommitId>,
    #[serde(default, deserialize_with = "or_nothing")]
    reviewers: Vec<Reviewer>,
    #[serde(default, deserialize_with = "or_nothing")]
    labels: Vec<Label>,
    fork_source: Option<Value>,
}

impl Pull {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Why it is not merged, once that is known.
    pub(super) fn failure(&self) -> Option<String> {
        let status = self.merge_status.as_deref()?;
        if !matches!(status, "conflicts" | "rejectedByPolicy" | "failure") {
            return None;
        }
        Some(self.merge_failure_message.clone().unwrap_or_else(|| status.to_owned()))
    }

    /// `url` is its page.
    pub(super) fn told(self, url: String) -> PullRequest {
        let state = match self.status.as_str() {
            "active" => PullRequestState::Open,
            "completed" => PullRequestState::Merged,
            _ => PullRequestState::Closed,
        };
        let branch = |name: String| match name.strip_prefix("refs/heads/") {
            Some(short) => short.to_owned(),
            None => name,
        };
        let merged = self.last_merge_commit.filter(|_| state == PullRequestState::Merged);
        PullRequest {
            number: self.number,
            url,
            title: self.title,
            body: self.description.unwrap_or_default(),
            state,
            draft: self.is_draft,
            head: branch(self.source_ref_name),
            head_commit: self.last_merge_source_commit.map(|commit| commit.commit_id).unwrap_or_default(),
            fork: self.fork_source.is_some(),
            base: branch(self.target_ref_name),
            author: self.created_by.name(),
            labels: self.labels.into_iter().map(|label| label.name).collect(),
            merge_commit: merged.map(|commit| commit.commit_id),
        }
    }

    /// The last word of each: votes, and comments of those who have no vote.
    pub(super) fn reviews(self, threads: Vec<Thread>) -> Vec<Review> {
        let author = self.created_by.id;
        let mut voted = Vec::new();
        let mut who: Vec<String> = vec![author];
        for reviewer in self.reviewers {
            let verdict = match reviewer.vote {
                1.. => Verdict::Approved,
                0 => continue,
                _ => Verdict::ChangesRequested,
            };
            if reviewer.is_group {
                continue;
            }
            who.push(reviewer.user.id.clone());
            voted.push(Review { reviewer: reviewer.user.name(), verdict, commit: None });
        }
        let mut reviews = Vec::new();
        for comment in threads.into_iter().flat_map(|thread| thread.comments) {
            if !comment.is_by_hand() || who.contains(&comment.author.id) {
                continue;
            }
            who.push(comment.author.id.clone());
            let reviewer = comment.author.name();
            reviews.push(Review { reviewer, verdict: Verdict::Commented, commit: None });
        }
        reviews.extend(voted);
        reviews
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Comment {
    pub(super) id: u64,
    content: Option<String>,
    pub(super) author: User,
    #[serde(rename = "commentType")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    is_deleted: bool,
}

impl Comment {
    /// What somebody wrote; the host itself writes of votes and pushes.
    pub(super) fn is_by_hand(&self) -> bool {
        !self.is_deleted && self.kind.as_deref() != Some("system")
    }

    pub(super) fn content(&self) -> &str {
        self.content.as_deref().unwrap_or_default()
    }
}

#[derive(Deserialize)]
pub(super) struct Thread {
    pub(super) id: u64,
    #[serde(default, deserialize_with = "or_nothing")]
    pub(super) comments: Vec<Comment>,
}

#[derive(Deserialize)]
pub(super) struct Iteration {
    pub(super) id: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Changes {
    #[serde(default, deserialize_with = "or_nothing")]
    pub(super) change_entries: Vec<Change>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub(super) next_skip: u64,
}

#[derive(Deserialize)]
struct Place {
    path: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Change {
    #[serde(rename = "changeType")]
    kind: String,
    item: Option<Place>,
    original_path: Option<String>,
}

impl Change {
    pub(super) fn told(self) -> Option<ChangedFile> {
        let plain = |path: String| path.trim_start_matches('/').to_owned();
        // Several kinds may be told: "edit, rename".
        let is = |kind: &str| self.kind.split(',').any(|known| known.trim() == kind);
        let status = if is("rename") {
            FileStatus::Renamed
        } else if is("add") || is("undelete") {
            FileStatus::Added
        } else if is("delete") {
            FileStatus::Removed
        } else {
            FileStatus::Modified
        };
        let previous = self.original_path.map(plain);
        let path = self.item.and_then(|item| item.path).map(plain).or_else(|| previous.clone())?;
        Some(ChangedFile { path, previous: previous.filter(|_| status == FileStatus::Renamed), status })
    }
}

/// What sends one kind of event.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Subscription {
    pub(super) id: String,
    pub(super) event_type: String,
    #[serde(default)]
    publisher_inputs: Value,
    #[serde(default)]
    consumer_inputs: Value,
}

impl Subscription {
    /// It tells of this project and repository (of all, where that is empty), to this address.
    pub(super) fn is_of(&self, project: &str, repository: &str, url: &str) -> bool {
        self.publisher_inputs["projectId"] == project
            && self.publisher_inputs["repository"].as_str().unwrap_or_default() == repository
            && self.consumer_inputs["url"] == url
    }
}

#[derive(Deserialize)]
pub(super) struct Status {
    state: Option<String>,
    context: StatusContext,
}

#[derive(Deserialize)]
struct StatusContext {
    name: String,
    genre: Option<String>,
}

impl Status {
    pub(super) fn told(self) -> Check {
        let state = match self.state.as_deref() {
            // What does not concern a commit holds it up no more than what is good.
            Some("succeeded" | "notApplicable" | "partiallySucceeded") => StatusState::Success,
            Some("failed") => StatusState::Failure,
            Some("error") => StatusState::Error,
            _ => StatusState::Pending,
        };
        let StatusContext { name, genre } = self.context;
        let context = match genre.filter(|genre| !genre.is_empty()) {
            Some(genre) => format!("{genre}/{name}"),
            None => name,
        };
        Check { context, state }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_is_as_if_it_were_not_there() {
        let told = json!({
            "pullRequestId": 7, "status": "active", "createdBy": {"id": "a"}, "title": "Add it", "description": null,
            "sourceRefName": "refs/heads/add", "targetRefName": "refs/heads/main", "isDraft": null,
            "reviewers": null, "labels": null, "mergeStatus": null, "lastMergeSourceCommit": null, "forkSource": null,
        });
        let pull: Pull = serde_json::from_value(told).unwrap();
        let threads: Vec<Thread> = serde_json::from_value(json!([{"id": 1, "comments": null}])).unwrap();
        let told = pull.told(String::new());
        assert_eq!((told.head.as_str(), told.labels.len(), told.draft, told.fork), ("add", 0, false, false));
        assert!(threads.iter().all(|thread| thread.comments.is_empty()));
    }
}
