//! Ansible, for the tests of stacks that run it: from PyPI by pinned versions into a virtual environment, once for each set of
//! versions on a machine.

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
const REQUIREMENTS: &str = "tools/ansible/requirements.txt";
/// What the testkit looks for.
pub(crate) const PROGRAM: &str = "ansible-playbook";

/// What is missing, if anything.
pub(crate) fn needs() -> anyhow::Result<Vec<Need>> {
    let place = place()?;
    if place.join(PROGRAM).is_file() {
        return Ok(Vec::new());
    }
    let what = "Ansible".to_owned();
    let Some(python) = which("python3") else {
        let how = "installed by Python, which is not on $PATH; without it no stack runs Ansible".to_owned();
        return Ok(vec![Need { what, how, install: None }]);
    };
    let how = format!("`pip install` of {REQUIREMENTS} into {}", place.display());
    Ok(vec![Need { what, how, install: Some(Box::new(move || install(&python, &place))) }])
}

/// Where it is: a folder that is named after all that it is made from.
pub(crate) fn place() -> anyhow::Result<PathBuf> {
    let source = shell::root().join(REQUIREMENTS);
    let inputs = fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
    Ok(shell::cache()?.join(format!("ansible-{:016x}", fingerprint(inputs.as_bytes()))))
}

fn install(python: &Path, place: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
    let environment = place.join("environment");
    shell::run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&environment))?;
    shell::run(
        Command::new(environment.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"])
            .arg("--no-deps")
            .arg("--requirement")
            .arg(shell::root().join(REQUIREMENTS)),
    )?;
    // Last, and in one step: a program that is there is whole.
    let partial = place.join(format!("{PROGRAM}.{}", std::process::id()));
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", environment.join("bin").join(PROGRAM).display());
    fs::write(&partial, script)?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))?;
    fs::rename(&partial, place.join(PROGRAM))?;
    Ok(())
}
