//! What a person does to a service besides changing it: revisions, rollback, release, pause, resume,
//! detach, clone, events.

use chrono::{DateTime, Utc};
use clap::Args;
use plural_wire::{
    Client, CloneService, ConfigAttributes, DetachServiceDeployment, ListServiceEvents, ListServiceRevisions,
    MarkAgentUpgrade, PauseService, PinUntil, ReleaseService, ResumeService, RevisionDetails,
    RollbackService, RotateServiceSeed, ServiceCloneAttributes, ServiceDeployment, ServiceDetails,
    ServiceEvent,
};
use serde::Serialize;

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs, WaitArgs},
    configuration::plain,
    error::CliError,
    key::{self, ClusterKey, ServiceKey, parse_pair},
    output::{self, Row, age, counted, or_dash},
    services::{address, short_commit, until_healthy},
    terminal::Terminal,
};

/// List a service's revisions
#[derive(Debug, Args)]
#[command(
    visible_alias = "history",
    after_help = "Examples:
  plural cd services revisions blue/web
  plural cd services revisions blue/web --last 50 -o json"
)]
pub(crate) struct ServiceRevisionsArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// How many, the newest
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=100), value_name = "N")]
    pub(crate) last: i64,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Roll a service back to a revision and pin it there
///
/// Without REVISION it is the last one at another commit at which the service was healthy: `revisions` shows which that is.
/// New commits wait until `plural cd services release`, or, with --until-next-commit, until the next one that changes
/// the service. Every list and the service's warnings say that it is pinned.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services rollback blue/web --wait             # to the last healthy revision at another commit
  plural cd services rollback blue/web --dry-run          # which one is that?
  plural cd services rollback blue/web 0190b8a2-7c11-7def-8000-0123456789ab
  plural cd services rollback blue/web --until-next-commit")]
pub(crate) struct ServiceRollbackArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// The revision's id; by default the last one at another commit that was healthy
    #[arg(value_name = "REVISION")]
    pub(crate) revision: Option<String>,

    /// Only say which revision that is
    #[arg(long, conflicts_with = "wait")]
    pub(crate) dry_run: bool,

    /// Go on by itself with the next commit that changes the service
    #[arg(long)]
    pub(crate) until_next_commit: bool,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A service, and how to print it
#[derive(Debug, Args)]
pub(crate) struct OneService {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Unpin a service so that it follows its newest revision
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services release blue/web")]
pub(crate) struct ServiceReleaseArgs {
    #[command(flatten)]
    pub(crate) one: OneService,
}

/// Mark a service as the upgrade of its cluster's agent
///
/// It reaches the agent's own namespace, which no other service does, and the limits of its project do not hold for it. Only
/// administrators of the installation may mark a service, and change it from then on. A cluster has one such service at most.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services agent-upgrade blue/plural-agent
  plural cd services agent-upgrade blue/plural-agent --off")]
pub(crate) struct ServiceAgentUpgradeArgs {
    #[command(flatten)]
    pub(crate) one: OneService,

    /// Take the mark off
    #[arg(long)]
    pub(crate) off: bool,
}

/// Pause a service: no apply, no repair, no deletion
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services pause blue/web")]
pub(crate) struct ServicePauseArgs {
    #[command(flatten)]
    pub(crate) one: OneService,
}

/// Resume a paused service
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services resume blue/web")]
pub(crate) struct ServiceResumeArgs {
    #[command(flatten)]
    pub(crate) one: OneService,
}

/// Generate other passwords, keys and certificates: all that the templates of a service draw by chance
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services rotate-seed blue/web
  plural cd services rotate-seed blue/web --yes")]
pub(crate) struct ServiceRotateSeedArgs {
    #[command(flatten)]
    pub(crate) one: OneService,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Detach a service: remove it from the console and leave its objects
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services detach blue/web --yes")]
pub(crate) struct ServiceDetachArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Clone a service to a cluster, including its configuration
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services clone blue/web green/web
  plural cd services clone blue/web blue/web-canary --namespace canary --conf replicas=1
  plural cd services clone @green @blue/web --name web-copy")]
pub(crate) struct ServiceCloneArgs {
    /// The service: CLUSTER/NAME or its id. With --name, the cluster of the copy
    #[arg(value_name = "SERVICE")]
    pub(crate) service: String,

    /// Cluster and name of the copy. With --name, the service
    #[arg(value_name = "CLUSTER/NAME")]
    pub(crate) target: String,

    /// Name of the copy, where the cluster stands first and the service second
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Namespace of the copy; else that of the service
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// Value for templates that the copy is given besides, or instead
    #[arg(long, value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) conf: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// List a service's events
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services events blue/web
  plural cd services events blue/web --last 100 -o json")]
pub(crate) struct ServiceEventsArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// How many, the newest
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=100), value_name = "N")]
    pub(crate) last: i64,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// A revision of a service, which knows whether it is the current one.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    revision: RevisionDetails,
    current: bool,
}

impl Row for Listed {
    const HEADINGS: (&'static [&'static str], usize) = (
        &["REVISION", "CURRENT", "AGE", "COMMIT", "MESSAGE", "HEALTHY", "BY", "RESTORABLE", "REF", "VERSION"],
        7,
    );

    fn id(&self) -> &str {
        &self.revision.id
    }

    fn name(&self) -> String {
        self.revision.name()
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let mut cells = self.revision.cells(now);
        cells.insert(1, if self.current { "yes" } else { "" }.into());
        cells
    }
}

impl Row for RevisionDetails {
    const HEADINGS: (&'static [&'static str], usize) = (
        &["REVISION", "AGE", "COMMIT", "MESSAGE", "HEALTHY", "BY", "RESTORABLE", "REF", "VERSION", "AUTHOR"],
        6,
    );

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("revision/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            self.id.clone(),
            age(self.inserted_at, now),
            or_dash(self.sha.as_deref().map(|sha| sha.get(..10).unwrap_or(sha))),
            output::cell(self.message.as_deref()),
            if self.healthy_at.is_some() { "yes" } else { "no" }.into(),
            or_dash(self.by.as_deref()),
            if self.restorable == Some(true) { "yes" } else { "no" }.into(),
            or_dash(self.git.as_ref().map(|git| git.reference.as_str())),
            or_dash(Some(&self.version)),
            or_dash(self.author.as_deref()),
        ]
    }
}

impl Row for ServiceEvent {
    const HEADINGS: (&'static [&'static str], usize) = (&["AGE", "WHAT", "BY", "ID"], 3);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("event/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            age(self.inserted_at, now),
            or_dash(Some(&self.action)),
            or_dash(Some(&self.actor_name)),
            self.id.clone(),
        ]
    }
}

pub(crate) async fn revisions(
    args: ServiceRevisionsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let (id, cluster, name) = args.service.variables(client).await?;
    let found = client
        .send(&ListServiceRevisions { id, cluster, name, last: args.last })
        .await
        .map_err(|error| CliError::absent(error, || args.service.missing()))?;
    let service = found.service;
    let mut revisions: Vec<Listed> = found
        .revisions
        .edges
        .into_iter()
        .map(|edge| Listed { current: is_current(&service, &edge.node), revision: edge.node })
        .collect();
    revisions.reverse();
    output::list(&revisions, &args.output, "no revisions", terminal)
}

pub(crate) async fn events(
    args: ServiceEventsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let (id, cluster, name) = args.service.variables(client).await?;
    let found = client
        .send(&ListServiceEvents { id, cluster, name, last: args.last })
        .await
        .map_err(|error| CliError::absent(error, || args.service.missing()))?;
    let mut events: Vec<ServiceEvent> = found.events.edges.into_iter().map(|edge| edge.node).collect();
    events.reverse();
    output::list(&events, &args.output, "no events yet", terminal)
}

pub(crate) async fn rollback(
    args: ServiceRollbackArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let (id, cluster, name) = args.service.variables(client).await?;
    let found = client
        .send(&ListServiceRevisions { id, cluster, name, last: 50 })
        .await
        .map_err(|error| CliError::absent(error, || args.service.missing()))?;
    let service = found.service;
    let address = address(&service);
    let mut all: Vec<RevisionDetails> = found.revisions.edges.into_iter().map(|edge| edge.node).collect();
    all.reverse();
    let current = all.iter().find(|revision| is_current(&service, revision));
    let to = match &args.revision {
        Some(id) => {
            all.iter().find(|revision| revision.id == key::bare_id("revision", id)).ok_or_else(|| {
                CliError::new(format!("service {address} has no revision {id}"))
                    .hint(format!("`plural cd services revisions {address}` lists its revisions"))
            })?
        }
        None => last_good(&all, current).ok_or_else(|| {
            CliError::new(format!(
                "service {address} was never healthy at another commit before this one, as far as is known"
            ))
            .hint(format!("name a revision: `plural cd services revisions {address}` lists them"))
        })?,
    };
    let from = current.map_or_else(|| "nothing".to_owned(), commit);
    let step = format!("service {address}: {from} → {}, revision {}", commit(to), to.id);
    if args.dry_run {
        terminal.say(format_args!("{step} (dry run)"));
        return output::item(to, &args.output.output, terminal);
    }
    let until = if args.until_next_commit { PinUntil::NextCommit } else { PinUntil::Release };
    let revision_id = to.id.clone();
    let mut service = client.send(&RollbackService { id: service.id, revision_id, until }).await?;
    terminal.say(format_args!("{step}"));
    terminal.say(match until {
        PinUntil::NextCommit => "it is pinned there until the next commit that changes it".to_owned(),
        _ => format!("it is pinned there; `plural cd services release {address}` unpins it"),
    });
    if args.wait.wait {
        service = until_healthy(&service, args.wait.timeout, client, terminal).await?;
    }
    output::item(&service, &args.output.output, terminal)
}

/// `1a2b3c4d5e "five"`
fn commit(revision: &RevisionDetails) -> String {
    let sha = or_dash(revision.sha.as_deref().map(short_commit));
    match &revision.message {
        Some(message) => format!("{sha} {:?}", or_dash(Some(message))),
        None => sha,
    }
}

fn is_current(service: &ServiceDeployment, revision: &RevisionDetails) -> bool {
    service.revision.as_ref().is_some_and(|current| current.id == revision.id)
}

/// The last revision before the current one that was healthy, at another commit. `all` are the newest first.
fn last_good<'r>(
    all: &'r [RevisionDetails],
    current: Option<&RevisionDetails>,
) -> Option<&'r RevisionDetails> {
    let (id, sha) = current.map(|current| (current.id.as_str(), current.sha.as_deref())).unwrap_or_default();
    let before = all.iter().skip_while(|revision| !id.is_empty() && revision.id != id);
    before
        .filter(|revision| revision.restorable == Some(true) && revision.healthy_at.is_some())
        .find(|revision| revision.id != id && revision.sha.as_deref() != sha)
}

pub(crate) async fn release(
    args: ServiceReleaseArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let OneService { service, output } = args.one;
    let id = service.get(client).await?.service.id;
    let service = client.send(&ReleaseService { id }).await?;
    terminal.say(format_args!("service {} follows its newest revision again", address(&service)));
    output::item(&service, &output.output, terminal)
}

pub(crate) async fn agent_upgrade(
    args: ServiceAgentUpgradeArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ServiceAgentUpgradeArgs { one: OneService { service, output }, off } = args;
    let id = service.get(client).await?.service.id;
    let service = client.send(&MarkAgentUpgrade { id, marked: !off }).await?;
    terminal.say(if off {
        format!("service {} does not reach the agent's namespace any more", address(&service))
    } else {
        format!("service {} is the upgrade of its cluster's agent", address(&service))
    });
    output::item(&service, &output.output, terminal)
}

pub(crate) async fn pause(
    args: ServicePauseArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let OneService { service, output } = args.one;
    let id = service.get(client).await?.service.id;
    let service = client.send(&PauseService { id }).await?;
    terminal
        .say(format_args!("service {} is paused; `plural cd services resume` resumes it", address(&service)));
    output::item(&service, &output.output, terminal)
}

pub(crate) async fn resume(
    args: ServiceResumeArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let OneService { service, output } = args.one;
    let id = service.get(client).await?.service.id;
    let service = client.send(&ResumeService { id }).await?;
    terminal.say(format_args!("service {} is resumed", address(&service)));
    output::item(&service, &output.output, terminal)
}

pub(crate) async fn rotate_seed(
    args: ServiceRotateSeedArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ServiceRotateSeedArgs { one: OneService { service, output }, confirm } = args;
    let service = service.get(client).await?.service;
    let plan = format!(
        "everything that the templates of service {} generate becomes another: passwords, keys, certificates",
        address(&service)
    );
    terminal.confirm(&plan, confirm.yes)?;
    let service = client.send(&RotateServiceSeed { id: service.id }).await?;
    terminal.say(format_args!("service {} generates other secrets from now on", address(&service)));
    output::item(&service, &output.output, terminal)
}

pub(crate) async fn detach(
    args: ServiceDetachArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ServiceDetails { service, components, .. } = args.service.get(client).await?;
    let address = address(&service);
    let plan = forgotten(&address, components.len());
    terminal.confirm(&plan, args.confirm.yes)?;
    client.send(&DetachServiceDeployment { id: service.id }).await?;
    terminal.say(format_args!("service {address} detached"));
    Ok(())
}

/// What is confirmed before a service is detached.
pub(crate) fn forgotten(address: &str, objects: usize) -> String {
    match objects {
        0 => format!("remove service {address} from the console"),
        all => format!("remove service {address} from the console and leave its {}", counted(all, "object")),
    }
}

pub(crate) async fn clone(
    args: ServiceCloneArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ServiceCloneArgs { service, target, name, namespace, conf, output } = args;
    let (service, cluster, name) = if let Some(name) = &name {
        (&target, service.as_str(), name.as_str())
    } else {
        let split = target.rsplit_once('/');
        let (cluster, name) =
            split.ok_or_else(|| CliError::usage(format!("{target:?} must be CLUSTER/NAME")))?;
        (&service, cluster, name)
    };
    let service: ServiceKey = service.parse().map_err(CliError::usage)?;
    let cluster: ClusterKey = cluster.parse().map_err(CliError::usage)?;
    let service_id = service.get(client).await?.service.id;
    let cluster_id = cluster.get(client).await?.id;
    let configuration: Vec<ConfigAttributes> =
        conf.into_iter().map(|(name, value)| plain(name, value)).collect();
    let attributes = ServiceCloneAttributes {
        name: name.to_owned(),
        namespace,
        configuration: (!configuration.is_empty()).then_some(configuration),
    };
    let copy = client.send(&CloneService { cluster_id, service_id, attributes }).await?;
    output::item(&copy, &output.output, terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(id: &str, sha: &str, healthy: bool) -> RevisionDetails {
        RevisionDetails {
            id: id.into(),
            version: "1".into(),
            sha: Some(sha.into()),
            author: None,
            message: None,
            git: None,
            by: None,
            restorable: Some(true),
            healthy_at: healthy.then_some(DateTime::UNIX_EPOCH),
            inserted_at: None,
        }
    }

    #[test]
    fn a_rollback_goes_to_what_was_healthy_at_another_commit() {
        let mut all = vec![
            revision("6", "revert", true),
            revision("5", "revert", true),
            revision("4", "broken", false),
            revision("3", "good", true),
            revision("2", "good", false),
            revision("1", "first", true),
        ];
        let from = |all: &[RevisionDetails], id: &str| {
            let current = all.iter().find(|revision| revision.id == id);
            last_good(all, current).map(|revision| revision.id.clone())
        };
        assert_eq!(from(&all, "6").as_deref(), Some("3"), "other settings of the same commit undo nothing");
        assert_eq!(from(&all, "4").as_deref(), Some("3"));
        assert_eq!(from(&all, "3").as_deref(), Some("1"));
        assert_eq!(from(&all, "1"), None);
        all[3].restorable = Some(false);
        assert_eq!(from(&all, "6").as_deref(), Some("1"));
    }
}
