//! Stacks whose commands are those of a definition.

use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use super::world::World;

each_database!(
    a_run_takes_what_its_definition_says,
    a_definition_that_changes_makes_its_stacks_plan_again,
    whoever_changed_a_definition_does_not_approve_what_it_says,
    a_stack_that_was_not_destroyed_after_all_follows_its_definition,
    of_two_who_change_it_at_once_the_second_is_told,
);

const CREATE: &str =
    "mutation ($a: StackDefinitionAttributes!) { createStackDefinition(attributes: $a) { id name } }";
const UPDATE: &str = "mutation ($id: ID!, $a: StackDefinitionAttributes!) { updateStackDefinition(id: $id, attributes: $a) { id } }";
const DELETE: &str = "mutation ($id: ID!) { deleteStackDefinition(id: $id) { id } }";

fn attributes(apply: &str) -> Value {
    json!({
        "name": "deploy", "configuration": {"image": "a.b/c", "tag": "1"},
        "steps": [{"cmd": "look", "stage": "PLAN"}, {"cmd": apply}], "deleteSteps": [{"cmd": "undo"}],
    })
}

/// The stack takes its commands from a definition, whose id this is. Its first two runs are over.
async fn defined(w: &World) -> Value {
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    let made = w.t.admin.data(CREATE, json!({"a": attributes("make")})).await;
    let id = made["createStackDefinition"]["id"].clone();
    let both = w.update(json!({"definitionId": id})).await;
    assert!(both.outcome() == "INVALID" && both.message().contains("deleteCommands"), "{both:?}");
    let change = json!({"definitionId": id, "commands": [], "deleteCommands": []});
    let changed = w.update(change).await;
    assert_eq!(changed.outcome(), "OK", "{changed:?}");
    w.plans(2, 0).await;
    w.run(2, "SUCCESSFUL").await;
    id
}

async fn a_run_takes_what_its_definition_says(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    let id = defined(&w).await;
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    let run = w.run(3, "PENDING").await;
    let job = w.take(&run, RunPhase::Plan, 0).await;
    let input = job.input().await;
    assert_eq!(input["steps"][0]["cmd"], "look");
    assert_eq!(input["spec"]["configuration"]["image"], "a.b/c");
    job.plan(1).await;
    assert_eq!(job.done(true).await, 204);
    let run = w.run(3, "PENDING_APPROVAL").await;
    assert_eq!(w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await.outcome(), "OK");
    let run = w.run(3, "PENDING").await;
    let job = w.take(&run, RunPhase::Apply, 0).await;
    assert_eq!(job.input().await["steps"][0]["cmd"], "make");
    assert_eq!(job.done(true).await, 204);
    w.run(3, "SUCCESSFUL").await;

    let refused = w.t.admin.ask(DELETE, json!({"id": id})).await;
    assert!(refused.outcome() == "CONFLICT" && refused.message().contains("1 stacks"), "{refused:?}");
    for person in [&w.t.owner, &w.t.reader] {
        assert_eq!(
            person.ask(UPDATE, json!({"id": id, "a": attributes("steal")})).await.outcome(),
            "FORBIDDEN"
        );
    }
    let none = w.update(json!({"definitionId": "00000000-0000-0000-0000-000000000001"})).await;
    assert!(none.outcome() == "INVALID" && none.message().contains("no definition"), "{none:?}");
    let own = w.update(json!({"definitionId": "", "commands": [{"cmd": "own"}]})).await;
    assert_eq!(own.outcome(), "OK", "{own:?}");
    assert_eq!(w.t.admin.ask(DELETE, json!({"id": id})).await.outcome(), "OK");
    w.t.stop().await;
}

async fn a_definition_that_changes_makes_its_stacks_plan_again(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    let id = defined(&w).await;
    let update = async |attributes: Value| {
        let changed = w.t.admin.ask(UPDATE, json!({"id": id, "a": attributes})).await;
        assert_eq!(changed.outcome(), "OK", "{changed:?}");
    };
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(3, 1).await;
    w.run(3, "PENDING_APPROVAL").await;
    update(attributes("other")).await;
    w.plans(4, 1).await;
    let waits = w.run(4, "PENDING_APPROVAL").await;
    assert_eq!(waits["trigger"], "SPEC", "{waits}");
    w.run(3, "CANCELLED").await;
    // The same again, and its name, change nothing for anybody.
    let mut named = attributes("other");
    named["name"] = json!("renamed");
    update(named).await;
    assert_eq!(w.runs().await.len(), 4);

    // Of a paused stack no run is made; and the plan that waits does not fit any more.
    assert_eq!(w.update(json!({"paused": true})).await.outcome(), "OK");
    update(attributes("third")).await;
    assert_eq!(w.approve(&w.t.owner, &waits, &waits["plan"]["digest"]).await.outcome(), "OK");
    let refused = w.run(4, "FAILED").await;
    assert!(refused["error"].as_str().unwrap().contains("was changed since"), "{refused}");
    assert_eq!(w.runs().await.len(), 4);
    w.t.stop().await;
}

async fn whoever_changed_a_definition_does_not_approve_what_it_says(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true, "forbidSelfApproval": true})).await;
    let id = defined(&w).await;
    let changed = w.t.admin.ask(UPDATE, json!({"id": id, "a": attributes("other")})).await;
    assert_eq!(changed.outcome(), "OK", "{changed:?}");
    w.plans(3, 1).await;
    let run = w.run(3, "PENDING_APPROVAL").await;
    let own = w.approve(&w.t.admin, &run, &run["plan"]["digest"]).await;
    assert!(own.outcome() == "FORBIDDEN" && own.message().contains("you started this run"), "{own:?}");
    // Nor where somebody else starts the run.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(4, 1).await;
    let run = w.run(4, "PENDING_APPROVAL").await;
    let own = w.approve(&w.t.admin, &run, &run["plan"]["digest"]).await;
    assert!(
        own.outcome() == "FORBIDDEN" && own.message().contains("the definition of this stack"),
        "{own:?}"
    );
    w.t.stop().await;
}

async fn a_stack_that_was_not_destroyed_after_all_follows_its_definition(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    let id = defined(&w).await;
    assert_eq!(w.trigger(&w.t.owner, false, true).await.outcome(), "OK");
    w.plans(3, 1).await;
    let run = w.run(3, "PENDING_APPROVAL").await;
    assert_eq!(w.reject(&w.t.owner, &run, "not yet").await.outcome(), "OK");
    w.run(3, "CANCELLED").await;
    let changed = w.t.admin.ask(UPDATE, json!({"id": id, "a": attributes("other")})).await;
    assert_eq!(changed.outcome(), "OK", "{changed:?}");
    w.plans(4, 1).await;
    let run = w.run(4, "PENDING_APPROVAL").await;
    assert_eq!((&run["kind"], &run["trigger"]), (&json!("APPLY"), &json!("SPEC")), "{run}");
    w.t.stop().await;
}

async fn of_two_who_change_it_at_once_the_second_is_told(database: TestDatabase) {
    const READ: &str = "query ($id: ID!) { stackDefinition(id: $id) { updatedAt steps { cmd } } }";
    const CHANGE: &str = "mutation ($id: ID!, $a: StackDefinitionAttributes!, $s: DateTime) {
  updateStackDefinition(id: $id, attributes: $a, unchangedSince: $s) { id }
}";
    let w = World::new(&database, json!({})).await;
    let made = w.t.admin.data(CREATE, json!({"a": attributes("make")})).await;
    let id = made["createStackDefinition"]["id"].clone();
    let read = w.t.admin.data(READ, json!({"id": id})).await["stackDefinition"].clone();
    let change = async |apply: &str| {
        let variables = json!({"id": id, "a": attributes(apply), "s": read["updatedAt"]});
        w.t.admin.ask(CHANGE, variables).await
    };
    assert_eq!(change("first").await.outcome(), "OK");
    let second = change("second").await;
    assert!(second.outcome() == "CONFLICT" && second.message().contains("somebody else"), "{second:?}");
    let now = w.t.admin.data(READ, json!({"id": id})).await["stackDefinition"].clone();
    assert_eq!(now["steps"][1]["cmd"], "first");
    // Whoever does not say what they read replaces what there is, as before.
    assert_eq!(w.t.admin.ask(UPDATE, json!({"id": id, "a": attributes("third")})).await.outcome(), "OK");
    w.t.stop().await;
}
