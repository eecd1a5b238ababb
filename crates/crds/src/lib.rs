//! The kinds that we add to clusters: their definitions, as they are applied.
//!
//! Who acts on a kind reads it where it acts; nothing here knows a cluster.

mod custom_health;

use serde_json::Value;

pub use custom_health::custom_health;

/// Group of the kinds that people write for an agent.
pub const DEPLOYMENTS_GROUP: &str = "deployments.plural.sh";

/// The definitions of all kinds that an agent acts on, in the order in which they are applied.
pub fn agent_definitions() -> Vec<Value> {
    vec![custom_health()]
}
