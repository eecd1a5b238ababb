//! Commands that somebody gave a run.

use plural_core::run_call::{InputPlan, InputStep};
use plural_core::stack::StackTool;
use plural_core::stack_exec::{ExecCommand, ExecCommands};
use plural_core::stack_run::{PlanSummary, RunKind, RunPhase};
use plural_core::stack_spec::{StackCommand, Stage};
use plural_harness::Outcome;

use crate::fixture::{Fixture, digest, input, shell, variable};

/// A run in a Job that is to show or run this command.
async fn fixture(phase: RunPhase, of: RunPhase, steps: Vec<InputStep>) -> Fixture {
    let files = [("app/main.tf", ""), ("app/.terraform.lock.hcl", "lock\n"), ("app/deep/a.txt", "a\n")];
    let f = Fixture::of(input(StackTool::Terraform, phase, steps), &files).await;
    let command = ExecCommand {
        cmd: "echo".to_owned(),
        args: vec!["hunter2 is it".to_owned()],
        ..ExecCommand::default()
    };
    f.change(|input| {
        input.kind = RunKind::Commands;
        input.environment = vec![variable("TOKEN", "hunter2", true)];
        input.spec.exec =
            Some(ExecCommands { phase: of, commands: vec![command], custom: None, answers: Vec::new() });
    });
    f
}

#[tokio::test]
async fn commands_run_in_their_folder_and_are_what_is_handed_in() {
    let step = InputStep { dir: Some("deep".to_owned()), ..shell(0, Stage::Plan, "cat a.txt; echo $TOKEN") };
    let f = fixture(RunPhase::Plan, RunPhase::Plan, vec![step]).await;
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    assert_eq!(f.console.log(0), "a\n***\n");
    let text = "Runs, with the rights to plan:\n  echo '*** is it'\n";
    f.console.with(|told| {
        assert_eq!(String::from_utf8_lossy(&told.parts["text"]), text);
        assert_eq!(told.parts.len(), 1);
        let planned = told.planned.as_ref().unwrap();
        assert_eq!(planned.summary, PlanSummary { other: true, ..PlanSummary::default() });
        assert_eq!(planned.text_digest, digest(text.as_bytes()));
        assert!(planned.file_digest.is_none() && planned.lock_digest.is_none());
    });
    assert!(!f.console.done().changed);
}

#[tokio::test]
async fn commands_with_the_rights_to_apply_are_shown_and_then_run() {
    let f = fixture(RunPhase::Plan, RunPhase::Apply, Vec::new()).await;
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    f.console.with(|told| {
        let text = String::from_utf8_lossy(&told.parts["text"]);
        assert_eq!(text, "Would run, with the rights to apply:\n  echo '*** is it'\n");
        assert!(told.steps.is_empty());
    });
    // There is a lock file, and the run has no plan that was made with it.
    let f = fixture(RunPhase::Apply, RunPhase::Apply, vec![shell(0, Stage::Apply, "echo did it")]).await;
    f.change(|input| {
        input.plan = Some(InputPlan { digest: "a".to_owned(), file_digest: None, lock_digest: None });
    });
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    assert_eq!(f.console.log(0), "did it\n");
    assert!(f.console.done().changed);
}

/// A stack's own commands, one of which waits for people: what they agree to says which commands would run.
#[tokio::test]
async fn a_plan_says_what_would_run_where_a_command_asks() {
    let command = |cmd: &str, stage, approve| StackCommand {
        cmd: cmd.to_owned(),
        args: vec!["hunter2 it".to_owned()],
        stage,
        approve,
    };
    let would =
        "Would run, with the rights to apply:\n  make '*** it'\n  push '*** it'  # asks for approval\n";
    for (asks, steps, expected) in [
        (true, vec![shell(0, Stage::Plan, "echo a look")], format!("a look\n\n{would}")),
        (true, Vec::new(), format!("There is no command that says what this stack would change.\n\n{would}")),
        (false, vec![shell(0, Stage::Plan, "echo a look")], "a look\n".to_owned()),
    ] {
        let f = Fixture::new(steps).await;
        f.change(|input| {
            input.environment = vec![variable("TOKEN", "hunter2", true)];
            input.spec.commands = vec![
                command("look", Some(Stage::Plan), false),
                command("make", None, false),
                command("push", Some(Stage::Apply), asks),
            ];
        });
        assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
        f.console.with(|told| {
            assert_eq!(String::from_utf8_lossy(&told.parts["text"]), expected);
            assert_eq!(told.planned.as_ref().unwrap().text_digest, digest(expected.as_bytes()));
        });
    }
}

#[tokio::test]
async fn the_first_command_that_fails_is_the_last() {
    let steps = vec![shell(0, Stage::Plan, "exit 7"), shell(1, Stage::Plan, "echo never")];
    let f = fixture(RunPhase::Plan, RunPhase::Plan, steps).await;
    assert_eq!(f.run().await, Outcome::Failed);
    assert!(f.console.error().contains("exit code 7"), "{}", f.console.error());
    f.console.with(|told| {
        assert!(told.planned.is_none() && !told.logs.contains_key(&1));
        assert_eq!(told.steps.last().map(|(index, report)| (*index, report.exit_code)), Some((0, Some(7))));
    });
}
