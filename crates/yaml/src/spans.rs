//! Where the values of a text stand, for programs that change a part of it and keep every other byte.

use crate::{
    YamlError, readable,
    scan::{Kind, Scanner, Token},
};

/// Deepest nesting.
const MAX_DEPTH: usize = 500;

/// A value and its place. Positions are bytes of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Behind what leads to it: a colon, a dash, a tag, an anchor.
    pub after: usize,
    /// Its first byte, without tag and anchor.
    pub start: usize,
    /// Behind its last byte; white space, and a comment behind it, do not belong to it.
    pub end: usize,
    /// What it is.
    pub kind: NodeKind,
}

/// What stands at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// Nothing: null.
    Nothing,
    /// A scalar in any style.
    Scalar,
    /// `*name`
    Alias,
    /// A map.
    Map {
        /// Whether it is written in braces.
        flow: bool,
        /// In the order of the text; `<<` is one of them.
        entries: Vec<Entry>,
    },
    /// A sequence.
    Sequence {
        /// Whether it is written in brackets.
        flow: bool,
        /// In the order of the text.
        items: Vec<Item>,
    },
}

/// An entry of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// First byte of its key.
    pub start: usize,
    /// The key's text; empty of a key that is no scalar.
    pub key: String,
    /// Its value.
    pub value: Node,
}

/// An item of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its dash in a block, its first byte in brackets.
    pub start: usize,
    /// Its value.
    pub value: Node,
}

/// The documents of `text`, as many as [`crate::parse_documents`] reads.
///
/// # Errors
/// As there.
pub fn spans(text: &str) -> Result<Vec<Node>, YamlError> {
    readable(text.as_bytes())?;
    let mut reader = Reader { text, scan: Scanner::new(text), depth: 0 };
    let mut found = Vec::new();
    loop {
        let token = reader.peek()?;
        match token.kind {
            Kind::StreamEnd => return Ok(found),
            Kind::DocumentEnd | Kind::Directive => {
                reader.scan.take()?;
            }
            Kind::DocumentStart => {
                reader.scan.take()?;
                found.push(reader.node(token.start + 3, false)?);
            }
            _ => {
                let before = token.start;
                found.push(reader.node(before, false)?);
                // What stands between documents must be a mark.
                if reader.peek()?.start == before {
                    return Err(YamlError::parse(
                        token.line,
                        token.line,
                        "did not find expected <document start>",
                    ));
                }
            }
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    scan: Scanner<'a>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> Result<Token<'a>, YamlError> {
        self.scan.peek().cloned()
    }

    /// The value behind byte `after`; `indentless` where a sequence may stand at the column of its key.
    fn node(&mut self, after: usize, indentless: bool) -> Result<Node, YamlError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(YamlError::plain("exceeded max depth"));
        }
        let node = self.inner(after, indentless);
        self.depth -= 1;
        node
    }

    fn inner(&mut self, mut after: usize, indentless: bool) -> Result<Node, YamlError> {
        let mut token = self.peek()?;
        while matches!(token.kind, Kind::Anchor(_) | Kind::Tag(_)) {
            after = token.end;
            self.scan.take()?;
            token = self.peek()?;
        }
        let start = token.start;
        match token.kind {
            Kind::Alias(_) => {
                self.scan.take()?;
                Ok(Node { after, start, end: token.end, kind: NodeKind::Alias })
            }
            Kind::Scalar(..) => {
                self.scan.take()?;
                let end = start + self.text[start..token.end].trim_end().len();
                Ok(Node { after, start, end, kind: NodeKind::Scalar })
            }
            Kind::BlockMappingStart => {
                self.scan.take()?;
                self.block_map(after)
            }
            Kind::BlockSequenceStart => {
                self.scan.take()?;
                let node = self.block_sequence(after)?;
                if self.peek()?.kind == Kind::BlockEnd {
                    self.scan.take()?;
                }
                Ok(node)
            }
            Kind::BlockEntry if indentless => self.block_sequence(after),
            Kind::FlowMappingStart => self.flow_map(after),
            Kind::FlowSequenceStart => self.flow_sequence(after),
            _ => Ok(Node { after, start: after, end: after, kind: NodeKind::Nothing }),
        }
    }

    /// The key that begins here, and the value behind its colon.
    fn entry(&mut self, block: bool) -> Result<Entry, YamlError> {
        let first = self.peek()?;
        let mut start = first.start;
        if first.kind == Kind::Key {
            self.scan.take()?;
            let next = self.peek()?;
            // What an explicit `?` leads to begins with it.
            start = start.min(next.start);
        }
        let token = self.peek()?;
        let key_node =
            if token.kind == Kind::Value { None } else { Some((self.key_text()?, self.node(start, false)?)) };
        let (key, end) = key_node.map_or((String::new(), start), |(key, node)| (key, node.end));
        let token = self.peek()?;
        let value = if token.kind == Kind::Value {
            self.scan.take()?;
            self.node(token.start + 1, block)?
        } else {
            Node { after: end, start: end, end, kind: NodeKind::Nothing }
        };
        Ok(Entry { start, key, value })
    }

    fn key_text(&mut self) -> Result<String, YamlError> {
        Ok(match self.peek()?.kind {
            Kind::Scalar(text, _) => text.into_owned(),
            _ => String::new(),
        })
    }

    fn block_map(&mut self, after: usize) -> Result<Node, YamlError> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let token = self.peek()?;
            match token.kind {
                Kind::Key | Kind::Value => entries.push(self.entry(true)?),
                Kind::BlockEnd => {
                    self.scan.take()?;
                    break;
                }
                _ => return Err(YamlError::parse(token.line, token.line, "did not find expected key")),
            }
        }
        let start = entries.first().map_or(after, |entry| entry.start);
        let end = entries.last().map_or(after, |entry| entry.value.end);
        Ok(Node { after, start, end, kind: NodeKind::Map { flow: false, entries } })
    }

    fn block_sequence(&mut self, after: usize) -> Result<Node, YamlError> {
        let mut items: Vec<Item> = Vec::new();
        loop {
            let token = self.peek()?;
            if token.kind != Kind::BlockEntry {
                break;
            }
            self.scan.take()?;
            let value = self.node(token.start + 1, false)?;
            items.push(Item { start: token.start, value });
        }
        let start = items.first().map_or(after, |item| item.start);
        let end = items.last().map_or(after, |item| item.value.end);
        Ok(Node { after, start, end, kind: NodeKind::Sequence { flow: false, items } })
    }

    fn flow_map(&mut self, after: usize) -> Result<Node, YamlError> {
        let start = self.scan.take()?.start;
        let mut entries = Vec::new();
        let end = loop {
            let token = self.peek()?;
            match token.kind {
                Kind::FlowEntry => {
                    self.scan.take()?;
                }
                Kind::FlowMappingEnd => break self.scan.take()?.start + 1,
                _ => {
                    entries.push(self.entry(false)?);
                    self.moved(&token)?;
                }
            }
        };
        Ok(Node { after, start, end, kind: NodeKind::Map { flow: true, entries } })
    }

    fn flow_sequence(&mut self, after: usize) -> Result<Node, YamlError> {
        let start = self.scan.take()?.start;
        let mut items = Vec::new();
        let end = loop {
            let token = self.peek()?;
            match token.kind {
                Kind::FlowEntry => {
                    self.scan.take()?;
                }
                Kind::FlowSequenceEnd => break self.scan.take()?.start + 1,
                Kind::Key => {
                    // A map of one entry, without braces.
                    let entry = self.entry(false)?;
                    let (start, end) = (entry.start, entry.value.end);
                    let kind = NodeKind::Map { flow: true, entries: vec![entry] };
                    items.push(Item { start, value: Node { after: start, start, end, kind } });
                }
                _ => {
                    let value = self.node(token.start, false)?;
                    items.push(Item { start: token.start, value });
                    self.moved(&token)?;
                }
            }
        };
        Ok(Node { after, start, end, kind: NodeKind::Sequence { flow: true, items } })
    }

    /// Fails where nothing was read: then nothing ever would be.
    fn moved(&mut self, before: &Token<'a>) -> Result<(), YamlError> {
        let token = self.peek()?;
        if token.start == before.start && token.kind == before.kind {
            return Err(YamlError::parse(
                token.line,
                token.line,
                "did not find expected ',' or a closing bracket",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'t>(text: &'t str, node: &Node) -> &'t str {
        &text[node.start..node.end]
    }

    #[test]
    fn values_are_found_where_they_stand() {
        let text = "# top\na: 1 # one\nb:\n- x\n- {k: \"v\", l: [1, 2]}\nc: &n\n  d: |\n    text\n\n  e:\nf: *n\n---\nz\n";
        let documents = spans(text).unwrap();
        assert_eq!(documents.len(), 2);
        let NodeKind::Map { entries, .. } = &documents[0].kind else { panic!("{documents:?}") };
        let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["a", "b", "c", "f"]);
        assert_eq!(at(text, &entries[0].value), "1");
        assert_eq!(at(text, &entries[1].value), "- x\n- {k: \"v\", l: [1, 2]}");
        assert_eq!(at(text, &entries[2].value), "d: |\n    text\n\n  e:");
        assert_eq!(&text[entries[2].value.after - 2..entries[2].value.after], "&n");
        assert_eq!(entries[3].value.kind, NodeKind::Alias);
        assert_eq!(at(text, &documents[1]), "z");
    }

    #[test]
    fn there_are_as_many_documents_as_are_read() {
        for text in
            ["", "---\n", "a: 1\n---\n", "a: 1\n...\n---\nb: 2\n", "--- x\n", "%YAML 1.1\n---\na: 1\n"]
        {
            let read = crate::parse_documents(text.as_bytes(), 1000).unwrap();
            assert_eq!(spans(text).unwrap().len(), read.len(), "{text:?}");
        }
    }
}
