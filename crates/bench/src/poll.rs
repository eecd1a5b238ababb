//! How many agents can ask "what changed?" and be told "nothing".

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use plural_console::{ConsoleConfig, RunningConsole, Server};
use plural_kit::Shutdown;
use plural_testkit::{OwnedFolder, TestDatabase, postgres::find_programs};
use plural_tunnel::{
    v1::{
        AgentMessage, ArtifactChunk, ArtifactRequest, ConsoleMessage, Cursor, DeployToken, DeployTokenAnswer,
        PollRequest, PollResponse, ReportRequest, ReportResponse, SecretsRequest, SecretsResponse,
        TakeRunRequest, TakeRunResponse, agent_service_client::AgentServiceClient,
        agent_service_server::AgentService,
    },
    work::CONTRACT,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use secrecy::SecretString;
use tokio::task::JoinSet;
use tonic::{
    Request, Response, Status, Streaming,
    metadata::{Ascii, MetadataValue},
    service::Routes,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};

use crate::{
    report::Figure,
    samples::Samples,
    seed::{self, seed},
};

const WITHIN: Duration = Duration::from_secs(30);

/// How large, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Clusters
    #[arg(long, default_value_t = 10_000)]
    clusters: usize,
    /// Services on each
    #[arg(long, default_value_t = 10)]
    services: usize,
    /// Connections; the clusters are spread over them
    #[arg(long, default_value_t = 1000)]
    connections: usize,
    /// Seconds to measure for, of each handler
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// PostgreSQL instead of SQLite
    #[arg(long)]
    postgres: bool,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    anyhow::ensure!(
        options.clusters >= options.connections && options.connections > 0,
        "every connection polls for clusters of its own: --clusters must be at least --connections, and that at least 1"
    );
    let folder = OwnedFolder::new("bench")?;
    let tls = Tls::make(folder.path())?;
    let database = if options.postgres { Some(TestDatabase::postgres()?) } else { None };
    let config = ConsoleConfig {
        tls_cert: Some(tls.chain.clone()),
        tls_key: Some(tls.key.clone()),
        database_url: database.as_ref().map(|d| SecretString::from(d.url().to_owned())),
        ..seed::config(folder.path())
    };
    let seeded = seed(folder.path(), config, Some(&tls.ca_pem), options.clusters, options.services).await?;
    let console =
        RunningConsole::start(seeded.config.clone(), None).await.context("the console cannot start")?;
    let tokens = seeded.tokens.clone();

    let mut load = Load::connect(&tls.endpoint(console.address)?, tokens, options.connections).await?;
    load.take_cursors().await?;
    // What a first poll makes the console write about an agent is written before the count begins.
    load.run(Duration::from_secs_f64(options.seconds / 2.0)).await?;
    let queries = Queries::read(&console, database.as_ref())?;
    let measured = load.run(Duration::from_secs_f64(options.seconds)).await?;
    let asked = Queries::read(&console, database.as_ref())?.since(&queries);
    anyhow::ensure!(
        measured.changed == 0,
        "{} of {} polls were not unchanged",
        measured.changed,
        measured.polls
    );
    let tokens = load.into_tokens();
    console.stop().await?;

    let limit = empty(&tls, tokens, options).await?;
    let (rate, share) = (measured.rate(), measured.rate() / limit * 100.0);
    Ok(vec![
        Figure::new("unchanged polls", rate, "/s").at_least(50_000.0).beside("empty handler", limit),
        Figure::new("share of the empty handler", share, "%")
            .at_least(80.0)
            .beside("connections", options.connections as f64)
            .beside("clusters", options.clusters as f64),
        Figure::new("database statements per million polls", asked / measured.polls as f64 * 1e6, "")
            .beside("statements", asked)
            .beside("polls", measured.polls as f64),
        Figure::new("poll p50", measured.took.percentile(50), "ms")
            .beside("p99", measured.took.percentile(99)),
    ])
}

/// Certificates of a console for one run.
pub(crate) struct Tls {
    pub(crate) ca_pem: String,
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl Tls {
    pub(crate) fn make(folder: &Path) -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let pair = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&pair, &ca)?;
        let (chain, key) = (folder.join("console.crt"), folder.join("console.key"));
        fs::write(&chain, certificate.pem())?;
        fs::write(&key, pair.serialize_pem())?;
        Ok(Self { ca_pem: ca.pem(), chain, key })
    }

    fn endpoint(&self, address: SocketAddr) -> anyhow::Result<Endpoint> {
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca_pem));
        Ok(Endpoint::from_shared(format!("https://{address}"))?
            .connect_timeout(WITHIN)
            .timeout(WITHIN)
            .tcp_nodelay(true)
            .tls_config(tls)?)
    }
}

fn bearer(token: &str) -> anyhow::Result<MetadataValue<Ascii>> {
    MetadataValue::try_from(format!("Bearer {token}")).context("a token is no header value")
}

fn request(bearer: &MetadataValue<Ascii>, cursor: Option<Cursor>) -> Request<PollRequest> {
    let mut request =
        Request::new(PollRequest { cursor, contract: CONTRACT, want: Vec::new(), whole: false });
    request.metadata_mut().insert("authorization", bearer.clone());
    request
}

/// One cluster as its agent's poll knows it.
struct Asking {
    token: String,
    bearer: MetadataValue<Ascii>,
    cursor: Option<Cursor>,
}

/// One connection and the clusters that poll over it, in turn.
struct Connection {
    client: AgentServiceClient<Channel>,
    clusters: Vec<Asking>,
    next: usize,
}

/// All connections.
struct Load {
    connections: Vec<Connection>,
}

/// What a run of the load saw.
#[derive(Default)]
struct Measured {
    polls: u64,
    changed: u64,
    took: Samples,
    elapsed: Duration,
}

impl Measured {
    fn rate(&self) -> f64 {
        self.polls as f64 / self.elapsed.as_secs_f64()
    }
}

impl Load {
    async fn connect(endpoint: &Endpoint, tokens: Vec<String>, connections: usize) -> anyhow::Result<Self> {
        let mut made = Vec::with_capacity(connections);
        for place in 0..connections {
            // `connect` and not `connect_lazy`: the handshake is not part of what is measured.
            let mut client = AgentServiceClient::new(endpoint.connect().await.context("cannot connect")?);
            // As agents do: a connection that shows no token does not last.
            if let Some(token) = tokens.get(place) {
                client.poll(request(&bearer(token)?, None)).await?;
            }
            made.push(Connection { client, clusters: Vec::new(), next: 0 });
        }
        for (place, token) in tokens.into_iter().enumerate() {
            if let Some(connection) = made.get_mut(place % connections) {
                let bearer = bearer(&token)?;
                connection.clusters.push(Asking { token, bearer, cursor: None });
            }
        }
        Ok(Self { connections: made })
    }

    /// Every cluster's first poll, which answers with all of its services.
    async fn take_cursors(&mut self) -> anyhow::Result<()> {
        for connection in &mut self.connections {
            let Connection { client, clusters, next: _ } = connection;
            for asking in clusters {
                asking.cursor = client.poll(request(&asking.bearer, None)).await?.into_inner().cursor;
            }
        }
        Ok(())
    }

    /// Every connection polls for its clusters in turn, one poll at a time, for so long.
    async fn run(&mut self, time: Duration) -> anyhow::Result<Measured> {
        let mut tasks = JoinSet::new();
        let started = Instant::now();
        for mut connection in std::mem::take(&mut self.connections) {
            tasks.spawn(async move {
                let mut measured = Measured::default();
                while started.elapsed() < time {
                    let place = connection.next % connection.clusters.len().max(1);
                    connection.next += 1;
                    let Some(asking) = connection.clusters.get(place) else { break };
                    let from = Instant::now();
                    let request = request(&asking.bearer, asking.cursor.clone());
                    let answer = connection.client.poll(request).await?.into_inner();
                    measured.took.add(from.elapsed());
                    measured.polls += 1;
                    measured.changed += u64::from(
                        answer.snapshot
                            || answer.whole_services().next().is_some()
                            || !answer.moved.is_empty(),
                    );
                }
                anyhow::Ok((connection, measured))
            });
        }
        let mut all = Measured::default();
        while let Some(done) = tasks.join_next().await {
            let (connection, measured) = done??;
            self.connections.push(connection);
            all.polls += measured.polls;
            all.changed += measured.changed;
            all.took.merge(measured.took);
        }
        all.elapsed = started.elapsed();
        Ok(all)
    }

    fn into_tokens(self) -> Vec<String> {
        self.connections.into_iter().flat_map(|c| c.clusters).map(|asking| asking.token).collect()
    }
}

/// The rate of a handler that does nothing, on the same stack with the same load.
async fn empty(tls: &Tls, tokens: Vec<String>, options: &Options) -> anyhow::Result<f64> {
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), Some((&tls.chain, &tls.key)))?;
    let address = server.address()?;
    let router = Routes::new(plural_tunnel::server(Empty)).prepare().into_axum_router();
    let shutdown = Shutdown::new();
    let serving = tokio::spawn(server.run(router, shutdown.signal(), Duration::from_secs(1)));
    let mut load = Load::connect(&tls.endpoint(address)?, tokens, options.connections).await?;
    load.run(Duration::from_secs_f64(options.seconds / 2.0)).await?;
    let measured = load.run(Duration::from_secs_f64(options.seconds)).await?;
    drop(load);
    shutdown.request();
    serving.await?;
    Ok(measured.rate())
}

/// Answers every poll with nothing.
struct Empty;

type Nothing<T> = futures::stream::Empty<Result<T, Status>>;

#[tonic::async_trait]
impl AgentService for Empty {
    type StreamStream = Nothing<ConsoleMessage>;
    type ArtifactStream = Nothing<ArtifactChunk>;

    async fn stream(
        &self,
        _: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        Err(Status::unimplemented("this handler only polls"))
    }

    async fn poll(&self, request: Request<PollRequest>) -> Result<Response<PollResponse>, Status> {
        let cursor = request.into_inner().cursor;
        Ok(Response::new(PollResponse { cursor, ..PollResponse::default() }))
    }

    async fn report(&self, _: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        Err(Status::unimplemented("this handler only polls"))
    }

    async fn join(&self, _: Request<DeployToken>) -> Result<Response<DeployTokenAnswer>, Status> {
        Err(Status::unimplemented("this handler only polls"))
    }

    async fn rotate_token(&self, _: Request<DeployToken>) -> Result<Response<DeployTokenAnswer>, Status> {
        Err(Status::unimplemented("this handler only polls"))
    }

    async fn take_run(&self, _: Request<TakeRunRequest>) -> Result<Response<TakeRunResponse>, Status> {
        Err(Status::unimplemented("this handler only polls"))
    }

    async fn secrets(&self, _: Request<SecretsRequest>) -> Result<Response<SecretsResponse>, Status> {
        Err(Status::unimplemented("this handler only polls"))
    }

    async fn artifact(&self, _: Request<ArtifactRequest>) -> Result<Response<Self::ArtifactStream>, Status> {
        Err(Status::unimplemented("this handler only polls"))
    }
}

/// What the database has been asked, by its own count on PostgreSQL, by the console's on SQLite.
struct Queries {
    count: f64,
    /// Taking the count is a transaction too.
    own: f64,
}

impl Queries {
    fn read(console: &RunningConsole, database: Option<&TestDatabase>) -> anyhow::Result<Self> {
        let Some(database) = database else {
            return Ok(Self { count: console.statements() as f64, own: 0.0 });
        };
        let output = Command::new(find_programs()?.join("psql"))
            .args(["--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "--command"])
            .arg(
                "select pg_stat_force_next_flush(); \
                 select xact_commit + xact_rollback from pg_stat_database where datname = current_database()",
            )
            .arg(database.url())
            .output()
            .context("cannot run psql")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let count = text.lines().filter_map(|line| line.trim().parse::<f64>().ok()).next_back();
        Ok(Self { count: count.context("PostgreSQL does not tell its transactions")?, own: 1.0 })
    }

    fn since(&self, earlier: &Self) -> f64 {
        (self.count - earlier.count - self.own).max(0.0)
    }
}
