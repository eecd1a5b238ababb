//! What stands between us and etcd: webhooks that deny, are down, change objects, and convert them. Only a real API server
//! calls any.
//!
//! One backend is enough: the simulation calls no webhooks.

use plural_render::Object;
use plural_sync::Part;
use plural_testkit::{TestCluster, Webhook, eventually, run_case};
use serde_json::{Value, json};

use crate::{
    days::{definition, version},
    fixture::{Fixture, PATIENCE, config_map, deployment, object, target},
};

/// A webhook that is asked about Deployments of the fixture's namespace.
fn configuration(kind: &str, f: &Fixture, client: &Value) -> Object {
    let name = format!("{}.example.org", f.namespace);
    object(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "webhooks": [{
            "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 2,
            "failurePolicy": "Fail", "clientConfig": client,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": f.namespace}},
            "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["deployments"]}],
        }],
    }))
}

/// A message of the sync that says all of this.
async fn told(f: &Fixture, objects: &[Object], needles: &[&str]) -> String {
    eventually(PATIENCE, async || {
        let outcome = f.sync(objects.to_vec()).await;
        let found = outcome.problems.iter().find(|problem| {
            problem.part == Part::Sync && needles.iter().all(|needle| problem.message.contains(needle))
        });
        found.map(|problem| problem.message.clone()).ok_or_else(|| format!("{:?}", outcome.problems))
    })
    .await
}

#[test]
fn a_webhook_that_denies_or_is_down_is_named() {
    run_case(async {
        let Some(cluster) = TestCluster::real_or_report().await else { return Ok(()) };
        let f = Fixture::new(cluster).await?;
        let webhook = Webhook::start(|_| {
            Ok(json!({"allowed": false, "status": {"code": 403, "message": "no web on fridays"}}))
        })?;
        let name = format!("{}.example.org", f.namespace);
        let gate = target("gate", &f.namespace);
        let rule = configuration("ValidatingWebhookConfiguration", &f, &webhook.client_config());
        assert!(f.engine.sync(&gate, vec![rule]).await.applied);
        let objects = [deployment("web"), config_map("a", "1")];
        let message = told(&f, &objects, &["no web on fridays", &name]).await;
        assert!(message.contains("Deployment") && message.contains("web"), "{message}");
        assert!(!message.contains("right to do this"), "it is no lack of rights: {message}");
        assert_eq!(f.config_map_names().await?, ["a"], "the rest is applied");
        // A plan says so before anything is done.
        let plan = f.engine.plan(&f.target, objects.to_vec()).await.plan.unwrap();
        assert!(plan.objects.iter().any(|line| line.why.contains("no web on fridays")), "{plan:?}");

        webhook.answers(|_| Err("out of order".to_owned()));
        told(&f, &objects, &["failed calling webhook", &name]).await;
        drop(webhook);
        told(&f, &objects, &["failed calling webhook", &name, "connection refused"]).await;
        // The webhook goes, and the same sync goes through.
        assert!(f.engine.destroy(&gate).await.destroyed);
        f.complete(&objects).await?;
        anyhow::Ok(())
    });
}

#[test]
fn a_webhook_that_changes_our_objects_is_no_drift() {
    run_case(async {
        let Some(cluster) = TestCluster::real_or_report().await else { return Ok(()) };
        let mut f = Fixture::new(cluster).await?;
        // As meshes do: a container more, an annotation; and as mirrors do: another image.
        let webhook = Webhook::start(|request| {
            let containers = &request["object"]["spec"]["template"]["spec"]["containers"];
            let mut patch = Vec::new();
            if containers[0]["image"] == "example.org/web:1" {
                patch.push(json!({"op": "replace", "path": "/spec/template/spec/containers/0/image",
                    "value": "mirror.example.com/web:1"}));
            }
            if containers.as_array().is_some_and(|all| all.len() == 1) {
                patch.push(json!({"op": "add", "path": "/spec/template/spec/containers/-",
                    "value": {"name": "proxy", "image": "example.org/proxy:1"}}));
                patch.push(json!({"op": "add", "path": "/spec/template/metadata/annotations",
                    "value": {"injected": "yes"}}));
            }
            Ok(Webhook::patched(&patch.into()))
        })?;
        let gate = target("mesh", &f.namespace);
        let rule = configuration("MutatingWebhookConfiguration", &f, &webhook.client_config());
        assert!(f.engine.sync(&gate, vec![rule]).await.applied);
        let deployments = f.api("apps/v1", "Deployment", "deployments");
        // It takes a moment until the API server asks it.
        let injected = async || {
            let probe = deployment("probe");
            f.engine.sync(&target("probe", &f.namespace), vec![probe]).await;
            let live = deployments.get("probe").await.map_err(|error| error.to_string())?;
            let many = live.data["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len);
            if many == Some(2) {
                return Ok(());
            }
            drop(deployments.delete("probe", &kube::api::DeleteParams::default()).await);
            Err(format!("{many:?}"))
        };
        eventually(PATIENCE, injected).await;

        let objects = [deployment("web"), config_map("a", "1")];
        f.complete(&objects).await?;
        let outcome = f.sync(objects.to_vec()).await;
        assert_eq!((outcome.changed, outcome.unchanged, outcome.drift.len()), (0, 2, 0), "{outcome:?}");
        // A new agent may send it once more, which changes nothing; and then it knows.
        f.restart().await?;
        let outcome = f.sync(objects.to_vec()).await;
        assert!(outcome.applied && outcome.changed <= 1 && outcome.problems.is_empty(), "{outcome:?}");
        let outcome = f.sync(objects.to_vec()).await;
        assert_eq!((outcome.changed, outcome.unchanged, outcome.drift.len()), (0, 2, 0), "{outcome:?}");
        let live = deployments.get("web").await?;
        let containers = &live.data["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0]["image"], "mirror.example.com/web:1");
        assert_eq!(containers[1]["name"], "proxy");
        // A change in git goes through, and what was injected stays.
        let mut newer = deployment("web");
        newer.value["spec"]["template"]["spec"]["containers"][0]["image"] = "example.org/web:2".into();
        let objects = [newer, config_map("a", "1")];
        f.complete(&objects).await?;
        let live = deployments.get("web").await?;
        let containers = live.data["spec"]["template"]["spec"]["containers"].clone();
        assert_eq!(containers[0]["image"], "example.org/web:2");
        assert_eq!(containers[1]["name"], "proxy");
        assert!(f.engine.drift_events(f.target.id).is_empty());
        assert!(f.engine.destroy(&gate).await.destroyed);
        anyhow::Ok(())
    });
}

#[test]
fn a_conversion_webhook_that_fails_holds_up_its_kind_only() {
    run_case(async {
        let Some(cluster) = TestCluster::real_or_report().await else { return Ok(()) };
        let mut f = Fixture::new(cluster).await?;
        let group = format!("{}.example.org", f.namespace);
        let convert = |request: &Value| {
            let wanted = request["desiredAPIVersion"].clone();
            let converted: Vec<Value> = request["objects"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|object| {
                    let mut object = object.clone();
                    object["apiVersion"] = wanted.clone();
                    object
                })
                .collect();
            Ok(json!({"convertedObjects": converted, "result": {"status": "Success"}}))
        };
        let webhook = Webhook::start(convert)?;
        let mut kind = definition(&group);
        kind.value["spec"]["versions"] = json!([version("v1", true), version("v2", false)]);
        kind.value["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": webhook.client_config()}});
        let widget = |value: &str| {
            object(json!({"apiVersion": format!("{group}/v2"), "kind": "Widget",
                "metadata": {"name": "w"}, "spec": {"value": value}}))
        };
        let kinds = target("kinds", &f.namespace);
        assert!(f.engine.sync(&kinds, vec![kind]).await.applied);
        f.complete(&[widget("1"), config_map("a", "1")]).await?;

        webhook.answers(|_| Err("out of order".to_owned()));
        let objects = [widget("2"), config_map("a", "2")];
        let message = told(&f, &objects, &["conversion webhook", "out of order"]).await;
        assert!(message.contains("Widget"), "{message}");
        assert_eq!(f.config_maps().get("a").await?.data["data"]["key"], "2", "the rest is applied");
        // An agent that starts now cannot read these objects; the others of the service go on all the same.
        f.restart().await?;
        let objects = [widget("2"), config_map("a", "3")];
        told(&f, &objects, &["conversion webhook"]).await;
        assert_eq!(f.config_maps().get("a").await?.data["data"]["key"], "3");
        // Nothing is deleted on such a day.
        assert!(!f.sync(vec![config_map("a", "3")]).await.problems.is_empty());

        webhook.answers(convert);
        f.sync_until(&objects, |outcome| outcome.applied && outcome.problems.is_empty()).await?;
        let live = f.api(&format!("{group}/v1"), "Widget", "widgets").get("w").await?;
        assert_eq!(live.data["spec"]["value"], "2");
        assert!(f.engine.destroy(&f.target).await.destroyed);
        eventually(PATIENCE, async || f.engine.destroy(&kinds).await.destroyed).await;
        anyhow::Ok(())
    });
}
