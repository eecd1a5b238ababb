//! Plans of pull requests whose branch moves on: which are followed, and where the branch went.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use plural_app::job::NewJob;
use plural_core::Result;
use plural_core::fleet_plan::{FleetPlan, FleetPlanPhase, FleetSince};
use plural_core::ids::{FleetPlanId, PullRequestId, RepositoryId};
use plural_core::pull_request::PrStatus;
use plural_core::pull_request_life::PrFacts;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect,
};
use uuid::Uuid;

use crate::convert::json;
use crate::database::Database;
use crate::error::db;
use crate::fleet_plan::row::{self, Column};
use crate::pull_request;
use crate::transaction::set;

const FOLLOWING: &str = "reading plans that are followed";
/// Pull requests of one repository whose plans are followed: the newest.
const MOST: usize = 500;
/// Phases of plans that are followed.
const FOLLOWED: [&str; 3] =
    [FleetPlanPhase::Asked.as_str(), FleetPlanPhase::Done.as_str(), FleetPlanPhase::Failed.as_str()];

pub(crate) async fn followed_on(
    connection: &impl ConnectionTrait,
    repository: RepositoryId,
) -> Result<Vec<FleetPlan>> {
    let rows: Vec<(Uuid, Option<Uuid>, String, Option<String>)> = row::Entity::find()
        .select_only()
        .columns([Column::Id, Column::PullRequestId, Column::Phase, Column::BaseSha])
        .filter(Column::RepositoryId.eq(repository.uuid()))
        .filter(Column::PullRequestId.is_not_null())
        .filter(Column::Phase.ne(FleetPlanPhase::Superseded.as_str()))
        .order_by_desc(Column::Id)
        .into_tuple()
        .all(connection)
        .await
        .map_err(db(FOLLOWING))?;
    let (mut seen, mut plans, mut pulls) = (HashSet::new(), Vec::new(), Vec::new());
    for (id, pull, phase, base_sha) in rows {
        let Some(pull) = pull.filter(|pull| seen.insert(*pull)) else { continue };
        if base_sha.is_some() && FOLLOWED.contains(&phase.as_str()) && plans.len() < MOST {
            plans.push(id);
            pulls.push(pull);
        }
    }
    if plans.is_empty() {
        return Ok(Vec::new());
    }
    let open: Vec<(Uuid, Option<String>)> = pull_request::row::Entity::find()
        .select_only()
        .columns([pull_request::row::Column::Id, pull_request::row::Column::HeadSha])
        .filter(pull_request::row::Column::Id.is_in(pulls))
        .filter(pull_request::row::Column::Status.eq(PrStatus::Open.as_str()))
        .into_tuple()
        .all(connection)
        .await
        .map_err(db(FOLLOWING))?;
    let open: HashMap<Uuid, Option<String>> = open.into_iter().collect();
    let rows = row::Entity::find()
        .filter(Column::Id.is_in(plans))
        .filter(Column::PullRequestId.is_in(open.keys().copied()))
        .order_by_asc(Column::Id)
        .all(connection)
        .await
        .map_err(db(FOLLOWING))?;
    // One that failed is made again for the commit that it failed for, and for no other.
    let is_at_head = |row: &row::Model| {
        let head = row.pull_request_id.and_then(|id| open.get(&id)).and_then(Option::as_deref);
        row.phase != FleetPlanPhase::Failed.as_str() || head == Some(row.reference.as_str())
    };
    rows.into_iter().filter(is_at_head).map(FleetPlan::try_from).collect()
}

pub(crate) async fn newest_on(
    connection: &impl ConnectionTrait,
    pull_request: PullRequestId,
) -> Result<Vec<FleetPlan>> {
    let doing = "reading the plans of a pull request";
    let rows: Vec<(Uuid, Uuid)> = row::Entity::find()
        .select_only()
        .columns([Column::Id, Column::RepositoryId])
        .filter(Column::PullRequestId.eq(pull_request.uuid()))
        .filter(Column::Phase.ne(FleetPlanPhase::Superseded.as_str()))
        .order_by_desc(Column::Id)
        .into_tuple()
        .all(connection)
        .await
        .map_err(db(doing))?;
    let mut seen = HashSet::new();
    let newest: Vec<Uuid> =
        rows.into_iter().filter(|(_, repository)| seen.insert(*repository)).map(|(id, _)| id).collect();
    let rows = row::Entity::find()
        .filter(Column::Id.is_in(newest))
        .order_by_asc(Column::Id)
        .all(connection)
        .await
        .map_err(db(doing))?;
    rows.into_iter().map(FleetPlan::try_from).collect()
}

/// Whether a plan may begin, as its trait says. Locks the pull request: of two plans that begin at once, one sees the other.
pub(crate) async fn may_begin_in_tx(
    tx: &impl ConnectionTrait,
    plan: &FleetPlan,
    before: Option<FleetPlanId>,
) -> Result<bool> {
    let Some(pull_request) = plan.pull_request_id else { return Ok(before.is_none()) };
    let opened = pull_request::row::Entity::find_by_id(pull_request.uuid()).lock_exclusive();
    let opened = opened.one(tx).await.map_err(db("reading the pull request of a plan"))?;
    let newest = newest_in_tx(tx, plan.repository_id.uuid(), Some(pull_request.uuid())).await?;
    if newest.is_some_and(|newest| newest >= plan.id.uuid()) {
        return Ok(false);
    }
    let Some(before) = before else { return Ok(true) };
    let Some(opened) = opened else { return Ok(false) };
    let facts =
        opened.facts.map(|facts| json::<PrFacts>(facts, "the facts of a pull request")).transpose()?;
    let goes_to = facts.and_then(|facts| facts.base);
    let is_elsewhere = plan.base.as_ref().zip(goes_to.as_ref()).is_some_and(|(was, is)| was != is);
    let is_at = opened.head_sha.as_ref() == Some(&plan.reference);
    let is_open = opened.status == PrStatus::Open.as_str();
    Ok(newest == Some(before.uuid()) && is_open && is_at && !is_elsewhere)
}

/// The newest plan of a pull request that no other took the place of.
async fn newest_in_tx(
    tx: &impl ConnectionTrait,
    repository: Uuid,
    pull_request: Option<Uuid>,
) -> Result<Option<Uuid>> {
    let Some(pull_request) = pull_request else { return Ok(None) };
    row::Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::RepositoryId.eq(repository))
        .filter(Column::PullRequestId.eq(pull_request))
        .filter(Column::Phase.ne(FleetPlanPhase::Superseded.as_str()))
        .order_by_desc(Column::Id)
        .limit(1)
        .into_tuple()
        .one(tx)
        .await
        .map_err(db("reading the newest plan of a pull request"))
}

pub(crate) async fn since(
    database: &Database,
    id: FleetPlanId,
    since: &FleetSince,
    (jobs, at): (&[NewJob], DateTime<Utc>),
) -> Result<()> {
    let doing = "recording where the branch of a plan went";
    let mut write = database.write().await?;
    let known = row::Entity::find_by_id(id.uuid()).lock_exclusive().one(&write.tx).await;
    let Some(known) = known.map_err(db(doing))? else { return Ok(()) };
    // What another plan took the place of is not told about any more.
    let newest = newest_in_tx(&write.tx, known.repository_id, known.pull_request_id).await?;
    if !FOLLOWED.contains(&known.phase.as_str()) || newest.is_some_and(|newest| newest != known.id) {
        return Ok(());
    }
    let change = row::ActiveModel {
        id: ActiveValue::Unchanged(known.id),
        since_sha: set(Some(since.sha.clone())),
        since_other: set(since.is_other),
        updated_at: set(at),
        ..Default::default()
    };
    change.update(&write.tx).await.map_err(db(doing))?;
    write.enqueue(jobs, at).await?;
    write.commit().await
}

/// Of the plans of one commit of a pull request that are over, all but the last one go: those that are made again because a branch moved
/// on leave room for those of other pull requests.
pub(crate) async fn forget_in_tx(
    tx: &impl ConnectionTrait,
    repository: RepositoryId,
    pull_request: PullRequestId,
    reference: &str,
) -> Result<()> {
    let doing = "removing plans that were made again";
    let over = FleetPlanPhase::ALL.into_iter().filter(|phase| phase.is_over()).map(FleetPlanPhase::as_str);
    let over: Vec<Uuid> = row::Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::RepositoryId.eq(repository.uuid()))
        .filter(Column::PullRequestId.eq(pull_request.uuid()))
        .filter(Column::Reference.eq(reference))
        .filter(Column::Phase.is_in(over))
        .order_by_desc(Column::Id)
        .into_tuple()
        .all(tx)
        .await
        .map_err(db(doing))?;
    let gone: Vec<Uuid> = over.into_iter().skip(1).collect();
    if !gone.is_empty() {
        let gone = row::Entity::delete_many().filter(Column::Id.is_in(gone));
        gone.exec(tx).await.map_err(db(doing))?;
    }
    Ok(())
}
