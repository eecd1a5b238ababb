//! PostgreSQL's server programs, from the distribution.

use std::{fs, process::Command};

use crate::{
    install::Need,
    shell::{self, which},
};

/// What is missing, if anything.
pub(crate) fn need() -> Option<Need> {
    if is_installed() {
        return None;
    }
    let what = "PostgreSQL (server)".to_owned();
    let is_root = shell::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let Some(apt) = which("apt-get").filter(|_| is_root || which("sudo").is_some()) else {
        return Some(Need {
            what,
            how: "install your system's package of the PostgreSQL server (initdb and postgres, 13 or newer)"
                .to_owned(),
            install: None,
        });
    };
    Some(Need {
        what,
        how: "Debian's package `postgresql`, through apt-get; the tests start a server of their own"
            .to_owned(),
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
            shell::run(apt_get().args(["install", "--yes", "--no-install-recommends", "postgresql"]))?;
            anyhow::ensure!(
                is_installed(),
                "apt-get installed the package postgresql, but neither initdb nor postgres is in /usr/lib/postgresql or $PATH"
            );
            Ok(())
        })),
    })
}

/// Debian keeps the server's programs in a folder per version, off `$PATH`.
fn is_installed() -> bool {
    let in_debian =
        fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().any(|e| {
            ["initdb", "postgres", "createdb"].iter().all(|p| e.path().join("bin").join(p).is_file())
        });
    in_debian || ["initdb", "postgres", "createdb"].iter().all(|p| which(p).is_some())
}
