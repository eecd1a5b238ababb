//! Outputs that commands write to a file.

use plural_core::run_call::{InputStep, OutputReport, RunInput};
use plural_core::stack::StackTool;
use plural_core::stack_run::{RunKind, RunPhase};
use plural_core::stack_spec::Stage;
use plural_harness::Outcome;
use serde_json::{Value, json};

use crate::fixture::{Fixture, input, program, shell, tool, variable};

/// An apply of a stack of its own commands.
async fn applying(script: &str) -> Fixture {
    let steps = vec![shell(0, Stage::Apply, script)];
    Fixture::of(input(StackTool::Custom, RunPhase::Apply, steps), &[("app/main.txt", "code\n")]).await
}

fn told(f: &Fixture) -> Option<Vec<(String, Value, bool)>> {
    let report = |OutputReport { name, value, secret }| (name, value, secret);
    f.console.done().outputs.map(|outputs| outputs.into_iter().map(report).collect())
}

#[tokio::test]
async fn what_the_commands_of_an_apply_write_are_the_outputs() {
    let script = r#"
test ! -e "$PLURAL_OUTPUTS" || exit 1
case "$PLURAL_OUTPUTS" in /*) ;; *) exit 1 ;; esac
printf '{"host": "db.example.com", "zones": {"value": ["a", "b"], "sensitive": false}, "password": {"value": "x", "sensitive": true}}' \
  >"$PLURAL_OUTPUTS"
"#;
    let f = applying(script).await;
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    assert!(f.console.done().succeeded);
    let expected = [
        ("host".to_owned(), json!("db.example.com"), false),
        ("password".to_owned(), json!("x"), true),
        ("zones".to_owned(), json!(["a", "b"]), false),
    ];
    let mut found = told(&f).unwrap();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(found, expected);
}

/// The tool does not know what the console hides.
#[tokio::test]
async fn what_holds_the_value_of_a_secret_variable_is_sensitive() {
    let script = r#"printf '{"url": "https://ada:%s@db", "all": {"login": ["%s"]}, "zone": "%s"}' "$KEY" "$KEY" "$ZONE" >"$PLURAL_OUTPUTS""#;
    let f = applying(script).await;
    f.change(|input| {
        input.environment =
            vec![variable("KEY", "s3cret-value", true), variable("ZONE", "eu-central-1", false)];
    });
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    let mut found = told(&f).unwrap();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [
        ("all".to_owned(), json!({"login": ["s3cret-value"]}), true),
        ("url".to_owned(), json!("https://ada:s3cret-value@db"), true),
        ("zone".to_owned(), json!("eu-central-1"), false),
    ];
    assert_eq!(found, expected);
}

/// Ansible is the tool, and not a command of the stack's own.
#[tokio::test]
async fn a_playbook_writes_outputs() {
    let steps = vec![tool(0, Stage::Apply, "ansible-playbook", &["main.yaml"])];
    let f = Fixture::of(input(StackTool::Ansible, RunPhase::Apply, steps), &[("app/main.yaml", "")]).await;
    let path = program(f.folder.path(), "ansible-playbook", "echo '{\"size\": 3}' >\"$PLURAL_OUTPUTS\"");
    f.change(|input| input.environment = vec![variable("PATH", path, false)]);
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    assert_eq!(told(&f).unwrap(), [("size".to_owned(), json!(3), false)]);
}

#[tokio::test]
async fn who_writes_nothing_has_no_outputs_and_what_an_earlier_harness_left_counts_for_none() {
    let f = applying("true").await;
    std::fs::create_dir(f.folder.path().join("run")).unwrap();
    std::fs::write(f.folder.path().join("run/outputs.json"), "{\"old\": 1}").unwrap();
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    assert!(told(&f).unwrap().is_empty());
}

#[tokio::test]
async fn outputs_that_cannot_be_taken_fail_the_run_and_say_that_it_is_applied() {
    for (script, why) in [
        ("echo 'host: hunter2' >\"$PLURAL_OUTPUTS\"", "is no JSON (line 1, column"),
        ("echo '[\"hunter2\"]' >\"$PLURAL_OUTPUTS\"", "is no JSON object"),
        ("echo '{\"a\": 1}' >other; ln -s \"$PWD/other\" \"$PLURAL_OUTPUTS\"", "is a symbolic link"),
        ("mkfifo \"$PLURAL_OUTPUTS\"", "is no regular file"),
        ("mkdir \"$PLURAL_OUTPUTS\"", "is no regular file"),
        ("head -c 1048577 /dev/zero >\"$PLURAL_OUTPUTS\"", "is larger than 1 MiB"),
    ] {
        let f = applying(script).await;
        assert_eq!(f.run().await, Outcome::Failed, "{script}");
        let done = f.console.done();
        assert!(done.changed && done.outputs.is_none() && !done.succeeded, "{script}");
        let error = f.console.error();
        assert!(error.contains("the apply itself succeeded") && error.contains(why), "{script}: {error}");
        assert!(!error.contains("hunter2") && !f.printed().contains("hunter2"), "{script}: {error}");
    }
}

/// What a failed apply wrote is what it got to, and not what there is.
#[tokio::test]
async fn an_apply_that_fails_has_no_outputs() {
    let f = applying("echo '{\"a\": 1}' >\"$PLURAL_OUTPUTS\"; exit 3").await;
    assert_eq!(f.run().await, Outcome::Failed);
    assert!(f.console.error().contains("exit code 3"), "{}", f.console.error());
    assert!(f.console.done().outputs.is_none());
}

#[tokio::test]
async fn nothing_but_an_apply_is_told_where_to_write() {
    let look = "printf '%s' \"${PLURAL_OUTPUTS-none}\"";
    let of = |tool, kind, phase, stage: Stage| {
        let steps: Vec<InputStep> = vec![shell(0, stage, look)];
        RunInput { kind, ..input(tool, phase, steps) }
    };
    for (tool, kind, phase, stage) in [
        (StackTool::Custom, RunKind::Apply, RunPhase::Plan, Stage::Plan),
        (StackTool::Custom, RunKind::Drift, RunPhase::Plan, Stage::Plan),
        (StackTool::Custom, RunKind::Destroy, RunPhase::Apply, Stage::Destroy),
        (StackTool::Ansible, RunKind::Destroy, RunPhase::Apply, Stage::Destroy),
        // It is asked by `output -json`.
        (StackTool::Terraform, RunKind::Apply, RunPhase::Apply, Stage::Apply),
    ] {
        let f = Fixture::of(of(tool, kind, phase, stage), &[("app/main.txt", "")]).await;
        assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
        assert_eq!(f.console.log(0), "none", "{tool:?} {kind:?} {phase:?}");
        assert!(f.console.done().outputs.is_none(), "{tool:?} {kind:?} {phase:?}");
    }
}
