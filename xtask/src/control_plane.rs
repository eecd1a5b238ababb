//! The programs of a real control plane, and a real OCI registry beside it, built from their pinned Go modules in `tools/`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;

use crate::{
    install::Need,
    shell::{self, which},
};

/// The version in `tools/kubernetes/go.mod`; a folder of the cache and the tests' expectation are named so.
const KUBERNETES_VERSION: &str = include_str!("../../tools/kubernetes.version").trim_ascii();

/// A Go module in `tools/` and the programs that are built from it.
struct Module {
    folder: &'static str,
    /// Program, package, and roughly the seconds that a cold build takes on two cores.
    programs: &'static [(&'static str, &'static str, u32)],
}

const MODULES: [Module; 4] = [
    Module {
        folder: "kubernetes",
        programs: &[
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", 190),
            ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", 60),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl", 20),
            ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", 10),
        ],
    },
    Module { folder: "etcd", programs: &[("etcd", ".", 35)] },
    Module { folder: "kwok", programs: &[("kwok", "sigs.k8s.io/kwok/cmd/kwok", 60)] },
    Module { folder: "registry", programs: &[("registry", ".", 60)] },
];

/// What is missing, one need per module.
pub(crate) fn needs() -> anyhow::Result<Vec<Need>> {
    let cache = shell::cache()?.join(format!("kubernetes-{KUBERNETES_VERSION}"));
    let assets = env::var_os("KUBEBUILDER_ASSETS").filter(|v| !v.is_empty()).map(PathBuf::from);
    let go = which("go");
    let mut needs = Vec::new();
    for module in MODULES {
        let given = |program: &str| assets.as_ref().is_some_and(|a| a.join(program).is_file());
        if module.programs.iter().all(|(program, ..)| given(program)) || is_built(&module, &cache)? {
            continue;
        }
        let names: Vec<&str> = module.programs.iter().map(|(program, ..)| *program).collect();
        let what = names.join(", ");
        let Some(go) = go.clone() else {
            needs.push(Need {
                what,
                how: "built by Go, which is not on $PATH; without it the suites run on the simulated \
                      API server alone (or set KUBEBUILDER_ASSETS), and those of registries do not run"
                    .to_owned(),
                install: None,
            });
            continue;
        };
        let seconds: u32 = module.programs.iter().map(|(.., seconds)| seconds).sum();
        let cache = cache.clone();
        needs.push(Need {
            what,
            how: format!(
                "built by Go from tools/{} into {}, about {seconds} s on two cores",
                module.folder,
                cache.display()
            ),
            install: Some(Box::new(move || build(&module, &go, &cache))),
        });
    }
    Ok(needs)
}

/// What a build depends on, as text: it is kept beside the programs, and a difference means to build again.
fn stamp(module: &Module) -> anyhow::Result<String> {
    let folder = source(module);
    let packages: Vec<&str> = module.programs.iter().map(|(_, package, _)| *package).collect();
    let mut stamp = format!("{}\n{}\n", linker_flags(module), packages.join(" "));
    for file in ["go.mod", "go.sum"] {
        let path = folder.join(file);
        stamp += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(stamp)
}

fn stamp_file(module: &Module, cache: &Path) -> PathBuf {
    cache.join(format!("{}.stamp", module.folder))
}

fn is_built(module: &Module, cache: &Path) -> anyhow::Result<bool> {
    let known = fs::read_to_string(stamp_file(module, cache)).unwrap_or_default();
    Ok(known == stamp(module)? && module.programs.iter().all(|(program, ..)| cache.join(program).is_file()))
}

fn source(module: &Module) -> PathBuf {
    shell::root().join("tools").join(module.folder)
}

/// kube-apiserver tells its version in `/version`; only the linker knows it.
fn linker_flags(module: &Module) -> String {
    let mut flags = "-s -w".to_owned();
    if module.folder == "kubernetes" {
        let mut parts = KUBERNETES_VERSION.split('.');
        let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        for (name, value) in [
            ("gitVersion", format!("v{KUBERNETES_VERSION}")),
            ("gitMajor", major.to_owned()),
            ("gitMinor", minor.to_owned()),
        ] {
            flags.push_str(" -X k8s.io/component-base/version.");
            flags.push_str(name);
            flags.push('=');
            flags.push_str(&value);
        }
    }
    flags
}

fn build(module: &Module, go: &Path, cache: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(cache).with_context(|| format!("cannot make {}", cache.display()))?;
    for (program, package, seconds) in module.programs {
        let started = Instant::now();
        eprintln!("building {program} (about {seconds} s)");
        // Under another name until it is whole; another run may be building the same.
        let partial = cache.join(format!("{program}.{}", std::process::id()));
        let built = while_telling(program, || {
            shell::run(
                Command::new(go)
                    .args(["build", "-trimpath", "-ldflags", &linker_flags(module), "-o"])
                    .arg(&partial)
                    .arg(package)
                    .current_dir(source(module))
                    .env("CGO_ENABLED", "0")
                    .env("GOFLAGS", "-mod=readonly")
                    .env("GOWORK", "off"),
            )
        });
        if let Err(e) = built {
            drop(fs::remove_file(&partial));
            return Err(e);
        }
        fs::rename(&partial, cache.join(program))?;
        eprintln!("built {program} in {}", shell::took(started));
    }
    fs::write(stamp_file(module, cache), stamp(module)?)?;
    Ok(())
}

/// Go is silent for minutes, which looks like a hang; tell now and then that it is not.
fn while_telling<T>(what: &str, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (done, waits) = mpsc::channel::<()>();
        scope.spawn(move || {
            let started = Instant::now();
            while waits.recv_timeout(Duration::from_secs(30)) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("  still building {what}, {} so far", shell::took(started));
            }
        });
        let result = work();
        drop(done);
        result
    })
}
