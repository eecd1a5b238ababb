//! A cluster that an agent speaks for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::cluster_tags::TagLevel;
use crate::error::{Error, Result};
use crate::ids::{ClusterId, ProjectId};
use crate::name::{Handle, Name};
use crate::page::Keyed;
use crate::policy::BindingsChange;
use crate::sort::{SortColumn, SortKind};
use crate::work::Contract;

/// A cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// Id.
    pub id: ClusterId,
    /// For people; need not be unique.
    pub name: Name,
    /// Unique in the installation.
    pub handle: Handle,
    /// Where it belongs.
    pub project_id: ProjectId,
    /// Name → value.
    pub tags: BTreeMap<String, String>,
    /// Who set those tags that nobody set for the installation.
    pub tag_levels: BTreeMap<String, TagLevel>,
    /// Any JSON object, for templates.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// What kind of cluster, as its agent says or its creator said.
    pub distro: Option<ClusterDistro>,
    /// The Kubernetes version that its creator wants recorded.
    pub version: Option<String>,
    /// What the agent last said.
    pub facts: ClusterFacts,
    /// The contract that the agent speaks; unknown until it polled.
    pub agent_contract: Option<Contract>,
    /// Refuses deletion while set.
    pub protect: bool,
    /// When the agent was last heard.
    pub pinged_at: Option<DateTime<Utc>>,
    /// Set: its services are being destroyed, and it goes when the last is gone.
    pub deleted_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// What an agent knows of its cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// "v1.36.2".
    pub current_version: Option<String>,
    /// Version of the agent itself.
    pub agent_version: Option<String>,
    /// Nodes.
    pub node_count: Option<u32>,
    /// Pods.
    pub pod_count: Option<u32>,
    /// Namespaces.
    pub namespace_count: Option<u32>,
}

/// Kubernetes distributions, named as in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ClusterDistro {
    /// None of the others.
    Generic,
    /// Amazon.
    Eks,
    /// Azure.
    Aks,
    /// Google.
    Gke,
    /// Rancher.
    Rke,
    /// Lightweight Kubernetes.
    K3s,
    /// Red Hat.
    Openshift,
}

impl ClusterDistro {
    /// Every distribution.
    pub const ALL: [Self; 7] =
        [Self::Generic, Self::Eks, Self::Aks, Self::Gke, Self::Rke, Self::K3s, Self::Openshift];

    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Generic => "GENERIC",
            Self::Eks => "EKS",
            Self::Aks => "AKS",
            Self::Gke => "GKE",
            Self::Rke => "RKE",
            Self::K3s => "K3S",
            Self::Openshift => "OPENSHIFT",
        }
    }

    /// The distribution of this name, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|distro| distro.as_str().eq_ignore_ascii_case(text))
    }
}

/// How a cluster is, by when its agent was last heard. What needs somebody comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClusterState {
    /// Its agent was heard once, and not for [`SILENT_AFTER`].
    Silent,
    /// Its services are being destroyed, then it goes.
    Removing,
    /// Its agent is heard, and of an earlier build than this console.
    Outdated,
    /// Its agent was never heard.
    Waiting,
    /// Its agent is heard.
    Connected,
}

impl ClusterState {
    /// Every state, in the order of lists.
    pub const ALL: [Self; 5] = [Self::Silent, Self::Removing, Self::Outdated, Self::Waiting, Self::Connected];
}

/// An agent that was not heard for so long is away.
pub const SILENT_AFTER: TimeDelta = TimeDelta::minutes(5);

/// A minor version of Kubernetes: `1.33` of `v1.33.4+k3s1`. The older one is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MinorVersion {
    major: u16,
    minor: u16,
}

impl MinorVersion {
    /// That of a version as clusters tell it; none of one that is not written like that.
    pub fn of(version: &str) -> Option<Self> {
        let bare = version.strip_prefix('v').unwrap_or(version);
        let mut parts = bare.splitn(3, '.');
        let (major, minor) = (parts.next()?, parts.next()?);
        let found = Self { major: major.parse().ok()?, minor: minor.parse().ok()? };
        // Another spelling of the same number would not be found by it.
        (found.to_string() == format!("{major}.{minor}")).then_some(found)
    }
}

impl fmt::Display for MinorVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor } = self;
        write!(f, "{major}.{minor}")
    }
}

/// What clusters are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterColumn {
    /// The handle.
    Handle,
    /// The state at this moment, in the order of [`ClusterState::ALL`].
    State(DateTime<Utc>),
    /// The Kubernetes version that the agent reports, by its numbers; what is not known is the oldest.
    Version,
    /// When the agent was last heard; never is the longest ago. Those that were heard within [`SILENT_AFTER`] of this moment are equal:
    /// they are heard again before the next page is read, and would move.
    LastHeard(DateTime<Utc>),
}

impl SortColumn for ClusterColumn {
    fn word(self) -> &'static str {
        match self {
            Self::Handle => "handle",
            Self::State(_) => "state",
            Self::Version => "version",
            Self::LastHeard(_) => "heard",
        }
    }

    fn kind(self) -> SortKind {
        match self {
            Self::Handle => SortKind::Text,
            Self::State(_) | Self::Version => SortKind::Number,
            Self::LastHeard(_) => SortKind::Time,
        }
    }
}

/// What a new cluster is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCluster {
    /// For people.
    pub name: Name,
    /// Unique; suggested by the name when absent.
    pub handle: Option<Handle>,
    /// The default project when absent.
    pub project_id: Option<ProjectId>,
    /// Name → value.
    pub tags: BTreeMap<String, String>,
    /// Any JSON object.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// What kind.
    pub distro: Option<ClusterDistro>,
    /// Wanted Kubernetes version.
    pub version: Option<String>,
    /// Refuses deletion.
    pub protect: bool,
    /// Who may use it, besides those whom its project lets.
    pub bindings: BindingsChange,
}

impl NewCluster {
    /// Its handle, made from the name when absent.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the name suggests none.
    pub fn handle_or_suggested(&self) -> Result<Handle> {
        let suggested = || {
            Handle::suggest(self.name.as_str()).map_err(|_| {
                Error::invalid("attributes.handle", "is required: none can be derived from the name")
            })
        };
        self.handle.clone().map_or_else(suggested, Ok)
    }

    /// A cluster with nothing but a name.
    pub fn named(name: Name) -> Self {
        Self {
            name,
            handle: None,
            project_id: None,
            tags: BTreeMap::new(),
            metadata: serde_json::Map::new(),
            distro: None,
            version: None,
            protect: false,
            bindings: BindingsChange::default(),
        }
    }
}

/// What changes of a cluster; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterChange {
    /// New name.
    pub name: Option<Name>,
    /// New handle.
    pub handle: Option<Handle>,
    /// Which tags it has.
    pub tags: TagsChange,
    /// The whole object.
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
    /// New kind.
    pub distro: Option<ClusterDistro>,
    /// New wanted version.
    pub version: Option<String>,
    /// New protection.
    pub protect: Option<bool>,
    /// Who may use it from now on, besides those whom its project lets.
    pub bindings: BindingsChange,
}

/// What becomes of a cluster's tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagsChange {
    /// These are all that it has.
    All(BTreeMap<String, String>),
    /// Some are set and others taken away; the rest stays, whatever it is by then.
    Edit {
        /// To set.
        set: BTreeMap<String, String>,
        /// Names of those that go.
        remove: BTreeSet<String>,
    },
}

impl Default for TagsChange {
    /// None.
    fn default() -> Self {
        Self::Edit { set: BTreeMap::new(), remove: BTreeSet::new() }
    }
}

impl TagsChange {
    /// They stay as they are.
    pub fn keeps(&self) -> bool {
        matches!(self, Self::Edit { set, remove } if set.is_empty() && remove.is_empty())
    }

    /// What comes of the tags that there are.
    ///
    /// # Errors
    /// [`Error::Invalid`] when that is too many, or too long.
    pub fn over(&self, tags: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
        let tags = match self {
            Self::All(tags) => tags.clone(),
            Self::Edit { set, remove } => {
                let mut tags = tags;
                tags.retain(|name, _| !remove.contains(name));
                tags.extend(set.clone());
                tags
            }
        };
        check_tags("attributes.tags", &tags)?;
        Ok(tags)
    }
}

/// Checks tags that were given in `field`.
///
/// # Errors
/// [`Error::Invalid`] for too many or too long ones, and for one without a name.
pub fn check_tags(field: &'static str, tags: &BTreeMap<String, String>) -> Result<()> {
    if tags.len() > 100 || tags.iter().any(|(name, value)| name.is_empty() || name.len() + value.len() > 512)
    {
        let reason = "must be at most 100, each with a name and at most 512 bytes";
        return Err(Error::invalid(field, reason));
    }
    Ok(())
}

impl Cluster {
    /// The agent was heard within the last five minutes.
    pub fn is_healthy(&self, now: DateTime<Utc>) -> bool {
        self.pinged_at.is_some_and(|at| now - at < SILENT_AFTER)
    }

    /// How it is at `now`.
    pub fn state(&self, now: DateTime<Utc>) -> ClusterState {
        if self.deleted_at.is_some() {
            ClusterState::Removing
        } else if self.pinged_at.is_none() {
            ClusterState::Waiting
        } else if !self.is_healthy(now) {
            ClusterState::Silent
        } else if self.agent_is_outdated() == Some(true) {
            ClusterState::Outdated
        } else {
            ClusterState::Connected
        }
    }

    /// Its agent is of an earlier build than this one: it polls and applies, but hints and requests of users do not reach it.
    pub fn agent_is_outdated(&self) -> Option<bool> {
        self.agent_contract.map(|contract| contract < Contract::NEWEST)
    }
}

impl Keyed for Cluster {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_versions() {
        for (version, minor) in [
            ("v1.33.4+k3s1", Some("1.33")),
            ("1.9.0", Some("1.9")),
            ("v1.33", Some("1.33")),
            ("v1.033.1", None),
            ("v1.+3.1", None),
            ("v1.33+", None),
            ("v1", None),
            ("", None),
            ("latest", None),
        ] {
            assert_eq!(
                MinorVersion::of(version).map(|found| found.to_string()).as_deref(),
                minor,
                "{version}"
            );
        }
        assert!(MinorVersion::of("v1.9.0") < MinorVersion::of("v1.10.0"));
    }
}
