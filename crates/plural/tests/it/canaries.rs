//! A canary that waits, from Argo's status in the cluster to a person's word and back.

use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use plural_testkit::{TestCluster, each_cluster, eventually};
use plural_wire::{
    PromoteService, ServiceDeploymentStatus, ServicePromotion, SyncService, SyncServiceAttributes,
};
use serde_json::json;

use crate::world::{PATIENCE, World};

each_cluster!(a_canary_goes_on_when_a_person_says_so);

async fn rollouts(w: &World) -> anyhow::Result<Api<DynamicObject>> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(w.client.clone(), &ApiResource::from_gvk(&kind));
    // Other tests may use it, too: nobody takes it away.
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "rollouts.argoproj.io"},
        "spec": {"group": "argoproj.io", "scope": "Namespaced",
            "names": {"plural": "rollouts", "singular": "rollout", "kind": "Rollout", "listKind": "RolloutList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let somebody = PatchParams::apply("somebody").force();
    definitions.patch("rollouts.argoproj.io", &somebody, &Patch::Apply(definition)).await?;
    let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Rollout");
    let resource = ApiResource::from_gvk_with_plural(&kind, "rollouts");
    let rollouts: Api<DynamicObject> = Api::namespaced_with(w.client.clone(), &w.namespace, &resource);
    eventually(PATIENCE, async || rollouts.list(&ListParams::default()).await.map(drop)).await;
    Ok(rollouts)
}

async fn a_canary_goes_on_when_a_person_says_so(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let rollouts = rollouts(&w).await?;
    let manifest =
        "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: web}\nspec: {replicas: 1}\n";
    w.remote.push_files([("web/web.yaml", manifest)])?;
    let web = w.service("web").await?;
    eventually(PATIENCE, async || rollouts.get("web").await).await;
    let pause = json!({"reason": "CanaryPauseStep", "startTime": "2026-11-22T01:00:00Z"});
    let waits = json!({"status": {"phase": "Paused", "currentStepIndex": 1, "pauseConditions": [pause]}});
    rollouts.patch_status("web", &PatchParams::default(), &Patch::Merge(waits)).await?;
    let until = async |status| {
        eventually(PATIENCE, async || {
            let found = w.person.details(&web).await.map_err(|error| error.to_string())?;
            if found.service.status == status { Ok(found) } else { Err(format!("{found:?}")) }
        })
        .await
    };
    until(ServiceDeploymentStatus::Paused).await;

    let say = async |promotion| {
        let asked = PromoteService { id: web.clone(), promotion, objects: Vec::new() };
        let request = w.person.client.send(&asked).await?.request_id;
        let problems = eventually(PATIENCE, async || {
            let found = w.person.details(&web).await.map_err(|error| error.to_string())?;
            let done = found.service.sync.as_ref().and_then(|sync| sync.promoted.clone());
            done.filter(|done| done.id == request).map(|done| done.problems).ok_or(format!("{found:?}"))
        })
        .await;
        anyhow::Ok(problems)
    };
    assert!(say(ServicePromotion::Proceed).await?.is_empty());
    assert!(rollouts.get("web").await?.data["status"]["pauseConditions"].is_null());
    let done = json!({"status": {"phase": "Healthy"}});
    rollouts.patch_status("web", &PatchParams::default(), &Patch::Merge(done)).await?;
    until(ServiceDeploymentStatus::Healthy).await;

    let moves = json!({"status": {"phase": "Progressing"}});
    rollouts.patch_status("web", &PatchParams::default(), &Patch::Merge(moves)).await?;
    // It goes back also while what git says now cannot be rendered; and a sync that is asked for stays asked for.
    w.remote.push_files([("web/web.yaml", "kind: [")])?;
    let sync = SyncService { id: web.clone(), attributes: SyncServiceAttributes::default() };
    let sync = w.person.client.send(&sync).await?.request_id;
    assert!(say(ServicePromotion::Rollback).await?.is_empty());
    assert_eq!(rollouts.get("web").await?.data["status"]["abort"], true);
    let left = say(ServicePromotion::Proceed).await?;
    assert!(left.iter().any(|problem| problem.contains("waits to be promoted")), "{left:?}");
    w.remote.push_files([("web/web.yaml", manifest)])?;
    eventually(PATIENCE, async || {
        let found = w.person.details(&web).await.map_err(|error| error.to_string())?;
        let done = found.service.sync.as_ref().and_then(|known| known.request_done.clone());
        if done.as_ref() == Some(&sync) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    // It stays aborted until git says something else, and the service says so.
    until(ServiceDeploymentStatus::Failed).await;
    w.end().await
}
