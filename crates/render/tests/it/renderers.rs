//! How a service is rendered, where that is said outside of its folder.

use plural_render::{
    ApiServer, ChartAsked, ClusterInput, CommandPort, HelmInput, Inputs, KustomizeInput, Ports, RenderError,
    Rendered, RendererInput, RendererKind, RenderingInput, ServiceInput, Tree, helm::LookupPort, render_with,
};
use serde_json::{Value, json};

fn inputs(folder: &str, rendering: RenderingInput) -> Inputs {
    Inputs {
        folder: folder.to_owned(),
        templated: true,
        service: ServiceInput { id: "1".to_owned(), name: "web".to_owned(), namespace: "shop".to_owned() },
        cluster: ClusterInput {
            handle: "blue".to_owned(),
            version: "v1.36.2".to_owned(),
            ..ClusterInput::default()
        },
        configuration: [("replicas".to_owned(), "3".to_owned())].into(),
        contexts: serde_json::Map::new(),
        imports: serde_json::Map::new(),
        clock_ms: 1_700_000_000_000,
        seed: vec![7; 32],
        rendering,
        api_server: None,
    }
}

fn run(folder: &str, files: &[(&str, &str)], rendering: RenderingInput) -> Result<Rendered, RenderError> {
    let tree = Tree::from_files(files.iter().copied()).unwrap();
    render_with(&tree, &inputs(folder, rendering), Ports::default())
}

fn renderers(list: impl IntoIterator<Item = (&'static str, RendererKind)>) -> RenderingInput {
    let renderers = list.into_iter().map(|(path, kind)| RendererInput { path: path.to_owned(), kind });
    RenderingInput { renderers: renderers.collect(), ..RenderingInput::default() }
}

fn helm(helm: HelmInput) -> RenderingInput {
    RenderingInput { helm, ..RenderingInput::default() }
}

/// `kind/name` of each object.
fn names(rendered: &Rendered) -> Vec<String> {
    rendered.objects.iter().map(|object| format!("{}/{}", object.kind(), object.name())).collect()
}

fn refused(outcome: Result<Rendered, RenderError>) -> String {
    outcome.unwrap_err().to_string()
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ";

/// A chart that shows its values, and what it is told of the release.
const CHART: &[(&str, &str)] = &[
    ("c/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
    ("c/values.yaml", "order: [chart]\na: chart\nb: {p: chart, q: chart}\n"),
    (
        "c/templates/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  a: {{ .Values.a | quote }}\n  b: {{ toJson .Values.b | quote }}\n  all: {{ toJson .Values | quote }}\n",
    ),
    (
        "c/templates/hook.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: pre-install}\n",
    ),
    (
        "c/crds/crd.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: a.b\n",
    ),
];

fn chart_with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    CHART.iter().copied().chain(more.iter().copied()).collect()
}

fn data(rendered: &Rendered) -> Value {
    rendered
        .objects
        .iter()
        .find(|object| object.name() != "hook" && object.kind() == "ConfigMap")
        .unwrap()
        .value["data"]
        .clone()
}

/// Each layer sets `a`, and in `b` a key of its own: the last that is given wins, the others' keys stay.
#[test]
fn values_win_in_their_order() {
    let files = chart_with(&[
        ("c/values.yaml.liquid", "a: liquid-{{ cluster.handle }}\nb: {liquid: 1}\n"),
        ("c/one.yaml", "a: one\nb: {one: 1}\n"),
        ("c/two.yaml.liquid", "a: two-{{ configuration.replicas }}\nb: {two: 1}\n"),
        ("c/three.yaml.tpl", "a: three-{{ .Configuration.replicas }}\nb: {three: 1}\n"),
        ("c/script.yaml", "a: script\nb: {script: 1}\n"),
        ("c/values.yaml.static", "a: static\nb: {static: 1}\n"),
    ]);
    let without_static: Vec<_> =
        files.iter().copied().filter(|(path, _)| !path.ends_with(".static")).collect();
    let mut given = HelmInput::default();
    let a = |files: &[(&str, &str)], given: &HelmInput| {
        data(&run("c", files, helm(given.clone())).unwrap())["a"].as_str().unwrap().to_owned()
    };
    assert_eq!(a(CHART, &given), "chart");
    assert_eq!(a(&without_static, &given), "liquid-blue");
    given.values_files = vec!["one.yaml".to_owned(), "two.yaml.liquid".to_owned()];
    assert_eq!(a(&without_static, &given), "two-3");
    given.values_files.push("three.yaml.tpl".to_owned());
    assert_eq!(a(&without_static, &given), "three-3");
    given.lua_script = Some("valuesFiles = {'script.yaml'}".to_owned());
    assert_eq!(a(&without_static, &given), "script");
    given.values = Some("a: inline\nb: {inline: 1}".to_owned());
    assert_eq!(a(&without_static, &given), "inline");
    assert_eq!(a(&files, &given), "static");
    given.set = Some(("a".to_owned(), "set".to_owned()));
    assert_eq!(a(&files, &given), "set");
    given.lua_script = Some("valuesFiles = {'script.yaml'}\nvalues = {a = 'lua', b = {lua = 1}}".to_owned());
    assert_eq!(a(&files, &given), "lua");
    let all = data(&run("c", &files, helm(given)).unwrap());
    let b: Value = serde_json::from_str(all["b"].as_str().unwrap()).unwrap();
    assert_eq!(
        b,
        json!({"p": "chart", "q": "chart", "liquid": 1, "one": 1, "two": 1, "three": 1, "script": 1, "inline": 1,
            "static": 1, "lua": 1})
    );
}

#[test]
fn a_set_value_is_typed_as_helms_is() {
    let set = Some(("b.list".to_owned(), "{1,two}".to_owned()));
    let all = data(&run("c", CHART, helm(HelmInput { set, ..HelmInput::default() })).unwrap());
    assert!(all["b"].as_str().unwrap().contains(r#""list":[1,"two"]"#), "{all}");
    let wrong = helm(HelmInput { set: Some(("a[".to_owned(), "1".to_owned())), ..HelmInput::default() });
    assert!(refused(run("c", CHART, wrong)).contains("helm.set"));
}

#[test]
fn a_values_file_is_found_beside_the_chart_or_from_the_services_folder_and_missed_by_name() {
    let files = chart_with(&[("s/env/prod.yaml", "a: prod"), ("s/c/own.yaml", "a: own")]);
    let files: Vec<_> = files
        .iter()
        .map(|(path, content)| (path.replace("c/", "s/c/").replace("s/s/c", "s/c"), *content))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
    let with = |file: &str| {
        let own = HelmInput { values_files: vec![file.to_owned()], ..HelmInput::default() };
        run("s", &files, renderers([("c", RendererKind::Helm(Some(own)))]))
    };
    assert_eq!(data(&with("own.yaml").unwrap())["a"], "own");
    assert_eq!(data(&with("env/prod.yaml").unwrap())["a"], "prod");
    assert_eq!(data(&with("../env/prod.yaml").unwrap())["a"], "prod");
    let message = refused(with("env/absent.yaml"));
    assert!(message.starts_with("env/absent.yaml: the values file does not exist"), "{message}");
    assert!(refused(with("../../../etc/passwd")).contains("does not exist"));
}

#[test]
fn release_hooks_and_definitions_are_the_services_to_choose() {
    let all = run("c", CHART, RenderingInput::default()).unwrap();
    assert_eq!(names(&all), ["CustomResourceDefinition/a.b", "ConfigMap/web", "ConfigMap/hook"]);
    let few = HelmInput {
        release: Some("other".to_owned()),
        ignore_hooks: true,
        ignore_crds: true,
        ..HelmInput::default()
    };
    assert_eq!(names(&run("c", CHART, helm(few)).unwrap()), ["ConfigMap/other"]);
}

#[test]
fn lua_runs_the_folder_then_the_script_and_says_where_it_fails() {
    let files = chart_with(&[
        ("c/lua/a.lua", "base = {region = 'eu'}"),
        ("c/lua/sub/b.lua", "values.a = base.region .. '-' .. cluster.handle"),
        (
            "c/main.lua",
            "values.b = {file = fs.read('note.txt'), replicas = tonumber(configuration.replicas)}",
        ),
        ("c/note.txt", "hello"),
        ("c/bad.lua", "\nerror('no such region')"),
    ]);
    let lua = |folder: Option<&str>, file: Option<&str>, script: Option<&str>| {
        let text = |text: Option<&str>| text.map(str::to_owned);
        helm(HelmInput {
            lua_folder: text(folder),
            lua_file: text(file),
            lua_script: text(script),
            ..HelmInput::default()
        })
    };
    let all = data(&run("c", &files, lua(Some("lua"), Some("main.lua"), None)).unwrap());
    assert_eq!(all["a"], "eu-blue");
    let b: Value = serde_json::from_str(all["b"].as_str().unwrap()).unwrap();
    assert_eq!((&b["file"], &b["replicas"]), (&json!("hello"), &json!(3)));
    // A script stands before a file.
    let all =
        data(&run("c", &files, lua(Some("lua"), Some("bad.lua"), Some("values.a = 'script'"))).unwrap());
    assert_eq!(all["a"], "script");
    let message = refused(run("c", &files, lua(None, Some("bad.lua"), None)));
    assert!(message.contains("c/bad.lua") && message.contains("no such region"), "{message}");
    assert!(refused(run("c", &files, lua(None, Some("absent.lua"), None))).contains("helm.luaFile"));
    assert!(refused(run("c", &files, lua(Some("templates"), None, None))).contains("no .lua file"));
    let message = refused(run("c", &files, lua(None, None, Some("while true do end"))));
    assert!(message.contains("steps"), "{message}");
}

#[test]
fn no_value_is_quoted_by_an_error() {
    let files = [
        ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        ("values.yaml.liquid", "host: {{ configuration.host }}\n"),
        (
            "templates/a.yaml",
            "{{ fail (printf \"%s %s %s\" .Values.password .Values.token .Values.host) }}\n",
        ),
    ];
    let tree = Tree::from_files(files).unwrap();
    let given = HelmInput {
        values: Some("password: hunter2".to_owned()),
        set: Some(("token".to_owned(), "t0ken".to_owned())),
        ..HelmInput::default()
    };
    let mut inputs = inputs("", helm(given));
    inputs.configuration.insert("host".to_owned(), "db.internal".to_owned());
    let message = refused(render_with(&tree, &inputs, Ports::default()));
    assert!(message.contains("… … …"), "{message}");
    inputs.rendering.helm.lua_script = Some("error('cannot reach ' .. configuration.host)".to_owned());
    let message = refused(render_with(&tree, &inputs, Ports::default()));
    assert!(message.contains("cannot reach …"), "{message}");
}

#[test]
fn detection_looks_at_the_root_only_and_a_list_of_renderers_replaces_it() {
    let files = [
        ("kustomize/kustomization.yaml", "namePrefix: k-\nresources: [map.yaml]\n"),
        ("kustomize/map.yaml", MAP_K),
        ("raw/map.yaml", MAP_RAW),
        ("raw/other.yaml", MAP_OTHER),
    ];
    // The Kustomization below is not the root: its files are manifests like all others.
    let detected = run("", &files, RenderingInput::default()).unwrap();
    assert_eq!(names(&detected), ["ConfigMap/k", "ConfigMap/raw", "ConfigMap/other"]);
    let listed = renderers([("kustomize", RendererKind::Auto(None)), ("raw/map.yaml", RendererKind::Raw)]);
    assert_eq!(names(&run("", &files, listed).unwrap()), ["ConfigMap/k-k", "ConfigMap/raw"]);
    assert!(refused(run("", &files, renderers([("nowhere", RendererKind::Raw)]))).contains("renderers.path"));
    assert!(
        refused(run("raw", &files, renderers([("../../x", RendererKind::Raw)]))).contains("does not exist")
    );
}

const MAP_K: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: k\n";
const MAP_RAW: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: raw\n";
const MAP_OTHER: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n";

#[test]
fn the_last_renderer_of_an_object_wins() {
    let text = |name: &str, value: &str| format!("{MAP}{name}\n  namespace: shop\ndata:\n  from: {value}\n");
    let (first, second, other) = (text("a", "first"), text("a", "second"), text("b", "first"));
    let second = second.replace("  namespace: shop\n", "");
    let files = [("one/a.yaml", first.as_str()), ("one/b.yaml", &other), ("two/a.yaml", &second)];
    let both = renderers([("one", RendererKind::Raw), ("two", RendererKind::Raw)]);
    let rendered = run("", &files, both).unwrap();
    assert_eq!(names(&rendered), ["ConfigMap/b", "ConfigMap/a"]);
    assert_eq!(rendered.objects[1].value["data"]["from"], "second");
    let back = renderers([("two", RendererKind::Raw), ("one", RendererKind::Raw)]);
    assert_eq!(run("", &files, back).unwrap().objects[0].value["data"]["from"], "first");
}

#[test]
fn a_renderers_own_settings_replace_the_services() {
    let service = HelmInput { values: Some("a: service".to_owned()), ..HelmInput::default() };
    let own = HelmInput { release: Some("own".to_owned()), ignore_hooks: true, ..HelmInput::default() };
    let with = |own: Option<HelmInput>| {
        let mut rendering = renderers([("c", RendererKind::Helm(own))]);
        rendering.helm = service.clone();
        run("", CHART, rendering).unwrap()
    };
    assert_eq!(data(&with(None))["a"], "service");
    let rendered = with(Some(own));
    assert_eq!(data(&rendered)["a"], "chart");
    assert_eq!(names(&rendered), ["CustomResourceDefinition/a.b", "ConfigMap/own"]);
}

#[test]
fn a_kustomization_is_set_and_its_templates_are_rendered_when_they_are_reached() {
    let files = [
        ("base/kustomization.yaml", "resources: [map.yaml]\n"),
        (
            "base/map.yaml.liquid",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ cluster.handle }}\n",
        ),
        (
            "overlays/eu/kustomization.yaml.liquid",
            "resources: [../../base]\nnameSuffix: '-{{ configuration.replicas }}'\n",
        ),
        ("unreached.yaml.liquid", "{% broken"),
        ("Chart.yaml", "not a chart"),
    ];
    let kustomize = KustomizeInput { path: "overlays/eu".to_owned(), ..KustomizeInput::default() };
    let set = |kustomize| RenderingInput { kustomize: Some(kustomize), ..RenderingInput::default() };
    assert_eq!(names(&run("", &files, set(kustomize.clone())).unwrap()), ["ConfigMap/blue-3"]);
    let mut broken = files.to_vec();
    broken[1].1 = "{{ configuration.replicas | nothing }}";
    let message = refused(run("", &broken, set(kustomize)));
    assert!(message.starts_with("base/map.yaml.liquid:"), "{message}");
    let absent = KustomizeInput { path: "overlays/us".to_owned(), ..KustomizeInput::default() };
    assert!(refused(run("", &files, set(absent))).contains("kustomize.path"));
}

#[test]
fn configuration_is_substituted_in_what_a_kustomization_prints() {
    let files = [
        ("kustomization.yaml", "resources: [map.yaml]\n"),
        (
            "map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {replicas: 'r-${replicas}', zone: '${zone:-none}', plain: '$${x}'}\n",
        ),
    ];
    let set = |envsubst| RenderingInput {
        kustomize: Some(KustomizeInput { envsubst, ..KustomizeInput::default() }),
        ..RenderingInput::default()
    };
    let data = |envsubst| run("", &files, set(envsubst)).unwrap().objects[0].value["data"].clone();
    assert_eq!(data(true), json!({"replicas": "r-3", "zone": "none", "plain": "${x}"}));
    assert_eq!(data(false)["replicas"], "r-${replicas}");
}

#[test]
fn charts_of_a_kustomization_are_inflated_when_that_is_enabled() {
    let files = chart_with(&[(
        "kustomization.yaml",
        "helmGlobals: {chartHome: .}\nhelmCharts: [{name: c, releaseName: inner}]\n",
    )]);
    assert!(
        names(&run("", &files, RenderingInput::default()).unwrap()).contains(&"ConfigMap/inner".to_owned())
    );
    let set = |enable_helm| RenderingInput {
        kustomize: Some(KustomizeInput { enable_helm, ..KustomizeInput::default() }),
        ..RenderingInput::default()
    };
    assert!(names(&run("", &files, set(true)).unwrap()).contains(&"ConfigMap/inner".to_owned()));
    assert!(refused(run("", &files, set(false))).contains("Helm enabled"));
}

#[test]
fn a_charts_objects_go_through_a_kustomization() {
    let files = chart_with(&[
        (
            "c/post/kustomization.yaml.liquid",
            "commonAnnotations: {cluster: {{ cluster.handle }}}\nresources: [extra.yaml]\npatches:\n- target: {kind: ConfigMap, name: web}\n  patch: |-\n    - {op: add, path: /data/a, value: patched}\n",
        ),
        ("c/post/extra.yaml", MAP_OTHER),
    ]);
    let post = |folder: &str| {
        helm(HelmInput { kustomize_postrender: Some(folder.to_owned()), ..HelmInput::default() })
    };
    let rendered = run("c", &files, post("post")).unwrap();
    // In the order in which `kustomize build` prints them.
    assert_eq!(
        names(&rendered),
        ["CustomResourceDefinition/a.b", "ConfigMap/hook", "ConfigMap/other", "ConfigMap/web"]
    );
    assert!(
        rendered.objects.iter().all(|object| object.value["metadata"]["annotations"]["cluster"] == "blue")
    );
    assert_eq!(rendered.objects[3].value["data"]["a"], "patched");
    assert_eq!(rendered.objects[3].origin.path, "c/templates/map.yaml");
    assert!(refused(run("c", &files, post("crds"))).contains("no kustomization.yaml"));
    assert!(refused(run("c", &files, post("absent"))).contains("helm.kustomizePostrender"));
}

struct Cluster;

impl LookupPort for Cluster {
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        (kind == "Secret" && name == "known")
            .then(|| json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace}}))
    }
}

#[test]
fn a_chart_asks_the_cluster_and_is_told_what_it_serves() {
    let files = [
        ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        (
            "templates/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: seen\ndata:\n  known: {{ (lookup \"v1\" \"Secret\" \"shop\" \"known\").metadata.namespace }}\n  unknown: {{ lookup \"v1\" \"Secret\" \"shop\" \"other\" | toJson | quote }}\n  monitors: {{ .Capabilities.APIVersions.Has \"monitoring.coreos.com/v1/ServiceMonitor\" | quote }}\n  apps: {{ .Capabilities.APIVersions.Has \"apps/v1\" | quote }}\n  version: {{ .Capabilities.KubeVersion.Version }}\n",
        ),
    ];
    let tree = Tree::from_files(files).unwrap();
    let mut inputs = inputs("", RenderingInput::default());
    let ports = Ports { lookup: Some(&Cluster), commands: None };
    inputs.api_server = Some(ApiServer {
        version: "v1.35.1+k3s".to_owned(),
        api_versions: ["monitoring.coreos.com/v1/ServiceMonitor".to_owned()].into(),
    });
    let seen = &render_with(&tree, &inputs, ports).unwrap().objects[0].value["data"];
    assert_eq!(
        *seen,
        json!({"known": "shop", "unknown": "{}", "monitors": "true", "apps": "false", "version": "v1.35.1"})
    );
}

struct Shouts;

impl CommandPort for Shouts {
    fn run(&self, name: &str, tree: &Tree, folder: &str) -> Result<Vec<u8>, String> {
        match name {
            "upper" => {
                let text = tree.read(&format!("{folder}/name.txt")).ok_or("no name.txt")?;
                Ok([MAP.as_bytes(), text].concat())
            }
            "broken" => Ok(b"kind: [".to_vec()),
            _ => Err(format!("no command renderer {name:?}")),
        }
    }
}

#[test]
fn a_program_renders_what_is_left_to_it() {
    let tree = Tree::from_files([("in/name.txt", "made"), ("in/ignored.yaml", MAP_OTHER)]).unwrap();
    let with = |name: &str, ports: Ports<'_>| {
        render_with(&tree, &inputs("", renderers([("in", RendererKind::Command(name.to_owned()))])), ports)
    };
    let ports = Ports { lookup: None, commands: Some(&Shouts) };
    assert_eq!(names(&with("upper", ports).unwrap()), ["ConfigMap/made"]);
    assert!(refused(with("broken", ports)).contains("output of broken"));
    assert!(refused(with("other", ports)).contains("no command renderer"));
    assert!(refused(with("upper", Ports::default())).contains("runs in an agent that declares it"));
}

#[test]
fn templates_see_what_chart_was_asked_for() {
    let rendering = helm(HelmInput {
        values: Some("a: s3cret".to_owned()),
        asked: ChartAsked { chart: "c".to_owned(), version: "1.x".to_owned(), url: String::new() },
        ..HelmInput::default()
    });
    let file = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {helm: '{{ service.helm.chart }} {{ service.helm.version }} {{ service.helm.release }}{{ service.helm.values }}'}\n";
    let rendered = run("", &[("a.yaml.liquid", file)], rendering.clone());
    let shown = match rendered {
        Ok(rendered) => rendered.objects[0].value["data"]["helm"].to_string(),
        // A name that templates do not have may be an error; it never is a value.
        Err(error) => error.to_string(),
    };
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(!format!("{rendering:?}").contains("s3cret"));
}
