//! Runs of stacks in the contract's messages.

use plural_app::agent_run::{ReportedRun, ReportedRunState, RunJob};
use plural_core::run_limits::RunLimits;
use plural_core::stack_run::{JobRef, RunPhase, RunStatus};
use plural_core::stack_spec::StackSpec;
use plural_tunnel::v1;
use plural_tunnel::v1::stack_run_report::State;
use tonic::Status;

use super::convert::id;

/// Between SIGTERM and SIGKILL of a tool: one that applies ends what it has begun.
const GRACE_SECONDS: u32 = 120;

/// The Job of a run, and its sequence.
///
/// # Errors
/// For settings that cannot be written.
pub(super) fn job(job: RunJob) -> Result<(v1::StackRunJob, u64), Status> {
    let RunJob { run, stack, project, limits, image } = job;
    let job_json = job_json(&run.snapshot.spec)
        .map_err(|error| Status::internal(format!("cannot write the Job of run {}: {error}", run.id)))?;
    let told = v1::StackRunJob {
        id: run.id.to_string(),
        stack,
        number: run.number,
        project,
        phase: run.phase.as_str().to_owned(),
        attempt: run.attempt,
        spoken: run.status == RunStatus::Running,
        cancel: run.cancel_asked,
        image,
        job_json,
        grace_seconds: GRACE_SECONDS,
        limits: limits.map(run_limits),
    };
    Ok((told, run.sequence))
}

/// The whole Job of a run with these settings.
fn job_json(spec: &StackSpec) -> serde_json::Result<String> {
    serde_json::to_string(&spec.whole_job())
}

fn run_limits(limits: RunLimits) -> v1::RunLimits {
    // Modules are the console's to check, before there is a Job.
    let RunLimits { namespaces, images, plan_account, apply_account, modules: _ } = limits;
    v1::RunLimits {
        namespaces,
        images,
        plan_account: plan_account.unwrap_or_default(),
        apply_account: apply_account.unwrap_or_default(),
    }
}

/// What an agent says of a run; nothing where a later agent says what is not known here.
///
/// # Errors
/// For a run or a phase that is none.
pub(super) fn reported(report: v1::StackRunReport) -> Result<Option<ReportedRun>, Status> {
    let state = match report.state() {
        State::Unknown => return Ok(None),
        State::Created => ReportedRunState::Created,
        State::Waiting => ReportedRunState::Waiting,
        State::Ended => ReportedRunState::Ended,
        State::Gone => ReportedRunState::Gone,
        State::Refused => ReportedRunState::Refused,
    };
    let v1::StackRunReport { run_id, phase: said, attempt, state: _, message, namespace, job, exit_code } =
        report;
    Ok(Some(ReportedRun {
        id: id(&run_id)?,
        phase: phase(&said)?,
        attempt,
        state,
        message,
        // As long as Kubernetes' names are: people are shown it, and it is kept.
        job: (!job.is_empty() && job.len() <= 253 && namespace.len() <= 253)
            .then_some(JobRef { namespace, name: job }),
        exit_code,
    }))
}

/// # Errors
/// For a word that is no phase.
pub(super) fn phase(word: &str) -> Result<RunPhase, Status> {
    RunPhase::parse(word)
        .ok_or_else(|| Status::invalid_argument(format!("{word:?} is no phase of a run: plan or apply")))
}

#[cfg(test)]
mod tests {
    use plural_core::ids::StackRunId;
    use plural_core::stack_settings::JobDefaults;
    use plural_core::stack_spec::JobSpec;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_agent_is_told_the_whole_job() {
        let named = |namespace: &str| JobSpec { namespace: Some(namespace.to_owned()), ..JobSpec::default() };
        let mut own = JobSpec::default();
        own.labels.insert("tier".to_owned(), "1".to_owned());
        let said = JobDefaults { project: named("team-a"), installation: named("all") };
        let spec = StackSpec { job: own, ..StackSpec::default() }.with_job_defaults(said);
        let read: Value = serde_json::from_str(&job_json(&spec).unwrap()).unwrap();
        assert_eq!((&read["namespace"], &read["labels"]), (&json!("team-a"), &json!({"tier": "1"})));
    }

    fn report(state: State) -> v1::StackRunReport {
        v1::StackRunReport {
            run_id: StackRunId::new().to_string(),
            phase: "apply".to_owned(),
            attempt: 2,
            state: state.into(),
            namespace: "plural-runs".to_owned(),
            job: "a".to_owned(),
            exit_code: 3,
            ..v1::StackRunReport::default()
        }
    }

    #[test]
    fn reports_of_runs_are_read() {
        let said = report(State::Ended);
        let read = reported(said.clone()).unwrap().unwrap();
        assert_eq!((read.id.to_string(), read.phase, read.attempt), (said.run_id, RunPhase::Apply, 2));
        assert_eq!((read.state, read.exit_code), (ReportedRunState::Ended, 3));
        assert_eq!(read.job, Some(JobRef { namespace: "plural-runs".to_owned(), name: "a".to_owned() }));
        let without = v1::StackRunReport { job: String::new(), ..report(State::Refused) };
        assert_eq!(reported(without).unwrap().unwrap().job, None);
        // A later agent may say what this console does not know.
        let later = v1::StackRunReport { state: 99, ..report(State::Ended) };
        assert_eq!(reported(later).unwrap(), None);
        for wrong in [
            v1::StackRunReport { run_id: "x".to_owned(), ..report(State::Gone) },
            v1::StackRunReport { phase: "guess".to_owned(), ..report(State::Gone) },
        ] {
            assert_eq!(reported(wrong).unwrap_err().code(), tonic::Code::InvalidArgument);
        }
    }
}
