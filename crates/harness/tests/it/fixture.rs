//! A run as a test wants it, and the harness that does it.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use plural_core::ids::StackRunId;
use plural_core::run_call::{InputStep, InputVariable, RunInput};
use plural_core::stack::StackTool;
use plural_core::stack_run::{RunKind, RunPhase};
use plural_core::stack_spec::{StackSpec, Stage};
use plural_harness::{ConsoleProxy, HarnessConfig, Outcome, Pace, run};
use plural_kit::Shutdown;
use plural_testkit::eventually;
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::{io::AsyncWrite, task::JoinHandle};

use crate::console::{FakeConsole, TOKEN};

/// How long a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A run, its console, and its folder.
pub(crate) struct Fixture {
    pub(crate) console: FakeConsole,
    pub(crate) folder: TempDir,
    pub(crate) shutdown: Shutdown,
    pub(crate) pace: Pace,
    /// The way to the console that its Job was given.
    pub(crate) proxy: Option<ConsoleProxy>,
    printed: Printed,
}

impl Fixture {
    /// A run of a stack of its own commands, with one file of code.
    pub(crate) async fn new(steps: Vec<InputStep>) -> Self {
        Self::of(input(StackTool::Custom, RunPhase::Plan, steps), &[("app/main.txt", "code\n")]).await
    }

    pub(crate) async fn of(input: RunInput, files: &[(&str, &str)]) -> Self {
        let console = FakeConsole::start().await;
        let (artifact, digest) = packed(&tar(files));
        console.with(|told| {
            told.input = Some(RunInput { artifact_digest: digest, ..input });
            told.artifact = artifact;
        });
        let pace = Pace {
            beat: Duration::from_millis(50),
            patience: Duration::from_secs(20),
            retry: (Duration::from_millis(5), Duration::from_millis(50)),
            request: Duration::from_secs(20),
            grace: Duration::from_secs(20),
            gather: Duration::from_millis(5),
        };
        Self {
            console,
            folder: tempfile::tempdir().unwrap(),
            shutdown: Shutdown::new(),
            pace,
            proxy: None,
            printed: Printed::default(),
        }
    }

    /// Changes what the console says of the run.
    pub(crate) fn change(&self, change: impl FnOnce(&mut RunInput)) {
        self.console.with(|told| change(told.input.as_mut().unwrap()));
    }

    /// Does it.
    pub(crate) async fn run(&self) -> Outcome {
        tokio::time::timeout(PATIENCE, self.begin()).await.expect("the harness hangs").unwrap()
    }

    /// Begins it.
    pub(crate) fn begin(&self) -> JoinHandle<Outcome> {
        let config = HarnessConfig {
            console_url: self.console.url.clone(),
            run: self.console.with(|told| told.input.as_ref().unwrap().id),
            token: SecretString::from(TOKEN),
            ca_pem: None,
            insecure_http: false,
            proxy: self.proxy.clone(),
            folder: self.folder.path().join("run"),
            pace: self.pace.clone(),
        };
        tokio::spawn(run(config, Box::new(self.printed.clone()), self.shutdown.signal()))
    }

    /// Waits until the log of the first step holds this.
    pub(crate) async fn logged(&self, wanted: &str) {
        eventually(PATIENCE, || {
            let log = self.console.log(0);
            async move { if log.contains(wanted) { Ok(()) } else { Err(log) } }
        })
        .await;
    }

    /// What the harness printed itself.
    pub(crate) fn printed(&self) -> String {
        String::from_utf8_lossy(&self.printed.0.lock()).into_owned()
    }

    /// The folder in which commands run.
    pub(crate) fn work(&self) -> std::path::PathBuf {
        self.folder.path().join("run/source/app")
    }
}

/// A run that has no secrets.
pub(crate) fn input(tool: StackTool, phase: RunPhase, steps: Vec<InputStep>) -> RunInput {
    RunInput {
        id: StackRunId::new(),
        number: 1,
        stack: "network".to_owned(),
        kind: RunKind::Apply,
        phase,
        tool,
        artifact_digest: String::new(),
        folder: "app".to_owned(),
        sha: "0123456".to_owned(),
        spec: StackSpec::default(),
        steps,
        environment: Vec::new(),
        files: BTreeMap::new(),
        state_path: None,
        plan: None,
        actor_token: None,
        takes_cost: true,
    }
}

/// A step that a shell runs.
pub(crate) fn shell(index: u32, stage: Stage, script: &str) -> InputStep {
    InputStep {
        index,
        stage,
        name: stage.as_str().to_owned(),
        cmd: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        custom: true,
        dir: None,
    }
}

/// A step of the tool's own.
pub(crate) fn tool(index: u32, stage: Stage, cmd: &str, args: &[&str]) -> InputStep {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    InputStep {
        index,
        stage,
        name: stage.as_str().to_owned(),
        cmd: cmd.to_owned(),
        args,
        custom: false,
        dir: None,
    }
}

pub(crate) fn variable(name: &str, value: impl Into<String>, secret: bool) -> InputVariable {
    InputVariable { name: name.to_owned(), value: value.into(), secret }
}

/// Puts a program into a folder, and answers the PATH in which it is found first.
pub(crate) fn program(folder: &Path, name: &str, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;

    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

pub(crate) fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

/// As the console sends it, and its digest.
pub(crate) fn packed(tar: &[u8]) -> (Vec<u8>, String) {
    (zstd::encode_all(tar, 3).unwrap(), digest(tar))
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// What is printed, kept.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl AsyncWrite for Printed {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
