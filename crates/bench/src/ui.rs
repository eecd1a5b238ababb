//! What a person waits for in the web console: Chromium, driven by `ui/tests/bench.mjs`, before a console of many services.
//!
//! The budgets are for two cores and software rendering; browser, console, agent and simulated cluster share them here.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::Context as _;
use futures::{TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use plural_agent::{Agent, AgentConfig, RunningAgent};
use plural_kubesim::ClusterOptions;
use plural_testkit::{GitRemote, OwnedFolder, TestCluster, TestDatabase, process::Running};
use plural_tunnel::ConsoleOptions;
use secrecy::SecretString;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
};

use crate::{
    api::{ADMIN, Api, PASSWORD},
    crowd,
    report::Figure,
    samples::Samples,
    seed::{self, Seeded, seed},
    soak::slope,
    usage::Usage,
};

/// The cluster that has an agent: the first of the seeded ones.
const CLUSTER: &str = "seed-000000";
const NAMESPACE: &str = "bench";
/// Requests at once while Pods are made.
const MAKING: usize = 64;
/// Pages that one person may leave open: the console counts their subscriptions.
const PAGES_EACH: usize = 100;
const CERTIFICATE: &str =
    "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: web}\nspec: {}\n";

/// How large, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Clusters
    #[arg(long, default_value_t = 1000)]
    clusters: usize,
    /// Services on each
    #[arg(long, default_value_t = 100)]
    services: usize,
    /// Pods in the cluster that has an agent
    #[arg(long, default_value_t = 30_000)]
    pods: usize,
    /// Times that each page is opened, and each change is made
    #[arg(long, default_value_t = 20)]
    times: usize,
    /// Home pages that are open at rest
    #[arg(long, default_value_t = 1000)]
    dashboards: usize,
    /// Seconds of rest in which the console's CPU is counted
    #[arg(long, default_value_t = 120)]
    rest: u64,
    /// Minutes of changes while pages are open
    #[arg(long, default_value_t = 30)]
    minutes: usize,
    /// PostgreSQL instead of SQLite
    #[arg(long)]
    postgres: bool,
}

/// Milliseconds, as the browser measured them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pages {
    paint: Vec<f64>,
    settled: Vec<f64>,
    #[serde(rename = "scriptKiB")]
    script_kib: f64,
    click: Vec<f64>,
    load: Vec<f64>,
    search: Vec<f64>,
    rows: f64,
}

/// As [`Pages`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OneCluster {
    object: Vec<f64>,
    service: Vec<f64>,
    frames: Vec<f64>,
    pods: f64,
    first_pods: f64,
    all_pods: f64,
    #[serde(rename = "heapMiB")]
    heap_mib: f64,
}

/// MiB of each open page, when the changes begin and after each minute of them.
#[derive(Debug, Deserialize)]
struct Live {
    heap: Vec<Vec<f64>>,
    changes: f64,
}

#[derive(Debug, Deserialize)]
struct Crowd {
    connected: f64,
    answered: f64,
    refused: f64,
    requests: f64,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let folder = OwnedFolder::new("bench")?;
    let database = if options.postgres { Some(TestDatabase::postgres()?) } else { None };
    let mut config = seed::config(folder.path());
    config.database_url = database.as_ref().map(|d| SecretString::from(d.url().to_owned()));
    let Seeded { config, tokens, remote: _remote } =
        seed(folder.path(), config, None, options.clusters, options.services).await?;
    let listen = {
        // Nobody else asks for it between this and the console's start.
        std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?
    };
    // A process of its own: what it uses is its own.
    let mut console = crowd::start(folder.path(), &config, listen).await?;
    let url = format!("http://localhost:{}", listen.port());
    let api = Api::sign_in(&url, None).await?;
    let times = options.times.to_string();

    let pages: Pages = driven(&["pages", &url, ADMIN, PASSWORD, &times]).await?;
    eprintln!("making a cluster of {} Pods", options.pods);
    let token = tokens.into_iter().next().context("the fleet has no clusters")?;
    let simulated = cluster(options.pods).await?;
    let remote = GitRemote::new()?;
    remote.push_files([("certificate/certificate.yaml", CERTIFICATE)])?;
    let repository = api.repository(&remote.path().display().to_string()).await?;
    api.service(CLUSTER, &repository, "certificate", "certificate", NAMESPACE).await?;
    let agent = agent(&simulated, &url, token, folder.path()).await?;
    let one: OneCluster = driven(&["cluster", &url, ADMIN, PASSWORD, CLUSTER, &times]).await?;
    let minutes = options.minutes.to_string();
    eprintln!("changes for {minutes} minutes");
    let live: Live = driven(&["live", &url, ADMIN, PASSWORD, CLUSTER, &minutes]).await?;
    agent.stop().await;
    let (at_rest, crowd) = rest(&console, &api, &url, options).await?;
    console.check()?;
    console.stop();

    let mut figures = of_pages(&pages);
    figures.extend(of_cluster(&one));
    figures.push(of_live(&live)?);
    figures.push(
        Figure::new(
            format!("{} open home pages at rest, CPU of the console", options.dashboards),
            at_rest,
            "cores",
        )
        .at_most(0.2)
        .beside("sockets", crowd.connected)
        .beside("requests of a page in a minute", crowd.requests)
        .beside("answered", crowd.answered)
        .beside("refused", crowd.refused),
    );
    Ok(figures)
}

fn of_pages(pages: &Pages) -> Vec<Figure> {
    let [paint, settled, click, load, search] =
        [&pages.paint, &pages.settled, &pages.click, &pages.load, &pages.search].map(|ms| samples(ms));
    vec![
        Figure::new("first paint of the shell, nothing cached, p95", paint.percentile(95), "ms")
            .at_most(1000.0)
            .beside("p50", paint.percentile(50))
            .beside("home page complete, p50", settled.percentile(50))
            .beside("home page complete, p95", settled.percentile(95)),
        Figure::new("compressed JavaScript of the first route", pages.script_kib, "KiB").at_most(300.0),
        Figure::new("first rows of all services, after a click, p95", click.percentile(95), "ms")
            .at_most(500.0)
            .beside("p50", click.percentile(50))
            .beside("services", pages.rows),
        Figure::new(
            "first rows of all services, page loaded with nothing cached, p95",
            load.percentile(95),
            "ms",
        )
        .beside("p50", load.percentile(50)),
        Figure::new("a key press in the search to its rows, p95", search.percentile(95), "ms")
            .at_most(300.0)
            .beside("p50", search.percentile(50)),
    ]
}

fn of_cluster(one: &OneCluster) -> Vec<Figure> {
    let [object, service, frames] = [&one.object, &one.service, &one.frames].map(|ms| samples(ms));
    vec![
        Figure::new("an object made in a cluster is in its list, p95", object.percentile(95), "ms")
            .at_most(1000.0)
            .beside("p50", object.percentile(50)),
        Figure::new("a service's health changes on its page, p95", service.percentile(95), "ms")
            .at_most(1000.0)
            .beside("p50", service.percentile(50)),
        Figure::new("frames while all Pods are scrolled through, p95", frames.percentile(95), "ms")
            .at_most(50.0)
            .beside("p50", frames.percentile(50))
            .beside("p99", frames.percentile(99))
            .beside("Pods", one.pods),
        Figure::new("first Pods on screen", one.first_pods, "ms")
            .beside("all of them", one.all_pods)
            .beside("heap, MiB", one.heap_mib),
    ]
}

/// Minutes after which what the open pages hold is that of pages that are open: until then caches fill.
const FILLING: usize = 3;
/// The pages that are open, in the order of their heaps.
const OPEN: [&str; 3] = ["home", "a service", "Pods"];

/// How much more the open pages hold at the end than when their caches were full, and the slope of the line through the minutes between.
fn of_live(live: &Live) -> anyhow::Result<Figure> {
    let totals: Vec<f64> = live.heap.iter().map(|pages| pages.iter().sum()).collect();
    let filled = FILLING.min(totals.len().saturating_sub(1));
    let points: Vec<(f64, f64)> = totals
        .iter()
        .enumerate()
        .skip(filled)
        .map(|(minute, total)| (minute as f64 / 60.0, *total))
        .collect();
    let (Some((_, early)), Some((_, late))) = (points.first(), points.last()) else {
        anyhow::bail!("no minute was measured");
    };
    let later = points.get(points.len() / 2..).unwrap_or_default();
    let mut figure = Figure::new("heap of three open pages, growth over the changes", late - early, "MiB")
        .at_most(2.0)
        .beside("slope, MiB/h", slope(&points))
        .beside("slope of the second half, MiB/h", slope(later));
    // What grows is looked for in one page.
    for (page, name) in OPEN.into_iter().enumerate() {
        let at = |minute: Option<&Vec<f64>>| minute.and_then(|pages| pages.get(page)).copied();
        if let (Some(early), Some(late)) = (at(live.heap.get(filled)), at(live.heap.last())) {
            figure = figure.beside(format!("growth of {name}, MiB"), late - early);
        }
    }
    Ok(figure
        .beside("at the start", totals.first().copied().unwrap_or_default())
        .beside("after three minutes", *early)
        .beside("at the end", *late)
        .beside("minutes", totals.len().saturating_sub(1) as f64)
        .beside("changes", live.changes))
}

fn samples(milliseconds: &[f64]) -> Samples {
    let mut samples = Samples::default();
    for ms in milliseconds {
        samples.add(Duration::from_secs_f64(ms / 1000.0));
    }
    samples
}

/// One part of the script, once it has ended.
async fn driven<T: DeserializeOwned>(arguments: &[&str]) -> anyhow::Result<T> {
    let done =
        script(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?.wait_with_output().await?;
    anyhow::ensure!(done.status.success(), "{} of bench.mjs: {}", arguments.join(" "), done.status);
    serde_json::from_slice(&done.stdout).context("bench.mjs said something else than samples")
}

fn script(arguments: &[&str]) -> Command {
    let mut command = Command::new("node");
    command.current_dir(ui()).arg("tests/bench.mjs").args(arguments).kill_on_drop(true);
    command
}

fn ui() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).join("ui")
}

/// A simulated cluster with so many Pods, and the kind of object whose health changes.
async fn cluster(pods: usize) -> anyhow::Result<TestCluster> {
    // Pods are made as they are, not by controllers: what is measured is how they are shown.
    let options = ClusterOptions { workloads: false, ..ClusterOptions::named(CLUSTER) };
    let cluster = TestCluster::kubesim_with(options).await?;
    let client = cluster.client().await?;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "certificates.cert-manager.io"},
        "spec": {
            "group": "cert-manager.io", "scope": "Namespaced",
            "names": {"plural": "certificates", "singular": "certificate", "kind": "Certificate", "listKind": "CertificateList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let definition: CustomResourceDefinition = serde_json::from_value(definition)?;
    kube::Api::all(client.clone()).create(&PostParams::default(), &definition).await?;
    // Through the console a person has their own rights in the cluster.
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "bench"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ADMIN}],
    }))?;
    kube::Api::all(client.clone()).create(&PostParams::default(), &binding).await?;
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    kube::Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let all = kube::Api::<Pod>::namespaced(client, NAMESPACE);
    stream::iter((0..pods).map(Ok::<_, anyhow::Error>))
        .try_for_each_concurrent(MAKING, async |number| {
            all.create(&PostParams::default(), &pod(number)?).await?;
            Ok(())
        })
        .await?;
    Ok(cluster)
}

fn pod(number: usize) -> anyhow::Result<Pod> {
    let app = format!("app-{:03}", number / 100);
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": format!("pod-{number:05}"),
            "labels": {"app.kubernetes.io/name": app, "pod-template-hash": "5b7d8c9f66"},
        },
        "spec": {"containers": [{
            "name": "web", "image": "registry.example.com/web:1.0.0",
            "ports": [{"name": "http", "containerPort": 8080}],
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        }]},
    }))?)
}

async fn agent(
    cluster: &TestCluster,
    url: &str,
    token: String,
    folder: &Path,
) -> anyhow::Result<RunningAgent> {
    let console =
        ConsoleOptions { url: url.to_owned(), token, ca_pem: None, deadline: Duration::from_secs(10) };
    let read = Kubeconfig::read_from(cluster.kubeconfig())?;
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    Agent::start(AgentConfig::new(console, config, folder.join("agent"))).context("the agent cannot start")
}

/// Cores that the console uses while so many home pages are open.
async fn rest(console: &Running, api: &Api, url: &str, options: &Options) -> anyhow::Result<(f64, Crowd)> {
    let emails: Vec<String> = (0..options.dashboards.div_ceil(PAGES_EACH).max(1))
        .map(|number| format!("reader-{number}@example.com"))
        .collect();
    for email in &emails {
        api.administrator(email).await?;
    }
    let count = options.dashboards.to_string();
    let mut arguments = vec!["crowd", url, PASSWORD, &count];
    arguments.extend(emails.iter().map(String::as_str));
    let mut crowd = script(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(crowd.stdout.take().context("no output")?).lines();
    let ready = lines.next_line().await?;
    anyhow::ensure!(ready.as_deref() == Some("ready"), "bench.mjs did not open the pages: {ready:?}");
    // What the openings caused is over, and each page has asked once.
    tokio::time::sleep(Duration::from_mins(1)).await;
    let before = Usage::of(console.pid())?;
    let rest = Duration::from_secs(options.rest);
    tokio::time::sleep(rest).await;
    let cores = Usage::of(console.pid())?.millicores_since(&before, rest) / 1000.0;
    let told = ended(&mut crowd, lines.next_line()).await?;
    Ok((cores, serde_json::from_str(&told)?))
}

/// The last line of a script that waits for the end of its input.
async fn ended(
    script: &mut Child,
    line: impl Future<Output = std::io::Result<Option<String>>>,
) -> anyhow::Result<String> {
    let mut input = script.stdin.take().context("no input")?;
    input.shutdown().await?;
    drop(input);
    let told = line.await?.context("bench.mjs said nothing")?;
    anyhow::ensure!(script.wait().await?.success(), "bench.mjs failed: {told}");
    Ok(told)
}
