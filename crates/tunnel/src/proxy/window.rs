//! How much a receiver is willing to hold, and how that grows for a line that is long and a reader that is fast.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// What each side of a stream may send before it hears of the other. Part of the contract.
pub(crate) const FIRST: usize = 256 << 10;
/// No window grows beyond this: 100 ms of 320 MB/s.
const LARGEST: usize = 32 << 20;

/// Bytes by which all windows of a channel together may exceed their first size.
#[derive(Debug)]
pub(crate) struct SpareWindow(AtomicUsize);

impl SpareWindow {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::AcqRel);
    }
}

/// The receiving side of one direction of one stream.
#[derive(Debug)]
pub(crate) struct Window {
    /// What the peer may still send.
    granted: usize,
    /// What it may have on the way or unread at once.
    size: usize,
    /// Read, and not yet granted again.
    read: usize,
    /// Since the last grant.
    since: Instant,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self { granted: FIRST, size: FIRST, read: 0, since: Instant::now() }
    }

    /// Bytes arrived; `false` when they were more than granted.
    pub(crate) fn arrived(&mut self, bytes: usize) -> bool {
        match self.granted.checked_sub(bytes) {
            Some(left) => {
                self.granted = left;
                true
            }
            None => false,
        }
    }

    /// Bytes were read; how much to grant the peer now, if anything.
    ///
    /// Half a window that is read within two round trips was too small: the peer waited for its grant.
    pub(crate) fn read(&mut self, bytes: usize, round_trip: Duration, spare: &SpareWindow) -> Option<u32> {
        self.read += bytes;
        if self.read < self.size / 2 {
            return None;
        }
        let mut grant = self.read;
        if self.size < LARGEST && self.since.elapsed() < round_trip * 2 && spare.take(self.size) {
            grant += self.size;
            self.size *= 2;
        }
        self.read = 0;
        self.since = Instant::now();
        self.granted += grant;
        u32::try_from(grant).ok()
    }

    /// The stream is over: what it had grown by is there for others.
    pub(crate) fn close(&mut self, spare: &SpareWindow) {
        spare.give_back(self.size.saturating_sub(FIRST));
        self.size = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_reader_on_a_long_line_gets_a_larger_window() {
        let spare = SpareWindow::new(64 << 20);
        let mut window = Window::new();
        let mut sent = 0;
        let mut allowed = FIRST;
        for _ in 0..400 {
            let piece = 32 << 10;
            if sent + piece > allowed {
                break;
            }
            sent += piece;
            assert!(window.arrived(piece));
            allowed += window.read(piece, Duration::from_mins(1), &spare).unwrap_or(0) as usize;
        }
        assert!(allowed - sent > 4 << 20, "{}", allowed - sent);
        let grown = window.size;
        assert!(grown > FIRST && grown <= LARGEST);
        window.close(&spare);
        assert_eq!(spare.0.load(Ordering::Relaxed), 64 << 20);
    }

    #[test]
    fn a_slow_reader_or_a_short_line_keeps_the_first_one() {
        let spare = SpareWindow::new(64 << 20);
        let mut window = Window::new();
        for _ in 0..100 {
            assert!(window.arrived(FIRST / 2));
            assert_eq!(window.read(FIRST / 2, Duration::ZERO, &spare), Some((FIRST / 2) as u32));
        }
        assert_eq!(window.size, FIRST);
    }

    #[test]
    fn all_windows_together_have_a_limit() {
        let spare = SpareWindow::new(FIRST);
        let (mut one, mut other) = (Window::new(), Window::new());
        for window in [&mut one, &mut other] {
            assert!(window.arrived(FIRST));
            window.read(FIRST, Duration::from_mins(1), &spare);
        }
        assert_eq!((one.size, other.size), (2 * FIRST, FIRST));
    }

    #[test]
    fn more_than_granted_is_noticed() {
        let mut window = Window::new();
        assert!(window.arrived(FIRST));
        assert!(!window.arrived(1));
    }
}
