//! Definitions of stacks.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Installation, Write};
use plural_app::job::NewJob;
use plural_app::records::Search;
use plural_app::stack_definition::{StackDefinitionSelector, StackDefinitionStore};
use plural_core::access::Scope;
use plural_core::ids::{StackDefinitionId, StackId, UserId};
use plural_core::stack_definition::{NewStackDefinition, StackDefinition};
use plural_core::stack_run::StackRun;
use plural_core::stack_spec::StackSpec;
use plural_core::{Error, Result};
use sea_orm::sea_query::LockType;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect,
    Select,
};
use uuid::Uuid;

use crate::convert::{json, parse, to_json};
use crate::database::Database;
use crate::error::{db, gone_or, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::stack;
use crate::transaction::{self, set};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    /// A definition.
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_definitions")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub name: String,
        pub description: Option<String>,
        pub configuration: Json,
        pub steps: Json,
        pub delete_steps: Json,
        pub changed_by_id: Option<Uuid>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
        pub changed_as: Option<String>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] =
    &[("stack_definitions_name_key", "a definition with this name already exists; choose another name")];

const WHAT: &str = "what a definition of stacks is made of";

impl TryFrom<row::Model> for StackDefinition {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            name,
            description,
            configuration,
            steps,
            delete_steps,
            changed_by_id,
            created_at,
            updated_at,
            changed_as,
        } = row;
        Ok(Self {
            id: StackDefinitionId::from_uuid(id),
            name: parse(&name, "a definition's name")?,
            description,
            configuration: json(configuration, WHAT)?,
            steps: json(steps, WHAT)?,
            delete_steps: json(delete_steps, WHAT)?,
            changed_by: changed_by_id.map(UserId::from_uuid),
            changed_as,
            created_at,
            updated_at,
        })
    }
}

#[async_trait]
impl Table for StackDefinition {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a definition of stacks";

    fn find(rows: Select<row::Entity>, by: &StackDefinitionSelector) -> Select<row::Entity> {
        match by {
            StackDefinitionSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            StackDefinitionSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        search(rows, &[row::Column::Name], q.as_deref())
    }

    fn guard(&self) -> Guard {
        Guard::Scope(Scope::Installation)
    }
}

/// The definition of a stack does not go while a stack comes to it.
///
/// # Errors
/// [`Error::Invalid`] for one that is gone.
pub(crate) async fn hold_in_tx(write: &transaction::Write<'_>, id: StackDefinitionId) -> Result<()> {
    let known = row::Entity::find_by_id(id.uuid()).lock(LockType::KeyShare).one(&write.tx).await;
    known
        .map_err(db("reading a definition of stacks"))?
        .map(drop)
        .ok_or_else(|| Error::invalid("attributes.definitionId", "is that of no definition"))
}

/// A run of a stack, whose row is locked, was made of what the stack and its definition say now, and the definition stays so until the run
/// is there. Otherwise whoever lets the stacks follow a change could look before the run comes, and would never look again.
///
/// # Errors
/// [`Error::Conflict`] for a run that was made of what they said before.
pub(crate) async fn check_current_in_tx(
    write: &transaction::Write<'_>,
    stack: &stack::row::Model,
    run: &StackRun,
) -> Result<()> {
    let made_of = &run.snapshot.spec;
    let Some(id) = made_of.definition_id else { return Ok(()) };
    let known = row::Entity::find_by_id(id.uuid()).lock(LockType::KeyShare).one(&write.tx).await;
    let known = known.map_err(db("reading a definition of stacks"))?;
    let definition = known.map(StackDefinition::try_from).transpose()?;
    let what = "what a stack is made of";
    let spec: StackSpec = stack.spec.clone().map(|spec| json(spec, what)).transpose()?.unwrap_or_default();
    let definition = definition.filter(|_| spec.definition_id == Some(id));
    let is = definition.map(|definition| definition.laid_under(&spec)).transpose()?;
    if is.is_some_and(|is| is.made_by(run.kind, run.trigger).runs_as(made_of)) {
        return Ok(());
    }
    Err(Error::conflict("the stack, or its definition, was changed a moment ago: ask for the run again"))
}

impl Database {
    /// The stacks that name a definition, oldest first.
    async fn defined_on(
        &self,
        connection: &impl ConnectionTrait,
        id: StackDefinitionId,
    ) -> Result<Vec<StackId>> {
        let doing = "reading the stacks of a definition";
        let sql = "SELECT id FROM stacks WHERE spec ->> 'definitionId' = $1 ORDER BY id";
        let rows = connection.query_all_raw(self.statement(sql, [id.to_string().into()])).await;
        let id = |row: sea_orm::QueryResult| row.try_get::<Uuid>("", "id").map_err(db(doing));
        rows.map_err(db(doing))?.into_iter().map(|row| id(row).map(StackId::from_uuid)).collect()
    }
}

#[async_trait]
impl StackDefinitionStore for Database {
    async fn stack_definition_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: StackDefinitionId,
        new: &NewStackDefinition,
    ) -> Result<StackDefinition> {
        let NewStackDefinition { name, description, configuration, steps, delete_steps } = new;
        let at = by.entry().at;
        let write = self.write().await?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            name: set(name.to_string()),
            description: set(description.clone()),
            configuration: set(to_json(configuration, WHAT)?),
            steps: set(to_json(steps, WHAT)?),
            delete_steps: set(to_json(delete_steps, WHAT)?),
            changed_by_id: set(by.entry().user_id.map(UserId::uuid)),
            created_at: set(at),
            updated_at: set(at),
            changed_as: set(by.entry().user_id.map(|_| by.entry().actor.clone())),
        };
        let row = row.insert(&write.tx).await.map_err(unique("making a definition of stacks", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn stack_definition_update(
        &self,
        by: Audited<'_, StackDefinition, Write>,
        is: &NewStackDefinition,
        unchanged_since: Option<DateTime<Utc>>,
        follow: &NewJob,
    ) -> Result<StackDefinition> {
        let NewStackDefinition { name, description, configuration, steps, delete_steps } = is;
        let at = by.entry().at;
        let mut write = self.write().await?;
        // As it is now, and not as it was read: of two that change it at once, the second one changes what the first one made of it.
        let was = row::Entity::find_by_id(by.target().id.uuid()).lock_exclusive().one(&write.tx).await;
        let was =
            was.map_err(db("reading a definition of stacks"))?.ok_or(Error::not_found("stack definition"))?;
        // As precise as both databases are.
        let moved = |since: DateTime<Utc>| since.timestamp_micros() != was.updated_at.timestamp_micros();
        if unchanged_since.is_some_and(moved) {
            return Err(Error::conflict(
                "somebody else changed the definition since you read it: look at it and try again",
            ));
        }
        let is_same = StackDefinition::try_from(was)?.runs_as(is);
        let row = row::ActiveModel {
            id: ActiveValue::Unchanged(by.target().id.uuid()),
            name: set(name.to_string()),
            description: set(description.clone()),
            configuration: set(to_json(configuration, WHAT)?),
            steps: set(to_json(steps, WHAT)?),
            delete_steps: set(to_json(delete_steps, WHAT)?),
            changed_by_id: if is_same {
                ActiveValue::NotSet
            } else {
                set(by.entry().user_id.map(UserId::uuid))
            },
            created_at: ActiveValue::NotSet,
            updated_at: set(at),
            changed_as: if is_same {
                ActiveValue::NotSet
            } else {
                set(by.entry().user_id.map(|_| by.entry().actor.clone()))
            },
        };
        let gone = gone_or("stack definition", unique("changing a definition of stacks", UNIQUE));
        let row = row.update(&write.tx).await.map_err(gone)?;
        if !is_same {
            write.enqueue(std::slice::from_ref(follow), at).await?;
        }
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn stack_definition_delete(&self, by: Audited<'_, StackDefinition, Write>) -> Result<()> {
        let id = by.target().id;
        let write = self.write().await?;
        // Whoever names it meanwhile waits, or has named it by now.
        row::Entity::find_by_id(id.uuid())
            .lock_exclusive()
            .one(&write.tx)
            .await
            .map_err(db("reading a definition of stacks"))?
            .ok_or(Error::not_found("stack definition"))?;
        let used = self.defined_on(&write.tx, id).await?.len();
        if used > 0 {
            // Whoever asks may see all of them, and finds them by it.
            return Err(Error::conflict(format!(
                "{used} stacks name the definition: give them another one, or commands of their own, first"
            )));
        }
        row::Entity::delete_by_id(id.uuid())
            .exec(&write.tx)
            .await
            .map_err(db("deleting a definition of stacks"))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn stack_definition_stacks(&self, id: StackDefinitionId) -> Result<Vec<StackId>> {
        self.defined_on(&self.reader, id).await
    }
}
