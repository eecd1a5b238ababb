//! Runs that are not over.

use plural_app::stack_run::OpenRuns;
use plural_core::ids::{StackId, StackRunId};
use plural_core::page::{Direction, PageRequest};
use plural_core::stack_dependency::Upstream;
use plural_core::stack_run::{RunStatus, StackRun};
use plural_core::stack_turns::OpenRun;
use plural_core::{Error, Result};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QueryResult, QuerySelect};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::row::run;
use crate::convert::word;
use crate::database::{Database, corrupt};
use crate::error::db;

/// Runs of one page.
const PAGE: usize = 1_000;

/// What is read of each. Only of kinds that wait for other stacks it is said whether they do, and only where a plan waits for people what
/// that waits for. `@VALID` and `@SOURCE` keep what is no document from failing the statement for all of them.
const COLUMNS: &str = "r.id, r.stack_id, r.status, r.source IS NOT NULL AS prepared, r.heartbeat_at, r.created_at, \
    CASE WHEN r.status = 'queued' AND r.kind IN ('apply', 'dry_run')@VALID \
    THEN CAST(r.snapshot -> 'upstream' AS text) END AS upstream, \
    CASE WHEN r.status = 'pending_approval' THEN CAST(r.planned AS text) END AS planned, \
    CASE WHEN r.status = 'pending_approval' THEN CAST(r.approvals AS text) END AS approvals, \
    CASE WHEN r.status = 'pending_approval'@VALID THEN CAST(r.snapshot -> 'spec' -> 'approval' AS text) END AS approval, \
    CASE WHEN r.status = 'pending_approval'@SOURCE THEN CAST(r.source -> 'moreEmails' AS text) END AS more_emails";

/// The newest runs of stacks that are to be deleted, where these destroyed them. Those stacks have an index, and are few.
const DESTROYED: &str = "FROM stacks s JOIN stack_runs r ON r.stack_id = s.id \
    WHERE s.deleted_at IS NOT NULL AND s.status = 'successful' AND r.kind = 'destroy' AND r.status = 'successful' \
    AND r.number > 0 AND NOT EXISTS (SELECT 1 FROM stack_runs n \
    WHERE n.stack_id = s.id AND n.number > r.number AND n.kind IN ('apply', 'destroy'))";

impl Database {
    /// A page of all runs that are not over.
    pub(super) async fn runs_open(&self, after: Option<StackRunId>) -> Result<OpenRuns> {
        let doing = "reading runs that are not over";
        // PostgreSQL takes nothing else into such a column.
        let (valid, source) = if self.is_postgres() {
            ("", "")
        } else {
            (" AND json_valid(r.snapshot)", " AND json_valid(r.source)")
        };
        let columns = COLUMNS.replace("@VALID", valid).replace("@SOURCE", source);
        let of_page = format!(
            "SELECT {columns} FROM stack_runs r WHERE r.finished_at IS NULL AND r.id > $1 ORDER BY r.id LIMIT $2"
        );
        let sql = match after {
            Some(_) => of_page,
            // One statement: the loop asks every few seconds, and most of the time there is nothing.
            None => format!("SELECT * FROM ({of_page}) AS opened UNION ALL SELECT {columns} {DESTROYED}"),
        };
        let from = after.map_or(Uuid::nil(), StackRunId::uuid);
        let values = [from.into(), (PAGE as i64 + 1).into()];
        let rows = self.reader.query_all_raw(self.statement(&sql, values)).await.map_err(db(doing))?;
        let mut found = OpenRuns::default();
        let mut open = Vec::with_capacity(rows.len());
        for row in rows {
            let status: String = row.try_get("", "status").map_err(db(doing))?;
            if status == RunStatus::Successful.as_str() {
                let stack = row.try_get("", "stack_id").map_err(db(doing))?;
                found.destroyed.push(StackId::from_uuid(stack));
            } else {
                open.push((StackRunId::from_uuid(row.try_get("", "id").map_err(db(doing))?), status, row));
            }
        }
        open.sort_by_key(|(id, ..)| *id);
        if open.len() > PAGE {
            open.truncate(PAGE);
            found.next = open.last().map(|(id, ..)| *id);
        }
        for (id, status, row) in open {
            match open_run(id, &status, &row) {
                Ok(run) => found.runs.push(run),
                Err(error) => unreadable(id.uuid(), &error),
            }
        }
        Ok(found)
    }

    /// The runs of a stack that are not over.
    pub(super) async fn runs_open_of(&self, stack: StackId) -> Result<Vec<StackRun>> {
        let runs = run::Entity::find()
            .filter(run::Column::StackId.eq(stack.uuid()))
            .filter(run::Column::FinishedAt.is_null())
            .order_by_asc(run::Column::Id)
            .all(&self.reader)
            .await
            .map_err(db("reading the runs of a stack that are not over"))?;
        Ok(readable(runs))
    }

    /// Runs that wait for approval, and the key of the last one where there may be more.
    pub(super) async fn runs_waiting(&self, request: &PageRequest) -> Result<(Vec<StackRun>, Option<Uuid>)> {
        // As the index says it: what is bound to a statement chooses none.
        let waits = Expr::cust("stack_runs.status = 'pending_approval'");
        let mut query = run::Entity::find().filter(waits);
        if let Some(after) = request.after {
            query = query.filter(run::Column::Id.gt(after));
        }
        if let Some(before) = request.before {
            query = query.filter(run::Column::Id.lt(before));
        }
        query = match request.direction {
            Direction::Forward => query.order_by_asc(run::Column::Id),
            Direction::Backward => query.order_by_desc(run::Column::Id),
        };
        let runs = query.limit(u64::from(request.limit)).all(&self.reader).await;
        let runs = runs.map_err(db("reading runs that wait for approval"))?;
        let last = runs.last().map(|run| run.id).filter(|_| runs.len() >= request.limit as usize);
        Ok((readable(runs), last))
    }
}

/// What can be read of these. One that is damaged, or of a later release, does not keep the others where they are.
fn readable(rows: Vec<run::Model>) -> Vec<StackRun> {
    let read = |row: run::Model| {
        let id = row.id;
        StackRun::try_from(row).map_err(|error| unreadable(id, &error)).ok()
    };
    rows.into_iter().filter_map(read).collect()
}

fn unreadable(id: Uuid, error: &Error) {
    let error = error.log_text();
    tracing::error!(stack_run.id = %id, error, "cannot read a run that is not over: it stays as it is");
}

fn open_run(id: StackRunId, status: &str, row: &QueryResult) -> Result<OpenRun> {
    let doing = "reading a run that is not over";
    Ok(OpenRun {
        id,
        stack_id: StackId::from_uuid(row.try_get("", "stack_id").map_err(db(doing))?),
        status: word(RunStatus::parse(status), "the status of a run")?,
        is_prepared: row.try_get("", "prepared").map_err(db(doing))?,
        is_held: document::<Upstream>(row, "upstream", "what a run takes from other stacks")?
            .is_some_and(|upstream| upstream.is_held()),
        heartbeat_at: row.try_get("", "heartbeat_at").map_err(db(doing))?,
        created_at: row.try_get("", "created_at").map_err(db(doing))?,
        plan: document(row, "planned", "the plan of a run")?,
        approvals: document(row, "approvals", "the approvals of a run")?.unwrap_or_default(),
        approval: document(row, "approval", "who has to approve a run")?.unwrap_or_default(),
        more_emails: document(row, "more_emails", "whose the code of a run is")?.unwrap_or_default(),
    })
}

/// A document that is read as text.
fn document<T: DeserializeOwned>(row: &QueryResult, column: &str, what: &'static str) -> Result<Option<T>> {
    let text: Option<String> = row.try_get("", column).map_err(db("reading a run that is not over"))?;
    text.map(|text| serde_json::from_str(&text).map_err(|_| corrupt(what))).transpose()
}
