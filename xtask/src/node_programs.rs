//! Programs of tests that run on Node.js: an identity provider and a driver of a browser, from npm by a lock file, once for each
//! version on a machine.

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

/// From the repository's root.
const FOLDER: &str = "tools/oidc";
const FILES: [&str; 4] = ["package.json", "package-lock.json", "run.mjs", "passkeys.mjs"];
/// What the testkit looks for.
pub(crate) const PROGRAM: &str = "oidc-peer";

/// What is missing, if anything.
pub(crate) fn needs() -> anyhow::Result<Vec<Need>> {
    let place = place()?;
    if place.join(PROGRAM).is_file() {
        return Ok(Vec::new());
    }
    let what = "oidc-provider and playwright-core".to_owned();
    let how = format!("`npm ci` of {FOLDER} into {}", place.display());
    Ok(vec![Need { what, how, install: Some(Box::new(move || install(&place))) }])
}

/// Where the program is: a folder that is named after all that it is made from.
pub(crate) fn place() -> anyhow::Result<PathBuf> {
    let source = shell::root().join(FOLDER);
    let mut inputs = String::new();
    for file in FILES {
        let path = source.join(file);
        inputs += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(shell::cache()?.join(format!("oidc-{:016x}", fingerprint(inputs.as_bytes()))))
}

fn install(place: &Path) -> anyhow::Result<()> {
    let npm = which("npm").context("npm is not on $PATH")?;
    let source = shell::root().join(FOLDER);
    fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
    for file in FILES {
        fs::copy(source.join(file), place.join(file)).with_context(|| format!("cannot copy {file}"))?;
    }
    shell::run(
        Command::new(npm)
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional"])
            .current_dir(place),
    )?;
    // Last, and in one step: a program that is there is whole.
    let partial = place.join(format!("{PROGRAM}.{}", std::process::id()));
    let script = format!("#!/bin/sh\nexec node '{}' \"$@\"\n", place.join("run.mjs").display());
    fs::write(&partial, script)?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))?;
    fs::rename(&partial, place.join(PROGRAM))?;
    Ok(())
}
