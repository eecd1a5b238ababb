//! In which order objects are applied; they are deleted in the reverse.
//!
//! Waves come first; within a wave, objects go in [`Step`]s.

use crate::key::GroupKind;

/// A step within a wave. Objects of one step go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Step {
    /// What everything else lies in.
    Namespaces,
    /// What teaches the API server new kinds; waited for.
    Definitions,
    /// What workloads read when they start.
    Configuration,
    /// What runs, and everything that is not named elsewhere.
    Workloads,
    /// What can stop others from being applied: admission, aggregated APIs.
    Gates,
}

/// The step of a kind.
pub(crate) fn step(kind: &GroupKind) -> Step {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") => Step::Namespaces,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Step::Definitions,
        (
            "",
            "ServiceAccount"
            | "Secret"
            | "ConfigMap"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "LimitRange"
            | "ResourceQuota",
        )
        | ("rbac.authorization.k8s.io" | "scheduling.k8s.io" | "storage.k8s.io" | "policy", _)
        | ("networking.k8s.io", "IngressClass" | "NetworkPolicy") => Step::Configuration,
        ("admissionregistration.k8s.io" | "apiregistration.k8s.io", _) => Step::Gates,
        _ => Step::Workloads,
    }
}

/// The wave of an object that names none: 0 what belongs to the cluster, 1 configuration, 2 workloads,
/// 3 networking, 4 the rest.
pub(crate) fn default_wave(kind: &GroupKind, namespaced: bool) -> i32 {
    let built_in = !kind.group.contains('.') || kind.group.ends_with(".k8s.io");
    match step(kind) {
        Step::Gates => 4,
        Step::Namespaces | Step::Definitions => 0,
        // Whoever understands an object of a defined kind is itself a workload.
        _ if !built_in => 4,
        _ if !namespaced => 0,
        Step::Configuration => 1,
        Step::Workloads => match (kind.group.as_str(), kind.kind.as_str()) {
            ("apps" | "batch", _) | ("", "Pod" | "ReplicationController" | "PodTemplate") => 2,
            ("", "Service" | "Endpoints") | ("networking.k8s.io" | "discovery.k8s.io", _) => 3,
            _ => 4,
        },
    }
}

/// Whether losing an object of this kind loses what cannot be applied again.
pub(crate) fn is_precious(kind: &GroupKind) -> bool {
    kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
        || kind.is("", "Namespace")
        || kind.is("", "PersistentVolume")
        || kind.is("", "PersistentVolumeClaim")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_of_kinds() {
        for (group, kind, namespaced, wave) in [
            ("", "Namespace", false, 0),
            ("rbac.authorization.k8s.io", "ClusterRole", false, 0),
            ("apiextensions.k8s.io", "CustomResourceDefinition", false, 0),
            ("", "Secret", true, 1),
            ("rbac.authorization.k8s.io", "Role", true, 1),
            ("", "PersistentVolumeClaim", true, 1),
            ("apps", "StatefulSet", true, 2),
            ("batch", "Job", true, 2),
            ("", "Service", true, 3),
            ("networking.k8s.io", "Ingress", true, 3),
            ("autoscaling", "HorizontalPodAutoscaler", true, 4),
            ("cert-manager.io", "ClusterIssuer", false, 4),
            ("example.org", "Widget", true, 4),
            ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", false, 4),
        ] {
            let found =
                default_wave(&GroupKind { group: group.to_owned(), kind: kind.to_owned() }, namespaced);
            assert_eq!(found, wave, "{kind}");
        }
    }
}
