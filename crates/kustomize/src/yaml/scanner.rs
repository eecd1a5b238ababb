//! Characters become tokens, by the rules of libyaml (YAML 1.1).
//!
//! Not the scanner of `plural-yaml`, which says why there are two.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::node::Style;

mod scalars;
mod tags;

pub(crate) use scalars::block_text;

/// A position: zero-based line and column (in characters) and the byte offset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) line: u32,
    pub(super) col: u32,
    pub(super) index: usize,
}

/// What is wrong with a text and where.
#[derive(Clone, Debug)]
pub(crate) struct SyntaxError {
    pub(crate) problem: Cow<'static, str>,
    context: Option<Mark>,
    at: Option<Mark>,
    scanning: bool,
    /// The text is well formed; its merge keys make no sense.
    pub(crate) merging: bool,
}

impl SyntaxError {
    pub(super) fn scan(context: Mark, at: Mark, problem: &'static str) -> Self {
        Self {
            problem: Cow::Borrowed(problem),
            context: Some(context),
            at: Some(at),
            scanning: true,
            merging: false,
        }
    }

    pub(super) fn parse(context: Option<Mark>, at: Mark, problem: &'static str) -> Self {
        Self { problem: Cow::Borrowed(problem), context, at: Some(at), scanning: false, merging: false }
    }

    pub(super) fn plain(problem: impl Into<Cow<'static, str>>) -> Self {
        Self { problem: problem.into(), context: None, at: None, scanning: false, merging: false }
    }

    pub(super) fn merge(problem: &'static str) -> Self {
        Self { merging: true, ..Self::plain(problem) }
    }

    /// The message as the second generation of the library words it: the place of the problem counts.
    pub(crate) fn at_problem(&self) -> String {
        self.worded([self.at, self.context])
    }

    /// The message as the third generation words it: the place where the construct began counts.
    pub(crate) fn at_context(&self) -> String {
        self.worded([self.context, self.at])
    }

    fn worded(&self, marks: [Option<Mark>; 2]) -> String {
        let line = marks.into_iter().flatten().map(|m| m.line).find(|l| *l != 0);
        match line {
            Some(l) if self.scanning => format!("yaml: line {}: {}", l + 1, self.problem),
            Some(l) => format!("yaml: line {l}: {}", self.problem),
            None => format!("yaml: {}", self.problem),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum TokenKind<'a> {
    StreamEnd,
    VersionDirective,
    TagDirective(Cow<'a, str>, Cow<'a, str>),
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
    Alias(&'a str),
    Anchor(&'a str),
    Tag(Cow<'a, str>, Cow<'a, str>),
    Scalar(Cow<'a, str>, Style),
}

#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind<'a>,
    pub(super) start: Mark,
}

#[derive(Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    token: usize,
    mark: Mark,
}

/// Longest run of characters that may still be a key without `?`.
const SIMPLE_KEY_SPAN: usize = 1024;

pub(super) struct Scanner<'a> {
    text: &'a str,
    src: &'a [u8],
    mark: Mark,
    tokens: VecDeque<Token<'a>>,
    parsed: usize,
    indent: i32,
    indents: Vec<i32>,
    flow: usize,
    keys: Vec<SimpleKey>,
    key_allowed: bool,
    ended: bool,
    max_depth: usize,
    ahead: usize,
}

type Scan<T> = Result<T, SyntaxError>;

fn is_alpha(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

impl<'a> Scanner<'a> {
    /// # Errors
    /// Control characters.
    pub(super) fn new(text: &'a str, max_depth: usize, ahead: usize) -> Scan<Self> {
        check_characters(text)?;
        Ok(Self {
            text,
            src: text.as_bytes(),
            mark: Mark::default(),
            tokens: VecDeque::new(),
            parsed: 0,
            indent: -1,
            indents: Vec::new(),
            flow: 0,
            keys: vec![SimpleKey::default()],
            key_allowed: true,
            ended: false,
            max_depth,
            ahead,
        })
    }

    /// The next token, without taking it.
    pub(super) fn peek(&mut self) -> Scan<&Token<'a>> {
        self.fill()?;
        self.tokens.front().ok_or_else(|| SyntaxError::plain("unexpected end of input"))
    }

    /// Takes the next token.
    pub(super) fn next(&mut self) -> Scan<Token<'a>> {
        self.fill()?;
        self.parsed += 1;
        self.tokens.pop_front().ok_or_else(|| SyntaxError::plain("unexpected end of input"))
    }

    /// The third generation looks two tokens ahead (it collects comments), the second none: this decides which of two
    /// errors is seen first.
    fn fill(&mut self) -> Scan<()> {
        loop {
            if self.tokens.len() > self.ahead {
                let head = self.parsed;
                match self.keys.iter().rposition(|k| k.possible && k.token == head) {
                    None => return Ok(()),
                    Some(i) => {
                        if !self.key_is_valid(i)? {
                            return Ok(());
                        }
                    }
                }
            }
            if self.ended && !self.tokens.is_empty() {
                return Ok(());
            }
            self.fetch()?;
        }
    }

    fn b(&self, ahead: usize) -> u8 {
        self.src.get(self.mark.index + ahead).copied().unwrap_or(0)
    }

    fn is_end(&self) -> bool {
        self.mark.index >= self.src.len()
    }

    fn is_break_at(&self, ahead: usize) -> bool {
        match self.b(ahead) {
            b'\n' | b'\r' => true,
            0xC2 => self.b(ahead + 1) == 0x85,
            0xE2 => self.b(ahead + 1) == 0x80 && matches!(self.b(ahead + 2), 0xA8 | 0xA9),
            _ => false,
        }
    }

    fn is_break(&self) -> bool {
        self.is_break_at(0)
    }

    fn is_blank(&self) -> bool {
        matches!(self.b(0), b' ' | b'\t')
    }

    fn is_blankz_at(&self, ahead: usize) -> bool {
        matches!(self.b(ahead), b' ' | b'\t' | 0) || self.is_break_at(ahead)
    }

    fn is_bom(&self) -> bool {
        self.b(0) == 0xEF && self.b(1) == 0xBB && self.b(2) == 0xBF
    }

    fn width(&self) -> usize {
        match self.b(0) {
            0..=0x7F => 1,
            0x80..=0xDF => 2,
            0xE0..=0xEF => 3,
            _ => 4,
        }
    }

    fn skip(&mut self) {
        if !self.is_end() {
            self.mark.index += self.width();
            self.mark.col += 1;
        }
    }

    fn skip_line(&mut self) {
        if self.b(0) == b'\r' && self.b(1) == b'\n' {
            self.mark.index += 2;
        } else if self.is_break() {
            self.mark.index += self.width();
        } else {
            return;
        }
        self.mark.col = 0;
        self.mark.line += 1;
    }

    fn read(&mut self, into: &mut String) {
        let (from, w) = (self.mark.index, self.width());
        if let Some(s) = self.text.get(from..from + w) {
            into.push_str(s);
        }
        self.mark.index += w;
        self.mark.col += 1;
    }

    fn read_line(&mut self, into: &mut String) {
        if self.is_end() {
            return;
        }
        match self.b(0) {
            0xE2 => {
                if let Some(s) = self.text.get(self.mark.index..self.mark.index + 3) {
                    into.push_str(s);
                }
            }
            _ => into.push('\n'),
        }
        self.skip_line();
    }

    fn error<T>(&self, context: Mark, problem: &'static str) -> Scan<T> {
        Err(SyntaxError::scan(context, self.mark, problem))
    }

    fn push(&mut self, kind: TokenKind<'a>, start: Mark) {
        self.tokens.push_back(Token { kind, start });
    }

    fn key_is_valid(&mut self, i: usize) -> Scan<bool> {
        let Some(key) = self.keys.get(i).copied() else { return Ok(false) };
        if !key.possible {
            return Ok(false);
        }
        if key.mark.line < self.mark.line || key.mark.index + SIMPLE_KEY_SPAN < self.mark.index {
            if key.required {
                return self.error(key.mark, "could not find expected ':'");
            }
            if let Some(k) = self.keys.get_mut(i) {
                k.possible = false;
            }
            return Ok(false);
        }
        Ok(true)
    }

    fn save_key(&mut self) -> Scan<()> {
        if self.key_allowed {
            let required = self.flow == 0 && self.indent == self.mark.col as i32;
            self.remove_key()?;
            let key = SimpleKey {
                possible: true,
                required,
                token: self.parsed + self.tokens.len(),
                mark: self.mark,
            };
            if let Some(last) = self.keys.last_mut() {
                *last = key;
            }
        }
        Ok(())
    }

    fn remove_key(&mut self) -> Scan<()> {
        if let Some(key) = self.keys.last().copied()
            && key.possible
        {
            if key.required {
                return self.error(key.mark, "could not find expected ':'");
            }
            if let Some(last) = self.keys.last_mut() {
                last.possible = false;
            }
        }
        Ok(())
    }

    fn roll_indent(
        &mut self,
        column: u32,
        number: Option<usize>,
        kind: TokenKind<'a>,
        mark: Mark,
    ) -> Scan<()> {
        if self.flow > 0 || self.indent >= column as i32 {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column as i32;
        if self.indents.len() > self.max_depth {
            return Err(SyntaxError::plain(format!("exceeded max depth of {}", self.max_depth)));
        }
        let token = Token { kind, start: mark };
        match number {
            Some(n) => self.tokens.insert(n.saturating_sub(self.parsed).min(self.tokens.len()), token),
            None => self.tokens.push_back(token),
        }
        Ok(())
    }

    fn unroll_indent(&mut self, column: i32, mark: Mark) {
        if self.flow > 0 {
            return;
        }
        while self.indent > column {
            self.push(TokenKind::BlockEnd, mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch(&mut self) -> Scan<()> {
        let before = self.mark;
        self.skip_blanks();
        self.unroll_indent(self.mark.col as i32, before);
        if self.is_end() {
            return self.fetch_end();
        }
        let (c, next_blank) = (self.b(0), self.is_blankz_at(1));
        if self.mark.col == 0 {
            if c == b'%' {
                return self.fetch_directive();
            }
            if self.at_document_mark(b'-') {
                return self.fetch_document_mark(TokenKind::DocumentStart);
            }
            if self.at_document_mark(b'.') {
                return self.fetch_document_mark(TokenKind::DocumentEnd);
            }
        }
        let in_flow = self.flow > 0;
        match c {
            b'[' => self.fetch_flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(TokenKind::FlowMappingStart),
            b']' => self.fetch_flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(TokenKind::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if next_blank => self.fetch_block_entry(),
            b'?' if in_flow || next_blank => self.fetch_key(),
            b':' if in_flow || next_blank => self.fetch_value(),
            b'*' => self.fetch_anchor(true),
            b'&' => self.fetch_anchor(false),
            b'!' => self.fetch_tag(),
            b'|' if !in_flow => self.fetch_block_scalar(true),
            b'>' if !in_flow => self.fetch_block_scalar(false),
            b'\'' => self.fetch_quoted(true),
            b'"' => self.fetch_quoted(false),
            b'-' if !matches!(self.b(1), b' ' | b'\t') => self.fetch_plain(),
            b'?' | b':' if !in_flow && !next_blank => self.fetch_plain(),
            b'\t' | b'-' | b'?' | b':' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' => {
                self.error(self.mark, "found character that cannot start any token")
            }
            _ => self.fetch_plain(),
        }
    }

    fn at_document_mark(&self, c: u8) -> bool {
        self.b(0) == c && self.b(1) == c && self.b(2) == c && self.is_blankz_at(3)
    }

    fn skip_blanks(&mut self) {
        loop {
            if self.mark.col == 0 && self.is_bom() {
                self.skip();
            }
            while self.b(0) == b' ' || ((self.flow > 0 || !self.key_allowed) && self.b(0) == b'\t') {
                self.skip();
            }
            if self.b(0) == b'#' {
                self.skip_to_break();
            }
            if !self.is_break() {
                return;
            }
            self.skip_line();
            if self.flow == 0 {
                self.key_allowed = true;
            }
        }
    }

    fn skip_to_break(&mut self) {
        while !self.is_end() && !self.is_break() {
            self.skip();
            // Up to the next byte that can begin a line break.
            let rest = self.src.get(self.mark.index..).unwrap_or_default();
            let n = rest.iter().take_while(|b| (b' '..0x80).contains(*b) || **b == b'\t').count();
            self.mark.index += n;
            self.mark.col += n as u32;
        }
    }

    fn fetch_end(&mut self) -> Scan<()> {
        if self.mark.col != 0 {
            self.mark.col = 0;
            self.mark.line += 1;
        }
        self.unroll_indent(-1, self.mark);
        self.remove_key()?;
        self.key_allowed = false;
        self.ended = true;
        self.push(TokenKind::StreamEnd, self.mark);
        Ok(())
    }

    fn fetch_document_mark(&mut self, kind: TokenKind<'a>) -> Scan<()> {
        self.unroll_indent(-1, self.mark);
        self.remove_key()?;
        self.key_allowed = false;
        let start = self.mark;
        for _ in 0..3 {
            self.skip();
        }
        self.push(kind, start);
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: TokenKind<'a>) -> Scan<()> {
        self.save_key()?;
        self.keys.push(SimpleKey::default());
        self.flow += 1;
        if self.flow > self.max_depth {
            return Err(SyntaxError::plain(format!("exceeded max depth of {}", self.max_depth)));
        }
        self.key_allowed = true;
        let start = self.mark;
        self.skip();
        self.push(kind, start);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: TokenKind<'a>) -> Scan<()> {
        self.remove_key()?;
        if self.flow > 0 {
            self.flow -= 1;
            self.keys.pop();
        }
        self.key_allowed = false;
        let start = self.mark;
        self.skip();
        self.push(kind, start);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Scan<()> {
        self.remove_key()?;
        self.key_allowed = true;
        let start = self.mark;
        self.skip();
        self.push(TokenKind::FlowEntry, start);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Scan<()> {
        if self.flow == 0 {
            if !self.key_allowed {
                return self.error(self.mark, "block sequence entries are not allowed in this context");
            }
            self.roll_indent(self.mark.col, None, TokenKind::BlockSequenceStart, self.mark)?;
        }
        self.remove_key()?;
        self.key_allowed = true;
        let start = self.mark;
        self.skip();
        self.push(TokenKind::BlockEntry, start);
        Ok(())
    }

    fn fetch_key(&mut self) -> Scan<()> {
        if self.flow == 0 {
            if !self.key_allowed {
                return self.error(self.mark, "mapping keys are not allowed in this context");
            }
            self.roll_indent(self.mark.col, None, TokenKind::BlockMappingStart, self.mark)?;
        }
        self.remove_key()?;
        self.key_allowed = self.flow == 0;
        let start = self.mark;
        self.skip();
        self.push(TokenKind::Key, start);
        Ok(())
    }

    fn fetch_value(&mut self) -> Scan<()> {
        let last = self.keys.len().saturating_sub(1);
        if self.key_is_valid(last)? {
            let key = self.keys.get(last).copied().unwrap_or_default();
            let at = key.token.saturating_sub(self.parsed).min(self.tokens.len());
            self.tokens.insert(at, Token { kind: TokenKind::Key, start: key.mark });
            self.roll_indent(key.mark.col, Some(key.token), TokenKind::BlockMappingStart, key.mark)?;
            if let Some(k) = self.keys.get_mut(last) {
                k.possible = false;
            }
            self.key_allowed = false;
        } else {
            if self.flow == 0 {
                if !self.key_allowed {
                    return self.error(self.mark, "mapping values are not allowed in this context");
                }
                self.roll_indent(self.mark.col, None, TokenKind::BlockMappingStart, self.mark)?;
            }
            self.key_allowed = self.flow == 0;
        }
        let start = self.mark;
        self.skip();
        self.push(TokenKind::Value, start);
        Ok(())
    }

    fn fetch_anchor(&mut self, alias: bool) -> Scan<()> {
        self.save_key()?;
        self.key_allowed = false;
        let start = self.mark;
        self.skip();
        let from = self.mark.index;
        while is_alpha(self.b(0)) {
            self.skip();
        }
        let name = self.text.get(from..self.mark.index).unwrap_or_default();
        let follows = self.is_blankz_at(0)
            || matches!(self.b(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !follows {
            return self.error(start, "did not find expected alphabetic or numeric character");
        }
        self.push(if alias { TokenKind::Alias(name) } else { TokenKind::Anchor(name) }, start);
        Ok(())
    }
}

fn check_characters(text: &str) -> Scan<()> {
    let suspicious = |b: &u8| (*b < 0x20 && !matches!(*b, b'\t' | b'\n' | b'\r')) || *b == 0x7F || *b >= 0xC2;
    if !text.as_bytes().iter().any(suspicious) {
        return Ok(());
    }
    let allowed = |c: char| {
        matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}'
            | '\u{10000}'..='\u{10FFFF}')
    };
    if text.chars().all(allowed) {
        Ok(())
    } else {
        Err(SyntaxError::plain("control characters are not allowed"))
    }
}
