//! What a sync does, or would do: one line per object, in the order in which it happens.

use sha2::{Digest, Sha256};

use crate::{diff::FieldChange, inventory::Place, key::ObjectKey, phase::Phase};

/// What happens to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// It does not exist yet.
    Create,
    /// It differs.
    Change,
    /// It is as it should be: no request is made for it.
    Unchanged,
    /// It left the desired state.
    Prune,
    /// Another service owns it.
    Conflict,
    /// It cannot be applied now, or at all.
    Blocked,
    /// A hook that has not run as it is now.
    RunHook,
}

impl Action {
    /// The word for people and digests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Unchanged => "unchanged",
            Self::Prune => "prune",
            Self::Conflict => "conflict",
            Self::Blocked => "blocked",
            Self::RunHook => "run hook",
        }
    }
}

/// One object of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedObject {
    /// Which one.
    pub key: ObjectKey,
    /// In which version it is written; empty for one that goes.
    pub version: String,
    /// What happens to it.
    pub action: Action,
    /// In which phase.
    pub phase: Phase,
    /// In which wave.
    pub wave: i32,
    /// Why, where the action does not say it.
    pub why: String,
    /// What differs, where that was asked for.
    pub fields: Vec<FieldChange>,
    /// `path:line` in the artifact.
    pub location: String,
}

/// What a sync does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncPlan {
    /// Hex SHA-256 of everything below, as it was planned.
    pub digest: String,
    /// Everything but what is unchanged: applied first, in order, then pruned, in order.
    pub objects: Vec<PlannedObject>,
    /// Objects that are as they should be.
    pub unchanged: usize,
}

impl SyncPlan {
    /// Whether nothing would be written or deleted.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

/// An object that is owned and no longer wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Surplus {
    pub(crate) key: ObjectKey,
    pub(crate) place: Place,
    /// Why it stays for now.
    pub(crate) held: Option<String>,
}

/// Puts what was found out about each object in order.
pub(crate) fn plan(mut objects: Vec<PlannedObject>, mut surplus: Vec<Surplus>) -> SyncPlan {
    let all = objects.len();
    objects.retain(|object| object.action != Action::Unchanged);
    let unchanged = all - objects.len();
    objects.sort_by(|a, b| (a.phase, a.wave, &a.key).cmp(&(b.phase, b.wave, &b.key)));
    surplus.sort_by(|a, b| (b.place, &b.key).cmp(&(a.place, &a.key)));
    objects.extend(surplus.into_iter().map(|Surplus { key, place, held }| PlannedObject {
        key,
        version: String::new(),
        action: if held.is_some() { Action::Blocked } else { Action::Prune },
        phase: place.phase,
        wave: place.wave,
        why: held.unwrap_or_default(),
        fields: Vec::new(),
        location: String::new(),
    }));
    let mut digest = Sha256::new();
    for object in &objects {
        let PlannedObject { key, version, action, phase, wave, why, fields, location: _ } = object;
        digest.update(format!("{key}\0{version}\0{}\0{}\0{wave}\0{why}\0", action.as_str(), phase.as_str()));
        for FieldChange { path, before, after, .. } in fields {
            digest.update(format!("{path}\0{before:?}\0{after:?}\0"));
        }
    }
    SyncPlan { digest: hex::encode(digest.finalize()), objects, unchanged }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: &str, action: Action, phase: Phase, wave: i32) -> PlannedObject {
        PlannedObject {
            key: key.parse().unwrap(),
            version: "v1".to_owned(),
            action,
            phase,
            wave,
            why: String::new(),
            fields: Vec::new(),
            location: String::new(),
        }
    }

    #[test]
    fn applied_in_order_and_pruned_in_the_reverse() {
        let objects = vec![
            object("/Service/ns/s", Action::Create, Phase::Sync, 3),
            object("/ConfigMap/ns/c", Action::Unchanged, Phase::Sync, 1),
            object("batch/Job/ns/j", Action::RunHook, Phase::PreSync, 7),
            object("/ConfigMap/ns/a", Action::Change, Phase::Sync, -1),
        ];
        let gone = |key: &str, wave| Surplus {
            key: key.parse().unwrap(),
            place: Place { phase: Phase::Sync, wave },
            held: None,
        };
        let plan = plan(objects.clone(), vec![gone("/ConfigMap/ns/x", 1), gone("/Service/ns/y", 3)]);
        let names: Vec<&str> = plan.objects.iter().map(|object| object.key.name.as_str()).collect();
        assert_eq!(names, ["j", "a", "s", "y", "x"]);
        assert_eq!(plan.unchanged, 1);
        let same = super::plan(objects.clone(), vec![gone("/Service/ns/y", 3), gone("/ConfigMap/ns/x", 1)]);
        assert_eq!(plan.digest, same.digest);
        assert_ne!(plan.digest, super::plan(objects, Vec::new()).digest);
    }
}
