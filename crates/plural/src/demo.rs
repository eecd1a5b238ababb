//! `plural demo`: a console, clusters and agents in this process, and commits that arrive.

mod clusters;
mod deployment;
mod output;
mod repository;
mod stack;
mod state;
mod tls;

use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context, bail};
use plural_agent::AgentEvent;
use plural_console::{ConsoleConfig, KubernetesListener, Reach, RunningConsole, StartError};
use plural_kit::{Shutdown, ShutdownSignal};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::{MissedTickBehavior, interval};

use crate::process::{LogArgs, keep_private};
pub(crate) use clusters::read as read_kubeconfig;
use clusters::{DemoCluster, Told};
use deployment::{Deployment, Registered, Source};
use output::{ClusterLine, Event, Output, millis};
use repository::Repository;
use state::State;

/// Address of the demo's administrator.
const ADMIN: &str = "admin@localhost";

/// Between two looks at what sync windows hold back.
const HELD: Duration = Duration::from_secs(2);

/// Flags of `plural demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Simulated clusters to run
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000),
          conflicts_with = "kubeconfig")]
    clusters: u32,

    /// Clusters of your own instead: one kubeconfig file per cluster, its current context is used
    #[arg(long, value_name = "FILE", num_args = 1..)]
    kubeconfig: Vec<PathBuf>,

    /// Deploy from this repository, a URL or a path, instead of a sample
    #[arg(long, value_name = "URL|PATH")]
    git: Option<String>,

    /// Branch, tag or commit of --git [default: what its HEAD names]
    #[arg(long = "ref", value_name = "REF", requires = "git")]
    reference: Option<String>,

    /// Folder of --git, read recursively [default: its root]
    #[arg(long, value_name = "DIR", requires = "git")]
    folder: Option<String>,

    /// Deploy, commit a change, check that it arrived in every cluster, and exit. With --git the commit goes to
    /// a private clone, nothing is pushed, and what was applied is removed from the clusters again
    #[arg(long)]
    once: bool,

    /// Seconds that --once may take for each of its steps
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,

    /// Keep state in this folder; a second start on it resumes. Simulated clusters live in memory: they begin empty
    /// again, and their agents fill them [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// One JSON object a line instead of text
    #[arg(long)]
    json: bool,

    /// Where the console listens [default: a free port of this machine, the same at every start on --data]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Where the console listens with TLS, for kubectl [default: as --listen, another free port]
    #[arg(long, value_name = "ADDRESS")]
    tls_listen: Option<SocketAddr>,

    /// How far the demo's console goes to addresses that you give it
    #[arg(long, env = "PLURAL_REACH", value_name = "REACH", default_value = "local")]
    reach: Reach,
    /// Listen beyond this machine without TLS: whoever sees the network sees the demo's password and tokens
    #[arg(long)]
    insecure_http: bool,

    /// Database: postgres://user@host/name [default: SQLite in the data folder]
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<SecretString>,

    #[command(flatten)]
    log: DemoLog,
}

/// A demo is for a person to watch: it logs what is wrong, not what is going on.
#[derive(Debug, clap::Args)]
struct DemoLog {
    /// What to log: a level, or levels by target such as info,plural_sync=debug
    #[arg(long = "log", env = "PLURAL_LOG", value_name = "FILTER", default_value = "error")]
    filter: String,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    LogArgs::text(&args.log.filter).init()?;
    keep_private();
    let shutdown = Shutdown::new();
    let mut signals = tokio::task::JoinSet::new();
    let asked = shutdown.clone();
    signals.spawn(async move { asked.on_process_signal().await });
    // Only the work itself ends the demo: a signal asks it to, and it stops what it started first.
    demo(args, shutdown.signal()).await
}

/// Writes a file that only its owner may read.
pub(crate) fn write_private(file: &Path, text: &str) -> anyhow::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let write = || {
        let mut out =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
        out.write_all(text.as_bytes())
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

async fn demo(args: Args, stop: ShutdownSignal) -> anyhow::Result<()> {
    let output = Output::new(args.json);
    let temporary;
    let data = if let Some(data) = &args.data {
        plural_kit::private_folder(data).with_context(|| format!("cannot create {}", data.display()))?;
        data.canonicalize()?
    } else {
        temporary = tempfile::Builder::new().prefix("plural-demo-").tempdir()?;
        temporary.path().to_owned()
    };
    let mut state = State::open(&data)?;

    output.talk("starting a console");
    let console = start(&args, &data, &mut state, output).await?;
    let mut clusters = Vec::new();
    let ran = run_on(&args, &stop, output, &data, &mut state, &console, &mut clusters).await;
    output.talk("stopping");
    for cluster in clusters {
        cluster.stop().await;
    }
    console.stop().await?;
    ran
}

/// Starts the console where it listened last, so that saved logins and kubeconfigs go on working; elsewhere when another
/// process is there by now and nobody asked for that address.
async fn start(
    args: &Args,
    data: &Path,
    state: &mut State,
    output: Output,
) -> anyhow::Result<RunningConsole> {
    const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let (plain, tls) = state.listened();
    let listen = args.listen.or(plain).unwrap_or(ANY);
    let free = SocketAddr::new(listen.ip(), 0);
    let listen_tls = args.tls_listen.or(tls.filter(|tls| tls.ip() == listen.ip())).unwrap_or(free);
    let certificate = tls::certificate(data, listen_tls.ip())?;
    let rules_program = crate::console::rules_program()?;
    let scaffold_program = crate::console::scaffold_program()?;
    let config = |listen, listen_tls| ConsoleConfig {
        listen,
        kubernetes: Some(KubernetesListener {
            listen: listen_tls,
            certificate: certificate.chain.clone(),
            key: certificate.key.clone(),
            authority: certificate.authority.clone(),
        }),
        insecure_http: args.insecure_http,
        database_url: args.database_url.clone(),
        admin_email: ADMIN.to_owned(),
        admin_password: Some(SecretString::from(state.password().to_owned())),
        allow_local_repositories: true,
        reach: Some(args.reach),
        drain_seconds: 2,
        rules_program: rules_program.clone(),
        scaffold_program: scaffold_program.clone(),
        ..ConsoleConfig::local(data.join("console"))
    };
    let (mut listen, mut listen_tls) = (listen, listen_tls);
    let console = loop {
        let taken = match RunningConsole::start(config(listen, listen_tls), None).await {
            Ok(console) => break console,
            Err(StartError::Listen { address, cause }) => (address, cause),
            Err(error) => return Err(error).context("the console cannot start"),
        };
        let (address, cause) = taken;
        // A free port is never taken, so each is given up once at most.
        if args.listen.is_none() && address == listen && listen != free {
            listen = free;
        } else if args.tls_listen.is_none() && address == listen_tls && address.port() != 0 {
            listen_tls = SocketAddr::new(address.ip(), 0);
        } else if args.tls_listen == Some(address) {
            return Err(cause).with_context(|| format!("cannot listen on {address} (--tls-listen)"));
        } else {
            return Err(StartError::Listen { address, cause }).context("the console cannot start");
        }
        output.talk(&format!("another process listens on {address}: listening elsewhere, so log in again"));
    };
    let tls = console.kubernetes_address.context("the console does not listen with TLS")?;
    state.set_listened(console.address, tls)?;
    Ok(console)
}

/// Everything between the start of the console and its end.
async fn run_on(
    args: &Args,
    stop: &ShutdownSignal,
    output: Output,
    data: &Path,
    state: &mut State,
    console: &RunningConsole,
    clusters: &mut Vec<DemoCluster>,
) -> anyhow::Result<()> {
    let mut deployment = Deployment::sign_in(&console.url, ADMIN, state).await?;

    output.talk(&match args.kubeconfig.len() {
        0 => format!("starting {} simulated clusters", args.clusters),
        files => format!("reading {files} kubeconfig files"),
    });
    clusters.extend(if args.kubeconfig.is_empty() {
        clusters::simulated(args.clusters, ADMIN, data).await?
    } else {
        clusters::of_kubeconfigs(&args.kubeconfig).await?
    });
    if !args.kubeconfig.is_empty() {
        for cluster in clusters.iter().filter(|cluster| state.token(cluster.handle()).is_none()) {
            cluster.check_free().await?;
        }
    }
    let mut leaving = Vec::new();
    for cluster in clusters.iter() {
        let handle = cluster.handle();
        match deployment.cluster(handle, args.kubeconfig.is_empty(), state).await? {
            Registered::AsBefore => {}
            Registered::Again => output.talk(&format!("cluster {handle} was deleted: registering it again")),
            Registered::Leaving => {
                output.talk(&format!(
                    "cluster {handle} is being deleted, which its agent ends now: the next start registers it again"
                ));
                leaving.push(handle.to_owned());
            }
        }
    }
    let staying = |cluster: &&DemoCluster| !leaving.iter().any(|handle| handle == cluster.handle());

    let (mut source, repository) = source(args, data).await?;
    if args.once {
        source.services.retain(|service| !service.is_broken);
    }
    output.talk(&format!("deploying {}", source.url));
    let begun = SystemTime::now();
    let services =
        deployment.services(&source, clusters.iter().filter(staying).map(DemoCluster::handle)).await?;

    // Not the repository of an earlier release, nor a person's own: they have no such folder.
    let has_stack = !args.once
        && args.git.is_none()
        && repository.as_ref().is_some_and(|repository| repository.path().join(stack::FOLDER).is_dir());
    let stacked = clusters.iter().filter(staying).find(|cluster| has_stack && cluster.is_simulated());
    let stack = match stacked {
        Some(cluster) => {
            let made = deployment.stack(&source, cluster.handle()).await;
            made.context("cannot make the demo's stack")?;
            Some(stack::NAME.to_owned())
        }
        None => None,
    };

    let broken: Vec<&String> =
        source.services.iter().filter(|service| service.is_broken).map(|service| &service.name).collect();
    let names: Vec<String> = services.keys().filter(|name| !broken.contains(name)).cloned().collect();
    let (shared, mut events) = clusters::shared();
    for cluster in clusters.iter_mut() {
        cluster.note_namespaces(source.services.iter().map(|service| service.namespace.as_str())).await?;
        let token = state.token(cluster.handle()).context("a cluster lost its token")?;
        cluster.start_runner(&console.url, &data.join("runs"))?;
        cluster.start_agent(&console.url, token, &data.join("agents"), &shared)?;
    }
    let mut times = Times {
        begun,
        of: HashMap::new(),
        repository: repository.clone(),
        failures: HashMap::new(),
        held: HashMap::new(),
        refused: HashSet::new(),
    };
    let timeout = Duration::from_secs(args.timeout);

    if args.once {
        let first = async {
            let head =
                repository.as_ref().context("--once needs a repository on this machine")?.head().await?;
            let wanted = pairs(clusters.iter().filter(staying), &names);
            arrive(output, &mut events, &mut times, &head, wanted).await
        };
        let outcome = match deployed(stop, timeout, "the first deployment", &deployment, first).await {
            Ok(()) => {
                let (source, repository) = (&source, repository.as_ref());
                once(args, stop, output, source, repository, clusters, &deployment, &mut events, &mut times)
                    .await
            }
            // What came of it is removed all the same.
            Err(error) => Err(error),
        };
        let removed = if args.git.is_some() || !args.kubeconfig.is_empty() {
            output.talk("removing what was applied");
            let removing = deployment.remove(services.values());
            let mut removed = within(stop, timeout, "removing what was applied", &deployment, removing).await;
            for cluster in clusters.iter_mut() {
                removed = removed.and(cluster.take_away().await);
            }
            removed
        } else {
            Ok(())
        };
        return outcome.and(removed);
    }

    let mut waiting: Vec<(String, String)> = pairs(clusters.iter().filter(staying), &names);
    let mut ready = false;
    let mut looks = interval(HELD);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let told = tokio::select! {
            told = stop.or(events.recv()) => match told {
                Some(Some(told)) => told,
                _ => break,
            },
            _ = looks.tick() => {
                // Nothing depends on it: a console that cannot answer now is asked again.
                for (key, why) in deployment.held().await.unwrap_or_default() {
                    if times.held.insert(key.clone(), why.clone()).as_ref() != Some(&why) {
                        output.talk(&format!("{} waits on {}: {why}", key.1, key.0));
                    }
                }
                continue;
            }
        };
        if let Some((cluster, service)) = tell(output, &mut times, told).await {
            waiting.retain(|(c, s)| *c != cluster || *s != service);
        }
        if waiting.is_empty() && !ready {
            ready = true;
            output.event(&Event::Ready {
                url: console.url.clone(),
                link: link(console)?,
                user: ADMIN.to_owned(),
                password: state.password().to_owned(),
                token: state.access_token().unwrap_or_default().to_owned(),
                clusters: clusters
                    .iter()
                    .map(|c| ClusterLine { handle: c.handle().to_owned(), kubeconfig: c.kubeconfig() })
                    .collect(),
                git: source.url.clone(),
                stack: stack.clone(),
            });
        }
    }
    Ok(())
}

/// A link that opens the web console signed in, for a browser on this machine: the code in it is good once. It stands behind
/// the `#`, so that it is in no request and no log; the page sends it.
fn link(console: &RunningConsole) -> anyhow::Result<Option<String>> {
    if !console.address.ip().is_loopback() {
        return Ok(None);
    }
    let code = console.app().sign_in_link_create(&ADMIN.parse()?)?;
    Ok(Some(format!("http://localhost:{}/#link={}", console.address.port(), code.expose_secret())))
}

/// The second half of `--once`: a commit, its arrival, and a look at the clusters themselves.
#[expect(clippy::too_many_arguments, reason = "one caller; a struct would only rename them")]
async fn once(
    args: &Args,
    stop: &ShutdownSignal,
    output: Output,
    source: &Source,
    repository: Option<&Repository>,
    clusters: &[DemoCluster],
    deployment: &Deployment,
    events: &mut clusters::Events,
    times: &mut Times,
) -> anyhow::Result<()> {
    let repository = repository.context("--once needs a repository on this machine")?;
    let timeout = Duration::from_secs(args.timeout);
    let target = source.services.first().context("there is nothing to deploy")?;
    let marker = format!("{:x}", SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos());
    output.talk("committing a change");
    let before = SystemTime::now();
    let commit = repository.commit_proof(&target.folder, &marker).await?;
    times.of.insert(commit.clone(), repository.moved_at().await.unwrap_or(before));
    let wanted = pairs(clusters.iter(), std::slice::from_ref(&target.name));
    let arrived = arrive(output, events, times, &commit, wanted);
    deployed(stop, timeout, "the change", deployment, arrived).await?;
    for cluster in clusters {
        let found = cluster.read_proof(&target.namespace, repository::PROOF_NAME).await?;
        if found.as_deref() != Some(marker.as_str()) {
            bail!(
                "{} says that the change was applied, but its ConfigMap {}/{} holds {found:?}",
                cluster.handle(),
                target.namespace,
                repository::PROOF_NAME
            );
        }
    }
    output.talk(&format!("verified: the change is in {} clusters", clusters.len()));
    Ok(())
}

/// Where to deploy from, and the repository on this machine when there is one.
async fn source(args: &Args, data: &Path) -> anyhow::Result<(Source, Option<Repository>)> {
    let Some(git) = &args.git else {
        let repository = Repository::sample(data.join("repository")).await?;
        return Ok((Source::sample(repository.path(), repository.branch().await?), Some(repository)));
    };
    let folder = args.folder.clone().unwrap_or_default().trim_matches('/').to_owned();
    if args.once {
        let repository = Repository::clone_of(git, args.reference.as_deref(), data.join("clone")).await?;
        let branch = repository.branch().await?;
        return Ok((Source::own(repository.path().display().to_string(), branch, folder), Some(repository)));
    }
    let is_url = git.contains("://") || (git.contains(':') && !Path::new(git).exists());
    if is_url {
        let reference = args.reference.clone().unwrap_or_else(|| "HEAD".to_owned());
        return Ok((Source::own(git.clone(), reference, folder), None));
    }
    let repository = Repository::existing(Path::new(git))?;
    let reference = args.reference.clone().unwrap_or_else(|| "HEAD".to_owned());
    Ok((Source::own(repository.path().display().to_string(), reference, folder), Some(repository)))
}

/// When commits were made.
struct Times {
    /// The demo's own start, which the first deployment is counted from.
    begun: SystemTime,
    of: HashMap<String, SystemTime>,
    repository: Option<Repository>,
    /// What was last told to be wrong, by cluster and service.
    failures: HashMap<(String, String), String>,
    /// Sync windows that held a revision back, by cluster and service, in words.
    held: HashMap<(String, String), String>,
    /// Clusters whose agents the console refuses.
    refused: HashSet<String>,
}

impl Times {
    async fn since(&mut self, commit: &str) -> Duration {
        let now = SystemTime::now();
        if !self.of.contains_key(commit) {
            let mut at = if self.of.is_empty() { self.begun } else { now };
            if let Some(repository) = &self.repository
                && !self.of.is_empty()
                && repository.head().await.is_ok_and(|head| head == commit)
                && let Ok(moved) = repository.moved_at().await
            {
                at = moved;
            }
            self.of.insert(commit.to_owned(), at);
        }
        self.of.get(commit).and_then(|at| now.duration_since(*at).ok()).unwrap_or_default()
    }
}

/// Tells of what an agent told; answers cluster and service when one was applied.
async fn tell(output: Output, times: &mut Times, told: Told) -> Option<(String, String)> {
    let Told { cluster, event } = told;
    match event {
        AgentEvent::Applied { service, commit_sha, changed, deleted, drift, .. } => {
            times.failures.remove(&(cluster.clone(), service.clone()));
            let is_news = changed + deleted > 0 || !times.of.contains_key(&commit_sha);
            let ms = millis(times.since(&commit_sha).await);
            if drift > 0 {
                output.talk(&format!("{service} was changed by hand on {cluster} and reverted"));
            } else if is_news {
                let held = times.held.remove(&(cluster.clone(), service.clone())).is_some();
                output.event(&Event::Applied {
                    held,
                    cluster: cluster.clone(),
                    service: service.clone(),
                    commit: commit_sha,
                    ms,
                });
            }
            Some((cluster, service))
        }
        AgentEvent::Failed { service, message, .. } => {
            // An agent that tries again and fails the same way is no news.
            let key = (cluster.clone(), service.clone());
            if times.failures.get(&key) != Some(&message) {
                times.failures.insert(key, message.clone());
                output.event(&Event::Failed { cluster, service, message });
            }
            None
        }
        // An agent that goes on trying is no news.
        AgentEvent::Disconnected { refused: true, .. } if !times.refused.insert(cluster.clone()) => None,
        AgentEvent::Disconnected { message, .. } => {
            output.talk(&format!("the agent of {cluster} lost the console: {message}"));
            None
        }
        AgentEvent::Connected => {
            times.refused.remove(&cluster);
            None
        }
        AgentEvent::Token(_) | AgentEvent::Destroyed { .. } => None,
    }
}

/// Waits until `commit` is applied for every pair of cluster and service.
async fn arrive(
    output: Output,
    events: &mut clusters::Events,
    times: &mut Times,
    commit: &str,
    mut wanted: Vec<(String, String)>,
) -> anyhow::Result<()> {
    while !wanted.is_empty() {
        let told = events.recv().await.context("the agents stopped")?;
        let is_commit = matches!(&told.event, AgentEvent::Applied { commit_sha, .. } if commit_sha == commit);
        if let Some((cluster, service)) = tell(output, times, told).await
            && is_commit
        {
            wanted.retain(|(c, s)| *c != cluster || *s != service);
        }
    }
    Ok(())
}

/// Every cluster with every service.
fn pairs<'a>(clusters: impl Iterator<Item = &'a DemoCluster>, services: &[String]) -> Vec<(String, String)> {
    clusters
        .flat_map(|cluster| services.iter().map(|name| (cluster.handle().to_owned(), name.clone())))
        .collect()
}

/// As [`within`], for work that ends early when nothing but another commit could let it succeed.
async fn deployed<T>(
    stop: &ShutdownSignal,
    timeout: Duration,
    what: &str,
    deployment: &Deployment,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    // On the heap: the callers' futures hold this one.
    let work = Box::pin(async {
        tokio::select! {
            done = work => done,
            problems = deployment.hopeless() => bail!("{what} cannot succeed: {problems}"),
        }
    });
    within(stop, timeout, what, deployment, work).await
}

/// Does `work` within `timeout`; when it is late, says what the console knows to be wrong.
async fn within<T>(
    stop: &ShutdownSignal,
    timeout: Duration,
    what: &str,
    deployment: &Deployment,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    match stop.or(tokio::time::timeout(timeout, work)).await {
        Some(Ok(done)) => done,
        Some(Err(_)) => {
            let reasons = deployment.problems().await.unwrap_or_default();
            let reasons = if reasons.is_empty() {
                "the console reports no reason".to_owned()
            } else {
                reasons.join("; ")
            };
            bail!("{what} took more than {} s: {reasons}", timeout.as_secs())
        }
        None => bail!("stopped"),
    }
}
