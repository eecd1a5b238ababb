//! What tests stand on: Kubernetes clusters (simulated and real), temporary databases, git remotes,
//! a TCP fault proxy, and a way to wait for a value.
//!
//! Everything here is owned by the value that is returned: dropping it stops the processes and removes
//! the files, and so does the end of the test process, even when that is `kill -9`.
//!
//! Expensive servers are shared by a whole test run. `cargo xtask test` starts one real control plane and
//! one PostgreSQL server and names them in the environment ([`real::SHARED_ENV`], [`postgres::SHARED_ENV`]);
//! a test binary that runs without them starts its own when a test first asks.

mod aws_kms_server;
mod azure_vault_server;
mod background;
mod balancer;
mod browser;
pub mod cluster;
pub mod database;
mod exclusive;
pub mod fake_issuer;
pub mod fault_proxy;
mod folder;
pub mod git_remote;
pub mod git_server;
mod gitea;
mod golden;
mod google_kms_server;
mod keycloak;
mod missing;
pub mod node;
pub mod oci_registry;
mod port;
pub mod postgres;
pub mod process;
mod programs;
pub mod real;
mod real_issuer;
mod run;
mod s3_server;
mod scm_server;
mod small_disk;
mod small_memory;
mod soft_authenticator;
mod thief;
mod transit_server;
mod vault_server;
mod wait;
pub mod web_folder;
pub mod webhook;

pub use aws_kms_server::AwsKmsServer;
pub use azure_vault_server::AzureVaultServer;
pub use balancer::Balancer;
pub use browser::{PasskeyVisit, browse_with_passkeys};
pub use cluster::{Backend, TestCluster};
pub use database::TestDatabase;
pub use exclusive::{EXCLUSIVE_ENV, Exclusive, exclusive, exclusive_blocking};
pub use fake_issuer::FakeIssuer;
pub use fault_proxy::FaultProxy;
pub use folder::OwnedFolder;
pub use git_remote::{CommitBuilder, GitRemote};
pub use git_server::GitServer;
pub use gitea::{Deliveries, Gitea, GiteaDoor, GiteaRepository, Unanswered};
pub use golden::{WRITE_ENV, golden_file};
pub use google_kms_server::GoogleKmsServer;
pub use keycloak::Keycloak;
pub use missing::{BACKENDS_ENV, COMPARED_ENV, Missing, NOT_RUN_ENV, note_compared};
pub use oci_registry::OciRegistry;
pub use port::HeldAddress;
pub use programs::{PROGRAMS_ENV, corpus_or_report, find_program, program_folders, program_or_report};
pub use real_issuer::RealIssuer;
pub use run::{CaseOutcome, run_case, run_case_within};
pub use s3_server::S3Server;
pub use scm_server::{ScmDialect, ScmMood, ScmServer};
pub use small_disk::SmallDisk;
pub use small_memory::SmallMemory;
pub use soft_authenticator::SoftAuthenticator;
pub use thief::Thief;
pub use transit_server::TransitServer;
pub use vault_server::{VaultMood, VaultRole, VaultSeen, VaultServer};
pub use wait::{Probe, eventually};
pub use web_folder::WebFolder;
pub use webhook::Webhook;
