//! `plural cd roles …`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, CreateRole, DeleteRole, GetRole, ListRoles, PAGE_SIZE, Role, RoleAttributes, UpdateRole,
    all_pages,
};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    key,
    output::{self, Row, age, or_dash},
    terminal::Terminal,
};

const NOTHING: &str = "no custom roles; read, write and admin are built in";

/// Custom roles, which allow chosen actions: list, create, describe, update, delete
#[derive(Debug, Args)]
#[command(visible_alias = "role", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct RolesArgs {
    #[command(subcommand)]
    pub(crate) command: RoleCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    List(RoleListArgs),
    Create(RoleCreateArgs),
    Describe(RoleDescribeArgs),
    Update(RoleUpdateArgs),
    Delete(RoleDeleteArgs),
}

/// List the custom roles
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd roles list"
)]
pub(crate) struct RoleListArgs {
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Create a custom role
///
/// A role without the action `read` makes nothing visible. `plural cd access grant NAME` binds it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd roles create operator --action read --action rollback --action prune --description 'on call'
  plural cd roles create viewer --action read --description 'reads, and opens no shells'")]
pub(crate) struct RoleCreateArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// What it allows: read, write, admin, approve, rollback, prune, exec, impersonate-group, recordings, state-read, state-write, stack-exec or pr-create; may be given
    /// several times
    #[arg(long = "action", value_name = "ACTION", required = true)]
    pub(crate) actions: Vec<String>,

    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show one custom role
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural cd roles describe operator"
)]
pub(crate) struct RoleDescribeArgs {
    /// Its name or id
    #[arg(value_name = "ROLE")]
    pub(crate) role: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change a custom role, wherever it is bound
///
/// Options that you leave out keep their value. --action replaces all actions.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd roles update operator --action read --action rollback")]
pub(crate) struct RoleUpdateArgs {
    /// Its name or id
    #[arg(value_name = "ROLE")]
    pub(crate) role: String,

    /// A new name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// What it allows from now on; may be given several times
    #[arg(long = "action", value_name = "ACTION")]
    pub(crate) actions: Vec<String>,

    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a custom role that nobody has
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd roles delete operator --yes")]
pub(crate) struct RoleDeleteArgs {
    /// Its name or id
    #[arg(value_name = "ROLE")]
    pub(crate) role: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

impl Row for Role {
    const HEADINGS: (&'static [&'static str], usize) = (&["NAME", "ACTIONS", "DESCRIPTION", "AGE", "ID"], 4);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("role/{}", self.name)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&self.name)),
            or_dash(Some(&self.actions.join(", "))),
            output::cell(self.description.as_deref()),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

/// The custom role of this name or id.
pub(crate) async fn find(role: &str, client: &Client) -> Result<Role, CliError> {
    let role = key::bare_id("role", role);
    let (id, name) = key::id_or_name(role);
    client.send(&GetRole { id, name }).await.map_err(|error| {
        let hint = "`plural cd roles list` shows the custom roles; read, write and admin are built in";
        CliError::absent(error, || CliError::missing(format_args!("role {role:?}"), hint))
    })
}

pub(crate) async fn run(
    command: RoleCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        RoleCommand::List(RoleListArgs { output }) => {
            let roles = all_pages(client, |after| ListRoles { after, first: PAGE_SIZE }).await?;
            output::list(&roles, &output, NOTHING, terminal)
        }
        RoleCommand::Create(RoleCreateArgs { name, actions, description, output }) => {
            let attributes = RoleAttributes { name: Some(name), description, actions: Some(actions) };
            output::item(&client.send(&CreateRole { attributes }).await?, &output.output, terminal)
        }
        RoleCommand::Describe(RoleDescribeArgs { role, output }) => {
            let role = find(&role, client).await?;
            output::described(&role, &role, &output.output, terminal, || description(&role))
        }
        RoleCommand::Update(RoleUpdateArgs { role, name, actions, description, output }) => {
            if name.is_none() && actions.is_empty() && description.is_none() {
                return Err(CliError::unchanged_flags("roles"));
            }
            let id = find(&role, client).await?.id;
            let actions = (!actions.is_empty()).then_some(actions);
            let attributes = RoleAttributes { name, description, actions };
            output::item(&client.send(&UpdateRole { id, attributes }).await?, &output.output, terminal)
        }
        RoleCommand::Delete(RoleDeleteArgs { role, confirm }) => {
            let role = find(&role, client).await?;
            terminal.confirm(&format!("delete role {}", role.name), confirm.yes)?;
            client.send(&DeleteRole { id: role.id }).await?;
            terminal.say(format_args!("role {} deleted", role.name));
            Ok(())
        }
    }
}

fn description(role: &Role) -> String {
    let line = |name: &str, value: String| vec![format!("{name}:"), value];
    output::columns(
        &[
            line("Role", or_dash(Some(&role.name))),
            line("Id", role.id.clone()),
            line("Description", or_dash(role.description.as_deref())),
            line("Actions", or_dash(Some(&role.actions.join(", ")))),
        ],
        2,
    )
}
