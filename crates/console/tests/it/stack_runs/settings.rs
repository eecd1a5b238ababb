//! What stacks have where they say nothing themselves: their Jobs, as their project and the installation say.

use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use super::limits::{fails, limit, pending};
use super::world::{World, id_of};
use crate::api_server::Answer;

each_database!(
    the_nearest_says_what_a_job_is,
    what_is_said_later_changes_no_run_that_exists,
    limits_hold_for_what_the_stack_does_not_say,
    what_cannot_be_is_refused_and_what_is_said_is_audited,
    where_no_namespaces_are_allowed_jobs_stay_in_the_agents_own,
);

const UPDATE: &str =
    "mutation ($id: ID!, $a: StackAttributes!) { updateStack(id: $id, attributes: $a) { id } }";
const INSTALLATION: &str =
    "mutation ($a: DeploymentSettingsAttributes!) { updateDeploymentSettings(attributes: $a) {
  stacks { jobSpec { namespace labels } } } }";

/// The owner says it for the project.
pub(super) async fn project_says(w: &World, settings: Value) -> Answer {
    let set = "mutation ($id: ID!, $a: StackSettingsAttributes!) {
      setProjectStackSettings(projectId: $id, attributes: $a) { id stackSettings { jobSpec { namespace labels } } } }";
    w.t.owner.ask(set, json!({"id": w.t.project, "a": settings})).await
}

/// An administrator says it for the installation.
async fn installation_says(w: &World, job: Value) -> Answer {
    w.t.admin.ask(INSTALLATION, json!({"a": {"stacks": {"jobSpec": job}}})).await
}

/// The Job of a run.
async fn job(w: &World, run: &Value) -> Value {
    let ask = "query ($id: ID!) { stackRun(id: $id) { jobSpec {
      namespace labels annotations nodeSelector serviceAccount tolerations { key operator }
      requests { requests { cpu memory } limits { cpu memory } } } } }";
    w.t.owner.data(ask, json!({"id": run["id"]})).await["stackRun"]["jobSpec"].clone()
}

/// A stack without settings whose first run is over.
async fn world(database: &TestDatabase, attributes: Value) -> World {
    let w = World::new(database, attributes).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    w
}

fn fine(answer: &Answer) {
    assert_eq!(answer.outcome(), "OK", "{answer:?}");
}

async fn the_nearest_says_what_a_job_is(database: TestDatabase) {
    let w = world(&database, json!({})).await;
    let said = installation_says(
        &w,
        json!({
            "labels": {"fleet": "all", "team": "none"}, "annotations": {"example.org/a": "b"},
            "serviceAccount": "runner", "tolerations": [{"key": "all", "operator": "Exists"}],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        }),
    )
    .await;
    fine(&said);
    let said = project_says(
        &w,
        json!({"jobSpec": {
            "labels": {"team": "shop", "tier": "1"}, "tolerations": [{"key": "shop", "operator": "Exists"}],
            "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "2Gi"}},
        }}),
    )
    .await;
    fine(&said);
    // Whoever writes the stack needs no more than that for what others said of its account.
    let writer = &w.t.stranger;
    fine(&w.update(json!({"writeBindings": [{"userId": writer.id}]})).await);
    let writes = async |attributes: Value| writer.ask(UPDATE, json!({"id": w.stack, "a": attributes})).await;
    fine(&writes(json!({"jobSpec": {"labels": {"tier": "2"}, "nodeSelector": {"disk": "ssd"}}})).await);
    let run = w.run(2, "PENDING").await;
    assert_eq!(
        job(&w, &run).await,
        json!({
            "namespace": null, "labels": {"fleet": "all", "team": "shop", "tier": "2"},
            "annotations": {"example.org/a": "b"}, "nodeSelector": {"disk": "ssd"}, "serviceAccount": "runner",
            "tolerations": [{"key": "shop", "operator": "Exists"}],
            "requests": {"requests": {"cpu": "2", "memory": null}, "limits": {"cpu": null, "memory": "2Gi"}},
        })
    );
    // What runs in the Job is not told who said what of it.
    let harness = w.take(&run, RunPhase::Plan, 0).await;
    let input = harness.input().await;
    assert!(input["spec"].is_object() && input["spec"]["jobDefaults"].is_null(), "{input}");
    harness.plan(0).await;
    assert_eq!(harness.done(true).await, 204);
    w.run(2, "SUCCESSFUL").await;

    // Who names another namespace does not take the account along.
    fine(&writes(json!({"jobSpec": {"namespace": "own"}})).await);
    let told = job(&w, &w.run(3, "PENDING").await).await;
    assert_eq!((&told["namespace"], &told["serviceAccount"]), (&json!("own"), &Value::Null));
    // Of the stack only its own is shown.
    let ask =
        "query ($id: ID) { infrastructureStack(id: $id) { jobSpec { namespace labels serviceAccount } } }";
    let own = w.t.owner.data(ask, json!({"id": w.stack})).await["infrastructureStack"]["jobSpec"].clone();
    assert_eq!(own, json!({"namespace": "own", "labels": {"tier": "2"}, "serviceAccount": null}));
    w.t.stop().await;
}

async fn what_is_said_later_changes_no_run_that_exists(database: TestDatabase) {
    let w = world(&database, json!({"approval": true})).await;
    fine(&project_says(&w, json!({"jobSpec": {"labels": {"said": "first"}}})).await);
    fine(&w.trigger(&w.t.owner, false, false).await);
    w.plans(2, 1).await;
    let run = w.run(2, "PENDING_APPROVAL").await;
    fine(&project_says(&w, json!({"jobSpec": {"labels": {"said": "later"}}})).await);
    fine(&installation_says(&w, json!({"nodeSelector": {"disk": "ssd"}})).await);
    // Its plan is good, and its second Job is as the first.
    fine(&w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await);
    let run = w.run(2, "PENDING").await;
    let told = job(&w, &run).await;
    assert_eq!((&told["labels"], &told["nodeSelector"]), (&json!({"said": "first"}), &json!({})));
    let jobs = w.t.console.app().agent_run_jobs(&w.agent, &[id_of(&run)]).await.unwrap();
    assert_eq!(jobs[0].run.snapshot.spec.whole_job().labels["said"], "first");
    w.applies(2).await;
    w.run(2, "SUCCESSFUL").await;
    assert_eq!(w.runs().await.len(), 2, "settings make no run");
    fine(&w.trigger(&w.t.owner, false, false).await);
    let told = job(&w, &w.run(3, "PENDING").await).await;
    assert_eq!(
        (&told["labels"], &told["nodeSelector"]),
        (&json!({"said": "later"}), &json!({"disk": "ssd"}))
    );
    w.t.stop().await;
}

async fn limits_hold_for_what_the_stack_does_not_say(database: TestDatabase) {
    let w = world(&database, json!({})).await;
    limit(&w, json!({"runNamespaces": ["team-*"]})).await;
    let of_project = "jobSpec.namespace in the stack settings of project";
    let refused = project_says(&w, json!({"jobSpec": {"namespace": "other"}})).await;
    assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    assert!(refused.message().contains(of_project), "{refused:?}");
    let account = project_says(&w, json!({"jobSpec": {"serviceAccount": "deployer"}})).await;
    assert_eq!(account.outcome(), "FORBIDDEN", "{account:?}");
    assert!(
        account.message().contains("jobSpec.serviceAccount in the stack settings of project"),
        "{account:?}"
    );
    let ask =
        "query ($id: ID) { project(id: $id) { stackSettings { jobSpec { namespace serviceAccount } } } }";
    let kept = w.t.owner.data(ask, json!({"id": w.t.project})).await;
    let nothing = json!({"namespace": null, "serviceAccount": null});
    assert_eq!(kept["project"]["stackSettings"]["jobSpec"], nothing, "what is refused changes nothing");

    fine(&project_says(&w, json!({"jobSpec": {"namespace": "team-a"}})).await);
    fine(&installation_says(&w, json!({"namespace": "other"})).await);
    fine(&w.trigger(&w.t.owner, true, false).await);
    let run = pending(&w).await;
    assert_eq!(job(&w, &run).await["namespace"], "team-a");
    let number = run["number"].as_u64().unwrap();
    w.plans(number, 0).await;
    w.run(number, "SUCCESSFUL").await;

    // The limits became narrower: who said what they do not allow is told.
    limit(&w, json!({"runNamespaces": ["shop-*"]})).await;
    fine(&w.trigger(&w.t.owner, true, false).await);
    fails(&w, of_project).await;
    fails(&w, "team-a is not among the namespaces").await;
    let refused = w.update(json!({"timeout": "1h"})).await;
    assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    assert!(refused.message().contains(of_project), "{refused:?}");
    fine(&project_says(&w, json!({})).await);
    fine(&w.trigger(&w.t.owner, true, false).await);
    fails(&w, "jobSpec.namespace in the stack settings of the installation: other is not among").await;
    // The stack's own counts, and is allowed.
    fine(&w.update(json!({"jobSpec": {"namespace": "shop-a"}})).await);
    assert_eq!(job(&w, &pending(&w).await).await["namespace"], "shop-a");
    w.t.stop().await;
}

async fn what_cannot_be_is_refused_and_what_is_said_is_audited(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    for (field, settings) in [
        ("attributes.jobSpec.namespace", json!({"jobSpec": {"namespace": "kube-system"}})),
        ("attributes.jobSpec.serviceAccount", json!({"jobSpec": {"serviceAccount": "a/b"}})),
        ("attributes.jobSpec.raw", json!({"jobSpec": {"raw": "kind: Job"}})),
        ("attributes.jobSpec.labels", json!({"jobSpec": {"labels": {"deployments.plural.sh/run": "x"}}})),
        ("attributes.jobSpec.annotations", json!({"jobSpec": {"annotations": {"plural.sh/a": "x"}}})),
        (
            "attributes.jobSpec.annotations",
            json!({"jobSpec": {"annotations": {"iam.amazonaws.com/role": "x"}}}),
        ),
        ("attributes.jobSpec.nodeSelector", json!({"jobSpec": {"nodeSelector": {"disk": "a b"}}})),
        ("attributes.jobSpec.requests", json!({"jobSpec": {"resources": {"requests": {"cpu": "lots"}}}})),
        ("attributes.connectionId", json!({"connectionId": w.cluster})),
    ] {
        let refused = project_says(&w, settings.clone()).await;
        assert_eq!(refused.outcome(), "INVALID", "{field}: {refused:?}");
        assert!(refused.message().starts_with(field), "{field}: {refused:?}");
        let refused = w.t.admin.ask(INSTALLATION, json!({"a": {"stacks": settings}})).await;
        assert_eq!(refused.outcome(), "INVALID", "{field}: {refused:?}");
        let field = field.replacen("attributes.", "attributes.stacks.", 1);
        assert!(refused.message().starts_with(&field), "{field}: {refused:?}");
    }
    let lines = async || {
        let audits = w.t.admin.data("{ audits(last: 100) { edges { node { action } } } }", json!({})).await;
        let lines = audits["audits"]["edges"].as_array().unwrap().clone();
        let actions: Vec<String> =
            lines.iter().map(|line| line["node"]["action"].as_str().unwrap().to_owned()).collect();
        let count = |action: &str| actions.iter().filter(|one| *one == action).count();
        (count("project.stack_settings"), count("installation.stack_settings"))
    };
    assert_eq!(lines().await, (0, 0));
    fine(&installation_says(&w, json!({"namespace": "runs", "labels": {"a": "b"}})).await);
    fine(&project_says(&w, json!({"jobSpec": {"labels": {"c": "d"}}})).await);
    assert_eq!(lines().await, (1, 1));
    // What is not given stays; what is given replaces all that was said before.
    let left = w.t.admin.data(INSTALLATION, json!({"a": {}})).await["updateDeploymentSettings"].clone();
    assert_eq!(left, json!({"stacks": {"jobSpec": {"namespace": "runs", "labels": {"a": "b"}}}}));
    fine(&installation_says(&w, json!({"labels": {"e": "f"}})).await);
    let ask = "{ deploymentSettings { stacks { jobSpec { namespace labels } } } }";
    let now = w.t.reader.data(ask, json!({})).await["deploymentSettings"].clone();
    assert_eq!(now, json!({"stacks": {"jobSpec": {"namespace": null, "labels": {"e": "f"}}}}));
    assert_eq!(lines().await, (1, 2));
    w.t.stop().await;
}

async fn where_no_namespaces_are_allowed_jobs_stay_in_the_agents_own(database: TestDatabase) {
    let w = world(&database, json!({})).await;
    let refused = project_says(&w, json!({"jobSpec": {"namespace": "runs"}})).await;
    assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    assert!(refused.message().contains("name runs in runNamespaces of the limits first"), "{refused:?}");
    fine(&installation_says(&w, json!({"namespace": "runs", "labels": {"a": "b"}})).await);
    fine(&w.trigger(&w.t.owner, true, false).await);
    let run = w.run(2, "PENDING").await;
    let told = job(&w, &run).await;
    assert_eq!((&told["namespace"], &told["labels"]), (&Value::Null, &json!({"a": "b"})));
    w.plans(2, 0).await;
    w.run(2, "SUCCESSFUL").await;

    limit(&w, json!({"runNamespaces": ["runs", "shop-*"]})).await;
    fine(&w.trigger(&w.t.owner, true, false).await);
    assert_eq!(job(&w, &w.run(3, "PENDING").await).await["namespace"], "runs");
    fine(&project_says(&w, json!({"jobSpec": {"namespace": "shop-runs"}})).await);
    w.t.stop().await;
}
