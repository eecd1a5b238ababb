//! Rows of runs, their steps, logs and plans, and of outputs.

use plural_app::seal::Sealed;
use plural_app::stack_run::SealedOutput;
use plural_core::ids::{ClusterId, ProjectId, RunStepId, StackId, StackRunId, UserId};
use plural_core::stack_run::{
    RunKind, RunPhase, RunSource, RunStatus, RunStep, RunTrigger, StackRun, StepStatus,
};
use plural_core::stack_spec::Stage;
use plural_core::{Error, Result};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, Select};

use crate::convert::{json, to_json, word};
use crate::database::corrupt;
use crate::transaction::set;

pub(crate) mod run {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_runs")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub stack_id: Uuid,
        pub project_id: Uuid,
        pub cluster_id: Uuid,
        /// Below zero from when the run is forgotten until all of it is gone.
        pub number: i64,
        pub kind: String,
        /// What made it; its own word is one of SQL's.
        pub cause: String,
        pub status: String,
        pub phase: String,
        pub attempt: i64,
        pub snapshot: Json,
        pub source: Option<Json>,
        /// That of `source`, for the collection of artifacts.
        pub artifact_digest: Option<Vec<u8>>,
        pub planned: Option<Json>,
        pub approvals: Json,
        pub cancel_asked: bool,
        pub error: Option<String>,
        pub job: Option<Json>,
        pub heartbeat_at: Option<DateTimeUtc>,
        /// None while no Job of it counts.
        pub credential_hash: Option<Vec<u8>>,
        /// None while no Job of it applies in the name of an actor.
        pub actor_hash: Option<Vec<u8>>,
        pub created_by_id: Option<Uuid>,
        pub author: String,
        pub created_at: DateTimeUtc,
        pub started_at: Option<DateTimeUtc>,
        /// It is over if, and only if, this is there.
        pub finished_at: Option<DateTimeUtc>,
        pub sequence: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// What of a run is sealed: columns of the same table that are read only where they are opened.
pub(crate) mod inputs {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_runs")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub environment: Option<Vec<u8>>,
        pub files: Option<Vec<u8>>,
        pub taken: Option<Vec<u8>>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod step {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_run_steps")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub run_id: Uuid,
        pub number: i64,
        pub phase: String,
        pub stage: String,
        pub name: String,
        pub cmd: String,
        pub args: Json,
        pub status: String,
        pub exit_code: Option<i32>,
        pub started_at: Option<DateTimeUtc>,
        pub finished_at: Option<DateTimeUtc>,
        /// Bytes of its log that are known.
        pub logged: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod log {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_run_logs")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub step_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub place: i64,
        pub at: DateTimeUtc,
        pub content: Vec<u8>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod part {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_plan_parts")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub run_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub part: String,
        pub digest: Vec<u8>,
        pub size: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod piece {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_plan_pieces")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub run_id: Uuid,
        /// Counts the pieces of a part, from where those of the part begin.
        #[sea_orm(primary_key, auto_increment = false)]
        pub number: i64,
        pub part: String,
        pub sealed: Vec<u8>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod output {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_outputs")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub stack_id: Uuid,
        pub name: String,
        pub secret: bool,
        pub content: Vec<u8>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// Runs that are not forgotten.
pub(super) fn runs() -> Select<run::Entity> {
    run::Entity::find().filter(run::Column::Number.gt(0_i64))
}

/// The status of a row.
pub(super) fn status_of(row: &run::Model) -> Result<RunStatus> {
    word(RunStatus::parse(&row.status), "the status of a run")
}

/// The phase of a row.
pub(super) fn phase_of(row: &run::Model) -> Result<RunPhase> {
    word(RunPhase::parse(&row.phase), "the phase of a run")
}

/// The artifact of a source, as it is named where artifacts are collected.
pub(super) fn artifact_of(source: &RunSource) -> Result<Vec<u8>> {
    let digest = hex::decode(&source.artifact_digest).ok().filter(|digest| digest.len() == 32);
    digest.ok_or_else(|| Error::internal("writing the code of a run", "its artifact's digest is none"))
}

impl TryFrom<run::Model> for StackRun {
    type Error = Error;

    fn try_from(row: run::Model) -> Result<Self> {
        let (status, phase) = (status_of(&row)?, phase_of(&row)?);
        let run::Model {
            id,
            stack_id,
            project_id,
            cluster_id,
            number,
            kind,
            cause,
            status: _,
            phase: _,
            attempt,
            snapshot,
            source,
            artifact_digest: _,
            planned,
            approvals,
            cancel_asked,
            error,
            job,
            heartbeat_at,
            credential_hash: _,
            actor_hash: _,
            created_by_id,
            author,
            created_at,
            started_at,
            finished_at,
            sequence,
        } = row;
        Ok(Self {
            id: StackRunId::from_uuid(id),
            stack_id: StackId::from_uuid(stack_id),
            project_id: ProjectId::from_uuid(project_id),
            cluster_id: ClusterId::from_uuid(cluster_id),
            number: number.cast_unsigned(),
            kind: word(RunKind::parse(&kind), "the kind of a run")?,
            trigger: word(RunTrigger::parse(&cause), "what made a run")?,
            status,
            phase,
            attempt: u32::try_from(attempt).map_err(|_| corrupt("the attempt of a run"))?,
            snapshot: json(snapshot, "what goes into a run")?,
            source: source.map(|source| json(source, "the code of a run")).transpose()?,
            plan: planned.map(|plan| json(plan, "the plan of a run")).transpose()?,
            approvals: json(approvals, "the approvals of a run")?,
            cancel_asked,
            error,
            job: job.map(|job| json(job, "the Job of a run")).transpose()?,
            heartbeat_at,
            created_by: created_by_id.map(UserId::from_uuid),
            author,
            created_at,
            started_at,
            finished_at,
            sequence: sequence.cast_unsigned(),
        })
    }
}

/// The row of a new run, which is queued, without what of it is sealed.
pub(super) fn row_of(run: &StackRun) -> Result<run::ActiveModel> {
    let StackRun {
        id,
        stack_id,
        project_id,
        cluster_id,
        number,
        kind,
        trigger,
        status,
        phase,
        attempt,
        snapshot,
        source,
        plan,
        approvals,
        cancel_asked,
        error,
        job,
        heartbeat_at,
        created_by,
        author,
        created_at,
        started_at,
        finished_at,
        sequence,
    } = run;
    let source_json = source.as_ref().map(|source| to_json(source, "the code of a run")).transpose()?;
    let job = job.as_ref().map(|job| to_json(job, "the Job of a run")).transpose()?;
    let planned = plan.as_ref().map(|plan| to_json(plan, "the plan of a run")).transpose()?;
    Ok(run::ActiveModel {
        id: set(id.uuid()),
        stack_id: set(stack_id.uuid()),
        project_id: set(project_id.uuid()),
        cluster_id: set(cluster_id.uuid()),
        number: set(number.cast_signed()),
        kind: set(kind.as_str().to_owned()),
        cause: set(trigger.as_str().to_owned()),
        status: set(status.as_str().to_owned()),
        phase: set(phase.as_str().to_owned()),
        attempt: set(i64::from(*attempt)),
        snapshot: set(to_json(snapshot, "what goes into a run")?),
        source: set(source_json),
        artifact_digest: set(source.as_ref().map(artifact_of).transpose()?),
        planned: set(planned),
        approvals: set(to_json(approvals, "the approvals of a run")?),
        cancel_asked: set(*cancel_asked),
        error: set(error.clone()),
        job: set(job),
        heartbeat_at: set(*heartbeat_at),
        credential_hash: set(None),
        actor_hash: set(None),
        created_by_id: set(created_by.map(UserId::uuid)),
        author: set(author.clone()),
        created_at: set(*created_at),
        started_at: set(*started_at),
        finished_at: set(*finished_at),
        sequence: set(sequence.cast_signed()),
    })
}

impl TryFrom<step::Model> for RunStep {
    type Error = Error;

    fn try_from(row: step::Model) -> Result<Self> {
        let step::Model {
            id,
            run_id,
            number,
            phase,
            stage,
            name,
            cmd,
            args,
            status,
            exit_code,
            started_at,
            finished_at,
            logged: _,
        } = row;
        Ok(Self {
            id: RunStepId::from_uuid(id),
            run_id: StackRunId::from_uuid(run_id),
            phase: word(RunPhase::parse(&phase), "the phase of a step")?,
            index: u32::try_from(number).map_err(|_| corrupt("the place of a step"))?,
            stage: word(Stage::parse(&stage), "the stage of a step")?,
            name,
            cmd,
            args: json(args, "the arguments of a step")?,
            status: word(StepStatus::parse(&status), "the status of a step")?,
            exit_code,
            started_at,
            finished_at,
        })
    }
}

/// The row of a step of a run, nothing of whose log is known.
pub(super) fn step_row_of(run: StackRunId, step: &RunStep) -> Result<step::ActiveModel> {
    let RunStep {
        id,
        run_id: _,
        phase,
        index,
        stage,
        name,
        cmd,
        args,
        status,
        exit_code,
        started_at,
        finished_at,
    } = step;
    Ok(step::ActiveModel {
        id: set(id.uuid()),
        run_id: set(run.uuid()),
        number: set(i64::from(*index)),
        phase: set(phase.as_str().to_owned()),
        stage: set(stage.as_str().to_owned()),
        name: set(name.clone()),
        cmd: set(cmd.clone()),
        args: set(to_json(args, "the arguments of a step")?),
        status: set(status.as_str().to_owned()),
        exit_code: set(*exit_code),
        started_at: set(*started_at),
        finished_at: set(*finished_at),
        logged: set(0),
    })
}

impl From<output::Model> for SealedOutput {
    fn from(row: output::Model) -> Self {
        let output::Model { id: _, stack_id: _, name, secret, content } = row;
        Self { name, secret, value: Sealed::from_bytes(content) }
    }
}
