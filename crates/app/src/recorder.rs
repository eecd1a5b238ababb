//! Recording of shells while they are open.
//!
//! What passes through the proxy is handed to a [`Recorder`]; a [`RecordingWriter`] seals it and stores it piece by piece.
//! Little waits in memory: whoever hands over waits for the writer, and so does the shell.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use plural_core::asciicast::{CastEvent, cast_event};
use plural_core::data_key::KeyOwner;
use plural_core::ids::{RecordingId, RequestId};
use plural_core::recording::{Recording, RecordingEnd, Shell};
use plural_core::{Error, Result};
use plural_kit::Backoff;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::app::App;
use crate::proxy::ProxyGrant;
use crate::recording::{RecordingPiece, command_context, piece_context};

/// Events that wait for the writer at most; each holds one read of a connection.
const QUEUE: usize = 32;
/// Bytes of events in a piece, more or less.
const PIECE: usize = 128 << 10;
/// How long an event waits for others before it is stored: what a crash may take with it.
const GATHER: Duration = Duration::from_secs(2);
/// How often a silent recording says that it goes on.
const BEAT: Duration = Duration::from_mins(1);
/// How long a piece may fail to be stored before the shell ends.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is stored to see whether anything can be.
const PROBE: &str = "whether recordings can be kept";
/// For so many seconds it is the same: what is stored already is not stored again, and nothing would be learnt.
const PROBED: i64 = 10;

/// Takes what is shown and typed.
#[derive(Debug, Clone)]
pub struct Recorder {
    events: mpsc::Sender<Event>,
    began: Instant,
    input: bool,
}

/// The recording has ended: nothing more is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the recording has ended")]
pub struct RecorderStopped;

#[derive(Debug)]
struct Event {
    at: Duration,
    kind: CastEvent,
    text: String,
    size: Option<(u16, u16)>,
}

impl Recorder {
    /// Nothing more is taken: nothing more may pass.
    pub fn has_ended(&self) -> bool {
        self.events.is_closed()
    }

    /// What is typed is wanted, too.
    pub fn wants_input(&self) -> bool {
        self.input
    }

    /// Takes what was shown; waits while the writer is behind.
    ///
    /// # Errors
    /// When the recording has ended.
    pub async fn output(&self, text: String) -> Result<(), RecorderStopped> {
        self.take(CastEvent::Output, text, None).await
    }

    /// Takes what was typed, if that is wanted.
    ///
    /// # Errors
    /// When the recording has ended.
    pub async fn input(&self, text: String) -> Result<(), RecorderStopped> {
        if self.input { self.take(CastEvent::Input, text, None).await } else { Ok(()) }
    }

    /// Takes the terminal's size.
    ///
    /// # Errors
    /// When the recording has ended.
    pub async fn resize(&self, columns: u16, rows: u16) -> Result<(), RecorderStopped> {
        self.take(CastEvent::Resize, format!("{columns}x{rows}"), Some((columns, rows))).await
    }

    async fn take(
        &self,
        kind: CastEvent,
        text: String,
        size: Option<(u16, u16)>,
    ) -> Result<(), RecorderStopped> {
        if text.is_empty() {
            return Ok(());
        }
        let event = Event { at: self.began.elapsed(), kind, text, size };
        self.events.send(event).await.map_err(|_| RecorderStopped)
    }
}

/// Stores a recording, for as long as [`RecordingWriter::run`] runs.
pub struct RecordingWriter {
    app: Arc<App>,
    id: RecordingId,
    /// Whose key seals it.
    owner: KeyOwner,
    events: mpsc::Receiver<Event>,
    /// Events that are not stored yet, as lines.
    lines: String,
    /// Number of the next piece.
    number: u32,
    /// Bytes so far, and how many there may be.
    bytes: u64,
    limit: u64,
    /// The terminal's first size, until it is stored.
    size: Option<(u16, u16)>,
    sized: bool,
    patience: Duration,
}

impl std::fmt::Debug for RecordingWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingWriter").field("id", &self.id).finish_non_exhaustive()
    }
}

impl App {
    /// Whether shells of a cluster are recorded, asked for a shell that is about to be opened: from the database, so that
    /// nothing is opened by what was said before.
    ///
    /// # Errors
    /// When the database does not answer: then no shell is opened.
    pub async fn recording_wanted(&self, grant: &ProxyGrant) -> Result<bool> {
        Ok(self.store.recording_policy_of(grant.cluster_id).await?.1.record)
    }

    /// Whether recordings can be kept now.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when not.
    pub async fn recording_probe(&self) -> Result<()> {
        let probe = format!("{PROBE} {}", self.clock.now().timestamp() / PROBED);
        in_time(PATIENCE, self.blobs.keep(probe.into_bytes())).await.map(drop)
    }

    /// Begins a recording, before anything is shown.
    ///
    /// # Errors
    /// When it cannot be kept: then the shell must not be opened.
    pub async fn recording_begin(
        self: &Arc<Self>,
        grant: &ProxyGrant,
        shell: Shell,
        request_id: RequestId,
    ) -> Result<(Recorder, RecordingWriter)> {
        let (project_id, policy) = self.store.recording_policy_of(grant.cluster_id).await?;
        let id = RecordingId::new();
        let command = serde_json::to_vec(&shell.command)
            .map_err(|cause| Error::internal("writing the command of a recording", cause))?;
        let owner = KeyOwner::Recordings(project_id);
        let command = self.sealer.seal(owner, &command_context(id), &command).await?;
        let first = cast_event(Duration::ZERO, CastEvent::Marker, "the recording begins");
        let piece = in_time(PATIENCE, self.recording_piece((owner, id), 0, &first)).await?;
        let now = self.clock.now();
        let recording = Recording {
            id,
            cluster_id: grant.cluster_id,
            project_id,
            user_id: grant.user_id,
            actor: grant.actor.clone(),
            shell,
            request_id,
            bytes: piece.bytes,
            size: None,
            started_at: now,
            written_at: now,
            end: None,
            expires_at: now + TimeDelta::days(i64::from(policy.keep_days)),
        };
        in_time(PATIENCE, self.store.recording_begin(&recording, &command, &piece)).await?;
        let (sender, events) = mpsc::channel(QUEUE);
        let recorder = Recorder { events: sender, began: Instant::now(), input: policy.input };
        let writer = RecordingWriter {
            app: Arc::clone(self),
            id,
            owner,
            events,
            lines: String::new(),
            number: 1,
            bytes: piece.bytes,
            limit: u64::from(policy.limit_megabytes) * 1_000_000,
            size: None,
            sized: false,
            patience: PATIENCE,
        };
        Ok((recorder, writer))
    }

    /// Stores some lines of a recording in a blob.
    async fn recording_piece(
        &self,
        (owner, id): (KeyOwner, RecordingId),
        number: u32,
        lines: &str,
    ) -> Result<RecordingPiece> {
        let sealed = self.sealer.seal(owner, &piece_context(id, number), lines.as_bytes()).await?;
        let sealed_with = sealed.data_key_prefix();
        let digest = self.blobs.keep(sealed.into_bytes()).await?;
        Ok(RecordingPiece { number, digest, bytes: lines.len() as u64, sealed_with })
    }
}

impl RecordingWriter {
    /// Of this recording.
    pub fn id(&self) -> RecordingId {
        self.id
    }

    /// The same, which gives up when a piece could not be stored for so long: half a minute if nothing else is said.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Forgets the recording: its shell was not opened.
    pub async fn discard(self) {
        if let Err(error) = self.app.store.recording_discard(self.id).await {
            // It stays, with its beginning and nothing else.
            tracing::warn!(recording.id = %self.id, error = error.log_text(), "cannot forget a recording");
        }
    }

    /// Keeps the recording without anything in it: what was in its shell, if that was opened, nobody saw.
    pub async fn lose(self) {
        self.mark(RecordingEnd::Failed).await;
    }

    /// Stores what is handed to the [`Recorder`] until that is dropped, or nothing more can be stored: then the shell must
    /// end.
    pub async fn run(mut self) -> RecordingEnd {
        let end = self.write().await;
        // While that is told, nothing may pass either.
        self.events.close();
        self.mark(end).await;
        end
    }

    async fn mark(&self, end: RecordingEnd) {
        let mark = self.app.store.recording_mark(self.id, Some(end), self.app.clock.now());
        if let Err(error) = in_time(self.patience, mark).await {
            tracing::warn!(recording.id = %self.id, error = error.log_text(), "cannot tell how a recording ended");
        }
    }

    async fn write(&mut self) -> RecordingEnd {
        let mut wake = Instant::now() + BEAT;
        loop {
            tokio::select! {
                event = self.events.recv() => {
                    let Some(event) = event else {
                        return if self.store().await { RecordingEnd::Ended } else { RecordingEnd::Failed };
                    };
                    if self.lines.is_empty() {
                        wake = Instant::now() + GATHER;
                    }
                    let is_full = !self.push(&event);
                    if is_full {
                        // What was taken was shown: it is kept, though there is room for no more.
                        self.events.close();
                        while let Some(event) = self.events.recv().await {
                            self.push(&event);
                            if self.lines.len() >= PIECE && !self.store().await {
                                return RecordingEnd::Failed;
                            }
                        }
                        return if self.store().await { RecordingEnd::Full } else { RecordingEnd::Failed };
                    }
                    if self.lines.len() >= PIECE && !self.store().await {
                        return RecordingEnd::Failed;
                    }
                    if self.lines.is_empty() {
                        wake = Instant::now() + BEAT;
                    }
                }
                () = tokio::time::sleep_until(wake) => {
                    if self.lines.is_empty() {
                        self.beat().await;
                    } else if !self.store().await {
                        return RecordingEnd::Failed;
                    }
                    wake = Instant::now() + BEAT;
                }
            }
        }
    }

    /// Adds an event; false when there may be no more of them.
    fn push(&mut self, event: &Event) -> bool {
        let Event { at, kind, text, size } = event;
        let line = cast_event(*at, *kind, text);
        self.bytes += line.len() as u64;
        self.lines.push_str(&line);
        if let Some(size) = size.filter(|_| !self.sized) {
            self.size = Some(size);
            self.sized = true;
        }
        self.bytes < self.limit
    }

    /// Stores what waits; false when that cannot be done.
    async fn store(&mut self) -> bool {
        if self.lines.is_empty() {
            return true;
        }
        let until = Instant::now() + self.patience;
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Err(error) = in_time(left, self.store_once()).await else { return true };
            let wait = backoff.next_wait();
            if Instant::now() + wait > until {
                tracing::error!(
                    recording.id = %self.id, error = error.log_text(),
                    "cannot store a recording; its shell is closed"
                );
                return false;
            }
            tracing::warn!(recording.id = %self.id, error = error.log_text(), "cannot store a recording; trying again");
            tokio::time::sleep(wait).await;
        }
    }

    async fn store_once(&mut self) -> Result<()> {
        let piece = self.app.recording_piece((self.owner, self.id), self.number, &self.lines).await?;
        self.app.store.recording_append(self.id, &piece, self.size, self.app.clock.now()).await?;
        self.lines.clear();
        self.number += 1;
        self.size = None;
        Ok(())
    }

    async fn beat(&self) {
        let mark = self.app.store.recording_mark(self.id, None, self.app.clock.now()).await;
        if let Err(error) = mark {
            tracing::warn!(recording.id = %self.id, error = error.log_text(), "cannot tell that a recording goes on");
        }
    }
}

/// What comes of `work`, unless that takes too long.
async fn in_time<T>(patience: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| Error::unavailable("the blob store or the database does not answer");
    tokio::time::timeout(patience, work).await.map_err(late)?
}
