//! The acceptance list of continuous deployment, one test for each line of it, through console and agent.

use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job, core::v1::Pod};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use plural_testkit::{TestCluster, each_cluster, eventually};
use plural_wire::{
    ConfigAttributes, HelmConfigAttributes, KickService, RenderingAttributes, Secret, ServiceDeploymentStatus,
};
use serde_json::json;

use crate::world::{PATIENCE, World, attributes, map, value};

each_cluster!(
    raw,
    helm,
    crd_and_custom_resource_in_one_service,
    templating,
    errors,
    resync,
    waves,
    phases,
    hook_policies,
);

/// Folders, YAML and JSON, several documents in a file; a change of one file changes its objects only.
async fn raw(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let json = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "from-json"}, "data": {"key": "1"}});
    let files = |two: &str| {
        [
            ("app/one.yaml", format!("{}---\n{}", map("one", "1"), map("two", two))),
            ("app/deep/er/three.yml", map("three", "1")),
            ("app/four.json", json.to_string()),
            ("app/README.md", "no manifest".to_owned()),
            ("elsewhere/other.yaml", map("other", "1")),
        ]
    };
    let sha = w.remote.push_files(files("1"))?;
    let id = w.service("app").await?;
    let found = w.person.stands_at(&id, &sha).await;
    assert_eq!(w.map_names().await?, ["from-json", "one", "three", "two"]);
    assert_eq!(found.components.len(), 4);

    let sha = w.remote.push_files(files("2"))?;
    w.person.stands_at(&id, &sha).await;
    assert_eq!(w.value("two").await?.as_deref(), Some("2"));
    assert_eq!((w.writes_of("one")?, w.writes_of("two")?), (1, 2));

    let sha = w.remote.commit("main").remove("app/four.json").push()?;
    w.person.stands_at(&id, &sha).await;
    assert_eq!(w.map_names().await?, ["one", "three", "two"], "what left git left the cluster");
    w.end().await
}

/// A chart with values of its own, from files and from the service; another value is another revision.
async fn helm(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let sha = w.remote.push_files([
        ("chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n".to_owned()),
        ("chart/values.yaml", "color: red\nsize: small\nshape: round\n".to_owned()),
        ("chart/prod.yaml", "size: large\n".to_owned()),
        (
            "chart/templates/map.yaml",
            map("{{ .Release.Name }}", "{{ .Values.color }} {{ .Values.size }} {{ .Values.shape }}"),
        ),
        ("chart/templates/NOTES.txt", "thank you\n".to_owned()),
    ])?;
    let with = |values: &str| RenderingAttributes {
        helm: Some(HelmConfigAttributes {
            release: Some("shop".to_owned()),
            values: Some(Secret::new(values)),
            values_files: Some(vec!["prod.yaml".to_owned()]),
            ..HelmConfigAttributes::default()
        }),
        ..RenderingAttributes::default()
    };
    let mut asked = attributes("web", &w.namespace, &w.repository, "main", "chart");
    asked.rendering = with("shape: square");
    let id = w.person.service_of(&w.registered, asked).await?;
    w.person.stands_at(&id, &sha).await;
    assert_eq!(w.value("shop").await?.as_deref(), Some("red large square"));
    let attributes = plural_wire::ServiceUpdateAttributes {
        rendering: with("shape: oval"),
        ..plural_wire::ServiceUpdateAttributes::default()
    };
    let update =
        plural_wire::UpdateServiceDeployment { id: Some(id.clone()), cluster: None, name: None, attributes };
    w.person.client.send(&update).await?;
    w.until_value("shop", "red large oval").await;
    w.person.stands_at(&id, &sha).await;
    w.end().await
}

/// A definition and an object of it in one folder, in the wrong order, at once.
async fn crd_and_custom_resource_in_one_service(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let group = format!("{}.example.org", w.namespace);
    let definition = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: widgets.{group}}}\nspec:\n  \
         group: {group}\n  scope: Namespaced\n  names: {{plural: widgets, singular: widget, kind: Widget, listKind: \
         WidgetList}}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema: \
         {{type: object, x-kubernetes-preserve-unknown-fields: true}}\n"
    );
    let widget = |size: u32| {
        format!("apiVersion: {group}/v1\nkind: Widget\nmetadata: {{name: one}}\nspec: {{size: {size}}}\n")
    };
    let sha =
        w.remote.push_files([("app/a-widget.yaml", widget(1)), ("app/z-definition.yaml", definition)])?;
    let id = w.service("app").await?;
    w.person.stands_at(&id, &sha).await;
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", "Widget"), "widgets");
    let widgets: Api<DynamicObject> = Api::namespaced_with(w.client.clone(), &w.namespace, &kind);
    assert_eq!(widgets.get("one").await?.data["spec"]["size"], 1);
    let sha = w.remote.push_files([("app/a-widget.yaml", widget(2))])?;
    w.person.stands_at(&id, &sha).await;
    assert_eq!(widgets.get("one").await?.data["spec"]["size"], 2);
    w.end().await
}

/// Templates see configuration, cluster and service; a service that is not templated gets its files as they are.
async fn templating(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let sha = w.remote.push_files([
        (
            "app/map.yaml.liquid",
            map("templated", "{{ configuration.stage | upcase }} {{ cluster.handle }} {{ service.name }}"),
        ),
        ("app/plain.yaml", map("plain", "{{ configuration.stage }}")),
        ("app/go.yaml.tpl", map("go", "{{ .Configuration.stage | upper }}")),
    ])?;
    let stage = |text: &str| Some(vec![value("stage", text)]);
    let mut asked = attributes("app", &w.namespace, &w.repository, "main", "app");
    asked.configuration = stage("prod");
    let id = w.person.service_of(&w.registered, asked).await?;
    w.person.stands_at(&id, &sha).await;
    assert_eq!(w.value("templated").await?.as_deref(), Some("PROD blue app"));
    assert_eq!(w.value("go").await?.as_deref(), Some("PROD"));
    assert_eq!(w.value("plain").await?.as_deref(), Some("{{ configuration.stage }}"));
    // Another configuration is rendered at once, and writes what depends on it only.
    let attributes = plural_wire::ServiceUpdateAttributes {
        configuration: stage("dev"),
        ..plural_wire::ServiceUpdateAttributes::default()
    };
    let update =
        plural_wire::UpdateServiceDeployment { id: Some(id.clone()), cluster: None, name: None, attributes };
    w.person.client.send(&update).await?;
    w.until_value("templated", "DEV blue app").await;
    w.person.stands_at(&id, &sha).await;
    assert_eq!(w.writes_of("plain")?, 1);
    w.end().await
}

/// What is wrong is told with its place, what runs stays, and a good commit heals it.
async fn errors(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let good = w.remote.push_files([("app/a.yaml", map("a", "1")), ("app/b.yaml", map("b", "1"))])?;
    let id = w.service("app").await?;
    w.person.stands_at(&id, &good).await;
    for (broken, needles) in [
        // No YAML; a template that fails; an unknown kind; an object that the API server refuses.
        ("a: [\n", vec!["b.yaml"]),
        ("apiVersion: nowhere.example.org/v1\nkind: Gizmo\nmetadata: {name: g}\n", vec!["no kind Gizmo"]),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n", vec!["Not_A_Name"]),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {key: [1]}\n", vec!["ConfigMap", "b"]),
    ] {
        w.remote.push_files([("app/b.yaml", broken)])?;
        w.person.fails_with(&id, &needles).await;
        assert_eq!(w.map_names().await?, ["a", "b"], "{broken}");
    }
    let sha = w.remote.push_files([("app/b.yaml", map("b", "2"))])?;
    w.person.stands_at(&id, &sha).await;
    assert_eq!(w.value("b").await?.as_deref(), Some("2"));
    assert_eq!(w.writes_of("a")?, 1);
    // A folder that is not there, and a ref that is not.
    let lost = w.service("lost").await?;
    w.person.fails_with(&lost, &["lost"]).await;
    let mut asked = attributes("astray", &w.namespace, &w.repository, "no-such-branch", "app");
    asked.configuration = Some(Vec::<ConfigAttributes>::new());
    let astray = w.person.service_of(&w.registered, asked).await?;
    w.person.fails_with(&astray, &["no-such-branch"]).await;
    w.end().await
}

/// Asked to look again, the agent does, and writes nothing where nothing differs; what was deleted is back.
async fn resync(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let sha = w.remote.push_files([("app/a.yaml", map("a", "1")), ("app/b.yaml", map("b", "1"))])?;
    let id = w.service("app").await?;
    w.person.stands_at(&id, &sha).await;
    let kick = KickService { service_id: Some(id.clone()), cluster: None, name: None };
    w.person.client.send(&kick).await?;
    w.person.stands_at(&id, &sha).await;
    w.maps().delete("a", &DeleteParams::default()).await?;
    w.until_value("a", "1").await;
    let change = json!({"data": {"key": "mine", "more": "theirs"}});
    w.maps().patch("b", &PatchParams::default(), &Patch::Merge(change)).await?;
    w.until_value("b", "1").await;
    w.person.stands_at(&id, &sha).await;
    let kept = w.maps().get("b").await?.data.unwrap_or_default();
    assert_eq!(kept.get("more").map(String::as_str), Some("theirs"), "what git does not name is not ours");
    // A restarted agent repeats nothing.
    let (a, b) = (w.writes_of("a")?, w.writes_of("b")?);
    let mut w = w;
    w.agent.take().unwrap().stop().await;
    w.start_agent().await?;
    let sha = w.remote.push_files([("app/c.yaml", map("c", "1"))])?;
    w.person.stands_at(&id, &sha).await;
    assert_eq!((w.writes_of("a")?, w.writes_of("b")?), (a, b));
    w.end().await
}

fn annotated(manifest: &str, annotations: &str) -> String {
    manifest.replacen("metadata:\n", &format!("metadata:\n  annotations: {{{annotations}}}\n"), 1)
}

fn wave(manifest: &str, wave: i32) -> String {
    annotated(manifest, &format!("deployment.plural.sh/sync-wave: \"{wave}\""))
}

/// A Deployment; one that is stuck gets ready when its Pods are let go.
fn deployment(name: &str, is_stuck: bool) -> String {
    let pod =
        if is_stuck { "{test.plural.sh/pod: pending, kubesim.plural.sh/ready-after: 3600s}" } else { "{}" };
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\nspec:\n  selector: {{matchLabels: {{app: {name}}}}}\n  \
         template:\n    metadata:\n      labels: {{app: {name}}}\n      annotations: {pod}\n    spec:\n      containers: \
         [{{name: web, image: example.com/web}}]\n"
    )
}

/// A Job that ends well, or badly.
fn job(name: &str, annotations: &str, ends_well: bool) -> String {
    let pod =
        if ends_well { "{}" } else { "{test.plural.sh/pod: failed, kubesim.plural.sh/fail: JobFailed}" };
    let manifest = format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\nspec:\n  backoffLimit: 0\n  template:\n    metadata: \
         {{annotations: {pod}}}\n    spec: {{restartPolicy: Never, containers: [{{name: run, image: example.com/run}}]}}\n"
    );
    annotated(&manifest, annotations)
}

/// A wave waits for the health of the one before; negative ones come first.
async fn waves(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let sha = w.remote.push_files([
        ("app/first.yaml", wave(&map("first", "1"), -5)),
        ("app/gate.yaml", wave(&deployment("gate", true), 1)),
        ("app/last.yaml", annotated(&map("last", "1"), "argocd.argoproj.io/sync-wave: \"7\"")),
    ])?;
    let id = w.service("app").await?;
    let deployments: Api<Deployment> = Api::namespaced(w.client.clone(), &w.namespace);
    let gate = eventually(PATIENCE, async || deployments.get_opt("gate").await.ok().flatten()).await;
    // It waits, and says for what.
    let told = eventually(PATIENCE, async || {
        let found = w.person.details(&id).await.map_err(|error| error.to_string())?;
        let gate = found.components.iter().any(|component| component.name == "gate");
        let last = found.components.iter().any(|component| component.name == "last" && component.synced);
        if gate && !last { Ok(found) } else { Err(format!("{:?}", found.components)) }
    })
    .await;
    assert_ne!(told.service.status, ServiceDeploymentStatus::Healthy);
    assert_eq!(w.map_names().await?, ["first"]);
    let first = w.maps().get("first").await?;
    assert!(first.metadata.creation_timestamp <= gate.metadata.creation_timestamp);

    let pods: Api<Pod> = Api::namespaced(w.client.clone(), &w.namespace);
    let free = json!({"metadata": {"annotations": {
        "test.plural.sh/pod": null, "kubesim.plural.sh/ready-after": null}}});
    let found = async || {
        let list = pods.list(&ListParams::default().labels("app=gate")).await;
        list.map(|list| list.items).ok().filter(|items| !items.is_empty())
    };
    for pod in eventually(PATIENCE, found).await {
        let name = pod.metadata.name.unwrap_or_default();
        pods.patch(&name, &PatchParams::default(), &Patch::Merge(free.clone())).await?;
    }
    w.person.stands_at(&id, &sha).await;
    assert_eq!(w.map_names().await?, ["first", "last"]);
    w.end().await
}

/// Pre-sync before everything, post-sync when all is healthy, sync-fail only when something failed, skip never.
async fn phases(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let hook = |phase: &str| format!("deployment.plural.sh/sync-hook: {phase}");
    let files = |ends_well: bool| {
        [
            ("app/before.yaml", job("before", &hook("pre-sync"), ends_well)),
            ("app/web.yaml", deployment("web", false)),
            ("app/after.yaml", job("after", &hook("post-sync"), true)),
            ("app/rescue.yaml", annotated(&map("rescue", "1"), &hook("sync-fail"))),
            ("app/never.yaml", annotated(&map("never", "1"), &hook("skip"))),
        ]
    };
    let sha = w.remote.push_files(files(true))?;
    let id = w.service("app").await?;
    w.person.stands_at(&id, &sha).await;
    assert_eq!(w.map_names().await?, Vec::<String>::new(), "neither sync-fail nor skip");
    let jobs: Api<Job> = Api::namespaced(w.client.clone(), &w.namespace);
    let deployments: Api<Deployment> = Api::namespaced(w.client.clone(), &w.namespace);
    let (before, web, after) =
        (jobs.get("before").await?, deployments.get("web").await?, jobs.get("after").await?);
    let ended = before.status.and_then(|status| status.completion_time);
    assert!(ended <= web.metadata.creation_timestamp, "the web came after the hook's end");
    assert!(web.metadata.creation_timestamp <= after.metadata.creation_timestamp);

    // A hook that fails stops the sync; sync-fail runs.
    w.remote.push_files(files(false))?;
    w.person.fails_with(&id, &["before"]).await;
    w.until_value("rescue", "1").await;
    // And a good commit heals it.
    let sha = w.remote.push_files(files(true))?;
    w.person.stands_at(&id, &sha).await;
    w.end().await
}

/// Finished hooks go as they ask, and no completed hook runs again until its manifest changes.
async fn hook_policies(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let hook = |policy: &str| {
        format!(
            "deployment.plural.sh/sync-hook: pre-sync, deployment.plural.sh/sync-hook-delete-policy: {policy}"
        )
    };
    let kept = job("kept", "deployment.plural.sh/sync-hook: pre-sync", true);
    let files = |value: &str| {
        [
            ("app/gone.yaml", job("gone", &hook("hook-succeeded"), true)),
            ("app/kept.yaml", kept.clone()),
            ("app/map.yaml", map("a", value)),
        ]
    };
    let sha = w.remote.push_files(files("1"))?;
    let id = w.service("app").await?;
    w.person.stands_at(&id, &sha).await;
    let jobs: Api<Job> = Api::namespaced(w.client.clone(), &w.namespace);
    let names = async || {
        let list = jobs.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let mut names: Vec<String> = list.items.into_iter().filter_map(|job| job.metadata.name).collect();
        names.sort();
        if names == ["kept"] { Ok(()) } else { Err(format!("{names:?}")) }
    };
    eventually(PATIENCE, names).await;
    let uid = jobs.get("kept").await?.metadata.uid;
    // Another commit runs neither again.
    let sha = w.remote.push_files(files("2"))?;
    w.person.stands_at(&id, &sha).await;
    assert_eq!(jobs.get("kept").await?.metadata.uid, uid);
    let made = |name: &str| -> anyhow::Result<usize> {
        let writes = w.cluster.writes(&w.namespace)?;
        Ok(writes
            .iter()
            .filter(|write| write.resource == "jobs" && write.name == name && write.code == 201)
            .count())
    };
    assert_eq!((made("gone")?, made("kept")?), (1, 1));
    // A changed one runs again; one that failed and asks for it goes too.
    let failing = job("failing", &hook("hook-failed"), false);
    w.remote.push_files([("app/gone.yaml", failing)])?;
    w.person.fails_with(&id, &["failing"]).await;
    eventually(PATIENCE, names).await;
    w.end().await
}
