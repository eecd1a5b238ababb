//! The console's end: limits and compression of the service, the token of a call, artifacts in pieces.

use futures::{Stream, stream};
use tonic::{Request, Status, codec::CompressionEncoding};

use crate::v1::{
    ArtifactChunk,
    agent_service_server::{AgentService, AgentServiceServer},
    proxy_service_server::{ProxyService, ProxyServiceServer},
};

/// Size of the pieces an artifact travels in.
pub const ARTIFACT_CHUNK_BYTES: usize = 256 << 10;

/// An agent reports in batches; no honest batch is larger.
const MAX_REQUEST_BYTES: usize = 16 << 20;

/// A frame of the proxy holds 32 KiB of data, or the headers of one answer.
const MAX_FRAME_BYTES: usize = 1 << 20;

/// The tonic service for `service`, ready for a router: answers compressed with zstd where the
/// agent accepts it, requests bounded in size.
pub fn server<S: AgentService>(service: S) -> AgentServiceServer<S> {
    AgentServiceServer::new(service)
        .send_compressed(CompressionEncoding::Zstd)
        .accept_compressed(CompressionEncoding::Zstd)
        .max_decoding_message_size(MAX_REQUEST_BYTES)
}

/// The tonic service for channels of the proxy: nothing is compressed.
pub fn proxy_server<S: ProxyService>(service: S) -> ProxyServiceServer<S> {
    ProxyServiceServer::new(service).max_decoding_message_size(MAX_FRAME_BYTES)
}

/// The deploy token that a call carries.
///
/// # Errors
/// `UNAUTHENTICATED` when there is none; the message says how to send one.
pub fn bearer_token<T>(request: &Request<T>) -> Result<&str, Status> {
    request
        .metadata()
        .get("authorization")
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .map(str::trim)
        .filter(|token| !token.is_empty())
        .ok_or_else(|| Status::unauthenticated("send `authorization: Bearer <deploy token>`"))
}

/// `bytes` in pieces of [`ARTIFACT_CHUNK_BYTES`], in order.
pub fn artifact_chunks(
    bytes: impl AsRef<[u8]> + Send + 'static,
) -> impl Stream<Item = Result<ArtifactChunk, Status>> + Send {
    stream::unfold((bytes, 0usize), |(bytes, start)| async move {
        let rest = bytes.as_ref().get(start..).filter(|rest| !rest.is_empty())?;
        let data = rest[..rest.len().min(ARTIFACT_CHUNK_BYTES)].to_vec();
        let next = start + data.len();
        Some((Ok(ArtifactChunk { data }), (bytes, next)))
    })
}
