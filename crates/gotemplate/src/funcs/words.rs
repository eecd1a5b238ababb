//! Sprig's texts as words: case, abbreviations, wrapping.
#![expect(clippy::unnecessary_wraps, reason = "all functions of templates have one signature")]

use super::{Func, Ty, bytes, int, text};
use crate::{
    exec::{Engine, Fault},
    value::Value,
};

type Result = std::result::Result<Value, Fault>;

pub(super) static FUNCS: &[Func] = &[
    Func::pure("title", &[Ty::Str], |args| {
        let mut previous = ' ';
        let whole = text(args, 0);
        let title = whole.chars().map(|c| {
            let starts = is_separator(previous);
            previous = c;
            if starts { upper(c) } else { c }
        });
        Ok(title.collect::<String>().into())
    }),
    Func::pure("untitle", &[Ty::Str], |args| {
        let mut start = true;
        let whole = text(args, 0);
        let words = whole.chars().map(|c| {
            let first = std::mem::replace(&mut start, c.is_whitespace()) && !c.is_whitespace();
            if first { lower(c) } else { c }
        });
        Ok(words.collect::<String>().into())
    }),
    Func::pure("swapcase", &[Ty::Str], swap_case),
    Func::pure("nospace", &[Ty::Str], |args| {
        // Byte by byte, as if each were a character: so does the original.
        let chars = || bytes(args, 0).iter().map(|b| *b as char);
        if !chars().any(char::is_whitespace) {
            return Ok(args[0].clone());
        }
        Ok(chars().filter(|c| !c.is_whitespace()).collect::<String>().into())
    }),
    Func::pure("initials", &[Ty::Str], |args| {
        let mut gap = true;
        let mut out = String::new();
        for c in bytes(args, 0).iter().map(|b| *b as char) {
            let space = c.is_whitespace();
            if !space && gap {
                out.push(c);
            }
            gap = space;
        }
        Ok(out.into())
    }),
    Func::pure("abbrev", &[Ty::Int, Ty::Str], |args| {
        let width = int(args, 0);
        let whole = bytes(args, 1);
        Ok(Value::string_of(if width < 4 { whole.to_vec() } else { abbreviate(whole, 0, width as usize) }))
    }),
    Func::pure("abbrevboth", &[Ty::Int, Ty::Int, Ty::Str], |args| {
        let (left, right) = (int(args, 0), int(args, 1));
        let whole = bytes(args, 2);
        if right < 4 || left > 0 && right < 7 {
            return Ok(Value::string_of(whole.to_vec()));
        }
        Ok(Value::string_of(abbreviate(whole, left.max(0) as usize, right as usize)))
    }),
    Func::pure("snakecase", &[Ty::Str], |args| Ok(lower_words(&text(args, 0), '_').into())),
    Func::pure("kebabcase", &[Ty::Str], |args| Ok(lower_words(&text(args, 0), '-').into())),
    Func::pure("camelcase", &[Ty::Str], |args| Ok(pascal(&text(args, 0)).into())),
    Func::engine("wrap", &[Ty::Int, Ty::Str], |engine, args| {
        wrap(engine, int(args, 0), "\n", bytes(args, 1), false)
    }),
    Func::engine("wrapWith", &[Ty::Int, Ty::Str, Ty::Str], |engine, args| {
        let separator = text(args, 1);
        let separator = if separator.is_empty() { "\n" } else { &separator };
        wrap(engine, int(args, 0), separator, bytes(args, 2), true)
    }),
    Func::engine("shuffle", &[Ty::Str], |engine, args| {
        let mut chars: Vec<char> = text(args, 0).chars().collect();
        for at in (1..chars.len()).rev() {
            let other = engine.random.below(at as u64 + 1) as usize;
            chars.swap(at, other);
        }
        Ok(chars.into_iter().collect::<String>().into())
    }),
];

fn upper(c: char) -> char {
    single(c.to_uppercase(), c)
}

fn lower(c: char) -> char {
    single(c.to_lowercase(), c)
}

/// Go maps a character to one character.
fn single(mut mapped: impl Iterator<Item = char>, c: char) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// What `strings.Title` takes for the end of a word.
fn is_separator(c: char) -> bool {
    if c.is_ascii() {
        return !(c.is_ascii_alphanumeric() || c == '_');
    }
    !c.is_alphanumeric() && c.is_whitespace()
}

fn swap_case(args: &mut [Value]) -> Result {
    let mut space = true;
    let whole = text(args, 0);
    let swapped = whole.chars().map(|c| {
        if c.is_uppercase() {
            space = false;
            lower(c)
        } else if c.is_lowercase() {
            space = false;
            upper(c)
        } else {
            space = c.is_whitespace();
            c
        }
    });
    Ok(swapped.collect::<String>().into())
}

fn abbreviate(whole: &[u8], offset: usize, width: usize) -> Vec<u8> {
    if whole.len() <= width {
        return whole.to_vec();
    }
    let mut offset = offset.min(whole.len());
    if whole.len() - offset < width - 3 {
        offset = whole.len() - (width - 3);
    }
    if offset <= 4 {
        return [&whole[..width - 3], b"..."].concat();
    }
    if width < 7 {
        return Vec::new();
    }
    if offset + width - 3 < whole.len() {
        let tail = if width - 3 < 4 { Vec::new() } else { abbreviate(&whole[offset..], 0, width - 3) };
        return [b"...", tail.as_slice()].concat();
    }
    [b"...", &whole[whole.len() - (width - 3)..]].concat()
}

fn wrap(engine: &mut Engine<'_>, width: i64, separator: &str, line: &[u8], cut: bool) -> Result {
    let width = width.max(1) as usize;
    engine.charge(line.len().saturating_add((line.len() / width + 1).saturating_mul(separator.len())))?;
    let mut out: Vec<u8> = Vec::with_capacity(line.len());
    let mut at = 0;
    while line.len() - at > width {
        if line[at] == b' ' {
            at += 1;
            continue;
        }
        if let Some(space) = line[at..=at + width].iter().rposition(|b| *b == b' ') {
            out.extend_from_slice(&line[at..at + space]);
            out.extend_from_slice(separator.as_bytes());
            at += space + 1;
        } else if cut {
            out.extend_from_slice(&line[at..at + width]);
            out.extend_from_slice(separator.as_bytes());
            at += width;
        } else if let Some(space) = line[at + width..].iter().position(|b| *b == b' ') {
            out.extend_from_slice(&line[at..at + width + space]);
            out.extend_from_slice(separator.as_bytes());
            at += width + space + 1;
        } else {
            out.extend_from_slice(&line[at..]);
            at = line.len();
        }
    }
    out.extend_from_slice(&line[at..]);
    Ok(Value::string_of(out))
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

fn is_punct(c: char) -> bool {
    c.is_ascii_punctuation() && !matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~')
        || matches!(c as u32, 0xA1 | 0xA7 | 0xAB | 0xB6 | 0xB7 | 0xBB | 0xBF | 0x2010..=0x2027 | 0x2030..=0x205E | 0x3001..=0x3003 | 0x3008..=0x3011)
}

/// A letter that has no upper case form of its own, or is one.
fn is_alphabet(c: char) -> bool {
    c.is_alphabetic()
}

fn pascal(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::new();
    let start = chars.iter().position(|c| !is_connector(*c));
    let Some(start) = start else { return text.to_owned() };
    out.extend(&chars[..start]);
    let mut first_upper = chars[start].is_uppercase();
    let mut current = upper(chars[start]);
    for &next in &chars[start + 1..] {
        let previous = current;
        current = next;
        if is_connector(current) && is_connector(previous) {
            out.push(previous);
            continue;
        }
        if is_connector(previous) {
            first_upper = current.is_uppercase();
            current = upper(current);
        } else {
            if first_upper {
                if current.is_uppercase() {
                    current = lower(current);
                } else {
                    first_upper = false;
                }
            }
            out.push(previous);
        }
    }
    out.push(current);
    out
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    End,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punct,
    Other,
}

/// Splits the next word off.
fn next_word(text: &str) -> (Kind, &str, &str) {
    let Some(first) = text.chars().next() else { return (Kind::End, "", "") };
    let run = |test: &dyn Fn(char) -> bool| text.find(|c| !test(c)).unwrap_or(text.len());
    let (kind, end) = if is_connector(first) {
        (Kind::Connector, run(&is_connector))
    } else if is_punct(first) {
        (Kind::Punct, run(&is_punct))
    } else if first.is_uppercase() {
        (Kind::Upper, upper_word(text))
    } else if is_alphabet(first) {
        (Kind::Alphabet, run(&|c| is_alphabet(c) && !c.is_uppercase()))
    } else if first.is_numeric() {
        (Kind::Number, run(&char::is_numeric))
    } else {
        (Kind::Other, run(&|c| !(is_connector(c) || is_alphabet(c) || c.is_numeric() || is_punct(c))))
    };
    (kind, &text[..end], &text[end..])
}

fn upper_word(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    match chars.peek() {
        Some((_, c)) if c.is_uppercase() => {
            let mut last = 0;
            for (at, c) in text.char_indices() {
                if !c.is_uppercase() {
                    return if is_alphabet(c) { last } else { at };
                }
                last = at;
            }
            text.len()
        }
        Some((_, c)) if is_alphabet(*c) => {
            chars.find(|(_, c)| !is_alphabet(*c) || c.is_uppercase()).map_or(text.len(), |(at, _)| at)
        }
        Some((at, _)) => *at,
        None => text.len(),
    }
}

fn push_word(out: &mut String, kind: Kind, word: &str, connector: char) {
    if kind != Kind::Upper && kind != Kind::Connector {
        out.push_str(word);
        return;
    }
    for c in word.chars() {
        out.push(if is_connector(c) {
            connector
        } else if c.is_uppercase() {
            lower(c)
        } else {
            c
        });
    }
}

fn lower_words(text: &str, connector: char) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let joins = |kind: Kind| matches!(kind, Kind::Alphabet | Kind::Number);
    let plain = |kind: Kind| !matches!(kind, Kind::Connector | Kind::Punct);
    let (mut kind, mut word, mut rest) = next_word(text);
    while !rest.is_empty() {
        if kind != Kind::Connector {
            push_word(&mut out, kind, word, connector);
        }
        let (previous, last) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match previous {
            Kind::Number => {
                while joins(kind) {
                    push_word(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if kind != Kind::End && plain(kind) {
                    out.push(connector);
                }
            }
            Kind::Connector => push_word(&mut out, previous, last, connector),
            Kind::Punct => {}
            _ if kind != Kind::Number => {
                if plain(kind) {
                    out.push(connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = word;
                (kind, word, rest) = next_word(rest);
                if kind == Kind::Alphabet {
                    out.push(connector);
                    push_word(&mut out, Kind::Number, number, connector);
                    while joins(kind) {
                        push_word(&mut out, kind, word, connector);
                        (kind, word, rest) = next_word(rest);
                    }
                    if kind != Kind::End && plain(kind) {
                        out.push(connector);
                    }
                } else {
                    push_word(&mut out, Kind::Number, number, connector);
                    if plain(kind) {
                        out.push(connector);
                    }
                }
            }
        }
    }
    push_word(&mut out, kind, word, connector);
    out
}
