//! Instances of global services, as lists show them.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_app::access::{Authorized, Read};
use plural_app::global_service::Instance;
use plural_app::instance::{InstanceCounts, InstanceListStore};
use plural_core::global_service::GlobalService;
use plural_core::ids::GlobalServiceId;
use plural_core::status::ServiceStatus;
use plural_core::{Page, PageRequest, Result};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use uuid::Uuid;

use crate::database::Database;
use crate::error::db;
use crate::records::AT_ONCE;
use crate::{instance, service};

#[async_trait]
impl InstanceListStore for Database {
    async fn instances_counts(
        &self,
        globals: &[Authorized<GlobalService, Read>],
    ) -> Result<HashMap<GlobalServiceId, InstanceCounts>> {
        use service::row::Column;
        let newest: HashMap<Uuid, u64> = globals.iter().map(|one| (one.id.uuid(), one.generation)).collect();
        let mut found: HashMap<GlobalServiceId, InstanceCounts> = HashMap::new();
        for chunk in globals.chunks(AT_ONCE) {
            let rows: Vec<(Uuid, Option<i64>, String, i64, i64)> = service::row::Entity::find()
                .select_only()
                .columns([Column::OwnerId, Column::OwnerGeneration, Column::Status])
                .column_as(Column::Id.count(), "count")
                .column_as(Column::DeletedAt.count(), "leaving")
                .filter(Column::OwnerId.is_in(chunk.iter().map(|one| one.id.uuid())))
                .group_by(Column::OwnerId)
                .group_by(Column::OwnerGeneration)
                .group_by(Column::Status)
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db("counting instances"))?;
            for (owner, generation, status, count, leaving) in rows {
                let counts = found.entry(GlobalServiceId::from_uuid(owner)).or_default();
                let staying = (count - leaving).cast_unsigned();
                counts.all += count.cast_unsigned();
                counts.leaving += leaving.cast_unsigned();
                if status == ServiceStatus::Healthy.as_str() {
                    counts.healthy += staying;
                    if newest.get(&owner).copied() == generation.map(i64::cast_unsigned) {
                        counts.newest += staying;
                    }
                }
            }
        }
        Ok(found)
    }

    async fn instances_pages(
        &self,
        globals: &[Authorized<GlobalService, Read>],
        request: &PageRequest,
    ) -> Result<HashMap<GlobalServiceId, Page<Instance>>> {
        let mut found: HashMap<Uuid, Vec<Instance>> = HashMap::with_capacity(globals.len());
        for chunk in globals.chunks(AT_ONCE) {
            let owners: Vec<Uuid> = chunk.iter().map(|one| one.id.uuid()).collect();
            for one in instance::pages_on(&self.reader, instance::PagesBy::Owner, &owners, request).await? {
                found.entry(one.page).or_default().push(one.instance);
            }
        }
        let page = |one: &Authorized<GlobalService, Read>| {
            let rows = found.remove(&one.id.uuid()).unwrap_or_default();
            (one.id, Page::from_rows(request, rows))
        };
        Ok(globals.iter().map(page).collect())
    }
}
