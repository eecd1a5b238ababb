//! Real clients reach a cluster through console and agent.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use anyhow::Context as _;
use plural_testkit::{Backend, TestCluster, each_cluster, eventually};

use crate::{
    proxy_world::{Kubectl, ProxyWorld, run},
    world::PATIENCE,
};

each_cluster!(kubectl_does_its_work, a_kubeconfig_of_our_own_program, another_client_does_its_work);

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

fn map(value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {{key: \"{value}\"}}\n")
}

async fn kubectl_does_its_work(cluster: TestCluster) -> anyhow::Result<()> {
    let w = ProxyWorld::new(cluster).await?;
    w.bind_in_cluster(&w.admin.email, "cluster-admin").await?;
    let Some(k) = w.kubectl(&w.admin.token)? else { return Ok(()) };

    // Looking.
    assert!(k.ok(&["version"]).await?.contains("Server Version: v1."));
    assert!(k.ok(&["api-resources"]).await?.contains("deployments"));
    assert!(k.ok(&["api-versions"]).await?.contains("apps/v1"));
    assert_eq!(k.ok(&["get", "--raw", "/readyz"]).await?, "ok");
    assert!(k.ok(&["explain", "configmap"]).await?.contains("ConfigMap"));
    assert!(k.ok(&["get", "namespaces"]).await?.contains("kube-system"));
    assert_eq!(k.ok(&["auth", "can-i", "delete", "pods"]).await?.trim(), "yes");
    assert!(k.ok(&["auth", "whoami"]).await?.contains(&w.admin.email));

    // One object, in every way that changes it.
    k.ok(&["create", "configmap", "made", "--from-literal=a=b"]).await?;
    assert_eq!(k.ok(&["get", "configmap", "made", "-o", "jsonpath={.data.a}"]).await?, "b");
    assert!(k.ok(&["get", "configmap", "made", "-o", "yaml"]).await?.contains("a: b"));
    k.ok(&["label", "configmap", "made", "tier=x"]).await?;
    assert!(k.ok(&["get", "configmaps", "-l", "tier=x", "-o", "name"]).await?.contains("configmap/made"));
    k.ok(&["annotate", "configmap", "made", "note=y"]).await?;
    k.ok(&["patch", "configmap", "made", "--type=merge", "-p", r#"{"data":{"a":"c"}}"#]).await?;
    assert_eq!(k.ok(&["get", "configmap", "made", "-o", "jsonpath={.data.a}"]).await?, "c");
    k.ok_with(&["apply", "--server-side", "-f", "-"], Some(&map("1"))).await?;
    k.ok_with(&["apply", "--server-side", "-f", "-"], Some(&map("2"))).await?;
    let said = k.run(&["diff", "--server-side", "-f", "-"], Some(&map("3"))).await?;
    assert!(said.code == Some(1) && said.out.contains("+  key: \"3\""), "{said:?}");
    k.ok_with(&["apply", "-f", "-"], Some(&map("2").replace("settings", "older"))).await?;
    k.ok_with(&["replace", "-f", "-"], Some(&map("4"))).await?;
    assert_eq!(k.ok(&["get", "configmap", "settings", "-o", "jsonpath={.data.key}"]).await?, "4");
    assert!(k.ok(&["describe", "configmap", "settings"]).await?.contains("key:"));
    // A body far larger than any window.
    let large = "x".repeat(900_000);
    k.ok_with(&["apply", "--server-side", "-f", "-"], Some(&map(&large).replace("settings", "large")))
        .await?;
    let read = k.ok(&["get", "configmap", "large", "-o", "jsonpath={.data.key}"]).await?;
    assert_eq!(read.len(), large.len());

    watches(&k).await.context("watch")?;

    // What runs.
    k.ok_with(&["apply", "--server-side", "-f", "-"], Some(DEPLOYMENT)).await?;
    k.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]).await?;
    k.ok(&["wait", "deployment/web", "--for=condition=Available", "--timeout=60s"]).await?;
    k.ok(&["scale", "deployment/web", "--replicas=1"]).await?;
    k.ok(&["set", "image", "deployment/web", "web=example.com/web:2"]).await?;
    k.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]).await?;
    assert!(k.ok(&["rollout", "history", "deployment/web"]).await?.contains('2'));
    k.ok(&["rollout", "undo", "deployment/web"]).await?;
    k.ok(&["rollout", "restart", "deployment/web"]).await?;
    k.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]).await?;
    assert!(k.ok(&["get", "pods", "-A"]).await?.contains("web-"));
    k.ok(&["events"]).await?;
    let said = k.run(&["top", "pods"], None).await?;
    assert!(said.code == Some(1) && said.err.contains("Metrics API not available"), "{said:?}");

    k.ok(&["run", "shell", "--image=example.com/shell:1"]).await?;
    k.ok(&["wait", "pod/shell", "--for=condition=Ready", "--timeout=60s"]).await?;
    assert!(!k.ok(&["logs", "shell"]).await?.is_empty());
    assert!(!first_line(&k, &["logs", "-f", "shell"]).await.context("logs -f")?.is_empty());
    if w.cluster.backend() == Backend::Real {
        inside(&k).await.context("exec")?;
        terminal(&k).await.context("exec -it")?;
    }

    k.ok(&["delete", "configmap", "made"]).await?;
    let said = k.run(&["get", "configmap", "made"], None).await?;
    assert!(said.code == Some(1) && said.err.contains("NotFound"), "{said:?}");
    k.ok(&["delete", "deployment", "web", "--wait=false"]).await?;
    k.ok(&["delete", "pod", "shell", "--now", "--wait=false"]).await?;
    w.end().await
}

/// A watch tells what happens while it is open.
async fn watches(k: &Kubectl) -> anyhow::Result<()> {
    let mut command = k.command();
    command.args(["get", "configmaps", "-w", "-o", "name"]).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let out = BufReader::new(child.stdout.take().context("no output")?);
    let (told, mut lines) = tokio::sync::mpsc::channel(100);
    let reader = std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if told.blocking_send(line).is_err() {
                return;
            }
        }
    });
    let mut until = async |wanted: &str| -> anyhow::Result<()> {
        tokio::time::timeout(PATIENCE, async {
            while let Some(line) = lines.recv().await {
                if line == wanted {
                    return Ok(());
                }
            }
            anyhow::bail!("the watch ended")
        })
        .await?
    };
    until("configmap/settings").await?;
    k.ok(&["create", "configmap", "late"]).await?;
    until("configmap/late").await?;
    child.kill()?;
    child.wait()?;
    drop(lines);
    let _ = reader.join();
    Ok(())
}

/// The first line that kubectl says, of what may go on for ever.
async fn first_line(k: &Kubectl, args: &[&str]) -> anyhow::Result<String> {
    let mut command = k.command();
    command.args(args).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut out = BufReader::new(child.stdout.take().context("no output")?);
    let line = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        out.read_line(&mut line).map(|_| line)
    });
    let line = tokio::time::timeout(PATIENCE, line).await;
    let _ = child.kill();
    child.wait()?;
    Ok(line???)
}

/// Commands, their input, and files.
async fn inside(k: &Kubectl) -> anyhow::Result<()> {
    assert_eq!(k.ok(&["exec", "shell", "--", "echo", "hello"]).await?, "hello\n");
    // One line: kwok does not tell a command that its input has ended.
    let said = k.ok_with(&["exec", "-i", "shell", "--", "head", "-n", "1"], Some("from here\n")).await?;
    assert_eq!(said, "from here\n");
    let much = k.ok(&["exec", "shell", "--", "head", "-c", "20000000", "/dev/zero"]).await?;
    assert_eq!(much.len(), 20_000_000);
    let said = k.run(&["exec", "shell", "--", "false"], None).await?;
    assert_ne!(said.code, Some(0), "{said:?}");
    // Out of the Pod only: kwok does not tell a command that its input has ended, and tar waits for that.
    k.ok(&["exec", "shell", "--", "sh", "-c", "echo a file > there"]).await?;
    k.ok(&["cp", "shell:there", "back"]).await?;
    assert_eq!(std::fs::read_to_string(k.home().join("back"))?, "a file\n");
    Ok(())
}

/// A terminal, as `script` gives one.
async fn terminal(k: &Kubectl) -> anyhow::Result<()> {
    let line = format!("{} exec -it shell -- tty", k.program().display());
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]);
    command.env("KUBECONFIG", k.kubeconfig()).env("HOME", k.home()).env("TERM", "xterm");
    // Its input stays open while it runs: its end would be the terminal's.
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut out = BufReader::new(child.stdout.take().context("no output")?);
    let told = tokio::task::spawn_blocking(move || {
        let mut told = String::new();
        while !told.contains("/dev/pts/") && out.read_line(&mut told)? > 0 {}
        anyhow::Ok(told)
    });
    let told = tokio::time::timeout(PATIENCE, told).await;
    let _ = child.kill();
    child.wait()?;
    let told = told???;
    assert!(told.contains("/dev/pts/"), "{told:?}");
    Ok(())
}

/// `plural login`, `plural cd clusters kubeconfig --merge`, and kubectl with the plugin that it names.
async fn a_kubeconfig_of_our_own_program(cluster: TestCluster) -> anyhow::Result<()> {
    let w = ProxyWorld::new(cluster).await?;
    w.bind_in_namespace("User", &w.admin.email, "view").await?;
    let Some(k) = w.kubectl(&w.admin.token)? else { return Ok(()) };
    let home = w.folder.path().join("person");
    std::fs::create_dir_all(&home)?;
    let plural = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plural"));
        command
            .args(args)
            .env_clear()
            .env("HOME", &home)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    };
    let ca = w.folder.path().join("tls.crt").display().to_string();
    let login = plural(&["login", "--url", &w.console.url, "--ca-file", &ca, "--token-stdin"]);
    let said = run(login, Some(w.admin.token.clone())).await?;
    assert_eq!(said.code, Some(0), "{said:?}");
    let said = run(plural(&["cd", "clusters", "kubeconfig", "blue", "--merge"]), None).await?;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("plural-blue"), "{said:?}");
    let text = std::fs::read_to_string(home.join(".kube/config"))?;
    assert!(!text.contains("console-"), "a kubeconfig holds no token: {text}");

    let get = || {
        let mut command = Command::new(k.program());
        command.args(["get", "configmaps", "-n", &w.namespace, "-o", "name"]);
        command.env_clear().env("HOME", &home).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        run(command, None)
    };
    let said = get().await?;
    assert_eq!(said.code, Some(0), "{said:?}");
    // The token is kept for the next call, readable by its owner alone.
    let kept: Vec<_> = std::fs::read_dir(home.join(".plural/kubernetes"))?.collect();
    assert_eq!(kept.len(), 1);
    let file = kept.into_iter().next().context("no file")??.path();
    let first = std::fs::read_to_string(&file)?;
    get().await?;
    assert_eq!(std::fs::read_to_string(&file)?, first);
    // One that was revoked is replaced.
    let token =
        serde_json::from_str::<serde_json::Value>(&first)?["token"].as_str().context("no token")?.to_owned();
    w.app().token_delete(&w.as_admin().await?, &token).await?;
    let said = get().await?;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_ne!(std::fs::read_to_string(&file)?, first);
    // Without a login there is no token, and the reason is told.
    std::fs::remove_dir_all(home.join(".plural"))?;
    let said = get().await?;
    assert!(said.code == Some(1) && said.err.contains("plural login"), "{said:?}");
    w.end().await
}

/// The Rust client that others build on, as a second one beside kubectl.
async fn another_client_does_its_work(cluster: TestCluster) -> anyhow::Result<()> {
    use futures::{AsyncBufReadExt as _, TryStreamExt as _};
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
    use kube::{
        Api, ResourceExt as _,
        api::{DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
        config::{KubeConfigOptions, Kubeconfig},
    };

    let w = ProxyWorld::new(cluster).await?;
    w.bind_in_cluster(&w.admin.email, "cluster-admin").await?;
    let kubeconfig = Kubeconfig::read_from(w.kubeconfig(&w.admin.token)?)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = kube::Client::try_from(config)?;

    assert!(client.apiserver_version().await?.git_version.starts_with("v1."));
    assert!(client.list_api_groups().await?.groups.iter().any(|group| group.name == "apps"));
    let namespaces: Api<Namespace> = Api::all(client.clone());
    assert!(namespaces.get_opt(&w.namespace).await?.is_some());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &w.namespace);
    let mut made = ConfigMap::default();
    made.metadata.name = Some("made".to_owned());
    maps.create(&PostParams::default(), &made).await?;
    let events = maps.watch(&WatchParams::default(), "0").await?;
    let mut events = std::pin::pin!(events);
    let patch = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
    maps.patch("made", &PatchParams::apply("test"), &Patch::Apply(&patch)).await?;
    let seen = async {
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(map) | WatchEvent::Modified(map) = event
                && map.name_any() == "made"
                && map.data.is_some()
            {
                return Ok(());
            }
        }
        anyhow::bail!("the watch ended")
    };
    tokio::time::timeout(PATIENCE, seen).await??;
    assert!(maps.list(&ListParams::default()).await?.iter().any(|map| map.name_any() == "made"));
    maps.delete("made", &DeleteParams::default()).await?;
    assert!(maps.get_opt("made").await?.is_none());

    let pods: Api<Pod> = Api::namespaced(client.clone(), &w.namespace);
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shell"},
        "spec": {"containers": [{"name": "shell", "image": "example.com/shell:1"}]},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    eventually(PATIENCE, async || {
        let pod = pods.get("shell").await.map_err(|error| error.to_string())?;
        let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
        if phase == "Running" { Ok(()) } else { Err(phase) }
    })
    .await;
    let params = LogParams { follow: true, ..LogParams::default() };
    let mut lines = pods.log_stream("shell", &params).await?.lines();
    assert!(tokio::time::timeout(PATIENCE, lines.try_next()).await??.is_some());
    w.end().await
}
