//! The attacks on tenants and secrets that end at the agent, by number.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{
    Api,
    api::{DynamicObject, ObjectMeta, PostParams},
};
use plural_core::project_limits::ProjectLimits;
use plural_render::Object;
use plural_sync::{Limits, Part};
use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use crate::{
    fixture::{Fixture, config_map, object, target},
    waves::{annotated, job},
};

each_cluster!(
    attack_12_no_object_escapes_the_limits_of_its_project,
    attack_16_a_service_account_is_kept_in_hooks_and_prune,
    attack_20_no_part_of_a_secret_is_shown,
);

/// Every annotation that makes an object a hook, in every phase there is.
fn hooks() -> Vec<Value> {
    let plural = ["pre-sync", "sync", "post-sync", "sync-fail"];
    let argo = ["PreSync", "Sync", "PostSync", "SyncFail", "PreDelete", "PostDelete"];
    let helm =
        ["pre-install", "post-install", "pre-upgrade", "post-upgrade", "pre-delete", "post-delete", "test"];
    let plural = plural.map(|phase| json!({"deployment.plural.sh/sync-hook": phase}));
    let argo = argo.map(|phase| json!({"argocd.argoproj.io/hook": phase}));
    let helm = helm.map(|phase| json!({"helm.sh/hook": phase}));
    plural.into_iter().chain(argo).chain(helm).collect()
}

async fn attack_12_no_object_escapes_the_limits_of_its_project(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let other = f.cluster.namespace().await?;
    f.target.limits = Some(Limits {
        project: "blue".to_owned(),
        rules: ProjectLimits {
            namespaces: vec![f.namespace.clone()],
            denied_kinds: vec!["batch/*".to_owned()],
            ..ProjectLimits::default()
        },
        ..Limits::default()
    });
    let mut objects: Vec<Object> = Vec::new();
    for (number, annotations) in hooks().into_iter().enumerate() {
        // A kind that is denied, and a kind that is allowed in a namespace that is not.
        objects.push(job(&format!("job-{number}"), "well", annotations.clone()));
        let mut pod = object(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod-{number}"), "namespace": other},
            "spec": {"containers": [{"name": "run", "image": "example.org/run:1"}]}}));
        pod.value["metadata"]["annotations"] = annotations;
        objects.push(pod);
    }
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt",
        "uid": "00000000-0000-0000-0000-000000000000", "controller": true, "blockOwnerDeletion": true}]);
    let mut owned = config_map("owned", "1");
    owned.value["metadata"]["namespace"] = other.clone().into();
    owned.value["metadata"]["ownerReferences"] = owner;
    let mut generated = config_map("x", "1");
    generated.value["metadata"] = json!({"generateName": "made-", "namespace": other});
    let mut skipped = config_map("skipped", "1");
    skipped.value["metadata"]["namespace"] = other.clone().into();
    let skipped = annotated(skipped, json!({"argocd.argoproj.io/hook": "Skip"}));
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("{}-role", f.namespace), "namespace": f.namespace}, "rules": []});
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{other}-more")}});
    let refused = objects.len() + 5;
    objects.extend([owned, generated, skipped, object(role), object(namespace), config_map("a", "1")]);

    for _ in 0..2 {
        let outcome = f.sync(objects.clone()).await;
        assert!(!outcome.applied);
        let told: Vec<&str> =
            outcome.problems.iter().filter(|p| p.part == Part::Limits).map(|p| p.message.as_str()).collect();
        assert_eq!(told.len(), refused, "{told:#?}");
        assert!(told.iter().all(|message| message.contains("project blue")), "{told:?}");
        // A plan says the same, and asks the cluster for none of it.
        let plan = f.engine.plan(&f.target, objects.clone()).await;
        assert_eq!(plan.problems.iter().filter(|p| p.part == Part::Limits).count(), refused);
    }
    assert_eq!(f.config_map_names().await?, ["a"]);
    let writes = f.cluster.writes(&other)?;
    let ours =
        writes.iter().filter(|write| !write.user.starts_with("system:") && write.name != "kube-root-ca.crt");
    assert_eq!(ours.count(), 0, "{writes:?}");
    assert!(f.cluster.writes(&f.namespace)?.iter().all(|write| write.resource != "jobs"));

    // Children that an operator makes are the cluster's own matter; the object that asks for them is held to the
    // limits, by the kind it has.
    f.target.limits = Some(Limits {
        project: "blue".to_owned(),
        rules: ProjectLimits { allowed_kinds: vec!["/ConfigMap".to_owned()], ..ProjectLimits::default() },
        ..Limits::default()
    });
    let asks = object(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {}}),
    );
    let outcome = f.sync(vec![asks, config_map("a", "1")]).await;
    assert!(outcome.problems[0].message.contains("does not allow the kind apps/Deployment"), "{outcome:?}");
    Ok(())
}

async fn attack_16_a_service_account_is_kept_in_hooks_and_prune(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let user = format!("system:serviceaccount:{}:deployer", f.namespace);
    let role = |verbs: &[&str]| {
        object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "deployer"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]}))
    };
    let binding = object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": f.namespace}]}));
    let rights = target("rights", &f.namespace);
    let may = ["get", "create", "patch", "delete"];
    assert!(f.engine.sync(&rights, vec![role(&may), binding.clone()]).await.applied);

    f.target.config.create_namespace = false;
    f.target.config.service_account = Some("deployer".to_owned());
    let objects = [config_map("a", "1"), config_map("b", "1"), config_map("c", "1")];
    f.sync_until(&objects, |outcome| outcome.applied).await?;
    // A hook is made with the same rights, in each phase; it has none for Jobs.
    for phase in ["PreSync", "PostSync"] {
        let hook = job("hook", "well", json!({"argocd.argoproj.io/hook": phase}));
        let mut objects = objects.to_vec();
        objects.push(hook);
        let outcome = f.sync_until(&objects, plural_sync::Outcome::has_errors).await?;
        let problem = outcome.problems.iter().find(|problem| !problem.warning).unwrap();
        assert!(problem.message.contains(&user) && problem.message.contains("jobs"), "{phase}: {problem:?}");
    }
    assert!(
        f.cluster.writes(&f.namespace)?.iter().all(|write| write.resource != "jobs" || write.code >= 400)
    );
    // So is what is pruned, replaced and deleted at the end.
    let outcome = f.sync_until(&objects[..2], |outcome| outcome.deleted > 0).await?;
    assert!(outcome.problems.is_empty(), "{outcome:?}");
    assert!(f.engine.sync(&rights, vec![role(&["get", "create", "patch"]), binding]).await.applied);
    // An API server learns of a changed Role by a watch of its own: until then it would let all be deleted.
    let reviews: Api<SubjectAccessReview> = Api::all(f.client.clone());
    let may_delete: SubjectAccessReview = serde_json::from_value(json!({"spec": {"user": user,
        "resourceAttributes": {"namespace": f.namespace, "verb": "delete", "resource": "configmaps"}}}))?;
    plural_testkit::eventually(crate::fixture::PATIENCE, async || {
        let review = reviews.create(&PostParams::default(), &may_delete).await;
        review.is_ok_and(|review| review.status.is_some_and(|status| !status.allowed))
    })
    .await;
    let refused = async || {
        let outcome = f.engine.destroy(&f.target).await;
        outcome.problems.iter().any(|problem| problem.part == Part::Prune && problem.message.contains(&user))
    };
    plural_testkit::eventually(crate::fixture::PATIENCE, refused).await;
    assert!(f.config_map_names().await?.contains(&"a".to_owned()));
    Ok(())
}

async fn attack_20_no_part_of_a_secret_is_shown(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let canary = "canary-7f3a91";
    let encoded = "Y2FuYXJ5LTdmM2E5MQ";
    let hidden = |what: &str, text: &str| {
        for needle in [canary, encoded] {
            assert!(!text.contains(needle), "{what} shows the secret: {text}");
        }
    };
    let secret = |metadata: Value, more: Value| {
        let mut value = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object(value)
    };
    // One that kubectl made, with all of it once more in an annotation.
    let secrets = f.api("v1", "Secret", "secrets");
    let made = DynamicObject {
        types: None,
        metadata: ObjectMeta {
            name: Some("adopted".to_owned()),
            annotations: Some(
                [(
                    "kubectl.kubernetes.io/last-applied-configuration".to_owned(),
                    json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"password": canary},
                        "data": {"more": format!("{encoded}==")}})
                    .to_string(),
                )]
                .into(),
            ),
            ..ObjectMeta::default()
        },
        data: json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"password": canary}}),
    };
    secrets.create(&PostParams::default(), &made).await?;
    let objects = vec![
        secret(json!({"name": "adopted"}), json!({"stringData": {"password": format!("{canary}-2")}})),
        secret(json!({"name": "texts"}), json!({"stringData": {"password": canary, "key": canary}})),
        secret(json!({"name": "data"}), json!({"data": {"password": format!("{encoded}==")}})),
        // Invalid base64, a value that is no text, a field that no Secret has, the wrong type.
        secret(json!({"name": "broken"}), json!({"data": {"password": canary}})),
        secret(json!({"name": "number"}), json!({"stringData": {"password": {"deep": canary}}})),
        secret(json!({"name": "unknown"}), json!({"password": canary, "stringData": {"a": "b"}})),
        secret(json!({"name": "noted", "annotations": {"copy": canary}}), json!({"stringData": {"a": "b"}})),
    ];
    let plan = f.engine.plan(&f.target, objects.clone()).await;
    hidden("the plan", &format!("{:?}", plan.plan));
    hidden("the plan's problems", &format!("{:?}", plan.problems));
    let outcome = f.sync(objects.clone()).await;
    assert!(outcome.problems.len() >= 2, "{outcome:?}");
    hidden("the sync", &format!("{:?}", (&outcome.problems, &outcome.plan, &outcome.drift)));
    hidden("the components", &format!("{:?}", f.engine.components(f.target.id)));

    // Somebody's change is told by its field, and neither value is shown.
    let good: Vec<Object> = objects.iter().take(3).cloned().collect();
    f.target.config.policy.prune_percent = Some(100);
    f.sync(good.clone()).await;
    f.meddle(&secrets, "texts", json!({"stringData": {"password": format!("{canary}-evil")}})).await?;
    let outcome = f.settle(&good, |outcome| !outcome.drift.is_empty()).await?;
    let drift = &outcome.drift[0];
    assert!(drift.fields.iter().any(|field| field.hidden && field.path == "/data/password"), "{drift:?}");
    hidden("the drift", &format!("{drift:?} {:?}", f.engine.drift_events(f.target.id)));
    // Nor is it in what the cluster keeps of us.
    let record = f.records().get(&format!("plural-inventory-{}", f.target.id)).await?;
    hidden("the record", &serde_json::to_string(&record)?);
    Ok(())
}
