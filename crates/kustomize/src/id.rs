//! Names of resources: group, version, kind, name, namespace.

use std::cmp::Ordering;
use std::fmt;

use super::schema::Schema;
use super::yaml::node::Node;

/// The namespace that cluster-scoped resources are put in for comparison.
pub(crate) const NO_NAMESPACE: &str = "_non_namespaceable_";
const DEFAULT_NAMESPACE: &str = "default";

/// Group, version, kind. As a selector, empty parts match anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Gvk {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

/// `group/version` into its parts.
pub(crate) fn split_api_version(api: &str) -> (&str, &str) {
    api.split_once('/').unwrap_or(("", api))
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

impl Gvk {
    pub(crate) fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(crate) fn is_selected(&self, by: &Self) -> bool {
        (by.group.is_empty() || by.group == self.group)
            && (by.version.is_empty() || by.version == self.version)
            && (by.kind.is_empty() || by.kind == self.kind)
    }

    fn sort_text(&self) -> String {
        format!("{}_{}_{}", or(&self.group, "~G"), or(&self.version, "~V"), or(&self.kind, "~K"))
    }

    /// The order of field specifications.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        super::sort::default_rank(&self.kind)
            .cmp(&super::sort::default_rank(&other.kind))
            .then_with(|| self.sort_text().cmp(&other.sort_text()))
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}.{}",
            or(&self.kind, "[noKind]"),
            or(&self.version, "[noVer]"),
            or(&self.group, "[noGrp]")
        )
    }
}

/// A resource's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ResId {
    pub(crate) gvk: Gvk,
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// Known to have no namespace.
    pub(crate) cluster: bool,
}

impl ResId {
    /// The identity that a document states.
    pub(crate) fn of(node: &Node, schema: &Schema) -> Self {
        let api = field_text(node, "apiVersion");
        let kind = field_text(node, "kind");
        let (group, version) = split_api_version(api);
        Self {
            gvk: Gvk::new(group, version, kind),
            name: meta_text(node, "name").to_owned(),
            namespace: meta_text(node, "namespace").to_owned(),
            cluster: schema.is_cluster_scoped(api, kind),
        }
    }

    pub(crate) fn effective_namespace(&self) -> &str {
        if self.cluster {
            NO_NAMESPACE
        } else if self.namespace.is_empty() {
            DEFAULT_NAMESPACE
        } else {
            &self.namespace
        }
    }

    pub(crate) fn same_namespace(&self, other: &Self) -> bool {
        self.effective_namespace() == other.effective_namespace()
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        self.name == other.name && self.gvk == other.gvk && self.same_namespace(other)
    }

    pub(crate) fn same_but_namespace(&self, other: &Self) -> bool {
        self.name == other.name && self.gvk == other.gvk
    }

    /// As the program prints the struct in two messages.
    pub(crate) fn go_syntax(&self) -> String {
        use super::quote::quote;
        format!(
            "resid.ResId{{Gvk:resid.Gvk{{Group:{}, Version:{}, Kind:{}, isClusterScoped:{}}}, Name:{}, Namespace:{}}}",
            quote(&self.gvk.group),
            quote(&self.gvk.version),
            quote(&self.gvk.kind),
            self.cluster,
            quote(&self.name),
            quote(&self.namespace)
        )
    }
}

impl fmt::Display for ResId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}.{}", self.gvk, or(&self.name, "[noName]"), or(&self.namespace, "[noNs]"))
    }
}

/// The text of a top-level field.
pub(crate) fn field_text<'a>(node: &'a Node, name: &str) -> &'a str {
    node.get(name).map_or("", Node::text)
}

/// The text of a field of the metadata.
pub(crate) fn meta_text<'a>(node: &'a Node, name: &str) -> &'a str {
    match node.get("metadata").filter(|m| !m.is_nothing()).and_then(|m| m.get(name)) {
        Some(n) if !n.is_nothing() => n.text(),
        _ => "",
    }
}
