//! Files that are encrypted in git: opened by the agent with a key of the service's project, and by nobody else.
//!
//! The files were made by the programs sops and age: `crates/agent/tests/encrypted/make.sh`.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, api::PostParams};
use plural_testkit::{TestCluster, each_cluster, eventually};
use serde_json::{Value, json};

use crate::{
    asker::{Asker, OF_A_SERVICE, holds_none},
    world::{PATIENCE, World},
};

each_cluster!(encrypted_files_open_in_their_own_project_only, a_chart_takes_encrypted_values,);

const SECRET: &str = include_str!("../../../agent/tests/encrypted/secret.enc.yaml");
const ENV: &str = include_str!("../../../agent/tests/encrypted/keys.enc.env");
const TOKEN: &str = include_str!("../../../agent/tests/encrypted/token.armoured.age");
const VALUES: &str = include_str!("../../../agent/tests/encrypted/values.enc.yaml");
const OTHERS: &str = include_str!("../../../agent/tests/encrypted/other.enc.yaml");
const KEY: &str = include_str!("../../../agent/tests/encrypted/project.agekey");

const FILLED: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: filled}
data:
  key: "{{ configuration.token }}"
  password: "{{ configuration.password }}"
  file: "{{ configuration.file | strip }}"
"#;
/// What is encrypted in these files.
const CANARIES: [&str; 4] =
    ["sops-canary-8d3a", "sops-canary-also", "age-canary-5f21", "a token of these tests"];

fn canaries() -> Vec<(&'static str, String)> {
    CANARIES.iter().map(|text| ("what was encrypted", (*text).to_owned())).collect()
}

/// The project's identity, in a Secret beside the agent.
async fn give_key(w: &World, name: &str, project: &str) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::namespaced(w.client.clone(), w.agent_namespace());
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": name,
        "labels": {"deployments.plural.sh/decryption": "age"},
        "annotations": {"deployments.plural.sh/project": project}}, "stringData": {"age.agekey": KEY}}))?;
    secrets.create(&PostParams::default(), &secret).await?;
    Ok(())
}

async fn create(w: &World, admin: &Asker, attributes: &Value) -> anyhow::Result<String> {
    let document = "mutation ($cluster: ID, $a: ServiceDeploymentAttributes!) {
        createServiceDeployment(clusterId: $cluster, attributes: $a) { id } }";
    let made = admin.data(document, json!({"cluster": w.registered.id, "a": attributes})).await?;
    Ok(made["createServiceDeployment"]["id"].as_str().unwrap_or_default().to_owned())
}

async fn until_data(maps: &Api<ConfigMap>, name: &str, key: &str, value: &str) {
    eventually(PATIENCE, async || {
        let found = maps.get_opt(name).await.map_err(|error| error.to_string())?;
        let found = found.and_then(|map| map.data).unwrap_or_default();
        if found.get(key).is_some_and(|found| found == value) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

async fn encrypted_files_open_in_their_own_project_only(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let admin = Asker::administrator(&w.console.url).await?;
    let files = |secret: &str| {
        [
            ("app/a.yaml.liquid", FILLED.to_owned()),
            ("app/secret.enc.yaml", secret.to_owned()),
            ("app/keys.enc.env", ENV.to_owned()),
            ("app/token.age", TOKEN.to_owned()),
        ]
    };
    w.remote.push_files(files(SECRET))?;
    let projects = admin.data("{ projects { edges { node { id name } } } }", json!({})).await?;
    let project = &projects["projects"]["edges"][0]["node"];
    let name = project["name"].as_str().unwrap_or_default();
    let reference = |name: &str, kind: &str, from: Value| json!({"name": name, "valueFrom": {kind: from}});
    let configuration = json!([
        reference("token", "sopsKeyRef", json!({"file": "keys.enc.env", "key": "TOKEN"})),
        reference("password", "sopsKeyRef", json!({"file": "secret.enc.yaml", "key": "stringData.password"})),
        reference("file", "ageKeyRef", json!({"file": "token.age"})),
    ]);
    let attributes = json!({"name": "app", "namespace": w.namespace, "repositoryId": w.repository,
        "git": {"ref": "main", "folder": "app"}, "configuration": configuration});

    // Without an identity, and with one that belongs to another project, nothing opens.
    let app = create(&w, &admin, &attributes).await?;
    let missing = format!("no identity for project {name}");
    w.person.fails_with(&app, &["\"token\"", "keys.enc.env", "age identities opens it", &missing]).await;
    give_key(&w, "key-of-another", "another").await?;
    let second = w.cluster.namespace().await?;
    let manifests_only = json!({"name": "plain", "namespace": second, "repositoryId": w.repository,
        "git": {"ref": "main", "folder": "app"}, "configuration": [{"name": "token", "value": "x"},
            {"name": "password", "value": "x"}, {"name": "file", "value": "x"}]});
    let plain = create(&w, &admin, &manifests_only).await?;
    w.person.fails_with(&plain, &["Secret sealed", "still encrypted", &missing]).await;
    give_key(&w, "key-of-ours", name).await?;
    // Whoever knows that the key is there now says so; it is looked for now and then as well.
    let sha = w.remote.push_files([("app/note.txt", "a key is there".to_owned())])?;
    for id in [&app, &plain] {
        w.person.stands_at(id, &sha).await;
    }
    let maps = w.maps();
    until_data(&maps, "filled", "key", "age-canary-5f21").await;
    until_data(&maps, "filled", "password", "sops-canary-8d3a").await;
    until_data(&maps, "filled", "file", "a token of these tests: grüße").await;
    // Manifests are decrypted as a whole, as Flux does it.
    until_data(&maps, "plain", "note", "sops-canary-also").await;
    let secrets: Api<Secret> = Api::namespaced(w.client.clone(), &w.namespace);
    let sealed = secrets.get("sealed").await?.data.unwrap_or_default();
    assert_eq!(sealed["password"].0, b"sops-canary-8d3a");
    assert!(sealed["config.yaml"].0.starts_with(b"user: shop"));

    // A file that was changed is refused, and everything stays as it is.
    w.remote.push_files([("app/secret.enc.yaml", SECRET.replace("tier: \"1\"", "tier: \"2\""))])?;
    w.person.fails_with(&app, &["secret.enc.yaml", "its MAC does not fit"]).await;
    until_data(&maps, "plain", "note", "sops-canary-also").await;
    let sha = w.remote.push_files([("app/secret.enc.yaml", SECRET.to_owned())])?;
    w.person.stands_at(&app, &sha).await;
    for (what, document) in OF_A_SERVICE {
        let answer = admin.ask(document, json!({"id": app})).await?.to_string();
        holds_none(what, answer.as_bytes(), &canaries());
    }

    // The project is another one now: its former key does not count any more.
    let document =
        "mutation ($id: ID!, $a: ProjectAttributes!) { updateProject(id: $id, attributes: $a) { id } }";
    admin.data(document, json!({"id": project["id"], "a": {"name": "elsewhere"}})).await?;
    w.person.fails_with(&app, &["no identity for project elsewhere"]).await;
    w.end().await
}

/// Values of a chart are taken as if they were in clear; a file that nobody uses may stay closed.
async fn a_chart_takes_encrypted_values(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let admin = Asker::administrator(&w.console.url).await?;
    let projects = admin.data("{ projects { edges { node { name } } } }", json!({})).await?;
    let project = projects["projects"]["edges"][0]["node"]["name"].as_str().unwrap_or_default().to_owned();
    give_key(&w, "key", &project).await?;
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: charted}\ndata:\n  key: {{ .Values.part_secret }}\n  \
                    crt: {{ (index .Values.list 2).deep | toJson | quote }}\n";
    let sha = w.remote.push_files([
        ("chart/Chart.yaml", "apiVersion: v2\nname: charted\nversion: 1.0.0\n".to_owned()),
        ("chart/templates/map.yaml", template.to_owned()),
        ("chart/sealed.yaml", VALUES.to_owned()),
        ("chart/of-others.yaml", OTHERS.to_owned()),
    ])?;
    let attributes = json!({"name": "chart", "namespace": w.namespace, "repositoryId": w.repository,
        "git": {"ref": "main", "folder": "chart"}, "helm": {"valuesFiles": ["sealed.yaml"]}});
    let id = create(&w, &admin, &attributes).await?;
    w.person.stands_at(&id, &sha).await;
    until_data(&w.maps(), "charted", "key", "suffix-canary").await;
    until_data(&w.maps(), "charted", "crt", "{\"tls.crt\":\"pem-canary\"}").await;
    // With the file of others it is another matter: the template finds no values, and the error says why.
    let document = "mutation ($id: ID, $a: ServiceUpdateAttributes!) {
        updateServiceDeployment(id: $id, attributes: $a) { id } }";
    let others = json!({"helm": {"valuesFiles": ["of-others.yaml"]}});
    admin.data(document, json!({"id": id, "a": others})).await?;
    w.person.fails_with(&id, &["stays encrypted", "age identities opens it"]).await;
    let canaries = [("suffix", "suffix-canary".to_owned()), ("pem", "pem-canary".to_owned())];
    for (what, document) in OF_A_SERVICE {
        let answer = admin.ask(document, json!({"id": id})).await?.to_string();
        holds_none(what, answer.as_bytes(), &canaries);
    }
    w.end().await
}
