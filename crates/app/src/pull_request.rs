//! Pull requests that the console opened.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::Result;
use plural_core::idempotency_key::IdempotencyKey;
use plural_core::ids::{ClusterId, PrAutomationId, ProjectId, PullRequestId, ServiceId, StackId, UserId};
use plural_core::merge_window::PrMerging;
use plural_core::pr_automation::{PrAutomation, target_allowed};
use plural_core::pr_governance::PrGoverned;
use plural_core::pull_request::{HostPullRequest, PrPhase, PrProgress, PrStatus, PrWork, PullRequest};
use plural_core::pull_request_life::PrLife;
use plural_core::scm_connection::ScmConnection;

use crate::access::{Audited, CreatePr, actor_name, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::job::NewJob;
use crate::jobs::{FollowMerge, KnownPullRequest, MergedPullRequest, ReadPullRequest};
use crate::pr_automation::PrAutomationSelector;
use crate::pr_instance::PrLedger;
use crate::pr_secret::NewPrSecret;
use crate::pull_request_key::{PrRequestKey, PrRequestKnown};
use crate::records::record;
use crate::scm_connection::ScmConnectionSelector;
use crate::seal::Sealed;

/// Filter of a list of pull requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullRequestFilter {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// With this status.
    pub status: Option<PrStatus>,
    /// Of this service.
    pub service_id: Option<ServiceId>,
    /// Of this stack.
    pub stack_id: Option<StackId>,
    /// Of this cluster, or of a service on it.
    pub cluster_id: Option<ClusterId>,
    /// In this phase of being opened.
    pub phase: Option<PrPhase>,
    /// Of this repository.
    pub repository: Option<String>,
    /// Opened with this automation.
    pub automation_id: Option<PrAutomationId>,
    /// Title, repository or URL contains this.
    pub q: Option<String>,
}

noun!(PullRequest, "pull request", p => Some(p.id.uuid()), name(p), project: p.project_id);
record!(PullRequest, PullRequestId, PullRequestId, PullRequestFilter);

/// Its URL, or, while it has none, its branch.
fn name(opened: &PullRequest) -> String {
    let told = &opened.told;
    if told.url.is_empty() { format!("{} {}", told.repository, told.branch) } else { told.url.clone() }
}

/// A pull request that is being opened.
#[derive(Debug, Clone)]
pub struct PendingPullRequest {
    /// Its record.
    pub begun: PullRequest,
    /// The recorded steps.
    pub work: PrWork,
    /// The request, sealed for `pull_request:ID:asked`.
    pub asked: Sealed,
}

/// The result of opening one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullRequestEnd {
    /// It exists at its host.
    Opened {
        /// Its URL.
        url: String,
        /// Its title.
        title: String,
        /// Its status by then.
        status: PrStatus,
    },
    /// Its branch exists, in a repository of plain git, which has no pull requests.
    Pushed {
        /// Its title.
        title: String,
        /// The target branch.
        base: String,
        /// The commit of its branch.
        head: String,
    },
    /// It failed.
    Failed {
        /// The reason, without any answers.
        error: String,
    },
}

impl PullRequestEnd {
    /// The follow-up jobs once one is open: it is read back. If it was merged already, the read finds that.
    pub(crate) fn follows(&self, id: PullRequestId) -> Result<Vec<NewJob>> {
        // A branch that was just created has nothing to read.
        let Self::Opened { url: _, title: _, status } = self else { return Ok(Vec::new()) };
        let mut jobs = vec![NewJob::of::<ReadPullRequest>(&KnownPullRequest { id })?];
        if *status == PrStatus::Merged {
            jobs.push(NewJob::of::<FollowMerge>(&MergedPullRequest { id })?);
        }
        Ok(jobs)
    }
}

/// A new pull request to be recorded and opened.
#[derive(Debug)]
pub struct PullRequestBegin<'a> {
    /// Its record.
    pub begun: &'a PullRequest,
    /// Its first step.
    pub work: &'a PrWork,
    /// The request, sealed for `pull_request:ID:asked`.
    pub asked: &'a Sealed,
    /// What it generates or changes.
    pub ledger: &'a PrLedger,
    /// The job that opens it.
    pub job: &'a NewJob,
    /// The idempotency key of the request.
    pub key: Option<&'a PrRequestKey>,
    /// The Secret that comes with it.
    pub secret: Option<&'a NewPrSecret>,
}

/// Writes pull requests.
#[async_trait]
pub trait PullRequestStore: Send + Sync + 'static {
    /// Records a pull request. If the connection has one with this URL, that is updated, and keeps its project;
    /// [`plural_core::Error::Conflict`] if it is in another project.
    async fn pull_request_record(
        &self,
        by: Audited<'_, PrAutomation, CreatePr>,
        opened: &PullRequest,
    ) -> Result<PullRequest>;
    /// Records one to be opened, with what it generates and the job that opens it; [`plural_core::Error::Conflict`] if the
    /// automation, or what it changes, changed since it was read. `false`, with nothing recorded: its key exists already.
    async fn pull_request_begin(
        &self,
        by: Audited<'_, PrAutomation, CreatePr>,
        new: &PullRequestBegin<'_>,
    ) -> Result<bool>;
    /// The result of a user's earlier request with this key, if that was after `since`.
    async fn pull_request_of_key(
        &self,
        user: UserId,
        key: &IdempotencyKey,
        since: DateTime<Utc>,
    ) -> Result<Option<PrRequestKnown>>;
    /// One that is being opened; `None` if that has ended, or it was deleted.
    async fn pull_request_pending(&self, id: PullRequestId) -> Result<Option<PendingPullRequest>>;
    /// Records the steps so far of one that is being opened, and why it waits.
    async fn pull_request_step(
        &self,
        id: PullRequestId,
        work: &PrWork,
        error: Option<&str>,
        at: DateTime<Utc>,
    ) -> Result<()>;
    /// Records the result, with follow-up jobs; deletes the sealed request.
    async fn pull_request_end(
        &self,
        id: PullRequestId,
        end: &PullRequestEnd,
        jobs: &[NewJob],
        at: DateTime<Utc>,
    ) -> Result<()>;
}

impl App {
    /// Records a pull request that was opened with an automation, in a repository that its connection may use; needs the right to create
    /// some with it. Recording it twice is the same as once.
    pub async fn pull_request_record(
        &self,
        ctx: &OpCtx,
        automation: PrAutomationId,
        told: HostPullRequest,
    ) -> Result<PullRequest> {
        told.check()?;
        let by = PrAutomationSelector::Id(automation);
        let automation = self.authorized::<PrAutomation, CreatePr>(ctx, &by).await?;
        let connection_id = automation.links.connection_id;
        // The right to create pull requests does not include the right to read the connection.
        let by = ScmConnectionSelector::Id(connection_id);
        let connection = self.get::<ScmConnection>(&self.system_ctx(), &by).await?;
        target_allowed(automation.project_id, &connection, Some(&told.repository))?;
        let (id, at) = (PullRequestId::new(), ctx.now());
        let opened = PullRequest {
            id,
            project_id: automation.project_id,
            connection_id,
            automation_id: Some(automation.id),
            creator: actor_name(ctx.actor()),
            told,
            progress: PrProgress::OPENED,
            life: PrLife::default(),
            governed: automation.links.governance_id.map(PrGoverned::new),
            merging: PrMerging { windows: automation.merge_windows.clone(), ..PrMerging::default() },
            created_at: at,
            updated_at: at,
        };
        let by = automation.audited_new(ctx, "pullRequest.record", "pull request", id, &opened.told.url);
        self.store.pull_request_record(by, &opened).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_open_is_read_back_and_a_merge_is_followed() {
        let kinds = |end: PullRequestEnd| -> Vec<&'static str> {
            let jobs = end.follows(PullRequestId::new()).unwrap();
            jobs.into_iter().map(|job| job.kind).collect()
        };
        let opened = |status| PullRequestEnd::Opened { url: String::new(), title: String::new(), status };
        assert_eq!(kinds(opened(PrStatus::Open)), ["read_pull_request"]);
        assert_eq!(kinds(opened(PrStatus::Merged)), ["read_pull_request", "follow_merge"]);
        let pushed = |text: &str| PullRequestEnd::Pushed {
            title: text.to_owned(),
            base: text.to_owned(),
            head: text.to_owned(),
        };
        assert!(kinds(pushed("main")).is_empty(), "what was pushed at this moment is known");
        assert!(kinds(PullRequestEnd::Failed { error: "no".to_owned() }).is_empty());
    }
}
