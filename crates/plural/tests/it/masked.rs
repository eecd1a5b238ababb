//! What readers of a service see of the values that it was given: that there are some.

use kube::api::{Patch, PatchParams};
use plural_testkit::{TestCluster, each_cluster, eventually};
use serde_json::{Value, json};

use crate::{
    asker::{Asker, OF_A_SERVICE, held, holds_none},
    world::{PATIENCE, World, map},
};

each_cluster!(attack_20_readers_find_no_value_that_was_configured);

const ODD: &str = "od/d<v>al&u'e \"w\\ith+ä~signs";
const PLAIN: &str = "plainvalue-3f9c1d7e";
const ROTATED: &str = "rotatedvalue-91b2ac44";
const NEXT: &str = "nextvalue-5d0e6f18";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAo\n-----END PRIVATE KEY-----\n";
const IN_A_CONTEXT: &str = "contextsecret-77aa01";
const INLINE: &str = "inlinevalue-c0ffee12";

/// What a template makes of values, in every place and form that an object has.
const FILLED: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: filled
  labels: {label: {{ configuration.plain }}}
  annotations:
    plain: "see {{ configuration.plain }}"
    odd: {{ configuration.odd | toJson }}
data:
  key: {{ configuration.plain }}
  odd: {{ configuration.odd | toJson }}
  encoded: {{ configuration.odd | b64enc }}
  around: {{ configuration.odd | prepend: "user:" | append: "@host" | b64enc }}
  escaped: {{ configuration.odd | url_encode }}
  document: {{ configuration.odd | toJson | toJson }}
  loud: {{ configuration.plain | upcase }}
  pem: {{ configuration.key | toJson }}
  lines: |
    tls:
{{ configuration.key | indent: 6 }}
  short: {{ configuration.short | toJson }}
  context: {{ contexts.shared.token }}
  public: {{ contexts.shared.region }}
  "name-{{ configuration.plain }}": "1"
---
apiVersion: v1
kind: Secret
metadata:
  name: kept
  annotations: {reloader/copy: {{ configuration.plain }}, other: written-by-hand-0011}
stringData: {password: {{ configuration.plain }}}
"#;
/// The environment of a container, and what an agent reads of its image.
const RUNNING: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: running}
spec:
  replicas: 0
  selector: {matchLabels: {app: running}}
  template:
    metadata: {labels: {app: running}}
    spec:
      containers:
      - name: running
        image: registry.example.com/{{ configuration.plain }}/web:1
        args: ["--password={{ configuration.plain }}"]
        env: [{name: PASSWORD, value: {{ configuration.odd | toJson }}}]
"#;

async fn create(w: &World, admin: &Asker, mut attributes: Value) -> anyhow::Result<String> {
    attributes["namespace"] = json!(w.namespace);
    attributes["repositoryId"] = json!(w.repository);
    attributes["git"] = json!({"ref": "main", "folder": attributes["name"]});
    let document = "mutation ($cluster: ID, $a: ServiceDeploymentAttributes!) {
        createServiceDeployment(clusterId: $cluster, attributes: $a) { id } }";
    let made = admin.data(document, json!({"cluster": w.registered.id, "a": attributes})).await?;
    Ok(made["createServiceDeployment"]["id"].as_str().unwrap().to_owned())
}

fn configuration(plain: &str) -> Value {
    json!([
        {"name": "plain", "value": plain},
        {"name": "odd", "value": ODD},
        {"name": "key", "value": KEY},
        {"name": "short", "value": "12xyz"},
    ])
}

async fn attack_20_readers_find_no_value_that_was_configured(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let admin = Asker::administrator(&w.console.url).await?;
    let projects = admin.data("{ projects { edges { node { id default } } } }", json!({})).await?;
    let project = projects["projects"]["edges"][0]["node"]["id"].as_str().unwrap().to_owned();
    let (writer, reader) = (admin.user("writer@example.com").await?, admin.user("reader@example.com").await?);
    let (guest, stranger) =
        (admin.user("guest@example.com").await?, admin.user("stranger@example.com").await?);
    let rbac = json!({"readBindings": [{"userId": reader.id}], "writeBindings": [{"userId": writer.id}]});
    admin.bind("projectId", &project, rbac).await?;

    let context = admin
        .data(
            "mutation ($a: ServiceContextAttributes!) { saveServiceContext(name: \"shared\", attributes: $a) { id } }",
            json!({"a": {"configuration": "{\"region\": \"public-region-1\"}", "secrets": [{"name": "token", "value": IN_A_CONTEXT}]}}),
        )
        .await?;
    let chart = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: charted}\ndata:\n  key: {{ .Values.auth.password }}\n  set: {{ .Values.extra }}\n";
    let sha = w.remote.push_files([
        ("app/a.yaml.liquid", FILLED.to_owned()),
        ("app/b.yaml.liquid", RUNNING.to_owned()),
        ("bad/a.yaml.liquid", map("Bad_{{ configuration.plain }}", "1")),
        ("chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n".to_owned()),
        ("chart/values.yaml", "auth: {password: none}\nextra: none\n".to_owned()),
        ("chart/templates/map.yaml", chart.to_owned()),
    ])?;
    let app = create(
        &w,
        &admin,
        json!({"name": "app", "configuration": configuration(PLAIN),
            "contextBindings": [{"contextId": context["saveServiceContext"]["id"]}],
            "syncConfig": {"createNamespace": false, "policy": {"selfHeal": false}}}),
    )
    .await?;
    let bad = json!({"name": "bad", "configuration": configuration(PLAIN)});
    let bad = create(&w, &admin, bad).await?;
    let set = json!({"name": "extra", "value": "setvalue-00112233"});
    let helm = json!({"values": format!("auth:\n  password: {INLINE}\n"), "set": set});
    let chart = create(&w, &admin, json!({"name": "chart", "helm": helm})).await?;
    admin.bind("serviceId", &app, json!({"readBindings": [{"userId": guest.id}]})).await?;
    w.person.stands_at(&app, &sha).await;
    w.person.stands_at(&chart, &sha).await;
    w.person.fails_with(&bad, &[PLAIN]).await;
    w.until_value("filled", PLAIN).await;

    // Another value: the plans tell what was before and after.
    let update = "mutation ($id: ID!, $a: ServiceUpdateAttributes!) { updateServiceDeployment(id: $id, attributes: $a) { id } }";
    let change = async |attributes: Value| admin.data(update, json!({"id": app, "a": attributes})).await;
    change(json!({"configuration": configuration(ROTATED)})).await?;
    w.until_value("filled", ROTATED).await;
    // Somebody changes the object itself.
    let patch = json!({"data": {"key": "foreign", "odd": "foreign"}});
    w.maps().patch("filled", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    let [_, _, _, (_, drift), _] = OF_A_SERVICE;
    eventually(PATIENCE, async || {
        let told = admin.data(drift, json!({"id": app})).await.map_err(|error| format!("{error:#}"))?;
        if told.to_string().contains(ROTATED) { Ok(()) } else { Err(told.to_string()) }
    })
    .await;
    change(json!({"syncConfig": {"createNamespace": false, "policy": {"manual": true, "selfHeal": false}}, "configuration": configuration(NEXT)})).await?;
    let asked =
        admin.data("mutation ($id: ID!) { planService(id: $id) { requestId } }", json!({"id": app})).await?;
    let plan = "query ($id: ID!, $request: ID) { servicePlan(serviceId: $id, requestId: $request) {
        objects { object { name } fields { path before after } } } }";
    let request = asked["planService"]["requestId"].clone();
    let planned = async |who: &Asker| {
        let found = who.data(plan, json!({"id": app, "request": request})).await;
        found.map(|found| found.to_string()).map_err(|error| format!("{error:#}"))
    };
    eventually(PATIENCE, async || {
        let found = planned(&admin).await?;
        if found.contains(NEXT) { Ok(()) } else { Err(found) }
    })
    .await;

    let secrets: Vec<(&str, String)> = [
        ("odd value", ODD),
        ("value", PLAIN),
        ("value after", ROTATED),
        ("value to come", NEXT),
        ("loud value", &NEXT.to_uppercase()),
        ("line of a key", "MIIEvQIBADANBgkqhkiG9w0"),
        ("other line of a key", "BAQEFAASCBKcwggSjAgEAAo"),
        ("short value", "\"12xyz\""),
        ("secret of a context", IN_A_CONTEXT),
        ("inline value", INLINE),
        ("value that is set", "setvalue-00112233"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into();
    for (id, service) in [(&app, "app"), (&bad, "bad"), (&chart, "chart")] {
        for (place, document) in OF_A_SERVICE {
            let place = format!("{place} of {service}");
            // Whoever may change it sees what there is: what readers do not see was there to be seen.
            let whole = writer.data(document, json!({"id": id})).await?.to_string();
            let empty = ["sync of", "drift of", "plans of", "preview of bad"]
                .iter()
                .any(|part| place.starts_with(part));
            let shows = held(whole.as_bytes(), &secrets).is_some();
            assert!(shows || (empty && service != "app") || place.starts_with("sync"), "{place}: {whole}");
            for person in [&reader, &guest] {
                if person.id == guest.id && service != "app" {
                    continue;
                }
                let seen = person.ask(document, json!({"id": id})).await?;
                let text = seen.to_string();
                holds_none(&format!("{place}, for a reader,"), text.as_bytes(), &secrets);
                assert!(seen["errors"].is_null(), "{place}: {text}");
                assert!(
                    !shows || text.contains("********") || place == "service of chart",
                    "{place}: {text}"
                );
                assert!(!text.contains("written-by-hand-0011"), "an annotation of a Secret: {text}");
            }
            let seen = stranger.ask(document, json!({"id": id})).await?;
            assert!(seen["data"].as_object().unwrap().values().all(Value::is_null), "{place}: {seen}");
        }
    }
    let seen = reader.data(OF_A_SERVICE[4].1, json!({"id": app})).await?.to_string();
    for shown in ["public-region-1", "\"filled\"", "\"running\"", "app/a.yaml.liquid", "ConfigMap", "tls:"] {
        assert!(seen.contains(shown), "{shown}: {seen}");
    }
    // The filter that escapes for URLs has another idea of what to escape.
    assert!(!seen.contains("%3Cv%3E"), "{seen}");
    // Whoever may change it is not shown what is a Secret's either.
    let seen = writer.data(OF_A_SERVICE[4].1, json!({"id": app})).await?.to_string();
    assert!(seen.contains("reloader/copy") && !seen.contains("written-by-hand-0011"), "{seen}");
    holds_none("a plan, for a reader,", planned(&reader).await.unwrap().as_bytes(), &secrets);
    // Nor by way of lists.
    let lists = "{ serviceDeployments(first: 10) { edges { node { name configuration { value } errors { message }
        components { name message } helm { values } } } } clusters(first: 5) { edges { node { handle apiDeprecations { component { name } } } } } }";
    let seen = reader.ask(lists, json!({})).await?.to_string();
    assert!(seen.contains("\"bad\"") && seen.contains("********"), "{seen}");
    holds_none("a list, for a reader,", seen.as_bytes(), &secrets);
    for answer in [
        reader.ask("query ($id: ID!) { serviceTarball(id: $id) { content } }", json!({"id": app})).await?,
        reader.ask("query ($id: ID!) { serviceGateUrl(id: $id) }", json!({"id": app})).await?,
    ] {
        assert_eq!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN", "{answer}");
    }
    w.end().await
}
