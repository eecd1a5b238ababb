//! What a person does to a service besides changing it: roll back, release, stop, go on.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Act, Audited, Authorized, Read, Rollback, Write};
use plural_app::seal::Sealed;
use plural_app::service_life::ServiceLifeStore;
use plural_core::audit::AuditRow;
use plural_core::ids::{RevisionId, ServiceId};
use plural_core::service::{Pin, PinUntil, Service};
use plural_core::status::ServiceStatus;
use plural_core::work::WorkChange;
use plural_core::{Error, Page, PageRequest, Result};
use sea_orm::sea_query::{Condition, Expr, ExprTrait, IntoCondition};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

use crate::agent_upgrade::{lock_known_in_tx, lock_to_mark_in_tx};
use crate::convert::{json, to_json};
use crate::database::{Database, corrupt};
use crate::error::db;
use crate::health_change::Seen;
use crate::page::page;
use crate::service::{event, event_at, lock_in_tx, row, status_of};
use crate::transaction::{self, set};
use crate::{audit, component, data_key, dependency, revision, secret_backend, service_error};

/// Services of one statement.
const AT_ONCE: usize = 500;
/// Services that are renewed in the transaction that changes what their agents are sent with them. A job renews the others.
pub(crate) const RENEWED: u64 = 500;

#[async_trait]
impl ServiceLifeStore for Database {
    async fn service_rollback(
        &self,
        by: Audited<'_, Service, Rollback>,
        to: RevisionId,
        until: PinUntil,
    ) -> Result<Service> {
        let at = by.entry().at;
        let write = self.write().await?;
        dependency::lock_for_in_tx(&write, &[by.target().id.uuid()]).await?;
        let old = lock_known_in_tx(&write, by.target()).await?;
        if old.deleted_at.is_some() {
            return Err(Error::conflict("the service is being deleted"));
        }
        let target = revision_in_tx(&write, old.id, to.uuid()).await?.ok_or(Error::not_found("revision"))?;
        let secrets = revision::secrets(target.clone());
        data_key::hold_in_tx(&write, data_key::keys_of([&secrets])).await?;
        let newest = match pin_of(&old)? {
            Some(pin) => pin.newest.uuid(),
            None => old.revision_id,
        };
        // Revisions of releases before this one do not say what was made of them; of the current one the
        // service knows.
        let current = old.revision_id == target.id;
        if !current && target.artifact_digest.is_none() {
            return Err(Error::conflict(
                "nothing was made of that revision, or it is not known any more: choose another one",
            ));
        }
        if old.revision_id == newest {
            remember_artifact_in_tx(&write, &old).await?;
        }
        let pin = Pin { newest: RevisionId::from_uuid(newest), by: by.entry().actor.clone(), at, until };
        let mut moved = old.clone();
        moved.pin = Some(to_json(&pin, "a pin")?);
        if !current {
            moved.revision_id = target.id;
            moved.sha = target.sha;
            moved.message = target.message;
            moved.author = target.author;
            moved.artifact_digest = target.artifact_digest;
            moved.artifact_folder = target.artifact_folder.unwrap_or_default();
        }
        self.moved(write, by, moved).await
    }

    async fn service_release(&self, by: Audited<'_, Service, Write>) -> Result<Service> {
        let write = self.write().await?;
        dependency::lock_for_in_tx(&write, &[by.target().id.uuid()]).await?;
        let old = lock_known_in_tx(&write, by.target()).await?;
        if old.pin.is_none() {
            return Err(Error::conflict("the service is not pinned to a revision"));
        }
        let moved = released_in_tx(&write, old).await?;
        self.moved(write, by, moved).await
    }

    async fn service_pause(&self, by: Audited<'_, Service, Write>) -> Result<Service> {
        self.paused(by, true).await
    }

    async fn service_resume(&self, by: Audited<'_, Service, Write>) -> Result<Service> {
        self.paused(by, false).await
    }

    async fn service_seed_rotate(&self, by: Audited<'_, Service, Write>, seed: &Sealed) -> Result<Service> {
        let write = self.write().await?;
        dependency::lock_for_in_tx(&write, &[by.target().id.uuid()]).await?;
        let mut moved = lock_known_in_tx(&write, by.target()).await?;
        secret_backend::name_on(&write.tx, secret_backend::objects_of([seed.as_bytes()])).await?;
        moved.seed = seed.as_bytes().to_vec();
        self.moved(write, by, moved).await
    }

    async fn service_agent_upgrade(&self, by: Audited<'_, Service, Write>, marked: bool) -> Result<Service> {
        let at = by.entry().at;
        let mut write = self.write().await?;
        let old = if marked {
            lock_to_mark_in_tx(&write, by.target()).await?
        } else {
            lock_in_tx(&write, by.target().id).await?
        };
        if old.deleted_at.is_some() {
            return Err(Error::conflict("the service is being deleted"));
        }
        let change = row::ActiveModel {
            id: ActiveValue::Unchanged(old.id),
            agent_upgrade: set(marked),
            sequence: set(old.sequence + 1),
            updated_at: set(at),
            ..Default::default()
        };
        let row = change.update(&write.tx).await.map_err(db("marking a service"))?;
        write.audit(by.entry()).await?;
        write.publish(event(&row, WorkChange::Changed), at).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn service_events(
        &self,
        service: &Authorized<Service, Read>,
        request: &PageRequest,
    ) -> Result<Page<AuditRow>> {
        let query = audit::row::Entity::find().filter(audit::row::Column::TargetId.eq(service.id.uuid()));
        page(&self.reader, query, audit::row::Column::Id, request, |row| Ok(row.into())).await
    }
}

impl Database {
    async fn paused(&self, by: Audited<'_, Service, Write>, paused: bool) -> Result<Service> {
        let write = self.write().await?;
        dependency::lock_for_in_tx(&write, &[by.target().id.uuid()]).await?;
        let mut moved = lock_known_in_tx(&write, by.target()).await?;
        moved.paused = paused;
        self.moved(write, by, moved).await
    }

    /// Writes where the service stands now, with its status, audit line and event.
    async fn moved<A: Act>(
        &self,
        mut write: transaction::Write<'_>,
        by: Audited<'_, Service, A>,
        moved: row::Model,
    ) -> Result<Service> {
        let at = by.entry().at;
        let row = write_moved_in_tx(&mut write, moved, at).await?;
        write.audit(by.entry()).await?;
        write.publish(event(&row, WorkChange::Changed), at).await?;
        if row.status == ServiceStatus::Healthy.as_str() {
            dependency::wake_in_tx(&mut write, &[dependency::key_of(&row)], at).await?;
        }
        write.commit().await?;
        row.try_into()
    }
}

/// The pin of a stored service.
pub(crate) fn pin_of(row: &row::Model) -> Result<Option<Pin>> {
    row.pin.clone().map(|pin| json(pin, "a service's pin")).transpose()
}

/// The service as its newest revision is, which a pin may hold back: what another revision is made from.
pub(crate) async fn newest_in_tx(write: &transaction::Write<'_>, service: row::Model) -> Result<row::Model> {
    match pin_of(&service)? {
        // It stands there, and knows more than the revision does.
        Some(pin) if pin.newest.uuid() == service.revision_id => Ok(service),
        _ => released_in_tx(write, service).await,
    }
}

/// The service at its newest revision, without its pin.
pub(crate) async fn released_in_tx(
    write: &transaction::Write<'_>,
    mut service: row::Model,
) -> Result<row::Model> {
    let Some(pin) = pin_of(&service)? else { return Ok(service) };
    let newest = revision_in_tx(write, service.id, pin.newest.uuid())
        .await?
        .ok_or_else(|| corrupt("a pinned service's newest revision"))?;
    service.pin = None;
    service.revision_id = newest.id;
    service.sha = newest.sha;
    service.message = newest.message;
    service.author = newest.author;
    service.artifact_digest = newest.artifact_digest;
    service.artifact_folder = newest.artifact_folder.unwrap_or_default();
    Ok(service)
}

/// Writes where a service stands now, with the status that follows.
pub(crate) async fn write_moved_in_tx(
    write: &mut transaction::Write<'_>,
    mut moved: row::Model,
    at: DateTime<Utc>,
) -> Result<row::Model> {
    let components = component::list_on(&write.tx, &[moved.id]).await?.remove(&moved.id).unwrap_or_default();
    let errors = service_error::list_on(&write.tx, &[moved.id]).await?.remove(&moved.id).unwrap_or_default();
    moved.sequence += 1;
    let errors = errors.all();
    let status = status_of(&moved, &components, &errors);
    write.turn(&mut moved, status, at, &Seen { components: &components, errors: &errors });
    let change = row::ActiveModel {
        id: ActiveValue::Unchanged(moved.id),
        revision_id: set(moved.revision_id),
        sha: set(moved.sha),
        message: set(moved.message),
        author: set(moved.author),
        artifact_digest: set(moved.artifact_digest),
        artifact_folder: set(moved.artifact_folder),
        pin: set(moved.pin),
        paused: set(moved.paused),
        seed: set(moved.seed),
        status: set(moved.status),
        failing_since: set(moved.failing_since),
        recovered_at: set(moved.recovered_at),
        sequence: set(moved.sequence),
        updated_at: set(at),
        ..Default::default()
    };
    change.update(&write.tx).await.map_err(db("moving a service"))
}

/// One revision of a service.
pub(crate) async fn revision_in_tx(
    write: &transaction::Write<'_>,
    service: Uuid,
    id: Uuid,
) -> Result<Option<revision::row::Model>> {
    revision::row::Entity::find_by_id(id)
        .filter(revision::row::Column::ServiceId.eq(service))
        .one(&write.tx)
        .await
        .map_err(db("reading a revision"))
}

/// Keeps on the current revision what was made of it, so that the service can come back to it.
async fn remember_artifact_in_tx(write: &transaction::Write<'_>, service: &row::Model) -> Result<()> {
    let change = revision::row::ActiveModel {
        artifact_digest: set(service.artifact_digest.clone()),
        artifact_folder: set(Some(service.artifact_folder.clone())),
        ..Default::default()
    };
    revision::row::Entity::update_many()
        .set(change)
        .filter(revision::row::Column::Id.eq(service.revision_id))
        // One whose source moved has no commit yet: what the service has was made of another one.
        .filter(revision::row::Column::Sha.is_not_null())
        .filter(revision::row::Column::ArtifactDigest.is_null())
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db("keeping a revision's artifact"))
}

/// Has services rendered anew: they are what they were, but what they are made from changed.
///
/// # Assumptions
/// [`dependency::lock_in_tx`] was taken before any row was locked. Who lets services go on that waited for others locks those after
/// the services that they waited for, whatever their ids are.
pub(crate) async fn renew_in_tx(
    write: &mut transaction::Write<'_>,
    which: impl IntoCondition,
    at: DateTime<Utc>,
) -> Result<()> {
    use row::Column;
    // By id, as everybody locks services who does not decide by dependencies: an update alone locks them in the order in which it
    // finds them.
    let rows: Vec<(Uuid, Uuid, i64)> = row::Entity::find()
        .select_only()
        .columns([Column::ClusterId, Column::Id, Column::Sequence])
        .filter(which)
        .order_by_asc(Column::Id)
        .lock_exclusive()
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db("reading services to render anew"))?;
    for chunk in rows.chunks(AT_ONCE) {
        row::Entity::update_many()
            .col_expr(Column::Sequence, Expr::col(Column::Sequence).add(1))
            .filter(Column::Id.is_in(chunk.iter().map(|(_, id, _)| *id)))
            .exec(&write.tx)
            .await
            .map_err(db("having services rendered anew"))?;
    }
    let event = |(cluster, id, sequence)| event_at(cluster, id, sequence + 1, WorkChange::Changed);
    let events: Vec<_> = rows.into_iter().map(event).collect();
    write.publish_many(&events, at).await
}

/// [`renew_in_tx`], with what that assumes, of at most `limit` services after one of them, in the order of their ids. The last one,
/// when there may be more.
pub(crate) async fn renew_some_in_tx(
    write: &mut transaction::Write<'_>,
    which: Condition,
    (after, limit): (Option<ServiceId>, u64),
    at: DateTime<Utc>,
) -> Result<Option<ServiceId>> {
    use row::Column;
    let mut found = row::Entity::find().select_only().column(Column::Id).filter(which);
    if let Some(after) = after {
        found = found.filter(Column::Id.gt(after.uuid()));
    }
    let found = found.order_by_asc(Column::Id).limit(limit).into_tuple().all(&write.tx).await;
    let found: Vec<Uuid> = found.map_err(db("listing services to render anew"))?;
    if found.is_empty() {
        return Ok(None);
    }
    let last = found.last().copied().filter(|_| found.len() as u64 >= limit);
    renew_in_tx(write, Column::Id.is_in(found), at).await?;
    Ok(last.map(ServiceId::from_uuid))
}
