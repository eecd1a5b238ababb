//! Canaries that wait, and what a person says of them.

use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use plural_core::component::ComponentState;
use plural_core::project_limits::ProjectLimits;
use plural_sync::{GroupKind, Limits, MANAGED_BY_LABEL, ObjectKey, Promoted, Promotion, PromotionAction};
use plural_testkit::{TestCluster, each_cluster, eventually};
use serde_json::{Value, json};

use crate::fixture::{Fixture, PATIENCE, object};

each_cluster!(canaries_go_on_or_back_once_when_a_person_says_so);

/// The definition of Rollouts, as far as it matters here. Other tests may use it, too: nobody takes it away.
async fn rollouts_are_known(f: &Fixture) -> anyhow::Result<Api<DynamicObject>> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(f.client.clone(), &ApiResource::from_gvk(&kind));
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
    let rollouts = f.api("argoproj.io/v1alpha1", "Rollout", "rollouts");
    eventually(PATIENCE, async || rollouts.list(&kube::api::ListParams::default()).await.map(drop)).await;
    Ok(rollouts)
}

/// What Argo's controller would say of it.
async fn controller_says(rollouts: &Api<DynamicObject>, name: &str, status: Value) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"status": status}));
    rollouts.patch_status(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

fn waits() -> Value {
    let pause = json!({"reason": "CanaryPauseStep", "startTime": "2026-11-22T01:00:00Z"});
    json!({"phase": "Paused", "message": "CanaryPauseStep", "currentStepIndex": 1, "pauseConditions": [pause]})
}

fn promotion(id: &str, action: PromotionAction) -> Promotion {
    Promotion { id: id.to_owned(), action: Some(action), objects: Vec::new(), gates: 0 }
}

async fn canaries_go_on_or_back_once_when_a_person_says_so(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let rollouts = rollouts_are_known(&f).await?;
    // An engine asks once in a while which kinds there are; this one asks now.
    f.restart().await?;
    let rollout = |name: &str| {
        object(json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
            "metadata": {"name": name}, "spec": {"replicas": 1}}))
    };
    let objects = vec![rollout("api"), rollout("web")];
    let outcome = f.sync(objects.clone()).await;
    assert!(outcome.applied, "{:?}", outcome.problems);
    for name in ["api", "web"] {
        controller_says(&rollouts, name, waits()).await?;
        eventually(PATIENCE, async || {
            let found = f.component(name);
            let paused = found.as_ref().is_some_and(|found| found.state == Some(ComponentState::Paused));
            if paused { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }
    let status = async |name: &str| rollouts.get(name).await.map(|found| found.data["status"].clone());

    let none: Vec<String> = Vec::new();

    // One of them goes on; nothing else is done.
    f.target.config.policy.manual = true;
    let kind = GroupKind { group: "argoproj.io".into(), kind: "Rollout".into() };
    let web = ObjectKey { kind, namespace: f.namespace.clone(), name: "web".into() };
    f.target.promotion =
        Some(Promotion { objects: vec![web.clone()], ..promotion("one", PromotionAction::Proceed) });
    let done = Some(Promoted { id: "one".to_owned(), problems: none.clone() });
    assert_eq!(f.engine.promote(&f.target).await, done);
    assert!(status("web").await?["pauseConditions"].is_null());
    assert!(status("api").await?["pauseConditions"].is_array(), "nobody spoke of it");

    // It waits again: what was said once is not said again, by no agent, and what came of it is still known.
    controller_says(&rollouts, "web", waits()).await?;
    assert_eq!(f.engine.promote(&f.target).await, done);
    f.restart().await?;
    assert_eq!(f.engine.promote(&f.target).await, done);
    assert!(status("web").await?["pauseConditions"].is_array());

    // Both go back.
    f.target.config.policy.manual = false;
    f.target.promotion = Some(promotion("two", PromotionAction::Rollback));
    let two = f.engine.promote(&f.target).await;
    assert_eq!(two, Some(Promoted { id: "two".to_owned(), problems: none }));
    assert_eq!(
        (&status("web").await?["abort"], &status("api").await?["abort"]),
        (&json!(true), &json!(true))
    );

    // An analysis without a result: the step is passed.
    let unclear = json!({"reason": "InconclusiveAnalysisRun", "startTime": "2026-11-22T01:00:00Z"});
    let said = json!({"abort": null, "controllerPause": true, "pauseConditions": [unclear]});
    controller_says(&rollouts, "web", said).await?;
    f.target.promotion = Some(promotion("three", PromotionAction::Proceed));
    f.engine.promote(&f.target).await;
    let passed = status("web").await?;
    assert_eq!(
        (&passed["currentStepIndex"], &passed["controllerPause"], passed["pauseConditions"].is_null()),
        (&json!(2), &json!(false), true)
    );

    // With nobody who waits, that is told.
    controller_says(&rollouts, "api", json!({"phase": "Healthy", "pauseConditions": null})).await?;
    f.target.promotion = Some(promotion("four", PromotionAction::Proceed));
    let problems = f.engine.promote(&f.target).await.unwrap_or_default().problems;
    assert!(problems.iter().any(|problem| problem.contains("waiting for promotion")), "{problems:?}");
    // Nor is one told anything that somebody else has taken over, whatever the record says, ...
    controller_says(&rollouts, "web", waits()).await?;
    let nobodys = Patch::Merge(json!({"metadata": {"labels": {MANAGED_BY_LABEL: null}}}));
    rollouts.patch("web", &PatchParams::default(), &nobodys).await?;
    f.target.promotion = Some(promotion("five", PromotionAction::Proceed));
    let problems = f.engine.promote(&f.target).await.unwrap_or_default().problems;
    assert!(!problems.is_empty() && status("web").await?["pauseConditions"].is_array(), "{problems:?}");
    // ... nor one that its project does not allow, ...
    controller_says(&rollouts, "api", waits()).await?;
    f.target.limits = Some(Limits {
        rules: ProjectLimits { denied_kinds: vec!["argoproj.io/*".to_owned()], ..ProjectLimits::default() },
        ..Limits::default()
    });
    f.target.promotion = Some(promotion("six", PromotionAction::Proceed));
    let problems = f.engine.promote(&f.target).await.unwrap_or_default().problems;
    assert!(problems.iter().any(|problem| problem.contains("denies the kind")), "{problems:?}");
    // ... nor anything by whom does not know the word, nor while it is paused.
    f.target.limits = None;
    f.target.promotion = Some(Promotion { action: None, ..promotion("seven", PromotionAction::Proceed) });
    let problems = f.engine.promote(&f.target).await.unwrap_or_default().problems;
    assert!(problems.iter().any(|problem| problem.contains("does not know")), "{problems:?}");
    f.target.paused = true;
    f.target.promotion = Some(promotion("eight", PromotionAction::Proceed));
    assert_eq!(f.engine.promote(&f.target).await.map(|done| done.id).as_deref(), Some("seven"));
    assert!(status("api").await?["pauseConditions"].is_array());
    Ok(())
}
