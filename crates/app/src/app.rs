//! The control plane's use cases, in one value.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use plural_core::access::Actor;
use plural_core::audit_chain::AuditKey;
use plural_core::cluster_tags::ProtectedTag;
use plural_core::{Error, Result};
use plural_kit::ShutdownSignal;
use secrecy::SecretString;
use tokio::sync::{Semaphore, watch};

use crate::agent::{PendingPings, ReportQueue};
use crate::audit::{AuditNotes, TokenUses};
use crate::audit_chain;
use crate::audit_stream::AuditSink;
use crate::cluster_audit::ClusterAuditQueue;
use crate::ctx::{Clock, OpCtx};
use crate::delta::Subscribers;
use crate::fleet::Fleet;
use crate::hashing::Hashing;
use crate::job::JobEntry;
use crate::jobs::{self, DirtyRepositories, DirtySources, GlobalServicesChanged};
use crate::keyring::Keyring;
use crate::plan_limiter::PlanLimiter;
use crate::ports::blobs::Blobs;
use crate::ports::charts::Composer;
use crate::ports::git::GitPort;
use crate::ports::git_hosts::GitHosts;
use crate::ports::governances::Governances;
use crate::ports::identity::IdentityPort;
use crate::ports::key_encryption::KeyEncryption;
use crate::ports::previews::Previews;
use crate::ports::rules::Rules;
use crate::ports::scaffolds::Scaffolds;
use crate::ports::secret_backend::SecretKeeper;
use crate::ports::templates::Templates;
use crate::program_login::ProgramPaces;
use crate::proxy::GrantCache;
use crate::replica::Replicas;
use crate::shared_counts::ServiceCounts;
use crate::sign_in_link::SignInLink;
use crate::stack_clock::ClockPasses;
use crate::stack_follow::StackPaces;
use crate::stack_pull_poll::SeenPulls;
use crate::stack_run_applies::ApplyingRuns;
use crate::stack_run_turns::SilentRuns;
use crate::stack_run_watch::WatchedRuns;
use crate::stack_state::LOOKS;
use crate::store::Store;
use crate::streams::PendingStreams;
use crate::throttle::Throttle;

/// What is sealed at first start, to recognise the key by.
pub(crate) const KEY_CHECK: &str = "installation:key";
/// How long the database may take to say that it is there.
const READY: Duration = Duration::from_secs(3);

/// The outside, as `console` filled it.
pub struct Ports {
    /// Database.
    pub store: Arc<dyn Store>,
    /// Git.
    pub git: Arc<dyn GitPort>,
    /// Charts, and artifacts of several parts.
    pub composer: Arc<dyn Composer>,
    /// Artifacts.
    pub blobs: Arc<dyn Blobs>,
    /// Rendering.
    pub previews: Arc<dyn Previews>,
    /// Policy of stacks.
    pub rules: Arc<dyn Rules>,
    /// Git hosts.
    pub git_hosts: Arc<dyn GitHosts>,
    /// Governances of pull requests.
    pub governances: Arc<dyn Governances>,
    /// Automations of pull requests.
    pub scaffolds: Arc<dyn Scaffolds>,
    /// Identity providers.
    pub identities: Arc<dyn IdentityPort>,
    /// Liquid, for the fields of global services.
    pub templates: Arc<dyn Templates>,
    /// Where the audit log is sent.
    pub audit_sinks: Vec<Arc<dyn AuditSink>>,
    /// Key-encryption keys for secrets at rest: the first wraps, all unwrap.
    pub keys: Vec<Arc<dyn KeyEncryption>>,
    /// Where projects may keep secret values besides the database: each backend once.
    pub secret_backends: Vec<Arc<dyn SecretKeeper>>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// What an operator decides.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where people reach the console, for links that others show; no links where it is not known.
    pub public_url: Option<String>,
    /// Repositories may be folders of the console's machine. Whoever may create repositories can then
    /// read every git repository there, so it is off unless asked for.
    pub allow_local_repositories: bool,
    /// Passwords and tokens of git and chart repositories may be sent over http.
    pub credentials_over_http: bool,
    /// Seconds between two fetches of a repository, before jitter.
    pub poll_seconds: u64,
    /// Seconds between two looks at what a chart's range of versions leads to, before jitter.
    pub chart_poll_seconds: u64,
    /// How long a login lasts, in hours.
    pub session_hours: u32,
    /// Age in days at which an agent replaces its deploy token; never by itself when absent.
    pub deploy_token_days: Option<u32>,
    /// Blobs are where all replicas find them: mirrors are shared through them.
    pub share_mirrors: bool,
    /// Tags of clusters that only administrators set.
    pub protected_tags: Vec<ProtectedTag>,
    /// Days that lines of the audit log are kept; for ever when absent.
    pub audit_days: Option<u32>,
    /// Days that lines of proxied requests are kept; for ever when absent.
    pub cluster_audit_days: Option<u32>,
    /// Versions of a stack's state that are kept, and as many rejected ones.
    pub stack_state_versions: u32,
    /// Seconds between two checkpoints of the audit log, while it grows.
    pub audit_checkpoint_seconds: u64,
    /// What webhooks are signed with.
    pub webhook_secret: SecretString,
    /// Answers with whole services that are read from the database at once: fewer than the database's connections.
    pub whole_answers: usize,
    /// Where this process runs, among replicas: host and folder. One that starts in the place of another takes over at
    /// once what that one did.
    pub replica: String,
    /// The kinds of jobs that it runs.
    pub jobs: &'static [JobEntry],
}

impl Settings {
    /// Defaults: no address of its own, no local repositories, a minute between fetches, a day per login.
    pub fn new(webhook_secret: SecretString) -> Self {
        Self {
            public_url: None,
            allow_local_repositories: false,
            credentials_over_http: false,
            poll_seconds: 60,
            chart_poll_seconds: 300,
            session_hours: 24,
            deploy_token_days: Some(30),
            share_mirrors: false,
            protected_tags: Vec::new(),
            audit_days: None,
            cluster_audit_days: Some(30),
            stack_state_versions: 100,
            audit_checkpoint_seconds: 300,
            webhook_secret,
            whole_answers: 7,
            replica: uuid::Uuid::now_v7().to_string(),
            jobs: jobs::JOBS,
        }
    }
}

/// The use cases. One per process and installation; shared by everything that serves requests.
pub struct App {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) git: Arc<dyn GitPort>,
    pub(crate) composer: Arc<dyn Composer>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) previews: Arc<dyn Previews>,
    pub(crate) rules: Arc<dyn Rules>,
    pub(crate) git_hosts: Arc<dyn GitHosts>,
    pub(crate) governances: Arc<dyn Governances>,
    pub(crate) scaffolds: Arc<dyn Scaffolds>,
    pub(crate) templates: Arc<dyn Templates>,
    pub(crate) identities: Arc<dyn IdentityPort>,
    pub(crate) sealer: Arc<Keyring>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) fleet: Fleet,
    pub(crate) reports: ReportQueue,
    pub(crate) pings: PendingPings,
    /// A permit for each look into a stack's state.
    pub(crate) state_looks: Semaphore,
    /// A permit for each answer that reads whole services from the database.
    pub(crate) whole_answers: Semaphore,
    pub(crate) repositories: DirtyRepositories,
    pub(crate) sources: DirtySources,
    pub(crate) globals: GlobalServicesChanged,
    pub(crate) throttle: Throttle,
    pub(crate) sign_in_link: SignInLink,
    pub(crate) silent_runs: SilentRuns,
    pub(crate) applying_runs: ApplyingRuns,
    pub(crate) watched_runs: WatchedRuns,
    pub(crate) seen_pulls: SeenPulls,
    pub(crate) stack_paces: StackPaces,
    pub(crate) clock_passes: ClockPasses,
    pub(crate) questions: PlanLimiter,
    pub(crate) proxy: GrantCache,
    pub(crate) cluster_audit: ClusterAuditQueue,
    pub(crate) audit_notes: AuditNotes,
    pub(crate) token_uses: TokenUses,
    pub(crate) audit_key: AuditKey,
    pub(crate) audit_sinks: Vec<Arc<dyn AuditSink>>,
    /// Changes when batches got their place in the audit log's chain.
    pub(crate) audit_linked: watch::Sender<u64>,
    pub(crate) replicas: Replicas,
    pub(crate) streams: PendingStreams,
    /// Those who listen for changes here.
    pub(crate) subscribers: Subscribers,
    pub(crate) service_counts: ServiceCounts,
    pub(crate) program_paces: ProgramPaces,
    pub(crate) hashing: Hashing,
    /// How many passwords were checked.
    pub(crate) password_checks: AtomicU64,
    /// Held by the one reader of the feed.
    pub(crate) feed_lock: tokio::sync::Mutex<()>,
}

impl App {
    /// The use cases on these ports, with the fleet loaded: from here on agents can be answered.
    ///
    /// # Errors
    /// When the database does not answer, or was written with another encryption key.
    pub async fn new(ports: Ports, settings: Settings) -> Result<Arc<Self>> {
        let Ports {
            store,
            git,
            composer,
            blobs,
            previews,
            rules,
            git_hosts,
            governances,
            scaffolds,
            templates,
            identities,
            audit_sinks,
            keys,
            secret_backends,
            clock,
        } = ports;
        let sealer = Keyring::start(Arc::clone(&store), Arc::clone(&clock), keys, secret_backends).await?;
        let proxy = GrantCache::open(&*store, &sealer).await?;
        let audit_key = audit_chain::open_key(&*store, &sealer).await?;
        let fleet = Fleet::new(store.fleet_load().await?);
        let replicas = Replicas::new(settings.replica.clone());
        let whole_answers = Semaphore::new(settings.whole_answers.max(1));
        Ok(Arc::new(Self {
            store,
            git,
            composer,
            blobs,
            previews,
            rules,
            git_hosts,
            governances,
            scaffolds,
            templates,
            identities,
            sealer: Arc::new(sealer),
            clock,
            settings,
            fleet,
            reports: ReportQueue::new(),
            pings: PendingPings::default(),
            state_looks: Semaphore::new(LOOKS),
            whole_answers,
            repositories: DirtyRepositories::default(),
            sources: DirtySources::default(),
            globals: GlobalServicesChanged::default(),
            throttle: Throttle::default(),
            sign_in_link: SignInLink::default(),
            silent_runs: SilentRuns::default(),
            applying_runs: ApplyingRuns::default(),
            watched_runs: WatchedRuns::default(),
            seen_pulls: SeenPulls::default(),
            stack_paces: StackPaces::default(),
            clock_passes: ClockPasses::default(),
            questions: PlanLimiter::default(),
            proxy,
            cluster_audit: ClusterAuditQueue::new(),
            audit_notes: AuditNotes::default(),
            token_uses: TokenUses::default(),
            audit_key,
            audit_sinks,
            audit_linked: watch::Sender::new(0),
            replicas,
            streams: PendingStreams::default(),
            subscribers: Subscribers::default(),
            service_counts: ServiceCounts::default(),
            program_paces: ProgramPaces::default(),
            hashing: Hashing::default(),
            password_checks: AtomicU64::new(0),
            feed_lock: tokio::sync::Mutex::new(()),
        }))
    }

    /// Keeps the fleet up to date, writes reports, fetches repositories, until asked to stop. Ends early
    /// only when something cannot go on; then the process should end too.
    ///
    /// # Errors
    /// What could not go on.
    pub async fn run(self: Arc<Self>, stop: ShutdownSignal) -> Result<()> {
        jobs::run(self, stop).await
    }

    /// A context for one request of `actor`.
    pub fn ctx(&self, actor: Actor) -> OpCtx {
        OpCtx::new(actor, Arc::clone(&self.clock))
    }

    /// A context for the console's own jobs.
    pub(crate) fn system_ctx(&self) -> OpCtx {
        self.ctx(Actor::System)
    }

    /// The database answers and the fleet is loaded.
    ///
    /// # Errors
    /// What does not work.
    pub async fn ready(&self) -> Result<()> {
        match tokio::time::timeout(READY, self.store.ready()).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::unavailable("the database does not answer")),
        }
    }

    /// What time it is.
    pub fn now(&self) -> chrono::DateTime<chrono::Utc> {
        self.clock.now()
    }

    /// What the operator decided.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}
