//! Services that depend on each other: who waits for whom, and who goes when.
//!
//! Whatever changes how a service is also looks, in the same transaction, at those that wait for it. So nobody polls, and
//! nothing is forgotten when the console is killed. On PostgreSQL one lock is taken before any row's by all that decide
//! by dependencies: two edits cannot close a cycle that neither of them sees, and none waits for what has just
//! become healthy. SQLite has one writer.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Admin, Authorized, Read};
use plural_app::dependency::{DependencyRequest, DependencyStore};
use plural_core::audit::{AuditEntry, AuditTarget};
use plural_core::cluster::Cluster;
use plural_core::dependency::{Dependency, DependencyOn, DependencyStatus, find_cycle, obstacle};
use plural_core::ids::{ClusterId, DependencyId, RequestId, RevisionId, ServiceId};
use plural_core::service::{Pin, PinUntil, Service};
use plural_core::status::ServiceStatus;
use plural_core::sync_window::window_decision;
use plural_core::work::WorkChange;
use plural_core::{Error, Result};
use sea_orm::sea_query::Condition;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect,
};
use uuid::Uuid;

use crate::convert::{parse, to_json, word};
use crate::database::Database;
use crate::error::db;
use crate::service::event;
use crate::service_life::{pin_of, released_in_tx, write_moved_in_tx};
use crate::transaction::{self, set};
use crate::{cluster, service, sync_window};

/// Who holds a service back that waits for others, as pins and the audit log call them.
const BY: &str = "its dependencies";
/// Dependencies that a check for cycles follows at most: more is no cycle, but no answer either.
const MOST_EDGES: usize = 20_000;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "service_dependencies")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub service_id: Uuid,
        pub cluster_id: Uuid,
        /// The handle that the cluster had, for when it is gone.
        pub cluster: String,
        pub name: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// A service by its cluster and name.
pub(crate) type Key = (Uuid, String);

impl row::Model {
    pub(crate) fn on(&self) -> Key {
        (self.cluster_id, self.name.clone())
    }
}

/// The key of a stored service.
pub(crate) fn key_of(service: &service::row::Model) -> Key {
    (service.cluster_id, service.name.clone())
}

/// The lock of all that decide by dependencies, that renew services, or that lock a cluster and services that are on it, until the
/// transaction ends. It is taken before any row is locked.
pub(crate) async fn lock_in_tx(write: &transaction::Write<'_>) -> Result<()> {
    if write.is_postgres() {
        let sql = "SELECT pg_advisory_xact_lock(7308324466019430)";
        write.tx.execute_unprepared(sql).await.map_err(db("waiting for other edits of dependencies"))?;
    }
    Ok(())
}

/// Takes the lock when one of these services depends on others, or is depended upon: before their rows are locked.
pub(crate) async fn lock_for_in_tx(write: &transaction::Write<'_>, services: &[Uuid]) -> Result<()> {
    if !write.is_postgres() {
        return Ok(());
    }
    for chunk in services.chunks(500) {
        let some = of_on(&write.tx, chunk).await?;
        if !some.is_empty() {
            return lock_in_tx(write).await;
        }
        let keys: Vec<Key> = service::row::Entity::find()
            .select_only()
            .columns([service::row::Column::ClusterId, service::row::Column::Name])
            .filter(service::row::Column::Id.is_in(chunk.iter().copied()))
            .into_tuple()
            .all(&write.tx)
            .await
            .map_err(db("reading services"))?;
        if !dependents_on(&write.tx, &keys).await?.is_empty() {
            return lock_in_tx(write).await;
        }
    }
    Ok(())
}

/// What each of these services depends on; those without are left out.
pub(crate) async fn of_on(
    connection: &impl ConnectionTrait,
    services: &[Uuid],
) -> Result<HashMap<Uuid, Vec<row::Model>>> {
    let mut found: HashMap<Uuid, Vec<row::Model>> = HashMap::new();
    for chunk in services.chunks(500) {
        let rows = row::Entity::find()
            .filter(row::Column::ServiceId.is_in(chunk.iter().copied()))
            .order_by_asc(row::Column::Id)
            .all(connection)
            .await
            .map_err(db("reading dependencies"))?;
        for row in rows {
            found.entry(row.service_id).or_default().push(row);
        }
    }
    Ok(found)
}

/// Ids of the services that depend on one of these, with what they depend on.
async fn dependents_on(connection: &impl ConnectionTrait, keys: &[Key]) -> Result<Vec<(Uuid, Key)>> {
    let mut found = Vec::new();
    for chunk in keys.chunks(200) {
        let rows = row::Entity::find()
            .filter(any_of(chunk, row::Column::ClusterId, row::Column::Name))
            .order_by_asc(row::Column::Id)
            .all(connection)
            .await
            .map_err(db("reading who depends on services"))?;
        found.extend(rows.into_iter().map(|row| (row.service_id, row.on())));
    }
    Ok(found)
}

/// One of these clusters and names.
fn any_of<C: ColumnTrait>(keys: &[Key], cluster: C, name: C) -> Condition {
    let mut by_cluster: HashMap<Uuid, Vec<&str>> = HashMap::new();
    for (id, name) in keys {
        by_cluster.entry(*id).or_default().push(name);
    }
    by_cluster.into_iter().fold(Condition::any(), |any, (id, names)| {
        any.add(Condition::all().add(cluster.eq(id)).add(name.is_in(names)))
    })
}

/// The services of these keys. In a write they are locked against changes until it ends.
pub(crate) async fn services_on(
    connection: &impl ConnectionTrait,
    keys: &[Key],
    locked: bool,
) -> Result<HashMap<Key, service::row::Model>> {
    let mut found = HashMap::with_capacity(keys.len());
    for chunk in keys.chunks(200) {
        let query = service::row::Entity::find()
            .filter(any_of(chunk, service::row::Column::ClusterId, service::row::Column::Name))
            .order_by_asc(service::row::Column::Id);
        let query = if locked { query.lock_shared() } else { query };
        let rows = query.all(connection).await.map_err(db("reading dependencies"))?;
        found.extend(rows.into_iter().map(|row| (key_of(&row), row)));
    }
    Ok(found)
}

fn standing(row: &service::row::Model) -> Result<DependencyStatus> {
    Ok(DependencyStatus {
        status: word(ServiceStatus::parse(&row.status), "a service's status")?,
        component_status: row.component_status.clone(),
        pin: pin_of(row)?.map(|pin| pin.until),
        dry_run: row.dry_run,
        deleting: row.deleted_at.is_some(),
    })
}

/// Whether a service has to wait for one that it depends on.
pub(crate) async fn waits_in_tx(write: &transaction::Write<'_>, service: Uuid) -> Result<bool> {
    let Some(rows) = of_on(&write.tx, &[service]).await?.remove(&service) else { return Ok(false) };
    let keys: Vec<Key> = rows.iter().map(row::Model::on).collect();
    let found = services_on(&write.tx, &keys, true).await?;
    for key in &keys {
        let standing = found.get(key).map(standing).transpose()?;
        if obstacle(standing.as_ref()).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The pin of a service whose `newest` revision waits; one that waits already does so since then.
pub(crate) fn waiting_pin(known: Option<&Pin>, newest: RevisionId, at: DateTime<Utc>) -> Pin {
    let since = known.filter(|pin| pin.until == PinUntil::Dependencies).map_or(at, |pin| pin.at);
    Pin { newest, by: BY.to_owned(), at: since, until: PinUntil::Dependencies }
}

/// Makes `wishes` all that a service depends on. The lock is held.
pub(crate) async fn replace_in_tx(
    write: &transaction::Write<'_>,
    service: &service::row::Model,
    wishes: &[DependencyRequest],
) -> Result<()> {
    let doing = "changing what a service depends on";
    row::Entity::delete_many()
        .filter(row::Column::ServiceId.eq(service.id))
        .exec(&write.tx)
        .await
        .map_err(db(doing))?;
    if wishes.is_empty() {
        return Ok(());
    }
    let rows: Vec<row::Model> = wishes
        .iter()
        .map(|DependencyRequest { cluster, name }| row::Model {
            id: DependencyId::new().uuid(),
            service_id: service.id,
            cluster_id: cluster.as_ref().map_or(service.cluster_id, |(id, _)| id.uuid()),
            cluster: cluster.as_ref().map_or_else(String::new, |(_, handle)| handle.to_string()),
            name: name.to_string(),
        })
        .collect();
    let keys: Vec<Key> = rows.iter().map(row::Model::on).collect();
    let there = services_on(&write.tx, &keys, false).await?;
    if let Some(leaving) = there.values().find(|row| row.deleted_at.is_some()) {
        return Err(Error::conflict(format!("cannot depend on {}: it is being deleted", leaving.name)));
    }
    let rows =
        rows.into_iter().map(|row::Model { id, service_id, cluster_id, cluster, name }| row::ActiveModel {
            id: set(id),
            service_id: set(service_id),
            cluster_id: set(cluster_id),
            cluster: set(cluster),
            name: set(name),
        });
    row::Entity::insert_many(rows).exec_without_returning(&write.tx).await.map_err(db(doing))?;
    refuse_cycle_in_tx(write, key_of(service), keys).await
}

/// Follows dependencies from what `start` depends on; refuses when one leads back.
async fn refuse_cycle_in_tx(write: &transaction::Write<'_>, start: Key, on: Vec<Key>) -> Result<()> {
    let mut edges: HashMap<Key, Vec<Key>> = HashMap::from([(start.clone(), on.clone())]);
    let mut next: Vec<Key> = on.into_iter().filter(|key| *key != start).collect();
    let mut count = 0;
    while !next.is_empty() {
        let found = services_on(&write.tx, &next, false).await?;
        let ids: Vec<Uuid> = found.values().map(|row| row.id).collect();
        let mut of = of_on(&write.tx, &ids).await?;
        let mut further = HashSet::new();
        for (key, row) in found {
            let on: Vec<Key> = of.remove(&row.id).unwrap_or_default().iter().map(row::Model::on).collect();
            count += on.len();
            further.extend(on.iter().cloned());
            edges.insert(key, on);
        }
        if count > MOST_EDGES {
            return Err(Error::conflict("too much depends on each other here to look for a cycle"));
        }
        next = further.into_iter().filter(|key| !edges.contains_key(key)).collect();
        // What does not exist leads nowhere.
        for key in &next {
            edges.entry(key.clone()).or_default();
        }
    }
    let Some(cycle) = find_cycle(&start, &edges) else { return Ok(()) };
    let handles = handles_on(&write.tx, cycle.iter().map(|(cluster, _)| *cluster)).await?;
    let words: Vec<String> = cycle
        .iter()
        .map(|(cluster, name)| match handles.get(cluster) {
            Some(handle) => format!("{handle}/{name}"),
            None => name.clone(),
        })
        .collect();
    Err(Error::conflict(format!("services would wait for each other for ever: {}", words.join(" -> "))))
}

async fn handles_on(
    connection: &impl ConnectionTrait,
    clusters: impl Iterator<Item = Uuid>,
) -> Result<HashMap<Uuid, String>> {
    let mut ids: Vec<Uuid> = clusters.collect();
    ids.sort_unstable();
    ids.dedup();
    let mut handles = HashMap::new();
    for chunk in ids.chunks(500) {
        let rows: Vec<(Uuid, String)> = cluster::row::Entity::find()
            .select_only()
            .columns([cluster::row::Column::Id, cluster::row::Column::Handle])
            .filter(cluster::row::Column::Id.is_in(chunk.iter().copied()))
            .into_tuple()
            .all(connection)
            .await
            .map_err(db("reading clusters"))?;
        handles.extend(rows);
    }
    Ok(handles)
}

/// Lets those go on that waited for one of these services, and have nothing else to wait for.
pub(crate) async fn wake_in_tx(
    write: &mut transaction::Write<'_>,
    healthy: &[Key],
    at: DateTime<Utc>,
) -> Result<()> {
    if healthy.is_empty() {
        return Ok(());
    }
    let mut ids: Vec<Uuid> = dependents_on(&write.tx, healthy).await?.into_iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    ids.dedup();
    for chunk in ids.chunks(500) {
        let rows = service::row::Entity::find()
            .filter(service::row::Column::Id.is_in(chunk.iter().copied()))
            .filter(service::row::Column::Pin.is_not_null())
            .order_by_asc(service::row::Column::Id)
            .lock_exclusive()
            .all(&write.tx)
            .await
            .map_err(db("reading services that wait"))?;
        for row in rows {
            go_on_in_tx(write, row, at).await?;
        }
    }
    Ok(())
}

/// A service as it is after a look at what it waits for: it goes on when it need not wait any more.
pub(crate) async fn go_on_in_tx(
    write: &mut transaction::Write<'_>,
    row: service::row::Model,
    at: DateTime<Utc>,
) -> Result<service::row::Model> {
    let Some(pin) = pin_of(&row)?.filter(|pin| pin.until == PinUntil::Dependencies) else { return Ok(row) };
    if row.deleted_at.is_some() || waits_in_tx(write, row.id).await? {
        return Ok(row);
    }
    let here = [row];
    let windows = sync_window::of_services_on(&write.tx, &here).await?;
    let [row] = here;
    if windows.get(&row.id).is_some_and(|windows| !window_decision(windows, at).open) {
        let by = "a sync window".to_owned();
        return write_pin_on(&write.tx, row, Some(Pin { by, at, until: PinUntil::Window, ..pin })).await;
    }
    let row = released_in_tx(write, row).await?;
    let row = write_moved_in_tx(write, row, at).await?;
    write.audit(&entry("service.dependencies.healthy", &row, at)).await?;
    write.publish(event(&row, WorkChange::Changed), at).await?;
    Ok(row)
}

/// Another pin, and nothing else.
pub(crate) async fn write_pin_on(
    connection: &impl ConnectionTrait,
    row: service::row::Model,
    pin: Option<Pin>,
) -> Result<service::row::Model> {
    let change = service::row::ActiveModel {
        id: ActiveValue::Unchanged(row.id),
        pin: set(pin.map(|pin| to_json(&pin, "a pin")).transpose()?),
        ..Default::default()
    };
    change.update(connection).await.map_err(db("holding a service back"))
}

fn entry(action: &'static str, row: &service::row::Model, at: DateTime<Utc>) -> AuditEntry {
    AuditEntry {
        action: action.into(),
        user_id: None,
        actor: "system".to_owned(),
        token_id: None,
        address: None,
        target: AuditTarget { noun: "service".into(), id: Some(row.id), name: row.name.clone() },
        request_id: RequestId::new(),
        at,
        times: 1,
        before: None,
        after: None,
    }
}

/// Those that depend on these services, directly or through others, and are not being destroyed.
pub(crate) async fn dependents_all_on(
    connection: &impl ConnectionTrait,
    services: &[Key],
) -> Result<Vec<service::row::Model>> {
    let mut seen: HashSet<Uuid> = HashSet::new();
    let mut all = Vec::new();
    let mut keys = services.to_vec();
    while !keys.is_empty() {
        let ids: Vec<Uuid> = dependents_on(connection, &keys)
            .await?
            .into_iter()
            .map(|(id, _)| id)
            .filter(|id| seen.insert(*id))
            .collect();
        let mut next = Vec::new();
        for chunk in ids.chunks(500) {
            let rows = service::row::Entity::find()
                .filter(service::row::Column::Id.is_in(chunk.iter().copied()))
                .filter(service::row::Column::DeletedAt.is_null())
                .order_by_asc(service::row::Column::Id)
                .all(connection)
                .await
                .map_err(db("reading who depends on a service"))?;
            next.extend(rows);
        }
        keys = next.iter().map(key_of).collect();
        all.extend(next);
    }
    Ok(all)
}

/// Which of these services others depend on, whether those are being destroyed or not.
pub(crate) async fn depended_on(connection: &impl ConnectionTrait, keys: &[Key]) -> Result<HashSet<Key>> {
    Ok(dependents_on(connection, keys).await?.into_iter().map(|(_, key)| key).collect())
}

/// Services of other clusters that depend on one of this cluster and are not being destroyed; and the names of those that any
/// service depends on.
async fn dependents_of_cluster_on(
    connection: &impl ConnectionTrait,
    id: Uuid,
) -> Result<(Vec<Uuid>, Vec<String>)> {
    let doing = "reading who depends on a cluster's services";
    let rows = row::Entity::find().filter(row::Column::ClusterId.eq(id)).all(connection).await;
    let rows = rows.map_err(db(doing))?;
    let mut elsewhere = Vec::new();
    for chunk in rows.chunks(500) {
        let found: Vec<Uuid> = service::row::Entity::find()
            .select_only()
            .column(service::row::Column::Id)
            .filter(service::row::Column::Id.is_in(chunk.iter().map(|row| row.service_id)))
            .filter(service::row::Column::ClusterId.ne(id))
            .filter(service::row::Column::DeletedAt.is_null())
            .into_tuple()
            .all(connection)
            .await
            .map_err(db(doing))?;
        elsewhere.extend(found);
    }
    elsewhere.sort_unstable();
    elsewhere.dedup();
    Ok((elsewhere, rows.into_iter().map(|row| row.name).collect()))
}

/// Names of the services of a cluster that is to go which others depend on, so that they go after those; refuses while a service
/// elsewhere depends on one of them that is not being destroyed.
pub(crate) async fn outlive_cluster_on(connection: &impl ConnectionTrait, id: Uuid) -> Result<Vec<String>> {
    let (elsewhere, names) = dependents_of_cluster_on(connection, id).await?;
    if elsewhere.is_empty() {
        return Ok(names);
    }
    // Not everybody may know their names, and a moment ago there were none.
    Err(Error::conflict("services of other clusters depend on its services by now: try again"))
}

/// What services that are about to go depend on: to be looked at by [`gone_in_tx`] when they are gone.
pub(crate) async fn before_gone_on(connection: &impl ConnectionTrait, services: &[Uuid]) -> Result<Vec<Key>> {
    let mut keys: Vec<Key> =
        of_on(connection, services).await?.into_values().flatten().map(|row| row.on()).collect();
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// Destroys those of these services that only waited for what is gone now.
pub(crate) async fn gone_in_tx(
    write: &mut transaction::Write<'_>,
    depended: &[Key],
    at: DateTime<Utc>,
) -> Result<()> {
    if depended.is_empty() {
        return Ok(());
    }
    let still = depended_on(&write.tx, depended).await?;
    let free: Vec<Key> = depended.iter().filter(|key| !still.contains(*key)).cloned().collect();
    for (_, row) in services_on(&write.tx, &free, false).await? {
        if row.outlives {
            let change = service::row::ActiveModel {
                id: ActiveValue::Unchanged(row.id),
                outlives: set(false),
                sequence: set(row.sequence + 1),
                updated_at: set(at),
                ..Default::default()
            };
            let doing = "destroying what nobody depends on any more";
            let row = change.update(&write.tx).await.map_err(db(doing))?;
            write.publish(event(&row, WorkChange::Changed), at).await?;
        }
    }
    Ok(())
}

/// Marks services deleted: each is destroyed when nothing is left that depends on it.
pub(crate) async fn destroy_in_tx(
    write: &mut transaction::Write<'_>,
    services: Vec<service::row::Model>,
    at: DateTime<Utc>,
) -> Result<Vec<service::row::Model>> {
    let keys: Vec<Key> = services.iter().map(key_of).collect();
    let depended = depended_on(&write.tx, &keys).await?;
    let mut leaving = Vec::with_capacity(services.len());
    for row in services {
        let change = service::row::ActiveModel {
            id: ActiveValue::Unchanged(row.id),
            deleted_at: set(Some(row.deleted_at.unwrap_or(at))),
            outlives: set(depended.contains(&key_of(&row))),
            // Somebody asked for it by name: that is approval enough.
            cascaded: set(false),
            sequence: set(row.sequence + 1),
            updated_at: set(at),
            ..Default::default()
        };
        let row = change.update(&write.tx).await.map_err(db("deleting a service"))?;
        write.publish(event(&row, WorkChange::Changed), at).await?;
        leaving.push(row);
    }
    Ok(leaving)
}

/// Edges among these services.
async fn edges_on(connection: &impl ConnectionTrait, services: &[Uuid]) -> Result<HashMap<Uuid, Vec<Uuid>>> {
    let of = of_on(connection, services).await?;
    if of.is_empty() {
        return Ok(HashMap::new());
    }
    let keys: Vec<Key> = of.values().flatten().map(row::Model::on).collect();
    let found = services_on(connection, &keys, false).await?;
    Ok(of
        .into_iter()
        .map(|(id, rows)| {
            (id, rows.iter().filter_map(|row| found.get(&row.on())).map(|row| row.id).collect())
        })
        .collect())
}

/// The same ids, each after those of them that it depends on.
pub(crate) async fn first_on(connection: &impl ConnectionTrait, services: &[Uuid]) -> Result<Vec<Uuid>> {
    let edges = edges_on(connection, services).await?;
    Ok(if edges.is_empty() {
        services.to_vec()
    } else {
        plural_core::dependency::dependencies_first(services, &edges)
    })
}

#[async_trait]
impl DependencyStore for Database {
    async fn services_dependencies(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<Dependency>>> {
        let ids: Vec<Uuid> = services.iter().map(|service| service.id.uuid()).collect();
        let of = of_on(&self.reader, &ids).await?;
        let keys: Vec<Key> = of.values().flatten().map(row::Model::on).collect();
        let found = services_on(&self.reader, &keys, false).await?;
        let handles = handles_on(&self.reader, keys.iter().map(|(cluster, _)| *cluster)).await?;
        of.into_iter()
            .map(|(id, rows)| {
                let rows = rows.into_iter().map(|row| {
                    let there = found.get(&row.on());
                    let row::Model { id, service_id: _, cluster_id, cluster, name } = row;
                    let on = DependencyOn {
                        cluster_id: ClusterId::from_uuid(cluster_id),
                        cluster: handles.get(&cluster_id).cloned().unwrap_or(cluster),
                        name: parse(&name, "a dependency's name")?,
                    };
                    Ok(Dependency {
                        id: DependencyId::from_uuid(id),
                        on,
                        service_id: there.map(|row| ServiceId::from_uuid(row.id)),
                        standing: there.map(standing).transpose()?,
                    })
                });
                Ok((ServiceId::from_uuid(id), rows.collect::<Result<_>>()?))
            })
            .collect()
    }

    async fn services_dependents(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<ServiceId>>> {
        let by_key: HashMap<Key, ServiceId> =
            services.iter().map(|one| ((one.cluster_id.uuid(), one.name.to_string()), one.id)).collect();
        let keys: Vec<Key> = by_key.keys().cloned().collect();
        let mut found: HashMap<ServiceId, Vec<ServiceId>> = HashMap::new();
        for (dependent, key) in dependents_on(&self.reader, &keys).await? {
            if let Some(id) = by_key.get(&key) {
                found.entry(*id).or_default().push(ServiceId::from_uuid(dependent));
            }
        }
        Ok(found)
    }

    async fn service_dependents_all(&self, service: &Authorized<Service, Read>) -> Result<Vec<ServiceId>> {
        let key = (service.cluster_id.uuid(), service.name.to_string());
        let all = dependents_all_on(&self.reader, &[key]).await?;
        Ok(all.into_iter().map(|row| ServiceId::from_uuid(row.id)).collect())
    }

    async fn cluster_dependents(&self, cluster: &Authorized<Cluster, Admin>) -> Result<Vec<ServiceId>> {
        let (elsewhere, _) = dependents_of_cluster_on(&self.reader, cluster.id.uuid()).await?;
        Ok(elsewhere.into_iter().map(ServiceId::from_uuid).collect())
    }

    async fn dependencies_first(&self, ids: &[ServiceId]) -> Result<Vec<ServiceId>> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
        Ok(first_on(&self.reader, &ids).await?.into_iter().map(ServiceId::from_uuid).collect())
    }
}
