//! Programs from elsewhere that tests and benches run beside ours: built from pinned Go modules, once for each version
//! on a machine, whatever checkout asks for them.
//!
//! Each module has a folder in the cache that is named after everything that its build depends on, so two checkouts with
//! different pins do not build each other's programs away. `target/test-programs` has a link to each program of this
//! checkout's versions: there the testkit finds them, in a run of `cargo test` too.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;

use crate::{
    install::Need,
    keycloak, node_programs, python_programs,
    shell::{self, which},
};

/// The version in `tools/kubernetes/go.mod`, which the tests expect.
const KUBERNETES_VERSION: &str = include_str!("../../tools/kubernetes.version").trim_ascii();

/// Names the folder of links for the testkit.
pub(crate) const FOLDER_ENV: &str = "PLURAL_TEST_PROGRAMS";

/// What runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Tests,
    /// Tests as well; most of the time goes to downloads, so it is built while Rust compiles.
    TestsLater,
    /// Those that compare rendering.
    Benches,
    /// The one of pull requests.
    PullRequests,
}

/// A Go module of this repository, and what is built from it.
struct Module {
    /// From the repository's root.
    folder: &'static str,
    programs: &'static [Program],
    users: &'static [User],
    /// What is not run without it.
    without: &'static str,
}

struct Program {
    name: &'static str,
    package: &'static str,
    /// Roughly, for a cold build on two cores.
    seconds: u32,
}

const fn program(name: &'static str, package: &'static str, seconds: u32) -> Program {
    Program { name, package, seconds }
}

const CONTROL_PLANE: &str = "the suites run on the simulated API server alone";
const PEERS: &str = "nothing is compared with what the originals render";

/// Gitea's module. Its own builds hold SQLite, which is C: minutes of a C compiler, and not one package that another program here
/// has compiled already, as all of them are built without C. So it is built without, and its database is in the tests' PostgreSQL.
const GITEA: &str = "tools/gitea";
const GITEA_PACKAGE: &str = "code.gitea.io/gitea";
/// What Gitea reads while it runs, from its module to beside its program.
const GITEA_FILES: &str = "gitea-files";

const MODULES: [Module; 12] = [
    Module {
        folder: "tools/kubernetes",
        programs: &[
            program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", 190),
            program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", 60),
            program("kubectl", "k8s.io/kubernetes/cmd/kubectl", 20),
            program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", 10),
        ],
        users: &[User::Tests],
        without: CONTROL_PLANE,
    },
    Module {
        folder: "tools/etcd",
        programs: &[program("etcd", ".", 35)],
        users: &[User::Tests],
        without: CONTROL_PLANE,
    },
    Module {
        folder: "tools/kwok",
        programs: &[program("kwok", "sigs.k8s.io/kwok/cmd/kwok", 60)],
        users: &[User::Tests],
        without: CONTROL_PLANE,
    },
    Module {
        folder: "tools/registry",
        programs: &[program("registry", ".", 60)],
        users: &[User::Tests],
        without: "tests of OCI registries do not run",
    },
    Module {
        folder: "tools/tofu",
        programs: &[program("tofu", "github.com/opentofu/opentofu/cmd/tofu", 630)],
        users: &[User::TestsLater],
        without: "no tool writes the state of stacks",
    },
    Module {
        folder: "tools/terraform-provider-local",
        programs: &[program(
            "terraform-provider-local",
            "github.com/terraform-providers/terraform-provider-local",
            45,
        )],
        users: &[User::TestsLater],
        without: "nothing that a provider made drifts",
    },
    Module {
        folder: "tools/terraform-provider-note",
        // What it needs, the one above has compiled.
        programs: &[program("terraform-provider-note", ".", 5)],
        users: &[User::TestsLater],
        without: "no resource of a real tool drifts by a field",
    },
    Module {
        folder: "tools/terraform-provider-time",
        programs: &[program("terraform-provider-time", "github.com/hashicorp/terraform-provider-time", 40)],
        users: &[User::TestsLater],
        without: "no stack has two providers",
    },
    Module {
        folder: "tools/terraform",
        programs: &[program("terraform", "github.com/hashicorp/terraform", 600)],
        users: &[User::TestsLater],
        without: "only OpenTofu writes the state of stacks",
    },
    Module {
        folder: GITEA,
        programs: &[program("gitea", GITEA_PACKAGE, 500)],
        users: &[User::TestsLater, User::PullRequests],
        without: "no git host that people run makes pull requests in tests",
    },
    Module {
        folder: "xtask/peers/helm",
        programs: &[program("peer-helm", ".", 60), program("helm", "helm.sh/helm/v3/cmd/helm", 60)],
        users: &[User::Tests, User::Benches],
        without: PEERS,
    },
    Module {
        folder: "xtask/peers/kustomize",
        programs: &[
            program("peer-kustomize", ".", 20),
            program("kustomize", "sigs.k8s.io/kustomize/kustomize/v5", 10),
        ],
        users: &[User::Tests, User::Benches],
        without: PEERS,
    },
];

/// What is missing for this user, one need for each module.
pub(crate) fn needs(user: User) -> anyhow::Result<Vec<Need>> {
    let cache = shell::cache()?;
    let assets = env::var_os("KUBEBUILDER_ASSETS").filter(|v| !v.is_empty()).map(PathBuf::from);
    let go = which("go");
    let mut needs = Vec::new();
    for module in MODULES.into_iter().filter(|module| module.users.contains(&user)) {
        let place = module.place(&cache)?;
        let is_there = |program: &Program| {
            assets.iter().chain([&place]).any(|folder| folder.join(program.name).is_file())
        };
        if module.programs.iter().all(is_there) {
            continue;
        }
        let names: Vec<&str> = module.programs.iter().map(|program| program.name).collect();
        let what = names.join(", ");
        let Some(go) = go.clone() else {
            let how = format!("built by Go, which is not on $PATH; without it {}", module.without);
            needs.push(Need { what, how, install: None });
            continue;
        };
        let seconds: u32 = module.programs.iter().map(|program| program.seconds).sum();
        needs.push(Need {
            what,
            how: format!(
                "built by Go from {} into {}, about {seconds} s on two cores",
                module.folder,
                place.display()
            ),
            install: Some(Box::new(move || module.build(&go, &place))),
        });
    }
    Ok(needs)
}

/// The folder of links, with one to each program that is built: its value for [`FOLDER_ENV`].
///
/// # Errors
/// When it cannot be written.
pub(crate) fn link() -> anyhow::Result<PathBuf> {
    let cache = shell::cache()?;
    let folder = shell::metadata()?.target_directory.join("test-programs");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for module in MODULES {
        let place = module.place(&cache)?;
        for program in module.programs {
            link_one(&place.join(program.name), &folder.join(program.name))
                .with_context(|| format!("cannot link {} in {}", program.name, folder.display()))?;
        }
    }
    for (place, program) in [
        (node_programs::place()?, node_programs::PROGRAM),
        (keycloak::place()?, keycloak::PROGRAM),
        (python_programs::place()?, python_programs::PROGRAM),
    ] {
        link_one(&place.join(program), &folder.join(program))
            .with_context(|| format!("cannot link {program} in {}", folder.display()))?;
    }
    Ok(folder)
}

/// Another run may use the link that is there: it is replaced, and only if it leads elsewhere.
fn link_one(program: &Path, link: &Path) -> std::io::Result<()> {
    if !program.is_file() {
        // The program of another version does not stand for it.
        return match fs::remove_file(link) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        };
    }
    if fs::read_link(link).is_ok_and(|known| known == program) {
        return Ok(());
    }
    let partial = link.with_extension(std::process::id().to_string());
    symlink(program, &partial)?;
    fs::rename(&partial, link)
}

impl Module {
    fn source(&self) -> PathBuf {
        shell::root().join(self.folder)
    }

    /// Its folder in the cache: a program that is there is of this version, and whole.
    fn place(&self, cache: &Path) -> anyhow::Result<PathBuf> {
        let name = self.folder.rsplit('/').next().unwrap_or_default();
        Ok(cache.join(format!("{name}-{:016x}", fingerprint(self.inputs()?.as_bytes()))))
    }

    /// Everything that a build depends on.
    fn inputs(&self) -> anyhow::Result<String> {
        let packages: Vec<&str> = self.programs.iter().map(|program| program.package).collect();
        let mut inputs = format!("{}\n{}\n", self.linker_flags(), packages.join(" "));
        for file in ["go.mod", "go.sum", "main.go"] {
            let path = self.source().join(file);
            match fs::read_to_string(&path) {
                Ok(text) => inputs += &text,
                // Programs of other modules alone.
                Err(_) if file == "main.go" => {}
                Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
            }
        }
        Ok(inputs)
    }

    /// kube-apiserver tells its version in `/version`; only the linker knows it.
    fn linker_flags(&self) -> String {
        let mut flags = "-s -w".to_owned();
        if self.folder == "tools/kubernetes" {
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

    /// Copies what Gitea reads while it runs. It is there before the program is, and so whole for whoever finds that.
    fn copy_files(&self, go: &Path, place: &Path) -> anyhow::Result<()> {
        let listed = Command::new(go)
            .args(["list", "-m", "-f", "{{.Dir}}", GITEA_PACKAGE])
            .current_dir(self.source())
            .env("GOFLAGS", "-mod=readonly")
            .env("GOWORK", "off")
            .output()
            .context("cannot ask go for Gitea's folder")?;
        anyhow::ensure!(listed.status.success(), "go does not tell Gitea's folder");
        let source = PathBuf::from(String::from_utf8(listed.stdout)?.trim());
        let partial = place.join(format!("{GITEA_FILES}.{}", std::process::id()));
        fs::create_dir_all(&partial).with_context(|| format!("cannot make {}", partial.display()))?;
        let folders = ["templates", "options", "public"].map(|name| source.join(name));
        // A module's files are read-only, and so would be the copies of its folders.
        shell::run(Command::new("cp").args(["-R", "--no-preserve=mode"]).args(folders).arg(&partial))?;
        match fs::rename(&partial, place.join(GITEA_FILES)) {
            // Another run was faster, with the same files.
            Err(_) if place.join(GITEA_FILES).is_dir() => Ok(fs::remove_dir_all(&partial)?),
            renamed => Ok(renamed?),
        }
    }

    fn build(&self, go: &Path, place: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
        for Program { name, package, seconds } in self.programs {
            let started = Instant::now();
            eprintln!("building {name} (about {seconds} s)");
            // Under another name until it is whole; another run may be building the same.
            let partial = place.join(format!("{name}.{}", std::process::id()));
            let built = while_telling(name, || {
                shell::run(
                    Command::new(go)
                        .args(["build", "-trimpath", "-ldflags", &self.linker_flags()])
                        .arg("-o")
                        .arg(&partial)
                        .arg(package)
                        .current_dir(self.source())
                        .env("CGO_ENABLED", "0")
                        .env("GOFLAGS", "-mod=readonly")
                        .env("GOWORK", "off"),
                )
            });
            if let Err(e) = built {
                drop(fs::remove_file(&partial));
                return Err(e);
            }
            if self.folder == GITEA {
                self.copy_files(go, place)?;
            }
            fs::rename(&partial, place.join(name))?;
            eprintln!("built {name} in {}", shell::took(started));
        }
        Ok(())
    }
}

/// FNV-1a: it tells versions of a file apart, and stays the same with every toolchain.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_that_of_fnv_1a() {
        assert_eq!(fingerprint(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fingerprint(b"a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn every_module_is_there_and_has_a_place_of_its_own() {
        let mut places: Vec<PathBuf> =
            MODULES.iter().map(|module| module.place(Path::new("/cache")).unwrap()).collect();
        places.sort();
        places.dedup();
        assert_eq!(places.len(), MODULES.len());
    }

    #[test]
    fn a_link_leads_to_the_program_that_is_there() {
        let folder = env::temp_dir().join(format!("plural-links-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (one, two, link) = (folder.join("one"), folder.join("two"), folder.join("link"));
        fs::write(&one, "").unwrap();
        link_one(&two, &link).unwrap();
        assert!(!link.exists());
        link_one(&one, &link).unwrap();
        link_one(&one, &link).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), one);
        fs::write(&two, "").unwrap();
        link_one(&two, &link).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), two);
        fs::remove_file(&two).unwrap();
        link_one(&two, &link).unwrap();
        assert!(fs::symlink_metadata(&link).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
