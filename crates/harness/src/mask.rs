//! Masks secrets by value, in a stream that is split at arbitrary positions.

use std::{collections::BTreeSet, sync::Arc};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use plural_core::mask::inside_base64;
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
/// The line width of `xxd -p`.
const HEX_PIECE: usize = 60;
/// The length of 25 percent-encoded bytes.
const URL_PIECE: usize = 75;
/// Longer values are searched for only as they are, in JSON and in base64.
const LONGEST_WITH_FORMS: usize = 1 << 10;
/// Limit of the bytes of all other forms: the memory of a Job is for its tool.
const MOST_FORMS: usize = 256 << 10;
/// The characters that URL encoders keep besides letters and digits: those of Go, Python, JavaScript, Java and browsers.
const KEPT_IN_URLS: [&[u8]; 8] =
    [b"-_.~", b"-_.~/", b"-_.!~*'()", b"-_.~$&+=:@", b"-_.~$&+,;=", b"-_.!~*'();/?:@&=+$,#", b"-_.*", b""];

/// Values to be masked.
#[derive(Default)]
pub(crate) struct Collected {
    patterns: BTreeSet<Vec<u8>>,
    /// Bytes that count towards [`MOST_FORMS`].
    forms: usize,
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
        self.forms(value);
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
                    self.forms(setting);
                }
            }
        }
    }

    fn lines(&mut self, value: &str) {
        for line in value.lines().map(str::trim) {
            // Brackets and rulers occur in any output.
            if line.chars().any(char::is_alphanumeric) {
                self.add(line.as_bytes(), PIECE);
                if line.len() >= LEAST_SETTING {
                    self.forms(line);
                }
            }
        }
    }

    /// The encodings of JSON and base64.
    fn encoded(&mut self, value: &str) {
        if value.len() < LEAST {
            return;
        }
        self.add(quoted(value).as_bytes(), PIECE);
        // If more bytes follow, such as a line ending, only the last characters differ.
        let whole = value.len() / 3 * 3;
        for bytes in [value.as_bytes(), &value.as_bytes()[..whole]] {
            if bytes.len() >= LEAST {
                self.add(STANDARD_NO_PAD.encode(bytes).as_bytes(), BASE64_PIECE);
                self.add(URL_SAFE_NO_PAD.encode(bytes).as_bytes(), BASE64_PIECE);
            }
        }
    }

    /// The forms that programs give it elsewhere: escaped, within base64 of more bytes, in hex, in URLs.
    fn forms(&mut self, value: &str) {
        // The longest form has three characters for each byte and may be searched for twice.
        let has_room = self.forms + 6 * value.len() <= MOST_FORMS;
        if !has_room || !(LEAST..=LONGEST_WITH_FORMS).contains(&value.len()) {
            return;
        }
        for escaped in escaped(value) {
            self.form(&escaped, PIECE);
        }
        for before in 0..3 {
            let inside = inside_base64(value, before);
            self.form(&inside.replace('+', "-").replace('/', "_"), BASE64_PIECE);
            self.form(&inside, BASE64_PIECE);
        }
        self.form(&hex::encode(value), HEX_PIECE);
        self.form(&hex::encode_upper(value), HEX_PIECE);
        let digits: [fn([u8; 1]) -> String; 2] = [hex::encode, hex::encode_upper];
        for escape in digits {
            for kept in KEPT_IN_URLS {
                let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || kept.contains(&byte);
                let address = in_url(value, is_kept, escape);
                self.form(&address.replace("%20", "+"), URL_PIECE);
                self.form(&address, URL_PIECE);
            }
            self.form(&in_url(value, |_| false, escape), URL_PIECE);
        }
    }

    fn form(&mut self, form: &str, piece: usize) {
        // Lines are searched for one by one, so that a log keeps their number. A form longer than a piece may be searched for twice.
        if !form.contains('\n') && self.forms + 2 * form.len() <= MOST_FORMS {
            self.forms += self.add(form.as_bytes(), piece);
        }
    }

    /// Adds patterns. Returns how many bytes are new.
    fn add(&mut self, mut rest: &[u8], piece: usize) -> usize {
        let mut added = 0;
        let mut insert = |pattern: &[u8]| {
            if self.patterns.insert(pattern.to_vec()) {
                added += pattern.len();
            }
        };
        while rest.len() >= piece + LEAST {
            let (first, more) = rest.split_at(piece);
            insert(first);
            rest = more;
        }
        // At a line break, the rest is too short to be searched for.
        if rest.len() > piece {
            insert(&rest[..piece]);
        }
        if rest.len() >= LEAST {
            insert(rest);
        }
        added
    }

    /// Builds the search for them.
    ///
    /// # Errors
    /// If there are too many of them.
    pub(crate) fn build(self) -> Result<Secrets, String> {
        let sorted: Vec<Vec<u8>> = self.patterns.into_iter().collect();
        // A DFA would take some hundred times the memory of the patterns.
        let automaton =
            AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(&sorted).map_err(
                |error| format!("the secrets of this run are too many to be hidden from its logs: {error}"),
            )?;
        let longest = sorted.iter().map(Vec::len).max().unwrap_or_default();
        Ok(Secrets { automaton, sorted, longest })
    }
}

/// A text as a JSON string, without its quotes.
fn quoted(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// A text with the escapes of documents and shells.
fn escaped(text: &str) -> Vec<String> {
    let json = quoted(text);
    // As Go and Terraform write it, and as Python does.
    let go = json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            ascii.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                ascii.push_str("\\u");
                ascii.push_str(&hex::encode(unit.to_be_bytes()));
            }
        }
    }
    let mut words = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() && !character.is_ascii_alphanumeric() && !"_@%+=:,./-".contains(character) {
            words.push('\\');
        }
        words.push(character);
    }
    let html = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    vec![
        // A document in a document.
        quoted(&json),
        quoted(&go),
        json.replace("${", "$${").replace("%{", "%%{"),
        go,
        ascii,
        words,
        html.replace('"', "&#34;").replace('\'', "&#39;"),
        html.replace('"', "&quot;").replace('\'', "&#39;"),
        html,
        text.replace('\'', "''"),
        text.replace('\'', "'\\''"),
        text.replace('\'', "'\"'\"'"),
    ]
}

/// A text, percent-encoded.
fn in_url(text: &str, is_kept: impl Fn(u8) -> bool, escape: fn([u8; 1]) -> String) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii() && is_kept(byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push('%');
            escaped.push_str(&escape([byte]));
        }
    }
    escaped
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
    fn a_value_is_hidden_as_other_programs_write_it() {
        let odd = "p\"a&s's/w <ö>${d\\";
        let secrets = secrets(&["hunter2!", odd]);
        let mut texts = vec![
            "68756e7465723221".to_owned(),
            "p%22a%26s%27s%2Fw%20%3C%C3%B6%3E%24%7Bd%5C".to_owned(),
            "p%22a%26s%27s%2fw%20%3c%c3%b6%3e%24%7bd%5c".to_owned(),
            "p%22a%26s%27s%2Fw+%3C%C3%B6%3E%24%7Bd%5C".to_owned(),
            "p%22a%26s%27s/w%20%3C%C3%B6%3E%24%7Bd%5C".to_owned(),
            "%68%75%6e%74%65%72%32%21".to_owned(),
            "%68%75%6E%74%65%72%32%21".to_owned(),
            "hunter2%21".to_owned(),
            r#"p\"a\u0026s's/w \u003cö\u003e${d\\"#.to_owned(),
            r#"p\"a&s's/w <\u00f6>${d\\"#.to_owned(),
            r#"p\"a&s's/w <ö>$${d\\"#.to_owned(),
            r#"p\\\"a&s's/w <ö>${d\\\\"#.to_owned(),
            r#"p"a&s'\''s/w <ö>${d\"#.to_owned(),
            r#"p"a&s''s/w <ö>${d\"#.to_owned(),
            r#"p\"a\&s\'s/w\ \<ö\>\$\{d\\"#.to_owned(),
            "p&quot;a&amp;s&#39;s/w &lt;ö&gt;${d\\".to_owned(),
        ];
        texts.extend([hex::encode(odd), hex::encode_upper(odd)]);
        for text in texts {
            for length in [1, 7, text.len()] {
                assert_eq!(
                    in_pieces(&secrets, format!("x {text}\n").as_bytes(), length),
                    "x ***\n",
                    "{text}"
                );
            }
        }
        // Whatever stands around it before it is encoded.
        for before in ["", "a", "ab", "user:"] {
            for after in ["", "z", "zy", "@host"] {
                for text in [format!("{before}hunter2!{after}"), format!("{before}{odd}{after}")] {
                    for encoded in [
                        base64::engine::general_purpose::STANDARD.encode(&text),
                        URL_SAFE_NO_PAD.encode(&text),
                    ] {
                        let half = encoded.len() / 2;
                        let hidden = secrets.hidden(&encoded);
                        assert!(
                            hidden.contains("***") && !hidden.contains(&encoded[half - 1..=half]),
                            "{text}"
                        );
                    }
                }
            }
        }
        assert_eq!(secrets.hidden("68756e7465723321 hunter3%21"), "68756e7465723321 hunter3%21");
    }

    #[test]
    fn a_line_that_breaks_just_before_the_end_of_a_value_hides_it() {
        let value = "q".repeat(31);
        let encoded = hex::encode(&value);
        let (line, rest) = encoded.split_at(HEX_PIECE);
        assert!((1..LEAST).contains(&rest.len()), "{rest}");
        assert_eq!(secrets(&[value.as_str()]).hidden(&format!("{line}\n{rest}")), format!("***\n{rest}"));
    }

    #[test]
    fn forms_of_many_values_take_bounded_memory() {
        let mut collected = Collected::default();
        for number in 0..2_000 {
            collected.value(&format!("{number:0>64}"));
        }
        assert!(collected.forms <= MOST_FORMS, "{}", collected.forms);
        assert_eq!(Arc::new(collected.build().unwrap()).hidden(&format!("x {:0>64}", 1_999)), "x ***");
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
