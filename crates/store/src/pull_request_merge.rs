//! When pull requests may be merged, and merges that wait for that.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Write};
use plural_app::job::NewJob;
use plural_app::pull_request_merge::PullRequestMergeStore;
use plural_core::ids::PullRequestId;
use plural_core::merge_window::{MergeWindows, PrMerging};
use plural_core::pull_request::{PrPhase, PrStatus, PullRequest};
use plural_core::{Error, Result};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, JsonValue, QueryFilter,
    QueryOrder, QuerySelect,
};
use uuid::Uuid;

use crate::convert::{json, to_json};
use crate::database::Database;
use crate::error::db;
use crate::pull_request::row;
use crate::transaction::set;

const WINDOWS: &str = "windows of merges";
pub(crate) const WISH: &str = "a merge that waits";
const WRITING: &str = "recording when a pull request is merged";

/// Windows from a column.
pub(crate) fn read_windows(stored: Option<JsonValue>) -> Result<MergeWindows> {
    Ok(stored.map(|stored| json(stored, WINDOWS)).transpose()?.unwrap_or_default())
}

/// Windows for a column.
pub(crate) fn written_windows(windows: &MergeWindows) -> Result<Option<JsonValue>> {
    if windows.0.is_empty() { Ok(None) } else { to_json(windows, WINDOWS).map(Some) }
}

/// Writes what becomes of the windows and the merge of one.
pub(crate) fn write(row: &mut row::ActiveModel, merging: &PrMerging) -> Result<()> {
    let PrMerging { windows, wish, due_at, begun_at } = merging;
    row.merge_windows = set(written_windows(windows)?);
    row.merge_wish = set(wish.as_ref().map(|wish| to_json(wish, WISH)).transpose()?);
    row.merge_due_at = set(*due_at);
    row.merge_begun_at = set(*begun_at);
    Ok(())
}

/// One as it is now, which nobody else changes meanwhile.
async fn hold_in_tx(tx: &impl ConnectionTrait, id: PullRequestId) -> Result<Option<PullRequest>> {
    let found = row::Entity::find_by_id(id.uuid()).lock_exclusive().one(tx).await;
    found.map_err(db("reading a pull request"))?.map(PullRequest::try_from).transpose()
}

async fn write_in_tx(
    tx: &impl ConnectionTrait,
    id: PullRequestId,
    merging: &PrMerging,
    at: DateTime<Utc>,
) -> Result<()> {
    let mut change =
        row::ActiveModel { id: ActiveValue::Unchanged(id.uuid()), updated_at: set(at), ..Default::default() };
    write(&mut change, merging)?;
    change.update(tx).await.map_err(db(WRITING))?;
    Ok(())
}

#[async_trait]
impl PullRequestMergeStore for Database {
    async fn pull_request_merging(
        &self,
        by: Audited<'_, PullRequest, Write>,
        after: &PrMerging,
        jobs: &[NewJob],
    ) -> Result<()> {
        let mut write = self.write().await?;
        let known = hold_in_tx(&write.tx, by.target().id).await?;
        let known = known.ok_or(Error::not_found("pull request"))?;
        if known.merging != by.target().merging {
            return Err(Error::conflict(
                "somebody else changed when it is merged at the same time: look at it and try again",
            ));
        }
        if let Some(wish) = after.waiting() {
            let is_open = known.progress.phase == PrPhase::Opened && known.told.status == PrStatus::Open;
            if !is_open || known.life.head.as_ref() != Some(&wish.head) {
                return Err(Error::conflict(
                    "the pull request is not open any more, or has another head now: look at it and ask again",
                ));
            }
        }
        let at = by.entry().at;
        write_in_tx(&write.tx, known.id, after, at).await?;
        write.enqueue(jobs, at).await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn pull_request_merging_step(
        &self,
        id: PullRequestId,
        before: &PrMerging,
        after: &PrMerging,
        at: DateTime<Utc>,
    ) -> Result<bool> {
        let write = self.write().await?;
        let known = hold_in_tx(&write.tx, id).await?;
        if known.is_none_or(|known| known.merging != *before) {
            return Ok(false);
        }
        write_in_tx(&write.tx, id, after, at).await?;
        write.commit().await?;
        Ok(true)
    }

    async fn pull_requests_to_merge(&self, now: DateTime<Utc>, most: u64) -> Result<Vec<PullRequestId>> {
        let ids: Vec<Uuid> = row::Entity::find()
            .filter(row::Column::MergeDueAt.lte(now))
            .order_by_asc(row::Column::MergeDueAt)
            .limit(most)
            .select_only()
            .column(row::Column::Id)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("looking for merges that are due"))?;
        Ok(ids.into_iter().map(PullRequestId::from_uuid).collect())
    }
}
