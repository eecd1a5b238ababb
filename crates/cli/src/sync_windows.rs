//! `plural cd sync-windows …`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand, ValueEnum};
use plural_wire::{
    Client, ClusterRef, CreateSyncWindow, DeleteSyncWindow, ListSyncWindows, SyncWindow,
    SyncWindowAttributes, SyncWindowKind,
};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    documents::Kind,
    error::CliError,
    key::{self, ClusterKey, ServiceKey, parse_duration},
    output::{self, Row, or_dash},
    terminal::Terminal,
};

/// Windows in which new commits go on, or wait: list, create, delete
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct SyncWindowsArgs {
    #[command(subcommand)]
    pub(crate) command: SyncWindowCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SyncWindowCommand {
    List(SyncWindowListArgs),
    Create(SyncWindowCreateArgs),
    Delete(SyncWindowDeleteArgs),
}

/// Whose windows
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct OfArgs {
    /// All services of a project: its name or id
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    /// All services of a cluster: its handle or id
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Option<ClusterKey>,

    /// One service: CLUSTER/NAME or its id
    #[arg(long, value_name = "SERVICE")]
    pub(crate) service: Option<ServiceKey>,
}

/// Whose windows, or those of all
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct OfAnyArgs {
    /// Only those of a project: its name or id
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,

    /// Only those of a cluster: its handle or id
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<ClusterKey>,

    /// Only those of a service: CLUSTER/NAME or its id
    #[arg(long, value_name = "SERVICE")]
    service: Option<ServiceKey>,
}

/// List the windows of a project, a cluster or a service, none that it inherits; or those of all that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd sync-windows list
  plural cd sync-windows list --cluster blue
  plural cd sync-windows list --service blue/web -o json"
)]
pub(crate) struct SyncWindowListArgs {
    #[command(flatten)]
    pub(crate) of: OfAnyArgs,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// What a window does while it is open
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindArg {
    /// New commits go on only while one of these is open
    Allow,
    /// New commits wait while one of these is open
    Deny,
}

/// Create a sync window for a project, a cluster or a service
///
/// New commits go on unless a window that denies is open; where there are windows that allow, only while one of them is. A
/// commit that waits goes on by itself when its windows let it, or at once with `plural cd services release`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd sync-windows create deny --cluster blue --schedule '0 22 * * fri' --duration 58h --time-zone Europe/Berlin
  plural cd sync-windows create allow --project default --schedule '0 9 * * mon-fri' --duration 8h --description 'office hours'")]
pub(crate) struct SyncWindowCreateArgs {
    /// Whether new commits go on or wait
    #[arg(value_enum, value_name = "KIND")]
    pub(crate) kind: KindArg,

    #[command(flatten)]
    pub(crate) of: OfArgs,

    /// What it is called; files name windows by it
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// When it opens: minute, hour, day of the month, month, day of the week, as in cron
    #[arg(long, value_name = "CRON")]
    pub(crate) schedule: String,

    /// How long it stays open: 30m, 8h; a week at most
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) duration: std::time::Duration,

    /// Name of the time zone that the schedule is meant in
    #[arg(long, default_value = "UTC", value_name = "ZONE")]
    pub(crate) time_zone: String,

    /// Why there is one
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a sync window of a project, a cluster or a service
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd sync-windows delete 0190b8a2-7c11-7def-8000-0123456789ab --cluster blue --yes")]
pub(crate) struct SyncWindowDeleteArgs {
    /// The window's id
    #[arg(value_name = "ID")]
    pub(crate) window: String,

    #[command(flatten)]
    pub(crate) of: OfArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

impl Row for SyncWindow {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["OF", "KIND", "SCHEDULE", "DURATION", "TIME ZONE", "ID", "NAME", "DESCRIPTION"], 8);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("syncwindow/{}", self.id)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let kind = match self.kind {
            SyncWindowKind::Allow => "allow",
            SyncWindowKind::Deny => "deny",
            SyncWindowKind::Unknown => "unknown",
        };
        vec![
            or_dash(self.of().as_deref()),
            kind.into(),
            or_dash(Some(&self.schedule)),
            length(self.duration),
            or_dash(Some(&self.time_zone)),
            self.id.clone(),
            or_dash(self.name.as_deref()),
            or_dash(self.description.as_deref()),
        ]
    }
}

/// What a window is of, in words.
trait OfWhat {
    fn of(&self) -> Option<String>;
}

impl OfWhat for SyncWindow {
    fn of(&self) -> Option<String> {
        let project = self.project.as_ref().map(|project| format!("project {}", project.name));
        let handle = |cluster: &ClusterRef| cluster.handle.clone().unwrap_or_else(|| cluster.id.clone());
        let cluster = self.cluster.as_ref().map(|cluster| format!("cluster {}", handle(cluster)));
        let service = self.service.as_ref().map(|service| match &service.cluster {
            Some(cluster) => format!("service {}/{}", handle(cluster), service.name),
            None => format!("service {}", service.name),
        });
        project.or(cluster).or(service)
    }
}

/// A length as `--duration` reads it.
fn length(seconds: i64) -> String {
    match seconds {
        seconds if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

/// Ids of the project, the cluster or the service that is named.
#[derive(Debug, Clone)]
pub(crate) struct Of {
    pub(crate) project: Option<String>,
    pub(crate) cluster: Option<String>,
    pub(crate) service: Option<String>,
}

impl OfArgs {
    pub(crate) async fn find(&self, client: &Client) -> Result<Of, CliError> {
        let mut of = Of { project: None, cluster: None, service: None };
        if let Some(project) = &self.project {
            of.project = Some(key::project(client, project).await?.id);
        }
        if let Some(cluster) = &self.cluster {
            of.cluster = Some(cluster.get(client).await?.id);
        }
        if let Some(service) = &self.service {
            of.service = Some(service.get(client).await?.service.id);
        }
        Ok(of)
    }
}

pub(crate) async fn run(
    command: SyncWindowCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        SyncWindowCommand::List(args) => list(args, client, terminal).await,
        SyncWindowCommand::Create(args) => create(args, client, terminal).await,
        SyncWindowCommand::Delete(args) => delete(args, client, terminal).await,
    }
}

async fn list(
    args: SyncWindowListArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let OfAnyArgs { project, cluster, service } = args.of;
    let of = OfArgs { project, cluster, service }.find(client).await?;
    let Of { project: project_id, cluster: cluster_id, service: service_id } = of;
    let windows = client.send(&ListSyncWindows { project_id, cluster_id, service_id }).await?;
    output::list(&windows, &args.output, "no sync windows: new commits are synced at any time", terminal)
}

async fn create(
    args: SyncWindowCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let SyncWindowCreateArgs { kind, of, name, schedule, duration, time_zone, description, output } = args;
    let Of { project: project_id, cluster: cluster_id, service: service_id } = of.find(client).await?;
    let attributes = SyncWindowAttributes {
        name,
        kind: match kind {
            KindArg::Allow => SyncWindowKind::Allow,
            KindArg::Deny => SyncWindowKind::Deny,
        },
        schedule,
        duration: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        time_zone: Some(time_zone),
        description,
    };
    let window = client.send(&CreateSyncWindow { project_id, cluster_id, service_id, attributes }).await?;
    output::item(&window, &output.output, terminal)
}

async fn delete(
    args: SyncWindowDeleteArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let Of { project: project_id, cluster: cluster_id, service: service_id } = args.of.find(client).await?;
    let id = Kind::SyncWindow.bare(&args.window).to_owned();
    terminal.confirm(&format!("delete sync window {id}"), args.confirm.yes)?;
    client.send(&DeleteSyncWindow { id: id.clone(), project_id, cluster_id, service_id }).await?;
    terminal.say(format_args!("sync window {id} deleted"));
    Ok(())
}
