//! A program of ours around the original's packages that answers one request a line.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::Context as _;
use serde::{Serialize, de::DeserializeOwned};

/// A running peer; it stops when this is dropped.
#[derive(Debug)]
pub(super) struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it on so many cores, or on all.
    pub(super) fn start(program: &Path, cores: Option<usize>) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        if let Some(cores) = cores {
            command.env("GOMAXPROCS", cores.to_string());
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().context("the peer has no output")?);
        Ok(Self { child, stdin, stdout })
    }

    /// One request, one answer.
    pub(super) fn ask<A: DeserializeOwned>(&mut self, request: &impl Serialize) -> anyhow::Result<A> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stdin.as_mut().context("the peer has no input")?.write_all(&line)?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer)?;
        serde_json::from_str(&answer).with_context(|| format!("the peer answered {answer:.200}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stdin = None;
        drop(self.child.wait());
    }
}
