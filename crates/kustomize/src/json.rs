//! Nodes as JSON: decoding into settings the way `encoding/json` does, and normal forms.

use std::collections::BTreeMap;

use super::error::{Error, Res};
use super::quote::quote;
use super::yaml::emit::number_text;
use super::yaml::node::{Data, Node, Style, Tag};
use super::yaml::number::{Number, format_g, format_json, parse_int};
use super::yaml::resolve::{Dialect, Meaning, is_not_text, key_is_text, meaning};

/// Where in a structure a value is decoded, for messages.
pub(crate) struct Cx {
    root: &'static str,
    path: String,
    strict: bool,
}

impl Cx {
    /// Unknown fields are errors.
    pub(crate) fn strict(root: &'static str) -> Self {
        Self { root, path: String::new(), strict: true }
    }

    /// Unknown fields are skipped.
    pub(crate) fn lenient(root: &'static str) -> Self {
        Self { root, path: String::new(), strict: false }
    }

    fn below(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Self { root: self.root, path, strict: self.strict }
    }

    fn mismatch(&self, node: &Node, wanted: &str) -> Error {
        let found = match &node.data {
            Data::Map(_) => "object",
            Data::Seq(_) => "array",
            Data::Scalar(_) => match node.tag {
                Tag::Bool => "bool",
                Tag::Int | Tag::Float => "number",
                _ => "string",
            },
        };
        let place = if self.path.is_empty() {
            format!("Go value of type types.{}", self.root)
        } else {
            format!("Go struct field {}.{} of type {wanted}", self.root, self.path)
        };
        Error::new(format!("json: cannot unmarshal {found} into {place}"))
    }

    /// Visits the fields of an object with their names in lower case; `take` says whether it knows the field.
    ///
    /// # Errors
    /// Not an object, an unknown field, or what `take` says.
    pub(crate) fn object(
        &self,
        node: &Node,
        mut take: impl FnMut(&str, &Node, &Self) -> Res<bool>,
    ) -> Res<()> {
        if node.is_null() {
            return Ok(());
        }
        let Data::Map(entries) = &node.data else { return Err(self.mismatch(node, "object")) };
        // The program goes through JSON, whose keys are sorted: the first complaint counts.
        let mut sorted: Vec<_> = entries.iter().map(|(k, v)| (key_text(k), v)).collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, value) in sorted {
            if !take(&name.to_ascii_lowercase(), value, &self.below(&name))? && self.strict {
                return Err(Error::new(format!("json: unknown field {}", quote(&name))));
            }
        }
        Ok(())
    }

    pub(crate) fn list<T>(&self, node: &Node, mut item: impl FnMut(&Node, &Self) -> Res<T>) -> Res<Vec<T>> {
        if node.is_null() {
            return Ok(Vec::new());
        }
        let Data::Seq(items) = &node.data else { return Err(self.mismatch(node, "[]string")) };
        items.iter().map(|n| item(n, self)).collect()
    }

    pub(crate) fn text(&self, node: &Node) -> Res<String> {
        match (&node.data, &node.tag) {
            (_, Tag::Null) => Ok(String::new()),
            (Data::Scalar(t), Tag::Timestamp) => match meaning(node, Dialect::Old).map_err(Error::new)? {
                Meaning::Time(t) => Ok(t),
                _ => Ok(t.to_string()),
            },
            (Data::Scalar(t), Tag::Str | Tag::Merge | Tag::Binary | Tag::Other(_) | Tag::None) => {
                Ok(t.to_string())
            }
            _ => Err(self.mismatch(node, "string")),
        }
    }

    pub(crate) fn texts(&self, node: &Node) -> Res<Vec<String>> {
        self.list(node, |n, cx| cx.text(n))
    }

    pub(crate) fn bool(&self, node: &Node) -> Res<bool> {
        if node.is_null() {
            return Ok(false);
        }
        match (&node.tag, meaning(node, Dialect::Old).map_err(Error::new)?) {
            (Tag::Bool, Meaning::Bool(b)) => Ok(b),
            _ => Err(self.mismatch(node, "bool")),
        }
    }

    pub(crate) fn int(&self, node: &Node) -> Res<i64> {
        if node.is_null() {
            return Ok(0);
        }
        match (&node.tag, meaning(node, Dialect::Old).map_err(Error::new)?) {
            (Tag::Int | Tag::Float, Meaning::Number(n)) => match n {
                Number::Int(i) => Ok(i),
                Number::Float(f) if f.fract() == 0.0 && f.abs() < 9e15 => Ok(f as i64),
                _ => Err(self.mismatch(node, "int64")),
            },
            _ => Err(self.mismatch(node, "int64")),
        }
    }

    pub(crate) fn text_map(&self, node: &Node) -> Res<BTreeMap<String, String>> {
        let mut out = BTreeMap::new();
        if node.is_null() {
            return Ok(out);
        }
        let Data::Map(entries) = &node.data else { return Err(self.mismatch(node, "map[string]string")) };
        for (key, value) in entries {
            out.insert(key_text(key), self.text(value)?);
        }
        Ok(out)
    }
}

/// A key as JSON writes it.
pub(crate) fn key_text(key: &Node) -> String {
    match (&key.tag, meaning(key, Dialect::Old)) {
        (Tag::Bool, Ok(Meaning::Bool(b))) => b.to_string(),
        (Tag::Int | Tag::Float, Ok(Meaning::Number(n))) => {
            number_text(n).unwrap_or_else(|_| key.text().to_owned())
        }
        _ => key.text().to_owned(),
    }
}

/// What happens to numbers on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Integers stay exact.
    Exact,
    /// Every number becomes a float and is printed shortest, as a patched document's numbers are.
    Floats,
}

/// Rewrites a tree to what it is after it went through JSON: plain texts, canonical numbers.
///
/// # Errors
/// Keys that are no texts, infinities, tags that do not fit.
pub(crate) fn normalize(node: &mut Node, dialect: Dialect, numbers: Numbers) -> Result<(), String> {
    if dialect == Dialect::New {
        // At the top any scalar is a key by its text; further down only texts are.
        for (key, _) in node.entries_mut().iter_mut().filter(|(k, _)| matches!(k.data, Data::Scalar(_))) {
            key.tag = Tag::Str;
        }
    }
    normalize_in(node, dialect, numbers, false)
}

fn normalize_in(node: &mut Node, dialect: Dialect, numbers: Numbers, flow: bool) -> Result<(), String> {
    let flow = flow || (node.style.has(Style::FLOW) && dialect == Dialect::New);
    match &mut node.data {
        Data::Map(entries) => {
            for (key, value) in entries.iter_mut() {
                if dialect == Dialect::New && !key_is_text(key) {
                    return Err("json: unsupported type: map[interface {}]interface {}".to_owned());
                }
                if key.tag != Tag::Str {
                    *key = Node::tagged(&key_text(key), Tag::Str);
                }
                normalize_in(value, dialect, numbers, flow)?;
            }
            if !node.is_null() {
                node.tag = Tag::Map;
            }
            node.style = Style::PLAIN;
        }
        Data::Seq(items) => {
            for item in items {
                normalize_in(item, dialect, numbers, flow)?;
            }
            node.tag = Tag::Seq;
            node.style = Style::PLAIN;
        }
        // Between braces the library prints nothing as an empty text.
        Data::Scalar(text) if flow && text.is_empty() && node.tag == Tag::Null => {
            *node = Node { style: Style::DOUBLE, ..Node::tagged("", Tag::Str) };
        }
        Data::Scalar(_) => normalize_scalar(node, dialect, numbers)?,
    }
    Ok(())
}

fn normalize_scalar(node: &mut Node, dialect: Dialect, numbers: Numbers) -> Result<(), String> {
    node.share = 0;
    match meaning(node, dialect)? {
        Meaning::Text => {
            if dialect == Dialect::New
                && let std::borrow::Cow::Owned(text) = super::yaml::text::reread(node)
            {
                node.set_text(&text);
            }
            node.tag = Tag::Str;
            let text = node.text();
            node.style = if text.contains('\n') {
                Style::LITERAL
            } else if text.is_empty() || is_not_text(text) {
                Style::DOUBLE
            } else {
                Style::PLAIN
            };
        }
        Meaning::Time(t) => *node = Node::tagged(&t, Tag::Str),
        Meaning::Null => *node = Node::null(),
        Meaning::Bool(b) => *node = Node::tagged(if b { "true" } else { "false" }, Tag::Bool),
        Meaning::Number(n) => {
            let text = match (n, numbers) {
                (Number::Int(i), Numbers::Floats) => format_g(i as f64),
                (Number::Uint(u), Numbers::Floats) => format_g(u as f64),
                (Number::Float(f), Numbers::Floats) if f.is_finite() => format_g(f),
                (Number::Float(f), Numbers::Exact) if f.is_finite() => format_json(f),
                _ => number_text(n)?,
            };
            let integral = parse_int(&text).is_some();
            if node.text() != text {
                node.set_text(&text);
            }
            node.tag = if integral { Tag::Int } else { Tag::Float };
            node.style = Style::PLAIN;
        }
    }
    Ok(())
}

/// Appends the compact JSON of a normalized tree, keys sorted by bytes, as `json.Marshal` prints it.
pub(crate) fn write_json(node: &Node, out: &mut String) {
    match &node.data {
        Data::Map(_) if node.is_null() => out.push_str("null"),
        Data::Map(entries) => {
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_by(|a, b| a.0.text().cmp(b.0.text()));
            out.push('{');
            for (i, (k, v)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_text(k.text(), out);
                out.push(':');
                write_json(v, out);
            }
            out.push('}');
        }
        Data::Seq(items) => {
            out.push('[');
            for (i, v) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(v, out);
            }
            out.push(']');
        }
        Data::Scalar(text) => match node.tag {
            Tag::Null => out.push_str("null"),
            Tag::Bool | Tag::Int => out.push_str(text),
            Tag::Float => out.push_str(&text.parse::<f64>().map_or_else(|_| text.to_string(), format_json)),
            _ => write_text(text, out),
        },
    }
}

/// A JSON text with the escapes of `encoding/json`, which include `<`, `>` and `&`.
pub(crate) fn write_text(text: &str, out: &mut String) {
    use std::fmt::Write as _;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0C' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\x1F' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
