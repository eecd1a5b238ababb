//! A console, clusters and their agents in this process, as the demo wires them.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use plural_agent::{Agent, AgentConfig, AgentEvent, RunningAgent};
use plural_console::RunningConsole;
use plural_core::access::Actor;
use plural_core::fleet_plan::FleetPlan;
use plural_core::ids::FleetPlanId;
use plural_kit::Metrics;
use plural_testkit::{OwnedFolder, TestCluster};
use plural_tunnel::ConsoleOptions;
use tokio::sync::mpsc;

use crate::{api::Api, seed};

/// What agents tell and nobody has read yet.
const EVENTS: usize = 100_000;

/// What an agent told, and when.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) at: Instant,
    /// Place of its cluster in [`Fleet::members`].
    pub(crate) member: usize,
    pub(crate) event: AgentEvent,
}

/// A cluster that the console knows, and its agent once that is started.
pub(crate) struct Member {
    handle: String,
    token: String,
    config: kube::Config,
    agent: Option<RunningAgent>,
    /// Held for its end.
    _cluster: Option<TestCluster>,
}

/// The whole product in one process.
pub(crate) struct Fleet {
    pub(crate) told: mpsc::Receiver<Told>,
    sender: mpsc::Sender<Told>,
    members: Vec<Member>,
    api: Api,
    console: RunningConsole,
    folder: OwnedFolder,
}

impl Fleet {
    /// A console on SQLite, without clusters.
    pub(crate) async fn start(metrics: Option<Metrics>) -> anyhow::Result<Self> {
        let folder = OwnedFolder::new("bench")?;
        let config = seed::config(folder.path());
        let console = RunningConsole::start(config, metrics).await.context("the console cannot start")?;
        let api = Api::sign_in(&console.url, None).await?;
        let (sender, told) = mpsc::channel(EVENTS);
        Ok(Self { told, sender, members: Vec::new(), api, console, folder })
    }

    /// Register simulated clusters.
    pub(crate) async fn add_simulated(&mut self, count: usize) -> anyhow::Result<()> {
        for _ in 0..count {
            let cluster = TestCluster::kubesim().await?;
            let kubeconfig = cluster.kubeconfig().to_owned();
            self.add(&kubeconfig, Some(cluster)).await?;
        }
        Ok(())
    }

    /// Register a cluster that its owner keeps running.
    pub(crate) async fn add_kubeconfig(&mut self, kubeconfig: &Path) -> anyhow::Result<()> {
        self.add(kubeconfig, None).await
    }

    async fn add(&mut self, kubeconfig: &Path, cluster: Option<TestCluster>) -> anyhow::Result<()> {
        let handle = format!("bench-{}", self.members.len() + 1);
        let token = self.api.cluster(&handle).await?;
        let read = Kubeconfig::read_from(kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        self.members.push(Member { handle, token, config, agent: None, _cluster: cluster });
        Ok(())
    }

    /// Start the agents that do not run yet.
    pub(crate) fn start_agents(&mut self) -> anyhow::Result<()> {
        for (place, member) in self.members.iter_mut().enumerate().filter(|(_, m)| m.agent.is_none()) {
            let console = door(&self.console, &member.token);
            let cache = self.folder.path().join("agents").join(&member.handle);
            let mut config = AgentConfig::new(console, member.config.clone(), cache);
            let sender = self.sender.clone();
            config.observer = Some(Arc::new(move |event| {
                let told = Told { at: Instant::now(), member: place, event };
                if sender.try_send(told).is_err() {
                    // A lost event would make a figure wrong without a word.
                    eprintln!("an event of the agent was lost: the bench does not keep up");
                }
            }));
            member.agent = Some(Agent::start(config).context("the agent cannot start")?);
        }
        Ok(())
    }

    /// Register a repository that is served over HTTP; returns its id.
    pub(crate) async fn served_repository(&self, url: &str) -> anyhow::Result<String> {
        self.api.repository(url).await
    }

    /// Register a repository of this machine; returns its id.
    pub(crate) async fn repository(&self, path: &Path) -> anyhow::Result<String> {
        self.api.repository(&path.display().to_string()).await
    }

    /// Register a service of one folder on the cluster at a place.
    pub(crate) async fn service(
        &self,
        member: usize,
        repository: &str,
        folder: &str,
        namespace: &str,
    ) -> anyhow::Result<()> {
        let cluster = &self.members.get(member).context("no such cluster")?.handle;
        self.api.service(cluster, repository, folder, folder, namespace).await
    }

    /// Put a service on every cluster; returns the global service's id.
    pub(crate) async fn global_service(
        &self,
        repository: &str,
        folder: &str,
        namespace: &str,
    ) -> anyhow::Result<String> {
        self.api.global_service(global(repository, folder, namespace, "1.0.0")).await
    }

    /// Give it another version, which every cluster has to have.
    pub(crate) async fn global_service_changed(
        &self,
        id: &str,
        repository: &str,
        folder: &str,
        namespace: &str,
        version: &str,
    ) -> anyhow::Result<()> {
        self.api.global_service_changed(id, global(repository, folder, namespace, version)).await
    }

    /// Every cluster has a generation of a global service and is healthy on it.
    pub(crate) async fn all_healthy(&self, id: &str, generation: u64) -> anyhow::Result<bool> {
        let app = self.console.app();
        let all = app.global_service_instances(&app.ctx(Actor::System), id.parse()?).await?;
        let well = all.iter().filter(|one| one.generation == generation && one.member().healthy);
        Ok(well.count() == self.members.len())
    }

    /// What asks the console, for what has no name here.
    pub(crate) fn client(&self) -> &plural_wire::Client {
        self.api.client()
    }

    /// What asks the cluster at a place, past the console.
    pub(crate) fn cluster(&self, member: usize) -> anyhow::Result<kube::Client> {
        let member = self.members.get(member).context("no such cluster")?;
        Ok(kube::Client::try_from(member.config.clone())?)
    }

    /// A plan of a commit is over, however it ended.
    pub(crate) async fn is_planned(&self, id: &str) -> anyhow::Result<bool> {
        let app = self.console.app();
        let id: FleetPlanId = id.parse()?;
        let plan = app.get::<FleetPlan>(&app.ctx(Actor::System), &id).await?;
        Ok(plan.phase.is_over())
    }

    /// How the agent of the cluster at a place reaches the console.
    pub(crate) fn door(&self, member: usize) -> anyhow::Result<ConsoleOptions> {
        Ok(door(&self.console, &self.members.get(member).context("no such cluster")?.token))
    }

    /// How many clusters there are.
    pub(crate) fn members(&self) -> usize {
        self.members.len()
    }

    /// Stop all of it.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        for agent in self.members.into_iter().filter_map(|m| m.agent) {
            agent.stop().await;
        }
        self.console.stop().await?;
        Ok(())
    }
}

/// The attributes of a global service for every cluster.
fn global(repository: &str, folder: &str, namespace: &str, version: &str) -> serde_json::Value {
    serde_json::json!({
        "name": folder,
        "template": {
            "namespace": namespace,
            "version": version,
            "repositoryId": repository,
            "git": {"ref": "main", "folder": folder},
        },
    })
}

fn door(console: &RunningConsole, token: &str) -> ConsoleOptions {
    ConsoleOptions {
        url: console.url.clone(),
        token: token.to_owned(),
        ca_pem: None,
        deadline: Duration::from_secs(10),
    }
}
