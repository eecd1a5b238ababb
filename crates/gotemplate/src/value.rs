//! What templates compute with: Go's values as far as templates can tell them apart.
//!
//! Maps are references, as in Go: `set` is seen by everyone who holds the same map. Lists are not.

use std::{
    cell::{Ref, RefCell},
    rc::Rc,
    sync::Arc,
};

use super::{
    objects::{Struct, Time},
    semver::Version,
};

/// Text of a value.
pub type Str = Arc<str>;

/// One value.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// No value at all.
    #[default]
    Nil,
    /// A nil found in a map or list; only the evaluator tells it from [`Value::Nil`].
    NilField,
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `int64`
    Int64(i64),
    /// `uint64`
    Uint64(u64),
    /// `float64`
    Float(f64),
    /// `complex128`: real and imaginary part. Only a literal such as `1i` makes one.
    Complex(f64, f64),
    /// `string`
    Str(Str),
    /// A string that is not UTF-8.
    Raw(Arc<[u8]>),
    /// `[]byte`
    Bytes(Arc<[u8]>),
    /// A slice, but for `[]byte`.
    List(List),
    /// A map.
    Map(Map),
    /// A struct, or a pointer to one.
    Struct(Rc<Struct>),
    /// Behind a reference: it would make every value larger.
    Time(Rc<Time>),
    /// Nanoseconds.
    Duration(i64),
    /// `*semver.Version`
    Version(Rc<Version>),
}

impl Value {
    /// A text.
    pub fn str(text: &str) -> Self {
        Self::Str(text.into())
    }

    /// A value of JSON as templates see it: all numbers are floats.
    pub fn from_json(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Nil,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => Self::Float(number.as_f64().unwrap_or(0.0)),
            serde_json::Value::String(text) => Self::str(text),
            serde_json::Value::Array(items) => {
                Self::List(List::new(items.iter().map(Self::from_json).collect()))
            }
            serde_json::Value::Object(map) => Self::Map(Map::of(
                map.iter().map(|(key, value)| (key.as_str().into(), Self::from_json(value))).collect(),
            )),
        }
    }

    /// A string of any bytes.
    pub(crate) fn string_of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Str(text.into()),
            Err(error) => Self::Raw(error.into_bytes().into()),
        }
    }

    /// A point in time.
    pub fn time(time: Time) -> Self {
        Self::Time(Rc::new(time))
    }

    /// Whether there is no value.
    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Nil | Self::NilField)
    }

    /// The text of a string that is UTF-8.
    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Self::Str(text) = self { Some(text) } else { None }
    }

    /// The bytes of a string.
    pub(crate) fn as_string_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Str(text) => Some(text.as_bytes()),
            Self::Raw(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// `reflect.Kind` by name.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Nil | Self::NilField => "invalid",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) | Self::Duration(_) => "int64",
            Self::Uint64(_) => "uint64",
            Self::Float(_) => "float64",
            Self::Complex(..) => "complex128",
            Self::Str(_) | Self::Raw(_) => "string",
            Self::Bytes(_) | Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Struct(object) if object.ty.pointer => "ptr",
            Self::Struct(_) | Self::Time(_) => "struct",
            Self::Version(_) => "ptr",
        }
    }

    /// The type as Go's `%T` prints it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "<nil>",
            Self::NilField => "interface {}",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Uint64(_) => "uint64",
            Self::Float(_) => "float64",
            Self::Complex(..) => "complex128",
            Self::Str(_) | Self::Raw(_) => "string",
            Self::Bytes(_) => "[]uint8",
            Self::List(list) => match list.ty() {
                ListType::Any => "[]interface {}",
                ListType::Str => "[]string",
                ListType::Int => "[]int",
                ListType::Versions => "chartutil.VersionSet",
            },
            Self::Map(map) => match map.ty() {
                MapType::Any => "map[string]interface {}",
                MapType::Values => "chartutil.Values",
                MapType::Str => "map[string]string",
                MapType::Files => "engine.files",
            },
            Self::Struct(object) => object.ty.name,
            Self::Time(_) => "time.Time",
            Self::Duration(_) => "time.Duration",
            Self::Version(_) => "*semver.Version",
        }
    }

    /// Go's truth: empty, zero and nil are false.
    pub fn truth(&self) -> bool {
        match self {
            Self::Nil | Self::NilField => false,
            Self::Bool(value) => *value,
            Self::Int(value) | Self::Int64(value) | Self::Duration(value) => *value != 0,
            Self::Uint64(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Complex(real, imaginary) => (*real, *imaginary) != (0.0, 0.0),
            Self::Str(text) => !text.is_empty(),
            Self::Raw(bytes) | Self::Bytes(bytes) => !bytes.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Struct(_) | Self::Time(_) | Self::Version(_) => true,
        }
    }

    /// The same value as something a map or list gave.
    pub(crate) fn into_field(self) -> Self {
        if let Self::Nil = self { Self::NilField } else { self }
    }

    /// The same value without the memory of where it came from.
    pub(crate) fn unwrap_field(self) -> Self {
        if let Self::NilField = self { Self::Nil } else { self }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::str(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Str(text.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// What a list holds in Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListType {
    /// `[]interface{}`
    Any,
    /// `[]string`
    Str,
    /// `[]int`
    Int,
    /// `.Capabilities.APIVersions`
    Versions,
}

/// A list that never changes.
#[derive(Debug, Clone)]
pub struct List(Rc<ListBox>);

#[derive(Debug)]
struct ListBox {
    ty: ListType,
    /// Whether it is Go's nil slice, which JSON and YAML write as null.
    nil: bool,
    items: Vec<Value>,
}

impl List {
    /// An `[]interface{}`.
    pub fn new(items: Vec<Value>) -> Self {
        Self::typed(ListType::Any, items)
    }

    /// A list of a Go type.
    pub fn typed(ty: ListType, items: Vec<Value>) -> Self {
        Self(Rc::new(ListBox { ty, nil: false, items }))
    }

    /// Go's nil slice.
    pub(crate) fn nil() -> Self {
        Self::nil_of(ListType::Any)
    }

    /// Go's nil slice of a type.
    pub(crate) fn nil_of(ty: ListType) -> Self {
        Self(Rc::new(ListBox { ty, nil: true, items: Vec::new() }))
    }

    pub(crate) fn is_nil(&self) -> bool {
        self.0.nil
    }

    /// A `[]string`.
    pub fn strings<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::typed(ListType::Str, items.into_iter().map(|s| Value::str(s.as_ref())).collect())
    }

    pub(crate) fn ty(&self) -> ListType {
        self.0.ty
    }

    /// What it holds.
    pub fn items(&self) -> &[Value] {
        &self.0.items
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        self.0.items.len()
    }

    /// Whether it has no items.
    pub fn is_empty(&self) -> bool {
        self.0.items.is_empty()
    }
}

/// What a map holds in Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapType {
    /// `map[string]interface{}`
    Any,
    /// `.Values` and the dot of a template file: `chartutil.Values`.
    Values,
    /// `map[string]string`
    Str,
    /// `.Files`
    Files,
}

/// A map: a reference to entries sorted by key.
#[derive(Debug, Clone)]
pub struct Map(Rc<MapBox>, MapType);

#[derive(Debug)]
struct MapBox {
    entries: RefCell<Vec<(Str, Value)>>,
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

impl Map {
    /// An empty `map[string]interface{}`.
    pub fn new() -> Self {
        Self::typed(MapType::Any, Vec::new())
    }

    /// A map of entries in any order; of two with the same key the later one counts.
    pub fn typed(ty: MapType, mut entries: Vec<(Str, Value)>) -> Self {
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let mut unique: Vec<(Str, Value)> = Vec::with_capacity(entries.len());
            for entry in entries {
                match unique.last_mut() {
                    Some(last) if last.0 == entry.0 => *last = entry,
                    _ => unique.push(entry),
                }
            }
            entries = unique;
        }
        Self(Rc::new(MapBox { entries: RefCell::new(entries) }), ty)
    }

    /// A `map[string]interface{}` of entries in any order.
    pub fn of(entries: Vec<(Str, Value)>) -> Self {
        Self::typed(MapType::Any, entries)
    }

    pub(crate) fn ty(&self) -> MapType {
        self.1
    }

    /// The same reference under another Go type.
    #[must_use]
    pub fn viewed(&self, ty: MapType) -> Self {
        Self(self.0.clone(), ty)
    }

    /// Whether both are the same reference.
    pub(crate) fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The entries, sorted by key. To be held for a moment only: nothing may be set meanwhile.
    pub fn entries(&self) -> Ref<'_, Vec<(Str, Value)>> {
        self.0.entries.borrow()
    }

    /// A copy of the entries.
    pub fn snapshot(&self) -> Vec<(Str, Value)> {
        self.entries().clone()
    }

    /// The value under `key`.
    pub fn get(&self, key: &str) -> Option<Value> {
        let entries = self.entries();
        position(&entries, key).ok().map(|at| entries[at].1.clone())
    }

    /// Whether there is an entry under `key`.
    pub fn contains(&self, key: &str) -> bool {
        position(&self.entries(), key).is_ok()
    }

    /// Puts a value under `key`, in place of one that is there.
    pub fn set(&self, key: Str, value: Value) {
        let old = {
            let mut entries = self.0.entries.borrow_mut();
            match entries.last() {
                Some(last) if last.0 < key => {
                    entries.push((key, value));
                    return;
                }
                _ => {}
            }
            match position(&entries, &key) {
                Ok(at) => std::mem::replace(&mut entries[at].1, value),
                Err(at) => {
                    entries.insert(at, (key, value));
                    Value::Nil
                }
            }
        };
        drop(old);
    }

    /// Takes the entry under `key` out.
    pub fn remove(&self, key: &str) -> Option<Value> {
        let mut entries = self.0.entries.borrow_mut();
        position(&entries, key).ok().map(|at| entries.remove(at).1)
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Takes all entries out: cuts circles of maps.
    pub(crate) fn clear(&self) {
        let entries = self.0.entries.take();
        drop(entries);
    }

    /// The map under `key` when there is one.
    pub fn map(&self, key: &str) -> Option<Self> {
        match self.get(key) {
            Some(Value::Map(map)) => Some(map),
            _ => None,
        }
    }
}

fn position(entries: &[(Str, Value)], key: &str) -> Result<usize, usize> {
    entries.binary_search_by(|entry| (*entry.0).cmp(key))
}

/// Containers are dropped without recursion: a template can nest them as deep as it likes.
fn drop_flat(first: impl Iterator<Item = Value>) {
    let mut open: Vec<Value> = first.filter(|v| matches!(v, Value::Map(_) | Value::List(_))).collect();
    while let Some(value) = open.pop() {
        match value {
            Value::Map(mut map) => {
                if let Some(inner) = Rc::get_mut(&mut map.0) {
                    open.extend(inner.entries.take().into_iter().map(|e| e.1));
                }
            }
            Value::List(mut list) => {
                if let Some(inner) = Rc::get_mut(&mut list.0) {
                    open.extend(std::mem::take(&mut inner.items));
                }
            }
            _ => {}
        }
    }
}

impl Drop for ListBox {
    fn drop(&mut self) {
        drop_flat(std::mem::take(&mut self.items).into_iter());
    }
}

impl Drop for MapBox {
    fn drop(&mut self) {
        drop_flat(self.entries.take().into_iter().map(|entry| entry.1));
    }
}

/// Deepest value that is walked; one that is deeper holds itself.
pub(crate) const MAX_DEPTH: usize = 1000;

/// A copy that shares no map. `None` when the value is too deep.
pub(crate) fn deep_copy(value: &Value) -> Option<Value> {
    copy_level(value, 0)
}

fn copy_level(value: &Value, depth: usize) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    Some(match value {
        Value::Map(map) => Value::Map(copy_map_level(map, depth)?),
        Value::List(list) if list.ty() == ListType::Any && !list.is_nil() => {
            let items = list.items().iter().map(|item| copy_level(item, depth + 1)).collect::<Option<_>>()?;
            Value::List(List::new(items))
        }
        other => other.clone(),
    })
}

fn copy_map_level(map: &Map, depth: usize) -> Option<Map> {
    let entries = map
        .entries()
        .iter()
        .map(|(key, value)| Some((key.clone(), copy_level(value, depth + 1)?)))
        .collect::<Option<Vec<_>>>()?;
    Some(Map(Rc::new(MapBox { entries: RefCell::new(entries) }), map.ty()))
}

/// A copy of a map that shares no map with it; an empty one when it is too deep.
pub fn deep_copy_map(map: &Map) -> Map {
    copy_map_level(map, 0).unwrap_or_default()
}

/// Go's `reflect.DeepEqual`.
pub(crate) fn deep_equal(a: &Value, b: &Value) -> bool {
    equal_level(a, b, 0)
}

#[expect(clippy::float_cmp, reason = "equality of values is that of their bits, as in Go")]
fn equal_level(a: &Value, b: &Value, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    match (a, b) {
        (Value::Nil | Value::NilField, Value::Nil | Value::NilField) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b))
        | (Value::Int64(a), Value::Int64(b))
        | (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Uint64(a), Value::Uint64(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Complex(a, b), Value::Complex(c, d)) => (a, b) == (c, d),
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Raw(a), Value::Raw(b)) | (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            a.ty() == b.ty()
                && a.is_nil() == b.is_nil()
                && a.len() == b.len()
                && a.items().iter().zip(b.items()).all(|(a, b)| equal_level(a, b, depth + 1))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.same(b)
                || a.ty() == b.ty()
                    && a.len() == b.len()
                    && a.entries()
                        .iter()
                        .zip(b.entries().iter())
                        .all(|(a, b)| a.0 == b.0 && equal_level(&a.1, &b.1, depth + 1))
        }
        (Value::Struct(a), Value::Struct(b)) => {
            std::ptr::eq(a.ty, b.ty)
                && a.fields().iter().zip(b.fields()).all(|(a, b)| equal_level(a, b, depth + 1))
        }
        (Value::Time(a), Value::Time(b)) => a == b,
        (Value::Version(a), Value::Version(b)) => a == b,
        _ => false,
    }
}
