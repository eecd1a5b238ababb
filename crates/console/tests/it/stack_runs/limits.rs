//! What a project's administrators allow of its runs: images, namespaces, accounts, and from where modules come.

use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database, eventually};
use serde_json::{Value, json};

use super::world::{LONG, World, id_of};

each_database!(jobs_are_what_the_project_allows, modules_come_from_where_the_project_says);

const LIMIT: &str =
    "mutation ($id: ID!, $a: ProjectLimitsAttributes!) { setProjectLimits(projectId: $id, attributes: $a) {
  limits { runNamespaces runImages planServiceAccount applyServiceAccount moduleSources } } }";

pub(super) async fn limit(w: &World, limits: Value) -> Value {
    let answer = w.t.admin.data(LIMIT, json!({"id": w.t.project, "a": limits})).await;
    answer["setProjectLimits"]["limits"].clone()
}

/// A stack whose first run is over.
async fn world(database: &TestDatabase, attributes: Value) -> World {
    let w = World::new(database, attributes).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    w
}

/// Some run failed, and says so.
pub(super) async fn fails(w: &World, why: &str) {
    eventually(LONG, async || {
        let runs = w.runs().await;
        let says = |run: &Value| {
            run["status"] == "FAILED" && run["error"].as_str().is_some_and(|error| error.contains(why))
        };
        if runs.iter().any(says) { Ok(()) } else { Err(format!("no run says {why:?}: {runs:#?}")) }
    })
    .await;
}

/// The run that waits for its agent.
pub(super) async fn pending(w: &World) -> Value {
    eventually(LONG, async || {
        let runs = w.runs().await;
        runs.iter().find(|run| run["status"] == "PENDING").cloned().ok_or(format!("{runs:#?}"))
    })
    .await
}

async fn jobs_are_what_the_project_allows(database: TestDatabase) {
    let w = world(&database, json!({"configuration": {"image": "example.org/tool", "tag": "1"}})).await;
    let limits = json!({
        "runNamespaces": ["team-*"], "runImages": ["example.org/*"],
        "planServiceAccount": "reader", "applyServiceAccount": "writer", "moduleSources": ["acme/*/aws"],
    });
    assert_eq!(limit(&w, limits.clone()).await, limits);
    for (attributes, why) in [
        (json!({"jobSpec": {"namespace": "other"}}), "jobSpec.namespace: other is not among"),
        (
            json!({"configuration": {"image": "evil.test/tool", "tag": "1"}}),
            "evil.test/tool:1 is not among the images",
        ),
    ] {
        let refused = w.update(attributes).await;
        assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
        assert!(refused.message().contains(why), "{refused:?}");
    }
    let saved = w.update(json!({"jobSpec": {"namespace": "team-a"}})).await;
    assert_eq!(saved.outcome(), "OK", "{saved:?}");
    // The agent is told the same, and as whom its Jobs act.
    let run = pending(&w).await;
    let jobs = w.t.console.app().agent_run_jobs(&w.agent, &[id_of(&run)]).await.unwrap();
    let told = jobs[0].limits.clone().unwrap();
    assert_eq!(told.plan_account.as_deref(), Some("reader"));
    assert_eq!(told.apply_account.as_deref(), Some("writer"));
    assert_eq!((told.namespaces, told.images), (vec!["team-*".to_owned()], vec!["example.org/*".to_owned()]));
    let harness = w.take(&run, RunPhase::Plan, 0).await;
    assert_eq!(harness.get("input").await.0, 200);
    harness.plan(0).await;
    assert_eq!(harness.done(true).await, 204);
    // What became narrower meanwhile is found when a run is prepared.
    limit(&w, json!({"runImages": ["registry.example.org/*"]})).await;
    let asked = w.trigger(&w.t.owner, true, false).await;
    assert_eq!(asked.outcome(), "OK", "{asked:?}");
    fails(&w, "is not among the images").await;
}

async fn modules_come_from_where_the_project_says(database: TestDatabase) {
    let w = world(&database, json!({})).await;
    limit(&w, json!({"moduleSources": ["acme/*/aws"]})).await;
    for (code, why) in [
        ("module \"x\" {\n  source = \"evil/x/aws\"\n}\n", "a module is taken from evil/x/aws"),
        ("module \"x\" {\n  source = var.where\n}\n", "cannot be told before it runs"),
        ("module \"x\" {", "more.tf: cannot be read as code"),
    ] {
        w.remote.push_files([("infra/more.tf", code)]).unwrap();
        fails(&w, why).await;
    }
    // A module of the same repository is held to it, too.
    let inner = "module \"y\" {\n  source = \"git::https://evil.test/y.git\"\n}\n";
    let fine = "module \"x\" {\n  source = \"acme/x/aws\"\n}\n";
    w.remote.push_files([("infra/more.tf", fine), ("modules/net/main.tf", inner)]).unwrap();
    fails(&w, "modules/net/main.tf: a module is taken from https://evil.test/y.git").await;
    w.remote.push_files([("modules/net/main.tf", "# 2\n")]).unwrap();
    let run = pending(&w).await;
    assert_eq!(run["error"], Value::Null, "{run}");
    // The stack's own files are code beside it.
    let code = "module \"z\" {\n  source = \"https://evil.test/z.zip\"\n}\n";
    let saved = w.update(json!({"files": [{"path": "own.tf", "content": code}]})).await;
    assert_eq!(saved.outcome(), "OK", "{saved:?}");
    fails(&w, "own.tf: a module is taken from https://evil.test/z.zip").await;
    // Nor under a name that is written as another.
    let refused = w.update(json!({"files": [{"path": "own.tf/.", "content": code}]})).await;
    assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
    assert!(refused.message().contains("a path that ends with a name"), "{refused:?}");
    // Code that nobody reads before it runs, and variables by which a source means something else.
    assert_eq!(w.update(json!({"files": []})).await.outcome(), "OK");
    for (code, why) in [
        // A file of the tool is no code of Terragrunt to us, and Terragrunt would read it as such.
        ("include \"root\" {\n  path = \"./more.tf\"\n}\n", "include names no file"),
        ("locals {\n  x = read_terragrunt_config(\"more.tf\")\n}\n", "read_terragrunt_config names no file"),
    ] {
        w.remote.push_files([("infra/terragrunt.hcl", code)]).unwrap();
        fails(&w, &format!("terragrunt.hcl: {why}")).await;
    }
    let asks = json!({"environment": [{"name": "SSH_ASKPASS", "value": "./evil"}]});
    let refused = w.update(asks).await;
    assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    assert!(refused.message().contains("SSH_ASKPASS"), "{refused:?}");
    let variables = json!({"environment": [{"name": "GIT_SSH_COMMAND", "value": "evil"}]});
    let refused = w.update(variables.clone()).await;
    assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    assert!(refused.message().contains("GIT_SSH_COMMAND"), "{refused:?}");
    // And where the limit came later.
    limit(&w, json!({})).await;
    assert_eq!(w.update(variables).await.outcome(), "OK");
    limit(&w, json!({"moduleSources": ["acme/*/aws"]})).await;
    w.remote.push_files([("infra/terragrunt.hcl", "# 2\n")]).unwrap();
    fails(&w, "attributes.environment: GIT_SSH_COMMAND").await;
}
