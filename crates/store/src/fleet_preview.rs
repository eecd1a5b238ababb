//! Plans of previews: of what an automation would make of a branch. Their rows are those of [`crate::fleet_plan`], with an owner.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use plural_app::access::{Audited, CreatePr};
use plural_app::fleet_plan::{PrunedPreviews, ReachedStack};
use plural_app::job::NewJob;
use plural_app::seal::Sealed;
use plural_core::fleet_plan::{
    FleetPlan, FleetPlanPhase, FleetPreview, MOST_OWN_PREVIEWS, MOST_PREVIEWS, PreviewedStack,
};
use plural_core::ids::{FleetPlanId, PrAutomationId, StackId, StackRunId, UserId};
use plural_core::pr_automation::PrAutomation;
use plural_core::specs::without_nul;
use plural_core::{Error, Result};
use sea_orm::sea_query::Condition;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, JsonValue, QueryFilter,
    QueryOrder, QuerySelect,
};
use uuid::Uuid;

use crate::convert::{json, to_json};
use crate::database::{Database, corrupt};
use crate::error::db;
use crate::fleet_plan::row::{self, Column};
use crate::fleet_plan_part;
use crate::transaction::set;

const STACKS: &str = "the stacks of a fleet plan";
/// Plans that one pass removes.
const AT_ONCE: u64 = 200;

/// What makes a plan one of a preview: owner, automation and end, and the stacks that it names.
pub(crate) fn of_row(
    of: Option<((Uuid, Uuid), DateTime<Utc>)>,
    stacks: Option<JsonValue>,
) -> Result<Option<FleetPreview>> {
    let Some(((owner, automation), expires_at)) = of else { return Ok(None) };
    let stacks = stacks.map(|stored| json(stored, STACKS)).transpose()?.unwrap_or_default();
    let (owner, automation_id) = (UserId::from_uuid(owner), PrAutomationId::from_uuid(automation));
    Ok(Some(FleetPreview { owner, automation_id, stacks, expires_at }))
}

/// The stacks that a plan names, as they are stored: of a preview.
pub(crate) fn stacks(plan: &row::Model, stacks: &[ReachedStack]) -> Result<Option<JsonValue>> {
    let named: Vec<&PreviewedStack> = stacks.iter().map(|reached| &reached.stack).collect();
    plan.owner_id.map(|_| to_json(&named, STACKS)).transpose()
}

pub(crate) async fn planned(
    database: &Database,
    id: FleetPlanId,
    stack: StackId,
    planned: &std::result::Result<StackRunId, String>,
) -> Result<()> {
    let doing = "recording the run of a stack of a preview";
    let write = database.write().await?;
    let found = row::Entity::find_by_id(id.uuid()).filter(Column::OwnerId.is_not_null());
    let found = found.lock_exclusive().one(&write.tx).await.map_err(db(doing))?;
    let Some(stored) = found.and_then(|found| found.stacks) else { return Ok(()) };
    let mut stacks: Vec<PreviewedStack> = json(stored, STACKS)?;
    let Some(known) = stacks.iter_mut().find(|known| known.stack_id == stack) else { return Ok(()) };
    match planned {
        Ok(run) => known.run_id = Some(*run),
        Err(problem) => known.problem = Some(without_nul(problem)),
    }
    let change = row::ActiveModel {
        id: ActiveValue::Unchanged(id.uuid()),
        stacks: set(Some(to_json(&stacks, STACKS)?)),
        ..Default::default()
    };
    change.update(&write.tx).await.map_err(db(doing))?;
    write.commit().await
}

pub(crate) async fn begin(
    database: &Database,
    by: Audited<'_, PrAutomation, CreatePr>,
    (plan, asked): (&FleetPlan, &Sealed),
    jobs: &[NewJob],
) -> Result<()> {
    let FleetPlan {
        id,
        project_id,
        repository_id,
        pull_request_id: _,
        creator,
        reference,
        head_reference: _,
        base,
        phase,
        found: _,
        error: _,
        preview,
        created_at,
        updated_at,
    } = plan;
    let doing = "recording the plan of a preview";
    let Some(FleetPreview { owner, automation_id, stacks: _, expires_at }) = preview else {
        return Err(Error::internal(doing, "it is of no preview"));
    };
    let mut write = database.write().await?;
    let open = FleetPlanPhase::ALL.into_iter().filter(|phase| !phase.is_over());
    // In the order in which everybody locks them.
    let superseded: Vec<Uuid> = row::Entity::find()
        .filter(Column::OwnerId.eq(owner.uuid()))
        .filter(Column::AutomationId.eq(automation_id.uuid()))
        .filter(Column::Phase.is_in(open.map(FleetPlanPhase::as_str)))
        .select_only()
        .column(Column::Id)
        .order_by_asc(Column::Id)
        .lock_exclusive()
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db(doing))?;
    let change = row::ActiveModel {
        phase: set(FleetPlanPhase::Superseded.as_str().to_owned()),
        asked: set(None),
        updated_at: set(*updated_at),
        ..Default::default()
    };
    row::Entity::update_many()
        .set(change)
        .filter(Column::Id.is_in(superseded))
        .exec(&write.tx)
        .await
        .map_err(db(doing))?;
    let of_project =
        Condition::all().add(Column::ProjectId.eq(project_id.uuid())).add(Column::OwnerId.is_not_null());
    let own = of_project.clone().add(Column::OwnerId.eq(owner.uuid()));
    make_room_in_tx(&write.tx, own, MOST_OWN_PREVIEWS).await?;
    make_room_in_tx(&write.tx, of_project, MOST_PREVIEWS).await?;
    let row = row::ActiveModel {
        id: set(id.uuid()),
        project_id: set(project_id.uuid()),
        repository_id: set(repository_id.uuid()),
        creator: set(creator.clone()),
        reference: set(reference.clone()),
        base: set(base.clone()),
        phase: set(phase.as_str().to_owned()),
        untouched: set(0),
        composed: set(0),
        omitted: set(0),
        created_at: set(*created_at),
        updated_at: set(*updated_at),
        owner_id: set(Some(owner.uuid())),
        automation_id: set(Some(automation_id.uuid())),
        asked: set(Some(asked.as_bytes().to_vec())),
        expires_at: set(Some(*expires_at)),
        ..Default::default()
    };
    row.insert(&write.tx).await.map_err(db(doing))?;
    write.enqueue(jobs, *created_at).await?;
    write.audit(by.entry()).await?;
    write.commit().await
}

/// Removes the oldest of these plans, so that with a new one there are as many as that.
async fn make_room_in_tx(tx: &impl ConnectionTrait, these: Condition, most: u64) -> Result<()> {
    let doing = "making room for the plan of a preview";
    let oldest: Option<Uuid> = row::Entity::find()
        .filter(these.clone())
        .select_only()
        .column(Column::Id)
        .order_by_desc(Column::Id)
        .offset(most.saturating_sub(1))
        .limit(1)
        .into_tuple()
        .one(tx)
        .await
        .map_err(db(doing))?;
    if let Some(oldest) = oldest {
        let gone = row::Entity::delete_many().filter(these).filter(Column::Id.lte(oldest));
        gone.exec(tx).await.map_err(db(doing))?;
    }
    Ok(())
}

pub(crate) async fn to_look_at_on(
    connection: &impl ConnectionTrait,
    id: FleetPlanId,
) -> Result<Option<(FleetPlan, Sealed)>> {
    let found = row::Entity::find_by_id(id.uuid())
        .filter(Column::Phase.eq(FleetPlanPhase::Looking.as_str()))
        .one(connection)
        .await
        .map_err(db("reading the plan of a preview"))?;
    let Some(mut found) = found else { return Ok(None) };
    let Some(asked) = found.asked.take() else { return Ok(None) };
    Ok(Some((found.try_into()?, Sealed::from_bytes(asked))))
}

pub(crate) async fn prune(database: &Database, at: DateTime<Utc>) -> Result<PrunedPreviews> {
    let doing = "removing plans of previews";
    let over: Vec<Uuid> = row::Entity::find()
        .filter(Column::ExpiresAt.lte(at))
        .select_only()
        .column(Column::Id)
        .order_by_asc(Column::Id)
        .limit(AT_ONCE)
        .into_tuple()
        .all(&database.reader)
        .await
        .map_err(db(doing))?;
    if over.is_empty() {
        return Ok(PrunedPreviews::default());
    }
    let digests: Vec<Option<String>> = fleet_plan_part::row::Entity::find()
        .filter(fleet_plan_part::row::Column::PlanId.is_in(over.iter().copied()))
        .filter(fleet_plan_part::row::Column::ArtifactDigest.is_not_null())
        .select_only()
        .column(fleet_plan_part::row::Column::ArtifactDigest)
        .distinct()
        .into_tuple()
        .all(&database.reader)
        .await
        .map_err(db(doing))?;
    let mut artifacts = HashSet::with_capacity(digests.len());
    for digest in digests.into_iter().flatten() {
        let mut bytes = [0_u8; 32];
        hex::decode_to_slice(digest, &mut bytes).map_err(|_| corrupt("an artifact's digest"))?;
        artifacts.insert(bytes);
    }
    let write = database.write().await?;
    let removed =
        row::Entity::delete_many().filter(Column::Id.is_in(over)).exec(&write.tx).await.map_err(db(doing))?;
    write.commit().await?;
    Ok(PrunedPreviews { plans: removed.rows_affected, artifacts })
}
