//! Stacks: infrastructure that a tool keeps, and whose state the console holds.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::ids::{ProjectId, StackId};
use crate::name::Name;
use crate::page::Keyed;
use crate::policy::BindingsChange;
use crate::stack_state::{StateLock, StateVersion};

/// The tool that keeps the infrastructure of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StackTool {
    /// Terraform, or OpenTofu.
    Terraform,
}

impl StackTool {
    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Terraform => "terraform",
        }
    }

    /// The tool of this word.
    pub fn parse(word: &str) -> Option<Self> {
        (word == Self::Terraform.as_str()).then_some(Self::Terraform)
    }
}

/// Infrastructure that a tool keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Id.
    pub id: StackId,
    /// Where it belongs. It stays there.
    pub project_id: ProjectId,
    /// Unique in the installation.
    pub name: Name,
    /// What keeps it.
    pub tool: StackTool,
    /// It cannot be deleted.
    pub protect: bool,
    /// Who holds its state, if anybody does.
    pub lock: Option<StateLock>,
    /// The version of its state that counts; absent before the first one.
    pub state: Option<StateVersion>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed; its state changes without this.
    pub updated_at: DateTime<Utc>,
}

impl Keyed for Stack {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// What a new stack is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStack {
    /// Unique in the installation.
    pub name: Name,
    /// What keeps it.
    pub tool: StackTool,
    /// Where it belongs; else in the default project.
    pub project_id: Option<ProjectId>,
    /// It cannot be deleted.
    pub protect: bool,
    /// Who may read, change or administer it, besides those of its project.
    pub bindings: BindingsChange,
}

/// What changes of a stack; `None` leaves a part as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackChange {
    /// A new name.
    pub name: Option<Name>,
    /// New protection.
    pub protect: Option<bool>,
    /// Other bindings; they need admin access.
    pub bindings: BindingsChange,
}
