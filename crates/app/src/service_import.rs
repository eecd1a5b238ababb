//! Imports of services: stacks whose outputs their templates read.
//!
//! Whoever ties a service to a stack needs to see the stack. What a service renders, its owner can read: so outputs that the tool calls
//! sensitive are for services that were tied by somebody who may read the stack's state. Both are judged when the import is saved, by
//! whoever saves it, as with contexts. An output can become sensitive with any apply, long after that: the import keeps what was judged,
//! and an import of somebody who may not read the state never brings a sensitive output.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use plural_core::access::Action;
use plural_core::ids::{ServiceId, StackId};
use plural_core::run_call::OutputReport;
use plural_core::service::Service;
use plural_core::service_import::{MAX_IMPORTS, ServiceImport};
use plural_core::stack::Stack;
use plural_core::{Error, Result};
use serde_json::{Map, Value};

use crate::access::{Admin, Authorized, Read};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::stack_run::{SealedOutput, output_context, output_opened};

/// The stacks that a service's templates read; whoever asks may have it read them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportsRequest(pub Vec<ImportRequest>);

/// A stack to import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportRequest {
    /// The stack.
    pub stack: StackId,
    /// With its sensitive outputs: whoever asks may read its state.
    pub secrets: bool,
}

/// A stack that a service imports, as an agent's answer needs it.
#[derive(Debug, Clone)]
pub struct ServiceImportRow {
    /// The stack.
    pub stack: StackId,
    /// Its name.
    pub name: String,
    /// The service may read sensitive ones.
    pub secrets: bool,
    /// Those of its outputs that the service may read; of all services of an answer that may read the same, these are the same.
    pub outputs: Arc<[SealedOutput]>,
}

/// What templates read as `imports`: the outputs of stacks by the names of these. Those of a stack may be 4 MiB, and many services read
/// them.
pub type StackImports = BTreeMap<String, Arc<Map<String, Value>>>;

/// Outputs that were opened for one of several services, which were read together: of a stack, with sensitive ones or without.
#[derive(Default)]
pub(crate) struct OpenedImports(HashMap<(StackId, bool), Arc<Map<String, Value>>>);

/// Imports. What they are is written with the services; the store has those rendered anew that import a stack, in the transactions that
/// change its outputs or its name.
#[async_trait]
pub trait ServiceImportStore: Send + Sync + 'static {
    /// The imports of each of these services; those without are left out.
    async fn services_imports(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<ServiceImport>>>;
    /// The services that import a stack.
    async fn stack_importers(&self, stack: &Authorized<Stack, Admin>) -> Result<Vec<ServiceId>>;
    /// Which of these stacks have outputs that the tool calls sensitive.
    async fn stacks_with_secrets(&self, stacks: &[Authorized<Stack, Read>]) -> Result<HashSet<StackId>>;
}

impl App {
    /// The imports of services, as far as the caller may see the stacks.
    pub async fn services_imports(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, Vec<ServiceImport>>> {
        let services = self.authorized_many::<Service, Read>(ctx, ids).await?;
        let mut imports = self.store.services_imports(&services).await?;
        let all: HashSet<StackId> = imports.values().flatten().map(|import| import.stack_id).collect();
        if all.is_empty() {
            return Ok(imports);
        }
        let seen = self.get_many::<Stack>(ctx, &all.into_iter().collect::<Vec<_>>()).await?;
        for imports in imports.values_mut() {
            imports.retain(|import| seen.contains_key(&import.stack_id));
        }
        Ok(imports)
    }

    /// Whether the caller may have a service read these stacks, and what of them.
    pub(crate) async fn imports_usable(&self, ctx: &OpCtx, mut ids: Vec<StackId>) -> Result<ImportsRequest> {
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Ok(ImportsRequest::default());
        }
        if ids.len() > MAX_IMPORTS {
            return Err(Error::invalid("attributes.imports", format!("at most {MAX_IMPORTS} are allowed")));
        }
        let mut stacks = self.authorized_many::<Stack, Read>(ctx, &ids).await?;
        if stacks.len() < ids.len() {
            return Err(Error::not_found("stack").named_in("attributes.imports"));
        }
        stacks.sort_by_key(|stack| stack.id);
        let with_secrets = self.store.stacks_with_secrets(&stacks).await?;
        let mut all = Vec::with_capacity(stacks.len());
        for stack in stacks {
            if stack.deleted_at.is_some() {
                return Err(being_deleted(stack.name.as_str()));
            }
            let secrets = stack.held().allow(Action::ReadState);
            if !secrets && with_secrets.contains(&stack.id) {
                return Err(Error::forbidden(format!(
                    "attributes.imports: the stack {} has sensitive outputs, and whoever may change the service could read them: \
                     importing it needs the right to read the stack's state ({})",
                    stack.name,
                    Action::ReadState.as_str()
                )));
            }
            all.push(ImportRequest { stack: stack.id, secrets });
        }
        Ok(ImportsRequest(all))
    }

    /// Refuses to delete a stack that services import, or contexts.
    pub(crate) async fn check_unimported(&self, ctx: &OpCtx, stack: &Authorized<Stack, Admin>) -> Result<()> {
        let users = self.store.stack_importers(stack).await?;
        if users.is_empty() {
            return self.check_untaken(ctx, stack).await;
        }
        let seen = self.authorized_many::<Service, Read>(ctx, &users).await?;
        let mut names = self.service_names(ctx, seen.iter().map(|one| &**one)).await?;
        if seen.len() < users.len() {
            names.push(format!("{} that you may not see", users.len() - seen.len()));
        }
        Err(Error::conflict(format!(
            "services import the stack's outputs: {}; take the import away there first, or delete it with leaveDependents: they are \
             left without it",
            names.join(", ")
        )))
    }

    /// What templates read as `imports`.
    pub(crate) async fn imports_opened(
        &self,
        rows: Vec<ServiceImportRow>,
        opened: &mut OpenedImports,
    ) -> Result<StackImports> {
        let mut imports = StackImports::new();
        for ServiceImportRow { stack, name, secrets, outputs } in rows {
            if let Some(values) = opened.0.get(&(stack, secrets)) {
                imports.insert(name, Arc::clone(values));
                continue;
            }
            let mut values = Map::new();
            for output in outputs.iter() {
                values.insert(output.name.clone(), self.output_of(stack, output).await?);
            }
            let values = Arc::new(values);
            opened.0.insert((stack, secrets), Arc::clone(&values));
            imports.insert(name, values);
        }
        Ok(imports)
    }

    /// The sensitive values of an import: each text and number in them.
    pub(crate) async fn import_secrets(&self, row: &ServiceImportRow) -> Result<Vec<String>> {
        let mut values = Vec::new();
        for output in row.outputs.iter().filter(|output| output.secret) {
            texts_of(&self.output_of(row.stack, output).await?, &mut values);
        }
        Ok(values)
    }

    /// Whether a run tells other outputs than the stack has. What is as it was must have nothing rendered anew.
    pub(crate) async fn outputs_are_news(&self, stack: StackId, told: &[OutputReport]) -> Result<bool> {
        let known = self.store.stack_outputs(stack).await?;
        if known.len() != told.len() {
            return Ok(true);
        }
        let told: HashMap<&str, &OutputReport> =
            told.iter().map(|output| (output.name.as_str(), output)).collect();
        for output in known {
            let Some(same) = told.get(output.name.as_str()) else { return Ok(true) };
            if same.secret != output.secret {
                return Ok(true);
            }
            match self.output_of(stack, &output).await {
                Ok(value) if value == same.value => {}
                Ok(_) => return Ok(true),
                Err(error) => {
                    tracing::warn!(
                        stack.id = %stack, error = error.log_text(),
                        "cannot open an output of a stack: it is replaced by what the run tells"
                    );
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    pub(crate) async fn output_of(&self, stack: StackId, output: &SealedOutput) -> Result<Value> {
        let opened = self.sealer.open(&output_context(stack), &output.value).await?;
        output_opened(&output.name, &opened)
    }
}

/// All texts and numbers inside a value.
pub(crate) fn texts_of(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => found.push(number.to_string()),
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts_of(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| texts_of(field, found)),
    }
}

/// Why a stack cannot be imported any more.
pub fn being_deleted(stack: &str) -> Error {
    Error::conflict(format!(
        "the stack {stack} is being deleted: restore it first, or leave it out of the imports"
    ))
}
