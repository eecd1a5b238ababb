//! Shapes of Bitbucket Data Center's answers.

use serde::Deserialize;

use crate::common::or_nothing;
use crate::port::{
    ChangedFile, Check, FileStatus, PullRequest, PullRequestState, Review, StatusState, Verdict,
};

/// A page of a list, and where the next one begins.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page<T> {
    pub(super) values: Vec<T>,
    #[serde(default, rename = "isLastPage", deserialize_with = "or_nothing")]
    pub(super) is_last: bool,
    pub(super) next_page_start: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Branch {
    pub(super) display_id: String,
}

#[derive(Deserialize)]
pub(super) struct Commit {
    pub(super) id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct User {
    pub(super) name: String,
    pub(super) slug: Option<String>,
    pub(super) display_name: Option<String>,
    pub(super) email_address: Option<String>,
}

impl User {
    /// What names it in addresses.
    pub(super) fn slug(&self) -> &str {
        self.slug.as_deref().unwrap_or(&self.name)
    }
}

#[derive(Deserialize)]
struct Repository {
    id: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Side {
    display_id: String,
    pub(super) latest_commit: Option<String>,
    repository: Option<Repository>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Participant {
    pub(super) user: User,
    #[serde(default, deserialize_with = "or_nothing")]
    status: String,
    pub(super) last_reviewed_commit: Option<String>,
}

impl Participant {
    /// What was said; whoever `takes_part` without a verdict wrote a comment.
    fn told(self, takes_part: bool) -> Option<Review> {
        let verdict = match self.status.as_str() {
            "APPROVED" => Verdict::Approved,
            "NEEDS_WORK" => Verdict::ChangesRequested,
            _ if takes_part => Verdict::Commented,
            _ => return None,
        };
        Some(Review { reviewer: self.user.name, verdict, commit: self.last_reviewed_commit })
    }
}

#[derive(Deserialize)]
pub(super) struct Author {
    pub(super) user: User,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Properties {
    merge_commit: Option<Commit>,
}

#[derive(Deserialize)]
struct Link {
    href: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Links {
    #[serde(rename = "self")]
    own: Vec<Link>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pull {
    id: u64,
    /// Counts its changes; a write names the one that it is about.
    pub(super) version: u64,
    pub(super) title: String,
    pub(super) description: Option<String>,
    pub(super) state: String,
    #[serde(default, deserialize_with = "or_nothing")]
    draft: bool,
    pub(super) from_ref: Side,
    to_ref: Side,
    pub(super) author: Option<Author>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub(super) reviewers: Vec<Participant>,
    #[serde(default, deserialize_with = "or_nothing")]
    participants: Vec<Participant>,
    #[serde(default, deserialize_with = "or_nothing")]
    properties: Properties,
    #[serde(default, deserialize_with = "or_nothing")]
    links: Links,
}

impl Pull {
    pub(super) fn is_at(&self, head: &str) -> bool {
        self.from_ref.latest_commit.as_deref() == Some(head)
    }

    pub(super) fn told(self) -> PullRequest {
        let state = match self.state.as_str() {
            "OPEN" => PullRequestState::Open,
            "MERGED" => PullRequestState::Merged,
            _ => PullRequestState::Closed,
        };
        let home = self.to_ref.repository.map(|repository| repository.id);
        PullRequest {
            number: self.id,
            url: self.links.own.into_iter().next().map(|link| link.href).unwrap_or_default(),
            title: self.title,
            body: self.description.unwrap_or_default(),
            state,
            draft: self.draft,
            head: self.from_ref.display_id,
            head_commit: self.from_ref.latest_commit.unwrap_or_default(),
            fork: home.is_none() || self.from_ref.repository.map(|repository| repository.id) != home,
            base: self.to_ref.display_id,
            author: self.author.map(|author| author.user.name).unwrap_or_default(),
            labels: Vec::new(),
            merge_commit: self.properties.merge_commit.map(|commit| commit.id),
        }
    }

    /// The last word of each. No time is told, so comments come first and verdicts after them.
    pub(super) fn reviews(self) -> Vec<Review> {
        let author = self.author.map(|author| author.user.name);
        let others = self.participants.into_iter();
        let others = others.filter(|participant| Some(&participant.user.name) != author.as_ref());
        let mut reviews: Vec<Review> = others.filter_map(|participant| participant.told(true)).collect();
        reviews.extend(self.reviewers.into_iter().filter_map(|reviewer| reviewer.told(false)));
        reviews.sort_by_key(|review| review.verdict != Verdict::Commented);
        reviews
    }
}

#[derive(Deserialize)]
struct Path {
    #[serde(rename = "toString")]
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct File {
    path: Path,
    src_path: Option<Path>,
    #[serde(rename = "type")]
    kind: String,
}

impl File {
    pub(super) fn told(self) -> ChangedFile {
        let status = match self.kind.as_str() {
            "ADD" | "COPY" => FileStatus::Added,
            "DELETE" => FileStatus::Removed,
            "MOVE" => FileStatus::Renamed,
            _ => FileStatus::Modified,
        };
        let previous = self.src_path.map(|path| path.text).filter(|_| status == FileStatus::Renamed);
        ChangedFile { path: self.path.text, previous, status }
    }
}

#[derive(Deserialize)]
pub(super) struct Comment {
    pub(super) id: u64,
    pub(super) version: u64,
    pub(super) text: String,
    pub(super) author: User,
}

/// Something that happened to a pull request; comments are told nowhere else.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Activity {
    action: String,
    comment: Option<Comment>,
}

impl Activity {
    pub(super) fn comment(self) -> Option<Comment> {
        self.comment.filter(|_| self.action == "COMMENTED")
    }
}

#[derive(Deserialize)]
pub(super) struct Hook {
    pub(super) id: u64,
    pub(super) url: String,
}

/// What a build says of a commit.
#[derive(Deserialize)]
pub(super) struct Build {
    state: String,
    key: String,
    name: Option<String>,
}

impl Build {
    pub(super) fn told(self) -> Check {
        let state = match self.state.as_str() {
            "SUCCESSFUL" => StatusState::Success,
            "FAILED" => StatusState::Failure,
            "CANCELLED" => StatusState::Error,
            _ => StatusState::Pending,
        };
        Check { context: self.name.filter(|name| !name.is_empty()).unwrap_or(self.key), state }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_is_as_if_it_were_not_there() {
        let side = |name: &str| json!({"displayId": name, "latestCommit": null, "repository": {"id": 1}});
        let told = json!({
            "id": 7, "version": 1, "title": "Add it", "description": null, "state": "OPEN", "draft": null,
            "fromRef": side("add"), "toRef": side("main"), "author": null, "reviewers": null, "participants": null,
            "properties": null, "links": null,
        });
        let pull: Pull = serde_json::from_value(told).unwrap();
        let told = pull.told();
        assert_eq!((told.head.as_str(), told.url.as_str(), told.fork), ("add", "", false));
        assert_eq!((told.merge_commit, told.draft), (None, false));
    }
}
