//! Changes of services' statuses.
//!
//! Whoever finds another status of a service says so by [`Write::turn`]; the commit writes all changes of a transaction in one
//! statement, and none where there is none.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Authorized, Read};
use plural_app::health_change::{HealthChangeFilter, HealthChangeStore};
use plural_app::service::ServiceFilter;
use plural_core::access::Visibility;
use plural_core::component::Component;
use plural_core::health_change::HealthChange;
use plural_core::ids::{HealthChangeId, RevisionId, ServiceId};
use plural_core::mask::MASK;
use plural_core::page::Direction;
use plural_core::service::Service;
use plural_core::service_error::ServiceError;
use plural_core::service_reason::{ReasonInput, service_reason};
use plural_core::specs::without_nul;
use plural_core::status::ServiceStatus;
use plural_core::sync::ServiceSync;
use plural_core::{Page, PageRequest, Result};
use sea_orm::sea_query::{Condition, Expr, Func, IntoCondition, LockType, Query};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, ExprTrait, Order, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait, Select, Statement, Value,
};
use uuid::Uuid;

use crate::convert::word;
use crate::database::Database;
use crate::error::db;
use crate::records::{AT_ONCE, Table as _};
use crate::transaction::{Write, set};
use crate::{revision, service};

/// So many services that somebody sees are named one by one.
const FEW: u64 = 1_000;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "health_changes")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub service_id: Uuid,
        pub revision_id: Uuid,
        pub sha: Option<String>,
        pub status_before: String,
        pub status: String,
        pub reason: Option<String>,
        pub failing_since: Option<DateTimeUtc>,
        pub at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for HealthChange {
    type Error = plural_core::Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model { id, service_id, revision_id, sha, status_before, status, reason, failing_since, at } =
            row;
        Ok(Self {
            id: HealthChangeId::from_uuid(id),
            service_id: ServiceId::from_uuid(service_id),
            revision_id: RevisionId::from_uuid(revision_id),
            sha,
            from: word(ServiceStatus::parse(&status_before), "a service's former status")?,
            to: word(ServiceStatus::parse(&status), "a service's status")?,
            reason,
            failing_since,
            at,
        })
    }
}

/// What a status was found in.
pub(crate) struct Seen<'a> {
    pub(crate) components: &'a [Component],
    pub(crate) errors: &'a [ServiceError],
}

impl Write<'_> {
    /// Gives a service this status. Where it had another one, the change is written with the commit; the row is for the caller to
    /// write.
    pub(crate) fn turn(
        &mut self,
        row: &mut service::row::Model,
        to: ServiceStatus,
        at: DateTime<Utc>,
        seen: &Seen<'_>,
    ) {
        if row.status == to.as_str() {
            return;
        }
        let status_before = std::mem::replace(&mut row.status, to.as_str().to_owned());
        if status_before == ServiceStatus::Healthy.as_str() {
            // What a console of an earlier release did not end.
            row.failing_since = None;
        }
        let failing_since = match to {
            ServiceStatus::Failed => Some(*row.failing_since.get_or_insert(at)),
            ServiceStatus::Healthy => row.failing_since.take(),
            ServiceStatus::Stale | ServiceStatus::Synced | ServiceStatus::Paused => None,
        };
        if to == ServiceStatus::Healthy && failing_since.is_some() {
            row.recovered_at = Some(at);
        }
        self.turned.push(row::ActiveModel {
            id: set(HealthChangeId::new().uuid()),
            service_id: set(row.id),
            revision_id: set(row.revision_id),
            sha: set(row.sha.clone()),
            status_before: set(status_before),
            status: set(row.status.clone()),
            reason: set((to != ServiceStatus::Healthy).then(|| reason_of(row, seen)).flatten()),
            failing_since: set(failing_since),
            at: set(at),
        });
    }
}

/// Why a service is as it is, as lists say it.
fn reason_of(row: &service::row::Model, seen: &Seen<'_>) -> Option<String> {
    // A row that cannot be read is told of where it is read; it keeps no report from being stored.
    let service = Service::try_from(row.clone()).ok()?;
    let sync = ServiceSync::default();
    let Seen { components, errors } = *seen;
    let input = ReasonInput { service: &service, errors, components, sync: &sync, agent: None, hold: None };
    service_reason(&input).map(|reason| without_nul(&reason.message))
}

/// Writes changes.
pub(crate) async fn write_on(connection: &impl ConnectionTrait, turned: Vec<row::ActiveModel>) -> Result<()> {
    for chunk in turned.chunks(AT_ONCE) {
        row::Entity::insert_many(chunk.iter().cloned())
            .exec_without_returning(connection)
            .await
            .map_err(db("recording services' statuses"))?;
    }
    Ok(())
}

/// Hides why the statuses of these services became others: secrets that they read are others by now, and what was secret then is
/// not known any more.
///
/// # Assumptions
/// Where rows of services are locked in this transaction, they are by now: who changes a service locks its row before what is told of it.
pub(crate) async fn hide_reasons_on(
    connection: &impl ConnectionTrait,
    services: impl IntoCondition,
) -> Result<()> {
    // By id: an update alone locks rows in the order in which it finds them, and two of them would wait for each other.
    let mut of = Query::select();
    of.column(row::Column::Id)
        .from(row::Entity)
        .cond_where(Condition::all().add(services.into_condition()).add(row::Column::Reason.is_not_null()))
        .order_by(row::Column::Id, Order::Asc)
        .lock(LockType::Update);
    row::Entity::update_many()
        .col_expr(row::Column::Reason, Expr::value(MASK))
        .filter(row::Column::Id.in_subquery(of))
        .exec(connection)
        .await
        .map(drop)
        .map_err(db("hiding why services' statuses were others"))
}

/// One page of changes, newest first, in the order of `by`, which is their ids in some way.
async fn page_on(
    connection: &impl ConnectionTrait,
    query: Select<row::Entity>,
    by: Expr,
    request: &PageRequest,
) -> Result<Page<HealthChange>> {
    let mut query = query;
    if let Some(after) = request.after {
        query = query.filter(row::Column::Id.lt(after));
    }
    if let Some(before) = request.before {
        query = query.filter(row::Column::Id.gt(before));
    }
    let order = match request.direction {
        Direction::Forward => Order::Desc,
        Direction::Backward => Order::Asc,
    };
    let query = query.order_by(by, order).limit(u64::from(request.limit) + 1);
    let rows = query.all(connection).await.map_err(db(READING))?;
    let rows = rows.into_iter().map(HealthChange::try_from).collect::<Result<Vec<_>>>()?;
    Ok(Page::from_rows(request, rows))
}

const READING: &str = "reading services' former statuses";

#[async_trait]
impl HealthChangeStore for Database {
    async fn health_change_list(
        &self,
        visible: &Visibility,
        filter: &HealthChangeFilter,
        request: &PageRequest,
    ) -> Result<Page<HealthChange>> {
        let HealthChangeFilter { cluster_id, project_id, since, failures } = filter;
        let id = || Expr::col((row::Entity, row::Column::Id));
        let mut query = row::Entity::find();
        if let Some(since) = since {
            query = query.filter(row::Column::At.gte(*since));
        }
        if *failures {
            query = query.filter(row::Column::FailingSince.is_not_null());
        }
        if matches!(visible, Visibility::All) && cluster_id.is_none() && project_id.is_none() {
            return page_on(&self.reader, query, id(), request).await;
        }
        let of = ServiceFilter {
            cluster_id: *cluster_id,
            project_id: *project_id,
            repository_id: None,
            context_id: None,
            status: None,
            q: None,
        };
        let services = service::row::Entity::find()
            .select_only()
            .column(service::row::Column::Id)
            .filter(Service::visible(visible));
        let services = Service::filter(services, &of);
        let mine: Vec<Uuid> = services
            .clone()
            .limit(FEW + 1)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("reading services"))?;
        if mine.is_empty() {
            return Ok(Page::from_rows(request, Vec::new()));
        }
        let of = (row::Entity, row::Column::ServiceId);
        if mine.len() as u64 <= FEW {
            // An order that no index has: the changes of these services are found by service, few of each, and sorted. By id, those
            // of all others would be walked through.
            let by = Func::coalesce([id(), Expr::col(of)]).into();
            return page_on(&self.reader, query.filter(row::Column::ServiceId.is_in(mine)), by, request)
                .await;
        }
        // The newest ones of all are looked at until enough are theirs. A plus keeps SQLite from sorting what is theirs.
        let of = if self.is_postgres() { Expr::col(of) } else { Expr::cust("+health_changes.service_id") };
        let query = query.filter(of.in_subquery(services.into_query()));
        page_on(&self.reader, query, id(), request).await
    }

    async fn services_health_changes(
        &self,
        services: &[Authorized<Service, Read>],
        request: &PageRequest,
    ) -> Result<HashMap<ServiceId, Page<HealthChange>>> {
        let mut found: HashMap<ServiceId, Vec<HealthChange>> =
            services.iter().map(|service| (service.id, Vec::new())).collect();
        for chunk in services.chunks(AT_ONCE) {
            let ids: Vec<Uuid> = chunk.iter().map(|service| service.id.uuid()).collect();
            for change in self.changes_of(&ids, request).await? {
                found.entry(change.service_id).or_default().push(change);
            }
        }
        Ok(found.into_iter().map(|(id, changes)| (id, Page::from_rows(request, changes))).collect())
    }

    async fn revisions_kept(&self, ids: &[RevisionId]) -> Result<HashSet<RevisionId>> {
        use revision::row::{Column, Entity};
        let mut kept = HashSet::with_capacity(ids.len());
        for chunk in ids.chunks(AT_ONCE) {
            let found: Vec<Uuid> = Entity::find()
                .select_only()
                .column(Column::Id)
                .filter(Column::Id.is_in(chunk.iter().map(|id| id.uuid())))
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db("looking which revisions are kept"))?;
            kept.extend(found.into_iter().map(RevisionId::from_uuid));
        }
        Ok(kept)
    }

    async fn health_changes_prune(&self, before: DateTime<Utc>, keep: u64) -> Result<u64> {
        // Only services that have too many are numbered.
        let sql = "DELETE FROM health_changes WHERE at < $1 OR id IN (SELECT n.id FROM (\
                   SELECT c.id, ROW_NUMBER() OVER (PARTITION BY c.service_id ORDER BY c.id DESC) AS place \
                   FROM health_changes c WHERE c.service_id IN (\
                   SELECT m.service_id FROM health_changes m GROUP BY m.service_id HAVING COUNT(*) > $2)) n \
                   WHERE n.place > $2)";
        let keep = i64::try_from(keep).unwrap_or(i64::MAX);
        let write = self.write().await?;
        let removed = write
            .tx
            .execute_raw(self.statement(sql, [before.into(), keep.into()]))
            .await
            .map_err(db("removing services' former statuses"))?;
        write.commit().await?;
        Ok(removed.rows_affected())
    }
}

impl Database {
    /// The changes of a page of each of these services, and one more where there are more, in the direction of the page.
    async fn changes_of(&self, services: &[Uuid], request: &PageRequest) -> Result<Vec<HealthChange>> {
        let direction = match request.direction {
            Direction::Forward => "DESC",
            Direction::Backward => "ASC",
        };
        let mut values: Vec<Value> = services.iter().map(|id| Value::from(*id)).collect();
        let places: Vec<String> = (1..=values.len()).map(|place| format!("${place}")).collect();
        let mut bounds = String::new();
        for (bound, operator) in [(request.after, "<"), (request.before, ">")] {
            if let Some(bound) = bound {
                values.push(bound.into());
                // Writing to a String cannot fail.
                let _ = write!(bounds, " AND c.id {operator} ${}", values.len());
            }
        }
        values.push(i64::from(request.limit + 1).into());
        let (services, limit) = (places.join(", "), values.len());
        let sql = format!(
            "SELECT n.id, n.service_id, n.revision_id, n.sha, n.status_before, n.status, n.reason, n.failing_since, n.at \
             FROM (SELECT c.id, c.service_id, c.revision_id, c.sha, c.status_before, c.status, c.reason, c.failing_since, c.at, \
             ROW_NUMBER() OVER (PARTITION BY c.service_id ORDER BY c.id {direction}) AS place \
             FROM health_changes c WHERE c.service_id IN ({services}){bounds}) n \
             WHERE n.place <= ${limit} ORDER BY n.service_id, n.place"
        );
        let statement = Statement::from_sql_and_values(self.backend, sql, values);
        let rows =
            row::Entity::find().from_raw_sql(statement).all(&self.reader).await.map_err(db(READING))?;
        rows.into_iter().map(HealthChange::try_from).collect()
    }
}
