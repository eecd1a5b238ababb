//! Parts of plans, in sealed pieces.

use plural_app::seal::Sealed;
use plural_app::stack_run::{PlanPart, PlanPartRead, PlanPartWrite};
use plural_core::ids::StackRunId;
use plural_core::stack_run::{RunPhase, RunStatus};
use plural_core::{Error, Result};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

use super::row::{part, phase_of, piece, run, status_of};
use crate::convert::bytes32;
use crate::database::Database;
use crate::error::db;
use crate::transaction::set;

/// Pieces of one statement.
const PIECES: usize = 8;
/// Numbers of a part: the pieces of all parts of a run are told apart by one.
const SPAN: i64 = 1 << 20;

/// Where the numbers of a part begin.
const fn first_of(part: PlanPart) -> i64 {
    match part {
        PlanPart::File => 0,
        PlanPart::Json => SPAN,
        PlanPart::Text => 2 * SPAN,
    }
}

impl Database {
    /// Stores a part of a plan in place of what was stored of it.
    pub(super) async fn plan_put(&self, id: StackRunId, put: &PlanPartWrite) -> Result<()> {
        let doing = "storing a part of a plan";
        let PlanPartWrite { part, digest, size, pieces } = put;
        let write = self.write().await?;
        let run = run::Entity::find_by_id(id.uuid()).lock_exclusive().one(&write.tx).await;
        let run = run.map_err(db("reading a run"))?.ok_or(Error::not_found("stack run"))?;
        if run.planned.is_some() {
            return Err(Error::conflict("the plan of the run is stored, and stays as it is"));
        }
        if status_of(&run)? != RunStatus::Running || phase_of(&run)? != RunPhase::Plan {
            return Err(Error::conflict("the run is not planning: nothing of a plan is taken"));
        }
        // Its pieces go with it.
        part::Entity::delete_by_id((run.id, part.as_str().to_owned()))
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
        let row = part::ActiveModel {
            run_id: set(run.id),
            part: set(part.as_str().to_owned()),
            digest: set(digest.to_vec()),
            size: set(size.cast_signed()),
        };
        part::Entity::insert(row).exec_without_returning(&write.tx).await.map_err(db(doing))?;
        let mut number = first_of(*part);
        for chunk in pieces.chunks(PIECES) {
            let mut rows = Vec::with_capacity(chunk.len());
            for sealed in chunk {
                rows.push(piece::ActiveModel {
                    run_id: set(run.id),
                    number: set(number),
                    part: set(part.as_str().to_owned()),
                    sealed: set(sealed.as_bytes().to_vec()),
                });
                number += 1;
            }
            piece::Entity::insert_many(rows).exec_without_returning(&write.tx).await.map_err(db(doing))?;
        }
        write.commit().await
    }

    /// A part of a plan, if it is stored.
    pub(super) async fn plan_get(&self, id: StackRunId, part: PlanPart) -> Result<Option<PlanPartRead>> {
        let doing = "reading a part of a plan";
        // One state: a part and its pieces must fit each other.
        let tx = self.snapshot().await?;
        let key = (id.uuid(), part.as_str().to_owned());
        let found = part::Entity::find_by_id(key).one(&tx).await.map_err(db(doing))?;
        let pieces = piece::Entity::find()
            .filter(piece::Column::RunId.eq(id.uuid()))
            .filter(piece::Column::Part.eq(part.as_str()))
            .order_by_asc(piece::Column::Number)
            .all(&tx)
            .await
            .map_err(db(doing))?;
        tx.commit().await.map_err(db(doing))?;
        let Some(part::Model { run_id: _, part: _, digest, size }) = found else { return Ok(None) };
        Ok(Some(PlanPartRead {
            digest: bytes32(&digest, "the digest of a part of a plan")?,
            size: size.cast_unsigned(),
            pieces: pieces.into_iter().map(|piece| Sealed::from_bytes(piece.sealed)).collect(),
        }))
    }
}
