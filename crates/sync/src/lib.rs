//! Objects and a cluster: plan, apply, prune, drift, health.
