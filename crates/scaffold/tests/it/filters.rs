//! Filters, by the examples of Liquid's and Sprig's documentation.

use plural_scaffold::run;
use serde_json::json;

use super::{refused, text, with_context};

fn check(template: &str, expected: &str) {
    let automation = json!({"creates": {"templates": [{"source": "in", "destination": "out"}]}});
    let context = json!({"list": ["b", "a"], "name": "Ground control", "map": {"a": 1}});
    let outcome = run(&with_context(automation, context, &[("in", template)]));
    match outcome {
        Ok(outcome) => assert_eq!(text(&outcome, "out"), expected, "{template}"),
        Err(error) => panic!("{template}: {error}"),
    }
}

#[test]
fn liquid_as_documented() {
    for (template, expected) in [
        ("{{ 'title' | capitalize }}", "Title"),
        ("{{ 'a,b' | split: ',' | join: '-' }}", "a-b"),
        ("{{ context.list | sort | first }}", "a"),
        ("{{ 4 | plus: 2 }}", "6"),
        ("{{ 20 | divided_by: 7 }}", "2"),
        ("{{ 'I strained' | remove: 'rain' }}", "I sted"),
        ("{{ 'Ground control' | slice: 0, 6 }}", "Ground"),
        ("{{ '<p>' | escape }}", "&lt;p&gt;"),
        ("{% for i in (1..3) %}{{ i }}{% endfor %}", "123"),
        ("{% if context.list contains 'a' %}yes{% endif %}", "yes"),
        ("{% raw %}{{ .Values.x }}{% endraw %}", "{{ .Values.x }}"),
    ] {
        check(template, expected);
    }
}

#[test]
fn sprig_as_documented() {
    for (template, expected) in [
        ("{{ 'hello!' | upper }}", "HELLO!"),
        ("{{ 'First Try' | initials }}", "FT"),
        ("{{ 'FirstName' | snakecase }}", "first_name"),
        ("{{ 'FirstName' | kebabcase }}", "first-name"),
        ("{{ 'http_server' | camelcase }}", "HttpServer"),
        ("{{ 'a b' | nospace }}", "ab"),
        ("{{ 'x' | quote }}", "\"x\""),
        ("{{ 'x' | squote }}", "'x'"),
        ("{{ 'a\nb' | indent: 2 }}", "  a\n  b"),
        ("{{ 'a' | nindent: 2 }}", "\n  a"),
        ("{{ '' | default: 'foo' }}", "foo"),
        ("{{ true | ternary: 'a', 'b' }}", "a"),
        ("{{ 'hello' | b64enc }}", "aGVsbG8="),
        ("{{ 'aGVsbG8=' | b64dec }}", "hello"),
        ("{{ 'hello' | sha256sum }}", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"),
        ("{{ context.map | toJson }}", "{\"a\":1}"),
        ("{{ '1.2.3' | toString }}", "1.2.3"),
        ("{{ 'foo/bar.txt' | ext }}", ".txt"),
        ("{{ 'foo/bar.txt' | base }}", "bar.txt"),
    ] {
        check(template, expected);
    }
}

#[test]
fn what_reads_the_machine_is_refused_by_name() {
    for filter in ["env", "expandenv", "getHostByName"] {
        let automation = json!({"creates": {"templates": [{"source": "in", "destination": "out"}]}});
        let template = format!("{{{{ 'HOME' | {filter} }}}}");
        let told = refused(&with_context(automation, json!({}), &[("in", &template)]));
        assert!(told.contains(filter) && told.contains("refused"), "{told}");
    }
}

#[test]
fn what_is_unknown_is_told() {
    let automation = json!({"creates": {"templates": [{"source": "in", "destination": "out"}]}});
    for (template, part) in
        [("a\n{{ context.nane }}", "line 2"), ("{{ context.nane }}", "nane"), ("{{ 'a' | upcse }}", "upcse")]
    {
        let told = refused(&with_context(automation.clone(), json!({"name": "x"}), &[("in", template)]));
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn chance_is_the_same_on_every_run() {
    let automation = json!({"creates": {"templates": [{"source": "in", "destination": "out"}]}});
    let mut request = with_context(automation, json!({}), &[("in", "{{ 16 | randAlphaNum }}")]);
    let first = run(&request).unwrap();
    assert_eq!(text(&first, "out").len(), 16);
    assert_eq!(run(&request).unwrap(), first);
    request.seed = "another".to_owned();
    assert_ne!(run(&request).unwrap(), first);
}
