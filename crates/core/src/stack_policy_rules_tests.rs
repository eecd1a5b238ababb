//! Tests of what policy says of plans.

use serde_json::json;

use super::*;

fn finding(severity: Severity, warns: bool) -> RuleFinding {
    RuleFinding {
        rule: "deny".to_owned(),
        resource: Some("a.b".to_owned()),
        severity,
        message: "no".to_owned(),
        warns,
        url: None,
        resolution: None,
    }
}

#[test]
fn entries_are_texts_or_objects_and_nothing_else() {
    let all = rule_findings(
        "deny",
        &json!(["no", {"msg": "not\u{7} this", "resource": "a.b", "severity": "high", "rule": "R1", "url": "https://x"}]),
    )
    .unwrap();
    assert_eq!(all[0], RuleFinding { resource: None, ..finding(Severity::Unknown, false) });
    assert_eq!(
        (all[1].message.as_str(), all[1].severity, all[1].rule.as_str(), all[1].resource.as_deref()),
        ("not this", Severity::High, "R1", Some("a.b"))
    );
    assert!(rule_findings("warn_tags", &json!(["look"])).unwrap()[0].warns);
    assert!(!rule_findings("violation", &json!([{"message": "no"}])).unwrap()[0].warns);
    for (entries, told) in [
        (json!(true), "no set"),
        (json!({"a": 1}), "no set"),
        (json!([1]), "neither a text"),
        (json!([[]]), "neither a text"),
        (json!([{}]), "without msg"),
        (json!([{"msg": 1}]), "no text"),
        (json!([{"msg": "a", "severity": "awful"}]), "severity"),
        (json!(["a".repeat(MAX_VIOLATION_TEXT + 1)]), "more than 2048 bytes"),
        (json!(vec!["a"; MAX_VIOLATIONS + 1]), "more than 500 entries"),
    ] {
        let error = rule_findings("deny", &entries).unwrap_err();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn what_is_worse_than_allowed_refuses_and_nobody_loosens_the_projects_rules() {
    let refuses = |source, finding: RuleFinding, most| judged(source, vec![finding], most)[0].refuses;
    let (stack, project) = (ViolationSource::Stack, ViolationSource::Project);
    let high = Some(Severity::High);
    for (severity, expected) in [
        (Severity::None, false),
        (Severity::Low, false),
        (Severity::High, false),
        (Severity::Critical, true),
        (Severity::Unknown, true),
    ] {
        assert_eq!(refuses(stack, finding(severity, false), high), expected, "{severity:?}");
        assert!(refuses(stack, finding(severity, false), None), "{severity:?}");
        assert!(refuses(project, finding(severity, false), high), "{severity:?}");
        assert!(!refuses(project, finding(severity, true), None), "{severity:?}");
    }
    let all = [
        judged(stack, vec![finding(Severity::Low, false), finding(Severity::Critical, false)], high),
        judged(
            project,
            vec![RuleFinding { message: "other".to_owned(), ..finding(Severity::Low, false) }],
            None,
        ),
    ]
    .concat();
    assert_eq!(refusal(&all).unwrap(), "policy refused the plan: no (a.b); and 1 more");
    assert_eq!(refusal(&judged(stack, vec![finding(Severity::Low, false)], high)), None);
}

#[test]
fn a_report_of_trivy_is_read_or_refused() {
    let report = json!({"SchemaVersion": 2, "Results": [
        {"Target": "plan.json", "Class": "config", "Misconfigurations": [
            {"ID": "AWS-0001", "Title": "t", "Message": "bucket is public", "Severity": "HIGH", "Status": "FAIL",
             "PrimaryURL": "https://x", "Resolution": "close it", "CauseMetadata": {"Resource": "aws_s3_bucket.a"}},
            {"ID": "AWS-0002", "Message": "fine", "Severity": "LOW", "Status": "PASS"},
            {"ID": "AWS-0003", "Title": "odd", "Severity": "WORST", "Status": "FAIL"},
        ]},
        {"Target": "b", "Class": "config"},
    ]});
    let all = trivy_findings(report.to_string().as_bytes()).unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!((all[0].severity, all[0].resource.as_deref()), (Severity::High, Some("aws_s3_bucket.a")));
    assert_eq!((all[1].severity, all[1].message.as_str()), (Severity::Unknown, "odd"));
    for (report, told) in [
        (json!({}), "SchemaVersion"),
        (json!({"SchemaVersion": 2}), "nothing of the plan"),
        (json!({"SchemaVersion": 2, "Results": []}), "nothing of the plan"),
        (json!({"SchemaVersion": 2, "Results": [{"Misconfigurations": {}}]}), "no list"),
        (
            json!({"SchemaVersion": 2, "Results": [{"Misconfigurations": [{"Message": "a"}]}]}),
            "without an ID",
        ),
    ] {
        let error = trivy_findings(report.to_string().as_bytes()).unwrap_err();
        assert!(error.contains(told), "{error}");
    }
    assert!(trivy_findings(b"x").unwrap_err().contains("no JSON"));
}

#[test]
fn a_digest_tells_any_two_sets_apart() {
    let file = |path: &str, text: &str| RuleFile { path: path.to_owned(), text: text.to_owned() };
    let sets = [
        RuleSets::default(),
        RuleSets { trivy: true, ..RuleSets::default() },
        RuleSets { max_severity: Some(Severity::Low), ..RuleSets::default() },
        RuleSets { stack: Some(Vec::new()), ..RuleSets::default() },
        RuleSets { stack: Some(vec![file("a", "b")]), ..RuleSets::default() },
        RuleSets { project: vec![file("a", "b")], ..RuleSets::default() },
        RuleSets { project: vec![file("ab", "")], ..RuleSets::default() },
        RuleSets { project: vec![file("a", "b"), file("c", "d")], ..RuleSets::default() },
    ];
    let digests: std::collections::BTreeSet<String> = sets.iter().map(RuleSets::digest).collect();
    assert_eq!(digests.len(), sets.len());
    let turned = RuleSets { project: vec![file("c", "d"), file("a", "b")], ..RuleSets::default() };
    assert!(digests.contains(&turned.digest()), "the order of files says nothing");
}

#[test]
fn a_policy_names_its_rules() {
    let policy = |engine, custom_policies| StackPolicy {
        engine,
        max_severity: None,
        custom_policies,
        repository_id: None,
        git: None,
    };
    let git = GitRef::new("main", "", &[]).unwrap();
    assert!(policy(PolicyEngine::Rego, true).check(StackTool::Terraform).is_ok());
    assert!(policy(PolicyEngine::Trivy, false).check(StackTool::Terragrunt).is_ok());
    for (policy, tool, field) in [
        (policy(PolicyEngine::Rego, true), StackTool::Ansible, "attributes.policyEngine"),
        (policy(PolicyEngine::Rego, false), StackTool::Terraform, "attributes.policyEngine"),
        (
            StackPolicy { git: Some(git), ..policy(PolicyEngine::Rego, true) },
            StackTool::Terraform,
            "attributes.policyEngine.git",
        ),
        (
            StackPolicy { max_severity: Some(Severity::Unknown), ..policy(PolicyEngine::Rego, true) },
            StackTool::Terraform,
            "attributes.policyEngine.maxSeverity",
        ),
    ] {
        match policy.check(tool) {
            Err(Error::Invalid { field: at, .. }) => assert_eq!(at, field),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn rules_of_a_project_are_bounded() {
    let file = |path: &str, bytes| RuleFile { path: path.to_owned(), text: "a".repeat(bytes) };
    assert!(check_project_rules("rules", &[file("a.rego", 10), file("b/c.rego", 10)]).is_ok());
    for bad in [
        vec![file("", 1)],
        vec![file("a b", 1)],
        vec![file("a", 1), file("a", 2)],
        vec![file("a", MAX_PROJECT_RULE_BYTES + 1)],
        (0..=MAX_PROJECT_RULES).map(|place| file(&place.to_string(), 1)).collect(),
    ] {
        assert!(check_project_rules("rules", &bad).is_err());
    }
    assert!(check_rule_files(&[]).unwrap_err().contains(".rego"));
    assert!(check_rule_files(&[file("a", MAX_RULE_BYTES + 1)]).is_err());
}
