//! What a terminal would take for a command is printed as text.
//!
//! Names, messages, annotations and errors come from clusters, repositories and other people. A terminal that is given their
//! escape sequences sets its title, writes the clipboard, hides lines or types answers; characters that turn the direction of
//! writing around make text read as another one.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use crate::terminal::Screen;

/// Passes text on with every character escaped that is more than text: `\u{1b}`. Line breaks and tabs stay.
pub(crate) struct Plain<'a> {
    to: &'a mut dyn Write,
    exact: bool,
    screen: Option<Screen>,
}

impl<'a> Plain<'a> {
    pub(crate) fn new(to: &'a mut dyn Write) -> Self {
        Self { to, exact: false, screen: None }
    }

    /// The same for a screen, which shows our own colours.
    pub(crate) fn of_screen(to: &'a mut dyn Write, screen: Option<Screen>) -> Self {
        Self { to, exact: false, screen }
    }

    /// Passes everything on as it is: what follows is a file, not something to look at.
    pub(crate) fn exact(to: &'a mut dyn Write) -> Self {
        Self { to, exact: true, screen: None }
    }
}

impl Write for Plain<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.exact || self.screen.as_ref().is_some_and(Screen::is_painted) {
            return self.to.write(bytes);
        }
        // Everything that is printed is text, and comes as whole characters. Bytes that are none are one of the ways to write
        // an escape sequence.
        let text = String::from_utf8_lossy(bytes);
        self.to.write_all(plain(&text, |letter| matches!(letter, '\n' | '\t')).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// `text` on one line.
pub(crate) fn one_line(text: &str) -> String {
    plain(text, |_| false)
}

/// `text` as JSON writes it: what is no text stands there as an escape, and means the same.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_text(letter) || letter == '\n' {
            out.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // Writing to a `String` cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

fn plain(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_text(letter) || stays(letter) {
            out.push(letter);
        } else {
            out.extend(letter.escape_unicode());
        }
    }
    out
}

/// Nothing but a sign on the screen. Joiners are: letters and emoji are made with them.
pub(crate) fn is_text(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter,
            // Marks, embeddings, overrides and isolates of direction.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Line ends of their own, and what nothing shows: a space of no width, old marks of shape, tags, notes.
            | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{200b}' | '\u{206a}'..='\u{206f}'
            | '\u{e0000}'..='\u{e007f}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &[u8]) -> String {
        let mut out = Vec::new();
        Plain::new(&mut out).write_all(text).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_no_text_is_shown_as_an_escape() {
        assert_eq!(shown("a\tb\nö 日本 👩\u{200d}🚀\n".as_bytes()), "a\tb\nö 日本 👩\u{200d}🚀\n");
        assert_eq!(shown(b"\x1b]52;c;aGk=\x07"), "\\u{1b}]52;c;aGk=\\u{7}");
        assert_eq!(shown("\u{9b}31m \u{9d}0;t\u{9c}".as_bytes()), "\\u{9b}31m \\u{9d}0;t\\u{9c}");
        assert_eq!(shown("kept\roverwritten\u{8}\u{7f}".as_bytes()), "kept\\u{d}overwritten\\u{8}\\u{7f}");
        assert_eq!(shown("a\u{202e}b\u{2066}c\u{200f}".as_bytes()), "a\\u{202e}b\\u{2066}c\\u{200f}");
        // A single byte that terminals of another encoding read as ESC [.
        assert!(!shown(b"\x9b31m").contains('\u{9b}') && !shown(b"\x9b31m").as_bytes().contains(&0x9b));
        let mut out = Vec::new();
        Plain::exact(&mut out).write_all(b"\x1b[31m\x9b").unwrap();
        assert_eq!(out, b"\x1b[31m\x9b");
    }

    #[test]
    fn json_means_the_same() {
        let text = "a\u{9b}\u{202e}\u{e0041}\u{7f}ö";
        let printed = json(&serde_json::to_string(text).unwrap());
        assert!(printed.chars().all(is_text), "{printed}");
        assert_eq!(serde_json::from_str::<String>(&printed).unwrap(), text);
    }
}
