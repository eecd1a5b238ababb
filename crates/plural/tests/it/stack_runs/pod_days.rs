//! Bad days of Pods: somebody deletes one, a node is drained, or loses its power. A run ends in words that are true, and nothing is applied
//! twice.
//!
//! Most are on a real control plane, whose Job controller and Pods' finalizers decide what is left.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams, ListParams},
};
use plural_testkit::{TestDatabase, eventually, one_database, program_or_report};
use serde_json::{Value, json};

use super::{
    days::{HOLD, holding, lock, resource},
    place::harnesses,
    world::{PATIENCE, World},
};

one_database!(
    sqlite,
    "what the database has to do with it is the state of runs, which killed harnesses have on both";
    a_plan_whose_pod_is_deleted_on_a_simulated_cluster_is_made_anew,
    a_plan_whose_node_is_drained_is_made_anew,
    a_plan_whose_pod_is_gone_at_once_is_made_anew,
    an_apply_whose_pod_is_deleted_is_not_begun_again,
    the_lock_of_an_apply_whose_pod_is_gone_at_once_is_released,
    a_node_without_power_holds_the_lock_until_its_pod_is_given_up
);

/// Pods of the namespace of runs, and the names of those of this run.
async fn pods(world: &World, run: &str) -> anyhow::Result<(Api<Pod>, Vec<String>)> {
    let pods: Api<Pod> = Api::namespaced(world.place.client().await?, "plural-runs");
    let of_run = ListParams::default().labels(&format!("deployments.plural.sh/run={run}"));
    let names = pods.list(&of_run).await?.iter().map(ResourceExt::name_any).collect();
    Ok((pods, names))
}

/// Deletes the Pods of a run.
async fn delete(world: &World, run: &str, how: &DeleteParams) -> anyhow::Result<()> {
    let (pods, names) = pods(world, run).await?;
    anyhow::ensure!(!names.is_empty(), "the run has no Pod");
    for name in names {
        pods.delete(&name, how).await?;
    }
    Ok(())
}

/// Waits until none of these processes is a harness of this run.
async fn until_ended(run: &str, earlier: &[u32]) {
    eventually(PATIENCE, async || !harnesses(run).iter().any(|pid| earlier.contains(pid))).await;
}

/// A Pod that plans goes. Another Job plans, and nobody has to do anything.
async fn plans_anew(
    world: World,
    goes: impl AsyncFn(&World, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let stack = holding(&world, "PLAN", json!({})).await?;
    let run = world.begun(&stack).await;
    world.prints(&run, "PLAN", "it holds").await;
    let (_, first) = pods(&world, &run).await?;
    let earlier = harnesses(&run);
    goes(&world, &run).await?;
    until_ended(&run, &earlier).await;
    world.release(&run).await?;
    let waits = world.until(&json!({"id": run}), "PENDING_APPROVAL").await;
    let job = waits["job"]["name"].as_str().unwrap_or_default();
    assert!(
        !job.is_empty() && first.iter().all(|pod| !pod.starts_with(&format!("{job}-"))),
        "another Job planned than that of {first:?}: {}",
        world.told(&waits)
    );
    world.approve(&waits).await?;
    let done = world.until(&waits, "SUCCESSFUL").await;
    assert_eq!(World::printed(&done).matches("APPLY").count(), 1, "{}", world.told(&done));
    world.end();
    Ok(())
}

async fn a_plan_whose_pod_is_deleted_on_a_simulated_cluster_is_made_anew(
    database: TestDatabase,
) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    plans_anew(world, async |world, run| delete(world, run, &DeleteParams::default()).await).await
}

/// As `kubectl drain` does it: the harness is told to end.
async fn a_plan_whose_node_is_drained_is_made_anew(database: TestDatabase) -> anyhow::Result<()> {
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    plans_anew(world, async |world, run| {
        let (pods, names) = pods(world, run).await?;
        anyhow::ensure!(!names.is_empty(), "the run has no Pod");
        for name in names {
            pods.evict(&name, &EvictParams::default()).await?;
        }
        Ok(())
    })
    .await
}

/// Without a grace the harness says nothing.
async fn a_plan_whose_pod_is_gone_at_once_is_made_anew(database: TestDatabase) -> anyhow::Result<()> {
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    plans_anew(world, async |world, run| delete(world, run, &DeleteParams::default().grace_period(0)).await)
        .await
}

async fn an_apply_whose_pod_is_deleted_is_not_begun_again(database: TestDatabase) -> anyhow::Result<()> {
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    let stack = holding(&world, "APPLY", json!({})).await?;
    let waits = world.planned(&stack, None).await;
    let run = waits["id"].as_str().unwrap_or_default().to_owned();
    world.approve(&waits).await?;
    let held = world.prints(&run, "APPLY", "it holds").await;
    let earlier = harnesses(&run);
    delete(&world, &run, &DeleteParams::default()).await?;
    let failed = world.fails(&waits, &["its Pod was deleted", "may have changed"]).await;
    assert_eq!(held["job"], failed["job"], "it was not begun again: {}", world.told(&failed));
    assert!(!World::printed(&failed).contains("it was told"), "{}", world.told(&failed));
    until_ended(&run, &earlier).await;

    // The stack is free: the next run does what is left.
    let waits = world.plan(&stack).await?;
    world.approve(&waits).await?;
    world.release(waits["id"].as_str().unwrap_or_default()).await?;
    world.until(&waits, "SUCCESSFUL").await;
    world.end();
    Ok(())
}

/// A stack of OpenTofu whose resource waits for its FIFO while it is made: its id, and the run that holds its state.
async fn applying(world: &World) -> anyhow::Result<(String, Value)> {
    world.remote.push_files([("infra/main.tf", resource("hold.sh")), ("infra/hold.sh", HOLD.to_owned())])?;
    let stack = world.stack("TERRAFORM", "infra", json!({"manageState": true})).await?;
    let waits = world.planned(&stack, None).await;
    world.approve(&waits).await?;
    world.prints(waits["id"].as_str().unwrap_or_default(), "APPLY", "it holds").await;
    assert_ne!(world.known(&stack).await?["lock"], Value::Null, "who applies holds the state");
    Ok((stack, waits))
}

/// Waits until somebody else gets the lock of a stack's state.
async fn is_free(world: &World, stack: &str) {
    eventually(PATIENCE, async || match lock(world, stack, "LOCK").await {
        Ok(200) => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("{error:#}")),
    })
    .await;
}

async fn the_lock_of_an_apply_whose_pod_is_gone_at_once_is_released(
    database: TestDatabase,
) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    let (stack, run) = applying(&world).await?;
    let id = run["id"].as_str().unwrap_or_default();
    let earlier = harnesses(id);
    delete(&world, id, &DeleteParams::default().grace_period(0)).await?;
    world.fails(&run, &["may have changed"]).await;
    until_ended(id, &earlier).await;
    is_free(&world, &stack).await;
    world.end();
    Ok(())
}

async fn a_node_without_power_holds_the_lock_until_its_pod_is_given_up(
    database: TestDatabase,
) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let Some(mut world) = World::real(&database).await? else { return Ok(()) };
    let (stack, run) = applying(&world).await?;
    let id = run["id"].as_str().unwrap_or_default();
    world.place.lose_power().await;
    world.fails(&run, &["sent no heartbeat", "may have changed"]).await;
    // A node that cannot be reached may be at work all the same.
    let known = world.known(&stack).await?;
    assert_ne!(known["lock"], Value::Null, "{known}");

    // Somebody who knows that it is not says so in the way of Kubernetes.
    let gone = DeleteParams::default().grace_period(0);
    eventually(PATIENCE, async || {
        let (pods, names) = pods(&world, id).await.map_err(|error| format!("{error:#}"))?;
        for name in &names {
            // It may have gone meanwhile.
            let _ = pods.delete(name, &gone).await;
        }
        if names.is_empty() { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    is_free(&world, &stack).await;
    world.end();
    Ok(())
}
