//! Sync windows, and the services that they hold back.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_app::access::{Audited, Authorized, Installation, Read, Write};
use plural_app::sync_window::SyncWindowStore;
use plural_core::audit::AuditTarget;
use plural_core::ids::{ClusterId, ProjectId, ServiceId, SyncWindowId};
use plural_core::policy::{Policy, PolicyNoun};
use plural_core::service::PinUntil;
use plural_core::service::Service;
use plural_core::sync_window::{SyncWindow, SyncWindowKind, WindowRule};
use plural_core::work::WorkChange;
use plural_core::{Error, Result};
use sea_orm::sea_query::SimpleExpr;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect,
};
use uuid::Uuid;

use crate::convert::word;
use crate::database::{Database, corrupt};
use crate::error::{db, unique};
use crate::service_life::{pin_of, released_in_tx, write_moved_in_tx};
use crate::transaction::set;
use crate::{dependency, policy, service};

/// Windows of one project, cluster or service.
const MAX_WINDOWS: usize = 50;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "sync_windows")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub policy_id: Uuid,
        pub kind: String,
        pub schedule: String,
        pub seconds: i32,
        pub time_zone: String,
        pub description: Option<String>,
        pub name: Option<String>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for SyncWindow {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model { id, policy_id: _, kind, schedule, seconds, time_zone, description, name } = row;
        let kind = word(SyncWindowKind::parse(&kind), "a window's kind")?;
        let rule = WindowRule::new(kind, &schedule, seconds.cast_unsigned(), &time_zone)
            .map_err(|_| corrupt("a sync window"))?;
        Ok(Self { id: SyncWindowId::from_uuid(id), name, rule, description })
    }
}

const UNIQUE: &[(&str, &str)] =
    &[("sync_windows_policy_id_name_key", "another window of it already has this name; choose another name")];

/// The columns of a window, all but those that say whose it is.
fn written(window: &SyncWindow) -> row::ActiveModel {
    let SyncWindow { id, name, rule, description } = window;
    let WindowRule { kind, schedule, seconds, time_zone } = rule;
    row::ActiveModel {
        id: set(id.uuid()),
        policy_id: ActiveValue::NotSet,
        kind: set(kind.as_str().to_owned()),
        schedule: set(schedule.to_string()),
        seconds: set(seconds.cast_signed()),
        time_zone: set(time_zone.name().to_owned()),
        description: set(description.clone()),
        name: set(name.clone()),
    }
}

fn check_name(others: &[SyncWindow], window: &SyncWindow) -> Result<()> {
    let taken = window.name.is_some()
        && others.iter().any(|other| other.id != window.id && other.name == window.name);
    if taken { Err(Error::conflict(UNIQUE[0].1)) } else { Ok(()) }
}

fn on(policy: Policy) -> SimpleExpr {
    row::Column::PolicyId.eq(policy.id().uuid())
}

/// The windows of this very policy, none inherited.
pub(crate) async fn list_on(connection: &impl ConnectionTrait, policy: Policy) -> Result<Vec<SyncWindow>> {
    let rows = row::Entity::find().filter(on(policy)).order_by_asc(row::Column::Id).all(connection).await;
    rows.map_err(db("reading sync windows"))?.into_iter().map(SyncWindow::try_from).collect()
}

/// The windows that concern each of these services: its own, its cluster's and its project's.
pub(crate) async fn of_services_on(
    connection: &impl ConnectionTrait,
    services: &[service::row::Model],
) -> Result<HashMap<Uuid, Vec<SyncWindow>>> {
    let places: Vec<(Uuid, Uuid)> = services.iter().map(|row| (row.id, row.cluster_id)).collect();
    of_places_on(connection, &places).await
}

/// The windows that concern services, each given with its cluster.
async fn of_places_on(
    connection: &impl ConnectionTrait,
    services: &[(Uuid, Uuid)],
) -> Result<HashMap<Uuid, Vec<SyncWindow>>> {
    let doing = "reading sync windows";
    let all = row::Entity::find().order_by_asc(row::Column::Id).all(connection).await.map_err(db(doing))?;
    if all.is_empty() {
        return Ok(HashMap::new());
    }
    let mut clusters: Vec<Uuid> = services.iter().map(|(_, cluster)| *cluster).collect();
    clusters.sort_unstable();
    clusters.dedup();
    let chains = policy::chains_on(connection, &clusters).await?;
    let mut found = HashMap::new();
    for (service, cluster) in services {
        let above = chains.get(cluster).map(Vec::as_slice).unwrap_or_default();
        let concerns =
            |window: &&row::Model| window.policy_id == *service || above.contains(&window.policy_id);
        let windows: Vec<SyncWindow> =
            all.iter().filter(concerns).cloned().map(SyncWindow::try_from).collect::<Result<_>>()?;
        if !windows.is_empty() {
            found.insert(*service, windows);
        }
    }
    Ok(found)
}

#[async_trait]
impl SyncWindowStore for Database {
    async fn sync_window_list(&self, policy: &Authorized<Policy, Read>) -> Result<Vec<SyncWindow>> {
        list_on(&self.reader, **policy).await
    }

    async fn sync_window_list_all(&self, most: u64) -> Result<Vec<(Policy, SyncWindow)>> {
        let rows = row::Entity::find().order_by_asc(row::Column::Id).limit(most).all(&self.reader).await;
        let rows = rows.map_err(db("reading sync windows"))?;
        let ids = rows.iter().map(|row| row.policy_id);
        let policies = policy::row::Entity::find().filter(policy::row::Column::Id.is_in(ids));
        let policies = policies.all(&self.reader).await.map_err(db("reading sync windows"))?;
        let policies = policies.into_iter().map(|row| {
            let of = match PolicyNoun::parse(&row.noun) {
                Some(PolicyNoun::Project) => ProjectId::from_uuid(row.id).into(),
                Some(PolicyNoun::Cluster) => ClusterId::from_uuid(row.id).into(),
                Some(PolicyNoun::Service) => ServiceId::from_uuid(row.id).into(),
                _ => return Err(corrupt("what a sync window is of")),
            };
            Ok((row.id, of))
        });
        let policies: HashMap<Uuid, Policy> = policies.collect::<Result<_>>()?;
        let windows = rows.into_iter().filter_map(|row| {
            let of = *policies.get(&row.policy_id)?;
            Some(SyncWindow::try_from(row).map(|window| (of, window)))
        });
        windows.collect()
    }

    async fn sync_window_create(&self, by: Audited<'_, Policy, Write>, window: &SyncWindow) -> Result<()> {
        let write = self.write().await?;
        let policy = *by.target();
        let others = list_on(&write.tx, policy).await?;
        if others.len() >= MAX_WINDOWS {
            return Err(Error::conflict(format!(
                "there are {MAX_WINDOWS} windows already: remove one first"
            )));
        }
        check_name(&others, window)?;
        let row = row::ActiveModel { policy_id: set(policy.id().uuid()), ..written(window) };
        row.insert(&write.tx).await.map_err(unique("making a sync window", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn sync_window_update(&self, by: Audited<'_, Policy, Write>, window: &SyncWindow) -> Result<()> {
        let doing = "changing a sync window";
        let write = self.write().await?;
        let all = list_on(&write.tx, *by.target()).await?;
        let known = all.iter().find(|one| one.id == window.id).ok_or(Error::not_found("sync window"))?;
        if known == window {
            return Ok(());
        }
        check_name(&all, window)?;
        let row = row::ActiveModel { id: ActiveValue::Unchanged(window.id.uuid()), ..written(window) };
        row.update(&write.tx).await.map_err(unique(doing, UNIQUE))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn sync_window_delete(
        &self,
        by: Audited<'_, Policy, Write>,
        id: SyncWindowId,
    ) -> Result<SyncWindow> {
        let doing = "removing a sync window";
        let write = self.write().await?;
        let row = row::Entity::find_by_id(id.uuid()).filter(on(*by.target())).one(&write.tx).await;
        let row = row.map_err(db(doing))?.ok_or(Error::not_found("sync window"))?;
        row::Entity::delete_by_id(row.id).exec(&write.tx).await.map_err(db(doing))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn services_windows(
        &self,
        services: &[&Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<SyncWindow>>> {
        let places: Vec<(Uuid, Uuid)> =
            services.iter().map(|one| (one.id.uuid(), one.cluster_id.uuid())).collect();
        let found = of_places_on(&self.reader, &places).await?;
        Ok(found.into_iter().map(|(id, windows)| (ServiceId::from_uuid(id), windows)).collect())
    }

    async fn sync_window_held(&self) -> Result<Vec<(ServiceId, Vec<SyncWindow>)>> {
        let rows = service::row::Entity::find()
            .filter(service::row::Column::Pin.is_not_null())
            .filter(service::row::Column::DeletedAt.is_null())
            .all(&self.reader)
            .await
            .map_err(db("reading services that are held back"))?;
        let mut held = Vec::new();
        for row in rows {
            if pin_of(&row)?.is_some_and(|pin| pin.until == PinUntil::Window) {
                held.push(row);
            }
        }
        let mut windows = of_services_on(&self.reader, &held).await?;
        Ok(held
            .into_iter()
            .map(|row| (ServiceId::from_uuid(row.id), windows.remove(&row.id).unwrap_or_default()))
            .collect())
    }

    async fn sync_window_open(
        &self,
        by: Audited<'_, Installation, Write>,
        services: &[ServiceId],
    ) -> Result<usize> {
        let at = by.entry().at;
        let mut moved = 0;
        for id in services {
            let mut write = self.write().await?;
            dependency::lock_for_in_tx(&write, &[id.uuid()]).await?;
            let row = service::row::Entity::find_by_id(id.uuid())
                .lock_exclusive()
                .one(&write.tx)
                .await
                .map_err(db("reading a service"))?;
            let Some(row) = row else { continue };
            // Somebody may have released it, or pinned it, in between.
            let Some(pin) = pin_of(&row)?.filter(|pin| pin.until == PinUntil::Window) else { continue };
            if dependency::waits_in_tx(&write, row.id).await? {
                let pin = dependency::waiting_pin(None, pin.newest, at);
                dependency::write_pin_on(&write.tx, row, Some(pin)).await?;
                write.commit().await?;
                continue;
            }
            let row = released_in_tx(&write, row).await?;
            let row = write_moved_in_tx(&mut write, row, at).await?;
            let mut entry = by.entry().clone();
            // Another thing than the one that the handle is of.
            entry.before = None;
            entry.target = AuditTarget { noun: "service".into(), id: Some(row.id), name: row.name.clone() };
            write.audit(&entry).await?;
            write.publish(service::event(&row, WorkChange::Changed), at).await?;
            write.commit().await?;
            moved += 1;
        }
        Ok(moved)
    }
}
