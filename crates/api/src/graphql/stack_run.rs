//! Runs of stacks, and the decisions of users about them.

use std::collections::BTreeMap;

use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::stack_run::NewRun;
use plural_core::access::Actor;
use plural_core::service_error::ServiceError as CoreError;
use plural_core::stack::Stack;
use plural_core::stack_dependency::{stand_ins, with_names};
use plural_core::stack_run::{JobRef, RunApproval, RunKind, RunPhase, RunStatus, RunTrigger};
use plural_core::stack_turns::approvers;
use plural_core::{Error, Result};
use plural_specs::Map;
use secrecy::ExposeSecret as _;

use super::{
    error::{IntoGraphql, List, Nullable, id, list, nullable},
    git_repository::GitRepository,
    limited::limited,
    page::{connection, counted, page_args},
    record::by_id,
    request::request,
    runner::{self, Runner},
    service::{GitRef, ServiceError},
    stack::{InfrastructureStack, StackEnvironment, StackFile, StackOutput, outputs},
    stack_input::StackType,
    stack_policy::{PolicyEngine, StackPolicyViolation, StackRunCost},
    stack_pull_request::StackRunPullRequest,
    stack_run_plan::StackRunPlan,
    stack_run_step::RunStep,
    stack_spec::{JobGateSpec, StackConfiguration},
    stack_state::StackState,
    user::User,
};

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_run::RunStatus")]
pub(crate) enum StackStatus {
    /// The console prepares its code, or another run of the stack goes first.
    Queued,
    /// The cluster's agent has to start its Job.
    Pending,
    /// Its Job has reported.
    Running,
    /// Its plan waits for approval.
    PendingApproval,
    /// It succeeded.
    Successful,
    /// It failed; its error has the reason.
    Failed,
    /// A user or a later run cancelled it.
    Cancelled,
}

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_run::RunKind")]
pub(crate) enum StackRunKind {
    /// Plans, and applies that plan.
    Apply,
    /// Only plans: nothing is changed.
    DryRun,
    /// Plans the destruction of all resources, and carries it out.
    Destroy,
    /// Compares the tool's state with reality: nothing is changed.
    Drift,
    /// Runs commands that a user gave.
    Commands,
}

/// Categories of a stack's runs, for lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_run::RunGroup")]
pub(crate) enum StackRunGroup {
    /// Plans, applies and destructions of the stack itself.
    Stack,
    /// Plans of pull requests and previews, which are never applied.
    PullRequest,
    /// Drift checks.
    Drift,
    /// Commands that a user gave.
    Commands,
}

/// The Jobs of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_run::RunPhase")]
pub(crate) enum StackRunPhase {
    /// The Job that plans.
    Plan,
    /// The Job that applies the plan.
    Apply,
}

/// What triggered a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_run::RunTrigger")]
pub(crate) enum StackRunTrigger {
    /// A pull request.
    PullRequest,
    /// The schedule.
    Cron,
    /// A change of the stack.
    Spec,
    /// A commit.
    Commit,
    /// New outputs of another stack.
    Upstream,
    /// A user.
    Manual,
}

/// A run of a stack: a plan, its approvals, and the Job that applies that very plan.
pub(crate) struct StackRun(plural_core::stack_run::StackRun);

impl From<plural_core::stack_run::StackRun> for StackRun {
    fn from(run: plural_core::stack_run::StackRun) -> Self {
        Self(run)
    }
}

impl StackRun {
    /// Its text, with the names of those stacks that the caller may see.
    async fn told(&self, ctx: &Context<'_>) -> async_graphql::Result<Option<String>> {
        let Some(error) = &self.0.error else { return Ok(None) };
        let mut names = BTreeMap::new();
        for (_, id) in stand_ins(error) {
            if let Some(stack) = by_id::<Stack, Stack>(ctx, id).await? {
                names.insert(id, stack.name.to_string());
            }
        }
        Ok(Some(with_names(error, &names)))
    }
}

connection!(StackRunConnection, StackRunEdge, StackRun);

/// A run of a stack: a plan, its approvals, and the Job that applies that very plan.
#[Object]
impl StackRun {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Number of the run within the stack, from 1.
    async fn number(&self) -> i32 {
        counted(self.0.number)
    }

    /// What it does.
    async fn kind(&self) -> StackRunKind {
        self.0.kind.into()
    }

    /// What triggered it.
    async fn trigger(&self) -> StackRunTrigger {
        self.0.trigger.into()
    }

    /// The pull request that it only plans; absent for all other runs.
    async fn pull_request(&self) -> Option<StackRunPullRequest> {
        self.0.pull_request().cloned().map(StackRunPullRequest::from)
    }

    /// The run of another stack whose outputs triggered it; absent if something else did, and if you may not see it.
    async fn upstream_run(&self, ctx: &Context<'_>) -> Nullable<StackRun> {
        nullable(async {
            let by = self.0.snapshot.upstream.as_ref().and_then(|upstream| upstream.run);
            let Some(run) = by else { return Ok(None) };
            let request = request(ctx);
            match request.app.stack_run_get(&request.op, run).await {
                Ok(run) => Ok(Some(run.into())),
                Err(Error::NotFound { .. } | Error::Forbidden { .. }) => Ok(None),
                Err(error) => Err(error).into_graphql(ctx),
            }
        })
        .await
    }

    /// Its status.
    async fn status(&self) -> StackStatus {
        self.0.status.into()
    }

    /// The Job that is next, runs, or ran last.
    async fn phase(&self) -> StackRunPhase {
        self.0.phase.into()
    }

    /// The reason of its end, in words; while it is pending, what it waits for.
    async fn error(&self, ctx: &Context<'_>) -> Nullable<String> {
        nullable(self.told(ctx)).await
    }

    /// The same as a list.
    async fn errors(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<ServiceError>>> {
        nullable(async {
            let error = self.told(ctx).await?.filter(|_| self.0.status == RunStatus::Failed);
            Ok(list(error.map(|message| {
                let (source, location) = ("run".to_owned(), None);
                ServiceError::from(CoreError { source, message, warning: false, terminal: true, location })
            })))
        })
        .await
    }

    /// A user asked for its cancellation.
    async fn cancel_asked(&self) -> bool {
        self.0.cancel_asked
    }

    /// The tool of the stack.
    #[graphql(name = "type")]
    async fn tool(&self) -> StackType {
        self.0.snapshot.tool.into()
    }

    /// The stack.
    async fn stack(&self, ctx: &Context<'_>) -> Nullable<InfrastructureStack> {
        nullable(by_id::<plural_core::stack::Stack, _>(ctx, self.0.stack_id)).await
    }

    /// The repository of its code.
    async fn repository(&self, ctx: &Context<'_>) -> Nullable<GitRepository> {
        nullable(async {
            by_id::<plural_core::repository::Repository, _>(ctx, self.0.snapshot.repository_id).await
        })
        .await
    }

    /// Revision and folder of its code.
    async fn git(&self) -> GitRef {
        self.0.snapshot.git.clone().into()
    }

    /// Its commit, once that is known.
    async fn sha(&self) -> Option<&str> {
        self.0.source.as_ref().map(|source| source.sha.as_str())
    }

    /// First line of the commit's message.
    async fn message(&self) -> Option<&str> {
        self.0.source.as_ref().map(|source| source.message.as_str())
    }

    /// Name of the commit's author.
    async fn commit_author(&self) -> Option<&str> {
        self.0.source.as_ref().map(|source| source.author.as_str())
    }

    /// Who created it: the name in the audit log.
    async fn author(&self) -> &str {
        &self.0.author
    }

    /// Who created it; absent for the console itself.
    async fn actor(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(by_id::<plural_core::user::User, _>(ctx, self.0.created_by)).await
    }

    /// Its plan; absent until there is one.
    async fn plan(&self) -> Option<StackRunPlan> {
        self.0.plan.clone().map(|plan| StackRunPlan::of(self.0.id, plan))
    }

    /// The plan as text and as JSON.
    async fn state(&self) -> Option<StackState> {
        self.0.plan.as_ref().map(|_| StackState::of_run(self.0.id))
    }

    /// A plan with changes waits for approval.
    async fn approval(&self) -> Option<bool> {
        Some(self.0.snapshot.spec.approval.required)
    }

    /// How many people have to approve its plan. One more than its stack asks for if self-approval is forbidden and its code has more
    /// authors than can be listed.
    async fn required_approvals(&self) -> i32 {
        counted(approvers(&self.0).into())
    }

    /// The approvals of its plan, in order.
    async fn approvals(&self) -> List<StackRunApproval> {
        list(self.0.approvals.iter().cloned().map(StackRunApproval::from))
    }

    /// When it got its last required approval; absent while it waits.
    async fn approved_at(&self) -> Option<DateTime<Utc>> {
        self.0.approvals.last().filter(|_| self.0.phase == RunPhase::Apply).map(|approval| approval.at)
    }

    /// Who gave its last required approval; absent while it waits.
    async fn approver(&self, ctx: &Context<'_>) -> Nullable<User> {
        let last = self.0.approvals.last().filter(|_| self.0.phase == RunPhase::Apply);
        nullable(by_id::<plural_core::user::User, _>(ctx, last.map(|approval| approval.user_id))).await
    }

    /// Its steps, in order.
    async fn steps(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only the one at this place.")] index: Option<i32>,
    ) -> Nullable<Vec<Option<RunStep>>> {
        nullable(async {
            let request = request(ctx);
            let steps = match runner::runner(ctx, request).await {
                Ok(Runner::Job(by)) if by.id() == self.0.id => request.app.runner_steps(&by).await,
                Ok(Runner::Agent(agent)) => request.app.agent_run_steps(&agent, self.0.id).await,
                Ok(Runner::Job(_)) | Err(_) => request.app.stack_run_steps(&request.op, self.0.id).await,
            };
            let mut steps = steps.into_graphql(ctx)?;
            if let Some(index) = index {
                steps.retain(|step| i64::from(step.index) == i64::from(index));
            }
            Ok(limited(ctx, steps.into_iter().map(RunStep::from)))
        })
        .await
    }

    /// It changes nothing, whatever its plan has.
    async fn dry_run(&self) -> bool {
        self.0.kind.only_plans()
    }

    /// The console holds the state of its tool.
    async fn manage_state(&self) -> Option<bool> {
        Some(self.0.snapshot.spec.manage_state)
    }

    /// Working folder of the tool, below the folder of `git`.
    async fn workdir(&self) -> Option<&str> {
        Some(self.0.snapshot.spec.workdir.as_str()).filter(|folder| !folder.is_empty())
    }

    /// Variables for the tool, passed in its own way.
    async fn variables(&self) -> Option<Map> {
        Some(Map(self.0.snapshot.spec.variables.clone()))
    }

    /// Settings of the tool.
    async fn configuration(&self) -> StackConfiguration {
        self.0.snapshot.spec.configuration.clone().into()
    }

    /// The Kubernetes Job of the run: from its stack, its project and the installation when the run was created.
    async fn job_spec(&self) -> Option<JobGateSpec> {
        Some(self.0.snapshot.spec.whole_job().into())
    }

    /// Its Job; absent before there is one.
    async fn job(&self) -> Option<JobReference> {
        self.0.job.clone().map(JobReference::from)
    }

    /// URL of its code; only the credential of its own Job can read it. Without a host if the console does not know its own URL.
    async fn tarball(&self, ctx: &Context<'_>) -> String {
        format!("{}/v1/runs/{}/artifact", console(ctx), self.0.id)
    }

    /// Where its tool keeps its state; absent if the console does not hold it.
    async fn state_urls(&self, ctx: &Context<'_>) -> Option<StateUrls> {
        if !self.0.snapshot.spec.manage_state || !self.0.snapshot.tool.has_state() {
            return None;
        }
        let address = Some(format!("{}/v1/stacks/{}/state", console(ctx), self.0.stack_id));
        let (lock, unlock) = (address.clone(), address.clone());
        Some(StateUrls { terraform: Some(TerraformStateUrls { address, lock, unlock }) })
    }

    /// The credential of its commands for the console's API, in the name of the stack's actor: only for its own Job while it applies, else
    /// absent.
    async fn plural_creds(&self, ctx: &Context<'_>) -> Nullable<PluralCreds> {
        nullable(async {
            let Some(by) = runner::job(ctx, self.0.id).await else { return Ok(None) };
            let token = request(ctx).app.runner_actor_token(&by).await.into_graphql(ctx)?;
            Ok(token.map(|token| PluralCreds {
                url: Some(console(ctx).to_owned()).filter(|url| !url.is_empty()),
                token: Some(token.expose_secret().to_owned()),
            }))
        })
        .await
    }

    /// Always absent: only the run itself reads them.
    async fn files(&self) -> List<StackFile> {
        None
    }

    /// Always absent: only the run itself reads it.
    async fn environment(&self) -> List<StackEnvironment> {
        None
    }

    /// The current outputs of its stack.
    async fn output(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackOutput>>> {
        nullable(outputs(ctx, self.0.stack_id)).await
    }

    /// The policy that checks its plan, besides the rules of its project; absent if there is none.
    async fn policy_engine(&self) -> Option<PolicyEngine> {
        self.0.snapshot.spec.policy.clone().map(PolicyEngine::from)
    }

    /// The violations of policies by its plan, most severe first.
    async fn violations(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackPolicyViolation>>> {
        nullable(async {
            let request = request(ctx);
            let found = request.app.stack_run_findings(&request.op, self.0.id).await.into_graphql(ctx)?;
            let violations = found.violations.into_iter().enumerate();
            let violation = |(place, violation)| StackPolicyViolation::of(self.0.id, place, violation);
            Ok(limited(ctx, violations.map(violation)))
        })
        .await
    }

    /// The estimated cost of its plan; absent if there is no estimate.
    async fn cost(&self, ctx: &Context<'_>) -> Nullable<StackRunCost> {
        nullable(async {
            let request = request(ctx);
            let found = request.app.stack_run_findings(&request.op, self.0.id).await.into_graphql(ctx)?;
            Ok(found.cost.map(StackRunCost::from))
        })
        .await
    }

    /// When it was created.
    async fn created_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When its first Job reported for the first time.
    async fn started_at(&self) -> Option<DateTime<Utc>> {
        self.0.started_at
    }

    /// When it ended.
    async fn finished_at(&self) -> Option<DateTime<Utc>> {
        self.0.finished_at
    }
}

/// The console's own URL, without a final slash; empty if it is not known.
fn console<'a>(ctx: &Context<'a>) -> &'a str {
    request(ctx).options.public_url.as_deref().unwrap_or_default().trim_end_matches('/')
}

/// An approval of a plan.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackRunApproval {
    /// Who approved: the name in the audit log.
    approver: String,
    /// The digest of the plan that they read.
    digest: String,
    /// When.
    at: Option<DateTime<Utc>>,
}

impl From<RunApproval> for StackRunApproval {
    fn from(approval: RunApproval) -> Self {
        let RunApproval { user_id: _, by, digest, at, mac: _ } = approval;
        Self { approver: by, digest, at: Some(at) }
    }
}

/// A Kubernetes Job.
#[derive(Debug, SimpleObject)]
pub(crate) struct JobReference {
    /// Name.
    name: String,
    /// Namespace.
    namespace: String,
}

impl From<JobRef> for JobReference {
    fn from(job: JobRef) -> Self {
        let JobRef { namespace, name } = job;
        Self { name, namespace }
    }
}

/// Where tools keep the state of a run's stack.
#[derive(Debug, SimpleObject)]
pub(crate) struct StateUrls {
    /// For Terraform and OpenTofu.
    terraform: Option<TerraformStateUrls>,
}

/// The URLs of Terraform's `http` backend. They accept the credential of the run's own Job, and a user's access token.
#[derive(Debug, SimpleObject)]
pub(crate) struct TerraformStateUrls {
    /// The state.
    address: Option<String>,
    /// For the lock.
    lock: Option<String>,
    /// For the unlock.
    unlock: Option<String>,
}

/// A credential for the console: of the actor of a run, valid while its Job applies.
#[derive(SimpleObject)]
pub(crate) struct PluralCreds {
    /// URL of the console.
    url: Option<String>,
    /// The credential.
    token: Option<String>,
}

/// Reading runs of stacks.
#[derive(Default)]
pub(crate) struct StackRunQuery;

/// Reading runs of stacks.
#[Object]
impl StackRunQuery {
    /// A run of a stack.
    async fn stack_run(&self, ctx: &Context<'_>, #[graphql(name = "id")] run: ID) -> Nullable<StackRun> {
        nullable(async {
            let request = request(ctx);
            let run: plural_core::ids::StackRunId = id(&run).into_graphql(ctx)?;
            let found = match request.op.actor() {
                Actor::Run(_) | Actor::Cluster(_) => match runner::runner(ctx, request).await {
                    Ok(Runner::Job(by)) if by.id() == run => request.app.runner_run(&by).await,
                    Ok(Runner::Job(_)) => Err(Error::Unauthenticated),
                    Ok(Runner::Agent(agent)) => request.app.agent_run_get(&agent, run).await,
                    Err(error) => Err(error),
                },
                Actor::User(_) | Actor::Nobody | Actor::Registration(_) | Actor::System => {
                    request.app.stack_run_get(&request.op, run).await
                }
            };
            Ok(Some(found.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// The runs that wait for approval, of all stacks that you may see.
    async fn stack_runs_waiting(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<StackRunConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last).request().into_graphql(ctx)?;
            Ok(Some(request.app.runs_waiting(&request.op, &page).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}

/// Creating runs of stacks, and deciding about them.
#[derive(Default)]
pub(crate) struct StackRunMutation;

/// Creating runs of stacks, and deciding about them.
#[Object]
impl StackRunMutation {
    /// Creates a run of a stack: it plans, and applies its plan, after approval if the stack requires that.
    async fn trigger_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id", desc = "The id of the stack.")] stack: ID,
        #[graphql(desc = "Plan only: nothing is changed.")] dry_run: Option<bool>,
        #[graphql(desc = "Destroy everything that the stack has.")] destroy: Option<bool>,
    ) -> Nullable<StackRun> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack).into_graphql(ctx)?;
            let kind = kind(dry_run, destroy).into_graphql(ctx)?;
            let new = NewRun { kind, trigger: RunTrigger::Manual };
            Ok(Some(
                Box::pin(request.app.stack_run_create(&request.op, stack, new))
                    .await
                    .into_graphql(ctx)?
                    .into(),
            ))
        })
        .await
    }

    /// Approves the plan of a waiting run: the one with this digest, and no other.
    async fn approve_stack_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] run: ID,
        #[graphql(desc = "The digest of the plan that you read. Without it, nothing is approved.")]
        digest: Option<String>,
    ) -> Nullable<StackRun> {
        nullable(async {
            let request = request(ctx);
            let run = id(&run).into_graphql(ctx)?;
            let approved = Box::pin(request.app.stack_run_approve(&request.op, run, digest.as_deref())).await;
            Ok(Some(approved.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Rejects the plan of a waiting run: the run is cancelled.
    async fn reject_stack_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] run: ID,
        #[graphql(desc = "Why, for whoever made it.")] reason: String,
    ) -> Nullable<StackRun> {
        nullable(async {
            let request = request(ctx);
            let run = id(&run).into_graphql(ctx)?;
            Ok(Some(
                Box::pin(request.app.stack_run_reject(&request.op, run, &reason))
                    .await
                    .into_graphql(ctx)?
                    .into(),
            ))
        })
        .await
    }

    /// Cancels a run: at once if no Job of it has begun, else when its tool has stopped.
    async fn cancel_stack_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] run: ID,
    ) -> Nullable<StackRun> {
        nullable(async {
            let request = request(ctx);
            let run = id(&run).into_graphql(ctx)?;
            Ok(Some(Box::pin(request.app.stack_run_cancel(&request.op, run)).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Creates a run of the same kind, of the stack in its current form.
    async fn restart_stack_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] run: ID,
    ) -> Nullable<StackRun> {
        nullable(async {
            let request = request(ctx);
            let run = id(&run).into_graphql(ctx)?;
            Ok(Some(
                Box::pin(request.app.stack_run_restart(&request.op, run)).await.into_graphql(ctx)?.into(),
            ))
        })
        .await
    }
}

/// The kind of run that the arguments ask for.
fn kind(dry_run: Option<bool>, destroy: Option<bool>) -> Result<RunKind> {
    match (dry_run.unwrap_or_default(), destroy.unwrap_or_default()) {
        (false, false) => Ok(RunKind::Apply),
        (true, false) => Ok(RunKind::DryRun),
        (false, true) => Ok(RunKind::Destroy),
        (true, true) => Err(Error::invalid("dryRun", "cannot be given together with \"destroy\"")),
    }
}
