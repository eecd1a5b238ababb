//! What was found of plans.

use plural_app::seal::Sealed;
use plural_app::stack_run::FindingKind;
use plural_core::ids::StackRunId;
use plural_core::stack_run::{RunPhase, RunStatus};
use plural_core::{Error, Result};
use sea_orm::sea_query::OnConflict;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use super::row::{phase_of, run, status_of};
use crate::database::Database;
use crate::error::db;
use crate::transaction::{self, set};

mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_run_findings")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub run_id: Uuid,
        /// What it is of.
        #[sea_orm(primary_key, auto_increment = false)]
        pub number: i64,
        pub content: Vec<u8>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// What was found of the plan of a Job says nothing of that of the next one.
pub(super) async fn forget_in_tx(write: &transaction::Write<'_>, run: Uuid) -> Result<()> {
    row::Entity::delete_many()
        .filter(row::Column::RunId.eq(run))
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db("forgetting what was found of a plan"))
}

impl Database {
    /// Stores what was found of a plan, while its run plans: what people read when they agree to it does not change under them.
    pub(super) async fn finding_put(&self, id: StackRunId, kind: FindingKind, found: &Sealed) -> Result<()> {
        let doing = "storing what was found of a plan";
        let write = self.write().await?;
        let run = run::Entity::find_by_id(id.uuid()).lock_exclusive().one(&write.tx).await;
        let run = run.map_err(db("reading a run"))?.ok_or(Error::not_found("stack run"))?;
        // Which resources there are is known when they are made.
        let is_in_time = kind == FindingKind::Resources || phase_of(&run)? == RunPhase::Plan;
        if status_of(&run)? != RunStatus::Running || !is_in_time {
            return Err(Error::conflict(
                "the run is not planning: nothing that was found of a plan is taken",
            ));
        }
        let row = row::ActiveModel {
            run_id: set(run.id),
            number: set(kind.number()),
            content: set(found.as_bytes().to_vec()),
        };
        let newer = OnConflict::columns([row::Column::RunId, row::Column::Number])
            .update_column(row::Column::Content)
            .to_owned();
        let put = row::Entity::insert(row).on_conflict(newer).exec_without_returning(&write.tx).await;
        put.map_err(db(doing))?;
        write.commit().await
    }

    /// What was found of the plan of a run.
    pub(super) async fn findings(&self, id: StackRunId) -> Result<Vec<(FindingKind, Sealed)>> {
        let rows = row::Entity::find()
            .filter(row::Column::RunId.eq(id.uuid()))
            .order_by_asc(row::Column::Number)
            .all(&self.reader)
            .await
            .map_err(db("reading what was found of a plan"))?;
        let read = |row::Model { run_id: _, number, content }| {
            let Some(kind) = FindingKind::numbered(number) else {
                // A later release beside this one says more of a plan.
                tracing::debug!(stack_run.id = %id, number, "left out what was found of a plan: its kind is not known");
                return None;
            };
            Some((kind, Sealed::from_bytes(content)))
        };
        Ok(rows.into_iter().filter_map(read).collect())
    }
}
