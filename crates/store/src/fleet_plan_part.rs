//! What a plan of a commit says of single services: what their agents are asked, and what they answer.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use plural_app::fleet_plan::{FleetPartPlan, FleetReached};
use plural_app::ports::agents::ServiceReportRow;
use plural_core::fleet_plan::{FleetPartState, FleetPlanPart, FleetPlanPhase, KindCount, PlanCounts};
use plural_core::ids::{ClusterId, FleetPartId, FleetPlanId, PlanId, ProjectId, RevisionId, ServiceId};
use plural_core::service_error::ServiceError;
use plural_core::specs::without_nul;
use plural_core::sync::{PlanCandidate, PlannedObject, ReportedCandidate, SyncPlan};
use plural_core::{Error, Result};
use sea_orm::sea_query::Query;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, JsonValue,
    QueryFilter, QueryOrder, QuerySelect, Select,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::convert::{json, to_json, word};
use crate::error::db;
use crate::fleet_plan::{self, done_in_tx, number, open_in_tx};
use crate::transaction::{self, set};

/// Questions about one service that its agent is sent; the newest.
const ASKED: usize = 4;
/// Rows of one statement.
const AT_ONCE: usize = 500;
const PLAN: &str = "a plan";

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "fleet_plan_parts")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub plan_id: Uuid,
        pub service_id: Uuid,
        pub cluster_id: Uuid,
        pub project_id: Uuid,
        pub service: String,
        pub cluster: String,
        pub state: String,
        pub artifact_digest: Option<String>,
        pub folder: String,
        pub source_root: String,
        pub created: i32,
        pub changed: i32,
        pub deleted: i32,
        pub hooks: i32,
        pub unchanged: i32,
        pub blocked: i32,
        pub omitted: i32,
        pub kinds: Option<Json>,
        pub error: Option<String>,
        pub revision_id: Option<Uuid>,
        pub objects: Option<Json>,
        pub problems: Option<Json>,
        pub answered_at: Option<DateTimeUtc>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// What cannot be sent, as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredProblem {
    source: String,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    location: Option<String>,
}

/// A part without what it says of objects, which may be much.
#[derive(FromQueryResult)]
struct InSum {
    id: Uuid,
    plan_id: Uuid,
    service_id: Uuid,
    cluster_id: Uuid,
    project_id: Uuid,
    service: String,
    cluster: String,
    state: String,
    created: i32,
    changed: i32,
    deleted: i32,
    hooks: i32,
    unchanged: i32,
    blocked: i32,
    omitted: i32,
    kinds: Option<JsonValue>,
    error: Option<String>,
    answered_at: Option<DateTime<Utc>>,
}

impl TryFrom<InSum> for FleetPlanPart {
    type Error = Error;

    fn try_from(row: InSum) -> Result<Self> {
        let InSum {
            id,
            plan_id,
            service_id,
            cluster_id,
            project_id,
            service,
            cluster,
            state,
            created,
            changed,
            deleted,
            hooks,
            unchanged,
            blocked,
            omitted,
            kinds,
            error,
            answered_at,
        } = row;
        Ok(Self {
            id: FleetPartId::from_uuid(id),
            plan_id: FleetPlanId::from_uuid(plan_id),
            service_id: ServiceId::from_uuid(service_id),
            cluster_id: ClusterId::from_uuid(cluster_id),
            project_id: ProjectId::from_uuid(project_id),
            service,
            cluster,
            state: word(FleetPartState::parse(&state), "the state of a part of a fleet plan")?,
            counts: PlanCounts {
                created: created.cast_unsigned(),
                changed: changed.cast_unsigned(),
                deleted: deleted.cast_unsigned(),
                hooks: hooks.cast_unsigned(),
                unchanged: unchanged.cast_unsigned(),
                blocked: blocked.cast_unsigned(),
                omitted: omitted.cast_unsigned(),
            },
            kinds: kinds.map(|stored| json(stored, PLAN)).transpose()?.unwrap_or_default(),
            error,
            answered_at,
        })
    }
}

/// What is read of a part for a list.
const IN_SUM: [row::Column; 18] = [
    row::Column::Id,
    row::Column::PlanId,
    row::Column::ServiceId,
    row::Column::ClusterId,
    row::Column::ProjectId,
    row::Column::Service,
    row::Column::Cluster,
    row::Column::State,
    row::Column::Created,
    row::Column::Changed,
    row::Column::Deleted,
    row::Column::Hooks,
    row::Column::Unchanged,
    row::Column::Blocked,
    row::Column::Omitted,
    row::Column::Kinds,
    row::Column::Error,
    row::Column::AnsweredAt,
];

/// What an agent told of a part: revision, objects, problems.
type Told = (Option<Uuid>, Option<JsonValue>, Option<JsonValue>);

/// What is known of the services of a plan.
pub(crate) async fn list_on(
    connection: &impl ConnectionTrait,
    plan: FleetPlanId,
) -> Result<Vec<FleetPlanPart>> {
    let doing = "reading parts of a fleet plan";
    let rows = row::Entity::find()
        .select_only()
        .columns(IN_SUM)
        .filter(row::Column::PlanId.eq(plan.uuid()))
        // They were made in this order.
        .order_by_asc(row::Column::Id)
        .into_model::<InSum>()
        .all(connection)
        .await
        .map_err(db(doing))?;
    rows.into_iter().map(FleetPlanPart::try_from).collect()
}

/// What would happen to one service.
pub(crate) async fn one_on(
    connection: &impl ConnectionTrait,
    id: FleetPartId,
) -> Result<Option<FleetPartPlan>> {
    let doing = "reading a part of a fleet plan";
    let found = row::Entity::find_by_id(id.uuid()).select_only().columns(IN_SUM);
    let found = found.into_model::<InSum>().one(connection).await.map_err(db(doing))?;
    let Some(found) = found else { return Ok(None) };
    let part = FleetPlanPart::try_from(found)?;
    let told: Option<Told> = row::Entity::find_by_id(id.uuid())
        .select_only()
        .columns([row::Column::RevisionId, row::Column::Objects, row::Column::Problems])
        .into_tuple()
        .one(connection)
        .await
        .map_err(db(doing))?;
    let owner: Option<Option<Uuid>> = fleet_plan::row::Entity::find_by_id(part.plan_id.uuid())
        .select_only()
        .column(fleet_plan::row::Column::OwnerId)
        .into_tuple()
        .one(connection)
        .await
        .map_err(db(doing))?;
    let is_preview = owner.flatten().is_some();
    let (revision, objects, problems) = told.unwrap_or_default();
    let problems: Vec<StoredProblem> =
        problems.map(|stored| json(stored, PLAN)).transpose()?.unwrap_or_default();
    let problem = |StoredProblem { source, message, location }| ServiceError {
        source,
        message,
        warning: false,
        terminal: false,
        location,
    };
    let objects: Option<Vec<PlannedObject>> = objects.map(|stored| json(stored, PLAN)).transpose()?;
    let revision = revision.map(RevisionId::from_uuid);
    let plan = objects.zip(revision).zip(part.answered_at);
    let plan = plan.map(|((objects, revision_id), created_at)| SyncPlan {
        id: PlanId::from_uuid(part.id.uuid()),
        service_id: part.service_id,
        request_id: Some(part.id.uuid()),
        revision_id,
        digest: String::new(),
        objects,
        unchanged: part.counts.unchanged,
        omitted: part.counts.omitted,
        error: None,
        created_at,
    });
    let problems = problems.into_iter().map(problem).collect();
    Ok(Some(FleetPartPlan { part, plan, problems, is_preview }))
}

/// Whether an agent of the cluster is asked about this artifact.
pub(crate) async fn asks_on(
    connection: &impl ConnectionTrait,
    cluster: ClusterId,
    digest: &str,
) -> Result<bool> {
    let found: Option<Uuid> = waiting()
        .filter(row::Column::ClusterId.eq(cluster.uuid()))
        .filter(row::Column::ArtifactDigest.eq(digest))
        .select_only()
        .column(row::Column::Id)
        .limit(1)
        .into_tuple()
        .one(connection)
        .await
        .map_err(db("reading what agents are asked"))?;
    Ok(found.is_some())
}

pub(crate) fn new_part(reached: &FleetReached) -> row::ActiveModel {
    let FleetReached { part, candidate } = reached;
    let FleetPlanPart {
        id,
        plan_id,
        service_id,
        cluster_id,
        service,
        cluster,
        project_id,
        state,
        counts: _,
        kinds: _,
        error,
        answered_at: _,
    } = part;
    let candidate = candidate.clone();
    row::ActiveModel {
        id: set(id.uuid()),
        plan_id: set(plan_id.uuid()),
        service_id: set(service_id.uuid()),
        cluster_id: set(cluster_id.uuid()),
        project_id: set(project_id.uuid()),
        service: set(service.clone()),
        cluster: set(cluster.clone()),
        state: set(state.as_str().to_owned()),
        folder: set(candidate.as_ref().map(|asked| asked.folder.clone()).unwrap_or_default()),
        source_root: set(candidate.as_ref().map(|asked| asked.source_root.clone()).unwrap_or_default()),
        artifact_digest: set(candidate.map(|asked| asked.artifact_digest)),
        created: set(0),
        changed: set(0),
        deleted: set(0),
        hooks: set(0),
        unchanged: set(0),
        blocked: set(0),
        omitted: set(0),
        kinds: set(None),
        error: set(error.as_deref().map(without_nul)),
        revision_id: set(None),
        objects: set(None),
        problems: set(None),
        answered_at: set(None),
    }
}

/// Parts whose agents are to answer.
fn waiting() -> Select<row::Entity> {
    let open = Query::select()
        .column(fleet_plan::row::Column::Id)
        .from(fleet_plan::row::Entity)
        .and_where(fleet_plan::row::Column::Phase.eq(FleetPlanPhase::Asked.as_str()))
        .to_owned();
    row::Entity::find()
        .filter(row::Column::State.eq(FleetPartState::Waiting.as_str()))
        .filter(row::Column::PlanId.in_subquery(open))
}

/// Id, service, plan, digest, folder and source root of a part.
type Asked = (Uuid, Uuid, Uuid, Option<String>, String, String);

/// What the agents of these services are asked about other commits, the newest questions first.
pub(crate) async fn candidates_on(
    connection: &impl ConnectionTrait,
    services: &[Uuid],
) -> Result<HashMap<Uuid, Vec<PlanCandidate>>> {
    let doing = "reading what agents are asked";
    let mut parts: Vec<Asked> = Vec::new();
    for chunk in services.chunks(AT_ONCE) {
        use row::Column;
        let found: Vec<Asked> = waiting()
            .filter(Column::ServiceId.is_in(chunk.iter().copied()))
            .select_only()
            .columns([
                Column::Id,
                Column::ServiceId,
                Column::PlanId,
                Column::ArtifactDigest,
                Column::Folder,
                Column::SourceRoot,
            ])
            .order_by_desc(Column::Id)
            .into_tuple()
            .all(connection)
            .await
            .map_err(db(doing))?;
        parts.extend(found);
    }
    if parts.is_empty() {
        return Ok(HashMap::new());
    }
    let plans: BTreeSet<Uuid> = parts.iter().map(|(_, _, plan, ..)| *plan).collect();
    let plans: Vec<Uuid> = plans.into_iter().collect();
    let mut commits: HashMap<Uuid, String> = HashMap::with_capacity(plans.len());
    for chunk in plans.chunks(AT_ONCE) {
        let found: Vec<(Uuid, Option<String>)> = fleet_plan::row::Entity::find()
            .select_only()
            .columns([fleet_plan::row::Column::Id, fleet_plan::row::Column::Sha])
            .filter(fleet_plan::row::Column::Id.is_in(chunk.iter().copied()))
            .into_tuple()
            .all(connection)
            .await
            .map_err(db(doing))?;
        commits.extend(found.into_iter().filter_map(|(id, sha)| Some((id, sha?))));
    }
    let mut asked: HashMap<Uuid, Vec<PlanCandidate>> = HashMap::new();
    for (id, service, plan, digest, folder, source_root) in parts {
        let (Some(artifact_digest), Some(sha)) = (digest, commits.get(&plan)) else { continue };
        let of = asked.entry(service).or_default();
        if of.len() < ASKED {
            let id = FleetPartId::from_uuid(id);
            of.push(PlanCandidate { id, artifact_digest, folder, source_root, sha: sha.clone() });
        }
    }
    Ok(asked)
}

/// What agents answer; each question takes one answer. A plan whose last answer this is, is done.
pub(crate) async fn answered_in_tx(
    write: &mut transaction::Write<'_>,
    told: &[(&ServiceReportRow, DateTime<Utc>)],
) -> Result<()> {
    let doing = "recording what agents answer";
    let mut answers: BTreeMap<Uuid, (Uuid, &ReportedCandidate, DateTime<Utc>)> = BTreeMap::new();
    for (said, at) in told {
        for candidate in &said.sync.candidates {
            if let Some(id) = candidate.plan.request_id {
                answers.insert(id, (said.id.uuid(), candidate, *at));
            }
        }
    }
    if answers.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = answers.keys().copied().collect();
    let mut plans: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
    for chunk in ids.chunks(AT_ONCE) {
        let found: Vec<(Uuid, Uuid)> = waiting()
            .filter(row::Column::Id.is_in(chunk.iter().copied()))
            .select_only()
            .columns([row::Column::PlanId, row::Column::Id])
            .into_tuple()
            .all(&write.tx)
            .await
            .map_err(db(doing))?;
        for (plan, part) in found {
            plans.entry(plan).or_default().push(part);
        }
    }
    // Whoever answers last sees the answers of all others, and ends the plan.
    for (plan, parts) in plans {
        let Some(known) = open_in_tx(write, FleetPlanId::from_uuid(plan), FleetPlanPhase::Asked).await?
        else {
            continue;
        };
        // Of these only: a plan may have many, and each of their agents answers by itself.
        let open = row::Entity::find()
            .filter(row::Column::PlanId.eq(plan))
            .filter(row::Column::State.eq(FleetPartState::Waiting.as_str()));
        let mut latest = known.updated_at;
        for chunk in parts.chunks(AT_ONCE) {
            let found: Vec<(Uuid, Uuid)> = open
                .clone()
                .filter(row::Column::Id.is_in(chunk.iter().copied()))
                .select_only()
                .columns([row::Column::Id, row::Column::ServiceId])
                .into_tuple()
                .all(&write.tx)
                .await
                .map_err(db(doing))?;
            for (id, service) in found {
                // An agent answers for its own services only.
                let Some((_, told, at)) = answers.get(&id).filter(|(of, ..)| *of == service) else {
                    continue;
                };
                answer(id, told, *at)?.update(&write.tx).await.map_err(db(doing))?;
                latest = latest.max(*at);
            }
        }
        let left: Option<Uuid> = open
            .select_only()
            .column(row::Column::Id)
            .limit(1)
            .into_tuple()
            .one(&write.tx)
            .await
            .map_err(db(doing))?;
        if left.is_none() {
            done_in_tx(write, &known, latest).await?;
        }
    }
    Ok(())
}

fn answer(id: Uuid, told: &ReportedCandidate, at: DateTime<Utc>) -> Result<row::ActiveModel> {
    let ReportedCandidate { plan, problems } = told;
    let id = ActiveValue::Unchanged(id);
    if let Some(error) = &plan.error {
        return Ok(row::ActiveModel {
            id,
            state: set(FleetPartState::Failed.as_str().to_owned()),
            error: set(Some(without_nul(error))),
            answered_at: set(Some(at)),
            ..Default::default()
        });
    }
    let counts = PlanCounts::of(plan, problems.len());
    let PlanCounts { created, changed, deleted, hooks, unchanged, blocked, omitted } = counts;
    let problems: Vec<StoredProblem> = problems
        .iter()
        .map(|ServiceError { source, message, warning: _, terminal: _, location }| StoredProblem {
            source: source.clone(),
            message: message.clone(),
            location: location.clone(),
        })
        .collect();
    Ok(row::ActiveModel {
        id,
        state: set(FleetPartState::Planned.as_str().to_owned()),
        created: set(number(created)),
        changed: set(number(changed)),
        deleted: set(number(deleted)),
        hooks: set(number(hooks)),
        unchanged: set(number(unchanged)),
        blocked: set(number(blocked)),
        omitted: set(number(omitted)),
        kinds: set(Some(to_json(&KindCount::of(plan), PLAN)?)),
        revision_id: set(Some(plan.revision_id.uuid())),
        objects: set(Some(to_json(&plan.objects, PLAN)?)),
        problems: set(Some(to_json(&problems, PLAN)?)),
        answered_at: set(Some(at)),
        ..Default::default()
    })
}
