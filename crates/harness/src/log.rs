//! The log of a step on its way to the console. A command never waits for the console: unsent output is buffered here, up to
//! the limit of a log.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use plural_core::run_call::{MAX_LOG_CHUNK, MAX_STEP_LOG};
use tokio::{
    io::AsyncWriteExt as _,
    sync::{Mutex as AsyncMutex, Notify},
    task::JoinHandle,
};

use crate::{
    clip::Clip,
    console::Console,
    end::End,
    mask::{Masker, Secrets},
    run::Echo,
};

/// How much of the end of a log that is too long is kept.
const TAIL: usize = 1 << 20;

/// Where all output of the Job is copied to, besides the console.
pub(crate) type Echoes = Arc<AsyncMutex<Echo>>;

/// The log of one step.
pub(crate) struct StepLog {
    masker: Masker,
    clip: Clip,
    /// The text of a plan, if it is collected.
    transcript: Option<Transcript>,
    echo: Echoes,
    unsent: Arc<Unsent>,
    sending: Sending,
}

#[derive(Default)]
struct Unsent {
    queue: Mutex<Queue>,
    /// There is output, or the log has ended.
    some: Notify,
    /// There is a whole piece, or the log has ended.
    enough: Notify,
}

#[derive(Default)]
struct Queue {
    bytes: VecDeque<u8>,
    ended: Option<Instant>,
}

/// Ends with its log.
struct Sending(JoinHandle<Result<(), End>>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl StepLog {
    /// An empty log.
    pub(crate) fn start(
        (console, step): (&Arc<Console>, u32),
        secrets: &Arc<Secrets>,
        echo: &Echoes,
        gather: Duration,
    ) -> Self {
        let unsent = Arc::new(Unsent::default());
        let task = tokio::spawn(send((Arc::clone(console), step), Arc::clone(&unsent), gather));
        Self {
            masker: Masker::new(Arc::clone(secrets)),
            clip: Clip::new(MAX_STEP_LOG, TAIL),
            transcript: None,
            echo: Arc::clone(echo),
            unsent,
            sending: Sending(task),
        }
    }

    /// The same, which also collects the text for a plan.
    pub(crate) fn with_transcript(mut self, transcript: Transcript) -> Self {
        self.transcript = Some(transcript);
        self
    }

    /// Appends output of a command.
    pub(crate) async fn push(&mut self, bytes: &[u8]) {
        let shown = self.masker.push(bytes);
        self.put(&shown).await;
    }

    /// Ends the log, and waits until the console has all of it.
    ///
    /// # Errors
    /// If the console does not accept it.
    pub(crate) async fn finish(mut self) -> Result<Option<Transcript>, End> {
        let rest = self.masker.finish();
        self.put(&rest).await;
        let Self { masker: _, clip, transcript, echo: _, unsent, mut sending } = self;
        unsent.add(&clip.finish());
        unsent.end();
        match (&mut sending.0).await {
            Ok(sent) => sent.map(|()| transcript),
            Err(_) => Err(End::failed("the log could not be sent")),
        }
    }

    async fn put(&mut self, shown: &[u8]) {
        if shown.is_empty() {
            return;
        }
        if let Some(transcript) = &mut self.transcript {
            transcript.push(shown);
        }
        let kept = self.clip.push(shown);
        self.unsent.add(&shown[..kept]);
        write(&self.echo, shown).await;
    }
}

/// Copies output to the Job's own log. A failure is ignored: nobody has to read it.
pub(crate) async fn write(echo: &Echoes, shown: &[u8]) {
    let mut echo = echo.lock().await;
    let _ = echo.write_all(shown).await;
    let _ = echo.flush().await;
}

impl Unsent {
    fn add(&self, more: &[u8]) {
        if more.is_empty() {
            return;
        }
        let mut queue = self.queue.lock();
        queue.bytes.extend(more);
        let is_enough = queue.bytes.len() >= MAX_LOG_CHUNK;
        drop(queue);
        self.some.notify_one();
        if is_enough {
            self.enough.notify_one();
        }
    }

    fn end(&self) {
        self.queue.lock().ended = Some(Instant::now());
        self.some.notify_one();
        self.enough.notify_one();
    }

    fn ended(&self) -> Option<Instant> {
        self.queue.lock().ended
    }

    /// How many bytes there are, and whether they are complete.
    fn state(&self) -> (usize, bool) {
        let queue = self.queue.lock();
        (queue.bytes.len(), queue.ended.is_some())
    }

    fn take(&self) -> Bytes {
        let mut queue = self.queue.lock();
        let length = queue.bytes.len().min(MAX_LOG_CHUNK);
        let piece: Vec<u8> = queue.bytes.drain(..length).collect();
        if queue.bytes.is_empty() {
            queue.bytes.shrink_to(MAX_LOG_CHUNK);
        }
        piece.into()
    }
}

async fn send(
    (console, step): (Arc<Console>, u32),
    unsent: Arc<Unsent>,
    gather: Duration,
) -> Result<(), End> {
    let mut offset = 0;
    loop {
        match unsent.state() {
            (0, true) => return Ok(()),
            (0, false) => {
                unsent.some.notified().await;
                continue;
            }
            // More lines are likely to follow soon.
            (length, false) if length < MAX_LOG_CHUNK => {
                let _ = tokio::time::timeout(gather, unsent.enough.notified()).await;
            }
            _ => {}
        }
        let piece = unsent.take();
        let length = piece.len() as u64;
        console.log(step, offset, piece, &|| unsent.ended()).await?;
        offset += length;
    }
}

/// The text of a plan, collected while its commands print it.
#[derive(Debug)]
pub(crate) struct Transcript {
    kept: Vec<u8>,
    clip: Clip,
}

impl Transcript {
    /// Limit of the text in bytes, and of its end if it is too long.
    const MOST: (u64, usize) = (4 << 20, 1 << 20);

    pub(crate) fn new() -> Self {
        Self { kept: Vec::new(), clip: Clip::new(Self::MOST.0, Self::MOST.1) }
    }

    fn push(&mut self, shown: &[u8]) {
        let kept = self.clip.push(shown);
        self.kept.extend_from_slice(&shown[..kept]);
    }

    /// The whole text, without colours.
    pub(crate) fn finish(self) -> String {
        let Self { mut kept, clip } = self;
        kept.extend(clip.finish());
        crate::summary::plain(&String::from_utf8_lossy(&kept))
    }
}
