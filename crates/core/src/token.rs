//! Access tokens of users: what they reach, and which of them make others. Only a hash is kept; the text is shown once.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{ClusterId, ProjectId, TokenId, UserId};
use crate::page::Keyed;

/// How a user's token begins, so that scanners and people know what leaked.
pub const USER_TOKEN_PREFIX: &str = "console-";
/// How a cluster's token begins.
pub const DEPLOY_TOKEN_PREFIX: &str = "deploy-";

/// A session younger than this proves that its user typed the password a moment ago.
pub const FRESH_SESSION: TimeDelta = TimeDelta::minutes(10);
/// A token asked for this long at most is never refused: it ends with its parent if that ends sooner.
pub const SHORT_TOKEN: TimeDelta = TimeDelta::hours(1);
/// Scopes that one token may list.
const MAX_SCOPES: usize = 32;

/// One thing that a token reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenScope {
    /// Everything that its user reaches. Text: `*`.
    All,
    /// The Kubernetes API of every cluster that its user reaches, and nothing of the console itself. Text: `k8s:*`.
    EveryKubernetes,
    /// The Kubernetes API of one cluster. Text: `k8s:CLUSTER_ID`.
    Kubernetes(ClusterId),
    /// What there is in one project, and its contexts to write. Only the token of a run's actor has it, which the console makes and nobody
    /// asks for. Text: `run:PROJECT_ID`.
    Run(ProjectId),
}

impl fmt::Display for TokenScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::EveryKubernetes => f.write_str("k8s:*"),
            Self::Kubernetes(id) => write!(f, "k8s:{id}"),
            Self::Run(project) => write!(f, "run:{project}"),
        }
    }
}

impl FromStr for TokenScope {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            None if text == "*" => Ok(Self::All),
            Some(("k8s", "*")) => Ok(Self::EveryKubernetes),
            Some(("k8s", id)) => id.parse().map(Self::Kubernetes).map_err(|_| unknown()),
            _ => Err(unknown()),
        }
    }
}

fn unknown() -> Error {
    Error::invalid("scopes", "must be \"*\", \"k8s:*\" or \"k8s:\" and a cluster's id")
}

/// All that a token reaches; never empty. Its text is what stores keep: scopes separated by spaces, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenScopes(BTreeSet<TokenScope>);

impl TokenScopes {
    /// Everything that the user reaches.
    pub fn all() -> Self {
        Self(BTreeSet::from([TokenScope::All]))
    }

    /// These.
    ///
    /// # Errors
    /// [`Error::Invalid`] for none, or for more than 32.
    pub fn new(scopes: impl IntoIterator<Item = TokenScope>) -> Result<Self> {
        let scopes: BTreeSet<TokenScope> = scopes.into_iter().take(MAX_SCOPES + 1).collect();
        if scopes.is_empty() || scopes.len() > MAX_SCOPES {
            return Err(Error::invalid(
                "scopes",
                format!("must be between 1 and {MAX_SCOPES}; omit them for all"),
            ));
        }
        Ok(Self(scopes))
    }

    /// What the actor of a run reaches whose stack is in this project.
    pub fn of_run(project: ProjectId) -> Self {
        Self(BTreeSet::from([TokenScope::Run(project)]))
    }

    /// The project of the run, where it is that and nothing else.
    pub fn run_project(&self) -> Option<ProjectId> {
        let mut scopes = self.0.iter();
        match (scopes.next(), scopes.next()) {
            (Some(TokenScope::Run(project)), None) => Some(*project),
            (Some(_) | None, _) => None,
        }
    }

    /// Whether the token reaches the console's own API, as its user does.
    pub fn is_all(&self) -> bool {
        self.0.contains(&TokenScope::All)
    }

    /// Whether the token reaches the Kubernetes API of a cluster, if its user does.
    pub fn reaches(&self, cluster: ClusterId) -> bool {
        self.0.iter().any(|scope| match scope {
            TokenScope::All | TokenScope::EveryKubernetes => true,
            TokenScope::Kubernetes(id) => *id == cluster,
            TokenScope::Run(_) => false,
        })
    }

    /// Whether all of these are in `other`.
    pub fn within(&self, other: &Self) -> bool {
        self.0.iter().all(|scope| match scope {
            TokenScope::All => other.is_all(),
            TokenScope::EveryKubernetes => other.is_all() || other.0.contains(&TokenScope::EveryKubernetes),
            TokenScope::Kubernetes(id) => other.reaches(*id),
            TokenScope::Run(_) => other.is_all() || other.0.contains(scope),
        })
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = TokenScope> + '_ {
        self.0.iter().copied()
    }
}

impl fmt::Display for TokenScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scope) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{scope}")?;
        }
        Ok(())
    }
}

impl FromStr for TokenScopes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text.split_whitespace().map(str::parse).collect::<Result<Vec<_>>>()?)
    }
}

/// What is known of a token without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// Id; also accepted where a token is to be deleted.
    pub id: TokenId,
    /// Whose it is.
    pub user_id: UserId,
    /// The first characters behind the prefix, enough to tell tokens apart and useless to guess from.
    pub hint: String,
    /// Made by a login rather than on purpose.
    pub session: bool,
    /// What it reaches.
    pub scopes: TokenScopes,
    /// The token that it ends with.
    pub made_with: Option<TokenId>,
    /// No longer good from here on.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

impl Keyed for AccessToken {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// The token that a request came with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentedToken {
    /// Which.
    pub id: TokenId,
    /// What it reaches.
    pub scopes: TokenScopes,
    /// When it ends by itself.
    pub expires_at: Option<DateTime<Utc>>,
    /// When its bearer typed a password to get it; absent for tokens that were made with another one.
    pub signed_in_at: Option<DateTime<Utc>>,
    /// Who made it, of a service account's token.
    pub assumed_by: Option<String>,
}

impl PresentedToken {
    /// Whether its bearer typed the password a moment ago.
    pub fn is_fresh(&self, now: DateTime<Utc>) -> bool {
        // A session from the future is of a clock that was set back: it proves nothing.
        self.signed_in_at.is_some_and(|at| at <= now && now - at < FRESH_SESSION)
    }

    /// When a credential ends that is made with this token and not ended by its revocation, if `end` is asked for: not after
    /// this token, unless its bearer typed the password a moment ago.
    pub fn bound(&self, end: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
        match self.expires_at {
            Some(own) if !self.is_fresh(now) => end.min(own),
            Some(_) | None => end,
        }
    }
}

/// How a new token stands to the one that it is asked for with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issue {
    /// When it ends by itself.
    pub expires_at: Option<DateTime<Utc>>,
    /// The token that it ends with, whether that expires or is revoked.
    pub made_with: Option<TokenId>,
}

/// Decides whether a token of these scopes and this lifetime may be made by whoever presents `parent`.
///
/// A token that reaches and lasts no longer than its parent needs nothing more, and ends with it. One that outlasts its
/// parent stands for itself, and needs proof of the person: a fresh session, or the password (`proven`). Without a
/// parent the person was recognised by other means.
///
/// # Errors
/// [`Error::Forbidden`] for one that reaches more than its parent, or that lacks the proof; [`Error::Invalid`] for a
/// lifetime that is none.
pub fn issue_token(
    parent: Option<&PresentedToken>,
    scopes: &TokenScopes,
    valid_for: Option<TimeDelta>,
    proven: bool,
    now: DateTime<Utc>,
) -> Result<Issue> {
    let expires_at = match valid_for {
        None => None,
        Some(time) if time <= TimeDelta::zero() => {
            return Err(Error::invalid("expiry", "must lie in the future"));
        }
        Some(time) => Some(
            now.checked_add_signed(time)
                .ok_or_else(|| Error::invalid("expiry", "lies too far in the future"))?,
        ),
    };
    let Some(parent) = parent else { return Ok(Issue { expires_at, made_with: None }) };
    if !scopes.within(&parent.scopes) {
        return Err(Error::forbidden(format!(
            "a new token cannot have more scopes than the current one ({})",
            parent.scopes
        )));
    }
    let outlives = match (expires_at, parent.expires_at) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(own), Some(parents)) => own > parents,
    };
    let is_short = valid_for.is_some_and(|time| time <= SHORT_TOKEN);
    if !outlives || is_short {
        let expires_at = [expires_at, parent.expires_at].into_iter().flatten().min();
        return Ok(Issue { expires_at, made_with: Some(parent.id) });
    }
    if proven || parent.is_fresh(now) {
        return Ok(Issue { expires_at, made_with: None });
    }
    Err(unproven("a token that outlasts the one that it is made with"))
}

/// The refusal of something that only the person themselves may do, not whoever holds a token of theirs. It names the argument:
/// clients ask for the password where they find it.
pub fn unproven(what: &str) -> Error {
    Error::forbidden(format!(
        "{what} needs your current password (currentPassword), or a session that you signed in to less than {} minutes ago",
        FRESH_SESSION.num_minutes()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).unwrap()
    }

    fn parent(scopes: &str, ends_in: Option<TimeDelta>, signed_in: Option<TimeDelta>) -> PresentedToken {
        PresentedToken {
            id: TokenId::new(),
            scopes: scopes.parse().unwrap(),
            expires_at: ends_in.map(|time| now() + time),
            signed_in_at: signed_in.map(|time| now() - time),
            assumed_by: None,
        }
    }

    #[test]
    fn scopes_are_read_and_written() {
        let id = ClusterId::new();
        for text in ["*", "k8s:*", &format!("k8s:{id}")] {
            assert_eq!(text.parse::<TokenScopes>().unwrap().to_string(), text);
        }
        for text in ["", " ", "**", "k8s", "k8s:", "k8s:blue", "K8S:*", "gql", "k8s:*:*", "*,k8s:*"] {
            assert!(text.parse::<TokenScopes>().is_err(), "{text:?}");
        }
        assert!(TokenScopes::new((0..33).map(|_| TokenScope::Kubernetes(ClusterId::new()))).is_err());
        assert!(TokenScopes::new([]).is_err());
    }

    #[test]
    fn what_scopes_reach() {
        let (blue, red) = (ClusterId::new(), ClusterId::new());
        let scopes = |text: &str| text.parse::<TokenScopes>().unwrap();
        let (all, every, one) = (scopes("*"), scopes("k8s:*"), scopes(&format!("k8s:{blue}")));
        for (scopes, is_all, reaches) in [(&all, true, true), (&every, false, true), (&one, false, false)] {
            assert_eq!((scopes.is_all(), scopes.reaches(blue), scopes.reaches(red)), (is_all, true, reaches));
        }
        assert!(one.within(&every) && every.within(&all) && one.within(&all) && all.within(&all));
        assert!(!all.within(&every) && !every.within(&one) && !scopes(&format!("k8s:{red}")).within(&one));
        // One wide scope among narrow ones is enough to be too wide.
        assert!(!scopes(&format!("k8s:{blue} k8s:{red}")).within(&one));
    }

    #[test]
    fn no_token_outlives_or_outscopes_its_parent() {
        let (all, every) = (TokenScopes::all(), "k8s:*".parse::<TokenScopes>().unwrap());
        let (minute, hour, month) = (TimeDelta::minutes(1), TimeDelta::hours(1), TimeDelta::days(30));
        let dying = parent("*", Some(minute), None);
        // Short ones are cut; nothing lasting comes of it, however it is asked for.
        for wish in [TimeDelta::seconds(1), minute, hour] {
            let issue = issue_token(Some(&dying), &all, Some(wish), false, now()).unwrap();
            assert_eq!(issue.made_with, Some(dying.id));
            assert_eq!(issue.expires_at, Some(now() + wish.min(minute)));
        }
        for wish in
            [Some(hour + TimeDelta::milliseconds(1)), Some(month), Some(TimeDelta::days(36_500)), None]
        {
            let refused = issue_token(Some(&dying), &all, wish, false, now()).unwrap_err();
            assert!(refused.to_string().contains("currentPassword"), "{refused}");
            assert_eq!(issue_token(Some(&dying), &all, wish, true, now()).unwrap().made_with, None);
        }
        // One without an end makes what ends with it; a second one without an end only for its owner.
        let lasting = parent("*", None, None);
        let issue = issue_token(Some(&lasting), &all, Some(month), false, now()).unwrap();
        assert_eq!((issue.made_with, issue.expires_at), (Some(lasting.id), Some(now() + month)));
        assert!(issue_token(Some(&lasting), &all, None, false, now()).is_err());
        // A narrow one makes nothing wide, with the password or without.
        let narrow = parent("k8s:*", None, None);
        for proven in [false, true] {
            assert!(issue_token(Some(&narrow), &all, Some(minute), proven, now()).is_err());
        }
        assert!(issue_token(Some(&narrow), &every, Some(minute), false, now()).is_ok());
        for wish in [TimeDelta::zero(), -hour, TimeDelta::MAX] {
            assert!(issue_token(None, &all, Some(wish), true, now()).is_err(), "{wish}");
        }
    }

    #[test]
    fn what_is_made_with_a_token_ends_with_it_or_before() {
        let (minute, hour) = (TimeDelta::minutes(1), TimeDelta::hours(1));
        for (token, asked, expected) in [
            (parent("*", Some(minute), None), hour, minute),
            (parent("*", Some(hour), None), minute, minute),
            (parent("*", None, None), hour, hour),
            (parent("*", Some(minute), Some(minute)), hour, hour),
            (parent("*", Some(minute), Some(TimeDelta::minutes(10))), hour, minute),
            (parent("*", Some(minute), Some(-minute)), hour, minute),
        ] {
            assert_eq!(token.bound(now() + asked, now()), now() + expected, "{token:?}");
        }
    }

    #[test]
    fn only_a_session_of_a_moment_ago_is_fresh() {
        let minutes = TimeDelta::minutes;
        for (ago, fresh) in [
            (minutes(0), true),
            (minutes(9), true),
            (minutes(10), false),
            (minutes(600), false),
            (minutes(-1), false),
        ] {
            let session = parent("*", Some(TimeDelta::hours(24)), Some(ago));
            assert_eq!(session.is_fresh(now()), fresh, "{ago}");
            assert_eq!(
                issue_token(Some(&session), &TokenScopes::all(), None, false, now()).is_ok(),
                fresh,
                "{ago}"
            );
        }
        assert!(!parent("*", None, None).is_fresh(now()));
    }
}
