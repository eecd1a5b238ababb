//! What hostile sources are known to try, by the numbers of docs/security.md. Those that need a whole console are in the
//! tests of the program.

use std::{collections::BTreeMap, fmt::Write as _, thread};

use plural_render::{
    Charts, ClusterInput, Inputs, RenderError, Rendered, RenderingInput, ServiceInput, Tree, TreeLimits,
    helm::{ArchiveLimits, Chart, HelmError, Limits, Stage},
    kustomize,
    lua::{LuaError, LuaLimits, lua_values},
    render, yaml,
};

use crate::charts::run as render_chart;

const SECRET: &str = "canary-4b1d9e";

fn inputs() -> Inputs {
    Inputs {
        folder: "app".to_owned(),
        templated: true,
        service: ServiceInput {
            name: "web".to_owned(),
            namespace: "apps".to_owned(),
            ..ServiceInput::default()
        },
        cluster: ClusterInput { version: "1.33.0".to_owned(), ..ClusterInput::default() },
        configuration: BTreeMap::from([("password".to_owned(), SECRET.to_owned())]),
        contexts: serde_json::Map::new(),
        imports: serde_json::Map::new(),
        clock_ms: 1_709_208_000_000,
        seed: vec![7; 32],
        rendering: RenderingInput::default(),
        api_server: None,
    }
}

/// Renders on a thread with the stack that a runtime gives: recursion without end would end the process.
fn service(files: &[(&str, &str)]) -> Result<Rendered, RenderError> {
    let tree = Tree::from_files(files.iter().copied()).unwrap();
    on_small_stack(move || render(&tree, &inputs()))
}

fn on_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap()
}

fn refused(files: &[(&str, &str)], words: &str) {
    let error = service(files).expect_err(words).to_string();
    assert!(error.contains(words), "{words}: {}", error.chars().take(600).collect::<String>());
    assert!(!error.contains(SECRET), "{words}");
}

const CHART: (&str, &str) = ("app/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");

fn template(text: &str, words: &str) {
    refused(&[CHART, ("app/templates/t.yaml", text)], words);
}

/// What a template of a chart writes, in a ConfigMap.
fn written(expression: &str) -> String {
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\ndata:\n  v: {{{{ {expression} | quote }}}}\n"
    );
    let files = [
        CHART,
        ("app/templates/t.yaml", text.as_str()),
        ("app/inside.txt", "inside"),
        ("outside.txt", SECRET),
    ];
    service(&files).unwrap().objects[0].value["data"]["v"].as_str().unwrap().to_owned()
}

struct Pack(tar::Builder<Vec<u8>>);

impl Pack {
    fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn entry(mut self, kind: tar::EntryType, path: &str, link: &str, content: &[u8]) -> Self {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        // The names that the library refuses to write are the ones that matter.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn file(self, path: &str, content: &[u8]) -> Self {
        self.entry(tar::EntryType::Regular, path, "", content)
    }

    fn tar(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }

    fn tgz(self) -> Vec<u8> {
        gzip(&self.tar())
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

fn archive(tgz: &[u8]) -> HelmError {
    Chart::from_archive(tgz, &ArchiveLimits::default()).unwrap_err()
}

#[test]
fn attack_1_links_in_archives_lead_nowhere() {
    use tar::EntryType::{Block, Fifo, Link, Symlink};
    let chart = || Pack::new().file("c/Chart.yaml", CHART.1.as_bytes());
    for kind in [Symlink, Link, Fifo, Block] {
        for target in ["/etc/passwd", "../../../../etc/passwd", "../other/values.yaml", "c/templates/t.yaml"]
        {
            let tgz = chart()
                .entry(kind, "c/files/link", target, b"")
                .file("c/templates/t.yaml", b"a: {{ .Files.Get \"files/link\" | quote }}\n")
                .tgz();
            let loaded = Chart::from_archive(&tgz, &ArchiveLimits::default()).unwrap();
            let text = render_chart(&loaded, Limits::default()).unwrap();
            assert!(text.contains("a: \"\""), "{kind:?} {target}: {text}");
        }
    }
    // The tar of an artifact: links that leave it end everything, others lead to files of the artifact or to nothing.
    for target in ["/etc/passwd", "../etc/passwd", "x/../../../etc/passwd"] {
        let tar = Pack::new().entry(Symlink, "link", target, b"").tar();
        let error = Tree::from_tar(tar, &TreeLimits::default()).unwrap_err().to_string();
        assert!(error.contains("is absolute") || error.contains("leaves the artifact"), "{error}");
    }
    let tar = Pack::new()
        .file("app/a.yaml", b"a: 1\n")
        .entry(Link, "app/hard", "/etc/passwd", b"")
        .entry(Symlink, "app/dangling", "gone", b"")
        .entry(Symlink, "app/one", "two", b"")
        .entry(Symlink, "app/two", "one", b"")
        .tar();
    let tree = Tree::from_tar(tar, &TreeLimits::default()).unwrap();
    assert_eq!(tree.walk("").map(|(path, _)| path).collect::<Vec<_>>(), ["app/a.yaml"]);
}

#[test]
fn attack_2_paths_stay_inside() {
    // Of a chart's files: what is outside does not exist.
    for path in [
        "../outside.txt",
        "/outside.txt",
        "x/../../outside.txt",
        "..\\\\outside.txt",
        "/etc/passwd",
        "Inside.txt",
        "INSIDE.TXT",
        "./inside.txt",
        "inside.txt\\x00",
        "\\u0069nside.tx\\u0074\\u0301",
    ] {
        assert_eq!(written(&format!(".Files.Get \"{path}\"")), "", "{path}");
    }
    assert_eq!(written(".Files.Get \"inside.txt\""), "inside");
    assert_eq!(written("(.Files.Glob \"../**\").AsConfig"), "{}");
    // Names of charts.
    for name in ["..", ".", "a/b", "../x"] {
        let files = [("app/Chart.yaml", format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n"))];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let error = service(&files).expect_err(name).to_string();
        assert!(error.contains("chart.metadata.name") || error.contains("Chart.yaml"), "{name}: {error}");
    }
    // Entries of archives.
    for (path, words) in [
        ("c/../../etc/passwd", "parent directory"),
        ("c//etc/passwd", "absolute paths"),
        ("/c/Chart.yaml", "outside the base directory"),
        ("..\\c\\x", "illegally"),
        ("c\\..\\..\\x", "parent directory"),
        ("c/C:/x", "illegally named"),
    ] {
        let error = Chart::from_archive(&Pack::new().file(path, b"x").tgz(), &ArchiveLimits::default());
        let error = error.map_or_else(|error| error.message, |chart| format!("{chart:?}"));
        let fine = error.contains(words) || error.contains("Chart.yaml file is missing");
        assert!(fine, "{path}: {error}");
    }
    for path in ["../x", "/x", "a/../../x", "a\\b"] {
        let error = Tree::from_tar(Pack::new().file(path, b"x").tar(), &TreeLimits::default()).unwrap_err();
        assert!(error.to_string().contains("holds the path"), "{path}: {error}");
    }
    // Of kustomizations.
    for resource in
        ["../../outside.txt", "/etc/passwd", "../outside.txt", "a/../../../x", "\"a\\0b\"", "B.yaml"]
    {
        let text = format!("resources: [{resource}]\n");
        let files =
            [("app/kustomization.yaml", text.as_str()), ("app/b.yaml", "a: 1\n"), ("outside.txt", SECRET)];
        let error = service(&files).expect_err(resource).to_string();
        assert!(!error.contains(SECRET) && error.contains("kustomization"), "{resource}: {error}");
    }
}

#[test]
fn attack_4_kustomize_runs_nothing() {
    let marker = std::env::temp_dir().join(format!("plural-attack-4-{}", std::process::id()));
    let touch = format!("touch {}", marker.display());
    let function = |annotation: &str| {
        format!(
            "apiVersion: example.com/v1\nkind: Anything\nmetadata:\n  name: x\n  annotations:\n    config.kubernetes.io/function: |\n      {annotation}\n"
        )
    };
    let exec = function(&format!("exec: {{path: /bin/sh, args: ['-c', '{touch}']}}"));
    let container =
        function("container: {image: example.com/x, network: true, mounts: [{type: bind, src: /, dst: /x}]}");
    let starlark = function("starlark: {path: x.star, name: x}");
    let plugin = "apiVersion: someteam.example.com/v1\nkind: SedTransformer\nmetadata: {name: x}\nargsOneLiner: s/a/b/\n";
    for (name, text) in
        [("exec", exec.as_str()), ("container", &container), ("starlark", &starlark), ("plugin", plugin)]
    {
        for field in ["generators", "transformers", "validators"] {
            let kustomization = format!("resources: [map.yaml]\n{field}: [plugin.yaml]\n");
            let files = [
                ("app/kustomization.yaml", kustomization.as_str()),
                ("app/plugin.yaml", text),
                ("app/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
                ("app/x.star", "load('os', 'os')"),
            ];
            let error = service(&files).expect_err(name).to_string();
            assert!(error.starts_with("app/kustomization.yaml: "), "{name} {field}: {error}");
        }
    }
    for text in [
        "helmCharts:\n- {name: web, repo: https://charts.example.com, version: 1.0.0}\n",
        "helmCharts:\n- {name: web, repo: oci://registry.example.com/charts}\n",
        "helmGlobals: {chartHome: ../../..}\nhelmCharts:\n- {name: etc}\n",
        "resources: [https://example.com/x.yaml]\n",
        "resources: ['git::https://example.com/x//y?ref=main']\n",
        "resources: ['git@example.com:x/y.git']\n",
        "resources: ['file:///etc//passwd']\n",
        "resources: ['ssh://-oProxyCommand=touch x/y']\n",
        "openapi: {path: https://example.com/x.json}\n",
        "configMapGenerator:\n- {name: a, envs: [/etc/environment]}\n",
    ] {
        let error = service(&[("app/kustomization.yaml", text)]).expect_err(text).to_string();
        assert!(error.starts_with("app/kustomization.yaml: "), "{text}: {error}");
    }
    assert!(!marker.exists());
}

#[test]
fn attack_5_templates_see_nothing_and_end() {
    for function in
        ["env \"PATH\"", "expandenv \"$PATH\"", "readFile \"/etc/passwd\"", "exec \"id\"", "httpGet \"x\""]
    {
        template(&format!("a: {{{{ {function} }}}}"), "not defined");
    }
    assert_eq!(written("getHostByName \"localhost\""), "");
    assert_eq!(written("now | unixEpoch"), "1709208000", "the clock is the caller's");
    assert_eq!(written("lookup \"v1\" \"Secret\" \"\" \"\" | len"), "0");
    for (text, words) in [
        ("{{ range until 2000000000 }}{{ end }}", "limit of bytes held"),
        ("{{ range 9000000000000 }}{{ end }}", "limit of fuel"),
        ("{{ define \"x\" }}{{ include \"x\" . }}{{ end }}{{ include \"x\" . }}", "nested reference name"),
        ("{{ define \"x\" }}{{ template \"x\" . }}{{ end }}{{ template \"x\" . }}", "maximum template depth"),
        ("{{ $t := \"{{ tpl .t . }}\" }}{{ tpl $t (dict \"t\" $t \"Template\" .Template) }}", "limit of"),
        (
            "{{ $s := repeat 100000000 \"x\" }}{{ range 1000000 }}{{ $_ := sha256sum $s }}{{ end }}",
            "limit of",
        ),
        ("{{ range 1000 }}{{ $_ := htpasswd \"a\" \"b\" }}{{ end }}", "limit of fuel"),
        (
            "{{ range $i, $_ := until 10000 }}{{ tpl (printf \"%d%s\" $i (repeat 100000 \"{{.}}\")) . }}{{ end }}",
            "limit of",
        ),
    ] {
        let tree = Tree::from_files([CHART, ("app/templates/t.yaml", text)]).unwrap();
        let limits = Limits { fuel: 300_000, bytes: 256 << 20 };
        let error = on_small_stack(move || {
            let chart = Chart::from_tree(&tree, "app", &ArchiveLimits::default()).unwrap();
            render_chart(&chart, limits).unwrap_err()
        });
        assert!(
            error.message.contains(words),
            "{text}: {}",
            error.message.chars().take(300).collect::<String>()
        );
    }
    // A template can fail with any text: `refused` looks for the secret in it.
    let values = ("app/values.yaml.liquid", "p: {{ configuration.password }}\n");
    refused(&[CHART, values, ("app/templates/t.yaml", "{{ fail (printf \"no %s\" .Values.p) }}")], "no …");
    // Twice the same, whatever is drawn.
    let draw = "randAlphaNum 30";
    assert_eq!(written(draw), written(draw));
}

#[test]
fn attack_6_archives_that_grow_are_refused() {
    let chart = || Pack::new().file("c/Chart.yaml", CHART.1.as_bytes());
    // 1000 times its size, in files that are each allowed.
    let zeros = vec![0; 4 << 20];
    let bomb = (0..20).fold(chart(), |pack, n| pack.file(&format!("c/files/{n}"), &zeros)).tgz();
    assert!(bomb.len() < 200_000, "{}", bomb.len());
    assert!(archive(&bomb).message.contains("limit of ratio"), "{}", archive(&bomb));
    // The same inside a chart inside a chart.
    let nested = chart().file("c/charts/sub-1.tgz", &bomb).tgz();
    let error = archive(&nested);
    assert!(error.message.contains("limit of ratio") && error.message.contains("sub-1.tgz"), "{error}");
    let deep = (0..30).fold(chart().tgz(), |inner, _| chart().file("c/charts/sub-1.tgz", &inner).tgz());
    assert!(archive(&deep).message.contains("nested deeper than 20"), "{}", archive(&deep));
    // Very many entries that hold nothing.
    let many = (0..60_000).fold(chart(), |pack, n| pack.file(&format!("c/f/{n}"), b"")).tgz();
    let error = archive(&many).message;
    assert!(error.contains("more than 50000 entries") || error.contains("limit of ratio"), "{error}");
    // A file that says it has 10 GiB.
    let mut header = tar::Header::new_ustar();
    header.set_path("c/sparse").unwrap();
    header.set_size(10 << 30);
    header.set_cksum();
    let error = archive(&gzip(header.as_bytes()));
    assert!(error.message.contains("larger than the maximum file size"), "{error}");
    let mut sparse = tar::Header::new_gnu();
    sparse.set_path("c/sparse").unwrap();
    sparse.set_entry_type(tar::EntryType::GNUSparse);
    sparse.set_size(0);
    if let Some(gnu) = sparse.as_gnu_mut() {
        gnu.set_real_size(10 << 30);
    }
    sparse.set_cksum();
    assert_eq!(archive(&gzip(&[sparse.as_bytes().as_slice(), &[0; 1024]].concat())).stage, Stage::Load);
    // Compressed once more: not a tar.
    let twice = gzip(&chart().tgz());
    assert_eq!(archive(&twice).stage, Stage::Load);
    // A tree of an artifact.
    let tar = Pack::new().file("a", &zeros).file("b", &zeros).tar();
    let error = Tree::from_tar(tar, &TreeLimits { bytes: 5 << 20, ..TreeLimits::default() }).unwrap_err();
    assert!(error.to_string().contains("more than 5242880 bytes"), "{error}");
}

#[test]
fn attack_7_yaml_is_bounded() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let _ = writeln!(bomb, "a{n}: &a{n} [{}]", vec![format!("*a{}", n - 1); 10].join(", "));
    }
    let mut merges = "a0: &a0 {k0: v, k1: v, k2: v, k3: v, k4: v, k5: v, k6: v, k7: v}\n".to_owned();
    for n in 1..12 {
        let _ = writeln!(
            merges,
            "a{n}: &a{n} {{p: {{<<: *a{0}}}, q: {{<<: *a{0}}}, r: *a{0}, s: *a{0}, t: *a{0}}}",
            n - 1
        );
    }
    let mut stairs = "a0: &a0 x\n".to_owned();
    for n in 1..200 {
        let _ = writeln!(stairs, "a{n}: &a{n} {}*a{}{}", "[".repeat(900), n - 1, "]".repeat(900));
    }
    let deep_flow = "[".repeat(1_000_000);
    let deep_block = (0..4000).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "{}a:", " ".repeat(n));
        text
    });
    let deep_dashes = "- ".repeat(100_000);
    let scalar = format!("a: {}\n", "x".repeat(100 << 20));
    for (name, text) in [
        ("aliases", bomb.as_str()),
        ("merges", merges.as_str()),
        ("stairs of aliases", stairs.as_str()),
        ("deep flow", deep_flow.as_str()),
        ("deep maps", deep_block.as_str()),
        ("deep lists", deep_dashes.as_str()),
        ("NUL", "a: \"b\0\"\n"),
        ("control", "a: \u{1}\n"),
        ("undefined tag", "a: !x!y z\n"),
        ("self", "a: &a [*a]\n"),
        ("infinite", "a: .inf\n"),
    ] {
        let doors: [&[(&str, &str)]; 4] = [
            &[("app/a.yaml", text)],
            &[CHART, ("app/values.yaml", text)],
            &[("app/kustomization.yaml", text)],
            &[("app/kustomization.yaml", "resources: [a.yaml]\n"), ("app/a.yaml", text)],
        ];
        for files in doors {
            let result = service(files);
            // A kustomization's numbers are texts until they are needed.
            let fine = result.is_err()
                || matches!(name, "infinite" | "undefined tag") && files[0].0.contains("kust");
            assert!(fine, "{name} in {}: {result:?}", files[0].0);
        }
    }
    refused(&[("app/a.yaml", &scalar)], "larger than 16 MiB");
    refused(&[CHART, ("app/values.yaml", &scalar)], "maximum file size");
    refused(&[("app/a.yaml", "a: 1\nb: 2\na: 3\n")], "the key \"a\" appears twice");
    refused(&[("app/a.json", "{\"a\": 1, \"a\": 2}")], "the key \"a\" appears twice");
    refused(&[("app/a.json", &deep_flow)], "recursion limit");
    // Integers that fit nothing are floats, as in Go; a tag makes no type.
    let value =
        yaml::parse(b"a: 99999999999999999999999\nb: !ruby/object:Gem::Requirement {x: y}\nc: !!int \"7\"\n")
            .unwrap();
    assert_eq!((value["a"].as_f64(), value["c"].as_i64()), (Some(1e23), Some(7)));
}

/// Values as deep as they may be go through everything that reads, merges, copies, prints and drops them.
#[test]
fn attack_7_the_deepest_values_fit_the_stack() {
    let depth = 990;
    let deep = format!("{}{{x: y}}{}", "{a: ".repeat(depth), "}".repeat(depth));
    let values = format!("deep: {deep}\n");
    let text = "a: {{ .Values.deep | toYaml | len }} {{ .Values.deep | toJson | len }} {{ deepCopy .Values | len }} \
                {{ printf \"%v\" .Values | len }} {{ merge (dict) .Values | len }} {{ fromYaml (toYaml .Values) | len }} \
                {{ eq (toYaml .Values) \"\" }} {{ toToml .Values | len }} {{ deepEqual .Values (deepCopy .Values) }}\n";
    let files = [
        CHART,
        ("app/values.yaml", values.as_str()),
        (
            "app/values.schema.json",
            "{\"properties\": {\"deep\": {\"$ref\": \"#/$defs/n\"}}, \"$defs\": {\"n\": {\"additionalProperties\": {\"$ref\": \"#/$defs/n\"}}}}",
        ),
        ("app/templates/t.yaml", text),
        ("app/charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
        ("app/charts/sub/values.yaml", values.as_str()),
    ];
    // Well or refused: it does not end the process.
    drop(service(&files));
    let map = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {deep}\n");
    drop(service(&[("app/a.yaml", &map)]));
    let patch =
        "resources: [a.yaml]\npatches:\n- path: p.yaml\n  target: {kind: ConfigMap}\nnamePrefix: x-\n";
    drop(service(&[("app/kustomization.yaml", patch), ("app/a.yaml", &map), ("app/p.yaml", &map)]));
}

#[test]
fn attack_8_schemas_refer_to_nothing_outside_and_end() {
    for target in [
        "file:///etc/passwd",
        "/dev/zero",
        "http://169.254.169.254/x",
        "https://example.com/s.json",
        "../x.json",
        "x.json",
    ] {
        let schema = format!("{{\"properties\": {{\"a\": {{\"$ref\": \"{target}\"}}}}}}");
        let files = [CHART, ("app/values.yaml", "a: 1\n"), ("app/values.schema.json", schema.as_str())];
        refused(&files, "which is not part of it");
    }
    let deep = format!("{}1{}", "{\"not\": ".repeat(100_000), "}".repeat(100_000));
    let all: String = vec!["{\"$ref\": \"#\"}"; 50].join(", ");
    let wide = format!("{{\"allOf\": [{all}]}}");
    for (schema, values, words) in [
        ("{\"$ref\": \"#\"}", "a: 1\n", "refers to itself without end"),
        (
            "{\"properties\": {\"a\": {\"$ref\": \"#/$defs/x\"}}, \"$defs\": {\"x\": {\"$ref\": \"#/$defs/y\"}, \"y\": {\"$ref\": \"#/$defs/x\"}}}",
            "a: 1\n",
            "refers to itself without end",
        ),
        (wide.as_str(), "a: 1\n", "too many steps"),
        (deep.as_str(), "a: 1\n", "recursion limit"),
        (
            "{\"properties\": {\"a\": {\"pattern\": \"((a{1,200}){1,200}){1,200}\"}}}",
            "a: x\n",
            "invalid repeat count",
        ),
        ("not json", "a: 1\n", "invalid schema"),
    ] {
        refused(&[CHART, ("app/values.yaml", values), ("app/values.schema.json", schema)], words);
    }
    // Each with each would be a thousand million million comparisons.
    let many = format!("a: [{}]\n", (0..200_000).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let unique = "{\"properties\": {\"a\": {\"uniqueItems\": true}}}";
    refused(&[CHART, ("app/values.yaml", &many), ("app/values.schema.json", unique)], "too many steps");
}

#[test]
fn attack_9_null_is_an_error_or_nothing() {
    let chart_fields = [
        "name",
        "version",
        "apiVersion",
        "description",
        "dependencies",
        "maintainers",
        "keywords",
        "sources",
        "annotations",
        "type",
        "kubeVersion",
        "appVersion",
        "deprecated",
        "icon",
        "home",
        "condition",
        "tags",
    ];
    for field in chart_fields {
        for value in ["null", "[null]", "{null: null}", "[[null]]", "{a: null}", "~", ""] {
            let text = format!("apiVersion: v2\nname: web\nversion: 1.0.0\n{field}: {value}\n");
            drop(service(&[
                ("app/Chart.yaml", &text),
                ("app/templates/t.yaml", "a: {{ .Chart | toYaml | quote }}\n"),
            ]));
        }
    }
    for text in [
        "null",
        "~",
        "",
        "[]",
        "- null",
        "null: null",
        "dependencies: [null]",
        "dependencies: [{name: null}]",
    ] {
        let files = [("app/Chart.yaml", text), ("app/requirements.yaml", text), ("app/Chart.lock", text)];
        assert!(service(&files).is_err(), "{text}");
    }
    for text in [
        "null",
        "a: null",
        "sub: null",
        "global: null",
        "sub: {enabled: null}",
        "tags: null",
        "? null\n: null",
        "[null]",
    ] {
        let chart = "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- {name: sub, version: 1.0.0, condition: sub.enabled, tags: [t], import-values: [null, {child: null, parent: null}]}\n";
        let files = [
            ("app/Chart.yaml", chart),
            ("app/values.yaml", text),
            (
                "app/values.schema.json",
                "{\"properties\": null, \"items\": null, \"required\": null, \"allOf\": [null], \"$ref\": null}",
            ),
            ("app/charts/sub/Chart.yaml", "name: sub\nversion: 1.0.0\n"),
            ("app/charts/sub/values.yaml", text),
        ];
        drop(service(&files));
    }
    let fields = [
        "resources",
        "bases",
        "components",
        "patches",
        "patchesStrategicMerge",
        "patchesJson6902",
        "configMapGenerator",
        "secretGenerator",
        "generatorOptions",
        "namespace",
        "namePrefix",
        "nameSuffix",
        "labels",
        "commonLabels",
        "commonAnnotations",
        "images",
        "replicas",
        "replacements",
        "vars",
        "configurations",
        "crds",
        "openapi",
        "sortOptions",
        "buildMetadata",
        "helmCharts",
        "helmGlobals",
        "generators",
        "transformers",
        "validators",
        "kind",
        "apiVersion",
        "metadata",
    ];
    for field in fields {
        for value in [
            "null",
            "[null]",
            "{null: null}",
            "[{}]",
            "[[]]",
            "{}",
            "[{name: null, target: null, source: null}]",
            "''",
        ] {
            let text = format!("resources: [map.yaml]\n{field}: {value}\n");
            let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: null, annotations: null}\ndata: null\n";
            drop(service(&[("app/kustomization.yaml", &text), ("app/map.yaml", map)]));
        }
    }
    for text in
        ["null", "apiVersion: null", "kind: null\nmetadata: null", "apiVersion: v1\nkind: List\nitems: null"]
    {
        drop(service(&[("app/a.yaml", text)]));
    }
    refused(&[("app/a.yaml", "apiVersion: v1\nkind: List\nitems: [null]\n")], "is not an object");
    refused(&[("app/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: null\n")], "has no metadata");
}

#[test]
fn attack_29_expressions_have_no_backtracking_and_scripts_have_fuel() {
    let subject = "a".repeat(100_000) + "!";
    // What takes exponential time where there is backtracking.
    for pattern in ["(a+)+$", "^(a|a)*$", "(a|aa)+$", "(.*a){20}$", "^(([a-z])+.)+[A-Z]([a-z])+$"] {
        assert_eq!(written(&format!("regexMatch \"{pattern}\" \"{subject}\"")), "false", "{pattern}");
        let liquid = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\ndata: {{v: \"{{{{ '{pattern}' | regexMatch: '{subject}' }}}}\"}}\n"
        );
        let rendered = service(&[("app/a.yaml.liquid", &liquid)]).unwrap();
        assert_eq!(rendered.objects[0].value["data"]["v"], "false", "{pattern}");
    }
    // What is large compiled is refused or paid for.
    template("a: {{ regexFind \"((((a{1,100}){1,100}){1,100}){1,100})\" \"x\" }}", "invalid repeat count");
    template("a: {{ regexFind \"\\\\pL{1000}\\\\pN{1000}\" \"x\" }}", "expression too large");
    let text = "{{ $s := repeat 20000 \"ab\" }}{{ range 100 }}{{ $_ := regexMatch \"(.{1,300}c){1,3}\" $s }}{{ end }}";
    let tree = Tree::from_files([CHART, ("app/templates/t.yaml", text)]).unwrap();
    let chart = Chart::from_tree(&tree, "app", &ArchiveLimits::default()).unwrap();
    let error = render_chart(&chart, Limits { fuel: 2_000_000, ..Limits::default() }).unwrap_err();
    assert!(error.message.contains("limit of fuel"), "{error}");
    template(
        "{{ range $i, $_ := until 100000 }}{{ $_ := regexMatch (printf \"a%d\" $i) \"x\" }}{{ end }}",
        "limit of fuel",
    );
    // Lua.
    let tree = Tree::from_files([("app/values.yaml", "a: 1\n")]).unwrap();
    let limits = || LuaLimits { steps: 20_000_000, memory_bytes: 16 << 20, stop: None };
    for (script, unit) in [
        ("while true do end", "steps"),
        ("while true do pcall(function() while true do end end) end", "steps"),
        (
            "local s = string.rep('a', 1000) .. 'b'\nfor i = 1, 1e9 do s:find(string.rep('a*', 100) .. 'c') end",
            "steps",
        ),
        ("string.find(string.rep('a', 50000), string.rep('a?', 50) .. string.rep('a', 50) .. '$x')", "steps"),
        ("local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end", "bytes of memory"),
        ("local s = 'x' while true do s = s .. s end", "bytes of memory"),
        ("local function f() return f() + 1 end f()", ""),
        ("string.rep('x', 1e10)", ""),
        ("local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x", ""),
        ("('%99999999d'):format(1)", ""),
    ] {
        let scripts = [("values.lua".to_owned(), script.to_owned())];
        let error = lua_values(&tree, &inputs(), &scripts, limits()).expect_err(script);
        match &error {
            LuaError::Limit { unit: found, .. } => {
                assert!(unit.is_empty() || *found == unit, "{script}: {error}");
            }
            LuaError::Script(_) => assert!(unit.is_empty() || unit == "steps", "{script}: {error}"),
            LuaError::Stopped { .. } => panic!("{script}: {error}"),
        }
    }
    // Kustomize's selectors and its delimiters.
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}\n";
    let text = "resources: [map.yaml]\npatches:\n- target: {name: '(a+)+b'}\n  patch: '[{\"op\": \"add\", \"path\": \"/x\", \"value\": \"y\"}]'\n";
    let rendered = service(&[("app/kustomization.yaml", text), ("app/map.yaml", map)]).unwrap();
    assert!(rendered.objects[0].value.get("x").is_none());
}

/// Fuel, output and held bytes of builds are named in errors; see also the cases of `plural-kustomize`.
#[test]
fn attack_5_kustomizations_end_too() {
    let tree = Tree::from_files([
        ("app/kustomization.yaml", "resources: [map.yaml]\nnamePrefix: a-\n"),
        ("app/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
    ])
    .unwrap();
    let charts = Charts { tree: &tree, seed: b"", clock_ms: 0 };
    let limits = kustomize::Limits { fuel: 10, ..kustomize::Limits::default() };
    let options = kustomize::Options { helm: Some(&charts), limits, ..kustomize::Options::default() };
    let error = kustomize::build(&tree, "app", &options).unwrap_err();
    assert!(error.message().contains("fuel"), "{}", error.message());
}
