//! The process of one Pod: this very program as a harness, in a folder of its own, held by the sandbox.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use plural_sandbox::{Ended, Helper, SandboxError, Worker, WorkerHandle, work};

use super::claim::Claim;
use crate::agent::SANDBOX;

/// Tools of stacks that are often elsewhere than where the system keeps its programs. Each is one file.
const TOOLS: [&str; 4] = ["tofu", "terraform", "terragrunt", "pulumi"];
/// Writable memory of each process: a tool and its providers.
const MEMORY_BYTES: u64 = 8 << 30;

/// Runs the harness until it and all that it started have ended. Blocks.
pub(super) fn run(
    console: &str,
    folder: &Path,
    claim: Claim,
    handle: &WorkerHandle,
) -> Result<Ended, SandboxError> {
    let worker = prepare(console, folder, claim)
        .map_err(|error| SandboxError::Start(io::Error::other(format!("{error:#}"))))?;
    let helper = Helper { program: worker.path.clone(), args: vec![SANDBOX.into()] };
    let ended = work(&helper, &worker, handle);
    // State and outputs may lie there in clear.
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::warn!(%error, folder = %folder.display(), "cannot remove the folder of a run");
    }
    ended
}

fn prepare(console: &str, folder: &Path, claim: Claim) -> anyhow::Result<Worker> {
    let Claim { args, token, grace_seconds, ca_pem } = claim;
    plural_kit::private_folder(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let own = |name: &str| -> anyhow::Result<OsString> {
        let path = folder.join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path.into())
    };
    let mut environment: Vec<(String, OsString)> = vec![
        ("HOME".to_owned(), own("home")?),
        ("TMPDIR".to_owned(), own("tmp")?),
        ("PLURAL_RUN_DIR".to_owned(), own("run")?),
        ("PLURAL_RUN_TOKEN".to_owned(), token.into()),
        ("PATH".to_owned(), std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into())),
        ("LANG".to_owned(), "C.UTF-8".into()),
    ];
    if let Some(seconds) = grace_seconds {
        environment.push(("PLURAL_GRACE_SECONDS".to_owned(), seconds.into()));
    }
    if let Some(pem) = ca_pem {
        let file = folder.join("ca.pem");
        fs::write(&file, pem).with_context(|| format!("cannot write {}", file.display()))?;
        environment.push(("PLURAL_CONSOLE_CA_FILE".to_owned(), file.into()));
    }
    let port = port(console).context("the console's address has no port")?;
    Ok(Worker {
        path: std::env::current_exe().context("cannot find this program's own file")?,
        args,
        environment,
        readable: tools(),
        folder: folder.to_owned(),
        ports: vec![port],
        memory_bytes: MEMORY_BYTES,
    })
}

/// The tools that PATH has outside of the system's folders.
fn tools() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = TOOLS.iter().filter_map(|tool| {
        std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.is_file())
    });
    // A rule is of a file, not of the link that leads to it.
    found.filter_map(|file| file.canonicalize().ok()).collect()
}

/// The port of a URL.
pub(super) fn port(url: &str) -> Option<u16> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    let usual = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    // The colons of an IPv6 address stand in brackets.
    match host.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.parse().ok(),
        _ => Some(usual),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_port() {
        for (url, expected) in [
            ("http://127.0.0.1:8080", Some(8080)),
            ("http://[::1]:8080/x", Some(8080)),
            ("https://[::1]", Some(443)),
            ("https://console.example.com/", Some(443)),
            ("http://console.example.com", Some(80)),
            ("ftp://console.example.com", None),
            ("http://console.example.com:many", None),
        ] {
            assert_eq!(port(url), expected, "{url}");
        }
    }
}
