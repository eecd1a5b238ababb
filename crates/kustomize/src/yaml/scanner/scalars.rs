//! The scalar half of the scanner: plain, quoted and block scalars.

use std::borrow::Cow;

use super::super::node::Style;
use super::{Mark, Scan, Scanner, SyntaxError, TokenKind};

impl<'a> Scanner<'a> {
    pub(super) fn fetch_block_scalar(&mut self, literal: bool) -> Scan<()> {
        self.remove_key()?;
        self.key_allowed = true;
        let start = self.mark;
        self.skip();
        let (mut chomp, mut increment) = (0i8, 0i32);
        for _ in 0..2 {
            match self.b(0) {
                c @ (b'+' | b'-') if chomp == 0 => {
                    chomp = if c == b'+' { 1 } else { -1 };
                    self.skip();
                }
                b'0' if increment == 0 => {
                    return self.error(start, "found an indentation indicator equal to 0");
                }
                c @ b'1'..=b'9' if increment == 0 => {
                    increment = i32::from(c - b'0');
                    self.skip();
                }
                _ => break,
            }
        }
        while self.is_blank() {
            self.skip();
        }
        if self.b(0) == b'#' {
            self.skip_to_break();
        }
        if !self.is_end() && !self.is_break() {
            return self.error(start, "did not find expected comment or line break");
        }
        self.skip_line();
        let mut indent = if increment > 0 { self.indent.max(0) + increment } else { 0 };
        let mut out = String::new();
        let (mut leading, mut trailing) = (String::new(), String::new());
        self.block_breaks(&mut indent, &mut trailing, start)?;
        let mut leading_blank = false;
        while self.mark.col as i32 == indent && !self.is_end() {
            let trailing_blank = self.is_blank();
            if !literal && !leading_blank && !trailing_blank && leading.starts_with('\n') {
                if trailing.is_empty() {
                    out.push(' ');
                }
            } else {
                out.push_str(&leading);
            }
            leading.clear();
            out.push_str(&trailing);
            trailing.clear();
            leading_blank = self.is_blank();
            let from = self.mark.index;
            self.skip_to_break();
            out.push_str(self.text.get(from..self.mark.index).unwrap_or_default());
            self.read_line(&mut leading);
            self.block_breaks(&mut indent, &mut trailing, start)?;
        }
        if chomp != -1 {
            out.push_str(&leading);
        }
        if chomp == 1 {
            out.push_str(&trailing);
        }
        self.push(
            TokenKind::Scalar(Cow::Owned(out), if literal { Style::LITERAL } else { Style::FOLDED }),
            start,
        );
        Ok(())
    }

    fn block_breaks(&mut self, indent: &mut i32, breaks: &mut String, start: Mark) -> Scan<()> {
        let mut widest = 0;
        loop {
            while (*indent == 0 || (self.mark.col as i32) < *indent) && self.b(0) == b' ' {
                self.skip();
            }
            widest = widest.max(self.mark.col as i32);
            if (*indent == 0 || (self.mark.col as i32) < *indent) && self.b(0) == b'\t' {
                return self.error(start, "found a tab character where an indentation space is expected");
            }
            if !self.is_break() {
                break;
            }
            self.read_line(breaks);
        }
        if *indent == 0 {
            *indent = widest.max(self.indent + 1).max(1);
        }
        Ok(())
    }

    pub(super) fn fetch_quoted(&mut self, single: bool) -> Scan<()> {
        self.save_key()?;
        self.key_allowed = false;
        let start = self.mark;
        self.skip();
        let quote = if single { b'\'' } else { b'"' };
        let style = if single { Style::SINGLE } else { Style::DOUBLE };
        // Most quoted scalars are one line without escapes: no copy.
        let rest = self.src.get(self.mark.index..).unwrap_or_default();
        if let Some(n) = rest.iter().position(|b| *b == quote || *b == b'\\' || *b < b' ' || *b >= 0x80)
            && rest.get(n) == Some(&quote)
            && !(single && rest.get(n + 1) == Some(&quote))
        {
            let from = self.mark.index;
            let text = self.text.get(from..from + n).unwrap_or_default();
            self.mark.index += n + 1;
            self.mark.col += n as u32 + 1;
            self.push(TokenKind::Scalar(Cow::Borrowed(text), style), start);
            return Ok(());
        }
        let text = self.quoted_text(quote, start)?;
        self.skip();
        self.push(TokenKind::Scalar(Cow::Owned(text), style), start);
        Ok(())
    }

    fn quoted_text(&mut self, quote: u8, start: Mark) -> Scan<String> {
        let single = quote == b'\'';
        let mut out = String::new();
        let (mut leading, mut trailing, mut spaces) = (String::new(), String::new(), String::new());
        loop {
            if self.mark.col == 0 && (self.at_document_mark(b'-') || self.at_document_mark(b'.')) {
                return self.error(start, "found unexpected document indicator");
            }
            if self.is_end() {
                return self.error(start, "found unexpected end of stream");
            }
            let mut leading_blanks = false;
            while !self.is_blankz_at(0) {
                match self.b(0) {
                    b'\'' if single && self.b(1) == b'\'' => {
                        out.push('\'');
                        self.skip();
                        self.skip();
                    }
                    c if c == quote => break,
                    b'\\' if !single && self.is_break_at(1) => {
                        self.skip();
                        self.skip_line();
                        leading_blanks = true;
                        break;
                    }
                    b'\\' if !single => self.escape(&mut out, start)?,
                    _ => self.read(&mut out),
                }
            }
            if self.b(0) == quote {
                return Ok(out);
            }
            while self.is_blank() || self.is_break() {
                if self.is_blank() {
                    if leading_blanks {
                        self.skip();
                    } else {
                        self.read(&mut spaces);
                    }
                } else if leading_blanks {
                    self.read_line(&mut trailing);
                } else {
                    spaces.clear();
                    self.read_line(&mut leading);
                    leading_blanks = true;
                }
            }
            if leading_blanks {
                join_breaks(&mut out, &mut leading, &mut trailing);
            } else {
                out.push_str(&spaces);
                spaces.clear();
            }
        }
    }

    fn escape(&mut self, out: &mut String, start: Mark) -> Scan<()> {
        let mut digits = 0;
        match self.b(1) {
            b'0' => out.push('\0'),
            b'a' => out.push('\x07'),
            b'b' => out.push('\x08'),
            b't' | b'\t' => out.push('\t'),
            b'n' => out.push('\n'),
            b'v' => out.push('\x0B'),
            b'f' => out.push('\x0C'),
            b'r' => out.push('\r'),
            b'e' => out.push('\x1B'),
            b' ' => out.push(' '),
            b'"' => out.push('"'),
            b'\'' => out.push('\''),
            b'\\' => out.push('\\'),
            b'N' => out.push('\u{85}'),
            b'_' => out.push('\u{A0}'),
            b'L' => out.push('\u{2028}'),
            b'P' => out.push('\u{2029}'),
            b'x' => digits = 2,
            b'u' => digits = 4,
            b'U' => digits = 8,
            _ => return self.error(start, "found unknown escape character"),
        }
        self.skip();
        self.skip();
        if digits > 0 {
            let hex = self.text.get(self.mark.index..self.mark.index + digits);
            let Some(v) = hex
                .filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()))
                .and_then(|h| u32::from_str_radix(h, 16).ok())
            else {
                return self.error(start, "did not find expected hexdecimal number");
            };
            let Some(c) = char::from_u32(v) else {
                return self.error(start, "found invalid Unicode character escape code");
            };
            out.push(c);
            for _ in 0..digits {
                self.skip();
            }
        }
        Ok(())
    }

    pub(super) fn fetch_plain(&mut self) -> Scan<()> {
        self.save_key()?;
        self.key_allowed = false;
        let start = self.mark;
        let floor = self.indent + 1;
        let mut out: Cow<'a, str> = Cow::Borrowed("");
        let (mut leading, mut trailing) = (String::new(), String::new());
        let mut spaces = "";
        let mut leading_blanks = false;
        loop {
            if self.mark.col == 0 && (self.at_document_mark(b'-') || self.at_document_mark(b'.')) {
                break;
            }
            if self.b(0) == b'#' {
                break;
            }
            let from = self.mark.index;
            while !self.is_blankz_at(0) {
                let c = self.b(0);
                if c.is_ascii_alphanumeric() {
                    self.mark.index += 1;
                    self.mark.col += 1;
                    continue;
                }
                if (c == b':' && self.is_blankz_at(1))
                    || (self.flow > 0 && matches!(c, b',' | b'?' | b'[' | b']' | b'{' | b'}'))
                {
                    break;
                }
                self.mark.index += if c < 0x80 { 1 } else { self.width() };
                self.mark.col += 1;
            }
            let piece = self.text.get(from..self.mark.index).unwrap_or_default();
            if !piece.is_empty() {
                if leading_blanks {
                    join_breaks(out.to_mut(), &mut leading, &mut trailing);
                    leading_blanks = false;
                    out.to_mut().push_str(piece);
                } else if out.is_empty() {
                    out = Cow::Borrowed(piece);
                } else if let Cow::Borrowed(b) = out {
                    // Contiguous with what is held: lengthen the slice instead of copying.
                    let begin = start.index;
                    let whole = self.text.get(begin..self.mark.index).unwrap_or_default();
                    out = if whole.len() == b.len() + spaces.len() + piece.len() {
                        Cow::Borrowed(whole)
                    } else {
                        Cow::Owned([b, spaces, piece].concat())
                    };
                } else {
                    let o = out.to_mut();
                    o.push_str(spaces);
                    o.push_str(piece);
                }
                spaces = "";
            }
            if !self.is_blank() && !self.is_break() {
                break;
            }
            let space_from = self.mark.index;
            while self.is_blank() || self.is_break() {
                if self.is_blank() {
                    if leading_blanks && (self.mark.col as i32) < floor && self.b(0) == b'\t' {
                        return self.error(start, "found a tab character that violates indentation");
                    }
                    self.skip();
                    if !leading_blanks {
                        spaces = self.text.get(space_from..self.mark.index).unwrap_or_default();
                    }
                } else if leading_blanks {
                    self.read_line(&mut trailing);
                } else {
                    spaces = "";
                    self.read_line(&mut leading);
                    leading_blanks = true;
                }
            }
            if self.flow == 0 && (self.mark.col as i32) < floor {
                break;
            }
        }
        self.push(TokenKind::Scalar(out, Style::PLAIN), start);
        if leading_blanks {
            self.key_allowed = true;
        }
        Ok(())
    }
}

/// The text of a block scalar that stands alone, as the value of a top-level field.
///
/// # Errors
/// It is no block scalar.
pub(crate) fn block_text(source: &str) -> Result<String, SyntaxError> {
    let mut scanner = Scanner::new(source, 4, 0)?;
    scanner.indent = 0;
    scanner.fetch_block_scalar(!source.starts_with('>'))?;
    match scanner.tokens.pop_front().map(|t| t.kind) {
        Some(TokenKind::Scalar(text, _)) => Ok(text.into_owned()),
        _ => Err(SyntaxError::plain("no block scalar")),
    }
}

/// Line folding: one break is a space, more breaks lose the first.
fn join_breaks(out: &mut String, leading: &mut String, trailing: &mut String) {
    if leading.starts_with('\n') {
        if trailing.is_empty() {
            out.push(' ');
        }
    } else {
        out.push_str(leading);
    }
    out.push_str(trailing);
    leading.clear();
    trailing.clear();
}
