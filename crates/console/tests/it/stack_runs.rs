//! The life of runs: planned, approved by digest, applied; and every way in which they end otherwise.

use plural_app::agent_run::ReportedRunState;
use plural_core::ErrorCode;
use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database};
use reqwest::Method;
use serde_json::{Value, json};

use world::{FILE, World, hex, id_of};

mod authors;
mod clocks;
mod context_imports;
mod custom;
mod definition;
mod deltas;
mod dependencies;
mod exec;
mod follow;
mod imports;
mod limits;
mod locks;
mod moved_code;
mod policy;
mod pulls;
mod runners;
mod schedules;
mod settings;
mod states;
mod world;

each_database!(
    a_plan_is_approved_by_its_digest_and_applied,
    nothing_to_do_and_dry_runs_end_with_their_plan,
    a_rejected_plan_is_not_applied,
    a_newer_plan_takes_the_place_of_one_that_waits,
    of_commits_only_those_that_reach_the_stack_make_runs,
    a_commit_that_is_taken_back_is_planned,
    whoever_made_it_does_not_approve_it,
    whoever_writes_it_decides_neither_who_agrees_nor_as_whom_it_acts,
    two_people_agree,
    a_lost_plan_is_made_again_and_a_lost_apply_is_not,
    a_job_that_ends_without_a_word_is_not_waited_for,
    what_is_cancelled_ends,
    a_stack_is_destroyed_before_it_goes,
    a_plan_that_was_altered_is_not_applied,
    a_run_that_was_altered_after_its_approval_is_not_applied,
    a_stack_has_only_so_many_runs_under_way,
    a_changed_stack_is_planned_again,
    what_a_stack_may_not_be_made_of,
    code_that_comes_after_its_state_uses_it,
);

async fn a_plan_is_approved_by_its_digest_and_applied(database: TestDatabase) {
    let secret =
        json!([{"name": "KEY", "value": "s3cret-value", "secret": true}, {"name": "REGION", "value": "eu"}]);
    let files = json!([{"path": "a.ini", "content": "deep s3cret"}]);
    let w = World::new(&database, json!({"approval": true, "environment": secret, "files": files})).await;
    let t = &w.t;
    let run = w.run(1, "PENDING").await;
    assert_eq!(
        (&run["kind"], &run["trigger"], &run["phase"]),
        (&json!("APPLY"), &json!("COMMIT"), &json!("PLAN"))
    );
    let known = w.known(&t.reader).await;
    let hidden = json!([{"name": "KEY", "value": "", "secret": true}, {"name": "REGION", "value": "eu", "secret": false}]);
    assert_eq!((&known["environment"], &known["files"]), (&hidden, &json!([{"path": "a.ini"}])));

    let plan = w.take(&run, RunPhase::Plan, 0).await;
    // Of two agents of a cluster that take it, one does.
    let again = t.console.app().agent_run_take(&w.agent, id_of(&run), RunPhase::Plan, 0).await;
    assert_eq!(again.unwrap_err().code(), ErrorCode::Conflict);
    let input = plan.input().await;
    assert_eq!(
        (&input["phase"], &input["stack"], &input["plan"]),
        (&json!("plan"), &json!("infra"), &Value::Null)
    );
    assert_eq!(input["environment"][0]["value"], "s3cret-value");
    assert_eq!(input["files"]["a.ini"], "deep s3cret");
    let steps: Vec<&Value> = input["steps"].as_array().unwrap().iter().map(|step| &step["cmd"]).collect();
    assert_eq!(steps, [&json!("look")]);
    // The answer may have been lost.
    assert_eq!(plan.input().await, input);
    let (status, artifact) = plan.get("artifact").await;
    assert!(status == 200 && !artifact.is_empty());
    assert_eq!(plan.get("plan-file").await.0, 404);

    assert_eq!(
        plan.says("steps/0", json!({"status": "running", "exitCode": null})).await,
        (200, json!({"cancel": false}))
    );
    assert_eq!(plan.log(0, 0, "one\n").await, (200, json!({"offset": 4})));
    // Sent twice, kept once.
    assert_eq!(plan.log(0, 0, "one\n").await, (200, json!({"offset": 4})));
    assert_eq!(plan.log(0, 2, "e\ntwo\n").await, (200, json!({"offset": 8})));
    assert_eq!(plan.log(0, 100, "late").await.0, 409);
    assert_eq!(
        plan.says("steps/1", json!({"status": "running", "exitCode": null})).await.0,
        422,
        "of the other Job"
    );
    assert_eq!(plan.says("steps/0", json!({"status": "successful", "exitCode": 0})).await.0, 200);
    let digest = plan.plan(2).await;
    assert_eq!(plan.done(true).await, 204);
    // Its credential ended with it.
    for path in ["input", "artifact"] {
        assert_eq!(plan.get(path).await.0, 401, "{path}");
    }
    assert_eq!((plan.beat().await.0, plan.done(false).await), (401, 401));

    let waits = w.run(1, "PENDING_APPROVAL").await;
    assert_eq!(waits["plan"]["digest"], digest.as_str());
    assert_eq!((&waits["plan"]["add"], &waits["plan"]["text"]), (&json!(2), &json!("2 to add")));
    assert_eq!(waits["steps"][0]["logs"], json!({"text": "one\ntwo\n", "next": 8}));
    assert_eq!(
        (&waits["steps"][0]["status"], &waits["steps"][1]["status"]),
        (&json!("SUCCESSFUL"), &json!("PENDING"))
    );
    let inbox = "{ stackRunsWaiting(first: 5) { edges { node { number } } } }";
    let one = json!({"edges": [{"node": {"number": 1}}]});
    assert_eq!(t.reader.data(inbox, json!({})).await["stackRunsWaiting"], one);
    assert_eq!(t.stranger.data(inbox, json!({})).await["stackRunsWaiting"], json!({"edges": []}));

    let other = w.approve(&t.owner, &run, &json!("0".repeat(64))).await;
    assert!(other.outcome() == "CONFLICT" && other.message().contains(&digest), "{other:?}");
    assert_eq!(w.approve(&t.owner, &run, &Value::Null).await.outcome(), "INVALID");
    assert_eq!(w.approve(&t.reader, &run, &json!(digest)).await.outcome(), "FORBIDDEN");
    assert_eq!(w.approve(&t.stranger, &run, &json!(digest)).await.outcome(), "NOT_FOUND");
    assert_eq!(w.run(1, "PENDING_APPROVAL").await["approvals"], json!([]));
    assert_eq!(w.approve(&t.owner, &run, &json!(digest)).await.outcome(), "OK");
    assert_eq!(
        w.approve(&t.admin, &run, &json!(digest)).await.outcome(),
        "CONFLICT",
        "it does not wait any more"
    );

    let run = w.run(1, "PENDING").await;
    assert_eq!((&run["phase"], run["approvals"].as_array().unwrap().len()), (&json!("APPLY"), 1));
    let apply = w.take(&run, RunPhase::Apply, 0).await;
    let input = apply.input().await;
    assert_eq!((&input["phase"], &input["plan"]["digest"]), (&json!("apply"), &json!(digest)));
    assert_eq!(input["plan"]["fileDigest"], hex(FILE));
    assert_eq!((&input["steps"][0]["cmd"], &input["steps"][0]["index"]), (&json!("make"), &json!(1)));
    assert_eq!(apply.get("plan-file").await, (200, FILE.to_vec()));
    // The plan that was approved stays.
    assert_eq!(apply.call(Method::PUT, "plan/text", b"other".to_vec()).await.0, 409);
    let outputs = json!([
        {"name": "address", "value": "10.0.0.1", "secret": false},
        {"name": "password", "value": {"deep": "s3cret-output"}, "secret": true},
    ]);
    assert_eq!(apply.ends(json!({"succeeded": true, "changed": true, "outputs": outputs})).await, 204);
    let run = w.run(1, "SUCCESSFUL").await;
    let known = w.known(&t.owner).await;
    assert_eq!((&known["status"], &known["sha"]), (&json!("SUCCESSFUL"), &run["sha"]));
    let told = |known: &Value, name: &str| {
        known["output"].as_array().unwrap().iter().find(|output| output["name"] == name).unwrap().clone()
    };
    assert_eq!(told(&known, "address")["value"], "10.0.0.1");
    assert_eq!(told(&known, "password")["json"], r#"{"deep":"s3cret-output"}"#);
    let seen = w.known(&t.reader).await;
    assert_eq!(told(&seen, "address")["value"], "10.0.0.1");
    assert_eq!(told(&seen, "password")["json"], Value::Null);
    assert!(!seen.to_string().contains("s3cret"), "{seen}");
    w.t.stop().await;
}

async fn nothing_to_do_and_dry_runs_end_with_their_plan(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    w.plans(1, 0).await;
    let run = w.run(1, "SUCCESSFUL").await;
    assert_eq!((&run["phase"], &w.known(&w.t.owner).await["sha"]), (&json!("PLAN"), &run["sha"]));

    assert_eq!(w.trigger(&w.t.reader, true, false).await.outcome(), "FORBIDDEN");
    assert_eq!(w.trigger(&w.t.owner, true, false).await.outcome(), "OK");
    w.plans(2, 5).await;
    let run = w.run(2, "SUCCESSFUL").await;
    assert_eq!((&run["kind"], &run["plan"]["add"]), (&json!("DRY_RUN"), &json!(5)));
    // Its plan is nothing to approve.
    let refused = w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    w.t.stop().await;
}

async fn a_rejected_plan_is_not_applied(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    let run = w.plans(1, 1).await;
    w.run(1, "PENDING_APPROVAL").await;
    assert_eq!(w.reject(&w.t.reader, &run, "no").await.outcome(), "FORBIDDEN");
    assert_eq!(w.reject(&w.t.owner, &run, "not on Friday").await.outcome(), "OK");
    let over = w.run(1, "CANCELLED").await;
    assert_eq!(over["error"], "rejected by owner@example.com: not on Friday");
    assert_eq!(w.approve(&w.t.owner, &run, &over["plan"]["digest"]).await.outcome(), "CONFLICT");
    assert_eq!(w.reject(&w.t.owner, &run, "again").await.outcome(), "CONFLICT");
    w.t.stop().await;
}

async fn a_newer_plan_takes_the_place_of_one_that_waits(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    let first = w.plans(1, 1).await;
    let waits = w.run(1, "PENDING_APPROVAL").await;
    // While it waits, others have their turn: a dry run takes nobody's place.
    assert_eq!(w.trigger(&w.t.owner, true, false).await.outcome(), "OK");
    w.plans(2, 1).await;
    w.run(2, "SUCCESSFUL").await;
    assert_eq!(w.run(1, "PENDING_APPROVAL").await["plan"], waits["plan"]);

    w.remote.push_files([("infra/main.sh", "echo 2\n")]).unwrap();
    w.plans(3, 1).await;
    w.run(3, "PENDING_APPROVAL").await;
    let over = w.run(1, "CANCELLED").await;
    assert_eq!(over["error"], "superseded by run 3");
    assert_eq!(w.approve(&w.t.owner, &first, &waits["plan"]["digest"]).await.outcome(), "CONFLICT");
    w.t.stop().await;
}

async fn of_commits_only_those_that_reach_the_stack_make_runs(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    w.remote.push_files([("docs/a.md", "two\n")]).unwrap();
    let sha = w.remote.push_files([("infra/main.sh", "echo 2\n")]).unwrap();
    w.plans(2, 0).await;
    let run = w.run(2, "SUCCESSFUL").await;
    assert_eq!((&run["trigger"], &run["sha"]), (&json!("COMMIT"), &json!(sha)));
    // The commit elsewhere was looked at before.
    assert_eq!(w.runs().await.len(), 2);
    // A module beside the folder is a part of it.
    let sha = w.remote.push_files([("modules/net/main.tf", "# 2\n")]).unwrap();
    w.plans(3, 0).await;
    assert_eq!(w.run(3, "SUCCESSFUL").await["sha"], json!(sha));
    w.t.stop().await;
}

async fn a_commit_that_is_taken_back_is_planned(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    w.plans(1, 1).await;
    w.run(1, "PENDING_APPROVAL").await;
    w.remote.push_files([("infra/main.sh", "echo 2\n")]).unwrap();
    w.run(2, "PENDING").await;
    // The code of the first run again, which the second one is about to supersede.
    let sha = w.remote.push_files([("infra/main.sh", "echo 1\n")]).unwrap();
    w.run(3, "QUEUED").await;
    w.plans(2, 1).await;
    assert_eq!(w.run(1, "CANCELLED").await["error"], "superseded by run 2");
    w.plans(3, 1).await;
    let run = w.run(3, "PENDING_APPROVAL").await;
    assert_eq!((&run["trigger"], &run["sha"]), (&json!("COMMIT"), &json!(sha)));
    assert_eq!(w.run(2, "CANCELLED").await["error"], "superseded by run 3");
    w.t.stop().await;
}

async fn whoever_made_it_does_not_approve_it(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true, "forbidSelfApproval": true})).await;
    w.plans(1, 1).await;
    let run = w.run(1, "PENDING_APPROVAL").await;
    let digest = &run["plan"]["digest"];
    let own = w.approve(&w.t.owner, &run, digest).await;
    assert!(own.outcome() == "FORBIDDEN" && own.message().contains("last changed"), "{own:?}");
    // Nor does whoever wrote the commit.
    let author = w.t.admin.add_user("test@example.com").await;
    let bound = w.update(json!({"writeBindings": [{"userId": author.id}]})).await;
    assert_eq!(bound.outcome(), "OK", "{bound:?}");
    let own = w.approve(&author, &run, digest).await;
    assert!(own.outcome() == "FORBIDDEN" && own.message().contains("committed"), "{own:?}");
    // Whoever starts a run is none of them either.
    assert_eq!(w.trigger(&w.t.admin, false, false).await.outcome(), "OK");
    w.plans(2, 1).await;
    let run = w.run(2, "PENDING_APPROVAL").await;
    let own = w.approve(&w.t.admin, &run, &run["plan"]["digest"]).await;
    assert!(own.outcome() == "FORBIDDEN" && own.message().contains("started"), "{own:?}");
    w.t.stop().await;
}

async fn whoever_writes_it_decides_neither_who_agrees_nor_as_whom_it_acts(database: TestDatabase) {
    const UPDATE: &str =
        "mutation ($id: ID!, $a: StackAttributes!) { updateStack(id: $id, attributes: $a) { id } }";
    let asks =
        json!({"approval": true, "requiredApprovals": 2, "forbidSelfApproval": true, "approvalExpiry": "1h"});
    let w = World::new(&database, asks).await;
    let writer = &w.t.stranger;
    let bound = w.update(json!({"writeBindings": [{"userId": writer.id}]})).await;
    assert_eq!(bound.outcome(), "OK", "{bound:?}");
    let tries = async |attributes: Value| writer.ask(UPDATE, json!({"id": w.stack, "a": attributes})).await;
    for (named, attributes) in [
        ("approval", json!({"approval": false})),
        ("approval", json!({"requiredApprovals": 1})),
        ("approval", json!({"forbidSelfApproval": false})),
        ("approval", json!({"approvalExpiry": "2h"})),
        ("approval", json!({"approvalExpiry": ""})),
        ("jobSpec.serviceAccount", json!({"jobSpec": {"serviceAccount": "tofu"}})),
    ] {
        let refused = tries(attributes).await;
        assert_eq!(refused.outcome(), "FORBIDDEN", "{named}: {refused:?}");
        assert!(refused.message().contains(&format!("attributes.{named}")), "{named}: {refused:?}");
    }
    // More of it anybody asks for who writes; and whoever administers it decides both.
    assert_eq!(tries(json!({"requiredApprovals": 3, "approvalExpiry": "30m"})).await.outcome(), "OK");
    let both = json!({"requiredApprovals": 1, "jobSpec": {"serviceAccount": "tofu"}});
    assert_eq!(w.update(both).await.outcome(), "OK");
    // What an administrator named stays, in its place.
    assert_eq!(tries(json!({"timeout": "1h"})).await.outcome(), "OK");
    let moved = tries(json!({"jobSpec": {"serviceAccount": "tofu", "namespace": "other"}})).await;
    assert_eq!(moved.outcome(), "FORBIDDEN", "{moved:?}");
    w.t.stop().await;
}

async fn two_people_agree(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true, "requiredApprovals": 2})).await;
    w.plans(1, 1).await;
    let run = w.run(1, "PENDING_APPROVAL").await;
    let digest = &run["plan"]["digest"];
    assert_eq!(w.approve(&w.t.owner, &run, digest).await.outcome(), "OK");
    assert_eq!(w.run(1, "PENDING_APPROVAL").await["approvals"].as_array().unwrap().len(), 1);
    let twice = w.approve(&w.t.owner, &run, digest).await;
    assert!(twice.outcome() == "CONFLICT" && twice.message().contains("already"), "{twice:?}");
    assert_eq!(w.approve(&w.t.admin, &run, digest).await.outcome(), "OK");
    w.applies(1).await;
    w.run(1, "SUCCESSFUL").await;
    w.t.stop().await;
}

async fn a_lost_plan_is_made_again_and_a_lost_apply_is_not(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let run = w.run(1, "PENDING").await;
    let first = w.take(&run, RunPhase::Plan, 0).await;
    // Two calls at once, the first of which nobody waits for any more: both came in while the run was pending.
    let app = w.t.console.app();
    let one = app.harness_authenticate(&first.token, first.run).await.unwrap();
    let two = app.harness_authenticate(&first.token, first.run).await.unwrap();
    app.harness_input(&one).await.unwrap();
    app.harness_input(&two).await.unwrap();
    assert_eq!(first.log(0, 0, "of the first\n").await.0, 200);
    first.plan(1).await;
    w.falls_silent().await;
    w.tend().await;
    let run = w.run(1, "PENDING").await;
    // Whoever comes back is too late.
    assert_eq!((first.beat().await.0, first.done(true).await), (401, 401));

    let second = w.take(&run, RunPhase::Plan, 1).await;
    assert_eq!(second.attempt, 2);
    second.input().await;
    // The credential for the state ended with the Job, too.
    assert_eq!(w.state(&first.state_token(), "GET", "", Vec::new()).await, 401);
    // Its log begins anew, and so does its plan.
    assert_eq!(second.log(0, 0, "two\n").await, (200, json!({"offset": 4})));
    second.plan(1).await;
    assert_eq!(second.done(true).await, 204);
    let run = w.run(1, "PENDING").await;
    assert_eq!((&run["phase"], &run["steps"][0]["logs"]["text"]), (&json!("APPLY"), &json!("two\n")));

    // As long as no command has begun that changes something, nothing is lost.
    let apply = w.take(&run, RunPhase::Apply, 0).await;
    apply.input().await;
    w.falls_silent().await;
    w.tend().await;
    let run = w.run(1, "PENDING").await;
    assert_eq!(run["phase"], "APPLY", "{run}");
    let late = json!({"status": "running", "exitCode": null});
    assert_eq!(apply.says("steps/1", late).await.0, 401, "its command does not begin any more");
    let apply = w.take(&run, RunPhase::Apply, 1).await;
    apply.begins().await;
    w.falls_silent().await;
    w.tend().await;
    let run = w.run(1, "FAILED").await;
    assert!(run["error"].as_str().unwrap().contains("may have changed something"), "{run}");
    assert_eq!(apply.beat().await.0, 401);
    assert_eq!(w.known(&w.t.owner).await["status"], "FAILED");

    // An agent that does not come.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.run(2, "PENDING").await;
    w.falls_silent().await;
    w.tend_long().await;
    let run = w.run(2, "FAILED").await;
    assert!(run["error"].as_str().unwrap().contains("agent of cluster blue did not start it"), "{run}");
    w.t.stop().await;
}

async fn a_job_that_ends_without_a_word_is_not_waited_for(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let run = w.run(1, "PENDING").await;
    let plan = w.take(&run, RunPhase::Plan, 0).await;
    w.says(&plan, ReportedRunState::Waiting, "no such image").await;
    assert_eq!(w.run(1, "PENDING").await["error"], "no such image");
    plan.input().await;
    assert_eq!(w.run(1, "RUNNING").await["error"], Value::Null);
    w.says(&plan, ReportedRunState::Ended, "OOMKilled").await;
    // It has a moment to say how it ended, and says nothing.
    let run = w.run(1, "PENDING").await;
    let again = w.take(&run, RunPhase::Plan, 1).await;
    // What is told of the Job before it does not count.
    w.says(&plan, ReportedRunState::Gone, "").await;
    again.input().await;
    again.plan(0).await;
    assert_eq!(again.done(true).await, 204);
    w.run(1, "SUCCESSFUL").await;

    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    let run = w.run(2, "PENDING").await;
    let refused = w.take(&run, RunPhase::Plan, 0).await;
    w.says(&refused, ReportedRunState::Refused, "namespace kube-system").await;
    let run = w.run(2, "FAILED").await;
    assert!(run["error"].as_str().unwrap().contains("refused to start it: namespace kube-system"), "{run}");
    w.t.stop().await;
}

async fn what_is_cancelled_ends(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let run = w.run(1, "PENDING").await;
    let plan = w.take(&run, RunPhase::Plan, 0).await;
    plan.input().await;
    // The next one waits for its turn.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    let queued = w.run(2, "QUEUED").await;
    assert_eq!(w.cancel(&w.t.reader, &run).await.outcome(), "FORBIDDEN");
    assert_eq!(w.cancel(&w.t.owner, &queued).await.outcome(), "OK");
    assert_eq!(w.run(2, "CANCELLED").await["error"], "cancelled by owner@example.com");

    assert_eq!(plan.beat().await, (200, json!({"cancel": false})));
    assert_eq!(w.cancel(&w.t.owner, &run).await.outcome(), "OK");
    assert_eq!(w.run(1, "RUNNING").await["cancelAsked"], true);
    assert_eq!(plan.beat().await, (200, json!({"cancel": true})));
    assert_eq!(plan.ends(json!({"cancelled": true})).await, 204);
    w.run(1, "CANCELLED").await;
    assert_eq!(w.cancel(&w.t.owner, &run).await.outcome(), "CONFLICT");

    // Before its Job has spoken there is nothing to wait for.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    let run = w.run(3, "PENDING").await;
    let plan = w.take(&run, RunPhase::Plan, 0).await;
    assert_eq!(w.cancel(&w.t.owner, &run).await.outcome(), "OK");
    w.run(3, "CANCELLED").await;
    assert_eq!(plan.get("input").await.0, 401);
    w.t.stop().await;
}

async fn a_stack_is_destroyed_before_it_goes(database: TestDatabase) {
    const DELETE: &str = "mutation ($id: ID!) { deleteStack(id: $id) { id deletedAt } }";
    const RESTORE: &str = "mutation ($id: ID!) { restoreStack(id: $id) { id deletedAt } }";
    let w = World::new(&database, json!({"approval": true})).await;
    let (t, id) = (&w.t, json!({"id": w.stack}));
    w.plans(1, 1).await;
    let run = w.run(1, "PENDING_APPROVAL").await;
    assert_eq!(w.approve(&t.owner, &run, &run["plan"]["digest"]).await.outcome(), "OK");
    w.applies(1).await;
    w.run(1, "SUCCESSFUL").await;

    assert_eq!(t.reader.ask(DELETE, id.clone()).await.outcome(), "FORBIDDEN");
    let deleted = t.owner.data(DELETE, id.clone()).await;
    assert_ne!(deleted["deleteStack"]["deletedAt"], Value::Null);
    w.plans(2, 1).await;
    let run = w.run(2, "PENDING_APPROVAL").await;
    assert_eq!(run["kind"], "DESTROY");
    assert_eq!(t.owner.ask(DELETE, id.clone()).await.outcome(), "CONFLICT", "it is under way");
    assert_eq!(w.trigger(&t.owner, false, false).await.outcome(), "CONFLICT");
    let restored = t.owner.data(RESTORE, id.clone()).await;
    assert_eq!(restored["restoreStack"]["deletedAt"], Value::Null);
    assert_eq!(w.run(2, "CANCELLED").await["error"], "the stack was restored by owner@example.com");
    assert_eq!(t.owner.ask(RESTORE, id.clone()).await.outcome(), "CONFLICT");

    t.owner.data(DELETE, id.clone()).await;
    w.plans(3, 1).await;
    let run = w.run(3, "PENDING_APPROVAL").await;
    assert_eq!(w.approve(&t.owner, &run, &run["plan"]["digest"]).await.outcome(), "OK");
    let run = w.run(3, "PENDING").await;
    let apply = w.take(&run, RunPhase::Apply, 0).await;
    assert_eq!(apply.input().await["steps"][0]["cmd"], "undo");
    // The console ends when it has the report, and before the stack is gone: here the protection keeps it.
    assert_eq!(w.update(json!({"protect": true})).await.outcome(), "OK");
    assert_eq!(apply.done(true).await, 204);
    w.run(3, "SUCCESSFUL").await;
    w.tend().await;
    assert_ne!(w.known(&t.owner).await["deletedAt"], Value::Null);
    assert_eq!(w.update(json!({"protect": false})).await.outcome(), "OK");
    w.tend().await;
    // The console's own pass may have been faster, and not be done.
    plural_testkit::eventually(world::LONG, async || {
        let gone = t.owner.ask(world::STACK, id.clone()).await;
        if gone.outcome() == "NOT_FOUND" { Ok(()) } else { Err(format!("{gone:?}")) }
    })
    .await;
    w.t.stop().await;
}

async fn a_plan_that_was_altered_is_not_applied(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    w.plans(1, 1).await;
    let run = w.run(1, "PENDING_APPROVAL").await;
    // Pieces of two parts in each other's place.
    w.t.sql(
        "UPDATE stack_plan_pieces SET sealed = \
         (SELECT other.sealed FROM stack_plan_pieces other WHERE other.part = 'text') WHERE part = 'file'",
    )
    .await;
    w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await;
    let run = w.run(1, "FAILED").await;
    assert!(run["error"].as_str().unwrap().contains("plan in the store is not the one"), "{run}");

    // A piece of the plan of another run, which says the same: it is that run's.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(2, 1).await;
    let run = w.run(2, "PENDING_APPROVAL").await;
    w.t.sql(
        "UPDATE stack_plan_pieces SET sealed = (SELECT other.sealed FROM stack_plan_pieces other \
         JOIN stack_runs r ON r.id = other.run_id WHERE r.number = 1 AND other.part = 'text') \
         WHERE part = 'text' AND run_id = (SELECT id FROM stack_runs WHERE number = 2)",
    )
    .await;
    w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await;
    // Its text is not asked for: that is no text of this run.
    let newest = "query ($id: ID) { infrastructureStack(id: $id) { runs(first: 1) { edges { node { number status error } } } } }";
    let run = plural_testkit::eventually(std::time::Duration::from_mins(1), async || {
        let known = w.t.owner.data(newest, json!({"id": w.stack})).await;
        let run = known["infrastructureStack"]["runs"]["edges"][0]["node"].clone();
        if run["status"] == "FAILED" { Ok(run) } else { Err(run.to_string()) }
    })
    .await;
    assert_eq!(run["number"], 2, "{run}");
    assert!(run["error"].as_str().unwrap().contains("plan in the store is not the one"), "{run}");
    w.t.stop().await;
}

/// What the Job would do is in the run's row, and so is who agreed.
async fn a_run_that_was_altered_after_its_approval_is_not_applied(database: TestDatabase) {
    let other = "replace(CAST(snapshot AS text), '\"make\"', '\"steal\"')";
    let other = if database.is_postgres() { format!("CAST({other} AS jsonb)") } else { other.to_owned() };
    let w = World::new(&database, json!({"approval": true})).await;
    for (number, altered, why) in [
        (1, format!("snapshot = {other}"), "not the one that was planned"),
        (2, "approvals = '[]'".to_owned(), "not approved by as many people"),
    ] {
        if number > 1 {
            assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
        }
        w.plans(number, 1).await;
        let run = w.run(number, "PENDING_APPROVAL").await;
        assert_eq!(w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await.outcome(), "OK");
        let run = w.run(number, "PENDING").await;
        let apply = w.take(&run, RunPhase::Apply, 0).await;
        w.t.sql(&format!("UPDATE stack_runs SET {altered} WHERE number = {number}")).await;
        let (status, body) = apply.get("input").await;
        assert_eq!(status, 409, "{}", String::from_utf8_lossy(&body));
        let run = w.run(number, "FAILED").await;
        assert!(run["error"].as_str().unwrap().contains(why), "{run}");
    }
    w.t.stop().await;
}

async fn a_stack_has_only_so_many_runs_under_way(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.run(1, "PENDING").await;
    for _ in 1..50 {
        assert_eq!(w.trigger(&w.t.owner, true, false).await.outcome(), "OK");
    }
    let refused = w.trigger(&w.t.owner, true, false).await;
    assert!(refused.outcome() == "CONFLICT" && refused.message().contains("50 runs"), "{refused:?}");
    // Nothing of it is changed, either: the change would begin one more.
    let refused = w.update(json!({"environment": [{"name": "A", "value": "1"}]})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    let known = w.known(&w.t.owner).await;
    assert!(!known["environment"].to_string().contains("\"A\""), "{known}");
    assert_eq!(w.update(json!({"name": "renamed"})).await.outcome(), "OK");
    w.t.stop().await;
}

async fn a_changed_stack_is_planned_again(database: TestDatabase) {
    let environment = |value: &str| json!({"environment": [{"name": "A", "value": value}]});
    let mut attributes = environment("1");
    attributes["approval"] = json!(true);
    let w = World::new(&database, attributes).await;
    w.plans(1, 1).await;
    w.run(1, "PENDING_APPROVAL").await;
    assert_eq!(w.update(environment("2")).await.outcome(), "OK");
    w.plans(2, 1).await;
    let run = w.run(2, "PENDING_APPROVAL").await;
    assert_eq!(run["trigger"], "SPEC");
    w.run(1, "CANCELLED").await;
    // What it is made of is as before.
    assert_eq!(w.update(environment("2")).await.outcome(), "OK");
    assert_eq!(w.update(json!({"name": "renamed"})).await.outcome(), "OK");
    assert_eq!(w.runs().await.len(), 2);

    // Of a paused one no run is made; and the plan that waits does not fit any more.
    assert_eq!(w.update(json!({"paused": true})).await.outcome(), "OK");
    assert_eq!(w.update(environment("3")).await.outcome(), "OK");
    assert_eq!(w.runs().await.len(), 2);
    w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await;
    let run = w.run(2, "FAILED").await;
    assert!(run["error"].as_str().unwrap().contains("was changed since the plan"), "{run}");
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    let run = w.run(3, "PENDING").await;
    let plan = w.take(&run, RunPhase::Plan, 0).await;
    assert_eq!(plan.input().await["environment"][0]["value"], "3");
    w.t.stop().await;
}

async fn what_a_stack_may_not_be_made_of(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    for (field, attributes) in [
        ("attributes.workdir", json!({"workdir": "../other"})),
        ("attributes.workdir", json!({"workdir": "/etc"})),
        ("attributes.environment", json!({"environment": [{"name": "LD_PRELOAD", "value": "x"}]})),
        ("attributes.environment", json!({"environment": [{"name": "TF_HTTP_PASSWORD", "value": "x"}]})),
        ("attributes.environment", json!({"environment": [{"name": "NONE"}]})),
        ("attributes.files", json!({"files": [{"path": "../a", "content": "x"}]})),
        ("attributes.files", json!({"files": [{"path": "a", "content": "x".repeat((64 << 10) + 1)}]})),
        ("attributes.jobSpec.namespace", json!({"jobSpec": {"namespace": "kube-system"}})),
        (
            "attributes.configuration.terraform.tofuRegistry",
            json!({"configuration": {"terraform": {"tofuRegistry": true}}}),
        ),
    ] {
        let refused = w.update(attributes).await;
        assert_eq!(refused.outcome(), "INVALID", "{field}: {refused:?}");
        assert!(refused.message().starts_with(field), "{field}: {refused:?}");
    }
    assert_eq!(w.runs().await.len(), 1, "nothing was changed");

    // A stranger's cluster and repository are none; and a stack without a source has no runs.
    let create = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
    let nobody = "00000000-0000-0000-0000-000000000001";
    for (name, cluster, repository) in
        [("one", nobody, w.repository.as_str()), ("two", w.cluster.as_str(), nobody)]
    {
        let attributes = json!({
            "name": name, "type": "TERRAFORM", "projectId": w.t.project,
            "clusterId": cluster, "repositoryId": repository, "git": {"ref": "main", "folder": "infra"},
        });
        assert_eq!(w.t.owner.ask(create, json!({"a": attributes})).await.outcome(), "NOT_FOUND", "{name}");
    }
    let pulumi = json!({
        "name": "three", "type": "PULUMI", "projectId": w.t.project,
        "clusterId": w.cluster, "repositoryId": w.repository, "git": {"ref": "main", "folder": "infra"},
    });
    let refused = w.t.owner.ask(create, json!({"a": pulumi})).await;
    assert!(refused.outcome() == "INVALID" && refused.message().contains("backendUrl"), "{refused:?}");
    let bare = json!({"name": "bare", "type": "TERRAFORM", "projectId": w.t.project});
    let bare = w.t.owner.data(create, json!({"a": bare})).await["createStack"]["id"].clone();
    let trigger = "mutation ($id: ID!) { triggerRun(id: $id) { id } }";
    let refused = w.t.owner.ask(trigger, json!({"id": bare})).await;
    assert!(refused.outcome() == "CONFLICT" && refused.message().contains("no source"), "{refused:?}");
    w.t.stop().await;
}

/// As somebody moves over from elsewhere: first the state, then the code.
async fn code_that_comes_after_its_state_uses_it(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let t = &w.t;
    let make = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
    let attributes = json!({"name": "moved", "type": "TERRAFORM", "projectId": t.project});
    let made = t.owner.data(make, json!({"a": attributes})).await;
    let id = made["createStack"]["id"].clone();
    let state =
        json!({"version": 4, "serial": 7, "lineage": "a", "resources": [], "outputs": {}}).to_string();
    let url = t.url(&format!("/v1/stacks/{}/state", id.as_str().unwrap()));
    let token = t.owner.token.clone();
    let put = t.owner.http().post(url).basic_auth("plural", token).body(state).send().await.unwrap();
    assert_eq!(put.status(), 200);

    let update =
        "mutation ($id: ID!, $a: StackAttributes!) { updateStack(id: $id, attributes: $a) { manageState } }";
    let code = json!({"repositoryId": w.repository, "clusterId": w.cluster, "git": {"ref": "main", "folder": "infra"}});
    let without =
        code.as_object().unwrap().clone().into_iter().chain([("manageState".to_owned(), json!(false))]);
    let without: serde_json::Map<String, Value> = without.collect();
    let refused = t.owner.ask(update, json!({"id": id, "a": without})).await;
    assert!(refused.message().contains("attributes.manageState"), "{}", refused.message());
    let given = t.owner.data(update, json!({"id": id, "a": code})).await;
    assert_eq!(given["updateStack"]["manageState"], true);

    // What was asked for by that takes the commit: there is one run, and not another one for the commit.
    let runs = "query ($id: ID) { infrastructureStack(id: $id) { runs(first: 10) { edges { node { number trigger sha } } } } }";
    let prepared = async || {
        let known = t.owner.data(runs, json!({"id": id})).await;
        let edges = known["infrastructureStack"]["runs"]["edges"].as_array().unwrap().clone();
        if edges.iter().any(|run| !run["node"]["sha"].is_null()) {
            Ok(edges)
        } else {
            Err(format!("{edges:?}"))
        }
    };
    plural_testkit::eventually(std::time::Duration::from_mins(2), prepared).await;
    let sha = w.remote.push_files([("infra/main.sh", "echo 2\n")]).unwrap();
    let edges = plural_testkit::eventually(std::time::Duration::from_mins(2), async || {
        let edges = prepared().await?;
        if edges.iter().any(|run| run["node"]["sha"] == sha) { Ok(edges) } else { Err(format!("{edges:?}")) }
    })
    .await;
    let triggers: Vec<&Value> = edges.iter().map(|run| &run["node"]["trigger"]).collect();
    assert_eq!(triggers, [&json!("COMMIT"), &json!("SPEC")], "newest first");
    w.t.stop().await;
}
