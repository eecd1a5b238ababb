//! Invitations.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::invite::CreatedInvite;
use plural_app::records::Search;
use plural_core::ids::{GroupId, UserId};
use secrecy::{ExposeSecret, SecretString};

use super::{
    error::{IntoGraphql, List, Nullable, id, items, nullable, parse},
    group::Group,
    limited::limited,
    page::{connection, page_args},
    record::{by_id, page_of},
    request::request,
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
        nullable(async {
            let Some(id) = self.invite.user_id else { return Ok(None) };
            by_id::<plural_core::user::User, _>(ctx, id).await
        })
        .await
    }

    /// Who invites.
    async fn inviter(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(async { by_id::<plural_core::user::User, _>(ctx, self.invite.inviter_id).await }).await
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
    /// Groups that the account is put into.
    group_ids: List<ID>,
}

/// Reading invitations.
#[derive(Default)]
pub(crate) struct InviteQuery;

/// Reading invitations.
#[Object]
impl InviteQuery {
    /// Invitations that wait to be accepted; for administrators.
    async fn invites(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their address.")] q: Option<String>,
    ) -> Nullable<InviteConnection> {
        let page = page_args(after, first, before, last);
        page_of::<plural_core::invite::Invite, _>(ctx, Ok(Search { q }), page).await
    }
}

/// Changing invitations.
#[derive(Default)]
pub(crate) struct InviteMutation;

/// Changing invitations.
#[Object]
impl InviteMutation {
    /// Invites somebody to make their own account, within seven days; in the place of another invitation of theirs. For
    /// administrators.
    async fn create_invite(
        &self,
        ctx: &Context<'_>,
        attributes: InviteAttributes,
        #[graphql(desc = "Your own password; not needed a moment after you signed in.")]
        current_password: Option<String>,
    ) -> Nullable<Invite> {
        nullable(async {
            let request = request(ctx);
            let InviteAttributes { email, group_ids } = attributes;
            let email = parse("attributes.email", &email).into_graphql(ctx)?;
            let groups = items(group_ids).unwrap_or_default();
            let groups: plural_core::Result<Vec<GroupId>> = groups.iter().map(|group| id(group)).collect();
            let groups = groups.into_graphql(ctx)?;
            let password = current_password.map(SecretString::from);
            let made = request.app.invite_create(&request.op, &email, &groups, password).await;
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
