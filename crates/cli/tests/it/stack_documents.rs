//! Stacks and their definitions as documents, against a real console.

use plural_testkit::GitRemote;
use serde_json::json;

use crate::{
    run::Done,
    whole::{Whole, whole},
};

struct Stacks {
    w: Whole,
    _remote: GitRemote,
    folder: tempfile::TempDir,
    text: String,
}

/// Stacks of three tools, one of which takes from another, and a definition.
fn stacks(repository: &str) -> String {
    format!(
        r#"
apiVersion: deployments.plural.sh/v1alpha1
kind: InfrastructureStack
metadata: {{name: db}}
spec:
  type: TERRAFORM
  tags: {{stage: prod, team: db}}
  interval: 1h30m
  repositoryRef: {{name: infra}}
  clusterRef: {{name: blue}}
  git: {{ref: main, folder: db/}}
  workdir: eu
  manageState: true
  configuration:
    version: "1.12"
    hooks: [{{cmd: lint, args: [-v], afterStage: PLAN}}]
    terraform: {{parallelism: 3, refresh: true, tofu: false}}
  variables: {{region: eu-west-1, sizes: [1, 2]}}
  environment:
    - {{name: TOKEN, secretKeyRef: {{name: tokens, key: cloud}}}}
    - {{name: REGION, value: eu}}
  files: [{{mountPath: certs, secretRef: {{name: certs}}}}]
  jobSpec:
    namespace: plural-runs
    labels: {{team: db}}
    resources: {{requests: {{cpu: 100m, memory: 128Mi}}, limits: {{memory: 1Gi}}}}
  approval: true
  requiredApprovals: 2
  forbidSelfApproval: true
  approvalExpiry: 24h
  timeout: 30m
  cron: {{crontab: "0 4 * * *", timeZone: Europe/Berlin, overrides: {{terraform: {{refresh: false}}}}}}
  drift: {{crontab: "0 * * * *"}}
  policyEngine: {{type: REGO, customPolicies: true, maxSeverity: HIGH}}
  dependencies: [{{stackRef: {{name: network}}, outputs: [{{output: subnet}}, {{output: id, variable: network_id}}]}}]
---
apiVersion: deployments.plural.sh/v1alpha1
kind: InfrastructureStack
metadata: {{name: network}}
spec: {{type: TERRAFORM, projectRef: {{name: infra}}}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: InfrastructureStack
metadata: {{name: zone}}
spec:
  type: CUSTOM
  repositoryRef: {{name: infra}}
  cluster: blue
  git: {{ref: main, folder: zone}}
  stackDefinitionRef: {{name: dns}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: StackDefinition
metadata: {{name: dns}}
spec:
  description: names of machines
  configuration: {{image: registry.example.com/dns, tag: v1, hooks: [{{cmd: login, afterStage: INIT}}]}}
  steps: [{{cmd: dns, args: [diff], stage: PLAN}}, {{cmd: dns, args: [push], stage: APPLY, requireApproval: true}}]
  deleteSteps: [{{cmd: dns, args: [clear], stage: DESTROY}}]
---
apiVersion: deployments.plural.sh/v1alpha1
kind: Cluster
metadata: {{name: blue}}
spec: {{}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: GitRepository
metadata: {{name: infra}}
spec: {{url: {repository}}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: Project
metadata: {{name: infra}}
spec:
  name: infra
  stackSettings:
    jobSpec:
      labels: {{tier: second}}
      tolerations: [{{key: runs, operator: Exists}}]
      resources: {{requests: {{cpu: 50m}}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: tokens}}
stringData: {{cloud: hunter2}}
---
apiVersion: v1
kind: Secret
metadata: {{name: certs}}
stringData: {{ca.pem: hunter3}}
"#
    )
}

async fn with_stacks() -> Stacks {
    let w = whole().await;
    let remote = GitRemote::new().unwrap();
    remote.push_files([("db/eu/main.tf", "terraform {}\n"), ("zone/a.txt", "a\n")]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let text = stacks(&remote.path().display().to_string());
    let all = Stacks { w, _remote: remote, folder, text };
    all.write(&all.text);
    all
}

impl Stacks {
    async fn run(&self, line: &str) -> Done {
        let done = self.w.person.run(&line.replace("DIR", &self.folder.path().display().to_string())).await;
        for secret in ["hunter2", "hunter3", "hunter4"] {
            assert!(!done.out.contains(secret) && !done.err.contains(secret), "{line}: {}", done.text());
        }
        done
    }

    async fn ok(&self, line: &str) -> String {
        let done = self.run(line).await;
        assert_eq!(done.code, 0, "{line}\n{}", done.text());
        done.out
    }

    fn write(&self, text: &str) {
        std::fs::write(self.folder.path().join("stacks.yaml"), text).unwrap();
    }
}

#[tokio::test]
async fn stacks_are_applied_once_and_what_is_printed_is_taken_back() {
    let s = with_stacks().await;
    let made = s.ok("apply -f DIR").await;
    assert!(made.lines().all(|line| line.ends_with(" created")), "{made}");
    let place = |name: &str| {
        made.lines().position(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {made}"))
    };
    // Whatever the order in the files.
    assert!(place("infrastructurestack/network") < place("infrastructurestack/db"), "{made}");
    assert!(place("stackdefinition/dns") < place("infrastructurestack/zone"), "{made}");
    assert!(place("cluster/blue") < place("infrastructurestack/db"), "{made}");

    let db = s.w.json("cd stacks describe db").await;
    assert_eq!(
        (&db["approval"], &db["requiredApprovals"], &db["forbidSelfApproval"], &db["manageState"]),
        (&json!(true), &json!(2), &json!(true), &json!(true)),
        "{db}"
    );
    assert_eq!(db["variables"], json!({"region": "eu-west-1", "sizes": [1, 2]}), "{db}");
    assert_eq!(db["files"], json!([{"path": "certs/ca.pem"}]), "{db}");
    let tags = json!([{"name": "stage", "value": "prod"}, {"name": "team", "value": "db"}]);
    assert_eq!((&db["tags"], &db["interval"]), (&tags, &json!("5400s")), "{db}");
    assert_eq!(s.w.json("cd stacks describe zone").await["definition"]["name"], "dns");

    // A second run writes nothing, though the console tells no secret values.
    let again = s.ok("apply -f DIR").await;
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    assert_eq!(s.run("diff -f DIR").await.code, 0);

    let printed = s.ok("get projects,clusters,repo,stackdef,stacks -o yaml").await;
    assert!(printed.contains("# secret values of spec.environment: TOKEN"), "{printed}");
    for said in [
        "tofu: false",
        "network_id",
        "refresh: false",
        "- name: TOKEN",
        "path: certs/ca.pem",
        "requireApproval: true",
        "tier: second",
        "cpu: 50m",
    ] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    s.write(&printed);
    let back = s.ok("apply -f DIR").await;
    assert!(
        back.lines().all(|line| line.ends_with(" unchanged")) && back.lines().count() >= 7,
        "{back}\n{printed}"
    );
    assert_eq!(s.run("diff -f DIR").await.code, 0);
    let table = s.ok("get stack/db").await;
    assert!(table.contains("db") && !table.contains("network"), "{table}");
    assert!(s.ok("get stack-definitions -o name").await.contains("stackdefinition/dns"));
}

#[tokio::test]
async fn what_a_document_of_a_stack_names_changes_and_the_rest_stays() {
    let s = with_stacks().await;
    s.ok("apply -f DIR").await;
    // A secret that the console does not tell is changed all the same, and only that.
    s.write(&s.text.replace("hunter2", "hunter4"));
    let changed = s.ok("apply -f DIR").await;
    for line in changed.lines() {
        let is_changed = line.starts_with("infrastructurestack/db ");
        assert!(line.ends_with(if is_changed { " configured" } else { " unchanged" }), "{changed}");
    }
    s.write(
        "
apiVersion: deployments.plural.sh/v1alpha1
kind: InfrastructureStack
metadata: {name: db}
spec:
  type: TERRAFORM
  configuration: {version: null, terraform: {tofu: null, parallelism: 4}}
  environment: [{name: TOKEN, secret: true}]
  jobSpec: {labels: null, resources: {limits: {memory: 2Gi}}}
  policyEngine: null
  cron: null
  protect: true
---
apiVersion: deployments.plural.sh/v1alpha1
kind: StackDefinition
metadata: {name: dns}
spec: {configuration: {tag: v2}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: Project
metadata: {name: infra}
spec: {name: infra, stackSettings: {jobSpec: {labels: null, resources: {limits: {memory: 3Gi}}}}}
",
    );
    let diff = s.run("diff -f DIR").await;
    assert!(diff.code == 1 && diff.out.contains("-      tofu: false"), "{}", diff.text());
    let done = s.ok("apply -f DIR").await;
    assert!(done.lines().all(|line| line.ends_with(" configured")), "{done}");
    let db = s.ok("get stack db -o yaml").await;
    for kept in [
        "workdir: eu",
        "memory: 128Mi",
        "memory: 2Gi",
        "parallelism: 4",
        "cmd: lint",
        "- name: TOKEN",
        "protect: true",
    ] {
        assert!(db.contains(kept), "{kept}: {db}");
    }
    for gone in ["tofu", "policyEngine", "cron:", "REGION", "labels:", "version: "] {
        assert!(!db.replace("apiVersion: ", "").contains(gone), "{gone}: {db}");
    }
    let settings = s.w.json("cd projects stack-settings infra").await["jobSpec"].clone();
    assert_eq!(
        (&settings["labels"], &settings["requests"], &settings["tolerations"][0]["key"]),
        (
            &json!({}),
            &json!({"requests": {"cpu": "50m", "memory": null}, "limits": {"cpu": null, "memory": "3Gi"}}),
            &json!("runs"),
        )
    );
    let dns = s.ok("get stackdef dns -o yaml").await;
    assert!(
        dns.contains("tag: v2") && dns.contains("- push") && dns.contains("requireApproval: true"),
        "{dns}"
    );
    let again = s.ok("apply -f DIR").await;
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
}

#[tokio::test]
async fn problems_of_stacks_are_told_before_anything_is_changed() {
    let s = with_stacks().await;
    s.ok("apply -f DIR").await;
    s.write(
        "apiVersion: deployments.plural.sh/v1alpha1
kind: InfrastructureStack
metadata: {name: half}
spec:
  type: CUSTOM
  cluster: blue
  commands: [{cmd: make, requireApproval: true}]
  environment: [{name: TOKEN, value: hunter2, secret: true}]
  agentId: a
---
apiVersion: deployments.plural.sh/v1alpha1
kind: StackDefinition
metadata: {name: dns}
spec: {configuration: {terraform: {tofu: true}}}
",
    );
    let done = s.run("apply -f DIR").await;
    assert!(done.code == 1 && done.err.contains("nothing was changed"), "{}", done.text());
    for expected in [
        "line 9: InfrastructureStack half: spec.agentId: is not supported",
        "spec.configuration.terraform: is not supported",
    ] {
        assert!(done.err.contains(expected), "{expected}\n{}", done.err);
    }
    let document = |name: &str, spec: &str| {
        format!(
            "apiVersion: deployments.plural.sh/v1alpha1\nkind: InfrastructureStack\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        )
    };
    for (name, spec, told) in [
        (
            "half",
            "{type: CUSTOM, environment: [{name: A, value: b, secret: true}]}",
            "spec.environment[0]: the value of a secret",
        ),
        ("half", "{type: CUSTOM, files: [{mountPath: a}]}", "spec.files[0]: secretRef is required"),
        (
            "half",
            "{type: CUSTOM, cluster: blue}",
            "repositoryRef, cluster (or clusterRef) and git go together",
        ),
        ("half", "{type: CUSTOM, paused: true}", "a new one is not paused"),
        (
            "half",
            "{type: CUSTOM, dependencies: [{stackRef: {name: none}}]}",
            "there is no InfrastructureStack none",
        ),
        ("db", "{type: CUSTOM}", "spec.type: cannot change"),
        ("db", "{type: TERRAFORM, git: null}", "spec.git: cannot be taken away"),
        (
            "db",
            "{type: TERRAFORM, configuration: {terraform: {parallelism: null}}}",
            "spec.configuration.terraform.parallelism: cannot be taken away",
        ),
    ] {
        s.write(&document(name, spec));
        let done = s.run("apply -f DIR").await;
        assert!(done.code == 1 && done.err.contains(told), "{spec}: {told}\n{}", done.text());
    }
    assert!(!s.ok("get stacks -o name").await.contains("half"));
}

#[tokio::test]
async fn stacks_go_when_their_documents_are_deleted_and_are_never_pruned() {
    let s = with_stacks().await;
    let plain = |name: &str, more: &str| {
        format!(
            "---\napiVersion: deployments.plural.sh/v1alpha1\nkind: InfrastructureStack\nmetadata: {{name: {name}, labels: {{app: shop}}}}\n\
             spec: {{type: TERRAFORM{more}}}\n"
        )
    };
    let both =
        [plain("upper", ", dependencies: [{stackRef: {name: lower}}]"), plain("lower", ", detach: true")]
            .concat();
    s.write(&both);
    s.ok("apply -f DIR -l app=shop").await;
    let other = "apiVersion: deployments.plural.sh/v1alpha1\nkind: ServiceContext\n\
        metadata: {name: other, labels: {app: shop}}\nspec: {configuration: {a: b}}\n";
    s.write(other);
    let pruned = s.ok("apply -f DIR -l app=shop --prune --yes").await;
    assert_eq!(pruned, "servicecontext/other created\n");
    s.write(&both);
    let asked = s.run("delete -f DIR").await;
    assert!(
        asked.code == 2 && asked.err.contains("infrastructurestack/upper, and what it made is destroyed"),
        "{}",
        asked.text()
    );
    assert!(asked.err.contains("infrastructurestack/lower; what it made stays"), "{}", asked.err);
    let done = s.ok("delete -f DIR --yes").await;
    assert_eq!(done, "infrastructurestack/upper deleted\ninfrastructurestack/lower deleted\n");
    assert_eq!(s.ok("get stacks -o name").await, "");
}
