//! When pull requests may be merged, and merges that wait for that.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Write};
use plural_app::job::NewJob;
use plural_app::pull_request_merge::{PullRequestMergeStore, UnreadMerge};
use plural_core::ids::{PullRequestId, ScmConnectionId};
use plural_core::merge_window::{MergeWindows, PrMerging};
use plural_core::pull_request::{PrPhase, PrStatus, PullRequest};
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr, ExprTrait as _, OnConflict, Query};
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

mod merger {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "pull_request_mergers")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub pull_request_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub author: String,
        pub at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// Commits that are looked up at once: each is bound three times.
const COMMITS: usize = 160;
/// Pull requests whose mergers are looked up at once.
const MERGED: usize = 500;
const WINDOWS: &str = "windows of merges";
pub(crate) const WISH: &str = "a merge that waits";
const WRITING: &str = "recording when a pull request is merged";

/// The commit that merged a pull request, in the words of the index.
const fn merge_commit(is_postgres: bool) -> &'static str {
    if is_postgres { "(facts ->> 'mergeCommit')" } else { "json_extract(facts, '$.mergeCommit')" }
}

impl Database {
    /// Who had the console merge these.
    async fn mergers(&self, of: &[Uuid]) -> Result<Vec<(Uuid, String)>> {
        let mut all = Vec::new();
        for some in of.chunks(MERGED) {
            let found: Vec<(Uuid, String)> = merger::Entity::find()
                .select_only()
                .columns([merger::Column::PullRequestId, merger::Column::Author])
                .filter(merger::Column::PullRequestId.is_in(some.iter().copied()))
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db("looking for who merged pull requests"))?;
            all.extend(found);
        }
        Ok(all)
    }
}

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

    async fn pull_request_merger(&self, id: PullRequestId, author: &str, at: DateTime<Utc>) -> Result<()> {
        let row = merger::ActiveModel {
            pull_request_id: set(id.uuid()),
            author: set(author.to_owned()),
            at: set(at),
        };
        let again = OnConflict::columns([merger::Column::PullRequestId, merger::Column::Author])
            .update_column(merger::Column::At)
            .to_owned();
        let write = self.write().await?;
        let put = merger::Entity::insert(row).on_conflict(again).exec_without_returning(&write.tx).await;
        put.map_err(db("recording who merges a pull request"))?;
        write.commit().await
    }

    async fn pull_request_people(&self, commits: &[String]) -> Result<Vec<String>> {
        let (mut ids, mut people) = (Vec::new(), BTreeSet::new());
        for some in commits.chunks(COMMITS) {
            let merged = Expr::cust(merge_commit(self.is_postgres()));
            let is_of = Condition::any()
                .add(merged.is_in(some.iter().map(String::as_str)))
                .add(row::Column::HeadSha.is_in(some.iter().map(String::as_str)))
                .add(row::Column::CommitSha.is_in(some.iter().map(String::as_str)));
            let found: Vec<(Uuid, String)> = row::Entity::find()
                .select_only()
                .columns([row::Column::Id, row::Column::Creator])
                .filter(is_of)
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db("looking for pull requests of commits"))?;
            for (id, creator) in found {
                ids.push(id);
                people.insert(creator);
            }
        }
        people.extend(self.mergers(&ids).await?.into_iter().map(|(_, author)| author));
        Ok(people.into_iter().collect())
    }

    async fn pull_requests_unread_merges(&self, since: DateTime<Utc>) -> Result<Vec<UnreadMerge>> {
        let mut asked = Query::select();
        asked.column(merger::Column::PullRequestId).from(merger::Entity);
        let mut lately = asked.clone();
        lately.and_where(merger::Column::At.gte(since));
        let may_be_merged = Condition::any()
            .add(row::Column::Status.eq(PrStatus::Merged.as_str()))
            .add(row::Column::Id.in_subquery(lately));
        let found: Vec<(Uuid, Uuid, String, String, String)> = row::Entity::find()
            .select_only()
            .columns([
                row::Column::Id,
                row::Column::ConnectionId,
                row::Column::Repository,
                row::Column::Url,
                row::Column::Creator,
            ])
            .filter(row::Column::Id.in_subquery(asked))
            .filter(may_be_merged)
            .filter(Expr::cust(merge_commit(self.is_postgres())).is_null())
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("looking for merges that are not read back"))?;
        let ids: Vec<Uuid> = found.iter().map(|(id, ..)| *id).collect();
        let mut mergers: HashMap<Uuid, Vec<String>> = HashMap::new();
        for (id, author) in self.mergers(&ids).await? {
            mergers.entry(id).or_default().push(author);
        }
        Ok(found
            .into_iter()
            .map(|(id, connection, repository, url, creator)| {
                let mut people = mergers.remove(&id).unwrap_or_default();
                people.push(creator);
                let connection = ScmConnectionId::from_uuid(connection);
                UnreadMerge { connection, repository, url, people }
            })
            .collect())
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
