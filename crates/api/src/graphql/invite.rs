//! Invitations.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::invite::{CreatedInvite, InviteFilter};
use plural_core::Error;
use plural_core::ids::{GroupId, ProjectId, UserId};
use plural_core::invite::InviteTo;
use plural_core::policy::NamedRole;
use plural_core::role::CustomRole;
use plural_core::specs::Email;
use secrecy::{ExposeSecret, SecretString};

use super::{
    binding::{PolicyRole, named},
    error::{IntoGraphql, List, Nullable, id, id_in, id_option, items, nullable, parse},
    group::Group,
    limited::limited,
    page::{connection, page_args},
    project::Project,
    record::{by_id, page_of},
    request::request,
    role::Role,
    user::User,
};

/// A code with which somebody makes an account, or chooses another password.
pub(crate) struct Invite {
    invite: plural_core::invite::Invite,
    code: Option<SecretString>,
}

impl From<plural_core::invite::Invite> for Invite {
    fn from(invite: plural_core::invite::Invite) -> Self {
        Self { invite, code: None }
    }
}

impl From<CreatedInvite> for Invite {
    fn from(made: CreatedInvite) -> Self {
        let CreatedInvite { invite, code } = made;
        Self { invite, code: Some(code) }
    }
}

connection!(InviteConnection, InviteEdge, Invite);

/// A code with which somebody makes an account, or chooses another password: good once, for a time.
#[Object]
impl Invite {
    /// Id.
    async fn id(&self) -> ID {
        self.invite.id.to_string().into()
    }

    /// The address of the account.
    async fn email(&self) -> &str {
        self.invite.email.as_str()
    }

    /// Groups that the account is put into; those that are gone by then are left out.
    async fn groups(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<Group>>> {
        nullable(async {
            let mut groups = Vec::new();
            for id in &self.invite.groups {
                groups.extend(by_id::<plural_core::group::Group, Group>(ctx, *id).await?);
            }
            Ok(limited(ctx, groups.into_iter()))
        })
        .await
    }

    /// The account that gets another password; absent where one is made.
    async fn user(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(by_id::<plural_core::user::User, _>(ctx, self.invite.user_id)).await
    }

    /// The project that it is to; absent where it is to none, and where you may not read that.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(async {
            let Some(to) = self.invite.to else { return Ok(None) };
            by_id::<plural_core::project::Project, _>(ctx, to.project_id).await
        })
        .await
    }

    /// The role on the project that it gives, if that is a built-in one.
    async fn role(&self) -> Option<PolicyRole> {
        match self.invite.to?.role {
            NamedRole::BuiltIn(role) => PolicyRole::of(role),
            NamedRole::Custom(_) => None,
        }
    }

    /// The role on the project that it gives, if administrators made that.
    async fn custom_role(&self, ctx: &Context<'_>) -> Nullable<Role> {
        nullable(async {
            match self.invite.to {
                Some(InviteTo { role: NamedRole::Custom(id), .. }) => by_id::<CustomRole, _>(ctx, id).await,
                Some(InviteTo { role: NamedRole::BuiltIn(_), .. }) | None => Ok(None),
            }
        })
        .await
    }

    /// Who invites.
    async fn inviter(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(by_id::<plural_core::user::User, _>(ctx, self.invite.inviter_id)).await
    }

    /// The code; told only by the mutation that made it, once.
    async fn token(&self) -> Option<&str> {
        self.code.as_ref().map(ExposeSecret::expose_secret)
    }

    /// The page that takes the code; with `#` and the code behind it, it is a link. Absent where browsers cannot sign in.
    async fn page(&self, ctx: &Context<'_>) -> Option<String> {
        let console = request(ctx).options.public_url.as_deref()?;
        Some(format!("{}/auth/invite", console.trim_end_matches('/')))
    }

    /// When it is worth nothing any more.
    async fn expires_at(&self) -> Option<DateTime<Utc>> {
        Some(self.invite.expires_at)
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.invite.created_at)
    }
}

/// What an invitation is made from.
#[derive(Debug, InputObject)]
pub(crate) struct InviteAttributes {
    /// The address of the account.
    email: String,
    /// Groups that the account is put into; not together with a project.
    group_ids: List<ID>,
    /// The project that it is to: whoever accepts it gets a role there. For administrators of the project.
    project_id: Option<ID>,
    /// The role on the project, if it is a built-in one.
    role: Option<PolicyRole>,
    /// The role on the project, if administrators made it.
    role_id: Option<ID>,
}

/// An invitation to make.
enum Invited {
    Account(Vec<GroupId>),
    Project(InviteTo),
}

impl InviteAttributes {
    fn parse(self) -> plural_core::Result<(Email, Invited)> {
        let Self { email, group_ids, project_id, role, role_id } = self;
        let email = parse("attributes.email", &email)?;
        let groups = items(group_ids).unwrap_or_default();
        let Some(project) = id_in::<ProjectId>("attributes.projectId", project_id.as_deref())? else {
            if role.is_some() || role_id.is_some() {
                return Err(Error::invalid(
                    "attributes.projectId",
                    "must name the project that the role is on",
                ));
            }
            let groups: plural_core::Result<Vec<GroupId>> = groups.iter().map(|group| id(group)).collect();
            return Ok((email, Invited::Account(groups?)));
        };
        if !groups.is_empty() {
            let told = "must be empty: an invitation to a project gives a role there and nothing else";
            return Err(Error::invalid("attributes.groupIds", told));
        }
        Ok((email, Invited::Project(InviteTo { project_id: project, role: named(role, role_id)? })))
    }
}

/// Reading invitations.
#[derive(Default)]
pub(crate) struct InviteQuery;

/// Reading invitations.
#[Object]
impl InviteQuery {
    /// Invitations that wait to be accepted: all of them for administrators of the installation, those to their projects for others.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn invites(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their address.")] q: Option<String>,
        #[graphql(desc = "Only to this project.")] project_id: Option<ID>,
    ) -> Nullable<InviteConnection> {
        let page = page_args(after, first, before, last);
        let filter = id_option(project_id.as_deref()).map(|project_id| InviteFilter { q, project_id });
        page_of::<plural_core::invite::Invite, _>(ctx, filter, page).await
    }
}

/// Changing invitations.
#[derive(Default)]
pub(crate) struct InviteMutation;

/// Changing invitations.
#[Object]
impl InviteMutation {
    /// Invites somebody to make their own account, within seven days; in the place of another invitation of theirs. For
    /// administrators. With a project, for its administrators: whoever accepts it gets a role there, with the account that they have
    /// or make.
    async fn create_invite(
        &self,
        ctx: &Context<'_>,
        attributes: InviteAttributes,
        #[graphql(desc = "Your own password; not needed a moment after you signed in.")]
        current_password: Option<String>,
    ) -> Nullable<Invite> {
        nullable(async {
            let request = request(ctx);
            let (email, to) = attributes.parse().into_graphql(ctx)?;
            let password = current_password.map(SecretString::from);
            let made = match to {
                Invited::Account(groups) => {
                    request.app.invite_create(&request.op, &email, &groups, password).await
                }
                Invited::Project(to) => {
                    request.app.project_invite_create(&request.op, &email, to, password).await
                }
            };
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Lets a user who has forgotten their password choose another one, within a day. For administrators.
    async fn create_password_reset(
        &self,
        ctx: &Context<'_>,
        user_id: ID,
        #[graphql(desc = "Your own password; not needed a moment after you signed in.")]
        current_password: Option<String>,
    ) -> Nullable<Invite> {
        nullable(async {
            let request = request(ctx);
            let user: UserId = id(&user_id).into_graphql(ctx)?;
            let password = current_password.map(SecretString::from);
            let made = request.app.password_reset_create(&request.op, user, password).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Revokes an invitation.
    async fn delete_invite(&self, ctx: &Context<'_>, #[graphql(name = "id")] invite: ID) -> Nullable<Invite> {
        nullable(async {
            let request = request(ctx);
            let invite = id(&invite).into_graphql(ctx)?;
            Ok(Some(request.app.invite_delete(&request.op, invite).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
