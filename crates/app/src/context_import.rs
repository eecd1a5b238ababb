//! Outputs of stacks that contexts take.
//!
//! Rights are judged when a context is saved, of whoever saves it, as with [imports of services](crate::service_import): to read the
//! stack, and its state for an output that is taken also where the tool calls it sensitive. Such a context counts as one with secret
//! values. Nothing takes anything back from a service, and stacks read no contexts: so there are no cycles.

use std::collections::{BTreeMap, BTreeSet};

use plural_core::access::Action;
use plural_core::ids::StackId;
use plural_core::service_context::{ContextImport, ServiceContext};
use plural_core::stack::Stack;
use plural_core::{Error, Result};
use serde_json::{Map, Value};

use crate::access::{Admin, Authorized, Read};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::service_context::ServiceContextRow;
use crate::service_import::{being_deleted, texts_of};
use crate::stack_run::SealedOutput;

/// An output of a stack that a context takes, as an agent's answer needs it.
#[derive(Debug, Clone)]
pub struct ContextOutput {
    /// The stack.
    pub stack: StackId,
    /// The name under which templates read it.
    pub name: String,
    /// The output.
    pub output: SealedOutput,
}

impl App {
    /// Refuses outputs of stacks that the caller may not have a context take.
    pub(crate) async fn check_context_imports(&self, ctx: &OpCtx, imports: &[ContextImport]) -> Result<()> {
        let mut wanted: BTreeMap<StackId, BTreeMap<&str, bool>> = BTreeMap::new();
        for ContextImport { stack_id, output, name: _, sensitive } in imports {
            // Named twice, it is sensitive where one of the two may not show it.
            let as_sensitive = wanted.entry(*stack_id).or_default().entry(output.as_str()).or_insert(true);
            *as_sensitive &= *sensitive;
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let readers: BTreeSet<StackId> =
            imports.iter().filter(|import| import.sensitive).map(|import| import.stack_id).collect();
        let ids: Vec<StackId> = wanted.keys().copied().collect();
        let stacks = self.authorized_many::<Stack, Read>(ctx, &ids).await?;
        if stacks.len() < ids.len() {
            return Err(Error::not_found("stack").named_in("attributes.imports"));
        }
        for stack in stacks {
            if stack.deleted_at.is_some() {
                return Err(being_deleted(stack.name.as_str()));
            }
            if readers.contains(&stack.id) && !stack.held().allow(Action::ReadState) {
                return Err(Error::forbidden(format!(
                    "attributes.imports: taking sensitive outputs of the stack {} needs the right to read its state ({}), because \
                     whoever may change a service that uses the context can read them",
                    stack.name,
                    Action::ReadState.as_str()
                )));
            }
            let Some(names) = wanted.get(&stack.id) else { continue };
            for output in self.store.stack_outputs(stack.id).await? {
                if output.secret && names.get(output.name.as_str()) == Some(&false) {
                    return Err(Error::invalid(
                        "attributes.imports",
                        format!(
                            "the output {} of the stack {} is sensitive: take it with sensitive: true (`--import-sensitive`), which needs the right to read \
                             the stack's state, and makes this a context with secret values",
                            output.name, stack.name
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The outputs that a context takes, in clear, under the names that templates read.
    pub(crate) async fn context_outputs_opened(&self, row: &ServiceContextRow) -> Result<Map<String, Value>> {
        let mut opened = Map::new();
        for ContextOutput { stack, name, output } in row.outputs.iter() {
            opened.insert(name.clone(), self.output_of(*stack, output).await?);
        }
        Ok(opened)
    }

    /// The sensitive values among the outputs that a context takes: each text and number in them.
    pub(crate) async fn context_output_secrets(&self, row: &ServiceContextRow) -> Result<Vec<String>> {
        let mut values = Vec::new();
        for ContextOutput { stack, name: _, output } in row.outputs.iter().filter(|one| one.output.secret) {
            texts_of(&self.output_of(*stack, output).await?, &mut values);
        }
        Ok(values)
    }

    /// Refuses to delete a stack whose outputs contexts take.
    pub(crate) async fn check_untaken(&self, ctx: &OpCtx, stack: &Authorized<Stack, Admin>) -> Result<()> {
        let contexts = self.store.stack_contexts(stack).await?;
        if contexts.is_empty() {
            return Ok(());
        }
        let seen = self.authorized_many::<ServiceContext, Read>(ctx, &contexts).await?;
        let mut names: Vec<String> = seen.iter().map(|context| context.name.to_string()).collect();
        names.sort_unstable();
        if seen.len() < contexts.len() {
            names.push(format!("{} that you may not see", contexts.len() - seen.len()));
        }
        Err(Error::conflict(format!(
            "contexts take outputs of the stack: {}; take the imports away there first, or delete it with leaveDependents: they are \
             left without them",
            names.join(", ")
        )))
    }
}
