//! One stream of a channel: a request and its answer, each with a body that flows.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    channel::Shared,
    window::{FIRST, Window},
};
use crate::v1::{ProxyEnd, ProxyFrame, ProxyHead, ProxyReset, ProxyStop, proxy_frame};

/// Pieces that bodies travel in, at most.
pub(crate) const PIECE: usize = 32 << 10;

/// The stream ended before it was finished, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub(crate) Arc<str>);

impl Broken {
    /// For those words.
    pub fn new(reason: &str) -> Self {
        Self(Arc::from(reason))
    }
}

/// What both sides of one end share.
pub(crate) struct Lane {
    pub(crate) id: u32,
    inbox: Mutex<Inbox>,
    outbox: Mutex<Outbox>,
    /// Cancelled when the peer or the channel ended the stream.
    pub(crate) gone: CancellationToken,
}

struct Inbox {
    head: Option<ProxyHead>,
    pieces: VecDeque<Bytes>,
    ended: Option<Result<(), Broken>>,
    window: Window,
    waker: Option<Waker>,
}

struct Outbox {
    credit: usize,
    finished: bool,
    broken: Option<Broken>,
    waker: Option<Waker>,
}

impl Lane {
    pub(crate) fn new(id: u32) -> Self {
        Self {
            id,
            inbox: Mutex::new(Inbox {
                head: None,
                pieces: VecDeque::new(),
                ended: None,
                window: Window::new(),
                waker: None,
            }),
            outbox: Mutex::new(Outbox { credit: FIRST, finished: false, broken: None, waker: None }),
            gone: CancellationToken::new(),
        }
    }

    /// The peer sent something; `false` when it broke the contract.
    pub(crate) fn take(&self, frame: proxy_frame::Frame) -> bool {
        match frame {
            proxy_frame::Frame::Head(head) => {
                let mut inbox = self.inbox.lock();
                if matches!(inbox.ended, Some(Err(_))) {
                    return true;
                }
                if inbox.head.is_some() || inbox.ended.is_some() || !inbox.window.arrived(head.data.len()) {
                    return false;
                }
                if head.end {
                    inbox.ended = Some(Ok(()));
                }
                if !head.data.is_empty() {
                    inbox.pieces.push_back(head.data.clone());
                }
                inbox.head = Some(ProxyHead { data: Bytes::new(), ..head });
                wake(&mut inbox.waker);
            }
            proxy_frame::Frame::Data(data) => {
                let mut inbox = self.inbox.lock();
                // Broken off here while this was on its way.
                if matches!(inbox.ended, Some(Err(_))) {
                    return true;
                }
                // An empty piece costs nothing of the window and could be sent for ever.
                if data.is_empty() || inbox.ended.is_some() || !inbox.window.arrived(data.len()) {
                    return false;
                }
                inbox.pieces.push_back(data);
                wake(&mut inbox.waker);
            }
            proxy_frame::Frame::End(ProxyEnd {}) => {
                let mut inbox = self.inbox.lock();
                inbox.ended.get_or_insert(Ok(()));
                wake(&mut inbox.waker);
            }
            proxy_frame::Frame::Credit(credit) => {
                let mut outbox = self.outbox.lock();
                outbox.credit = outbox.credit.saturating_add(credit as usize);
                wake(&mut outbox.waker);
            }
            proxy_frame::Frame::Reset(ProxyReset { reason }) => self.fail(&Broken(Arc::from(reason))),
            proxy_frame::Frame::Stop(ProxyStop {}) => {
                let mut outbox = self.outbox.lock();
                outbox.broken.get_or_insert_with(|| Broken::new("the other end reads no more"));
                wake(&mut outbox.waker);
            }
            proxy_frame::Frame::Open(_) | proxy_frame::Frame::Ping(_) | proxy_frame::Frame::Pong(_) => {
                return false;
            }
        }
        true
    }

    /// The stream is over, whatever was still to come. What arrived in full stays readable.
    pub(crate) fn fail(&self, why: &Broken) {
        {
            let mut inbox = self.inbox.lock();
            if inbox.ended.is_none() {
                inbox.pieces.clear();
                inbox.ended = Some(Err(why.clone()));
            }
            wake(&mut inbox.waker);
        }
        {
            let mut outbox = self.outbox.lock();
            outbox.broken.get_or_insert_with(|| why.clone());
            wake(&mut outbox.waker);
        }
        self.gone.cancel();
    }
}

/// One end of a stream. Dropped before both directions ended, it ends the stream.
pub struct Exchange {
    receiving: Receiving,
    sending: Sending,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("stream", &self.sending.guard.lane.id).finish_non_exhaustive()
    }
}

impl Exchange {
    pub(crate) fn new(shared: Arc<Shared>, lane: Arc<Lane>) -> Self {
        let guard = Arc::new(Guard { shared, lane });
        Self { receiving: Receiving { guard: Arc::clone(&guard), resets: false }, sending: Sending { guard } }
    }

    /// Both directions, for two tasks.
    pub fn split(self) -> (Sending, Receiving) {
        (self.sending, self.receiving)
    }

    /// Resolves when the other end or the channel broke the stream off.
    pub fn gone(&self) -> CancellationToken {
        self.sending.guard.lane.gone.clone()
    }
}

/// What the other end sends.
pub struct Receiving {
    guard: Arc<Guard>,
    resets: bool,
}

impl fmt::Debug for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiving").field("stream", &self.guard.lane.id).finish_non_exhaustive()
    }
}

impl Receiving {
    /// Ends the whole stream when this is dropped early: whoever stops reading wants nothing any more.
    #[must_use]
    pub fn resetting_on_drop(mut self) -> Self {
        self.resets = true;
        self
    }

    /// How the answer begins. Asked once.
    ///
    /// # Errors
    /// When the stream broke before.
    pub async fn head(&mut self) -> Result<ProxyHead, Broken> {
        poll_fn(|cx| {
            let mut inbox = self.guard.lane.inbox.lock();
            if let Some(head) = &mut inbox.head {
                // The place stays taken: there is one head.
                return Poll::Ready(Ok(std::mem::take(head)));
            }
            match &inbox.ended {
                Some(Err(broken)) => Poll::Ready(Err(broken.clone())),
                Some(Ok(())) => Poll::Ready(Err(Broken::new("the answer ended before it began"))),
                None => {
                    park(&mut inbox.waker, cx);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// The next piece, in order; `None` at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        let lane = &self.guard.lane;
        let mut inbox = lane.inbox.lock();
        if let Some(piece) = inbox.pieces.pop_front() {
            let shared = &self.guard.shared;
            // Nobody waits for credit once everything has arrived.
            let grant = match inbox.ended {
                Some(_) => None,
                None => inbox.window.read(piece.len(), shared.round_trip(), &shared.spare),
            };
            drop(inbox);
            if let Some(credit) = grant {
                shared.say(lane.id, proxy_frame::Frame::Credit(credit));
            }
            return Poll::Ready(Some(Ok(piece)));
        }
        match &inbox.ended {
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(broken)) => Poll::Ready(Some(Err(broken.clone()))),
            None => {
                park(&mut inbox.waker, cx);
                Poll::Pending
            }
        }
    }

    /// The next piece, in order; `None` at the end.
    pub async fn piece(&mut self) -> Option<Result<Bytes, Broken>> {
        poll_fn(|cx| self.poll_piece(cx)).await
    }

    /// Bytes that arrived and were not read yet.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.guard.lane.inbox.lock().pieces.iter().map(Bytes::len).sum()
    }

    /// Bytes that are there and after which nothing comes, if everything is there.
    pub fn whole_length(&self) -> Option<u64> {
        let inbox = self.guard.lane.inbox.lock();
        matches!(inbox.ended, Some(Ok(()))).then(|| inbox.pieces.iter().map(|piece| piece.len() as u64).sum())
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let lane = &self.guard.lane;
        let unfinished = lane.inbox.lock().ended.is_none();
        if self.resets && unfinished {
            lane.fail(&Broken::new("nobody reads the answer any more"));
            self.guard.shared.reset(lane.id, "the client went away");
        }
    }
}

impl Body for Receiving {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.poll_piece(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.whole_length() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.whole_length().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// What this end sends.
pub struct Sending {
    guard: Arc<Guard>,
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").field("stream", &self.guard.lane.id).finish_non_exhaustive()
    }
}

impl Sending {
    /// Begins the answer, with as much of its body as fits, and says whether that was all of it. Returns what did
    /// not fit.
    #[must_use]
    pub fn begin(&mut self, head: ProxyHead) -> Bytes {
        let Guard { shared, lane } = &*self.guard;
        let mut outbox = lane.outbox.lock();
        if outbox.broken.is_some() {
            return Bytes::new();
        }
        let mut head = head;
        let fits = head.data.len().min(outbox.credit).min(PIECE);
        let rest = head.data.split_off(fits);
        outbox.credit -= fits;
        head.end = head.end && rest.is_empty();
        outbox.finished = head.end;
        drop(outbox);
        shared.say(lane.id, proxy_frame::Frame::Head(head));
        rest
    }

    /// Sends all of it, as fast as the other end reads.
    ///
    /// # Errors
    /// When the stream broke.
    pub async fn send(&mut self, mut bytes: Bytes) -> Result<(), Broken> {
        let Guard { shared, lane } = &*self.guard;
        while !bytes.is_empty() {
            let piece = poll_fn(|cx| {
                let mut outbox = lane.outbox.lock();
                if let Some(broken) = &outbox.broken {
                    return Poll::Ready(Err(broken.clone()));
                }
                let most = bytes.len().min(outbox.credit).min(PIECE);
                if most == 0 {
                    park(&mut outbox.waker, cx);
                    return Poll::Pending;
                }
                outbox.credit -= most;
                Poll::Ready(Ok(bytes.split_to(most)))
            })
            .await?;
            let frame = ProxyFrame { stream: lane.id, frame: Some(proxy_frame::Frame::Data(piece)) };
            shared.data.send(frame).await.map_err(|_| Broken::new("the channel is closed"))?;
        }
        Ok(())
    }

    /// Says that nothing more comes.
    ///
    /// # Errors
    /// When the stream broke.
    pub async fn finish(&mut self) -> Result<(), Broken> {
        let Guard { shared, lane } = &*self.guard;
        {
            let mut outbox = lane.outbox.lock();
            if let Some(broken) = &outbox.broken {
                return Err(broken.clone());
            }
            if std::mem::replace(&mut outbox.finished, true) {
                return Ok(());
            }
        }
        // Behind the data, hence not with `say`.
        let frame = ProxyFrame { stream: lane.id, frame: Some(proxy_frame::Frame::End(ProxyEnd {})) };
        shared.data.send(frame).await.map_err(|_| Broken::new("the channel is closed"))
    }

    /// Ends the stream for both sides.
    pub fn reset(self, reason: &str) {
        let Guard { shared, lane } = &*self.guard;
        lane.fail(&Broken::new(reason));
        shared.reset(lane.id, reason);
    }

    /// Resolves when the other end or the channel broke the stream off.
    pub fn gone(&self) -> CancellationToken {
        self.guard.lane.gone.clone()
    }
}

/// Forgets the stream when nobody here holds it any more.
struct Guard {
    shared: Arc<Shared>,
    lane: Arc<Lane>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let received = {
            let mut inbox = self.lane.inbox.lock();
            inbox.window.close(&self.shared.spare);
            inbox.ended.clone()
        };
        let sent = self.lane.outbox.lock().finished;
        self.shared.forget(self.lane.id);
        match received {
            Some(Ok(())) if sent => {}
            // The other end knows.
            Some(Err(_)) => {}
            // A reset would overtake what was said last.
            None if sent => self.shared.say(self.lane.id, proxy_frame::Frame::Stop(ProxyStop {})),
            _ => self.shared.reset(self.lane.id, "given up by the other end"),
        }
    }
}

fn park(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) if waker.will_wake(cx.waker()) => {}
        place => *place = Some(cx.waker().clone()),
    }
}

fn wake(place: &mut Option<Waker>) {
    if let Some(waker) = place.take() {
        waker.wake();
    }
}
