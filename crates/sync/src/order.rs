//! In which order kinds are applied; they are deleted in the reverse.

use crate::key::GroupKind;

/// A step of the order. Objects of one step go together.
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

/// Whether losing an object of this kind loses what cannot be applied again.
pub(crate) fn is_precious(kind: &GroupKind) -> bool {
    kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
        || kind.is("", "Namespace")
        || kind.is("", "PersistentVolume")
        || kind.is("", "PersistentVolumeClaim")
}
