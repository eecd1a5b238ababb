//! Which stacks depend on which. What is taken from each is part of what a stack is made of; here are the edges of the graph, for those
//! who ask for its other direction.

use plural_core::ids::StackId;
use plural_core::stack_dependency::{MAX_DEPTH, StackDependency, StackGraph};
use plural_core::{Error, Result};
use sea_orm::sea_query::LockType;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use crate::error::db;
use crate::stack;
use crate::transaction::{self, set};

mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_dependencies")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub stack_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub upstream_id: Uuid,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// All edges: a stack, and one that it depends on.
pub(crate) async fn edges_on(connection: &impl ConnectionTrait) -> Result<Vec<(StackId, StackId)>> {
    let rows = row::Entity::find()
        .order_by_asc(row::Column::StackId)
        .order_by_asc(row::Column::UpstreamId)
        .all(connection)
        .await
        .map_err(db("reading the dependencies of stacks"))?;
    let edge = |row: row::Model| (StackId::from_uuid(row.stack_id), StackId::from_uuid(row.upstream_id));
    Ok(rows.into_iter().map(edge).collect())
}

/// The lock of all that change the graph, until the transaction ends: two that change it at once could make a cycle together. It is taken
/// before any row is locked.
pub(crate) async fn lock_in_tx(write: &transaction::Write<'_>) -> Result<()> {
    if write.is_postgres() {
        let sql = "SELECT pg_advisory_xact_lock(7308324466019431)";
        write.tx.execute_unprepared(sql).await.map_err(db("waiting for other edits of dependencies"))?;
    }
    Ok(())
}

/// Writes the edges of a stack, whose row is there. The caller holds the lock of the graph.
///
/// # Errors
/// [`Error::Conflict`] where they would make a cycle or too long a way. Whoever asks has checked that before, and named the stacks.
pub(crate) async fn replace_in_tx(
    write: &transaction::Write<'_>,
    stack: StackId,
    dependencies: &[StackDependency],
) -> Result<()> {
    let upstream: Vec<StackId> = dependencies.iter().map(|dependency| dependency.stack_id).collect();
    let graph: StackGraph = edges_on(&write.tx).await?.into_iter().collect();
    let graph = graph.with(stack, &upstream);
    if graph.cycle(stack).is_some() {
        return Err(Error::conflict(
            "stacks would depend on each other: somebody else changed them at the same time",
        ));
    }
    if graph.depth(stack) > MAX_DEPTH {
        return Err(Error::conflict(format!(
            "more than {MAX_DEPTH} stacks would depend on each other in a row"
        )));
    }
    let uuids: Vec<Uuid> = upstream.iter().map(|upstream| upstream.uuid()).collect();
    // None of them goes while something comes to depend on it.
    let known = stack::row::Entity::find()
        .filter(stack::row::Column::Id.is_in(uuids.iter().copied()))
        .order_by_asc(stack::row::Column::Id)
        .lock(LockType::KeyShare)
        .all(&write.tx)
        .await
        .map_err(db("reading the stacks that one depends on"))?;
    if let Some(gone) = uuids.iter().find(|id| known.iter().all(|stack| stack.id != **id)) {
        return Err(Error::conflict(format!(
            "a stack that this one depends on was deleted, {}: take this dependency away",
            StackId::from_uuid(*gone)
        )));
    }
    if let Some(gone) = known.iter().find(|stack| stack.deleted_at.is_some()) {
        return Err(Error::conflict(format!(
            "stack {} is being deleted: nothing new may depend on it",
            gone.name
        )));
    }
    let doing = "writing the dependencies of a stack";
    row::Entity::delete_many()
        .filter(row::Column::StackId.eq(stack.uuid()))
        .exec(&write.tx)
        .await
        .map_err(db(doing))?;
    let rows = uuids
        .into_iter()
        .map(|upstream| row::ActiveModel { stack_id: set(stack.uuid()), upstream_id: set(upstream) });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        row::Entity::insert_many(rows).exec_without_returning(&write.tx).await.map_err(db(doing))?;
    }
    Ok(())
}

/// Ends what depends on a stack that goes, whose row is locked; what those stacks are made of names it still, and their runs say that it is
/// gone. The caller holds the lock of the graph.
pub(crate) async fn end_in_tx(write: &transaction::Write<'_>, stack: StackId) -> Result<()> {
    row::Entity::delete_many()
        .filter(row::Column::UpstreamId.eq(stack.uuid()))
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db("ending the dependencies on a stack"))
}

/// Refuses to take a stack away whose row is locked, while others depend on it. Whoever asks may not know of these, so they are counted.
///
/// # Errors
/// [`Error::Conflict`].
pub(crate) async fn check_unused_in_tx(write: &transaction::Write<'_>, stack: StackId) -> Result<()> {
    let users: Vec<Uuid> = row::Entity::find()
        .select_only()
        .column(row::Column::StackId)
        .filter(row::Column::UpstreamId.eq(stack.uuid()))
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db("looking for stacks that depend on one"))?;
    match users.len() {
        0 => Ok(()),
        1 => Err(Error::conflict("another stack depends on this one: delete it, or its dependency, first")),
        count => Err(Error::conflict(format!(
            "{count} stacks depend on this one: delete them, or their dependencies, first"
        ))),
    }
}
