//! Services that are marked as the upgrade of their cluster's agent, and what those are read from.
//!
//! Who marks a service and who changes what it is read from lock the same rows. So the later of the two sees what the earlier one
//! did, and the mark counts for whatever was allowed before it and is written after it.

use std::collections::BTreeSet;

use plural_app::service_life::feeds_agent_upgrade;
use plural_core::ids::RepositoryId;
use plural_core::service::Service;
use plural_core::{Error, Result};
use sea_orm::sea_query::Condition;
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

use crate::error::db;
use crate::service::{lock_in_tx, row};
use crate::{
    cluster, context_import, dependency, repository, service_context, service_import, service_repository,
    transaction,
};

/// Whether one of these services is marked.
pub(crate) async fn is_among_on(connection: &impl ConnectionTrait, which: Condition) -> Result<bool> {
    let marked = row::Entity::find().filter(row::Column::AgentUpgrade.eq(true)).filter(which);
    let count = marked.count(connection).await.map_err(db("looking for the upgrade of an agent"))?;
    Ok(count > 0)
}

/// Refuses to change what one of `readers` is read from that is marked. Its row is locked, and `may_feed` says whether the caller
/// may all the same.
pub(crate) async fn check_fed_in_tx(
    connection: &impl ConnectionTrait,
    readers: Condition,
    may_feed: bool,
    noun: &'static str,
) -> Result<()> {
    if !may_feed && is_among_on(connection, readers).await? {
        return Err(feeds_agent_upgrade(noun));
    }
    Ok(())
}

/// Refuses what somebody was allowed to do to a service before it was marked. Its row is locked.
pub(crate) fn check_mark(was_marked: bool, now: &row::Model) -> Result<()> {
    if now.agent_upgrade && !was_marked {
        return Err(Error::conflict("the service was marked as the agent's upgrade meanwhile: try again"));
    }
    Ok(())
}

/// Locks and reads a service that is to be changed by whoever was allowed to as it was `known`.
pub(crate) async fn lock_known_in_tx(write: &transaction::Write<'_>, known: &Service) -> Result<row::Model> {
    let row = lock_in_tx(write, known.id).await?;
    check_mark(known.agent_upgrade, &row)?;
    Ok(row)
}

/// Locks and reads a service that is to be marked, with what it is read from, if it may be.
pub(crate) async fn lock_to_mark_in_tx(
    write: &transaction::Write<'_>,
    known: &Service,
) -> Result<row::Model> {
    // The cluster is locked before the service here, and after it when the last one of a cluster that is deleted goes.
    dependency::lock_in_tx(write).await?;
    let id = known.id.uuid();
    let feeds = Feeds::of_on(&write.tx, id, known.repository_id.map(RepositoryId::uuid)).await?;
    // Before the service's row, as everybody does who locks both.
    feeds.lock_in_tx(write).await?;
    // Two at once would both find no other: they wait for each other at their cluster.
    cluster::row::Entity::find_by_id(known.cluster_id.uuid())
        .lock_exclusive()
        .one(&write.tx)
        .await
        .map_err(db("reading a cluster"))?;
    let row = lock_in_tx(write, known.id).await?;
    if row.owner_id.is_some() {
        return Err(Error::conflict("the service became an instance meanwhile: try again"));
    }
    service_import::check_imports_none_in_tx(write, id).await?;
    context_import::check_fed_none_in_tx(write, BTreeSet::from([id])).await?;
    if Feeds::of_on(&write.tx, id, row.repository_id).await? != feeds {
        return Err(Error::conflict("the service is read from elsewhere meanwhile: try again"));
    }
    let other: Option<String> = row::Entity::find()
        .select_only()
        .column(row::Column::Name)
        .filter(row::Column::ClusterId.eq(row.cluster_id))
        .filter(row::Column::AgentUpgrade.eq(true))
        .filter(row::Column::Id.ne(id))
        .into_tuple()
        .one(&write.tx)
        .await
        .map_err(db("reading services"))?;
    if let Some(name) = other {
        return Err(Error::conflict(format!(
            "the service {name} is marked as the upgrade of this cluster's agent: take that mark off first"
        )));
    }
    Ok(row)
}

/// What a service is read from that other people may change.
#[derive(PartialEq, Eq)]
struct Feeds {
    contexts: BTreeSet<Uuid>,
    repositories: BTreeSet<Uuid>,
}

impl Feeds {
    async fn of_on(
        connection: &impl ConnectionTrait,
        service: Uuid,
        repository: Option<Uuid>,
    ) -> Result<Self> {
        let doing = "reading what a service is read from";
        let contexts = service_context::used::Entity::find()
            .filter(service_context::used::Column::ServiceId.eq(service))
            .all(connection)
            .await
            .map_err(db(doing))?;
        let named = service_repository::row::Entity::find()
            .filter(service_repository::row::Column::ServiceId.eq(service))
            .all(connection)
            .await
            .map_err(db(doing))?;
        Ok(Self {
            contexts: contexts.into_iter().map(|used| used.context_id).collect(),
            repositories: named.into_iter().map(|named| named.repository_id).chain(repository).collect(),
        })
    }

    /// Locks it against changes, until the write ends.
    async fn lock_in_tx(&self, write: &transaction::Write<'_>) -> Result<()> {
        let Self { contexts, repositories } = self;
        let doing = "locking what a service is read from";
        service_context::row::Entity::find()
            .filter(service_context::row::Column::Id.is_in(contexts.iter().copied()))
            .order_by_asc(service_context::row::Column::Id)
            .lock_shared()
            .all(&write.tx)
            .await
            .map_err(db(doing))?;
        repository::row::Entity::find()
            .filter(repository::row::Column::Id.is_in(repositories.iter().copied()))
            .order_by_asc(repository::row::Column::Id)
            .lock_shared()
            .all(&write.tx)
            .await
            .map_err(db(doing))?;
        Ok(())
    }
}
