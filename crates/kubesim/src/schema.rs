//! Schemas of objects in one compact form, for built-in kinds and custom resources alike.
//!
//! A [`Schema`] is an arena of nodes with one root. Built-in kinds share one arena that is parsed once per process
//! from `data/schemas.json` (the server's published OpenAPI document without its prose); each version of a custom
//! resource has an arena of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::crd::rules::Rules;

/// Index of a node in its arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);

/// A node for values of which nothing is declared; maps below it are merged field by field.
pub(crate) const DEDUCED: NodeId = NodeId(0);
/// A node for values of which nothing is declared and which have one owner as a whole.
pub(crate) const OPAQUE: NodeId = NodeId(1);

/// JSON type of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    /// Fields and/or free keys.
    Object,
    /// Items.
    Array,
    /// Text.
    String,
    /// Whole number.
    Integer,
    /// Number.
    Number,
    /// true or false.
    Boolean,
    /// Number or text.
    IntOrString,
    /// A resource amount: text or number, written in canonical form.
    Quantity,
    /// A point in time.
    Time,
    /// Anything.
    Any,
}

/// How items of a list are told apart when several managers own parts of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// One owner for the whole list.
    Atomic,
    /// Scalars, each its own key.
    Set,
    /// Objects with these key fields.
    Map(Vec<String>),
}

/// Strategic-merge directives of a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PatchStrategy {
    /// Lists merge by key (or as a set).
    pub merge: bool,
    /// Keys that the patch does not name are dropped.
    pub retain_keys: bool,
}

/// One node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Its JSON type.
    pub ty: Type,
    /// Last part of the definition's name, for decoding errors; empty for nested schemas.
    pub name: String,
    /// OpenAPI format, e.g. `int32`.
    pub format: String,
    /// Declared fields.
    pub fields: BTreeMap<String, NodeId>,
    /// Schema of keys that are not declared.
    pub extra: Option<NodeId>,
    /// Schema of items.
    pub items: Option<NodeId>,
    /// How items are told apart.
    pub list: ListKind,
    /// The object has one owner as a whole.
    pub atomic: bool,
    /// Undeclared fields are kept.
    pub preserve: bool,
    /// An object with apiVersion, kind and metadata of its own.
    pub embedded: bool,
    /// `null` is a value.
    pub nullable: bool,
    /// Fields that must be there.
    pub required: Vec<String>,
    /// Default value.
    pub default: Option<Value>,
    /// Strategic-merge directive of the field that holds this node.
    pub patch: PatchStrategy,
    /// Strategic-merge key of the list that this node is.
    pub merge_key: Option<String>,
    /// Value rules (custom resources only).
    pub rules: Option<Box<Rules>>,
}

impl Node {
    fn any(atomic: bool) -> Self {
        Self {
            ty: Type::Any,
            name: String::new(),
            format: String::new(),
            fields: BTreeMap::new(),
            extra: None,
            items: None,
            list: ListKind::Atomic,
            atomic,
            preserve: true,
            embedded: false,
            nullable: true,
            required: Vec::new(),
            default: None,
            patch: PatchStrategy::default(),
            merge_key: None,
            rules: None,
        }
    }
}

/// All nodes of one document.
#[derive(Debug)]
pub(crate) struct Arena {
    nodes: Vec<Node>,
}

/// A root in a shared arena.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    /// Where the nodes live.
    pub arena: Arc<Arena>,
    /// The node of the whole object.
    pub root: NodeId,
}

impl Arena {
    /// The node with this id.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The schema of `field` below `id`, and whether the field is declared by name.
    pub(crate) fn field(&self, id: NodeId, field: &str) -> Option<(NodeId, bool)> {
        let n = self.node(id);
        if let Some(f) = n.fields.get(field) {
            return Some((*f, true));
        }
        if let Some(x) = n.extra {
            return Some((x, false));
        }
        if n.preserve {
            Some((if n.atomic && n.ty == Type::Any { OPAQUE } else { DEDUCED }, false))
        } else {
            None
        }
    }

    /// The schema of items of `id`.
    pub(crate) fn item(&self, id: NodeId) -> NodeId {
        self.node(id).items.unwrap_or(OPAQUE)
    }
}

/// Builds an arena from OpenAPI documents.
pub(crate) struct Builder<'a> {
    definitions: &'a serde_json::Map<String, Value>,
    custom: bool,
    nodes: Vec<Node>,
    named: HashMap<String, NodeId>,
}

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
/// Definition of object metadata.
pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

impl<'a> Builder<'a> {
    /// A builder that resolves references in `definitions`.
    pub(crate) fn new(definitions: &'a serde_json::Map<String, Value>, custom: bool) -> Self {
        Self { definitions, custom, nodes: vec![Node::any(false), Node::any(true)], named: HashMap::new() }
    }

    /// The node of a definition, built on first use.
    pub(crate) fn definition(&mut self, name: &str) -> NodeId {
        if let Some(id) = self.named.get(name) {
            return *id;
        }
        let Some(doc) = self.definitions.get(name) else { return DEDUCED };
        // Reserve the place first: definitions refer to themselves.
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node::any(false));
        self.named.insert(name.to_owned(), id);
        let custom = std::mem::replace(&mut self.custom, false);
        let mut node = self.node(doc);
        self.custom = custom;
        name.rsplit('.').next().unwrap_or_default().clone_into(&mut node.name);
        if name == QUANTITY {
            node.ty = Type::Quantity;
            node.preserve = false;
        } else if name.ends_with(".Time") || name.ends_with(".MicroTime") {
            node.ty = Type::Time;
        }
        self.nodes[id.0 as usize] = node;
        id
    }

    /// Adds a schema document.
    pub(crate) fn add(&mut self, doc: &Value) -> NodeId {
        if let Some(name) = doc.get("$ref").and_then(Value::as_str) {
            let base = self.definition(name);
            let plain = doc.as_object().is_none_or(|o| o.len() == 1);
            if plain {
                return base;
            }
            // Siblings of a reference (default, patch strategy, map type) belong to this use of it only.
            let mut node = self.nodes[base.0 as usize].clone();
            node.default = doc.get("default").cloned();
            if let Some(t) = doc.get("x-kubernetes-map-type").and_then(Value::as_str) {
                node.atomic = t == "atomic";
            }
            node.patch = patch_strategy(doc);
            // A reference into a definition that is still being built has no fields yet: point at it instead.
            if node.ty == Type::Any
                && node.fields.is_empty()
                && self.definitions.get(name).is_some_and(has_fields)
            {
                return base;
            }
            return self.push(node);
        }
        let node = self.node(doc);
        self.push(node)
    }

    fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(node);
        id
    }

    fn node(&mut self, doc: &Value) -> Node {
        let flag = |k: &str| doc.get(k).and_then(Value::as_bool).unwrap_or(false);
        let text = |k: &str| doc.get(k).and_then(Value::as_str);
        let mut n = Node::any(false);
        n.nullable = flag("nullable");
        text("format").unwrap_or_default().clone_into(&mut n.format);
        n.embedded = flag("x-kubernetes-embedded-resource");
        n.preserve = flag("x-kubernetes-preserve-unknown-fields");
        n.default = doc.get("default").cloned();
        n.patch = patch_strategy(doc);
        n.merge_key = text("x-kubernetes-patch-merge-key").map(ToOwned::to_owned);
        n.atomic = text("x-kubernetes-map-type") == Some("atomic");
        n.required = strings(doc.get("required"));
        n.list = match text("x-kubernetes-list-type") {
            Some("set") => ListKind::Set,
            Some("map") => ListKind::Map(strings(doc.get("x-kubernetes-list-map-keys"))),
            _ => ListKind::Atomic,
        };
        n.ty = if flag("x-kubernetes-int-or-string") || text("format") == Some("int-or-string") {
            Type::IntOrString
        } else {
            match text("type") {
                Some("object") => Type::Object,
                Some("array") => Type::Array,
                Some("string") => Type::String,
                Some("integer") => Type::Integer,
                Some("number") => Type::Number,
                Some("boolean") => Type::Boolean,
                _ => Type::Any,
            }
        };
        if let Some(props) = doc.get("properties").and_then(Value::as_object) {
            for (name, sub) in props {
                let id = self.add(sub);
                n.fields.insert(name.clone(), id);
            }
        }
        match doc.get("additionalProperties") {
            Some(Value::Bool(true)) => n.preserve = true,
            Some(sub @ Value::Object(_)) => n.extra = Some(self.add(sub)),
            _ => {}
        }
        if let Some(items) = doc.get("items") {
            n.items = Some(self.add(items));
        }
        if self.custom {
            n.rules = Rules::parse(doc).map(Box::new);
        } else if n.ty == Type::Any || (n.ty == Type::Object && n.fields.is_empty() && n.extra.is_none()) {
            // A built-in type without structure (RawExtension, FieldsV1, JSON): kept whole, one owner.
            n.preserve = true;
            n.atomic = true;
        }
        if n.embedded {
            for f in ["apiVersion", "kind"] {
                n.fields.entry(f.into()).or_insert(OPAQUE);
            }
            let meta = self.definition(OBJECT_META);
            n.fields.insert("metadata".into(), meta);
        }
        n
    }

    /// Makes `root` a whole API object: apiVersion, kind and metadata are what they always are.
    pub(crate) fn make_object(&mut self, root: NodeId) {
        let meta = self.definition(OBJECT_META);
        let string =
            self.push(Node { ty: Type::String, preserve: false, nullable: false, ..Node::any(false) });
        let node = &mut self.nodes[root.0 as usize];
        node.ty = Type::Object;
        node.fields.insert("apiVersion".into(), string);
        node.fields.insert("kind".into(), string);
        node.fields.insert("metadata".into(), meta);
    }

    /// The finished arena.
    pub(crate) fn finish(self) -> Arc<Arena> {
        Arc::new(Arena { nodes: self.nodes })
    }
}

fn has_fields(doc: &Value) -> bool {
    doc.get("properties").is_some()
}

fn patch_strategy(doc: &Value) -> PatchStrategy {
    let s = doc.get("x-kubernetes-patch-strategy").and_then(Value::as_str).unwrap_or_default();
    PatchStrategy {
        merge: s.split(',').any(|p| p == "merge"),
        retain_keys: s.split(',').any(|p| p == "retainKeys"),
    }
}

fn strings(v: Option<&Value>) -> Vec<String> {
    v.and_then(Value::as_array)
        .map(|a| a.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect())
        .unwrap_or_default()
}
