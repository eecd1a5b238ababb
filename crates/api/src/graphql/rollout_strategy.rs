//! How changes move from cluster to cluster, as it was given.

use async_graphql::{ID, SimpleObject};
use plural_core::rollout::Share;

use super::shared::Tag;

/// How changes move from cluster to cluster.
#[derive(Debug, SimpleObject)]
pub(crate) struct RolloutStrategy {
    /// In order; clusters in none of them make the last one.
    cohorts: Vec<Cohort>,
    /// How many clusters may be moving or unwell at once: `3` or `10%`.
    max_unavailable: String,
    /// Seconds that a cohort must stay healthy before the next begins.
    soak_seconds: u32,
    /// Seconds that a cluster may take to become healthy.
    timeout_seconds: u32,
    /// Clusters that may fail before it halts.
    max_failures: u32,
    /// Moves everybody back when it would halt.
    undo: bool,
}

/// One group of clusters that moves together.
#[derive(Debug, SimpleObject)]
pub(crate) struct Cohort {
    /// For people.
    name: String,
    /// Who is in it.
    members: CohortMembers,
}

/// Who is in a cohort: one of these.
#[derive(Debug, Default, SimpleObject)]
pub(crate) struct CohortMembers {
    /// Clusters with this tag.
    tag: Option<Tag>,
    /// So much of all, 1 to 100.
    percent: Option<u8>,
    /// These.
    clusters: Option<Vec<ID>>,
}

impl From<plural_core::rollout::RolloutStrategy> for RolloutStrategy {
    fn from(strategy: plural_core::rollout::RolloutStrategy) -> Self {
        let plural_core::rollout::RolloutStrategy {
            cohorts,
            max_unavailable,
            soak_seconds,
            timeout_seconds,
            max_failures,
            undo,
        } = strategy;
        Self {
            cohorts: cohorts.into_iter().map(Into::into).collect(),
            max_unavailable: match max_unavailable {
                Share::Count(count) => count.to_string(),
                Share::Percent(percent) => format!("{percent}%"),
            },
            soak_seconds,
            timeout_seconds,
            max_failures,
            undo,
        }
    }
}

impl From<plural_core::rollout::Cohort> for Cohort {
    fn from(cohort: plural_core::rollout::Cohort) -> Self {
        let plural_core::rollout::Cohort { name, members } = cohort;
        let members = match members {
            // The API takes one tag for each cohort.
            plural_core::rollout::CohortMembers::Tags(tags) => CohortMembers {
                tag: tags.into_iter().next().map(|(name, value)| Tag { name, value }),
                ..CohortMembers::default()
            },
            plural_core::rollout::CohortMembers::Percent(percent) => {
                CohortMembers { percent: Some(percent), ..CohortMembers::default() }
            }
            plural_core::rollout::CohortMembers::Clusters(ids) => CohortMembers {
                clusters: Some(ids.into_iter().map(|id| id.to_string().into()).collect()),
                ..CohortMembers::default()
            },
        };
        Self { name, members }
    }
}
