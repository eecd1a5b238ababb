//! What the clock makes of stacks, and drift: found, told, gone, and left as it was by a look that failed.

use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use super::world::{FILE, Harness, LONG, World, hex};
use crate::api_server::{Answer, Person};

each_database!(
    a_look_finds_what_drifted_and_the_next_one_that_it_is_gone,
    a_look_that_failed_leaves_what_is_known,
    of_each_time_there_is_one_run,
    what_the_clock_plans_waits_unless_its_schedule_says_otherwise,
    the_clock_looks_for_drift_and_again_after_an_apply,
    a_custom_stack_says_itself_how_it_is_looked_at,
);

const WATCH: &str = "query ($id: ID) { infrastructureStack(id: $id) {
  status driftStatus driftedAt cron { crontab autoApprove nextAt error } driftSchedule { crontab nextAt }
  driftCheck { checkedAt runNumber count leftOut error failedAt }
  drift(first: 10) { edges { node {
    id address type provider action leftOut runNumber firstSeenAt lastSeenAt fields { path before after sensitive }
  } } }
} }";
const CHECK: &str = "mutation ($id: ID!) { checkStackDrift(id: $id) { id number kind trigger } }";
/// Long ago.
const LONG_AGO: &str = "'2020-01-01T00:00:00+00:00'";

impl World {
    async fn watched(&self) -> Value {
        self.t.owner.data(WATCH, json!({"id": self.stack})).await["infrastructureStack"].clone()
    }

    /// The resources that drifted.
    async fn drifted(&self) -> Vec<Value> {
        let watched = self.watched().await;
        let edges = watched["drift"]["edges"].as_array().unwrap().clone();
        edges.into_iter().map(|edge| edge["node"].clone()).collect()
    }

    async fn check(&self, by: &Person) -> Answer {
        by.ask(CHECK, json!({"id": self.stack})).await
    }

    /// The Job of a look begins.
    async fn look(&self, number: u64) -> Harness {
        let run = self.run(number, "PENDING").await;
        assert_eq!(run["kind"], "DRIFT", "{run}");
        let harness = self.take(&run, RunPhase::Plan, 0).await;
        assert_eq!(harness.get("input").await.0, 200);
        harness
    }

    /// It finds this, and ends well as far as it knows.
    async fn finds(&self, number: u64, drift: &[Value]) {
        let harness = self.look(number).await;
        let plan = json!({"format_version": "1.2", "resource_changes": [], "resource_drift": drift});
        harness.planned(&plan.to_string(), "looked").await;
        assert_eq!(harness.done(true).await, 204);
    }

    /// It was due long ago.
    async fn is_due(&self, column: &str) {
        self.t.sql(&format!("UPDATE stacks SET {column} = {LONG_AGO}")).await;
    }

    /// Several passes of the clock at once: the console's own loop is one more.
    async fn ticks(&self) {
        let app = self.t.console.app();
        let passes = tokio::join!(app.stacks_clock(), app.stacks_clock(), app.stacks_clock());
        for passed in [passes.0, passes.1, passes.2] {
            passed.unwrap();
        }
    }
}

impl Harness {
    /// Uploads a plan of such JSON and text.
    async fn planned(&self, json: &str, text: &str) {
        for (part, body) in [("file", FILE), ("json", json.as_bytes()), ("text", text.as_bytes())] {
            assert_eq!(self.call(Method::PUT, &format!("plan/{part}"), body.to_vec()).await.0, 204);
        }
        let report = json!({
            "summary": {"add": 0, "change": 0, "destroy": 0, "other": true}, "lockDigest": null,
            "fileDigest": hex(FILE), "jsonDigest": hex(json.as_bytes()), "textDigest": hex(text.as_bytes()),
        });
        assert_eq!(self.says("planned", report).await.0, 204);
    }
}

fn terraform() -> Value {
    json!({"type": "TERRAFORM", "manageState": true, "approval": true})
}

fn file(name: &str, actions: &str, after: &Value) -> Value {
    let before = json!({"content": "ours", "key": "s3cret-1"});
    json!({
        "address": format!("local_file.{name}"), "type": "local_file", "provider_name": "hashicorp/local",
        "change": {
            "actions": [actions], "before": before, "after": after,
            "before_sensitive": {"key": true}, "after_sensitive": {"key": true},
        },
    })
}

fn theirs() -> Value {
    json!({"content": "theirs", "key": "s3cret-2"})
}

async fn a_look_finds_what_drifted_and_the_next_one_that_it_is_gone(database: TestDatabase) {
    let w = World::new(&database, terraform()).await;
    w.plans(1, 1).await;
    let waits = w.run(1, "PENDING_APPROVAL").await;
    assert_eq!(w.watched().await["driftStatus"], "UNCHECKED");
    assert_eq!(w.check(&w.t.reader).await.outcome(), "FORBIDDEN");
    assert_eq!(w.check(&w.t.owner).await.outcome(), "OK");
    w.finds(2, &[file("a", "update", &theirs()), file("b", "delete", &Value::Null)]).await;
    let run = w.run(2, "SUCCESSFUL").await;
    assert_eq!((&run["kind"], &run["trigger"]), (&json!("DRIFT"), &json!("MANUAL")));
    // It takes nobody's place, and is none of the runs that say how the stack stands.
    assert_eq!(w.run(1, "PENDING_APPROVAL").await["plan"], waits["plan"]);
    let watched = w.watched().await;
    assert_eq!(
        (&watched["status"], &watched["driftStatus"]),
        (&json!("PENDING_APPROVAL"), &json!("DRIFTED"))
    );
    let check = &watched["driftCheck"];
    assert_eq!((&check["runNumber"], &check["count"], &check["error"]), (&json!(2), &json!(2), &Value::Null));
    assert!(!watched.to_string().contains("s3cret"), "{watched}");
    let first = w.drifted().await;
    assert_eq!((&first[0]["address"], &first[0]["action"]), (&json!("local_file.a"), &json!("UPDATED")));
    let fields = json!([
        {"path": "content", "before": "\"ours\"", "after": "\"theirs\"", "sensitive": false},
        {"path": "key", "before": null, "after": null, "sensitive": true},
    ]);
    assert_eq!(first[0]["fields"], fields);
    assert_eq!((&first[1]["address"], &first[1]["action"]), (&json!("local_file.b"), &json!("DELETED")));
    let listed = "query ($d: Boolean) { infrastructureStacks(drifted: $d) { edges { node { name } } } }";
    for (drifted, expected) in [(true, 1), (false, 0)] {
        let found = w.t.owner.data(listed, json!({"d": drifted})).await;
        assert_eq!(found["infrastructureStacks"]["edges"].as_array().unwrap().len(), expected, "{found}");
    }

    // What is still so keeps since when; what is not is gone.
    assert_eq!(w.check(&w.t.owner).await.outcome(), "OK");
    w.finds(3, &[file("a", "update", &theirs())]).await;
    w.run(3, "SUCCESSFUL").await;
    let second = w.drifted().await;
    assert_eq!(second.len(), 1, "{second:?}");
    for kept in ["id", "address", "firstSeenAt"] {
        assert_eq!(second[0][kept], first[0][kept], "{kept}");
    }
    assert_eq!(second[0]["runNumber"], 3);

    assert_eq!(w.check(&w.t.owner).await.outcome(), "OK");
    w.finds(4, &[]).await;
    w.run(4, "SUCCESSFUL").await;
    let watched = w.watched().await;
    assert_eq!((&watched["driftStatus"], &watched["driftedAt"]), (&json!("IN_SYNC"), &Value::Null));
    assert_eq!(w.drifted().await, Vec::<Value>::new());
    w.t.stop().await;
}

async fn a_look_that_failed_leaves_what_is_known(database: TestDatabase) {
    let w = World::new(&database, terraform()).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    assert_eq!(w.check(&w.t.owner).await.outcome(), "OK");
    w.finds(2, &[file("a", "update", &theirs())]).await;
    w.run(2, "SUCCESSFUL").await;
    let (known, before) = (w.drifted().await, w.watched().await);

    assert_eq!(w.check(&w.t.owner).await.outcome(), "OK");
    let harness = w.look(3).await;
    assert_eq!(harness.ends(json!({"error": "the provider does not answer"})).await, 204);
    w.run(3, "FAILED").await;
    // A plan that is none says nothing either.
    assert_eq!(w.check(&w.t.owner).await.outcome(), "OK");
    let harness = w.look(4).await;
    harness.planned("[\"s3cret\"]", "looked").await;
    assert_eq!(harness.done(true).await, 204);
    let run = w.run(4, "FAILED").await;
    let error = run["error"].as_str().unwrap();
    assert!(error.contains("nothing is known of drift") && !error.contains("s3cret"), "{error}");

    let after = w.watched().await;
    assert_eq!(w.drifted().await, known);
    for kept in ["status", "driftStatus", "driftedAt"] {
        assert_eq!(after[kept], before[kept], "{kept}");
    }
    let check = &after["driftCheck"];
    assert_eq!((&check["error"], &check["checkedAt"]), (&run["error"], &before["driftCheck"]["checkedAt"]));
    assert_eq!(w.check(&w.t.owner).await.outcome(), "OK");
    w.finds(5, &[file("a", "update", &theirs())]).await;
    w.run(5, "SUCCESSFUL").await;
    assert_eq!(w.watched().await["driftCheck"]["error"], Value::Null);
    w.t.stop().await;
}

async fn of_each_time_there_is_one_run(database: TestDatabase) {
    let w = World::new(&database, terraform()).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    let refused = w.update(json!({"cron": {"crontab": "nightly"}})).await;
    assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
    // When runs are made is nothing that one is made for.
    assert_eq!(w.update(json!({"cron": {"crontab": "0 0 1 1 *"}})).await.outcome(), "OK");
    assert_eq!(w.runs().await.len(), 1);
    let next = w.watched().await["cron"]["nextAt"].clone();
    assert!(next.is_string(), "{next}");

    // Years of missed times are made up for once.
    w.is_due("next_cron_at").await;
    Box::pin(w.ticks()).await;
    let run = w.run(2, "PENDING").await;
    assert_eq!((&run["kind"], &run["trigger"]), (&json!("APPLY"), &json!("CRON")));
    assert_eq!(w.watched().await["cron"]["nextAt"], next);
    Box::pin(w.ticks()).await;
    assert_eq!(w.runs().await.len(), 2);

    // One that is not over yet is enough.
    w.is_due("next_cron_at").await;
    Box::pin(w.ticks()).await;
    // The console's own pass may have been faster, and not be done.
    let cron = eventually(LONG, async || {
        let cron = w.watched().await["cron"].clone();
        if cron["nextAt"] == next { Ok(cron) } else { Err(cron.to_string()) }
    })
    .await;
    assert!(cron["error"].as_str().unwrap().contains("run 2"), "{cron}");
    assert_eq!(w.runs().await.len(), 2);

    // While it is paused, times go by.
    w.plans(2, 0).await;
    w.run(2, "SUCCESSFUL").await;
    assert_eq!(w.update(json!({"paused": true})).await.outcome(), "OK");
    w.is_due("next_cron_at").await;
    Box::pin(w.ticks()).await;
    assert_eq!(w.update(json!({"paused": false})).await.outcome(), "OK");
    Box::pin(w.ticks()).await;
    assert_eq!(w.runs().await.len(), 2);
    assert_eq!(w.update(json!({"cron": {"crontab": ""}})).await.outcome(), "OK");
    assert_eq!(w.watched().await["cron"], Value::Null);
    w.t.stop().await;
}

async fn what_the_clock_plans_waits_unless_its_schedule_says_otherwise(database: TestDatabase) {
    let w = World::new(&database, terraform()).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    assert_eq!(w.update(json!({"cron": {"crontab": "@yearly"}})).await.outcome(), "OK");
    w.is_due("next_cron_at").await;
    Box::pin(w.ticks()).await;
    w.plans(2, 1).await;
    w.run(2, "PENDING_APPROVAL").await;

    let unattended = json!({
        "crontab": "@yearly", "autoApprove": true, "overrides": {"terraform": {"parallelism": 3}},
    });
    assert_eq!(w.update(json!({"cron": unattended})).await.outcome(), "OK");
    w.is_due("next_cron_at").await;
    Box::pin(w.ticks()).await;
    let run = w.run(3, "PENDING").await;
    let harness = w.take(&run, RunPhase::Plan, 0).await;
    let input = harness.input().await;
    assert!(input["steps"].to_string().contains("-parallelism=3"), "{input}");
    harness.plan(1).await;
    assert_eq!(harness.done(true).await, 204);
    // It takes the place of the one that waits, and is applied as it was planned.
    w.run(2, "CANCELLED").await;
    w.applies(3).await;
    w.run(3, "SUCCESSFUL").await;
    // What people ask for waits as ever.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(4, 1).await;
    w.run(4, "PENDING_APPROVAL").await;
    w.t.stop().await;
}

async fn the_clock_looks_for_drift_and_again_after_an_apply(database: TestDatabase) {
    let attributes = json!({"type": "TERRAFORM", "manageState": true, "drift": {"crontab": "@yearly"}});
    let w = World::new(&database, attributes).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    assert!(w.watched().await["driftSchedule"]["nextAt"].is_string());
    w.is_due("next_drift_at").await;
    Box::pin(w.ticks()).await;
    w.finds(2, &[file("a", "update", &theirs())]).await;
    assert_eq!(w.run(2, "SUCCESSFUL").await["trigger"], "CRON");
    assert_eq!(w.watched().await["driftStatus"], "DRIFTED");
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(3, 1).await;
    w.applies(3).await;
    w.run(3, "SUCCESSFUL").await;
    Box::pin(w.ticks()).await;
    w.finds(4, &[]).await;
    w.run(4, "SUCCESSFUL").await;
    assert_eq!(w.watched().await["driftStatus"], "IN_SYNC");
    w.t.stop().await;
}

async fn a_custom_stack_says_itself_how_it_is_looked_at(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    let refused = w.check(&w.t.owner).await;
    assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
    let without = w.update(json!({"drift": {"crontab": "@daily"}})).await;
    assert_eq!(without.outcome(), "INVALID", "{without:?}");
    let drift = json!({"commands": [{"cmd": "look", "args": ["--drift"]}]});
    assert_eq!(w.update(json!({"drift": drift})).await.outcome(), "OK");
    assert_eq!(w.check(&w.t.owner).await.outcome(), "OK");
    let harness = w.look(2).await;
    harness.planned("{}", "looking\ndrift: updated bucket\ndrift: deleted vm\n").await;
    assert_eq!(harness.done(true).await, 204);
    w.run(2, "SUCCESSFUL").await;
    let drifted = w.drifted().await;
    let told: Vec<_> = drifted.iter().map(|it| (it["address"].as_str(), it["action"].as_str())).collect();
    assert_eq!(told, [(Some("bucket"), Some("UPDATED")), (Some("vm"), Some("DELETED"))]);
    w.t.stop().await;
}
