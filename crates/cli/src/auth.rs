//! `plural auth …`: may I, why, and who else.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{AccessDecision, AccessHolder, Client, GetAccessDecision, ListAccessHolders};

use crate::{
    args::{ConnectionArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    output::{self, Row, or_dash},
    terminal::Terminal,
};

const NOBODY: &str = "nobody but the administrators of the installation";

/// Who may do what: can-i, explain, who-can
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct AuthArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(subcommand)]
    pub(crate) command: AuthCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    CanI(CanIArgs),
    Explain(AuthExplainArgs),
    WhoCan(WhoCanArgs),
}

/// What is asked about
#[derive(Debug, Args)]
pub(crate) struct QuestionArgs {
    /// What is done: get, create, update, delete, sync, bind …, or an action: read, write, admin, approve, rollback, prune,
    /// exec, impersonate-group, recordings, state-read, state-write, stack-exec, pr-create
    #[arg(value_name = "VERB")]
    pub(crate) verb: String,

    /// To what: cluster/blue, service/blue/web, project/shop; without a name where something is made
    #[arg(value_name = "THING")]
    pub(crate) thing: String,

    /// Where something is made, or what belongs to it: project/shop, cluster/blue, service/blue/web
    #[arg(long = "in", value_name = "THING")]
    pub(crate) within: Option<String>,
}

/// Ask whether you may do something; prints yes or no, and exits with 1 for no
///
/// Without a name, `create` is about a new thing in what --in names; other verbs are about whatever is in it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural auth can-i rollback service/blue/web
  plural auth can-i create clusters --in project/shop
  plural auth can-i create sync-windows --in service/blue/web
  plural auth can-i exec cluster/blue --as grace@example.com
  plural auth can-i prune service/blue/web --quiet")]
pub(crate) struct CanIArgs {
    #[command(flatten)]
    pub(crate) question: QuestionArgs,

    /// Ask for this user instead; for administrators of the installation
    #[arg(long = "as", value_name = "EMAIL")]
    pub(crate) user: Option<String>,

    /// Print nothing: the exit code is the answer
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Say why you may do something, or what would let you and who could give it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural auth explain delete cluster/blue
  plural auth explain write service/blue/web --as grace@example.com
  plural auth explain prune service/blue/web -o json")]
pub(crate) struct AuthExplainArgs {
    #[command(flatten)]
    pub(crate) question: QuestionArgs,

    /// Ask about this user instead; for administrators of the installation
    #[arg(long = "as", value_name = "EMAIL")]
    pub(crate) user: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// List who may do something, with the roles that let them
///
/// For those who administer the thing. Administrators of the installation, who may do everything, are not listed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural auth who-can admin project/shop
  plural auth who-can exec cluster/blue
  plural auth who-can create services --in cluster/blue -o json")]
pub(crate) struct WhoCanArgs {
    #[command(flatten)]
    pub(crate) question: QuestionArgs,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// "user" or "group", and how they are called.
fn subject(holder: &AccessHolder) -> (&'static str, &str) {
    match (&holder.user, &holder.group) {
        (Some(user), _) => ("user", &user.email),
        (None, Some(group)) => ("group", &group.name),
        (None, None) => ("nobody", ""),
    }
}

/// `write on project/shop, of the group shop-team`
fn described(holder: &AccessHolder) -> String {
    let (kind, name) = subject(holder);
    let on = holder.thing.as_deref().unwrap_or("something that you may not read");
    format!("{} on {on}, of the {kind} {name}", holder.role)
}

impl Row for AccessHolder {
    const HEADINGS: (&'static [&'static str], usize) = (&["KIND", "NAME", "ROLE", "ON", "ID"], 4);

    fn id(&self) -> &str {
        match (&self.user, &self.group) {
            (Some(user), _) => &user.id,
            (None, Some(group)) => &group.id,
            (None, None) => "",
        }
    }

    fn name(&self) -> String {
        let (kind, name) = subject(self);
        format!("{kind}/{name}")
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let (kind, name) = subject(self);
        vec![
            kind.into(),
            or_dash(Some(name)),
            or_dash(Some(&self.role)),
            or_dash(self.thing.as_deref()),
            self.id().to_owned(),
        ]
    }
}

impl Row for AccessDecision {
    const HEADINGS: (&'static [&'static str], usize) = (&["ALLOWED", "ACTION", "REASON"], 3);

    fn id(&self) -> &str {
        &self.action
    }

    fn name(&self) -> String {
        format!("action/{}", self.action)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        vec![answer(self).into(), self.action.clone(), or_dash(Some(&self.reason))]
    }
}

fn answer(decision: &AccessDecision) -> &'static str {
    if decision.allowed { "yes" } else { "no" }
}

pub(crate) async fn run(
    command: AuthCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        AuthCommand::CanI(CanIArgs { question, user, quiet }) => {
            let decision = ask(question, user, client).await?;
            if !quiet {
                writeln!(terminal.out, "{}", answer(&decision))?;
                if !decision.allowed {
                    terminal.say(&decision.reason);
                }
            }
            // The exit code is the answer, as kubectl's is.
            if decision.allowed { Ok(()) } else { Err(CliError::silent()) }
        }
        AuthCommand::Explain(AuthExplainArgs { question, user, output }) => {
            let decision = ask(question, user, client).await?;
            output::described(&decision, &decision, &output.output, terminal, || explanation(&decision))
        }
        AuthCommand::WhoCan(WhoCanArgs { question, output }) => {
            let QuestionArgs { verb, thing, within } = question;
            let holders = client.send(&ListAccessHolders { verb, thing, within }).await?;
            output::list(&holders, &output, NOBODY, terminal)
        }
    }
}

async fn ask(
    question: QuestionArgs,
    email: Option<String>,
    client: &Client,
) -> Result<AccessDecision, CliError> {
    let QuestionArgs { verb, thing, within } = question;
    Ok(client.send(&GetAccessDecision { verb, thing, within, email }).await?)
}

fn explanation(decision: &AccessDecision) -> String {
    let AccessDecision { allowed: _, action, meaning, reason, needed, holder, givers } = decision;
    let line = |name: &str, value: &str| vec![name.to_owned(), or_dash(Some(value))];
    let mut lines = vec![
        line("Allowed:", answer(decision)),
        line("Action:", &format!("{action}: {meaning}")),
        line("Because:", reason),
    ];
    if let Some(holder) = holder {
        lines.push(line("Binding:", &described(holder)));
    }
    if let Some(needed) = needed {
        lines.push(line("Needed:", needed));
        for (place, giver) in givers.iter().enumerate() {
            let name = if place == 0 { "Ask:" } else { "" };
            lines.push(line(name, &described(giver)));
        }
        let name = if givers.is_empty() { "Ask:" } else { "" };
        lines.push(line(name, "an administrator of the installation"));
    }
    output::columns(&lines, 2)
}
