//! Keeps the beginning and the end of a long text.

use std::collections::VecDeque;

/// Limit of the line that says how much is missing, in bytes.
const NOTE: u64 = 128;

/// The kept part of a stream: its first bytes as they come, and its last ones when it ends.
#[derive(Debug)]
pub(crate) struct Clip {
    head: u64,
    tail: usize,
    last: VecDeque<u8>,
    dropped: u64,
}

impl Clip {
    /// `most` bytes in all, `tail` of them of the end.
    pub(crate) fn new(most: u64, tail: usize) -> Self {
        let head = most.saturating_sub(tail as u64).saturating_sub(NOTE);
        Self { head, tail, last: VecDeque::new(), dropped: 0 }
    }

    /// Takes more bytes; returns how many of the first are kept as they are.
    pub(crate) fn push(&mut self, more: &[u8]) -> usize {
        let kept = usize::try_from(self.head).unwrap_or(usize::MAX).min(more.len());
        self.head -= kept as u64;
        let rest = &more[kept..];
        let rest = &rest[self.skipped(rest.len())..];
        let over = (self.last.len() + rest.len()).saturating_sub(self.tail);
        self.last.drain(..over);
        self.dropped += over as u64;
        self.last.extend(rest);
        kept
    }

    /// How many of these bytes are dropped at once, because the end has no room for them.
    fn skipped(&mut self, length: usize) -> usize {
        let skipped = length.saturating_sub(self.tail);
        self.dropped += skipped as u64;
        skipped
    }

    /// The end, after a line that says what is missing before it.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let mut end = Vec::new();
        if self.dropped > 0 {
            // It starts with a whole line.
            let line = self.last.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            self.last.drain(..line);
            let dropped = self.dropped + line as u64;
            end.extend(format!("\n--- {dropped} bytes are not kept: there is too much ---\n").into_bytes());
        }
        end.extend(self.last);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clipped(pieces: &[&[u8]]) -> String {
        let mut clip = Clip::new(NOTE + 10, 6);
        let mut all = Vec::new();
        for piece in pieces {
            let kept = clip.push(piece);
            all.extend_from_slice(&piece[..kept]);
        }
        all.extend(clip.finish());
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn what_fits_is_kept_whole() {
        assert_eq!(clipped(&[b"abc", b"d"]), "abcd");
        assert_eq!(clipped(&[b"abcdefgh", b"ij"]), "abcdefghij");
        assert_eq!(clipped(&[]), "");
    }

    #[test]
    fn the_middle_is_dropped_and_said_so() {
        let told = "abcd\n--- 6 bytes are not kept: there is too much ---\n78\n9\n";
        assert_eq!(clipped(&[b"abcdefghi\n78\n9\n"]), told);
        let bytes: Vec<&[u8]> = b"abcdefghi\n78\n9\n".chunks(1).collect();
        assert_eq!(clipped(&bytes), told);
    }
}
