//! Which services failed, since when, and when they were healthy again.

use std::{cmp::Reverse, collections::HashMap};

use chrono::{DateTime, Utc};
use clap::Args;
use plural_wire::{
    Client, ClusterRef, FailingService, HealthChange, ListFailingServices, ListFailureChanges, PAGE_SIZE,
    ServiceDeploymentStatus, all_pages,
};
use serde::Serialize;

use crate::{
    args::ListOutputArgs,
    audit::parse_time,
    error::CliError,
    key::{self, ClusterKey},
    output::{self, Row, age, or_dash},
    terminal::Terminal,
};

/// List the services that fail, and those that failed lately
///
/// A failure begins when a service becomes FAILED, and is over when it is HEALTHY again. The console keeps the last 100 changes of
/// a service's status, of the last 30 days.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services failures
  plural cd services failures --cluster blue --since 168h
  plural cd services failures --project shop -o json")]
pub(crate) struct ServiceFailuresArgs {
    /// Only on clusters of this project (name or id)
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    /// Only on this cluster: its handle or id
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Option<ClusterKey>,

    /// What began or ended from then on, besides what fails now: a time (2026-01-31T08:00:00Z), or how long ago (90m, 24h)
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "24h")]
    pub(crate) since: DateTime<Utc>,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// How a failure stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Stands {
    /// The service fails.
    Failing,
    /// It does not fail, and was not healthy since.
    Recovering,
    /// It was healthy again.
    Recovered,
}

impl Stands {
    const fn word(self) -> &'static str {
        match self {
            Self::Failing => "FAILING",
            Self::Recovering => "RECOVERING",
            Self::Recovered => "RECOVERED",
        }
    }
}

/// One failure of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    /// The service's id.
    id: String,
    /// `cluster/name`.
    service: String,
    state: Stands,
    /// Absent where that is not known.
    failing_since: Option<DateTime<Utc>>,
    recovered_at: Option<DateTime<Utc>>,
    reason: Option<String>,
}

impl Row for Failure {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["SERVICE", "STATE", "BEGAN", "RECOVERED", "LASTED", "REASON", "ID"], 6);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("service/{}", self.service)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&self.service)),
            self.state.word().to_owned(),
            age(self.failing_since, now),
            age(self.recovered_at, now),
            age(self.failing_since, self.recovered_at.unwrap_or(now)),
            output::cell(self.reason.as_deref()),
            self.id.clone(),
        ]
    }
}

pub(crate) async fn run(
    args: ServiceFailuresArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ServiceFailuresArgs { project, cluster, since, output } = args;
    // What is not there is an error here, where an empty list would mislead.
    let project_id = key::project_id(client, project.as_deref()).await?;
    let cluster_id = match &cluster {
        Some(cluster) => Some(cluster.get(client).await?.id),
        None => None,
    };
    let changes = all_pages(client, |after| ListFailureChanges {
        project_id: project_id.clone(),
        cluster_id: cluster_id.clone(),
        since: Some(since),
        after,
        first: PAGE_SIZE,
    })
    .await?;
    let failing = all_pages(client, |after| ListFailingServices {
        project_id: project_id.clone(),
        cluster_id: cluster_id.clone(),
        after,
        first: PAGE_SIZE,
    })
    .await?;
    output::list(&failures(failing, changes), &output, "no service fails, and none failed lately", terminal)
}

/// The failures of services that fail, and those that the changes, newest first, are of. What goes on comes first, then the newest.
fn failures(failing: Vec<FailingService>, changes: Vec<HealthChange>) -> Vec<Failure> {
    let mut found: Vec<Failure> = failing.into_iter().map(Failure::that_goes_on).collect();
    let place = |(place, one): (usize, &Failure)| ((one.id.clone(), one.failing_since), place);
    let mut places: HashMap<(String, Option<DateTime<Utc>>), usize> =
        found.iter().enumerate().map(place).collect();
    for change in changes {
        let (Some(service), Some(since)) = (change.service, change.failing_since) else { continue };
        let key = (service.id.clone(), Some(since));
        if let Some(known) = places.get(&key).and_then(|place| found.get_mut(*place)) {
            // Of an older change: the newest says more.
            known.reason = known.reason.take().or(change.reason);
            continue;
        }
        places.insert(key, found.len());
        let is_over = change.to == ServiceDeploymentStatus::Healthy;
        found.push(Failure {
            service: address(service.cluster.as_ref(), &service.name),
            id: service.id,
            state: if is_over { Stands::Recovered } else { Stands::Recovering },
            failing_since: Some(since),
            recovered_at: is_over.then_some(change.at),
            reason: change.reason,
        });
    }
    found.sort_by_key(|one| (one.state, Reverse(one.failing_since)));
    found
}

impl Failure {
    fn that_goes_on(service: FailingService) -> Self {
        let FailingService { id, name, failing_since, reason, cluster } = service;
        Self {
            service: address(cluster.as_ref(), &name),
            id,
            state: Stands::Failing,
            failing_since,
            recovered_at: None,
            reason: reason.map(|reason| reason.message),
        }
    }
}

fn address(cluster: Option<&ClusterRef>, name: &str) -> String {
    match cluster {
        Some(cluster) => format!("{}/{name}", cluster.handle.as_deref().unwrap_or(&cluster.id)),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use plural_wire::ServiceAddress;

    use super::*;

    fn at(minute: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(minute * 60, 0).unwrap_or_default()
    }

    fn change(service: &str, to: ServiceDeploymentStatus, minute: i64, since: i64) -> HealthChange {
        let reason = (to == ServiceDeploymentStatus::Failed).then(|| format!("at {minute}"));
        HealthChange {
            id: format!("{service}{minute}"),
            from: ServiceDeploymentStatus::Stale,
            to,
            reason,
            failing_since: Some(at(since)),
            at: at(minute),
            service: Some(ServiceAddress { id: service.into(), name: service.into(), cluster: None }),
        }
    }

    #[test]
    fn changes_of_one_failure_are_one_line() {
        use ServiceDeploymentStatus::{Failed, Healthy};
        let failing = FailingService {
            id: "a".into(),
            name: "a".into(),
            failing_since: Some(at(10)),
            reason: None,
            cluster: None,
        };
        let changes = vec![
            change("a", Failed, 12, 10),
            change("a", Failed, 10, 10),
            change("b", Failed, 9, 8),
            change("c", Healthy, 7, 2),
            change("a", Healthy, 5, 1),
            change("c", Failed, 4, 2),
            change("a", Failed, 1, 1),
        ];
        let found = failures(vec![failing], changes);
        let said: Vec<_> = found
            .iter()
            .map(|one| {
                (one.id.as_str(), one.state, one.failing_since, one.recovered_at, one.reason.as_deref())
            })
            .collect();
        assert_eq!(
            said,
            [
                ("a", Stands::Failing, Some(at(10)), None, Some("at 12")),
                ("b", Stands::Recovering, Some(at(8)), None, Some("at 9")),
                ("c", Stands::Recovered, Some(at(2)), Some(at(7)), Some("at 4")),
                ("a", Stands::Recovered, Some(at(1)), Some(at(5)), Some("at 1")),
            ]
        );
    }
}
