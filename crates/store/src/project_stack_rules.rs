//! Rules of projects for the plans of their stacks.

use async_trait::async_trait;
use plural_app::access::{Admin, Audited};
use plural_app::project_stack_rules::ProjectStackRulesStore;
use plural_core::Result;
use plural_core::ids::ProjectId;
use plural_core::project::Project;
use plural_core::stack_policy_rules::RuleFile;
use sea_orm::EntityTrait;
use sea_orm::sea_query::OnConflict;

use crate::convert::{json, to_json};
use crate::database::Database;
use crate::error::db;
use crate::transaction::set;

mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "project_stack_rules")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub project_id: Uuid,
        pub rules: Json,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

#[async_trait]
impl ProjectStackRulesStore for Database {
    async fn project_stack_rules(&self, project: ProjectId) -> Result<Vec<RuleFile>> {
        let row = row::Entity::find_by_id(project.uuid()).one(&self.reader).await;
        let row = row.map_err(db("reading the rules of a project"))?;
        row.map_or_else(|| Ok(Vec::new()), |row| json(row.rules, "the rules of a project"))
    }

    async fn project_stack_rules_set(
        &self,
        by: Audited<'_, Project, Admin>,
        rules: &[RuleFile],
    ) -> Result<()> {
        let write = self.write().await?;
        let row = row::ActiveModel {
            project_id: set(by.target().id.uuid()),
            rules: set(to_json(&rules, "the rules of a project")?),
            updated_at: set(by.entry().at),
        };
        let newer = OnConflict::column(row::Column::ProjectId)
            .update_columns([row::Column::Rules, row::Column::UpdatedAt])
            .to_owned();
        let put = row::Entity::insert(row).on_conflict(newer).exec_without_returning(&write.tx).await;
        put.map_err(db("writing the rules of a project"))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }
}
