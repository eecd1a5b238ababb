//! Links that sign somebody in: a code that whoever runs the console's own process makes, good once and for ten minutes.
//! `plural demo` makes one; nothing that is asked over a network does.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use plural_core::access::{Actor, UserActor};
use plural_core::specs::Email;
use plural_core::token::TokenScopes;
use plural_core::{Error, Result};
use secrecy::SecretString;

use crate::access::Write;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::secret::{TokenHash, random};
use crate::token::{CreatedToken, TokenKind};

/// How long a code is good.
const GOOD: TimeDelta = TimeDelta::minutes(10);

/// The code that waits in this process, if one does: another one takes its place.
#[derive(Default)]
pub(crate) struct SignInLink {
    waits: Mutex<Option<Waiting>>,
}

struct Waiting {
    hash: TokenHash,
    email: Email,
    until: DateTime<Utc>,
}

impl SignInLink {
    /// Whom a code signs in; it is good no more.
    fn take(&self, code: &str, now: DateTime<Utc>) -> Option<Email> {
        let mut waits = self.waits.lock();
        let is_this =
            waits.as_ref().is_some_and(|waits| waits.hash == TokenHash::of(code) && now < waits.until);
        if is_this { waits.take().map(|waits| waits.email) } else { None }
    }
}

impl App {
    /// A code that signs this user in, once. For whoever runs this process: it asks nobody.
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub fn sign_in_link_create(&self, email: &Email) -> Result<SecretString> {
        let code = hex::encode(random::<32>()?);
        let until = self.now() + GOOD;
        *self.sign_in_link.waits.lock() =
            Some(Waiting { hash: TokenHash::of(&code), email: email.clone(), until });
        Ok(SecretString::from(code))
    }

    /// A session for a code.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for one that is none, was used, or is too old, and where the user may not sign in.
    pub async fn sign_in_link_redeem(&self, ctx: &OpCtx, code: &str) -> Result<CreatedToken> {
        let Some(email) = self.sign_in_link.take(code, ctx.now()) else {
            self.audit_sign_in_refused(ctx, None);
            return Err(Error::Unauthenticated);
        };
        let found = self.store.user_credentials(&email).await?;
        let user = found.map(|(user, _)| user.authorize::<Write>(&self.system_ctx())).transpose()?;
        let Some(user) = user.filter(|user| user.suspended_at.is_none()) else {
            self.audit_sign_in_refused(ctx, None);
            return Err(Error::Unauthenticated);
        };
        // From here on it is that user who acts.
        let actor = UserActor {
            id: user.id,
            email: user.email.to_string(),
            admin: user.admin,
            groups: std::collections::HashSet::new(),
            token: None,
        };
        let ctx = OpCtx::new(Actor::User(actor), Arc::clone(&self.clock))
            .with_request_id(ctx.request_id())
            .with_peer(ctx.peer());
        let hours = TimeDelta::hours(i64::from(self.settings.session_hours));
        let kind = TokenKind { session: true, scopes: TokenScopes::all(), verified: None, identity: None };
        self.token_issue(&ctx, &user, kind, Some(ctx.now() + hours), None).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_good_once_and_for_a_while() {
        let now = DateTime::UNIX_EPOCH;
        let link = SignInLink::default();
        let wait = || {
            let email: Email = "ada@example.com".parse().unwrap();
            *link.waits.lock() = Some(Waiting { hash: TokenHash::of("a"), email, until: now + GOOD });
        };
        assert!(link.take("a", now).is_none(), "nobody made it");
        wait();
        assert!(link.take("b", now).is_none() && link.take("", now).is_none());
        assert!(link.take("a", now + GOOD).is_none());
        assert_eq!(link.take("a", now).unwrap().as_str(), "ada@example.com");
        assert!(link.take("a", now).is_none());
    }
}
