//! How many calls the agent of one cluster may have open.

use std::sync::atomic::Ordering;

use plural_core::{Error, Result};

use crate::agent::AgentHandle;

/// What an agent calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentCallKind {
    /// What changed.
    Poll,
    /// What happened. Each may hold 16 MiB.
    Report,
    /// Files of a service.
    Artifact,
    /// The stream of hints.
    Stream,
    /// Requests of people.
    Channel,
}

impl AgentCallKind {
    pub(crate) const COUNT: usize = 5;

    /// An honest agent has one of each, and as many artifacts as it renders at once. A line that broke without a
    /// word leaves one behind until it is noticed.
    const fn most(self) -> u32 {
        match self {
            Self::Poll => 16,
            Self::Report => 2,
            Self::Artifact => 64,
            Self::Stream | Self::Channel => 4,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Poll => "polls",
            Self::Report => "reports",
            Self::Artifact => "artifacts",
            Self::Stream => "streams",
            Self::Channel => "proxy channels",
        }
    }
}

/// One open call of an agent; dropped with it.
#[derive(Debug)]
pub struct AgentCall {
    agent: AgentHandle,
    kind: AgentCallKind,
}

impl AgentHandle {
    /// Counts a call as open.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when its agent has too many of the kind open.
    pub fn call(self, kind: AgentCallKind) -> Result<AgentCall> {
        // Counted first, so that calls at the same time do not all find the last place free.
        let open = self.calls(kind).fetch_add(1, Ordering::AcqRel);
        let call = AgentCall { agent: self, kind };
        if open < kind.most() {
            return Ok(call);
        }
        metrics::counter!("plural_agent_calls_refused_total").increment(1);
        Err(Error::unavailable(format!(
            "this cluster's agent already has {} {} open; check that only one agent uses its token",
            kind.most(),
            kind.name()
        )))
    }
}

impl AgentCall {
    /// Whose it is.
    pub fn agent(&self) -> &AgentHandle {
        &self.agent
    }
}

/// A copy among a request's extensions: it counts while it is there, whatever the limit says.
impl Clone for AgentCall {
    fn clone(&self) -> Self {
        self.agent.calls(self.kind).fetch_add(1, Ordering::AcqRel);
        Self { agent: self.agent.clone(), kind: self.kind }
    }
}

impl Drop for AgentCall {
    fn drop(&mut self) {
        self.agent.calls(self.kind).fetch_sub(1, Ordering::AcqRel);
    }
}
