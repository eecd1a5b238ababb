//! Infrastructure stacks: their settings, and the metadata of their state.

use async_graphql::{Context, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::stack::{Dependents, StackSelector};
use plural_core::policy::Role;
use plural_core::run_call::InputVariable;
use plural_core::stack_run::RunGroup;
use plural_specs::Map;

use super::{
    binding::{PolicyBinding, bindings_of},
    cluster::Cluster,
    error::{IntoGraphql, List, Nullable, id, id_in, id_or_name, items, list, nullable},
    git_repository::GitRepository,
    limited::limited,
    page::{connection, counted, page_args},
    project::Project,
    record::{by_id, one},
    request::request,
    scm_connection::ScmConnection,
    service::GitRef,
    shared::Tag,
    stack_clock::{
        StackCron, StackDriftCheck, StackDriftSchedule, StackDriftStatus, StackDriftedResourceConnection,
    },
    stack_definition::StackDefinition,
    stack_dependency::{StackDependency, dependents},
    stack_input::{StackAttributes, StackType},
    stack_policy::PolicyEngine,
    stack_pull_request::StackPullRequest,
    stack_run::{StackRunConnection, StackRunGroup, StackStatus},
    stack_spec::{CustomRunStep, JobGateSpec, StackConfiguration},
    stack_state::{StackLock, StackState, StackStateVersion},
    user::User,
};

/// Infrastructure that a tool manages, and whose state the console holds at `/v1/stacks/ID/state`.
pub(crate) struct InfrastructureStack(plural_core::stack::Stack);

impl From<plural_core::stack::Stack> for InfrastructureStack {
    fn from(stack: plural_core::stack::Stack) -> Self {
        Self(stack)
    }
}

connection!(InfrastructureStackConnection, InfrastructureStackEdge, InfrastructureStack);

/// Infrastructure that a tool manages, and whose state the console holds at `/v1/stacks/ID/state`.
#[Object]
impl InfrastructureStack {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique name.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// Its tool.
    #[graphql(name = "type")]
    async fn kind(&self) -> StackType {
        self.0.tool.into()
    }

    /// Its project.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// The user or service account as whom its applies call the console; absent: nobody.
    async fn actor(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(by_id::<plural_core::user::User, _>(ctx, self.0.spec.actor)).await
    }

    /// It cannot be deleted.
    async fn protect(&self) -> bool {
        self.0.protect
    }

    /// Names and values by which stacks are grouped and found.
    async fn tags(&self) -> List<Tag> {
        list(self.0.tags.iter().map(|(name, value)| Tag { name: name.clone(), value: value.clone() }))
    }

    /// Status of its newest run other than a dry run or a drift check; absent before the first one.
    async fn status(&self) -> Option<StackStatus> {
        self.0.status.map(Into::into)
    }

    /// Neither commits nor the schedule nor changes of the stack start runs.
    async fn paused(&self) -> bool {
        self.0.paused
    }

    /// The repository of its code; absent if you may not see it, and for a stack with a state and no runs.
    async fn repository(&self, ctx: &Context<'_>) -> Nullable<GitRepository> {
        nullable(async {
            let Some(source) = &self.0.source else { return Ok(None) };
            by_id::<plural_core::repository::Repository, _>(ctx, source.repository_id).await
        })
        .await
    }

    /// Revision and folder in the repository.
    async fn git(&self) -> Option<GitRef> {
        self.0.source.as_ref().map(|source| source.git.clone().into())
    }

    /// The cluster whose agent starts the Jobs of its runs; absent if you may not see it.
    async fn cluster(&self, ctx: &Context<'_>) -> Nullable<Cluster> {
        nullable(async {
            let Some(source) = &self.0.source else { return Ok(None) };
            by_id::<plural_core::cluster::Cluster, _>(ctx, source.cluster_id).await
        })
        .await
    }

    /// Interval of polls of its code; absent: each fetch of the repository.
    async fn interval(&self) -> Option<String> {
        self.0.follow.interval_seconds.map(|seconds| format!("{seconds}s"))
    }

    /// The connection to the git host for plans of its pull requests; absent: each one that may touch the repository, or if you
    /// may not see it.
    async fn connection(&self, ctx: &Context<'_>) -> Nullable<ScmConnection> {
        nullable(by_id::<plural_core::scm_connection::ScmConnection, _>(ctx, self.0.follow.connection_id))
            .await
    }

    /// The last applied commit.
    async fn sha(&self) -> Option<&str> {
        self.0.sha.as_deref()
    }

    /// When a run last succeeded in applying it.
    async fn last_successful_at(&self) -> Option<DateTime<Utc>> {
        self.0.last_successful_at
    }

    /// Why its code cannot be read, if it cannot.
    async fn source_error(&self) -> Option<&str> {
        self.0.source_error.as_deref()
    }

    /// Since when it is being destroyed and deleted.
    async fn deleted_at(&self) -> Option<DateTime<Utc>> {
        self.0.deleted_at
    }

    /// Who last changed its inputs.
    async fn changed_by(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(by_id::<plural_core::user::User, _>(ctx, self.0.changed_by)).await
    }

    /// A plan with changes waits for approval.
    async fn approval(&self) -> Option<bool> {
        Some(self.0.spec.approval.required)
    }

    /// How many people have to approve a plan.
    async fn required_approvals(&self) -> i32 {
        counted(self.0.spec.approval.approvers.max(1).into())
    }

    /// Whoever started a run, last changed the stack, or wrote, committed or merged code of the run may not approve it.
    async fn forbid_self_approval(&self) -> bool {
        self.0.spec.approval.forbid_self
    }

    /// A waiting plan and its approvals expire after this time; absent: never.
    async fn approval_expiry(&self) -> Option<String> {
        time(self.0.spec.approval.expires_seconds)
    }

    /// If plans wait for approval, all commands that users run on demand wait as well.
    async fn command_approval(&self) -> bool {
        self.0.spec.approval.commands
    }

    /// Time limit of a run's commands; absent: one hour.
    async fn timeout(&self) -> Option<String> {
        time(self.0.spec.timeout_seconds)
    }

    /// The console holds the state of the tool, and gives its address to each run.
    async fn manage_state(&self) -> Option<bool> {
        Some(self.0.spec.manage_state)
    }

    /// Working folder of the tool, below the folder of `git`.
    async fn workdir(&self) -> Option<&str> {
        Some(self.0.spec.workdir.as_str()).filter(|folder| !folder.is_empty())
    }

    /// Variables for the tool, passed in its own way.
    async fn variables(&self) -> Option<Map> {
        Some(Map(self.0.spec.variables.clone()))
    }

    /// Settings of the tool.
    async fn configuration(&self) -> StackConfiguration {
        self.0.spec.configuration.clone().into()
    }

    /// The stack's own settings of a run's Kubernetes Job: the rest comes from its project and the installation.
    async fn job_spec(&self) -> Option<JobGateSpec> {
        Some(self.0.spec.job.clone().into())
    }

    /// Commands of a `CUSTOM` stack.
    async fn commands(&self) -> List<CustomRunStep> {
        list(self.0.spec.commands.iter().cloned().map(CustomRunStep::from))
    }

    /// The commands that undo a `CUSTOM` stack.
    async fn delete_commands(&self) -> List<CustomRunStep> {
        list(self.0.spec.delete_commands.iter().cloned().map(CustomRunStep::from))
    }

    /// The definition that a `CUSTOM` stack takes its commands from, instead of its own.
    async fn definition(&self, ctx: &Context<'_>) -> Nullable<StackDefinition> {
        nullable(by_id::<plural_core::stack_definition::StackDefinition, _>(ctx, self.0.spec.definition_id))
            .await
    }

    /// Files of its runs, without their content.
    async fn files(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackFile>>> {
        nullable(async {
            let request = request(ctx);
            let shown = request.app.stack_inputs_shown(&request.op, self.0.id).await;
            let (_, paths) = shown.into_graphql(ctx)?;
            Ok(limited(ctx, paths.into_iter().map(|path| StackFile { path, content: String::new() })))
        })
        .await
    }

    /// Environment variables of its runs; the values of secret ones are empty.
    async fn environment(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackEnvironment>>> {
        nullable(async {
            let request = request(ctx);
            let shown = request.app.stack_inputs_shown(&request.op, self.0.id).await;
            let (variables, _) = shown.into_graphql(ctx)?;
            Ok(limited(ctx, variables.into_iter().map(StackEnvironment::from)))
        })
        .await
    }

    /// Its outputs. Values that the tool marks as sensitive are for users who may read the state.
    async fn output(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackOutput>>> {
        nullable(outputs(ctx, self.0.id)).await
    }

    /// The content of its state, without values; absent before the first one.
    async fn state(&self, ctx: &Context<'_>) -> Nullable<StackState> {
        nullable(async {
            if self.0.state.is_none() {
                return Ok(None);
            }
            let request = request(ctx);
            let listed = request.app.stack_state_listed(&request.op, self.0.id, None).await;
            Ok(Some(StackState::of_version(listed.into_graphql(ctx)?)))
        })
        .await
    }

    /// The stacks that it depends on, and what it takes from them.
    async fn dependencies(&self, ctx: &Context<'_>) -> List<StackDependency> {
        limited(ctx, self.0.spec.dependencies.iter().cloned().map(StackDependency::from))
    }

    /// The stacks that depend on it directly, as far as you may see them.
    async fn dependents(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<InfrastructureStack>>> {
        nullable(dependents(ctx, self.0.id)).await
    }

    /// Its runs, newest first.
    async fn runs(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Those that are of one of these; absent or empty: all.")] of: List<StackRunGroup>,
    ) -> Nullable<StackRunConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last).request().into_graphql(ctx)?;
            let of: Vec<RunGroup> = items(of).unwrap_or_default().into_iter().map(Into::into).collect();
            let runs = request.app.stack_runs(&request.op, self.0.id, &of, &page).await;
            Ok(Some(runs.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// The schedule of its runs; absent if there is none.
    async fn cron(&self) -> Option<StackCron> {
        self.0.spec.cron.clone().map(|cron| StackCron::of(cron, &self.0.watch))
    }

    /// The settings of its drift detection; absent if it only runs on request.
    async fn drift_schedule(&self) -> Option<StackDriftSchedule> {
        self.0.spec.drift.clone().map(|drift| StackDriftSchedule::of(drift, &self.0.watch))
    }

    /// Its drift status, as of the last check.
    async fn drift_status(&self) -> StackDriftStatus {
        self.0.watch.status().into()
    }

    /// Since when drift is found; absent if there is none.
    async fn drifted_at(&self) -> Option<DateTime<Utc>> {
        self.0.watch.drifted_at
    }

    /// The results of its drift checks; absent before the first one.
    async fn drift_check(&self) -> Option<StackDriftCheck> {
        self.0.watch.drift.clone().map(StackDriftCheck::from)
    }

    /// The resources that something other than its tool changed, as of the last successful check.
    async fn drift(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<StackDriftedResourceConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last).request().into_graphql(ctx)?;
            let found = request.app.stack_drift(&request.op, self.0.id, &page).await;
            Ok(Some(found.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// The open pull requests that affect it, oldest first.
    async fn pull_requests(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackPullRequest>>> {
        nullable(async {
            let request = request(ctx);
            let found = request.app.stack_pull_requests(&request.op, self.0.id).await.into_graphql(ctx)?;
            Ok(limited(ctx, found.into_iter().map(StackPullRequest::from)))
        })
        .await
    }

    /// The policy that checks its plans, besides the rules of its project; absent if there is none.
    async fn policy_engine(&self) -> Option<PolicyEngine> {
        self.0.spec.policy.clone().map(PolicyEngine::from)
    }

    /// The lock of its state, if any.
    async fn lock(&self) -> Option<StackLock> {
        self.0.lock.clone().map(StackLock::from)
    }

    /// The current version of its state; absent before the first one.
    async fn state_version(&self) -> Option<StackStateVersion> {
        self.0.state.clone().map(StackStateVersion::from)
    }

    /// The stored versions of its state, including rejected ones, newest first.
    async fn state_versions(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackStateVersion>>> {
        nullable(async {
            let request = request(ctx);
            let found = request.app.stack_state_versions(&request.op, self.0.id).await.into_graphql(ctx)?;
            Ok(limited(ctx, found.into_iter().map(StackStateVersion::from)))
        })
        .await
    }

    /// Who may read it, besides those of its project.
    async fn read_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.0.id.into(), Role::Read)).await
    }

    /// Who may change it and its state, besides those of its project.
    async fn write_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.0.id.into(), Role::Write)).await
    }

    /// When it was created.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed; a new state does not count.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// A file of the runs of a stack.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackFile {
    /// Its path.
    path: String,
    /// Always empty: only runs read it.
    content: String,
}

/// An environment variable of the runs of a stack.
#[derive(SimpleObject)]
pub(crate) struct StackEnvironment {
    /// Name.
    name: String,
    /// Value; empty if it is secret.
    value: String,
    /// The value is masked in the output of runs.
    secret: Option<bool>,
}

impl From<InputVariable> for StackEnvironment {
    fn from(variable: InputVariable) -> Self {
        let InputVariable { name, value, secret } = variable;
        Self { name, value: if secret { String::new() } else { value }, secret: Some(secret) }
    }
}

/// An output of a stack.
#[derive(SimpleObject)]
pub(crate) struct StackOutput {
    /// Name.
    name: String,
    /// A text as it is, anything else as JSON; empty if you may not see it.
    value: String,
    /// The value as JSON; absent if you may not see it.
    json: Option<String>,
    /// The tool marks it as sensitive.
    secret: Option<bool>,
}

impl From<plural_core::stack_run::StackOutput> for StackOutput {
    fn from(output: plural_core::stack_run::StackOutput) -> Self {
        let plural_core::stack_run::StackOutput { name, value, secret } = output;
        let json = value.as_ref().map(ToString::to_string);
        let value = match value {
            Some(serde_json::Value::String(text)) => text,
            Some(value) => value.to_string(),
            None => String::new(),
        };
        Self { name, value, json, secret: Some(secret) }
    }
}

/// The outputs of a stack.
pub(super) async fn outputs(
    ctx: &Context<'_>,
    stack: plural_core::ids::StackId,
) -> async_graphql::Result<List<StackOutput>> {
    let request = request(ctx);
    let found = request.app.stack_outputs(&request.op, stack).await.into_graphql(ctx)?;
    Ok(limited(ctx, found.into_iter().map(StackOutput::from)))
}

/// Parses a time; absent if it is invalid.
fn time(seconds: u64) -> Option<String> {
    (seconds > 0).then(|| format!("{seconds}s"))
}

/// Reading stacks.
#[derive(Default)]
pub(crate) struct StackQuery;

/// Reading stacks.
#[Object]
impl StackQuery {
    /// One stack, by its id or its name.
    async fn infrastructure_stack(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] stack: Option<ID>,
        name: Option<String>,
    ) -> Nullable<InfrastructureStack> {
        let by = id_or_name(stack, name, StackSelector::Id, StackSelector::Name);
        one::<plural_core::stack::Stack, _>(ctx, by).await
    }
}

/// Changing stacks.
#[derive(Default)]
pub(crate) struct StackMutation;

/// Changing stacks.
#[Object]
impl StackMutation {
    /// Creates a stack. Bindings of its own need admin access to its project.
    async fn create_stack(
        &self,
        ctx: &Context<'_>,
        attributes: StackAttributes,
    ) -> Nullable<InfrastructureStack> {
        nullable(async {
            let request = request(ctx);
            let new = attributes.new_stack().into_graphql(ctx)?;
            Ok(Some(Box::pin(request.app.stack_create(&request.op, new)).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Updates a stack: what is absent stays as it is. Its bindings need admin access to it.
    async fn update_stack(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] stack: ID,
        attributes: StackAttributes,
    ) -> Nullable<InfrastructureStack> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack).into_graphql(ctx)?;
            let is =
                request.app.get::<plural_core::stack::Stack>(&request.op, &StackSelector::Id(stack)).await;
            let change = attributes.change(&is.into_graphql(ctx)?).into_graphql(ctx)?;
            Ok(Some(
                Box::pin(request.app.stack_update(&request.op, stack, &change))
                    .await
                    .into_graphql(ctx)?
                    .into(),
            ))
        })
        .await
    }

    /// Deletes a stack, for its administrators. A stack with a source and resources is destroyed first: a run plans that, waits for
    /// approval if the stack requires it, and the stack is deleted when the run has succeeded. A stack without a source is deleted, and
    /// nothing is destroyed, as with `detachStack`.
    async fn delete_stack(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] stack: ID,
        #[graphql(
            desc = "Of a stack without a source whose state has resources, the id of its version: you know what nothing knows of any more."
        )]
        forget: Option<ID>,
        #[graphql(
            desc = "Stacks that depend on it, and services and contexts that import its outputs, do not keep it: they are left without what they take. Otherwise it is refused while there are any."
        )]
        leave_dependents: Option<bool>,
    ) -> Nullable<InfrastructureStack> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack).into_graphql(ctx)?;
            let forget = id_in("forget", forget.as_deref()).into_graphql(ctx)?;
            let deleted = request.app.stack_delete(&request.op, stack, forget, left(leave_dependents));
            Ok(Some(Box::pin(deleted).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes a stack with all versions of its state, for its administrators, and destroys nothing: nothing manages its resources
    /// any more.
    async fn detach_stack(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] stack: ID,
        #[graphql(
            desc = "Where the state has resources, the id of its version: you know what nothing knows of any more."
        )]
        forget: Option<ID>,
        #[graphql(
            desc = "Stacks that depend on it, and services and contexts that import its outputs, do not keep it: they are left without what they take. Otherwise it is refused while there are any."
        )]
        leave_dependents: Option<bool>,
    ) -> Nullable<InfrastructureStack> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack).into_graphql(ctx)?;
            let forget = id_in("forget", forget.as_deref()).into_graphql(ctx)?;
            let detached = request.app.stack_detach(&request.op, stack, forget, left(leave_dependents));
            Ok(Some(Box::pin(detached).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Cancels the deletion of a stack, if its destruction has not begun.
    async fn restore_stack(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] stack: ID,
    ) -> Nullable<InfrastructureStack> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack).into_graphql(ctx)?;
            Ok(Some(Box::pin(request.app.stack_restore(&request.op, stack)).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}

/// How a deletion treats the dependents of a stack.
fn left(leave_dependents: Option<bool>) -> Dependents {
    if leave_dependents == Some(true) { Dependents::Leave } else { Dependents::Refuse }
}
