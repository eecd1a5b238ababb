//! Plans of stacks on pull requests: a run for each affected stack, at the head commit, and the release of commits from forks.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::Actor;
use plural_core::fleet_plan::RunPreview;
use plural_core::ids::{ProjectId, RepositoryId, ScmConnectionId, StackId, StackPullRequestId, StackRunId};
use plural_core::page::PageArgs;
use plural_core::pull_request::PrStatus;
use plural_core::repository::Repository;
use plural_core::scm_connection::{ScmConnection, ScmType};
use plural_core::scm_webhook::identities;
use plural_core::stack::Stack;
use plural_core::stack_pull_request::{
    ReleasedCommit, RunPullRequest, StackPullRequest, can_be_checked, check_releasable, follows_branch,
    head_reference, pull_request_at,
};
use plural_core::stack_run::{RunKind, RunStatus, RunTrigger, StackRun};
use plural_core::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::access::{Approve, Audited, Authorized, Read, Write, actor_name};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::harness::cut;
use crate::job::NewJob;
use crate::jobs::TellPullRequest;
use crate::ports::git_host_pulls::HostPullHead;
use crate::records::Search;
use crate::repository::RepositorySelector;
use crate::stack::StackSelector;
use crate::stack_inputs::OpenInputs;
use crate::stack_run::{MadeRun, NewRun, RunMove, user_of};

/// Limit of concurrent plans of pull requests per stack: a user who opens many delays nobody else.
const MAX_PULLS: usize = 20;
/// Separate limit of concurrent checks of commits from forks: they never delay a plan from someone who may push to the repository.
const MAX_CHECKS: usize = 5;
/// Limit of a title, in characters.
const MAX_TITLE: usize = 200;
/// Connections per page.
const CONNECTIONS: i64 = 100;

/// A pull request, and the connection to its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullAddress {
    /// The connection.
    pub connection_id: ScmConnectionId,
    /// The repository, as `acme/infra`.
    pub repository: String,
    /// Its number in the repository.
    pub number: u64,
}

impl PullAddress {
    /// The address of the pull request that a run plans.
    pub fn of(pull: &RunPullRequest) -> Self {
        let RunPullRequest { connection_id, repository, number, .. } = pull;
        Self { connection_id: *connection_id, repository: repository.clone(), number: *number }
    }

    /// Its unique key.
    pub(crate) fn key(&self) -> String {
        let Self { connection_id, repository, number } = self;
        format!("{connection_id}:{}:{number}", repository.to_lowercase())
    }
}

/// A repository that stacks of a project follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackRepository {
    /// The repository.
    pub id: RepositoryId,
    /// The project of the stacks.
    pub project_id: ProjectId,
    /// The connection that the stacks name for their pull requests, if any.
    pub connection_id: Option<ScmConnectionId>,
    /// The identity of the repository, as of [`plural_core::repository::RepositoryUrl::identity`].
    pub identity: String,
}

impl StackRepository {
    /// Whether these stacks use a connection: the one that they name, or else one of their project or of the whole installation.
    pub(crate) fn is_of(&self, connection: &ScmConnection) -> bool {
        connection.project_id.is_none_or(|project| project == self.project_id)
            && self.connection_id.is_none_or(|id| id == connection.id)
    }
}

/// Pull requests that affect stacks.
#[async_trait]
pub trait StackPullRequestStore: Send + Sync + 'static {
    /// The stacks that a pull request affected when it was last read, oldest first.
    async fn stack_pull_requests(&self, pull: &PullAddress) -> Result<Vec<StackPullRequest>>;
    /// The repositories that stacks follow, once per project and named connection. Paused and deleted stacks
    /// do not count.
    async fn stack_repositories(&self) -> Result<Vec<StackRepository>>;
    /// The numbers of pull requests of a repository that affected a stack when they were last read.
    async fn stack_pull_numbers(&self, connection: ScmConnectionId, repository: &str) -> Result<Vec<u64>>;
    /// The open pull requests that affect a stack, oldest first.
    async fn stack_pull_requests_of(&self, stack: StackId) -> Result<Vec<StackPullRequest>>;
    /// Records that a pull request affects a stack at this head, replacing its earlier record, together with its run, if there is one, and
    /// the job that publishes its status at the host. A release stays.
    async fn stack_pull_request_put(
        &self,
        by: Audited<'_, Stack, Write>,
        pull: &StackPullRequest,
        run: Option<&MadeRun>,
        tell: &NewJob,
    ) -> Result<Option<StackRun>>;
    /// Deletes the record: it no longer affects the stack, or is closed.
    async fn stack_pull_request_forget(
        &self,
        id: StackPullRequestId,
        tell: Option<&NewJob>,
        at: DateTime<Utc>,
    ) -> Result<()>;
    /// Releases a commit of it to be planned. [`Error::Conflict`] if its head is another one by now.
    async fn stack_pull_request_release(
        &self,
        by: Audited<'_, Stack, Approve>,
        id: StackPullRequestId,
        released: &ReleasedCommit,
    ) -> Result<()>;
    /// Records the status of this head that was published at the host.
    async fn stack_pull_request_told(&self, id: StackPullRequestId, sha: &str, told: &str) -> Result<()>;
}

impl App {
    /// The open pull requests that affect a stack, oldest first.
    pub async fn stack_pull_requests(&self, ctx: &OpCtx, stack: StackId) -> Result<Vec<StackPullRequest>> {
        let stack = self.authorized::<Stack, Read>(ctx, &StackSelector::Id(stack)).await?;
        self.store.stack_pull_requests_of(stack.id).await
    }

    /// Plans a pull request for one stack, in its current form; needs write access to the stack. An unreleased commit of a fork is only
    /// checked.
    pub async fn stack_pull_request_plan(&self, ctx: &OpCtx, stack: StackId, url: &str) -> Result<StackRun> {
        let stack = self.authorized::<Stack, Write>(ctx, &StackSelector::Id(stack)).await?;
        if stack.deleted_at.is_some() {
            return Err(Error::conflict("the stack is being deleted: restore it first"));
        }
        let (address, kind) = self.pull_address(&stack, url).await?;
        let (_, host) = self.scm_host(address.connection_id).await?;
        let pull = host.pull(&address.repository, address.number).await?;
        if pull.status != PrStatus::Open {
            return Err(Error::conflict("the pull request is not open any more"));
        }
        let follows = stack.source.as_ref().map_or("", |source| source.git.reference.as_str());
        if follows != "HEAD" && !follows_branch(follows, &pull.base) {
            return Err(Error::invalid(
                "url",
                format!("is of a pull request into another branch than the stack follows ({follows})"),
            ));
        }
        let seen = run_pull(&address, kind, pull);
        match Box::pin(self.stack_pull_planned(ctx, &stack, seen, true)).await? {
            (_, Some(run)) => Ok(run),
            (StackPullRequest { problem: Some(problem), .. }, None) => Err(Error::conflict(problem)),
            (StackPullRequest { problem: None, .. }, None) => Err(Error::conflict(
                "the pull request comes from a fork, and the stack's tool runs what the code says before it checks anything: \
                 somebody who may approve the stack's plans has to release the commit first",
            )),
        }
    }

    /// Releases a commit of a fork, to be planned with everything that plans of the stack get; needs the right to approve on the stack.
    /// Valid for this commit only. Returns the run that plans it.
    pub async fn stack_pull_request_release(
        &self,
        ctx: &OpCtx,
        stack: StackId,
        url: &str,
        sha: &str,
    ) -> Result<StackRun> {
        let stack = self.authorized::<Stack, Approve>(ctx, &StackSelector::Id(stack)).await?;
        let Some(user_id) = user_of(ctx) else {
            return Err(Error::forbidden("only people and service accounts release commits"));
        };
        if stack.deleted_at.is_some() {
            return Err(Error::conflict("the stack is being deleted: restore it first"));
        }
        let (address, _) = self.pull_address(&stack, url).await?;
        let mut known = self.store.stack_pull_requests_of(stack.id).await?.into_iter();
        let known = known.find(|known| {
            known.pull.repository.eq_ignore_ascii_case(&address.repository)
                && known.pull.number == address.number
        });
        let Some(known) = known else {
            return Err(Error::invalid(
                "url",
                "is of no open pull request that reaches the stack: plan it first",
            ));
        };
        if stack.follow.connection_id.is_some_and(|named| named != known.pull.connection_id) {
            return Err(Error::conflict(
                "the pull request was planned through another connection than the stack names now: plan it again, and release it then",
            ));
        }
        if !known.pull.fork {
            return Err(Error::conflict(
                "the pull request is of the repository's own branch: it is planned without a release",
            ));
        }
        if known.pull.sha != sha {
            return Err(Error::conflict(format!(
                "the head of the pull request is {}: read that commit, and release it",
                known.pull.sha
            )));
        }
        check_releasable(sha)?;
        let released = ReleasedCommit {
            sha: sha.to_owned(),
            user_id,
            by: actor_name(ctx.actor()),
            at: ctx.now(),
            mac: String::new(),
        };
        let released = self.release_signed(stack.id, &known.pull.url, released);
        let by = stack.audited(ctx, "stack.pullRequest.release");
        self.store.stack_pull_request_release(by, known.id, &released).await?;
        // An approver needs no write access to the stack: the console itself plans a released commit.
        let by = StackSelector::Id(stack.id);
        let writable = self.authorized::<Stack, Write>(&self.system_ctx(), &by).await?;
        match Box::pin(self.stack_pull_planned(ctx, &writable, known.pull, true)).await? {
            (_, Some(run)) => Ok(run),
            (seen, None) => Err(Error::conflict(
                seen.problem.unwrap_or_else(|| "the commit is released, and cannot be planned".to_owned()),
            )),
        }
    }

    /// Plans a pull request that affects a stack, unless there is a run of its head already; with `again`, always.
    pub(crate) async fn stack_pull_planned(
        &self,
        ctx: &OpCtx,
        stack: &Authorized<Stack, Write>,
        pull: RunPullRequest,
        again: bool,
    ) -> Result<(StackPullRequest, Option<StackRun>)> {
        if stack.follow.connection_id.is_some_and(|named| named != pull.connection_id) {
            return Err(Error::conflict(
                "the stack's pull requests are planned through another connection by now: try again",
            ));
        }
        let mut known = self.store.stack_pull_requests_of(stack.id).await?.into_iter();
        let mut known = known.find(|known| known.pull.url == pull.url);
        if let Some(other) = &known
            && other.pull.connection_id != pull.connection_id
            && stack.follow.connection_id == Some(pull.connection_id)
        {
            // It was planned through another connection, whose comment becomes obsolete.
            Box::pin(self.stack_pull_ends(other, true)).await?;
            known = None;
        }
        let released = known.as_ref().and_then(|known| known.released.clone());
        let is_released = released.as_ref().is_some_and(|released| {
            released.sha == pull.sha && self.is_own_release(stack.id, &pull.url, released)
        });
        let checked_only = pull.fork && !is_released;
        let pull = RunPullRequest { checked_only, ..pull };
        if let Some(known) = &known
            && !again
            && known.problem.is_none()
            && (known.pull.sha.as_str(), known.pull.checked_only) == (pull.sha.as_str(), checked_only)
        {
            return Ok((known.clone(), None));
        }
        let former = known.as_ref().and_then(|known| known.run_id);
        let made = if checked_only && !can_be_checked(stack.tool) {
            Ok(None)
        } else {
            Box::pin(self.pull_run_made(ctx, stack, &pull, former)).await.map(Some)
        };
        let (made, problem) = match made {
            Ok(made) => (made, None),
            Err(error @ (Error::Invalid { .. } | Error::Conflict { .. })) => {
                (None, Some(cut(error.to_string())))
            }
            Err(error) => return Err(error),
        };
        let (id, created_at) = match &known {
            Some(known) => (known.id, known.created_at),
            None => (StackPullRequestId::new(), ctx.now()),
        };
        let tell = NewJob::of::<TellPullRequest>(&PullAddress::of(&pull))?;
        let seen = StackPullRequest {
            id,
            stack_id: stack.id,
            pull,
            run_id: made.as_ref().map(|made| made.run.id),
            problem,
            released,
            told: None,
            created_at,
            updated_at: ctx.now(),
        };
        let by = stack.audited(ctx, "stack.pullRequest.plan");
        let run = self.store.stack_pull_request_put(by, &seen, made.as_ref(), &tell).await?;
        if let Some(former) = former {
            self.pull_run_ends(former, "a newer plan of the pull request took its place").await?;
        }
        Ok((seen, run))
    }

    /// Builds the run of a pull request, without storing it.
    async fn pull_run_made(
        &self,
        ctx: &OpCtx,
        stack: &Stack,
        pull: &RunPullRequest,
        former: Option<StackRunId>,
    ) -> Result<MadeRun> {
        let open = self.store.stack_runs_open_of(stack.id).await?;
        let is_other = |run: &&StackRun| {
            run.trigger == RunTrigger::PullRequest
                && run.is_checked_only() == pull.checked_only
                && Some(run.id) != former
        };
        let (most, what) = if pull.checked_only {
            (MAX_CHECKS, "checks of forks' commits")
        } else {
            (MAX_PULLS, "plans of pull requests")
        };
        if open.iter().filter(is_other).count() >= most {
            return Err(Error::conflict(format!(
                "the stack has {most} {what} under way: plan this one when some have ended"
            )));
        }
        let inputs =
            if pull.checked_only { OpenInputs::default() } else { self.stack_inputs_of(stack).await? };
        let with = Stack { spec: stack.spec.for_pull_request(pull.clone()), ..stack.clone() };
        let new = NewRun { kind: RunKind::DryRun, trigger: RunTrigger::PullRequest };
        self.stack_run_made_with(ctx, &with, new, &inputs).await
    }

    /// Builds the run of a preview, without storing it. It counts as one of a pull request; `open` are the open runs.
    pub(crate) async fn preview_run_made(
        &self,
        ctx: &OpCtx,
        stack: &Stack,
        preview: RunPreview,
        open: &[StackRun],
    ) -> Result<MadeRun> {
        let is_plan = |run: &&StackRun| run.trigger == RunTrigger::PullRequest && !run.is_checked_only();
        if open.iter().filter(is_plan).count() >= MAX_PULLS {
            return Err(Error::conflict(format!(
                "the stack has {MAX_PULLS} plans of pull requests and previews under way: plan this one when some have ended"
            )));
        }
        let inputs = self.stack_inputs_of(stack).await?;
        let with = Stack { spec: stack.spec.for_preview(preview), ..stack.clone() };
        let new = NewRun { kind: RunKind::DryRun, trigger: RunTrigger::PullRequest };
        self.stack_run_made_with(ctx, &with, new, &inputs).await
    }

    /// Ends the plans of a pull request that no longer affects a stack, or that is closed and whose runs have ended.
    pub(crate) async fn stack_pull_ends(&self, seen: &StackPullRequest, tells: bool) -> Result<()> {
        // The run first: once its record is deleted, nobody would find it after a crash.
        if let Some(run) = seen.run_id {
            self.pull_run_ends(run, "the pull request no longer affects the stack").await?;
        }
        let tell = NewJob::of::<TellPullRequest>(&PullAddress::of(&seen.pull))?;
        self.store.stack_pull_request_forget(seen.id, tells.then_some(&tell), self.now()).await
    }

    /// Cancels the run of an outdated head: at once, or when its tool has stopped.
    pub(crate) async fn pull_run_ends(&self, id: StackRunId, why: &str) -> Result<()> {
        let at_once = RunMove {
            from: vec![RunStatus::Queued, RunStatus::Pending],
            to: Some(RunStatus::Cancelled),
            error: Some(why.to_owned()),
            ends_credential: true,
            tells_agent: true,
            ..RunMove::at(self.now())
        };
        if let Some(run) = self.store.stack_run_move(&Actor::System, id, &at_once).await? {
            return Box::pin(self.run_over(&run)).await;
        }
        let asks = RunMove {
            from: vec![RunStatus::Running],
            cancel: true,
            tells_agent: true,
            ..RunMove::at(self.now())
        };
        self.store.stack_run_move(&Actor::System, id, &asks).await.map(drop)
    }

    /// The connection for the host of a pull request of a stack's repository: one of the stack's project, or else of the
    /// whole installation, that may use the repository.
    async fn pull_address(&self, stack: &Stack, url: &str) -> Result<(PullAddress, ScmType)> {
        let Some(source) = &stack.source else {
            return Err(Error::conflict("the stack has no source: give it a repository"));
        };
        let system = self.system_ctx();
        let by = RepositorySelector::Id(source.repository_id);
        let repository = self.get::<Repository>(&system, &by).await?.url.identity();
        let (mut found, mut after) = (None::<(PullAddress, ScmType, bool)>, None);
        loop {
            let args = PageArgs { after, first: Some(CONNECTIONS), ..PageArgs::default() };
            let page = self.list::<ScmConnection>(&system, &Search::default(), &args).await?;
            after = page.edges.last().map(|edge| edge.cursor.clone()).filter(|_| page.has_next_page);
            for connection in page.into_nodes() {
                let is_own = connection.project_id == Some(stack.project_id);
                if !is_own && connection.project_id.is_some() {
                    continue;
                }
                if stack.follow.connection_id.is_some_and(|id| id != connection.id) {
                    continue;
                }
                let Ok((slug, number)) = pull_request_at(connection.kind, url) else { continue };
                let is_it = connection.spec.allows(&slug)
                    && identities(connection.kind, &connection.spec, &slug).contains(&repository);
                if is_it && (is_own || found.is_none()) {
                    let address = PullAddress { connection_id: connection.id, repository: slug, number };
                    found = Some((address, connection.kind, is_own));
                }
            }
            if after.is_none() || found.as_ref().is_some_and(|(.., is_own)| *is_own) {
                break;
            }
        }
        found.map(|(address, kind, _)| (address, kind)).ok_or_else(|| {
            Error::invalid(
                "url",
                "is of no pull request of the stack's repository that a connection of its project, or the one that it names, may touch",
            )
        })
    }

    fn release_signed(&self, stack: StackId, url: &str, released: ReleasedCommit) -> ReleasedCommit {
        let mac = hex::encode(self.sealer.tag(&release_text(stack, url, &released)));
        ReleasedCommit { mac, ..released }
    }

    /// Whether a release was made by this installation, for this stack and pull request.
    fn is_own_release(&self, stack: StackId, url: &str, released: &ReleasedCommit) -> bool {
        let given = hex::decode(&released.mac).unwrap_or_default();
        let is_own = self.sealer.is_tag(&release_text(stack, url, released), &given);
        if !is_own {
            tracing::error!(stack.id = %stack, "a release in the store was not given here, and does not count");
        }
        is_own
    }
}

/// What a run gets of a pull request. Whether it is only checked is decided per stack.
pub(crate) fn run_pull(address: &PullAddress, kind: ScmType, pull: HostPullHead) -> RunPullRequest {
    let HostPullHead { number, url, title, status: _, sha, fork, base: _ } = pull;
    RunPullRequest {
        connection_id: address.connection_id,
        repository: address.repository.clone(),
        number,
        url,
        title: title.chars().filter(|c| !c.is_control()).take(MAX_TITLE).collect(),
        sha,
        fork,
        checked_only: fork,
        reference: head_reference(kind, number),
    }
}

/// The text that the tag of a release signs. URL and name come last, so that no part of it can be mistaken for another.
fn release_text(stack: StackId, url: &str, released: &ReleasedCommit) -> String {
    let ReleasedCommit { sha, user_id, by, at, mac: _ } = released;
    format!(
        "stack pull request release {stack} {user_id} {} {} {sha} {} {url} {by}",
        at.timestamp_micros(),
        sha.len(),
        url.len()
    )
}
