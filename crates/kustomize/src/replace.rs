//! Replacements: a value of one object is copied into fields of others.

use std::fmt::Write as _;

use super::error::{Error, Res, Within};
use super::id::{Gvk, ResId};
use super::json::{Cx, Numbers, normalize};
use super::path::{lookup, lookup_mut, matches, smart_split};
use super::quote::quote;
use super::resmap::ResMap;
use super::resource::Resource;
use super::selector::{self, Matcher, Selector};
use super::target::Env;
use super::yaml::load::first_document;
use super::yaml::node::{Data, Node, Shape};
use super::yaml::resolve::Dialect;
use super::yaml::write;

/// One replacement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replacement {
    pub(crate) source: Option<Source>,
    pub(crate) source_value: Option<String>,
    /// `None` if the field is missing.
    pub(crate) targets: Option<Vec<Target>>,
}

/// Where the value comes from: one object, chosen by equality.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    gvk: Gvk,
    name: String,
    namespace: String,
    field_path: String,
    options: Option<Options>,
}

/// Where it goes: objects chosen by expressions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    select: Option<Selector>,
    reject: Vec<Selector>,
    field_paths: Vec<String>,
    options: Option<Options>,
}

#[derive(Clone, Debug, Default)]
struct Options {
    delimiter: String,
    index: i64,
    create: bool,
}

const NAME: &str = "metadata.name";

pub(crate) fn decode(node: &Node, cx: &Cx) -> Res<Replacement> {
    let mut r = Replacement::default();
    cx.object(node, |name, value, cx| decode_field(&mut r, name, value, cx))?;
    Ok(r)
}

/// One field of a replacement; `false` if it is none.
pub(crate) fn decode_field(r: &mut Replacement, name: &str, value: &Node, cx: &Cx) -> Res<bool> {
    match name {
        "source" => r.source = if value.is_null() { None } else { Some(source(value, cx)?) },
        "sourcevalue" => r.source_value = if value.is_null() { None } else { Some(cx.text(value)?) },
        "targets" => r.targets = if value.is_null() { None } else { Some(cx.list(value, target)?) },
        _ => return Ok(false),
    }
    Ok(true)
}

fn source(node: &Node, cx: &Cx) -> Res<Source> {
    let mut s = Source::default();
    cx.object(node, |name, value, cx| {
        match name {
            "group" => s.gvk.group = cx.text(value)?,
            "version" => s.gvk.version = cx.text(value)?,
            "kind" => s.gvk.kind = cx.text(value)?,
            "name" => s.name = cx.text(value)?,
            "namespace" => s.namespace = cx.text(value)?,
            "fieldpath" => s.field_path = cx.text(value)?,
            "options" => s.options = if value.is_null() { None } else { Some(options(value, cx)?) },
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(s)
}

fn target(node: &Node, cx: &Cx) -> Res<Target> {
    let mut t = Target::default();
    cx.object(node, |name, value, cx| {
        match name {
            "select" => t.select = if value.is_null() { None } else { Some(selector::decode(value, cx)?) },
            "reject" => t.reject = cx.list(value, selector::decode)?,
            "fieldpaths" => t.field_paths = cx.texts(value)?,
            "options" => t.options = if value.is_null() { None } else { Some(options(value, cx)?) },
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(t)
}

fn options(node: &Node, cx: &Cx) -> Res<Options> {
    let mut o = Options::default();
    cx.object(node, |name, value, cx| {
        match name {
            "delimiter" => o.delimiter = cx.text(value)?,
            "index" => o.index = cx.int(value)?,
            "encoding" => {
                cx.text(value)?;
            }
            "create" => o.create = cx.bool(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(o)
}

impl Source {
    fn id(&self) -> ResId {
        ResId {
            gvk: self.gvk.clone(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            cluster: false,
        }
    }

    fn selects(&self, id: &ResId) -> bool {
        (self.name.is_empty() || self.name == id.name)
            && (self.namespace.is_empty() || self.id().same_namespace(id))
            && id.gvk.is_selected(&self.gvk)
    }

    fn shown(&self) -> String {
        let mut out = self.id().to_string();
        if !self.field_path.is_empty() {
            out.push(':');
            out.push_str(&self.field_path);
        }
        if let Some(o) = &self.options
            && (!o.delimiter.is_empty() || o.create)
        {
            // Writing to a string cannot fail.
            let _ = write!(out, ":{}({}), create={}", o.delimiter, o.index, o.create);
        }
        out
    }
}

/// All identities of an object, without what the schema knows.
fn ids(r: &Resource, env: &Env<'_>) -> Vec<ResId> {
    let mut current = (**r.id(env.schema)).clone();
    current.cluster = false;
    let mut all = vec![current];
    all.extend(r.previous_ids(env.schema));
    all
}

/// # Errors
/// No or several sources, missing fields, or a limit.
pub(crate) fn apply(list: &[Replacement], map: &mut ResMap, env: &Env<'_>) -> Res<()> {
    for r in list {
        let (Some(targets), true) = (&r.targets, r.source.is_some() || r.source_value.is_some()) else {
            return Err(Error::new("replacements must specify a source and at least one target"));
        };
        let value = value_of(r, map, env)?;
        for t in targets {
            apply_target(t, &value, map, env)?;
        }
    }
    Ok(())
}

fn value_of(r: &Replacement, map: &ResMap, env: &Env<'_>) -> Res<Node> {
    let source = match (&r.source, &r.source_value) {
        (Some(_), Some(_)) => return Err(Error::new("value and resource selectors are mutually exclusive")),
        (None, Some(v)) => return Ok(Node::bare(v)),
        (None, None) => return Err(Error::new("replacements must specify a source and at least one target")),
        (Some(s), None) => s,
    };
    let mut found = map.list.iter().filter(|r| ids(r, env).iter().any(|id| source.selects(id)));
    let Some(resource) = found.next() else {
        return Err(Error::new(format!("nothing selected by {}", source.shown())));
    };
    if found.next().is_some() {
        return Err(Error::new(format!("multiple matches for selector {}", source.shown())));
    }
    let path = if source.field_path.is_empty() { NAME } else { &source.field_path };
    let node =
        lookup(resource.node(), &smart_split(path)).within(|| "error looking up replacement source")?;
    let Some(node) = node.filter(|n| !n.is_nothing()) else {
        return Err(Error::new(format!(
            "fieldPath `{path}` is missing for replacement source {}",
            source.id()
        )));
    };
    env.budget.copy_of(node)?;
    refine(source.options.as_ref(), node.clone())
}

fn refine(options: Option<&Options>, mut node: Node) -> Res<Node> {
    let Some(o) = options.filter(|o| !o.delimiter.is_empty()) else { return Ok(node) };
    if !matches!(node.data, Data::Scalar(_)) {
        return Err(Error::new("delimiter option can only be used with scalar nodes"));
    }
    let value = node.value().to_owned();
    let part = usize::try_from(o.index).ok().and_then(|i| value.split(&o.delimiter).nth(i));
    let Some(part) = part else {
        return Err(Error::new(format!("options.index {} is out of bounds for value {value}", o.index)));
    };
    node.set_text(part);
    Ok(node)
}

fn apply_target(t: &Target, value: &Node, map: &mut ResMap, env: &Env<'_>) -> Res<()> {
    let Some(select) = &t.select else {
        return Err(Error::new("target must specify resources to select"));
    };
    let name = [NAME.to_owned()];
    let paths = if t.field_paths.is_empty() { &name[..] } else { &t.field_paths };
    let wanted = Matcher::new(select).within(|| "error creating target selector")?;
    let reject: Vec<(Matcher, &Selector)> =
        t.reject.iter().map(|s| Ok((Matcher::new(s)?, s))).collect::<Res<_>>()?;
    for r in &mut map.list {
        let ids = ids(r, env);
        if !wanted.metadata(r.node()) {
            continue;
        }
        let by_labels = |(m, s): &(Matcher, &Selector)| {
            !(s.annotations.is_empty() && s.labels.is_empty()) && m.metadata(r.node())
        };
        let by_id = |(m, s): &(Matcher, &Selector)| {
            let empty = s.gvk == Gvk::default() && s.name.is_empty() && s.namespace.is_empty();
            !empty && ids.iter().any(|id| m.id(id))
        };
        if reject.iter().any(by_labels) || reject.iter().any(by_id) || !ids.iter().any(|id| wanted.id(id)) {
            continue;
        }
        for path in paths {
            copy_to(r, value, path, t.options.as_ref(), env)?;
            r.settle_shared();
        }
    }
    Ok(())
}

fn copy_to(r: &mut Resource, value: &Node, path: &str, options: Option<&Options>, env: &Env<'_>) -> Res<()> {
    let create = options.filter(|o| o.create).map(|_| value.shape());
    let parts = smart_split(path);
    let node = r.node_mut();
    env.budget.spend(16)?;
    if set_inside_text(node, value, &parts, create, env).is_ok() {
        return Ok(());
    }
    let problem = if create.is_some() {
        format!("unable to find or create field {} in replacement target", quote(path))
    } else {
        format!("unable to find field {} in replacement target", quote(path))
    };
    let mut failed = None;
    let n = matches(node, &parts, create, &mut |field| {
        if failed.is_none() {
            failed = set(field, value, options, env).err();
        }
        Ok(())
    })
    .within(|| &problem)?;
    if let Some(e) = failed {
        return Err(e);
    }
    if n == 0 {
        return Err(Error::new(problem));
    }
    if !matches!(value.data, Data::Scalar(_)) && node.depth() > env.budget.depth() {
        return Err(Error::limit("depth", env.budget.depth() as u64));
    }
    Ok(())
}

fn set(field: &mut Node, value: &Node, options: Option<&Options>, env: &Env<'_>) -> Res<()> {
    env.budget.copy_of(value)?;
    let mut value = value.clone();
    value.unshare();
    if let Some(o) = options.filter(|o| !o.delimiter.is_empty()) {
        if !matches!(field.data, Data::Scalar(_)) {
            return Err(Error::new("delimiter option can only be used with scalar nodes"));
        }
        let text = value.value().to_owned();
        let mut parts: Vec<&str> = field.text().split(&o.delimiter).collect();
        match usize::try_from(o.index) {
            Err(_) => parts.insert(0, &text),
            Ok(i) => match parts.get_mut(i) {
                Some(slot) => *slot = &text,
                None => parts.push(&text),
            },
        }
        let joined = parts.join(&o.delimiter);
        value.set_text(&joined);
    }
    fill(field, value);
    Ok(())
}

/// A scalar keeps its tag and quoting and takes the text only.
fn fill(field: &mut Node, value: Node) {
    if matches!(field.data, Data::Scalar(_)) {
        field.set_text(value.text());
    } else {
        *field = value;
    }
}

/// A text as YAML or JSON.
///
/// # Errors
/// It is neither, or empty.
pub(crate) fn parse_text(text: &str) -> Res<Node> {
    let budget = super::limits::Budget::new(super::Limits::default());
    let node = first_document(text, Dialect::New, &budget).map_err(|e| Error::new(e.at_context()))?;
    // An empty text has no node; nothing can be found in it.
    node.ok_or_else(|| Error::new("wrong node kind: expected MappingNode but got "))
}

/// A path that leads into a text which is itself YAML or JSON.
fn set_inside_text(
    root: &mut Node,
    value: &Node,
    parts: &[String],
    create: Option<Shape>,
    env: &Env<'_>,
) -> Res<()> {
    let none = || Error::new("no structured data found in path");
    if parts.len() < 2 {
        return Err(Error::new("not a structured data path"));
    }
    let mut found = None;
    for i in 1..parts.len() {
        let Some(head) = parts.get(..i) else { break };
        if let Ok(Some(n)) = lookup(root, head)
            && let Data::Scalar(text) = &n.data
        {
            env.budget.spend(text.len() as u64 / 8)?;
            if let Ok(node) = parse_text(text) {
                found = Some((i, node));
                break;
            }
        }
    }
    let Some((i, mut inner)) = found else { return Err(none()) };
    let (head, tail) = parts.split_at(i);
    let n = matches(&mut inner, tail, create, &mut |field| {
        fill(field, value.clone());
        Ok(())
    })?;
    if n == 0 {
        return Err(Error::new("unable to find field in structured data"));
    }
    let Some(field) = lookup_mut(root, head)? else { return Err(none()) };
    let original = field.text();
    let text = if original.trim_start().starts_with(['{', '[']) {
        normalize(&mut inner, Dialect::New, Numbers::Exact).map_err(Error::new)?;
        let pretty = original.contains('\n') && original.contains("  ");
        write::json(&inner, pretty)
    } else {
        write::yaml(&inner).trim().to_owned()
    };
    env.budget.hold(text.len() as u64)?;
    field.set_text(&text);
    Ok(())
}
