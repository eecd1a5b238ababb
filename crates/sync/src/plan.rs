//! What a sync does, or would do: one line per object, in the order in which it happens.

use std::collections::{BTreeMap, HashSet};

use sha2::{Digest, Sha256};

use crate::{
    diff::{Compared, FieldChange, Room},
    inventory::Place,
    key::ObjectKey,
    phase::Phase,
};

/// Objects of a plan of which fields are compared; those after them are counted wherever plans are told.
const MAX_PLANNED: usize = 1_000;

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
    /// What differs: of a plan that was asked for, and of what a sync changed. Of an object that such a plan creates, all that is rendered.
    pub fields: Vec<FieldChange>,
    /// Fields that differ and are not listed because there are too many.
    pub fields_omitted: usize,
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

    /// Where objects are changed that were there before, as many as are told.
    pub(crate) fn changes(&self) -> HashSet<ObjectKey> {
        let first = self.objects.iter().take(MAX_PLANNED);
        first.filter(|object| object.action == Action::Change).map(|object| object.key.clone()).collect()
    }

    /// Notes what a sync changed of its objects. A plan with other fields is another plan.
    pub(crate) fn note(&mut self, mut changed: BTreeMap<(Place, ObjectKey), Compared>) {
        if changed.is_empty() {
            return;
        }
        for object in self.objects.iter_mut().filter(|object| object.action == Action::Change) {
            let place = Place { phase: object.phase, wave: object.wave };
            if let Some(Compared { fields, omitted }) = changed.remove(&(place, object.key.clone())) {
                (object.fields, object.fields_omitted) = (fields, omitted);
            }
        }
        self.digest = digest(&self.objects);
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
        fields_omitted: 0,
        location: String::new(),
    }));
    let mut room = Room::default();
    // What changes comes first: all that is in new objects takes none of its room.
    let (new, known): (Vec<_>, Vec<_>) =
        objects.iter_mut().partition(|object| object.action == Action::Create);
    for object in known.into_iter().chain(new) {
        let fields = std::mem::take(&mut object.fields);
        let kept = room.keep(Compared { fields, omitted: object.fields_omitted });
        (object.fields, object.fields_omitted) = (kept.fields, kept.omitted);
    }
    SyncPlan { digest: digest(&objects), objects, unchanged }
}

fn digest(objects: &[PlannedObject]) -> String {
    let mut digest = Sha256::new();
    for object in objects {
        let PlannedObject { key, version, action, phase, wave, why, fields, fields_omitted: _, location: _ } =
            object;
        digest.update(format!("{key}\0{version}\0{}\0{}\0{wave}\0{why}\0", action.as_str(), phase.as_str()));
        for FieldChange { path, before, after, .. } in fields {
            digest.update(format!("{path}\0{before:?}\0{after:?}\0"));
        }
    }
    hex::encode(digest.finalize())
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
            fields_omitted: 0,
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

    #[test]
    fn what_was_changed_is_part_of_the_plan() {
        let fields = |values: usize, length: usize| Compared {
            fields: (0..values)
                .map(|at| FieldChange {
                    path: format!("/data/{at}"),
                    before: None,
                    after: Some("x".repeat(length)),
                    hidden: false,
                    manager: None,
                    written_ms: None,
                })
                .collect(),
            omitted: 1,
        };
        let objects = vec![
            object("/ConfigMap/ns/a", Action::Change, Phase::Sync, -1),
            object("/ConfigMap/ns/new", Action::Create, Phase::Sync, -1),
        ];
        let planned = plan(objects, Vec::new());
        assert_eq!(planned.changes().len(), 1, "only what was there before can be compared");
        let mut noted = planned.clone();
        let at = |name: &str, wave| -> (Place, ObjectKey) {
            (Place { phase: Phase::Sync, wave }, format!("/ConfigMap/ns/{name}").parse().unwrap())
        };
        let changed =
            [(at("a", -1), fields(2, 3)), (at("a", 7), fields(1, 1)), (at("new", -1), fields(1, 1))];
        noted.note(changed.into_iter().collect());
        assert_eq!((noted.objects[0].fields.len(), noted.objects[0].fields_omitted), (2, 1));
        assert_eq!(noted.objects[1].fields, []);
        assert_ne!(noted.digest, planned.digest, "it is news");
        let mut same = planned.clone();
        same.note(BTreeMap::new());
        assert_eq!(same, planned);

        // A plan has room for so much, and says what there is more.
        let wide: Vec<PlannedObject> = (0..40)
            .map(|number| {
                let line = object(&format!("/ConfigMap/ns/{number:02}"), Action::Change, Phase::Sync, -1);
                let Compared { fields, omitted } = fields(20, 1_500);
                PlannedObject { fields, fields_omitted: omitted, ..line }
            })
            .collect();
        let planned = plan(wide, Vec::new());
        let bytes: usize = planned.objects.iter().flat_map(|line| &line.fields).map(FieldChange::bytes).sum();
        assert!(bytes <= 256 * 1024 && bytes > 250 * 1024, "{bytes}");
        let listed: usize = planned.objects.iter().map(|line| line.fields.len()).sum();
        let omitted: usize = planned.objects.iter().map(|line| line.fields_omitted).sum();
        assert_eq!(listed + omitted, 40 * 21);
        assert!(planned.objects[0].fields.len() < 20, "no object takes the room of the others");

        // Objects that are new come before the one that changes, and leave it its room.
        let full = |key: &str, action, wave| {
            let Compared { fields, omitted } = fields(10, 1_500);
            PlannedObject { fields, fields_omitted: omitted, ..object(key, action, Phase::Sync, wave) }
        };
        let mut crowd: Vec<PlannedObject> =
            (0..40).map(|at| full(&format!("/ConfigMap/ns/{at:02}"), Action::Create, 0)).collect();
        crowd.push(full("/ConfigMap/ns/last", Action::Change, 1));
        let planned = plan(crowd, Vec::new());
        assert_eq!(planned.objects[40].fields.len(), 10);
        assert!(planned.objects[39].fields.is_empty() && planned.objects[39].fields_omitted == 11);
    }
}
