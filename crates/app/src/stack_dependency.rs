//! Dependencies between stacks: who may declare them, what a run waits for, what goes into it, and which runs they trigger.

use std::collections::{HashMap, HashSet};

use plural_core::access::{Action, Actor};
use plural_core::ids::{StackId, StackRunId};
use plural_core::run_call::InputVariable;
use plural_core::stack::Stack;
use plural_core::stack_checks::MAX_FILE;
use plural_core::stack_dependency::{
    Hold, MAX_DEPTH, StackDependency, StackGraph, TakenValue, Upstream, UpstreamNow, hold, lay_values,
    stand_in,
};
use plural_core::stack_run::{RunKind, RunPhase, RunStatus, RunTrigger, StackRun};
use plural_core::stack_spec::StackSpec;
use plural_core::stack_turns::Turn;
use plural_core::{Error, Result};
use sha2::{Digest as _, Sha256};

use crate::access::{Read, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::job::NewJob;
use crate::jobs::{PrepareStackRun, PreparedRun};
use crate::stack::StackSelector;
use crate::stack_inputs::OpenInputs;
use crate::stack_run::{NewRun, RunMove, SealedOutput, output_context, output_opened};
use crate::stack_run_turns::Proof;

/// The attribute.
const FIELD: &str = "attributes.dependencies";
/// Stacks that are read per batch.
const AT_ONCE: usize = 500;
/// Limit of the bytes of all values that a run takes: they are stored with it, like its variables.
const MAX_TAKEN: usize = 256 << 10;
/// Limit of names in a refusal.
const TOLD: usize = 10;

/// Stacks and their dependencies, as far as the caller may read both ends.
#[derive(Debug)]
pub struct ReadableGraph {
    /// All stacks with a dependency or a dependent; dependencies come first.
    pub stacks: Vec<Stack>,
    /// Pairs of a stack and one that it depends on.
    pub edges: Vec<(StackId, StackId)>,
}

impl App {
    /// The dependencies between stacks, as far as the caller may read them.
    pub async fn stack_graph(&self, ctx: &OpCtx) -> Result<ReadableGraph> {
        plural_core::access::visibility(ctx.actor())?;
        let graph = self.stacks_graph().await?;
        let ids: HashSet<StackId> = graph.edges().flat_map(|(stack, upstream)| [stack, upstream]).collect();
        let mut found = self.stacks_readable(ctx, ids.into_iter().collect()).await?;
        found.sort_by(|one, other| one.name.as_str().cmp(other.name.as_str()));
        let known: HashSet<StackId> = found.iter().map(|stack| stack.id).collect();
        let is_known =
            |(stack, upstream): &(StackId, StackId)| known.contains(stack) && known.contains(upstream);
        let edges = graph.edges().filter(is_known).collect();
        Ok(ReadableGraph { stacks: graph.upstream_first(found, |stack| stack.id), edges })
    }

    /// The direct dependents of a stack, by name, as far as the caller may read them.
    pub async fn stack_dependents(&self, ctx: &OpCtx, id: StackId) -> Result<Vec<Stack>> {
        let stack = self.authorized::<Stack, Read>(ctx, &StackSelector::Id(id)).await?;
        let ids = self.stacks_graph().await?.downstream(stack.id).collect();
        let mut found = self.stacks_readable(ctx, ids).await?;
        found.sort_by(|one, other| one.name.as_str().cmp(other.name.as_str()));
        Ok(found)
    }

    /// The graph of all dependencies.
    pub(crate) async fn stacks_graph(&self) -> Result<StackGraph> {
        Ok(self.store.stack_edges().await?.into_iter().collect())
    }

    async fn stacks_readable(&self, ctx: &OpCtx, ids: Vec<StackId>) -> Result<Vec<Stack>> {
        let mut found = Vec::new();
        for ids in ids.chunks(AT_ONCE) {
            let stacks = self.authorized_many::<Stack, Read>(ctx, ids).await?;
            found.extend(stacks.into_iter().map(crate::access::Authorized::into_inner));
        }
        Ok(found)
    }

    /// Checks what a stack may take from others: whoever saves it may read these, and their state if an output is sensitive. Unchanged
    /// dependencies need no rights.
    ///
    /// # Errors
    /// [`Error::Conflict`], with the path, if the dependencies would form a cycle.
    pub(crate) async fn stack_dependencies_allowed(
        &self,
        ctx: &OpCtx,
        (id, name): (StackId, &str),
        was: &[StackDependency],
        given: &[StackDependency],
    ) -> Result<Vec<StackDependency>> {
        let mut allowed = Vec::with_capacity(given.len());
        for StackDependency { stack_id, outputs, reads_state: _ } in given {
            if *stack_id == id {
                return Err(Error::invalid(FIELD, "a stack does not depend on itself"));
            }
            let kept = was.iter().find(|was| was.stack_id == *stack_id && was.outputs == *outputs);
            if let Some(kept) = kept {
                // With the recorded rights of their author: a user who changes something else does not vouch for them.
                allowed.push(kept.clone());
                continue;
            }
            let stack = self.authorized::<Stack, Read>(ctx, &StackSelector::Id(*stack_id)).await;
            let stack = stack.map_err(|error| error.named_in(FIELD))?;
            if stack.deleted_at.is_some() {
                return Err(Error::conflict(format!(
                    "stack {} is being deleted: nothing new may depend on it",
                    stack.name
                )));
            }
            let reads_state = stack.held().allow(Action::ReadState);
            if !reads_state {
                let known = self.store.stack_outputs(stack.id).await?;
                let is_taken = |known: &&SealedOutput| {
                    known.secret && outputs.iter().any(|taken| taken.output == known.name)
                };
                if let Some(secret) = known.iter().find(is_taken) {
                    return Err(Error::forbidden(format!(
                        "{FIELD}: output {} of stack {} is sensitive: only who may read the state of that stack takes it",
                        secret.name, stack.name
                    )));
                }
            }
            allowed.push(StackDependency { stack_id: *stack_id, outputs: outputs.clone(), reads_state });
        }
        let upstream: Vec<StackId> = given.iter().map(|given| given.stack_id).collect();
        let graph = self.stacks_graph().await?.with(id, &upstream);
        if let Some(path) = graph.cycle(id) {
            let known = self.stacks_readable(ctx, path.clone()).await?;
            let named = |one: &StackId| {
                let known = known.iter().find(|known| known.id == *one).map(|known| known.name.as_str());
                let own = (*one == id).then_some(name);
                known.or(own).unwrap_or("(a stack that you may not see)").to_owned()
            };
            let path: Vec<String> = path.iter().map(named).collect();
            return Err(Error::conflict(format!(
                "stacks would depend on each other: {}; take one of these dependencies away",
                path.join(" needs ")
            )));
        }
        let depth = graph.depth(id);
        if depth > MAX_DEPTH {
            return Err(Error::invalid(
                FIELD,
                format!("{depth} stacks would depend on each other in a row: at most {MAX_DEPTH} may"),
            ));
        }
        Ok(allowed)
    }

    /// Refuses to delete a stack while others depend on it, and names the order of deletion.
    pub(crate) async fn stack_is_free(&self, ctx: &OpCtx, stack: &Stack) -> Result<()> {
        let graph = self.stacks_graph().await?;
        let ids: Vec<StackId> = graph.descendants(stack.id).into_iter().collect();
        if ids.is_empty() {
            return Ok(());
        }
        Err(self.refusal(ctx, &graph, stack, ids, "delete").await?)
    }

    /// Refuses to destroy the resources of a stack while its dependents have any.
    pub(crate) async fn stack_is_unneeded(&self, ctx: &OpCtx, stack: &Stack) -> Result<()> {
        let graph = self.stacks_graph().await?;
        let system = self.system_ctx();
        let mut needed = Vec::new();
        for id in graph.descendants(stack.id) {
            let other = match self.get::<Stack>(&system, &StackSelector::Id(id)).await {
                Ok(other) => other,
                Err(Error::NotFound { .. }) => continue,
                Err(error) => return Err(error),
            };
            if self.stack_has_something(&other).await? {
                needed.push(id);
            }
        }
        if needed.is_empty() {
            return Ok(());
        }
        Err(self.refusal(ctx, &graph, stack, needed, "destroy").await?)
    }

    /// Whether a stack has applied resources that were not destroyed since, or is about to apply some.
    async fn stack_has_something(&self, stack: &Stack) -> Result<bool> {
        let newest = self.store.stack_run_newest(stack.id).await?;
        let is_destroyed = newest.as_ref().is_some_and(has_destroyed);
        let is_open = newest.is_some_and(|run| !run.status.is_over());
        let has_state = stack.state.as_ref().is_some_and(|state| state.resources != Some(0));
        Ok(!is_destroyed && (is_open || has_state || stack.sha.is_some()))
    }

    async fn refusal(
        &self,
        ctx: &OpCtx,
        graph: &StackGraph,
        stack: &Stack,
        ids: Vec<StackId>,
        doing: &str,
    ) -> Result<Error> {
        let all = ids.len();
        let mut known = graph.upstream_first(self.stacks_readable(ctx, ids).await?, |stack| stack.id);
        known.reverse();
        let mut names: Vec<String> = known.iter().take(TOLD).map(|stack| stack.name.to_string()).collect();
        if all > names.len() {
            let others = all - names.len();
            names.push(format!(
                "{others} more{}",
                if all > known.len() { ", of which you may not see all" } else { "" }
            ));
        }
        Ok(Error::conflict(format!(
            "other stacks depend on stack {}: {doing} them first, in this order: {}; or delete it with leaveDependents: they are left \
             without what they take from it",
            stack.name,
            names.join(", ")
        )))
    }

    /// What a stack takes from others now, or why it cannot, in words. With `is_strict`, a missing output is an error, and is not left out.
    async fn upstream_values(
        &self,
        dependencies: &[StackDependency],
        is_strict: bool,
    ) -> Result<std::result::Result<Vec<TakenValue>, String>> {
        let (mut values, mut bytes) = (Vec::new(), 0);
        for StackDependency { stack_id, outputs, reads_state } in dependencies {
            if outputs.is_empty() {
                continue;
            }
            let known = self.store.stack_outputs(*stack_id).await?;
            for taken in outputs {
                let Some(SealedOutput { name, secret, value }) =
                    known.iter().find(|known| known.name == taken.output)
                else {
                    if !is_strict {
                        continue;
                    }
                    return Ok(Err(if self.stack_is_there(*stack_id).await? {
                        format!("stack {} has no output {:?} to take", stand_in(*stack_id), taken.output)
                    } else {
                        format!(
                            "stack {stack_id}, whose output {:?} is taken, was deleted: take the dependency away",
                            taken.output
                        )
                    }));
                };
                if *secret && !reads_state {
                    let stack = stand_in(*stack_id);
                    return Ok(Err(format!(
                        "output {name} of stack {stack} is sensitive: somebody who may read the state of that stack has to take \
                         the dependency away and give it again"
                    )));
                }
                let opened = self.sealer.open(&output_context(*stack_id), value).await?;
                bytes += opened.len();
                if opened.len() > MAX_FILE || bytes > MAX_TAKEN {
                    let stack = stand_in(*stack_id);
                    return Ok(Err(format!(
                        "output {name} of stack {stack} is too large to take: {} KiB are taken at most, and {} KiB of all outputs together",
                        MAX_FILE >> 10,
                        MAX_TAKEN >> 10
                    )));
                }
                let value = output_opened(name, &opened)?;
                values.push(TakenValue { name: taken.name.clone(), value, secret: *secret });
            }
        }
        Ok(Ok(values))
    }

    /// Only the installation can compute the digest: values may be short.
    fn values_digest(&self, values: &[TakenValue]) -> Result<String> {
        let all: Vec<_> =
            values.iter().map(|TakenValue { name, value, secret }| (name, value, secret)).collect();
        // The cause could contain a part of a value.
        let json = serde_json::to_vec(&all)
            .map_err(|_| Error::internal("writing what a stack takes from others", "it has no JSON"))?;
        Ok(hex::encode(self.sealer.tag(&format!("stack upstream {}", hex::encode(Sha256::digest(&json))))))
    }

    /// The inputs of a run now, besides its code, with what it takes from other stacks; or in words why it cannot. `answered` are the
    /// answers of a user who started commands.
    pub(crate) async fn stack_taking(
        &self,
        stack: &Stack,
        kind: RunKind,
        answered: Vec<InputVariable>,
    ) -> Result<std::result::Result<(StackSpec, OpenInputs), String>> {
        let (spec, mut inputs) = (stack.spec.clone(), self.stack_inputs_of(stack).await?);
        inputs.environment.extend(answered);
        match self.upstream_values(&spec.dependencies, kind.waits_for_others()).await? {
            Ok(values) => lay_values(stack.tool, values, &mut inputs.taken, &mut inputs.environment),
            Err(why) => return Ok(Err(why)),
        }
        Ok(Ok((spec, inputs)))
    }

    /// A run whose code may be prepared: it waits for no other stack, and has everything that it takes from them. `None` if it waits, or
    /// has ended.
    pub(crate) async fn run_settled(&self, run: StackRun) -> Result<Option<StackRun>> {
        if !run.is_held() {
            return Ok(Some(run));
        }
        let is_strict = run.kind.waits_for_others();
        if is_strict {
            match self.run_hold(&run).await? {
                Hold::Goes => {}
                Hold::Waits(why) => {
                    if run.error.as_ref() != Some(&why) {
                        let from = vec![RunStatus::Queued];
                        let note = RunMove { from, error: Some(why), ..RunMove::at(self.now()) };
                        self.store.stack_run_move(&Actor::System, run.id, &note).await?;
                    }
                    return Ok(None);
                }
                Hold::Skipped(why) => return self.run_ends(&run, RunStatus::Cancelled, why).await,
            }
        }
        let mut inputs = self.run_inputs_of(&run).await?;
        if !self.is_own_inputs_digest(&run, &inputs)? {
            let why = "the run in the store is not the one that was made: make another one".to_owned();
            return self.run_ends(&run, RunStatus::Failed, why).await;
        }
        let values = match self.upstream_values(&run.snapshot.spec.dependencies, is_strict).await? {
            Ok(values) => values,
            Err(why) => return self.run_ends(&run, RunStatus::Failed, why).await,
        };
        let mut snapshot = run.snapshot.clone();
        snapshot.upstream = Some(Upstream {
            run: snapshot.upstream.as_ref().and_then(|upstream| upstream.run),
            settled_at: Some(self.now()),
            digest: Some(self.values_digest(&values)?),
        });
        lay_values(snapshot.tool, values, &mut inputs.taken, &mut inputs.environment);
        snapshot.inputs_digest = self.inputs_digest(
            snapshot.tool,
            Some((snapshot.repository_id, &snapshot.git)),
            &snapshot.spec,
            &inputs,
        )?;
        let sealed = self.run_inputs_sealed(run.project_id, run.id, &inputs).await?;
        let settled = self.store.stack_run_settle(run.id, &snapshot, &sealed).await?;
        if settled.is_some() && run.kind == RunKind::Apply {
            // A change between the read and the write triggered no run: this one was waiting.
            self.dependent_follows(run.stack_id, None).await?;
        }
        Ok(settled)
    }

    async fn run_ends(&self, run: &StackRun, status: RunStatus, why: String) -> Result<Option<StackRun>> {
        let turn = Turn::Over(status, Some(why));
        self.run_turns(&Actor::System, run, turn, (None, Proof::Ended)).await?;
        Ok(None)
    }

    /// A missing one was deleted: its dependents lost it, or no longer depend on it.
    async fn stack_is_there(&self, id: StackId) -> Result<bool> {
        match self.get::<Stack>(&self.system_ctx(), &StackSelector::Id(id)).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a run may proceed, by its direct and indirect dependencies.
    async fn run_hold(&self, run: &StackRun) -> Result<Hold> {
        let system = self.system_ctx();
        let direct: HashSet<StackId> =
            run.snapshot.spec.dependencies.iter().map(|dependency| dependency.stack_id).collect();
        let graph = self.stacks_graph().await?;
        let mut all: Vec<StackId> = direct.iter().copied().collect();
        all.extend(graph.ancestors(run.stack_id));
        all.sort_unstable();
        all.dedup();
        let stacks: HashMap<StackId, Stack> = self.get_many::<Stack>(&system, &all).await?;
        let mut found = Vec::with_capacity(stacks.len());
        for id in graph.upstream_first(all, |id| *id) {
            // A former dependency may have been deleted.
            let Some(stack) = stacks.get(&id) else { continue };
            let newest = self.store.stack_run_newest(id).await?;
            found.push((stack, stand_in(id), direct.contains(&id), newest));
        }
        let now: Vec<UpstreamNow<'_>> = found
            .iter()
            .map(|(stack, name, is_direct, newest)| UpstreamNow {
                name,
                is_direct: *is_direct,
                // A stack whose tool runs elsewhere has no outputs, and no run applies it.
                is_applied: stack.last_successful_at.is_some() && !newest.as_ref().is_some_and(has_destroyed),
                newest: newest.as_ref(),
            })
            .collect();
        Ok(hold(run.created_at, &now))
    }

    /// After the end of a run: runs that wait for its stack proceed, and dependents whose inputs changed get a run.
    pub(crate) async fn stack_followed(&self, stack: StackId, run: StackRunId) -> Result<()> {
        let graph = self.stacks_graph().await?;
        let direct: Vec<StackId> =
            match self.get::<Stack>(&self.system_ctx(), &StackSelector::Id(stack)).await {
                Ok(stack) if stack.deleted_at.is_none() => graph.downstream(stack.id).collect(),
                // Dependents that lose it are handled once it is deleted, and not twice.
                Ok(_) | Err(Error::NotFound { .. }) => Vec::new(),
                Err(error) => return Err(error),
            };
        // Dependencies first.
        let followed = self.dependents_follow(graph.upstream_first(direct, |id| *id), Some(run)).await;
        let mut held = Vec::new();
        for dependent in graph.descendants(stack) {
            let open = self.store.stack_runs_open_of(dependent).await?;
            for run in open.iter().filter(|run| run.is_held()) {
                held.push(NewJob::of::<PrepareStackRun>(&PreparedRun { run: run.id })?);
            }
        }
        if !held.is_empty() {
            self.store.jobs_enqueue(&held, self.now()).await?;
        }
        followed
    }

    /// Creates runs of those of these stacks whose inputs changed. A failure of one does not delay the others.
    pub(crate) async fn dependents_follow(
        &self,
        dependents: Vec<StackId>,
        by: Option<StackRunId>,
    ) -> Result<()> {
        let mut failed = None;
        for dependent in dependents {
            if let Err(error) = self.dependent_follows(dependent, by).await {
                let told = error.log_text();
                tracing::warn!(stack.id = %dependent, error = told, "cannot let a stack follow one that it depends on");
                failed = Some(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Creates a run of a stack whose inputs differ from those of its newest run. Does nothing if it has no run yet, is paused, deleted
    /// or destroyed, or if its newest run still waits and will read the inputs later.
    async fn dependent_follows(&self, id: StackId, by: Option<StackRunId>) -> Result<()> {
        let system = self.system_ctx();
        let stack = match self.authorized::<Stack, Write>(&system, &StackSelector::Id(id)).await {
            Ok(stack) => stack,
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        if stack.paused || stack.deleted_at.is_some() || stack.source.is_none() {
            return Ok(());
        }
        let Some(newest) = self.store.stack_run_newest(id).await? else { return Ok(()) };
        // A destruction that ended without an apply has destroyed nothing: the resources are based on the inputs before it.
        let is_void = newest.kind == RunKind::Destroy
            && newest.status == RunStatus::Cancelled
            && newest.phase == RunPhase::Plan;
        if (newest.kind == RunKind::Destroy && !is_void) || newest.is_held() {
            return Ok(());
        }
        let upstream = newest.snapshot.upstream.as_ref().filter(|_| !is_void);
        let taken = upstream.and_then(|upstream| upstream.digest.as_ref());
        match self.upstream_values(&stack.spec.dependencies, true).await? {
            Ok(values) if taken == Some(&self.values_digest(&values)?) => return Ok(()),
            // It was recorded, and nothing has changed since.
            Err(why) if newest.error.as_ref() == Some(&why) => return Ok(()),
            Ok(_) | Err(_) => {}
        }
        let new = NewRun { kind: RunKind::Apply, trigger: RunTrigger::Upstream };
        let mut made = match self.stack_run_made(&system, &stack, new).await {
            Ok(made) => made,
            Err(error @ (Error::Invalid { .. } | Error::Conflict { .. })) => {
                let error = error.log_text();
                tracing::warn!(stack.id = %id, error, "a stack that takes other outputs of another one cannot run");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if let Some(upstream) = &mut made.run.snapshot.upstream {
            upstream.run = by;
        }
        let run = self.store.stack_run_create(stack.audited(&system, "stack.run.create"), &made).await?;
        tracing::info!(
            stack.id = %id, stack_run.id = %run.id, number = run.number,
            "other outputs of a stack make a run of one that depends on it"
        );
        Ok(())
    }
}

/// Whether all resources of the stack are destroyed.
fn has_destroyed(run: &StackRun) -> bool {
    run.kind == RunKind::Destroy && run.status == RunStatus::Successful
}
