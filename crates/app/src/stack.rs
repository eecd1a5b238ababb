//! Stacks: infrastructure that a tool manages, and whose state the console holds.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::{Scope, Visibility, visibility};
use plural_core::cluster::{Cluster, check_tags};
use plural_core::ids::{ClusterId, ProjectId, StackId, StateVersionId};
use plural_core::policy::Policy;
use plural_core::project::Project;
use plural_core::repository::Repository;
use plural_core::stack::{NewStack, Stack, StackChange, StackSource, StackTool};
use plural_core::stack_cron::Clockwork;
use plural_core::stack_drift::StackWatch;
use plural_core::stack_run::{RunKind, RunPhase, RunStatus, RunTrigger, StackRun};
use plural_core::stack_spec::{JobSpec, StackSpec};
use plural_core::stack_steps::steps;
use plural_core::{Error, Result};
use uuid::Uuid;

use crate::access::{Admin, Audited, Bindable, Grant, Noun, Read, Write, actor_name};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::cluster_facet::TagCount;
use crate::ctx::OpCtx;
use crate::job::NewJob;
use crate::jobs::FollowGone;
use crate::policy;
use crate::project::ProjectSelector;
use crate::records::record;
use crate::repository::RepositorySelector;
use crate::run_limits::{environment_allowed, jobs_allowed};
use crate::source::SourceLimits;
use crate::stack_clock::Unattended;
use crate::stack_inputs::OpenInputs;
use crate::stack_run::{MadeRun, NewRun, RunMove, SealedInputs, user_of};
use crate::stack_run_turns::follows;

/// Which stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackSelector {
    /// By id.
    Id(StackId),
    /// By exact name.
    Name(String),
}

/// How a deletion treats what needs the stack: stacks that depend on it, and services and contexts that import its outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependents {
    /// The deletion is refused while there are any.
    Refuse,
    /// They lose the stack: any reader of a stack may depend on it, and has no say in whether it is deleted.
    Leave,
}

impl Dependents {
    /// The setting for a stack in its current state. Once a deletion has begun, this was checked, and no new dependents can appear.
    #[must_use]
    pub const fn of(self, deleted_at: Option<DateTime<Utc>>) -> Self {
        if deleted_at.is_some() { Self::Leave } else { self }
    }
}

/// Filter of a list of stacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackFilter {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// Name contains this.
    pub q: Option<String>,
    /// Whether it has drift: something else changed its resources.
    pub drifted: Option<bool>,
    /// With tags of these names and values.
    pub tags: BTreeMap<String, String>,
    /// One matching tag is enough.
    pub any_tag: bool,
}

record!(Stack, StackId, StackSelector, StackFilter);

impl Noun for Stack {
    const NOUN: &'static str = "stack";

    fn identity(&self) -> (Option<Uuid>, String) {
        (Some(self.id.uuid()), self.name.to_string())
    }

    fn project(&self) -> Option<ProjectId> {
        Some(self.project_id)
    }

    /// Besides users, the Jobs of its runs have access to its state.
    fn guarded_by(&self, scope: Scope) -> Scope {
        match scope {
            Scope::Chain(bindings) => Scope::Stack(self.id, bindings),
            scope => scope,
        }
    }
}

impl Bindable for Stack {
    fn policy(&self) -> Policy {
        self.id.into()
    }
}

/// Writes stacks; their state is written through [`crate::stack_state::StackStateStore`].
#[async_trait]
pub trait StackStore: Send + Sync + 'static {
    /// Creates a stack with its policy; [`Error::Conflict`] if another one has its name.
    async fn stack_create(
        &self,
        by: Audited<'_, Project, Write>,
        stack: &Stack,
        inputs: &SealedInputs,
        grant: Option<&Grant>,
    ) -> Result<()>;
    /// Updates a stack. Changes of its environment and files come sealed in `inputs`, and not in the change; absent parts stay
    /// as they are. If a source, a spec or a part of `inputs` is given, the caller becomes the one who last changed its inputs.
    /// Follow-up jobs are enqueued in the same transaction.
    async fn stack_update(
        &self,
        by: Audited<'_, Stack, Write>,
        change: &StackChange,
        inputs: &SealedInputs,
        grant: Option<&Grant>,
        follows: &[NewJob],
    ) -> Result<()>;
    /// Number of stacks per tag, among those that match a filter: the [`crate::cluster_facet::MOST_VALUES`] most frequent tags, most
    /// frequent first.
    async fn stack_tags(&self, visible: &Visibility, filter: &StackFilter) -> Result<Vec<TagCount>>;
    /// All pairs of a stack and one that it depends on.
    async fn stack_edges(&self) -> Result<Vec<(StackId, StackId)>>;
    /// Marks a stack as being deleted, and creates the run that destroys it, in one transaction: no run of another kind can come in
    /// between. Stores the run as [`crate::stack_run::StackRunStore::stack_run_create`] does; `made` has its
    /// audit line.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a protected stack, for one that a run destroys already, and for one with dependents, unless they are left.
    async fn stack_destroy(
        &self,
        by: Audited<'_, Stack, Admin>,
        made: Audited<'_, Stack, Write>,
        run: &MadeRun,
        dependents: Dependents,
    ) -> Result<StackRun>;
    /// Cancels the deletion of a stack; [`Error::Conflict`] while a run is to destroy it.
    async fn stack_restore(&self, by: Audited<'_, Stack, Admin>) -> Result<()>;
    /// Deletes a stack with its policy and all versions of its state; [`Error::Conflict`] if it is protected, if its state is
    /// locked, if its state has resources and is not the version `forget`, and if it has dependents, unless they are left: then they
    /// no longer depend on it or import it. Follow-up jobs are enqueued in the same transaction.
    async fn stack_delete(
        &self,
        by: Audited<'_, Stack, Admin>,
        forget: Option<StateVersionId>,
        dependents: Dependents,
        follows: &[NewJob],
    ) -> Result<()>;
}

impl App {
    /// Creates a stack; needs write access to its project and to the cluster of its runs, read access to its repository, and admin access
    /// to the project if it comes with its own bindings.
    pub async fn stack_create(&self, ctx: &OpCtx, new: NewStack) -> Result<Stack> {
        let NewStack {
            name,
            tool,
            project_id,
            protect,
            tags,
            source,
            follow,
            mut spec,
            environment,
            files,
            bindings,
        } = new;
        spec.check(tool)?;
        check_tags("attributes.tags", &tags)?;
        let inputs = OpenInputs::checked(environment, files)?;
        let selector = project_id.map_or(ProjectSelector::Default, ProjectSelector::Id);
        let project = self.authorized::<Project, Write>(ctx, &selector).await;
        let project = project.map_err(|error| error.named_in("attributes.projectId"))?;
        if let Some(source) = &source {
            {
                let defined = self.stack_spec_defined(&spec).await?;
                check_runs(tool, &defined)?;
                let said = self.stack_job_said(&project).await?;
                jobs_allowed(&project, tool, &defined.with_job_defaults(said))?;
            }
            environment_allowed(&project, &inputs.environment)?;
            self.stack_source_allowed(ctx, &project, source).await?;
        }
        Box::pin(self.stack_follow_allowed(ctx, project.id, source.as_ref(), (follow, None))).await?;
        self.stack_policy_allowed(ctx, &project, spec.policy.as_ref()).await?;
        if spec.job.account().is_some() {
            self.stack_account_allowed(ctx, project.id).await?;
        }
        self.stack_unattended_allowed(ctx, &spec, Unattended::New(project.id)).await?;
        self.stack_actor_allowed(ctx, spec.actor).await?;
        let (id, at) = (StackId::new(), ctx.now());
        if !spec.dependencies.is_empty() {
            let of = (id, name.as_str());
            spec.dependencies = self.stack_dependencies_allowed(ctx, of, &[], &spec.dependencies).await?;
        }
        let grant = if bindings.is_empty() {
            None
        } else {
            Some(policy::grant(ctx, self.authorized::<Project, _>(ctx, &selector).await, id, &bindings)?)
        };
        let watch = StackWatch {
            next_run_at: spec.next(Clockwork::Run, at),
            next_drift_at: spec.next(Clockwork::Drift, at),
            ..StackWatch::default()
        };
        let stack = Stack {
            id,
            project_id: project.id,
            name,
            tool,
            protect,
            tags,
            source,
            follow,
            spec,
            paused: false,
            status: None,
            sha: None,
            last_successful_at: None,
            source_error: None,
            deleted_at: None,
            changed_by: user_of(ctx),
            changed_as: user_of(ctx).map(|_| actor_name(ctx.actor())),
            lock: None,
            state: None,
            watch,
            created_at: at,
            updated_at: at,
        };
        let sealed = self.new_stack_inputs_sealed(project.id, id, &inputs).await?;
        let by = project.audited_new(ctx, "stack.create", "stack", id, &stack.name);
        self.store.stack_create(by, &stack, &sealed, grant.as_ref()).await?;
        self.stack_kicks(&stack);
        Ok(stack)
    }

    /// Number of stacks per tag, among those that match this filter: most frequent first. A stack can have several tags:
    /// the filter's tags count here, too.
    pub async fn stack_tags(&self, ctx: &OpCtx, filter: &StackFilter) -> Result<Vec<TagCount>> {
        self.store.stack_tags(&visibility(ctx.actor())?, filter).await
    }

    /// Updates a stack; its bindings need admin access to it. If its inputs change, and it is not paused, a run
    /// starts.
    pub async fn stack_update(&self, ctx: &OpCtx, id: StackId, change: &StackChange) -> Result<Stack> {
        let selector = StackSelector::Id(id);
        let grant = if change.bindings.is_empty() {
            None
        } else {
            let stack = self.authorized::<Stack, Admin>(ctx, &selector).await?;
            Some(Grant::on(&stack, ctx, &change.bindings)?)
        };
        let stack = self.authorized::<Stack, Write>(ctx, &selector).await?;
        let makes = change.source.is_some()
            || change.spec.is_some()
            || change.environment.is_some()
            || change.files.is_some();
        if stack.deleted_at.is_some() && makes {
            return Err(Error::conflict("the stack is being deleted: restore it first"));
        }
        if let Some(tags) = &change.tags {
            check_tags("attributes.tags", tags)?;
        }
        if change.follow.is_some() || change.source.is_some() {
            let source = change.source.as_ref().or(stack.source.as_ref());
            let follow = change.follow.unwrap_or(stack.follow);
            let was = stack.follow.connection_id;
            Box::pin(self.stack_follow_allowed(ctx, stack.project_id, source, (follow, was))).await?;
        }
        if let Some(spec) = &change.spec {
            spec.check(stack.tool)?;
            if spec.approval.is_looser_than(&stack.spec.approval)
                || self.stack_asks_less(spec, &stack.spec).await?
            {
                self.stack_approval_allowed(ctx, id).await?;
            }
            if spec.policy != stack.spec.policy {
                let selector = ProjectSelector::Id(stack.project_id);
                let project = self.get::<Project>(&self.system_ctx(), &selector).await?;
                self.stack_policy_allowed(ctx, &project, spec.policy.as_ref()).await?;
            }
        }
        let change = &Box::pin(self.stack_change_allowed(ctx, &stack, change)).await?;
        if makes {
            let spec = change.spec.as_ref().unwrap_or(&stack.spec);
            Box::pin(self.stack_unattended_allowed(ctx, spec, Unattended::Changed(id))).await?;
        }
        let (source, spec) = (change.source.as_ref(), change.spec.as_ref());
        let (before, after) = (&stack.spec, spec.unwrap_or(&stack.spec));
        let acts = acts_as(source.or(stack.source.as_ref()), &after.job);
        let mut acts_as_another = acts.is_some() && acts != acts_as(stack.source.as_ref(), &before.job);
        if source.is_some() && stack.source.is_some() && !acts_as_another {
            // The project's default service account is a different account in another cluster.
            let selector = ProjectSelector::Id(stack.project_id);
            let project = self.get::<Project>(&self.system_ctx(), &selector).await?;
            let said = self.stack_job_said(&project).await?;
            let whole = |spec: &StackSpec| spec.clone().with_job_defaults(said.clone()).whole_job();
            let (before, after) = (whole(before), whole(after));
            let acts = acts_as(source, &after);
            acts_as_another = acts.is_some() && acts != acts_as(stack.source.as_ref(), &before);
        }
        if acts_as_another {
            self.stack_account_allowed(ctx, stack.project_id).await?;
        }
        if makes {
            self.stack_actor_allowed(ctx, spec.unwrap_or(&stack.spec).actor).await?;
        }
        if makes && (change.source.is_some() || stack.source.is_some()) {
            let spec = change.spec.as_ref().unwrap_or(&stack.spec);
            check_runs(stack.tool, &self.stack_spec_defined(spec).await?)?;
        }
        if change.source.is_some() {
            let uses_state = change.spec.as_ref().unwrap_or(&stack.spec).manage_state;
            if stack.source.is_none() && stack.state.is_some() && !uses_state {
                return Err(Error::invalid(
                    "attributes.manageState",
                    "the console keeps a state of the stack, and its runs would make everything anew without it: give true, or \
                     delete the stack and make one whose code has a backend of its own",
                ));
            }
        }
        if change.source.is_some() || (change.spec.is_some() && stack.source.is_some()) {
            let project =
                self.get::<Project>(&self.system_ctx(), &ProjectSelector::Id(stack.project_id)).await?;
            let spec = change.spec.as_ref().unwrap_or(&stack.spec);
            let defined = self.stack_spec_defined(spec).await?;
            let said = self.stack_job_said(&project).await?;
            jobs_allowed(&project, stack.tool, &defined.with_job_defaults(said))?;
            if let Some(source) = &change.source {
                self.stack_source_allowed(ctx, &project, source).await?;
            }
        }
        if makes && stack.source.is_some() && !stack.paused {
            self.stack_has_room(id).await?;
        }
        // Renaming a stack needs no data key.
        let before = if makes { self.stack_inputs_of(&stack).await? } else { OpenInputs::default() };
        let after = before.changed(change)?;
        let change = after.beyond(&before, change);
        // A client cannot compare values that are never shown: if it sends the same ones again, nothing is written.
        let Some(change) = &change else { return self.get::<Stack>(ctx, &selector).await };
        if change.environment.is_some() || change.source.is_some() {
            let selector = ProjectSelector::Id(stack.project_id);
            let project = self.get::<Project>(&self.system_ctx(), &selector).await?;
            environment_allowed(&project, &after.environment)?;
        }
        let sealed = if makes {
            self.stack_inputs_sealed(stack.project_id, id, &after).await?
        } else {
            SealedInputs::default()
        };
        // Only the given parts are written: somebody else may change the others meanwhile.
        let sealed = SealedInputs {
            environment: sealed.environment.filter(|_| change.environment.is_some()),
            files: sealed.files.filter(|_| change.files.is_some()),
            taken: None,
        };
        let was = (stack.source.clone(), self.stack_inputs_digest(&stack, &before)?, stack.paused);
        let moved = Box::pin(self.stack_pulls_moved(&stack, change)).await?;
        let by = stack.audited(ctx, "stack.update");
        self.store.stack_update(by, change, &sealed, grant.as_ref(), &moved).await?;
        let follows_otherwise = change.follow.is_some();
        let stack = self.authorized::<Stack, Write>(ctx, &selector).await?;
        let is = (stack.source.clone(), self.stack_inputs_digest(&stack, &after)?, stack.paused);
        if makes && !stack.paused && stack.source.is_some() && (&was.0, &was.1) != (&is.0, &is.1) {
            let new = NewRun { kind: RunKind::Apply, trigger: RunTrigger::Spec };
            self.stack_run_of(ctx, &stack, new).await?;
        }
        if was != is || follows_otherwise {
            self.stack_kicks(&stack);
        }
        self.get::<Stack>(ctx, &selector).await
    }

    /// The change, with the rights of its author on what the stack takes from others recorded.
    async fn stack_change_allowed(
        &self,
        ctx: &OpCtx,
        stack: &Stack,
        change: &StackChange,
    ) -> Result<StackChange> {
        let mut change = change.clone();
        if let Some(spec) = &mut change.spec
            && spec.dependencies != stack.spec.dependencies
        {
            let (of, was) = ((stack.id, stack.name.as_str()), &stack.spec.dependencies);
            spec.dependencies = self.stack_dependencies_allowed(ctx, of, was, &spec.dependencies).await?;
        }
        Ok(change)
    }

    /// Deletes a stack; needs admin access to it. If its runs created resources, a run destroys them first, and the stack is deleted when
    /// that run succeeds. Only the record is deleted if it has no source, because its tool runs elsewhere, or if `forget` names the version
    /// of the state whose resources a user has decided to forget.
    pub async fn stack_delete(
        &self,
        ctx: &OpCtx,
        id: StackId,
        forget: Option<StateVersionId>,
        dependents: Dependents,
    ) -> Result<Stack> {
        let selector = StackSelector::Id(id);
        let stack = self.authorized::<Stack, Admin>(ctx, &selector).await?;
        let needed = dependents.of(stack.deleted_at);
        if needed == Dependents::Refuse {
            self.stack_is_free(ctx, &stack).await?;
        }
        let has_made =
            stack.sha.is_some() || stack.state.as_ref().is_some_and(|state| state.resources != Some(0));
        if stack.source.is_none() || !has_made || forget.is_some() {
            return Box::pin(self.stack_detach(ctx, id, forget, dependents)).await;
        }
        if stack.protect {
            return Err(Error::conflict("the stack is protected: take the protection away first"));
        }
        if needed == Dependents::Refuse {
            self.check_unimported(ctx, &stack).await?;
        }
        let writable = self.authorized::<Stack, Write>(ctx, &selector).await?;
        // Before the stack is marked: one that cannot be destroyed must not be.
        let new = NewRun { kind: RunKind::Destroy, trigger: RunTrigger::Manual };
        let made = Box::pin(self.stack_run_made(ctx, &writable, new)).await.map_err(|error| match error {
            Error::Invalid { field, reason } => {
                Error::invalid(field, format!("{reason}; or detach the stack, which forgets what it made"))
            }
            error => error,
        })?;
        let line = writable.audited(ctx, "stack.run.create");
        self.store.stack_destroy(stack.audited(ctx, "stack.delete"), line, &made, dependents).await?;
        self.get::<Stack>(ctx, &selector).await
    }

    /// Deletes a stack with all versions of its state and its runs; needs admin access to it. Its resources stay, and nothing manages
    /// them any more: `forget` names the version of the state for which a user has decided that.
    pub async fn stack_detach(
        &self,
        ctx: &OpCtx,
        id: StackId,
        forget: Option<StateVersionId>,
        dependents: Dependents,
    ) -> Result<Stack> {
        let stack = self.authorized::<Stack, Admin>(ctx, &StackSelector::Id(id)).await?;
        if dependents.of(stack.deleted_at) == Dependents::Refuse {
            self.stack_is_free(ctx, &stack).await?;
            self.check_unimported(ctx, &stack).await?;
        }
        let open = self.store.stack_runs_open_of(id).await?;
        if let Some(run) = open.iter().find(|run| run.status.is_active()) {
            return Err(Error::conflict(format!(
                "run {} of the stack is {}: cancel it, or wait until it has ended",
                run.number,
                run.status.as_str()
            )));
        }
        let left: Vec<StackId> = self.stacks_graph().await?.downstream(id).collect();
        let follows = FollowGone::of(id, &left)?;
        self.store.stack_delete(stack.audited(ctx, "stack.delete"), forget, dependents, &follows).await?;
        // Each records what it has lost. A failure is logged there: the stack is deleted in any case.
        self.dependents_follow(left, None).await.ok();
        Ok(stack.into_inner())
    }

    /// Cancels the deletion of a stack, if its destruction has not begun; needs admin access to it.
    pub async fn stack_restore(&self, ctx: &OpCtx, id: StackId) -> Result<Stack> {
        let selector = StackSelector::Id(id);
        let stack = self.authorized::<Stack, Admin>(ctx, &selector).await?;
        if stack.deleted_at.is_none() {
            return Err(Error::conflict("the stack is not being deleted"));
        }
        let open = self.store.stack_runs_open_of(id).await?;
        for run in open.into_iter().filter(|run| run.kind == RunKind::Destroy) {
            let change = RunMove {
                from: vec![RunStatus::Queued, RunStatus::PendingApproval],
                to: Some(RunStatus::Cancelled),
                error: Some(format!("the stack was restored by {}", actor_name(ctx.actor()))),
                ends_credential: true,
                tells_agent: true,
                follows: follows(&run)?,
                ..RunMove::at(ctx.now())
            };
            match self.store.stack_run_move(ctx.actor(), run.id, &change).await? {
                Some(run) => Box::pin(self.run_over(&run)).await?,
                None => {
                    return Err(Error::conflict(format!(
                        "run {} destroys the stack: cancel it first, and see what is left",
                        run.number
                    )));
                }
            }
        }
        self.store.stack_restore(stack.audited(ctx, "stack.restore")).await?;
        self.get::<Stack>(ctx, &selector).await
    }

    /// Refuses a source that the caller may not use, or that the project's limits exclude.
    async fn stack_source_allowed(&self, ctx: &OpCtx, project: &Project, source: &StackSource) -> Result<()> {
        let StackSource { repository_id, git: _, cluster_id } = source;
        let repository =
            self.authorized::<Repository, Read>(ctx, &RepositorySelector::Id(*repository_id)).await;
        let repository = repository.map_err(|error| error.named_in("attributes.repositoryId"))?;
        if let Some(problem) = stack_limits(project).problem(&repository.url.to_string()) {
            return Err(Error::forbidden(problem));
        }
        // Its Jobs can do anything in that cluster.
        let cluster = self.authorized::<Cluster, Write>(ctx, &ClusterSelector::Id(*cluster_id)).await;
        let cluster = cluster.map_err(|error| error.named_in("attributes.clusterId"))?;
        if cluster.deleted_at.is_some() {
            return Err(Error::conflict("the cluster is being deleted: choose another"));
        }
        Ok(())
    }

    /// Whether commands that waited for approval, by themselves or by a definition, no longer do.
    async fn stack_asks_less(&self, spec: &StackSpec, was: &StackSpec) -> Result<bool> {
        if (&spec.commands, &spec.delete_commands, spec.definition_id)
            == (&was.commands, &was.delete_commands, was.definition_id)
        {
            return Ok(false);
        }
        let was = self.stack_spec_defined(was).await?;
        Ok(self.stack_spec_defined(spec).await?.asks_less_than(&was))
    }

    /// Writers of a stack cannot loosen the approval of its plans: they could apply their own at once.
    async fn stack_approval_allowed(&self, ctx: &OpCtx, id: StackId) -> Result<()> {
        match self.authorized::<Stack, Admin>(ctx, &StackSelector::Id(id)).await {
            Ok(_) => Ok(()),
            Err(Error::Forbidden { .. }) => Err(Error::forbidden(
                "attributes.approval: only administrators of the stack let its plans through with less approval than now",
            )),
            Err(error) => Err(error),
        }
    }

    /// Writers of a stack cannot choose the service account of its Jobs: the namespace of runs has accounts of other projects, too.
    async fn stack_account_allowed(&self, ctx: &OpCtx, project: ProjectId) -> Result<()> {
        match self.authorized::<Project, Admin>(ctx, &ProjectSelector::Id(project)).await {
            Ok(_) => Ok(()),
            Err(Error::Forbidden { .. } | Error::NotFound { .. }) => Err(Error::forbidden(
                "attributes.jobSpec.serviceAccount: only administrators of the stack's project say as whom its Jobs act, and \
                 where",
            )),
            Err(error) => Err(error),
        }
    }

    /// Polls the repository of a stack soon, instead of with its next fetch.
    fn stack_kicks(&self, stack: &Stack) {
        if let Some(source) = stack.source.as_ref().filter(|_| !stack.paused) {
            self.repositories.kick(BTreeSet::from([source.repository_id]));
        }
    }
}

/// A service account of Jobs: its cluster and namespace, and its name.
type JobAccount<'a> = (Option<ClusterId>, (Option<&'a str>, &'a str));

/// The service account of the Jobs of a stack, if one is named.
fn acts_as<'a>(source: Option<&StackSource>, job: &'a JobSpec) -> Option<JobAccount<'a>> {
    Some((source.map(|source| source.cluster_id), job.account()?))
}

/// Refuses a spec that no run could use: with the change itself, and not when a commit arrives.
fn check_runs(tool: StackTool, spec: &StackSpec) -> Result<()> {
    if spec.drift.as_ref().is_some_and(|drift| drift.crontab.is_some()) {
        steps(tool, spec, RunKind::Drift, RunPhase::Plan)?;
    }
    RunPhase::ALL.into_iter().try_for_each(|phase| steps(tool, spec, RunKind::Apply, phase).map(drop))
}

/// The repositories that stacks of a project may read: the same as for its services.
pub(crate) fn stack_limits(project: &Project) -> SourceLimits {
    SourceLimits {
        project: project.name.to_string(),
        repositories: project.limits.repositories.clone(),
        charts_of: None,
    }
}

/// The refusal to forget a state.
pub fn forgets(resources: Option<u64>, serial: u64, version: StateVersionId) -> Error {
    let what = match resources {
        Some(1) => "has 1 resource".to_owned(),
        Some(count) => format!("has {count} resources"),
        None => "is encrypted by the tool and may have resources".to_owned(),
    };
    Error::conflict(format!(
        "the stack's state (serial {serial}) {what}, which the deletion forgets and does not destroy: destroy them with the tool \
         first, or confirm with forget: {version}"
    ))
}
