//! Identities of users: what ties accounts to identity providers.

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, Utc};
use plural_core::ids::{UserId, UserIdentityId};

use super::{
    error::{IntoGraphql, Nullable, id, nullable},
    request::request,
};

/// What ties an account to an identity provider.
pub(crate) struct UserIdentity(plural_core::user_identity::UserIdentity);

impl From<plural_core::user_identity::UserIdentity> for UserIdentity {
    fn from(identity: plural_core::user_identity::UserIdentity) -> Self {
        Self(identity)
    }
}

/// What ties an account to an identity provider: who signs in there as the subject, is the user here.
#[Object]
impl UserIdentity {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The name of the provider.
    async fn provider(&self) -> String {
        self.0.provider.to_string()
    }

    /// The provider's issuer.
    async fn issuer(&self) -> String {
        self.0.issuer.to_string()
    }

    /// Who they are to the provider: `sub`.
    async fn subject(&self) -> String {
        self.0.subject.clone()
    }

    /// When they last signed in with it, or the provider last said that they are there.
    async fn last_used_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.used_at)
    }

    /// When the account was tied.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }
}

/// Reading identities.
#[derive(Default)]
pub(crate) struct UserIdentityQuery;

/// Reading identities.
#[Object]
impl UserIdentityQuery {
    /// The identities that a user signs in with: your own, and for administrators of the installation those of everybody.
    async fn user_identities(&self, ctx: &Context<'_>, user_id: ID) -> Nullable<Vec<UserIdentity>> {
        nullable(async {
            let request = request(ctx);
            let user: UserId = id(&user_id).into_graphql(ctx)?;
            let found = request.app.user_identities(&request.op, user).await.into_graphql(ctx)?;
            Ok(Some(found.into_iter().map(UserIdentity::from).collect()))
        })
        .await
    }
}

/// Changing identities.
#[derive(Default)]
pub(crate) struct UserIdentityMutation;

/// Changing identities.
#[Object]
impl UserIdentityMutation {
    /// Unties an account from an identity provider: the sessions that the identity made end, and so do the memberships that the
    /// provider gave. Who signs in there next is tied anew, by a verified address, or gets another account. Administrators only.
    async fn delete_user_identity(
        &self,
        ctx: &Context<'_>,
        user_id: ID,
        #[graphql(name = "id")] identity: ID,
    ) -> Nullable<UserIdentity> {
        nullable(async {
            let request = request(ctx);
            let user: UserId = id(&user_id).into_graphql(ctx)?;
            let identity: UserIdentityId = id(&identity).into_graphql(ctx)?;
            let gone = request.app.user_identity_delete(&request.op, user, identity).await;
            Ok(Some(gone.into_graphql(ctx)?.into()))
        })
        .await
    }
}
