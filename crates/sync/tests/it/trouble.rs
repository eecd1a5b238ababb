//! Bad input and bad days.

use plural_sync::{Part, Retry};
use plural_testkit::{TestCluster, each_cluster};
use serde_json::json;

use crate::fixture::{Fixture, config_map, deployment, object, target};

each_cluster!(
    an_unknown_kind_is_named_and_the_rest_goes_on,
    two_services_never_share_an_object,
    nothing_rendered_deletes_nothing,
    a_finalizer_that_never_ends_is_told,
    a_refused_object_is_told_with_its_place,
    a_fight_is_told_and_not_fought_for_ever,
    a_failed_apply_prunes_nothing,
    an_unreachable_server_is_a_reason_to_retry,
);

async fn an_unknown_kind_is_named_and_the_rest_goes_on(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let strange =
        object(json!({"apiVersion": "nowhere.example.org/v1", "kind": "Gizmo", "metadata": {"name": "g"}}));
    let old = object(json!({"apiVersion": "apps/v1beta9", "kind": "Deployment", "metadata": {"name": "g"}}));
    let outcome = f.sync(vec![strange, config_map("a", "1"), old]).await;
    assert!(!outcome.applied);
    assert_eq!(outcome.changed, 1);
    let [first, second] = &outcome.problems[..] else { panic!("{outcome:?}") };
    assert!(first.message.contains("no kind Gizmo in group nowhere.example.org"), "{first:?}");
    assert_eq!(first.location, "app/objects.yaml:1");
    assert!(second.message.contains("serves Deployment.apps as v1, not as v1beta9"), "{second:?}");
    assert_eq!(f.config_map_names().await?, ["a"]);
    Ok(())
}

async fn two_services_never_share_an_object(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let other = target("rival", &f.namespace);
    f.sync(vec![config_map("a", "mine"), config_map("b", "mine")]).await;
    let outcome = f.engine.sync(&other, vec![config_map("a", "theirs"), config_map("c", "theirs")]).await;
    assert!(!outcome.applied);
    let problem = &outcome.problems[0];
    assert!(
        problem.message.contains("belongs to service shop")
            && problem.message.contains(&f.target.id.to_string()),
        "{problem:?}"
    );
    assert_eq!(f.config_maps().get("a").await?.data["data"]["key"], "mine");
    assert_eq!(f.config_map_names().await?, ["a", "b", "c"]);

    // A new engine knows the owner from the records.
    let mut f = f;
    f.restart().await?;
    let outcome = f.engine.sync(&other, vec![config_map("a", "theirs"), config_map("c", "theirs")]).await;
    assert!(outcome.problems[0].message.contains("belongs to service shop"), "{outcome:?}");

    // Once the owner lets go, the other is told and takes it.
    let outcome = f.sync(vec![config_map("b", "mine")]).await;
    assert!(outcome.applied && outcome.deleted == 1, "{outcome:?}");
    let told =
        async { while !f.engine.changes().await.get(&other.id).is_some_and(|change| change.resync) {} };
    tokio::time::timeout(crate::fixture::PATIENCE, told).await?;
    let outcome = f.engine.sync(&other, vec![config_map("a", "theirs"), config_map("c", "theirs")]).await;
    assert!(outcome.applied, "{outcome:?}");
    assert_eq!(f.config_maps().get("a").await?.data["data"]["key"], "theirs");
    Ok(())
}

async fn nothing_rendered_deletes_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    f.sync(vec![config_map("a", "1"), config_map("b", "1")]).await;
    let outcome = f.sync(Vec::new()).await;
    let problem = outcome.problems.iter().find(|problem| !problem.warning).expect("held");
    assert_eq!(problem.part, Part::Prune);
    assert!(
        problem.message.contains("renders to nothing") && problem.message.contains("Nothing was deleted"),
        "{problem:?}"
    );
    assert_eq!(f.config_map_names().await?, ["a", "b"]);
    assert_eq!(f.recorded().await?.unwrap(), ["a", "b"]);
    // Put back, all is well without a write.
    let outcome = f.sync(vec![config_map("a", "1"), config_map("b", "1")]).await;
    assert!(outcome.applied && outcome.unchanged == 2 && outcome.problems.is_empty(), "{outcome:?}");
    Ok(())
}

async fn a_finalizer_that_never_ends_is_told(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let mut held = config_map("held", "1");
    held.value["metadata"]["finalizers"] = json!(["example.org/never"]);
    f.sync(vec![held, config_map("a", "1")]).await;
    let rest = vec![config_map("a", "1")];
    let outcome = f.sync(rest.clone()).await;
    assert!(outcome.applied && outcome.leaving == 1, "{outcome:?}");
    let warning = &outcome.problems[0];
    assert!(warning.warning && warning.message.contains("example.org/never"), "{warning:?}");
    assert_eq!(f.recorded().await?.unwrap(), ["a", "held"]);

    // A new engine goes on where the old one was; when the finalizer is done, so is the record.
    let mut f = f;
    f.restart().await?;
    assert_eq!(f.sync(rest.clone()).await.leaving, 1);
    f.meddle(&f.config_maps(), "held", json!({"metadata": {"finalizers": null}})).await?;
    f.settle(&rest, |outcome| outcome.leaving == 0).await?;
    assert_eq!(f.recorded().await?.unwrap(), ["a"]);
    Ok(())
}

async fn a_refused_object_is_told_with_its_place(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let secret = object(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "Bad_Name!"},
        "stringData": {"password": "hunter2"}}));
    let mut lost = config_map("lost", "1");
    lost.value["metadata"]["namespace"] = format!("{}-missing", f.namespace).into();
    let outcome = f.sync(vec![secret, lost, config_map("a", "1")]).await;
    assert!(!outcome.applied && outcome.changed == 1, "{outcome:?}");
    let words: Vec<String> = outcome.problems.iter().map(|problem| problem.message.clone()).collect();
    let all = words.join("\n");
    assert!(all.contains("Bad_Name!") && all.contains("metadata.name"), "{all}");
    assert!(!all.contains("hunter2"), "{all}");
    assert!(all.contains("Create the namespace in git"), "{all}");
    assert!(outcome.problems.iter().all(|problem| problem.location == "app/objects.yaml:1"));
    Ok(())
}

async fn a_fight_is_told_and_not_fought_for_ever(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let objects = vec![config_map("a", "1")];
    f.sync(objects.clone()).await;
    for round in 0..5 {
        f.meddle(&f.config_maps(), "a", json!({"data": {"key": format!("evil {round}")}})).await?;
        f.settle(&objects, |outcome| outcome.changed == 1).await?;
    }
    f.meddle(&f.config_maps(), "a", json!({"data": {"key": "once more"}})).await?;
    let outcome = f.settle(&objects, |outcome| !outcome.problems.is_empty()).await?;
    assert_eq!(outcome.changed, 0);
    assert!(outcome.problems[0].message.contains("somebody keeps changing"), "{outcome:?}");
    assert!(matches!(outcome.retry, Retry::After(_)), "{outcome:?}");
    assert!(!f.component("a").unwrap().synced);
    Ok(())
}

async fn a_failed_apply_prunes_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    f.sync(vec![config_map("a", "1"), deployment("web")]).await;
    let mut broken = deployment("web");
    broken.value["spec"]["selector"]["matchLabels"]["app"] = "other".into();
    let outcome = f.sync(vec![broken]).await;
    assert!(!outcome.applied && outcome.leaving == 1, "{outcome:?}");
    assert!(outcome.problems[0].message.contains("web"), "{outcome:?}");
    assert_eq!(f.config_map_names().await?, ["a"]);
    Ok(())
}

async fn an_unreachable_server_is_a_reason_to_retry(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let host = f.cluster.client().await?;
    drop(host);
    let nowhere = kube::Client::try_from(kube::Config::new("http://127.0.0.1:9".parse()?))?;
    let error = plural_sync::Engine::start(nowhere, crate::fixture::options("x")).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("cannot reach"), "{error}");
    Ok(())
}
