//! New runs. The row of the stack is locked first: what it says of its deletion holds until the run is there.

use plural_app::stack::Dependents;
use plural_app::stack_run::{MadeRun, SealedInputs};
use plural_core::audit::AuditEntry;
use plural_core::ids::StackId;
use plural_core::stack_run::{RunKind, StackRun};
use plural_core::{Error, Result};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};

use super::moves::stack_follows_in_tx;
use super::row::{inputs, row_of, run};
use crate::database::Database;
use crate::error::{db, gone_or};
use crate::transaction::{self, set};
use crate::{service_import, stack, stack_definition, stack_dependency};

/// The number of a run that is to destroy a stack whose row is locked.
async fn destroying_in_tx(write: &transaction::Write<'_>, stack: StackId) -> Result<Option<i64>> {
    run::Entity::find()
        .select_only()
        .column(run::Column::Number)
        .filter(run::Column::StackId.eq(stack.uuid()))
        .filter(run::Column::FinishedAt.is_null())
        .filter(run::Column::Kind.eq(RunKind::Destroy.as_str()))
        .order_by_asc(run::Column::Number)
        .limit(1)
        .into_tuple()
        .one(&write.tx)
        .await
        .map_err(db("looking for a run that destroys a stack"))
}

/// Writes a run of a stack whose row is locked, and what changes of that.
///
/// # Errors
/// [`Error::Conflict`] for a run of a definition that was changed since it was made.
pub(super) async fn make_in_tx(
    write: &transaction::Write<'_>,
    stack: &stack::row::Model,
    run: &StackRun,
    sealed: &SealedInputs,
    change: stack::row::ActiveModel,
) -> Result<StackRun> {
    stack_definition::check_current_in_tx(write, stack, run).await?;
    let made = StackRun {
        stack_id: StackId::from_uuid(stack.id),
        number: (stack.runs + 1).cast_unsigned(),
        sequence: 1,
        ..run.clone()
    };
    let doing = "making a run";
    run::Entity::insert(row_of(&made)?).exec_without_returning(&write.tx).await.map_err(db(doing))?;
    let SealedInputs { environment, files, taken } = sealed;
    if environment.is_some() || files.is_some() || taken.is_some() {
        let row = inputs::ActiveModel {
            id: ActiveValue::Unchanged(made.id.uuid()),
            environment: set(environment.as_ref().map(|sealed| sealed.as_bytes().to_vec())),
            files: set(files.as_ref().map(|sealed| sealed.as_bytes().to_vec())),
            taken: set(taken.as_ref().map(|sealed| sealed.as_bytes().to_vec())),
        };
        row.update(&write.tx).await.map_err(gone_or("stack run", db(doing)))?;
    }
    let change = stack::row::ActiveModel { runs: set(stack.runs + 1), ..change };
    stack_follows_in_tx(write, stack.id, change).await?;
    write.stack_changed(stack.id, made.created_at);
    Ok(made)
}

impl Database {
    /// A new run.
    pub(super) async fn run_create(
        &self,
        stack: StackId,
        entry: &AuditEntry,
        made: &MadeRun,
    ) -> Result<StackRun> {
        let MadeRun { run, inputs, prepare } = made;
        let mut write = self.write().await?;
        self.check_stacks_are_known_in_tx(&write).await?;
        let stack = stack::lock_in_tx(&write, stack).await?;
        // Whoever read the stack a moment before that: a plan that came now would take the place of its destruction.
        if stack.deleted_at.is_some() && run.kind != RunKind::Destroy {
            return Err(Error::conflict("the stack is being deleted: restore it first"));
        }
        if stack.protect && run.kind == RunKind::Destroy {
            return Err(Error::conflict("the stack is protected: set protect to false first"));
        }
        let change = <stack::row::ActiveModel as sea_orm::ActiveModelTrait>::default();
        let made = make_in_tx(&write, &stack, run, inputs, change).await?;
        write.audit(entry).await?;
        write.enqueue(std::slice::from_ref(prepare), entry.at).await?;
        write.commit().await?;
        Ok(made)
    }

    /// The run that destroys a stack, which is to be deleted from then on.
    pub(crate) async fn stack_destroyed_by(
        &self,
        id: StackId,
        (entry, line): (&AuditEntry, &AuditEntry),
        made: &MadeRun,
        dependents: Dependents,
    ) -> Result<StackRun> {
        let MadeRun { run, inputs, prepare } = made;
        let at = entry.at;
        let mut write = self.write().await?;
        self.check_stacks_are_known_in_tx(&write).await?;
        let stack = stack::lock_in_tx(&write, id).await?;
        if stack.protect {
            return Err(Error::conflict("the stack is protected: set protect to false first"));
        }
        if dependents.of(stack.deleted_at) == Dependents::Refuse {
            stack_dependency::check_unused_in_tx(&write, id).await?;
            service_import::check_unimported_in_tx(&write, id).await?;
        }
        if stack.deleted_at.is_some()
            && let Some(number) = destroying_in_tx(&write, id).await?
        {
            return Err(Error::conflict(format!("the stack is being destroyed already, by run {number}")));
        }
        let change = stack::row::ActiveModel {
            // Asked again, it is deleted since the first time.
            deleted_at: set(Some(stack.deleted_at.unwrap_or(at))),
            updated_at: set(at),
            ..Default::default()
        };
        let made = make_in_tx(&write, &stack, run, inputs, change).await?;
        write.audit(line).await?;
        write.audit(entry).await?;
        write.enqueue(std::slice::from_ref(prepare), at).await?;
        write.commit().await?;
        Ok(made)
    }

    /// A stack that was to be deleted stays.
    pub(crate) async fn stack_kept(&self, id: StackId, entry: &AuditEntry) -> Result<()> {
        let write = self.write().await?;
        let stack = stack::lock_in_tx(&write, id).await?;
        // Made since those that there were ended.
        if let Some(number) = destroying_in_tx(&write, id).await? {
            return Err(Error::conflict(format!(
                "run {number} destroys the stack: cancel it first, and see what is left"
            )));
        }
        let change = stack::row::ActiveModel {
            id: ActiveValue::Unchanged(stack.id),
            deleted_at: set(None),
            updated_at: set(entry.at),
            ..Default::default()
        };
        change.update(&write.tx).await.map_err(gone_or("stack", db("keeping a stack")))?;
        write.audit(entry).await?;
        write.stack_changed(stack.id, entry.at);
        write.commit().await
    }
}
