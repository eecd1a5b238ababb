//! The gRPC contract between agent and console, both ends.

/// Messages and stubs generated from `proto/agent.proto`.
#[expect(missing_docs, unreachable_pub, clippy::pedantic, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("plural.agent.v1");
}
