//! The gRPC contract between agent and console, both ends.
//!
//! The agent dials with [`Console`]; the console implements [`v1::agent_service_server::AgentService`]
//! and mounts it through [`server()`]. Who is calling is decided by the bearer token alone
//! ([`bearer_token`]): no message names a cluster.

mod client;
mod codec;
pub mod contract_1;
mod dial;
mod digest;
mod gate;
pub mod proxy;
mod server;
mod websocket;
pub mod work;

pub use client::{ArtifactStream, Console, ConsoleOptions, HintStream, ProxyStream, TunnelError};
pub use codec::{BoundedCodec, BoundedDecoder, METHODS, Method, Weighed, weigh};
pub use dial::{Line, Transport};
pub use digest::{ArtifactDigest, DigestError};
pub use gate::{Authenticator, BoundedBody, Gate};
pub use server::{ARTIFACT_CHUNK_BYTES, AgentServer, artifact_chunks, bearer_token, proxy_server, server};
pub use websocket::{WEBSOCKET_PATH, WEBSOCKET_PROTOCOL, WebSocketIo, websocket_accept};

/// Messages and stubs generated from `proto/agent.proto` and what it imports.
#[expect(missing_docs, clippy::pedantic, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("plural.agent.v1");
}
