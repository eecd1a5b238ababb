//! The real kubectl through console and agent: a script of its operations, each by its name.

mod streams;

pub(crate) use self::streams::{Running, forward};

use plural_testkit::{Backend, TestCluster, each_cluster};

use crate::proxy_world::{Kubectl, ProxyWorld};

each_cluster!(kubectl_does_its_work, kubectl_does_its_work_through_another_replica);

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: \"example.com/web:1\", ports: [{containerPort: 80}]}]
";

fn map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{key: \"{value}\"}}\n")
}

/// What was done so far. An operation has a name, is done once, and fails the test by its name.
struct Script {
    kubectl: Kubectl,
    done: Vec<String>,
}

impl Script {
    fn step(&mut self, name: &str) {
        assert!(!self.done.iter().any(|done| done == name), "{name} is in the script twice");
        self.done.push(name.to_owned());
    }

    /// One command, named by how it begins, that says this.
    async fn says(&mut self, line: &str, expected: &str) -> anyhow::Result<()> {
        self.reads(line, None, expected).await
    }

    /// The same with something on its standard input.
    async fn reads(&mut self, line: &str, input: Option<&str>, expected: &str) -> anyhow::Result<()> {
        self.step(line);
        let args: Vec<&str> = line.split(' ').collect();
        let said = self.kubectl.ok_with(&args, input).await?;
        anyhow::ensure!(said.contains(expected), "kubectl {line}: {expected:?} is not in {said:?}");
        Ok(())
    }

    /// One command that fails and says why.
    async fn fails(&mut self, line: &str, input: Option<&str>, expected: &str) -> anyhow::Result<()> {
        self.step(line);
        let args: Vec<&str> = line.split(' ').collect();
        let said = self.kubectl.run(&args, input).await?;
        let told = said.code == Some(1) && (said.err.contains(expected) || said.out.contains(expected));
        anyhow::ensure!(told, "kubectl {line}: {said:?}");
        Ok(())
    }
}

async fn kubectl_does_its_work(cluster: TestCluster) -> anyhow::Result<()> {
    script(ProxyWorld::new(cluster).await?).await
}

async fn kubectl_does_its_work_through_another_replica(cluster: TestCluster) -> anyhow::Result<()> {
    match ProxyWorld::with_replicas(cluster).await? {
        Some(world) => script(world).await,
        None => Ok(()),
    }
}

async fn script(w: ProxyWorld) -> anyhow::Result<()> {
    w.bind_in_cluster(&w.admin.email, "cluster-admin").await?;
    let Some(kubectl) = w.kubectl(&w.admin.token)? else { return Ok(()) };
    let mut s = Script { kubectl, done: Vec::new() };

    looks_around(&mut s, &w.admin.email).await?;
    changes_objects(&mut s).await?;
    streams::watches(&mut s).await?;
    runs_a_deployment(&mut s).await?;
    s.says("run shell --image=example.com/shell:1", "created").await?;
    s.says("wait pod/shell --for=condition=Ready --timeout=60s", "met").await?;
    s.says("logs shell", "\n").await?;
    streams::follows_logs(&mut s).await?;
    streams::inside(&mut s).await?;
    streams::terminal(&mut s).await?;
    let mut least = 46;
    if w.cluster.backend() == Backend::Real {
        streams::inside_by_other_ways(&mut s).await?;
        streams::forwards(&mut s).await?;
        least = 50;
    } else {
        streams::attached(&mut s).await?;
        s.fails("cp shell:there back", None, "\"tar\": executable file not found").await?;
        s.fails("port-forward pod/shell :80", None, "needs a node to run on").await?;
    }
    takes_away(&mut s).await?;
    println!("{} operations: {}", s.done.len(), s.done.join("; "));
    assert!(s.done.len() >= least, "{} operations", s.done.len());
    w.end().await
}

async fn looks_around(s: &mut Script, email: &str) -> anyhow::Result<()> {
    s.says("version", "Server Version: v1.").await?;
    s.says("cluster-info", "/k8s/blue").await?;
    s.says("api-resources", "deployments").await?;
    s.says("api-versions", "apps/v1").await?;
    s.says("get --raw /readyz", "ok").await?;
    s.says("explain configmap", "ConfigMap").await?;
    s.says("get namespaces", "kube-system").await?;
    s.says("auth can-i delete pods", "yes").await?;
    s.says("auth can-i --list", "selfsubjectaccessreviews").await?;
    s.says("auth whoami", email).await
}

/// One object, in every way that changes it.
async fn changes_objects(s: &mut Script) -> anyhow::Result<()> {
    s.says("create configmap made --from-literal=a=b", "created").await?;
    s.says("get configmap made -o jsonpath={.data.a}", "b").await?;
    s.says("get configmap made -o yaml", "a: b").await?;
    s.says("label configmap made tier=x", "labeled").await?;
    s.says("get configmaps -l tier=x -o name", "configmap/made").await?;
    s.says("annotate configmap made note=y", "annotated").await?;
    s.says(r#"patch configmap made --type=merge -p {"data":{"a":"c"}}"#, "patched").await?;
    s.reads("apply --server-side -f -", Some(&map("settings", "1")), "serverside-applied").await?;
    let other = "apply --server-side --field-manager=other -f -";
    s.fails(other, Some(&map("settings", "2")), "conflict").await?;
    let other = "apply --server-side --field-manager=other --force-conflicts -f -";
    s.reads(other, Some(&map("settings", "2")), "serverside-applied").await?;
    s.fails("diff --server-side --force-conflicts -f -", Some(&map("settings", "3")), "+  key: \"3\"")
        .await?;
    s.reads("apply -f -", Some(&map("older", "2")), "created").await?;
    s.reads("replace -f -", Some(&map("settings", "4")), "replaced").await?;
    s.says("get configmap settings -o jsonpath={.data.key}", "4").await?;
    s.says("get configmaps --chunk-size=1", "settings").await?;
    s.says("describe configmap settings", "key:").await?;
    // A body far larger than any window.
    let large = "x".repeat(900_000);
    s.reads("apply --server-side --force-conflicts -f -", Some(&map("large", &large)), "applied").await?;
    s.says("get configmap large -o jsonpath={.data.key}", &large).await
}

async fn runs_a_deployment(s: &mut Script) -> anyhow::Result<()> {
    s.reads("create -f -", Some(DEPLOYMENT), "created").await?;
    s.says("rollout status deployment/web --timeout=60s", "successfully rolled out").await?;
    s.says("wait deployment/web --for=condition=Available --timeout=60s", "met").await?;
    s.says("scale deployment/web --replicas=1", "scaled").await?;
    s.says("set image deployment/web web=example.com/web:2", "updated").await?;
    s.says("rollout status deployment/web --watch --timeout=60s", "successfully rolled out").await?;
    s.says("rollout history deployment/web", "2").await?;
    s.says("rollout undo deployment/web", "rolled back").await?;
    s.says("rollout restart deployment/web", "restarted").await?;
    s.says("get pods -A", "web-").await?;
    s.says("expose deployment web --port=80", "exposed").await?;
    s.says("events", "").await?;
    s.fails("top pods", None, "Metrics API not available").await
}

async fn takes_away(s: &mut Script) -> anyhow::Result<()> {
    s.says("delete configmap made", "deleted").await?;
    s.fails("get configmap made", None, "NotFound").await?;
    s.says("delete deployment,service web --wait=false", "deleted").await?;
    s.says("delete pod shell --now --wait=false", "deleted").await?;
    s.says("wait pod/shell --for=delete --timeout=60s", "").await
}
