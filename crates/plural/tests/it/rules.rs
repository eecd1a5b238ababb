//! Rules in the process of their own that a console starts for them, and what they cannot do there.

use std::time::Duration;

use plural_core::stack_policy_rules::{RuleFile, RuleFinding};
use plural_rules::{ANSWER_BYTES, PLAN_FILE, RULES_FILE, read_answer};
use plural_sandbox::{Helper, Limits, Program, run};

fn evaluated(rego: &str, limits: &Limits) -> Result<Vec<RuleFinding>, String> {
    let folder = tempfile::tempdir().unwrap();
    let rules = [RuleFile { path: "a.rego".to_owned(), text: rego.to_owned() }];
    std::fs::write(folder.path().join(RULES_FILE), serde_json::to_vec(&rules).unwrap()).unwrap();
    std::fs::write(folder.path().join(PLAN_FILE), r#"{"resource_changes": []}"#).unwrap();
    let plural = env!("CARGO_BIN_EXE_plural");
    let helper = Helper { program: plural.into(), args: vec!["sandbox".into()] };
    let program =
        Program { path: plural.into(), args: vec!["evaluate-rules".to_owned()], readable: Vec::new() };
    let printed = run(&helper, &program, folder.path(), limits).map_err(|error| error.to_string())?;
    read_answer(&printed).map_err(|error| error.to_string())
}

fn limits() -> Limits {
    Limits {
        deadline: Duration::from_mins(1),
        cpu: Duration::from_secs(30),
        memory_bytes: 1 << 30,
        output_bytes: ANSWER_BYTES,
    }
}

#[test]
fn rules_say_what_they_find_and_why_they_cannot() {
    let found = evaluated(
        "package plural.stacks\n\ndeny contains \"no\" if { input.resource_changes == [] }\n",
        &limits(),
    );
    assert_eq!(found.unwrap()[0].message, "no");
    let why = evaluated("package plural.stacks\n\ndeny contains if {", &limits()).unwrap_err();
    assert!(why.contains("a.rego does not compile"), "{why}");
}

#[test]
fn rules_without_an_end_end_with_their_process() {
    // The console goes on: it has heard of a child that died.
    let itself = "package plural.stacks\n\nf(x) := f(x + 1)\n\ndeny contains \"no\" if { f(1) }\n";
    assert!(evaluated(itself, &limits()).is_err());
    let growing = "package plural.stacks\n\n\
        deny contains \"no\" if { count([[a, b] | some a in numbers.range(1, 20000); some b in numbers.range(1, 20000)]) > 0 }\n";
    let small = Limits { memory_bytes: 256 << 20, ..limits() };
    assert!(evaluated(growing, &small).is_err());
    let busy = "package plural.stacks\n\ndeny contains \"no\" if {\n    some a in numbers.range(1, 100000)\n    \
        some b in numbers.range(1, 100000)\n    a * b == -1\n}\n";
    let short = Limits { deadline: Duration::from_secs(1), ..limits() };
    let why = evaluated(busy, &short).unwrap_err();
    assert!(why.contains("did not end within 1 seconds"), "{why}");
}
