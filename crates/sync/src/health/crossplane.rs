//! Crossplane: packages, composite resources and claims, managed resources of any provider.

use super::{Health, read::View};

pub(super) fn health(group: &str, kind: &str, view: &View<'_>) -> Option<Health> {
    if view.annotation("crossplane.io/paused") == "true" {
        return Some(Health::suspended("its reconciliation is paused"));
    }
    if group == "pkg.crossplane.io" {
        return Some(package(view));
    }
    if group == "apiextensions.crossplane.io" {
        return definition(kind, view);
    }
    // Composite and managed resources may be of any group; these two conditions tell them.
    let synced = view.condition("Synced")?;
    let family = group.ends_with(".crossplane.io") || group.ends_with(".upbound.io");
    if !family && view.condition("Ready").is_none() {
        return None;
    }
    if let Some(behind) = view.behind() {
        return Some(behind);
    }
    if synced.is_false() {
        return Some(if synced.reason == "ReconcilePaused" {
            Health::suspended(synced.why("its reconciliation is paused"))
        } else {
            Health::degraded(synced.why("it cannot be reconciled"))
        });
    }
    for (operation, fallback) in [
        ("LastAsyncOperation", "the provider's last operation failed"),
        ("AsyncOperation", "the provider's operation failed"),
    ] {
        if let Some(failed) = view.no(operation)
            && super::conditions::says_failure(failed.reason)
        {
            return Some(Health::degraded(failed.why(fallback)));
        }
    }
    Some(match view.condition("Ready") {
        Some(ready) if ready.is_true() => Health::healthy(),
        Some(ready) if ready.is_false() && ready.reason == "Unavailable" => {
            Health::degraded(ready.why("the external resource is not available"))
        }
        Some(ready) => Health::progressing(ready.why("the external resource is not ready yet")),
        None => Health::progressing("the external resource is not ready yet"),
    })
}

fn package(view: &View<'_>) -> Health {
    if !view.has_conditions() {
        return Health::progressing("the package has not been reconciled yet");
    }
    if let Some(found) = view.no("Installed") {
        // Unpacking takes its time; everything else needs a person.
        return if found.reason == "InactivePackageRevision" {
            Health::suspended(found.why("its revision waits to be activated"))
        } else if found.reason == "UnpackingPackage" {
            Health::progressing(found.why("the package is being unpacked"))
        } else {
            Health::degraded(found.why("the package is not installed"))
        };
    }
    for kind in ["Healthy", "RevisionHealthy", "RuntimeHealthy"] {
        match view.condition(kind) {
            Some(found) if found.is_false() => {
                return Health::degraded(found.why("the package is not healthy"));
            }
            Some(found) if !found.is_true() => {
                return Health::progressing(found.why("the package is not healthy yet"));
            }
            _ => {}
        }
    }
    Health::healthy()
}

fn definition(kind: &str, view: &View<'_>) -> Option<Health> {
    if kind != "CompositeResourceDefinition" {
        return None;
    }
    Some(match view.condition("Established") {
        Some(found) if found.is_true() => match view.no("Offered") {
            Some(offered) if !offered.reason.is_empty() => {
                Health::progressing(offered.why("its claim is not offered yet"))
            }
            _ => Health::healthy(),
        },
        Some(found) => Health::progressing(found.why("it is not established")),
        None => Health::progressing("it is not established"),
    })
}
