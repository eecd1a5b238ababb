//! Use cases by noun, authorisation, jobs. Knows no adapter: databases, git and blobs are ports that
//! `console` fills.
//!
//! # Guarantees
//! - Every use case passes [`plural_core::access::authorize`]: a store's lookup answers with a closed
//!   [`Guarded`], only [`Authorized`] handles open writes, and every such write carries its audit line ([`Audited`]).
//! - A request never waits for git: it validates, writes, and the feed wakes the jobs.
//! - An unchanged agent poll is answered from memory.

mod access;
mod agent;
mod agent_call;
mod api_deprecation;
mod app;
mod audit;
mod binding;
mod canary_gate;
mod cluster;
mod cluster_audit;
mod ctx;
mod dependency;
mod deploy_token;
mod feed;
mod fleet;
mod global_service;
mod group;
mod hashing;
mod helm_repository;
mod instance;
mod job;
mod jobs;
mod lease;
mod login;
mod managed_namespace;
mod many;
mod marks;
mod masking;
mod ports;
mod preview;
mod project;
mod project_limits;
mod proxy;
mod questions;
mod recorder;
mod recording;
mod rendering;
mod replica;
mod repository;
mod repository_reach;
mod repository_webhook;
mod seal;
mod secret;
mod service;
mod service_context;
mod service_file;
mod service_life;
mod service_metadata;
mod streams;
mod sync;
mod sync_report;
mod sync_window;
mod throttle;
mod token;
mod user;
mod webhook;

pub use access::{
    Act, Admin, Audited, Authorized, Bindable, Grant, Guarded, Home, Installation, Noun, Read, Write,
};
pub use agent::{
    AgentFacts, AgentHandle, AgentReport, AgentSync, ClusterData, PollAnswer, ReportedService, ServiceSpec,
};
pub use agent_call::{AgentCall, AgentCallKind};
pub use app::{App, Ports, Settings};
pub use binding::{BindingsChange, BoundSubject, SubjectNoun};
pub use cluster::CreatedCluster;
pub use ctx::{Clock, OpCtx, SystemClock};
pub use dependency::ServiceDeletion;
pub use deploy_token::{CreatedJoinToken, JOIN_TOKEN_PREFIX, JoinHandle, TokenStanding};
pub use fleet::{AgentHint, AgentHints, FeedCursor};
pub use global_service::RolloutAction;
pub use helm_repository::NewHelmAccess;
pub use job::{
    ClaimedJob, Job, JobClaimer, JobCount, JobEnd, JobEntry, JobFailure, JobFilter, JobStore, NewJob,
};
pub use jobs::{RenewServices, RenewedRepository, Reseal, Resealed, ResealedWith};
pub use lease::{Fence, JobClaim};
pub use login::FirstAdmin;
pub use ports::*;
pub use proxy::ProxyGrant;
pub use recorder::{Recorder, RecorderStopped, RecordingWriter};
pub use recording::NewRecordingPolicy;
pub use rendering::{RenderingValues, SealedValues, ServiceSecrets};
pub use repository::NewCredentials;
pub use repository_reach::NewReach;
pub use seal::{Sealed, Sealer};
pub use secret::{NewToken, TokenHash, hash_password, random, random_password, verify_password};
pub use service_life::{ServiceClone, feeds_agent_upgrade};
pub use sync_window::NewSyncWindow;
pub use token::{CreatedToken, TokenWish};
pub use user::NewPassword;
pub use webhook::{WebhookProvider, WebhookRequest};
