//! The tag half of the scanner: tags of nodes and directives.

use std::borrow::Cow;

use super::{Mark, Scan, Scanner, SyntaxError, TokenKind, is_alpha};

impl Scanner<'_> {
    pub(super) fn fetch_tag(&mut self) -> Scan<()> {
        self.save_key()?;
        self.key_allowed = false;
        let start = self.mark;
        let (handle, suffix);
        if self.b(1) == b'<' {
            self.skip();
            self.skip();
            suffix = self.tag_uri("", start)?;
            handle = String::new();
            if self.b(0) != b'>' {
                return self.error(start, "did not find the expected '>'");
            }
            self.skip();
        } else {
            let h = self.tag_handle();
            if h.len() > 1 && h.ends_with('!') {
                suffix = self.tag_uri("", start)?;
                handle = h;
            } else {
                let s = self.tag_uri(&h, start)?;
                (handle, suffix) = if s.is_empty() { (s, "!".to_owned()) } else { ("!".to_owned(), s) };
            }
        }
        if !self.is_blankz_at(0) {
            return self.error(start, "did not find expected whitespace or line break");
        }
        self.push(TokenKind::Tag(Cow::Owned(handle), Cow::Owned(suffix)), start);
        Ok(())
    }

    fn tag_handle(&mut self) -> String {
        let mut s = String::new();
        self.read(&mut s);
        while is_alpha(self.b(0)) {
            self.read(&mut s);
        }
        if self.b(0) == b'!' {
            self.read(&mut s);
        }
        s
    }

    fn tag_uri(&mut self, head: &str, start: Mark) -> Scan<String> {
        let mut s = head.get(1..).unwrap_or_default().to_owned();
        let mut any = !head.is_empty();
        while is_alpha(self.b(0)) || (self.b(0) != 0 && b";/?:@&=+$,.!~*'()[]%".contains(&self.b(0))) {
            if self.b(0) == b'%' {
                self.uri_escape(&mut s, start)?;
            } else {
                self.read(&mut s);
            }
            any = true;
        }
        if any { Ok(s) } else { self.error(start, "did not find expected tag URI") }
    }

    fn uri_escape(&mut self, into: &mut String, start: Mark) -> Scan<()> {
        let mut bytes = Vec::new();
        while self.b(0) == b'%' {
            let hex = self.text.get(self.mark.index + 1..self.mark.index + 3);
            let Some(v) = hex.and_then(|h| u8::from_str_radix(h, 16).ok()) else {
                return self.error(start, "did not find URI escaped octet");
            };
            bytes.push(v);
            for _ in 0..3 {
                self.skip();
            }
        }
        match std::str::from_utf8(&bytes) {
            Ok(s) => into.push_str(s),
            Err(_) => return self.error(start, "found an incorrect trailing UTF-8 octet"),
        }
        Ok(())
    }

    pub(super) fn fetch_directive(&mut self) -> Scan<()> {
        self.unroll_indent(-1, self.mark);
        self.remove_key()?;
        self.key_allowed = false;
        let start = self.mark;
        self.skip();
        let from = self.mark.index;
        while is_alpha(self.b(0)) {
            self.skip();
        }
        let name = self.text.get(from..self.mark.index).unwrap_or_default();
        if name.is_empty() {
            return self.error(start, "could not find expected directive name");
        }
        let rest_from = self.mark.index;
        while !self.is_end() && !self.is_break() && self.b(0) != b'#' {
            self.skip();
        }
        let mut words = self.text.get(rest_from..self.mark.index).unwrap_or_default().split_whitespace();
        let kind = match name {
            "YAML" => match words.next() {
                Some("1.1" | "1.2") => TokenKind::VersionDirective,
                Some(v) if v.contains('.') => {
                    return Err(SyntaxError::plain("found incompatible YAML document"));
                }
                _ => return self.error(start, "did not find expected version number"),
            },
            "TAG" => match (words.next(), words.next()) {
                (Some(h), Some(p)) => TokenKind::TagDirective(Cow::Borrowed(h), Cow::Borrowed(p)),
                _ => return self.error(start, "did not find expected whitespace"),
            },
            _ => return self.error(start, "found unknown directive name"),
        };
        self.skip_to_break();
        self.skip_line();
        self.push(kind, start);
        Ok(())
    }
}
