//! One test body, every kind of cluster.

use std::{path::Path, process::Command};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _, api::PostParams};

use crate::{
    missing::Missing,
    process::isolate,
    real::{Access, RealCluster},
};

/// What answers the API requests of a [`TestCluster`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The simulated API server of this repository.
    Kubesim,
    /// etcd, kube-apiserver, the controllers and kwok.
    Real,
}

/// A cluster that a test shares with others: keep to a namespace and a CRD group of your own.
#[derive(Debug)]
pub struct TestCluster {
    backend: Backend,
    access: Access,
}

impl TestCluster {
    /// The real control plane of this test run.
    ///
    /// # Errors
    /// When this machine has not got its programs.
    pub async fn real() -> Result<Self, Missing> {
        let cluster = RealCluster::shared_async().await?;
        Ok(Self { backend: Backend::Real, access: cluster.access().clone() })
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

    /// Which one it is, for a case that has to wait longer for one, or that states a known difference.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Files and addresses.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Kubeconfig file of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.access.kubeconfig
    }

    /// A client of an administrator, for the calling runtime.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        crate::real::client(&self.access.kubeconfig).await
    }

    /// A client of a user without rights, for the calling runtime.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read.
    pub async fn plain_client(&self) -> anyhow::Result<kube::Client> {
        crate::real::client(&self.access.plain_kubeconfig).await
    }

    /// A new namespace; returns its name. It stays until the cluster goes, so that a failed test can be
    /// looked at.
    ///
    /// # Errors
    /// When the cluster refuses it.
    pub async fn namespace(&self) -> anyhow::Result<String> {
        let namespaces: Api<Namespace> = Api::all(self.client().await?);
        let name = format!("test-{:016x}", rand::random::<u64>());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name);
        let made = namespaces.create(&PostParams::default(), &namespace).await;
        Ok(made.context("cannot create a namespace for the test")?.name_any())
    }

    /// The real kubectl, pointed at this cluster and apart from the caller's configuration.
    ///
    /// # Errors
    /// When there is no kubectl of the tested version on this machine.
    pub fn kubectl(&self) -> Result<Command, Missing> {
        let program = match self.backend {
            Backend::Real => self.access.kubectl.clone(),
            Backend::Kubesim => crate::real::Binaries::find()?.kubectl(),
        };
        let mut command = Command::new(program);
        isolate(&mut command, self.access.kubeconfig.parent().unwrap_or_else(|| Path::new("/")));
        command.env("KUBECONFIG", &self.access.kubeconfig);
        Ok(command)
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
        mod real {
            $(
                #[test]
                fn $case() {
                    $crate::run_case(async {
                        match $crate::TestCluster::real_or_report().await {
                            Some(cluster) => $crate::CaseOutcome::conclude(super::$case(cluster).await),
                            None => {}
                        }
                    });
                }
            )+
        }
    };
}
