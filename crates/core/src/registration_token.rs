//! Registration tokens: what machine images and provisioning tools carry to make clusters of one project, and nothing else.
//!
//! A token stands for whoever made it, but only for this: what they may not do any more, it does not do either.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::cluster::check_tags;
use crate::error::{Error, Result};
use crate::ids::{ProjectId, RegistrationTokenId, TokenId, UserId};
use crate::name::{Handle, Name};
use crate::page::Keyed;

/// How a registration token begins, so that scanners and people know what leaked.
pub const REGISTRATION_TOKEN_PREFIX: &str = "register-";
/// Registration tokens that one project may have.
pub const MOST: u64 = 100;
/// How long one holds unless something else is asked for.
pub const HOLDS: TimeDelta = TimeDelta::days(30);
/// How long one may hold at most.
const HOLDS_MOST: TimeDelta = TimeDelta::days(366);
/// Clusters that one token may be limited to at most.
const LIMIT_MOST: u32 = 100_000;
/// Characters of what handles begin with.
const PREFIX_MOST: usize = 40;

/// What is known of a registration token without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationToken {
    /// Id.
    pub id: RegistrationTokenId,
    /// Where it makes clusters.
    pub project_id: ProjectId,
    /// In whose name: a user or a service account.
    pub user_id: UserId,
    /// For people.
    pub name: Option<Name>,
    /// The first characters behind the prefix, enough to tell tokens apart and useless to guess from.
    pub hint: String,
    /// What it gives to clusters, and to how many.
    pub terms: RegistrationTerms,
    /// Clusters that were made with it.
    pub uses: u32,
    /// When the last of them was made.
    pub last_used_at: Option<DateTime<Utc>>,
    /// No longer good from here on.
    pub expires_at: DateTime<Utc>,
    /// The token that it ends with.
    pub made_with: Option<TokenId>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// What a registration token gives to clusters, and to how many.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistrationTerms {
    /// Clusters that it makes at most.
    pub limit: Option<u32>,
    /// How their handles begin.
    pub prefix: Option<String>,
    /// Tags that they get.
    pub tags: BTreeMap<String, String>,
}

/// What a new registration token is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRegistrationToken {
    /// Where it makes clusters.
    pub project_id: ProjectId,
    /// In whose name; the caller's when absent.
    pub user_id: Option<UserId>,
    /// For people.
    pub name: Option<Name>,
    /// How long it holds.
    pub valid_for: TimeDelta,
    /// The rest.
    pub terms: RegistrationTerms,
}

impl NewRegistrationToken {
    /// Whether there can be such a token.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn check(&self) -> Result<()> {
        let Self { project_id: _, user_id: _, name: _, valid_for, terms } = self;
        if *valid_for < TimeDelta::minutes(1) || *valid_for > HOLDS_MOST {
            return Err(Error::invalid("attributes.expiry", "must be between a minute and 366 days"));
        }
        terms.check()
    }
}

impl RegistrationTerms {
    fn check(&self) -> Result<()> {
        let Self { limit, prefix, tags } = self;
        if limit.is_some_and(|limit| limit == 0 || limit > LIMIT_MOST) {
            return Err(Error::invalid("attributes.limit", format!("must be between 1 and {LIMIT_MOST}")));
        }
        if let Some(prefix) = prefix
            && (prefix.len() > PREFIX_MOST || format!("{prefix}x").parse::<Handle>().is_err())
        {
            let told = format!("must be the beginning of a handle, at most {PREFIX_MOST} characters");
            return Err(Error::invalid("attributes.prefix", told));
        }
        check_tags("attributes.tags", tags)
    }

    /// The handle of a cluster that asks for this one: with the prefix before it, if that is not there.
    ///
    /// # Errors
    /// [`Error::Invalid`] for one that is too long then.
    pub fn handle(&self, asked: &Handle) -> Result<Handle> {
        match &self.prefix {
            Some(prefix) if !asked.as_str().starts_with(prefix.as_str()) => {
                format!("{prefix}{asked}").parse().map_err(|_| {
                    Error::invalid("attributes.handle", format!("is too long with {prefix:?} before it"))
                })
            }
            Some(_) | None => Ok(asked.clone()),
        }
    }

    /// What of the tags that a machine asks for is its own wish: those of the token it gets anyhow.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for another value of a tag that the token gives.
    pub fn wished(&self, asked: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
        let mut wished = BTreeMap::new();
        for (name, value) in asked {
            match self.tags.get(name) {
                None => {
                    wished.insert(name.clone(), value.clone());
                }
                Some(given) if given == value => {}
                Some(_) => {
                    return Err(Error::forbidden(format!(
                        "the registration token says the value of the tag {name:?}"
                    )));
                }
            }
        }
        Ok(wished)
    }
}

impl Keyed for RegistrationToken {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(valid_for: TimeDelta, terms: RegistrationTerms) -> NewRegistrationToken {
        NewRegistrationToken { project_id: ProjectId::new(), user_id: None, name: None, valid_for, terms }
    }

    #[test]
    fn terms_are_bounded() {
        let with = |limit: Option<u32>, prefix: Option<&str>| RegistrationTerms {
            limit,
            prefix: prefix.map(str::to_owned),
            tags: BTreeMap::new(),
        };
        let long = "a".repeat(PREFIX_MOST + 1);
        for (limit, prefix, is_good) in [
            (None, None, true),
            (Some(1), Some("edge-"), true),
            (Some(0), None, false),
            (Some(LIMIT_MOST + 1), None, false),
            (None, Some("Edge-"), false),
            (None, Some("-edge"), false),
            (None, Some("a b"), false),
            (None, Some(long.as_str()), false),
        ] {
            let checked = new(TimeDelta::days(1), with(limit, prefix)).check();
            assert_eq!(checked.is_ok(), is_good, "{limit:?} {prefix:?}: {checked:?}");
        }
        for (time, is_good) in [
            (TimeDelta::seconds(59), false),
            (TimeDelta::minutes(1), true),
            (TimeDelta::days(366), true),
            (TimeDelta::days(367), false),
        ] {
            assert_eq!(new(time, RegistrationTerms::default()).check().is_ok(), is_good, "{time}");
        }
    }

    #[test]
    fn handles_begin_with_the_prefix() {
        let terms = RegistrationTerms { prefix: Some("edge-".into()), ..RegistrationTerms::default() };
        let handle = |asked: &str| terms.handle(&asked.parse().unwrap()).map(|handle| handle.to_string());
        assert_eq!(handle("shop-7").unwrap(), "edge-shop-7");
        assert_eq!(handle("edge-shop-7").unwrap(), "edge-shop-7");
        assert!(handle(&"a".repeat(63)).is_err());
    }

    #[test]
    fn a_machine_does_not_change_the_tags_of_its_token() {
        let tags = |tags: &[(&str, &str)]| -> BTreeMap<String, String> {
            tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let terms = RegistrationTerms { tags: tags(&[("stage", "edge")]), ..RegistrationTerms::default() };
        assert_eq!(terms.wished(&tags(&[("stage", "edge"), ("shop", "7")])).unwrap(), tags(&[("shop", "7")]));
        assert!(terms.wished(&tags(&[("stage", "prod")])).is_err());
    }
}
