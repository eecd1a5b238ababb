//! A small node of a real control plane: it runs the Pods that are bound to it as processes of this machine.
//!
//! Beside kwok's node, where nothing runs, this one shows what a program does that Kubernetes starts: init containers one after the
//! other, then all containers; commands and arguments, or the one entry point that all images have; environments from Secrets and
//! ConfigMaps; volumes (`emptyDir`, `secret`, `configMap`) as folders; logs in files; exit codes; SIGTERM and the grace; deletion.
//!
//! # What is not as on a real node
//! - Processes have no file system of their own. Each path of a container's mounts becomes the volume's folder wherever it stands in
//!   the command, the arguments and the environment: as a whole, before a `/`, and after `=`, `:` or `,`.
//! - Images are not looked at: the entry point is [`NodeOptions::entry_point`], and what is in an image is what is in
//!   [`NodeOptions::path`]. Users, security contexts, resources, probes and restarts are not looked at either.
//! - The node is tainted: only Pods that tolerate [`TAINT`] come to it. They name it in their node selector.

mod environment;
mod pod;

use std::{
    collections::HashMap,
    ffi::OsString,
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{sync::watch, task::JoinHandle, time::sleep};

use crate::folder::OwnedFolder;
use pod::NodePod;

/// Key of the node's taint, and of the label that names it.
pub const TAINT: &str = "testkit.plural.sh/node";

/// Between two looks at the node's Pods.
const LOOK: Duration = Duration::from_millis(50);

/// What a node has.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Its name.
    pub name: String,
    /// The program that every image starts.
    pub entry_point: PathBuf,
    /// `PATH` of every container.
    pub path: OsString,
}

/// A node that runs. Dropping it kills its processes; the node object stays.
#[derive(Debug)]
pub struct Node {
    name: String,
    folder: OwnedFolder,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl Node {
    /// Registers a node with the control plane of `client` and runs its Pods.
    ///
    /// # Errors
    /// When it cannot be registered.
    pub async fn start(client: Client, options: NodeOptions) -> anyhow::Result<Self> {
        let folder = OwnedFolder::new("node")?;
        register(&client, &options.name).await?;
        let (stop, stopped) = watch::channel(false);
        let name = options.name.clone();
        let kubelet = Kubelet { client, options, folder: folder.path().to_owned(), pods: HashMap::new() };
        let task = Some(tokio::spawn(kubelet.run(stopped)));
        Ok(Self { name, folder, stop, task })
    }

    /// Its name: the value of [`TAINT`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the containers of all Pods wrote, each below its name: for the message of a test that fails.
    pub fn logs(&self) -> String {
        let containers =
            entries(self.folder.path()).into_iter().flat_map(|pod| entries(&pod.join("containers")));
        let files = containers.flat_map(|container| entries(&container));
        let mut text = String::new();
        for log in files.filter(|file| file.extension().is_some_and(|extension| extension == "log")) {
            let written = std::fs::read(&log).unwrap_or_default();
            let name = log.strip_prefix(self.folder.path()).unwrap_or(&log);
            // Writing to a string does not fail.
            let _ = writeln!(text, "== {}\n{}", name.display(), String::from_utf8_lossy(&written));
        }
        text
    }

    /// Kills all processes and waits for their end. Pods stay as they were told last, as when a node loses its power.
    pub async fn stop(mut self) {
        self.lose_power().await;
    }

    /// As [`Self::stop`], where somebody still wants to see what its Pods wrote.
    pub async fn lose_power(&mut self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task.take() {
            drop(task.await);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task.take() {
            // Its processes are killed as it is dropped.
            task.abort();
        }
    }
}

/// Paths of what is in a folder, by name.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

async fn register(client: &Client, name: &str) -> anyhow::Result<()> {
    let nodes: Api<NodeObject> = Api::all(client.clone());
    let node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", TAINT: name}},
        "spec": {"taints": [{"key": TAINT, "value": name, "effect": "NoSchedule"}]},
    }))?;
    nodes.create(&PostParams::default(), &node).await.context("cannot register the node")?;
    let now = json!(pod::now());
    let room = json!({"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "1000"});
    let status = json!({"status": {
        "capacity": room, "allocatable": room,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Testkit", "message": "it runs processes",
            "lastHeartbeatTime": now, "lastTransitionTime": now}],
    }});
    let written = nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await;
    written.context("cannot tell that the node is ready")?;
    // The controllers mark a new node as not ready, and take that back when they have seen its status.
    crate::eventually(Duration::from_mins(1), async || {
        let node = nodes.get(name).await.map_err(|error| error.to_string())?;
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        if taints.iter().all(|taint| taint.key == TAINT) { Ok(()) } else { Err(format!("{taints:?}")) }
    })
    .await;
    Ok(())
}

struct Kubelet {
    client: Client,
    options: NodeOptions,
    folder: PathBuf,
    /// By uid.
    pods: HashMap<String, NodePod>,
}

impl Kubelet {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            // An API server that is away is asked again; what runs goes on, as on a real node.
            if let Err(error) = self.look().await {
                eprintln!("node {}: {error:#}", self.options.name);
            }
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return,
                () = sleep(LOOK) => {}
            }
        }
    }

    async fn look(&mut self) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={}", self.options.name));
        // The end of a process is seen though the API server is away.
        for pod in self.pods.values_mut() {
            pod.see()?;
        }
        let found = pods.list(&here).await.context("cannot list its Pods")?;
        let mut there = Vec::new();
        for object in found {
            let Some(uid) = object.uid() else { continue };
            there.push(uid.clone());
            if !self.pods.contains_key(&uid) {
                let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
                let is_over = matches!(phase, Some("Succeeded" | "Failed"));
                let folder = self.folder.join(object.name_any());
                self.pods.insert(uid.clone(), NodePod::new(folder, is_over));
            }
            if let Some(pod) = self.pods.get_mut(&uid)
                && let Err(error) = pod.step(&self.client, &self.options, &object).await
            {
                eprintln!("node {}: Pod {}: {error:#}", self.options.name, object.name_any());
            }
        }
        // What is not there any more loses its processes.
        self.pods.retain(|uid, _| there.contains(uid));
        Ok(())
    }
}
