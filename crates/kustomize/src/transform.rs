//! The transformers that change fields of every object.

use std::collections::{BTreeMap, HashMap};

use regex::Regex;

use super::config::FieldSpec;
use super::error::{Error, Res, Within};
use super::fields::{Made, set_field, set_self, visit, wrong_shape};
use super::kustomization::{Image, Replica};
use super::path::lookup_create;
use super::resmap::ResMap;
use super::resource::Resource;
use super::selector::{Matcher, Selector};
use super::target::Env;
use super::yaml::node::{Data, Node, Shape, Tag};

/// Which subjects of role bindings get the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Subjects {
    #[default]
    Default,
    AllServiceAccounts,
    None,
}

/// The namespace transformer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Namespace {
    pub(crate) name: String,
    pub(crate) specs: Vec<FieldSpec>,
    pub(crate) unset_only: bool,
    pub(crate) subjects: Subjects,
}

type IdKey = (String, String, String);

fn id_key(r: &Resource, env: &Env<'_>) -> IdKey {
    let id = r.id(env.schema);
    (
        id.effective_namespace().to_owned(),
        format!("{}/{}", id.gvk.api_version(), id.gvk.kind),
        id.name.clone(),
    )
}

impl Namespace {
    /// # Errors
    /// Two objects become one, or a field has the wrong shape.
    pub(crate) fn apply(&self, map: &mut ResMap, env: &Env<'_>) -> Res<()> {
        if self.name.is_empty() {
            return Ok(());
        }
        let mut counts: HashMap<IdKey, usize> = HashMap::new();
        for r in &map.list {
            *counts.entry(id_key(r, env)).or_default() += 1;
        }
        for i in 0..map.list.len() {
            let Some(r) = map.list.get_mut(i) else { continue };
            if r.node().is_nothing() || r.memory.from_helm {
                continue;
            }
            let before = id_key(r, env);
            r.remember_id(env.schema);
            self.apply_one(r, env)?;
            let after = id_key(r, env);
            if let Some(n) = counts.get_mut(&before) {
                *n -= 1;
            }
            let n = counts.entry(after.clone()).or_default();
            *n += 1;
            if *n != 1 {
                return Err(Self::conflict(map, &after, env));
            }
        }
        Ok(())
    }

    fn conflict(map: &ResMap, key: &IdKey, env: &Env<'_>) -> Error {
        let shown: Vec<String> = map
            .list
            .iter()
            .filter(|r| id_key(r, env) == *key)
            .map(|r| {
                let mut node = r.node().clone();
                let mut text = String::new();
                if super::json::normalize(
                    &mut node,
                    super::yaml::resolve::Dialect::New,
                    super::json::Numbers::Exact,
                )
                .is_ok()
                    && node.get("kind").is_none_or(|k| k.text() != "Secret")
                {
                    super::json::write_json(&node, &mut text);
                } else {
                    text = r.id(env.schema).to_string();
                }
                text
            })
            .collect();
        Error::new(format!("namespace transformation produces ID conflict: [{}]", shown.join(" ")))
    }

    fn value(&self) -> Node {
        Node::tagged(&self.name, Tag::Str)
    }

    fn set(&self, node: &mut Node) -> Res<()> {
        if self.unset_only && matches!(node.data, Data::Scalar(_)) && !node.value().is_empty() {
            return Ok(());
        }
        set_self(node, self.value())
    }

    /// # Errors
    /// A field has the wrong shape.
    pub(crate) fn apply_one(&self, r: &mut Resource, env: &Env<'_>) -> Res<()> {
        let api = r.text_at("apiVersion").to_owned();
        let kind = r.text_at("kind").to_owned();
        let cluster = r.id(env.schema).cluster;
        let node = r.node_mut();
        if !cluster {
            let spec = FieldSpec::everywhere("metadata/namespace", true);
            let made = Made { shape: Shape::Scalar, tag: Tag::None };
            visit(node, &spec, Some(&made), &mut |n| self.set(n))?;
        }
        let is_binding = matches!(kind.as_str(), "RoleBinding" | "ClusterRoleBinding");
        if is_binding && self.subjects != Subjects::None {
            self.bind(node).within(|| "setting namespace on (cluster)role binding subjects")?;
        }
        for spec in &self.specs {
            let is_binding_spec = matches!(spec.gvk.kind.as_str(), "RoleBinding" | "ClusterRoleBinding")
                && spec.path == "subjects/namespace";
            if spec.path == "metadata/namespace"
                || (api != "v1" && spec.path == "metadata/name")
                || (is_binding && is_binding_spec)
            {
                continue;
            }
            visit(node, spec, Some(&Made::text()), &mut |n| self.set(n)).map_err(|e| {
                let what = if e.message().contains("wrong node kind: expected ScalarNode") {
                    "namespace field specs must target scalar nodes"
                } else {
                    "namespace transformation failed"
                };
                e.within(what)
            })?;
        }
        Ok(())
    }

    fn bind(&self, node: &mut Node) -> Res<()> {
        let Some(subjects) = node.get_mut("subjects").filter(|s| !s.is_null()) else { return Ok(()) };
        let Data::Seq(items) = &mut subjects.data else { return Err(wrong_shape(Shape::Seq, subjects)) };
        for item in items.iter_mut().filter(|i| !i.is_null()) {
            let Data::Map(_) = item.data else { return Err(wrong_shape(Shape::Map, item)) };
            let (field, wanted) = match self.subjects {
                Subjects::AllServiceAccounts => ("kind", "ServiceAccount"),
                _ => ("name", "default"),
            };
            if !item.get(field).is_some_and(|f| !f.is_null() && f.text() == wanted) {
                continue;
            }
            if let Some(field) = lookup_create(item, &["namespace".to_owned()], Shape::Scalar)? {
                self.set(field)?;
            }
        }
        Ok(())
    }
}

/// Before or behind a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Prefix,
    Suffix,
}

/// # Errors
/// A field has the wrong shape.
pub(crate) fn affix(side: Side, text: &str, specs: &[FieldSpec], map: &mut ResMap, env: &Env<'_>) -> Res<()> {
    for r in &mut map.list {
        let id = r.original_id(env.schema);
        let fixed = matches!(id.gvk.kind.as_str(), "CustomResourceDefinition" | "Namespace")
            || (id.gvk.kind == "APIService" && id.gvk.group == "apiregistration.k8s.io");
        if fixed {
            continue;
        }
        for spec in specs.iter().filter(|s| id.gvk.is_selected(&s.gvk)) {
            if spec.path == "metadata/name" && !text.is_empty() {
                match side {
                    Side::Prefix => r.memory.prefixes.push(text.to_owned()),
                    Side::Suffix => r.memory.suffixes.push(text.to_owned()),
                }
                r.remember_id(env.schema);
            }
            visit(r.node_mut(), spec, Some(&Made::text()), &mut |n| {
                let value = match side {
                    Side::Prefix => format!("{text}{}", n.text()),
                    Side::Suffix => format!("{}{text}", n.text()),
                };
                set_self(n, Node::bare(&value))
            })?;
        }
    }
    Ok(())
}

/// Labels or annotations in every map that the specifications name.
///
/// # Errors
/// A field has the wrong shape.
pub(crate) fn entries(pairs: &BTreeMap<String, String>, specs: &[FieldSpec], map: &mut ResMap) -> Res<()> {
    for r in map.list.iter_mut().filter(|r| !r.node().is_nothing()) {
        let own: Vec<&FieldSpec> = specs.iter().filter(|s| super::fields::is_for(s, r.node())).collect();
        for (k, v) in pairs {
            // The program puts one and the same node in every place that it makes, so that a later change of one
            // label is a change of all: `matchLabels` follows the label of the template.
            let text = Node { share: r.next_share(), ..Node::tagged(v, Tag::Str) };
            let mut made = 0;
            let node = r.node_mut();
            for spec in &own {
                visit(node, spec, Some(&Made::map()), &mut |n| {
                    made += usize::from(n.get(k).is_none());
                    set_field(n, k, text.clone())
                })?;
            }
            if made > 1 {
                r.share(text);
            }
        }
        r.settle_shared();
    }
    map.drop_empties();
    Ok(())
}

/// # Errors
/// The image's name is no expression, or a field has the wrong shape.
pub(crate) fn image(image: &Image, specs: &[FieldSpec], map: &mut ResMap, env: &Env<'_>) -> Res<()> {
    let pattern = format!("^{}(:[a-zA-Z0-9_.{{}}-]*)?(@sha256:[a-zA-Z0-9_.{{}}-]*)?$", image.name);
    let regex = regex::RegexBuilder::new(&pattern)
        .size_limit(1 << 20)
        .build()
        .map_err(|e| Error::new(format!("image name {}: error parsing regexp: {e}", image.name)))?;
    for r in &mut map.list {
        if r.text_at("kind") == "CustomResourceDefinition" {
            continue;
        }
        let node = r.node_mut();
        containers(node, &regex, image, env)?;
        for spec in specs {
            visit(node, spec, None, &mut |n| set_image(n, &regex, image))?;
        }
    }
    Ok(())
}

fn containers(node: &mut Node, regex: &Regex, image: &Image, env: &Env<'_>) -> Res<()> {
    env.budget.spend(1)?;
    match &mut node.data {
        Data::Map(entries) => {
            for (key, value) in entries {
                if matches!(value.data, Data::Scalar(_)) {
                    continue;
                }
                containers(value, regex, image, env)?;
                if !matches!(key.text(), "containers" | "initContainers") {
                    continue;
                }
                let Data::Seq(items) = &mut value.data else { continue };
                for item in items.iter_mut().filter(|i| !i.is_null()) {
                    let Data::Map(_) = item.data else { return Err(wrong_shape(Shape::Map, item)) };
                    if let Some(field) = item.get_mut("image") {
                        set_image(field, regex, image)?;
                    }
                }
            }
        }
        Data::Seq(items) => {
            for item in items {
                containers(item, regex, image, env)?;
            }
        }
        Data::Scalar(_) => {}
    }
    Ok(())
}

fn set_image(node: &mut Node, regex: &Regex, image: &Image) -> Res<()> {
    if !node.is_null() && !matches!(node.data, Data::Scalar(_)) {
        return Err(wrong_shape(Shape::Scalar, node));
    }
    if !regex.is_match(node.text()) {
        return Ok(());
    }
    let (name, tag, digest) = split_image(node.text());
    let name = if image.new_name.is_empty() { name } else { &image.new_name };
    let suffixed = format!("{tag}{}", image.tag_suffix);
    let (tag, digest) = match (image.new_tag.is_empty(), image.digest.is_empty()) {
        (false, false) => (image.new_tag.as_str(), image.digest.as_str()),
        (false, true) => (image.new_tag.as_str(), ""),
        (true, false) => ("", image.digest.as_str()),
        (true, true) if !image.tag_suffix.is_empty() => (suffixed.as_str(), ""),
        (true, true) => (tag, digest),
    };
    let mut out = name.to_owned();
    if !tag.is_empty() {
        out.push(':');
        out.push_str(tag);
    }
    if !digest.is_empty() {
        out.push('@');
        out.push_str(digest);
    }
    set_self(node, Node::bare(&out))
}

/// Name, tag and digest; a colon before the first slash is a port.
fn split_image(image: &str) -> (&str, &str, &str) {
    let from = image.find('/').filter(|i| *i > 0).unwrap_or(0);
    let search = image.get(from..).unwrap_or_default();
    let (at, colon) = (search.find('@'), search.find(':'));
    let cut =
        |i: usize| (image.get(..from + i).unwrap_or_default(), image.get(from + i + 1..).unwrap_or_default());
    match (at, colon) {
        (Some(a), c) if c.is_none_or(|c| a < c) => {
            let (name, digest) = cut(a);
            (name, "", digest)
        }
        (Some(a), Some(c)) => {
            let tag = image.get(from + c + 1..from + a).unwrap_or_default();
            (cut(c).0, tag, cut(a).1)
        }
        (_, Some(c)) => {
            let (name, tag) = cut(c);
            (name, tag, "")
        }
        (_, None) => (image, "", ""),
    }
}

/// # Errors
/// No object of that name can be scaled.
pub(crate) fn replicas(replica: &Replica, specs: &[FieldSpec], map: &mut ResMap, env: &Env<'_>) -> Res<()> {
    let mut found = false;
    let made = Made { shape: Shape::Scalar, tag: Tag::Int };
    for spec in specs {
        let chosen =
            map.matching_any(env.schema, |id| id.name == replica.name && id.gvk.is_selected(&spec.gvk));
        for i in chosen {
            found = true;
            if let Some(r) = map.list.get_mut(i) {
                let value = Node::tagged(&replica.count.to_string(), Tag::Int);
                visit(r.node_mut(), spec, Some(&made), &mut |n| set_self(n, value.clone()))?;
            }
        }
    }
    if found {
        return Ok(());
    }
    let kinds: Vec<String> = specs.iter().map(|s| s.gvk.to_string()).collect();
    Err(Error::new(format!(
        "resource with name {} does not match a config with the following GVK [{}]",
        replica.name,
        kinds.join(" ")
    )))
}

/// One place that the ValueAddTransformer fills.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueTarget {
    pub(crate) selector: Option<Selector>,
    pub(crate) field_path: String,
    pub(crate) file_path_position: i64,
}

/// # Errors
/// A field has the wrong shape.
pub(crate) fn add_value(value: &str, targets: &[ValueTarget], map: &mut ResMap, env: &Env<'_>) -> Res<()> {
    for t in targets {
        let chosen = match &t.selector {
            None => (0..map.list.len()).collect(),
            Some(s) => map.select(&Matcher::new(s)?, env.schema),
        };
        for i in chosen {
            let Some(r) = map.list.get_mut(i) else { continue };
            if t.field_path == "metadata/namespace" {
                Namespace { name: value.to_owned(), ..Namespace::default() }.apply_one(r, env)?;
                continue;
            }
            let parts = super::path::split(&t.field_path, '/');
            let Some(field) = lookup_create(r.node_mut(), &parts, Shape::Scalar)? else { continue };
            let Data::Scalar(old) = &field.data else { return Err(wrong_shape(Shape::Scalar, field)) };
            let new = match usize::try_from(t.file_path_position) {
                Ok(n) if n > 0 => insert_part(old, n - 1, value),
                _ => value.to_owned(),
            };
            set_self(field, Node::bare(&new))?;
        }
    }
    Ok(())
}

/// Puts a part into a path at a position.
fn insert_part(path: &str, position: usize, part: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    parts.insert(position.min(parts.len()), part);
    let joined = parts.join("/");
    if absolute { format!("/{joined}") } else { joined }
}
