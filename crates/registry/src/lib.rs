//! Clients of chart repositories (HTTP) and OCI registries: which version is meant, its digest, and its verified bytes.
//!
//! ```text
//! Access + name + version ──Client::resolve──▶ Resolved (version, digest) ──Client::content──▶ bytes ──unpack──▶ Files
//!                                                                                               │
//!                                                          complete: missing dependencies ◀─────┘
//! ```
//!
//! # Guarantees
//! - Credentials go to the scheme, host and port of the repository that they were given for, and nowhere else: not along
//!   a redirect, not to a chart's address on another host.
//! - Every address is checked when it is connected to ([`Reach`]), so a name that resolves to something else the second
//!   time gains nothing.
//! - What has a digest is verified against it; what is too large is refused before it is held.
//! - One request at a time asks for the same thing, and one host has at most so many at once: a hung host delays itself.
//! - No error, log line or `Debug` text holds a credential or the query of an address.

mod access;
mod archive;
mod chart;
mod charts;
mod client;
mod cosign;
mod dependencies;
mod error;
mod flight;
mod http;
mod index;
mod kustomize;
mod oci;
mod provenance;
mod reach;

pub use access::{Access, Credentials};
pub use archive::{File, Files, Limits, unpack, unpack_chart, weight};
pub use chart::{ChartFile, Dependency};
pub use client::{Client, Content, Freshness, Kind, Options, Pin, Resolved, SignIn, Wanted};
pub use cosign::PublicKey;
pub use dependencies::{Lack, Loaded, Repositories, Room, Shelf, complete, missing};
pub use error::{Cause, Error, Result};
pub use http::Proxies;
pub use index::Index;
pub use kustomize::lacks_charts;
pub use plural_reach::{Lookup, Reach, SystemLookup};
pub use provenance::check_provenance;
