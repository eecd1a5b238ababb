//! Objects and a cluster: plan, apply, prune, drift, health. The only code that decides writes to a
//! workload cluster.
//!
//! # Guarantees
//! - An object is recorded in the service's inventory before it is first written; the record stays
//!   until the API server has confirmed that the object is gone.
//! - Nothing is deleted that the inventory does not name and that does not carry our mark.
//! - An object that is as it should be costs no request. Drift is seen by watches on our own label.
//! - An object of another service is never written.
//! - A hook whose end is noted in the inventory is not run again until its manifest changes.
//!
//! # Assumptions
//! One [`Engine`] at a time acts on a cluster; whoever starts it holds a lease.

mod api;
mod budget;
mod changed;
mod custom_health;
mod diff;
mod directive;
mod discovery;
mod engine;
mod fields;
mod health;
mod hook;
mod inventory;
mod judge;
mod key;
mod lacking;
mod limiter;
mod limits;
mod migrate;
mod normalize;
mod order;
mod ownership;
mod phase;
mod plan;
mod pointer;
mod prepare;
mod preview;
mod promote;
mod prune;
mod reference;
mod run;
mod state;
mod target;
mod tree;
mod watch;
mod write;

pub use api::{ApiError, FIELD_MANAGER};
pub use diff::FieldChange;
pub use engine::{Engine, EngineOptions};
pub use health::{Health, HealthStatus, Rule, Rules, ScriptError, health, run_script};
pub use inventory::APPROVED_PRUNE_ANNOTATION;
pub use key::{GroupKind, ObjectKey};
pub use limits::{Bounds, Limits};
pub use ownership::{
    HASH_ANNOTATION, MANAGED_BY, MANAGED_BY_LABEL, SERVICE_ID_ANNOTATION, TRACKING_ANNOTATION,
};
pub use phase::Phase;
pub use plan::{Action, PlannedObject, SyncPlan};
pub use reference::Resolved;
pub use state::Change;
pub use target::{
    Component, Drift, DriftEvent, DriftKind, HookResult, Outcome, Part, PendingApproval, Problem, Progress,
    ProgressStep, Promoted, Promotion, PromotionAction, Request, Retry, Target,
};
pub use tree::Child;
