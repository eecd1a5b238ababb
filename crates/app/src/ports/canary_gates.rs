//! What use cases need of a database for gates that canaries stand before. They are opened where a promotion is asked for.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::{GateQuestion, Result, ServiceId};

/// What a canary is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateAnswer {
    /// It may go through.
    Open,
    /// It waits.
    Shut,
    /// The service has no such canary.
    Unknown,
}

/// Gates.
#[async_trait]
pub trait CanaryGateStore: Send + Sync + 'static {
    /// Notes who stands before a gate, and answers whether it is open.
    ///
    /// # Errors
    /// `NotFound` when there is no such service any more.
    async fn gate_ask(
        &self,
        service: ServiceId,
        question: &GateQuestion,
        now: DateTime<Utc>,
    ) -> Result<GateAnswer>;
}
