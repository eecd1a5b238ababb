//! Who calls is decided before a byte of a call's body is read, and what may follow is bounded by the method.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use futures::future::{Either, Ready, ready as done};
use http::{HeaderMap, Request, Response, Version, header};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;
use tonic::{Status, codegen::Service, server::NamedService};

/// Bytes of a call that asks: a cursor, a digest.
const QUESTION: usize = 64 << 10;
/// Bytes of a report. Agents report in batches; no honest batch is larger.
pub(crate) const REPORT: usize = 16 << 20;
/// How long the body of a call with one message may take to arrive.
const PATIENCE: Duration = Duration::from_mins(1);
/// What stands before each message.
const PREFIX: usize = 5;

/// Decides who may call.
pub trait Authenticator: Clone {
    /// What handlers find of the caller among a request's extensions.
    type Caller: Clone + Send + Sync + 'static;

    /// The caller, by the head of the request alone.
    ///
    /// # Errors
    /// What the caller is answered; nothing of the body is read then.
    fn admit(
        &self,
        path: &str,
        headers: &HeaderMap,
        extensions: &http::Extensions,
    ) -> Result<Self::Caller, Status>;
}

/// A gRPC service behind a [`Authenticator`].
#[derive(Debug, Clone)]
pub struct Gate<S, K> {
    inner: S,
    keeper: K,
}

impl<S, K> Gate<S, K> {
    /// Nobody comes to `inner` whom `keeper` does not admit.
    pub fn new(inner: S, keeper: K) -> Self {
        Self { inner, keeper }
    }
}

impl<S: NamedService, K> NamedService for Gate<S, K> {
    const NAME: &'static str = S::NAME;
}

impl<S, K, B> Service<Request<B>> for Gate<S, K>
where
    S: Service<Request<BoundedBody<B>>, Response = Response<tonic::body::Body>>,
    K: Authenticator,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<Ready<Result<S::Response, S::Error>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if request.version() < Version::HTTP_2 {
            return Either::Left(done(Ok(not_spoken())));
        }
        match self.keeper.admit(request.uri().path(), request.headers(), request.extensions()) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                let bound = bound(request.uri().path());
                Either::Right(self.inner.call(request.map(|body| BoundedBody::new(body, bound, PATIENCE))))
            }
            Err(status) => Either::Left(done(Ok(status.into_http()))),
        }
    }
}

/// gRPC needs HTTP/2: its trailers and its streams in both directions.
fn not_spoken() -> Response<tonic::body::Body> {
    let told = "this is gRPC, which is spoken over HTTP/2 (or over HTTP/2 inside a WebSocket, at /agent/v1/connect)\n";
    let mut response = Response::new(tonic::body::Body::new(http_body_util::Full::from(told)));
    *response.status_mut() = http::StatusCode::HTTP_VERSION_NOT_SUPPORTED;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    // What the body would have said is not waited for.
    headers.insert(header::CONNECTION, http::HeaderValue::from_static("close"));
    response
}

/// The bytes of a method's one message, and its prefix; `None` where many messages come, each of which is bounded by itself.
fn bound(path: &str) -> Option<usize> {
    match path.rsplit('/').next().unwrap_or_default() {
        "Stream" | "Serve" => None,
        "Report" => Some(REPORT + PREFIX),
        // Whatever is added asks for little until somebody decides otherwise here.
        _ => Some(QUESTION + PREFIX),
    }
}

/// A body that ends with an error when it is too long or takes too long.
#[derive(Debug)]
pub struct BoundedBody<B> {
    inner: B,
    left: Option<usize>,
    patience: Duration,
    /// Set when the body was first waited for: most are there with their head.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<B> BoundedBody<B> {
    fn new(inner: B, bound: Option<usize>, patience: Duration) -> Self {
        Self { inner, left: bound, patience, deadline: None }
    }
}

impl<B> Body for BoundedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let frame = match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Ready(frame) => frame,
            Poll::Pending if this.left.is_none() => return Poll::Pending,
            Poll::Pending => {
                let deadline =
                    this.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(this.patience)));
                ready!(deadline.as_mut().poll(cx));
                let told = format!("the request did not arrive within {:.0?}", this.patience);
                return Poll::Ready(Some(Err(Status::deadline_exceeded(told))));
            }
        };
        let frame = match frame {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(Status::from_error(error.into())))),
            Some(Ok(frame)) => frame,
        };
        if let (Some(left), Some(data)) = (&mut this.left, frame.data_ref()) {
            let Some(rest) = left.checked_sub(data.remaining()) else {
                let told = "the request has more bytes than this method takes";
                return Poll::Ready(Some(Err(Status::resource_exhausted(told))));
            };
            *left = rest;
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full, StreamBody};
    use tonic::Code;

    use super::*;
    use crate::METHODS;

    const SHORT: Duration = Duration::from_millis(50);

    async fn end<B>(body: B, bound: Option<usize>) -> Result<usize, Code>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let read = BoundedBody::new(body, bound, SHORT).collect().await;
        read.map(|all| all.to_bytes().len()).map_err(|status| status.code())
    }

    #[tokio::test]
    async fn a_body_is_as_long_as_it_may_be_and_comes_in_time() {
        let full = |length: usize| Full::new(Bytes::from(vec![0; length]));
        assert_eq!(end(full(69), Some(69)).await, Ok(69));
        assert_eq!(end(full(70), Some(69)).await, Err(Code::ResourceExhausted));
        assert_eq!(end(full(70), None).await, Ok(70));
        let never = || StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Status>>());
        assert_eq!(end(never(), Some(69)).await, Err(Code::DeadlineExceeded));
        let stream = tokio::time::timeout(SHORT * 4, end(never(), None)).await;
        assert!(stream.is_err(), "a stream may be silent for as long as its own rules say");
    }

    #[test]
    fn every_method_has_its_bound() {
        for method in METHODS {
            assert_eq!(bound(method.path).is_none(), method.client_streams, "{method:?}");
        }
        assert_eq!(bound("/plural.agent.v1.AgentService/Report"), Some(REPORT + PREFIX));
        assert_eq!(bound("/plural.agent.v1.AgentService/Poll"), Some(QUESTION + PREFIX));
        assert_eq!(bound("/plural.agent.v1.AgentService/Unknown"), Some(QUESTION + PREFIX));
    }
}
