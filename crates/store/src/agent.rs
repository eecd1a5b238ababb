//! The fleet, and what agents say.

use std::collections::{BTreeMap, HashMap, HashSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::ports::agents::{
    AgentReportRow, AgentStore, ClusterCredential, FeedBatch, FeedPosition, FeedSubject, FleetLoad, PingRow,
    ServiceReportRow, ServiceSpecRow,
};
use plural_app::seal::Sealed;
use plural_core::Result;
use plural_core::audit::{AuditEntry, AuditTarget};
use plural_core::cluster::{Cluster, ClusterFacts};
use plural_core::cluster_issuer::IssuerReport;
use plural_core::ids::{ClusterId, RequestId, ServiceId};
use plural_core::service::Service;
use plural_core::status::{ServiceStatus, component_status};
use plural_core::sync::{ServiceSync, SyncAsk};
use plural_core::work::{Contract, WorkChange, WorkRef, WorkSummary};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use tokio::sync::watch;
use uuid::Uuid;

use crate::database::{Database, corrupt};
use crate::error::db;
use crate::health_change::Seen;
use crate::service::status_of;
use crate::service_error::{self, Errors};
use crate::service_import::Outputs;
use crate::transaction::{self, set};
use crate::{
    cluster, cluster_issuer, component, dependency, deploy_token, federated_credential, fleet_plan_part,
    policy, project_limits, revision, service, service_context, service_import, service_metadata, sync,
    sync_report,
};

/// Clusters whose sign of life one statement stores: far below what either database takes as parameters.
const PINGS_AT_ONCE: usize = 1000;

#[async_trait]
impl AgentStore for Database {
    async fn ready(&self) -> Result<()> {
        let doing = "asking the database for a sign of life";
        self.reader.query_one_raw(self.statement("SELECT 1 AS one", [])).await.map(drop).map_err(db(doing))
    }

    async fn key_check(&self, fresh: &Sealed) -> Result<Sealed> {
        let doing = "reading the key check";
        let write = self.write().await?;
        let sql = "UPDATE installation SET key_check = $1 WHERE id = 1 AND key_check IS NULL";
        let fresh = fresh.as_bytes().to_vec();
        write.tx.execute_raw(self.statement(sql, [fresh.into()])).await.map_err(db(doing))?;
        let sql = "SELECT key_check FROM installation WHERE id = 1";
        let row = write.tx.query_one_raw(self.statement(sql, [])).await.map_err(db(doing))?;
        let kept: Vec<u8> =
            row.ok_or_else(|| corrupt("the installation"))?.try_get("", "key_check").map_err(db(doing))?;
        write.commit().await?;
        Ok(Sealed::from_bytes(kept))
    }

    async fn fleet_load(&self) -> Result<FleetLoad> {
        let doing = "loading the fleet";
        let tx = self.snapshot().await?;
        let row = tx.query_one_raw(self.statement("SELECT epoch FROM installation WHERE id = 1", [])).await;
        let epoch: String = row
            .map_err(db(doing))?
            .ok_or_else(|| corrupt("the installation"))?
            .try_get("", "epoch")
            .map_err(db(doing))?;
        let position = self.feed_head(&tx).await?;
        let (events, floor) = self.feed_last(&tx, position).await?;
        let clusters = deploy_token::credentials_on(&tx, None).await?;
        let work = self.work_all(&tx).await?;
        tx.commit().await.map_err(db(doing))?;
        Ok(FleetLoad { epoch, position, events, floor, clusters, work })
    }

    async fn feed_read(&self, after: FeedPosition) -> Result<FeedBatch> {
        self.feed_read_after(after).await
    }

    fn feed_wake(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }

    async fn feed_prune(&self, before: DateTime<Utc>, keep: u64) -> Result<u64> {
        self.feed_prune_before(before, keep).await
    }

    async fn cluster_credentials(&self, ids: &[ClusterId]) -> Result<Vec<ClusterCredential>> {
        deploy_token::credentials_on(&self.reader, Some(ids)).await
    }

    async fn work_summaries(&self, work: &[WorkRef]) -> Result<Vec<WorkSummary>> {
        self.work_of(&self.reader, work).await
    }

    async fn agent_cluster(&self, id: ClusterId) -> Result<Option<Cluster>> {
        let row = cluster::row::Entity::find_by_id(id.uuid()).one(&self.reader).await;
        row.map_err(db("reading a cluster"))?.map(Cluster::try_from).transpose()
    }

    async fn agent_specs(&self, cluster: ClusterId, ids: &[ServiceId]) -> Result<Vec<ServiceSpecRow>> {
        let doing = "reading an agent's services";
        // One state: a service and its revision must fit each other.
        let tx = self.snapshot().await?;
        let rows = service::row::Entity::find()
            .filter(service::row::Column::ClusterId.eq(cluster.uuid()))
            .filter(service::row::Column::Id.is_in(ids.iter().map(|id| id.uuid())))
            .all(&tx)
            .await
            .map_err(db(doing))?;
        let mut revisions: HashMap<Uuid, revision::row::Model> = revision::row::Entity::find()
            .filter(revision::row::Column::Id.is_in(rows.iter().map(|row| row.revision_id)))
            .all(&tx)
            .await
            .map_err(db(doing))?
            .into_iter()
            .map(|row| (row.id, row))
            .collect();
        let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        let mut syncs = sync::list_on(&tx, &ids).await?;
        let named =
            if rows.is_empty() { None } else { Some(project_limits::of_cluster_on(&tx, cluster).await?) };
        let project = named.as_ref().map(|named| named.project.clone()).unwrap_or_default();
        let limits = named.filter(|named| !named.limits.is_empty());
        let mut sources = match &limits {
            Some(named) => project_limits::sources_on(&tx, &named.limits, &rows).await?,
            None => HashMap::new(),
        };
        let mut candidates = fleet_plan_part::candidates_on(&tx, &ids).await?;
        let mut contexts = service_context::of_services_on(&tx, &ids, Outputs::All).await?;
        let mut imports = service_import::of_services_on(&tx, &ids, Outputs::All).await?;
        tx.commit().await.map_err(db(doing))?;
        rows.into_iter()
            .map(|row| {
                let revision =
                    revisions.remove(&row.revision_id).ok_or_else(|| corrupt("a service's revision"))?;
                let mut service = Service::try_from(row.clone())?;
                if service.pin.is_some() {
                    // The service says how the newest is rendered; what it stands at knows its own way.
                    service.rendering = service::rendering_of(revision.rendering.clone())?;
                    service.version.clone_from(&revision.version);
                }
                let sync = syncs.remove(&row.id).map(ServiceSync::try_from).transpose()?.unwrap_or_default();
                Ok(ServiceSpecRow {
                    project: project.clone(),
                    ask: SyncAsk { candidates: candidates.remove(&row.id).unwrap_or_default(), ..sync.ask },
                    limits: limits.clone(),
                    source_url: sources.remove(&row.id).unwrap_or_default(),
                    contexts: contexts.remove(&row.id).unwrap_or_default(),
                    imports: imports.remove(&row.id).unwrap_or_default(),
                    artifact_folder: row.artifact_folder.clone(),
                    seed: Sealed::from_bytes(row.seed.clone()),
                    revision_at: revision.created_at,
                    secrets: revision::secrets(revision),
                    service,
                })
            })
            .collect()
    }

    async fn agent_reports(&self, reports: &[AgentReportRow]) -> Result<()> {
        let mut write = self.write().await?;
        let mut ids: Vec<Uuid> = reports.iter().flat_map(|r| &r.services).map(|s| s.id.uuid()).collect();
        // In the order in which everybody locks services, across the chunks, too.
        ids.sort_unstable();
        ids.dedup();
        if reports.iter().flat_map(|report| &report.services).any(|said| said.destroyed) {
            // The clusters of those that are gone are locked after them, and everybody else locks a cluster first.
            dependency::lock_in_tx(&write).await?;
        } else {
            dependency::lock_for_in_tx(&write, &ids).await?;
        }
        let mut rows: HashMap<Uuid, service::row::Model> = HashMap::with_capacity(ids.len());
        for chunk in ids.chunks(500) {
            let found = service::row::Entity::find()
                .filter(service::row::Column::Id.is_in(chunk.iter().copied()))
                .order_by_asc(service::row::Column::Id)
                .lock_exclusive()
                .all(&write.tx)
                .await
                .map_err(db("reading reported services"))?;
            rows.extend(found.into_iter().map(|row| (row.id, row)));
        }
        let mut components = component::list_on(&write.tx, &ids).await?;
        let mut errors = service_error::list_on(&write.tx, &ids).await?;
        let mut difference = component::Difference::default();
        let mut gone: Vec<(service::row::Model, DateTime<Utc>)> = Vec::new();
        let mut changed: HashSet<Uuid> = HashSet::new();
        let mut told: Vec<(&ServiceReportRow, DateTime<Utc>)> = Vec::new();
        // Of which open pages are told.
        let mut news: HashSet<Uuid> = HashSet::new();
        for report in reports {
            for said in &report.services {
                let id = said.id.uuid();
                let Some(row) = rows.get_mut(&id) else { continue };
                // A token reaches its own cluster's services only; an older report says nothing new.
                if row.cluster_id != report.cluster_id.uuid()
                    || said.sequence.cast_signed() < row.reported_sequence
                {
                    continue;
                }
                if said.destroyed && row.deleted_at.is_some() {
                    if let Some(row) = rows.remove(&id) {
                        gone.push((row, report.at));
                    }
                    continue;
                }
                if take_in(row, said, report.at) {
                    changed.insert(id);
                    news.insert(id);
                }
                told.push((said, report.at));
                if let Some(reported) = &said.components {
                    let stored = components.remove(&id).unwrap_or_default();
                    let before = difference.len();
                    let now = difference.compare(id, &stored, reported.clone());
                    if difference.len() != before {
                        news.insert(id);
                    }
                    components.insert(id, now);
                }
                let known = errors.entry(id).or_default();
                if known.agent != said.errors {
                    known.agent.clone_from(&said.errors);
                    news.insert(id);
                    service_error::replace_on(&write.tx, id, false, &said.errors).await?;
                }
            }
        }
        // A service that is gone takes its components along; what was compared before must not be written.
        difference.write_on(&write.tx).await?;
        let none = (Vec::new(), Errors::default());
        let latest = reports.iter().map(|report| report.at).max();
        let mut healthy: Vec<dependency::Key> = Vec::new();
        let mut revisions: Vec<Uuid> = Vec::new();
        for row in rows.values_mut() {
            let components = components.get(&row.id).unwrap_or(&none.0);
            let all = errors.get(&row.id).unwrap_or(&none.1).all();
            let status = status_of(row, components, &all);
            let count = component_status(components);
            let is_other = row.status != status.as_str();
            if changed.contains(&row.id) || is_other || row.component_status != count {
                if status == ServiceStatus::Healthy {
                    // One that stayed healthy may have come to another revision.
                    revisions.push(row.revision_id);
                    if is_other {
                        healthy.push(dependency::key_of(row));
                    }
                }
                news.insert(row.id);
                if let Some(at) = latest {
                    write.turn(row, status, at, &Seen { components, errors: &all });
                }
                row.component_status = count;
                write_reported_on(&write.tx, row).await?;
            }
        }
        if let Some(at) = latest {
            revision::healthy_on(&write.tx, &revisions, at).await?;
        }
        news.extend(sync_report::store_on(&write.tx, &told).await?);
        fleet_plan_part::answered_in_tx(&mut write, &told).await?;
        let said = told.iter().filter_map(|(said, _)| Some((said.id.uuid(), said.metadata.as_ref()?)));
        service_metadata::store_on(&write.tx, said.collect()).await?;
        if let Some(at) = latest {
            dependency::wake_in_tx(&mut write, &healthy, at).await?;
        }
        if let Some(at) = latest {
            for row in rows.values().filter(|row| news.contains(&row.id)) {
                write.changed((row.cluster_id, Some(row.id)), at);
            }
        }
        remove_in_tx(&mut write, gone).await?;
        write.commit().await
    }

    async fn agent_pings(&self, pings: &[PingRow]) -> Result<()> {
        let mut write = self.write().await?;
        let (bare, news): (Vec<&PingRow>, Vec<&PingRow>) = pings.iter().partition(|ping| {
            ping.facts.is_none() && ping.distro.is_none() && ping.issuer == IssuerReport::Untold
        });
        // Most clusters have nothing to tell but that they live, with agents of one build or two. They share the latest of the
        // batch's times, which is wrong by no more than the time that the batch was collected for.
        let mut alike: BTreeMap<Option<Contract>, Vec<&PingRow>> = BTreeMap::new();
        for ping in bare {
            alike.entry(ping.contract).or_default().push(ping);
        }
        for (contract, bare) in alike {
            let Some(at) = bare.iter().map(|ping| ping.at).max() else { continue };
            for chunk in bare.chunks(PINGS_AT_ONCE) {
                let mut row = cluster::row::ActiveModel { pinged_at: set(Some(at)), ..Default::default() };
                if let Some(contract) = contract {
                    row.agent_contract = set(Some(contract_of(contract)));
                }
                cluster::row::Entity::update_many()
                    .set(row)
                    .filter(cluster::row::Column::Id.is_in(chunk.iter().map(|ping| ping.cluster_id.uuid())))
                    .exec(&write.tx)
                    .await
                    .map_err(db("recording signs of life"))?;
            }
        }
        let known = versions_on(&write.tx, &news).await?;
        let telling: Vec<ClusterId> = news
            .iter()
            .filter(|ping| ping.issuer != IssuerReport::Untold)
            .map(|ping| ping.cluster_id)
            .collect();
        let issuers = cluster_issuer::known_in_tx(&write, &telling).await?;
        let mut changed: Vec<FeedSubject> = Vec::new();
        for ping in &news {
            let PingRow { cluster_id, facts, distro, contract, issuer, at } = ping;
            if let Some((version, kind, pinged_at)) = known.get(&cluster_id.uuid()) {
                // What templates read.
                let reported = facts.as_ref().and_then(|facts| facts.current_version.as_ref());
                let is_version = reported.is_some_and(|reported| Some(reported) != version.as_ref());
                let is_kind = distro.is_some_and(|distro| Some(distro.as_str()) != kind.as_deref());
                if is_version || is_kind {
                    changed.push(cluster::data_event(*cluster_id));
                } else if pinged_at.is_none() {
                    // Somebody waits for an agent to arrive.
                    write.changed((cluster_id.uuid(), None), *at);
                }
            }
            let mut row = cluster::row::ActiveModel { pinged_at: set(Some(*at)), ..Default::default() };
            if let Some(facts) = facts {
                let ClusterFacts { current_version, agent_version, node_count, pod_count, namespace_count } =
                    facts;
                let count = |count: Option<u32>| count.map(|n| i32::try_from(n).unwrap_or(i32::MAX));
                // An agent that could not ask its API server names none: the last one that was known stays.
                if current_version.is_some() {
                    row.current_version = set(current_version.clone());
                }
                row.agent_version = set(agent_version.clone());
                row.node_count = set(count(*node_count));
                row.pod_count = set(count(*pod_count));
                row.namespace_count = set(count(*namespace_count));
            }
            if let Some(distro) = distro {
                row.distro = set(Some(distro.as_str().to_owned()));
            }
            if let Some(contract) = contract {
                row.agent_contract = set(Some(contract_of(*contract)));
            }
            let signs = issuers.get(cluster_id);
            cluster_issuer::report_in_tx(&write, *cluster_id, issuer, signs, *at).await?;
            cluster::row::Entity::update_many()
                .set(row)
                .filter(cluster::row::Column::Id.eq(cluster_id.uuid()))
                .exec(&write.tx)
                .await
                .map_err(db("recording signs of life"))?;
        }
        if let Some(at) = news.iter().map(|ping| ping.at).max() {
            write.publish_many(&changed, at).await?;
        }
        write.commit().await
    }
}

/// As it is stored: no agent speaks one so large.
fn contract_of(contract: Contract) -> i32 {
    i32::try_from(contract.0).unwrap_or(i32::MAX)
}

/// Version, kind and last sign of life of a cluster.
type Known = (Option<String>, Option<String>, Option<DateTime<Utc>>);
/// The same behind its id.
type KnownRow = (Uuid, Option<String>, Option<String>, Option<DateTime<Utc>>);

/// Version, kind and last sign of life of these clusters, as they are stored.
async fn versions_on(connection: &impl ConnectionTrait, pings: &[&PingRow]) -> Result<HashMap<Uuid, Known>> {
    use cluster::row::{Column, Entity};
    let mut found = HashMap::with_capacity(pings.len());
    for chunk in pings.chunks(PINGS_AT_ONCE) {
        let rows: Vec<KnownRow> = Entity::find()
            .select_only()
            .columns([Column::Id, Column::CurrentVersion, Column::Distro, Column::PingedAt])
            .filter(Column::Id.is_in(chunk.iter().map(|ping| ping.cluster_id.uuid())))
            .into_tuple()
            .all(connection)
            .await
            .map_err(db("reading the versions of clusters"))?;
        found.extend(rows.into_iter().map(|(id, version, kind, pinged_at)| (id, (version, kind, pinged_at))));
    }
    Ok(found)
}

/// What a report says of the service itself; whether that is news.
fn take_in(row: &mut service::row::Model, said: &ServiceReportRow, at: DateTime<Utc>) -> bool {
    let before = (row.reported_sequence, row.applied_revision_id, row.applied_sha.clone());
    row.reported_sequence = said.sequence.cast_signed();
    if said.applied {
        row.applied_revision_id = Some(said.revision_id.uuid());
        row.applied_sha.clone_from(&said.sha);
    }
    let news = before != (row.reported_sequence, row.applied_revision_id, row.applied_sha.clone());
    if news {
        row.updated_at = at;
    }
    news
}

async fn write_reported_on(connection: &impl ConnectionTrait, row: &service::row::Model) -> Result<()> {
    let change = service::row::ActiveModel {
        id: ActiveValue::Unchanged(row.id),
        status: set(row.status.clone()),
        component_status: set(row.component_status.clone()),
        failing_since: set(row.failing_since),
        recovered_at: set(row.recovered_at),
        applied_revision_id: set(row.applied_revision_id),
        applied_sha: set(row.applied_sha.clone()),
        reported_sequence: set(row.reported_sequence),
        updated_at: set(row.updated_at),
        ..Default::default()
    };
    change.update(connection).await.map(drop).map_err(db("recording a report"))
}

/// Removes services that agents destroyed, and deleted clusters that have none left.
async fn remove_in_tx(
    write: &mut transaction::Write<'_>,
    gone: Vec<(service::row::Model, DateTime<Utc>)>,
) -> Result<()> {
    let mut clusters: HashMap<Uuid, DateTime<Utc>> = HashMap::new();
    let request_id = RequestId::new();
    let entry =
        |action: &'static str, cluster: Uuid, noun: &'static str, id: Uuid, name: String, at| AuditEntry {
            action: action.into(),
            user_id: None,
            actor: format!("cluster:{cluster}"),
            token_id: None,
            address: None,
            target: AuditTarget { noun: noun.into(), id: Some(id), name },
            request_id,
            at,
            times: 1,
            before: None,
            after: None,
        };
    for (row, at) in gone {
        let depended = dependency::before_gone_on(&write.tx, &[row.id]).await?;
        service::row::Entity::delete_by_id(row.id)
            .exec(&write.tx)
            .await
            .map_err(db("removing a destroyed service"))?;
        policy::forget_in_tx(write, ServiceId::from_uuid(row.id)).await?;
        dependency::gone_in_tx(write, &depended, at).await?;
        write.audit(&entry("service.destroyed", row.cluster_id, "service", row.id, row.name, at)).await?;
        write.publish(service::event_at(row.cluster_id, row.id, 0, WorkChange::Changed), at).await?;
        clusters.insert(row.cluster_id, at);
    }
    for (id, at) in clusters {
        let cluster = cluster::row::Entity::find_by_id(id).lock_exclusive().one(&write.tx).await;
        let Some(cluster) = cluster.map_err(db("reading a drained cluster"))? else { continue };
        let left = service::row::Entity::find()
            .filter(service::row::Column::ClusterId.eq(id))
            .count(&write.tx)
            .await
            .map_err(db("counting a cluster's services"))?;
        if cluster.deleted_at.is_some() && left == 0 {
            federated_credential::end_of_cluster_in_tx(write, id).await?;
            cluster::row::Entity::delete_by_id(id)
                .exec(&write.tx)
                .await
                .map_err(db("removing a drained cluster"))?;
            policy::forget_in_tx(write, ClusterId::from_uuid(id)).await?;
            write.audit(&entry("cluster.drained", id, "cluster", id, cluster.handle, at)).await?;
            write.publish(FeedSubject::Cluster { cluster_id: ClusterId::from_uuid(id) }, at).await?;
        }
    }
    Ok(())
}
