//! What a person says of canaries that wait, and what came of it.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::sync::ObjectRef;

/// For how long a word holds that nobody took: who comes back later may find another step waiting, or another canary.
pub const PROMOTION_LASTS: TimeDelta = TimeDelta::minutes(10);

/// What a person says of canaries that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promotion {
    /// They go on.
    Proceed,
    /// They go back to what was before.
    Rollback,
}

/// A word to a service's canaries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromotionRequest {
    /// What was done of one id is not done again.
    pub id: Uuid,
    /// What is said.
    pub promotion: Promotion,
    /// Only to these; to all when empty.
    #[serde(default)]
    pub objects: Vec<ObjectRef>,
    /// When it was said.
    pub at: DateTime<Utc>,
    /// Gates of Flagger's canaries that were opened with it.
    #[serde(default)]
    pub gates: u32,
}

impl PromotionRequest {
    /// Whether it may still be told.
    pub fn holds(&self, now: DateTime<Utc>) -> bool {
        now - self.at < PROMOTION_LASTS
    }
}

/// What came of a word to canaries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promoted {
    /// Of which request.
    pub id: String,
    /// Why some were not told; empty when all were.
    #[serde(default)]
    pub problems: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_word_does_not_hold() {
        let at = DateTime::UNIX_EPOCH;
        let said = PromotionRequest {
            id: Uuid::nil(),
            promotion: Promotion::Proceed,
            objects: Vec::new(),
            at,
            gates: 0,
        };
        assert!(said.holds(at) && said.holds(at + TimeDelta::minutes(9)));
        assert!(!said.holds(at + PROMOTION_LASTS));
    }
}
