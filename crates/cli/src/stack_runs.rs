//! `plural cd stacks plan`, `trigger`, `runs`, `run`, `waiting`, `approve`, `reject`, `cancel`, `restart`, `outputs`.

use std::{fmt::Write as _, time::Duration};

use chrono::{DateTime, Utc};
use plural_wire::{
    ApproveStackRun, CancelStackRun, Client, ClientError, GetStackOutputs, GetStackRun, GetStackRunText,
    ListStackRuns, ListStackRunsWaiting, PAGE_SIZE, PlanStackPullRequest, RejectStackRun, RestartStackRun,
    RunStep, StackOutput, StackPolicyViolation, StackRun, StackRunCost, StackRunDetails, StackRunGroup,
    StackRunKind, StackRunPhase, StackRunPlan, StackRunPlanText, StackRunText, StackStatus, TriggerRun,
    all_pages,
};

use crate::{
    error::CliError,
    key,
    output::{self, Row, age, cell, or_dash},
    plain::one_line,
    stack_run_args::{
        StackApproveArgs, StackCancelArgs, StackOutputsArgs, StackPlanArgs, StackRejectArgs,
        StackRestartArgs, StackRunArgs, StackRunsArgs, StackTriggerArgs, StackWaitingArgs,
    },
    stacks,
    terminal::Terminal,
    wait::{Observed, until},
    watch::{Described, watch, watch_one},
};

const NO_RUNS: &str = "no runs yet; `plural cd stacks trigger STACK` makes one";
const NO_RUNS_OF_STACK: &str = "no runs of the stack itself yet; `plural cd stacks trigger STACK` makes one, and --all shows those of pull \
                                requests, looks for drift, and commands";
const NONE_WAITS: &str = "no run waits for approval";

impl Row for StackRun {
    const HEADINGS: (&'static [&'static str], usize) = (
        &[
            "RUN", "KIND", "STATUS", "PLAN", "COMMIT", "AGE", "BY", "TRIGGER", "PHASE", "ERROR", "DIGEST",
            "ID",
        ],
        7,
    );

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("run/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&called(self))),
            self.kind.as_str().to_owned(),
            self.status.as_str().to_owned(),
            self.plan.as_ref().map_or_else(|| "-".to_owned(), summary),
            or_dash(self.sha.as_deref().map(short).as_deref()),
            age(self.created_at, now),
            or_dash(Some(&self.author)),
            self.trigger.as_str().to_owned(),
            self.phase.as_str().to_owned(),
            cell(self.error.as_deref()),
            or_dash(self.plan.as_ref().map(|plan| plan.digest.as_str())),
            self.id.clone(),
        ]
    }
}

impl Row for StackOutput {
    const HEADINGS: (&'static [&'static str], usize) = (&["NAME", "VALUE", "SENSITIVE"], 3);

    fn id(&self) -> &str {
        &self.name
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let sensitive = self.secret == Some(true);
        let value = if sensitive { "(sensitive)".to_owned() } else { cell(self.json.as_deref()) };
        vec![or_dash(Some(&self.name)), value, if sensitive { "yes" } else { "no" }.to_owned()]
    }
}

/// The first characters of a commit.
pub(crate) fn short(sha: &str) -> String {
    sha.chars().take(8).collect()
}

/// `network/12`.
pub(crate) fn called(run: &StackRun) -> String {
    let stack = run.stack.as_ref().map_or("-", |stack| stack.name.as_str());
    format!("{stack}/{}", run.number)
}

/// What a plan does, as a cell: `+2 ~0 -1`.
fn summary(plan: &StackRunPlan) -> String {
    let StackRunPlan { digest: _, add, change, destroy, other, at: _ } = plan;
    match (add, change, destroy, other) {
        (0, 0, 0, false) => "no changes".to_owned(),
        (0, 0, 0, true) => "outputs, or unknown".to_owned(),
        _ => format!("+{add} ~{change} -{destroy}"),
    }
}

/// The same in words.
fn summary_in_words(plan: &StackRunPlan) -> String {
    let StackRunPlan { digest: _, add, change, destroy, other, at: _ } = plan;
    match (add, change, destroy, other) {
        (0, 0, 0, false) => "no changes".to_owned(),
        (0, 0, 0, true) => "changes that the tool does not count".to_owned(),
        _ => format!("{add} to add, {change} to change, {destroy} to destroy"),
    }
}

fn changes(plan: &StackRunPlan) -> bool {
    plan.add > 0 || plan.change > 0 || plan.destroy > 0 || plan.other
}

/// The run is over.
pub(crate) fn is_over(status: StackStatus) -> bool {
    match status {
        StackStatus::Successful | StackStatus::Failed | StackStatus::Cancelled => true,
        StackStatus::Queued
        | StackStatus::Pending
        | StackStatus::Running
        | StackStatus::PendingApproval
        | StackStatus::Unknown => false,
    }
}

/// The run that a person names: by its id, as STACK/NUMBER, or by a stack, for its newest one.
pub(crate) async fn find(text: &str, client: &Client) -> Result<StackRunDetails, CliError> {
    let hint = "`plural cd stacks runs STACK` lists the runs of a stack";
    let missing = || CliError::missing(format_args!("run {text:?}"), hint);
    let bare = key::bare_id("run", text);
    if key::is_id(bare) {
        match client.send(&GetStackRun { id: bare.to_owned() }).await {
            Ok(run) => return Ok(run),
            // It may be a stack's.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let numbered = bare.strip_prefix("stack/").unwrap_or(bare).rsplit_once('/');
    let id = if let Some((stack, number)) = numbered {
        let Ok(number) = number.parse::<i64>() else {
            return Err(CliError::usage(format!("{text:?} is no run"))
                .hint("a run is named STACK/NUMBER, by its id, or by a stack, for its newest one"));
        };
        let stack = stacks::find(stack, client).await?;
        let list = |after| ListStackRuns { id: stack.id.clone(), after, first: PAGE_SIZE, of: None };
        let all: Vec<StackRun> = all_pages(client, list).await?;
        all.into_iter().find(|run| run.number == number).ok_or_else(missing)?.id
    } else {
        let stack = stacks::find(bare, client).await?;
        let newest = ListStackRuns { id: stack.id, after: None, first: 1, of: None };
        let runs = client.send(&newest).await?.runs;
        let Some(newest) = runs.edges.into_iter().next() else {
            return Err(CliError::new(format!("stack {} has no runs yet", stack.name))
                .hint("`plural cd stacks trigger STACK` makes one"));
        };
        newest.node.id
    };
    client.send(&GetStackRun { id }).await.map_err(|error| CliError::absent(error, missing))
}

pub(crate) async fn list(
    StackRunsArgs { stack, all, watch: watching, output }: StackRunsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let id = stacks::find(&stack, client).await?.id;
    let of = (!all).then(|| vec![StackRunGroup::Stack]);
    let none = if all { NO_RUNS } else { NO_RUNS_OF_STACK };
    let look = async || {
        all_pages(client, |after| ListStackRuns { id: id.clone(), after, first: PAGE_SIZE, of: of.clone() })
            .await
    };
    if watching {
        return watch(&output, none, terminal, look).await;
    }
    output::list(&look().await?, &output, none, terminal)
}

pub(crate) async fn waiting(
    StackWaitingArgs { watch: watching, output }: StackWaitingArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let look = async || all_pages(client, |after| ListStackRunsWaiting { after, first: PAGE_SIZE }).await;
    if watching {
        return watch(&output, NONE_WAITS, terminal, look).await;
    }
    output::list(&look().await?, &output, NONE_WAITS, terminal)
}

pub(crate) async fn describe(
    StackRunArgs { run, watch: watching, output }: StackRunArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let known = find(&run, client).await?;
    if !watching {
        return output::described(&known, &known.run, &output.output, terminal, || known.words(Utc::now()));
    }
    let id = known.run.id.clone();
    let look = async || client.send(&GetStackRun { id: id.clone() }).await;
    let ended = watch_one(known, &output.output, terminal, look).await?.run;
    if ended.status == StackStatus::Successful { Ok(()) } else { Err(failure(&ended)) }
}

pub(crate) async fn plan(
    StackPlanArgs { stack, pull_request, no_wait, timeout, detailed_exitcode, output }: StackPlanArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let id = stacks::find(&stack, client).await?.id;
    let made = match pull_request {
        Some(url) => client.send(&PlanStackPullRequest { id, url }).await?,
        None => client.send(&TriggerRun { id, dry_run: Some(true), destroy: None }).await?,
    };
    if no_wait {
        return output::item(&made, &output.output, terminal);
    }
    let run = ended(&made, timeout, client, terminal).await?;
    if run.status != StackStatus::Successful {
        return Err(failure(&run));
    }
    match &output.output {
        crate::format::Format::Table | crate::format::Format::Wide => {
            let text = text_of(&run.id, client).await?;
            print(text.as_ref(), terminal)?;
        }
        format => output::item(&run, format, terminal)?,
    }
    let plan = run.plan.as_ref();
    terminal.say(format_args!(
        "run {}: {}",
        one_line(&called(&run)),
        plan.map_or_else(|| "there is no plan".to_owned(), summary_in_words)
    ));
    if detailed_exitcode && plan.is_some_and(changes) { Err(CliError::answer(2)) } else { Ok(()) }
}

pub(crate) async fn trigger(
    StackTriggerArgs { stack, destroy, confirm, wait, output }: StackTriggerArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let stack = stacks::find(&stack, client).await?;
    if destroy {
        terminal
            .confirm(&format!("plan to destroy everything that stack {} has", stack.name), confirm.yes)?;
    }
    let made = TriggerRun { id: stack.id, dry_run: None, destroy: destroy.then_some(true) };
    let made = client.send(&made).await?;
    let made = if wait.wait { settled(&made, wait.timeout, client, terminal).await? } else { made };
    output::item(&made, &output.output, terminal)
}

pub(crate) async fn restart(
    StackRestartArgs { run, wait, output }: StackRestartArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let id = find(&run, client).await?.run.id;
    let made = client.send(&RestartStackRun { id }).await?;
    let made = if wait.wait { settled(&made, wait.timeout, client, terminal).await? } else { made };
    output::item(&made, &output.output, terminal)
}

pub(crate) async fn approve(
    StackApproveArgs { run, digest, confirm, output }: StackApproveArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let known = find(&run, client).await?;
    let digest = match digest {
        // Whoever names it has read it.
        Some(digest) => digest,
        None => read(&known, confirm.yes, client, terminal).await?,
    };
    let approved = client.send(&ApproveStackRun { id: known.run.id, digest }).await?;
    let left = approved.required_approvals - i64::try_from(approved.approvals.len()).unwrap_or(i64::MAX);
    if approved.status == StackStatus::PendingApproval && left > 0 {
        terminal.say(format_args!("approved; {left} more have to agree"));
    }
    output::item(&approved, &output.output, terminal)
}

/// Shows the plan of a run and asks about it; the digest of what was shown.
async fn read(
    known: &StackRunDetails,
    yes: bool,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<String, CliError> {
    let run = &known.run;
    let name = one_line(&called(run));
    let Some(plan) = run.plan.as_ref().filter(|_| run.status == StackStatus::PendingApproval) else {
        return Err(CliError::new(format!("run {name} is {} and waits for nobody", run.status.as_str()))
            .hint("`plural cd stacks waiting` lists the runs that wait for approval"));
    };
    let Some(StackRunPlanText { digest, text }) = text_of(&run.id, client).await? else {
        return Err(CliError::new(format!("the plan of run {name} is not there any more")));
    };
    if digest != plan.digest {
        return Err(CliError::new(format!("the plan of run {name} has just changed"))
            .hint("run the command again, and read the new one"));
    }
    // On standard error, as the question is: standard output is the run.
    terminal.say(one_by_line(text.as_deref().unwrap_or("the tool printed nothing")));
    for violation in &known.violations {
        terminal.say(format_args!("policy {}", or_dash(Some(&violation_in_words(violation)))));
    }
    if let Some(cost) = &known.cost {
        terminal.say(format_args!("cost {}", or_dash(Some(&cost_in_words(cost)))));
    }
    let what = format!(
        "approve run {name} of {} ({}; digest {digest})",
        or_dash(run.sha.as_deref().map(short).as_deref()),
        summary_in_words(plan)
    );
    terminal.confirm(&what, yes)?;
    Ok(digest)
}

/// Text of a tool without its colours; each of its lines stays one.
fn one_by_line(text: &str) -> String {
    crate::stack_logs::Painter::without_colours().all(text)
}

pub(crate) async fn reject(
    StackRejectArgs { run, reason, confirm, output }: StackRejectArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let run = find(&run, client).await?.run;
    terminal.confirm(&format!("reject the plan of run {}, which ends it", called(&run)), confirm.yes)?;
    let rejected = client.send(&RejectStackRun { id: run.id, reason }).await?;
    output::item(&rejected, &output.output, terminal)
}

pub(crate) async fn cancel(
    StackCancelArgs { run, confirm, output }: StackCancelArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let run = find(&run, client).await?.run;
    let applies = run.phase == StackRunPhase::Apply && run.status == StackStatus::Running;
    let half = if applies { ", which is applying its plan and may stop halfway" } else { "" };
    terminal.confirm(&format!("cancel run {}{half}", called(&run)), confirm.yes)?;
    let cancelled = client.send(&CancelStackRun { id: run.id }).await?;
    if !is_over(cancelled.status) {
        terminal.say("it ends when its tool has stopped");
    }
    output::item(&cancelled, &output.output, terminal)
}

pub(crate) async fn outputs(
    StackOutputsArgs { stack, name, output }: StackOutputsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let stack = stacks::find(&stack, client).await?;
    let mut all = client.send(&GetStackOutputs { id: stack.id }).await?.output;
    let Some(name) = name else {
        let nothing = format!("stack {} has no outputs", one_line(&stack.name));
        return output::list(&all, &output, &nothing, terminal);
    };
    all.retain(|output| output.name == name);
    let Some(found) = all.into_iter().next() else {
        let hint = "`plural cd stacks outputs STACK` lists them";
        return Err(CliError::missing(format_args!("output {name:?}"), hint));
    };
    let Some(json) = found.json else {
        return Err(CliError::new(format!("output {name:?} is sensitive"))
            .hint("ask for the action state-read on the stack"));
    };
    let value: serde_json::Value =
        serde_json::from_str(&json).map_err(|_| CliError::new(format!("output {name:?} is no JSON")))?;
    match value {
        serde_json::Value::String(text) => Ok(writeln!(terminal.out, "{text}")?),
        value => output::json(&value, terminal),
    }
}

/// The run as it is when it is over.
pub(crate) async fn ended(
    run: &StackRun,
    timeout: Duration,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<StackRun, CliError> {
    until(&format!("run {}", one_line(&called(run))), timeout, terminal, async || {
        let now = client.send(&GetStackRun { id: run.id.clone() }).await?.run;
        let found = if is_over(now.status) { Observed::Done(now) } else { Observed::NotYet(stands(&now)) };
        Ok::<_, ClientError>(found)
    })
    .await
}

/// The run as it is when it is over, well, or waits for approval.
async fn settled(
    run: &StackRun,
    timeout: Duration,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<StackRun, CliError> {
    until(&format!("run {}", one_line(&called(run))), timeout, terminal, async || {
        let now = client.send(&GetStackRun { id: run.id.clone() }).await?.run;
        Ok::<_, ClientError>(match now.status {
            StackStatus::Successful | StackStatus::PendingApproval => Observed::Done(now),
            StackStatus::Failed | StackStatus::Cancelled => Observed::Never(failure(&now)),
            StackStatus::Queued | StackStatus::Pending | StackStatus::Running | StackStatus::Unknown => {
                Observed::NotYet(stands(&now))
            }
        })
    })
    .await
}

/// How a run stands, in words.
fn stands(run: &StackRun) -> String {
    let word = run.status.as_str().to_lowercase().replace('_', " ");
    match run.error.as_deref().filter(|error| !error.is_empty()) {
        Some(note) => format!("{word}: {}", one_line(note)),
        None => word,
    }
}

/// Why a run did not do what it was to do.
pub(crate) fn failure(run: &StackRun) -> CliError {
    let name = one_line(&called(run));
    CliError::new(format!("run {name} is {}", stands(run)))
        .hint(format!("`plural cd stacks logs {name}` prints what its commands said"))
}

/// The plan of a run as its tool printed it.
async fn text_of(id: &str, client: &Client) -> Result<Option<StackRunPlanText>, CliError> {
    let StackRunText { status: _, plan } = client.send(&GetStackRunText { id: id.to_owned() }).await?;
    Ok(plan)
}

/// Prints a plan on standard output, with its colours where a person looks.
fn print(plan: Option<&StackRunPlanText>, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let Some(text) = plan.and_then(|plan| plan.text.as_deref()) else { return Ok(()) };
    let mut painter = crate::stack_logs::Painter::of(terminal);
    let painted = painter.all(text);
    crate::stack_logs::write(&painted, terminal)?;
    if !text.ends_with('\n') {
        writeln!(terminal.out)?;
    }
    Ok(())
}

/// `refuses, HIGH: databases stay (aws_db_instance.main)`.
fn violation_in_words(violation: &StackPolicyViolation) -> String {
    let does = if violation.refuses { "refuses" } else { "warns" };
    let resource =
        violation.causes.first().map_or_else(String::new, |cause| format!(" ({})", cause.resource));
    format!("{does}, {}: {}{resource}", violation.severity.as_str(), violation.title)
}

/// `71.50 USD a month (+70.08)`.
fn cost_in_words(cost: &StackRunCost) -> String {
    let Some(monthly) = &cost.monthly else { return "not known".to_owned() };
    let more = match cost.diff_monthly.as_deref() {
        Some(less) if less.starts_with('-') => format!(" ({less})"),
        Some(more) => format!(" (+{more})"),
        None => String::new(),
    };
    format!("{monthly} {} a month{more}", cost.currency)
}

impl Described for StackRunDetails {
    fn named(&self) -> String {
        self.run.name()
    }

    fn words(&self, now: DateTime<Utc>) -> String {
        words(self, now)
    }

    fn is_over(&self) -> bool {
        is_over(self.run.status)
    }
}

/// All that is known of a run.
fn words(known: &StackRunDetails, now: DateTime<Utc>) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let name = format!("{name}:");
        let _ = writeln!(text, "{name:<12}{value}");
    };
    let run = &known.run;
    line("Run", &or_dash(Some(&called(run))));
    line("Id", &or_dash(Some(&run.id)));
    line("Kind", kind(run.kind));
    line("Status", run.status.as_str());
    if let Some(error) = &run.error {
        line("Error", &or_dash(Some(error)));
    }
    if run.cancel_asked && !is_over(run.status) {
        line("Cancelled", "asked for; it ends when its tool has stopped");
    }
    line("Made", &format!("{} ago by {}", age(run.created_at, now), or_dash(Some(&run.author))));
    line("Trigger", run.trigger.as_str());
    let commit = run.sha.as_deref().map(short);
    let commit = commit.map(|sha| format!("{sha} {}", run.message.as_deref().unwrap_or_default()));
    line("Commit", &or_dash(commit.as_deref().map(str::trim)));
    match &run.plan {
        None => line("Plan", "none yet"),
        Some(plan) => {
            line("Plan", &summary_in_words(plan));
            line("Digest", &or_dash(Some(&plan.digest)));
        }
    }
    if run.approval == Some(true) {
        let agreed = run.approvals.len();
        line("Approvals", &format!("{agreed} of {}", run.required_approvals));
    }
    for approval in &run.approvals {
        let who = or_dash(Some(&approval.approver));
        line("Approved", &format!("by {who} {} ago", age(approval.at, now)));
    }
    if let Some(job) = &run.job {
        line("Job", &or_dash(Some(&format!("{}/{}", job.namespace, job.name))));
    }
    for step in &known.steps {
        line("Step", &step_in_words(step));
    }
    for violation in &known.violations {
        line("Policy", &or_dash(Some(&violation_in_words(violation))));
    }
    if let Some(cost) = &known.cost {
        line("Cost", &or_dash(Some(&cost_in_words(cost))));
    }
    text
}

fn kind(kind: StackRunKind) -> &'static str {
    match kind {
        StackRunKind::Apply => "plan, and apply that plan",
        StackRunKind::DryRun => "plan only",
        StackRunKind::Destroy => "destroy everything",
        StackRunKind::Drift => "look for drift",
        StackRunKind::Commands => "run commands that somebody gave it",
        StackRunKind::Unknown => "unknown to this program",
    }
}

fn step_in_words(step: &RunStep) -> String {
    let took = match (step.started_at, step.finished_at) {
        (Some(began), Some(ended)) => format!(", {}", age(Some(began), ended)),
        _ => String::new(),
    };
    let code = step.exit_code.filter(|code| *code != 0).map(|code| format!(", exit code {code}"));
    let status = step.status.as_str().to_lowercase();
    format!("{} {}: {status}{took}{}", step.index, or_dash(Some(&step.name)), code.unwrap_or_default())
}
