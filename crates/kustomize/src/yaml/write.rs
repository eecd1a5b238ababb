//! Texts within texts: a tree printed in its own order, as the third generation of the library does, or as JSON.

use std::fmt::Write as _;

use super::node::{Data, Node, Style, Tag};
use super::resolve::{Dialect, resolve};
use crate::json::{write_json, write_text};
use crate::quote::quote;

/// JSON of a normalized tree; indented by two if `pretty`.
pub(crate) fn json(node: &Node, pretty: bool) -> String {
    let mut out = String::new();
    if pretty {
        indented(node, 0, &mut out);
    } else {
        write_json(node, &mut out);
    }
    out
}

fn indented(node: &Node, level: usize, out: &mut String) {
    let line = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", level));
    };
    match &node.data {
        Data::Map(entries) if !entries.is_empty() => {
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_by(|a, b| a.0.text().cmp(b.0.text()));
            out.push('{');
            for (i, (k, v)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                line(out, level + 1);
                write_text(k.text(), out);
                out.push_str(": ");
                indented(v, level + 1, out);
            }
            line(out, level);
            out.push('}');
        }
        Data::Seq(items) if !items.is_empty() => {
            out.push('[');
            for (i, v) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                line(out, level + 1);
                indented(v, level + 1, out);
            }
            line(out, level);
            out.push(']');
        }
        _ => write_json(node, out),
    }
}

/// YAML in the tree's own order with its own quoting; lines are not folded.
pub(crate) fn yaml(node: &Node) -> String {
    let mut w = Writer { out: String::new(), watched: None, found: None };
    w.block(node, 0, false);
    if !w.out.ends_with('\n') {
        w.out.push('\n');
    }
    w.out
}

/// Where a key that a map has twice stands when the object is printed.
pub(crate) fn repeated(node: &Node, key: &str) -> String {
    let mut w = Writer { out: String::new(), watched: Some(key.to_owned()), found: None };
    w.block(node, 0, false);
    match w.found {
        Some((first, again)) => {
            format!("  line {again}: mapping key {} already defined at line {first}", quote(key))
        }
        None => format!("  mapping key {} already defined", quote(key)),
    }
}

struct Writer {
    out: String,
    watched: Option<String>,
    found: Option<(usize, usize)>,
}

impl Writer {
    fn pad(&mut self, n: usize) {
        self.out.extend(std::iter::repeat_n(' ', n));
    }

    fn line(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    /// `inline`: the cursor stands behind `- ` or a key's place, where the first line goes on.
    fn block(&mut self, node: &Node, indent: usize, inline: bool) {
        match &node.data {
            Data::Map(entries) if !entries.is_empty() && !node.style.has(Style::FLOW) => {
                let mut first = None;
                for (i, (k, v)) in entries.iter().enumerate() {
                    if i > 0 || !inline {
                        self.line();
                        self.pad(indent);
                    }
                    if self.found.is_none() && self.watched.as_deref() == Some(k.text()) {
                        let line = 1 + self.out.matches('\n').count();
                        match first {
                            Some(before) => self.found = Some((before, line)),
                            None => first = Some(line),
                        }
                    }
                    self.scalar(k, indent, true);
                    self.out.push(':');
                    self.value(v, indent);
                }
            }
            Data::Seq(items) if !items.is_empty() && !node.style.has(Style::FLOW) => {
                for (i, v) in items.iter().enumerate() {
                    if i > 0 || !inline {
                        self.line();
                        self.pad(indent);
                    }
                    self.out.push_str("- ");
                    self.block(v, indent + 2, true);
                }
            }
            Data::Scalar(_) => self.scalar(node, indent, false),
            _ => self.flow(node),
        }
    }

    fn value(&mut self, node: &Node, indent: usize) {
        let flow = node.style.has(Style::FLOW);
        match &node.data {
            Data::Map(m) if !m.is_empty() && !flow => {
                self.out.push('\n');
                self.block(node, indent + 2, false);
            }
            Data::Seq(v) if !v.is_empty() && !flow => {
                self.out.push('\n');
                self.block(node, indent, false);
            }
            Data::Scalar(t) if t.is_empty() && !node.style.is_textual() && node.tag != Tag::Str => {}
            Data::Scalar(_) => {
                self.out.push(' ');
                self.scalar(node, indent + 2, false);
            }
            _ => {
                self.out.push(' ');
                self.flow(node);
            }
        }
    }

    fn flow(&mut self, node: &Node) {
        match &node.data {
            Data::Map(entries) => {
                self.out.push('{');
                for (i, (k, v)) in entries.iter().enumerate() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.flow_scalar(k);
                    self.out.push_str(": ");
                    self.flow(v);
                }
                self.out.push('}');
            }
            Data::Seq(items) => {
                self.out.push('[');
                for (i, v) in items.iter().enumerate() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.flow(v);
                }
                self.out.push(']');
            }
            Data::Scalar(_) => self.flow_scalar(node),
        }
    }

    fn flow_scalar(&mut self, node: &Node) {
        let text = node.text();
        let unsafe_plain = text.contains(['\n', ',', '[', ']', '{', '}']) || text.is_empty();
        if unsafe_plain && !node.style.is_textual() && !node.is_null() {
            self.double(text);
        } else {
            self.scalar(node, 0, true);
        }
    }

    fn scalar(&mut self, node: &Node, indent: usize, one_line: bool) {
        let text = node.text();
        let forced = node.tag == Tag::Str && !matches!(resolve(Dialect::New, text).0, Tag::Str);
        if node.style.has(Style::DOUBLE) || (one_line && text.contains('\n')) {
            self.double(text);
        } else if node.style.has(Style::SINGLE) && !text.contains('\n') {
            self.single(text);
        } else if text.contains('\n') {
            self.literal(text, indent, node.style.has(Style::FOLDED));
        } else if forced {
            self.double(text);
        } else if super::emit::may_be_plain(text) {
            self.out.push_str(text);
        } else {
            self.single(text);
        }
    }

    fn single(&mut self, text: &str) {
        self.out.push('\'');
        self.out.push_str(&text.replace('\'', "''"));
        self.out.push('\'');
    }

    fn double(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\t' => self.out.push_str("\\t"),
                '\r' => self.out.push_str("\\r"),
                c if c.is_control() => {
                    // Writing to a string cannot fail.
                    let _ = write!(self.out, "\\x{:02X}", c as u32);
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn literal(&mut self, text: &str, indent: usize, folded: bool) {
        // A folded text would need its breaks doubled; literal means the same.
        let _ = folded;
        self.out.push('|');
        if text.starts_with([' ', '\n']) {
            self.out.push('2');
        }
        if !text.ends_with('\n') {
            self.out.push('-');
        } else if text == "\n" || text.ends_with("\n\n") {
            self.out.push('+');
        }
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            self.out.push('\n');
            if !line.is_empty() {
                self.pad(indent);
                self.out.push_str(line);
            }
        }
        self.out.push('\n');
    }
}
