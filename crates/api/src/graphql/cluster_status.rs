//! How a cluster is, as clients of the original console ask for it.

use async_graphql::SimpleObject;
use chrono::{DateTime, Utc};
use plural_core::cluster::Cluster;

use super::error::{List, list};

/// How a cluster is.
#[derive(SimpleObject)]
pub(crate) struct ClusterStatus {
    /// One condition, `Ready`.
    conditions: List<ClusterCondition>,
}

/// Something about a cluster that is true or not, as Kubernetes writes conditions.
#[derive(SimpleObject)]
pub(crate) struct ClusterCondition {
    /// What: `Ready`.
    #[graphql(name = "type")]
    kind: Option<String>,
    /// `True` or `False`.
    status: Option<String>,
    /// Why, for programs: `Connected`, `Disconnected`, `NeverConnected`.
    reason: Option<String>,
    /// Why, for people.
    message: Option<String>,
}

impl ClusterStatus {
    /// That of a cluster at `now`.
    pub(crate) fn of(cluster: &Cluster, now: DateTime<Utc>) -> Self {
        let (status, reason, message) = match cluster.pinged_at {
            None => ("False", "NeverConnected", "no agent of the cluster has reported yet"),
            Some(_) if cluster.is_healthy(now) => ("True", "Connected", "the agent reports"),
            Some(_) => ("False", "Disconnected", "the agent has not reported for five minutes; see pingedAt"),
        };
        let condition = ClusterCondition {
            kind: Some("Ready".to_owned()),
            status: Some(status.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
        };
        Self { conditions: list([condition]) }
    }
}
