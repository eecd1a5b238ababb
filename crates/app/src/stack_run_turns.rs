//! Moves runs: carries out their next steps, and tends those whose Job, agent or approvers are silent.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use plural_core::access::{Actor, RunActor};
use plural_core::cluster::Cluster;
use plural_core::ids::{StackId, StackRunId};
use plural_core::stack::Stack;
use plural_core::stack_dependency::StackGraph;
use plural_core::stack_run::{RunKind, RunPhase, RunStatus, StackRun};
use plural_core::stack_turns::{Around, Turn, after_loss, has_begun, is_lapsed, tend};
use plural_core::{Error, Result};

use crate::access::{Admin, WriteState};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::job::NewJob;
use crate::jobs::{FollowGone, FollowUpstream, FollowedRun, PrepareStackRun, PreparedRun, TellPullRequest};
use crate::stack::{Dependents, StackSelector};
use crate::stack_pull_request::PullAddress;
use crate::stack_run::{RunMove, SealedOutput};

/// A Job counts as lost after this many passes in a row that found it silent with the same heartbeat. A clock that jumps, or differs from
/// that of the replica that receives the heartbeats, makes all Jobs silent, but each heartbeat restarts the count: between the first pass
/// and the last one there is time for two.
const SILENT_PASSES: u32 = 5;
/// A run whose code is not ready after this time has lost its job.
const UNPREPARED: TimeDelta = TimeDelta::seconds(60);
/// Runs that wait for other stacks are checked again, all together at a rate of one per this time. Normally the end of their wait
/// is published; this covers a lost signal.
const HELD: Duration = Duration::from_millis(200);
/// A dead job is enqueued again after this time.
const DEAD: TimeDelta = TimeDelta::minutes(5);

/// Why a Job counts as stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The Job or its agent reported it, or it never started.
    Ended,
    /// It is silent: it may still run somewhere.
    Silence,
}

/// A heartbeat.
type Sign = Option<DateTime<Utc>>;

/// For each run, its last heartbeat and the number of passes in a row that found it silent.
#[derive(Default)]
pub(crate) struct SilentRuns {
    passes: Mutex<HashMap<StackRunId, (Sign, u32)>>,
}

impl SilentRuns {
    /// Counts a pass that found it silent after this heartbeat; returns whether it is lost.
    fn are_enough(&self, id: StackRunId, sign: Sign) -> bool {
        let mut passes = self.passes.lock();
        let (last, count) = passes.entry(id).or_insert((sign, 0));
        if *last != sign {
            (*last, *count) = (sign, 0);
        }
        *count += 1;
        *count >= SILENT_PASSES
    }

    /// Forgets runs that this pass did not find silent.
    fn keep(&self, silent: &HashSet<StackRunId>) {
        self.passes.lock().retain(|id, _| silent.contains(id));
    }
}

/// What one pass over all runs found.
#[derive(Default)]
struct Found {
    /// Runs whose Job is silent.
    silent: HashSet<StackRunId>,
    /// Runs that are approved, and may proceed.
    approved: Vec<StackRunId>,
}

impl App {
    /// Carries out the next step of a run that was read like this. `None` if it was moved meanwhile.
    pub(crate) async fn run_turns(
        &self,
        actor: &Actor,
        run: &StackRun,
        turn: Turn,
        (outputs, proof): (Option<Vec<SealedOutput>>, Proof),
    ) -> Result<Option<StackRun>> {
        let of = RunMove {
            from: vec![run.status],
            of: Some((run.phase, run.attempt)),
            ends_credential: true,
            tells_agent: true,
            // In the same transaction as the move: if it is queued again, its next Job takes the lock under the same name.
            unlocks: proof == Proof::Ended,
            ..RunMove::at(self.now())
        };
        let change = match turn {
            Turn::Applies => return self.run_applies_by(actor, run).await,
            Turn::Waits => RunMove { to: Some(RunStatus::PendingApproval), unlocks: false, ..of },
            Turn::Again(note) => {
                RunMove { to: Some(RunStatus::Queued), error: Some(note), unbegun: true, ..of }
            }
            Turn::Unbegun(status, error) => {
                let follows = follows(run)?;
                RunMove { to: Some(status), error: Some(error), unbegun: true, follows, ..of }
            }
            Turn::Over(status, error) => {
                let applied = applied(run, status, outputs);
                RunMove { to: Some(status), error, applied, follows: follows(run)?, ..of }
            }
        };
        let Some(run) = self.store.stack_run_move(actor, run.id, &change).await? else { return Ok(None) };
        if run.status.is_over() {
            // Boxed: the future that deletes a destroyed stack is large.
            Box::pin(self.run_over(&run)).await?;
        } else {
            self.run_next(run.stack_id).await?;
        }
        Ok(Some(run))
    }

    /// Applies a plan with enough approvals, if it is still valid. Returns whether the run moved: while the validity is unknown, it waits,
    /// up to the time limit of a plan; the loop retries.
    pub(crate) async fn run_applies(&self, run: &StackRun) -> Result<bool> {
        let turn = match self.plan_refusal(run).await {
            Ok(None) => return Ok(self.run_applies_by(&Actor::System, run).await?.is_some()),
            Ok(Some(why)) => Turn::Over(RunStatus::Failed, Some(why)),
            Err(Error::Unavailable { reason, .. }) if is_lapsed(run, self.now()) => Turn::Over(
                RunStatus::Failed,
                Some(format!("{reason}, and the plan waited too long: plan again")),
            ),
            Err(error @ Error::Unavailable { .. }) => {
                let why = format!("approved, and waits to be applied: {error}");
                if run.error.as_ref() != Some(&why) {
                    tracing::warn!(stack_run.id = %run.id, error = error.log_text(), "an approved run waits");
                    let from = vec![RunStatus::PendingApproval];
                    let note = RunMove { from, error: Some(why), ..RunMove::at(self.now()) };
                    self.store.stack_run_move(&Actor::System, run.id, &note).await?;
                }
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        Ok(self.run_turns(&Actor::System, run, turn, (None, Proof::Ended)).await?.is_some())
    }

    async fn run_applies_by(&self, actor: &Actor, run: &StackRun) -> Result<Option<StackRun>> {
        let change = RunMove {
            from: vec![run.status],
            of: Some((run.phase, run.attempt)),
            to: Some(RunStatus::Queued),
            phase: Some(RunPhase::Apply),
            ends_credential: true,
            tells_agent: true,
            ..RunMove::at(self.now())
        };
        let moved = self.store.stack_run_move(actor, run.id, &change).await?;
        if moved.is_some() {
            self.run_next(run.stack_id).await?;
        }
        Ok(moved)
    }

    /// Starts the next run of a stack, if none is active.
    pub(crate) async fn run_next(&self, stack: StackId) -> Result<()> {
        self.store.stack_run_next(stack, self.now()).await.map(drop)
    }

    /// After the end of a run: starts the next one, and deletes a stack that was destroyed.
    pub(crate) async fn run_over(&self, run: &StackRun) -> Result<()> {
        tracing::info!(
            stack_run.id = %run.id, stack.id = %run.stack_id, number = run.number, status = run.status.as_str(),
            "a run of a stack is over"
        );
        if run.kind == RunKind::Destroy && run.status == RunStatus::Successful {
            // The run has succeeded in any case. What keeps the stack may be temporary: the loop retries.
            if let Err(error) = Box::pin(self.stack_destroyed(run.stack_id, &mut None)).await {
                let error = error.log_text();
                tracing::warn!(stack.id = %run.stack_id, error, "cannot delete a stack that was destroyed; trying again");
            }
        }
        self.run_next(run.stack_id).await
    }

    /// Deletes a destroyed stack, if it is marked for deletion. Reads the graph of stacks unless it is known.
    async fn stack_destroyed(&self, stack: StackId, known: &mut Option<StackGraph>) -> Result<()> {
        let system = self.system_ctx();
        match self.authorized::<Stack, Admin>(&system, &StackSelector::Id(stack)).await {
            Ok(stack) if stack.deleted_at.is_some() => {
                let graph = match known {
                    Some(graph) => graph,
                    None => known.insert(self.stacks_graph().await?),
                };
                let left: Vec<StackId> = graph.downstream(stack.id).collect();
                let by = stack.audited(&system, "stack.delete");
                let follows = FollowGone::of(stack.id, &left)?;
                self.store.stack_delete(by, None, Dependents::Leave, &follows).await?;
                // A failure is logged there: the stack is deleted in any case.
                self.dependents_follow(left, None).await.ok();
                Ok(())
            }
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The Job of an ended or requeued run has stopped: releases the lock of the stack's state that it holds and cannot release itself,
    /// and starts runs that wait for it. A lock of anybody else stays.
    pub(crate) async fn run_unlocks(&self, run: &StackRun) -> Result<()> {
        if !run.keeps_state() {
            return Ok(());
        }
        let system = self.system_ctx();
        let stack =
            match self.authorized::<Stack, WriteState>(&system, &StackSelector::Id(run.stack_id)).await {
                Ok(stack) => stack,
                Err(Error::NotFound { .. }) => return Ok(()),
                Err(error) => return Err(error),
            };
        let name = RunActor { run: run.id, stack: run.stack_id, phase: run.phase }.name();
        if stack.lock.as_ref().is_none_or(|lock| lock.author != name) {
            return Ok(());
        }
        // Another Job of the run may have started meanwhile, which locks the state under the same name.
        let change = RunMove {
            from: vec![RunStatus::Queued, RunStatus::Successful, RunStatus::Failed, RunStatus::Cancelled],
            of: Some((run.phase, run.attempt)),
            unlocks: true,
            ..RunMove::at(self.now())
        };
        if self.store.stack_run_move(&Actor::System, run.id, &change).await?.is_some() {
            self.run_next(run.stack_id).await?;
        }
        Ok(())
    }

    /// The Job of a run was lost without a report.
    pub(crate) async fn run_lost(&self, run: &StackRun, why: &str, proof: Proof) -> Result<()> {
        let turn = after_loss(run, why, self.run_has_begun(run).await?);
        self.run_turns(&Actor::System, run, turn, (None, proof)).await.map(drop)
    }

    /// Whether any step of the run's Job that must not run twice has begun.
    async fn run_has_begun(&self, run: &StackRun) -> Result<bool> {
        // A Job that never received its input runs nothing: the steps are those of an earlier one.
        if run.status != RunStatus::Running {
            return Ok(false);
        }
        Ok(has_begun(run, &self.store.stack_run_steps(run.id).await?))
    }

    /// One pass over all open runs; returns how many it moved.
    ///
    /// # Errors
    /// If they cannot be read. A failure of a single run is logged, and does not delay the others.
    pub async fn stack_runs_tend(self: &Arc<Self>) -> Result<u64> {
        let (mut moved, mut found) = (0, Found::default());
        let (mut active, mut waiting) = (HashSet::new(), BTreeSet::new());
        let (mut destroyed, mut after) = (Vec::new(), None);
        let mut watch = self.watched_runs.pass(self.now());
        loop {
            let page = self.store.stack_runs_open(after).await?;
            let mut unprepared = Vec::new();
            let held = page.runs.iter().filter(|run| run.status == RunStatus::Queued && run.is_held).count();
            let held = HELD.saturating_mul(u32::try_from(held).unwrap_or(u32::MAX));
            for run in &page.runs {
                if run.status.is_active() {
                    active.insert(run.stack_id);
                } else if run.status == RunStatus::Queued && run.is_prepared {
                    waiting.insert(run.stack_id);
                } else if run.status == RunStatus::Queued && run.is_held {
                    let prepare = NewJob::of::<PrepareStackRun>(&PreparedRun { run: run.id })?;
                    unprepared.push(prepare.after(held));
                } else if run.status == RunStatus::Queued && (self.now() - run.created_at).abs() > UNPREPARED
                {
                    unprepared.push(NewJob::of::<PrepareStackRun>(&PreparedRun { run: run.id })?);
                }
                let is_watched = watch.meets(run);
                if !run.is_due(self.now()) {
                    continue;
                }
                match Box::pin(self.run_due(run.id, is_watched, &mut found)).await {
                    Ok(true) => moved += 1,
                    Ok(false) => {}
                    Err(error) => {
                        let error = error.log_text();
                        tracing::warn!(stack_run.id = %run.id, error, "cannot move a run on; trying again");
                    }
                }
            }
            if !unprepared.is_empty() {
                self.store.jobs_enqueue_absent(&unprepared, self.now() - DEAD, self.now()).await?;
            }
            destroyed.extend(page.destroyed);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.silent_runs.keep(&found.silent);
        watch.ends();
        moved += Box::pin(self.runs_apply(found.approved)).await;
        waiting.retain(|stack| !active.contains(stack));
        for stack in waiting {
            // A failure of one does not delay the others.
            if let Err(error) = Box::pin(self.run_next(stack)).await {
                let error = error.log_text();
                tracing::warn!(stack.id = %stack, error, "cannot let the next run of a stack have its turn; trying again");
            }
        }
        let mut graph = None;
        for stack in destroyed {
            match Box::pin(self.stack_destroyed(stack, &mut graph)).await {
                Ok(()) => moved += 1,
                // It is protected by now, or its state is locked: a warning would repeat in each pass.
                Err(error @ Error::Conflict { .. }) => {
                    tracing::debug!(stack.id = %stack, error = error.log_text(), "a stack that was destroyed stays");
                }
                Err(error) => {
                    let error = error.log_text();
                    tracing::warn!(stack.id = %stack, error, "cannot delete a stack that was destroyed; trying again");
                }
            }
        }
        Ok(moved)
    }

    /// Tends a run that may be due; returns whether it moved. `is_watched`: this console has watched its whole
    /// time limit pass.
    async fn run_due(&self, id: StackRunId, is_watched: bool, found: &mut Found) -> Result<bool> {
        match self.store.stack_run(id).await? {
            Some(run) => self.run_tended(&run, is_watched, found).await,
            // Deleted a moment ago, with its stack.
            None => Ok(false),
        }
    }

    /// Tends a run; returns whether it moved.
    async fn run_tended(&self, run: &StackRun, is_watched: bool, found: &mut Found) -> Result<bool> {
        let now = self.now();
        let unknown = Around { cluster: "", heard: None, begun: false };
        let Some(turn) = tend(run, &unknown, now) else { return Ok(false) };
        if run.status == RunStatus::Running {
            found.silent.insert(run.id);
            if !self.silent_runs.are_enough(run.id, run.heartbeat_at) {
                return Ok(false);
            }
            let around = Around { begun: self.run_has_begun(run).await?, ..unknown };
            let Some(turn) = tend(run, &around, now) else { return Ok(false) };
            let moved = self.run_turns(&Actor::System, run, turn, (None, Proof::Silence)).await?;
            return Ok(moved.is_some());
        }
        if turn == Turn::Applies {
            found.approved.push(run.id);
            return Ok(false);
        }
        // Only the clock says so, and it may have jumped.
        if !is_watched {
            return Ok(false);
        }
        // The cluster is read only if the message needs it.
        let cluster = self.get::<Cluster>(&self.system_ctx(), &ClusterSelector::Id(run.cluster_id)).await;
        let (name, heard) = match cluster {
            Ok(cluster) => (cluster.handle.to_string(), cluster.pinged_at.max(self.pings.last(cluster.id))),
            Err(Error::NotFound { .. }) => (format!("{} (deleted)", run.cluster_id), None),
            Err(error) => return Err(error),
        };
        let around = Around { cluster: &name, heard, ..unknown };
        let Some(turn) = tend(run, &around, now) else { return Ok(false) };
        Ok(self.run_turns(&Actor::System, run, turn, (None, Proof::Ended)).await?.is_some())
    }
}

/// Follow-up jobs of an ended run: stacks that depend on its stack may wait for it, and the host of a pull request gets the status.
pub(crate) fn follows(run: &StackRun) -> Result<Vec<NewJob>> {
    if let Some(pull) = run.pull_request() {
        return Ok(vec![NewJob::of::<TellPullRequest>(&PullAddress::of(pull))?]);
    }
    match run.kind {
        RunKind::DryRun | RunKind::Drift | RunKind::Commands => Ok(Vec::new()),
        RunKind::Apply | RunKind::Destroy => {
            let followed = FollowedRun { stack: run.stack_id, run: run.id };
            Ok(vec![NewJob::of::<FollowUpstream>(&followed)?])
        }
    }
}

/// What a successful run writes to its stack.
fn applied(
    run: &StackRun,
    status: RunStatus,
    outputs: Option<Vec<SealedOutput>>,
) -> Option<(String, Option<Vec<SealedOutput>>)> {
    let source = run.source.as_ref().filter(|_| status == RunStatus::Successful)?;
    match run.kind {
        RunKind::DryRun | RunKind::Drift | RunKind::Commands => None,
        RunKind::Apply => Some((source.sha.clone(), outputs)),
        // No resources are left that could have outputs.
        RunKind::Destroy => Some((source.sha.clone(), Some(Vec::new()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_lost_when_passes_in_a_row_find_it_silent() {
        let (runs, id) = (SilentRuns::default(), StackRunId::new());
        let passes =
            |sign: Sign, count: u32| (0..count).map(|_| runs.are_enough(id, sign)).collect::<Vec<_>>();
        let sign = |seconds| DateTime::from_timestamp(seconds, 0);
        assert_eq!(passes(sign(1), SILENT_PASSES), [false, false, false, false, true]);
        runs.keep(&HashSet::new());
        assert_eq!(passes(sign(1), 2), [false; 2]);
        runs.keep(&HashSet::from([id]));
        assert_eq!(passes(sign(1), 2), [false; 2]);
        // A new heartbeat: only the clocks differ.
        assert_eq!(passes(sign(2), SILENT_PASSES), [false, false, false, false, true]);
    }
}
