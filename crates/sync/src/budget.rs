//! The circuit breaker of deletions: what a plan may delete without a person, and what waits for one.

use plural_core::ids::ServiceId;
use plural_core::specs::SyncPolicy;
use sha2::{Digest, Sha256};

use crate::{key::ObjectKey, order::is_precious};

/// Objects that a message names before it only counts.
const NAMED: usize = 5;

/// What is known of a service when something of it should be deleted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Objects of the service, wanted or not; one that moves to another namespace counts once.
    pub(crate) total: usize,
    /// Objects that go and are in another namespace now.
    pub(crate) moved: usize,
    /// It wants nothing any more.
    pub(crate) empties: bool,
}

/// Why the deletion of `going`, all of them live, waits for a person; `None` when it need not.
pub(crate) fn review(
    going: &[&ObjectKey],
    confirm: &[&ObjectKey],
    extent: Extent,
    policy: &SyncPolicy,
) -> Option<String> {
    if going.is_empty() {
        return None;
    }
    if extent.empties {
        return Some(format!(
            "the service renders to nothing, which would delete all it has ({}). Nothing was deleted: correct its \
             folder or files, delete the service, or approve it",
            names(going)
        ));
    }
    let precious: Vec<&ObjectKey> = going.iter().copied().filter(|key| is_precious(&key.kind)).collect();
    if !precious.is_empty() {
        return Some(format!(
            "git no longer holds {}, whose deletion loses data. Nothing was deleted: put it back, or approve it",
            names(&precious)
        ));
    }
    if !confirm.is_empty() {
        return Some(format!(
            "git no longer holds {}, which may only be deleted after approval. Nothing was deleted: put \
             it back, or approve it",
            names(confirm)
        ));
    }
    let share = (extent.total * policy.prune_percent() as usize).div_ceil(100);
    let allowed = share.max(policy.prune_objects() as usize).min(extent.total / 2);
    if going.len() > allowed && going.len() <= extent.moved {
        return Some(format!(
            "what git holds is in another namespace now, and {} of the {} objects of the service would be deleted in the \
             one before ({}). Nothing was deleted: go back to that namespace, or approve it once what they hold is \
             no longer needed",
            going.len(),
            extent.total,
            names(going)
        ));
    }
    if going.len() > allowed {
        return Some(format!(
            "git no longer holds {} of the {} objects of the service, more than the {allowed} that may be deleted \
             without asking ({}). Nothing was deleted: put them back, or approve it",
            going.len(),
            extent.total,
            names(going)
        ));
    }
    None
}

/// Stands for the deletion of exactly these objects of this service.
pub(crate) fn digest<'k>(service: ServiceId, keys: impl IntoIterator<Item = &'k ObjectKey>) -> String {
    let mut lines: Vec<String> = keys.into_iter().map(ToString::to_string).collect();
    lines.sort_unstable();
    hex::encode(Sha256::digest(format!("{service}\n{}", lines.join("\n"))))
}

pub(crate) fn names(keys: &[&ObjectKey]) -> String {
    let mut words: Vec<String> = keys.iter().take(NAMED).map(|key| key.words()).collect();
    if keys.len() > NAMED {
        words.push(format!("{} more", keys.len() - NAMED));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps(count: usize) -> Vec<ObjectKey> {
        (0..count).map(|number| format!("/ConfigMap/ns/m{number}").parse().unwrap()).collect()
    }

    fn halts(going: usize, total: usize) -> bool {
        let keys = maps(going);
        let keys: Vec<&ObjectKey> = keys.iter().collect();
        review(&keys, &[], Extent { total, moved: 0, empties: false }, &SyncPolicy::default()).is_some()
    }

    #[test]
    fn a_fifth_or_ten_but_never_more_than_half() {
        for (going, total, halt) in [
            (0, 0, false),
            (1, 2, false),
            (2, 3, true),
            (10, 20, false),
            (10, 19, true),
            (11, 30, true),
            (20, 100, false),
            (21, 100, true),
            (10, 40, false),
        ] {
            assert_eq!(halts(going, total), halt, "{going} of {total}");
        }
    }

    #[test]
    fn a_service_that_moves_waits_in_words_of_its_own() {
        let keys = maps(1);
        let keys: Vec<&ObjectKey> = keys.iter().collect();
        let of = |total, moved| {
            review(&keys, &[], Extent { total, moved, empties: false }, &SyncPolicy::default())
        };
        assert!(of(1, 1).unwrap().contains("in another namespace now"));
        assert!(of(1, 0).unwrap().contains("git no longer holds"));
        assert!(of(20, 1).is_none());
    }

    #[test]
    fn what_cannot_be_had_back_always_waits() {
        for key in [
            "/Namespace//a",
            "/PersistentVolumeClaim/ns/a",
            "apiextensions.k8s.io/CustomResourceDefinition//a",
        ] {
            let key: ObjectKey = key.parse().unwrap();
            let reason =
                review(&[&key], &[], Extent { total: 100, moved: 0, empties: false }, &SyncPolicy::default())
                    .unwrap();
            assert!(reason.contains("loses data") && reason.contains(&key.words()), "{reason}");
        }
        let key = &maps(1)[0];
        let extent = Extent { total: 100, moved: 0, empties: false };
        assert!(review(&[key], &[key], extent, &SyncPolicy::default()).unwrap().contains("after approval"));
        let reason =
            review(&[key], &[], Extent { total: 1, moved: 0, empties: true }, &SyncPolicy::default())
                .unwrap();
        assert!(reason.contains("renders to nothing"), "{reason}");
    }

    #[test]
    fn a_digest_stands_for_one_set_of_one_service() {
        let (service, keys) = (ServiceId::new(), maps(3));
        let backwards: Vec<&ObjectKey> = keys.iter().rev().collect();
        assert_eq!(digest(service, &keys), digest(service, backwards));
        assert_ne!(digest(service, &keys), digest(service, &keys[1..]));
        assert_ne!(digest(service, &keys), digest(ServiceId::new(), &keys));
    }
}
