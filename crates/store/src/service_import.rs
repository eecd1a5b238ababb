//! Imports of services: stacks whose outputs their templates read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Admin, Authorized, Read};
use plural_app::service_import::{
    ImportRequest, ImportsRequest, ServiceImportRow, ServiceImportStore, being_deleted,
};
use plural_app::stack_run::SealedOutput;
use plural_core::ids::{ServiceId, ServiceImportId, StackId};
use plural_core::service::Service;
use plural_core::service_import::ServiceImport;
use plural_core::stack::Stack;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr, LockType, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

use crate::database::Database;
use crate::error::{db, is_foreign_key};
use crate::service_life::renew_in_tx;
use crate::stack_run::output;
use crate::transaction::{self, set};
use crate::{context_import, health_change, service, stack};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "service_stack_imports")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub service_id: Uuid,
        pub stack_id: Uuid,
        /// Sensitive outputs are among what the service reads.
        pub secrets: bool,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// Rows of one statement.
const ROWS: usize = 5000;

/// Holds the stacks of these wishes, and refuses one that is gone or is being deleted.
///
/// # Assumptions
/// No row of a service is locked yet: who changes the outputs of a stack locks the services that import it afterwards. Repositories and
/// clusters may be: who changes a stack locks those first.
pub(crate) async fn hold_in_tx(
    write: &transaction::Write<'_>,
    wishes: impl Iterator<Item = &ImportsRequest>,
) -> Result<()> {
    let ids: BTreeSet<Uuid> =
        wishes.flat_map(|ImportsRequest(all)| all).map(|import| import.stack.uuid()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let wanted = ids.len();
    let rows: Vec<(String, Option<DateTime<Utc>>)> = stack::row::Entity::find()
        .select_only()
        .columns([stack::row::Column::Name, stack::row::Column::DeletedAt])
        .filter(stack::row::Column::Id.is_in(ids))
        .order_by_asc(stack::row::Column::Id)
        .lock(LockType::KeyShare)
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db("reading stacks to import"))?;
    if rows.len() < wanted {
        return Err(Error::not_found("stack"));
    }
    match rows.iter().find(|(_, deleted_at)| deleted_at.is_some()) {
        Some((name, _)) => Err(being_deleted(name)),
        None => Ok(()),
    }
}

/// Makes these all that each of these services imports. One that is so already stays as it is, and with what was judged of it.
pub(crate) async fn replace_in_tx(
    write: &transaction::Write<'_>,
    all: &[(Uuid, &ImportsRequest)],
) -> Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let doing = "changing a service's imports";
    let before = row::Entity::find()
        .filter(row::Column::ServiceId.is_in(all.iter().map(|(service, _)| *service)))
        .all(&write.tx)
        .await
        .map_err(db(doing))?;
    let mut left = wanted(all);
    let (mut gone, mut widened, mut less) = (Vec::new(), Vec::new(), BTreeSet::new());
    for row in before {
        match left.remove(&(row.service_id, row.stack_id)) {
            Some(secrets) if secrets && !row.secrets => widened.push(row.id),
            Some(_) => {}
            None => {
                gone.push(row.id);
                if row.secrets {
                    less.insert(row.service_id);
                }
            }
        }
    }
    if !less.is_empty() {
        // What hides its secrets does not know of these any more.
        let of = health_change::row::Column::ServiceId.is_in(less);
        health_change::hide_reasons_on(&write.tx, of).await?;
    }
    for chunk in gone.chunks(ROWS) {
        let rows = row::Entity::delete_many().filter(row::Column::Id.is_in(chunk.iter().copied()));
        rows.exec(&write.tx).await.map_err(db(doing))?;
    }
    for chunk in widened.chunks(ROWS) {
        row::Entity::update_many()
            .col_expr(row::Column::Secrets, Expr::value(true))
            .filter(row::Column::Id.is_in(chunk.iter().copied()))
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
    }
    insert_in_tx(write, left).await
}

/// What services import that import nothing yet.
pub(crate) async fn add_in_tx(write: &transaction::Write<'_>, all: &[(Uuid, &ImportsRequest)]) -> Result<()> {
    insert_in_tx(write, wanted(all)).await
}

/// Each service with each of its stacks, and whether it reads its sensitive outputs.
fn wanted(all: &[(Uuid, &ImportsRequest)]) -> BTreeMap<(Uuid, Uuid), bool> {
    let of = |(service, ImportsRequest(imports)): &(Uuid, &ImportsRequest)| {
        let service = *service;
        let one = move |ImportRequest { stack, secrets }: &ImportRequest| ((service, stack.uuid()), *secrets);
        imports.iter().map(one).collect::<Vec<_>>()
    };
    all.iter().flat_map(of).collect()
}

async fn insert_in_tx(write: &transaction::Write<'_>, all: BTreeMap<(Uuid, Uuid), bool>) -> Result<()> {
    let rows: Vec<row::ActiveModel> = all
        .into_iter()
        .map(|((service, stack), secrets)| row::ActiveModel {
            id: set(ServiceImportId::new().uuid()),
            service_id: set(service),
            stack_id: set(stack),
            secrets: set(secrets),
        })
        .collect();
    for chunk in rows.chunks(ROWS) {
        let inserted = row::Entity::insert_many(chunk.to_vec()).exec_without_returning(&write.tx).await;
        inserted.map_err(|cause| {
            if is_foreign_key(&cause) {
                Error::not_found("stack")
            } else {
                db("changing a service's imports")(cause)
            }
        })?;
    }
    Ok(())
}

/// What of the outputs of stacks is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outputs {
    /// All that a service may read.
    All,
    /// Of these, those that are sensitive: each service has them by itself, and all outputs of a stack may be 4 MiB.
    Sensitive,
}

/// The stacks that each of these services imports, with what it may read of their outputs.
pub(crate) async fn of_services_on(
    connection: &impl ConnectionTrait,
    services: &[Uuid],
    which: Outputs,
) -> Result<HashMap<Uuid, Vec<ServiceImportRow>>> {
    let doing = "reading services' imports";
    let mut imports = row::Entity::find().filter(row::Column::ServiceId.is_in(services.iter().copied()));
    if which == Outputs::Sensitive {
        imports = imports.filter(row::Column::Secrets.eq(true));
    }
    let imports = imports.order_by_asc(row::Column::StackId).all(connection).await.map_err(db(doing))?;
    if imports.is_empty() {
        return Ok(HashMap::new());
    }
    let stacks: BTreeSet<Uuid> = imports.iter().map(|import| import.stack_id).collect();
    let names: Vec<(Uuid, String)> = stack::row::Entity::find()
        .select_only()
        .columns([stack::row::Column::Id, stack::row::Column::Name])
        .filter(stack::row::Column::Id.is_in(stacks.iter().copied()))
        .into_tuple()
        .all(connection)
        .await
        .map_err(db(doing))?;
    let names: HashMap<Uuid, String> = names.into_iter().collect();
    let mut rows = output::Entity::find().filter(output::Column::StackId.is_in(stacks));
    if which == Outputs::Sensitive {
        rows = rows.filter(output::Column::Secret.eq(true));
    }
    let rows = rows.order_by_asc(output::Column::Name).all(connection).await.map_err(db(doing))?;
    let mut outputs: HashMap<Uuid, Vec<SealedOutput>> = HashMap::new();
    for row in rows {
        outputs.entry(row.stack_id).or_default().push(row.into());
    }
    let mut found: HashMap<Uuid, Vec<ServiceImportRow>> = HashMap::new();
    let mut shared: HashMap<(Uuid, bool), Arc<[SealedOutput]>> = HashMap::new();
    for row::Model { id: _, service_id, stack_id, secrets } in imports {
        let Some(name) = names.get(&stack_id).cloned() else { continue };
        let outputs = shared.entry((stack_id, secrets)).or_insert_with(|| {
            let of = outputs.get(&stack_id).into_iter().flatten();
            of.filter(|output| secrets || !output.secret).cloned().collect()
        });
        let (stack, outputs) = (StackId::from_uuid(stack_id), Arc::clone(outputs));
        found.entry(service_id).or_default().push(ServiceImportRow { stack, name, secrets, outputs });
    }
    Ok(found)
}

/// The ids of the services that import a stack.
fn importers_of(stack: Uuid) -> SelectStatement {
    let mut importers = Query::select();
    importers.column(row::Column::ServiceId).from(row::Entity).and_where(row::Column::StackId.eq(stack));
    importers
}

/// Has every service that imports a stack rendered anew, and every one that reads outputs of it by a context.
///
/// # Assumptions
/// [`crate::dependency::lock_in_tx`] was taken before any row was locked, and the row of the stack is locked: who begins to import it
/// comes before, and is found, or after, and reads what is new.
pub(crate) async fn renew_importers_in_tx(
    write: &mut transaction::Write<'_>,
    stack: Uuid,
    at: DateTime<Utc>,
) -> Result<()> {
    let readers = Condition::any()
        .add(service::row::Column::Id.in_subquery(importers_of(stack)))
        .add(service::row::Column::Id.in_subquery(context_import::readers_of(stack, false)));
    renew_in_tx(write, readers, at).await
}

/// The outputs of a stack are about to be replaced: what was told of services that read its sensitive ones may hold one, and nobody hides
/// those of before any more.
///
/// # Assumptions
/// [`renew_importers_in_tx`] has locked the services.
pub(crate) async fn hide_former_outputs_in_tx(write: &transaction::Write<'_>, stack: Uuid) -> Result<()> {
    let sensitive = output::Entity::find()
        .filter(output::Column::StackId.eq(stack))
        .filter(output::Column::Secret.eq(true))
        .count(&write.tx)
        .await
        .map_err(db("looking for sensitive outputs of a stack"))?;
    if sensitive == 0 {
        return Ok(());
    }
    let mut readers = importers_of(stack);
    readers.and_where(row::Column::Secrets.eq(true));
    let of = Condition::any()
        .add(health_change::row::Column::ServiceId.in_subquery(readers))
        .add(health_change::row::Column::ServiceId.in_subquery(context_import::readers_of(stack, true)));
    health_change::hide_reasons_on(&write.tx, of).await
}

/// Refuses to delete a stack that services import, or contexts. Its row is locked, so that nobody begins to import it meanwhile.
pub(crate) async fn check_unimported_in_tx(write: &transaction::Write<'_>, stack: StackId) -> Result<()> {
    let count = row::Entity::find()
        .filter(row::Column::StackId.eq(stack.uuid()))
        .count(&write.tx)
        .await
        .map_err(db("looking for services that import a stack"))?;
    if count > 0 {
        return Err(Error::conflict(
            "services import the stack's outputs: take the imports away there first",
        ));
    }
    context_import::check_untaken_in_tx(write, stack).await
}

/// Ends all imports of a stack that goes. Its row is locked, and what [`renew_importers_in_tx`] assumes holds.
pub(crate) async fn end_in_tx(
    write: &mut transaction::Write<'_>,
    stack: StackId,
    at: DateTime<Utc>,
) -> Result<()> {
    // Locks the services, by id, before anything of them is changed.
    renew_importers_in_tx(write, stack.uuid(), at).await?;
    hide_former_outputs_in_tx(write, stack.uuid()).await?;
    context_import::end_in_tx(write, stack).await?;
    row::Entity::delete_many()
        .filter(row::Column::StackId.eq(stack.uuid()))
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db("ending the imports of a stack"))
}

/// Refuses the upgrade of an agent that imports a stack: whoever has the stack applied would say what the agent is. The row of the
/// service is locked.
pub(crate) async fn check_imports_none_in_tx(write: &transaction::Write<'_>, service: Uuid) -> Result<()> {
    let count = row::Entity::find()
        .filter(row::Column::ServiceId.eq(service))
        .count(&write.tx)
        .await
        .map_err(db("looking for what a service imports"))?;
    if count > 0 { Err(feeds_an_agent()) } else { Ok(()) }
}

/// Why the upgrade of an agent imports nothing.
pub(crate) fn feeds_an_agent() -> Error {
    Error::conflict(
        "the upgrade of a cluster's agent cannot import outputs of stacks, which change with each apply: give it the values as \
         its configuration",
    )
}

#[async_trait]
impl ServiceImportStore for Database {
    async fn services_imports(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<ServiceImport>>> {
        let mut found: HashMap<ServiceId, Vec<ServiceImport>> = HashMap::new();
        for chunk in services.chunks(500) {
            let imports = row::Entity::find()
                .filter(row::Column::ServiceId.is_in(chunk.iter().map(|service| service.id.uuid())))
                .order_by_asc(row::Column::Id)
                .all(&self.reader)
                .await
                .map_err(db("reading services' imports"))?;
            for row::Model { id, service_id, stack_id, secrets } in imports {
                let import = ServiceImport {
                    id: ServiceImportId::from_uuid(id),
                    stack_id: StackId::from_uuid(stack_id),
                    secrets,
                };
                found.entry(ServiceId::from_uuid(service_id)).or_default().push(import);
            }
        }
        Ok(found)
    }

    async fn stack_importers(&self, stack: &Authorized<Stack, Admin>) -> Result<Vec<ServiceId>> {
        let services: Vec<Uuid> = row::Entity::find()
            .select_only()
            .column(row::Column::ServiceId)
            .filter(row::Column::StackId.eq(stack.id.uuid()))
            .order_by_asc(row::Column::ServiceId)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("reading who imports a stack"))?;
        Ok(services.into_iter().map(ServiceId::from_uuid).collect())
    }

    async fn stacks_with_secrets(&self, stacks: &[Authorized<Stack, Read>]) -> Result<HashSet<StackId>> {
        let found: Vec<Uuid> = output::Entity::find()
            .select_only()
            .column(output::Column::StackId)
            .filter(output::Column::StackId.is_in(stacks.iter().map(|stack| stack.id.uuid())))
            .filter(output::Column::Secret.eq(true))
            .distinct()
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("looking for sensitive outputs of stacks"))?;
        Ok(found.into_iter().map(StackId::from_uuid).collect())
    }
}
