//! `plural pr …`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand, ValueEnum};
use plural_wire::{Client, ListPullRequests, PAGE_SIZE, PrPhase, PrStatus, PullRequest, all_pages};

use crate::{
    args::{ConnectionArgs, ListOutputArgs},
    connect::connect,
    error::CliError,
    key::{self, ClusterKey, ServiceKey},
    output::{self, Row, age, or_dash},
    pr_automations::{self, PrAutomationsArgs},
    pr_governances::{self, PrGovernancesArgs},
    pr_instances::{self, PrInstancesArgs, PrOutdatedArgs, PrUninstallArgs, PrUpgradeArgs},
    pr_life::{self, PrCloseArgs, PrDescribeArgs, PrRefreshArgs},
    pr_merge::{self, PrMergeArgs, PrWindowsArgs},
    pr_open::{self, PrCreateArgs, PrPreviewArgs},
    pr_plan::{self, PrPlanArgs, PrReleaseArgs, PrReplanArgs},
    pr_test::{self, ContractsArgs, TemplateArgs, TestArgs},
    stacks,
    terminal::Terminal,
    watch::watch,
};

const NOTHING: &str = "no pull requests found";

/// Pull requests, and the automations that open them
#[derive(Debug, Args)]
#[command(visible_alias = "pull-requests", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct PrArgs {
    #[command(flatten)]
    connection: ConnectionArgs,

    #[command(subcommand)]
    command: PrCommand,
}

#[derive(Debug, Subcommand)]
enum PrCommand {
    List(PrListArgs),
    Describe(PrDescribeArgs),
    Create(PrCreateArgs),
    Preview(PrPreviewArgs),
    Plan(PrPlanArgs),
    Replan(PrReplanArgs),
    Release(PrReleaseArgs),
    Merge(PrMergeArgs),
    Windows(PrWindowsArgs),
    Close(PrCloseArgs),
    Refresh(PrRefreshArgs),
    Automations(PrAutomationsArgs),
    Governance(PrGovernancesArgs),
    Instances(PrInstancesArgs),
    Outdated(PrOutdatedArgs),
    Upgrade(PrUpgradeArgs),
    Uninstall(PrUninstallArgs),
    Test(TestArgs),
    Template(TemplateArgs),
    Contracts(ContractsArgs),
}

impl PrArgs {
    /// Whether it prints a patch, which must come as it is: one whose line ends are escaped is another one.
    pub(crate) fn prints_a_patch(&self) -> bool {
        match &self.command {
            PrCommand::Preview(args) => args.prints_a_patch(),
            PrCommand::Instances(args) => args.prints_a_patch(),
            PrCommand::Upgrade(args) => args.prints_a_patch(),
            PrCommand::Uninstall(args) => args.prints_a_patch(),
            PrCommand::Test(args) => args.prints_a_patch(),
            PrCommand::Template(args) => args.prints_a_patch(),
            PrCommand::Contracts(args) => args.prints_a_patch(),
            PrCommand::List(_)
            | PrCommand::Describe(_)
            | PrCommand::Create(_)
            | PrCommand::Plan(_)
            | PrCommand::Replan(_)
            | PrCommand::Release(_)
            | PrCommand::Merge(_)
            | PrCommand::Windows(_)
            | PrCommand::Close(_)
            | PrCommand::Refresh(_)
            | PrCommand::Automations(_)
            | PrCommand::Governance(_)
            | PrCommand::Outdated(_) => false,
        }
    }
}

/// The status of a pull request
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StatusArg {
    /// Neither merged nor closed yet
    Open,
    /// It was merged
    Merged,
    /// It was closed without a merge
    Closed,
}

impl From<StatusArg> for PrStatus {
    fn from(status: StatusArg) -> Self {
        match status {
            StatusArg::Open => Self::Open,
            StatusArg::Merged => Self::Merged,
            StatusArg::Closed => Self::Closed,
        }
    }
}

/// List the pull requests that the console opened, of the projects that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural pr list
  plural pr list --status open --project shop
  plural pr list --service blue/web
  plural pr list --status open --watch"
)]
struct PrListArgs {
    /// Only those with this status
    #[arg(long, value_enum, value_name = "STATUS")]
    status: Option<StatusArg>,

    /// Only those of this project: its name or id
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,

    /// Only those about this service: CLUSTER/NAME or its id
    #[arg(long, value_name = "SERVICE")]
    service: Option<ServiceKey>,

    /// Only those about this stack: its name or id
    #[arg(long, value_name = "STACK")]
    stack: Option<String>,

    /// Only those about this cluster, or a service on it: its handle or id
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<ClusterKey>,

    /// Only those with this in their title, repository or address
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,

    /// Keep running and print what changes
    #[arg(short, long)]
    watch: bool,

    #[command(flatten)]
    output: ListOutputArgs,
}

impl Row for PullRequest {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["TITLE", "STATUS", "REPOSITORY", "CREATOR", "AGE", "URL", "ID"], 6);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("pull-request/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(self.title.as_deref()),
            or_dash(self.status.map(PrStatus::as_str).or(self.phase.map(PrPhase::as_str))),
            or_dash(self.repository.as_deref()),
            or_dash(self.creator.as_deref()),
            age(self.inserted_at, now),
            or_dash(Some(&self.url)),
            self.id.clone(),
        ]
    }
}

pub(crate) async fn run(
    PrArgs { connection, command }: PrArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    // Connects only where it is used: the first three need no console.
    macro_rules! connected {
        ($run:path, $args:expr) => {
            $run($args, &connect(&connection, terminal)?.client, terminal).await
        };
    }
    match command {
        PrCommand::Test(args) => pr_test::test(args, terminal),
        PrCommand::Template(args) => pr_test::template(args, terminal),
        PrCommand::Contracts(args) => pr_test::contracts(args, terminal),
        PrCommand::List(args) => connected!(list, args),
        PrCommand::Describe(args) => connected!(pr_life::describe, args),
        PrCommand::Merge(args) => connected!(pr_merge::merge, args),
        PrCommand::Windows(args) => connected!(pr_merge::windows, args),
        PrCommand::Close(args) => connected!(pr_life::close, args),
        PrCommand::Refresh(args) => connected!(pr_life::refresh, args),
        PrCommand::Create(args) => connected!(pr_open::create, args),
        PrCommand::Preview(args) => connected!(pr_open::preview, args),
        PrCommand::Plan(args) => connected!(pr_plan::plan, args),
        PrCommand::Replan(args) => connected!(pr_plan::replan, args),
        PrCommand::Release(args) => connected!(pr_plan::release, args),
        PrCommand::Automations(args) => connected!(pr_automations::run, args),
        PrCommand::Governance(args) => connected!(pr_governances::run, args),
        PrCommand::Instances(args) => connected!(pr_instances::run, args),
        PrCommand::Outdated(args) => connected!(pr_instances::outdated, args),
        PrCommand::Upgrade(args) => connected!(pr_instances::upgrade, args),
        PrCommand::Uninstall(args) => connected!(pr_instances::uninstall, args),
    }
}

async fn list(
    PrListArgs { status, project, service, stack, cluster, query, watch: watching, output }: PrListArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let project_id = key::project_id(client, project.as_deref()).await?;
    let service_id = match service {
        Some(service) => Some(service.get(client).await?.service.id),
        None => None,
    };
    let stack_id = match stack {
        Some(stack) => Some(stacks::find(&stack, client).await?.id),
        None => None,
    };
    let cluster_id = match cluster {
        Some(cluster) => Some(cluster.get(client).await?.id),
        None => None,
    };
    let page = |after| ListPullRequests {
        after,
        first: PAGE_SIZE,
        project_id: project_id.clone(),
        status: status.map(PrStatus::from),
        service_id: service_id.clone(),
        stack_id: stack_id.clone(),
        cluster_id: cluster_id.clone(),
        q: query.clone(),
    };
    let look = async || all_pages(client, page).await;
    if watching {
        return watch(&output, NOTHING, terminal, look).await;
    }
    output::list(&look().await?, &output, NOTHING, terminal)
}
