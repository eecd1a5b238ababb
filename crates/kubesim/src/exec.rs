//! `pods/NAME/exec` and `pods/NAME/attach` over a WebSocket, on channels as Kubernetes' clients number them.
//!
//! Nothing runs: a handful of commands is simulated (see `program`), and an annotation of the Pod says what others print.

mod program;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message, Utf8Bytes};

use self::program::{Exit, Machine, Program, Streams};
use crate::cluster::Inner;
use crate::controllers::annotations;
use crate::http::reply::{self, Body};
use crate::logs::{self, Container};
use crate::request::RequestInfo;
use crate::status::ApiError;
use crate::verbs::Call;

/// Protocols that are spoken, best first, and whether their messages are base64.
const PROTOCOLS: [(&str, bool); 3] =
    [("v5.channel.k8s.io", false), ("v4.channel.k8s.io", false), ("base64.channel.k8s.io", true)];
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// A channel has ended; its number follows. New with version 5.
const ENDED: u8 = 255;
/// Bytes of one message of a client.
const MESSAGE: usize = 1 << 20;
/// Bytes of one message to it.
const PIECE: usize = 32 << 10;
/// Messages in either direction that wait to be taken.
const WAITING: usize = 8;
/// How long a client may take to hear how it ended.
const LAST: Duration = Duration::from_secs(5);

/// A connection that becomes a session when its answer is on its way; the connection's task runs it.
pub(crate) struct Session {
    socket: OnUpgrade,
    inner: Arc<Inner>,
    container: Arc<Container>,
    what: What,
    base64: bool,
    input: bool,
}

enum What {
    Exec(Program),
    Attach,
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// What a program says, in order.
#[derive(Debug)]
pub(crate) enum Said {
    Out(Bytes),
    Err(Bytes),
}

/// Answers a request for exec or attach; the session begins when the connection has changed its protocol.
///
/// # Errors
/// 404; 400 when the container is not named and there are several, is not known, or does not run; when no command is named,
/// nothing is to be passed, or the client speaks another protocol.
pub(crate) fn serve(
    inner: &Arc<Inner>,
    call: Call<'_>,
    headers: &HeaderMap,
    query: &str,
    upgrade: Option<OnUpgrade>,
) -> Result<(Response<Body>, Session), ApiError> {
    let info = call.info;
    let container = Arc::new(Container::find(inner, call)?);
    let phase = container.phase();
    if phase != "Running" {
        let verb = if info.subresource == "attach" { "attach to" } else { "exec into" };
        return Err(ApiError::bad_request(format!(
            "cannot {verb} a container in a completed pod; current phase is {phase}"
        )));
    }
    if !["stdin", "stdout", "stderr"].iter().any(|channel| info.flag(channel)) {
        return Err(ApiError::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    let command = RequestInfo::values(query, "command");
    let what = if info.subresource == "attach" {
        What::Attach
    } else if command.is_empty() {
        return Err(ApiError::bad_request("you must specify at least one command for the container"));
    } else {
        let told = container.annotation(annotations::EXEC);
        let told = serde_json::from_str(told).unwrap_or_default();
        let machine = Machine { host: info.name.clone(), tty: info.flag("tty"), told };
        What::Exec(Program { command, machine })
    };
    let is_websocket = headers
        .get(header::UPGRADE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.eq_ignore_ascii_case("websocket"));
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let (Some(socket), Some(key), true) = (upgrade, key, is_websocket) else {
        return Err(ApiError::bad_request(
            "unable to upgrade: this API server speaks WebSockets only (v5.channel.k8s.io, v4.channel.k8s.io), no SPDY",
        ));
    };
    let offered: Vec<&str> = headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(str::trim))
        .collect();
    let Some((protocol, base64)) = PROTOCOLS.into_iter().find(|(name, _)| offered.contains(name)) else {
        return Err(ApiError::bad_request(format!(
            "unable to upgrade: none of the protocols {offered:?} is spoken here"
        )));
    };
    let mut response = reply::respond(101, "application/octet-stream", reply::full(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    let session =
        Session { socket, inner: Arc::clone(inner), container, what, base64, input: info.flag("stdin") };
    Ok((response, session))
}

impl Session {
    /// Goes on until the program ends, the client is gone, or the Pod is.
    pub(crate) async fn run(self) {
        let Self { socket, inner, container, what, base64, input } = self;
        let Ok(upgraded) = socket.await else { return };
        let config = WebSocketConfig::default().max_message_size(Some(MESSAGE)).max_frame_size(Some(MESSAGE));
        let stream = TokioIo::new(upgraded);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        let (mut sink, mut stream) = socket.split();
        let (typed, stdin) = mpsc::channel(WAITING);
        let (say, mut said) = mpsc::channel(WAITING);
        let work = async {
            match what {
                What::Exec(program) => program::run(program, Streams::new(stdin, say)).await,
                What::Attach => {
                    // What it is told, it does not hear.
                    drop(stdin);
                    let mut lines = pin!(logs::follow(&inner, &container));
                    while let Some(line) = lines.next().await {
                        if say.send(Said::Out(line)).await.is_err() {
                            break;
                        }
                    }
                    Exit::Code(0)
                }
            }
        };
        let exit = tokio::select! {
            (exit, ()) = async { tokio::join!(work, tell(&mut sink, &mut said, base64)) } => Some(exit),
            () = hear(&mut stream, typed.into(), input, base64) => None,
            () = logs::ended(&inner, &container) => Some(Exit::Code(137)),
        };
        let Some(exit) = exit else { return };
        let last = async move {
            sink.send(message(STATUS, exit.status().to_string().as_bytes(), base64)).await?;
            // Clients take any other end for a broken line.
            let normal = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
            sink.send(Message::Close(Some(normal))).await?;
            // The client agrees; then TLS is told, too, so that nobody on the way takes it for a broken line.
            while let Some(Ok(_)) = stream.next().await {}
            match sink.reunite(stream) {
                Ok(mut socket) => Ok(socket.get_mut().shutdown().await?),
                Err(_) => Ok(()),
            }
        };
        let _: Result<Result<(), WebSocketError>, _> = tokio::time::timeout(LAST, last).await;
    }
}

/// Passes on what a program says, to its end or the client's.
async fn tell(sink: &mut SplitSink<Socket, Message>, said: &mut mpsc::Receiver<Said>, base64: bool) {
    while let Some(said) = said.recv().await {
        let (channel, text) = match said {
            Said::Out(text) => (STDOUT, text),
            Said::Err(text) => (STDERR, text),
        };
        for piece in text.chunks(PIECE) {
            if sink.send(message(channel, piece, base64)).await.is_err() {
                return;
            }
        }
    }
}

/// Hears the client until it is gone.
async fn hear(
    stream: &mut SplitStream<Socket>,
    mut typed: Option<mpsc::Sender<Bytes>>,
    input: bool,
    base64: bool,
) {
    if !input {
        typed = None;
    }
    while let Some(Ok(message)) = stream.next().await {
        let data = match message {
            Message::Binary(data) => data,
            Message::Text(text) => Bytes::from(text),
            Message::Close(_) => return,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        let Some((&channel, data)) = data.split_first() else { continue };
        // Their channels are digits there.
        let channel = if base64 { channel.wrapping_sub(b'0') } else { channel };
        match channel {
            STDIN => {
                let data = if base64 { BASE64.decode(data).unwrap_or_default() } else { data.to_vec() };
                if let Some(stdin) = &typed
                    && stdin.send(data.into()).await.is_err()
                {
                    typed = None;
                }
            }
            ENDED if data == [STDIN] => typed = None,
            // Sizes of terminals: nobody here draws.
            _ => {}
        }
    }
}

fn message(channel: u8, text: &[u8], base64: bool) -> Message {
    if base64 {
        return Message::text(format!("{channel}{}", BASE64.encode(text)));
    }
    let mut data = BytesMut::with_capacity(text.len() + 1);
    data.put_u8(channel);
    data.put_slice(text);
    Message::Binary(data.freeze())
}
