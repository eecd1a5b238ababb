//! The state of a stack and its runs: who reaches it, with which of the two credentials of a Job, and what becomes of locks.

use plural_app::agent_run::ReportedRunState;
use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use super::world::{World, id_of};

each_database!(
    a_state_that_moved_refuses_the_plan,
    a_run_reaches_the_state_of_its_own_stack,
    a_command_of_a_run_does_not_speak_for_it,
    of_two_runs_at_work_each_reaches_its_own_state,
);

/// What a harness says.
const CALLS: &[(&str, &str)] = &[
    ("GET", "input"),
    ("GET", "artifact"),
    ("GET", "plan-file"),
    ("POST", "heartbeat"),
    ("POST", "steps/0"),
    ("POST", "logs?step=0&offset=0"),
    ("PUT", "plan/file"),
    ("PUT", "plan/text"),
    ("PUT", "findings/trivy"),
    ("PUT", "findings/cost"),
    ("POST", "planned"),
];

/// A Terraform state.
fn state(serial: u64) -> Vec<u8> {
    json!({"version": 4, "serial": serial, "lineage": "a", "outputs": {}, "resources": []})
        .to_string()
        .into_bytes()
}

pub(super) fn lock(id: &str) -> Vec<u8> {
    json!({"ID": id, "Operation": "OperationTypeApply", "Who": "harness@pod"}).to_string().into_bytes()
}

impl World {
    /// Who holds the state.
    async fn holder(&self) -> Value {
        let ask = "query ($id: ID) { infrastructureStack(id: $id) { lock { who fence } } }";
        self.t.owner.data(ask, json!({"id": self.stack})).await["infrastructureStack"]["lock"].clone()
    }

    /// A call at the door of states.
    pub(super) async fn state(&self, token: &str, method: &str, query: &str, body: Vec<u8>) -> u16 {
        let url = self.t.url(&format!("/v1/stacks/{}/state{query}", self.stack));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.t.owner.http().request(method, url).basic_auth("plural", Some(token)).body(body);
        request.send().await.unwrap().status().as_u16()
    }
}

async fn a_state_that_moved_refuses_the_plan(database: TestDatabase) {
    let attributes = json!({"type": "TERRAFORM", "manageState": true, "approval": true});
    let w = World::new(&database, attributes).await;
    let owner = w.t.owner.token.clone().unwrap();
    assert_eq!(w.state(&owner, "POST", "", state(1)).await, 200);
    w.plans(1, 1).await;
    let run = w.run(1, "PENDING_APPROVAL").await;
    assert_eq!(w.state(&owner, "POST", "", state(2)).await, 200);
    w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await;
    let run = w.run(1, "FAILED").await;
    let error = run["error"].as_str().unwrap();
    assert!(error.contains("the state moved since the plan was made (serial 1 then, 2 now)"), "{error}");

    // The same between the approval and the Job.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(2, 1).await;
    let run = w.run(2, "PENDING_APPROVAL").await;
    assert_eq!(w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await.outcome(), "OK");
    let run = w.run(2, "PENDING").await;
    let apply = w.take(&run, RunPhase::Apply, 0).await;
    assert_eq!(w.state(&owner, "POST", "", state(3)).await, 200);
    assert_eq!(apply.get("input").await.0, 409);
    assert_eq!(apply.get("input").await.0, 401);
    w.run(2, "FAILED").await;
    w.t.stop().await;
}

async fn a_run_reaches_the_state_of_its_own_stack(database: TestDatabase) {
    let w = World::new(&database, json!({"type": "TERRAFORM", "manageState": true})).await;
    let run = w.run(1, "PENDING").await;
    let plan = w.take(&run, RunPhase::Plan, 0).await;
    let input = plan.input().await;
    assert_eq!(input["statePath"], format!("/v1/stacks/{}/state", w.stack));
    assert_eq!(w.state(&plan.state_token(), "GET", "", Vec::new()).await, 204);
    // A plan writes nothing, and locks nothing.
    assert_eq!(w.state(&plan.state_token(), "POST", "", state(1)).await, 403);
    assert_eq!(w.state(&plan.state_token(), "LOCK", "", lock("one")).await, 403);
    let other = json!({"name": "other", "type": "TERRAFORM", "projectId": w.t.project});
    let create = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
    let other = w.t.owner.data(create, json!({"a": other})).await["createStack"]["id"].clone();
    let url = w.t.url(&format!("/v1/stacks/{}/state", other.as_str().unwrap()));
    let asked =
        w.t.owner.http().get(url).basic_auth("plural", Some(plan.state_token())).send().await.unwrap();
    assert_eq!(asked.status(), 403);
    // Nor is it a person's token.
    for token in [&plan.token, &plan.state_token()] {
        let asked = w.t.owner.with_token(token).ask("{ me { id } }", json!({})).await;
        assert_eq!(asked.outcome(), "401");
    }
    plan.plan(1).await;
    assert_eq!(plan.done(true).await, 204);
    assert_eq!(w.state(&plan.state_token(), "GET", "", Vec::new()).await, 401);

    let run = w.run(1, "PENDING").await;
    let apply = w.take(&run, RunPhase::Apply, 0).await;
    apply.begins().await;
    // The lock of a person is not the run's to end, whether it names it or not.
    let owner = w.t.owner.token.clone().unwrap();
    assert_eq!(w.state(&owner, "LOCK", "", lock("mine")).await, 200);
    for body in [Vec::new(), lock("mine")] {
        assert_eq!(w.state(&apply.state_token(), "UNLOCK", "", body).await, 409);
    }
    assert_eq!(w.known(&w.t.owner).await["lock"]["id"], "mine");
    // Nor does it write under that lock, whose id it was told when it was refused: what it writes is kept, and is not the state.
    assert_eq!(w.state(&apply.state_token(), "LOCK", "", lock("one")).await, 423);
    assert_eq!(w.state(&apply.state_token(), "POST", "?ID=mine", state(7)).await, 409);
    assert_eq!(w.state(&owner, "GET", "", Vec::new()).await, 204);
    assert_eq!(w.state(&owner, "UNLOCK", "", lock("mine")).await, 200);
    assert_eq!(w.state(&apply.state_token(), "LOCK", "", lock("one")).await, 200);
    let held = w.known(&w.t.owner).await["lock"].clone();
    assert_eq!(held, json!({"id": "one", "author": format!("run:{}", id_of(&run))}));
    assert_eq!(w.holder().await, json!({"who": "harness@pod (apply, Job 1)", "fence": 2}));
    assert_eq!(w.state(&apply.state_token(), "POST", "?ID=one", state(1)).await, 200);
    // Its Pod is gone, and with it whoever could give the lock back.
    w.says(&apply, ReportedRunState::Gone, "the node is gone").await;
    let run = w.run(1, "FAILED").await;
    assert!(run["error"].as_str().unwrap().contains("may have changed something"), "{run}");
    eventually(std::time::Duration::from_mins(1), async || {
        let known = w.known(&w.t.owner).await;
        known["lock"].is_null().then_some(()).ok_or(format!("{known}"))
    })
    .await;
    assert_eq!(w.state(&apply.state_token(), "POST", "?ID=one", state(2)).await, 401);

    // One that is not heard of any more keeps its lock until its Pod is known to be gone: it may still be at work.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(2, 1).await;
    let run = w.run(2, "PENDING").await;
    let apply = w.take(&run, RunPhase::Apply, 0).await;
    w.says(&apply, ReportedRunState::Created, "").await;
    apply.begins().await;
    assert_eq!(w.state(&apply.state_token(), "LOCK", "", lock("two")).await, 200);
    assert_eq!(w.holder().await["who"], "harness@pod (apply, Job 1, plural-runs/job)");
    w.falls_silent().await;
    w.tend().await;
    w.run(2, "FAILED").await;
    assert_eq!(w.known(&w.t.owner).await["lock"]["id"], "two");
    w.says(&apply, ReportedRunState::Gone, "").await;
    assert_eq!(w.known(&w.t.owner).await["lock"], Value::Null);

    // The lock of a person stays, whatever becomes of runs.
    assert_eq!(w.state(&owner, "LOCK", "", lock("mine")).await, 200);
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(3, 0).await;
    w.run(3, "SUCCESSFUL").await;
    assert_eq!(w.known(&w.t.owner).await["lock"]["id"], "mine");
    w.t.stop().await;
}

async fn a_command_of_a_run_does_not_speak_for_it(database: TestDatabase) {
    let w = World::new(&database, json!({"type": "TERRAFORM", "manageState": true, "approval": true})).await;
    let run = w.run(1, "PENDING").await;
    let plan = w.take(&run, RunPhase::Plan, 0).await;
    plan.input().await;
    let command = plan.command();
    let is_shut = async || {
        for (method, path) in CALLS {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(command.call(method, path, b"{}".to_vec()).await.0, 401, "{path}");
        }
        assert_eq!((command.done(true).await, command.done(false).await), (401, 401));
    };
    is_shut().await;
    let digest = plan.plan(2).await;
    is_shut().await;
    // And the harness has nothing to say where the tool has.
    for method in ["GET", "POST", "LOCK", "UNLOCK"] {
        assert_eq!(w.state(&plan.token, method, "", lock("one")).await, 401, "{method}");
    }
    let url = w.t.url(&format!("/v1/stacks/{}/state", w.stack));
    for (token, expected) in [(plan.token.clone(), 401_u16), (plan.state_token(), 204)] {
        let asked = w.t.owner.http().get(&url).bearer_auth(token).send().await.unwrap();
        assert_eq!(asked.status().as_u16(), expected);
    }
    // The harness is heard all the same, and what it planned is what waits.
    assert_eq!(plan.done(true).await, 204);
    let waits = w.run(1, "PENDING_APPROVAL").await;
    assert_eq!((&waits["plan"]["digest"], &waits["plan"]["text"]), (&json!(digest), &json!("2 to add")));
    w.t.stop().await;
}

async fn of_two_runs_at_work_each_reaches_its_own_state(database: TestDatabase) {
    let mut w = World::new(&database, json!({"type": "TERRAFORM", "manageState": true})).await;
    let run = w.run(1, "PENDING").await;
    let other = json!({
        "name": "other", "type": "TERRAFORM", "manageState": true, "projectId": w.t.project,
        "repositoryId": w.repository, "clusterId": w.cluster, "git": {"ref": "main", "folder": "infra"},
    });
    let create = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
    let made = w.t.owner.data(create, json!({"a": other})).await;
    let other = made["createStack"]["id"].as_str().unwrap().to_owned();
    let first = std::mem::replace(&mut w.stack, other);
    let of_other = w.run(1, "PENDING").await;
    let plan = w.take(&run, RunPhase::Plan, 0).await;
    let plan_of_other = w.take(&of_other, RunPhase::Plan, 0).await;
    plan.input().await;
    plan_of_other.input().await;
    let reads = async |w: &World| {
        let mut told = Vec::new();
        for token in [plan.state_token(), plan_of_other.state_token()] {
            told.push(w.state(&token, "GET", "", Vec::new()).await);
        }
        told
    };
    assert_eq!(reads(&w).await, [403, 204]);
    w.stack = first;
    assert_eq!(reads(&w).await, [204, 403]);
    // At the door of runs, the credential of each is for its own run.
    assert_eq!(plan.of(&plan_of_other).beat().await.0, 401);
    assert_eq!((plan.beat().await.0, plan_of_other.beat().await.0), (200, 200));
    w.t.stop().await;
}
