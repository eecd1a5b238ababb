//! The programs of one control plane, started, watched until ready, and stopped.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{Api, api::PostParams};
use parking_lot::Mutex;
use serde_json::json;

use super::{
    Access,
    binaries::Binaries,
    config::{self, Files},
};
use crate::{
    folder::OwnedFolder,
    port::free_port,
    process::{Program, Running},
};

const READY_WITHIN: Duration = Duration::from_mins(1);
const NODE: &str = "node-1";
const NOT_RUNNING: &str = "the API server does not run";

/// A running control plane. Its processes are stopped, then its folder is removed.
#[derive(Debug)]
pub(super) struct ControlPlane {
    access: Access,
    apiserver: Mutex<Option<Running>>,
    apiserver_program: Program,
    // Held for their Drop: clients before servers, the folder last.
    _controllers: Vec<Running>,
    _etcd: Running,
    _folder: OwnedFolder,
    _pods: OwnedFolder,
}

impl ControlPlane {
    /// Start all programs and wait until a Pod could run.
    pub(super) fn start(binaries: &Binaries) -> anyhow::Result<Self> {
        // Another process may take a port between our look and the program's bind.
        let mut attempts = 0;
        loop {
            attempts += 1;
            match Self::try_start(binaries) {
                Ok(plane) => return Ok(plane),
                Err(e) if attempts == 3 || !format!("{e:#}").contains("address already in use") => {
                    return Err(e);
                }
                Err(_) => {}
            }
        }
    }

    fn try_start(binaries: &Binaries) -> anyhow::Result<Self> {
        let folder = OwnedFolder::new("cluster")?;
        let pods = OwnedFolder::new("pods")?;
        let (etcd_port, peer_port) = (free_port()?, free_port()?);
        let (api_port, kwok_port) = (free_port()?, free_port()?);
        let server = format!("https://127.0.0.1:{api_port}");
        let files = config::write(&folder, &pods, &server, kwok_port)?;
        let access = Access {
            server,
            kubeconfig: files.kubeconfig.clone(),
            plain_kubeconfig: files.plain_kubeconfig.clone(),
            kubectl: binaries.path("kubectl"),
            audit_log: folder.path().join("audit.log"),
        };

        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let mut etcd = Program::new(binaries.path("etcd"), folder.path())
            .arg("--unsafe-no-fsync")
            .flag("data-dir", folder.path().join("etcd"))
            .flag("listen-client-urls", &etcd_url)
            .flag("advertise-client-urls", &etcd_url)
            .flag("listen-peer-urls", &peer_url)
            .flag("initial-advertise-peer-urls", &peer_url)
            .flag("initial-cluster", format!("default={peer_url}"))
            .flag("log-level", "warn")
            .start()?;

        let apiserver_program = apiserver(binaries, &folder, &files, &access, &etcd_url, api_port);
        let mut apiserver = apiserver_program.start()?;
        wait_ready(&access, &mut [&mut etcd, &mut apiserver])?;

        let mut controllers = vec![
            Program::new(binaries.path("kube-controller-manager"), folder.path())
                .flag("kubeconfig", &files.controller_manager)
                .flag("service-account-private-key-file", &files.service_account_key)
                .flag("root-ca-file", &files.ca)
                .flag("leader-elect", "false")
                // A busy machine must not make the one node look dead.
                .flag("node-monitor-grace-period", "10m")
                .flag("secure-port", "0")
                .flag("kube-api-qps", "500")
                .flag("kube-api-burst", "1000")
                .flag("concurrent-deployment-syncs", "20")
                .flag("concurrent-replicaset-syncs", "20")
                .start()?,
            Program::new(binaries.path("kube-scheduler"), folder.path())
                .flag("kubeconfig", &files.scheduler)
                .flag("leader-elect", "false")
                .flag("secure-port", "0")
                .flag("kube-api-qps", "500")
                .flag("kube-api-burst", "1000")
                .start()?,
            Program::new(binaries.path("kwok"), folder.path())
                .flag("kubeconfig", &files.kwok_kubeconfig)
                .flag("config", &files.kwok)
                .start()?,
        ];
        on_a_runtime(prepare(&access, &mut controllers))?;

        Ok(Self {
            access,
            apiserver: Mutex::new(Some(apiserver)),
            apiserver_program,
            _controllers: controllers,
            _etcd: etcd,
            _folder: folder,
            _pods: pods,
        })
    }

    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    pub(super) fn kill_apiserver(&self) {
        if let Some(mut running) = self.apiserver.lock().take() {
            running.stop();
        }
    }

    pub(super) async fn restart_apiserver(&self) -> anyhow::Result<()> {
        self.kill_apiserver();
        let (program, access) = (self.apiserver_program.clone(), self.access.clone());
        let running = tokio::task::spawn_blocking(move || {
            let mut running = program.start()?;
            wait_ready(&access, &mut [&mut running])?;
            anyhow::Ok(running)
        })
        .await??;
        *self.apiserver.lock() = Some(running);
        Ok(())
    }

    pub(super) fn freeze_apiserver(&self) -> anyhow::Result<()> {
        self.apiserver.lock().as_ref().context(NOT_RUNNING)?.freeze()
    }

    pub(super) fn thaw_apiserver(&self) -> anyhow::Result<()> {
        self.apiserver.lock().as_ref().context(NOT_RUNNING)?.thaw()
    }

    pub(super) fn apiserver_pid(&self) -> Option<u32> {
        self.apiserver.lock().as_ref().map(Running::pid)
    }
}

fn apiserver(
    binaries: &Binaries,
    folder: &OwnedFolder,
    files: &Files,
    access: &Access,
    etcd_url: &str,
    port: u16,
) -> Program {
    Program::new(binaries.path("kube-apiserver"), folder.path())
        .flag("bind-address", "127.0.0.1")
        .flag("advertise-address", "127.0.0.1")
        .flag("secure-port", port.to_string())
        .flag("etcd-servers", etcd_url)
        .flag("endpoint-reconciler-type", "none")
        .flag("authorization-mode", "RBAC")
        .flag("token-auth-file", &files.tokens)
        .flag("service-cluster-ip-range", "10.96.0.0/16")
        .flag("service-account-issuer", "https://kubernetes.default.svc")
        .flag("service-account-key-file", &files.service_account_public_key)
        .flag("service-account-signing-key-file", &files.service_account_key)
        .flag("tls-cert-file", &files.server_certificate)
        .flag("tls-private-key-file", &files.server_key)
        .flag("cert-dir", folder.path().join("apiserver"))
        .flag("kubelet-certificate-authority", &files.ca)
        .flag("kubelet-preferred-address-types", "InternalIP")
        // Pods start without a ServiceAccount controller having been there first.
        .flag("disable-admission-plugins", "ServiceAccount")
        .flag("audit-policy-file", &files.audit_policy)
        .flag("audit-log-path", &access.audit_log)
        .flag("audit-log-maxsize", "0")
}

/// Wait until `/readyz` says ok.
fn wait_ready(access: &Access, programs: &mut [&mut Running]) -> anyhow::Result<()> {
    let deadline = Instant::now() + READY_WITHIN;
    on_a_runtime(async {
        let client = config::client(&access.kubeconfig).await?;
        loop {
            for program in programs.iter_mut() {
                program.check()?;
            }
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let answer = tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await;
            if matches!(answer, Ok(Ok(text)) if text == "ok") {
                return Ok(());
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "the API server was not ready within {READY_WITHIN:?}; the end of its log:\n{}",
                programs.last().map(|p| p.log_tail()).unwrap_or_default()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
}

/// Make the node, and wait until it and the default namespace are ready for use.
async fn prepare(access: &Access, controllers: &mut [Running]) -> anyhow::Result<()> {
    let client = config::client(&access.kubeconfig).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let node = serde_json::from_value(json!({
        "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "type": "kwok"}},
    }))?;
    nodes.create(&PostParams::default(), &node).await?;
    let namespaces: Api<Namespace> = Api::all(client);
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        for program in controllers.iter_mut() {
            program.check()?;
        }
        let node = nodes.get(NODE).await?;
        let is_ready = node
            .status
            .and_then(|s| s.conditions)
            .into_iter()
            .flatten()
            .any(|c| c.type_ == "Ready" && c.status == "True");
        let is_clear = node.spec.and_then(|s| s.taints).is_none_or(|t| t.is_empty());
        if is_ready && is_clear && namespaces.get_opt("default").await?.is_some() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let logs: Vec<String> = controllers.iter().map(Running::log_tail).collect();
            anyhow::bail!(
                "the node was not ready within {READY_WITHIN:?}; the ends of the logs:\n{}",
                logs.join("\n--\n")
            );
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Run async code to its end from a thread that may or may not belong to a runtime.
fn on_a_runtime<T: Send>(work: impl Future<Output = anyhow::Result<T>> + Send) -> anyhow::Result<T> {
    thread::scope(|scope| {
        scope
            .spawn(|| tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work))
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
