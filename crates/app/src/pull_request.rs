//! Pull requests that the console opened.

use async_trait::async_trait;
use plural_core::Result;
use plural_core::ids::{PrAutomationId, ProjectId, PullRequestId};
use plural_core::pr_automation::{PrAutomation, target_allowed};
use plural_core::pull_request::{HostPullRequest, PrStatus, PullRequest};
use plural_core::scm_connection::ScmConnection;

use crate::access::{Audited, CreatePr, actor_name, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::pr_automation::PrAutomationSelector;
use crate::records::record;
use crate::scm_connection::ScmConnectionSelector;

/// Which of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullRequestFilter {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// How they stand.
    pub status: Option<PrStatus>,
    /// Title, repository or address contains this.
    pub q: Option<String>,
}

noun!(PullRequest, "pull request", p => Some(p.id.uuid()), p.told.url.clone(), project: p.project_id);
record!(PullRequest, PullRequestId, PullRequestId, PullRequestFilter);

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
            created_at: at,
            updated_at: at,
        };
        let by = automation.audited_new(ctx, "pullRequest.record", "pull request", id, &opened.told.url);
        self.store.pull_request_record(by, &opened).await
    }
}
