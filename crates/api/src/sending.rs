//! Answers on their way: the bytes of an answer are counted from when they are written until the client has them.
//!
//! # Guarantees
//! - All answers that are not yet sent hold at most 272 MiB. Of the large ones a party has a quarter, of the small ones as many as
//!   it leaves to others, so that others get theirs however many there are who read nothing.
//! - Before a request is carried out there is room for a small answer to it, or, for who shows no credential, for one that says
//!   what became of it. As many requests of nobody as may be open at once leave room for one more address.
//! - Who does not read an answer in time gets no more of it, and loses the connection.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use plural_kit::{Permit, Permits, Visit};
use tokio::task::AbortHandle;

use crate::{
    auth::{OF_NOBODY, Party},
    graphql::{MOST_BYTES, Shortage},
};

/// Bytes that are handed on at a time. Answers of more are large.
const PIECE: usize = 64 << 10;
/// Bytes of all large answers that are not yet sent.
const LARGE: usize = 192 << 20;
/// Bytes of the small ones. They have their own, so that large answers that nobody reads keep no small one back.
const SMALL: usize = 64 << 20;
/// Bytes of the small ones for those who show no credential.
const NOBODYS: usize = 16 << 20;
/// Of these, what a request takes until its answer is written: half of all for as many as there may be.
const NOBODYS_RESERVE: usize = NOBODYS / 2 / OF_NOBODY;
/// Of the large ones, one party has one of so many shares.
const SHARES: usize = 4;
/// How long a client may take to read an answer, beside what its length takes.
const PATIENCE: Duration = Duration::from_mins(1);
/// Bytes that a client reads each second at least.
const SLOWEST: u64 = 64 << 10;

/// Permits for bytes of answers that are not yet sent.
#[derive(Debug, Clone)]
pub(crate) struct Sending {
    nobodys: Arc<Permits<Party>>,
    small: Arc<Permits<Party>>,
    large: Arc<Permits<Party>>,
}

impl Default for Sending {
    fn default() -> Self {
        Self::new(SMALL, LARGE)
    }
}

impl Sending {
    fn new(small: usize, large: usize) -> Self {
        Self {
            nobodys: Permits::leaving_room(NOBODYS),
            small: Permits::leaving_room(small),
            large: Permits::new(large, large / SHARES),
        }
    }

    fn small(&self, party: Party) -> &Arc<Permits<Party>> {
        match party {
            Party::User(_) => &self.small,
            Party::Address(_) => &self.nobodys,
        }
    }
}

/// Whom an answer is for.
#[derive(Debug, Clone)]
pub(crate) struct Recipient {
    sending: Sending,
    pub(crate) party: Party,
    /// The connection that the request came on.
    visit: Weak<Visit>,
    /// Room for a small answer: what was carried out is answered.
    reserved: Arc<Permit<Party>>,
    /// Bytes of it.
    reserve: usize,
}

impl Recipient {
    /// `None` when the party has so many answers to read that it gets no other one.
    pub(crate) fn new(sending: &Sending, party: Party, visit: Weak<Visit>) -> Option<Self> {
        let reserve = match party {
            Party::User(_) => PIECE,
            Party::Address(_) => NOBODYS_RESERVE,
        };
        let reserved = Arc::new(sending.small(party).take_many(party, reserve)?);
        Some(Self { sending: sending.clone(), party, visit, reserved, reserve })
    }
}

/// The text of an answer while it is written. Each full piece is counted.
#[derive(Debug)]
pub(crate) struct Text {
    recipient: Recipient,
    full: VecDeque<Piece>,
    /// Shorter than a piece.
    open: Vec<u8>,
    bytes: u64,
    shortage: Option<Shortage>,
}

/// A part of an answer, counted.
#[derive(Debug)]
struct Piece {
    text: Vec<u8>,
    _place: Arc<Permit<Party>>,
}

impl Text {
    pub(crate) fn new(recipient: Recipient) -> Self {
        Self { recipient, full: VecDeque::new(), open: Vec::new(), bytes: 0, shortage: None }
    }

    /// Why it could not be written.
    pub(crate) fn shortage(&self) -> Shortage {
        self.shortage.unwrap_or(Shortage::Bytes)
    }

    /// A body that sends it. For a thread of the runtime.
    ///
    /// # Errors
    /// [`Shortage::Unread`].
    pub(crate) fn into_body(self) -> Result<Body, Shortage> {
        let patience = PATIENCE + Duration::from_secs(self.bytes / SLOWEST);
        self.into_body_within(patience)
    }

    fn into_body_within(mut self, patience: Duration) -> Result<Body, Shortage> {
        if !self.open.is_empty() {
            self.seal()?;
        }
        let Self { recipient, full, open: _, bytes, shortage: _ } = self;
        let unsent = Arc::new(Mutex::new(full));
        let watch = Arc::new(Watch::new(&unsent, recipient.visit, patience));
        Ok(Body::new(Unsent { pieces: unsent, left: bytes, watch }))
    }

    /// Counts the open piece.
    fn seal(&mut self) -> Result<(), Shortage> {
        let Recipient { sending, party, visit: _, reserved, reserve } = &self.recipient;
        let is_small = self.full.is_empty() && self.open.len() < PIECE;
        let places = if is_small { sending.small(*party) } else { &sending.large };
        let place = match places.take_many(*party, self.open.capacity()) {
            Some(place) => Arc::new(place),
            None if is_small && self.open.len() <= *reserve => Arc::clone(reserved),
            None => return Err(Shortage::Unread),
        };
        self.full.push_back(Piece { text: std::mem::take(&mut self.open), _place: place });
        Ok(())
    }

    fn refuse(&mut self, shortage: Shortage) -> io::Error {
        self.shortage = Some(shortage);
        io::Error::other("there is no room for more")
    }
}

impl io::Write for Text {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes + more.len() as u64 > MOST_BYTES {
            return Err(self.refuse(Shortage::Bytes));
        }
        let taken = more.len().min(PIECE - self.open.len());
        self.open.extend_from_slice(&more[..taken]);
        self.bytes += taken as u64;
        if self.open.len() == PIECE {
            self.seal().map_err(|shortage| self.refuse(shortage))?;
            self.open.reserve_exact(PIECE);
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The body of an answer. What is not sent yet is emptied when its time is over, because the server does not ask a
/// body for more while its client reads nothing.
struct Unsent {
    pieces: Arc<Mutex<VecDeque<Piece>>>,
    left: u64,
    watch: Arc<Watch>,
}

impl HttpBody for Unsent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        if this.left == 0 {
            return Poll::Ready(None);
        }
        let piece = this.pieces.lock().pop_front();
        let Some(piece) = piece else {
            this.left = 0;
            return Poll::Ready(Some(Err(io::Error::other("the response was not read in time"))));
        };
        this.left = this.left.saturating_sub(piece.text.len() as u64);
        let sent = Sent { piece, _watch: Arc::clone(&this.watch) };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(sent)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A piece that the server holds until the connection takes it: counted and watched until then.
struct Sent {
    piece: Piece,
    _watch: Arc<Watch>,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.piece.text
    }
}

/// Gives an answer up when its time is over. Ends with the last bytes of it.
struct Watch(AbortHandle);

impl Watch {
    fn new(unsent: &Arc<Mutex<VecDeque<Piece>>>, visit: Weak<Visit>, patience: Duration) -> Self {
        let unsent = Arc::downgrade(unsent);
        let task = tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            metrics::counter!("plural_answers_unread_total").increment(1);
            if let Some(unsent) = unsent.upgrade() {
                unsent.lock().clear();
            }
            // What the server holds goes with the connection.
            if let Some(visit) = visit.upgrade() {
                visit.end_unread();
            }
        });
        Self(task.abort_handle())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, net::Ipv4Addr};

    use http_body_util::BodyExt as _;

    use super::*;

    const MIB: usize = 1 << 20;

    fn text(sending: &Sending, user: u128, bytes: usize) -> Result<Text, Shortage> {
        let recipient = Recipient::new(sending, Party::User(user), Weak::new()).ok_or(Shortage::Unread)?;
        let mut text = Text::new(recipient);
        match text.write_all(&vec![b'x'; bytes]) {
            Ok(()) => Ok(text),
            Err(_) => Err(text.shortage()),
        }
    }

    fn body(sending: &Sending, user: u128, bytes: usize) -> Result<Body, Shortage> {
        text(sending, user, bytes)?.into_body()
    }

    #[tokio::test]
    async fn answers_that_nobody_reads_are_counted() {
        let sending = Sending::new(8 * PIECE, 16 * MIB);
        let unread = body(&sending, 1, 3 * MIB).unwrap();
        assert_eq!(body(&sending, 1, 2 * MIB).err(), Some(Shortage::Unread));
        // Small ones of the same user are sent all the same, up to a limit of their own.
        let mut small = Vec::new();
        while let Ok(body) = body(&sending, 1, PIECE - 1) {
            small.push(body);
        }
        assert!((3..=4).contains(&small.len()), "{}", small.len());
        // Others have their part, until all is taken.
        let others: Vec<_> = (2..5).map(|user| body(&sending, user, 4 * MIB).unwrap()).collect();
        assert_eq!(body(&sending, 5, 2 * MIB).err(), Some(Shortage::Unread));
        assert!(body(&sending, 5, 1_000).is_ok());
        // What is carried out is answered, whatever happens meanwhile.
        let carried_out = text(&sending, 6, PIECE - 1).unwrap();
        let mut unread_since = Vec::new();
        while let Some(place) = sending.small.take_many(Party::User(6), 1_000) {
            unread_since.push(place);
        }
        let answer = carried_out.into_body().unwrap();
        drop((answer, unread_since));
        drop((unread, small, others));
        let read = body(&sending, 1, 4 * MIB).unwrap().collect().await.unwrap().to_bytes();
        assert_eq!(read.len(), 4 * MIB);
        drop(read);
        assert!(sending.large.take_many(Party::User(1), 4 * MIB).is_some());
        assert!(sending.small.take_many(Party::User(1), PIECE).is_some());
        let most = MOST_BYTES as usize;
        assert_eq!(text(&Sending::default(), 1, most + 1).err(), Some(Shortage::Bytes));
    }

    #[tokio::test]
    async fn requests_of_nobody_leave_room_for_one_more_address() {
        let sending = Sending::default();
        let of = |address: u32| {
            let party = Party::Address(Some(Ipv4Addr::from_bits(address).into()));
            Recipient::new(&sending, party, Weak::new())
        };
        let open: Vec<_> = (0..OF_NOBODY as u32).map(|n| of(n / 8).unwrap()).collect();
        let mut text = Text::new(of(u32::MAX).unwrap());
        text.write_all(&[b'x'; 1_000]).unwrap();
        drop(text.into_body().unwrap());
        // Without room for all of an answer, there is room to say so.
        let mut all = Vec::new();
        while let Some(place) = sending.nobodys.take_many(open[0].party, NOBODYS_RESERVE) {
            all.push(place);
        }
        let answer = |bytes: usize| {
            let mut text = Text::new(open[0].clone());
            text.write_all(&vec![b'x'; bytes]).unwrap();
            text.into_body().err()
        };
        assert_eq!(answer(NOBODYS_RESERVE + 1), Some(Shortage::Unread));
        assert_eq!(answer(NOBODYS_RESERVE), None);
    }

    #[tokio::test]
    async fn an_answer_goes_in_pieces_that_are_counted_until_they_are_gone() {
        let sending = Sending::new(MIB, 16 * MIB);
        let mut body = body(&sending, 1, 4 * MIB).unwrap();
        assert_eq!(body.size_hint().exact(), Some(4 * MIB as u64));
        let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(piece.len(), PIECE);
        assert!(sending.large.take(Party::User(1)).is_none());
        drop(piece);
        assert!(sending.large.take(Party::User(1)).is_some());
    }

    #[tokio::test]
    async fn what_is_not_read_in_time_is_given_up() {
        let sending = Sending::new(MIB, 16 * MIB);
        let mut body =
            text(&sending, 1, 4 * MIB).unwrap().into_body_within(Duration::from_millis(1)).unwrap();
        let given_up = async {
            while sending.large.take_many(Party::User(1), 4 * MIB).is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), given_up).await.unwrap();
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.frame().await.is_none());
    }
}
