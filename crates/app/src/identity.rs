//! Signing in with an identity provider, and asking it again whether somebody is still there.
//!
//! The browser is sent to the provider with a sealed cookie that holds what its answer must fit: state, nonce and the verifier of
//! the code. Nothing is kept of a login that nobody finishes; that one was finished is kept, so that it counts once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use plural_core::access::{Actor, Scope, UserActor};
use plural_core::data_key::KeyOwner;
use plural_core::identity_provider::{IdentityProvider, ProviderClaims};
use plural_core::ids::{GroupId, IdentityProviderId, TokenId, UserId, UserIdentityId};
use plural_core::specs::{Email, Name};
use plural_core::token::TokenScopes;
use plural_core::user::User;
use plural_core::{Error, Result};
use plural_kit::{Backoff, Shutdown, ShutdownSignal};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::access::{Admin, Audited, Authorized, Installation, Write, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::identity_provider::{IdentityProviderRow, IdentityProviderSelector};
use crate::ports::identity::{AuthorizationRequest, CodeExchange, ProviderAnswer, ProviderError};
use crate::seal::Sealed;
use crate::secret::random;
use crate::token::{CreatedToken, TokenKind};
use crate::user::UserSelector;

/// How long somebody may take to sign in at the provider.
const PATIENCE: TimeDelta = TimeDelta::minutes(10);
/// A provider is asked again after so long: well within the half hour that Keycloak, as it comes, keeps somebody who does nothing.
const ASK_AFTER: TimeDelta = TimeDelta::minutes(20);
/// One that did not answer is asked again after so long.
const TRY_AFTER: TimeDelta = TimeDelta::minutes(5);
/// Without an answer of the provider for so long, a login ends.
const LONGEST_UNASKED: TimeDelta = TimeDelta::hours(12);
/// People that are asked about in one pass, and at once at one provider.
const OF_A_PASS: u64 = 500;
const AT_ONCE: usize = 8;
/// A provider that did not answer so often in a row is asked nothing more in this pass.
const MOST_UNANSWERED: u32 = 8;
/// How long a console that stops waits for providers that it asked.
const LAST: Duration = Duration::from_secs(12);
/// The first pause before what a provider said is stored again, and how often that is tried.
const KEEP_AGAIN: Duration = Duration::from_millis(500);
const KEEP_TRIES: u32 = 5;
/// Bytes of what a browser comes back with.
const LONGEST: usize = 4096;
/// What the cookie is sealed for.
const CONTEXT: &str = "identity:login";

/// Somebody whom a provider vouched for.
#[derive(Debug)]
pub struct IdentityAdmit {
    /// By whom.
    pub provider: IdentityProviderId,
    /// Who, to the provider.
    pub subject: String,
    /// Ids of what may have to be made.
    pub id: UserIdentityId,
    /// The same.
    pub user_id: UserId,
    /// The address that finds or makes an account; absent when the provider may not vouch for one, with the reason.
    pub email: std::result::Result<Email, String>,
    /// Of a new account.
    pub name: Name,
    /// Somebody without an account gets one.
    pub creates: bool,
    /// Our groups that the provider gives; absent when it did not say.
    pub groups: Option<Vec<GroupId>>,
    /// What must not have been used before.
    pub spend: [u8; 32],
    /// How long that is remembered.
    pub spent_until: DateTime<Utc>,
}

/// An account that is tied to a provider.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Id.
    pub id: UserIdentityId,
    /// Of which provider.
    pub provider: IdentityProviderId,
    /// Who, to the provider.
    pub subject: String,
    /// Whose.
    pub user_id: UserId,
    /// With which the provider can be asked again, sealed for `identity:ID:refresh`.
    pub refresh: Option<Sealed>,
    /// Which one that is: sealed anew, it stays the same.
    pub refresh_version: i32,
    /// When the provider last said that they are there.
    pub checked_at: DateTime<Utc>,
}

/// What the provider said when it was asked again.
#[derive(Debug, Clone)]
pub struct IdentityCheck {
    /// Our groups that the provider gives; absent when it did not say.
    pub groups: Option<Vec<GroupId>>,
    /// Another refresh token in place of the one that was used.
    pub refresh: Option<Sealed>,
}

/// Which identities are asked about.
#[derive(Debug, Clone, Copy)]
pub struct IdentitiesDue {
    /// Those of users with tokens whose provider can be asked, and was asked before this.
    pub checked: DateTime<Utc>,
    /// Those with memberships whose provider gave nothing to ask with, and vouched for them before this.
    pub unasked: DateTime<Utc>,
    /// Of these, those that were tried before this.
    pub tried: DateTime<Utc>,
    /// Now.
    pub now: DateTime<Utc>,
    /// So many at most.
    pub limit: u64,
}

/// Accounts that are tied to providers.
#[async_trait]
pub trait IdentityStore: Send + Sync + 'static {
    /// Finds, ties or makes the account of somebody whom a provider vouched for, and puts them into the groups that it gives.
    ///
    /// # Errors
    /// [`Error::Forbidden`] when there is no account for them; [`Error::Unauthenticated`] for a login that was finished before, and
    /// for a suspended account.
    async fn identity_admit(
        &self,
        by: Audited<'_, Installation, Admin>,
        admit: &IdentityAdmit,
    ) -> Result<(User, Identity)>;
    /// Keeps what the provider gave for being asked again.
    async fn identity_refresh_keep(&self, id: UserIdentityId, refresh: &Sealed) -> Result<()>;
    /// Identities whose providers are to be asked, and those whose providers cannot be asked any more; that they were tried is set to
    /// `now`.
    async fn identities_due(&self, asked: &IdentitiesDue) -> Result<Vec<Identity>>;
    /// The provider said that they are there; whether that changed their groups.
    async fn identity_checked(
        &self,
        by: Audited<'_, User, Write>,
        identity: &Identity,
        check: IdentityCheck,
    ) -> Result<bool>;
    /// The provider of the login that a token comes from.
    async fn identity_provider_of_token(&self, token: TokenId) -> Result<Option<IdentityProviderRow>>;
    /// The provider said that they are not there, or nothing for too long: ends what their login made and the memberships that it gave,
    /// and all of their tokens where they have neither a password nor another provider that vouched for them after `unasked`.
    async fn identity_end(
        &self,
        by: Audited<'_, User, Write>,
        identity: &Identity,
        unasked: DateTime<Utc>,
    ) -> Result<()>;
}

/// Where somebody goes to sign in.
#[derive(Debug)]
pub struct SignInBegun {
    /// The provider's page.
    pub url: String,
    /// For the browser to bring back.
    pub cookie: String,
}

/// What a browser came back with.
#[derive(Debug, Default)]
pub struct SignInAnswer {
    /// The code.
    pub code: Option<String>,
    /// The state.
    pub state: Option<String>,
    /// Who answers, where the provider says so.
    pub issuer: Option<String>,
    /// The provider's word for what went wrong.
    pub error: Option<String>,
}

/// A finished login.
#[derive(Debug)]
pub struct SignedIn {
    /// The session.
    pub session: CreatedToken,
    /// What the person came for, as it was given at the beginning.
    pub then: Option<String>,
}

/// What the cookie holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flow {
    provider: IdentityProviderId,
    state: String,
    nonce: String,
    verifier: String,
    began: DateTime<Utc>,
    then: Option<String>,
}

impl App {
    /// Names of the providers that people may sign in with: no secret.
    pub async fn sign_in_providers(&self) -> Result<Vec<String>> {
        self.store.identity_provider_names().await
    }

    /// Sends somebody to a provider. `then` comes back with the finished login.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a provider that there is not; [`Error::Unavailable`] for one that does not answer.
    pub async fn sign_in_begin(
        &self,
        ctx: &OpCtx,
        provider: &str,
        redirect: String,
        then: Option<String>,
    ) -> Result<SignInBegun> {
        let row = self.sign_in_provider(provider).await?;
        let access = self.provider_access(&row).await?;
        let word = || random::<32>().map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        let (state, nonce, verifier) = (word()?, word()?, word()?);
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let request =
            AuthorizationRequest { redirect, state: state.clone(), nonce: nonce.clone(), challenge };
        let asked = self.identities.authorization_url(&access, &request).await;
        let url = asked.map_err(|error| told(&row.provider, &error))?;
        let flow = Flow { provider: row.provider.id, state, nonce, verifier, began: ctx.now(), then };
        let json = serde_json::to_vec(&flow).map_err(|cause| Error::internal("writing a login", cause))?;
        let sealed = self.sealer.seal(KeyOwner::Installation, CONTEXT, &json).await?;
        Ok(SignInBegun { url, cookie: URL_SAFE_NO_PAD.encode(sealed.as_bytes()) })
    }

    /// Finishes a login: the browser must be the one that began it, and the provider the one that it was sent to.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for an answer that fits nothing; [`Error::Forbidden`] with a reason for somebody who has no account
    /// and gets none.
    pub async fn sign_in_finish(
        &self,
        ctx: &OpCtx,
        provider: &str,
        redirect: String,
        cookie: &str,
        answer: SignInAnswer,
    ) -> Result<SignedIn> {
        let finished = self.finish(ctx, provider, redirect, cookie, answer).await;
        if let Err(Error::Unauthenticated | Error::Forbidden { .. }) = &finished {
            metrics::counter!("plural_logins_failed_total").increment(1);
            self.audit_sign_in_refused(ctx, None);
        }
        finished
    }

    async fn finish(
        &self,
        ctx: &OpCtx,
        provider: &str,
        redirect: String,
        cookie: &str,
        answer: SignInAnswer,
    ) -> Result<SignedIn> {
        let flow = self.flow(ctx, cookie).await?;
        let row = self.sign_in_provider(provider).await?;
        let SignInAnswer { code, state, issuer, error } = answer;
        let state = state.unwrap_or_default();
        let is_ours: bool = state.as_bytes().ct_eq(flow.state.as_bytes()).into();
        if !is_ours || flow.provider != row.provider.id {
            return Err(Error::Unauthenticated);
        }
        let access = self.provider_access(&row).await?;
        let told = |error: &ProviderError| told(&row.provider, error);
        // An answer of another provider must not be taken to this one.
        let is_of_another = match issuer {
            Some(issuer) => issuer != access.issuer,
            None => self.identities.names_issuer(&access).await.map_err(|error| told(&error))?,
        };
        if is_of_another {
            return Err(Error::Unauthenticated);
        }
        if let Some(error) = error {
            tracing::info!(provider = %row.provider.name, error = printable(&error), "a provider refused a login");
            return Err(Error::forbidden(format!("{} did not sign you in", row.provider.name)));
        }
        let code = code.filter(|code| !code.is_empty() && code.len() <= LONGEST);
        let code = SecretString::from(code.ok_or(Error::Unauthenticated)?);
        let spend = Sha256::digest(format!("login\n{}", flow.state)).into();
        let exchange =
            CodeExchange { redirect, code, verifier: SecretString::from(flow.verifier), nonce: flow.nonce };
        let answer = self.identities.exchange(&access, &exchange).await.map_err(|error| told(&error))?;
        let session = self.admit(ctx, &row.provider, answer, spend).await?;
        Ok(SignedIn { session, then: flow.then })
    }

    async fn flow(&self, ctx: &OpCtx, cookie: &str) -> Result<Flow> {
        if cookie.len() > LONGEST {
            return Err(Error::Unauthenticated);
        }
        let sealed = URL_SAFE_NO_PAD.decode(cookie).map_err(|_| Error::Unauthenticated)?;
        let json = self.sealer.open_kept_outside(CONTEXT, &Sealed::from_bytes(sealed)).await;
        let json = json.map_err(|_| Error::Unauthenticated)?;
        let flow: Flow = serde_json::from_slice(&json).map_err(|_| Error::Unauthenticated)?;
        let age = ctx.now() - flow.began;
        if age < TimeDelta::zero() || age > PATIENCE {
            return Err(Error::Unauthenticated);
        }
        Ok(flow)
    }

    /// A session for somebody whom a provider vouched for.
    async fn admit(
        &self,
        ctx: &OpCtx,
        provider: &IdentityProvider,
        answer: ProviderAnswer,
        spend: [u8; 32],
    ) -> Result<CreatedToken> {
        let ProviderAnswer { claims, refresh } = answer;
        let email = provider.vouched(&claims).map_err(|error| error.to_string());
        let ProviderClaims { subject, name, groups, .. } = claims;
        let email_name = email.as_ref().map_or("user", Email::as_str);
        let fallback = || email_name.parse::<Name>();
        let name = name.and_then(|name| name.trim().parse::<Name>().ok()).map_or_else(fallback, Ok);
        let name = name.map_err(|cause| Error::internal("naming a new account", cause))?;
        let system = self.system_ctx().with_request_id(ctx.request_id()).with_peer(ctx.peer());
        let admit = IdentityAdmit {
            provider: provider.id,
            subject,
            id: UserIdentityId::new(),
            user_id: UserId::new(),
            email,
            name,
            creates: provider.creates_users,
            groups: groups.map(|groups| provider.mapped(&groups)),
            spend,
            spent_until: ctx.now() + PATIENCE * 2,
        };
        let by = authorize_installation::<Admin>(&system, Scope::AdminOnly)?;
        let by =
            by.audited_new(&system, "identity.sign_in", "identity provider", provider.id, &provider.name);
        let (user, identity) = self.store.identity_admit(by, &admit).await?;
        let lasts = match refresh {
            Some(refresh) => {
                let context = refresh_context(identity.id);
                let refresh = refresh.expose_secret().as_bytes();
                let sealed = self.sealer.seal(KeyOwner::Installation, &context, refresh).await?;
                self.store.identity_refresh_keep(identity.id, &sealed).await?;
                true
            }
            None => identity.refresh.is_some(),
        };
        self.proxy.access_changed();
        let hours = TimeDelta::hours(i64::from(self.settings.session_hours));
        let lasts = if lasts { hours } else { hours.min(LONGEST_UNASKED) };
        let by = UserSelector::Id(user.id);
        let authorized = self.authorized::<User, Write>(&system, &by).await?;
        let ctx = OpCtx::new(
            Actor::User(UserActor {
                id: user.id,
                email: user.email.to_string(),
                admin: user.admin,
                groups: std::collections::HashSet::new(),
                token: None,
            }),
            Arc::clone(&self.clock),
        )
        .with_request_id(ctx.request_id())
        .with_peer(ctx.peer());
        let kind = TokenKind {
            session: true,
            scopes: TokenScopes::all(),
            verified: None,
            identity: Some(identity.id),
        };
        self.token_issue(&ctx, &authorized, kind, Some(ctx.now() + lasts), None).await
    }

    /// Ends the session that the caller came with. The name of the provider that it began at, and where a browser signs out there,
    /// if there is such a page.
    pub async fn session_end(&self, ctx: &OpCtx, back: &str) -> Result<Option<(String, String)>> {
        let Some(id) = crate::token::parent(ctx).map(|token| token.id) else {
            return Err(Error::Unauthenticated);
        };
        let provider = self.store.identity_provider_of_token(id).await?;
        self.token_delete(ctx, &id.to_string()).await?;
        let Some(row) = provider else { return Ok(None) };
        let access = self.provider_access(&row).await?;
        match self.identities.logout_url(&access, back).await {
            Ok(url) => Ok(url.map(|url| (row.provider.name.to_string(), url))),
            Err(error) => {
                tracing::warn!(provider = %row.provider.name, error = %error, "cannot ask a provider where to sign out");
                Ok(None)
            }
        }
    }

    async fn sign_in_provider(&self, name: &str) -> Result<IdentityProviderRow> {
        let by = IdentityProviderSelector::Name(name.to_owned());
        let row = self.store.identity_provider_row(&by).await?;
        row.ok_or(Error::not_found("identity provider"))
    }

    /// Asks the providers about everybody who was not asked about for a while: how many were.
    pub async fn identities_check(self: &Arc<Self>) -> Result<u64> {
        self.identities_check_until(&Shutdown::new().signal()).await
    }

    /// The same, until asked to stop: no provider is asked anything new then, and what those say that were asked is kept. A refresh token
    /// counts once at many of them: whoever loses the next one has lost the login.
    pub async fn identities_check_until(self: &Arc<Self>, stop: &ShutdownSignal) -> Result<u64> {
        let now = self.now();
        let due = IdentitiesDue {
            checked: now - ASK_AFTER,
            unasked: now - LONGEST_UNASKED,
            tried: now - TRY_AFTER,
            now,
            limit: OF_A_PASS,
        };
        let mut of_providers: BTreeMap<IdentityProviderId, Vec<Identity>> = BTreeMap::new();
        for identity in self.store.identities_due(&due).await? {
            of_providers.entry(identity.provider).or_default().push(identity);
        }
        let mut asking: FuturesUnordered<_> =
            of_providers.into_values().map(|of_one| self.identities_ask(of_one, stop)).collect();
        let all = async {
            let mut asked = 0;
            while let Some(of_one) = asking.next().await {
                asked += of_one;
            }
            asked
        };
        let too_late = async {
            stop.requested().await;
            tokio::time::sleep(LAST).await;
        };
        tokio::select! {
            asked = all => Ok(asked),
            () = too_late => {
                tracing::warn!("stopping while identity providers are asked about people: some may have to sign in again");
                Ok(0)
            }
        }
    }

    /// Asks one provider about its people: how many those were.
    async fn identities_ask(self: &Arc<Self>, of_one: Vec<Identity>, stop: &ShutdownSignal) -> u64 {
        let unanswered = Arc::new(AtomicU32::new(0));
        let (mut waiting, mut asking) = (of_one.into_iter(), FuturesUnordered::new());
        let mut asked = 0;
        loop {
            while asking.len() < AT_ONCE && !stop.is_requested() {
                let Some(identity) = waiting.next() else { break };
                let (app, unanswered) = (Arc::clone(self), Arc::clone(&unanswered));
                asked += 1;
                // A task of its own, behind no lease: another replica may lead by the time that the provider answers, and nobody but us has
                // what it says.
                asking.push(tokio::spawn(async move {
                    if let Err(error) = app.identity_check(&identity, &unanswered).await {
                        let error = error.log_text();
                        tracing::warn!(identity.id = %identity.id, error, "cannot ask about a login");
                    }
                }));
            }
            match asking.next().await {
                Some(Ok(())) => {}
                Some(Err(error)) => tracing::error!(%error, "asking about a login ended too early"),
                None => return asked,
            }
        }
    }

    async fn identity_check(&self, identity: &Identity, unanswered: &AtomicU32) -> Result<()> {
        let system = self.system_ctx();
        let by = IdentityProviderSelector::Id(identity.provider);
        let Some(row) = self.store.identity_provider_row(&by).await? else { return Ok(()) };
        let user = self.authorized::<User, Write>(&system, &UserSelector::Id(identity.user_id)).await?;
        // Before the provider is asked: what it gives has to be sealed.
        let key = match &identity.refresh {
            Some(_) => Some(self.sealer.sealing(KeyOwner::Installation).await?),
            None => None,
        };
        let answer = self.ask_again(&row, identity, unanswered).await?;
        match answer {
            Ok(ProviderAnswer { claims, refresh }) => {
                let context = refresh_context(identity.id);
                let sealed = refresh
                    .zip(key)
                    .map(|(text, key)| key.seal(&context, text.expose_secret().as_bytes()))
                    .transpose()?;
                let groups = claims.groups.map(|groups| row.provider.mapped(&groups));
                let check = IdentityCheck { groups, refresh: sealed };
                if self.identity_checked(&user, identity, &check).await? {
                    self.proxy.access_changed();
                }
            }
            Err(error) => {
                let is_over = match &error {
                    ProviderError::Ended(_) => true,
                    ProviderError::Refused(_) | ProviderError::Unavailable(_) => {
                        self.now() - identity.checked_at > LONGEST_UNASKED
                    }
                };
                tracing::info!(
                    user.id = %identity.user_id, provider = %row.provider.name, error = %error, ended = is_over,
                    "a provider did not renew a login"
                );
                if is_over {
                    let by = user.audited(&system, "identity.end");
                    self.store.identity_end(by, identity, self.now() - LONGEST_UNASKED).await?;
                    self.proxy.access_changed();
                }
            }
        }
        Ok(())
    }

    /// Keeps what a provider said. The token that it was asked with may be used up: a database that is away for a moment must not lose the
    /// next one.
    async fn identity_checked(
        &self,
        user: &Authorized<User, Write>,
        identity: &Identity,
        check: &IdentityCheck,
    ) -> Result<bool> {
        let system = self.system_ctx();
        let mut backoff = Backoff::new(KEEP_AGAIN, KEEP_AGAIN * 8);
        loop {
            let by = user.audited(&system, "identity.groups");
            match self.store.identity_checked(by, identity, check.clone()).await {
                Err(error @ (Error::Unavailable { .. } | Error::Internal { .. }))
                    if backoff.attempts() < KEEP_TRIES =>
                {
                    tracing::warn!(
                        identity.id = %identity.id, error = error.log_text(), "cannot keep what a provider said; trying again"
                    );
                    tokio::time::sleep(backoff.next_wait()).await;
                }
                kept => return kept,
            }
        }
    }

    async fn ask_again(
        &self,
        row: &IdentityProviderRow,
        identity: &Identity,
        unanswered: &AtomicU32,
    ) -> Result<std::result::Result<ProviderAnswer, ProviderError>> {
        let Some(sealed) = &identity.refresh else {
            // The session ends by itself; what the provider gave ends when it has not vouched for them for too long.
            return Ok(Err(ProviderError::Unavailable("it gave nothing to ask again with".to_owned())));
        };
        if unanswered.load(Ordering::Relaxed) >= MOST_UNANSWERED {
            // It is asked again later, and people of other providers do not wait for it.
            let told = "it did not answer about others a moment ago".to_owned();
            return Ok(Err(ProviderError::Unavailable(told)));
        }
        let bytes = self.sealer.open(&refresh_context(identity.id), sealed).await?;
        let text =
            String::from_utf8(bytes).map_err(|_| Error::internal("reading a refresh token", "no text"))?;
        let access = self.provider_access(row).await?;
        let answer = self.identities.refresh(&access, &SecretString::from(text), &identity.subject).await;
        match &answer {
            Err(ProviderError::Unavailable(_)) => _ = unanswered.fetch_add(1, Ordering::Relaxed),
            Ok(_) | Err(ProviderError::Refused(_) | ProviderError::Ended(_)) => {
                unanswered.store(0, Ordering::Relaxed);
            }
        }
        Ok(answer)
    }
}

fn refresh_context(id: UserIdentityId) -> String {
    format!("identity:{id}:refresh")
}

/// What somebody at the sign-in page is told: the provider's own words are for the log.
fn told(provider: &IdentityProvider, error: &ProviderError) -> Error {
    tracing::warn!(provider = %provider.name, error = %error, "a login with a provider failed");
    let name = &provider.name;
    match error {
        ProviderError::Refused(_) | ProviderError::Ended(_) => Error::Unauthenticated,
        ProviderError::Unavailable(_) => Error::unavailable(format!(
            "{name} cannot be used to sign in now; retry, or ask an administrator to look at the console's log"
        )),
    }
}

/// A text from outside, for the log.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}
