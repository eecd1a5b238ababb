//! Setting fields, and visiting the fields that a specification names.

use super::config::FieldSpec;
use super::error::{Error, Res, Within};
use super::id::{ResId, field_text, split_api_version};
use super::path;
use super::yaml::node::{Data, Node, Shape, Style, Tag};
use super::yaml::resolve::is_not_text;

/// A node that has another shape than it must.
pub(crate) fn wrong_shape(expected: Shape, node: &Node) -> Error {
    let mut contents = String::new();
    // The contents only help to find the place; what cannot be printed is left out.
    let _ = super::yaml::emit::document(node, &mut contents, 4096);
    let (expected, found) = (expected.name(), node.shape().name());
    Error::new(format!("wrong node kind: expected {expected} but got {found}: node contents:\n{contents}"))
}

fn keep_text(value: &mut Node) {
    if value.is_string() && value.style == Style::PLAIN && is_not_text(value.text()) {
        value.style = Style::DOUBLE;
    }
}

/// Puts a scalar in a scalar's place; the place keeps its quoting.
///
/// # Errors
/// The place is a list or a map.
pub(crate) fn set_self(node: &mut Node, mut value: Node) -> Res<()> {
    if !node.is_null() && !matches!(node.data, Data::Scalar(_)) {
        return Err(wrong_shape(Shape::Scalar, node));
    }
    if value.is_null() {
        return Ok(());
    }
    value.style = node.style;
    node.become_node(value);
    Ok(())
}

/// Sets a field of a map; a null takes it away. A field that exists keeps its quoting.
///
/// # Errors
/// Not a map.
pub(crate) fn set_field(node: &mut Node, name: &str, mut value: Node) -> Res<()> {
    keep_text(&mut value);
    if !node.is_null() && !matches!(node.data, Data::Map(_)) {
        return Err(wrong_shape(Shape::Map, node));
    }
    if value.is_null() {
        node.remove(name);
        return Ok(());
    }
    if let Some(field) = node.get_mut(name) {
        value.style = field.style;
        field.become_node(value);
    } else {
        if node.is_null() {
            *node = Node::empty(Shape::Map);
        }
        node.push_field(name, value);
    }
    Ok(())
}

/// What a missing field becomes when a specification says that it is made.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) shape: Shape,
    pub(crate) tag: Tag,
}

impl Made {
    pub(crate) fn text() -> Self {
        Self { shape: Shape::Scalar, tag: Tag::Str }
    }

    pub(crate) fn map() -> Self {
        Self { shape: Shape::Map, tag: Tag::Map }
    }
}

/// Is the specification for this object's kind?
pub(crate) fn is_for(spec: &FieldSpec, node: &Node) -> bool {
    let g = &spec.gvk;
    if !g.kind.is_empty() && g.kind != field_text(node, "kind") {
        return false;
    }
    if g.group.is_empty() && g.version.is_empty() {
        return true;
    }
    let (group, version) = split_api_version(field_text(node, "apiVersion"));
    (g.group.is_empty() || g.group == group) && (g.version.is_empty() || g.version == version)
}

/// Calls `set` with each node that a specification names.
///
/// # Errors
/// A step into a scalar, or what `set` says.
pub(crate) fn visit(
    node: &mut Node,
    spec: &FieldSpec,
    made: Option<&Made>,
    set: &mut dyn FnMut(&mut Node) -> Res<()>,
) -> Res<()> {
    if !is_for(spec, node) {
        return Ok(());
    }
    let parts = path::split(&spec.path, '/');
    let made = made.filter(|_| spec.create);
    match step(node, &parts, made, set) {
        Ok(()) => Ok(()),
        Err(e) => {
            let e = if field_text(node, "kind") == "Secret" { e.without_contents() } else { e };
            // The identity in this message does not depend on the schema.
            let mut id = ResId::of(node, &super::schema::Schema::default());
            id.cluster = false;
            Err(e.within(format!("considering field '{}' of object {id}", spec.path)))
        }
    }
}

fn step(
    node: &mut Node,
    parts: &[String],
    made: Option<&Made>,
    set: &mut dyn FnMut(&mut Node) -> Res<()>,
) -> Res<()> {
    let Some((first, rest)) = parts.split_first() else { return set(node) };
    if node.is_null() {
        return Ok(());
    }
    match &mut node.data {
        Data::Seq(items) => {
            for item in items {
                step(item, parts, made, set)
                    .within(|| format!("visit traversal on path: [{}]", parts.join(" ")))?;
            }
            Ok(())
        }
        Data::Map(_) => {
            let name = first.strip_suffix("[]");
            let is_list = name.is_some();
            let name = name.unwrap_or(first);
            if name.is_empty() {
                return Err(Error::new("cannot set or create an empty field name"));
            }
            let (create, shape, tag) = match made {
                Some(m) if !is_list && rest.is_empty() => (true, Some(m.shape), m.tag.clone()),
                Some(_) if !is_list => (true, Some(Shape::Map), Tag::Map),
                _ => (false, is_list.then_some(Shape::Seq), Tag::None),
            };
            if create && node.get(name).is_none() {
                set_field(node, name, Node::empty(shape.unwrap_or(Shape::Map)))?;
            }
            let Some(field) = node.get_mut(name) else { return Ok(()) };
            if field.is_null()
                && let Some(shape) = shape
            {
                *field = Node { tag, ..Node::empty(shape) };
            }
            step(field, rest, made, set)
        }
        Data::Scalar(_) => Err(Error::new("expected sequence or mapping node")),
    }
}
