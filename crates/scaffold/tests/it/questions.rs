//! Answers.

use plural_scaffold::question::{Known, Question, validate};
use serde_json::{Value, json};

fn asked(questions: Value) -> Vec<Question> {
    serde_json::from_value(questions).unwrap()
}

fn check(questions: Value, answers: Value, expected: Result<Value, &str>) {
    let known = Known {
        clusters: ["blue".to_owned()].into(),
        projects: ["infra".to_owned()].into(),
        ..Known::default()
    };
    let Value::Object(answers) = answers else { panic!("a map") };
    match (validate(&asked(questions), &answers, &known), expected) {
        (Ok(context), Ok(expected)) => assert_eq!(Value::Object(context), expected),
        (Err(errors), Err(expected)) => {
            assert!(
                errors.iter().any(|(field, why)| format!("{field}: {why}").contains(expected)),
                "{errors:?}"
            );
        }
        (found, expected) => panic!("{found:?} instead of {expected:?}"),
    }
}

#[test]
fn each_type_has_its_rule() {
    for (kind, answer, expected) in [
        ("STRING", json!("a"), Ok(json!("a"))),
        ("STRING", json!(5), Ok(json!("5"))),
        ("STRING", json!({}), Err("a text is needed")),
        ("STRING", json!(""), Err("an answer is needed")),
        ("INT", json!(5), Ok(json!(5))),
        ("INT", json!(" 5 "), Ok(json!(5))),
        ("INT", json!("five"), Err("a whole number")),
        ("INT", json!(5.5), Err("a whole number")),
        ("BOOL", json!("true"), Ok(json!(true))),
        ("BOOL", json!(false), Ok(json!(false))),
        ("BOOL", json!("yes"), Err("true or false")),
        ("JSON", json!("{\"a\": 1}"), Ok(json!({"a": 1}))),
        ("JSON", json!("{"), Err("no JSON")),
        ("PASSWORD", json!("s3cret"), Ok(json!("s3cret"))),
        ("PASSWORD", json!("a\nb"), Err("line breaks")),
        ("ENUM", json!("aws"), Ok(json!("aws"))),
        ("ENUM", json!("moon"), Err("none of aws, gcp")),
        ("CLUSTER", json!("blue"), Ok(json!("blue"))),
        ("CLUSTER", json!("red"), Err("no such cluster")),
        ("PROJECT", json!("infra"), Ok(json!("infra"))),
        ("GROUP", json!("sre"), Err("no such group")),
        ("USER", json!("a@b.c"), Err("no such user")),
        ("FLOW", json!("shop"), Err("no such flow")),
    ] {
        let questions = json!([{"name": "q", "type": kind, "values": ["aws", "gcp"]}]);
        check(questions, json!({"q": answer}), expected.map(|value| json!({"q": value})));
    }
}

#[test]
fn what_is_not_asked_needs_no_answer() {
    let questions = json!([
        {"name": "database", "type": "BOOL", "default": false},
        {"name": "size", "type": "INT", "condition": {"field": "database", "operation": "EQ", "value": "true"}},
        {"name": "class", "condition": {"field": "size", "operation": "GT", "value": "9"}},
    ]);
    check(questions.clone(), json!({}), Ok(json!({"database": false, "size": null, "class": null})));
    check(questions.clone(), json!({"database": true}), Err("size: an answer is needed"));
    check(
        questions.clone(),
        json!({"database": "true", "size": "5"}),
        Ok(json!({"database": true, "size": 5, "class": null})),
    );
    check(questions, json!({"database": true, "size": 10}), Err("class: an answer is needed"));
}

#[test]
fn validations_hold_and_errors_do_not_quote() {
    let one = |validation: Value| json!([{"name": "q", "validation": validation}]);
    check(one(json!({"regex": "^[a-z]+$"})), json!({"q": "abc"}), Ok(json!({"q": "abc"})));
    check(one(json!({"regex": "b"})), json!({"q": "abc"}), Ok(json!({"q": "abc"})));
    check(one(json!({"regex": "^[a-z]+$"})), json!({"q": "A1"}), Err("does not match ^[a-z]+$"));
    check(one(json!({"json": true})), json!({"q": "["}), Err("no JSON"));
    check(
        one(json!({"uniqBy": {"scope": "CLUSTER"}})),
        json!({"q": "blue"}),
        Err("a cluster of this name exists"),
    );
    check(one(json!({"uniqBy": {"scope": "PROJECT"}})), json!({"q": "blue"}), Ok(json!({"q": "blue"})));
    check(one(json!({})), json!({"q": "a", "other": "b"}), Err("other: the automation does not ask this"));
    check(one(json!({})), json!({"q": "x".repeat(1 << 20)}), Err("larger than 64 KiB"));
    let secret = validate(
        &asked(one(json!({"regex": "^a$"}))),
        json!({"q": "hunter2"}).as_object().unwrap(),
        &Known::default(),
    );
    assert!(!format!("{:?}", secret.unwrap_err()).contains("hunter2"));
}
