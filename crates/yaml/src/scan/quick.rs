//! The short way through blocks: a key, a dash or a scalar that stands on a line as most do is read at once,
//! without tokens. Whatever looks in any way unusual is left to the scanner, from where it stands: what each
//! function here does to the scanner's state is what the tokens it replaces would have done.

use std::borrow::Cow;

use super::{MAX_DEPTH, Scanner, Style, scalars::PLAIN};

/// Longest key that is read the short way; the scanner's own limit is near.
const LONGEST_KEY: usize = 1000;

/// What a value in a block begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    /// A map, indented deeper.
    Mapping,
    /// A sequence, indented deeper.
    Sequence,
    /// A sequence whose dashes stand under the key it belongs to.
    Indentless,
    /// Nothing: what comes next belongs to something else.
    Nothing,
}

/// Whether a plain scalar may begin with this, whatever follows.
fn begins_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'/' | b'$')
}

fn begins_plain(byte: u8) -> bool {
    begins_key(byte) || matches!(byte, b'.' | b'<' | b'=' | b'(' | b'+' | b'~' | b'^' | b';')
}

impl<'a> Scanner<'a> {
    /// Goes to the next token of a block. False when the short way is not to be taken.
    fn at_block(&mut self) -> bool {
        if self.tokens_only || !self.tokens.is_empty() || self.ended || self.flow > 0 {
            return false;
        }
        self.skip_to_token();
        self.no_key_pending()
    }

    /// Whether no scalar that was read may yet turn out to be a key.
    fn no_key_pending(&mut self) -> bool {
        while let Some(&(_, level)) = self.possible.front() {
            let key = self.keys[level];
            let passed = key.line < self.line || key.index + 1024 < self.pos;
            if key.possible && (key.required || !passed) {
                return false;
            }
            self.keys[level].possible = false;
            self.possible.pop_front();
        }
        true
    }

    /// Length of the plain key at the cursor, if one stands there.
    fn key_len(&self) -> Option<usize> {
        let rest = &self.buf[self.pos..];
        if !begins_key(*rest.first()?) {
            return None;
        }
        let len = rest.iter().position(|b| !PLAIN[usize::from(*b)])?;
        (rest[len] == b':' && len <= LONGEST_KEY && self.is_blankz(self.pos + len + 1)).then_some(len)
    }

    fn at_dash(&self) -> bool {
        self.at(0) == b'-' && self.is_blankz(self.pos + 1)
    }

    /// Takes a key of the innermost map with its colon: its text, and its 0-based line.
    pub(crate) fn quick_key(&mut self) -> Option<(&'a str, usize)> {
        if !self.at_block() || !self.key_allowed || self.column() as isize != self.indent {
            return None;
        }
        let len = self.key_len()?;
        let text = &self.text[self.pos..self.pos + len];
        self.pos += len + 1;
        self.key_allowed = false;
        Some((text, self.line))
    }

    /// Takes a dash of the innermost sequence.
    pub(crate) fn quick_dash(&mut self) -> bool {
        let found =
            self.at_block() && self.key_allowed && self.column() as isize == self.indent && self.at_dash();
        if found {
            self.pos += 1;
        }
        found
    }

    /// Whether a sequence whose dashes stand under its key is over.
    pub(crate) fn quick_indentless_end(&mut self) -> bool {
        if !self.at_block() || !self.key_allowed || self.is_end(self.pos) {
            return false;
        }
        let column = self.column() as isize;
        column < self.indent || column == self.indent && self.key_len().is_some()
    }

    /// Ends the innermost map or sequence, if the next token stands further left.
    pub(crate) fn quick_end(&mut self) -> bool {
        let over = self.at_block() && !self.is_end(self.pos) && (self.column() as isize) < self.indent;
        if over {
            self.indent = self.indents.pop().unwrap_or(-1);
        }
        over
    }

    /// Enters the value that begins at the next token; `under_key` when it belongs to a key.
    pub(crate) fn quick_block(&mut self, under_key: bool) -> Option<Block> {
        if !self.at_block() || !self.key_allowed || self.is_end(self.pos) {
            return None;
        }
        let column = self.column() as isize;
        let (dash, key) = (self.at_dash(), self.key_len().is_some());
        if column > self.indent {
            let block = if dash {
                Block::Sequence
            } else if key {
                Block::Mapping
            } else {
                return None;
            };
            if self.indents.len() >= MAX_DEPTH {
                return None;
            }
            self.indents.push(self.indent);
            self.indent = column;
            return Some(block);
        }
        let same = column == self.indent;
        match (under_key, dash) {
            _ if !same => Some(Block::Nothing),
            (true, true) => Some(Block::Indentless),
            (false, true) => Some(Block::Nothing),
            (true, false) if key => Some(Block::Nothing),
            _ => None,
        }
    }

    /// Takes a scalar that begins on this line after a key or a dash, and ends on it.
    pub(crate) fn quick_scalar(&mut self) -> Option<(Cow<'a, str>, Style)> {
        if self.tokens_only
            || !self.tokens.is_empty()
            || self.ended
            || self.flow > 0
            || !self.no_key_pending()
        {
            return None;
        }
        while self.at(0) == b' ' {
            self.pos += 1;
        }
        match self.at(0) {
            quote @ (b'"' | b'\'') => self.quick_quoted(quote),
            b'-' if !self.is_blankz(self.pos + 1) => self.quick_plain(),
            first if begins_plain(first) => self.quick_plain(),
            _ => None,
        }
    }

    fn quick_quoted(&mut self, quote: u8) -> Option<(Cow<'a, str>, Style)> {
        let start = self.pos + 1;
        let rest = &self.buf[start..];
        let len = rest.iter().position(|&b| b == quote || b < b' ' || b == b'\\' || b >= 0x80)?;
        let after = rest.get(len + 1);
        // More on the line may make it a key.
        if rest[len] != quote || !matches!(after, None | Some(b'\n')) {
            return None;
        }
        self.pos = start + len + 1;
        self.key_allowed = false;
        Some((Cow::Borrowed(&self.text[start..start + len]), Style::Text))
    }

    fn quick_plain(&mut self) -> Option<(Cow<'a, str>, Style)> {
        let start = self.pos;
        let mut end = start;
        let mut at = start;
        while let Some(&byte) = self.buf.get(at) {
            match byte {
                byte if PLAIN[usize::from(byte)] => end = at + 1,
                b' ' if self.buf.get(at + 1) == Some(&b'#') => {
                    // What comes after a comment is no part of it.
                    self.pos = at + 1;
                    self.key_allowed = false;
                    return Some((Cow::Borrowed(&self.text[start..end]), Style::Plain));
                }
                b' ' => {}
                b':' if self.is_blankz(at + 1) => return None,
                b':' | b',' | b'?' | b'[' | b']' | b'{' | b'}' => end = at + 1,
                b'\n' => break,
                _ => return None,
            }
            at += 1;
        }
        // It goes on with the next line that is indented deeper.
        let (mut line, mut line_start) = (self.line, self.line_start);
        while self.buf.get(at) == Some(&b'\n') {
            at += 1;
            (line, line_start) = (line + 1, at);
            while self.buf.get(at) == Some(&b' ') {
                at += 1;
            }
        }
        match self.buf.get(at) {
            None | Some(b'#') => {}
            Some(b'\t' | b'\r' | 0x80..) => return None,
            Some(_) if (at - line_start) as isize > self.indent => return None,
            Some(_) => {}
        }
        if line > self.line {
            (self.line, self.line_start, self.continued) = (line, line_start, 0);
            self.key_allowed = true;
        } else {
            self.key_allowed = false;
        }
        self.pos = at;
        Some((Cow::Borrowed(&self.text[start..end]), Style::Plain))
    }
}
