//! Settings as messages print them: YAML with sorted keys.

use super::kustomization::Patch;
use super::selector::Selector;
use super::yaml::emit;
use super::yaml::node::{Node, Shape, Tag};

fn print(node: &Node) -> String {
    let mut out = String::new();
    // What cannot be printed is left out of the message.
    let _ = emit::document(node, &mut out, 1 << 16);
    out
}

fn map(pairs: &[(&str, &str)]) -> Node {
    let mut node = Node::empty(Shape::Map);
    for (k, v) in pairs.iter().filter(|(_, v)| !v.is_empty()) {
        node.push_field(k, Node::string(v));
    }
    node
}

fn selector(s: &Selector) -> Node {
    map(&[
        ("group", &s.gvk.group),
        ("version", &s.gvk.version),
        ("kind", &s.gvk.kind),
        ("name", &s.name),
        ("namespace", &s.namespace),
        ("annotationSelector", &s.annotations),
        ("labelSelector", &s.labels),
    ])
}

/// `patchesStrategicMerge`.
pub(crate) fn paths(list: &[String]) -> String {
    let mut node = Node::empty(Shape::Map);
    node.push_field("paths", Node::seq(list.iter().map(|p| Node::string(p)).collect()));
    print(&node)
}

/// One of `patches`.
pub(crate) fn patch(p: &Patch) -> String {
    let mut node = map(&[("path", &p.path), ("patch", &p.inline)]);
    if let Some(t) = &p.target {
        node.push_field("target", selector(t));
    }
    if p.allow_name_change || p.allow_kind_change {
        let mut options = Node::empty(Shape::Map);
        for (name, value) in
            [("allowNameChange", p.allow_name_change), ("allowKindChange", p.allow_kind_change)]
        {
            if value {
                options.push_field(name, Node::tagged("true", Tag::Bool));
            }
        }
        node.push_field("options", options);
    }
    print(&node)
}

/// One of `patchesJson6902`.
pub(crate) fn json_patch(p: &Patch) -> String {
    let mut node = map(&[("path", &p.path), ("jsonOp", &p.inline)]);
    if let Some(t) = &p.target {
        node.push_field("target", selector(t));
    }
    print(&node)
}
