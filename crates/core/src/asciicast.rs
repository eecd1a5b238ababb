//! asciicast, version 2: a terminal's session as lines of JSON.
//!
//! The first line says what it is of, each further one `[seconds, kind, text]`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::recording::{Recording, ShellKind};

/// What a terminal without a size is taken for.
const SIZE: (u16, u16) = (80, 24);

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CastEvent {
    /// Shown.
    Output,
    /// Typed.
    Input,
    /// The terminal's new size, as `COLUMNSxROWS`.
    Resize,
    /// A remark.
    Marker,
}

impl CastEvent {
    /// Its letter.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Output => "o",
            Self::Input => "i",
            Self::Resize => "r",
            Self::Marker => "m",
        }
    }
}

/// The first line, with its end.
pub fn cast_header(recording: &Recording) -> String {
    let (width, height) = recording.size.unwrap_or(SIZE);
    let shell = &recording.shell;
    let what = match shell.kind {
        ShellKind::Exec => "exec in",
        ShellKind::Attach => "attached to",
    };
    let container = shell.container.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
    let title = format!("{what} {}/{}{container} by {}", shell.namespace, shell.pod, recording.actor);
    let mut header = json!({
        "version": 2, "width": width, "height": height,
        "timestamp": recording.started_at.timestamp(), "title": title,
    });
    if let Some(header) = header.as_object_mut().filter(|_| !shell.command.is_empty()) {
        header.insert("command".to_owned(), Value::String(shell.command.join(" ")));
    }
    format!("{header}\n")
}

/// One event's line, with its end.
pub fn cast_event(at: Duration, kind: CastEvent, text: &str) -> String {
    let text = Value::String(text.to_owned());
    format!("[{}.{:06},\"{}\",{text}]\n", at.as_secs(), at.subsec_micros(), kind.as_str())
}

/// Text out of bytes that come in pieces: a character that is cut in two is kept until its rest comes, what is none becomes
/// U+FFFD.
#[derive(Debug, Default)]
pub struct Utf8Pieces {
    /// The beginning of a character, three bytes at most.
    begun: Vec<u8>,
}

impl Utf8Pieces {
    /// The text that is complete with this piece.
    pub fn push(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(piece);
        let mut text = String::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text;
                }
                Err(error) => {
                    let (valid, more) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(bad) = error.error_len() else {
                        self.begun = more.to_vec();
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = more.get(bad..).unwrap_or_default();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_lines_of_json() {
        let line = cast_event(Duration::from_micros(1_000_002), CastEvent::Output, "a\"\r\n\u{1b}[1m\u{0}");
        assert_eq!(line, "[1.000002,\"o\",\"a\\\"\\r\\n\\u001b[1m\\u0000\"]\n");
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read[2], "a\"\r\n\u{1b}[1m\u{0}");
    }

    #[test]
    fn characters_that_are_cut_are_put_together() {
        let text = "grüße 🚀!";
        for at in 0..text.len() {
            let mut pieces = Utf8Pieces::default();
            let (one, other) = text.as_bytes().split_at(at);
            assert_eq!(pieces.push(one) + &pieces.push(other), text, "{at}");
        }
        let mut pieces = Utf8Pieces::default();
        assert_eq!(pieces.push(b"a\xff\xfeb\xf0\x9f"), "a\u{fffd}\u{fffd}b");
        assert_eq!(pieces.push(b"x"), "\u{fffd}x");
        assert_eq!(pieces.push(b""), "");
    }
}
