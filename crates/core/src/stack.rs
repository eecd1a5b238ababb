//! Stacks: infrastructure that a tool manages, and whose state the console holds.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{ClusterId, ProjectId, RepositoryId, ScmConnectionId, StackId, UserId};
use crate::name::Name;
use crate::page::Keyed;
use crate::policy::BindingsChange;
use crate::run_call::InputVariable;
use crate::service::GitRef;
use crate::stack_drift::StackWatch;
use crate::stack_run::RunStatus;
use crate::stack_spec::StackSpec;
use crate::stack_state::{StateLock, StateVersion};

/// The tool that manages the infrastructure of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StackTool {
    /// Terraform, or OpenTofu.
    Terraform,
    /// Terragrunt.
    Terragrunt,
    /// Ansible.
    Ansible,
    /// Pulumi.
    Pulumi,
    /// The stack's own commands.
    Custom,
}

impl StackTool {
    /// All tools.
    pub const ALL: [Self; 5] = [Self::Terraform, Self::Terragrunt, Self::Ansible, Self::Pulumi, Self::Custom];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Terraform => "terraform",
            Self::Terragrunt => "terragrunt",
            Self::Ansible => "ansible",
            Self::Pulumi => "pulumi",
            Self::Custom => "custom",
        }
    }

    /// The tool of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == word)
    }

    /// Whether the console can hold its state, through Terraform's `http` backend.
    pub const fn has_state(self) -> bool {
        matches!(self, Self::Terraform | Self::Terragrunt)
    }
}

/// Where a stack's code is, and where its runs run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackSource {
    /// The repository.
    pub repository_id: RepositoryId,
    /// Revision and folder.
    pub git: GitRef,
    /// The cluster whose agent creates its Jobs.
    pub cluster_id: ClusterId,
}

/// How the console follows the code of a stack. It has no influence on the content of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StackFollow {
    /// Interval of polls of its code, in seconds; absent: each fetch of the repository.
    pub interval_seconds: Option<u32>,
    /// The connection to the git host for plans of its pull requests; absent: each connection that may use its repository.
    pub connection_id: Option<ScmConnectionId>,
}

impl StackFollow {
    /// The shortest interval, in seconds: hosts limit the rate of requests.
    pub const SHORTEST: u32 = 30;
    /// The longest one, in seconds: seven days.
    pub const LONGEST: u32 = 7 * 24 * 60 * 60;

    /// Checks the settings.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an interval that is too short or too long.
    pub fn check(&self) -> Result<()> {
        match self.interval_seconds {
            Some(seconds) if !(Self::SHORTEST..=Self::LONGEST).contains(&seconds) => {
                Err(Error::invalid("attributes.interval", "must be between 30s and 168h"))
            }
            _ => Ok(()),
        }
    }
}

/// Infrastructure that a tool manages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Id.
    pub id: StackId,
    /// Its project. It cannot be moved.
    pub project_id: ProjectId,
    /// Unique in the installation.
    pub name: Name,
    /// Its tool.
    pub tool: StackTool,
    /// It cannot be deleted.
    pub protect: bool,
    /// Where its code is; absent if its tool runs elsewhere, and only the state is here.
    pub source: Option<StackSource>,
    /// How the console follows its code.
    pub follow: StackFollow,
    /// Its spec.
    pub spec: StackSpec,
    /// Names and values by which stacks are grouped and found.
    pub tags: BTreeMap<String, String>,
    /// Neither commits nor the schedule start runs.
    pub paused: bool,
    /// Status of its newest run other than a dry run.
    pub status: Option<RunStatus>,
    /// The last applied commit.
    pub sha: Option<String>,
    /// When a run last succeeded in applying it.
    pub last_successful_at: Option<DateTime<Utc>>,
    /// Why its code cannot be read, if it cannot.
    pub source_error: Option<String>,
    /// Since when it is being destroyed and deleted.
    pub deleted_at: Option<DateTime<Utc>>,
    /// Who last changed its inputs.
    pub changed_by: Option<UserId>,
    /// The same as the name in the audit log: a service account together with whoever assumed it.
    pub changed_as: Option<String>,
    /// The lock of its state, if any.
    pub lock: Option<StateLock>,
    /// The current version of its state; absent before the first one.
    pub state: Option<StateVersion>,
    /// Its schedule and its drift.
    pub watch: StackWatch,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed; a new state does not count.
    pub updated_at: DateTime<Utc>,
}

impl Keyed for Stack {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// The settings of a new stack.
#[derive(Clone, PartialEq, Eq)]
pub struct NewStack {
    /// Unique in the installation.
    pub name: Name,
    /// Its tool.
    pub tool: StackTool,
    /// Its project; absent: the default project.
    pub project_id: Option<ProjectId>,
    /// It cannot be deleted.
    pub protect: bool,
    /// Names and values by which stacks are grouped and found.
    pub tags: BTreeMap<String, String>,
    /// Where its code is.
    pub source: Option<StackSource>,
    /// How the console follows its code.
    pub follow: StackFollow,
    /// Its spec.
    pub spec: StackSpec,
    /// Environment variables of its runs.
    pub environment: Vec<InputVariable>,
    /// Files of its runs, by path.
    pub files: BTreeMap<String, String>,
    /// Bindings of its own, besides those of its project.
    pub bindings: BindingsChange,
}

/// Changes of a stack; `None` leaves a part as it is.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StackChange {
    /// A new name.
    pub name: Option<Name>,
    /// New protection.
    pub protect: Option<bool>,
    /// All tags.
    pub tags: Option<BTreeMap<String, String>>,
    /// Another place of its code, or of its runs.
    pub source: Option<StackSource>,
    /// Replaces how the console follows its code, as a whole.
    pub follow: Option<StackFollow>,
    /// Replaces its spec, as a whole.
    pub spec: Option<StackSpec>,
    /// All variables. One without a value keeps its value: secret ones are hidden from users who edit the rest.
    pub environment: Option<Vec<ChangedVariable>>,
    /// All files; `None` keeps the content of a file.
    pub files: Option<BTreeMap<String, Option<String>>>,
    /// Neither commits nor the schedule start runs.
    pub paused: Option<bool>,
    /// Other bindings; they need admin access.
    pub bindings: BindingsChange,
}

/// A variable of a changed environment.
#[derive(Clone, PartialEq, Eq)]
pub struct ChangedVariable {
    /// Name.
    pub name: String,
    /// Value; absent: unchanged.
    pub value: Option<String>,
    /// The value is secret.
    pub secret: bool,
}

// Files may be secret, like values of variables.
impl std::fmt::Debug for NewStack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files: Vec<&String> = self.files.keys().collect();
        f.debug_struct("NewStack").field("name", &self.name).field("files", &files).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for StackChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files: Option<Vec<&String>> = self.files.as_ref().map(|files| files.keys().collect());
        f.debug_struct("StackChange").field("name", &self.name).field("files", &files).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ChangedVariable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangedVariable").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_neither_too_short_nor_too_long() {
        for (seconds, fits) in
            [(None, true), (Some(29), false), (Some(30), true), (Some(604_800), true), (Some(604_801), false)]
        {
            let follow = StackFollow { interval_seconds: seconds, connection_id: None };
            assert_eq!(follow.check().is_ok(), fits, "{seconds:?}");
        }
    }

    #[test]
    fn what_is_in_files_is_not_printed() {
        let file = ("key.pem".to_owned(), Some("hunter2".to_owned()));
        let change = StackChange { files: Some(BTreeMap::from([file])), ..StackChange::default() };
        let told = format!("{change:?}");
        assert!(told.contains("key.pem") && !told.contains("hunter2"), "{told}");
    }
}
