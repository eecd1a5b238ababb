//! Imports of services: stacks whose outputs their templates read.

use crate::ids::{ServiceImportId, StackId};

/// Stacks that one service may import.
pub const MAX_IMPORTS: usize = 32;

/// A stack whose outputs the templates of a service read, as `imports["NAME"]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceImport {
    /// Id.
    pub id: ServiceImportId,
    /// The stack.
    pub stack_id: StackId,
    /// Outputs that the tool calls sensitive are among what templates read: whoever imported the stack might read its state.
    pub secrets: bool,
}
