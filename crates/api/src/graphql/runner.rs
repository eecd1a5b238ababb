//! Operations for the runners of other clients: the Job of a run by its credential, an agent by its deploy token, and what the commands of a run ask in
//! the name of its actor. To each of them every other operation is what it is to somebody unknown.

use async_graphql::{
    Context, ID, InputObject, Object, Request as GraphQlRequest,
    parser::types::{ExecutableDocument, Selection},
};
use plural_app::agent::AgentHandle;
use plural_app::harness::HarnessHandle;
use plural_app::runner::{JobSays, PlanSays};
use plural_core::access::Actor;
use plural_core::ids::StackRunId;
use plural_core::run_call::{MAX_LOG_CHUNK, OutputReport};
use plural_core::stack_run::JobRef;
use plural_core::{Error, Result};
use secrecy::SecretString;

use super::{
    error::{IntoGraphql, List, Nullable, id, items, nullable},
    page::page_args,
    rendering_input::NamespacedName,
    request::{Request, request},
    runner_found::{
        StackInfracostResourceAttributes, StackPolicyViolationAttributes, StackStateResourceAttributes, found,
    },
    stack_run::{StackRun, StackRunConnection, StackStatus},
    stack_run_step::{RunLogs, RunStep, StepStatus},
};

/// What the Job of a run asks.
const JOB: [&str; 6] =
    ["__typename", "stackRun", "updateStackRun", "completeStackRun", "updateRunStep", "addRunLogs"];
/// What an agent asks.
const AGENT: [&str; 4] = ["__typename", "clusterStackRuns", "stackRun", "updateStackRun"];
/// What the commands of a run ask in the name of its actor: reads of single things, and contexts.
const ACTOR: [&str; 8] = [
    "__typename",
    "project",
    "cluster",
    "infrastructureStack",
    "stackRun",
    "serviceContext",
    "saveServiceContext",
    "deleteServiceContext",
];
/// Errors of one call that are told.
const MAX_ERRORS: usize = 50;

/// By what a runner is known: the text of its credential.
pub(crate) struct RunnerToken(pub(crate) Option<SecretString>);

/// Whether all that a request asks is for whoever asks.
pub(crate) fn opens(actor: &Actor, request: &mut GraphQlRequest) -> bool {
    let fields: &[&str] = match actor {
        Actor::Run(_) => &JOB,
        Actor::Cluster(_) => &AGENT,
        Actor::User(_) if actor.run_project().is_some() => &ACTOR,
        Actor::User(_) | Actor::Nobody | Actor::Registration(_) | Actor::System => return true,
    };
    request.parsed_query().is_ok_and(|document| asks_only(document, fields))
}

fn asks_only(document: &ExecutableDocument, fields: &[&str]) -> bool {
    document.operations.iter().all(|(_, operation)| {
        operation.node.selection_set.node.items.iter().all(|item| match &item.node {
            Selection::Field(field) => fields.contains(&field.node.name.node.as_str()),
            // Clients write the operations themselves.
            Selection::FragmentSpread(_) | Selection::InlineFragment(_) => false,
        })
    })
}

/// Who runs.
pub(crate) enum Runner {
    /// The Job of a run.
    Job(Box<HarnessHandle>),
    /// The agent of its cluster.
    Agent(AgentHandle),
}

/// The runner that asks; nobody else is told more than that they are unknown.
pub(crate) async fn runner(ctx: &Context<'_>, request: &Request) -> Result<Runner> {
    let Some(RunnerToken(Some(token))) = ctx.data_opt::<RunnerToken>() else {
        return Err(Error::Unauthenticated);
    };
    match request.op.actor() {
        Actor::Run(_) => Ok(Runner::Job(Box::new(request.app.runner_authenticate(token).await?))),
        Actor::Cluster(_) => {
            let text = secrecy::ExposeSecret::expose_secret(token);
            Ok(Runner::Agent(request.app.agent_authenticate(text)?))
        }
        Actor::User(_) | Actor::Nobody | Actor::Registration(_) | Actor::System => {
            Err(Error::Unauthenticated)
        }
    }
}

/// The Job of this run, where it is that which asks.
pub(crate) async fn job(ctx: &Context<'_>, run: StackRunId) -> Option<HarnessHandle> {
    match runner(ctx, request(ctx)).await {
        Ok(Runner::Job(by)) if by.id() == run => Some(*by),
        Ok(Runner::Job(_) | Runner::Agent(_)) | Err(_) => None,
    }
}

/// How far a run is, as its runner says.
#[derive(Debug, InputObject)]
pub(crate) struct StackRunAttributes {
    /// How far. What is for the console to conclude is refused.
    status: StackStatus,
    /// Where the Job is; an agent says it.
    job_ref: Option<NamespacedName>,
    /// What it planned, of tools without plan files: CUSTOM and ANSIBLE. Of others a plan is refused: its parts are uploaded at `/v1/runs`. And the
    /// resources that there are.
    state: Option<StackStateAttributes>,
    /// The outputs, after an apply.
    output: List<StackOutputAttributes>,
    /// Why it ended so.
    errors: List<ServiceErrorAttributes>,
    /// Why it was cancelled.
    cancellation_reason: Option<String>,
    /// What its plan does against rules, as a program in the Job says: while it plans.
    violations: List<StackPolicyViolationAttributes>,
    /// What its plan would cost, as a program in the Job says: while it plans. It takes the place of what was said before.
    infracost_resources: List<StackInfracostResourceAttributes>,
}

/// A plan, and resources.
#[derive(Debug, InputObject)]
pub(crate) struct StackStateAttributes {
    /// As text.
    plan: Option<String>,
    /// As JSON.
    plan_json: Option<plural_specs::Json>,
    /// The resources that there are; takes the place of what was said before. At most 5 000, and 1 MiB.
    state: List<StackStateResourceAttributes>,
}

/// An output of a stack.
#[derive(InputObject)]
pub(crate) struct StackOutputAttributes {
    /// Name.
    name: String,
    /// Value: JSON, or a text.
    value: String,
    /// It is not shown.
    secret: Option<bool>,
}

impl std::fmt::Debug for StackOutputAttributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackOutputAttributes").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What went wrong.
#[derive(Debug, InputObject)]
pub(crate) struct ServiceErrorAttributes {
    /// Where.
    source: String,
    /// In words.
    message: String,
    /// It stops nothing.
    warning: Option<bool>,
}

/// How far a step is, as its runner says.
#[derive(Debug, InputObject)]
pub(crate) struct RunStepAttributes {
    /// How far.
    status: StepStatus,
}

/// More of a log.
#[derive(InputObject)]
pub(crate) struct RunLogAttributes {
    /// What the command printed since.
    logs: String,
}

impl StackRunAttributes {
    /// What a Job says, and where an agent says that it is.
    fn sorted(self) -> Result<(JobSays, Option<JobRef>)> {
        let Self {
            status,
            job_ref,
            state,
            output,
            errors,
            cancellation_reason,
            violations,
            infracost_resources,
        } = self;
        let (plan, plan_json, resources) = match state {
            None => (None, None, None),
            Some(StackStateAttributes { plan, plan_json, state }) => (plan, plan_json, state),
        };
        let found = found(violations, infracost_resources, resources)?;
        let plan = match (plan, plan_json) {
            (None, None) => None,
            (Some(text), json) => {
                let json = json.map(|json| json.0.to_string().into_bytes());
                Some(PlanSays { text, json })
            }
            (None, Some(_)) => {
                return Err(Error::invalid("attributes.state.plan", "must be there: people read it"));
            }
        };
        let outputs = items(output).map(|all| {
            let output = |StackOutputAttributes { name, value, secret }| OutputReport {
                name,
                value: serde_json::from_str(&value).unwrap_or(serde_json::Value::String(value)),
                secret: secret.unwrap_or_default(),
            };
            all.into_iter().map(output).collect()
        });
        let told: Vec<String> = items(errors)
            .unwrap_or_default()
            .into_iter()
            .filter(|error| error.warning != Some(true))
            .take(MAX_ERRORS)
            .map(|ServiceErrorAttributes { source, message, warning: _ }| format!("{source}: {message}"))
            .chain(cancellation_reason)
            .collect();
        let error = (!told.is_empty()).then(|| told.join("; "));
        let job = job_ref.map(|NamespacedName { name, namespace }| JobRef { namespace, name });
        if job.as_ref().is_some_and(|job| job.name.len() > 253 || job.namespace.len() > 253) {
            return Err(Error::invalid("attributes.jobRef", "must have names of at most 253 bytes"));
        }
        Ok((JobSays { status: status.into(), plan, found, error, outputs }, job))
    }
}

/// What an agent of another client reads.
#[derive(Default)]
pub(crate) struct RunnerQuery;

/// What an agent of another client reads.
#[Object]
impl RunnerQuery {
    /// The runs that a cluster is to have Jobs of: to its agent, by its deploy token.
    async fn cluster_stack_runs(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<StackRunConnection> {
        nullable(async {
            let request = request(ctx);
            let Runner::Agent(agent) = runner(ctx, request).await.into_graphql(ctx)? else {
                return Err(Error::Unauthenticated).into_graphql(ctx);
            };
            let page = page_args(after, first, before, last).request().into_graphql(ctx)?;
            Ok(Some(request.app.agent_run_list(&agent, &page).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}

/// What runners of other clients say.
#[derive(Default)]
pub(crate) struct RunnerMutation;

/// What runners of other clients say.
#[Object]
impl RunnerMutation {
    /// How far a run is: to its own Job, by the credential of the run, and to the agent of its cluster.
    async fn update_stack_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] run: ID,
        attributes: StackRunAttributes,
    ) -> Nullable<StackRun> {
        nullable(async {
            let request = request(ctx);
            let by = runner(ctx, request).await.into_graphql(ctx)?;
            let run: StackRunId = id(&run).into_graphql(ctx)?;
            let (says, job) = attributes.sorted().into_graphql(ctx)?;
            let moved = match by {
                Runner::Job(by) if by.id() == run => Box::pin(request.app.runner_says(&by, says)).await,
                Runner::Job(_) => Err(Error::Unauthenticated),
                Runner::Agent(agent) => {
                    let JobSays { status, plan: _, found: _, error, outputs: _ } = says;
                    Box::pin(request.app.agent_run_says(&agent, run, (status, error), job)).await
                }
            };
            Ok(Some(moved.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// How the Job of a run ended: to that Job, by the credential of the run. What follows is the console's to say.
    async fn complete_stack_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] run: ID,
        attributes: StackRunAttributes,
    ) -> Nullable<StackRun> {
        nullable(async {
            let request = request(ctx);
            let by = own_job(ctx, request).await.into_graphql(ctx)?;
            let run: StackRunId = id(&run).into_graphql(ctx)?;
            if by.id() != run {
                return Err(Error::Unauthenticated).into_graphql(ctx);
            }
            let (says, _) = attributes.sorted().into_graphql(ctx)?;
            let moved = Box::pin(request.app.runner_completes(&by, says)).await;
            Ok(Some(moved.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// How far a command of a run is: to the Job of the run, by its credential.
    async fn update_run_step(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] step: ID,
        attributes: RunStepAttributes,
    ) -> Nullable<RunStep> {
        nullable(async {
            let request = request(ctx);
            let by = own_job(ctx, request).await.into_graphql(ctx)?;
            let step = id(&step).into_graphql(ctx)?;
            let RunStepAttributes { status } = attributes;
            Ok(Some(request.app.runner_step(&by, step, status.into()).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// More of what a command of a run printed: to the Job of the run, by its credential. At most 64 KiB at once.
    async fn add_run_logs(
        &self,
        ctx: &Context<'_>,
        step_id: ID,
        attributes: RunLogAttributes,
    ) -> Nullable<RunLogs> {
        nullable(async {
            let request = request(ctx);
            let by = own_job(ctx, request).await.into_graphql(ctx)?;
            let step = id(&step_id).into_graphql(ctx)?;
            let RunLogAttributes { logs } = attributes;
            if logs.len() > MAX_LOG_CHUNK {
                let told = format!("must not exceed {} KiB", MAX_LOG_CHUNK >> 10);
                return Err(Error::invalid("attributes.logs", told)).into_graphql(ctx);
            }
            request.app.runner_logs(&by, step, logs).await.into_graphql(ctx)?;
            Ok(Some(RunLogs::kept(request.op.now())))
        })
        .await
    }
}

async fn own_job(ctx: &Context<'_>, request: &Request) -> Result<HarnessHandle> {
    match runner(ctx, request).await? {
        Runner::Job(by) => Ok(*by),
        Runner::Agent(_) => Err(Error::Unauthenticated),
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;

    use super::*;

    #[test]
    fn a_runner_asks_what_is_for_it_and_nothing_beside() {
        let (job, agent, actor) = (JOB.as_slice(), AGENT.as_slice(), ACTOR.as_slice());
        for (document, fields, is_so) in [
            ("{ stackRun(id: 1) { id } }", job, true),
            ("{ __typename a: stackRun(id: 1) { stack { name } } }", job, true),
            ("{ me { id } }", job, false),
            ("{ stackRun(id: 1) { id } me { id } }", job, false),
            ("{ stackRun: me { id } }", job, false),
            ("{ ... on RootQueryType { me { id } } }", job, false),
            ("{ ...f } fragment f on RootQueryType { me { id } }", job, false),
            ("query A { stackRun(id: 1) { id } } query B { me { id } }", job, false),
            ("{ clusterStackRuns(first: 1) { edges { node { id } } } }", job, false),
            ("{ clusterStackRuns(first: 1) { edges { node { id } } } }", agent, true),
            ("mutation { completeStackRun(id: 1) { id } }", agent, false),
            ("mutation { saveServiceContext(name: 1) { id } }", actor, true),
            ("mutation { approveStackRun(id: 1) { id } }", actor, false),
        ] {
            assert_eq!(asks_only(&parse_query(document).unwrap(), fields), is_so, "{document}");
        }
    }
}
