//! A text becomes another by changing the bytes of what differs in it, and no others.

use plural_render::yaml::spans::{Entry, Item, Node, NodeKind};
use serde_json::{Map, Value};

use super::write::{Style, Writer};

/// One replacement: of bytes `start..end`.
struct Splice {
    start: usize,
    end: usize,
    text: String,
}

/// Where a value stands: how it is written there.
#[derive(Clone, Copy)]
struct Place {
    /// Inside braces or brackets.
    flow: bool,
    /// Column of the entry or item that holds it.
    column: usize,
    /// What stands before it.
    lead: Lead,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// Nothing: it is the document.
    Root,
    Key,
    /// A map's first line continues this one.
    Dash,
}

/// Brings `node` of `text`, which says `now`, to say `want`.
pub(super) fn spliced(text: &str, node: &Node, now: &Value, want: &Value, style: Style) -> String {
    let mut splicer = Splicer { text, writer: Writer::new(text, style), splices: Vec::new() };
    let place = Place { flow: style == Style::Json, column: 0, lead: Lead::Root };
    splicer.put(node, now, want, place);
    let Splicer { mut splices, .. } = splicer;
    splices.sort_by_key(|splice| splice.start);
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for Splice { start, end, text: put } in splices {
        // What overlaps is caught by whoever compares the result with what was wanted.
        out.push_str(text.get(at..start).unwrap_or_default());
        out.push_str(&put);
        at = at.max(end);
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

struct Splicer<'t> {
    text: &'t str,
    writer: Writer,
    splices: Vec<Splice>,
}

impl Splicer<'_> {
    fn put(&mut self, node: &Node, now: &Value, want: &Value, place: Place) {
        if now == want {
            return;
        }
        match (&node.kind, now, want) {
            (NodeKind::Map { flow, entries }, Value::Object(now), Value::Object(want))
                if !want.is_empty() && entries.iter().any(|entry| want.contains_key(&entry.key)) =>
            {
                self.put_map(node, *flow, entries, now, want);
            }
            (NodeKind::Sequence { flow, items }, Value::Array(now), Value::Array(want))
                if !want.is_empty() && items.len() == now.len() && !items.is_empty() =>
            {
                self.put_sequence(node, *flow, items, now, want);
            }
            _ => self.replace(node, want, place),
        }
    }

    fn put_map(
        &mut self,
        node: &Node,
        flow: bool,
        entries: &[Entry],
        now: &Map<String, Value>,
        want: &Map<String, Value>,
    ) {
        let column = entries.first().map_or(0, |entry| self.column(entry.start));
        let mut gone = Vec::with_capacity(entries.len());
        for entry in entries {
            // A merge key is no entry of the value.
            gone.push(!want.contains_key(&entry.key) && now.contains_key(&entry.key));
            if let (Some(now), Some(want)) = (now.get(&entry.key), want.get(&entry.key)) {
                self.put(&entry.value, now, want, Place { flow, column, lead: Lead::Key });
            }
        }
        let spans: Vec<(usize, usize)> = entries.iter().map(|entry| (entry.start, entry.value.end)).collect();
        self.delete(flow, &spans, &gone);
        let new: Vec<(&String, &Value)> = want
            .iter()
            .filter(|(key, value)| {
                now.get(*key) != Some(*value) && !entries.iter().any(|entry| entry.key == **key)
            })
            .collect();
        for (key, value) in new {
            let text = if flow {
                self.writer.flow_entry(key, value, self.flow_indent(node, entries[0].start).as_deref())
            } else {
                self.writer.block_entry(key, value, column)
            };
            self.insert(node, flow, &spans, column, &text);
        }
    }

    fn put_sequence(&mut self, node: &Node, flow: bool, items: &[Item], now: &[Value], want: &[Value]) {
        let column = self.column(items[0].start);
        let same = now.iter().zip(want).take_while(|(a, b)| a == b).count();
        let most = now.len().min(want.len()) - same;
        let mut tail = now.iter().rev().zip(want.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
        if same == 0 && tail == most && want.len() > now.len() {
            // New items stand behind others, so at the front each takes the place of the one that was there.
            tail = 0;
        }
        let (now_end, want_end) = (now.len() - tail, want.len() - tail);
        let paired = (now_end - same).min(want_end - same);
        for at in same..same + paired {
            let place = Place { flow, column, lead: Lead::Dash };
            self.put(&items[at].value, &now[at], &want[at], place);
        }
        let spans: Vec<(usize, usize)> = items.iter().map(|item| (item.start, item.value.end)).collect();
        let gone: Vec<bool> = (0..items.len()).map(|at| at >= same + paired && at < now_end).collect();
        self.delete(flow, &spans, &gone);
        // New items stand behind the last of those before them.
        let before = &spans[..(same + paired).max(1)];
        for value in &want[same + paired..want_end] {
            let text = if flow {
                self.writer.flow(value, self.flow_indent(node, items[0].start).as_deref())
            } else {
                self.writer.block_item(value, column)
            };
            self.insert(node, flow, before, column, &text);
        }
    }

    /// Puts an entry or item behind the last of `spans`.
    fn insert(&mut self, node: &Node, flow: bool, spans: &[(usize, usize)], column: usize, text: &str) {
        let Some(&(first, _)) = spans.first() else { return };
        let end = spans.last().map_or(first, |&(_, end)| end);
        if flow {
            let separator = match self.flow_indent(node, first) {
                Some(indent) => format!(",{}{indent}", self.writer.newline),
                None if self.writer.is_tight => ",".to_owned(),
                None => ", ".to_owned(),
            };
            self.splices.push(Splice { start: end, end, text: format!("{separator}{text}") });
            return;
        }
        let pad = " ".repeat(column);
        let newline = self.writer.newline;
        let (at, text) = match self.line_end(end) {
            Some(at) => (at, format!("{pad}{text}{newline}")),
            None => (self.text.len(), format!("{newline}{pad}{text}")),
        };
        self.splices.push(Splice { start: at, end: at, text });
    }

    /// Takes entries or items away; some are left.
    fn delete(&mut self, flow: bool, spans: &[(usize, usize)], gone: &[bool]) {
        let Some(first_left) = gone.iter().position(|gone| !gone) else { return };
        for (at, _) in gone.iter().enumerate().filter(|(_, gone)| **gone) {
            let (start, end) = spans[at];
            let range = if flow {
                if at < first_left { (start, spans[at + 1].0) } else { (spans[at - 1].1, end) }
            } else if at < first_left && self.indent_of(spans[0].0).is_none() {
                // The first stands behind a dash or key: what is left moves there.
                if at > 0 {
                    continue;
                }
                (start, spans[first_left].0)
            } else {
                let line = self.line_start(start);
                (line, self.line_end(end).unwrap_or(self.text.len()))
            };
            self.splices.push(Splice { start: range.0, end: range.1, text: String::new() });
        }
    }

    fn replace(&mut self, node: &Node, want: &Value, place: Place) {
        let is_scalar = matches!(node.kind, NodeKind::Scalar | NodeKind::Alias)
            || matches!(node.kind, NodeKind::Map { flow: true, .. } | NodeKind::Sequence { flow: true, .. });
        if place.flow {
            let old = &self.text[node.start..node.end];
            let indent = self.indent_of_line(node.start);
            let text = match &node.kind {
                NodeKind::Nothing => format!(" {}", self.writer.flow(want, None)),
                NodeKind::Scalar => self.writer.like(old, want, indent.as_deref()),
                _ => self.writer.flow(want, indent.as_deref()),
            };
            self.splices.push(Splice { start: node.start, end: node.end, text });
            return;
        }
        let is_block = match want {
            Value::Array(items) => !items.is_empty(),
            Value::Object(entries) => !entries.is_empty(),
            _ => false,
        };
        if is_scalar && !is_block {
            let text = self.writer.like_block(&self.text[node.start..node.end], want, place.column);
            self.splices.push(Splice { start: node.start, end: node.end, text });
        } else if place.lead == Lead::Root {
            let mut text = self.writer.document(want);
            if node.kind == NodeKind::Nothing && node.after > 0 {
                text.insert_str(0, self.writer.newline);
            }
            self.splices.push(Splice { start: node.start, end: node.end, text });
        } else {
            let text = self.writer.block_value(want, place.column, place.lead == Lead::Dash);
            self.splices.push(Splice { start: node.after, end: node.end, text });
        }
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |found| found + 1)
    }

    /// Behind the line break of the line that holds `at`; nothing when the text ends before.
    fn line_end(&self, at: usize) -> Option<usize> {
        self.text[at..].find('\n').map(|found| at + found + 1)
    }

    /// Characters before `at` in its line.
    fn column(&self, at: usize) -> usize {
        let line = &self.text[self.line_start(at)..at];
        line.trim_start_matches('\u{feff}').chars().count()
    }

    /// The white space before `at`, when nothing else stands in the line.
    fn indent_of(&self, at: usize) -> Option<&str> {
        let line = &self.text[self.line_start(at)..at];
        line.trim_start_matches('\u{feff}').trim().is_empty().then_some(line)
    }

    /// The white space at the beginning of the line of `at`, when the text has more lines than one.
    fn indent_of_line(&self, at: usize) -> Option<String> {
        if !self.writer.is_pretty {
            return None;
        }
        let line = &self.text[self.line_start(at)..at];
        Some(line[..line.len() - line.trim_start().len()].to_owned())
    }

    /// How entries are indented between braces that stand in lines of their own.
    fn flow_indent(&self, node: &Node, first: usize) -> Option<String> {
        self.text[node.start..first].contains('\n').then(|| {
            self.indent_of_line(first).unwrap_or_else(|| self.indent_of(first).unwrap_or_default().to_owned())
        })
    }
}
