//! Clocks that jump: that of the console, or that of the replica which takes the signs of life. Then all signs of life are of long ago, or of a
//! time to come, until the next one.

use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use super::world::{Harness, World};

each_database!(a_clock_that_jumps_ends_no_run);

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
