//! Where the Jobs of runs run.
//!
//! One backend is enough: a cluster of its own is started here, of each kind, and the cases say which they are on and why.

use std::{ffi::OsString, path::PathBuf};

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use plural_testkit::{
    eventually,
    node::{Node, NodeOptions, TAINT},
    process::{Program, Running, StopSignal},
    program_folders,
    real::RealCluster,
};
use serde_json::{Value, json};

use crate::program::{Home, LIMIT, PLURAL};

/// A cluster on which Jobs of runs run.
pub(super) enum Place {
    /// `plural kubesim --run-jobs`.
    Simulated { running: Running, folder: PathBuf },
    /// A control plane of its own, and a node.
    Real { node: Node, cluster: Box<RealCluster> },
}

/// The PATH of runs: the tools that `cargo xtask test` made, and the system's.
fn path() -> OsString {
    let folders = program_folders().into_iter().chain(["/usr/bin".into(), "/bin".into()]);
    std::env::join_paths(folders).unwrap()
}

impl Place {
    /// A simulated cluster that runs the Jobs of this console.
    pub(super) async fn simulated(home: &Home, console: &str) -> anyhow::Result<Self> {
        let folder = home.path().join("kubesim");
        std::fs::create_dir(&folder)?;
        let program = Program::new(PLURAL, &folder)
            .stopped_by(StopSignal::Terminate)
            .arg("kubesim")
            .flag("kubeconfigs", &folder)
            .flag("run-jobs", console)
            .flag("log-format", "json")
            .env("PATH", path());
        let mut running = program.start()?;
        eventually(LIMIT, || {
            let alive = running.check().map_err(|error| format!("{error:#}"));
            let told = std::fs::read_to_string(program.log()).unwrap_or_default();
            async move {
                alive?;
                if told.lines().any(|line| line.starts_with("sim-1\t")) { Ok(()) } else { Err(told) }
            }
        })
        .await;
        Ok(Self::Simulated { running, folder })
    }

    /// A real control plane with a node that runs processes; nothing, said on stderr, where this machine has none.
    pub(super) async fn real() -> anyhow::Result<Option<Self>> {
        let Some(cluster) = RealCluster::start_or_report().await? else { return Ok(None) };
        let options = NodeOptions { name: "runs".to_owned(), entry_point: PLURAL.into(), path: path() };
        let node = Node::start(cluster.client().await?, options).await?;
        Ok(Some(Self::Real { node, cluster: Box::new(cluster) }))
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Simulated { folder, .. } => folder.join("sim-1.yaml"),
            Self::Real { cluster, .. } => cluster.access().kubeconfig.clone(),
        }
    }

    /// The control plane, where it is a real one.
    pub(super) fn as_real(&self) -> Option<&RealCluster> {
        match self {
            Self::Simulated { .. } => None,
            Self::Real { cluster, .. } => Some(cluster.as_ref()),
        }
    }

    /// An administrator of it.
    pub(super) async fn client(&self) -> anyhow::Result<kube::Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// Makes a namespace.
    pub(super) async fn namespace(&self, name: &str) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client().await?);
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
        Ok(())
    }

    /// What brings Jobs to where they run.
    pub(super) fn job_spec(&self) -> Value {
        match self {
            Self::Simulated { .. } => json!({}),
            Self::Real { node, .. } => json!({
                "nodeSelector": {TAINT: node.name()},
                "tolerations": [{"key": TAINT, "operator": "Exists"}],
            }),
        }
    }

    /// The image that brings our program into that of the tool; a simulated cluster has it already.
    pub(super) fn run_image(&self) -> Option<&'static str> {
        match self {
            Self::Simulated { .. } => None,
            Self::Real { .. } => Some("example.org/plural:1"),
        }
    }

    /// The node loses its power, where there is one: its processes are gone, and its Pods stay as they were told last.
    pub(super) async fn lose_power(&mut self) {
        if let Self::Real { node, .. } = self {
            node.lose_power().await;
        }
    }

    /// What its processes wrote, for the message of a test that fails.
    pub(super) fn logs(&self) -> String {
        match self {
            Self::Simulated { running, .. } => running.log_tail(),
            Self::Real { node, .. } => node.logs(),
        }
    }
}

/// The harnesses of a run that run on this machine: the ids of their processes.
pub(super) fn harnesses(run: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        // Not those who start it: they have its words among theirs.
        let is_one = words.first()?.ends_with(b"plural") && words.get(1)? == b"harness";
        (is_one && words.contains(&run.as_bytes())).then_some(pid)
    });
    found.collect()
}

/// The FIFO `hold` in the folder of a process below `parent`, if there is one: only the one who reads it is in that folder.
pub(super) fn fifo_below(parent: u32) -> Option<PathBuf> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut children = entries.filter(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name before the state is in parentheses; the parent comes after the state.
        let field = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
        field == Some(parent)
    });
    children.find_map(|child| {
        let hold = std::fs::read_link(child.path().join("cwd")).ok()?.join("hold");
        if hold.exists() {
            return Some(hold);
        }
        // A tool whose provisioner holds it.
        fifo_below(child.file_name().to_str()?.parse().ok()?)
    })
}

/// A process, known by its number and its start: the number alone is given to another one some day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pid: u32,
    started: String,
}

/// All that runs below a process, however deep.
pub(super) fn below(parent: u32) -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let all: Vec<(u32, Process)> = entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let [parent, started] = stat(pid)?;
            Some((parent.parse().ok()?, Process { pid, started }))
        })
        .collect();
    let (mut found, mut parents) = (Vec::new(), vec![parent]);
    while let Some(parent) = parents.pop() {
        let children: Vec<&Process> = all.iter().filter(|(of, _)| *of == parent).map(|(_, it)| it).collect();
        parents.extend(children.iter().map(|child| child.pid));
        found.extend(children.into_iter().cloned());
    }
    found
}

impl Process {
    /// Whether it still runs.
    pub(super) fn is_there(&self) -> bool {
        stat(self.pid).is_some_and(|[_, started]| started == self.started)
    }
}

/// The parent and the start of a process that has not ended.
fn stat(pid: u32) -> Option<[String; 2]> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the state is in parentheses, and may hold some itself.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let has_ended = matches!(*fields.first()?, "Z" | "X");
    (!has_ended).then_some([(*fields.get(1)?).to_owned(), (*fields.get(19)?).to_owned()])
}

/// Bytes of the memory of a process that were resident at once; nothing when it has ended.
pub(super) fn most_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(most.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}
