//! Policy and cost of plans: what rules refuse and warn of, who sets them, and that an apply needs the rules of its plan.

use std::time::Duration;

use plural_core::stack_run::RunPhase;
use plural_testkit::{GitRemote, TestDatabase, each_database, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use super::exec::exec;
use super::world::{FILE, Harness, World, hex};
use crate::api_server::{Answer, Person};

each_database!(
    what_a_rule_of_the_project_denies_is_not_applied,
    rules_that_cannot_be_checked_refuse_the_plan,
    commands_that_no_rule_reads_have_no_rights_to_apply,
    a_policy_that_moved_after_the_approval_refuses_the_apply,
    rules_of_a_repository_let_through_what_is_not_too_bad,
    a_policy_that_names_trivy_needs_its_report,
    what_a_policy_may_not_be_made_of,
);

const LONG: Duration = Duration::from_mins(2);
const RULES: &str = "mutation ($id: ID!, $r: [StackRuleAttributes]) { \
    setProjectLimits(projectId: $id, attributes: {stackRules: $r}) { stackRules { path rego } } }";
const FOUND: &str = "query ($id: ID!) { stackRun(id: $id) { \
    violations { title severity policyId policyModule refuses causes { resource } } \
    cost { currency monthly diffMonthly omitted resources { name type monthly } } } }";

/// Denies deletes, and warns of everything else.
pub(super) const NO_DELETES: &str = r#"package plural.stacks

deny contains {"msg": "nothing is deleted here", "resource": change.address, "severity": "HIGH"} if {
    some change in input.resource_changes
    "delete" in change.change.actions
}

warn contains "somebody looks" if { count(input.resource_changes) > 0 }
"#;

pub(super) async fn set(by: &Person, w: &World, rules: &[(&str, &str)]) -> Answer {
    let rules: Vec<Value> = rules.iter().map(|(path, rego)| json!({"path": path, "rego": rego})).collect();
    by.ask(RULES, json!({"id": w.t.project, "r": rules})).await
}

async fn world(database: &TestDatabase) -> World {
    World::new(database, json!({"type": "TERRAFORM", "approval": true, "manageState": false})).await
}

async fn found(w: &World, run: &Value) -> Value {
    w.t.reader.data(FOUND, json!({"id": run["id"]})).await["stackRun"].clone()
}

/// The first Job of a run, which does so to one resource.
pub(super) async fn planned(w: &World, number: u64, action: &str) -> (Value, Harness, String) {
    let run = w.run(number, "PENDING").await;
    let harness = w.take(&run, RunPhase::Plan, 0).await;
    assert_eq!(harness.get("input").await.0, 200);
    let json = json!({"resource_changes": [{
        "address": "local_file.a",
        "change": {"actions": [action], "before": null, "after": null, "before_sensitive": false, "after_sensitive": false},
    }]})
    .to_string();
    for (part, body) in [("file", FILE), ("json", json.as_bytes()), ("text", b"a plan".as_slice())] {
        assert_eq!(harness.call(Method::PUT, &format!("plan/{part}"), body.to_vec()).await.0, 204);
    }
    let (file, json, text) = (hex(FILE), hex(json.as_bytes()), hex(b"a plan"));
    let report = json!({
        "summary": {"add": 1, "change": 0, "destroy": 0, "other": false},
        "fileDigest": file, "jsonDigest": json, "textDigest": text, "lockDigest": null,
    });
    assert_eq!(harness.says("planned", report).await.0, 204);
    let digest = hex(format!("file:{file}\njson:{json}\ntext:{text}\n").as_bytes());
    (run, harness, digest)
}

async fn what_a_rule_of_the_project_denies_is_not_applied(database: TestDatabase) {
    let w = world(&database).await;
    let set_rules = set(&w.t.owner, &w, &[("deletes.rego", NO_DELETES)]).await;
    assert_eq!(set_rules.outcome(), "OK", "{set_rules:?}");
    // Whoever may only read the project sets none.
    assert_eq!(set(&w.t.reader, &w, &[]).await.outcome(), "FORBIDDEN");
    assert_eq!(set(&w.t.stranger, &w, &[]).await.outcome(), "NOT_FOUND");
    // Limits that say nothing of them leave them as they are.
    let limits =
        "mutation ($id: ID!) { setProjectLimits(projectId: $id, attributes: {}) { stackRules { path } } }";
    let left = w.t.owner.data(limits, json!({"id": w.t.project})).await;
    assert_eq!(left["setProjectLimits"]["stackRules"], json!([{"path": "deletes.rego"}]));

    let (run, harness, _) = planned(&w, 1, "delete").await;
    let cost = json!({"currency": "USD", "totalMonthlyCost": "71.5", "diffTotalMonthlyCost": "70.08", "projects": [
        {"name": "a", "breakdown": {"resources": [{"name": "local_file.a", "resourceType": "local_file", "monthlyCost": "1"}]}},
    ]});
    let put = |kind: &'static str, body: String| harness.call(Method::PUT, kind, body.into_bytes());
    assert_eq!(put("findings/cost", cost.to_string()).await.0, 204);
    assert_eq!(put("findings/cost", "{}".to_owned()).await.0, 422);
    assert_eq!(put("findings/policy", "{}".to_owned()).await.0, 404);
    assert_eq!(harness.done(true).await, 204);
    let failed = w.run(1, "FAILED").await;
    assert_eq!(failed["phase"], "PLAN");
    assert_eq!(failed["error"], "policy refused the plan: nothing is deleted here (local_file.a)");
    let known = found(&w, &run).await;
    assert_eq!(
        known["violations"],
        json!([
            {"title": "nothing is deleted here", "severity": "HIGH", "policyId": "deny", "policyModule": "project", "refuses": true,
             "causes": [{"resource": "local_file.a"}]},
            {"title": "somebody looks", "severity": "UNKNOWN", "policyId": "warn", "policyModule": "project", "refuses": false,
             "causes": []},
        ])
    );
    assert_eq!(
        known["cost"],
        json!({"currency": "USD", "monthly": "71.5", "diffMonthly": "70.08", "omitted": 0,
            "resources": [{"name": "local_file.a", "type": "local_file", "monthly": "1"}]})
    );
    assert_eq!(w.t.stranger.ask(FOUND, json!({"id": run["id"]})).await.outcome(), "NOT_FOUND");

    // What is only warned of waits for people, who see it.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    let (run, harness, digest) = planned(&w, 2, "create").await;
    assert_eq!(harness.done(true).await, 204);
    w.run(2, "PENDING_APPROVAL").await;
    assert_eq!(found(&w, &run).await["violations"][0]["title"], "somebody looks");
    assert_eq!(w.approve(&w.t.owner, &run, &json!(digest)).await.outcome(), "OK");
    w.applies(2).await;
    w.run(2, "SUCCESSFUL").await;

    // Whoever writes the stack does not loosen the rules of its project.
    let bound = w.update(json!({"writeBindings": [{"userId": w.t.stranger.id}]})).await;
    assert_eq!(bound.outcome(), "OK", "{bound:?}");
    assert_ne!(set(&w.t.stranger, &w, &[]).await.outcome(), "OK");
    let rules = "query ($id: ID!) { project(id: $id) { stackRules { path rego } } }";
    let left = w.t.owner.data(rules, json!({"id": w.t.project})).await;
    assert_eq!(left["project"]["stackRules"], json!([{"path": "deletes.rego", "rego": NO_DELETES}]));
    w.t.stop().await;
}

async fn rules_that_cannot_be_checked_refuse_the_plan(database: TestDatabase) {
    let w = world(&database).await;
    for (number, rego, told) in [
        (1, "package plural.stacks\n\ndeny contains if {", "bad.rego does not compile"),
        (2, "package other\n\ndeny contains \"x\" if { true }\n", "no rule is called deny"),
        (3, "package plural.stacks\n\ndeny contains 1 if { true }\n", "neither a text nor an object"),
    ] {
        assert_eq!(set(&w.t.owner, &w, &[("bad.rego", rego)]).await.outcome(), "OK");
        if number > 1 {
            assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
        }
        let (_, harness, _) = planned(&w, number, "create").await;
        assert_eq!(harness.done(true).await, 204);
        let failed = w.run(number, "FAILED").await;
        let error = failed["error"].as_str().unwrap();
        assert!(error.contains("could not be checked") && error.contains(told), "{error}");
    }
    // A plan without JSON: no rule could read it.
    assert_eq!(set(&w.t.owner, &w, &[("a.rego", NO_DELETES)]).await.outcome(), "OK");
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(4, 1).await;
    let failed = w.run(4, "FAILED").await;
    assert!(failed["error"].as_str().unwrap().contains("there is no plan as JSON"), "{failed}");
    w.t.stop().await;
}

async fn commands_that_no_rule_reads_have_no_rights_to_apply(database: TestDatabase) {
    let w = world(&database).await;
    assert_eq!(set(&w.t.owner, &w, &[("deletes.rego", NO_DELETES)]).await.outcome(), "OK");
    let (_, harness, _) = planned(&w, 1, "create").await;
    assert_eq!(harness.done(true).await, 204);
    w.run(1, "PENDING_APPROVAL").await;
    // With the rights to plan, they have run when rules could look at them.
    for (number, approve, ended) in [(2, false, "SUCCESSFUL"), (3, true, "FAILED")] {
        let made = exec(&w, &w.t.owner, json!([{"cmd": "ls", "approve": approve}])).await;
        assert_eq!(made.outcome(), "OK", "{made:?}");
        // Whatever the harness counts.
        w.plans(number, 0).await;
        let run = w.run(number, ended).await;
        assert_eq!(run["phase"], "PLAN", "{run}");
        let error = run["error"].as_str().unwrap_or_default();
        assert_eq!(error.contains("no rule can read what commands would do"), approve, "{run}");
    }
    w.t.stop().await;
}

async fn a_policy_that_moved_after_the_approval_refuses_the_apply(database: TestDatabase) {
    let w = world(&database).await;
    assert_eq!(set(&w.t.owner, &w, &[("a.rego", NO_DELETES)]).await.outcome(), "OK");
    let (run, harness, digest) = planned(&w, 1, "create").await;
    assert_eq!(harness.done(true).await, 204);
    w.run(1, "PENDING_APPROVAL").await;
    assert_eq!(w.approve(&w.t.owner, &run, &json!(digest)).await.outcome(), "OK");
    let run = w.run(1, "PENDING").await;
    let apply = w.take(&run, RunPhase::Apply, 0).await;
    let stricter = NO_DELETES.replace("\"delete\"", "\"create\"");
    assert_eq!(set(&w.t.owner, &w, &[("a.rego", stricter.as_str())]).await.outcome(), "OK");
    let (status, body) = apply.get("input").await;
    assert_eq!(status, 409, "{}", String::from_utf8_lossy(&body));
    let failed = w.run(1, "FAILED").await;
    assert_eq!(failed["error"], "the policy moved since the plan was checked: plan again");

    // So do the first rules that there are: this plan was checked by none.
    assert_eq!(set(&w.t.owner, &w, &[]).await.outcome(), "OK");
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    let (run, harness, digest) = planned(&w, 2, "create").await;
    assert_eq!(harness.done(true).await, 204);
    w.run(2, "PENDING_APPROVAL").await;
    assert_eq!(set(&w.t.owner, &w, &[("a.rego", NO_DELETES)]).await.outcome(), "OK");
    w.approve(&w.t.owner, &run, &json!(digest)).await;
    let failed = w.run(2, "FAILED").await;
    assert_eq!(failed["error"], "the policy moved since the plan was checked: plan again");
    w.t.stop().await;
}

/// A repository with rules that the console has fetched: its id.
async fn rules_in_git(w: &World, remote: &GitRemote) -> String {
    let repository = w.t.admin.repository(remote.path().to_str().unwrap()).await;
    let id = repository["id"].as_str().unwrap().to_owned();
    eventually(LONG, async || {
        let ask = "query ($id: ID!) { gitRepository(id: $id) { health } }";
        let data = w.t.admin.data(ask, json!({"id": id})).await;
        (data["gitRepository"]["health"] == "PULLABLE").then_some(()).ok_or(format!("{data}"))
    })
    .await;
    id
}

async fn rules_of_a_repository_let_through_what_is_not_too_bad(database: TestDatabase) {
    let w = world(&database).await;
    let remote = GitRemote::named("rules.git").unwrap();
    remote
        .push_files([
            ("stacks/a.rego", NO_DELETES),
            ("stacks/a_test.rego", "no rego"),
            ("stacks/b.md", "no rego"),
        ])
        .unwrap();
    let repository = rules_in_git(&w, &remote).await;
    let (_, first, _) = planned(&w, 1, "create").await;
    assert_eq!(first.done(false).await, 204);
    w.run(1, "FAILED").await;

    let policy = |most: &str, folder: &str| {
        json!({"policyEngine": {"type": "REGO", "maxSeverity": most, "repositoryId": repository,
            "git": {"ref": "main", "folder": folder}}})
    };
    assert_eq!(w.update(policy("HIGH", "stacks")).await.outcome(), "OK");
    let (run, harness, _) = planned(&w, 2, "delete").await;
    assert_eq!(harness.done(true).await, 204);
    w.run(2, "PENDING_APPROVAL").await;
    let known = found(&w, &run).await;
    assert_eq!(
        (&known["violations"][0]["refuses"], &known["violations"][0]["policyModule"]),
        (&json!(false), &json!("stack")),
        "{known}"
    );
    assert_eq!(w.update(policy("LOW", "stacks")).await.outcome(), "OK");
    let (_, harness, _) = planned(&w, 3, "delete").await;
    assert_eq!(harness.done(true).await, 204);
    assert!(w.run(3, "FAILED").await["error"].as_str().unwrap().starts_with("policy refused the plan: "));
    // What the project denies, no stack lets through.
    assert_eq!(set(&w.t.owner, &w, &[("a.rego", NO_DELETES)]).await.outcome(), "OK");
    assert_eq!(w.update(policy("CRITICAL", "stacks")).await.outcome(), "OK");
    let (_, harness, _) = planned(&w, 4, "delete").await;
    assert_eq!(harness.done(true).await, 204);
    assert!(w.run(4, "FAILED").await["error"].as_str().unwrap().starts_with("policy refused the plan: "));
    // Rules that are not there are none that say nothing.
    assert_eq!(w.update(policy("CRITICAL", "elsewhere")).await.outcome(), "OK");
    let (_, harness, _) = planned(&w, 5, "create").await;
    assert_eq!(harness.done(true).await, 204);
    let error = w.run(5, "FAILED").await["error"].clone();
    assert!(error.as_str().unwrap().contains("could not be checked"), "{error}");
    w.t.stop().await;
}

async fn a_policy_that_names_trivy_needs_its_report(database: TestDatabase) {
    let w = world(&database).await;
    let (_, first, _) = planned(&w, 1, "create").await;
    assert_eq!(first.done(false).await, 204);
    w.run(1, "FAILED").await;
    let policy = json!({"policyEngine": {"type": "TRIVY", "maxSeverity": "MEDIUM"}});
    assert_eq!(w.update(policy).await.outcome(), "OK");
    let (_, harness, _) = planned(&w, 2, "create").await;
    assert_eq!(harness.input().await["steps"][2]["cmd"], "trivy");
    assert_eq!(harness.done(true).await, 204);
    let error = w.run(2, "FAILED").await["error"].clone();
    assert!(error.as_str().unwrap().contains("no report of Trivy"), "{error}");

    for (number, severity, status) in [(3, "HIGH", "FAILED"), (4, "LOW", "PENDING_APPROVAL")] {
        assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
        let (run, harness, _) = planned(&w, number, "create").await;
        let report = json!({"SchemaVersion": 2, "Results": [{"Class": "config", "Misconfigurations": [
            {"ID": "X-1", "Message": "is open", "Severity": severity, "Status": "FAIL"},
        ]}]});
        let body = report.to_string().into_bytes();
        assert_eq!(harness.call(Method::PUT, "findings/trivy", body).await.0, 204);
        assert_eq!(harness.call(Method::PUT, "findings/trivy", b"{}".to_vec()).await.0, 422);
        assert_eq!(harness.done(true).await, 204);
        w.run(number, status).await;
        assert_eq!(found(&w, &run).await["violations"][0]["policyId"], "X-1");
    }
    w.t.stop().await;
}

async fn what_a_policy_may_not_be_made_of(database: TestDatabase) {
    let w = world(&database).await;
    for (policy, told) in [
        (json!({"type": "REGO"}), "names no rules"),
        (json!({"type": "REGO", "repositoryId": w.repository}), "policyEngine.git"),
        (json!({"type": "TRIVY", "maxSeverity": "UNKNOWN"}), "maxSeverity"),
    ] {
        let answer = w.update(json!({"policyEngine": policy})).await;
        assert_eq!(answer.outcome(), "INVALID", "{answer:?}");
        assert!(answer.message().contains(told), "{answer:?}");
    }
    let bad = [("a b.rego", "package a"), ("a.rego", " ")];
    for (path, rego) in bad {
        assert_eq!(set(&w.t.owner, &w, &[(path, rego)]).await.outcome(), "INVALID");
    }
    let ask = "query ($id: ID) { infrastructureStack(id: $id) { policyEngine { type maxSeverity customPolicies } } }";
    let known = async || w.t.reader.data(ask, json!({"id": w.stack})).await["infrastructureStack"].clone();
    assert_eq!(known().await["policyEngine"], Value::Null);
    let policy = json!({"type": "TRIVY", "maxSeverity": "LOW", "customPolicies": true});
    assert_eq!(w.update(json!({"policyEngine": policy})).await.outcome(), "OK");
    assert_eq!(known().await["policyEngine"], policy);
    assert_eq!(w.update(json!({"policyEngine": {"type": "NONE"}})).await.outcome(), "OK");
    assert_eq!(known().await["policyEngine"], Value::Null);
    w.t.stop().await;
}
