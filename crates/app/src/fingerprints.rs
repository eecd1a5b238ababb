//! The feed's last events by their fingerprints, so that a place in another history is told from one in ours.
//!
//! A database that was put back and then written to grows past the places that agents were told of before. Its places look
//! like theirs, but other events are there.

use std::collections::VecDeque;

use crate::ports::agents::{EventFingerprint, FeedPosition};

/// Events that are remembered, at most: 256 KiB. A place before them is not judged.
pub(crate) const MARKS: usize = 16_384;

/// Without a gap up to the last one.
#[derive(Debug, Default)]
pub(crate) struct Fingerprints(VecDeque<EventFingerprint>);

impl Fingerprints {
    /// Of a fresh load, in order.
    pub(crate) fn of(marks: Vec<EventFingerprint>) -> Self {
        let mut all = Self(marks.into());
        all.shrink();
        all
    }

    /// Takes in what was read next, in order.
    pub(crate) fn extend(&mut self, marks: impl Iterator<Item = EventFingerprint>) {
        self.0.extend(marks);
        self.shrink();
    }

    /// Of the last event up to a place; none when there is none, or none is remembered.
    pub(crate) fn at(&self, position: FeedPosition) -> Option<u64> {
        let after = self.0.partition_point(|known| known.position <= position);
        self.0.get(after.checked_sub(1)?).map(|known| known.mark)
    }

    fn shrink(&mut self) {
        if self.0.len() > MARKS {
            self.0.drain(..self.0.len() - MARKS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_event_up_to_a_place_marks_it() {
        let mark = |position| EventFingerprint { position, mark: position * 10 };
        let mut marks = Fingerprints::of(vec![mark(3), mark(5)]);
        assert_eq!([2, 3, 4, 5, 99].map(|at| marks.at(at)), [None, Some(30), Some(30), Some(50), Some(50)]);
        // A transaction with several events has one place.
        marks.extend(
            [EventFingerprint { position: 7, mark: 1 }, EventFingerprint { position: 7, mark: 2 }]
                .into_iter(),
        );
        assert_eq!((marks.at(6), marks.at(7)), (Some(50), Some(2)));
        marks.extend((8..).take(MARKS).map(mark));
        assert_eq!((marks.at(7), marks.at(8)), (None, Some(80)));
    }
}
