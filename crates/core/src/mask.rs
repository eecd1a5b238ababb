//! Texts without the values that a caller may not see.
//!
//! A value is hidden wherever it stands as it is or in a usual encoding: base64 at any offset, hex, escaped for URLs, JSON, HTML
//! and quoted YAML, in any case of letters. What a program makes of it beyond that (a hash, a part of it, its letters in another order)
//! is not recognised.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde_json::{Map, Value};

/// What stands for a value.
pub const MASK: &str = "********";
/// Characters from which on a value is looked for inside texts. A shorter one would be found by chance.
const SHORTEST: usize = 6;
/// Characters from which on a shorter value is hidden where it is all there is.
const SHORTEST_SCALAR: usize = 3;
/// Bytes of everything that is looked for. Beyond that, every text is hidden: a machine that finds more would cost too much memory.
const MOST_BYTES: usize = 512 << 10;
/// Where a text was cut off.
const CUT: char = '…';

/// The values that a masker hides.
#[derive(Default)]
pub struct SecretValues {
    values: BTreeSet<String>,
    bytes: usize,
    everything: bool,
    were_others: bool,
}

impl SecretValues {
    /// Everything is to be hidden: for when it is not known what the values are.
    pub fn everything() -> Self {
        Self { everything: true, ..Self::default() }
    }

    /// Adds a value. Where it is a document (JSON, YAML, lines), what it holds is hidden as well.
    pub fn add(&mut self, value: &str) {
        if self.bytes > MOST_BYTES || self.values.contains(value) {
            return;
        }
        self.add_one(value);
        self.add_document(value);
    }

    /// Adds what a document holds; the document itself is no value.
    pub fn add_document(&mut self, document: &str) {
        let lines = document.lines().filter(|line| !line.trim_start().starts_with("-----"));
        if document.trim().contains('\n') {
            for line in lines {
                self.add_one(line);
                if let Some((_, assigned)) = line.split_once('=') {
                    self.add_one(assigned.trim_matches(['"', '\'', ' ']));
                }
            }
        }
        if document.contains([':', '{', '[', '-'])
            && let Ok(value) = serde_saphyr::from_str::<Value>(document)
        {
            self.add_leaves(&value);
        }
    }

    fn add_leaves(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => self.add_one(&number.to_string()),
            Value::String(text) => {
                self.add_one(text);
                if text.trim().contains('\n') {
                    text.lines()
                        .filter(|line| !line.starts_with("-----"))
                        .for_each(|line| self.add_one(line));
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_leaves(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.add_leaves(field)),
        }
    }

    fn add_one(&mut self, value: &str) {
        let value = value.trim();
        if !value.is_empty() && self.bytes <= MOST_BYTES && self.values.insert(value.to_owned()) {
            self.bytes += value.len();
        }
    }

    /// Some of the values were others before, which nobody knows any more: records may hold them.
    pub fn were_others(&mut self) {
        self.were_others = true;
    }

    /// Leaves out a value that whoever asks may see anyway.
    pub fn is_public(&mut self, value: &str) {
        self.values.remove(value.trim());
    }

    /// There is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && !self.everything && !self.were_others
    }
}

/// Hides values.
pub struct Masker {
    /// Absent: every text is hidden.
    finder: Option<AhoCorasick>,
    /// What the finder looks for.
    forms: Vec<String>,
    /// Short values, hidden where they are all there is.
    scalars: HashSet<String>,
    /// What a record says that fields were is hidden whole.
    hides_records: bool,
}

impl Masker {
    /// Takes time that grows with the values; they are at most half a MiB with all their forms.
    pub fn new(secrets: &SecretValues) -> Self {
        let mut scalars = HashSet::new();
        let mut forms = BTreeSet::new();
        for value in &secrets.values {
            let characters = value.chars().count();
            if characters >= SHORTEST {
                forms_of(value, &mut forms);
            } else if characters >= SHORTEST_SCALAR && !matches!(value.as_str(), "true" | "false" | "null") {
                scalars.insert(value.clone());
            }
        }
        let forms: Vec<String> = forms.into_iter().collect();
        let bytes: usize = forms.iter().map(String::len).sum();
        let hides_records = secrets.were_others;
        let none = Self { finder: None, forms: Vec::new(), scalars: HashSet::new(), hides_records };
        if secrets.everything || secrets.bytes > MOST_BYTES || bytes > MOST_BYTES {
            return none;
        }
        // Not as a table of all bytes, which would be large.
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&forms);
        match finder {
            Ok(finder) => Self { finder: Some(finder), forms, scalars, hides_records },
            Err(_) => none,
        }
    }

    /// A text without the values. One that was cut off is hidden from where a value may have begun.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(finder) = &self.finder else {
            return if text.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(MASK.to_owned()) };
        };
        let mut hidden: Vec<(usize, usize)> = Vec::new();
        for view in View::all(text) {
            self.hide(finder, &view, &mut hidden);
        }
        if hidden.is_empty() {
            return Cow::Borrowed(text);
        }
        hidden.sort_unstable();
        let mut masked = String::with_capacity(text.len());
        let mut from = 0;
        for (start, end) in hidden {
            // Values one after the other are one: how many there are is nobody's business.
            if start > from || (from == 0 && masked.is_empty()) {
                masked.push_str(text.get(from..start).unwrap_or_default());
                masked.push_str(MASK);
            }
            from = from.max(end);
        }
        masked.push_str(text.get(from..).unwrap_or_default());
        Cow::Owned(masked)
    }

    /// Where values are in a view of a text.
    fn hide(&self, finder: &AhoCorasick, view: &View, hidden: &mut Vec<(usize, usize)>) {
        let mut add = |start: usize, end: usize| {
            if let (Some(start), Some(end)) = (view.at.get(start), view.at.get(end)) {
                hidden.push((*start, *end));
            }
        };
        let mut from = 0;
        let before_cuts = |until: usize, from: &mut usize, add: &mut dyn FnMut(usize, usize)| {
            for cut in view.cuts.iter().filter(|cut| (*from..=until).contains(cut)) {
                if let Some(start) = self.cut_short(view.bytes.get(*from..*cut).unwrap_or_default()) {
                    add(*from + start, *cut);
                }
            }
        };
        for found in finder.find_iter(&view.bytes) {
            before_cuts(found.start(), &mut from, &mut add);
            add(found.start(), found.end());
            from = found.end();
        }
        before_cuts(view.bytes.len(), &mut from, &mut add);
    }

    /// Where the last value begins in a text that ends in the middle of it.
    fn cut_short(&self, text: &[u8]) -> Option<usize> {
        let starts = |form: &String| {
            let form = form.as_bytes();
            let first = text.len().saturating_sub(form.len().saturating_sub(1));
            (first..=text.len().saturating_sub(SHORTEST)).find(|at| {
                let rest = text.get(*at..).unwrap_or_default();
                rest.len() >= SHORTEST
                    && form.get(..rest.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(rest))
            })
        };
        // A character of several bytes is no place to begin.
        let is_start = |at: &usize| text.get(*at).is_some_and(|byte| byte & 0xc0 != 0x80);
        self.forms.iter().filter_map(starts).filter(is_start).min()
    }

    /// [`Self::text`] of something that is owned.
    pub fn string(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.text(text) {
            *text = masked;
        }
    }

    /// A text that is a whole value: a short one is hidden, too.
    pub fn scalar(&self, text: &mut String) {
        if self.scalars.contains(text.trim()) {
            MASK.clone_into(text);
        } else {
            self.string(text);
        }
    }

    /// Everything in a document: names of fields, texts, numbers.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                let mut text = number.to_string();
                self.scalar(&mut text);
                if text.contains(MASK) {
                    *value = MASK.into();
                }
            }
            Value::String(text) => self.scalar(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|field| self.value(field));
                if fields.keys().any(|name| matches!(self.text(name), Cow::Owned(_))) {
                    let named = std::mem::take(fields);
                    named.into_iter().for_each(|(name, field)| self.field(fields, &name, field));
                }
            }
        }
    }

    fn field(&self, fields: &mut Map<String, Value>, name: &str, field: Value) {
        let mut masked = self.text(name).into_owned();
        while fields.contains_key(&masked) {
            masked.push('*');
        }
        fields.insert(masked, field);
    }

    /// A value as JSON text, perhaps cut off.
    pub fn json(&self, text: &mut String) {
        match serde_json::from_str::<Value>(text) {
            Ok(mut value) => {
                self.value(&mut value);
                *text = value.to_string();
            }
            Err(_) => self.string(text),
        }
    }

    /// The same of what a record says that a field was, or became.
    pub fn recorded(&self, text: &mut String) {
        if self.hides_records {
            *text = format!("\"{MASK}\"");
        } else {
            self.json(text);
        }
    }
}

impl std::fmt::Debug for Masker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masker").finish_non_exhaustive()
    }
}

/// A text with some of its escapes undone: who escapes what differs from program to program.
struct View {
    bytes: Vec<u8>,
    /// Where each byte is in the text; and where that ends.
    at: Vec<usize>,
    /// Where it was cut off.
    cuts: Vec<usize>,
}

impl View {
    /// The text as it is, and without the escapes of URLs and of JSON, where it has any.
    fn all(text: &str) -> Vec<Self> {
        let plain = Self::new(text.as_bytes().to_vec(), (0..=text.len()).collect());
        let mut all = Vec::new();
        if text.contains('%') {
            all.push(plain.undone(|bytes| url_escape(bytes, b'+')));
        }
        if text.contains(['%', '+']) {
            all.push(plain.undone(|bytes| url_escape(bytes, b' ')));
        }
        if text.contains('\\') {
            let once = plain.undone(json_escape);
            // A document in a document: the escapes are escaped.
            if once.bytes.contains(&b'\\') {
                all.push(once.undone(json_escape));
            }
            all.push(once);
        }
        all.push(plain);
        all
    }

    fn new(bytes: Vec<u8>, at: Vec<usize>) -> Self {
        let cut = CUT.to_string();
        let windows = bytes.windows(cut.len()).enumerate();
        let cuts = windows.filter(|(_, window)| *window == cut.as_bytes()).map(|(at, _)| at).collect();
        Self { bytes, at, cuts }
    }

    /// `escape` says what the first bytes stand for, and how many those are.
    fn undone(&self, escape: impl Fn(&[u8]) -> Option<(char, usize)>) -> Self {
        let (mut bytes, mut at) = (Vec::with_capacity(self.bytes.len()), Vec::with_capacity(self.at.len()));
        let mut from = 0;
        while let Some(rest) = self.bytes.get(from..).filter(|rest| !rest.is_empty()) {
            let place = self.at.get(from).copied().unwrap_or_default();
            let length = match escape(rest) {
                // A byte of a character of several.
                Some((byte @ '\u{80}'..='\u{ff}', length)) if rest.first() == Some(&b'%') => {
                    bytes.extend(u8::try_from(u32::from(byte)));
                    length
                }
                Some((character, length)) => {
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    length
                }
                None => {
                    bytes.extend(rest.first());
                    1
                }
            };
            at.resize(bytes.len(), place);
            from += length;
        }
        at.push(self.at.last().copied().unwrap_or_default());
        Self::new(bytes, at)
    }
}

fn url_escape(bytes: &[u8], plus: u8) -> Option<(char, usize)> {
    match bytes {
        [b'%', high, low, ..] => {
            let digit = |byte: &u8| char::from(*byte).to_digit(16);
            let byte = u8::try_from(digit(high)? * 16 + digit(low)?).ok()?;
            Some((char::from(byte), 3))
        }
        [b'+', ..] => Some((char::from(plus), 1)),
        _ => None,
    }
}

fn json_escape(bytes: &[u8]) -> Option<(char, usize)> {
    match bytes {
        [b'\\', b'u', digits @ ..] => {
            let unit = |digits: &[u8]| {
                let text = std::str::from_utf8(digits.get(..4)?).ok()?;
                u16::from_str_radix(text, 16).ok()
            };
            let first = unit(digits)?;
            let second =
                digits.get(4..).filter(|rest| rest.starts_with(b"\\u")).and_then(|rest| unit(rest.get(2..)?));
            let mut decoded = char::decode_utf16([first].into_iter().chain(second));
            match decoded.next()? {
                Ok(character) => Some((character, if character.len_utf16() == 2 { 12 } else { 6 })),
                Err(_) => None,
            }
        }
        [b'\\', escaped, ..] => {
            let character = match escaped {
                b'n' => '\n',
                b't' => '\t',
                b'r' => '\r',
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'"' | b'\\' | b'/' | b'\'' => char::from(*escaped),
                _ => return None,
            };
            Some((character, 2))
        }
        _ => None,
    }
}

/// How a value may stand in a text whose escapes are undone.
fn forms_of(value: &str, forms: &mut BTreeSet<String>) {
    let html = |quote: &str| {
        let text = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        text.replace('"', quote).replace('\'', "&#39;")
    };
    let texts = [
        value.to_owned(),
        // The finder knows no case of other letters than ASCII's.
        if value.is_ascii() { String::new() } else { value.to_uppercase() },
        if value.is_ascii() { String::new() } else { value.to_lowercase() },
        html("&#34;"),
        html("&quot;"),
        value.replace('\'', "''"),
        value.replace('\'', "'\\''"),
        // JSON pointers.
        value.replace('~', "~0").replace('/', "~1"),
        hex::encode(value),
        STANDARD.encode(value),
    ];
    for text in texts.into_iter().chain((0..3).map(|before| inside_base64(value, before))) {
        if text.chars().count() >= SHORTEST {
            forms.insert(text.replace('+', "-").replace('/', "_"));
            forms.insert(text);
        }
    }
}

/// What is the same in every base64 that has so many bytes, counted modulo 3, before the value, whatever they are.
pub fn inside_base64(value: &str, before: usize) -> String {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(value.as_bytes());
    let text = STANDARD_NO_PAD.encode(&bytes);
    let start = [0, 2, 3].get(before).copied().unwrap_or(0);
    let end = text.len() - usize::from(!bytes.len().is_multiple_of(3));
    text.get(start..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn masker(values: &[&str]) -> Masker {
        let mut secrets = SecretValues::default();
        for value in values {
            secrets.add(value);
        }
        Masker::new(&secrets)
    }

    #[test]
    fn a_record_may_hold_what_was_secret_before() {
        let mut secrets = SecretValues::default();
        secrets.add("hunter2!");
        let recorded = |secrets: &SecretValues| {
            let mut value = json!({"password": "hunter2!", "former": "hunter1!"}).to_string();
            Masker::new(secrets).recorded(&mut value);
            value
        };
        assert_eq!(recorded(&secrets), json!({"password": MASK, "former": "hunter1!"}).to_string());
        secrets.were_others();
        assert_eq!(recorded(&secrets), json!(MASK).to_string());
    }

    /// Everything but letters and digits and those in `kept`.
    fn escaped(value: &str, kept: &[u8]) -> String {
        let escape = |byte: u8| match byte {
            byte if byte.is_ascii_alphanumeric() || kept.contains(&byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        value.bytes().map(escape).collect()
    }

    const ODD: &str = "p<a>&\"s's/w~0 ör+d\\ 100%41🔑";

    #[test]
    fn values_are_found_as_they_are_and_encoded() {
        for secret in ["hunter2!", ODD, "0123456789abcdef", "aaaaaa"] {
            let mask = masker(&[secret]);
            let in_json = json!({"a": secret}).to_string();
            let twice = json!({"a": in_json}).to_string();
            let mut texts = vec![
                format!("x={secret};"),
                secret.to_uppercase(),
                hex::encode(secret),
                hex::encode_upper(secret),
                escaped(secret, b"-_.~"),
                escaped(secret, b"-_."),
                escaped(secret, b"").to_lowercase(),
                escaped(secret, b"-_.!~*'()").replace("%20", "+"),
                secret.replace('%', "%25").replace(' ', "%20"),
                in_json.clone(),
                twice,
                in_json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"),
                in_json.replace('ö', "\\u00f6").replace('/', "\\/"),
                format!("'{}'", secret.replace('\'', "''")),
            ];
            for before in ["", "a", "ab", "abc", "user:"] {
                for after in ["", "z", "zy", "@host"] {
                    let text = format!("{before}{secret}{after}");
                    texts.push(STANDARD.encode(&text));
                    texts.push(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&text));
                }
            }
            for text in texts {
                let masked = mask.text(&text);
                assert!(masked.contains(MASK), "{secret}: {text}");
                assert!(!masked.contains(secret), "{masked}");
            }
        }
        assert_eq!(masker(&["hunter2!"]).text("nothing of it: hunter3!"), "nothing of it: hunter3!");
        assert_eq!(masker(&["hunter", "second"]).text("a huntersecond b hunter"), "a ******** b ********");
    }

    #[test]
    fn a_text_that_was_cut_off_shows_no_beginning() {
        let mask = masker(&["hunter2-and-more", "other-secret"]);
        for (text, masked) in [
            ("a: hunter2-an…", "a: ********…"),
            ("a: hunter2-an… (4096 bytes)", "a: ********… (4096 bytes)"),
            ("a: hunt…", "a: hunt…"),
            ("a: \"HUNTER2…", "a: \"********…"),
            ("other-secret, other-se…", "********, ********…"),
            ("… other-se… b…", "… ********… b…"),
            ("hunter2-an", "hunter2-an"),
            ("hunter2%2Dan…", "********…"),
            (r"{\u0022a\u0022: \u0022hunter2\u002dan…", r"{\u0022a\u0022: \u0022********…"),
            ("ö…", "ö…"),
        ] {
            assert_eq!(mask.text(text), masked);
        }
    }

    #[test]
    fn what_documents_hold_is_hidden() {
        let mask = masker(&[
            "{\"login\": {\"password\": \"in-json-1\", \"pin\": 987654}}",
            "login:\n  password: in-yaml-1\n  keys: [one-key-1, \"two-key-2\"]\n",
            "USER=me\nPASSWORD=\"in-dotenv-1\"\n",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END PRIVATE KEY-----\n",
        ]);
        for secret in
            ["in-json-1", "987654", "in-yaml-1", "one-key-1", "two-key-2", "in-dotenv-1", "MIIEvQIBADAN"]
        {
            assert_eq!(mask.text(&format!("a {secret} b")), "a ******** b");
        }
        assert_eq!(mask.text("-----BEGIN PRIVATE KEY-----"), "-----BEGIN PRIVATE KEY-----");
    }

    #[test]
    fn documents_are_hidden_in() {
        let mask = masker(&["hunter2", "1234", "7654321", "ab", "true", ""]);
        let mut value = json!({"a": "x hunter2 y", "hunter2": [1234, 12345, 7_654_321, "1234", "12345", "ab", true, "", null],
            "deep": [{"b": "{\"c\":\"hunter2\"}"}]});
        mask.value(&mut value);
        let expected = json!({"a": format!("x {MASK} y"), MASK: [MASK, 12345, MASK, MASK, "12345", "ab", true, "", null],
            "deep": [{"b": "{\"c\":\"********\"}"}]});
        assert_eq!(value, expected);
        let mut two = json!({"hunter2": 1, "HUNTER2": 2});
        mask.value(&mut two);
        assert_eq!(two.as_object().unwrap().len(), 2);
        for (text, masked) in
            [("\"hunter2\"", "\"********\""), ("1234", "\"********\""), ("\"x hunter2…", "\"x ********…")]
        {
            let mut json = text.to_owned();
            mask.json(&mut json);
            assert_eq!(json, masked);
        }
    }

    #[test]
    fn what_cannot_be_looked_for_hides_everything() {
        let long: Vec<String> = (0..60_000).map(|n| format!("value-{n}-{:x}", n * 7919)).collect();
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        for mask in [masker(&long), Masker::new(&SecretValues::everything())] {
            assert_eq!(mask.text("anything"), MASK);
            let mut value = json!({"a": ["b", 1]});
            mask.value(&mut value);
            let text = value.to_string();
            assert!(text.contains(MASK) && !text.contains(['a', 'b', '1']), "{text}");
            let mut text = "b".to_owned();
            mask.string(&mut text);
            assert_eq!(text, MASK);
        }
        assert!(masker(&[]).text("anything") == "anything");
    }

    #[test]
    fn what_is_public_is_not_hidden() {
        let mut secrets = SecretValues::default();
        secrets.add("production");
        secrets.add("hunter2");
        secrets.is_public("production");
        assert_eq!(Masker::new(&secrets).text("hunter2 of production"), "******** of production");
    }
}
