//! Plans of previews: what an automation would do on every cluster, before there is a pull request.
//!
//! The console makes the changes again, as a commit that nothing leads to, and plans that as any other. Whoever asked sees the plan, and
//! administrators; it is gone after an hour.

use std::collections::HashSet;

use plural_core::data_key::KeyOwner;
use plural_core::fleet_plan::{FleetPlan, FleetPlanPhase, FleetPreview, PREVIEW_KEEP};
use plural_core::ids::{FleetPlanId, ProjectId, RepositoryId, ScmConnectionId};
use plural_core::repository::Repository;
use plural_core::scm_connection::ScmConnection;
use plural_core::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::access::actor_name;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::job::NewJob;
use crate::jobs::{BegunFleetPlan, LookFleetPreview};
use crate::pull_request_made::Asked;
use crate::pull_request_open::{Prepared, PullRequestAsk};
use crate::stack_run::user_of;

/// What a preview is made of. It has no `Debug`: answers may be secret.
#[derive(Serialize, Deserialize)]
pub(crate) struct PreviewAsked {
    /// Through which its host is asked.
    pub(crate) connection: ScmConnectionId,
    /// The repository there.
    pub(crate) repository: String,
    /// The branch.
    pub(crate) base: String,
    /// The automation's name.
    pub(crate) name: String,
    /// What is asked of it.
    pub(crate) asked: Asked,
}

impl PreviewAsked {
    fn into_json(self) -> Result<Vec<u8>> {
        serde_json::to_vec(&self)
            .map_err(|_| Error::internal("writing what a preview is made of", "it has no JSON"))
    }

    /// What was sealed.
    pub(crate) fn from_json(json: &[u8]) -> Result<Self> {
        // The parser's own message could quote an answer.
        serde_json::from_slice(json)
            .map_err(|_| Error::internal("reading what a preview is made of", "it is not what was sealed"))
    }
}

impl App {
    /// Has the agents of all clusters say what a pull request would do that is not opened; needs the right to open one. Answers at once:
    /// the plan fills while they answer. An earlier one of the caller with the same automation is superseded.
    ///
    /// # Errors
    /// [`Error::Conflict`] where no git repository of the automation's project is the one that it changes: then nothing follows it.
    pub async fn pull_request_preview_plan(&self, ctx: &OpCtx, ask: PullRequestAsk) -> Result<FleetPlan> {
        let Prepared { automation, repository, base, asked } =
            Box::pin(self.pull_request_prepared(ctx, &ask)).await?;
        let (project, connection) = (automation.project_id, automation.links.connection_id);
        let host = self.pull_request_connection(connection).await?;
        let known = self.preview_repositories(project, &host, &repository).await?;
        let Some(repository_id) = known.first().copied() else {
            return Err(Error::conflict(format!(
                "the automation's project has no git repository that is {repository}, so that no service and no stack follows it: \
                 add the repository, or open the pull request without a plan"
            )));
        };
        let Some(owner) = user_of(ctx) else {
            return Err(Error::forbidden("only people and service accounts have previews planned"));
        };
        let (id, at) = (FleetPlanId::new(), ctx.now());
        let plan = FleetPlan {
            id,
            project_id: project,
            repository_id,
            pull_request_id: None,
            creator: actor_name(ctx.actor()),
            reference: base.clone(),
            head_reference: None,
            base: Some(base.clone()),
            phase: FleetPlanPhase::Looking,
            found: None,
            error: None,
            preview: Some(FleetPreview {
                owner,
                automation_id: automation.id,
                stacks: Vec::new(),
                expires_at: at + PREVIEW_KEEP,
            }),
            created_at: at,
            updated_at: at,
        };
        let name = automation.name.to_string();
        let by = automation.audited_new(ctx, "fleetPlan.preview", "fleet plan", id, &name);
        let json = PreviewAsked { connection, repository, base, name, asked }.into_json()?;
        let owner = KeyOwner::of(Some(project));
        let sealed = self.sealer.seal(owner, &preview_context(id), &json).await?;
        let job = NewJob::of::<LookFleetPreview>(&BegunFleetPlan { id })?;
        self.store.fleet_preview_begin(by, &plan, &sealed, &[job]).await?;
        Ok(plan)
    }

    /// The git repositories of a project that are this one of a host, in the order in which they were added.
    pub(crate) async fn preview_repositories(
        &self,
        project: ProjectId,
        connection: &ScmConnection,
        slug: &str,
    ) -> Result<Vec<RepositoryId>> {
        let ids = self.scm_repositories(connection, slug).await?;
        let found = self.get_many::<Repository>(&self.system_ctx(), &ids).await?;
        let own = found.into_values().filter(|repository| repository.project_id == project);
        let mut own: Vec<RepositoryId> = own.map(|repository| repository.id).collect();
        own.sort_unstable();
        Ok(own)
    }

    /// One pass over the plans of previews: those whose time is over go, and so do the artifacts that were built for them and that nothing
    /// else names. How many plans.
    ///
    /// Stopped in between, it leaves artifacts to the next collection of all.
    pub async fn fleet_previews_forget(&self) -> Result<u64> {
        let pruned = self.store.fleet_previews_prune(self.now()).await?;
        if !pruned.artifacts.is_empty() {
            let named = self.store.artifacts_named().await?;
            let unnamed: HashSet<[u8; 32]> = pruned.artifacts.difference(&named).copied().collect();
            self.blobs.forget(unnamed, PREVIEW_KEEP.to_std().unwrap_or_default()).await?;
        }
        Ok(pruned.plans)
    }
}

/// What the making of a preview is sealed for.
pub(crate) fn preview_context(id: FleetPlanId) -> String {
    format!("fleet_plan:{id}:asked")
}
