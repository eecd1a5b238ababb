//! Merges of three trees.

use std::time::{Duration, Instant};

use plural_scaffold::{
    files::{Entry, File, Files},
    run,
    upgrade::{Conflict, Merged, merge_text, merge_trees, merge_trees_until},
};
use serde_json::json;

use super::{automations::chart, request};

#[test]
fn changes_of_both_sides_meet() {
    let base = "a\nb\nc\nd\n";
    assert_eq!(merge_text(base, "a\nB\nc\nd\n", "a\nb\nc\nD\n"), Some(("a\nB\nc\nD\n".to_owned(), true)));
    assert_eq!(merge_text(base, "a\nb\nc\nd\n", "x\na\nb\n"), Some(("x\na\nb\n".to_owned(), true)));
    assert_eq!(merge_text(base, "a\nX\nc\nd\n", "a\nX\nc\nd\n"), Some(("a\nX\nc\nd\n".to_owned(), true)));
    let (text, is_clean) = merge_text(base, "a\nT\nc\nd\n", "a\nO\nc\nd\n").unwrap();
    assert!(!is_clean);
    assert_eq!(text, "a\n<<<<<<< repository\nO\n=======\nT\n>>>>>>> automation\nc\nd\n");
    assert_eq!(merge_text("", &"a\n".repeat(20_001), ""), None);
}

#[test]
fn a_merge_has_an_end() {
    let tree = |text: &str| Files::of_texts([("f", text)]).unwrap();
    let (base, theirs, ours) = (tree("a\nb\nc\nd\n"), tree("a\nB\nc\nd\n"), tree("a\nb\nc\nD\n"));
    let conflict = |merged: &Merged| merged.conflicts.get("f").copied();
    // What takes too long is told, and the file stays as it is: half a comparison would be another merge.
    let merged = merge_trees_until(&base, &theirs, &ours, Instant::now());
    assert_eq!((conflict(&merged), merged.changes.len()), (Some(Conflict::TooLarge), 0));
    let merged = merge_trees_until(&base, &theirs, &ours, Instant::now() + Duration::from_mins(1));
    assert_eq!((conflict(&merged), merged.changes.len()), (None, 1));
    // One long line, twice changed.
    let long = "x".repeat((4 << 20) + 1);
    let merged = merge_trees(&base, &tree(&long), &ours);
    assert_eq!((conflict(&merged), merged.changes.len()), (Some(Conflict::TooLarge), 0));
    assert_eq!(merge_text("", &long, ""), None);
}

#[test]
fn conflicts_are_told_by_file() {
    let tree = |texts: &[(&str, &str)]| Files::of_texts(texts.iter().copied()).unwrap();
    let base = tree(&[
        ("same", "1"),
        ("new", "1"),
        ("own", "1"),
        ("gone", "1"),
        ("kept", "1"),
        ("both", "1\n"),
        ("lost", "1"),
    ]);
    let theirs =
        tree(&[("same", "1"), ("new", "2"), ("own", "1"), ("both", "2\n"), ("lost", "2"), ("made", "t\n")]);
    let ours = tree(&[
        ("same", "1"),
        ("new", "1"),
        ("own", "2"),
        ("gone", "1"),
        ("kept", "2"),
        ("both", "3\n"),
        ("made", "o\n"),
        ("other", "x"),
    ]);
    let merged = merge_trees(&base, &theirs, &ours);
    let conflicts: Vec<_> =
        merged.conflicts.iter().map(|(path, conflict)| (path.as_str(), *conflict)).collect();
    assert_eq!(
        conflicts,
        [
            ("both", Conflict::Lines),
            ("kept", Conflict::ChangedHere),
            ("lost", Conflict::DeletedHere),
            ("made", Conflict::BothMade),
        ]
    );
    let changed: Vec<_> = merged.changes.keys().map(String::as_str).collect();
    assert_eq!(changed, ["both", "gone", "made", "new"]);
    assert_eq!(merged.changes["gone"], None);
    assert_eq!(merged.changes["new"], Some(Entry::File(File { bytes: b"2".to_vec(), executable: false })));
}

#[test]
fn an_upgrade_done_twice_is_done_once() {
    let base = Files::of_texts([("a", "1\n2\n3\n")]).unwrap();
    let theirs = Files::of_texts([("a", "1\n2\nthree\n")]).unwrap();
    let mut ours = Files::of_texts([("a", "one\n2\n3\n")]).unwrap();
    let merged = merge_trees(&base, &theirs, &ours);
    assert!(merged.conflicts.is_empty());
    ours.insert("a", merged.changes["a"].clone().unwrap()).unwrap();
    assert_eq!(ours.file("a").unwrap().bytes, b"one\n2\nthree\n");
    assert!(merge_trees(&theirs, &theirs, &ours).changes.is_empty());
}

/// What comes from elsewhere: each version runs with what there was of it.
#[test]
fn templates_of_elsewhere_and_charts_meet_what_people_changed() {
    let automation = json!({
        "configuration": [{"name": "app"}],
        "vendor": {"helm": {"url": "https://charts.example.com", "chart": "web", "version": "1.x", "destination": "charts/web"}},
        "creates": {"templates": [{"source": "app.yaml", "destination": "apps/{{ context.app }}.yaml", "external": true}]},
    });
    let made = |template: &str, values: &str| {
        let mut asked = request(automation.clone(), json!({"app": "shop"}), &[], &[("app.yaml", template)]);
        let chart = chart(&[("web/Chart.yaml", "name: web\n"), ("web/values.yaml", values)]);
        asked.chart = Some(File { bytes: chart, executable: false });
        let mut tree = Files::default();
        for (path, after) in run(&asked).unwrap().changes {
            tree.insert(&path, after.unwrap()).unwrap();
        }
        tree
    };
    let base = made("name: {{ context.app }}\nreplicas: 1\nkind: app\nport: 80\n", "a: 1\nb: 2\nc: 3\n");
    let theirs = made("name: {{ context.app }}\nreplicas: 1\nkind: app\nport: 8080\n", "a: 1\nb: 2\nc: 4\n");
    let ours = made("name: {{ context.app }}\nreplicas: 3\nkind: app\nport: 80\n", "a: 9\nb: 2\nc: 3\n");
    let merged = merge_trees(&base, &theirs, &ours);
    assert!(merged.conflicts.is_empty(), "{:?}", merged.conflicts);
    let text = |path: &str| match &merged.changes[path] {
        Some(Entry::File(file)) => String::from_utf8(file.bytes.clone()).unwrap(),
        other => panic!("{path}: {other:?}"),
    };
    assert_eq!(merged.changes.len(), 2, "{:?}", merged.changes.keys());
    assert_eq!(text("apps/shop.yaml"), "name: shop\nreplicas: 3\nkind: app\nport: 8080\n");
    assert_eq!(text("charts/web/values.yaml"), "a: 9\nb: 2\nc: 4\n");
}
