//! Pull requests that the console opened.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{PrAutomationId, ProjectId, PullRequestId, ScmConnectionId};
use crate::merge_window::PrMerging;
use crate::page::Keyed;
use crate::pr_automation_checks::is_branch;
use crate::pr_governance::PrGoverned;
use crate::pr_instance::PrGenerated;
use crate::pull_request_life::PrLife;

/// Limit of labels of a pull request.
pub(crate) const MAX_LABELS: usize = 100;
/// Limit of a URL, in bytes.
const MAX_URL: usize = 2048;
/// Limit of a title, a branch or a label, in bytes.
pub(crate) const MAX_LINE: usize = 1024;

/// The status of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrStatus {
    /// It is open.
    Open,
    /// It was merged.
    Merged,
    /// It was closed without a merge.
    Closed,
}

impl PrStatus {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Open, Self::Merged, Self::Closed];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Merged => "MERGED",
            Self::Closed => "CLOSED",
        }
    }

    /// The status of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// The phase of opening a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrPhase {
    /// It is being opened.
    Pending,
    /// It exists at its host.
    Opened,
    /// It was not opened, and will not be.
    Failed,
}

impl PrPhase {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Opened, Self::Failed];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Opened => "OPENED",
            Self::Failed => "FAILED",
        }
    }

    /// The phase of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == word)
    }
}

/// The progress of opening a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrProgress {
    /// Its phase.
    pub phase: PrPhase,
    /// The commit of its branch that the console pushed.
    pub commit: Option<String>,
    /// Why it is not open, or not yet. It contains no answers.
    pub error: Option<String>,
}

impl PrProgress {
    /// The progress of one that exists at its host already.
    pub const OPENED: Self = Self { phase: PrPhase::Opened, commit: None, error: None };
}

/// The recorded steps of opening a pull request: each one is written before the next one begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrWork {
    /// The target branch.
    pub base: String,
    /// The parent of the console's commit, on that branch.
    pub parent: Option<String>,
    /// The branch moved once, and the changes were computed again on its new head.
    pub rebased: bool,
    /// The branch did not exist, and the console began to create it.
    pub making: bool,
    /// The pushed commit.
    pub commit: Option<String>,
    /// That commit was found on the branch, and may not be the console's alone: the branch is never deleted.
    pub adopted: bool,
    /// The console began to open it: it may be open, or closed again, without a confirmed answer.
    pub opening: bool,
    /// What it generates.
    pub generated: Option<PrGenerated>,
    /// The repository needs no change: only the instance is updated, without a pull request.
    pub unneeded: bool,
    /// The reason of its failure: its branch is deleted first, and then its record gets the reason.
    pub refused: Option<String>,
}

/// A pull request that the console opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// Id.
    pub id: PullRequestId,
    /// Its project.
    pub project_id: ProjectId,
    /// Its connection.
    pub connection_id: ScmConnectionId,
    /// The automation that opened it; absent once that is deleted.
    pub automation_id: Option<PrAutomationId>,
    /// Who opened it: the name in the audit log.
    pub creator: String,
    /// The host's description. While it is not open: without a URL, and titled with the name of its automation.
    pub told: HostPullRequest,
    /// The progress of opening it.
    pub progress: PrProgress,
    /// What was read back from its host.
    pub life: PrLife,
    /// Who has to confirm it before a merge: from its automation when it was requested.
    pub governed: Option<PrGoverned>,
    /// Its merge windows, and a waiting merge.
    pub merging: PrMerging,
    /// When it was recorded.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
}

impl Keyed for PullRequest {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// What a git host reports of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPullRequest {
    /// Its URL, unique within a connection.
    pub url: String,
    /// The repository, as `acme/shop`.
    pub repository: String,
    /// Its branch.
    pub branch: String,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: PrStatus,
    /// Its labels.
    pub labels: Vec<String>,
}

/// The branch of a pull request: the given one, or a generated one that is unique.
///
/// # Errors
/// [`Error::Invalid`] for an invalid name of a branch.
pub fn branch_of(id: PullRequestId, prefix: Option<&str>, given: Option<&str>) -> Result<String> {
    if let Some(given) = given {
        if !is_branch(given) {
            return Err(Error::invalid("branch", "must be the name of a branch, such as add-shop"));
        }
        return Ok(given.to_owned());
    }
    let prefix = prefix.unwrap_or("plural");
    let between = if prefix.ends_with(['/', '-', '_']) { "" } else { "-" };
    let branch = format!("{prefix}{between}{id}");
    if !is_branch(&branch) {
        return Err(Error::invalid(
            "branch",
            "must be given: with the automation's prefix, the name of a branch would be too long",
        ));
    }
    Ok(branch)
}

impl HostPullRequest {
    /// Checks what a host reported.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid URL, or one that is too long.
    pub fn check(&self) -> Result<()> {
        let Self { url, repository, branch, title, status: _, labels } = self;
        let rest = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        // Users click on it: a part before an @ looks like a host and is not.
        let host = rest.and_then(|rest| rest.split(['/', '?', '#', '\\']).next()).unwrap_or_default();
        let is_address = !host.is_empty()
            && !host.contains('@')
            && url.len() <= MAX_URL
            && !url.contains(|c: char| c.is_control() || c.is_whitespace());
        if !is_address {
            return Err(Error::invalid("url", "is no http or https address"));
        }
        for (field, text) in [("repository", repository), ("branch", branch), ("title", title)] {
            if text.trim().is_empty() || text.len() > MAX_LINE || text.contains(char::is_control) {
                return Err(Error::invalid(field, format!("must be one line of 1 to {MAX_LINE} bytes")));
            }
        }
        let is_odd = |label: &String| label.len() > MAX_LINE || label.contains(char::is_control);
        if labels.len() > MAX_LABELS || labels.iter().any(is_odd) {
            return Err(Error::invalid("labels", format!("must be at most {MAX_LABELS}, each one line")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_tells_is_checked() {
        let good = HostPullRequest {
            url: "https://github.com/acme/shop/pull/1".to_owned(),
            repository: "acme/shop".to_owned(),
            branch: "plural/a".to_owned(),
            title: "Add it".to_owned(),
            status: PrStatus::Open,
            labels: vec!["infra".to_owned()],
        };
        good.check().unwrap();
        for (bad, field) in [
            (HostPullRequest { url: "javascript:alert(1)".to_owned(), ..good.clone() }, "url"),
            (HostPullRequest { url: "https://a b".to_owned(), ..good.clone() }, "url"),
            (HostPullRequest { url: "https://github.com@evil.example/1".to_owned(), ..good.clone() }, "url"),
            (HostPullRequest { url: "https:///1".to_owned(), ..good.clone() }, "url"),
            (HostPullRequest { title: "a\nb".to_owned(), ..good.clone() }, "title"),
            (HostPullRequest { branch: String::new(), ..good.clone() }, "branch"),
            (HostPullRequest { labels: vec!["x".to_owned(); 101], ..good.clone() }, "labels"),
        ] {
            assert!(bad.check().unwrap_err().to_string().starts_with(field), "{bad:?}");
        }
    }

    #[test]
    fn a_branch_is_given_or_its_own() {
        let id = PullRequestId::new();
        assert_eq!(branch_of(id, None, None).unwrap(), format!("plural-{id}"));
        assert_eq!(branch_of(id, Some("plural/service/"), None).unwrap(), format!("plural/service/{id}"));
        assert_eq!(branch_of(id, Some("x"), Some("add-shop")).unwrap(), "add-shop");
        assert!(branch_of(id, Some(&"x".repeat(190)), None).is_err());
        for bad in ["-f", "a b", "a..b", ""] {
            assert!(branch_of(id, None, Some(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn words_round_trip() {
        for status in PrStatus::ALL {
            assert_eq!(PrStatus::parse(status.as_str()), Some(status));
        }
        assert_eq!(PrStatus::parse("DRAFT"), None);
        for phase in PrPhase::ALL {
            assert_eq!(PrPhase::parse(phase.as_str()), Some(phase));
        }
    }
}
