//! What pull requests of automations generated.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::Result;
use plural_core::ids::{PrAutomationId, PrInstanceId, ProjectId, PullRequestId, ScmConnectionId};
use plural_core::pr_automation::PrAutomation;
use plural_core::pr_instance::{PrAnswers, PrInstance, PrInstanceChange, PrInstanceState, PrMade, PrVersion};
use plural_core::pull_request::PrStatus;

use crate::access::noun;
use crate::pull_request_made::Asked;
use crate::records::record;
use crate::seal::Sealed;

/// Which of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrInstanceFilter {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// Of this automation.
    pub automation_id: Option<PrAutomationId>,
    /// How they stand.
    pub state: Option<PrInstanceState>,
    /// Whether they are active and their automation has another version now.
    pub outdated: Option<bool>,
    /// The repository contains this.
    pub q: Option<String>,
    /// What this pull request made, or is to change.
    pub pull_request_id: Option<PullRequestId>,
}

noun!(PrInstance, "pr instance", i => Some(i.id.uuid()), i.repository.clone(), project: i.project_id);
record!(PrInstance, PrInstanceId, PrInstanceId, PrInstanceFilter);

/// What the ledger is told when a pull request of an automation begins.
#[derive(Debug, Clone)]
pub enum PrLedger {
    /// It generates something.
    New {
        /// What is recorded of it.
        instance: Box<PrInstance>,
        /// What its random filters draw from, sealed for `pr_instance:ID:seed`.
        seed: Sealed,
    },
    /// It changes what was generated.
    Change {
        /// What.
        id: PrInstanceId,
        /// The digest of the version that it is of.
        from: String,
        /// How.
        change: Box<PrInstanceChange>,
    },
}

/// How a host says that a pull request stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrSettled {
    /// How it stands.
    pub status: PrStatus,
    /// The commit that came with the merge, where it is known.
    pub commit: Option<String>,
    /// The branch that it goes to, where it is known: whoever opened it may have given it another one since. A merge into another one than
    /// what it generates is for brings nothing.
    pub base: Option<String>,
}

/// What the ledger says besides what everybody reads. It is written with the records of pull requests.
#[async_trait]
pub trait PrInstanceStore: Send + Sync + 'static {
    /// What the random filters of an instance draw from, sealed.
    async fn pr_instance_seed(&self, id: PrInstanceId) -> Result<Sealed>;
    /// Paths of a repository that other instances which are not gone generated.
    async fn pr_instance_shared(
        &self,
        id: PrInstanceId,
        connection: ScmConnectionId,
        repository: &str,
    ) -> Result<Vec<String>>;
    /// Brings the ledger to how a pull request stands: what it generated is there once it is merged, and abandoned once it is closed; what
    /// it changes is changed once it is merged. Told twice, it is done once.
    async fn pr_instance_settle(
        &self,
        pull_request: PullRequestId,
        settled: &PrSettled,
        at: DateTime<Utc>,
    ) -> Result<()>;
}

/// What is recorded of something that a pull request is to generate on a branch of a repository.
pub(crate) fn begun(
    automation: &PrAutomation,
    (repository, base): (&str, &str),
    asked: &Asked,
    (pull_request, at): (PullRequestId, DateTime<Utc>),
) -> Result<PrInstance> {
    let version = PrVersion {
        revision: automation.revision,
        digest: asked.spec.digest()?,
        spec: asked.spec.clone(),
        templates: None,
        parts: Some(asked.parts.clone()),
    };
    let answers = PrAnswers::of(&asked.spec.configuration, &asked.answers);
    Ok(PrInstance {
        id: PrInstanceId::new(),
        project_id: automation.project_id,
        connection_id: automation.links.connection_id,
        automation_id: Some(automation.id),
        repository: repository.to_owned(),
        base: base.to_owned(),
        made: PrMade { version, answers, files: Vec::new() },
        state: PrInstanceState::Pending,
        pull_request_id: Some(pull_request),
        commit: None,
        base_commit: None,
        clock_ms: asked.clock_ms,
        change: None,
        created_at: at,
        updated_at: at,
    })
}
