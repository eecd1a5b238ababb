//! A certified OpenID Connect provider, and a real browser that signs in with it: `oidc-provider`, `playwright-core` and the
//! distribution's Chromium.

use std::{
    net::TcpStream,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde_json::Value;

use crate::{
    folder::OwnedFolder,
    missing::Missing,
    port::free_port,
    process::{Program, Running},
    programs::program_or_report,
};

/// How long it may take to start: Node.js compiles it each time.
const READY_WITHIN: Duration = Duration::from_mins(1);
/// How long a login may take.
pub(crate) const LOGIN_WITHIN: Duration = Duration::from_secs(150);
pub(crate) const CHROMIUM: &str = "/usr/bin/chromium";

/// A provider on a loopback port. Stops on drop.
#[derive(Debug)]
pub struct RealIssuer {
    url: String,
    program: PathBuf,
    running: Running,
    folder: OwnedFolder,
}

impl RealIssuer {
    /// A provider of everybody whose name is asked for; `ada` is in its group *ops*, `grace` in *dev* and *ops*. Nothing, said on
    /// stderr, where its program is missing.
    ///
    /// # Errors
    /// When it does not start.
    ///
    /// # Panics
    /// When `CI` is set and its program is missing.
    pub fn start(redirect: &str) -> anyhow::Result<Option<Self>> {
        let Some(program) = program_or_report("oidc-peer") else { return Ok(None) };
        let folder = OwnedFolder::new("issuer")?;
        let port = free_port()?;
        let running = Program::new(&program, folder.path())
            .arg("issuer")
            .arg(port.to_string())
            .arg(redirect)
            .start()?;
        let url = format!("http://127.0.0.1:{port}");
        let mut issuer = Self { url, program, running, folder };
        let deadline = Instant::now() + READY_WITHIN;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            issuer.running.check()?;
            anyhow::ensure!(Instant::now() < deadline, "it did not start: {}", issuer.running.log_tail());
            thread::sleep(Duration::from_millis(50));
        }
        Ok(Some(issuer))
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A browser signs in at a console as somebody, allows the login of a program with this code if there is one, and signs out:
    /// what it saw. Nothing, said on stderr, where there is no browser.
    ///
    /// # Errors
    /// When it does not get through, with what it said.
    ///
    /// # Panics
    /// When `CI` is set and there is no browser.
    pub fn browse(&self, console: &str, account: &str, code: Option<&str>) -> anyhow::Result<Option<Value>> {
        if !std::path::Path::new(CHROMIUM).is_file() {
            Missing::new(format!("{CHROMIUM} is missing"), "`cargo xtask test` installs it").report();
            return Ok(None);
        }
        let mut command = Command::new("timeout");
        command
            .arg(LOGIN_WITHIN.as_secs().to_string())
            .arg(&self.program)
            .args(["browser", console, &self.url, account])
            .args(code)
            .env("HOME", self.folder.path())
            .stdin(Stdio::null());
        let output = command.output().context("cannot run the browser")?;
        let error = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "the browser did not get through: {error}");
        Ok(Some(serde_json::from_slice(&output.stdout).context("it did not say what it saw")?))
    }
}
