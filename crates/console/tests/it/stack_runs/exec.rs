//! Runs of commands that somebody gives: who may make them, and what they may do.

use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use super::policy::{NO_DELETES, set};
use super::world::World;
use crate::api_server::{Answer, Person};

each_database!(
    writing_a_stack_is_not_running_commands_in_it,
    commands_supersede_nothing_and_say_nothing_of_the_stack,
    commands_with_the_rights_to_apply_wait_for_approval,
    commands_that_were_altered_do_not_run,
    rules_stop_commands_that_could_apply_and_no_others,
    what_is_no_command,
);

const EXEC: &str = "mutation ($id: ID!, $c: [CommandAttributes!]!) { createOnDemandRun(stackId: $id, commands: $c) { id number kind phase } }";

pub(super) async fn exec(w: &World, by: &Person, commands: Value) -> Answer {
    by.ask(EXEC, json!({"id": w.stack, "c": commands})).await
}

/// Somebody with a role of these actions in the project.
pub(super) async fn somebody(w: &World, name: &str, actions: &[&str]) -> Person {
    let t = &w.t;
    let person = t.admin.add_user(&format!("{name}@example.com")).await;
    let create = "mutation ($a: RoleAttributes!) { createRole(attributes: $a) { id } }";
    let role = t.admin.data(create, json!({"a": {"name": name, "actions": actions}})).await;
    let bind = "mutation ($r: ID, $u: ID!, $p: ID) { changeBindings(roleId: $r, add: [{userId: $u}], projectId: $p) }";
    let role = role["createRole"]["id"].clone();
    t.admin.data(bind, json!({"r": role, "u": person.id, "p": t.project})).await;
    person
}

fn ls() -> Value {
    json!([{"cmd": "ls", "args": ["-l", "a b"], "dir": "deep"}])
}

/// The steps that the harness of a run is given, as stage and words.
fn steps(input: &Value) -> Vec<String> {
    let steps = input["steps"].as_array().unwrap().iter();
    let told =
        steps.map(|step| format!("{} {} {} {}", step["stage"], step["cmd"], step["args"], step["dir"]));
    told.map(|text| text.replace('"', "")).collect()
}

async fn writing_a_stack_is_not_running_commands_in_it(database: TestDatabase) {
    let secret = json!([{"name": "KEY", "value": "s3cret-value", "secret": true}]);
    let w = World::new(&database, json!({"environment": secret})).await;
    let t = &w.t;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    let writer = &t.stranger;
    assert_eq!(exec(&w, writer, ls()).await.outcome(), "NOT_FOUND");
    let bound = w.update(json!({"writeBindings": [{"userId": writer.id}]})).await;
    assert_eq!(bound.outcome(), "OK", "{bound:?}");
    // The role `read` has the action `exec`, which is about shells in clusters.
    for person in [writer, &t.reader] {
        let refused = exec(&w, person, ls()).await;
        assert!(refused.outcome() == "FORBIDDEN" && refused.message().contains("stack-exec"), "{refused:?}");
    }
    assert_eq!(w.runs().await.len(), 1, "nothing was made");

    // Without writing it: the Job that plans runs them.
    let runner = somebody(&w, "runner", &["read", "stack-exec"]).await;
    let leaks = exec(&w, &runner, json!([{"cmd": "echo", "args": ["s3cret-value"]}])).await;
    assert!(leaks.outcome() == "INVALID" && leaks.message().contains("KEY"), "{leaks:?}");
    assert!(!leaks.message().contains("s3cret"), "{leaks:?}");
    assert_eq!(exec(&w, &runner, ls()).await.outcome(), "OK");
    let run = w.run(2, "PENDING").await;
    assert_eq!((&run["kind"], &run["phase"]), (&json!("COMMANDS"), &json!("PLAN")));
    // The list of runs is of what it is asked for.
    let list = "query ($id: ID, $of: [StackRunGroup!]) { \
        infrastructureStack(id: $id) { runs(first: 10, of: $of) { edges { node { number } } } } }";
    for (of, numbers) in [
        (json!(["STACK"]), vec![1]),
        (json!(["COMMANDS", "DRIFT"]), vec![2]),
        (json!(["PULL_REQUEST"]), vec![]),
        (json!([]), vec![2, 1]),
        (Value::Null, vec![2, 1]),
    ] {
        let found = t.reader.data(list, json!({"id": w.stack, "of": of})).await;
        let expected: Vec<Value> = numbers.iter().map(|number| json!({"node": {"number": number}})).collect();
        assert_eq!(found["infrastructureStack"]["runs"]["edges"], json!(expected), "{of}");
    }
    let job = w.take(&run, RunPhase::Plan, 0).await;
    assert_eq!(steps(&job.input().await), ["plan ls [-l,a b] deep"]);
    job.plan(0).await;
    assert_eq!(job.done(true).await, 204);
    w.run(2, "SUCCESSFUL").await;

    // Whoever gave them ends them, and nobody else's.
    assert_eq!(w.trigger(&t.owner, true, false).await.outcome(), "OK");
    let dry = w.run(3, "PENDING").await;
    assert_eq!(w.cancel(&runner, &dry).await.outcome(), "FORBIDDEN");
    w.plans(3, 0).await;
    let other = somebody(&w, "other", &["read", "stack-exec"]).await;
    assert_eq!(exec(&w, &runner, ls()).await.outcome(), "OK");
    let run = w.run(4, "PENDING").await;
    for person in [&other, &t.reader] {
        assert_eq!(w.cancel(person, &run).await.outcome(), "FORBIDDEN");
    }
    assert_eq!(w.cancel(&t.nobody, &run).await.outcome(), "401");
    let cancelled = w.cancel(&runner, &run).await;
    assert_eq!(cancelled.outcome(), "OK", "{cancelled:?}");
    w.run(4, "CANCELLED").await;

    // Who may do both: the Job that applies runs them.
    let both = somebody(&w, "both", &["read", "write", "stack-exec"]).await;
    assert_eq!(exec(&w, &both, ls()).await.outcome(), "OK");
    let run = w.run(5, "PENDING").await;
    let job = w.take(&run, RunPhase::Plan, 0).await;
    assert!(steps(&job.input().await).is_empty());
    job.plan(0).await;
    assert_eq!(job.done(true).await, 204);
    let run = w.run(5, "PENDING").await;
    assert_eq!(run["phase"], "APPLY", "{run}");
    let job = w.take(&run, RunPhase::Apply, 0).await;
    assert_eq!(steps(&job.input().await), ["apply ls [-l,a b] deep"]);
    assert_eq!(job.done(true).await, 204);
    let over = w.run(5, "SUCCESSFUL").await;

    // The audit log says what was run.
    let lines = "{ audits(first: 100) { edges { node { action actorName targetName } } } }";
    let lines = t.admin.data(lines, json!({})).await;
    let lines = lines["audits"]["edges"].as_array().unwrap().clone();
    let found: Vec<&Value> =
        lines.iter().map(|line| &line["node"]).filter(|line| line["action"] == "stack.run.exec").collect();
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found.iter().all(|line| line["targetName"] == "infra: (in deep) ls -l 'a b'"), "{found:#?}");

    // They are given anew, and not again by whoever writes the stack.
    let again = "mutation ($id: ID!) { restartStackRun(id: $id) { id } }";
    let again = t.owner.ask(again, json!({"id": over["id"]})).await;
    assert_eq!(again.outcome(), "CONFLICT", "{again:?}");
    w.t.stop().await;
}

async fn commands_supersede_nothing_and_say_nothing_of_the_stack(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    w.plans(1, 1).await;
    let waits = w.run(1, "PENDING_APPROVAL").await;
    // The stack asks for approval, and nobody is to agree to these: they run with the rights to plan.
    assert_eq!(exec(&w, &w.t.owner, ls()).await.outcome(), "OK");
    let run = w.run(2, "PENDING").await;
    let job = w.take(&run, RunPhase::Plan, 0).await;
    assert_eq!(steps(&job.input().await), ["plan ls [-l,a b] deep"]);
    assert_eq!(job.done(false).await, 204);
    let failed = w.run(2, "FAILED").await;
    assert_eq!(failed["kind"], "COMMANDS");
    assert_eq!(w.run(1, "PENDING_APPROVAL").await["plan"], waits["plan"]);
    assert_eq!(w.known(&w.t.owner).await["status"], "PENDING_APPROVAL");
    let approved = w.approve(&w.t.owner, &waits, &waits["plan"]["digest"]).await;
    assert_eq!(approved.outcome(), "OK", "{approved:?}");
    w.applies(1).await;
    let run = w.run(1, "SUCCESSFUL").await;
    assert_eq!(w.known(&w.t.owner).await["sha"], run["sha"]);
    w.t.stop().await;
}

async fn commands_with_the_rights_to_apply_wait_for_approval(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    let commands = json!([{"cmd": "make", "args": ["clean"], "approve": true}]);
    let runner = somebody(&w, "runner", &["read", "stack-exec"]).await;
    let refused = exec(&w, &runner, commands.clone()).await;
    assert!(refused.outcome() == "FORBIDDEN" && refused.message().contains("write access"), "{refused:?}");
    assert_eq!(exec(&w, &w.t.owner, commands).await.outcome(), "OK");
    let run = w.run(2, "PENDING").await;
    let job = w.take(&run, RunPhase::Plan, 0).await;
    assert!(steps(&job.input().await).is_empty());
    job.plan(0).await;
    assert_eq!(job.done(true).await, 204);
    let run = w.run(2, "PENDING_APPROVAL").await;
    // A newer plan of the stack is no plan of these commands.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(3, 1).await;
    w.run(3, "PENDING_APPROVAL").await;
    assert_eq!(w.approve(&w.t.owner, &run, &json!("00")).await.outcome(), "CONFLICT");
    assert_eq!(w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await.outcome(), "OK");
    let run = w.run(2, "PENDING").await;
    let job = w.take(&run, RunPhase::Apply, 0).await;
    assert_eq!(steps(&job.input().await), ["apply make [clean] null"]);
    let outputs = json!({"succeeded": true, "outputs": [{"name": "a", "value": 1, "secret": false}]});
    assert_eq!(job.ends(outputs).await, 204);
    w.run(2, "SUCCESSFUL").await;
    // They say nothing of what the stack gives.
    let known = w.known(&w.t.owner).await;
    assert!(known["output"].as_array().is_none_or(Vec::is_empty), "{known}");
    w.t.stop().await;
}

async fn commands_that_were_altered_do_not_run(database: TestDatabase) {
    let other = "replace(CAST(snapshot AS text), '\"clean\"', '\"steal\"')";
    let other = if database.is_postgres() { format!("CAST({other} AS jsonb)") } else { other.to_owned() };
    let w = World::new(&database, json!({})).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    let commands = json!([{"cmd": "make", "args": ["clean"]}]);
    assert_eq!(exec(&w, &w.t.owner, commands).await.outcome(), "OK");
    let run = w.run(2, "PENDING").await;
    let job = w.take(&run, RunPhase::Plan, 0).await;
    job.input().await;
    job.plan(0).await;
    assert_eq!(job.done(true).await, 204);
    let run = w.run(2, "PENDING").await;
    let job = w.take(&run, RunPhase::Apply, 0).await;
    w.t.sql(&format!("UPDATE stack_runs SET snapshot = {other} WHERE number = 2")).await;
    let (status, body) = job.get("input").await;
    assert_eq!(status, 409, "{}", String::from_utf8_lossy(&body));
    let run = w.run(2, "FAILED").await;
    assert!(run["error"].as_str().unwrap().contains("plan again"), "{run}");
    w.t.stop().await;
}

async fn rules_stop_commands_that_could_apply_and_no_others(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    assert_eq!(set(&w.t.owner, &w, &[("a.rego", NO_DELETES)]).await.outcome(), "OK");
    assert_eq!(exec(&w, &w.t.owner, json!([{"cmd": "make", "args": ["clean"]}])).await.outcome(), "OK");
    w.plans(2, 1).await;
    let failed = w.run(2, "FAILED").await;
    assert_eq!(failed["phase"], "PLAN", "{failed}");
    assert!(
        failed["error"].as_str().unwrap().contains("no rule can read what commands would do"),
        "{failed}"
    );
    // With the rights to plan they change nothing that a rule is about.
    let runner = somebody(&w, "runner", &["read", "stack-exec"]).await;
    assert_eq!(exec(&w, &runner, ls()).await.outcome(), "OK");
    w.plans(3, 1).await;
    w.run(3, "SUCCESSFUL").await;
    w.t.stop().await;
}

async fn what_is_no_command(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let many: Vec<Value> = (0..33).map(|_| json!({"cmd": "ls"})).collect();
    for commands in [
        json!([]),
        json!(many),
        json!([{"cmd": ""}]),
        json!([{"cmd": "ls\u{1b}"}]),
        json!([{"cmd": "ls", "dir": "../other"}]),
        json!([{"cmd": "ls", "dir": "/etc"}]),
        json!([{"cmd": "ls", "args": ["x".repeat(9 << 10)]}]),
    ] {
        let refused = exec(&w, &w.t.owner, commands.clone()).await;
        assert_eq!(refused.outcome(), "INVALID", "{commands}: {refused:?}");
        assert!(refused.message().starts_with("commands"), "{commands}: {refused:?}");
    }
    assert_eq!(w.runs().await.len(), 1, "nothing was made");
    w.t.stop().await;
}
