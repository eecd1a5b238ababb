//! Input that means harm.

use plural_scaffold::{
    ScaffoldError,
    files::{Entry, File, Files, clean_path},
    run,
};
use serde_json::json;

use super::{refused, request, text, with_context};

#[test]
fn paths_stay_in_the_tree() {
    for path in [
        "../x",
        "a/../../x",
        "/etc/passwd",
        ".git/config",
        "a/.GIT/hooks/x",
        ".git./x",
        "-rf",
        "a/-x",
        "a\nb",
        "a\\b",
        "",
        ".",
        "git~1/x",
    ] {
        assert!(clean_path(path).is_err(), "{path:?}");
        let automation =
            json!({"creates": {"templates": [{"source": "in", "destination": "out/{{ context.p }}"}]}});
        if path.contains("..") || path.contains('\n') || path.contains('\\') || path.contains(".git") {
            let told = refused(&with_context(automation, json!({"p": path}), &[("in", "x")]));
            assert!(told.contains("the path"), "{told}");
        }
    }
    assert_eq!(clean_path("./a//b/.gitignore").unwrap(), "a/b/.gitignore");
}

#[test]
fn links_are_not_followed() {
    let automation = json!({
        "creates": {"templates": [{"source": "in", "destination": "link/x"}]},
    });
    let mut asked = with_context(automation, json!({}), &[("in", "x")]);
    asked.tree.insert("link", Entry::Link("/etc".to_owned())).unwrap();
    assert!(refused(&asked).contains("through the link link"));
    let mut asked = with_context(
        json!({"updates": {"regexReplacements": [{"file": "link", "regex": "a", "replacement": "b"}]}}),
        json!({}),
        &[],
    );
    asked.tree.insert("link", Entry::Link("/etc/passwd".to_owned())).unwrap();
    assert!(refused(&asked).contains("is a link"));
}

#[test]
fn an_answer_is_no_template_no_yaml_and_no_group() {
    let automation = json!({
        "configuration": [{"name": "v"}],
        "title": "Set {{ context.v }}",
        "updates": {
            "regexReplacements": [{"file": "r", "regex": "(old)", "replacement": "{{ context.v }}"}],
            "edits": [{"file": "v.yaml", "edit": {"op": "set", "path": "a", "value": "{{ context.v }}"}}],
        },
    });
    let hostile = "{{ 'x' | upcase }} $1\nb: [1] # {% raw %}";
    let outcome =
        run(&request(automation, json!({"v": hostile}), &[("r", "old"), ("v.yaml", "a: 1\n")], &[])).unwrap();
    assert_eq!(text(&outcome, "r"), hostile);
    assert_eq!(text(&outcome, "v.yaml"), "a: |-\n  {{ 'x' | upcase }} $1\n  b: [1] # {% raw %}\n");
    assert_eq!(outcome.title, "Set {{ 'x' | upcase }} $1 b: [1] # {% raw %}");
    let overlay = json!({
        "configuration": [{"name": "v"}],
        "updates": {"yamlOverlays": [{"file": "v.yaml", "templated": true, "yaml": "a: {{ context.v }}\n"}]},
    });
    let told = refused(&request(overlay, json!({"v": "1\nb: injected"}), &[("v.yaml", "a: 1\n")], &[]));
    assert!(told.contains("toJson"), "{told}");
    let quoted = json!({
        "configuration": [{"name": "v"}],
        "updates": {"yamlOverlays": [{"file": "v.yaml", "templated": true, "yaml": "a: {{ context.v | toJson }}\n"}]},
    });
    let outcome =
        run(&request(quoted, json!({"v": "1\nb: injected"}), &[("v.yaml", "a: 1\n")], &[])).unwrap();
    assert_eq!(text(&outcome, "v.yaml"), "a: |-\n  1\n  b: injected\n");
}

#[test]
fn what_has_no_end_is_ended() {
    let create = json!({"creates": {"templates": [{"source": "in", "destination": "out"}]}});
    for (template, why) in [
        ("{% for i in (1..1000000000) %}x{% endfor %}", "loops more than"),
        ("{{ 'x' | repeat: 2000000000 }}", ""),
        ("{% for i in (1..300) %}{% for j in (1..400) %}x{% endfor %}{% endfor %}", "loops more than"),
    ] {
        let told = refused(&with_context(create.clone(), json!({}), &[("in", template)]));
        assert!(told.contains(why), "{told}");
    }
    let deep = "{% if true %}".repeat(200);
    assert!(refused(&with_context(create, json!({}), &[("in", &deep)])).contains("nest deeper"));
    let regex = |regex: &str| json!({"updates": {"regexReplacements": [{"file": "f", "regex": regex, "replacement": "$0$0$0$0"}]}});
    let long = "a".repeat(3 << 20);
    assert!(
        refused(&with_context(regex("((a{100}){100}){100}"), json!({}), &[("f", "a")])).contains("too large")
    );
    assert!(refused(&with_context(regex("a"), json!({}), &[("f", &long)])).contains("larger than"));
    // Backtracking would take for ever; this one takes linear time.
    run(&with_context(regex("(a*)*b"), json!({}), &[("f", &"a".repeat(20_000))])).unwrap();
    for (script, why) in [
        ("while true do end", "steps"),
        ("local s = 'x' while true do s = s .. s end", "memory"),
        ("context = io.open('/etc/passwd')", "io"),
        ("os.execute('id')", "execute"),
        ("local t, why = require('fs').read('../secret') error(why)", "outside"),
        ("dofile('/etc/passwd')", "dofile"),
    ] {
        let told = refused(&with_context(json!({"lua": {"script": script}}), json!({}), &[("secret", "x")]));
        assert!(told.contains(why), "{script}: {told}");
    }
}

#[test]
fn what_is_large_is_refused() {
    let automation = json!({
        "configuration": [{"name": "v"}],
        "creates": {"templates": [{"source": "in", "destination": "out"}]},
    });
    let asked = request(automation.clone(), json!({"v": "x".repeat(1 << 20)}), &[("in", "x")], &[]);
    assert!(matches!(run(&asked), Err(ScaffoldError::Answers(_))));
    let large = "x".repeat(5 << 20);
    let asked = request(automation, json!({"v": "x"}), &[("in", &large)], &[]);
    assert!(refused(&asked).contains("larger than"));
}

#[test]
fn secrets_are_in_files_alone() {
    let automation = json!({
        "configuration": [{"name": "p", "type": "PASSWORD"}],
        "title": "{{ context.p }}",
        "message": "set to {{ context.p }}",
        "creates": {"templates": [{"source": "in", "destination": "out"}]},
    });
    let asked = request(automation.clone(), json!({"p": "hunter22"}), &[("in", "{{ context.p }}")], &[]);
    let outcome = run(&asked).unwrap();
    assert_eq!(text(&outcome, "out"), "hunter22");
    assert!(!outcome.title.contains("hunter22") && !outcome.message.contains("hunter22"));
    let asked = request(automation, json!({"p": "hunter22"}), &[("in", "{{ context.p | fail }}")], &[]);
    assert!(!refused(&asked).contains("hunter22"));
}

#[test]
fn a_file_that_is_missing_is_named() {
    for automation in [
        json!({"creates": {"templates": [{"source": "no.yaml", "destination": "out"}]}}),
        json!({"updates": {"regexReplacements": [{"file": "no.yaml", "regex": "a", "replacement": "b"}]}}),
        json!({"updates": {"yamlOverlays": [{"file": "no.yaml", "yaml": "a: 1"}]}}),
        json!({"updates": {"edits": [{"file": "no.yaml", "edit": {"op": "delete", "path": "a"}}]}}),
    ] {
        let told = refused(&with_context(automation, json!({}), &[("a", "x")]));
        assert!(told.contains("no.yaml") && told.contains("does not exist"), "{told}");
    }
}

#[test]
fn the_child_answers_as_the_function() {
    let automation = json!({"creates": {"templates": [{"source": "in", "destination": "out"}]}});
    let mut asked = with_context(automation, json!({"a": 1}), &[("in", "{{ context.a }}")]);
    asked.tree.insert("run.sh", Entry::File(File { bytes: vec![0, 255], executable: true })).unwrap();
    let written = serde_json::to_vec(&asked).unwrap();
    let read: plural_scaffold::Request = serde_json::from_slice(&written).unwrap();
    let done = run(&read);
    assert_eq!(done, run(&asked));
    assert_eq!(plural_scaffold::read_answer(&serde_json::to_vec(&done).unwrap()), done);
    assert!(plural_scaffold::read_answer(b"{").is_err());
    assert_eq!(Files::default().len(), 0);
}
