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

/// Which of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullRequestFilter {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// How they stand.
    pub status: Option<PrStatus>,
    /// About this service.
    pub service_id: Option<ServiceId>,
    /// About this stack.
    pub stack_id: Option<StackId>,
    /// About this cluster, or a service on it.
    pub cluster_id: Option<ClusterId>,
    /// How far the console is with opening them.
    pub phase: Option<PrPhase>,
    /// Of this repository.
    pub repository: Option<String>,
    /// Opened with this automation.
    pub automation_id: Option<PrAutomationId>,
    /// Title, repository or address contains this.
    pub q: Option<String>,
}

noun!(PullRequest, "pull request", p => Some(p.id.uuid()), name(p), project: p.project_id);
record!(PullRequest, PullRequestId, PullRequestId, PullRequestFilter);

/// Its address, or, while it has none, its branch.
fn name(opened: &PullRequest) -> String {
    let told = &opened.told;
    if told.url.is_empty() { format!("{} {}", told.repository, told.branch) } else { told.url.clone() }
}

/// One that is being opened.
#[derive(Debug, Clone)]
pub struct PendingPullRequest {
    /// Its record.
    pub begun: PullRequest,
    /// What was done so far.
    pub work: PrWork,
    /// What was asked, sealed for `pull_request:ID:asked`.
    pub asked: Sealed,
}

/// How opening one ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullRequestEnd {
    /// The host has it.
    Opened {
        /// Its address.
        url: String,
        /// Its title.
        title: String,
        /// How it stands by then.
        status: PrStatus,
    },
    /// Its branch is there, in a repository of plain git: that is all there is of it.
    Pushed {
        /// Its title.
        title: String,
        /// The branch that it goes to.
        base: String,
        /// The commit that its branch is at.
        head: String,
    },
    /// It is not opened.
    Failed {
        /// Why, without an answer.
        error: String,
    },
}

impl PullRequestEnd {
    /// What follows once one is open: it is read back. Where somebody was faster and merged it, that is no news to who reads it then.
    pub(crate) fn follows(&self, id: PullRequestId) -> Result<Vec<NewJob>> {
        // Of a branch that was made at this moment, there is nothing to read.
        let Self::Opened { url: _, title: _, status } = self else { return Ok(Vec::new()) };
        let mut jobs = vec![NewJob::of::<ReadPullRequest>(&KnownPullRequest { id })?];
        if *status == PrStatus::Merged {
            jobs.push(NewJob::of::<FollowMerge>(&MergedPullRequest { id })?);
        }
        Ok(jobs)
    }
}

/// A pull request that is to be opened, as it is recorded.
#[derive(Debug)]
pub struct PullRequestBegin<'a> {
    /// Its record.
    pub begun: &'a PullRequest,
    /// Where it begins.
    pub work: &'a PrWork,
    /// What was asked, sealed for `pull_request:ID:asked`.
    pub asked: &'a Sealed,
    /// What it generates or changes.
    pub ledger: &'a PrLedger,
    /// The job that opens it.
    pub job: &'a NewJob,
    /// By which the request is known when it is sent once more.
    pub key: Option<&'a PrRequestKey>,
    /// The Secret that comes with it.
    pub secret: Option<&'a NewPrSecret>,
}

/// Writing pull requests.
#[async_trait]
pub trait PullRequestStore: Send + Sync + 'static {
    /// Records a pull request. One of this address that the connection has already becomes what is told now, and stays whose it is;
    /// [`plural_core::Error::Conflict`] where it is in another project.
    async fn pull_request_record(
        &self,
        by: Audited<'_, PrAutomation, CreatePr>,
        opened: &PullRequest,
    ) -> Result<PullRequest>;
    /// Records one that is to be opened, with what it generates and the job that does so; [`plural_core::Error::Conflict`] where the
    /// automation, or what it changes, is another one since it was read. False: its key is there already, and nothing is recorded.
    async fn pull_request_begin(
        &self,
        by: Audited<'_, PrAutomation, CreatePr>,
        new: &PullRequestBegin<'_>,
    ) -> Result<bool>;
    /// What a user's request with this key began, if that was after `since`.
    async fn pull_request_of_key(
        &self,
        user: UserId,
        key: &IdempotencyKey,
        since: DateTime<Utc>,
    ) -> Result<Option<PrRequestKnown>>;
    /// One that is being opened; nothing where it is done, or gone.
    async fn pull_request_pending(&self, id: PullRequestId) -> Result<Option<PendingPullRequest>>;
    /// What was done so far of one that is being opened, and why it does not go on for now.
    async fn pull_request_step(
        &self,
        id: PullRequestId,
        work: &PrWork,
        error: Option<&str>,
        at: DateTime<Utc>,
    ) -> Result<()>;
    /// How it ended, with jobs of what follows; what was asked is forgotten.
    async fn pull_request_end(
        &self,
        id: PullRequestId,
        end: &PullRequestEnd,
        jobs: &[NewJob],
        at: DateTime<Utc>,
    ) -> Result<()>;
}

impl App {
    /// Records a pull request that was opened with an automation, in a repository that its connection may touch; needs the right to open
    /// some with it. Recorded twice, it is there once.
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
        // Whoever may open pull requests need not see the connection.
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
