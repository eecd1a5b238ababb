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
        contexts: serde_json::Map::new(),
        imports: serde_json::Map::new(),
        clock_ms: 1_709_208_000_000,
        seed: vec![7; 32],
        rendering: plural_render::RenderingInput::default(),
        api_server: None,
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

#[test]
fn json_files_hold_one_object_after_another() {
    let two = "{\"apiVersion\":\"v1\",\n\t\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\"data\":{\"s\":\"\\ud83d\\ude00\"}}\n\
               {\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"b\"}}\nnull\n";
    let rendered = run(&[("app/two.JSON", two)]).unwrap();
    assert_eq!(names(&rendered), ["ConfigMap/a app/two.JSON:1", "ConfigMap/b app/two.JSON:3"]);
    assert_eq!(rendered.objects[0].value["data"]["s"], "😀");
    for (text, line, words) in [
        ("{\n\"a\": 1,\n\"a\": 2}", 3, "the key \"a\" appears twice"),
        ("{\n\"a\": [1,}", 2, "expected value"),
        (&"[".repeat(100_000), 1, "recursion limit"),
    ] {
        let problem = run(&[("app/x.json", text)]).unwrap_err().problems().remove(0);
        assert_eq!((problem.line, problem.path.as_str()), (line, "app/x.json"), "{problem}");
        assert!(problem.message.contains(words), "{problem}");
    }
}

#[test]
fn tpl_files_are_go_templates() {
    let template = "{{- define \"labels\" }}{app: {{ .Service.name }}}{{ end -}}\n\
        apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Service.Name }}-{{ .Cluster.Handle }}\n  labels: {{ include \"labels\" . }}\n\
        data:\n  host: {{ .Configuration.host | quote }}\n  none: {{ .Configuration.none | quote }}\n  region: {{ .Cluster.metadata.region }}\n\
        \x20 id: {{ .Cluster.ID }}\n  day: {{ now | date \"2006-01-02\" | quote }}\n  draw: {{ randAlphaNum 12 }}\n";
    let files = [
        ("app/t.yaml.tpl", template),
        ("app/_helpers.tpl", "{{ define \"x\" }}{{ end }}"),
        ("app/u.yaml.tpl", ""),
    ];
    let rendered = run(&files).unwrap();
    assert_eq!(rendered, run(&files).unwrap(), "the same on every run");
    let value = &rendered.objects[0].value;
    assert_eq!(value["metadata"], json!({"name": "shop-blue", "labels": {"app": "shop"}}));
    assert_eq!(value["data"]["host"], "shop.example.org");
    assert_eq!(value["data"]["none"], "");
    assert_eq!((&value["data"]["region"], &value["data"]["id"]), (&json!("eu"), &json!("c-1")));
    assert_eq!(value["data"]["day"], "2024-02-29");
}

#[test]
fn a_tpl_file_that_fails_names_its_line_and_no_value() {
    for (template, line, words) in [
        ("a: b\n{{ .Configuration.host", 2, "unclosed action"),
        ("a: b\n\n{{ fail (printf \"no %s\" .Configuration.password) }}", 3, "no …"),
        ("{{ .Cluster.nothing.there }}", 1, "nil pointer"),
        ("{{ range 100000000 }}{{ end }}", 0, "limit of fuel"),
        ("{{ nothing }}", 1, "function \"nothing\" not defined"),
    ] {
        let problem = run(&[("app/t.yaml.tpl", template)]).unwrap_err().problems().remove(0);
        assert_eq!(problem.line, line, "{template}: {problem}");
        assert!(problem.message.contains(words), "{template}: {problem}");
        assert!(!problem.message.contains("hunter2"), "{problem}");
    }
}

/// What Liquid makes of an expression.
fn liquid(expression: &str) -> String {
    let template = format!("{}data: {{v: \"{{{{ {expression} }}}}\"}}\n", CM.replace("NAME", "x"));
    match run(&[("app/t.yaml.liquid", &template)]) {
        Ok(rendered) => rendered.objects[0].value["data"]["v"].as_str().unwrap_or("not a text").to_owned(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn liquid_has_the_functions_of_sprig() {
    for (expression, expected) in [
        ("'hello world' | title | b64enc", "SGVsbG8gV29ybGQ="),
        ("'SGk=' | b64dec", "Hi"),
        ("'a,b' | split: ',' | last", "b"),
        ("'abc' | sha256sum | slice: 0, 8", "ba7816bf"),
        ("cluster.tags | to_json | replace: '\"', \"'\"", "{'tier':'prod'}"),
        ("'{}' | fromJson | empty", "true"),
        ("'>=1.30.0' | semver_compare: cluster.version", "true"),
        ("cluster.version | semver | get: 'Minor'", "36"),
        ("0 | default: 5", "5"),
        ("'' | default: 'x'", "x"),
        ("true | ternary: 'y', 'n'", "y"),
        ("'a' | indent: 2", "  a"),
        ("'hello' | slice: 1, 3", "el"),
        ("1 | add: 2, 3", "6"),
        ("7 | divf: 2", "3.5"),
        ("8 | divf: 2", "4"),
        ("3 | until | join: '-'", "0-1-2"),
        ("'^[a-z]+$' | regexMatch: 'abc'", "true"),
        ("'now' | date: '%Y-%m-%d'", "2024-02-29"),
        ("'2006-01-02' | date: 'now'", "2024-02-29"),
        ("'2006-01-02' | toDate: '2024-03-01' | unixEpoch", "1709251200"),
        ("'tier' | pluck: cluster.tags | first", "prod"),
        ("'camelCase' | snakecase", "camel_case"),
        ("'-' | trimPrefix: '-x'", "x"),
        ("cluster.tags | hasKey: 'tier'", "true"),
    ] {
        assert_eq!(liquid(expression), expected, "{expression}");
    }
    let draws = liquid("12 | randAlphaNum");
    assert_eq!((draws.len(), &draws), (12, &liquid("12 | randAlphaNum")));
    assert!(liquid("'ca' | genCA: 30 | get: 'Cert' | slice: 0, 27").contains("BEGIN CERTIFICATE"));
}

#[test]
fn liquid_filters_see_neither_environment_nor_network_and_end() {
    for (expression, words) in [
        ("'HOME' | env", "the filter env is refused: templates have no access to the environment"),
        ("'$HOME' | expandenv", "no access to the environment"),
        ("'localhost' | getHostByName", "no access to the network"),
        ("2000000000 | repeat: 'x'", "limit of bytes held"),
        ("2000000000 | until", "limit of bytes held"),
        ("'a' | nothing", "Unknown filter"),
        ("configuration.password | fail", "the filter fail: …"),
        ("'a' | abbrev: 'b'", "a value of type int is expected"),
        ("'a' | trim: 'b'", "too many"),
    ] {
        let found = liquid(expression);
        assert!(found.contains(words), "{expression}: {found}");
    }
    let nested = "{% for i in (1..5000) %}{% assign x = x | list %}{% endfor %}";
    let error = run(&[("app/t.yaml.liquid", &format!("{{% assign x = 'a' %}}{nested}"))]).unwrap_err();
    assert!(error.to_string().contains("nest deeper than 64"), "{error}");
    // A password that is too long to be hashed is charged like any other, and takes no time.
    let password = "a".repeat(73);
    let slow = format!("{{% for i in (1..90000) %}}{{% assign x = '{password}' | bcrypt %}}{{% endfor %}}");
    let error = run(&[("app/t.yaml.liquid", &slow)]).unwrap_err();
    assert!(error.to_string().contains("too much work"), "{error}");
}

#[test]
fn a_key_that_stands_twice_is_an_error_with_its_line() {
    let error =
        run(&[("app/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\nkind: Secret\n")]);
    let problem = error.unwrap_err().problems().remove(0);
    assert_eq!(problem.to_string(), "app/a.yaml:4: the key \"kind\" appears twice");
    // A merge key may bring what the map says itself.
    let merged = format!("{}data:\n  <<: {{a: '1', b: '2'}}\n  a: '3'\n", CM.replace("NAME", "x"));
    assert_eq!(
        run(&[("app/a.yaml", &merged)]).unwrap().objects[0].value["data"],
        json!({"a": "3", "b": "2"})
    );
}
