//! Pull requests that reach stacks. The row of a stack is locked before what a pull request is to it changes.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Approve, Audited, Write};
use plural_app::job::NewJob;
use plural_app::stack_pull_request::{PullAddress, StackPullRequestStore, StackRepository};
use plural_app::stack_run::MadeRun;
use plural_core::ids::{ProjectId, RepositoryId, ScmConnectionId, StackId, StackPullRequestId, StackRunId};
use plural_core::repository::RepositoryUrl;
use plural_core::stack::Stack;
use plural_core::stack_pull_request::{ReleasedCommit, StackPullRequest};
use plural_core::stack_run::StackRun;
use plural_core::{Error, Result};
use sea_orm::sea_query::OnConflict;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QueryResult, QuerySelect};
use uuid::Uuid;

use super::made::make_in_tx;
use crate::convert::{json, to_json};
use crate::database::Database;
use crate::error::db;
use crate::stack;
use crate::transaction::set;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_pull_requests")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub stack_id: Uuid,
        pub connection_id: Uuid,
        /// In lower case.
        pub repository: String,
        pub number: i64,
        pub url: String,
        pub sha: String,
        pub pull: Json,
        pub run_id: Option<Uuid>,
        pub problem: Option<String>,
        pub released: Option<Json>,
        pub told: Option<String>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const WHAT: &str = "a pull request of a stack";

impl TryFrom<row::Model> for StackPullRequest {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            stack_id,
            // They are in `pull`.
            connection_id: _,
            repository: _,
            number: _,
            url: _,
            sha: _,
            pull,
            run_id,
            problem,
            released,
            told,
            created_at,
            updated_at,
        } = row;
        Ok(Self {
            id: StackPullRequestId::from_uuid(id),
            stack_id: StackId::from_uuid(stack_id),
            pull: json(pull, WHAT)?,
            run_id: run_id.map(StackRunId::from_uuid),
            problem,
            released: released.map(|released| json(released, WHAT)).transpose()?,
            told,
            created_at,
            updated_at,
        })
    }
}

fn row_of(seen: &StackPullRequest) -> Result<row::ActiveModel> {
    let StackPullRequest { id, stack_id, pull, run_id, problem, released: _, told, created_at, updated_at } =
        seen;
    Ok(row::ActiveModel {
        id: set(id.uuid()),
        stack_id: set(stack_id.uuid()),
        connection_id: set(pull.connection_id.uuid()),
        repository: set(pull.repository.to_lowercase()),
        number: set(pull.number.cast_signed()),
        url: set(pull.url.clone()),
        sha: set(pull.sha.clone()),
        pull: set(to_json(pull, WHAT)?),
        run_id: set(run_id.map(StackRunId::uuid)),
        problem: set(problem.clone()),
        released: set(None),
        told: set(told.clone()),
        created_at: set(*created_at),
        updated_at: set(*updated_at),
    })
}

#[async_trait]
impl StackPullRequestStore for Database {
    async fn stack_pull_requests(&self, pull: &PullAddress) -> Result<Vec<StackPullRequest>> {
        let PullAddress { connection_id, repository, number } = pull;
        let rows = row::Entity::find()
            .filter(row::Column::ConnectionId.eq(connection_id.uuid()))
            .filter(row::Column::Repository.eq(repository.to_lowercase()))
            .filter(row::Column::Number.eq(number.cast_signed()))
            .order_by_asc(row::Column::Id)
            .all(&self.reader)
            .await
            .map_err(db("reading the stacks of a pull request"))?;
        rows.into_iter().map(StackPullRequest::try_from).collect()
    }

    async fn stack_repositories(&self) -> Result<Vec<StackRepository>> {
        let doing = "listing the repositories of stacks";
        let sql = "SELECT DISTINCT s.repository_id, s.project_id, s.connection_id, r.url FROM stacks s \
            JOIN git_repositories r ON r.id = s.repository_id WHERE NOT s.paused AND s.deleted_at IS NULL";
        let rows = self.reader.query_all_raw(self.statement(sql, [])).await.map_err(db(doing))?;
        let of = |row: QueryResult| -> Result<StackRepository> {
            let url: String = row.try_get("", "url").map_err(db(doing))?;
            Ok(StackRepository {
                id: RepositoryId::from_uuid(row.try_get("", "repository_id").map_err(db(doing))?),
                project_id: ProjectId::from_uuid(row.try_get("", "project_id").map_err(db(doing))?),
                connection_id: row
                    .try_get::<Option<Uuid>>("", "connection_id")
                    .map_err(db(doing))?
                    .map(ScmConnectionId::from_uuid),
                identity: RepositoryUrl::stored(&url).identity(),
            })
        };
        rows.into_iter().map(of).collect()
    }

    async fn stack_pull_numbers(&self, connection: ScmConnectionId, repository: &str) -> Result<Vec<u64>> {
        let numbers: Vec<i64> = row::Entity::find()
            .select_only()
            .column(row::Column::Number)
            .distinct()
            .filter(row::Column::ConnectionId.eq(connection.uuid()))
            .filter(row::Column::Repository.eq(repository.to_lowercase()))
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("listing the pull requests of a repository"))?;
        Ok(numbers.into_iter().map(i64::cast_unsigned).collect())
    }

    async fn stack_pull_requests_of(&self, stack: StackId) -> Result<Vec<StackPullRequest>> {
        let rows = row::Entity::find()
            .filter(row::Column::StackId.eq(stack.uuid()))
            .order_by_asc(row::Column::Id)
            .all(&self.reader)
            .await
            .map_err(db("reading the pull requests of a stack"))?;
        rows.into_iter().map(StackPullRequest::try_from).collect()
    }

    async fn stack_pull_request_put(
        &self,
        by: Audited<'_, Stack, Write>,
        pull: &StackPullRequest,
        run: Option<&MadeRun>,
        tell: &NewJob,
    ) -> Result<Option<StackRun>> {
        let at = by.entry().at;
        let mut write = self.write().await?;
        self.check_stacks_are_known_in_tx(&write).await?;
        let stack = stack::lock_in_tx(&write, by.target().id).await?;
        if stack.deleted_at.is_some() {
            return Err(Error::conflict("the stack is being deleted: restore it first"));
        }
        // What is known through the connection that the stack names stays.
        if stack.connection_id.is_some_and(|named| named != pull.pull.connection_id.uuid()) {
            return Err(Error::conflict(
                "somebody gave the stack another connection at the same time: try again",
            ));
        }
        let made = match run {
            Some(MadeRun { run, inputs, prepare }) => {
                let change = <stack::row::ActiveModel as sea_orm::ActiveModelTrait>::default();
                let made = make_in_tx(&write, &stack, run, inputs, change).await?;
                write.enqueue(std::slice::from_ref(prepare), at).await?;
                Some(made)
            }
            None => None,
        };
        // Its id, when it was first seen, and who released what stay.
        let newer = OnConflict::columns([row::Column::StackId, row::Column::Url])
            .update_columns([
                row::Column::ConnectionId,
                row::Column::Repository,
                row::Column::Number,
                row::Column::Sha,
                row::Column::Pull,
                row::Column::RunId,
                row::Column::Problem,
                row::Column::Told,
                row::Column::UpdatedAt,
            ])
            .to_owned();
        let put =
            row::Entity::insert(row_of(pull)?).on_conflict(newer).exec_without_returning(&write.tx).await;
        put.map_err(db("writing a pull request of a stack"))?;
        write.audit(by.entry()).await?;
        write.stack_changed(stack.id, at);
        write.enqueue(std::slice::from_ref(tell), at).await?;
        write.commit().await?;
        Ok(made)
    }

    async fn stack_pull_request_forget(
        &self,
        id: StackPullRequestId,
        tell: Option<&NewJob>,
        at: DateTime<Utc>,
    ) -> Result<()> {
        let doing = "forgetting a pull request of a stack";
        let mut write = self.write().await?;
        let known = row::Entity::find_by_id(id.uuid()).one(&write.tx).await.map_err(db(doing))?;
        row::Entity::delete_by_id(id.uuid()).exec(&write.tx).await.map_err(db(doing))?;
        if let Some(known) = known {
            write.stack_changed(known.stack_id, at);
        }
        if let Some(tell) = tell {
            write.enqueue(std::slice::from_ref(tell), at).await?;
        }
        write.commit().await
    }

    async fn stack_pull_request_release(
        &self,
        by: Audited<'_, Stack, Approve>,
        id: StackPullRequestId,
        released: &ReleasedCommit,
    ) -> Result<()> {
        let write = self.write().await?;
        let stack = stack::lock_in_tx(&write, by.target().id).await?;
        let change = row::ActiveModel {
            released: set(Some(to_json(released, WHAT)?)),
            updated_at: set(by.entry().at),
            ..Default::default()
        };
        let done = row::Entity::update_many()
            .set(change)
            .filter(row::Column::Id.eq(id.uuid()))
            .filter(row::Column::StackId.eq(stack.id))
            .filter(row::Column::Sha.eq(released.sha.as_str()))
            .exec(&write.tx)
            .await
            .map_err(db("releasing a commit of a pull request"))?;
        if done.rows_affected == 0 {
            return Err(Error::conflict("the head of the pull request moved a moment ago: read it again"));
        }
        write.audit(by.entry()).await?;
        write.stack_changed(stack.id, by.entry().at);
        write.commit().await
    }

    async fn stack_pull_request_told(&self, id: StackPullRequestId, sha: &str, told: &str) -> Result<()> {
        let write = self.write().await?;
        let change = row::ActiveModel { told: set(Some(told.to_owned())), ..Default::default() };
        row::Entity::update_many()
            .set(change)
            .filter(row::Column::Id.eq(id.uuid()))
            .filter(row::Column::Sha.eq(sha))
            .exec(&write.tx)
            .await
            .map_err(db("recording what was told of a pull request"))?;
        write.commit().await
    }
}
