//! Prometheus operator.

use super::{
    Health,
    read::{Condition, View, condition, items, text},
};

pub(super) fn health(kind: &str, view: &View<'_>) -> Option<Health> {
    match kind {
        "Prometheus" | "PrometheusAgent" | "Alertmanager" | "ThanosRuler" => Some(server(view)),
        "ServiceMonitor" | "PodMonitor" | "Probe" | "ScrapeConfig" | "PrometheusRule"
        | "AlertmanagerConfig" => Some(configuration(view)),
        _ => None,
    }
}

fn server(view: &View<'_>) -> Health {
    if view.spec["paused"] == true {
        return Health::suspended("its reconciliation is paused");
    }
    if let Some(failed) = view.no("Reconciled") {
        return Health::degraded(failed.why("it cannot be reconciled"));
    }
    match view.condition("Available") {
        Some(found) if found.is_behind(view) => {
            Health::progressing("its controller has not seen the change yet")
        }
        Some(found) if found.is_true() => Health::healthy(),
        // `Degraded` is a third value of this condition: some replicas are there.
        Some(found) if found.status == "Degraded" => Health::degraded(found.why("some replicas are missing")),
        Some(found) if found.is_false() => match found.reason {
            "SomePodsNotReady" | "NoPodReady" | "StatefulSetNotFound" => {
                Health::progressing(found.why("its Pods are not ready yet"))
            }
            _ => Health::degraded(found.why("it is not available")),
        },
        Some(found) => Health::progressing(found.why("it is not available yet")),
        None => Health::progressing("it has not been reconciled yet"),
    }
}

/// Newer operators say which server takes a monitor or rule.
fn configuration(view: &View<'_>) -> Health {
    for binding in items(&view.status["bindings"]) {
        if let Some(refused) = condition(&binding["conditions"], "Accepted").filter(Condition::is_false) {
            return Health::degraded(format!(
                "{}: {}",
                text(&binding["name"]),
                refused.why("the configuration is refused")
            ));
        }
    }
    Health::healthy()
}
