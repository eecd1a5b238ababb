//! Wiring of the control plane: use cases, store, API, gateway, git and the agents' door in one process.
//!
//! A library without globals: a process may hold several consoles, and agents beside them.

mod agents;
mod audit_streams;
mod blobs;
mod charts;
mod child_program;
mod config;
mod gateway;
mod git;
mod git_host_pulls;
mod git_hosts;
mod governances;
mod identity;
mod key_encryption;
mod keys;
mod known_hosts;
mod metrics;
mod opened;
mod previews;
mod rules;
mod scaffold;
mod secret_backends;
mod server;
mod templates;
mod wrapped;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use axum::Router;
use plural_api::{ApiOptions, CONNECTIONS_OF_USER, ClusterSessions, Network, Route, Routes, Sockets};
use plural_app::App;
use plural_app::login::FirstAdmin;
use plural_app::replica::ReplicaAddress;
use plural_core::specs::Email;
use plural_gateway::{Proxy, ReplicaIdentity};
use plural_kit::{Admission, AdmissionLimits, Metrics, Shutdown};
use plural_store::{Database, SoleUse};
use tokio::task::{JoinError, JoinHandle};

pub use config::{ChildProgram, ConsoleConfig, KubernetesListener, Reach, SshHostKeys};
pub use keys::random_password;

use opened::Opened;
pub use opened::reset_password;
pub use scaffold::Scaffolder;
use server::Bound;
pub use server::Server;

/// Why a console does not start. Every text names the setting to correct.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder cannot be used.
    #[error("cannot use the data folder {folder}: {reason}; choose another with --data-dir")]
    DataFolder {
        /// The folder.
        folder: String,
        /// The system's words.
        reason: String,
    },
    /// Nothing can be called over HTTP.
    #[error("cannot prepare calls to governances of pull requests: {reason}")]
    Governances {
        /// The library's words.
        reason: String,
    },
    /// A key file cannot be used.
    #[error("cannot use the key file {file}: {reason}")]
    Key {
        /// The file.
        file: String,
        /// What is wrong with it. Never its content.
        reason: String,
    },
    /// A key-encryption key cannot be used.
    #[error("cannot use the key-encryption key {place}: {reason}; correct --key-encryption")]
    KeyEncryption {
        /// As given, without its options.
        place: String,
        /// What is wrong with it. Never a credential.
        reason: String,
    },
    /// A secret backend cannot be used.
    #[error("cannot use the secret backend {place}: {reason}; correct --secret-backend")]
    SecretBackend {
        /// As given, without its options.
        place: String,
        /// What is wrong with it. Never a credential.
        reason: String,
    },
    /// The certificate or its key cannot be used.
    #[error("cannot use {file} for TLS: {reason}")]
    Tls {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody has the address whose password is to be reset.
    #[error("no user has the address {email:?}; administrators: {admins}")]
    NoSuchUser {
        /// The address.
        email: String,
        /// Addresses of administrators.
        admins: String,
    },
    /// The place for artifacts cannot be used.
    #[error("cannot keep artifacts in {url}: {reason}; correct --blob-store or the AWS_… variables")]
    BlobStore {
        /// As given.
        url: String,
        /// What is wrong with it. Never a credential.
        reason: String,
    },
    /// A stream of the audit log cannot be used.
    #[error("cannot send the audit log to {stream}: {reason}; correct --audit-stream")]
    AuditStream {
        /// As given, without what may be secret.
        stream: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Passwords and tokens would cross a network in clear.
    #[error(
        "{address} is reachable from other machines; plain HTTP would expose passwords and tokens. Set \
         --tls-cert and --tls-key, or --insecure-http if an ingress or load balancer in front of the console \
         terminates TLS"
    )]
    PlainHttp {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// A secret is empty, as one from an unset variable is, or can be guessed.
    #[error("{setting} must have at least {least} characters; change it, or omit it")]
    Short {
        /// Flag and variable.
        setting: &'static str,
        /// The least that is taken.
        least: usize,
    },
    /// Other replicas cannot be told where this one is.
    #[error(
        "other replicas cannot reach {address}; set the address that they can reach with --replica-address"
    )]
    ReplicaAddress {
        /// What they would be told.
        address: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}; choose another with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's words.
        #[source]
        cause: io::Error,
    },
    /// The address for metrics cannot be listened on.
    #[error("cannot listen on {address} for metrics; choose another with --metrics-listen")]
    MetricsListen {
        /// The address.
        address: SocketAddr,
        /// The system's words.
        #[source]
        cause: io::Error,
    },
    /// The administrator's address is none.
    #[error("{email:?} is not an e-mail address ({reason}); correct --admin-email")]
    AdminEmail {
        /// As given.
        email: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Mirrors or artifacts cannot be kept.
    #[error(transparent)]
    Git(#[from] plural_git::Error),
    /// The database cannot be opened or migrated.
    #[error(transparent)]
    Database(#[from] plural_store::OpenError),
    /// The database does not answer as ours does.
    #[error("cannot read the database")]
    Installation(#[source] plural_core::Error),
}

/// How a console ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A job could not go on.
    #[error("the console cannot go on")]
    Jobs(#[source] plural_core::Error),
    /// A task panicked.
    #[error("the console failed unexpectedly")]
    Panicked(#[from] JoinError),
}

/// A console that serves.
pub struct RunningConsole {
    /// Where it listens.
    pub address: SocketAddr,
    /// The address as a URL, `http://127.0.0.1:8080`.
    pub url: String,
    /// Where its users find it: the URL that it was told, or its own.
    pub public_url: String,
    /// Where it serves kubectl, if on an address of its own.
    pub kubernetes_address: Option<SocketAddr>,
    /// Where it serves metrics, if on an address of their own.
    pub metrics_address: Option<SocketAddr>,
    /// Set at the very first start of an installation: tell it, once.
    pub first_admin: Option<FirstAdmin>,
    routes: Vec<(Listener, Route)>,
    app: Arc<App>,
    database: Arc<Database>,
    shutdown: Shutdown,
    task: JoinHandle<Result<(), RunError>>,
    /// No other console has the database until this one has ended.
    _sole_use: Option<SoleUse>,
}

/// What listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listener {
    /// For people, programs and agents.
    Public,
    /// Inside a WebSocket of the public listener.
    Wrapped,
    /// For other replicas.
    Replicas,
    /// For whoever scrapes metrics.
    Metrics,
}

impl std::fmt::Debug for RunningConsole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningConsole").field("url", &self.url).finish_non_exhaustive()
    }
}

impl RunningConsole {
    /// Starts: opens the database (and migrates it), loads the fleet, listens.
    ///
    /// # Errors
    /// See [`StartError`]; nothing keeps running then.
    pub async fn start(config: ConsoleConfig, metrics: Option<Metrics>) -> Result<Self, StartError> {
        start(config, metrics).await
    }

    /// The use cases, for callers in the same process: benches and tests.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Every route of every listener.
    pub fn routes(&self) -> &[(Listener, Route)] {
        &self.routes
    }

    /// Statements that the database ran for it so far.
    pub fn statements(&self) -> u64 {
        self.database.statements()
    }

    /// What asks it to stop; asking does not wait.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Waits until it has ended, by itself or because it was asked to.
    ///
    /// # Errors
    /// When it could not go on.
    pub async fn ended(&mut self) -> Result<(), RunError> {
        let ended = (&mut self.task).await;
        // SQLite's files are closed when this returns, not a moment later.
        self.database.shut().await;
        ended?
    }

    /// Asks it to stop and waits: agents are told to go elsewhere, requests end, reports are stored.
    ///
    /// # Errors
    /// When it could not go on.
    pub async fn stop(mut self) -> Result<(), RunError> {
        self.shutdown.request();
        self.ended().await
    }

    /// Ends it at once, as a crash would: what is still running for a moment stores nothing any more.
    pub async fn kill(self) {
        self.database.sever().await;
        self.task.abort();
        let _ = self.task.await;
    }
}

async fn start(config: ConsoleConfig, metrics: Option<Metrics>) -> Result<RunningConsole, StartError> {
    let admin_email: Email = config.admin_email.parse().map_err(|error: plural_core::specs::NameError| {
        StartError::AdminEmail { email: config.admin_email.clone(), reason: error.to_string() }
    })?;
    let listen = config.listen;
    if config.tls_cert.is_none() && !config.insecure_http && !listen.ip().to_canonical().is_loopback() {
        return Err(StartError::PlainHttp { address: listen });
    }
    metrics::check_token(config.metrics_token.as_ref())?;
    // Whatever can refuse the settings does so before anything is made: the first password is printed once.
    let bound = Bound::new(listen, config.tls_cert.as_deref().zip(config.tls_key.as_deref()))?;
    let kubernetes = match &config.kubernetes {
        Some(KubernetesListener { listen, certificate, key, authority: _ }) => {
            Some(Bound::new(*listen, Some((certificate, key)))?)
        }
        None => None,
    };
    let bound_metrics = match (config.metrics_listen, metrics.as_ref()) {
        (Some(address), Some(metrics)) => Some((metrics::bind(address)?, metrics)),
        _ => None,
    };
    let replicas = config
        .replica_listen
        .map(|listen| bind_for_replicas(listen, config.replica_address.as_deref()))
        .transpose()?;
    let Opened { app, database, sole_use } = opened::open(&config, &config.data_dir).await?;
    let ConsoleConfig {
        public_url,
        own_cluster,
        metrics_token,
        trusted_proxies,
        admin_password,
        keep_alive_seconds,
        drain_seconds,
        kubernetes: kubernetes_config,
        ..
    } = config;
    let first_admin = app.install(&admin_email, admin_password).await.map_err(StartError::Installation)?;

    let keep_alive = Duration::from_secs(keep_alive_seconds);
    let trusted: Arc<[Network]> = trusted_proxies.clone().into();
    let admission = Admission::new(AdmissionLimits::of_descriptors(descriptors()));
    let address = bound.address().map_err(|cause| StartError::Listen { address: listen, cause })?;
    let url = format!("{}://{}", bound.scheme(), from_here(address));
    let server = bound
        .listen()?
        .with_keep_alive(keep_alive)
        .with_admission(Arc::clone(&admission), Arc::clone(&trusted));
    let public_url = public_url.unwrap_or_else(|| url.clone()).trim_end_matches('/').to_owned();

    let mut kubernetes_address = None;
    let kubernetes = match kubernetes {
        Some(bound) => {
            let at = bound.address().map_err(|cause| StartError::Listen { address: listen, cause })?;
            kubernetes_address = Some(at);
            let server = bound.listen()?.with_keep_alive(keep_alive);
            Some(server.with_admission(Arc::clone(&admission), Arc::clone(&trusted)))
        }
        None => None,
    };

    let shutdown = Shutdown::new();
    let mut inner = None;
    if let Some((bound, told)) = replicas {
        let server = bound.listen()?;
        tracing::info!(replica.address = told.authority, "the console listens for other replicas");
        app.replica_listens(told);
        inner = Some(server.with_admission(Arc::clone(&admission), Arc::new([])));
    }
    let proxy = Proxy::new(Arc::clone(&app), shutdown.signal(), CONNECTIONS_OF_USER)
        .map_err(StartError::Installation)?;
    let agents = agents::routes(Arc::clone(&app), Arc::clone(&proxy), shutdown.signal(), keep_alive);
    let sessions = ClusterSessions::new(Some(&public_url));
    let api = ApiOptions {
        public_url: Some(public_url.clone()),
        kubernetes_url: kubernetes_address.map(|at| format!("https://{}", from_here(at))),
        kubernetes_authority: kubernetes_config.map(|listener| listener.authority),
        own_cluster,
        trusted_proxies,
        ..ApiOptions::default()
    };
    let sockets = Sockets::new(shutdown.signal());
    let public = plural_api::routes(Arc::clone(&app), api, sockets.clone())
        .merge(metrics::with_token(metrics.as_ref(), metrics_token))
        .merge(agents.clone())
        .merge(wrapped::routes(agents.clone().into_router(), keep_alive, Arc::clone(&trusted)))
        .merge(gateway::routes(Arc::clone(&proxy), trusted, sessions));
    let passed = gateway::routes_for_replicas(Arc::clone(&proxy));
    let listed = |listener: Listener, routes: &Routes| {
        routes.listed().iter().map(|route| (listener, route.clone())).collect::<Vec<_>>()
    };
    let mut routes = listed(Listener::Public, &public);
    routes.extend(listed(Listener::Wrapped, &agents));
    routes.extend(listed(Listener::Replicas, &passed));
    let inner = inner.map(|server| (server, passed.into_router()));
    let router = public.into_router();
    let drain = Duration::from_secs(drain_seconds);
    let measured = bound_metrics.map(|(bound, metrics)| metrics::listen(bound, metrics)).transpose()?;
    let metrics_address = measured.as_ref().and_then(|(server, _)| server.address().ok());
    let measured = measured.map(|(server, served)| {
        routes.extend(listed(Listener::Metrics, &served));
        (server.with_admission(admission, Arc::new([])), served.into_router())
    });
    let kubernetes = kubernetes.map(|server| (server, router.clone()));
    let servers = std::iter::once((server, router)).chain(kubernetes).chain(inner).chain(measured).collect();
    let task =
        tokio::spawn(run(Arc::clone(&app), (proxy, sockets), servers, metrics, shutdown.clone(), drain));
    tracing::info!(address = %address, "the console listens");
    Ok(RunningConsole {
        address,
        url,
        public_url,
        kubernetes_address,
        metrics_address,
        first_admin,
        routes,
        app,
        database,
        shutdown,
        task,
        _sole_use: sole_use,
    })
}

/// Where a program on this machine reaches what listens on an address: no certificate names "every address".
fn from_here(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Takes the address for other replicas; also the one that they are told.
fn bind_for_replicas(address: SocketAddr, told: Option<&str>) -> Result<(Bound, ReplicaAddress), StartError> {
    let identity = ReplicaIdentity::new().map_err(|error| StartError::Tls {
        file: "the certificate for other replicas".to_owned(),
        reason: error.to_string(),
    })?;
    let (certificate, key) = identity.tls();
    let bound = Bound::with_certificate(address, certificate, key)?;
    let at = bound.address().map_err(|cause| StartError::Listen { address, cause })?;
    let told =
        identity.address(at, told).ok_or_else(|| StartError::ReplicaAddress { address: at.to_string() })?;
    Ok((bound, told))
}

/// The name under which a console holds leases: the same after a restart in the same place. Nobody else has
/// an SQLite file ([`SoleUse`]); of a PostgreSQL database's consoles each has a host or a data folder of its own.
fn replica(data_dir: &Path, is_postgres: bool) -> String {
    if !is_postgres {
        return "single".to_owned();
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    let folder = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
    format!("{}:{}", host.unwrap_or_default().trim(), folder.display())
}

/// Serves and works until asked to stop. What ends by itself ends the rest too.
async fn run(
    app: Arc<App>,
    (proxy, sockets): (Arc<Proxy>, Sockets),
    servers: Vec<(Server, Router)>,
    metrics: Option<Metrics>,
    shutdown: Shutdown,
    drain: Duration,
) -> Result<(), RunError> {
    // Jobs outlive the server: a report that was accepted while draining must still be stored.
    let jobs = Shutdown::new();
    let work = app.run(jobs.signal());
    tokio::pin!(work);
    let serving = servers.into_iter().map(|(server, router)| server.run(router, shutdown.signal(), drain));
    let serve = futures::future::join_all(serving);
    tokio::pin!(serve);
    // Ends with the jobs, whoever scrapes or does not.
    let upkeep_stop = jobs.signal();
    let upkeep = async {
        match &metrics {
            Some(metrics) => metrics.keep_up(&upkeep_stop).await,
            None => upkeep_stop.requested().await,
        }
    };
    let outcome = async {
        tokio::select! {
            _ = &mut serve => {
                tokio::join!(proxy.finish(), sockets.finish());
                jobs.request();
                work.await
            }
            ended = &mut work => {
                shutdown.request();
                serve.await;
                tokio::join!(proxy.finish(), sockets.finish());
                jobs.request();
                ended
            }
        }
    };
    let (outcome, ()) = tokio::join!(outcome, upkeep);
    outcome.map_err(RunError::Jobs)
}

/// How many files this process may have open.
fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}
