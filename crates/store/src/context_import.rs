//! Outputs of stacks that contexts take.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use plural_app::context_import::ContextOutput;
use plural_app::service_import::being_deleted;
use plural_app::stack_run::SealedOutput;
use plural_core::ids::StackId;
use plural_core::service_context::ContextImport;
use plural_core::{Error, Result};
use sea_orm::sea_query::{LockType, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, JsonValue, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::convert::{json, to_json};
use crate::error::{db, is_foreign_key};
use crate::service_context::used;
use crate::service_import::{Outputs, feeds_an_agent};
use crate::stack;
use crate::stack_run::output;
use crate::transaction::{self, set};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "context_stack_imports")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub context_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub stack_id: Uuid,
        /// Sensitive outputs are among what the context takes.
        pub secrets: bool,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// Outputs that one statement asks for.
const AT_ONCE: usize = 400;

/// An output as the row of a context keeps it.
#[derive(Serialize, Deserialize)]
struct Kept {
    stack: Uuid,
    output: String,
    name: String,
    sensitive: bool,
}

/// What a context takes, as its row keeps it.
pub(crate) fn kept(imports: &[ContextImport]) -> Result<Option<JsonValue>> {
    if imports.is_empty() {
        return Ok(None);
    }
    let all: Vec<Kept> = imports
        .iter()
        .map(|ContextImport { stack_id, output, name, sensitive }| Kept {
            stack: stack_id.uuid(),
            output: output.clone(),
            name: name.clone(),
            sensitive: *sensitive,
        })
        .collect();
    to_json(&all, "the outputs that a context takes").map(Some)
}

/// What a context takes, from what its row keeps.
pub(crate) fn of_kept(kept: Option<JsonValue>) -> Result<Vec<ContextImport>> {
    let Some(kept) = kept else { return Ok(Vec::new()) };
    let all: Vec<Kept> = json(kept, "the outputs that a context takes")?;
    Ok(all
        .into_iter()
        .map(|Kept { stack, output, name, sensitive }| ContextImport {
            stack_id: StackId::from_uuid(stack),
            output,
            name,
            sensitive,
        })
        .collect())
}

/// Holds stacks whose outputs a context is going to take, and refuses one that is gone or is being deleted.
///
/// # Assumptions
/// As of [`crate::service_import::hold_in_tx`].
pub(crate) async fn hold_in_tx(write: &transaction::Write<'_>, imports: &[ContextImport]) -> Result<()> {
    let ids: BTreeSet<Uuid> = imports.iter().map(|import| import.stack_id.uuid()).collect();
    let wanted = ids.len();
    let rows = held_in_tx(write, ids).await?;
    if rows.len() < wanted {
        return Err(Error::not_found("stack").named_in("attributes.imports"));
    }
    match rows.into_iter().find(|(_, is_deleted)| *is_deleted) {
        Some((name, _)) => Err(being_deleted(&name)),
        None => Ok(()),
    }
}

/// Holds the stacks of contexts that services are about to use: who changes their outputs comes before, and what the services read is new,
/// or after, and finds them.
///
/// # Assumptions
/// As of [`crate::service_import::hold_in_tx`].
pub(crate) async fn hold_of_contexts_in_tx(
    write: &transaction::Write<'_>,
    contexts: impl Iterator<Item = Uuid>,
) -> Result<()> {
    let contexts: BTreeSet<Uuid> = contexts.collect();
    if contexts.is_empty() {
        return Ok(());
    }
    let stacks: Vec<Uuid> = row::Entity::find()
        .select_only()
        .column(row::Column::StackId)
        .filter(row::Column::ContextId.is_in(contexts))
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db("reading which stacks contexts take outputs of"))?;
    held_in_tx(write, stacks.into_iter().collect()).await.map(drop)
}

/// The names of these stacks, locked, and whether they are being deleted.
async fn held_in_tx(write: &transaction::Write<'_>, ids: BTreeSet<Uuid>) -> Result<Vec<(String, bool)>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<(String, Option<chrono::DateTime<chrono::Utc>>)> = stack::row::Entity::find()
        .select_only()
        .columns([stack::row::Column::Name, stack::row::Column::DeletedAt])
        .filter(stack::row::Column::Id.is_in(ids))
        .order_by_asc(stack::row::Column::Id)
        .lock(LockType::KeyShare)
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db("reading stacks whose outputs a context takes"))?;
    Ok(rows.into_iter().map(|(name, deleted_at)| (name, deleted_at.is_some())).collect())
}

/// Makes these all that a context takes.
pub(crate) async fn replace_in_tx(
    write: &transaction::Write<'_>,
    context: Uuid,
    imports: &[ContextImport],
) -> Result<()> {
    row::Entity::delete_many()
        .filter(row::Column::ContextId.eq(context))
        .exec(&write.tx)
        .await
        .map_err(db("changing which outputs a context takes"))?;
    let mut stacks: BTreeMap<Uuid, bool> = BTreeMap::new();
    for import in imports {
        *stacks.entry(import.stack_id.uuid()).or_default() |= import.sensitive;
    }
    if stacks.is_empty() {
        return Ok(());
    }
    let rows = stacks.into_iter().map(|(stack, secrets)| row::ActiveModel {
        context_id: set(context),
        stack_id: set(stack),
        secrets: set(secrets),
    });
    row::Entity::insert_many(rows).exec_without_returning(&write.tx).await.map(drop).map_err(|cause| {
        if is_foreign_key(&cause) {
            Error::not_found("stack").named_in("attributes.imports")
        } else {
            db("changing which outputs a context takes")(cause)
        }
    })
}

/// The outputs that each of these contexts takes, sealed: those that their stacks have and that they may take.
pub(crate) async fn outputs_on(
    connection: &impl ConnectionTrait,
    contexts: &HashMap<Uuid, Vec<ContextImport>>,
    which: Outputs,
) -> Result<HashMap<Uuid, Vec<ContextOutput>>> {
    let is_asked = |import: &&ContextImport| which == Outputs::All || import.sensitive;
    let all = || contexts.values().flatten().filter(is_asked);
    let wanted: BTreeSet<(Uuid, &str)> =
        all().map(|import| (import.stack_id.uuid(), import.output.as_str())).collect();
    let wanted: Vec<(Uuid, &str)> = wanted.into_iter().collect();
    let mut outputs: HashMap<(Uuid, String), SealedOutput> = HashMap::new();
    for chunk in wanted.chunks(AT_ONCE) {
        let stacks: BTreeSet<Uuid> = chunk.iter().map(|(stack, _)| *stack).collect();
        let names: BTreeSet<&str> = chunk.iter().map(|(_, name)| *name).collect();
        let mut rows = output::Entity::find()
            .filter(output::Column::StackId.is_in(stacks))
            .filter(output::Column::Name.is_in(names));
        if which == Outputs::Sensitive {
            rows = rows.filter(output::Column::Secret.eq(true));
        }
        let rows = rows.all(connection).await.map_err(db("reading the outputs that contexts take"))?;
        outputs.extend(rows.into_iter().map(|row| ((row.stack_id, row.name.clone()), row.into())));
    }
    let mut found = HashMap::new();
    for (context, imports) in contexts {
        let mut taken = Vec::new();
        for ContextImport { stack_id, output, name, sensitive } in imports.iter().filter(is_asked) {
            let Some(output) = outputs.get(&(stack_id.uuid(), output.clone())) else { continue };
            if *sensitive || !output.secret {
                taken.push(ContextOutput { stack: *stack_id, name: name.clone(), output: output.clone() });
            }
        }
        if !taken.is_empty() {
            found.insert(*context, taken);
        }
    }
    Ok(found)
}

/// The ids of the services that read outputs of a stack by a context.
pub(crate) fn readers_of(stack: Uuid, only_secrets: bool) -> SelectStatement {
    let mut contexts = Query::select();
    contexts.column(row::Column::ContextId).from(row::Entity).and_where(row::Column::StackId.eq(stack));
    if only_secrets {
        contexts.and_where(row::Column::Secrets.eq(true));
    }
    let mut readers = Query::select();
    readers
        .column(used::Column::ServiceId)
        .from(used::Entity)
        .and_where(used::Column::ContextId.in_subquery(contexts));
    readers
}

/// The ids of the contexts that take sensitive outputs.
pub(crate) fn hiding() -> SelectStatement {
    let mut contexts = Query::select();
    contexts.column(row::Column::ContextId).from(row::Entity).and_where(row::Column::Secrets.eq(true));
    contexts
}

/// Refuses to delete a stack whose outputs a context takes. Its row is locked, so that none begins to meanwhile.
pub(crate) async fn check_untaken_in_tx(write: &transaction::Write<'_>, stack: StackId) -> Result<()> {
    let count = row::Entity::find()
        .filter(row::Column::StackId.eq(stack.uuid()))
        .count(&write.tx)
        .await
        .map_err(db("looking for contexts that take outputs of a stack"))?;
    if count > 0 {
        return Err(Error::conflict("contexts take outputs of the stack: take the imports away there first"));
    }
    Ok(())
}

/// Contexts take nothing of a stack any more that goes: their documents still name it, and what they name is missing.
pub(crate) async fn end_in_tx(write: &transaction::Write<'_>, stack: StackId) -> Result<()> {
    row::Entity::delete_many()
        .filter(row::Column::StackId.eq(stack.uuid()))
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db("ending what contexts take of a stack"))
}

/// Refuses that the upgrade of an agent, one of these services, reads outputs of stacks by a context. The rows of the services are locked.
pub(crate) async fn check_fed_none_in_tx(
    write: &transaction::Write<'_>,
    services: BTreeSet<Uuid>,
) -> Result<()> {
    if services.is_empty() {
        return Ok(());
    }
    let mut contexts = Query::select();
    contexts
        .column(used::Column::ContextId)
        .from(used::Entity)
        .and_where(used::Column::ServiceId.is_in(services));
    let count = row::Entity::find()
        .filter(row::Column::ContextId.in_subquery(contexts))
        .count(&write.tx)
        .await
        .map_err(db("looking for what contexts of a service take of stacks"))?;
    if count > 0 { Err(feeds_an_agent()) } else { Ok(()) }
}

/// The contexts that take outputs of a stack.
pub(crate) async fn of_stack_on(connection: &impl ConnectionTrait, stack: StackId) -> Result<Vec<Uuid>> {
    row::Entity::find()
        .select_only()
        .column(row::Column::ContextId)
        .filter(row::Column::StackId.eq(stack.uuid()))
        .order_by_asc(row::Column::ContextId)
        .into_tuple()
        .all(connection)
        .await
        .map_err(db("reading which contexts take outputs of a stack"))
}
