//! Edits of texts: every byte that need not change stays.

use plural_scaffold::edit::{DocumentSelector, Edit, Format, edit};
use serde_json::{Value, json};

fn done(text: &str, format: Format, wanted: Value) -> Result<String, String> {
    let wanted: Edit = serde_json::from_value(wanted).unwrap();
    let whole = DocumentSelector::default();
    let edited = edit(text, format, &whole, &wanted)?;
    assert_eq!(edit(&edited, format, &whole, &wanted).as_ref(), Ok(&edited), "done twice");
    Ok(edited)
}

fn check(format: Format, text: &str, wanted: Value, expected: &str) {
    let told = wanted.to_string();
    assert_eq!(done(text, format, wanted).as_deref(), Ok(expected), "{told}");
}

const VALUES: &str = "# values of the app\nimage:\n  tag: \"1.0\" # keep\n  name: 'web'\n\nports: # open ones\n- name: http\n  port: 80\n- name: admin # inside only\n  port: 81\nextra: {}\n";

#[test]
fn yaml_is_edited_in_place() {
    let yaml = |wanted: Value, from: &str, to: &str| {
        check(Format::Yaml, VALUES, wanted, &VALUES.replacen(from, to, 1));
    };
    yaml(json!({"op": "set", "path": "image.tag", "value": "1.1"}), "\"1.0\"", "\"1.1\"");
    yaml(json!({"op": "set", "path": "image.name", "value": "it's"}), "'web'", "'it''s'");
    yaml(json!({"op": "set", "path": "ports[name=http].port", "value": 8080}), "port: 80\n", "port: 8080\n");
    yaml(json!({"op": "set", "path": "image.pull", "value": true}), "'web'\n", "'web'\n  pull: true\n");
    yaml(json!({"op": "delete", "path": "image.name"}), "  name: 'web'\n", "");
    yaml(json!({"op": "delete", "path": "ports[0].name"}), "- name: http\n  port", "- port");
    yaml(json!({"op": "delete", "path": "ports[name=http]"}), "- name: http\n  port: 80\n", "");
    yaml(
        json!({"op": "append", "path": "ports", "key": "name", "value": {"name": "grpc", "port": 90}}),
        "  port: 81\n",
        "  port: 81\n- name: grpc\n  port: 90\n",
    );
    yaml(
        json!({"op": "append", "path": "ports", "key": "name", "value": {"name": "http", "port": 443}}),
        "port: 80\n",
        "port: 443\n",
    );
    yaml(
        json!({"op": "merge", "value": {"extra": {"a": {"b": [1]}}}}),
        "extra: {}\n",
        "extra:\n  a:\n    b:\n    - 1\n",
    );
    yaml(json!({"op": "set", "path": "new", "value": "a: b"}), "extra: {}\n", "extra: {}\nnew: 'a: b'\n");
    yaml(json!({"op": "set", "path": "image.tag", "value": "1.0"}), "", "");
    yaml(json!({"op": "set", "path": "extra", "value": "one\ntwo\n"}), "extra: {}", "extra: |\n  one\n  two");
}

#[test]
fn yaml_of_other_layouts_is_edited_too() {
    let y = Format::Yaml;
    check(y, "a: 1", json!({"op": "set", "path": "b", "value": 2}), "a: 1\nb: 2");
    check(
        y,
        "a: 1\r\nc: 3\r\n",
        json!({"op": "set", "path": "b.d", "value": 2}),
        "a: 1\r\nc: 3\r\nb:\r\n  d: 2\r\n",
    );
    check(y, "", json!({"op": "set", "path": "a", "value": 1}), "a: 1\n");
    check(y, "a: {b: 1, c: 2}\n", json!({"op": "set", "path": "a.d", "value": 3}), "a: {b: 1, c: 2, d: 3}\n");
    check(y, "a: {b: 1, c: 2}\n", json!({"op": "delete", "path": "a.b"}), "a: {c: 2}\n");
    check(y, "a: [1, 2]\n", json!({"op": "append", "path": "a", "value": 3}), "a: [1, 2, 3]\n");
    check(y, "a:\n", json!({"op": "set", "path": "a.b", "value": 1}), "a:\n  b: 1\n");
    check(
        y,
        "a:\n  - x\n",
        json!({"op": "append", "path": "a", "value": {"k": ["v"]}}),
        "a:\n  - x\n  - k:\n      - v\n",
    );
    check(y, "a: 1\nb:\n  c: 1\n", json!({"op": "delete", "path": "b"}), "a: 1\n");
    check(
        y,
        "base: &base\n  a: 1\nuse:\n  <<: *base\n  b: 2\n",
        json!({"op": "set", "path": "use.a", "value": 5}),
        "base: &base\n  a: 1\nuse:\n  <<: *base\n  b: 2\n  a: 5\n",
    );
    let shared =
        done("base: &base\n  a: 1\nuse: *base\n", y, json!({"op": "set", "path": "base.a", "value": 5}));
    assert!(shared.unwrap_err().contains("shares values by anchors"));
}

#[test]
fn a_stream_of_documents_is_edited_in_the_one_that_is_meant() {
    let text = "---\nkind: Service\nmetadata: {name: a}\n--- # second\nkind: Deployment\nmetadata:\n  name: a\nspec:\n  replicas: 1\n";
    let overlay = json!({"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 3}});
    check(
        Format::Yaml,
        text,
        json!({"op": "merge", "value": overlay}),
        &text.replace("replicas: 1", "replicas: 3"),
    );
    let set = json!({"op": "set", "path": "x", "value": 1});
    assert!(done(text, Format::Yaml, set.clone()).unwrap_err().contains("2 documents"));
    let wanted: Edit = serde_json::from_value(set).unwrap();
    let first = DocumentSelector { index: Some(0), ..DocumentSelector::default() };
    assert_eq!(
        edit(text, Format::Yaml, &first, &wanted).unwrap(),
        text.replace("metadata: {name: a}\n", "metadata: {name: a}\nx: 1\n")
    );
    let none = DocumentSelector { kind: Some("Job".to_owned()), ..DocumentSelector::default() };
    assert!(edit(text, Format::Yaml, &none, &wanted).unwrap_err().contains("no such document"));
}

#[test]
fn json_keeps_its_layout() {
    let j = Format::Json;
    let text = "{\n    \"a\": 1,\n    \"b\": {\"c\": [1,  2]},\n    \"e\": []\n}\n";
    check(j, text, json!({"op": "set", "path": "a", "value": "x"}), &text.replace("1,\n", "\"x\",\n"));
    check(j, text, json!({"op": "append", "path": "b.c", "value": 3}), &text.replace("1,  2", "1,  2, 3"));
    check(
        j,
        text,
        json!({"op": "set", "path": "f", "value": {"g": [1]}}),
        &text.replace("[]\n", "[],\n    \"f\": {\n        \"g\": [\n            1\n        ]\n    }\n"),
    );
    check(j, text, json!({"op": "delete", "path": "a"}), &text.replace("\"a\": 1,\n    ", ""));
    check(j, text, json!({"op": "delete", "path": "e"}), &text.replace(",\n    \"e\": []", ""));
    check(j, "{\"a\":1}", json!({"op": "set", "path": "b", "value": [2]}), "{\"a\":1,\"b\":[2]}");
    assert!(done("{", j, json!({"op": "delete", "path": "a"})).unwrap_err().contains("no JSON"));
}

#[test]
fn toml_keeps_comments_and_order() {
    let t = Format::Toml;
    let text = "# top\nname = \"a\" # here\n\n[dep]\nb = 1\nlist = [1, 2]\n";
    check(t, text, json!({"op": "set", "path": "name", "value": "z"}), &text.replace("\"a\"", "\"z\""));
    check(
        t,
        text,
        json!({"op": "append", "path": "dep.list", "value": 3}),
        &text.replace("[1, 2]", "[1, 2, 3]"),
    );
    check(t, text, json!({"op": "delete", "path": "dep.b"}), &text.replace("b = 1\n", ""));
    let dos = text.replace('\n', "\r\n");
    check(t, &dos, json!({"op": "set", "path": "dep.b", "value": 2}), &dos.replace("b = 1", "b = 2"));
}

#[test]
fn paths_that_lead_nowhere_are_told() {
    for (path, why) in [("a.b", "no map"), ("l[7]", "has 1 items"), ("a[0]", "no list")] {
        let found = done("a: text\nl: [1]\n", Format::Yaml, json!({"op": "set", "path": path, "value": 1}));
        assert!(found.as_ref().is_err_and(|told| told.contains(why)), "{path}: {found:?}");
    }
    for path in ["a..b", ".", "a[", "a[x]", "[\"open]"] {
        let wanted: Result<Edit, _> = serde_json::from_value(json!({"op": "delete", "path": path}));
        assert!(wanted.is_err(), "{path}");
    }
}
