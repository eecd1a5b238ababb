//! Jobs: background work that a transaction enqueues and a replica runs afterwards.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::ids::JobId;
use crate::page::Keyed;

/// A job as an administrator sees it. Its key says what it works on; its payload stays in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundJob {
    /// Its id. A job that is enqueued again keeps it, until it is done.
    pub id: JobId,
    /// What is to be done: `renew_services`.
    pub kind: String,
    /// What it works on. There is one job of a kind and a key.
    pub key: String,
    /// What it is doing.
    pub state: JobState,
    /// Attempts since it was last enqueued.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// When it runs, or ran, at the earliest; by the database's clock.
    pub run_after: DateTime<Utc>,
    /// When it was first enqueued.
    pub created_at: DateTime<Utc>,
    /// When it was last enqueued, or an attempt ended.
    pub updated_at: DateTime<Utc>,
}

impl Keyed for BackgroundJob {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// What a job is doing. One that is done is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// It runs when it is due.
    Waiting,
    /// A replica runs it.
    Running,
    /// It failed for good. It runs again when an administrator retries it, or when it is enqueued again.
    Dead,
}

impl JobState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Running, Self::Dead];

    /// The word in the database and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }

    /// The state of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_parse_back() {
        for state in JobState::ALL {
            assert_eq!(JobState::parse(state.as_str()), Some(state));
        }
        assert_eq!(JobState::parse("done"), None);
    }
}
