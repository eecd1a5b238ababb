//! Numbers as Go reads and prints them.

/// A number of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    Uint(u64),
    Float(f64),
}

/// An integer in Go's syntax: sign, `0x`, `0b`, `0o` or a leading `0` for octal; underscores were taken out before.
pub(crate) fn parse_int(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let lower = digits.get(..2).map(str::to_ascii_lowercase);
    let (radix, digits) = match lower.as_deref() {
        Some("0x") => (16, digits.get(2..)?),
        Some("0b") => (2, digits.get(2..)?),
        Some("0o") => (8, digits.get(2..)?),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|b| (b as char).is_digit(radix)) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        let limit = i64::MIN.unsigned_abs();
        return match magnitude {
            m if m == limit => Some(Number::Int(i64::MIN)),
            m if m < limit => Some(Number::Int(-(m as i64))),
            _ => None,
        };
    }
    Some(i64::try_from(magnitude).map_or(Number::Uint(magnitude), Number::Int))
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
pub(crate) fn looks_like_float(text: &str) -> bool {
    let b = text.as_bytes();
    let mut i = usize::from(matches!(b.first(), Some(b'-' | b'+')));
    let digits =
        |from: usize| b.get(from..).unwrap_or_default().iter().take_while(|c| c.is_ascii_digit()).count();
    let whole = digits(i);
    i += whole;
    if b.get(i) == Some(&b'.') {
        let fraction = digits(i + 1);
        if whole == 0 && fraction == 0 {
            return false;
        }
        i += 1 + fraction;
    } else if whole == 0 {
        return false;
    }
    if matches!(b.get(i), Some(b'e' | b'E')) {
        i += 1;
        i += usize::from(matches!(b.get(i), Some(b'-' | b'+')));
        let exponent = digits(i);
        if exponent == 0 {
            return false;
        }
        i += exponent;
    }
    i == b.len()
}

/// A float in the same syntax; out of range is not a number (Go reports an error for it).
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    if !looks_like_float(text) {
        return None;
    }
    text.parse::<f64>().ok().filter(|f| f.is_finite())
}

/// Shortest decimal digits and the position of the point.
fn shortest(f: f64) -> (bool, String, i32) {
    let s = format!("{:e}", f.abs());
    let (mantissa, exponent) = s.split_once('e').unwrap_or((&s, "0"));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let exponent: i32 = exponent.parse().unwrap_or(0);
    (f.is_sign_negative(), digits, exponent)
}

fn exponential(negative: bool, digits: &str, exponent: i32, two_digits: bool) -> String {
    let (first, rest) = digits.split_at(digits.len().min(1));
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    let minus = if negative { "-" } else { "" };
    let e = exponent.unsigned_abs();
    if two_digits {
        format!("{minus}{first}{point}{rest}e{sign}{e:02}")
    } else {
        format!("{minus}{first}{point}{rest}e{sign}{e}")
    }
}

/// `strconv.FormatFloat(f, 'g', -1, 64)`.
pub(crate) fn format_g(f: f64) -> String {
    let (negative, digits, exponent) = shortest(f);
    if !(-4..6).contains(&exponent) {
        return exponential(negative, &digits, exponent, true);
    }
    fixed(f)
}

fn fixed(f: f64) -> String {
    format!("{f}")
}

/// `encoding/json`: fixed notation from 1e-6 to 1e21.
pub(crate) fn format_json(f: f64) -> String {
    let a = f.abs();
    if a != 0.0 && !(1e-6..1e21).contains(&a) {
        let (negative, digits, exponent) = shortest(f);
        let two = !(exponent < 0 && exponent > -10);
        return exponential(negative, &digits, exponent, two);
    }
    fixed(f)
}
