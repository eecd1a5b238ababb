//! What a service waits for: other services, on its cluster or elsewhere.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::ids::{ClusterId, DependencyId, ServiceContextId, ServiceId, StackId};
use crate::name::{Handle, KubeName, NameError};
use crate::service::PinUntil;
use crate::status::ServiceStatus;

/// Services that one may depend on.
pub const MAX_DEPENDENCIES: usize = 64;

/// A service as somebody names it who depends on it: `NAME` on the same cluster, `CLUSTER/NAME` elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DependencyRef {
    /// Handle of its cluster; absent: the cluster of the service that depends on it.
    pub cluster: Option<Handle>,
    /// Its name.
    pub name: KubeName,
}

impl FromStr for DependencyRef {
    type Err = NameError;

    fn from_str(text: &str) -> std::result::Result<Self, NameError> {
        Ok(match text.split_once('/') {
            None => Self { cluster: None, name: text.parse()? },
            Some((cluster, name)) => Self { cluster: Some(cluster.parse()?), name: name.parse()? },
        })
    }
}

impl fmt::Display for DependencyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            None => write!(f, "{}", self.name),
            Some(cluster) => write!(f, "{cluster}/{}", self.name),
        }
    }
}

/// What a service is tied to besides its sources; `None` leaves a part as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceLinks {
    /// All services that it depends on.
    pub dependencies: Option<Vec<DependencyRef>>,
    /// All contexts that its templates read.
    pub contexts: Option<Vec<ServiceContextId>>,
    /// All stacks whose outputs its templates read.
    pub imports: Option<Vec<StackId>>,
}

/// A service that another one depends on, with its cluster looked up. It need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DependencyOn {
    /// Its cluster.
    pub cluster_id: ClusterId,
    /// That cluster's handle.
    pub cluster: String,
    /// Its name.
    pub name: KubeName,
}

/// A dependency as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// Id.
    pub id: DependencyId,
    /// On what.
    pub on: DependencyOn,
    /// The service of that name, when there is one.
    pub service_id: Option<ServiceId>,
    /// How that service is.
    pub standing: Option<DependencyStatus>,
}

/// How a service is, as far as those care who depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DependencyStatus {
    /// Its status.
    pub status: ServiceStatus,
    /// "n / m" components running.
    pub component_status: String,
    /// What holds its newest revision back.
    pub pin: Option<PinUntil>,
    /// Nothing of it is applied.
    pub dry_run: bool,
    /// It is being destroyed.
    pub deleting: bool,
}

/// What keeps a service from going on that depends on one which stands like this; `None`: nothing, it is healthy at its current
/// revision. One that a person rolled back stands where it should.
pub fn obstacle(standing: Option<&DependencyStatus>) -> Option<String> {
    let Some(DependencyStatus { status, component_status, pin, dry_run, deleting }) = standing else {
        return Some("there is no such service".to_owned());
    };
    if *deleting {
        return Some("it is being deleted".to_owned());
    }
    if *dry_run {
        return Some("it is in dry-run mode and is never applied".to_owned());
    }
    match pin {
        Some(PinUntil::Dependencies) => return Some("it waits for its own dependencies".to_owned()),
        Some(PinUntil::Window) => return Some("its newest revision is waiting for a sync window".to_owned()),
        Some(PinUntil::Release | PinUntil::NextCommit) | None => {}
    }
    match status {
        ServiceStatus::Healthy => None,
        ServiceStatus::Stale | ServiceStatus::Synced | ServiceStatus::Failed | ServiceStatus::Paused => {
            Some(format!("it is {} ({component_status} components ready)", status.as_str()))
        }
    }
}

impl Dependency {
    /// What keeps a service from going on that has this dependency.
    pub fn obstacle(&self) -> Option<String> {
        obstacle(self.standing.as_ref())
    }

    /// Its name for people.
    pub fn words(&self) -> String {
        format!("{}/{}", self.on.cluster, self.on.name)
    }
}

/// Refuses too many, and what is named twice.
///
/// # Errors
/// [`Error::Invalid`].
pub fn check_dependencies(named: &[DependencyRef]) -> Result<()> {
    if named.len() > MAX_DEPENDENCIES {
        let reason = format!("at most {MAX_DEPENDENCIES} are allowed");
        return Err(Error::invalid("attributes.dependencies", reason));
    }
    let mut seen = HashSet::new();
    match named.iter().find(|one| !seen.insert(*one)) {
        Some(twice) => Err(Error::invalid("attributes.dependencies", format!("lists {twice} twice"))),
        None => Ok(()),
    }
}

/// The shortest way along `edges` from `start` back to it, both ends included.
pub fn find_cycle<K, S>(start: &K, edges: &HashMap<K, Vec<K>, S>) -> Option<Vec<K>>
where
    K: Clone + Eq + Hash,
    S: BuildHasher,
{
    let mut came_from: HashMap<&K, &K> = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for next in edges.get(at).into_iter().flatten() {
            if next == start {
                let mut way = vec![start.clone(), at.clone()];
                let mut step = at;
                while step != start {
                    let Some(before) = came_from.get(step) else { break };
                    step = before;
                    way.push(step.clone());
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    None
}

/// The same ids, each after those of them that it depends on. What is in a cycle keeps its place.
pub fn dependencies_first<K, S>(ids: &[K], edges: &HashMap<K, Vec<K>, S>) -> Vec<K>
where
    K: Clone + Eq + Hash,
    S: BuildHasher,
{
    let known: HashSet<&K> = ids.iter().collect();
    let mut done: HashSet<&K> = HashSet::new();
    let mut order = Vec::with_capacity(ids.len());
    for id in ids {
        // Each entry: the id, and how many of its edges were followed.
        let mut way: Vec<(&K, usize)> = vec![(id, 0)];
        let mut on_way: HashSet<&K> = HashSet::from([id]);
        while let Some((at, followed)) = way.last_mut() {
            let at = *at;
            let next = edges.get(at).and_then(|all| all.get(*followed));
            *followed += 1;
            match next {
                Some(next) if known.contains(next) && !done.contains(next) && on_way.insert(next) => {
                    way.push((next, 0));
                }
                Some(_) => {}
                None => {
                    if done.insert(at) {
                        order.push(at.clone());
                    }
                    way.pop();
                }
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(all: &[(&'static str, &[&'static str])]) -> HashMap<&'static str, Vec<&'static str>> {
        all.iter().map(|(from, to)| (*from, to.to_vec())).collect()
    }

    #[test]
    fn names() {
        let same: DependencyRef = "db".parse().unwrap();
        assert_eq!((same.cluster.is_none(), same.to_string().as_str()), (true, "db"));
        let other: DependencyRef = "blue/db".parse().unwrap();
        assert_eq!(other.to_string(), "blue/db");
        for wrong in ["", "/db", "blue/", "a/b/c", "Blue/db", "d b"] {
            assert!(wrong.parse::<DependencyRef>().is_err(), "{wrong}");
        }
        let twice = ["db".parse().unwrap(), "db".parse().unwrap()];
        assert!(check_dependencies(&twice).is_err());
        assert!(check_dependencies(&[same, other]).is_ok());
    }

    #[test]
    fn a_cycle_is_named() {
        let open = edges(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"]), ("d", &[])]);
        assert_eq!(find_cycle(&"a", &open), None);
        let itself = edges(&[("a", &["a"])]);
        assert_eq!(find_cycle(&"a", &itself), Some(vec!["a", "a"]));
        let two = edges(&[("a", &["b"]), ("b", &["a"])]);
        assert_eq!(find_cycle(&"a", &two), Some(vec!["a", "b", "a"]));
        // The shorter of two, and one that does not lead back to the start is not this one's matter.
        let long = edges(&[("a", &["b", "c"]), ("b", &["x"]), ("x", &["a"]), ("c", &["a"])]);
        assert_eq!(find_cycle(&"a", &long), Some(vec!["a", "c", "a"]));
        let beside = edges(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]);
        assert_eq!(find_cycle(&"a", &beside), None);
    }

    #[test]
    fn what_is_depended_on_comes_first() {
        let all = edges(&[("web", &["api"]), ("api", &["db", "elsewhere"]), ("db", &[])]);
        assert_eq!(dependencies_first(&["web", "other", "api", "db"], &all), ["db", "api", "web", "other"]);
        let cycle = edges(&[("a", &["b"]), ("b", &["a"])]);
        assert_eq!(dependencies_first(&["a", "b"], &cycle).len(), 2);
    }

    #[test]
    fn who_may_go_on() {
        let healthy = DependencyStatus {
            status: ServiceStatus::Healthy,
            component_status: "2 / 2".into(),
            pin: None,
            dry_run: false,
            deleting: false,
        };
        assert_eq!(obstacle(Some(&healthy)), None);
        let rolled_back = DependencyStatus { pin: Some(PinUntil::Release), ..healthy.clone() };
        assert_eq!(obstacle(Some(&rolled_back)), None);
        let words = |standing: &DependencyStatus| obstacle(Some(standing)).unwrap();
        assert_eq!(obstacle(None).unwrap(), "there is no such service");
        let stale = DependencyStatus {
            status: ServiceStatus::Stale,
            component_status: "1 / 2".into(),
            ..healthy.clone()
        };
        assert_eq!(words(&stale), "it is STALE (1 / 2 components ready)");
        assert!(
            words(&DependencyStatus { pin: Some(PinUntil::Window), ..healthy.clone() }).contains("window")
        );
        assert!(
            words(&DependencyStatus { pin: Some(PinUntil::Dependencies), ..healthy.clone() })
                .contains("its own")
        );
        assert!(words(&DependencyStatus { dry_run: true, ..healthy.clone() }).contains("dry-run"));
        assert!(words(&DependencyStatus { deleting: true, ..healthy }).contains("deleted"));
    }
}
