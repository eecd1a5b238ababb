//! Variables: `$(NAME)` in known fields stands for a field of an object.

use std::collections::BTreeMap;

use super::config::FieldSpec;
use super::error::{Error, Res};
use super::fields::visit;
use super::id::{Gvk, ResId, split_api_version};
use super::json::Cx;
use super::path::{lookup, smart_split};
use super::resmap::ResMap;
use super::target::Env;
use super::yaml::node::{Data, Node, Style, Tag};
use super::yaml::number::parse_float;

/// One of `vars`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Var {
    pub(crate) name: String,
    gvk: Gvk,
    object: String,
    namespace: String,
    field_path: String,
}

pub(crate) fn decode(node: &Node, cx: &Cx) -> Res<Var> {
    let mut v = Var::default();
    cx.object(node, |name, value, cx| {
        match name {
            "name" => v.name = cx.text(value)?,
            "objref" => object_reference(&mut v, value, cx)?,
            "fieldref" => cx.object(value, |name, value, cx| {
                if name == "fieldpath" {
                    v.field_path = cx.text(value)?;
                    return Ok(true);
                }
                Ok(false)
            })?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if v.field_path.is_empty() {
        "metadata.name".clone_into(&mut v.field_path);
    }
    Ok(v)
}

fn object_reference(v: &mut Var, node: &Node, cx: &Cx) -> Res<()> {
    let mut api = String::new();
    cx.object(node, |name, value, cx| {
        match name {
            "apiversion" => api = cx.text(value)?,
            "group" => v.gvk.group = cx.text(value)?,
            "version" => v.gvk.version = cx.text(value)?,
            "kind" => v.gvk.kind = cx.text(value)?,
            "name" => v.object = cx.text(value)?,
            "namespace" => v.namespace = cx.text(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match (api.is_empty(), api.matches('/').count()) {
        (false, 0) => v.gvk.version = api,
        (false, 1) => {
            let (group, version) = split_api_version(&api);
            (v.gvk.group, v.gvk.version) = (group.to_owned(), version.to_owned());
        }
        _ => {}
    }
    Ok(())
}

/// As the program prints a list of variables.
pub(crate) fn shown(list: &[Var]) -> String {
    let all: Vec<String> =
        list.iter().map(|v| format!("{{{} {} {{{}}}}}", v.name, v.gvk, v.field_path)).collect();
    format!("[{}]", all.join(" "))
}

/// Variables by name.
pub(crate) type VarSet = BTreeMap<String, Var>;

fn repeated(name: &str) -> Error {
    Error::new(format!("var '{name}' already encountered"))
}

/// # Errors
/// A name is defined twice, or an object cannot be told from others.
pub(crate) fn define(set: &mut VarSet, new: &[Var], map: &mut ResMap, env: &Env<'_>) -> Res<()> {
    for v in new {
        let id = ResId {
            gvk: v.gvk.clone(),
            name: v.object.clone(),
            namespace: v.namespace.clone(),
            cluster: false,
        };
        let found = map.matching_any(env.schema, |i| {
            if id.namespace.is_empty() { id.same_but_namespace(i) } else { id.same(i) }
        });
        match found.as_slice() {
            [] => {}
            [i] => {
                if let Some(r) = map.list.get_mut(*i) {
                    r.ref_vars.push(v.name.clone());
                }
            }
            many => {
                return Err(Error::new(format!(
                    "found {} resId matches for var {{{} {} {{{}}}}} (unable to disambiguate)",
                    many.len(),
                    v.name,
                    v.gvk,
                    v.field_path
                )));
            }
        }
    }
    for v in new {
        if set.insert(v.name.clone(), v.clone()).is_some() {
            return Err(repeated(&v.name));
        }
    }
    Ok(())
}

/// # Errors
/// A name is defined twice.
pub(crate) fn unite(set: &mut VarSet, more: VarSet) -> Res<()> {
    for (name, v) in more {
        if set.contains_key(&name) {
            return Err(repeated(&name));
        }
        set.insert(name, v);
    }
    Ok(())
}

#[derive(Clone)]
enum Value {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    /// A map or list: the reference stays.
    Other,
}

impl Value {
    fn shown(&self) -> Option<String> {
        match self {
            Self::Text(t) => Some(t.clone()),
            Self::Int(i) => Some(i.to_string()),
            Self::Float(f) => Some(format!("{f}")),
            Self::Bool(b) => Some(b.to_string()),
            Self::Other => None,
        }
    }
}

fn value_of(v: &Var, map: &ResMap) -> Res<Value> {
    let Some(r) = map.list.iter().find(|r| r.ref_vars.contains(&v.name)) else {
        return Err(Error::new(format!(
            "var '{{{} {} {{{}}}}}' cannot be mapped to a field in the set of known resources",
            v.name, v.gvk, v.field_path
        )));
    };
    let missing = || {
        Error::new(format!(
            "field specified in var '{{{} {} {{{}}}}}' not found in corresponding resource",
            v.name, v.gvk, v.field_path
        ))
    };
    let parts: Vec<String> = smart_split(&v.field_path).into_iter().flat_map(indexed).collect();
    let node = lookup(r.node(), &parts).map_err(|_| missing())?.ok_or_else(missing)?;
    let Data::Scalar(text) = &node.data else { return Ok(Value::Other) };
    Ok(match node.tag {
        Tag::Int => Value::Int(text.parse().map_err(|_| missing())?),
        Tag::Float => Value::Float(parse_float(text).ok_or_else(missing)?),
        Tag::Bool => Value::Bool(text.eq_ignore_ascii_case("true")),
        _ => Value::Text(text.to_string()),
    })
}

/// `ports[0]` is `ports` and `0`.
fn indexed(part: String) -> Vec<String> {
    match part.strip_suffix(']').and_then(|p| p.rsplit_once('[')) {
        Some((name, i)) if !i.is_empty() && i.bytes().all(|b| b.is_ascii_digit()) => {
            [name, i].into_iter().filter(|p| !p.is_empty()).map(str::to_owned).collect()
        }
        _ => vec![part],
    }
}

/// Puts the values in the place of references.
///
/// # Errors
/// A variable without a value, or a reference where none can be.
pub(crate) fn resolve(set: &VarSet, specs: &[FieldSpec], map: &mut ResMap, env: &Env<'_>) -> Res<()> {
    if set.is_empty() {
        return Ok(());
    }
    let mut values = BTreeMap::new();
    for v in set.values() {
        values.insert(v.name.clone(), value_of(v, map)?);
    }
    for r in &mut map.list {
        for spec in specs {
            env.budget.spend(1)?;
            visit(r.node_mut(), spec, None, &mut |n| fill(n, &values, env))?;
        }
        r.settle_shared();
    }
    Ok(())
}

fn fill(node: &mut Node, values: &BTreeMap<String, Value>, env: &Env<'_>) -> Res<()> {
    if node.is_null() {
        return Ok(());
    }
    match &mut node.data {
        Data::Scalar(_) => {
            if node.is_string() {
                fill_text(node, values, env)?;
            }
        }
        Data::Map(entries) => {
            for (key, value) in entries {
                if !key.is_string() {
                    return Err(Error::new(format!(
                        "invalid map key: value='{}', tag='{}'",
                        key.text(),
                        key.tag.short()
                    )));
                }
                if value.is_string() {
                    fill_text(value, values, env)?;
                }
            }
        }
        Data::Seq(items) => {
            for item in items {
                if !item.is_string() {
                    return Err(Error::new("invalid value type expect a string"));
                }
                fill_text(item, values, env)?;
            }
        }
    }
    Ok(())
}

fn fill_text(node: &mut Node, values: &BTreeMap<String, Value>, env: &Env<'_>) -> Res<()> {
    let filled = replaced(node.text(), values);
    let (text, tag) = match filled {
        Value::Text(t) => (t, Tag::Str),
        Value::Int(i) => (i.to_string(), Tag::Int),
        Value::Float(f) => (format!("{f}"), Tag::Float),
        Value::Bool(b) => (b.to_string(), Tag::Bool),
        Value::Other => return Ok(()),
    };
    env.budget.hold(text.len() as u64)?;
    node.become_node(Node { data: Data::Scalar(text.into()), tag, style: Style::PLAIN, share: 0 });
    Ok(())
}

/// `$(NAME)` becomes the value, `$$` a dollar sign; unknown names stay.
fn replaced(text: &str, values: &BTreeMap<String, Value>) -> Value {
    if !text.contains('$') {
        return Value::Text(text.to_owned());
    }
    let whole = text.strip_prefix("$(").and_then(|t| t.strip_suffix(')')).filter(|n| !n.contains(')'));
    if let Some(value) = whole.and_then(|name| values.get(name))
        && !matches!(value, Value::Other)
    {
        return value.clone();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(i) = rest.find('$') {
        let (before, after) = rest.split_at(i);
        out.push_str(before);
        let tail = after.get(1..).unwrap_or_default();
        if tail.is_empty() {
            rest = after;
            break;
        }
        if let Some(t) = tail.strip_prefix('$') {
            out.push('$');
            rest = t;
        } else if let Some((name, t)) = tail.strip_prefix('(').and_then(|t| t.split_once(')')) {
            match values.get(name).and_then(Value::shown) {
                Some(v) => out.push_str(&v),
                None => out.extend(["$(", name, ")"]),
            }
            rest = t;
        } else {
            let n = tail.chars().next().map_or(0, char::len_utf8);
            out.push('$');
            out.push_str(tail.get(..n).unwrap_or_default());
            rest = tail.get(n..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    Value::Text(out)
}
