//! What a sync must not do: delete too much, write what it may not, fight, undo others' work.

use plural_core::project_limits::ProjectLimits;
use plural_core::specs::DiffNormalizer;
use plural_render::Object;
use plural_sync::{APPROVED_PRUNE_ANNOTATION, DriftKind, Limits, ObjectKey, Part, ProgressStep, Request};
use plural_testkit::{TestCluster, each_cluster};
use serde_json::json;

use crate::{
    fixture::{Fixture, config_map, deployment, object, service, target},
    waves::{annotated, job},
};

each_cluster!(
    a_large_deletion_waits_for_approval,
    an_unasked_destruction_waits_for_approval,
    limits_hold_for_every_object,
    a_service_account_bounds_what_is_done,
    what_says_that_it_stays_stays,
    a_detached_object_is_nobodys,
    replace_and_force_do_what_they_say,
    fields_that_others_applied_go_with_git,
    ignored_fields_are_nobodys_fight,
    changes_are_told_with_who_made_them,
    what_we_pruned_is_no_drift_when_it_is_wanted_again,
    without_self_heal_changes_are_told_and_left,
    a_manual_service_waits_for_a_person,
    a_paused_service_is_left_alone,
    things_go_in_reverse_waves,
);

fn maps(count: usize) -> Vec<Object> {
    (0..count).map(|number| config_map(&format!("m{number:02}"), "1")).collect()
}

fn key(text: &str, namespace: &str) -> ObjectKey {
    text.replace("NS", namespace).parse().unwrap()
}

async fn a_large_deletion_waits_for_approval(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let objects = maps(30);
    f.sync(objects.clone()).await;
    let outcome = f.sync(objects[..18].to_vec()).await;
    assert!(outcome.applied, "{outcome:?}");
    let pending = outcome.pending.expect("it waits");
    assert_eq!(pending.objects.len(), 12);
    assert!(pending.reason.contains("12 of the 30"), "{pending:?}");
    assert_eq!(f.config_map_names().await?.len(), 30);

    // Another set is not what was approved.
    f.target.approved_prune = Some(pending.digest.clone());
    let other = f.sync(objects[..17].to_vec()).await;
    let other = other.pending.expect("another set waits");
    assert_ne!(other.digest, pending.digest);
    let outcome = f.sync(objects[..18].to_vec()).await;
    assert_eq!((outcome.deleted, outcome.pending), (12, None));
    assert_eq!(f.config_map_names().await?.len(), 18);

    // Without a console, the annotation says the same.
    f.target.approved_prune = None;
    let pending = f.sync(objects[..7].to_vec()).await.pending.expect("it waits");
    let record = format!("plural-inventory-{}", f.target.id);
    let annotation = json!({"metadata": {"annotations": {APPROVED_PRUNE_ANNOTATION: pending.digest}}});
    f.meddle(&f.records(), &record, annotation).await?;
    f.restart().await?;
    let outcome = f.sync(objects[..7].to_vec()).await;
    assert_eq!((outcome.deleted, outcome.pending), (11, None));
    Ok(())
}

async fn an_unasked_destruction_waits_for_approval(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    f.sync(maps(3)).await;
    f.target.destroy_needs_approval = true;
    let outcome = f.engine.destroy(&f.target).await;
    let pending = outcome.pending.expect("it waits");
    assert!(!outcome.destroyed && pending.objects.len() == 3, "{pending:?}");
    assert_eq!(f.config_map_names().await?.len(), 3);
    f.target.approved_prune = Some(pending.digest);
    let outcome = f.engine.destroy(&f.target).await;
    assert!(outcome.destroyed, "{outcome:?}");
    assert_eq!(f.config_map_names().await?, Vec::<String>::new());
    Ok(())
}

async fn limits_hold_for_every_object(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    f.target.limits = Some(Limits {
        project: "blue".to_owned(),
        rules: ProjectLimits {
            namespaces: vec![f.namespace.clone()],
            denied_kinds: vec!["batch/*".to_owned()],
            ..ProjectLimits::default()
        },
        ..Limits::default()
    });
    let mut elsewhere = config_map("elsewhere", "1");
    elsewhere.value["metadata"]["namespace"] = "kube-system".into();
    let mut generated = job("x", "well", json!({"argocd.argoproj.io/hook": "PreSync"}));
    generated.value["metadata"]["name"] = serde_json::Value::Null;
    generated.value["metadata"]["generateName"] = "run-".into();
    let role = object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("{}-role", f.namespace)}, "rules": []}));
    let hook = job("hook", "well", json!({"helm.sh/hook": "post-install"}));
    let outcome = f.sync(vec![elsewhere, generated, role, hook, config_map("a", "1")]).await;
    assert!(!outcome.applied);
    let refused: Vec<&str> =
        outcome.problems.iter().filter(|p| p.part == Part::Limits).map(|p| p.message.as_str()).collect();
    assert_eq!(refused.len(), 4, "{outcome:?}");
    assert!(refused.iter().all(|message| message.contains("project blue")), "{refused:?}");
    assert_eq!(f.config_map_names().await?, ["a"]);
    assert_eq!(f.cluster.writes(&f.namespace)?.iter().filter(|w| w.resource == "jobs").count(), 0);

    f.target.limits = Some(Limits {
        rules: ProjectLimits {
            repositories: vec!["https://git.example.org/blue/*".to_owned()],
            ..ProjectLimits::default()
        },
        repository_url: "https://git.example.org/red".to_owned(),
        ..Limits::default()
    });
    let outcome = f.sync(vec![config_map("b", "1")]).await;
    assert!(outcome.problems[0].message.contains("may not be read from"), "{outcome:?}");
    assert_eq!(f.config_map_names().await?, ["a"]);
    Ok(())
}

async fn a_service_account_bounds_what_is_done(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    f.target.config.create_namespace = false;
    f.target.config.service_account = Some("deployer".to_owned());
    let refused = f.sync(vec![config_map("a", "1")]).await;
    let user = format!("system:serviceaccount:{}:deployer", f.namespace);
    assert!(refused.problems[0].message.contains(&user), "{refused:?}");
    let planned = f.engine.plan(&f.target, vec![config_map("a", "1")]).await.plan.unwrap();
    assert!(planned.objects[0].why.contains(&user), "a dry run is made with the same rights: {planned:?}");

    let role = object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "deployer"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]}]}));
    let binding = object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": f.namespace}]}));
    let rights = target("rights", &f.namespace);
    assert!(f.engine.sync(&rights, vec![role, binding]).await.applied);
    let objects = [config_map("a", "1"), config_map("b", "1")];
    // Rights take a moment to be known to the API server.
    let outcome = f.sync_until(&objects, |outcome| outcome.applied).await?;
    assert!(outcome.problems.is_empty(), "{outcome:?}");
    // It may not delete, so nothing is pruned.
    let outcome = f.sync(objects[..1].to_vec()).await;
    let problem = outcome.problems.iter().find(|problem| !problem.warning).expect("refused");
    assert!(problem.part == Part::Prune && problem.message.contains(&user), "{problem:?}");
    assert_eq!(f.config_map_names().await?, ["a", "b"]);
    let writes = f.cluster.writes(&f.namespace)?;
    let made = writes.iter().find(|w| w.name == "a" && w.code == 201).unwrap();
    assert!(made.user.contains("deployer") || f.cluster.as_kubesim().is_none(), "{made:?}");
    Ok(())
}

async fn what_says_that_it_stays_stays(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let keep = annotated(config_map("keep", "1"), json!({"helm.sh/resource-policy": "keep"}));
    let unpruned =
        annotated(config_map("unpruned", "1"), json!({"argocd.argoproj.io/sync-options": "Prune=false"}));
    f.sync(vec![keep, unpruned, config_map("a", "1"), config_map("b", "1")]).await;
    for _ in 0..2 {
        let outcome = f.sync(vec![config_map("a", "1"), config_map("b", "1")]).await;
        assert!(outcome.applied && outcome.deleted == 0 && outcome.problems.is_empty(), "{outcome:?}");
        assert_eq!(f.config_map_names().await?, ["a", "b", "keep", "unpruned"]);
        f.restart().await?;
    }
    // With the service, only what may be deleted goes.
    let outcome = f.engine.destroy(&f.target).await;
    assert!(outcome.destroyed, "{outcome:?}");
    assert_eq!(f.config_map_names().await?, ["keep"]);
    let kept = f.config_maps().get("keep").await?;
    assert_eq!(kept.metadata.labels, None, "it is nobody's");
    Ok(())
}

async fn a_detached_object_is_nobodys(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let detach =
        annotated(config_map("free", "1"), json!({"deployment.plural.sh/sync-options": "Detach=true"}));
    f.sync(vec![detach, config_map("a", "1")]).await;
    let outcome = f.sync(vec![config_map("a", "1")]).await;
    assert!(outcome.applied && outcome.deleted == 1, "{outcome:?}");
    assert_eq!(f.config_map_names().await?, ["a", "free"]);
    assert_eq!(f.recorded().await?.unwrap(), ["a"]);
    let other = target("other", &f.namespace);
    assert!(f.engine.sync(&other, vec![config_map("free", "2")]).await.applied);
    Ok(())
}

async fn replace_and_force_do_what_they_say(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let replaced = |value: &str| {
        annotated(config_map("r", value), json!({"argocd.argoproj.io/sync-options": "Replace=true"}))
    };
    f.sync(vec![replaced("1")]).await;
    f.meddle(&f.config_maps(), "r", json!({"data": {"foreign": "x"}})).await?;
    let outcome = f.sync(vec![replaced("2")]).await;
    assert!(outcome.applied, "{outcome:?}");
    assert_eq!(f.config_maps().get("r").await?.data["data"], json!({"key": "2"}));
    assert_eq!(f.sync(vec![replaced("2")]).await.unchanged, 1);

    let forced = |app: &str| {
        let mut found =
            annotated(deployment("web"), json!({"deployment.plural.sh/sync-options": "Force=true"}));
        found.value["spec"]["selector"]["matchLabels"]["app"] = app.into();
        found.value["spec"]["template"]["metadata"]["labels"]["app"] = app.into();
        found
    };
    f.sync(vec![replaced("2"), forced("a")]).await;
    let before = f.component("web").unwrap().uid;
    let outcome = f.sync(vec![replaced("2"), forced("b")]).await;
    assert!(outcome.applied, "{outcome:?}");
    assert_ne!(f.component("web").unwrap().uid, before);
    Ok(())
}

async fn fields_that_others_applied_go_with_git(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let left = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": f.namespace,
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}, "data": {"key": "1", "old": "x"}});
    let helm = kube::api::PatchParams { field_manager: Some("helm".to_owned()), ..Default::default() };
    let params = kube::api::PostParams { field_manager: helm.field_manager.clone(), ..Default::default() };
    f.config_maps().create(&params, &serde_json::from_value(left)?).await?;
    let outcome = f.sync(vec![config_map("a", "2")]).await;
    assert!(outcome.applied, "{outcome:?}");
    let live = f.config_maps().get("a").await?;
    assert_eq!(live.data["data"], json!({"key": "2"}));
    let annotations = live.metadata.annotations.unwrap();
    assert!(!annotations.contains_key("kubectl.kubernetes.io/last-applied-configuration"));
    assert!(f.sync(vec![config_map("a", "2")]).await.unchanged == 1);
    Ok(())
}

async fn ignored_fields_are_nobodys_fight(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    f.target.config.diff_normalizers.push(DiffNormalizer {
        kind: Some("Deployment".to_owned()),
        json_pointers: vec!["/spec/replicas".to_owned()],
        ..DiffNormalizer::default()
    });
    let backfilled =
        annotated(deployment("back"), json!({"deployments.plural.sh/backfill-fields": "/spec/replicas"}));
    let objects = vec![deployment("web"), backfilled];
    assert!(f.sync(objects.clone()).await.applied);
    let api = f.api("apps/v1", "Deployment", "deployments");
    for name in ["web", "back"] {
        f.meddle(&api, name, json!({"spec": {"replicas": 3}})).await?;
    }
    for _ in 0..3 {
        let outcome = f.sync(objects.clone()).await;
        assert!(outcome.applied && outcome.problems.is_empty(), "{outcome:?}");
    }
    // Something else changes; the replicas stay.
    let mut changed = objects.clone();
    for object in &mut changed {
        object.value["spec"]["template"]["spec"]["containers"][0]["image"] = "example.org/web:2".into();
    }
    f.sync(changed.clone()).await;
    f.restart().await?;
    f.sync(changed).await;
    for name in ["web", "back"] {
        let live = api.get(name).await?;
        assert_eq!(live.data["spec"]["replicas"], 3, "{name}");
        assert_eq!(live.data["spec"]["template"]["spec"]["containers"][0]["image"], "example.org/web:2");
    }
    Ok(())
}

async fn changes_are_told_with_who_made_them(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let objects = vec![deployment("web"), config_map("a", "1")];
    f.sync(objects.clone()).await;
    let api = f.api("apps/v1", "Deployment", "deployments");
    f.meddle(&api, "web", json!({"spec": {"replicas": 4}})).await?;
    let outcome = f.settle(&objects, |outcome| outcome.changed == 1).await?;
    let drift = &outcome.drift[0];
    assert_eq!((drift.kind, drift.manager.as_deref()), (DriftKind::Repaired, Some("somebody")));
    let field = &drift.fields[0];
    assert_eq!(
        (field.path.as_str(), field.before.as_deref(), field.after.as_deref()),
        ("/spec/replicas", Some("4"), Some("1"))
    );
    assert!(field.manager.as_deref() == Some("somebody") && field.written_ms.is_some(), "{field:?}");
    f.config_maps().delete("a", &kube::api::DeleteParams::default()).await?;
    f.settle(&objects, |outcome| outcome.changed == 1).await?;
    let events = f.engine.drift_events(f.target.id);
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[1].drift.what, "it was deleted");
    Ok(())
}

async fn what_we_pruned_is_no_drift_when_it_is_wanted_again(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (with, without) = (maps(10), maps(8));
    f.sync(with.clone()).await;
    let outcome = f.sync(without.clone()).await;
    assert_eq!((outcome.deleted, outcome.drift.len()), (2, 0), "{outcome:?}");
    // Somebody makes one of them by hand meanwhile; then git has both again.
    let by_hand = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m08"}, "data": {"key": "theirs"}});
    let maps = f.config_maps();
    maps.create(&kube::api::PostParams::default(), &serde_json::from_value(by_hand)?).await?;
    let outcome = f.sync(with.clone()).await;
    assert!(outcome.applied, "{outcome:?}");
    assert_eq!(outcome.drift.len(), 0, "what we deleted was not deleted by another: {outcome:?}");
    assert!(f.engine.drift_events(f.target.id).is_empty());
    assert_eq!(f.config_map_names().await?.len(), 10);
    // What is deleted from then on is.
    maps.delete("m09", &kube::api::DeleteParams::default()).await?;
    f.settle(&with, |outcome| !outcome.drift.is_empty()).await?;
    assert_eq!(f.engine.drift_events(f.target.id)[0].drift.what, "it was deleted");
    Ok(())
}

async fn without_self_heal_changes_are_told_and_left(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    f.target.config.policy.self_heal = false;
    f.target.config.policy.prune = false;
    let objects = vec![config_map("a", "1"), config_map("b", "1")];
    f.sync(objects.clone()).await;
    f.meddle(&f.config_maps(), "a", json!({"data": {"key": "evil"}})).await?;
    let outcome = f.settle(&objects, |outcome| !outcome.drift.is_empty()).await?;
    assert_eq!((outcome.drift[0].kind, outcome.changed), (DriftKind::Left, 0));
    assert_eq!(f.config_maps().get("a").await?.data["data"]["key"], "evil");
    assert!(!f.component("a").unwrap().synced);

    // What left git stays until someone asks.
    let outcome = f.sync(vec![config_map("b", "1")]).await;
    assert_eq!(outcome.deleted, 0, "{outcome:?}");
    f.target.request = Some(Request { id: "r".to_owned(), prune: true, ..Request::default() });
    let outcome = f.sync(vec![config_map("b", "1")]).await;
    assert_eq!((outcome.deleted, outcome.request_done.as_deref()), (1, Some("r")));
    Ok(())
}

async fn a_manual_service_waits_for_a_person(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    f.target.config.policy.manual = true;
    let objects = vec![config_map("a", "1"), config_map("b", "1"), config_map("c", "1")];
    let outcome = f.sync(objects.clone()).await;
    assert_eq!((outcome.progress.step, outcome.changed), (ProgressStep::Held, 0), "{outcome:?}");
    assert_eq!(outcome.plan.unwrap().objects.len(), 3);
    assert_eq!(f.config_map_names().await?, Vec::<String>::new());

    let ask = |id: &str, objects: Vec<ObjectKey>| {
        Some(Request { id: id.to_owned(), objects, ..Request::default() })
    };
    f.target.request = ask("one", vec![key("/ConfigMap/NS/b", &f.namespace)]);
    let outcome = f.sync(objects.clone()).await;
    assert_eq!(outcome.request_done.as_deref(), Some("one"), "{outcome:?}");
    assert_eq!(f.config_map_names().await?, ["b"]);
    assert_eq!(f.sync(objects.clone()).await.changed, 0);
    f.target.request = ask("two", Vec::new());
    assert!(f.sync(objects.clone()).await.applied);
    assert_eq!(f.config_map_names().await?, ["a", "b", "c"]);

    // A new agent knows what was let through, heals it with its first sync, and holds what is new. The change is made before it
    // starts, so that its list has it: a watch may show it later than this asks.
    f.meddle(&f.config_maps(), "a", json!({"data": {"key": "evil"}})).await?;
    f.restart().await?;
    let outcome = f.sync(objects.clone()).await;
    assert_eq!((outcome.changed, outcome.unchanged), (1, 2), "{outcome:?}");
    assert_eq!(f.config_maps().get("a").await?.data["data"]["key"], "1");
    let outcome = f.sync(vec![config_map("a", "2")]).await;
    assert_eq!(outcome.progress.step, ProgressStep::Held);
    assert_eq!(f.config_map_names().await?, ["a", "b", "c"]);
    Ok(())
}

async fn a_paused_service_is_left_alone(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let objects = vec![config_map("a", "1"), config_map("b", "1")];
    f.sync(objects.clone()).await;
    f.target.paused = true;
    let outcome = f.sync(objects.clone()).await;
    assert!(outcome.applied && outcome.progress.step == ProgressStep::Held, "{outcome:?}");
    f.meddle(&f.config_maps(), "a", json!({"data": {"key": "evil"}})).await?;
    let outcome = f.settle(&objects, |outcome| !outcome.drift.is_empty()).await?;
    assert_eq!(outcome.drift[0].kind, DriftKind::Left);
    f.sync(vec![config_map("a", "2")]).await;
    assert_eq!(f.config_map_names().await?, ["a", "b"]);
    assert!(!f.engine.destroy(&f.target).await.destroyed);
    f.target.paused = false;
    let outcome = f.sync(objects.clone()).await;
    assert!(outcome.applied, "{outcome:?}");
    assert_eq!(f.config_maps().get("a").await?.data["data"]["key"], "1");
    Ok(())
}

async fn things_go_in_reverse_waves(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let wave =
        |object: Object, wave: &str| annotated(object, json!({"deployment.plural.sh/sync-wave": wave}));
    let mut held = wave(config_map("last", "1"), "9");
    held.value["metadata"]["finalizers"] = json!(["example.org/slow"]);
    let objects = vec![
        wave(config_map("first", "1"), "-1"),
        held,
        service("middle"),
        config_map("stays", "1"),
        config_map("stays-2", "1"),
        config_map("stays-3", "1"),
    ];
    f.sync(objects.clone()).await;
    // A new agent knows the waves although git no longer names them.
    f.restart().await?;
    let outcome = f.sync(objects[3..].to_vec()).await;
    assert_eq!((outcome.deleted, outcome.leaving), (0, 3), "{outcome:?}");
    assert!(outcome.problems[0].message.contains("example.org/slow"), "{outcome:?}");
    assert!(f.config_map_names().await?.contains(&"first".to_owned()));
    f.meddle(&f.config_maps(), "last", json!({"metadata": {"finalizers": null}})).await?;
    f.settle(&objects[3..], |outcome| outcome.leaving == 0).await?;
    assert_eq!(f.config_map_names().await?, ["stays", "stays-2", "stays-3"]);

    Ok(())
}
