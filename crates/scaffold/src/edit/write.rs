//! New values as text, in the manner of the text that they come into.

use std::fmt::Write as _;

use plural_render::yaml::{Emitter, Layout, Place};
use serde_json::Value;

/// Longest key that is written without quotes of its own kind.
const MAX_PLAIN: usize = 120;

/// The language of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Yaml,
    Json,
}

/// Knows how the text is written.
pub(super) struct Writer {
    style: Style,
    /// Its line break.
    pub(super) newline: &'static str,
    /// Spaces before the dash of a sequence under a key.
    dash_indent: usize,
    /// One level of JSON.
    unit: String,
    /// Whether JSON stands in lines.
    pub(super) is_pretty: bool,
    /// Whether there is no space behind a comma.
    pub(super) is_tight: bool,
}

impl Writer {
    pub(super) fn new(text: &str, style: Style) -> Self {
        let newline = match text.find('\n') {
            Some(at) if at > 0 && text.as_bytes()[at - 1] == b'\r' => "\r\n",
            _ => "\n",
        };
        let unit = text
            .lines()
            .skip(1)
            .map(|line| &line[..line.len() - line.trim_start().len()])
            .find(|indent| !indent.is_empty())
            .unwrap_or("  ")
            .to_owned();
        let is_pretty = style == Style::Json && text.trim().contains('\n');
        let is_tight =
            style == Style::Json && !text.contains(", ") && !text.contains(": ") && text.contains(':');
        Self { style, newline, dash_indent: dash_indent(text), unit, is_pretty, is_tight }
    }

    /// A value that replaces a scalar between brackets, in the same quotes where that is possible.
    pub(super) fn like(&self, old: &str, want: &Value, indent: Option<&str>) -> String {
        if self.style == Style::Yaml
            && let (Some(text), Value::String(value)) = (plain_like(old), want)
            && text == "'"
            && !value.chars().any(char::is_control)
        {
            return format!("'{}'", value.replace('\'', "''"));
        }
        self.flow(want, indent)
    }

    /// A scalar, or an empty collection, that replaces `old` in a block.
    pub(super) fn like_block(&self, old: &str, want: &Value, column: usize) -> String {
        if let Value::String(value) = want
            && !value.chars().any(char::is_control)
        {
            match plain_like(old) {
                Some("'") => return format!("'{}'", value.replace('\'', "''")),
                Some("\"") => return quoted(value),
                _ => {}
            }
        }
        self.scalar(want, column)
    }

    /// `value` between braces or brackets, or in them; in lines where its own line is indented by `indent`.
    pub(super) fn flow(&self, value: &Value, indent: Option<&str>) -> String {
        let mut out = String::new();
        self.write_flow(&mut out, value, indent.filter(|_| self.is_pretty));
        out
    }

    fn write_flow(&self, out: &mut String, value: &Value, indent: Option<&str>) {
        let (open, close, count) = match value {
            Value::Array(items) => ('[', ']', items.len()),
            Value::Object(entries) => ('{', '}', entries.len()),
            scalar => {
                out.push_str(&scalar_json(scalar));
                return;
            }
        };
        out.push(open);
        let inner = indent.map(|indent| format!("{indent}{}", self.unit));
        let mut write = |this: &Self, at: usize, key: Option<&String>, value: &Value| {
            if at > 0 {
                out.push_str(if inner.is_some() || this.is_tight { "," } else { ", " });
            }
            if let Some(inner) = &inner {
                out.push_str(this.newline);
                out.push_str(inner);
            }
            if let Some(key) = key {
                out.push_str(&quoted(key));
                out.push_str(if this.is_tight { ":" } else { ": " });
            }
            this.write_flow(out, value, inner.as_deref());
        };
        match value {
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, item)| write(self, at, None, item));
            }
            Value::Object(entries) => {
                entries.iter().enumerate().for_each(|(at, (key, value))| write(self, at, Some(key), value));
            }
            _ => {}
        }
        if let (Some(indent), true) = (indent, count > 0) {
            out.push_str(self.newline);
            out.push_str(indent);
        }
        out.push(close);
    }

    /// `key: value` between braces.
    pub(super) fn flow_entry(&self, key: &str, value: &Value, indent: Option<&str>) -> String {
        let key = if self.style == Style::Yaml { plain_or_quoted(key) } else { quoted(key) };
        format!("{key}{}{}", if self.is_tight { ":" } else { ": " }, self.flow(value, indent))
    }

    /// `key: value` at `column`, without the indentation of its first line and the last line break.
    pub(super) fn block_entry(&self, key: &str, value: &Value, column: usize) -> String {
        format!("{}:{}", plain_or_quoted(key), self.block_value(value, column, false))
    }

    /// `- value` at `column`.
    pub(super) fn block_item(&self, value: &Value, column: usize) -> String {
        format!("-{}", self.block_value(value, column, true))
    }

    /// A whole document, without its last line break.
    pub(super) fn document(&self, value: &Value) -> String {
        let lines: Vec<String> = match value {
            Value::Object(entries) if !entries.is_empty() => {
                entries.iter().map(|(key, value)| self.block_entry(key, value, 0)).collect()
            }
            Value::Array(items) if !items.is_empty() => {
                items.iter().map(|item| self.block_item(item, 0)).collect()
            }
            scalar => return self.scalar(scalar, 0),
        };
        lines.join(self.newline)
    }

    /// What follows the colon or dash of an entry at `column`; it begins with a space or a line break.
    pub(super) fn block_value(&self, value: &Value, column: usize, inline: bool) -> String {
        let newline = self.newline;
        match value {
            Value::Object(entries) if !entries.is_empty() => {
                let column = column + 2;
                let mut out = String::new();
                for (at, (key, value)) in entries.iter().enumerate() {
                    if inline && at == 0 {
                        out.push(' ');
                    } else {
                        let _ = write!(out, "{newline}{}", " ".repeat(column));
                    }
                    out.push_str(&self.block_entry(key, value, column));
                }
                out
            }
            Value::Array(items) if !items.is_empty() => {
                let column = if inline { column + 2 } else { column + self.dash_indent };
                let mut out = String::new();
                for (at, item) in items.iter().enumerate() {
                    if inline && at == 0 {
                        out.push(' ');
                    } else {
                        let _ = write!(out, "{newline}{}", " ".repeat(column));
                    }
                    out.push_str(&self.block_item(item, column));
                }
                out
            }
            scalar => format!(" {}", self.scalar(scalar, column)),
        }
    }

    /// A scalar or an empty collection in a block; it belongs to an entry at `column`.
    fn scalar(&self, value: &Value, column: usize) -> String {
        match value {
            Value::String(text) if text.contains('\n') => self.literal(text, column),
            Value::String(text) => plain_or_quoted(text),
            other => scalar_json(other),
        }
    }

    /// A text of several lines as a block where it can be one.
    fn literal(&self, text: &str, column: usize) -> String {
        let body = text.strip_suffix('\n').unwrap_or(text);
        let simple = !body.starts_with([' ', '\t', '\n'])
            && !body.ends_with('\n')
            && !text.chars().any(|c| c.is_control() && c != '\n')
            && !text.contains(['\u{85}', '\u{2028}', '\u{2029}', '\u{feff}'])
            && body.lines().all(|line| !line.ends_with([' ', '\t']));
        if !simple {
            return quoted(text);
        }
        let mut out = (if text.ends_with('\n') { "|" } else { "|-" }).to_owned();
        for line in body.split('\n') {
            out.push_str(self.newline);
            if !line.is_empty() {
                let _ = write!(out, "{}{line}", " ".repeat(column + 2));
            }
        }
        out
    }
}

/// The quote that a scalar is written in; empty for one without.
fn plain_like(old: &str) -> Option<&'static str> {
    match old.as_bytes().first() {
        Some(b'\'') => Some("'"),
        Some(b'"') => Some("\""),
        Some(_) => Some(""),
        None => None,
    }
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

fn scalar_json(value: &Value) -> String {
    match value {
        Value::Array(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
        scalar => scalar.to_string(),
    }
}

/// A text of one line as YAML writes it.
fn plain_or_quoted(text: &str) -> String {
    if text.len() > MAX_PLAIN || text.chars().any(char::is_control) {
        return quoted(text);
    }
    let mut out = String::new();
    Emitter::new(&mut out, Layout::Indented).text(Place::ROOT, text);
    let line = out.trim_end_matches('\n');
    if line.contains('\n') || line.is_empty() { quoted(text) } else { line.to_owned() }
}

/// How far the first sequence under a key is indented; two where there is none.
fn dash_indent(text: &str) -> usize {
    let mut key: Option<usize> = None;
    for line in text.lines() {
        let trimmed = line.trim_start();
        let column = line.len() - trimmed.len();
        if trimmed.starts_with("- ")
            && let Some(key) = key
        {
            return if column > key { 2 } else { 0 };
        }
        key = if trimmed.split(" #").next().unwrap_or_default().trim_end().ends_with(':')
            && !trimmed.starts_with(['#', '-'])
        {
            Some(column)
        } else if trimmed.is_empty() || trimmed.starts_with('#') {
            key
        } else {
            None
        };
    }
    2
}
