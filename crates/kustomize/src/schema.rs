//! How lists of built-in kinds merge, and which kinds have no namespace.
//!
//! `schema/lists.txt` holds, for the types of Kubernetes 1.21 that the program carries, the fields that lead to a list
//! with the patch strategy `merge`, and that list's keys. `schema/scopes.txt` holds whether a kind has a namespace.
//! Both are tables of facts drawn from the published OpenAPI document; `schema/README.md` says how.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;

use super::error::{Error, Res};
use super::limits::Budget;
use super::yaml::load::first_document;
use super::yaml::node::Node;
use super::yaml::resolve::Dialect;

/// What is known of a value at some place.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// An object of a named type.
    Type(usize),
    /// A list and how it merges.
    List(Rc<List>),
    /// A map whose values all have one type.
    Values(usize),
}

/// How a list merges.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    /// Type of the items.
    items: Option<usize>,
    /// `merge` is among the strategies.
    pub(crate) merges: bool,
    /// Fields that identify an item.
    pub(crate) keys: Vec<String>,
}

impl List {
    /// What is known of an item.
    pub(crate) fn items(&self) -> Option<Shape> {
        self.items.map(Shape::Type)
    }
}

#[derive(Clone, Debug)]
enum Field {
    Object(usize),
    List(ListFact),
    Values(usize),
}

#[derive(Clone, Debug, Default)]
struct ListFact {
    items: Option<usize>,
    merges: bool,
    keys: Vec<String>,
}

#[derive(Clone, Debug, Default)]
struct Tables {
    types: Vec<HashMap<String, Field>>,
    by_kind: HashMap<String, usize>,
    namespaced: HashMap<String, bool>,
}

fn kind_key(api: &str, kind: &str) -> String {
    format!("{api} {kind}")
}

static BUILT_IN: LazyLock<Tables> = LazyLock::new(|| {
    let mut t = Tables::default();
    let number = |w: Option<&str>| w.and_then(|w| w.parse::<usize>().ok());
    for line in include_str!("schema/lists.txt").lines() {
        let mut w = line.split(' ');
        match (w.next(), w.next()) {
            (Some("def"), _) => t.types.push(HashMap::new()),
            (Some("type"), Some(api)) => {
                if let (Some(kind), Some(id)) = (w.next(), number(w.next())) {
                    t.by_kind.insert(kind_key(api, kind), id);
                }
            }
            (Some(shape), Some(name)) => {
                let target = number(w.next());
                let field = match (shape, target) {
                    ("o", Some(id)) => Field::Object(id),
                    ("m", Some(id)) => Field::Values(id),
                    _ => Field::List(ListFact {
                        items: target,
                        merges: w.next().is_some_and(|s| s.split(',').any(|s| s == "merge")),
                        keys: w.next().map(|k| k.split(',').map(str::to_owned).collect()).unwrap_or_default(),
                    }),
                };
                if let Some(fields) = t.types.last_mut() {
                    fields.insert(name.to_owned(), field);
                }
            }
            _ => {}
        }
    }
    t
});

static SCOPES: LazyLock<HashMap<&'static str, bool>> = LazyLock::new(|| {
    let lines = include_str!("schema/scopes.txt").lines();
    lines.filter_map(|l| l.split_once(" = ").map(|(k, v)| (k, v == "namespaced"))).collect()
});

/// The version of the built-in document; the only one that can be named.
const BUILT_IN_VERSION: &str = "v1.21.2";

/// The schema of one build: the built-in one, or what `openapi` names.
#[derive(Default)]
pub(crate) struct Schema {
    own: RefCell<Option<Rc<Tables>>>,
    set: Cell<bool>,
    /// The built-in document was consulted before another one was set, so it stays.
    built_in_used: Cell<bool>,
    keep_built_in: Cell<bool>,
}

impl Schema {
    /// Takes the `openapi` field of a Kustomization. Only the first one counts, the root's always.
    ///
    /// # Errors
    /// An unknown version, both a version and a file, or a file that is no OpenAPI document.
    pub(crate) fn set(
        &self,
        version: Option<&str>,
        file: Option<&str>,
        root: bool,
        budget: &Budget,
    ) -> Res<()> {
        if self.set.get() && !root {
            return Ok(());
        }
        if let Some(text) = file {
            if version.is_some() {
                return Err(Error::new("builtin version and custom schema provided, cannot use both"));
            }
            self.set.set(true);
            self.keep_built_in.set(self.built_in_used.get());
            let tables = parse_document(text, budget).map_err(|e| e.within("invalid schema file"))?;
            *self.own.borrow_mut() = Some(Rc::new(tables));
            return Ok(());
        }
        let Some(version) = version.filter(|v| !v.is_empty()) else { return Ok(()) };
        if version != BUILT_IN_VERSION {
            return Err(Error::new("the specified OpenAPI version is not built in"));
        }
        self.set.set(true);
        Ok(())
    }

    fn built_in(&self) -> bool {
        self.keep_built_in.get() || self.own.borrow().is_none()
    }

    pub(crate) fn is_cluster_scoped(&self, api: &str, kind: &str) -> bool {
        // The table is small and the key is built for each call: most kinds are found by their name alone first.
        let key = kind_key(api, kind);
        if let Some(namespaced) = SCOPES.get(key.as_str()) {
            return !namespaced;
        }
        if let Some(own) = &*self.own.borrow() {
            own.namespaced.get(&key).is_some_and(|n| !n)
        } else {
            self.built_in_used.set(true);
            false
        }
    }

    /// The type of a kind.
    pub(crate) fn of_kind(&self, api: &str, kind: &str) -> Option<Shape> {
        let key = kind_key(api, kind);
        if let Some(own) = &*self.own.borrow()
            && let Some(id) = own.by_kind.get(&key)
        {
            return Some(Shape::Type(*id | OWN));
        }
        if self.built_in() {
            self.built_in_used.set(true);
            return BUILT_IN.by_kind.get(&key).map(|id| Shape::Type(*id));
        }
        None
    }

    /// The value of a field.
    pub(crate) fn field(&self, shape: &Shape, name: &str) -> Option<Shape> {
        match shape {
            Shape::Type(id) => self.with_type(*id, |fields, mark| {
                fields.get(name).or_else(|| fields.get("*")).map(|f| match f {
                    Field::Object(t) => Shape::Type(*t | mark),
                    Field::Values(t) => Shape::Values(*t | mark),
                    Field::List(l) => Shape::List(Rc::new(List {
                        items: l.items.map(|t| t | mark),
                        merges: l.merges,
                        keys: l.keys.clone(),
                    })),
                })
            }),
            Shape::Values(id) => Some(Shape::Type(*id)),
            Shape::List(_) => None,
        }
    }

    fn with_type<T>(
        &self,
        id: usize,
        f: impl FnOnce(&HashMap<String, Field>, usize) -> Option<T>,
    ) -> Option<T> {
        if id & OWN == 0 {
            return f(BUILT_IN.types.get(id)?, 0);
        }
        let own = self.own.borrow().clone()?;
        f(own.types.get(id & !OWN)?, OWN)
    }
}

/// Marks types of the document that the build brought along.
const OWN: usize = 1 << 40;

/// An OpenAPI 2 document with `definitions` and `paths`.
fn parse_document(text: &str, budget: &Budget) -> Res<Tables> {
    let doc = first_document(text, Dialect::Old, budget).map_err(|e| Error::new(e.at_problem()))?;
    let doc = doc.unwrap_or_else(Node::null);
    let mut t = Reader { tables: Tables::default(), names: HashMap::new() };
    let definitions = doc.get("definitions").map(Node::entries).unwrap_or_default();
    for (name, _) in definitions {
        let id = t.tables.types.len();
        t.names.insert(name.text().to_owned(), id);
        t.tables.types.push(HashMap::new());
    }
    for (i, (_, schema)) in definitions.iter().enumerate() {
        let fields = t.fields(schema);
        if let Some(slot) = t.tables.types.get_mut(i) {
            *slot = fields;
        }
        for gvk in schema.get("x-kubernetes-group-version-kind").map(Node::items).unwrap_or_default() {
            t.tables.by_kind.insert(gvk_key(gvk), i);
        }
    }
    for (path, item) in doc.get("paths").map(Node::entries).unwrap_or_default() {
        if let Some(gvk) = item.at(&["get", "x-kubernetes-group-version-kind"]) {
            let within = path.text().contains("namespaces/{namespace}");
            let slot = t.tables.namespaced.entry(gvk_key(gvk)).or_insert(within);
            *slot |= within;
        }
    }
    Ok(t.tables)
}

fn gvk_key(gvk: &Node) -> String {
    let part = |n: &str| gvk.get(n).map_or("", Node::value);
    let api = if part("group").is_empty() {
        part("version").to_owned()
    } else {
        format!("{}/{}", part("group"), part("version"))
    };
    kind_key(&api, part("kind"))
}

struct Reader {
    tables: Tables,
    names: HashMap<String, usize>,
}

impl Reader {
    fn fields(&mut self, schema: &Node) -> HashMap<String, Field> {
        let mut out = HashMap::new();
        for (name, property) in schema.get("properties").map(Node::entries).unwrap_or_default() {
            if let Some(f) = self.field(property) {
                out.insert(name.text().to_owned(), f);
            }
        }
        if let Some(f) = schema.get("additionalProperties").and_then(|p| self.field(p)) {
            out.insert("*".to_owned(), f);
        }
        out
    }

    /// A named type, or an inline one that gets a number.
    fn type_of(&mut self, schema: &Node) -> Option<usize> {
        if let Some(reference) = schema.get("$ref") {
            return self.names.get(reference.value().strip_prefix("#/definitions/")?).copied();
        }
        if schema.get("properties").is_none() && schema.get("additionalProperties").is_none() {
            return None;
        }
        let id = self.tables.types.len();
        self.tables.types.push(HashMap::new());
        let fields = self.fields(schema);
        if let Some(slot) = self.tables.types.get_mut(id) {
            *slot = fields;
        }
        Some(id)
    }

    fn field(&mut self, schema: &Node) -> Option<Field> {
        if schema.get("type").is_some_and(|t| t.value() == "array") {
            let items = schema.get("items").and_then(|i| self.type_of(i));
            let strategy = schema.get("x-kubernetes-patch-strategy").map_or("", Node::value);
            let merges = strategy.split(',').any(|s| s == "merge");
            let keys = match (
                schema.get("x-kubernetes-list-map-keys"),
                schema.get("x-kubernetes-patch-merge-key"),
            ) {
                (Some(list), _) => list.items().iter().map(|k| k.value().to_owned()).collect(),
                (None, Some(key)) => vec![key.value().to_owned()],
                (None, None) => Vec::new(),
            };
            return Some(Field::List(ListFact { items, merges, keys }));
        }
        self.type_of(schema).map(Field::Object)
    }
}
