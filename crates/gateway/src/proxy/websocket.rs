//! Frames of a WebSocket (RFC 6455) as they pass by, taken apart as far as the channels of Kubernetes' shells need it: the
//! first byte of a message names its channel.
//!
//! API servers take each frame for a message, so a message in several frames, which clients of theirs do not send, is
//! refused here: what is recorded must be what was meant.

/// Bytes by which somebody else's frame may be ended.
const MOST_OWED: usize = 256 << 10;

/// The frames cannot be read, or not in one way only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the frames of the websocket cannot be read")]
pub(crate) struct Unreadable;

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Masks its frames.
    Client,
    /// Does not.
    Server,
}

/// A part of a message's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) channel: u8,
    pub(crate) content: Vec<u8>,
    /// The message ends here.
    pub(crate) last: bool,
}

/// Reads one side's frames, piece by piece as they come.
#[derive(Debug)]
pub(crate) struct Frames {
    side: Side,
    /// The bytes of a head that is not complete, 13 at most.
    head: Vec<u8>,
    body: Option<Body>,
}

#[derive(Debug)]
struct Body {
    left: u64,
    mask: [u8; 4],
    /// Bytes of it so far.
    at: u64,
    /// A message, and not a ping or the like.
    message: bool,
    channel: Option<u8>,
}

impl Frames {
    pub(crate) fn new(side: Side) -> Self {
        Self { side, head: Vec::new(), body: None }
    }

    /// How many bytes, whichever, end the frame that has begun: after them a frame of our own may be said. `None` where it
    /// does not hold for any bytes, or for too many.
    pub(crate) fn owed(&self) -> Option<usize> {
        match &self.body {
            None => self.head.is_empty().then_some(0),
            Some(Body { message: true, channel: None, .. }) => None,
            Some(body) => usize::try_from(body.left).ok().filter(|left| *left <= MOST_OWED),
        }
    }

    /// Takes the next bytes; answers what they hold of messages.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Part>, Unreadable> {
        let mut parts = Vec::new();
        let mut rest = bytes;
        while let Some((&first, after_first)) = rest.split_first() {
            if let Some(body) = &mut self.body {
                let here = usize::try_from(body.left).unwrap_or(usize::MAX).min(rest.len());
                let (content, after) = rest.split_at(here);
                rest = after;
                if let Some(part) = body.take(content) {
                    parts.push(part);
                }
                if body.left == 0 {
                    self.body = None;
                }
            } else {
                self.head.push(first);
                rest = after_first;
                if let Some(body) = self.begin()? {
                    self.head.clear();
                    self.body = (body.left > 0).then_some(body);
                }
            }
        }
        Ok(parts)
    }

    /// The body that follows, once the head is complete.
    fn begin(&self) -> Result<Option<Body>, Unreadable> {
        let [first, second, rest @ ..] = self.head.as_slice() else { return Ok(None) };
        let message = match first {
            // All of a message in this frame, without an extension's bits: text or binary.
            0x81 | 0x82 => true,
            // Close, ping, pong.
            0x88..=0x8a => false,
            _ => return Err(Unreadable),
        };
        let masked = second & 0x80 != 0;
        if masked != (self.side == Side::Client) {
            return Err(Unreadable);
        }
        let short = second & 0x7f;
        if !message && short > 125 {
            return Err(Unreadable);
        }
        let (length_bytes, mask_bytes) = match short {
            126 => (2, if masked { 4 } else { 0 }),
            127 => (8, if masked { 4 } else { 0 }),
            _ => (0, if masked { 4 } else { 0 }),
        };
        if rest.len() < length_bytes + mask_bytes {
            return Ok(None);
        }
        let (length, mask) = rest.split_at(length_bytes);
        let left = if length.is_empty() {
            u64::from(short)
        } else {
            length.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
        };
        if left > 1 << 62 {
            return Err(Unreadable);
        }
        let mask = <[u8; 4]>::try_from(mask).unwrap_or_default();
        Ok(Some(Body { left, mask, at: 0, message, channel: None }))
    }
}

impl Body {
    fn take(&mut self, content: &[u8]) -> Option<Part> {
        let mut content: Vec<u8> =
            content.iter().zip(self.mask_from()).map(|(byte, mask)| byte ^ mask).collect();
        let taken = content.len() as u64;
        self.left -= taken;
        self.at += taken;
        if !self.message {
            return None;
        }
        let channel = match self.channel {
            Some(channel) => channel,
            None if content.is_empty() => return None,
            None => *self.channel.insert(content.remove(0)),
        };
        Some(Part { channel, content, last: self.left == 0 })
    }

    /// The mask from where the body is, without end.
    fn mask_from(&self) -> impl Iterator<Item = u8> + use<> {
        let skip = usize::try_from(self.at % 4).unwrap_or_default();
        self.mask.into_iter().cycle().skip(skip)
    }
}

/// A server's frame with a short message on a channel.
pub(crate) fn server_frame(channel: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len() + 1;
    let mut frame = vec![0x82];
    match u8::try_from(length) {
        Ok(short) if short <= 125 => frame.push(short),
        _ => {
            // Nothing that we say is longer.
            let length = u16::try_from(length).unwrap_or(u16::MAX);
            frame.push(126);
            frame.extend_from_slice(&length.to_be_bytes());
        }
    }
    frame.push(channel);
    frame.extend(content.iter().take(usize::from(u16::MAX) - 1));
    frame
}

/// A server's frame that closes, normally.
pub(crate) const CLOSE: [u8; 4] = [0x88, 0x02, 0x03, 0xe8];

#[cfg(test)]
mod tests {
    use super::*;

    fn client_frame(first: u8, content: &[u8], mask: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![first];
        match content.len() {
            short @ 0..=125 => frame.push(0x80 | u8::try_from(short).unwrap()),
            middle => {
                frame.push(0x80 | 0x7e);
                frame.extend_from_slice(&u16::try_from(middle).unwrap().to_be_bytes());
            }
        }
        frame.extend_from_slice(&mask);
        frame.extend(content.iter().zip(mask.into_iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    /// Content by channel.
    type Content = Vec<(u8, Vec<u8>)>;

    /// Content by channel, and how many messages ended.
    fn read(side: Side, bytes: &[u8], step: usize) -> Result<(Content, usize), Unreadable> {
        let mut frames = Frames::new(side);
        let (mut found, mut ended): (Content, usize) = (Vec::new(), 0);
        for piece in bytes.chunks(step) {
            for part in frames.feed(piece)? {
                match found.last_mut() {
                    Some((channel, content)) if *channel == part.channel => content.extend(part.content),
                    _ => found.push((part.channel, part.content)),
                }
                ended += usize::from(part.last);
            }
        }
        assert_eq!(frames.owed(), Some(0));
        Ok((found, ended))
    }

    #[test]
    fn however_the_bytes_come_the_messages_are_the_same() {
        let long: Vec<u8> = (0..3000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let typed = |channel: u8, content: &[u8]| {
            let content: Vec<u8> = std::iter::once(channel).chain(content.iter().copied()).collect();
            client_frame(0x82, &content, [1, 2, 3, 250])
        };
        let bytes = [
            typed(0, b"ls\n"),
            client_frame(0x89, b"ping", [9; 4]),
            client_frame(0x82, b"", [9; 4]),
            typed(4, br#"{"Width":80,"Height":24}"#),
            typed(0, &long),
            client_frame(0x88, &[3, 232], [7; 4]),
        ]
        .concat();
        for step in [1, 2, 3, 7, 100, bytes.len()] {
            let (found, ended) = read(Side::Client, &bytes, step).unwrap();
            assert_eq!(ended, 3, "{step}");
            assert_eq!(found.len(), 3);
            assert_eq!(found[0], (0, b"ls\n".to_vec()));
            assert_eq!(found[1], (4, br#"{"Width":80,"Height":24}"#.to_vec()));
            assert_eq!(found[2], (0, long.clone()));
        }
    }

    #[test]
    fn a_frame_that_has_begun_can_be_ended() {
        let frame = server_frame(1, b"abc");
        let mut frames = Frames::new(Side::Server);
        for (byte, owed) in frame.iter().zip([None, None, Some(3), Some(2), Some(1), Some(0)]) {
            frames.feed(&[*byte]).unwrap();
            assert_eq!(frames.owed(), owed, "{byte}");
        }
    }

    #[test]
    fn our_own_frames_are_read_and_those_that_mean_two_things_are_not() {
        let text = "x".repeat(300);
        let bytes = [server_frame(3, b"short"), server_frame(1, text.as_bytes()), CLOSE.to_vec()].concat();
        let (found, _) = read(Side::Server, &bytes, 5).unwrap();
        assert_eq!(found, [(3, b"short".to_vec()), (1, text.into_bytes())]);
        for (side, bytes) in [
            // Unmasked, masked, in several frames, a continuation, compressed, an unknown kind, a long ping.
            (Side::Client, vec![0x82, 0x01, 0x00]),
            (Side::Server, client_frame(0x82, b"a", [1; 4])),
            (Side::Client, client_frame(0x02, b"a", [1; 4])),
            (Side::Client, client_frame(0x80, b"a", [1; 4])),
            (Side::Client, client_frame(0xc2, b"a", [1; 4])),
            (Side::Client, client_frame(0x83, b"a", [1; 4])),
            (Side::Client, vec![0x89, 0xfe, 0x01, 0x00]),
            (Side::Server, vec![0x82, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ] {
            assert_eq!(Frames::new(side).feed(&bytes), Err(Unreadable), "{bytes:x?}");
        }
    }
}
