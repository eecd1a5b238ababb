//! Revisions of services.

use std::collections::HashMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::rendering::ServiceSecrets;
use plural_app::revision::RevisionStore;
use plural_app::seal::Sealed;
use plural_core::access::Visibility;
use plural_core::ids::{RevisionId, ServiceId};
use plural_core::page::Direction;
use plural_core::revision::Revision;
use plural_core::service::{GitRef, Service};
use plural_core::{Page, PageRequest, Result};
use sea_orm::sea_query::{Expr, Func};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, ExprTrait, FromQueryResult, JsonValue, Order, QueryFilter,
    QueryOrder, QuerySelect, QueryTrait, Select, SelectModel, Selector,
};
use uuid::Uuid;

use crate::convert::json;
use crate::database::Database;
use crate::error::db;
use crate::records::{AT_ONCE, Table as _};
use crate::service;
use crate::transaction::set;

/// Revisions kept of one service; the current one always is.
const KEPT: u64 = 50;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "revisions")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub service_id: Uuid,
        pub version: String,
        pub git: Option<Json>,
        pub sha: Option<String>,
        pub message: Option<String>,
        pub author: Option<String>,
        pub configuration: Vec<u8>,
        pub rendering: Option<Json>,
        pub helm_values: Option<Vec<u8>>,
        pub renderer_values: Option<Vec<u8>>,
        pub artifact_digest: Option<Vec<u8>>,
        pub artifact_folder: Option<String>,
        pub made_by: Option<String>,
        pub healthy_at: Option<DateTimeUtc>,
        pub created_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// What a revision shows: nothing of what it keeps sealed, which may be megabytes.
#[derive(FromQueryResult)]
struct Shown {
    id: Uuid,
    service_id: Uuid,
    version: String,
    git: Option<JsonValue>,
    sha: Option<String>,
    message: Option<String>,
    author: Option<String>,
    made_by: Option<String>,
    restorable: bool,
    healthy_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
}

impl TryFrom<Shown> for Revision {
    type Error = plural_core::Error;

    fn try_from(row: Shown) -> Result<Self> {
        let Shown {
            id,
            service_id,
            version,
            git,
            sha,
            message,
            author,
            made_by,
            restorable,
            healthy_at,
            created_at,
        } = row;
        let git = match git {
            None => None,
            Some(git) => Some(json::<GitRef>(git, "a revision's git ref")?),
        };
        Ok(Self {
            id: RevisionId::from_uuid(id),
            service_id: ServiceId::from_uuid(service_id),
            version,
            git,
            sha,
            message,
            author,
            by: made_by,
            restorable,
            healthy_at,
            created_at,
        })
    }
}

/// Revisions as they are shown.
fn shown(query: Select<row::Entity>) -> Selector<SelectModel<Shown>> {
    use row::Column;
    query
        .select_only()
        .columns([
            Column::Id,
            Column::ServiceId,
            Column::Version,
            Column::Git,
            Column::Sha,
            Column::Message,
            Column::Author,
            Column::MadeBy,
            Column::HealthyAt,
            Column::CreatedAt,
        ])
        .expr_as(Column::ArtifactDigest.is_not_null(), "restorable")
        .into_model()
}

/// One revision.
pub(crate) async fn revision_on(connection: &impl ConnectionTrait, id: Uuid) -> Result<Revision> {
    let row = shown(row::Entity::find_by_id(id)).one(connection).await.map_err(db("reading a revision"))?;
    row.ok_or(plural_core::Error::not_found("revision"))?.try_into()
}

/// Revisions by id.
pub(crate) async fn revisions_by_id(
    connection: &impl ConnectionTrait,
    ids: &[Uuid],
) -> Result<Vec<Revision>> {
    let mut found = Vec::with_capacity(ids.len());
    for chunk in ids.chunks(AT_ONCE) {
        let query = row::Entity::find().filter(row::Column::Id.is_in(chunk.iter().copied()));
        for row in shown(query).all(connection).await.map_err(db("reading revisions"))? {
            found.push(row.try_into()?);
        }
    }
    Ok(found)
}

/// One page of revisions, in the order of `by`, which is their ids in some way.
pub(crate) async fn revisions_on(
    connection: &impl ConnectionTrait,
    query: Select<row::Entity>,
    by: Expr,
    request: &PageRequest,
) -> Result<Page<Revision>> {
    let mut query = query;
    if let Some(after) = request.after {
        query = query.filter(row::Column::Id.gt(after));
    }
    if let Some(before) = request.before {
        query = query.filter(row::Column::Id.lt(before));
    }
    let order = match request.direction {
        Direction::Forward => Order::Asc,
        Direction::Backward => Order::Desc,
    };
    let query = query.order_by(by, order).limit(u64::from(request.limit) + 1);
    let rows = shown(query).all(connection).await.map_err(db("reading revisions"))?;
    let rows = rows.into_iter().map(Revision::try_from).collect::<Result<Vec<_>>>()?;
    Ok(Page::from_rows(request, rows))
}

/// So many services that somebody sees are named one by one.
const FEW: u64 = 1_000;

#[async_trait]
impl RevisionStore for Database {
    async fn revision_list(&self, visible: &Visibility, request: &PageRequest) -> Result<Page<Revision>> {
        let id = || Expr::col((row::Entity, row::Column::Id));
        let query = row::Entity::find();
        if matches!(visible, Visibility::All) {
            return revisions_on(&self.reader, query, id(), request).await;
        }
        let services = service::row::Entity::find()
            .select_only()
            .column(service::row::Column::Id)
            .filter(Service::visible(visible));
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
            // An order that no index has: the revisions of these services are found by service, at most 50 of each, and sorted. By
            // id, those of all others would be walked through.
            let by = Func::coalesce([id(), Expr::col(of)]).into();
            return revisions_on(&self.reader, query.filter(row::Column::ServiceId.is_in(mine)), by, request)
                .await;
        }
        // The newest ones of all are looked at until enough are theirs. A plus keeps SQLite from sorting what is theirs.
        let of = if self.is_postgres() { Expr::col(of) } else { Expr::cust("+revisions.service_id") };
        let query = query.filter(of.in_subquery(services.into_query()));
        revisions_on(&self.reader, query, id(), request).await
    }
}

/// A revision to keep.
pub(crate) struct NewRevision {
    pub(crate) id: RevisionId,
    pub(crate) service_id: Uuid,
    pub(crate) version: String,
    pub(crate) git: Option<JsonValue>,
    pub(crate) sha: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) author: Option<String>,
    pub(crate) rendering: Option<JsonValue>,
    pub(crate) secrets: ServiceSecrets,
    /// What was made of it, and the root inside: once known.
    pub(crate) artifact: Option<(Vec<u8>, String)>,
    /// Who made it.
    pub(crate) by: String,
    pub(crate) at: DateTime<Utc>,
}

pub(crate) fn row_of(new: NewRevision) -> row::ActiveModel {
    let NewRevision {
        id,
        service_id,
        version,
        git,
        sha,
        message,
        author,
        rendering,
        secrets,
        artifact,
        by,
        at,
    } = new;
    let ServiceSecrets { configuration, helm_values, renderer_values } = secrets;
    let (artifact_digest, artifact_folder) = artifact.unzip();
    row::ActiveModel {
        id: set(id.uuid()),
        service_id: set(service_id),
        version: set(version),
        git: set(git),
        sha: set(sha),
        message: set(message),
        author: set(author),
        configuration: set(configuration.into_bytes()),
        rendering: set(rendering),
        helm_values: set(helm_values.map(Sealed::into_bytes)),
        renderer_values: set(renderer_values.map(Sealed::into_bytes)),
        artifact_digest: set(artifact_digest),
        artifact_folder: set(artifact_folder),
        made_by: set(Some(by)),
        healthy_at: set(None),
        created_at: set(at),
    }
}

/// What the revision keeps sealed.
pub(crate) fn secrets(row: row::Model) -> ServiceSecrets {
    ServiceSecrets {
        configuration: Sealed::from_bytes(row.configuration),
        helm_values: row.helm_values.map(Sealed::from_bytes),
        renderer_values: row.renderer_values.map(Sealed::from_bytes),
    }
}

/// What revisions keep sealed, by their id.
pub(crate) async fn secrets_on(
    connection: &impl ConnectionTrait,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, ServiceSecrets>> {
    let rows = row::Entity::find().filter(row::Column::Id.is_in(ids.iter().copied())).all(connection).await;
    let rows = rows.map_err(db("reading configurations"))?;
    Ok(rows.into_iter().map(|row| (row.id, secrets(row))).collect())
}

/// What all revisions of services keep sealed, each once: most have it from the one before.
pub(crate) async fn kept_on(
    connection: &impl ConnectionTrait,
    services: &[Uuid],
) -> Result<HashMap<Uuid, Vec<ServiceSecrets>>> {
    type Kept = (Uuid, Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);
    let rows: Vec<Kept> = row::Entity::find()
        .select_only()
        .columns([
            row::Column::ServiceId,
            row::Column::Configuration,
            row::Column::HelmValues,
            row::Column::RendererValues,
        ])
        .distinct()
        .filter(row::Column::ServiceId.is_in(services.iter().copied()))
        .into_tuple()
        .all(connection)
        .await
        .map_err(db("reading configurations"))?;
    let mut kept: HashMap<Uuid, Vec<ServiceSecrets>> = HashMap::new();
    for (service, configuration, helm_values, renderer_values) in rows {
        kept.entry(service).or_default().push(ServiceSecrets {
            configuration: Sealed::from_bytes(configuration),
            helm_values: helm_values.map(Sealed::from_bytes),
            renderer_values: renderer_values.map(Sealed::from_bytes),
        });
    }
    Ok(kept)
}

/// Records that revisions are healthy, those that never were before.
pub(crate) async fn healthy_on(
    connection: &impl ConnectionTrait,
    ids: &[Uuid],
    at: DateTime<Utc>,
) -> Result<()> {
    for chunk in ids.chunks(500) {
        row::Entity::update_many()
            .set(row::ActiveModel { healthy_at: set(Some(at)), ..Default::default() })
            .filter(row::Column::Id.is_in(chunk.iter().copied()))
            .filter(row::Column::HealthyAt.is_null())
            .exec(connection)
            .await
            .map_err(db("recording healthy revisions"))?;
    }
    Ok(())
}

/// [`prune_on`] for many services, of which few have anything to remove.
pub(crate) async fn prune_many_on(connection: &impl ConnectionTrait, ids: &[ServiceId]) -> Result<()> {
    let kept = i64::try_from(KEPT).unwrap_or(i64::MAX);
    let full: Vec<Uuid> = row::Entity::find()
        .select_only()
        .column(row::Column::ServiceId)
        .filter(row::Column::ServiceId.is_in(ids.iter().map(|id| id.uuid())))
        .group_by(row::Column::ServiceId)
        .having(row::Column::Id.count().gt(kept))
        .into_tuple()
        .all(connection)
        .await
        .map_err(db("counting revisions"))?;
    for id in full {
        prune_on(connection, id).await?;
    }
    Ok(())
}

/// Removes all but the last revisions of a service, and the one it stands at. Ids grow, so the newest
/// are kept.
pub(crate) async fn prune_on(connection: &impl ConnectionTrait, id: Uuid) -> Result<()> {
    let doing = "pruning revisions";
    let oldest: Option<Uuid> = row::Entity::find()
        .select_only()
        .column(row::Column::Id)
        .filter(row::Column::ServiceId.eq(id))
        .order_by_desc(row::Column::Id)
        .offset(KEPT - 1)
        .limit(1)
        .into_tuple()
        .one(connection)
        .await
        .map_err(db(doing))?;
    if let Some(oldest) = oldest {
        // One that was rolled back may stand at an old one.
        let current = service::row::Entity::find()
            .select_only()
            .column(service::row::Column::RevisionId)
            .filter(service::row::Column::Id.eq(id))
            .into_query();
        row::Entity::delete_many()
            .filter(row::Column::ServiceId.eq(id))
            .filter(row::Column::Id.lt(oldest))
            .filter(row::Column::Id.not_in_subquery(current))
            .exec(connection)
            .await
            .map_err(db(doing))?;
    }
    Ok(())
}
