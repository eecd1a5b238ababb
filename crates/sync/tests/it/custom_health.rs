//! Rules that people wrote, as objects of the cluster.

use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use plural_core::component::ComponentState;
use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use crate::fixture::{Fixture, PATIENCE, object};

each_cluster!(a_rule_is_used_at_once, a_rule_is_known_before_the_first_object);

fn definition(group: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn api_of(f: &Fixture, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    Api::all_with(f.client.clone(), &resource)
}

fn rules(f: &Fixture) -> Api<DynamicObject> {
    api_of(f, "deployments.plural.sh", "v1alpha1", "CustomHealth", "customhealths")
}

async fn apply(api: &Api<DynamicObject>, object: &Value) -> anyhow::Result<()> {
    let name = object["metadata"]["name"].as_str().unwrap();
    api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await?;
    Ok(())
}

/// The kind is the cluster's, not the test's: whoever comes first makes it, and nobody takes it away.
async fn with_kind(f: &Fixture) -> anyhow::Result<()> {
    let definitions =
        api_of(f, "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
    apply(&definitions, &plural_crds::custom_health()).await?;
    let served = plural_testkit::eventually(PATIENCE, async || {
        let found = f.client.list_api_group_resources("deployments.plural.sh/v1alpha1").await;
        found.is_ok() && rules(f).list(&ListParams::default()).await.is_ok()
    });
    served.await;
    Ok(())
}

async fn rule(f: &Fixture, name: &str, group: &str, script: &str) -> anyhow::Result<()> {
    let rule = json!({"apiVersion": "deployments.plural.sh/v1alpha1", "kind": "CustomHealth",
        "metadata": {"name": name}, "spec": {"group": group, "version": "v1", "kind": "Widget", "script": script}});
    apply(&rules(f), &rule).await
}

async fn until(f: &Fixture, state: Option<ComponentState>, words: &str) -> anyhow::Result<()> {
    let wait = async {
        while !f.component("w").is_some_and(|found| found.state == state && found.message.contains(words)) {
            f.engine.changes().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .map_err(|_| anyhow::anyhow!("not {state:?} with {words:?}: {:?}", f.component("w")))
}

async fn a_rule_is_used_at_once(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let group = format!("{}.example.org", f.namespace);
    with_kind(&f).await?;
    f.restart().await?;
    let widget =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}, "size": 1});
    let outcome = f.sync(vec![object(definition(&group)), object(widget)]).await;
    assert!(outcome.applied, "{outcome:?}");
    until(&f, Some(ComponentState::Running), "").await?;

    let name = format!("{}-size", f.namespace);
    let script = "healthStatus = {status = 'Degraded', message = 'size ' .. Obj.size}";
    rule(&f, &name, &group, script).await?;
    until(&f, Some(ComponentState::Failed), "size 1").await?;

    // Scripts see what changes, and the objects of others are as they were.
    let widgets = f.api(&format!("{group}/v1"), "Widget", "widgets");
    f.meddle(&widgets, "w", json!({"status": {"size": "big"}})).await?;
    rule(&f, &name, &group, "return {status = 'Suspended', message = obj.status.size}").await?;
    until(&f, Some(ComponentState::Paused), "big").await?;

    // A script that breaks makes its own objects unknown, and says why.
    rule(&f, &name, &group, "return {status = obj.no.such.field}").await?;
    until(&f, None, "health.lua:1").await?;
    rule(&f, &name, &group, "while true do end").await?;
    until(&f, None, "used more than").await?;
    let definition = f.component(&format!("widgets.{group}")).unwrap();
    assert_eq!(definition.state, Some(ComponentState::Running), "{definition:?}");

    rules(&f).delete(&name, &DeleteParams::default()).await?;
    until(&f, Some(ComponentState::Running), "").await
}

async fn a_rule_is_known_before_the_first_object(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let group = format!("{}.example.org", f.namespace);
    with_kind(&f).await?;
    let name = format!("{}-first", f.namespace);
    rule(&f, &name, &group, "return {status = 'Degraded', message = 'by rule'}").await?;
    let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}});
    let objects = vec![object(definition(&group)), object(widget)];
    f.restart().await?;
    f.sync(objects.clone()).await;
    until(&f, Some(ComponentState::Failed), "by rule").await?;
    // An agent that starts anew never says that it runs.
    f.restart().await?;
    f.sync(objects).await;
    let found = f.component("w").unwrap();
    assert_eq!((found.state, found.message.as_str()), (Some(ComponentState::Failed), "by rule"));
    rules(&f).delete(&name, &DeleteParams::default()).await?;
    Ok(())
}
