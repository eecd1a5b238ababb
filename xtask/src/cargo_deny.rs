//! cargo-deny, pinned, in the cache.

use std::path::PathBuf;

use crate::{install::Need, shell};

const VERSION: &str = "0.20.2";

/// Where it is once installed.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    Ok(folder()?.join("bin").join("cargo-deny"))
}

fn folder() -> anyhow::Result<PathBuf> {
    Ok(shell::cache()?.join(format!("cargo-deny-{VERSION}")))
}

/// What is missing, if anything.
pub(crate) fn need() -> anyhow::Result<Option<Need>> {
    if program()?.is_file() {
        return Ok(None);
    }
    let folder = folder()?;
    Ok(Some(Need {
        what: format!("cargo-deny {VERSION}"),
        how: format!("built by cargo into {}, about 1 min on two cores", folder.display()),
        install: Some(Box::new(move || {
            // Unoptimised: it builds in half the time and checks in a second all the same.
            shell::run(
                shell::cargo()
                    .args([
                        "install",
                        "cargo-deny",
                        "--version",
                        VERSION,
                        "--locked",
                        "--debug",
                        "--quiet",
                        "--root",
                    ])
                    .arg(&folder)
                    .current_dir("/")
                    .env("CARGO_PROFILE_DEV_DEBUG", "0")
                    .env("CARGO_TARGET_DIR", folder.join("build")),
            )?;
            drop(std::fs::remove_dir_all(folder.join("build")));
            Ok(())
        })),
    }))
}
