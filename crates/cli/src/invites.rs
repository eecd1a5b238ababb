//! `plural cd users invite|invites|uninvite|reset-password`.

use chrono::{DateTime, Utc};
use clap::Args;
use plural_wire::{
    Client, CreateInvite, CreatePasswordReset, CreatedInvite, DeleteInvite, GetGroup, Invite,
    InviteAttributes, ListInvites, PAGE_SIZE, all_pages,
};
use serde::Serialize;

use crate::{
    access,
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    format::Format,
    key,
    output::{self, Row, age, or_dash},
    proof::{Proof, send_proven},
    terminal::Terminal,
    users,
};

const NOTHING: &str = "no invitations wait that you may see; `plural cd users invite EMAIL` makes one";

/// Invite somebody to make their own account, and print the link once
///
/// They open the link in a browser, and choose a password or a passkey. It is good once, within seven days, in the place of another
/// invitation of theirs, and while you are an administrator. The console sends no mail: give them the link on a way that only they
/// read.
///
/// Administrators of a project invite to it, with a role there that they may give. Who has an account already signs in with it and
/// opens the link: they get the role. Whether there is such an account is not told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd users invite grace@example.com
  plural cd users invite grace@example.com --group dev --group ops
  plural cd users invite grace@example.com --project shop --role write
  plural cd users invite grace@example.com -o jsonpath={.link}")]
pub(crate) struct InviteArgs {
    /// E-mail address, which the user signs in with
    #[arg(value_name = "EMAIL")]
    pub(crate) email: String,

    /// Group that the user is made a member of; may be given several times
    #[arg(long = "group", value_name = "NAME")]
    pub(crate) groups: Vec<String>,

    /// Invite to this project (name or id), with a role there
    #[arg(long, value_name = "PROJECT", requires = "role", conflicts_with = "groups")]
    pub(crate) project: Option<String>,

    /// Role on the project: read, write, admin, or the name of a custom role
    #[arg(long, value_name = "ROLE", requires = "project")]
    pub(crate) role: Option<String>,

    /// Read your own password from standard input instead of asking
    #[arg(long)]
    pub(crate) password_stdin: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// List the invitations that wait to be accepted; without being an administrator, those to projects that you administer
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd users invites
  plural cd users invites --project shop
  plural cd users invites -o json")]
pub(crate) struct InvitesArgs {
    /// Only those to this project (name or id)
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Revoke an invitation
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd users uninvite 0190b8a2-7c11-7def-8000-0123456789ab --yes")]
pub(crate) struct UninviteArgs {
    /// Its id, as `plural cd users invites` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Create a link with which a user can set a new password, and print it once
///
/// It is good once, within a day. Until it is used the old password stays as it is; then the user's sessions end. A second factor
/// stays: `plural second-factor disable --user EMAIL` ends one whose app is lost.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd users reset-password grace@example.com")]
pub(crate) struct ResetPasswordArgs {
    /// E-mail address
    #[arg(value_name = "EMAIL")]
    pub(crate) email: String,

    /// Read your own password from standard input instead of asking
    #[arg(long)]
    pub(crate) password_stdin: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl Row for Invite {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["EMAIL", "FOR", "GROUPS", "INVITED BY", "EXPIRES", "AGE", "ID"], 7);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("invite/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let groups: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
        let expires = self.expires_at.map(|at| at.format("%Y-%m-%d %H:%M").to_string());
        vec![
            or_dash(Some(&self.email)),
            purpose(self),
            or_dash(Some(&groups.join(", "))),
            or_dash(self.inviter.as_ref().map(|user| user.email.as_str())),
            or_dash(expires.as_deref()),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

/// What whoever accepts it gets.
fn purpose(invite: &Invite) -> String {
    let custom = invite.custom_role.as_ref().map(|role| role.name.clone());
    let built_in = invite.role.map(|role| role.as_str().to_ascii_lowercase());
    match (custom.or(built_in), &invite.project) {
        (Some(role), Some(project)) => format!("{role} on {}", project.name),
        (Some(role), None) => format!("{role} on a project"),
        (None, _) if invite.user.is_some() => "another password".to_owned(),
        (None, _) => "an account".to_owned(),
    }
}

pub(crate) async fn create(
    args: InviteArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let InviteArgs { email, groups, project, role, password_stdin, output } = args;
    let format = output.shown_once()?;
    let mut group_ids = Vec::new();
    for name in groups {
        let found = client.send(&GetGroup { name: name.clone() }).await.map_err(|error| {
            let hint = "`plural cd groups list` shows the groups";
            CliError::absent(error, || CliError::missing(format_args!("group {name:?}"), hint))
        })?;
        group_ids.push(found.id);
    }
    let project_id = key::project_id(client, project.as_deref()).await?;
    let (role, role_id) = match role {
        Some(role) => access::named_role(&role, client).await?,
        None => (None, None),
    };
    let group_ids = (!group_ids.is_empty()).then_some(group_ids);
    let attributes = InviteAttributes { email, group_ids, project_id, role, role_id };
    let request = CreateInvite { attributes, current_password: None };
    let proof = proof(password_stdin);
    let made =
        send_proven(request, |request| &mut request.current_password, &proof, client, terminal).await?;
    print(&made, &format, terminal)
}

pub(crate) async fn reset_password(
    args: ResetPasswordArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ResetPasswordArgs { email, password_stdin, output } = args;
    let format = output.shown_once()?;
    let user_id = users::find(&email, client).await?.id;
    let request = CreatePasswordReset { user_id, current_password: None };
    let proof = proof(password_stdin);
    let made =
        send_proven(request, |request| &mut request.current_password, &proof, client, terminal).await?;
    print(&made, &format, terminal)
}

const fn proof(stdin: bool) -> Proof<'static> {
    Proof {
        stdin,
        why: "a link that makes somebody an account, or gives them another password, needs your own password",
        hint: "add --password-stdin and pipe your password in",
    }
}

/// An invitation that was made, as a program reads it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MadeInvite<'a> {
    id: &'a str,
    email: &'a str,
    /// It is not told again.
    token: &'a str,
    /// Absent where browsers cannot sign in.
    link: Option<&'a str>,
    expires_at: Option<DateTime<Utc>>,
}

/// The link, once.
fn print(made: &CreatedInvite, format: &Format, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let CreatedInvite { id, email, token, page, expires_at } = made;
    let token = token.as_ref().ok_or_else(|| CliError::new("the console told no code"))?.expose();
    let until = expires_at.map(|at| at.format("%Y-%m-%d %H:%M UTC").to_string());
    terminal.say(format_args!(
        "give this to {email} over a private channel; it is good once, until {}:",
        or_dash(until.as_deref())
    ));
    let link = page.as_ref().map(|page| format!("{page}#{token}"));
    let told = MadeInvite { id, email, token, link: link.as_deref(), expires_at: *expires_at };
    output::told_once(&told, link.as_deref().unwrap_or(token), &[token], format, terminal)?;
    Ok(terminal.out.flush()?)
}

pub(crate) async fn list(
    args: InvitesArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let InvitesArgs { project, output } = args;
    let project_id = key::project_id(client, project.as_deref()).await?;
    let list = |after| ListInvites { after, first: PAGE_SIZE, project_id: project_id.clone() };
    let invites: Vec<Invite> = all_pages(client, list).await?;
    output::list(&invites, &output, NOTHING, terminal)
}

pub(crate) async fn delete(
    args: UninviteArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let UninviteArgs { id, confirm } = args;
    let id = key::bare_id("invite", &id).to_owned();
    terminal.confirm(&format!("revoke invitation {id}"), confirm.yes)?;
    client.send(&DeleteInvite { id: id.clone() }).await.map_err(|error| {
        CliError::absent(error, || {
            CliError::missing(format!("invitation {id}"), "`plural cd users invites` shows them")
        })
    })?;
    terminal.say(format_args!("invitation {id} revoked"));
    Ok(())
}
