//! Generations of templates, and what their texts read.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use plural_app::global_service::Generation;
use plural_app::seal::Sealed;
use plural_core::Result;
use plural_core::global_service::{GlobalServiceSpec, ServiceTemplate};
use plural_core::ids::{GlobalServiceId, ServiceContextId};
use plural_core::rollout::Rollout;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, JsonValue, QueryFilter, QuerySelect};
use uuid::Uuid;

use crate::convert::{json, to_json};
use crate::database::corrupt;
use crate::error::db;
use crate::service;
use crate::transaction::set;

pub(super) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "global_service_generations")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub global_service_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub generation: i64,
        pub template: Json,
        pub secrets: Vec<u8>,
        pub sha: Option<String>,
        pub closure_digest: Option<String>,
        pub created_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// What texts of a template read.
type Context = Option<serde_json::Map<String, JsonValue>>;

/// Where a generation's template keeps what it is expanded with.
const CONTEXT: &str = "context";

/// What a generation stores: the template, and what its texts read, so that going back to it goes back to both.
fn document(template: &ServiceTemplate, context: &Context) -> Result<JsonValue> {
    let mut document = to_json(template, "a template")?;
    if let Some(fields) = document.as_object_mut() {
        fields.insert(CONTEXT.to_owned(), to_json(context, "a global service's context")?);
    }
    Ok(document)
}

pub(super) fn of_row(row: row::Model, spec: &GlobalServiceSpec) -> Result<Generation> {
    let row::Model {
        global_service_id: _,
        generation,
        mut template,
        secrets,
        sha,
        closure_digest,
        created_at: _,
    } = row;
    let context = match template.as_object_mut().and_then(|fields| fields.remove(CONTEXT)) {
        // Earlier releases kept it on the global service only.
        None => spec.context.clone(),
        Some(context) => json(context, "a generation's context")?,
    };
    Ok(Generation {
        number: generation.cast_unsigned(),
        template: json(template, "a generation's template")?,
        secrets: Sealed::from_bytes(secrets),
        context,
        sha,
        closure_digest,
    })
}

pub(super) fn row_of(
    global: Uuid,
    number: i64,
    (template, context): (&ServiceTemplate, &Context),
    secrets: Vec<u8>,
    at: DateTime<Utc>,
) -> Result<row::ActiveModel> {
    Ok(row::ActiveModel {
        global_service_id: set(global),
        generation: set(number),
        template: set(document(template, context)?),
        secrets: set(secrets),
        sha: set(None),
        closure_digest: set(None),
        created_at: set(at),
    })
}

pub(super) async fn newest_on(
    connection: &impl ConnectionTrait,
    global: &super::row::Model,
) -> Result<row::Model> {
    let newest = row::Entity::find_by_id((global.id, global.generation)).one(connection).await;
    newest.map_err(db("reading a generation"))?.ok_or_else(|| corrupt("a global service's generation"))
}

/// The global services that have a generation, the newest or one that may be gone back to, which reads a context.
pub(crate) async fn reading_on(
    connection: &impl ConnectionTrait,
    context: ServiceContextId,
) -> Result<BTreeSet<GlobalServiceId>> {
    let template = row::Column::Template;
    let rows: Vec<(Uuid, JsonValue)> = row::Entity::find()
        .select_only()
        .columns([row::Column::GlobalServiceId, template])
        .filter(Expr::col(template).cast_as("text").like(format!("%{context}%")))
        .into_tuple()
        .all(connection)
        .await
        .map_err(db("reading which generations use a context"))?;
    let mut found = BTreeSet::new();
    for (id, template) in rows {
        let template: ServiceTemplate = json(template, "a generation's template")?;
        if template.contexts.contains(&context) {
            found.insert(GlobalServiceId::from_uuid(id));
        }
    }
    Ok(found)
}

/// Removes generations that no instance has and no rollout goes back to.
pub(super) async fn prune_on(
    connection: &impl ConnectionTrait,
    global: Uuid,
    newest: i64,
    rollout: Option<&Rollout>,
) -> Result<()> {
    let given: Vec<Option<i64>> = service::row::Entity::find()
        .select_only()
        .column(service::row::Column::OwnerGeneration)
        .distinct()
        .filter(service::row::Column::OwnerId.eq(global))
        .into_tuple()
        .all(connection)
        .await
        .map_err(db("reading the generations of instances"))?;
    let mut keep: Vec<i64> = given.into_iter().flatten().collect();
    keep.push(newest);
    if let Some(rollout) = rollout {
        keep.extend([rollout.previous.cast_signed(), rollout.generation.cast_signed()]);
    }
    keep.sort_unstable();
    keep.dedup();
    row::Entity::delete_many()
        .filter(row::Column::GlobalServiceId.eq(global))
        .filter(row::Column::Generation.is_not_in(keep))
        .exec(connection)
        .await
        .map(drop)
        .map_err(db("pruning generations"))
}
