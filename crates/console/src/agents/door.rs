//! Which agent calls, by the head of its request alone.

use std::sync::Arc;

use axum::http::{Extensions, HeaderMap};
use plural_app::{AgentCall, AgentCallKind, App};
use plural_kit::Visit;
use plural_tunnel::{Doorkeeper, bearer_token};
use tonic::Status;

use super::status;

/// Connections on which one cluster's agent was the first to show its token. An honest agent has one; another is made
/// while the old one has not been noticed to be gone.
const CONNECTIONS: usize = 16;

/// Lets agents in.
#[derive(Clone)]
pub(super) struct Door {
    app: Arc<App>,
}

impl Door {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self { app }
    }
}

impl Doorkeeper for Door {
    type Caller = AgentCall;

    fn admit(&self, path: &str, headers: &HeaderMap, extensions: &Extensions) -> Result<AgentCall, Status> {
        let agent = self.app.agent_authenticate(bearer_token(headers)?).map_err(status)?;
        if let Some(visit) = extensions.get::<Arc<Visit>>()
            && !visit.authenticated(agent.cluster_id().uuid().as_u128(), CONNECTIONS)
        {
            return Err(Status::resource_exhausted(
                "the agent of this cluster has too many connections open: is more than one agent running with its token?",
            ));
        }
        agent.call(kind(path)).map_err(|error| Status::resource_exhausted(error.to_string()))
    }
}

fn kind(path: &str) -> AgentCallKind {
    match path.rsplit('/').next().unwrap_or_default() {
        "Report" => AgentCallKind::Report,
        "Artifact" => AgentCallKind::Artifact,
        "Stream" => AgentCallKind::Stream,
        "Serve" => AgentCallKind::Channel,
        // Also what does not exist.
        _ => AgentCallKind::Poll,
    }
}
