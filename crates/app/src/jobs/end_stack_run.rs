//! Ends a run whose Pod has ended, where its harness did not say how within its time.

use std::sync::Arc;

use plural_core::Result;
use plural_core::ids::StackRunId;
use plural_core::stack_run::{RunPhase, RunStatus};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::job::{Job, JobFailure};
use crate::stack_run_turns::Proof;

/// Ends a run whose Pod has ended.
#[derive(Debug)]
pub enum EndStackRun {}

/// Which Job of which run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EndedRun {
    /// The run.
    pub run: StackRunId,
    /// The phase of the Job.
    pub phase: RunPhase,
    /// Its attempt.
    pub attempt: u32,
    /// What the agent saw.
    pub why: String,
}

impl Job for EndStackRun {
    const KIND: &'static str = "end_stack_run";
    type Payload = EndedRun;

    fn key(ended: &EndedRun) -> String {
        format!("{} {} {}", ended.run, ended.phase.as_str(), ended.attempt)
    }

    async fn run(app: &Arc<App>, ended: EndedRun) -> Result<(), JobFailure> {
        let EndedRun { run, phase, attempt, why } = ended;
        let Some(run) = app.store.stack_run(run).await? else { return Ok(()) };
        if !run.is_at(phase, attempt) {
            return Ok(());
        }
        match run.status {
            RunStatus::Running => {
                let why = format!("{why}, and the harness did not say how it ended");
                app.run_lost(&run, &why, Proof::Ended).await?;
            }
            // It counted as lost before its time was over: what its Job holds was kept.
            RunStatus::Queued | RunStatus::Successful | RunStatus::Failed | RunStatus::Cancelled => {
                app.run_unlocks(&run).await?;
            }
            RunStatus::Pending | RunStatus::PendingApproval => {}
        }
        Ok(())
    }
}
