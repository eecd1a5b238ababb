//! What runners of other clients ask of GraphQL, and what the commands of an apply ask in the name of the stack's actor.

use plural_core::run_call::{actor_token, state_token};
use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use super::policy::{NO_DELETES, planned, set};
use super::world::{Harness, World};
use crate::api_server::{Answer, Person};

each_database!(
    a_job_says_how_far_it_is_and_concludes_nothing,
    what_a_runner_found_is_shown,
    what_a_runner_found_adds_to_what_rules_say,
    an_agent_sees_the_runs_of_its_cluster,
    an_apply_writes_contexts_of_its_project_and_nothing_else,
    the_actor_is_who_saves_the_stack,
);

const RUN: &str = "query ($id: ID!) { stackRun(id: $id) { id status pluralCreds { url token } steps { id index status } } }";
const SAYS: &str =
    "mutation ($id: ID!, $a: StackRunAttributes!) { updateStackRun(id: $id, attributes: $a) { id status } }";
const ENDS: &str = "mutation ($id: ID!, $a: StackRunAttributes!) { completeStackRun(id: $id, attributes: $a) { id status } }";
const STEP: &str =
    "mutation ($id: ID!, $a: RunStepAttributes!) { updateRunStep(id: $id, attributes: $a) { id status } }";
const LOGS: &str =
    "mutation ($id: ID!, $a: RunLogAttributes!) { addRunLogs(stepId: $id, attributes: $a) { updatedAt } }";
const ME: &str = "{ me { id } }";
const SAVE: &str = "mutation ($n: String!, $p: ID, $c: Json!) { saveServiceContext(name: $n, attributes: {projectId: $p, configuration: $c}) { id name } }";

fn by(w: &World, token: &str) -> Person {
    w.t.owner.with_token(token)
}

async fn says(person: &Person, id: &Value, status: &str) -> Answer {
    person.ask(SAYS, json!({"id": id, "a": {"status": status}})).await
}

/// The Job of a run as far as another client's runner is one.
async fn taken(w: &World, number: u64, phase: RunPhase) -> (Value, Harness) {
    let run = w.run(number, "PENDING").await;
    let harness = w.take(&run, phase, 0).await;
    (run, harness)
}

async fn a_job_says_how_far_it_is_and_concludes_nothing(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let (run, harness) = taken(&w, 1, RunPhase::Plan).await;
    let job = by(&w, &harness.token);
    let id = &run["id"];
    // Everything else is what it is to somebody unknown.
    let unknown = by(&w, &format!("run-{}", "0".repeat(64)));
    for document in [
        ME,
        "{ stackRunsWaiting(first: 1) { edges { node { id } } } }",
        "{ clusterStackRuns(first: 1) { edges { node { id } } } }",
    ] {
        let (told, other) = (job.ask(document, json!({})).await, unknown.ask(document, json!({})).await);
        assert_eq!((told.outcome(), told.message()), (other.outcome(), other.message()), "{document}");
        assert_eq!(told.outcome(), "401", "{document}");
    }
    // Its commands are nobody here.
    assert_eq!(by(&w, &state_token(&harness.token)).ask(RUN, json!({"id": id})).await.outcome(), "401");
    let nobody = "00000000-0000-0000-0000-000000000001";
    assert_eq!(job.ask(RUN, json!({"id": nobody})).await.outcome(), "UNAUTHENTICATED");
    assert_eq!(says(&job, &json!(nobody), "RUNNING").await.outcome(), "UNAUTHENTICATED");
    // A person has another way, and it is not this one.
    assert_eq!(says(&w.t.admin, id, "RUNNING").await.outcome(), "UNAUTHENTICATED");

    for concludes in ["PENDING_APPROVAL", "SUCCESSFUL", "QUEUED"] {
        let refused = says(&job, id, concludes).await;
        assert_eq!(refused.outcome(), "INVALID", "{concludes}: {refused:?}");
        w.run(1, "PENDING").await;
    }
    assert_eq!(says(&job, id, "RUNNING").await.outcome(), "OK");
    w.run(1, "RUNNING").await;
    let known = job.data(RUN, json!({"id": id})).await["stackRun"].clone();
    assert_eq!(known["pluralCreds"], Value::Null, "a plan asks in nobody's name");
    let step = known["steps"][0]["id"].clone();
    assert_eq!(job.ask(STEP, json!({"id": step, "a": {"status": "RUNNING"}})).await.outcome(), "OK");
    for line in ["one\n", "two\n"] {
        assert_eq!(job.ask(LOGS, json!({"id": step, "a": {"logs": line}})).await.outcome(), "OK");
    }
    let large = job.ask(LOGS, json!({"id": step, "a": {"logs": "x".repeat((64 << 10) + 1)}})).await;
    assert_eq!(large.outcome(), "INVALID", "{large:?}");
    let shown = w.run(1, "RUNNING").await;
    assert_eq!(shown["steps"][0]["logs"]["text"], "one\ntwo\n", "{shown}");
    // That it ended well is not that there is a plan.
    let ended = job.ask(ENDS, json!({"id": id, "a": {"status": "SUCCESSFUL"}})).await;
    assert_eq!(ended.outcome(), "OK", "{ended:?}");
    let failed = w.run(1, "FAILED").await;
    assert!(failed["error"].as_str().unwrap().contains("without a plan"), "{failed}");
    // With its Job the credential ended.
    assert_eq!(job.ask(RUN, json!({"id": id})).await.outcome(), "401");

    // With a plan, the console concludes that it is to be applied, and not the Job.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    let (run, harness) = taken(&w, 2, RunPhase::Plan).await;
    let job = by(&w, &harness.token);
    let planned = json!({"status": "RUNNING", "state": {"plan": "1 to add"}});
    for _ in 0..2 {
        let told = job.ask(SAYS, json!({"id": run["id"], "a": planned})).await;
        assert_eq!(told.outcome(), "OK", "{told:?}");
    }
    let ended = job.ask(ENDS, json!({"id": run["id"], "a": {"status": "SUCCESSFUL"}})).await;
    assert_eq!(ended.outcome(), "OK", "{ended:?}");
    let next = w.run(2, "PENDING").await;
    assert_eq!((&next["phase"], &next["plan"]["text"]), (&json!("APPLY"), &json!("1 to add")), "{next}");

    // An apply that says again that it runs goes on, whatever moved since it began.
    let (run, harness) = taken(&w, 2, RunPhase::Apply).await;
    let job = by(&w, &harness.token);
    assert_eq!(says(&job, &run["id"], "RUNNING").await.outcome(), "OK");
    let changed = w.update(json!({"environment": [{"name": "A", "value": "b"}]})).await;
    assert_eq!(changed.outcome(), "OK", "{changed:?}");
    assert_eq!(says(&job, &run["id"], "RUNNING").await.outcome(), "OK");
    w.run(2, "RUNNING").await;
    // Nobody heard that its command began, and it may have: where it is lost, it is not tried again.
    w.falls_silent().await;
    w.tend().await;
    let lost = w.run(2, "FAILED").await;
    assert!(lost["error"].as_str().unwrap().contains("may have changed something"), "{lost}");
    w.t.stop().await;
}

const FOUND: &str = "query ($id: ID!) { stackRun(id: $id) {
  violations { title description severity policyId policyModule policyUrl refuses causes { resource } }
  cost { currency monthly hourly pastMonthly diffMonthly resources { project name type monthly hourly } }
  state { state { identifier resource name configuration links } }
} }";

fn violation(policy: &str) -> Value {
    json!({
        "severity": "HIGH", "policyId": policy, "policyUrl": "https://example.com/a", "policyModule": "builtin",
        "title": "open to all", "description": "anybody may come in", "resolution": "close it",
        "causes": [{
            "resource": "aws_instance.a", "start": 3, "end": 5, "filename": "main.tf",
            "lines": [{"content": "key = \"s3cret-line\"", "line": 3, "first": true, "last": false}],
        }],
    })
}

/// All that a runner of the original can send beside its plan is taken, and shown without values.
async fn what_a_runner_found_is_shown(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let (run, harness) = taken(&w, 1, RunPhase::Plan).await;
    let job = by(&w, &harness.token);
    let cost = |scope: &str, monthly: f64| {
        json!({
            "resourceScope": scope, "projectName": "net", "name": "aws_instance.a", "resourceType": "aws_instance",
            "hourlyCost": 0.5, "monthlyCost": monthly, "monthlyUsageCost": 1.0, "rawResource": "{\"a\": \"s3cret-raw\"}",
        })
    };
    let resource = json!({
        "identifier": "aws_instance.a", "resource": "aws_instance", "name": "a",
        "configuration": "{\"key\": \"s3cret-value\"}", "links": ["aws_vpc.b"],
    });
    let attributes = json!({
        "status": "RUNNING",
        "state": {"plan": "1 to add", "planJson": "{}", "state": [resource]},
        "violations": [violation("A")],
        "infracostResources": [cost("breakdown", 0.1), cost("breakdown", 0.2), cost("past_breakdown", 7.0)],
    });
    let told = job.ask(SAYS, json!({"id": run["id"], "a": attributes})).await;
    assert_eq!(told.outcome(), "OK", "{told:?}");
    // Said again with another one, or with none, what was found stays.
    for violations in [json!([violation("B")]), json!([])] {
        let again = json!({"status": "RUNNING", "violations": violations});
        assert_eq!(job.ask(SAYS, json!({"id": run["id"], "a": again})).await.outcome(), "OK");
    }
    let found = w.t.reader.data(FOUND, json!({"id": run["id"]})).await["stackRun"].clone();
    let shown = |policy: &str| {
        json!({
            "title": "open to all", "description": "open to all\nanybody may come in\nmain.tf:3-5", "severity": "HIGH",
            "policyId": policy, "policyModule": "runner", "policyUrl": "https://example.com/a", "refuses": false,
            "causes": [{"resource": "aws_instance.a"}],
        })
    };
    assert_eq!(found["violations"], json!([shown("A"), shown("B")]));
    let one = |monthly: &str| json!({"project": "net", "name": "aws_instance.a", "type": "aws_instance", "monthly": monthly, "hourly": "0.5"});
    assert_eq!(
        found["cost"],
        json!({
            "currency": "", "monthly": "0.3", "hourly": "1", "pastMonthly": "7", "diffMonthly": null,
            "resources": [one("0.1"), one("0.2")],
        })
    );
    let kept = json!({
        "identifier": "aws_instance.a", "resource": "aws_instance", "name": "a", "configuration": null,
        "links": ["aws_vpc.b"],
    });
    assert_eq!(found["state"]["state"], json!([kept]));
    assert!(!found.to_string().contains("s3cret"), "{found}");

    let large = json!({"status": "RUNNING", "state": {"state": [{
        "identifier": "a", "resource": "b", "name": "c", "links": ["x".repeat((1 << 20) + 1)],
    }]}});
    assert_eq!(job.ask(SAYS, json!({"id": run["id"], "a": large})).await.outcome(), "INVALID");
    let odd = json!({"status": "RUNNING", "infracostResources": [cost("other", 1.0)]});
    let odd = job.ask(SAYS, json!({"id": run["id"], "a": odd})).await;
    assert!(odd.outcome() == "INVALID" && odd.message().contains("past_breakdown"), "{odd:?}");

    // What there is when it has applied takes the place of what there was.
    assert_eq!(job.ask(ENDS, json!({"id": run["id"], "a": {"status": "SUCCESSFUL"}})).await.outcome(), "OK");
    let (run, harness) = taken(&w, 1, RunPhase::Apply).await;
    let job = by(&w, &harness.token);
    assert_eq!(says(&job, &run["id"], "RUNNING").await.outcome(), "OK");
    let late = json!({"status": "RUNNING", "violations": [violation("C")]});
    assert_eq!(job.ask(SAYS, json!({"id": run["id"], "a": late})).await.outcome(), "CONFLICT");
    // When it ends, it ends.
    let ended = json!({
        "status": "SUCCESSFUL", "state": {"state": []}, "violations": [violation("C")],
        "infracostResources": [cost("breakdown", 9.0)],
    });
    assert_eq!(job.ask(ENDS, json!({"id": run["id"], "a": ended})).await.outcome(), "OK");
    w.run(1, "SUCCESSFUL").await;
    let found = w.t.reader.data(FOUND, json!({"id": run["id"]})).await["stackRun"].clone();
    assert_eq!(found["state"]["state"], json!([]));
    assert_eq!(found["violations"], json!([shown("A"), shown("B")]));
    assert_eq!(found["cost"]["monthly"], "0.3");

    // Neither does too much keep it from ending.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    let (run, harness) = taken(&w, 2, RunPhase::Plan).await;
    let job = by(&w, &harness.token);
    assert_eq!(says(&job, &run["id"], "RUNNING").await.outcome(), "OK");
    let mut many = violation("A");
    let place = |at: u32| json!({"resource": format!("aws_instance.n{at}"), "start": 1, "end": 1});
    many["causes"] = (0..600).map(place).collect();
    let mut large = large;
    large["status"] = json!("FAILED");
    large["violations"] = json!([many]);
    let ended = job.ask(SAYS, json!({"id": run["id"], "a": large})).await;
    assert_eq!(ended.outcome(), "OK", "{ended:?}");
    w.run(2, "FAILED").await;
    let found = w.t.reader.data(FOUND, json!({"id": run["id"]})).await["stackRun"]["violations"].clone();
    let found = found.as_array().unwrap();
    assert!(found.iter().any(|one| one["description"].as_str().unwrap().contains("left out")), "{found:?}");
    assert_eq!(found.len(), 500);
    w.t.stop().await;
}

/// Where rules check a plan, what a runner found is judged with what they say, and clears nothing of it.
async fn what_a_runner_found_adds_to_what_rules_say(database: TestDatabase) {
    let w = World::new(&database, json!({"type": "TERRAFORM", "approval": true, "manageState": false})).await;
    assert_eq!(set(&w.t.owner, &w, &[("a.rego", NO_DELETES)]).await.outcome(), "OK");
    let found = async |run: &Value| {
        let found = w.t.reader.data(FOUND, json!({"id": run["id"]})).await["stackRun"]["violations"].clone();
        let all: Vec<Value> = found.as_array().unwrap().clone();
        all.into_iter().map(|one| json!([one["policyModule"], one["refuses"]])).collect::<Vec<_>>()
    };
    for (number, action, violations, expected) in [
        (1, "create", json!([violation("A")]), json!([["runner", true], ["project", false]])),
        (2, "delete", json!([]), json!([["project", true], ["project", false]])),
    ] {
        if number > 1 {
            assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
        }
        let (run, harness, _) = planned(&w, number, action).await;
        let said = json!({"status": "RUNNING", "violations": violations});
        let told = by(&w, &harness.token).ask(SAYS, json!({"id": run["id"], "a": said})).await;
        assert_eq!(told.outcome(), "OK", "{told:?}");
        assert_eq!(harness.done(true).await, 204);
        let failed = w.run(number, "FAILED").await;
        assert!(failed["error"].as_str().unwrap().contains("policy refused the plan"), "{failed}");
        assert_eq!(json!(found(&run).await), expected, "{number}");
    }
    w.t.stop().await;
}

async fn an_agent_sees_the_runs_of_its_cluster(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let rotate = "mutation ($id: ID!) { rotateDeployToken(id: $id) { deployToken } }";
    let made = w.t.admin.data(rotate, json!({"id": w.cluster})).await;
    let agent = by(&w, made["rotateDeployToken"]["deployToken"].as_str().unwrap());
    let other = w.t.admin.cluster("green").await;
    let other = by(&w, other["deployToken"].as_str().unwrap());
    let run = w.run(1, "PENDING").await;
    let list = "{ clusterStackRuns(first: 10) { edges { node { id status steps { name } } } } }";
    let seen = agent.data(list, json!({})).await;
    assert_eq!(seen["clusterStackRuns"]["edges"][0]["node"]["id"], run["id"], "{seen}");
    assert_eq!(other.data(list, json!({})).await["clusterStackRuns"]["edges"], json!([]));
    assert_eq!(agent.ask(ME, json!({})).await.outcome(), "401");
    assert_eq!(agent.ask(ENDS, json!({"id": run["id"], "a": {"status": "FAILED"}})).await.outcome(), "401");
    assert_eq!(says(&other, &run["id"], "RUNNING").await.outcome(), "NOT_FOUND");
    for concludes in ["SUCCESSFUL", "PENDING_APPROVAL", "CANCELLED"] {
        assert_eq!(says(&agent, &run["id"], concludes).await.outcome(), "INVALID", "{concludes}");
    }
    // That it has a Job is known; how far that is, the Job says.
    let attributes = json!({"status": "RUNNING", "jobRef": {"name": "job", "namespace": "runs"}});
    let told = agent.ask(SAYS, json!({"id": run["id"], "a": attributes})).await;
    assert_eq!(told.outcome(), "OK", "{told:?}");
    let ask = "query ($id: ID!) { stackRun(id: $id) { status job { name namespace } } }";
    let known = w.t.owner.data(ask, json!({"id": run["id"]})).await;
    let expected = json!({"status": "PENDING", "job": {"name": "job", "namespace": "runs"}});
    assert_eq!(known["stackRun"], expected);
    let attributes = json!({"status": "FAILED", "errors": [{"source": "job", "message": "no such image"}]});
    assert_eq!(agent.ask(SAYS, json!({"id": run["id"], "a": attributes})).await.outcome(), "OK");
    let failed = w.run(1, "FAILED").await;
    assert!(failed["error"].as_str().unwrap().contains("job: no such image"), "{failed}");
}

async fn an_apply_writes_contexts_of_its_project_and_nothing_else(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    let owner = w.t.owner.id.clone();
    let saved = w.update(json!({"actorId": owner})).await;
    assert_eq!(saved.outcome(), "OK", "{saved:?}");
    let (run, planning) = taken(&w, 2, RunPhase::Plan).await;
    assert!(planning.input().await.get("actorToken").is_none(), "a plan asks in nobody's name");
    assert_eq!(by(&w, &actor_token(&planning.token)).ask(ME, json!({})).await.outcome(), "401");
    planning.plan(1).await;
    assert_eq!(planning.done(true).await, 204);
    let (_, applying) = taken(&w, 2, RunPhase::Apply).await;
    let token = actor_token(&applying.token);
    let actor = by(&w, &token);
    let project = "query ($id: ID) { project(id: $id) { id name } }";
    let own = json!({"id": w.t.project});
    assert_eq!(actor.ask(project, own.clone()).await.outcome(), "401", "it has not begun");
    let input = applying.input().await;
    assert_eq!(input["actorToken"], token.as_str());
    assert_eq!(applying.input().await["actorToken"], token.as_str(), "a lost answer is given again");
    let creds =
        by(&w, &applying.token).data(RUN, json!({"id": run["id"]})).await["stackRun"]["pluralCreds"].clone();
    assert_eq!(creds["token"], token.as_str());
    // To nobody else, and not to itself.
    for other in [&w.t.admin, &w.t.owner, &actor] {
        assert_eq!(other.data(RUN, json!({"id": run["id"]})).await["stackRun"]["pluralCreds"], Value::Null);
    }

    assert_eq!(actor.data(project, own.clone()).await["project"]["id"], w.t.project.as_str());
    let context = json!({"n": "network", "p": w.t.project, "c": "{\"vpc\": \"vpc-1\"}"});
    assert_eq!(actor.ask(SAVE, context.clone()).await.outcome(), "OK");
    let context = json!({"n": "network", "p": Value::Null, "c": "{\"vpc\": \"vpc-2\"}"});
    assert_eq!(actor.ask(SAVE, context).await.outcome(), "OK");
    // The project is its own, whichever is the default.
    let context = json!({"n": "routes", "p": Value::Null, "c": "{\"a\": 1}"});
    assert_eq!(actor.ask(SAVE, context).await.outcome(), "OK");
    let read = "{ serviceContext(name: \"routes\") { project { id } } }";
    assert_eq!(
        w.t.owner.data(read, json!({})).await["serviceContext"]["project"]["id"],
        w.t.project.as_str()
    );
    let make = "mutation { createProject(attributes: {name: \"elsewhere\"}) { id } }";
    let elsewhere = w.t.admin.data(make, json!({})).await["createProject"]["id"].clone();
    let context = json!({"n": "other", "p": elsewhere, "c": "{}"});
    assert_eq!(actor.ask(SAVE, context).await.outcome(), "NOT_FOUND");
    assert_eq!(actor.ask(project, json!({"id": elsewhere})).await.outcome(), "NOT_FOUND");
    for (document, variables) in [
        (ME, json!({})),
        ("{ projects(first: 1) { edges { node { id } } } }", json!({})),
        ("mutation { createAccessToken { token } }", json!({})),
        (
            "mutation ($id: ID!) { updateStack(id: $id, attributes: {protect: false}) { id } }",
            json!({"id": w.stack}),
        ),
        ("mutation ($id: ID!) { triggerRun(id: $id) { id } }", json!({"id": w.stack})),
        ("mutation ($id: ID!) { approveStackRun(id: $id, digest: \"00\") { id } }", json!({"id": run["id"]})),
    ] {
        assert_eq!(actor.ask(document, variables).await.outcome(), "401", "{document}");
    }
    let audits = "{ audits(last: 50) { edges { node { action actorName } } } }";
    let lines = w.t.admin.data(audits, json!({})).await.to_string();
    assert!(lines.contains("serviceContext.create") && lines.contains("run:"), "{lines}");
    assert!(!lines.contains(&token));
    // It ends with its Job.
    assert_eq!(applying.done(true).await, 204);
    w.run(2, "SUCCESSFUL").await;
    assert_eq!(actor.ask(project, own).await.outcome(), "401");
}

async fn the_actor_is_who_saves_the_stack(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let (owner, admin) = (w.t.owner.id.clone(), w.t.admin.id.clone());
    let refused = w.update(json!({"actorId": admin})).await;
    assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    assert!(refused.message().contains("attributes.actorId"), "{refused:?}");
    let saved = w.update(json!({"actorId": owner})).await;
    assert_eq!(saved.outcome(), "OK", "{saved:?}");
    let ask = "query ($id: ID) { infrastructureStack(id: $id) { actor { id } } }";
    let known = w.t.owner.data(ask, json!({"id": w.stack})).await;
    assert_eq!(known["infrastructureStack"]["actor"]["id"], owner.as_str());
    // Whoever changes its commands does not run them in the name of somebody else, an administrator neither.
    let update = "mutation ($id: ID!, $a: StackAttributes!) { updateStack(id: $id, attributes: $a) { id } }";
    let change = |attributes: Value| json!({"id": w.stack, "a": attributes});
    for attributes in [
        json!({"commands": [{"cmd": "steal"}]}),
        json!({"environment": [{"name": "A", "value": "b"}]}),
        json!({"files": [{"path": "a", "content": "b"}]}),
    ] {
        let refused = w.t.admin.ask(update, change(attributes)).await;
        assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    }
    // What changes nothing that it runs needs no actor; and they may name themselves, or nobody.
    assert_eq!(w.t.admin.ask(update, change(json!({"paused": true}))).await.outcome(), "OK");
    let own = json!({"commands": [{"cmd": "own"}], "actorId": admin});
    assert_eq!(w.t.admin.ask(update, change(own)).await.outcome(), "OK");
    assert_eq!(w.update(json!({"commands": [{"cmd": "mine"}], "actorId": ""})).await.outcome(), "OK");
    let known = w.t.owner.data(ask, json!({"id": w.stack})).await;
    assert_eq!(known["infrastructureStack"]["actor"], Value::Null);
}
