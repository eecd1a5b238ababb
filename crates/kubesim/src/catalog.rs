//! The built-in kinds: names, scopes, verbs, subresources and schemas, shared by every cluster of the process.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::resource::{Resource, ScalePaths, Subresource, Version};
use crate::schema::{Builder, Schema};

#[derive(Deserialize)]
struct Row {
    group: String,
    version: String,
    resource: String,
    kind: String,
    singular: String,
    namespaced: bool,
    verbs: Vec<String>,
    #[serde(default)]
    short: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    subresources: Vec<SubRow>,
}

#[derive(Deserialize)]
struct SubRow {
    name: String,
    kind: String,
    verbs: Vec<String>,
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
}

/// Everything static about the built-in API.
pub(crate) struct Catalog {
    /// Resources in discovery order.
    pub resources: Vec<Arc<Resource>>,
    /// The schema documents by definition name; references are bare names.
    pub definitions: Map<String, Value>,
    /// Definition name of a group, version and kind.
    pub kinds: HashMap<(String, String, String), String>,
}

/// The catalog. Immutable, read on first use.
pub(crate) fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(load);
    &CATALOG
}

fn load() -> Catalog {
    let definitions: Map<String, Value> =
        serde_json::from_str(include_str!("../data/schemas.json")).unwrap_or_default();
    let rows: Vec<Row> = serde_json::from_str(include_str!("../data/resources.json")).unwrap_or_default();
    let mut kinds = HashMap::new();
    for (name, doc) in &definitions {
        let list = doc.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        for gvk in list.into_iter().flatten() {
            let t = |k: &str| gvk.get(k).and_then(Value::as_str).unwrap_or_default().to_owned();
            kinds.insert((t("group"), t("version"), t("kind")), name.clone());
        }
    }
    let mut builder = Builder::new(&definitions, false);
    let roots: Vec<_> = rows
        .iter()
        .map(|r| {
            kinds
                .get(&(r.group.clone(), r.version.clone(), r.kind.clone()))
                .map(|name| builder.definition(name))
        })
        .collect();
    let arena = builder.finish();
    let mut resources: Vec<Resource> = Vec::new();
    for (row, root) in rows.into_iter().zip(roots) {
        let schema = root.map(|root| Schema { arena: arena.clone(), root });
        let subresources: Vec<Subresource> = row
            .subresources
            .into_iter()
            .map(|s| Subresource {
                name: s.name,
                kind: s.kind,
                group: s.group,
                version: s.version,
                verbs: s.verbs,
            })
            .collect();
        let scale = subresources.iter().any(|s| s.name == "scale").then(ScalePaths::built_in);
        let version = Version {
            name: row.version,
            served: true,
            status: subresources.iter().any(|s| s.name == "status"),
            scale,
            schema,
            columns: Vec::new(),
            subresources,
            document: None,
            deprecation: None,
        };
        let known = resources.iter_mut().find(|r| r.group == row.group && r.plural == row.resource);
        if let Some(r) = known {
            r.versions.push(version);
            continue;
        }
        // Events of both groups are one set of objects.
        let table = if row.resource == "events" {
            "events".to_owned()
        } else {
            crate::resource::qualified(&row.resource, &row.group)
        };
        resources.push(Resource {
            table: table.into(),
            list_kind: format!("{}List", row.kind),
            group: row.group,
            plural: row.resource,
            singular: row.singular,
            kind: row.kind,
            namespaced: row.namespaced,
            short: row.short,
            categories: row.categories,
            verbs: row.verbs,
            versions: vec![version],
            storage: 0,
            custom: false,
        });
    }
    Catalog { resources: resources.into_iter().map(Arc::new).collect(), definitions, kinds }
}

/// The definition documents of the catalog, for parsing custom resources.
pub(crate) fn definitions() -> &'static Map<String, Value> {
    &catalog().definitions
}
