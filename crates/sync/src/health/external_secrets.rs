//! External Secrets Operator.

use super::{Health, read::View};

pub(super) fn health(kind: &str, view: &View<'_>) -> Option<Health> {
    match kind {
        "ExternalSecret" | "PushSecret" | "SecretStore" | "ClusterSecretStore" => Some(by_ready(view)),
        "ClusterExternalSecret" | "ClusterPushSecret" => Some(match view.yes("PartiallyReady") {
            Some(found) => Health::degraded(found.why("it could not be made in every namespace")),
            None => by_ready(view),
        }),
        _ => None,
    }
}

fn by_ready(view: &View<'_>) -> Health {
    match view.condition("Ready") {
        Some(ready) if ready.is_true() => Health::healthy(),
        Some(ready) if ready.is_false() => Health::degraded(ready.why("the secret cannot be read")),
        Some(ready) => Health::progressing(ready.why("it is not ready yet")),
        None => Health::progressing("it has not been reconciled yet"),
    }
}
