//! Stacks.

use async_trait::async_trait;
use plural_app::access::{Admin, Audited, Grant, Write};
use plural_app::stack::{StackFilter, StackSelector, StackStore, forgets};
use plural_core::access::Visibility;
use plural_core::ids::{ProjectId, StackId, StateVersionId};
use plural_core::policy::PolicyNoun;
use plural_core::project::Project;
use plural_core::stack::{Stack, StackChange, StackTool};
use plural_core::stack_state::StateLock;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, LockType, Query};
use sea_orm::{ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QuerySelect, Select};

use crate::convert::{json, parse, word};
use crate::database::Database;
use crate::error::{db, gone_or, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::stack_state::{self, version};
use crate::transaction::{self, set};
use crate::{policy, project};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "stacks")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub project_id: Uuid,
        pub name: String,
        pub tool: String,
        pub protect: bool,
        pub state_lock: Option<Json>,
        /// Locks that there were.
        pub fence: i64,
        /// Versions that there were.
        pub writes: i64,
        pub current_id: Option<Uuid>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] =
    &[("stacks_name_key", "another stack has this name already; choose another name")];

/// The lock of a row.
pub(crate) fn lock_of(row: &row::Model) -> Result<Option<StateLock>> {
    row.state_lock.clone().map(|lock| json(lock, "the lock of a stack's state")).transpose()
}

impl TryFrom<row::Model> for Stack {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let lock = lock_of(&row)?;
        let row::Model {
            id,
            project_id,
            name,
            tool,
            protect,
            state_lock: _,
            fence: _,
            writes: _,
            current_id: _,
            created_at,
            updated_at,
        } = row;
        Ok(Self {
            id: StackId::from_uuid(id),
            project_id: ProjectId::from_uuid(project_id),
            name: parse(&name, "a stack's name")?,
            tool: word(StackTool::parse(&tool), "a stack's tool")?,
            protect,
            lock,
            // It is in a table of its own.
            state: None,
            created_at,
            updated_at,
        })
    }
}

#[async_trait]
impl Table for Stack {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a stack";

    fn find(rows: Select<row::Entity>, by: &StackSelector) -> Select<row::Entity> {
        match by {
            StackSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            StackSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, filter: &StackFilter) -> Select<row::Entity> {
        let StackFilter { project_id, q } = filter;
        let mut rows = search(rows, &[row::Column::Name], q.as_deref());
        if let Some(id) = project_id {
            rows = rows.filter(row::Column::ProjectId.eq(id.uuid()));
        }
        rows
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::Id, row::Column::ProjectId], PolicyNoun::Project)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.id.into(), self.project_id.into()])
    }

    /// The states that count.
    async fn complete(database: &Database, found: &mut [&mut Self]) -> Result<()> {
        if found.is_empty() {
            return Ok(());
        }
        let mut current = Query::select();
        current
            .column(row::Column::CurrentId)
            .from(row::Entity)
            .and_where(row::Column::Id.is_in(found.iter().map(|stack| stack.id.uuid())));
        let states = version::Entity::find()
            .filter(version::Column::Id.in_subquery(current))
            .all(&database.reader)
            .await
            .map_err(db("reading the states of stacks"))?;
        for state in states {
            let stack = found.iter_mut().find(|stack| stack.id.uuid() == state.stack_id);
            if let Some(stack) = stack {
                stack.state = Some(state.try_into()?);
            }
        }
        Ok(())
    }
}

/// Locks and reads a stack in a write.
pub(crate) async fn lock_in_tx(write: &transaction::Write<'_>, id: StackId) -> Result<row::Model> {
    row::Entity::find_by_id(id.uuid())
        .lock_exclusive()
        .one(&write.tx)
        .await
        .map_err(db("reading a stack"))?
        .ok_or(Error::not_found("stack"))
}

#[async_trait]
impl StackStore for Database {
    async fn stack_create(
        &self,
        by: Audited<'_, Project, Write>,
        stack: &Stack,
        grant: Option<&Grant>,
    ) -> Result<()> {
        let Stack { id, project_id, name, tool, protect, lock: _, state: _, created_at, updated_at } = stack;
        let write = self.write().await?;
        self.check_stacks_are_known_in_tx(&write).await?;
        // It must not go while something is made in it.
        let known = project::row::Entity::find_by_id(project_id.uuid());
        let known = known.lock(LockType::KeyShare).one(&write.tx).await;
        known.map_err(db("reading a project"))?.ok_or(Error::not_found("project"))?;
        policy::make_in_tx(&write, &[((*id).into(), Some((*project_id).into()))]).await?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            project_id: set(project_id.uuid()),
            name: set(name.to_string()),
            tool: set(tool.as_str().to_owned()),
            protect: set(*protect),
            state_lock: set(None),
            fence: set(0),
            writes: set(0),
            current_id: set(None),
            created_at: set(*created_at),
            updated_at: set(*updated_at),
        };
        row.insert(&write.tx).await.map_err(unique("making a stack", UNIQUE))?;
        policy::grant_in_tx(&write, grant).await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn stack_update(
        &self,
        by: Audited<'_, Stack, Write>,
        change: &StackChange,
        grant: Option<&Grant>,
    ) -> Result<()> {
        let StackChange { name, protect, bindings: _ } = change;
        let write = self.write().await?;
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(by.target().id.uuid()),
            updated_at: set(by.entry().at),
            ..Default::default()
        };
        if let Some(name) = name {
            row.name = set(name.to_string());
        }
        if let Some(protect) = protect {
            row.protect = set(*protect);
        }
        let gone = gone_or("stack", unique("changing a stack", UNIQUE));
        row.update(&write.tx).await.map_err(gone)?;
        policy::grant_in_tx(&write, grant).await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn stack_delete(
        &self,
        by: Audited<'_, Stack, Admin>,
        forget: Option<StateVersionId>,
    ) -> Result<()> {
        let id = by.target().id;
        let write = self.write().await?;
        // Before its policy, as whoever changes a stack locks the two.
        let row = lock_in_tx(&write, id).await?;
        if row.protect {
            return Err(Error::conflict("the stack is protected: set protect to false first"));
        }
        if let Some(lock) = lock_of(&row)? {
            return Err(Error::conflict(format!(
                "the stack's state is locked by {}: wait until its tool has ended, or unlock it ({}) first",
                lock.author, lock.id
            )));
        }
        if let Some(current) = stack_state::current_in_tx(&write, &row).await?
            && current.resources != Some(0)
            && forget != Some(current.id)
        {
            return Err(forgets(current.resources, current.serial, current.id));
        }
        // Its row and its states go with its policy.
        policy::forget_in_tx(&write, id).await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }
}
