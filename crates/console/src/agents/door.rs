//! Which agent calls, by the head of its request alone.

use std::sync::Arc;

use axum::http::{Extensions, HeaderMap};
use plural_app::App;
use plural_app::agent_call::{AgentCall, AgentCallKind};
use plural_app::deploy_token::JoinHandle;
use plural_kit::Visit;
use plural_tunnel::{Authenticator, bearer_token};
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

/// Who was let in.
#[derive(Clone)]
pub(super) enum Caller {
    /// An agent, with its call.
    Agent(AgentCall),
    /// Whoever knows a join token.
    Join(JoinHandle),
}

impl Authenticator for Door {
    type Caller = Caller;

    fn admit(&self, path: &str, headers: &HeaderMap, extensions: &Extensions) -> Result<Caller, Status> {
        let token = bearer_token(headers)?;
        // A join token opens the join, and a deploy token everything else.
        if path.ends_with("/Join") {
            let join = self.app.agent_join_authenticate(token).map_err(|_| {
                Status::unauthenticated(
                    "the join token is not valid: it was replaced, or its cluster was deleted",
                )
            })?;
            return Ok(Caller::Join(join));
        }
        let agent = self.app.agent_authenticate(token).map_err(status)?;
        if let Some(visit) = extensions.get::<Arc<Visit>>()
            && !visit.authenticated(agent.cluster_id().uuid().as_u128(), CONNECTIONS)
        {
            return Err(Status::resource_exhausted(
                "too many connections from this cluster's agent; check that only one agent uses its token",
            ));
        }
        let call = agent.call(kind(path)).map_err(|error| Status::resource_exhausted(error.to_string()))?;
        Ok(Caller::Agent(call))
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
