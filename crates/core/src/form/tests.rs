use serde_json::json;

use super::*;

fn question(name: &str, kind: QuestionType) -> FormQuestion {
    FormQuestion {
        name: name.to_owned(),
        kind,
        default: None,
        documentation: None,
        longform: None,
        display_name: None,
        placeholder: None,
        page: None,
        optional: false,
        values: Vec::new(),
        condition: None,
        validation: None,
    }
}

fn on(field: &str, operation: Comparison, value: Option<&str>) -> QuestionCondition {
    QuestionCondition { field: field.to_owned(), operation, value: value.map(str::to_owned) }
}

fn pattern(regex: &str) -> QuestionValidation {
    QuestionValidation { regex: Some(regex.to_owned()), json: false, uniq_by: None }
}

fn check(questions: &[FormQuestion]) -> Result<()> {
    check_questions(questions, |_| Ok(()))
}

/// Names and values of what is answered.
fn answered(questions: &[FormQuestion], given: &Value) -> Result<Vec<(String, String)>> {
    check(questions)?;
    let all = answers("answers", questions, given.as_object().unwrap())?;
    Ok(all.into_iter().map(|answer| (answer.name, answer.value)).collect())
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn an_answer_is_of_the_type_of_its_question() {
    let sizes = FormQuestion {
        values: vec!["small".to_owned(), "large".to_owned()],
        ..question("a", QuestionType::Enum)
    };
    let lower = FormQuestion { validation: Some(pattern("^[a-z]+$")), ..question("a", QuestionType::String) };
    let json = FormQuestion {
        validation: Some(QuestionValidation { regex: None, json: true, uniq_by: None }),
        ..question("a", QuestionType::String)
    };
    for (of, good, bad) in [
        (question("a", QuestionType::Int), json!("-3"), json!("3.5")),
        (question("a", QuestionType::Int), json!(3), json!("many")),
        (question("a", QuestionType::Bool), json!(true), json!("yes")),
        (question("a", QuestionType::Json), json!({"b": [1]}), json!("{")),
        (question("a", QuestionType::String), json!("x"), json!("a\0b")),
        (question("a", QuestionType::Password), json!("hunter2"), json!("")),
        (sizes, json!("small"), json!("huge")),
        (lower, json!("abc"), json!("Abc")),
        (json, json!("[1]"), json!("[1")),
    ] {
        let kind = of.kind;
        assert!(answered(std::slice::from_ref(&of), &json!({"a": good})).is_ok(), "{kind:?} {good}");
        let refused = answered(&[of], &json!({"a": bad})).unwrap_err().to_string();
        assert!(refused.contains("a "), "{kind:?} {bad}: {refused}");
    }
    let long = "x".repeat(MAX_FILE + 1);
    assert!(answered(&[question("a", QuestionType::String)], &json!({"a": long})).is_err());
}

/// What a refusal says goes to logs and screens.
#[test]
fn a_refusal_does_not_say_the_answer() {
    let secret =
        FormQuestion { validation: Some(pattern("^[0-9]+$")), ..question("PIN", QuestionType::Password) };
    let refused =
        answered(std::slice::from_ref(&secret), &json!({"PIN": "hunter2"})).unwrap_err().to_string();
    assert!(refused.contains("PIN") && !refused.contains("hunter2"), "{refused}");
    let given = answers("answers", &[secret], json!({"PIN": "1234"}).as_object().unwrap()).unwrap();
    assert!(given[0].is_secret() && !format!("{given:?}").contains("1234"));
}

#[test]
fn what_is_not_answered_has_its_default_or_is_missed() {
    let questions = [
        FormQuestion { default: Some("eu".to_owned()), ..question("region", QuestionType::String) },
        FormQuestion { optional: true, ..question("note", QuestionType::String) },
        question("count", QuestionType::Int),
    ];
    let given = answered(&questions, &json!({"count": 2, "note": ""})).unwrap();
    assert_eq!(given, pairs(&[("region", "eu"), ("count", "2")]));
    let missed = answered(&questions, &json!({"region": "us", "count": null})).unwrap_err().to_string();
    assert!(missed.contains("count needs an answer"), "{missed}");
    let unknown = answered(&questions, &json!({"count": 2, "size": "x"})).unwrap_err().to_string();
    assert!(unknown.contains("size") && unknown.contains("region, note, count"), "{unknown}");
}

#[test]
fn a_question_is_asked_by_what_was_answered_before() {
    for (operation, value, answer, is_asked) in [
        (Comparison::Eq, Some("3"), Some(json!(3)), true),
        (Comparison::Eq, Some("3"), Some(json!(4)), false),
        (Comparison::Eq, None, Some(json!(4)), true),
        (Comparison::Eq, None, None, false),
        (Comparison::Not, Some("3"), Some(json!(4)), true),
        (Comparison::Not, Some("3"), None, true),
        (Comparison::Not, None, Some(json!(3)), false),
        (Comparison::Not, None, None, true),
        (Comparison::Gt, Some("9"), Some(json!(10)), true),
        (Comparison::Gt, Some("9"), Some(json!(9)), false),
        (Comparison::Gte, Some("9"), Some(json!(9)), true),
        (Comparison::Lt, Some("9"), Some(json!(10)), false),
        (Comparison::Lte, Some("10"), Some(json!(10)), true),
        (Comparison::Lt, Some("9"), None, false),
        (Comparison::Prefix, Some("1"), Some(json!(12)), true),
        (Comparison::Suffix, Some("1"), Some(json!(12)), false),
    ] {
        let questions = [
            FormQuestion { optional: true, ..question("first", QuestionType::Int) },
            FormQuestion {
                default: Some("d".to_owned()),
                condition: Some(on("first", operation, value)),
                ..question("second", QuestionType::String)
            },
        ];
        let mut given = Map::new();
        given.extend(answer.clone().map(|answer| ("first".to_owned(), answer)));
        let all = answered(&questions, &Value::Object(given.clone())).unwrap();
        let told = format!("{operation:?} {value:?} {answer:?}");
        assert_eq!(all.iter().any(|(name, _)| name == "second"), is_asked, "{told}");
        // An answer to what is not asked is a mistake that is told.
        given.insert("second".to_owned(), json!("x"));
        assert_eq!(answered(&questions, &Value::Object(given)).is_ok(), is_asked, "{told}");
    }
}

/// What hides a question hides those that look at its answer.
#[test]
fn what_is_not_asked_has_no_answer() {
    let questions = [
        question("on", QuestionType::Bool),
        FormQuestion {
            default: Some("a".to_owned()),
            condition: Some(on("on", Comparison::Eq, Some("true"))),
            ..question("mode", QuestionType::String)
        },
        FormQuestion {
            condition: Some(on("mode", Comparison::Eq, Some("a"))),
            ..question("more", QuestionType::String)
        },
    ];
    assert_eq!(answered(&questions, &json!({"on": false})).unwrap(), pairs(&[("on", "false")]));
    let missed = answered(&questions, &json!({"on": true})).unwrap_err().to_string();
    assert!(missed.contains("more needs an answer"), "{missed}");
}

#[test]
fn what_is_no_question_is_refused() {
    let text = || question("a", QuestionType::String);
    for (bad, why) in [
        (FormQuestion { values: vec!["x".to_owned()], ..text() }, "no ENUM"),
        (question("a", QuestionType::Enum), "values"),
        (FormQuestion { values: vec!["x".to_owned(); 2], ..question("a", QuestionType::Enum) }, "once"),
        (FormQuestion { default: Some("x".to_owned()), ..question("a", QuestionType::Password) }, "PASSWORD"),
        (FormQuestion { default: Some("x".to_owned()), ..question("a", QuestionType::Int) }, "default"),
        (FormQuestion { validation: Some(pattern("(")), ..text() }, "regular expression"),
        (FormQuestion { validation: Some(pattern("(a{999}){999}")), ..text() }, "regular expression"),
        (FormQuestion { condition: Some(on("later", Comparison::Eq, None)), ..text() }, "before it"),
        (FormQuestion { condition: Some(on("a", Comparison::Eq, None)), ..text() }, "before it"),
        (FormQuestion { condition: Some(on("z", Comparison::Gt, Some("x"))), ..text() }, "whole number"),
        (FormQuestion { condition: Some(on("z", Comparison::Prefix, None)), ..text() }, "without the value"),
        (FormQuestion { documentation: Some("x".repeat(MAX_LONG + 1)), ..text() }, "documentation"),
        (FormQuestion { page: Some(99), ..text() }, "page"),
    ] {
        let questions = [question("z", QuestionType::Int), bad, question("later", QuestionType::Int)];
        let refused = check(&questions).unwrap_err().to_string();
        assert!(refused.contains("a ") && refused.contains(why), "{why}: {refused}");
    }
    assert!(check(&[text(), text()]).unwrap_err().to_string().contains("twice"));
    let many: Vec<_> = (0..65).map(|n| question(&format!("q{n}"), QuestionType::Int)).collect();
    assert!(check(&many).unwrap_err().to_string().contains("64"));
}

#[test]
fn all_that_is_wrong_is_told_by_question() {
    let questions = [
        question("size", QuestionType::Int),
        FormQuestion {
            condition: Some(on("size", Comparison::Gt, Some("3"))),
            ..question("class", QuestionType::String)
        },
        question("name", QuestionType::String),
    ];
    let given = json!({"size": "many", "other": 1});
    let errors = answers_by_field(&questions, given.as_object().unwrap()).unwrap_err();
    let told: Vec<_> = errors.iter().map(|(name, why)| format!("{name} {why}")).collect();
    // Whether the class is asked, depends on the size.
    assert_eq!(
        told,
        [
            "\"other\" is none of its questions: size, class, name",
            "name needs an answer",
            "size must be a whole number",
        ]
    );
}

#[test]
fn templates_get_values_of_their_types() {
    let given = |answers: Value| answers.as_object().unwrap().clone();
    let known = Known {
        clusters: ["blue".to_owned()].into(),
        projects: ["infra".to_owned()].into(),
        ..Known::default()
    };
    let new = |scope| FormQuestion {
        validation: Some(QuestionValidation { regex: None, json: false, uniq_by: Some(UniqBy { scope }) }),
        ..question("a", QuestionType::String)
    };
    let of = |kind| question("a", kind);
    for (asked, answer, expected) in [
        (of(QuestionType::String), json!("x\ny"), Ok(json!("x\ny"))),
        (of(QuestionType::String), json!(5), Ok(json!("5"))),
        (of(QuestionType::String), json!("x\u{7}"), Err("control characters")),
        (of(QuestionType::Password), json!("x\ny"), Err("line breaks")),
        (of(QuestionType::Int), json!("5"), Ok(json!(5))),
        (of(QuestionType::Bool), json!("true"), Ok(json!(true))),
        (of(QuestionType::Json), json!("{\"b\": 1}"), Ok(json!({"b": 1}))),
        (of(QuestionType::Json), json!([1]), Ok(json!([1]))),
        (of(QuestionType::Cluster), json!("blue"), Ok(json!("blue"))),
        (of(QuestionType::Cluster), json!("red"), Err("cluster that you may see")),
        (of(QuestionType::Project), json!("blue"), Err("project that you may see")),
        (of(QuestionType::Group), json!("sre"), Err("group that you may see")),
        (of(QuestionType::User), json!("a@b.c"), Err("user that you may see")),
        (of(QuestionType::Flow), json!("shop"), Err("flow that you may see")),
        (new(UniqueIn::Cluster), json!("blue"), Err("a cluster has this name")),
        (new(UniqueIn::Project), json!("blue"), Ok(json!("blue"))),
    ] {
        let kind = asked.kind;
        let found = context(std::slice::from_ref(&asked), &given(json!({"a": answer})), Some(&known));
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found["a"], expected, "{kind:?}"),
            (Err(errors), Err(why)) => assert!(errors["a"].contains(why), "{kind:?}: {errors:?}"),
            (found, expected) => panic!("{kind:?} {answer}: {found:?} instead of {expected:?}"),
        }
    }
    let cluster = of(QuestionType::Cluster);
    assert!(context(&[cluster], &given(json!({"a": "red"})), None).is_ok(), "nothing is looked up");
    let optional = FormQuestion { optional: true, ..of(QuestionType::Int) };
    assert_eq!(context(&[optional], &Map::new(), None).unwrap(), given(json!({"a": null})));
}

#[test]
fn questions_of_earlier_builds_are_read() {
    let stored = json!({
        "name": "a", "type": "password", "optional": true, "values": [],
        "condition": {"field": "b", "operation": "gte", "value": "3"}, "validation": {"regex": "x", "json": false},
    });
    let now = FormQuestion {
        optional: true,
        condition: Some(on("b", Comparison::Gte, Some("3"))),
        validation: Some(pattern("x")),
        ..question("a", QuestionType::Password)
    };
    assert_eq!(serde_json::from_value::<FormQuestion>(stored).unwrap(), now);
    assert_eq!(serde_json::to_value(&now).unwrap()["type"], "PASSWORD");
}
