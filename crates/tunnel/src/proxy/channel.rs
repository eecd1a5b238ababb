//! Many streams on one call: frames in, frames out, and what belongs to which.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{
    exchange::{Broken, Exchange, Lane},
    window::SpareWindow,
};
use crate::v1::{ProxyFrame, ProxyOpen, ProxyReset, proxy_frame};

/// Pieces of all streams that wait for the line, at most. Few: a small answer must not wait behind many large ones.
const WAITING: usize = 16;
/// Between two looks at how long the line is.
const PING: Duration = Duration::from_secs(5);
/// Bytes by which the windows of one channel may grow, all together.
const GROWTH: usize = 256 << 20;
/// Frames that need no credit and wait for the line, at most, for each stream that is open. A peer that
/// makes us answer faster than it reads is no friend.
const CONTROL_PER_STREAM: usize = 8;

/// How a channel behaves.
#[derive(Debug, Clone, Copy)]
pub struct ChannelOptions {
    /// Streams that may be open at once.
    pub streams: usize,
}

/// Why a channel cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// Too many streams are open.
    #[error("too many requests to this cluster are open at once")]
    Full,
    /// The line is gone.
    #[error("the agent's connection was closed")]
    Closed,
}

/// One end of the call on which requests travel. Cheap to clone.
#[derive(Clone)]
pub struct Channel {
    shared: Arc<Shared>,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("streams", &self.streams()).finish_non_exhaustive()
    }
}

pub(crate) struct Shared {
    lanes: Mutex<Lanes>,
    control: Mutex<Control>,
    pub(crate) data: mpsc::Sender<ProxyFrame>,
    pub(crate) spare: SpareWindow,
    most: usize,
    /// Microseconds.
    round_trip: AtomicU64,
    started: Instant,
    closed: CancellationToken,
}

struct Lanes {
    open: HashMap<u32, Arc<Lane>>,
    /// The highest number that was used.
    last: u32,
    closed: bool,
}

/// Frames that overtake data: they are small, and what they say is true at once.
struct Control {
    frames: VecDeque<ProxyFrame>,
    waker: Option<Waker>,
}

impl Channel {
    /// A channel, and what it says: to be sent on the call, until it ends.
    pub fn new(options: ChannelOptions) -> (Self, Outgoing) {
        let (data, pieces) = mpsc::channel(WAITING);
        let shared = Arc::new(Shared {
            lanes: Mutex::new(Lanes { open: HashMap::new(), last: 0, closed: false }),
            control: Mutex::new(Control { frames: VecDeque::new(), waker: None }),
            data,
            spare: SpareWindow::new(GROWTH),
            most: options.streams.max(1),
            // Until it is measured, a short line: its windows stay small.
            round_trip: AtomicU64::new(1_000),
            started: Instant::now(),
            closed: CancellationToken::new(),
        });
        (Self { shared: Arc::clone(&shared) }, Outgoing { shared, pieces, held: None })
    }

    /// Begins a request. The console's side alone calls this.
    ///
    /// # Errors
    /// When too many are open, or the line is gone.
    pub fn open(&self, open: ProxyOpen) -> Result<Exchange, ChannelError> {
        let lane = {
            let mut lanes = self.shared.lanes.lock();
            if lanes.closed {
                return Err(ChannelError::Closed);
            }
            if lanes.open.len() >= self.shared.most {
                return Err(ChannelError::Full);
            }
            // After four thousand million requests the agent opens another channel.
            lanes.last = lanes.last.checked_add(1).ok_or(ChannelError::Closed)?;
            let lane = Arc::new(Lane::new(lanes.last));
            lanes.open.insert(lane.id, Arc::clone(&lane));
            // Still under the lock: the other end takes streams in the order of their numbers only.
            self.shared.say(lane.id, proxy_frame::Frame::Open(open));
            lane
        };
        Ok(Exchange::new(Arc::clone(&self.shared), lane))
    }

    /// Serves the call until it ends; then every stream is broken. `opened` gets what the other side
    /// opens; the console gives none, and its agents may open nothing.
    pub async fn run<S>(&self, inbound: S, mut opened: Option<&mut (dyn FnMut(Exchange, ProxyOpen) + Send)>)
    where
        S: Stream<Item = Result<ProxyFrame, Status>> + Send,
    {
        let mut inbound = std::pin::pin!(inbound);
        let mut ping = tokio::time::interval(PING);
        let why = loop {
            let frame = tokio::select! {
                () = self.shared.closed.cancelled() => break "the connection was closed".to_owned(),
                frame = inbound.next() => frame,
                _ = ping.tick() => {
                    let now = self.shared.started.elapsed().as_micros() as u64;
                    self.shared.say(0, proxy_frame::Frame::Ping(now));
                    continue;
                }
            };
            match frame {
                None => break "the agent's connection ended".to_owned(),
                Some(Err(status)) => break format!("the agent's connection broke: {}", status.message()),
                Some(Ok(frame)) => {
                    if let Err(why) = self.take(frame, opened.as_deref_mut()) {
                        tracing::warn!(reason = why, "the other side of a proxy channel broke its contract");
                        break why.to_owned();
                    }
                }
            }
        };
        self.close(&why);
    }

    fn take(
        &self,
        frame: ProxyFrame,
        opened: Option<&mut (dyn FnMut(Exchange, ProxyOpen) + Send + '_)>,
    ) -> Result<(), &'static str> {
        let ProxyFrame { stream, frame } = frame;
        // A newer peer may say what we do not know.
        let Some(frame) = frame else { return Ok(()) };
        if stream == 0 {
            match frame {
                proxy_frame::Frame::Ping(number) => self.shared.say(0, proxy_frame::Frame::Pong(number)),
                proxy_frame::Frame::Pong(number) => self.shared.measured(number),
                _ => return Err("a frame without a stream"),
            }
            return self.shared.keeps_up();
        }
        if let proxy_frame::Frame::Open(open) = frame {
            let Some(opened) = opened else { return Err("an agent opened a stream") };
            let lane = {
                let mut lanes = self.shared.lanes.lock();
                if stream <= lanes.last {
                    return Err("a stream was opened twice");
                }
                lanes.last = stream;
                if lanes.open.len() >= self.shared.most {
                    None
                } else {
                    let lane = Arc::new(Lane::new(stream));
                    lanes.open.insert(stream, Arc::clone(&lane));
                    Some(lane)
                }
            };
            match lane {
                Some(lane) => {
                    if open.end {
                        lane.take(proxy_frame::Frame::End(crate::v1::ProxyEnd {}));
                    }
                    opened(Exchange::new(Arc::clone(&self.shared), lane), open);
                }
                None => self.shared.reset(stream, "too many requests to this cluster are open at once"),
            }
            return self.shared.keeps_up();
        }
        let lane = {
            let lanes = self.shared.lanes.lock();
            match lanes.open.get(&stream) {
                Some(lane) => Arc::clone(lane),
                // It ended here while this was on its way.
                None if stream <= lanes.last => return Ok(()),
                None => return Err("a frame for a stream that was never opened"),
            }
        };
        if lane.take(frame) { Ok(()) } else { Err("more data than was granted, or a second head") }
    }

    /// Ends the channel and every stream on it.
    pub fn close(&self, why: &str) {
        let open = {
            let mut lanes = self.shared.lanes.lock();
            lanes.closed = true;
            std::mem::take(&mut lanes.open)
        };
        let why = Broken::new(why);
        for lane in open.into_values() {
            lane.fail(&why);
        }
        self.shared.closed.cancel();
        self.shared.wake();
    }

    /// Resolves when the channel is closed.
    pub async fn closed(&self) {
        self.shared.closed.cancelled().await;
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.is_cancelled()
    }

    /// Streams that are open now.
    pub fn streams(&self) -> usize {
        self.shared.lanes.lock().open.len()
    }

    /// How long a frame and its answer take, as last measured.
    pub fn round_trip(&self) -> Duration {
        self.shared.round_trip()
    }
}

impl Shared {
    pub(crate) fn say(&self, stream: u32, frame: proxy_frame::Frame) {
        let mut control = self.control.lock();
        control.frames.push_back(ProxyFrame { stream, frame: Some(frame) });
        let waker = control.waker.take();
        drop(control);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.control.lock().waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn reset(&self, stream: u32, reason: &str) {
        self.say(stream, proxy_frame::Frame::Reset(ProxyReset { reason: reason.to_owned() }));
    }

    pub(crate) fn forget(&self, stream: u32) {
        self.lanes.lock().open.remove(&stream);
    }

    pub(crate) fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip.load(Ordering::Relaxed))
    }

    /// A line under load looks longer than it is: shorter measurements count at once, longer ones slowly.
    fn measured(&self, sent: u64) {
        let now = self.started.elapsed().as_micros() as u64;
        let sample = now.saturating_sub(sent).max(1);
        let known = self.round_trip.load(Ordering::Relaxed);
        let is_first = known == 1_000;
        let next = if is_first || sample < known { sample } else { known + (sample - known) / 8 };
        self.round_trip.store(next.min(10_000_000), Ordering::Relaxed);
    }

    fn keeps_up(&self) -> Result<(), &'static str> {
        if self.control.lock().frames.len() > self.most * CONTROL_PER_STREAM {
            return Err("answers are asked for faster than they are read");
        }
        Ok(())
    }
}

/// What a channel says, in order; ends when the channel is closed.
pub struct Outgoing {
    shared: Arc<Shared>,
    pieces: mpsc::Receiver<ProxyFrame>,
    /// A piece that waits for what was said before it.
    held: Option<ProxyFrame>,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").finish_non_exhaustive()
    }
}

impl Stream for Outgoing {
    type Item = ProxyFrame;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ProxyFrame>> {
        {
            let mut control = self.shared.control.lock();
            if let Some(frame) = control.frames.pop_front() {
                return Poll::Ready(Some(frame));
            }
            match &control.waker {
                Some(waker) if waker.will_wake(cx.waker()) => {}
                _ => control.waker = Some(cx.waker().clone()),
            }
        }
        if self.shared.closed.is_cancelled() {
            return Poll::Ready(None);
        }
        let piece = match self.held.take() {
            Some(piece) => Poll::Ready(Some(piece)),
            None => self.pieces.poll_recv(cx),
        };
        // Between the look above and this piece its stream may have been opened, or its answer begun: that goes first.
        if let Poll::Ready(Some(piece)) = piece {
            let before = self.shared.control.lock().frames.pop_front();
            let Some(before) = before else { return Poll::Ready(Some(piece)) };
            self.held = Some(piece);
            return Poll::Ready(Some(before));
        }
        piece
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        // Nobody sends any more: without this, whoever waits for an answer would wait for ever.
        Channel { shared: Arc::clone(&self.shared) }.close("the agent's connection ended");
    }
}
