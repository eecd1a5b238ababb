//! Secrets that automations ask for. Their state follows from the record of their instance, in the transaction that changes that.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use plural_app::pr_secret::{DuePrSecret, NewPrSecret, PrSecretOutcome, PrSecretStore, PrSecretTold};
use plural_app::records::Search;
use plural_app::seal::Sealed;
use plural_core::access::Visibility;
use plural_core::audit::AuditEntry;
use plural_core::ids::{ClusterId, PrInstanceId, ProjectId, PullRequestId};
use plural_core::policy::PolicyNoun;
use plural_core::pr_instance::PrInstanceState;
use plural_core::pr_secret::{PrSecret, PrSecretState};
use plural_core::pull_request_life::PrFacts;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, JsonValue, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, Select,
};

use crate::convert::{json, to_json, word};
use crate::database::Database;
use crate::error::db;
use crate::page::search;
use crate::records::{Guard, Table};
use crate::transaction::{Write, set};
use crate::{cluster, policy, pr_instance, pull_request};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "pr_secrets")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub project_id: Uuid,
        pub instance_id: Uuid,
        pub cluster_id: Uuid,
        pub namespace: String,
        pub name: String,
        pub entries: Json,
        pub state: String,
        pub message: Option<String>,
        pub content: Option<Vec<u8>>,
        pub due_at: Option<DateTimeUtc>,
        pub previous_id: Option<Uuid>,
        pub parked: bool,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const READING: &str = "reading the secret of a pull request";
const WRITING: &str = "recording the secret of a pull request";
const ENTRIES: &str = "the values of a secret of a pull request";
const STATE: &str = "the state of a secret of a pull request";
/// The message of a Secret whose values were deleted.
const CLOSED: &str = "its values were forgotten when the pull request was closed, or merged into another branch: open another one";
const EXPIRED: &str = "its values were forgotten, as no cluster had them in time: open another pull request";
/// Why a Secret disappeared that was never deleted.
const REPLACED: &str = "an upgrade took its place";
/// The word of a Secret whose upgrade is not merged: the previous release has no work for it.
const PARKED: &str = PrSecretState::Forgotten.as_str();
/// The upgrade has ended, or the previous release merged it.
const UNPARKED: &str = "NOT EXISTS (SELECT 1 FROM pr_instances i WHERE i.id = pr_secrets.instance_id \
     AND i.change_id = pr_secrets.id)";
/// Limit of Secrets that one pass brings in line with their instances.
const MOST_LATE: u64 = 200;

impl TryFrom<row::Model> for PrSecret {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            project_id,
            instance_id,
            cluster_id,
            namespace,
            name,
            entries,
            state,
            message,
            content: _,
            due_at: _,
            previous_id,
            parked,
            created_at,
            updated_at,
        } = row;
        Ok(Self {
            id: PullRequestId::from_uuid(id),
            project_id: ProjectId::from_uuid(project_id),
            instance_id: PrInstanceId::from_uuid(instance_id),
            cluster_id: ClusterId::from_uuid(cluster_id),
            namespace,
            name,
            entries: json(entries, ENTRIES)?,
            state: if parked { PrSecretState::Waiting } else { word(PrSecretState::parse(&state), STATE)? },
            message,
            previous: previous_id.map(PullRequestId::from_uuid),
            created_at,
            updated_at,
        })
    }
}

impl Table for PrSecret {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = READING;

    fn find(rows: Select<row::Entity>, by: &PullRequestId) -> Select<row::Entity> {
        rows.filter(row::Column::Id.eq(by.uuid()))
    }

    fn filter(rows: Select<row::Entity>, filter: &Search) -> Select<row::Entity> {
        let Search { q } = filter;
        search(rows, &[row::Column::Name], q.as_deref())
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::ProjectId], PolicyNoun::Project)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.project_id.into()])
    }
}

/// The Secrets that the agent of a cluster has to change.
fn due(cluster: ClusterId) -> Select<row::Entity> {
    let states = [PrSecretState::Due.as_str(), PrSecretState::Deleting.as_str()];
    row::Entity::find()
        .filter(row::Column::ClusterId.eq(cluster.uuid()))
        .filter(row::Column::State.is_in(states))
}

#[async_trait]
impl PrSecretStore for Database {
    async fn pr_secrets_mark(&self, cluster: ClusterId) -> Result<u64> {
        let newest: Option<Option<DateTime<Utc>>> = due(cluster)
            .select_only()
            .column(row::Column::DueAt)
            .order_by_desc(row::Column::DueAt)
            .limit(1)
            .into_tuple()
            .one(&self.reader)
            .await
            .map_err(db(READING))?;
        let newest = newest.flatten().map_or(0, |at| at.timestamp_micros());
        Ok(newest.unsigned_abs())
    }

    async fn pr_secrets_due(
        &self,
        cluster: ClusterId,
        project: ProjectId,
        most: u64,
    ) -> Result<Vec<DuePrSecret>> {
        let found = due(cluster)
            .filter(row::Column::ProjectId.eq(project.uuid()))
            // A Secret without values cannot be written, and must not look like one to be deleted.
            .filter(
                Condition::any()
                    .add(row::Column::State.eq(PrSecretState::Deleting.as_str()))
                    .add(row::Column::Content.is_not_null()),
            )
            .order_by_asc(row::Column::UpdatedAt)
            .order_by_asc(row::Column::Id)
            .limit(most)
            .all(&self.reader)
            .await
            .map_err(db(READING))?;
        let one = |mut found: row::Model| {
            let content = found.content.take().map(Sealed::from_bytes);
            let secret = PrSecret::try_from(found)?;
            let content = content.filter(|_| secret.state == PrSecretState::Due);
            Ok(DuePrSecret { secret, content })
        };
        found.into_iter().map(one).collect()
    }

    async fn pr_secrets_of(&self, instance: PrInstanceId) -> Result<Vec<PrSecret>> {
        let found = live(instance.uuid())
            .order_by_desc(row::Column::CreatedAt)
            .order_by_desc(row::Column::Id)
            .all(&self.reader)
            .await
            .map_err(db(READING))?;
        found.into_iter().map(PrSecret::try_from).collect()
    }

    async fn pr_secrets_forgotten(&self, instance: PrInstanceId) -> Result<bool> {
        let found = row::Entity::find()
            .filter(row::Column::InstanceId.eq(instance.uuid()))
            .filter(row::Column::State.eq(PrSecretState::Forgotten.as_str()))
            .filter(row::Column::Parked.eq(false))
            .count(&self.reader)
            .await
            .map_err(db(READING))?;
        Ok(found > 0)
    }

    async fn pr_secret_told(&self, cluster: ClusterId, told: &PrSecretTold, by: &AuditEntry) -> Result<()> {
        let PrSecretTold { id, outcome, message } = told;
        let mut write = self.write().await?;
        let asked = due(cluster).filter(row::Column::Id.eq(id.uuid())).one(&write.tx).await;
        let Some(asked) = asked.map_err(db(READING))? else { return Ok(()) };
        // All Secrets of the instance, in the order in which others lock them.
        let mut all = of_instances([asked.instance_id]).all(&write.tx).await.map_err(db(READING))?;
        let Some(at) = all.iter().position(|one| one.id == asked.id) else { return Ok(()) };
        let found = all.swap_remove(at);
        if found.cluster_id != cluster.uuid() {
            return Ok(());
        }
        let state = word(PrSecretState::parse(&found.state), STATE)?;
        let after = match (outcome, state) {
            (PrSecretOutcome::Written, PrSecretState::Due) => Some(PrSecretState::Written),
            (PrSecretOutcome::Deleted, PrSecretState::Deleting) => Some(PrSecretState::Deleted),
            (PrSecretOutcome::Waits, PrSecretState::Due | PrSecretState::Deleting) => None,
            // It was asked to do something else meanwhile.
            (
                PrSecretOutcome::Written | PrSecretOutcome::Deleted | PrSecretOutcome::Waits,
                PrSecretState::Waiting
                | PrSecretState::Due
                | PrSecretState::Written
                | PrSecretState::Forgotten
                | PrSecretState::Deleting
                | PrSecretState::Deleted,
            ) => return Ok(()),
        };
        if after == Some(PrSecretState::Written) {
            for before in all.iter().filter(|one| age(one) < age(&found)) {
                replace(&mut write, before, &found, by.at).await?;
            }
            for next in all.iter().filter(|one| age(one) > age(&found)) {
                succeed(&write.tx, next, &found).await?;
            }
        }
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(found.id),
            message: set(message.clone()),
            updated_at: set(by.at),
            ..Default::default()
        };
        if let Some(after) = after {
            row.state = set(after.as_str().to_owned());
            row.content = set(None);
            row.due_at = set(None);
        }
        row.update(&write.tx).await.map_err(db(WRITING))?;
        if after.is_some() {
            let mut line = by.clone();
            line.target.name = format!("{}/{}", found.namespace, found.name);
            write.audit(&line).await?;
        }
        write.commit().await
    }

    async fn pr_secrets_forget(&self, before: DateTime<Utc>, at: DateTime<Utc>) -> Result<u64> {
        let mut write = self.write().await?;
        let mut late = unpark_in_tx(&write.tx, at).await?;
        late.extend(late_in_tx(&write.tx).await?);
        settle(&mut write, &late, at).await?;
        let waits = row::Column::State.is_in([PrSecretState::Waiting.as_str(), PrSecretState::Due.as_str()]);
        let done = row::Entity::update_many()
            .col_expr(row::Column::State, Expr::value(PrSecretState::Forgotten.as_str()))
            .col_expr(row::Column::Message, Expr::value(EXPIRED))
            .col_expr(row::Column::Content, Expr::value(None::<Vec<u8>>))
            .col_expr(row::Column::DueAt, Expr::value(None::<DateTime<Utc>>))
            .col_expr(row::Column::UpdatedAt, Expr::value(at))
            .col_expr(row::Column::Parked, Expr::value(false))
            .filter(Condition::any().add(waits).add(row::Column::Parked.eq(true)))
            .filter(row::Column::CreatedAt.lt(before))
            .exec(&write.tx)
            .await
            .map_err(db(WRITING))?;
        write.commit().await?;
        Ok(done.rows_affected)
    }
}

/// The Secrets of an instance that are in a cluster, or that its agent has to write.
fn live(instance: uuid::Uuid) -> Select<row::Entity> {
    row::Entity::find()
        .filter(row::Column::InstanceId.eq(instance))
        .filter(row::Column::State.is_in([PrSecretState::Due.as_str(), PrSecretState::Written.as_str()]))
}

/// Locks all Secrets of instances, in one order.
fn of_instances(of: impl IntoIterator<Item = uuid::Uuid>) -> Select<row::Entity> {
    row::Entity::find()
        .filter(row::Column::InstanceId.is_in(of))
        .order_by_asc(row::Column::Id)
        .lock_exclusive()
}

/// The order of the Secrets of an instance.
fn age(row: &row::Model) -> (DateTime<Utc>, uuid::Uuid) {
    (row.created_at, row.id)
}

/// The place of a Secret.
fn place(row: &row::Model) -> (uuid::Uuid, &str, &str) {
    (row.cluster_id, row.namespace.as_str(), row.name.as_str())
}

/// An earlier Secret is in its cluster now: a pending one at the same place replaces it.
async fn succeed(tx: &impl ConnectionTrait, next: &row::Model, written: &row::Model) -> Result<()> {
    let waits = next.parked
        || [PrSecretState::Waiting.as_str(), PrSecretState::Due.as_str()].contains(&next.state.as_str());
    if !waits || place(next) != place(written) {
        return Ok(());
    }
    let row = row::ActiveModel {
        id: ActiveValue::Unchanged(next.id),
        previous_id: set(Some(written.id)),
        ..Default::default()
    };
    row.update(tx).await.map_err(db(WRITING))?;
    Ok(())
}

/// Another Secret of its instance is in its cluster now: the one before is deleted, unless it is at the same place.
async fn replace(
    write: &mut Write<'_>,
    before: &row::Model,
    by: &row::Model,
    at: DateTime<Utc>,
) -> Result<()> {
    let state = word(PrSecretState::parse(&before.state), STATE)?;
    let Some(deleting) = state.unasked() else { return Ok(()) };
    let is_taken = place(before) == place(by);
    let (after, message, due_at) = if is_taken {
        (PrSecretState::Deleted, Some(REPLACED.to_owned()), None)
    } else {
        (deleting, None, Some(at))
    };
    let row = row::ActiveModel {
        id: ActiveValue::Unchanged(before.id),
        state: set(after.as_str().to_owned()),
        message: set(message),
        content: set(None),
        due_at: set(due_at),
        updated_at: set(at),
        ..Default::default()
    };
    row.update(&write.tx).await.map_err(db(WRITING))?;
    if !is_taken {
        write.publish(cluster::data_event(ClusterId::from_uuid(before.cluster_id)), at).await?;
    }
    Ok(())
}

/// The upgrade of a Secret is merged, or needs no merge: [`settle`] has it written.
pub(crate) async fn upgraded_in_tx(tx: &impl ConnectionTrait, id: PullRequestId) -> Result<()> {
    row::Entity::update_many()
        .col_expr(row::Column::State, Expr::value(PrSecretState::Waiting.as_str()))
        .col_expr(row::Column::Parked, Expr::value(false))
        .filter(row::Column::Id.eq(id.uuid()))
        .filter(row::Column::Parked.eq(true))
        .exec(tx)
        .await
        .map_err(db(WRITING))?;
    Ok(())
}

/// An upgrade ended without a merge: deletes the values of its Secret.
pub(crate) async fn not_upgraded_in_tx(
    tx: &impl ConnectionTrait,
    id: PullRequestId,
    at: DateTime<Utc>,
) -> Result<()> {
    row::Entity::update_many()
        .col_expr(row::Column::Message, Expr::value(CLOSED))
        .col_expr(row::Column::Content, Expr::value(None::<Vec<u8>>))
        .col_expr(row::Column::UpdatedAt, Expr::value(at))
        .col_expr(row::Column::Parked, Expr::value(false))
        .filter(row::Column::Id.eq(id.uuid()))
        .filter(row::Column::Parked.eq(true))
        .exec(tx)
        .await
        .map_err(db(WRITING))?;
    Ok(())
}

/// Handles Secrets of upgrades that the previous release merged or ended; returns the instances of the merged ones.
async fn unpark_in_tx(tx: &impl ConnectionTrait, at: DateTime<Utc>) -> Result<Vec<PrInstanceId>> {
    let over: Vec<(uuid::Uuid, uuid::Uuid)> = row::Entity::find()
        .select_only()
        .columns([row::Column::Id, row::Column::InstanceId])
        .filter(row::Column::Parked.eq(true))
        .filter(Expr::cust(UNPARKED))
        .limit(MOST_LATE)
        .into_tuple()
        .all(tx)
        .await
        .map_err(db(READING))?;
    let mut merged = Vec::new();
    for (id, instance) in over {
        let id = PullRequestId::from_uuid(id);
        let made = pr_instance::row::Entity::find_by_id(instance)
            .filter(pr_instance::row::Column::PullRequestId.eq(id.uuid()))
            .count(tx)
            .await
            .map_err(db(READING))?;
        if made == 0 {
            not_upgraded_in_tx(tx, id, at).await?;
        } else {
            upgraded_in_tx(tx, id).await?;
            merged.push(PrInstanceId::from_uuid(instance));
        }
    }
    Ok(merged)
}

/// Instances whose Secrets are behind: a console of the previous release records the state of an instance, and not that of
/// its Secret.
async fn late_in_tx(tx: &impl ConnectionTrait) -> Result<Vec<PrInstanceId>> {
    let are = |states: &[PrInstanceState]| {
        let mut ids = Query::select();
        ids.column(pr_instance::row::Column::Id).from(pr_instance::row::Entity).and_where(
            pr_instance::row::Column::State.is_in(states.iter().copied().map(PrInstanceState::as_str)),
        );
        ids
    };
    let over = are(&[PrInstanceState::Active, PrInstanceState::Abandoned, PrInstanceState::Removed]);
    let waits = Condition::all()
        .add(row::Column::State.eq(PrSecretState::Waiting.as_str()))
        .add(row::Column::InstanceId.in_subquery(over));
    let stays = Condition::all()
        .add(row::Column::State.is_in([PrSecretState::Due.as_str(), PrSecretState::Written.as_str()]))
        .add(row::Column::InstanceId.in_subquery(are(&[PrInstanceState::Removed])));
    let late: Vec<(uuid::Uuid, uuid::Uuid)> = row::Entity::find()
        .select_only()
        .columns([row::Column::Id, row::Column::InstanceId])
        .filter(Condition::any().add(waits).add(stays))
        .limit(MOST_LATE)
        .into_tuple()
        .all(tx)
        .await
        .map_err(db(READING))?;
    let pulls: Vec<(uuid::Uuid, Option<JsonValue>)> = pull_request::row::Entity::find()
        .select_only()
        .columns([pull_request::row::Column::Id, pull_request::row::Column::Facts])
        .filter(pull_request::row::Column::Id.is_in(late.iter().map(|(pull, _)| *pull)))
        .into_tuple()
        .all(tx)
        .await
        .map_err(db(READING))?;
    let bases: Vec<(uuid::Uuid, String)> = pr_instance::row::Entity::find()
        .select_only()
        .columns([pr_instance::row::Column::Id, pr_instance::row::Column::Base])
        .filter(pr_instance::row::Column::Id.is_in(late.iter().map(|(_, instance)| *instance)))
        .into_tuple()
        .all(tx)
        .await
        .map_err(db(READING))?;
    let mut found = Vec::with_capacity(late.len());
    for (pull, instance) in late {
        let facts = pulls.iter().find(|(id, _)| *id == pull).and_then(|(_, facts)| facts.clone());
        let facts = facts.map(|facts| json::<PrFacts>(facts, pull_request::FACTS)).transpose()?;
        let into = facts.and_then(|facts| facts.base);
        let base = bases.iter().find(|(id, _)| *id == instance).map(|(_, base)| short(base));
        // A merge into another branch has no effect.
        if into.is_none_or(|into| base == Some(short(&into))) {
            found.push(PrInstanceId::from_uuid(instance));
        }
    }
    Ok(found)
}

/// The short name of a branch, as hosts report it.
fn short(branch: &str) -> &str {
    branch.strip_prefix("refs/heads/").unwrap_or(branch)
}

/// Records a Secret together with its pull request.
pub(crate) async fn insert_in_tx(tx: &impl ConnectionTrait, new: &NewPrSecret) -> Result<()> {
    let NewPrSecret { secret, content, upgrades, newest } = new;
    let PrSecret {
        id,
        project_id,
        instance_id,
        cluster_id,
        namespace,
        name,
        entries,
        state,
        message,
        previous,
        created_at,
        updated_at,
    } = secret;
    let created_at =
        if *upgrades { follows_in_tx(tx, *instance_id, *newest, *created_at).await? } else { *created_at };
    let state = if *upgrades { PARKED } else { state.as_str() };
    let row = row::ActiveModel {
        id: set(id.uuid()),
        project_id: set(project_id.uuid()),
        instance_id: set(instance_id.uuid()),
        cluster_id: set(cluster_id.uuid()),
        namespace: set(namespace.clone()),
        name: set(name.clone()),
        entries: set(to_json(entries, ENTRIES)?),
        state: set(state.to_owned()),
        message: set(message.clone()),
        content: set(Some(content.as_bytes().to_vec())),
        due_at: set(None::<DateTime<Utc>>),
        previous_id: set(previous.map(PullRequestId::uuid)),
        parked: set(*upgrades),
        created_at: set(created_at),
        updated_at: set(*updated_at),
    };
    row.insert(tx).await.map_err(db(WRITING))?;
    Ok(())
}

/// The request time of an upgrade's Secret: after all others of its instance, whose locks the caller holds.
async fn follows_in_tx(
    tx: &impl ConnectionTrait,
    instance: PrInstanceId,
    newest: Option<PullRequestId>,
    at: DateTime<Utc>,
) -> Result<DateTime<Utc>> {
    let all: Vec<row::Model> = row::Entity::find()
        .filter(row::Column::InstanceId.eq(instance.uuid()))
        .order_by_desc(row::Column::CreatedAt)
        .order_by_desc(row::Column::Id)
        .all(tx)
        .await
        .map_err(db(READING))?;
    follows(&all, newest, at)
}

/// A request time after all of these, which are the newest first, whatever the clocks of consoles say.
///
/// # Errors
/// [`Error::Conflict`] if the newest Secret is not the one that the caller read: its values would be lost.
fn follows(all: &[row::Model], newest: Option<PullRequestId>, at: DateTime<Utc>) -> Result<DateTime<Utc>> {
    let lives = [PrSecretState::Due.as_str(), PrSecretState::Written.as_str()];
    let found = all.iter().find(|one| lives.contains(&one.state.as_str())).map(|one| one.id);
    if found != newest.map(PullRequestId::uuid) {
        return Err(Error::conflict(
            "the Secret of the instance changed meanwhile: look at it and try again",
        ));
    }
    Ok(all.first().map_or(at, |last| at.max(last.created_at + TimeDelta::microseconds(1))))
}

/// Brings Secrets of instances in line with these. Idempotent.
pub(crate) async fn settle(write: &mut Write<'_>, of: &[PrInstanceId], at: DateTime<Utc>) -> Result<()> {
    if of.is_empty() {
        return Ok(());
    }
    let instances = pr_instance::states_in_tx(&write.tx, of).await?;
    let found = of_instances(of.iter().map(|id| id.uuid())).all(&write.tx).await.map_err(db(READING))?;
    if found.is_empty() {
        return Ok(());
    }
    let unasked = pr_instance::without_secrets_in_tx(&write.tx, of).await?;
    let written: Vec<row::Model> =
        found.iter().filter(|one| one.state == PrSecretState::Written.as_str()).cloned().collect();
    for found in found {
        let state = word(PrSecretState::parse(&found.state), STATE)?;
        let of = instances.iter().find(|(id, _)| id.uuid() == found.instance_id);
        let after = of.and_then(|(id, instance): &(PrInstanceId, PrInstanceState)| {
            state.follows(*instance).or_else(|| unasked.contains(id).then(|| state.unasked()).flatten())
        });
        let Some(after) = after else { continue };
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(found.id),
            state: set(after.as_str().to_owned()),
            message: set(None::<String>),
            updated_at: set(at),
            ..Default::default()
        };
        if after != PrSecretState::Due {
            row.content = set(None);
        }
        if after == PrSecretState::Forgotten {
            row.message = set(Some(CLOSED.to_owned()));
        }
        if after.is_due() {
            row.due_at = set(Some(at));
        }
        // An agent may have written another one since this one was asked for, and its cluster has that one now.
        let before = written.iter().filter(|one| {
            let is_of_instance = one.instance_id == found.instance_id;
            is_of_instance && place(one) == place(&found) && age(one) < age(&found)
        });
        if after == PrSecretState::Due
            && let Some(last) = before.max_by_key(|one| age(one))
        {
            row.previous_id = set(Some(last.id));
        }
        row.update(&write.tx).await.map_err(db(WRITING))?;
        if after.is_due() {
            // The agent learns of it with the other data of its cluster.
            write.publish(cluster::data_event(ClusterId::from_uuid(found.cluster_id)), at).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_follows_the_secret_that_it_looked_at() {
        let at = DateTime::<Utc>::UNIX_EPOCH;
        let one = |state: PrSecretState, created_at| row::Model {
            id: uuid::Uuid::now_v7(),
            project_id: uuid::Uuid::nil(),
            instance_id: uuid::Uuid::nil(),
            cluster_id: uuid::Uuid::nil(),
            namespace: "apps".to_owned(),
            name: "db".to_owned(),
            entries: JsonValue::Null,
            state: state.as_str().to_owned(),
            message: None,
            content: None,
            due_at: None,
            previous_id: None,
            parked: false,
            created_at,
            updated_at: at,
        };
        let ahead = at + TimeDelta::minutes(5);
        // A concurrent upgrade was faster.
        let all = [
            one(PrSecretState::Forgotten, ahead),
            one(PrSecretState::Due, at),
            one(PrSecretState::Written, at - TimeDelta::minutes(1)),
        ];
        let id = |at: usize| Some(PullRequestId::from_uuid(all[at].id));
        for stale in [id(2), id(0), None] {
            let refused = follows(&all, stale, at).unwrap_err();
            assert!(matches!(refused, Error::Conflict { .. }), "{refused:?}");
        }
        assert!(follows(&all, id(1), at).unwrap() > ahead);
        assert_eq!(
            follows(&all, id(1), ahead + TimeDelta::minutes(1)).unwrap(),
            ahead + TimeDelta::minutes(1)
        );
        assert!(follows(&all[..1], None, at).unwrap() > ahead, "nothing is there any more");
        assert_eq!(follows(&[], None, at).unwrap(), at);
    }
}
