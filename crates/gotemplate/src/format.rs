//! Go's `fmt`.

use std::fmt::Write as _;

use plural_yaml::numbers;

use super::{
    objects,
    strconv::{escape, is_print, quote, quote_bytes},
    value::{MAX_DEPTH, MapType, Value},
};

/// Widest padding and longest precision.
const MAX_WIDTH: usize = 1_000_000;

/// `%#U`
pub(crate) fn unicode(c: char) -> String {
    if is_print(c) { format!("U+{:04X} '{c}'", c as u32) } else { format!("U+{:04X}", c as u32) }
}

/// `fmt.Sprint`: a space between two operands of which neither is a string.
pub(crate) fn sprint(values: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, value) in values.iter().enumerate() {
        if index > 0 && values[index - 1].kind() != "string" && value.kind() != "string" {
            out.push(b' ');
        }
        print_value(&mut out, value);
    }
    out
}

/// `fmt.Sprintln`
pub(crate) fn sprintln(values: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        print_value(&mut out, value);
    }
    out.push(b'\n');
    out
}

/// A value as `%v` prints it.
pub(crate) fn print_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Str(text) => out.extend_from_slice(text.as_bytes()),
        Value::Raw(bytes) => out.extend_from_slice(bytes),
        value => print_verb(out, value, 'v', &Flags::default(), 0),
    }
}

/// A value as `%v` prints it, as text.
pub fn display(value: &Value) -> String {
    let mut out = Vec::new();
    print_value(&mut out, value);
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[derive(Debug, Clone, Default)]
struct Flags {
    minus: bool,
    plus: bool,
    /// `%+v`: names of fields, instead of a sign.
    names: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// `fmt.Sprintf`
pub(crate) fn sprintf(format: &str, args: &[Value]) -> Vec<u8> {
    let mut out = Vec::with_capacity(format.len() + 16);
    let bytes = format.as_bytes();
    let mut at = 0;
    let mut next = 0;
    let mut reordered = false;
    while at < bytes.len() {
        let Some(found) = memchr::memchr(b'%', &bytes[at..]) else {
            out.extend_from_slice(&bytes[at..]);
            break;
        };
        out.extend_from_slice(&bytes[at..at + found]);
        at += found + 1;
        let mut flags = Flags::default();
        while let Some(b) = bytes.get(at) {
            match b {
                b'#' => flags.sharp = true,
                b'0' => flags.zero = true,
                b'+' => flags.plus = true,
                b'-' => flags.minus = true,
                b' ' => flags.space = true,
                _ => break,
            }
            at += 1;
        }
        let mut bad_index = !index(bytes, &mut at, args.len(), &mut next, &mut reordered);
        if bytes.get(at) == Some(&b'*') {
            at += 1;
            match star(args, &mut next) {
                Some(width) => {
                    flags.minus |= width < 0;
                    flags.width = Some((width.unsigned_abs() as usize).min(MAX_WIDTH));
                }
                None => out.extend_from_slice(b"%!(BADWIDTH)"),
            }
        } else {
            flags.width = digits(bytes, &mut at);
        }
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            bad_index |= !index(bytes, &mut at, args.len(), &mut next, &mut reordered);
            if bytes.get(at) == Some(&b'*') {
                at += 1;
                match star(args, &mut next) {
                    Some(precision) if precision >= 0 => {
                        flags.precision = Some((precision as usize).min(MAX_WIDTH));
                    }
                    _ => out.extend_from_slice(b"%!(BADPREC)"),
                }
            } else {
                flags.precision = Some(digits(bytes, &mut at).unwrap_or(0));
            }
        }
        bad_index |= !index(bytes, &mut at, args.len(), &mut next, &mut reordered);
        let Some(verb) = format[at..].chars().next() else {
            out.extend_from_slice(b"%!(NOVERB)");
            break;
        };
        at += verb.len_utf8();
        if verb == '%' {
            out.push(b'%');
        } else if bad_index {
            out.extend_from_slice(format!("%!{verb}(BADINDEX)").as_bytes());
        } else if let Some(arg) = args.get(next) {
            next += 1;
            if verb == 'v' && flags.plus {
                (flags.plus, flags.names) = (false, true);
            }
            print_verb(&mut out, arg, verb, &flags, 0);
        } else {
            out.extend_from_slice(format!("%!{verb}(MISSING)").as_bytes());
        }
    }
    if !reordered && next < args.len() {
        out.extend_from_slice(b"%!(EXTRA ");
        for (index, arg) in args[next..].iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            if arg.is_nil() {
                out.extend_from_slice(b"<nil>");
            } else {
                out.extend_from_slice(arg.type_name().as_bytes());
                out.push(b'=');
                print_value(&mut out, arg);
            }
        }
        out.push(b')');
    }
    out
}

/// An explicit argument index `[n]`; false when it is not one of the arguments.
fn index(bytes: &[u8], at: &mut usize, count: usize, next: &mut usize, reordered: &mut bool) -> bool {
    if bytes.get(*at) != Some(&b'[') {
        return true;
    }
    *reordered = true;
    let Some(close) = bytes[*at..].iter().position(|b| *b == b']') else {
        *at += 1;
        return false;
    };
    let text = std::str::from_utf8(&bytes[*at + 1..*at + close]).unwrap_or_default();
    *at += close + 1;
    match text.parse::<usize>() {
        Ok(number) if number >= 1 && number <= count => {
            *next = number - 1;
            true
        }
        _ => false,
    }
}

fn star(args: &[Value], next: &mut usize) -> Option<i64> {
    let value = args.get(*next)?;
    *next += 1;
    match value {
        Value::Int(value) | Value::Int64(value) if value.unsigned_abs() <= MAX_WIDTH as u64 => Some(*value),
        _ => None,
    }
}

fn digits(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let start = *at;
    let mut value = 0usize;
    while let Some(b) = bytes.get(*at).filter(|b| b.is_ascii_digit()) {
        value = (value * 10 + usize::from(b - b'0')).min(MAX_WIDTH);
        *at += 1;
    }
    (*at > start).then_some(value)
}

fn pad(out: &mut Vec<u8>, text: &str, flags: &Flags) {
    pad_bytes(out, text.as_bytes(), text.chars().count(), flags);
}

fn pad_bytes(out: &mut Vec<u8>, text: &[u8], chars: usize, flags: &Flags) {
    let fill = flags.width.unwrap_or(0).saturating_sub(chars);
    if flags.minus {
        out.extend_from_slice(text);
        out.extend(std::iter::repeat_n(b' ', fill));
    } else {
        out.extend(std::iter::repeat_n(if flags.zero { b'0' } else { b' ' }, fill));
        out.extend_from_slice(text);
    }
}

fn bad_verb(out: &mut Vec<u8>, value: &Value, verb: char, flags: &Flags) {
    out.extend_from_slice(format!("%!{verb}(").as_bytes());
    if value.is_nil() {
        out.extend_from_slice(b"<nil>");
    } else {
        out.extend_from_slice(value.type_name().as_bytes());
        out.push(b'=');
        // With the flags that were meant for the verb.
        print_verb(out, value, 'v', &Flags { sharp: false, ..flags.clone() }, 1);
    }
    out.push(b')');
}

fn print_verb(out: &mut Vec<u8>, value: &Value, verb: char, flags: &Flags, depth: usize) {
    if depth > MAX_DEPTH {
        out.extend_from_slice(b"...");
        return;
    }
    if verb == 'T' {
        return pad(out, value.type_name(), flags);
    }
    if verb == 'v' && flags.sharp {
        return go_syntax(out, value, depth);
    }
    // Only for errors, and never here.
    if verb == 'w' && !value.is_nil() {
        return bad_verb(out, value, verb, flags);
    }
    match value {
        Value::Nil | Value::NilField => match verb {
            'v' if depth == 0 => pad(out, "<nil>", flags),
            _ if depth > 0 => out.extend_from_slice(b"<nil>"),
            _ => out.extend_from_slice(format!("%!{verb}(<nil>)").as_bytes()),
        },
        Value::Bool(inner) => match verb {
            'v' | 't' => pad(out, if *inner { "true" } else { "false" }, flags),
            _ => bad_verb(out, value, verb, flags),
        },
        Value::Int(inner) | Value::Int64(inner) => {
            integer(out, value, *inner < 0, inner.unsigned_abs(), verb, flags);
        }
        Value::Uint64(inner) => integer(out, value, false, *inner, verb, flags),
        Value::Float(inner) => float(out, value, *inner, verb, flags),
        Value::Complex(real, imaginary) => {
            if !matches!(verb, 'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E') {
                return bad_verb(out, value, verb, flags);
            }
            out.push(b'(');
            float(out, value, *real, verb, flags);
            float(out, value, *imaginary, verb, &Flags { plus: true, ..flags.clone() });
            out.extend_from_slice(b"i)");
        }
        Value::Str(text) => string(out, value, text.as_bytes(), verb, flags),
        Value::Raw(bytes) => string(out, value, bytes, verb, flags),
        Value::Bytes(bytes) => match verb {
            'v' | 'd' => {
                out.push(b'[');
                for (index, byte) in bytes.iter().enumerate() {
                    let space = if index > 0 { " " } else { "" };
                    out.extend_from_slice(format!("{space}{byte}").as_bytes());
                }
                out.push(b']');
            }
            _ => string(out, value, bytes, verb, flags),
        },
        Value::List(list) => {
            out.push(b'[');
            for (index, item) in list.items().iter().enumerate() {
                if index > 0 {
                    out.push(b' ');
                }
                print_verb(out, item, verb, flags, depth + 1);
            }
            out.push(b']');
        }
        Value::Map(map) => {
            out.extend_from_slice(b"map[");
            for (index, (key, item)) in map.entries().iter().enumerate() {
                if index > 0 {
                    out.push(b' ');
                }
                print_verb(out, &Value::Str(key.clone()), verb, flags, depth + 1);
                out.push(b':');
                print_verb(out, item, verb, flags, depth + 1);
            }
            out.push(b']');
        }
        Value::Struct(object) => {
            if object.ty.pointer && depth == 0 {
                out.push(b'&');
            }
            out.push(b'{');
            // What Chart.yaml says is a struct inside that of the chart.
            let inner = if std::ptr::eq(object.ty, &raw const objects::CHART) {
                out.extend_from_slice(if flags.names { b"Metadata:{" } else { b"{" });
                object.fields().len() - 1
            } else {
                usize::MAX
            };
            for (index, item) in object.fields().iter().enumerate() {
                if index == inner {
                    out.push(b'}');
                }
                if index > 0 {
                    out.push(b' ');
                }
                if flags.names {
                    out.extend_from_slice(object.ty.fields[index].name.as_bytes());
                    out.push(b':');
                }
                print_verb(out, item, verb, flags, depth + 1);
            }
            out.push(b'}');
        }
        Value::Time(time) => string(out, value, time.to_string().as_bytes(), verb, flags),
        Value::Duration(inner) => match verb {
            'd' => integer(out, value, *inner < 0, inner.unsigned_abs(), verb, flags),
            _ => string(out, value, objects::duration_string(*inner).as_bytes(), verb, flags),
        },
        Value::Version(version) => string(out, value, version.to_string().as_bytes(), verb, flags),
    }
}

fn string(out: &mut Vec<u8>, value: &Value, bytes: &[u8], verb: char, flags: &Flags) {
    let cut = |limit: usize| -> &[u8] {
        let text = String::from_utf8_lossy(bytes);
        let end = text.char_indices().nth(limit).map_or(bytes.len(), |(at, _)| at);
        &bytes[..end.min(bytes.len())]
    };
    let bytes = match flags.precision {
        Some(limit) if matches!(verb, 'v' | 's' | 'q') => cut(limit),
        Some(limit) if matches!(verb, 'x' | 'X') => &bytes[..limit.min(bytes.len())],
        _ => bytes,
    };
    match verb {
        'v' | 's' => pad_bytes(out, bytes, String::from_utf8_lossy(bytes).chars().count(), flags),
        'q' => {
            let plain = |b: &u8| *b == b'\t' || !b.is_ascii_control() && *b != b'`';
            if flags.sharp && bytes.iter().all(plain) {
                pad(out, &format!("`{}`", String::from_utf8_lossy(bytes)), flags);
            } else {
                let quoted = quote_bytes(bytes);
                pad(out, &if flags.plus { ascii(&quoted) } else { quoted }, flags);
            }
        }
        'x' | 'X' => {
            let mut text = String::new();
            for (index, byte) in bytes.iter().enumerate() {
                if flags.space && index > 0 {
                    text.push(' ');
                }
                if flags.sharp && (index == 0 || flags.space) {
                    text.push_str(if verb == 'x' { "0x" } else { "0X" });
                }
                let _ = if verb == 'x' { write!(text, "{byte:02x}") } else { write!(text, "{byte:02X}") };
            }
            pad(out, &text, flags);
        }
        _ => bad_verb(out, value, verb, flags),
    }
}

/// The same with all beyond ASCII escaped.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let _ = match c {
            c if c.is_ascii() => out.write_char(c),
            c if (c as u32) < 0x10000 => write!(out, "\\u{:04x}", c as u32),
            c => write!(out, "\\U{:08x}", c as u32),
        };
    }
    out
}

fn integer(out: &mut Vec<u8>, value: &Value, negative: bool, size: u64, verb: char, flags: &Flags) {
    let mut digits = match verb {
        'v' | 'd' => size.to_string(),
        'b' => format!("{size:b}"),
        'o' | 'O' => format!("{size:o}"),
        'x' => format!("{size:x}"),
        'X' => format!("{size:X}"),
        'c' | 'q' | 'U' => {
            let c =
                u32::try_from(size).ok().and_then(char::from_u32).filter(|_| !negative).unwrap_or('\u{FFFD}');
            let text = match verb {
                'c' => c.to_string(),
                'q' => {
                    let mut text = String::from("'");
                    escape(&mut text, c, '\'');
                    text.push('\'');
                    if flags.plus { ascii(&text) } else { text }
                }
                // Negative ones count as what they are in two's complement.
                _ if negative => format!("U+{:04X}", size.wrapping_neg()),
                _ if flags.sharp => unicode(c),
                _ => format!("U+{size:04X}"),
            };
            return pad(out, &text, &Flags { zero: false, ..flags.clone() });
        }
        _ => return bad_verb(out, value, verb, flags),
    };
    if let Some(precision) = flags.precision {
        if precision == 0 && size == 0 {
            return pad(out, "", &Flags { zero: false, ..flags.clone() });
        }
        if digits.len() < precision {
            digits.insert_str(0, &"0".repeat(precision - digits.len()));
        }
    }
    let sign = if negative {
        "-"
    } else if flags.plus {
        "+"
    } else if flags.space {
        " "
    } else {
        ""
    };
    let prefix = match verb {
        'O' => "0o",
        'x' if flags.sharp => "0x",
        'X' if flags.sharp => "0X",
        'o' if flags.sharp && !digits.starts_with('0') => "0",
        'b' if flags.sharp => "0b",
        _ => "",
    };
    signed(out, &format!("{sign}{prefix}"), &digits, flags, flags.precision.is_none());
}

/// A number with its sign; zeros go between the two.
fn signed(out: &mut Vec<u8>, sign: &str, digits: &str, flags: &Flags, zeros: bool) {
    let flags = Flags { zero: flags.zero && zeros && !flags.minus, ..flags.clone() };
    if flags.zero {
        out.extend_from_slice(sign.as_bytes());
        let width = flags.width.map(|width| width.saturating_sub(sign.len()));
        return pad(out, digits, &Flags { width, ..flags });
    }
    pad(out, &format!("{sign}{digits}"), &flags);
}

fn float(out: &mut Vec<u8>, value: &Value, inner: f64, verb: char, flags: &Flags) {
    let text = match (verb, flags.precision) {
        ('v' | 'g' | 'G', None) => numbers::format_g(inner),
        ('v' | 'g' | 'G', Some(precision)) => numbers::format_g_digits(inner, precision),
        ('f' | 'F', precision) => numbers::format_f(inner, precision.unwrap_or(6)),
        ('e' | 'E', precision) => numbers::format_e(inner, precision.unwrap_or(6)),
        ('x' | 'X', None) if inner.is_finite() => numbers::format_hex(inner),
        ('b', _) if inner.is_finite() => numbers::format_bits(inner),
        _ => return bad_verb(out, value, verb, flags),
    };
    let text = if matches!(verb, 'E' | 'G' | 'X') { text.to_uppercase() } else { text };
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) if text.starts_with('-') => ("-", digits),
        Some(digits) => ("+", digits),
        None if flags.plus => ("+", text.as_str()),
        None if flags.space => (" ", text.as_str()),
        None => ("", text.as_str()),
    };
    signed(out, sign, digits, flags, inner.is_finite());
}

/// `%#v`, as far as anyone needs it.
fn go_syntax(out: &mut Vec<u8>, value: &Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Nil | Value::NilField => {
            out.extend_from_slice(if depth == 0 { b"<nil>" } else { b"interface {}(nil)" });
        }
        Value::Str(text) => out.extend_from_slice(quote(text).as_bytes()),
        Value::Raw(bytes) => out.extend_from_slice(quote_bytes(bytes).as_bytes()),
        Value::List(list) => {
            out.extend_from_slice(value.type_name().as_bytes());
            out.push(b'{');
            for (index, item) in list.items().iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                go_syntax(out, item, depth + 1);
            }
            out.push(b'}');
        }
        Value::Map(map) => {
            out.extend_from_slice(value.type_name().as_bytes());
            out.push(b'{');
            for (index, (key, item)) in map.entries().iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                out.extend_from_slice(quote(key).as_bytes());
                out.push(b':');
                if map.ty() == MapType::Files {
                    out.extend_from_slice(b"[]byte");
                }
                go_syntax(out, item, depth + 1);
            }
            out.push(b'}');
        }
        other => print_verb(out, other, 'v', &Flags::default(), depth),
    }
}
