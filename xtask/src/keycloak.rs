//! Keycloak, for the tests that sign in with it: from Maven by its digest, built for its development database, once for each version
//! on a machine.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use crate::{
    go_programs::fingerprint,
    install::Need,
    shell::{self, which},
};

const VERSION: &str = "26.3.5";
/// SHA-256 of the archive.
const DIGEST: &str = "95756bdfd7540fafaf28874a8eb8d0d4c55977344a3b7821e9bd3a22bfb2b6a6";
/// What unpacks it.
const PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:unpack";
/// What is decided when it is built: it then starts in half the time.
const BUILD: [&str; 4] = ["build", "--db=dev-file", "--health-enabled=false", "--metrics-enabled=false"];
/// The build needs no more; nor does a server of a test.
const HEAP: &str = "-Xms64m -Xmx512m";
/// What the testkit looks for.
pub(crate) const PROGRAM: &str = "keycloak";

/// What is missing, if anything.
pub(crate) fn needs() -> anyhow::Result<Vec<Need>> {
    let place = place()?;
    if place.join(PROGRAM).is_file() {
        return Ok(Vec::new());
    }
    let what = format!("Keycloak {VERSION}");
    let how = format!("155 MB from Maven into {}, and a build of half a minute", place.display());
    Ok(vec![Need { what, how, install: Some(Box::new(move || install(&place))) }])
}

/// Where it is: a folder that is named after all that it is made from.
pub(crate) fn place() -> anyhow::Result<PathBuf> {
    let inputs = format!("{DIGEST}\n{}\n{HEAP}", BUILD.join(" "));
    Ok(shell::cache()?.join(format!("keycloak-{:016x}", fingerprint(inputs.as_bytes()))))
}

fn install(place: &Path) -> anyhow::Result<()> {
    let mvn = which("mvn").context("mvn is not on $PATH")?;
    let maven = place.join("maven");
    fs::create_dir_all(&maven).with_context(|| format!("cannot make {}", maven.display()))?;
    shell::run(
        Command::new(mvn)
            .args(["--batch-mode", "--quiet", "--strict-checksums", PLUGIN])
            .arg(format!("-Dmaven.repo.local={}", maven.display()))
            .arg(format!("-Dartifact=org.keycloak:keycloak-quarkus-dist:{VERSION}:zip"))
            .arg(format!("-DoutputDirectory={}", place.display()))
            .current_dir(place),
    )?;
    // Nothing of it has run so far.
    let archive = format!("org/keycloak/keycloak-quarkus-dist/{VERSION}/keycloak-quarkus-dist-{VERSION}.zip");
    let told = shell::output(Command::new("sha256sum").arg(maven.join(archive)))?;
    let digest = told.split_whitespace().next().unwrap_or_default();
    anyhow::ensure!(digest == DIGEST, "Maven gave another Keycloak: its SHA-256 is {digest}, not {DIGEST}");
    fs::remove_dir_all(&maven).with_context(|| format!("cannot remove {}", maven.display()))?;
    let server = place.join(format!("keycloak-{VERSION}/bin/kc.sh"));
    shell::run(Command::new(&server).args(BUILD).env("JAVA_OPTS_KC_HEAP", HEAP).current_dir(place))?;
    // Last, and in one step: a program that is there is whole.
    let partial = place.join(format!("{PROGRAM}.{}", std::process::id()));
    fs::write(&partial, format!("#!/bin/sh\nexec '{}' \"$@\"\n", server.display()))?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))?;
    fs::rename(&partial, place.join(PROGRAM))?;
    Ok(())
}
