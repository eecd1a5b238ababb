//! Go's `encoding/json` for values of templates.

use std::fmt::Write as _;

use base64::Engine as _;
use plural_yaml::{governor, numbers};

use super::{
    dates, format,
    objects::Struct,
    strconv,
    value::{List, MAX_DEPTH, Map, Value},
};

/// How JSON is laid out.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Two spaces for each level, and line breaks.
    pub pretty: bool,
    /// `<`, `>` and `&` as escapes.
    pub escape_html: bool,
}

/// `json.Marshal`
///
/// # Errors
/// When the value holds itself, or a number that JSON does not have.
pub fn to_string(value: &Value, style: Style) -> Result<String, String> {
    let mut out = String::new();
    write(&mut out, value, style, 0)?;
    Ok(out)
}

/// Bytes as JSON has them.
pub(crate) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Values that JSON has as texts.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Time(time) => dates::format(time, "2006-01-02T15:04:05.999999999Z07:00"),
        other => format::display(other),
    }
}

/// The fields of a struct that JSON shows.
pub(crate) fn fields(object: &Struct) -> Vec<(&'static str, &Value)> {
    object
        .ty
        .fields
        .iter()
        .zip(object.fields())
        .filter(|(field, value)| !(field.omit_empty && !value.truth() && !matches!(value, Value::Struct(_))))
        .map(|(field, value)| (field.json, value))
        .collect()
}

fn write(out: &mut String, value: &Value, style: Style, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("json: unsupported value: encountered a cycle".to_owned());
    }
    let _ = match value {
        Value::Nil | Value::NilField => out.write_str("null"),
        Value::Bool(value) => write!(out, "{value}"),
        Value::Int(value) | Value::Int64(value) | Value::Duration(value) => write!(out, "{value}"),
        Value::Uint64(value) => write!(out, "{value}"),
        Value::Float(value) if value.is_finite() => out.write_str(&numbers::format_json(*value)),
        Value::Complex(..) => return Err("json: unsupported type: complex128".to_owned()),
        Value::Float(value) => return Err(format!("json: unsupported value: {}", numbers::format_g(*value))),
        Value::Str(text) => {
            quote(out, text, style.escape_html);
            Ok(())
        }
        Value::Raw(bytes) => {
            out.push('"');
            for chunk in bytes.utf8_chunks() {
                escape(out, chunk.valid(), style.escape_html);
                chunk.invalid().iter().for_each(|_| out.push_str("\\ufffd"));
            }
            out.push('"');
            Ok(())
        }
        Value::Bytes(bytes) => write!(out, "\"{}\"", base64(bytes)),
        Value::Time(_) | Value::Version(_) => {
            quote(out, &text_of(value), style.escape_html);
            Ok(())
        }
        Value::List(list) if list.is_nil() => out.write_str("null"),
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.items().iter().enumerate() {
                separate(out, style, depth, index);
                write(out, item, style, depth + 1)?;
            }
            close(out, style, depth, list.is_empty(), ']');
            Ok(())
        }
        Value::Map(map) => {
            let entries = map.entries();
            object(out, entries.iter().map(|entry| (&*entry.0, &entry.1)), style, depth)?;
            Ok(())
        }
        Value::Struct(inner) => {
            object(out, fields(inner).into_iter(), style, depth)?;
            Ok(())
        }
    };
    Ok(())
}

fn object<'v>(
    out: &mut String,
    entries: impl Iterator<Item = (&'v str, &'v Value)>,
    style: Style,
    depth: usize,
) -> Result<(), String> {
    out.push('{');
    let mut empty = true;
    for (index, (key, value)) in entries.enumerate() {
        empty = false;
        separate(out, style, depth, index);
        quote(out, key, style.escape_html);
        out.push_str(if style.pretty { ": " } else { ":" });
        write(out, value, style, depth + 1)?;
    }
    close(out, style, depth, empty, '}');
    Ok(())
}

fn separate(out: &mut String, style: Style, depth: usize, index: usize) {
    if index > 0 {
        out.push(',');
    }
    if style.pretty {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth + 1));
    }
}

fn close(out: &mut String, style: Style, depth: usize, empty: bool, bracket: char) {
    if style.pretty && !empty {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    }
    out.push(bracket);
}

fn quote(out: &mut String, text: &str, escape_html: bool) {
    out.push('"');
    escape(out, text, escape_html);
    out.push('"');
}

/// The text as it stands inside a string of JSON. Runs that need no escape are copied whole.
fn escape(out: &mut String, text: &str, escape_html: bool) {
    let mut done = 0;
    for (at, byte) in text.bytes().enumerate() {
        let code = match byte {
            0..=0x1F | b'"' | b'\\' => u32::from(byte),
            b'<' | b'>' | b'&' if escape_html => u32::from(byte),
            // Separators of lines and paragraphs, which begin with this byte.
            0xE2 => match text.as_bytes().get(at + 1..at + 3) {
                Some([0x80, last @ (0xA8 | 0xA9)]) => 0x2000 | u32::from(last & 0x3F),
                _ => continue,
            },
            _ => continue,
        };
        out.push_str(&text[done..at]);
        done = at + if byte == 0xE2 { 3 } else { 1 };
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            0x0C => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            _ => {
                let _ = write!(out, "\\u{code:04x}");
            }
        }
    }
    out.push_str(&text[done..]);
}

/// `json.Unmarshal` into an empty interface.
///
/// # Errors
/// In Go's words.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let mut parser = Parser { bytes: text.as_bytes(), text, at: 0, depth: 0 };
    let value = parser.value("looking for beginning of value")?;
    parser.space();
    if parser.at < parser.bytes.len() {
        return Err(parser.invalid("after top-level value"));
    }
    Ok(value)
}

struct Parser<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn invalid(&self, context: &str) -> String {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            None => "unexpected end of JSON input".to_owned(),
            Some('\'') => format!("invalid character '\\'' {context}"),
            Some('"') => format!("invalid character '\"' {context}"),
            Some(c) => {
                let shown = strconv::quote(&c.to_string());
                format!("invalid character '{}' {context}", &shown[1..shown.len() - 1])
            }
        }
    }

    fn value(&mut self, context: &str) -> Result<Value, String> {
        if !governor::may_go_on(0) {
            return Err(governor::STOPPED.to_owned());
        }
        self.space();
        match self.bytes.get(self.at) {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => Ok(self.string()?.into()),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Nil),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.invalid(context)),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, String> {
        for (index, expected) in word.bytes().enumerate() {
            if self.bytes.get(self.at) != Some(&expected) {
                let context = format!("in literal {word} (expecting '{}')", &word[index..=index]);
                return Err(self.invalid(&context));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        let digits = |parser: &mut Self, context: &str| -> Result<(), String> {
            if !parser.bytes.get(parser.at).is_some_and(u8::is_ascii_digit) {
                return Err(parser.invalid(context));
            }
            while parser.bytes.get(parser.at).is_some_and(u8::is_ascii_digit) {
                parser.at += 1;
            }
            Ok(())
        };
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            digits(self, "in numeric literal")?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            digits(self, "after decimal point in numeric literal")?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            digits(self, "in exponent of numeric literal")?;
        }
        let text = &self.text[start..self.at];
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Value::Float(value)),
            _ => Err(format!("json: cannot unmarshal number {text} into Go value of type float64")),
        }
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            while self.bytes.get(self.at).is_some_and(|b| *b != b'"' && *b != b'\\' && *b >= 0x20) {
                self.at += 1;
            }
            out.push_str(&self.text[start..self.at]);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut out)?;
                }
                _ => return Err(self.invalid("in string literal")),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), String> {
        let c = match self.bytes.get(self.at) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\x08',
            Some(b'f') => '\x0C',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let first = self.hex()?;
                let mut code = first;
                if (0xD800..0xDC00).contains(&first) && self.bytes[self.at..].starts_with(b"\\u") {
                    let before = self.at;
                    self.at += 2;
                    let second = self.hex()?;
                    if (0xDC00..0xE000).contains(&second) {
                        code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                    } else {
                        self.at = before;
                    }
                }
                out.push(char::from_u32(code).unwrap_or('\u{FFFD}'));
                return Ok(());
            }
            _ => return Err(self.invalid("in string escape code")),
        };
        out.push(c);
        self.at += 1;
        Ok(())
    }

    fn hex(&mut self) -> Result<u32, String> {
        let mut value = 0;
        for _ in 0..4 {
            let Some(digit) = self.bytes.get(self.at).and_then(|b| (*b as char).to_digit(16)) else {
                return Err(self.invalid("in \\u hexadecimal character escape"));
            };
            value = value * 16 + digit;
            self.at += 1;
        }
        Ok(value)
    }

    fn nest<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        let result = stacker::maybe_grow(64 << 10, 1 << 20, || inner(self));
        self.depth -= 1;
        result
    }

    fn object(&mut self) -> Result<Value, String> {
        self.nest(|parser| {
            parser.at += 1;
            let mut entries = Vec::new();
            parser.space();
            if parser.bytes.get(parser.at) == Some(&b'}') {
                parser.at += 1;
                return Ok(Value::Map(Map::new()));
            }
            loop {
                parser.space();
                if parser.bytes.get(parser.at) != Some(&b'"') {
                    return Err(parser.invalid("looking for beginning of object key string"));
                }
                let key = parser.string()?;
                parser.space();
                if parser.bytes.get(parser.at) != Some(&b':') {
                    return Err(parser.invalid("after object key"));
                }
                parser.at += 1;
                entries.push((key.into(), parser.value("looking for beginning of value")?));
                parser.space();
                match parser.bytes.get(parser.at) {
                    Some(b',') => parser.at += 1,
                    Some(b'}') => {
                        parser.at += 1;
                        return Ok(Value::Map(Map::of(entries)));
                    }
                    _ => return Err(parser.invalid("after object key:value pair")),
                }
            }
        })
    }

    fn array(&mut self) -> Result<Value, String> {
        self.nest(|parser| {
            parser.at += 1;
            let mut items = Vec::new();
            parser.space();
            if parser.bytes.get(parser.at) == Some(&b']') {
                parser.at += 1;
                return Ok(Value::List(List::new(items)));
            }
            loop {
                items.push(parser.value("looking for beginning of value")?);
                parser.space();
                match parser.bytes.get(parser.at) {
                    Some(b',') => parser.at += 1,
                    Some(b']') => {
                        parser.at += 1;
                        return Ok(Value::List(List::new(items)));
                    }
                    _ => return Err(parser.invalid("after array element")),
                }
            }
        })
    }
}
