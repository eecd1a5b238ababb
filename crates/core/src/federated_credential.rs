//! Federated credentials: whose tokens stand for a service account. A CI system or a cluster signs a token for a job; who has one
//! that fits exchanges it for a short token of the account ([RFC 8693](https://www.rfc-editor.org/rfc/rfc8693)).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::identity_provider::Issuer;
use crate::ids::{ClusterId, FederatedCredentialId, MachineAccountId};
use crate::page::Keyed;
use crate::pattern;
use crate::token::TokenScopes;

/// Credentials that one service account may have.
pub const MOST: u64 = 20;
/// Claims that one credential may ask for.
const MOST_CLAIMS: usize = 20;
/// Bytes of an audience, a claim or a pattern.
pub const LONGEST: usize = 512;
/// What no issuer says of anybody: a pattern that fits it fits everybody.
const NOBODY: &str = "\u{1}nobody\u{1}";

/// Whose tokens stand for a service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederatedCredential {
    /// Id.
    pub id: FederatedCredentialId,
    /// Of which account.
    pub account: MachineAccountId,
    /// Who signs the tokens.
    pub issuer: TokenIssuer,
    /// Which tokens of theirs, and what for.
    pub terms: FederationTerms,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Who signs tokens that stand for a service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenIssuer {
    /// An issuer that the console asks for its keys, as `iss` says it.
    Address(Issuer),
    /// A cluster, for its service accounts. What its agent reports counts: nothing else does, and for no other cluster.
    Cluster {
        /// Which.
        id: ClusterId,
        /// The issuer that the agent last reported.
        reported: Option<String>,
    },
}

impl TokenIssuer {
    /// What `iss` must be; absent as long as a cluster reports none.
    pub fn said(&self) -> Option<&str> {
        match self {
            Self::Address(issuer) => Some(issuer.as_str()),
            Self::Cluster { id: _, reported } => reported.as_deref(),
        }
    }
}

/// What a token must say, and what it is exchanged for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederationTerms {
    /// `aud`: exactly this, and nothing besides.
    pub audience: String,
    /// Claims and what they must be, from end to end; `*` stands for any run of characters. `sub` is always among them.
    pub claims: BTreeMap<String, String>,
    /// What the account's token reaches.
    pub scopes: TokenScopes,
}

impl FederationTerms {
    /// The same, when a credential can have them.
    ///
    /// # Errors
    /// [`Error::Invalid`], also for a subject that everybody has.
    pub fn checked(self) -> Result<Self> {
        let Self { audience, claims, .. } = &self;
        text("attributes.audience", audience)?;
        if claims.len() > MOST_CLAIMS {
            return Err(Error::invalid(
                "attributes.claimsLike",
                format!("must be at most {MOST_CLAIMS} claims"),
            ));
        }
        for (claim, wanted) in claims {
            text("attributes.claimsLike", claim)?;
            text("attributes.claimsLike", wanted)?;
        }
        let Some(subject) = claims.get("sub") else {
            let told = "must be given, here or as \"sub\" in claimsLike: else every token of the issuer fits";
            return Err(Error::invalid("attributes.subject", told));
        };
        if pattern::matches(subject, NOBODY) {
            let told = "must not fit every subject: an issuer signs tokens for others, too";
            return Err(Error::invalid("attributes.subject", told));
        }
        Ok(self)
    }
}

fn text(field: &'static str, text: &str) -> Result<()> {
    if text.is_empty() || text.len() > LONGEST || text.chars().any(char::is_control) {
        return Err(Error::invalid(field, format!("must have between 1 and {LONGEST} printable bytes")));
    }
    Ok(())
}

impl FederatedCredential {
    /// Whether a token that says this stands for the account: each claim is a text that its pattern fits. Issuer, audience, time and
    /// signature were verified before.
    pub fn fits(&self, said: &Map<String, Value>) -> bool {
        let mut wanted = self.terms.claims.iter();
        self.terms.claims.contains_key("sub")
            && wanted.all(|(claim, wanted)| match said.get(claim) {
                Some(Value::String(text)) => pattern::matches(wanted, text),
                Some(Value::Bool(flag)) => pattern::matches(wanted, &flag.to_string()),
                Some(Value::Number(number)) => pattern::matches(wanted, &number.to_string()),
                Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => false,
            })
    }
}

impl Keyed for FederatedCredential {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn terms(claims: &[(&str, &str)]) -> FederationTerms {
        FederationTerms {
            audience: "https://plural.example.com".into(),
            claims: claims.iter().map(|(claim, wanted)| ((*claim).into(), (*wanted).into())).collect(),
            scopes: TokenScopes::all(),
        }
    }

    #[test]
    fn a_subject_is_always_asked_for_and_never_everybodys() {
        for (claims, is_good) in [
            (&[("sub", "repo:acme/shop:ref:refs/heads/main")][..], true),
            (&[("sub", "repo:acme/*"), ("environment", "*")], true),
            (&[], false),
            (&[("environment", "production")], false),
            (&[("sub", "*")], false),
            (&[("sub", "**")], false),
            (&[("sub", "")], false),
            (&[("sub", "a\nb")], false),
        ] {
            assert_eq!(terms(claims).checked().is_ok(), is_good, "{claims:?}");
        }
    }

    #[test]
    fn claims_fit_from_end_to_end() {
        let credential = |claims| FederatedCredential {
            id: FederatedCredentialId::new(),
            account: MachineAccountId::new(),
            issuer: TokenIssuer::Address("https://ci.example.com".parse().unwrap()),
            terms: terms(claims),
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        };
        let said = json!({"sub": "repo:acme/shop:ref:refs/heads/main", "protected": true, "run": 7, "groups": ["a"]});
        let said = said.as_object().unwrap();
        for (claims, expected) in [
            (&[("sub", "repo:acme/shop:ref:refs/heads/main")][..], true),
            (&[("sub", "repo:acme/shop:*"), ("protected", "true"), ("run", "7")], true),
            // What merely contains the pattern is somebody else.
            (&[("sub", "acme/shop")], false),
            (&[("sub", "repo:acme/shop")], false),
            (&[("sub", "repo:acme/shop:*"), ("groups", "a")], false),
            (&[("sub", "repo:acme/shop:*"), ("missing", "*")], false),
            (&[("protected", "true")], false),
        ] {
            assert_eq!(credential(claims).fits(said), expected, "{claims:?}");
        }
    }
}
