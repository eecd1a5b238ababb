//! What our objects own, down to Pods, and what keeps them from running, in words.
//!
//! No child is watched: a workload's own status tells when its Pods change. A change of an object of
//! ours, and a while without health, make us look: its children are listed by its selector, and the
//! last warning about them is read. An object that is healthy and does not change costs nothing.

mod look;
mod selector;

use std::{collections::HashMap, hash::Hash, sync::Arc, time::Duration};

use plural_core::component::ComponentState;
use serde_json::Value;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    engine::Inner,
    health::{Health, HealthStatus},
    key::{GroupKind, ObjectKey},
    ownership,
    target::Component,
};

/// Changes of one object that come this close together make one look.
const SETTLE: Duration = Duration::from_secs(1);
/// Changes that come this close together are gone through together.
const GATHER: Duration = Duration::from_millis(250);
/// Least time between two looks at one object.
const SPACING: Duration = Duration::from_secs(3);
/// Longest time between two looks at an object that is not healthy.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// Looks at once.
const CONCURRENCY: usize = 2;
/// Children that are told of one object, the unhealthy ones first.
const MAX_CHILDREN: usize = 100;
/// Children that are known of all objects together; beyond, only those that are not healthy.
const MAX_ALL_CHILDREN: usize = 20_000;

/// An object that one of ours owns, directly or through others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Child {
    /// Which object.
    pub key: ObjectKey,
    /// The version that it was read in.
    pub version: String,
    /// The API server's uid.
    pub uid: String,
    /// The uid of its owner.
    pub parent_uid: String,
    /// How it is; nothing when nobody can tell.
    pub state: Option<ComponentState>,
    /// Why it is not running.
    pub message: String,
}

/// What a look at one object found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Found {
    children: Vec<Child>,
    /// What its children and the last event say against it.
    why: String,
    /// It will hardly get well by itself, whatever its own status says.
    hopeless: bool,
}

/// An object of ours that may own others.
#[derive(Debug)]
struct Parent {
    uid: String,
    version: u64,
    status: HealthStatus,
    /// Labels of its Pods, as a query, where it names them.
    selector: Option<String>,
    found: Found,
    /// When to look next.
    due: Option<Instant>,
    looked: Option<Instant>,
    /// Looks since something changed.
    looks: u32,
    looking: bool,
}

/// Something to look at.
#[derive(Debug, Clone)]
struct Work {
    key: ObjectKey,
    uid: String,
    status: HealthStatus,
    selector: Option<String>,
}

/// An object of ours as it was just seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sight<'a> {
    pub(crate) key: &'a ObjectKey,
    pub(crate) uid: &'a str,
    /// resourceVersion; 0 when the server's is not a number.
    pub(crate) version: u64,
    pub(crate) object: &'a Value,
    pub(crate) status: HealthStatus,
}

/// What is known of the children of all our objects.
#[derive(Debug, Default)]
pub(crate) struct Families {
    parents: HashMap<ObjectKey, Parent>,
    children: usize,
    news: bool,
}

impl Families {
    /// Whether something is to be looked at that was not before; asked once.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Takes note of an object of ours.
    pub(crate) fn seen(&mut self, sight: &Sight<'_>, now: Instant) {
        let Sight { key, uid, version, object, status } = *sight;
        let owns = may_own(&key.kind);
        if !owns && matches!(status, HealthStatus::Healthy | HealthStatus::Suspended) {
            self.gone(key);
            return;
        }
        if ownership::metadata_is_enough(&key.kind) {
            return;
        }
        if self.parents.get(key).is_some_and(|parent| parent.uid != uid) {
            self.gone(key);
        }
        let parent = self.parents.entry(key.clone()).or_insert_with(|| Parent {
            uid: uid.to_owned(),
            version: 0,
            status,
            selector: None,
            found: Found::default(),
            due: None,
            looked: None,
            looks: 0,
            looking: false,
        });
        if parent.version == version && parent.status == status && version != 0 {
            return;
        }
        // What operators write into the status of their resources says little about their children.
        let worth_a_look = is_workload(&key.kind) || parent.status != status || parent.looked.is_none();
        parent.version = version;
        parent.status = status;
        parent.selector = selector::of(&key.kind, object);
        if !worth_a_look {
            return;
        }
        parent.looks = 0;
        let due = parent.looked.map_or(now, |looked| looked + SPACING).max(now + SETTLE);
        parent.due = Some(parent.due.map_or(due, |earlier| earlier.min(due)));
        self.news = true;
    }

    /// Forgets an object.
    pub(crate) fn gone(&mut self, key: &ObjectKey) {
        if let Some(parent) = self.parents.remove(key) {
            self.children -= parent.found.children.len();
        }
    }

    /// What is due now, at most so much, and when the next is.
    fn take_due(&mut self, room: usize, now: Instant) -> (Vec<Work>, Option<Instant>) {
        let mut due: Vec<(Instant, &ObjectKey)> = self
            .parents
            .iter()
            .filter(|(_, parent)| !parent.looking)
            .filter_map(|(key, parent)| Some((parent.due?, key)))
            .collect();
        due.sort_unstable_by_key(|(at, _)| *at);
        let keys: Vec<ObjectKey> =
            due.iter().filter(|(at, _)| *at <= now).take(room).map(|(_, key)| (*key).clone()).collect();
        let next = due.get(keys.len()).map(|(at, _)| *at);
        let mut work = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(parent) = self.parents.get_mut(&key) else { continue };
            parent.due = None;
            parent.looking = true;
            let (uid, selector) = (parent.uid.clone(), parent.selector.clone());
            work.push(Work { key, uid, status: parent.status, selector });
        }
        (work, next)
    }

    /// Takes note of what a look found; tells whether that is new.
    fn learned(&mut self, work: &Work, found: Option<Found>, now: Instant) -> bool {
        let room = MAX_ALL_CHILDREN.saturating_sub(self.children);
        let Some(parent) = self.parents.get_mut(&work.key).filter(|parent| parent.uid == work.uid) else {
            return false;
        };
        parent.looking = false;
        parent.looked = Some(now);
        parent.looks += 1;
        let mut new = false;
        if let Some(mut found) = found {
            if found.children.len() > room + parent.found.children.len() {
                found.children.retain(|child| child.state != Some(ComponentState::Running));
                found.children.truncate(room + parent.found.children.len());
            }
            new = found != parent.found;
            self.children = self.children - parent.found.children.len() + found.children.len();
            parent.found = found;
        }
        let settled = parent.status == HealthStatus::Healthy
            && parent.found.children.iter().all(|child| child.state == Some(ComponentState::Running));
        if settled || parent.status == HealthStatus::Suspended {
            return new;
        }
        // What is not healthy changes without a sign in its own status: look again, ever more seldom.
        let wait = SPACING * 2u32.saturating_pow(parent.looks.min(8));
        let again = now + wait.min(LONGEST_WAIT);
        // A healthy object whose old Pods linger is not waited for for ever.
        if parent.status != HealthStatus::Healthy || parent.looks < 6 {
            parent.due = Some(parent.due.map_or(again, |earlier| earlier.min(again)));
        }
        new
    }

    /// A component with its children, and with their words if it is not running.
    pub(crate) fn adorn(&self, mut component: Component) -> Component {
        let Some(parent) = self.parents.get(&component.key) else { return component };
        if parent.uid != component.uid {
            return component;
        }
        component.children.clone_from(&parent.found.children);
        if matches!(component.state, Some(ComponentState::Pending | ComponentState::Failed)) {
            if parent.found.hopeless {
                component.state = Some(ComponentState::Failed);
            }
            component.message = joined(&component.message, &parent.found.why);
        }
        component
    }
}

/// Two reasons in one, short enough for a report.
fn joined(first: &str, second: &str) -> String {
    let words = match (first, second) {
        (words, "") | ("", words) => words.to_owned(),
        (first, second) if first.contains(second) => first.to_owned(),
        (first, second) => format!("{first}; {second}"),
    };
    Health::degraded(words).message
}

fn is_workload(kind: &GroupKind) -> bool {
    match kind.group.as_str() {
        "apps" => {
            matches!(kind.kind.as_str(), "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        }
        "batch" => matches!(kind.kind.as_str(), "Job" | "CronJob"),
        "" => kind.kind == "ReplicationController",
        "argoproj.io" => kind.kind == "Rollout",
        _ => false,
    }
}

/// Whether objects of this kind may own others: workloads, and whatever an operator looks after.
fn may_own(kind: &GroupKind) -> bool {
    let operators = kind.group.contains('.') && !kind.group.ends_with(".k8s.io");
    is_workload(kind) || (operators && kind.kind != "CustomHealth")
}

/// Looks at what is due, for ever.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut looking: JoinSet<(Work, Option<Found>)> = JoinSet::new();
    loop {
        let news = inner.families.notified();
        let room = CONCURRENCY.saturating_sub(looking.len());
        let (work, next) = inner.with_state(|state| state.families.take_due(room, Instant::now()));
        for work in work {
            let inner = Arc::clone(&inner);
            looking.spawn(async move {
                let found = look::look(&inner, &work).await;
                (work, found)
            });
        }
        let full = looking.len() >= CONCURRENCY;
        tokio::select! {
            Some(done) = looking.join_next(), if !looking.is_empty() => {
                let Ok((work, found)) = done else { continue };
                inner.with_state(|state| {
                    if state.families.learned(&work, found, Instant::now())
                        && let Some(owner) = state.claims.get(&work.key)
                    {
                        state.changes.entry(*owner).or_default().report = true;
                    }
                });
            }
            // Nothing is due before it settled: many changes make one round.
            () = news, if !full => tokio::time::sleep(GATHER).await,
            () = until(next), if !full => {}
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> ObjectKey {
        let (kind, _) = GroupKind::parse("apps/v1", "Deployment");
        ObjectKey { kind, namespace: "shop".to_owned(), name: "web".to_owned() }
    }

    fn pod(name: &str, state: ComponentState) -> Child {
        let (kind, version) = GroupKind::parse("v1", "Pod");
        Child {
            key: ObjectKey { kind, namespace: "shop".to_owned(), name: name.to_owned() },
            version,
            uid: name.to_owned(),
            parent_uid: "u1".to_owned(),
            state: Some(state),
            message: String::new(),
        }
    }

    fn found(state: ComponentState) -> Found {
        Found { children: vec![pod("web-1", state)], why: "Pod web-1: no".to_owned(), hopeless: false }
    }

    fn see(families: &mut Families, key: &ObjectKey, version: u64, status: HealthStatus, now: Instant) {
        let object = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}});
        families.seen(&Sight { key, uid: "u1", version, object: &object, status }, now);
    }

    #[test]
    fn what_is_healthy_and_unchanged_is_looked_at_once() {
        let (key, now) = (deployment(), Instant::now());
        let mut families = Families::default();
        see(&mut families, &key, 1, HealthStatus::Healthy, now);
        assert!(families.take_news());
        let (work, next) = families.take_due(8, now);
        assert!(work.is_empty() && next == Some(now + SETTLE));
        let now = now + SETTLE;
        let (work, _) = families.take_due(8, now);
        assert_eq!(work[0].selector.as_deref(), Some("app=web"));
        assert!(families.learned(&work[0], Some(found(ComponentState::Running)), now));
        see(&mut families, &key, 1, HealthStatus::Healthy, now);
        assert!(!families.take_news());
        assert_eq!(families.take_due(8, now).1, None);
    }

    #[test]
    fn what_is_not_healthy_is_looked_at_ever_more_seldom() {
        let (key, mut now) = (deployment(), Instant::now());
        let mut families = Families::default();
        see(&mut families, &key, 1, HealthStatus::Progressing, now);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let next = families.take_due(0, now).1.unwrap();
            waits.push((next - now).as_secs());
            now = next;
            let (work, _) = families.take_due(8, now);
            families.learned(&work[0], Some(found(ComponentState::Failed)), now);
        }
        assert_eq!(waits, [1, 6, 12, 24, 48, 60, 60, 60]);
        // The same answer is no news; a look that failed keeps what was known.
        now += LONGEST_WAIT;
        let (work, _) = families.take_due(8, now);
        assert!(!families.learned(&work[0], None, now));
        assert_eq!(families.children, 1);
        families.gone(&key);
        assert_eq!(families.children, 0);
        assert!(!families.learned(&work[0], Some(found(ComponentState::Failed)), now));
    }

    #[test]
    fn what_owns_nothing_is_of_interest_while_it_is_not_healthy() {
        let (kind, _) = GroupKind::parse("v1", "PersistentVolumeClaim");
        let key = ObjectKey { kind, namespace: "shop".to_owned(), name: "data".to_owned() };
        let mut families = Families::default();
        let now = Instant::now();
        see(&mut families, &key, 1, HealthStatus::Healthy, now);
        assert!(!families.take_news());
        see(&mut families, &key, 2, HealthStatus::Progressing, now);
        assert!(families.take_news());
        see(&mut families, &key, 3, HealthStatus::Healthy, now);
        assert!(families.parents.is_empty());
    }
}
