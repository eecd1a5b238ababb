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
        refused(&with_context(regex("((a{100}){100}){100}"), json!({}), &[("f", "a")]))
            .contains("invalid repeat count")
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
fn no_error_shows_a_part_of_a_secret() {
    let configuration = json!([{"name": "p", "type": "PASSWORD"}]);
    let path = json!({
        "configuration": configuration,
        "creates": {"templates": [{"source": "in", "destination": "{{ context.p }}/../x"}]},
    });
    let long = "secret-".repeat(30);
    for secret in [long.as_str(), "quo\"ted-secret"] {
        let told = refused(&request(path.clone(), json!({"p": secret}), &[("in", "x")], &[]));
        assert!(!told.contains("secret-secret") && !told.contains("ted-secret"), "{told}");
    }
    let regex = json!({
        "configuration": configuration,
        "updates": {"regexReplacements": [{"file": "f", "regex": "{{ context.p }}(", "replacement": "b"}]},
    });
    let told = refused(&request(regex, json!({"p": "quo\"ted-secret"}), &[("f", "x")], &[]));
    assert!(!told.contains("ted-secret"), "{told}");
}

#[test]
fn an_answer_is_no_glob() {
    let files = [("apps/a.yaml", "1"), ("apps/*.yaml", "2"), ("apps/[a].yaml", "3"), ("b", "4")];
    let deleted = |glob: &str, answer: &str| {
        let automation = json!({"configuration": [{"name": "v"}], "deletes": {"files": [glob]}});
        let outcome = run(&request(automation, json!({"v": answer}), &files, &[]));
        outcome.map(|outcome| outcome.changes.into_keys().collect::<Vec<_>>())
    };
    for (glob, answer, expected) in [
        ("apps/{{ context.v }}.yaml", "a", "apps/a.yaml"),
        ("apps/{{ context.v }}.yaml", "*", "apps/*.yaml"),
        ("apps/{{ context.v }}.yaml", "[a]", "apps/[a].yaml"),
        ("{{ context.v }}", "b", "b"),
    ] {
        assert_eq!(deleted(glob, answer).unwrap(), [expected], "{glob} {answer}");
    }
    for (glob, answer) in [("{{ context.v }}", "**"), ("apps/{{ context.v }}", "{a.yaml,b.yaml}")] {
        assert!(deleted(glob, answer).unwrap().is_empty(), "{glob} {answer}");
    }
    // An answer that leaves nothing but stars leaves the whole repository.
    for glob in ["{{ context.v }}/**", "{{ context.v }}/**/*"] {
        assert!(deleted(glob, ".").unwrap_err().to_string().contains("whole repository"), "{glob}");
    }
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

/// A file that is made of an answer, in a template of its language.
fn made(path: &str, template: &str, answer: &str, more: &serde_json::Value) -> Result<String, String> {
    let mut made = json!({"source": "in", "destination": path});
    made.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let automation = json!({"configuration": [{"name": "v"}], "creates": {"templates": [made]}});
    match run(&request(automation, json!({"v": answer}), &[("in", template)], &[])) {
        Ok(outcome) => Ok(text(&outcome, path).to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn an_answer_is_one_value_of_a_file_that_is_made() {
    let none = json!({});
    for (path, template, answer) in [
        ("a.yaml", "a: {{ context.v }}\n", "1\nb: 2"),
        ("a.yaml", "a: \"{{ context.v }}\"\n", "1\"\nb: \"2"),
        ("a.yaml", "- {{ context.v }}\n", "1\n- 2"),
        ("a.yaml", "a: {{ context.v }}\n", "1\n---\nkind: Secret"),
        ("a.yaml", "a: {{ context.v }}\n", "{b: 1}"),
        ("a.yaml", "a: {{ context.v }}\n", "b: c"),
        ("a.yml", "{% raw %}{{ .Values.x }}{% endraw %}\na: {{ context.v }}\n", "1\nb: 2"),
        ("a.yml", "{% raw %}{{ .Values.x }}{% endraw %}\na: {{ context.v }}\n", "1\rb: 2"),
        ("a.json", "{\"a\": \"{{ context.v }}\"}", "1\", \"b\": \"2"),
        ("a.toml", "a = {{ context.v }}\n", "1\nb = 2"),
        ("a.toml", "a = \"{{ context.v }}\"\n", "1\"\n[b]\nc = \"2"),
        // A line that becomes a key of its own.
        ("a.yaml", "a:\n  {{ context.v }}: 1\n", "b\nkind"),
        // A second entry of a key takes the place of the first, and all keys are those that were there.
        ("a.json", "{\"b\": false, \"a\": \"{{ context.v }}\"}", "1\", \"b\": \"2"),
        ("a.tf", "a = {\n  b = false\n  c = \"{{ context.v }}\"\n}\n", "1\", b = \"2"),
        ("a.tf", "a = {\n  b = false\n  c = \"{{ context.v }}\"\n}\n", "1\", \"b\" = \"2"),
        ("a.tf", "a = \"{{ context.v }}\"\n", "1\"\nb = \"2"),
        ("a.tf", "a = \"{{ context.v }}\"\n", "${file(\"/etc/passwd\")}"),
        ("a.tf", "a = {{ context.v }}\n", "1\nprovisioner \"local-exec\" {}"),
    ] {
        let told = made(path, template, answer, &none);
        assert!(told.as_ref().is_err_and(|told| told.contains("toJson")), "{path} {answer:?}: {told:?}");
        // The template says so.
        assert!(made(path, template, answer, &json!({"verbatim": ["v"]})).is_ok(), "{path} {answer:?}");
        // And where it quotes, it is a value.
        if path == "a.yaml" {
            assert!(made(path, "a: {{ context.v | toJson }}\n", answer, &none).is_ok(), "{answer:?}");
        }
        // What has no such language is left alone.
        assert!(made("a.txt", template, answer, &none).is_ok());
    }
}

#[test]
fn a_key_of_an_answer_is_one_key() {
    let template = "{\"labels\": {\"a\": 1{% for pair in context.v %}, \"{{ pair[0] }}\": 1{% endfor %}}, \"admin\": false}";
    let made = |path: &str, template: &str, answer: serde_json::Value| {
        let automation = json!({
            "configuration": [{"name": "v", "type": "JSON"}],
            "creates": {"templates": [{"source": "in", "destination": path}]},
        });
        run(&request(automation, json!({"v": answer}), &[("in", template)], &[]))
    };
    let told = made("a.json", template, json!({"x\": 1}, \"root\": {\"y": 1})).unwrap_err().to_string();
    assert!(told.contains("toJson"), "{told}");
    for key in ["team", "app.kubernetes.io/name"] {
        made("a.json", template, json!({key: 1})).unwrap();
    }
    // Keys that mean something in YAML are keys where the template quotes them.
    for key in ["*.example.com", "a: b", "#"] {
        made("a.yaml", "a: {{ context.v | toJson }}\n", json!({key: "x"})).unwrap();
    }
}

#[test]
fn what_public_templates_do_with_answers_goes_on() {
    for (path, template, answer, expected) in [
        ("a.yaml", "a: {{ context.v }}\n", "https://a.b/c?d=e#f", "a: https://a.b/c?d=e#f\n"),
        ("a.yaml", "a: {{ context.v | split: ':' | last }}\n", "repo:tag", "a: tag\n"),
        (
            "a.yaml",
            "{% assign all = context.v | split: ',' %}{% for one in all %}- {{ one }}\n{% endfor %}",
            "a,b*",
            "- a\n- b*\n",
        ),
        (
            "a.yaml",
            "{% assign all = context.v | split: '\n' %}{% for one in all %}- {{ one }}\n{% endfor %}",
            "a\nb*",
            "- a\n- b*\n",
        ),
        ("a.yaml", "a: |\n{{ context.v | indent: 2 }}\n", "x: 1\ny: [2]", "a: |\n  x: 1\n  y: [2]\n"),
        ("a.yaml", "a: {{ context.v | quote }}\n", "say \"hi\"", "a: \"say \\\"hi\\\"\"\n"),
        ("a.yaml", "a: {{ context.v }}\n", "true", "a: true\n"),
        ("values.yaml.liquid", "a: {{ context.v }}\n", "5%", "a: 5%\n"),
        ("a.tf", "a = \"${var.x}-{{ context.v }}\"\n", "b-c", "a = \"${var.x}-b-c\"\n"),
        ("a.md", "# {{ context.v }}\n", "- [x] \"y\"", "# - [x] \"y\"\n"),
    ] {
        let found = made(path, template, answer, &json!({}));
        assert_eq!(found.as_deref(), Ok(expected), "{path} {answer:?}");
    }
}

#[test]
fn a_script_may_make_yaml_of_answers() {
    let automation = json!({
        "configuration": [{"name": "v"}],
        "lua": {"script": "context.made = 'a: 1\\nb: 2'"},
        "creates": {"templates": [{"source": "in", "destination": "out.yaml"}]},
    });
    let outcome =
        run(&request(automation, json!({"v": "x: y"}), &[("in", "{{ context.made }}\n")], &[])).unwrap();
    assert_eq!(text(&outcome, "out.yaml"), "a: 1\nb: 2\n");
}
