//! Whole automations, in the shapes of public catalogues.

use plural_core::form::Known;
use plural_scaffold::{files::File, run};
use serde_json::{Value, json};

use super::{request, text};

/// An automation that makes a values file, a service and a stack below folders of the repository.
fn application(name: &str, clouds: &[&str]) -> Value {
    json!({
        "title": format!("Set up {name} on {{{{ context.cluster }}}}"),
        "message": format!("Plural Service: {{{{ context.cluster }}}}/{name}"),
        "configuration": [
            {"name": "cluster", "type": "CLUSTER"},
            {"name": "hostname", "type": "STRING", "validation": {"regex": "^[a-z.-]+$"}},
            {"name": "cloud", "type": "ENUM", "values": clouds, "default": clouds[0]},
            {"name": "replicas", "type": "INT", "default": "1"},
            {"name": "database", "type": "BOOL", "default": "true"},
        ],
        "creates": {"templates": [
            {"source": "helm", "destination": format!("helm/{name}/{{{{ context.cluster }}}}"), "external": true},
            {"source": "terraform/{{ context.cloud }}", "destination": format!("terraform/apps/{name}"), "external": true, "condition": "context.database"},
            {"source": "service.yaml", "destination": format!("bootstrap/apps/{name}/service.yaml"), "external": true, "context": {"app": name}},
        ]},
        "updates": {"yamlOverlays": [
            {"file": "bootstrap/kustomization.yaml", "yaml": format!("resources:\n- apps/{name}\n"), "listMerge": "APPEND"},
        ]},
    })
}

const TEMPLATES: &[(&str, &str)] = &[
    ("helm/values.yaml", "replicas: {{ context.replicas }}\nhost: {{ context.hostname | quote }}\n"),
    ("terraform/aws/main.tf", "provider \"aws\" {}\n"),
    ("terraform/gcp/main.tf", "provider \"google\" {}\n"),
    ("terraform/azure/main.tf", "provider \"azurerm\" {}\n"),
    ("service.yaml", "name: {{ context.app }}\ncluster: {{ context.cluster }}\n"),
];
const REPOSITORY: &[(&str, &str)] = &[
    ("bootstrap/kustomization.yaml", "# what is deployed\nresources:\n- base # first\n"),
    ("README.md", "hi\n"),
];

#[test]
fn applications_of_catalogues_are_set_up() {
    let applications = [
        ("airbyte", "aws"),
        ("airflow", "aws"),
        ("dagster", "gcp"),
        ("mlflow", "aws"),
        ("n8n", "azure"),
        ("mysql", "gcp"),
        ("postgres", "azure"),
        ("elastic", "aws"),
        ("grafana", "aws"),
        ("kubecost", "aws"),
        ("opencost", "aws"),
        ("netobserv", "aws"),
        ("opentelemetry", "gcp"),
        ("prometheus", "aws"),
        ("tempo", "aws"),
        ("aws-load-balancer-controller", "aws"),
        ("cert-manager", "aws"),
        ("external-dns", "gcp"),
        ("ingress-nginx", "azure"),
        ("gatekeeper", "aws"),
        ("trivy-operator", "aws"),
    ];
    for (name, cloud) in applications {
        let answers =
            json!({"cluster": "blue", "hostname": "app.example.com", "cloud": cloud, "replicas": "3"});
        let mut asked = request(application(name, &["aws", "gcp", "azure"]), answers, REPOSITORY, TEMPLATES);
        asked.known = Some(Known { clusters: ["blue".to_owned()].into(), ..Known::default() });
        let outcome = run(&asked).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(outcome.title, format!("Set up {name} on blue"));
        assert_eq!(outcome.message, format!("Plural Service: blue/{name}"));
        assert_eq!(
            text(&outcome, &format!("helm/{name}/blue/values.yaml")),
            "replicas: 3\nhost: \"app.example.com\"\n"
        );
        assert!(text(&outcome, &format!("terraform/apps/{name}/main.tf")).starts_with("provider"));
        assert_eq!(
            text(&outcome, &format!("bootstrap/apps/{name}/service.yaml")),
            format!("name: {name}\ncluster: blue\n")
        );
        assert_eq!(
            text(&outcome, "bootstrap/kustomization.yaml"),
            format!("# what is deployed\nresources:\n- base # first\n- apps/{name}\n")
        );
        assert_eq!(outcome.changes.len(), 4);
        asked.answers.insert("database".to_owned(), json!(false));
        let outcome = run(&asked).unwrap();
        assert_eq!(outcome.skipped, [format!("terraform/apps/{name}")]);
        assert_eq!(outcome.changes.len(), 3);
    }
}

fn check(automation: Value, answers: Value, tree: &[(&str, &str)], expected: &[(&str, Option<&str>)]) {
    let outcome = run(&request(automation, answers, tree, &[])).unwrap();
    let changed: Vec<&str> = outcome.changes.keys().map(String::as_str).collect();
    assert_eq!(changed, expected.iter().map(|(path, _)| *path).collect::<Vec<_>>());
    for (path, content) in expected {
        match content {
            Some(content) => assert_eq!(text(&outcome, path), *content, "{path}"),
            None => assert_eq!(outcome.changes[*path], None, "{path}"),
        }
    }
}

#[test]
fn a_fleet_is_upgraded() {
    let automation = json!({
        "configuration": [{"name": "version", "validation": {"regex": "^1\\.[0-9]+$"}}],
        "updates": {"regexReplacements": [{"file": "clusters/blue.yaml", "regex": "version: .*", "replacement": "version: {{ context.version }}"}]},
    });
    check(
        automation,
        json!({"version": "1.33"}),
        &[("clusters/blue.yaml", "a: 1\nversion: 1.32\n")],
        &[("clusters/blue.yaml", Some("a: 1\nversion: 1.33\n"))],
    );
}

#[test]
fn a_cluster_is_deleted() {
    let automation = json!({
        "configuration": [{"name": "name"}],
        "deletes": {"files": ["bootstrap/{{ context.name }}-*.yaml", "**/{{ context.name }}.{tf,md}"], "folders": ["clusters/{{ context.name }}"]},
    });
    let tree = [
        ("bootstrap/blue-a.yaml", "x"),
        ("bootstrap/deep/blue-b.yaml", "x"),
        ("clusters/blue/x/y", "x"),
        ("clusters/bluer/z", "x"),
        ("docs/blue.md", "x"),
        ("tf/a/blue.tf", "x"),
    ];
    check(
        automation,
        json!({"name": "blue"}),
        &tree,
        &[
            ("bootstrap/blue-a.yaml", None),
            ("clusters/blue/x/y", None),
            ("docs/blue.md", None),
            ("tf/a/blue.tf", None),
        ],
    );
}

#[test]
fn old_regexes_replace_in_files_that_match() {
    let tree = [("a/x.yaml", "image: web:1\nimage: api:1\n"), ("b/x.yaml", "image: web:1\n")];
    for (strategy, regexes, expected) in [
        ("any", json!(["web:[0-9]+"]), "image: web:2\nimage: api:1\n"),
        ("all", json!(["web:[0-9]+"]), "image: web:2\nimage: api:1\n"),
        ("recursive", json!(["image: web:[0-9]+", "web:[0-9]+"]), "image: web:2\nimage: api:1\n"),
    ] {
        let automation = json!({"updates": {"files": ["^a/.*[.]yaml$"], "regexes": regexes, "replaceTemplate": "web:2", "matchStrategy": strategy}});
        check(automation, json!({}), &tree, &[("a/x.yaml", Some(expected))]);
    }
}

#[test]
fn a_context_of_one_template_does_not_leak() {
    let automation = json!({"creates": {"templates": [
        {"source": "in", "destination": "one", "context": {"v": "1"}},
        {"source": "in", "destination": "two", "context": {"w": "2"}},
    ]}});
    let tree =
        [("in", "{% if context.v %}{{ context.v }}{% endif %}{% if context.w %}{{ context.w }}{% endif %}")];
    check(automation, json!({}), &tree, &[("one", Some("1")), ("two", Some("2"))]);
}

#[test]
fn lists_are_merged_by_key() {
    let automation = json!({"updates": {"yamlOverlays": [
        {"file": "v.yaml", "listKey": "name", "yaml": "env:\n- name: B\n  value: '3'\n- name: C\n  value: '4'\n"},
    ]}});
    check(
        automation,
        json!({}),
        &[("v.yaml", "env:\n  # first\n  - name: A\n    value: '1'\n  - name: B # second\n    value: '2'\n")],
        &[(
            "v.yaml",
            Some(
                "env:\n  # first\n  - name: A\n    value: '1'\n  - name: B # second\n    value: '3'\n  - name: C\n    value: \"4\"\n",
            ),
        )],
    );
}

#[test]
fn a_script_adds_to_context_and_automation() {
    let script = "context.region = string.upper(context.cloud)\n\
                  local base = require('encoding').yamlDecode(require('fs').read('base.yaml'))\n\
                  context.size = base.size\n\
                  prAutomation = {creates = {templates = {{source = 'in', destination = context.cloud .. '.txt'}}}}\n";
    let automation = json!({"configuration": [{"name": "cloud"}], "lua": {"script": script}});
    check(
        automation,
        json!({"cloud": "aws"}),
        &[("in", "{{ context.region }} {{ context.size }}"), ("base.yaml", "size: 3\n")],
        &[("aws.txt", Some("AWS 3"))],
    );
}

#[test]
fn scripts_of_a_folder_run_in_order() {
    let automation =
        json!({"lua": {"folder": "lua"}, "creates": {"templates": [{"source": "in", "destination": "out"}]}});
    let tree = [
        ("in", "{{ context.x }}"),
        ("lua/b.lua", "context.x = context.x .. 'b'"),
        ("lua/a.lua", "context.x = 'a'"),
    ];
    check(automation, json!({}), &tree, &[("out", Some("ab"))]);
}

#[test]
fn an_answer_alone_keeps_its_type() {
    let automation = json!({
        "configuration": [{"name": "n", "type": "INT"}, {"name": "who"}],
        "updates": {"edits": [
            {"file": "c.json", "edit": {"op": "merge", "value": {"n": "{{ context.n }}", "s": "n={{ context.n }}"}}},
            {"file": "c.toml", "edit": {"op": "set", "path": "owners.{{ context.who }}", "value": true}},
        ]},
    });
    check(
        automation,
        json!({"n": 5, "who": "a.b"}),
        &[("c.json", "{\n  \"a\": 1\n}\n"), ("c.toml", "x = 1\n\n[owners]\ny = true\n")],
        &[
            ("c.json", Some("{\n  \"a\": 1,\n  \"n\": 5,\n  \"s\": \"n=5\"\n}\n")),
            ("c.toml", Some("x = 1\n\n[owners]\ny = true\n\"a.b\" = true\n")),
        ],
    );
}

#[test]
fn a_script_checks_values_against_a_schema() {
    let schema = r#"{"type": "object", "required": ["size"], "properties": {"size": {"type": "integer", "minimum": 1}}}"#;
    let script = "local encoding = require('encoding')\n\
                  local good, none = encoding.jsonSchema({size = 3}, 'schema.json')\n\
                  local bad, why = encoding.jsonSchema({size = 0}, './schema.json')\n\
                  local lost, told = encoding.jsonSchema({}, 'none.json')\n\
                  local out, outside = encoding.jsonSchema({}, '../schema.json')\n\
                  context.said = {tostring(good), tostring(none), tostring(bad), why, tostring(lost), told, tostring(out), outside}\n";
    let automation = json!({
        "lua": {"script": script},
        "creates": {"templates": [{"source": "in", "destination": "out"}]},
    });
    let outcome = run(&request(
        automation,
        json!({}),
        &[("in", "{{ context.said | join: '|' }}"), ("schema.json", schema)],
        &[],
    ))
    .unwrap();
    let said: Vec<&str> = text(&outcome, "out").split('|').collect();
    assert_eq!(said[..3], ["true", "nil", "false"]);
    assert!(said[3].contains("at '/size'"), "{said:?}");
    assert!(said[4] == "false" && said[5].contains("none.json does not exist"), "{said:?}");
    assert!(said[6] == "false" && said[7].contains("outside"), "{said:?}");
}

/// A chart as a registry has it: a gzipped tar with all below a folder of its name.
pub(super) fn chart(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

#[test]
fn a_chart_is_unpacked_and_what_is_beside_it_stays() {
    let automation = json!({
        "configuration": [{"name": "app"}],
        "vendor": {"helm": {"url": "https://charts.example.com", "chart": "web", "version": "1.2.3", "destination": "charts/{{ context.app }}"}},
        "updates": {"edits": [{"file": "charts/{{ context.app }}/values.yaml", "edit": {"op": "set", "path": "replicas", "value": 2}}]},
    });
    let mut asked = request(
        automation,
        json!({"app": "shop"}),
        &[("charts/shop/values.yaml", "old: 1\n"), ("charts/shop/own.yaml", "own: 1\n")],
        &[],
    );
    assert!(super::refused(&asked).contains("the chart web 1.2.3 was not fetched"));
    let chart = chart(&[
        ("web/Chart.yaml", "name: web\nversion: 1.2.3\n"),
        ("web/values.yaml", "# of the chart\nreplicas: 1\n"),
        ("web/templates/web.yaml", "kind: {{ .Values.kind }}\n"),
    ]);
    asked.chart = Some(File { bytes: chart, executable: false });
    let outcome = run(&asked).unwrap();
    let changed: Vec<&str> = outcome.changes.keys().map(String::as_str).collect();
    assert_eq!(
        changed,
        ["charts/shop/Chart.yaml", "charts/shop/templates/web.yaml", "charts/shop/values.yaml"]
    );
    // A template of a chart is none of the automation's.
    assert_eq!(text(&outcome, "charts/shop/templates/web.yaml"), "kind: {{ .Values.kind }}\n");
    assert_eq!(text(&outcome, "charts/shop/values.yaml"), "# of the chart\nreplicas: 2\n");
    asked.chart = Some(File { bytes: b"no archive".to_vec(), executable: false });
    assert!(super::refused(&asked).contains("the chart is no gzip"));
}
