//! Pull requests that the console opened.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{PrAutomationId, ProjectId, PullRequestId, ScmConnectionId};
use crate::page::Keyed;
use crate::pr_automation_checks::is_branch;
use crate::pull_request_life::PrLife;

/// Labels of a pull request.
pub(crate) const MAX_LABELS: usize = 100;
/// Bytes of an address.
const MAX_URL: usize = 2048;
/// Bytes of a title, a branch, a label.
pub(crate) const MAX_LINE: usize = 1024;

/// How a pull request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrStatus {
    /// It can be merged.
    Open,
    /// It was merged.
    Merged,
    /// It was closed and not merged.
    Closed,
}

impl PrStatus {
    /// All of them.
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

/// How far the console is with opening a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrPhase {
    /// It is being opened.
    Pending,
    /// The host has it.
    Opened,
    /// It was not opened, and will not be.
    Failed,
}

impl PrPhase {
    /// All of them.
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

/// What is known of opening a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrProgress {
    /// How far it is.
    pub phase: PrPhase,
    /// The commit of its branch that the console made.
    pub commit: Option<String>,
    /// Why it is not open, or not yet. No answer is in it.
    pub error: Option<String>,
}

impl PrProgress {
    /// Of one that the host has already.
    pub const OPENED: Self = Self { phase: PrPhase::Opened, commit: None, error: None };
}

/// What was done of opening a pull request: each step is written down before the next one begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrWork {
    /// The branch that it goes to.
    pub base: String,
    /// The commit of that branch on which the console's is made.
    pub parent: Option<String>,
    /// The branch moved once, and the changes were made again on its new head.
    pub rebased: bool,
    /// The branch was not there, and the console began to make it.
    pub making: bool,
    /// The commit that was made.
    pub commit: Option<String>,
    /// The console began to open it: it may be open, or have been, and the console did not hear so.
    pub opening: bool,
}

/// A pull request that the console opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// Id.
    pub id: PullRequestId,
    /// Where it belongs.
    pub project_id: ProjectId,
    /// With which it was opened.
    pub connection_id: ScmConnectionId,
    /// The automation that it was opened with; absent once that is gone.
    pub automation_id: Option<PrAutomationId>,
    /// Who opened it, as the audit log calls them.
    pub creator: String,
    /// What the host tells of it. While it is not open: without an address, and with the name of its automation for a title.
    pub told: HostPullRequest,
    /// How far the console is with opening it.
    pub progress: PrProgress,
    /// What was read back of it.
    pub life: PrLife,
    /// When it was recorded.
    pub created_at: DateTime<Utc>,
    /// When something of it last changed.
    pub updated_at: DateTime<Utc>,
}

impl Keyed for PullRequest {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// What a git host tells of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPullRequest {
    /// Its address, by which it is known: one of a connection.
    pub url: String,
    /// The repository, as `acme/shop`.
    pub repository: String,
    /// Its branch.
    pub branch: String,
    /// Its title.
    pub title: String,
    /// How it stands.
    pub status: PrStatus,
    /// Its labels.
    pub labels: Vec<String>,
}

/// The branch of a pull request: the given one, or one that nobody else has.
///
/// # Errors
/// [`Error::Invalid`] for what is no name of a branch.
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
    /// Checks what a host tells.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no address, or too long.
    pub fn check(&self) -> Result<()> {
        let Self { url, repository, branch, title, status: _, labels } = self;
        let rest = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        // People click on it: what stands before an @ looks like a host and is none.
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
