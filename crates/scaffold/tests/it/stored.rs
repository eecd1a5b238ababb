//! What the console stores of an automation is what the engine takes: no field is lost or means something else on the way.

use plural_core::pr_automation_spec::PrAutomationSpec;
use plural_scaffold::automation::Automation;
use serde_json::{Value, json};

use super::{request, run, text};

fn stored(document: &Value) -> Value {
    let spec: PrAutomationSpec = serde_json::from_value(document.clone()).unwrap();
    spec.check(true).unwrap();
    serde_json::to_value(&spec).unwrap()
}

#[test]
fn every_field_of_an_automation_reaches_the_engine() {
    let document = json!({
        "title": "Add {{ context.name }}", "message": "Adds it", "git": {"ref": "main", "folder": "", "files": []},
        "configuration": [
            {"name": "kind", "type": "ENUM", "values": ["web", "job"], "default": "web"},
            {"name": "port", "type": "INT", "optional": true, "default": "80",
             "condition": {"field": "kind", "operation": "EQ", "value": "web"}},
            {"name": "name", "type": "STRING", "validation": {"regex": "^[a-z]+$", "json": false, "uniqBy": {"scope": "CLUSTER"}}},
            {"name": "flow", "type": "FLOW", "optional": true},
            {"name": "secret", "type": "PASSWORD", "optional": true},
        ],
        "creates": {"templates": [
            {"source": "a", "destination": "b", "external": true, "context": {"a": [1]}, "verbatim": ["name"],
             "condition": "kind == 'web'"},
        ]},
        "updates": {
            "regexReplacements": [{"file": "a", "regex": "b(.)", "replacement": "$1", "templated": true}],
            "yamlOverlays": [
                {"file": "a.yaml", "yaml": "a: 1", "templated": true, "listMerge": "APPEND"},
                {"file": "b.yaml", "yaml": "a: 1", "listKey": "name", "document": {"index": 1, "kind": "Service", "name": "web"}},
            ],
            "edits": [
                {"file": "a.yaml", "document": {"kind": "Service"}, "edit": {"op": "set", "path": "a[\"b.c\"][x=y][0]", "value": [1, "{{ context.name }}"]}},
                {"file": "a", "format": "toml", "edit": {"op": "delete", "path": "a.{{ context.name }}"}},
                {"file": "a.json", "edit": {"op": "merge", "value": {"a": null}, "lists": "APPEND", "key": "name"}},
                {"file": "a.json", "edit": {"op": "append", "path": "a", "value": 1, "key": "name"}},
                {"file": "a.tf", "edit": {"op": "express", "path": "a.b", "expression": "var.x"}},
                {"file": "a.tf", "edit": {"op": "block", "path": "a", "block": "b", "labels": ["c"], "value": {"d": true}}},
            ],
            "regexes": ["x"], "files": ["y"], "replaceTemplate": "z", "matchStrategy": "RECURSIVE", "yq": ".",
        },
        "deletes": {"files": ["*.old"], "folders": ["gone"]},
        "vendor": {"helm": {"url": "oci://example.com/charts", "chart": "redis", "version": "1.0.0", "destination": "charts"}},
        "lua": {"folder": "scripts", "external": true},
    });
    let as_written: Automation = serde_json::from_value(document.clone()).unwrap();
    let as_stored: Automation = serde_json::from_value(stored(&document)).unwrap();
    assert_eq!(as_stored, as_written);
    assert_eq!(as_written.configuration.len(), 5);
}

#[test]
fn what_is_stored_runs() {
    let document = json!({
        "documentation": "Adds a service.", "labels": ["infra"], "identifier": "acme/shop", "branch": "main",
        "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}",
        "configuration": [
            {"name": "name", "type": "STRING"},
            {"name": "replicas", "type": "INT", "default": "3", "optional": true},
        ],
        "creates": {"templates": [{"source": "service.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false}]},
    });
    let tree = [("service.yaml", "replicas: {{ context.replicas }}\n")];
    let outcome = run(&request(stored(&document), json!({"name": "web"}), &tree, &[])).unwrap();
    assert_eq!(outcome.title, "Add web");
    assert_eq!(text(&outcome, "apps/web.yaml"), "replicas: 3\n");
}
