//! The same bytes inside WebSocket messages, where a network lets only those through.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use futures::{Sink, Stream};
use http::{HeaderMap, HeaderValue, header};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest as _,
        handshake::derive_accept_key,
        protocol::{Role, WebSocketConfig},
    },
};

/// Where the console takes such connections.
pub const WEBSOCKET_PATH: &str = "/agent/v1/connect";
/// What is inside: an HTTP/2 connection.
pub const WEBSOCKET_PROTOCOL: &str = "plural.agent.v1";
/// Bytes of one message, at most.
const MESSAGE: usize = 64 << 10;

/// A byte stream inside WebSocket messages.
#[derive(Debug)]
pub struct WebSocketIo<S> {
    socket: WebSocketStream<S>,
    rest: Bytes,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocketIo<S> {
    /// The agent's end: asks for it on a fresh connection.
    ///
    /// # Errors
    /// When the other side does not agree.
    pub async fn connect(stream: S, authority: &str) -> io::Result<Self> {
        let mut request =
            format!("ws://{authority}{WEBSOCKET_PATH}").into_client_request().map_err(io::Error::other)?;
        let protocol = HeaderValue::from_static(WEBSOCKET_PROTOCOL);
        request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        let (socket, _) =
            client_async_with_config(request, stream, Some(config())).await.map_err(io::Error::other)?;
        Ok(Self { socket, rest: Bytes::new() })
    }

    /// The console's end, after it agreed.
    pub async fn accept(stream: S) -> Self {
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config())).await;
        Self { socket, rest: Bytes::new() }
    }
}

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(16 * MESSAGE))
        .max_frame_size(Some(16 * MESSAGE))
        // Each message is written when it is flushed, which the bytes inside ask for.
        .write_buffer_size(MESSAGE)
        .max_write_buffer_size(4 * MESSAGE)
}

/// What to answer a request for such a connection with; `None` when it is none.
pub fn websocket_accept(headers: &HeaderMap) -> Option<HeaderValue> {
    let is = |name: &header::HeaderName, wanted: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|word| word.trim().eq_ignore_ascii_case(wanted))
    };
    let asks = is(&header::CONNECTION, "upgrade")
        && is(&header::UPGRADE, "websocket")
        && is(&header::SEC_WEBSOCKET_VERSION, "13")
        && is(&header::SEC_WEBSOCKET_PROTOCOL, WEBSOCKET_PROTOCOL);
    let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| asks)?;
    HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()
}

fn broken(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocketIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                None | Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed)) => {
                    return Poll::Ready(Ok(()));
                }
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
                Some(Ok(Message::Binary(bytes))) => self.rest = bytes,
                // Pings are answered by the socket itself; nothing else is ours.
                Some(Ok(_)) => {}
            }
        }
        let fits = self.rest.len().min(into.remaining());
        into.put_slice(self.rest.get(..fits).unwrap_or_default());
        self.rest.advance(fits);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocketIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(broken)?;
        let fits = bytes.len().min(MESSAGE);
        let message = Message::Binary(Bytes::copy_from_slice(bytes.get(..fits).unwrap_or_default()));
        Pin::new(&mut self.socket).start_send(message).map_err(broken)?;
        Poll::Ready(Ok(fits))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx).map_err(broken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.socket).poll_close(cx)) {
            Ok(()) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(broken(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn bytes_pass_both_ways_and_end() {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = tokio::spawn(async move {
            // The handshake, as the console's router would do it.
            let mut far = far;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(far.read_u8().await.unwrap());
            }
            let text = String::from_utf8(head).unwrap();
            let headers: HeaderMap = text
                .lines()
                .skip(1)
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| {
                    (name.parse::<header::HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
                })
                .collect();
            let accept = websocket_accept(&headers).unwrap();
            let answer = format!(
                "HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {}\r\n\
                 sec-websocket-protocol: {WEBSOCKET_PROTOCOL}\r\n\r\n",
                accept.to_str().unwrap()
            );
            far.write_all(answer.as_bytes()).await.unwrap();
            let mut io = WebSocketIo::accept(far).await;
            let mut all = Vec::new();
            let mut piece = vec![0; 10_000];
            while all.len() < 300_000 {
                let read = io.read(&mut piece).await.unwrap();
                all.extend_from_slice(&piece[..read]);
            }
            io.write_all(&all).await.unwrap();
            io.shutdown().await.unwrap();
        });
        let mut io = WebSocketIo::connect(near, "console").await.unwrap();
        let sent: Vec<u8> = (0..300_000_u32).map(|n| n as u8).collect();
        let (mut read, mut write) = tokio::io::split(&mut io);
        let mut back = Vec::new();
        let (written, got) = tokio::join!(
            async {
                write.write_all(&sent).await?;
                write.flush().await
            },
            read.read_to_end(&mut back)
        );
        written.unwrap();
        got.unwrap();
        assert_eq!(back, sent);
        server.await.unwrap();
    }

    #[test]
    fn only_what_asks_for_it_gets_it() {
        let headers = |values: &[(&'static str, &'static str)]| -> HeaderMap {
            values
                .iter()
                .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect()
        };
        let right = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", WEBSOCKET_PROTOCOL),
        ];
        assert_eq!(websocket_accept(&headers(&right)).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        for missing in 0..right.len() {
            let mut values = right.to_vec();
            values.remove(missing);
            assert!(websocket_accept(&headers(&values)).is_none(), "{missing}");
        }
    }
}
