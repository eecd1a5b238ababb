//! `plural cd access …`: who may do what with a project, a cluster or a service.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    ChangeBindings, Client, GetClusterBindings, GetProjectBindings, GetServiceBindings, GroupRef,
    PolicyBinding, PolicyBindingAttributes, PolicyRole, RoleBinding, User,
};
use serde::Serialize;

use crate::{
    args::ListOutputArgs,
    error::CliError,
    groups,
    output::{self, Row, or_dash},
    roles,
    sync_windows::{Of, OfArgs},
    terminal::Terminal,
    users,
};

const NOTHING: &str =
    "nobody but the administrators of the installation, and whoever has access to what it belongs to";

/// Who may read, change and administer a project, a cluster or a service: list, grant, revoke
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct AccessArgs {
    #[command(subcommand)]
    pub(crate) command: AccessCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccessCommand {
    List(AccessListArgs),
    Grant(AccessGrantArgs),
    Revoke(AccessRevokeArgs),
}

/// List who has which role on a project, a cluster or a service; roles on what it belongs to are not listed
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd access list --project shop
  plural cd access list --service blue/web -o json"
)]
pub(crate) struct AccessListArgs {
    #[command(flatten)]
    pub(crate) of: OfArgs,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Let users and groups do something
///
/// A role on a project holds for all clusters and services in it, one on a cluster for all services on it. `write` includes
/// `read`, and `admin` includes `write`. Nobody gives a role that allows more than they may do themselves.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd access grant read --project shop --group developers
  plural cd access grant write --service blue/web --user ada@example.com --user grace@example.com
  plural cd access grant operator --cluster blue --group on-call   # a custom role")]
pub(crate) struct AccessGrantArgs {
    #[command(flatten)]
    pub(crate) change: AccessChangeArgs,
}

/// Take a role from users and groups
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd access revoke write --service blue/web --user ada@example.com")]
pub(crate) struct AccessRevokeArgs {
    #[command(flatten)]
    pub(crate) change: AccessChangeArgs,
}

/// A role, who has it, and on what
#[derive(Debug, Args)]
pub(crate) struct AccessChangeArgs {
    /// What they may do: read, write, admin, or the name of a custom role (`plural cd roles`)
    #[arg(value_name = "ROLE")]
    pub(crate) role: String,

    /// E-mail address of a user; may be given several times
    #[arg(long = "user", value_name = "EMAIL")]
    pub(crate) users: Vec<String>,

    /// Name of a group; may be given several times
    #[arg(long = "group", value_name = "NAME")]
    pub(crate) groups: Vec<String>,

    #[command(flatten)]
    pub(crate) of: OfArgs,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// The built-in role of this word.
/// A role by its name: a built-in one, or the id of one that administrators made.
pub(crate) async fn named_role(
    role: &str,
    client: &Client,
) -> Result<(Option<PolicyRole>, Option<String>), CliError> {
    Ok(match built_in(role) {
        Some(role) => (Some(role), None),
        None => (None, Some(roles::find(role, client).await?.id)),
    })
}

fn built_in(role: &str) -> Option<PolicyRole> {
    match role {
        "read" => Some(PolicyRole::Read),
        "write" => Some(PolicyRole::Write),
        "admin" => Some(PolicyRole::Admin),
        _ => None,
    }
}

/// Somebody who has a role.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Access {
    role: String,
    kind: &'static str,
    name: String,
    id: String,
}

impl Row for Access {
    const HEADINGS: (&'static [&'static str], usize) = (&["ROLE", "KIND", "NAME", "ID"], 3);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        vec![or_dash(Some(&self.role)), self.kind.into(), or_dash(Some(&self.name)), self.id.clone()]
    }
}

pub(crate) async fn run(
    command: AccessCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        AccessCommand::List(AccessListArgs { of, output }) => {
            let of = of.find(client).await?;
            output::list(&list(of, client).await?, &output, NOTHING, terminal)
        }
        AccessCommand::Grant(AccessGrantArgs { change }) => {
            self::change(change, client, terminal, |subjects| (Some(subjects), None)).await
        }
        AccessCommand::Revoke(AccessRevokeArgs { change }) => {
            self::change(change, client, terminal, |subjects| (None, Some(subjects))).await
        }
    }
}

type Subjects = Vec<PolicyBindingAttributes>;

async fn change(
    args: AccessChangeArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
    sides: impl FnOnce(Subjects) -> (Option<Subjects>, Option<Subjects>),
) -> Result<(), CliError> {
    let AccessChangeArgs { role, users, groups, of, output } = args;
    if users.is_empty() && groups.is_empty() {
        return Err(CliError::usage("nobody is named: add --user EMAIL or --group NAME"));
    }
    let of = of.find(client).await?;
    let (role, role_id) = named_role(&role, client).await?;
    let mut subjects = Vec::new();
    for email in &users {
        let user_id = Some(users::find(email, client).await?.id);
        subjects.push(PolicyBindingAttributes { user_id, ..PolicyBindingAttributes::default() });
    }
    for name in &groups {
        let group_id = Some(groups::find(name, client).await?.id);
        subjects.push(PolicyBindingAttributes { group_id, ..PolicyBindingAttributes::default() });
    }
    let (add, remove) = sides(subjects);
    let Of { project: project_id, cluster: cluster_id, service: service_id } = of.clone();
    client.send(&ChangeBindings { role, role_id, add, remove, service_id, cluster_id, project_id }).await?;
    output::list(&list(of, client).await?, &output, NOTHING, terminal)
}

async fn list(of: Of, client: &Client) -> Result<Vec<Access>, CliError> {
    let (read, write, admin, custom) = match of {
        Of { project: Some(id), .. } => {
            let found = client.send(&GetProjectBindings { id: Some(id) }).await?;
            (found.read_bindings, found.write_bindings, found.admin_bindings, found.role_bindings)
        }
        Of { cluster: Some(id), .. } => {
            let found = client.send(&GetClusterBindings { id: Some(id) }).await?;
            (found.read_bindings, found.write_bindings, found.admin_bindings, found.role_bindings)
        }
        Of { service, .. } => {
            let found = client.send(&GetServiceBindings { id: service }).await?;
            (found.read_bindings, found.write_bindings, found.admin_bindings, found.role_bindings)
        }
    };
    let of_role = |role: &'static str, bindings: Vec<PolicyBinding>| {
        bindings
            .into_iter()
            .filter_map(move |PolicyBinding { user, group }| access(role.to_owned(), user, group))
    };
    let custom = custom.into_iter().filter_map(|RoleBinding { role, user, group }| {
        access(role.map(|role| role.name).unwrap_or_default(), user, group)
    });
    Ok(of_role("read", read)
        .chain(of_role("write", write))
        .chain(of_role("admin", admin))
        .chain(custom)
        .collect())
}

fn access(role: String, user: Option<User>, group: Option<GroupRef>) -> Option<Access> {
    let (kind, name, id) = match (user, group) {
        (Some(user), _) => ("user", user.email, user.id),
        (None, Some(group)) => ("group", group.name, group.id),
        (None, None) => return None,
    };
    Some(Access { role, kind, name, id })
}
