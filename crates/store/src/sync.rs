//! What is asked of syncs and what is known of them: one row of a service once there is something.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use plural_app::access::{Act, Admin, Approve, Audited, Authorized, Prune, Read, Write};
use plural_app::sync::{NamedLimits, PlanSelector, SyncStore};
use plural_core::ids::{ClusterId, RevisionId, ServiceId};
use plural_core::project::Project;
use plural_core::project_limits::ProjectLimits;
use plural_core::promotion::PromotionRequest;
use plural_core::service::Service;
use plural_core::specs::{DiffNormalizer, SyncConfig};
use plural_core::sync::{
    ApprovedPrune, DriftEvent, PendingApproval, ServiceSync, SyncAsk, SyncPlan, SyncRequest,
};
use plural_core::work::WorkChange;
use plural_core::{Error, Page, PageRequest, Result};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect,
    sea_query::{Condition, Expr, OnConflict},
};
use uuid::Uuid;

use crate::agent_upgrade::lock_known_in_tx;
use crate::convert::{json, to_json};
use crate::database::Database;
use crate::error::db;
use crate::page::page;
use crate::service::{self, event, lock_in_tx};
use crate::service_life::renew_in_tx;
use crate::transaction::{self, set};
use crate::{canary_gate, dependency, drift, plan, project, project_limits};

/// Rows of one statement.
const AT_ONCE: usize = 500;
/// Plans of one read.
const PLANS: usize = 8;
/// Bytes of plans that are read for a list of revisions, about: each has a thousand objects, a service has thirty, and a list many services.
const MOST_BYTES: usize = 16 << 20;
/// What is told of those that are too much.
const LEFT_OUT: &str = "these plans are too large for one list: ask for fewer revisions at once";
/// Objects of what the syncs of a revision did in sum, as many as of one plan.
const MOST_PLANNED: usize = 1_000;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "service_syncs")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub service_id: Uuid,
        pub request: Option<Json>,
        pub plan_request: Option<Uuid>,
        pub approved: Option<Json>,
        pub progress: Option<Json>,
        pub pending: Option<Json>,
        pub request_done: Option<String>,
        /// Of the newest plan.
        pub plan_key: Option<String>,
        pub promotion: Option<Json>,
        pub promoted: Option<Json>,
        /// An ask was cleared since the agent was last sent the service whole: it may still hold that ask.
        pub cleared: bool,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for ServiceSync {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            service_id: _,
            request,
            plan_request,
            approved,
            progress,
            pending,
            request_done,
            plan_key: _,
            promotion,
            promoted,
            cleared: _,
        } = row;
        Ok(Self {
            ask: SyncAsk {
                request: request.map(|request| json(request, "a sync request")).transpose()?,
                plan: plan_request,
                approved: approved.map(|approved| json(approved, "an approval")).transpose()?,
                promotion: promotion.map(|said| json(said, "a word to canaries")).transpose()?,
                // They have a table of their own.
                candidates: Vec::new(),
            },
            progress: progress.map(|progress| json(progress, "a sync's progress")).transpose()?,
            pending: pending.map(|pending| json(pending, "what waits for approval")).transpose()?,
            request_done,
            promoted: promoted.map(|done| json(done, "what came of a word to canaries")).transpose()?,
        })
    }
}

/// The row of a service of which nothing is known.
pub(crate) fn blank(service_id: Uuid) -> row::Model {
    row::Model {
        service_id,
        request: None,
        plan_request: None,
        approved: None,
        progress: None,
        pending: None,
        request_done: None,
        plan_key: None,
        promotion: None,
        promoted: None,
        cleared: false,
    }
}

/// The rows of services, of those that have one.
pub(crate) async fn list_on(
    connection: &impl ConnectionTrait,
    services: &[Uuid],
) -> Result<HashMap<Uuid, row::Model>> {
    let mut found = HashMap::with_capacity(services.len());
    for chunk in services.chunks(AT_ONCE) {
        let rows = row::Entity::find()
            .filter(row::Column::ServiceId.is_in(chunk.iter().copied()))
            .all(connection)
            .await
            .map_err(db("reading syncs"))?;
        found.extend(rows.into_iter().map(|row| (row.service_id, row)));
    }
    Ok(found)
}

/// Writes rows, whether they were there before or not.
pub(crate) async fn write_on(connection: &impl ConnectionTrait, rows: Vec<row::Model>) -> Result<()> {
    use row::Column;
    // Eleven values of a row, below what either database takes as parameters.
    for chunk in rows.chunks(AT_ONCE) {
        let rows = chunk.iter().cloned().map(|row| {
            let row::Model {
                service_id,
                request,
                plan_request,
                approved,
                progress,
                pending,
                request_done,
                plan_key,
                promotion,
                promoted,
                cleared,
            } = row;
            row::ActiveModel {
                service_id: set(service_id),
                request: set(request),
                plan_request: set(plan_request),
                approved: set(approved),
                progress: set(progress),
                pending: set(pending),
                request_done: set(request_done),
                plan_key: set(plan_key),
                promotion: set(promotion),
                promoted: set(promoted),
                cleared: set(cleared),
            }
        });
        let update = OnConflict::column(Column::ServiceId)
            .update_columns([
                Column::Request,
                Column::PlanRequest,
                Column::Approved,
                Column::Progress,
                Column::Pending,
                Column::RequestDone,
                Column::PlanKey,
                Column::Promotion,
                Column::Promoted,
                Column::Cleared,
            ])
            .to_owned();
        row::Entity::insert_many(rows)
            .on_conflict(update)
            .exec_without_returning(connection)
            .await
            .map(drop)
            .map_err(db("writing syncs"))?;
    }
    Ok(())
}

/// Those of these services whose agents hold an ask, or may: a person asked for something, or the ask was cleared since the
/// agent was last sent the service whole. Of the others an agent holds none.
pub(crate) async fn asked_on(connection: &impl ConnectionTrait, services: &[Uuid]) -> Result<HashSet<Uuid>> {
    use row::Column;
    let mut found = HashSet::new();
    for chunk in services.chunks(AT_ONCE) {
        let asks = Condition::any()
            .add(Column::Cleared.eq(true))
            .add(Column::Request.is_not_null())
            .add(Column::PlanRequest.is_not_null())
            .add(Column::Approved.is_not_null())
            .add(Column::Promotion.is_not_null());
        let ids: Vec<Uuid> = row::Entity::find()
            .select_only()
            .column(Column::ServiceId)
            .filter(Column::ServiceId.is_in(chunk.iter().copied()))
            .filter(asks)
            .into_tuple()
            .all(connection)
            .await
            .map_err(db("reading what is asked of services"))?;
        found.extend(ids);
    }
    Ok(found)
}

/// Agents are sent these services whole from here on: with the asks as they are now.
pub(crate) async fn sent_whole_on(connection: &impl ConnectionTrait, services: &[Uuid]) -> Result<()> {
    use row::Column;
    for chunk in services.chunks(AT_ONCE) {
        row::Entity::update_many()
            .col_expr(Column::Cleared, Expr::value(false))
            .filter(Column::ServiceId.is_in(chunk.iter().copied()))
            .filter(Column::Cleared.eq(true))
            .exec(connection)
            .await
            .map_err(db("recording what agents are sent"))?;
    }
    Ok(())
}

#[async_trait]
impl SyncStore for Database {
    async fn services_syncs(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, ServiceSync>> {
        let ids: Vec<Uuid> = services.iter().map(|service| service.id.uuid()).collect();
        let mut found = list_on(&self.reader, &ids).await?;
        services
            .iter()
            .map(|service| {
                let sync = found.remove(&service.id.uuid()).map(ServiceSync::try_from).transpose()?;
                Ok((service.id, sync.unwrap_or_default()))
            })
            .collect()
    }

    async fn service_sync(&self, by: Audited<'_, Service, Write>, request: &SyncRequest) -> Result<Service> {
        let write = self.write().await?;
        let service = lock_known_in_tx(&write, by.target()).await?;
        let mut row = asked_in_tx(&write, &service).await?;
        row.request = Some(to_json(request, "a sync request")?);
        self.asked(write, by, service, row).await
    }

    async fn service_promote(
        &self,
        by: Audited<'_, Service, Approve>,
        request: &PromotionRequest,
    ) -> Result<Service> {
        let write = self.write().await?;
        let service = lock_known_in_tx(&write, by.target()).await?;
        let mut row = asked_in_tx(&write, &service).await?;
        let PromotionRequest { id: _, promotion, objects, at, gates: _ } = request;
        let gates = canary_gate::open_on(&write.tx, service.id, *promotion, objects, *at).await?;
        let request = PromotionRequest { gates, ..request.clone() };
        row.promotion = Some(to_json(&request, "a word to canaries")?);
        self.asked(write, by, service, row).await
    }

    async fn service_plan_request(&self, by: Audited<'_, Service, Read>, request: Uuid) -> Result<Uuid> {
        let write = self.write().await?;
        let service = lock_in_tx(&write, by.target().id).await?;
        let mut row = asked_in_tx(&write, &service).await?;
        if let Some(waiting) = row.plan_request {
            // Two who ask get one answer; nobody's request is lost.
            return Ok(waiting);
        }
        row.plan_request = Some(request);
        self.asked(write, by, service, row).await?;
        Ok(request)
    }

    async fn service_prune_approve(&self, by: Audited<'_, Service, Prune>, digest: &str) -> Result<Service> {
        let write = self.write().await?;
        let service = lock_known_in_tx(&write, by.target()).await?;
        let mut row = asked_in_tx(&write, &service).await?;
        let pending: Option<PendingApproval> =
            row.pending.clone().map(|pending| json(pending, "what waits for approval")).transpose()?;
        let pending = pending.ok_or_else(|| Error::conflict("nothing of the service waits for approval"))?;
        if pending.digest != digest {
            return Err(Error::conflict(
                "other deletions wait for approval than those with this digest: look at them again",
            ));
        }
        let sequence = service.sequence.cast_unsigned() + 1;
        row.approved = Some(to_json(&ApprovedPrune { digest: digest.to_owned(), sequence }, "an approval")?);
        self.asked(write, by, service, row).await
    }

    async fn service_drift_ignore(
        &self,
        by: Audited<'_, Service, Write>,
        normalizer: &DiffNormalizer,
    ) -> Result<Service> {
        let mut write = self.write().await?;
        let at = by.entry().at;
        let old = lock_known_in_tx(&write, by.target()).await?;
        let mut config: SyncConfig = json(old.sync_config, "a service's sync config")?;
        if !config.diff_normalizers.contains(normalizer) {
            config.diff_normalizers.push(normalizer.clone());
        }
        config.check().map_err(|fault| fault.within("syncConfig"))?;
        let change = service::row::ActiveModel {
            id: ActiveValue::Unchanged(old.id),
            sync_config: set(to_json(&config, "a sync config")?),
            sequence: set(old.sequence + 1),
            updated_at: set(at),
            ..Default::default()
        };
        let row = change.update(&write.tx).await.map_err(db("changing a service"))?;
        write.audit(by.entry()).await?;
        write.publish(event(&row, WorkChange::Changed), at).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn service_plan(
        &self,
        service: &Authorized<Service, Read>,
        selector: PlanSelector,
    ) -> Result<Option<SyncPlan>> {
        let query = plan::row::Entity::find().filter(plan::row::Column::ServiceId.eq(service.id.uuid()));
        let query = match selector {
            PlanSelector::Last => query,
            PlanSelector::Request(id) => query.filter(plan::row::Column::RequestId.eq(id)),
            PlanSelector::Id(id) => query.filter(plan::row::Column::Id.eq(id.uuid())),
        };
        let row = query.order_by_desc(plan::row::Column::Id).limit(1).one(&self.reader).await;
        row.map_err(db("reading a plan"))?.map(SyncPlan::try_from).transpose()
    }

    async fn service_plans(
        &self,
        service: &Authorized<Service, Read>,
        request: &PageRequest,
    ) -> Result<Page<SyncPlan>> {
        let query = plan::row::Entity::find().filter(plan::row::Column::ServiceId.eq(service.id.uuid()));
        page(&self.reader, query, plan::row::Column::Id, request, SyncPlan::try_from).await
    }

    async fn revisions_plans(
        &self,
        services: &[Authorized<Service, Read>],
        revisions: &[RevisionId],
    ) -> Result<HashMap<RevisionId, SyncPlan>> {
        use plan::row::Column;
        let doing = "reading plans";
        let mut all: Vec<(Uuid, Uuid)> = Vec::new();
        for chunk in revisions.chunks(AT_ONCE) {
            let rows = plan::row::Entity::find()
                .select_only()
                .columns([Column::RevisionId, Column::Id])
                .filter(Column::ServiceId.is_in(services.iter().map(|service| service.id.uuid())))
                .filter(Column::RevisionId.is_in(chunk.iter().map(|id| id.uuid())))
                .filter(Column::RequestId.is_null())
                .into_tuple()
                .all(&self.reader)
                .await;
            all.extend::<Vec<(Uuid, Uuid)>>(rows.map_err(db(doing))?);
        }
        // Those first that were asked for first, each from its first plan on.
        let places: HashMap<Uuid, usize> =
            revisions.iter().enumerate().map(|(place, id)| (id.uuid(), place)).collect();
        let place = |revision: Uuid, id: Uuid| (places.get(&revision).copied(), id);
        all.sort_unstable_by_key(|(revision, id)| place(*revision, *id));
        all.dedup();
        let mut found: HashMap<RevisionId, SyncPlan> = HashMap::new();
        let (mut chunks, mut bytes) = (all.chunks(PLANS), 0);
        while bytes < MOST_BYTES
            && let Some(chunk) = chunks.next()
        {
            let mut rows = plan::row::Entity::find()
                .filter(Column::Id.is_in(chunk.iter().map(|(_, id)| *id)))
                .all(&self.reader)
                .await
                .map_err(db(doing))?;
            rows.sort_unstable_by_key(|row| place(row.revision_id, row.id));
            for row in rows {
                bytes += plan::weight(&row.objects);
                let plan = SyncPlan::try_from(row)?;
                match found.entry(plan.revision_id) {
                    Entry::Occupied(mut earlier) => earlier.get_mut().then(plan, MOST_PLANNED),
                    Entry::Vacant(first) => {
                        first.insert(plan);
                    }
                }
            }
        }
        // The last one of each revision.
        let left: HashMap<Uuid, Uuid> = chunks.flatten().copied().collect();
        let left: Vec<Uuid> = left.into_values().collect();
        for chunk in left.chunks(AT_ONCE) {
            for plan in plan::without_objects_on(&self.reader, chunk).await? {
                let told = found.entry(plan.revision_id).or_insert(plan);
                told.error.get_or_insert_with(|| LEFT_OUT.to_owned());
            }
        }
        Ok(found)
    }

    async fn service_drift(
        &self,
        service: &Authorized<Service, Read>,
        request: &PageRequest,
    ) -> Result<Page<DriftEvent>> {
        let query = drift::row::Entity::find().filter(drift::row::Column::ServiceId.eq(service.id.uuid()));
        page(&self.reader, query, drift::row::Column::Id, request, DriftEvent::try_from).await
    }

    async fn project_limits_set(
        &self,
        by: Audited<'_, Project, Admin>,
        limits: &ProjectLimits,
    ) -> Result<Project> {
        let at = by.entry().at;
        let mut write = self.write().await?;
        // The project's services are renewed below.
        dependency::lock_in_tx(&write).await?;
        let stored = if limits.is_empty() { None } else { Some(to_json(limits, "a project's limits")?) };
        let row = project::row::ActiveModel {
            id: ActiveValue::Unchanged(by.target().id.uuid()),
            limits: set(stored),
            updated_at: set(at),
            ..Default::default()
        };
        let row = row.update(&write.tx).await.map_err(db("limiting a project"))?;
        // Every agent has to hear of it, whatever else changes.
        renew_in_tx(&mut write, project::services_of(row.id), at).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn cluster_limits(&self, cluster: ClusterId) -> Result<NamedLimits> {
        project_limits::of_cluster_on(&self.reader, cluster).await
    }
}

impl Database {
    /// Writes what is asked of a service, with its audit line and event.
    async fn asked<A: Act>(
        &self,
        mut write: transaction::Write<'_>,
        by: Audited<'_, Service, A>,
        old: service::row::Model,
        ask: row::Model,
    ) -> Result<Service> {
        let at = by.entry().at;
        let change = service::row::ActiveModel {
            id: ActiveValue::Unchanged(old.id),
            sequence: set(old.sequence + 1),
            // What its agent reports from now on is later.
            updated_at: set(at),
            ..Default::default()
        };
        let row = change.update(&write.tx).await.map_err(db("asking for a sync"))?;
        write_on(&write.tx, vec![ask]).await?;
        write.audit(by.entry()).await?;
        write.publish(event(&row, WorkChange::Changed), at).await?;
        write.commit().await?;
        row.try_into()
    }
}

/// What is asked of a service, which is locked.
async fn asked_in_tx(write: &transaction::Write<'_>, service: &service::row::Model) -> Result<row::Model> {
    let row = list_on(&write.tx, &[service.id]).await?.remove(&service.id);
    Ok(row.unwrap_or_else(|| blank(service.id)))
}
