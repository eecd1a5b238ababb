//! `plural cd users …` and `plural whoami`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, CreateUser, DeleteUser, DeleteUserIdentity, GetUser, ListUserIdentities, ListUsers, PAGE_SIZE,
    ResumeUser, Secret, SuspendUser, UpdateUser, UserAttributes, UserDetails, UserIdentity,
    UserRoleAttributes, WhoAmI, all_pages,
};

use crate::{
    args::{ConfirmArgs, ConnectionArgs, OutputArgs},
    connect::Connection,
    error::CliError,
    format::ListOutputArgs,
    invites::{self, InviteArgs, InvitesArgs, ResetPasswordArgs, UninviteArgs},
    output::{self, Row, age, or_dash},
    terminal::Terminal,
};

const NOTHING: &str = "no users found";

/// Users of the installation: list, create, invite, describe, update, reset-password, suspend, resume, identities, untie, delete
#[derive(Debug, Args)]
#[command(visible_alias = "user", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct UsersArgs {
    #[command(subcommand)]
    pub(crate) command: UserCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    List(UserListArgs),
    Create(UserCreateArgs),
    Invite(InviteArgs),
    Invites(InvitesArgs),
    Uninvite(UninviteArgs),
    ResetPassword(ResetPasswordArgs),
    Describe(UserDescribeArgs),
    Update(UserUpdateArgs),
    Suspend(UserSuspendArgs),
    Resume(UserResumeArgs),
    Identities(UserIdentitiesArgs),
    Untie(UserUntieArgs),
    Delete(UserDeleteArgs),
}

/// List the users
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd users list
  plural cd users list -o json"
)]
pub(crate) struct UserListArgs {
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Create a user
///
/// A new user may read and change nothing: `plural cd access grant` and groups decide that. You are asked for your own password,
/// since whoever finds your terminal open must not make users; then for the new user's, who changes it with `plural password`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd users create grace@example.com --name 'Grace Hopper'
  plural cd users create grace@example.com --name 'Grace Hopper' --stdin < passwords.txt   # two lines: yours, hers
  plural cd users create ops@example.com --name Ops --admin")]
pub(crate) struct UserCreateArgs {
    /// E-mail address, which the user signs in with
    #[arg(value_name = "EMAIL")]
    pub(crate) email: String,

    /// Name for people
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,

    /// Administrator of the installation: may do everything
    #[arg(long)]
    pub(crate) admin: bool,

    /// Read your password and the new user's from two lines of standard input instead of asking
    #[arg(long)]
    pub(crate) stdin: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show one user with the groups that it is a member of
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural cd users describe grace@example.com"
)]
pub(crate) struct UserDescribeArgs {
    /// E-mail address
    #[arg(value_name = "EMAIL")]
    pub(crate) email: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change a user's name, or whether it administers the installation
///
/// Options that you leave out keep their value. Users change their own passwords: `plural password`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd users update grace@example.com --admin
  plural cd users update grace@example.com --admin=false --name Grace")]
pub(crate) struct UserUpdateArgs {
    /// E-mail address
    #[arg(value_name = "EMAIL")]
    pub(crate) email: String,

    /// Name for people
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Administrator of the installation: may do everything
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) admin: Option<bool>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Suspend a user: its sessions and access tokens end, and it may not sign in
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd users suspend grace@example.com --yes")]
pub(crate) struct UserSuspendArgs {
    /// E-mail address
    #[arg(value_name = "EMAIL")]
    pub(crate) email: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Let a suspended user sign in again; the tokens that it had do not come back
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd users resume grace@example.com")]
pub(crate) struct UserResumeArgs {
    /// E-mail address
    #[arg(value_name = "EMAIL")]
    pub(crate) email: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// List the identity providers that a user signs in with, and when they last did
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd users identities grace@example.com
  plural cd users identities grace@example.com -o json")]
pub(crate) struct UserIdentitiesArgs {
    /// E-mail address
    #[arg(value_name = "EMAIL")]
    pub(crate) email: String,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Untie a user from an identity provider: the sessions that came from it end, and so do the groups that it gave
///
/// Who signs in there next as the same subject is tied anew by a verified address, or gets another account: suspend the user, or
/// have the provider refuse them, where that is not meant.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd users untie grace@example.com --provider acme
  plural cd users untie grace@example.com --provider acme --yes")]
pub(crate) struct UserUntieArgs {
    /// E-mail address
    #[arg(value_name = "EMAIL")]
    pub(crate) email: String,

    /// The identity provider, by its name
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Delete a user: its sessions and access tokens end
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd users delete grace@example.com --yes")]
pub(crate) struct UserDeleteArgs {
    /// E-mail address
    #[arg(value_name = "EMAIL")]
    pub(crate) email: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Show who you are to the console
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural whoami
  plural whoami -o json")]
pub(crate) struct WhoAmIArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl Row for UserDetails {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["EMAIL", "NAME", "ADMIN", "GROUPS", "AGE", "ID"], 5);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("user/{}", self.email)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let groups: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
        vec![
            or_dash(Some(&self.email)),
            or_dash(Some(&self.name)),
            if is_admin(self) { "yes" } else { "no" }.into(),
            or_dash(Some(&groups.join(", "))),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

impl Row for UserIdentity {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["PROVIDER", "ISSUER", "SUBJECT", "LAST USED", "AGE", "ID"], 5);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("identity/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&self.provider)),
            or_dash(Some(&self.issuer)),
            or_dash(Some(&self.subject)),
            age(self.last_used_at, now),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

fn is_admin(user: &UserDetails) -> bool {
    user.roles.as_ref().is_some_and(|roles| roles.admin == Some(true))
}

/// The user with this e-mail address.
pub(crate) async fn find(email: &str, client: &Client) -> Result<UserDetails, CliError> {
    let email = email.strip_prefix("user/").unwrap_or(email).to_owned();
    client.send(&GetUser { email: email.clone() }).await.map_err(|error| {
        let hint = "`plural cd users list` shows the users";
        CliError::absent(error, || CliError::missing(format_args!("user {email:?}"), hint))
    })
}

pub(crate) async fn run(
    command: UserCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        UserCommand::List(UserListArgs { output }) => {
            let users = all_pages(client, |after| ListUsers { after, first: PAGE_SIZE }).await?;
            output::list(&users, &output, NOTHING, terminal)
        }
        UserCommand::Create(args) => create(args, client, terminal).await,
        UserCommand::Invite(args) => invites::create(args, client, terminal).await,
        UserCommand::Invites(args) => invites::list(args, client, terminal).await,
        UserCommand::Uninvite(args) => invites::delete(args, client, terminal).await,
        UserCommand::ResetPassword(args) => invites::reset_password(args, client, terminal).await,
        UserCommand::Describe(UserDescribeArgs { email, output }) => {
            let user = find(&email, client).await?;
            output::described(&user, &user, &output.output, terminal, || description(&user))
        }
        UserCommand::Update(UserUpdateArgs { email, name, admin, output }) => {
            if name.is_none() && admin.is_none() {
                return Err(CliError::unchanged_flags("users"));
            }
            let id = find(&email, client).await?.id;
            let roles = admin.map(|admin| UserRoleAttributes { admin: Some(admin) });
            let attributes = UserAttributes { name, roles, ..UserAttributes::default() };
            let change = UpdateUser { id: Some(id), attributes, current_password: None };
            output::item(&client.send(&change).await?, &output.output, terminal)
        }
        UserCommand::Suspend(UserSuspendArgs { email, confirm, output }) => {
            let UserDetails { id, email, .. } = find(&email, client).await?;
            terminal
                .confirm(&format!("suspend user {email} and end its sessions and tokens"), confirm.yes)?;
            output::item(&client.send(&SuspendUser { id }).await?, &output.output, terminal)
        }
        UserCommand::Resume(UserResumeArgs { email, output }) => {
            let id = find(&email, client).await?.id;
            output::item(&client.send(&ResumeUser { id }).await?, &output.output, terminal)
        }
        UserCommand::Identities(UserIdentitiesArgs { email, output }) => {
            let user_id = find(&email, client).await?.id;
            let found = client.send(&ListUserIdentities { user_id }).await?;
            output::list(&found, &output, "the user signs in with no identity provider", terminal)
        }
        UserCommand::Untie(UserUntieArgs { email, provider, confirm }) => {
            let user = find(&email, client).await?;
            let found = client.send(&ListUserIdentities { user_id: user.id.clone() }).await?;
            let identity = found.into_iter().find(|identity| identity.provider == provider);
            let Some(identity) = identity else {
                let hint = format!("`plural cd users identities {}` shows those that there are", user.email);
                return Err(CliError::missing(format_args!("identity of provider {provider:?}"), &hint));
            };
            terminal.confirm(
                &format!("untie user {} from {} of provider {provider}", user.email, identity.subject),
                confirm.yes,
            )?;
            client.send(&DeleteUserIdentity { user_id: user.id, id: identity.id }).await?;
            terminal.say(format_args!("user {} untied from provider {provider}", user.email));
            Ok(())
        }
        UserCommand::Delete(UserDeleteArgs { email, confirm }) => {
            let user = find(&email, client).await?;
            terminal.confirm(&format!("delete user {}", user.email), confirm.yes)?;
            client.send(&DeleteUser { id: user.id }).await?;
            terminal.say(format_args!("user {} deleted", user.email));
            Ok(())
        }
    }
}

async fn create(args: UserCreateArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let UserCreateArgs { email, name, admin, stdin, output } = args;
    let mut password = |question: &str| {
        if stdin {
            return terminal.line();
        }
        let hint = "pipe your password and the new user's in, a line each, with --stdin";
        terminal.ask_secret(question).map_err(|error| error.hint(hint))
    };
    let own = password("Your password")?;
    let password = password("Password of the new user")?;
    let attributes = UserAttributes {
        email: Some(email),
        name: Some(name),
        password: Some(Secret::new(password)),
        roles: admin.then_some(UserRoleAttributes { admin: Some(true) }),
        ..UserAttributes::default()
    };
    let user = client.send(&CreateUser { attributes, current_password: Some(Secret::new(own)) }).await?;
    output::item(&user, &output.output, terminal)
}

pub(crate) async fn whoami(
    args: WhoAmIArgs,
    connection: &Connection,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let user = connection.client.send(&WhoAmI {}).await?;
    output::described(&user, &user, &args.output.output, terminal, || {
        let console = vec!["Console:".to_owned(), or_dash(Some(connection.client.url()))];
        format!("{}{}", output::columns(&[console], 2), description(&user))
    })
}

fn description(user: &UserDetails) -> String {
    let groups: Vec<&str> = user.groups.iter().map(|group| group.name.as_str()).collect();
    let line = |name: &str, value: String| vec![format!("{name}:"), value];
    let lines = [
        line("User", or_dash(Some(&user.email))),
        line("Name", or_dash(Some(&user.name))),
        line("Id", user.id.clone()),
        line("Administrator", if is_admin(user) { "yes" } else { "no" }.into()),
        line("Groups", or_dash(Some(&groups.join(", ")))),
    ];
    let suspended = user.suspended_at.map(|since| line("Suspended", since.to_rfc3339()));
    output::columns(&lines.into_iter().chain(suspended).collect::<Vec<_>>(), 2)
}
