//! What the throttle of logins needs of a database that several consoles share.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::Result;

/// How often something was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginTries {
    /// Tries that count as wrong.
    pub tries: u32,
    /// When the last one was.
    pub last: DateTime<Utc>,
    /// Until when no other is let in.
    pub until: DateTime<Utc>,
}

/// Changes what is counted; called once.
pub type LoginDecision<'a> = &'a mut (dyn FnMut(&mut [Option<LoginTries>; 4]) + Send);

/// Wrong passwords, counted over all replicas.
#[async_trait]
pub trait LoginStore: Send + Sync + 'static {
    /// Reads what is counted of four subjects, lets `decide` change it, and stores that. Nobody else reads or changes any
    /// of it meanwhile.
    async fn login_tries(&self, subjects: &[[u8; 32]; 4], decide: LoginDecision<'_>) -> Result<()>;
}
