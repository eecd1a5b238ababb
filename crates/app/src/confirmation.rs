//! Codes in the place of a password: who signs in with an identity provider or a passkey has none to type where a command or the API asks
//! for it. They sign in again in a browser, and are shown a code that counts once, for five minutes.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use plural_core::access::Actor;
use plural_core::ids::{TokenId, UserId};
use plural_core::user::User;
use plural_core::{Error, Result};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::access::{Audited, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::secret::{TokenHash, random_letters, typed_letters};
use crate::token::parent;
use crate::user::UserSelector;

/// What every code begins with.
const PREFIX: &str = "confirm-";
/// Letters of a code: 20^16 of them.
const LETTERS: usize = 16;
/// How long one counts.
const LASTS: TimeDelta = TimeDelta::minutes(5);

/// A code to keep.
#[derive(Debug)]
pub struct ConfirmationCreate {
    /// Of the code.
    pub hash: TokenHash,
    /// The session that it was shown in: it ends with that.
    pub session: TokenId,
    /// When it is worth nothing any more.
    pub expires_at: DateTime<Utc>,
}

/// Codes in the place of a password.
#[async_trait]
pub trait ConfirmationStore: Send + Sync + 'static {
    /// Keeps one in the place of those that the user has.
    async fn confirmation_create(
        &self,
        by: Audited<'_, User, Write>,
        create: &ConfirmationCreate,
    ) -> Result<()>;
    /// Takes a user's code; whether there was one.
    async fn confirmation_take(&self, by: Audited<'_, User, Write>, hash: &TokenHash) -> Result<bool>;
}

impl App {
    /// A code that counts as the caller's password, once; for somebody who has just signed in in a browser.
    ///
    /// # Errors
    /// [`Error::Forbidden`] in a session of more than a moment ago, and for who has assumed a service account.
    pub async fn confirmation_create(&self, ctx: &OpCtx) -> Result<SecretString> {
        let Actor::User(actor) = ctx.actor() else { return Err(Error::Unauthenticated) };
        let session = parent(ctx).ok_or(Error::Unauthenticated)?;
        if !session.is_fresh(ctx.now()) || session.assumed_by.is_some() {
            return Err(Error::forbidden("sign in again: only who has just signed in is shown a code"));
        }
        let user = self.authorized::<User, Write>(ctx, &UserSelector::Id(actor.id)).await?;
        let code = random_letters(LETTERS)?;
        let create = ConfirmationCreate {
            hash: hash(user.id, &code),
            session: session.id,
            expires_at: ctx.now() + LASTS,
        };
        self.store.confirmation_create(user.audited(ctx, "confirmation.create"), &create).await?;
        Ok(SecretString::from(format!("{PREFIX}{code}")))
    }

    /// Whether this is a code of the caller's; it counts no more then.
    pub(crate) async fn confirmation_take(
        &self,
        ctx: &OpCtx,
        id: UserId,
        text: &SecretString,
    ) -> Result<bool> {
        let Some(code) = text.expose_secret().trim().strip_prefix(PREFIX) else { return Ok(false) };
        let code = typed_letters(code, LETTERS);
        let user = self.authorized::<User, Write>(ctx, &UserSelector::Id(id)).await?;
        self.store.confirmation_take(user.audited(ctx, "confirmation.use"), &hash(id, &code)).await
    }
}

fn hash(user: UserId, code: &str) -> TokenHash {
    TokenHash::from_bytes(Sha256::digest(format!("confirmation\n{user}\n{code}")).into())
}
