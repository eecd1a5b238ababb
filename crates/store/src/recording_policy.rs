//! What administrators of projects said of shells.

use plural_core::Result;
use plural_core::ids::ProjectId;
use plural_core::recording_policy::RecordingPolicy;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ConnectionTrait, EntityTrait};

use crate::convert::{json, to_json};
use crate::error::db;
use crate::transaction::{Write, set};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "recording_policies")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub project_id: Uuid,
        pub policy: Json,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// What was said; nothing was ever said of most.
pub(crate) async fn of_project_on(
    connection: &impl ConnectionTrait,
    project: ProjectId,
) -> Result<RecordingPolicy> {
    let row = row::Entity::find_by_id(project.uuid())
        .one(connection)
        .await
        .map_err(db("reading whether shells are recorded"))?;
    row.map_or_else(|| Ok(RecordingPolicy::default()), |row| json(row.policy, "whether shells are recorded"))
}

/// Says something else.
pub(crate) async fn set_in_tx(
    write: &Write<'_>,
    project: ProjectId,
    policy: &RecordingPolicy,
    at: chrono::DateTime<chrono::Utc>,
) -> Result<()> {
    let row = row::ActiveModel {
        project_id: set(project.uuid()),
        policy: set(to_json(policy, "whether shells are recorded")?),
        updated_at: set(at),
    };
    let newer = OnConflict::column(row::Column::ProjectId)
        .update_columns([row::Column::Policy, row::Column::UpdatedAt])
        .to_owned();
    row::Entity::insert(row)
        .on_conflict(newer)
        .exec_without_returning(&write.tx)
        .await
        .map(drop)
        .map_err(db("saying whether shells are recorded"))
}
