//! Regexes are those of Go, which public automations are written for.

use plural_scaffold::run;
use serde_json::json;

use super::{refused, request, text, with_context};

fn replaced(regex: &str, with: &str, content: &str) -> String {
    let automation =
        json!({"updates": {"regexReplacements": [{"file": "f", "regex": regex, "replacement": with}]}});
    let outcome = run(&with_context(automation, json!({}), &[("f", content)])).unwrap();
    text(&outcome, "f").to_owned()
}

#[test]
fn expressions_are_read_as_go_reads_them() {
    // Classes are those of ASCII, braces may stand for themselves, and so may a dash behind a class.
    assert_eq!(replaced(r"\w+", "x", "é a1"), "é x");
    assert_eq!(replaced(r"[\w-\.]+", "x", "a-b.c d"), "x x");
    assert_eq!(replaced(r"a{,3}", "x", "a{,3}"), "x");
    assert_eq!(replaced(r"\Qa.b\E", "x", "a.b ab"), "x ab");
    assert_eq!(replaced("(?m)^version: .*$", "version: 2", "a: 1\nversion: 1\n"), "a: 1\nversion: 2\n");
    assert_eq!(replaced("(?P<key>tag): (.*)", "${key}: \"$2\"", "tag: v1"), "tag: \"v1\"");
}

#[test]
fn what_go_refuses_is_refused() {
    for regex in ["a(?=b)", r"(a)\1", "a**", "a{1001}"] {
        let automation =
            json!({"updates": {"regexReplacements": [{"file": "f", "regex": regex, "replacement": ""}]}});
        let told = refused(&with_context(automation, json!({}), &[("f", "a")]));
        assert!(told.contains("error parsing regexp"), "{regex}: {told}");
    }
}

#[test]
fn an_answer_in_a_regex_stands_for_itself() {
    let files = [("f", "v: 1.2\nv: 1x2\nv: a-z\nv: m\n")];
    let changed = |regex: &str, answer: &str| {
        let automation = json!({"configuration": [{"name": "v"}], "updates": {"regexReplacements": [
            {"file": "f", "regex": regex, "replacement": "found"},
        ]}});
        let outcome = run(&request(automation, json!({"v": answer}), &files, &[])).unwrap();
        outcome.changes.get("f").map(|_| text(&outcome, "f").to_owned())
    };
    let found = |text: &str| Some(text.to_owned());
    assert_eq!(changed("v: {{ context.v }}", "1.2"), found("found\nv: 1x2\nv: a-z\nv: m\n"));
    for answer in [".*", "m|x", "[m]", "(?s).*", "\\w", "m$", "m?"] {
        assert_eq!(changed("v: {{ context.v }}", answer), None, "{answer}");
    }
    assert_eq!(changed("v: [{{ context.v }}]+", "a-z"), found("v: 1.2\nv: 1x2\nfound\nv: m\n"));
    // Whoever quotes in the template is not quoted twice.
    assert_eq!(changed("v: {{ context.v | regexQuoteMeta }}", "1.2"), found("found\nv: 1x2\nv: a-z\nv: m\n"));
}

#[test]
fn an_answer_chooses_one_file_of_the_oldest_form() {
    let files = [("a.yaml", "x"), ("aXyaml", "x"), ("b", "x")];
    let changed = |answer: &str| {
        let automation = json!({"configuration": [{"name": "f"}], "updates": {
            "files": ["^{{ context.f }}$"], "regexes": ["x"], "replaceTemplate": "y", "matchStrategy": "any",
        }});
        let outcome = run(&request(automation, json!({"f": answer}), &files, &[])).unwrap();
        outcome.changes.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(changed("a.yaml"), ["a.yaml"]);
    assert!(changed(".*").is_empty());
}

#[test]
fn what_a_script_makes_is_a_regex() {
    let automation = json!({
        "lua": {"script": "context = {pattern = 'v: .*'}"},
        "updates": {"regexReplacements": [{"file": "f", "regex": "{{ context.pattern }}", "replacement": "w"}]},
    });
    let outcome = run(&request(automation, json!({}), &[("f", "v: 1\n")], &[])).unwrap();
    assert_eq!(text(&outcome, "f"), "w\n");
}
