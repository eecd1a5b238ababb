//! What an automation would do on a cluster, before there is a pull request: through console and agent, at a git host on loopback.

use plural_testkit::{GitRemote, GitServer, ScmDialect, ScmServer, TestCluster, each_cluster, eventually};
use serde_json::{Value, json};

use crate::{
    asker::Asker,
    world::{PATIENCE, World, map},
};

each_cluster!(a_preview_is_planned_on_its_cluster_and_nothing_moves);

const ASK: &str =
    "mutation ($id: ID!, $context: Json) { planPullRequestPreview(id: $id, context: $context) { id } }";
const PLAN: &str = "query ($id: ID!) { fleetPlan(id: $id) {
    phase error untouched
    reach { clusters { handle services waiting away failed }
      parts { id name state error counts { created changed deleted blocked } } } } }";
const PART: &str = "query ($id: ID!) { fleetPlanPart(id: $id) {
    objects { action object { kind name } fields { path before after } } } }";

/// An automation of the default project that adds, changes and deletes files of a service; its id.
async fn automation(admin: &Asker, host: &ScmServer) -> anyhow::Result<Value> {
    let projects = admin.data("{ projects { edges { node { id } } } }", json!({})).await?;
    let project = &projects["projects"]["edges"][0]["node"]["id"];
    let connection = json!({
        "name": "host", "type": "GITEA", "projectId": project, "apiUrl": host.api_url(), "token": host.token(),
        "repositories": ["plural/*"],
    });
    let create = "mutation ($a: ScmConnectionAttributes!) { createScmConnection(attributes: $a) { id } }";
    let connection = admin.data(create, json!({"a": connection})).await?;
    let automation = json!({
        "name": "change", "title": "Change it", "message": "Changes it", "projectId": project,
        "connectionId": connection["createScmConnection"]["id"], "identifier": host.repository(),
        "configuration": [{"name": "name", "type": "STRING"}],
        "creates": {"templates": [
            {"source": "templates/new.yaml", "destination": "app/{{ context.name }}.yaml", "external": false},
        ]},
        "updates": {"regexReplacements": [{"file": "app/a.yaml", "regex": "key: .*", "replacement": "key: \"2\""}]},
        "deletes": {"files": ["app/b.yaml"]},
    });
    let create = "mutation ($a: PrAutomationAttributes!) { createPrAutomation(attributes: $a) { id } }";
    Ok(admin.data(create, json!({"a": automation})).await?["createPrAutomation"]["id"].clone())
}

async fn a_preview_is_planned_on_its_cluster_and_nothing_moves(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let admin = Asker::administrator(&w.console.url).await?;
    let host = ScmServer::start(ScmDialect::Gitea)?;
    let remote = GitRemote::named("plural/fleet.git")?;
    let git = GitServer::start(remote.root())?;
    let files =
        [("app/a.yaml", map("a", "1")), ("app/b.yaml", map("b", "1")), ("other/c.yaml", map("c", "1"))];
    let first = remote.push_files(files.clone())?;
    let template = map("{{ context.name }}", "made");
    let mut at_host: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    at_host.push(("templates/new.yaml", template.as_str()));
    host.push_commit("main", &first, &at_host);
    let repository = w.person.repository(&git.url(&remote)).await?;
    let service =
        async |folder: &str| w.person.service(&w.registered, &w.namespace, &repository, folder).await;
    let (app, other) = (service("app").await?, service("other").await?);
    for id in [&app, &other] {
        w.person.stands_at(id, &first).await;
    }

    let automation = automation(&admin, &host).await?;
    let asked = admin.data(ASK, json!({"id": automation, "context": {"name": "new"}})).await?;
    let id = asked["planPullRequestPreview"]["id"].clone();
    let plan = eventually(PATIENCE, async || {
        let found = admin.data(PLAN, json!({"id": id})).await.map_err(|error| format!("{error:#}"))?;
        let plan = found["fleetPlan"].clone();
        let is_over = ["DONE", "FAILED"].contains(&plan["phase"].as_str().unwrap_or_default());
        if is_over { Ok(plan) } else { Err(plan.to_string()) }
    })
    .await;
    assert_eq!((&plan["phase"], &plan["untouched"]), (&json!("DONE"), &json!(1)), "{plan}");
    assert_eq!(
        plan["reach"]["clusters"],
        json!([{"handle": "blue", "services": 1, "waiting": 0, "away": 0, "failed": 0}]),
        "{plan}"
    );
    let part = &plan["reach"]["parts"][0];
    assert_eq!((&part["name"], &part["state"]), (&json!("app"), &json!("PLANNED")), "{plan}");
    assert_eq!(part["counts"], json!({"created": 1, "changed": 1, "deleted": 1, "blocked": 0}), "{plan}");
    let told = admin.data(PART, json!({"id": part["id"]})).await?["fleetPlanPart"].clone();
    let field = json!({"path": "/data/key", "before": "\"1\"", "after": "\"2\""});
    let change = json!({"action": "CHANGE", "object": {"kind": "ConfigMap", "name": "a"}, "fields": [field]});
    assert!(told["objects"].as_array().unwrap().contains(&change), "{told}");
    let field = json!({"path": "/data/key", "before": null, "after": "\"made\""});
    let create =
        json!({"action": "CREATE", "object": {"kind": "ConfigMap", "name": "new"}, "fields": [field]});
    assert!(told["objects"].as_array().unwrap().contains(&create), "{told}");

    // Nothing moved, and nothing is at the host but what was there.
    for (id, name, value) in [(&app, "a", "1"), (&app, "b", "1"), (&other, "c", "1")] {
        assert_eq!(w.person.details(id).await?.service.sha.as_deref(), Some(first.as_str()), "{name}");
        assert_eq!(w.value(name).await?.as_deref(), Some(value));
    }
    assert!(w.value("new").await?.is_none());
    assert_eq!((host.branches(), host.pull_requests()), (vec!["main".to_owned()], 0));
    w.end().await
}
