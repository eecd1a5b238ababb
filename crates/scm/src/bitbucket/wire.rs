//! Shapes of Bitbucket Cloud's answers.

use serde::Deserialize;

use crate::folders::{self, Folder};
use crate::port::{
    ChangedFile, Check, EntryKind, FileStatus, PullRequest, PullRequestState, Review, StatusState, TreeEntry,
    Verdict,
};

/// A page of a list, and where the next one is.
#[derive(Deserialize)]
pub(crate) struct Page<T> {
    pub(crate) values: Vec<T>,
    pub(crate) next: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Named {
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct Repository {
    pub(super) mainbranch: Option<Named>,
}

#[derive(Deserialize)]
pub(super) struct Branch {
    pub(super) target: Hash,
}

#[derive(Deserialize)]
pub(super) struct Hash {
    pub(super) hash: String,
}

#[derive(Deserialize)]
pub(super) struct User {
    pub(super) uuid: String,
    nickname: Option<String>,
    display_name: Option<String>,
}

impl User {
    fn name(self) -> String {
        self.nickname.or(self.display_name).unwrap_or(self.uuid)
    }
}

#[derive(Deserialize)]
struct FullName {
    full_name: String,
}

#[derive(Deserialize)]
pub(super) struct Side {
    branch: Named,
    /// The first digits only.
    pub(super) commit: Option<Hash>,
    repository: Option<FullName>,
}

#[derive(Deserialize)]
struct Links {
    html: Link,
}

#[derive(Deserialize)]
struct Link {
    href: String,
}

#[derive(Deserialize)]
struct Participant {
    user: User,
    state: Option<String>,
    participated_on: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Pull {
    id: u64,
    pub(super) title: String,
    pub(super) description: Option<String>,
    state: String,
    #[serde(default)]
    draft: bool,
    pub(super) source: Side,
    destination: Side,
    pub(super) author: Option<User>,
    pub(super) merge_commit: Option<Hash>,
    links: Links,
    #[serde(default)]
    participants: Vec<Participant>,
}

impl Pull {
    pub(super) fn told(self) -> PullRequest {
        let state = match self.state.as_str() {
            "OPEN" => PullRequestState::Open,
            "MERGED" => PullRequestState::Merged,
            _ => PullRequestState::Closed,
        };
        let home = self.destination.repository.map(|repository| repository.full_name);
        PullRequest {
            number: self.id,
            url: self.links.html.href,
            title: self.title,
            body: self.description.unwrap_or_default(),
            state,
            draft: self.draft,
            head: self.source.branch.name,
            head_commit: self.source.commit.map(|commit| commit.hash).unwrap_or_default(),
            fork: home.is_none() || self.source.repository.map(|repository| repository.full_name) != home,
            base: self.destination.branch.name,
            author: self.author.map(User::name).unwrap_or_default(),
            labels: Vec::new(),
            merge_commit: self.merge_commit.map(|commit| commit.hash),
        }
    }

    /// The last word of each, by the time of it.
    pub(super) fn reviews(self) -> Vec<Review> {
        let author = self.author.map(|author| author.uuid);
        let mut said: Vec<(String, Review)> = Vec::new();
        for participant in self.participants {
            let Some(at) = participant.participated_on else { continue };
            let verdict = match participant.state.as_deref() {
                Some("approved") => Verdict::Approved,
                Some("changes_requested") => Verdict::ChangesRequested,
                _ if author.as_ref() == Some(&participant.user.uuid) => continue,
                _ => Verdict::Commented,
            };
            said.push((at, Review { reviewer: participant.user.name(), verdict, commit: None }));
        }
        said.sort_by(|one, other| one.0.cmp(&other.0));
        said.into_iter().map(|(_, review)| review).collect()
    }
}

#[derive(Deserialize)]
struct Place {
    path: String,
}

#[derive(Deserialize)]
pub(super) struct File {
    status: String,
    old: Option<Place>,
    new: Option<Place>,
}

impl File {
    pub(super) fn told(self) -> Option<ChangedFile> {
        let status = match self.status.as_str() {
            "added" => FileStatus::Added,
            "removed" => FileStatus::Removed,
            "renamed" => FileStatus::Renamed,
            _ => FileStatus::Modified,
        };
        let (old, new) = (self.old.map(|place| place.path), self.new.map(|place| place.path));
        let previous = old.clone().filter(|_| status == FileStatus::Renamed);
        Some(ChangedFile { path: new.or(old)?, previous, status })
    }
}

#[derive(Deserialize)]
pub(super) struct Text {
    pub(super) raw: String,
}

#[derive(Deserialize)]
pub(super) struct Comment {
    pub(super) id: u64,
    pub(super) content: Text,
    pub(super) user: Option<User>,
}

#[derive(Deserialize)]
pub(super) struct Hook {
    pub(super) uuid: String,
    pub(super) url: String,
}

#[derive(Deserialize)]
pub(super) struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    attributes: Vec<String>,
}

impl Entry {
    /// Nothing for a folder.
    pub(super) fn told(self) -> Option<TreeEntry> {
        let has = |name: &str| self.attributes.iter().any(|attribute| attribute == name);
        let kind = match self.kind.as_str() {
            "commit_file" if has("subrepository") => EntryKind::Submodule,
            "commit_file" if has("link") => EntryKind::Link,
            "commit_file" if has("executable") => EntryKind::Executable,
            "commit_file" => EntryKind::File,
            _ => return None,
        };
        Some(TreeEntry { path: self.path, kind })
    }

    /// Folders too.
    pub(super) fn below(self, folder: &Folder) -> Option<folders::Entry> {
        let path = folder.below(&self.path)?.to_owned();
        if self.kind == "commit_directory" {
            return Some(folders::Entry { path, kind: None, id: None });
        }
        Some(folders::Entry { path, kind: Some(self.told()?.kind), id: None })
    }
}

/// It keeps one of each key.
#[derive(Deserialize)]
pub(super) struct Status {
    name: Option<String>,
    key: String,
    state: String,
}

impl Status {
    pub(super) fn told(self) -> Check {
        let state = match self.state.as_str() {
            "SUCCESSFUL" => StatusState::Success,
            "FAILED" => StatusState::Failure,
            "STOPPED" => StatusState::Error,
            _ => StatusState::Pending,
        };
        Check { context: self.name.filter(|name| !name.is_empty()).unwrap_or(self.key), state }
    }
}
