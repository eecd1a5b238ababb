//! Commands of stacks under a name.

use async_trait::async_trait;
use plural_app::access::{Audited, Write};
use plural_app::custom_stack_run::{CustomStackRunFilter, CustomStackRunStore};
use plural_core::access::Visibility;
use plural_core::audit::AuditEntry;
use plural_core::custom_stack_run::{CustomStackRun, CustomStackRunChange};
use plural_core::ids::{CustomStackRunId, PolicyId, ProjectId, StackId};
use plural_core::policy::PolicyNoun;
use plural_core::project::Project;
use plural_core::stack::Stack;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, LockType};
use sea_orm::{ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QuerySelect, Select};

use crate::convert::{json, parse, to_json};
use crate::database::Database;
use crate::error::{db, gone_or, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::transaction::set;
use crate::{policy, project, stack};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "custom_stack_runs")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub project_id: Uuid,
        pub stack_id: Option<Uuid>,
        pub name: String,
        pub documentation: String,
        pub commands: Json,
        pub questions: Json,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const NOUN: &str = "custom stack run";
const COMMANDS: &str = "the commands of a custom stack run";
const QUESTIONS: &str = "the questions of a custom stack run";
const UNIQUE: &[(&str, &str)] = &[(
    "custom_stack_runs_project_id_name_key",
    "the project has a custom stack run of this name already; choose another name",
)];

impl TryFrom<row::Model> for CustomStackRun {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            project_id,
            stack_id,
            name,
            documentation,
            commands,
            questions,
            created_at,
            updated_at,
        } = row;
        Ok(Self {
            id: CustomStackRunId::from_uuid(id),
            project_id: ProjectId::from_uuid(project_id),
            stack_id: stack_id.map(StackId::from_uuid),
            name: parse(&name, "the name of a custom stack run")?,
            documentation,
            commands: json(commands, COMMANDS)?,
            questions: json(questions, QUESTIONS)?,
            created_at,
            updated_at,
        })
    }
}

impl Table for CustomStackRun {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading custom stack runs";

    fn find(rows: Select<row::Entity>, by: &CustomStackRunId) -> Select<row::Entity> {
        rows.filter(row::Column::Id.eq(by.uuid()))
    }

    fn filter(rows: Select<row::Entity>, filter: &CustomStackRunFilter) -> Select<row::Entity> {
        let CustomStackRunFilter { project_id, usable, q } = filter;
        let mut rows = search(rows, &[row::Column::Name], q.as_deref());
        if let Some(id) = project_id {
            rows = rows.filter(row::Column::ProjectId.eq(id.uuid()));
        }
        if let Some((project, stack)) = usable {
            let own = Condition::any()
                .add(row::Column::StackId.eq(stack.uuid()))
                .add(row::Column::StackId.is_null());
            rows = rows.filter(row::Column::ProjectId.eq(project.uuid())).filter(own);
        }
        rows
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::StackId, row::Column::ProjectId], PolicyNoun::Project)
    }

    fn guard(&self) -> Guard {
        let stack = self.stack_id.map(PolicyId::from);
        Guard::Policies(stack.into_iter().chain([self.project_id.into()]).collect())
    }
}

#[async_trait]
impl CustomStackRunStore for Database {
    async fn custom_stack_run_create(
        &self,
        by: Audited<'_, Project, Write>,
        custom: &CustomStackRun,
    ) -> Result<()> {
        self.custom_stack_run_made(by.entry(), custom).await
    }

    async fn custom_stack_run_create_of(
        &self,
        by: Audited<'_, Stack, Write>,
        custom: &CustomStackRun,
    ) -> Result<()> {
        self.custom_stack_run_made(by.entry(), custom).await
    }

    async fn custom_stack_run_update(
        &self,
        by: Audited<'_, CustomStackRun, Write>,
        change: &CustomStackRunChange,
    ) -> Result<CustomStackRun> {
        let CustomStackRunChange { name, documentation, commands, questions } = change;
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(by.target().id.uuid()),
            updated_at: set(by.entry().at),
            ..Default::default()
        };
        if let Some(name) = name {
            row.name = set(name.to_string());
        }
        if let Some(documentation) = documentation {
            row.documentation = set(documentation.clone());
        }
        if let Some(commands) = commands {
            row.commands = set(to_json(commands, COMMANDS)?);
        }
        if let Some(questions) = questions {
            row.questions = set(to_json(questions, QUESTIONS)?);
        }
        let write = self.write().await?;
        let gone = gone_or(NOUN, unique("changing a custom stack run", UNIQUE));
        let row = row.update(&write.tx).await.map_err(gone)?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn custom_stack_run_delete(&self, by: Audited<'_, CustomStackRun, Write>) -> Result<()> {
        let write = self.write().await?;
        let gone = row::Entity::delete_by_id(by.target().id.uuid()).exec(&write.tx).await;
        if gone.map_err(db("deleting a custom stack run"))?.rows_affected == 0 {
            return Err(Error::not_found(NOUN));
        }
        write.audit(by.entry()).await?;
        write.commit().await
    }
}

impl Database {
    async fn custom_stack_run_made(&self, entry: &AuditEntry, custom: &CustomStackRun) -> Result<()> {
        let CustomStackRun {
            id,
            project_id,
            stack_id,
            name,
            documentation,
            commands,
            questions,
            created_at,
            updated_at,
        } = custom;
        let write = self.write().await?;
        // What they are of must not go while they come to it.
        let known = project::row::Entity::find_by_id(project_id.uuid());
        let known = known.lock(LockType::KeyShare).one(&write.tx).await;
        known.map_err(db("reading a project"))?.ok_or(Error::not_found("project"))?;
        if let Some(stack_id) = stack_id {
            let known = stack::row::Entity::find_by_id(stack_id.uuid());
            let known = known.lock(LockType::KeyShare).one(&write.tx).await;
            known.map_err(db("reading a stack"))?.ok_or(Error::not_found("stack"))?;
        }
        let row = row::ActiveModel {
            id: set(id.uuid()),
            project_id: set(project_id.uuid()),
            stack_id: set(stack_id.map(StackId::uuid)),
            name: set(name.to_string()),
            documentation: set(documentation.clone()),
            commands: set(to_json(commands, COMMANDS)?),
            questions: set(to_json(questions, QUESTIONS)?),
            created_at: set(*created_at),
            updated_at: set(*updated_at),
        };
        row.insert(&write.tx).await.map_err(unique("making a custom stack run", UNIQUE))?;
        write.audit(entry).await?;
        write.commit().await
    }
}
