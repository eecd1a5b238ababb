//! Scalars: plain, quoted, literal and folded.

use std::borrow::Cow;

use super::{Kind, Scanner, Style};
use crate::YamlError;

/// Bytes that end no plain scalar, whatever stands around them.
pub(super) static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b'!';
    while byte < 0x7F {
        plain[byte as usize] = !matches!(byte, b':' | b',' | b'?' | b'[' | b']' | b'{' | b'}');
        byte += 1;
    }
    plain
};

impl<'a> Scanner<'a> {
    /// Passes what is plain anywhere.
    fn skip_plain(&mut self) {
        let rest = &self.buf[self.pos..];
        self.pos += rest.iter().position(|b| !PLAIN[usize::from(*b)]).unwrap_or(rest.len());
    }

    /// Goes to the next line break, or to the end.
    pub(super) fn skip_to_break(&mut self) {
        let rest = &self.buf[self.pos..];
        let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
        if line.is_ascii() && memchr::memchr(b'\r', line).is_none() {
            self.pos += line.len();
            return;
        }
        while !self.is_breakz(self.pos) {
            self.skip();
        }
    }

    pub(super) fn fetch_plain(&mut self) -> Result<(), YamlError> {
        self.save_key()?;
        self.key_allowed = false;
        let line = self.line;
        let first = self.pos;
        let indent = self.indent + 1;
        // The text so far: a borrowed run while it has no line break, else owned.
        let mut owned: Option<String> = None;
        let mut end = self.pos;
        let mut white = self.pos..self.pos;
        let mut broken = false;
        let (mut leading, mut trailing) = (String::new(), String::new());
        loop {
            if self.column() == 0 && self.at_document_mark() || self.at(0) == b'#' {
                break;
            }
            let run = self.pos;
            let mut stopped = false;
            loop {
                self.skip_plain();
                if self.is_blankz(self.pos) {
                    break;
                }
                let c = self.buf[self.pos];
                if c == b':' && self.is_blankz(self.pos + 1)
                    || self.flow > 0 && matches!(c, b',' | b'?' | b'[' | b']' | b'{' | b'}')
                {
                    stopped = true;
                    break;
                }
                self.skip();
            }
            if self.pos > run {
                if broken {
                    let text = owned.get_or_insert_with(|| self.text[first..end].to_owned());
                    fold(text, &leading, &trailing);
                    leading.clear();
                    trailing.clear();
                    broken = false;
                    text.push_str(&self.text[run..self.pos]);
                } else if let Some(text) = &mut owned {
                    text.push_str(&self.text[white.clone()]);
                    text.push_str(&self.text[run..self.pos]);
                }
                end = self.pos;
                white = end..end;
            }
            if stopped || self.is_end(self.pos) {
                break;
            }
            loop {
                if self.is_blank(self.pos) {
                    if broken && (self.column() as isize) < indent && self.at(0) == b'\t' {
                        return self.error_in(line, "found a tab character that violates indentation");
                    }
                    self.pos += 1;
                    if !broken {
                        white.end = self.pos;
                    }
                } else if self.break_len(self.pos) > 0 {
                    if broken {
                        self.read_line(&mut trailing);
                    } else {
                        self.read_line(&mut leading);
                        broken = true;
                    }
                } else {
                    break;
                }
            }
            if self.flow == 0 && (self.column() as isize) < indent {
                break;
            }
        }
        if broken {
            self.key_allowed = true;
        }
        let value = match owned {
            Some(text) => Cow::Owned(text),
            None => Cow::Borrowed(&self.text[first..end]),
        };
        self.push(Kind::Scalar(value, Style::Plain), line);
        Ok(())
    }

    pub(super) fn fetch_flow_scalar(&mut self, single: bool) -> Result<(), YamlError> {
        self.save_key()?;
        self.key_allowed = false;
        let value = self.flow_scalar(single)?;
        let line = value.1;
        self.push(Kind::Scalar(value.0, Style::Text), line);
        Ok(())
    }

    fn flow_scalar(&mut self, single: bool) -> Result<(Cow<'a, str>, usize), YamlError> {
        let line = self.line;
        let quote = if single { b'\'' } else { b'"' };
        self.pos += 1;
        // Most have neither breaks nor escapes.
        let rest = &self.buf[self.pos..];
        if let Some(len) = rest.iter().position(|&b| b == quote || b < b' ' || b == b'\\' || b >= 0x80)
            && rest[len] == quote
            && (!single || rest.get(len + 1) != Some(&b'\''))
        {
            let value = &self.text[self.pos..self.pos + len];
            self.pos += len + 1;
            return Ok((Cow::Borrowed(value), line));
        }
        let mut text = String::new();
        let (mut leading, mut trailing, mut white) = (String::new(), String::new(), String::new());
        loop {
            if self.column() == 0 && self.at_document_mark() {
                return self.error_in(line, "found unexpected document indicator");
            }
            if self.is_end(self.pos) {
                return self.error_in(line, "found unexpected end of stream");
            }
            let mut broken = false;
            while !self.is_blankz(self.pos) {
                let c = self.at(0);
                if c == quote {
                    if !single || self.at(1) != b'\'' {
                        break;
                    }
                    text.push('\'');
                    self.pos += 2;
                } else if !single && c == b'\\' {
                    if self.break_len(self.pos + 1) > 0 {
                        self.pos += 1;
                        self.skip_line();
                        broken = true;
                        break;
                    }
                    self.escape(&mut text, line)?;
                } else {
                    let start = self.pos;
                    self.skip();
                    text.push_str(&self.text[start..self.pos]);
                }
            }
            if self.at(0) == quote && !self.is_end(self.pos) {
                break;
            }
            loop {
                if self.is_blank(self.pos) {
                    if !broken {
                        white.push(self.at(0) as char);
                    }
                    self.pos += 1;
                } else if self.break_len(self.pos) > 0 {
                    if broken {
                        self.read_line(&mut trailing);
                    } else {
                        white.clear();
                        self.read_line(&mut leading);
                        broken = true;
                    }
                } else {
                    break;
                }
            }
            if broken {
                fold(&mut text, &leading, &trailing);
                leading.clear();
                trailing.clear();
            } else {
                text.push_str(&white);
                white.clear();
            }
        }
        self.pos += 1;
        Ok((Cow::Owned(text), line))
    }

    fn escape(&mut self, text: &mut String, line: usize) -> Result<(), YamlError> {
        let width = match self.at(1) {
            b'0' => push(text, '\0'),
            b'a' => push(text, '\x07'),
            b'b' => push(text, '\x08'),
            b't' | b'\t' => push(text, '\t'),
            b'n' => push(text, '\n'),
            b'v' => push(text, '\x0B'),
            b'f' => push(text, '\x0C'),
            b'r' => push(text, '\r'),
            b'e' => push(text, '\x1B'),
            b' ' => push(text, ' '),
            b'"' => push(text, '"'),
            b'\'' => push(text, '\''),
            b'\\' => push(text, '\\'),
            b'N' => push(text, '\u{85}'),
            b'_' => push(text, '\u{A0}'),
            b'L' => push(text, '\u{2028}'),
            b'P' => push(text, '\u{2029}'),
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            _ => return self.error_in(line, "found unknown escape character"),
        };
        self.pos += 2;
        if width > 0 {
            let mut value = 0u32;
            for offset in 0..width {
                let Some(digit) = (self.at(offset) as char).to_digit(16) else {
                    return self.error_in(line, "did not find expected hexdecimal number");
                };
                value = value.wrapping_shl(4) | digit;
            }
            let Some(c) = char::from_u32(value) else {
                return self.error_in(line, "found invalid Unicode character escape code");
            };
            text.push(c);
            self.pos += width;
        }
        Ok(())
    }

    pub(super) fn fetch_block_scalar(&mut self, literal: bool) -> Result<(), YamlError> {
        self.remove_key()?;
        self.key_allowed = true;
        let line = self.line;
        self.pos += 1;
        let mut chomp = 0u8;
        let mut increment = 0usize;
        for _ in 0..2 {
            match self.at(0) {
                c @ (b'+' | b'-') if chomp == 0 => {
                    chomp = c;
                    self.pos += 1;
                }
                b'0' if increment == 0 => {
                    return self.error_in(line, "found an indentation indicator equal to 0");
                }
                c @ b'1'..=b'9' if increment == 0 => {
                    increment = usize::from(c - b'0');
                    self.pos += 1;
                }
                _ => {}
            }
        }
        while self.is_blank(self.pos) {
            self.pos += 1;
        }
        if self.at(0) == b'#' {
            while !self.is_breakz(self.pos) {
                self.skip();
            }
        }
        if !self.is_breakz(self.pos) {
            return self.error_in(line, "did not find expected comment or line break");
        }
        self.skip_line();
        let mut indent = if increment > 0 { self.indent.max(0) as usize + increment } else { 0 };
        let mut text = String::new();
        let (mut leading, mut trailing) = (String::new(), String::new());
        self.block_breaks(&mut indent, &mut trailing, line)?;
        let mut leading_blank = false;
        while self.column() == indent && !self.is_end(self.pos) {
            let blank = self.is_blank(self.pos);
            if !literal && !leading_blank && !blank && leading.starts_with('\n') {
                if trailing.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(&leading);
            }
            leading.clear();
            text.push_str(&trailing);
            trailing.clear();
            leading_blank = blank;
            let start = self.pos;
            self.skip_to_break();
            text.push_str(&self.text[start..self.pos]);
            self.read_line(&mut leading);
            self.block_breaks(&mut indent, &mut trailing, line)?;
        }
        if chomp != b'-' {
            text.push_str(&leading);
        }
        if chomp == b'+' {
            text.push_str(&trailing);
        }
        self.push(Kind::Scalar(Cow::Owned(text), Style::Text), line);
        Ok(())
    }

    fn block_breaks(
        &mut self,
        indent: &mut usize,
        breaks: &mut String,
        line: usize,
    ) -> Result<(), YamlError> {
        let mut deepest = 0;
        loop {
            while (*indent == 0 || self.column() < *indent) && self.at(0) == b' ' {
                self.pos += 1;
            }
            deepest = deepest.max(self.column());
            if (*indent == 0 || self.column() < *indent) && self.at(0) == b'\t' {
                return self.error_in(line, "found a tab character where an indentation space is expected");
            }
            if self.break_len(self.pos) == 0 {
                break;
            }
            self.read_line(breaks);
        }
        if *indent == 0 {
            *indent = deepest.max((self.indent + 1).max(1) as usize);
        }
        Ok(())
    }
}

fn push(text: &mut String, c: char) -> usize {
    text.push(c);
    0
}

/// Joins two lines: one break is a space, more are one less.
fn fold(text: &mut String, leading: &str, trailing: &str) {
    if leading.starts_with('\n') {
        if trailing.is_empty() {
            text.push(' ');
        } else {
            text.push_str(trailing);
        }
    } else {
        text.push_str(leading);
        text.push_str(trailing);
    }
}
