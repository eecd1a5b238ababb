//! Governances of pull requests.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Home, Write};
use plural_app::job::NewJob;
use plural_app::pr_governance::{PrGovernanceRow, PrGovernanceSelector, PrGovernanceStore, PrReviewStep};
use plural_app::records::Search;
use plural_app::seal::Sealed;
use plural_core::access::Visibility;
use plural_core::ids::{PolicyId, PrGovernanceId, ProjectId, PullRequestId, ScmConnectionId};
use plural_core::policy::PolicyNoun;
use plural_core::pr_governance::{PrGovernance, PrReview};
use plural_core::pull_request::{PrPhase, PrStatus, PullRequest};
use plural_core::specs::Change;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, LockType};
use sea_orm::{ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QuerySelect, Select};

use crate::convert::{parse, to_json};
use crate::database::Database;
use crate::error::{db, is_foreign_key, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::transaction::{self, set};
use crate::{policy, project, pull_request, scm_connection};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "pr_governances")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub project_id: Option<Uuid>,
        pub connection_id: Uuid,
        pub name: String,
        pub url: String,
        pub secret: Option<Vec<u8>>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const NOUN: &str = "pr governance";
const READING: &str = "reading a governance";
const STEP: &str = "recording a step of a pull request with its governance";
const UNIQUE: &[(&str, &str)] =
    &[("pr_governances_name_key", "a governance with this name already exists; choose another")];

impl TryFrom<row::Model> for PrGovernance {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model { id, project_id, connection_id, name, url, secret, created_at, updated_at } = row;
        Ok(Self {
            id: PrGovernanceId::from_uuid(id),
            project_id: project_id.map(ProjectId::from_uuid),
            connection_id: ScmConnectionId::from_uuid(connection_id),
            name: parse(&name, "a governance's name")?,
            url,
            is_signed: secret.is_some(),
            created_at,
            updated_at,
        })
    }
}

impl Table for PrGovernance {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = READING;

    fn find(rows: Select<row::Entity>, by: &PrGovernanceSelector) -> Select<row::Entity> {
        match by {
            PrGovernanceSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            PrGovernanceSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        search(rows, &[row::Column::Name], q.as_deref())
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::ProjectId], PolicyNoun::Project)
    }

    /// Without a project, others than administrators may not even know of it.
    fn guard(&self) -> Guard {
        Guard::Policies(self.project_id.map(PolicyId::from).into_iter().collect())
    }
}

/// The connection that approves must not go meanwhile.
async fn hold_connection_in_tx(write: &transaction::Write<'_>, id: ScmConnectionId) -> Result<()> {
    let known = scm_connection::row::Entity::find_by_id(id.uuid());
    let known = known.lock(LockType::KeyShare).one(&write.tx).await;
    known.map_err(db("reading a connection"))?.ok_or(Error::not_found("scm connection"))?;
    Ok(())
}

#[async_trait]
impl PrGovernanceStore for Database {
    async fn pr_governance_create(
        &self,
        by: Audited<'_, Home, Write>,
        governance: &PrGovernance,
        secret: Option<&Sealed>,
    ) -> Result<()> {
        let PrGovernance { id, project_id, connection_id, name, url, is_signed: _, created_at, updated_at } =
            governance;
        let write = self.write().await?;
        if let Some(project_id) = project_id {
            // It must not go while something is made in it.
            let known = project::row::Entity::find_by_id(project_id.uuid());
            let known = known.lock(LockType::KeyShare).one(&write.tx).await;
            known.map_err(db("reading a project"))?.ok_or(Error::not_found("project"))?;
        }
        hold_connection_in_tx(&write, *connection_id).await?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            project_id: set(project_id.map(ProjectId::uuid)),
            connection_id: set(connection_id.uuid()),
            name: set(name.to_string()),
            url: set(url.clone()),
            secret: set(secret.map(|sealed| sealed.as_bytes().to_vec())),
            created_at: set(*created_at),
            updated_at: set(*updated_at),
        };
        row.insert(&write.tx).await.map_err(unique("making a governance", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn pr_governance_update(
        &self,
        by: Audited<'_, PrGovernance, Write>,
        after: &PrGovernance,
        secret: &Change<Sealed>,
    ) -> Result<()> {
        let PrGovernance {
            id,
            project_id: _,
            connection_id,
            name: _,
            url,
            is_signed: _,
            created_at: _,
            updated_at,
        } = after;
        let write = self.write().await?;
        hold_connection_in_tx(&write, *connection_id).await?;
        let stored = row::Entity::find_by_id(id.uuid()).lock_exclusive().one(&write.tx).await;
        let stored = stored.map_err(db(READING))?.ok_or(Error::not_found(NOUN))?;
        let found = PrGovernance::try_from(stored)?;
        let known = by.target();
        if (found.connection_id, &found.url, found.is_signed)
            != (known.connection_id, &known.url, known.is_signed)
        {
            return Err(Error::conflict(
                "the governance was changed at the same time: look at it and try again",
            ));
        }
        let row = row::ActiveModel {
            id: ActiveValue::Unchanged(id.uuid()),
            connection_id: set(connection_id.uuid()),
            url: set(url.clone()),
            secret: match secret {
                Change::Keep => ActiveValue::NotSet,
                Change::Clear => set(None),
                Change::Set(sealed) => set(Some(sealed.as_bytes().to_vec())),
            },
            updated_at: set(*updated_at),
            ..Default::default()
        };
        row.update(&write.tx).await.map_err(unique("changing a governance", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn pr_governance_delete(&self, by: Audited<'_, PrGovernance, Write>) -> Result<()> {
        use pull_request::row::{Column, Entity};
        const DOING: &str = "deleting a governance";
        let id = by.target().id.uuid();
        let write = self.write().await?;
        // Whoever opens a pull request with it waits for this.
        let stored = row::Entity::find_by_id(id).lock_exclusive().one(&write.tx).await;
        stored.map_err(db(DOING))?.ok_or(Error::not_found(NOUN))?;
        let open = Condition::all()
            .add(Column::Phase.eq(PrPhase::Opened.as_str()))
            .add(Column::Status.eq(PrStatus::Open.as_str()));
        let not_over = Condition::any().add(Column::Phase.eq(PrPhase::Pending.as_str())).add(open);
        let open = Entity::find().filter(Column::GovernanceId.eq(id)).filter(not_over).one(&write.tx).await;
        if open.map_err(db(DOING))?.is_some() {
            return Err(Error::conflict(
                "open pull requests have the governance, and would be merged without it: have them merged or closed first",
            ));
        }
        // Of those that are over and that it was not told so of yet: nobody wants it back any more.
        let forgets = pull_request::row::ActiveModel { governance_state: set(None), ..Default::default() };
        Entity::update_many()
            .set(forgets)
            .filter(Column::GovernanceId.eq(id))
            .filter(Column::GovernanceState.is_not_null())
            .exec(&write.tx)
            .await
            .map_err(db(DOING))?;
        row::Entity::delete_by_id(id).exec(&write.tx).await.map_err(|cause| {
            if is_foreign_key(&cause) {
                // Whoever asks may not know of the automations, so none is named.
                Error::conflict("automations name the governance: give them another one, or none, first")
            } else {
                db(DOING)(cause)
            }
        })?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn pr_governance_row(&self, id: PrGovernanceId) -> Result<Option<PrGovernanceRow>> {
        let found = row::Entity::find_by_id(id.uuid()).one(&self.reader).await.map_err(db(READING))?;
        let Some(found) = found else { return Ok(None) };
        let secret = found.secret.clone().map(Sealed::from_bytes);
        Ok(Some(PrGovernanceRow { governance: found.try_into()?, secret }))
    }

    async fn pull_request_review_state(&self, id: PullRequestId) -> Result<Option<Sealed>> {
        use pull_request::row::{Column, Entity};
        let found: Option<Option<Vec<u8>>> = Entity::find_by_id(id.uuid())
            .select_only()
            .column(Column::GovernanceState)
            .into_tuple()
            .one(&self.reader)
            .await
            .map_err(db("reading the state of a governance"))?;
        Ok(found.flatten().map(Sealed::from_bytes))
    }

    async fn pull_request_review_step(
        &self,
        id: PullRequestId,
        step: &PrReviewStep,
        jobs: &[NewJob],
        at: DateTime<Utc>,
    ) -> Result<bool> {
        use pull_request::row::{ActiveModel, Entity};
        let PrReviewStep { before, after, state } = step;
        let mut write = self.write().await?;
        let known = Entity::find_by_id(id.uuid()).lock_exclusive().one(&write.tx).await;
        let Some(known) = known.map_err(db(STEP))? else { return Ok(false) };
        let known = PullRequest::try_from(known)?;
        if known.governed.is_none_or(|governed| governed.review != *before) {
            return Ok(false);
        }
        let told = |review: &PrReview| (review.phase, review.refused, review.said.clone());
        let is_news = told(before) != told(after);
        let row = ActiveModel {
            id: ActiveValue::Unchanged(id.uuid()),
            governance: set(Some(to_json(after, pull_request::REVIEW)?)),
            governance_state: match state {
                Change::Keep => ActiveValue::NotSet,
                Change::Clear => set(None),
                Change::Set(sealed) => set(Some(sealed.as_bytes().to_vec())),
            },
            // That it was asked once more is no news.
            updated_at: if is_news { set(at) } else { ActiveValue::NotSet },
            ..Default::default()
        };
        row.update(&write.tx).await.map_err(db(STEP))?;
        write.enqueue(jobs, at).await?;
        write.commit().await?;
        Ok(true)
    }
}
