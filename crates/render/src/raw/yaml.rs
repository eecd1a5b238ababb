//! YAML as Go's `sigs.k8s.io/yaml` reads it: YAML 1.1 scalars, merge keys, keys that become strings.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

use super::Document;

/// Values after aliases are expanded: a few kilobytes of aliases can stand for gigabytes.
const MAX_VALUES: usize = 2_000_000;
const MAX_DEPTH: usize = 100;

/// Where and why a file is not YAML.
pub(super) struct Failure {
    /// 1-based line.
    pub(super) line: usize,
    /// What is wrong there.
    pub(super) message: String,
}

/// All documents that hold anything.
pub(super) fn parse(text: &str) -> Result<Vec<Document>, Failure> {
    let mut loader =
        Loader { parser: Parser::new_from_str(text), anchors: HashMap::new(), line: 1, values: 0 };
    let mut documents = Vec::new();
    loop {
        match loader.next()? {
            Event::StreamEnd => return Ok(documents),
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            Event::DocumentStart(_) => loader.anchors.clear(),
            event => {
                let line = loader.line;
                let value = loader.value(event, 0)?;
                if !value.is_null() {
                    documents.push(Document { value, line });
                }
            }
        }
    }
}

struct Loader<'t> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    /// Values of finished anchors and how many values each holds.
    anchors: HashMap<usize, (Value, usize)>,
    line: usize,
    values: usize,
}

impl<'t> Loader<'t> {
    fn next(&mut self) -> Result<Event<'t>, Failure> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                self.line = span.start.line();
                Ok(event)
            }
            Some(Err(error)) => {
                Err(Failure { line: error.marker().line(), message: error.info().to_owned() })
            }
            None => Ok(Event::StreamEnd),
        }
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, Failure> {
        Err(Failure { line: self.line, message: message.into() })
    }

    fn count(&mut self, values: usize) -> Result<(), Failure> {
        self.values += values;
        if self.values > MAX_VALUES {
            return self.fail(format!("more than {MAX_VALUES} values once aliases are expanded"));
        }
        Ok(())
    }

    fn value(&mut self, event: Event<'t>, depth: usize) -> Result<Value, Failure> {
        if depth > MAX_DEPTH {
            return self.fail(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        let before = self.values;
        self.count(1)?;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => (self.scalar(&text, style, tag.as_deref())?, anchor),
            Event::SequenceStart(anchor, ..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => break,
                        event => items.push(self.value(event, depth + 1)?),
                    }
                }
                (Value::Array(items), anchor)
            }
            Event::MappingStart(anchor, ..) => (self.mapping(depth)?, anchor),
            Event::Alias(anchor) => {
                let Some((value, size)) = self.anchors.get(&anchor).cloned() else {
                    return self.fail("an alias to an anchor that is not finished yet");
                };
                self.count(size)?;
                return Ok(value);
            }
            _ => return self.fail("unexpected end of the document"),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, (value.clone(), self.values - before));
        }
        Ok(value)
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, Failure> {
        let mut map = Map::new();
        let mut merges = Vec::new();
        loop {
            let event = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            let key_line = self.line;
            let key = self.value(event, depth + 1)?;
            let key = match key {
                Value::String(text) => text,
                Value::Null => "null".to_owned(),
                Value::Bool(_) | Value::Number(_) => key.to_string(),
                Value::Array(_) | Value::Object(_) => return self.fail("a key that is not a scalar"),
            };
            let event = self.next()?;
            let value = self.value(event, depth + 1)?;
            if merge {
                merges.push(value);
            } else if map.contains_key(&key) {
                return Err(Failure { line: key_line, message: format!("the key {key:?} appears twice") });
            } else {
                map.insert(key, value);
            }
        }
        for merge in merges {
            let sources = match merge {
                Value::Array(sources) => sources,
                source => vec![source],
            };
            for source in sources {
                let Value::Object(source) = source else {
                    return self.fail("a merge key (<<) needs a mapping, or a list of mappings");
                };
                for (key, value) in source {
                    map.entry(key).or_insert(value);
                }
            }
        }
        Ok(Value::Object(map))
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, Failure> {
        let core = tag.filter(|tag| tag.is_yaml_core_schema()).map(|tag| tag.suffix.as_str());
        match core {
            Some("str") => Ok(text.into()),
            Some("binary") => match binary(text) {
                Some(text) => Ok(text.into()),
                None => self.fail("!!binary that is not base64 of UTF-8 text"),
            },
            None if style != ScalarStyle::Plain || tag.is_some() => Ok(text.into()),
            _ => match plain(text) {
                Some(value) => Ok(value),
                None => self.fail(format!("the number {text} cannot be written as JSON")),
            },
        }
    }
}

fn binary(text: &str) -> Option<String> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let packed: String = text.split_whitespace().collect();
    String::from_utf8(STANDARD.decode(packed).ok()?).ok()
}

/// A plain scalar by YAML 1.1's rules; `None` for numbers that JSON has no words for.
fn plain(text: &str) -> Option<Value> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Some(Value::Null),
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            return Some(Value::Bool(true));
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return Some(Value::Bool(false));
        }
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF" | ".nan"
        | ".NaN" | ".NAN" => return None,
        _ => {}
    }
    let starts_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    if !starts_number {
        return Some(text.into());
    }
    if let Some(number) = integer(&text.replace('_', "")) {
        return Some(number);
    }
    if is_float(text) {
        let number: f64 = text.parse().ok()?;
        // Go writes a whole float without a fraction.
        if number.fract() == 0.0 && number.abs() < 9e15 {
            return Some(Value::from(number as i64));
        }
        return Number::from_f64(number).map(Value::Number);
    }
    Some(text.into())
}

/// Go's `strconv.ParseInt(text, 0, 64)`: decimal, 0x, 0o, 0b, and a leading 0 for octal.
fn integer(text: &str) -> Option<Value> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = if let Some(hex) = lower.strip_prefix("0x") {
        (16, hex)
    } else if let Some(octal) = lower.strip_prefix("0o") {
        (8, octal)
    } else if let Some(bits) = lower.strip_prefix("0b") {
        (2, bits)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        0i64.checked_sub_unsigned(magnitude).map(Value::from)
    } else {
        Some(Value::from(magnitude))
    }
}

fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    exponent_fits && digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(text: &str) -> Value {
        let mut documents = parse(text).map_err(|f| format!("{}: {}", f.line, f.message)).unwrap();
        assert_eq!(documents.len(), 1, "{text}");
        documents.remove(0).value
    }

    fn error(text: &str) -> (usize, String) {
        parse(text).map(|_| ()).map_err(|f| (f.line, f.message)).unwrap_err()
    }

    #[test]
    fn scalars_are_those_of_go() {
        let text = "a: yes\nb: off\nc: 0644\nd: 0x1F\ne: 1_000\nf: 1.0\ng: 1e3\nh: 2001-01-01\n\
                    i: 1.2.3\nj: ~\nk: \"yes\"\nl: !!str 12\nm: -5\nn: .5\no: +1\np: 09\nq: 12e\n1: x\ntrue: y2\n";
        assert_eq!(
            one(text),
            json!({"a": true, "b": false, "c": 420, "d": 31, "e": 1000, "f": 1, "g": 1000,
                "h": "2001-01-01", "i": "1.2.3", "j": null, "k": "yes", "l": "12", "m": -5,
                "n": 0.5, "o": 1, "p": 9, "q": "12e", "1": "x", "true": "y2"})
        );
    }

    #[test]
    fn merge_keys_and_aliases() {
        let text = "base: &b {x: 1, y: 2}\nlist: &l [1, 2]\nuse:\n  <<: *b\n  y: 3\nmore: *l\n";
        assert_eq!(one(text)["use"], json!({"x": 1, "y": 3}));
        assert_eq!(one(text)["more"], json!([1, 2]));
    }

    #[test]
    fn what_is_wrong_is_named_by_line() {
        assert_eq!(error("a: 1\nb: 2\na: 3\n"), (3, "the key \"a\" appears twice".to_owned()));
        assert_eq!(error("a: [1, 2\nb: 3\n").0, 2);
        assert!(error("a: &x [*x]\n").1.contains("not finished"));
        let deep = error(&"[".repeat(5000)).1;
        assert!(deep.contains("deep") || deep.contains("recursion"), "{deep}");
    }

    #[test]
    fn aliases_do_not_explode() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for n in 1..9 {
            let previous = format!("*a{}, ", n - 1).repeat(10);
            text = format!("{text}a{n}: &a{n} [{}]\n", previous.trim_end_matches(", "));
        }
        assert!(error(&text).1.contains("aliases"));
    }

    #[test]
    fn documents_know_their_lines() {
        let documents = parse("# c\n---\na: 1\n---\n---\n\nb: 2\n...\n").map_err(|f| f.message).unwrap();
        let lines: Vec<_> = documents.iter().map(|d| d.line).collect();
        assert_eq!(lines, [3, 7]);
    }
}
