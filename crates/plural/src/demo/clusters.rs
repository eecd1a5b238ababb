//! The demo's clusters: simulated ones, or a person's own; each with an agent in this process.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use k8s_openapi::{
    Resource as _,
    api::{
        coordination::v1::Lease,
        core::v1::{ConfigMap, Namespace},
        rbac::v1::{ClusterRole, ClusterRoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use plural_agent::{Agent, AgentConfig, AgentEvent, RunningAgent, usual_render_limits};
use plural_kit::Lanes;
use plural_kubesim::{Cluster, ClusterOptions, Sim};
use plural_tunnel::ConsoleOptions;
use tokio::sync::mpsc;

use super::write_private;
use crate::runner::Runner;

/// Events that wait to be told; agents that overtake the terminal lose lines, not work.
const EVENTS: usize = 10_000;

/// Where the agents of the demo keep lease and inventories.
const AGENT_NAMESPACE: &str = "plural-system";

/// Something that an agent told.
#[derive(Debug)]
pub(super) struct Told {
    /// Handle of its cluster.
    pub(super) cluster: String,
    /// What.
    pub(super) event: AgentEvent,
}

/// What agents tell, in the order they tell it.
pub(super) type Events = mpsc::Receiver<Told>;

/// What the agents of one process share.
pub(super) struct Shared {
    told: mpsc::Sender<Told>,
    renders: Arc<Lanes>,
}

/// What agents share, and what they will tell.
pub(super) fn shared() -> (Shared, Events) {
    let (told, events) = mpsc::channel(EVENTS);
    (Shared { told, renders: Lanes::new(usual_render_limits()) }, events)
}

/// One cluster and, once started, its agent.
pub(super) struct DemoCluster {
    handle: String,
    kubeconfig: PathBuf,
    config: kube::Config,
    simulated: Option<Cluster>,
    agent: Option<RunningAgent>,
    /// Runs the Jobs of stacks on a simulated cluster.
    runner: Option<Runner>,
    /// Namespaces that this demo brings, to be taken away again.
    brought: Vec<String>,
}

/// Starts `count` simulated clusters and writes a kubeconfig file for each.
pub(super) async fn simulated(count: u32, admin: &str, data: &Path) -> anyhow::Result<Vec<DemoCluster>> {
    let folder = data.join("kubeconfigs");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let sim = Sim::new()?;
    let mut clusters = Vec::new();
    for number in 1..=count {
        let handle = format!("demo-{number}");
        let cluster = sim.cluster(ClusterOptions::named(&handle)).await?;
        let kubeconfig = folder.join(format!("{handle}.yaml"));
        write_private(&kubeconfig, &cluster.kubeconfig())?;
        let config = read(&kubeconfig).await?;
        let_in(admin, config.clone()).await?;
        clusters.push(DemoCluster {
            handle,
            kubeconfig,
            config,
            simulated: Some(cluster),
            agent: None,
            runner: None,
            brought: Vec::new(),
        });
    }
    Ok(clusters)
}

/// Lets a person do everything in a simulated cluster: through the console, kubectl has that person's rights.
async fn let_in(email: &str, config: kube::Config) -> anyhow::Result<()> {
    let binding = ClusterRoleBinding {
        metadata: ObjectMeta { name: Some("plural-demo-admin".to_owned()), ..ObjectMeta::default() },
        role_ref: RoleRef {
            api_group: Some(ClusterRole::GROUP.to_owned()),
            kind: ClusterRole::KIND.to_owned(),
            name: "cluster-admin".to_owned(),
        },
        subjects: Some(vec![Subject {
            api_group: Some(ClusterRole::GROUP.to_owned()),
            kind: "User".to_owned(),
            name: email.to_owned(),
            namespace: None,
        }]),
    };
    let api: kube::Api<ClusterRoleBinding> = kube::Api::all(kube::Client::try_from(config)?);
    api.create(&PostParams::default(), &binding).await.context("cannot bind the demo's administrator")?;
    Ok(())
}

/// The clusters of kubeconfig files, each by its current context.
pub(super) async fn of_kubeconfigs(files: &[PathBuf]) -> anyhow::Result<Vec<DemoCluster>> {
    let mut taken = HashSet::new();
    let mut clusters = Vec::new();
    for file in files {
        let kubeconfig = file.canonicalize().with_context(|| format!("cannot find {}", file.display()))?;
        let config = read(&kubeconfig).await?;
        let context = Kubeconfig::read_from(&kubeconfig)?.current_context.unwrap_or_default();
        let mut handle = to_handle(&context);
        let mut number = 1;
        while !taken.insert(handle.clone()) {
            number += 1;
            handle = format!("{}-{number}", to_handle(&context));
        }
        clusters.push(DemoCluster {
            handle,
            kubeconfig,
            config,
            simulated: None,
            agent: None,
            runner: None,
            brought: Vec::new(),
        });
    }
    Ok(clusters)
}

/// The current context of a kubeconfig file.
pub(crate) async fn read(file: &Path) -> anyhow::Result<kube::Config> {
    let cannot = || format!("cannot use the kubeconfig {}", file.display());
    let kubeconfig = Kubeconfig::read_from(file).with_context(cannot)?;
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.with_context(cannot)
}

/// A context's name as a handle: lower-case letters, digits and dashes.
fn to_handle(context: &str) -> String {
    let mut handle = String::new();
    for character in context.chars().flat_map(char::to_lowercase) {
        let plain = character.is_ascii_lowercase() || character.is_ascii_digit();
        if plain {
            handle.push(character);
        } else if !handle.is_empty() && !handle.ends_with('-') {
            handle.push('-');
        }
    }
    handle.truncate(50);
    let handle = handle.trim_end_matches('-');
    if handle.is_empty() { "cluster".to_owned() } else { handle.to_owned() }
}

impl DemoCluster {
    /// The cluster's handle in the console.
    pub(super) fn handle(&self) -> &str {
        &self.handle
    }

    /// It is simulated: Jobs of stacks run on this machine.
    pub(super) fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// Path of a kubeconfig file that reaches it.
    pub(super) fn kubeconfig(&self) -> String {
        self.kubeconfig.display().to_string()
    }

    /// Starts the agent, which dials `console` with `token` with what all agents share.
    pub(super) fn start_agent(
        &mut self,
        console: &str,
        token: &str,
        cache: &Path,
        shared: &Shared,
    ) -> anyhow::Result<()> {
        let options = ConsoleOptions {
            url: console.to_owned(),
            token: token.to_owned(),
            ca_pem: None,
            deadline: std::time::Duration::from_secs(10),
        };
        let (cluster, told) = (self.handle.clone(), shared.told.clone());
        let mut config = AgentConfig::new(options, self.config.clone(), cache.join(&self.handle))
            .in_namespace(AGENT_NAMESPACE);
        config.renders = Arc::clone(&shared.renders);
        config.observer = Some(Arc::new(move |event| {
            // A full channel means that nobody reads: the demo is stopping.
            let _ = told.try_send(Told { cluster: cluster.clone(), event });
        }));
        let agent =
            Agent::start(config).with_context(|| format!("the agent of {} cannot start", self.handle))?;
        self.agent = Some(agent);
        Ok(())
    }

    /// Runs the Jobs of stacks of `console` as processes of this machine, where the cluster is simulated.
    pub(super) fn start_runner(&mut self, console: &str, runs: &Path) -> anyhow::Result<()> {
        if let Some(cluster) = &self.simulated {
            let runs = runs.join(&self.handle);
            let runner = Runner::start(cluster, self.config.clone(), console, &runs);
            self.runner =
                Some(runner.with_context(|| format!("the runner of {} cannot start", self.handle))?);
        }
        Ok(())
    }

    /// Refuses a cluster in which an agent of another console works, or has worked: this one would take over what that one
    /// keeps there.
    pub(super) async fn check_free(&self) -> anyhow::Result<()> {
        let client = kube::Client::try_from(self.config.clone())?;
        let cannot = || format!("cannot read from {}", self.handle);
        let leases: kube::Api<Lease> = kube::Api::namespaced(client.clone(), AGENT_NAMESPACE);
        let leases = leases.list_metadata(&ListParams::default()).await.with_context(cannot)?;
        let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client, AGENT_NAMESPACE);
        let maps = maps.list_metadata(&ListParams::default()).await.with_context(cannot)?;
        let leases = leases.items.iter().map(ResourceExt::name_any);
        let kept =
            maps.items.iter().map(ResourceExt::name_any).filter(|name| name.starts_with("plural-inventory-"));
        if let Some(found) = leases.chain(kept).next() {
            anyhow::bail!(
                "{} is another console's, or an earlier demo's: namespace {AGENT_NAMESPACE} holds {found}. Go on with the --data of that \
                 demo, use an empty cluster, or uninstall that agent first and delete the namespace",
                self.handle
            );
        }
        Ok(())
    }

    /// Remembers which of `namespaces`, and of the agent's own, are not there yet.
    pub(super) async fn note_namespaces<'a>(
        &mut self,
        namespaces: impl Iterator<Item = &'a str>,
    ) -> anyhow::Result<()> {
        let client = kube::Client::try_from(self.config.clone())?;
        let api: kube::Api<Namespace> = kube::Api::all(client);
        for name in namespaces.chain([AGENT_NAMESPACE]) {
            let found =
                api.get_opt(name).await.with_context(|| format!("cannot read from {}", self.handle))?;
            if found.is_none() && !self.brought.iter().any(|known| known == name) {
                self.brought.push(name.to_owned());
            }
        }
        Ok(())
    }

    /// Stops the agent and deletes the namespaces that were not there before.
    pub(super) async fn take_away(&mut self) -> anyhow::Result<()> {
        if let Some(agent) = self.agent.take() {
            agent.stop().await;
        }
        let client = kube::Client::try_from(self.config.clone())?;
        let api: kube::Api<Namespace> = kube::Api::all(client);
        for name in self.brought.drain(..) {
            match api.delete(&name, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot delete namespace {name} of {}", self.handle));
                }
            }
        }
        Ok(())
    }

    /// `data.marker` of a ConfigMap, read from the cluster itself.
    pub(super) async fn read_proof(&self, namespace: &str, name: &str) -> anyhow::Result<Option<String>> {
        let client = kube::Client::try_from(self.config.clone())?;
        let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client, namespace);
        let found = maps.get_opt(name).await.with_context(|| format!("cannot read from {}", self.handle))?;
        Ok(found.and_then(|map| map.data).and_then(|mut data| data.remove("marker")))
    }

    /// Stops the agent and, if it is simulated, the cluster.
    pub(super) async fn stop(self) {
        if let Some(agent) = self.agent {
            agent.stop().await;
        }
        if let Some(runner) = self.runner {
            runner.stop().await;
        }
        if let Some(cluster) = self.simulated {
            cluster.stop().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_become_handles() {
        assert_eq!(
            to_handle("arn:aws:eks:eu-west-1:1234:cluster/Blue"),
            "arn-aws-eks-eu-west-1-1234-cluster-blue"
        );
        assert_eq!(to_handle("kind-kind"), "kind-kind");
        assert_eq!(to_handle("…"), "cluster");
    }
}
