//! Fleet plans: what a commit that is not merged yet would change on every cluster that it affects.
//!
//! The console finds the affected services, builds their artifacts at the commit, and has the agents plan a sync of them.
//! Nothing is applied, and no service moves.

use std::collections::HashSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::fleet_plan::{
    FleetFound, FleetPartState, FleetPlan, FleetPlanAsk, FleetPlanPart, FleetPlanPhase, FleetSince,
    PreviewedStack,
};
use plural_core::ids::{
    ClusterId, FleetPartId, FleetPlanId, ProjectId, PullRequestId, RepositoryId, ServiceId, StackId,
    StackRunId,
};
use plural_core::pr_automation::PrAutomation;
use plural_core::pull_request::PullRequest;
use plural_core::repository::Repository;
use plural_core::service::{GitRef, Service};
use plural_core::service_error::ServiceError;
use plural_core::stack_pull_request::check_releasable;
use plural_core::stack_run::RunSource;
use plural_core::sync::{PlanCandidate, SyncPlan};
use plural_core::{Error, Result};

use crate::access::{Approve, Audited, Authorized, CreatePr, Read, Write, actor_name, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::job::NewJob;
use crate::jobs::{BegunFleetPlan, LookFleetPlan, TellFleetPlan, ToldFleetPlan};
use crate::masking;
use crate::ports::git::SourceSpec;
use crate::records::record;
use crate::repository::RepositorySelector;
use crate::seal::Sealed;
use crate::service::ServiceSelector;

/// Filter of a list of plans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetPlanFilter {
    /// Of this repository.
    pub repository_id: Option<RepositoryId>,
    /// Of this pull request.
    pub pull_request_id: Option<PullRequestId>,
}

noun!(FleetPlan, "fleet plan", p => Some(p.id.uuid()), p.reference.clone(), project: p.project_id);
record!(FleetPlan, FleetPlanId, FleetPlanId, FleetPlanFilter);

/// A service that a commit may affect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetTarget {
    /// The service.
    pub id: ServiceId,
    /// Its name.
    pub name: String,
    /// Its cluster.
    pub cluster_id: ClusterId,
    /// Its cluster's handle.
    pub cluster: String,
    /// The project of its cluster.
    pub project_id: ProjectId,
    /// What it reads from the repository; if it has several sources and none is a folder of the repository, the first that is in it.
    pub git: GitRef,
    /// What else it reads from the repository.
    pub also: Vec<GitRef>,
    /// Paths in the repository that its rendering names outside of its folder.
    pub beside: Vec<String>,
    /// It has several sources.
    pub is_composed: bool,
    /// Digest of the closure that its artifact was built from.
    pub closure_digest: Option<String>,
}

impl FleetTarget {
    /// Whether any of its sources moves, by their git reference.
    pub fn moves(&self, moves: impl Fn(&GitRef) -> bool) -> bool {
        moves(&self.git) || self.also.iter().any(moves)
    }

    /// The files of a commit that it needs.
    pub fn spec(&self) -> SourceSpec {
        let mut spec = SourceSpec::from(&self.git);
        spec.files.extend(self.beside.iter().cloned());
        spec
    }
}

/// One service that a commit affects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetReached {
    /// Its first state.
    pub part: FleetPlanPart,
    /// The request to its agent, also if that is not connected.
    pub candidate: Option<PlanCandidate>,
}

/// What the console found of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetAsked {
    /// The summary.
    pub found: FleetFound,
    /// The affected services.
    pub reached: Vec<FleetReached>,
    /// The stacks whose code a preview changes.
    pub stacks: Vec<ReachedStack>,
}

/// A stack whose code a preview changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReachedStack {
    /// Its first state.
    pub stack: PreviewedStack,
    /// Its code, if it is to be planned.
    pub source: Option<RunSource>,
}

/// The plan of one service, object by object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetPartPlan {
    /// The summary.
    pub part: FleetPlanPart,
    /// The plan; absent if there is none.
    pub plan: Option<SyncPlan>,
    /// Objects that cannot be sent at all, and are not in the plan.
    pub problems: Vec<ServiceError>,
    /// It belongs to the plan of a preview.
    pub is_preview: bool,
}

/// The result of pruning plans of previews.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrunedPreviews {
    /// Number of plans.
    pub plans: u64,
    /// Digests of the artifacts that were built for them. Others may use the same.
    pub artifacts: HashSet<[u8; 32]>,
}

/// Plans of commits.
#[async_trait]
pub trait FleetPlanStore: Send + Sync + 'static {
    /// Records a new plan, with its first jobs. Supersedes earlier ones of the same pull request, or of the same branch
    /// if there is none; deletes the oldest of the repository, and all but the last one of the same commit of the pull request.
    ///
    /// Writes nothing, and returns `false`, if the pull request has a newer plan, and if this one renews a plan (`before`) that is no
    /// longer the newest, or whose pull request is not open, has another head, or another target branch.
    async fn fleet_plan_begin(
        &self,
        by: Audited<'_, Repository, Write>,
        plan: &FleetPlan,
        before: Option<FleetPlanId>,
        jobs: &[NewJob],
    ) -> Result<bool>;
    /// A plan whose commit the console has to read; `None` if that is done, or no longer needed.
    async fn fleet_plan_to_look_at(&self, id: FleetPlanId) -> Result<Option<FleetPlan>>;
    /// Whether the newest plan of a pull request for this repository has this commit, the same target branch as far as both have one,
    /// and did not fail.
    async fn fleet_plan_is_known(
        &self,
        repository: RepositoryId,
        pull_request: PullRequestId,
        reference: &str,
        base: Option<&str>,
    ) -> Result<bool>;
    /// The newest plan of each open pull request for this repository, if it has a target branch and agents were asked.
    async fn fleet_plans_followed(&self, repository: RepositoryId) -> Result<Vec<FleetPlan>>;
    /// The newest plan of a pull request for each repository.
    async fn fleet_plans_newest(&self, pull_request: PullRequestId) -> Result<Vec<FleetPlan>>;
    /// Records the later commit of a plan's target branch.
    async fn fleet_plan_since(
        &self,
        id: FleetPlanId,
        since: &FleetSince,
        jobs: &[NewJob],
        at: DateTime<Utc>,
    ) -> Result<()>;
    /// Starts a plan that waits for a user.
    ///
    /// # Errors
    /// [`plural_core::Error::Conflict`] if it does not wait.
    async fn fleet_plan_release(
        &self,
        by: Audited<'_, Repository, Approve>,
        id: FleetPlanId,
        jobs: &[NewJob],
    ) -> Result<FleetPlan>;
    /// The services that read from a repository, also as one of several sources, and that move with it: pinned ones
    /// do not.
    async fn fleet_plan_targets(&self, repository: RepositoryId) -> Result<Vec<FleetTarget>>;
    /// Records what was found, and asks the agents of the services.
    async fn fleet_plan_asked(
        &self,
        id: FleetPlanId,
        asked: &FleetAsked,
        jobs: &[NewJob],
        at: DateTime<Utc>,
    ) -> Result<()>;
    /// Records a failure: its reason, and the commit of the target branch, if that was found.
    async fn fleet_plan_failed(
        &self,
        id: FleetPlanId,
        failed: (&str, Option<&str>),
        jobs: &[NewJob],
        at: DateTime<Utc>,
    ) -> Result<()>;
    /// Records the plan of a preview, with its request and its first jobs. Supersedes an open one of the same user and automation;
    /// deletes the oldest of the project.
    async fn fleet_preview_begin(
        &self,
        by: Audited<'_, PrAutomation, CreatePr>,
        plan: &FleetPlan,
        asked: &Sealed,
        jobs: &[NewJob],
    ) -> Result<()>;
    /// A plan whose code the console has to read, with its request; `None` if that is done, or no longer needed.
    async fn fleet_preview_to_look_at(&self, id: FleetPlanId) -> Result<Option<(FleetPlan, Sealed)>>;
    /// Records the run that plans a stack of a preview, or why there is none, in words.
    async fn fleet_preview_planned(
        &self,
        id: FleetPlanId,
        stack: StackId,
        planned: &std::result::Result<StackRunId, String>,
    ) -> Result<()>;
    /// Deletes expired plans of previews, whatever their phase.
    async fn fleet_previews_prune(&self, at: DateTime<Utc>) -> Result<PrunedPreviews>;
    /// Ends the plans whose agents ran out of time.
    async fn fleet_plan_end(&self, id: FleetPlanId, at: DateTime<Utc>) -> Result<()>;
    /// The services of a plan, by cluster and name.
    async fn fleet_plan_parts(&self, plan: &Authorized<FleetPlan, Read>) -> Result<Vec<FleetPlanPart>>;
    /// The plan of one service.
    async fn fleet_plan_part(&self, id: FleetPartId) -> Result<Option<FleetPartPlan>>;
    /// Whether an agent of the cluster is asked about this artifact.
    async fn fleet_plan_asks(&self, cluster: ClusterId, digest: &str) -> Result<bool>;
}

impl App {
    /// Starts a fleet plan of a commit of a repository; needs write access to the repository. Returns at once:
    /// the plan fills while the agents answer.
    pub async fn fleet_plan_create(&self, ctx: &OpCtx, ask: FleetPlanAsk) -> Result<FleetPlan> {
        ask.check()?;
        let FleetPlanAsk { repository_id, reference, base, pull_request_id } = ask;
        let by = RepositorySelector::Id(repository_id);
        let repository = self.authorized::<Repository, Write>(ctx, &by).await;
        let repository = repository.map_err(|error| error.named_in("repositoryId"))?;
        if let Some(id) = pull_request_id {
            let opened = self.get::<PullRequest>(ctx, &id).await;
            let opened = opened.map_err(|error| error.named_in("pullRequestId"))?;
            if opened.project_id != repository.project_id {
                return Err(Error::invalid("pullRequestId", "is of another project than the repository"));
            }
            if opened.life.facts.fork {
                // A plan of a fork's commit releases that commit, and not a name that may point to another one by then.
                self.authorized::<Repository, Approve>(ctx, &by).await?;
                if opened.life.head.as_deref() != Some(reference.as_str()) {
                    return Err(Error::conflict(
                        "the pull request comes from a fork: name the commit at its head, in full, that you have read",
                    ));
                }
                check_releasable(&reference)?;
            }
        }
        let (id, at) = (FleetPlanId::new(), ctx.now());
        let plan = FleetPlan {
            id,
            project_id: repository.project_id,
            repository_id,
            pull_request_id,
            creator: actor_name(ctx.actor()),
            reference,
            head_reference: None,
            base,
            phase: FleetPlanPhase::Looking,
            found: None,
            error: None,
            preview: None,
            created_at: at,
            updated_at: at,
        };
        let by = repository.audited_new(ctx, "fleetPlan.create", "fleet plan", id, &plan.reference);
        if !self.store.fleet_plan_begin(by, &plan, None, &beginners(&plan)?).await? {
            return Err(Error::conflict(
                "another plan of the pull request began at the same time: ask again",
            ));
        }
        Ok(plan)
    }

    /// The services of a plan that the caller may read.
    pub async fn fleet_plan_parts(&self, ctx: &OpCtx, id: FleetPlanId) -> Result<Vec<FleetPlanPart>> {
        let plan = self.authorized::<FleetPlan, Read>(ctx, &id).await?;
        let mut parts = self.store.fleet_plan_parts(&plan).await?;
        let services: Vec<ServiceId> = parts.iter().map(|part| part.service_id).collect();
        let seen = self.get_many::<Service>(ctx, &services).await?;
        parts.retain(|part| seen.contains_key(&part.service_id));
        let told = parts.iter().filter(|part| part.error.is_some()).map(|part| part.service_id);
        let masks = self.masks(ctx, told).await?;
        for part in &mut parts {
            masks.apply(part.service_id, part, masking::fleet_part);
        }
        Ok(parts)
    }

    /// The plan of one service, object by object; needs read access to the service.
    pub async fn fleet_plan_part(&self, ctx: &OpCtx, id: FleetPartId) -> Result<FleetPartPlan> {
        let missing = || Error::not_found("part of a fleet plan");
        let mut found = self.store.fleet_plan_part(id).await?.ok_or_else(missing)?;
        let service = found.part.service_id;
        // The plan of a preview belongs to the user who asked for it.
        if found.is_preview {
            match self.get::<FleetPlan>(ctx, &found.part.plan_id).await {
                Ok(_) => {}
                Err(Error::NotFound { .. }) => return Err(missing()),
                Err(error) => return Err(error),
            }
        }
        // A caller who may not see the service learns nothing of it, not even that it is planned.
        match self.get::<Service>(ctx, &ServiceSelector::Id(service)).await {
            Ok(_) => {}
            Err(Error::NotFound { .. }) => return Err(missing()),
            Err(error) => return Err(error),
        }
        self.plans_shown(ctx, &mut found.plan).await?;
        let masks = self.masks(ctx, [service]).await?;
        masks.apply(service, &mut found.part, masking::fleet_part);
        masks.apply_all(service, &mut found.problems, masking::error);
        Ok(found)
    }
}

impl FleetAsked {
    /// Whether any agent is asked.
    pub fn is_any(&self) -> bool {
        self.reached.iter().any(|reached| reached.part.state == FleetPartState::Waiting)
    }
}

/// The jobs that publish the state of a plan at the host of its pull request.
///
/// # Errors
/// If a job has no JSON.
pub fn fleet_plan_tellers(
    id: FleetPlanId,
    repository_id: RepositoryId,
    pull_request: Option<PullRequestId>,
) -> Result<Vec<NewJob>> {
    let Some(pull_request_id) = pull_request else { return Ok(Vec::new()) };
    Ok(vec![NewJob::of::<TellFleetPlan>(&ToldFleetPlan { id, repository_id, pull_request_id })?])
}

/// The first jobs of a plan.
pub(crate) fn beginners(plan: &FleetPlan) -> Result<Vec<NewJob>> {
    beginners_again(plan, 0)
}

/// [`beginners`]; `again` is the number of automatic retries, including this one.
pub(crate) fn beginners_again(plan: &FleetPlan, again: usize) -> Result<Vec<NewJob>> {
    let mut jobs = fleet_plan_tellers(plan.id, plan.repository_id, plan.pull_request_id)?;
    if plan.phase == FleetPlanPhase::Looking {
        jobs.push(NewJob::of::<LookFleetPlan>(&BegunFleetPlan { id: plan.id, again })?);
    }
    Ok(jobs)
}
