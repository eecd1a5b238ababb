//! Versions of stacks' states, and their locks. The row of the stack is locked before anything of its state is read or written, so
//! that concurrent writers are serialised, and the second sees the first.

use async_trait::async_trait;
use plural_app::access::{Audited, Authorized, Read, ReadState, WriteState};
use plural_app::seal::Sealed;
use plural_app::stack_state::{
    StackStateStore, StateLocked, StateSource, StateUnlocked, StateWrite, StateWritten,
};
use plural_core::access::RunActor;
use plural_core::audit::AuditEntry;
use plural_core::ids::{StackId, StateVersionId};
use plural_core::stack::Stack;
use plural_core::stack_state::{LockRequest, StateLock, StateVersion, WriteVerdict, judge_write};
use plural_core::{Error, Result};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect,
};
use uuid::Uuid;

use crate::convert::{bytes32, to_json};
use crate::database::Database;
use crate::error::db;
use crate::stack::{lock_in_tx, lock_of, row};
use crate::stack_run;
use crate::transaction::{self, set};

/// Pieces per statement, 2 MiB.
const PIECES: usize = 8;

pub(crate) mod version {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_states")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub stack_id: Uuid,
        /// The number of the write within the stack.
        pub number: i64,
        pub serial: i64,
        pub lineage: String,
        pub digest: Vec<u8>,
        pub size: i64,
        pub resources: Option<i64>,
        pub rejected: Option<String>,
        pub accepted_at: Option<DateTimeUtc>,
        pub author: String,
        pub request_id: String,
        pub fence: Option<i64>,
        pub created_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod piece {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_state_pieces")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub state_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub number: i32,
        pub sealed: Vec<u8>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<version::Model> for StateVersion {
    type Error = Error;

    fn try_from(row: version::Model) -> Result<Self> {
        let version::Model {
            id,
            stack_id,
            number: _,
            serial,
            lineage,
            digest,
            size,
            resources,
            rejected,
            accepted_at,
            author,
            request_id,
            fence,
            created_at,
        } = row;
        Ok(Self {
            id: StateVersionId::from_uuid(id),
            stack_id: StackId::from_uuid(stack_id),
            serial: serial.cast_unsigned(),
            lineage,
            digest: bytes32(&digest, "the digest of a state")?,
            size: size.cast_unsigned(),
            resources: resources.map(i64::cast_unsigned),
            rejected,
            accepted_at,
            author,
            request_id,
            fence: fence.map(i64::cast_unsigned),
            created_at,
        })
    }
}

/// The current state of a stack whose row is locked.
pub(crate) async fn current_in_tx(
    write: &transaction::Write<'_>,
    stack: &row::Model,
) -> Result<Option<StateVersion>> {
    let Some(id) = stack.current_id else { return Ok(None) };
    let found = version::Entity::find_by_id(id).one(&write.tx).await;
    found.map_err(db("reading a stack's state"))?.map(StateVersion::try_from).transpose()
}

async fn version_on(
    connection: &impl ConnectionTrait,
    stack: StackId,
    id: StateVersionId,
) -> Result<StateVersion> {
    version::Entity::find_by_id(id.uuid())
        .filter(version::Column::StackId.eq(stack.uuid()))
        .one(connection)
        .await
        .map_err(db("reading a version of a state"))?
        .ok_or(Error::not_found("state version"))?
        .try_into()
}

async fn pieces_on(connection: &impl ConnectionTrait, id: StateVersionId) -> Result<Vec<Sealed>> {
    let pieces = piece::Entity::find()
        .filter(piece::Column::StateId.eq(id.uuid()))
        .order_by_asc(piece::Column::Number)
        .all(connection)
        .await
        .map_err(db("reading the pieces of a state"))?;
    Ok(pieces.into_iter().map(|piece| Sealed::from_bytes(piece.sealed)).collect())
}

/// A version and its pieces. `number` is that of the write.
async fn keep_in_tx(
    write: &transaction::Write<'_>,
    version: &StateVersion,
    number: i64,
    pieces: &[Sealed],
) -> Result<()> {
    let StateVersion {
        id,
        stack_id,
        serial,
        lineage,
        digest,
        size,
        resources,
        rejected,
        accepted_at,
        author,
        request_id,
        fence,
        created_at,
    } = version;
    let row = version::ActiveModel {
        id: set(id.uuid()),
        stack_id: set(stack_id.uuid()),
        number: set(number),
        serial: set(serial.cast_signed()),
        lineage: set(lineage.clone()),
        digest: set(digest.to_vec()),
        size: set(size.cast_signed()),
        resources: set(resources.map(u64::cast_signed)),
        rejected: set(rejected.clone()),
        accepted_at: set(*accepted_at),
        author: set(author.clone()),
        request_id: set(request_id.clone()),
        fence: set(fence.map(u64::cast_signed)),
        created_at: set(*created_at),
    };
    row.insert(&write.tx).await.map_err(db("keeping a state"))?;
    let mut number = 0;
    for chunk in pieces.chunks(PIECES) {
        let mut rows = Vec::with_capacity(chunk.len());
        for sealed in chunk {
            rows.push(piece::ActiveModel {
                state_id: set(id.uuid()),
                number: set(number),
                sealed: set(sealed.as_bytes().to_vec()),
            });
            number += 1;
        }
        piece::Entity::insert_many(rows)
            .exec_without_returning(&write.tx)
            .await
            .map_err(db("keeping the pieces of a state"))?;
    }
    Ok(())
}

/// Deletes the oldest versions: the same number of accepted and of rejected ones is kept.
async fn prune_in_tx(
    write: &transaction::Write<'_>,
    stack: StackId,
    of_rejected: bool,
    kept: u32,
) -> Result<()> {
    let doing = "forgetting old versions of a state";
    let alike = || {
        let rejected = version::Column::Rejected;
        if of_rejected { rejected.is_not_null() } else { rejected.is_null() }
    };
    let newest_old: Option<i64> = version::Entity::find()
        .select_only()
        .column(version::Column::Number)
        .filter(version::Column::StackId.eq(stack.uuid()))
        .filter(alike())
        .order_by_desc(version::Column::Number)
        .offset(u64::from(kept))
        .limit(1)
        .into_tuple()
        .one(&write.tx)
        .await
        .map_err(db(doing))?;
    let Some(newest_old) = newest_old else { return Ok(()) };
    version::Entity::delete_many()
        .filter(version::Column::StackId.eq(stack.uuid()))
        .filter(alike())
        .filter(version::Column::Number.lte(newest_old))
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db(doing))
}

/// The rejected version with this content, if it is stored.
async fn rejected_in_tx(
    write: &transaction::Write<'_>,
    stack: StackId,
    digest: &[u8; 32],
) -> Result<Option<StateVersion>> {
    let found = version::Entity::find()
        .filter(version::Column::StackId.eq(stack.uuid()))
        .filter(version::Column::Rejected.is_not_null())
        .filter(version::Column::Digest.eq(digest.to_vec()))
        .one(&write.tx)
        .await;
    found.map_err(db("looking for a rejected state"))?.map(StateVersion::try_from).transpose()
}

/// Sets the columns of a stack that describe its state. `updated_at` is that of the stack itself.
async fn set_in_tx(write: &transaction::Write<'_>, id: Uuid, change: row::ActiveModel) -> Result<()> {
    let change = row::ActiveModel { id: ActiveValue::Unchanged(id), ..change };
    change.update(&write.tx).await.map(drop).map_err(db("writing a stack"))
}

/// Whether the Job of a run asks, and somebody else holds the lock. That it names the lock proves nothing: a refused lock request
/// reveals its id.
fn is_of_another(lock: &StateLock, actor: &str) -> bool {
    RunActor::run_of(actor).is_some() && lock.author != actor
}

#[async_trait]
impl StackStateStore for Database {
    async fn stack_state_versions(&self, stack: &Authorized<Stack, Read>) -> Result<Vec<StateVersion>> {
        let found = version::Entity::find()
            .filter(version::Column::StackId.eq(stack.id.uuid()))
            .order_by_desc(version::Column::Number)
            .all(&self.reader)
            .await
            .map_err(db("reading the versions of a state"))?;
        found.into_iter().map(StateVersion::try_from).collect()
    }

    async fn stack_state_version(&self, stack: StackId, id: StateVersionId) -> Result<StateVersion> {
        version_on(&self.reader, stack, id).await
    }

    async fn stack_state_read(
        &self,
        by: Audited<'_, Stack, ReadState>,
        id: StateVersionId,
    ) -> Result<Vec<Sealed>> {
        let write = self.write().await?;
        // It may be deleted by now; then nobody has read it.
        version_on(&write.tx, by.target().id, id).await?;
        let pieces = pieces_on(&write.tx, id).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(pieces)
    }

    async fn stack_state_pieces(
        &self,
        stack: &Authorized<Stack, Read>,
        id: StateVersionId,
    ) -> Result<Vec<Sealed>> {
        version_on(&self.reader, stack.id, id).await?;
        pieces_on(&self.reader, id).await
    }

    async fn stack_state_write(
        &self,
        by: Audited<'_, Stack, WriteState>,
        write: &StateWrite,
    ) -> Result<StateWritten> {
        let StateWrite { id, head, size, pieces, from, kept } = write;
        let (stack, entry) = (by.target().id, by.entry());
        let given = match from {
            StateSource::Tool(lock) => lock.as_deref(),
            StateSource::Version { .. } => None,
        };
        let write = self.write().await?;
        let row = lock_in_tx(&write, stack).await?;
        // Under somebody else's lock, a Job writes as under one that nobody holds.
        let lock = lock_of(&row)?.filter(|lock| given.is_none() || !is_of_another(lock, &entry.actor));
        let current = current_in_tx(&write, &row).await?;
        if let StateSource::Version { taken: _, seen } = from
            && *seen != current.as_ref().map(|current| current.id)
        {
            return Err(Error::conflict(
                "the state was written at the same time: look at what differs before you try again",
            ));
        }
        let rejected = match (judge_write(lock.as_ref(), given, current.as_ref(), head), lock, current) {
            (WriteVerdict::Locked, Some(lock), _) => return Ok(StateWritten::Locked(lock)),
            (WriteVerdict::Repeat, _, Some(current)) => return Ok(StateWritten::Repeated(current)),
            (WriteVerdict::Locked | WriteVerdict::Repeat, ..) => {
                return Err(Error::internal("keeping a state", "decided about what is not there"));
            }
            (WriteVerdict::Accept, ..) => None,
            (WriteVerdict::Reject(why), ..) => Some(why.to_owned()),
        };
        let version = StateVersion {
            id: *id,
            stack_id: stack,
            serial: head.serial,
            lineage: head.lineage.clone(),
            digest: head.digest,
            size: *size,
            resources: head.resources,
            rejected,
            accepted_at: None,
            author: entry.actor.clone(),
            request_id: entry.request_id.to_string(),
            fence: given.map(|_| row.fence.cast_unsigned()),
            created_at: entry.at,
        };
        if version.rejected.is_some() {
            if let StateSource::Version { .. } = from {
                // It is stored already; nothing has to be added.
                return Ok(StateWritten::Rejected(version));
            }
            if let Some(known) = rejected_in_tx(&write, stack, &head.digest).await? {
                return Ok(StateWritten::Rejected(known));
            }
        }
        // If the lock is no longer held, its fencing number is unknown.
        let version = StateVersion { fence: version.fence.filter(|_| version.rejected.is_none()), ..version };
        let number = row.writes + 1;
        keep_in_tx(&write, &version, number, pieces).await?;
        let mut change = row::ActiveModel { writes: set(number), ..Default::default() };
        if version.rejected.is_none() {
            change.current_id = set(Some(id.uuid()));
        }
        set_in_tx(&write, row.id, change).await?;
        if let StateSource::Version { taken, seen: _ } = from {
            version::Entity::update_many()
                .col_expr(version::Column::AcceptedAt, sea_orm::sea_query::Expr::value(entry.at))
                .filter(version::Column::Id.eq(taken.uuid()))
                .filter(version::Column::Rejected.is_not_null())
                .exec(&write.tx)
                .await
                .map_err(db("taking in a rejected state"))?;
        }
        prune_in_tx(&write, stack, version.rejected.is_some(), *kept).await?;
        if version.rejected.is_some() {
            write.audit(&AuditEntry { action: "stack.state.reject".into(), ..entry.clone() }).await?;
            write.stack_changed(row.id, entry.at);
            write.commit().await?;
            return Ok(StateWritten::Rejected(version));
        }
        write.audit(entry).await?;
        write.stack_changed(row.id, entry.at);
        write.commit().await?;
        Ok(StateWritten::Taken(version))
    }

    async fn stack_state_lock(
        &self,
        by: Audited<'_, Stack, WriteState>,
        request: &LockRequest,
    ) -> Result<StateLocked> {
        let entry = by.entry();
        let write = self.write().await?;
        let row = lock_in_tx(&write, by.target().id).await?;
        if let Some(held) = lock_of(&row)? {
            // The answer may have been lost: tools give each lock a random id.
            let is_theirs = held.id == request.id && held.info == request.info && held.author == entry.actor;
            return Ok(if is_theirs { StateLocked::Taken(held) } else { StateLocked::Held(held) });
        }
        let LockRequest { id, info, operation, who } = request;
        let fence = row.fence + 1;
        let lock = StateLock {
            id: id.clone(),
            info: info.clone(),
            operation: operation.clone(),
            who: who.clone(),
            author: entry.actor.clone(),
            fence: fence.cast_unsigned(),
            created_at: entry.at,
        };
        let change = row::ActiveModel {
            state_lock: set(Some(to_json(&lock, "the lock of a state")?)),
            fence: set(fence),
            ..Default::default()
        };
        set_in_tx(&write, row.id, change).await?;
        write.audit(entry).await?;
        write.stack_changed(row.id, entry.at);
        write.commit().await?;
        Ok(StateLocked::Taken(lock))
    }

    async fn stack_state_unlock(
        &self,
        by: Audited<'_, Stack, WriteState>,
        id: Option<&str>,
    ) -> Result<StateUnlocked> {
        let mut write = self.write().await?;
        let row = lock_in_tx(&write, by.target().id).await?;
        let Some(lock) = lock_of(&row)? else { return Ok(StateUnlocked::Free) };
        if id.is_some_and(|id| id != lock.id) || is_of_another(&lock, &by.entry().actor) {
            return Ok(StateUnlocked::Held(lock));
        }
        let change = row::ActiveModel { state_lock: set(None), ..Default::default() };
        set_in_tx(&write, row.id, change).await?;
        write.audit(by.entry()).await?;
        stack_run::unlocked_in_tx(&mut write, &row, &lock, (by.entry().actor.as_str(), by.entry().at))
            .await?;
        write.stack_changed(row.id, by.entry().at);
        write.commit().await?;
        Ok(StateUnlocked::Free)
    }
}
