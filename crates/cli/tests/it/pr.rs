//! Automations run here: what is written, shown, reported, and what fails.

use std::fs;

use serde_json::Value;

use crate::run::{Done, Person};

const AUTOMATION: &str = r#"apiVersion: deployments.plural.sh/v1alpha1
kind: PrAutomation
metadata:
  name: service
spec:
  title: "Add {{ context.name }}"
  message: "Plural Service: blue/{{ context.name }}"
  configuration:
    - name: name
      type: STRING
      validation:
        regex: ^[a-z]+$
    - name: replicas
      type: INT
      default: 1
  creates:
    templates:
      - source: service.yaml
        destination: "apps/{{ context.name }}.yaml"
        external: true
  updates:
    yamlOverlays:
      - file: kustomization.yaml
        templated: true
        listMerge: APPEND
        yaml: |
          resources:
            - apps/{{ context.name }}.yaml
    edits:
      - file: main.tf
        edit:
          op: block
          block: module
          labels: ["{{ context.name }}"]
          value: {source: ./service, replicas: "{{ context.replicas }}"}
---
kind: Project
"#;
const CONTRACTS: &str = "apiVersion: platform.plural.sh/v1alpha1\nkind: PrContracts\nspec:\n  workdir: out\n  templates: {from: scaffolds, to: out/copied}\n  automations:\n  - file: ../automation.yaml\n    context: ../answers.yaml\n    externalDir: copied\n";

/// Somebody with an automation, its templates, answers and a repository.
fn person() -> Person {
    let person = Person::new();
    for (path, text) in [
        ("automation.yaml", AUTOMATION),
        ("contracts.yaml", CONTRACTS),
        ("answers.yaml", "name: web\n"),
        ("bad.yaml", "name: Web\n"),
        ("scaffolds/service.yaml", "name: {{ context.name }}\nreplicas: {{ context.replicas }}\n"),
        ("out/kustomization.yaml", "# what there is\nresources:\n  - base # first\n"),
        ("out/main.tf", "terraform {}\n"),
        ("out/.git/config", "secret"),
    ] {
        let path = person.home().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    person
}

async fn run(person: &Person, line: &str) -> Done {
    let home = person.home().display().to_string();
    person.run(&line.replace('~', &home)).await
}

fn text(person: &Person, path: &str) -> String {
    fs::read_to_string(person.home().join(path)).unwrap_or_default()
}

const TEST: &str = "pr test ~/automation.yaml --context ~/answers.yaml --templates ~/scaffolds --dir ~/out";

#[tokio::test]
async fn an_automation_writes_what_the_console_would_commit() {
    let person = person();
    let done = run(&person, TEST).await;
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.out, "created apps/web.yaml\nchanged kustomization.yaml\nchanged main.tf\n");
    assert!(done.err.contains("service: Add web"), "{done:?}");
    assert_eq!(text(&person, "out/apps/web.yaml"), "name: web\nreplicas: 1\n");
    assert_eq!(
        text(&person, "out/kustomization.yaml"),
        "# what there is\nresources:\n  - base # first\n  - apps/web.yaml\n"
    );
    assert_eq!(
        text(&person, "out/main.tf"),
        "terraform {}\n\nmodule \"web\" {\n  replicas = 1\n  source = \"./service\"\n}\n"
    );
    // Done twice, it is done once.
    let again = run(&person, TEST).await;
    assert_eq!((again.code, again.out.as_str()), (0, ""), "{again:?}");
}

#[tokio::test]
async fn a_diff_is_shown_and_nothing_is_written() {
    let person = person();
    let done = run(&person, &format!("{TEST} --diff")).await;
    assert_eq!(done.code, 0, "{done:?}");
    for line in [
        "--- /dev/null",
        "+++ b/apps/web.yaml",
        "+name: web",
        "--- a/kustomization.yaml",
        "+  - apps/web.yaml",
    ] {
        assert!(done.out.lines().any(|found| found == line), "{line}: {}", done.out);
    }
    assert_eq!(text(&person, "out/apps/web.yaml"), "");
    let done = run(&person, &format!("{TEST} --diff -o json")).await;
    let told: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(told["automations"][0]["title"], "Add web");
    assert_eq!(told["automations"][0]["message"], "Plural Service: blue/web");
    assert_eq!(told["changes"][0]["path"], "apps/web.yaml");
    assert_eq!(told["changes"][0]["change"], "created");
}

#[tokio::test]
async fn what_fails_writes_nothing_and_is_reported() {
    let person = person();
    let line = TEST.replace("answers.yaml", "bad.yaml");
    let done = run(&person, &format!("{line} --junit ~/report.xml")).await;
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("name must match ^[a-z]+$"), "{done:?}");
    assert!(done.err.contains("1 of 1 automations failed") && !done.err.contains("Web"), "{done:?}");
    assert_eq!(text(&person, "out/main.tf"), "terraform {}\n");
    let report = text(&person, "report.xml");
    assert!(report.contains("tests=\"1\" failures=\"1\""), "{report}");
    assert!(report.contains("<failure message=\"name must match ^[a-z]+$\">"), "{report}");
    for (line, why) in [
        ("pr test ~/answers.yaml", "holds no PrAutomation"),
        ("pr contracts ~/automation.yaml", "holds no PrContracts"),
        ("pr test ~/contracts.yaml --context ~/answers.yaml", "holds contracts"),
        ("pr test ~/none.yaml", "cannot read the document"),
    ] {
        let done = run(&person, line).await;
        assert!(done.code > 0 && done.err.contains(why), "{line}: {done:?}");
    }
}

#[tokio::test]
async fn contracts_hold_where_nothing_would_change() {
    let person = person();
    let validate = "pr contracts ~/contracts.yaml --dir ~ --validate --junit ~/report.xml";
    let done = run(&person, validate).await;
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("4 files are not what the automations make of them"), "{done:?}");
    assert!(text(&person, "report.xml").contains("tests=\"2\" failures=\"1\""));
    assert_eq!(text(&person, "out/apps/web.yaml"), "");
    let done = run(&person, "pr contracts ~/contracts.yaml --dir ~").await;
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(text(&person, "out/copied/service.yaml"), text(&person, "scaffolds/service.yaml"));
    let done = run(&person, validate).await;
    assert_eq!(done.code, 0, "{done:?}");
    assert!(text(&person, "report.xml").contains("tests=\"2\" failures=\"0\""));
    assert_eq!(text(&person, "out/.git/config"), "secret");
}

#[tokio::test]
async fn contracts_read_and_write_nothing_outside_of_their_folder() {
    let person = person();
    let contracts = |from: &str, to: &str| {
        let changed = CONTRACTS.replace(from, to);
        assert_ne!(changed, CONTRACTS);
        fs::write(person.home().join("contracts.yaml"), changed).unwrap();
    };
    for (from, to) in [
        ("workdir: out", "workdir: ../out"),
        ("workdir: out", "workdir: /"),
        ("from: scaffolds", "from: ../scaffolds"),
        ("../answers.yaml", "../../answers.yaml"),
        ("../automation.yaml", "../../automation.yaml"),
        ("externalDir: copied", "externalDir: ../../scaffolds"),
    ] {
        contracts(from, to);
        let done = run(&person, "pr contracts ~/contracts.yaml --dir ~").await;
        assert_eq!(done.code, 2, "{to}: {done:?}");
        assert!(done.err.contains("is outside of"), "{to}: {done:?}");
    }
    assert_eq!(text(&person, "out/apps/web.yaml"), "");
}

#[cfg(unix)]
#[tokio::test]
async fn contracts_follow_no_link_out_of_their_folder() {
    let person = person();
    let home = person.home();
    fs::create_dir_all(home.join("inner")).unwrap();
    std::os::unix::fs::symlink(home.join("out"), home.join("inner/out")).unwrap();
    let done = run(&person, "pr contracts ~/contracts.yaml --dir ~/inner").await;
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("is outside of"), "{done:?}");
}

#[tokio::test]
async fn a_template_has_its_answers_with_it() {
    let person = person();
    let template = "kind: PrTemplate\ncontext:\n  version: '2'\nspec:\n  updates:\n    files: [main.tf]\n    regexes: ['terraform \\{\\}']\n    replace_template: 'terraform {} # {{ context.version }}'\n    match_strategy: any\n";
    fs::write(person.home().join("template.yaml"), template).unwrap();
    let done = run(&person, "pr template ~/template.yaml --dir ~/out").await;
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(text(&person, "out/main.tf"), "terraform {} # 2\n");
}
