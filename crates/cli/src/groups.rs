//! `plural cd groups …`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, CreateGroup, CreateGroupMember, DeleteGroup, DeleteGroupMember, GetGroup, Group, GroupAttributes,
    ListGroups, PAGE_SIZE, UpdateGroup, all_pages,
};

use crate::{
    args::{ConfirmArgs, OutputArgs},
    error::CliError,
    format::ListOutputArgs,
    output::{self, Row, age, or_dash},
    terminal::Terminal,
    users,
};

const NOTHING: &str = "no groups found; `plural cd groups create NAME` makes one";

/// Groups of users: list, create, update, describe, add and remove members, delete
#[derive(Debug, Args)]
#[command(visible_alias = "group", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct GroupsArgs {
    #[command(subcommand)]
    pub(crate) command: GroupCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    List(GroupListArgs),
    Create(GroupCreateArgs),
    Update(GroupUpdateArgs),
    Describe(GroupDescribeArgs),
    Add(GroupAddArgs),
    Remove(GroupRemoveArgs),
    Delete(GroupDeleteArgs),
}

/// List the groups
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd groups list"
)]
pub(crate) struct GroupListArgs {
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Create a group
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd groups create shop --description 'the shop team'
  plural cd groups create shop --member ada@example.com --member grace@example.com
  plural cd groups create everyone --global")]
pub(crate) struct GroupCreateArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// E-mail address of a member; may be given several times
    #[arg(long = "member", value_name = "EMAIL", conflicts_with = "global")]
    pub(crate) members: Vec<String>,

    /// Every user is a member, those who come later too
    #[arg(long)]
    pub(crate) global: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change the name of a group, what it is for, or whether everybody is in it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd groups update shop --description 'the shop team'
  plural cd groups update everyone --global=true")]
pub(crate) struct GroupUpdateArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) group: String,

    /// A new name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// Whether every user is a member, those who come later too
    #[arg(long, value_name = "BOOL")]
    pub(crate) global: Option<bool>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show one group with its members
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural cd groups describe shop"
)]
pub(crate) struct GroupDescribeArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A group and users
#[derive(Debug, Args)]
pub(crate) struct GroupMembersArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// E-mail addresses
    #[arg(value_name = "EMAIL", required = true)]
    pub(crate) emails: Vec<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Add users to a group; members stay
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd groups add shop ada@example.com grace@example.com")]
pub(crate) struct GroupAddArgs {
    #[command(flatten)]
    pub(crate) members: GroupMembersArgs,
}

/// Remove users from a group
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd groups remove shop ada@example.com")]
pub(crate) struct GroupRemoveArgs {
    #[command(flatten)]
    pub(crate) members: GroupMembersArgs,
}

/// Delete a group: what it may do, its members may not do any more
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd groups delete shop --yes")]
pub(crate) struct GroupDeleteArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

impl Row for Group {
    const HEADINGS: (&'static [&'static str], usize) = (&["NAME", "MEMBERS", "DESCRIPTION", "AGE", "ID"], 4);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("group/{}", self.name)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&self.name)),
            if self.global == Some(true) { "everybody".to_owned() } else { self.members.len().to_string() },
            output::cell(self.description.as_deref()),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

/// The group of this name.
pub(crate) async fn find(name: &str, client: &Client) -> Result<Group, CliError> {
    let name = name.strip_prefix("group/").unwrap_or(name).to_owned();
    client.send(&GetGroup { name: name.clone() }).await.map_err(|error| {
        let hint = "`plural cd groups list` shows the groups";
        CliError::absent(error, || CliError::missing(format_args!("group {name:?}"), hint))
    })
}

pub(crate) async fn run(
    command: GroupCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        GroupCommand::List(GroupListArgs { output }) => {
            let groups = all_pages(client, |after| ListGroups { after, first: PAGE_SIZE }).await?;
            output::list(&groups, &output, NOTHING, terminal)
        }
        GroupCommand::Create(GroupCreateArgs { name, description, members, global, output }) => {
            // An unknown user is told before anything is made.
            let users = user_ids(&members, client).await?;
            let attributes = GroupAttributes { name, description, global: global.then_some(true) };
            let group = client.send(&CreateGroup { attributes }).await?;
            let group = add(&group, &users, client).await?;
            output::item(&group, &output.output, terminal)
        }
        GroupCommand::Update(GroupUpdateArgs { group, name, description, global, output }) => {
            if name.is_none() && description.is_none() && global.is_none() {
                return Err(CliError::unchanged_flags("groups"));
            }
            let group = find(&group, client).await?;
            let attributes = GroupAttributes { name: name.unwrap_or(group.name), description, global };
            let group = client.send(&UpdateGroup { group_id: group.id, attributes }).await?;
            output::item(&group, &output.output, terminal)
        }
        GroupCommand::Describe(GroupDescribeArgs { name, output }) => {
            let group = find(&name, client).await?;
            output::described(&group, &group, &output.output, terminal, || description(&group))
        }
        GroupCommand::Add(GroupAddArgs { members: GroupMembersArgs { name, emails, output } }) => {
            let (group, users) = (find(&name, client).await?, user_ids(&emails, client).await?);
            output::item(&add(&group, &users, client).await?, &output.output, terminal)
        }
        GroupCommand::Remove(GroupRemoveArgs { members: GroupMembersArgs { name, emails, output } }) => {
            let (group, users) = (find(&name, client).await?, user_ids(&emails, client).await?);
            for user_id in users {
                if group.members.iter().any(|member| member.id == user_id) {
                    client.send(&DeleteGroupMember { group_id: group.id.clone(), user_id }).await?;
                }
            }
            output::item(&find(&group.name, client).await?, &output.output, terminal)
        }
        GroupCommand::Delete(GroupDeleteArgs { name, confirm }) => {
            let group = find(&name, client).await?;
            let members = output::counted(group.members.len(), "member");
            terminal.confirm(&format!("delete group {} with {members}", group.name), confirm.yes)?;
            client.send(&DeleteGroup { group_id: group.id }).await?;
            terminal.say(format_args!("group {} deleted", group.name));
            Ok(())
        }
    }
}

async fn user_ids(emails: &[String], client: &Client) -> Result<Vec<String>, CliError> {
    let mut ids = Vec::with_capacity(emails.len());
    for email in emails {
        ids.push(users::find(email, client).await?.id);
    }
    Ok(ids)
}

/// Adds those that are not in it, and reads it again.
async fn add(group: &Group, users: &[String], client: &Client) -> Result<Group, CliError> {
    for user_id in users.iter().filter(|id| !group.members.iter().any(|member| member.id == **id)) {
        client.send(&CreateGroupMember { group_id: group.id.clone(), user_id: user_id.clone() }).await?;
    }
    find(&group.name, client).await
}

fn description(group: &Group) -> String {
    let line = |name: &str, value: String| vec![format!("{name}:"), value];
    let mut lines = vec![
        line("Group", or_dash(Some(&group.name))),
        line("Id", group.id.clone()),
        line("Description", or_dash(group.description.as_deref())),
    ];
    if group.global == Some(true) {
        lines.push(line("Members", "every user".to_owned()));
        return output::columns(&lines, 2);
    }
    for (place, member) in group.members.iter().enumerate() {
        let name = if place == 0 { "Members:" } else { "" };
        lines.push(vec![name.to_owned(), or_dash(Some(&member.email))]);
    }
    output::columns(&lines, 2)
}
