//! Invitations: an administrator gives somebody a code, with which they make their own account, or choose another password.
//! Administrators of a project invite to that project, with a role on it.
//!
//! # Guarantees
//! - A code counts once, for a time, and only while whoever gave it is an administrator. Its hash is kept, its text is told once.
//! - One to a project gives a role on it and nothing else, and only while whoever gave it may give that role.
//! - Neither making one to a project nor looking at it tells whether its address has an account. Who accepts it without signing in makes
//!   the account, or is told that there is no such invitation.
//! - Whoever makes one to a project has the code, too, and so may make the account of somebody else's address: no identity provider's
//!   user gets such an account by their address.
//! - Guesses are slowed as those of passwords are.

use async_trait::async_trait;
use plural_core::access::{Action, Actor, Scope, check_scopes};
use plural_core::group::Group;
use plural_core::ids::{GroupId, InviteId, ProjectId, UserId};
use plural_core::invite::{INVITE_LASTS, INVITE_PREFIX, Invite, InviteTo, MAX_INVITE_GROUPS, RESET_LASTS};
use plural_core::project::Project;
use plural_core::specs::{Email, Name};
use plural_core::user::User;
use plural_core::{Error, Result};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::access::{Admin, Audited, Installation, Noun, Write, authorize_installation, check_given};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::hashing::HashFor;
use crate::passkey::{BegunPasskey, PasskeyCreate, Purpose, party, passkey_answered};
use crate::project::ProjectSelector;
use crate::records::record;
use crate::secret::{NewToken, TokenHash, hash_password};
use crate::throttle::Subject;
use crate::user::{Proof, UserSelector};

/// What is proven.
const INVITING: &str = "an invitation";
/// Characters of a code.
const LONGEST: usize = 256;

/// Which invitations a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InviteFilter {
    /// Those with this text in their address; an empty one is none.
    pub q: Option<String>,
    /// Those to this project.
    pub project_id: Option<ProjectId>,
}

record!(Invite, InviteId, InviteId, InviteFilter);

impl Noun for Invite {
    const NOUN: &'static str = "invitation";

    fn identity(&self) -> (Option<Uuid>, String) {
        (Some(self.id.uuid()), self.email.to_string())
    }

    /// Who is invited to a project is for those to know who may invite there.
    fn guarded_by(&self, scope: Scope) -> Scope {
        match scope {
            Scope::Chain(bindings)
                if !bindings.iter().any(|binding| binding.role.rights().allow(Action::Admin)) =>
            {
                Scope::Chain(Vec::new())
            }
            scope => scope,
        }
    }
}

/// An invitation to keep.
#[derive(Debug)]
pub struct InviteCreate {
    /// What it is.
    pub invite: Invite,
    /// Of its code.
    pub hash: TokenHash,
    /// What allowed it.
    pub proof: Option<Proof>,
}

/// How somebody signs in from now on.
#[derive(Debug)]
pub enum InviteAnswer {
    /// With a password, which has this hash.
    Password(String),
    /// With a passkey; only of an account that is made.
    Passkey(PasskeyCreate),
    /// As before: it is accepted by whoever is signed in with this account.
    Account(UserId),
}

/// An invitation that is accepted.
#[derive(Debug)]
pub struct InviteAccept {
    /// Of its code.
    pub hash: TokenHash,
    /// Id of the account that is made, or that accepts.
    pub user_id: UserId,
    /// Its name.
    pub name: Name,
    /// How its user signs in.
    pub answer: InviteAnswer,
}

/// Invitations.
#[async_trait]
pub trait InviteStore: Send + Sync + 'static {
    /// A new invitation in the place of another one for the same address; removes those that are over.
    ///
    /// # Errors
    /// [`Error::Conflict`] for an address that has an account, unless it is that one's password that is to be replaced; for a group
    /// that is gone; for one too many. As [`crate::user::UserStore::user_create`] when the proof holds no more.
    async fn invite_create(&self, by: Audited<'_, Installation, Write>, create: &InviteCreate) -> Result<()>;
    /// A new invitation to a project, in the place of another one to it for the same address; removes those that are over.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a project that is gone; [`Error::Conflict`] for one too many.
    async fn project_invite_create(
        &self,
        by: Audited<'_, Project, Admin>,
        create: &InviteCreate,
    ) -> Result<()>;
    /// The one of a code.
    async fn invite_by_hash(&self, hash: &TokenHash) -> Result<Option<Invite>>;
    /// Makes the account, or gives it the password, or the role; the invitation is gone.
    ///
    /// # Errors
    /// [`Error::NotFound`] for one that is gone or over, and for one to a project whose address has another account than the one
    /// that accepts; [`Error::Forbidden`] when who gave it may not any more, or the account is suspended; [`Error::Conflict`] when the
    /// address has an account by now.
    async fn invite_accept(
        &self,
        by: Audited<'_, Installation, Admin>,
        accept: &InviteAccept,
    ) -> Result<User>;
    /// Revokes one.
    async fn invite_delete(&self, by: Audited<'_, Invite, Admin>) -> Result<()>;
}

/// An invitation that was just made, with its code: there is no second time to see it.
#[derive(Debug)]
pub struct CreatedInvite {
    /// What is kept.
    pub invite: Invite,
    /// `invite-…`
    pub code: SecretString,
}

impl App {
    /// Invites somebody to make an account, in these groups; for administrators who prove that it is them.
    ///
    /// # Errors
    /// [`Error::Conflict`] for an address that has an account.
    pub async fn invite_create(
        &self,
        ctx: &OpCtx,
        email: &Email,
        groups: &[GroupId],
        password: Option<SecretString>,
    ) -> Result<CreatedInvite> {
        let by = authorize_installation::<Write>(ctx, Scope::Installation)?;
        if groups.len() > MAX_INVITE_GROUPS {
            return Err(Error::invalid("groups", format!("must be at most {MAX_INVITE_GROUPS}")));
        }
        let known = self.authorized_many::<Group, Write>(ctx, groups).await?;
        if let Some(missing) = groups.iter().find(|id| !known.iter().any(|group| group.id == **id)) {
            return Err(Error::invalid("groups", format!("there is no group {missing}")));
        }
        let (now, inviter) = (ctx.now(), inviter(ctx)?);
        let invite = Invite {
            id: InviteId::new(),
            email: email.clone(),
            groups: groups.to_vec(),
            user_id: None,
            to: None,
            inviter_id: inviter,
            created_at: now,
            expires_at: now + INVITE_LASTS,
        };
        let by = by.audited_new(ctx, "invite.create", "invitation", invite.id, &invite.email);
        self.invite_keep(ctx, by, invite, password).await
    }

    /// Invites somebody to a project, with a role on it; for its administrators who prove that it is them, and who have all that
    /// the role gives. Whether the address has an account is not told.
    pub async fn project_invite_create(
        &self,
        ctx: &OpCtx,
        email: &Email,
        to: InviteTo,
        password: Option<SecretString>,
    ) -> Result<CreatedInvite> {
        let selector = ProjectSelector::Id(to.project_id);
        let project = self.authorized::<Project, Admin>(ctx, &selector).await;
        let project = project.map_err(|error| error.named_in("attributes.projectId"))?;
        let role = self.bound_role(ctx, to.role).await?;
        check_given(project.held(), role.rights())?;
        let now = ctx.now();
        let invite = Invite {
            id: InviteId::new(),
            email: email.clone(),
            groups: Vec::new(),
            user_id: None,
            to: Some(to),
            inviter_id: inviter(ctx)?,
            created_at: now,
            expires_at: now + INVITE_LASTS,
        };
        let by = project.audited_new(ctx, "invite.create", "invitation", invite.id, &invite.email);
        let proof = self.prove(ctx, password, INVITING).await?;
        let NewToken { text, hash, hint: _ } = NewToken::generate(INVITE_PREFIX)?;
        let create = InviteCreate { invite, hash, proof };
        self.store.project_invite_create(by, &create).await?;
        Ok(CreatedInvite { invite: create.invite, code: text })
    }

    /// Lets a user choose another password who has forgotten theirs; for administrators who prove that it is them.
    pub async fn password_reset_create(
        &self,
        ctx: &OpCtx,
        user: UserId,
        password: Option<SecretString>,
    ) -> Result<CreatedInvite> {
        let by = authorize_installation::<Write>(ctx, Scope::Installation)?;
        let user = self.authorized::<User, Admin>(ctx, &UserSelector::Id(user)).await?;
        if user.machine_of.is_some() {
            return Err(Error::conflict("a service account has no password"));
        }
        let (now, inviter) = (ctx.now(), inviter(ctx)?);
        if user.id == inviter {
            // Else whoever leaves the identity provider could have kept a way in.
            return Err(Error::conflict(
                "nobody resets their own password: change it with `plural password`; without it, ask another administrator, or run \
                 `plural console reset-password` where the console runs",
            ));
        }
        let invite = Invite {
            id: InviteId::new(),
            email: user.email.clone(),
            groups: Vec::new(),
            user_id: Some(user.id),
            to: None,
            inviter_id: inviter,
            created_at: now,
            expires_at: now + RESET_LASTS,
        };
        let by = by.audited_new(ctx, "user.password_reset", "user", user.id, &user.email);
        self.invite_keep(ctx, by, invite, password).await
    }

    async fn invite_keep(
        &self,
        ctx: &OpCtx,
        by: Audited<'_, Installation, Write>,
        invite: Invite,
        password: Option<SecretString>,
    ) -> Result<CreatedInvite> {
        let proof = self.prove(ctx, password, INVITING).await?;
        let proof = proof.map(|proof| Proof { as_admin: true, ..proof });
        let NewToken { text, hash, hint: _ } = NewToken::generate(INVITE_PREFIX)?;
        let create = InviteCreate { invite, hash, proof };
        self.store.invite_create(by, &create).await?;
        Ok(CreatedInvite { invite: create.invite, code: text })
    }

    /// Revokes an invitation; for administrators of the installation, or of the project that it is to.
    pub async fn invite_delete(&self, ctx: &OpCtx, id: InviteId) -> Result<Invite> {
        let invite = self.authorized::<Invite, _>(ctx, &id).await?;
        self.store.invite_delete(invite.audited(ctx, "invite.delete")).await?;
        Ok(invite.into_inner())
    }

    /// What a code stands for; for whoever has it.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a code that is none, or none any more; [`Error::Unavailable`] after too many of them.
    pub async fn invite_look(&self, ctx: &OpCtx, code: &SecretString) -> Result<Invite> {
        let text = code.expose_secret().trim();
        // Counted for each network by itself: nobody keeps others from their invitations.
        let place = ctx.peer().map(|address| plural_kit::network_of(address).to_string()).unwrap_or_default();
        let name = format!("{}@invitations.invalid", hex::encode(&Sha256::digest(place)[..16]));
        let name: Email = name.parse().map_err(|cause| Error::internal("counting codes", cause))?;
        let subject = Subject::of(&name, ctx.peer());
        self.login_admit(&subject, ctx.now()).await?;
        let found = if text.len() <= LONGEST && text.starts_with(INVITE_PREFIX) {
            self.store.invite_by_hash(&TokenHash::of(text)).await?
        } else {
            None
        };
        let invite = found.filter(|invite| invite.expires_at > ctx.now());
        let Some(invite) = invite else {
            self.audit_sign_in_refused(ctx, None);
            return Err(Error::not_found("invitation with this code"));
        };
        self.login_succeeded(&subject, ctx.now()).await;
        Ok(invite)
    }

    /// Accepts an invitation with a password.
    ///
    /// # Errors
    /// As [`Self::invite_look`]; [`Error::Invalid`] for a password that is too short; [`Error::Forbidden`] and [`Error::Conflict`] with
    /// a reason.
    pub async fn invite_accept(
        &self,
        ctx: &OpCtx,
        code: &SecretString,
        name: Option<Name>,
        password: SecretString,
    ) -> Result<User> {
        let invite = self.invite_look(ctx, code).await?;
        let _place = self.hashing.place(HashFor::Change)?;
        let permit = self.hashing.turn().await?;
        let hash = tokio::task::spawn_blocking(move || hash_password(&password))
            .await
            .map_err(|cause| Error::internal("hashing a password", cause))??;
        drop(permit);
        self.invite_take(ctx, code, invite, UserId::new(), name, InviteAnswer::Password(hash)).await
    }

    /// Accepts an invitation to a project for the account that the caller is signed in with.
    ///
    /// # Errors
    /// As [`Self::invite_look`], and so for the code of another address.
    pub async fn invite_accept_signed_in(&self, ctx: &OpCtx, code: &SecretString) -> Result<User> {
        check_scopes(ctx.actor())?;
        let Actor::User(user) = ctx.actor() else { return Err(Error::Unauthenticated) };
        let invite = self.invite_look(ctx, code).await?;
        if invite.to.is_none() || user.email != invite.email.as_str() {
            return Err(Error::not_found("invitation with this code"));
        }
        let hash = TokenHash::of(code.expose_secret().trim());
        let name = invite.email.as_str().parse::<Name>();
        let name = name.map_err(|cause| Error::internal("naming an account", cause))?;
        let accept = InviteAccept { hash, user_id: user.id, name, answer: InviteAnswer::Account(user.id) };
        self.invite_written(ctx, &invite, &accept).await
    }

    /// Asks the browser of somebody who was invited for a passkey, in the place of a password.
    ///
    /// # Errors
    /// As [`Self::invite_look`]; [`Error::Conflict`] for the code of a forgotten password.
    pub async fn invite_passkey_begin(
        &self,
        ctx: &OpCtx,
        origin: &str,
        code: &SecretString,
        name: Option<&Name>,
    ) -> Result<BegunPasskey> {
        let party = party(origin)?;
        let invite = self.invite_look(ctx, code).await?;
        if invite.user_id.is_some() {
            return Err(Error::conflict("choose a password; a passkey is added once you are signed in"));
        }
        let user = UserId::new();
        let shown = name.map_or(invite.email.as_str(), Name::as_str);
        let asked = party.begin_adding(user.uuid(), invite.email.as_str(), shown, &[])?;
        self.challenge(ctx, Purpose::Accept { invite: invite.id, user }, asked).await
    }

    /// Accepts an invitation with the passkey that the browser answers with.
    ///
    /// # Errors
    /// As [`Self::invite_accept`]; [`Error::Unauthenticated`] for a challenge of another invitation.
    pub async fn invite_accept_passkey(
        &self,
        ctx: &OpCtx,
        origin: &str,
        code: &SecretString,
        name: Option<Name>,
        (cookie, answer): (&str, &str),
    ) -> Result<User> {
        let invite = self.invite_look(ctx, code).await?;
        let challenge = self.challenge_read(ctx, cookie).await.ok_or(Error::Unauthenticated)?;
        let user = match &challenge.purpose {
            Purpose::Accept { invite: of, user } if *of == invite.id => *user,
            Purpose::Accept { .. } | Purpose::SignIn | Purpose::Add { .. } => {
                return Err(Error::Unauthenticated);
            }
        };
        let first: Name = "first".parse().map_err(|cause| Error::internal("naming a passkey", cause))?;
        let passkey = passkey_answered(origin, challenge, answer, &first)?;
        self.invite_take(ctx, code, invite, user, name, InviteAnswer::Passkey(passkey)).await
    }

    async fn invite_take(
        &self,
        ctx: &OpCtx,
        code: &SecretString,
        invite: Invite,
        user_id: UserId,
        name: Option<Name>,
        answer: InviteAnswer,
    ) -> Result<User> {
        let name = name.map_or_else(|| invite.email.as_str().parse(), Ok);
        let name = name.map_err(|cause| Error::internal("naming a new account", cause))?;
        let hash = TokenHash::of(code.expose_secret().trim());
        let accept = InviteAccept { hash, user_id, name, answer };
        let system = self.system_ctx().with_request_id(ctx.request_id()).with_peer(ctx.peer());
        self.invite_written(&system, &invite, &accept).await
    }

    /// The audit log names the actor of `ctx`.
    async fn invite_written(&self, ctx: &OpCtx, invite: &Invite, accept: &InviteAccept) -> Result<User> {
        let by = authorize_installation::<Admin>(&self.system_ctx(), Scope::AdminOnly)?;
        let by = by.audited_new(ctx, "invite.accept", "invitation", invite.id, &invite.email);
        let user = self.store.invite_accept(by, accept).await?;
        self.proxy.access_changed();
        Ok(user)
    }
}

/// Who invites.
fn inviter(ctx: &OpCtx) -> Result<UserId> {
    match ctx.actor() {
        Actor::User(user) => Ok(user.id),
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => {
            Err(Error::Unauthenticated)
        }
    }
}
