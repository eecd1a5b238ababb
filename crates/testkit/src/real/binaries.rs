//! Where the control plane's programs are.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::missing::Missing;

/// The Kubernetes version that the tests run against, pinned beside the Go modules it is built from.
pub const KUBERNETES_VERSION: &str = include_str!("../../../../tools/kubernetes.version").trim_ascii();

/// What a control plane consists of.
pub const PROGRAMS: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"];

/// The folder that `cargo xtask test` builds the programs into:
/// `${XDG_CACHE_HOME:-$HOME/.cache}/plural/kubernetes-VERSION`.
pub fn cache_folder() -> PathBuf {
    let base = env::var_os("XDG_CACHE_HOME")
        .filter(|v| Path::new(v).is_absolute())
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .unwrap_or_else(env::temp_dir);
    base.join("plural").join(format!("kubernetes-{KUBERNETES_VERSION}"))
}

/// The programs of a control plane.
#[derive(Debug, Clone)]
pub struct Binaries {
    folders: Vec<PathBuf>,
}

impl Binaries {
    /// Each program from `$KUBEBUILDER_ASSETS` when it is there, else from [`cache_folder`].
    ///
    /// # Errors
    /// When one is in neither; the message names it.
    pub fn find() -> Result<Self, Missing> {
        let folders: Vec<PathBuf> = env::var_os("KUBEBUILDER_ASSETS")
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
            .into_iter()
            .chain([cache_folder()])
            .collect();
        let missing: Vec<&str> =
            PROGRAMS.into_iter().filter(|p| !folders.iter().any(|f| f.join(p).is_file())).collect();
        if missing.is_empty() {
            return Ok(Self { folders });
        }
        let looked: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
        Err(Missing::new(
            format!(
                "a real control plane needs {}, looked for in {}",
                missing.join(", "),
                looked.join(" and ")
            ),
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
