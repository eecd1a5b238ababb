//! What an unquoted text is: the two generations of the library differ (`yes`, `on`, `0o7`).

use super::node::{Data, Node, Style, Tag};
use super::number::{Number, looks_like_float, parse_float, parse_int};

/// The generation of the library that reads a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Second: Kustomization files, JSON patches in YAML, and the decision whether an output needs quotes.
    Old,
    /// Third: resources and strategic-merge patches.
    New,
}

/// A scalar's meaning.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Meaning {
    Null,
    Bool(bool),
    Number(Number),
    /// RFC 3339.
    Time(String),
    Text,
}

/// Tag and meaning of a plain, untagged text.
pub(crate) fn resolve(dialect: Dialect, text: &str) -> (Tag, Meaning) {
    let Some(first) = text.bytes().next() else { return (Tag::Null, Meaning::Null) };
    match first {
        b'0'..=b'9' | b'+' | b'-' => number(dialect, text),
        b'.' => match text {
            ".nan" | ".NaN" | ".NAN" => (Tag::Float, Meaning::Number(Number::Float(f64::NAN))),
            ".inf" | ".Inf" | ".INF" => (Tag::Float, Meaning::Number(Number::Float(f64::INFINITY))),
            _ => match parse_float(text) {
                Some(f) => (Tag::Float, Meaning::Number(Number::Float(f))),
                None => (Tag::Str, Meaning::Text),
            },
        },
        b'~' if text.len() == 1 => (Tag::Null, Meaning::Null),
        b'n' | b'N' if matches!(text, "null" | "Null" | "NULL") => (Tag::Null, Meaning::Null),
        b't' | b'T' if matches!(text, "true" | "True" | "TRUE") => (Tag::Bool, Meaning::Bool(true)),
        b'f' | b'F' if matches!(text, "false" | "False" | "FALSE") => (Tag::Bool, Meaning::Bool(false)),
        b'<' if text == "<<" => (Tag::Merge, Meaning::Text),
        b'y' | b'Y' | b'n' | b'N' | b'o' | b'O' if dialect == Dialect::Old => match text {
            "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => (Tag::Bool, Meaning::Bool(true)),
            "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => (Tag::Bool, Meaning::Bool(false)),
            _ => (Tag::Str, Meaning::Text),
        },
        _ => (Tag::Str, Meaning::Text),
    }
}

fn number(dialect: Dialect, text: &str) -> (Tag, Meaning) {
    match text {
        "+.inf" | "+.Inf" | "+.INF" => return (Tag::Float, Meaning::Number(Number::Float(f64::INFINITY))),
        "-.inf" | "-.Inf" | "-.INF" => {
            return (Tag::Float, Meaning::Number(Number::Float(f64::NEG_INFINITY)));
        }
        _ => {}
    }
    if let Some(t) = timestamp(text) {
        return (Tag::Timestamp, Meaning::Time(t));
    }
    match plain_number(dialect, text) {
        Some(n @ Number::Float(_)) => (Tag::Float, Meaning::Number(n)),
        Some(n) => (Tag::Int, Meaning::Number(n)),
        None => (Tag::Str, Meaning::Text),
    }
}

fn plain_number(dialect: Dialect, text: &str) -> Option<Number> {
    let cleaned;
    let plain = if text.contains('_') {
        cleaned = text.replace('_', "");
        &cleaned
    } else {
        text
    };
    if let Some(n) = parse_int(plain) {
        return Some(n);
    }
    if looks_like_float(plain)
        && let Some(f) = parse_float(plain)
    {
        return Some(Number::Float(f));
    }
    let octal = dialect == Dialect::New && (plain.starts_with("0o") || plain.starts_with("-0o"));
    // "0b" and "0o" followed by a sign: only this late branch of the library reads them.
    if plain.starts_with("0b") || plain.starts_with("-0b") || octal {
        let negative = plain.starts_with('-');
        let radix = if octal { 8 } else { 2 };
        let digits = plain.get(if negative { 3 } else { 2 }..)?;
        let v = i64::from_str_radix(digits, radix).ok()?;
        return Some(Number::Int(if negative { v.checked_neg()? } else { v }));
    }
    None
}

/// The meaning of a node as the reader of `dialect` decodes it: explicit tags are honoured.
///
/// # Errors
/// The text does not fit its tag.
pub(crate) fn meaning(node: &Node, dialect: Dialect) -> Result<Meaning, String> {
    let text = node.text();
    let (rtag, found) = match &node.tag {
        Tag::Str | Tag::Binary | Tag::Other(_) | Tag::Seq | Tag::Map => return Ok(Meaning::Text),
        Tag::None if node.style.is_textual() => return Ok(Meaning::Text),
        _ => resolve(dialect, text),
    };
    // A quoted text whose tag says what it looks like is printed with its quotes and without its tag.
    if node.style.is_textual() && !node.style.has(Style::TAGGED) && node.tag == rtag {
        return Ok(Meaning::Text);
    }
    match (&node.tag, found) {
        (Tag::None, m) => Ok(m),
        (Tag::Float, Meaning::Number(Number::Int(i))) => Ok(Meaning::Number(Number::Float(i as f64))),
        (tag, m) if *tag == rtag => Ok(m),
        (Tag::Merge, _) => Ok(Meaning::Text),
        (tag, _) => Err(format!("yaml: cannot decode {} `{text}` as a {}", rtag.short(), tag.short())),
    }
}

/// Would the text be something else than a text if it stood unquoted? (Used when the build writes a value.)
pub(crate) fn is_not_text(text: &str) -> bool {
    !text.is_empty() && !text.contains('\n') && !matches!(resolve(Dialect::Old, text).1, Meaning::Text)
}

/// The date and time formats of the library; gives RFC 3339 with the shortest fraction.
fn timestamp(text: &str) -> Option<String> {
    let b = text.as_bytes();
    if b.len() < 8 || b.get(4) != Some(&b'-') || !b.iter().take(4).all(u8::is_ascii_digit) {
        return None;
    }
    let mut p = Cursor { b, i: 5 };
    let year: u32 = text.get(..4)?.parse().ok()?;
    let month = p.number()?;
    p.expect(b'-')?;
    let day = p.number()?;
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    let date = format!("{year:04}-{month:02}-{day:02}");
    if p.at_end() {
        return Some(format!("{date}T00:00:00Z"));
    }
    let zoned = match p.take()? {
        b'T' | b't' => true,
        b' ' => false,
        _ => return None,
    };
    let hour = p.number()?;
    p.expect(b':')?;
    let minute = p.number()?;
    p.expect(b':')?;
    let second = p.number()?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction = p.fraction()?;
    let zone = if zoned { p.zone()? } else { "Z".to_owned() };
    p.at_end().then(|| format!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}"))
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

struct Cursor<'a> {
    b: &'a [u8],
    i: usize,
}

impl Cursor<'_> {
    fn at_end(&self) -> bool {
        self.i == self.b.len()
    }

    fn take(&mut self) -> Option<u8> {
        let c = self.b.get(self.i).copied()?;
        self.i += 1;
        Some(c)
    }

    fn expect(&mut self, c: u8) -> Option<()> {
        (self.take()? == c).then_some(())
    }

    /// One or two digits.
    fn number(&mut self) -> Option<u32> {
        let first = self.take().filter(u8::is_ascii_digit)?;
        let mut n = u32::from(first - b'0');
        if let Some(d) = self.b.get(self.i).filter(|d| d.is_ascii_digit()) {
            n = n * 10 + u32::from(d - b'0');
            self.i += 1;
        }
        Some(n)
    }

    fn fraction(&mut self) -> Option<String> {
        let rest = self.b.get(self.i..).unwrap_or_default();
        if !matches!(rest.first(), Some(b'.' | b',')) || !rest.get(1).is_some_and(u8::is_ascii_digit) {
            return Some(String::new());
        }
        let digits: Vec<u8> = rest.iter().skip(1).copied().take_while(u8::is_ascii_digit).collect();
        self.i += 1 + digits.len();
        let digits = String::from_utf8(digits.into_iter().take(9).collect()).ok()?;
        let digits = digits.trim_end_matches('0');
        Some(if digits.is_empty() { String::new() } else { format!(".{digits}") })
    }

    fn zone(&mut self) -> Option<String> {
        let sign = self.take()?;
        if sign == b'Z' {
            return Some("Z".to_owned());
        }
        let digit = |c: Option<u8>| c.filter(u8::is_ascii_digit).map(|d| u32::from(d - b'0'));
        if sign != b'+' && sign != b'-' {
            return None;
        }
        let hours = digit(self.take())? * 10 + digit(self.take())?;
        self.expect(b':')?;
        let minutes = digit(self.take())? * 10 + digit(self.take())?;
        if hours > 24 || minutes > 60 {
            return None;
        }
        Some(if hours == 0 && minutes == 0 {
            "Z".to_owned()
        } else {
            format!("{}{hours:02}:{minutes:02}", sign as char)
        })
    }
}

/// Is a map's key anything but a text? Such a map has no JSON form.
pub(crate) fn key_is_text(key: &Node) -> bool {
    match (&key.data, &key.tag) {
        (Data::Scalar(_), Tag::Str | Tag::Merge) => true,
        (Data::Scalar(text), Tag::None) => {
            key.style.is_textual() || matches!(resolve(Dialect::New, text).0, Tag::Str | Tag::Merge)
        }
        _ => false,
    }
}
