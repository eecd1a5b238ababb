//! Managed namespaces: made where they are missing, kept right, and never deleted by whoever did not make them.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use plural_core::managed_namespace::NamespaceContent;
use plural_render::Object;
use plural_testkit::{TestCluster, each_cluster, eventually};
use serde_json::json;

use crate::fixture::{Fixture, PATIENCE, config_map, object, target};

each_cluster!(
    one_that_is_missing_is_made_and_deleted_again,
    one_that_was_there_is_never_deleted,
    it_waits_until_other_services_have_left_it,
    a_service_waits_for_its_namespace,
    one_that_another_service_applies_is_not_deleted_with_a_service_in_it,
);

/// A managed namespace beside the fixture's own, with pull secrets.
fn managed(f: &mut Fixture) -> (String, Vec<Object>) {
    let name = format!("{}-team", f.namespace);
    f.target = target("team-namespace", &name);
    f.target.config.create_namespace = false;
    f.target.keeps_found_namespace = true;
    let content = NamespaceContent {
        labels: [("team".to_owned(), "a".to_owned())].into(),
        annotations: [("example.com/note".to_owned(), "ours".to_owned())].into(),
        pull_secrets: Some(vec!["registry".to_owned()]),
    };
    let objects = content.objects(&name).into_iter().map(object).collect();
    (name, objects)
}

fn namespaces(f: &Fixture) -> kube::Api<Namespace> {
    kube::Api::all(f.client.clone())
}

async fn destroyed(f: &Fixture) {
    let done = async || {
        let outcome = f.engine.destroy(&f.target).await;
        if outcome.destroyed { Ok(()) } else { Err(format!("{outcome:?}")) }
    };
    eventually(PATIENCE, done).await;
}

async fn one_that_is_missing_is_made_and_deleted_again(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let (name, objects) = managed(&mut f);
    let outcome = f.sync(objects.clone()).await;
    assert!(outcome.applied, "{outcome:?}");
    let made = namespaces(&f).get(&name).await?.metadata;
    assert_eq!(made.labels.unwrap()["team"], "a");
    assert_eq!(made.annotations.unwrap()["deployments.plural.sh/created-by"], f.target.id.to_string());
    let accounts: kube::Api<ServiceAccount> = kube::Api::namespaced(f.client.clone(), &name);
    let secrets = accounts.get("default").await?.image_pull_secrets.unwrap();
    assert_eq!(secrets[0].name, "registry");

    // Changed by somebody: put right. What is not ours stays.
    let somebody = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
    let change = json!({"metadata": {"labels": {"team": "b", "theirs": "too"}}});
    namespaces(&f).patch(&name, &somebody, &Patch::Merge(change)).await?;
    f.settle(&objects, |outcome| !outcome.drift.is_empty()).await?;
    let labels = namespaces(&f).get(&name).await?.metadata.labels.unwrap();
    assert_eq!((labels["team"].as_str(), labels["theirs"].as_str()), ("a", "too"));
    // Unchanged: nothing is written.
    let again = f.sync(objects.clone()).await;
    assert_eq!((again.applied, again.changed), (true, 0), "{again:?}");

    // An engine that knows nothing else than what the cluster tells finds it its own.
    f.restart().await?;
    f.sync(objects).await;
    destroyed(&f).await;
    let gone = async || namespaces(&f).get_opt(&name).await.unwrap().is_none();
    eventually(PATIENCE, gone).await;
    Ok(())
}

async fn one_that_was_there_is_never_deleted(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let (name, objects) = managed(&mut f);
    let theirs = Namespace {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    namespaces(&f).create(&PostParams::default(), &theirs).await?;
    let outcome = f.sync(objects).await;
    assert!(outcome.applied, "{outcome:?}");
    let found = namespaces(&f).get(&name).await?.metadata;
    assert_eq!(found.labels.unwrap()["team"], "a");
    assert!(!found.annotations.unwrap().contains_key("deployments.plural.sh/created-by"));
    destroyed(&f).await;
    let left = namespaces(&f).get(&name).await?.metadata;
    assert!(left.deletion_timestamp.is_none());
    assert!(!left.labels.unwrap().contains_key("plural.sh/managed-by"), "it is nobody's again");
    let accounts: kube::Api<ServiceAccount> = kube::Api::namespaced(f.client.clone(), &name);
    assert!(accounts.get_opt("default").await?.is_some());
    namespaces(&f).delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

async fn it_waits_until_other_services_have_left_it(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let (name, objects) = managed(&mut f);
    assert!(f.sync(objects).await.applied);
    let mut inside = target("team-core", &name);
    inside.config.create_namespace = false;
    assert!(f.engine.sync(&inside, vec![config_map("a", "1")]).await.applied);
    let outcome = f.engine.destroy(&f.target).await;
    assert!(!outcome.destroyed, "{outcome:?}");
    let why = outcome.problems.iter().any(|problem| problem.message.contains("other services in it"));
    assert!(why, "{outcome:?}");
    assert!(namespaces(&f).get(&name).await?.metadata.deletion_timestamp.is_none());
    eventually(PATIENCE, async || f.engine.destroy(&inside).await.destroyed).await;
    destroyed(&f).await;
    Ok(())
}

async fn a_service_waits_for_its_namespace(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let (name, objects) = managed(&mut f);
    let mut inside = target("team-core", &name);
    inside.config.create_namespace = false;
    let early = f.engine.sync(&inside, vec![config_map("a", "1")]).await;
    assert!(!early.applied, "{early:?}");
    assert_eq!(early.retry, plural_sync::Retry::Soon);
    assert!(f.sync(objects).await.applied);
    let later = f.engine.sync(&inside, vec![config_map("a", "1")]).await;
    assert!(later.applied, "{later:?}");
    eventually(PATIENCE, async || f.engine.destroy(&inside).await.destroyed).await;
    destroyed(&f).await;
    Ok(())
}

async fn one_that_another_service_applies_is_not_deleted_with_a_service_in_it(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let name = format!("{}-shared", f.namespace);
    let applied =
        object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name.as_str()}}));
    let outcome = f.sync(vec![applied]).await;
    assert!(outcome.applied, "{outcome:?}");
    let mut inside = target("team-core", &name);
    inside.config.create_namespace = false;
    inside.config.delete_namespace = true;
    assert!(f.engine.sync(&inside, vec![config_map("a", "1")]).await.applied);
    let done = async || {
        let outcome = f.engine.destroy(&inside).await;
        if outcome.destroyed { Ok(outcome) } else { Err(format!("{outcome:?}")) }
    };
    let outcome = eventually(PATIENCE, done).await;
    let told = outcome.problems.iter().any(|problem| problem.message.contains("belongs to another service"));
    assert!(told, "{outcome:?}");
    assert!(namespaces(&f).get(&name).await?.metadata.deletion_timestamp.is_none());
    destroyed(&f).await;
    Ok(())
}
