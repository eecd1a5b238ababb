//! Passkeys: people sign in with a key that their device holds and verifies them for, in the place of a password and its second
//! factor.
//!
//! # Guarantees
//! - A challenge counts once, for five minutes, and only from the browser that asked for it: that keeps it in a sealed cookie, and
//!   that it was used is stored.
//! - A key signs in its own user alone. One whose counter goes back signs in nobody.
//! - Nobody adds a key by a session that was left open: it needs the password and the second factor, or a session of a moment ago.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use plural_core::access::{Actor, UserActor};
use plural_core::ids::{InviteId, PasskeyId, TokenId, UserId};
use plural_core::passkey::Passkey;
use plural_core::specs::Name;
use plural_core::user::User;
use plural_core::{Error, Result};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::access::{Audited, Authorized, Guarded, Write, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::seal::Sealed;
use crate::token::{CreatedToken, parent, proof_of};
use crate::user::{Proof, UserSelector};
use crate::webauthn::{Assertion, AssertionError, Ceremony, RelyingParty};
use plural_core::data_key::KeyOwner;

pub use crate::webauthn::PasskeyKey;

/// How long a browser may take to answer.
const PATIENCE: TimeDelta = TimeDelta::minutes(5);
/// Bytes of a cookie, and of an answer.
const LONGEST: usize = 6 << 10;
/// What the cookie is sealed for.
const CONTEXT: &str = "passkey:challenge";
/// What is proven.
const ADDING: &str = "a passkey";

noun!(Passkey, "passkey", p => Some(p.id.uuid()), p.name.to_string());

/// Something that counts once.
#[derive(Debug, Clone)]
pub struct Spend {
    /// What.
    pub what: [u8; 32],
    /// How long it is remembered that it was used.
    pub until: DateTime<Utc>,
}

/// A passkey to keep.
#[derive(Debug)]
pub struct PasskeyCreate {
    /// Id.
    pub id: PasskeyId,
    /// For its owner.
    pub name: Name,
    /// The key.
    pub key: PasskeyKey,
    /// The challenge that it answered.
    pub spend: Spend,
}

/// A passkey with its key, for signing in.
#[derive(Debug)]
pub struct StoredPasskey {
    /// The passkey.
    pub passkey: Passkey,
    /// Its key.
    pub key: PasskeyKey,
}

/// That a passkey was used.
#[derive(Debug)]
pub struct PasskeyUse {
    /// Which.
    pub id: PasskeyId,
    /// The state of its key that the answer was judged by.
    pub before: Vec<u8>,
    /// The state from now on.
    pub after: Vec<u8>,
    /// The challenge that it answered.
    pub spend: Spend,
}

/// Passkeys.
#[async_trait]
pub trait PasskeyStore: Send + Sync + 'static {
    /// The passkey that a device calls by this id.
    async fn passkey_by_credential(&self, credential: &[u8]) -> Result<Option<StoredPasskey>>;
    /// One passkey, for its owner and administrators.
    async fn passkey_for(&self, id: PasskeyId) -> Result<Guarded<Passkey>>;
    /// A user's passkeys with what devices call them, oldest first.
    async fn passkeys_of(&self, user: &Authorized<User, Write>) -> Result<Vec<(Passkey, Vec<u8>)>>;
    /// A new passkey; [`Error::Conflict`] for one that is there already, one too many, and for somebody whom an identity provider
    /// vouches for; [`Error::Unauthenticated`] for a challenge that was used, or a proof that holds no more.
    async fn passkey_create(
        &self,
        by: Audited<'_, User, Write>,
        create: &PasskeyCreate,
        proof: Option<&Proof>,
    ) -> Result<Passkey>;
    /// Takes note of a use; [`Error::Unauthenticated`] for a challenge that was used, a passkey that is gone or was used meanwhile,
    /// and a suspended user.
    async fn passkey_use(&self, by: Audited<'_, User, Write>, used: &PasskeyUse) -> Result<()>;
    /// Takes note of a use that was refused and that somebody should look at.
    async fn passkey_suspect(&self, by: Audited<'_, User, Write>) -> Result<()>;
    /// Another name.
    async fn passkey_rename(&self, by: Audited<'_, Passkey, Write>, name: &Name) -> Result<Passkey>;
    /// Removes one; [`Error::Conflict`] where its owner has no other way to sign in, unless an administrator removes it for them.
    async fn passkey_delete(&self, by: Audited<'_, Passkey, Write>) -> Result<()>;
}

/// What a browser is asked.
#[derive(Debug)]
pub struct BegunPasskey {
    /// `PublicKeyCredentialCreationOptionsJSON` or `PublicKeyCredentialRequestOptionsJSON`.
    pub options: Value,
    /// For the browser to bring back.
    pub cookie: String,
}

/// What a challenge is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Purpose {
    /// Signing in.
    SignIn,
    /// A new passkey of a user, in this session.
    Add { user: UserId, session: TokenId },
    /// The passkey of an account that is made.
    Accept { invite: InviteId, user: UserId },
}

/// What the cookie holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    purpose: Purpose,
    began: DateTime<Utc>,
    state: String,
}

/// A challenge that a browser brought back.
pub(crate) struct Challenge {
    pub(crate) purpose: Purpose,
    pub(crate) state: Vec<u8>,
    pub(crate) spend: Spend,
}

impl App {
    /// Whether browsers use passkeys at this origin: one with a host name.
    pub fn passkeys_work(&self, origin: &str) -> bool {
        RelyingParty::of(origin).is_some()
    }

    /// Asks a browser for a passkey of anybody.
    ///
    /// # Errors
    /// [`Error::Forbidden`] at an origin without a host name.
    pub async fn passkey_sign_in_begin(&self, ctx: &OpCtx, origin: &str) -> Result<BegunPasskey> {
        self.challenge(ctx, Purpose::SignIn, party(origin)?.begin_sign_in()?).await
    }

    /// Signs somebody in with the passkey that their browser answers with.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] whatever was wrong.
    pub async fn passkey_sign_in_finish(
        &self,
        ctx: &OpCtx,
        origin: &str,
        cookie: &str,
        answer: &str,
    ) -> Result<CreatedToken> {
        let mut whose = None;
        let signed_in = self.passkey_check(ctx, origin, cookie, answer, &mut whose).await;
        if let Err(Error::Unauthenticated) = &signed_in {
            metrics::counter!("plural_logins_failed_total").increment(1);
            self.audit_sign_in_refused(ctx, whose.map(|user: User| (user.id.uuid(), user.email.to_string())));
        }
        signed_in
    }

    async fn passkey_check(
        &self,
        ctx: &OpCtx,
        origin: &str,
        cookie: &str,
        answer: &str,
        whose: &mut Option<User>,
    ) -> Result<CreatedToken> {
        let party = party(origin)?;
        let challenge = self.challenge_read(ctx, cookie).await.ok_or(Error::Unauthenticated)?;
        let answer = Some(answer).filter(|answer| answer.len() <= LONGEST).and_then(Assertion::read);
        let answer = answer.ok_or(Error::Unauthenticated)?;
        if challenge.purpose != Purpose::SignIn {
            return Err(Error::Unauthenticated);
        }
        let found = self.store.passkey_by_credential(answer.credential_id()).await?;
        let StoredPasskey { passkey, key } = found.ok_or(Error::Unauthenticated)?;
        if answer.user() != passkey.user_id.uuid() {
            return Err(Error::Unauthenticated);
        }
        let by = UserSelector::Id(passkey.user_id);
        let user = self.authorized::<User, Write>(&self.system_ctx(), &by).await?;
        *whose = Some((*user).clone());
        if user.suspended_at.is_some() || user.machine_of.is_some() {
            return Err(Error::Unauthenticated);
        }
        let after = match party.finish_sign_in(&challenge.state, &answer, user.id.uuid(), &key) {
            Ok(after) => after,
            Err(AssertionError::Counter) => {
                tracing::warn!(user.id = %user.id, passkey.id = %passkey.id, "the counter of a passkey went back");
                let system = self.system_ctx().with_request_id(ctx.request_id()).with_peer(ctx.peer());
                let by = user.audited_new(&system, "passkey.copied", "passkey", passkey.id, &passkey.name);
                self.store.passkey_suspect(by).await?;
                return Err(Error::Unauthenticated);
            }
            Err(AssertionError::Refused(cause)) => {
                tracing::info!(user.id = %user.id, cause, "a passkey signed nobody in");
                return Err(Error::Unauthenticated);
            }
        };
        // From here on it is that user who acts.
        let ctx = self.ctx_of(ctx, &user);
        let used = PasskeyUse { id: passkey.id, before: key.state, after, spend: challenge.spend };
        let by = user.audited_new(&ctx, "passkey.use", "passkey", passkey.id, &passkey.name);
        self.store.passkey_use(by, &used).await?;
        self.session_open(&ctx, &user, None).await
    }

    /// A user's passkeys, oldest first; for the user and for administrators.
    pub async fn passkeys(&self, ctx: &OpCtx, user: Option<UserId>) -> Result<Vec<Passkey>> {
        let id = match user {
            Some(id) => id,
            None => person(ctx)?.id,
        };
        let user = self.authorized::<User, Write>(ctx, &UserSelector::Id(id)).await?;
        Ok(self.store.passkeys_of(&user).await?.into_iter().map(|(passkey, _)| passkey).collect())
    }

    /// Asks the caller's browser for a new passkey. Needs a session of a moment ago, or the password and, where there is one, a code
    /// of the second factor.
    ///
    /// # Errors
    /// [`Error::Forbidden`] without a proof.
    pub async fn passkey_add_begin(
        &self,
        ctx: &OpCtx,
        origin: &str,
        password: Option<SecretString>,
        code: Option<&str>,
    ) -> Result<BegunPasskey> {
        let party = party(origin)?;
        let id = person(ctx)?.id;
        let session = parent(ctx).ok_or(Error::Unauthenticated)?;
        let user = self.authorized::<User, Write>(ctx, &UserSelector::Id(id)).await?;
        if !session.is_fresh(ctx.now()) {
            self.prove_with_code(ctx, password, code, ADDING).await?;
        }
        let known = self.store.passkeys_of(&user).await?;
        let known: Vec<Vec<u8>> = known.into_iter().map(|(_, credential)| credential).collect();
        let asked = party.begin_adding(user.id.uuid(), user.email.as_str(), user.name.as_str(), &known)?;
        self.challenge(ctx, Purpose::Add { user: id, session: session.id }, asked).await
    }

    /// Keeps the passkey that the caller's browser answers with.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an answer that does not fit; [`Error::Unauthenticated`] for a challenge of another session.
    pub async fn passkey_add_finish(
        &self,
        ctx: &OpCtx,
        origin: &str,
        cookie: &str,
        answer: &str,
        name: &Name,
    ) -> Result<Passkey> {
        let user = person(ctx)?.id;
        let session = parent(ctx).ok_or(Error::Unauthenticated)?.id;
        let challenge = self.challenge_read(ctx, cookie).await;
        let challenge = challenge.filter(|asked| asked.purpose == Purpose::Add { user, session });
        let challenge = challenge.ok_or(Error::Unauthenticated)?;
        let create = passkey_answered(origin, challenge, answer, name)?;
        let user = self.authorized::<User, Write>(ctx, &UserSelector::Id(user)).await?;
        let by = user.audited_new(ctx, "passkey.create", "passkey", create.id, name);
        // The session that was proven must still be there.
        self.store.passkey_create(by, &create, proof_of(ctx, None).as_ref()).await
    }

    /// Gives a passkey another name; for its owner and administrators.
    pub async fn passkey_rename(&self, ctx: &OpCtx, id: PasskeyId, name: &Name) -> Result<Passkey> {
        let passkey = self.store.passkey_for(id).await?.authorize::<Write>(ctx)?;
        self.store.passkey_rename(passkey.audited(ctx, "passkey.update"), name).await
    }

    /// Removes a passkey; for its owner and administrators. Sessions that were opened with it go on.
    pub async fn passkey_delete(&self, ctx: &OpCtx, id: PasskeyId) -> Result<Passkey> {
        let passkey = self.store.passkey_for(id).await?.authorize::<Write>(ctx)?;
        self.store.passkey_delete(passkey.audited(ctx, "passkey.delete")).await?;
        Ok(passkey.into_inner())
    }

    /// Seals what is needed to judge the answer, for the browser to keep.
    pub(crate) async fn challenge(
        &self,
        ctx: &OpCtx,
        purpose: Purpose,
        asked: Ceremony,
    ) -> Result<BegunPasskey> {
        let Ceremony { options, state } = asked;
        let asked = Asked { purpose, began: ctx.now(), state: URL_SAFE_NO_PAD.encode(state) };
        let json =
            serde_json::to_vec(&asked).map_err(|cause| Error::internal("writing a challenge", cause))?;
        let sealed = self.sealer.seal(KeyOwner::Installation, CONTEXT, &json).await?;
        Ok(BegunPasskey { options, cookie: URL_SAFE_NO_PAD.encode(sealed.as_bytes()) })
    }

    /// The challenge that a browser kept, while it counts.
    pub(crate) async fn challenge_read(&self, ctx: &OpCtx, cookie: &str) -> Option<Challenge> {
        if cookie.len() > LONGEST {
            return None;
        }
        let sealed = Sealed::from_bytes(URL_SAFE_NO_PAD.decode(cookie).ok()?);
        let json = self.sealer.open_kept_outside(CONTEXT, &sealed).await.ok()?;
        let Asked { purpose, began, state } = serde_json::from_slice(&json).ok()?;
        let age = ctx.now() - began;
        if age < TimeDelta::zero() || age > PATIENCE {
            return None;
        }
        let state = URL_SAFE_NO_PAD.decode(state).ok()?;
        let mut what = Sha256::new_with_prefix("passkey challenge\n");
        what.update(&state);
        let spend = Spend { what: what.finalize().into(), until: began + PATIENCE * 2 };
        Some(Challenge { purpose, state, spend })
    }
}

/// The passkey that a browser answers with.
pub(crate) fn passkey_answered(
    origin: &str,
    challenge: Challenge,
    answer: &str,
    name: &Name,
) -> Result<PasskeyCreate> {
    if answer.len() > LONGEST {
        return Err(Error::invalid("answer", format!("must have at most {LONGEST} bytes")));
    }
    let key = party(origin)?.finish_adding(&challenge.state, answer)?;
    Ok(PasskeyCreate { id: PasskeyId::new(), name: name.clone(), key, spend: challenge.spend })
}

/// The console as passkeys know it.
pub(crate) fn party(origin: &str) -> Result<RelyingParty<'_>> {
    RelyingParty::of(origin).ok_or_else(|| {
        Error::forbidden("passkeys belong to a host name, and this console's public URL has an IP address")
    })
}

/// Who has passkeys: a person, not a service account that somebody assumed.
fn person(ctx: &OpCtx) -> Result<&UserActor> {
    match ctx.actor() {
        Actor::User(user) if user.token.as_ref().is_some_and(|token| token.assumed_by.is_some()) => {
            Err(Error::forbidden("a service account has no passkeys"))
        }
        Actor::User(user) => Ok(user),
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => {
            Err(Error::Unauthenticated)
        }
    }
}
