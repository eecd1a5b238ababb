//! Where the values of a JSON text stand.

use plural_render::yaml::spans::{Entry, Item, Node, NodeKind};
use serde_json::Value;

use super::entries_shape;

/// Deepest nesting, that of serde_json.
const MAX_DEPTH: usize = 127;

/// The one value of `text`, which is JSON.
pub(super) fn spans(text: &str) -> Option<Node> {
    let mut reader = Reader { text, at: 0 };
    reader.skip_space();
    reader.node(0)
}

/// Maps and lists of a text, with every entry: of a key that stands twice, readers take the last one or the first.
pub(super) fn shape(text: &str) -> Option<Value> {
    serde_json::from_str::<Value>(text).ok()?;
    spans(text).as_ref().map(shape_of)
}

fn shape_of(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Map { flow: _, entries } => {
            entries_shape(entries.iter().map(|entry| (entry.key.clone(), shape_of(&entry.value))))
        }
        NodeKind::Sequence { flow: _, items } => items.iter().map(|item| shape_of(&item.value)).collect(),
        NodeKind::Nothing | NodeKind::Scalar | NodeKind::Alias => Value::Null,
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn node(&mut self, depth: usize) -> Option<Node> {
        if depth > MAX_DEPTH {
            return None;
        }
        let start = self.at;
        let kind = match self.byte()? {
            b'{' => {
                let mut entries = Vec::new();
                self.at += 1;
                while self.more(b'}')? {
                    let start = self.at;
                    self.string()?;
                    let key: String = serde_json::from_str(&self.text[start..self.at]).ok()?;
                    self.skip_space();
                    if self.byte()? != b':' {
                        return None;
                    }
                    self.at += 1;
                    self.skip_space();
                    entries.push(Entry { start, key, value: self.node(depth + 1)? });
                }
                NodeKind::Map { flow: true, entries }
            }
            b'[' => {
                let mut items = Vec::new();
                self.at += 1;
                while self.more(b']')? {
                    items.push(Item { start: self.at, value: self.node(depth + 1)? });
                }
                NodeKind::Sequence { flow: true, items }
            }
            b'"' => {
                self.string()?;
                NodeKind::Scalar
            }
            _ => {
                while self.byte().is_some_and(|b| !b" \t\r\n,]}".contains(&b)) {
                    self.at += 1;
                }
                if self.at == start {
                    return None;
                }
                NodeKind::Scalar
            }
        };
        Some(Node { after: start, start, end: self.at, kind })
    }

    /// Whether another entry follows; goes to it, or behind `close`.
    fn more(&mut self, close: u8) -> Option<bool> {
        self.skip_space();
        if self.byte()? == b',' {
            self.at += 1;
            self.skip_space();
        }
        if self.byte()? == close {
            self.at += 1;
            return Some(false);
        }
        Some(true)
    }

    fn string(&mut self) -> Option<()> {
        if self.byte()? != b'"' {
            return None;
        }
        self.at += 1;
        loop {
            match self.byte()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(())
    }
}
