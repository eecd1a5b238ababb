//! What commands print, and what of it arrives.

use plural_core::run_call::MAX_STEP_LOG;
use plural_core::stack_run::{PlanSummary, StepStatus};
use plural_core::stack_spec::Stage;
use plural_harness::Outcome;

use crate::fixture::{Fixture, shell, variable};

#[tokio::test]
async fn both_streams_arrive_in_order_and_are_the_text_of_the_plan() {
    let script = "echo one; echo two >&2; printf '\\033[32mthree\\033[0m\\n'; cat main.txt";
    let f = Fixture::new(vec![
        shell(0, Stage::Init, "echo begins"),
        shell(1, Stage::Plan, script),
        shell(2, Stage::Plan, "echo four"),
    ])
    .await;
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    let colours = "one\ntwo\n\u{1b}[32mthree\u{1b}[0m\ncode\n";
    assert_eq!((f.console.log(0), f.console.log(1)), ("begins\n".to_owned(), colours.to_owned()));
    assert_eq!(f.printed(), format!("begins\n{colours}four\n"));
    f.console.with(|told| {
        assert_eq!(told.parts["text"], b"one\ntwo\nthree\ncode\nfour\n");
        assert_eq!(told.parts.len(), 1, "a stack of its own commands has no other part");
        let planned = told.planned.as_ref().unwrap();
        assert_eq!(planned.summary, PlanSummary { other: true, ..PlanSummary::default() });
        assert_eq!(planned.text_digest, crate::fixture::digest(&told.parts["text"]));
        let said: Vec<_> =
            told.steps.iter().map(|(index, step)| (*index, step.status, step.exit_code)).collect();
        let (running, good) = (StepStatus::Running, StepStatus::Successful);
        let expected = (0..3).flat_map(|index| [(index, running, None), (index, good, Some(0))]);
        assert_eq!(said, expected.collect::<Vec<_>>());
    });
    let done = f.console.done();
    assert!(done.succeeded && !done.changed && !done.cancelled && done.error.is_none());
}

#[tokio::test]
async fn secrets_are_hidden_wherever_they_are_printed() {
    let script = "printf hun; printf 'ter2-and more\\n'; echo \"$KEY\"; printf %s \"$PASSWORD\" | base64; \
                  printf 'x%sx' \"$PASSWORD\" >&2; cat token.txt; exit 7";
    let f = Fixture::new(vec![shell(0, Stage::Plan, script)]).await;
    f.change(|input| {
        input.environment = vec![
            variable("PASSWORD", "hunter2-and", true),
            variable("KEY", "first line of it\nsecond line of it", true),
            variable("OPEN", "more", false),
        ];
        input.files.insert("token.txt".to_owned(), "f1le-t0ken\n".to_owned());
    });
    assert_eq!(f.run().await, Outcome::Failed);
    let expected = "*** more\n***\n***\n***=\nx***x***\n";
    let log = f.console.log(0);
    assert_eq!(log, format!("{expected}the step plan ended with exit code 7: its log says why\n"));
    for secret in ["hunter2", "first line", "second line", "f1le-t0ken", "aHVudGVyMi"] {
        assert!(!f.printed().contains(secret) && !f.console.error().contains(secret), "{secret}");
    }
    assert!(f.console.error().contains("exit code 7"));
    let last = f.console.with(|told| told.steps.last().cloned()).unwrap().1;
    assert_eq!((last.status, last.exit_code), (StepStatus::Failed, Some(7)));
}

#[tokio::test]
async fn commands_have_the_token_of_the_actor_and_no_log_has_it() {
    let script = "echo \"$PLURAL_CONSOLE_TOKEN\"; test -n \"$PLURAL_CONSOLE_URL\" && echo \"${#PLURAL_CONSOLE_TOKEN}\"";
    let f = Fixture::new(vec![shell(0, Stage::Plan, script)]).await;
    let token = format!("run-actor-{}", "0f".repeat(32));
    let printed = format!("***\n{}\n", token.len());
    f.change(|input| input.actor_token = Some(token));
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    assert_eq!(f.printed(), printed);
}

#[tokio::test]
async fn of_too_much_the_beginning_and_the_end_are_kept() {
    let script = "echo the beginning; yes 0123456789abcdef0123456789abcde | head -c 33554432; echo the end";
    let f = Fixture::new(vec![shell(0, Stage::Plan, script)]).await;
    assert_eq!(f.run().await, Outcome::Done, "{}", f.console.log(0).len());
    let log = f.console.log(0);
    assert!(log.starts_with("the beginning\n") && log.ends_with("\nthe end\n"));
    assert!(log.len() as u64 <= MAX_STEP_LOG && log.len() as u64 > MAX_STEP_LOG - 1_000, "{}", log.len());
    let note = log.lines().find(|line| line.contains("bytes are not kept")).unwrap();
    let dropped: usize = note.split(' ').find_map(|word| word.parse().ok()).unwrap();
    let all = "the beginning\n".len() + 33_554_432 + "the end\n".len();
    assert_eq!(log.len() - note.len() - "\n\n".len() + dropped, all);
}

#[tokio::test]
async fn no_line_is_lost_or_doubled_over_a_bad_connection() {
    let script = "i=0; while [ $i -lt 20000 ]; do echo \"line $i\"; i=$((i+1)); done; printf 'the last one'";
    let f = Fixture::new(vec![shell(0, Stage::Plan, script)]).await;
    f.console.with(|told| told.loses = true);
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed().len());
    let lines: Vec<String> =
        (0..20_000).flat_map(|number| ["line ".to_owned(), number.to_string(), "\n".to_owned()]).collect();
    let expected = lines.concat() + "the last one";
    assert!(f.console.log(0) == expected, "{} bytes of {}", f.console.log(0).len(), expected.len());
}

#[tokio::test]
async fn what_a_command_leaves_running_ends_with_it() {
    let f = Fixture::new(vec![shell(0, Stage::Plan, "echo before; sleep 100000 & echo after")]).await;
    assert_eq!(f.run().await, Outcome::Done);
    assert_eq!(f.console.log(0), "before\nafter\n");
}
