//! A real Kubernetes control plane on loopback: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler and, in place of kubelets, kwok. Pods start, end and log; nothing runs in them.

mod binaries;
mod config;
mod control_plane;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

pub use binaries::{Binaries, KUBERNETES_VERSION, PROGRAMS};

use crate::missing::{Missing, note_backend};
pub(crate) use config::client;
use control_plane::ControlPlane;

/// Names the control plane of this test run: the path of a JSON file, a serialised [`Access`].
pub const SHARED_ENV: &str = "PLURAL_TEST_CLUSTER";

/// How a test gets at a control plane that may belong to another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// `https://127.0.0.1:PORT`
    pub server: String,
    /// Kubeconfig of a member of `system:masters`.
    pub kubeconfig: PathBuf,
    /// Kubeconfig of `plain`, a user without any rights beyond those of every authenticated user.
    pub plain_kubeconfig: PathBuf,
    /// The kubectl of the same version.
    pub kubectl: PathBuf,
    /// One JSON `audit.k8s.io/v1` Event a line, level Metadata, for every request that is not a read.
    pub audit_log: PathBuf,
}

/// A control plane: the test run's, or one of the test's own.
#[derive(Debug)]
pub struct RealCluster {
    access: Access,
    owned: Option<ControlPlane>,
}

impl RealCluster {
    /// The control plane of this test run, started on first use (about 3 s) when the run has none.
    /// It is shared: a test keeps to a namespace and a CRD group of its own.
    ///
    /// # Errors
    /// When this machine has not got the programs.
    ///
    /// # Panics
    /// When a control plane that is there does not start.
    #[expect(clippy::panic, reason = "a broken test machine fails the test")]
    pub fn shared() -> Result<&'static Self, Missing> {
        static SHARED: OnceLock<Result<RealCluster, Missing>> = OnceLock::new();
        SHARED
            .get_or_init(|| {
                if let Some(file) = env::var_os(SHARED_ENV) {
                    let access = read_access(Path::new(&file)).unwrap_or_else(|e| panic!("{e:#}"));
                    return Ok(Self { access, owned: None });
                }
                let binaries = Binaries::find()?;
                Ok(Self::start_blocking(&binaries).unwrap_or_else(|e| panic!("{e:#}")))
            })
            .as_ref()
            .map_err(Clone::clone)
    }

    /// [`Self::shared`] from async code.
    ///
    /// # Errors
    /// As [`Self::shared`].
    ///
    /// # Panics
    /// As [`Self::shared`].
    pub async fn shared_async() -> Result<&'static Self, Missing> {
        match tokio::task::spawn_blocking(Self::shared).await {
            Ok(found) => found,
            Err(e) => std::panic::resume_unwind(e.into_panic()),
        }
    }

    /// A control plane of one's own, for a test that kills it. Ready in about 3 s.
    ///
    /// # Errors
    /// When the programs are missing or do not become ready.
    pub async fn start() -> anyhow::Result<Self> {
        let binaries = Binaries::find()?;
        note_backend("real");
        tokio::task::spawn_blocking(move || Self::start_blocking(&binaries)).await?
    }

    /// [`Self::start`], or nothing, said on stderr, where the programs are missing; with `CI` set that fails.
    ///
    /// # Errors
    /// When the programs do not become ready.
    ///
    /// # Panics
    /// When `CI` is set and the programs are missing.
    pub async fn start_or_report() -> anyhow::Result<Option<Self>> {
        match Binaries::find() {
            Ok(binaries) => {
                note_backend("real");
                Ok(Some(tokio::task::spawn_blocking(move || Self::start_blocking(&binaries)).await??))
            }
            Err(missing) => {
                missing.report();
                Ok(None)
            }
        }
    }

    /// [`Self::start`] without a runtime.
    ///
    /// # Errors
    /// When a program does not become ready.
    pub fn start_blocking(binaries: &Binaries) -> anyhow::Result<Self> {
        let plane = ControlPlane::start(binaries).context("cannot start a control plane")?;
        Ok(Self { access: plane.access().clone(), owned: Some(plane) })
    }

    /// Files and addresses.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Write [`Access`] where [`SHARED_ENV`] of other processes may point.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn share(&self, file: &Path) -> anyhow::Result<()> {
        fs::write(file, serde_json::to_vec_pretty(&self.access)?)
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// A client of an administrator, for the calling runtime.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        config::client(&self.access.kubeconfig).await
    }

    /// A client of a user without rights, for the calling runtime.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read.
    pub async fn plain_client(&self) -> anyhow::Result<kube::Client> {
        config::client(&self.access.plain_kubeconfig).await
    }

    /// The requests other than reads that the API server has answered so far.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn audit(&self) -> anyhow::Result<Vec<AuditEvent>> {
        let text = match fs::read_to_string(&self.access.audit_log) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(e).context("cannot read the audit log"),
        };
        // The last line may be half written.
        let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
        whole.lines().map(|l| serde_json::from_str(l).context("an audit event is not as expected")).collect()
    }

    /// Kill the API server with SIGKILL; etcd and the controllers stay.
    ///
    /// # Errors
    /// When the control plane is the test run's: a test that kills one starts one of its own.
    pub fn kill_apiserver(&self) -> anyhow::Result<()> {
        self.own()?.kill_apiserver();
        Ok(())
    }

    /// Start the API server again on the same port, and wait until it is ready.
    ///
    /// # Errors
    /// When the control plane is the test run's, or the API server does not become ready.
    pub async fn restart_apiserver(&self) -> anyhow::Result<()> {
        self.own()?.restart_apiserver().await
    }

    /// Freeze the API server: connections stay open, nothing is answered.
    ///
    /// # Errors
    /// When the control plane is the test run's.
    pub fn freeze_apiserver(&self) -> anyhow::Result<()> {
        self.own()?.freeze_apiserver()
    }

    /// Let a frozen API server go on.
    ///
    /// # Errors
    /// When the control plane is the test run's.
    pub fn thaw_apiserver(&self) -> anyhow::Result<()> {
        self.own()?.thaw_apiserver()
    }

    /// Process id of the API server, for figures on its memory and CPU.
    pub fn apiserver_pid(&self) -> Option<u32> {
        self.owned.as_ref().and_then(ControlPlane::apiserver_pid)
    }

    fn own(&self) -> anyhow::Result<&ControlPlane> {
        self.owned
            .as_ref()
            .context("this control plane belongs to the whole test run; start one with RealCluster::start")
    }
}

/// One request other than a read, as the API server's audit log tells it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// Who asked.
    pub user: AuditUser,
    /// What the client called itself.
    #[serde(default)]
    pub user_agent: String,
    /// What it was about; none for a request that is not about a resource.
    #[serde(default)]
    pub object_ref: Option<AuditObject>,
    /// The answer.
    #[serde(default)]
    pub response_status: Option<AuditStatus>,
}

/// Who asked.
#[derive(Debug, Clone, Deserialize)]
pub struct AuditUser {
    /// User name.
    pub username: String,
}

/// What a request was about.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditObject {
    /// Plural name, such as `deployments`.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for a create with a generated name.
    pub name: String,
    /// Empty for the core group.
    pub api_group: String,
    /// Such as `status`.
    pub subresource: String,
}

/// The answer to a request.
#[derive(Debug, Clone, Deserialize)]
pub struct AuditStatus {
    /// HTTP status code.
    pub code: u16,
}

fn read_access(file: &Path) -> anyhow::Result<Access> {
    let text = fs::read(file)
        .with_context(|| format!("{SHARED_ENV} names {}, which cannot be read", file.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a control plane's access file", file.display()))
}
