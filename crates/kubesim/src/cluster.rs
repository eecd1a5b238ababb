//! One simulated cluster: its state, its handle.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::auth::{Tokens, User};
use crate::bootstrap;
use crate::controllers;
use crate::faults::{Audit, Faults};
use crate::http::serve;
use crate::identity::Identity;
use crate::kubelet::{Kubelet, Kubelets};
use crate::store::Store;

/// How a cluster is set up.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Name, used in kubeconfig files.
    pub name: String,
    /// Where it listens; port 0 takes a free one.
    pub bind: SocketAddr,
    /// TLS, or plain HTTP (cheaper for scale runs).
    pub tls: bool,
    /// Token of the administrator; a random one if `None`.
    pub admin_token: Option<String>,
    /// Run the built-in controllers for workloads. Garbage collection, namespaces and custom resource definitions
    /// are always on.
    pub workloads: bool,
    /// Number of nodes.
    pub nodes: usize,
    /// From a Pod's creation to its being ready.
    pub pod_ready_after: Duration,
    /// From a Pod's delete to its being gone.
    pub pod_stop_after: Duration,
    /// How long a Job's Pod runs.
    pub job_runs_for: Duration,
    /// Changes kept per table for watches that resume.
    pub history: usize,
    /// Interval of bookmarks.
    pub bookmark_every: Duration,
    /// Length of watches that do not ask for one.
    pub watch_timeout: Duration,
    /// `gitVersion` that `/version` reports.
    pub version: String,
}

impl ClusterOptions {
    /// A cluster on a free loopback port.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: true,
            admin_token: None,
            workloads: true,
            nodes: 1,
            pod_ready_after: Duration::from_millis(500),
            pod_stop_after: Duration::from_millis(100),
            job_runs_for: Duration::from_millis(500),
            history: 4096,
            bookmark_every: Duration::from_mins(1),
            watch_timeout: Duration::from_mins(45),
            version: "v1.36.2".into(),
        }
    }
}

/// State that requests, watches and controllers share.
#[derive(Debug)]
pub(crate) struct Inner {
    /// Set-up.
    pub options: ClusterOptions,
    store: Mutex<Store>,
    /// Who may come in.
    pub tokens: Tokens,
    /// Faults on demand.
    pub faults: Faults,
    /// Counts.
    pub audit: Audit,
    /// Who runs Pods.
    pub kubelets: Kubelets,
    /// Wakes the controllers.
    pub work: Notify,
    /// False during an outage.
    pub up: watch::Sender<bool>,
    bound: SocketAddr,
}

impl Inner {
    /// Looks at the state.
    pub(crate) fn read<R>(&self, f: impl FnOnce(&Store) -> R) -> R {
        f(&self.store.lock())
    }

    /// Changes the state and wakes the controllers.
    pub(crate) fn write<R>(&self, f: impl FnOnce(&mut Store) -> R) -> R {
        let out = self.write_quietly(f);
        self.work.notify_one();
        out
    }

    /// Changes the state without waking the controllers: for the controllers.
    pub(crate) fn write_quietly<R>(&self, f: impl FnOnce(&mut Store) -> R) -> R {
        f(&mut self.store.lock())
    }

    /// `127.0.0.1:6443`.
    pub(crate) fn address(&self) -> String {
        self.bound.to_string()
    }

    /// Body of `/version`.
    pub(crate) fn version(&self) -> Value {
        let v = &self.options.version;
        let mut parts = v.trim_start_matches('v').split('.');
        let (major, minor) = (parts.next().unwrap_or("1"), parts.next().unwrap_or("36"));
        json!({"major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
            "minCompatibilityMajor": major, "minCompatibilityMinor": minor, "gitVersion": v, "gitCommit": "",
            "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "go1.26", "compiler": "gc",
            "platform": "linux/amd64"})
    }
}

#[derive(Debug)]
struct Running {
    stop: watch::Sender<bool>,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The tasks see it; the set's own drop aborts whatever is left.
        self.stop.send_replace(true);
    }
}

/// Handle to a running cluster. The cluster stops when the last handle is dropped.
#[derive(Debug, Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
    running: Arc<Running>,
    ca_pem: Arc<str>,
    admin_token: Arc<str>,
}

impl Cluster {
    pub(crate) fn start(
        options: ClusterOptions,
        identity: &Identity,
        listener: TcpListener,
        bound: SocketAddr,
    ) -> Self {
        let mut store = Store::new(options.history);
        bootstrap::fill(&mut store, &options);
        let tokens = Tokens::default();
        let admin_token =
            options.admin_token.clone().unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
        tokens.add(&admin_token, User::admin());
        let tls = options.tls.then(|| identity.acceptor.clone());
        let inner = Arc::new(Inner {
            options,
            store: Mutex::new(store),
            tokens,
            faults: Faults::default(),
            audit: Audit::default(),
            kubelets: Kubelets::default(),
            work: Notify::new(),
            up: watch::Sender::new(true),
            bound,
        });
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(serve::run(inner.clone(), listener, tls, stop.subscribe()));
        tasks.spawn(controllers::run(inner.clone(), stop.subscribe()));
        let running = Arc::new(Running { stop, tasks: tokio::sync::Mutex::new(tasks) });
        Self { inner, running, ca_pem: identity.ca_pem.clone(), admin_token: admin_token.into() }
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.inner.options.name
    }

    /// Base address, e.g. `https://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        let scheme = if self.inner.options.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.inner.bound)
    }

    /// PEM of the authority that signed its certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Token of a member of `system:masters`.
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// Accepts `token` as `user`.
    pub fn add_token(&self, token: &str, user: User) {
        self.inner.tokens.add(token, user);
    }

    /// Accepts `token` no more; true if it was known.
    pub fn revoke_token(&self, token: &str) -> bool {
        self.inner.tokens.revoke(token)
    }

    /// A kubeconfig for the administrator.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_for(&self.admin_token)
    }

    /// A kubeconfig for the holder of `token`.
    pub fn kubeconfig_for(&self, token: &str) -> String {
        use base64::Engine as _;
        let name = self.name();
        let mut cluster = json!({"server": self.url()});
        if self.inner.options.tls {
            let ca = base64::engine::general_purpose::STANDARD.encode(&*self.ca_pem);
            cluster["certificate-authority-data"] = ca.into();
        }
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        });
        // JSON is YAML, but a person may want to read this one.
        serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string())
    }

    /// Faults on demand.
    pub fn faults(&self) -> &Faults {
        &self.inner.faults
    }

    /// Counts of requests.
    pub fn audit(&self) -> &Audit {
        &self.inner.audit
    }

    /// Asks `whose` about each Pod that is bound to a node, whenever it has changed. It must not block, nor call the cluster.
    pub fn ask_for_kubelet(&self, whose: impl Fn(&Value) -> Kubelet + Send + Sync + 'static) {
        self.inner.kubelets.set(Arc::new(whose));
    }

    /// `false` cuts every connection and refuses new ones until `true`; objects stay.
    pub fn set_available(&self, available: bool) {
        self.inner.up.send_replace(available);
    }

    /// Forgets the history: watches and continue tokens from before answer 410.
    pub fn compact(&self) {
        self.inner.write(Store::compact);
    }

    /// Number of objects of a resource, e.g. `("apps", "deployments")`.
    pub fn count(&self, group: &str, plural: &str) -> usize {
        self.inner.read(|s| s.count(&crate::resource::qualified(plural, group)))
    }

    /// The current resource version.
    pub fn revision(&self) -> u64 {
        self.inner.read(Store::revision)
    }

    /// Stops it and waits until its port is free. Other handles stay valid and reach nothing.
    pub async fn stop(&self) {
        self.running.stop.send_replace(true);
        let mut tasks = self.running.tasks.lock().await;
        while tasks.join_next().await.is_some() {}
    }
}
