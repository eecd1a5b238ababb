//! More bad days.
//!
//! One backend is enough: a server that is killed and started again has to be a real one.

use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use plural_core::project_limits::ProjectLimits;
use plural_render::Object;
use plural_sync::{Engine, Limits, Part, ProgressStep};
use plural_testkit::{TestCluster, each_cluster, eventually, real::RealCluster, run_case};
use serde_json::{Value, json};

use crate::{
    fixture::{Fixture, PATIENCE, config_map, deployment, object, options, target},
    waves::{annotated, stuck},
};

each_cluster!(
    an_object_too_large_is_told_before_it_is_sent,
    a_service_of_two_thousand_objects,
    a_definition_that_goes_takes_nothing_with_it_but_its_own,
    a_namespace_that_terminates_is_waited_for,
    a_field_that_cannot_be_changed_is_told_with_what_to_do,
    attack_14_a_service_in_another_project_has_its_limits_at_once,
    another_manager_may_write_what_git_leaves_open,
);

/// A definition of a kind of its own for the test.
pub(crate) fn definition(group: &str) -> Object {
    object(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version("v1", true)]},
    }))
}

pub(crate) fn version(name: &str, storage: bool) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
}

fn definitions(f: &Fixture) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    Api::all_with(f.client.clone(), &ApiResource::from_gvk(&kind))
}

async fn an_object_too_large_is_told_before_it_is_sent(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let large = config_map("large", &"x".repeat(10 << 20));
    let outcome = f.sync(vec![large, config_map("a", "1")]).await;
    assert!(!outcome.applied && outcome.changed == 1, "{:?}", outcome.problems);
    let message = &outcome.problems[0].message;
    assert!(message.contains("10.5 MB") && message.contains("split it"), "{message}");
    assert_eq!(f.config_map_names().await?, ["a"]);
    Ok(())
}

async fn a_service_of_two_thousand_objects(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let objects: Vec<_> = (0..2_000).map(|number| config_map(&format!("m{number}"), "1")).collect();
    let outcome = f.sync(objects.clone()).await;
    assert!(outcome.applied && outcome.changed == 2_000, "{:?}", outcome.problems.first());
    f.restart().await?;
    let outcome = f.sync(objects.clone()).await;
    assert_eq!((outcome.changed, outcome.unchanged), (0, 2_000));
    let outcome = f.sync(objects[..1_700].to_vec()).await;
    assert_eq!((outcome.deleted, outcome.pending), (300, None));
    Ok(())
}

async fn a_definition_that_goes_takes_nothing_with_it_but_its_own(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let group = format!("{}.example.org", f.namespace);
    let widget =
        object(json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}}));
    let objects = [definition(&group), widget, config_map("a", "1")];
    f.complete(&objects).await?;
    definitions(&f).delete(&format!("widgets.{group}"), &DeleteParams::default()).await?;
    // Both come back; the rest is not touched.
    let back = async || {
        let outcome = f.sync(objects.to_vec()).await;
        let widgets = f.api(&format!("{group}/v1"), "Widget", "widgets");
        outcome.applied && widgets.get_opt("w").await.is_ok_and(|found| found.is_some())
    };
    eventually(PATIENCE, back).await;
    assert_eq!(f.created("configmaps", "a")?, 1);
    Ok(())
}

async fn a_namespace_that_terminates_is_waited_for(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let records = f.namespace.clone();
    f.target = target("shop", &format!("{records}-ends"));
    let mut held = config_map("held", "1");
    held.value["metadata"]["finalizers"] = json!(["example.org/slow"]);
    f.complete(&[held]).await?;
    f.namespace.clone_from(&f.target.namespace);
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(f.client.clone());
    namespaces.delete(&f.namespace, &DeleteParams::default()).await?;
    let objects = [config_map("a", "1"), config_map("b", "1")];
    let outcome = f.sync(objects.to_vec()).await;
    assert!(!outcome.applied && outcome.problems[0].message.contains("being terminated"), "{outcome:?}");
    f.meddle(&f.config_maps(), "held", json!({"metadata": {"finalizers": null}})).await?;
    f.sync_until(&objects, |outcome| outcome.progress.step == ProgressStep::Complete && outcome.applied)
        .await?;
    assert_eq!(f.config_map_names().await?, ["a", "b"]);
    Ok(())
}

async fn a_field_that_cannot_be_changed_is_told_with_what_to_do(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    f.sync(vec![deployment("web"), config_map("a", "1")]).await;
    let mut other = deployment("web");
    other.value["spec"]["selector"]["matchLabels"]["app"] = "other".into();
    other.value["spec"]["template"]["metadata"]["labels"]["app"] = "other".into();
    let outcome = f.sync(vec![other.clone(), config_map("a", "2")]).await;
    let [problem] = &outcome.problems[..] else { panic!("{outcome:?}") };
    let message = &problem.message;
    assert!(message.contains("web") && message.contains("immutable"), "{message}");
    assert!(
        message.contains("only be set when the object is created") && message.contains("delete the object")
    );
    assert_eq!(f.config_maps().get("a").await?.data["data"]["key"], "2", "the rest is applied");
    // With Force=true it is created anew.
    let other = annotated(other, json!({"argocd.argoproj.io/sync-options": "Force=true"}));
    f.sync_until(&[other, config_map("a", "2")], |outcome| outcome.applied).await?;
    let live = f.api("apps/v1", "Deployment", "deployments").get("web").await?;
    assert_eq!(live.data["spec"]["selector"]["matchLabels"]["app"], "other");
    Ok(())
}

async fn attack_14_a_service_in_another_project_has_its_limits_at_once(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let wave = |object, wave: &str| annotated(object, json!({"argocd.argoproj.io/sync-wave": wave}));
    let first = wave(stuck("first"), "1");
    let objects = [first, wave(config_map("second", "1"), "2"), config_map("zero", "1")];
    f.target.limits = Some(Limits { project: "blue".to_owned(), ..Limits::default() });
    f.sync_until(&objects, |outcome| outcome.progress.step == ProgressStep::Waiting).await?;
    // In the middle of its sync it is given to a project that may write no ConfigMap.
    let green = Limits {
        project: "green".to_owned(),
        rules: ProjectLimits { denied_kinds: vec!["/ConfigMap".to_owned()], ..ProjectLimits::default() },
        ..Limits::default()
    };
    f.target.limits = Some(green);
    f.unstick("first").await?;
    let healthy = async || {
        let outcome = f.sync(objects.to_vec()).await;
        assert!(!outcome.applied);
        let refused = outcome.problems.iter().filter(|problem| problem.part == Part::Limits);
        let refused: Vec<&str> = refused.map(|problem| problem.message.as_str()).collect();
        refused.len() == 2 && refused.iter().all(|message| message.contains("project green denies"))
    };
    eventually(PATIENCE, healthy).await;
    // The second wave never came; what the old project made is neither changed nor deleted.
    assert_eq!(f.config_map_names().await?, ["zero"]);
    let changed = [config_map("zero", "2")];
    assert!(!f.sync(changed.to_vec()).await.applied);
    assert_eq!(f.config_maps().get("zero").await?.data["data"]["key"], "1");
    assert!(f.recorded().await?.unwrap().contains(&"zero".to_owned()));
    Ok(())
}

async fn another_manager_may_write_what_git_leaves_open(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let mut web = deployment("web");
    web.value["spec"].as_object_mut().unwrap().remove("replicas");
    f.complete(std::slice::from_ref(&web)).await?;
    // As a HorizontalPodAutoscaler and a VerticalPodAutoscaler do, each under its own name.
    let api = f.api("apps/v1", "Deployment", "deployments");
    let scaler =
        PatchParams { field_manager: Some("horizontal-pod-autoscaler".into()), ..PatchParams::default() };
    api.patch("web", &scaler, &Patch::Merge(json!({"spec": {"replicas": 3}}))).await?;
    let resources = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "web", "resources": {"requests": {"cpu": "10m"}}}]}}}});
    let vertical =
        PatchParams { field_manager: Some("vertical-pod-autoscaler".into()), ..PatchParams::default() };
    api.patch("web", &vertical, &Patch::Strategic(resources)).await?;
    let outcome = f.sync(vec![web.clone()]).await;
    assert_eq!((outcome.changed, outcome.unchanged, outcome.drift.len()), (0, 1, 0), "{outcome:?}");
    f.restart().await?;
    let outcome = f.sync(vec![web.clone()]).await;
    assert_eq!((outcome.changed, outcome.drift.len()), (0, 0), "{outcome:?}");
    // A new version of ours leaves theirs alone.
    web.value["spec"]["template"]["spec"]["containers"][0]["image"] = "example.org/web:2".into();
    assert_eq!(f.sync(vec![web]).await.changed, 1);
    let live = api.get("web").await?;
    let container = &live.data["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(live.data["spec"]["replicas"], 3);
    assert_eq!(container["resources"]["requests"]["cpu"], "10m");
    assert_eq!(container["image"], "example.org/web:2");
    Ok(())
}

/// A Service that is not ready before it has an address.
fn balancer(name: &str) -> Object {
    object(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "selector": {"app": name}, "ports": [{"port": 80}]},
    }))
}

impl Fixture {
    /// Lets the Pods of a Deployment that is stuck go on.
    async fn unstick(&self, name: &str) -> anyhow::Result<()> {
        let pods = self.api("v1", "Pod", "pods");
        let free = json!({"metadata": {"annotations": {
            "test.plural.sh/pod": null, "kubesim.plural.sh/ready-after": null}}});
        let found = async || {
            let list = pods.list(&ListParams::default().labels(&format!("app={name}"))).await;
            list.map(|list| list.items).ok().filter(|items| !items.is_empty())
        };
        for pod in eventually(PATIENCE, found).await {
            self.meddle(&pods, &pod.metadata.name.unwrap_or_default(), free.clone()).await?;
        }
        Ok(())
    }
}

#[test]
fn an_api_server_restarted_between_waves_loses_and_repeats_nothing() {
    run_case(async {
        let Some(server) = RealCluster::start_or_report().await? else { return Ok(()) };
        let client = server.client().await?;
        let maps: Api<DynamicObject> = Api::default_namespaced_with(
            client.clone(),
            &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap")),
        );
        let services: Api<DynamicObject> = Api::default_namespaced_with(
            client.clone(),
            &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Service")),
        );
        let mut options = options("plural");
        options.request_deadline = std::time::Duration::from_secs(2);
        let engine = Engine::start(client, options).await?;
        let shop = target("shop", "default");
        let wave = |object, wave: &str| annotated(object, json!({"argocd.argoproj.io/sync-wave": wave}));
        let hook = crate::waves::job("migrate", "well", json!({"argocd.argoproj.io/hook": "PreSync"}));
        let objects = [
            hook,
            wave(config_map("first", "1"), "1"),
            wave(balancer("gate"), "1"),
            wave(config_map("second", "1"), "2"),
        ];
        let sync = async || engine.sync(&shop, objects.to_vec()).await;
        let waits = async || {
            let outcome = sync().await;
            let on_gate = outcome.progress.waiting_for.iter().any(|(key, _)| key.name == "gate");
            if on_gate { Ok(()) } else { Err(format!("{:?} {:?}", outcome.progress, outcome.problems)) }
        };
        eventually(PATIENCE, waits).await;
        let before = (maps.get("first").await?.metadata.uid, maps.get_opt("second").await?);
        assert!(before.1.is_none());

        server.kill_apiserver()?;
        // What changes while it is away has to be written: that is told, and is no lasting failure.
        let mut changed = objects.to_vec();
        changed[1] = wave(config_map("first", "2"), "1");
        let away = async || {
            let outcome = engine.sync(&shop, changed.clone()).await;
            outcome.problems.iter().any(|problem| problem.message.contains("cannot reach"))
        };
        eventually(PATIENCE, away).await;
        server.restart_apiserver().await?;
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
        services.patch_status("gate", &PatchParams::default(), &Patch::Merge(status)).await?;
        let done = async || {
            let outcome = engine.sync(&shop, changed.clone()).await;
            let done = outcome.applied && outcome.progress.step == ProgressStep::Complete;
            if done { Ok(()) } else { Err(format!("{:?} {:?}", outcome.progress, outcome.problems)) }
        };
        eventually(PATIENCE * 2, done).await;
        let first = maps.get("first").await?;
        assert_eq!((first.metadata.uid, first.data["data"]["key"].as_str()), (before.0, Some("2")));
        assert_eq!(maps.get("second").await?.data["data"]["key"], "1");
        let jobs = server.audit()?;
        let runs = jobs.iter().filter(|event| {
            event
                .object_ref
                .as_ref()
                .is_some_and(|object| object.resource == "jobs" && object.name == "migrate")
                && event.verb == "patch"
                && event.response_status.as_ref().is_some_and(|status| status.code == 201)
        });
        assert_eq!(runs.count(), 1, "the hook ran once");
        anyhow::Ok(())
    });
}
