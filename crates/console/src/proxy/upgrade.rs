//! Shells, attached terminals and forwarded ports: after 101, raw bytes both ways.

use std::sync::{Arc, atomic::Ordering};

use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::BytesMut;
use plural_app::ProxyGrant;
use plural_tunnel::proxy::{Receiving, Sending};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Client, OnUpgrade, answer::Refusal, body::Told, limits::Place};

/// Bytes that are read at a time.
const PIECE: usize = 32 << 10;
/// What a connection may become: the protocols of Kubernetes' clients.
const PROTOCOLS: [&str; 2] = ["websocket", "SPDY/3.1"];

/// What the client wants its connection to become, if anything.
pub(super) fn wanted(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let asks = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|option| option.trim().eq_ignore_ascii_case("upgrade"));
    let mut values = headers.get_all(header::UPGRADE).iter();
    let (Some(value), true) = (values.next(), asks) else { return Ok(None) };
    let named = value.to_str().unwrap_or_default().trim();
    let known = PROTOCOLS.iter().find(|protocol| protocol.eq_ignore_ascii_case(named));
    match (known, values.next()) {
        (Some(known), None) => Ok(Some((*known).to_owned())),
        _ => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "a connection can become a websocket or speak SPDY/3.1, and nothing else",
        )),
    }
}

/// The head of the answer that agrees.
pub(super) fn head(head: Response<()>, protocol: &str) -> Result<Response<()>, Refusal> {
    let mut head = head;
    let protocol = HeaderValue::from_str(protocol)
        .map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "the protocol cannot be named"))?;
    head.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    head.headers_mut().insert(header::UPGRADE, protocol);
    Ok(head)
}

/// A connection that is about to carry raw bytes.
pub(super) struct Raw {
    pub(super) on_upgrade: OnUpgrade,
    pub(super) sending: Sending,
    pub(super) receiving: Receiving,
    pub(super) grant: Arc<ProxyGrant>,
    pub(super) place: Place,
}

impl Raw {
    /// Passes bytes on until the cluster's side ends, the client is gone, or access is revoked.
    pub(super) async fn run(self, mut told: Told) {
        let Self { on_upgrade, mut sending, mut receiving, grant, place: _place } = self;
        let revoked = grant.revoked();
        let client = tokio::select! {
            client = on_upgrade => client,
            () = revoked.cancelled() => return,
        };
        let Ok(client) = client else { return };
        let (mut read, mut write) = tokio::io::split(Client::new(client));
        let received = told.received();
        let up = async move {
            let mut buffer = BytesMut::new();
            loop {
                buffer.reserve(PIECE);
                match read.read_buf(&mut buffer).await {
                    // The client says nothing more and may still listen.
                    Ok(0) => {
                        let _ = sending.finish().await;
                        return std::future::pending().await;
                    }
                    Ok(bytes) => {
                        received.fetch_add(bytes as u64, Ordering::Relaxed);
                        if sending.send(buffer.split().freeze()).await.is_err() {
                            return std::future::pending().await;
                        }
                    }
                    Err(_) => return,
                }
            }
        };
        let down = async {
            while let Some(piece) = receiving.piece().await {
                let Ok(piece) = piece else { break };
                if write.write_all(&piece).await.is_err() || write.flush().await.is_err() {
                    return;
                }
                told.sent(piece.len());
            }
            let _ = write.shutdown().await;
        };
        tokio::select! {
            () = up => {}
            () = down => {}
            () = revoked.cancelled() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[(&'static str, &'static str)]) -> HeaderMap {
        values
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn what_a_connection_may_become() {
        let told = |values: &[(&'static str, &'static str)]| {
            wanted(&headers(values)).map_err(|refusal| refusal.status().as_u16())
        };
        let asks = ("connection", "keep-alive, Upgrade");
        assert_eq!(told(&[asks, ("upgrade", "WebSocket")]), Ok(Some("websocket".into())));
        assert_eq!(told(&[asks, ("upgrade", "SPDY/3.1")]), Ok(Some("SPDY/3.1".into())));
        assert_eq!(told(&[("upgrade", "websocket")]), Ok(None));
        assert_eq!(told(&[asks]), Ok(None));
        assert_eq!(told(&[asks, ("upgrade", "h2c")]), Err(400));
        assert_eq!(told(&[asks, ("upgrade", "websocket"), ("upgrade", "h2c")]), Err(400));
    }
}
