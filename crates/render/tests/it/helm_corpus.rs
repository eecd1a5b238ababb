//! Real charts and what the real Helm makes of them. The corpus lies outside the repository:
//! `PLURAL_CORPUS` names the folder that holds it. `PLURAL_CORPUS_ONLY` narrows to cases whose id contains it,
//! `PLURAL_CORPUS_SHOW` writes what came out into a folder.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use plural_render::helm::{
    ArchiveLimits, Capabilities, Chart, HelmError, Limits, RenderOptions, Stage, render,
};
use plural_testkit::{corpus_or_report, exclusive_blocking, note_compared};
use serde_json::{Map, Value};

/// A fixed moment at the time of day at which the corpus was rendered: 2026-01-02 01:39:05 UTC.
const CLOCK_MS: i64 = 1_767_317_945_000;

#[derive(Debug)]
struct Case {
    id: String,
    chart: PathBuf,
    values: Map<String, Value>,
    spec: Value,
    expected: Option<String>,
}

fn read_expected(folder: &Path, name: &str) -> String {
    let bytes = fs::read(folder.join(name)).unwrap();
    if Path::new(name).extension().is_some_and(|extension| extension == "gz") {
        let mut text = String::new();
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
        return text;
    }
    String::from_utf8(bytes).unwrap()
}

fn case(root: &Path, folder: &Path) -> Case {
    let spec: Value = serde_json::from_slice(&fs::read(folder.join("case.json")).unwrap()).unwrap();
    let values = match plural_render::yaml::parse(&fs::read(folder.join("values.yaml")).unwrap_or_default())
        .unwrap()
    {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    Case {
        id: spec["id"].as_str().unwrap().to_owned(),
        chart: root.join(spec["chart_archive"].as_str().unwrap()),
        values,
        expected: spec["expected"]
            .as_str()
            .filter(|_| spec["expect_error"].is_null())
            .map(|n| read_expected(folder, n)),
        spec,
    }
}

fn run(case: &Case, chart: &Chart) -> Result<String, HelmError> {
    let text = |key: &str| case.spec[key].as_str().unwrap_or_default();
    let flag = |key: &str| case.spec[key].as_bool().unwrap_or(false);
    let apis: Vec<String> = case.spec["api_versions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|v| v.as_str().unwrap().to_owned())
        .collect();
    let capabilities = Capabilities::new(text("kube_version"), &apis).unwrap();
    let options = RenderOptions {
        release: text("release"),
        namespace: text("namespace"),
        values: &case.values,
        capabilities: &capabilities,
        include_crds: flag("include_crds"),
        skip_schema: flag("skip_schema_validation"),
        is_upgrade: false,
        seed: b"corpus",
        clock_ms: CLOCK_MS,
        lookup: None,
        limits: Limits::default(),
    };
    render(chart, &options).map(|release| release.to_text())
}

/// Documents by source and head, with what the case says to mask taken out.
fn masked(text: &str, paths: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut documents: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for part in format!("\n{text}").split("\n---\n# Source: ").skip(1) {
        let (source, body) = part.split_once('\n').unwrap_or((part, ""));
        let mut value = plural_render::yaml::parse(body.as_bytes()).unwrap_or(Value::Null);
        let head = format!(
            "{source} {}/{}",
            value["kind"].as_str().unwrap_or_default(),
            value["metadata"]["name"].as_str().unwrap_or_default()
        );
        let mut unordered = false;
        // A document whose name is random is known by its source and kind.
        for path in paths.iter().filter(|path| path.starts_with(&format!("{source} "))) {
            let Some((known, pointer)) = path[source.len() + 1..].split_once(" .") else { continue };
            let same_kind = known.split('/').next() == value["kind"].as_str();
            let renamed = format!("{source} {known} .metadata.name");
            if same_kind && paths.contains(&renamed) && head != format!("{source} {known}") {
                mask(&mut value, &format!(".{pointer}"));
            }
        }
        for path in paths {
            if let Some(rest) = path.strip_prefix(&head) {
                match rest.trim_start() {
                    "" | "(text only)" => unordered = true,
                    pointer => mask(&mut value, pointer),
                }
            }
        }
        let shown = if unordered { "masked".to_owned() } else { value.to_string() };
        documents.entry(source.to_owned()).or_default().push(shown);
    }
    for list in documents.values_mut() {
        list.sort();
    }
    documents
}

/// Replaces what lies at `.a.b[0]."c.d"`; only as far as the path can be followed.
fn mask(value: &mut Value, path: &str) {
    let mut rest = path;
    let mut place = value;
    while !rest.is_empty() {
        let (step, after) = if let Some(tail) = rest.strip_prefix('[') {
            match tail.split_once(']') {
                Some((step, after)) => (step.trim_matches('"').to_owned(), after),
                None => break,
            }
        } else {
            let tail = rest.strip_prefix('.').unwrap_or(rest);
            // Keys may hold dots: the longest that exists is meant.
            let keys: Vec<&str> =
                place.as_object().map(|m| m.keys().map(String::as_str).collect()).unwrap_or_default();
            let found = keys.into_iter().filter(|key| tail.starts_with(key)).max_by_key(|key| key.len());
            match found {
                Some(key) => (key.to_owned(), &tail[key.len()..]),
                None => break,
            }
        };
        rest = after;
        let next = match place {
            Value::Object(map) => map.get_mut(&step),
            Value::Array(items) => step.parse::<usize>().ok().and_then(|at| items.get_mut(at)),
            _ => None,
        };
        let Some(next) = next else { return };
        place = next;
    }
    *place = Value::String("masked".to_owned());
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Load => "load",
        Stage::Dependencies => "dependencies",
        Stage::Values => "values",
        Stage::Schema => "schema",
        Stage::KubeVersion => "kube-version",
        Stage::Render => "render",
        Stage::Sort => "sort",
        Stage::Limit => "limit",
    }
}

fn difference(expected: &str, actual: &str) -> String {
    let mut lines = expected.lines().zip(actual.lines()).enumerate();
    match lines.find(|(_, (a, b))| a != b) {
        Some((at, (a, b))) => format!("line {}:\n  expected {a:?}\n  actual   {b:?}", at + 1),
        None => format!("lengths {} and {} lines", expected.lines().count(), actual.lines().count()),
    }
}

fn check(case: &Case) -> Result<(), String> {
    let archive = fs::read(&case.chart).unwrap();
    let result = Chart::from_archive(&archive, &ArchiveLimits::default()).and_then(|chart| run(case, &chart));
    let wanted = &case.spec["expect_error"];
    match (&case.expected, result) {
        (Some(expected), Ok(actual)) => {
            if *expected == actual {
                return Ok(());
            }
            if case.spec["nondeterministic"] == true {
                let paths: Vec<String> = case.spec["nondeterministic_paths"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|p| p.as_str().unwrap().to_owned())
                    .collect();
                let (a, b) = (masked(expected, &paths), masked(&actual, &paths));
                if a == b {
                    return Ok(());
                }
                let source = a.keys().chain(b.keys()).find(|key| a.get(*key) != b.get(*key)).unwrap();
                let list =
                    |m: &BTreeMap<String, Vec<String>>| m.get(source).cloned().unwrap_or_default().join("\n");
                let (x, y) = (list(&a), list(&b));
                let at = x.bytes().zip(y.bytes()).take_while(|(a, b)| a == b).count();
                let cut = |text: &str| {
                    String::from_utf8_lossy(
                        &text.as_bytes()[at.saturating_sub(80).min(text.len())..(at + 120).min(text.len())],
                    )
                    .into_owned()
                };
                return Err(format!("masked {source}:\n  expected …{}\n  actual   …{}", cut(&x), cut(&y)));
            }
            if let Some(folder) = std::env::var_os("PLURAL_CORPUS_SHOW") {
                fs::write(Path::new(&folder).join(&case.id), &actual).unwrap();
            }
            Err(difference(expected, &actual))
        }
        (Some(_), Err(error)) => Err(format!("{}: {error}", stage_name(error.stage))),
        (None, Ok(_)) => Err(format!("rendered, but must fail: {}", wanted["message"])),
        (None, Err(error)) => {
            let stage = wanted["stage"].as_str().unwrap();
            let message = wanted["error_substring"].as_str().or(wanted["message"].as_str()).unwrap();
            if stage_name(error.stage) == stage && error.message.contains(message) {
                return Ok(());
            }
            Err(format!("{}: {}\n  expected {stage}: {message}", stage_name(error.stage), error.message))
        }
    }
}

/// Cases that must pass: raised as more do, never lowered.
const FLOOR: usize = 875;

#[test]
fn renders_as_helm_does() {
    let Some(root) = corpus_or_report("helm-corpus") else { return };
    let _alone = exclusive_blocking();
    let filter = std::env::var("PLURAL_CORPUS_ONLY").unwrap_or_default();
    let mut folders: Vec<PathBuf> =
        fs::read_dir(root.join("cases")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders.retain(|folder| folder.file_name().unwrap().to_string_lossy().contains(&filter));
    let total = folders.len();
    let queue = Mutex::new(folders.into_iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(folder) = queue.lock().next() else { return };
                    let case = case(&root, &folder);
                    if let Err(problem) = check(&case) {
                        failures.lock().push((case.id, problem));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner();
    failures.sort();
    let passed = total - failures.len();
    let mut report = String::new();
    for (id, problem) in &failures {
        let short: String = problem.chars().take(7000).collect();
        let _ = writeln!(report, "{id}: {short}");
    }
    println!("{report}helm corpus: {passed}/{total} passed");
    note_compared("charts of the Helm corpus", passed, total);
    assert!(!filter.is_empty() || passed >= FLOOR, "fewer than {FLOOR} cases pass\n{report}");
}
