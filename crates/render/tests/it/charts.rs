//! Small charts written for this repository, by feature, and what the real Helm makes of them:
//! `charts-expected/NAME.yaml` is its output, `NAME.error` its error.

use std::{
    fs,
    path::{Path, PathBuf},
};

use plural_render::{
    ClusterInput, Inputs, ServiceInput,
    helm::{TemplateFlags, ValueSource, template as template_text},
};
use plural_render::{
    Tree,
    helm::{ArchiveLimits, Capabilities, Chart, HelmError, Limits, RenderOptions, Stage, render},
};
use serde_json::Map;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it")
}

fn files(root: &Path, below: &Path, into: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(root, &path, into);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            into.push((name, fs::read(&path).unwrap()));
        }
    }
}

pub(crate) fn chart_of(files: &[(&str, &str)]) -> Result<Chart, HelmError> {
    let tree = Tree::from_files(files.iter().map(|(path, content)| (*path, *content))).unwrap();
    Chart::from_tree(&tree, "", &ArchiveLimits::default())
}

pub(crate) fn run(chart: &Chart, limits: Limits) -> Result<String, HelmError> {
    let capabilities = Capabilities::new("1.33.0", &[]).unwrap();
    let values = Map::new();
    let options = RenderOptions {
        release: "demo",
        namespace: "apps",
        values: &values,
        capabilities: &capabilities,
        include_crds: false,
        skip_schema: false,
        is_upgrade: false,
        seed: b"tests",
        clock_ms: 0,
        lookup: None,
        limits,
    };
    render(chart, &options).map(|release| release.to_text())
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.trim_end().lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn check(name: &str) -> Result<(), String> {
    let root = folder().join("charts").join(name);
    let mut found = Vec::new();
    files(&root, &root, &mut found);
    let tree = Tree::from_files(found).unwrap();
    let result = Chart::from_tree(&tree, "", &ArchiveLimits::default())
        .and_then(|chart| run(&chart, Limits::default()));
    let expected = folder().join("charts-expected");
    let (wanted, got) = match &result {
        Ok(text) => (fs::read_to_string(expected.join(format!("{name}.yaml"))), text.trim_end()),
        Err(error) => (fs::read_to_string(expected.join(format!("{name}.error"))), error.message.trim_end()),
    };
    let Ok(wanted) = wanted else { return Err(format!("{name}: {result:?}")) };
    let mut problems = Vec::new();
    let by_schema = result.as_ref().is_err_and(|error| error.stage == Stage::Schema);
    // Go visits the members of an object in no order.
    let (wanted, got) = if by_schema { (sorted(&wanted), sorted(got)) } else { (wanted, got.to_owned()) };
    for (at, (a, b)) in wanted.trim_end().lines().zip(got.lines()).enumerate() {
        if a != b {
            problems.push(format!("{name}:{}\n  wanted {a}\n  got    {b}", at + 1));
        }
    }
    if problems.is_empty() && wanted.trim_end() != got {
        problems.push(format!("{name}: wanted\n{wanted}\ngot\n{got}"));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

#[test]
fn small_charts_render_as_in_helm() {
    let mut names: Vec<String> = fs::read_dir(folder().join("charts"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() > 30, "the charts are missing");
    let problems: Vec<String> = names.iter().filter_map(|name| check(name).err()).collect();
    plural_testkit::note_compared("charts by feature", names.len() - problems.len(), names.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn template(text: &str) -> Chart {
    chart_of(&[("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"), ("templates/t.yaml", text)])
        .unwrap()
}

#[test]
fn random_functions_give_the_same_on_every_run() {
    let chart = template(
        "a: {{ randAlphaNum 20 }}\nb: {{ uuidv4 }}\nc: {{ now | date \"2006\" }}\nd: {{ shuffle \"abcdef\" }}\n\
         e: {{ randBytes 9 }}\nf: {{ randInt 1 1000 }}\ng: {{ encryptAES \"k\" \"text\" | decryptAES \"k\" }}\n\
         {{ $ca := genCA \"ca\" 10 }}{{ $c := genSignedCert \"cn\" (list \"1.2.3.4\") (list \"a.b\") 5 $ca }}\n\
         h: {{ buildCustomCert ($c.Cert | b64enc) ($c.Key | b64enc) | toString | trunc 28 | quote }}\n\
         i: {{ htpasswd \"u\" \"p\" | trunc 9 }}\nj: {{ genPrivateKey \"ecdsa\" | sha256sum }}\n",
    );
    let first = run(&chart, Limits::default()).unwrap();
    assert_eq!(first, run(&chart, Limits::default()).unwrap());
    assert!(first.contains("c: 1970") && first.contains("g: text"), "{first}");
    assert!(first.contains("h: \"{-----BEGIN CERTIFICATE-----") && first.contains("i: u:$2a$10$"), "{first}");
}

#[test]
fn limits_end_what_does_not_end() {
    let small = Limits { fuel: 100_000, bytes: 32 << 20 };
    let cases = [
        ("{{ range until 100000000 }}x{{ end }}", "limit of bytes held"),
        ("{{ range 1000000000 }}{{ end }}", "limit of fuel"),
        ("{{ repeat 2000000000 \"x\" }}", "limit of bytes held"),
        ("{{ $l := list 1 }}{{ range 60 }}{{ $l = concat $l $l }}{{ end }}", "limit of bytes held"),
        ("{{ $s := \"x\" }}{{ range 60 }}{{ $s = printf \"%s%s\" $s $s }}{{ end }}", "limit of bytes held"),
        (
            "{{ define \"x\" }}{{ template \"x\" . }}{{ end }}{{ template \"x\" . }}",
            "exceeded maximum template depth",
        ),
        ("{{ define \"x\" }}{{ include \"x\" . }}{{ end }}{{ include \"x\" . }}", "nested reference name"),
        ("{{ tpl (repeat 30000 \"{{ if true }}\") . }}", "exceeded maximum nesting"),
        ("{{ range 100 }}{{ printf \"%2000000000d\" 1 }}{{ end }}", "limit of bytes held"),
    ];
    for (text, wanted) in cases {
        let error = run(&template(text), small).unwrap_err();
        assert!(
            error.message.contains(wanted),
            "{text}: {}",
            error.message.chars().take(300).collect::<String>()
        );
    }
    let error = run(&template(cases[1].0), small).unwrap_err();
    assert_eq!(error.stage, Stage::Limit);
}

#[test]
fn what_holds_itself_is_no_danger() {
    let texts = [
        "{{ $d := dict }}{{ $_ := set $d \"d\" $d }}a: {{ toYaml $d | len }}",
        "{{ $d := dict }}{{ $_ := set $d \"d\" $d }}a: {{ toJson $d | len }}",
        "{{ $d := dict }}{{ $_ := set $d \"d\" (list $d) }}a: {{ printf \"%v\" $d | len }}",
        "{{ $d := dict }}{{ $_ := set $d \"d\" $d }}a: {{ deepEqual $d (deepCopy $d) }}",
        "{{ $d := dict }}{{ range 200000 }}{{ $d = dict \"d\" $d }}{{ end }}a: {{ kindOf $d }}",
    ];
    for text in texts {
        match run(&template(text), Limits::default()) {
            Ok(_) => {}
            Err(error) => assert!(error.message.contains("holds itself"), "{text}: {}", error.message),
        }
    }
}

#[test]
fn archives_that_lie_are_refused() {
    let limits = ArchiveLimits::default();
    let pack = |path: &str, content: &[u8]| {
        let mut tar =
            tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        tar.append(&header, content).unwrap();
        tar.into_inner().unwrap().finish().unwrap()
    };
    let big = vec![0; (5 << 20) + 1];
    let cases: [(&str, &[u8], &str); 6] = [
        ("c/../../../etc/passwd", b"x", "parent directory"),
        ("c//etc/passwd", b"x", "absolute paths"),
        ("Chart.yaml", b"x", "outside the base directory"),
        ("c/big", &big, "maximum file size"),
        ("c/values.yaml", b"a: b", "Chart.yaml file is missing"),
        ("c/Chart.yaml", b"name: [", "cannot load Chart.yaml"),
    ];
    for (path, content, wanted) in cases {
        let error = Chart::from_archive(&pack(path, content), &limits).unwrap_err();
        assert!(error.message.contains(wanted), "{path}: {error}");
        assert_eq!(error.stage, Stage::Load);
    }
    assert!(Chart::from_archive(b"not an archive", &limits).is_err());
    let error = Chart::from_archive(&pack("c/a", &big[..1 << 20]), &ArchiveLimits { bytes: 1000, ..limits })
        .unwrap_err();
    assert!(error.message.contains("larger than"), "{error}");
}

#[test]
fn flags_of_the_command_line_have_the_meaning_of_helms() {
    let chart = chart_of(&[
        ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        ("values.yaml", "a: {b: 1, c: old}\nlist: [1, 2]\n"),
        (
            "templates/a.yaml",
            "kind: A\nvalues: {{ toJson .Values | quote }}\nkube: {{ .Capabilities.KubeVersion }}\n",
        ),
        (
            "templates/b.yaml",
            "kind: B\nhas: {{ .Capabilities.APIVersions.Has \"x/v1\" }}\nns: {{ .Release.Namespace }}\n",
        ),
        ("templates/test.yaml", "kind: T\nmetadata: {annotations: {\"helm.sh/hook\": test}}\n"),
        ("crds/c.yaml", "kind: C\n"),
    ])
    .unwrap();
    let flags = TemplateFlags {
        release: "r".to_owned(),
        values: vec![
            ValueSource::Set("a.b=2,list[1]=x,d={p,q},e\\.f=1.50,n=null,t=true,z=007".to_owned()),
            ValueSource::File(b"a: {c: file, g: 1}\n".to_vec()),
            ValueSource::SetString("s=12".to_owned()),
            ValueSource::SetJson("j={\"k\": [1]},m=2".to_owned()),
            ValueSource::SetFile("file.x".to_owned(), "content, as it is".to_owned()),
            ValueSource::SetLiteral("lit=a,b=c".to_owned()),
        ],
        kube_version: "1.30".to_owned(),
        api_versions: vec!["x/v1".to_owned()],
        ..TemplateFlags::default()
    };
    let text = template_text(&chart, &flags).unwrap();
    let values = r#"{\"a\":{\"b\":2,\"c\":\"file\",\"g\":1},\"d\":[\"p\",\"q\"],\"e.f\":\"1.50\",\"file\":{\"x\":\"content, as it is\"},\"j\":{\"k\":[1]},\"list\":[null,\"x\"],\"lit\":\"a,b=c\",\"m\":2,\"n\":null,\"s\":\"12\",\"t\":true,\"z\":\"007\"}"#;
    assert_eq!(
        text,
        format!(
            "---\n# Source: c/templates/a.yaml\nkind: A\nvalues: \"{values}\"\nkube: v1.30.0\n---\n# Source: c/templates/b.yaml\n\
             kind: B\nhas: true\nns: default\n---\n# Source: c/templates/test.yaml\nkind: T\nmetadata: {{annotations: {{\"helm.sh/hook\": test}}}}\n"
        )
    );
    let only = TemplateFlags { show_only: vec!["templates/b*".to_owned()], ..flags.clone() };
    assert!(template_text(&chart, &only).unwrap().starts_with("---\n# Source: c/templates/b.yaml\nkind: B"));
    let none = TemplateFlags { show_only: vec!["nope.yaml".to_owned()], ..flags.clone() };
    assert_eq!(
        template_text(&chart, &none).unwrap_err().message,
        "could not find template nope.yaml in chart"
    );
    let more = TemplateFlags { include_crds: true, skip_tests: true, ..flags };
    let text = template_text(&chart, &more).unwrap();
    assert!(
        text.starts_with("---\n# Source: c/crds/c.yaml\nkind: C\n") && !text.contains("kind: T"),
        "{text}"
    );
}

#[test]
fn a_service_gets_the_objects_of_its_chart() {
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n  namespace: {{ .Release.Namespace }}\n";
    let tree = Tree::from_files([
        ("app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n"),
        ("app/.helmignore", "ignored*\n"),
        ("app/templates/ignored.yaml", "not: rendered"),
        ("app/templates/a.yaml", object),
        ("app/templates/b.yaml", object),
        (
            "app/templates/l.yaml",
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s}}\n",
        ),
        ("other/templates/x.yaml", "{{ fail \"not ours\" }}"),
    ])
    .unwrap();
    let inputs = Inputs {
        folder: "app".to_owned(),
        templated: true,
        service: ServiceInput { id: String::new(), name: "web".to_owned(), namespace: "prod".to_owned() },
        cluster: ClusterInput { version: "1.36.2".to_owned(), ..ClusterInput::default() },
        configuration: std::collections::BTreeMap::default(),
        contexts: serde_json::Map::new(),
        imports: serde_json::Map::new(),
        clock_ms: 0,
        seed: b"s".to_vec(),
        rendering: plural_render::RenderingInput::default(),
        api_server: None,
    };
    let rendered = plural_render::render(&tree, &inputs).unwrap();
    let names: Vec<_> = rendered.objects.iter().map(|o| (o.kind(), o.namespace(), o.name())).collect();
    assert_eq!(names, [("ConfigMap", "prod", "web"), ("Secret", "", "s")]);
    assert_eq!(rendered.warnings.len(), 1);
}
