//! How a live object is, and why, in words.
//!
//! A rule that a person wrote comes first ([`Rules`]), then the rule of the kind, one file per subject
//! here; a kind that nobody knows is judged by its `status.conditions`, as kstatus does.

mod api_machinery;
mod apps;
mod argo;
mod batch;
mod cert_manager;
mod cluster_api;
mod conditions;
mod core_group;
mod crossplane;
mod external_secrets;
mod flagger;
mod flux;
mod gateway;
mod keda;
mod pod;
mod prometheus;
mod read;
mod rules;
mod scaling;
mod script;
mod storage;

use plural_core::component::ComponentState;
use serde_json::Value;

use crate::key::GroupKind;
pub(crate) use pod::not_ready_since;
use read::View;
pub use rules::{Rule, Rules};
pub use script::{ScriptError, run as run_script};

/// The words in which health is told, the same as in scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HealthStatus {
    /// It does what it should.
    Healthy,
    /// It is on its way.
    Progressing,
    /// It is broken, and waiting alone will hardly help.
    Degraded,
    /// It waits for a person.
    Suspended,
    /// It is not there.
    Missing,
    /// Nobody can tell.
    Unknown,
}

impl HealthStatus {
    /// Every status.
    pub const ALL: [Self; 6] =
        [Self::Healthy, Self::Progressing, Self::Degraded, Self::Suspended, Self::Missing, Self::Unknown];

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Progressing => "Progressing",
            Self::Degraded => "Degraded",
            Self::Suspended => "Suspended",
            Self::Missing => "Missing",
            Self::Unknown => "Unknown",
        }
    }

    /// The status of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// How a component with this status is called in the API; nothing when nobody can tell.
    pub const fn state(self) -> Option<ComponentState> {
        match self {
            Self::Healthy => Some(ComponentState::Running),
            Self::Progressing | Self::Missing => Some(ComponentState::Pending),
            Self::Degraded => Some(ComponentState::Failed),
            Self::Suspended => Some(ComponentState::Paused),
            Self::Unknown => None,
        }
    }
}

/// Status and reason. The reason never holds a value of a Secret: only kinds with a status have one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Health {
    /// How it is.
    pub status: HealthStatus,
    /// Why it is so; of something healthy, at most a remark.
    pub message: String,
}

impl Health {
    pub(crate) fn new(status: HealthStatus, message: impl Into<String>) -> Self {
        Self { status, message: short(message.into()) }
    }

    pub(crate) fn healthy() -> Self {
        Self::new(HealthStatus::Healthy, "")
    }

    pub(crate) fn remark(message: impl Into<String>) -> Self {
        Self::new(HealthStatus::Healthy, message)
    }

    pub(crate) fn progressing(message: impl Into<String>) -> Self {
        Self::new(HealthStatus::Progressing, message)
    }

    pub(crate) fn degraded(message: impl Into<String>) -> Self {
        Self::new(HealthStatus::Degraded, message)
    }

    pub(crate) fn suspended(message: impl Into<String>) -> Self {
        Self::new(HealthStatus::Suspended, message)
    }

    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self::new(HealthStatus::Unknown, message)
    }

    /// How a component with this health is called in the API; nothing when nobody can tell.
    pub const fn state(&self) -> Option<ComponentState> {
        self.status.state()
    }
}

/// Longer messages are cut: they travel with every report.
const MESSAGE_CHARACTERS: usize = 500;

fn short(message: String) -> String {
    if message.len() <= MESSAGE_CHARACTERS || message.chars().count() <= MESSAGE_CHARACTERS {
        return message;
    }
    message.chars().take(MESSAGE_CHARACTERS).chain(['…']).collect()
}

/// The health of a live object of this kind, by the rules that are built in.
pub fn health(kind: &GroupKind, object: &Value) -> Health {
    let view = View::of(object);
    if let Some(leaving) = leaving(&view) {
        return leaving;
    }
    let name = kind.kind.as_str();
    let known = match kind.group.as_str() {
        "" => core_group::health(name, &view),
        "apps" | "extensions" => apps::health(name, &view),
        "batch" => batch::health(name, &view),
        "autoscaling" | "policy" | "autoscaling.k8s.io" => scaling::health(name, &view),
        "storage.k8s.io" | "snapshot.storage.k8s.io" => storage::health(name, &view),
        "apiextensions.k8s.io"
        | "apiregistration.k8s.io"
        | "admissionregistration.k8s.io"
        | "certificates.k8s.io"
        | "flowcontrol.apiserver.k8s.io" => api_machinery::health(name, &view),
        "gateway.networking.k8s.io" => gateway::health(name, &view),
        "cert-manager.io" | "acme.cert-manager.io" => cert_manager::health(name, &view),
        "argoproj.io" => argo::health(name, &view),
        "flagger.app" => flagger::health(name, &view),
        "keda.sh" => keda::health(name, &view),
        "external-secrets.io" => external_secrets::health(name, &view),
        "monitoring.coreos.com" => prometheus::health(name, &view),
        group if group.ends_with(".toolkit.fluxcd.io") => flux::health(&view),
        group if group.ends_with("cluster.x-k8s.io") => cluster_api::health(group, name, &view),
        group => crossplane::health(group, name, &view),
    };
    known.unwrap_or_else(|| conditions::health(&view))
}

/// An object on its way out, whatever its kind.
fn leaving(view: &View<'_>) -> Option<Health> {
    if !view.object["metadata"]["deletionTimestamp"].is_string() {
        return None;
    }
    let finalizers = read::strings(&view.object["metadata"]["finalizers"]);
    // A Namespace says what of it is stuck.
    let stuck = [
        "NamespaceFinalizersRemaining",
        "NamespaceContentRemaining",
        "NamespaceDeletionContentFailure",
        "NamespaceDeletionDiscoveryFailure",
    ];
    let why = stuck
        .into_iter()
        .find_map(|kind| view.condition(kind).filter(read::Condition::is_true))
        .map(|condition| format!(": {}", condition.why("something in it is not deleted")));
    Some(Health::progressing(if finalizers.is_empty() {
        format!("it is being deleted{}", why.unwrap_or_default())
    } else {
        let done = if finalizers.len() == 1 { "is not done" } else { "are not done" };
        let noun = if finalizers.len() == 1 { "finalizer" } else { "finalizers" };
        format!("it is being deleted; its {noun} {} {done}{}", finalizers.join(", "), why.unwrap_or_default())
    }))
}
