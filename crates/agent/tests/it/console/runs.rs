//! Runs of stacks as the console of these tests has them.

use plural_core::ids::StackRunId;
use plural_testkit::eventually;
use plural_tunnel::{
    v1::{self, work::Item},
    work::work_ref,
};
use tonic::Status;

use super::Console;
use crate::fixture::PATIENCE;

impl Console {
    /// Wants a run, or wants it changed, and hints.
    pub(crate) fn want_run(&self, run: v1::StackRunJob) {
        let sequence = {
            let mut memory = self.memory();
            memory.sequence += 1;
            let sequence = memory.sequence;
            memory.runs.insert(run.id.clone(), (sequence, run));
            sequence
        };
        self.moved.send_replace(sequence);
    }

    /// Changes a run that is wanted.
    pub(crate) fn change_run(&self, id: StackRunId, change: impl FnOnce(&mut v1::StackRunJob)) {
        let mut run = self.run(id);
        change(&mut run);
        self.want_run(run);
    }

    /// A run as it stands.
    pub(crate) fn run(&self, id: StackRunId) -> v1::StackRunJob {
        self.memory().runs[&id.to_string()].1.clone()
    }

    /// Waits until an agent was told that a run has spoken.
    pub(crate) async fn told_spoken(&self) {
        let is_run = |work: &v1::Work| matches!(&work.item, Some(Item::StackRun(run)) if run.spoken);
        eventually(PATIENCE, async || {
            self.memory().answers.iter().any(|(_, answer)| answer.work.iter().any(is_run))
        })
        .await;
    }

    /// A run is over.
    pub(crate) fn end_run(&self, id: StackRunId) {
        let sequence = {
            let mut memory = self.memory();
            memory.runs.remove(&id.to_string());
            memory.sequence += 1;
            let sequence = memory.sequence;
            memory.detached.push((sequence, work_ref(v1::WorkKind::StackRun, id)));
            sequence
        };
        self.moved.send_replace(sequence);
    }

    /// The first report of a run that `fits`, waiting for it.
    pub(crate) async fn run_report(
        &self,
        id: StackRunId,
        what: &str,
        fits: impl Fn(&v1::StackRunReport) -> bool,
    ) -> anyhow::Result<v1::StackRunReport> {
        let mut reported = self.reported.subscribe();
        let id = id.to_string();
        let wait = async {
            loop {
                reported.borrow_and_update();
                let found = {
                    let memory = self.memory();
                    memory.run_reports.iter().find(|report| report.run_id == id && fits(report)).cloned()
                };
                if let Some(found) = found {
                    return found;
                }
                if reported.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .map_err(|_| anyhow::anyhow!("no report that {what} among {:#?}", self.memory().run_reports))
    }

    /// The attempts that agents knew of when they took runs.
    pub(crate) fn takes(&self) -> Vec<u32> {
        self.memory().takes.iter().map(|asked| asked.attempt).collect()
    }

    /// Counts an attempt, and gives its credential.
    pub(super) fn take(&self, asked: &v1::TakeRunRequest) -> Result<v1::TakeRunResponse, Status> {
        let (sequence, attempt, lost) = {
            let mut memory = self.memory();
            memory.takes.push(asked.clone());
            let sequence = memory.sequence + 1;
            let Some((at, run)) = memory.runs.get_mut(&asked.run_id) else {
                return Err(Status::not_found("no such run"));
            };
            if run.spoken || run.phase != asked.phase || run.attempt != asked.attempt {
                return Err(Status::failed_precondition("the run is elsewhere"));
            }
            run.attempt += 1;
            *at = sequence;
            let attempt = run.attempt;
            memory.sequence = sequence;
            let lost = memory.lost_takes > 0;
            memory.lost_takes = memory.lost_takes.saturating_sub(1);
            (sequence, attempt, lost)
        };
        self.moved.send_replace(sequence);
        if lost {
            return Err(Status::unavailable("the answer is lost"));
        }
        Ok(v1::TakeRunResponse { token: format!("run-of-attempt-{attempt}"), attempt })
    }
}
