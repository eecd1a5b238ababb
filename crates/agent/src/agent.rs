//! Starting, holding together and stopping an agent.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use plural_kit::{Backoff, Shutdown};
use plural_sync::Engine;
use plural_tunnel::{Console, TunnelError};
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use crate::{
    artifacts::Artifacts,
    cluster::Cluster,
    commands::Commands,
    config::{AgentConfig, AgentEvent, Observer},
    credential::Credential,
    desired::Desired,
    encrypted::Keys,
    inbox::Inbox,
    journal::Journal,
    last::LastReports,
    lease::{Lease, Standing},
    link,
    masking::Secrets,
    pr_secrets::{self, PrSecrets},
    proxy::Proxy,
    renders::Renders,
    reports::Reports,
    runs::{self, Runs},
    scheduler,
    vault::{VaultConfigError, Vaults},
};

/// How long a stopping agent may take to end what it does.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The console's address or token cannot be used.
    #[error(transparent)]
    Console(#[from] TunnelError),
    /// The cluster's configuration cannot be used.
    #[error("cannot use the cluster's configuration")]
    Kube(#[source] Box<kube::Error>),
    /// The settings of Vault cannot be used.
    #[error(transparent)]
    Vault(#[from] VaultConfigError),
    /// The folder cannot be used.
    #[error("cannot use the folder {folder}: {cause}")]
    Folder {
        /// Which one.
        folder: String,
        /// Why.
        cause: io::Error,
    },
}

/// The agent. A name for its start; what runs is a [`RunningAgent`].
#[derive(Debug)]
pub struct Agent;

/// What all parts of an agent share.
pub(crate) struct Core {
    pub(crate) console: Console,
    pub(crate) credential: Credential,
    pub(crate) desired: Desired,
    pub(crate) artifacts: Artifacts,
    pub(crate) cluster: Cluster,
    pub(crate) commands: Commands,
    pub(crate) renders: Renders,
    pub(crate) inbox: Inbox,
    pub(crate) reports: Reports,
    pub(crate) runs: Runs,
    pub(crate) pr_secrets: PrSecrets,
    /// None when people may not come through the console.
    pub(crate) proxy: Option<Arc<Proxy>>,
    pub(crate) concurrency: usize,
    /// The desired state is the console's, not only what was kept on disk: what it does not name is
    /// not ours.
    pub(crate) whole: watch::Sender<bool>,
    pub(crate) lasts: LastReports,
    /// What of the services must not leave this cluster.
    pub(crate) secrets: Secrets,
    /// What services read from Vault.
    pub(crate) vaults: Vaults,
    /// What opens encrypted files.
    pub(crate) keys: Keys,
    observer: Option<Observer>,
    jitter: Mutex<Backoff>,
}

impl Core {
    pub(crate) fn emit(&self, event: AgentEvent) {
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }

    /// A random number in `0.0..1.0`.
    pub(crate) fn chance(&self) -> f64 {
        let mut jitter = self.jitter.lock();
        jitter.reset();
        jitter.next_wait().as_secs_f64()
    }
}

/// A running agent. Dropping it stops it at once, as a kill would; [`RunningAgent::stop`] is kinder.
#[derive(Debug)]
pub struct RunningAgent {
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl RunningAgent {
    /// Stops what runs and gives the lease back, so that another replica can go on at once.
    pub async fn stop(mut self) {
        self.shutdown.request();
        if tokio::time::timeout(STOP_DEADLINE, &mut self.task).await.is_err() {
            tracing::warn!("the agent did not stop in time");
        }
    }

    /// Resolves when the agent stopped unexpectedly, which only a defect makes it do.
    pub async fn ended(&mut self) {
        let _ = (&mut self.task).await;
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Agent {
    /// Starts an agent on the current runtime.
    ///
    /// Neither the console nor the cluster need to be reachable: it keeps trying.
    ///
    /// # Errors
    /// When the configuration cannot be used at all.
    pub fn start(config: AgentConfig) -> Result<RunningAgent, AgentError> {
        let AgentConfig {
            console: console_options,
            join_token,
            kube,
            namespace,
            cache_dir,
            cache_bytes,
            concurrency,
            renders,
            mut engine,
            lease_duration,
            commands,
            vault,
            line,
            proxy,
            runs,
            observer,
        } = config;
        let folder = |cause| AgentError::Folder { folder: cache_dir.display().to_string(), cause };
        let console = Console::along(&console_options, &line)?;
        let keep_alive = line.keep_alive;
        // Jobs of runs reach the console the same way.
        let detour = line.proxy.clone().map(|url| runs::Detour { url, except: line.no_proxy.clone() });
        let desired = Desired::open(&cache_dir, &console_options.url).map_err(folder)?;
        let artifacts = Artifacts::open(cache_dir.join("artifacts"), cache_bytes).map_err(folder)?;
        let commands = Commands::open(commands, cache_dir.join("commands")).map_err(folder)?;
        let journal = Journal::open(cache_dir.join("rendering")).map_err(folder)?;
        let identity = identity(&cache_dir).map_err(folder)?;
        let proxy =
            Proxy::new(&kube, proxy).map_err(|error| AgentError::Kube(Box::new(error)))?.map(Arc::new);
        // Retries are decided where the reason for a failure is understood.
        let client = {
            let mut kube = kube;
            kube.default_retry = false;
            kube::Client::try_from(kube).map_err(|error| AgentError::Kube(Box::new(error)))?
        };
        engine.namespace.clone_from(&namespace);
        let credential = Credential::new(client.clone(), &namespace, &console_options.token, join_token);
        let core = Arc::new(Core {
            console,
            credential,
            desired,
            artifacts,
            cluster: Cluster::new(client.clone()),
            commands,
            renders: Renders::new(renders, journal),
            inbox: Inbox::default(),
            reports: Reports::default(),
            pr_secrets: PrSecrets::new(&namespace),
            runs: Runs::new(runs::Settings {
                config: runs,
                agent_namespace: namespace.clone(),
                console_url: console_options.url.trim_end_matches('/').to_owned(),
                ca_pem: console_options.ca_pem.clone(),
                insecure_http: line.insecure_http,
                proxy: detour,
            }),
            proxy,
            concurrency: concurrency.max(1),
            whole: watch::Sender::new(false),
            lasts: LastReports::default(),
            secrets: Secrets::default(),
            vaults: Vaults::new(client.clone(), vault)?,
            keys: Keys::new(client.clone(), &namespace),
            observer,
            jitter: Mutex::new(Backoff::new(Duration::from_secs(1), Duration::from_secs(1))),
        });
        let lease = Arc::new(Lease { client: client.clone(), namespace, identity, duration: lease_duration });
        let shutdown = Shutdown::new();
        let stop = shutdown.signal();
        let task = tokio::spawn(async move {
            let working = Box::pin(work(Arc::clone(&core), client, Arc::clone(&lease), engine, keep_alive));
            if stop.or(working).await.is_none() {
                core.renders.leave();
                lease.release().await;
            }
        });
        Ok(RunningAgent { shutdown, task })
    }
}

/// Acts whenever the lease is held; ends only when a part of it broke.
async fn work(
    core: Arc<Core>,
    client: kube::Client,
    lease: Arc<Lease>,
    options: plural_sync::EngineOptions,
    keep_alive: Duration,
) {
    let (told, mut standing) = watch::channel(Standing::Waiting);
    let mut keeper = JoinSet::new();
    keeper.spawn(lease.keep(told));
    core.desired.adopt(&core.credential.known().await);
    // The line to the console outlives a moment without API server; another holder ends it.
    let mut line: JoinSet<()> = JoinSet::new();
    loop {
        match *standing.borrow_and_update() {
            Standing::Held if line.is_empty() => {
                line.spawn(link::run(Arc::clone(&core), client.clone(), core.console.clone(), keep_alive));
                line.spawn(link::facts_loop(client.clone(), core.console.clone()));
            }
            Standing::Waiting => line.abort_all(),
            Standing::Held | Standing::Lapsed => {}
        }
        let may_act = *standing.borrow() == Standing::Held;
        tokio::select! {
            () = act(&core, &client, &options), if may_act => {}
            () = runs::run(Arc::clone(&core), client.clone()), if may_act => {}
            () = pr_secrets::run(Arc::clone(&core), client.clone()), if may_act => {}
            changed = standing.changed() => {
                if changed.is_err() {
                    tracing::error!("the keeper of the lease ended");
                    return;
                }
                tracing::info!(standing = ?*standing.borrow(), "the lease changed");
            }
            Some(ended) = line.join_next(), if !line.is_empty() => {
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!(%error, "the connection to the console failed; reconnecting");
                    line.abort_all();
                    while line.join_next().await.is_some() {}
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}

/// Builds what is known of the cluster and looks after the services.
async fn act(core: &Arc<Core>, client: &kube::Client, options: &plural_sync::EngineOptions) {
    let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(10));
    loop {
        match Engine::start(client.clone(), options.clone()).await {
            Ok(engine) => return scheduler::run(Arc::clone(core), engine).await,
            Err(error) => {
                tracing::warn!(%error, "cannot read what earlier agents recorded in the cluster");
                tokio::time::sleep(backoff.next_wait()).await;
            }
        }
    }
}

/// Who we are to the lease: the same after a restart with the same folder.
fn identity(folder: &Path) -> io::Result<String> {
    let file = folder.join("identity");
    if let Ok(known) = fs::read_to_string(&file)
        && !known.trim().is_empty()
    {
        return Ok(known.trim().to_owned());
    }
    let identity = format!("agent-{}", uuid::Uuid::new_v4());
    fs::write(&file, &identity)?;
    Ok(identity)
}
