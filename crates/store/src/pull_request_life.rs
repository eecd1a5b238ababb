//! Pull requests after they were opened.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Write};
use plural_app::job::NewJob;
use plural_app::pr_instance::PrSettled;
use plural_app::pull_request_life::{PullRequestLifeStore, PullRequestRead};
use plural_core::ids::{ClusterId, PullRequestId, ScmConnectionId, ServiceId, StackId};
use plural_core::pull_request::{HostPullRequest, PrPhase, PrStatus, PullRequest};
use plural_core::pull_request_life::{PrLife, PrLinks};
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr, ExprTrait as _, Func, LockType};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect, Select,
};
use uuid::Uuid;

use crate::convert::to_json;
use crate::database::Database;
use crate::error::{db, unique_constraint};
use crate::pull_request::{FACTS, LABELS, REVIEW, row, row_of};
use crate::transaction::set;
use crate::{pr_instance, pr_secret, pull_request_merge, scm_connection};

/// Open ones of a repository that are looked at in one pass.
const MOST_OPEN: u64 = 1_000;
/// Records that one delivery may concern.
const MOST_HEARD: u64 = 20;
const RECORDING: &str = "recording what was read of a pull request";

fn opened() -> Select<row::Entity> {
    row::Entity::find().filter(row::Column::Phase.eq(PrPhase::Opened.as_str()))
}

fn lower_repository() -> Expr {
    Expr::expr(Func::lower(Expr::col(row::Column::Repository)))
}

/// Those that a webhook or a host may still change.
fn open_of(connection: ScmConnectionId, repository: &str) -> Condition {
    Condition::all()
        .add(row::Column::Phase.eq(PrPhase::Opened.as_str()))
        .add(row::Column::Status.eq(PrStatus::Open.as_str()))
        .add(row::Column::ConnectionId.eq(connection.uuid()))
        .add(row::Column::Repository.eq(repository))
}

#[async_trait]
impl PullRequestLifeStore for Database {
    async fn pull_requests_heard(
        &self,
        connection: ScmConnectionId,
        slug: &str,
        number: Option<u64>,
        head: Option<&str>,
    ) -> Result<Vec<PullRequestId>> {
        let rows = opened()
            .filter(row::Column::ConnectionId.eq(connection.uuid()))
            .filter(lower_repository().eq(slug));
        let rows = match (number, head) {
            (Some(number), _) => {
                let named = Condition::any()
                    .add(row::Column::Url.ends_with(format!("/{number}")))
                    .add(row::Column::Url.contains(format!("/{number}/")));
                rows.filter(named)
            }
            (None, Some(head)) => rows
                .filter(row::Column::HeadSha.eq(head))
                .filter(row::Column::Status.eq(PrStatus::Open.as_str())),
            (None, None) => return Ok(Vec::new()),
        };
        let found = rows.order_by_desc(row::Column::Id).all(&self.reader).await;
        let mut ids = Vec::new();
        for found in found.map_err(db("looking for a pull request"))? {
            let found = PullRequest::try_from(found)?;
            // An address may hold a number elsewhere too.
            if number.is_none() || found.told.number() == number {
                ids.push(found.id);
            }
            if ids.len() as u64 >= MOST_HEARD {
                break;
            }
        }
        Ok(ids)
    }

    async fn pull_request_read_back(
        &self,
        id: PullRequestId,
        read: &PullRequestRead,
        jobs: &[NewJob],
        at: DateTime<Utc>,
    ) -> Result<bool> {
        let mut write = self.write().await?;
        let known = row::Entity::find_by_id(id.uuid())
            .filter(row::Column::Phase.eq(PrPhase::Opened.as_str()))
            .lock_exclusive()
            .one(&write.tx)
            .await
            .map_err(db(RECORDING))?;
        let Some(known) = known else { return Ok(false) };
        let before = PullRequest::try_from(known.clone())?;
        let PullRequestRead { told, mut life } = as_known(&before, read);
        let HostPullRequest { url: _, repository: _, branch, title, status, labels } = &told;
        let is_merged = before.told.status == PrStatus::Merged;
        if known.read_at > life.read_at {
            // An answer that took its time must not take back what a later question found. A merge is for good, whoever's clock is right.
            if is_merged || *status != PrStatus::Merged {
                return Ok(false);
            }
            life.read_at = known.read_at;
        }
        if is_merged && *status != PrStatus::Merged {
            return Ok(false);
        }
        let is_news = before.told != told
            || before.life.head != life.head
            || before.life.facts != life.facts
            || before.life.links != life.links;
        let mut change = row::ActiveModel {
            id: ActiveValue::Unchanged(known.id),
            read_at: set(life.read_at),
            ..Default::default()
        };
        if is_news {
            change.branch = set(branch.clone());
            change.title = set(title.clone());
            change.status = set(status.as_str().to_owned());
            change.labels = set(to_json(labels, LABELS)?);
            change.updated_at = set(at);
            write_life(&mut change, &life)?;
        }
        // With the head, so that nothing is merged by what was confirmed of another one.
        let governed = before.governed.as_ref();
        let (head, base) = (life.head.as_deref(), life.facts.base.as_deref());
        if let Some(review) = governed.and_then(|governed| governed.review.seen(*status, head, base)) {
            change.governance = set(Some(to_json(&review, REVIEW)?));
        }
        let merging = before.merging.clone().seen(*status, life.head.as_deref());
        if merging != before.merging {
            pull_request_merge::write(&mut change, &merging)?;
        }
        let changed = change.update(&write.tx).await;
        changed.map_err(db(RECORDING))?;
        if is_news {
            let (commit, base) = (life.facts.merge_commit.clone(), life.facts.base.clone());
            let settled = PrSettled { status: *status, commit, base };
            let of = pr_instance::ids_in_tx(&write.tx, id).await?;
            pr_instance::settle_in_tx(&write.tx, id, &settled, at).await?;
            pr_secret::settle(&mut write, &of, at).await?;
        }
        write.enqueue(jobs, at).await?;
        write.commit().await?;
        Ok(true)
    }

    async fn pull_request_adopt(&self, adopted: &PullRequest, jobs: &[NewJob]) -> Result<bool> {
        // Automations alone have it confirmed, and nobody said yet when it may be merged.
        let PullRequest { connection_id, told, life, created_at, .. } = adopted;
        let HostPullRequest { repository, branch, .. } = told;
        let mut write = self.write().await?;
        // It must not go meanwhile.
        let known = scm_connection::row::Entity::find_by_id(connection_id.uuid());
        let known = known.lock(LockType::KeyShare).one(&write.tx).await;
        known.map_err(db(RECORDING))?.ok_or(Error::not_found("scm connection"))?;
        // The host tells of one that is being opened before its record has the address.
        let own = row::Entity::find()
            .filter(row::Column::Phase.eq(PrPhase::Pending.as_str()))
            .filter(row::Column::ConnectionId.eq(connection_id.uuid()))
            .filter(row::Column::Branch.eq(branch.as_str()))
            .filter(lower_repository().eq(repository.to_lowercase()));
        if own.one(&write.tx).await.map_err(db(RECORDING))?.is_some() {
            return Ok(false);
        }
        let mut row = row::ActiveModel { read_at: set(life.read_at), ..row_of(adopted)? };
        write_life(&mut row, life)?;
        match row.insert(&write.tx).await {
            Ok(_) => {}
            Err(cause)
                if unique_constraint(&cause).as_deref() == Some("pull_requests_connection_id_url_key") =>
            {
                return Ok(false);
            }
            Err(cause) => return Err(db(RECORDING)(cause)),
        }
        write.enqueue(jobs, *created_at).await?;
        write.commit().await?;
        Ok(true)
    }

    async fn pull_requests_due(
        &self,
        since: DateTime<Utc>,
        most: u64,
    ) -> Result<Vec<(ScmConnectionId, String)>> {
        let due = Condition::any().add(row::Column::PolledAt.is_null()).add(row::Column::PolledAt.lt(since));
        let rows: Vec<(Uuid, String)> = opened()
            .filter(row::Column::Status.eq(PrStatus::Open.as_str()))
            .filter(due)
            .select_only()
            .columns([row::Column::ConnectionId, row::Column::Repository])
            .group_by(row::Column::ConnectionId)
            .group_by(row::Column::Repository)
            // Those first that wait for longest: where there are more than one pass takes, each has its turn.
            .order_by_asc(Func::min(Func::coalesce([
                Expr::col(row::Column::PolledAt),
                Expr::col(row::Column::CreatedAt),
            ])))
            .limit(most)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("looking for pull requests that were not listed"))?;
        Ok(rows.into_iter().map(|(id, repository)| (ScmConnectionId::from_uuid(id), repository)).collect())
    }

    async fn pull_requests_polled(
        &self,
        connection: ScmConnectionId,
        repository: &str,
        at: DateTime<Utc>,
    ) -> Result<Vec<PullRequest>> {
        let write = self.write().await?;
        row::Entity::update_many()
            .col_expr(row::Column::PolledAt, Expr::value(at))
            .filter(open_of(connection, repository))
            .exec(&write.tx)
            .await
            .map_err(db("listing open pull requests"))?;
        let found = all_open(&write.tx, connection, repository).await?;
        write.commit().await?;
        Ok(found)
    }

    async fn pull_request_acted(&self, by: Audited<'_, PullRequest, Write>, job: &NewJob) -> Result<()> {
        let mut write = self.write().await?;
        write.enqueue(std::slice::from_ref(job), by.entry().at).await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }
}

/// What is to be recorded. Whoever could not read one says why, of what is recorded by now: that may be newer than what they knew of it.
fn as_known(before: &PullRequest, read: &PullRequestRead) -> PullRequestRead {
    let PullRequestRead { told: _, life: PrLife { head: _, facts, links: _, read_at } } = read;
    let Some(error) = &facts.error else { return read.clone() };
    let mut life = PrLife { read_at: *read_at, ..before.life.clone() };
    life.facts.error = Some(error.clone());
    PullRequestRead { told: before.told.clone(), life }
}

async fn all_open(
    tx: &impl ConnectionTrait,
    connection: ScmConnectionId,
    repository: &str,
) -> Result<Vec<PullRequest>> {
    let found = row::Entity::find()
        .filter(open_of(connection, repository))
        .order_by_asc(row::Column::Id)
        .limit(MOST_OPEN)
        .all(tx)
        .await;
    found.map_err(db("listing open pull requests"))?.into_iter().map(PullRequest::try_from).collect()
}

fn write_life(row: &mut row::ActiveModel, life: &PrLife) -> Result<()> {
    let PrLife { head, facts, links, read_at: _ } = life;
    let PrLinks { service, stack, cluster } = links;
    row.head_sha = set(head.clone());
    row.facts = set(Some(to_json(facts, FACTS)?));
    row.service_id = set(service.map(ServiceId::uuid));
    row.stack_id = set(stack.map(StackId::uuid));
    row.cluster_id = set(cluster.map(ClusterId::uuid));
    Ok(())
}
