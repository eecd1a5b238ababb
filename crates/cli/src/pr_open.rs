//! `plural pr create` and `plural pr preview`: an automation is asked, and opens a pull request or tells what that would be.

use std::time::Duration;

use clap::Args;
use plural_wire::{
    Client, CreatePullRequest, PlanPullRequestPreview, PrConfirmation, PrPhase, PreviewPullRequest,
    PullRequest, PullRequestFileChange, PullRequestPreview,
};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    args::OutputArgs,
    error::CliError,
    format::Format,
    key::{parse_duration, parse_pair},
    output,
    plain::one_line,
    pr_automations, pr_plan,
    stack_arg_values::{SecretVariable, parse_secret},
    terminal::Terminal,
};

/// Answers to an automation
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Answer to a question; may be given several times. For secrets use --secret-set
    #[arg(long, value_parser = parse_pair, value_name = "NAME=VALUE")]
    set: Vec<(String, String)>,

    /// Secret answer: NAME=@FILE reads it from a file, NAME=- from standard input; NAME alone asks for it, or reads a line of standard input
    #[arg(long, value_parser = parse_secret, value_name = "NAME[=@FILE]")]
    secret_set: Vec<SecretVariable>,
}

impl AnswerArgs {
    /// As the console takes them.
    pub(crate) fn read(self, terminal: &mut Terminal<'_>) -> Result<String, CliError> {
        let Self { set, secret_set } = self;
        let mut answers: Map<String, Value> =
            set.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        for secret in &secret_set {
            let (name, value) = secret.read(terminal)?;
            answers.insert(name, value.into());
        }
        Ok(Value::Object(answers).to_string())
    }
}

/// What an automation is asked
#[derive(Debug, Args)]
struct AskArgs {
    /// The automation: its name or id
    #[arg(value_name = "AUTOMATION")]
    automation: String,

    #[command(flatten)]
    answers: AnswerArgs,

    /// Change this repository, such as acme/shop, instead of the automation's: one that its connection may touch
    #[arg(long, value_name = "REPOSITORY")]
    repository: Option<String>,
}

/// Open a pull request with an automation
///
/// Needs the action pr-create on the automation. Waits until the pull request is open. It is opened even if you interrupt the command: a
/// console that stops continues when it runs again.
#[derive(Debug, Args)]
#[command(
    visible_alias = "trigger",
    after_help = "Examples:
  plural pr create add-service --set name=shop --set replicas=3
  plural pr create add-service --set name=shop --secret-set token=@token.txt --branch add-shop -o json
  plural pr create add-service --set name=shop --secret password=@password.txt
  plural pr create add-database --set name=shop --confirm 'I asked finance'
  plural pr create add-service --set name=shop --no-wait
  plural pr create add-service --set name=shop --idempotency-key build-1742"
)]
pub(crate) struct PrCreateArgs {
    #[command(flatten)]
    ask: AskArgs,

    /// The branch of the pull request; by default the console names it
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,

    /// Value of the Secret that the automation asks for: NAME=@FILE reads it from a file, NAME=- from standard input; NAME alone asks for it, or
    /// reads a line of standard input. May be given several times. Those that the console generates may be left out
    #[arg(long, value_parser = parse_secret, value_name = "NAME[=@FILE]")]
    secret: Vec<SecretVariable>,

    /// Tick the box with this text, where the automation has boxes. May be given several times. You are asked about the other boxes; without a
    /// terminal, nothing is opened
    #[arg(long, value_name = "TEXT")]
    confirm: Vec<String>,

    /// Print the record, and do not wait until the pull request is open
    #[arg(long)]
    no_wait: bool,

    #[command(flatten)]
    once: OnceArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// How the console knows a request that is sent once more
#[derive(Debug, Args)]
pub(crate) struct OnceArgs {
    /// Your own key for this request: repeated with the same key within 24 hours, it opens no second pull request. By default each run has its own key
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl OnceArgs {
    /// Whether somebody named it.
    pub(crate) fn is_given(&self) -> bool {
        self.idempotency_key.is_some()
    }

    /// The key; one that nobody else has where none is given: what is sent again after an answer was lost is the same request.
    pub(crate) fn key(self) -> String {
        self.idempotency_key.unwrap_or_else(|| Uuid::new_v4().to_string())
    }
}

/// Show what a pull request of an automation would change, and write nothing
///
/// Prints the differences as `git apply` takes them. With --plan, prints what they would do to services instead: the agents of their clusters
/// apply every object that differs as a dry run. You see the services that you may see, and only you and administrators see the
/// plan. It expires after an hour.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr preview add-service --set name=shop
  plural pr preview add-service --set name=shop | git apply
  plural pr preview add-service --set name=shop -o json
  plural pr preview add-service --set name=shop --plan")]
pub(crate) struct PrPreviewArgs {
    #[command(flatten)]
    ask: AskArgs,

    /// Show what it would do on every cluster, instead of the differences
    #[arg(long)]
    plan: bool,

    /// How long to wait with --plan: 90s, 5m, 1h
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "DURATION")]
    timeout: Duration,

    #[command(flatten)]
    output: OutputArgs,
}

impl PrPreviewArgs {
    /// Whether it prints a patch.
    pub(crate) fn prints_a_patch(&self) -> bool {
        !self.plan && is_patch(&self.output.output)
    }
}

/// Whether differences are printed as a patch in this format.
pub(crate) fn is_patch(format: &Format) -> bool {
    matches!(format, Format::Table | Format::Wide)
}

/// What the console is asked.
struct Ask {
    id: String,
    identifier: Option<String>,
    context: Option<String>,
    confirmation: Option<PrConfirmation>,
}

impl AskArgs {
    async fn read(self, client: &Client, terminal: &mut Terminal<'_>) -> Result<Ask, CliError> {
        let Self { automation, answers, repository } = self;
        let context = Some(answers.read(terminal)?);
        let known = pr_automations::find(&automation, client).await?;
        Ok(Ask { id: known.id, identifier: repository, context, confirmation: known.confirmation })
    }
}

/// Values of a Secret, as the console takes them; nothing where none is given.
pub(crate) fn secret_values(
    given: &[SecretVariable],
    terminal: &mut Terminal<'_>,
) -> Result<Option<String>, CliError> {
    let mut values = Map::new();
    for one in given {
        let (name, value) = one.read(terminal)?;
        values.insert(name, value.into());
    }
    Ok((!values.is_empty()).then(|| Value::Object(values).to_string()))
}

pub(crate) async fn create(
    PrCreateArgs { ask, branch, secret, confirm, no_wait, once, output }: PrCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let Ask { id, identifier, context, confirmation } = ask.read(client, terminal).await?;
    confirmed(confirmation, &confirm, terminal)?;
    let secrets = secret_values(&secret, terminal)?;
    let (wait, idempotency_key) = (Some(!no_wait), Some(once.key()));
    let asked = CreatePullRequest { id, identifier, branch, context, wait, idempotency_key, secrets };
    let made = client.send_keyed(&asked).await?;
    opened(&made, no_wait, &output, terminal)
}

/// Makes sure that all boxes of an automation are ticked: those that no option names are asked for where a person answers.
fn confirmed(
    confirmation: Option<PrConfirmation>,
    ticked: &[String],
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let (text, boxes) = match confirmation {
        Some(PrConfirmation { text, checklist }) => (text, checklist),
        None => (None, Vec::new()),
    };
    let boxes: Vec<String> = boxes.into_iter().map(|one| one.label).collect();
    if let Some(other) = ticked.iter().find(|text| !boxes.contains(text)) {
        let told = format!("the automation has no box {:?}", one_line(other));
        return Err(
            CliError::usage(told).hint("`plural pr automations describe` shows what has to be ticked")
        );
    }
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        terminal.say(format_args!("{}", one_line(&text)));
    }
    let open: Vec<&String> = boxes.iter().filter(|label| !ticked.contains(label)).collect();
    if !open.is_empty() && !terminal.is_interactive() {
        let told: Vec<String> = open.iter().map(|label| format!("{:?}", one_line(label))).collect();
        return Err(CliError::usage(format!("not confirmed: {}", told.join(", ")))
            .hint("once it is so, give each of them as --confirm TEXT"));
    }
    open.into_iter().try_for_each(|label| terminal.confirm(label, false))
}

/// Prints a pull request that is open, or is going to be.
pub(crate) fn opened(
    made: &PullRequest,
    no_wait: bool,
    output: &OutputArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    if !no_wait && made.phase == Some(PrPhase::Pending) {
        let why = made.error.as_deref().unwrap_or("the git host takes its time");
        terminal.say(format_args!("it is not open yet, and will be: {}", one_line(why)));
    }
    output::item(made, &output.output, terminal)
}

pub(crate) async fn preview(
    PrPreviewArgs { ask, plan, timeout, output }: PrPreviewArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let Ask { id, identifier, context, confirmation: _ } = ask.read(client, terminal).await?;
    if plan {
        let plan = client.send(&PlanPullRequestPreview { id, identifier, context }).await?;
        return pr_plan::preview(plan, timeout, &output, client, terminal).await;
    }
    let made = client.send(&PreviewPullRequest { id, identifier, context }).await?;
    previewed(&made, &output, terminal)
}

/// Prints what a pull request would be: its patch, and the rest beside it.
pub(crate) fn previewed(
    made: &PullRequestPreview,
    output: &OutputArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    for warning in &made.warnings {
        terminal.say(format_args!("{}", one_line(warning)));
    }
    for skipped in &made.skipped {
        terminal.say(format_args!("{} is not made: its condition does not hold", one_line(skipped)));
    }
    match &output.output {
        Format::Name => {
            for file in &made.files {
                writeln!(terminal.out, "{}", one_line(file.path.as_deref().unwrap_or_default()))?;
            }
            Ok(())
        }
        Format::Table | Format::Wide => {
            let title = made.title.as_deref().unwrap_or_default();
            terminal.say(format_args!("{}", one_line(title)));
            for file in &made.files {
                let word = match file.change {
                    Some(PullRequestFileChange::Created) => "created",
                    Some(PullRequestFileChange::Deleted) => "deleted",
                    Some(PullRequestFileChange::Changed | PullRequestFileChange::Unknown) | None => "changed",
                };
                terminal.say(format_args!("{word} {}", one_line(file.path.as_deref().unwrap_or_default())));
            }
            Ok(terminal.out.write_all(made.patch.as_deref().unwrap_or_default().as_bytes())?)
        }
        Format::Json | Format::Yaml | Format::JsonPath(_) | Format::Columns(_) => {
            output::program_one(made, &output.output, terminal)
        }
    }
}
