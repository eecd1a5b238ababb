//! What stacks have where they say nothing themselves: said for projects, and for the installation.

use async_trait::async_trait;
use plural_app::access::{Admin, Audited, Installation};
use plural_app::stack_settings::StackSettingsStore;
use plural_core::Result;
use plural_core::ids::ProjectId;
use plural_core::project::Project;
use plural_core::stack_settings::{JobDefaults, StackSettings};
use sea_orm::EntityTrait;
use sea_orm::sea_query::OnConflict;

use crate::convert::{json, to_json};
use crate::database::Database;
use crate::error::db;
use crate::transaction::set;

mod of_project {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "project_stack_settings")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub project_id: Uuid,
        pub settings: Json,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

mod of_installation {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "deployment_settings")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub part: String,
        pub settings: Json,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// The part of the installation's settings that is about stacks.
const STACKS: &str = "stacks";
const WHAT: &str = "the settings of stacks";

#[async_trait]
impl StackSettingsStore for Database {
    async fn project_stack_settings(&self, project: ProjectId) -> Result<StackSettings> {
        let row = of_project::Entity::find_by_id(project.uuid()).one(&self.reader).await;
        let row = row.map_err(db("reading the stack settings of a project"))?;
        row.map_or_else(|| Ok(StackSettings::default()), |row| json(row.settings, WHAT))
    }

    async fn installation_stack_settings(&self) -> Result<StackSettings> {
        let row = of_installation::Entity::find_by_id(STACKS.to_owned()).one(&self.reader).await;
        let row = row.map_err(db("reading the stack settings of the installation"))?;
        row.map_or_else(|| Ok(StackSettings::default()), |row| json(row.settings, WHAT))
    }

    async fn stack_job_defaults(&self, project: ProjectId) -> Result<JobDefaults> {
        let StackSettings { job: project } = self.project_stack_settings(project).await?;
        let StackSettings { job: installation } = self.installation_stack_settings().await?;
        Ok(JobDefaults { project, installation })
    }

    async fn project_stack_settings_set(
        &self,
        by: Audited<'_, Project, Admin>,
        settings: &StackSettings,
    ) -> Result<()> {
        let write = self.write().await?;
        let row = of_project::ActiveModel {
            project_id: set(by.target().id.uuid()),
            settings: set(to_json(settings, WHAT)?),
            updated_at: set(by.entry().at),
        };
        let newer = OnConflict::column(of_project::Column::ProjectId)
            .update_columns([of_project::Column::Settings, of_project::Column::UpdatedAt])
            .to_owned();
        let put = of_project::Entity::insert(row).on_conflict(newer).exec_without_returning(&write.tx).await;
        put.map_err(db("writing the stack settings of a project"))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn installation_stack_settings_set(
        &self,
        by: Audited<'_, Installation, Admin>,
        settings: &StackSettings,
    ) -> Result<()> {
        let write = self.write().await?;
        let row = of_installation::ActiveModel {
            part: set(STACKS.to_owned()),
            settings: set(to_json(settings, WHAT)?),
            updated_at: set(by.entry().at),
        };
        let newer = OnConflict::column(of_installation::Column::Part)
            .update_columns([of_installation::Column::Settings, of_installation::Column::UpdatedAt])
            .to_owned();
        let put =
            of_installation::Entity::insert(row).on_conflict(newer).exec_without_returning(&write.tx).await;
        put.map_err(db("writing the stack settings of the installation"))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }
}
