//! Runs of stacks.

mod actor;
mod clock;
mod drift;
mod finding;
mod locks;
mod log;
mod made;
mod moves;
mod open;
mod plan;
mod prune;
mod pull;
mod row;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Approve, Audited, Authorized, ExecStack, Read, Write};
use plural_app::seal::Sealed;
use plural_app::secret::TokenHash;
use plural_app::stack_run::{
    FindingKind, LogPiece, MadeRun, OpenRuns, PlanPart, PlanPartRead, PlanPartWrite, RunCredential, RunMove,
    SealedInputs, SealedOutput, StackRunStore,
};
use plural_core::access::{Actor, UserActor};
use plural_core::ids::{ClusterId, RepositoryId, StackId, StackRunId};
use plural_core::page::Direction;
use plural_core::stack::Stack;
use plural_core::stack_run::{
    RunGroup, RunKind, RunPhase, RunSnapshot, RunStatus, RunStep, RunTrigger, StackRun, StepStatus,
};
use plural_core::{Error, Page, PageRequest, Result};
use sea_orm::sea_query::Condition;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

use self::moves::{Mover, OF_STACK};
use self::row::{inputs, run, runs, step};
use crate::database::Database;
use crate::error::{db, gone_or};
use crate::page::page;
use crate::records::AT_ONCE;
use crate::stack;
use crate::transaction::set;

pub(crate) use self::locks::unlocked_in_tx;
pub(crate) use self::moves::active_in_tx;
pub(crate) use self::prune::{BEHIND, LAST_BEHIND};
pub(crate) use self::row::output;

/// Number of newest ended runs per stack whose artifacts are kept: users look at their code.
pub(crate) const NEWEST: u32 = 10;

fn is_active() -> Condition {
    Condition::all()
        .add(run::Column::FinishedAt.is_null())
        .add(run::Column::Status.is_in([RunStatus::Pending.as_str(), RunStatus::Running.as_str()]))
}

type Bytes = Option<Vec<u8>>;

fn inputs_of((environment, files, taken): (Bytes, Bytes, Bytes)) -> SealedInputs {
    let [environment, files, taken] = [environment, files, taken].map(|bytes| bytes.map(Sealed::from_bytes));
    SealedInputs { environment, files, taken }
}

#[async_trait]
impl StackRunStore for Database {
    async fn stack_run_create(&self, by: Audited<'_, Stack, Write>, made: &MadeRun) -> Result<StackRun> {
        self.run_create(by.target().id, by.entry(), made).await
    }

    async fn stack_run_exec(&self, by: Audited<'_, Stack, ExecStack>, made: &MadeRun) -> Result<StackRun> {
        self.run_create(by.target().id, by.entry(), made).await
    }

    async fn stack_inputs(&self, stack: StackId) -> Result<SealedInputs> {
        let found: Option<(Bytes, Bytes)> = stack::row::Entity::find_by_id(stack.uuid())
            .select_only()
            .columns([stack::row::Column::Environment, stack::row::Column::Files])
            .into_tuple()
            .one(&self.reader)
            .await
            .map_err(db("reading the inputs of a stack"))?;
        let found = found.map(|(environment, files)| inputs_of((environment, files, None)));
        found.ok_or(Error::not_found("stack"))
    }

    async fn stack_run(&self, id: StackRunId) -> Result<Option<StackRun>> {
        let found = runs().filter(run::Column::Id.eq(id.uuid())).one(&self.reader).await;
        found.map_err(db("reading a run"))?.map(StackRun::try_from).transpose()
    }

    async fn stack_run_newest(&self, stack: StackId) -> Result<Option<StackRun>> {
        let found = runs()
            .filter(run::Column::StackId.eq(stack.uuid()))
            .filter(run::Column::Kind.is_in(OF_STACK))
            .order_by_desc(run::Column::Number)
            .limit(1)
            .one(&self.reader)
            .await;
        found.map_err(db("reading the newest run of a stack"))?.map(StackRun::try_from).transpose()
    }

    async fn stack_run_applied(&self, stack: StackId) -> Result<Option<StackRun>> {
        let found = runs()
            .filter(run::Column::StackId.eq(stack.uuid()))
            .filter(run::Column::Kind.eq(RunKind::Apply.as_str()))
            .filter(run::Column::Phase.eq(RunPhase::Apply.as_str()))
            .filter(run::Column::Status.eq(RunStatus::Successful.as_str()))
            .order_by_desc(run::Column::Number)
            .limit(1)
            .one(&self.reader)
            .await;
        found.map_err(db("reading the run of a stack that applied last"))?.map(StackRun::try_from).transpose()
    }

    async fn stack_run_settle(
        &self,
        id: StackRunId,
        snapshot: &RunSnapshot,
        inputs: &SealedInputs,
    ) -> Result<Option<StackRun>> {
        self.run_settle(id, snapshot, inputs).await
    }

    async fn stack_run_inputs(&self, id: StackRunId) -> Result<SealedInputs> {
        let found: Option<(Bytes, Bytes, Bytes)> = inputs::Entity::find_by_id(id.uuid())
            .select_only()
            .columns([inputs::Column::Environment, inputs::Column::Files, inputs::Column::Taken])
            .into_tuple()
            .one(&self.reader)
            .await
            .map_err(db("reading the inputs of a run"))?;
        found.map(inputs_of).ok_or(Error::not_found("stack run"))
    }

    async fn stack_runs(
        &self,
        stack: &Authorized<Stack, Read>,
        of: &[RunGroup],
        request: &PageRequest,
    ) -> Result<Page<StackRun>> {
        // Newest first: a run that follows another one is newer.
        let mut query = runs().filter(run::Column::StackId.eq(stack.id.uuid()));
        if !of.is_empty() {
            query = query.filter(in_groups(of));
        }
        if let Some(after) = request.after {
            query = query.filter(run::Column::Id.lt(after));
        }
        if let Some(before) = request.before {
            query = query.filter(run::Column::Id.gt(before));
        }
        query = match request.direction {
            Direction::Forward => query.order_by_desc(run::Column::Id),
            Direction::Backward => query.order_by_asc(run::Column::Id),
        };
        let rows = query.limit(u64::from(request.limit) + 1).all(&self.reader).await;
        let rows = rows.map_err(db("reading the runs of a stack"))?;
        let runs = rows.into_iter().map(StackRun::try_from).collect::<Result<Vec<_>>>()?;
        Ok(Page::from_rows(request, runs))
    }

    async fn stack_runs_open(&self, after: Option<StackRunId>) -> Result<OpenRuns> {
        self.runs_open(after).await
    }

    async fn stack_runs_open_of(&self, stack: StackId) -> Result<Vec<StackRun>> {
        self.runs_open_of(stack).await
    }

    async fn stack_runs_waiting(&self, page: &PageRequest) -> Result<(Vec<StackRun>, Option<Uuid>)> {
        self.runs_waiting(page).await
    }

    async fn stack_run_decide(
        &self,
        by: Audited<'_, Stack, Approve>,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>> {
        self.run_move(Mover::Person { stack: by.target().id, entry: by.entry() }, id, change).await
    }

    async fn stack_run_change(
        &self,
        by: Audited<'_, Stack, Write>,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>> {
        self.run_move(Mover::Person { stack: by.target().id, entry: by.entry() }, id, change).await
    }

    async fn stack_run_exec_change(
        &self,
        by: Audited<'_, Stack, ExecStack>,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>> {
        self.run_move(Mover::Person { stack: by.target().id, entry: by.entry() }, id, change).await
    }

    async fn stack_run_move(
        &self,
        actor: &Actor,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>> {
        self.run_move(Mover::Machine(actor), id, change).await
    }

    async fn stack_run_next(&self, stack: StackId, at: DateTime<Utc>) -> Result<Option<StackRun>> {
        self.run_next(stack, at).await
    }

    async fn stack_run_steps(&self, id: StackRunId) -> Result<Vec<RunStep>> {
        let steps = step::Entity::find()
            .filter(step::Column::RunId.eq(id.uuid()))
            .order_by_asc(step::Column::Number)
            .all(&self.reader)
            .await
            .map_err(db("reading the steps of a run"))?;
        steps.into_iter().map(RunStep::try_from).collect()
    }

    async fn stack_run_step(
        &self,
        id: StackRunId,
        of: (RunPhase, u32),
        index: u32,
        to: (StepStatus, Option<i32>),
        at: DateTime<Utc>,
    ) -> Result<bool> {
        let (doing, (status, exit_code)) = ("moving a step of a run", to);
        let write = self.write().await?;
        // This locks the run, as every move of it does.
        if !log::beat_in_tx(&write, id, Some(of), at).await? {
            return Ok(false);
        }
        let found = log::step_at(id, index).lock_exclusive().one(&write.tx).await.map_err(db(doing))?;
        let found = found.ok_or(Error::not_found("run step"))?;
        if [StepStatus::Successful.as_str(), StepStatus::Failed.as_str()].contains(&found.status.as_str()) {
            write.commit().await?;
            return Ok(true);
        }
        let is_over = matches!(status, StepStatus::Successful | StepStatus::Failed);
        let has_begun = is_over || status == StepStatus::Running;
        let change = step::ActiveModel {
            id: ActiveValue::Unchanged(found.id),
            status: set(status.as_str().to_owned()),
            exit_code: set(exit_code),
            started_at: set(found.started_at.or(has_begun.then_some(at))),
            finished_at: set(is_over.then_some(at)),
            ..Default::default()
        };
        change.update(&write.tx).await.map_err(gone_or("run step", db(doing)))?;
        log::pages_follow_in_tx(&write, id, at).await?;
        write.commit().await?;
        Ok(true)
    }

    async fn stack_run_log(
        &self,
        id: StackRunId,
        of: (RunPhase, u32),
        index: u32,
        piece: &LogPiece,
    ) -> Result<Option<u64>> {
        self.log_append(id, of, index, piece).await
    }

    async fn stack_run_logs(
        &self,
        id: StackRunId,
        index: u32,
        from: u64,
        bytes: u64,
    ) -> Result<Vec<LogPiece>> {
        self.log_read(id, index, from, bytes).await
    }

    async fn stack_run_beat(&self, id: StackRunId, at: DateTime<Utc>) -> Result<Option<StackRun>> {
        let write = self.write().await?;
        log::beat_in_tx(&write, id, None, at).await?;
        let found = runs().filter(run::Column::Id.eq(id.uuid())).one(&write.tx).await;
        let found = found.map_err(db("taking a run's sign of life"))?;
        write.commit().await?;
        found.map(StackRun::try_from).transpose()
    }

    async fn stack_plan_put(&self, id: StackRunId, write: &PlanPartWrite) -> Result<()> {
        self.plan_put(id, write).await
    }

    async fn stack_plan_get(&self, id: StackRunId, part: PlanPart) -> Result<Option<PlanPartRead>> {
        self.plan_get(id, part).await
    }

    async fn stack_finding_put(&self, id: StackRunId, kind: FindingKind, found: &Sealed) -> Result<()> {
        self.finding_put(id, kind, found).await
    }

    async fn stack_findings(&self, id: StackRunId) -> Result<Vec<(FindingKind, Sealed)>> {
        self.findings(id).await
    }

    async fn stack_run_credential(&self, hash: &TokenHash) -> Result<Option<RunCredential>> {
        let doing = "looking for whose credential of a run it is";
        let found = run::Entity::find()
            .filter(run::Column::CredentialHash.eq(hash.as_bytes().to_vec()))
            .filter(is_active())
            .one(&self.reader)
            .await
            .map_err(db(doing))?;
        let Some(found) = found else { return Ok(None) };
        let stack: Option<String> = stack::row::Entity::find_by_id(found.stack_id)
            .select_only()
            .column(stack::row::Column::Name)
            .into_tuple()
            .one(&self.reader)
            .await
            .map_err(db(doing))?;
        // Deleted a moment ago, with its run.
        let Some(stack) = stack else { return Ok(None) };
        Ok(Some(RunCredential { run: found.try_into()?, stack }))
    }

    async fn stack_runs_of_cluster(
        &self,
        cluster: ClusterId,
        request: &PageRequest,
    ) -> Result<Page<StackRun>> {
        let query = run::Entity::find().filter(run::Column::ClusterId.eq(cluster.uuid())).filter(is_active());
        page(&self.reader, query, run::Column::Id, request, StackRun::try_from).await
    }

    async fn stack_run_actor_begins(&self, id: StackRunId, attempt: u32, hash: &TokenHash) -> Result<bool> {
        self.run_actor_begins(id, attempt, hash).await
    }

    async fn stack_run_actor(&self, hash: &TokenHash) -> Result<Option<UserActor>> {
        self.run_actor(hash).await
    }

    async fn stack_outputs(&self, stack: StackId) -> Result<Vec<SealedOutput>> {
        let outputs = output::Entity::find()
            .filter(output::Column::StackId.eq(stack.uuid()))
            .order_by_asc(output::Column::Name)
            .all(&self.reader)
            .await
            .map_err(db("reading the outputs of a stack"))?;
        Ok(outputs.into_iter().map(SealedOutput::from).collect())
    }

    async fn agent_runs(&self, cluster: ClusterId, ids: &[StackRunId]) -> Result<Vec<StackRun>> {
        // Also if the Job is not reported yet: its agent may have been killed after it created the Job.
        let had_job =
            Condition::any().add(run::Column::Job.is_not_null()).add(run::Column::Attempt.gt(0_i64));
        let stands = Condition::any()
            .add(run::Column::FinishedAt.is_not_null())
            .add(run::Column::Status.eq(RunStatus::Queued.as_str()));
        let left = Condition::all().add(stands).add(had_job);
        let mut known = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(AT_ONCE) {
            let found = runs()
                .filter(run::Column::Id.is_in(chunk.iter().map(|id| id.uuid())))
                .filter(run::Column::ClusterId.eq(cluster.uuid()))
                .filter(Condition::any().add(is_active()).add(left.clone()))
                .order_by_asc(run::Column::Id)
                .all(&self.reader)
                .await
                .map_err(db("reading the runs of a cluster"))?;
            for run in found {
                known.push(run.try_into()?);
            }
        }
        Ok(known)
    }

    async fn stack_sources(&self, repository: RepositoryId) -> Result<Vec<Stack>> {
        // Their states are not needed.
        let stacks = stack::row::Entity::find()
            .filter(stack::row::Column::RepositoryId.eq(repository.uuid()))
            .filter(stack::row::Column::Paused.eq(false))
            .filter(stack::row::Column::DeletedAt.is_null())
            .order_by_asc(stack::row::Column::Id)
            .all(&self.reader)
            .await
            .map_err(db("reading the stacks of a repository"))?;
        stacks.into_iter().map(Stack::try_from).collect()
    }

    async fn stack_source_seen(
        &self,
        stack: StackId,
        seen: &std::result::Result<(String, String), String>,
        at: DateTime<Utc>,
    ) -> Result<()> {
        let doing = "recording what was seen of a stack's code";
        let mut change =
            stack::row::ActiveModel { seen_at: set(Some(at)), source_error: set(None), ..Default::default() };
        match seen {
            Ok((closure, sha)) => {
                change.seen_closure = set(Some(closure.clone()));
                change.seen_sha = set(Some(sha.clone()));
            }
            // The last seen commit stays: when the code can be read again, only a new one starts a run.
            Err(error) => change.source_error = set(Some(error.clone())),
        }
        let write = self.write().await?;
        stack::row::Entity::update_many()
            .set(change)
            .filter(stack::row::Column::Id.eq(stack.uuid()))
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
        write.stack_changed(stack.uuid(), at);
        write.commit().await
    }

    async fn stack_seen(&self, stack: StackId) -> Result<Option<String>> {
        stack::row::Entity::find_by_id(stack.uuid())
            .select_only()
            .column(stack::row::Column::SeenClosure)
            .filter(stack::row::Column::SeenClosure.is_not_null())
            .into_tuple()
            .one(&self.reader)
            .await
            .map_err(db("reading what was seen of a stack's code"))
    }

    async fn stack_runs_prune(&self, keep: u32) -> Result<u64> {
        self.prune(keep).await
    }
}

/// Runs of one of these groups.
fn in_groups(of: &[RunGroup]) -> Condition {
    let proposed = RunTrigger::PullRequest.as_str();
    of.iter().fold(Condition::any(), |any, group| {
        if *group == RunGroup::PullRequest {
            return any.add(run::Column::Cause.eq(proposed));
        }
        let kinds = RunKind::ALL.into_iter().filter(|kind| RunGroup::of(*kind, RunTrigger::Manual) == *group);
        let of_kind = run::Column::Kind.is_in(kinds.map(RunKind::as_str));
        any.add(Condition::all().add(of_kind).add(run::Column::Cause.ne(proposed)))
    })
}
