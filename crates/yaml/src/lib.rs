//! YAML as Kubernetes and Helm read and write it: 1.1 by the rules of Go's libraries, through JSON.
//!
//! All crates that render use this one, so it also has what they share: numbers as Go writes them ([`numbers`]), and the
//! question to the caller whether a render may go on ([`governor`]).
//!
//! # Guarantees
//! - Nesting, aliases and their product are limited: no document grows without end.
//! - Of duplicate keys the last one counts, as in Go.

mod compose;
mod emit;
pub mod governor;
pub mod numbers;
mod resolve;
mod scan;
pub mod spans;

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use self::compose::Rules;
pub use self::{
    compose::Build,
    emit::{Emitter, Layout, Place, compare_keys, float_through_json},
};

/// Why a text is not YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct YamlError {
    message: String,
    line: usize,
}

impl YamlError {
    /// 1-based line near which the problem is; 0 when none is known.
    pub fn line(&self) -> usize {
        self.line
    }

    /// What is wrong, without "yaml" and the line.
    pub fn reason(&self) -> &str {
        let text = self.message.strip_prefix("yaml: ").unwrap_or(&self.message);
        match text.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
            Some((number, reason)) if number.bytes().all(|byte| byte.is_ascii_digit()) => reason,
            _ => text,
        }
    }

    fn syntax(line: usize, problem: &str) -> Self {
        let message =
            if line == 0 { format!("yaml: {problem}") } else { format!("yaml: line {line}: {problem}") };
        Self { message, line }
    }

    /// A problem on 0-based `line` of a construct that began on 0-based `start`. Go counts these
    /// lines from zero and leaves zero out; its texts are kept, our number is right.
    fn parse(line: usize, start: usize, problem: &str) -> Self {
        let shown = if line == 0 { start } else { line };
        Self { line: line + 1, ..Self::syntax(shown, problem) }
    }

    fn plain(problem: &str) -> Self {
        Self { message: format!("yaml: {problem}"), line: 0 }
    }

    fn json(problem: &str) -> Self {
        Self { message: problem.to_owned(), line: 0 }
    }
}

/// Reads the first document of `text`; null when there is none.
///
/// # Errors
/// As Go's parser words them, with the line it names.
pub fn parse(text: &[u8]) -> Result<Value, YamlError> {
    parse_with(text, &mut JsonBuild { keep_floats: false })
}

/// The same, whole floats kept apart from integers: for texts that were written as numbers.
pub fn parse_keeping_floats(text: &[u8]) -> Result<Value, YamlError> {
    parse_with(text, &mut JsonBuild { keep_floats: true })
}

/// Reads the first document of `text` into values of the caller's kind.
pub fn parse_with<'a, B: Build<'a>>(text: &'a [u8], build: &mut B) -> Result<B::Value, YamlError> {
    let text = readable(text)?;
    let value = compose::Composer::new(text, build, Rules::GO).document()?;
    match value {
        Some(value) => Ok(value),
        None => Ok(build.null()),
    }
}

/// One document of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// What it says.
    pub value: Value,
    /// 1-based line at which its content begins.
    pub line: usize,
}

/// Reads all documents of `text`; of these more is asked than of one that a program wrote: a key must not stand twice
/// in a map, and there is a limit on values.
///
/// # Errors
/// As [`parse`]; also for such a key, and for more than `values` values.
pub fn parse_documents(text: &[u8], values: usize) -> Result<Vec<Document>, YamlError> {
    let text = readable(text)?;
    let rules = Rules { unique_keys: true, values };
    let mut build = JsonBuild { keep_floats: false };
    let documents = compose::Composer::new(text, &mut build, rules).documents()?;
    Ok(documents.into_iter().map(|(line, value)| Document { value, line: line + 1 }).collect())
}

/// Writes `value` as one document that ends with a line break; keys are sorted.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    Emitter::new(&mut out, Layout::Compact).json(Place::ROOT, value);
    out
}

/// Splits a text at lines that begin with `---`, as Helm does: not by YAML's rules, but by text.
/// Documents are trimmed; those without any character are left out.
pub fn split_documents(text: &str) -> Vec<&str> {
    let text = text.trim_matches(go_space);
    let bytes = text.as_bytes();
    let mut documents = Vec::new();
    let mut begin = 0;
    let mut push = |from: usize, to: usize| {
        if from < to {
            documents.push(text[from..to].trim_matches(go_space));
        }
    };
    let mut search = 0;
    while let Some(found) = memmem(&bytes[search..], b"---") {
        let at = search + found;
        let line_start = at == 0 || (at > begin && bytes[at - 1] == b'\n');
        if !line_start {
            search = at + 1;
            continue;
        }
        // The separator takes the white space around it.
        let mut end = at;
        while end > begin && matches!(bytes[end - 1], b' ' | b'\t' | b'\n' | b'\r' | 0x0C) {
            end -= 1;
        }
        push(begin, end);
        begin = at + 3;
        while begin < bytes.len() && matches!(bytes[begin], b' ' | b'\t' | b'\n' | b'\r' | 0x0C) {
            begin += 1;
        }
        search = begin;
    }
    push(begin, bytes.len());
    documents
}

/// What Go's `strings.TrimSpace` takes away.
fn go_space(c: char) -> bool {
    c.is_whitespace()
}

fn memmem(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}

/// The text without what no YAML may hold.
fn readable(text: &[u8]) -> Result<&str, YamlError> {
    let text = std::str::from_utf8(text).map_err(|_| YamlError::plain("invalid leading UTF-8 octet"))?;
    if has_controls(text.as_bytes(), |b| matches!(b, 0..=8 | 0x0B | 0x0C | 0x0E..=0x1F | 0x7F)) {
        return Err(YamlError::plain("control characters are not allowed"));
    }
    Ok(text)
}

/// Whether a text can be read again once its ASCII controls are escaped, as JSON does.
pub fn is_readable(text: &str) -> bool {
    !has_controls(text.as_bytes(), |b| b == 0x7F)
}

/// Whether there are bytes of that kind, or characters beyond ASCII that no YAML may hold.
fn has_controls(bytes: &[u8], control: impl Fn(u8) -> bool) -> bool {
    // Whole blocks at a time: without an early way out the compiler looks at many bytes at once.
    bytes.chunks(256).any(|block| block.iter().fold(false, |bad, b| bad | control(*b)))
        || memchr::memchr_iter(0xC2, bytes).any(|at| matches!(bytes[at + 1], 0x80..=0x84 | 0x86..=0x9F))
        || memchr::memchr_iter(0xEF, bytes)
            .any(|at| bytes[at + 1] == 0xBF && matches!(bytes[at + 2], 0xBE | 0xBF))
}

/// Builds values of JSON, in which whole floats are integers.
#[derive(Debug, Default)]
pub struct JsonBuild {
    keep_floats: bool,
}

impl<'a> Build<'a> for JsonBuild {
    type Value = Value;
    type Key = String;

    fn key(&mut self, text: Cow<'a, str>) -> String {
        text.into_owned()
    }

    fn null(&mut self) -> Value {
        Value::Null
    }

    fn bool(&mut self, value: bool) -> Value {
        Value::Bool(value)
    }

    fn int(&mut self, value: i64) -> Value {
        Value::Number(value.into())
    }

    fn uint(&mut self, value: u64) -> Value {
        Value::Number(value.into())
    }

    fn float(&mut self, value: f64) -> Value {
        // Through JSON a whole float is an integer.
        if !self.keep_floats && value.fract() == 0.0 && value.abs() < 9e15 {
            return Value::Number((value as i64).into());
        }
        Number::from_f64(value).map_or(Value::Null, Value::Number)
    }

    fn string(&mut self, text: Cow<'a, str>) -> Value {
        Value::String(text.into_owned())
    }

    fn sequence(&mut self, items: Vec<Value>) -> Value {
        Value::Array(items)
    }

    fn mapping(&mut self, entries: Vec<(String, Value)>) -> Value {
        Value::Object(entries.into_iter().collect::<Map<_, _>>())
    }

    fn copy(&mut self, value: &Value) -> Value {
        value.clone()
    }

    fn entries(&mut self, value: &Value) -> Option<Vec<(String, Value)>> {
        value.as_object().map(|map| map.iter().map(|(k, v)| (k.clone(), v.clone())).collect())
    }

    fn items(&mut self, value: &Value) -> Option<Vec<Value>> {
        value.as_array().cloned()
    }

    fn key_text(&mut self, value: &Value) -> Option<String> {
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(value) => Some(value.to_string()),
            Value::Number(number) => Some(match number.as_f64() {
                Some(float) if number.is_f64() => resolve::float_key(float),
                _ => number.to_string(),
            }),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
