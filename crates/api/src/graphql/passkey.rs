//! Passkeys.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_core::ids::PasskeyId;

use super::{
    error::{IntoGraphql, Nullable, id, id_option, nullable, parse},
    record::by_id,
    request::request,
    user::User,
};

/// A key that a device holds and signs its owner in with.
pub(crate) struct Passkey(plural_core::passkey::Passkey);

impl From<plural_core::passkey::Passkey> for Passkey {
    fn from(passkey: plural_core::passkey::Passkey) -> Self {
        Self(passkey)
    }
}

/// A key that a device holds and signs its owner in with, in the place of a password and its second factor.
#[Object]
impl Passkey {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// For its owner to tell it from others.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// Whose it is.
    async fn user(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(by_id::<plural_core::user::User, _>(ctx, self.0.user_id)).await
    }

    /// When somebody last signed in with it.
    async fn last_used_at(&self) -> Option<DateTime<Utc>> {
        self.0.last_used_at
    }

    /// When it was added.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }
}

/// What changes of a passkey.
#[derive(Debug, InputObject)]
pub(crate) struct PasskeyAttributes {
    /// For its owner to tell it from others.
    name: String,
}

/// Reading passkeys.
#[derive(Default)]
pub(crate) struct PasskeyQuery;

/// Reading passkeys.
#[Object]
impl PasskeyQuery {
    /// Your passkeys, or as an administrator those of a user; oldest first, at most 20. They are added in a browser, at
    /// `/auth/passkeys`.
    async fn passkeys(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The user; yourself when absent.")] user_id: Option<ID>,
    ) -> Nullable<Vec<Passkey>> {
        nullable(async {
            let request = request(ctx);
            let user = id_option(user_id.as_deref()).into_graphql(ctx)?;
            let found = request.app.passkeys(&request.op, user).await.into_graphql(ctx)?;
            Ok(Some(found.into_iter().map(Passkey::from).collect()))
        })
        .await
    }
}

/// Changing passkeys.
#[derive(Default)]
pub(crate) struct PasskeyMutation;

/// Changing passkeys.
#[Object]
impl PasskeyMutation {
    /// Gives a passkey another name.
    async fn update_passkey(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] passkey: ID,
        attributes: PasskeyAttributes,
    ) -> Nullable<Passkey> {
        nullable(async {
            let request = request(ctx);
            let passkey: PasskeyId = id(&passkey).into_graphql(ctx)?;
            let name = parse("attributes.name", &attributes.name).into_graphql(ctx)?;
            let changed = request.app.passkey_rename(&request.op, passkey, &name).await;
            Ok(Some(changed.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Removes a passkey of yours, or as an administrator one of a user. Sessions that were opened with it go on.
    async fn delete_passkey(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] passkey: ID,
    ) -> Nullable<Passkey> {
        nullable(async {
            let request = request(ctx);
            let passkey: PasskeyId = id(&passkey).into_graphql(ctx)?;
            Ok(Some(request.app.passkey_delete(&request.op, passkey).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
