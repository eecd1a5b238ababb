//! Open pages of stacks: a run that begins, waits, goes on and ends is told to whoever may see its stack, and to nobody else, also after a
//! lost connection.

use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database, one_database};
use serde_json::{Value, json};

use super::world::World;
use crate::{
    api_server::TestServer,
    deltas::{listening, naming, reads_again, told},
};

each_database!(
    a_run_is_told_of_from_its_beginning_to_its_end_and_to_whoever_may_see_it,
    what_happened_while_nobody_listened_is_told_when_they_come_back,
);

one_database!(postgres, "replicas share PostgreSQL"; what_one_console_does_to_a_stack_another_tells);

const STACKS: &str = "subscription ($after: String, $id: ID) {
    infrastructureStackDelta(after: $after, id: $id) { changed deleted readAgain cursor } }";
const UPDATE: &str =
    "mutation ($id: ID!, $a: StackAttributes!) { updateStack(id: $id, attributes: $a) { id } }";

/// A stack that the stranger may read.
async fn open_stack(w: &World) -> Value {
    let create = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
    let attributes = json!({
        "name": "open", "type": "TERRAFORM", "projectId": w.t.project,
        "readBindings": [{"userId": w.t.stranger.id}],
    });
    w.t.owner.data(create, json!({"a": attributes})).await["createStack"]["id"].clone()
}

async fn pause(w: &World, stack: &Value, paused: bool) {
    w.t.owner.data(UPDATE, json!({"id": stack, "a": {"paused": paused}})).await;
}

async fn a_run_is_told_of_from_its_beginning_to_its_end_and_to_whoever_may_see_it(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    let t = &w.t;
    let stack = json!(w.stack);
    let open = open_stack(&w).await;
    let run = w.run(1, "PENDING").await;
    let (mut reader, ..) = listening(&t.reader, STACKS, json!({})).await;
    let (mut one, ..) = listening(&t.reader, STACKS, json!({"id": stack})).await;
    let (mut stranger, ..) = listening(&t.stranger, STACKS, json!({})).await;
    let refused = t.stranger.ask(STACKS, json!({"id": stack})).await;
    assert_eq!(refused.outcome(), "NOT_FOUND", "{refused:?}");

    // Each step of its way, before what follows is done.
    let plan = w.take(&run, RunPhase::Plan, 0).await;
    assert_eq!(plan.get("input").await.0, 200);
    told(&mut reader, "changed", &stack).await;
    assert_eq!(plan.says("steps/0", json!({"status": "running", "exitCode": null})).await.0, 200);
    told(&mut reader, "changed", &stack).await;
    let digest = plan.plan(1).await;
    assert_eq!(plan.done(true).await, 204);
    let waits = w.run(1, "PENDING_APPROVAL").await;
    told(&mut reader, "changed", &stack).await;
    assert_eq!(w.approve(&t.owner, &waits, &json!(digest)).await.outcome(), "OK");
    told(&mut reader, "changed", &stack).await;
    w.applies(1).await;
    w.run(1, "SUCCESSFUL").await;
    told(&mut reader, "changed", &stack).await;
    told(&mut one, "changed", &stack).await;

    // The stranger heard of none of it: what comes first is what they may see.
    pause(&w, &open, true).await;
    let event = naming(&mut stranger).await;
    assert_eq!((&event["changed"], &event["deleted"]), (&json!([open]), &json!([])), "{event}");
    // Whoever loses the right is told to read again, and hears no more.
    t.owner.data(UPDATE, json!({"id": open, "a": {"readBindings": []}})).await;
    reads_again(&mut stranger).await;
    t.owner.data(UPDATE, json!({"id": stack, "a": {"readBindings": [{"userId": t.stranger.id}]}})).await;
    pause(&w, &open, false).await;
    pause(&w, &stack, true).await;
    let event = told(&mut stranger, "changed", &stack).await;
    assert_eq!(event["changed"], json!([stack]), "{event}");

    let gone = "mutation ($id: ID!) { detachStack(id: $id) { id } }";
    t.owner.data(gone, json!({"id": open})).await;
    told(&mut reader, "deleted", &open).await;
    w.t.stop().await;
}

async fn what_happened_while_nobody_listened_is_told_when_they_come_back(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    let stack = json!(w.stack);
    w.run(1, "PENDING").await;
    let (lost, _, cursor) = listening(&w.t.reader, STACKS, json!({})).await;
    drop(lost);
    w.plans(1, 1).await;
    w.run(1, "PENDING_APPROVAL").await;
    let (mut again, event, _) = listening(&w.t.reader, STACKS, json!({"after": cursor})).await;
    assert_eq!(event["changed"], json!([stack]), "{event}");
    pause(&w, &stack, true).await;
    told(&mut again, "changed", &stack).await;
    w.t.stop().await;
}

/// A console that restarts is another one for who listens: their cursor is good there.
async fn what_one_console_does_to_a_stack_another_tells(database: TestDatabase) {
    let t = TestServer::replicas(&database).await;
    let mut listeners = Vec::new();
    for replica in 0..3 {
        listeners.push(listening(&t.reader.at(replica), STACKS, json!({})).await);
    }
    let create = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
    let attributes = json!({"name": "network", "type": "TERRAFORM", "projectId": t.project});
    let made = t.admin.at(1).data(create, json!({"a": attributes})).await;
    let stack = made["createStack"]["id"].clone();
    let mut cursors = Vec::new();
    for (socket, ..) in &mut listeners {
        let event = told(socket, "changed", &stack).await;
        cursors.push(event["cursor"].as_str().unwrap().to_owned());
    }
    drop(listeners);
    t.admin.at(2).data(UPDATE, json!({"id": stack, "a": {"paused": true}})).await;
    for (replica, cursor) in cursors.into_iter().enumerate() {
        let at = t.reader.at((replica + 1) % 3);
        let (_, event, _) = listening(&at, STACKS, json!({"after": cursor})).await;
        assert_eq!(event["changed"], json!([stack]), "{event}");
    }
    t.stop().await;
}
