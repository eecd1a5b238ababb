//! How a Job ends that does not come to its end by itself.

use std::time::Duration;

use plural_core::run_call::RunInput;
use plural_core::stack::StackTool;
use plural_core::stack_run::RunPhase;
use plural_core::stack_spec::Stage;
use plural_harness::Outcome;
use tokio::signal::unix::{SignalKind, signal};

use crate::fixture::{Fixture, input, program, shell, tool, variable};

/// Says when it is asked to stop, and stops.
const POLITE: &str = "trap 'echo asked; exit 3' TERM; echo started; sleep 100000 & wait";
/// Hears nothing.
const DEAF: &str = "trap 'echo asked' TERM; echo started; while :; do sleep 0.05; done";

#[tokio::test]
async fn a_command_that_hangs_is_ended_in_its_time() {
    let f = Fixture::new(vec![
        shell(0, Stage::Plan, "trap 'echo asked; exit 0' TERM; echo started; sleep 100000 & wait"),
        shell(1, Stage::Plan, "echo never"),
    ])
    .await;
    f.change(|input| input.spec.timeout_seconds = 1);
    assert_eq!(f.run().await, Outcome::Failed);
    assert!(f.console.error().contains("the step plan took longer than 1 seconds"), "{}", f.console.error());
    assert!(f.console.log(0).contains("asked\n"), "{}", f.console.log(0));
    assert_eq!(f.console.log(1), "");
}

#[tokio::test]
async fn sigterm_reaches_the_command_with_its_grace() {
    let f = Fixture::new(vec![shell(0, Stage::Plan, POLITE)]).await;
    let running = f.begin();
    f.logged("started").await;
    f.shutdown.request();
    assert_eq!(running.await.unwrap(), Outcome::Failed);
    assert!(f.console.log(0).starts_with("started\n") && f.console.log(0).contains("asked\n"));
    let done = f.console.done();
    assert!(!done.succeeded && !done.cancelled && done.interrupted);
    assert!(done.error.unwrap().contains("SIGTERM"));
}

#[tokio::test]
async fn what_a_shell_started_has_the_grace_as_well() {
    // The outer shell ends at once; the inner one needs a moment longer than what is left running has otherwise.
    let script = "sh -c \"trap 'sleep 3; echo asked; exit' TERM; echo started; sleep 100000 & wait\" & wait";
    let f = Fixture::new(vec![shell(0, Stage::Plan, script)]).await;
    let running = f.begin();
    f.logged("started").await;
    f.shutdown.request();
    assert_eq!(running.await.unwrap(), Outcome::Failed);
    assert!(f.console.log(0).contains("asked\n"), "{}", f.console.log(0));
}

#[tokio::test]
async fn after_its_grace_a_command_is_killed() {
    let mut f = Fixture::new(vec![shell(0, Stage::Plan, DEAF)]).await;
    // Long enough for a shell to come to what it was asked, on a busy machine.
    f.pace.grace = Duration::from_secs(3);
    let running = f.begin();
    f.logged("started").await;
    f.shutdown.request();
    assert_eq!(running.await.unwrap(), Outcome::Failed);
    assert!(f.console.log(0).contains("asked\n"), "{}", f.console.log(0));
}

#[tokio::test]
async fn a_tool_is_asked_by_the_signal_that_it_knows() {
    // A process that ignores SIGINT would hand that on to its children; the program itself listens to it.
    let _listens = signal(SignalKind::interrupt()).unwrap();
    let script = "trap 'echo interrupted; exit 1' INT; trap 'echo terminated; exit 1' TERM\n\
                  echo started; sleep 100000 & wait";
    let mut f = Fixture::new(Vec::new()).await;
    // What a shell starts in the background ignores SIGINT, and is killed after the grace.
    f.pace.grace = Duration::from_secs(3);
    let path = program(f.folder.path(), "ansible-playbook", script);
    f.change(|input| {
        input.tool = StackTool::Ansible;
        input.steps = vec![tool(0, Stage::Plan, "ansible-playbook", &["--check", "main.yaml"])];
        input.environment = vec![variable("PATH", path, false)];
    });
    let running = f.begin();
    f.logged("started").await;
    f.console.with(|told| told.cancel = true);
    assert_eq!(running.await.unwrap(), Outcome::Failed);
    let log = f.console.log(0);
    assert!(log.contains("interrupted\n") && !log.contains("terminated"), "{log}");
    let done = f.console.done();
    assert!(done.cancelled && done.error.unwrap().contains("cancelled"));
    assert!(f.console.with(|told| told.beats) > 0);
}

#[tokio::test]
async fn a_job_that_does_not_count_begins_nothing() {
    let f = Fixture::new(vec![shell(0, Stage::Plan, "echo began")]).await;
    f.console.with(|told| told.ended = true);
    assert_eq!(f.run().await, Outcome::Refused);
    assert!(f.printed().contains("does not take this Job's credential"), "{}", f.printed());
    f.console.with(|told| assert!(told.done.is_none() && told.steps.is_empty()));
    assert!(!f.folder.path().join("run").exists());
}

#[tokio::test]
async fn a_job_that_no_longer_counts_stops_its_command() {
    let f = Fixture::new(vec![shell(
        0,
        Stage::Plan,
        "trap 'echo asked >asked; exit 3' TERM; echo started; \
                                                     while :; do sleep 0.05; done",
    )])
    .await;
    let running = f.begin();
    f.logged("started").await;
    f.console.with(|told| told.ended = true);
    assert_eq!(running.await.unwrap(), Outcome::Refused);
    assert!(f.work().join("asked").exists(), "the command had its grace");
    f.console.with(|told| assert!(told.done.is_none()));
}

#[tokio::test]
async fn the_reason_of_a_refusal_is_told() {
    let f =
        Fixture::new(vec![shell(0, Stage::Plan, "echo one"), shell(1, Stage::Verify, "echo never")]).await;
    f.console.with(|told| told.refuses_plan = Some("the state moved since"));
    assert_eq!(f.run().await, Outcome::Refused);
    assert!(f.printed().contains("the console refuses: the state moved since"), "{}", f.printed());
    assert_eq!(f.console.log(1), "");
}

#[tokio::test]
async fn a_report_whose_answer_is_lost_has_arrived() {
    let f = Fixture::new(vec![shell(0, Stage::Plan, "echo one")]).await;
    f.console.with(|told| told.loses_done = true);
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    assert!(f.console.done().succeeded);
}

#[tokio::test]
async fn a_console_that_is_away_ends_the_job_in_the_end() {
    let mut f = Fixture::new(vec![shell(0, Stage::Plan, "echo one")]).await;
    // Nobody listens there.
    let held = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    f.console.url = format!("http://{}", held.local_addr().unwrap());
    drop(held);
    f.pace.patience = Duration::from_millis(100);
    assert_eq!(f.run().await, Outcome::Failed);
    assert!(f.printed().contains("the console could not be reached"), "{}", f.printed());
}

#[tokio::test]
async fn a_program_that_the_image_lacks_is_named() {
    let steps = vec![tool(0, Stage::Apply, "no-such-tool", &["apply"])];
    let input: RunInput = input(StackTool::Custom, RunPhase::Apply, steps);
    let f = Fixture::of(input, &[("app/main.txt", "code\n")]).await;
    assert_eq!(f.run().await, Outcome::Failed);
    let error = f.console.error();
    assert!(error.contains("no program `no-such-tool`") && error.contains("configuration.image"), "{error}");
    assert!(f.console.log(0).contains(&error), "{}", f.console.log(0));
}
