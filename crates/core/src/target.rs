//! Which clusters something is meant for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, ClusterDistro, check_tags};
use crate::cluster_tags::TagLevel;
use crate::error::{Error, Result};
use crate::ids::{ClusterId, ProjectId};

/// A choice of clusters: everything that is said must hold. Nothing said means every cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterTarget {
    /// Tags that a cluster must have, with these values.
    pub tags: BTreeMap<String, String>,
    /// Its distribution.
    pub distro: Option<ClusterDistro>,
    /// Its project.
    pub project_id: Option<ProjectId>,
    /// Clusters that are left out whatever else holds.
    pub ignore: Vec<ClusterId>,
}

impl ClusterTarget {
    /// Most clusters that can be left out by name: more are better told by a tag.
    const MAX_IGNORED: usize = 1000;

    /// Checks sizes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a tag without a name, or for too long a list.
    pub fn check(&self) -> Result<()> {
        if self.tags.keys().any(String::is_empty) {
            return Err(Error::invalid("attributes.tags", "must not hold a tag without a name"));
        }
        check_tags("attributes.tags", &self.tags)?;
        if self.ignore.len() > Self::MAX_IGNORED {
            return Err(Error::invalid(
                "attributes.ignoreClusters",
                format!("must not name more than {} clusters; exclude them by a tag", Self::MAX_IGNORED),
            ));
        }
        Ok(())
    }

    /// The cluster is meant. One that is being deleted never is, nor one whose tags were set by somebody who may not decide that.
    pub fn matches(&self, cluster: &Cluster) -> bool {
        let level = |name: &String| cluster.tag_levels.get(name).copied().unwrap_or(TagLevel::Installation);
        cluster.deleted_at.is_none()
            && !self.ignore.contains(&cluster.id)
            && self.project_id.is_none_or(|id| id == cluster.project_id)
            && self.distro.is_none_or(|distro| cluster.distro == Some(distro))
            && has_tags(cluster, &self.tags)
            && self.tags.keys().all(|name| level(name) >= self.level())
    }

    /// Who may set the tags that this chooses by: whoever may change what it belongs to.
    pub fn level(&self) -> TagLevel {
        match self.project_id {
            None => TagLevel::Installation,
            Some(_) => TagLevel::Project,
        }
    }
}

/// The cluster has all of these tags with these values.
pub(crate) fn has_tags(cluster: &Cluster, tags: &BTreeMap<String, String>) -> bool {
    tags.iter().all(|(name, value)| cluster.tags.get(name) == Some(value))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::cluster::ClusterFacts;

    #[test]
    fn all_that_is_said_must_hold() {
        let now = DateTime::UNIX_EPOCH;
        let cluster = Cluster {
            id: ClusterId::new(),
            name: "c".parse().unwrap(),
            handle: "c".parse().unwrap(),
            project_id: ProjectId::new(),
            tags: [("stage".to_owned(), "prod".to_owned()), ("tier".to_owned(), "gold".to_owned())].into(),
            tag_levels: BTreeMap::new(),
            metadata: serde_json::Map::new(),
            distro: Some(ClusterDistro::Eks),
            version: None,
            facts: ClusterFacts::default(),
            agent_contract: None,
            protect: false,
            pinged_at: None,
            deleted_at: None,
            created_at: now,
            updated_at: now,
        };
        let tags = |tags: &[(&str, &str)]| ClusterTarget {
            tags: tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            ..ClusterTarget::default()
        };
        let meant = |target: &ClusterTarget| target.matches(&cluster);
        assert!(meant(&ClusterTarget::default()));
        assert!(meant(&tags(&[("stage", "prod"), ("tier", "gold")])));
        assert!(!meant(&tags(&[("stage", "prod"), ("tier", "iron")])), "all of them, not one");
        assert!(!meant(&tags(&[("region", "eu")])));
        let of = |distro| ClusterTarget { distro: Some(distro), ..tags(&[("stage", "prod")]) };
        assert!(meant(&of(ClusterDistro::Eks)) && !meant(&of(ClusterDistro::K3s)));
        let project = |id| ClusterTarget { project_id: Some(id), ..ClusterTarget::default() };
        assert!(meant(&project(cluster.project_id)) && !meant(&project(ProjectId::new())));
        let ignore = ClusterTarget { ignore: vec![cluster.id], ..tags(&[("stage", "prod")]) };
        assert!(!meant(&ignore));
        let leaving = Cluster { deleted_at: Some(now), ..cluster.clone() };
        assert!(!ClusterTarget::default().matches(&leaving));
        assert!(tags(&[("", "x")]).check().is_err());
        // Of whoever may change what chooses.
        let set_by = |level| Cluster { tag_levels: [("stage".to_owned(), level)].into(), ..cluster.clone() };
        let everywhere = tags(&[("stage", "prod")]);
        let here = ClusterTarget { project_id: Some(cluster.project_id), ..everywhere.clone() };
        for (level, by_installation, by_project) in [
            (TagLevel::Cluster, false, false),
            (TagLevel::Project, false, true),
            (TagLevel::Installation, true, true),
        ] {
            assert_eq!(everywhere.matches(&set_by(level)), by_installation, "{level:?}");
            assert_eq!(here.matches(&set_by(level)), by_project, "{level:?}");
        }
        assert!(tags(&[("tier", "gold")]).matches(&set_by(TagLevel::Cluster)), "another tag is meant");
    }
}
