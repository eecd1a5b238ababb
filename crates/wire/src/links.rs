//! What a service is tied to, by hand: inputs of new and of changed services have it in common.

use serde::Serialize;

use crate::{ContextBindingAttributes, ServiceDependencyAttributes, ServiceImportAttributes};

/// What a service is tied to; what is absent stays.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinksAttributes {
    /// All that it depends on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<ServiceDependencyAttributes>>,
    /// All contexts that its templates read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_bindings: Option<Vec<ContextBindingAttributes>>,
    /// All stacks whose outputs its templates read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imports: Option<Vec<ServiceImportAttributes>>,
}

impl LinksAttributes {
    /// Nothing is named.
    pub fn is_empty(&self) -> bool {
        let Self { dependencies, context_bindings, imports } = self;
        dependencies.is_none() && context_bindings.is_none() && imports.is_none()
    }
}
