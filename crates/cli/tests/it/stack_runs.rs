//! Runs of stacks.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const STACK: &str = "0190b8a2-7c11-7def-8000-0123456789ab";
const RUN: &str = "0190b8a2-7c11-7def-8000-000000000012";
const DIGEST: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

fn stack() -> Value {
    json!({"id": STACK, "name": "network", "type": "TERRAFORM", "protect": false, "paused": false})
}

fn run(status: &str, plan: &Value) -> Value {
    json!({
        "id": RUN, "number": 12, "kind": "APPLY", "trigger": "MANUAL", "status": status, "phase": "PLAN", "approval": true,
        "requiredApprovals": 2, "cancelAsked": false, "error": null, "sha": "0123456789abcdef", "message": "wider",
        "author": "ada@example.com", "stack": {"id": STACK, "name": "network"}, "plan": plan, "approvals": [], "steps": [],
    })
}

fn plan() -> Value {
    json!({"digest": DIGEST, "add": 2, "change": 0, "destroy": 1, "other": false, "at": null})
}

fn step(index: i64, name: &str, status: &str) -> Value {
    json!({
        "id": RUN, "index": index, "phase": "PLAN", "stage": "PLAN", "name": name, "cmd": "tofu", "args": [name], "status": status,
        "exitCode": null,
    })
}

/// One page of runs.
fn page(runs: &[Value]) -> Value {
    let edges: Vec<Value> = runs.iter().map(|run| json!({"node": run})).collect();
    json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": edges})
}

/// A console with one stack, whose newest run is this one.
async fn server(newest: &Value) -> Server {
    Server::start().await.data("GetInfrastructureStack", "infrastructureStack", &stack()).data(
        "ListStackRuns",
        "infrastructureStack",
        &json!({"runs": page(std::slice::from_ref(newest))}),
    )
}

fn logs(run: &str, step: &str, text: &str, next: usize) -> Value {
    json!({"status": run, "steps": [{"status": step, "logs": {"text": text, "next": next}}]})
}

#[tokio::test]
async fn a_plan_is_waited_for_and_printed() {
    let made = run("QUEUED", &Value::Null);
    let text =
        json!({"status": "SUCCESSFUL", "plan": {"digest": DIGEST, "text": "\u{1b}[32m+ create\u{1b}[0m\n"}});
    let server = server(&made)
        .await
        .data("TriggerRun", "triggerRun", &made)
        .data("GetStackRun", "stackRun", &run("RUNNING", &Value::Null))
        .data("GetStackRun", "stackRun", &run("SUCCESSFUL", &plan()))
        .data("GetStackRunText", "stackRun", &text);
    let person = Person::of(&server.url);
    let done = person.run("cd stacks plan network --detailed-exitcode").await;
    // Colours are for screens that have them.
    assert_eq!((done.code, done.out.as_str()), (2, "+ create\n"), "{done:?}");
    assert!(
        done.err.contains("2 to add, 0 to change, 1 to destroy") && !done.err.contains("error"),
        "{done:?}"
    );
    assert_eq!(server.asked("TriggerRun"), [json!({"id": STACK, "dryRun": true, "destroy": null})]);
    let coloured = Person::of(&server.url).with("TERM", "xterm").run("cd stacks plan network").await;
    assert!(coloured.code == 0 && coloured.out.starts_with("\u{1b}[32m+ create\u{1b}[0m"), "{coloured:?}");
    let named = person.run("cd stacks plan network --no-wait -o name").await;
    assert_eq!((named.code, named.out), (0, format!("run/{RUN}\n")));
}

#[tokio::test]
async fn a_pull_request_is_planned_and_a_fork_is_released() {
    const URL: &str = "https://git.example.com/acme/infra/pulls/7";
    let (made, sha) = (run("QUEUED", &Value::Null), "7".repeat(40));
    let server = server(&made).await.data("PlanStackPullRequest", "planStackPullRequest", &made).data(
        "ReleasePullRequestCommit",
        "releasePullRequestCommit",
        &made,
    );
    let person = Person::of(&server.url);
    let planned = person.run(&format!("cd stacks plan network --pull-request {URL} --no-wait -o name")).await;
    assert_eq!((planned.code, planned.out), (0, format!("run/{RUN}\n")));
    assert_eq!(server.asked("PlanStackPullRequest"), [json!({"id": STACK, "url": URL})]);
    let release = format!("cd stacks release network --pull-request {URL} --commit {sha}");
    let declined = Person::of(&server.url).answering("n\n").run(&release).await;
    assert!(declined.code == 1 && declined.err.contains(&sha), "{declined:?}");
    assert!(server.asked("ReleasePullRequestCommit").is_empty());
    let released = person.run(&format!("{release} --yes -o name")).await;
    assert_eq!((released.code, released.out), (0, format!("run/{RUN}\n")));
    assert_eq!(server.asked("ReleasePullRequestCommit"), [json!({"id": STACK, "url": URL, "sha": sha})]);
    assert!(server.asked("TriggerRun").is_empty());
}

#[tokio::test]
async fn a_plan_that_failed_says_why() {
    let made = run("QUEUED", &Value::Null);
    let mut failed = run("FAILED", &Value::Null);
    failed["error"] = json!("the provider is missing");
    let server =
        server(&made).await.data("TriggerRun", "triggerRun", &made).data("GetStackRun", "stackRun", &failed);
    let done = Person::of(&server.url).run("cd stacks plan network --detailed-exitcode").await;
    assert!(done.code == 1 && done.err.contains("failed: the provider is missing"), "{done:?}");
    assert!(done.err.contains("stacks logs network/12"), "{done:?}");
}

#[tokio::test]
async fn somebody_approves_the_plan_that_they_were_shown() {
    let waiting = run("PENDING_APPROVAL", &plan());
    let text =
        json!({"status": "PENDING_APPROVAL", "plan": {"digest": DIGEST, "text": "- destroy the database\n"}});
    let mut approved = waiting.clone();
    approved["approvals"] = json!([{"approver": "ada@example.com", "digest": DIGEST, "at": null}]);
    let server = server(&waiting)
        .await
        .data("GetStackRun", "stackRun", &waiting)
        .data("GetStackRunText", "stackRun", &text)
        .data("ApproveStackRun", "approveStackRun", &approved);
    let declined = Person::of(&server.url).answering("n\n").run("cd stacks approve network").await;
    assert!(declined.code == 1 && declined.err.contains("- destroy the database"), "{declined:?}");
    assert!(declined.err.contains("1 to destroy") && declined.err.contains(DIGEST), "{declined:?}");
    let unasked = Person::of(&server.url).run("cd stacks approve network/12").await;
    assert!(unasked.code == 2 && unasked.err.contains("--yes"), "{unasked:?}");
    assert!(server.asked("ApproveStackRun").is_empty());
    let done = Person::of(&server.url).answering("y\n").run("cd stacks approve network/12").await;
    assert!(done.code == 0 && done.err.contains("1 more have to agree"), "{done:?}");
    // A script has read one before.
    let script = Person::of(&server.url).run(&format!("cd stacks approve {RUN} --digest abc")).await;
    assert_eq!(script.code, 0, "{script:?}");
    let asked = [json!({"id": RUN, "digest": DIGEST}), json!({"id": RUN, "digest": "abc"})];
    assert_eq!(server.asked("ApproveStackRun"), asked);
}

#[tokio::test]
async fn a_plan_that_changed_meanwhile_is_not_approved() {
    let waiting = run("PENDING_APPROVAL", &plan());
    let text = json!({"status": "PENDING_APPROVAL", "plan": {"digest": "other", "text": "+ create\n"}});
    let server = server(&waiting).await.data("GetStackRun", "stackRun", &waiting).data(
        "GetStackRunText",
        "stackRun",
        &text,
    );
    let changed = Person::of(&server.url).run("cd stacks approve network --yes").await;
    assert!(changed.code == 1 && changed.err.contains("just changed"), "{changed:?}");
    let over = run("SUCCESSFUL", &plan());
    let server = self::server(&over).await.data("GetStackRun", "stackRun", &over);
    let late = Person::of(&server.url).run("cd stacks approve network --yes").await;
    assert!(late.code == 1 && late.err.contains("waits for nobody"), "{late:?}");
}

#[tokio::test]
async fn a_log_is_followed_to_its_last_line() {
    let mut running = run("RUNNING", &Value::Null);
    running["steps"] = json!([step(0, "init", "SUCCESSFUL"), step(1, "plan", "RUNNING")]);
    let mut over = run("SUCCESSFUL", &plan());
    over["steps"] = json!([step(0, "init", "SUCCESSFUL"), step(1, "plan", "SUCCESSFUL")]);
    let server = server(&running)
        .await
        .data("GetStackRun", "stackRun", &running)
        .data("GetStackRun", "stackRun", &over)
        .data("GetStackRunLogs", "stackRun", &logs("RUNNING", "SUCCESSFUL", "init\n", 5))
        .data("GetStackRunLogs", "stackRun", &logs("RUNNING", "SUCCESSFUL", "", 5))
        .data("GetStackRunLogs", "stackRun", &logs("RUNNING", "RUNNING", "one\n\u{1b}[3", 7))
        .data("GetStackRunLogs", "stackRun", &logs("RUNNING", "RUNNING", "", 7))
        .data("GetStackRunLogs", "stackRun", &logs("RUNNING", "RUNNING", "1mtwo", 12))
        // Its last line came when it was over.
        .data("GetStackRunLogs", "stackRun", &logs("SUCCESSFUL", "SUCCESSFUL", "\u{1b}[0m\nlast", 20))
        .data("GetStackRunLogs", "stackRun", &logs("SUCCESSFUL", "SUCCESSFUL", "", 20));
    let done = Person::of(&server.url).run("cd stacks logs network --follow").await;
    assert_eq!((done.code, done.out.as_str()), (0, "init\none\ntwo\nlast\n"), "{done:?}");
    assert!(done.err.contains("step 0: init") && done.err.contains("step 1: plan"), "{done:?}");
    let asked = server.asked("GetStackRunLogs");
    let places: Vec<(i64, i64)> = asked
        .iter()
        .map(|asked| (asked["index"].as_i64().unwrap(), asked["from"].as_i64().unwrap()))
        .collect();
    assert_eq!(places, [(0, 0), (0, 5), (1, 0), (1, 7), (1, 7), (1, 12), (1, 20)]);
    let missing = Person::of(&server.url).run("cd stacks logs network --step apply").await;
    assert!(missing.code == 1 && missing.err.contains("step"), "{missing:?}");
}

#[tokio::test]
async fn runs_are_found_by_number_id_and_stack() {
    let waiting = run("PENDING_APPROVAL", &plan());
    let server = server(&waiting).await.data("GetStackRun", "stackRun", &waiting).data(
        "ListStackRunsWaiting",
        "stackRunsWaiting",
        &page(std::slice::from_ref(&waiting)),
    );
    let person = Person::of(&server.url);
    for named in ["network", "network/12", "stack/network/12", RUN, &format!("run/{RUN}")] {
        let done = person.run(&format!("cd stacks run {named}")).await;
        assert!(
            done.code == 0 && done.out.contains("network/12") && done.out.contains(DIGEST),
            "{named}: {done:?}"
        );
        assert_eq!(server.asked("GetStackRun").last(), Some(&json!({"id": RUN})), "{named}");
    }
    for (named, code) in [("network/13", 1), ("network/twelve", 2)] {
        assert_eq!(person.run(&format!("cd stacks run {named}")).await.code, code, "{named}");
    }
    for line in ["cd stacks runs network", "cd stacks waiting"] {
        let listed = person.run(line).await;
        assert!(listed.code == 0 && listed.out.contains("+2 ~0 -1"), "{listed:?}");
    }
    // Those of the stack itself, unless all are asked for.
    let of = || server.asked("ListStackRuns").last().map(|asked| asked["of"].clone());
    assert_eq!(of(), Some(json!(["STACK"])));
    assert_eq!(person.run("cd stacks runs network --all").await.code, 0);
    assert_eq!(of(), Some(Value::Null));
}

#[tokio::test]
async fn a_run_is_watched_until_it_is_over() {
    let (running, over) = (run("RUNNING", &Value::Null), run("SUCCESSFUL", &plan()));
    let server = server(&running)
        .await
        .data("GetStackRun", "stackRun", &running)
        .data("GetStackRun", "stackRun", &running)
        .data("GetStackRun", "stackRun", &over);
    let done = Person::of(&server.url).run("cd stacks run network --watch -o json").await;
    assert_eq!(done.code, 0, "{done:?}");
    let statuses: Vec<Value> =
        done.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["status"].clone()).collect();
    assert_eq!(statuses, [json!("RUNNING"), json!("SUCCESSFUL")]);
    for (status, word) in [("FAILED", "failed: the provider is missing"), ("CANCELLED", "cancelled")] {
        let mut ended = run(status, &Value::Null);
        ended["error"] = json!("the provider is missing");
        let server = self::server(&ended).await.data("GetStackRun", "stackRun", &ended);
        let done = Person::of(&server.url).run("cd stacks run network --watch").await;
        assert!(done.code == 1 && done.err.contains(word), "{done:?}");
        assert!(done.out.contains(status) && done.err.contains("stacks logs network/12"), "{done:?}");
    }
}

#[tokio::test]
async fn what_ends_or_destroys_asks_first() {
    let waiting = run("PENDING_APPROVAL", &plan());
    let server = server(&waiting)
        .await
        .data("GetStackRun", "stackRun", &waiting)
        .data("TriggerRun", "triggerRun", &waiting)
        .data("RejectStackRun", "rejectStackRun", &run("CANCELLED", &plan()))
        .data("CancelStackRun", "cancelStackRun", &run("CANCELLED", &plan()))
        .data("RestartStackRun", "restartStackRun", &waiting);
    let person = Person::of(&server.url);
    for line in ["trigger network --destroy", "reject network --reason no", "cancel network"] {
        let refused = person.run(&format!("cd stacks {line}")).await;
        assert!(refused.code == 2 && refused.err.contains("--yes"), "{line}: {refused:?}");
        let done = person.run(&format!("cd stacks {line} --yes")).await;
        assert_eq!(done.code, 0, "{line}: {done:?}");
    }
    assert_eq!(server.asked("TriggerRun"), [json!({"id": STACK, "dryRun": null, "destroy": true})]);
    assert_eq!(server.asked("RejectStackRun"), [json!({"id": RUN, "reason": "no"})]);
    assert_eq!(server.asked("CancelStackRun"), [json!({"id": RUN})]);
    // One that waits for approval has come as far as it does by itself.
    let done = person.run("cd stacks restart network --wait").await;
    assert!(done.code == 0 && done.out.contains("PENDING_APPROVAL"), "{done:?}");
}

#[tokio::test]
async fn outputs_are_printed_bare_and_sensitive_ones_on_request() {
    let outputs = json!({"output": [
        {"name": "id", "json": "\"vpc-1\"", "secret": false},
        {"name": "ports", "json": "[80,443]", "secret": false},
        {"name": "password", "json": "\"hunter2\"", "secret": true},
        {"name": "hidden", "json": null, "secret": true},
    ]});
    let server = server(&Value::Null).await.data("GetStackOutputs", "infrastructureStack", &outputs);
    let person = Person::of(&server.url);
    let listed = person.run("cd stacks outputs network").await;
    assert!(listed.out.contains("vpc-1") && !listed.out.contains("hunter2"), "{listed:?}");
    assert_eq!(person.run("cd stacks outputs network id").await.out, "vpc-1\n");
    assert_eq!(person.run("cd stacks outputs network password").await.out, "hunter2\n");
    let hidden = person.run("cd stacks outputs network hidden").await;
    assert!(hidden.code == 1 && hidden.err.contains("state-read"), "{hidden:?}");
    assert_eq!(person.run("cd stacks outputs network nothing").await.code, 1);
}

#[tokio::test]
async fn drift_is_looked_for_shown_and_told_to_scripts() {
    let made = run("QUEUED", &Value::Null);
    let standing = |status: &str, error: Value| {
        let check = json!({
            "checkedAt": "2026-11-27T02:00:00Z", "runNumber": 12, "count": 1, "leftOut": 0, "error": error, "failedAt": null,
        });
        json!({
            "id": STACK, "name": "network", "driftStatus": status, "driftedAt": null, "driftCheck": check,
            "driftSchedule": {"crontab": "@daily", "timeZone": null, "nextAt": null},
        })
    };
    let resource = json!({
        "id": RUN, "address": "local_file.one", "type": "local_file", "provider": "local", "action": "UPDATED", "leftOut": 3,
        "runNumber": 12, "firstSeenAt": "2026-11-27T02:00:00Z", "lastSeenAt": "2026-11-27T02:00:00Z",
        "fields": [
            {"path": "content", "before": "\"ours\"", "after": "\"theirs\"", "sensitive": false, "cut": false},
            {"path": "key", "before": null, "after": null, "sensitive": true, "cut": false},
        ],
    });
    let server = server(&made)
        .await
        .data("CheckStackDrift", "checkStackDrift", &made)
        .data("GetStackRun", "stackRun", &run("SUCCESSFUL", &plan()))
        .data("GetStackDrift", "infrastructureStack", &standing("DRIFTED", Value::Null))
        .data("ListStackDrift", "infrastructureStack", &json!({"drift": page(&[resource])}));
    let person = Person::of(&server.url);
    let shown = person.run("cd stacks drift network").await;
    assert_eq!(shown.code, 0, "{shown:?}");
    for told in
        ["1 resource", "run 12", "@daily UTC", "local_file.one: changed", "and 3 more", "key: (sensitive)"]
    {
        assert!(shown.out.contains(told), "{told}: {shown:?}");
    }
    assert!(shown.out.contains("content: \"ours\" -> \"theirs\""), "{shown:?}");
    assert!(server.asked("CheckStackDrift").is_empty());
    let looked = person.run("cd stacks drift network --now --exit-code -o json").await;
    assert_eq!(looked.code, 2, "{looked:?}");
    let known: Value = serde_json::from_str(&looked.out).unwrap();
    assert_eq!((&known["driftStatus"], &known["drift"][0]["action"]), (&json!("DRIFTED"), &json!("UPDATED")));
    assert_eq!(server.asked("CheckStackDrift"), [json!({"id": STACK})]);

    for (status, error, code) in [
        ("IN_SYNC", Value::Null, 0),
        ("UNCHECKED", Value::Null, 1),
        // What is known is of the look before.
        ("IN_SYNC", json!("no network"), 1),
    ] {
        let server = self::server(&made)
            .await
            .data("GetStackDrift", "infrastructureStack", &standing(status, error))
            .data("ListStackDrift", "infrastructureStack", &json!({"drift": page(&[])}));
        let done = Person::of(&server.url).run("cd stacks drift network --exit-code").await;
        assert_eq!(done.code, code, "{done:?}");
    }

    // Watched, it is told again when a check changes it, as long as the stack is there.
    let server = self::server(&made)
        .await
        .data("GetStackDrift", "infrastructureStack", &standing("IN_SYNC", Value::Null))
        .data("GetStackDrift", "infrastructureStack", &standing("DRIFTED", Value::Null))
        .error("GetStackDrift", "NOT_FOUND", "could not find resource")
        .data("ListStackDrift", "infrastructureStack", &json!({"drift": page(&[])}));
    let person = Person::of(&server.url);
    let watched = person.run("cd stacks drift network --watch -o jsonpath={.driftStatus}").await;
    assert_eq!((watched.code, watched.out.as_str()), (1, "IN_SYNC\nDRIFTED\n"), "{watched:?}");
    assert!(watched.err.contains("stack/network is gone"), "{watched:?}");
    assert_eq!(person.run("cd stacks drift network --watch --exit-code").await.code, 2);
}
