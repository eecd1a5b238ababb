//! Where services are read from, and their moves to new commits.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Installation, Write};
use plural_app::rendering::ServiceSecrets;
use plural_app::source::{ComposedService, ServiceRevise, ServiceSource, SourceLimits, SourceStore};
use plural_core::Result;
use plural_core::audit::{AuditEntry, AuditTarget};
use plural_core::ids::{RepositoryId, ServiceId};
use plural_core::service::{GitRef, Pin, PinUntil};
use plural_core::service_error::ServiceError;
use plural_core::status::ServiceStatus;
use plural_core::sync_window::window_decision;
use plural_core::work::WorkChange;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, JsonValue,
    QueryFilter, QueryOrder, QuerySelect, sea_query::OnConflict,
};
use uuid::Uuid;

use crate::convert::{bytes32, json, to_json};
use crate::database::{Database, corrupt};
use crate::error::db;
use crate::health_change::Seen;
use crate::revision::{self, NewRevision};
use crate::service::{event, rendering_of, row, status_of};
use crate::service_life::pin_of;
use crate::stack_run::{BEHIND, LAST_BEHIND};
use crate::transaction::set;
use crate::{
    component, data_key, dependency, mirror, project_limits, recording, service_error, stack_run, sync,
    sync_window,
};

/// Id, rendering, git ref, closure digest, commit and sequence.
type Source = (Uuid, Option<JsonValue>, Option<JsonValue>, Option<String>, Option<String>, i64);

/// Id, repository, git ref, rendering and closure digest.
type Composed = (Uuid, Option<Uuid>, Option<JsonValue>, Option<JsonValue>, Option<String>);

#[async_trait]
impl SourceStore for Database {
    async fn service_sources(&self, repository: RepositoryId) -> Result<Vec<ServiceSource>> {
        // A tenth of the columns: of a monorepo's many services most cost goes into columns that nobody looks at.
        let rows: Vec<Source> = row::Entity::find()
            .select_only()
            .columns([
                row::Column::Id,
                row::Column::Rendering,
                row::Column::Git,
                row::Column::ClosureDigest,
                row::Column::Sha,
                row::Column::Sequence,
            ])
            .filter(row::Column::RepositoryId.eq(repository.uuid()))
            .filter(row::Column::DeletedAt.is_null())
            // Services of one cluster together: they move in one transaction as far as dependencies allow, and their agent is
            // sent one hint.
            .order_by_asc(row::Column::ClusterId)
            .order_by_asc(row::Column::Id)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("reading a repository's services"))?;
        let ids: Vec<Uuid> = rows.iter().map(|(id, ..)| *id).collect();
        let mut errors = service_error::list_on(&self.reader, &ids).await?;
        rows.into_iter()
            .filter_map(|(id, rendering, git, closure_digest, sha, sequence)| {
                // Those have a job of their own.
                let rendering = match rendering_of(rendering) {
                    Ok(rendering) if rendering.is_composed() => return None,
                    Ok(rendering) => rendering,
                    Err(error) => return Some(Err(error)),
                };
                let git = json::<GitRef>(git?, "a service's git ref");
                let error = errors.remove(&id).and_then(|errors| errors.console.into_iter().next());
                Some(git.map(|git| ServiceSource {
                    id: ServiceId::from_uuid(id),
                    beside: rendering.beside(&git.folder),
                    git,
                    closure_digest,
                    sha,
                    error,
                    sequence: sequence.cast_unsigned(),
                }))
            })
            .collect()
    }

    async fn composed_services(&self, only: Option<&[ServiceId]>) -> Result<Vec<ComposedService>> {
        let mut query = row::Entity::find()
            .filter(row::Column::Rendering.is_not_null())
            .filter(row::Column::DeletedAt.is_null());
        if let Some(only) = only {
            query = query.filter(row::Column::Id.is_in(only.iter().map(|id| id.uuid())));
        }
        // Every service that moves is looked at here, and few are composed.
        let rows: Vec<Composed> = query
            .select_only()
            .columns([
                row::Column::Id,
                row::Column::RepositoryId,
                row::Column::Git,
                row::Column::Rendering,
                row::Column::ClosureDigest,
            ])
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("reading services of several sources"))?;
        let mut found = Vec::new();
        for (id, repository, git, rendering, closure_digest) in rows {
            let rendering = rendering_of(rendering)?;
            if !rendering.is_composed() {
                continue;
            }
            found.push(ComposedService {
                id: ServiceId::from_uuid(id),
                repository_id: repository.map(RepositoryId::from_uuid),
                git: git.map(|git| json(git, "a service's git ref")).transpose()?,
                rendering,
                closure_digest,
                error: None,
                project: None,
                limits: SourceLimits::default(),
            });
        }
        let ids: Vec<Uuid> = found.iter().map(|service| service.id.uuid()).collect();
        let mut limits = project_limits::source_limits_on(&self.reader, &ids).await?;
        for service in &mut found {
            if let Some(project_limits::Owned { project, limits }) = limits.remove(&service.id.uuid()) {
                (service.project, service.limits) = (Some(project), limits);
            }
        }
        for chunk in ids.chunks(500) {
            let mut errors = service_error::list_on(&self.reader, chunk).await?;
            for service in &mut found {
                if let Some(errors) = errors.remove(&service.id.uuid()) {
                    service.error = errors.console.into_iter().next();
                }
            }
        }
        Ok(found)
    }

    async fn source_limits(&self, services: &[ServiceId]) -> Result<HashMap<ServiceId, SourceLimits>> {
        let ids: Vec<Uuid> = services.iter().map(|id| id.uuid()).collect();
        let found = project_limits::source_limits_on(&self.reader, &ids).await?;
        Ok(found.into_iter().map(|(id, owned)| (ServiceId::from_uuid(id), owned.limits)).collect())
    }

    async fn service_revise(
        &self,
        by: Audited<'_, Installation, Write>,
        moves: &[ServiceRevise],
    ) -> Result<Vec<ServiceId>> {
        let at = by.entry().at;
        let mut write = self.write().await?;
        let ids: Vec<Uuid> = moves.iter().map(|step| step.id.uuid()).collect();
        dependency::lock_for_in_tx(&write, &ids).await?;
        let mut rows: HashMap<Uuid, row::Model> = row::Entity::find()
            .filter(row::Column::Id.is_in(ids.iter().copied()))
            .order_by_asc(row::Column::Id)
            .lock_exclusive()
            .all(&write.tx)
            .await
            .map_err(db("reading services"))?
            .into_iter()
            .map(|row| (row.id, row))
            .collect();
        let mut components = component::list_on(&write.tx, &ids).await?;
        let mut errors = service_error::list_on(&write.tx, &ids).await?;
        let (mut moved, mut revisions, mut audit, mut events) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let here: Vec<row::Model> = rows.values().cloned().collect();
        let windows = sync_window::of_services_on(&write.tx, &here).await?;
        let mut newest = Vec::with_capacity(here.len());
        for row in &here {
            newest.push(newest_of(row, pin_of(row)?.as_ref()));
        }
        let mut secrets = revision::secrets_on(&write.tx, &newest).await?;
        if !data_key::held_in_tx(&write, data_key::keys_of(secrets.values())).await?.is_empty() {
            // They were sealed anew between the two, and the former key is gone.
            secrets = revision::secrets_on(&write.tx, &newest).await?;
            data_key::held_in_tx(&write, data_key::keys_of(secrets.values())).await?;
        }
        let mut changed = Vec::new();
        let mut held = false;
        let steps: HashMap<Uuid, &ServiceRevise> = moves.iter().map(|step| (step.id.uuid(), step)).collect();
        let linked = dependency::of_on(&write.tx, &ids).await?;
        let asked = sync::asked_on(&write.tx, &ids).await?;
        let mut sent_whole = Vec::new();
        let mut moving: HashSet<dependency::Key> = HashSet::new();
        // What is depended on moves first: who depends on it finds it moving, and waits.
        for id in dependency::first_on(&write.tx, &ids).await? {
            let (Some(mut old), Some(step)) = (rows.remove(&id), steps.get(&id)) else { continue };
            let waits = match linked.get(&id) {
                None => false,
                Some(on) if on.iter().any(|one| moving.contains(&one.on())) => true,
                Some(_) => dependency::waits_in_tx(&write, id).await?,
            };
            let closed = windows.get(&id).is_some_and(|windows| !window_decision(windows, at).open);
            let made = revise(&secrets, &mut old, step, (by.entry(), Hold { closed, waits }))?;
            if !matches!(made, Step::Nothing) && !stays(&old)? {
                moving.insert(dependency::key_of(&old));
            }
            if let Step::Held(change) = made {
                revision::row_of(change).insert(&write.tx).await.map_err(db("making a revision"))?;
                revision::prune_on(&write.tx, old.id).await?;
                write_held_on(&write.tx, &old).await?;
                held = true;
                continue;
            }
            if let Step::Moved { revision, change } = made {
                // A move leaves what the agent holds of asks as it is.
                let change = if asked.contains(&id) { WorkChange::Changed } else { change };
                if change != WorkChange::Moved {
                    sent_whole.push(id);
                }
                revisions.push(revision::row_of(revision));
                let components = components.remove(&old.id).unwrap_or_default();
                let found = errors.remove(&old.id).unwrap_or_default();
                if !found.console.is_empty() {
                    service_error::replace_on(&write.tx, old.id, true, &[]).await?;
                }
                let status = status_of(&old, &components, &found.agent);
                write.turn(&mut old, status, at, &Seen { components: &components, errors: &found.agent });
                let mut entry = by.entry().clone();
                // Another thing than the one that the handle is of.
                entry.before = None;
                entry.target =
                    AuditTarget { noun: "service".into(), id: Some(old.id), name: old.name.clone() };
                audit.push(entry);
                events.push(event(&old, change));
                moved.push(step.id);
                changed.push(old);
            }
        }
        if moved.is_empty() {
            if held {
                write.commit().await?;
            }
            return Ok(moved);
        }
        revision::row::Entity::insert_many(revisions)
            .exec_without_returning(&write.tx)
            .await
            .map_err(db("making revisions"))?;
        write_revised_on(&write.tx, changed).await?;
        revision::prune_many_on(&write.tx, &moved).await?;
        sync::sent_whole_on(&write.tx, &sent_whole).await?;
        write.audit_many(&audit).await?;
        write.publish_many(&events, at).await?;
        write.commit().await?;
        Ok(moved)
    }

    async fn artifacts_named(&self) -> Result<HashSet<[u8; 32]>> {
        let doing = "listing the artifacts that are named";
        // In one statement, hence of one moment.
        let sql = format!(
            "WITH {BEHIND} SELECT artifact_digest AS digest FROM services WHERE artifact_digest IS NOT NULL \
             UNION SELECT artifact_digest FROM revisions WHERE artifact_digest IS NOT NULL \
             UNION SELECT r.artifact_digest FROM stack_runs r JOIN behind b ON b.id = r.stack_id \
             WHERE r.artifact_digest IS NOT NULL AND r.number > 0 \
             AND (r.finished_at IS NULL OR r.number > {LAST_BEHIND})"
        );
        let newest = i64::from(stack_run::NEWEST);
        let rows =
            self.reader.query_all_raw(self.statement(&sql, [newest.into()])).await.map_err(db(doing))?;
        let mut named: HashSet<[u8; 32]> = rows
            .iter()
            .map(|row| {
                let digest: Vec<u8> = row.try_get("", "digest").map_err(db(doing))?;
                bytes32(&digest, "an artifact's digest")
            })
            .collect::<Result<_>>()?;
        // Pieces of mirrors lie in the same store. What is shared from now on is young.
        for row in mirror::row::Entity::find().all(&self.reader).await.map_err(db(doing))? {
            named.extend(mirror::digests(&row.pieces)?);
        }
        // And what is kept of shells. A piece is named after it is stored; until then it is young.
        recording::digests_into(&self.reader, recording::DIGESTS, &mut named).await?;
        Ok(named)
    }

    async fn service_source_errors(
        &self,
        errors: &[(ServiceId, Option<ServiceError>)],
        now: DateTime<Utc>,
    ) -> Result<()> {
        let mut write = self.write().await?;
        let ids: Vec<Uuid> = errors.iter().map(|(id, _)| id.uuid()).collect();
        dependency::lock_for_in_tx(&write, &ids).await?;
        let mut healthy = Vec::new();
        let mut rows: HashMap<Uuid, row::Model> = row::Entity::find()
            .filter(row::Column::Id.is_in(ids.iter().copied()))
            .order_by_asc(row::Column::Id)
            .lock_exclusive()
            .all(&write.tx)
            .await
            .map_err(db("reading services"))?
            .into_iter()
            .map(|row| (row.id, row))
            .collect();
        let components = component::list_on(&write.tx, &ids).await?;
        let mut known = service_error::list_on(&write.tx, &ids).await?;
        for (id, error) in errors {
            let Some(mut row) = rows.remove(&id.uuid()) else { continue };
            let console: Vec<ServiceError> = error.iter().cloned().collect();
            service_error::replace_on(&write.tx, row.id, true, &console).await?;
            let mut all = known.remove(&row.id).unwrap_or_default();
            all.console = console;
            let (none, all) = (Vec::new(), all.all());
            let components = components.get(&row.id).unwrap_or(&none);
            let status = status_of(&row, components, &all);
            write.turn(&mut row, status, now, &Seen { components, errors: &all });
            let change = row::ActiveModel {
                id: ActiveValue::Unchanged(row.id),
                status: set(row.status.clone()),
                failing_since: set(row.failing_since),
                recovered_at: set(row.recovered_at),
                updated_at: set(now),
                ..Default::default()
            };
            change.update(&write.tx).await.map_err(db("recording a service's error"))?;
            write.changed((row.cluster_id, Some(row.id)), now);
            if status == ServiceStatus::Healthy {
                healthy.push(dependency::key_of(&row));
            }
        }
        dependency::wake_in_tx(&mut write, &healthy, now).await?;
        write.commit().await
    }
}

/// What becomes of a service for which there is something new.
enum Step {
    /// It asks for something else by now, or is there already.
    Nothing,
    /// It moves on, and how its agent is told of it.
    Moved { revision: NewRevision, change: WorkChange },
    /// It is pinned: the revision waits.
    Held(NewRevision),
}

/// A pinned service goes on from its newest revision, not from the one it stands at.
fn newest_of(row: &row::Model, pin: Option<&Pin>) -> Uuid {
    pin.map_or(row.revision_id, |pin| pin.newest.uuid())
}

/// A person holds it where it is: whoever depends on it need not wait for its newest revision.
fn stays(row: &row::Model) -> Result<bool> {
    Ok(pin_of(row)?.is_some_and(|pin| matches!(pin.until, PinUntil::Release | PinUntil::NextCommit)))
}

/// What keeps a service from moving on.
struct Hold {
    /// Its sync windows are closed.
    closed: bool,
    /// What it depends on is not healthy.
    waits: bool,
}

/// Moves one service, unless it asks for something else by now, is there already, or is pinned.
fn revise(
    secrets: &HashMap<Uuid, ServiceSecrets>,
    old: &mut row::Model,
    step: &ServiceRevise,
    (by, Hold { closed, waits }): (&AuditEntry, Hold),
) -> Result<Step> {
    let ServiceRevise {
        id: _,
        revision_id,
        git,
        rendering,
        sha,
        message,
        author,
        closure_digest,
        artifact_digest,
        artifact_folder,
    } = step;
    let git: Option<JsonValue> = git.as_ref().map(|git| to_json(git, "a git ref")).transpose()?;
    let now = rendering_of(old.rendering.clone())?;
    let same = match rendering {
        Some(rendering) => now == *rendering,
        None => !now.is_composed(),
    };
    if old.deleted_at.is_some() || old.git != git || !same {
        return Ok(Step::Nothing);
    }
    if old.closure_digest.as_deref() == Some(closure_digest.as_str()) {
        return Ok(Step::Nothing);
    }
    let digest = hex::decode(artifact_digest).map_err(|_| corrupt("an artifact's digest"))?;
    bytes32(&digest, "an artifact's digest")?;
    let pin = pin_of(old)?;
    let secrets = secrets.get(&newest_of(old, pin.as_ref()));
    // What an agent has of a pinned service is how the pinned revision is rendered. The folder decides where the artifact's
    // files are in the repository, and before the first artifact there is none.
    let is_move = pin.is_none() && old.artifact_digest.is_some() && old.artifact_folder == *artifact_folder;
    let made = NewRevision {
        id: *revision_id,
        service_id: old.id,
        version: old.version.clone(),
        git,
        sha: Some(sha.clone()),
        message: Some(message.clone()),
        author: author.clone(),
        rendering: old.rendering.clone(),
        secrets: secrets.cloned().ok_or_else(|| corrupt("a service's revision"))?,
        artifact: Some((digest.clone(), artifact_folder.clone())),
        by: by.actor.clone(),
        at: by.at,
    };
    old.closure_digest = Some(closure_digest.clone());
    old.updated_at = by.at;
    let hold = match pin {
        Some(pin) if pin.until == PinUntil::Release => Some(pin),
        Some(pin) if pin.until == PinUntil::Window && closed => Some(pin),
        _ if closed => {
            let by = "a sync window".to_owned();
            Some(Pin { newest: *revision_id, by, at: made.at, until: PinUntil::Window })
        }
        pin if waits => Some(dependency::waiting_pin(pin.as_ref(), *revision_id, made.at)),
        _ => None,
    };
    if let Some(pin) = hold {
        old.pin = Some(to_json(&Pin { newest: *revision_id, ..pin }, "a pin")?);
        return Ok(Step::Held(made));
    }
    old.pin = None;
    old.revision_id = revision_id.uuid();
    old.sha = Some(sha.clone());
    old.message = Some(message.clone());
    old.author.clone_from(author);
    old.artifact_digest = Some(digest);
    old.artifact_folder.clone_from(artifact_folder);
    old.sequence += 1;
    let change = if is_move { WorkChange::Moved } else { WorkChange::Changed };
    Ok(Step::Moved { revision: made, change })
}

async fn write_held_on(connection: &impl ConnectionTrait, held: &row::Model) -> Result<()> {
    let change = row::ActiveModel {
        id: ActiveValue::Unchanged(held.id),
        closure_digest: set(held.closure_digest.clone()),
        pin: set(held.pin.clone()),
        updated_at: set(held.updated_at),
        ..Default::default()
    };
    row::Entity::update(change).exec(connection).await.map(drop).map_err(db("holding a service back"))
}

/// In one statement, however many they are: their rows are locked, so that inserting always meets them.
async fn write_revised_on(connection: &impl ConnectionTrait, moved: Vec<row::Model>) -> Result<()> {
    use row::Column as C;
    let moves = OnConflict::column(C::Id)
        .update_columns([
            C::RevisionId,
            C::Sha,
            C::Message,
            C::Author,
            C::ClosureDigest,
            C::ArtifactDigest,
            C::ArtifactFolder,
            C::Pin,
            C::Sequence,
            C::UpdatedAt,
            C::Status,
            C::FailingSince,
            C::RecoveredAt,
        ])
        .to_owned();
    row::Entity::insert_many(moved.into_iter().map(IntoActiveModel::into_active_model))
        .on_conflict(moves)
        .exec_without_returning(connection)
        .await
        .map(drop)
        .map_err(db("moving services"))
}
