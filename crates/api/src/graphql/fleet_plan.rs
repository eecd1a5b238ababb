//! Fleet plans: what a commit that is not merged yet would change on every cluster that it affects.

use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::fleet_plan::{FleetPartPlan, FleetPlanFilter};
use plural_core::fleet_plan::{ClusterSum, FleetPlanAsk, PreviewedStack, by_cluster, total};
use plural_core::ids::{FleetPartId, FleetPlanId, PullRequestId, StackId};

use super::{
    cluster::Cluster,
    error::{IntoGraphql as _, List, Nullable, id, id_in, list, nullable},
    git_repository::GitRepository,
    page::{connection, page_args},
    pr_automation::PrAutomation,
    project::Project,
    pull_request::PullRequest,
    record::{by_id, one, page_of},
    request::request,
    service::ServiceDeployment,
    stack::InfrastructureStack,
    stack_run::StackRun,
    sync_plan::PlannedObject,
};

/// The phase of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::fleet_plan::FleetPlanPhase")]
pub(crate) enum FleetPlanPhase {
    /// The commit comes from a fork: the console does nothing with it before a user releases it.
    Held,
    /// The console looks for the services that the commit affects.
    Looking,
    /// The console asked the agents.
    Asked,
    /// All agents answered, or ran out of time.
    Done,
    /// The plan failed.
    Failed,
    /// A newer plan superseded it.
    Superseded,
}

/// The state of one service in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::fleet_plan::FleetPartState")]
pub(crate) enum FleetPlanPartState {
    /// Its agent was asked.
    Waiting,
    /// Its agent answered.
    Planned,
    /// It cannot be planned: it does not build, or does not render.
    Failed,
    /// Its agent was not connected, and the plan does not wait for it.
    Away,
    /// Its agent did not answer in time: it is busy, or of an earlier build.
    Late,
}

/// Numbers of objects by kind of change.
#[derive(SimpleObject)]
pub(crate) struct FleetPlanCounts {
    /// Created.
    created: Option<u32>,
    /// Changed.
    changed: Option<u32>,
    /// Deleted.
    deleted: Option<u32>,
    /// Hooks that run.
    hooks: Option<u32>,
    /// Unchanged.
    unchanged: Option<u32>,
    /// Blocked: by policies, limits, other owners, or kinds that the cluster does not serve.
    blocked: Option<u32>,
    /// Changed, but beyond the number that a plan lists.
    omitted: Option<u32>,
}

impl From<plural_core::fleet_plan::PlanCounts> for FleetPlanCounts {
    fn from(counts: plural_core::fleet_plan::PlanCounts) -> Self {
        let plural_core::fleet_plan::PlanCounts {
            created,
            changed,
            deleted,
            hooks,
            unchanged,
            blocked,
            omitted,
        } = counts;
        Self {
            created: Some(created),
            changed: Some(changed),
            deleted: Some(deleted),
            hooks: Some(hooks),
            unchanged: Some(unchanged),
            blocked: Some(blocked),
            omitted: Some(omitted),
        }
    }
}

/// The plan of one cluster.
pub(crate) struct FleetPlanCluster(ClusterSum);

/// The plan of one cluster.
#[Object]
impl FleetPlanCluster {
    /// The cluster's handle when the plan was made.
    async fn handle(&self) -> Option<&str> {
        Some(self.0.cluster.as_str())
    }

    /// The cluster; absent if you may not see it.
    async fn cluster(&self, ctx: &Context<'_>) -> Nullable<Cluster> {
        nullable(by_id::<plural_core::cluster::Cluster, _>(ctx, self.0.cluster_id)).await
    }

    /// Number of affected services.
    async fn services(&self) -> Option<u32> {
        Some(self.0.services)
    }

    /// Of those, the ones whose agent has not answered yet.
    async fn waiting(&self) -> Option<u32> {
        Some(self.0.waiting)
    }

    /// The ones that cannot be planned.
    async fn failed(&self) -> Option<u32> {
        Some(self.0.failed)
    }

    /// The ones whose agent was not connected.
    async fn away(&self) -> Option<u32> {
        Some(self.0.away)
    }

    /// The ones whose agent did not answer in time.
    async fn late(&self) -> Option<u32> {
        Some(self.0.late)
    }

    /// The changes in numbers.
    async fn counts(&self) -> Option<FleetPlanCounts> {
        Some(self.0.counts.into())
    }
}

/// One service of a plan.
pub(crate) struct FleetPlanPart(plural_core::fleet_plan::FleetPlanPart);

/// One service of a plan.
#[Object]
impl FleetPlanPart {
    /// Id: `fleetPlanPart` returns each object.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The service's name when the plan was made.
    async fn name(&self) -> Option<&str> {
        Some(self.0.service.as_str())
    }

    /// The cluster's handle when the plan was made.
    async fn handle(&self) -> Option<&str> {
        Some(self.0.cluster.as_str())
    }

    /// The service.
    async fn service(&self, ctx: &Context<'_>) -> Nullable<ServiceDeployment> {
        nullable(by_id::<plural_core::service::Service, _>(ctx, self.0.service_id)).await
    }

    /// Its state.
    async fn state(&self) -> Option<FleetPlanPartState> {
        Some(self.0.state.into())
    }

    /// The changes in numbers.
    async fn counts(&self) -> Option<FleetPlanCounts> {
        Some(self.0.counts.into())
    }

    /// Why it is not planned.
    async fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// When its agent answered.
    async fn answered_at(&self) -> Option<DateTime<Utc>> {
        self.0.answered_at
    }
}

/// Objects that cannot be sent at all, and are not in the plan.
#[derive(SimpleObject)]
pub(crate) struct FleetPlanProblem {
    /// Where it failed: "sync", "limits".
    source: Option<String>,
    /// What is wrong.
    message: Option<String>,
    /// File and line, if known.
    location: Option<String>,
}

impl From<plural_core::service_error::ServiceError> for FleetPlanProblem {
    fn from(error: plural_core::service_error::ServiceError) -> Self {
        let plural_core::service_error::ServiceError { source, message, warning: _, terminal: _, location } =
            error;
        Self { source: Some(source), message: Some(message), location }
    }
}

/// The plan of one service, object by object.
#[derive(SimpleObject)]
pub(crate) struct FleetPlanPartPlan {
    /// The summary.
    part: Option<FleetPlanPart>,
    /// The changes, in order; unchanged objects are not listed.
    objects: List<PlannedObject>,
    /// Objects that cannot be sent at all: limits, or kinds that the cluster does not serve.
    problems: List<FleetPlanProblem>,
}

impl From<FleetPartPlan> for FleetPlanPartPlan {
    fn from(found: FleetPartPlan) -> Self {
        let FleetPartPlan { part, plan, problems, is_preview: _ } = found;
        Self {
            part: Some(FleetPlanPart(part)),
            objects: list(plan.into_iter().flat_map(|plan| plan.objects).map(Into::into)),
            problems: list(problems.into_iter().map(Into::into)),
        }
    }
}

/// The affected services that you may see.
pub(crate) struct FleetPlanReach(Vec<plural_core::fleet_plan::FleetPlanPart>);

/// The affected services that you may see.
#[Object]
impl FleetPlanReach {
    /// The sum of all of them.
    async fn counts(&self) -> Option<FleetPlanCounts> {
        Some(total(&self.0).into())
    }

    /// The sums by cluster.
    async fn clusters(&self) -> List<FleetPlanCluster> {
        list(by_cluster(&self.0).into_iter().map(FleetPlanCluster))
    }

    /// Each service, by cluster and name.
    async fn parts(&self) -> List<FleetPlanPart> {
        list(self.0.iter().cloned().map(FleetPlanPart))
    }
}

/// A stack whose code a preview changes.
pub(crate) struct FleetPlanStack {
    stack: plural_core::stack::Stack,
    known: PreviewedStack,
}

/// A stack whose code a preview changes.
#[Object]
impl FleetPlanStack {
    /// The stack.
    async fn stack(&self) -> Option<InfrastructureStack> {
        Some(self.stack.clone().into())
    }

    /// The run that plans it; absent until it is created, if there is none, and once it was deleted.
    async fn run(&self, ctx: &Context<'_>) -> Nullable<StackRun> {
        nullable(async {
            let Some(run) = self.known.run_id else { return Ok(None) };
            let request = request(ctx);
            match request.app.stack_run_get(&request.op, run).await {
                Ok(run) => Ok(Some(run.into())),
                Err(plural_core::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error).into_graphql(ctx),
            }
        })
        .await
    }

    /// Why it is not planned, if it is not.
    async fn problem(&self) -> Option<&str> {
        self.known.problem.as_deref()
    }
}

/// What a commit would change on every cluster that it affects.
pub(crate) struct FleetPlan(plural_core::fleet_plan::FleetPlan);

impl From<plural_core::fleet_plan::FleetPlan> for FleetPlan {
    fn from(plan: plural_core::fleet_plan::FleetPlan) -> Self {
        Self(plan)
    }
}

connection!(FleetPlanConnection, FleetPlanEdge, FleetPlan);

/// What a commit would change on every cluster that it affects. Nothing is applied.
#[Object]
impl FleetPlan {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Its phase.
    async fn phase(&self) -> Option<FleetPlanPhase> {
        Some(self.0.phase.into())
    }

    /// Why it failed.
    async fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// The commit, branch or tag that was asked for.
    #[graphql(name = "ref")]
    async fn reference(&self) -> Option<&str> {
        Some(self.0.reference.as_str())
    }

    /// The target branch.
    async fn base(&self) -> Option<&str> {
        self.0.base.as_deref()
    }

    /// The commit; absent until the console has found it. That of a preview is in no repository.
    async fn sha(&self) -> Option<&str> {
        self.0.found.as_ref().map(|found| found.sha.as_str())
    }

    /// The commit of its target branch; absent until the console has found it, and without a target branch.
    async fn base_sha(&self) -> Option<&str> {
        self.0.found.as_ref()?.base_sha.as_deref()
    }

    /// Whether the plan is of the commit merged into `baseSha`: the target branch had moved.
    async fn merged(&self) -> Option<bool> {
        self.0.found.as_ref().map(|found| found.is_merged)
    }

    /// The commit that its target branch moved to, if the plan would differ there: then the console makes it again, within five
    /// minutes, or at once by `replanPullRequest`. Absent if the branch did not move, and if that changes nothing.
    async fn moved_sha(&self) -> Option<&str> {
        self.0.found.as_ref()?.moved()
    }

    /// First line of the commit's message.
    async fn message(&self) -> Option<&str> {
        self.0.found.as_ref().map(|found| found.message.as_str())
    }

    /// Number of services that read from the repository and are not affected.
    async fn untouched(&self) -> Option<u32> {
        self.0.found.as_ref().map(|found| found.untouched)
    }

    /// Number of services with several sources that were skipped: there are too many, or one of their repositories was not
    /// fetched yet.
    async fn composed(&self) -> Option<u32> {
        self.0.found.as_ref().map(|found| found.composed)
    }

    /// Number of affected services beyond the limit of one plan.
    async fn omitted(&self) -> Option<u32> {
        self.0.found.as_ref().map(|found| found.omitted)
    }

    /// Deadline of the agents.
    async fn deadline_at(&self) -> Option<DateTime<Utc>> {
        self.0.found.as_ref().map(|found| found.deadline)
    }

    /// Who asked for it.
    async fn creator(&self) -> Option<&str> {
        Some(self.0.creator.as_str())
    }

    /// The affected services.
    async fn reach(&self, ctx: &Context<'_>) -> Nullable<FleetPlanReach> {
        nullable(async {
            let request = request(ctx);
            let parts = request.app.fleet_plan_parts(&request.op, self.0.id).await.into_graphql(ctx)?;
            Ok(Some(FleetPlanReach(parts)))
        })
        .await
    }

    /// The repository.
    async fn repository(&self, ctx: &Context<'_>) -> Nullable<GitRepository> {
        nullable(by_id::<plural_core::repository::Repository, _>(ctx, self.0.repository_id)).await
    }

    /// Its pull request; absent if there is none.
    async fn pull_request(&self, ctx: &Context<'_>) -> Nullable<PullRequest> {
        nullable(by_id::<plural_core::pull_request::PullRequest, _>(ctx, self.0.pull_request_id)).await
    }

    /// The automation that it is a preview of; absent for the plan of a commit.
    async fn automation(&self, ctx: &Context<'_>) -> Nullable<PrAutomation> {
        let id = self.0.preview.as_ref().map(|preview| preview.automation_id);
        nullable(by_id::<plural_core::pr_automation::PrAutomation, _>(ctx, id)).await
    }

    /// The stacks whose code a preview changes: those that you may see.
    async fn stacks(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<FleetPlanStack>>> {
        nullable(async {
            let Some(preview) = &self.0.preview else { return Ok(None) };
            let request = request(ctx);
            let ids: Vec<StackId> = preview.stacks.iter().map(|known| known.stack_id).collect();
            let found = request.app.get_many::<plural_core::stack::Stack>(&request.op, &ids).await;
            let mut found = found.into_graphql(ctx)?;
            let named = preview.stacks.iter().filter_map(|known| {
                let stack = found.remove(&known.stack_id)?;
                Some(FleetPlanStack { stack, known: known.clone() })
            });
            Ok(list(named))
        })
        .await
    }

    /// When the plan of a preview expires; absent for the plan of a commit.
    async fn expires_at(&self) -> Option<DateTime<Utc>> {
        self.0.preview.as_ref().map(|preview| preview.expires_at)
    }

    /// Its project.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// When it was asked for.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// Reading plans of commits.
#[derive(Default)]
pub(crate) struct FleetPlanQuery;

/// Reading plans of commits.
#[Object]
impl FleetPlanQuery {
    /// One plan of a commit.
    async fn fleet_plan(&self, ctx: &Context<'_>, #[graphql(name = "id")] plan: ID) -> Nullable<FleetPlan> {
        one::<plural_core::fleet_plan::FleetPlan, _>(ctx, id(&plan)).await
    }

    /// The plans of commits of the projects that you may see.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn fleet_plans(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only of this repository.")] repository_id: Option<ID>,
        #[graphql(desc = "Only of this pull request.")] pull_request_id: Option<ID>,
    ) -> Nullable<FleetPlanConnection> {
        let filter = filter(repository_id.as_deref(), pull_request_id.as_deref());
        page_of::<plural_core::fleet_plan::FleetPlan, _>(ctx, filter, page_args(after, first, before, last))
            .await
    }

    /// The plan of one service, object by object; you need read access to the service.
    async fn fleet_plan_part(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] part: ID,
    ) -> Nullable<FleetPlanPartPlan> {
        nullable(async {
            let request = request(ctx);
            let part = id::<FleetPartId>(&part).into_graphql(ctx)?;
            let found = request.app.fleet_plan_part(&request.op, part).await.into_graphql(ctx)?;
            Ok(Some(found.into()))
        })
        .await
    }
}

/// Asking for plans of commits.
#[derive(Default)]
pub(crate) struct FleetPlanMutation;

/// Asking for plans of commits.
#[Object]
impl FleetPlanMutation {
    /// Starts a fleet plan of a commit; needs write access to the repository. Returns at once: the plan fills while the agents answer.
    /// Nothing is applied.
    async fn create_fleet_plan(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The git repository.")] repository_id: ID,
        #[graphql(name = "ref", desc = "Commit, branch or tag.")] reference: String,
        #[graphql(
            desc = "The target branch: the plan covers only services that follow it, by their difference to it. Absent: all services of the repository, by their difference to their current revision."
        )]
        base: Option<String>,
        #[graphql(desc = "The pull request that it is of.")] pull_request_id: Option<ID>,
    ) -> Nullable<FleetPlan> {
        nullable(async {
            let request = request(ctx);
            let ask = ask(&repository_id, reference, base, pull_request_id.as_ref()).into_graphql(ctx)?;
            let plan = request.app.fleet_plan_create(&request.op, ask).await.into_graphql(ctx)?;
            Ok(Some(plan.into()))
        })
        .await
    }

    /// Plans again the services that an open pull request affects, one plan for each repository that has one; needs write access to its
    /// project, and for the commit of a fork the right to approve. Returns at once: the plans fill while the agents answer. An unfinished
    /// plan is not started again.
    async fn replan_pull_request(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id", desc = "The pull request.")] pull_request: ID,
    ) -> Nullable<Vec<Option<FleetPlan>>> {
        nullable(async {
            let request = request(ctx);
            let pull_request = id::<PullRequestId>(&pull_request).into_graphql(ctx)?;
            let plans = Box::pin(request.app.fleet_plans_again(&request.op, pull_request)).await;
            Ok(list(plans.into_graphql(ctx)?.into_iter().map(FleetPlan::from)))
        })
        .await
    }

    /// Releases the commit of a fork, whose plan waits for it; needs the right to approve in the repository.
    async fn release_fleet_plan(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] plan: ID,
        #[graphql(desc = "The commit that you read.")] sha: String,
    ) -> Nullable<FleetPlan> {
        nullable(async {
            let request = request(ctx);
            let id = id::<FleetPlanId>(&plan).into_graphql(ctx)?;
            let plan = request.app.fleet_plan_release(&request.op, id, &sha).await.into_graphql(ctx)?;
            Ok(Some(plan.into()))
        })
        .await
    }
}

fn filter(
    repository: Option<&String>,
    pull_request: Option<&String>,
) -> plural_core::Result<FleetPlanFilter> {
    Ok(FleetPlanFilter {
        repository_id: id_in("repositoryId", repository)?,
        pull_request_id: id_in("pullRequestId", pull_request)?,
    })
}

fn ask(
    repository: &ID,
    reference: String,
    base: Option<String>,
    pull_request: Option<&ID>,
) -> plural_core::Result<FleetPlanAsk> {
    Ok(FleetPlanAsk {
        repository_id: id(repository)?,
        reference,
        base: base.filter(|base| !base.is_empty()),
        pull_request_id: id_in("pullRequestId", pull_request.map(|id| &**id))?,
    })
}
