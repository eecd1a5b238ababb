//! Custom resources: definitions, schemas, versions, subresources.

use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use super::support::{Api, api, causes, group, owned};

each_cluster!(
    definition_gets_established,
    definition_name_must_fit,
    definition_needs_a_schema,
    unknown_fields_are_pruned,
    preserved_fields_stay,
    defaults_are_filled_in,
    values_are_checked,
    required_fields_are_checked,
    types_are_checked,
    custom_status_is_apart,
    custom_scale,
    custom_generation,
    custom_update_needs_a_revision,
    apply_merges_custom_lists_by_key,
    apply_conflicts_on_custom_fields,
    two_versions_show_one_object,
    printer_columns,
    cluster_scope,
    definition_takes_its_objects_along,
    custom_discovery,
    schema_change_takes_effect,
);

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[expect(clippy::needless_pass_by_value, reason = "cases write the schema in place")]
fn definition(group: &str, schema: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "shortNames": ["th"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}]}],
        }
    })
}

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10},
            "mode": {"type": "string", "enum": ["fast", "slow"], "default": "slow"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
            "replicas": {"type": "integer"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                "items": {"type": "object", "required": ["id"], "properties": {
                    "id": {"type": "string"}, "value": {"type": "string"}}}},
            "tags": {"type": "array", "items": {"type": "string"}},
        }},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    }})
}

/// Creates a definition of `things` in `group` and waits until it is served.
pub(super) async fn define(a: &Api, group: &str, schema: Value) -> Value {
    a.post(CRDS, definition(group, schema)).await.expect(201);
    established(a, group).await
}

async fn established(a: &Api, group: &str) -> Value {
    let path = format!("{CRDS}/things.{group}");
    let crd = a
        .until(&path, |x| {
            let list = x.body["status"]["conditions"].as_array();
            list.into_iter().flatten().any(|c| c["type"] == "Established" && c["status"] == "True")
        })
        .await;
    // Established comes a moment before the route does.
    a.until(&format!("/apis/{group}/v1/namespaces/{}/things", a.ns), |x| x.code == 200).await;
    crd.body
}

struct Things {
    a: Api,
    group: String,
    list: String,
}

impl Things {
    async fn new(cluster: &TestCluster) -> Self {
        let a = api(cluster).await;
        let group = group();
        define(&a, &group, schema()).await;
        let list = format!("/apis/{group}/v1/namespaces/{}/things", a.ns);
        Self { a, group, list }
    }

    #[expect(clippy::needless_pass_by_value, reason = "cases write the spec in place")]
    fn thing(&self, spec: Value) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group), "kind": "Thing", "metadata": {"name": "t"}, "spec": spec})
    }

    fn path(&self) -> String {
        format!("{}/t", self.list)
    }

    async fn make(&self, spec: Value) -> Value {
        self.a.post(&self.list, self.thing(spec)).await.expect(201)
    }
}

async fn definition_gets_established(cluster: TestCluster) {
    let a = api(&cluster).await;
    let g = group();
    let crd = define(&a, &g, schema()).await;
    assert_eq!(crd["status"]["acceptedNames"]["plural"], "things");
    assert_eq!(crd["status"]["acceptedNames"]["listKind"], "ThingList");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(crd["spec"]["names"]["listKind"], "ThingList");
}

async fn definition_name_must_fit(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut d = definition(&group(), schema());
    d["metadata"]["name"] = "other.example.com".into();
    let e = a.post(CRDS, d).await.refused(422, "Invalid");
    assert!(causes(&e).contains(&("FieldValueInvalid".to_owned(), "metadata.name".to_owned())), "{e}");
}

async fn definition_needs_a_schema(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut d = definition(&group(), schema());
    d["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");
    let e = a.post(CRDS, d).await.refused(422, "Invalid");
    let at = "spec.versions[0].schema.openAPIV3Schema";
    assert!(causes(&e).contains(&("FieldValueRequired".to_owned(), at.to_owned())), "{e}");
}

async fn unknown_fields_are_pruned(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    let answer = t.a.post(&t.list, t.thing(json!({"size": 1, "nonsense": 2}))).await;
    assert_eq!(answer.warnings, ["299 - \"unknown field \\\"spec.nonsense\\\"\""]);
    let o = answer.expect(201);
    assert!(o["spec"].get("nonsense").is_none(), "{o}");
    let mut other = t.thing(json!({"size": 1, "nonsense": 2}));
    other["metadata"]["name"] = "u".into();
    let e = t.a.post(&format!("{}?fieldValidation=Strict", t.list), other).await.refused(400, "BadRequest");
    assert!(e["message"].as_str().unwrap().contains("unknown field \"spec.nonsense\""), "{e}");
}

async fn preserved_fields_stay(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    let free = json!({"any": {"thing": [1, "two", null]}, "n": null});
    let o = t.make(json!({"size": 1, "free": free})).await;
    assert_eq!(o["spec"]["free"]["any"]["thing"], json!([1, "two", null]));
}

async fn defaults_are_filled_in(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    assert_eq!(t.make(json!({"size": 1})).await["spec"], json!({"size": 1, "mode": "slow"}));
}

async fn values_are_checked(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    let e =
        t.a.post(&t.list, t.thing(json!({"size": 20, "mode": "odd", "name": "A"})))
            .await
            .refused(422, "Invalid");
    let mut got = causes(&e);
    got.sort();
    assert_eq!(
        got,
        [
            ("FieldValueInvalid".to_owned(), "spec.name".to_owned()),
            ("FieldValueInvalid".to_owned(), "spec.size".to_owned()),
            ("FieldValueNotSupported".to_owned(), "spec.mode".to_owned())
        ]
    );
    let m = e["message"].as_str().unwrap();
    for part in [
        "spec.size: Invalid value: 20: spec.size in body should be less than or equal to 10",
        "spec.mode: Unsupported value: \"odd\": supported values: \"fast\", \"slow\"",
        "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'",
    ] {
        assert!(m.contains(part), "{part} is not in {m}");
    }
}

async fn required_fields_are_checked(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    let e = t.a.post(&t.list, t.thing(json!({}))).await.refused(422, "Invalid");
    assert_eq!(causes(&e), [("FieldValueRequired".to_owned(), "spec.size".to_owned())]);
    assert_eq!(e["details"]["kind"], "Thing");
}

async fn types_are_checked(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    let e = t.a.post(&t.list, t.thing(json!({"size": "big"}))).await.refused(422, "Invalid");
    assert_eq!(causes(&e), [("FieldValueTypeInvalid".to_owned(), "spec.size".to_owned())]);
    assert!(
        e["message"].as_str().unwrap().contains("spec.size in body must be of type integer: \"string\""),
        "{e}"
    );
}

async fn custom_status_is_apart(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    let mut body = t.thing(json!({"size": 1}));
    body["status"] = json!({"phase": "made up"});
    let o = t.a.post(&t.list, body).await.expect(201);
    assert!(o.get("status").is_none(), "{o}");
    let now =
        t.a.merge(&format!("{}/status", t.path()), json!({"spec": {"size": 9}, "status": {"phase": "Fine"}}))
            .await
            .expect(200);
    assert_eq!((&now["spec"]["size"], &now["status"]), (&json!(1), &json!({"phase": "Fine"})));
    assert_eq!(now["metadata"]["generation"], 1);
    let now = t.a.merge(&t.path(), json!({"spec": {"size": 2}, "status": {"phase": "no"}})).await.expect(200);
    assert_eq!((&now["spec"]["size"], &now["status"]["phase"]), (&json!(2), &json!("Fine")));
}

async fn custom_scale(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    t.make(json!({"size": 1, "replicas": 3})).await;
    let path = format!("{}/scale", t.path());
    let s = t.a.get(&path).await.expect(200);
    assert_eq!((&s["kind"], &s["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    t.a.merge(&path, json!({"spec": {"replicas": 5}})).await.expect(200);
    assert_eq!(t.a.get(&t.path()).await.expect(200)["spec"]["replicas"], 5);
}

async fn custom_generation(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    assert_eq!(t.make(json!({"size": 1})).await["metadata"]["generation"], 1);
    let now = t.a.merge(&t.path(), json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    assert_eq!(now["metadata"]["generation"], 1);
    let now = t.a.merge(&t.path(), json!({"spec": {"size": 2}})).await.expect(200);
    assert_eq!(now["metadata"]["generation"], 2);
}

async fn custom_update_needs_a_revision(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    t.make(json!({"size": 1})).await;
    let e = t.a.put(&t.path(), t.thing(json!({"size": 2}))).await.refused(422, "Invalid");
    assert_eq!(causes(&e), [("FieldValueInvalid".to_owned(), "metadata.resourceVersion".to_owned())]);
}

async fn apply_merges_custom_lists_by_key(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    let item = |id: &str| json!({"items": [{"id": id, "value": id}]});
    let mut first = item("a");
    first["size"] = 1.into();
    t.a.apply(&t.path(), "one", t.thing(first)).await.expect(201);
    let now = t.a.apply(&t.path(), "two", t.thing(item("b"))).await.expect(200);
    assert_eq!(now["spec"]["items"], json!([{"id": "a", "value": "a"}, {"id": "b", "value": "b"}]));
    assert_eq!(
        owned(&now, "two", "Apply"),
        json!({"f:spec": {"f:items": {"k:{\"id\":\"b\"}": {".": {}, "f:id": {}, "f:value": {}}}}})
    );
    let now = t.a.apply(&t.path(), "two", t.thing(json!({}))).await.expect(200);
    assert_eq!(now["spec"]["items"], json!([{"id": "a", "value": "a"}]));
}

async fn apply_conflicts_on_custom_fields(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    t.a.apply(&t.path(), "one", t.thing(json!({"size": 1, "tags": ["x"], "free": {"deep": {"k": 1}}})))
        .await
        .expect(201);
    let e =
        t.a.apply(&t.path(), "two", t.thing(json!({"tags": ["y"], "free": {"deep": {"k": 2, "l": 3}}})))
            .await
            .refused(409, "Conflict");
    let mut fields: Vec<String> = causes(&e).into_iter().map(|(_, f)| f).collect();
    fields.sort();
    assert_eq!(fields, [".spec.free.deep.k", ".spec.tags"]);
}

async fn two_versions_show_one_object(cluster: TestCluster) {
    let a = api(&cluster).await;
    let group = group();
    let mut crd = definition(&group, schema());
    let mut v2 = crd["spec"]["versions"][0].clone();
    v2["name"] = "v2".into();
    v2["storage"] = false.into();
    crd["spec"]["versions"].as_array_mut().unwrap().push(v2);
    a.post(CRDS, crd).await.expect(201);
    established(&a, &group).await;
    let list = format!("/apis/{group}/v1/namespaces/{}/things", a.ns);
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "t"}, "spec": {"size": 1}});
    a.post(&list, thing).await.expect(201);
    let other = format!("/apis/{group}/v2/namespaces/{}/things/t", a.ns);
    let seen = a.until(&other, |x| x.code == 200).await.body;
    assert_eq!(seen["apiVersion"], format!("{group}/v2"));
    assert_eq!(seen["spec"]["size"], 1);
    a.merge(&other, json!({"spec": {"size": 2}})).await.expect(200);
    let back = a.get(&format!("{list}/t")).await.expect(200);
    assert_eq!((&back["apiVersion"], &back["spec"]["size"]), (&json!(format!("{group}/v1")), &json!(2)));
}

async fn printer_columns(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    t.make(json!({"size": 4})).await;
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    t.a.merge(&format!("{}/status", t.path()), status).await.expect(200);
    let table = t.a.get_as(&t.list, "application/json;as=Table;v=v1;g=meta.k8s.io").await.expect(200);
    let headings: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(headings, ["Name", "Size", "Ready"]);
    assert_eq!(table["rows"][0]["cells"], json!(["t", 4, "True"]));
}

async fn cluster_scope(cluster: TestCluster) {
    let a = api(&cluster).await;
    let group = group();
    let mut crd = definition(&group, schema());
    crd["spec"]["scope"] = "Cluster".into();
    a.post(CRDS, crd).await.expect(201);
    let list = format!("/apis/{group}/v1/things");
    a.until(&list, |x| x.code == 200).await;
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "t"}, "spec": {"size": 1}});
    let o = a.post(&list, thing).await.expect(201);
    assert!(o["metadata"].get("namespace").is_none());
    let e = a.get(&format!("/apis/{group}/v1/namespaces/{}/things", a.ns)).await;
    assert_eq!(e.code, 404, "{}", e.text);
}

async fn definition_takes_its_objects_along(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    t.make(json!({"size": 1})).await;
    let path = format!("{CRDS}/things.{}", t.group);
    t.a.delete(&path, Value::Null).await.expect(200);
    t.a.until(&path, |x| x.code == 404).await;
    let gone = t.a.until(&t.list, |x| x.code == 404).await;
    assert_eq!(gone.code, 404);
}

async fn custom_discovery(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    let l = t.a.until(&format!("/apis/{}/v1", t.group), |x| x.code == 200).await.body;
    let things = l["resources"].as_array().unwrap().iter().find(|r| r["name"] == "things").unwrap();
    assert_eq!(things["kind"], "Thing");
    assert_eq!(things["singularName"], "thing");
    assert_eq!(things["shortNames"], json!(["th"]));
    assert_eq!(things["namespaced"], true);
    assert!(l["resources"].as_array().unwrap().iter().any(|r| r["name"] == "things/status"));
    let group = t.a.get(&format!("/apis/{}", t.group)).await.expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v1");
}

async fn schema_change_takes_effect(cluster: TestCluster) {
    let t = Things::new(&cluster).await;
    let path = format!("{CRDS}/things.{}", t.group);
    let add = json!([{"op": "add",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/added", "value": {"type": "string"}}]);
    t.a.patch(&path, "application/json-patch+json", add).await.expect(200);
    t.make(json!({"size": 1})).await;
    plural_testkit::eventually(super::support::SOON, async || {
        let now = t.a.merge(&t.path(), json!({"spec": {"added": "yes"}})).await;
        if now.body["spec"]["added"] == "yes" { Ok(()) } else { Err(now.text) }
    })
    .await;
}
