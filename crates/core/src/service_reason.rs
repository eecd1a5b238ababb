//! Why a service is not as it should be, in one line: the one cause that whoever looks at it should hear first.

use chrono::{DateTime, Utc};

use crate::component::{Component, ComponentState};
use crate::service::{PinUntil, Service};
use crate::service_error::ServiceError;
use crate::status::ServiceStatus;
use crate::sync::{PendingApproval, ServiceSync, SyncStep};
use crate::sync_window::WindowHold;

/// What kind of cause it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServiceReasonKind {
    /// The agent of its cluster is not connected: what is known of the service is from before.
    Agent,
    /// An error.
    Error,
    /// An object of it has failed.
    Component,
    /// It is paused.
    Paused,
    /// Deletions wait for approval.
    Approval,
    /// A sync window holds a revision back.
    Window,
    /// It waits for services that it depends on.
    Dependencies,
    /// It syncs manually, and a revision waits for that.
    Manual,
    /// It is a dry run: its changes are planned, and nothing is applied.
    DryRun,
    /// It is pinned to a revision that a person chose.
    Pinned,
    /// A sync goes on.
    Progressing,
    /// Something that does not keep it from being applied.
    Warning,
}

/// Why a service is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceReason {
    /// What kind of cause.
    pub kind: ServiceReasonKind,
    /// The cause, and for a cause that waiting does not help the next step: lower case, no full stop.
    pub message: String,
    /// Waiting does not help: somebody has to change something first.
    pub terminal: bool,
    /// When it ends by itself, where that is known.
    pub until: Option<DateTime<Utc>>,
}

/// Whether the agent of a cluster is connected to this console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPresence {
    /// The cluster's handle.
    pub cluster: String,
    /// It is.
    pub connected: bool,
    /// Its last sign of life; absent: it never gave one.
    pub seen_at: Option<DateTime<Utc>>,
}

impl AgentPresence {
    /// What to say of an agent that is away; nothing of one that is connected.
    pub fn words(&self) -> Option<String> {
        let Self { cluster, connected, seen_at } = self;
        match (connected, seen_at) {
            (true, _) => None,
            (false, None) => Some(format!("the agent of {cluster} has never connected")),
            (false, Some(at)) => {
                let at = at.format("%Y-%m-%d %H:%M:%S UTC");
                Some(format!("the agent of {cluster} is not connected (last seen {at})"))
            }
        }
    }
}

/// What a reason is found in.
#[derive(Debug, Clone, Copy)]
pub struct ReasonInput<'a> {
    /// The service.
    pub service: &'a Service,
    /// Its errors and warnings, the console's notes among them.
    pub errors: &'a [ServiceError],
    /// Its components.
    pub components: &'a [Component],
    /// Its sync.
    pub sync: &'a ServiceSync,
    /// Its cluster's agent; absent where the caller may not see the cluster.
    pub agent: Option<&'a AgentPresence>,
    /// What its windows say, where one holds it back.
    pub hold: Option<&'a WindowHold>,
}

/// The cause to tell first; nothing of a healthy service with nothing to tell.
pub fn service_reason(input: &ReasonInput<'_>) -> Option<ServiceReason> {
    let ReasonInput { service, errors, components, sync, agent, hold } = *input;
    let reason =
        |kind, message: String, terminal| Some(ServiceReason { kind, message, terminal, until: None });
    if let Some(words) = agent.and_then(AgentPresence::words) {
        return reason(ServiceReasonKind::Agent, words, false);
    }
    // What an agent found before the service changed may be mended by the change.
    // Deletions that wait for approval are an error of the sync as well: the approval says more.
    let is_approval = |error: &&ServiceError| sync.pending.is_some() && error.source == ServiceError::PRUNE;
    let found = errors.iter().filter(|error| !error.warning && !is_approval(error));
    let first = found.clone().find(|error| error.terminal).or_else(|| found.clone().next());
    if let Some(error) = first {
        let more = match found.count() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        let place = error.location.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        let message = format!("{}: {place}{}{more}", error.word(), error.message);
        let is_present = error.source == ServiceError::GIT || service.observed;
        return reason(ServiceReasonKind::Error, message, error.terminal && is_present);
    }
    // One of the revision before is over when its agent looks at this one.
    if let Some(PendingApproval { reason: why, .. }) = sync.pending.as_ref().filter(|_| service.observed) {
        return reason(ServiceReasonKind::Approval, format!("deletions wait for approval: {why}"), true);
    }
    if service.deleted_at.is_some() {
        return reason(ServiceReasonKind::Progressing, "its objects are being deleted".to_owned(), false);
    }
    if let Some(failed) = components.iter().find(|one| one.state == Some(ComponentState::Failed)) {
        let why = failed.message.as_deref().unwrap_or("failed");
        return reason(ServiceReasonKind::Component, format!("{}: {why}", failed.key), false);
    }
    if service.paused {
        let words = "paused: nothing is applied, reverted or deleted until it is resumed";
        return reason(ServiceReasonKind::Paused, words.to_owned(), true);
    }
    if let Some(pin) = &service.pin {
        match pin.until {
            PinUntil::Window => {
                let (message, until) = match hold {
                    Some(hold) => (hold.words(), hold.opens_at),
                    None => ("a sync window holds the newest revision back".to_owned(), None),
                };
                let kind = ServiceReasonKind::Window;
                return Some(ServiceReason { kind, message, terminal: false, until });
            }
            PinUntil::Dependencies => {
                let note = errors.iter().find(|error| error.source == ServiceError::DEPENDENCIES);
                let words = note.map_or("waiting for its dependencies", |note| note.message.as_str());
                return reason(ServiceReasonKind::Dependencies, words.to_owned(), false);
            }
            PinUntil::Release | PinUntil::NextCommit => {
                let waits = if pin.newest == service.revision_id { "" } else { "; a newer revision waits" };
                let words = format!("pinned by {}{waits}", pin.by);
                if service.status == ServiceStatus::Healthy {
                    return reason(ServiceReasonKind::Pinned, words, false);
                }
            }
        }
    }
    if service.dry_run && service.observed && service.status != ServiceStatus::Healthy {
        let words = "dry run: `plural cd services plan` shows what would change, and nothing is applied until \
                     `plural cd services update --dry-run=false`";
        return reason(ServiceReasonKind::DryRun, words.to_owned(), true);
    }
    if let Some(progress) = &sync.progress {
        if progress.step == SyncStep::Held && service.observed {
            let words = "a revision waits for `plural cd services sync`: the service syncs manually";
            return reason(ServiceReasonKind::Manual, words.to_owned(), true);
        }
        if let Some(waiting) = progress.waiting_for.first().filter(|_| service.observed) {
            let more = match progress.waiting_for.len() {
                1 => String::new(),
                count => format!(" (and {} more)", count - 1),
            };
            let wave = match (progress.waves > 1, progress.phase) {
                (true, Some(phase)) => format!(
                    "{} wave {} ({} of {} done), ",
                    phase.as_str(),
                    progress.wave,
                    progress.waves_done,
                    progress.waves
                ),
                _ => String::new(),
            };
            let words = format!("{wave}waiting for {}: {}{more}", waiting.object, waiting.why);
            return reason(ServiceReasonKind::Progressing, words, false);
        }
    }
    if let Some(warning) = errors.iter().find(|error| error.source != "pin") {
        return reason(ServiceReasonKind::Warning, format!("{}: {}", warning.source, warning.message), false);
    }
    if service.status == ServiceStatus::Healthy {
        return None;
    }
    let words = if service.sha.is_none() && service.rendering.managed_namespace.is_none() {
        "its sources are being read".to_owned()
    } else if !service.observed {
        "its agent is applying the newest revision".to_owned()
    } else {
        let late = components.iter().find(|one| one.state != Some(ComponentState::Running) || !one.synced);
        match late {
            Some(one) if !one.synced => format!("{} differs from git", one.key),
            Some(one) => {
                let why = one.message.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                format!("{} is not ready{why}", one.key)
            }
            None if components.is_empty()
                && sync.progress.as_ref().is_some_and(|progress| progress.step == SyncStep::Complete) =>
            {
                let words = "it has no objects: its folder renders to none";
                return reason(ServiceReasonKind::Error, words.to_owned(), true);
            }
            None => "nothing of it is applied yet".to_owned(),
        }
    };
    reason(ServiceReasonKind::Progressing, words, false)
}
