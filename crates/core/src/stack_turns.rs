//! What follows for a run: pure decisions, which use cases carry out.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use crate::error::{Error, Result};
use crate::ids::{StackId, StackRunId, UserId};
use crate::run_call::RunReport;
use crate::stack_run::{RunApproval, RunKind, RunPhase, RunPlan, RunStatus, RunStep, StackRun, StepStatus};
use crate::stack_spec::{StackApproval, Stage};

/// A Job that was not heard of for so long is lost.
const SILENT: TimeDelta = TimeDelta::seconds(60);
/// An agent has so long to start a Job.
const UNSTARTED: TimeDelta = TimeDelta::minutes(15);
/// The code of a run is put together in so long.
const UNPREPARED: TimeDelta = TimeDelta::minutes(30);
/// Jobs of one phase at most, where nothing was applied.
const ATTEMPTS: u32 = 3;

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// It is over.
    Over(RunStatus, Option<String>),
    /// People are to agree.
    Waits,
    /// The second Job applies the plan.
    Applies,
    /// Nothing was applied: another Job of this phase. Only where that is still so when it is carried out.
    Again(String),
    /// It is over, and nothing was applied. Only where that is still so when it is carried out.
    Unbegun(RunStatus, String),
}

/// What follows when a Job says how it ended.
pub fn after_job(run: &StackRun, report: &RunReport) -> Turn {
    let RunReport { succeeded, cancelled, error, changed, outputs: _, interrupted } = report;
    let told = |otherwise: &str| error.clone().unwrap_or_else(|| otherwise.to_owned());
    match run.phase {
        RunPhase::Plan => {
            if *cancelled || run.cancel_asked {
                return Turn::Over(RunStatus::Cancelled, Some(told("it was cancelled; nothing was applied")));
            }
            // As where it could not say so any more.
            if !succeeded && *interrupted {
                return after_loss(run, &told("its Pod was told to end"), true);
            }
            if !succeeded {
                return Turn::Over(RunStatus::Failed, Some(told("the plan failed; nothing was applied")));
            }
            let Some(plan) = &run.plan else {
                let error = "the harness ended without a plan; nothing was applied".to_owned();
                return Turn::Over(RunStatus::Failed, Some(error));
            };
            if run.kind.only_plans() || changes_nothing(run, plan) {
                Turn::Over(RunStatus::Successful, None)
            } else if run.snapshot.spec.approval.required {
                Turn::Waits
            } else {
                Turn::Applies
            }
        }
        RunPhase::Apply => {
            // As where it could not say so: nothing was applied yet.
            if !succeeded && !cancelled && *interrupted && !changed {
                return after_loss(run, &told("its Pod was told to end"), false);
            }
            let status = match (succeeded, *cancelled) {
                (true, false) => return Turn::Over(RunStatus::Successful, None),
                (_, true) => RunStatus::Cancelled,
                // The agent may have stopped its Pod before the harness heard of it.
                (false, false) if run.cancel_asked => RunStatus::Cancelled,
                (false, false) => RunStatus::Failed,
            };
            let error = told("the apply did not end well");
            let error = if *changed { format!("{error}; {MAY_HAVE_CHANGED}") } else { error };
            Turn::Over(status, Some(error))
        }
    }
}

/// The Job that it is at runs commands that somebody gave.
fn runs_commands(run: &StackRun) -> bool {
    run.kind == RunKind::Commands
        && run.snapshot.spec.exec.as_ref().is_some_and(|exec| exec.phase == run.phase)
}

/// Nothing is left for the second Job.
pub fn changes_nothing(run: &StackRun, plan: &RunPlan) -> bool {
    match run.kind {
        // What it was to run, it ran; or it is all in the second one, whatever the harness counts.
        RunKind::Commands => run.snapshot.spec.exec.as_ref().is_none_or(|exec| exec.phase == RunPhase::Plan),
        RunKind::Apply | RunKind::DryRun | RunKind::Destroy | RunKind::Drift => plan.summary.is_empty(),
    }
}

const MAY_HAVE_CHANGED: &str = "it may have changed something: look at the state's rejected versions and errored.tfstate, then plan again";

/// The steps of the Job of a run that it may not do twice: of an apply the commands that change something, of commands that somebody gave each
/// one.
fn done_once<'a>(run: &'a StackRun, steps: &'a [RunStep]) -> impl Iterator<Item = &'a RunStep> {
    let counts = move |stage| match stage {
        Stage::Init => false,
        Stage::Plan | Stage::Verify => runs_commands(run),
        Stage::Apply | Stage::Destroy => run.phase == RunPhase::Apply || runs_commands(run),
    };
    steps.iter().filter(move |step| step.phase == run.phase && counts(step.stage))
}

/// Whether something has begun of what the Job of a run may not do twice, by its steps. The console's own harness says that a step runs before it
/// starts its command; of the runner of another client the first of these steps counts as begun with its Job.
pub fn has_begun(run: &StackRun, steps: &[RunStep]) -> bool {
    done_once(run, steps).any(|step| step.status != StepStatus::Pending)
}

/// The first step of the Job of a run that it may not do twice, where none of them has begun.
pub fn first_to_begin(run: &StackRun, steps: &[RunStep]) -> Option<u32> {
    let first = done_once(run, steps).min_by_key(|step| step.index)?;
    (!has_begun(run, steps)).then_some(first.index)
}

/// What follows when a Job is gone, or was not heard of, and did not say how it ended. `begun`: what [`has_begun`] says of it; a Job that was
/// not given its input has begun nothing.
pub fn after_loss(run: &StackRun, why: &str, begun: bool) -> Turn {
    if begun && run.phase == RunPhase::Apply {
        let status = if run.cancel_asked { RunStatus::Cancelled } else { RunStatus::Failed };
        return Turn::Over(status, Some(format!("{why}; {MAY_HAVE_CHANGED}")));
    }
    // Nobody knows what commands do that somebody gave, nor whether they may do it twice.
    if begun && runs_commands(run) {
        let status = if run.cancel_asked { RunStatus::Cancelled } else { RunStatus::Failed };
        let told = format!("{why}; its commands may have run, and are not run again by themselves");
        return Turn::Over(status, Some(told));
    }
    if run.cancel_asked {
        return Turn::Unbegun(RunStatus::Cancelled, format!("{why}; nothing was applied"));
    }
    if run.attempt < ATTEMPTS {
        Turn::Again(format!("{why}; nothing was applied, so it is tried again"))
    } else {
        let error = format!("{why}, {} times in a row; nothing was applied", run.attempt);
        Turn::Unbegun(RunStatus::Failed, error)
    }
}

/// What of a run that is not over says whether it is time for something: whoever looks after all of them reads no more of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRun {
    /// Id.
    pub id: StackRunId,
    /// Of this stack.
    pub stack_id: StackId,
    /// How far it is.
    pub status: RunStatus,
    /// Its code is put together.
    pub is_prepared: bool,
    /// It waits for other stacks.
    pub is_held: bool,
    /// When its Job was last heard of.
    pub heartbeat_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// What it planned, where that waits for people.
    pub plan: Option<RunPlan>,
    /// Who agreed to that.
    pub approvals: Vec<RunApproval>,
    /// Who has to.
    pub approval: StackApproval,
    /// Whose its code is cannot be told, where it waits for people.
    pub more_emails: bool,
}

impl OpenRun {
    /// Since when it has its time, and how long that is: until then it may go on as it is. None where it has all the time, or where the
    /// signs of life of its Job count.
    pub fn term(&self) -> Option<(DateTime<Utc>, TimeDelta)> {
        match self.status {
            RunStatus::Queued => {
                (!self.is_prepared && !self.is_held).then_some((self.created_at, UNPREPARED))
            }
            RunStatus::Pending => Some((self.heartbeat_at.unwrap_or(self.created_at), UNSTARTED)),
            RunStatus::PendingApproval => {
                let seconds = wait(&self.approval);
                let plan = self.plan.as_ref().filter(|_| seconds > 0);
                plan.map(|plan| (plan.at, TimeDelta::seconds(seconds)))
            }
            RunStatus::Running | RunStatus::Successful | RunStatus::Failed | RunStatus::Cancelled => None,
        }
    }

    /// Whether [`tend`] may have something to say of it.
    pub fn is_due(&self, now: DateTime<Utc>) -> bool {
        let Self {
            id: _,
            stack_id: _,
            status,
            is_prepared,
            is_held,
            heartbeat_at,
            created_at,
            plan,
            approvals,
            approval,
            more_emails,
        } = self;
        let since = heartbeat_at.unwrap_or(*created_at);
        match status {
            RunStatus::Queued => !is_prepared && !is_held && (now - *created_at).abs() > UNPREPARED,
            RunStatus::Pending => (now - since).abs() > UNSTARTED,
            RunStatus::Running => (now - since).abs() > SILENT,
            RunStatus::PendingApproval => plan.as_ref().is_some_and(|plan| {
                agree(plan, approvals, approvers_by(approval, *more_emails)) || lapses(plan, approval, now)
            }),
            RunStatus::Successful | RunStatus::Failed | RunStatus::Cancelled => false,
        }
    }
}

/// How long a console has to watch a run before the time of this length is over that it has, of which so much had gone by `before`, by the
/// clock. That may have jumped, or the console was away while there was nobody who could have done anything: some of the time is watched in
/// any case.
pub fn watch_needed(term: TimeDelta, before: TimeDelta) -> TimeDelta {
    term.min(UNSTARTED).max(term - before)
}

/// What is known of the surroundings of a run.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// The name of its cluster.
    pub cluster: &'a str,
    /// When the agent of that was last heard of.
    pub heard: Option<DateTime<Utc>>,
    /// What [`has_begun`] says of its Job.
    pub begun: bool,
}

/// What is to be done about a run now, if anything is, by the clock. Where that may have jumped, whoever asks has watched it long enough.
pub fn tend(run: &StackRun, around: &Around<'_>, now: DateTime<Utc>) -> Option<Turn> {
    let Around { cluster, heard, begun } = *around;
    let since = run.heartbeat_at.unwrap_or(run.created_at);
    match run.status {
        RunStatus::Queued
            if run.source.is_none()
                && !run.waits_for_others()
                && (now - run.free_since()).abs() > UNPREPARED =>
        {
            let why = run.error.clone().unwrap_or_else(|| "nobody came to it".to_owned());
            let error = format!("its code could not be put together in {}: {why}", told(UNPREPARED));
            Some(Turn::Over(RunStatus::Failed, Some(error)))
        }
        // Also one of a time to come: a clock was set back.
        RunStatus::Pending if (now - since).abs() > UNSTARTED => {
            let agent = match heard {
                None => "it was never heard of".to_owned(),
                Some(at) => format!("it was last heard of at {}", at.to_rfc3339()),
            };
            let note = run.error.as_ref().map_or_else(String::new, |note| format!("; last it said: {note}"));
            let error = format!(
                "the agent of cluster {cluster} did not start it within {}: {agent}{note}",
                told(UNSTARTED)
            );
            Some(Turn::Over(RunStatus::Failed, Some(error)))
        }
        // The same: it would have to come there again first.
        RunStatus::Running if (now - since).abs() > SILENT => {
            let silence = (now - since).abs();
            Some(after_loss(run, &format!("the harness was not heard of for {}", told(silence)), begun))
        }
        // First: those who agreed did so in time, and the console that was to carry it out ended.
        RunStatus::PendingApproval if is_approved(run) => Some(Turn::Applies),
        RunStatus::PendingApproval if is_lapsed(run, now) => {
            let within = TimeDelta::seconds(wait(&run.snapshot.spec.approval));
            let error = format!("nobody approved it within {}", told(within));
            Some(Turn::Over(RunStatus::Cancelled, Some(error)))
        }
        RunStatus::Queued
        | RunStatus::Pending
        | RunStatus::Running
        | RunStatus::PendingApproval
        | RunStatus::Successful
        | RunStatus::Failed
        | RunStatus::Cancelled => None,
    }
}

/// Somebody wants to agree to a plan.
#[derive(Debug, Clone, Copy)]
pub struct Approver<'a> {
    /// Who.
    pub user: UserId,
    /// As the audit log names them: a service account together with whoever assumed it.
    pub name: &'a str,
    /// The digest of the plan that they read.
    pub digest: Option<&'a str>,
    /// Who last changed what the stack is made of.
    pub changed_by: Option<UserId>,
}

/// Whether somebody may agree to the plan of a run, now.
///
/// # Errors
/// [`Error::Invalid`] without a digest, [`Error::Conflict`] where the plan is another one, has lapsed, or the run does not wait for them, and
/// [`Error::Forbidden`] for those who may not approve what is their own.
pub fn check_approver(run: &StackRun, approver: &Approver<'_>, now: DateTime<Utc>) -> Result<()> {
    let Approver { user, name, digest, changed_by } = *approver;
    let Some(digest) = digest.filter(|digest| !digest.is_empty()) else {
        return Err(Error::invalid("digest", "name the digest of the plan that you read"));
    };
    let Some(plan) = run.plan.as_ref().filter(|_| run.status == RunStatus::PendingApproval) else {
        return Err(Error::conflict(format!(
            "the run is {}: it does not wait for approval",
            run.status.as_str()
        )));
    };
    if plan.digest != digest {
        return Err(Error::conflict(format!(
            "the plan is another one: its digest is {}; read it, and approve that",
            plan.digest
        )));
    }
    if is_lapsed(run, now) {
        return Err(Error::conflict("the plan waited for too long and does not count any more: plan again"));
    }
    let is_same = |by: &str| person(by) == person(name);
    if run.approvals.iter().any(|approval| approval.user_id == user || is_same(&approval.by)) {
        return Err(Error::conflict("you approved this plan already; somebody else has to agree, too"));
    }
    if run.snapshot.spec.approval.forbid_self {
        if run.created_by == Some(user) || is_same(&run.author) {
            return Err(Error::forbidden("you started this run: somebody else has to approve it"));
        }
        if changed_by == Some(user) {
            return Err(Error::forbidden(
                "you last changed this stack: somebody else has to approve its plan",
            ));
        }
        let mut emails = run.source.iter().flat_map(|source| &source.emails);
        if emails.any(|email| names(name).any(|name| email.eq_ignore_ascii_case(name))) {
            return Err(Error::forbidden(
                "you wrote, committed or merged code of this run: somebody else has to approve it",
            ));
        }
    }
    Ok(())
}

/// Enough people agreed to the plan that there is.
pub fn is_approved(run: &StackRun) -> bool {
    is_approved_by(run, &run.approvals)
}

/// The same, where only these approvals count.
pub fn is_approved_by(run: &StackRun, approvals: &[RunApproval]) -> bool {
    run.plan.as_ref().is_some_and(|plan| agree(plan, approvals, approvers(run)))
}

/// How many people have to agree to the plan of a run. Where nobody approves what is their own, and it cannot be told whose the code is, one more
/// than the stack asks for: whoever wrote it is not alone then.
pub fn approvers(run: &StackRun) -> u32 {
    let more_emails = run.source.as_ref().is_some_and(|source| source.more_emails);
    approvers_by(&run.snapshot.spec.approval, more_emails)
}

fn approvers_by(approval: &StackApproval, more_emails: bool) -> u32 {
    approval.approvers.max(1).saturating_add(u32::from(approval.forbid_self && more_emails))
}

/// Of those who agreed, so many did so to this plan.
fn agree(plan: &RunPlan, approvals: &[RunApproval], approvers: u32) -> bool {
    let agreed: Vec<_> = approvals.iter().filter(|approval| approval.digest == plan.digest).collect();
    let users: BTreeSet<UserId> = agreed.iter().map(|approval| approval.user_id).collect();
    let people: BTreeSet<&str> = agreed.iter().map(|approval| person(&approval.by)).collect();
    users.len().min(people.len()) as u64 >= u64::from(approvers)
}

/// Who acts under a name of the audit log: whoever assumed a service account, also over others. Somebody and the accounts that they assume
/// are one, and do not agree with each other.
pub fn person(name: &str) -> &str {
    let last = name.rsplit_once(" (assumed by ").map_or(name, |(_, by)| by);
    last.trim_end_matches(')')
}

/// All who act under a name of the audit log, by their addresses: an account, and whoever assumed it.
pub fn names(name: &str) -> impl Iterator<Item = &str> {
    name.split(" (assumed by ").map(|name| name.trim_end_matches(')'))
}

/// The plan waited for too long.
pub fn is_lapsed(run: &StackRun, now: DateTime<Utc>) -> bool {
    run.plan.as_ref().is_some_and(|plan| lapses(plan, &run.snapshot.spec.approval, now))
}

fn lapses(plan: &RunPlan, approval: &StackApproval, now: DateTime<Utc>) -> bool {
    let wait = wait(approval);
    wait > 0 && now - plan.at > TimeDelta::seconds(wait)
}

/// Seconds that a plan may wait; 0: for ever. What is stored may be of a build that checked otherwise.
fn wait(approval: &StackApproval) -> i64 {
    const YEAR: u64 = 366 * 24 * 60 * 60;
    approval.expires_seconds.min(YEAR) as i64
}

/// A span in words: "90 seconds", "15 minutes", "2 days".
fn told(span: TimeDelta) -> String {
    let seconds = span.num_seconds();
    match seconds {
        172_800.. if seconds % 86_400 == 0 => format!("{} days", seconds / 86_400),
        7_200.. if seconds % 3_600 == 0 => format!("{} hours", seconds / 3_600),
        120.. if seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        _ => format!("{seconds} seconds"),
    }
}

#[cfg(test)]
mod tests;
