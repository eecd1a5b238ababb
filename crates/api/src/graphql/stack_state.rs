//! State of stacks: its versions, their content without values, and its lock.

use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_core::access::Actor;
use plural_core::ids::StackRunId;
use plural_core::stack_reported::ReportedResource;
use plural_core::stack_state::{StateChange, StateLock, StateResource, StateVersion};
use plural_specs::Map;

use super::{
    error::{IntoGraphql, List, Nullable, id, id_in, list, nullable},
    limited::{limited, limited_to},
    request::request,
    stack::InfrastructureStack,
};

/// Limit of resources of a state in one answer. Each has a handful of short texts.
const MOST_RESOURCES: usize = 10_000;

/// The holder of a stack's state lock. A lock never expires.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackLock {
    /// The tool's id of the lock, which `force-unlock` asks for.
    id: ID,
    /// The tool's operation.
    operation: String,
    /// The user and the machine that the tool runs as, as it reports them.
    who: String,
    /// Whose credential took it.
    author: String,
    /// Counts the locks of the stack: the holder of an older one can no longer write.
    fence: i64,
    /// When it was taken.
    inserted_at: Option<DateTime<Utc>>,
}

impl From<StateLock> for StackLock {
    fn from(lock: StateLock) -> Self {
        let StateLock { id, info: _, operation, who, author, fence, created_at } = lock;
        Self { id: id.into(), operation, who, author, fence: counted(fence), inserted_at: Some(created_at) }
    }
}

fn counted(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A version of a state.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackStateVersion {
    /// Id.
    id: ID,
    /// Serial: counts the writes of the tool.
    serial: i64,
    /// Lineage: identifies the state from its first version on.
    lineage: String,
    /// SHA-256 of its bytes.
    digest: String,
    /// Size in bytes.
    size: i64,
    /// Number of resource instances; absent if the tool encrypted the state.
    resources: Option<i64>,
    /// Why it was rejected, if it was.
    rejected: Option<String>,
    /// When a user accepted the rejected version.
    accepted_at: Option<DateTime<Utc>>,
    /// Whose credential wrote it.
    author: String,
    /// The request that wrote it.
    request_id: String,
    /// The fencing number of the lock that it was written under; absent without a lock.
    fence: Option<i64>,
    /// When it was written.
    inserted_at: Option<DateTime<Utc>>,
}

impl From<StateVersion> for StackStateVersion {
    fn from(version: StateVersion) -> Self {
        let StateVersion {
            id,
            stack_id: _,
            serial,
            lineage,
            digest,
            size,
            resources,
            rejected,
            accepted_at,
            author,
            request_id,
            fence,
            created_at,
        } = version;
        Self {
            id: id.to_string().into(),
            serial: counted(serial),
            lineage,
            digest: hex::encode(digest),
            size: counted(size),
            resources: resources.map(counted),
            rejected,
            accepted_at,
            author,
            request_id,
            fence: fence.map(counted),
            inserted_at: Some(created_at),
        }
    }
}

/// The content of a state's version, without values; or the plan of a run.
pub(crate) struct StackState(Holds);

enum Holds {
    Version { version: Box<StackStateVersion>, resources: Vec<StackStateResource>, outputs: Vec<String> },
    Plan(StackRunId),
}

impl StackState {
    /// Of a version, with its resources and the names of its outputs.
    pub(crate) fn of_version(
        (version, resources, outputs): (StateVersion, Vec<StateResource>, Vec<String>),
    ) -> Self {
        let resources = resources.into_iter().map(StackStateResource::from).collect();
        Self(Holds::Version { version: Box::new(version.into()), resources, outputs })
    }

    /// Of a run.
    pub(crate) fn of_run(run: StackRunId) -> Self {
        Self(Holds::Plan(run))
    }
}

/// The content of a state's version, without values; or the plan of a run.
#[Object]
impl StackState {
    /// The id of the version, or of the run.
    async fn id(&self) -> ID {
        match &self.0 {
            Holds::Version { version, .. } => version.id.clone(),
            Holds::Plan(run) => run.to_string().into(),
        }
    }

    /// The text of the run's plan, as the tool printed it; the values of secret variables are masked.
    async fn plan(&self, ctx: &Context<'_>) -> Nullable<String> {
        nullable(async {
            let Holds::Plan(run) = &self.0 else { return Ok(None) };
            let request = request(ctx);
            request.app.stack_run_plan_text(&request.op, *run).await.into_graphql(ctx)
        })
        .await
    }

    /// The run's plan in the tool's JSON, without sensitive values.
    async fn plan_json(&self, ctx: &Context<'_>) -> Nullable<Map> {
        nullable(async {
            let Holds::Plan(run) = &self.0 else { return Ok(None) };
            let request = request(ctx);
            let plan = request.app.stack_run_plan_json(&request.op, *run).await.into_graphql(ctx)?;
            Ok(match plan {
                Some(serde_json::Value::Object(plan)) => Some(Map(plan)),
                Some(_) | None => None,
            })
        })
        .await
    }

    /// The version; absent for a run.
    async fn version(&self) -> Option<&StackStateVersion> {
        match &self.0 {
            Holds::Version { version, .. } => Some(version.as_ref()),
            Holds::Plan(_) => None,
        }
    }

    /// Its resources, one for each instance, at most 10 000. For a run, those that the runner of another client reported; absent if it
    /// reported none.
    async fn state(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackStateResource>>> {
        nullable(async {
            let run = match &self.0 {
                Holds::Version { resources, .. } => {
                    return Ok(limited_to(MOST_RESOURCES, ctx, resources.iter().cloned()));
                }
                Holds::Plan(run) => *run,
            };
            let request = request(ctx);
            // The runner itself knows them.
            if !matches!(request.op.actor(), Actor::User(_)) {
                return Ok(None);
            }
            let found = request.app.stack_run_findings(&request.op, run).await.into_graphql(ctx)?;
            let Some(resources) = found.resources else { return Ok(None) };
            Ok(limited(ctx, resources.into_iter().map(StackStateResource::from)))
        })
        .await
    }

    /// The names of its outputs.
    async fn outputs(&self) -> Vec<&str> {
        match &self.0 {
            Holds::Version { outputs, .. } => outputs.iter().map(String::as_str).collect(),
            Holds::Plan(_) => Vec::new(),
        }
    }
}

/// A resource of a state, without its values.
#[derive(Clone, SimpleObject)]
pub(crate) struct StackStateResource {
    /// Its address: `module.a.aws_instance.web["blue"]`.
    identifier: String,
    /// Its type: `aws_instance`.
    resource: String,
    /// Its name: `web`.
    name: String,
    /// Its provider, as the state names it; empty if the runner of another client reported the resource.
    provider: String,
    /// Always absent: values of a state are at `/v1/stacks/ID/state`.
    configuration: Option<Map>,
    /// Addresses of the resources of the state that it depends on directly, without keys of instances:
    /// `module.a.aws_vpc.main`. Absent if the state has too many to tell. For a run, as the runner of another client reported them.
    links: List<String>,
}

impl From<ReportedResource> for StackStateResource {
    fn from(resource: ReportedResource) -> Self {
        let ReportedResource { identifier, kind, name, links } = resource;
        let (provider, configuration) = (String::new(), None);
        Self { identifier, resource: kind, name, provider, configuration, links: list(links) }
    }
}

impl From<StateResource> for StackStateResource {
    fn from(resource: StateResource) -> Self {
        let StateResource { address, kind, name, provider, links } = resource;
        let links = links.and_then(list);
        Self { identifier: address, resource: kind, name, provider, configuration: None, links }
    }
}

/// What happened to a resource between two states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_state::StateChangeKind")]
pub(crate) enum StackStateChangeKind {
    /// Only the second state has it.
    Added,
    /// Only the first state has it.
    Removed,
    /// Both have it, with different attributes.
    Changed,
}

/// A difference between two states, without values.
#[derive(SimpleObject)]
pub(crate) struct StackStateChange {
    /// The address of the resource.
    identifier: String,
    /// What happened to it.
    change: StackStateChangeKind,
    /// The names of the attributes that differ.
    attributes: Vec<String>,
}

impl From<StateChange> for StackStateChange {
    fn from(change: StateChange) -> Self {
        let StateChange { address, kind, attributes } = change;
        Self { identifier: address, change: kind.into(), attributes }
    }
}

/// Reading states without their values; with values they are at `/v1/stacks/ID/state`.
#[derive(Default)]
pub(crate) struct StackStateQuery;

/// Reading states without their values; with values they are at `/v1/stacks/ID/state`.
#[Object]
impl StackStateQuery {
    /// The content of a stack's state, without values.
    async fn stack_state(
        &self,
        ctx: &Context<'_>,
        stack_id: ID,
        #[graphql(desc = "The id of a version; else the one that counts.")] version: Option<ID>,
    ) -> Nullable<StackState> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack_id).into_graphql(ctx)?;
            let version = id_in("version", version.as_deref()).into_graphql(ctx)?;
            let listed = request.app.stack_state_listed(&request.op, stack, version).await;
            Ok(Some(StackState::of_version(listed.into_graphql(ctx)?)))
        })
        .await
    }

    /// The difference between two versions of a stack's state: addresses and names of attributes, no values.
    async fn stack_state_diff(
        &self,
        ctx: &Context<'_>,
        stack_id: ID,
        #[graphql(desc = "The id of the earlier version.")] from: ID,
        #[graphql(desc = "The id of the later version.")] to: ID,
    ) -> Nullable<Vec<Option<StackStateChange>>> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack_id).into_graphql(ctx)?;
            let both = (id(&from).into_graphql(ctx)?, id(&to).into_graphql(ctx)?);
            let changes = request.app.stack_state_diff(&request.op, stack, both).await.into_graphql(ctx)?;
            Ok(limited(ctx, changes.into_iter().map(StackStateChange::from)))
        })
        .await
    }
}

/// Changing states by hand.
#[derive(Default)]
pub(crate) struct StackStateMutation;

/// Changing states by hand.
#[Object]
impl StackStateMutation {
    /// Makes an earlier or a rejected version the stack's state, under the next serial. Refused while the state is locked.
    async fn restore_stack_state(
        &self,
        ctx: &Context<'_>,
        stack_id: ID,
        #[graphql(desc = "The id of the version.")] version: ID,
    ) -> Nullable<InfrastructureStack> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack_id).into_graphql(ctx)?;
            let version = id(&version).into_graphql(ctx)?;
            let restored = request.app.stack_state_restore(&request.op, stack, version).await;
            Ok(Some(restored.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Releases the lock of a stack's state, whoever holds it. Later writes of its tool are stored as rejected versions.
    async fn force_unlock_stack(
        &self,
        ctx: &Context<'_>,
        stack_id: ID,
        #[graphql(desc = "The id of the lock.")] lock: ID,
    ) -> Nullable<InfrastructureStack> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack_id).into_graphql(ctx)?;
            let unlocked = request.app.stack_state_force_unlock(&request.op, stack, &lock).await;
            Ok(Some(unlocked.into_graphql(ctx)?.into()))
        })
        .await
    }
}
