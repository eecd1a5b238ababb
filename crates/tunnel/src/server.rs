//! The console's end: limits and compression of the service, the token of a call, artifacts in pieces.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, stream};
use http::{HeaderMap, header};
use tonic::{Status, codec::CompressionEncoding, codegen::Service, server::NamedService};

use crate::{
    gate::REPORT,
    v1::{
        ArtifactChunk,
        agent_service_server::{AgentService, AgentServiceServer},
        proxy_service_server::{ProxyService, ProxyServiceServer},
    },
};

/// Size of the pieces an artifact travels in.
pub const ARTIFACT_CHUNK_BYTES: usize = 256 << 10;

/// A frame of the proxy holds 32 KiB of data, or the headers of one answer.
const MAX_FRAME_BYTES: usize = 1 << 20;

/// The tonic service for `service`, ready for a router: answers compressed with zstd where the
/// agent accepts it, requests bounded in size. Compressed requests are refused: agents send none, and a thousand
/// bytes could become millions.
pub fn server<S: AgentService>(service: S) -> AgentServer<S> {
    AgentServer(
        AgentServiceServer::new(service)
            .send_compressed(CompressionEncoding::Zstd)
            .max_decoding_message_size(REPORT),
    )
}

/// [`AgentServiceServer`], except that artifacts are sent as they are: they are compressed already, and compressing them once
/// more costs more than all the rest of sending them.
#[derive(Debug)]
pub struct AgentServer<S>(AgentServiceServer<S>);

impl<S> Clone for AgentServer<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> NamedService for AgentServer<S> {
    const NAME: &'static str = <AgentServiceServer<S> as NamedService>::NAME;
}

impl<S, B> Service<http::Request<B>> for AgentServer<S>
where
    AgentServiceServer<S>: Service<http::Request<B>>,
{
    type Response = <AgentServiceServer<S> as Service<http::Request<B>>>::Response;
    type Error = <AgentServiceServer<S> as Service<http::Request<B>>>::Error;
    type Future = <AgentServiceServer<S> as Service<http::Request<B>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        if request.uri().path().ends_with("/Artifact") {
            request.headers_mut().remove("grpc-accept-encoding");
        }
        self.0.call(request)
    }
}

/// The tonic service for channels of the proxy: nothing is compressed.
pub fn proxy_server<S: ProxyService>(service: S) -> ProxyServiceServer<S> {
    ProxyServiceServer::new(service).max_decoding_message_size(MAX_FRAME_BYTES)
}

/// The deploy token that a call carries.
///
/// # Errors
/// `UNAUTHENTICATED` when there is none; the message says how to send one.
pub fn bearer_token(headers: &HeaderMap) -> Result<&str, Status> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    values
        .next()
        // Of two, which one counts would be anybody's guess.
        .filter(|_| values.next().is_none())
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .map(str::trim)
        .filter(|token| !token.is_empty())
        .ok_or_else(|| Status::unauthenticated("send `authorization: Bearer <deploy token>`"))
}

/// `bytes` in pieces of [`ARTIFACT_CHUNK_BYTES`], in order.
pub fn artifact_chunks(bytes: impl Into<Bytes>) -> impl Stream<Item = Result<ArtifactChunk, Status>> + Send {
    stream::unfold(bytes.into(), |mut rest| async move {
        let data = rest.split_to(rest.len().min(ARTIFACT_CHUNK_BYTES));
        (!data.is_empty()).then_some((Ok(ArtifactChunk { data }), rest))
    })
}
