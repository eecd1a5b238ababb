//! The lock of a state whose run was not heard of any more: it is kept until the agent says that the Job is gone, and applies wait for that.

use plural_app::agent_run::ReportedRunState;
use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database, eventually};
use serde_json::{Value, json};

use super::exec::exec;
use super::states::lock;
use super::world::{Harness, LONG, World, id_of};

each_database!(
    an_apply_waits_until_the_lost_job_that_holds_the_state_is_gone,
    a_lost_run_that_is_queued_again_gives_its_lock_back,
    a_job_that_was_never_told_of_gives_its_lock_back,
    a_job_that_ended_before_it_was_lost_gives_its_lock_back,
    somebody_ends_the_lock_that_an_apply_waits_for,
    while_the_state_is_held_one_apply_waits_and_what_is_planned_then_ends,
);

const UNLOCK: &str = "mutation ($id: ID!, $l: ID!) { forceUnlockStack(stackId: $id, lock: $l) { id } }";

impl World {
    /// A stack whose state is here.
    async fn keeping(database: &TestDatabase, approval: bool) -> Self {
        let attributes = json!({"type": "TERRAFORM", "manageState": true, "approval": approval});
        Self::new(database, attributes).await
    }

    /// The second Job of a run, which has begun to apply, and holds the state.
    async fn holding(&self, number: u64, id: &str) -> Harness {
        let run = self.run(number, "PENDING").await;
        let job = self.take(&run, RunPhase::Apply, 0).await;
        job.begins().await;
        assert_eq!(self.state(&job.state_token(), "LOCK", "", lock(id)).await, 200);
        job
    }

    /// The Job of run 1, which was lost while it applied, and holds the state: its agent told nothing of it.
    async fn lost_holding(&self) -> Harness {
        self.plans(1, 1).await;
        let lost = self.holding(1, "one").await;
        self.falls_silent().await;
        self.tend().await;
        self.run(1, "FAILED").await;
        lost
    }

    /// The id of the lock of the state.
    async fn held(&self) -> Value {
        self.known(&self.t.owner).await["lock"]["id"].clone()
    }

    /// Who released locks, and of which stacks.
    async fn releases(&self) -> Vec<Value> {
        let ask = "{ audits(first: 9, action: \"stack.state.release\") { edges { node { actorName targetName } } } }";
        let lines = self.t.admin.data(ask, json!({})).await["audits"]["edges"].as_array().unwrap().clone();
        lines.into_iter().map(|line| line["node"].clone()).collect()
    }
}

async fn an_apply_waits_until_the_lost_job_that_holds_the_state_is_gone(database: TestDatabase) {
    let w = World::keeping(&database, false).await;
    w.plans(1, 1).await;
    let lost = w.holding(1, "one").await;
    w.says(&lost, ReportedRunState::Created, "").await;
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.run(2, "QUEUED").await;
    w.falls_silent().await;
    w.tend().await;
    w.run(1, "FAILED").await;
    assert_eq!(w.held().await, "one");

    // A plan needs no lock. What it planned is not applied while the other Job may be at work.
    w.plans(2, 1).await;
    let waits = w.run(2, "QUEUED").await;
    let why = waits["error"].as_str().unwrap();
    assert!(why.contains(&format!("run:{}", lost.run)) && why.contains("state unlock"), "{waits}");
    assert_eq!(waits["phase"], "APPLY", "{waits}");
    w.tend().await;
    w.run(2, "QUEUED").await;
    assert_eq!((w.held().await, w.releases().await), (json!("one"), vec![]));

    w.says(&lost, ReportedRunState::Gone, "").await;
    // What the lost Job did is not in the plan, though nobody wrote the state.
    let stale = w.run(2, "FAILED").await;
    assert!(stale["error"].as_str().is_some_and(|why| why.starts_with("run 1, which was lost")), "{stale}");
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(3, 1).await;
    let run = w.run(3, "PENDING").await;
    assert_eq!(run["error"], Value::Null, "{run}");
    let next = w.holding(3, "two").await;
    // It is said again: the lock is another one's by now.
    w.says(&lost, ReportedRunState::Gone, "").await;
    assert_eq!(w.held().await, "two");
    assert_eq!(next.done(true).await, 204);
    w.run(3, "SUCCESSFUL").await;
    assert_eq!(w.held().await, Value::Null);
    let released = json!({"actorName": "system", "targetName": "infra"});
    assert_eq!(w.releases().await, [released.clone(), released]);

    // For the lock of a person nothing waits: the tool is told of it.
    let owner = w.t.owner.token.clone().unwrap();
    assert_eq!(w.state(&owner, "LOCK", "", lock("mine")).await, 200);
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(4, 1).await;
    assert_eq!(w.run(4, "PENDING").await["phase"], "APPLY");
    assert_eq!(w.held().await, "mine");
    w.t.stop().await;
}

async fn a_lost_run_that_is_queued_again_gives_its_lock_back(database: TestDatabase) {
    let w = World::keeping(&database, true).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(2, 1).await;
    let first = w.run(2, "PENDING_APPROVAL").await;
    assert_eq!(exec(&w, &w.t.owner, json!([{"cmd": "make", "approve": true}])).await.outcome(), "OK");
    w.plans(3, 0).await;
    let second = w.run(3, "PENDING_APPROVAL").await;

    // The second one is at work when the first is agreed to, and is lost before it has begun to apply: it is queued again, behind the first.
    assert_eq!(w.approve(&w.t.owner, &second, &second["plan"]["digest"]).await.outcome(), "OK");
    let lost = w.take(&w.run(3, "PENDING").await, RunPhase::Apply, 0).await;
    w.says(&lost, ReportedRunState::Created, "").await;
    lost.input().await;
    assert_eq!(w.state(&lost.state_token(), "LOCK", "", lock("three")).await, 200);
    assert_eq!(w.approve(&w.t.owner, &first, &first["plan"]["digest"]).await.outcome(), "OK");
    w.run(2, "QUEUED").await;
    w.falls_silent().await;
    w.tend().await;
    for number in [2, 3] {
        let waits = w.run(number, "QUEUED").await;
        let holder = format!("run:{}", id_of(&second));
        assert!(waits["error"].as_str().is_some_and(|why| why.contains(&holder)), "{waits}");
    }
    assert_eq!(w.held().await, "three");

    w.says(&lost, ReportedRunState::Gone, "").await;
    assert_eq!((w.held().await, w.releases().await.len()), (Value::Null, 1));
    w.applies(2).await;
    w.run(2, "SUCCESSFUL").await;
    let again = w.take(&w.run(3, "PENDING").await, RunPhase::Apply, 1).await;
    assert_eq!(again.attempt, 2);
    again.begins().await;
    assert_eq!(w.state(&again.state_token(), "LOCK", "", lock("four")).await, 200);
    assert_eq!(again.done(true).await, 204);
    w.run(3, "SUCCESSFUL").await;
    w.t.stop().await;
}

/// Its agent was killed before it could say where the Job is.
async fn a_job_that_was_never_told_of_gives_its_lock_back(database: TestDatabase) {
    let w = World::keeping(&database, false).await;
    let lost = w.lost_holding().await;
    assert_eq!(w.held().await, "one");
    w.says(&lost, ReportedRunState::Gone, "").await;
    assert_eq!((w.held().await, w.releases().await.len()), (Value::Null, 1));
    w.t.stop().await;
}

/// The agent said so while the harness still had its time to say how.
async fn a_job_that_ended_before_it_was_lost_gives_its_lock_back(database: TestDatabase) {
    let w = World::keeping(&database, false).await;
    w.plans(1, 1).await;
    let lost = w.holding(1, "one").await;
    w.says(&lost, ReportedRunState::Ended, "OOMKilled").await;
    w.falls_silent().await;
    w.tend().await;
    w.run(1, "FAILED").await;
    w.t.sql("UPDATE jobs SET run_after = 0 WHERE kind = 'end_stack_run'").await;
    // A new job has the workers look.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    eventually(LONG, async || {
        let held = w.held().await;
        held.is_null().then_some(()).ok_or_else(|| held.to_string())
    })
    .await;
    assert_eq!(w.releases().await.len(), 1);
    w.t.stop().await;
}

/// No agent will say that the Job is gone.
async fn somebody_ends_the_lock_that_an_apply_waits_for(database: TestDatabase) {
    let w = World::keeping(&database, false).await;
    let lost = w.lost_holding().await;
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(2, 1).await;
    w.run(2, "QUEUED").await;
    let unlocked = w.t.owner.ask(UNLOCK, json!({"id": w.stack, "l": "one"})).await;
    assert_eq!(unlocked.outcome(), "OK", "{unlocked:?}");
    w.run(2, "FAILED").await;
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(3, 1).await;
    w.holding(3, "two").await;
    assert_eq!(w.state(&lost.state_token(), "POST", "?ID=one", Vec::new()).await, 401);
    w.t.stop().await;
}

async fn while_the_state_is_held_one_apply_waits_and_what_is_planned_then_ends(database: TestDatabase) {
    let w = World::keeping(&database, false).await;
    w.plans(1, 1).await;
    let lost = w.holding(1, "one").await;
    w.falls_silent().await;
    w.tend().await;
    w.run(1, "FAILED").await;
    for number in [2, 3] {
        assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
        w.plans(number, 1).await;
        w.run(number, "QUEUED").await;
    }
    assert_eq!(w.run(2, "CANCELLED").await["error"], "superseded by run 3");

    // The next one is at its plan when the Job that is at work is known to be gone.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    let plans = w.take(&w.run(4, "PENDING").await, RunPhase::Plan, 0).await;
    plans.input().await;
    w.run(4, "RUNNING").await;
    w.says(&lost, ReportedRunState::Gone, "").await;
    for number in [3, 4] {
        let stale = w.run(number, "FAILED").await;
        let why = stale["error"].as_str().unwrap_or_default();
        assert!(why.starts_with("run 1, which was lost"), "{stale}");
    }
    assert_eq!(plans.done(true).await, 401, "its credential went with it");
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(5, 1).await;
    w.holding(5, "two").await;
    w.t.stop().await;
}
