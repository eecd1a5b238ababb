//! Values become YAML text, byte for byte as goyaml.v2 writes it (and as v3 does for
//! `toYamlPretty`): sorted keys, two spaces, long texts folded at spaces.

use std::cmp::Ordering;

use serde_json::Value;

use super::{numbers, resolve};

/// Column after which a long text goes on in the next line.
const WIDTH: usize = 80;
/// Longest key that is written without a `?` before it.
const MAX_SIMPLE_KEY: usize = 128;

/// How text is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Sequences in maps are not indented, long texts go on in the next line.
    Compact,
    /// Sequences in maps are indented by two spaces, lines are as long as they are.
    Indented,
}

/// Whether a text may have more than one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fold {
    /// Where it is long.
    Long,
    /// Only where it has line breaks of its own.
    Never,
    /// No: it is a key before its colon.
    SimpleKey,
}

/// Writes one document. Callers walk their own values and say what they meet.
#[derive(Debug)]
pub struct Emitter<'a> {
    out: &'a mut String,
    layout: Layout,
}

/// Where a value is written: behind what, and at which indentation its collection stands.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    indent: usize,
    kind: PlaceKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaceKind {
    Root,
    /// Behind `key:`.
    Entry,
    /// Behind `- ` or `: `: a collection's first line continues this one.
    Item,
}

impl Place {
    /// The whole document.
    pub const ROOT: Self = Self { indent: 0, kind: PlaceKind::Root };
}

impl<'a> Emitter<'a> {
    /// Writes to the end of `out`.
    pub fn new(out: &'a mut String, layout: Layout) -> Self {
        Self { out, layout }
    }

    fn folds(&self) -> Fold {
        if self.layout == Layout::Compact { Fold::Long } else { Fold::Never }
    }

    fn pad(&mut self, count: usize) {
        const SPACES: &str = "                                                                ";
        let mut left = count;
        while left > 0 {
            let some = left.min(SPACES.len());
            self.out.push_str(&SPACES[..some]);
            left -= some;
        }
    }

    fn space(&mut self, place: Place) {
        if place.kind != PlaceKind::Root {
            self.out.push(' ');
        }
    }

    /// A number, a bool or null: text that is written as it is.
    pub fn word(&mut self, place: Place, text: &str) {
        self.space(place);
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// A text.
    pub fn text(&mut self, place: Place, text: &str) {
        self.space(place);
        let indent = place.indent + 2;
        write_scalar(self.out, text, self.folds(), indent);
        if !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    /// A sequence without items.
    pub fn empty_sequence(&mut self, place: Place) {
        self.word(place, "[]");
    }

    /// A map without entries.
    pub fn empty_mapping(&mut self, place: Place) {
        self.word(place, "{}");
    }

    /// Where the items of a sequence at `place` go; it has at least one.
    pub fn begin_sequence(&mut self, place: Place) -> Place {
        match place.kind {
            PlaceKind::Root => place,
            PlaceKind::Entry => {
                self.out.push('\n');
                let indent = if self.layout == Layout::Indented { place.indent + 2 } else { place.indent };
                Place { indent, kind: PlaceKind::Entry }
            }
            PlaceKind::Item => {
                self.out.push(' ');
                Place { indent: place.indent + 2, kind: PlaceKind::Item }
            }
        }
    }

    /// Begins the item `index` of a sequence that began at `sequence`; the value's place.
    pub fn item(&mut self, sequence: Place, index: usize) -> Place {
        if index > 0 || sequence.kind != PlaceKind::Item {
            self.pad(sequence.indent);
        }
        self.out.push('-');
        Place { indent: sequence.indent, kind: PlaceKind::Item }
    }

    /// Where the entries of a map at `place` go; it has at least one.
    pub fn begin_mapping(&mut self, place: Place) -> Place {
        match place.kind {
            PlaceKind::Root => place,
            PlaceKind::Entry => {
                self.out.push('\n');
                Place { indent: place.indent + 2, kind: PlaceKind::Entry }
            }
            PlaceKind::Item => {
                self.out.push(' ');
                Place { indent: place.indent + 2, kind: PlaceKind::Item }
            }
        }
    }

    /// Writes the key of entry `index` of a map that began at `mapping`; the value's place.
    pub fn key(&mut self, mapping: Place, index: usize, key: &str) -> Place {
        if index > 0 || mapping.kind != PlaceKind::Item {
            self.pad(mapping.indent);
        }
        let multiline = key.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']);
        if multiline || key.len() > MAX_SIMPLE_KEY {
            self.out.push_str("? ");
            write_scalar(self.out, key, self.folds(), mapping.indent + 2);
            if !self.out.ends_with('\n') {
                self.out.push('\n');
            }
            self.pad(mapping.indent);
            self.out.push(':');
            return Place { indent: mapping.indent, kind: PlaceKind::Item };
        }
        write_scalar(self.out, key, Fold::SimpleKey, mapping.indent + 2);
        self.out.push(':');
        Place { indent: mapping.indent, kind: PlaceKind::Entry }
    }

    /// A value of JSON, keys sorted.
    pub fn json(&mut self, place: Place, value: &Value) {
        match value {
            Value::Null => self.word(place, "null"),
            Value::Bool(value) => self.word(place, if *value { "true" } else { "false" }),
            Value::Number(number) => self.word(place, &json_number(number)),
            Value::String(text) => self.text(place, text),
            Value::Array(items) if items.is_empty() => self.empty_sequence(place),
            Value::Array(items) => {
                let sequence = self.begin_sequence(place);
                for (index, item) in items.iter().enumerate() {
                    let place = self.item(sequence, index);
                    self.json(place, item);
                }
            }
            Value::Object(map) if map.is_empty() => self.empty_mapping(place),
            Value::Object(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_by(|a, b| compare_keys(a.0, b.0));
                let mapping = self.begin_mapping(place);
                for (index, (key, value)) in entries.into_iter().enumerate() {
                    let place = self.key(mapping, index, key);
                    self.json(place, value);
                }
            }
        }
    }
}

fn json_number(number: &serde_json::Number) -> String {
    if let Some(value) = number.as_i64() {
        return value.to_string();
    }
    if let Some(value) = number.as_u64() {
        return value.to_string();
    }
    number.as_f64().map_or_else(|| "0".to_owned(), float_through_json)
}

/// A float64 that went through JSON and was read as YAML: whole ones are integers.
pub fn float_through_json(value: f64) -> String {
    let text = numbers::format_json(value);
    if text.bytes().any(|b| matches!(b, b'.' | b'e'))
        || numbers::parse_uint(text.trim_start_matches('-'), 10).is_none()
    {
        return numbers::format_g(value);
    }
    if text == "-0" { "0".to_owned() } else { text }
}

/// Writes a text with the quotes that it needs.
fn write_scalar(out: &mut String, text: &str, folding: Fold, indent: usize) {
    if text.is_empty() {
        out.push_str("\"\"");
        return;
    }
    let shape = Shape::of(text);
    if text.contains('\n') && shape.block && folding != Fold::SimpleKey {
        write_literal(out, text, indent);
        return;
    }
    let fold = (folding == Fold::Long).then_some(indent);
    if text.contains('\n') || resolve::is_special(text) || is_base60(text) {
        write_double_quoted(out, text, fold);
    } else if shape.plain {
        write_plain(out, text, fold);
    } else if shape.single_quoted {
        write_single_quoted(out, text, indent, fold.is_some());
    } else {
        write_double_quoted(out, text, fold);
    }
}

/// Characters in the line that is being written.
fn column(out: &str) -> usize {
    let line = &out[out.rfind('\n').map_or(0, |at| at + 1)..];
    line.chars().count()
}

fn new_line(out: &mut String, indent: usize) -> usize {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
    indent
}

/// Writes text that needs no quotes; it has no line breaks.
fn write_plain(out: &mut String, text: &str, fold: Option<usize>) {
    let (Some(indent), true) = (fold, text.contains(' ')) else {
        out.push_str(text);
        return;
    };
    let mut at = column(out);
    if at + text.len() <= WIDTH {
        out.push_str(text);
        return;
    }
    let mut after_space = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == ' ' && !after_space && at > WIDTH && chars.peek() != Some(&' ') {
            at = new_line(out, indent);
        } else {
            out.push(c);
            at += 1;
        }
        after_space = c == ' ';
    }
}

/// What ways of writing a text allow.
struct Shape {
    plain: bool,
    single_quoted: bool,
    block: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut breaks, mut special) = (false, false);
        let (mut leading, mut trailing_space, mut trailing_break) = (false, false, false);
        let (mut break_space, mut space_break) = (false, false);
        let (mut previous_space, mut previous_break) = (false, false);
        let mut after_blank = true;
        let mut at = 0;
        while at < bytes.len() {
            let b = bytes[at];
            let width = width(b);
            let last = at + width >= bytes.len();
            let next_blank = last || matches!(bytes[at + width], b' ' | b'\t');
            if at == 0 {
                match b {
                    b'#' | b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\''
                    | b'"' | b'%' | b'@' | b'`' => indicators = true,
                    b'?' | b':' | b'-' if next_blank => indicators = true,
                    _ => {}
                }
            } else {
                match b {
                    b':' if next_blank => indicators = true,
                    b'#' if after_blank => indicators = true,
                    _ => {}
                }
            }
            if !is_printable(bytes, at) {
                special = true;
            }
            let is_break = break_at(bytes, at);
            if b == b' ' {
                leading |= at == 0;
                trailing_space |= last;
                break_space |= previous_break;
                previous_space = true;
                previous_break = false;
            } else if is_break {
                breaks = true;
                leading |= at == 0;
                trailing_break |= last;
                space_break |= previous_space;
                previous_space = false;
                previous_break = true;
            } else {
                previous_space = false;
                previous_break = false;
            }
            after_blank = matches!(b, b' ' | b'\t') || is_break;
            at += width;
        }
        let strange = space_break || special;
        Self {
            plain: !(leading
                || trailing_space
                || trailing_break
                || break_space
                || strange
                || breaks
                || indicators),
            single_quoted: !(break_space || strange),
            block: !(trailing_space || strange),
        }
    }
}

fn width(byte: u8) -> usize {
    match byte {
        0..0x80 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    }
}

fn break_at(bytes: &[u8], at: usize) -> bool {
    match bytes[at] {
        b'\n' | b'\r' => true,
        0xC2 => bytes[at + 1] == 0x85,
        0xE2 => bytes[at + 1] == 0x80 && matches!(bytes[at + 2], 0xA8 | 0xA9),
        _ => false,
    }
}

/// Tabs and what lies beyond the basic plane count as unprintable.
fn is_printable(bytes: &[u8], at: usize) -> bool {
    match bytes[at] {
        b'\n' | 0x20..=0x7E | 0xC3..=0xEC | 0xEE => true,
        0xC2 => bytes[at + 1] >= 0xA0,
        0xED => bytes[at + 1] < 0xA0,
        0xEF => {
            let mark = bytes[at + 1] == 0xBB && bytes[at + 2] == 0xBF;
            let none = bytes[at + 1] == 0xBF && matches!(bytes[at + 2], 0xBE | 0xBF);
            !mark && !none
        }
        _ => false,
    }
}

/// `12:30:45`: a number to YAML 1.1, text to us.
fn is_base60(text: &str) -> bool {
    let bytes = text.as_bytes();
    if !matches!(bytes[0], b'+' | b'-' | b'0'..=b'9') || !text.contains(':') {
        return false;
    }
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (head, fraction) = rest.split_once('.').map_or((rest, ""), |(head, tail)| (head, tail));
    if !fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return false;
    }
    let mut parts = head.split(':');
    let first = parts.next().unwrap_or_default();
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        && parts.all(|part| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']))
}

fn write_single_quoted(out: &mut String, text: &str, indent: usize, fold: bool) {
    out.push('\'');
    let mut at = column(out);
    let (mut breaks, mut after_space) = (false, false);
    let mut chars = text.char_indices().peekable();
    while let Some((index, c)) = chars.next() {
        if matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}') {
            out.push(c);
            breaks = true;
            at = 0;
            continue;
        }
        if c == ' ' {
            let inside = index > 0 && index + 1 < text.len();
            let next_space = chars.peek().is_some_and(|(_, c)| *c == ' ');
            if fold && !after_space && at > WIDTH && inside && !next_space {
                at = new_line(out, indent);
            } else {
                out.push(' ');
                at += 1;
            }
            after_space = true;
            continue;
        }
        if breaks {
            out.extend(std::iter::repeat_n(' ', indent));
            at = indent;
            breaks = false;
        }
        if c == '\'' {
            out.push('\'');
            at += 1;
        }
        out.push(c);
        at += 1;
        after_space = false;
    }
    out.push('\'');
}

fn write_double_quoted(out: &mut String, text: &str, fold: Option<usize>) {
    use std::fmt::Write as _;
    out.push('"');
    let bytes = text.as_bytes();
    let mut at = column(out);
    let mut after_space = false;
    // Go's emitter takes every character of such a text for the mark itself.
    let marked = text.starts_with('\u{FEFF}');
    for (index, c) in text.char_indices() {
        if c == ' ' && !marked {
            let inside = index > 0 && index + 1 < text.len();
            if let (Some(indent), false, true) = (fold, after_space, at > WIDTH && inside) {
                at = new_line(out, indent);
                if bytes.get(index + 1) == Some(&b' ') {
                    out.push('\\');
                    at += 1;
                }
            } else {
                out.push(' ');
                at += 1;
            }
            after_space = true;
            continue;
        }
        after_space = false;
        if !marked && is_printable(bytes, index) && !break_at(bytes, index) && c != '"' && c != '\\' {
            out.push(c);
            at += 1;
            continue;
        }
        let before = out.len();
        out.push('\\');
        match c {
            '\0' => out.push('0'),
            '\x07' => out.push('a'),
            '\x08' => out.push('b'),
            '\t' => out.push('t'),
            '\n' => out.push('n'),
            '\x0B' => out.push('v'),
            '\x0C' => out.push('f'),
            '\r' => out.push('r'),
            '\x1B' => out.push('e'),
            '"' => out.push('"'),
            '\\' => out.push('\\'),
            '\u{85}' => out.push('N'),
            '\u{A0}' => out.push('_'),
            '\u{2028}' => out.push('L'),
            '\u{2029}' => out.push('P'),
            _ => {
                let code = c as u32;
                let _ = match code {
                    0..=0xFF => write!(out, "x{code:02X}"),
                    0x100..=0xFFFF => write!(out, "u{code:04X}"),
                    _ => write!(out, "U{code:08X}"),
                };
            }
        }
        at += out.len() - before;
    }
    out.push('"');
}

fn write_literal(out: &mut String, text: &str, indent: usize) {
    out.push('|');
    let bytes = text.as_bytes();
    if bytes[0] == b' ' || break_at(bytes, 0) {
        out.push('2');
    }
    let mut ends = text.chars().rev().map(|c| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}'));
    match (ends.next(), ends.next()) {
        (Some(true), None | Some(true)) => out.push('+'),
        (Some(true), Some(false)) => {}
        _ => out.push('-'),
    }
    out.push('\n');
    let mut breaks = true;
    for c in text.chars() {
        if matches!(c, '\n' | '\u{85}' | '\u{2028}' | '\u{2029}') {
            out.push(c);
            breaks = true;
        } else {
            if breaks {
                out.extend(std::iter::repeat_n(' ', indent));
                breaks = false;
            }
            out.push(c);
        }
    }
}

/// The order of keys: letters after everything else, runs of digits by their value.
pub fn compare_keys(a: &str, b: &str) -> Ordering {
    if let Some(order) = compare_ascii(a.as_bytes(), b.as_bytes()) {
        return order;
    }
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    for at in 0..a.len().min(b.len()) {
        if a[at] == b[at] {
            continue;
        }
        return differ(a[at].is_alphabetic(), b[at].is_alphabetic(), a[at].cmp(&b[at]))
            .unwrap_or_else(|| by_number(&a, &b, at));
    }
    a.len().cmp(&b.len())
}

/// The same for keys whose first difference is between letters, which is nearly always.
fn compare_ascii(a: &[u8], b: &[u8]) -> Option<Ordering> {
    match a.iter().zip(b).position(|(x, y)| x != y) {
        None => Some(a.len().cmp(&b.len())),
        Some(at) => {
            let (x, y) = (a[at], b[at]);
            if !x.is_ascii() || !y.is_ascii() {
                return None;
            }
            differ(x.is_ascii_alphabetic(), y.is_ascii_alphabetic(), x.cmp(&y))
        }
    }
}

fn differ(a_letter: bool, b_letter: bool, order: Ordering) -> Option<Ordering> {
    match (a_letter, b_letter) {
        (true, true) => Some(order),
        (true, false) => Some(Ordering::Greater),
        (false, true) => Some(Ordering::Less),
        (false, false) => None,
    }
}

fn by_number(a: &[char], b: &[char], at: usize) -> Ordering {
    let digit = |c: char| c.is_ascii_digit();
    let (mut a_value, mut b_value) = (0i64, 0i64);
    if a[at] == '0' || b[at] == '0' {
        for before in a[..at].iter().rev().take_while(|c| digit(**c)) {
            if *before != '0' {
                a_value = 1;
                b_value = 1;
                break;
            }
        }
    }
    let run = |keys: &[char], value: &mut i64| {
        let mut end = at;
        while keys.get(end).is_some_and(|c| digit(*c)) {
            *value = value.wrapping_mul(10).wrapping_add(i64::from(keys[end] as u32 - '0' as u32));
            end += 1;
        }
        end
    };
    let a_end = run(a, &mut a_value);
    let b_end = run(b, &mut b_value);
    a_value.cmp(&b_value).then(a_end.cmp(&b_end)).then(a[at].cmp(&b[at]))
}
