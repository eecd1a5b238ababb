//! What console and agent add to a request of a person, and how much they carry.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
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
use plural_kubesim::{Cluster, ClusterOptions, Sim};
use plural_testkit::{FaultProxy, OwnedFolder, eventually, fault_proxy::Faults, real::RealCluster};
use plural_tunnel::ConsoleOptions;
use secrecy::SecretString;
use tokio::task::JoinSet;

use crate::{
    api::{ADMIN, Api, PASSWORD},
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
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    if !options.without_real {
        figures.extend(against_a_real_api_server(options).await.context("against a real API server")?);
    }
    let house = House::start().await?;
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
async fn against_a_real_api_server(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let cluster = RealCluster::start().await?;
    let kubeconfig = Kubeconfig::read_from(&cluster.access().kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let direct = direct_target(&config)?;
    let house = House::around(config, None).await?;
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
    async fn start() -> anyhow::Result<Self> {
        let options = ClusterOptions { tls: false, ..ClusterOptions::named("bench") };
        let sim = Sim::new()?.cluster(options).await?;
        let kubeconfig = Kubeconfig::from_yaml(&sim.kubeconfig())?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let house = Self::around(config, Some(sim)).await?;
        eventually(PATIENCE, async || {
            house.through.latencies(SMALL, 1).await.map(drop).map_err(|error| format!("{error:#}"))
        })
        .await;
        Ok(house)
    }

    async fn around(mut config: kube::Config, sim: Option<Cluster>) -> anyhow::Result<Self> {
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
        let console = RunningConsole::start(console, None).await.context("the console cannot start")?;
        let api = Api::sign_in(&console.url, Some(&tls.ca_pem)).await?;
        let deploy_token = api.cluster("blue").await?;
        let token = api.access_token().await?;
        let behind = config.cluster_url.authority().and_then(|a| a.as_str().parse().ok());
        let upstream = Upstream::start(behind.context("the cluster has no plain address")?).await?;
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
