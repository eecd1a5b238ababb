//! How a service is, computed from what its agent reported.

use serde::{Deserialize, Serialize};

use crate::component::{Component, ComponentState};
use crate::ids::RevisionId;
use crate::service_error::ServiceError;

/// Status of a service, named as in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ServiceStatus {
    /// Not yet what it should be.
    Stale,
    /// Applied, health unknown. Part of the API; we do not compute it.
    Synced,
    /// Everything runs as the latest revision wants it.
    Healthy,
    /// Something is broken.
    Failed,
    /// Something waits for a person.
    Paused,
}

impl ServiceStatus {
    /// Every status.
    pub const ALL: [Self; 5] = [Self::Stale, Self::Synced, Self::Healthy, Self::Failed, Self::Paused];

    /// Every status, what needs somebody first: the order of lists.
    pub const WORST_FIRST: [Self; 5] = [Self::Failed, Self::Paused, Self::Stale, Self::Synced, Self::Healthy];

    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "STALE",
            Self::Synced => "SYNCED",
            Self::Healthy => "HEALTHY",
            Self::Failed => "FAILED",
            Self::Paused => "PAUSED",
        }
    }

    /// The status of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// What a status is computed from.
#[derive(Debug, Clone, Copy)]
pub struct StatusInput<'a> {
    /// The last reported components.
    pub components: &'a [Component],
    /// Errors of the console and of the agent.
    pub errors: &'a [ServiceError],
    /// A person stopped it.
    pub paused: bool,
    /// The revision that should be.
    pub revision_id: RevisionId,
    /// The commit that should be.
    pub sha: Option<&'a str>,
    /// The revision that was last reported as applied.
    pub applied_revision_id: Option<RevisionId>,
    /// The commit that was last reported as applied.
    pub applied_sha: Option<&'a str>,
}

/// The status: a failed component or an error that is no warning → failed; paused, or a paused one → paused; one
/// that does not carry what was applied → stale; all running, at least one, at the latest revision
/// and commit → healthy; else stale.
pub fn service_status(input: &StatusInput<'_>) -> ServiceStatus {
    let StatusInput { components, errors, paused, revision_id, sha, applied_revision_id, applied_sha } =
        *input;
    let any = |state| components.iter().any(|c: &Component| c.state == Some(state));
    if any(ComponentState::Failed) || errors.iter().any(|error| !error.warning) {
        return ServiceStatus::Failed;
    }
    if paused || any(ComponentState::Paused) {
        return ServiceStatus::Paused;
    }
    let settled = !components.is_empty()
        && components.iter().all(|c| c.synced && c.state == Some(ComponentState::Running));
    let current = applied_revision_id == Some(revision_id) && sha.is_some() && applied_sha == sha;
    if settled && current { ServiceStatus::Healthy } else { ServiceStatus::Stale }
}

/// "n / m": running and synced components out of all.
pub fn component_status(components: &[Component]) -> String {
    let healthy = components.iter().filter(|c| c.synced && c.state == Some(ComponentState::Running)).count();
    format!("{healthy} / {}", components.len())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::component::ComponentKey;
    use crate::ids::ServiceId;

    fn component(state: ComponentState, synced: bool) -> Component {
        Component {
            id: Uuid::now_v7(),
            service_id: ServiceId::new(),
            key: ComponentKey {
                group: String::new(),
                version: "v1".into(),
                kind: "ConfigMap".into(),
                namespace: "a".into(),
                name: "b".into(),
            },
            state: Some(state),
            synced,
            uid: None,
            message: None,
            children: Vec::new(),
        }
    }

    fn status(components: &[Component], errors: &[ServiceError], applied: bool) -> ServiceStatus {
        let revision_id = RevisionId::new();
        service_status(&StatusInput {
            components,
            errors,
            paused: false,
            revision_id,
            sha: Some("abc"),
            applied_revision_id: applied.then_some(revision_id),
            applied_sha: Some("abc"),
        })
    }

    #[test]
    fn the_table() {
        use ComponentState::{Failed, Paused, Pending, Running};
        let error = ServiceError::git("no such ref", None);
        let warning = ServiceError { warning: true, ..error.clone() };
        let running = || component(Running, true);
        assert_eq!(status(&[running()], &[], true), ServiceStatus::Healthy);
        assert_eq!(status(&[running()], std::slice::from_ref(&warning), true), ServiceStatus::Healthy);
        assert_eq!(status(&[running()], &[], false), ServiceStatus::Stale);
        assert_eq!(status(&[], &[], true), ServiceStatus::Stale);
        assert_eq!(status(&[running(), component(Running, false)], &[], true), ServiceStatus::Stale);
        assert_eq!(status(&[running(), component(Pending, true)], &[], true), ServiceStatus::Stale);
        assert_eq!(status(&[component(Paused, false)], &[], true), ServiceStatus::Paused);
        assert_eq!(
            status(&[component(Paused, true), component(Failed, true)], &[], true),
            ServiceStatus::Failed
        );
        assert_eq!(status(&[running()], &[error], true), ServiceStatus::Failed);
        assert_eq!(component_status(&[running(), component(Pending, true)]), "1 / 2");
    }
}
