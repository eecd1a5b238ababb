//! Signing in, and the first administrator.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use plural_core::access::{Actor, Scope, UserActor};
use plural_core::{Email, Error, ProjectId, Result, UserId};
use secrecy::SecretString;

use crate::access::{Admin, Read, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::ports::InitialAdmin;
use crate::secret::{hash_password, random_password, verify_password};
use crate::token::CreatedToken;

/// Wrong passwords that an address may try before it has to wait.
const TRIES: u32 = 5;
/// How long it has to wait.
const WAIT: TimeDelta = TimeDelta::minutes(5);
/// Addresses that are remembered at most.
const REMEMBERED: usize = 10_000;

/// The first administrator, made at first start. The password is told once.
#[derive(Debug)]
pub struct FirstAdmin {
    /// Address.
    pub email: Email,
    /// Password.
    pub password: SecretString,
}

/// Failed logins by address.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    failed: Mutex<HashMap<Email, (u32, DateTime<Utc>)>>,
}

impl Throttle {
    fn check(&self, email: &Email, now: DateTime<Utc>) -> Result<()> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match failed.get(email) {
            Some((tries, since)) if *tries >= TRIES && now - *since < WAIT => Err(Error::unavailable(
                "too many wrong passwords for this address: wait five minutes, or let an administrator set a new one",
            )),
            _ => Ok(()),
        }
    }

    fn record(&self, email: Email, ok: bool, now: DateTime<Utc>) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if ok {
            failed.remove(&email);
            return;
        }
        if failed.len() >= REMEMBERED {
            failed.retain(|_, (_, since)| now - *since < WAIT);
        }
        if failed.len() < REMEMBERED || failed.contains_key(&email) {
            let (tries, since) = failed.entry(email).or_insert((0, now));
            if now - *since >= WAIT {
                *tries = 0;
            }
            *tries += 1;
            *since = now;
        }
    }
}

impl App {
    /// Makes the default project and the first administrator when there are no users yet; `None` otherwise.
    /// Without a given password a random one is drawn.
    pub async fn install(&self, email: &Email, password: Option<SecretString>) -> Result<Option<FirstAdmin>> {
        let ctx = self.system_ctx();
        let by = authorize_installation::<Admin>(&ctx, Scope::AdminOnly)?;
        let reader = authorize_installation::<Read>(&ctx, Scope::Installation)?;
        let page = plural_core::PageArgs::first(1).request()?;
        if !self.store.user_list(&reader, None, &page).await?.edges.is_empty() {
            return Ok(None);
        }
        let password = match password {
            Some(password) => password,
            None => random_password()?,
        };
        let hashing = password.clone();
        let password_hash = tokio::task::spawn_blocking(move || hash_password(&hashing))
            .await
            .map_err(|cause| Error::internal("hashing a password", cause))??;
        let admin = InitialAdmin {
            user_id: UserId::new(),
            project_id: ProjectId::new(),
            email: email.clone(),
            password_hash,
        };
        let by = by.audited_new(&ctx, "installation.create", "user", admin.user_id, email);
        let made = self.store.user_create_first(by, &admin).await?;
        Ok(made.then(|| FirstAdmin { email: email.clone(), password }))
    }

    /// Signs in with a password: an access token that ends by itself.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] whatever was wrong; [`Error::Unavailable`] after too many tries.
    pub async fn session_create(
        &self,
        ctx: &OpCtx,
        email: &str,
        password: SecretString,
    ) -> Result<CreatedToken> {
        let email: Email = email.parse().map_err(|_| Error::Unauthenticated)?;
        self.throttle.check(&email, ctx.now())?;
        let found = self.store.user_credentials(&email).await?;
        let (user, hash) = found.map_or((None, None), |(user, hash)| (Some(user), hash));
        let permit = self.hashing.acquire().await.map_err(|e| Error::internal("checking a password", e))?;
        let fits = tokio::task::spawn_blocking(move || verify_password(&password, hash.as_deref()))
            .await
            .map_err(|cause| Error::internal("checking a password", cause))?;
        drop(permit);
        self.throttle.record(email.clone(), fits, ctx.now());
        let Some(user) = user.filter(|_| fits) else {
            metrics::counter!("plural_logins_failed_total").increment(1);
            return Err(Error::Unauthenticated);
        };
        // From here on it is that user who acts.
        let user = user.authorize::<crate::access::Write>(&self.system_ctx())?;
        let ctx = OpCtx::new(
            Actor::User(UserActor {
                id: user.id,
                email: user.email.to_string(),
                admin: user.admin,
                groups: std::collections::HashSet::new(),
                token: None,
            }),
            std::sync::Arc::clone(&self.clock),
        )
        .with_request_id(ctx.request_id());
        let hours = TimeDelta::hours(i64::from(self.settings.session_hours));
        self.token_issue(&ctx, &user, true, Some(hours)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_wrong_passwords_make_an_address_wait() {
        let throttle = Throttle::default();
        let (ada, bob): (Email, Email) = ("ada@x".parse().unwrap(), "bob@x".parse().unwrap());
        let now = Utc::now();
        for _ in 0..TRIES {
            assert!(throttle.check(&ada, now).is_ok());
            throttle.record(ada.clone(), false, now);
        }
        assert!(throttle.check(&ada, now).is_err());
        assert!(throttle.check(&bob, now).is_ok());
        assert!(throttle.check(&ada, now + WAIT).is_ok());
        throttle.record(ada.clone(), false, now + WAIT);
        assert!(throttle.check(&ada, now + WAIT).is_ok());
        throttle.record(ada.clone(), true, now + WAIT);
        assert!(throttle.check(&ada, now).is_ok());
    }
}
