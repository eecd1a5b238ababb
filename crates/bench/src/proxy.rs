//! What console and agent add to a request of a person, and how much they carry.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use http_body_util::BodyExt as _;
use kube::{
    api::{DynamicObject, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::GroupVersionKind,
    discovery::ApiResource,
};
use plural_agent::{Agent, AgentConfig, RunningAgent};
use plural_console::{ConsoleConfig, RunningConsole};
use plural_kit::Metrics;
use plural_kubesim::{Cluster, ClusterOptions, Sim};
use plural_testkit::{FaultProxy, OwnedFolder, eventually, fault_proxy::Faults, real::RealCluster};
use plural_tunnel::ConsoleOptions;
use secrecy::SecretString;
use tokio::task::JoinSet;

use crate::{
    api::{ADMIN, Api, PASSWORD},
    means::value,
    poll::Tls,
    proxy_load::Target,
    proxy_upstream::{LARGE, SMALL, Upstream, WATCH},
    report::Figure,
    usage::Usage,
};

const PATIENCE: Duration = Duration::from_mins(1);

/// How much, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Requests one after another, on each way
    #[arg(long, default_value_t = 3_000)]
    requests: usize,
    /// Connections that ask at the same time
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Seconds that they ask for
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// MiB of the one large answer
    #[arg(long, default_value_t = 1024)]
    mebibytes: usize,
    /// Watches that are open at the same time
    #[arg(long, default_value_t = 1_000)]
    watches: usize,
    /// No real API server: leave the added latency out
    #[arg(long)]
    without_real: bool,
    /// Look for the highest rate of small GETs and hold it for so long; nothing else is measured. Fails at the first request
    /// that is refused, and when a line of the clusters' audit log is lost
    #[arg(long, value_name = "SECONDS")]
    sustained: Option<u64>,
}

impl Options {
    /// What its figures are kept under.
    pub(crate) fn name(&self) -> &'static str {
        if self.sustained.is_some() { "sustained" } else { "proxy" }
    }
}

pub(crate) async fn run(options: &Options, metrics: &Metrics) -> anyhow::Result<Vec<Figure>> {
    if let Some(seconds) = options.sustained {
        return sustained(options, Duration::from_secs(seconds), metrics).await;
    }
    let mut figures = Vec::new();
    if !options.without_real {
        let found = against_a_real_api_server(options, metrics).await;
        figures.extend(found.context("against a real API server")?);
    }
    let house = House::start(metrics).await?;
    let seconds = Duration::from_secs_f64(options.seconds);
    let direct = Target::plain(house.upstream.address);
    let limit = direct.rate(SMALL, options.connections, seconds).await?;
    house.through.rate(SMALL, options.connections, seconds / 5).await?;
    let rate = house.through.rate(SMALL, options.connections, seconds).await?;
    figures.push(
        Figure::new("small GETs", rate, "/s")
            .at_least(10_000.0)
            .beside("without console and agent", limit)
            .beside("connections", options.connections as f64),
    );
    for round_trip in [0, 100] {
        house.line.set(Faults::late(Duration::from_millis(round_trip / 2)));
        let bytes = options.mebibytes << 20;
        let path = format!("{LARGE}?bytes={bytes}");
        let (all, steady) = house.through.throughput(&path, bytes).await?;
        house.line.heal();
        let mut figure = Figure::new(format!("one answer at {round_trip} ms"), all / 1e6, "MB/s")
            .at_least(160.0)
            .beside("its second half", steady / 1e6);
        if round_trip == 0 {
            let (direct, _) = direct.throughput(&path, bytes).await?;
            figure = figure.beside("without console and agent", direct / 1e6);
        }
        figures.push(figure);
    }
    figures.extend(watches(&house, options).await?);
    house.stop().await?;
    Ok(figures)
}

/// The highest rate of small GETs, held: every request has to be answered, and its line stored.
async fn sustained(options: &Options, time: Duration, metrics: &Metrics) -> anyhow::Result<Vec<Figure>> {
    let house = House::start(metrics).await?;
    let highest = house.through.highest(SMALL, options.connections).await?;
    eprintln!("holding {highest:.0} requests a second for {} s", time.as_secs());
    let most = Arc::new(AtomicU64::new(0));
    let mut watching = JoinSet::new();
    {
        let (most, metrics) = (Arc::clone(&most), metrics.clone());
        watching.spawn(async move {
            let mut every = tokio::time::interval(Duration::from_secs(1));
            loop {
                every.tick().await;
                most.fetch_max(waiting(&metrics), Ordering::Relaxed);
            }
        });
    }
    let held = house.through.paced(SMALL, options.connections, highest, time).await;
    let held = held.with_context(|| format!("{highest:.0} requests a second cannot be held"))?;
    watching.abort_all();
    let ended = Instant::now();
    while waiting(metrics) > 0 {
        anyhow::ensure!(ended.elapsed() < PATIENCE, "lines of the audit log wait {PATIENCE:?} after the end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let drained = ended.elapsed();
    house.stop().await?;
    let lost = value(&metrics.render(), "plural_cluster_audit_lost_total");
    anyhow::ensure!(lost < 1.0, "{lost} lines of the audit log were lost");
    Ok(vec![
        Figure::new("small GETs, sustained", held.rate(), "/s")
            .beside("asked for", highest)
            .beside("slowest minute", held.slowest())
            .beside("seconds", held.took.as_secs_f64())
            .beside("connections", options.connections as f64),
        // One would have ended the run.
        Figure::new("requests refused", 0.0, "").at_most(0.0).beside("requests", held.done as f64),
        Figure::new("lines of the audit log lost", lost, "")
            .at_most(0.0)
            .beside("waited at most", most.load(Ordering::Relaxed) as f64)
            .beside("stored after the end within s", drained.as_secs_f64()),
    ])
}

/// Lines of the clusters' audit log that wait for the database.
fn waiting(metrics: &Metrics) -> u64 {
    value(&metrics.render(), "plural_cluster_audit_waiting") as u64
}

/// Many watches, each told something every few seconds.
async fn watches(house: &House, options: &Options) -> anyhow::Result<Vec<Figure>> {
    let before = Usage::of(std::process::id())?;
    let told = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..options.watches {
        let mut connection = house.through.connect().await?;
        let mut body = connection.send(&format!("{WATCH}?watch=1")).await?.into_body();
        let told = Arc::clone(&told);
        tasks.spawn(async move {
            let _connection = connection;
            while let Some(frame) = body.frame().await {
                if frame?.is_data() {
                    told.fetch_add(1, Ordering::Relaxed);
                }
            }
            anyhow::bail!("a watch ended")
        });
    }
    let rest = async |seconds: u64| -> anyhow::Result<Usage> {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Usage::of(std::process::id())
    };
    let open = rest(5).await?;
    let mut ended: JoinSet<anyhow::Result<()>> = tasks;
    let counted = told.load(Ordering::Relaxed);
    let later = rest(20).await?;
    let told = told.load(Ordering::Relaxed) - counted;
    anyhow::ensure!(ended.try_join_next().is_none(), "a watch ended early");
    ended.abort_all();
    let each = |usage: &Usage| (usage.mebibytes() - before.mebibytes()) * 1024.0 / options.watches as f64;
    Ok(vec![
        Figure::new("watches at once", options.watches as f64, "").beside("events/s", told as f64 / 20.0),
        Figure::new("memory per watch", each(&later), "KiB")
            .beside("20 s earlier", each(&open))
            .beside("whole process, MiB", later.mebibytes()),
    ])
}

/// What the way through console and agent adds to a request.
async fn against_a_real_api_server(options: &Options, metrics: &Metrics) -> anyhow::Result<Vec<Figure>> {
    let cluster = RealCluster::start().await?;
    let kubeconfig = Kubeconfig::read_from(&cluster.access().kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let direct = direct_target(&config)?;
    let house = House::around(config, None, metrics).await?;
    grant(&cluster.client().await?).await?;
    let path = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
    eventually(PATIENCE, async || {
        house.through.latencies(path, 1).await.map(drop).map_err(|error| format!("{error:#}"))
    })
    .await;
    direct.latencies(path, options.requests / 10).await?;
    house.through.latencies(path, options.requests / 10).await?;
    let plain = direct.latencies(path, options.requests).await?;
    let through = house.through.latencies(path, options.requests).await?;
    house.stop().await?;
    let added = |percent| through.percentile(percent) - plain.percentile(percent);
    let figure = |name: &str, percent, limit| {
        Figure::new(name, added(percent), "ms")
            .at_most(limit)
            .beside("through", through.percentile(percent))
            .beside("direct", plain.percentile(percent))
    };
    Ok(vec![figure("added latency p50", 50, 1.0), figure("added latency p99", 99, 5.0)])
}

/// The API server itself, as its administrator asks it.
fn direct_target(config: &kube::Config) -> anyhow::Result<Target> {
    use base64::Engine as _;
    use secrecy::ExposeSecret as _;
    let der = config.root_cert.as_ref().and_then(|certificates| certificates.first());
    let body = base64::engine::general_purpose::STANDARD.encode(der.context("no authority")?);
    let pem = format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
    let token = config.auth_info.token.as_ref().context("no token")?.expose_secret().to_owned();
    let port = config.cluster_url.port_u16().context("no port")?;
    Target::secure(SocketAddr::from(([127, 0, 0, 1], port)), &pem, "", &token)
}

/// Lets the bench's administrator read everything in a cluster.
async fn grant(client: &kube::Client) -> anyhow::Result<()> {
    let binding = serde_json::json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "bench"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ADMIN}],
    });
    let kind = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding");
    let bindings: kube::Api<DynamicObject> =
        kube::Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    bindings.patch("bench", &PatchParams::apply("plural-bench").force(), &Patch::Apply(&binding)).await?;
    Ok(())
}

/// A simulated cluster without TLS.
pub(crate) async fn simulated() -> anyhow::Result<(Cluster, kube::Config)> {
    let options = ClusterOptions { tls: false, ..ClusterOptions::named("bench") };
    let sim = Sim::new()?.cluster(options).await?;
    let kubeconfig = Kubeconfig::from_yaml(&sim.kubeconfig())?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok((sim, config))
}

/// What answers in the place of a cluster without TLS.
pub(crate) async fn upstream(config: &kube::Config) -> anyhow::Result<Upstream> {
    let behind = config.cluster_url.authority().and_then(|address| address.as_str().parse().ok());
    Upstream::start(behind.context("the cluster has no plain address")?).await
}

/// A console with a certificate, an agent that reaches it over a line that can be made long, and what is behind it.
struct House {
    through: Target,
    line: FaultProxy,
    upstream: Upstream,
    console: RunningConsole,
    agent: RunningAgent,
    _sim: Option<Cluster>,
    _folder: OwnedFolder,
}

impl House {
    /// Around a simulated cluster.
    async fn start(metrics: &Metrics) -> anyhow::Result<Self> {
        let (sim, config) = simulated().await?;
        let house = Self::around(config, Some(sim), metrics).await?;
        eventually(PATIENCE, async || {
            house.through.latencies(SMALL, 1).await.map(drop).map_err(|error| format!("{error:#}"))
        })
        .await;
        Ok(house)
    }

    async fn around(
        mut config: kube::Config,
        sim: Option<Cluster>,
        metrics: &Metrics,
    ) -> anyhow::Result<Self> {
        let folder = OwnedFolder::new("bench")?;
        let tls = Tls::make(folder.path())?;
        let console = ConsoleConfig {
            admin_email: ADMIN.to_owned(),
            admin_password: Some(SecretString::from(PASSWORD.to_owned())),
            drain_seconds: 2,
            tls_cert: Some(tls.chain.clone()),
            tls_key: Some(tls.key.clone()),
            ..ConsoleConfig::local(folder.path().join("console"))
        };
        // It folds what it measures from time to time, as the program does.
        let console = RunningConsole::start(console, Some(metrics.clone())).await;
        let console = console.context("the console cannot start")?;
        let api = Api::sign_in(&console.url, Some(&tls.ca_pem)).await?;
        let deploy_token = api.cluster("blue").await?;
        let token = api.access_token().await?;
        let upstream = upstream(&config).await?;
        if sim.is_some() {
            config.cluster_url = format!("http://{}", upstream.address).parse()?;
        }
        let line = FaultProxy::start(console.address)?;
        let options = ConsoleOptions {
            url: format!("https://{}", line.address()),
            token: deploy_token,
            ca_pem: Some(tls.ca_pem.clone()),
            deadline: Duration::from_secs(10),
        };
        let agent = Agent::start(AgentConfig::new(options, config, folder.path().join("agent")))
            .context("the agent cannot start")?;
        let through = Target::secure(console.address, &tls.ca_pem, "/k8s/blue", &token)?;
        Ok(Self { through, line, upstream, console, agent, _sim: sim, _folder: folder })
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.agent.stop().await;
        self.console.stop().await?;
        Ok(())
    }
}
