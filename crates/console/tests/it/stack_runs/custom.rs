//! Commands under a name: stored with questions, and started with answers.

use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use super::exec::somebody;
use super::world::World;
use crate::api_server::{Answer, Person};

each_database!(
    answers_are_variables_of_the_commands,
    answers_are_agreed_to_and_kept_until_the_commands_run,
    what_is_of_a_project_runs_for_its_stacks,
    what_is_refused_changes_nothing,
    a_stack_asks_for_approval_of_all_commands,
);

const CREATE: &str =
    "mutation ($a: CustomStackRunAttributes!) { createCustomStackRun(attributes: $a) { id } }";
const UPDATE: &str = "mutation ($id: ID!, $a: CustomStackRunAttributes!) { updateCustomStackRun(id: $id, attributes: $a) { id } }";
const DELETE: &str = "mutation ($id: ID!) { deleteCustomStackRun(id: $id) { id } }";
const START: &str = "mutation ($id: ID!, $s: ID, $a: Map) { startCustomStackRun(id: $id, stackId: $s, answers: $a) { id number kind } }";
const LIST: &str = "query ($s: ID) { customStackRuns(first: 10, stackId: $s) { edges { node { name } } } }";

async fn create(by: &Person, attributes: Value) -> Answer {
    by.ask(CREATE, json!({"a": attributes})).await
}

async fn start(by: &Person, custom: &str, stack: Option<&str>, answers: Value) -> Answer {
    by.ask(START, json!({"id": custom, "s": stack, "a": answers})).await
}

/// Commands of the stack that ask for a size and a token.
async fn grow(w: &World, command: Value) -> String {
    let attributes = json!({
        "name": "Grow", "documentation": "Makes it larger.", "stackId": w.stack, "commands": [command],
        "configuration": [
            {"type": "INT", "name": "SIZE", "default": "3", "documentation": "How large"},
            {"type": "PASSWORD", "name": "TOKEN", "optional": true},
            {
                "type": "ENUM", "name": "MODE", "values": ["fast", "safe"],
                "condition": {"operation": "GT", "field": "SIZE", "value": "5"},
            },
        ],
    });
    let made = w.t.owner.data(CREATE, json!({"a": attributes})).await;
    made["createCustomStackRun"]["id"].as_str().unwrap().to_owned()
}

/// The variables that the harness of a run is given.
fn variables(input: &Value) -> Vec<String> {
    let environment = input["environment"].as_array().unwrap().iter();
    environment
        .map(|one| format!("{}={} {}", one["name"], one["value"], one["secret"]).replace('"', ""))
        .collect()
}

async fn names(by: &Person, stack: &str) -> Vec<String> {
    let known = by.data(LIST, json!({"s": stack})).await;
    let edges = known["customStackRuns"]["edges"].as_array().unwrap().iter();
    edges.map(|edge| edge["node"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn answers_are_variables_of_the_commands(database: TestDatabase) {
    let w = World::new(&database, json!({"environment": [{"name": "REGION", "value": "eu"}]})).await;
    let t = &w.t;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    let custom = grow(&w, json!({"cmd": "grow", "args": ["--fast"]})).await;

    // Whoever may see them may not run them: that needs the action, as any commands do.
    for person in [&t.reader, &t.stranger, &t.nobody] {
        let outcome = start(person, &custom, None, json!({})).await.outcome();
        assert!(["FORBIDDEN", "NOT_FOUND", "401"].contains(&outcome.as_str()), "{outcome}");
    }
    let runner = somebody(&w, "runner", &["read", "stack-exec"]).await;
    for (answers, why) in [
        (json!({"SIZE": "many"}), "SIZE must be a whole number"),
        (json!({"SIZE": 9}), "MODE needs an answer"),
        (json!({"SIZE": 9, "MODE": "loud"}), "fast, safe"),
        (json!({"MODE": "fast"}), "MODE is not asked"),
        (json!({"COLOUR": "red"}), "SIZE, TOKEN, MODE"),
    ] {
        let refused = start(&runner, &custom, None, answers).await;
        assert!(refused.outcome() == "INVALID" && refused.message().contains(why), "{refused:?}");
    }
    assert_eq!(w.runs().await.len(), 1, "nothing was made");

    // Words of a shell are no words here.
    let answers = json!({"SIZE": 9, "MODE": "safe", "TOKEN": "s3cret; rm -rf $HOME"});
    let started = start(&runner, &custom, None, answers).await;
    assert_eq!(started.outcome(), "OK", "{started:?}");
    let run = w.run(2, "PENDING").await;
    assert_eq!(run["kind"], "COMMANDS");
    let job = w.take(&run, RunPhase::Plan, 0).await;
    let input = job.input().await;
    assert_eq!(
        variables(&input),
        ["REGION=eu false", "SIZE=9 false", "TOKEN=s3cret; rm -rf $HOME true", "MODE=safe false"]
    );
    assert_eq!(input["steps"][0]["args"], json!(["--fast"]));
    // What people read of it has no secret.
    let exec = input["spec"]["exec"].to_string();
    assert!(exec.contains("Grow") && exec.contains("TOKEN") && !exec.contains("s3cret"), "{exec}");
    job.plan(0).await;
    assert_eq!(job.done(true).await, 204);
    w.run(2, "SUCCESSFUL").await;

    // The next one has the answers of its own.
    assert_eq!(start(&runner, &custom, None, json!({})).await.outcome(), "OK");
    let run = w.run(3, "PENDING").await;
    let input = w.take(&run, RunPhase::Plan, 0).await.input().await;
    assert_eq!(variables(&input), ["REGION=eu false", "SIZE=3 false"]);

    let lines = "{ audits(first: 100) { edges { node { action targetName } } } }";
    let lines = t.admin.data(lines, json!({})).await["audits"].to_string();
    assert!(
        lines.contains("customStackRun.create") && lines.contains("infra: Grow (grow --fast)"),
        "{lines}"
    );
    assert!(!lines.contains("s3cret"), "{lines}");
    w.t.stop().await;
}

/// Approved commands get the answers that people agreed to, and the refusal of what moved knows them.
async fn answers_are_agreed_to_and_kept_until_the_commands_run(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    let custom = grow(&w, json!({"cmd": "grow", "approve": true})).await;
    let runner = somebody(&w, "runner", &["read", "stack-exec"]).await;
    let refused = start(&runner, &custom, None, json!({})).await;
    assert!(refused.outcome() == "FORBIDDEN" && refused.message().contains("write access"), "{refused:?}");
    for number in [2, 3] {
        let started = start(&w.t.owner, &custom, None, json!({"SIZE": number, "TOKEN": "s3cret"})).await;
        assert_eq!(started.outcome(), "OK", "{started:?}");
        let run = w.run(number, "PENDING").await;
        let job = w.take(&run, RunPhase::Plan, 0).await;
        job.input().await;
        job.plan(0).await;
        assert_eq!(job.done(true).await, 204);
        let run = w.run(number, "PENDING_APPROVAL").await;
        if number == 3 {
            // The stack says something else by now.
            let moved =
                w.update(json!({"environment": [{"name": "REGION", "value": "us"}], "paused": true})).await;
            assert_eq!(moved.outcome(), "OK", "{moved:?}");
        }
        // They are as they were, whatever is made of what they are stored as.
        let other = json!({"name": "Grow", "commands": [{"cmd": "shrink"}], "configuration": []});
        let changed = w.t.owner.ask(UPDATE, json!({"id": custom, "a": other})).await;
        assert_eq!(changed.outcome(), "OK", "{changed:?}");
        let approved = w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await;
        if number == 3 {
            let failed = w.run(number, "FAILED").await;
            assert!(failed["error"].as_str().unwrap().contains("was changed"), "{failed}");
            break;
        }
        assert_eq!(approved.outcome(), "OK", "{approved:?}");
        let run = w.run(number, "PENDING").await;
        let job = w.take(&run, RunPhase::Apply, 0).await;
        let input = job.input().await;
        assert_eq!(variables(&input), ["SIZE=2 false", "TOKEN=s3cret true"]);
        assert_eq!(input["steps"][0]["cmd"], "grow");
        assert_eq!(job.done(true).await, 204);
        w.run(number, "SUCCESSFUL").await;
        let back = json!({
            "name": "Grow", "commands": [{"cmd": "grow", "approve": true}],
            "configuration": [{"type": "INT", "name": "SIZE"}, {"type": "PASSWORD", "name": "TOKEN"}],
        });
        assert_eq!(w.t.owner.ask(UPDATE, json!({"id": custom, "a": back})).await.outcome(), "OK");
    }
    w.t.stop().await;
}

async fn what_is_of_a_project_runs_for_its_stacks(database: TestDatabase) {
    let w = World::new(&database, json!({"environment": [{"name": "REGION", "value": "eu"}]})).await;
    let t = &w.t;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    grow(&w, json!({"cmd": "grow"})).await;
    let attributes = json!({
        "name": "Look", "projectId": t.project, "commands": [{"cmd": "look"}],
        "configuration": [{"type": "STRING", "name": "REGION", "optional": true}, {"type": "CLUSTER", "name": "AT", "optional": true}],
    });
    let made = t.owner.data(CREATE, json!({"a": attributes})).await;
    let custom = made["createCustomStackRun"]["id"].as_str().unwrap().to_owned();
    assert_eq!(names(&t.reader, &w.stack).await, ["Grow", "Look"]);
    let other = json!({"name": "other", "type": "CUSTOM", "projectId": t.project});
    let create = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
    let other = t.owner.data(create, json!({"a": other})).await["createStack"]["id"].clone();
    assert_eq!(names(&t.reader, other.as_str().unwrap()).await, ["Look"]);

    let nowhere = start(&t.owner, &custom, None, json!({})).await;
    assert!(nowhere.outcome() == "INVALID" && nowhere.message().contains("name the one"), "{nowhere:?}");
    // What the stack says is not for an answer to say otherwise.
    let taken = start(&t.owner, &custom, Some(&w.stack), json!({"REGION": "us"})).await;
    assert!(taken.outcome() == "CONFLICT" && taken.message().contains("REGION"), "{taken:?}");
    let unknown = start(&t.owner, &custom, Some(&w.stack), json!({"AT": "nowhere"})).await;
    assert!(unknown.outcome() == "INVALID" && unknown.message().contains("AT must be"), "{unknown:?}");
    let started = start(&t.owner, &custom, Some(&w.stack), json!({"AT": "blue"})).await;
    assert_eq!(started.outcome(), "OK", "{started:?}");
    let run = w.run(2, "PENDING").await;
    assert_eq!(run["kind"], "COMMANDS");
    w.t.stop().await;
}

async fn what_is_refused_changes_nothing(database: TestDatabase) {
    let secret = json!([{"name": "KEY", "value": "s3cret-value", "secret": true}]);
    let w = World::new(&database, json!({"environment": secret})).await;
    let t = &w.t;
    let custom = grow(&w, json!({"cmd": "grow"})).await;
    let with = |further: Value| {
        let mut all = json!({"name": "Other", "stackId": w.stack, "commands": [{"cmd": "look"}]});
        all.as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
        all
    };
    for (attributes, why) in [
        (with(json!({"commands": []})), "1 to 32"),
        (with(json!({"commands": [{"cmd": "echo", "args": ["s3cret-value"]}]})), "KEY"),
        (with(json!({"commands": [{"cmd": "ls", "dir": "../.."}]})), "commands.dir"),
        (with(json!({"configuration": [{"type": "STRING", "name": "KEY"}]})), "of the stack already"),
        (with(json!({"configuration": [{"type": "STRING", "name": "PATH"}]})), "the console's"),
        (with(json!({"configuration": [{"type": "STRING", "name": "a-b"}]})), "letters, digits"),
        (with(json!({"configuration": [{"type": "PASSWORD", "name": "A", "default": "x"}]})), "PASSWORD"),
        (with(json!({"configuration": [{"type": "BUCKET", "name": "A"}]})), "use STRING"),
        (with(json!({"projectId": "0190b8a2-7c11-7def-8000-0123456789ab"})), "leave it out"),
    ] {
        let refused = create(&t.owner, attributes).await;
        assert!(refused.outcome() == "INVALID" && refused.message().contains(why), "{why}: {refused:?}");
        assert!(!refused.message().contains("s3cret"), "{refused:?}");
    }
    let twice = create(&t.owner, with(json!({"name": "Grow"}))).await;
    assert!(twice.outcome() == "CONFLICT" && twice.message().contains("another name"), "{twice:?}");
    assert_eq!(create(&t.reader, with(json!({}))).await.outcome(), "FORBIDDEN");
    assert_eq!(create(&t.stranger, with(json!({}))).await.outcome(), "NOT_FOUND");
    for by in [&t.reader, &t.stranger] {
        assert_ne!(by.ask(UPDATE, json!({"id": custom, "a": {"name": "Mine"}})).await.outcome(), "OK");
        assert_ne!(by.ask(DELETE, json!({"id": custom})).await.outcome(), "OK");
    }
    assert_eq!(names(&t.owner, &w.stack).await, ["Grow"]);
    assert_eq!(t.owner.ask(DELETE, json!({"id": custom})).await.outcome(), "OK");
    assert!(names(&t.owner, &w.stack).await.is_empty());
    assert_eq!(start(&t.owner, &custom, None, json!({})).await.outcome(), "NOT_FOUND");
    w.t.stop().await;
}

/// The setting makes every command wait, also those that do not ask for it.
async fn a_stack_asks_for_approval_of_all_commands(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true, "commandApproval": true})).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    let custom = grow(&w, json!({"cmd": "grow"})).await;
    let runner = somebody(&w, "runner", &["read", "stack-exec"]).await;
    let refused = start(&runner, &custom, None, json!({})).await;
    assert!(refused.outcome() == "FORBIDDEN" && refused.message().contains("write access"), "{refused:?}");
    // Whoever writes the stack, and does not administer it, takes none of it back.
    let writer = somebody(&w, "writer", &["read", "write"]).await;
    let looser = "mutation ($id: ID!) { updateStack(id: $id, attributes: {commandApproval: false}) { id } }";
    assert_eq!(writer.ask(looser, json!({"id": w.stack})).await.outcome(), "FORBIDDEN");
    assert_eq!(start(&w.t.owner, &custom, None, json!({})).await.outcome(), "OK");
    let run = w.run(2, "PENDING").await;
    let job = w.take(&run, RunPhase::Plan, 0).await;
    assert!(job.input().await["steps"].as_array().unwrap().is_empty());
    job.plan(0).await;
    assert_eq!(job.done(true).await, 204);
    let run = w.run(2, "PENDING_APPROVAL").await;
    assert_eq!(w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await.outcome(), "OK");
    let run = w.run(2, "PENDING").await;
    let job = w.take(&run, RunPhase::Apply, 0).await;
    assert_eq!(job.input().await["steps"][0]["cmd"], "grow");
    w.t.stop().await;
}
