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

const TERRAFORM: &str = r#"# of the platform team

# the bucket of logs
resource "aws_s3_bucket" "logs" {
  bucket = "logs" # globally unique
  count  = var.enabled ? 1 : 0

  tags = {
    team = "web" // owner
    tier = 1
  }

  lifecycle { prevent_destroy = true }
}

module "net" {
  source = "./net"
  zones  = ["a", "b"]
}

provider "aws" {
  alias = "west"
}

provider "aws" {
  alias = "east"
}
"#;

#[test]
fn what_is_deleted_by_its_number_is_the_next_one_when_done_twice() {
    let first = serde_json::from_value(json!({"op": "delete", "path": "zones[0]"})).unwrap();
    let once = |text: &str| edit(text, Format::Hcl, &DocumentSelector::default(), &first).unwrap();
    assert_eq!(once("zones = [\"a\", \"b\"]\n"), "zones = [\"b\"]\n");
    assert_eq!(once("zones = [\"b\"]\n"), "zones = []\n");
}

#[test]
fn hcl_is_edited_in_place() {
    let hcl = |wanted: Value, from: &str, to: &str| {
        check(Format::Hcl, TERRAFORM, wanted, &TERRAFORM.replacen(from, to, 1));
    };
    let bucket = "resource.aws_s3_bucket.logs";
    let set = |path: &str, value: Value| json!({"op": "set", "path": path, "value": value});
    hcl(set(&format!("{bucket}.bucket"), json!("all")), "\"logs\" # g", "\"all\" # g");
    hcl(set(&format!("{bucket}.count"), json!(2)), "var.enabled ? 1 : 0", "2");
    hcl(
        set(&format!("{bucket}.tags.team"), json!("it's \"${x}\"\n")),
        "\"web\"",
        "\"it's \\\"$${x}\\\"\\n\"",
    );
    hcl(set(&format!("{bucket}.tags.cost"), json!(-1.5)), "tier = 1\n", "tier = 1\n    cost = -1.5\n");
    hcl(set(&format!("{bucket}.tags[\"a.b\"]"), json!(true)), "tier = 1\n", "tier = 1\n    \"a.b\" = true\n");
    hcl(set(&format!("{bucket}.lifecycle.prevent_destroy"), json!(false)), "= true }", "= false }");
    hcl(
        set(&format!("{bucket}.lifecycle.ignore_changes"), json!(["tags"])),
        "{ prevent_destroy = true }",
        "{\n    prevent_destroy = true\n    ignore_changes = [\"tags\"]\n  }",
    );
    hcl(set("module.net.size", json!({"min": 1})), "\"b\"]\n", "\"b\"]\n  size = {\n    min = 1\n  }\n");
    hcl(set("provider.aws[alias=east].region", json!("r")), "\"east\"\n", "\"east\"\n  region = \"r\"\n");
    hcl(set("provider.aws[0].region", json!("r")), "\"west\"\n", "\"west\"\n  region = \"r\"\n");
    hcl(json!({"op": "append", "path": "module.net.zones", "value": "c"}), "\"b\"]", "\"b\", \"c\"]");
    hcl(json!({"op": "append", "path": "module.net.zones", "value": "a"}), "", "");
    hcl(json!({"op": "append", "path": "module.net.more", "value": 1}), "\"b\"]\n", "\"b\"]\n  more = [1]\n");
    hcl(json!({"op": "delete", "path": format!("{bucket}.tags.tier")}), "    tier = 1\n", "");
    hcl(
        json!({"op": "delete", "path": format!("{bucket}.bucket")}),
        "  bucket = \"logs\" # globally unique\n",
        "",
    );
    hcl(
        json!({"op": "delete", "path": "module.net"}),
        "\nmodule \"net\" {\n  source = \"./net\"\n  zones  = [\"a\", \"b\"]\n}\n",
        "",
    );
    hcl(json!({"op": "delete", "path": "module.other"}), "", "");
    hcl(
        json!({"op": "merge", "value": {"module": {"net": {"source": "./new", "zones": ["z"]}}}}),
        "\"./net\"\n  zones  = [\"a\", \"b\"]",
        "\"./new\"\n  zones  = [\"z\"]",
    );
    hcl(
        json!({"op": "express", "path": "module.net.source", "expression": " var.source "}),
        "\"./net\"",
        "var.source",
    );
    let first = TERRAFORM.find("# the bucket").unwrap()..TERRAFORM.find("module").unwrap();
    let without = format!("{}{}", &TERRAFORM[..first.start], &TERRAFORM[first.end..]);
    check(Format::Hcl, TERRAFORM, json!({"op": "delete", "path": bucket}), &without);
    let dos = TERRAFORM.replace('\n', "\r\n");
    check(Format::Hcl, &dos, set("module.net.source", json!("x")), &dos.replace("./net", "x"));
}

#[test]
fn blocks_of_hcl_are_made_once() {
    let module = json!({"op": "block", "block": "module", "labels": ["dns"], "value": {"source": "./dns", "zone": {"a": [1]}}});
    let made = "module \"dns\" {\n  source = \"./dns\"\n  zone = {\n    a = [1]\n  }\n}\n";
    check(Format::Hcl, TERRAFORM, module.clone(), &format!("{TERRAFORM}\n{made}"));
    check(Format::Hcl, "", module.clone(), made);
    check(Format::Hcl, "# head\n", module.clone(), &format!("# head\n{made}"));
    check(
        Format::Hcl,
        "module \"dns\" {\n  source = \"old\" # here\n}",
        module,
        "module \"dns\" {\n  source = \"./dns\" # here\n  zone = {\n    a = [1]\n  }\n}",
    );
    check(
        Format::Hcl,
        "terraform {}\n",
        json!({"op": "block", "path": "terraform", "block": "backend", "labels": ["http"], "value": {"address": "x"}}),
        "terraform {\n  backend \"http\" {\n    address = \"x\"\n  }\n}\n",
    );
}

#[test]
fn hcl_that_cannot_be_edited_is_told() {
    for (wanted, why) in [
        (json!({"op": "set", "path": "provider.aws.region", "value": 1}), "2 blocks provider"),
        (json!({"op": "set", "path": "module.dns.source", "value": 1}), "op block"),
        (json!({"op": "set", "path": "module.net", "value": {}}), "this is a block"),
        (json!({"op": "set", "path": "resource.aws_s3_bucket.logs.count.x", "value": 1}), "expression"),
        (json!({"op": "set", "path": "locals.x", "value": 1}), "neither an attribute nor a block"),
        (json!({"op": "set", "path": "[\"a = 1\\nb\"]", "value": 1}), "no name of an attribute"),
        (json!({"op": "express", "path": "module.net.source", "expression": "1\nx = 2"}), "no HCL"),
        (json!({"op": "block", "block": "a {} b", "value": {}}), "makes no block"),
        (json!({"op": "block", "block": "a", "value": {"b = 1\nc": 1}}), "makes no block"),
    ] {
        let found = done(TERRAFORM, Format::Hcl, wanted.clone());
        assert!(found.as_ref().is_err_and(|told| told.contains(why)), "{wanted}: {found:?}");
    }
    let bad = done("a = {", Format::Hcl, json!({"op": "delete", "path": "a"}));
    assert!(bad.unwrap_err().contains("no HCL: line 1"));
    let set = json!({"op": "express", "path": "a", "expression": "1"});
    assert!(done("a: 1\n", Format::Yaml, set).unwrap_err().contains("only HCL"));
}

#[test]
fn maps_and_lists_of_hcl_keep_their_layout() {
    let h = Format::Hcl;
    let append = json!({"op": "append", "path": "a", "value": "c"});
    check(h, "a = [\n  \"b\", # first\n]\n", append.clone(), "a = [\n  \"b\", # first\n  \"c\",\n]\n");
    check(h, "a = [\n  \"b\"\n]\n", append.clone(), "a = [\n  \"b\",\n  \"c\"\n]\n");
    check(h, "a = []\n", append, "a = [\"c\"]\n");
    let set = json!({"op": "set", "path": "a.c", "value": 2});
    check(h, "a = { b = 1 }\n", set.clone(), "a = { b = 1, c = 2 }\n");
    check(h, "a = {\n  b = 1,\n}\n", set.clone(), "a = {\n  b = 1,\n  c = 2,\n}\n");
    check(h, "a = {}\n", set.clone(), "a = { c = 2 }\n");
    check(h, "a = { b = 1, c = 1 }\n", set, "a = { b = 1, c = 2 }\n");
    let delete = json!({"op": "delete", "path": "a.b"});
    check(h, "a = { b = 1, c = 2 }\n", delete.clone(), "a = { c = 2 }\n");
    check(h, "a = {\n  b = 1\n  c = 2\n}\n", delete.clone(), "a = {\n  c = 2\n}\n");
    check(h, "a = { c = 2, b = 1 }\n", delete, "a = { c = 2 }\n");
    check(
        h,
        "a = [{ name = \"x\", v = 1 }]\n",
        json!({"op": "append", "path": "a", "key": "name", "value": {"name": "x", "v": 2}}),
        "a = [{ name = \"x\", v = 2 }]\n",
    );
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
