//! Moves of runs. The row of the stack is locked before the rows of its runs, so that concurrent moves of runs of one stack are serialised,
//! and the second sees the first.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use plural_app::access::actor_name;
use plural_app::ports::agents::FeedSubject;
use plural_app::stack_run::{RunMove, SealedInputs, SealedOutput};
use plural_core::access::{Actor, RunActor};
use plural_core::audit::{AuditEntry, AuditTarget};
use plural_core::ids::{ClusterId, RequestId, StackId, StackRunId};
use plural_core::stack_run::{
    RunApproval, RunKind, RunPhase, RunSnapshot, RunStatus, RunStep, RunTrigger, StackRun, StepStatus,
};
use plural_core::stack_turns::has_begun;
use plural_core::work::{WorkChange, WorkRef};
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, JsonValue, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use uuid::Uuid;

use super::locks::{end_waiting_in_tx, lock_of_run, lock_of_runs, wait_in_tx, wait_no_more_in_tx};
use super::row::{artifact_of, inputs, output, phase_of, run, runs, status_of, step, step_row_of};
use super::{drift, finding};
use crate::convert::{json, to_json, word};
use crate::database::Database;
use crate::error::{db, gone_or};
use crate::transaction::{self, set};
use crate::{dependency, service_import, stack};

/// Limit of outputs per statement.
const OUTPUTS: usize = 500;

/// Who moves a run.
pub(super) enum Mover<'a> {
    /// A user with rights to this stack. The audit line says what they did.
    Person { stack: StackId, entry: &'a AuditEntry },
    /// The console, an agent or a harness. The end of a run gets an audit line.
    Machine(&'a Actor),
}

/// Kinds of runs that determine the stack's status.
pub(super) const OF_STACK: [&str; 2] = [RunKind::Apply.as_str(), RunKind::Destroy.as_str()];

/// The number of the run that holds the queue of a stack whose row is locked.
pub(crate) async fn active_in_tx(write: &transaction::Write<'_>, stack: StackId) -> Result<Option<i64>> {
    run::Entity::find()
        .select_only()
        .column(run::Column::Number)
        .filter(run::Column::StackId.eq(stack.uuid()))
        .filter(run::Column::FinishedAt.is_null())
        .filter(run::Column::Status.is_in([RunStatus::Pending.as_str(), RunStatus::Running.as_str()]))
        .limit(1)
        .into_tuple()
        .one(&write.tx)
        .await
        .map_err(db("looking for a run that is under way"))
}

/// Whether a run holds the queue of a stack whose row is locked, and which plans of pull requests run beside it: `true` for a check,
/// `false` for any other.
async fn holders_in_tx(
    write: &transaction::Write<'_>,
    stack: StackId,
    checks: &BTreeSet<Uuid>,
) -> Result<(bool, BTreeSet<bool>)> {
    let active: Vec<(Uuid, String)> = run::Entity::find()
        .select_only()
        .columns([run::Column::Id, run::Column::Cause])
        .filter(run::Column::StackId.eq(stack.uuid()))
        .filter(run::Column::FinishedAt.is_null())
        .filter(run::Column::Status.is_in([RunStatus::Pending.as_str(), RunStatus::Running.as_str()]))
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db("looking for runs that are under way"))?;
    let (mut is_held, mut pulls) = (false, BTreeSet::new());
    for (id, cause) in active {
        if cause == RunTrigger::PullRequest.as_str() {
            pulls.insert(checks.contains(&id));
        } else {
            is_held = true;
        }
    }
    Ok((is_held, pulls))
}

/// The open runs of a stack that only check the commit of a fork. The author of the fork decides how long that takes, so plans never
/// wait for it.
async fn checks_in_tx(write: &transaction::Write<'_>, stack: StackId) -> Result<BTreeSet<Uuid>> {
    let pulls: Vec<(Uuid, JsonValue)> = run::Entity::find()
        .select_only()
        .columns([run::Column::Id, run::Column::Snapshot])
        .filter(run::Column::StackId.eq(stack.uuid()))
        .filter(run::Column::FinishedAt.is_null())
        .filter(run::Column::Cause.eq(RunTrigger::PullRequest.as_str()))
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db("looking for checks of forks"))?;
    let is_check = |(_, snapshot): &(Uuid, JsonValue)| {
        let said = snapshot.pointer("/spec/pullRequest/checkedOnly");
        said.and_then(JsonValue::as_bool).unwrap_or_default()
    };
    Ok(pulls.into_iter().filter(is_check).map(|(id, _)| id).collect())
}

/// Updates the columns of a stack that are derived from its runs.
pub(super) async fn stack_follows_in_tx(
    write: &transaction::Write<'_>,
    stack: Uuid,
    change: stack::row::ActiveModel,
) -> Result<()> {
    let newest: Option<String> = runs()
        .select_only()
        .column(run::Column::Status)
        .filter(run::Column::StackId.eq(stack))
        .filter(run::Column::Kind.is_in(OF_STACK))
        .order_by_desc(run::Column::Number)
        .limit(1)
        .into_tuple()
        .one(&write.tx)
        .await
        .map_err(db("reading the newest run of a stack"))?;
    let change = stack::row::ActiveModel { id: ActiveValue::Unchanged(stack), status: set(newest), ..change };
    change.update(&write.tx).await.map(drop).map_err(gone_or("stack", db("writing a stack")))
}

impl Database {
    /// Moves a run, with everything that follows from that.
    pub(super) async fn run_move(
        &self,
        mover: Mover<'_>,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>> {
        let mut write = self.write().await?;
        let has_outputs = change.applied.as_ref().is_some_and(|(_, outputs)| outputs.is_some());
        if has_outputs {
            // The services that import them are rendered anew below.
            dependency::lock_in_tx(&write).await?;
        }
        let of: Option<Uuid> = runs()
            .filter(run::Column::Id.eq(id.uuid()))
            .select_only()
            .column(run::Column::StackId)
            .into_tuple()
            .one(&write.tx)
            .await
            .map_err(db("reading a run"))?;
        let of = match (&mover, of.map(StackId::from_uuid)) {
            // A right to one stack moves no run of another.
            (Mover::Person { stack, entry: _ }, of) if of != Some(*stack) => {
                return Err(Error::not_found("stack run"));
            }
            (Mover::Person { .. } | Mover::Machine(_), Some(of)) => of,
            (Mover::Person { .. } | Mover::Machine(_), None) => return Ok(None),
        };
        let stack = stack::lock_in_tx(&write, of).await?;
        let Some(old) = lock_in_tx(&write, id.uuid()).await? else { return Ok(None) };
        if !stands(&old, change)? || (change.unbegun && has_begun_in_tx(&write, &old).await?) {
            return Ok(None);
        }
        let mut new = moved(&old, change)?;
        let (was_active, is_active) = (status_of(&old)?.is_active(), status_of(&new)?.is_active());
        let is_told = change.tells_agent || was_active != is_active;
        new.sequence += i64::from(is_told);
        write_in_tx(&write, &new).await?;
        if was_active && status_of(&new)? == RunStatus::Queued && phase_of(&new)? == RunPhase::Plan {
            // The plan of the next Job is a different one.
            finding::forget_in_tx(&write, new.id).await?;
        }
        if let Some(steps) = &change.steps {
            replace_steps_in_tx(&write, id, steps).await?;
        }
        let mut ended = Vec::new();
        if new.finished_at.is_some() && old.finished_at.is_none() {
            end_steps_in_tx(&write, &new, change.at).await?;
            if let Mover::Machine(_) = mover {
                ended.push(new.clone());
            }
        }
        if change.supersedes {
            ended.extend(supersede_in_tx(&write, (&stack, &new), change.at).await?);
        }
        let mut told = <stack::row::ActiveModel as sea_orm::ActiveModelTrait>::default();
        let released = if change.unlocks { lock_of_run(&stack, &old)? } else { None };
        if let Some(lock) = &released {
            tracing::warn!(
                stack_run.id = %id, stack.id = %of, lock = lock.id,
                "released the lock of a state: the Job of the run that held it has ended"
            );
            told.state_lock = set(None);
            ended.extend(end_waiting_in_tx(&mut write, &new, change.at).await?);
        }
        if let Some((sha, outputs)) = &change.applied {
            told.sha = set(Some(sha.clone()));
            told.last_successful_at = set(Some(change.at));
            if stack.drifted_at.is_some() {
                // It may have changed drifted resources: drift detection is due again.
                told.next_drift_at = set(Some(change.at));
            }
            if let Some(outputs) = outputs {
                let had_any = has_outputs_in_tx(&write, stack.id).await?;
                if had_any || !outputs.is_empty() {
                    // This locks the services, before their deltas are locked.
                    service_import::renew_importers_in_tx(&mut write, stack.id, change.at).await?;
                }
                // Before the outputs are deleted: the status of a service may contain a sensitive one.
                service_import::hide_former_outputs_in_tx(&write, stack.id).await?;
                replace_outputs_in_tx(&write, stack.id, outputs).await?;
            }
        }
        let drifts = drift::follow_in_tx(&write, (&stack, &old, &new), change, &mut told).await?;
        if change.to.is_some() || change.applied.is_some() || released.is_some() || !ended.is_empty() {
            stack_follows_in_tx(&write, stack.id, told).await?;
        }
        let actor = match &mover {
            Mover::Person { entry, .. } => {
                write.audit(entry).await?;
                entry.actor.clone()
            }
            Mover::Machine(actor) => actor_name(actor),
        };
        let request_id = RequestId::new();
        let mut lines: Vec<AuditEntry> = drifts
            .into_iter()
            .map(|action| drift::line(action, &actor, &stack, (request_id, change.at)))
            .collect();
        if released.is_some() {
            let system = actor_name(&Actor::System);
            lines.push(drift::line("stack.state.release", &system, &stack, (request_id, change.at)));
        }
        lines.extend(ended.iter().map(|run| end_of(&actor, &stack, run, request_id, change.at)));
        write.audit_many(&lines).await?;
        if is_told {
            write.publish(event(&new, is_active), change.at).await?;
        }
        write.stack_changed(stack.id, change.at);
        write.enqueue(&change.follows, change.at).await?;
        write.commit().await?;
        Ok(Some(new.try_into()?))
    }

    /// Sets what a queued run takes from other stacks, replacing its snapshot and inputs, before its code is prepared.
    pub(super) async fn run_settle(
        &self,
        id: StackRunId,
        snapshot: &RunSnapshot,
        sealed: &SealedInputs,
    ) -> Result<Option<StackRun>> {
        let write = self.write().await?;
        self.check_stacks_are_known_in_tx(&write).await?;
        let Some(old) = lock_in_tx(&write, id.uuid()).await? else { return Ok(None) };
        if status_of(&old)? != RunStatus::Queued || old.source.is_some() {
            return Ok(None);
        }
        let doing = "settling what a run takes from other stacks";
        let row = run::ActiveModel {
            id: ActiveValue::Unchanged(old.id),
            snapshot: set(to_json(snapshot, "what goes into a run")?),
            // It no longer waits.
            error: set(None),
            ..Default::default()
        };
        let new = row.update(&write.tx).await.map_err(gone_or("stack run", db(doing)))?;
        let SealedInputs { environment, files, taken } = sealed;
        if environment.is_some() || files.is_some() || taken.is_some() {
            let row = inputs::ActiveModel {
                id: ActiveValue::Unchanged(old.id),
                environment: set(environment.as_ref().map(|sealed| sealed.as_bytes().to_vec())),
                files: set(files.as_ref().map(|sealed| sealed.as_bytes().to_vec())),
                taken: set(taken.as_ref().map(|sealed| sealed.as_bytes().to_vec())),
            };
            row.update(&write.tx).await.map_err(gone_or("stack run", db(doing)))?;
        }
        write.commit().await?;
        Ok(Some(new.try_into()?))
    }

    /// Makes the next run of a stack pending, if none holds the queue. While the Job of a lost run may still hold the state, no apply
    /// starts: the waiting ones get a note about that.
    pub(super) async fn run_next(&self, stack: StackId, at: DateTime<Utc>) -> Result<Option<StackRun>> {
        let mut write = self.write().await?;
        let known = stack::row::Entity::find_by_id(stack.uuid()).lock_exclusive().one(&write.tx).await;
        let Some(known) = known.map_err(db("reading a stack"))? else { return Ok(None) };
        // A plan of a pull request waits for all other runs and for another such plan, and delays no other kind. Checks count separately.
        let checks = checks_in_tx(&write, stack).await?;
        let (is_held, pulls) = holders_in_tx(&write, stack, &checks).await?;
        if is_held {
            return Ok(None);
        }
        let queued: Vec<(Uuid, String, String, i64)> = run::Entity::find()
            .select_only()
            .columns([run::Column::Id, run::Column::Phase, run::Column::Cause, run::Column::Number])
            .filter(run::Column::StackId.eq(stack.uuid()))
            .filter(run::Column::FinishedAt.is_null())
            .filter(run::Column::Status.eq(RunStatus::Queued.as_str()))
            .filter(run::Column::Source.is_not_null())
            .into_tuple()
            .all(&write.tx)
            .await
            .map_err(db("reading the queue of a stack"))?;
        // No run is active: a lock that a run holds is that of a lost one.
        let lost = lock_of_runs(&known)?;
        let mut next: Option<(Rank, Uuid)> = None;
        let mut waiting = Vec::new();
        for (id, phase, cause, number) in queued {
            let phase = word(RunPhase::parse(&phase), "the phase of a run")?;
            let trigger = word(RunTrigger::parse(&cause), "what made a run")?;
            if phase == RunPhase::Apply && lost.is_some() {
                // The state would refuse its tool.
                waiting.push(id);
                continue;
            }
            let is_check = checks.contains(&id);
            if trigger == RunTrigger::PullRequest && pulls.contains(&is_check) {
                continue;
            }
            next = next.max(Some(((phase, trigger, Reverse(is_check), Reverse(number)), id)));
        }
        let is_told = match &lost {
            Some(lock) => wait_in_tx(&write, &waiting, lock).await?,
            None if next.is_some() => wait_no_more_in_tx(&write, stack.uuid()).await?,
            None => false,
        };
        let Some((_, id)) = next else {
            if is_told {
                write.stack_changed(stack.uuid(), at);
                write.commit().await?;
            }
            return Ok(None);
        };
        let Some(old) = lock_in_tx(&write, id).await? else { return Ok(None) };
        let mut new = moved(&old, &RunMove { to: Some(RunStatus::Pending), at, ..RunMove::default() })?;
        new.sequence += 1;
        write_in_tx(&write, &new).await?;
        stack_follows_in_tx(
            &write,
            stack.uuid(),
            <stack::row::ActiveModel as sea_orm::ActiveModelTrait>::default(),
        )
        .await?;
        write.publish(event(&new, true), at).await?;
        write.stack_changed(stack.uuid(), at);
        write.commit().await?;
        Ok(Some(new.try_into()?))
    }
}

/// The rank in a queue: the greatest goes first.
type Rank = (RunPhase, RunTrigger, Reverse<bool>, Reverse<i64>);

async fn lock_in_tx(write: &transaction::Write<'_>, id: Uuid) -> Result<Option<run::Model>> {
    let found = runs().filter(run::Column::Id.eq(id)).lock_exclusive().one(&write.tx).await;
    found.map_err(db("reading a run"))
}

/// Whether the run is as its mover expects. A mover without a status accepts any.
fn stands(run: &run::Model, change: &RunMove) -> Result<bool> {
    let is_from = change.from.is_empty() || change.from.contains(&status_of(run)?);
    let is_of = match change.of {
        Some((phase, attempt)) => phase_of(run)? == phase && run.attempt == i64::from(attempt),
        None => true,
    };
    Ok(is_from && is_of)
}

/// Whether any step of the run's Job that must not run twice has begun. The row is locked, so no step starts meanwhile.
async fn has_begun_in_tx(write: &transaction::Write<'_>, run: &run::Model) -> Result<bool> {
    let steps = step::Entity::find().filter(step::Column::RunId.eq(run.id)).all(&write.tx).await;
    let steps = steps.map_err(db("reading the steps of a run"))?;
    let steps = steps.into_iter().map(RunStep::try_from).collect::<Result<Vec<_>>>()?;
    Ok(has_begun(&StackRun::try_from(run.clone())?, &steps))
}

/// The row of a run after a move, with the sequence unchanged.
pub(super) fn moved(old: &run::Model, change: &RunMove) -> Result<run::Model> {
    let RunMove {
        from: _,
        of: _,
        unbegun: _,
        to,
        phase,
        begins,
        ends_credential,
        source,
        plan,
        approval,
        cancel,
        error,
        job,
        steps: _,
        at,
        tells_agent: _,
        unlocks: _,
        supersedes: _,
        drift: _,
        applied: _,
        follows: _,
    } = change;
    let mut new = old.clone();
    if to.is_some() || error.is_some() {
        // A note on the old status does not apply to the new one.
        new.error.clone_from(error);
    }
    if let Some(to) = to {
        to.as_str().clone_into(&mut new.status);
        new.finished_at = to.is_over().then_some(*at);
        if to.is_active() {
            new.heartbeat_at = Some(*at);
        } else {
            new.credential_hash = None;
        }
        if *to == RunStatus::Queued && phase.is_none() && phase_of(old)? == RunPhase::Plan {
            // Another Job computes a new plan.
            new.planned = None;
        }
        if *to == RunStatus::Running {
            new.started_at = new.started_at.or(Some(*at));
        }
    }
    if let Some(phase) = phase {
        phase.as_str().clone_into(&mut new.phase);
        new.attempt = 0;
        new.credential_hash = None;
        new.job = None;
    }
    if let Some(hash) = begins {
        new.attempt += 1;
        new.credential_hash = Some(hash.as_bytes().to_vec());
        new.heartbeat_at = Some(*at);
        new.job = None;
    }
    if *ends_credential {
        new.credential_hash = None;
    }
    if new.credential_hash != old.credential_hash {
        // It ends with the Job that it was made for.
        new.actor_hash = None;
    }
    if let Some(source) = source {
        new.artifact_digest = Some(artifact_of(source)?);
        new.source = Some(to_json(source, "the code of a run")?);
    }
    if let Some(plan) = plan {
        new.planned = Some(to_json(plan, "the plan of a run")?);
    }
    if let Some(approval) = approval {
        let mut approvals: Vec<RunApproval> = json(new.approvals, "the approvals of a run")?;
        approvals.push(approval.clone());
        new.approvals = to_json(&approvals, "the approvals of a run")?;
    }
    new.cancel_asked |= *cancel;
    if let Some(job) = job {
        new.job = Some(to_json(job, "the Job of a run")?);
    }
    Ok(new)
}

/// Writes all columns that a move changes.
pub(super) async fn write_in_tx(write: &transaction::Write<'_>, run: &run::Model) -> Result<()> {
    let row = run::ActiveModel {
        id: ActiveValue::Unchanged(run.id),
        status: set(run.status.clone()),
        phase: set(run.phase.clone()),
        attempt: set(run.attempt),
        source: set(run.source.clone()),
        artifact_digest: set(run.artifact_digest.clone()),
        planned: set(run.planned.clone()),
        approvals: set(run.approvals.clone()),
        cancel_asked: set(run.cancel_asked),
        error: set(run.error.clone()),
        job: set(run.job.clone()),
        heartbeat_at: set(run.heartbeat_at),
        credential_hash: set(run.credential_hash.clone()),
        actor_hash: set(run.actor_hash.clone()),
        started_at: set(run.started_at),
        finished_at: set(run.finished_at),
        sequence: set(run.sequence),
        ..Default::default()
    };
    row.update(&write.tx).await.map(drop).map_err(gone_or("stack run", db("moving a run")))
}

/// Replaces all steps of the phases of these, with their logs.
async fn replace_steps_in_tx(
    write: &transaction::Write<'_>,
    id: StackRunId,
    steps: &[RunStep],
) -> Result<()> {
    let doing = "writing the steps of a run";
    let phases: BTreeSet<&str> = steps.iter().map(|step| step.phase.as_str()).collect();
    if phases.is_empty() {
        return Ok(());
    }
    step::Entity::delete_many()
        .filter(step::Column::RunId.eq(id.uuid()))
        .filter(step::Column::Phase.is_in(phases))
        .exec(&write.tx)
        .await
        .map_err(db(doing))?;
    let rows = steps.iter().map(|step| step_row_of(id, step)).collect::<Result<Vec<_>>>()?;
    step::Entity::insert_many(rows).exec_without_returning(&write.tx).await.map(drop).map_err(db(doing))
}

/// Ends the steps of an ended run. In a successful run, a running step succeeded, and a pending one was not needed.
pub(super) async fn end_steps_in_tx(
    write: &transaction::Write<'_>,
    run: &run::Model,
    at: DateTime<Utc>,
) -> Result<()> {
    let (running, pending) = (StepStatus::Running.as_str(), StepStatus::Pending.as_str());
    let (left, end) = if status_of(run)? == RunStatus::Successful {
        (vec![running], StepStatus::Successful)
    } else {
        (vec![running, pending], StepStatus::Failed)
    };
    step::Entity::update_many()
        .col_expr(step::Column::Status, Expr::value(end.as_str()))
        .col_expr(step::Column::FinishedAt, Expr::value(at))
        .filter(step::Column::RunId.eq(run.id))
        .filter(step::Column::Status.is_in(left))
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db("ending the steps of a run"))
}

/// Cancels earlier runs whose plan, or whose place in the queue to plan, is obsolete now. An approved one stays: it is next, and if it
/// changes the state, this one's plan is refused. While a lost run holds the lock of the state, no apply starts, and they would pile up:
/// then the newest also supersedes the approved ones, but not the lost run itself.
async fn supersede_in_tx(
    write: &transaction::Write<'_>,
    (stack, by): (&stack::row::Model, &run::Model),
    at: DateTime<Utc>,
) -> Result<Vec<run::Model>> {
    let queued = Condition::all()
        .add(run::Column::Status.eq(RunStatus::Queued.as_str()))
        .add(run::Column::Phase.eq(RunPhase::Plan.as_str()));
    let mut waits =
        Condition::any().add(run::Column::Status.eq(RunStatus::PendingApproval.as_str())).add(queued);
    // This run holds the queue: any other run that holds the lock is lost.
    let holder = lock_of_runs(stack)?.and_then(|lock| RunActor::run_of(&lock.author));
    if let Some(lost) = holder.filter(|holder| holder.uuid() != by.id) {
        let held_up = Condition::all()
            .add(run::Column::Status.eq(RunStatus::Queued.as_str()))
            .add(run::Column::Phase.eq(RunPhase::Apply.as_str()))
            .add(run::Column::Id.ne(lost.uuid()));
        waits = waits.add(held_up);
    }
    let earlier = run::Entity::find()
        .filter(run::Column::StackId.eq(by.stack_id))
        .filter(run::Column::FinishedAt.is_null())
        .filter(run::Column::Number.lt(by.number))
        .filter(run::Column::Kind.is_in(OF_STACK))
        .filter(waits)
        .order_by_asc(run::Column::Id)
        .lock_exclusive()
        .all(&write.tx)
        .await
        .map_err(db("reading earlier runs of a stack"))?;
    let change = RunMove {
        to: Some(RunStatus::Cancelled),
        error: Some(format!("superseded by run {}", by.number)),
        at,
        ..RunMove::default()
    };
    let mut ended = Vec::with_capacity(earlier.len());
    for run in earlier {
        let run = moved(&run, &change)?;
        write_in_tx(write, &run).await?;
        end_steps_in_tx(write, &run, at).await?;
        ended.push(run);
    }
    Ok(ended)
}

async fn has_outputs_in_tx(write: &transaction::Write<'_>, stack: Uuid) -> Result<bool> {
    let found = output::Entity::find().filter(output::Column::StackId.eq(stack)).count(&write.tx).await;
    Ok(found.map_err(db("looking for outputs of a stack"))? > 0)
}

async fn replace_outputs_in_tx(
    write: &transaction::Write<'_>,
    stack: Uuid,
    outputs: &[SealedOutput],
) -> Result<()> {
    let doing = "writing the outputs of a stack";
    output::Entity::delete_many()
        .filter(output::Column::StackId.eq(stack))
        .exec(&write.tx)
        .await
        .map_err(db(doing))?;
    for chunk in outputs.chunks(OUTPUTS) {
        let rows = chunk.iter().map(|SealedOutput { name, secret, value }| output::ActiveModel {
            id: set(Uuid::now_v7()),
            stack_id: set(stack),
            name: set(name.clone()),
            secret: set(*secret),
            content: set(value.as_bytes().to_vec()),
        });
        output::Entity::insert_many(rows).exec_without_returning(&write.tx).await.map_err(db(doing))?;
    }
    Ok(())
}

/// The audit line of the end of a run.
pub(super) fn end_of(
    actor: &str,
    stack: &stack::row::Model,
    run: &run::Model,
    request_id: RequestId,
    at: DateTime<Utc>,
) -> AuditEntry {
    AuditEntry {
        action: format!("stack.run.{}", run.status).into(),
        // Actions of users have their own audit lines.
        user_id: None,
        actor: actor.to_owned(),
        token_id: None,
        address: None,
        target: AuditTarget {
            noun: "stack run".into(),
            id: Some(run.id),
            name: format!("run {} of {}", run.number, stack.name),
        },
        request_id,
        at,
        times: 1,
        before: None,
        after: None,
    }
}

/// The event of a run. A run that its agent is done with is removed from the work of its cluster.
pub(super) fn event(run: &run::Model, is_active: bool) -> FeedSubject {
    FeedSubject::Work {
        cluster_id: ClusterId::from_uuid(run.cluster_id),
        work: WorkRef::stack_run(StackRunId::from_uuid(run.id)),
        sequence: if is_active { run.sequence.cast_unsigned() } else { 0 },
        change: WorkChange::Changed,
    }
}
