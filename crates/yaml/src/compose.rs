//! Tokens become values: YAML 1.1 as Kubernetes tools read it, that is through JSON.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use super::{
    YamlError,
    resolve::{self, Scalar},
    scan::{Block, Kind, Scanner, Style, Token},
};
use crate::governor;

/// Deepest nesting of values, aliases expanded: none that a person writes comes near it.
const MAX_NESTING: usize = 1000;

/// What a reader asks for beyond YAML.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Whether a key that stands twice in a map is an error.
    pub(super) unique_keys: bool,
    /// Most values, aliases expanded.
    pub(super) values: usize,
}

impl Rules {
    /// As Go's libraries read: of two keys the last one counts.
    pub(super) const GO: Self = Self { unique_keys: false, values: 10_000_000 };
}

/// What values are made of: the JSON of the rest of the program, or the values of templates.
///
/// Texts that stand in the source as they are read are lent for as long as the source lives.
pub trait Build<'a> {
    /// A value.
    type Value;
    /// Key of a map.
    type Key: Clone;
    /// The key of an entry.
    fn key(&mut self, text: Cow<'a, str>) -> Self::Key;
    /// Null.
    fn null(&mut self) -> Self::Value;
    /// A boolean.
    fn bool(&mut self, value: bool) -> Self::Value;
    /// An integer that has a sign or fits without.
    fn int(&mut self, value: i64) -> Self::Value;
    /// An integer that fits no `i64`.
    fn uint(&mut self, value: u64) -> Self::Value;
    /// Never infinite or NaN.
    fn float(&mut self, value: f64) -> Self::Value;
    /// A text.
    fn string(&mut self, text: Cow<'a, str>) -> Self::Value;
    /// A sequence.
    fn sequence(&mut self, items: Vec<Self::Value>) -> Self::Value;
    /// Of two entries with the same key the later one counts.
    fn mapping(&mut self, entries: Vec<(Self::Key, Self::Value)>) -> Self::Value;
    /// A copy that shares nothing that could change.
    fn copy(&mut self, value: &Self::Value) -> Self::Value;
    /// A copy of the entries when it is a map.
    fn entries(&mut self, value: &Self::Value) -> Option<Vec<(Self::Key, Self::Value)>>;
    /// A copy of the items when it is a sequence.
    fn items(&mut self, value: &Self::Value) -> Option<Vec<Self::Value>>;
    /// How it reads as a key when it is a scalar other than null.
    fn key_text(&mut self, value: &Self::Value) -> Option<String>;
}

struct Anchored<V> {
    /// None while its own content is read.
    value: Option<V>,
    nodes: usize,
    /// Collections inside each other.
    depth: usize,
}

enum Node<'a, V> {
    /// A plain `<<`.
    Merge,
    Scalar(Scalar),
    Text(Cow<'a, str>),
    Value(V),
}

pub(super) struct Composer<'a, 'b, B: Build<'a>> {
    scan: Scanner<'a>,
    build: &'b mut B,
    anchors: HashMap<String, Anchored<B::Value>>,
    decoded: usize,
    aliased: usize,
    depth: usize,
    /// Deepest nesting since the innermost anchor that is open.
    deepest: usize,
    rules: Rules,
    /// 0-based line at which the content of the document begins.
    begins: usize,
}

/// What stands before a value in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// A key and its colon.
    Key,
    Dash,
    /// A dash that stands under the key of its sequence.
    IndentlessDash,
}

/// A map while it is read.
struct Entries<K, V> {
    list: Vec<(K, V)>,
    /// Its own keys, when they must differ.
    keys: Option<HashSet<String>>,
}

impl<'a, 'b, B: Build<'a>> Composer<'a, 'b, B> {
    pub(super) fn new(text: &'a str, build: &'b mut B, rules: Rules) -> Self {
        Self {
            scan: Scanner::new(text),
            build,
            anchors: HashMap::new(),
            decoded: 0,
            aliased: 0,
            depth: 0,
            deepest: 0,
            rules,
            begins: 0,
        }
    }

    /// Reads everything by way of tokens.
    #[cfg(test)]
    pub(super) fn tokens_only(mut self) -> Self {
        self.scan.tokens_only = true;
        self
    }

    /// All documents, each with the 0-based line at which its content begins.
    pub(super) fn documents(&mut self) -> Result<Vec<(usize, B::Value)>, YamlError> {
        let mut found = Vec::new();
        let mut ended = true;
        loop {
            while self.scan.peek()?.kind == Kind::DocumentEnd {
                self.scan.take()?;
                ended = true;
            }
            let token = self.scan.peek()?;
            match token.kind {
                Kind::StreamEnd => return Ok(found),
                Kind::DocumentStart => {}
                _ if ended => {}
                _ => {
                    let line = token.line;
                    return Err(YamlError::parse(line, line, "did not find expected <document start>"));
                }
            }
            ended = false;
            self.anchors.clear();
            if let Some(value) = self.document()? {
                found.push((self.begins, value));
            }
        }
    }

    fn entries(&self) -> Entries<B::Key, B::Value> {
        Entries { list: Vec::new(), keys: self.rules.unique_keys.then(HashSet::new) }
    }

    fn count(&mut self, nodes: usize) -> Result<(), YamlError> {
        self.decoded = self.decoded.saturating_add(nodes);
        if self.decoded > self.rules.values {
            let limit = self.rules.values;
            return Err(YamlError::plain(&format!("more than {limit} values once aliases are expanded")));
        }
        if !governor::may_go_on(0) {
            return Err(YamlError::plain(governor::STOPPED));
        }
        Ok(())
    }

    /// The first document; None when the stream has none.
    pub(super) fn document(&mut self) -> Result<Option<B::Value>, YamlError> {
        let first = self.scan.peek()?;
        let line = first.line;
        match first.kind {
            Kind::StreamEnd => return Ok(None),
            Kind::Directive | Kind::DocumentStart => {
                while self.scan.peek()?.kind == Kind::Directive {
                    self.scan.take()?;
                }
                let token = self.scan.take()?;
                if token.kind != Kind::DocumentStart {
                    return Err(YamlError::parse(token.line, line, "did not find expected <document start>"));
                }
                let empty = matches!(
                    self.scan.peek()?.kind,
                    Kind::Directive | Kind::DocumentStart | Kind::DocumentEnd | Kind::StreamEnd
                );
                if empty {
                    return Ok(Some(self.build.null()));
                }
            }
            _ => {}
        }
        self.begins = self.scan.peek()?.line;
        let value = self.value(true, false)?;
        // The end is looked at, as what stands there must be a token.
        self.scan.peek()?;
        Ok(Some(value))
    }

    fn value(&mut self, block: bool, indentless: bool) -> Result<B::Value, YamlError> {
        let node = self.node(block, indentless)?;
        self.finish(node)
    }

    fn finish(&mut self, node: Node<'a, B::Value>) -> Result<B::Value, YamlError> {
        Ok(match node {
            Node::Value(value) => value,
            Node::Merge => self.build.string(Cow::Borrowed("<<")),
            Node::Text(text) => self.build.string(text),
            Node::Scalar(scalar) => match scalar {
                Scalar::Null => self.build.null(),
                Scalar::Bool(value) => self.build.bool(value),
                Scalar::Int(value) => self.build.int(value),
                Scalar::Uint(value) => self.build.uint(value),
                Scalar::Float(value) if value.is_finite() => self.build.float(value),
                Scalar::Float(value) => {
                    let text = if value.is_nan() {
                        "NaN"
                    } else if value > 0.0 {
                        "+Inf"
                    } else {
                        "-Inf"
                    };
                    return Err(YamlError::json(&format!("json: unsupported value: {text}")));
                }
                Scalar::Text => self.build.string(Cow::Borrowed("")),
            },
        })
    }

    fn empty(&mut self) -> B::Value {
        self.decoded += 1;
        self.build.null()
    }

    fn node(&mut self, block: bool, indentless: bool) -> Result<Node<'a, B::Value>, YamlError> {
        self.count(1)?;
        if let Kind::Alias(_) = self.scan.peek()?.kind {
            let Token { kind: Kind::Alias(name), .. } = self.scan.take()? else {
                return Err(YamlError::syntax(0, "unknown problem parsing YAML content"));
            };
            return self.alias(&name);
        }
        let start = self.scan.peek()?.line;
        let mut anchor: Option<String> = None;
        let mut tag: Option<(String, String, usize)> = None;
        loop {
            match &self.scan.peek()?.kind {
                Kind::Anchor(_) if anchor.is_none() => {
                    if let Kind::Anchor(name) = self.scan.take()?.kind {
                        anchor = Some(name.into_owned());
                    }
                }
                Kind::Tag(..) if tag.is_none() => {
                    let token = self.scan.take()?;
                    if let Kind::Tag(parts) = token.kind {
                        tag = Some((parts.0, parts.1, token.line));
                    }
                }
                _ => break,
            }
        }
        let tag = match tag {
            None => None,
            Some((handle, suffix, line)) => Some(match handle.as_str() {
                "" => suffix,
                "!" => format!("!{suffix}"),
                "!!" => format!("!!{suffix}"),
                _ => return Err(YamlError::parse(line, start, "found undefined tag handle")),
            }),
        };
        let before = self.decoded;
        let outside = self.deepest;
        if let Some(name) = &anchor {
            self.anchors.insert(name.clone(), Anchored { value: None, nodes: 0, depth: 0 });
            self.deepest = self.depth;
        }
        let node = self.content(block, indentless, start, anchor.is_some(), tag.as_deref())?;
        let Some(name) = anchor else { return Ok(node) };
        let value = self.finish(node)?;
        let copy = self.build.copy(&value);
        let depth = self.deepest - self.depth;
        self.deepest = self.deepest.max(outside);
        self.anchors.insert(name, Anchored { value: Some(copy), nodes: self.decoded - before + 1, depth });
        Ok(Node::Value(value))
    }

    fn alias(&mut self, name: &str) -> Result<Node<'a, B::Value>, YamlError> {
        let Some(anchored) = self.anchors.get(name) else {
            return Err(YamlError::plain(&format!("unknown anchor '{name}' referenced")));
        };
        if anchored.value.is_none() {
            return Err(YamlError::plain(&format!("anchor '{name}' value contains itself")));
        }
        let (nodes, depth) = (anchored.nodes, self.depth + anchored.depth);
        if depth > MAX_NESTING {
            return Err(YamlError::plain(&format!("exceeded max depth of {MAX_NESTING}")));
        }
        self.deepest = self.deepest.max(depth);
        self.aliased += nodes;
        self.count(nodes)?;
        if self.aliased > 100
            && self.decoded > 1000
            && self.aliased as f64 / self.decoded as f64 > allowed_alias_ratio(self.decoded)
        {
            return Err(YamlError::plain("document contains excessive aliasing"));
        }
        let value = self.anchors.get(name).and_then(|anchored| anchored.value.as_ref());
        Ok(match value {
            Some(value) => Node::Value(self.build.copy(value)),
            None => Node::Scalar(Scalar::Null),
        })
    }

    fn content(
        &mut self,
        block: bool,
        indentless: bool,
        start: usize,
        anchored: bool,
        tag: Option<&str>,
    ) -> Result<Node<'a, B::Value>, YamlError> {
        let token = self.scan.peek()?;
        let line = token.line;
        let collection = match &token.kind {
            Kind::Scalar(..) => {
                let Token { kind: Kind::Scalar(text, style), .. } = self.scan.take()? else {
                    return Err(YamlError::syntax(0, "unknown problem parsing YAML content"));
                };
                return scalar(text, style, tag);
            }
            Kind::BlockEntry if indentless => Self::indentless_items,
            Kind::FlowSequenceStart => Self::flow_sequence,
            Kind::FlowMappingStart => Self::flow_mapping,
            Kind::BlockSequenceStart if block => Self::block_sequence,
            Kind::BlockMappingStart if block => Self::block_mapping,
            _ if tag.is_some() => return scalar(Cow::Borrowed(""), Style::Plain, tag),
            _ if anchored => return Ok(Node::Scalar(Scalar::Null)),
            _ => return Err(YamlError::parse(line, start, "did not find expected node content")),
        };
        self.nested(line, collection).map(Node::Value)
    }

    /// Reads a collection that begins on 0-based `line`.
    fn nested(
        &mut self,
        line: usize,
        collection: impl FnOnce(&mut Self, usize) -> Result<B::Value, YamlError>,
    ) -> Result<B::Value, YamlError> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(YamlError::syntax(line + 1, &format!("exceeded max depth of {MAX_NESTING}")));
        }
        self.deepest = self.deepest.max(self.depth);
        let value = stacker::maybe_grow(64 << 10, 1 << 20, || collection(self, line))?;
        self.depth -= 1;
        Ok(value)
    }

    /// The value after a dash, or after the colon of a key of a block.
    fn block_value(&mut self, after: After) -> Result<B::Value, YamlError> {
        if let Some((text, style)) = self.scan.quick_scalar() {
            self.count(1)?;
            let node = scalar(text, style, None)?;
            return self.finish(node);
        }
        let under_key = after == After::Key;
        if let Some(block) = self.scan.quick_block(under_key) {
            let collection = match block {
                Block::Nothing => return Ok(self.empty()),
                Block::Mapping => Self::block_entries,
                Block::Sequence => Self::block_items,
                Block::Indentless => Self::indentless_items,
            };
            self.count(1)?;
            let line = self.scan.line();
            return self.nested(line, collection);
        }
        match self.scan.peek()?.kind {
            Kind::BlockEnd => Ok(self.empty()),
            Kind::Key | Kind::Value if after != After::Dash => Ok(self.empty()),
            Kind::BlockEntry if !under_key => Ok(self.empty()),
            _ => self.value(true, under_key),
        }
    }

    fn indentless_items(&mut self, _start: usize) -> Result<B::Value, YamlError> {
        let mut items = Vec::new();
        loop {
            if !self.scan.quick_dash() {
                if self.scan.quick_indentless_end() || self.scan.peek()?.kind != Kind::BlockEntry {
                    return Ok(self.build.sequence(items));
                }
                self.scan.take()?;
            }
            items.push(self.block_value(After::IndentlessDash)?);
        }
    }

    fn block_sequence(&mut self, start: usize) -> Result<B::Value, YamlError> {
        self.scan.take()?;
        self.block_items(start)
    }

    /// The items of a sequence whose beginning was taken.
    fn block_items(&mut self, start: usize) -> Result<B::Value, YamlError> {
        let mut items = Vec::new();
        loop {
            if self.scan.quick_dash() {
                items.push(self.block_value(After::Dash)?);
                continue;
            }
            if self.scan.quick_end() {
                return Ok(self.build.sequence(items));
            }
            let token = self.scan.take()?;
            match token.kind {
                Kind::BlockEntry => {}
                Kind::BlockEnd => return Ok(self.build.sequence(items)),
                _ => {
                    return Err(YamlError::parse(token.line, start, "did not find expected '-' indicator"));
                }
            }
            items.push(self.block_value(After::Dash)?);
        }
    }

    fn block_mapping(&mut self, start: usize) -> Result<B::Value, YamlError> {
        self.scan.take()?;
        self.block_entries(start)
    }

    /// The entries of a map whose beginning was taken.
    fn block_entries(&mut self, start: usize) -> Result<B::Value, YamlError> {
        let mut entries = self.entries();
        loop {
            if let Some((text, line)) = self.scan.quick_key() {
                self.count(1)?;
                let key = scalar(Cow::Borrowed(text), Style::Plain, None)?;
                let value = self.block_value(After::Key)?;
                self.entry(&mut entries, line, key, value)?;
                continue;
            }
            if self.scan.quick_end() {
                return Ok(self.build.mapping(entries.list));
            }
            let token = self.scan.peek()?;
            let line = token.line;
            let key = match token.kind {
                Kind::Key => {
                    self.scan.take()?;
                    match self.scan.peek()?.kind {
                        Kind::Key | Kind::Value | Kind::BlockEnd => Node::Scalar(Scalar::Null),
                        _ => self.node(true, true)?,
                    }
                }
                Kind::BlockEnd => {
                    self.scan.take()?;
                    return Ok(self.build.mapping(entries.list));
                }
                // A value without a key.
                Kind::Value => Node::Scalar(Scalar::Null),
                _ => return Err(YamlError::parse(line, start, "did not find expected key")),
            };
            let value = if self.scan.peek()?.kind == Kind::Value {
                self.scan.take()?;
                self.block_value(After::Key)?
            } else {
                self.empty()
            };
            self.entry(&mut entries, line, key, value)?;
        }
    }

    fn flow_sequence(&mut self, start: usize) -> Result<B::Value, YamlError> {
        self.scan.take()?;
        let mut items = Vec::new();
        loop {
            if self.scan.peek()?.kind == Kind::FlowSequenceEnd {
                break;
            }
            if !items.is_empty() {
                let token = self.scan.peek()?;
                if token.kind != Kind::FlowEntry {
                    let line = token.line;
                    return Err(YamlError::parse(line, start, "did not find expected ',' or ']'"));
                }
                self.scan.take()?;
            }
            match self.scan.peek()?.kind {
                Kind::FlowSequenceEnd => break,
                Kind::Key => items.push(self.flow_pair()?),
                _ => items.push(self.value(false, false)?),
            }
        }
        self.scan.take()?;
        Ok(self.build.sequence(items))
    }

    /// `[a: b]`: a map of one entry.
    fn flow_pair(&mut self) -> Result<B::Value, YamlError> {
        self.scan.take()?;
        let ends = |kind: &Kind<'_>| matches!(kind, Kind::FlowEntry | Kind::FlowSequenceEnd);
        let next = &self.scan.peek()?.kind;
        let key = if *next == Kind::Value || ends(next) {
            Node::Scalar(Scalar::Null)
        } else {
            self.node(false, false)?
        };
        let mut value = None;
        if self.scan.peek()?.kind == Kind::Value {
            self.scan.take()?;
            if !ends(&self.scan.peek()?.kind) {
                value = Some(self.value(false, false)?);
            }
        }
        let value = match value {
            Some(value) => value,
            None => self.empty(),
        };
        let mut entries = self.entries();
        self.entry(&mut entries, 0, key, value)?;
        Ok(self.build.mapping(entries.list))
    }

    fn flow_mapping(&mut self, start: usize) -> Result<B::Value, YamlError> {
        self.scan.take()?;
        let mut entries = self.entries();
        let mut first = true;
        loop {
            if self.scan.peek()?.kind == Kind::FlowMappingEnd {
                break;
            }
            if !first {
                let token = self.scan.peek()?;
                if token.kind != Kind::FlowEntry {
                    let line = token.line;
                    return Err(YamlError::parse(line, start, "did not find expected ',' or '}'"));
                }
                self.scan.take()?;
            }
            first = false;
            let token = self.scan.peek()?;
            let line = token.line;
            match token.kind {
                Kind::FlowMappingEnd => break,
                Kind::Key => {
                    self.scan.take()?;
                    let key = match self.scan.peek()?.kind {
                        Kind::Value | Kind::FlowEntry | Kind::FlowMappingEnd => Node::Scalar(Scalar::Null),
                        _ => self.node(false, false)?,
                    };
                    let mut value = None;
                    if self.scan.peek()?.kind == Kind::Value {
                        self.scan.take()?;
                        if !matches!(self.scan.peek()?.kind, Kind::FlowEntry | Kind::FlowMappingEnd) {
                            value = Some(self.value(false, false)?);
                        }
                    }
                    let value = match value {
                        Some(value) => value,
                        None => self.empty(),
                    };
                    self.entry(&mut entries, line, key, value)?;
                }
                _ => {
                    let key = self.node(false, false)?;
                    let value = self.empty();
                    self.entry(&mut entries, line, key, value)?;
                }
            }
        }
        self.scan.take()?;
        Ok(self.build.mapping(entries.list))
    }

    /// Adds an entry whose key stands on 0-based `line`.
    fn entry(
        &mut self,
        entries: &mut Entries<B::Key, B::Value>,
        line: usize,
        key: Node<'a, B::Value>,
        value: B::Value,
    ) -> Result<(), YamlError> {
        let text: Cow<'a, str> = match key {
            Node::Merge => return self.merge(entries, &value),
            Node::Text(text) => text,
            Node::Scalar(scalar) => match resolve::key(&scalar) {
                Some(text) => Cow::Owned(text),
                None => {
                    return Err(YamlError::json("unsupported map key of type: %!s(<nil>), key: <nil>"));
                }
            },
            // An alias to a scalar, or an anchored one.
            Node::Value(value) => match self.build.key_text(&value) {
                Some(text) => Cow::Owned(text),
                None => return Err(YamlError::plain("invalid map key")),
            },
        };
        if let Some(keys) = &mut entries.keys
            && !keys.insert(text.clone().into_owned())
        {
            return Err(YamlError::syntax(line + 1, &format!("the key {text:?} appears twice")));
        }
        entries.list.push((self.build.key(text), value));
        Ok(())
    }

    fn merge(&mut self, entries: &mut Entries<B::Key, B::Value>, value: &B::Value) -> Result<(), YamlError> {
        let wrong = || YamlError::plain("map merge requires map or sequence of maps as the value");
        if let Some(found) = self.build.entries(value) {
            entries.list.extend(found);
            return Ok(());
        }
        let maps = self.build.items(value).ok_or_else(wrong)?;
        for map in maps.iter().rev() {
            entries.list.extend(self.build.entries(map).ok_or_else(wrong)?);
        }
        Ok(())
    }
}

fn scalar<'a, V>(text: Cow<'a, str>, style: Style, tag: Option<&str>) -> Result<Node<'a, V>, YamlError> {
    let plain = style == Style::Plain;
    match tag {
        None if !plain => Ok(Node::Text(text)),
        None if text == "<<" => Ok(Node::Merge),
        None => Ok(match resolve::plain(&text) {
            Scalar::Text => Node::Text(text),
            scalar => Node::Scalar(scalar),
        }),
        Some(tag) => {
            let tag =
                tag.strip_prefix("tag:yaml.org,2002:").map_or_else(|| tag.to_owned(), |t| format!("!!{t}"));
            match resolve::tagged(&tag, &text)? {
                (Scalar::Text, Some(text)) => Ok(Node::Text(Cow::Owned(text))),
                (Scalar::Text, None) if tag == "!!merge" => Ok(Node::Merge),
                (Scalar::Text, None) => Ok(Node::Text(text)),
                (scalar, _) => Ok(Node::Scalar(scalar)),
            }
        }
    }
}

/// What share of a document may come from aliases: small documents nearly all, huge ones a tenth.
fn allowed_alias_ratio(decoded: usize) -> f64 {
    const LOW: f64 = 400_000.0;
    const HIGH: f64 = 4_000_000.0;
    let decoded = decoded as f64;
    if decoded <= LOW {
        0.99
    } else if decoded >= HIGH {
        0.10
    } else {
        0.99 - 0.89 * ((decoded - LOW) / (HIGH - LOW))
    }
}
