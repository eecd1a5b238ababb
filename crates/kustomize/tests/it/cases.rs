//! Overlays written for this project, a feature each, and what the program makes of them.
//!
//! A case is one text in `tests/data/cases`: `# build PATH`, the files between `-- NAME --` lines, and at the end
//! `-- expected --` (the program's output) or `-- error --` (its message).

use std::collections::BTreeMap;
use std::path::PathBuf;

use plural_kustomize::{ChartRequest, Entry, Error, ErrorKind, Files, HelmPort, Limits, Options, build};

/// Files by their paths.
struct Tree(BTreeMap<String, String>);

impl Tree {
    fn new<P: Into<String>, C: Into<String>>(files: impl IntoIterator<Item = (P, C)>) -> Self {
        Self(files.into_iter().map(|(path, content)| (path.into(), content.into())).collect())
    }
}

impl Files for Tree {
    fn entry(&self, path: &str) -> Option<Entry<'_>> {
        if let Some(content) = self.0.get(path) {
            return Some(Entry::File(content.as_bytes()));
        }
        let below = format!("{path}/");
        let is_folder = path.is_empty() || self.0.keys().any(|file| file.starts_with(&below));
        is_folder.then_some(Entry::Folder)
    }
}

fn options() -> Options<'static> {
    Options { shown_root: "<TREE>", ..Options::default() }
}

struct Case {
    path: String,
    files: Vec<(String, String)>,
    expected: Result<String, String>,
}

fn parse(text: &str) -> Case {
    let mut path = String::new();
    let mut sections: Vec<(String, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        let name = line.trim_end().strip_prefix("-- ").and_then(|l| l.strip_suffix(" --"));
        match (name, sections.last_mut()) {
            (Some(name), _) => sections.push((name.to_owned(), String::new())),
            (None, Some((_, content))) => content.push_str(line),
            (None, None) => {
                if let Some(p) = line.trim_end().strip_prefix("# build ") {
                    p.clone_into(&mut path);
                }
            }
        }
    }
    let (kind, text) = sections.pop().expect("a case has an end");
    let expected = match kind.as_str() {
        "expected" => Ok(text),
        "error" => Err(text.trim_end().to_owned()),
        other => panic!("unknown end {other}"),
    };
    Case { path, files: sections, expected }
}

#[test]
fn cases_equal_the_program() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases");
    let mut failed = Vec::new();
    let mut total = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let case = parse(&std::fs::read_to_string(&file).unwrap());
        let tree = Tree::new(case.files);
        total += 1;
        let got = build(&tree, &case.path, &options()).map(|b| b.yaml);
        let got = got.map_err(|e| e.message().trim_end().to_owned());
        if got != case.expected {
            failed.push(format!("--- {name}\nwant {:#?}\ngot  {:#?}", case.expected, got));
        }
    }
    plural_testkit::note_compared("overlays by feature", total - failed.len(), total);
    assert!(total > 40, "only {total} cases were found");
    assert!(failed.is_empty(), "{} of {total} differ\n{}", failed.len(), failed.join("\n"));
}

fn one(files: &[(&str, &str)]) -> Result<String, Error> {
    limited(files, Limits::default())
}

fn limited(files: &[(&str, &str)], limits: Limits) -> Result<String, Error> {
    let tree = Tree::new(files.iter().copied());
    build(&tree, ".", &Options { limits, ..options() }).map(|b| b.yaml)
}

const THING: &str = "apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: t\n";

#[test]
fn remote_names_are_refused_with_their_address() {
    for address in [
        "https://github.com/example/app//deploy?ref=v1",
        "github.com/example/app//deploy",
        "git@github.com:example/app.git//deploy?ref=v1",
        "https://example.com/raw/deployment.yaml",
    ] {
        for field in ["resources", "components", "bases"] {
            let error = one(&[("kustomization.yaml", &format!("{field}:\n- {address}\n"))]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Remote, "{field} {address}: {error}");
            assert!(error.message().contains(address), "{error}");
            assert!(error.message().contains("add its repository to the console"), "{error}");
        }
    }
    let error =
        one(&[("kustomization.yaml", "configMapGenerator:\n- name: a\n  files: [https://example.com/x]\n")]);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Remote);
}

/// A tree that brings a remote base along and has links.
struct Supplied(BTreeMap<&'static str, Item>);

enum Item {
    File(&'static str),
    Folder,
    Link(&'static str),
}

impl Files for Supplied {
    fn entry(&self, path: &str) -> Option<Entry<'_>> {
        Some(match self.0.get(path) {
            Some(Item::File(text)) => Entry::File(text.as_bytes()),
            Some(Item::Link(target)) => Entry::Link(target),
            Some(Item::Folder) => Entry::Folder,
            None if path.is_empty() => Entry::Folder,
            None => return None,
        })
    }

    fn remote(&self, address: &str) -> Option<String> {
        address.starts_with("https://github.com/example/app//deploy").then(|| "remotes/app/deploy".to_owned())
    }
}

#[test]
fn a_supplied_remote_base_is_built_but_does_not_lead_out_of_itself() {
    let mut tree = Supplied(BTreeMap::from([
        (
            "kustomization.yaml",
            Item::File("resources:\n- https://github.com/example/app//deploy?ref=v1\nnamePrefix: p-\n"),
        ),
        ("remotes", Item::Folder),
        ("remotes/app", Item::Folder),
        ("remotes/app/deploy", Item::Folder),
        ("remotes/app/deploy/kustomization.yaml", Item::File("resources:\n- t.yaml\n")),
        ("remotes/app/deploy/t.yaml", Item::File(THING)),
        ("own", Item::Folder),
        ("own/kustomization.yaml", Item::File("namePrefix: x\n")),
    ]));
    let yaml = build(&tree, "", &options()).unwrap().yaml;
    assert!(yaml.contains("name: p-t"), "{yaml}");
    tree.0.insert("remotes/app/deploy/kustomization.yaml", Item::File("resources:\n- ../../../own\n"));
    let error = build(&tree, "", &options()).unwrap_err();
    assert!(error.message().contains("must be within the repo"), "{error}");
}

#[test]
fn links_lead_neither_out_of_the_root_nor_round_in_circles() {
    let tree = |target: &'static str| {
        Supplied(BTreeMap::from([
            ("secret.txt", Item::File("s3cret")),
            ("app", Item::Folder),
            ("app/kustomization.yaml", Item::File("configMapGenerator:\n- name: a\n  files: [f.txt]\n")),
            ("app/f.txt", Item::Link(target)),
        ]))
    };
    for (target, reason) in [
        ("../secret.txt", "is not in or below"),
        ("/etc/passwd", "no such file"),
        ("../../../etc/passwd", "no such file"),
        ("f.txt", "too many links"),
    ] {
        let error = build(&tree(target), "app", &options()).unwrap_err();
        assert!(error.message().contains(reason), "{target}: {error}");
        assert!(!error.message().contains("s3cret"));
    }
}

#[test]
fn limits_end_a_build_and_say_which() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let line = format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 10].join(", "));
        bomb.push_str(&line);
    }
    let deep = format!("{THING}spec: {}x{}\n", "[".repeat(5000), "]".repeat(5000));
    let blocks = (0..3000).map(|i| format!("{}- ", " ".repeat(i))).collect::<Vec<_>>().join("\n");
    let long = format!("{THING}spec: {:?}\n", "word ".repeat(4000));
    let small = Limits { fuel: 2_000_000, held_bytes: 4 << 20, output_bytes: 10_000, ..Limits::default() };
    let root = "resources:\n- x.yaml\n";
    for (text, limit) in [
        (bomb.as_str(), "limit on"),
        (deep.as_str(), "max depth of 200"),
        (&format!("{THING}spec:\n{blocks}"), "max depth of 200"),
        (long.as_str(), "output bytes"),
    ] {
        let error = limited(&[("kustomization.yaml", root), ("x.yaml", text)], small).unwrap_err();
        assert!(error.message().contains(limit), "{limit}: {}", error.message());
        let error = limited(&[("kustomization.yaml", text)], small);
        assert!(error.is_err());
    }
}

#[test]
fn doubling_by_copies_is_bounded() {
    let small = Limits { held_bytes: 8 << 20, ..Limits::default() };
    let copies = "    - op: copy\n      from: /spec\n      path: /spec/x\n    - op: copy\n      from: /spec\n      path: /spec/y\n"
        .repeat(60);
    let k = format!("resources:\n- x.yaml\npatches:\n- target: {{kind: Thing}}\n  patch: |-\n{copies}");
    let error =
        limited(&[("kustomization.yaml", &k), ("x.yaml", &format!("{THING}spec: {{a: b}}\n"))], small)
            .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let copy = |to: &str| {
        format!(
            "- source: {{kind: Thing, fieldPath: spec}}\n  targets:\n  - select: {{kind: Thing}}\n    fieldPaths: \
             [spec.{to}]\n    options: {{create: true}}\n"
        )
    };
    let replacement = format!("{}{}", copy("x"), copy("y")).repeat(60);
    let k = format!("resources:\n- x.yaml\nreplacements:\n{replacement}");
    let error =
        limited(&[("kustomization.yaml", &k), ("x.yaml", &format!("{THING}spec: {{a: b}}\n"))], small)
            .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

#[test]
fn no_message_holds_a_secret() {
    let k = "secretGenerator:\n- name: a\n  literals: [pw=s3cret, s3cretwithoutkey]\n";
    let error = one(&[("kustomization.yaml", k)]).unwrap_err();
    assert!(
        error.message().contains("invalid literal source") && !error.message().contains("s3cret"),
        "{error}"
    );
    let secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\nstringData:\n  pw: s3cret\n";
    for patch in [
        "    - op: test\n      path: /stringData/pw\n      value: other",
        "    apiVersion: v1\n    kind: Secret\n    \
         metadata:\n      name: a\n    stringData: [x]",
    ] {
        let k = format!("resources:\n- x.yaml\npatches:\n- target: {{kind: Secret}}\n  patch: |-\n{patch}\n");
        let error = one(&[("kustomization.yaml", &k), ("x.yaml", secret)]).unwrap_err();
        assert!(!error.message().contains("s3cret"), "{error}");
    }
    let bad_key = format!("{secret}data:\n  1: {{2: s3cret}}\n");
    let error = one(&[("kustomization.yaml", "resources:\n- x.yaml\n"), ("x.yaml", &bad_key)]).unwrap_err();
    assert!(!error.message().contains("s3cret"), "{error}");
}

#[test]
fn nested_bases_are_bounded() {
    let mut files = Vec::new();
    for i in 0..80 {
        let next = format!("resources:\n- ../b{}\n", i + 1);
        files.push((format!("b{i}/kustomization.yaml"), next));
    }
    let tree = Tree::new(files);
    let error = build(&tree, "b0", &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.message().contains("nested bases"), "{error}");
}

#[test]
fn a_repetition_in_an_expression_cannot_take_all_memory() {
    let k = "resources:\n- x.yaml\npatches:\n- target:\n    name: ((a{1000}){1000}){1000}\n  patch: |-\n    - op: \
             remove\n      path: /x\n";
    let error = one(&[("kustomization.yaml", k), ("x.yaml", THING)]).unwrap_err();
    assert!(error.message().contains("error parsing regexp"), "{error}");
}

#[derive(Default)]
struct Charts(std::cell::RefCell<Vec<ChartRequest>>);

impl HelmPort for Charts {
    fn inflate(&self, request: &ChartRequest) -> Result<String, String> {
        self.0.borrow_mut().push(request.clone());
        Ok(format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}-made\n", request.release_name))
    }
}

#[test]
fn charts_go_through_the_port() {
    let k = "namespace: shop\nhelmGlobals:\n  chartHome: my/charts\nhelmCharts:\n- name: app\n  repo: \
             https://charts.example.com\n  version: 1.2.3\n  releaseName: rel\n  includeCRDs: true\n  valuesFile: \
             v.yaml\n  valuesInline:\n    a: 1\n  additionalValuesFiles: [w.yaml]\nnamePrefix: p-\n";
    let files = [("kustomization.yaml", k), ("v.yaml", "a: 0\n"), ("w.yaml", "b: 2\n")];
    let error = one(&files).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Helm);
    assert!(error.message().contains("chart app"), "{error}");
    let charts = Charts::default();
    let tree = Tree::new(files);
    let yaml = build(&tree, "", &Options { helm: Some(&charts), ..options() }).unwrap().yaml;
    assert_eq!(yaml, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: p-rel-made\n");
    let requests = charts.0.borrow();
    let request = requests.first().unwrap();
    assert_eq!(request.pulled, "my/charts/app-1.2.3/app");
    assert_eq!(request.folder, "my/charts/app");
    assert_eq!(request.namespace, "shop");
    assert_eq!(request.values, ["a: 0\n", "{\"a\":1}", "b: 2\n"]);
    assert!(request.include_crds);
}

#[test]
fn objects_are_the_documents() {
    let tree = Tree::new([
        ("kustomization.yaml", "resources:\n- x.yaml\nconfigMapGenerator:\n- name: c\n  literals: [n=1]\n"),
        ("x.yaml", &format!("{THING}spec: {{n: 1.0, s: \"1\", f: 1.5, t: 2001-01-01, z: null}}\n")),
    ]);
    let built = build(&tree, "", &options()).unwrap();
    let objects = built.objects();
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[0]["data"]["n"], "1");
    let spec = serde_json::json!({"n": 1, "s": "1", "f": 1.5, "t": "2001-01-01T00:00:00Z", "z": null});
    assert_eq!(objects[1]["spec"], spec);
}

proptest::proptest! {
    /// Whatever the files hold, a build ends with output or an error.
    #[test]
    fn no_input_makes_it_panic(
        k in "(resources:|patches:|- |  |\\n|x.yaml|patch: |-|\\{|\\}|\\[|\\]|'|\"|&a|\\*a|<<: |!!str |#|:|\\||>|%|\\PC){0,40}",
        x in "(apiVersion: v1\\n|kind: Pod\\n|metadata:\\n  name: a\\n|spec:\\n| |\\n|- |\\{|\\}|\\[|\\]|a: |'|\"|&a |\\*a|<<: |!|#|\\||>-|\\t|---\\n|\\PC){0,40}",
    ) {
        let _ = one(&[("kustomization.yaml", &k), ("x.yaml", &x)]);
        let _ = one(&[("kustomization.yaml", "resources:\n- x.yaml\nnamePrefix: a\n"), ("x.yaml", &x)]);
        let head = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n";
        let patch = x.lines().map(|l| format!("    {l}")).collect::<Vec<_>>().join("\n");
        let with_patch = format!("resources:\n- x.yaml\npatches:\n- target: {{kind: Pod}}\n  patch: |\n{patch}");
        let _ = one(&[("kustomization.yaml", &with_patch), ("x.yaml", &format!("{head}{x}"))]);
    }
}
