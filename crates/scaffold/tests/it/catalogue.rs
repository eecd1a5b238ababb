//! Automations in the shapes of public catalogues, on one repository: `catalogue/automations/NAME` has each with its answers, and what it
//! makes of `catalogue/repository`, with the external templates of `catalogue/scaffolds` and the chart in a folder of its own. The whole
//! product's tests run the same by the command line and by a console.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use plural_core::pr_automation_spec::PrAutomationSpec;
use plural_scaffold::{
    Request,
    automation::Automation,
    document::{Document, documents},
    files::{Entry, File, Files},
    run,
};
use serde_json::{Map, Value};

use super::automations::chart;

fn catalogue() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/catalogue")
}

/// The files below a folder, by their paths in it.
fn below(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(here) = folders.pop() {
        for entry in fs::read_dir(&here).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// A folder as a tree.
fn tree_of(folder: &Path) -> Files {
    let mut tree = Files::default();
    for (path, bytes) in below(folder) {
        tree.insert(&path, Entry::File(File { bytes, executable: false })).unwrap();
    }
    tree
}

/// The chart beside an automation, as a registry has it.
fn chart_of(folder: &Path) -> Option<File> {
    let files = below(&folder.join("chart"));
    let files: Vec<(String, String)> = files
        .into_iter()
        .map(|(path, bytes)| (format!("redis/{path}"), String::from_utf8(bytes).unwrap()))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    (!files.is_empty()).then(|| File { bytes: chart(&files), executable: false })
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(catalogue().join("automations")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn automation(folder: &Path) -> (Automation, Value) {
    let text = fs::read_to_string(folder.join("automation.yaml")).unwrap();
    let found = documents(&text).unwrap();
    let [Document::Automation { automation, .. }] = found.as_slice() else { panic!("{found:?}") };
    let value = plural_render::yaml::parse(text.as_bytes()).unwrap();
    (Automation::clone(automation), value["spec"].clone())
}

#[test]
fn automations_of_a_catalogue_make_what_is_expected() {
    let tree = tree_of(&catalogue().join("repository"));
    let external = tree_of(&catalogue().join("scaffolds"));
    for name in names() {
        let folder = catalogue().join("automations").join(&name);
        let Value::Object(answers) = json(&folder.join("answers.json")) else { panic!("{name}") };
        let (automation, _) = automation(&folder);
        let request = Request {
            automation,
            answers,
            tree: tree.clone(),
            external: external.clone(),
            chart: chart_of(&folder),
            seed: "catalogue".to_owned(),
            ..Request::default()
        };
        let outcome = run(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
        let told = json(&folder.join("expected.json"));
        assert_eq!(
            (&outcome.title, &outcome.message),
            (&text(&told["title"]), &text(&told["message"])),
            "{name}"
        );
        let skipped: Vec<String> = told["skipped"].as_array().unwrap().iter().map(text).collect();
        assert_eq!(outcome.skipped, skipped, "{name}");
        let mut expected: BTreeMap<String, Option<Vec<u8>>> =
            below(&folder.join("expected")).into_iter().map(|(path, bytes)| (path, Some(bytes))).collect();
        expected.extend(told["removed"].as_array().unwrap().iter().map(|path| (text(path), None)));
        let found: BTreeSet<&String> = outcome.changes.keys().collect();
        assert_eq!(found, expected.keys().collect(), "{name}");
        for (path, after) in &outcome.changes {
            let after = after.as_ref().map(|entry| match entry {
                Entry::File(file) => String::from_utf8(file.bytes.clone()).unwrap(),
                Entry::Link(target) => panic!("{name}: {path} leads to {target}"),
            });
            let expected = expected[path].clone().map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(after, expected, "{name}: {path}");
        }
        // On what it made, it makes nothing more, where it takes nothing away.
        let again = run(&Request { tree: after(&tree, &outcome.changes), ..request });
        if outcome.changes.values().all(Option::is_some) {
            assert_eq!(again.unwrap().changes, BTreeMap::new(), "{name}, done twice");
        }
    }
}

/// The tree with these changes.
fn after(tree: &Files, changes: &BTreeMap<String, Option<Entry>>) -> Files {
    let mut tree = tree.clone();
    for (path, entry) in changes {
        match entry {
            Some(entry) => tree.insert(path, entry.clone()).unwrap(),
            None => assert!(tree.remove(path), "{path}"),
        }
    }
    tree
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// What makes a catalogue worth something: at least thirty, and each part of an automation that a console does is in some.
#[test]
fn the_catalogue_has_every_part_that_a_console_does() {
    let names = names();
    assert!(names.len() >= 30, "{names:?}");
    let mut parts: BTreeSet<String> = BTreeSet::new();
    for name in &names {
        let (_, spec) = automation(&catalogue().join("automations").join(name));
        let Value::Object(spec) = spec else { panic!("{name}") };
        // As a console keeps it.
        let mut kept: Map<String, Value> = spec.clone();
        kept.remove("role");
        let kept: PrAutomationSpec =
            serde_json::from_value(kept.into()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let is_external = kept.git.is_some();
        let kept_parts = serde_json::to_value(&kept).unwrap();
        kept.check(is_external).unwrap_or_else(|error| panic!("{name}: {error}"));
        let kinds = spec["configuration"].as_array().unwrap().iter().map(|question| text(&question["type"]));
        parts.extend(kinds);
        for part in ["creates", "updates", "deletes"] {
            let inside = spec.get(part).and_then(Value::as_object).into_iter().flatten();
            parts.extend(inside.map(|(inner, _)| format!("{part}.{inner}")));
        }
        let steps = [
            ("templates", &kept_parts["creates"]["templates"]),
            ("yamlOverlays", &kept_parts["updates"]["yamlOverlays"]),
        ];
        for (of, steps) in steps {
            let fields = steps.as_array().into_iter().flatten().filter_map(Value::as_object).flatten();
            parts.extend(
                fields.filter(|(_, value)| **value != false).map(|(field, _)| format!("{of}.{field}")),
            );
        }
        let edits = kept_parts["updates"]["edits"].as_array().into_iter().flatten();
        parts.extend(edits.map(|edit| format!("edits.{}", text(&edit["edit"]["op"]))));
        parts.extend(spec.keys().cloned());
        parts.extend(spec.get("role").map(text));
    }
    for part in [
        "STRING",
        "INT",
        "BOOL",
        "JSON",
        "ENUM",
        "CLUSTER",
        "PROJECT",
        "USER",
        "GROUP",
        "PASSWORD",
        "creates.templates",
        "templates.external",
        "templates.verbatim",
        "templates.condition",
        "templates.context",
        "updates.regexReplacements",
        "updates.yamlOverlays",
        "yamlOverlays.document",
        "yamlOverlays.listKey",
        "updates.edits",
        "edits.set",
        "edits.delete",
        "edits.merge",
        "edits.append",
        "edits.express",
        "edits.block",
        "updates.regexes",
        "deletes.files",
        "deletes.folders",
        "lua",
        "vendor",
        "secrets",
        "git",
        "confirmation",
        "labels",
        "CLUSTER",
        "SERVICE",
        "UPDATE",
        "UPGRADE",
        "COST",
    ] {
        assert!(parts.contains(part), "{part}: {parts:?}");
    }
}
