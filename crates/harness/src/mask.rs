//! Masks secrets by value, in a stream that is split at arbitrary positions.

use std::{collections::BTreeSet, sync::Arc};

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

/// Replaces a secret.
const MASK: &str = "***";
/// Shorter values are not masked: they would match everywhere.
const LEAST: usize = 4;
/// Least bytes of a setting in a file, after `=` or `:`, to be masked.
const LEAST_SETTING: usize = 8;
/// Longer values are searched for in pieces, so that no more than this is ever held back.
const PIECE: usize = 512;
/// The line width of `base64`.
const BASE64_PIECE: usize = 76;

/// Values to be masked.
#[derive(Default)]
pub(crate) struct Collected {
    patterns: BTreeSet<Vec<u8>>,
}

impl Collected {
    /// A secret value. If it is JSON, tools also print single texts of it.
    pub(crate) fn value(&mut self, value: &str) {
        self.text(value);
        if let Ok(document @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str(value) {
            self.inner(&document);
        }
    }

    /// The texts and numbers in a document, which are masked like settings in files.
    fn inner(&mut self, document: &Value) {
        match document {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                let number = number.to_string();
                if number.len() >= LEAST_SETTING {
                    self.text(&number);
                }
            }
            Value::String(text) => {
                if text.len() >= LEAST_SETTING {
                    self.text(text);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.inner(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.inner(field)),
        }
    }

    fn text(&mut self, value: &str) {
        let value = value.trim_matches(['\n', '\r']);
        if value.contains('\n') {
            self.lines(value);
        } else {
            self.add(value.as_bytes(), PIECE);
        }
        self.encoded(value);
    }

    /// The content of a file: all of its lines, and the values after `=` or `:`.
    pub(crate) fn file(&mut self, content: &str) {
        self.value(content);
        for line in content.lines() {
            for sign in ['=', ':'] {
                let Some((_, setting)) = line.split_once(sign) else { continue };
                let setting = setting.trim().trim_end_matches(',').trim_matches(['"', '\'']);
                if setting.len() >= LEAST_SETTING {
                    self.add(setting.as_bytes(), PIECE);
                }
            }
        }
    }

    fn lines(&mut self, value: &str) {
        for line in value.lines().map(str::trim) {
            // Brackets and rulers occur in any output.
            if line.chars().any(char::is_alphanumeric) {
                self.add(line.as_bytes(), PIECE);
            }
        }
    }

    /// The encodings of JSON and base64.
    fn encoded(&mut self, value: &str) {
        if value.len() < LEAST {
            return;
        }
        let quoted = Value::from(value).to_string();
        self.add(&quoted.as_bytes()[1..quoted.len() - 1], PIECE);
        // If more bytes follow, such as a line ending, only the last characters differ.
        let whole = value.len() / 3 * 3;
        for bytes in [value.as_bytes(), &value.as_bytes()[..whole]] {
            if bytes.len() >= LEAST {
                self.add(STANDARD_NO_PAD.encode(bytes).as_bytes(), BASE64_PIECE);
                self.add(URL_SAFE_NO_PAD.encode(bytes).as_bytes(), BASE64_PIECE);
            }
        }
    }

    fn add(&mut self, mut rest: &[u8], piece: usize) {
        while rest.len() >= piece + LEAST {
            let (first, more) = rest.split_at(piece);
            self.patterns.insert(first.to_vec());
            rest = more;
        }
        if rest.len() >= LEAST {
            self.patterns.insert(rest.to_vec());
        }
    }

    /// Builds the search for them.
    ///
    /// # Errors
    /// If there are too many of them.
    pub(crate) fn build(self) -> Result<Secrets, String> {
        let sorted: Vec<Vec<u8>> = self.patterns.into_iter().collect();
        let automaton = AhoCorasick::new(&sorted).map_err(|error| {
            format!("the secrets of this run are too many to be hidden from its logs: {error}")
        })?;
        let longest = sorted.iter().map(Vec::len).max().unwrap_or_default();
        Ok(Secrets { automaton, sorted, longest })
    }
}

/// The values to be masked, ready for the search.
pub(crate) struct Secrets {
    automaton: AhoCorasick,
    sorted: Vec<Vec<u8>>,
    longest: usize,
}

impl Secrets {
    /// Whether a text contains any of them.
    pub(crate) fn are_in(&self, text: &str) -> bool {
        self.longest > 0 && self.automaton.find(text).is_some()
    }

    /// A text with all of them masked.
    pub(crate) fn hidden(self: &Arc<Self>, text: &str) -> String {
        String::from_utf8_lossy(&self.hidden_bytes(text.as_bytes())).into_owned()
    }

    /// The same for bytes.
    pub(crate) fn hidden_bytes(self: &Arc<Self>, text: &[u8]) -> Vec<u8> {
        let mut masker = Masker::new(Arc::clone(self));
        let mut hidden = masker.push(text);
        hidden.extend(masker.finish());
        hidden
    }

    /// Masks them in all texts, names and numbers of a document, which stays valid.
    pub(crate) fn hide_in(self: &Arc<Self>, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                if self.are_in(&number.to_string()) {
                    *value = Value::from(MASK);
                }
            }
            Value::String(text) => {
                if self.are_in(text) {
                    *text = self.hidden(text);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|field| self.hide_in(field));
                let telling: Vec<String> = fields.keys().filter(|key| self.are_in(key)).cloned().collect();
                for key in telling {
                    if let Some(field) = fields.remove(&key) {
                        fields.insert(self.hidden(&key), field);
                    }
                }
            }
        }
    }

    /// Where the first secret may start that is not complete yet.
    fn undecided_from(&self, bytes: &[u8]) -> usize {
        let first = bytes.len().saturating_sub(self.longest.saturating_sub(1));
        (first..bytes.len()).find(|at| self.is_begun(&bytes[*at..])).unwrap_or(bytes.len())
    }

    /// Whether some secret is longer than these bytes and starts with them.
    fn is_begun(&self, bytes: &[u8]) -> bool {
        let next = self.sorted.partition_point(|secret| secret.as_slice() <= bytes);
        self.sorted.get(next).is_some_and(|secret| secret.starts_with(bytes))
    }
}

/// Masks secrets in a stream. The output does not depend on where the stream is split.
pub(crate) struct Masker {
    secrets: Arc<Secrets>,
    /// Held back: a secret may start in it.
    held: Vec<u8>,
    /// How many of its first bytes are the end of a secret.
    covered: usize,
    /// The last written byte belongs to a secret.
    inside: bool,
}

impl Masker {
    pub(crate) fn new(secrets: Arc<Secrets>) -> Self {
        Self { secrets, held: Vec::new(), covered: 0, inside: false }
    }

    /// Takes more bytes, and returns the decided ones.
    pub(crate) fn push(&mut self, more: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(more);
        let end = self.secrets.undecided_from(&self.held);
        self.release(end)
    }

    /// Returns the rest.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let rest = self.release(self.held.len());
        self.inside = false;
        rest
    }

    fn release(&mut self, end: usize) -> Vec<u8> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        if self.covered > 0 {
            found.push((0, self.covered));
        }
        if self.secrets.longest > 0 {
            let matches = self.secrets.automaton.find_overlapping_iter(&self.held);
            found.extend(matches.map(|found| (found.start(), found.end())));
        }
        found.sort_unstable();
        let mut out = Vec::with_capacity(end);
        let (mut at, mut reaches) = (0, self.covered);
        for (from, to) in found {
            if from >= end {
                break;
            }
            reaches = reaches.max(to);
            if from > at {
                out.extend_from_slice(&self.held[at..from]);
                (at, self.inside) = (from, false);
            }
            if to > at {
                if !self.inside {
                    out.extend_from_slice(MASK.as_bytes());
                    self.inside = true;
                }
                at = to.min(end);
            }
        }
        if at < end {
            out.extend_from_slice(&self.held[at..end]);
            self.inside = false;
        }
        self.covered = reaches.saturating_sub(end);
        self.held.drain(..end);
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secrets(values: &[&str]) -> Arc<Secrets> {
        let mut collected = Collected::default();
        for value in values {
            collected.value(value);
        }
        Arc::new(collected.build().unwrap())
    }

    fn in_pieces(secrets: &Arc<Secrets>, text: &[u8], length: usize) -> String {
        let mut masker = Masker::new(Arc::clone(secrets));
        let mut out: Vec<u8> = text.chunks(length).flat_map(|piece| masker.push(piece)).collect();
        out.extend(masker.finish());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_stands_in_a_document_is_hidden_without_the_rest_of_it() {
        let secrets =
            secrets(&[r#"{"db": {"password": "correct-horse", "port": 5432}, "keys": ["one\ntwo-lines"]}"#]);
        let shown = in_pieces(&secrets, b"password = \"correct-horse\"\nport = 5432\ntwo-lines", 3);
        assert_eq!(shown, "password = \"***\"\nport = 5432\n***");
    }

    #[test]
    fn a_value_is_hidden_wherever_pieces_end() {
        let secrets = secrets(&["hunter2", "hunter22", "cdef", "abcd"]);
        for (text, expected) in [
            ("a hunter2 b", "a *** b"),
            ("hunter22hunter2", "***"),
            // Overlapping secrets are masked together.
            ("xabcdefx", "x***x"),
            ("hunter hunte hunter2", "hunter hunte ***"),
            ("", ""),
        ] {
            for length in 1..=text.len().max(1) {
                assert_eq!(in_pieces(&secrets, text.as_bytes(), length), expected, "{text} by {length}");
            }
        }
    }

    #[test]
    fn what_is_not_the_beginning_of_a_secret_is_not_held_back() {
        let mut masker = Masker::new(secrets(&["hunter2"]));
        assert_eq!(masker.push(b"a line\n"), b"a line\n");
        assert_eq!(masker.push(b"a hun"), b"a ");
        assert_eq!(masker.push(b"ch\n"), b"hunch\n");
        assert_eq!(masker.push(b"hunter"), b"");
        assert_eq!(masker.finish(), b"hunter");
    }

    #[test]
    fn lines_and_other_forms_of_a_value_are_hidden() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\n  hkiG9w0BAQEFAASC\n---\nend";
        let secrets = secrets(&[key, "p\"4 ss", "abc"]);
        let hidden = |text: &str| secrets.hidden(text);
        assert_eq!(hidden("x MIIEvQIBADANBgkq y"), "x *** y");
        assert_eq!(hidden("hkiG9w0BAQEFAASC"), "***");
        assert_eq!(hidden("---"), "---");
        // Too short to be masked.
        assert_eq!(hidden("abc end"), "abc end");
        assert_eq!(hidden(r#"{"a": "p\"4 ss"}"#), r#"{"a": "***"}"#);
        for text in [base64::engine::general_purpose::STANDARD.encode(key), URL_SAFE_NO_PAD.encode(key)] {
            assert!(!secrets.hidden(&text).contains(&text[..20]), "{text}");
        }
        // Wrapped by `base64`, with a line ending after the value.
        let wrapped = base64::engine::general_purpose::STANDARD.encode(format!("{key}\n"));
        let wrapped: Vec<&str> =
            wrapped.as_bytes().chunks(76).map(|l| std::str::from_utf8(l).unwrap()).collect();
        assert!(!hidden(&wrapped.join("\n")).contains(&wrapped[0][..20]));
    }

    #[test]
    fn settings_in_files_are_hidden_without_their_names() {
        let mut collected = Collected::default();
        collected.file("users:\n- token: \"abcdefgh12\"\npassword=correct horse\nmode: fast\n");
        let secrets = Arc::new(collected.build().unwrap());
        assert_eq!(secrets.hidden("it says abcdefgh12, correct horse, fast"), "it says ***, ***, fast");
    }

    #[test]
    fn a_document_stays_one() {
        let secrets = secrets(&["hunter2", "12345"]);
        let mut value = serde_json::json!({"a": ["hunter2"], "pin": 12345, "x-hunter2": true, "b": "plain"});
        secrets.hide_in(&mut value);
        assert_eq!(value, serde_json::json!({"a": ["***"], "pin": "***", "x-***": true, "b": "plain"}));
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(text in "[abx]{0,60}", length in 1_usize..9) {
            let secrets = secrets(&["abab", "babba", "aaaa", "xabxab"]);
            let whole = in_pieces(&secrets, text.as_bytes(), text.len().max(1));
            prop_assert_eq!(&in_pieces(&secrets, text.as_bytes(), length), &whole);
            for secret in ["abab", "babba", "aaaa", "xabxab"] {
                prop_assert!(!whole.contains(secret));
            }
        }
    }
}
