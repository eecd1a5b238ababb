//! A real browser with a virtual authenticator: `playwright-core` and the distribution's Chromium.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use serde_json::Value;

use crate::{folder::OwnedFolder, missing::Missing, programs::program_or_report, real_issuer::CHROMIUM};

/// How long it may take.
const WITHIN: Duration = Duration::from_mins(4);

/// Who signs in, and where.
#[derive(Debug)]
pub struct PasskeyVisit<'a> {
    /// Where the console really is; browsers know it as `http://localhost`.
    pub address: SocketAddr,
    /// Of an account with a second factor.
    pub email: &'a str,
    /// Its password.
    pub password: &'a str,
    /// What its authenticator app was given.
    pub secret: &'a [u8],
    /// An invitation.
    pub link: &'a str,
}

/// A browser signs in with a code, adds a passkey, signs in with that, and accepts an invitation with one: what it saw. Nothing, said
/// on stderr, where there is no browser.
///
/// # Errors
/// When it does not get through, with what it said.
///
/// # Panics
/// When `CI` is set and there is no browser.
pub fn browse_with_passkeys(visit: &PasskeyVisit<'_>) -> anyhow::Result<Option<Value>> {
    let PasskeyVisit { address, email, password, secret, link } = visit;
    let Some(program) = program_or_report("oidc-peer") else { return Ok(None) };
    if !Path::new(CHROMIUM).is_file() {
        Missing::new(format!("{CHROMIUM} is missing"), "`cargo xtask test` installs it").report();
        return Ok(None);
    }
    let folder = OwnedFolder::new("browser")?;
    let output = Command::new("timeout")
        .arg(WITHIN.as_secs().to_string())
        .arg(program)
        .args(["passkeys", "http://localhost", &address.to_string(), email, password])
        .args([hex::encode(secret), (*link).to_owned()])
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        .output()
        .context("cannot run the browser")?;
    let error = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "the browser did not get through: {error}");
    Ok(Some(serde_json::from_slice(&output.stdout).context("it did not say what it saw")?))
}
