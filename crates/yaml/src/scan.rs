//! Characters become tokens: the YAML 1.1 scanner, with the limits and the error texts that Go
//! programs show, because templates compare and print them.
//!
//! `plural-kustomize` has a scanner of its own for the same rules. That one keeps for each token where it begins
//! and how it was quoted, reads directives, and words errors for two generations of Go's library, which differ
//! in lookahead and in the line that an error names. This one keeps a line for each token, words errors as one
//! generation, and reads most blocks without tokens ([`quick`]). What Helm and Kustomize print for wrong YAML is
//! compared with both, so one scanner would have to keep each of these differences.

mod quick;
mod scalars;

use std::{borrow::Cow, collections::VecDeque};

use super::YamlError;
pub(super) use quick::Block;

/// Deepest nesting of flow and of block collections.
pub(super) const MAX_DEPTH: usize = 10_000;

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Without quotes: its text decides its type.
    Plain,
    /// Quoted or a block: always text.
    Text,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    StreamEnd,
    Directive,
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(Cow<'a, str>),
    Anchor(Cow<'a, str>),
    /// Handle and suffix.
    Tag(Box<(String, String)>),
    Scalar(Cow<'a, str>, Style),
}

#[derive(Debug, Clone)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    /// 0-based line on which it begins.
    pub(super) line: usize,
    /// Byte at which it begins.
    pub(super) start: usize,
    /// Byte behind it, white space perhaps included; of a mark of one character, as `start`.
    pub(super) end: usize,
}

#[derive(Debug, Clone, Copy)]
struct SimpleKey {
    possible: bool,
    required: bool,
    token: usize,
    line: usize,
    index: usize,
    column: usize,
}

pub(super) struct Scanner<'a> {
    text: &'a str,
    buf: &'a [u8],
    pos: usize,
    line: usize,
    line_start: usize,
    /// Where the token begins that is read now.
    start: usize,
    /// Continuation bytes since the line began: columns count characters.
    continued: usize,
    tokens: VecDeque<Token<'a>>,
    parsed: usize,
    ended: bool,
    indent: isize,
    indents: Vec<isize>,
    keys: Vec<SimpleKey>,
    /// (token number, flow level) of the keys that are possible, oldest first.
    possible: VecDeque<(usize, usize)>,
    key_allowed: bool,
    flow: usize,
    /// Whether the first token is known to be final.
    ready: bool,
    /// Everything becomes tokens, for tests.
    pub(super) tokens_only: bool,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            buf: text.as_bytes(),
            pos: 0,
            line: 0,
            line_start: 0,
            start: 0,
            continued: 0,
            tokens: VecDeque::new(),
            parsed: 0,
            ended: false,
            indent: -1,
            indents: Vec::new(),
            keys: vec![SimpleKey {
                possible: false,
                required: false,
                token: 0,
                line: 0,
                index: 0,
                column: 0,
            }],
            possible: VecDeque::new(),
            key_allowed: true,
            flow: 0,
            ready: false,
            tokens_only: false,
        }
    }

    /// The next token, left in place. After the end of the stream it is always `StreamEnd`.
    ///
    /// Composers are compiled in the crates of their values: without the hint each token costs two calls.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<&Token<'a>, YamlError> {
        if !self.ready {
            self.prepare()?;
        }
        Ok(&self.tokens[0])
    }

    fn prepare(&mut self) -> Result<(), YamlError> {
        loop {
            if !self.tokens.is_empty() {
                let Some(&(token, level)) = self.possible.front() else { break };
                if token != self.parsed {
                    break;
                }
                if !self.key_valid(level)? {
                    break;
                }
            }
            if self.ended {
                break;
            }
            self.fetch()?;
        }
        if self.tokens.is_empty() {
            self.push(Kind::StreamEnd, self.line);
        }
        self.ready = true;
        Ok(())
    }

    #[inline]
    pub(super) fn take(&mut self) -> Result<Token<'a>, YamlError> {
        self.peek()?;
        self.ready = false;
        self.parsed += 1;
        self.tokens.pop_front().ok_or_else(|| YamlError::syntax(0, "unknown problem parsing YAML content"))
    }

    fn at(&self, offset: usize) -> u8 {
        self.buf.get(self.pos + offset).copied().unwrap_or(0)
    }

    /// 0-based line of the cursor.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    fn column(&self) -> usize {
        self.pos - self.line_start - self.continued
    }

    /// Length of the line break at `pos`, 0 when there is none.
    fn break_len(&self, pos: usize) -> usize {
        match self.buf.get(pos) {
            Some(b'\n') => 1,
            Some(b'\r') => 1 + usize::from(self.buf.get(pos + 1) == Some(&b'\n')),
            Some(0xC2) if self.buf.get(pos + 1) == Some(&0x85) => 2,
            Some(0xE2)
                if self.buf.get(pos + 1) == Some(&0x80)
                    && matches!(self.buf.get(pos + 2), Some(0xA8 | 0xA9)) =>
            {
                3
            }
            _ => 0,
        }
    }

    fn is_end(&self, pos: usize) -> bool {
        pos >= self.buf.len()
    }

    fn is_blankz(&self, pos: usize) -> bool {
        match self.buf.get(pos) {
            None | Some(b' ' | b'\t' | b'\n' | b'\r') => true,
            Some(0xC2 | 0xE2) => self.break_len(pos) > 0,
            _ => false,
        }
    }

    fn is_breakz(&self, pos: usize) -> bool {
        self.is_end(pos) || self.break_len(pos) > 0
    }

    fn is_blank(&self, pos: usize) -> bool {
        matches!(self.buf.get(pos), Some(b' ' | b'\t'))
    }

    /// One character on.
    #[inline]
    fn skip(&mut self) {
        self.pos += 1;
        while self.buf.get(self.pos).is_some_and(|b| b & 0xC0 == 0x80) {
            self.pos += 1;
            self.continued += 1;
        }
    }

    fn skip_line(&mut self) {
        let len = self.break_len(self.pos);
        if len > 0 {
            self.pos += len;
            self.line += 1;
            self.line_start = self.pos;
            self.continued = 0;
        }
    }

    /// The break at the cursor as it counts in a scalar, appended to `into`.
    fn read_line(&mut self, into: &mut String) {
        let len = self.break_len(self.pos);
        if len == 3 {
            into.push_str(&self.text[self.pos..self.pos + 3]);
        } else if len > 0 {
            into.push('\n');
        }
        self.skip_line();
    }

    fn error<T>(&self, problem: &str) -> Result<T, YamlError> {
        Err(YamlError::syntax(if self.line == 0 { 0 } else { self.line + 1 }, problem))
    }

    /// As [`Self::error`], with the line of the construct's start for when the problem is on line 0.
    fn error_in<T>(&self, context: usize, problem: &str) -> Result<T, YamlError> {
        let line = if self.line != 0 { self.line + 1 } else { context };
        Err(YamlError::syntax(line, problem))
    }

    fn push(&mut self, kind: Kind<'a>, line: usize) {
        self.tokens.push_back(Token { kind, line, start: self.start, end: self.pos });
    }

    fn key_valid(&mut self, level: usize) -> Result<bool, YamlError> {
        let key = self.keys[level];
        if !key.possible {
            return Ok(false);
        }
        if key.line < self.line || key.index + 1024 < self.pos {
            if key.required {
                return self.error_in(key.line, "could not find expected ':'");
            }
            self.keys[level].possible = false;
            self.possible.retain(|&(_, l)| l != level);
            return Ok(false);
        }
        Ok(true)
    }

    fn save_key(&mut self) -> Result<(), YamlError> {
        if self.key_allowed {
            let column = self.column();
            let required = self.flow == 0 && self.indent == column as isize;
            self.remove_key()?;
            let token = self.parsed + self.tokens.len();
            let level = self.keys.len() - 1;
            self.keys[level] =
                SimpleKey { possible: true, required, token, line: self.line, index: self.pos, column };
            self.possible.push_back((token, level));
        }
        Ok(())
    }

    fn remove_key(&mut self) -> Result<(), YamlError> {
        let level = self.keys.len() - 1;
        let key = self.keys[level];
        if key.possible {
            if key.required {
                return self.error_in(key.line, "could not find expected ':'");
            }
            self.keys[level].possible = false;
            self.forget(level);
        }
        Ok(())
    }

    fn forget(&mut self, level: usize) {
        while self.possible.back().is_some_and(|&(_, l)| l >= level) {
            self.possible.pop_back();
        }
    }

    fn roll(
        &mut self,
        column: usize,
        number: Option<usize>,
        kind: Kind<'a>,
        line: usize,
    ) -> Result<(), YamlError> {
        if self.flow > 0 || self.indent >= column as isize {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column as isize;
        if self.indents.len() > MAX_DEPTH {
            return self.error(&format!("exceeded max depth of {MAX_DEPTH}"));
        }
        let token = Token { kind, line, start: self.start, end: self.start };
        match number {
            Some(number) => self.tokens.insert((number - self.parsed).min(self.tokens.len()), token),
            None => self.tokens.push_back(token),
        }
        Ok(())
    }

    fn unroll(&mut self, column: isize) {
        if self.flow > 0 {
            return;
        }
        while self.indent > column {
            self.push(Kind::BlockEnd, self.line);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch(&mut self) -> Result<(), YamlError> {
        self.skip_to_token();
        self.start = self.pos;
        self.unroll(self.column() as isize);
        if self.is_end(self.pos) {
            return self.fetch_stream_end();
        }
        let c = self.at(0);
        if self.column() == 0 {
            if c == b'%' {
                return self.fetch_directive();
            }
            if (c == b'-' || c == b'.') && self.at_document_mark() {
                self.unroll(-1);
                self.remove_key()?;
                self.key_allowed = false;
                self.push(if c == b'-' { Kind::DocumentStart } else { Kind::DocumentEnd }, self.line);
                self.pos += 3;
                return Ok(());
            }
        }
        let next_blank = self.is_blankz(self.pos + 1);
        match c {
            b'[' => self.fetch_flow_start(Kind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(Kind::FlowMappingStart),
            b']' => self.fetch_flow_end(Kind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(Kind::FlowMappingEnd),
            b',' => {
                self.remove_key()?;
                self.key_allowed = true;
                self.push(Kind::FlowEntry, self.line);
                self.skip();
                Ok(())
            }
            b'-' if next_blank => self.fetch_block_entry(),
            b'?' if self.flow > 0 || next_blank => self.fetch_key(),
            b':' if self.flow > 0 || next_blank => self.fetch_value(),
            b'*' => self.fetch_anchor(false),
            b'&' => self.fetch_anchor(true),
            b'!' => self.fetch_tag(),
            b'|' if self.flow == 0 => self.fetch_block_scalar(true),
            b'>' if self.flow == 0 => self.fetch_block_scalar(false),
            b'\'' => self.fetch_flow_scalar(true),
            b'"' => self.fetch_flow_scalar(false),
            b'-' if !self.is_blank(self.pos + 1) => self.fetch_plain(),
            b'?' | b':' if self.flow == 0 && !next_blank => self.fetch_plain(),
            b'-' | b'?' | b':' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => {
                self.error("found character that cannot start any token")
            }
            _ => self.fetch_plain(),
        }
    }

    fn at_document_mark(&self) -> bool {
        let c = self.at(0);
        (c == b'-' || c == b'.') && self.at(1) == c && self.at(2) == c && self.is_blankz(self.pos + 3)
    }

    fn skip_to_token(&mut self) {
        loop {
            if self.column() == 0 && self.buf[self.pos..].starts_with(&[0xEF, 0xBB, 0xBF]) {
                self.pos += 3;
                self.line_start = self.pos;
            }
            while self.at(0) == b' ' || ((self.flow > 0 || !self.key_allowed) && self.at(0) == b'\t') {
                self.pos += 1;
            }
            if self.at(0) == b'#' {
                self.skip_to_break();
            }
            if self.break_len(self.pos) == 0 {
                return;
            }
            self.skip_line();
            if self.flow == 0 {
                self.key_allowed = true;
            }
        }
    }

    fn fetch_stream_end(&mut self) -> Result<(), YamlError> {
        if self.column() != 0 {
            self.line += 1;
            self.line_start = self.pos;
            self.continued = 0;
        }
        self.unroll(-1);
        self.remove_key()?;
        self.key_allowed = false;
        self.push(Kind::StreamEnd, self.line);
        self.ended = true;
        Ok(())
    }

    fn fetch_directive(&mut self) -> Result<(), YamlError> {
        self.unroll(-1);
        self.remove_key()?;
        self.key_allowed = false;
        let line = self.line;
        let start = self.pos + 1;
        while !self.is_blankz(self.pos) {
            self.skip();
        }
        match &self.text[start..self.pos] {
            "YAML" | "TAG" => {}
            "" => return self.error_in(line, "could not find expected directive name"),
            _ => return self.error_in(line, "found unknown directive name"),
        }
        while !self.is_breakz(self.pos) {
            self.skip();
        }
        self.push(Kind::Directive, line);
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: Kind<'a>) -> Result<(), YamlError> {
        self.save_key()?;
        let token = self.parsed + self.tokens.len();
        self.keys.push(SimpleKey {
            possible: false,
            required: false,
            token,
            line: self.line,
            index: self.pos,
            column: self.column(),
        });
        self.flow += 1;
        if self.flow > MAX_DEPTH {
            return self.error(&format!("exceeded max depth of {MAX_DEPTH}"));
        }
        self.key_allowed = true;
        self.push(kind, self.line);
        self.skip();
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: Kind<'a>) -> Result<(), YamlError> {
        self.remove_key()?;
        if self.flow > 0 {
            self.flow -= 1;
            self.keys.pop();
            self.forget(self.keys.len());
        }
        self.key_allowed = false;
        self.push(kind, self.line);
        self.skip();
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), YamlError> {
        if self.flow == 0 {
            if !self.key_allowed {
                return self.error("block sequence entries are not allowed in this context");
            }
            self.roll(self.column(), None, Kind::BlockSequenceStart, self.line)?;
        }
        self.remove_key()?;
        self.key_allowed = true;
        self.push(Kind::BlockEntry, self.line);
        self.skip();
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), YamlError> {
        if self.flow == 0 {
            if !self.key_allowed {
                return self.error("mapping keys are not allowed in this context");
            }
            self.roll(self.column(), None, Kind::BlockMappingStart, self.line)?;
        }
        self.remove_key()?;
        self.key_allowed = self.flow == 0;
        self.push(Kind::Key, self.line);
        self.skip();
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), YamlError> {
        let level = self.keys.len() - 1;
        if self.key_valid(level)? {
            let key = self.keys[level];
            let at = (key.token - self.parsed).min(self.tokens.len());
            self.tokens
                .insert(at, Token { kind: Kind::Key, line: key.line, start: key.index, end: key.index });
            self.roll(key.column, Some(key.token), Kind::BlockMappingStart, key.line)?;
            self.keys[level].possible = false;
            self.forget(level);
            self.key_allowed = false;
        } else {
            if self.flow == 0 {
                if !self.key_allowed {
                    return self.error("mapping values are not allowed in this context");
                }
                self.roll(self.column(), None, Kind::BlockMappingStart, self.line)?;
            }
            self.key_allowed = self.flow == 0;
        }
        self.push(Kind::Value, self.line);
        self.skip();
        Ok(())
    }

    fn fetch_anchor(&mut self, anchor: bool) -> Result<(), YamlError> {
        self.save_key()?;
        self.key_allowed = false;
        let line = self.line;
        self.skip();
        let start = self.pos;
        while self.at(0).is_ascii_alphanumeric() || matches!(self.at(0), b'_' | b'-') {
            self.pos += 1;
        }
        let name = &self.text[start..self.pos];
        let stop = self.is_blankz(self.pos)
            || matches!(self.at(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !stop {
            return self.error_in(line, "did not find expected alphabetic or numeric character");
        }
        let name = Cow::Borrowed(name);
        self.push(if anchor { Kind::Anchor(name) } else { Kind::Alias(name) }, line);
        Ok(())
    }

    fn fetch_tag(&mut self) -> Result<(), YamlError> {
        self.save_key()?;
        self.key_allowed = false;
        let line = self.line;
        let (handle, suffix) = if self.at(1) == b'<' {
            self.pos += 2;
            let suffix = self.tag_uri("", line)?;
            if self.at(0) != b'>' {
                return self.error_in(line, "did not find the expected '>'");
            }
            self.skip();
            (String::new(), suffix)
        } else {
            let start = self.pos;
            self.skip();
            while self.at(0).is_ascii_alphanumeric() || matches!(self.at(0), b'_' | b'-') {
                self.pos += 1;
            }
            if self.at(0) == b'!' {
                self.pos += 1;
            }
            let handle = &self.text[start..self.pos];
            if handle.len() > 1 && handle.ends_with('!') {
                (handle.to_owned(), self.tag_uri("", line)?)
            } else {
                let suffix = self.tag_uri(handle, line)?;
                if suffix.is_empty() { (String::new(), "!".to_owned()) } else { ("!".to_owned(), suffix) }
            }
        };
        if !self.is_blankz(self.pos) {
            return self.error_in(line, "did not find expected whitespace or line break");
        }
        self.push(Kind::Tag(Box::new((handle, suffix))), line);
        Ok(())
    }

    fn tag_uri(&mut self, head: &str, line: usize) -> Result<String, YamlError> {
        let mut uri = Vec::new();
        let mut found = !head.is_empty();
        uri.extend_from_slice(head.as_bytes().get(1..).unwrap_or_default());
        loop {
            let c = self.at(0);
            if c == b'%' {
                let hex = |b: u8| (b as char).to_digit(16);
                let (Some(high), Some(low)) = (hex(self.at(1)), hex(self.at(2))) else {
                    return self.error_in(line, "did not find URI escaped octet");
                };
                uri.push((high * 16 + low) as u8);
                self.pos += 3;
            } else if c.is_ascii_alphanumeric() || (c != 0 && b"_-;/?:@&=+$,.!~*'()[]".contains(&c)) {
                uri.push(c);
                self.pos += 1;
            } else {
                break;
            }
            found = true;
        }
        if !found {
            return self.error_in(line, "did not find expected tag URI");
        }
        String::from_utf8(uri).or_else(|_| self.error_in(line, "found an incorrect trailing UTF-8 octet"))
    }
}
