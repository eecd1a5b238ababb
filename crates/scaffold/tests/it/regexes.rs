//! Regexes are those of Go, which public automations are written for.

use plural_scaffold::run;
use serde_json::json;

use super::{refused, text, with_context};

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
