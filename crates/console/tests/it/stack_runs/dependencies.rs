//! Stacks that depend on each other: what runs because of what, what waits, and what is refused.

use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database, eventually};
use serde_json::{Value, json};

use super::world::{LONG, World};
use crate::api_server::{Answer, Person};

each_database!(
    outputs_go_down_and_only_other_ones_make_runs,
    what_was_never_applied_is_waited_for,
    a_commit_to_both_is_planned_once_with_the_new_outputs,
    what_waits_for_a_run_that_fails_is_skipped,
    what_waits_for_a_run_that_is_cancelled_is_skipped,
    what_is_too_large_is_not_taken,
    a_destruction_that_was_cancelled_keeps_nobody_from_following,
    a_diamond_settles_in_one_run,
    a_plan_of_older_outputs_is_not_applied,
    a_cycle_is_refused_and_so_is_what_may_not_be_read,
    who_changes_another_dependency_does_not_vouch_for_this_one,
    what_others_depend_on_goes_last,
    who_may_only_read_a_stack_does_not_keep_it,
    what_a_run_takes_is_not_among_what_its_readers_see,
    a_run_names_no_stack_that_its_reader_may_not_see,
);

const CREATE: &str = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
const UPDATE: &str =
    "mutation ($id: ID!, $a: StackAttributes!) { updateStack(id: $id, attributes: $a) { id } }";

/// The same console, as it is seen from another stack of it.
async fn beside(w: &World, name: &str, folder: &str, dependencies: Value) -> String {
    beside_with(
        w,
        json!({"name": name, "git": {"ref": "main", "folder": folder}, "dependencies": dependencies}),
    )
    .await
}

async fn beside_with(w: &World, further: Value) -> String {
    let mut all = json!({
        "type": "CUSTOM", "projectId": w.t.project, "repositoryId": w.repository, "clusterId": w.cluster,
        "commands": [{"stage": "PLAN", "cmd": "look"}, {"cmd": "make"}], "deleteCommands": [{"cmd": "undo"}],
    });
    all.as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
    let made = w.t.owner.data(CREATE, json!({"a": all})).await;
    made["createStack"]["id"].as_str().unwrap().to_owned()
}

/// Takes the output `id` of a stack as a variable.
fn takes(stack: &str, variable: &str) -> Value {
    json!({"stackId": stack, "outputs": [{"output": "id", "variable": variable}]})
}

impl World {
    /// Plans and applies a run, which ends with this output.
    async fn ends_with(&self, stack: &str, number: u64, id: &str) {
        self.plans_of(stack, number).await;
        let run = self.run_of(stack, number, "PENDING").await;
        assert_eq!(run["phase"], "APPLY", "{run}");
        let harness = self.take(&run, RunPhase::Apply, 0).await;
        harness.input().await;
        let outputs = json!([{"name": "id", "value": id, "secret": false}, {"name": "key", "value": "s3cret-key", "secret": true}]);
        assert_eq!(harness.ends(json!({"succeeded": true, "changed": true, "outputs": outputs})).await, 204);
        self.run_of(stack, number, "SUCCESSFUL").await;
    }

    /// Plans a run, and answers what went into it.
    async fn plans_of(&self, stack: &str, number: u64) -> Value {
        let run = self.run_of(stack, number, "PENDING").await;
        let harness = self.take(&run, RunPhase::Plan, 0).await;
        let input = harness.input().await;
        harness.plan(1).await;
        assert_eq!(harness.done(true).await, 204);
        input
    }

    async fn waits(&self, stack: &str, number: u64, why: &str) {
        eventually(LONG, async || {
            let run = self.run_of(stack, number, "QUEUED").await;
            (run["error"] == why).then_some(()).ok_or(format!("{run}"))
        })
        .await;
    }

    async fn depends(&self, stack: &str, dependencies: Value) -> Answer {
        self.t.owner.ask(UPDATE, json!({"id": stack, "a": {"dependencies": dependencies}})).await
    }
}

fn variable(input: &Value, name: &str) -> Value {
    let environment = input["environment"].as_array().unwrap();
    environment.iter().find(|one| one["name"] == name).map_or(Value::Null, |one| one["value"].clone())
}

async fn outputs_go_down_and_only_other_ones_make_runs(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.ends_with(&w.stack, 1, "vpc-1").await;
    let taken = json!([{"stackId": w.stack, "outputs": [
        {"output": "id", "variable": "vpc"}, {"output": "key", "variable": "secret_key"},
    ]}]);
    let app = beside(&w, "app", "docs", taken.clone()).await;
    let run = w.run_of(&app, 1, "PENDING").await;
    assert_eq!(run["trigger"], "COMMIT");
    let harness = w.take(&run, RunPhase::Plan, 0).await;
    let input = harness.input().await;
    assert_eq!(
        (variable(&input, "vpc"), variable(&input, "secret_key")),
        (json!("vpc-1"), json!("s3cret-key"))
    );
    let environment = input["environment"].as_array().unwrap();
    let hidden: Vec<&Value> =
        environment.iter().filter(|one| one["secret"] == true).map(|one| &one["name"]).collect();
    assert_eq!(hidden, ["secret_key"]);
    harness.plan(0).await;
    assert_eq!(harness.done(true).await, 204);
    w.run_of(&app, 1, "SUCCESSFUL").await;

    // The same outputs make none; others do, once.
    for (number, id) in [(2, "vpc-1"), (3, "vpc-2")] {
        assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
        w.ends_with(&w.stack, number, id).await;
    }
    let run = w.run_of(&app, 2, "PENDING").await;
    let by = w.runs().await[0].clone();
    assert_eq!(run["trigger"], "UPSTREAM");
    let ask = "query ($id: ID!) { stackRun(id: $id) { upstreamRun { id } } }";
    let known = w.t.owner.data(ask, json!({"id": run["id"]})).await;
    assert_eq!(known["stackRun"]["upstreamRun"]["id"], by["id"]);
    assert_eq!(variable(&w.plans_of(&app, 2).await, "vpc"), "vpc-2");
    assert_eq!(w.runs_of(&app).await.len(), 2, "the same outputs made a run");

    let ask = "query ($id: ID) { infrastructureStack(id: $id) { dependencies { stackId stack { name } outputs { output variable } } \
               dependents { name } } stackGraph { stacks { name } edges { stackId upstreamId } } }";
    let known = w.t.owner.data(ask, json!({"id": app})).await;
    assert_eq!(known["infrastructureStack"]["dependencies"][0]["stack"]["name"], "infra");
    assert_eq!(known["infrastructureStack"]["dependencies"][0]["outputs"], taken[0]["outputs"]);
    assert_eq!(known["stackGraph"]["stacks"], json!([{"name": "infra"}, {"name": "app"}]));
    assert_eq!(known["stackGraph"]["edges"], json!([{"stackId": app, "upstreamId": w.stack}]));
    let known = w.t.owner.data(ask, json!({"id": w.stack})).await;
    assert_eq!(known["infrastructureStack"]["dependents"], json!([{"name": "app"}]));
    let known = w.t.stranger.data("{ stackGraph { stacks { name } edges { stackId } } }", json!({})).await;
    assert_eq!(known["stackGraph"], json!({"stacks": [], "edges": []}));
    w.t.stop().await;
}

async fn what_was_never_applied_is_waited_for(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    let run = w.run(1, "PENDING").await;
    assert_eq!(w.cancel(&w.t.owner, &run).await.outcome(), "OK");
    let app = beside(&w, "app", "docs", json!([takes(&w.stack, "vpc")])).await;
    w.waits(&app, 1, "waits for stack infra, which was not applied yet").await;
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans_of(&w.stack, 2).await;
    let waits = w.run(2, "PENDING_APPROVAL").await;
    w.tend().await;
    w.waits(&app, 1, "waits for run 2 of stack infra").await;
    assert_eq!(w.approve(&w.t.owner, &waits, &waits["plan"]["digest"]).await.outcome(), "OK");
    let run = w.run(2, "PENDING").await;
    let harness = w.take(&run, RunPhase::Apply, 0).await;
    harness.input().await;
    let outputs = json!([{"name": "id", "value": "vpc-1", "secret": false}]);
    assert_eq!(harness.ends(json!({"succeeded": true, "changed": true, "outputs": outputs})).await, 204);
    assert_eq!(variable(&w.plans_of(&app, 1).await, "vpc"), "vpc-1");
    w.t.stop().await;
}

async fn a_commit_to_both_is_planned_once_with_the_new_outputs(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.ends_with(&w.stack, 1, "vpc-1").await;
    let app = beside(&w, "app", "docs", json!([takes(&w.stack, "vpc")])).await;
    w.ends_with(&app, 1, "app-1").await;
    w.remote.push_files([("infra/main.sh", "echo 2\n"), ("docs/a.md", "two\n")]).unwrap();
    w.run(2, "PENDING").await;
    w.waits(&app, 2, "waits for run 2 of stack infra").await;
    w.ends_with(&w.stack, 2, "vpc-2").await;
    assert_eq!(variable(&w.plans_of(&app, 2).await, "vpc"), "vpc-2");
    assert_eq!(w.runs_of(&app).await.len(), 2);
    w.t.stop().await;
}

async fn what_waits_for_a_run_that_fails_is_skipped(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.ends_with(&w.stack, 1, "vpc-1").await;
    let app = beside(&w, "app", "docs", json!([takes(&w.stack, "vpc")])).await;
    w.ends_with(&app, 1, "app-1").await;
    let trigger = async |stack: &str| {
        let ask = "mutation ($id: ID!) { triggerRun(id: $id) { id } }";
        assert_eq!(w.t.owner.ask(ask, json!({"id": stack})).await.outcome(), "OK");
    };
    trigger(&w.stack).await;
    trigger(&app).await;
    w.waits(&app, 2, "waits for run 2 of stack infra").await;
    let run = w.run(2, "PENDING").await;
    let harness = w.take(&run, RunPhase::Plan, 0).await;
    harness.input().await;
    assert_eq!(harness.ends(json!({"succeeded": false, "error": "no such image"})).await, 204);
    let run = w.run_of(&app, 2, "CANCELLED").await;
    assert_eq!(run["error"], "skipped: run 2 of stack infra, which it waited for, is failed");
    // Now that it goes well, what was skipped is made up for, though the outputs are the same.
    trigger(&w.stack).await;
    w.ends_with(&w.stack, 3, "vpc-1").await;
    assert_eq!(w.run_of(&app, 3, "PENDING").await["trigger"], "UPSTREAM");
    w.t.stop().await;
}

async fn what_waits_for_a_run_that_is_cancelled_is_skipped(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.ends_with(&w.stack, 1, "vpc-1").await;
    let app = beside(&w, "app", "docs", json!([takes(&w.stack, "vpc")])).await;
    w.ends_with(&app, 1, "app-1").await;
    let ask = "mutation ($id: ID!) { triggerRun(id: $id) { id } }";
    for stack in [&w.stack, &app] {
        assert_eq!(w.t.owner.ask(ask, json!({"id": stack})).await.outcome(), "OK");
    }
    w.waits(&app, 2, "waits for run 2 of stack infra").await;
    let run = w.run(2, "PENDING").await;
    assert_eq!(w.cancel(&w.t.owner, &run).await.outcome(), "OK");
    let run = w.run_of(&app, 2, "CANCELLED").await;
    assert_eq!(run["error"], "skipped: run 2 of stack infra, which it waited for, is cancelled");
    w.t.stop().await;
}

async fn a_destruction_that_was_cancelled_keeps_nobody_from_following(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.ends_with(&w.stack, 1, "vpc-1").await;
    let app = beside(&w, "app", "docs", json!([takes(&w.stack, "vpc")])).await;
    w.ends_with(&app, 1, "app-1").await;
    let destroy = "mutation ($id: ID!) { triggerRun(id: $id, destroy: true) { id } }";
    w.t.owner.data(destroy, json!({"id": app})).await;
    let run = w.run_of(&app, 2, "PENDING").await;
    assert_eq!(run["kind"], "DESTROY");
    assert_eq!(w.cancel(&w.t.owner, &run).await.outcome(), "OK");
    w.run_of(&app, 2, "CANCELLED").await;
    // It was only planned: the stack is there, and takes what there is.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.ends_with(&w.stack, 2, "vpc-2").await;
    let run = w.run_of(&app, 3, "PENDING").await;
    assert_eq!(run["trigger"], "UPSTREAM");
    assert_eq!(variable(&w.plans_of(&app, 3).await, "vpc"), "vpc-2");
    w.t.stop().await;
}

async fn what_is_too_large_is_not_taken(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.ends_with(&w.stack, 1, &"x".repeat(64 << 10)).await;
    let app = beside(&w, "app", "docs", json!([takes(&w.stack, "vpc")])).await;
    let failed = w.run_of(&app, 1, "FAILED").await;
    let error = failed["error"].as_str().unwrap();
    assert!(error.contains("output id of stack infra is too large to take"), "{error}");
    w.t.stop().await;
}

async fn a_diamond_settles_in_one_run(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.ends_with(&w.stack, 1, "net-1").await;
    let left = beside(&w, "left", "docs", json!([takes(&w.stack, "net")])).await;
    let right = beside(&w, "right", "docs", json!([takes(&w.stack, "net")])).await;
    w.ends_with(&left, 1, "left-1").await;
    w.ends_with(&right, 1, "right-1").await;
    let sink = beside(
        &w,
        "sink",
        "docs",
        json!([takes(&left, "left"), takes(&right, "right"), takes(&w.stack, "net")]),
    )
    .await;
    w.ends_with(&sink, 1, "sink-1").await;
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.ends_with(&w.stack, 2, "net-2").await;
    w.run_of(&sink, 2, "QUEUED").await;
    w.ends_with(&right, 2, "right-2").await;
    w.waits(&sink, 2, "waits for run 2 of stack left").await;
    w.ends_with(&left, 2, "left-2").await;
    let input = w.plans_of(&sink, 2).await;
    let taken = ["net", "left", "right"].map(|name| variable(&input, name));
    assert_eq!(taken, ["net-2", "left-2", "right-2"].map(Value::from));
    assert_eq!(w.runs_of(&sink).await.len(), 2);
    w.t.stop().await;
}

async fn a_plan_of_older_outputs_is_not_applied(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.ends_with(&w.stack, 1, "vpc-1").await;
    let git = json!({"ref": "main", "folder": "docs"});
    let taken = json!([takes(&w.stack, "vpc")]);
    let app =
        beside_with(&w, json!({"name": "app", "git": git, "dependencies": taken, "approval": true})).await;
    w.plans_of(&app, 1).await;
    let waits = w.run_of(&app, 1, "PENDING_APPROVAL").await;
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.ends_with(&w.stack, 2, "vpc-2").await;
    assert_eq!(w.run_of(&app, 2, "PENDING").await["trigger"], "UPSTREAM");
    w.approve(&w.t.owner, &waits, &waits["plan"]["digest"]).await;
    let failed = w.run_of(&app, 1, "FAILED").await;
    assert!(failed["error"].as_str().unwrap().contains("what it takes from others"), "{failed}");
    w.t.stop().await;
}

async fn a_cycle_is_refused_and_so_is_what_may_not_be_read(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let db = beside(&w, "db", "docs", json!([takes(&w.stack, "vpc")])).await;
    let app = beside(&w, "app", "docs", json!([takes(&db, "db")])).await;
    let cycle = w.depends(&w.stack, json!([takes(&app, "app")])).await;
    assert_eq!(cycle.outcome(), "CONFLICT", "{cycle:?}");
    assert!(cycle.message().contains("infra needs app needs db needs infra"), "{cycle:?}");
    let own = w.depends(&w.stack, json!([takes(&w.stack, "own")])).await;
    assert!(own.outcome() == "INVALID" && own.message().contains("itself"), "{own:?}");
    let nothing = takes("0190b8a2-7c11-7def-8000-0123456789ab", "x");
    assert_eq!(w.depends(&w.stack, json!([nothing])).await.outcome(), "NOT_FOUND");
    let twice = w.depends(&app, json!([takes(&db, "x"), takes(&w.stack, "x")])).await;
    assert!(twice.outcome() == "INVALID" && twice.message().contains("given twice"), "{twice:?}");
    // Whoever writes one of them names no other that they may not see.
    let writer = &w.t.stranger;
    let bound = json!({"id": app, "a": {"writeBindings": [{"userId": writer.id}]}});
    assert_eq!(w.t.owner.ask(UPDATE, bound).await.outcome(), "OK");
    let tries =
        async |taken: Value| writer.ask(UPDATE, json!({"id": app, "a": {"dependencies": taken}})).await;
    let refused = tries(json!([takes(&db, "db"), takes(&w.stack, "vpc")])).await;
    assert_eq!(refused.outcome(), "NOT_FOUND", "{refused:?}");
    // And what somebody else named stays.
    assert_eq!(tries(json!([takes(&db, "db")])).await.outcome(), "OK");
    // Nothing of what was refused is there.
    let known = w.t.owner.data("{ stackGraph { edges { stackId upstreamId } } }", json!({})).await;
    assert_eq!(known["stackGraph"]["edges"].as_array().unwrap().len(), 2);
    // And what is taken away opens the way.
    assert_eq!(w.depends(&db, json!([])).await.outcome(), "OK");
    assert_eq!(w.depends(&w.stack, json!([takes(&app, "app")])).await.outcome(), "OK");
    w.t.stop().await;
}

async fn who_changes_another_dependency_does_not_vouch_for_this_one(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let app = beside(&w, "app", "docs", json!([])).await;
    w.ends_with(&app, 1, "app-1").await;
    let db = beside(&w, "db", "docs", json!([])).await;
    w.ends_with(&db, 1, "db-1").await;
    let bound = json!({"id": app, "a": {"writeBindings": [{"userId": w.t.reader.id}]}});
    assert_eq!(w.t.owner.ask(UPDATE, bound).await.outcome(), "OK");
    let saves = async |by: &Person, all: Value| {
        by.ask(UPDATE, json!({"id": app, "a": {"dependencies": all}})).await.outcome()
    };
    // Nobody knows yet that it will be sensitive.
    let key = json!({"stackId": w.stack, "outputs": [{"output": "key", "variable": "key"}]});
    assert_eq!(saves(&w.t.reader, json!([key])).await, "OK");
    // Who may read it takes something else, too.
    assert_eq!(saves(&w.t.owner, json!([key, takes(&db, "db")])).await, "OK");
    w.ends_with(&w.stack, 1, "vpc-1").await;
    let failed = w.run_of(&app, 3, "FAILED").await;
    assert!(failed["error"].as_str().unwrap().contains("output key of stack infra is sensitive"), "{failed}");
    w.t.stop().await;
}

async fn what_others_depend_on_goes_last(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.ends_with(&w.stack, 1, "vpc-1").await;
    let db = beside(&w, "db", "docs", json!([takes(&w.stack, "vpc")])).await;
    w.ends_with(&db, 1, "db-1").await;
    let app = beside(&w, "app", "docs", json!([takes(&db, "db")])).await;
    w.ends_with(&app, 1, "app-1").await;
    let delete = async |stack: &str| {
        w.t.owner
            .ask("mutation ($id: ID!) { deleteStack(id: $id) { id deletedAt } }", json!({"id": stack}))
            .await
    };
    let refused = delete(&w.stack).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("delete them first, in this order: app, db"), "{refused:?}");
    let refused = w.trigger(&w.t.owner, false, true).await;
    assert!(refused.message().contains("destroy them first, in this order: app, db"), "{refused:?}");
    assert_eq!(w.known(&w.t.owner).await["deletedAt"], Value::Null);
    for (stack, number) in [(&app, 2), (&db, 2)] {
        assert_eq!(delete(stack).await.outcome(), "OK");
        w.plans_of(stack, number).await;
        let run = w.run_of(stack, number, "PENDING").await;
        let harness = w.take(&run, RunPhase::Apply, 0).await;
        harness.input().await;
        assert_eq!(harness.done(true).await, 204);
        eventually(LONG, async || {
            let ask = "query ($id: ID) { infrastructureStack(id: $id) { id } }";
            let answer = w.t.owner.ask(ask, json!({"id": stack})).await;
            (answer.outcome() == "NOT_FOUND").then_some(()).ok_or(format!("{answer:?}"))
        })
        .await;
    }
    assert_eq!(delete(&w.stack).await.outcome(), "OK");
    w.t.stop().await;
}

async fn who_may_only_read_a_stack_does_not_keep_it(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.ends_with(&w.stack, 1, "vpc-1").await;
    let app = beside(&w, "app", "docs", json!([])).await;
    w.ends_with(&app, 1, "app-1").await;
    let bound = json!({"id": app, "a": {"writeBindings": [{"userId": w.t.reader.id}]}});
    assert_eq!(w.t.owner.ask(UPDATE, bound).await.outcome(), "OK");
    let taken = json!({"id": app, "a": {"dependencies": [takes(&w.stack, "vpc")]}});
    assert_eq!(w.t.reader.ask(UPDATE, taken).await.outcome(), "OK");
    w.ends_with(&app, 2, "app-1").await;
    let delete = async |leave: bool| {
        let ask =
            "mutation ($id: ID!, $l: Boolean) { deleteStack(id: $id, leaveDependents: $l) { deletedAt } }";
        w.t.owner.ask(ask, json!({"id": w.stack, "l": leave})).await
    };
    let refused = delete(false).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("leaveDependents"), "{refused:?}");
    assert_eq!(delete(true).await.outcome(), "OK");
    w.plans_of(&w.stack, 2).await;
    let run = w.run_of(&w.stack, 2, "PENDING").await;
    let harness = w.take(&run, RunPhase::Apply, 0).await;
    harness.input().await;
    assert_eq!(harness.done(true).await, 204);
    eventually(LONG, async || {
        let ask = "query ($id: ID) { infrastructureStack(id: $id) { id } }";
        let answer = w.t.owner.ask(ask, json!({"id": w.stack})).await;
        (answer.outcome() == "NOT_FOUND").then_some(()).ok_or(format!("{answer:?}"))
    })
    .await;
    // Who depended on it is told, and goes on without it.
    let failed = w.run_of(&app, 3, "FAILED").await;
    assert!(failed["error"].as_str().unwrap().contains("was deleted: take the dependency away"), "{failed}");
    let db = beside(&w, "db", "docs", json!([])).await;
    let further = w.depends(&app, json!([takes(&w.stack, "vpc"), takes(&db, "db")])).await;
    assert_eq!(further.outcome(), "CONFLICT", "{further:?}");
    assert!(further.message().contains("take this dependency away"), "{further:?}");
    assert_eq!(w.depends(&app, json!([])).await.outcome(), "OK");
    w.run_of(&app, 4, "PENDING").await;
    w.t.stop().await;
}

async fn a_run_names_no_stack_that_its_reader_may_not_see(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let app = beside(&w, "app", "docs", json!([takes(&w.stack, "vpc")])).await;
    w.waits(&app, 1, "waits for run 1 of stack infra").await;
    let run = w.run_of(&app, 1, "QUEUED").await;
    let bound = json!({"id": app, "a": {"readBindings": [{"userId": w.t.stranger.id}]}});
    assert_eq!(w.t.owner.ask(UPDATE, bound).await.outcome(), "OK");
    let ask = "query ($id: ID!) { stackRun(id: $id) { error } }";
    let seen = w.t.stranger.data(ask, json!({"id": run["id"]})).await;
    assert_eq!(seen["stackRun"]["error"], "waits for run 1 of stack (one that you may not see)");
    w.t.stop().await;
}

async fn what_a_run_takes_is_not_among_what_its_readers_see(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.ends_with(&w.stack, 1, "vpc-1").await;
    let attributes = json!({
        "name": "app", "type": "TERRAFORM", "git": {"ref": "main", "folder": "docs"}, "commands": null,
        "deleteCommands": null, "variables": {"own": 1}, "dependencies": [takes(&w.stack, "vpc")],
    });
    let app = beside_with(&w, attributes).await;
    let run = w.run_of(&app, 1, "PENDING").await;
    let input = w.take(&run, RunPhase::Plan, 0).await.input().await;
    assert_eq!(input["spec"]["variables"], json!({"own": 1, "vpc": "vpc-1"}));
    let ask = "query ($id: ID!) { stackRun(id: $id) { variables } }";
    let seen = w.t.owner.data(ask, json!({"id": run["id"]})).await;
    assert!(seen.to_string().contains("own") && !seen.to_string().contains("vpc"), "{seen}");
    w.t.stop().await;
}
