//! Programs from the distribution: PostgreSQL's server, GnuPG, and what programs of tests run on.

use std::{fs, process::Command};

use crate::{
    install::Need,
    shell::{self, which},
};

/// What comes as a package of the distribution.
struct Package {
    what: &'static str,
    /// Debian's name.
    name: &'static str,
    /// What it is for, and what other systems need.
    why: &'static str,
    is_installed: fn() -> bool,
}

const PACKAGES: [Package; 5] = [
    Package {
        what: "PostgreSQL (server)",
        name: "postgresql",
        why: "initdb and postgres, 13 or newer; the tests start a server of their own",
        is_installed: postgres_is_installed,
    },
    Package {
        what: "GnuPG",
        name: "gnupg",
        why: "gpg; tests sign commits and charts with keys of their own",
        is_installed: || which("gpg").is_some(),
    },
    Package {
        what: "Node.js with npm",
        name: "npm",
        why: "node and npm, 20 or newer; an identity provider and the driver of a browser run on it",
        is_installed: || which("npm").zip(which("node")).is_some(),
    },
    Package {
        what: "Chromium",
        name: "chromium",
        why: "/usr/bin/chromium; tests sign in with a real browser, without a screen",
        is_installed: || std::path::Path::new("/usr/bin/chromium").is_file(),
    },
    Package {
        what: "Maven with Java",
        name: "maven",
        why: "mvn and java, 17 or newer; Keycloak comes by the one and runs on the other",
        is_installed: || which("mvn").zip(which("java")).is_some(),
    },
];

/// What is missing, if anything.
pub(crate) fn needs() -> Vec<Need> {
    missing(|_| true)
}

/// What a browser and the program that drives it need.
pub(crate) fn browser() -> Vec<Need> {
    missing(|package| ["npm", "chromium"].contains(&package.name))
}

/// A database server.
pub(crate) fn database() -> Vec<Need> {
    missing(|package| package.name == "postgresql")
}

fn missing(wanted: impl Fn(&Package) -> bool) -> Vec<Need> {
    PACKAGES.iter().filter(|package| wanted(package) && !(package.is_installed)()).map(need).collect()
}

fn need(package: &'static Package) -> Need {
    let Package { what, name, why, is_installed } = package;
    let is_root = shell::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let Some(apt) = which("apt-get").filter(|_| is_root || which("sudo").is_some()) else {
        let how = format!("install your system's package of it ({why})");
        return Need { what: (*what).to_owned(), how, install: None };
    };
    Need {
        what: (*what).to_owned(),
        how: format!("Debian's package `{name}`, through apt-get ({why})"),
        install: Some(Box::new(move || {
            let apt_get = || {
                let mut command = if is_root {
                    Command::new(&apt)
                } else {
                    let mut sudo = Command::new("sudo");
                    sudo.arg(&apt);
                    sudo
                };
                command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet");
                command
            };
            shell::run(apt_get().arg("update"))?;
            shell::run(apt_get().args(["install", "--yes", "--no-install-recommends", name]))?;
            anyhow::ensure!(
                is_installed(),
                "apt-get installed the package {name}, but its programs are not where they are looked for"
            );
            Ok(())
        })),
    }
}

/// Debian keeps the server's programs in a folder per version, off `$PATH`.
fn postgres_is_installed() -> bool {
    let in_debian =
        fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().any(|e| {
            ["initdb", "postgres", "createdb"].iter().all(|p| e.path().join("bin").join(p).is_file())
        });
    in_debian || ["initdb", "postgres", "createdb"].iter().all(|p| which(p).is_some())
}
