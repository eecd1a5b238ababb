//! Pull requests.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, CreatePr};
use plural_app::job::NewJob;
use plural_app::pr_instance::PrSettled;
use plural_app::pull_request::{
    PendingPullRequest, PullRequestBegin, PullRequestEnd, PullRequestFilter, PullRequestStore,
};
use plural_app::pull_request_key::PrRequestKnown;
use plural_app::seal::Sealed;
use plural_core::access::Visibility;
use plural_core::idempotency_key::IdempotencyKey;
use plural_core::ids::{
    ClusterId, PrAutomationId, PrGovernanceId, ProjectId, PullRequestId, ScmConnectionId, ServiceId, StackId,
    UserId,
};
use plural_core::merge_window::PrMerging;
use plural_core::policy::PolicyNoun;
use plural_core::pr_automation::PrAutomation;
use plural_core::pr_governance::PrGoverned;
use plural_core::pull_request::{HostPullRequest, PrPhase, PrProgress, PrStatus, PrWork, PullRequest};
use plural_core::pull_request_life::{PrFacts, PrLife, PrLinks};
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, LockType};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect,
    QueryTrait, Select,
};

use crate::convert::{json, to_json, word};
use crate::database::Database;
use crate::error::{db, unique};
use crate::page::search;
use crate::pull_request_merge::{WISH, read_windows, written_windows};
use crate::records::{Guard, Table};
use crate::transaction::set;
use crate::{policy, pr_automation, pr_instance, pr_secret, pull_request_key, service};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "pull_requests")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub project_id: Uuid,
        pub connection_id: Uuid,
        pub automation_id: Option<Uuid>,
        pub creator: String,
        pub url: String,
        pub repository: String,
        pub branch: String,
        pub title: String,
        pub status: String,
        pub labels: Json,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
        pub phase: String,
        pub commit_sha: Option<String>,
        pub error: Option<String>,
        pub work: Option<Json>,
        pub asked: Option<Vec<u8>>,
        pub head_sha: Option<String>,
        pub facts: Option<Json>,
        pub service_id: Option<Uuid>,
        pub stack_id: Option<Uuid>,
        pub cluster_id: Option<Uuid>,
        pub read_at: Option<DateTimeUtc>,
        pub polled_at: Option<DateTimeUtc>,
        pub governance_id: Option<Uuid>,
        pub governance: Option<Json>,
        pub governance_state: Option<Vec<u8>>,
        pub merge_windows: Option<Json>,
        pub merge_wish: Option<Json>,
        pub merge_due_at: Option<DateTimeUtc>,
        pub merge_begun_at: Option<DateTimeUtc>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// What an address begins with that is none yet.
const PENDING: &str = "pending:";
const WORK: &str = "the work of a pull request";
pub(crate) const LABELS: &str = "the labels of a pull request";
pub(crate) const REVIEW: &str = "how a pull request stands with its governance";
pub(crate) const FACTS: &str = "what is known of a pull request";
const UNIQUE: &[(&str, &str)] =
    &[("pull_requests_connection_id_url_key", "the pull request is recorded at this moment: try again")];

impl TryFrom<row::Model> for PullRequest {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            project_id,
            connection_id,
            automation_id,
            creator,
            url,
            repository,
            branch,
            title,
            status,
            labels,
            created_at,
            updated_at,
            phase,
            commit_sha,
            error,
            work: _,
            asked: _,
            head_sha,
            facts,
            service_id,
            stack_id,
            cluster_id,
            read_at,
            polled_at: _,
            governance_id,
            governance,
            governance_state: _,
            merge_windows,
            merge_wish,
            merge_due_at,
            merge_begun_at,
        } = row;
        let review = governance.map(|review| json(review, REVIEW)).transpose()?.unwrap_or_default();
        let phase = word(PrPhase::parse(&phase), "the phase of a pull request")?;
        let url = if url.starts_with(PENDING) { String::new() } else { url };
        let status = word(PrStatus::parse(&status), "the status of a pull request")?;
        let labels = json(labels, LABELS)?;
        let facts: PrFacts = facts.map(|facts| json(facts, FACTS)).transpose()?.unwrap_or_default();
        let links = PrLinks {
            service: service_id.map(ServiceId::from_uuid),
            stack: stack_id.map(StackId::from_uuid),
            cluster: cluster_id.map(ClusterId::from_uuid),
        };
        Ok(Self {
            id: PullRequestId::from_uuid(id),
            project_id: ProjectId::from_uuid(project_id),
            connection_id: ScmConnectionId::from_uuid(connection_id),
            automation_id: automation_id.map(PrAutomationId::from_uuid),
            creator,
            told: HostPullRequest { url, repository, branch, title, status, labels },
            progress: PrProgress { phase, commit: commit_sha, error },
            life: PrLife { head: head_sha, facts, links, read_at },
            governed: governance_id
                .map(|id| PrGoverned { governance_id: PrGovernanceId::from_uuid(id), review }),
            merging: PrMerging {
                windows: read_windows(merge_windows)?,
                wish: merge_wish.map(|wish| json(wish, WISH)).transpose()?,
                due_at: merge_due_at,
                begun_at: merge_begun_at,
            },
            created_at,
            updated_at,
        })
    }
}

impl Table for PullRequest {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading pull requests";

    fn find(rows: Select<row::Entity>, by: &PullRequestId) -> Select<row::Entity> {
        rows.filter(row::Column::Id.eq(by.uuid()))
    }

    fn filter(rows: Select<row::Entity>, filter: &PullRequestFilter) -> Select<row::Entity> {
        let PullRequestFilter {
            project_id,
            status,
            service_id,
            stack_id,
            cluster_id,
            phase,
            repository,
            automation_id,
            q,
        } = filter;
        let columns = [row::Column::Title, row::Column::Repository, row::Column::Url];
        let mut rows = search(rows, &columns, q.as_deref());
        if let Some(id) = project_id {
            rows = rows.filter(row::Column::ProjectId.eq(id.uuid()));
        }
        if let Some(id) = service_id {
            rows = rows.filter(row::Column::ServiceId.eq(id.uuid()));
        }
        if let Some(id) = stack_id {
            rows = rows.filter(row::Column::StackId.eq(id.uuid()));
        }
        if let Some(id) = cluster_id {
            let on_it = service::row::Entity::find()
                .select_only()
                .column(service::row::Column::Id)
                .filter(service::row::Column::ClusterId.eq(id.uuid()))
                .into_query();
            let about_it = Condition::any()
                .add(row::Column::ClusterId.eq(id.uuid()))
                .add(row::Column::ServiceId.in_subquery(on_it));
            rows = rows.filter(about_it);
        }
        if let Some(status) = status {
            rows = rows
                .filter(row::Column::Phase.eq(PrPhase::Opened.as_str()))
                .filter(row::Column::Status.eq(status.as_str()));
        }
        if let Some(phase) = phase {
            rows = rows.filter(row::Column::Phase.eq(phase.as_str()));
        }
        if let Some(repository) = repository {
            rows = rows.filter(row::Column::Repository.eq(repository.as_str()));
        }
        if let Some(id) = automation_id {
            rows = rows.filter(row::Column::AutomationId.eq(id.uuid()));
        }
        rows
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::ProjectId], PolicyNoun::Project)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.project_id.into()])
    }
}

/// The row of a new pull request, without what was read of it, who confirms it, and when it may be merged.
pub(crate) fn row_of(new: &PullRequest) -> Result<row::ActiveModel> {
    let PullRequest {
        id,
        project_id,
        connection_id,
        automation_id,
        creator,
        told,
        progress: PrProgress { phase, commit, error },
        life: _,
        governed: _,
        merging: _,
        created_at,
        updated_at,
    } = new;
    let HostPullRequest { url, repository, branch, title, status, labels } = told;
    Ok(row::ActiveModel {
        id: set(id.uuid()),
        project_id: set(project_id.uuid()),
        connection_id: set(connection_id.uuid()),
        automation_id: set(automation_id.map(PrAutomationId::uuid)),
        creator: set(creator.clone()),
        url: set(url.clone()),
        repository: set(repository.clone()),
        branch: set(branch.clone()),
        title: set(title.clone()),
        status: set(status.as_str().to_owned()),
        labels: set(to_json(labels, LABELS)?),
        created_at: set(*created_at),
        updated_at: set(*updated_at),
        phase: set(phase.as_str().to_owned()),
        commit_sha: set(commit.clone()),
        error: set(error.clone()),
        ..Default::default()
    })
}

#[async_trait]
impl PullRequestStore for Database {
    async fn pull_request_record(
        &self,
        by: Audited<'_, PrAutomation, CreatePr>,
        opened: &PullRequest,
    ) -> Result<PullRequest> {
        let PullRequest {
            id,
            project_id,
            connection_id,
            automation_id,
            creator,
            told,
            created_at,
            updated_at,
            progress: _,
            life: _,
            governed,
            merging,
        } = opened;
        let governance = governed.as_ref().map(|governed| governed.governance_id.uuid());
        let HostPullRequest { url, repository, branch, title, status, labels } = told;
        let mut write = self.write().await?;
        hold_automation_in_tx(&write.tx, by.target().id, *connection_id).await?;
        let known = row::Entity::find()
            .filter(row::Column::ConnectionId.eq(connection_id.uuid()))
            .filter(row::Column::Url.eq(url.as_str()))
            .lock_exclusive()
            .one(&write.tx)
            .await
            .map_err(db("reading a pull request"))?;
        // A connection of the whole installation has those of many projects: none of them writes, or is told, what another one's is.
        if known.as_ref().is_some_and(|known| known.project_id != project_id.uuid()) {
            return Err(Error::conflict("the pull request is recorded in another project"));
        }
        let mut row = row::ActiveModel {
            repository: set(repository.clone()),
            branch: set(branch.clone()),
            title: set(title.clone()),
            status: set(status.as_str().to_owned()),
            labels: set(to_json(labels, LABELS)?),
            updated_at: set(*updated_at),
            ..Default::default()
        };
        let settled = PrSettled { status: *status, commit: None, base: None };
        let doing = "recording a pull request";
        let mut entry = by.entry().clone();
        let row = if let Some(known) = known {
            // The id that it was to have is nobody's.
            entry.target.id = Some(known.id);
            // One that has none by now gets that of the automation; none is taken off or replaced.
            if known.governance_id.is_none() {
                row.governance_id = set(governance);
            }
            row.id = ActiveValue::Unchanged(known.id);
            row.update(&write.tx).await.map_err(unique(doing, UNIQUE))?
        } else {
            row.id = set(id.uuid());
            row.project_id = set(project_id.uuid());
            row.connection_id = set(connection_id.uuid());
            row.automation_id = set(automation_id.map(PrAutomationId::uuid));
            row.creator = set(creator.clone());
            row.url = set(url.clone());
            row.governance_id = set(governance);
            row.created_at = set(*created_at);
            row.phase = set(PrPhase::Opened.as_str().to_owned());
            row.merge_windows = set(written_windows(&merging.windows)?);
            row.insert(&write.tx).await.map_err(unique(doing, UNIQUE))?
        };
        let id = PullRequestId::from_uuid(row.id);
        let of = pr_instance::ids_in_tx(&write.tx, id).await?;
        pr_instance::settle_in_tx(&write.tx, id, &settled, *updated_at).await?;
        pr_secret::settle(&mut write, &of, *updated_at).await?;
        write.audit(&entry).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn pull_request_begin(
        &self,
        by: Audited<'_, PrAutomation, CreatePr>,
        new: &PullRequestBegin<'_>,
    ) -> Result<bool> {
        let PullRequestBegin { begun, work, asked, ledger, job, key, secret } = *new;
        let PullRequest { id, governed, merging, created_at, .. } = begun;
        let mut write = self.write().await?;
        hold_version_in_tx(&write.tx, by.target()).await?;
        let row = row::ActiveModel {
            // It has no address yet.
            url: set(format!("{PENDING}{id}")),
            work: set(Some(to_json(work, WORK)?)),
            asked: set(Some(asked.as_bytes().to_vec())),
            governance_id: set(governed.as_ref().map(|governed| governed.governance_id.uuid())),
            merge_windows: set(written_windows(&merging.windows)?),
            ..row_of(begun)?
        };
        row.insert(&write.tx).await.map_err(unique("recording a pull request", UNIQUE))?;
        if let Some(key) = key
            && !pull_request_key::record_in_tx(&write.tx, begun, key).await?
        {
            return Ok(false);
        }
        pr_instance::begin_in_tx(&write.tx, ledger, *created_at).await?;
        if let Some(secret) = secret {
            pr_secret::insert_in_tx(&write.tx, secret).await?;
        }
        write.enqueue(std::slice::from_ref(job), *created_at).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(true)
    }

    async fn pull_request_of_key(
        &self,
        user: UserId,
        key: &IdempotencyKey,
        since: DateTime<Utc>,
    ) -> Result<Option<PrRequestKnown>> {
        pull_request_key::known_on(&self.reader, user, key, since).await
    }

    async fn pull_request_pending(&self, id: PullRequestId) -> Result<Option<PendingPullRequest>> {
        let found = row::Entity::find_by_id(id.uuid()).one(&self.reader).await;
        let Some(mut found) = found.map_err(db("reading a pull request"))? else { return Ok(None) };
        let (Some(work), Some(asked)) = (found.work.take(), found.asked.take()) else { return Ok(None) };
        let work = json(work, WORK)?;
        Ok(Some(PendingPullRequest { begun: found.try_into()?, work, asked: Sealed::from_bytes(asked) }))
    }

    async fn pull_request_step(
        &self,
        id: PullRequestId,
        work: &PrWork,
        error: Option<&str>,
        at: DateTime<Utc>,
    ) -> Result<()> {
        let write = self.write().await?;
        let Some(known) = pending_in_tx(&write.tx, id).await? else { return Ok(()) };
        let row = row::ActiveModel {
            id: ActiveValue::Unchanged(known.id),
            commit_sha: set(work.commit.clone()),
            work: set(Some(to_json(work, WORK)?)),
            error: set(error.map(str::to_owned)),
            updated_at: set(at),
            ..Default::default()
        };
        row.update(&write.tx).await.map_err(db("recording a step of a pull request"))?;
        write.commit().await
    }

    async fn pull_request_end(
        &self,
        id: PullRequestId,
        end: &PullRequestEnd,
        jobs: &[NewJob],
        at: DateTime<Utc>,
    ) -> Result<()> {
        let mut write = self.write().await?;
        let Some(known) = pending_in_tx(&write.tx, id).await? else { return Ok(()) };
        let work: PrWork = known.work.map(|work| json(work, WORK)).transpose()?.unwrap_or_default();
        // What was answered is not kept any longer.
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(known.id),
            work: set(None),
            asked: set(None),
            updated_at: set(at),
            ..Default::default()
        };
        match end {
            PullRequestEnd::Opened { url, title, status } => {
                row.status = set(status.as_str().to_owned());
                row.url = set(url.clone());
                row.title = set(title.clone());
                row.phase = set(PrPhase::Opened.as_str().to_owned());
                row.error = set(None);
            }
            // It has no address, and keeps what stands for one.
            PullRequestEnd::Pushed { title, base, head } => {
                let facts = PrFacts { base: Some(base.clone()), ..PrFacts::default() };
                row.title = set(title.clone());
                row.labels = set(to_json(&Vec::<String>::new(), LABELS)?);
                row.head_sha = set(Some(head.clone()));
                row.facts = set(Some(to_json(&facts, FACTS)?));
                row.phase = set(PrPhase::Opened.as_str().to_owned());
                row.error = set(None);
            }
            PullRequestEnd::Failed { error } => {
                row.phase = set(PrPhase::Failed.as_str().to_owned());
                row.error = set(Some(error.clone()));
            }
        }
        row.update(&write.tx).await.map_err(unique("recording a pull request", UNIQUE))?;
        let generated = work.generated.as_ref();
        let of = pr_instance::ids_in_tx(&write.tx, id).await?;
        match end {
            PullRequestEnd::Opened { url: _, title: _, status } => {
                pr_instance::opened_in_tx(&write.tx, id, generated, *status, at).await?;
            }
            PullRequestEnd::Pushed { title: _, base: _, head: _ } => {
                pr_instance::opened_in_tx(&write.tx, id, generated, PrStatus::Open, at).await?;
            }
            PullRequestEnd::Failed { error: _ } => {
                let unneeded = generated.filter(|_| work.unneeded);
                pr_instance::failed_in_tx(&write.tx, id, unneeded, at).await?;
            }
        }
        pr_secret::settle(&mut write, &of, at).await?;
        write.enqueue(jobs, at).await?;
        write.commit().await
    }
}

/// Its automation must not go, or come to another connection, while something is opened with it.
async fn hold_automation_in_tx(
    tx: &impl ConnectionTrait,
    id: PrAutomationId,
    connection: ScmConnectionId,
) -> Result<pr_automation::row::Model> {
    let found = pr_automation::row::Entity::find_by_id(id.uuid()).lock(LockType::KeyShare).one(tx).await;
    let found = found.map_err(db("reading an automation"))?.ok_or(Error::not_found("pr automation"))?;
    if found.connection_id != connection.uuid() {
        return Err(Error::conflict("the automation has another connection now: try again"));
    }
    Ok(found)
}

/// As [`hold_automation_in_tx`]; what is generated is of the version that was looked at.
async fn hold_version_in_tx(tx: &impl ConnectionTrait, automation: &PrAutomation) -> Result<()> {
    let found = hold_automation_in_tx(tx, automation.id, automation.links.connection_id).await?;
    let governance = automation.links.governance_id.map(PrGovernanceId::uuid);
    if found.revision != automation.revision || found.governance_id != governance {
        return Err(Error::conflict(
            "somebody changed the automation at the same time: look at it and try again",
        ));
    }
    Ok(())
}

/// The row of one that is not done.
async fn pending_in_tx(tx: &impl ConnectionTrait, id: PullRequestId) -> Result<Option<row::Model>> {
    let rows = row::Entity::find_by_id(id.uuid()).filter(row::Column::Phase.eq(PrPhase::Pending.as_str()));
    rows.lock_exclusive().one(tx).await.map_err(db("reading a pull request"))
}
