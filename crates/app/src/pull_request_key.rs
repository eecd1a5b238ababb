//! Requests for pull requests that are sent once more, because their answer was lost: by their key they are known, and answered what the
//! first one began.

use plural_core::access::Actor;
use plural_core::data_key::KeyOwner;
use plural_core::idempotency_key::{IdempotencyKey, KEPT};
use plural_core::ids::{ProjectId, PullRequestId, UserId};
use plural_core::pull_request::{PrPhase, PullRequest};
use plural_core::{Error, Result};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::ctx::OpCtx;
use crate::pull_request_open::PullRequestAsk;
use crate::seal::Sealed;

/// The key of a request, as it is recorded with what the request began.
#[derive(Debug, Clone)]
pub struct PrRequestKey {
    /// Whose it is: keys of others are others.
    pub user: UserId,
    /// The key.
    pub key: IdempotencyKey,
    /// The digest of what was asked, sealed for `pr_request_key:ID:asked`: answers are among it, and a digest alone lets people try some.
    pub asked: Sealed,
}

/// What a request of a key began.
#[derive(Debug, Clone)]
pub struct PrRequestKnown {
    /// The pull request.
    pub id: PullRequestId,
    /// As of [`PrRequestKey`].
    pub asked: Sealed,
}

/// A request with a key.
pub(crate) struct Keyed {
    user: UserId,
    key: IdempotencyKey,
    digest: [u8; 32],
}

impl Keyed {
    /// A request with a key for what `asked` says in whole; none where it has no key.
    pub(crate) fn of(ctx: &OpCtx, key: Option<&IdempotencyKey>, asked: &Value) -> Result<Option<Self>> {
        let Some(key) = key else { return Ok(None) };
        let Actor::User(user) = ctx.actor() else {
            return Err(Error::invalid("idempotencyKey", "is for users: leave it out"));
        };
        // Objects are written in the order of their keys.
        let digest = Sha256::digest(asked.to_string()).into();
        Ok(Some(Self { user: user.id, key: key.clone(), digest }))
    }
}

impl App {
    /// What a request began that is asked once more; nothing for a new one.
    ///
    /// # Errors
    /// [`Error::Conflict`] where its key is that of a request for something else.
    pub(crate) async fn pull_request_again(
        &self,
        ctx: &OpCtx,
        keyed: Option<&Keyed>,
        wait: bool,
    ) -> Result<Option<PullRequest>> {
        let Some(Keyed { user, key, digest }) = keyed else { return Ok(None) };
        let since = ctx.now() - KEPT;
        let Some(known) = self.store.pull_request_of_key(*user, key, since).await? else { return Ok(None) };
        let asked = self.sealer.open(&seal_context(known.id), &known.asked).await?;
        if asked != digest {
            return Err(Error::conflict(
                "the idempotencyKey is that of a request for something else, within the last 24 hours: give each request a key of its own",
            ));
        }
        let begun = self.get::<PullRequest>(&self.system_ctx(), &known.id).await?;
        if !wait {
            return Ok(Some(begun));
        }
        let now = match begun.progress.phase {
            PrPhase::Pending => self.pull_request_awaited(begun).await?,
            PrPhase::Opened | PrPhase::Failed => begun,
        };
        or_why_not(now).map(Some)
    }

    /// The key as it is recorded.
    pub(crate) async fn pull_request_key(
        &self,
        keyed: Option<&Keyed>,
        project: ProjectId,
        id: PullRequestId,
    ) -> Result<Option<PrRequestKey>> {
        let Some(Keyed { user, key, digest }) = keyed else { return Ok(None) };
        let asked = self.sealer.seal(KeyOwner::of(Some(project)), &seal_context(id), digest).await?;
        Ok(Some(PrRequestKey { user: *user, key: key.clone(), asked }))
    }
}

impl PullRequestAsk {
    /// All that is asked: two requests that say the same are one.
    pub(crate) fn whole(&self) -> Value {
        let Self { automation, identifier, branch, context, key: _, secrets } = self;
        json!({
            "create": automation.to_string(), "identifier": identifier, "branch": branch, "context": context, "secrets": secrets,
        })
    }
}

/// One that is recorded, as whoever waited for it is answered.
pub(crate) fn or_why_not(now: PullRequest) -> Result<PullRequest> {
    if now.progress.phase == PrPhase::Failed {
        let why = now.progress.error.unwrap_or_else(|| "the pull request was not opened".to_owned());
        return Err(Error::conflict(why));
    }
    Ok(now)
}

fn seal_context(id: PullRequestId) -> String {
    format!("pr_request_key:{id}:asked")
}
