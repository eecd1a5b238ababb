//! The functions, by the name of their target.

use std::{collections::BTreeMap, hint::black_box};

use futures::FutureExt as _;
use plural_registry::{ChartFile, File, Files, Index, lacks_charts, unpack, unpack_chart};
use plural_render::{
    Charts, ClusterInput, Inputs, ServiceInput, Tree, TreeLimits, envsubst,
    helm::{
        ArchiveLimits, Capabilities, Chart, Limits, RenderOptions, TemplateFlags, ValueSource, render,
        template,
    },
    kustomize,
    lua::{LuaLimits, lua_values},
    render_raw, yaml,
};
use serde_json::{Map, Value, json};

use crate::doors;

/// A kind of input and what is done with it.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Of the `cargo fuzz` target and of the folder of inputs.
    pub name: &'static str,
    /// Reads an input. Returns, whatever it is.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "archive", run: archive },
    Target { name: "assertion", run: doors::assertion },
    Target { name: "chart_yaml", run: chart_yaml },
    Target { name: "envsubst", run: substitute },
    Target { name: "frames", run: doors::frames },
    Target { name: "git_address", run: doors::git_address },
    Target { name: "graphql", run: graphql },
    Target { name: "graphql_body", run: graphql_body },
    Target { name: "index_yaml", run: index_yaml },
    Target { name: "kustomization", run: kustomization },
    Target { name: "liquid", run: liquid },
    Target { name: "lua", run: lua },
    Target { name: "provenance", run: doors::provenance },
    Target { name: "proxy_target", run: doors::proxy_target },
    Target { name: "raw", run: raw },
    Target { name: "regular_expression", run: regular_expression },
    Target { name: "set_flags", run: set_flags },
    Target { name: "tar", run: tar },
    Target { name: "template", run: run_template },
    Target { name: "template_parser", run: parse_template },
    Target { name: "values", run: values },
    Target { name: "values_schema", run: values_schema },
    Target { name: "yaml", run: read_yaml },
];

const CHART: &str = "apiVersion: v2\nname: c\nversion: 1.0.0\n";
const LIMITS: Limits = Limits { fuel: 50_000, bytes: 16 << 20 };
const ARCHIVE: ArchiveLimits =
    ArchiveLimits { bytes: 8 << 20, file_bytes: 1 << 20, entries: 2_000, depth: 4, ratio: 200 };

fn read_yaml(data: &[u8]) {
    if let Ok(value) = yaml::parse(data) {
        let text = yaml::to_string(&value);
        // What is written can be read, and says the same.
        let again = yaml::parse(text.as_bytes());
        assert_eq!(again.as_ref(), Ok(&value), "written as {text:?}");
    }
}

fn raw(data: &[u8]) {
    let files = [("a.yaml", data), ("b.json", data), ("c.yaml.tpl", data)];
    render_files(&files);
}

fn liquid(data: &[u8]) {
    render_files(&[("a.yaml.liquid", data)]);
}

fn render_files(files: &[(&str, &[u8])]) {
    if let Ok(tree) = Tree::from_files(files.iter().copied()) {
        drop(black_box(render_raw(&tree, &inputs())));
    }
}

/// A packed chart, as the renderer reads one inside a source, and as it comes from a repository.
fn archive(data: &[u8]) {
    let limits = plural_registry::Limits {
        total_bytes: 8 << 20,
        file_bytes: 1 << 20,
        entries: 2_000,
        ratio: 200,
        depth: 16,
    };
    drop(black_box(unpack(data, &limits)));
    if let Ok(files) = unpack_chart(data, &limits) {
        drop(black_box(ChartFile::read(&files, "")));
    }
    if let Ok(chart) = Chart::from_archive(data, &ARCHIVE) {
        render_chart(&chart, LIMITS);
    }
}

fn tar(data: &[u8]) {
    let limits = TreeLimits { entries: 2_000, bytes: 8 << 20, path_bytes: 4096 };
    if let Ok(tree) = Tree::from_tar(data.to_vec(), &limits) {
        drop(black_box(render_raw(&tree, &inputs())));
    }
}

/// The index of a chart repository, and which version each way of asking means.
fn index_yaml(data: &[u8]) {
    if let Ok(index) = Index::parse(data) {
        for wanted in ["", "1.2.3", "1.x", "^1.2", ">=1 <3", "~0-0", "latest"] {
            drop(black_box(index.version("web", wanted).map(str::to_owned)));
        }
        black_box(index.len());
    }
}

fn chart_yaml(data: &[u8]) {
    let requirement = "name: sub\nversion: 1.0.0\n";
    chart(&[("Chart.yaml", data), ("charts/sub/Chart.yaml", requirement.as_bytes()), TOUCH], LIMITS);
}

fn values(data: &[u8]) {
    let sub = "name: sub\nversion: 1.0.0\n".as_bytes();
    let chart_yaml = format!(
        "{CHART}dependencies:\n- {{name: sub, version: 1.0.0, condition: sub.enabled, import-values: [data, {{child: a, \
         parent: b}}]}}\n"
    );
    chart(
        &[
            ("Chart.yaml", chart_yaml.as_bytes()),
            ("values.yaml", data),
            ("charts/sub/Chart.yaml", sub),
            ("charts/sub/values.yaml", data),
            TOUCH,
        ],
        LIMITS,
    );
}

fn values_schema(data: &[u8]) {
    let values = "a: 1\nb: [x, {c: null}]\ntext: some text\nd: {e: {f: 1.5}}\n".as_bytes();
    chart(
        &[("Chart.yaml", CHART.as_bytes()), ("values.yaml", values), ("values.schema.json", data), TOUCH],
        LIMITS,
    );
}

fn run_template(data: &[u8]) {
    let values = "a: text\nb: [1, 2.5, {c: null}]\nd: {e: {f: true}}\n".as_bytes();
    chart(&[("Chart.yaml", CHART.as_bytes()), ("values.yaml", values), ("templates/t.yaml", data)], LIMITS);
}

/// The parser alone: not a step is left for what it read.
fn parse_template(data: &[u8]) {
    chart(&[("Chart.yaml", CHART.as_bytes()), ("templates/t.yaml", data)], Limits { fuel: 0, ..LIMITS });
}

/// A regular expression in Go's syntax, a line break, and the text that it is tried on.
fn regular_expression(data: &[u8]) {
    let data = String::from_utf8_lossy(data);
    let (pattern, text) = data.split_once('\n').unwrap_or((&data, ""));
    // Text of any length is quoted; an expression of any length is refused.
    if text.len() > 4096 {
        return;
    }
    let values = json!({"pattern": pattern, "text": text}).to_string();
    let files = [
        ("Chart.yaml", CHART.as_bytes()),
        ("values.yaml", values.as_bytes()),
        ("templates/t.yaml", EXPRESSIONS.as_bytes()),
    ];
    let Ok(tree) = Tree::from_files(files) else { return };
    let Ok(chart) = Chart::from_tree(&tree, "", &ARCHIVE) else { return };
    let Some(rendered) = rendered(&chart, LIMITS) else { return };
    // Text matches itself, quoted, whatever is in it; and what was found is in it.
    assert!(rendered.contains("quoted: true\nfound: true\n"), "{pattern:?} on {text:?}: {rendered}");
}

const EXPRESSIONS: &str = r#"quoted: {{ regexMatch (regexQuoteMeta .Values.text) .Values.text }}
found: {{ contains (regexFind .Values.pattern .Values.text) .Values.text }}
all: {{ regexFindAll .Values.pattern .Values.text 9 | len }}
split: {{ regexSplit .Values.pattern .Values.text -1 | len }}
replaced: {{ regexReplaceAll .Values.pattern .Values.text "<$0>" | len }}
literal: {{ regexReplaceAllLiteral .Values.pattern .Values.text "$0" | len }}
"#;

/// Looks at all that there is.
const TOUCH: (&str, &[u8]) = (
    "templates/t.yaml",
    b"a: {{ .Values | toYaml | quote }}\nb: {{ .Values | toJson | sha256sum }}\nc: {{ .Chart | toYaml | quote }}\n\
      d: {{ printf \"%v\" .Subcharts | len }}\ne: {{ deepCopy .Values | len }}\n",
);

fn chart(files: &[(&str, &[u8])], limits: Limits) {
    let Ok(tree) = Tree::from_files(files.iter().copied()) else { return };
    if let Ok(chart) = Chart::from_tree(&tree, "", &ARCHIVE) {
        render_chart(&chart, limits);
    }
}

fn render_chart(chart: &Chart, limits: Limits) {
    drop(black_box(rendered(chart, limits)));
}

/// The text of a release, if the chart renders.
fn rendered(chart: &Chart, limits: Limits) -> Option<String> {
    let capabilities = Capabilities::new("1.33.0", &[]).ok()?;
    let options = RenderOptions {
        release: "demo",
        namespace: "apps",
        values: &Map::new(),
        capabilities: &capabilities,
        include_crds: true,
        skip_schema: false,
        is_upgrade: false,
        seed: b"fuzz",
        clock_ms: 0,
        lookup: None,
        limits,
    };
    render(chart, &options).ok().map(|release| release.to_text())
}

/// A GraphQL document, as somebody with and without a credential sends it, up to its execution.
fn graphql(data: &[u8]) {
    let document = String::from_utf8_lossy(data);
    graphql_body(
        json!({"query": document, "variables": {"a": 1, "b": ["x", {"c": null}]}}).to_string().as_bytes(),
    );
}

/// The same with the body around it.
fn graphql_body(data: &[u8]) {
    for has_credential in [false, true] {
        // It waits for nothing: there is no database behind it.
        drop(black_box(plural_api::prepare(data, has_credential).now_or_never()));
    }
}

/// The flags that give values, one for each line: kind, blank, text.
fn set_flags(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let values = text
        .lines()
        .filter_map(|line| {
            let (kind, value) = line.split_once(' ')?;
            let value = value.to_owned();
            Some(match kind {
                "set" => ValueSource::Set(value),
                "string" => ValueSource::SetString(value),
                "json" => ValueSource::SetJson(value),
                "literal" => ValueSource::SetLiteral(value),
                "file" => ValueSource::SetFile(value, "content".to_owned()),
                _ => ValueSource::File(value.into_bytes()),
            })
        })
        .collect();
    let files = [("Chart.yaml", CHART.as_bytes()), TOUCH];
    let Ok(tree) = Tree::from_files(files) else { return };
    if let Ok(chart) = Chart::from_tree(&tree, "", &ARCHIVE) {
        drop(black_box(template(&chart, &TemplateFlags { values, ..TemplateFlags::default() })));
    }
}

fn kustomization(data: &[u8]) {
    let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  template:\n    spec:\n      \
               containers:\n      - name: web\n        image: nginx:1\n        env:\n        - {name: A, value: $(B)}\n";
    let files: [(&str, &[u8]); 7] = [
        ("app/kustomization.yaml", data),
        ("app/web.yaml", web.as_bytes()),
        ("app/any.yaml", data),
        ("app/config.txt", b"a=b\nc=d\n"),
        ("base/kustomization.yaml", b"resources: [map.yaml]\nnamePrefix: base-\n"),
        ("base/map.yaml", b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {a: b}\n"),
        ("component/kustomization.yaml", data),
    ];
    let content = |data: &[u8]| File { content: data.to_vec(), executable: false };
    let fetched: Files = files.iter().map(|(path, data)| ((*path).to_owned(), content(data))).collect();
    black_box(lacks_charts(&fetched));
    let Ok(tree) = Tree::from_files(files) else { return };
    let charts = Charts { tree: &tree, seed: b"fuzz", clock_ms: 0 };
    let limits = kustomize::Limits {
        fuel: 500_000,
        held_bytes: 32 << 20,
        output_bytes: 8 << 20,
        ..kustomize::Limits::default()
    };
    let options = kustomize::Options { helm: Some(&charts), limits, ..kustomize::Options::default() };
    if let Ok(built) = kustomize::build(&tree, "app", &options) {
        black_box(built.objects());
    }
}

fn lua(data: &[u8]) {
    let Ok(tree) = Tree::from_files([("app/values.yaml", "a: 1\n"), ("app/x/y.txt", "text")]) else { return };
    let limits = LuaLimits { steps: 200_000, memory_bytes: 8 << 20, stop: None };
    let inputs = Inputs { folder: "app".to_owned(), ..inputs() };
    let script = String::from_utf8_lossy(data).into_owned();
    drop(black_box(lua_values(&tree, &inputs, &[("values.lua".to_owned(), script)], limits)));
}

fn substitute(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let values = [("A", "value"), ("B", "${A}"), ("C", "")];
    let values = values.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    drop(black_box(envsubst(text, &values)));
}

fn inputs() -> Inputs {
    Inputs {
        folder: String::new(),
        templated: true,
        service: ServiceInput { id: "s".to_owned(), name: "web".to_owned(), namespace: "apps".to_owned() },
        cluster: ClusterInput {
            handle: "blue".to_owned(),
            version: "1.33.0".to_owned(),
            metadata: Value::Null,
            ..ClusterInput::default()
        },
        configuration: BTreeMap::from([("host".to_owned(), "web.example.com".to_owned())]),
        contexts: serde_json::Map::new(),
        imports: serde_json::Map::new(),
        clock_ms: 0,
        seed: b"fuzz".to_vec(),
        rendering: plural_render::RenderingInput::default(),
        api_server: None,
    }
}
