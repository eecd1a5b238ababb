//! The real kubectl, as `cargo xtask test` built it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use plural_kubesim::{Cluster, ClusterOptions, Sim};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// kubectl of the tested version, or nothing where there is none; with `CI` set that fails. The testkit, which finds it
/// for other crates, is made of this one.
fn program() -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let found = ["KUBEBUILDER_ASSETS", "PLURAL_TEST_PROGRAMS"]
        .into_iter()
        .filter_map(|name| std::env::var_os(name).map(PathBuf::from))
        // TARGET/PROFILE/deps/TEST, and the folder in TARGET where the runner links what it built.
        .chain(own.ancestors().nth(3).map(|target| target.join("test-programs")))
        .map(|folder| folder.join("kubectl"))
        .find(|program| program.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "kubectl is missing and CI is set: run `cargo xtask test`");
        eprintln!("not run: there is no kubectl; `cargo xtask test` builds it");
        if let Some(notes) = std::env::var_os("PLURAL_TEST_NOT_RUN") {
            let name = std::thread::current().name().unwrap_or("a test").to_owned();
            let mut notes = std::fs::OpenOptions::new().create(true).append(true).open(notes).unwrap();
            std::io::Write::write_all(&mut notes, format!("{name}\n").as_bytes()).unwrap();
        }
    }
    found
}

struct Kubectl {
    program: PathBuf,
    cluster: Cluster,
    folder: tempfile::TempDir,
}

impl Kubectl {
    async fn start() -> Option<Self> {
        let program = program()?;
        let mut o = ClusterOptions::named("sim");
        o.pod_ready_after = Duration::from_millis(50);
        o.job_runs_for = Duration::from_millis(50);
        let cluster = Sim::new().unwrap().cluster(o).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config"), cluster.kubeconfig()).unwrap();
        Some(Self { program, cluster, folder })
    }

    async fn run(&self, line: &str, input: &str) -> (bool, String, String) {
        let mut child = Command::new(&self.program)
            .args(line.split_whitespace())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.folder.path().join("config"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        let out = tokio::time::timeout(Duration::from_mins(1), child.wait_with_output())
            .await
            .expect(line)
            .unwrap();
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
        (out.status.success(), text(out.stdout), text(out.stderr))
    }

    /// Runs kubectl; gives its output if it succeeded.
    async fn ok(&self, line: &str) -> String {
        self.with(line, "").await
    }

    async fn with(&self, line: &str, input: &str) -> String {
        let (ok, out, err) = self.run(line, input).await;
        assert!(ok, "kubectl {line}: {err}{out}");
        out
    }

    /// Runs kubectl; gives its errors if it failed.
    async fn fails(&self, line: &str, input: &str) -> String {
        let (ok, out, err) = self.run(line, input).await;
        assert!(!ok, "kubectl {line} succeeded: {out}");
        format!("{err}{out}")
    }
}

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: example.com/web:1
        ports: [{containerPort: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80}]
";

#[tokio::test]
async fn applies_waits_and_shows() {
    let Some(k) = Kubectl::start().await else { return };
    assert!(k.ok("version").await.contains("Server Version: v1.36.2"));
    let out = k.with("apply -f -", WEB).await;
    assert_eq!(out, "deployment.apps/web created\nservice/web created\n");
    assert!(k.ok("rollout status deployment/web --timeout=30s").await.contains("successfully rolled out"));
    k.ok("wait --for=condition=Available deployment/web --timeout=30s").await;
    let out = k.with("apply -f -", WEB).await;
    assert_eq!(out, "deployment.apps/web unchanged\nservice/web unchanged\n");
    let table = k.ok("get deployment web").await;
    let rows: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert_eq!(rows[1][..4], ["web", "2/2", "2", "2"]);
    let wide = k.ok("get deployment web -o wide").await;
    assert!(wide.contains("IMAGES") && wide.contains("example.com/web:1"), "{wide}");
    let names = k.ok("get deploy,rs,po,svc -o name").await;
    assert_eq!(names.lines().filter(|l| l.starts_with("pod/")).count(), 2, "{names}");
    assert!(k.ok("get pods -l app=web --field-selector status.phase=Running").await.contains("1/1"));
    assert!(k.ok("logs deployment/web --tail=1").await.starts_with("main: "));
    let about = k.ok("describe deployment web").await;
    assert!(about.contains("ScalingReplicaSet") && about.contains("NewReplicaSetAvailable"), "{about}");
    let pod = names.lines().find(|l| l.starts_with("pod/")).unwrap();
    let about = k.ok(&format!("describe {pod}")).await;
    assert!(about.contains("Successfully assigned default/"), "{about}");
    assert!(k.ok("get events").await.contains("SuccessfulCreate"));
    assert!(k.ok("get all -A").await.contains("service/kubernetes"));
    k.cluster.stop().await;
}

#[tokio::test]
async fn applies_on_the_server_and_conflicts() {
    let Some(k) = Kubectl::start().await else { return };
    let out = k.with("apply --server-side -f -", WEB).await;
    assert_eq!(out, "deployment.apps/web serverside-applied\nservice/web serverside-applied\n");
    k.ok("scale deployment web --replicas=3").await;
    let e = k.fails("apply --server-side -f -", WEB).await;
    assert!(
        e.contains("conflict with \"kubectl\" with subresource \"scale\" using apps/v1: .spec.replicas"),
        "{e}"
    );
    k.with("apply --server-side --force-conflicts -f -", WEB).await;
    assert_eq!(k.ok("get deploy web -o jsonpath={.spec.replicas}").await, "2");
    // From client-side apply to server-side apply and on.
    k.with("apply -f -", &WEB.replace("name: web", "name: old")).await;
    k.with("apply --server-side -f -", &WEB.replace("name: web", "name: old")).await;
    let shown = k.ok("get deployment old -o yaml --show-managed-fields").await;
    assert!(!shown.contains("kubectl-client-side-apply"), "{shown}");
    k.cluster.stop().await;
}

#[tokio::test]
async fn diffs_edits_and_deletes() {
    let Some(k) = Kubectl::start().await else { return };
    k.with("apply -f -", WEB).await;
    k.with("diff -f -", WEB).await;
    let (ok, out, _) = k.run("diff -f -", &WEB.replace("web:1", "web:2")).await;
    assert!(
        !ok && out.contains("-      - image: example.com/web:1")
            && out.contains("+      - image: example.com/web:2"),
        "{out}"
    );
    let (ok, out, _) =
        k.run("diff --server-side --force-conflicts -f -", &WEB.replace("web:1", "web:2")).await;
    assert!(!ok && out.contains("example.com/web:2"), "{out}");
    k.ok("label deployment web team=a").await;
    k.ok("annotate deployment web note=b").await;
    k.ok("set image deployment/web main=example.com/web:3").await;
    k.ok("rollout status deployment/web --timeout=30s").await;
    assert!(k.ok("rollout history deployment/web").await.contains('2'));
    k.ok("rollout undo deployment/web").await;
    k.ok("rollout status deployment/web --timeout=30s").await;
    assert!(k.ok("get deployment web -o yaml").await.contains("example.com/web:1"));
    k.ok("rollout restart deployment/web").await;
    k.ok("patch service web -p {\"spec\":{\"type\":\"NodePort\"}}").await;
    assert!(k.ok("get service web").await.contains("NodePort"));
    k.ok("delete deployment web --cascade=foreground --timeout=30s").await;
    k.ok("wait --for=delete pod -l app=web --timeout=30s").await;
    let e = k.fails("get deployment web", "").await;
    assert!(e.contains("Error from server (NotFound): deployments.apps \"web\" not found"), "{e}");
    k.cluster.stop().await;
}

#[tokio::test]
async fn creates_what_typed_commands_create() {
    let Some(k) = Kubectl::start().await else { return };
    k.ok("create namespace space").await;
    k.ok("-n space create configmap c --from-literal=a=b").await;
    k.ok("-n space create secret generic s --from-literal=a=b").await;
    k.ok("-n space create serviceaccount robot").await;
    k.ok("-n space create deployment d --image=example.com/d:1 --replicas=1").await;
    k.ok("-n space create service clusterip d --tcp=80:8080").await;
    k.ok("-n space create role r --verb=get --resource=pods").await;
    k.ok("-n space create rolebinding b --role=r --serviceaccount=space:robot").await;
    k.ok("-n space create ingress i --rule=example.com/*=d:80").await;
    k.ok("-n space autoscale deployment d --max=3 --cpu=50%").await;
    k.ok("-n space create job j --image=example.com/j:1").await;
    k.ok("-n space create cronjob cj --image=example.com/j:1 --schedule=@daily").await;
    k.ok("-n space run p --image=example.com/p:1").await;
    k.ok("-n space expose pod p --port=80").await;
    k.ok("-n space wait --for=condition=complete job/j --timeout=30s").await;
    k.ok("-n space wait --for=condition=Ready pod/p --timeout=30s").await;
    assert!(!k.ok("-n space create token robot").await.trim().is_empty());
    assert_eq!(k.ok("auth can-i list pods").await.trim(), "yes");
    let e = k.fails("auth can-i list pods --as=jane", "").await;
    assert!(e.contains("no"), "{e}");
    assert!(k.ok("auth whoami").await.contains("admin"));
    assert_eq!(k.ok("-n space get configmap c -o jsonpath={.data.a}").await, "b");
    assert!(k.ok("-n space get hpa d").await.contains("Deployment/d"));
    assert!(k.ok("-n space describe ingress i").await.contains("example.com"));
    k.ok("-n space delete pod p --now").await;
    k.ok("delete namespace space --timeout=30s").await;
    let e = k.fails("-n space create configmap c", "").await;
    assert!(e.contains("namespaces \"space\" not found"), "{e}");
    k.cluster.stop().await;
}

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, kind: Thing, shortNames: [th]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: what is wanted
            properties: {size: {type: integer, maximum: 10}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
";

#[tokio::test]
async fn knows_custom_resources_and_explains() {
    let Some(k) = Kubectl::start().await else { return };
    k.with("apply --server-side -f -", DEFINITION).await;
    k.ok("wait --for=condition=Established crd/things.example.com --timeout=30s").await;
    let thing = "{apiVersion: example.com/v1, kind: Thing, metadata: {name: t}, spec: {size: 3}}";
    assert_eq!(k.with("apply -f -", thing).await, "thing.example.com/t created\n");
    assert_eq!(k.with("apply -f -", thing).await, "thing.example.com/t unchanged\n");
    let rows = k.ok("get th").await;
    assert!(rows.starts_with("NAME   SIZE") && rows.contains("t      3"), "{rows}");
    let e = k.fails("apply -f -", &thing.replace('3', "30")).await;
    assert!(e.contains("should be less than or equal to 10"), "{e}");
    let e = k.fails("apply -f -", &thing.replace("size: 3", "sise: 3")).await;
    assert!(e.contains("unknown field \"spec.sise\""), "{e}");
    assert!(k.ok("explain thing.spec").await.contains("what is wanted"));
    assert!(k.ok("explain deployment.spec.strategy").await.contains("rollingUpdate"));
    assert!(k.ok("api-resources --api-group=example.com").await.contains("things"));
    k.ok("delete crd things.example.com --timeout=30s").await;
    k.cluster.stop().await;
}

#[tokio::test]
async fn watches_and_follows() {
    let Some(k) = Kubectl::start().await else { return };
    k.ok("run p --image=example.com/p:1").await;
    k.ok("wait --for=condition=Ready pod/p --timeout=30s").await;
    let follow = k.run("logs -f p", "");
    let delete = async {
        k.ok("wait --for=condition=Ready pod/p --timeout=30s").await;
        k.ok("delete pod p --wait=false").await;
    };
    let ((ok, out, err), ()) = tokio::join!(follow, delete);
    assert!(ok && out.starts_with("p: starting"), "{out}{err}");
    // The answer to a watch that ends is not an error.
    k.ok("get serviceaccounts --watch --request-timeout=1s -o name").await;
    k.cluster.stop().await;
}

#[tokio::test]
async fn commands_in_containers() {
    let Some(k) = Kubectl::start().await else { return };
    let told = r#"{"ls /srv": "index.html\n"}"#;
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, annotations: {{kubesim.plural.sh/exec: '{told}'}}}}\n\
         spec: {{containers: [{{name: web, image: x}}]}}\n"
    );
    assert!(k.run("create -f -", &pod).await.0);
    assert!(k.run("wait pod/web --for=condition=Ready --timeout=60s", "").await.0);
    for (line, input, expected) in [
        ("exec web -- echo hello", "", "hello\n"),
        ("exec web -- hostname", "", "web\n"),
        ("exec web -- ls /srv", "", "index.html\n"),
        ("exec -i web -- cat", "as it is", "as it is"),
        ("exec -i web -- sh", "echo one\nhostname\n", "one\nweb\n"),
    ] {
        let (ok, out, err) = k.run(line, input).await;
        assert!(ok && out == expected, "{line}: {out:?} {err}");
    }
    let (ok, _, err) = k.run("exec web -- false", "").await;
    assert!(!ok && err.contains("exit code 1"), "{err}");
    let (ok, _, err) = k.run("exec web -- nope", "").await;
    assert!(!ok && err.contains("executable file not found"), "{err}");
    let (ok, _, err) = k.run("exec web -c other -- true", "").await;
    assert!(!ok && err.contains("container other is not valid for pod web"), "{err}");
    let (ok, _, err) = k.run("port-forward web :80", "").await;
    assert!(!ok && err.contains("needs a node to run on"), "{err}");
}
