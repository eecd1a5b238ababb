//! One test body, every kind of cluster.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _, api::PostParams};
use parking_lot::Mutex;
use plural_kubesim::{Cluster, ClusterOptions, RequestInfo, Sim, User};

use crate::{
    folder::OwnedFolder,
    missing::{Missing, note_backend},
    process::isolate,
    real::{AuditEvent, AuditObject, Binaries, KUBERNETES_VERSION, RealCluster},
};

/// What answers the API requests of a [`TestCluster`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The simulated API server of this repository.
    Kubesim,
    /// etcd, kube-apiserver, the controllers and kwok.
    Real,
}

/// A request that changes objects, as the API server's own books tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// API group, empty for core.
    pub group: String,
    /// Plural resource.
    pub resource: String,
    /// Such as `status`, or empty.
    pub subresource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for a create with a generated name.
    pub name: String,
    /// Who asked.
    pub user: String,
    /// HTTP status of the answer.
    pub code: u16,
}

/// A cluster for a test. A real one is shared: keep to a namespace and a CRD group of your own. A simulated one
/// is the test's own and stops with it.
#[derive(Debug)]
pub struct TestCluster {
    server: String,
    kubeconfig: PathBuf,
    plain_kubeconfig: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Real(&'static RealCluster),
    Kubesim { cluster: Cluster, writes: Arc<Mutex<Vec<Write>>>, _folder: OwnedFolder },
}

impl TestCluster {
    /// The real control plane of this test run.
    ///
    /// # Errors
    /// When this machine has not got its programs.
    pub async fn real() -> Result<Self, Missing> {
        let cluster = RealCluster::shared_async().await?;
        note_backend("real");
        let access = cluster.access();
        Ok(Self {
            server: access.server.clone(),
            kubeconfig: access.kubeconfig.clone(),
            plain_kubeconfig: access.plain_kubeconfig.clone(),
            kind: Kind::Real(cluster),
        })
    }

    /// [`Self::real`], or nothing, said on stderr, where there is none; with `CI` set that fails.
    ///
    /// # Panics
    /// When `CI` is set and this machine has no real control plane.
    pub async fn real_or_report() -> Option<Self> {
        match Self::real().await {
            Ok(cluster) => Some(cluster),
            Err(missing) => {
                missing.report();
                None
            }
        }
    }

    /// A fresh simulated cluster on the calling runtime, whose Pods are ready sooner than a default one's.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn kubesim() -> anyhow::Result<Self> {
        let mut options = ClusterOptions::named("test");
        options.version = format!("v{KUBERNETES_VERSION}");
        options.pod_ready_after = std::time::Duration::from_millis(100);
        options.job_runs_for = std::time::Duration::from_millis(100);
        Self::kubesim_with(options).await
    }

    /// A fresh simulated cluster of one's own making.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn kubesim_with(options: ClusterOptions) -> anyhow::Result<Self> {
        note_backend("kubesim");
        let cluster = Sim::new()?.cluster(options).await?;
        let folder = OwnedFolder::new("kubesim")?;
        let plain = format!("plain-{:016x}", rand::random::<u64>());
        cluster.add_token(&plain, User::new("plain", &[]));
        let writes = Arc::<Mutex<Vec<Write>>>::default();
        let noted = Arc::clone(&writes);
        cluster.audit().on_request(move |info, user, code| {
            if let Some(write) = Write::of_request(info, user, code) {
                noted.lock().push(write);
            }
        });
        Ok(Self {
            server: cluster.url(),
            kubeconfig: folder.write("kubeconfig", cluster.kubeconfig())?,
            plain_kubeconfig: folder.write("kubeconfig-plain", cluster.kubeconfig_for(&plain))?,
            kind: Kind::Kubesim { cluster, writes, _folder: folder },
        })
    }

    /// Which one it is, for a case that has to wait longer for one, or that states a known difference.
    pub fn backend(&self) -> Backend {
        match self.kind {
            Kind::Real(_) => Backend::Real,
            Kind::Kubesim { .. } => Backend::Kubesim,
        }
    }

    /// The simulated cluster's own handle, for faults that no real one offers.
    pub fn as_kubesim(&self) -> Option<&Cluster> {
        match &self.kind {
            Kind::Real(_) => None,
            Kind::Kubesim { cluster, .. } => Some(cluster),
        }
    }

    /// Base URL of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Kubeconfig file of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Kubeconfig file of a user without rights.
    pub fn plain_kubeconfig(&self) -> &Path {
        &self.plain_kubeconfig
    }

    /// A client of an administrator, for the calling runtime.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        crate::real::client(&self.kubeconfig).await
    }

    /// A client of a user without rights, for the calling runtime.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read.
    pub async fn plain_client(&self) -> anyhow::Result<kube::Client> {
        crate::real::client(&self.plain_kubeconfig).await
    }

    /// A new namespace; returns its name. It stays until the cluster goes, so that a failed test can be
    /// looked at.
    ///
    /// # Errors
    /// When the cluster refuses it.
    pub async fn namespace(&self) -> anyhow::Result<String> {
        let namespaces: Api<Namespace> = Api::all(self.client().await?);
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(format!("test-{:016x}", rand::random::<u64>()));
        let made = namespaces.create(&PostParams::default(), &namespace).await;
        Ok(made.context("cannot create a namespace for the test")?.name_any())
    }

    /// The writes in a namespace so far, in the order of their answers, whoever asked: the cluster's own
    /// controllers (`system:…` users on a real one) too. With an empty name, those of cluster-scoped objects.
    ///
    /// # Errors
    /// When the API server's audit log cannot be read.
    pub fn writes(&self, namespace: &str) -> anyhow::Result<Vec<Write>> {
        let all = match &self.kind {
            Kind::Real(cluster) => cluster.audit()?.into_iter().filter_map(Write::of_event).collect(),
            Kind::Kubesim { writes, .. } => writes.lock().clone(),
        };
        Ok(all.into_iter().filter(|w: &Write| w.namespace == namespace).collect())
    }

    /// The real kubectl, pointed at this cluster and apart from the caller's configuration.
    ///
    /// # Errors
    /// When there is no kubectl of the tested version on this machine.
    pub fn kubectl(&self) -> Result<Command, Missing> {
        let program = match &self.kind {
            Kind::Real(cluster) => cluster.access().kubectl.clone(),
            Kind::Kubesim { .. } => Binaries::find()?.kubectl(),
        };
        let mut command = Command::new(program);
        isolate(&mut command, self.kubeconfig.parent().unwrap_or_else(|| Path::new("/")));
        command.env("KUBECONFIG", &self.kubeconfig);
        Ok(command)
    }

    /// [`Self::kubectl`], or nothing, said on stderr, where there is none; with `CI` set that fails.
    ///
    /// # Panics
    /// When `CI` is set and there is no kubectl.
    pub fn kubectl_or_report(&self) -> Option<Command> {
        match self.kubectl() {
            Ok(command) => Some(command),
            Err(missing) => {
                missing.report();
                None
            }
        }
    }
}

impl Write {
    fn of_request(info: &RequestInfo, user: &str, code: u16) -> Option<Self> {
        let is_write =
            matches!(info.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection");
        (info.is_resource && is_write).then(|| Self {
            verb: info.verb.clone(),
            group: info.group.clone(),
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            user: user.to_owned(),
            code,
        })
    }

    fn of_event(event: AuditEvent) -> Option<Self> {
        let AuditEvent { verb, request_uri: _, user, user_agent: _, object_ref, response_status } = event;
        let AuditObject { resource, namespace, name, api_group, subresource } = object_ref?;
        Some(Self {
            verb,
            group: api_group,
            resource,
            subresource,
            namespace,
            name,
            user: user.username,
            code: response_status.map_or(0, |status| status.code),
        })
    }
}

/// Run each named case, an `async fn(TestCluster)`, on every kind of cluster. The tests are called
/// `kubesim::CASE` and `real::CASE`; once per module.
///
/// ```
/// # mod example {
/// use plural_testkit::{TestCluster, each_cluster};
///
/// each_cluster!(answers);
///
/// async fn answers(cluster: TestCluster) -> anyhow::Result<()> {
///     cluster.client().await?.apiserver_version().await?;
///     Ok(())
/// }
/// # }
/// ```
#[macro_export]
macro_rules! each_cluster {
    ($($case:ident),+ $(,)?) => {
        mod kubesim {
            $(
                #[test]
                fn $case() {
                    $crate::run_case(async {
                        let cluster = $crate::TestCluster::kubesim().await.expect("a simulated cluster");
                        $crate::CaseOutcome::conclude(super::$case(cluster).await);
                    });
                }
            )+
        }
        mod real {
            $(
                #[test]
                fn $case() {
                    $crate::run_case(async {
                        if let Some(cluster) = $crate::TestCluster::real_or_report().await {
                            $crate::CaseOutcome::conclude(super::$case(cluster).await);
                        }
                    });
                }
            )+
        }
    };
}

/// Run each named case, an `async fn(TestCluster)`, on one kind of cluster, with the reason why the other is of no use.
/// The tests are called `kubesim_only::CASE` or `real_only::CASE`; once for each kind and module.
///
/// ```
/// # mod example {
/// use plural_testkit::{TestCluster, one_cluster};
///
/// one_cluster!(kubesim, "no real cluster loses its watches on order"; forgets);
///
/// async fn forgets(cluster: TestCluster) {
///     assert!(cluster.as_kubesim().is_some());
/// }
/// # }
/// ```
#[macro_export]
macro_rules! one_cluster {
    (kubesim, $why:literal; $($case:ident),+ $(,)?) => {
        #[doc = $why]
        mod kubesim_only {
            $(
                #[test]
                fn $case() {
                    $crate::run_case(async {
                        let cluster = $crate::TestCluster::kubesim().await.expect("a simulated cluster");
                        $crate::CaseOutcome::conclude(super::$case(cluster).await);
                    });
                }
            )+
        }
    };
    (real, $why:literal; $($case:ident),+ $(,)?) => {
        #[doc = $why]
        mod real_only {
            $(
                #[test]
                fn $case() {
                    $crate::run_case(async {
                        if let Some(cluster) = $crate::TestCluster::real_or_report().await {
                            $crate::CaseOutcome::conclude(super::$case(cluster).await);
                        }
                    });
                }
            )+
        }
    };
}
