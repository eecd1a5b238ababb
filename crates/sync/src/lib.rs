//! Objects and a cluster: plan, apply, prune, drift, health. The only code that decides writes to a
//! workload cluster.
//!
//! # Guarantees
//! - An object is recorded in the service's inventory before it is first written; the record stays
//!   until the API server has confirmed that the object is gone.
//! - Nothing is deleted that the inventory does not name and that does not carry our mark.
//! - An object that is as it should be costs no request. Drift is seen by watches on our own label.
//! - An object of another service is never written.
//!
//! # Assumptions
//! One [`Engine`] at a time acts on a cluster; whoever starts it holds a lease.

mod api;
mod apply;
mod custom_health;
mod discovery;
mod engine;
mod health;
mod inventory;
mod key;
mod limiter;
mod order;
mod ownership;
mod prepare;
mod prune;
mod state;
mod target;
mod tree;
mod watch;

pub use api::{ApiError, FIELD_MANAGER};
pub use engine::{Engine, EngineOptions};
pub use health::{Health, HealthStatus, Rule, Rules, ScriptError, health, run_script};
pub use key::{GroupKind, ObjectKey};
pub use ownership::{
    HASH_ANNOTATION, MANAGED_BY, MANAGED_BY_LABEL, SERVICE_ID_ANNOTATION, TRACKING_ANNOTATION,
};
pub use state::Change;
pub use target::{Component, Drift, Outcome, Part, Problem, Retry, Target};
pub use tree::Child;
