//! `plural cd jobs …`.

use chrono::{DateTime, SecondsFormat, Utc};
use clap::{Args, Subcommand, ValueEnum};
use plural_wire::{
    BackgroundJob, BackgroundJobState, Client, DeleteBackgroundJob, ListBackgroundJobs, PAGE_SIZE,
    RetryBackgroundJob, all_pages,
};

use crate::{
    args::{ConfirmArgs, ListOutputArgs},
    error::CliError,
    key,
    output::{self, Row, age, or_dash},
    terminal::Terminal,
};

/// Background jobs of the console, for installation administrators: list, retry, delete
#[derive(Debug, Args)]
#[command(visible_alias = "job", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct JobsArgs {
    #[command(subcommand)]
    pub(crate) command: JobCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    List(JobListArgs),
    Retry(JobRetryArgs),
    Delete(JobDeleteArgs),
}

/// What a job is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    /// It runs when it is due.
    Waiting,
    /// A replica of the console runs it.
    Running,
    /// It failed for good.
    Dead,
}

impl From<State> for BackgroundJobState {
    fn from(state: State) -> Self {
        match state {
            State::Waiting => Self::Waiting,
            State::Running => Self::Running,
            State::Dead => Self::Dead,
        }
    }
}

/// List background jobs that wait, run or are dead
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd jobs list
  plural cd jobs list --state dead -o json"
)]
pub(crate) struct JobListArgs {
    /// Only jobs in this state
    #[arg(long, value_enum, value_name = "STATE")]
    pub(crate) state: Option<State>,

    /// Only jobs of this kind
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Run dead jobs again
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd jobs retry 0190b8a2-7c11-7def-8000-0123456789ab
  plural cd jobs retry --dead --kind reseal")]
pub(crate) struct JobRetryArgs {
    /// Ids of the jobs
    #[arg(value_name = "ID", required_unless_present = "dead", conflicts_with = "dead")]
    pub(crate) ids: Vec<String>,

    /// All that are dead
    #[arg(long)]
    pub(crate) dead: bool,

    /// With --dead, only jobs of this kind
    #[arg(long, value_name = "KIND", requires = "dead", conflicts_with = "ids")]
    pub(crate) kind: Option<String>,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Delete jobs that wait or are dead; their work is not done
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd jobs delete 0190b8a2-7c11-7def-8000-0123456789ab
  plural cd jobs delete 0190b8a2-7c11-7def-8000-0123456789ab --yes")]
pub(crate) struct JobDeleteArgs {
    /// Ids of the jobs
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

const NOTHING: &str = "no background job waits, runs or is dead";
const NOT_DEAD: &str = "no job is dead";

impl Row for BackgroundJob {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["KIND", "KEY", "STATE", "ATTEMPTS", "AGE", "ID", "ERROR", "RUNS AFTER"], 7);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("job/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let state = match self.state {
            BackgroundJobState::Waiting => "Waiting",
            BackgroundJobState::Running => "Running",
            BackgroundJobState::Dead => "Dead",
            BackgroundJobState::Unknown => "Unknown",
        };
        let runs_after = self.run_after.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true));
        vec![
            or_dash(Some(&self.kind)),
            or_dash(Some(&self.key)),
            state.into(),
            self.attempts.to_string(),
            age(self.inserted_at, now),
            or_dash(Some(&self.id)),
            or_dash(self.error.as_deref()),
            or_dash(runs_after.as_deref()),
        ]
    }
}

pub(crate) async fn run(
    command: JobCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        JobCommand::List(args) => list(args, client, terminal).await,
        JobCommand::Retry(args) => retry(args, client, terminal).await,
        JobCommand::Delete(args) => delete(args, client, terminal).await,
    }
}

async fn find(
    client: &Client,
    state: Option<BackgroundJobState>,
    kind: Option<&str>,
) -> Result<Vec<BackgroundJob>, CliError> {
    let page = |after| ListBackgroundJobs { state, kind: kind.map(str::to_owned), after, first: PAGE_SIZE };
    Ok(all_pages(client, page).await?)
}

async fn list(args: JobListArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let JobListArgs { state, kind, output } = args;
    let nothing = if state == Some(State::Dead) { NOT_DEAD } else { NOTHING };
    let found = find(client, state.map(Into::into), kind.as_deref()).await?;
    output::list(&found, &output, nothing, terminal)
}

async fn retry(args: JobRetryArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let JobRetryArgs { mut ids, dead, kind, output } = args;
    if dead {
        let found = find(client, Some(BackgroundJobState::Dead), kind.as_deref()).await?;
        ids = found.into_iter().map(|job| job.id).collect();
    }
    let mut retried = Vec::with_capacity(ids.len());
    for id in ids {
        let id = key::bare_id("job", &id).to_owned();
        retried.push(client.send(&RetryBackgroundJob { id: id.clone() }).await.map_err(|e| absent(e, &id))?);
    }
    output::list(&retried, &output, NOT_DEAD, terminal)
}

async fn delete(args: JobDeleteArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let JobDeleteArgs { ids, confirm } = args;
    let ids: Vec<String> = ids.iter().map(|id| key::bare_id("job", id).to_owned()).collect();
    let plan = match ids.as_slice() {
        [id] => format!("delete job {id}, whose work is not done"),
        ids => format!("delete {} jobs, whose work is not done", ids.len()),
    };
    terminal.confirm(&plan, confirm.yes)?;
    for id in ids {
        client.send(&DeleteBackgroundJob { id: id.clone() }).await.map_err(|error| absent(error, &id))?;
        terminal.say(format_args!("job {id} deleted"));
    }
    Ok(())
}

fn absent(error: plural_wire::ClientError, id: &str) -> CliError {
    CliError::absent(error, || {
        CliError::missing(format_args!("job {id:?}"), "`plural cd jobs list` shows those that are not done")
    })
}
