//! What a plain scalar is: YAML 1.1 as goyaml.v2 reads it, which is what Kubernetes and Helm use.

use super::{YamlError, numbers};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    /// Nothing else: the text itself.
    Text,
}

/// The type of an untagged plain scalar. `<<` is the caller's business.
pub(super) fn plain(text: &str) -> Scalar {
    let Some(&first) = text.as_bytes().first() else { return Scalar::Null };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => word(text),
        b'.' => match text {
            ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" => Scalar::Float(f64::INFINITY),
            _ => go_float(text).map_or(Scalar::Text, Scalar::Float),
        },
        b'+' | b'-' | b'0'..=b'9' => {
            if timestamp(text) {
                return Scalar::Text;
            }
            number(text)
        }
        _ => Scalar::Text,
    }
}

/// Whether the text, written plain, would be read as something other than itself.
pub(crate) fn is_special(text: &str) -> bool {
    plain(text) != Scalar::Text || timestamp(text)
}

fn word(text: &str) -> Scalar {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        _ => Scalar::Text,
    }
}

fn number(text: &str) -> Scalar {
    match text {
        "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    // Only these bytes can occur in a number.
    if !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_')) {
        return Scalar::Text;
    }
    let plain: std::borrow::Cow<'_, str> =
        if text.contains('_') { text.replace('_', "").into() } else { text.into() };
    if let Some(value) = numbers::parse_int(&plain, 0) {
        return Scalar::Int(value);
    }
    if let Some(value) = numbers::parse_uint(&plain, 0) {
        return Scalar::Uint(value);
    }
    if yaml_float(&plain)
        && let Ok(value) = plain.parse::<f64>()
        && value.is_finite()
    {
        return Scalar::Float(value);
    }
    let (negative, digits) = match plain.strip_prefix("-0b") {
        Some(digits) => (true, digits),
        None => match plain.strip_prefix("0b") {
            Some(digits) => (false, digits),
            None => return Scalar::Text,
        },
    };
    match i64::from_str_radix(digits, 2) {
        Ok(value) => Scalar::Int(if negative { -value } else { value }),
        Err(_) => Scalar::Text,
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn yaml_float(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let start = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(start);
    let mut at = whole;
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1);
        if whole == start && at == whole + 1 {
            return false;
        }
    } else if whole == start {
        return false;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at = digits(sign);
        if at == sign {
            return false;
        }
    }
    at == bytes.len()
}

/// A float as Go's ParseFloat takes it: only used for those that begin with a dot.
fn go_float(text: &str) -> Option<f64> {
    yaml_float(text).then(|| text.parse().ok()).flatten().filter(|v: &f64| v.is_finite())
}

/// A date or a time: stays text, but must be quoted when text is meant.
fn timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 8 || bytes[4] != b'-' || !bytes[..4].iter().all(u8::is_ascii_digit) {
        return false;
    }
    date_time(text).is_some()
}

fn date_time(text: &str) -> Option<()> {
    let mut at = Cursor(text);
    let year = at.digits(4, 0, 9999)?;
    at.literal('-')?;
    let month = at.digits(2, 1, 12)?;
    at.literal('-')?;
    let day = at.digits(2, 1, 31)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 31,
    };
    if day > days {
        return None;
    }
    let zoned = match at.0.chars().next() {
        None => return Some(()),
        Some('T' | 't') => true,
        Some(' ') => false,
        Some(_) => return None,
    };
    at.0 = &at.0[1..];
    at.digits(2, 0, 23)?;
    at.literal(':')?;
    at.digits(2, 0, 59)?;
    at.literal(':')?;
    at.digits(2, 0, 59)?;
    if let Some(fraction) = at.0.strip_prefix(['.', ',']) {
        let len = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if len == 0 {
            return None;
        }
        at.0 = &fraction[len..];
    }
    if !zoned {
        return at.0.is_empty().then_some(());
    }
    if at.0 == "Z" {
        return Some(());
    }
    let zone = at.0.strip_prefix(['+', '-'])?.as_bytes();
    let ok = zone.len() == 5
        && zone[2] == b':'
        && [0, 1, 3, 4].iter().all(|&at| zone[at].is_ascii_digit())
        && (zone[0] - b'0') * 10 + (zone[1] - b'0') <= 24
        && zone[3] - b'0' < 6;
    ok.then_some(())
}

struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    /// Up to `most` digits whose value lies between `low` and `high`.
    fn digits(&mut self, most: usize, low: u32, high: u32) -> Option<u32> {
        let len = self.0.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let value: u32 = self.0[..len].parse().ok()?;
        self.0 = &self.0[len..];
        (low..=high).contains(&value).then_some(value)
    }

    fn literal(&mut self, c: char) -> Option<()> {
        self.0 = self.0.strip_prefix(c)?;
        Some(())
    }
}

/// The type of a scalar with a tag (`!!int`, `!custom`); the text is given when the tag changes it.
pub(super) fn tagged(tag: &str, text: &str) -> Result<(Scalar, Option<String>), YamlError> {
    let found = match tag {
        "!!binary" => {
            use base64::Engine as _;
            let packed: String = text.chars().filter(|c| *c != '\n' && *c != '\r').collect();
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(packed)
                .map_err(|_| YamlError::plain("!!binary value contains invalid base64 data"))?;
            return Ok((Scalar::Text, Some(String::from_utf8_lossy(&bytes).into_owned())));
        }
        "!!bool" | "!!int" | "!!float" | "!!null" | "!!timestamp" => plain(text),
        _ => return Ok((Scalar::Text, None)),
    };
    let name = match &found {
        Scalar::Null => "!!null",
        Scalar::Bool(_) => "!!bool",
        Scalar::Int(_) | Scalar::Uint(_) => "!!int",
        Scalar::Float(_) => "!!float",
        Scalar::Text if timestamp(text) => "!!timestamp",
        Scalar::Text => "!!str",
    };
    match (tag, found) {
        (tag, found) if tag == name => Ok((found, None)),
        ("!!float", Scalar::Int(value)) => Ok((Scalar::Float(value as f64), None)),
        _ => Err(YamlError::plain(&format!("cannot decode {name} `{text}` as a {tag}"))),
    }
}

/// How a scalar reads as the key of a JSON object; None for null.
pub(super) fn key(scalar: &Scalar) -> Option<String> {
    Some(match scalar {
        Scalar::Null => return None,
        Scalar::Bool(value) => value.to_string(),
        Scalar::Int(value) => value.to_string(),
        Scalar::Uint(value) => value.to_string(),
        Scalar::Float(value) => float_key(*value),
        Scalar::Text => String::new(),
    })
}

/// A float as a key: shortest text that reads back as the same 32 bit float.
pub(super) fn float_key(value: f64) -> String {
    match numbers::format_g32(value as f32).as_str() {
        "+Inf" => ".inf".to_owned(),
        "-Inf" => "-.inf".to_owned(),
        "NaN" => ".nan".to_owned(),
        text => text.to_owned(),
    }
}
