//! How a service is synced: what is compared, when, how far, and with whose rights.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::service_account::ServiceAccount;

/// Normalizers of one service at most.
const MAX_NORMALIZERS: usize = 100;
/// Pointers or managers of one normalizer at most.
const MAX_OF_ONE: usize = 100;
/// Bytes of one pattern, pointer or manager at most.
const MAX_TEXT: usize = 512;
/// The longest time that can be asked for, in seconds: a week.
const MAX_SECONDS: u32 = 7 * 24 * 3600;

/// Fields that are not compared. An absent name, kind or namespace matches all; `*` stands for any
/// run of characters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiffNormalizer {
    /// Pattern of names.
    pub name: Option<String>,
    /// Pattern of kinds.
    pub kind: Option<String>,
    /// Pattern of namespaces.
    pub namespace: Option<String>,
    /// Fields, as RFC 6901; a part `*` is every key or element.
    pub json_pointers: Vec<String>,
    /// Send the live value instead of leaving the field out.
    pub backfill: bool,
    /// Everything that one of these field managers owns on the live object.
    pub managers: Vec<String>,
}

impl DiffNormalizer {
    /// Checks patterns and pointers.
    ///
    /// # Errors
    /// [`Error::Invalid`] for one that matches no field, or a pointer that is none.
    pub fn check(&self) -> Result<()> {
        let Self { name, kind, namespace, json_pointers, backfill: _, managers } = self;
        let field = "syncConfig.diffNormalizers";
        if json_pointers.is_empty() && managers.is_empty() {
            return Err(Error::invalid(field, "each must name jsonPointers or managers"));
        }
        if json_pointers.len() > MAX_OF_ONE || managers.len() > MAX_OF_ONE {
            return Err(Error::invalid(field, format!("one must not name more than {MAX_OF_ONE} fields")));
        }
        let texts = [name, kind, namespace].into_iter().flatten().chain(json_pointers).chain(managers);
        for text in texts {
            if text.len() > MAX_TEXT || text.chars().any(char::is_control) {
                return Err(Error::invalid(
                    field,
                    format!("a text must not be longer than {MAX_TEXT} bytes"),
                ));
            }
        }
        for pointer in json_pointers {
            let escapes = pointer.split('~').skip(1).all(|part| part.starts_with(['0', '1']));
            if !pointer.starts_with('/') || pointer.len() == 1 || !escapes {
                return Err(Error::invalid(
                    field,
                    format!("{pointer:?} is no JSON pointer such as /spec/replicas"),
                ));
            }
        }
        if managers.iter().any(String::is_empty) {
            return Err(Error::invalid(field, "a manager must have a name"));
        }
        Ok(())
    }
}

/// When a service is synced, and how far a sync goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one switch that a person sets")]
pub struct SyncPolicy {
    /// A new revision waits until somebody asks for it.
    pub manual: bool,
    /// What left git is deleted without being asked for.
    pub prune: bool,
    /// Foreign changes are put right.
    pub self_heal: bool,
    /// A wave waits for the health of the one before.
    pub wave_wait: bool,
    /// How long a wave may take to become healthy; 10 minutes when absent.
    pub wave_timeout_seconds: Option<u32>,
    /// How often a sync that failed is tried again before it waits for a change; without limit when absent.
    pub retry_limit: Option<u32>,
    /// First wait before another try; the agent's own when absent.
    pub retry_seconds: Option<u32>,
    /// Longest wait before another try.
    pub retry_max_seconds: Option<u32>,
    /// Share of the service, in percent, whose deletion needs no approval; 20 when absent.
    pub prune_percent: Option<u32>,
    /// Number of objects whose deletion needs no approval, where that is more; 10 when absent.
    pub prune_objects: Option<u32>,
}

impl Default for SyncPolicy {
    fn default() -> Self {
        Self {
            manual: false,
            prune: true,
            self_heal: true,
            wave_wait: true,
            wave_timeout_seconds: None,
            retry_limit: None,
            retry_seconds: None,
            retry_max_seconds: None,
            prune_percent: None,
            prune_objects: None,
        }
    }
}

impl SyncPolicy {
    /// Checks times and budgets.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a number that means nothing.
    pub fn check(&self) -> Result<()> {
        let Self {
            manual: _,
            prune: _,
            self_heal: _,
            wave_wait: _,
            wave_timeout_seconds,
            retry_limit,
            retry_seconds,
            retry_max_seconds,
            prune_percent,
            prune_objects,
        } = self;
        for (field, value, most) in [
            ("syncConfig.policy.waveTimeout", wave_timeout_seconds, MAX_SECONDS),
            ("syncConfig.policy.retryWait", retry_seconds, MAX_SECONDS),
            ("syncConfig.policy.retryMaxWait", retry_max_seconds, MAX_SECONDS),
            ("syncConfig.policy.retryLimit", retry_limit, 1000),
            ("syncConfig.policy.prunePercent", prune_percent, 100),
            ("syncConfig.policy.pruneObjects", prune_objects, 100_000),
        ] {
            if value.is_some_and(|value| value == 0 || value > most) {
                return Err(Error::invalid(
                    field,
                    format!("must be from 1 to {most}; leave it out for none"),
                ));
            }
        }
        if retry_max_seconds.is_some() && retry_seconds.is_none() {
            return Err(Error::invalid("syncConfig.policy.retryMaxWait", "needs a retryWait to begin with"));
        }
        Ok(())
    }
}

/// Checks everything that a sync config may say beside its switches.
pub(crate) fn check(
    normalizers: &[DiffNormalizer],
    policy: &SyncPolicy,
    service_account: Option<&str>,
) -> Result<()> {
    if normalizers.len() > MAX_NORMALIZERS {
        return Err(Error::invalid(
            "syncConfig.diffNormalizers",
            format!("must not be more than {MAX_NORMALIZERS}"),
        ));
    }
    normalizers.iter().try_for_each(DiffNormalizer::check)?;
    policy.check()?;
    let Some(account) = service_account else { return Ok(()) };
    ServiceAccount::parse(account, "own").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_nothing_is_refused() {
        let ignore = |pointer: &str| DiffNormalizer {
            json_pointers: vec![pointer.to_owned()],
            ..DiffNormalizer::default()
        };
        for pointer in ["/spec/replicas", "/metadata/annotations/a~1b", "/spec/*/image", "/a//b"] {
            ignore(pointer).check().unwrap();
        }
        for pointer in ["", "/", "spec/replicas", "$.spec", "/a~2", "/a~"] {
            assert!(ignore(pointer).check().is_err(), "{pointer}");
        }
        assert!(DiffNormalizer::default().check().is_err());
        let managers = DiffNormalizer { managers: vec!["istiod".to_owned()], ..DiffNormalizer::default() };
        managers.check().unwrap();

        let policy = SyncPolicy::default();
        policy.check().unwrap();
        assert!(SyncPolicy { prune_percent: Some(0), ..policy.clone() }.check().is_err());
        assert!(SyncPolicy { prune_percent: Some(101), ..policy.clone() }.check().is_err());
        assert!(SyncPolicy { retry_max_seconds: Some(5), ..policy.clone() }.check().is_err());

        for (account, good) in [("deployer", true), ("ci/deployer", true), ("", false), ("a/b/c", false)] {
            assert_eq!(check(&[], &policy, Some(account)).is_ok(), good, "{account}");
        }
        assert!(check(&[], &policy, Some("system:admin")).is_err());
    }
}
