//! What an agent needs to start, and what it tells whoever watches it.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use plural_kit::Lanes;
use plural_sync::EngineOptions;
use plural_tunnel::{ConsoleOptions, Line};

use crate::{
    commands::CommandRenderers, proxy::ProxyPolicy, renders::usual_render_limits, runs::RunsConfig,
    vault::VaultConfig,
};

/// Settings of one agent.
#[derive(Clone)]
pub struct AgentConfig {
    /// The console and the deploy token, which may be empty.
    pub console: ConsoleOptions,
    /// Joins the cluster where the agent has no deploy token that the console accepts, neither in its own Secret nor given.
    pub join_token: Option<String>,
    /// The cluster.
    pub kube: kube::Config,
    /// The agent's own namespace: lease and inventories. Created when it is missing.
    pub namespace: String,
    /// Disposable folder for artifacts and the last known desired state; created with access for
    /// its owner only. Not shared between agents.
    pub cache_dir: PathBuf,
    /// Artifacts kept on disk, at most, in bytes.
    pub cache_bytes: u64,
    /// Services that are synced at once, at most.
    pub concurrency: usize,
    /// What renders may use together; agents of one process share it.
    pub renders: Arc<Lanes>,
    /// How the cluster is written to.
    pub engine: EngineOptions,
    /// How long a lease holds without being renewed.
    pub lease_duration: Duration,
    /// Programs that services may be rendered by; none unless somebody declares some.
    pub commands: Option<CommandRenderers>,
    /// The Vault that services may refer to; none unless somebody names one.
    pub vault: Option<VaultConfig>,
    /// The way to the console.
    pub line: Line,
    /// What people may do through the console, whatever the console says.
    pub proxy: ProxyPolicy,
    /// Where and how runs of stacks run.
    pub runs: RunsConfig,
    /// Told of what happens; must not block.
    pub observer: Option<Observer>,
}

impl AgentConfig {
    /// Usual settings for an agent in namespace `plural-system`.
    pub fn new(console: ConsoleOptions, kube: kube::Config, cache_dir: impl Into<PathBuf>) -> Self {
        let namespace = "plural-system".to_owned();
        Self {
            console,
            join_token: None,
            kube,
            cache_dir: cache_dir.into(),
            cache_bytes: 512 << 20,
            concurrency: 32,
            renders: Lanes::new(usual_render_limits()),
            engine: EngineOptions::new(namespace.clone()),
            lease_duration: Duration::from_secs(30),
            commands: None,
            vault: None,
            line: Line::default(),
            proxy: ProxyPolicy::default(),
            runs: RunsConfig::default(),
            observer: None,
            namespace,
        }
    }
}

impl AgentConfig {
    /// The same settings in another namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: impl Into<String>) -> Self {
        let namespace = namespace.into();
        Self { engine: EngineOptions::new(namespace.clone()), namespace, ..self }
    }
}

impl fmt::Debug for AgentConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentConfig")
            .field("console", &self.console)
            .field("cluster", &self.kube.cluster_url)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// Called for each [`AgentEvent`].
pub type Observer = Arc<dyn Fn(AgentEvent) + Send + Sync>;

/// How long each part of a change took on the agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// From the hint to the answer of the poll that it caused; zero when no hint came first.
    pub poll: Duration,
    /// Waiting for a free place among the services being synced.
    pub queue: Duration,
    /// Fetching the artifact, or reading it from the cache.
    pub fetch: Duration,
    /// Rendering.
    pub render: Duration,
    /// Planning, applying, pruning.
    pub apply: Duration,
}

/// How far the agent is with a deploy token of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenStep {
    /// The new one is in the agent's Secret.
    Kept,
    /// The console accepts it.
    Told,
    /// It was used: the console accepts no other any more.
    Used,
    /// It is the only one in the Secret.
    Settled,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub enum AgentEvent {
    /// The agent joins, or replaces its deploy token.
    Token(TokenStep),
    /// The stream to the console is open.
    Connected,
    /// It is not, and why.
    Disconnected {
        /// In words.
        message: String,
        /// The console refuses the token.
        refused: bool,
    },
    /// All objects of a service are applied at a revision.
    Applied {
        /// Id of the service.
        service_id: String,
        /// Its name.
        service: String,
        /// Id of the revision.
        revision_id: String,
        /// Commit of the revision, empty when there is none.
        commit_sha: String,
        /// Objects that were written.
        changed: usize,
        /// Objects that were as they should be.
        unchanged: usize,
        /// Objects whose deletion was confirmed.
        deleted: usize,
        /// Foreign changes that were put right.
        drift: usize,
        /// What took how long.
        parts: Parts,
    },
    /// A service could not be applied.
    Failed {
        /// Id of the service.
        service_id: String,
        /// Its name.
        service: String,
        /// Id of the revision.
        revision_id: String,
        /// Commit of the revision, empty when there is none.
        commit_sha: String,
        /// What is wrong, all of it.
        message: String,
    },
    /// All that a service owned is gone.
    Destroyed {
        /// Id of the service.
        service_id: String,
        /// Its name.
        service: String,
    },
}
