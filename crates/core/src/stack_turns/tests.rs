use super::*;
use crate::error::ErrorCode;
use crate::ids::{RunStepId, StackRunId};
use crate::stack_dependency::Upstream;
use crate::stack_exec::{ExecCommand, ExecCommands};
use crate::stack_run::samples::run;
use crate::stack_run::{PlanSummary, RunApproval, RunKind, RunPlan, RunSource};

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_000_000 + seconds, 0).unwrap()
}

fn planned(add: u64) -> RunPlan {
    RunPlan {
        digest: "d1".to_owned(),
        file_digest: None,
        file_size: 0,
        summary: PlanSummary { add, ..PlanSummary::default() },
        state_serial: None,
        lock_digest: None,
        at: at(0),
    }
}

fn waiting() -> StackRun {
    StackRun { plan: Some(planned(1)), ..run(RunStatus::PendingApproval, RunPhase::Plan) }
}

fn report(succeeded: bool) -> RunReport {
    RunReport { succeeded, cancelled: false, error: None, changed: false, outputs: None, interrupted: false }
}

fn status(turn: &Turn) -> Option<RunStatus> {
    match turn {
        Turn::Over(status, _) | Turn::Unbegun(status, _) => Some(*status),
        Turn::Waits | Turn::Applies | Turn::Again(_) => None,
    }
}

#[test]
fn a_plan_leads_to_what_its_kind_and_content_ask_for() {
    let ended = StackRun { plan: Some(planned(1)), ..run(RunStatus::Running, RunPhase::Plan) };
    assert_eq!(after_job(&ended, &report(true)), Turn::Applies);
    let empty = StackRun { plan: Some(planned(0)), ..ended.clone() };
    assert_eq!(after_job(&empty, &report(true)), Turn::Over(RunStatus::Successful, None));
    let dry = StackRun { kind: RunKind::DryRun, ..ended.clone() };
    assert_eq!(after_job(&dry, &report(true)), Turn::Over(RunStatus::Successful, None));
    let mut approved = ended.clone();
    approved.snapshot.spec.approval.required = true;
    assert_eq!(after_job(&approved, &report(true)), Turn::Waits);
    // A dry run waits for nobody, and an empty plan is approved by itself.
    let empty = StackRun { plan: Some(planned(0)), ..approved.clone() };
    assert_eq!(after_job(&empty, &report(true)), Turn::Over(RunStatus::Successful, None));
    for kind in [RunKind::DryRun, RunKind::Drift] {
        let only = StackRun { kind, ..approved.clone() };
        assert_eq!(after_job(&only, &report(true)), Turn::Over(RunStatus::Successful, None));
    }

    assert_eq!(status(&after_job(&ended, &report(false))), Some(RunStatus::Failed));
    let without = StackRun { plan: None, ..ended.clone() };
    assert_eq!(status(&after_job(&without, &report(true))), Some(RunStatus::Failed));
    // Somebody asked for its end after the harness had heard for the last time.
    let asked = StackRun { cancel_asked: true, ..ended };
    assert_eq!(status(&after_job(&asked, &report(true))), Some(RunStatus::Cancelled));
}

/// Also where the stack asks for approval: those that need it are in the second Job.
#[test]
fn commands_are_over_after_the_job_that_they_are_of() {
    let mut run = StackRun {
        kind: RunKind::Commands,
        plan: Some(planned(0)),
        ..run(RunStatus::Running, RunPhase::Plan)
    };
    let of = |phase| {
        Some(ExecCommands {
            phase,
            commands: vec![ExecCommand::default()],
            custom: None,
            answers: Vec::new(),
        })
    };
    run.snapshot.spec.exec = of(RunPhase::Plan);
    assert_eq!(after_job(&run, &report(true)), Turn::Over(RunStatus::Successful, None));
    run.snapshot.spec.exec = of(RunPhase::Apply);
    assert_eq!(after_job(&run, &report(true)), Turn::Applies);
    run.snapshot.spec.approval.required = true;
    assert_eq!(after_job(&run, &report(true)), Turn::Waits);
    run.snapshot.spec.exec = of(RunPhase::Plan);
    assert_eq!(after_job(&run, &report(true)), Turn::Over(RunStatus::Successful, None));
    assert_eq!(status(&after_job(&run, &report(false))), Some(RunStatus::Failed));
}

/// Where only the Job is lost that was to show them, nothing has happened yet.
#[test]
fn commands_that_may_have_run_do_not_run_again_by_themselves() {
    let mut run = StackRun { kind: RunKind::Commands, ..run(RunStatus::Running, RunPhase::Plan) };
    let of = |phase| {
        Some(ExecCommands {
            phase,
            commands: vec![ExecCommand::default()],
            custom: None,
            answers: Vec::new(),
        })
    };
    run.snapshot.spec.exec = of(RunPhase::Plan);
    let Turn::Over(RunStatus::Failed, Some(told)) = after_loss(&run, "lost", true) else { panic!() };
    assert!(told.starts_with("lost; its commands may have run"), "{told}");
    assert!(matches!(after_loss(&run, "lost", false), Turn::Again(_)));
    let asked = StackRun { cancel_asked: true, ..run.clone() };
    assert_eq!(status(&after_loss(&asked, "lost", true)), Some(RunStatus::Cancelled));
    run.snapshot.spec.exec = of(RunPhase::Apply);
    assert!(matches!(after_loss(&run, "lost", true), Turn::Again(_)));
    run.phase = RunPhase::Apply;
    assert_eq!(status(&after_loss(&run, "lost", true)), Some(RunStatus::Failed));
}

#[test]
fn an_apply_says_whether_it_may_have_changed_something() {
    let run = StackRun { plan: Some(planned(1)), ..run(RunStatus::Running, RunPhase::Apply) };
    assert_eq!(after_job(&run, &report(true)), Turn::Over(RunStatus::Successful, None));
    // It was done before it heard.
    let asked = StackRun { cancel_asked: true, ..run.clone() };
    assert_eq!(after_job(&asked, &report(true)), Turn::Over(RunStatus::Successful, None));
    let failed = RunReport { changed: true, error: Some("exit code 1".to_owned()), ..report(false) };
    let Turn::Over(RunStatus::Failed, Some(error)) = after_job(&run, &failed) else { panic!() };
    assert!(error.starts_with("exit code 1; it may have changed something"), "{error}");
    let refused = RunReport { error: Some("another lock file".to_owned()), ..report(false) };
    let expected = Turn::Over(RunStatus::Failed, Some("another lock file".to_owned()));
    assert_eq!(after_job(&run, &refused), expected);
    let asked = StackRun { cancel_asked: true, ..run.clone() };
    assert_eq!(status(&after_job(&asked, &failed)), Some(RunStatus::Cancelled));
    let cancelled = RunReport { cancelled: true, ..failed };
    assert_eq!(status(&after_job(&run, &cancelled)), Some(RunStatus::Cancelled));
}

#[test]
fn a_pod_that_is_told_to_end_while_it_plans_is_made_anew() {
    let told = RunReport { interrupted: true, error: Some("SIGTERM".to_owned()), ..report(false) };
    let planning = |attempt| StackRun { attempt, ..run(RunStatus::Running, RunPhase::Plan) };
    let Turn::Again(note) = after_job(&planning(1), &told) else { panic!() };
    assert!(note.starts_with("SIGTERM; nothing was applied"), "{note}");
    let Turn::Unbegun(RunStatus::Failed, error) = after_job(&planning(ATTEMPTS), &told) else { panic!() };
    assert!(error.contains("nothing was applied"), "{error}");
    // The agent ends a run that is cancelled in this way.
    let asked = StackRun { cancel_asked: true, ..planning(1) };
    assert_eq!(status(&after_job(&asked, &told)), Some(RunStatus::Cancelled));

    // Before anything was applied, also an apply.
    let applying = run(RunStatus::Running, RunPhase::Apply);
    let Turn::Again(note) = after_job(&applying, &told) else { panic!() };
    assert!(note.starts_with("SIGTERM; nothing was applied"), "{note}");
    let asked = StackRun { cancel_asked: true, ..applying.clone() };
    assert_eq!(status(&after_job(&asked, &told)), Some(RunStatus::Cancelled));
    // What was applied in part is not begun again.
    let Turn::Over(RunStatus::Failed, Some(error)) =
        after_job(&applying, &RunReport { changed: true, ..told.clone() })
    else {
        panic!()
    };
    assert!(error.starts_with("SIGTERM; it may have changed something"), "{error}");
}

#[test]
fn only_where_nothing_was_applied_it_is_tried_again() {
    let lost = |phase, attempt, begun| {
        after_loss(&StackRun { attempt, ..run(RunStatus::Running, phase) }, "it is gone", begun)
    };
    assert!(matches!(lost(RunPhase::Plan, 1, true), Turn::Again(_)));
    assert!(matches!(lost(RunPhase::Plan, 2, true), Turn::Again(_)));
    assert_eq!(status(&lost(RunPhase::Plan, 3, true)), Some(RunStatus::Failed));
    assert!(matches!(lost(RunPhase::Apply, 1, false), Turn::Again(_)));
    let Turn::Unbegun(RunStatus::Failed, error) = lost(RunPhase::Apply, 3, false) else { panic!() };
    assert_eq!(error, "it is gone, 3 times in a row; nothing was applied");
    let asked = StackRun { cancel_asked: true, ..run(RunStatus::Running, RunPhase::Apply) };
    let Turn::Unbegun(RunStatus::Cancelled, error) = after_loss(&asked, "it is gone", false) else {
        panic!()
    };
    assert_eq!(error, "it is gone; nothing was applied");
    let Turn::Over(RunStatus::Failed, Some(error)) = lost(RunPhase::Apply, 1, true) else { panic!() };
    assert!(error.contains("may have changed something"), "{error}");
    let asked = StackRun { cancel_asked: true, ..run(RunStatus::Running, RunPhase::Plan) };
    assert_eq!(status(&after_loss(&asked, "it is gone", true)), Some(RunStatus::Cancelled));
}

/// A step that ended has begun, too, whether somebody said so or not.
#[test]
fn what_changes_something_has_begun_with_its_step() {
    let step = |phase, stage, status| RunStep {
        id: RunStepId::new(),
        run_id: StackRunId::new(),
        phase,
        index: 0,
        stage,
        name: String::new(),
        cmd: String::new(),
        args: Vec::new(),
        status,
        exit_code: None,
        started_at: None,
        finished_at: None,
    };
    let (plan, apply) = (RunPhase::Plan, RunPhase::Apply);
    let begun = |run: &StackRun, phase, stage, status| has_begun(run, &[step(phase, stage, status)]);
    let applies = run(RunStatus::Running, apply);
    assert!(!has_begun(&applies, &[]));
    for stage in [Stage::Apply, Stage::Destroy] {
        assert!(!begun(&applies, apply, stage, StepStatus::Pending));
        for status in [StepStatus::Running, StepStatus::Successful, StepStatus::Failed] {
            assert!(begun(&applies, apply, stage, status));
        }
    }
    assert!(!begun(&applies, apply, Stage::Init, StepStatus::Running));
    assert!(!begun(&applies, plan, Stage::Plan, StepStatus::Successful));
    let plans = run(RunStatus::Running, plan);
    assert!(!begun(&plans, plan, Stage::Plan, StepStatus::Running));
    // Of commands that somebody gave, those that look count as well.
    let mut commands = StackRun { kind: RunKind::Commands, ..plans };
    let given = ExecCommands { phase: plan, commands: Vec::new(), custom: None, answers: Vec::new() };
    commands.snapshot.spec.exec = Some(given);
    assert!(begun(&commands, plan, Stage::Plan, StepStatus::Running));
    assert!(!begun(&commands, plan, Stage::Init, StepStatus::Running));
    // Which step begins with a Job of which nobody says in time what it does.
    let at = |index, stage, status| RunStep { index, ..step(apply, stage, status) };
    let init = at(3, Stage::Init, StepStatus::Running);
    let later = at(5, Stage::Apply, StepStatus::Pending);
    let first = at(4, Stage::Apply, StepStatus::Pending);
    assert_eq!(first_to_begin(&applies, &[init.clone(), later.clone(), first.clone()]), Some(4));
    let first = RunStep { status: StepStatus::Running, ..first };
    assert_eq!(first_to_begin(&applies, &[init.clone(), first, later]), None);
    assert_eq!(first_to_begin(&applies, &[init]), None);
    assert_eq!(first_to_begin(&commands, &[at(0, Stage::Apply, StepStatus::Pending)]), None);
}

#[test]
fn no_run_stays_as_it_is_for_ever() {
    let heard = |run: StackRun, seconds| StackRun { heartbeat_at: Some(at(seconds)), ..run };
    let blue = Around { cluster: "blue", heard: None, begun: true };
    let tended = |run: &StackRun, seconds| tend(run, &blue, at(seconds));

    let running = heard(run(RunStatus::Running, RunPhase::Plan), 100);
    assert_eq!(tended(&running, 160), None);
    // A clock that was set back: a little, and so far that it would be there again too late.
    assert_eq!(tended(&running, 40), None);
    assert!(matches!(tended(&running, 39), Some(Turn::Again(_))));
    assert!(matches!(tended(&running, 161), Some(Turn::Again(_))));
    let applying = heard(run(RunStatus::Running, RunPhase::Apply), 100);
    assert_eq!(tended(&applying, 161).as_ref().and_then(status), Some(RunStatus::Failed));
    let unbegun = tend(&applying, &Around { begun: false, ..blue }, at(161));
    assert!(matches!(unbegun, Some(Turn::Again(_))), "{unbegun:?}");

    let pending = heard(run(RunStatus::Pending, RunPhase::Plan), 100);
    assert_eq!(tended(&pending, 1000), None);
    let Some(Turn::Over(RunStatus::Failed, Some(error))) = tended(&pending, 1001) else { panic!() };
    assert!(
        error.contains("agent of cluster blue did not start it within 15 minutes: it has never connected")
    );
    let noted = StackRun { error: Some("no such image".to_owned()), ..pending };
    let Some(Turn::Over(_, Some(error))) = tend(&noted, &Around { heard: Some(at(7)), ..blue }, at(2000))
    else {
        panic!()
    };
    assert!(error.contains("it last connected at 1970-01-12") && error.contains("no such image"), "{error}");

    let queued = run(RunStatus::Queued, RunPhase::Plan);
    assert_eq!(tended(&queued, 1800), None);
    assert_eq!(tended(&queued, 1801).as_ref().and_then(status), Some(RunStatus::Failed));
    // It waits for its turn.
    let source = RunSource {
        sha: "a".to_owned(),
        message: String::new(),
        author: String::new(),
        emails: Vec::new(),
        more_emails: false,
        commits: Vec::new(),
        closure_digest: "b".to_owned(),
        artifact_digest: "c".to_owned(),
        folder: String::new(),
    };
    assert_eq!(tended(&StackRun { source: Some(source), ..queued.clone() }, 1_000_000), None);
    // One that waits for other stacks has all the time; its own begins when they are done.
    let mut held = queued;
    held.snapshot.upstream = Some(Upstream::default());
    assert_eq!(tended(&held, 1_000_000), None);
    // What only looks, or destroys, waits for no other stack: its code has as long as that of every run.
    let looks = StackRun { kind: RunKind::Drift, ..held.clone() };
    assert!(tended(&looks, 1_000_000).is_some());
    held.snapshot.upstream = Some(Upstream { settled_at: Some(at(1_000_000)), ..Upstream::default() });
    assert_eq!(tended(&held, 1_000_060), None);
    assert!(tended(&held, 1_010_000).is_some());

    let mut waits = waiting();
    assert_eq!(tended(&waits, 1_000_000), None);
    waits.snapshot.spec.approval.expires_seconds = 7200;
    assert_eq!(tended(&waits, 7200), None);
    let lapsed = Turn::Over(RunStatus::Cancelled, Some("nobody approved it within 2 hours".to_owned()));
    assert_eq!(tended(&waits, 7201), Some(lapsed));
    // Those who agreed at the same moment, each as the last but one.
    waits.approvals = vec![approval(UserId::new(), "d1")];
    assert_eq!(tended(&waits, 100), Some(Turn::Applies));
    // The console that was to apply it ended, and is back later than the plan may wait.
    assert_eq!(tended(&waits, 7201), Some(Turn::Applies));
    for over in [RunStatus::Successful, RunStatus::Failed, RunStatus::Cancelled] {
        assert_eq!(tended(&run(over, RunPhase::Apply), 1_000_000), None);
    }
}

#[test]
fn some_of_its_time_is_watched_in_any_case() {
    let minutes = TimeDelta::minutes;
    for (term, before, expected) in [
        (minutes(15), minutes(0), minutes(15)),
        // The console was away, or the clock jumped.
        (minutes(15), minutes(600), minutes(15)),
        (minutes(30), minutes(10), minutes(20)),
        (minutes(30), minutes(600), minutes(15)),
        (minutes(600), minutes(0), minutes(600)),
        (minutes(600), minutes(100_000), minutes(15)),
        (minutes(1), minutes(600), minutes(1)),
    ] {
        assert_eq!(watch_needed(term, before), expected, "{term} {before}");
    }
}

fn approval(user_id: UserId, digest: &str) -> RunApproval {
    RunApproval { user_id, by: user_id.to_string(), digest: digest.to_owned(), at: at(1), mac: String::new() }
}

#[test]
fn who_may_agree_to_what() {
    let (ada, bob) = (UserId::new(), UserId::new());
    let code = |run: &StackRun, user: UserId, digest: Option<&str>, changed_by, seconds| {
        let name = user.to_string();
        let approver = Approver { user, name: &name, digest, changed_by };
        check_approver(run, &approver, at(seconds)).err().map(|error| error.code())
    };
    let mut run = StackRun { created_by: Some(ada), ..waiting() };
    assert_eq!(code(&run, bob, Some("d1"), None, 1), None);
    assert_eq!(code(&run, ada, Some("d1"), Some(ada), 1), None);
    assert_eq!(code(&run, bob, None, None, 1), Some(ErrorCode::Invalid));
    assert_eq!(code(&run, bob, Some(""), None, 1), Some(ErrorCode::Invalid));
    assert_eq!(code(&run, bob, Some("d2"), None, 1), Some(ErrorCode::Conflict));
    let other = Approver { user: bob, name: "bob", digest: Some("d2"), changed_by: None };
    let refused = check_approver(&run, &other, at(1)).unwrap_err().to_string();
    assert!(refused.contains("its digest is d1"), "{refused}");

    run.snapshot.spec.approval.forbid_self = true;
    assert_eq!(code(&run, ada, Some("d1"), None, 1), Some(ErrorCode::Forbidden));
    assert_eq!(code(&run, bob, Some("d1"), Some(bob), 1), Some(ErrorCode::Forbidden));
    assert_eq!(code(&run, bob, Some("d1"), Some(ada), 1), None);

    run.snapshot.spec.approval.expires_seconds = 60;
    assert_eq!(code(&run, bob, Some("d1"), None, 60), None);
    assert_eq!(code(&run, bob, Some("d1"), None, 61), Some(ErrorCode::Conflict));

    run.approvals.push(approval(bob, "d1"));
    assert_eq!(code(&run, bob, Some("d1"), None, 1), Some(ErrorCode::Conflict));
    for status in RunStatus::ALL.into_iter().filter(|status| *status != RunStatus::PendingApproval) {
        let run = StackRun { status, approvals: Vec::new(), ..run.clone() };
        assert_eq!(code(&run, bob, Some("d1"), None, 1), Some(ErrorCode::Conflict), "{status:?}");
    }
}

/// A service account that somebody assumes is no second person: neither beside them, nor beside another one that they assume.
#[test]
fn whoever_assumes_an_account_is_one_with_it() {
    let code = |run: &StackRun, name| {
        let approver = Approver { user: UserId::new(), name, digest: Some("d1"), changed_by: None };
        check_approver(run, &approver, at(1)).err().map(|error| error.code())
    };
    let robot = "robot@example.com (assumed by ada@example.com)";
    let nested = "other@example.com (assumed by robot@example.com (assumed by ada@example.com))";
    let mut run = waiting();
    run.snapshot.spec.approval.approvers = 2;
    run.approvals.push(RunApproval { by: robot.to_owned(), ..approval(UserId::new(), "d1") });
    for name in ["ada@example.com", robot, nested] {
        assert_eq!(code(&run, name), Some(ErrorCode::Conflict), "{name}");
    }
    assert_eq!(code(&run, "bob@example.com"), None);
    run.approvals.push(RunApproval { by: "ada@example.com".to_owned(), ..approval(UserId::new(), "d1") });
    assert!(!is_approved(&run));
    run.approvals.push(RunApproval { by: "bob@example.com".to_owned(), ..approval(UserId::new(), "d1") });
    assert!(is_approved(&run));

    for author in ["ada@example.com", robot] {
        let mut run = StackRun { author: author.to_owned(), created_by: Some(UserId::new()), ..waiting() };
        assert_eq!(code(&run, nested), None);
        run.snapshot.spec.approval.forbid_self = true;
        for name in ["ada@example.com", robot, nested] {
            assert_eq!(code(&run, name), Some(ErrorCode::Forbidden), "{author} {name}");
        }
        assert_eq!(code(&run, "bob@example.com"), None);
    }
}

/// Whoever wrote the code of a run, or committed it, does not approve that by themselves.
#[test]
fn whoever_wrote_the_commit_is_one_of_those_whose_own_it_is() {
    let code = |run: &StackRun, name| {
        let approver = Approver { user: UserId::new(), name, digest: Some("d1"), changed_by: None };
        check_approver(run, &approver, at(1)).err().map(|error| error.code())
    };
    let mut run = waiting();
    run.source = Some(RunSource {
        sha: "a".to_owned(),
        message: String::new(),
        author: "Ada".to_owned(),
        emails: vec!["Ada@Example.com".to_owned(), "merger@example.com".to_owned()],
        more_emails: false,
        commits: Vec::new(),
        closure_digest: "b".to_owned(),
        artifact_digest: "c".to_owned(),
        folder: String::new(),
    });
    let robot = "robot@example.com (assumed by ada@example.com)";
    assert_eq!(code(&run, "ada@example.com"), None);
    run.snapshot.spec.approval.forbid_self = true;
    for name in ["ada@example.com", "merger@example.com", robot] {
        assert_eq!(code(&run, name), Some(ErrorCode::Forbidden), "{name}");
    }
    assert_eq!(code(&run, "bob@example.com"), None);
    // What an account wrote is no other one's for whoever assumes it.
    assert_eq!(code(&run, "merger@example.com (assumed by bob@example.com)"), Some(ErrorCode::Forbidden));
}

/// Whose code it is that many wrote, nobody can tell: one more person has to agree.
#[test]
fn with_more_authors_than_can_be_told_one_more_person_agrees() {
    let mut run = waiting();
    run.approvals = vec![approval(UserId::new(), "d1")];
    run.source = Some(RunSource {
        sha: "a".to_owned(),
        message: String::new(),
        author: "Ada".to_owned(),
        emails: Vec::new(),
        more_emails: true,
        commits: Vec::new(),
        closure_digest: "b".to_owned(),
        artifact_digest: "c".to_owned(),
        folder: String::new(),
    });
    let is_due = |run: &StackRun| {
        let open = OpenRun {
            id: run.id,
            stack_id: run.stack_id,
            status: run.status,
            is_prepared: true,
            is_held: false,
            heartbeat_at: None,
            created_at: run.created_at,
            plan: run.plan.clone(),
            approvals: run.approvals.clone(),
            approval: run.snapshot.spec.approval.clone(),
            more_emails: true,
        };
        open.is_due(at(1))
    };
    assert!(is_approved(&run) && approvers(&run) == 1 && is_due(&run));
    run.snapshot.spec.approval.forbid_self = true;
    assert!(!is_approved(&run) && approvers(&run) == 2 && !is_due(&run));
    run.approvals.push(approval(UserId::new(), "d1"));
    assert!(is_approved(&run) && is_due(&run));
}

#[test]
fn people_are_counted_once_and_for_this_plan() {
    let (ada, bob) = (UserId::new(), UserId::new());
    let mut run = waiting();
    assert!(!is_approved(&run));
    run.approvals = vec![approval(ada, "d0")];
    assert!(!is_approved(&run));
    run.approvals.push(approval(ada, "d1"));
    assert!(is_approved(&run));
    run.snapshot.spec.approval.approvers = 2;
    run.approvals.push(approval(ada, "d1"));
    assert!(!is_approved(&run));
    run.approvals.push(approval(bob, "d1"));
    assert!(is_approved(&run));
    assert!(!is_approved(&StackRun { plan: None, ..run }));
}

#[test]
fn spans_are_told_in_the_largest_whole_unit() {
    for (seconds, expected) in [
        (61, "61 seconds"),
        (900, "15 minutes"),
        (7200, "2 hours"),
        (86_400, "24 hours"),
        (172_800, "2 days"),
        (172_801, "172801 seconds"),
    ] {
        assert_eq!(told(TimeDelta::seconds(seconds)), expected);
    }
}
