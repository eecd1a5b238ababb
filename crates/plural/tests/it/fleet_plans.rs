//! What a commit would do on a cluster, before it is merged: by the API and by the command line, through console and agent.

use std::time::Duration;

use plural_core::ids::ServiceId;
use plural_testkit::{TestCluster, each_cluster, eventually};
use serde_json::{Value, json};

use crate::{
    asker::Asker,
    world::{PATIENCE, World, map},
};

each_cluster!(
    a_commit_is_planned_on_its_cluster_and_nothing_moves,
    a_service_of_several_sources_is_planned,
    a_cluster_that_is_away_is_a_result,
);

const CREATE: &str = "mutation ($r: ID!, $ref: String!, $base: String) {
    createFleetPlan(repositoryId: $r, ref: $ref, base: $base) { id phase } }";
const PLAN: &str = "query ($id: ID!) { fleetPlan(id: $id) {
    phase error sha message untouched
    reach { counts { created changed deleted blocked }
      clusters { handle services waiting away failed }
      parts { id name handle state error counts { created changed deleted blocked unchanged } } } } }";
const PART: &str = "query ($id: ID!) { fleetPlanPart(id: $id) {
    objects { action why object { kind name } fields { path before after } } problems { source message } } }";

const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {p: aHVudGVyMg==}\n";

/// Asks for a plan and waits until it is done.
async fn planned(admin: &Asker, w: &World, reference: &str, base: Option<&str>) -> anyhow::Result<Value> {
    let variables = json!({"r": w.repository, "ref": reference, "base": base});
    let id = admin.data(CREATE, variables).await?["createFleetPlan"]["id"].clone();
    Ok(eventually(PATIENCE, async || {
        let found = admin.data(PLAN, json!({"id": id})).await.map_err(|error| format!("{error:#}"))?;
        let plan = found["fleetPlan"].clone();
        if ["DONE", "FAILED"].contains(&plan["phase"].as_str().unwrap_or_default()) {
            return Ok(plan);
        }
        Err(plan.to_string())
    })
    .await)
}

async fn a_commit_is_planned_on_its_cluster_and_nothing_moves(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let admin = Asker::administrator(&w.console.url).await?;
    let (guest, stranger) =
        (admin.user("guest@example.com").await?, admin.user("stranger@example.com").await?);
    let first = w.remote.push_files([
        ("app/a.yaml", map("a", "1")),
        ("app/b.yaml", map("b", "1")),
        ("other/c.yaml", map("c", "1")),
        ("other/s.yaml", SECRET.to_owned()),
        ("chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n".to_owned()),
        ("chart/templates/m.yaml", map("m", "one")),
    ])?;
    let (app, other, chart) = (w.service("app").await?, w.service("other").await?, w.service("chart").await?);
    for id in [&app, &other, &chart] {
        w.person.stands_at(id, &first).await;
    }
    w.until_value("a", "1").await;
    w.until_value("m", "one").await;
    w.until_value("c", "1").await;

    // Somebody proposes a change; a template of it looks where the service's own namespace ends.
    let lookup = "{{ (lookup \"v1\" \"Namespace\" \"\" \"default\") | len }}/{{ (lookup \"v1\" \"ConfigMap\" .Release.Namespace \"a\") | len }}/{{ (lookup \"v1\" \"Secret\" .Release.Namespace \"s\").data.p }}";
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  key: \"LOOKUP\"\n"
        .replace("LOOKUP", lookup);
    w.remote.set_ref("refs/heads/feature", "main")?;
    let head = w
        .remote
        .commit("feature")
        .file("app/a.yaml", map("a", "2"))
        .remove("app/b.yaml")
        .file("app/new.yaml", map("new", "1"))
        .file("app/odd.yaml", "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w}\n")
        .file("chart/templates/m.yaml", template)
        .push()?;
    let plan = planned(&admin, &w, &head, Some("main")).await?;
    assert_eq!((&plan["phase"], &plan["sha"]), (&json!("DONE"), &json!(head)), "{plan}");
    assert_eq!(plan["untouched"], 1, "the other service: {plan}");
    let reach = &plan["reach"];
    assert_eq!(
        reach["clusters"],
        json!([{"handle": "blue", "services": 2, "waiting": 0, "away": 0, "failed": 0}]),
        "{plan}"
    );
    let part = &reach["parts"][0];
    assert_eq!((&part["name"], &part["state"]), (&json!("app"), &json!("PLANNED")), "{plan}");
    let counts = &part["counts"];
    assert_eq!(
        (&counts["created"], &counts["changed"], &counts["deleted"], &counts["blocked"]),
        (&json!(1), &json!(1), &json!(1), &json!(1)),
        "{plan}"
    );
    let told = admin.data(PART, json!({"id": part["id"]})).await?["fleetPlanPart"].clone();
    let field = json!({"path": "/data/key", "before": "\"1\"", "after": "\"2\""});
    let change = json!({"action": "CHANGE", "why": null, "object": {"kind": "ConfigMap", "name": "a"}, "fields": [field]});
    assert!(told["objects"].as_array().unwrap().contains(&change), "{told}");
    assert!(told["problems"][0]["message"].as_str().unwrap().contains("Widget"), "{told}");

    // What is of the cluster is not there for a template that nobody has reviewed; what is the service's own is.
    let part = &reach["parts"][1];
    assert_eq!(part["name"], "chart", "{plan}");
    let told = admin.data(PART, json!({"id": part["id"]})).await?.to_string();
    assert!(told.contains("\\\"0/") && !told.contains("0/0"), "{told}");
    // So is that it has a Secret, and not what that holds.
    assert!(told.contains("/KioqKioqKio=") && !told.contains("aHVudGVyMg"), "{told}");

    // Nothing moved.
    let services = [(&app, "a", "1"), (&chart, "m", "one")];
    for (id, name, value) in services {
        let details = w.person.details(id).await?;
        assert_eq!(details.service.sha.as_deref(), Some(first.as_str()), "{name}");
        assert_eq!(w.value(name).await?.as_deref(), Some(value));
    }
    assert!(w.value("new").await?.is_none() && w.value("b").await?.is_some());

    // Whoever reads one of the services sees that one, and nobody else sees any of it.
    admin.bind("serviceId", &app, json!({"readBindings": [{"userId": guest.id}]})).await?;
    let id = reach["parts"][0]["id"].clone();
    assert!(guest.ask(PART, json!({"id": id})).await?["errors"].is_null());
    for (who, id) in [(&guest, &reach["parts"][1]["id"]), (&stranger, &id)] {
        let refused = who.ask(PART, json!({"id": id})).await?;
        assert_eq!(refused["errors"][0]["extensions"]["code"], "NOT_FOUND", "{refused}");
    }

    // A commit that cannot be rendered is told for the service, and a merge of it is nobody's surprise.
    w.remote.set_ref("refs/heads/broken", "main")?;
    let broken = w.remote.commit("broken").file("app/a.yaml", "kind: [").push()?;
    let plan = planned(&admin, &w, &broken, Some("main")).await?;
    let part = &plan["reach"]["parts"][0];
    assert_eq!(part["state"], "FAILED", "{plan}");
    assert!(part["error"].as_str().unwrap().contains("app/a.yaml"), "{plan}");
    let details = w.person.details(&app).await?;
    assert!(details.errors.is_empty(), "{:?}", details.errors);
    w.end().await
}

async fn a_service_of_several_sources_is_planned(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let admin = Asker::administrator(&w.console.url).await?;
    let first = w.remote.push_files([("app/a.yaml", map("a", "1")), ("extra/b.yaml", map("b", "1"))])?;
    let source = json!({"path": "", "repositoryId": w.repository, "git": {"ref": "main", "folder": "extra"}});
    let attributes = json!({
        "name": "app", "namespace": w.namespace, "repositoryId": w.repository,
        "git": {"ref": "main", "folder": "app"}, "sources": [source],
    });
    let create = "mutation ($id: ID, $a: ServiceDeploymentAttributes!) {
        createServiceDeployment(clusterId: $id, attributes: $a) { id } }";
    let made = admin.data(create, json!({"id": w.registered.id, "a": attributes})).await?;
    let id = made["createServiceDeployment"]["id"].as_str().unwrap().to_owned();
    w.person.stands_at(&id, &first).await;
    w.until_value("b", "1").await;
    w.remote.set_ref("refs/heads/feature", "main")?;
    let head = w.remote.commit("feature").file("extra/b.yaml", map("b", "2")).push()?;
    let plan = planned(&admin, &w, &head, Some("main")).await?;
    let part = &plan["reach"]["parts"][0];
    assert_eq!((&part["name"], &part["state"]), (&json!("app"), &json!("PLANNED")), "{plan}");
    let told = admin.data(PART, json!({"id": part["id"]})).await?["fleetPlanPart"].clone();
    let field = json!({"path": "/data/key", "before": "\"1\"", "after": "\"2\""});
    let change = json!({"action": "CHANGE", "why": null, "object": {"kind": "ConfigMap", "name": "b"}, "fields": [field]});
    assert!(told["objects"].as_array().unwrap().contains(&change), "{told}");
    assert_eq!(w.value("b").await?.as_deref(), Some("1"), "nothing moved");
    w.end().await
}

async fn a_cluster_that_is_away_is_a_result(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let admin = Asker::administrator(&w.console.url).await?;
    let first = w.remote.push_files([("app/a.yaml", map("a", "1"))])?;
    let app = w.service("app").await?;
    w.person.stands_at(&app, &first).await;
    let green = w.person.cluster("green").await?;
    let there = w.person.service(&green, "apps", &w.repository, "app").await?;
    assert!(there.parse::<ServiceId>().is_ok());
    // It has an artifact, though nobody has asked for it.
    eventually(PATIENCE, async || {
        let details = w.person.details(&there).await.map_err(|error| format!("{error:#}"))?;
        if details.service.sha.is_some() { Ok(()) } else { Err("it is not fetched yet".to_owned()) }
    })
    .await;
    w.remote.set_ref("refs/heads/feature", "main")?;
    let head = w.remote.commit("feature").file("app/a.yaml", map("a", "2")).push()?;
    let started = std::time::Instant::now();
    let plan = planned(&admin, &w, &head, None).await?;
    assert!(started.elapsed() < Duration::from_secs(50), "it did not wait for whoever is away");
    let mut states: Vec<(String, String)> = plan["reach"]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["handle"].as_str().unwrap().to_owned(), part["state"].as_str().unwrap().to_owned()))
        .collect();
    states.sort();
    let expected = [("blue", "PLANNED"), ("green", "AWAY")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(states, expected, "{plan}");
    w.end().await
}
