//! Tokens become a tree: anchors are expanded and `<<` merged on the way.

use std::borrow::Cow;
use std::collections::HashMap;

use super::node::{Data, Node, Style, Tag};
use super::resolve::{Dialect, resolve};
use super::scanner::{Mark, Scanner, SyntaxError, Token, TokenKind};
use crate::limits::Budget;

type Parse<T> = Result<T, SyntaxError>;

/// Reads the first document of a text. `None` if there is none.
///
/// # Errors
/// Malformed text, an unknown anchor, or a limit.
pub(crate) fn first_document(text: &str, dialect: Dialect, budget: &Budget) -> Parse<Option<Node>> {
    budget.spend(text.len() as u64 / 8 + 1).map_err(|e| SyntaxError::plain(e.to_string()))?;
    let ahead = match dialect {
        Dialect::Old => 0,
        Dialect::New => 2,
    };
    let mut scanner = Scanner::new(text, budget.depth(), ahead)?;
    let mut handles = Vec::new();
    loop {
        match scanner.peek()?.kind {
            TokenKind::DocumentEnd | TokenKind::VersionDirective => {
                scanner.next()?;
            }
            TokenKind::TagDirective(..) => {
                if let TokenKind::TagDirective(h, p) = scanner.next()?.kind {
                    handles.push((h.into_owned(), p.into_owned()));
                }
            }
            TokenKind::StreamEnd => return Ok(None),
            _ => break,
        }
    }
    let mut loader = Loader { scanner, dialect, handles, anchors: HashMap::new(), budget, depth: 0 };
    let node = if matches!(loader.scanner.peek()?.kind, TokenKind::DocumentStart) {
        loader.scanner.next()?;
        match loader.scanner.peek()?.kind {
            TokenKind::VersionDirective
            | TokenKind::TagDirective(..)
            | TokenKind::DocumentStart
            | TokenKind::DocumentEnd
            | TokenKind::StreamEnd => loader.empty(),
            _ => loader.node(true, false)?,
        }
    } else {
        loader.node(true, false)?
    };
    // What follows the document is not read, but its first token must be one.
    loader.scanner.peek()?;
    Ok(Some(node))
}

struct Loader<'a, 'b> {
    scanner: Scanner<'a>,
    dialect: Dialect,
    handles: Vec<(String, String)>,
    anchors: HashMap<&'a str, Node>,
    budget: &'b Budget,
    depth: usize,
}

impl<'a> Loader<'a, '_> {
    fn empty(&self) -> Node {
        Node {
            data: Data::Scalar("".into()),
            tag: resolve(self.dialect, "").0,
            style: Style::PLAIN,
            share: 0,
        }
    }

    fn peek(&mut self) -> Parse<&Token<'a>> {
        self.scanner.peek()
    }

    fn next(&mut self) -> Parse<Token<'a>> {
        self.scanner.next()
    }

    fn node(&mut self, block: bool, indentless: bool) -> Parse<Node> {
        self.depth += 1;
        if self.depth > self.budget.depth() {
            return Err(SyntaxError::plain(format!("exceeded max depth of {}", self.budget.depth())));
        }
        let node = self.node_inner(block, indentless)?;
        self.depth -= 1;
        Ok(node)
    }

    fn node_inner(&mut self, block: bool, indentless: bool) -> Parse<Node> {
        let start = self.peek()?.start;
        let (mut anchor, mut tag) = (None, None);
        loop {
            match &self.peek()?.kind {
                TokenKind::Alias(name) if anchor.is_none() && tag.is_none() => {
                    let name = *name;
                    self.next()?;
                    return self.alias(name);
                }
                TokenKind::Anchor(name) if anchor.is_none() => {
                    anchor = Some(*name);
                    self.next()?;
                }
                TokenKind::Tag(..) if tag.is_none() => {
                    if let TokenKind::Tag(handle, suffix) = self.next()?.kind {
                        tag = Some(self.full_tag(&handle, suffix.into_owned(), start)?);
                    }
                }
                _ => break,
            }
        }
        let mut node = self.content(block, indentless, start, anchor.is_some() || tag.is_some())?;
        match tag {
            Some(t) if t != "!" => {
                node.tag = Tag::from_text(&t);
                node.style = node.style.with(Style::TAGGED);
            }
            Some(_) if node.style == Style::PLAIN && matches!(node.data, Data::Scalar(_)) => {
                node.tag = if self.dialect == Dialect::Old { Tag::Str } else { node.tag };
            }
            _ => {}
        }
        if let Some(name) = anchor {
            self.charge(&node)?;
            self.anchors.insert(name, node.clone());
        }
        Ok(node)
    }

    fn charge(&self, node: &Node) -> Parse<()> {
        self.budget.copy_of(node).map_err(|e| SyntaxError::plain(e.to_string()))
    }

    fn alias(&self, name: &str) -> Parse<Node> {
        let Some(node) = self.anchors.get(name) else {
            return Err(SyntaxError::plain(format!("unknown anchor '{name}' referenced")));
        };
        self.charge(node)?;
        if self.depth + node.depth() > self.budget.depth() {
            return Err(SyntaxError::plain(format!("exceeded max depth of {}", self.budget.depth())));
        }
        Ok(node.clone())
    }

    fn full_tag(&self, handle: &str, suffix: String, start: Mark) -> Parse<String> {
        if handle.is_empty() {
            return Ok(suffix);
        }
        let own = self.handles.iter().find(|(h, _)| h == handle).map(|(_, p)| p.as_str());
        match own.or(match handle {
            "!" => Some("!"),
            "!!" => Some("tag:yaml.org,2002:"),
            _ => None,
        }) {
            Some(prefix) => Ok(format!("{prefix}{suffix}")),
            None => Err(SyntaxError::parse(Some(start), start, "found undefined tag handle")),
        }
    }

    fn content(&mut self, block: bool, indentless: bool, start: Mark, may_be_empty: bool) -> Parse<Node> {
        let token = self.peek()?;
        let at = token.start;
        match &token.kind {
            TokenKind::BlockEntry if indentless => self.indentless_seq(),
            TokenKind::Scalar(..) => {
                let TokenKind::Scalar(text, style) = self.next()?.kind else { return Ok(self.empty()) };
                Ok(self.scalar(text, style))
            }
            TokenKind::FlowSequenceStart => self.flow_seq(),
            TokenKind::FlowMappingStart => self.flow_map(),
            TokenKind::BlockSequenceStart if block => self.block_seq(),
            TokenKind::BlockMappingStart if block => self.block_map(),
            _ if may_be_empty => Ok(self.empty()),
            _ => Err(SyntaxError::parse(Some(start), at, "did not find expected node content")),
        }
    }

    fn scalar(&self, text: Cow<'a, str>, style: Style) -> Node {
        let tag = if style != Style::PLAIN {
            Tag::Str
        } else if text == "<<" {
            Tag::Merge
        } else {
            match resolve(self.dialect, &text).0 {
                // The second generation keeps dates as texts for readers that did not ask for times.
                Tag::Timestamp if self.dialect == Dialect::Old => Tag::Str,
                tag => tag,
            }
        };
        Node { data: Data::Scalar(text.into()), tag, style, share: 0 }
    }

    fn block_seq(&mut self) -> Parse<Node> {
        let start = self.next()?.start;
        let mut items = Vec::new();
        loop {
            let token = self.peek()?;
            let at = token.start;
            match token.kind {
                TokenKind::BlockEntry => {
                    self.next()?;
                    let empty = matches!(self.peek()?.kind, TokenKind::BlockEntry | TokenKind::BlockEnd);
                    items.push(if empty { self.empty() } else { self.node(true, false)? });
                }
                TokenKind::BlockEnd => {
                    self.next()?;
                    return Ok(Node::seq(items));
                }
                _ => return Err(SyntaxError::parse(Some(start), at, "did not find expected '-' indicator")),
            }
        }
    }

    fn indentless_seq(&mut self) -> Parse<Node> {
        let mut items = Vec::new();
        while matches!(self.peek()?.kind, TokenKind::BlockEntry) {
            self.next()?;
            let empty = matches!(
                self.peek()?.kind,
                TokenKind::BlockEntry | TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd
            );
            items.push(if empty { self.empty() } else { self.node(true, false)? });
        }
        Ok(Node::seq(items))
    }

    fn block_part(&mut self) -> Parse<Node> {
        match self.peek()?.kind {
            TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => Ok(self.empty()),
            _ => self.node(true, true),
        }
    }

    fn block_map(&mut self) -> Parse<Node> {
        let start = self.next()?.start;
        let mut entries = Vec::new();
        loop {
            let token = self.peek()?;
            let at = token.start;
            match token.kind {
                TokenKind::Key => {
                    self.next()?;
                    let key = self.block_part()?;
                    let value = if matches!(self.peek()?.kind, TokenKind::Value) {
                        self.next()?;
                        self.block_part()?
                    } else {
                        self.empty()
                    };
                    entries.push((key, value));
                }
                TokenKind::BlockEnd => {
                    self.next()?;
                    return Self::finish_map(entries);
                }
                _ => return Err(SyntaxError::parse(Some(start), at, "did not find expected key")),
            }
        }
    }

    fn flow_seq(&mut self) -> Parse<Node> {
        let start = self.next()?.start;
        let mut items = Vec::new();
        loop {
            if !items.is_empty() {
                let token = self.peek()?;
                let at = token.start;
                match token.kind {
                    TokenKind::FlowSequenceEnd => {}
                    TokenKind::FlowEntry => {
                        self.next()?;
                    }
                    _ => return Err(SyntaxError::parse(Some(start), at, "did not find expected ',' or ']'")),
                }
            }
            match self.peek()?.kind {
                TokenKind::FlowSequenceEnd => {
                    self.next()?;
                    return Ok(Node { style: Style::FLOW, ..Node::seq(items) });
                }
                TokenKind::Key => {
                    self.next()?;
                    let key = self.flow_part(&TokenKind::FlowSequenceEnd)?;
                    let value = self.flow_value(&TokenKind::FlowSequenceEnd)?;
                    items.push(Node::map(vec![(key, value)]));
                }
                _ => items.push(self.node(false, false)?),
            }
        }
    }

    fn flow_part(&mut self, end: &TokenKind<'_>) -> Parse<Node> {
        let kind = &self.peek()?.kind;
        if matches!(kind, TokenKind::Value | TokenKind::FlowEntry) || same(kind, end) {
            return Ok(self.empty());
        }
        self.node(false, false)
    }

    fn flow_value(&mut self, end: &TokenKind<'_>) -> Parse<Node> {
        if matches!(self.peek()?.kind, TokenKind::Value) {
            self.next()?;
            let kind = &self.peek()?.kind;
            if !matches!(kind, TokenKind::FlowEntry) && !same(kind, end) {
                return self.node(false, false);
            }
        }
        Ok(self.empty())
    }

    fn flow_map(&mut self) -> Parse<Node> {
        let start = self.next()?.start;
        let mut entries = Vec::new();
        loop {
            if !entries.is_empty() {
                let token = self.peek()?;
                let at = token.start;
                match token.kind {
                    TokenKind::FlowMappingEnd => {}
                    TokenKind::FlowEntry => {
                        self.next()?;
                    }
                    _ => return Err(SyntaxError::parse(Some(start), at, "did not find expected ',' or '}'")),
                }
            }
            match self.peek()?.kind {
                TokenKind::FlowMappingEnd => {
                    self.next()?;
                    return Ok(Node { style: Style::FLOW, ..Self::finish_map(entries)? });
                }
                TokenKind::Key => {
                    self.next()?;
                    let key = self.flow_part(&TokenKind::FlowMappingEnd)?;
                    let value = self.flow_value(&TokenKind::FlowMappingEnd)?;
                    entries.push((key, value));
                }
                _ => {
                    let key = self.node(false, false)?;
                    entries.push((key, self.empty()));
                }
            }
        }
    }

    fn finish_map(entries: Vec<(Node, Node)>) -> Parse<Node> {
        if !entries.iter().any(|(k, _)| k.tag == Tag::Merge) {
            return Ok(Node::map(entries));
        }
        let (merges, own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(k, _)| k.tag == Tag::Merge);
        if merges.len() > 1 {
            return Err(SyntaxError::merge("duplicate merge key"));
        }
        let mut sources = Vec::new();
        for (_, value) in merges {
            merge_sources(value, &mut sources, false)?;
        }
        let mut merged: Vec<(Node, Node)> = Vec::new();
        for (key, value) in sources.into_iter().flatten().chain(own) {
            match merged.iter_mut().find(|(k, _)| k.text() == key.text()) {
                Some(slot) => *slot = (key, value),
                None => merged.push((key, value)),
            }
        }
        Ok(Node::map(merged))
    }
}

fn same(a: &TokenKind<'_>, b: &TokenKind<'_>) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// The maps that `<<` names, the weakest first.
fn merge_sources(value: Node, into: &mut Vec<Vec<(Node, Node)>>, nested: bool) -> Parse<()> {
    match value.data {
        Data::Map(m) => into.push(m),
        Data::Seq(items) if !nested => {
            for item in items.into_iter().rev() {
                merge_sources(item, into, true)?;
            }
        }
        Data::Seq(_) => return Err(SyntaxError::merge("invalid map merge: received a nested sequence")),
        Data::Scalar(_) => {
            return Err(SyntaxError::merge("map merge requires map or sequence of maps as the value"));
        }
    }
    Ok(())
}
