//! What every use case is told first: who asks, in which request, what time it is, how long it may take.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use chrono::{DateTime, SubsecRound, Utc};
use plural_core::access::Actor;
use plural_core::ids::RequestId;

use crate::masking::MaskCache;
use crate::user::Verified;

/// Tells the time. Tests bring their own.
pub trait Clock: Send + Sync + 'static {
    /// Now, in whole microseconds (what both databases keep).
    fn now(&self) -> DateTime<Utc>;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(6)
    }
}

/// The context of one operation.
#[derive(Clone)]
pub struct OpCtx {
    actor: Actor,
    request_id: RequestId,
    clock: Arc<dyn Clock>,
    deadline: Option<Instant>,
    peer: Option<IpAddr>,
    masks: MaskCache,
    verified: Option<Verified>,
}

impl OpCtx {
    /// A context for one request of `actor`. `App::ctx` is the usual way to one.
    pub fn new(actor: Actor, clock: Arc<dyn Clock>) -> Self {
        Self {
            actor,
            request_id: RequestId::new(),
            clock,
            deadline: None,
            peer: None,
            masks: MaskCache::default(),
            verified: None,
        }
    }

    /// The same with a moment after which nobody waits for the answer.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The same with a request id that the caller already knows.
    #[must_use]
    pub fn with_request_id(mut self, request_id: RequestId) -> Self {
        self.request_id = request_id;
        self
    }

    /// The same with the address that the request came from.
    #[must_use]
    pub fn with_peer(mut self, peer: Option<IpAddr>) -> Self {
        self.peer = peer;
        self
    }

    /// The same, after the person showed that it is them.
    #[must_use]
    pub(crate) fn with_proof(mut self, verified: Verified) -> Self {
        self.verified = Some(verified);
        self
    }

    /// What the person showed that it is them with, where they did with the request.
    pub(crate) fn verified(&self) -> Option<&Verified> {
        self.verified.as_ref()
    }

    /// Who asks.
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// In which request.
    pub fn request_id(&self) -> RequestId {
        self.request_id
    }

    /// What time it is.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// From which address, if it came over a network.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// What hides secrets from who asks, as far as it was needed.
    pub(crate) fn masks(&self) -> &MaskCache {
        &self.masks
    }

    /// When nobody waits any more.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl std::fmt::Debug for OpCtx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpCtx")
            .field("actor", &self.actor)
            .field("request_id", &self.request_id)
            .finish_non_exhaustive()
    }
}
