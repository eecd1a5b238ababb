//! Custom resources: from a CustomResourceDefinition to a served [`Resource`].

pub(crate) mod rules;

use std::sync::Arc;

use serde_json::Value;

use crate::catalog;
use crate::resource::{Column, Resource, ScalePaths, Subresource, Version};
use crate::schema::{Builder, Schema};
use crate::status::Cause;

const MAIN_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

fn text<'a>(v: &'a Value, pointer: &str) -> &'a str {
    v.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list(v: &Value, pointer: &str) -> Vec<String> {
    let items = v.pointer(pointer).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

/// The resource a definition describes.
pub(crate) fn resource(crd: &Value) -> Resource {
    let group = text(crd, "/spec/group").to_owned();
    let plural = text(crd, "/spec/names/plural").to_owned();
    let kind = text(crd, "/spec/names/kind").to_owned();
    let docs = crd.pointer("/spec/versions").and_then(Value::as_array);
    let mut versions: Vec<(Version, bool)> =
        docs.into_iter().flatten().map(|d| version(&group, &kind, d)).collect();
    versions.sort_by_key(|(v, _)| std::cmp::Reverse(priority(&v.name)));
    let storage = versions.iter().position(|(_, storage)| *storage).unwrap_or(0);
    let singular = text(crd, "/spec/names/singular");
    let list_kind = text(crd, "/spec/names/listKind");
    Resource {
        table: crate::resource::qualified(&plural, &group).into(),
        singular: if singular.is_empty() { kind.to_lowercase() } else { singular.to_owned() },
        list_kind: if list_kind.is_empty() { format!("{kind}List") } else { list_kind.to_owned() },
        namespaced: text(crd, "/spec/scope") == "Namespaced",
        short: list(crd, "/spec/names/shortNames"),
        categories: list(crd, "/spec/names/categories"),
        verbs: MAIN_VERBS.map(ToOwned::to_owned).to_vec(),
        versions: versions.into_iter().map(|(v, _)| v).collect(),
        group,
        plural,
        kind,
        storage,
        custom: true,
    }
}

fn version(group: &str, kind: &str, doc: &Value) -> (Version, bool) {
    let flag = |k: &str| doc.get(k).and_then(Value::as_bool).unwrap_or(false);
    let name = text(doc, "/name").to_owned();
    let status = doc.pointer("/subresources/status").is_some();
    let scale = doc.pointer("/subresources/scale").map(|s| ScalePaths {
        spec: text(s, "/specReplicasPath").replace('.', "/"),
        status: text(s, "/statusReplicasPath").replace('.', "/"),
        selector: s.get("labelSelectorPath").and_then(Value::as_str).map(|p| p.replace('.', "/")),
    });
    let verbs = || ["get", "patch", "update"].map(ToOwned::to_owned).to_vec();
    let mut subresources = Vec::new();
    if status {
        subresources.push(Subresource {
            name: "status".into(),
            kind: kind.to_owned(),
            group: String::new(),
            version: String::new(),
            verbs: verbs(),
        });
    }
    if scale.is_some() {
        subresources.push(Subresource {
            name: "scale".into(),
            kind: "Scale".into(),
            group: "autoscaling".into(),
            version: "v1".into(),
            verbs: verbs(),
        });
    }
    let document = doc.pointer("/schema/openAPIV3Schema").cloned().unwrap_or(Value::Null);
    let mut builder = Builder::new(catalog::definitions(), true);
    let root = builder.add(&document);
    builder.make_object(root);
    let columns = doc.get("additionalPrinterColumns").and_then(Value::as_array);
    let deprecation = flag("deprecated").then(|| {
        doc.get("deprecationWarning")
            .and_then(Value::as_str)
            .map_or_else(|| format!("{group}/{name} {kind} is deprecated"), ToOwned::to_owned)
    });
    let version = Version {
        name,
        served: flag("served"),
        status,
        scale,
        schema: Some(Schema { arena: builder.finish(), root }),
        columns: columns.into_iter().flatten().map(column).collect(),
        subresources,
        document: Some(document),
        deprecation,
    };
    (version, flag("storage"))
}

fn column(c: &Value) -> Column {
    Column {
        name: text(c, "/name").to_owned(),
        ty: text(c, "/type").to_owned(),
        format: text(c, "/format").to_owned(),
        priority: c.get("priority").and_then(Value::as_i64).unwrap_or(0),
        path: json_path(text(c, "/jsonPath")),
    }
}

/// Splits `.spec.conditions[?(@.type=="Ready")].status` into steps; a step in brackets keeps them.
fn json_path(path: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut step = String::new();
    let mut depth = 0;
    let mut chars = path.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => step.extend(chars.next()),
            '.' if depth == 0 => {
                if !step.is_empty() {
                    out.push(std::mem::take(&mut step));
                }
            }
            '[' => {
                if depth == 0 && !step.is_empty() {
                    out.push(std::mem::take(&mut step));
                }
                depth += 1;
                step.push(c);
            }
            ']' => {
                depth -= 1;
                step.push(c);
                if depth == 0 {
                    out.push(std::mem::take(&mut step));
                }
            }
            c => step.push(c),
        }
    }
    if !step.is_empty() {
        out.push(step);
    }
    out
}

/// Kubernetes' order of version names: v2 before v1 before v1beta1 before v1alpha1 before anything else.
pub(crate) fn priority(name: &str) -> (u8, u32, u32, std::cmp::Reverse<String>) {
    let parse = || -> Option<(u8, u32, u32)> {
        let rest = name.strip_prefix('v')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u32 = rest[..end].parse().ok()?;
        let tail = &rest[end..];
        if tail.is_empty() {
            return Some((3, major, 0));
        }
        if let Some(n) = tail.strip_prefix("beta") {
            return Some((2, major, n.parse().ok()?));
        }
        Some((1, major, tail.strip_prefix("alpha")?.parse().ok()?))
    };
    let (class, major, minor) = parse().unwrap_or((0, 0, 0));
    (class, major, minor, std::cmp::Reverse(name.to_owned()))
}

/// Checks of a definition beyond its shape.
pub(crate) fn check(crd: &Value) -> Vec<Cause> {
    let mut out = Vec::new();
    let group = text(crd, "/spec/group");
    let plural = text(crd, "/spec/names/plural");
    let wanted = format!("{plural}.{group}");
    let name = text(crd, "/metadata/name");
    if name != wanted {
        out.push(Cause::invalid("metadata.name", &name.into(), "must be spec.names.plural+\".\"+spec.group"));
    }
    for (field, value) in [
        ("spec.group", group),
        ("spec.scope", text(crd, "/spec/scope")),
        ("spec.names.plural", plural),
        ("spec.names.kind", text(crd, "/spec/names/kind")),
    ] {
        if value.is_empty() {
            out.push(Cause::required(field, ""));
        }
    }
    let scope = text(crd, "/spec/scope");
    if !scope.is_empty() && scope != "Namespaced" && scope != "Cluster" {
        out.push(Cause::not_supported("spec.scope", &scope.into(), &["Cluster", "Namespaced"]));
    }
    let none = Vec::new();
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array).unwrap_or(&none);
    let stored = versions.iter().filter(|v| v.get("storage") == Some(&Value::Bool(true))).count();
    if stored != 1 {
        out.push(Cause::invalid(
            "spec.versions",
            &versions.clone().into(),
            "must have exactly one version marked as storage version",
        ));
    }
    for (i, v) in versions.iter().enumerate() {
        match v.pointer("/schema/openAPIV3Schema") {
            None => out.push(Cause::required(format!("spec.versions[{i}].schema.openAPIV3Schema"), "")),
            Some(s) => {
                let at = format!("spec.versions[{i}].schema.openAPIV3Schema");
                if s.get("type").and_then(Value::as_str).is_none_or(str::is_empty) {
                    out.push(Cause::required(format!("{at}.type"), "must not be empty at the root"));
                }
                structural(s, &at, &mut out, true);
            }
        }
    }
    out
}

fn structural(s: &Value, at: &str, out: &mut Vec<Cause>, root: bool) {
    let flag = |k: &str| s.get(k).and_then(Value::as_bool).unwrap_or(false);
    let typed = s.get("type").and_then(Value::as_str).is_some_and(|t| !t.is_empty());
    if !root && !typed && !flag("x-kubernetes-int-or-string") && !flag("x-kubernetes-preserve-unknown-fields")
    {
        out.push(Cause::required(format!("{at}.type"), "must not be empty for specified object fields"));
    }
    if let Some(p) = s.get("properties").and_then(Value::as_object) {
        for (k, sub) in p {
            structural(sub, &format!("{at}.properties[{k}]"), out, false);
        }
    }
    if let Some(sub @ Value::Object(_)) = s.get("additionalProperties") {
        structural(sub, &format!("{at}.additionalProperties"), out, false);
    }
    if let Some(sub @ Value::Object(_)) = s.get("items") {
        structural(sub, &format!("{at}.items"), out, false);
    } else if s.get("type").and_then(Value::as_str) == Some("array") {
        out.push(Cause::required(format!("{at}.items"), "must be specified"));
    }
}

/// A definition's resource, shared.
pub(crate) fn shared(crd: &Value) -> Arc<Resource> {
    Arc::new(resource(crd))
}
