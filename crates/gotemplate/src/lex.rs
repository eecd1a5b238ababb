//! Template text becomes tokens.

use super::{format, strconv};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tok {
    Error,
    Eof,
    Text,
    Left,
    Right,
    Space,
    Assign,
    Declare,
    Pipe,
    Char,
    LeftParen,
    RightParen,
    Field,
    Variable,
    Identifier,
    Bool,
    Number,
    CharConstant,
    Quoted,
    RawQuoted,
    Dot,
    Nil,
    Keyword,
}

/// A token: bytes `start..end` of the text, begun on `line`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) tok: Tok,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) line: usize,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// How many bytes of space a text begins with.
fn leading_spaces(text: &str) -> usize {
    text.bytes().position(|b| !is_space(b)).unwrap_or(text.len())
}

pub(super) struct Lexer<'a> {
    input: &'a str,
    pos: usize,
    line: usize,
    inside: bool,
    parens: usize,
    /// What is wrong, after [`Tok::Error`]; then there is nothing more.
    pub(super) problem: Option<Box<str>>,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(input: &'a str) -> Self {
        Self { input, pos: 0, line: 1, inside: false, parens: 0, problem: None }
    }

    pub(super) fn text(&self, item: &Item) -> &'a str {
        &self.input[item.start..item.end]
    }

    fn item(&mut self, tok: Tok, start: usize) -> Item {
        let line = self.line;
        // Only these can hold a line break.
        if matches!(tok, Tok::Space | Tok::RawQuoted) {
            self.count(start, self.pos);
        }
        Item { tok, start, end: self.pos, line }
    }

    fn count(&mut self, start: usize, end: usize) {
        self.line += memchr::memchr_iter(b'\n', &self.input.as_bytes()[start..end]).count();
    }

    fn error(&mut self, message: impl Into<Box<str>>) -> Item {
        self.problem = Some(message.into());
        Item { tok: Tok::Error, start: self.pos, end: self.pos, line: self.line }
    }

    fn rest(&self) -> &'a str {
        &self.input[self.pos..]
    }

    pub(super) fn next(&mut self) -> Item {
        if self.problem.is_some() {
            return Item { tok: Tok::Eof, start: self.pos, end: self.pos, line: self.line };
        }
        if self.inside { self.inside() } else { self.outside() }
    }

    fn outside(&mut self) -> Item {
        loop {
            let start = self.pos;
            let Some(found) = memchr::memmem::find(self.rest().as_bytes(), b"{{") else {
                self.pos = self.input.len();
                if self.pos > start {
                    let item = self.item(Tok::Text, start);
                    self.count(start, self.pos);
                    return Item { line: self.line, ..item };
                }
                return self.item(Tok::Eof, start);
            };
            let delim = start + found;
            let trim = left_trim(&self.input[delim + 2..]);
            let mut end = delim;
            if trim {
                end = start + self.input[start..delim].trim_end_matches([' ', '\t', '\r', '\n']).len();
            }
            if end > start {
                self.pos = end;
                self.count(start, end);
                let item = self.item(Tok::Text, start);
                self.count(end, delim);
                self.pos = delim;
                return item;
            }
            self.count(start, delim);
            self.pos = delim + 2;
            let after = if trim { 2 } else { 0 };
            if self.input[self.pos + after..].starts_with("/*") {
                self.pos += after;
                if let Err(message) = self.comment() {
                    return self.error(message);
                }
                continue;
            }
            let item = Item { tok: Tok::Left, start: delim, end: self.pos, line: self.line };
            self.inside = true;
            self.count(self.pos, self.pos + after);
            self.pos += after;
            self.parens = 0;
            return item;
        }
    }

    fn comment(&mut self) -> Result<(), &'static str> {
        let start = self.pos;
        let Some(end) = memchr::memmem::find(&self.input.as_bytes()[start + 2..], b"*/") else {
            return Err("unclosed comment");
        };
        self.pos = start + 2 + end + 2;
        let Some(trim) = self.right_delim() else {
            return Err("comment ends before closing delimiter");
        };
        self.count(start, self.pos);
        self.close(trim);
        Ok(())
    }

    /// Whether a right delimiter is here; whether it trims.
    fn right_delim(&self) -> Option<bool> {
        let rest = self.rest();
        if right_trim(rest) && rest[2..].starts_with("}}") {
            return Some(true);
        }
        rest.starts_with("}}").then_some(false)
    }

    /// Passes the delimiter and what it trims.
    fn close(&mut self, trim: bool) {
        let start = self.pos;
        self.pos += if trim { 4 } else { 2 };
        if trim {
            self.pos += leading_spaces(self.rest());
        }
        self.count(start, self.pos);
    }

    fn right(&mut self, trim: bool) -> Item {
        let start = if trim { self.pos + 2 } else { self.pos };
        let item = Item { tok: Tok::Right, start, end: start + 2, line: self.line };
        self.close(trim);
        self.inside = false;
        item
    }

    fn inside(&mut self) -> Item {
        if let Some(trim) = self.right_delim() {
            if self.parens == 0 {
                return self.right(trim);
            }
            return self.error("unclosed left paren");
        }
        let start = self.pos;
        let Some(c) = self.rest().chars().next() else { return self.error("unclosed action") };
        if matches!(c, ' ' | '\t' | '\r' | '\n') {
            return self.space();
        }
        self.pos += c.len_utf8();
        match c {
            '=' => self.item(Tok::Assign, start),
            ':' => {
                if self.rest().starts_with('=') {
                    self.pos += 1;
                    return self.item(Tok::Declare, start);
                }
                self.error("expected :=")
            }
            '|' => self.item(Tok::Pipe, start),
            '"' => self.quoted(start, b'"', Tok::Quoted, "unterminated quoted string"),
            '\'' => self.quoted(start, b'\'', Tok::CharConstant, "unterminated character constant"),
            '`' => match self.rest().find('`') {
                Some(end) => {
                    self.pos += end + 1;
                    self.item(Tok::RawQuoted, start)
                }
                None => self.error("unterminated raw quoted string"),
            },
            '$' => self.name(start, Tok::Variable),
            '.' if !self.rest().starts_with(|c: char| c.is_ascii_digit()) && !self.rest().is_empty() => {
                self.name(start, Tok::Field)
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.pos = start;
                self.number(start)
            }
            '(' => {
                self.parens += 1;
                self.item(Tok::LeftParen, start)
            }
            ')' => {
                if self.parens == 0 {
                    return self.error("unexpected right paren");
                }
                self.parens -= 1;
                self.item(Tok::RightParen, start)
            }
            c if word_char(c) => self.word(start),
            c if c.is_ascii_graphic() || c == ' ' => self.item(Tok::Char, start),
            c => self.error(format!("unrecognized character in action: {}", format::unicode(c))),
        }
    }

    fn space(&mut self) -> Item {
        let start = self.pos;
        let count = leading_spaces(self.rest());
        // The last space may belong to a trim marker.
        let last = start + count - 1;
        let tail = &self.input[last..];
        if right_trim(tail) && tail[2..].starts_with("}}") {
            if count == 1 {
                return self.right(true);
            }
            self.pos = last;
        } else {
            self.pos = start + count;
        }
        self.item(Tok::Space, start)
    }

    fn quoted(&mut self, start: usize, quote: u8, tok: Tok, unterminated: &str) -> Item {
        let bytes = self.input.as_bytes();
        loop {
            match bytes.get(self.pos) {
                None | Some(b'\n') => return self.error(unterminated),
                Some(b'\\') => {
                    if matches!(bytes.get(self.pos + 1), None | Some(b'\n')) {
                        return self.error(unterminated);
                    }
                    self.pos += 2;
                }
                Some(b) => {
                    self.pos += 1;
                    if *b == quote {
                        break;
                    }
                }
            }
        }
        while !self.input.is_char_boundary(self.pos) {
            self.pos += 1;
        }
        self.item(tok, start)
    }

    fn run(&mut self) {
        let bytes = self.input.as_bytes();
        while bytes.get(self.pos).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
            self.pos += 1;
        }
        if bytes.get(self.pos).is_some_and(|b| !b.is_ascii()) {
            let rest = self.rest();
            self.pos += rest.find(|c| !word_char(c)).unwrap_or(rest.len());
        }
    }

    /// A field or a variable; the first character is taken.
    fn name(&mut self, start: usize, tok: Tok) -> Item {
        if self.at_terminator() {
            return self.item(if tok == Tok::Field { Tok::Dot } else { tok }, start);
        }
        self.run();
        if !self.at_terminator() {
            return self.bad_character();
        }
        self.item(tok, start)
    }

    fn bad_character(&mut self) -> Item {
        let c = self.rest().chars().next().unwrap_or('\0');
        self.error(format!("bad character {}", format::unicode(c)))
    }

    fn word(&mut self, start: usize) -> Item {
        self.run();
        let word = &self.input[start..self.pos];
        if !self.at_terminator() {
            return self.bad_character();
        }
        let tok = match word {
            "block" | "break" | "continue" | "define" | "else" | "end" | "if" | "range" | "template"
            | "with" => Tok::Keyword,
            "nil" => Tok::Nil,
            "true" | "false" => Tok::Bool,
            _ => Tok::Identifier,
        };
        self.item(tok, start)
    }

    fn at_terminator(&self) -> bool {
        let bytes = self.input.as_bytes();
        match bytes.get(self.pos) {
            None | Some(b' ' | b'\t' | b'\r' | b'\n' | b'.' | b',' | b'|' | b':' | b')' | b'(') => true,
            Some(b'}') => bytes.get(self.pos + 1) == Some(&b'}'),
            Some(_) => false,
        }
    }

    fn accept(&mut self, set: &str) -> bool {
        let found = self.rest().starts_with(|c| set.contains(c));
        self.pos += usize::from(found);
        found
    }

    fn accept_run(&mut self, set: &str) {
        while self.accept(set) {}
    }

    fn number(&mut self, start: usize) -> Item {
        let mut good = self.scan_number();
        // A complex number has two parts without a space, of which the second ends in `i`.
        if good && self.rest().starts_with(['+', '-']) {
            good = self.scan_number() && self.input[..self.pos].ends_with('i');
        }
        if good {
            return self.item(Tok::Number, start);
        }
        let text = strconv::quote(&self.input[start..self.pos]);
        self.error(format!("bad number syntax: {text}"))
    }

    fn scan_number(&mut self) -> bool {
        self.accept("+-");
        let mut digits = "0123456789_";
        if self.accept("0") {
            if self.accept("xX") {
                digits = "0123456789abcdefABCDEF_";
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if digits.len() == 11 && self.accept("eE") || digits.len() == 23 && self.accept("pP") {
            self.accept("+-");
            self.accept_run("0123456789_");
        }
        self.accept("i");
        match self.rest().chars().next().filter(|c| word_char(*c)) {
            Some(c) => {
                self.pos += c.len_utf8();
                false
            }
            None => true,
        }
    }
}

fn left_trim(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first() == Some(&b'-') && matches!(bytes.get(1), Some(b' ' | b'\t' | b'\r' | b'\n'))
}

fn right_trim(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!(bytes.first(), Some(b' ' | b'\t' | b'\r' | b'\n')) && bytes.get(1) == Some(&b'-')
}

fn word_char(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}
