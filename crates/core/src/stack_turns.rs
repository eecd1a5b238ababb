//! The next step of a run: pure decisions, which use cases carry out.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use crate::error::{Error, Result};
use crate::ids::{StackId, StackRunId, UserId};
use crate::run_call::RunReport;
use crate::stack_run::{RunApproval, RunKind, RunPhase, RunPlan, RunStatus, RunStep, StackRun, StepStatus};
use crate::stack_spec::{StackApproval, Stage};

/// A Job without a heartbeat for this long is lost.
const SILENT: TimeDelta = TimeDelta::seconds(60);
/// How long an agent may take to start a Job.
const UNSTARTED: TimeDelta = TimeDelta::minutes(15);
/// How long the console may take to prepare the code of a run.
const UNPREPARED: TimeDelta = TimeDelta::minutes(30);
/// Limit of attempts of one phase, while nothing is applied.
const ATTEMPTS: u32 = 3;

/// The next step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// The run ends with this status and error.
    Over(RunStatus, Option<String>),
    /// The plan waits for approval.
    Waits,
    /// The second Job applies the plan.
    Applies,
    /// Nothing was applied: retries this phase. The caller checks that again in the transaction.
    Again(String),
    /// The run ends with nothing applied. The caller checks that again in the transaction.
    Unbegun(RunStatus, String),
}

/// The next step after a Job reported its result.
pub fn after_job(run: &StackRun, report: &RunReport) -> Turn {
    let RunReport { succeeded, cancelled, error, changed, outputs: _, interrupted } = report;
    let told = |otherwise: &str| error.clone().unwrap_or_else(|| otherwise.to_owned());
    match run.phase {
        RunPhase::Plan => {
            if *cancelled || run.cancel_asked {
                return Turn::Over(RunStatus::Cancelled, Some(told("it was cancelled; nothing was applied")));
            }
            // Same as a Job that was interrupted before it could report.
            if !succeeded && *interrupted {
                return after_loss(run, &told("its Pod was terminated"), true);
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
            // Same as a Job that was interrupted before it could report: nothing was applied yet.
            if !succeeded && !cancelled && *interrupted && !changed {
                return after_loss(run, &told("its Pod was terminated"), false);
            }
            let status = match (succeeded, *cancelled) {
                (true, false) => return Turn::Over(RunStatus::Successful, None),
                (_, true) => RunStatus::Cancelled,
                // The agent may have stopped the Pod before the harness learned of the cancellation.
                (false, false) if run.cancel_asked => RunStatus::Cancelled,
                (false, false) => RunStatus::Failed,
            };
            let error = told("the apply failed");
            let error = if *changed { format!("{error}; {MAY_HAVE_CHANGED}") } else { error };
            Turn::Over(status, Some(error))
        }
    }
}

/// Whether the current Job runs commands that a user gave.
fn runs_commands(run: &StackRun) -> bool {
    run.kind == RunKind::Commands
        && run.snapshot.spec.exec.as_ref().is_some_and(|exec| exec.phase == run.phase)
}

/// Whether the second Job has nothing to do.
pub fn changes_nothing(run: &StackRun, plan: &RunPlan) -> bool {
    match run.kind {
        // The first Job ran them all, or all belong to the second one, whatever the harness counts.
        RunKind::Commands => run.snapshot.spec.exec.as_ref().is_none_or(|exec| exec.phase == RunPhase::Plan),
        RunKind::Apply | RunKind::DryRun | RunKind::Destroy | RunKind::Drift => plan.summary.is_empty(),
    }
}

const MAY_HAVE_CHANGED: &str = "it may have changed something: look at the state's rejected versions and errored.tfstate, then plan again";

/// The steps of the current Job that must not run twice: in an apply, the commands that change something; in a run of given commands,
/// all of them.
fn done_once<'a>(run: &'a StackRun, steps: &'a [RunStep]) -> impl Iterator<Item = &'a RunStep> {
    let counts = move |stage| match stage {
        Stage::Init => false,
        Stage::Plan | Stage::Verify => runs_commands(run),
        Stage::Apply | Stage::Destroy => run.phase == RunPhase::Apply || runs_commands(run),
    };
    steps.iter().filter(move |step| step.phase == run.phase && counts(step.stage))
}

/// Whether any step that must not run twice has begun. The console's harness reports a step as running before it starts the command;
/// for the runner of another client, the first such step counts as begun when its Job starts.
pub fn has_begun(run: &StackRun, steps: &[RunStep]) -> bool {
    done_once(run, steps).any(|step| step.status != StepStatus::Pending)
}

/// The first step of the current Job that must not run twice, if none of them has begun.
pub fn first_to_begin(run: &StackRun, steps: &[RunStep]) -> Option<u32> {
    let first = done_once(run, steps).min_by_key(|step| step.index)?;
    (!has_begun(run, steps)).then_some(first.index)
}

/// The next step when a Job disappeared or went silent without a result. `begun` is the answer of [`has_begun`]; a Job that
/// never received its input has begun nothing.
pub fn after_loss(run: &StackRun, why: &str, begun: bool) -> Turn {
    if begun && run.phase == RunPhase::Apply {
        let status = if run.cancel_asked { RunStatus::Cancelled } else { RunStatus::Failed };
        return Turn::Over(status, Some(format!("{why}; {MAY_HAVE_CHANGED}")));
    }
    // The effect of given commands is unknown, and so is whether they are safe to repeat.
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

/// The part of an open run that decides whether it is due: the loop that tends all runs reads nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRun {
    /// Id.
    pub id: StackRunId,
    /// The stack.
    pub stack_id: StackId,
    /// Its status.
    pub status: RunStatus,
    /// Its code is ready.
    pub is_prepared: bool,
    /// It waits for other stacks.
    pub is_held: bool,
    /// Last heartbeat of its Job.
    pub heartbeat_at: Option<DateTime<Utc>>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// The plan that waits for approval.
    pub plan: Option<RunPlan>,
    /// Approvals of that plan.
    pub approvals: Vec<RunApproval>,
    /// Who has to approve it.
    pub approval: StackApproval,
    /// Its plan waits for approval, and the authors of its code are not all known.
    pub more_emails: bool,
}

impl OpenRun {
    /// Start and length of the time limit of its current status. None if it has no limit, or if the heartbeats of its Job decide.
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

    /// Whether [`tend`] may have a next step for it.
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

/// How long this console has to watch a run before its time limit counts as passed, when the clock says that `before` of it has passed.
/// Part of the limit is always watched: the clock may have jumped, or the console may have been down while nothing could proceed.
pub fn watch_needed(term: TimeDelta, before: TimeDelta) -> TimeDelta {
    term.min(UNSTARTED).max(term - before)
}

/// What [`tend`] needs to know besides the run.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// Name of its cluster.
    pub cluster: &'a str,
    /// Last heartbeat of the cluster's agent.
    pub heard: Option<DateTime<Utc>>,
    /// The answer of [`has_begun`] for its Job.
    pub begun: bool,
}

/// The next step that is due now by the clock, if any. The caller has watched the run for long enough in case the clock jumped.
pub fn tend(run: &StackRun, around: &Around<'_>, now: DateTime<Utc>) -> Option<Turn> {
    let Around { cluster, heard, begun } = *around;
    let since = run.heartbeat_at.unwrap_or(run.created_at);
    match run.status {
        RunStatus::Queued
            if run.source.is_none()
                && !run.waits_for_others()
                && (now - run.free_since()).abs() > UNPREPARED =>
        {
            let why = run.error.clone().unwrap_or_else(|| "no console picked it up".to_owned());
            let error = format!("its code could not be prepared in {}: {why}", told(UNPREPARED));
            Some(Turn::Over(RunStatus::Failed, Some(error)))
        }
        // The difference is absolute: after a clock was set back, the time may lie in the future.
        RunStatus::Pending if (now - since).abs() > UNSTARTED => {
            let agent = match heard {
                None => "it has never connected".to_owned(),
                Some(at) => format!("it last connected at {}", at.to_rfc3339()),
            };
            let note =
                run.error.as_ref().map_or_else(String::new, |note| format!("; its last report: {note}"));
            let error = format!(
                "the agent of cluster {cluster} did not start it within {}: {agent}{note}",
                told(UNSTARTED)
            );
            Some(Turn::Over(RunStatus::Failed, Some(error)))
        }
        // Absolute for the same reason.
        RunStatus::Running if (now - since).abs() > SILENT => {
            let silence = (now - since).abs();
            Some(after_loss(run, &format!("the harness sent no heartbeat for {}", told(silence)), begun))
        }
        // First: the approvals came in time, but the console stopped before it acted on them.
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

/// A user who wants to approve a plan.
#[derive(Debug, Clone, Copy)]
pub struct Approver<'a> {
    /// The user.
    pub user: UserId,
    /// The name in the audit log: a service account together with whoever assumed it.
    pub name: &'a str,
    /// The digest of the plan that they read.
    pub digest: Option<&'a str>,
    /// Who last changed what the stack is made of.
    pub changed_by: Option<UserId>,
}

/// Checks that a user may approve the plan of a run now.
///
/// # Errors
/// [`Error::Invalid`] without a digest, [`Error::Conflict`] if the plan is another one, has expired, or the run does not wait for approval,
/// and [`Error::Forbidden`] for users who may not approve their own work.
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

/// Whether the current plan has enough approvals.
pub fn is_approved(run: &StackRun) -> bool {
    is_approved_by(run, &run.approvals)
}

/// Same, but only these approvals count.
pub fn is_approved_by(run: &StackRun, approvals: &[RunApproval]) -> bool {
    run.plan.as_ref().is_some_and(|plan| agree(plan, approvals, approvers(run)))
}

/// How many people have to approve the plan of a run. If self-approval is forbidden and the authors of the code are not all known, it is
/// one more than the stack asks for, so that an author is never the only approver.
pub fn approvers(run: &StackRun) -> u32 {
    let more_emails = run.source.as_ref().is_some_and(|source| source.more_emails);
    approvers_by(&run.snapshot.spec.approval, more_emails)
}

fn approvers_by(approval: &StackApproval, more_emails: bool) -> u32 {
    approval.approvers.max(1).saturating_add(u32::from(approval.forbid_self && more_emails))
}

/// Whether this many approvals are for this plan.
fn agree(plan: &RunPlan, approvals: &[RunApproval], approvers: u32) -> bool {
    let agreed: Vec<_> = approvals.iter().filter(|approval| approval.digest == plan.digest).collect();
    let users: BTreeSet<UserId> = agreed.iter().map(|approval| approval.user_id).collect();
    let people: BTreeSet<&str> = agreed.iter().map(|approval| person(&approval.by)).collect();
    users.len().min(people.len()) as u64 >= u64::from(approvers)
}

/// The person behind a name of the audit log: whoever assumed a service account, also through others. A person and the accounts that
/// they assume count as one approver.
pub fn person(name: &str) -> &str {
    let last = name.rsplit_once(" (assumed by ").map_or(name, |(_, by)| by);
    last.trim_end_matches(')')
}

/// The addresses of all who act under a name of the audit log: an account, and whoever assumed it.
pub fn names(name: &str) -> impl Iterator<Item = &str> {
    name.split(" (assumed by ").map(|name| name.trim_end_matches(')'))
}

/// Whether the plan waited for too long.
pub fn is_lapsed(run: &StackRun, now: DateTime<Utc>) -> bool {
    run.plan.as_ref().is_some_and(|plan| lapses(plan, &run.snapshot.spec.approval, now))
}

fn lapses(plan: &RunPlan, approval: &StackApproval, now: DateTime<Utc>) -> bool {
    let wait = wait(approval);
    wait > 0 && now - plan.at > TimeDelta::seconds(wait)
}

/// How many seconds a plan may wait; 0: no limit. Capped, because another build may have stored the value without this check.
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
