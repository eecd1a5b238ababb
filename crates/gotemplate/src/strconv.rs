//! Go's `strconv`: quoting, and numbers from text.

use std::fmt::Write as _;

/// `strconv.Quote`
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        escape(&mut out, c, '"');
    }
    out.push('"');
    out
}

/// `strconv.Quote` of any bytes.
pub(crate) fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            escape(&mut out, c, '"');
        }
        for b in chunk.invalid() {
            let _ = write!(out, "\\x{b:02x}");
        }
    }
    out.push('"');
    out
}

pub(crate) fn escape(out: &mut String, c: char, quote: char) {
    match c {
        '\\' => out.push_str("\\\\"),
        c if c == quote => {
            out.push('\\');
            out.push(c);
        }
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0C' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0B' => out.push_str("\\v"),
        c if is_print(c) => out.push(c),
        c if (c as u32) < 0x80 => {
            let _ = write!(out, "\\x{:02x}", c as u32);
        }
        c if (c as u32) < 0x10000 => {
            let _ = write!(out, "\\u{:04x}", c as u32);
        }
        c => {
            let _ = write!(out, "\\U{:08x}", c as u32);
        }
    }
}

/// Go's `unicode.IsPrint`, near enough: letters, marks, numbers, punctuation, symbols, the space.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    !c.is_control()
        && !c.is_whitespace()
        && !matches!(c as u32,
            0xAD | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xFFF9..=0xFFFB | 0xE000..=0xF8FF
            | 0xFFFE..=0xFFFF | 0xE0000..=0x0010_FFFF)
}

/// `strconv.Unquote` of a double quoted or raw string.
pub(crate) fn unquote(text: &str) -> Option<String> {
    let inner = text.get(1..text.len().checked_sub(1)?)?;
    match text.as_bytes()[0] {
        b'`' => Some(inner.replace('\r', "")),
        b'"' => {
            let mut out = Vec::with_capacity(inner.len());
            let mut rest = inner;
            while !rest.is_empty() {
                rest = unescape(rest, '"', &mut out)?;
            }
            String::from_utf8(out).ok()
        }
        _ => None,
    }
}

/// The character of `'x'`.
pub(crate) fn unquote_char(text: &str) -> Option<char> {
    let inner = text.get(1..text.len().checked_sub(1)?)?;
    let mut out = Vec::new();
    let rest = unescape(inner, '\'', &mut out)?;
    if !rest.is_empty() {
        return None;
    }
    std::str::from_utf8(&out).ok()?.chars().next()
}

fn unescape<'a>(text: &'a str, quote: char, out: &mut Vec<u8>) -> Option<&'a str> {
    let mut chars = text.chars();
    let c = chars.next()?;
    if c != '\\' {
        if c == quote || c == '\n' {
            return None;
        }
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        return Some(chars.as_str());
    }
    let code = chars.next()?;
    let digits = |count: usize, radix: u32, text: &'a str| -> Option<(u32, &'a str)> {
        let digits = text.get(..count)?;
        Some((u32::from_str_radix(digits, radix).ok()?, &text[count..]))
    };
    let mut rest = chars.as_str();
    let byte = match code {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' => b'\\',
        '\'' | '"' if code == quote => code as u8,
        'x' => {
            let (value, after) = digits(2, 16, rest)?;
            rest = after;
            value as u8
        }
        '0'..='7' => {
            let (value, _) = digits(3, 8, &text[1..])?;
            rest = &text[4..];
            u8::try_from(value).ok()?
        }
        'u' | 'U' => {
            let (value, after) = digits(if code == 'u' { 4 } else { 8 }, 16, rest)?;
            let c = char::from_u32(value)?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(after);
        }
        _ => return None,
    };
    out.push(byte);
    Some(rest)
}

/// `strconv.ParseFloat(text, 64)` of a finite number.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    if text.contains('_') {
        // Between digits, or after the `0x`, it only separates.
        let bytes = text.as_bytes();
        let good = |at: usize| {
            let before = at.checked_sub(1).and_then(|at| bytes.get(at));
            before.is_some_and(|b| b.is_ascii_hexdigit() || matches!(b, b'x' | b'X'))
                && bytes.get(at + 1).is_some_and(u8::is_ascii_hexdigit)
        };
        let separate = text.match_indices('_').all(|(at, _)| good(at));
        return separate.then(|| text.replace('_', "")).and_then(|text| parse_float(&text));
    }
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    match body.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => {
            return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
        }
        "nan" => return Some(f64::NAN),
        lower => {
            if let Some(digits) = lower.strip_prefix("0x") {
                let value = hex_float(digits)?;
                return Some(if text.starts_with('-') { -value } else { value });
            }
        }
    }
    if !body.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || !text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'))
    {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// `1.8p3` of `0x1.8p3`: sixteenths and powers of two.
fn hex_float(digits: &str) -> Option<f64> {
    let (mantissa, exponent) = digits.split_once('p')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0f64;
    for c in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(c.to_digit(16)?);
    }
    let value = value * 2f64.powi(exponent.saturating_sub(4 * fraction.len() as i32));
    Some(value).filter(|value| value.is_finite())
}
