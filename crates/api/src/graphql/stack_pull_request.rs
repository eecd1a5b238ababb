//! Pull requests that affect stacks, and their plans.

use async_graphql::{Context, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_core::stack_pull_request::{ReleasedCommit, RunPullRequest, StackPullRequest as CorePullRequest};

use super::{
    error::{IntoGraphql, Nullable, id, nullable},
    page::counted,
    request::request,
    stack_run::StackRun,
};

/// The pull request that a run plans.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackRunPullRequest {
    /// URL of its page.
    url: String,
    /// Its title.
    title: String,
    /// The repository, as `acme/infra`.
    repository: String,
    /// Its number in the repository.
    number: i32,
    /// The head commit that is planned.
    sha: String,
    /// It comes from a fork.
    fork: bool,
    /// Its commit is from a fork and not released: it is checked without anything of the stack, and not planned.
    checked_only: bool,
}

impl From<RunPullRequest> for StackRunPullRequest {
    fn from(pull: RunPullRequest) -> Self {
        let RunPullRequest {
            connection_id: _,
            repository,
            number,
            url,
            title,
            sha,
            fork,
            checked_only,
            reference: _,
        } = pull;
        Self { url, title, repository, number: counted(number), sha, fork, checked_only }
    }
}

/// An open pull request that affects a stack.
pub(crate) struct StackPullRequest(CorePullRequest);

impl From<CorePullRequest> for StackPullRequest {
    fn from(pull: CorePullRequest) -> Self {
        Self(pull)
    }
}

/// An open pull request that affects a stack.
#[Object]
impl StackPullRequest {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// URL of its page.
    async fn url(&self) -> &str {
        &self.0.pull.url
    }

    /// Its title.
    async fn title(&self) -> &str {
        &self.0.pull.title
    }

    /// The repository, as `acme/infra`.
    async fn repository(&self) -> &str {
        &self.0.pull.repository
    }

    /// Its number in the repository.
    async fn number(&self) -> i32 {
        counted(self.0.pull.number)
    }

    /// Its head commit.
    async fn sha(&self) -> &str {
        &self.0.pull.sha
    }

    /// It comes from a fork.
    async fn fork(&self) -> bool {
        self.0.pull.fork
    }

    /// Its plan waits until a user who may approve the stack's plans releases this commit.
    async fn waits_for_release(&self) -> bool {
        self.0.waits_for_release()
    }

    /// Why there is no run of this commit, if there could be none.
    async fn problem(&self) -> Option<&str> {
        self.0.problem.as_deref()
    }

    /// The last released commit, and who released it.
    async fn released(&self) -> Option<StackReleasedCommit> {
        self.0.released.clone().map(StackReleasedCommit::from)
    }

    /// The run of this commit; absent if there is none, or it was deleted.
    async fn run(&self, ctx: &Context<'_>) -> Nullable<StackRun> {
        nullable(async {
            let Some(run) = self.0.run_id else { return Ok(None) };
            let request = request(ctx);
            match request.app.stack_run_get(&request.op, run).await {
                Ok(run) => Ok(Some(run.into())),
                Err(plural_core::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error).into_graphql(ctx),
            }
        })
        .await
    }
}

/// The release of a commit of a fork.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackReleasedCommit {
    /// The commit.
    sha: String,
    /// Who released it: the name in the audit log.
    by: String,
    /// When.
    at: DateTime<Utc>,
}

impl From<ReleasedCommit> for StackReleasedCommit {
    fn from(released: ReleasedCommit) -> Self {
        let ReleasedCommit { sha, user_id: _, by, at, mac: _ } = released;
        Self { sha, by, at }
    }
}

/// Planning pull requests.
#[derive(Default)]
pub(crate) struct StackPullRequestMutation;

/// Planning pull requests.
#[Object]
impl StackPullRequestMutation {
    /// Plans an open pull request for a stack, at its head commit. An unreleased commit of a fork is only checked.
    async fn plan_stack_pull_request(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id", desc = "The id of the stack.")] stack: ID,
        #[graphql(desc = "The address of the pull request's page.")] url: String,
    ) -> Nullable<StackRun> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack).into_graphql(ctx)?;
            let planned = Box::pin(request.app.stack_pull_request_plan(&request.op, stack, &url)).await;
            Ok(Some(planned.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Releases this commit of a fork, to be planned with everything that plans of the stack get: read it before. Needs the action
    /// `approve` on the stack.
    async fn release_pull_request_commit(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id", desc = "The id of the stack.")] stack: ID,
        #[graphql(desc = "The address of the pull request's page.")] url: String,
        #[graphql(desc = "The commit that you read, whole: another head is refused.")] sha: String,
    ) -> Nullable<StackRun> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack).into_graphql(ctx)?;
            let run = Box::pin(request.app.stack_pull_request_release(&request.op, stack, &url, &sha)).await;
            Ok(Some(run.into_graphql(ctx)?.into()))
        })
        .await
    }
}
