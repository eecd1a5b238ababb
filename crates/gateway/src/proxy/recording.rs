//! Shells that are recorded: who may open one, and what of the passing bytes is kept.

use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use plural_app::proxy::ProxyGrant;
use plural_app::recorder::{Recorder, RecordingWriter};
use plural_core::Error;
use plural_core::asciicast::Utf8Pieces;
use plural_core::ids::RequestId;
use plural_core::recording::RecordingEnd;
use serde_json::json;

use super::{
    Proxy, Refusal,
    shell::Opens,
    websocket::{CLOSE, Frames, Side, Unreadable, server_frame},
};

/// The protocols that are understood, best first: the same channels, of which the older lacks a way to say that one ended.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
/// Channels of a shell.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Bytes of a message that tells a terminal's size.
const LONGEST_SIZE: usize = 256;

/// A recording that began, of a shell that is being opened.
pub(super) struct Begun {
    recorder: Recorder,
    writer: RecordingWriter,
}

/// Begins a recording where one is wanted, and takes out of the request what would make its shell unreadable.
///
/// # Errors
/// When there has to be a recording and there cannot be one: then nothing is opened.
pub(super) async fn begin(
    proxy: &Proxy,
    grant: &ProxyGrant,
    opens: Opens,
    (upgrade, headers): (Option<&str>, &mut HeaderMap),
    request_id: RequestId,
) -> Result<Option<Begun>, Refusal> {
    if opens == Opens::Nothing || !proxy.app.recording_wanted(grant).await.map_err(|error| away(&error))? {
        return Ok(None);
    }
    let shell = match opens {
        Opens::Shell(shell) => shell,
        Opens::Stream { group, subresource } => {
            let told = format!(
                "shells in this cluster are recorded; {subresource} of {group} cannot be recorded and is \
                 refused"
            );
            return Err(Refusal::new(StatusCode::FORBIDDEN, told));
        }
        Opens::Kubelet | Opens::Nothing => {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "shells in this cluster are recorded; node API sessions cannot be recorded and are refused",
            ));
        }
    };
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let offered: Vec<&str> = offered
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    let known: Vec<&str> = PROTOCOLS.into_iter().filter(|protocol| offered.contains(protocol)).collect();
    if upgrade != Some("websocket") || known.is_empty() {
        // kubectl comes a second time like this when it was refused the first time: it should hear why it was then.
        proxy.app.recording_probe().await.map_err(|error| away(&error))?;
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "shells of this cluster are recorded, for which the client must speak v5.channel.k8s.io or \
             v4.channel.k8s.io in a WebSocket: kubectl 1.31 and newer do (1.30 with \
             KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true), SPDY does not",
        ));
    }
    if let Ok(known) = HeaderValue::from_str(&known.join(", ")) {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, known);
    }
    // Nobody may compress what we have to read.
    headers.remove(header::SEC_WEBSOCKET_EXTENSIONS);
    // Whatever else the client's own names is dropped on the way: it must not be what was just said.
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    let begun = proxy.app.recording_begin(grant, shell, request_id).await;
    let (recorder, writer) = begun.map_err(|error| away(&error))?;
    Ok(Some(Begun { recorder, writer }))
}

fn away(error: &Error) -> Refusal {
    tracing::error!(error = error.log_text(), "cannot begin the recording of a shell; the shell is refused");
    Refusal::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "shells in this cluster are recorded, and recordings cannot be stored at the moment; try again later",
    )
}

impl Begun {
    pub(super) fn writer(&self) -> &RecordingWriter {
        &self.writer
    }

    /// Whether the cluster chose a protocol that is understood.
    pub(super) fn check(head: &Response<()>) -> Result<(), Refusal> {
        let chosen = head.headers().get(header::SEC_WEBSOCKET_PROTOCOL).and_then(|value| value.to_str().ok());
        let extended = head.headers().contains_key(header::SEC_WEBSOCKET_EXTENSIONS);
        if extended || !chosen.is_some_and(|chosen| PROTOCOLS.contains(&chosen.trim())) {
            return Err(Refusal::new(
                StatusCode::BAD_GATEWAY,
                "shells in this cluster are recorded, and its API server chose a protocol that cannot be \
                 recorded",
            ));
        }
        Ok(())
    }

    /// The shell was not opened.
    pub(super) async fn discard(self) {
        self.writer.discard().await;
    }

    /// The shell was asked for and may have been opened, but nothing of it is seen: what is known of it is kept.
    pub(super) async fn lose(self) {
        self.writer.lose().await;
    }

    /// What looks at bytes of the client, at bytes of the cluster, and what stores what they see.
    pub(super) fn apart(self) -> (Tap, Tap, RecordingWriter) {
        let Self { recorder, writer } = self;
        (Tap::new(Side::Client, recorder.clone()), Tap::new(Side::Server, recorder), writer)
    }
}

/// Looks at the bytes of one side as they pass.
pub(super) struct Tap {
    side: Side,
    frames: Frames,
    recorder: Recorder,
    /// What is typed, or shown.
    text: Utf8Pieces,
    /// What is shown by way of the other channel.
    errors: Utf8Pieces,
    /// The beginning of a message about the terminal's size.
    size: Vec<u8>,
}

/// Columns and rows, as a client tells them when its terminal changes.
fn size(message: &[u8]) -> Option<(u16, u16)> {
    let told: serde_json::Value = serde_json::from_slice(message).ok()?;
    let side = |name| told.get(name)?.as_u64()?.try_into().ok();
    Some((side("Width")?, side("Height")?))
}

/// Nothing more may pass.
#[derive(Debug)]
pub(super) enum Stop {
    /// It cannot be read.
    Unreadable,
    /// The recording has ended; its writer says why.
    Stopped,
}

impl From<Unreadable> for Stop {
    fn from(Unreadable: Unreadable) -> Self {
        Self::Unreadable
    }
}

impl Tap {
    fn new(side: Side, recorder: Recorder) -> Self {
        let text = Utf8Pieces::default();
        Self {
            side,
            frames: Frames::new(side),
            recorder,
            text,
            errors: Utf8Pieces::default(),
            size: Vec::new(),
        }
    }

    /// How many bytes end the frame that has begun, if that can be done.
    pub(super) fn owed(&self) -> Option<usize> {
        self.frames.owed()
    }

    /// Looks at the next bytes; only then they may pass.
    pub(super) async fn take(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if self.recorder.has_ended() {
            return Err(Stop::Stopped);
        }
        for part in self.frames.feed(bytes)? {
            let stopped = match (self.side, part.channel) {
                (Side::Server, STDOUT) => self.recorder.output(self.text.push(&part.content)).await,
                (Side::Server, STDERR) => self.recorder.output(self.errors.push(&part.content)).await,
                (Side::Client, STDIN) if self.recorder.wants_input() => {
                    self.recorder.input(self.text.push(&part.content)).await
                }
                (Side::Client, RESIZE) => {
                    if self.size.len() + part.content.len() > LONGEST_SIZE {
                        return Err(Stop::Unreadable);
                    }
                    self.size.extend(part.content);
                    if !part.last {
                        continue;
                    }
                    match size(&std::mem::take(&mut self.size)) {
                        Some((columns, rows)) => self.recorder.resize(columns, rows).await,
                        // The API server makes nothing of it either.
                        None => continue,
                    }
                }
                _ => continue,
            };
            stopped.map_err(|_| Stop::Stopped)?;
        }
        Ok(())
    }
}

/// What a client is told when its shell is ended because of the recording, in the middle of a frame that lacks `owed` bytes.
pub(super) fn last_words(owed: usize, why: &str) -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": why, "reason": "InternalError", "code": 500,
    });
    // Terminals take no notice of these.
    let mut said = vec![0; owed];
    said.extend(server_frame(ERROR, status.to_string().as_bytes()));
    said.extend_from_slice(&CLOSE);
    said.into()
}

/// Why a shell was ended.
pub(super) fn reason(end: RecordingEnd) -> &'static str {
    match end {
        RecordingEnd::Ended => "the shell has ended",
        RecordingEnd::Full => {
            "the recording reached its size limit, so the shell was closed; open a new shell"
        }
        RecordingEnd::Failed => "the recording can no longer be stored, so the shell was closed",
    }
}

/// Why a shell was ended whose bytes cannot be read.
pub(super) const UNREADABLE: &str = "this shell is recorded, and its stream cannot be read";
