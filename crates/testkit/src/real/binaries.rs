//! Where the control plane's programs are.

use std::path::PathBuf;

use crate::{
    missing::Missing,
    programs::{program_folders, shown},
};

/// The Kubernetes version that the tests run against, pinned beside the Go modules it is built from.
pub const KUBERNETES_VERSION: &str = include_str!("../../../../tools/kubernetes.version").trim_ascii();

/// What a control plane consists of.
pub const PROGRAMS: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"];

/// The programs of a control plane.
#[derive(Debug, Clone)]
pub struct Binaries {
    folders: Vec<PathBuf>,
}

impl Binaries {
    /// Each program from the first of [`program_folders`] that has it.
    ///
    /// # Errors
    /// When one is in none; the message names it.
    pub fn find() -> Result<Self, Missing> {
        let folders = program_folders();
        let missing: Vec<&str> =
            PROGRAMS.into_iter().filter(|p| !folders.iter().any(|f| f.join(p).is_file())).collect();
        if missing.is_empty() {
            return Ok(Self { folders });
        }
        Err(Missing::new(
            format!("a real control plane needs {}, looked for in {}", missing.join(", "), shown(&folders)),
            "`cargo xtask test` builds them where Go is installed",
        ))
    }

    /// The kubectl of the same version.
    pub fn kubectl(&self) -> PathBuf {
        self.path("kubectl")
    }

    /// One program's path.
    pub(super) fn path(&self, program: &str) -> PathBuf {
        self.folders.iter().map(|f| f.join(program)).find(|p| p.is_file()).unwrap_or_else(|| program.into())
    }
}
