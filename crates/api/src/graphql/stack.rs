//! Infrastructure stacks: what they are made of, and what is known of their state.

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

/// Infrastructure that a tool keeps, and whose state the console holds at `/v1/stacks/ID/state`.
pub(crate) struct InfrastructureStack(plural_core::stack::Stack);

impl From<plural_core::stack::Stack> for InfrastructureStack {
    fn from(stack: plural_core::stack::Stack) -> Self {
        Self(stack)
    }
}

connection!(InfrastructureStackConnection, InfrastructureStackEdge, InfrastructureStack);

/// Infrastructure that a tool keeps, and whose state the console holds at `/v1/stacks/ID/state`.
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

    /// What keeps it.
    #[graphql(name = "type")]
    async fn kind(&self) -> StackType {
        self.0.tool.into()
    }

    /// Where it belongs.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// In whose name its applies ask the console; absent: in nobody's.
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

    /// How its newest run stands that was neither a dry run nor a look for drift; absent before the first one.
    async fn status(&self) -> Option<StackStatus> {
        self.0.status.map(Into::into)
    }

    /// Neither commits nor the clock nor changes of the stack make runs.
    async fn paused(&self) -> bool {
        self.0.paused
    }

    /// The repository of its code; absent when you may not see it, and of a stack that has a state and no runs.
    async fn repository(&self, ctx: &Context<'_>) -> Nullable<GitRepository> {
        nullable(async {
            let Some(source) = &self.0.source else { return Ok(None) };
            by_id::<plural_core::repository::Repository, _>(ctx, source.repository_id).await
        })
        .await
    }

    /// Where in the repository.
    async fn git(&self) -> Option<GitRef> {
        self.0.source.as_ref().map(|source| source.git.clone().into())
    }

    /// The cluster whose agent starts the Jobs of its runs; absent when you may not see it.
    async fn cluster(&self, ctx: &Context<'_>) -> Nullable<Cluster> {
        nullable(async {
            let Some(source) = &self.0.source else { return Ok(None) };
            by_id::<plural_core::cluster::Cluster, _>(ctx, source.cluster_id).await
        })
        .await
    }

    /// How often its code is looked at; absent: as often as the console fetches the repository.
    async fn interval(&self) -> Option<String> {
        self.0.follow.interval_seconds.map(|seconds| format!("{seconds}s"))
    }

    /// The connection to a git host through which its pull requests are planned; absent: each one that may touch the repository, or when you
    /// may not see it.
    async fn connection(&self, ctx: &Context<'_>) -> Nullable<ScmConnection> {
        nullable(by_id::<plural_core::scm_connection::ScmConnection, _>(ctx, self.0.follow.connection_id))
            .await
    }

    /// The commit that was applied last.
    async fn sha(&self) -> Option<&str> {
        self.0.sha.as_deref()
    }

    /// When a run last applied all of it.
    async fn last_successful_at(&self) -> Option<DateTime<Utc>> {
        self.0.last_successful_at
    }

    /// Why its code cannot be read, if it cannot.
    async fn source_error(&self) -> Option<&str> {
        self.0.source_error.as_deref()
    }

    /// Since when it is to be destroyed and deleted.
    async fn deleted_at(&self) -> Option<DateTime<Utc>> {
        self.0.deleted_at
    }

    /// Who last changed what it is made of.
    async fn changed_by(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(by_id::<plural_core::user::User, _>(ctx, self.0.changed_by)).await
    }

    /// A plan with changes waits for people.
    async fn approval(&self) -> Option<bool> {
        Some(self.0.spec.approval.required)
    }

    /// How many people have to agree to a plan.
    async fn required_approvals(&self) -> i32 {
        counted(self.0.spec.approval.approvers.max(1).into())
    }

    /// Whoever started a run, last changed the stack, or wrote, committed or merged code that the run applies is none of them.
    async fn forbid_self_approval(&self) -> bool {
        self.0.spec.approval.forbid_self
    }

    /// A plan that waits and its approvals end after this time; absent: never.
    async fn approval_expiry(&self) -> Option<String> {
        time(self.0.spec.approval.expires_seconds)
    }

    /// Where plans wait for approval, commands that somebody runs on demand wait, too, all of them.
    async fn command_approval(&self) -> bool {
        self.0.spec.approval.commands
    }

    /// Commands of a run that take longer than this are ended; absent: after one hour.
    async fn timeout(&self) -> Option<String> {
        time(self.0.spec.timeout_seconds)
    }

    /// The console keeps the state of the tool, and gives each run the address of it.
    async fn manage_state(&self) -> Option<bool> {
        Some(self.0.spec.manage_state)
    }

    /// Folder below that of `git` in which the tool runs.
    async fn workdir(&self) -> Option<&str> {
        Some(self.0.spec.workdir.as_str()).filter(|folder| !folder.is_empty())
    }

    /// Given to the tool in its own way.
    async fn variables(&self) -> Option<Map> {
        Some(Map(self.0.spec.variables.clone()))
    }

    /// Settings of the tool.
    async fn configuration(&self) -> StackConfiguration {
        self.0.spec.configuration.clone().into()
    }

    /// The Kubernetes Job of a run, as far as the stack itself says it: the rest its project says, and the installation.
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

    /// What gives a `CUSTOM` stack its commands, in place of its own.
    async fn definition(&self, ctx: &Context<'_>) -> Nullable<StackDefinition> {
        nullable(by_id::<plural_core::stack_definition::StackDefinition, _>(ctx, self.0.spec.definition_id))
            .await
    }

    /// Files of its runs, without what is in them.
    async fn files(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackFile>>> {
        nullable(async {
            let request = request(ctx);
            let shown = request.app.stack_inputs_shown(&request.op, self.0.id).await;
            let (_, paths) = shown.into_graphql(ctx)?;
            Ok(limited(ctx, paths.into_iter().map(|path| StackFile { path, content: String::new() })))
        })
        .await
    }

    /// Variables of the environment of its runs; the values of secret ones are empty.
    async fn environment(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackEnvironment>>> {
        nullable(async {
            let request = request(ctx);
            let shown = request.app.stack_inputs_shown(&request.op, self.0.id).await;
            let (variables, _) = shown.into_graphql(ctx)?;
            Ok(limited(ctx, variables.into_iter().map(StackEnvironment::from)))
        })
        .await
    }

    /// What it gives to others. Values that the tool calls sensitive are for those who may read the state.
    async fn output(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackOutput>>> {
        nullable(outputs(ctx, self.0.id)).await
    }

    /// What its state holds, without values; absent before the first one.
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

    /// The stacks that depend on it by themselves, as far as you may see them.
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

    /// When the clock makes runs; absent where it makes none.
    async fn cron(&self) -> Option<StackCron> {
        self.0.spec.cron.clone().map(|cron| StackCron::of(cron, &self.0.watch))
    }

    /// How it is looked at for drift; absent where only somebody who asks looks.
    async fn drift_schedule(&self) -> Option<StackDriftSchedule> {
        self.0.spec.drift.clone().map(|drift| StackDriftSchedule::of(drift, &self.0.watch))
    }

    /// How it stands by what the last look for drift found.
    async fn drift_status(&self) -> StackDriftStatus {
        self.0.watch.status().into()
    }

    /// Since when resources are found that something other than its tool changed; absent where there are none.
    async fn drifted_at(&self) -> Option<DateTime<Utc>> {
        self.0.watch.drifted_at
    }

    /// What is told of the looks for drift; absent before the first one.
    async fn drift_check(&self) -> Option<StackDriftCheck> {
        self.0.watch.drift.clone().map(StackDriftCheck::from)
    }

    /// The resources that something other than its tool changed, as the last good look found them.
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

    /// The open pull requests that reach it, oldest first.
    async fn pull_requests(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackPullRequest>>> {
        nullable(async {
            let request = request(ctx);
            let found = request.app.stack_pull_requests(&request.op, self.0.id).await.into_graphql(ctx)?;
            Ok(limited(ctx, found.into_iter().map(StackPullRequest::from)))
        })
        .await
    }

    /// What checks its plans, besides the rules of its project; absent where nothing else does.
    async fn policy_engine(&self) -> Option<PolicyEngine> {
        self.0.spec.policy.clone().map(PolicyEngine::from)
    }

    /// Who holds its state, if anybody does.
    async fn lock(&self) -> Option<StackLock> {
        self.0.lock.clone().map(StackLock::from)
    }

    /// The version of its state that counts; absent before the first one.
    async fn state_version(&self) -> Option<StackStateVersion> {
        self.0.state.clone().map(StackStateVersion::from)
    }

    /// The versions of its state that are kept, rejected ones too, newest first.
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

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed; its state changes without this.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// A file of the runs of a stack.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackFile {
    /// Where it is written.
    path: String,
    /// Always empty: only runs read it.
    content: String,
}

/// A variable of the environment of the runs of a stack.
#[derive(SimpleObject)]
pub(crate) struct StackEnvironment {
    /// Name.
    name: String,
    /// Value; empty of a secret one.
    value: String,
    /// The value is hidden wherever a run prints it.
    secret: Option<bool>,
}

impl From<InputVariable> for StackEnvironment {
    fn from(variable: InputVariable) -> Self {
        let InputVariable { name, value, secret } = variable;
        Self { name, value: if secret { String::new() } else { value }, secret: Some(secret) }
    }
}

/// What a stack gives to others.
#[derive(SimpleObject)]
pub(crate) struct StackOutput {
    /// Name.
    name: String,
    /// A text as it is, anything else as JSON; empty where you may not see it.
    value: String,
    /// The value as JSON; absent where you may not see it.
    json: Option<String>,
    /// The tool says that it is sensitive.
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

/// What a stack gives to others.
pub(super) async fn outputs(
    ctx: &Context<'_>,
    stack: plural_core::ids::StackId,
) -> async_graphql::Result<List<StackOutput>> {
    let request = request(ctx);
    let found = request.app.stack_outputs(&request.op, stack).await.into_graphql(ctx)?;
    Ok(limited(ctx, found.into_iter().map(StackOutput::from)))
}

/// A time as it is given; absent when it is none.
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
    /// Makes a stack. Bindings of its own need admin access to its project.
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

    /// Changes a stack: what is absent stays as it is. Its bindings need admin access to it.
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

    /// Deletes a stack, for its administrators. One with a source and resources is destroyed first: a run plans that, waits for
    /// approval where the stack asks for it, and the stack goes when the run has done it. One without a source is forgotten, as
    /// `detachStack` does.
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

    /// Deletes a stack with all versions of its state, for its administrators, and destroys nothing: nothing knows any more of what
    /// its state knows of.
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

    /// Takes a stack's deletion back, as long as its destruction has not begun.
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

/// What becomes of what needs a stack that goes.
fn left(leave_dependents: Option<bool>) -> Dependents {
    if leave_dependents == Some(true) { Dependents::Leave } else { Dependents::Refuse }
}
