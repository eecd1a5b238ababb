//! What the console reads back of a pull request from its host, after it was opened.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::ids::{ClusterId, ServiceId, StackId};
use crate::name::{Handle, KubeName};
use crate::pull_request::{HostPullRequest, MAX_LABELS, MAX_LINE, PrPhase, PullRequest};

/// Path segments before the number in the URL of a pull request's page.
const PAGES: [&str; 5] = ["merge_requests", "pull", "pull-requests", "pullrequest", "pulls"];
/// Limit of a text that is searched for markers, in bytes.
const MAX_TEXT: usize = 1 << 18;

/// The state of a pull request at its host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrLife {
    /// The head commit, open or merged.
    pub head: Option<String>,
    /// The other facts from the host.
    pub facts: PrFacts,
    /// The console's nouns that it belongs to.
    pub links: PrLinks,
    /// When the request for this answer was sent; absent before the first one.
    pub read_at: Option<DateTime<Utc>>,
}

/// What a host reports of a pull request beside its status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrFacts {
    /// The target branch.
    pub base: Option<String>,
    /// Its author's name at the host.
    pub author: Option<String>,
    /// It is a draft.
    pub draft: bool,
    /// It comes from a fork.
    pub fork: bool,
    /// The merge commit.
    pub merge_commit: Option<String>,
    /// Checks of its head; absent if the host reports none.
    pub checks: Option<PrChecks>,
    /// Reviews; absent if the host reports none.
    pub reviews: Option<PrReviews>,
    /// Why the last read failed.
    pub error: Option<String>,
}

/// The combined status of a commit's checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PrCheckState {
    /// There are none.
    None,
    /// Some are pending.
    Pending,
    /// All succeeded.
    Passed,
    /// At least one failed.
    Failed,
}

/// Numbers of checks of a commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrChecks {
    /// Succeeded.
    pub passed: u32,
    /// Failed.
    pub failed: u32,
    /// Pending.
    pub pending: u32,
    /// The host has more than the limit: the others may have failed.
    pub incomplete: bool,
}

impl PrChecks {
    /// Their combined status.
    pub const fn state(self) -> PrCheckState {
        match self {
            Self { failed: 1.., .. } => PrCheckState::Failed,
            Self { pending: 1.., .. } | Self { incomplete: true, .. } => PrCheckState::Pending,
            Self { passed: 1.., .. } => PrCheckState::Passed,
            Self { .. } => PrCheckState::None,
        }
    }
}

/// Numbers of reviewers, by their latest review.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrReviews {
    /// They approved.
    pub approved: u32,
    /// They requested changes.
    pub changes_requested: u32,
}

/// The nouns that a pull request belongs to: named in its text, as far as that is trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrLinks {
    /// A service.
    pub service: Option<ServiceId>,
    /// A stack.
    pub stack: Option<StackId>,
    /// A cluster.
    pub cluster: Option<ClusterId>,
}

/// The method of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PrMergeMethod {
    /// With a merge commit.
    Merge,
    /// As one commit with all changes.
    Squash,
    /// Rebases its commits onto the target branch.
    Rebase,
}

/// The nouns that a text claims to belong to. Anybody who edits it can claim so: on its own it has no effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrMarkers {
    /// A service: its cluster's handle, and its name.
    pub service: Option<(Handle, KubeName)>,
    /// A stack, by name.
    pub stack: Option<String>,
    /// A cluster, by handle.
    pub cluster: Option<Handle>,
}

impl PrMarkers {
    /// The first of each kind in a title and a body, such as `Plural Service: blue/shop`.
    pub fn of(title: &str, body: &str) -> Self {
        let mut found = Self::default();
        let lines = [title, body].into_iter().flat_map(|text| cut(text).lines());
        for line in lines {
            if found.service.is_none()
                && let Some((cluster, name)) =
                    after(line, "plural service:").and_then(|at| at.split_once('/'))
                && let (Ok(cluster), Ok(name)) = (cluster.parse(), name.parse())
            {
                found.service = Some((cluster, name));
            }
            if found.stack.is_none() {
                found.stack = after(line, "plural stack:").map(str::to_owned);
            }
            if found.cluster.is_none() {
                found.cluster = after(line, "plural cluster:").and_then(|handle| handle.parse().ok());
            }
        }
        found
    }

    /// Whether it claims nothing.
    pub const fn is_empty(&self) -> bool {
        self.service.is_none() && self.stack.is_none() && self.cluster.is_none()
    }
}

/// A text as one line, within the limit.
fn line(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let plain = plain.trim();
    let mut end = plain.len().min(MAX_LINE);
    while !plain.is_char_boundary(end) {
        end -= 1;
    }
    plain[..end].trim_end().to_owned()
}

fn named(text: &str) -> String {
    let line = line(text);
    if line.is_empty() { "-".to_owned() } else { line }
}

/// The part of a text that is searched.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The word after this one in a line, ignoring case. It ends at characters that no name has, such as Markdown.
fn after<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let at = line.to_ascii_lowercase().find(word)? + word.len();
    let rest = line[at..].trim_start_matches([' ', '\t', '*', '`', '_']);
    let is_in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let end = rest.find(|c| !is_in_name(c)).unwrap_or(rest.len());
    let name = rest[..end].trim_end_matches('.');
    (!name.is_empty() && name.len() <= MAX_LINE).then_some(name)
}

impl HostPullRequest {
    /// The same with invalid parts dropped: a title or a label at the host must not keep the console from reading the rest.
    #[must_use]
    pub fn tidied(self) -> Self {
        let Self { url, repository, branch, title, status, labels } = self;
        let labels = labels.iter().map(|label| line(label)).filter(|label| !label.is_empty());
        Self {
            branch: named(&branch),
            title: named(&title),
            labels: labels.take(MAX_LABELS).collect(),
            url,
            repository,
            status,
        }
    }

    /// Its number, if its URL is that of a pull request's page.
    pub fn number(&self) -> Option<u64> {
        let path = self.url.split(['?', '#']).next().unwrap_or_default();
        let mut parts = path.rsplit('/');
        let mut after = parts.next()?;
        for part in parts {
            if PAGES.contains(&part) {
                return after.parse().ok().filter(|number| *number > 0);
            }
            after = part;
        }
        None
    }
}

/// How a pull request is identified at its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrPlace {
    /// By its number at a git host.
    Number(u64),
    /// By its branch: plain git has no pull requests, and the owner of the repository merges the branch.
    Branch,
}

impl PullRequest {
    /// How it is identified.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the host does not have it, or its URL has no number.
    pub fn place(&self) -> Result<PrPlace> {
        if self.progress.phase != PrPhase::Opened {
            return Err(Error::conflict("the pull request is not open yet, or was not opened"));
        }
        if self.told.url.is_empty() {
            return Ok(PrPlace::Branch);
        }
        self.told.number().map(PrPlace::Number).ok_or_else(|| {
            Error::conflict(
                "the address of the pull request names no number of it: the console cannot read it",
            )
        })
    }

    /// Its number at the host.
    ///
    /// # Errors
    /// Same as [`PullRequest::place`]; and for a branch of plain git.
    pub fn number(&self) -> Result<u64> {
        match self.place()? {
            PrPlace::Number(number) => Ok(number),
            PrPlace::Branch => Err(Error::conflict(format!(
                "plain git has no pull requests, and {} is a branch there: merge it into {}, or delete it, with git, and the console sees so",
                self.told.branch,
                self.life.facts.base.as_deref().unwrap_or("the branch that it goes to"),
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pull_request::PrStatus;

    #[test]
    fn an_address_holds_the_number() {
        for (url, expected) in [
            ("https://github.com/acme/shop/pull/12", Some(12)),
            ("https://git.example.com/acme/pulls/7", Some(7)),
            ("https://git.example.com/pull/pulls/pulls/7", Some(7)),
            ("https://gitlab.com/acme/team/shop/-/merge_requests/3#note_1", Some(3)),
            ("https://bitbucket.org/acme/shop/pull-requests/4", Some(4)),
            ("https://bb.example.com/projects/A/repos/shop/pull-requests/5/overview", Some(5)),
            ("https://dev.azure.com/acme/shop/_git/web/pullrequest/6", Some(6)),
            ("https://github.com/acme/shop/pull/0", None),
            ("https://github.com/acme/shop/pull/x", None),
            ("https://github.com/acme/shop/issues/3", None),
            ("", None),
        ] {
            let told = HostPullRequest {
                url: url.to_owned(),
                repository: "acme/shop".to_owned(),
                branch: "a".to_owned(),
                title: "A".to_owned(),
                status: PrStatus::Open,
                labels: Vec::new(),
            };
            assert_eq!(told.number(), expected, "{url}");
        }
    }

    #[test]
    fn what_people_write_at_a_host_keeps_nothing_from_being_recorded() {
        let odd = HostPullRequest {
            url: "https://github.com/acme/shop/pull/1".to_owned(),
            repository: "acme/shop".to_owned(),
            branch: "a\nb".to_owned(),
            title: format!("\u{1b}[2J{}", "ä".repeat(MAX_LINE)),
            status: PrStatus::Merged,
            labels: vec!["x\ty".to_owned(); MAX_LABELS + 1],
        };
        assert!(odd.check().is_err());
        let tidied = odd.tidied();
        tidied.check().unwrap();
        assert_eq!((tidied.branch.as_str(), tidied.labels[0].as_str()), ("a b", "x y"));
        assert!(tidied.title.starts_with("[2Jä") && tidied.title.len() <= MAX_LINE, "{}", tidied.title);
        let empty = HostPullRequest { title: "\n".to_owned(), ..tidied.clone() }.tidied();
        assert_eq!((empty.title.as_str(), empty.status), ("-", PrStatus::Merged));
    }

    #[test]
    fn texts_say_what_they_are_about() {
        let service = |cluster: &str, name: &str| -> Option<(Handle, KubeName)> {
            Some((cluster.parse().unwrap(), name.parse().unwrap()))
        };
        let of = |body: &str| PrMarkers::of("Add it", body);
        assert_eq!(of("Plural Service: blue/shop").service, service("blue", "shop"));
        assert_eq!(of("x\n- **plural service:** `blue/shop`, and more").service, service("blue", "shop"));
        assert_eq!(
            of("Plural Service: blue/shop.\nPlural Service: red/web").service,
            service("blue", "shop")
        );
        assert_eq!(of("Plural Service: shop").service, None);
        assert_eq!(of("Plural Service: -x/../y").service, None);
        assert_eq!(of("Plural Stack: network_1").stack.as_deref(), Some("network_1"));
        assert_eq!(of("Plural Stack:").stack, None);
        assert_eq!(PrMarkers::of("Plural Cluster: blue", "").cluster, "blue".parse::<Handle>().ok());
        assert!(of("a service: blue/shop").is_empty());
        let late = format!("{}\nPlural Stack: late", "ä".repeat(MAX_TEXT));
        assert!(of(&late).is_empty(), "what nobody reads is not read");
    }

    #[test]
    fn the_worst_check_counts() {
        let state = |passed, failed, pending| PrChecks { passed, failed, pending, incomplete: false }.state();
        assert_eq!(state(0, 0, 0), PrCheckState::None);
        assert_eq!(state(2, 0, 0), PrCheckState::Passed);
        assert_eq!(state(2, 0, 1), PrCheckState::Pending);
        assert_eq!(state(2, 1, 1), PrCheckState::Failed);
        // Unread checks do not count as succeeded.
        let cut = |failed| PrChecks { passed: 2, failed, incomplete: true, ..PrChecks::default() }.state();
        assert_eq!((cut(0), cut(1)), (PrCheckState::Pending, PrCheckState::Failed));
    }
}
