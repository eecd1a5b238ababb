//! Helm and Kustomize, built from their pinned Go modules in `xtask/peers/`: what renders beside ours in benches and
//! in the tests that compare. Nothing that is shipped needs them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use crate::{
    install::Need,
    shell::{self, which},
};

/// Module, and its programs: name, package, and roughly the seconds that a cold build takes on two cores.
type Module = (&'static str, &'static [(&'static str, &'static str, u32)]);

const MODULES: [Module; 2] = [
    ("helm", &[("peer-helm", ".", 60), ("helm", "helm.sh/helm/v3/cmd/helm", 60)]),
    ("kustomize", &[("peer-kustomize", ".", 20), ("kustomize", "sigs.k8s.io/kustomize/kustomize/v5", 10)]),
];

/// The folder that holds the programs once they are built.
pub(crate) fn folder() -> anyhow::Result<PathBuf> {
    Ok(shell::cache()?.join("peers"))
}

/// What is missing; nothing where Go is missing, as everything works without peers.
pub(crate) fn needs() -> anyhow::Result<Vec<Need>> {
    let Some(go) = which("go") else { return Ok(Vec::new()) };
    let cache = folder()?;
    let mut needs = Vec::new();
    for (module, programs) in MODULES {
        let built = fs::read_to_string(stamp_file(&cache, module)).unwrap_or_default() == stamp(module)?
            && programs.iter().all(|(program, ..)| cache.join(program).is_file());
        if built {
            continue;
        }
        let names: Vec<&str> = programs.iter().map(|(program, ..)| *program).collect();
        let seconds: u32 = programs.iter().map(|(.., seconds)| seconds).sum();
        let (go, cache) = (go.clone(), cache.clone());
        needs.push(Need {
            what: names.join(", "),
            how: format!(
                "built by Go from xtask/peers/{module} into {}, about {seconds} s on two cores",
                cache.display()
            ),
            install: Some(Box::new(move || build(&go, module, programs, &cache))),
        });
    }
    Ok(needs)
}

fn source(module: &str) -> PathBuf {
    shell::root().join("xtask/peers").join(module)
}

fn stamp_file(cache: &Path, module: &str) -> PathBuf {
    cache.join(format!("{module}.stamp"))
}

/// What a build depends on: another text means to build again.
fn stamp(module: &str) -> anyhow::Result<String> {
    let mut stamp = String::new();
    for file in ["go.mod", "go.sum", "main.go"] {
        let path = source(module).join(file);
        stamp += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(stamp)
}

fn build(go: &Path, module: &str, programs: &[(&str, &str, u32)], cache: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(cache).with_context(|| format!("cannot make {}", cache.display()))?;
    for (program, package, seconds) in programs {
        eprintln!("building {program} (about {seconds} s)");
        // Under another name until it is whole; another run may be building the same.
        let partial = cache.join(format!("{program}.{}", std::process::id()));
        let built = shell::run(
            Command::new(go)
                .args(["build", "-trimpath", "-ldflags", "-s -w", "-o"])
                .arg(&partial)
                .arg(package)
                .current_dir(source(module))
                .env("CGO_ENABLED", "0")
                .env("GOFLAGS", "-mod=readonly")
                .env("GOWORK", "off"),
        );
        if let Err(error) = built {
            drop(fs::remove_file(&partial));
            return Err(error);
        }
        fs::rename(&partial, cache.join(program))?;
    }
    fs::write(stamp_file(cache, module), stamp(module)?)?;
    Ok(())
}
