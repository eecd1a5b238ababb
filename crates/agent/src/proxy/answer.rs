//! Answers on their way back to the console.

use std::io;

use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::{
    body::{Body as _, Incoming},
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use plural_tunnel::{
    proxy::{Receiving, Sending, forwarded_response_headers},
    v1::{ProxyHead, ProxyHeader},
};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// As much of a body as goes with its head, when it is there at once.
const WITH_HEAD: usize = 16 << 10;
/// Raw bytes that are read at a time.
const RAW: usize = 32 << 10;

/// An answer of the agent itself, as a Kubernetes client understands it.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    message: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }
}

pub(super) async fn refuse(mut sending: Sending, refusal: Refusal) {
    let Refusal { status, message } = refusal;
    let reason = match status {
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::BAD_REQUEST => "BadRequest",
        StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
        _ => "ServiceUnavailable",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": status.as_u16(),
    });
    let head = ProxyHead {
        status: u32::from(status.as_u16()),
        headers: vec![ProxyHeader { name: "content-type".into(), value: b"application/json".to_vec() }],
        data: Bytes::from(body.to_string()),
        end: true,
    };
    let rest = sending.begin(head);
    let _ = send_rest(&mut sending, rest).await;
}

/// Passes an answer on, piece by piece as it comes.
pub(super) async fn stream(mut sending: Sending, response: Response<Incoming>) {
    let (parts, mut body) = response.into_parts();
    let mut data = BytesMut::new();
    let mut end = body.is_end_stream();
    let mut broken = false;
    // A small answer is one frame: what is there already goes with its head.
    while !end && data.len() < WITH_HEAD {
        match body.frame().now_or_never() {
            None => break,
            Some(None) => end = true,
            Some(Some(Ok(frame))) => {
                if let Ok(piece) = frame.into_data() {
                    data.extend_from_slice(&piece);
                }
                end = body.is_end_stream();
            }
            Some(Some(Err(_))) => {
                broken = true;
                break;
            }
        }
    }
    if broken {
        return sending.reset("the API server broke its answer off");
    }
    let head = ProxyHead {
        status: u32::from(parts.status.as_u16()),
        headers: forwarded_response_headers(&parts.headers),
        data: data.freeze(),
        end,
    };
    let rest = sending.begin(head);
    if end {
        let _ = send_rest(&mut sending, rest).await;
        return;
    }
    if sending.send(rest).await.is_err() {
        return;
    }
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                let Ok(piece) = frame.into_data() else { continue };
                if sending.send(piece).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "the API server broke an answer off");
                return sending.reset("the API server broke its answer off");
            }
        }
    }
    let _ = sending.finish().await;
}

/// What did not fit beside the head, and the end behind it.
async fn send_rest(sending: &mut Sending, rest: Bytes) -> Result<(), plural_tunnel::proxy::Broken> {
    if rest.is_empty() {
        return Ok(());
    }
    sending.send(rest).await?;
    sending.finish().await
}

/// Passes raw bytes both ways until the API server's side ends.
pub(super) async fn upgraded(
    mut sending: Sending,
    response: Response<()>,
    upgraded: Upgraded,
    mut receiving: Receiving,
) {
    let head = ProxyHead {
        status: u32::from(response.status().as_u16()),
        headers: forwarded_response_headers(response.headers()),
        data: Bytes::new(),
        end: false,
    };
    let _ = sending.begin(head);
    let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
    let up = async move {
        while let Some(piece) = receiving.piece().await {
            let Ok(piece) = piece else { return };
            if write.write_all(&piece).await.is_err() || write.flush().await.is_err() {
                // It listens no more. What it said last is still on its way.
                break;
            }
        }
        // The client is done; the API server may still have something to say.
        let _ = write.shutdown().await;
        std::future::pending::<()>().await;
    };
    let down = async move {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(RAW);
            match read.read_buf(&mut buffer).await {
                Ok(0) => {
                    let _ = sending.finish().await;
                    return;
                }
                Ok(_) => {
                    if sending.send(buffer.split().freeze()).await.is_err() {
                        return;
                    }
                }
                // A server that closes without TLS's own goodbye has said all that it had to say: a reset would take back
                // what of it is still on its way.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let _ = sending.finish().await;
                    return;
                }
                Err(_) => return sending.reset("the API server's connection broke"),
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}
