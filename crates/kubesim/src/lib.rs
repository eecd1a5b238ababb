//! An in-memory Kubernetes API server: for a first look without a cluster, for scale runs, for fast tests.
//!
//! A [`Sim`] holds any number of clusters, each on a port of its own, all on the caller's Tokio runtime. A cluster
//! speaks the Kubernetes API: discovery, OpenAPI, every built-in kind of the groups in `data/resources.json`, custom
//! resources, server-side apply, watches, RBAC. Controllers make workloads progress to ready, see [`annotations`].
//!
//! # Scope
//! Its API behaves as a real server's as far as the conformance suite in `crates/testkit` asks, which runs
//! against both. New behaviour comes with a case there; what no case asks for is not added.
//!
//! # What is not simulated
//! Admission webhooks and policies, expression rules in schemas, quotas, `port-forward`/`proxy` and anything over SPDY (answered
//! with 400), programs in containers (a Pod can be left to another kubelet: [`Cluster::ask_for_kubelet`]; `exec` knows a few commands and what an annotation says), conversion webhooks, protobuf
//! answers, disruption budgets on eviction, cron schedules.

mod auth;
mod bootstrap;
mod catalog;
mod cluster;
mod controllers;
mod convert;
mod crd;
mod decode;
mod defaults;
mod discovery;
mod events;
mod exec;
mod faults;
mod http;
mod identity;
mod kinds;
mod kubelet;
mod logs;
mod managed;
mod names;
mod openapi;
mod patch;
mod protobuf;
mod quantity;
mod request;
mod resource;
mod schema;
mod selector;
mod signer;
mod sim;
mod status;
mod store;
mod table;
mod validate;
mod verbs;
mod watch;

pub use auth::User;
pub use cluster::{Cluster, ClusterOptions};
pub use controllers::annotations;
pub use faults::{Audit, AuditKey, Fault, Faults};
pub use kubelet::Kubelet;
pub use request::RequestInfo;
pub use sim::{Sim, SimError};
