//! `/api`, `/apis` and what is below, in the older form and the aggregated one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::resource::{Resource, Version};
use crate::store::Store;

/// Resources with the index of one of their versions.
type Served = Vec<(Arc<Resource>, usize)>;
/// Versions, preferred first.
type Versions = Vec<(String, Served)>;
type Groups = Vec<(String, Versions)>;

/// Served groups with their versions (preferred first) and resources.
fn groups(s: &Store) -> Groups {
    let mut order: Vec<String> = Vec::new();
    let mut map: BTreeMap<String, BTreeMap<String, Served>> = BTreeMap::new();
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for r in s.resources() {
        for (i, v) in r.versions.iter().enumerate().filter(|(_, v)| v.served) {
            if !order.contains(&r.group) {
                order.push(r.group.clone());
            }
            let known = versions.entry(r.group.clone()).or_default();
            if !known.contains(&v.name) {
                known.push(v.name.clone());
            }
            map.entry(r.group.clone()).or_default().entry(v.name.clone()).or_default().push((r.clone(), i));
        }
    }
    order
        .into_iter()
        .map(|g| {
            let mut by = map.remove(&g).unwrap_or_default();
            let mut names = versions.remove(&g).unwrap_or_default();
            names.sort_by_key(|n| std::cmp::Reverse(crate::crd::priority(n)));
            let list = names.into_iter().map(|v| (v.clone(), by.remove(&v).unwrap_or_default())).collect();
            (g, list)
        })
        .collect()
}

/// `/api`.
pub(crate) fn core_versions(address: &str) -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]})
}

fn group(name: &str, versions: &[(String, Served)]) -> Value {
    let list: Vec<Value> =
        versions.iter().map(|(v, _)| json!({"groupVersion": format!("{name}/{v}"), "version": v})).collect();
    json!({"name": name, "preferredVersion": list.first(), "versions": list})
}

/// `/apis`.
pub(crate) fn group_list(s: &Store) -> Value {
    let list: Vec<Value> =
        groups(s).iter().filter(|(g, _)| !g.is_empty()).map(|(g, v)| group(g, v)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list})
}

/// `/apis/GROUP`.
pub(crate) fn one_group(s: &Store, name: &str) -> Option<Value> {
    let (g, v) = groups(s).into_iter().find(|(g, _)| g == name)?;
    let mut out = group(&g, &v);
    out["kind"] = "APIGroup".into();
    out["apiVersion"] = "v1".into();
    Some(out)
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub(crate) fn resource_list(s: &Store, name: &str, version: &str) -> Option<Value> {
    let (_, versions) = groups(s).into_iter().find(|(g, _)| g == name)?;
    let (_, list) = versions.into_iter().find(|(v, _)| v == version)?;
    let mut out: Vec<Value> = Vec::new();
    for (r, i) in &list {
        let mut row = json!({"name": r.plural, "singularName": r.singular, "namespaced": r.namespaced,
            "kind": r.kind, "verbs": r.verbs});
        if !r.short.is_empty() {
            row["shortNames"] = json!(r.short);
        }
        if !r.categories.is_empty() {
            row["categories"] = json!(r.categories);
        }
        row["storageVersionHash"] = hash(&format!("{}/{}", r.table, r.storage)).into();
        out.push(row);
        for sub in &r.versions[*i].subresources {
            let mut row = json!({"name": format!("{}/{}", r.plural, sub.name), "singularName": "",
                "namespaced": r.namespaced, "kind": sub.kind, "verbs": sub.verbs});
            if !sub.version.is_empty() {
                row["group"] = sub.group.clone().into();
                row["version"] = sub.version.clone().into();
            }
            out.push(row);
        }
    }
    let gv = if name.is_empty() { version.to_owned() } else { format!("{name}/{version}") };
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": gv, "resources": out}))
}

fn hash(text: &str) -> String {
    use base64::Engine as _;
    use std::hash::{Hash as _, Hasher as _};
    let mut h = std::hash::DefaultHasher::new();
    text.hash(&mut h);
    base64::engine::general_purpose::STANDARD.encode(h.finish().to_be_bytes())
}

fn aggregated_resource(r: &Resource, v: &Version) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut row = Map::new();
    row.insert("resource".into(), r.plural.clone().into());
    row.insert("responseKind".into(), kind(&r.group, &v.name, &r.kind));
    row.insert("scope".into(), if r.namespaced { "Namespaced" } else { "Cluster" }.into());
    row.insert("singularResource".into(), r.singular.clone().into());
    row.insert("verbs".into(), json!(r.verbs));
    if !r.short.is_empty() {
        row.insert("shortNames".into(), json!(r.short));
    }
    if !r.categories.is_empty() {
        row.insert("categories".into(), json!(r.categories));
    }
    if !v.subresources.is_empty() {
        let subs: Vec<Value> = v
            .subresources
            .iter()
            .map(|s| {
                let (g, ver) =
                    if s.version.is_empty() { (&r.group, &v.name) } else { (&s.group, &s.version) };
                json!({"subresource": s.name, "responseKind": kind(g, ver, &s.kind), "verbs": s.verbs})
            })
            .collect();
        row.insert("subresources".into(), subs.into());
    }
    Value::Object(row)
}

/// The aggregated form of `/api` (`core`) or `/apis`.
pub(crate) fn aggregated(s: &Store, core: bool) -> Value {
    let items: Vec<Value> = groups(s)
        .iter()
        .filter(|(g, _)| g.is_empty() == core)
        .map(|(g, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|(v, list)| {
                    let rows: Vec<Value> =
                        list.iter().map(|(r, i)| aggregated_resource(r, &r.versions[*i])).collect();
                    json!({"version": v, "resources": rows, "freshness": "Current"})
                })
                .collect();
            let meta = if g.is_empty() { json!({}) } else { json!({"name": g}) };
            json!({"metadata": meta, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

/// Every served `group/version` with its resources, for the OpenAPI documents.
pub(crate) fn served(s: &Store) -> Vec<(String, String, Served)> {
    groups(s)
        .into_iter()
        .flat_map(|(g, versions)| versions.into_iter().map(move |(v, list)| (g.clone(), v, list)))
        .collect()
}
