//! Tests of rules: what they say, and every way in which they cannot be checked.

use plural_core::stack_policy_rules::Severity;

use super::*;

const PLAN: &str = r#"{"resource_changes": [
    {"address": "local_file.a", "change": {"actions": ["create"], "after": {"filename": "a.txt", "password": null}}},
    {"address": "local_file.b", "change": {"actions": ["delete"], "after": null}}
]}"#;

fn file(text: &str) -> RuleFile {
    RuleFile { path: "a.rego".to_owned(), text: text.to_owned() }
}

fn said(text: &str) -> Result<Vec<RuleFinding>, String> {
    check(&[file(text)], PLAN, TIME).map_err(|RulesError(why)| why)
}

#[test]
fn rules_of_today_say_what_they_deny_and_warn_of() {
    let found = said(
        r#"package plural.stacks

deny contains {"msg": msg, "resource": change.address, "severity": "HIGH", "rule": "no-deletes"} if {
    some change in input.resource_changes
    "delete" in change.change.actions
    msg := sprintf("%s must stay", [change.address])
}

warn contains "look twice" if { count(input.resource_changes) > 1 }

deny_never contains "never" if { count(input.resource_changes) > 5 }
"#,
    )
    .unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    let denied = found.iter().find(|finding| !finding.warns).unwrap();
    assert_eq!(
        (denied.message.as_str(), denied.severity, denied.rule.as_str(), denied.resource.as_deref()),
        ("local_file.b must stay", Severity::High, "no-deletes", Some("local_file.b"))
    );
    assert_eq!(found.iter().find(|finding| finding.warns).unwrap().message, "look twice");
}

#[test]
fn rules_of_conftest_run_as_they_are() {
    let found = said(
        r#"package main

deny[msg] {
    change := input.resource_changes[_]
    change.change.actions[_] == "create"
    startswith(change.change.after.filename, "a")
    msg := sprintf("%v is not wanted", [change.address])
}

violation[{"msg": msg}] {
    regex.match("^b", "bcd")
    msg := "also this"
}
"#,
    )
    .unwrap();
    let mut messages: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
    messages.sort_unstable();
    assert_eq!(messages, ["also this", "local_file.a is not wanted"]);
    assert!(found.iter().all(|finding| finding.severity == Severity::Unknown && !finding.warns));
}

#[test]
fn rules_that_find_nothing_were_checked() {
    assert_eq!(said("package plural.stacks\n\ndeny contains \"x\" if { input.nothing }\n"), Ok(Vec::new()));
}

#[test]
fn what_cannot_be_checked_is_refused() {
    for (text, told) in [
        ("package plural.stacks\n\ndeny contains if {", "does not compile"),
        ("no rego at all", "does not compile"),
        ("package other\n\ndeny contains \"x\" if { true }\n", "no rule is called deny"),
        ("package plural.stacks\n\ndenied contains \"x\" if { true }\n", "no rule is called deny"),
        ("package plural.stacks\n\ndeny := true\n", "no set"),
        ("package plural.stacks\n\ndeny contains 7 if { true }\n", "neither a text"),
        (
            "package plural.stacks\n\ndeny contains x if { some i in numbers.range(1, 600); x := sprintf(\"%d\", [i]) }\n",
            "more than 500",
        ),
    ] {
        let why = said(text).unwrap_err();
        assert!(why.contains(told), "{text}: {why}");
    }
    let why = check(&[], PLAN, TIME).unwrap_err().0;
    assert!(why.contains(".rego"), "{why}");
    let why = check(&[file("package main\n\ndeny contains \"x\" if { true }\n")], "{", TIME).unwrap_err().0;
    assert!(why.contains("no JSON"), "{why}");
    // Rules that need each other.
    assert!(
        said("package plural.stacks\n\ndeny contains \"x\" if { a }\n\na if { b }\n\nb if { a }\n").is_err()
    );
}

#[test]
fn rules_without_an_end_are_ended() {
    let endless = r#"package plural.stacks

deny contains "x" if {
    some a in numbers.range(1, 100000)
    some b in numbers.range(1, 100000)
    a * b == -1
}
"#;
    let why = check(&[file(endless)], PLAN, Duration::from_millis(300)).unwrap_err().0;
    assert!(why.contains("took longer"), "{why}");
}

#[test]
fn no_rule_reaches_out() {
    for builtin in ["http.send({\"method\": \"get\", \"url\": \"http://127.0.0.1\"})", "opa.runtime()"] {
        let text = format!("package plural.stacks\n\ndeny contains \"x\" if {{ {builtin} }}\n");
        assert!(said(&text).is_err(), "{builtin}");
    }
}

#[test]
fn a_child_says_what_the_check_said() {
    assert_eq!(read_answer(br#"{"Found":[]}"#), Ok(Vec::new()));
    assert_eq!(read_answer(br#"{"Refused":"why"}"#), Err(RulesError("why".to_owned())));
    for none in [&b""[..], b"{}", b"{\"Found\":1}"] {
        assert!(read_answer(none).is_err());
    }
}
