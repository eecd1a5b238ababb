//! The servers that all tests of a run share. The testkit knows how to start them; this holds its program.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use anyhow::Context as _;
use serde::Deserialize;

use crate::{go_programs, shell};

/// The testkit's program while it runs; dropping this stops it and what it started.
pub(super) struct Servers {
    child: Child,
    stdin: Option<ChildStdin>,
    ready: Ready,
}

/// What the program says when it is ready.
#[derive(Deserialize)]
struct Ready {
    env: BTreeMap<String, String>,
    missing: Vec<String>,
}

impl Servers {
    /// `programs` is the folder with the programs of a control plane.
    pub(super) fn start(programs: &Path) -> anyhow::Result<Self> {
        let program = shell::metadata()?.target_directory.join("debug").join("test-servers");
        let mut child = Command::new(&program)
            .env(go_programs::FOLDER_ENV, programs)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let stdin = child.stdin.take();
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("the servers have no output")?).read_line(&mut line)?;
        if line.is_empty() {
            let status = child.wait()?;
            anyhow::bail!("the servers that the tests share did not start ({status}): see above");
        }
        let ready: Ready = serde_json::from_str(&line).context("the servers said something unexpected")?;
        for missing in &ready.missing {
            eprintln!("missing: {missing}");
        }
        anyhow::ensure!(
            ready.missing.is_empty() || !shell::in_ci(),
            "with CI set, a missing backend is a failure"
        );
        Ok(Self { child, stdin, ready })
    }

    pub(super) fn env(&self) -> &BTreeMap<String, String> {
        &self.ready.env
    }

    pub(super) fn what(&self) -> String {
        let mut names = Vec::new();
        if self.ready.env.contains_key("PLURAL_TEST_CLUSTER") {
            names.push("a control plane");
        }
        if self.ready.env.contains_key("PLURAL_TEST_POSTGRES") {
            names.push("PostgreSQL");
        }
        if names.is_empty() { "no servers".to_owned() } else { names.join(" and ") }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        drop(self.stdin.take());
        drop(self.child.wait());
    }
}
