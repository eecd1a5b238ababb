//! Governance of pull requests: a service of the operator's that confirms a commit before it is merged.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::address::{Address, Scheme};
use crate::error::{Error, Result};
use crate::ids::{PrGovernanceId, ProjectId, ScmConnectionId};
use crate::page::Keyed;
use crate::pull_request::PrStatus;
use crate::specs::Name;

/// The field of its address.
const URL: &str = "attributes.configuration.webhook.url";
/// The field of its secret.
const SECRET: &str = "attributes.configuration.webhook.secret";
/// The shortest secret that calls are signed with.
const SHORTEST_SECRET: usize = 16;
/// The longest.
const LONGEST_SECRET: usize = 1024;
/// Characters of what it said that are kept.
const MAX_SAID: usize = 300;

/// Who confirms pull requests, and with whose account they are then approved. Its secret is sealed in the store and never part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrGovernance {
    /// Id.
    pub id: PrGovernanceId,
    /// Where it belongs; to the whole installation without one. It stays there.
    pub project_id: Option<ProjectId>,
    /// The connection whose account approves.
    pub connection_id: ScmConnectionId,
    /// Unique in the installation. It stays so.
    pub name: Name,
    /// The address that `/v1/open`, `/v1/confirm` and `/v1/close` are below.
    pub url: String,
    /// It has a secret that calls are signed with.
    pub is_signed: bool,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

impl Keyed for PrGovernance {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// What a governance is made from, or becomes. Its secret travels beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPrGovernance {
    /// Unique in the installation.
    pub name: Name,
    /// Where it belongs; by default where its connection does.
    pub project_id: Option<ProjectId>,
    /// The connection whose account approves.
    pub connection_id: ScmConnectionId,
    /// Its address; what there is stays without one.
    pub url: Option<String>,
}

/// The address of a governance, as it is kept.
///
/// # Errors
/// [`Error::Invalid`] for what is no address over https or http, or has a user in it.
pub fn governance_url(text: &str) -> Result<String> {
    let parsed = text.trim().trim_end_matches('/').parse::<Address>();
    let address = parsed.map_err(|error| Error::invalid(URL, error.to_string()))?;
    let is_web = match address.scheme() {
        Scheme::Https | Scheme::Http => true,
        Scheme::Ssh | Scheme::Oci | Scheme::OciHttp | Scheme::File => false,
    };
    if !is_web || address.user().is_some() {
        return Err(Error::invalid(
            URL,
            "must be https://HOST, perhaps with a path, and without a user: calls are signed with the secret",
        ));
    }
    Ok(address.to_string())
}

/// Checks the secret of a governance.
///
/// # Errors
/// [`Error::Invalid`] for one that is too short or too long.
pub fn check_governance_secret(secret: &str) -> Result<()> {
    if !(SHORTEST_SECRET..=LONGEST_SECRET).contains(&secret.len()) {
        let reason = format!("must have {SHORTEST_SECRET} to {LONGEST_SECRET} characters");
        return Err(Error::invalid(SECRET, reason));
    }
    Ok(())
}

/// What the console does next for a pull request with a governance, or has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PrReviewPhase {
    /// It tells the governance of the head.
    #[default]
    Open,
    /// It asks the governance to confirm the head.
    Confirm,
    /// The head is confirmed: it approves the pull request at its host.
    Approve,
    /// The head is confirmed, and approved at the host.
    Approved,
    /// The pull request is over: it tells the governance so.
    Close,
    /// The governance was told.
    Closed,
}

/// How a pull request stands with its governance. All of it is about one commit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrReview {
    /// What is next.
    pub phase: PrReviewPhase,
    /// The head commit that this is about.
    pub head: Option<String>,
    /// The branch that it was to go to then, where the host tells that.
    pub base: Option<String>,
    /// The commit that the governance confirmed.
    pub confirmed: Option<String>,
    /// How often the present phase was tried in vain.
    pub attempts: u32,
    /// The governance said no, for now.
    pub refused: bool,
    /// What it said, or why it was not heard.
    pub said: Option<String>,
}

impl PrReview {
    /// What becomes of this once the host tells of this status, head and branch that it goes to; nothing where it stays. A confirmation is of
    /// one commit for one branch: another head, or the same for another branch, is confirmed anew.
    #[must_use]
    pub fn seen(&self, status: PrStatus, head: Option<&str>, base: Option<&str>) -> Option<Self> {
        let is_over = matches!(self.phase, PrReviewPhase::Close | PrReviewPhase::Closed);
        match status {
            PrStatus::Open => {
                let is_news = is_over || self.head.as_deref() != head || !self.is_for(base);
                (is_news && head.is_some()).then(|| Self {
                    head: head.map(str::to_owned),
                    base: base.map(str::to_owned),
                    ..Self::default()
                })
            }
            PrStatus::Merged | PrStatus::Closed => {
                let phase = if self.head.is_some() { PrReviewPhase::Close } else { PrReviewPhase::Closed };
                (!is_over).then(|| Self { phase, attempts: 0, refused: false, said: None, ..self.clone() })
            }
        }
    }

    /// Whether it is about this branch, as far as that is known.
    pub fn is_for(&self, base: Option<&str>) -> bool {
        self.base.as_deref().is_none_or(|about| base.is_none_or(|base| base == about))
    }

    /// The next phase.
    #[must_use]
    pub fn next(&self, phase: PrReviewPhase) -> Self {
        Self { phase, attempts: 0, refused: false, said: None, ..self.clone() }
    }

    /// The same after an attempt in vain.
    #[must_use]
    pub fn again(&self, refused: bool, said: Option<&str>) -> Self {
        let attempts = self.attempts.saturating_add(1);
        Self { attempts, refused, said: said.map(as_said), ..self.clone() }
    }

    /// What is waited for before this commit may be merged; nothing where the governance confirmed it.
    pub fn waits_for(&self, head: &str) -> Option<String> {
        if self.confirmed.as_deref().is_some_and(|confirmed| confirmed.eq_ignore_ascii_case(head)) {
            return None;
        }
        let is_of_head = self.head.as_deref().is_some_and(|about| about.eq_ignore_ascii_case(head));
        if !is_of_head {
            return Some("it was not asked about that commit yet".to_owned());
        }
        let mut text = match self.phase {
            PrReviewPhase::Open => "it was not reached yet".to_owned(),
            PrReviewPhase::Confirm if self.refused => "it says no".to_owned(),
            PrReviewPhase::Confirm | PrReviewPhase::Approve | PrReviewPhase::Approved => {
                "it did not confirm that commit yet".to_owned()
            }
            PrReviewPhase::Close | PrReviewPhase::Closed => "the pull request is over".to_owned(),
        };
        if let Some(said) = &self.said {
            text.push_str(": ");
            text.push_str(said);
        }
        Some(text)
    }
}

/// The governance of a pull request, and how it stands with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrGoverned {
    /// The governance, from the automation that opened it.
    pub governance_id: PrGovernanceId,
    /// How it stands.
    pub review: PrReview,
}

impl PrGoverned {
    /// Of a pull request that is not opened yet.
    pub fn new(governance_id: PrGovernanceId) -> Self {
        Self { governance_id, review: PrReview::default() }
    }
}

/// A text of others as one short line.
fn as_said(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_SAID).collect();
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn confirmed(head: &str) -> PrReview {
        PrReview {
            phase: PrReviewPhase::Approved,
            head: Some(head.to_owned()),
            confirmed: Some(head.to_owned()),
            ..PrReview::default()
        }
    }

    #[test]
    fn a_confirmation_is_of_one_commit() {
        let review = confirmed(A);
        assert_eq!(review.waits_for(A), None);
        assert_eq!(review.waits_for(&A.to_uppercase()), None);
        assert!(review.waits_for(B).unwrap().contains("not asked about that commit"));
        assert_eq!(review.seen(PrStatus::Open, Some(A), None), None);
        assert_eq!(review.seen(PrStatus::Open, None, None), None);
        let anew = review.seen(PrStatus::Open, Some(B), None).unwrap();
        assert_eq!((anew.phase, anew.confirmed.clone()), (PrReviewPhase::Open, None));
        assert!(anew.waits_for(B).is_some() && anew.waits_for(A).is_some());
    }

    #[test]
    fn a_confirmation_is_for_one_branch() {
        let review = PrReview { base: Some("main".to_owned()), ..confirmed(A) };
        assert_eq!(review.seen(PrStatus::Open, Some(A), Some("main")), None);
        assert_eq!(review.seen(PrStatus::Open, Some(A), None), None);
        let anew = review.seen(PrStatus::Open, Some(A), Some("production")).unwrap();
        assert_eq!((anew.phase, anew.confirmed.clone()), (PrReviewPhase::Open, None));
        assert_eq!(anew.base.as_deref(), Some("production"));
        assert!(anew.waits_for(A).is_some());
    }

    #[test]
    fn what_is_over_is_told_once_and_what_is_open_again_begins_anew() {
        let review = confirmed(A);
        let over = review.seen(PrStatus::Merged, Some(A), None).unwrap();
        assert_eq!(over.phase, PrReviewPhase::Close);
        assert_eq!(over.seen(PrStatus::Merged, Some(A), None), None);
        let closed = over.next(PrReviewPhase::Closed);
        assert_eq!(closed.seen(PrStatus::Closed, Some(A), None), None);
        assert_eq!(closed.seen(PrStatus::Open, Some(A), None).unwrap().phase, PrReviewPhase::Open);
        let never = PrReview::default().seen(PrStatus::Closed, None, None).unwrap();
        assert_eq!(never.phase, PrReviewPhase::Closed, "it was told nothing");
    }

    #[test]
    fn what_it_says_is_one_short_line() {
        let said = format!("no\n\u{1b}[2J{}", "x".repeat(1000));
        let review = confirmed(A).next(PrReviewPhase::Confirm).again(true, Some(&said));
        let kept = review.said.clone().unwrap();
        assert!(kept.starts_with("no  [2Jx") && kept.chars().count() <= MAX_SAID, "{kept}");
        assert_eq!((review.attempts, review.refused), (1, true));
    }

    #[test]
    fn an_address_is_of_the_web_and_has_no_user() {
        assert_eq!(governance_url("https://Gov.example.com/x/").unwrap(), "https://gov.example.com/x");
        for bad in
            ["", "gov.example.com", "ssh://git@gov.example.com/x", "https://ada:pw@gov.example.com", "/etc"]
        {
            assert!(governance_url(bad).is_err(), "{bad}");
        }
        assert!(check_governance_secret("short").is_err());
        assert!(check_governance_secret("0123456789abcdef").is_ok());
    }
}
