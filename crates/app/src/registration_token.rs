//! Registration tokens: clusters of one project, and nothing else.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::{Actor, RegistrationActor, UserActor};
use plural_core::cluster::{Cluster, NewCluster};
use plural_core::ids::{ClusterId, MachineAccountId, ProjectId, RegistrationTokenId, UserId};
use plural_core::machine_account::MachineAccount;
use plural_core::project::Project;
use plural_core::registration_token::{
    NewRegistrationToken, REGISTRATION_TOKEN_PREFIX, RegistrationTerms, RegistrationToken,
};
use plural_core::token::{DEPLOY_TOKEN_PREFIX, TokenScopes, issue_token};
use plural_core::user::User;
use plural_core::{Error, Result};
use secrecy::SecretString;

use crate::access::{Assume, Audited, Read, Write, noun};
use crate::app::App;
use crate::cluster::{ClusterCreate, CreatedCluster};
use crate::ctx::OpCtx;
use crate::deploy_token::{JOIN_HOLDS, JOIN_TOKEN_PREFIX};
use crate::machine_account::MachineAccountSelector;
use crate::project::ProjectSelector;
use crate::records::record;
use crate::secret::{NewToken, TokenHash};
use crate::token::{parent, proof_of};
use crate::user::{Proof, UserSelector};

/// Which registration tokens a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistrationTokenFilter {
    /// Those of this project.
    pub project_id: Option<ProjectId>,
}

noun!(RegistrationToken, "registration token", t => Some(t.id.uuid()), t.hint.clone());
record!(RegistrationToken, RegistrationTokenId, RegistrationTokenId, RegistrationTokenFilter);

/// A registration token to keep.
#[derive(Debug)]
pub struct RegistrationTokenCreate {
    /// What is kept of it.
    pub token: RegistrationToken,
    /// Of its text.
    pub hash: TokenHash,
    /// What allowed it.
    pub proof: Option<Proof>,
}

/// A cluster to make with a registration token.
#[derive(Debug)]
pub struct ClusterRegister {
    /// The cluster; its tags are what the machine itself wishes, and who sets the token's tags is its maker.
    pub create: ClusterCreate,
    /// The token.
    pub token: RegistrationTokenId,
    /// What the token gives.
    pub terms: RegistrationTerms,
    /// Of the join token that comes with it.
    pub join_hash: TokenHash,
    /// When that ends.
    pub join_expires_at: DateTime<Utc>,
}

/// Registration tokens.
#[async_trait]
pub trait RegistrationTokenStore: Send + Sync + 'static {
    /// A new token; one whose maker's identity provider cannot be asked again ends with their session.
    ///
    /// # Errors
    /// [`Error::Conflict`] for one too many of a project; as [`crate::token::TokenStore::token_create`] for what allowed it.
    async fn registration_token_create(
        &self,
        by: Audited<'_, Project, Write>,
        create: &RegistrationTokenCreate,
    ) -> Result<RegistrationToken>;
    /// Revokes a token. The clusters that were made with it stay.
    async fn registration_token_delete(&self, by: Audited<'_, RegistrationToken, Write>) -> Result<()>;
    /// Who has an unexpired token, whose maker is not suspended.
    async fn registration_actor(
        &self,
        hash: &TokenHash,
        now: DateTime<Utc>,
    ) -> Result<Option<RegistrationActor>>;
    /// A new cluster; or, for a handle that a cluster has which was made with the same token and whose agent was never heard of,
    /// that one with other tokens for its agent.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] when the token ended meanwhile; [`Error::Conflict`] for a handle that another cluster has, and
    /// when the token's limit is reached.
    async fn cluster_register(
        &self,
        by: Audited<'_, Project, Write>,
        register: &ClusterRegister,
    ) -> Result<Cluster>;
}

/// A registration token that was just made, with its text: there is no second time to see it.
#[derive(Debug)]
pub struct CreatedRegistrationToken {
    /// What is kept.
    pub token: RegistrationToken,
    /// `register-…`.
    pub text: SecretString,
}

impl App {
    /// A new registration token of a project, for whoever may make clusters there; in the name of a service account for who may
    /// assume that, too. One that outlasts the token that it is made with needs the caller's password or a fresh session; any
    /// other ends with that token.
    pub async fn registration_token_create(
        &self,
        ctx: &OpCtx,
        new: NewRegistrationToken,
        password: Option<SecretString>,
    ) -> Result<CreatedRegistrationToken> {
        new.check()?;
        let selector = ProjectSelector::Id(new.project_id);
        let project = self.authorized::<Project, Write>(ctx, &selector).await;
        let project = project.map_err(|error| error.named_in("attributes.projectId"))?;
        let NewRegistrationToken { project_id, user_id, name, valid_for, terms } = new;
        let user_id = self.registration_maker(ctx, &project, user_id).await?;
        let verified = self.password_verified(ctx, password).await?;
        let all = TokenScopes::all();
        let issue = issue_token(parent(ctx), &all, Some(valid_for), verified.is_some(), ctx.now())?;
        let NewToken { text, hash, hint } = NewToken::generate(REGISTRATION_TOKEN_PREFIX)?;
        let token = RegistrationToken {
            id: RegistrationTokenId::new(),
            project_id,
            user_id,
            name,
            hint,
            terms,
            uses: 0,
            last_used_at: None,
            expires_at: issue.expires_at.unwrap_or(ctx.now() + valid_for),
            made_with: issue.made_with,
            created_at: ctx.now(),
        };
        let by = project.audited_new(
            ctx,
            "registration_token.create",
            "registration token",
            token.id,
            &token.hint,
        );
        let create = RegistrationTokenCreate { token, hash, proof: proof_of(ctx, verified) };
        let token = self.store.registration_token_create(by, &create).await?;
        Ok(CreatedRegistrationToken { token, text })
    }

    /// Revokes a registration token. The clusters that were made with it stay.
    pub async fn registration_token_delete(
        &self,
        ctx: &OpCtx,
        id: RegistrationTokenId,
    ) -> Result<RegistrationToken> {
        let token = self.authorized::<RegistrationToken, Write>(ctx, &id).await?;
        self.store.registration_token_delete(token.audited(ctx, "registration_token.delete")).await?;
        Ok(token.into_inner())
    }

    /// Who has a registration token.
    pub(crate) async fn registration_authenticate(&self, token: &str) -> Result<Actor> {
        if token.len() > 256 {
            return Err(Error::Unauthenticated);
        }
        let found = self.store.registration_actor(&TokenHash::of(token), self.clock.now()).await?;
        found.map(|actor| Actor::Registration(Box::new(actor))).ok_or(Error::Unauthenticated)
    }

    /// A cluster that a machine makes with a registration token, which decides what its maker may do now: a new one, or the one
    /// that it made before and that no agent has joined yet.
    pub(crate) async fn cluster_register(
        &self,
        ctx: &OpCtx,
        by: &RegistrationActor,
        new: NewCluster,
    ) -> Result<CreatedCluster> {
        let in_its_project = new.project_id.is_none_or(|project| project == by.project);
        if !in_its_project {
            return Err(Error::not_found("project").named_in("attributes.projectId"));
        }
        if !new.bindings.is_empty() {
            return Err(Error::forbidden("a registration token decides nothing about who may do what"));
        }
        let makers = self.ctx(Actor::User(by.maker.clone())).with_request_id(ctx.request_id());
        let makers = makers.with_peer(ctx.peer());
        let project = self.authorized::<Project, Write>(&makers, &ProjectSelector::Id(by.project)).await;
        let project = project.map_err(|error| match error {
            Error::NotFound { .. } | Error::Forbidden { .. } => Error::forbidden(
                "whoever made this registration token may not make clusters in its project any more; ask for another token",
            ),
            other => other,
        })?;
        let handle = by.terms.handle(&new.handle_or_suggested()?)?;
        let wished = by.terms.wished(&new.tags)?;
        let tags_by = self.tag_authority(&makers, project.id).await?;
        let (token, join) =
            (NewToken::generate(DEPLOY_TOKEN_PREFIX)?, NewToken::generate(JOIN_TOKEN_PREFIX)?);
        let id = ClusterId::new();
        let new = NewCluster { tags: wished, project_id: Some(project.id), ..new };
        let create = ClusterCreate { id, handle, new, tags_by, token_hash: token.hash };
        let by_line = project.audited_new(ctx, "cluster.create", "cluster", id, &create.handle);
        let expires_at = ctx.now() + JOIN_HOLDS;
        let register = ClusterRegister {
            create,
            token: by.token,
            terms: by.terms.clone(),
            join_hash: join.hash,
            join_expires_at: expires_at,
        };
        let cluster = self.store.cluster_register(by_line, &register).await?;
        // The agent may call before the feed comes round.
        self.feed_catch_up().await;
        Ok(CreatedCluster { cluster, deploy_token: token.text, join_token: Some((join.text, expires_at)) })
    }

    /// In whose name a new registration token makes clusters: the caller's, or that of a service account which they may assume
    /// and which may make clusters in the project itself.
    async fn registration_maker(
        &self,
        ctx: &OpCtx,
        project: &Project,
        asked: Option<UserId>,
    ) -> Result<UserId> {
        let own = match ctx.actor() {
            Actor::User(user) => Some(user.id),
            Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => {
                None
            }
        };
        let Some(asked) = asked.filter(|asked| Some(*asked) != own) else {
            return own.ok_or(Error::Unauthenticated);
        };
        let selector = MachineAccountSelector::Id(MachineAccountId::from_uuid(asked.uuid()));
        let account = self.authorized::<MachineAccount, Assume>(ctx, &selector).await;
        let account = account.map_err(|error| error.named_in("attributes.userId"))?;
        let system = self.system_ctx();
        let user = self.authorized::<User, Read>(&system, &UserSelector::Id(account.user_id())).await?;
        let acting: UserActor = self.store.user_actor(&user).await?;
        let acting = self.ctx(Actor::User(acting));
        let may = self.authorized::<Project, Write>(&acting, &ProjectSelector::Id(project.id)).await;
        may.map_err(|error| match error {
            Error::NotFound { .. } | Error::Forbidden { .. } => Error::invalid(
                "attributes.userId",
                "must be a service account that may make clusters in the project: give it write access first",
            ),
            other => other,
        })?;
        Ok(account.user_id())
    }
}
