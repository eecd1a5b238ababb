//! Very many agents on one console: hollow ones, whose streams are real.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use parking_lot::Mutex;
use plural_console::ConsoleConfig;
use plural_kit::Backoff;
use plural_testkit::{
    OwnedFolder,
    process::{Program, Running, StopSignal},
};
use plural_tunnel::{
    Console, ConsoleOptions,
    v1::{AgentMessage, Cursor, Hello, KeepAlive, agent_message, console_message},
    work::CONTRACT,
};
use secrecy::ExposeSecret as _;
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    api::{ADMIN, PASSWORD},
    idle::{METRICS_TOKEN, program},
    poll::Tls,
    report::Figure,
    samples::Samples,
    seed::{self, Seeded, seed},
    usage::Usage,
};

const WITHIN: Duration = Duration::from_mins(5);
/// Between two signs of life of an agent.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Agents that dial at the same time when they start for the first time.
const STARTING: usize = 256;

/// How many, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Agents, each with a stream of its own over TLS
    #[arg(long, default_value_t = 10_000)]
    agents: usize,
    /// Services on the cluster of each
    #[arg(long, default_value_t = 10)]
    services: usize,
    /// Seconds of rest in which the console's CPU is counted
    #[arg(long, default_value_t = 60)]
    rest: u64,
}

/// What all agents share.
pub(crate) struct Crowd {
    connected: AtomicUsize,
    /// When each was last hinted at.
    hinted: Mutex<Vec<Option<Instant>>>,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let folder = OwnedFolder::new("bench")?;
    let tls = Tls::make(folder.path())?;
    let listen = {
        // Nobody else asks for it between this and the console's start, nor when that is started again.
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.local_addr()?
    };
    let url = format!("https://{listen}");
    let config = ConsoleConfig {
        tls_cert: Some(tls.chain.clone()),
        tls_key: Some(tls.key.clone()),
        ..seed::config(folder.path())
    };
    let seeded = seed(folder.path(), config, Some(&tls.ca_pem), options.agents, options.services).await?;
    let Seeded { config, tokens, remote } = seeded;
    let mut console = start(folder.path(), &config, listen).await?;
    let registered = Usage::of(console.pid())?;

    let began = Instant::now();
    let (crowd, mut agents) = Crowd::connect(&url, &tls.ca_pem, tokens).await?;
    let first = began.elapsed();
    eprintln!("{} agents are connected; resting for {} s", options.agents, options.rest);

    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = Usage::of(console.pid())?;
    tokio::time::sleep(Duration::from_secs(options.rest)).await;
    let after = Usage::of(console.pid())?;
    let cores = after.millicores_since(&before, Duration::from_secs(options.rest)) / 1000.0;

    crowd.forget_hints();
    let pushed = Instant::now();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\ndata:\n  a: b\n";
    remote.push_files([("web/map.yaml", map)])?;
    let told = crowd.until_hinted(pushed).await?;

    eprintln!("the console is killed and started again");
    console.stop();
    crowd.until_lost().await?;
    let restarted = Instant::now();
    let mut console = start(folder.path(), &config, listen).await?;
    let ready = restarted.elapsed();
    crowd.until_connected(options.agents).await?;
    let back = restarted.elapsed();
    let storm = Usage::of(console.pid())?;
    agents.abort_all();
    console.stop();

    Ok(vec![
        Figure::new("agents", options.agents as f64, "")
            .beside("services each", options.services as f64)
            .beside("first connected within s", first.as_secs_f64()),
        Figure::new("all back after a restart", back.as_secs_f64(), "s")
            .at_most(15.0)
            .beside("of it until the console listens", ready.as_secs_f64()),
        Figure::new("console at rest, CPU", cores, "cores").at_most(0.5),
        Figure::new("console at rest, memory", after.mebibytes(), "MiB")
            .at_most(2048.0)
            .beside("registered, nobody connected", registered.mebibytes())
            .beside("after the restart", storm.mebibytes()),
        Figure::new("commit to hint p99", told.percentile(99), "ms")
            .at_most(10_000.0)
            .beside("p50", told.percentile(50))
            .beside("last", told.percentile(100)),
    ])
}

/// A console as a process of its own, which listens at this address.
pub(crate) async fn start(
    folder: &Path,
    config: &ConsoleConfig,
    listen: SocketAddr,
) -> anyhow::Result<Running> {
    let mut console = Program::new(program()?, folder).arg("console");
    if let Some(url) = &config.database_url {
        console = console.env("DATABASE_URL", url.expose_secret());
    }
    let files = [
        ("encryption-key-file", &config.encryption_key_file),
        ("tls-cert", &config.tls_cert),
        ("tls-key", &config.tls_key),
    ];
    for (flag, path) in files {
        if let Some(path) = path {
            console = console.flag(flag, path);
        }
    }
    let mut console = console
        .flag("listen", listen.to_string())
        .flag("data-dir", &config.data_dir)
        .flag("max-services", config.max_services.to_string())
        .arg("--allow-local-repositories")
        .env("PLURAL_ADMIN_EMAIL", ADMIN)
        .env("PLURAL_ADMIN_PASSWORD", PASSWORD)
        .env("PLURAL_METRICS_TOKEN", METRICS_TOKEN)
        .stopped_by(StopSignal::Kill)
        .start()?;
    let began = Instant::now();
    loop {
        console.check()?;
        if tokio::net::TcpStream::connect(listen).await.is_ok() {
            return Ok(console);
        }
        anyhow::ensure!(began.elapsed() < WITHIN, "the console did not start: {}", console.log_tail());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A stream, held as an agent holds it; polls after each hello and each hint, and does nothing with what it is told.
async fn agent(console: Console, place: usize, crowd: Arc<Crowd>) {
    let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));
    let mut cursor = None;
    loop {
        let mut is_connected = false;
        // Whatever ended it, the next one is tried.
        let _ = stream(&console, place, &crowd, &mut cursor, &mut is_connected).await;
        if is_connected {
            crowd.connected.fetch_sub(1, Ordering::Relaxed);
            backoff.reset();
        }
        tokio::time::sleep(backoff.next_wait()).await;
    }
}

async fn stream(
    console: &Console,
    place: usize,
    crowd: &Crowd,
    cursor: &mut Option<Cursor>,
    is_connected: &mut bool,
) -> anyhow::Result<()> {
    let (up, outgoing) = mpsc::channel(4);
    let say = |message| AgentMessage { message: Some(message) };
    let hello = Hello {
        agent_version: "bench".to_owned(),
        cursor: cursor.clone(),
        contract: CONTRACT,
        ..Hello::default()
    };
    up.send(say(agent_message::Message::Hello(hello))).await?;
    let mut incoming = console.stream(outgoing).await?;
    let mut keep_alive = tokio::time::interval(KEEP_ALIVE);
    loop {
        let message = tokio::select! {
            message = incoming.message() => message?.context("the stream ended")?,
            _ = keep_alive.tick() => {
                let _ = up.try_send(say(agent_message::Message::KeepAlive(KeepAlive::default())));
                continue;
            }
        };
        match message.message {
            Some(console_message::Message::Welcome(_)) => {
                // As an agent does: whatever was missed.
                *cursor = console.poll(cursor.clone(), Vec::new()).await?.cursor;
                *is_connected = true;
                crowd.connected.fetch_add(1, Ordering::Relaxed);
            }
            Some(console_message::Message::Hint(_)) => {
                crowd.was_hinted(place);
                *cursor = console.poll(cursor.clone(), Vec::new()).await?.cursor;
            }
            _ => {}
        }
    }
}

impl Crowd {
    /// An agent for each of these tokens, once all of them are connected. They end with the set.
    pub(crate) async fn connect(
        url: &str,
        ca_pem: &str,
        tokens: Vec<String>,
    ) -> anyhow::Result<(Arc<Self>, JoinSet<()>)> {
        let count = tokens.len();
        let crowd = Arc::new(Self { connected: AtomicUsize::new(0), hinted: Mutex::new(vec![None; count]) });
        let mut agents = JoinSet::new();
        for (place, token) in tokens.into_iter().enumerate() {
            let options = ConsoleOptions {
                url: url.to_owned(),
                token,
                ca_pem: Some(ca_pem.to_owned()),
                deadline: Duration::from_secs(30),
            };
            let console = Console::new(&options)?;
            agents.spawn(agent(console, place, Arc::clone(&crowd)));
            if place.is_multiple_of(STARTING) {
                crowd.until_connected(place.saturating_sub(STARTING)).await?;
            }
        }
        crowd.until_connected(count).await?;
        Ok((crowd, agents))
    }

    /// Agents with a stream.
    pub(crate) fn connected(&self) -> usize {
        self.connected.load(Ordering::Relaxed)
    }

    /// How many were hinted at since the last time that it was asked.
    pub(crate) fn take_hints(&self) -> usize {
        let mut hinted = self.hinted.lock();
        hinted.iter_mut().filter_map(Option::take).count()
    }

    async fn until_connected(&self, count: usize) -> anyhow::Result<()> {
        self.until(|crowd| crowd.connected.load(Ordering::Relaxed) >= count, "connected").await
    }

    async fn until_lost(&self) -> anyhow::Result<()> {
        self.until(|crowd| crowd.connected.load(Ordering::Relaxed) == 0, "lost").await
    }

    fn was_hinted(&self, place: usize) {
        let mut hinted = self.hinted.lock();
        if let Some(place) = hinted.get_mut(place) {
            place.get_or_insert_with(Instant::now);
        }
    }

    fn forget_hints(&self) {
        self.hinted.lock().fill(None);
    }

    /// How long each took to hear of it.
    async fn until_hinted(&self, since: Instant) -> anyhow::Result<Samples> {
        let hinted = |crowd: &Self| crowd.hinted.lock().clone();
        self.until(|crowd| hinted(crowd).iter().all(Option::is_some), "hinted at").await?;
        let mut samples = Samples::default();
        for at in hinted(self).into_iter().flatten() {
            samples.add(at.duration_since(since));
        }
        Ok(samples)
    }

    async fn until(&self, done: impl Fn(&Self) -> bool, what: &str) -> anyhow::Result<()> {
        let began = Instant::now();
        while !done(self) {
            let connected = self.connected.load(Ordering::Relaxed);
            anyhow::ensure!(
                began.elapsed() < WITHIN,
                "not all agents are {what} after {WITHIN:?}; {connected} are connected"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}
