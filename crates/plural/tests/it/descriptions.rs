//! What a person is told about a service's objects and files, from the folder in git to the command line.

use plural_testkit::{TestCluster, each_cluster, eventually};

use crate::{
    sync::{Shell, service},
    world::{PATIENCE, World, map},
};

each_cluster!(images_names_files_and_api_versions_are_told);

const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: \"example.com/web:1\"}]
";
const NAMED: &str = "apiVersion: v1
kind: Service
metadata:
  name: web
  annotations: {external-dns.alpha.kubernetes.io/hostname: \"www.example.com,web.example.com\"}
spec: {selector: {app: web}, ports: [{port: 80}]}
";
const OLD: &str = "apiVersion: v1
kind: Endpoints
metadata: {name: legacy}
subsets: [{addresses: [{ip: 192.0.2.7}], ports: [{port: 80}]}]
";

async fn images_names_files_and_api_versions_are_told(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    let sha = w.remote.push_files([
        ("app/web.yaml", WEB.to_owned()),
        ("app/named.yaml", NAMED.to_owned()),
        ("app/legacy.yaml", OLD.to_owned()),
        ("beside/no.yaml", map("no", "1")),
    ])?;
    let id = service(&w, &shell, &["--conf", "password=hunter2"]).await?;
    w.person.stands_at(&id, &sha).await;
    let has = async |words: &[&str], wanted: &[&str]| {
        eventually(PATIENCE, async || {
            let told = shell.does(words).await.map_err(|error| error.to_string())?;
            if wanted.iter().all(|text| told.contains(text)) { Ok(told) } else { Err(told) }
        })
        .await
    };
    let legacy = format!("Endpoints/{}/legacy", w.namespace);
    let wanted = [
        "Images:\n  example.com/web:1\n",
        "Host names:\n  web.example.com\n  www.example.com\n",
        legacy.as_str(),
        "discovery.k8s.io/v1 EndpointSlice",
    ];
    has(&["services", "describe", "blue/app"], &wanted).await;
    let json = shell.does(&["services", "describe", "blue/app", "-o", "json"]).await?;
    let described: serde_json::Value = serde_json::from_str(&json)?;
    assert_eq!(described["metadata"]["images"][0], "example.com/web:1");
    assert_eq!(described["apiDeprecations"][0]["blocking"], false);
    has(&["clusters", "deprecations", "blue"], &["SERVICE", "app", legacy.as_str(), "1.33"]).await;

    // Its files, and nothing else.
    let files = shell.does(&["services", "files", "blue/app", "-o", "name"]).await?;
    assert_eq!(files, "app/legacy.yaml\napp/named.yaml\napp/web.yaml\n");
    assert_eq!(shell.does(&["services", "files", "blue/app", "app/web.yaml"]).await?, WEB);
    let all = shell.does(&["services", "files", "blue/app", "app", "-o", "json"]).await?;
    assert!(all.contains("app/named.yaml") && !all.contains("hunter2"), "{all}");
    let none = shell.run(&["services", "files", "blue/app", "beside/no.yaml"]).await?;
    assert!(none.code == Some(1) && none.err.contains("has no file"), "{none:?}");

    // What Kubernetes took away is said together with what to write instead.
    let gone = "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: nightly}\nspec: {}\n";
    w.remote.push_files([("app/nightly.yaml", gone)])?;
    w.person.fails_with(&id, &["batch/v1beta1 is not served since Kubernetes 1.25: use batch/v1"]).await;
    w.end().await
}
