//! Commands that somebody runs in the environment of a stack.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const STACK: &str = "0190b8a2-7c11-7def-8000-0123456789ab";
const RUN: &str = "0190b8a2-7c11-7def-8000-000000000012";

fn run(status: &str, steps: &Value) -> Value {
    json!({
        "id": RUN, "number": 12, "kind": "COMMANDS", "trigger": "MANUAL", "status": status, "phase": "PLAN", "approval": true,
        "requiredApprovals": 1, "cancelAsked": false, "error": if status == "FAILED" { "it failed" } else { "" }, "sha": "0123456789abcdef",
        "message": "wider", "author": "ada@example.com", "stack": {"id": STACK, "name": "network"}, "plan": null, "approvals": [],
        "steps": steps,
    })
}

fn steps(status: &str, code: i64) -> Value {
    let step = |index: i64, stage: &str, status: &str, code: i64| {
        json!({
            "id": RUN, "index": index, "phase": "PLAN", "stage": stage, "name": "tofu", "cmd": "tofu", "args": [], "status": status,
            "exitCode": code,
        })
    };
    json!([step(0, "INIT", "SUCCESSFUL", 0), step(1, "PLAN", status, code)])
}

async fn server(made: &Value) -> Server {
    let stack =
        json!({"id": STACK, "name": "network", "type": "TERRAFORM", "protect": false, "paused": false});
    Server::start().await.data("GetInfrastructureStack", "infrastructureStack", &stack).data(
        "CreateOnDemandRun",
        "createOnDemandRun",
        made,
    )
}

fn logs(run: &str, step: &str, text: &str) -> Value {
    json!({"status": run, "steps": [{"status": step, "logs": {"text": text, "next": text.len()}}]})
}

/// Its words come as they were given, and nothing but what it prints is on standard output.
#[tokio::test]
async fn a_command_prints_and_ends_as_it_does() {
    for (status, step, code) in [("SUCCESSFUL", "SUCCESSFUL", 0), ("FAILED", "FAILED", 7)] {
        let over = run(status, &steps(step, code));
        let server = server(&run("QUEUED", &json!([]))).await.data("GetStackRun", "stackRun", &over).data(
            "GetStackRunLogs",
            "stackRun",
            &logs(status, step, "a.b\n"),
        );
        let person = Person::of(&server.url);
        let done = person.run("cd stacks exec network --dir deep -- tofu state list -id=a").await;
        assert_eq!((i64::from(done.code), done.out.as_str()), (code, "a.b\n"), "{done:?}");
        assert!(done.err.contains("run network/12"), "{done:?}");
        let command =
            json!({"approve": false, "args": ["state", "list", "-id=a"], "cmd": "tofu", "dir": "deep"});
        assert_eq!(server.asked("CreateOnDemandRun"), [json!({"stackId": STACK, "commands": [command]})]);
    }
}

#[tokio::test]
async fn a_command_that_waits_is_not_taken_for_done() {
    let waits = run("PENDING_APPROVAL", &json!([]));
    let server = server(&waits).await.data("GetStackRun", "stackRun", &waits);
    let person = Person::of(&server.url);
    let done = person.run("cd stacks exec network --approve -- tofu state rm a.b").await;
    assert!(done.code == 1 && done.err.contains("stacks approve network/12"), "{done:?}");
    let made = person.run("cd stacks exec network --no-wait -o name -- ls").await;
    assert_eq!((made.code, made.out), (0, format!("run/{RUN}\n")));
    let nothing = person.run("cd stacks exec network").await;
    assert_eq!(nothing.code, 2, "{nothing:?}");
}
