//! Automations in the process of their own that a console starts for them, and what they cannot do there.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use plural_console::{ChildProgram, Scaffolder};
use plural_sandbox::Limits;
use plural_scaffold::{
    Merge, Outcome, Request, ScaffoldError,
    files::{Entry, Files},
    upgrade::{Merged, merge_trees},
};
use serde_json::{Value, json};

/// What the automation changes, by a console with these limits; nothing of it is left behind.
async fn ran(automation: Value, files: &[(&str, &str)], limits: Limits) -> Result<Outcome, ScaffoldError> {
    let folder = tempfile::tempdir().unwrap();
    let (work, scaffolder) = opened(folder.path(), limits);
    let request = Request {
        automation: serde_json::from_value(automation).unwrap(),
        context: json!({"name": "web"}).as_object().unwrap().clone(),
        tree: Files::of_texts(files.iter().copied()).unwrap(),
        ..Request::default()
    };
    let outcome = scaffolder.run(request).await.unwrap();
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "requests are removed");
    outcome
}

/// What comes of a merge, by a console with these limits; nothing of it is left behind.
async fn merged(merge: Merge, limits: Limits) -> Result<Merged, ScaffoldError> {
    let folder = tempfile::tempdir().unwrap();
    let (work, scaffolder) = opened(folder.path(), limits);
    let merged = scaffolder.merge_trees(merge).await.unwrap();
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "requests are removed");
    merged
}

fn opened(folder: &Path, limits: Limits) -> (PathBuf, Scaffolder) {
    let work = folder.join("automations");
    let program = ChildProgram {
        program: env!("CARGO_BIN_EXE_plural").into(),
        sandbox: "sandbox",
        child: "run-automation",
    };
    let scaffolder = Scaffolder::open(work.clone(), Some(program), limits).unwrap();
    (work, scaffolder)
}

fn script(text: &str) -> Value {
    json!({"lua": {"script": text}})
}

#[tokio::test]
async fn an_automation_changes_files_as_it_does_here() {
    let automation = json!({
        "title": "Add {{ context.name }}",
        "creates": {"templates": [{"source": "in", "destination": "{{ context.name }}.yaml"}]},
        "deletes": {"files": ["in"]},
    });
    let outcome = ran(automation, &[("in", "a: {{ context.name }}\n")], Scaffolder::LIMITS).await.unwrap();
    assert_eq!(outcome.title, "Add web");
    let Some(Entry::File(made)) = &outcome.changes["web.yaml"] else { panic!("{outcome:?}") };
    assert_eq!(made.bytes, b"a: web\n");
    assert_eq!(outcome.changes["in"], None);
    let told = ran(script("error('no')"), &[], Scaffolder::LIMITS).await.unwrap_err();
    assert!(told.to_string().contains("no"), "{told}");
}

#[tokio::test]
async fn an_automation_that_takes_too_long_is_killed() {
    // None is done in a millisecond.
    let replacement = json!({"file": "f", "regex": "[ab]+$", "replacement": "$0"});
    let automation = json!({"updates": {"regexReplacements": vec![replacement; 4000]}});
    let short = Limits { deadline: Duration::from_millis(1), ..Scaffolder::LIMITS };
    let told = ran(automation, &[("f", &"ab".repeat(10_000))], short).await.unwrap_err();
    assert!(told.to_string().contains("was killed (limit of time)"), "{told}");
}

#[tokio::test]
async fn an_automation_that_takes_too_much_memory_dies_alone() {
    let small = Limits { memory_bytes: 96 << 20, ..Scaffolder::LIMITS };
    let large = "x".repeat(3 << 20);
    let files: Vec<(String, &str)> = (0..30).map(|at| (format!("f{at}"), large.as_str())).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let told = ran(json!({}), &files, small).await.unwrap_err();
    // What the process wrote is not told: it may hold answers.
    assert!(told.to_string().starts_with("run: the automation's process failed ("), "{told}");
    assert!(ran(json!({}), &[("f", "x")], small).await.unwrap().changes.is_empty(), "the next one runs");
}

#[tokio::test]
async fn a_disk_that_takes_nothing_is_no_fault_of_an_automation() {
    let folder = tempfile::tempdir().unwrap();
    let (work, scaffolder) = opened(folder.path(), Scaffolder::LIMITS);
    std::fs::remove_dir(&work).unwrap();
    let error = scaffolder.run(Request::default()).await.unwrap_err();
    assert!(matches!(error, plural_core::Error::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn trees_are_merged_as_they_are_here() {
    let tree = |text: &str| Files::of_texts([("f", text)]).unwrap();
    let merge =
        |theirs: &str| Merge { base: tree("a\nb\nc\nd\n"), theirs: tree(theirs), ours: tree("a\nb\nc\nD\n") };
    for theirs in ["a\nB\nc\nd\n", "a\nb\nc\nE\n"] {
        let Merge { base, theirs: new, ours } = merge(theirs);
        let here = merge_trees(&base, &new, &ours);
        assert!(!here.changes.is_empty());
        assert_eq!(merged(merge(theirs), Scaffolder::LIMITS).await, Ok(here));
    }
    // What it needs is more than it may have: it dies, and the console does not.
    let large = "x".repeat(3 << 20);
    let files: Vec<(String, &str)> = (0..30).map(|at| (format!("f{at}"), large.as_str())).collect();
    let theirs = Files::of_texts(files.iter().map(|(path, text)| (path.as_str(), *text))).unwrap();
    let small = Limits { memory_bytes: 96 << 20, ..Scaffolder::LIMITS };
    let told = merged(Merge { theirs, ..Merge::default() }, small).await.unwrap_err();
    assert!(told.to_string().starts_with("run: the automation's process failed ("), "{told}");
}

#[tokio::test]
async fn an_automation_reaches_no_file_of_the_machine() {
    for path in ["/etc/passwd", "../request.json", "request.json"] {
        let reads = format!("if require('fs').read('{path}') then error('it was read') end");
        let told = ran(script(&reads), &[("own", "x")], Scaffolder::LIMITS).await;
        assert!(!format!("{told:?}").contains("it was read"), "{path}: {told:?}");
    }
    let own = script("if require('fs').read('own') then error('it was read') end");
    let told = ran(own, &[("own", "x")], Scaffolder::LIMITS).await;
    assert!(format!("{told:?}").contains("it was read"), "{told:?}");
}
