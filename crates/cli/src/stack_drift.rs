//! `plural cd stacks drift`.

use std::{fmt::Write as _, time::Duration};

use chrono::{DateTime, Utc};
use clap::Args;
use plural_wire::{
    CheckStackDrift, Client, ClientError, GetStackDrift, ListStackDrift, PAGE_SIZE, StackDriftAction,
    StackDriftField, StackDriftStatus, StackDriftSummary, StackDriftedResource, StackStatus, all_pages,
};
use serde::Serialize;

use crate::{
    args::OutputArgs,
    error::CliError,
    key::parse_duration,
    output::{self, age, or_dash},
    plain::one_line,
    stack_runs, stacks,
    terminal::Terminal,
    watch::{Described, watch_one},
};

/// Show drift of a stack: what something other than its tool changed
///
/// Shows the result of the last check; with --now, the agent checks first. With --exit-code, the exit code is 0 without drift, 2 with
/// drift, and 1 when it is unknown: the newest check failed, or there was none. With --watch, the result is printed again whenever a check
/// changes it, until you interrupt the command.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks drift network
  plural cd stacks drift network --now --exit-code
  plural cd stacks drift network --watch
  plural cd stacks drift network -o json")]
pub(crate) struct StackDriftArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    /// Check now, and wait for the result
    #[arg(long)]
    pub(crate) now: bool,

    /// How long to wait: 90s, 5m, 1h
    #[arg(long, default_value = "15m", value_parser = parse_duration, value_name = "DURATION", requires = "now")]
    pub(crate) timeout: Duration,

    /// Exit with 2 when there is drift
    #[arg(long)]
    pub(crate) exit_code: bool,

    /// Keep running and print what changes
    #[arg(short, long, conflicts_with = "exit_code")]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// All that is known of a stack's drift.
#[derive(Serialize)]
struct Known {
    #[serde(flatten)]
    summary: StackDriftSummary,
    drift: Vec<StackDriftedResource>,
}

pub(crate) async fn run(
    StackDriftArgs { stack, now, timeout, exit_code, watch, output }: StackDriftArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let stack = stacks::find(&stack, client).await?;
    if now {
        let made = client.send(&CheckStackDrift { id: stack.id.clone() }).await?;
        let run = stack_runs::ended(&made, timeout, client, terminal).await?;
        if run.status != StackStatus::Successful {
            return Err(stack_runs::failure(&run));
        }
    }
    let known = known_of(&stack.id, client).await?;
    if watch {
        let look = async || known_of(&stack.id, client).await;
        return watch_one(known, &output.output, terminal, look).await.map(drop);
    }
    output::described(&known, &stack, &output.output, terminal, || known.words(Utc::now()))?;
    if exit_code { verdict(&known.summary) } else { Ok(()) }
}

async fn known_of(id: &str, client: &Client) -> Result<Known, ClientError> {
    let summary = client.send(&GetStackDrift { id: id.to_owned() }).await?;
    let list = |after| ListStackDrift { id: id.to_owned(), after, first: PAGE_SIZE };
    let drift: Vec<StackDriftedResource> = all_pages(client, list).await?;
    Ok(Known { summary, drift })
}

impl Described for Known {
    fn named(&self) -> String {
        format!("stack/{}", self.summary.name)
    }

    fn words(&self, now: DateTime<Utc>) -> String {
        words(self, now)
    }

    /// There is always a next check.
    fn is_over(&self) -> bool {
        false
    }
}

/// What a script asks for.
fn verdict(summary: &StackDriftSummary) -> Result<(), CliError> {
    let error = summary.drift_check.as_ref().and_then(|check| check.error.as_deref());
    if let Some(error) = error {
        return Err(CliError::new(format!("the newest drift check failed: {}", one_line(error)))
            .hint(format!("`plural cd stacks drift {} --now` checks again", one_line(&summary.name))));
    }
    match summary.drift_status {
        StackDriftStatus::InSync => Ok(()),
        StackDriftStatus::Drifted => Err(CliError::answer(2)),
        StackDriftStatus::Unchecked | StackDriftStatus::Unknown => {
            Err(CliError::new(format!("no drift check of stack {} has run yet", one_line(&summary.name)))
                .hint("--now runs one"))
        }
    }
}

fn words(known: &Known, now: DateTime<Utc>) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let name = if name.is_empty() { String::new() } else { format!("{name}:") };
        let _ = writeln!(text, "{name:<12}{value}");
    };
    let StackDriftSummary { id: _, name, drift_status, drifted_at, drift_check, drift_schedule } =
        &known.summary;
    line("Stack", &or_dash(Some(name)));
    let count = drift_check.as_ref().map_or(0, |check| check.count);
    line(
        "Drift",
        &match drift_status {
            StackDriftStatus::Drifted => {
                let resources =
                    if count == 1 { "1 resource".to_owned() } else { format!("{count} resources") };
                format!("{resources}; the first was found {} ago", age(*drifted_at, now))
            }
            StackDriftStatus::InSync => "none".to_owned(),
            StackDriftStatus::Unchecked => "no check has run yet; --now runs one".to_owned(),
            StackDriftStatus::Unknown => "unknown to this program".to_owned(),
        },
    );
    if let Some(check) = drift_check {
        if check.checked_at.is_some() {
            let run = check.run_number.map_or_else(String::new, |number| format!(" by run {number}"));
            line("Checked", &format!("{} ago{run}", age(check.checked_at, now)));
        }
        if let Some(error) = &check.error {
            let error = or_dash(Some(error));
            line("Failed", &format!("{} ago: {error}", age(check.failed_at, now)));
        }
    }
    if let Some(crontab) = drift_schedule.as_ref().and_then(|schedule| schedule.crontab.as_deref()) {
        let zone = drift_schedule.as_ref().and_then(|schedule| schedule.time_zone.as_deref());
        line("Schedule", &or_dash(Some(&format!("{crontab} {}", zone.unwrap_or("UTC")))));
    }
    for resource in &known.drift {
        let did = match resource.action {
            StackDriftAction::Updated => "changed",
            StackDriftAction::Deleted => "gone",
            StackDriftAction::Unknown => "unknown to this program",
        };
        let since = age(Some(resource.first_seen_at), now);
        line("Resource", &format!("{}: {did}, seen first {since} ago", or_dash(Some(&resource.address))));
        for field in &resource.fields {
            line("", &field_in_words(field));
        }
        if resource.left_out > 0 {
            line("", &format!("and {} more", resource.left_out));
        }
    }
    let left_out = drift_check.as_ref().map_or(0, |check| check.left_out);
    if left_out > 0 {
        line("Left out", &format!("{left_out} resources"));
    }
    text
}

fn field_in_words(field: &StackDriftField) -> String {
    let StackDriftField { path, before, after, sensitive, cut } = field;
    let path = or_dash(Some(path));
    if *sensitive {
        return format!("{path}: (sensitive)");
    }
    let cut = if *cut { " (cut)" } else { "" };
    format!("{path}: {} -> {}{cut}", or_dash(before.as_deref()), or_dash(after.as_deref()))
}
