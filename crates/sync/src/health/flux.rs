//! Flux: sources, kustomizations, releases, images, notifications.

use super::{Health, read::View};

#[expect(clippy::unnecessary_wraps, reason = "every group answers alike")]
pub(super) fn health(view: &View<'_>) -> Option<Health> {
    if view.spec["suspend"] == true {
        return Some(Health::suspended("it is suspended"));
    }
    // Providers, alerts and OCI repositories of charts have no status and need none.
    if !view.has_conditions() && view.status["observedGeneration"].is_null() {
        return Some(Health::healthy());
    }
    if let Some(stalled) = view.yes("Stalled") {
        return Some(Health::degraded(stalled.why("it is stalled")));
    }
    if let Some(behind) = view.behind() {
        return Some(behind);
    }
    if let Some(busy) = view.yes("Reconciling") {
        // What it tried before says more than that it tries again.
        let before = view.no("Ready").filter(|ready| ready.reason != "Progressing");
        return Some(Health::progressing(before.unwrap_or(busy).why("it is being reconciled")));
    }
    Some(match view.condition("Ready") {
        Some(ready) if ready.is_true() => Health::healthy(),
        Some(ready) if matches!(ready.reason, "Progressing" | "DependencyNotReady") => {
            Health::progressing(ready.why("it is not ready yet"))
        }
        Some(ready) if ready.is_false() => Health::degraded(ready.why("it is not ready")),
        Some(ready) => Health::progressing(ready.why("it is not ready yet")),
        None => Health::progressing("it has not been reconciled yet"),
    })
}
