//! What a render runs in: its templates, what it may use, and why it stops.

use std::{collections::HashMap, rc::Rc, sync::Arc};

use plural_yaml::governor;
use smallvec::SmallVec;

use crate::{
    ast::Tree,
    funcs::Compiled,
    random::Random,
    value::{Map, Str, Value},
};

/// Why a template stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A function refused; not yet said where.
    Text(String),
    /// Said where, as Go says it.
    Exec(String),
    /// A limit of ours was reached: nothing catches it.
    Limit(String),
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Fault {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// What `lookup` asks.
pub trait Lookup {
    /// The object, or the list when `name` is empty; None when there is none or it is not granted.
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str)
    -> Option<serde_json::Value>;
}

/// How much one render may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Steps: one for each action, iteration and call.
    pub fuel: u64,
    /// Bytes that all templates write, and that functions make on the way.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { fuel: 50_000_000, bytes: 2 << 30 }
    }
}

/// What one render runs in: its templates, chance, the clock and what it may still use.
pub struct Engine<'h> {
    templates: HashMap<Str, Arc<Tree>>,
    /// Definitions made by `tpl`, seen only while it runs; the innermost last.
    pub(super) scopes: Vec<HashMap<Str, Arc<Tree>>>,
    pub(super) parsed: HashMap<Str, Rc<ParsedText>>,
    pub(super) included: HashMap<Str, usize>,
    pub(super) depth: usize,
    fuel: u64,
    bytes: u64,
    limits: Limits,
    /// Maps into which maps were put: what could hold itself is emptied in the end.
    written: Vec<Map>,
    /// What random functions draw from.
    pub random: Random,
    /// Milliseconds since 1970.
    pub(crate) clock_ms: i64,
    pub(crate) lookup: Option<&'h dyn Lookup>,
    /// Compiled expressions of this render.
    pub(crate) patterns: HashMap<Str, Compiled>,
}

pub(super) type ParsedText = std::result::Result<Vec<Arc<Tree>>, String>;
pub(super) type Result<T> = std::result::Result<T, Fault>;
/// Arguments of a call.
pub(crate) type Args = SmallVec<[Value; 4]>;

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        for map in &self.written {
            map.clear();
        }
    }
}

impl<'h> Engine<'h> {
    /// An engine without templates.
    pub fn new(random: Random, clock_ms: i64, lookup: Option<&'h dyn Lookup>, limits: Limits) -> Self {
        Self {
            templates: HashMap::new(),
            scopes: Vec::new(),
            parsed: HashMap::new(),
            included: HashMap::new(),
            depth: 0,
            fuel: 0,
            bytes: 0,
            limits,
            written: Vec::new(),
            random,
            clock_ms,
            lookup,
            patterns: HashMap::new(),
        }
    }

    /// Adds templates; a later one replaces an earlier of the same name unless it is empty.
    pub fn add(&mut self, trees: &[Arc<Tree>]) {
        for tree in trees {
            if tree.is_empty() && self.templates.contains_key(&tree.name) {
                continue;
            }
            self.templates.insert(tree.name.clone(), tree.clone());
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<Tree>> {
        self.scopes
            .iter()
            .rev()
            .find_map(|scope| scope.get(name))
            .or_else(|| self.templates.get(name))
            .cloned()
    }

    /// Counts steps.
    pub(crate) fn burn(&mut self, steps: u64) -> Result<()> {
        self.fuel = self.fuel.saturating_add(steps);
        if self.fuel > self.limits.fuel {
            return Err(Fault::Limit(format!(
                "the render takes more than {} steps (limit of fuel)",
                self.limits.fuel
            )));
        }
        asked(0)
    }

    /// Steps that were taken so far.
    pub fn spent(&self) -> u64 {
        self.fuel
    }

    /// Counts bytes that are made.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        if self.bytes > self.limits.bytes {
            return Err(Fault::Limit(format!(
                "the render makes more than {} bytes (limit of bytes held)",
                self.limits.bytes
            )));
        }
        asked(bytes as u64)
    }

    /// Remembers that something was put into a map.
    pub(crate) fn wrote(&mut self, map: &Map, value: &Value) {
        if matches!(value, Value::Map(_) | Value::List(_)) {
            self.written.push(map.clone());
        }
    }
}

/// Asks the caller whether the render may go on.
fn asked(bytes: u64) -> Result<()> {
    if governor::may_go_on(bytes) { Ok(()) } else { Err(Fault::Limit(governor::STOPPED.to_owned())) }
}
