//! Autoscalers and disruption budgets.

use serde_json::Value;

use super::{
    Health,
    read::{Condition, View, condition},
};

pub(super) fn health(kind: &str, view: &View<'_>) -> Option<Health> {
    Some(match kind {
        "HorizontalPodAutoscaler" => autoscaler(view),
        "VerticalPodAutoscaler" => vertical(view),
        "PodDisruptionBudget" => budget(view),
        _ => return None,
    })
}

fn autoscaler(view: &View<'_>) -> Health {
    // Version 1 has no field for conditions: they stand in an annotation, as JSON.
    let noted: Value = serde_json::from_str(view.annotation("autoscaling.alpha.kubernetes.io/conditions"))
        .unwrap_or_default();
    let conditions = if view.has_conditions() { &view.status["conditions"] } else { &noted };
    let find = |kind: &str| condition(conditions, kind);
    for (kind, fallback) in
        [("AbleToScale", "it cannot scale"), ("ScalingActive", "it cannot read its metrics")]
    {
        if let Some(found) = find(kind).filter(Condition::is_false) {
            // A target at zero replicas switches scaling off on purpose.
            return if found.reason == "ScalingDisabled" {
                Health::remark(found.why("scaling is switched off"))
            } else {
                Health::degraded(found.why(fallback))
            };
        }
    }
    if !conditions.is_array() {
        return match view.status["currentReplicas"].as_i64() {
            Some(_) => Health::healthy(),
            None => Health::progressing("it has not been reconciled yet"),
        };
    }
    match find("ScalingLimited").filter(Condition::is_true) {
        Some(limited) => Health::remark(limited.why("its limits hold it back")),
        None => Health::healthy(),
    }
}

fn vertical(view: &View<'_>) -> Health {
    for (kind, fallback) in
        [("ConfigUnsupported", "its settings cannot be used"), ("ConfigDeprecated", "its settings are old")]
    {
        if let Some(found) = view.yes(kind) {
            return Health::degraded(found.why(fallback));
        }
    }
    if let Some(none) = view.yes("NoPodsMatched") {
        return Health::remark(none.why("no Pod matches its target"));
    }
    match view.condition("RecommendationProvided") {
        Some(found) if found.is_false() => Health::progressing(found.why("it has no recommendation yet")),
        Some(_) => Health::healthy(),
        None => Health::progressing("it has not been reconciled yet"),
    }
}

fn budget(view: &View<'_>) -> Health {
    if let Some(behind) = view.behind() {
        return behind;
    }
    match view.condition("DisruptionAllowed") {
        Some(found) if found.reason == "SyncFailed" => {
            Health::degraded(found.why("its Pods cannot be counted"))
        }
        // A budget that is used up does what it is there for.
        Some(found) if found.is_false() => Health::remark(found.why("no Pod may be evicted now")),
        Some(_) | None => Health::healthy(),
    }
}
