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

use crate::{
    sync::{Shell, service},
    world::{PATIENCE, World},
};

each_cluster!(a_canary_goes_on_when_a_person_says_so, a_canary_of_flagger_asks_at_a_gate);

/// A kind of others in the cluster.
async fn define(
    w: &World,
    group: &str,
    version: &str,
    (plural, singular, kind): (&str, &str, &str),
) -> anyhow::Result<Api<DynamicObject>> {
    let definition = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> =
        Api::all_with(w.client.clone(), &ApiResource::from_gvk(&definition));
    // Other tests may use it, too: nobody takes it away.
    let name = format!("{plural}.{group}");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let somebody = PatchParams::apply("somebody").force();
    definitions.patch(&name, &somebody, &Patch::Apply(definition)).await?;
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    let objects: Api<DynamicObject> = Api::namespaced_with(w.client.clone(), &w.namespace, &resource);
    eventually(PATIENCE, async || objects.list(&ListParams::default()).await.map(drop)).await;
    Ok(objects)
}

async fn a_canary_of_flagger_asks_at_a_gate(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    let canaries = define(&w, "flagger.app", "v1beta1", ("canaries", "canary", "Canary")).await?;
    let manifest = "apiVersion: flagger.app/v1beta1\nkind: Canary\nmetadata: {name: web}\nspec: {}\n";
    w.remote.push_files([("app/web.yaml", manifest)])?;
    let id = service(&w, &shell, &[]).await?;
    eventually(PATIENCE, async || canaries.get("web").await).await;
    let waits = json!({"status": {"phase": "WaitingPromotion"}});
    canaries.patch_status("web", &PatchParams::default(), &Patch::Merge(waits)).await?;
    eventually(PATIENCE, async || {
        let found = w.person.details(&id).await.map_err(|error| error.to_string())?;
        let waits = found.service.status == ServiceDeploymentStatus::Paused;
        if waits { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;

    // As Flagger asks, from wherever it runs.
    let gate = shell.does(&["services", "canary", "gate", "blue/app"]).await?;
    let gate = gate.trim();
    let http = reqwest::Client::new();
    let ask = async |gate: &str, hook: &str, checksum: &str| {
        let said = json!({"name": "web", "namespace": w.namespace, "phase": "WaitingPromotion", "checksum": checksum,
            "metadata": {"some": "data"}});
        let answer = http.post(format!("{gate}/{hook}")).json(&said).send().await?;
        anyhow::Ok(answer.status().as_u16())
    };
    assert_eq!(ask(gate, "confirm-promotion", "5b7d8c").await?, 403);
    assert_eq!(ask(gate, "rollback", "5b7d8c").await?, 403);
    shell.does(&["services", "canary", "proceed", "blue/app", "--wait"]).await?;
    assert_eq!(ask(gate, "confirm-promotion", "5b7d8c").await?, 200);
    assert_eq!(ask(gate, "rollback", "5b7d8c").await?, 403);
    let errors = w.person.details(&id).await?.errors;
    assert!(errors.is_empty(), "somebody was told: {errors:?}");
    assert_eq!(ask(gate, "confirm-promotion", "99aa00").await?, 403, "the next release");
    let words = ["services", "canary", "rollback", "blue/app", "--object", "canary/web", "--wait"];
    let nobody = shell.run(&words).await?;
    assert!(nobody.code == Some(1) && nobody.err.contains("can be rolled back"), "{nobody:?}");
    assert_eq!(ask(gate, "rollback", "99aa00").await?, 403, "it has not asked yet");
    shell.does(&["services", "canary", "rollback", "blue/app", "--wait"]).await?;
    assert_eq!(ask(gate, "rollback", "99aa00").await?, 200);
    // Nobody else, and nothing else.
    assert_eq!(ask(&gate[..gate.len() - 1], "confirm-promotion", "99aa00").await?, 404);
    assert_eq!(ask(gate, "anything", "99aa00").await?, 404);
    let odd = http.post(format!("{gate}/rollback")).body("odd").send().await?;
    assert_eq!(odd.status().as_u16(), 422);
    w.end().await
}

async fn a_canary_goes_on_when_a_person_says_so(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let rollouts = define(&w, "argoproj.io", "v1alpha1", ("rollouts", "rollout", "Rollout")).await?;
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
    assert!(left.iter().any(|problem| problem.contains("waiting for promotion")), "{left:?}");
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
