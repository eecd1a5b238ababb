//! What the engine knows: live objects that are ours, what each service wants, who owns what.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use plural_core::ids::ServiceId;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    directive::{Directives, Propagation, Removal},
    health::{Health, Rules, health},
    inventory::{Inventory, Place, Run},
    key::{GroupKind, ObjectKey},
    lacking::Served,
    ownership::{self, Mark, Stamped},
    target::{Drift, DriftEvent},
    tree::{Families, Sight},
};

/// Repairs of one object that are made at once before they are paced.
const REPAIR_BURST: u32 = 5;
/// Pace of repairs once the burst is used up.
const REPAIR_EVERY: Duration = Duration::from_secs(30);
/// Drift events that are kept of one service.
const DRIFT_EVENTS: usize = 20;

/// What a live object says of its own removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keep {
    pub(crate) prune: Removal,
    pub(crate) delete: Removal,
    pub(crate) detach: bool,
    pub(crate) propagation: Propagation,
}

/// A live object with our label, reduced to what decisions need.
#[derive(Debug)]
pub(crate) struct Live {
    /// resourceVersion; 0 when the server's is not a number.
    version: u64,
    pub(crate) uid: String,
    pub(crate) mark: Option<Mark>,
    /// Hash of the fields that we manage.
    fields_hash: u64,
    /// The fields themselves, until someone checked them against a manifest.
    fields: Option<Box<Value>>,
    /// Finalizers, when it is being deleted.
    pub(crate) deleting: Option<Vec<String>>,
    pub(crate) health: Health,
    /// How it ended, if it runs once and did.
    pub(crate) finished: Option<Result<(), String>>,
    pub(crate) keep: Keep,
    /// Who besides us wrote last.
    pub(crate) other: Option<String>,
}

/// An object that a service wants.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) version: String,
    pub(crate) stamped: Stamped,
    /// Hash of our fields right after the last apply; `None` when it was not made by this process.
    applied_fields: Option<u64>,
    /// Why it is not as it should be.
    pub(crate) problem: Option<String>,
    pub(crate) place: Place,
    /// It runs once and ends.
    pub(crate) once: bool,
    /// It ended as it was wanted to run, well or not: it need not be there any more.
    pub(crate) done: bool,
    /// It differs, and that is left for now.
    pub(crate) left: bool,
    /// That was told.
    pub(crate) left_told: bool,
}

impl Wanted {
    pub(crate) fn new(version: String, stamped: Stamped, place: Place, once: bool) -> Self {
        Self {
            version,
            stamped,
            applied_fields: None,
            problem: None,
            place,
            once,
            done: false,
            left: false,
            left_told: false,
        }
    }
}

/// What is known of one service.
#[derive(Debug, Default)]
pub(crate) struct Service {
    pub(crate) name: String,
    /// What the record in the cluster says.
    pub(crate) recorded: BTreeSet<ObjectKey>,
    pub(crate) wanted: HashMap<ObjectKey, Wanted>,
    /// Hash and fields of what was applied, is not wanted now, and is still there: should it be
    /// wanted again as it was, nothing has to be sent.
    parked: HashMap<ObjectKey, (String, u64)>,
    /// Wanted by us, owned by another service.
    pub(crate) blocked: HashSet<ObjectKey>,
    /// A sync is running: what it does is no drift.
    pub(crate) busy: bool,
    /// Nothing is written for it, so nothing of it can drift.
    pub(crate) dry_run: bool,
    /// Labels and annotations last written on the namespace.
    pub(crate) namespace_hash: Option<u64>,
    /// Rendered, but never applied and never deleted.
    pub(crate) skipped: HashSet<ObjectKey>,
    /// Applied on demand earlier (tests, sync-fail) and still rendered.
    pub(crate) kept_extra: HashSet<ObjectKey>,
    /// Where recorded objects stand, unless where their kind does.
    pub(crate) places: BTreeMap<ObjectKey, Place>,
    pub(crate) run: Run,
    /// The record as it is in the cluster.
    pub(crate) stored: Option<Inventory>,
    /// Its sync waits for something: any news of its objects may be it.
    pub(crate) waiting: bool,
    /// News came while it was busy, after its sync had looked at what it waits for.
    pub(crate) missed_news: bool,
    /// Since when it waits, and where.
    pub(crate) gate: Option<(Place, Instant)>,
    pub(crate) drift: VecDeque<DriftEvent>,
    /// Kinds that it wants and that were not served when it was looked at last.
    pub(crate) lacking: BTreeSet<Served>,
    drift_events: u64,
}

impl Service {
    /// Where an object of the record stands.
    pub(crate) fn place_of(&self, key: &ObjectKey) -> Place {
        let wanted = self.wanted.get(key).map(|wanted| wanted.place);
        wanted.or_else(|| self.places.get(key).copied()).unwrap_or_else(|| Place::default_of(key))
    }

    /// Its sync looks at what it may wait for: only news that comes later can be missed.
    pub(crate) fn look_from_here(&mut self) {
        // Where it waits at another gate already, what it missed there is still missed.
        if !self.waiting {
            self.missed_news = false;
        }
    }

    /// Whether an object of the record is not wanted any more.
    pub(crate) fn is_surplus(&self, key: &ObjectKey) -> bool {
        !self.wanted.contains_key(key) && !self.skipped.contains(key) && !self.kept_extra.contains(key)
    }
}

/// What happened to a service since it was last asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change {
    /// The cluster differs from what was applied: sync again.
    pub resync: bool,
    /// Health or presence of components changed: report them.
    pub report: bool,
}

#[derive(Debug)]
struct Repairs {
    left: u32,
    refilled: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) live: HashMap<ObjectKey, Live>,
    pub(crate) services: HashMap<ServiceId, Service>,
    pub(crate) claims: HashMap<ObjectKey, ServiceId>,
    /// Namespaces that were there a moment ago.
    pub(crate) namespaces: HashSet<String>,
    pub(crate) changes: HashMap<ServiceId, Change>,
    /// How health is told here.
    pub(crate) rules: Arc<Rules>,
    /// What our objects own.
    pub(crate) families: Families,
    repairs: HashMap<ObjectKey, Repairs>,
    /// Versions at which claimed objects went. The watch may tell of a deletion before the answer to the apply
    /// that came before it: that answer must not bring the object back.
    gone: HashMap<ObjectKey, u64>,
}

impl State {
    /// Takes over a record found in the cluster.
    pub(crate) fn adopt(&mut self, service: ServiceId, inventory: Inventory) {
        for key in &inventory.entries {
            self.claims.entry(key.clone()).or_insert(service);
        }
        let known = self.services.entry(service).or_default();
        known.name.clone_from(&inventory.name);
        known.recorded.clone_from(&inventory.entries);
        known.places.clone_from(&inventory.places);
        known.run.clone_from(&inventory.run);
        known.stored = Some(inventory);
    }

    /// Takes note of a live object; tells whether anything about it is new.
    ///
    /// An older version of what is known is ignored: watches may trail behind answers.
    pub(crate) fn observe(&mut self, kind: &GroupKind, object: &Value) -> Option<ObjectKey> {
        let key = ObjectKey::of_live(kind, object)?;
        let health = if self.rules.has_script_for(kind) {
            // Scripts are run by whoever watches the kind, not while everyone waits for this state.
            match self.live.get(&key) {
                Some(live) => live.health.clone(),
                None => Health::progressing("its health script has not run yet"),
            }
        } else {
            health(kind, object)
        };
        self.observe_as(kind, object, health)
    }

    /// The same, its health having been told.
    pub(crate) fn observe_as(
        &mut self,
        kind: &GroupKind,
        object: &Value,
        health: Health,
    ) -> Option<ObjectKey> {
        let key = ObjectKey::of_live(kind, object)?;
        let metadata = &object["metadata"];
        let version = metadata["resourceVersion"].as_str().and_then(|v| v.parse().ok()).unwrap_or(0);
        let uid = metadata["uid"].as_str().unwrap_or_default();
        let newest = self.live.get(&key).map(|known| known.version).max(self.gone.get(&key).copied());
        if version != 0 && newest.is_some_and(|newest| version < newest) {
            return None;
        }
        self.gone.remove(&key);
        let fields = ownership::our_fields(object);
        let fields_hash = hash_of(&fields.map(ToString::to_string));
        let finalizers = || {
            let list = metadata["finalizers"].as_array().into_iter().flatten();
            list.filter_map(|f| f.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let checked = self
            .claims
            .get(&key)
            .and_then(|service| self.services.get(service)?.wanted.get(&key)?.applied_fields)
            .is_some();
        let live = Live {
            version,
            uid: uid.to_owned(),
            mark: ownership::mark(object, &key),
            fields_hash,
            fields: if checked { None } else { fields.cloned().map(Box::new) },
            deleting: metadata["deletionTimestamp"].is_string().then(finalizers),
            health,
            finished: finished(kind, object),
            keep: keep(object),
            other: ownership::last_other_manager(object),
        };
        let news = match self.live.get(&key) {
            Some(known) => {
                known.health != live.health
                    || known.deleting != live.deleting
                    || known.uid != live.uid
                    || known.finished != live.finished
            }
            None => true,
        };
        if self.claims.contains_key(&key) {
            let (key, uid, status) = (&key, live.uid.as_str(), live.health.status);
            self.families.seen(&Sight { key, uid, version, object, status }, Instant::now());
        }
        self.live.insert(key.clone(), live);
        self.after_change(&key, news);
        Some(key)
    }

    /// Takes note that an object is gone, unless a newer one is known.
    pub(crate) fn observe_gone(&mut self, key: &ObjectKey, version: u64) {
        let newer = self.live.get(key).is_some_and(|live| version != 0 && live.version > version);
        if newer {
            return;
        }
        if version != 0 && self.claims.contains_key(key) {
            self.gone.insert(key.clone(), version);
        }
        if self.live.remove(key).is_some() {
            self.families.gone(key);
            self.after_change(key, true);
        }
    }

    /// Objects of a kind that a complete list at `version` does not hold any more.
    pub(crate) fn missing_from_list(
        &self,
        kind: &GroupKind,
        listed: &HashSet<ObjectKey>,
        version: u64,
    ) -> Vec<ObjectKey> {
        self.live
            .iter()
            .filter(|(key, live)| {
                key.kind == *kind && !listed.contains(*key) && (version == 0 || live.version <= version)
            })
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn after_change(&mut self, key: &ObjectKey, news: bool) {
        let Some(&owner) = self.claims.get(key) else { return };
        let Some(service) = self.services.get(&owner) else { return };
        let wanted = service.wanted.contains_key(key);
        let leaving = !busy_or_dry(service)
            && service.is_surplus(key)
            && !self.live.contains_key(key)
            && service.recorded.contains(key);
        let busy = busy_or_dry(service);
        let waited_for = news && service.waiting && !busy;
        let drifted = wanted && !busy && !self.intact(owner, key);
        if news
            && busy
            && let Some(service) = self.services.get_mut(&owner)
        {
            service.missed_news = true;
        }
        if drifted || leaving || news {
            let change = self.changes.entry(owner).or_default();
            change.resync |= drifted || leaving || waited_for;
            change.report |= news;
        }
    }

    /// A sync of the service is over: what it could not take notice of while it ran is taken up now.
    pub(crate) fn sync_ended(&mut self, service: ServiceId) {
        let Some(known) = self.services.get_mut(&service) else { return };
        known.busy = false;
        if known.dry_run {
            return;
        }
        // What it waits for may have come to pass after it had looked.
        let missed = std::mem::take(&mut known.missed_news) && known.waiting;
        // What changed behind the sync's back was not drift then; it is now.
        let applied: Vec<ObjectKey> = known
            .wanted
            .iter()
            .filter(|(_, wanted)| wanted.problem.is_none() && !wanted.left)
            .map(|(key, _)| key.clone())
            .collect();
        let drifted = applied.iter().any(|key| self.was_applied(service, key) && !self.intact(service, key));
        if drifted || missed {
            self.changes.entry(service).or_default().resync = true;
        }
    }

    /// Whether the live object is exactly what `service` wants and applied.
    pub(crate) fn intact(&mut self, service: ServiceId, key: &ObjectKey) -> bool {
        let Some(wanted) = self.services.get_mut(&service).and_then(|s| s.wanted.get_mut(key)) else {
            return false;
        };
        if wanted.done {
            return true;
        }
        let Some(live) = self.live.get_mut(key) else { return false };
        let same = is_as(live, service, &wanted.stamped, wanted.applied_fields);
        if same && wanted.applied_fields.is_none() {
            wanted.applied_fields = Some(live.fields_hash);
        }
        if wanted.applied_fields.is_some() {
            live.fields = None;
        }
        same
    }

    /// Whether the live object is what `stamped` would make it, wanted or not.
    pub(crate) fn matches(&self, service: ServiceId, key: &ObjectKey, stamped: &Stamped) -> bool {
        let Some(live) = self.live.get(key) else { return false };
        let wanted = self.services.get(&service).and_then(|known| known.wanted.get(key));
        let known = wanted.filter(|wanted| wanted.stamped.hash == stamped.hash);
        is_as(live, service, stamped, known.and_then(|wanted| wanted.applied_fields))
    }

    /// Takes note of the API server's answer to an apply.
    pub(crate) fn applied(&mut self, service: ServiceId, key: &ObjectKey, answer: &Value) {
        self.observe(&key.kind, answer);
        let fields = hash_of(&ownership::our_fields(answer).map(ToString::to_string));
        if let Some(wanted) = self.services.get_mut(&service).and_then(|s| s.wanted.get_mut(key)) {
            wanted.applied_fields = Some(fields);
            wanted.problem = None;
            (wanted.left, wanted.left_told) = (false, false);
        }
    }

    /// Keeps a drift event, or counts it where the last one of the object says the same.
    pub(crate) fn note_drift(&mut self, service: ServiceId, drift: &Drift, at_ms: i64) {
        let Some(known) = self.services.get_mut(&service) else { return };
        let same = |event: &&mut DriftEvent| {
            let paths = |drift: &Drift| drift.fields.iter().map(|f| f.path.clone()).collect::<Vec<_>>();
            event.drift.key == drift.key
                && event.drift.kind == drift.kind
                && event.drift.manager == drift.manager
                && paths(&event.drift) == paths(drift)
        };
        if let Some(event) = known.drift.iter_mut().rev().find(same) {
            event.count = event.count.saturating_add(1);
            event.drift = drift.clone();
            return;
        }
        known.drift_events += 1;
        let id = format!("{at_ms:x}-{}", known.drift_events);
        known.drift.push_back(DriftEvent { id, at_ms, count: 1, drift: drift.clone() });
        if known.drift.len() > DRIFT_EVENTS {
            known.drift.pop_front();
        }
    }

    /// Whether this process applied the object as wanted before: if it differs now, it drifted.
    pub(crate) fn was_applied(&self, service: ServiceId, key: &ObjectKey) -> bool {
        self.services
            .get(&service)
            .and_then(|service| service.wanted.get(key))
            .is_some_and(|wanted| wanted.applied_fields.is_some())
    }

    /// Says why an object is not as it should be, until it is wanted anew.
    pub(crate) fn set_problem(&mut self, service: ServiceId, key: &ObjectKey, problem: &str) {
        if let Some(wanted) = self.services.get_mut(&service).and_then(|s| s.wanted.get_mut(key)) {
            wanted.problem = Some(problem.to_owned());
        }
    }

    /// Carries over what is known of unchanged objects when a service gets a new set.
    pub(crate) fn replace_wanted(&mut self, service: ServiceId, mut wanted: HashMap<ObjectKey, Wanted>) {
        let known = self.services.entry(service).or_default();
        let mut before: HashMap<ObjectKey, (String, u64)> = std::mem::take(&mut known.parked);
        // What is not recorded any more was pruned by us: that it is not there is nobody's drift, and what is there is another's.
        before.retain(|key, _| known.recorded.contains(key));
        for (key, old) in std::mem::take(&mut known.wanted) {
            if let Some(fields) = old.applied_fields {
                before.insert(key, (old.stamped.hash, fields));
            }
        }
        for (key, new) in &mut wanted {
            if let Some((hash, fields)) = before.remove(key)
                && hash == new.stamped.hash
            {
                new.applied_fields = Some(fields);
            }
        }
        before.retain(|key, _| known.recorded.contains(key));
        known.parked = before;
        known.wanted = wanted;
    }

    /// Takes one repair from the object's allowance; otherwise says how long to wait for the next.
    pub(crate) fn may_repair(&mut self, key: &ObjectKey) -> Result<(), Duration> {
        let now = Instant::now();
        self.repairs
            .retain(|_, repairs| now.duration_since(repairs.refilled) < REPAIR_EVERY * (REPAIR_BURST + 1));
        let repairs =
            self.repairs.entry(key.clone()).or_insert(Repairs { left: REPAIR_BURST, refilled: now });
        let passed = (now.duration_since(repairs.refilled).as_secs() / REPAIR_EVERY.as_secs()) as u32;
        if passed > 0 {
            repairs.left = repairs.left.saturating_add(passed).min(REPAIR_BURST);
            repairs.refilled += REPAIR_EVERY * passed;
        }
        if repairs.left == 0 {
            return Err(REPAIR_EVERY.saturating_sub(now.duration_since(repairs.refilled)));
        }
        repairs.left -= 1;
        Ok(())
    }

    /// Wants one more object.
    pub(crate) fn want(&mut self, service: ServiceId, key: ObjectKey, mut new: Wanted) {
        let known = self.services.entry(service).or_default();
        if let Some(old) = known.wanted.get(&key)
            && old.stamped.hash == new.stamped.hash
        {
            new.applied_fields = old.applied_fields;
        }
        known.wanted.insert(key, new);
    }

    /// Notes that an object differs and is left so for now.
    pub(crate) fn set_left(&mut self, service: ServiceId, key: &ObjectKey) {
        if let Some(wanted) = self.services.get_mut(&service).and_then(|s| s.wanted.get_mut(key)) {
            wanted.left = true;
        }
    }

    /// Whether an object that is not wanted any more says that it stays.
    pub(crate) fn stays(&self, key: &ObjectKey) -> bool {
        self.live.get(key).is_some_and(|live| live.keep.prune == Removal::Never && !live.keep.detach)
    }

    /// Sets the record of a service, and gives free what it no longer names; services that waited
    /// for those objects are told.
    pub(crate) fn set_recorded(&mut self, service: ServiceId, inventory: Inventory) {
        let known = self.services.entry(service).or_default();
        known.places.clone_from(&inventory.places);
        let before = std::mem::replace(&mut known.recorded, inventory.entries.clone());
        known.stored = Some(inventory);
        let freed: Vec<ObjectKey> = before.difference(&known.recorded).cloned().collect();
        for key in &known.recorded {
            self.claims.entry(key.clone()).or_insert(service);
        }
        for key in freed {
            self.release(service, &key);
        }
    }

    /// Forgets a service; its objects stay.
    pub(crate) fn forget(&mut self, service: ServiceId) {
        self.set_recorded(service, Inventory::default());
        let claimed: Vec<ObjectKey> =
            self.claims.iter().filter(|(_, owner)| **owner == service).map(|(key, _)| key.clone()).collect();
        for key in claimed {
            self.release(service, &key);
        }
        self.services.remove(&service);
        self.changes.remove(&service);
    }

    fn release(&mut self, service: ServiceId, key: &ObjectKey) {
        if self.claims.get(key) == Some(&service) {
            self.claims.remove(key);
            self.families.gone(key);
            self.gone.remove(key);
        }
        for (id, other) in &self.services {
            if *id != service && other.blocked.contains(key) {
                self.changes.entry(*id).or_default().resync = true;
            }
        }
    }
}

/// Whether `live` is what `stamped` makes of an object of `service`. `applied_fields` is the hash of our
/// fields right after it was applied, where that is known.
fn is_as(live: &Live, service: ServiceId, stamped: &Stamped, applied_fields: Option<u64>) -> bool {
    let mark = live.mark.as_ref();
    let marked = mark.is_some_and(|mark| mark.service == Some(service) && mark.hash == stamped.hash);
    if !marked || live.deleting.is_some() {
        return false;
    }
    match applied_fields {
        Some(applied) => applied == live.fields_hash,
        None => live.fields.as_ref().is_some_and(|fields| {
            serde_json::from_slice(stamped.compared())
                .is_ok_and(|manifest: Value| ownership::covers(fields, &manifest))
        }),
    }
}

fn keep(object: &Value) -> Keep {
    let Directives { prune, delete, detach, propagation, .. } = Directives::of(object);
    Keep { prune, delete, detach, propagation }
}

/// How an object that runs once ended, if it did.
fn finished(kind: &GroupKind, object: &Value) -> Option<Result<(), String>> {
    let status = &object["status"];
    let words = |reason: &Value, message: &Value| {
        let reason = reason.as_str().unwrap_or("failed");
        match message.as_str().unwrap_or_default() {
            "" => reason.to_owned(),
            message => format!("{reason}: {message}"),
        }
    };
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("batch", "Job") => {
            let conditions = status["conditions"].as_array()?;
            let holds = |name: &str| {
                conditions.iter().find(|condition| condition["type"] == name && condition["status"] == "True")
            };
            if holds("Complete").is_some() {
                return Some(Ok(()));
            }
            holds("Failed").map(|condition| Err(words(&condition["reason"], &condition["message"])))
        }
        ("", "Pod") | ("argoproj.io", "Workflow") => match status["phase"].as_str()? {
            "Succeeded" => Some(Ok(())),
            "Failed" | "Error" => Some(Err(words(&status["reason"], &status["message"]))),
            _ => None,
        },
        _ => None,
    }
}

/// What happens to such a service is its own doing, or nobody's.
fn busy_or_dry(service: &Service) -> bool {
    service.busy || service.dry_run
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(version: u64, uid: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "n", "uid": uid, "resourceVersion": version.to_string()},
        })
    }

    #[test]
    fn what_comes_to_pass_between_a_look_and_the_end_of_its_sync_is_not_missed() {
        let (kind, _) = GroupKind::parse("v1", "ConfigMap");
        let service = ServiceId::new();
        let mut state = State::default();
        let key = state.observe(&kind, &map(1, "one")).unwrap();
        state.claims.insert(key.clone(), service);
        let known = state.services.entry(service).or_default();
        known.busy = true;
        // The sync looks, the object it looks at goes, and only then is it known that the sync waits for that.
        known.look_from_here();
        state.observe_gone(&key, 2);
        assert!(!state.changes.get(&service).copied().unwrap_or_default().resync, "its own doing, perhaps");
        state.services.entry(service).or_default().waiting = true;
        state.sync_ended(service);
        assert!(state.changes.remove(&service).unwrap().resync);
        // It counts once, also where no look came after it.
        state.sync_ended(service);
        assert_eq!(state.changes.get(&service), None);

        // Nothing happened since the look: there is nothing to do again.
        let known = state.services.entry(service).or_default();
        (known.busy, known.waiting) = (true, false);
        known.look_from_here();
        known.waiting = true;
        state.sync_ended(service);
        assert_eq!(state.changes.get(&service), None);
    }

    #[test]
    fn an_answer_from_before_a_deletion_brings_nothing_back() {
        let (kind, _) = GroupKind::parse("v1", "ConfigMap");
        let service = ServiceId::new();
        let mut state = State::default();
        let key = state.observe(&kind, &map(1, "one")).unwrap();
        state.claims.insert(key.clone(), service);
        // Applied at 2, deleted at 3; the watch tells of both before the answer to the apply is read.
        state.observe(&kind, &map(2, "one"));
        state.observe_gone(&key, 3);
        assert_eq!(state.observe(&kind, &map(2, "one")), None);
        assert!(!state.live.contains_key(&key));
        // The next apply makes it anew.
        assert!(state.observe(&kind, &map(4, "two")).is_some());
        state.observe_gone(&key, 3);
        assert!(state.live.contains_key(&key), "an old deletion is old news");
        state.release(service, &key);
        assert!(state.gone.is_empty());
    }
}
