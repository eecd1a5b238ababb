//! The tree that a document becomes. Comments are not kept: no output of a build shows them.

use std::fmt;

/// What a node is, as the text or an explicit `!tag` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// Made by the build: what it is follows from its text when it is printed.
    None,
    Null,
    Bool,
    Int,
    Float,
    Str,
    Timestamp,
    Merge,
    Binary,
    Seq,
    Map,
    /// Any other explicit tag.
    Other(Box<str>),
}

impl Tag {
    pub(crate) fn short(&self) -> &str {
        match self {
            Self::None => "",
            Self::Null => "!!null",
            Self::Bool => "!!bool",
            Self::Int => "!!int",
            Self::Float => "!!float",
            Self::Str => "!!str",
            Self::Timestamp => "!!timestamp",
            Self::Merge => "!!merge",
            Self::Binary => "!!binary",
            Self::Seq => "!!seq",
            Self::Map => "!!map",
            Self::Other(t) => t,
        }
    }

    pub(crate) fn from_text(tag: &str) -> Self {
        let short = tag.strip_prefix("tag:yaml.org,2002:").or_else(|| tag.strip_prefix("!!"));
        match short {
            Some("null") => Self::Null,
            Some("bool") => Self::Bool,
            Some("int") => Self::Int,
            Some("float") => Self::Float,
            Some("str") => Self::Str,
            Some("timestamp") => Self::Timestamp,
            Some("merge") => Self::Merge,
            Some("binary") => Self::Binary,
            Some("seq") => Self::Seq,
            Some("map") => Self::Map,
            Some(other) => Self::Other(format!("!!{other}").into()),
            None => Self::Other(tag.into()),
        }
    }
}

/// How a scalar was written, and whether its tag was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Style(u8);

impl Style {
    pub(crate) const PLAIN: Self = Self(0);
    pub(crate) const SINGLE: Self = Self(1);
    pub(crate) const DOUBLE: Self = Self(2);
    pub(crate) const LITERAL: Self = Self(4);
    pub(crate) const FOLDED: Self = Self(8);
    pub(crate) const TAGGED: Self = Self(16);
    pub(crate) const FLOW: Self = Self(32);

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Quoted or a block: text whatever it looks like.
    pub(crate) fn is_textual(self) -> bool {
        self.0 & 15 != 0
    }
}

/// One node with its content.
#[derive(Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) data: Data,
    pub(crate) tag: Tag,
    pub(crate) style: Style,
    /// Texts of one object with the same number are one text: a change to one changes all. Zero is none.
    pub(crate) share: u32,
}

#[derive(Clone, PartialEq)]
pub(crate) enum Data {
    Scalar(Box<str>),
    Seq(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

/// The three shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Scalar,
    Seq,
    Map,
}

impl Shape {
    /// The name that messages use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Scalar => "ScalarNode",
            Self::Seq => "SequenceNode",
            Self::Map => "MappingNode",
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.data {
            Data::Scalar(s) => write!(f, "{}{s:?}", self.tag.short()),
            Data::Seq(v) => f.debug_list().entries(v).finish(),
            Data::Map(m) => f.debug_map().entries(m.iter().map(|(k, v)| (k, v))).finish(),
        }
    }
}

impl Node {
    /// A scalar whose kind follows from its text.
    pub(crate) fn bare(text: &str) -> Self {
        Self { data: Data::Scalar(text.into()), tag: Tag::None, style: Style::PLAIN, share: 0 }
    }

    pub(crate) fn tagged(text: &str, tag: Tag) -> Self {
        Self { data: Data::Scalar(text.into()), tag, style: Style::PLAIN, share: 0 }
    }

    /// A text; a block if it has line breaks.
    pub(crate) fn string(text: &str) -> Self {
        let style = if text.contains('\n') { Style::LITERAL } else { Style::PLAIN };
        Self { data: Data::Scalar(text.into()), tag: Tag::Str, style, share: 0 }
    }

    pub(crate) fn null() -> Self {
        Self::tagged("null", Tag::Null)
    }

    pub(crate) fn map(entries: Vec<(Self, Self)>) -> Self {
        Self { data: Data::Map(entries), tag: Tag::Map, style: Style::PLAIN, share: 0 }
    }

    pub(crate) fn seq(items: Vec<Self>) -> Self {
        Self { data: Data::Seq(items), tag: Tag::Seq, style: Style::PLAIN, share: 0 }
    }

    /// An empty node of a shape, as a path that is created leaves behind.
    pub(crate) fn empty(shape: Shape) -> Self {
        match shape {
            Shape::Scalar => Self::bare(""),
            Shape::Seq => Self { data: Data::Seq(Vec::new()), tag: Tag::None, style: Style::PLAIN, share: 0 },
            Shape::Map => Self { data: Data::Map(Vec::new()), tag: Tag::None, style: Style::PLAIN, share: 0 },
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        match self.data {
            Data::Scalar(_) => Shape::Scalar,
            Data::Seq(_) => Shape::Seq,
            Data::Map(_) => Shape::Map,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.tag == Tag::Null
    }

    /// Null, `{}` or `[]`.
    pub(crate) fn is_nothing(&self) -> bool {
        self.is_null()
            || match &self.data {
                Data::Scalar(_) => false,
                Data::Seq(v) => v.is_empty(),
                Data::Map(m) => m.is_empty(),
            }
    }

    /// A text or something untagged.
    pub(crate) fn is_string(&self) -> bool {
        matches!(self.data, Data::Scalar(_)) && matches!(self.tag, Tag::Str | Tag::None)
    }

    /// The text of a scalar; empty for the other shapes.
    pub(crate) fn text(&self) -> &str {
        match &self.data {
            Data::Scalar(s) => s,
            _ => "",
        }
    }

    /// The text of a scalar that is not null.
    pub(crate) fn value(&self) -> &str {
        if self.is_null() { "" } else { self.text() }
    }

    /// Takes another node's content; the place stays shared with the places it was shared with.
    pub(crate) fn become_node(&mut self, other: Self) {
        let share = match other.data {
            Data::Scalar(_) => self.share,
            Data::Seq(_) | Data::Map(_) => 0,
        };
        *self = Self { share, ..other };
    }

    /// Forgets what is shared, here and below.
    pub(crate) fn unshare(&mut self) {
        self.share = 0;
        match &mut self.data {
            Data::Scalar(_) => {}
            Data::Seq(v) => v.iter_mut().for_each(Self::unshare),
            Data::Map(m) => m.iter_mut().for_each(|(_, v)| v.unshare()),
        }
    }

    pub(crate) fn set_text(&mut self, text: &str) {
        self.data = Data::Scalar(text.into());
    }

    pub(crate) fn entries(&self) -> &[(Self, Self)] {
        match &self.data {
            Data::Map(m) => m,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Self] {
        match &self.data {
            Data::Seq(v) => v,
            _ => &[],
        }
    }

    pub(crate) fn items_mut(&mut self) -> &mut [Self] {
        match &mut self.data {
            Data::Seq(v) => v,
            _ => &mut [],
        }
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [(Self, Self)] {
        match &mut self.data {
            Data::Map(m) => m,
            _ => &mut [],
        }
    }

    /// The value of a field; the first if it is repeated.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.entries().iter().find(|(k, _)| k.text() == name).map(|(_, v)| v)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Self> {
        self.entries_mut().iter_mut().find(|(k, _)| k.text() == name).map(|(_, v)| v)
    }

    /// A field below fields.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |n, p| n.get(p))
    }

    /// Takes a field away.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Self> {
        match &mut self.data {
            Data::Map(m) => {
                let i = m.iter().position(|(k, _)| k.text() == name)?;
                Some(m.remove(i).1)
            }
            _ => None,
        }
    }

    /// Adds a field at the end without looking for it.
    pub(crate) fn push_field(&mut self, name: &str, value: Self) {
        self.push_entry(Self::bare(name), value);
    }

    pub(crate) fn push_entry(&mut self, key: Self, value: Self) {
        match &mut self.data {
            Data::Map(m) => m.push((key, value)),
            _ => self.data = Data::Map(vec![(key, value)]),
        }
    }

    /// The field, made as an empty map if it is missing (or null).
    pub(crate) fn map_field(&mut self, name: &str) -> &mut Self {
        let m = match &mut self.data {
            Data::Map(m) => m,
            other => {
                *other = Data::Map(Vec::new());
                match other {
                    Data::Map(m) => m,
                    // It was made a map in the line above.
                    Data::Scalar(_) | Data::Seq(_) => unreachable!("a map was just put here"),
                }
            }
        };
        let i = m.iter().position(|(k, _)| k.text() == name).unwrap_or(m.len());
        if i == m.len() {
            m.push((Self::bare(name), Self::empty(Shape::Map)));
        }
        let value = &mut m[i].1;
        if value.is_null() {
            *value = Self::empty(Shape::Map);
        }
        value
    }

    /// Number of nodes and bytes of text: what a copy costs.
    pub(crate) fn weight(&self) -> (u64, u64) {
        match &self.data {
            Data::Scalar(s) => (1, s.len() as u64 + 48),
            Data::Seq(v) => v.iter().fold((1, 48), |a, n| add(a, n.weight())),
            Data::Map(m) => m.iter().fold((1, 48), |a, (k, v)| add(add(a, k.weight()), v.weight())),
        }
    }

    /// Levels below and with this one.
    pub(crate) fn depth(&self) -> usize {
        1 + match &self.data {
            Data::Scalar(_) => 0,
            Data::Seq(v) => v.iter().map(Self::depth).max().unwrap_or(0),
            Data::Map(m) => m.iter().map(|(_, v)| v.depth()).max().unwrap_or(0),
        }
    }
}

fn add(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0 + b.0, a.1 + b.1)
}
