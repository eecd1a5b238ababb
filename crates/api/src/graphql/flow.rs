//! Flows of the original console, which groups services by them. There are none here.

use async_graphql::{ID, SimpleObject};

use super::{binding::PolicyBinding, error::List, project::Project};

/// Services that belong together. There is none: fields of this type are null.
#[derive(SimpleObject)]
pub(crate) struct Flow {
    /// Id.
    id: ID,
    /// Name.
    name: String,
    /// What it is for.
    description: Option<String>,
    /// Where it belongs.
    project: Option<Project>,
    /// Who may look at it.
    read_bindings: List<PolicyBinding>,
    /// Who may change it.
    write_bindings: List<PolicyBinding>,
}
