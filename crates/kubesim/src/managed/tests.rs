use serde_json::{Value, json};

use super::*;
use crate::catalog::catalog;

fn schema(plural: &str) -> Schema {
    let r = catalog().resources.iter().find(|r| r.plural == plural).unwrap();
    r.versions[0].schema.clone().unwrap()
}

struct Object {
    schema: Schema,
    live: Value,
    managers: Managers,
}

impl Object {
    fn new(plural: &str) -> Self {
        let schema = schema(plural);
        let live = blank(&schema, false, "v1", "X");
        Self { schema, live, managers: Managers::default() }
    }

    fn booking<'a>(schema: &'a Schema, manager: &'a str, ignored: &'a FieldSet) -> Booking<'a> {
        Booking { schema, api_version: "v1", manager, subresource: "", ignored, now: "2026-01-01T00:00:00Z" }
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers write the configuration in place")]
    fn apply(&mut self, manager: &str, config: Value, force: bool) -> Result<(), ApiError> {
        let ignored = FieldSet::default();
        let b = Self::booking(&self.schema, manager, &ignored);
        self.live = apply(b, &self.live, &config, &mut self.managers, force)?;
        Ok(())
    }

    fn update(&mut self, manager: &str, new: Value) {
        let ignored = FieldSet::default();
        update(Self::booking(&self.schema, manager, &ignored), &self.live, &new, &mut self.managers);
        self.live = new;
    }

    fn owner(&self, manager: &str) -> Value {
        let e = self.managers.entries.iter().find(|(k, _)| k.name == manager);
        e.map_or(Value::Null, |(_, o)| o.set.to_json())
    }
}

#[test]
fn an_apply_owns_exactly_its_configuration() {
    let mut o = Object::new("configmaps");
    o.apply("a", json!({"metadata": {"name": "x", "labels": {"l": "1"}}, "data": {"k": "v"}}), false)
        .unwrap();
    assert_eq!(o.owner("a"), json!({"f:metadata": {"f:labels": {"f:l": {}}}, "f:data": {"f:k": {}}}));
}

#[test]
fn a_field_no_longer_applied_goes() {
    let mut o = Object::new("configmaps");
    o.apply("a", json!({"data": {"k": "v", "gone": "x"}}), false).unwrap();
    o.apply("b", json!({"data": {"other": "y"}}), false).unwrap();
    o.apply("a", json!({"data": {"k": "v"}}), false).unwrap();
    assert_eq!(o.live["data"], json!({"k": "v", "other": "y"}));
}

#[test]
fn a_field_that_somebody_else_owns_too_stays() {
    let mut o = Object::new("configmaps");
    o.apply("a", json!({"data": {"k": "v"}}), false).unwrap();
    o.apply("b", json!({"data": {"k": "v"}}), false).unwrap();
    o.apply("a", json!({"data": {}}), false).unwrap();
    assert_eq!(o.live["data"], json!({"k": "v"}));
    assert_eq!(o.owner("b"), json!({"f:data": {"f:k": {}}}));
}

#[test]
fn changing_anothers_field_conflicts_unless_forced() {
    let mut o = Object::new("configmaps");
    o.apply("a", json!({"data": {"k": "v"}}), false).unwrap();
    let e = o.apply("b", json!({"data": {"k": "w"}}), false).unwrap_err();
    assert_eq!(e.code, 409);
    assert_eq!(e.causes[0].field, ".data.k");
    assert_eq!(e.message, "Apply failed with 1 conflict: conflict with \"a\": .data.k");
    o.apply("b", json!({"data": {"k": "w"}}), true).unwrap();
    assert_eq!(o.live["data"]["k"], "w");
    assert_eq!(o.owner("a"), Value::Null);
}

#[test]
fn an_update_owns_what_it_changes() {
    let mut o = Object::new("configmaps");
    o.apply("a", json!({"data": {"k": "v", "l": "w"}}), false).unwrap();
    let mut new = o.live.clone();
    new["data"]["k"] = "changed".into();
    o.update("editor", new);
    assert_eq!(o.owner("editor"), json!({"f:data": {"f:k": {}}}));
    assert_eq!(o.owner("a"), json!({"f:data": {"f:l": {}}}));
}

#[test]
fn keyed_lists_are_owned_by_item() {
    let mut o = Object::new("pods");
    let c = |name: &str, image: &str| json!({"spec": {"containers": [{"name": name, "image": image}]}});
    o.apply("a", c("one", "x"), false).unwrap();
    o.apply("b", c("two", "y"), false).unwrap();
    assert_eq!(o.live["spec"]["containers"].as_array().unwrap().len(), 2);
    o.apply("a", json!({"spec": {"restartPolicy": "Never"}}), false).unwrap();
    assert_eq!(o.live["spec"]["containers"], json!([{"name": "two", "image": "y"}]));
    assert_eq!(
        o.owner("b"),
        json!({"f:spec": {"f:containers": {"k:{\"name\":\"two\"}": {".": {}, "f:name": {}, "f:image": {}}}}})
    );
}

#[test]
fn list_keys_have_defaults() {
    let mut o = Object::new("pods");
    let port = json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}});
    o.apply("a", port, false).unwrap();
    let own = o.owner("a").to_string();
    assert!(own.contains(r#"k:{\"containerPort\":80,\"protocol\":\"TCP\"}"#), "{own}");
}

#[test]
fn applied_items_keep_the_order_of_the_configuration() {
    let mut o = Object::new("pods");
    let cs = |names: &[&str]| {
        let l: Vec<Value> = names.iter().map(|n| json!({"name": n, "image": "i"})).collect();
        json!({"spec": {"containers": l}})
    };
    let names = |o: &Object| -> Vec<String> {
        let l = o.live["spec"]["containers"].as_array().unwrap();
        l.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
    };
    o.apply("a", cs(&["1", "2", "3"]), false).unwrap();
    o.apply("b", cs(&["x"]), false).unwrap();
    o.apply("a", cs(&["3", "1", "2", "4"]), false).unwrap();
    let got = names(&o);
    let without_x: Vec<&String> = got.iter().filter(|n| *n != "x").collect();
    assert_eq!(without_x, ["3", "1", "2", "4"]);
    assert!(got.contains(&"x".to_owned()));
}

#[test]
fn managed_fields_survive_a_round_trip() {
    let mut o = Object::new("configmaps");
    o.apply("a", json!({"data": {"k": "v"}}), false).unwrap();
    let mut object = json!({"metadata": {"name": "x"}});
    o.managers.write(&mut object);
    assert_eq!(Managers::from_object(&object).unwrap(), o.managers);
}

#[test]
fn always_present_structs_belong_to_nobody() {
    let mut o = Object::new("deployments");
    let mut new = o.live.clone();
    new["spec"]["replicas"] = 2.into();
    new["spec"]["selector"] = json!({"matchLabels": {"a": "b"}});
    new["spec"]["template"]["metadata"]["labels"] = json!({"a": "b"});
    o.update("me", new);
    assert_eq!(
        o.owner("me"),
        json!({"f:spec": {"f:replicas": {}, "f:selector": {},
            "f:template": {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}}})
    );
}
