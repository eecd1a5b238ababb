//! Clusters.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Admin, Audited, Grant, Write};
use plural_app::cluster::{ClusterCreate, ClusterFilter, ClusterSelector, ClusterStore};
use plural_app::ports::agents::FeedSubject;
use plural_app::secret::TokenHash;
use plural_core::access::Visibility;
use plural_core::cluster::{
    Cluster, ClusterChange, ClusterColumn, ClusterDistro, ClusterFacts, ClusterState, NewCluster,
    SILENT_AFTER, TagsChange,
};
use plural_core::cluster_tags::{TagAuthority, TagLevel};
use plural_core::ids::{ClusterId, ProjectId};
use plural_core::policy::PolicyNoun;
use plural_core::project::Project;
use plural_core::work::{Contract, WorkChange, WorkRef};
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr, ExprTrait, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect, Select,
};
use uuid::Uuid;

use crate::convert::{json, parse, tags_json, to_json, word};
use crate::database::Database;
use crate::error::{db, unique};
use crate::facet::rank;
use crate::page::search;
use crate::records::{Guard, Table};
use crate::service_life::renew_in_tx;
use crate::sorted::{SortBy, SortedTable};
use crate::transaction::{self, set};
use crate::{dependency, deploy_token, federated_credential, policy, service, stack};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "clusters")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub name: String,
        pub handle: String,
        pub project_id: Uuid,
        pub tags: Json,
        pub tag_levels: Option<Json>,
        pub metadata: Json,
        pub distro: Option<String>,
        pub version: Option<String>,
        pub current_version: Option<String>,
        pub agent_version: Option<String>,
        pub node_count: Option<i32>,
        pub pod_count: Option<i32>,
        pub namespace_count: Option<i32>,
        pub protect: bool,
        pub token_hash: Vec<u8>,
        pub pinged_at: Option<DateTimeUtc>,
        pub agent_contract: Option<i32>,
        pub deleted_at: Option<DateTimeUtc>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod tag {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "cluster_tags")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub name: String,
        pub value: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] =
    &[("clusters_handle_key", "a cluster with this handle already exists; choose another")];

impl TryFrom<row::Model> for Cluster {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            name,
            handle,
            project_id,
            tags,
            tag_levels,
            metadata,
            distro,
            version,
            current_version,
            agent_version,
            node_count,
            pod_count,
            namespace_count,
            protect,
            token_hash: _,
            pinged_at,
            agent_contract,
            deleted_at,
            created_at,
            updated_at,
        } = row;
        let count = |count: Option<i32>| count.map(i32::cast_unsigned);
        Ok(Self {
            id: ClusterId::from_uuid(id),
            name: parse(&name, "a cluster's name")?,
            handle: parse(&handle, "a cluster's handle")?,
            project_id: ProjectId::from_uuid(project_id),
            tags: json(tags, "a cluster's tags")?,
            tag_levels: levels_of(tag_levels)?,
            metadata: json(metadata, "a cluster's metadata")?,
            distro: match distro {
                None => None,
                Some(text) => Some(word(ClusterDistro::parse(&text), "a cluster's distro")?),
            },
            version,
            facts: ClusterFacts {
                current_version,
                agent_version,
                node_count: count(node_count),
                pod_count: count(pod_count),
                namespace_count: count(namespace_count),
            },
            agent_contract: agent_contract.map(|contract| Contract(contract.cast_unsigned())),
            protect,
            pinged_at,
            deleted_at,
            created_at,
            updated_at,
        })
    }
}

/// Who set which tag; what an older release left empty was set for the installation.
fn levels_of(stored: Option<sea_orm::JsonValue>) -> Result<BTreeMap<String, TagLevel>> {
    stored.map_or_else(|| Ok(BTreeMap::new()), |levels| json(levels, "who set a cluster's tags"))
}

async fn tags_replace_on(
    connection: &impl ConnectionTrait,
    cluster: Uuid,
    tags: &BTreeMap<String, String>,
) -> Result<()> {
    let doing = "writing tags";
    tag::Entity::delete_many()
        .filter(tag::Column::ClusterId.eq(cluster))
        .exec(connection)
        .await
        .map_err(db(doing))?;
    if tags.is_empty() {
        return Ok(());
    }
    let rows = tags.iter().map(|(name, value)| tag::ActiveModel {
        cluster_id: set(cluster),
        name: set(name.clone()),
        value: set(value.clone()),
    });
    tag::Entity::insert_many(rows).exec_without_returning(connection).await.map(drop).map_err(db(doing))
}

async fn check_no_stack_in_tx(write: &transaction::Write<'_>, id: ClusterId) -> Result<()> {
    let used = "runs of a stack run on the cluster: give the stack another one, or delete it, first";
    stack::check_unused_on(&write.tx, stack::row::Column::ClusterId, id.uuid(), used).await
}

/// Id, name, protection, sequence, already to be destroyed.
type ServiceOf = (Uuid, String, bool, i64, Option<DateTime<Utc>>);

/// Services of a cluster, locked in the order in which everybody locks services.
async fn lock_services_in_tx(connection: &impl ConnectionTrait, cluster: Uuid) -> Result<Vec<ServiceOf>> {
    use service::row::{Column, Entity};
    Entity::find()
        .select_only()
        .columns([Column::Id, Column::Name, Column::Protect, Column::Sequence, Column::DeletedAt])
        .filter(Column::ClusterId.eq(cluster))
        .order_by_asc(Column::Id)
        .lock_exclusive()
        .into_tuple()
        .all(connection)
        .await
        .map_err(db("reading a cluster's services"))
}

/// The event of a change of what templates read of a cluster.
pub(crate) fn data_event(id: ClusterId) -> FeedSubject {
    FeedSubject::Work { cluster_id: id, work: WorkRef::cluster(id), sequence: 0, change: WorkChange::Changed }
}

/// Locks and reads a cluster in a write.
pub(crate) async fn lock_in_tx(write: &transaction::Write<'_>, id: ClusterId) -> Result<row::Model> {
    row::Entity::find_by_id(id.uuid())
        .lock_exclusive()
        .one(&write.tx)
        .await
        .map_err(db("reading a cluster"))?
        .ok_or(Error::not_found("cluster"))
}

/// Makes a cluster in a project, with these tags and who set them. Consoles are told to accept its token.
pub(crate) async fn make_in_tx(
    write: &mut transaction::Write<'_>,
    project: ProjectId,
    cluster: &ClusterCreate,
    (tags, levels): (BTreeMap<String, String>, BTreeMap<String, TagLevel>),
    at: DateTime<Utc>,
) -> Result<row::Model> {
    let ClusterCreate { id, handle, new, tags_by: _, token_hash } = cluster;
    let NewCluster {
        name,
        handle: _,
        project_id: _,
        tags: _,
        metadata,
        distro,
        version,
        protect,
        bindings: _,
    } = new;
    let row = row::ActiveModel {
        id: set(id.uuid()),
        name: set(name.to_string()),
        handle: set(handle.to_string()),
        project_id: set(project.uuid()),
        tags: set(tags_json(&tags)),
        tag_levels: set(Some(to_json(&levels, "who set a cluster's tags")?)),
        metadata: set(sea_orm::JsonValue::Object(metadata.clone())),
        distro: set(distro.map(|distro| distro.as_str().to_owned())),
        version: set(version.clone()),
        protect: set(*protect),
        token_hash: set(token_hash.as_bytes().to_vec()),
        current_version: set(None),
        agent_version: set(None),
        node_count: set(None),
        pod_count: set(None),
        namespace_count: set(None),
        pinged_at: set(None),
        agent_contract: set(None),
        deleted_at: set(None),
        created_at: set(at),
        updated_at: set(at),
    };
    let row = row.insert(&write.tx).await.map_err(unique("making a cluster", UNIQUE))?;
    tags_replace_on(&write.tx, id.uuid(), &tags).await?;
    policy::make_in_tx(write, &[((*id).into(), Some(project.into()))]).await?;
    write.publish_many(&[FeedSubject::Cluster { cluster_id: *id }, data_event(*id)], at).await?;
    Ok(row)
}

impl Table for Cluster {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a cluster";

    fn find(rows: Select<row::Entity>, by: &ClusterSelector) -> Select<row::Entity> {
        match by {
            ClusterSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            ClusterSelector::Handle(handle) => rows.filter(row::Column::Handle.eq(handle.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, filter: &ClusterFilter) -> Select<row::Entity> {
        let ClusterFilter { project_id, tags, any_tag, q, state, version, distro } = filter;
        let mut rows = search(rows, &[row::Column::Name, row::Column::Handle], q.as_deref());
        if let Some(id) = project_id {
            rows = rows.filter(row::Column::ProjectId.eq(id.uuid()));
        }
        if !tags.is_empty() {
            let mut tagged = if *any_tag { Condition::any() } else { Condition::all() };
            for (name, value) in tags {
                let mut with = Query::select();
                with.column(tag::Column::ClusterId)
                    .from(tag::Entity)
                    .and_where(Expr::col(tag::Column::Name).eq(name.as_str()))
                    .and_where(Expr::col(tag::Column::Value).eq(value.as_str()));
                tagged = tagged.add(row::Column::Id.in_subquery(with));
            }
            rows = rows.filter(tagged);
        }
        if let Some((state, at)) = state {
            rows = rows.filter(state_rank(*at).eq(rank(&ClusterState::ALL, state)));
        }
        if let Some(version) = version {
            let mut found = Condition::any();
            for whole in [version.to_string(), format!("v{version}")] {
                // Of digits, a point and a letter, nothing means something to LIKE.
                found = found.add(row::Column::CurrentVersion.like(format!("{whole}.%")));
                found = found.add(row::Column::CurrentVersion.eq(whole));
            }
            rows = rows.filter(found);
        }
        if let Some(distro) = distro {
            rows = rows.filter(row::Column::Distro.eq(distro.as_str()));
        }
        rows
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::Id, row::Column::ProjectId], PolicyNoun::Project)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.id.into(), self.project_id.into()])
    }
}

/// The place of a cluster's state at this moment in [`ClusterState::ALL`]: says the same as [`Cluster::state`].
pub(crate) fn state_rank(at: DateTime<Utc>) -> Expr {
    use row::Column;
    let rank = |state| Expr::value(rank(&ClusterState::ALL, &state));
    Expr::case(Column::DeletedAt.is_not_null(), rank(ClusterState::Removing))
        .case(Column::PingedAt.is_null(), rank(ClusterState::Waiting))
        .case(Column::PingedAt.lte(at - SILENT_AFTER), rank(ClusterState::Silent))
        .case(Column::AgentContract.lt(Contract::NEWEST.0.cast_signed()), rank(ClusterState::Outdated))
        .finally(rank(ClusterState::Connected))
        .into()
}

/// When a cluster was last heard, as lists are sorted by it: one and the same moment, later than all others, for whom was heard lately.
fn heard_key(at: DateTime<Utc>) -> Expr {
    use row::Column;
    // The end of the year 9999: both databases can tell it.
    let lately = DateTime::from_timestamp(253_402_300_799, 0).unwrap_or(DateTime::UNIX_EPOCH);
    Expr::case(Column::PingedAt.is_null(), Expr::value(DateTime::UNIX_EPOCH))
        .case(Column::PingedAt.lte(at - SILENT_AFTER), Expr::col(Column::PingedAt.as_column_ref()))
        .finally(Expr::value(lately))
        .into()
}

/// The numbers of a Kubernetes version as one: up to five digits for each of major, minor and patch. What is not known is less than
/// all others.
fn version_key(postgres: bool) -> Expr {
    Expr::cust(if postgres {
        // Not `\d`: with some locales that takes digits which are none of a number.
        "COALESCE(substring(clusters.current_version from '^v?([0-9]{1,5})[.][0-9]')::bigint * 10000000000 \
            + substring(clusters.current_version from '^v?[0-9]{1,5}[.]([0-9]{1,5})')::bigint * 100000 \
            + COALESCE(substring(clusters.current_version from '^v?[0-9]{1,5}[.][0-9]{1,5}[.]([0-9]{1,5})')::bigint, 0), -1)"
    } else {
        // A cast reads the digits that a text begins with, and a sign.
        "CASE WHEN ltrim(clusters.current_version, 'v') GLOB '[0-9]*.[0-9]*' THEN \
            max(0, min(CAST(ltrim(clusters.current_version, 'v') AS INTEGER), 99999)) * 10000000000 \
            + max(0, min(CAST(substr(clusters.current_version, instr(clusters.current_version, '.') + 1) AS INTEGER), 99999)) * 100000 \
            + CASE WHEN instr(substr(clusters.current_version, instr(clusters.current_version, '.') + 1), '.') = 0 THEN 0 \
              ELSE max(0, min(CAST(substr(substr(clusters.current_version, instr(clusters.current_version, '.') + 1), \
                instr(substr(clusters.current_version, instr(clusters.current_version, '.') + 1), '.') + 1) AS INTEGER), 99999)) END \
         ELSE -1 END"
    })
}

impl SortedTable for Cluster {
    fn sort_by(column: ClusterColumn, postgres: bool) -> SortBy {
        SortBy::Value(match column {
            ClusterColumn::Handle if postgres => Expr::cust("clusters.handle COLLATE \"C\""),
            ClusterColumn::Handle => Expr::col(row::Column::Handle.as_column_ref()),
            ClusterColumn::State(at) => state_rank(at),
            ClusterColumn::Version => version_key(postgres),
            ClusterColumn::LastHeard(at) => heard_key(at),
        })
    }
}

#[async_trait]
impl ClusterStore for Database {
    async fn cluster_create(
        &self,
        by: Audited<'_, Project, Write>,
        cluster: &ClusterCreate,
        grant: Option<&Grant>,
    ) -> Result<Cluster> {
        let tags = TagsChange::All(cluster.new.tags.clone());
        let tags = cluster.tags_by.over(&tags, &BTreeMap::new(), BTreeMap::new())?;
        let mut write = self.write().await?;
        let row = make_in_tx(&mut write, by.target().id, cluster, tags, by.entry().at).await?;
        policy::grant_in_tx(&write, grant).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn cluster_update(
        &self,
        by: Audited<'_, Cluster, Write>,
        change: &ClusterChange,
        tags_by: &TagAuthority,
        grant: Option<&Grant>,
    ) -> Result<Cluster> {
        let ClusterChange { name, handle, tags, metadata, distro, version, protect, bindings: _ } = change;
        let (id, at) = (by.target().id, by.entry().at);
        let mut write = self.write().await?;
        // Its services are renewed below.
        dependency::lock_in_tx(&write).await?;
        let old = lock_in_tx(&write, id).await?;
        if old.deleted_at.is_some() {
            return Err(Error::conflict("the cluster is being deleted"));
        }
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(id.uuid()),
            updated_at: set(at),
            ..Default::default()
        };
        if let Some(name) = name {
            row.name = set(name.to_string());
        }
        if let Some(handle) = handle {
            row.handle = set(handle.to_string());
        }
        if !tags.keeps() {
            // Over what others have made of them by now.
            let levels = levels_of(old.tag_levels)?;
            let (tags, levels) = tags_by.over(tags, &json(old.tags, "a cluster's tags")?, levels)?;
            row.tags = set(tags_json(&tags));
            row.tag_levels = set(Some(to_json(&levels, "who set a cluster's tags")?));
            tags_replace_on(&write.tx, id.uuid(), &tags).await?;
        }
        if let Some(metadata) = metadata {
            row.metadata = set(sea_orm::JsonValue::Object(metadata.clone()));
        }
        if let Some(distro) = distro {
            row.distro = set(Some(distro.as_str().to_owned()));
        }
        if let Some(version) = version {
            row.version = set(Some(version.clone()));
        }
        if let Some(protect) = protect {
            row.protect = set(*protect);
        }
        let row = row.update(&write.tx).await.map_err(unique("changing a cluster", UNIQUE))?;
        policy::grant_in_tx(&write, grant).await?;
        write.audit(by.entry()).await?;
        write.publish_many(&[FeedSubject::Cluster { cluster_id: id }, data_event(id)], at).await?;
        // Templates read the cluster: what is made from it may look different now.
        renew_in_tx(&mut write, service::row::Column::ClusterId.eq(id.uuid()), at).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn cluster_token_rotate(
        &self,
        by: Audited<'_, Cluster, Admin>,
        hash: &TokenHash,
    ) -> Result<Cluster> {
        let (id, at) = (by.target().id, by.entry().at);
        let mut write = self.write().await?;
        lock_in_tx(&write, id).await?;
        let row = deploy_token::replace_in_tx(&write, id, hash, at).await?;
        deploy_token::join_forget_in_tx(&write, id).await?;
        write.audit(by.entry()).await?;
        write.publish(FeedSubject::Cluster { cluster_id: id }, at).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn cluster_delete(&self, by: Audited<'_, Cluster, Admin>) -> Result<Cluster> {
        let (id, at) = (by.target().id, by.entry().at);
        let mut write = self.write().await?;
        dependency::lock_in_tx(&write).await?;
        let mut row = lock_in_tx(&write, id).await?;
        if row.protect {
            return Err(Error::conflict("the cluster is protected: set protect to false first"));
        }
        check_no_stack_in_tx(&write, id).await?;
        let services = lock_services_in_tx(&write.tx, id.uuid()).await?;
        if let Some((_, name, ..)) = services.iter().find(|(_, _, protect, ..)| *protect) {
            return Err(Error::conflict(format!(
                "the cluster's service {name:?} is protected: set its protect to false, or detach it, first"
            )));
        }
        write.audit(by.entry()).await?;
        if services.is_empty() {
            federated_credential::end_of_cluster_in_tx(&write, id.uuid()).await?;
            row::Entity::delete_by_id(id.uuid()).exec(&write.tx).await.map_err(db("deleting a cluster"))?;
            policy::forget_in_tx(&write, id).await?;
            row.deleted_at = Some(at);
            write.publish(FeedSubject::Cluster { cluster_id: id }, at).await?;
            write.commit().await?;
            return row.try_into();
        }
        federated_credential::end_of_cluster_in_tx(&write, id.uuid()).await?;
        let change = row::ActiveModel {
            id: ActiveValue::Unchanged(id.uuid()),
            deleted_at: set(Some(row.deleted_at.unwrap_or(at))),
            updated_at: set(at),
            ..Default::default()
        };
        let row = change.update(&write.tx).await.map_err(db("deleting a cluster"))?;
        // Each with the sequence that it gets now.
        let fresh: Vec<(Uuid, i64)> = services
            .into_iter()
            .filter(|(.., deleted)| deleted.is_none())
            .map(|(id, _, _, sequence, _)| (id, sequence + 1))
            .collect();
        // Each after what depends on it.
        let outlive = dependency::outlive_cluster_on(&write.tx, id.uuid()).await?;
        service::row::Entity::update_many()
            .col_expr(service::row::Column::Sequence, Expr::col(service::row::Column::Sequence).add(1))
            .col_expr(service::row::Column::DeletedAt, Expr::value(at))
            .col_expr(service::row::Column::Outlives, Expr::value(false))
            .filter(service::row::Column::ClusterId.eq(id.uuid()))
            .filter(service::row::Column::DeletedAt.is_null())
            .exec(&write.tx)
            .await
            .map_err(db("draining a cluster"))?;
        service::row::Entity::update_many()
            .col_expr(service::row::Column::Outlives, Expr::value(true))
            .filter(service::row::Column::ClusterId.eq(id.uuid()))
            .filter(service::row::Column::Name.is_in(outlive))
            .exec(&write.tx)
            .await
            .map_err(db("draining a cluster"))?;
        let event =
            |(service, sequence)| service::event_at(id.uuid(), service, sequence, WorkChange::Changed);
        write.publish_many(&fresh.into_iter().map(event).collect::<Vec<_>>(), at).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn cluster_detach(&self, by: Audited<'_, Cluster, Admin>) -> Result<Cluster> {
        let (id, at) = (by.target().id, by.entry().at);
        let mut write = self.write().await?;
        dependency::lock_in_tx(&write).await?;
        let row = lock_in_tx(&write, id).await?;
        check_no_stack_in_tx(&write, id).await?;
        let services: Vec<Uuid> =
            lock_services_in_tx(&write.tx, id.uuid()).await?.into_iter().map(|(id, ..)| id).collect();
        let depended = dependency::before_gone_on(&write.tx, &services).await?;
        federated_credential::end_of_cluster_in_tx(&write, id.uuid()).await?;
        row::Entity::delete_by_id(id.uuid()).exec(&write.tx).await.map_err(db("detaching a cluster"))?;
        policy::forget_in_tx(&write, id).await?;
        dependency::gone_in_tx(&mut write, &depended, at).await?;
        write.audit(by.entry()).await?;
        write.publish(FeedSubject::Cluster { cluster_id: id }, at).await?;
        write.commit().await?;
        row.try_into()
    }
}
