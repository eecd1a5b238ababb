//! Pull requests after they were opened: checks, reviews, and closing.

use async_graphql::{Context, Enum, ID, Object, SimpleObject};

use super::{
    error::{IntoGraphql as _, Nullable, id, nullable},
    pull_request::PullRequest,
    request::request,
};

/// The combined status of a commit's checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::pull_request_life::PrCheckState")]
pub(crate) enum PrCheckState {
    /// There are none.
    None,
    /// Some are pending.
    Pending,
    /// All succeeded.
    Passed,
    /// At least one failed.
    Failed,
}

/// The method of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::pull_request_life::PrMergeMethod")]
pub(crate) enum PrMergeMethod {
    /// With a merge commit.
    Merge,
    /// As one commit with all changes.
    Squash,
    /// Rebases its commits onto the target branch.
    Rebase,
}

/// Numbers of checks of a pull request's head.
#[derive(Debug, Clone, Copy, SimpleObject)]
pub(crate) struct PullRequestChecks {
    /// Their combined status.
    state: Option<PrCheckState>,
    /// Succeeded.
    passed: Option<i32>,
    /// Failed.
    failed: Option<i32>,
    /// Pending.
    pending: Option<i32>,
    /// The host has more than the limit: the others may have failed, so they do not count as passed.
    incomplete: Option<bool>,
}

impl From<plural_core::pull_request_life::PrChecks> for PullRequestChecks {
    fn from(checks: plural_core::pull_request_life::PrChecks) -> Self {
        let plural_core::pull_request_life::PrChecks { passed, failed, pending, incomplete } = checks;
        let number = |count: u32| i32::try_from(count).ok();
        Self {
            state: Some(checks.state().into()),
            passed: number(passed),
            failed: number(failed),
            pending: number(pending),
            incomplete: Some(incomplete),
        }
    }
}

/// Numbers of reviewers of a pull request, by their latest review.
#[derive(Debug, Clone, Copy, SimpleObject)]
pub(crate) struct PullRequestReviews {
    /// They approved.
    approved: Option<i32>,
    /// They requested changes.
    changes_requested: Option<i32>,
}

impl From<plural_core::pull_request_life::PrReviews> for PullRequestReviews {
    fn from(reviews: plural_core::pull_request_life::PrReviews) -> Self {
        let plural_core::pull_request_life::PrReviews { approved, changes_requested } = reviews;
        let number = |count: u32| i32::try_from(count).ok();
        Self { approved: number(approved), changes_requested: number(changes_requested) }
    }
}

/// Actions on a pull request.
#[derive(Default)]
pub(crate) struct PullRequestLifeMutation;

/// Actions on a pull request.
#[Object]
impl PullRequestLifeMutation {
    /// Reads a pull request back from its host at once; needs write access to its project. If the read fails, `readError` says why.
    async fn refresh_pull_request(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] opened: ID,
    ) -> Nullable<PullRequest> {
        nullable(async {
            let request = request(ctx);
            let opened = id(&opened).into_graphql(ctx)?;
            let read = Box::pin(request.app.pull_request_refresh(&request.op, opened)).await;
            Ok(Some(read.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Closes a pull request at its host without a merge; needs write access to its project.
    async fn close_pull_request(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] opened: ID,
    ) -> Nullable<PullRequest> {
        nullable(async {
            let request = request(ctx);
            let opened = id(&opened).into_graphql(ctx)?;
            let closed = Box::pin(request.app.pull_request_close(&request.op, opened)).await;
            Ok(Some(closed.into_graphql(ctx)?.into()))
        })
        .await
    }
}
