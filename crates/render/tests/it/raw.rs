//! Raw manifests and Liquid files through the public door.

use std::collections::BTreeMap;

use plural_render::{ClusterInput, Inputs, RenderError, Rendered, ServiceInput, Tree, render};
use serde_json::json;

fn inputs() -> Inputs {
    Inputs {
        folder: "app".to_owned(),
        templated: true,
        service: ServiceInput {
            id: "s-1".to_owned(),
            name: "shop".to_owned(),
            namespace: "shop-ns".to_owned(),
        },
        cluster: ClusterInput {
            id: "c-1".to_owned(),
            name: "Blue".to_owned(),
            handle: "blue".to_owned(),
            distro: "EKS".to_owned(),
            version: "1.36.2".to_owned(),
            tags: BTreeMap::from([("tier".to_owned(), "prod".to_owned())]),
            metadata: json!({"region": "eu"}),
        },
        configuration: BTreeMap::from([
            ("host".to_owned(), "shop.example.org".to_owned()),
            ("password".to_owned(), "hunter2-very-secret".to_owned()),
        ]),
        clock_ms: 1_709_208_000_000,
        seed: vec![7; 32],
    }
}

fn run(files: &[(&str, &str)]) -> Result<Rendered, RenderError> {
    let tree = Tree::from_files(files.iter().copied()).unwrap();
    render(&tree, &inputs())
}

fn names(rendered: &Rendered) -> Vec<String> {
    rendered
        .objects
        .iter()
        .map(|o| format!("{}/{} {}:{}", o.kind(), o.name(), o.origin.path, o.origin.line))
        .collect()
}

const CM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n";

#[test]
fn reads_every_manifest_in_path_order() {
    let rendered = run(&[
        ("app/z.yaml", &CM.replace("NAME", "z")),
        ("app/a/two.yml", &format!("{}---\n{}", CM.replace("NAME", "a1"), CM.replace("NAME", "a2"))),
        ("app/m.json", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}"#),
        ("app/values.yaml", "replicas: 3\nimage: {tag: x}\n"),
        ("app/README.md", "apiVersion: v1"),
        ("app/list.yaml", "- 1\n- 2\n"),
        ("other/x.yaml", "not: [valid"),
    ])
    .unwrap();
    assert_eq!(
        names(&rendered),
        [
            "ConfigMap/a1 app/a/two.yml:1",
            "ConfigMap/a2 app/a/two.yml:5",
            "ConfigMap/m app/m.json:1",
            "ConfigMap/z app/z.yaml:1"
        ]
    );
}

#[test]
fn flattens_lists() {
    let rendered = run(&[(
        "app/l.yaml",
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s}}\n---\n\
         apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: c}\n",
    )])
    .unwrap();
    assert_eq!(names(&rendered), ["Secret/s app/l.yaml:1", "ConfigMap/c app/l.yaml:6"]);
}

#[test]
fn the_first_of_duplicates_wins_and_both_places_are_told() {
    let rendered =
        run(&[("app/a.yaml", &CM.replace("NAME", "x")), ("app/b.yaml", &CM.replace("NAME", "x"))]).unwrap();
    assert_eq!(names(&rendered), ["ConfigMap/x app/a.yaml:1"]);
    assert_eq!(rendered.warnings[0].origin.path, "app/b.yaml");
    assert!(rendered.warnings[0].message.contains("app/a.yaml:1"), "{:?}", rendered.warnings);
}

#[test]
fn all_broken_files_are_named_with_their_lines() {
    let error = run(&[
        ("app/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n bad: y\n"),
        ("app/b.yaml", "apiVersion: v1\nmetadata: {name: x}\n"),
        ("app/c.yaml", "\n---\napiVersion: v1\nkind: Pod\nmetadata: {labels: {a: b}}\n"),
        ("app/d.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: d, labels: {a: 1}}\n"),
        ("app/e.yaml", "kind: ConfigMap\nmetadata: {name: d}\n"),
        ("app/ok.yaml", &CM.replace("NAME", "x")),
    ])
    .unwrap_err();
    let places: Vec<_> = error.problems().iter().map(plural_render::Problem::location).collect();
    assert_eq!(places[0].split(':').next(), Some("app/a.yaml"));
    assert_eq!(places[1..], ["app/b.yaml:1", "app/c.yaml:3", "app/d.yaml:1", "app/e.yaml:1"]);
    let text = error.to_string();
    for part in ["has no kind", "no metadata.name", "put it in quotes", "has no apiVersion"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_missing_folder_is_an_error_not_an_empty_service() {
    let error = run(&[("elsewhere/a.yaml", &CM.replace("NAME", "x"))]).unwrap_err();
    assert!(error.to_string().contains("\"app\" does not exist"), "{error}");
}

#[test]
fn liquid_sees_configuration_cluster_and_service() {
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ service.name }}-{{ cluster.handle }}\"}\ndata:\n\
        \x20 host: {{ configuration.host }}\n  tier: {{ cluster.tags.tier }}\n  region: {{ cluster.metadata.region }}\n\
        \x20 day: '{{ \"now\" | date: \"%Y-%m-%d\" }}'\n\
        {% for n in (1..3) %}  k{{ n }}: \"{{ forloop.index0 }}\"\n{% endfor %}";
    let rendered = run(&[("app/t.yaml.liquid", template)]).unwrap();
    let value = &rendered.objects[0].value;
    assert_eq!(value["metadata"]["name"], "shop-blue");
    assert_eq!(
        value["data"],
        json!({"host": "shop.example.org", "tier": "prod", "region": "eu", "day": "2024-02-29", "k1": "0", "k2": "1", "k3": "2"})
    );
}

#[test]
fn an_unknown_variable_is_an_error_without_values() {
    let error = run(&[("app/t.yaml.liquid", "{{ configuration.missing }}")]).unwrap_err().to_string();
    assert!(error.contains("app/t.yaml.liquid"), "{error}");
    assert!(error.contains("missing"), "{error}");
    let error = run(&[("app/t.yaml.liquid", "{{ configuration.password | divided_by: 0 }}")]).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    let error = run(&[("app/t.yaml.liquid", "a\nb {% if %}\n")]).unwrap_err();
    assert_eq!(error.problems()[0].line, 2, "{error}");
}

#[test]
fn no_template_runs_or_grows_without_end() {
    let doubling =
        format!("{{% assign x = 'aaaaaaaaaaaaaaaa' %}}{}", "{% assign x = x | append: x %}".repeat(60));
    let deep = format!("{}x{}", "{% if true %}".repeat(20_000), "{% endif %}".repeat(20_000));
    let brackets = format!("{{{{ a{}1{} }}}}", "[a".repeat(20_000), "]".repeat(20_000));
    for (name, template) in [
        ("range", "{% for i in (1..99999999999) %}{% endfor %}"),
        ("nested", "{% for i in (1..9999) %}{% for j in (1..9999) %}{% endfor %}{% endfor %}"),
        ("doubling", doubling.as_str()),
        ("output", "{% for i in (1..900000) %}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{% endfor %}"),
        (
            "replace",
            "{% assign a = 'aaaaaaaaaaaaaaaa' %}{% for i in (1..16) %}{% assign a = a | append: a %}{% endfor %}{{ a | replace: 'a', a }}",
        ),
        (
            "capture",
            "{% assign x = 'aaaaaaaaaaaaaaaaaaaaaaaa' %}{% capture y %}{% for i in (1..999999) %}{{ x }}{% endfor %}{% endcapture %}",
        ),
        ("deep", deep.as_str()),
        ("brackets", brackets.as_str()),
        ("number", "{{ 99999999999999999999999 }}"),
        ("include", "{% include '/etc/passwd' %}"),
    ] {
        let error = run(&[("app/t.yaml.liquid", template)]).expect_err(name);
        assert_eq!(error.problems()[0].path, "app/t.yaml.liquid", "{name}: {error}");
    }
}

#[test]
fn templates_are_left_alone_when_templating_is_off() {
    let tree = Tree::from_files([("app/t.yaml.liquid", CM.replace("NAME", "\"{{ x }}\""))]).unwrap();
    let rendered = render(&tree, &Inputs { templated: false, ..inputs() }).unwrap();
    assert_eq!(rendered.objects[0].name(), "{{ x }}");
}
