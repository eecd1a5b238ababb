use serde_json::json;

use super::*;

/// A change as a plan holds it, with nothing that is sensitive.
fn change(actions: &[&str], before: &Value, after: &Value) -> Value {
    json!({"actions": actions, "before": before, "after": after, "before_sensitive": {}, "after_sensitive": {}})
}

fn resource(address: &str, change: &Value) -> Value {
    json!({
        "address": address, "mode": "managed", "type": "local_file",
        "provider_name": "registry.opentofu.org/hashicorp/local", "change": change,
    })
}

fn found(drift: &[Value]) -> DriftFound {
    let plan = json!({"format_version": "1.2", "resource_changes": [], "resource_drift": drift});
    DriftFound::of(StackTool::Terraform, Some(plan.to_string().as_bytes()), "").unwrap()
}

/// The fields of the only resource, each as "path: before -> after".
fn fields(change: &Value) -> Vec<String> {
    let found = found(&[resource("a.b", change)]);
    let [resource] = found.resources.as_slice() else { panic!("{found:?}") };
    let told = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    let line = |field: &DriftField| {
        let DriftField { path, before, after, sensitive, cut: _ } = field;
        if *sensitive {
            assert_eq!((before, after), (&None, &None));
            return format!("{path}: hidden");
        }
        format!("{path}: {} -> {}", told(before), told(after))
    };
    resource.fields.iter().map(line).collect()
}

#[test]
fn what_happened_to_each_resource_is_told() {
    let moved = json!({
        "address": "a.new", "previous_address": "a.old", "type": "local_file",
        "change": change(&["no-op"], &json!({"id": 1}), &json!({"id": 1})),
    });
    let found = found(&[
        resource("a.changed", &change(&["update"], &json!({"content": "x"}), &json!({"content": "y"}))),
        resource("a.gone", &change(&["delete"], &json!({"content": "x"}), &Value::Null)),
        moved,
    ]);
    let told: Vec<_> =
        found.resources.iter().map(|it| (it.address.as_str(), it.action, it.fields.len())).collect();
    assert_eq!(told, [("a.changed", DriftAction::Updated, 1), ("a.gone", DriftAction::Deleted, 0)]);
    let first = &found.resources[0];
    assert_eq!(
        (first.kind.as_str(), first.provider.as_str()),
        ("local_file", "registry.opentofu.org/hashicorp/local")
    );
    assert_eq!(found.left_out, 0);
}

#[test]
fn a_moved_resource_that_also_drifted_has_its_new_address() {
    let mut moved = resource("a.new", &change(&["update"], &json!({"id": 1}), &json!({"id": 2})));
    moved["previous_address"] = json!("a.old");
    let mut deposed = resource("a.new", &change(&["delete"], &json!({"id": 0}), &Value::Null));
    deposed["deposed"] = json!("8675309");
    let found = found(&[moved, deposed]);
    let addresses: Vec<_> = found.resources.iter().map(|it| it.address.as_str()).collect();
    assert_eq!(addresses, ["a.new", "a.new (deposed 8675309)"]);
}

#[test]
fn fields_are_told_by_where_they_are() {
    let before = json!({
        "same": 1, "name": "old", "gone": true, "tags": {"team": "a", "a.b": 1},
        "rule": [{"port": 80}, {"port": 443}], "list": [1, 2], "empty": [], "null": null,
    });
    let after = json!({
        "same": 1, "name": "new", "tags": {"team": "b", "a.b": 2},
        "rule": [{"port": 81}, {"port": 443}], "list": [1], "null": {},
    });
    assert_eq!(
        fields(&change(&["update"], &before, &after)),
        [
            "empty: [] -> none",
            "gone: true -> none",
            "list[1]: 2 -> none",
            "name: \"old\" -> \"new\"",
            "null: none -> {}",
            "rule[0].port: 80 -> 81",
            "tags[\"a.b\"]: 1 -> 2",
            "tags.team: \"a\" -> \"b\"",
        ]
    );
}

#[test]
fn what_is_sensitive_is_told_by_its_place_alone() {
    let of = |before: Value, after: Value, mask_before: Value, mask_after: Value| {
        fields(&json!({
            "actions": ["update"], "before": before, "after": after,
            "before_sensitive": mask_before, "after_sensitive": mask_after,
        }))
    };
    assert_eq!(
        of(
            json!({"a": "s3cret-1", "b": [{"c": "s3cret-2", "d": 1}], "e": "s3cret-3"}),
            json!({"a": "s3cret-4", "b": [{"c": "s3cret-5", "d": 2}], "e": "s3cret-3"}),
            json!({"a": true, "b": [{"c": true}], "e": true}),
            json!({"a": true, "b": [{"c": true}], "e": true}),
        ),
        ["a: hidden", "b[0].c: hidden", "b[0].d: 1 -> 2"]
    );
    // It is enough that one side is.
    assert_eq!(of(json!({"a": 1}), json!({"a": 2}), json!({}), json!({"a": true})), ["a: hidden"]);
    // A mask of parts does not fit a value of another kind, or of another length.
    let parts = json!({"a": {"b": true}});
    assert_eq!(
        of(json!({"a": {"b": "s3cret"}}), json!({"a": "s3cret"}), parts.clone(), json!({})),
        ["a: hidden"]
    );
    assert_eq!(
        of(json!({"a": ["s3cret", 1]}), json!({"a": ["s3cret"]}), json!({"a": [true]}), json!({})),
        ["a: hidden"]
    );
    assert_eq!(of(json!({"a": {"b": "s3cret"}}), json!({"a": null}), parts, json!({})), ["a.b: hidden"]);
    // Without a mask nobody knows.
    assert_eq!(
        fields(&json!({"actions": ["update"], "before": {"a": "s3cret"}, "after": {"a": 1}})),
        [": hidden"]
    );
}

#[test]
fn much_is_cut_and_what_is_left_out_is_counted() {
    let many = |value: u64| Value::Object((0..60).map(|at| (format!("f{at:02}"), json!(value))).collect());
    let found_fields = found(&[resource("a.b", &change(&["update"], &many(1), &many(2)))]);
    let only = &found_fields.resources[0];
    assert_eq!((only.fields.len(), only.left_out), (MAX_FIELDS, 10));

    let long = |letter: &str| json!({"text": letter.repeat(5000)});
    let found_long = found(&[resource("a.b", &change(&["update"], &long("ä"), &long("b")))]);
    let field = &found_long.resources[0].fields[0];
    assert!(field.cut && field.before.as_ref().unwrap().len() <= MAX_VALUE);

    let every = |at: usize| {
        let name = if at == 0 { "x".repeat(2000) } else { format!("a.r{at}") };
        resource(&name, &change(&["delete"], &json!({}), &Value::Null))
    };
    let found_many = found(&(0..MAX_RESOURCES + 11).map(every).collect::<Vec<_>>());
    assert_eq!((found_many.resources.len(), found_many.left_out), (MAX_RESOURCES, 11));
}

#[test]
fn what_is_no_plan_says_nothing_of_drift() {
    for (json, told) in [
        (None, "left no plan"),
        (Some("s3cret"), "no JSON"),
        (Some("{}"), "none of Terraform"),
        (Some("[]"), "none of Terraform"),
    ] {
        let error =
            DriftFound::of(StackTool::Terragrunt, json.map(str::as_bytes), "").unwrap_err().to_string();
        assert!(error.contains(told) && !error.contains("s3cret"), "{error}");
    }
    assert_eq!(found(&[]), DriftFound::default());
}

#[test]
fn the_text_of_other_tools_names_resources() {
    let text = "TASK [x]\nPLAY RECAP ***\nweb-1 : ok=3 changed=2 unreachable=0\nweb-2    : ok=3  changed=0\n";
    let found = DriftFound::of(StackTool::Ansible, None, text).unwrap();
    let told: Vec<_> = found.resources.iter().map(|it| (it.address.as_str(), it.left_out)).collect();
    assert_eq!(told, [("web-1", 2)]);

    let text = "  pulumi:pulumi:Stack: (same)\n    [urn=urn:pulumi:dev::p::pulumi:pulumi:Stack::p-dev]\n    \
                ~ aws:s3/bucket:Bucket: (update)\n        [id=a]\n        \
                [urn=urn:pulumi:dev::p::app:Site$aws:s3/bucket:Bucket::logs]\n    - random:index/randomPet:RandomPet: (delete)\n        \
                [urn=urn:pulumi:dev::p::random:index/randomPet:RandomPet::cat]\nResources:\n    ~ 1 to update\n";
    let found = DriftFound::of(StackTool::Pulumi, None, text).unwrap();
    let told: Vec<_> =
        found.resources.iter().map(|it| (it.kind.as_str(), it.provider.as_str(), it.action)).collect();
    assert_eq!(
        told,
        [
            ("aws:s3/bucket:Bucket", "aws", DriftAction::Updated),
            ("random:index/randomPet:RandomPet", "random", DriftAction::Deleted),
        ]
    );

    let text =
        "looking\ndrift: updated bucket logs\ndrift: deleted vm-1\ndrift: eaten vm-2\ndrift: updated\n";
    let found = DriftFound::of(StackTool::Custom, None, text).unwrap();
    let told: Vec<_> = found.resources.iter().map(|it| (it.address.as_str(), it.action)).collect();
    assert_eq!(told, [("bucket logs", DriftAction::Updated), ("vm-1", DriftAction::Deleted)]);
}
