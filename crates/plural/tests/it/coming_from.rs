//! Moving over from another tool: its objects are adopted as they are, and what it applied and git does not hold goes.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret as KubeSecret},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use plural_testkit::{TestCluster, each_cluster};
use plural_wire::{HelmConfigAttributes, RenderingAttributes};
use serde_json::{Value, json};

use crate::{
    sync::{Shell, service},
    world::{World, attributes, map},
};

each_cluster!(
    an_application_of_argo_cd_is_adopted,
    a_kustomization_of_flux_is_adopted,
    a_release_of_helm_is_adopted,
);

fn web(metadata: &Value, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]}}},
    })
}

/// Applies as another tool does, under its name.
async fn applied_by(w: &World, manager: &str, objects: &[Value]) -> anyhow::Result<()> {
    let how = PatchParams::apply(manager).force();
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        let patch = Patch::Apply(object);
        match object["kind"].as_str().unwrap() {
            "Deployment" => {
                let deployments: Api<Deployment> = Api::namespaced(w.client.clone(), &w.namespace);
                deployments.patch(name, &how, &patch).await?;
            }
            _ => drop(w.maps().patch(name, &how, &patch).await?),
        }
    }
    Ok(())
}

/// What there is, and that it is still the same objects afterwards.
async fn uids(w: &World) -> anyhow::Result<Vec<Option<String>>> {
    let deployments: Api<Deployment> = Api::namespaced(w.client.clone(), &w.namespace);
    let maps: Api<ConfigMap> = w.maps();
    Ok(vec![deployments.get("web").await?.metadata.uid, maps.get("settings").await?.metadata.uid])
}

/// Whoever's objects they were, they are the service's now, and nobody else's.
async fn are_ours(w: &World, other: &str) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(w.client.clone(), &w.namespace);
    let web = deployments.get("web").await?;
    let spec = &web.spec;
    assert_eq!(spec.replicas, Some(2), "what is in git counts");
    let settings = w.maps().get("settings").await?;
    let data = settings.data.clone().unwrap_or_default();
    assert_eq!(data.get("key").map(String::as_str), Some("from git"));
    assert!(!data.contains_key("old"), "what the other tool applied and git does not hold is gone: {data:?}");
    for managers in [web.metadata.managed_fields, settings.metadata.managed_fields] {
        let names: Vec<String> =
            managers.unwrap_or_default().into_iter().filter_map(|entry| entry.manager).collect();
        assert!(
            !names.iter().any(|name| name == other) && names.iter().any(|name| name == "plural"),
            "{names:?}"
        );
    }
    Ok(())
}

fn settings(metadata: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        "data": {"key": "as it was", "old": "not in git"}})
}

fn in_git() -> Vec<(&'static str, String)> {
    vec![
        ("app/web.yaml", web(&json!({"name": "web"}), 2).to_string()),
        ("app/settings.yaml", map("settings", "from git")),
    ]
}

async fn an_application_of_argo_cd_is_adopted(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let metadata = |kind: &str, name: &str| {
        json!({"name": name, "labels": {"app.kubernetes.io/instance": "shop"},
            "annotations": {"argocd.argoproj.io/tracking-id": format!("shop:{kind}:{}/{name}", w.namespace)}})
    };
    let theirs = [web(&metadata("apps/Deployment", "web"), 1), settings(&metadata("/ConfigMap", "settings"))];
    applied_by(&w, "argocd-controller", &theirs).await?;
    let before = uids(&w).await?;
    let sha = w.remote.push_files(in_git())?;
    // What goes is told before it goes, with whose it is.
    let shell = Shell::new(&w).await?;
    let id = service(&w, &shell, &["--dry-run"]).await?;
    let plan = shell.does(&["services", "plan", "blue/app"]).await?;
    for line in [
        format!("change    ConfigMap/{}/settings", w.namespace),
        "/data/old: \"not in git\" → nothing, written by argocd-controller".to_owned(),
        "/data/key: \"as it was\" → \"from git\", written by argocd-controller".to_owned(),
        "/metadata/labels/app.kubernetes.io~1instance: \"shop\" → nothing".to_owned(),
    ] {
        assert!(plan.contains(&line), "{line}: {plan}");
    }
    let diff = shell.run(&["services", "diff", "blue/app"]).await?;
    assert!(diff.out.contains("-   /data/old: \"not in git\"   # argocd-controller"), "{diff:?}");
    assert!(!diff.out.contains("+ ConfigMap"), "it is there already: {diff:?}");
    shell.does(&["services", "update", "blue/app", "--dry-run=false"]).await?;
    w.person.stands_at(&id, &sha).await;
    let last = shell.does(&["services", "plan", "blue/app", "--last"]).await?;
    assert!(last.contains("it was there already, and is adopted") && !last.contains("create "), "{last}");
    assert_eq!(uids(&w).await?, before, "nothing was made anew");
    are_ours(&w, "argocd-controller").await?;
    let annotations = w.maps().get("settings").await?.metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key("argocd.argoproj.io/tracking-id"), "{annotations:?}");
    w.end().await
}

async fn a_kustomization_of_flux_is_adopted(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let metadata = |name: &str| {
        json!({"name": name, "labels": {"kustomize.toolkit.fluxcd.io/name": "shop",
            "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}})
    };
    applied_by(&w, "kustomize-controller", &[web(&metadata("web"), 1), settings(&metadata("settings"))])
        .await?;
    let before = uids(&w).await?;
    let mut files = in_git();
    files.push(("app/kustomization.yaml", "resources: [web.yaml, settings.yaml]\n".to_owned()));
    let sha = w.remote.push_files(files)?;
    let id = w.service("app").await?;
    w.person.stands_at(&id, &sha).await;
    assert_eq!(uids(&w).await?, before, "nothing was made anew");
    are_ours(&w, "kustomize-controller").await?;
    w.end().await
}

async fn a_release_of_helm_is_adopted(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let metadata = |name: &str| {
        json!({"name": name, "labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": {
            "meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": w.namespace}})
    };
    applied_by(&w, "helm", &[web(&metadata("web"), 1), settings(&metadata("settings"))]).await?;
    let secrets: Api<KubeSecret> = Api::namespaced(w.client.clone(), &w.namespace);
    let mut release = KubeSecret { type_: Some("helm.sh/release.v1".to_owned()), ..KubeSecret::default() };
    release.metadata.name = Some("sh.helm.release.v1.shop.v1".to_owned());
    secrets.create(&kube::api::PostParams::default(), &release).await?;
    let before = uids(&w).await?;
    let sha = w.remote.push_files([
        ("app/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n".to_owned()),
        ("app/values.yaml", "replicas: 2\n".to_owned()),
        (
            "app/templates/web.yaml",
            web(
                &json!({"name": "web", "labels": {"app.kubernetes.io/managed-by": "{{ .Release.Service }}"}}),
                7,
            )
            .to_string()
            .replace("\"replicas\":7", "\"replicas\":{{ .Values.replicas }}"),
        ),
        ("app/templates/settings.yaml", map("settings", "from git")),
    ])?;
    let mut asked = attributes("app", &w.namespace, &w.repository, "main", "app");
    asked.rendering = RenderingAttributes {
        helm: Some(HelmConfigAttributes {
            release: Some("shop".to_owned()),
            ..HelmConfigAttributes::default()
        }),
        ..RenderingAttributes::default()
    };
    let id = w.person.service_of(&w.registered, asked).await?;
    w.person.stands_at(&id, &sha).await;
    assert_eq!(uids(&w).await?, before, "nothing was made anew");
    are_ours(&w, "helm").await?;
    // What Helm keeps of its releases is not ours to delete.
    assert!(secrets.get_opt("sh.helm.release.v1.shop.v1").await?.is_some());
    w.end().await
}
