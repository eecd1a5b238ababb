//! Plans of previews: what an automation would change on every cluster, before there is a pull request.
//!
//! The console computes the changes again, as a commit that no ref points to, and plans that like any other. Only the user who asked and
//! administrators see the plan; it expires after an hour.

use std::collections::HashSet;

use plural_core::data_key::KeyOwner;
use plural_core::fleet_plan::{FleetPlan, FleetPlanPhase, FleetPreview, PREVIEW_KEEP, RunPreview};
use plural_core::ids::{FleetPlanId, ProjectId, RepositoryId, ScmConnectionId, StackId};
use plural_core::repository::Repository;
use plural_core::scm_connection::ScmConnection;
use plural_core::stack::Stack;
use plural_core::stack_run::{RunSource, StackRun};
use plural_core::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::access::{Write, actor_name};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::harness::cut;
use crate::job::NewJob;
use crate::jobs::{BegunFleetPlan, LookFleetPreview};
use crate::pull_request_made::Asked;
use crate::pull_request_open::{Prepared, PullRequestAsk};
use crate::records::there;
use crate::stack::StackSelector;
use crate::stack_run::user_of;

/// The sealed request of a preview. It has no `Debug`: answers may be secret.
#[derive(Serialize, Deserialize)]
pub(crate) struct PreviewAsked {
    /// The connection to its host.
    pub(crate) connection: ScmConnectionId,
    /// The repository there.
    pub(crate) repository: String,
    /// The branch.
    pub(crate) base: String,
    /// The automation's name.
    pub(crate) name: String,
    /// The request to it.
    pub(crate) asked: Asked,
    /// The stacks that follow the repository and that the user may plan.
    pub(crate) plannable: Vec<StackId>,
}

impl PreviewAsked {
    fn into_json(self) -> Result<Vec<u8>> {
        serde_json::to_vec(&self)
            .map_err(|_| Error::internal("writing what a preview is made of", "it has no JSON"))
    }

    /// Reads the sealed form.
    pub(crate) fn from_json(json: &[u8]) -> Result<Self> {
        // The parser's own message could quote an answer.
        serde_json::from_slice(json)
            .map_err(|_| Error::internal("reading what a preview is made of", "it is not what was sealed"))
    }
}

impl App {
    /// Starts a fleet plan of a pull request without opening it; needs the right to create one. Returns at once:
    /// the plan fills while the agents answer. Supersedes an earlier one of the caller with the same automation.
    ///
    /// # Errors
    /// [`Error::Conflict`] if no git repository of the automation's project is the one that it changes: then nothing follows it.
    pub async fn pull_request_preview_plan(&self, ctx: &OpCtx, ask: PullRequestAsk) -> Result<FleetPlan> {
        let prepared = Box::pin(self.pull_request_prepared(ctx, &ask)).await?;
        Box::pin(self.preview_plan_begun(ctx, prepared)).await
    }

    /// Records the plan of an authorised and validated request, with its first job.
    pub(crate) async fn preview_plan_begun(&self, ctx: &OpCtx, prepared: Prepared) -> Result<FleetPlan> {
        let Prepared { automation, repository, base, asked } = prepared;
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
        let plannable = self.preview_plannable(ctx, &known).await?;
        let name = automation.name.to_string();
        let by = automation.audited_new(ctx, "fleetPlan.preview", "fleet plan", id, &name);
        let json = PreviewAsked { connection, repository, base, name, asked, plannable }.into_json()?;
        let owner = KeyOwner::of(Some(project));
        let sealed = self.sealer.seal(owner, &preview_context(id), &json).await?;
        let job = NewJob::of::<LookFleetPreview>(&BegunFleetPlan::first(id))?;
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

    /// The stacks that follow these repositories and that the caller may plan.
    async fn preview_plannable(&self, ctx: &OpCtx, repositories: &[RepositoryId]) -> Result<Vec<StackId>> {
        let mut ids = Vec::new();
        for repository in repositories {
            ids.extend(self.store.stack_sources(*repository).await?.into_iter().map(|stack| stack.id));
        }
        let found = self.authorized_many::<Stack, Write>(ctx, &ids).await?;
        Ok(found.iter().map(|stack| stack.id).collect())
    }

    /// Starts the plan of a stack whose code a preview changes: a run that only plans, waits for all others of the stack, and delays
    /// none. Idempotent.
    pub(crate) async fn preview_stack_planned(
        &self,
        id: FleetPlanId,
        stack: StackId,
        source: RunSource,
    ) -> Result<()> {
        let system = self.system_ctx();
        let Some(plan) = there(self.get::<FleetPlan>(&system, &id).await)? else { return Ok(()) };
        let Some(preview) = &plan.preview else { return Ok(()) };
        let known = preview.stacks.iter().find(|known| known.stack_id == stack);
        if plan.phase == FleetPlanPhase::Superseded || known.is_none_or(|known| known.run_id.is_some()) {
            return Ok(());
        }
        let by = StackSelector::Id(stack);
        let Some(stack) = there(self.authorized::<Stack, Write>(&system, &by).await)? else { return Ok(()) };
        // An earlier attempt may have created it, without recording that.
        let open = self.store.stack_runs_open_of(stack.id).await?;
        let is_it = |run: &&StackRun| run.preview().is_some_and(|of| of.plan_id == id);
        let planned = if let Some(run) = open.iter().find(is_it) {
            Ok(run.id)
        } else {
            let new = RunPreview { plan_id: id, source };
            match Box::pin(self.preview_run_made(&system, &stack, new, &open)).await {
                Ok(mut made) => {
                    made.run.created_by = Some(preview.owner);
                    made.run.author.clone_from(&plan.creator);
                    let by = stack.audited(&system, "stack.run.create");
                    Ok(self.store.stack_run_create(by, &made).await?.id)
                }
                Err(error @ (Error::Invalid { .. } | Error::Conflict { .. })) => Err(cut(error.to_string())),
                Err(error) => return Err(error),
            }
        };
        self.store.fleet_preview_planned(id, stack.id, &planned).await
    }

    /// One pass over the plans of previews: deletes expired ones, and the artifacts that were built for them and that nothing
    /// else uses. Returns the number of plans.
    ///
    /// If it is interrupted, the next collection of artifacts deletes the rest.
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

/// The associated data of a preview's sealed request.
pub(crate) fn preview_context(id: FleetPlanId) -> String {
    format!("fleet_plan:{id}:asked")
}
