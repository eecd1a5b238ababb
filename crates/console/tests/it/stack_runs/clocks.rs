//! Clocks that jump: that of the console, or that of the replica which takes the signs of life. Then all signs of life are of long ago, or of a
//! time to come, until the next one.

use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use super::world::{Harness, World};

each_database!(
    a_clock_that_jumps_ends_no_run,
    a_clock_that_jumps_ends_no_run_whose_job_has_not_spoken,
    a_clock_that_jumps_ends_no_plan_that_waits,
);

/// How far it may be off.
const TIMES: [&str; 2] = ["2020-01-01T00:00:00+00:00", "2090-01-01T00:00:00+00:00"];

impl World {
    /// The clock jumps again and again. The harness speaks as always, and there are fewer passes between two of its words than it takes
    /// to lose a run: the console's own loop may add one.
    async fn clock_jumps(&self, harness: &Harness) {
        for time in TIMES.repeat(3) {
            self.t.sql(&format!("UPDATE stack_runs SET heartbeat_at = '{time}'")).await;
            for _ in 0..3 {
                self.t.console.app().stack_runs_tend().await.unwrap();
            }
            assert_eq!(harness.beat().await.0, 200, "{time}");
        }
    }
}

async fn a_clock_that_jumps_ends_no_run(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let run = w.run(1, "PENDING").await;
    let plan = w.take(&run, RunPhase::Plan, 0).await;
    plan.input().await;
    w.clock_jumps(&plan).await;
    plan.plan(1).await;
    assert_eq!(plan.done(true).await, 204);

    let run = w.run(1, "PENDING").await;
    assert_eq!(run["phase"], "APPLY", "{run}");
    let apply = w.take(&run, RunPhase::Apply, 0).await;
    apply.input().await;
    w.clock_jumps(&apply).await;
    assert_eq!(apply.done(true).await, 204);
    assert_eq!(w.run(1, "SUCCESSFUL").await["error"], Value::Null);

    // One that is silent is lost whatever the clock says: also where its last sign is of a time to come.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    let run = w.run(2, "PENDING").await;
    let plan = w.take(&run, RunPhase::Plan, 0).await;
    plan.input().await;
    w.t.sql(&format!("UPDATE stack_runs SET heartbeat_at = '{}'", TIMES[1])).await;
    w.tend().await;
    w.run(2, "PENDING").await;
    assert_eq!(plan.beat().await.0, 401);
    w.t.stop().await;
}

/// A clock that is set ahead makes all that waits look late. Its agent, and whoever puts its code together, have their time all the same.
async fn a_clock_that_jumps_ends_no_run_whose_job_has_not_spoken(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let run = w.run(1, "PENDING").await;
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.run(2, "QUEUED").await;
    for time in TIMES {
        let stale = format!("UPDATE stack_runs SET created_at = '{time}', heartbeat_at = '{time}'");
        w.t.sql(&stale).await;
        w.t.sql("UPDATE stack_runs SET source = NULL WHERE number = 2").await;
        w.tend().await;
        w.run(1, "PENDING").await;
        w.run(2, "QUEUED").await;
    }
    // It begins as if nothing had been.
    let plan = w.take(&run, RunPhase::Plan, 0).await;
    plan.input().await;
    plan.plan(0).await;
    assert_eq!(plan.done(true).await, 204);
    w.run(1, "SUCCESSFUL").await;
    w.run(2, "PENDING").await;
    w.t.stop().await;
}

/// The plans of all runs are a hundred years older, or as old as they are.
async fn plans_age(w: &World, database: &TestDatabase, (from, to): (u8, u8)) {
    let mut aged = "CAST(planned AS text)".to_owned();
    for space in ["", " "] {
        aged = format!("replace({aged}, '\"at\":{space}\"{from}', '\"at\":{space}\"{to}')");
    }
    if database.is_postgres() {
        aged = format!("CAST({aged} AS jsonb)");
    }
    w.t.sql(&format!("UPDATE stack_runs SET planned = {aged}")).await;
}

async fn a_clock_that_jumps_ends_no_plan_that_waits(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true, "approvalExpiry": "1h"})).await;
    w.plans(1, 1).await;
    w.run(1, "PENDING_APPROVAL").await;
    plans_age(&w, &database, (20, 19)).await;
    w.tend().await;
    let run = w.run(1, "PENDING_APPROVAL").await;
    // The clock is right again.
    plans_age(&w, &database, (19, 20)).await;
    assert_eq!(w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await.outcome(), "OK");
    w.applies(1).await;
    w.run(1, "SUCCESSFUL").await;

    // One that is as old as it seems to be goes all the same.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(2, 1).await;
    w.run(2, "PENDING_APPROVAL").await;
    plans_age(&w, &database, (20, 19)).await;
    w.tend_long().await;
    let error = w.run(2, "CANCELLED").await["error"].clone();
    assert_eq!(error, "nobody approved it within 60 minutes");
    w.t.stop().await;
}
