//! Clients other than kubectl reach a cluster through console and agent, and so does what our own program writes.

use std::process::{Command, Stdio};

use anyhow::Context as _;
use plural_testkit::{TestCluster, each_cluster, eventually, program_or_report};

use crate::{
    proxy_world::{ProxyWorld, run},
    world::PATIENCE,
};

each_cluster!(a_kubeconfig_of_our_own_program, another_client_does_its_work, helm_does_its_work);

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
    // Who logs out leaves nothing behind, and without a login there is no token; the reason is told.
    let second = serde_json::from_str::<serde_json::Value>(&std::fs::read_to_string(&file)?)?;
    let second = second["token"].as_str().context("no token")?;
    assert!(w.app().actor_authenticate(second).await.is_ok());
    let said = run(plural(&["logout"]), None).await?;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(w.app().actor_authenticate(second).await.is_err(), "kubectl's token outlives the login");
    assert!(!file.exists());
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

/// The real Helm, as `cargo xtask test` built it.
async fn helm_does_its_work(cluster: TestCluster) -> anyhow::Result<()> {
    let Some(program) = program_or_report("helm") else { return Ok(()) };
    let w = ProxyWorld::new(cluster).await?;
    w.bind_in_cluster(&w.admin.email, "cluster-admin").await?;
    let (kubeconfig, home) = (w.kubeconfig(&w.admin.token)?, w.folder.path().join("helm"));
    std::fs::create_dir_all(home.join("chart/templates"))?;
    std::fs::write(home.join("chart/Chart.yaml"), "apiVersion: v2\nname: web\nversion: 1.0.0\n")?;
    std::fs::write(home.join("chart/values.yaml"), "size: 1\n")?;
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {size: \"{{ .Values.size }}\"}\n";
    std::fs::write(home.join("chart/templates/map.yaml"), map)?;
    let script = [
        ("install one chart --wait", "STATUS: deployed"),
        ("list", "web-1.0.0"),
        ("status one", "REVISION: 1"),
        ("get manifest one", "size: \"1\""),
        ("get values one --all", "size: 1"),
        ("upgrade one chart --set size=2 --wait", "REVISION: 2"),
        ("history one", "superseded"),
        ("rollback one 1 --wait", "Rollback was a success"),
        ("upgrade --install two chart --dry-run=server", "size: \"1\""),
        ("get all one", "REVISION: 3"),
        ("test one", "STATUS: deployed"),
        ("uninstall one --wait", "uninstalled"),
    ];
    for (line, expected) in script {
        let mut command = Command::new(&program);
        command.args(line.split(' ')).env_clear().current_dir(&home).stdin(Stdio::null());
        command.env("HOME", &home).env("KUBECONFIG", &kubeconfig);
        let said = run(command, None).await?;
        assert!(said.code == Some(0) && said.out.contains(expected), "helm {line}: {said:?}");
    }
    w.end().await
}
