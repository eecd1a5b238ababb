//! Shells, attached terminals and forwarded ports: after 101, raw bytes both ways.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::BytesMut;
use plural_app::proxy::ProxyGrant;
use plural_core::ids::RecordingId;
use plural_core::recording::RecordingEnd;
use plural_kit::ShutdownSignal;
use plural_tunnel::proxy::{Receiving, Sending};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf};

use super::{
    Client, OnUpgrade,
    answer::Refusal,
    body::AuditGuard,
    limits::Permit,
    recording::{self, Begun, Stop, Tap},
};

/// Bytes that are read at a time.
const PIECE: usize = 32 << 10;
/// How long a client may take to hear why its shell was ended.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long the last piece of a recording may take to be stored.
const LAST_PIECE: Duration = Duration::from_secs(45);
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
    /// Of a shell that is recorded.
    pub(super) recording: Option<Begun>,
    pub(super) place: Permit,
}

/// How raw bytes came to their end.
enum Over {
    /// A side has said all, is gone, or may not go on.
    Closed,
    /// They are recorded and cannot be read.
    Unreadable,
    /// They are recorded, and the recording has ended.
    Recording(RecordingEnd),
}

impl Raw {
    /// Which recording is made of it.
    pub(super) fn recording_id(&self) -> Option<RecordingId> {
        self.recording.as_ref().map(|begun| begun.writer().id())
    }

    /// Passes bytes on until the cluster's side ends, the client is gone, access is revoked, the console stops, or what has
    /// to be recorded cannot be.
    pub(super) async fn run(self, mut told: AuditGuard, closing: ShutdownSignal) {
        let Self { on_upgrade, sending, mut receiving, grant, recording, place: _place } = self;
        let (up_tap, mut down_tap, writer) = match recording.map(Begun::apart) {
            Some((up, down, writer)) => (Some(up), Some(down), Some(writer)),
            None => (None, None, None),
        };
        let mut writing = writer.map(|writer| Box::pin(writer.run()));
        let revoked = grant.revoked();
        let client = tokio::select! {
            client = on_upgrade => client.ok(),
            () = revoked.cancelled() => None,
            () = closing.requested() => None,
        };
        let mut up_tap = up_tap;
        if let Some(client) = client {
            let (read, mut write) = tokio::io::split(Client::new(client));
            // How many bytes end the frame that the client has the beginning of.
            let mut owed = Some(0);
            let up = up(read, sending, up_tap.take(), told.received());
            let down = async {
                while let Some(piece) = receiving.piece().await {
                    let Ok(piece) = piece else { break };
                    if let Some(tap) = &mut down_tap {
                        match tap.take(&piece).await {
                            Ok(()) => {}
                            Err(Stop::Unreadable) => return Over::Unreadable,
                            Err(Stop::Stopped) => return std::future::pending().await,
                        }
                    }
                    owed = None;
                    if write.write_all(&piece).await.is_err() || write.flush().await.is_err() {
                        return Over::Closed;
                    }
                    owed = down_tap.as_ref().and_then(Tap::owed);
                    told.sent(piece.len());
                }
                let _ = write.shutdown().await;
                Over::Closed
            };
            let over = tokio::select! {
                over = up => over,
                over = down => over,
                () = revoked.cancelled() => Over::Closed,
                () = closing.requested() => Over::Closed,
                end = ended(&mut writing) => Over::Recording(end),
            };
            let why = match over {
                Over::Closed => None,
                Over::Unreadable => Some(recording::UNREADABLE),
                Over::Recording(end) => {
                    writing = None;
                    Some(recording::reason(end))
                }
            };
            if let (Some(why), Some(owed)) = (why, owed) {
                let said = async {
                    write.write_all(&recording::last_words(owed, why)).await?;
                    write.shutdown().await
                };
                let _ = tokio::time::timeout(LAST_WORDS, said).await;
            }
        }
        // Whoever hands something to the writer must be gone before it can end.
        drop((up_tap, down_tap));
        if let Some(writing) = writing
            && tokio::time::timeout(LAST_PIECE, writing).await.is_err()
        {
            tracing::error!("the end of a recording could not be stored in time");
        }
    }
}

/// Bytes of the client.
async fn up(
    mut read: ReadHalf<Client>,
    mut sending: Sending,
    mut tap: Option<Tap>,
    received: Arc<AtomicU64>,
) -> Over {
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
                let piece = buffer.split().freeze();
                if let Some(tap) = &mut tap {
                    match tap.take(&piece).await {
                        Ok(()) => {}
                        Err(Stop::Unreadable) => return Over::Unreadable,
                        Err(Stop::Stopped) => return std::future::pending().await,
                    }
                }
                if sending.send(piece).await.is_err() {
                    return std::future::pending().await;
                }
            }
            Err(_) => return Over::Closed,
        }
    }
}

/// When the recording has ended, if there is one.
async fn ended(writing: &mut Option<Pin<Box<impl Future<Output = RecordingEnd>>>>) -> RecordingEnd {
    match writing {
        Some(writing) => writing.as_mut().await,
        None => std::future::pending().await,
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
