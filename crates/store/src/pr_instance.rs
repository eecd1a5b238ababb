//! Instances of automations: what their pull requests generated.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::pr_instance::{PrInstanceFilter, PrInstanceStore, PrLedger, PrSettled};
use plural_app::seal::Sealed;
use plural_core::access::Visibility;
use plural_core::ids::{PrAutomationId, PrInstanceId, ProjectId, PullRequestId, ScmConnectionId};
use plural_core::policy::PolicyNoun;
use plural_core::pr_automation_spec::PrAutomationSpec;
use plural_core::pr_instance::{
    PrGenerated, PrInstance, PrInstanceChange, PrInstanceChangeKind, PrInstanceFile, PrInstanceState, PrMade,
    PrParts, PrVersion,
};
use plural_core::pull_request::{PrPhase, PrStatus};
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect,
    Select,
};
use serde::{Deserialize, Serialize};

use crate::convert::{json, to_json, word};
use crate::database::Database;
use crate::error::db;
use crate::page::search;
use crate::records::{Guard, Table};
use crate::transaction::set;
use crate::{policy, pr_secret, pull_request};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "pr_instances")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub project_id: Uuid,
        pub connection_id: Uuid,
        pub automation_id: Option<Uuid>,
        pub repository: String,
        pub base: String,
        pub revision: i64,
        pub digest: String,
        pub spec: Json,
        pub answers: Json,
        pub files: Json,
        pub state: String,
        pub pull_request_id: Option<Uuid>,
        pub commit_sha: Option<String>,
        pub base_commit: Option<String>,
        pub templates_commit: Option<String>,
        pub parts: Option<Json>,
        pub clock_ms: i64,
        pub seed: Vec<u8>,
        pub change_id: Option<Uuid>,
        pub change: Option<Json>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const NOUN: &str = "pr instance";
const SPEC: &str = "the version of an instance";
const ANSWERS: &str = "the answers of an instance";
const FILES: &str = "the files of an instance";
const CHANGE: &str = "the change of an instance";
const PARTS: &str = "what an instance took from elsewhere";
const READING: &str = "reading what a pull request generated";
const WRITING: &str = "recording what a pull request generated";
/// Limit of instances of one repository whose files are compared.
const MOST: u64 = 1_000;
/// The automation has a newer version.
const NEWER: &str = "EXISTS (SELECT 1 FROM pr_automations a WHERE a.id = pr_instances.automation_id \
     AND a.revision <> pr_instances.revision AND (a.digest IS NULL OR a.digest <> pr_instances.digest))";
const NOT_NEWER: &str = "NOT EXISTS (SELECT 1 FROM pr_automations a WHERE a.id = pr_instances.automation_id \
     AND a.revision <> pr_instances.revision AND (a.digest IS NULL OR a.digest <> pr_instances.digest))";

/// A change as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredChange {
    kind: PrInstanceChangeKind,
    made: PrMade,
}

/// The parts of a version from elsewhere, as they are stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredParts {
    /// The digest of the version.
    of: String,
    parts: PrParts,
}

fn stored_parts(digest: &str, parts: Option<&PrParts>) -> Result<Option<sea_orm::JsonValue>> {
    match parts {
        Some(parts) => {
            let stored = StoredParts { of: digest.to_owned(), parts: parts.clone() };
            to_json(&stored, PARTS).map(Some)
        }
        None => Ok(None),
    }
}

impl TryFrom<row::Model> for PrInstance {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            project_id,
            connection_id,
            automation_id,
            repository,
            base,
            revision,
            digest,
            spec,
            answers,
            files,
            state,
            pull_request_id,
            commit_sha,
            base_commit,
            templates_commit,
            parts,
            clock_ms,
            seed: _,
            change_id,
            change,
            created_at,
            updated_at,
        } = row;
        let parts = match parts {
            Some(parts) => {
                let StoredParts { of, parts } = json(parts, PARTS)?;
                // The previous release writes the version without its parts.
                (of == digest).then_some(parts)
            }
            None => None,
        };
        let change = match (change_id, change) {
            (Some(id), Some(change)) => {
                let StoredChange { kind, made } = json(change, CHANGE)?;
                Some(PrInstanceChange { pull_request_id: PullRequestId::from_uuid(id), kind, made })
            }
            // The record of its pull request was pruned, so that a merge could no longer be seen.
            (None, _) | (Some(_), None) => None,
        };
        Ok(Self {
            id: PrInstanceId::from_uuid(id),
            project_id: ProjectId::from_uuid(project_id),
            connection_id: ScmConnectionId::from_uuid(connection_id),
            automation_id: automation_id.map(PrAutomationId::from_uuid),
            repository,
            base,
            made: PrMade {
                version: PrVersion {
                    revision,
                    digest,
                    spec: json(spec, SPEC)?,
                    templates: templates_commit,
                    parts,
                },
                answers: json(answers, ANSWERS)?,
                files: json(files, FILES)?,
            },
            state: word(PrInstanceState::parse(&state), "the state of an instance")?,
            pull_request_id: pull_request_id.map(PullRequestId::from_uuid),
            commit: commit_sha,
            base_commit,
            clock_ms,
            change,
            created_at,
            updated_at,
        })
    }
}

impl Table for PrInstance {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = READING;

    fn find(rows: Select<row::Entity>, by: &PrInstanceId) -> Select<row::Entity> {
        rows.filter(row::Column::Id.eq(by.uuid()))
    }

    fn filter(rows: Select<row::Entity>, filter: &PrInstanceFilter) -> Select<row::Entity> {
        let PrInstanceFilter { project_id, automation_id, state, outdated, q, pull_request_id } = filter;
        let mut rows = search(rows, &[row::Column::Repository], q.as_deref());
        if let Some(id) = project_id {
            rows = rows.filter(row::Column::ProjectId.eq(id.uuid()));
        }
        if let Some(id) = automation_id {
            rows = rows.filter(row::Column::AutomationId.eq(id.uuid()));
        }
        if let Some(state) = state {
            rows = rows.filter(row::Column::State.eq(state.as_str()));
        }
        if let Some(id) = pull_request_id {
            rows = rows.filter(is_of_pull_request(*id));
        }
        let active = PrInstanceState::Active.as_str();
        match outdated {
            None => rows,
            Some(true) => rows.filter(row::Column::State.eq(active)).filter(Expr::cust(NEWER)),
            Some(false) => {
                rows.filter(Condition::any().add(row::Column::State.ne(active)).add(Expr::cust(NOT_NEWER)))
            }
        }
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::ProjectId], PolicyNoun::Project)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.project_id.into()])
    }
}

#[async_trait]
impl PrInstanceStore for Database {
    async fn pr_instance_seed(&self, id: PrInstanceId) -> Result<Sealed> {
        let found = row::Entity::find_by_id(id.uuid()).one(&self.reader).await.map_err(db(READING))?;
        Ok(Sealed::from_bytes(found.ok_or(Error::not_found(NOUN))?.seed))
    }

    async fn pr_instance_shared(
        &self,
        id: PrInstanceId,
        connection: ScmConnectionId,
        repository: &str,
    ) -> Result<Vec<String>> {
        let gone = [PrInstanceState::Abandoned.as_str(), PrInstanceState::Removed.as_str()];
        // Each has a version as well, which may be large.
        let all: Vec<sea_orm::JsonValue> = row::Entity::find()
            .select_only()
            .column(row::Column::Files)
            .filter(row::Column::ConnectionId.eq(connection.uuid()))
            .filter(row::Column::Repository.eq(repository))
            .filter(row::Column::Id.ne(id.uuid()))
            .filter(row::Column::State.is_not_in(gone))
            .limit(MOST + 1)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db(READING))?;
        if all.len() as u64 > MOST {
            return Err(Error::conflict(format!(
                "{repository} holds more than {MOST} instances: whose a file is cannot be told"
            )));
        }
        let mut paths = Vec::new();
        for files in all {
            let files: Vec<PrInstanceFile> = json(files, FILES)?;
            paths.extend(files.into_iter().map(|file| file.path));
        }
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    async fn pr_instance_settle(
        &self,
        pull_request: PullRequestId,
        settled: &PrSettled,
        at: DateTime<Utc>,
    ) -> Result<()> {
        let mut write = self.write().await?;
        let of = ids_in_tx(&write.tx, pull_request).await?;
        settle_in_tx(&write.tx, pull_request, settled, at).await?;
        pr_secret::settle(&mut write, &of, at).await?;
        write.commit().await
    }
}

/// Records what a pull request is to generate or change, in the same transaction as the pull request.
pub(crate) async fn begin_in_tx(
    tx: &impl ConnectionTrait,
    ledger: &PrLedger,
    at: DateTime<Utc>,
) -> Result<()> {
    match ledger {
        PrLedger::New { instance, seed } => insert_in_tx(tx, instance, seed).await,
        PrLedger::Change { id, from, change } => {
            let found = row::Entity::find_by_id(id.uuid()).lock_exclusive().one(tx).await;
            let found = found.map_err(db(READING))?.ok_or(Error::not_found(NOUN))?;
            if found.state != PrInstanceState::Active.as_str() || found.digest != *from {
                return Err(Error::conflict("the instance changed meanwhile: look at it and try again"));
            }
            if let Some(other) = found.change_id {
                refuse_open_in_tx(tx, other).await?;
                // When it is reopened, it changes nothing any more.
                pr_secret::not_upgraded_in_tx(tx, PullRequestId::from_uuid(other), at).await?;
            }
            let PrInstanceChange { pull_request_id, kind, made } = &**change;
            let stored = StoredChange { kind: *kind, made: made.clone() };
            let row = row::ActiveModel {
                id: ActiveValue::Unchanged(found.id),
                change_id: set(Some(pull_request_id.uuid())),
                change: set(Some(to_json(&stored, CHANGE)?)),
                updated_at: set(at),
                ..Default::default()
            };
            row.update(tx).await.map_err(db(WRITING))?;
            Ok(())
        }
    }
}

/// At most one pull request changes an instance at a time.
async fn refuse_open_in_tx(tx: &impl ConnectionTrait, id: uuid::Uuid) -> Result<()> {
    let found = pull_request::row::Entity::find_by_id(id).one(tx).await.map_err(db(READING))?;
    let Some(found) = found else { return Ok(()) };
    let is_pending = found.phase == PrPhase::Pending.as_str();
    let is_open = found.phase == PrPhase::Opened.as_str() && found.status == PrStatus::Open.as_str();
    if is_pending {
        return Err(Error::conflict("a pull request for the instance is being opened already"));
    }
    if is_open {
        return Err(Error::conflict(format!(
            "a pull request for the instance is open already: {}. Merge it, or close it",
            found.url
        )));
    }
    Ok(())
}

async fn insert_in_tx(tx: &impl ConnectionTrait, instance: &PrInstance, seed: &Sealed) -> Result<()> {
    let PrInstance {
        id,
        project_id,
        connection_id,
        automation_id,
        repository,
        base,
        made: PrMade { version: PrVersion { revision, digest, spec, templates, parts }, answers, files },
        state,
        pull_request_id,
        commit,
        base_commit,
        clock_ms,
        // A new instance has no pending change.
        change: _,
        created_at,
        updated_at,
    } = instance;
    let row = row::ActiveModel {
        id: set(id.uuid()),
        project_id: set(project_id.uuid()),
        connection_id: set(connection_id.uuid()),
        automation_id: set(automation_id.map(PrAutomationId::uuid)),
        repository: set(repository.clone()),
        base: set(base.clone()),
        revision: set(*revision),
        digest: set(digest.clone()),
        spec: set(to_json(spec, SPEC)?),
        answers: set(to_json(answers, ANSWERS)?),
        files: set(to_json(files, FILES)?),
        state: set(state.as_str().to_owned()),
        pull_request_id: set(pull_request_id.map(PullRequestId::uuid)),
        commit_sha: set(commit.clone()),
        base_commit: set(base_commit.clone()),
        templates_commit: set(templates.clone()),
        parts: set(stored_parts(digest, parts.as_ref())?),
        clock_ms: set(*clock_ms),
        seed: set(seed.as_bytes().to_vec()),
        change_id: set(None::<uuid::Uuid>),
        change: set(None::<sea_orm::JsonValue>),
        created_at: set(*created_at),
        updated_at: set(*updated_at),
    };
    row.insert(tx).await.map_err(db(WRITING))?;
    Ok(())
}

/// Records what a pull request generates, once it is open, with its state by then.
pub(crate) async fn opened_in_tx(
    tx: &impl ConnectionTrait,
    id: PullRequestId,
    generated: Option<&PrGenerated>,
    status: PrStatus,
    at: DateTime<Utc>,
) -> Result<()> {
    if let Some(generated) = generated {
        generated_in_tx(tx, id, generated, at).await?;
    }
    settle_in_tx(tx, id, &PrSettled { status, commit: None, base: None }, at).await
}

/// Records that a pull request was not opened; if it was not needed, its changes are in place already.
pub(crate) async fn failed_in_tx(
    tx: &impl ConnectionTrait,
    id: PullRequestId,
    unneeded: Option<&PrGenerated>,
    at: DateTime<Utc>,
) -> Result<()> {
    let Some(generated) = unneeded else {
        let settled = PrSettled { status: PrStatus::Closed, commit: None, base: None };
        return settle_in_tx(tx, id, &settled, at).await;
    };
    generated_in_tx(tx, id, generated, at).await?;
    for found in of_pull_request_in_tx(tx, id).await? {
        if let (true, Some(change)) = (found.change_id == Some(id.uuid()), found.change) {
            // Its previous pull request stays recorded.
            changed(found.id, change, at)?.update(tx).await.map_err(db(WRITING))?;
            pr_secret::upgraded_in_tx(tx, id).await?;
        }
    }
    Ok(())
}

/// The instance after a change.
fn changed(id: uuid::Uuid, change: sea_orm::JsonValue, at: DateTime<Utc>) -> Result<row::ActiveModel> {
    let StoredChange { kind, made } = json(change, CHANGE)?;
    let mut row = row::ActiveModel {
        id: ActiveValue::Unchanged(id),
        change_id: set(None::<uuid::Uuid>),
        change: set(None::<sea_orm::JsonValue>),
        updated_at: set(at),
        ..Default::default()
    };
    match kind {
        PrInstanceChangeKind::Upgrade => {
            let PrMade { version, answers, files } = made;
            let PrVersion { revision, digest, spec, templates, parts } = version;
            row.parts = set(stored_parts(&digest, parts.as_ref())?);
            row.revision = set(revision);
            row.digest = set(digest);
            row.spec = set(to_json(&spec, SPEC)?);
            row.answers = set(to_json(&answers, ANSWERS)?);
            row.files = set(to_json(&files, FILES)?);
            row.templates_commit = set(templates);
        }
        PrInstanceChangeKind::Uninstall => {
            row.state = set(PrInstanceState::Removed.as_str().to_owned());
        }
    }
    Ok(row)
}

async fn generated_in_tx(
    tx: &impl ConnectionTrait,
    id: PullRequestId,
    generated: &PrGenerated,
    at: DateTime<Utc>,
) -> Result<()> {
    let PrGenerated { commit, templates, files } = generated;
    for found in of_pull_request_in_tx(tx, id).await? {
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(found.id),
            updated_at: set(at),
            ..Default::default()
        };
        match (found.change_id == Some(id.uuid()), found.change) {
            (true, Some(change)) => {
                let mut change: StoredChange = json(change, CHANGE)?;
                change.made.files.clone_from(files);
                change.made.version.templates = Some(templates.clone());
                row.change = set(Some(to_json(&change, CHANGE)?));
            }
            (true, None) => continue,
            (false, _) => {
                row.files = set(to_json(files, FILES)?);
                row.base_commit = set(Some(commit.clone()));
                row.templates_commit = set(Some(templates.clone()));
            }
        }
        row.update(tx).await.map_err(db(WRITING))?;
    }
    Ok(())
}

/// The short name of a branch, as hosts report it.
fn short(branch: &str) -> &str {
    branch.strip_prefix("refs/heads/").unwrap_or(branch)
}

/// Updates the instance to the state of a pull request, in the transaction that records that. Idempotent.
pub(crate) async fn settle_in_tx(
    tx: &impl ConnectionTrait,
    id: PullRequestId,
    settled: &PrSettled,
    at: DateTime<Utc>,
) -> Result<()> {
    let PrSettled { status: told, commit, base } = settled;
    for found in of_pull_request_in_tx(tx, id).await? {
        // A merge into another branch was not reviewed for this one.
        let is_elsewhere = base.as_deref().is_some_and(|base| short(base) != short(&found.base));
        let status = if is_elsewhere && *told == PrStatus::Merged { PrStatus::Closed } else { *told };
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(found.id),
            updated_at: set(at),
            ..Default::default()
        };
        if found.change_id == Some(id.uuid()) {
            if status == PrStatus::Closed {
                pr_secret::not_upgraded_in_tx(tx, id, at).await?;
            }
            // A closed one may be reopened, so its changes are kept until another one changes the instance.
            let (PrStatus::Merged, Some(change)) = (status, found.change) else { continue };
            row = changed(found.id, change, at)?;
            row.pull_request_id = set(Some(id.uuid()));
            row.commit_sha = set(commit.clone());
            pr_secret::upgraded_in_tx(tx, id).await?;
        } else {
            let state = word(PrInstanceState::parse(&found.state), "the state of an instance")?;
            let after = match (status, state) {
                (PrStatus::Merged, PrInstanceState::Pending | PrInstanceState::Abandoned) => {
                    row.commit_sha = set(commit.clone());
                    PrInstanceState::Active
                }
                (PrStatus::Closed, PrInstanceState::Pending) => PrInstanceState::Abandoned,
                (PrStatus::Open, PrInstanceState::Abandoned) => PrInstanceState::Pending,
                // The first report of a merge may lack its commit.
                (PrStatus::Merged, PrInstanceState::Active | PrInstanceState::Removed)
                    if found.commit_sha.is_none() && commit.is_some() =>
                {
                    row.commit_sha = set(commit.clone());
                    state
                }
                (
                    PrStatus::Open | PrStatus::Merged | PrStatus::Closed,
                    PrInstanceState::Pending
                    | PrInstanceState::Active
                    | PrInstanceState::Abandoned
                    | PrInstanceState::Removed,
                ) => continue,
            };
            row.state = set(after.as_str().to_owned());
        }
        row.update(tx).await.map_err(db(WRITING))?;
    }
    Ok(())
}

/// What a pull request generates or changes, until the change has happened.
pub(crate) async fn ids_in_tx(tx: &impl ConnectionTrait, id: PullRequestId) -> Result<Vec<PrInstanceId>> {
    let found = of_pull_request_in_tx(tx, id).await?;
    Ok(found.into_iter().map(|found| PrInstanceId::from_uuid(found.id)).collect())
}

/// The states of instances.
pub(crate) async fn states_in_tx(
    tx: &impl ConnectionTrait,
    of: &[PrInstanceId],
) -> Result<Vec<(PrInstanceId, PrInstanceState)>> {
    let found: Vec<(uuid::Uuid, String)> = row::Entity::find()
        .select_only()
        .columns([row::Column::Id, row::Column::State])
        .filter(row::Column::Id.is_in(of.iter().map(|id| id.uuid())))
        .into_tuple()
        .all(tx)
        .await
        .map_err(db(READING))?;
    let one = |(id, state): (uuid::Uuid, String)| {
        let state = word(PrInstanceState::parse(&state), "the state of an instance")?;
        Ok((PrInstanceId::from_uuid(id), state))
    };
    found.into_iter().map(one).collect()
}

/// The active instances with a version that asks for no Secret.
pub(crate) async fn without_secrets_in_tx(
    tx: &impl ConnectionTrait,
    of: &[PrInstanceId],
) -> Result<Vec<PrInstanceId>> {
    let found: Vec<(uuid::Uuid, sea_orm::JsonValue)> = row::Entity::find()
        .select_only()
        .columns([row::Column::Id, row::Column::Spec])
        .filter(row::Column::Id.is_in(of.iter().map(|id| id.uuid())))
        .filter(row::Column::State.eq(PrInstanceState::Active.as_str()))
        .into_tuple()
        .all(tx)
        .await
        .map_err(db(READING))?;
    let mut without = Vec::new();
    for (id, spec) in found {
        let spec: PrAutomationSpec = json(spec, SPEC)?;
        if spec.secrets.is_none() {
            without.push(PrInstanceId::from_uuid(id));
        }
    }
    Ok(without)
}

/// What a pull request generated or changes.
fn is_of_pull_request(id: PullRequestId) -> Condition {
    Condition::any().add(row::Column::PullRequestId.eq(id.uuid())).add(row::Column::ChangeId.eq(id.uuid()))
}

/// What it generated or changes.
async fn of_pull_request_in_tx(tx: &impl ConnectionTrait, id: PullRequestId) -> Result<Vec<row::Model>> {
    row::Entity::find().filter(is_of_pull_request(id)).lock_exclusive().all(tx).await.map_err(db(READING))
}
