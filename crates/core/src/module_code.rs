//! Sources of modules in code of Terraform, OpenTofu and Terragrunt: parsing only, and closed to what it cannot read.
//!
//! It reads as much of the language as tells blocks, attributes, texts and comments apart. Code that does not fit is an error and never a
//! shorter list: a list that lacks a source would let it through.

use std::path::Path;

use serde::Deserialize;
use serde::de::{MapAccess, SeqAccess, Visitor};

/// Blocks that name where code is fetched from: modules, and Terragrunt's own.
const BLOCKS: [&str; 5] = ["module", "terraform", "engine", "unit", "stack"];
/// Blocks, brackets and texts inside each other.
const MAX_DEPTH: usize = 64;

/// Why the sources of a file cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

/// Where code is fetched from, as it stands there; absent where the tool puts it together while it runs.
pub type Source = Option<String>;

/// Whether a file of this name may name modules.
pub fn is_module_code(path: &str) -> bool {
    // As whoever writes `main.tf/.` or `main.tf/` reads it.
    let name = path.rsplit('/').find(|part| !matches!(*part, "" | ".")).unwrap_or(path);
    let ends = [".tf", ".tofu", ".tf.json", ".tofu.json", ".hcl", ".hcl.json"];
    name != ".terraform.lock.hcl" && ends.into_iter().any(|end| name.ends_with(end))
}

/// All sources of a file of this name.
///
/// # Errors
/// [`Unreadable`] for what is no such code.
pub fn module_sources(path: &str, content: &[u8]) -> Result<Vec<Source>, Unreadable> {
    let mut found = Vec::new();
    match Document::of(path, content)? {
        Document::Json(document) => {
            for (name, inner) in document.entries() {
                match name.as_str() {
                    "terraform" | "engine" => inner.sources(0, &mut found)?,
                    name if BLOCKS.contains(&name) => inner.sources(1, &mut found)?,
                    _ => {}
                }
            }
        }
        Document::Code(text) => visit(text, &mut |blocks, name, value| {
            let fetches = blocks.last().is_some_and(|block| BLOCKS.contains(block));
            if let Some(value) = value.filter(|_| fetches && name == "source") {
                found.push(value.text);
            }
        })?,
    }
    Ok(found)
}

/// A file, in the one or the other way of writing it.
pub(crate) enum Document<'a> {
    /// As JSON.
    Json(Node),
    /// In the language itself.
    Code(&'a str),
}

impl<'a> Document<'a> {
    pub(crate) fn of(path: &str, content: &'a [u8]) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(content).map_err(|_| Unreadable)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if Path::new(path).extension().is_some_and(|extension| extension == "json") {
            return serde_json::from_str(text).map(Document::Json).map_err(|_| Unreadable);
        }
        Ok(Self::Code(text))
    }
}

/// What is told of each attribute, with its value, and of the beginning of each block, without one: the names of the blocks around it,
/// and its own.
pub(crate) type Visit<'v, 'a> = dyn FnMut(&[&'a str], &'a str, Option<Value<'a>>) + 'v;

/// Goes through the attributes and blocks of code.
pub(crate) fn visit<'a>(text: &'a str, visit: &mut Visit<'_, 'a>) -> Result<(), Unreadable> {
    Code { rest: text }.body(&mut Vec::new(), visit)
}

/// The value of an attribute.
pub(crate) struct Value<'a> {
    /// The text, where it is one in quotes into which nothing is put.
    pub(crate) text: Source,
    /// The same of a text of several lines.
    pub(crate) lines: Source,
    /// It is one text in quotes, whatever is put into it.
    pub(crate) is_quoted: bool,
    /// As it stands in the code.
    pub(crate) raw: &'a str,
}

/// A document of JSON with all of its names, those too that are there twice: the tools read each of them.
pub(crate) enum Node {
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
    Other,
}

impl Node {
    /// What is in maps, and in lists of them, however they are put into each other.
    pub(crate) fn entries(&self) -> Vec<&(String, Self)> {
        match self {
            Self::Map(map) => map.iter().collect(),
            Self::List(list) => list.iter().flat_map(Self::entries).collect(),
            Self::Text(_) | Self::Other => Vec::new(),
        }
    }

    /// Whether some text in it says this.
    pub(crate) fn says(&self, what: &str) -> bool {
        match self {
            Self::Text(text) => text.contains(what),
            Self::List(list) => list.iter().any(|one| one.says(what)),
            Self::Map(map) => map.iter().any(|(_, one)| one.says(what)),
            Self::Other => false,
        }
    }

    /// The sources of blocks that have so many labels.
    fn sources(&self, labels: usize, found: &mut Vec<Source>) -> Result<(), Unreadable> {
        for (name, inner) in self.entries() {
            if labels > 0 {
                inner.sources(labels - 1, found)?;
            } else if name == "source" {
                match inner {
                    Self::Text(text) => found.push(literal(text)),
                    Self::List(_) | Self::Map(_) | Self::Other => return Err(Unreadable),
                }
            }
        }
        Ok(())
    }
}

/// A text into which nothing is put.
fn literal(text: &str) -> Source {
    (!text.contains("${") && !text.contains("%{")).then(|| text.to_owned())
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Nodes)
    }
}

struct Nodes;

impl<'de> Visitor<'de> for Nodes {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(one) = all.next_element()? {
            list.push(one);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(one) = all.next_entry()? {
            map.push(one);
        }
        Ok(Node::Map(map))
    }
}

/// What of the code is still to be read.
struct Code<'a> {
    rest: &'a str,
}

impl<'a> Code<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self, text: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(text) else { return false };
        self.rest = rest;
        true
    }

    /// Whether something is put in here or not, the tools' releases do not say alike.
    fn is_unclear(&self) -> bool {
        self.rest.starts_with("$$$") || self.rest.starts_with("%%%")
    }

    fn skip(&mut self) {
        let mut chars = self.rest.chars();
        chars.next();
        self.rest = chars.as_str();
    }

    /// Blanks and comments, and with `lines` the ends of lines.
    fn blanks(&mut self, lines: bool) -> Result<(), Unreadable> {
        loop {
            if self.rest.starts_with('#') || self.rest.starts_with("//") {
                // The end of the line ends what the comment is behind, too.
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.rest = &self.rest[end..];
            } else if self.take("/*") {
                self.rest = self.rest.split_once("*/").ok_or(Unreadable)?.1;
            } else if self.peek().is_some_and(|c| matches!(c, ' ' | '\t' | '\r') || (lines && c == '\n')) {
                self.skip();
            } else {
                return Ok(());
            }
        }
    }

    fn name(&mut self) -> Option<&'a str> {
        if !self.peek().is_some_and(|c| c.is_alphabetic() || c == '_') {
            return None;
        }
        let text = self.rest;
        let end = text.find(|c: char| !(c.is_alphanumeric() || "_-".contains(c))).unwrap_or(text.len());
        self.rest = &text[end..];
        Some(&text[..end])
    }

    /// The attributes and blocks of a file, or of the innermost of these blocks up to its closing brace.
    fn body(&mut self, blocks: &mut Vec<&'a str>, visit: &mut Visit<'_, 'a>) -> Result<(), Unreadable> {
        if blocks.len() > MAX_DEPTH {
            return Err(Unreadable);
        }
        loop {
            self.blanks(true)?;
            if !blocks.is_empty() && self.take("}") {
                return Ok(());
            }
            let Some(name) = self.name() else {
                return if blocks.is_empty() && self.rest.is_empty() { Ok(()) } else { Err(Unreadable) };
            };
            self.blanks(false)?;
            if self.take("=") {
                let value = self.value()?;
                visit(blocks.as_slice(), name, Some(value));
                continue;
            }
            while !self.take("{") {
                if self.take("\"") {
                    self.quoted(0)?;
                } else if self.name().is_none() {
                    return Err(Unreadable);
                }
                self.blanks(false)?;
            }
            visit(blocks.as_slice(), name, None);
            blocks.push(name);
            self.body(blocks, visit)?;
            blocks.pop();
        }
    }

    /// The value of an attribute, up to the end of its line.
    fn value(&mut self) -> Result<Value<'a>, Unreadable> {
        self.blanks(false)?;
        let begin = self.rest;
        let up_to = |rest: &str| &begin[..begin.len() - rest.len()];
        if let Some(lines) = self.heredoc(0)? {
            return Ok(Value { text: None, lines, is_quoted: false, raw: up_to(self.rest) });
        }
        let (mut text, mut quoted) = (None, None);
        if self.take("\"") {
            text = self.quoted(0)?;
            quoted = Some(up_to(self.rest));
            self.blanks(false)?;
        }
        let before = self.rest.len();
        self.expression(None, 0)?;
        let is_all = self.rest.len() == before;
        Ok(Value {
            text: text.filter(|_| is_all),
            lines: None,
            is_quoted: is_all && quoted.is_some(),
            raw: quoted.filter(|_| is_all).unwrap_or_else(|| up_to(self.rest).trim_end()),
        })
    }

    /// An expression: up to what closes it, or without that to the end of the line or the brace of the block.
    fn expression(&mut self, close: Option<char>, depth: usize) -> Result<(), Unreadable> {
        if depth > MAX_DEPTH {
            return Err(Unreadable);
        }
        loop {
            self.blanks(close.is_some())?;
            let Some(first) = self.peek() else {
                return if close.is_none() { Ok(()) } else { Err(Unreadable) };
            };
            if close.is_none() && matches!(first, '\n' | '}') {
                return Ok(());
            }
            if self.heredoc(depth)?.is_some() {
                // It had the end of its line with it.
                if close.is_none() {
                    return Ok(());
                }
                continue;
            }
            self.skip();
            match first {
                '"' => {
                    self.quoted(depth + 1)?;
                }
                '(' => self.expression(Some(')'), depth + 1)?,
                '[' => self.expression(Some(']'), depth + 1)?,
                '{' => self.expression(Some('}'), depth + 1)?,
                ')' | ']' | '}' => return if close == Some(first) { Ok(()) } else { Err(Unreadable) },
                _ => {}
            }
        }
    }

    /// A text behind its opening quote; absent where something is put into it, or a character stands for another.
    fn quoted(&mut self, depth: usize) -> Result<Source, Unreadable> {
        let (text, mut plain) = (self.rest, true);
        loop {
            let end = text.len() - self.rest.len();
            if self.take("\"") {
                return Ok(plain.then(|| text[..end].to_owned()));
            }
            if self.is_unclear() {
                return Err(Unreadable);
            }
            if self.take("$${") || self.take("%%{") {
                plain = false;
            } else if self.take("${") || self.take("%{") {
                plain = false;
                self.expression(Some('}'), depth + 1)?;
            } else if self.take("\\") {
                plain = false;
                self.skip();
            } else if self.peek().is_none_or(|c| c == '\n') {
                return Err(Unreadable);
            } else {
                self.skip();
            }
        }
    }

    /// A text of several lines, `<<END` or `<<-END`, up to and with the line `END`, if there is one here: absent in turn where something is
    /// put into it.
    fn heredoc(&mut self, depth: usize) -> Result<Option<Source>, Unreadable> {
        let Some(behind) = self.rest.strip_prefix("<<") else { return Ok(None) };
        let mut inner = Code { rest: behind.strip_prefix('-').unwrap_or(behind) };
        let Some(end) = inner.name() else { return Ok(None) };
        if !inner.take("\r\n") && !inner.take("\n") {
            return Ok(None);
        }
        let (text, mut plain) = (inner.rest, true);
        loop {
            let (line, behind) = inner.rest.split_once('\n').ok_or(Unreadable)?;
            if line.trim() == end {
                self.rest = behind;
                return Ok(Some(plain.then(|| text[..text.len() - inner.rest.len()].to_owned())));
            }
            // What is put into it may have lines of its own, and the mark among them.
            while !inner.take("\n") {
                if inner.is_unclear() || inner.rest.is_empty() {
                    return Err(Unreadable);
                }
                if inner.take("$${") || inner.take("%%{") {
                    plain = false;
                    continue;
                }
                if inner.take("${") || inner.take("%{") {
                    plain = false;
                    inner.expression(Some('}'), depth + 1)?;
                } else {
                    inner.skip();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expect: &[Option<&str>]) {
        let found = module_sources(path, text.as_bytes()).unwrap_or_else(|_| panic!("unreadable: {text}"));
        let expect: Vec<Source> = expect.iter().map(|one| one.map(str::to_owned)).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn sources_of_modules_are_found_and_no_others() {
        check(
            "main.tf",
            r#"
terraform {
  required_providers { aws = { source = "hashicorp/aws" } }
}
module "a" { source = "hashicorp/consul/aws" }
module "b" {
  providers = { aws = aws.x }
  version   = "1" # a comment
  source    = "git::https://h/x.git//sub?ref=v1" // another
}
module c {
  source = /* here */ "../c"
}
resource "aws_s3_object" "o" {
  source = "not-a-module"
  provisioner "file" { source = "nor/this/one" }
}
module "d" { source = var.where }
module "e" { source = "x/${var.name}/y" }
module "f" { source = "x/y/z" == "x/y/z" ? "a/b/c" : "d/e/f" }
module "g" { source = "a\u002fb/c" }
"#,
            &[
                Some("hashicorp/consul/aws"),
                Some("git::https://h/x.git//sub?ref=v1"),
                Some("../c"),
                None,
                None,
                None,
                None,
            ],
        );
        check(
            "live/terragrunt.hcl",
            "terraform {\n  source = \"tfr:///a/b/c?version=1\"\n}\n",
            &[Some("tfr:///a/b/c?version=1")],
        );
        check("x.tf", "", &[]);
    }

    #[test]
    fn nothing_hides_a_module() {
        let module = "module \"m\" {\n  source = \"evil/m/x\"\n}\n";
        for before in [
            "x = <<EOT\n  text \"\n  EOT\n",
            "x = <<-EOT\n${\"EOT\"} {\n${[\n\"a\",\n]}\nEOT\n",
            "x = [<<EOT\n}\nEOT\n]\n",
            "x = \"${f(\"}\", \"{\")}\"\n",
            "x = \"$${\"\n",
            "x = \"\\\"\"\n",
            "/* module { */ x = 1 # {\n",
            "x = 1 << 2\n",
            "x = { a = \"}\" /* } */ }\n",
            "\u{feff}x = 1\r\n",
        ] {
            check("main.tf", &format!("{before}{module}"), &[Some("evil/m/x")]);
        }
        for unreadable in [
            "x = <<EOT\n",
            "x = \"a\n\"\n",
            "x = (\n",
            "x = )\n",
            "module \"m\" {",
            "}",
            "/*",
            "\"x\" = 1",
            "a b c",
            "x = \"${\"\n",
            "x = \"$$${\"\n",
        ] {
            assert_eq!(module_sources("a.tf", unreadable.as_bytes()), Err(Unreadable), "{unreadable}");
        }
        assert_eq!(module_sources("a.tf", b"\xff"), Err(Unreadable));
        let deep = format!("x = {}", "[".repeat(100_000));
        assert_eq!(module_sources("a.tf", deep.as_bytes()), Err(Unreadable));
    }

    #[test]
    fn json_is_read_with_names_that_are_there_twice() {
        check(
            "a.tf.json",
            r#"{"module": {"a": {"source": "x/y/z"}}, "module": [{"b": [{"source": "${var.x}"}]}], "resource": {"source": "no"}}"#,
            &[Some("x/y/z"), None],
        );
        check("terragrunt.hcl.json", r#"{"terraform": {"source": "../a"}}"#, &[Some("../a")]);
        for unreadable in
            ["", "{", r#"{"module": {"a": {"source": ["x"]}}}"#, r#"{"module": {"a": {"source": 1}}}"#]
        {
            assert_eq!(module_sources("a.tf.json", unreadable.as_bytes()), Err(Unreadable), "{unreadable}");
        }
    }

    #[test]
    fn code_is_told_by_its_name() {
        for name in [
            "main.tf",
            "a/b.tofu",
            "x.tf.json",
            "terragrunt.hcl",
            "root.hcl",
            "a.tofutest.hcl",
            "a/main.tf/.",
        ] {
            assert!(is_module_code(name), "{name}");
        }
        for name in [".terraform.lock.hcl", "a/.terraform.lock.hcl", "x.tfvars", "a.json", "tf"] {
            assert!(!is_module_code(name), "{name}");
        }
    }
}
