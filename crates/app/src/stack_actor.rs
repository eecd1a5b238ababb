//! In whose name the applies of a stack ask the console. The token is of one Job: it is made when that begins to apply, is never stored, and
//! ends with it. It reads what is in the project of the stack as far as its user does, and writes contexts there. Nobody's own token is used.

use chrono::TimeDelta;
use plural_core::access::Actor;
use plural_core::ids::{MachineAccountId, UserId};
use plural_core::machine_account::MachineAccount;
use plural_core::run_call::is_actor_token;
use plural_core::scm_connection::ScmConnection;
use plural_core::scm_webhook::identities;
use plural_core::stack_run::{RunPhase, StackRun};
use plural_core::stack_turns::{names, person};
use plural_core::user::User;
use plural_core::{Error, Result};
use secrecy::{ExposeSecret as _, SecretString};

use crate::access::{Assume, actor_name};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::machine_account::MachineAccountSelector;
use crate::pull_request_merge::UnreadMerge;
use crate::records::there;
use crate::scm_connection::ScmConnectionSelector;
use crate::secret::TokenHash;
use crate::stack_run::user_of;
use crate::user::UserSelector;

/// How long a merge may be under way that the console was asked for, until its record says that it is merged.
const MERGES_TAKE: TimeDelta = TimeDelta::minutes(10);

impl App {
    /// Refuses a stack that would act as anybody but whoever saves it or a service account that they may assume. It is asked with each change of
    /// what the stack runs: else its next writer would run theirs in the name of the last.
    pub(crate) async fn stack_actor_allowed(&self, ctx: &OpCtx, actor: Option<UserId>) -> Result<()> {
        let Some(actor) = actor.filter(|actor| user_of(ctx) != Some(*actor)) else { return Ok(()) };
        let account = MachineAccountSelector::Id(MachineAccountId::from_uuid(actor.uuid()));
        match self.authorized::<MachineAccount, Assume>(ctx, &account).await {
            Ok(_) => Ok(()),
            // Whoever it is, they are told the same.
            Err(Error::NotFound { .. } | Error::Forbidden { .. }) => Err(Error::forbidden(
                "attributes.actorId: the stack acts as whoever saves it, or as a service account that they may assume: name \
                 yourself or one of those, or nobody with an empty text",
            )),
            Err(error) => Err(error),
        }
    }

    /// Whether whoever asks made a change: as this user, or under the name of a service account that they assumed, then or now.
    pub(crate) async fn is_who_changed(
        &self,
        ctx: &OpCtx,
        user: Option<UserId>,
        name: Option<&str>,
    ) -> Result<bool> {
        let asks = actor_name(ctx.actor());
        if name.is_some_and(|name| person(name) == person(&asks)) {
            return Ok(true);
        }
        self.is_who_asks(ctx, user).await
    }

    /// Refuses whoever opened a pull request of the code of a run, or had the console merge one, where nobody approves what is their own. That is
    /// looked up when they approve: a merge is read back after its commit may have been fetched. Until it is, it counts as of the run.
    pub(crate) async fn run_is_of_others(&self, run: &StackRun, name: &str) -> Result<()> {
        let Some(source) = &run.source else { return Ok(()) };
        if !run.snapshot.spec.approval.forbid_self || source.commits.is_empty() {
            return Ok(());
        }
        let people = self.store.pull_request_people(&source.commits).await?;
        let is_own = |by: &str| names(name).any(|name| name.eq_ignore_ascii_case(by));
        if people.iter().any(|by| names(by).any(is_own)) {
            return Err(Error::forbidden(
                "you opened or merged a pull request with code of this run: somebody else has to approve it",
            ));
        }
        let mut unread = self.store.pull_requests_unread_merges(self.now() - MERGES_TAKE).await?;
        unread.retain(|merge| merge.people.iter().any(|by| names(by).any(is_own)));
        if unread.is_empty() {
            return Ok(());
        }
        let Some(work) = self.store.repository_work(run.snapshot.repository_id).await? else { return Ok(()) };
        let identity = work.repository.url.identity();
        for merge in unread {
            if self.merge_is_into(&merge, &identity).await? {
                return Err(Error::conflict(format!(
                    "you opened or merged {}, and its host has not told yet which commit that made, which may be of this run: try again \
                     in a minute, or have somebody else approve it",
                    merge.url
                )));
            }
        }
        Ok(())
    }

    /// Whether one may be a merge into the git repository with this host and path.
    async fn merge_is_into(&self, merge: &UnreadMerge, identity: &str) -> Result<bool> {
        let slug = merge.repository.to_lowercase();
        if identity.to_lowercase().ends_with(&format!("/{slug}")) {
            return Ok(true);
        }
        let by = ScmConnectionSelector::Id(merge.connection);
        let connection = there(self.get::<ScmConnection>(&self.system_ctx(), &by).await)?;
        Ok(connection.is_some_and(|connection| {
            identities(connection.kind, &connection.spec, &merge.repository)
                .iter()
                .any(|told| told == identity)
        }))
    }

    /// Whether whoever asks is this user, also under the name of a service account that they assumed.
    async fn is_who_asks(&self, ctx: &OpCtx, user: Option<UserId>) -> Result<bool> {
        let (Some(user), Actor::User(asks)) = (user, ctx.actor()) else { return Ok(false) };
        if asks.id == user {
            return Ok(true);
        }
        let Some(by) = asks.token.as_ref().and_then(|token| token.assumed_by.as_deref()) else {
            return Ok(false);
        };
        match self.get::<User>(&self.system_ctx(), &UserSelector::Id(user)).await {
            Ok(user) => Ok(user.email.as_str() == person(by)),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The token of a run's actor from the moment that its Job applies; absent without an actor, or with one who may do nothing any more.
    pub(crate) async fn run_actor_begins(
        &self,
        run: &StackRun,
        token: &SecretString,
    ) -> Result<Option<String>> {
        if run.phase != RunPhase::Apply || run.snapshot.spec.actor.is_none() {
            return Ok(None);
        }
        let hash = TokenHash::of(token.expose_secret());
        let runs = self.store.stack_run_actor_begins(run.id, run.attempt, &hash).await?;
        let speaks = runs && self.store.stack_run_actor(&hash).await?.is_some();
        Ok(speaks.then(|| token.expose_secret().to_owned()))
    }

    /// Whom the token of a run's actor speaks for.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for one that is wrong, or whose Job is over.
    pub(crate) async fn run_actor_authenticate(&self, token: &str) -> Result<Actor> {
        if !is_actor_token(token) || token.len() > 256 {
            return Err(Error::Unauthenticated);
        }
        let user = self.store.stack_run_actor(&TokenHash::of(token)).await?;
        user.map(Actor::User).ok_or(Error::Unauthenticated)
    }
}
