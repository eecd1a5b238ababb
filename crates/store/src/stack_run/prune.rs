//! Runs that are forgotten. Each has up to 96 MiB of a plan, and logs: it is hidden at once, and what there is of it goes in small writes,
//! so that nobody who writes waits for long. Where the console ends between two of them, the next pass finds the run again, and nobody else.

use plural_core::Result;
use plural_core::ids::StackRunId;
use sea_orm::sea_query::{Expr, Value};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect};
use uuid::Uuid;

use super::row::{inputs, run, step};
use crate::database::Database;
use crate::error::db;

/// Runs that are found at once: the runs of all stacks are looked through for that.
const FOUND: i64 = 5_000;
/// Runs that are hidden in one write.
const HIDDEN: usize = 50;
/// Rows of logs that one write removes, each with at most 64 KiB.
const ROWS: u64 = 64;
/// Pieces of plans that one write removes, each with 256 KiB.
const PIECES: u64 = 16;

/// Of each stack the newest runs that are not among its newest `$1`: of those that look for drift or plan a pull request, and of all others. Clocks
/// look often, and anybody may open pull requests: neither pushes out what was applied. Older ones are behind these.
pub(crate) const BEHIND: &str = "behind AS MATERIALIZED (SELECT s.id, \
    (SELECT k.number FROM stack_runs k WHERE k.stack_id = s.id AND k.number > 0 AND (k.kind = 'drift' OR k.cause = 'pull_request') \
     ORDER BY k.number DESC LIMIT 1 OFFSET $1) AS drifts, \
    (SELECT k.number FROM stack_runs k WHERE k.stack_id = s.id AND k.number > 0 AND k.kind <> 'drift' AND k.cause <> 'pull_request' \
     ORDER BY k.number DESC LIMIT 1 OFFSET $1) AS others \
    FROM stacks s)";
/// The last number that is behind, for a run `r` and its stack `b` of these; 0 where none is.
pub(crate) const LAST_BEHIND: &str =
    "COALESCE(CASE WHEN r.kind = 'drift' OR r.cause = 'pull_request' THEN b.drifts ELSE b.others END, 0)";

const DOING: &str = "forgetting old runs";

impl Database {
    /// Removes runs that are over beyond the newest ones of each stack, and beyond the newest of those that look for drift or plan a pull
    /// request.
    pub(super) async fn prune(&self, keep: u32) -> Result<u64> {
        let mut forgotten = 0;
        loop {
            let old = self.old(keep).await?;
            if old.is_empty() {
                return Ok(forgotten);
            }
            for some in old.chunks(HIDDEN) {
                self.hide(some).await?;
                for id in some {
                    forgotten += self.forget(StackRunId::from_uuid(*id)).await?;
                }
            }
        }
    }

    /// Some that are to go, and those that were hidden before.
    async fn old(&self, keep: u32) -> Result<Vec<Uuid>> {
        let sql = format!(
            "WITH {BEHIND} SELECT r.id FROM stack_runs r JOIN behind b ON b.id = r.stack_id WHERE r.finished_at IS NOT NULL \
             AND (r.number < 0 OR r.number <= {LAST_BEHIND}) ORDER BY r.id LIMIT $2"
        );
        let values = [i64::from(keep).into(), FOUND.into()];
        let rows = self.reader.query_all_raw(self.statement(&sql, values)).await.map_err(db(DOING))?;
        let ids = rows.iter().map(|row| row.try_get::<Uuid>("", "id"));
        ids.collect::<std::result::Result<Vec<_>, _>>().map_err(db(DOING))
    }

    async fn hide(&self, ids: &[Uuid]) -> Result<()> {
        let write = self.write().await?;
        run::Entity::update_many()
            .col_expr(run::Column::Number, Expr::cust("-number"))
            .filter(run::Column::Id.is_in(ids.iter().copied()))
            .filter(run::Column::Number.gt(0_i64))
            .exec(&write.tx)
            .await
            .map_err(db(DOING))?;
        // Whoever lists what is sealed lists none of them.
        inputs::Entity::update_many()
            .col_expr(inputs::Column::Environment, Expr::value(None::<Vec<u8>>))
            .col_expr(inputs::Column::Files, Expr::value(None::<Vec<u8>>))
            .col_expr(inputs::Column::Taken, Expr::value(None::<Vec<u8>>))
            .filter(inputs::Column::Id.is_in(ids.iter().copied()))
            .exec(&write.tx)
            .await
            .map_err(db(DOING))?;
        write.commit().await
    }

    /// Removes what there is of a run that is hidden, and then its row.
    async fn forget(&self, id: StackRunId) -> Result<u64> {
        let pieces = "DELETE FROM stack_plan_pieces WHERE run_id = $1 AND number IN \
                      (SELECT number FROM stack_plan_pieces WHERE run_id = $1 ORDER BY number LIMIT $2)";
        self.remove(pieces, id.uuid(), PIECES).await?;
        let steps: Vec<Uuid> = step::Entity::find()
            .select_only()
            .column(step::Column::Id)
            .filter(step::Column::RunId.eq(id.uuid()))
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db(DOING))?;
        let logs = "DELETE FROM stack_run_logs WHERE step_id = $1 AND place IN \
                    (SELECT place FROM stack_run_logs WHERE step_id = $1 ORDER BY place LIMIT $2)";
        for step in steps {
            self.remove(logs, step, ROWS).await?;
        }
        let write = self.write().await?;
        let gone = run::Entity::delete_many()
            .filter(run::Column::Id.eq(id.uuid()))
            .filter(run::Column::Number.lt(0_i64))
            .exec(&write.tx)
            .await
            .map_err(db(DOING))?;
        write.commit().await?;
        Ok(gone.rows_affected)
    }

    /// Removes rows, so many in a write, until there are no more.
    async fn remove(&self, sql: &str, of: Uuid, most: u64) -> Result<()> {
        loop {
            let values: [Value; 2] = [of.into(), most.cast_signed().into()];
            let write = self.write().await?;
            let gone = write.tx.execute_raw(self.statement(sql, values)).await.map_err(db(DOING))?;
            write.commit().await?;
            if gone.rows_affected() < most {
                return Ok(());
            }
        }
    }
}
