//! A console, an agent and a simulated cluster that runs the Jobs of runs, each a process of its own.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use plural_testkit::{
    GitRemote, OwnedFolder,
    process::{Program, Running, StopSignal},
    program_folders,
};
use plural_wire::{CreateStack, ListStackRuns, StackAttributes, StackRun};
use serde_json::{Value, json};

use crate::{
    api::Api,
    idle::{address, console, program},
};

/// How long any one thing may take.
pub(super) const WITHIN: Duration = Duration::from_mins(5);
/// Between two looks at a run that is measured.
const LOOK: Duration = Duration::from_millis(20);
/// The namespace of an agent that was not told another one.
const AGENT: &str = "plural-system";

/// All of it. What is first here ends first.
pub(super) struct World {
    agent: Running,
    sim: Running,
    console: Running,
    pub(super) api: Api,
    pub(super) url: String,
    /// Of the administrator.
    pub(super) token: String,
    plural: PathBuf,
    cluster: String,
    folder: OwnedFolder,
}

impl World {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let plural = program()?;
        let folder = OwnedFolder::new("bench")?;
        let mut console = console(&plural, &below(folder.path(), "console")?)?;
        let url = address(&mut console).await?;
        let api = Api::sign_in(&url, None).await?;
        let (cluster, deploy_token) = api.registered("bench-1").await?;
        let token = api.access_token().await?;

        let place = below(folder.path(), "kubesim")?;
        let mut sim = Program::new(&plural, &place)
            .arg("kubesim")
            .flag("kubeconfigs", &place)
            .flag("run-jobs", &url)
            .env("PATH", path()?)
            .stopped_by(StopSignal::Terminate)
            .start()?;
        let started = Instant::now();
        while !sim.log_tail().lines().any(|line| line.starts_with("sim-1\t")) {
            sim.check()?;
            anyhow::ensure!(
                started.elapsed() < WITHIN,
                "the simulated cluster does not start: {}",
                sim.log_tail()
            );
            tokio::time::sleep(LOOK).await;
        }
        let kubeconfig = place.join("sim-1.yaml");
        make_namespace(&kubeconfig).await?;

        let place = below(folder.path(), "agent")?;
        let agent = Program::new(&plural, &place)
            .arg("agent")
            .flag("cache-dir", place.join("cache"))
            .flag("namespace", AGENT)
            .env("PLURAL_CONSOLE_URL", &url)
            .env("PLURAL_DEPLOY_TOKEN", &deploy_token)
            .env("KUBECONFIG", &kubeconfig)
            .stopped_by(StopSignal::Terminate)
            .start()?;
        Ok(Self { agent, sim, console, api, url, token, plural, cluster, folder })
    }

    /// An empty folder of this name.
    pub(super) fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        below(self.folder.path(), name)
    }

    /// `plural` as the administrator.
    pub(super) fn plural(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.plural);
        command
            .args(args)
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PLURAL_CONSOLE_URL", &self.url)
            .env("PLURAL_CONSOLE_TOKEN", &self.token)
            .kill_on_drop(true);
        command
    }

    /// Makes a stack of the folder of a repository that is called like it; its id.
    pub(super) async fn stack(
        &self,
        remote: &GitRemote,
        (kind, folder): (&str, &str),
        more: Value,
    ) -> anyhow::Result<String> {
        let repository = self.api.repository(&remote.path().display().to_string()).await?;
        let mut attributes = json!({
            "name": folder, "type": kind, "approval": true, "repositoryId": repository, "clusterId": self.cluster,
            "git": {"ref": "main", "folder": folder},
            // Nobody pulls it: the tools are on this machine.
            "configuration": {"image": "example.org/tools", "tag": "1"},
        });
        if let (Value::Object(attributes), Value::Object(more)) = (&mut attributes, more) {
            attributes.extend(more);
        }
        create(&self.api, attributes).await
    }

    /// Fails when one of the processes ended by itself.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        self.console.check()?;
        self.sim.check()?;
        self.agent.check()
    }

    /// Waits until the newest run of a stack is what is wanted. It fails when a run failed.
    pub(super) async fn until(
        &mut self,
        stack: &str,
        what: &str,
        is_it: impl Fn(&StackRun) -> bool,
    ) -> anyhow::Result<StackRun> {
        let started = Instant::now();
        loop {
            let run = newest(&self.api, stack).await?;
            if let Some(run) = run.clone().filter(|run| is_it(run)) {
                return Ok(run);
            }
            let failed = run.as_ref().filter(|run| run.status == plural_wire::StackStatus::Failed);
            if let Some(StackRun { error, number, .. }) = failed {
                let error = error.as_deref().unwrap_or_default();
                anyhow::bail!("run {number} failed: {error}\n{}", self.sim.log_tail());
            }
            self.check()?;
            anyhow::ensure!(
                started.elapsed() < WITHIN,
                "{what}: not within {WITHIN:?}; {run:?}\n{}\n{}",
                self.agent.log_tail(),
                self.sim.log_tail()
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(super) fn stop(mut self) {
        self.agent.stop();
        self.sim.stop();
        self.console.stop();
    }
}

/// Makes a stack; its id.
pub(super) async fn create(api: &Api, attributes: Value) -> anyhow::Result<String> {
    let Value::Object(attributes) = attributes else { anyhow::bail!("attributes are an object") };
    let create = CreateStack { attributes: StackAttributes(attributes) };
    Ok(api.client().send(&create).await?.id)
}

/// The newest run of a stack.
pub(super) async fn newest(api: &Api, stack: &str) -> anyhow::Result<Option<StackRun>> {
    let list = ListStackRuns { id: stack.to_owned(), after: None, first: 1, of: None };
    let runs = api.client().send(&list).await?.runs;
    Ok(runs.edges.into_iter().next().map(|edge| edge.node))
}

/// The PATH of runs: the tools that `cargo xtask bench` made, and the system's.
pub(super) fn path() -> anyhow::Result<OsString> {
    let folders = program_folders().into_iter().chain(["/usr/bin".into(), "/bin".into()]);
    env::join_paths(folders).context("a folder of programs has a colon in its name")
}

fn below(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

async fn make_namespace(kubeconfig: &Path) -> anyhow::Result<()> {
    let read = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    let namespaces: kube::Api<Namespace> = kube::Api::all(kube::Client::try_from(config)?);
    let namespace = serde_json::from_value(json!({"metadata": {"name": AGENT}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    Ok(())
}
