//! One object on its way through a build, with what the build remembers of it.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::error::{Error, Res};
use super::fields::set_field;
use super::id::{Gvk, ResId};
use super::json::{Numbers, normalize};
use super::limits::Budget;
use super::schema::Schema;
use super::yaml::load::first_document;
use super::yaml::node::{Data, Node, Shape, Style, Tag};
use super::yaml::resolve::Dialect;

/// What a generated object does to one of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    Unspecified,
    Create,
    Replace,
    Merge,
}

impl Behavior {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "replace" => Self::Replace,
            "merge" => Self::Merge,
            "create" => Self::Create,
            _ => Self::Unspecified,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Merge => "merge",
        }
    }
}

/// What the program keeps in annotations while it works.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// Earlier names: name, effective namespace, kind.
    pub(crate) previous: Vec<(String, String, String)>,
    pub(crate) prefixes: Vec<String>,
    pub(crate) suffixes: Vec<String>,
    pub(crate) behavior: Option<Behavior>,
    pub(crate) needs_hash: bool,
    pub(crate) allow_name_change: bool,
    pub(crate) allow_kind_change: bool,
    pub(crate) from_helm: bool,
}

impl Memory {
    /// The annotations that the program writes for it.
    fn notes(&self) -> Vec<(&'static str, String)> {
        let mut out = Vec::new();
        if !self.previous.is_empty() {
            let join = |part: fn(&(String, String, String)) -> &str| {
                self.previous.iter().map(part).collect::<Vec<_>>().join(",")
            };
            out.push(("internal.config.kubernetes.io/previousNames", join(|p| &p.0)));
            out.push(("internal.config.kubernetes.io/previousNamespaces", join(|p| &p.1)));
            out.push(("internal.config.kubernetes.io/previousKinds", join(|p| &p.2)));
        }
        if !self.prefixes.is_empty() {
            out.push(("internal.config.kubernetes.io/prefixes", self.prefixes.join(",")));
        }
        if !self.suffixes.is_empty() {
            out.push(("internal.config.kubernetes.io/suffixes", self.suffixes.join(",")));
        }
        if let Some(b) = self.behavior {
            out.push(("internal.config.kubernetes.io/generatorBehavior", b.name().to_owned()));
        }
        for (key, on, value) in [
            ("internal.config.kubernetes.io/needsHashSuffix", self.needs_hash, "enabled"),
            ("internal.config.kubernetes.io/allowNameChange", self.allow_name_change, "enabled"),
            ("internal.config.kubernetes.io/allowKindChange", self.allow_kind_change, "enabled"),
            ("internal.config.kubernetes.io/helm-generated", self.from_helm, "true"),
        ] {
            if on {
                out.push((key, value.to_owned()));
            }
        }
        out
    }
}

/// An object.
#[derive(Clone)]
pub(crate) struct Resource {
    node: Node,
    id: OnceCell<Rc<ResId>>,
    pub(crate) memory: Memory,
    pub(crate) ref_vars: Vec<String>,
    /// Texts that stand in several places, as they were last seen.
    shared: Vec<Node>,
    shares: u32,
}

/// Labels or annotations; texts as written.
pub(crate) fn meta_map<'a>(node: &'a Node, field: &str) -> BTreeMap<&'a str, &'a str> {
    let meta = node.get("metadata").filter(|m| !m.is_nothing());
    let map = meta.and_then(|m| m.get(field)).map(Node::entries).unwrap_or_default();
    map.iter().map(|(k, v)| (k.text(), v.text())).collect()
}

/// Rewrites labels or annotations as texts; an empty map goes.
pub(crate) fn set_meta_map(node: &mut Node, field: &str, map: &BTreeMap<&str, &str>) -> Res<()> {
    let meta = node.map_field("metadata");
    meta.remove(field);
    if map.is_empty() {
        return Ok(());
    }
    let mut made = Node::empty(Shape::Map);
    for (k, v) in map {
        set_field(&mut made, k, Node::string(v))?;
    }
    meta.push_field(field, made);
    Ok(())
}

fn same_text(a: &Node, b: &Node) -> bool {
    a.text() == b.text() && a.tag == b.tag
}

/// Shared texts that differ from what was known, the last of each; fields in the order in which a merge visits them.
fn find_changed(node: &Node, shared: &[Node], found: &mut Vec<Node>) {
    match &node.data {
        Data::Scalar(_) if node.share != 0 => {
            if shared.iter().any(|k| k.share == node.share && !same_text(k, node)) {
                found.retain(|f| f.share != node.share);
                found.push(node.clone());
            }
        }
        Data::Scalar(_) => {}
        Data::Seq(items) => items.iter().for_each(|n| find_changed(n, shared, found)),
        Data::Map(entries) => {
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_by(|a, b| a.0.text().cmp(b.0.text()));
            for (_, v) in sorted {
                find_changed(v, shared, found);
            }
        }
    }
}

fn set_shared(node: &mut Node, shared: &[Node]) {
    match &mut node.data {
        Data::Scalar(_) if node.share != 0 => {
            if let Some(known) = shared.iter().find(|k| k.share == node.share) {
                *node = known.clone();
            }
        }
        Data::Scalar(_) => {}
        Data::Seq(items) => items.iter_mut().for_each(|n| set_shared(n, shared)),
        Data::Map(entries) => entries.iter_mut().for_each(|(_, v)| set_shared(v, shared)),
    }
}

/// Rewrites the annotations as texts.
///
/// # Errors
/// The metadata is no map.
pub(crate) fn rewrite_annotations(node: &mut Node) -> Res<()> {
    let Some(annotations) = node.get_mut("metadata").and_then(|m| m.remove("annotations")) else {
        return Ok(());
    };
    let texts: BTreeMap<&str, &str> =
        annotations.entries().iter().map(|(k, v)| (k.text(), v.text())).collect();
    set_meta_map(node, "annotations", &texts)
}

impl Resource {
    pub(crate) fn new(node: Node) -> Self {
        Self {
            node,
            id: OnceCell::new(),
            memory: Memory::default(),
            ref_vars: Vec::new(),
            shared: Vec::new(),
            shares: 0,
        }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) fn into_node(self) -> Node {
        self.node
    }

    /// The object, to be changed.
    pub(crate) fn node_mut(&mut self) -> &mut Node {
        self.id = OnceCell::new();
        &mut self.node
    }

    pub(crate) fn id(&self, schema: &Schema) -> &Rc<ResId> {
        self.id.get_or_init(|| Rc::new(ResId::of(&self.node, schema)))
    }

    pub(crate) fn previous_ids(&self, schema: &Schema) -> Vec<ResId> {
        let own = &self.id(schema).gvk;
        let gvk = |kind: &String| Gvk {
            group: own.group.clone(),
            version: own.version.clone(),
            kind: kind.clone(),
        };
        let id = |(name, namespace, kind): &(String, String, String)| ResId {
            gvk: gvk(kind),
            name: name.clone(),
            namespace: namespace.clone(),
            cluster: false,
        };
        self.memory.previous.iter().map(id).collect()
    }

    /// The identity that the object was loaded with.
    pub(crate) fn original_id(&self, schema: &Schema) -> ResId {
        match self.memory.previous.first() {
            None => (**self.id(schema)).clone(),
            Some((name, namespace, kind)) => {
                let own = &self.id(schema).gvk;
                let gvk = Gvk { group: own.group.clone(), version: own.version.clone(), kind: kind.clone() };
                ResId { gvk, name: name.clone(), namespace: namespace.clone(), cluster: false }
            }
        }
    }

    /// Do any of the identities, old or current, satisfy?
    pub(crate) fn any_id(&self, schema: &Schema, mut test: impl FnMut(&ResId) -> bool) -> bool {
        self.previous_ids(schema).iter().any(&mut test) || test(self.id(schema))
    }

    pub(crate) fn remember_id(&mut self, schema: &Schema) {
        let id = Rc::clone(self.id(schema));
        if id.name.is_empty() || id.gvk.kind.is_empty() {
            return;
        }
        let entry = (id.name.clone(), id.effective_namespace().to_owned(), id.gvk.kind.clone());
        self.memory.previous.push(entry);
    }

    pub(crate) fn set_name(&mut self, name: &str) -> Res<()> {
        set_field(self.node_mut().map_field("metadata"), "name", Node::bare(name))
    }

    pub(crate) fn set_namespace(&mut self, namespace: &str) -> Res<()> {
        let node = self.node_mut();
        if namespace.is_empty() {
            if let Some(meta) = node.get_mut("metadata") {
                meta.remove("namespace");
            }
            return Ok(());
        }
        set_field(node.map_field("metadata"), "namespace", Node::bare(namespace))
    }

    /// Writes down what is remembered where the program keeps it, so that a change meets (and may wipe or copy) it.
    pub(crate) fn write_notes(&mut self) {
        let notes = self.memory.notes();
        if notes.is_empty() {
            return;
        }
        let annotations = self.node_mut().map_field("metadata").map_field("annotations");
        for (key, value) in notes {
            annotations.push_entry(Node::tagged(key, Tag::Str), Node::tagged(&value, Tag::Str));
        }
    }

    /// Takes the notes away; `false` if the change wiped them.
    pub(crate) fn take_notes(&mut self) -> bool {
        let notes = self.memory.notes();
        if notes.is_empty() {
            return true;
        }
        let Some(meta) = self.node_mut().get_mut("metadata") else { return false };
        let Some(annotations) = meta.get_mut("annotations") else { return false };
        let mut kept = false;
        for (key, _) in notes {
            kept |= annotations.remove(key).is_some();
        }
        if annotations.entries().is_empty() && matches!(annotations.data, Data::Map(_)) {
            meta.remove("annotations");
        }
        kept
    }

    /// The number of a new shared text.
    pub(crate) fn next_share(&mut self) -> u32 {
        self.shares += 1;
        self.shares
    }

    /// From now on, the places with this text's number change together.
    pub(crate) fn share(&mut self, text: Node) {
        self.shared.push(text);
    }

    pub(crate) fn forget_shared(&mut self) {
        self.shared.clear();
    }

    /// Carries a change of a shared text to all its places; of several changes the last counts.
    pub(crate) fn settle_shared(&mut self) {
        if self.shared.is_empty() {
            return;
        }
        let mut found = Vec::new();
        find_changed(&self.node, &self.shared, &mut found);
        if found.is_empty() {
            return;
        }
        set_shared(self.node_mut(), &found);
        self.shared.retain(|k| found.iter().all(|f| f.share != k.share));
        self.shared.extend(found);
    }

    pub(crate) fn text_at(&self, field: &str) -> &str {
        super::id::field_text(&self.node, field)
    }
}

/// Reads the objects of a text with documents.
///
/// # Errors
/// Malformed YAML, documents that are no objects, or a limit.
pub(crate) fn parse_all(text: &str, budget: &Budget) -> Res<Vec<Resource>> {
    let unified;
    let text = if text.contains("\r\n") {
        unified = text.replace("\r\n", "\n");
        &unified
    } else {
        text
    };
    let documents = split_documents(text)?;
    let single = documents.len() == 1;
    let mut nodes = Vec::new();
    for document in documents {
        let node = first_document(document, Dialect::New, budget).map_err(|e| {
            if e.merging {
                Error::new(e.problem)
            } else {
                Error::new(format!("MalformedYAMLError: {}", e.at_context()))
            }
        })?;
        let Some(node) = node.filter(|n| !n.is_null()) else { continue };
        let kind = node.get("kind").map_or("", Node::value);
        let wraps = single
            && matches!(kind, "List" | "ResourceList")
            && (node.get("items").is_some() || node.get("functionConfig").is_some());
        if wraps {
            nodes.extend(take_items(node));
        } else {
            nodes.push(node);
        }
    }
    let mut queue: std::collections::VecDeque<Node> = checked(nodes)?.into();
    let mut out = Vec::new();
    while let Some(node) = queue.pop_front() {
        let kind = super::id::field_text(&node, "kind");
        if !kind.ends_with("List") || node.get("items").is_none() {
            out.push(Resource::new(node));
            continue;
        }
        let kind = kind.to_owned();
        queue.extend(checked(expand(node, &kind, budget)?)?);
    }
    Ok(out)
}

fn take_items(mut node: Node) -> Vec<Node> {
    match node.remove("items").map(|i| i.data) {
        Some(Data::Seq(items)) => items,
        _ => Vec::new(),
    }
}

/// The items of a typed list, as they are after a way through JSON.
fn expand(mut node: Node, kind: &str, budget: &Budget) -> Res<Vec<Node>> {
    budget.spend(node.weight().0)?;
    // The items are decoded as they are, without being printed in between, where quoting would matter.
    unfold(&mut node);
    normalize(&mut node, Dialect::New, Numbers::Exact)
        .map_err(|e| Error::new(format!("trouble expanding list of {kind}; {e}")))?;
    match node.remove("items") {
        Some(Node { data: Data::Seq(mut items), .. }) => {
            items.iter_mut().for_each(quote_all);
            Ok(items)
        }
        Some(n) if n.is_null() => Ok(Vec::new()),
        Some(n) => {
            let found = match n.data {
                Data::Map(_) => "map[string]interface {}",
                _ => "string",
            };
            Err(Error::new(format!("expected array in {kind}/items, but found {found}")))
        }
        None => Ok(Vec::new()),
    }
}

fn unfold(node: &mut Node) {
    if !matches!(node.data, Data::Scalar(_)) {
        node.style = Style::PLAIN;
    }
    match &mut node.data {
        Data::Map(entries) => entries.iter_mut().for_each(|(_, v)| unfold(v)),
        Data::Seq(items) => items.iter_mut().for_each(unfold),
        Data::Scalar(_) if node.style.has(Style::FOLDED) => node.style = Style::LITERAL,
        Data::Scalar(_) => {}
    }
}

fn quote_all(node: &mut Node) {
    match &mut node.data {
        Data::Map(entries) => {
            for (k, v) in entries {
                k.style = Style::DOUBLE;
                quote_all(v);
            }
        }
        Data::Seq(items) => items.iter_mut().for_each(quote_all),
        Data::Scalar(_) if node.tag == Tag::Str => node.style = Style::DOUBLE,
        Data::Scalar(_) => {}
    }
}

fn checked(nodes: Vec<Node>) -> Res<Vec<Node>> {
    let mut out = Vec::with_capacity(nodes.len());
    for node in nodes {
        if node.is_nothing() {
            continue;
        }
        validate(&node)?;
        out.push(node);
    }
    Ok(out)
}

/// An object needs a kind, and a name unless it is a list.
///
/// # Errors
/// One of them is missing.
pub(crate) fn validate(node: &Node) -> Res<()> {
    let field = |n: &Node, name: &str| n.get(name).filter(|f| !f.is_nothing()).map(|f| f.value().to_owned());
    let (api, kind) = (field(node, "apiVersion"), field(node, "kind"));
    let meta = node.get("metadata").filter(|m| !m.is_nothing());
    let known = ["name", "namespace", "labels", "annotations"];
    let any_meta = meta.is_some_and(|m| known.iter().any(|f| m.get(f).is_some_and(|n| !n.is_nothing())));
    if api.is_none() && kind.is_none() && !any_meta {
        return Err(Error::new("missing Resource metadata"));
    }
    let name = meta.and_then(|m| field(m, "name")).unwrap_or_default();
    let kind = kind.unwrap_or_default();
    let missing = if kind.is_empty() {
        "kind"
    } else if kind.ends_with("List") || !name.is_empty() {
        return Ok(());
    } else {
        "metadata.name"
    };
    let namespace = meta.and_then(|m| field(m, "namespace")).unwrap_or_default();
    let go_map = |f: &str| {
        let pairs: Vec<String> = {
            let map = meta.and_then(|m| m.get(f)).map(Node::entries).unwrap_or_default();
            let sorted: BTreeMap<_, _> = map.iter().map(|(k, v)| (k.value(), v.value())).collect();
            sorted.iter().map(|(k, v)| format!("{k}:{v}")).collect()
        };
        format!("map[{}]", pairs.join(" "))
    };
    Err(Error::new(format!(
        "missing {missing} in object {{{{{} {kind}}} {{{{{name} {namespace}}} {} {}}}}}",
        api.unwrap_or_default(),
        go_map("labels"),
        go_map("annotations")
    )))
}

/// Cuts at lines that begin with `---`.
fn split_documents(text: &str) -> Res<Vec<&str>> {
    let mut out = Vec::new();
    if text.is_empty() {
        return Ok(out);
    }
    let (mut from, mut search) = (0, 0);
    while let Some(found) = text.get(search..).and_then(|t| t.find("\n---")) {
        let begin = search + found;
        let Some(length) = text.get(begin + 1..).and_then(|t| t.find('\n')) else { break };
        let end = begin + 1 + length;
        let after = text.get(begin + 4..end).unwrap_or_default().trim();
        if !after.is_empty() && !after.starts_with('#') {
            return Err(Error::new(format!("invalid document separator: ---{after}")));
        }
        // The break before the separator belongs to the document.
        out.push(text.get(from..=begin).unwrap_or_default());
        from = end + 1;
        search = end + 1;
    }
    out.push(text.get(from..).unwrap_or_default());
    Ok(out)
}
