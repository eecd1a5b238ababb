//! Tools with ways of their own, of which small programs stand in that keep to the documented command lines. Real ones are in the tests
//! of the whole.

use axum::http::StatusCode;
use plural_core::ids::ScmConnectionId;
use plural_core::run_call::{InputPlan, InputStep, OutputReport, RunInput, state_token};
use plural_core::stack::StackTool;
use plural_core::stack_pull_request::RunPullRequest;
use plural_core::stack_run::{PlanSummary, RunKind, RunPhase};
use plural_core::stack_spec::{StackSpec, Stage};
use plural_core::stack_steps::steps;
use plural_harness::{ConsoleProxy, Outcome};
use serde_json::{Value, json};

use crate::console::TOKEN;
use crate::fixture::{Fixture, digest, input, program, shell, tool, variable};

/// Keeps to `tofu init | plan -out=FILE | show | apply FILE | output -json`.
const TOFU: &str = r#"
set -e
case "$1" in
  init) echo lock >.terraform.lock.hcl; echo "init as $TF_HTTP_USERNAME at $TF_HTTP_ADDRESS" ;;
  plan) for arg in "$@"; do case "$arg" in -out=*) echo planned >"${arg#-out=}" ;; esac; done; echo "a plan" ;;
  show) test -f "$3"
    if [ "$2" = -json ]; then
      printf '{"variables": {"p": {"value": "%s"}}, "resource_changes": [{"change": {"actions": ["create"]}}]}' "$TF_VAR_p"
    else echo "will create $TF_VAR_p"; fi ;;
  apply) for last in "$@"; do :; done; cat "$last"
    if [ -n "$FAIL" ]; then echo '{"serial": 2}' >errored.tfstate; exit 1; fi ;;
  output) printf '{"a": {"value": [1], "sensitive": false}, "b": {"value": "x", "sensitive": true}}' ;;
esac
"#;

async fn tofu(phase: RunPhase, steps: Vec<InputStep>) -> Fixture {
    let f = Fixture::of(input(StackTool::Terraform, phase, steps), &[("app/main.tf", "")]).await;
    let path = program(f.folder.path(), "tofu", TOFU);
    f.change(|input| {
        input.environment = vec![variable("PATH", path, false), variable("TF_VAR_p", "hunter2", true)];
        input.state_path = Some("/v1/stacks/7/state".to_owned());
        input.spec.variables.insert("size".to_owned(), json!(3));
    });
    f
}

fn planning() -> Vec<InputStep> {
    vec![
        tool(0, Stage::Init, "tofu", &["init", "-input=false"]),
        tool(1, Stage::Plan, "tofu", &["plan", "-input=false", "-lock=false", "-out=$PLAN"]),
    ]
}

fn applying() -> Vec<InputStep> {
    vec![
        tool(2, Stage::Init, "tofu", &["init", "-input=false"]),
        tool(3, Stage::Apply, "tofu", &["apply", "-input=false", "$PLAN"]),
    ]
}

fn approved(lock: &[u8]) -> InputPlan {
    let (file, lock) = (digest(b"planned\n"), digest(lock));
    InputPlan { digest: "a".to_owned(), file_digest: Some(file), lock_digest: Some(lock) }
}

#[tokio::test]
async fn a_plan_of_terraform_is_handed_in_whole() {
    let f = tofu(RunPhase::Plan, planning()).await;
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    let address = format!("{}/v1/stacks/7/state", f.console.url);
    assert_eq!(f.console.log(0), format!("init as run at {address}\n"));
    f.console.with(|told| {
        assert_eq!(told.parts["file"], b"planned\n");
        assert_eq!(told.parts["text"], b"will create ***\n");
        let plan: Value = serde_json::from_slice(&told.parts["json"]).unwrap();
        assert_eq!(plan["variables"]["p"]["value"], "***");
        let planned = told.planned.as_ref().unwrap();
        assert_eq!(planned.summary, PlanSummary { add: 1, ..PlanSummary::default() });
        assert_eq!(planned.file_digest.as_deref(), Some(digest(b"planned\n").as_str()));
        assert_eq!(planned.json_digest.as_deref(), Some(digest(&told.parts["json"]).as_str()));
        assert_eq!(planned.lock_digest.as_deref(), Some(digest(b"lock\n").as_str()));
    });
    let read = |name: &str| std::fs::read_to_string(f.work().join(name)).unwrap();
    assert_eq!(read("plural.auto.tfvars.json"), r#"{"size":3}"#);
    assert_eq!(read("plural_backend_override.tf"), "terraform {\n  backend \"http\" {}\n}\n");
    assert!(!f.printed().contains(TOKEN));
}

/// Whatever image somebody names, the first thing that is asked of the tool says that it is not there: nothing is planned, and nothing
/// changes.
#[tokio::test]
async fn a_tool_that_the_image_lacks_plans_and_applies_nothing() {
    for (phase, steps, first) in [(RunPhase::Plan, planning(), 0), (RunPhase::Apply, applying(), 2)] {
        let f = tofu(phase, steps).await;
        let without = f.folder.path().join("image");
        std::fs::create_dir(&without).unwrap();
        f.change(|input| {
            input.environment = vec![variable("PATH", without.to_str().unwrap(), false)];
            input.plan = (phase == RunPhase::Apply).then(|| approved(b"lock\n"));
        });
        f.console.with(|told| told.plan_file = b"planned\n".to_vec());
        assert_eq!(f.run().await, Outcome::Failed, "{phase:?}");
        let done = f.console.done();
        assert!(!done.succeeded && !done.changed && done.outputs.is_none(), "{phase:?}: {:?}", done.error);
        let error = done.error.unwrap_or_default();
        assert!(error.contains("no program `tofu`") && error.contains("configuration.image"), "{error}");
        assert!(f.console.log(first).contains(&error), "{phase:?}: {}", f.console.log(first));
        f.console.with(|told| {
            assert!(told.planned.is_none() && told.parts.is_empty(), "{phase:?}: {:?}", told.parts);
            assert!(told.steps.iter().all(|(index, _)| *index == first), "{phase:?}: {:?}", told.steps);
        });
    }
}

/// The code of a fork is a program that prints all it finds, and a harness that does not know of forks runs it as well.
#[tokio::test]
async fn a_check_has_nothing_that_could_be_read_out_of_its_environment() {
    const ENVIRONMENT: &str = "env; cat *.tfvars* *override.tf 2>/dev/null || true";
    let pull = RunPullRequest {
        connection_id: ScmConnectionId::new(),
        repository: "acme/infra".to_owned(),
        number: 7,
        url: "https://git.example.com/acme/infra/pulls/7".to_owned(),
        title: "More".to_owned(),
        sha: "0123456".to_owned(),
        fork: true,
        checked_only: true,
        reference: None,
    };
    let spec = StackSpec::default().for_pull_request(pull);
    let steps = steps(StackTool::Terraform, &spec, RunKind::DryRun, RunPhase::Plan).unwrap();
    let input =
        RunInput { kind: RunKind::DryRun, spec, ..input(StackTool::Terraform, RunPhase::Plan, steps) };
    let proxy = ConsoleProxy { url: "http://ada:hunter2@proxy.example:3128".into(), except: String::new() };
    let mut f = Fixture::of(input, &[("app/main.tf", "")]).await;
    f.proxy = Some(proxy);
    let path = program(f.folder.path(), "tofu", ENVIRONMENT);
    f.change(|input| input.environment = vec![variable("PATH", path, false)]);
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    let printed = f.console.log(0) + &f.console.log(1);
    assert!(printed.contains("TF_IN_AUTOMATION=1"), "{printed}");
    for found in
        ["hunter2", "proxy.example", "TF_HTTP", "PLURAL_CONSOLE", TOKEN, &state_token(TOKEN), "backend \""]
    {
        assert!(!printed.contains(found), "{found}: {printed}");
    }
    f.console.with(|told| {
        let planned = told.planned.as_ref().unwrap();
        assert_eq!(planned.summary, PlanSummary { other: true, ..PlanSummary::default() });
        assert!(planned.file_digest.is_none() && planned.json_digest.is_none());
    });
}

#[tokio::test]
async fn a_plan_that_was_approved_is_applied_and_its_outputs_are_read() {
    let f = tofu(RunPhase::Apply, applying()).await;
    f.change(|input| input.plan = Some(approved(b"lock\n")));
    f.console.with(|told| told.plan_file = b"planned\n".to_vec());
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    assert_eq!(f.console.log(3), "planned\n");
    let done = f.console.done();
    assert!(done.succeeded && done.changed);
    let outputs = done.outputs.unwrap();
    let found: Vec<_> =
        outputs.iter().map(|OutputReport { name, value, secret }| (name.as_str(), value, *secret)).collect();
    assert_eq!(found, [("a", &json!([1]), false), ("b", &json!("x"), true)]);
}

#[tokio::test]
async fn what_was_applied_is_reported_also_where_its_outputs_are_not_taken() {
    let f = tofu(RunPhase::Apply, applying()).await;
    f.change(|input| input.plan = Some(approved(b"lock\n")));
    f.console.with(|told| (told.plan_file, told.refuses_outputs) = (b"planned\n".to_vec(), true));
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    let done = f.console.done();
    assert!(done.succeeded && done.changed && done.outputs.is_none());
    assert!(f.printed().contains("does not take the outputs: "), "{}", f.printed());
}

#[tokio::test]
async fn other_providers_than_those_of_the_plan_apply_nothing() {
    let f = tofu(RunPhase::Apply, applying()).await;
    f.change(|input| input.plan = Some(approved(b"another lock\n")));
    f.console.with(|told| told.plan_file = b"planned\n".to_vec());
    assert_eq!(f.run().await, Outcome::Failed);
    assert!(f.console.error().contains("the providers are not those of the plan"), "{}", f.console.error());
    assert!(!f.console.done().changed);
    assert_eq!(f.console.log(3), "");
}

/// A hook of the stack knows where the file is: it is that of the next command, too.
#[tokio::test]
async fn a_plan_that_a_command_exchanged_is_not_applied() {
    let [init, apply] = <[InputStep; 2]>::try_from(applying()).unwrap();
    let exchange = shell(3, Stage::Init, "echo other >\"$PLAN\"");
    let f = tofu(RunPhase::Apply, vec![init, exchange, InputStep { index: 4, ..apply }]).await;
    f.change(|input| input.plan = Some(approved(b"lock\n")));
    f.console.with(|told| told.plan_file = b"planned\n".to_vec());
    assert_eq!(f.run().await, Outcome::Failed);
    let error = f.console.error();
    assert!(error.contains("the plan file is not the one that was approved any more"), "{error}");
    assert!(!f.console.done().changed);
    assert_eq!(f.console.log(4), "");
}

#[tokio::test]
async fn a_state_that_could_not_be_written_is_handed_in() {
    for (status, message, expected) in [
        (StatusCode::CONFLICT, "it is kept as rejected version 7", "it is kept as rejected version 7"),
        (StatusCode::OK, "", "it is the stack's state now"),
        (
            StatusCode::LOCKED,
            "it is kept beside the one that is held",
            "it is kept beside the one that is held",
        ),
    ] {
        let f = tofu(RunPhase::Apply, applying()).await;
        f.change(|input| {
            input.plan = Some(approved(b"lock\n"));
            input.environment.push(variable("FAIL", "1", false));
        });
        f.console.with(|told| {
            (told.plan_file, told.state_answer) = (b"planned\n".to_vec(), Some((status, message)));
        });
        assert_eq!(f.run().await, Outcome::Failed);
        let error = f.console.error();
        assert!(error.contains("exit code 1") && error.contains(expected), "{error}");
        assert!(f.console.done().changed);
        let times = if status == StatusCode::LOCKED { 2 } else { 1 };
        f.console.with(|told| assert_eq!(told.states, vec![b"{\"serial\": 2}\n"; times]));
    }
}

#[tokio::test]
async fn a_command_has_the_credential_for_the_state_and_no_log_shows_it() {
    // As it is, as basic authentication writes it, and as `base64` breaks it.
    let script = "printf %s \"$TF_HTTP_PASSWORD\" >password; env >environment; echo \"as $TF_HTTP_PASSWORD\"; \
                  printf %s \"$TF_HTTP_USERNAME:$TF_HTTP_PASSWORD\" | base64 | tr -d '\\n'; echo; \
                  printf %s \"$TF_HTTP_PASSWORD\" | base64";
    let f = Fixture::new(vec![shell(0, Stage::Plan, script)]).await;
    f.change(|input| input.state_path = Some("/v1/stacks/7/state".to_owned()));
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    let read = |name: &str| std::fs::read_to_string(f.work().join(name)).unwrap();
    assert_eq!(read("password"), state_token(TOKEN));
    assert!(!read("environment").contains(TOKEN), "{}", read("environment"));
    let hidden = "as ***\n***\n***\n***=\n";
    assert_eq!((f.console.log(0).as_str(), f.printed().as_str()), (hidden, hidden));
}

#[tokio::test]
async fn ansible_is_given_its_variables_in_a_file_and_its_recap_is_the_summary() {
    let script =
        "cat \"${2#@}\"; echo; shift 2; echo \"$*\"; echo 'PLAY RECAP ***'; echo 'web : ok=2 changed=1'";
    let steps = vec![tool(0, Stage::Plan, "ansible-playbook", &["--check", "--diff", "main.yaml"])];
    let f = Fixture::of(input(StackTool::Ansible, RunPhase::Plan, steps), &[("app/main.yaml", "")]).await;
    let path = program(f.folder.path(), "ansible-playbook", script);
    f.change(|input| {
        input.environment = vec![variable("PATH", path, false)];
        input.spec.variables.insert("size".to_owned(), json!(3));
    });
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    let text = "{\"size\":3}\n--check --diff main.yaml\nPLAY RECAP ***\nweb : ok=2 changed=1\n";
    assert_eq!(f.console.log(0), text);
    f.console.with(|told| {
        assert_eq!(told.parts["text"], text.as_bytes());
        let summary = told.planned.as_ref().unwrap().summary;
        assert_eq!(summary, PlanSummary { change: 1, ..PlanSummary::default() });
    });
}

#[tokio::test]
async fn pulumi_is_told_its_variables_over_its_standard_input() {
    let script = r#"
case "$1" in
  config) shift 2; echo "$* = $(cat)" >>told ;;
  preview) for arg in "$@"; do case "$arg" in --save-plan=*) echo planned >"${arg#--save-plan=}" ;; esac; done
    printf 'Resources:\n    + 2 to create\n' ;;
esac
"#;
    let steps = vec![
        tool(0, Stage::Init, "pulumi", &["stack", "select", "dev"]),
        tool(1, Stage::Plan, "pulumi", &["preview", "--save-plan=$PLAN"]),
    ];
    let f = Fixture::of(input(StackTool::Pulumi, RunPhase::Plan, steps), &[("app/Pulumi.yaml", "")]).await;
    let path = program(f.folder.path(), "pulumi", script);
    f.change(|input| {
        input.environment = vec![variable("PATH", path, false), variable("P", "hunter2", true)];
        input.spec.variables.insert("password".to_owned(), json!("hunter2"));
        input.spec.variables.insert("size".to_owned(), json!(3));
    });
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    let told = std::fs::read_to_string(f.work().join("told")).unwrap();
    assert_eq!(told, "--secret -- password = hunter2\n-- size = 3\n");
    f.console.with(|told| {
        let planned = told.planned.as_ref().unwrap();
        assert_eq!(planned.summary, PlanSummary { add: 2, ..PlanSummary::default() });
        assert_eq!(told.parts["file"], b"planned\n");
    });
}

#[tokio::test]
async fn a_look_of_pulumi_for_drift_leaves_no_plan_file() {
    let script = r#"
case "$1" in
  refresh) printf '    ~ aws:s3/bucket:Bucket: (update)\n        [urn=urn:pulumi:dev::p::aws:s3/bucket:Bucket::logs]\n'
    printf 'Resources:\n    ~ 1 to update\n' ;;
esac
"#;
    let steps = vec![tool(0, Stage::Plan, "pulumi", &["refresh", "--preview-only", "--diff"])];
    let f = Fixture::of(input(StackTool::Pulumi, RunPhase::Plan, steps), &[("app/Pulumi.yaml", "")]).await;
    let path = program(f.folder.path(), "pulumi", script);
    f.change(|input| {
        input.kind = RunKind::Drift;
        input.environment = vec![variable("PATH", path, false)];
    });
    assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
    f.console.with(|told| {
        let planned = told.planned.as_ref().unwrap();
        assert_eq!(planned.summary, PlanSummary { change: 1, ..PlanSummary::default() });
        assert!(planned.file_digest.is_none() && !told.parts.contains_key("file"));
        assert!(String::from_utf8_lossy(&told.parts["text"]).contains("::logs]"));
    });
}

/// Keeps to `trivy config --format json --exit-code 0 --output REPORT PLAN`: it says how many resources the plan changes.
const TRIVY: &str = r#"
set -e
while [ "$1" != --output ]; do shift; done
grep -q resource_changes "$3"
if [ -n "$SAYS" ]; then printf '%s' "$SAYS" >"$2"; fi
"#;

fn scanned() -> Vec<InputStep> {
    let args =
        ["config", "--format", "json", "--exit-code", "0", "--output", "$PLAN.trivy.json", "$PLAN.json"];
    let scan = InputStep { name: "trivy".to_owned(), ..tool(2, Stage::Verify, "trivy", &args) };
    planning().into_iter().chain([scan]).collect()
}

#[tokio::test]
async fn what_trivy_says_of_a_plan_is_handed_in_or_the_run_fails() {
    let found = r#"{"SchemaVersion": 2, "Results": [{"Misconfigurations": [{"ID": "X", "Message": "hunter2 is open"}]}]}"#;
    for (says, told) in [
        (found, None),
        ("", Some("Trivy left no report")),
        ("no JSON", Some("the report of Trivy is no JSON")),
        (r#"{"SchemaVersion": 2}"#, Some("says nothing of the plan")),
    ] {
        let f = tofu(RunPhase::Plan, scanned()).await;
        program(f.folder.path(), "trivy", TRIVY);
        f.change(|input| input.environment.push(variable("SAYS", says, false)));
        let outcome = f.run().await;
        match told {
            None => {
                assert_eq!(outcome, Outcome::Done, "{}", f.printed());
                f.console.with(|told| {
                    let report: Value = serde_json::from_slice(&told.parts["findings/trivy"]).unwrap();
                    let message = &report["Results"][0]["Misconfigurations"][0]["Message"];
                    assert_eq!(*message, "*** is open", "secrets are hidden");
                });
            }
            Some(told) => {
                assert_eq!(outcome, Outcome::Failed);
                let error = f.console.done().error.unwrap();
                assert!(error.contains(told), "{error}");
            }
        }
    }
    let f = tofu(RunPhase::Plan, scanned()).await;
    let path = f.folder.path().display().to_string();
    f.change(|input| input.environment[0] = variable("PATH", path, false));
    assert_eq!(f.run().await, Outcome::Failed);
    let error = f.console.done().error.unwrap();
    assert!(error.contains("there is no program `trivy` in this image"), "{error}");
}

#[tokio::test]
async fn what_a_plan_costs_is_asked_where_it_can_be_and_keeps_nothing_up() {
    const COST: &str = r#"
test "$1 $2 $4 $5" = "breakdown --path --format json"
grep -q resource_changes "$3"
printf '%s' "$SAYS"
test -z "$FAIL"
"#;
    let cost = r#"{"currency": "USD", "totalMonthlyCost": "1.5", "projects": []}"#;
    for (key, says, fails, is_told) in
        [("k3y", cost, "", true), ("", cost, "", false), ("k3y", "x", "", false), ("k3y", cost, "1", false)]
    {
        let f = tofu(RunPhase::Plan, planning()).await;
        program(f.folder.path(), "infracost", COST);
        f.change(|input| {
            let given = [("INFRACOST_API_KEY", key), ("SAYS", says), ("FAIL", fails)];
            input.environment.extend(given.map(|(name, value)| variable(name, value, false)));
        });
        assert_eq!(f.run().await, Outcome::Done, "{}", f.printed());
        f.console.with(|told| {
            let kept =
                told.parts.get("findings/cost").map(|kept| serde_json::from_slice::<Value>(kept).unwrap());
            assert_eq!(kept.is_some(), is_told);
            assert!(kept.is_none_or(|kept| kept["totalMonthlyCost"] == "1.5"));
        });
    }
}
