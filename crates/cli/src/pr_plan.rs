//! `plural pr plan`: what a commit would do on every cluster, before it is merged.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use plural_wire::{
    Client, CreateFleetPlan, FleetPlan, FleetPlanBrief, FleetPlanCluster, FleetPlanCounts, FleetPlanPart,
    FleetPlanPartState, FleetPlanPhase, FleetPlanRun, FleetPlanStack, GetFleetPlan, ListFleetPlans,
    PAGE_SIZE, ReleaseFleetPlan, ReplanPullRequest, StackRunPlan, all_pages,
};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    format::Format,
    key::{self, RepositoryKey, parse_duration},
    output::{self, Row, counted, or_dash},
    plain::one_line,
    pr_life, table,
    terminal::Terminal,
    wait::{self, Observed},
};

/// Show what a commit would do on every cluster that it affects, before it is merged
///
/// The console finds out which services of the repository the commit affects. The agents of their clusters say what a sync would do there:
/// they apply every object that differs as a dry run, so that policies and limits apply. Nothing is applied. Needs write access
/// to the repository; you are shown the services that you may see. Without --watch, the plan is requested and its id is printed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr plan https://git.example.com/acme/apps.git --commit 4f2c1e9 --base main --watch
  plural pr plan https://git.example.com/acme/apps.git --commit feature/replicas --watch -o json")]
pub(crate) struct PrPlanArgs {
    /// The git repository: its address or its id
    #[arg(value_name = "REPOSITORY")]
    repository: RepositoryKey,

    /// The commit to plan; also a branch or a tag
    #[arg(long, value_name = "COMMIT")]
    commit: String,

    /// The branch that it is to be merged into: only services that follow this branch are planned, with what differs from it. By default all
    /// services of the repository are, with what differs from the commits that they run
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,

    /// Wait until the agents have answered
    #[arg(long)]
    watch: bool,

    /// How long to wait with --watch: 90s, 5m, 1h
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "DURATION")]
    timeout: Duration,

    #[command(flatten)]
    output: OutputArgs,
}

/// Plan again the services that an open pull request affects
///
/// The console does so by itself, within minutes, when the target branch moves in a way that changes the result. This does it at once.
/// Needs write access to the pull request's project; for the commit of a fork, the action approve. Without --watch, the id of the
/// plan is printed. Where the console has the pull request's repository several times, there is a plan for each.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr replan 0190b8a2-7c11-7def-8000-0123456789ab --watch
  plural pr replan https://github.com/acme/shop/pull/7 -o json")]
pub(crate) struct PrReplanArgs {
    /// Its id or its address
    #[arg(value_name = "PULL-REQUEST")]
    pull_request: String,

    /// Wait until the agents have answered
    #[arg(long)]
    watch: bool,

    /// How long to wait with --watch: 90s, 5m, 1h
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "DURATION")]
    timeout: Duration,

    #[command(flatten)]
    output: ListOutputArgs,
}

/// Release the commit of a fork, so that the services that its pull request affects are planned
///
/// What a fork wrote is not rendered with the values of your services before somebody has read it. Needs the action approve in the
/// repository's project. Releases this commit, and none that comes after it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr release 0190b8a2-7c11-7def-8000-0123456789ab --commit 4f2c1e9a7b21d3c5e6f708192a3b4c5d6e7f8091 --yes")]
pub(crate) struct PrReleaseArgs {
    /// The id of the pull request
    #[arg(value_name = "PULL-REQUEST")]
    pull_request: String,

    /// The commit that you read, in full
    #[arg(long, value_name = "COMMIT")]
    commit: String,

    #[command(flatten)]
    confirm: ConfirmArgs,

    #[command(flatten)]
    output: OutputArgs,
}

impl Row for FleetPlanPart {
    const HEADINGS: (&'static [&'static str], usize) = (
        &[
            "CLUSTER",
            "SERVICE",
            "STATE",
            "CREATED",
            "CHANGED",
            "DELETED",
            "BLOCKED",
            "ERROR",
            "HOOKS",
            "UNCHANGED",
            "ID",
        ],
        8,
    );

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        let (cluster, service) = (self.handle.as_deref(), self.name.as_deref());
        format!("service/{}/{}", cluster.unwrap_or_default(), service.unwrap_or_default())
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let is_planned = self.state == Some(FleetPlanPartState::Planned);
        let number = |of: fn(&FleetPlanCounts) -> Option<i64>| match self.counts.as_ref().and_then(of) {
            Some(number) if is_planned => number.to_string(),
            _ => or_dash(None),
        };
        vec![
            or_dash(self.handle.as_deref()),
            or_dash(self.name.as_deref()),
            or_dash(self.state.map(FleetPlanPartState::as_str)),
            number(|counts| counts.created),
            number(|counts| counts.changed),
            number(|counts| counts.deleted),
            number(|counts| counts.blocked),
            or_dash(self.error.as_deref()),
            number(|counts| counts.hooks),
            number(|counts| counts.unchanged),
            self.id.clone(),
        ]
    }
}

pub(crate) async fn plan(
    PrPlanArgs { repository, commit, base, watch, timeout, output }: PrPlanArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let repository_id = repository.get(client).await?.id;
    let ask = CreateFleetPlan { repository_id, reference: commit, base, pull_request_id: None };
    let mut plan = client.send(&ask).await?;
    if watch {
        plan = watched(plan, timeout, client, terminal).await?;
    }
    print(&plan, &output.output, terminal)
}

/// Waits for the plan of a preview, and prints it: in sum for each cluster, and by service.
pub(crate) async fn preview(
    plan: FleetPlan,
    timeout: Duration,
    output: &OutputArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let plan = watched(plan, timeout, client, terminal).await?;
    print(&plan, &output.output, terminal)
}

pub(crate) async fn replan(
    PrReplanArgs { pull_request, watch, timeout, output }: PrReplanArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let id = pr_life::find(&pull_request, client).await?.id;
    let mut plans = client.send(&ReplanPullRequest { id }).await?;
    if watch {
        let begun = std::mem::take(&mut plans);
        for plan in begun {
            plans.push(watched(plan, timeout, client, terminal).await?);
        }
    }
    match &output.output {
        format @ (Format::Name | Format::Table | Format::Wide) => {
            plans.iter().try_for_each(|plan| print(plan, format, terminal))
        }
        Format::Json | Format::Yaml | Format::JsonPath(_) | Format::Columns(_) => {
            output::program(&plans, &output, terminal)
        }
    }
}

pub(crate) async fn release(
    PrReleaseArgs { pull_request, commit, confirm, output }: PrReleaseArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let pull_request_id = key::bare_id("pull-request", &pull_request);
    let page =
        |after| ListFleetPlans { after, first: PAGE_SIZE, pull_request_id: Some(pull_request_id.to_owned()) };
    let all = all_pages(client, page).await?;
    let waits = |plan: &&FleetPlanBrief| plan.phase == Some(FleetPlanPhase::Held);
    let held: Vec<&FleetPlanBrief> = all.iter().filter(waits).collect();
    let Some(plan) = held.iter().find(|plan| plan.reference.as_deref() == Some(commit.as_str())) else {
        let heads: Vec<String> = held.iter().map(|plan| or_dash(plan.reference.as_deref())).collect();
        return Err(match heads.as_slice() {
            [] => CliError::new("no plan of this pull request waits for a release"),
            heads => CliError::new(format!("another commit waits for a release: {}", heads.join(", ")))
                .hint("read that commit, and release it"),
        });
    };
    let what = format!("let commit {commit} be rendered with the values of the services that it reaches");
    terminal.confirm(&what, confirm.yes)?;
    let released = client.send(&ReleaseFleetPlan { id: plan.id.clone(), sha: commit }).await?;
    print(&released, &output.output, terminal)
}

async fn watched(
    plan: FleetPlan,
    timeout: Duration,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<FleetPlan, CliError> {
    let ask = GetFleetPlan { id: plan.id };
    wait::until("the plan", timeout, terminal, async || {
        let now = client.send(&ask).await?;
        Ok(match now.phase {
            Some(FleetPlanPhase::Done) => match now.stacks.iter().filter(|stack| is_open(stack)).count() {
                0 => Observed::Done(now),
                open => Observed::NotYet(format!("{} to be planned", counted(open, "stack"))),
            },
            Some(FleetPlanPhase::Failed) => {
                let why = or_dash(now.error.as_deref());
                let what = if now.expires_at.is_some() { "the preview" } else { "the commit" };
                Observed::Never(CliError::new(format!("{what} cannot be planned: {why}")))
            }
            Some(FleetPlanPhase::Superseded) => Observed::Never(CliError::new(if now.expires_at.is_some() {
                "a newer preview of yours with the same automation took its place"
            } else {
                "a newer plan of the same commit, branch or tag took its place"
            })),
            Some(
                FleetPlanPhase::Held
                | FleetPlanPhase::Looking
                | FleetPlanPhase::Asked
                | FleetPlanPhase::Unknown,
            )
            | None => Observed::NotYet(standing(&now)),
        })
    })
    .await
}

/// Nothing is known yet of how a stack is planned. Its run may take its time, and is not waited for.
fn is_open(FleetPlanStack { stack: _, run, problem }: &FleetPlanStack) -> bool {
    run.is_none() && problem.is_none()
}

/// How far it is, in words.
fn standing(plan: &FleetPlan) -> String {
    let Some(reach) = plan.reach.as_ref().filter(|reach| !reach.parts.is_empty()) else {
        let what = if plan.expires_at.is_some() { "preview" } else { "commit" };
        return format!("the console looks which services the {what} reaches");
    };
    let is_waiting = |part: &&FleetPlanPart| part.state == Some(FleetPlanPartState::Waiting);
    let waiting = reach.parts.iter().filter(is_waiting).count();
    format!("{waiting} of {} have no answer yet", counted(reach.parts.len(), "service"))
}

fn print(plan: &FleetPlan, format: &Format, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let parts = plan.reach.as_ref().map(|reach| reach.parts.as_slice()).unwrap_or_default();
    match format {
        Format::Name => Ok(writeln!(terminal.out, "fleet-plan/{}", one_line(&plan.id))?),
        Format::Table | Format::Wide => {
            if plan.phase != Some(FleetPlanPhase::Done) {
                let phase = or_dash(plan.phase.map(FleetPlanPhase::as_str));
                terminal.say(format_args!("plan {} is {phase}", or_dash(Some(&plan.id))));
                return Ok(());
            }
            for line in summary(plan) {
                terminal.say(line);
            }
            if parts.is_empty() {
                return Ok(());
            }
            let parts: Vec<&FleetPlanPart> = parts.iter().collect();
            let (lines, shown) = output::lines(&parts, *format == Format::Wide, Utc::now());
            table::print(&lines, shown, true, terminal)
        }
        Format::Json | Format::Yaml | Format::JsonPath(_) | Format::Columns(_) => {
            output::program_one(plan, format, terminal)
        }
    }
}

/// What is said of one cluster.
fn of_cluster(cluster: &FleetPlanCluster) -> String {
    let services = usize::try_from(cluster.services.unwrap_or_default()).unwrap_or_default();
    let mut told = vec![counted(services, "service")];
    let counts = cluster.counts.as_ref();
    let number = |of: fn(&FleetPlanCounts) -> Option<i64>| counts.and_then(of).unwrap_or_default();
    for (count, words) in [
        (number(|counts| counts.created), "created"),
        (number(|counts| counts.changed), "changed"),
        (number(|counts| counts.deleted), "deleted"),
        (number(|counts| counts.blocked), "blocked"),
        (cluster.failed.unwrap_or_default(), "not plannable"),
        (cluster.away.unwrap_or_default(), "with its agent away"),
        (cluster.late.unwrap_or_default(), "without an answer"),
    ] {
        if count > 0 {
            told.push(format!("{count} {words}"));
        }
    }
    format!("{}: {}", or_dash(cluster.handle.as_deref()), told.join(", "))
}

/// What is said of a stack whose code changes.
fn of_stack(stack: &FleetPlanStack) -> String {
    let name = or_dash(stack.stack.as_ref().map(|stack| stack.name.as_str()));
    let told = match (&stack.run, &stack.problem) {
        (Some(FleetPlanRun { number, plan: Some(plan), .. }), _) => {
            let StackRunPlan { add, change, destroy, .. } = plan;
            format!("run {number} plans {add} to add, {change} to change, {destroy} to destroy")
        }
        (Some(run), _) => format!("run {} plans it, and is {}", run.number, run.status.as_str()),
        (None, Some(problem)) => format!("not planned: {}", one_line(problem)),
        (None, None) => "not planned yet".to_owned(),
    };
    format!("stack {name}: {told}")
}

/// The plan in a few lines.
fn summary(plan: &FleetPlan) -> Vec<String> {
    let mut lines = Vec::new();
    let commit: String = plan.sha.as_deref().unwrap_or_default().chars().take(12).collect();
    // That of a preview is in no repository.
    let what = if plan.expires_at.is_some() {
        "the preview".to_owned()
    } else {
        format!("commit {}", or_dash(Some(&commit)))
    };
    let reach = plan.reach.as_ref();
    let parts = reach.map(|reach| reach.parts.len()).unwrap_or_default();
    let clusters = reach.map(|reach| reach.clusters.len()).unwrap_or_default();
    lines.push(format!("{what} reaches {} on {}", counted(parts, "service"), counted(clusters, "cluster")));
    if let (Some(true), Some(base), Some(at)) = (plan.merged, &plan.base, &plan.base_sha) {
        let at: String = at.chars().take(12).collect();
        lines.push(format!("planned as merged into {base} at {at}"));
    }
    if let (Some(at), Some(base)) = (&plan.moved_sha, &plan.base) {
        let at: String = at.chars().take(12).collect();
        lines.push(format!(
            "{base} has moved on to {at} since, which changes it: `plural pr replan` plans it again"
        ));
    }
    let number = |of: fn(&FleetPlanCounts) -> Option<i64>| {
        reach.and_then(|reach| reach.counts.as_ref()).and_then(of).unwrap_or_default()
    };
    let (created, changed) = (number(|counts| counts.created), number(|counts| counts.changed));
    let (deleted, blocked) = (number(|counts| counts.deleted), number(|counts| counts.blocked));
    lines
        .push(format!("objects: {created} created, {changed} changed, {deleted} deleted, {blocked} blocked"));
    // A plan of a commit has them as rows of its table.
    let clusters = reach.map(|reach| reach.clusters.as_slice()).unwrap_or_default();
    if plan.expires_at.is_some() {
        lines.extend(clusters.iter().map(of_cluster));
        lines.extend(plan.stacks.iter().map(of_stack));
    }
    for (count, words) in [
        (plan.composed, "put together from several sources and not looked at"),
        (plan.omitted, "more than one plan holds and left out"),
    ] {
        if let Some(count) = count.filter(|count| *count > 0) {
            lines.push(format!("services {words}: {count}"));
        }
    }
    lines
}
