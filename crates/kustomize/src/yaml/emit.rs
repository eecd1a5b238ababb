//! Objects become YAML with sorted keys, laid out and quoted as the second generation of the library does.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::node::{Data, Node, Style, Tag};
use super::number::{Number, format_g, format_json};
use super::resolve::{Dialect, Meaning, key_is_text, meaning, resolve};

/// Why an object has no YAML.
#[derive(Debug)]
pub(crate) enum EmitError {
    /// As `encoding/json` words it.
    Json(String),
    /// As the YAML library words it.
    Yaml(String),
    /// A map has this key twice.
    Repeated(String),
    /// More bytes than allowed.
    TooLong,
}

/// Width at which plain and quoted scalars fold.
const WIDTH: usize = 80;

/// Longest key that needs no `?`.
const KEY: usize = 128;

/// Appends the document to `out`, which may grow to `limit` bytes.
///
/// # Errors
/// A value without a JSON form, or the limit.
pub(crate) fn document(node: &Node, out: &mut String, limit: u64) -> Result<(), EmitError> {
    let text = std::mem::take(out);
    let mut e = Emitter { out: text, col: 0, indent: -1, whitespace: true, indention: true, limit, flow: 0 };
    let done = e.node(node, false, false);
    if done.is_ok() {
        e.indent = 0;
        e.write_indent();
    }
    *out = e.out;
    match done {
        Ok(()) if out.len() as u64 > limit => Err(EmitError::TooLong),
        done => done,
    }
}

struct Emitter {
    out: String,
    col: usize,
    indent: i32,
    whitespace: bool,
    indention: bool,
    limit: u64,
    /// Collections around that were written in flow style.
    flow: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    Plain,
    Single,
    Double,
    Literal,
}

impl Emitter {
    fn put_break(&mut self) {
        self.out.push('\n');
        self.col = 0;
    }

    fn write_indent(&mut self) {
        let indent = self.indent.max(0) as usize;
        if !self.indention || self.col > indent || (self.col == indent && !self.whitespace) {
            self.put_break();
        }
        while self.col < indent {
            self.out.push(' ');
            self.col += 1;
        }
        self.whitespace = true;
        self.indention = true;
    }

    fn indicator(&mut self, text: &str, need_space: bool, is_space: bool, is_indention: bool) {
        if need_space && !self.whitespace {
            self.out.push(' ');
            self.col += 1;
        }
        self.out.push_str(text);
        self.col += text.len();
        self.whitespace = is_space;
        self.indention = self.indention && is_indention;
    }

    fn push(&mut self, c: char) {
        self.out.push(c);
        self.col += 1;
    }

    fn node(&mut self, node: &Node, in_map: bool, is_key: bool) -> Result<(), EmitError> {
        if self.out.len() as u64 > self.limit {
            return Err(EmitError::TooLong);
        }
        let flow = u32::from(node.style.has(Style::FLOW));
        self.flow += flow;
        match &node.data {
            Data::Map(entries) => self.map(node, entries)?,
            Data::Seq(items) => self.seq(items, in_map)?,
            Data::Scalar(_) => self.scalar(node, is_key)?,
        }
        self.flow -= flow;
        Ok(())
    }

    fn map(&mut self, node: &Node, entries: &[(Node, Node)]) -> Result<(), EmitError> {
        if node.is_null() || entries.is_empty() {
            self.indicator("{", true, true, false);
            self.indicator("}", false, false, false);
            return Ok(());
        }
        let sorted = sorted(entries, self.indent < 0)?;
        let before = self.indent;
        self.indent = if before < 0 { 0 } else { before + 2 };
        for (key, value) in sorted {
            self.write_indent();
            let text = key.text();
            let look = Look::of(text);
            if look.multiline || text.len() > KEY {
                self.indicator("?", true, false, true);
                self.string(text, look, false);
                self.write_indent();
                self.indicator(":", true, false, true);
            } else {
                self.string(text, look, true);
                self.indicator(":", false, false, false);
            }
            self.node(value, true, false)?;
        }
        self.indent = before;
        Ok(())
    }

    fn seq(&mut self, items: &[Node], in_map: bool) -> Result<(), EmitError> {
        if items.is_empty() {
            self.indicator("[", true, true, false);
            self.indicator("]", false, false, false);
            return Ok(());
        }
        let before = self.indent;
        let indentless = in_map && !self.indention;
        if before < 0 {
            self.indent = 0;
        } else if !indentless {
            self.indent += 2;
        }
        for item in items {
            self.write_indent();
            self.indicator("-", true, false, true);
            self.node(item, false, false)?;
        }
        self.indent = before;
        Ok(())
    }

    fn scalar(&mut self, node: &Node, is_key: bool) -> Result<(), EmitError> {
        match meaning(node, Dialect::New).map_err(EmitError::Yaml)? {
            Meaning::Text => {
                let text = node_text(node)?;
                let look = Look::of(&text);
                self.string(&text, look, is_key);
            }
            Meaning::Time(t) => {
                let look = Look::of(&t);
                self.string(&t, look, is_key);
            }
            // Between braces the library prints nothing as an empty text before it reads the object again.
            Meaning::Null if self.flow > 0 && node.text().is_empty() => self.string("", Look::of(""), is_key),
            Meaning::Null => self.bare("null"),
            Meaning::Bool(b) => self.bare(if b { "true" } else { "false" }),
            Meaning::Number(n) => {
                let text = number_text(n).map_err(EmitError::Json)?;
                self.bare(&text);
            }
        }
        Ok(())
    }

    fn bare(&mut self, text: &str) {
        if !self.whitespace {
            self.push(' ');
        }
        self.out.push_str(text);
        self.col += text.len();
        self.whitespace = false;
        self.indention = false;
    }

    fn string(&mut self, text: &str, look: Look, is_key: bool) {
        let mut quote = if look.newline {
            Quote::Literal
        } else if is_plain(text) {
            Quote::Plain
        } else {
            Quote::Double
        };
        if is_key && look.multiline {
            quote = Quote::Double;
        }
        if quote == Quote::Plain && (!look.plain || (text.is_empty() && is_key)) {
            quote = Quote::Single;
        }
        if quote == Quote::Single && !look.single {
            quote = Quote::Double;
        }
        if quote == Quote::Literal && (!look.block || is_key) {
            quote = Quote::Double;
        }
        // Lines of a scalar after the first stand one level deeper.
        let before = self.indent;
        self.indent = before.max(0) + 2;
        match quote {
            Quote::Plain if !self.may_fold(text, is_key) => self.bare(text),
            Quote::Plain => self.folding(text, false),
            Quote::Single => self.single(text, !is_key),
            Quote::Double => self.double(text, !is_key),
            Quote::Literal => self.literal(text),
        }
        self.indent = before;
    }

    fn may_fold(&self, text: &str, is_key: bool) -> bool {
        !is_key && self.col + 1 + text.len() > WIDTH && text.contains(' ')
    }

    fn single(&mut self, text: &str, fold: bool) {
        self.indicator("'", true, false, false);
        if fold {
            self.folding(text, true);
        } else {
            for c in text.chars() {
                if c == '\'' {
                    self.push('\'');
                }
                self.push(c);
            }
        }
        self.indicator("'", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    /// Plain or single quoted text that may be folded at spaces; breaks are doubled.
    fn folding(&mut self, text: &str, quoted: bool) {
        if !quoted && !self.whitespace {
            self.push(' ');
        }
        let (mut spaces, mut breaks) = (false, false);
        let mut chars = text.char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            let next_is_space = chars.peek().is_some_and(|(_, n)| *n == ' ');
            if c == ' ' {
                let inner = !quoted || (i > 0 && i + 1 < text.len());
                if !spaces && self.col > WIDTH && inner && !next_is_space {
                    self.write_indent();
                } else {
                    self.push(c);
                }
                spaces = true;
            } else if is_break(c) {
                if !breaks && c == '\n' {
                    self.put_break();
                }
                self.write_break(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                if quoted && c == '\'' {
                    self.push('\'');
                }
                self.push(c);
                self.indention = false;
                spaces = false;
                breaks = false;
            }
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn write_break(&mut self, c: char) {
        if c == '\n' {
            self.put_break();
        } else {
            self.out.push(c);
            self.col = 0;
        }
    }

    fn double(&mut self, text: &str, fold: bool) {
        self.indicator("\"", true, false, false);
        let mut spaces = false;
        // Go's emitter takes every character of such a text for the mark itself.
        let marked = text.starts_with('\u{FEFF}');
        let mut chars = text.char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            if marked || needs_escape(c) {
                self.escape(c);
                spaces = false;
            } else if c == ' ' {
                if fold && !spaces && self.col > WIDTH && i > 0 && i + 1 < text.len() {
                    self.write_indent();
                    if chars.peek().is_some_and(|(_, n)| *n == ' ') {
                        self.push('\\');
                    }
                } else {
                    self.push(c);
                }
                spaces = true;
            } else {
                self.push(c);
                spaces = false;
            }
        }
        self.indicator("\"", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn escape(&mut self, c: char) {
        self.push('\\');
        let short = match c {
            '\0' => '0',
            '\x07' => 'a',
            '\x08' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\x0B' => 'v',
            '\x0C' => 'f',
            '\r' => 'r',
            '\x1B' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{A0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                let v = c as u32;
                let text = match v {
                    0..=0xFF => format!("x{v:02X}"),
                    0x100..=0xFFFF => format!("u{v:04X}"),
                    _ => format!("U{v:08X}"),
                };
                self.out.push_str(&text);
                self.col += text.len();
                return;
            }
        };
        self.push(short);
    }

    fn literal(&mut self, text: &str) {
        self.indicator("|", true, false, false);
        let first = text.chars().next();
        if first.is_some_and(|c| c == ' ' || is_break(c)) {
            self.indicator("2", false, false, false);
        }
        let mut back = text.chars().rev();
        match (back.next(), back.next()) {
            (Some(last), _) if !is_break(last) => self.indicator("-", false, false, false),
            (Some(_), None) => self.indicator("+", false, false, false),
            (Some(_), Some(before)) if is_break(before) => self.indicator("+", false, false, false),
            _ => {}
        }
        self.put_break();
        self.indention = true;
        self.whitespace = true;
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(is_break).unwrap_or(rest.len());
            let (line, tail) = rest.split_at(end);
            if !line.is_empty() {
                self.write_indent();
                self.out.push_str(line);
                // Only whether the column is past the indent matters from here on.
                self.col += line.len();
                self.indention = false;
            }
            rest = tail;
            if let Some(c) = rest.chars().next() {
                self.write_break(c);
                self.indention = true;
                rest = rest.get(c.len_utf8()..).unwrap_or_default();
            }
        }
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FEFE}' | '\u{FF00}'..='\u{FFFD}')
}

fn needs_escape(c: char) -> bool {
    !is_printable(c) || is_break(c) || c == '"' || c == '\\'
}

/// What a text's characters allow.
#[derive(Clone, Copy)]
struct Look {
    newline: bool,
    multiline: bool,
    plain: bool,
    single: bool,
    block: bool,
}

impl Look {
    fn of(text: &str) -> Self {
        if text.is_empty() {
            return Self { newline: false, multiline: false, plain: true, single: true, block: false };
        }
        // Most keys and many values are a word.
        let mut bytes = text.bytes();
        if bytes.next().is_some_and(|b| b.is_ascii_alphanumeric())
            && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/'))
        {
            return Self { newline: false, multiline: false, plain: true, single: true, block: true };
        }
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut line_breaks, mut special, mut newline) = (false, false, false);
        let (mut leading, mut trailing_space, mut trailing_break) = (false, false, false);
        let (mut break_space, mut space_break) = (false, false);
        let (mut previous_space, mut previous_break) = (false, false);
        let mut preceded = true;
        let mut chars = text.char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            let next = chars.peek().map(|(_, n)| *n);
            let followed = next.is_none_or(|n| n == ' ' || n == '\t');
            let last = next.is_none();
            if i == 0 {
                indicators |= match c {
                    '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
                    | '@' | '`' => true,
                    '?' | ':' | '-' => followed,
                    _ => false,
                };
            } else {
                indicators |= (c == ':' && followed) || (c == '#' && preceded);
            }
            special |= !is_printable(c);
            if c == ' ' {
                leading |= i == 0;
                trailing_space |= last;
                break_space |= previous_break;
                previous_space = true;
                previous_break = false;
            } else if is_break(c) {
                newline |= c == '\n';
                line_breaks = true;
                leading |= i == 0;
                trailing_break |= last;
                space_break |= previous_space;
                previous_space = false;
                previous_break = true;
            } else {
                previous_space = false;
                previous_break = false;
            }
            preceded = c == ' ' || c == '\t' || is_break(c);
        }
        let odd = space_break || special;
        Self {
            newline,
            multiline: line_breaks,
            plain: !(leading
                || trailing_space
                || trailing_break
                || break_space
                || odd
                || line_breaks
                || indicators),
            single: !(break_space || odd),
            block: !(trailing_space || odd),
        }
    }
}

/// Do the text's characters allow it to stand unquoted in a block?
pub(crate) fn may_be_plain(text: &str) -> bool {
    Look::of(text).plain
}

/// May the text be a block? (Tabs do not matter to the generation that asks.)
pub(crate) fn may_be_block(text: &str) -> bool {
    Look::of(&text.replace('\t', "x")).block
}

/// Does the text stay a text when it is not quoted?
fn is_plain(text: &str) -> bool {
    matches!(resolve(Dialect::Old, text).0, Tag::Str | Tag::Merge) && !is_base60(text)
}

/// `[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?`: a number to readers of YAML 1.1.
fn is_base60(text: &str) -> bool {
    let t = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !t.starts_with(|c: char| c.is_ascii_digit()) || !t.contains(':') {
        return false;
    }
    let (main, fraction) = t.split_once('.').unwrap_or((t, ""));
    if !fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return false;
    }
    let mut parts = main.split(':');
    let first = parts.next().unwrap_or_default();
    first.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        && parts.all(|p| match p.as_bytes() {
            [d] => d.is_ascii_digit(),
            [t, d] => matches!(t, b'0'..=b'5') && d.is_ascii_digit(),
            _ => false,
        })
}

fn node_text(node: &Node) -> Result<Cow<'_, str>, EmitError> {
    if node.tag == Tag::Binary {
        let cleaned: String = node.text().chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, cleaned)
            .map_err(|_| EmitError::Yaml("yaml: !!binary value contains invalid base64 data".to_owned()))?;
        return Ok(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()));
    }
    Ok(super::text::reread(node))
}

/// A number after its way through JSON.
///
/// # Errors
/// Infinity and NaN.
pub(crate) fn number_text(n: Number) -> Result<String, String> {
    match n {
        Number::Int(i) => Ok(i.to_string()),
        Number::Uint(u) => Ok(u.to_string()),
        Number::Float(f) if f.is_nan() => Err("json: unsupported value: NaN".to_owned()),
        Number::Float(f) if f.is_infinite() => {
            Err(format!("json: unsupported value: {}Inf", if f > 0.0 { '+' } else { '-' }))
        }
        Number::Float(f) => {
            let json = format_json(f);
            match super::number::parse_int(&json) {
                Some(Number::Int(i)) => Ok(i.to_string()),
                Some(Number::Uint(u)) => Ok(u.to_string()),
                _ => Ok(format_g(f)),
            }
        }
    }
}

/// At the top any scalar is a key by its text; further down only texts are.
fn sorted(entries: &[(Node, Node)], top: bool) -> Result<Vec<&(Node, Node)>, EmitError> {
    if !top && entries.iter().any(|(k, _)| !key_is_text(k)) {
        return Err(EmitError::Json("json: unsupported type: map[interface {}]interface {}".to_owned()));
    }
    let mut list: Vec<&(Node, Node)> = entries.iter().collect();
    merge_sort(&mut list);
    if let Some(w) = list.windows(2).find(|w| w[0].0.text() == w[1].0.text()) {
        return Err(EmitError::Repeated(w[0].0.text().to_owned()));
    }
    Ok(list)
}

/// The order is not total for odd mixtures of digits and signs, on which the standard sorts may panic.
fn merge_sort(list: &mut [&(Node, Node)]) {
    if list.windows(2).all(|w| natural(w[0].0.text(), w[1].0.text()) != Ordering::Greater) {
        return;
    }
    let (left, right) = list.split_at_mut(list.len() / 2);
    merge_sort(left);
    merge_sort(right);
    let (mut l, mut r) = (left.iter().copied().peekable(), right.iter().copied().peekable());
    let mut merged = Vec::with_capacity(l.len() + r.len());
    loop {
        let take_right = match (l.peek(), r.peek()) {
            (Some(a), Some(b)) => natural(a.0.text(), b.0.text()) == Ordering::Greater,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (None, None) => break,
        };
        merged.extend(if take_right { r.next() } else { l.next() });
    }
    list.copy_from_slice(&merged);
}

/// The order of keys: digits by value, letters after everything else.
pub(crate) fn natural(a: &str, b: &str) -> Ordering {
    if let Some(order) = quick(a, b) {
        return order;
    }
    let (x, y): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let less = |x: &[char], y: &[char]| natural_less(x, y);
    if less(&x, &y) {
        Ordering::Less
    } else if less(&y, &x) {
        Ordering::Greater
    } else {
        a.cmp(b)
    }
}

/// Most pairs of keys differ first in two ASCII letters.
fn quick(a: &str, b: &str) -> Option<Ordering> {
    match a.bytes().zip(b.bytes()).find(|(p, q)| p != q) {
        Some((p, q)) if p.is_ascii_alphabetic() && q.is_ascii_alphabetic() => Some(p.cmp(&q)),
        Some(_) => None,
        None => Some(a.len().cmp(&b.len())),
    }
}

fn natural_less(a: &[char], b: &[char]) -> bool {
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        if x == y {
            continue;
        }
        let (xl, yl) = (x.is_alphabetic(), y.is_alphabetic());
        if xl && yl {
            return x < y;
        }
        if xl || yl {
            return yl;
        }
        let zero = *x == '0' || *y == '0';
        let lead = zero
            && a.iter().take(i).rev().take_while(|c| c.is_numeric() && c.is_ascii_digit()).any(|c| *c != '0');
        let (xn, xi) = digits(a, i, lead);
        let (yn, yi) = digits(b, i, lead);
        if xn != yn {
            return xn < yn;
        }
        if xi != yi {
            return xi < yi;
        }
        return x < y;
    }
    a.len() < b.len()
}

fn digits(s: &[char], from: usize, lead: bool) -> (i64, usize) {
    let mut n = i64::from(lead);
    let mut i = from;
    while let Some(d) = s.get(i).and_then(|c| c.to_digit(10)) {
        n = n.wrapping_mul(10).wrapping_add(i64::from(d));
        i += 1;
    }
    (n, i)
}
