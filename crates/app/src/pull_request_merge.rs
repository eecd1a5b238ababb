//! Merging pull requests: at once while a merge window is open, or when one opens, as a user asked before.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures::future::join_all;
use plural_core::access::Actor;
use plural_core::ids::{PullRequestId, ScmConnectionId};
use plural_core::merge_window::{MergeTime, MergeWindows, MergeWish, PrMerging};
use plural_core::pull_request::{PrStatus, PullRequest};
use plural_core::pull_request_life::PrMergeMethod;
use plural_core::user::User;
use plural_core::{Error, Result};

use crate::access::{Audited, Authorized, Read, Write, actor_name};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::harness::cut;
use crate::job::NewJob;
use crate::ports::git_hosts::HostCause;
use crate::pull_request_life::{AFTERWARDS, job_of, refused};
use crate::records::there;
use crate::stack_run::user_of;
use crate::user::UserSelector;

/// Limit of merges that one pass starts, all at the same time; the next pass takes the rest.
const AT_ONCE: u64 = 16;

/// A user's request to merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeAsk {
    /// The commit to merge; absent: the recorded head.
    pub head: Option<String>,
    /// The method.
    pub method: PrMergeMethod,
    /// If no window is open, it waits for the next one; else it is refused.
    pub in_window: bool,
}

/// A merge by the console whose commit is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadMerge {
    /// The connection of its pull request.
    pub connection: ScmConnectionId,
    /// Its repository at the host, as `acme/shop`.
    pub repository: String,
    /// Its URL.
    pub url: String,
    /// Who opened it, and who had the console merge it: names in the audit log.
    pub people: Vec<String>,
}

/// Merge windows of pull requests, and merges that wait for them.
#[async_trait]
pub trait PullRequestMergeStore: Send + Sync + 'static {
    /// Writes the windows and the merge of one, with follow-up jobs. [`Error::Conflict`], with nothing written, if somebody else changed
    /// them since they were read, or a merge would wait for a commit that is not its head.
    async fn pull_request_merging(
        &self,
        by: Audited<'_, PullRequest, Write>,
        after: &PrMerging,
        jobs: &[NewJob],
    ) -> Result<()>;
    /// Writes the next state of a waiting merge, for the console itself. `false`, with nothing written, if the state before is another one.
    async fn pull_request_merging_step(
        &self,
        id: PullRequestId,
        before: &PrMerging,
        after: &PrMerging,
        at: DateTime<Utc>,
    ) -> Result<bool>;
    /// Records who has the console merge one, by the name in the audit log, before the merge.
    async fn pull_request_merger(&self, id: PullRequestId, author: &str, at: DateTime<Utc>) -> Result<()>;
    /// Who opened, or had the console merge, the pull requests that have one of these as their head or as their merge commit: names in the
    /// audit log.
    async fn pull_request_people(&self, commits: &[String]) -> Result<Vec<String>>;
    /// Merges by the console whose commits are unknown: of merged pull requests, and of all that a user asked for since then, which may
    /// have succeeded.
    async fn pull_requests_unread_merges(&self, since: DateTime<Utc>) -> Result<Vec<UnreadMerge>>;
    /// At most `most` pull requests whose merge is due, the longest waiting first. Served by an index.
    async fn pull_requests_to_merge(&self, now: DateTime<Utc>, most: u64) -> Result<Vec<PullRequestId>>;
}

impl App {
    /// Merges one, if its head is this commit, or else the recorded one; needs write access to it. If none of its windows is open, it is
    /// merged when one opens, if the request allows that.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the head is another, no window is open, or the host refuses.
    pub async fn pull_request_merge(
        &self,
        ctx: &OpCtx,
        id: PullRequestId,
        ask: MergeAsk,
    ) -> Result<PullRequest> {
        let MergeAsk { head, method, in_window } = ask;
        let mut known = self.authorized::<PullRequest, Write>(ctx, &id).await?;
        let number = known.number()?;
        Box::pin(self.pull_request_acts(ctx, &known)).await?;
        let head = head.or_else(|| known.life.head.clone()).ok_or_else(|| {
            Error::conflict("its head is not known yet: read it back first, and look at what is merged")
        })?;
        let is_commit = matches!(head.len(), 40 | 64) && head.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_commit {
            return Err(Error::invalid(
                "head",
                "must be the whole id of a commit: 40 or 64 hexadecimal digits",
            ));
        }
        if known.told.status == PrStatus::Closed {
            return Err(Error::conflict("the pull request is closed: open it again at its host first"));
        }
        // If it is merged already, windows do not matter.
        let time = known.merging.windows.at(ctx.now());
        if known.told.status == PrStatus::Open && time != MergeTime::Open {
            if !in_window || matches!(time, MergeTime::Closed { opens_at: None, .. }) {
                time.check()?;
            }
            return Box::pin(self.pull_request_wish(ctx, known, head, method)).await;
        }
        let seen = known.life.facts.base.clone();
        if known.told.status == PrStatus::Open {
            // Its author may have changed the target branch since, and no host ties a merge to that.
            let read = Box::pin(self.pull_request_reread(&known, number)).await?;
            if let Some(why) = read.life.facts.error {
                return Err(Error::conflict(why));
            }
            known = self.authorized::<PullRequest, Write>(ctx, &id).await?;
        }
        self.pull_request_governed(&known, &head).await?;
        if let (Some(seen), Some(base)) = (&seen, &known.life.facts.base)
            && seen != base
        {
            return Err(Error::conflict(format!(
                "it goes to {base} now, and not to {seen}: look at it, and ask again"
            )));
        }
        let host = self.pull_request_host(&known).await?;
        let job = job_of(id)?.after(AFTERWARDS);
        self.store.pull_request_merger(id, &actor_name(ctx.actor()), ctx.now()).await?;
        self.store.pull_request_acted(known.audited(ctx, "pullRequest.merge"), &job).await?;
        host.merge(&known.told.repository, number, &head, method).await.map_err(refused)?;
        self.pull_request_done(&known, number, PrStatus::Merged).await
    }

    /// Records that it is to be merged when a window opens. A later request replaces an earlier one.
    async fn pull_request_wish(
        &self,
        ctx: &OpCtx,
        mut known: Authorized<PullRequest, Write>,
        head: String,
        method: PrMergeMethod,
    ) -> Result<PullRequest> {
        let id = known.id;
        if known.life.head.as_deref() != Some(head.as_str()) {
            // The record may be old: the host decides.
            let number = known.number()?;
            self.pull_request_reread(&known, number).await?;
            known = self.authorized::<PullRequest, Write>(ctx, &id).await?;
        }
        if known.told.status != PrStatus::Open {
            return Err(Error::conflict("the pull request is not open any more: there is nothing to merge"));
        }
        if known.life.head.as_deref() != Some(head.as_str()) {
            return Err(Error::conflict(format!(
                "its head is {} and not {head}: look at it, and ask again",
                known.life.head.as_deref().unwrap_or("not known")
            )));
        }
        let at = ctx.now();
        check_not_begun(&known, at)?;
        let wish = MergeWish {
            user: user_of(ctx),
            by: actor_name(ctx.actor()),
            head,
            base: known.life.facts.base.clone(),
            method,
            asked_at: at,
            attempts: 0,
            error: None,
            dropped: None,
        };
        let after = known.merging.clone().waits(wish, at);
        let by = known.audited(ctx, "pullRequest.mergeInWindow");
        self.store.pull_request_merging(by, &after, &[]).await?;
        Ok(PullRequest { merging: after, updated_at: at, ..known.into_inner() })
    }

    /// Cancels a merge that waits for a window, or clears one that was dropped; needs write access to the pull request.
    ///
    /// # Errors
    /// [`Error::Conflict`] if none waits, or it is being merged now.
    pub async fn pull_request_merge_cancel(&self, ctx: &OpCtx, id: PullRequestId) -> Result<PullRequest> {
        let known = self.authorized::<PullRequest, Write>(ctx, &id).await?;
        if known.merging.wish.is_none() {
            return Err(Error::conflict("no merge of it waits for a window: there is nothing to cancel"));
        }
        let at = ctx.now();
        check_not_begun(&known, at)?;
        let after = known.merging.clone().without();
        let by = known.audited(ctx, "pullRequest.mergeCancel");
        self.store.pull_request_merging(by, &after, &[]).await?;
        Ok(PullRequest { merging: after, updated_at: at, ..known.into_inner() })
    }

    /// Replaces the windows of one; needs write access to it. A waiting merge waits for the new ones.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it is being merged now.
    pub async fn pull_request_windows(
        &self,
        ctx: &OpCtx,
        id: PullRequestId,
        windows: MergeWindows,
    ) -> Result<PullRequest> {
        let known = self.authorized::<PullRequest, Write>(ctx, &id).await?;
        if known.merging.windows == windows {
            return Ok(known.into_inner());
        }
        let at = ctx.now();
        check_not_begun(&known, at)?;
        let after = known.merging.clone().within(windows, at);
        let by = known.audited(ctx, "pullRequest.windows");
        self.store.pull_request_merging(by, &after, &[]).await?;
        Ok(PullRequest { merging: after, updated_at: at, ..known.into_inner() })
    }

    /// One pass over the merges whose window opened; returns how many it merged. A loop runs it.
    ///
    /// # Errors
    /// If they cannot be read. A failure of a single merge is logged, and does not delay the others.
    pub async fn pull_requests_merge_due(&self) -> Result<u64> {
        let due = self.store.pull_requests_to_merge(self.now(), AT_ONCE).await?;
        // A slow host does not delay the others.
        let merges: Vec<_> = due.iter().map(|id| Box::pin(self.pull_request_merge_due(*id))).collect();
        let mut count = 0;
        for (id, merged) in due.iter().zip(join_all(merges).await) {
            match merged {
                Ok(true) => count += 1,
                Ok(false) => {}
                Err(error) => {
                    let error = error.log_text();
                    tracing::warn!(pull_request.id = %id, error, "a merge that waits for its window failed; trying again");
                    self.pull_request_put_off(*id).await?;
                }
            }
        }
        Ok(count)
    }

    /// A failure of the console itself in one does not stop those after it.
    async fn pull_request_put_off(&self, id: PullRequestId) -> Result<()> {
        let Some(known) = there(self.get::<PullRequest>(&self.system_ctx(), &id).await)? else {
            return Ok(());
        };
        let Some(wish) = known.merging.waiting() else { return Ok(()) };
        let why = "the console could not merge it: its log says why".to_owned();
        self.pull_request_merge_failed(id, &known.merging, wish, why).await.map(drop)
    }

    /// Merges one whose window opened, if everything is still as requested; returns whether it did. Each step is recorded before the next
    /// one, and the console reads the pull request back before it merges.
    async fn pull_request_merge_due(&self, id: PullRequestId) -> Result<bool> {
        let Some(known) = there(self.get::<PullRequest>(&self.system_ctx(), &id).await)? else {
            return Ok(false);
        };
        let Some(wish) = known.merging.waiting() else { return Ok(false) };
        let (now, merging) = (self.now(), &known.merging);
        if merging.is_begun(now) {
            return Ok(false);
        }
        if known.told.status != PrStatus::Open {
            let ended = merging.clone().seen(known.told.status, known.life.head.as_deref());
            return self.pull_request_waits(id, merging, &ended).await;
        }
        if merging.windows.at(now) != MergeTime::Open {
            // The window closed before this pass, or a clock was wrong.
            let waits = merging.clone().waits(wish.clone(), now);
            return self.pull_request_waits(id, merging, &waits).await;
        }
        let number = match known.number() {
            Ok(number) => number,
            Err(error) => {
                let dropped = merging.clone().drops(wish, error.to_string());
                return self.pull_request_waits(id, merging, &dropped).await;
            }
        };
        let read = match Box::pin(self.pull_request_reread(&known, number)).await {
            Ok(PullRequest { life, .. }) => life.facts.error,
            Err(error @ Error::Internal { .. }) => return Err(error),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = read {
            return self.pull_request_merge_failed(id, merging, wish, why).await;
        }
        Box::pin(self.pull_request_merge_wished(id, number)).await
    }

    /// The same, after it was read back.
    async fn pull_request_merge_wished(&self, id: PullRequestId, number: u64) -> Result<bool> {
        let known = self.get::<PullRequest>(&self.system_ctx(), &id).await?;
        // It was merged or closed, or has another head: the read has recorded that.
        let Some(wish) = known.merging.waiting() else { return Ok(false) };
        let merging = &known.merging;
        let Some((ctx, known)) = self.pull_request_asker(wish, id).await? else {
            let why = format!("{} may not merge it any more", wish.by);
            return self.pull_request_waits(id, merging, &merging.clone().drops(wish, why)).await;
        };
        if known.merging != *merging {
            return Ok(false);
        }
        if known.life.head.as_deref() != Some(wish.head.as_str()) {
            let why = "its host does not tell which commit it would merge".to_owned();
            return self.pull_request_merge_failed(id, merging, wish, why).await;
        }
        if let (Some(asked), Some(base)) = (&wish.base, &known.life.facts.base)
            && asked != base
        {
            let why = format!(
                "it goes to {base} now, which nobody asked to merge it into: look at it, and ask again"
            );
            return self.pull_request_waits(id, merging, &merging.clone().drops(wish, why)).await;
        }
        let now = self.now();
        if merging.windows.at(now) != MergeTime::Open {
            let waits = merging.clone().waits(wish.clone(), now);
            return self.pull_request_waits(id, merging, &waits).await;
        }
        let host = match self.pull_request_host(&known).await {
            Ok(host) => host,
            Err(error @ Error::Internal { .. }) => return Err(error),
            Err(error) => {
                return self.pull_request_merge_failed(id, merging, wish, error.to_string()).await;
            }
        };
        match self.pull_request_governed(&known, &wish.head).await {
            Ok(()) => {}
            Err(error @ Error::Internal { .. }) => return Err(error),
            Err(error) => {
                return self.pull_request_merge_failed(id, merging, wish, error.to_string()).await;
            }
        }
        self.store.pull_request_merger(id, &wish.by, now).await?;
        // From here on it cannot be cancelled.
        let begun = PrMerging { begun_at: Some(now), ..known.merging.clone() };
        let job = job_of(id)?.after(AFTERWARDS);
        match self.store.pull_request_merging(known.audited(&ctx, "pullRequest.merge"), &begun, &[job]).await
        {
            Ok(()) => {}
            // A user merged it a moment ago, or another replica merges it.
            Err(Error::Conflict { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        match host.merge(&known.told.repository, number, &wish.head, wish.method).await {
            Ok(()) => {
                self.pull_request_done(&known, number, PrStatus::Merged).await?;
                Ok(true)
            }
            Err(error) if error.cause == HostCause::Later => {
                self.pull_request_merge_failed(id, &begun, wish, error.message).await
            }
            Err(error) => {
                let why = cut(format!("its host does not merge it: {}", error.message));
                self.pull_request_waits(id, &begun, &begun.clone().drops(wish, why)).await
            }
        }
    }

    /// Who asked for a merge, with their current rights, and the pull request; nothing if they may no longer merge it.
    async fn pull_request_asker(
        &self,
        wish: &MergeWish,
        id: PullRequestId,
    ) -> Result<Option<(OpCtx, Authorized<PullRequest, Write>)>> {
        let system = self.system_ctx();
        let ctx = match wish.user {
            None => system,
            Some(user) => {
                let found = self.authorized::<User, Read>(&system, &UserSelector::Id(user)).await;
                let Some(user) = there(found)?.filter(|user| user.suspended_at.is_none()) else {
                    return Ok(None);
                };
                self.ctx(Actor::User(self.store.user_actor(&user).await?))
            }
        };
        let found = match self.authorized::<PullRequest, Write>(&ctx, &id).await {
            Ok(known) => Box::pin(self.pull_request_acts(&ctx, &known)).await.map(|()| known),
            Err(error) => Err(error),
        };
        match found {
            Ok(known) => Ok(Some((ctx, known))),
            Err(Error::NotFound { .. } | Error::Forbidden { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A failed merge is retried while a window is open.
    async fn pull_request_merge_failed(
        &self,
        id: PullRequestId,
        before: &PrMerging,
        wish: &MergeWish,
        why: String,
    ) -> Result<bool> {
        let failed = wish.failed(cut(why));
        let next = self.now() + failed.pause();
        self.pull_request_waits(id, before, &before.clone().waits(failed, next)).await
    }

    /// The next state of a merge that does not happen now.
    async fn pull_request_waits(
        &self,
        id: PullRequestId,
        before: &PrMerging,
        after: &PrMerging,
    ) -> Result<bool> {
        let is_written = self.store.pull_request_merging_step(id, before, after, self.now()).await?;
        if let (true, Some(MergeWish { dropped: Some(why), .. })) = (is_written, &after.wish) {
            tracing::info!(pull_request.id = %id, why, "a merge that waited for its window is dropped");
        }
        Ok(false)
    }
}

/// A merge that the console carries out now cannot be changed.
fn check_not_begun(known: &PullRequest, now: DateTime<Utc>) -> Result<()> {
    if known.merging.waiting().is_some() && known.merging.is_begun(now) {
        return Err(Error::conflict("it is being merged at this moment: look at it again in a minute"));
    }
    Ok(())
}
