//! `plural apply`, `get`, `diff`, `delete` and `explain` against a real console.

use std::path::Path;

use plural_testkit::GitRemote;
use plural_wire::{Client, ClientOptions, Connection, Operation, OperationKind, Secret, SignIn};
use serde::Serialize;
use serde_json::Value;

use crate::{
    run::{Done, Person},
    whole::{Whole, whole},
};

/// The audit log, newest last.
#[derive(Serialize)]
struct Audits {
    first: i64,
}

impl Operation for Audits {
    type Data = Connection<Value>;
    const NAME: &'static str = "Audits";
    const KIND: OperationKind = OperationKind::Query;
    const FIELD: &'static str = "audits";
    const DOCUMENT: &'static str = "query Audits($first: Int!) {
  audits(first: $first) { pageInfo { hasNextPage endCursor } edges { node { action times } } }
}";
}

async fn audits(w: &Whole) -> Vec<String> {
    let nobody = Client::new(&ClientOptions::new(&w.console.url, None)).unwrap();
    let asked = SignIn { email: "ada@example.com".into(), password: Secret::new("correct horse battery") };
    let token = nobody.send(&asked).await.unwrap().jwt;
    let client = Client::new(&ClientOptions::new(&w.console.url, token)).unwrap();
    let all = client.send(&Audits { first: 100 }).await.unwrap();
    // Signing in to look is not what is counted.
    let all = all.edges.into_iter().map(|edge| edge.node.to_string());
    all.filter(|line| !line.contains("sign") && !line.contains("session") && !line.contains("token"))
        .collect()
}

/// A fleet of every kind, with a repository on this disk.
fn fleet(repository: &Path) -> String {
    format!(
        r#"
apiVersion: deployments.plural.sh/v1alpha1
kind: SyncWindow
metadata: {{name: freeze}}
spec: {{kind: DENY, schedule: "0 0 1 1 *", duration: 2h, cluster: blue, description: New Year}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: ServiceDeployment
metadata: {{name: web-on-blue}}
spec:
  name: web
  clusterRef: {{name: blue}}
  namespace: shop
  repositoryRef: {{name: deploy}}
  git: {{ref: main, folder: web/}}
  configurationRef: {{name: web-secrets}}
  configuration: {{REPLICAS: "3"}}
  configurationFrom: [{{name: SESSION, secretKeyRef: {{name: web-session, key: key}}}}]
  contexts: [network]
  dependencies: [{{name: base}}]
  helm: {{valuesFiles: [values.yaml], values: {{replicas: 2, password: hunter4}}}}
  syncConfig:
    createNamespace: false
    labels: {{team: shop}}
    diffNormalizers: [{{kind: Deployment, jsonPointers: [/spec/replicas]}}]
    policy: {{manual: true, waveTimeout: 5m}}
  protect: false
---
apiVersion: deployments.plural.sh/v1alpha1
kind: ServiceDeployment
metadata: {{name: base}}
spec: {{cluster: blue, repositoryRef: {{name: deploy}}, git: {{ref: main, folder: base}}}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: GlobalService
metadata: {{name: agents}}
spec:
  tags: {{stage: prod}}
  cascade: {{delete: true}}
  ignoreClusters: [blue]
  template:
    namespace: agents
    repositoryRef: {{name: deploy}}
    git: {{ref: main, folder: base}}
    kustomize: {{path: over}}
    configurationRef: {{name: web-secrets}}
  rollout: {{maxUnavailable: 10%, cohorts: [{{name: first, members: {{clusters: [blue]}}}}]}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: ManagedNamespace
metadata: {{name: team-a}}
spec:
  description: of team a
  labels: {{team: a}}
  target: {{tags: {{stage: test}}}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: ServiceContext
metadata: {{name: network}}
spec:
  configuration: {{region: eu-west-1, zones: [a, b]}}
  secretRef: {{name: context-secrets}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: HelmRepository
metadata: {{name: charts}}
spec:
  url: https://charts.example.com/stable
  auth: {{basic: {{username: bot, passwordSecretKeyRef: {{name: chart-secrets, key: pass}}}}}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: GitRepository
metadata: {{name: deploy}}
spec: {{url: {repository}}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: GitRepository
metadata: {{name: private}}
spec: {{url: "https://git.example.com/team/private.git", credentialsRef: {{name: git-secrets}}}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: Cluster
metadata: {{name: blue}}
spec: {{tags: {{stage: prod}}, metadata: {{floor: 3}}}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: Project
metadata: {{name: shop}}
spec: {{name: shop, description: the shop, limits: {{namespaces: ["shop-*"]}}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: web-secrets}}
stringData: {{DATABASE_PASSWORD: hunter2}}
---
apiVersion: v1
kind: Secret
metadata: {{name: context-secrets}}
data: {{token: aHVudGVyMw==}}
---
apiVersion: v1
kind: Secret
metadata: {{name: chart-secrets}}
stringData: {{pass: hunter5}}
---
apiVersion: v1
kind: Secret
metadata: {{name: git-secrets}}
stringData: {{username: bot, password: hunter6}}
"#,
        repository = repository.display()
    )
}

struct Fleet {
    w: Whole,
    _remote: GitRemote,
    folder: tempfile::TempDir,
    text: String,
}

async fn with_fleet() -> Fleet {
    let w = whole().await;
    let remote = GitRemote::new().unwrap();
    remote
        .push_files([
            ("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
            ("web/values.yaml", "replicas: 1\n"),
            ("base/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
        ])
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let text = fleet(&remote.path());
    std::fs::write(folder.path().join("fleet.yaml"), &text).unwrap();
    Fleet { w, _remote: remote, folder, text }
}

impl Fleet {
    async fn run(&self, line: &str) -> Done {
        let done = self.w.person.run(&line.replace("DIR", &self.folder.path().display().to_string())).await;
        for secret in ["hunter2", "hunter3", "hunter4", "hunter5", "hunter6"] {
            assert!(!done.out.contains(secret) && !done.err.contains(secret), "{line}: {}", done.text());
        }
        done
    }

    async fn ok(&self, line: &str) -> String {
        let done = self.run(line).await;
        assert_eq!(done.code, 0, "{line}\n{}", done.text());
        done.out
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }
}

#[tokio::test]
async fn a_fleet_is_applied_once_and_found_unchanged_from_then_on() {
    let f = with_fleet().await;
    let planned = f.ok("apply -f DIR --dry-run").await;
    assert_eq!(planned.lines().count(), 11, "{planned}");
    assert!(planned.lines().all(|line| line.ends_with("created (dry run)")), "{planned}");
    let before = audits(&f.w).await.len();
    assert!(f.run("diff -f DIR").await.code == 1);
    assert_eq!(audits(&f.w).await.len(), before, "a dry run wrote something");

    let made = f.ok("apply -f DIR").await;
    assert!(made.lines().all(|line| line.ends_with(" created")), "{made}");
    let place = |name: &str| {
        made.lines().position(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {made}"))
    };
    // Whatever the order in the files.
    assert!(place("cluster/blue") < place("servicedeployment/blue/base"));
    assert!(place("servicecontext/network") < place("servicedeployment/blue/web"));
    assert!(place("servicedeployment/blue/base") < place("servicedeployment/blue/web"));
    assert!(place("cluster/blue") < place("syncwindow/cluster/blue/freeze"));

    let before = audits(&f.w).await;
    let again = f.ok("apply -f DIR").await;
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    let after = audits(&f.w).await;
    let written: Vec<&String> = after.iter().filter(|line| !before.contains(line)).collect();
    // The values of a service are read to be compared, and reading them is in the log.
    assert!(written.iter().all(|line| line.contains(".read")), "{written:?}");
    assert_eq!(f.run("diff -f DIR").await.code, 0);

    // Secrets that the console does not tell are changed all the same, and only those.
    f.write("fleet.yaml", &f.text.replace("hunter6", "hunter7").replace("hunter2", "hunter8"));
    let diff = f.run("diff -f DIR").await;
    assert_eq!(diff.code, 1, "{}", diff.text());
    assert!(
        diff.out.contains("-# secret spec.configuration.DATABASE_PASSWORD: *** (before)"),
        "{}",
        diff.out
    );
    let changed = f.ok("apply -f DIR").await;
    for line in changed.lines() {
        let is_changed = ["gitrepository/private", "servicedeployment/blue/web", "globalservice/agents"]
            .iter()
            .any(|name| line.starts_with(name));
        assert!(line.ends_with(if is_changed { " configured" } else { " unchanged" }), "{changed}");
    }
    let again = f.ok("apply -f DIR").await;
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
}

#[tokio::test]
async fn what_is_printed_is_taken_back_unchanged() {
    let f = with_fleet().await;
    f.ok("apply -f DIR").await;
    for format in ["yaml", "json"] {
        let printed = f.ok(&format!("get all -o {format}")).await;
        assert!(printed.contains("ManagedNamespace") && printed.contains("freeze"), "{printed}");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(format!("all.{format}")), &printed).unwrap();
        let line = format!("apply -f {}", folder.path().display());
        let done = f.w.person.run(&line).await;
        assert_eq!(done.code, 0, "{}\n{printed}", done.text());
        assert!(done.out.lines().all(|line| line.ends_with(" unchanged")), "{}\n{printed}", done.text());
        assert!(done.out.lines().count() >= 11, "{}", done.out);
        let diff = f.w.person.run(&line.replacen("apply", "diff", 1)).await;
        assert_eq!(diff.code, 0, "{}", diff.text());
    }
    // What apply prints is of that form too.
    let printed = f.ok("apply -f DIR -o json").await;
    let listed: Value = serde_json::from_str(&printed).unwrap();
    assert!(
        listed["items"].as_array().unwrap().iter().all(|item| item["status"]["action"] == "unchanged"),
        "{printed}"
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("all.json"), &printed).unwrap();
    let done = f.w.person.run(&format!("diff -f {}", folder.path().display())).await;
    assert_eq!(done.code, 0, "{}", done.text());
    let one = f.ok("get svc blue/web -o yaml --secret-names").await;
    assert!(one.contains("# secret keys of spec.configuration: DATABASE_PASSWORD, REPLICAS"), "{one}");
    assert!(one.contains("# secret: spec.helm.values"), "{one}");
    assert_eq!(f.ok("get win -o name").await, "syncwindow/cluster/blue/freeze\n");
    assert!(f.ok("get svc,ctx").await.contains("blue/web"));
}

#[tokio::test]
async fn a_field_that_is_named_changes_and_the_others_stay() {
    let f = with_fleet().await;
    f.ok("apply -f DIR").await;
    f.w.ok("cd services update blue/web --protect=true").await;
    let change = "
apiVersion: deployments.plural.sh/v1alpha1
kind: ServiceDeployment
metadata: {name: web}
spec:
  cluster: blue
  helm: {release: shop}
  syncConfig: {policy: {manual: null}}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: SyncWindow
metadata: {name: freeze}
spec: {kind: DENY, schedule: 0 0 2 1 *, duration: 2h, cluster: blue}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: GlobalService
metadata: {name: agents}
spec: {template: {version: v2, kustomize: null}}
";
    f.write("fleet.yaml", change);
    let diff = f.run("diff -f DIR").await;
    assert_eq!(diff.code, 1);
    assert!(
        diff.out.contains("+    release: shop") && diff.out.contains("-      manual: true"),
        "{}",
        diff.out
    );
    let done = f.ok("apply -f DIR").await;
    assert!(done.lines().all(|line| line.ends_with(" configured")), "{done}");
    let web = f.ok("get svc blue/web -o yaml --secret-names").await;
    // What the document did not name is as it was, the values of the chart too.
    for kept in
        ["protect: true", "release: shop", "- values.yaml", "waveTimeout: 300s", "# secret: spec.helm.values"]
    {
        assert!(web.contains(kept), "{kept}: {web}");
    }
    assert!(!web.contains("manual"), "{web}");
    let window = f.ok("get win -o yaml").await;
    assert!(window.contains("0 0 2 1 *") && window.contains("New Year"), "{window}");
    // The template's secret values stayed: naming the same ones changes nothing.
    f.write("fleet.yaml", &f.text.replace("kustomize: {path: over}", "version: v2"));
    let done = f.ok("apply -f DIR").await;
    assert!(done.contains("globalservice/agents unchanged"), "{done}");
}

#[tokio::test]
async fn a_service_imports_stacks_of_the_console_and_of_the_files() {
    let f = with_fleet().await;
    f.ok("apply -f DIR").await;
    let importing = |imports: &str| {
        format!(
            "apiVersion: deployments.plural.sh/v1alpha1\nkind: ServiceDeployment\nmetadata: {{name: web}}\n\
             spec:\n  cluster: blue\n  imports: {imports}\n"
        )
    };
    f.write("fleet.yaml", &importing("[{stackRef: {name: net, namespace: infra}}]"));
    let missing = f.run("apply -f DIR").await;
    assert!(
        missing.code != 0 && missing.err.contains("there is no InfrastructureStack net among the files"),
        "{}",
        missing.err
    );
    f.w.ok("cd stacks create net").await;
    let done = f.ok("apply -f DIR").await;
    assert!(done.lines().all(|line| line.ends_with(" configured")), "{done}");
    let again = f.ok("apply -f DIR").await;
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    let web = f.ok("get svc blue/web -o yaml").await;
    assert!(web.contains("stackRef") && web.contains("net") && !web.contains("infra"), "{web}");
    // One among the files is made before.
    let with_stack = importing("[{stackRef: {name: net}}, {stackRef: {name: dns}}]")
        + "---\napiVersion: deployments.plural.sh/v1alpha1\nkind: InfrastructureStack\nmetadata: {name: dns}\nspec: {type: TERRAFORM}\n";
    f.write("fleet.yaml", &with_stack);
    let done = f.ok("apply -f DIR").await;
    assert_eq!(done, "infrastructurestack/dns created\nservicedeployment/blue/web configured\n");
    assert_eq!(f.w.json("cd services describe blue/web").await["imports"].as_array().map(Vec::len), Some(2));
    f.write("fleet.yaml", &importing("[]"));
    f.ok("apply -f DIR").await;
    let web = f.w.json("cd services describe blue/web").await;
    assert_eq!(web["imports"], serde_json::json!([]), "{web}");
}

#[tokio::test]
async fn a_context_takes_outputs_of_stacks_of_the_console_and_of_the_files() {
    let f = with_fleet().await;
    let taking = |imports: &str| {
        format!(
            "apiVersion: deployments.plural.sh/v1alpha1\nkind: ServiceContext\nmetadata: {{name: network}}\n\
             spec:\n  configuration: {{region: eu}}\n  imports: {imports}\n\
             ---\napiVersion: deployments.plural.sh/v1alpha1\nkind: InfrastructureStack\nmetadata: {{name: dns}}\n\
             spec: {{type: TERRAFORM}}\n"
        )
    };
    let two = "[{stackRef: {name: dns}, output: zone, sensitive: true}, {stackRef: {name: dns}, output: id, name: zone_id}]";
    f.write("fleet.yaml", &taking(two));
    let done = f.ok("apply -f DIR").await;
    assert_eq!(done, "infrastructurestack/dns created\nservicecontext/network created\n");
    let again = f.ok("apply -f DIR").await;
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    let printed = f.ok("get ctx network -o yaml").await;
    for part in ["output: zone", "sensitive: true", "name: zone_id", "name: dns"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    // What the document does not name stays; an empty list takes all away.
    let silent = taking(two).lines().filter(|line| !line.contains("imports")).collect::<Vec<_>>().join("\n");
    f.write("fleet.yaml", &silent);
    f.ok("apply -f DIR").await;
    assert_eq!(f.w.json("cd contexts get network").await["imports"].as_array().map(Vec::len), Some(2));
    f.write("fleet.yaml", &taking("[]"));
    f.ok("apply -f DIR").await;
    assert_eq!(f.w.json("cd contexts get network").await["imports"], serde_json::json!([]));
}

#[tokio::test]
async fn every_problem_is_told_with_its_line_before_anything_is_changed() {
    let f = with_fleet().await;
    f.write(
        "fleet.yaml",
        "apiVersion: deployments.plural.sh/v1alpha1
kind: ServiceDeployment
metadata: {name: web}
spec:
  cluster: nowhere
  repositoryRef: {name: missing}
  git:
    ref: main
    folder: 7
  hlem: {chart: web}
  protect: yes please
  flowRef: {name: a}
---
kind: Deployment
apiVersion: apps/v1
metadata: {name: web}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: GitRepositry
metadata: {name: web}
spec: {}
",
    );
    let done = f.run("apply -f DIR").await;
    assert_eq!(done.code, 1);
    for expected in [
        "fleet.yaml: document 1, line 9: ServiceDeployment web: spec.git.folder: must be text, not a number; put it in quotes",
        "fleet.yaml: document 1, line 10: ServiceDeployment web: spec.hlem: there is no such field; did you mean helm?",
        "fleet.yaml: document 1, line 11: ServiceDeployment web: spec.protect: must be true or false, not text",
        "fleet.yaml: document 1, line 12: ServiceDeployment web: spec.flowRef: is not supported: there are no flows",
        "fleet.yaml: document 2, line 14: Deployment of apps/v1 is not one of ours",
        "fleet.yaml: document 3, line 18: there is no kind GitRepositry; did you mean GitRepository?",
        "nothing was changed",
    ] {
        assert!(done.err.contains(expected), "{expected}\n{}", done.err);
    }
    // References are looked up once everything can be read.
    f.write(
        "fleet.yaml",
        "apiVersion: deployments.plural.sh/v1alpha1
kind: GitRepository
metadata: {name: good}
spec: {url: https://git.example.com/good.git}
---
apiVersion: deployments.plural.sh/v1alpha1
kind: ServiceDeployment
metadata: {name: web}
spec:
  cluster: nowhere
  repositoryRef: {name: missing}
  git: {ref: main, folder: web}
  configurationRef: {name: absent}
",
    );
    let done = f.run("apply -f DIR").await;
    assert_eq!(done.code, 1);
    for expected in [
        "line 10: ServiceDeployment web: spec.cluster: there is no Cluster nowhere",
        "line 11: ServiceDeployment web: spec.repositoryRef: there is no GitRepository missing",
        "line 13: ServiceDeployment web: spec.configurationRef: there is no Secret absent",
    ] {
        assert!(done.err.contains(expected), "{expected}\n{}", done.err);
    }
    assert_eq!(f.ok("get repo -o name").await, "");
    // What could not be taken back, or would do nothing, is no document either.
    f.write(
        "fleet.yaml",
        "apiVersion: deployments.plural.sh/v1alpha1
kind: GitRepository
metadata: {name: good}
spec:
  url: https://git.example.com/good.git
  credentialsRef: null
---
apiVersion: deployments.plural.sh/v1alpha1
kind: ServiceContext
metadata: {name: late}
spec: {configMapRef: {name: a}, reconciliation: {interval: 1h}}
",
    );
    let done = f.run("apply -f DIR").await;
    assert!(
        done.err.contains("line 11: ServiceContext late: spec.configMapRef: is not supported: "),
        "{}",
        done.err
    );
    f.write("fleet.yaml", "apiVersion: deployments.plural.sh/v1alpha1\nkind: GitRepository\nmetadata: {name: good}\n\
        spec: {url: https://git.example.com/good.git, credentialsRef: null, reconciliation: {interval: 1h}}\n");
    let done = f.run("apply -f DIR").await;
    assert!(done.err.contains("spec.credentialsRef: cannot be taken away"), "{}", done.err);
    f.write(
        "fleet.yaml",
        "apiVersion: deployments.plural.sh/v1alpha1\nkind: GitRepository\nmetadata: {name: good}\n\
        spec: {url: https://git.example.com/good.git, reconciliation: {interval: 1h}}\n",
    );
    let done = f.run("apply -f DIR --dry-run").await;
    assert!(
        done.code == 0 && done.err.contains("spec.reconciliation: it has no effect here"),
        "{}",
        done.text()
    );
    f.write(
        "fleet.yaml",
        "apiVersion: deployments.plural.sh/v1alpha1\nkind: Gitrepo\nmetadata: {name: good}\nspec: {}\n",
    );
    let diff = f.run("diff -f DIR").await;
    assert_eq!(diff.code, 2, "{}", diff.text());
    f.write("fleet.yaml", "a: [1\n");
    let done = f.run("apply -f DIR").await;
    assert!(done.err.contains("fleet.yaml: document 1, line 1: neither YAML nor JSON: "), "{}", done.err);
}

#[tokio::test]
async fn documents_that_need_each_other_in_a_circle_are_named() {
    let f = with_fleet().await;
    let service = |name: &str, needs: &str| {
        format!(
            "---\napiVersion: deployments.plural.sh/v1alpha1\nkind: ServiceDeployment\nmetadata: {{name: {name}}}\n\
             spec: {{cluster: blue, dependencies: [{{name: {needs}}}]}}\n"
        )
    };
    f.write("fleet.yaml", &[service("a", "b"), service("b", "c"), service("c", "a")].concat());
    let done = f.run("apply -f DIR").await;
    assert_eq!(done.code, 1);
    let circle = "ServiceDeployment a -> ServiceDeployment b -> ServiceDeployment c -> ServiceDeployment a";
    assert!(done.err.contains(circle), "{}", done.err);
}

fn context(name: &str, label: &str) -> String {
    format!(
        "---\napiVersion: deployments.plural.sh/v1alpha1\nkind: ServiceContext\n\
         metadata: {{name: {name}, labels: {{app: {label}}}}}\nspec: {{configuration: {{a: {name}}}}}\n"
    )
}

#[tokio::test]
async fn only_what_an_apply_with_the_label_made_is_pruned() {
    let f = with_fleet().await;
    // Made by a person: a document of it is no reason to prune it later.
    std::fs::write(f.folder.path().join("value.json"), "{\"a\": \"mine\"}").unwrap();
    f.ok("cd contexts save mine --file DIR/value.json").await;
    std::fs::remove_file(f.folder.path().join("value.json")).unwrap();
    f.write(
        "fleet.yaml",
        &[context("one", "shop"), context("two", "shop"), context("mine", "shop"), context("other", "else")]
            .concat(),
    );
    let done = f.ok("apply -f DIR -l app=shop").await;
    assert!(!done.contains("other"), "{done}");
    f.ok("apply -f DIR -l app=else").await;
    // Somebody deletes one and makes another of its name.
    f.ok("cd contexts delete two --yes").await;
    std::fs::write(f.folder.path().join("value.json"), "{\"a\": \"two again\"}").unwrap();
    f.ok("cd contexts save two --file DIR/value.json").await;
    std::fs::remove_file(f.folder.path().join("value.json")).unwrap();

    f.write("fleet.yaml", &context("three", "shop"));
    let dry = f.ok("apply -f DIR -l app=shop --prune --dry-run").await;
    assert_eq!(dry, "servicecontext/three created (dry run)\nservicecontext/one pruned (dry run)\n");
    let asked = f.run("apply -f DIR -l app=shop --prune").await;
    assert_eq!(asked.code, 2, "{}", asked.text());
    assert!(asked.err.contains("servicecontext/one") && !asked.err.contains("mine"), "{}", asked.err);
    assert!(!f.ok("get ctx -o name").await.contains("three"), "it was applied before it was confirmed");
    let done = f.ok("apply -f DIR -l app=shop --prune --yes").await;
    assert_eq!(done, "servicecontext/three created\nservicecontext/one pruned\n");
    let left = f.ok("get ctx -o yaml").await;
    for name in ["mine", "two", "other", "three"] {
        assert!(left.contains(&format!("name: {name}\n")), "{name}: {left}");
    }
    assert_eq!(f.ok("apply -f DIR -l app=shop --prune").await, "servicecontext/three unchanged\n");
    assert_eq!(f.run("apply -f DIR --prune").await.code, 2);
}

#[tokio::test]
async fn what_failed_is_told_and_the_next_run_completes() {
    let f = with_fleet().await;
    let repository = "apiVersion: deployments.plural.sh/v1alpha1\nkind: GitRepository\nmetadata: {name: plain}\n\
        spec: {url: http://git.example.com/plain.git, credentialsRef: {name: password}}\n---\n\
        apiVersion: v1\nkind: Secret\nmetadata: {name: password}\nstringData: {password: hunter2}\n";
    let cluster =
        "---\napiVersion: deployments.plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: blue}\nspec: {}\n";
    let service = "---\napiVersion: deployments.plural.sh/v1alpha1\nkind: ServiceDeployment\nmetadata: {name: web}\n\
        spec: {clusterRef: {name: blue}, repositoryRef: {name: plain}, git: {ref: main, folder: web}}\n";
    let files = [repository, cluster, service, &context("one", "shop")].concat();
    f.write("fleet.yaml", &files);
    let done = f.run("apply -f DIR").await;
    assert_eq!(done.code, 1, "{}", done.text());
    assert_eq!(done.out, "cluster/blue created\nservicecontext/one created\n");
    for expected in [
        "gitrepository/plain was not applied: ",
        "servicedeployment/blue/web was not applied, because gitrepository/plain was not",
        "2 of 4 documents were not applied",
    ] {
        assert!(done.err.contains(expected), "{expected}\n{}", done.err);
    }
    f.write("fleet.yaml", &files.replace("http://", "https://"));
    let done = f.ok("apply -f DIR -o name").await;
    assert!(done.contains("servicedeployment/blue/web\n"), "{done}");
    assert!(f.ok("apply -f DIR").await.lines().all(|line| line.ends_with(" unchanged")));
}

#[tokio::test]
async fn deleting_says_what_goes_and_goes_backwards() {
    let f = with_fleet().await;
    let files = [context("one", "shop"), context("two", "shop")].concat()
        + "---\napiVersion: deployments.plural.sh/v1alpha1\nkind: Project\nmetadata: {name: shop}\nspec: {name: shop}\n"
        + "---\napiVersion: deployments.plural.sh/v1alpha1\nkind: SyncWindow\nmetadata: {name: night}\n\
           spec: {kind: ALLOW, schedule: 0 1 * * *, duration: 1h, projectRef: {name: shop}}\n";
    f.write("fleet.yaml", &files);
    f.ok("apply -f DIR").await;
    let asked = f.run("delete -f DIR").await;
    assert_eq!(asked.code, 2, "{}", asked.text());
    assert!(asked.err.contains("syncwindow/project/shop/night"), "{}", asked.err);
    let done = f.ok("delete -f DIR --yes --wait").await;
    assert_eq!(
        done,
        "syncwindow/project/shop/night deleted\nservicecontext/two deleted\nservicecontext/one deleted\nproject/shop deleted\n"
    );
    assert_eq!(f.run("delete -f DIR --yes").await.code, 1);
    f.ok("delete -f DIR --yes --ignore-not-found").await;
}

#[tokio::test]
async fn every_kind_explains_its_fields() {
    let person = Person::new();
    for word in [
        "svc",
        "gs",
        "repo",
        "ns",
        "ctx",
        "win",
        "projects",
        "cluster",
        "helmrepositories",
        "stack",
        "stackdef",
    ] {
        let done = person.run(&format!("explain {word}")).await;
        assert_eq!(done.code, 0, "{}", done.text());
        assert!(done.out.contains("FIELDS of spec:") && done.out.contains("reconciliation"), "{}", done.out);
    }
    let done = person.run("explain svc.helm.version").await;
    assert!(done.out.contains("spec.helm.version <text>"), "{}", done.out);
    let done = person.run("explain svc.hlem").await;
    assert!(done.code == 2 && done.err.contains("did you mean helm?"), "{}", done.text());
    assert_eq!(person.run("explain pods").await.code, 2);
}
