//! OpenAPI documents: what kubectl needs to validate, explain, diff and patch. Descriptions are left out for
//! built-in kinds.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::catalog::catalog;
use crate::discovery;
use crate::resource::{Resource, Version};
use crate::store::Store;

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// `/openapi/v3`: the list of documents.
pub(crate) fn index(s: &Store) -> Value {
    let mut paths = Map::new();
    for (g, v, _) in discovery::served(s) {
        let p = path_of(&g, &v);
        // Built-in documents never change; those of custom resources change with their definitions.
        let custom = s.custom().any(|r| r.group == g);
        let hash = if custom { format!("{:016X}", s.custom_generation) } else { "0".repeat(16) };
        let url = format!("/openapi/v3/{p}?hash={hash}");
        paths.insert(p, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// `/openapi/v3/PATH`: the document of one group and version.
pub(crate) fn document(s: &Store, path: &str) -> Option<Value> {
    let (group, version, list) = discovery::served(s).into_iter().find(|(g, v, _)| path_of(g, v) == path)?;
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for (r, i) in &list {
        let v = &r.versions[*i];
        let name = schemas.add_kind(r, v);
        add_paths(&mut paths, r, &group, &version, &name);
    }
    for name in ["DeleteOptions", "Status", "APIResourceList"] {
        schemas.add_definition(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"));
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.2"},
        "paths": paths,
        "components": {"schemas": schemas.out, "securitySchemes":
            {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}},
    }))
}

#[derive(Default)]
struct Schemas {
    out: Map<String, Value>,
    seen: BTreeSet<String>,
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

impl Schemas {
    fn add_kind(&mut self, r: &Resource, v: &Version) -> String {
        let gvk = (r.group.clone(), v.name.clone(), r.kind.clone());
        if !r.custom {
            let Some(name) = catalog().kinds.get(&gvk) else { return String::new() };
            self.add_definition(name);
            let list = (r.group.clone(), v.name.clone(), r.list_kind.clone());
            if let Some(l) = catalog().kinds.get(&list) {
                self.add_definition(l);
            }
            return name.clone();
        }
        let reversed: Vec<&str> = r.group.split('.').rev().collect();
        let name = format!("{}.{}.{}", reversed.join("."), v.name, r.kind);
        let mut doc = v.document.clone().unwrap_or_else(|| json!({"type": "object"}));
        let gvk = json!([{"group": r.group, "version": v.name, "kind": r.kind}]);
        if let Some(o) = doc.as_object_mut() {
            let props = o.entry("properties").or_insert_with(|| json!({}));
            props["apiVersion"] = json!({"type": "string"});
            props["kind"] = json!({"type": "string"});
            props["metadata"] =
                json!({"allOf": [{"$ref": format!("#/components/schemas/{META}.ObjectMeta")}]});
            o.insert("x-kubernetes-group-version-kind".into(), gvk);
        }
        self.add_definition(&format!("{META}.ObjectMeta"));
        self.add_definition(&format!("{META}.ListMeta"));
        let list_gvk = json!([{"group": r.group, "version": v.name, "kind": r.list_kind}]);
        let reference = format!("#/components/schemas/{name}");
        self.out.insert(
            format!("{name}List"),
            json!({"type": "object", "required": ["items"], "x-kubernetes-group-version-kind": list_gvk,
                "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"},
                    "metadata": {"$ref": format!("#/components/schemas/{META}.ListMeta")},
                    "items": {"type": "array", "items": {"$ref": reference}}}}),
        );
        self.out.insert(name.clone(), doc);
        name
    }

    fn add_definition(&mut self, name: &str) {
        if !self.seen.insert(name.to_owned()) {
            return;
        }
        let Some(doc) = catalog().definitions.get(name) else { return };
        let mut needed = Vec::new();
        let doc = expand(doc, &mut needed);
        self.out.insert(name.to_owned(), doc);
        for n in needed {
            self.add_definition(&n);
        }
    }
}

/// Turns bare references into document-relative ones, the way the real documents write them.
fn expand(doc: &Value, needed: &mut Vec<String>) -> Value {
    match doc {
        Value::Object(m) => {
            let mut out = Map::new();
            for (k, v) in m {
                match (k.as_str(), v) {
                    ("$ref", Value::String(name)) => {
                        needed.push(name.clone());
                        let r = json!({"$ref": format!("#/components/schemas/{name}")});
                        if m.len() == 1 {
                            return r;
                        }
                        out.insert("allOf".into(), json!([r]));
                    }
                    ("properties", Value::Object(props)) => {
                        let props: Map<String, Value> =
                            props.iter().map(|(p, d)| (p.clone(), expand(d, needed))).collect();
                        out.insert(k.clone(), Value::Object(props));
                    }
                    _ => {
                        out.insert(k.clone(), expand(v, needed));
                    }
                }
            }
            Value::Object(out)
        }
        Value::Array(l) => l.iter().map(|v| expand(v, needed)).collect(),
        other => other.clone(),
    }
}

fn add_paths(paths: &mut Map<String, Value>, r: &Resource, group: &str, version: &str, schema: &str) {
    let base = format!("/{}", path_of(group, version));
    let gvk = json!({"group": group, "version": version, "kind": r.kind});
    let query = |name: &str, ty: &str| json!({"name": name, "in": "query", "schema": {"type": ty, "uniqueItems": true}});
    let write =
        [query("dryRun", "string"), query("fieldManager", "string"), query("fieldValidation", "string")];
    let reference = json!({"$ref": format!("#/components/schemas/{schema}")});
    let content = json!({"application/json": {"schema": reference}});
    let answer = json!({"200": {"description": "OK", "content": content}});
    let operation = |verb: &str, params: &[Value], body: bool| {
        let mut op = json!({"parameters": params, "responses": answer,
            "x-kubernetes-action": verb, "x-kubernetes-group-version-kind": gvk});
        if body {
            op["requestBody"] = json!({"content": {"*/*": {"schema": reference}}, "required": true});
        }
        op
    };
    let has = |verb: &str| r.verbs.iter().any(|x| x == verb);
    let mut one = Map::new();
    let mut many = Map::new();
    if has("get") {
        one.insert("get".into(), operation("get", &[], false));
    }
    if has("update") {
        one.insert("put".into(), operation("put", &write, true));
    }
    if has("patch") {
        let mut p = write.to_vec();
        p.push(query("force", "boolean"));
        one.insert("patch".into(), operation("patch", &p, true));
    }
    if has("delete") {
        one.insert("delete".into(), operation("delete", &[query("dryRun", "string")], false));
    }
    if has("list") {
        many.insert("get".into(), operation("list", &[query("labelSelector", "string")], false));
    }
    if has("create") {
        many.insert("post".into(), operation("post", &write, true));
    }
    let scope = if r.namespaced { format!("{base}/namespaces/{{namespace}}") } else { base };
    let name = json!({"name": "name", "in": "path", "required": true, "schema": {"type": "string"}});
    one.insert("parameters".into(), json!([name]));
    paths.insert(format!("{scope}/{}", r.plural), Value::Object(many));
    if one.len() > 1 {
        paths.insert(format!("{scope}/{}/{{name}}", r.plural), Value::Object(one));
    }
}

/// `/openapi/v2`: definitions with their kinds, for clients that still ask.
pub(crate) fn v2(s: &Store) -> Value {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for (g, v, list) in discovery::served(s) {
        for (r, i) in &list {
            let name = schemas.add_kind(r, &r.versions[*i]);
            let mut one = Map::new();
            add_paths(&mut one, r, &g, &v, &name);
            paths.extend(one);
        }
    }
    let text = Value::Object(schemas.out).to_string().replace("#/components/schemas/", "#/definitions/");
    let definitions: Value = serde_json::from_str(&text).unwrap_or_default();
    let text = Value::Object(paths).to_string().replace("#/components/schemas/", "#/definitions/");
    let paths: Value = serde_json::from_str(&text).unwrap_or_default();
    json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.2"}, "paths": paths,
        "definitions": definitions})
}
