//! The ordinary life of a service: applied, left alone, changed, pruned, destroyed.

use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use plural_core::component::ComponentState;
use plural_sync::{HASH_ANNOTATION, MANAGED_BY_LABEL};
use plural_testkit::{TestCluster, each_cluster};
use serde_json::json;

use crate::fixture::{Fixture, config_map, deployment, object, secret, service, target};

each_cluster!(
    applied_once_and_then_left_alone,
    what_left_git_leaves_the_cluster,
    a_new_engine_repeats_nothing,
    foreign_changes_are_put_right,
    definitions_come_before_their_objects,
    a_kind_that_comes_later_is_used_soon,
    destroy_takes_all_and_only_ours,
    a_dry_run_writes_nothing,
    namespaces_are_created_and_enforced,
);

async fn applied_once_and_then_left_alone(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let objects = vec![config_map("a", "1"), deployment("web"), service("web-svc"), secret("s")];
    let first = f.sync(objects.clone()).await;
    assert!(first.applied && first.problems.is_empty(), "{first:?}");
    assert_eq!((first.changed, first.unchanged), (4, 0));

    let version = f.config_maps().get("a").await?.metadata.resource_version;
    let second = f.sync(objects.clone()).await;
    assert!(second.applied, "{second:?}");
    assert_eq!((second.changed, second.unchanged), (0, 4));
    assert_eq!(f.config_maps().get("a").await?.metadata.resource_version, version);

    f.until_running("web").await?;
    let live = f.config_maps().get("a").await?;
    assert_eq!(live.metadata.labels.unwrap()[MANAGED_BY_LABEL], "agent");
    let found = f.component("web").unwrap();
    assert!(found.synced && !found.uid.is_empty(), "{found:?}");

    let mut changed = objects;
    changed[0] = config_map("a", "2");
    let third = f.sync(changed).await;
    assert_eq!((third.changed, third.unchanged), (1, 3), "{third:?}");
    assert!(third.drift.is_empty());
    assert_eq!(f.config_maps().get("a").await?.data["data"]["key"], "2");
    Ok(())
}

async fn what_left_git_leaves_the_cluster(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    f.sync(vec![config_map("a", "1"), config_map("b", "1"), config_map("c", "1")]).await;
    assert_eq!(f.recorded().await?.unwrap(), ["a", "b", "c"]);
    let outcome = f.sync(vec![config_map("a", "1"), config_map("d", "1")]).await;
    assert!(outcome.applied, "{outcome:?}");
    assert_eq!((outcome.changed, outcome.unchanged, outcome.deleted), (1, 1, 2));
    assert_eq!(f.config_map_names().await?, ["a", "d"]);
    assert_eq!(f.recorded().await?.unwrap(), ["a", "d"]);
    Ok(())
}

async fn a_new_engine_repeats_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let objects = vec![config_map("a", "1"), deployment("web"), service("web-svc")];
    f.sync(objects.clone()).await;
    f.until_running("web").await?;
    f.restart().await?;
    let outcome = f.sync(objects.clone()).await;
    assert!(outcome.applied, "{outcome:?}");
    assert_eq!((outcome.changed, outcome.unchanged), (0, 3), "{outcome:?}");

    // And it prunes what the earlier one applied.
    f.restart().await?;
    let outcome = f.sync(objects[1..].to_vec()).await;
    assert_eq!(outcome.deleted, 1, "{outcome:?}");
    assert_eq!(f.config_map_names().await?, Vec::<String>::new());

    // A change made while no engine ran is found by the next.
    f.meddle(&f.api("v1", "Service", "services"), "web-svc", json!({"spec": {"selector": {"app": "evil"}}}))
        .await?;
    f.restart().await?;
    let outcome = f.sync(objects[1..].to_vec()).await;
    assert_eq!((outcome.changed, outcome.unchanged), (1, 1), "{outcome:?}");
    Ok(())
}

async fn foreign_changes_are_put_right(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let objects = vec![config_map("a", "1"), config_map("b", "1")];
    f.sync(objects.clone()).await;

    f.meddle(&f.config_maps(), "a", json!({"data": {"key": "evil"}})).await?;
    let outcome = f.settle(&objects, |outcome| outcome.changed > 0).await?;
    assert_eq!((outcome.changed, outcome.unchanged), (1, 1));
    assert_eq!(outcome.drift[0].manager.as_deref(), Some("somebody"));
    assert_eq!(f.config_maps().get("a").await?.data["data"]["key"], "1");

    f.config_maps().delete("b", &kube::api::DeleteParams::default()).await?;
    f.settle(&objects, |outcome| outcome.changed > 0).await?;
    assert_eq!(f.config_map_names().await?, ["a", "b"]);

    // Without our label it is drift, not a deletion.
    f.meddle(&f.config_maps(), "a", json!({"metadata": {"labels": {MANAGED_BY_LABEL: null}}})).await?;
    f.settle(&objects, |outcome| outcome.changed > 0).await?;
    assert!(f.config_maps().get("a").await?.metadata.labels.unwrap().contains_key(MANAGED_BY_LABEL));

    // A field that is not ours is nobody's business.
    f.meddle(&f.config_maps(), "a", json!({"data": {"other": "x"}})).await?;
    f.meddle(&f.config_maps(), "b", json!({"metadata": {"annotations": {HASH_ANNOTATION: "x"}}})).await?;
    let outcome = f.settle(&objects, |outcome| outcome.changed > 0).await?;
    assert_eq!((outcome.changed, outcome.unchanged), (1, 1));
    assert_eq!(f.config_maps().get("a").await?.data["data"]["other"], "x");
    Ok(())
}

async fn definitions_come_before_their_objects(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let group = format!("{}.example.org", f.namespace);
    let definition = object(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]},
    }));
    let widget = |size: i32| {
        object(json!({"apiVersion": format!("{group}/v1"), "kind": "Widget",
            "metadata": {"name": "w"}, "spec": {"size": size}}))
    };
    let outcome = f.sync(vec![widget(1), definition.clone()]).await;
    assert!(outcome.applied, "{outcome:?}");
    let widgets = f.api(&format!("{group}/v1"), "Widget", "widgets");
    assert_eq!(widgets.get("w").await?.data["spec"]["size"], 1);

    f.meddle(&widgets, "w", json!({"spec": {"size": 9}})).await?;
    let objects = vec![widget(1), definition.clone()];
    f.settle(&objects, |outcome| outcome.changed > 0).await?;
    assert_eq!(widgets.get("w").await?.data["spec"]["size"], 1);

    // Git loses the definition: nothing is deleted until a person says so.
    let outcome = f.sync(vec![widget(1)]).await;
    assert!(outcome.applied, "{outcome:?}");
    let problem = outcome.problems.iter().find(|problem| !problem.warning).expect("held");
    assert!(
        problem.message.contains("widgets.") && problem.message.contains("Nothing was deleted"),
        "{problem:?}"
    );
    assert_eq!(f.recorded().await?.unwrap().len(), 2);

    let mut outcome = f.engine.destroy(&f.target).await;
    while !outcome.destroyed {
        tokio::time::timeout(crate::fixture::PATIENCE, f.engine.changes()).await?;
        outcome = f.engine.destroy(&f.target).await;
    }
    assert!(widgets.get_opt("w").await.map_or(true, |found| found.is_none()));
    Ok(())
}

async fn a_kind_that_comes_later_is_used_soon(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let group = format!("{}.later.example.org", f.namespace);
    let definition = |versions: &[&str]| {
        let versions: Vec<_> = versions
            .iter()
            .map(|name| {
                json!({"name": name, "served": true, "storage": *name == "v1", "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
            })
            .collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("gadgets.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "versions": versions,
                "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}},
        })
    };
    let gadget = |version: &str| {
        object(json!({"apiVersion": format!("{group}/{version}"), "kind": "Gadget",
            "metadata": {"name": "g"}, "spec": {"made": version}}))
    };
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(f.client.clone(), &ApiResource::from_gvk(&kind));
    let somebody = PatchParams::apply("somebody").force();
    let name = format!("gadgets.{group}");

    let outcome = f.sync(vec![gadget("v1")]).await;
    assert!(!outcome.applied, "{outcome:?}");
    assert!(outcome.problems.iter().any(|problem| problem.message.contains("has no kind Gadget")));
    definitions.patch(&name, &somebody, &Patch::Apply(definition(&["v1"]))).await?;
    f.settle(&[gadget("v1")], |outcome| outcome.applied).await?;
    assert_eq!(f.api(&format!("{group}/v1"), "Gadget", "gadgets").get("g").await?.data["spec"]["made"], "v1");

    // And a version of a kind that is known.
    let outcome = f.sync(vec![gadget("v2")]).await;
    assert!(outcome.problems.iter().any(|problem| problem.message.contains("not as v2")), "{outcome:?}");
    definitions.patch(&name, &somebody, &Patch::Apply(definition(&["v1", "v2"]))).await?;
    f.settle(&[gadget("v2")], |outcome| outcome.applied).await?;
    assert_eq!(f.api(&format!("{group}/v2"), "Gadget", "gadgets").get("g").await?.data["spec"]["made"], "v2");
    definitions.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

async fn destroy_takes_all_and_only_ours(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    f.sync(vec![config_map("a", "1"), deployment("web")]).await;
    let mut outcome = f.engine.destroy(&f.target).await;
    while !outcome.destroyed {
        tokio::time::timeout(crate::fixture::PATIENCE, f.engine.changes()).await?;
        outcome = f.engine.destroy(&f.target).await;
    }
    assert_eq!(f.config_map_names().await?, Vec::<String>::new());
    assert!(f.api("apps/v1", "Deployment", "deployments").get_opt("web").await?.is_none());
    assert_eq!(f.recorded().await?, None);
    assert!(f.engine.services().is_empty());
    Ok(())
}

async fn a_dry_run_writes_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    f.target.dry_run = true;
    let outcome = f.sync(vec![config_map("a", "1"), config_map("b", "1")]).await;
    assert_eq!((outcome.applied, outcome.changed), (false, 2), "{outcome:?}");
    assert_eq!(f.config_map_names().await?, Vec::<String>::new());
    assert_eq!(f.recorded().await?, None);
    let found = f.component("a").unwrap();
    assert!(!found.synced && found.state == Some(ComponentState::Pending), "{found:?}");
    Ok(())
}

async fn namespaces_are_created_and_enforced(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let records = f.namespace.clone();
    f.target = target("shop", &format!("{records}-made"));
    f.target.config.namespace_metadata.labels.insert("team".to_owned(), "blue".to_owned());
    f.target.config.enforce_namespace = true;
    f.target.config.delete_namespace = true;
    let mut elsewhere = config_map("a", "1");
    elsewhere.value["metadata"]["namespace"] = "default".into();
    let outcome = f.sync(vec![elsewhere.clone()]).await;
    assert!(outcome.applied, "{outcome:?}");
    f.namespace.clone_from(&f.target.namespace);
    assert_eq!(f.config_map_names().await?, ["a"]);
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(f.client.clone());
    assert_eq!(namespaces.get(&f.namespace).await?.metadata.labels.unwrap()["team"], "blue");

    let role = object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("{records}-role")}, "rules": []}));
    let outcome = f.sync(vec![elsewhere, role]).await;
    assert!(!outcome.applied && outcome.problems[0].message.contains("enforceNamespace"), "{outcome:?}");

    let deleted = plural_testkit::eventually(crate::fixture::PATIENCE, async || {
        f.engine.destroy(&f.target).await.destroyed
    });
    deleted.await;
    assert!(namespaces.get_opt(&f.namespace).await?.is_none());
    Ok(())
}
