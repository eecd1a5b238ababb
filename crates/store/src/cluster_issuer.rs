//! What agents report of their clusters as issuers of tokens.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use plural_app::federated_credential::ClaimedToken;
use plural_core::Result;
use plural_core::audit::{AuditEntry, AuditTarget};
use plural_core::cluster_issuer::{ClusterIssuer, ClusterKey, IssuerReport};
use plural_core::ids::{ClusterId, ProjectId, RequestId};
use sea_orm::sea_query::{Expr, ExprTrait, LockType, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel as _, QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

use crate::error::db;
use crate::records::AT_ONCE;
use crate::{cluster, transaction};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "cluster_issuers")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: Uuid,
        pub issuer: String,
        pub reported_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

mod key {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "cluster_issuer_keys")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub key_id: String,
        /// A JSON Web Key.
        pub content: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const READING: &str = "reading who signs the tokens of clusters";
const WRITING: &str = "keeping who signs the tokens of a cluster";

/// The issuers that these clusters report.
pub(crate) async fn reported_on(
    connection: &impl ConnectionTrait,
    clusters: &[Uuid],
) -> Result<HashMap<Uuid, String>> {
    let mut reported = HashMap::new();
    for chunk in clusters.chunks(AT_ONCE) {
        let rows = row::Entity::find()
            .filter(row::Column::ClusterId.is_in(chunk.iter().copied()))
            .all(connection)
            .await
            .map_err(db(READING))?;
        reported.extend(rows.into_iter().map(|row| (row.cluster_id, row.issuer)));
    }
    Ok(reported)
}

/// The keys that a token may be signed with: of clusters `of` that report its issuer, are not being deleted, and were heard of `since`.
pub(crate) async fn keys_on(
    connection: &impl ConnectionTrait,
    claimed: &ClaimedToken,
    of: SelectStatement,
    since: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<ClusterKey>> {
    // An API server names the key that it signs with.
    let Some(id) = &claimed.key else { return Ok(Vec::new()) };
    let mut reporting = Query::select();
    reporting
        .column(row::Column::ClusterId)
        .from(row::Entity)
        .and_where(Expr::col(row::Column::Issuer).eq(claimed.issuer.as_str()));
    let mut living = Query::select();
    living
        .column(cluster::row::Column::Id)
        .from(cluster::row::Entity)
        .and_where(Expr::col(cluster::row::Column::DeletedAt).is_null())
        .and_where(cluster::row::Column::PingedAt.gte(since));
    let rows = key::Entity::find()
        .filter(key::Column::KeyId.eq(id.as_str()))
        .filter(key::Column::ClusterId.in_subquery(reporting))
        .filter(key::Column::ClusterId.in_subquery(of))
        .filter(key::Column::ClusterId.in_subquery(living))
        .order_by_asc(key::Column::ClusterId)
        .limit(limit)
        .all(connection)
        .await
        .map_err(db(READING))?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let projects: HashMap<Uuid, Uuid> = cluster::row::Entity::find()
        .select_only()
        .columns([cluster::row::Column::Id, cluster::row::Column::ProjectId])
        .filter(cluster::row::Column::Id.is_in(rows.iter().map(|row| row.cluster_id)))
        .into_tuple::<(Uuid, Uuid)>()
        .all(connection)
        .await
        .map_err(db(READING))?
        .into_iter()
        .collect();
    let key = |row: key::Model| {
        let project = ProjectId::from_uuid(*projects.get(&row.cluster_id)?);
        Some(ClusterKey { cluster: ClusterId::from_uuid(row.cluster_id), project, key: row.content })
    };
    Ok(rows.into_iter().filter_map(key).collect())
}

/// Takes in what an agent says of its cluster's issuer, with a line in the audit log where it is not what is `known`.
pub(crate) async fn report_in_tx(
    write: &transaction::Write<'_>,
    id: ClusterId,
    report: &IssuerReport,
    known: Option<&ClusterIssuer>,
    at: DateTime<Utc>,
) -> Result<()> {
    let told = match report {
        IssuerReport::Untold => return Ok(()),
        IssuerReport::Nobody => None,
        IssuerReport::Signs(issuer) => Some(issuer),
    };
    if known == told {
        return Ok(());
    }
    // It may be gone meanwhile; if not, it stays until this is written.
    let cluster = cluster::row::Entity::find_by_id(id.uuid()).lock(LockType::KeyShare).one(&write.tx).await;
    let Some(cluster) = cluster.map_err(db(READING))? else { return Ok(()) };
    // Its keys go with it.
    row::Entity::delete_by_id(id.uuid()).exec(&write.tx).await.map_err(db(WRITING))?;
    if let Some(ClusterIssuer { issuer, keys }) = told {
        let fresh = row::Model { cluster_id: id.uuid(), issuer: issuer.clone(), reported_at: at };
        let fresh = row::Entity::insert(fresh.into_active_model());
        fresh.exec_without_returning(&write.tx).await.map_err(db(WRITING))?;
        let keys = keys.iter().map(|(key_id, content)| {
            let row = key::Model { cluster_id: id.uuid(), key_id: key_id.clone(), content: content.clone() };
            row.into_active_model()
        });
        key::Entity::insert_many(keys).exec_without_returning(&write.tx).await.map_err(db(WRITING))?;
    }
    let line = AuditEntry {
        action: "cluster.issuer.report".into(),
        user_id: None,
        actor: format!("cluster:{id}"),
        token_id: None,
        address: None,
        target: AuditTarget { noun: "cluster".into(), id: Some(id.uuid()), name: cluster.handle },
        request_id: RequestId::new(),
        at,
        times: 1,
        before: None,
        after: None,
    };
    write.audit(&line).await
}

/// What is known of these clusters' issuers.
pub(crate) async fn known_in_tx(
    write: &transaction::Write<'_>,
    clusters: &[ClusterId],
) -> Result<HashMap<ClusterId, ClusterIssuer>> {
    let clusters: Vec<Uuid> = clusters.iter().copied().map(ClusterId::uuid).collect();
    let issuers = reported_on(&write.tx, &clusters).await?;
    let mut known: HashMap<ClusterId, ClusterIssuer> = issuers
        .into_iter()
        .map(|(id, issuer)| (ClusterId::from_uuid(id), ClusterIssuer { issuer, keys: BTreeMap::new() }))
        .collect();
    for chunk in clusters.chunks(AT_ONCE) {
        let keys = key::Entity::find()
            .filter(key::Column::ClusterId.is_in(chunk.iter().copied()))
            .all(&write.tx)
            .await
            .map_err(db(READING))?;
        for key::Model { cluster_id, key_id, content } in keys {
            if let Some(issuer) = known.get_mut(&ClusterId::from_uuid(cluster_id)) {
                issuer.keys.insert(key_id, content);
            }
        }
    }
    Ok(known)
}
