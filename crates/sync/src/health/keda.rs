//! KEDA.

use super::{
    Health, conditions,
    read::{View, text},
};

pub(super) fn health(kind: &str, view: &View<'_>) -> Option<Health> {
    matches!(kind, "ScaledObject" | "ScaledJob").then(|| scaler(view))
}

fn scaler(view: &View<'_>) -> Health {
    let annotations = &view.object["metadata"]["annotations"];
    let paused = text(&annotations["autoscaling.keda.sh/paused"]) == "true"
        || !annotations["autoscaling.keda.sh/paused-replicas"].is_null();
    if paused || view.yes("Paused").is_some() {
        return Health::suspended("its scaling is paused");
    }
    // `Active` only says whether there is something to do now.
    match view.condition("Ready") {
        Some(ready) if ready.is_false() => {
            return Health::degraded(ready.why("it cannot scale its target"));
        }
        Some(ready) if !ready.is_true() => return conditions::by_condition(view, "Ready", &ready),
        Some(_) => {}
        None => return Health::progressing("it has not been reconciled yet"),
    }
    match view.yes("Fallback") {
        Some(found) => Health::degraded(found.why("its metrics cannot be read: it holds the fallback")),
        None => Health::healthy(),
    }
}
