//! A console, a cluster and an agent for one test.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams},
};
use parking_lot::Mutex;
use plural_agent::{Agent, AgentConfig, AgentEvent, RunningAgent};
use plural_core::ids::ServiceId;
use plural_testkit::{TestCluster, eventually};
use plural_tunnel::{ConsoleOptions, v1};
use prost::Message as _;
use tokio::sync::watch;

use crate::console::{Console, TOKEN};

/// What the agent keeps of the desired state, and what builds of contract 0 kept.
pub(crate) const KEPT: &str = "work-2.pb";
pub(crate) const FORMER: &str = "desired.pb";

/// How long the slowest of the parts may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Fixture {
    pub(crate) cluster: TestCluster,
    pub(crate) client: kube::Client,
    pub(crate) console: Console,
    /// Of the services.
    pub(crate) namespace: String,
    /// Of the agent: no service reaches it.
    pub(crate) agent_namespace: String,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) events: Arc<Mutex<Vec<AgentEvent>>>,
    pub(crate) told: watch::Sender<usize>,
    pub(crate) agent: Option<RunningAgent>,
}

impl Fixture {
    pub(crate) async fn new(cluster: TestCluster) -> anyhow::Result<Self> {
        let mut fixture = Self::without_agent(cluster).await?;
        fixture.start().await?;
        Ok(fixture)
    }

    pub(crate) async fn without_agent(cluster: TestCluster) -> anyhow::Result<Self> {
        let client = cluster.client().await?;
        let namespace = cluster.namespace().await?;
        let agent_namespace = cluster.namespace().await?;
        Ok(Self {
            client,
            console: Console::start().await?,
            namespace,
            agent_namespace,
            folder: tempfile::tempdir()?,
            events: Arc::default(),
            told: watch::Sender::new(0),
            agent: None,
            cluster,
        })
    }

    pub(crate) async fn config(&self) -> anyhow::Result<AgentConfig> {
        let kubeconfig = kube::config::Kubeconfig::read_from(self.cluster.kubeconfig())?;
        let kube =
            kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
                .await?;
        let console = ConsoleOptions {
            url: self.console.url(),
            token: TOKEN.to_owned(),
            ca_pem: None,
            deadline: Duration::from_secs(10),
        };
        let mut config =
            AgentConfig::new(console, kube, self.folder.path()).in_namespace(self.agent_namespace.clone());
        config.lease_duration = Duration::from_secs(6);
        config.runs.namespace = self.runs_namespace();
        config.runs.image = Some("example.org/plural:1".to_owned());
        let (events, told) = (Arc::clone(&self.events), self.told.clone());
        config.observer = Some(Arc::new(move |event| {
            let count = {
                let mut events = events.lock();
                events.push(event);
                events.len()
            };
            told.send_replace(count);
        }));
        Ok(config)
    }

    pub(crate) async fn start(&mut self) -> anyhow::Result<()> {
        self.agent = Some(Agent::start(self.config().await?)?);
        Ok(())
    }

    /// Of runs: made by the agent.
    pub(crate) fn runs_namespace(&self) -> String {
        format!("{}-runs", self.agent_namespace)
    }

    /// As kill -9 would.
    pub(crate) fn kill(&mut self) {
        self.agent = None;
    }

    /// The same, and the next agent goes on with a copy of the folder: what this one still writes does not reach it.
    pub(crate) fn kill_and_copy(&mut self) -> anyhow::Result<()> {
        self.kill();
        let copy = tempfile::tempdir()?;
        copy_files(self.folder.path(), copy.path())?;
        self.folder = copy;
        Ok(())
    }

    /// Whose state is on disk, and the state.
    pub(crate) fn kept(&self) -> anyhow::Result<(Vec<u8>, v1::Kept)> {
        let bytes = fs::read(self.folder.path().join(KEPT))?;
        let (owner, kept) = bytes.split_at(32);
        Ok((owner.to_vec(), v1::Kept::decode(kept)?))
    }

    /// The same, once it is all that the console has.
    pub(crate) async fn all_kept(&self) -> (Vec<u8>, v1::Kept) {
        let sequence = self.console.memory().sequence;
        eventually(PATIENCE, async || {
            let kept = self.kept().map_err(|error| error.to_string())?;
            let at = kept.1.cursor.as_ref().map_or(0, |cursor| cursor.sequence);
            if at == sequence { Ok(kept) } else { Err(format!("kept at {at}, not {sequence}")) }
        })
        .await
    }

    /// Puts a state on disk as the build of contract 0 did.
    pub(crate) fn keep_as_before(&self, owner: &[u8], kept: v1::Kept) -> anyhow::Result<()> {
        let v1::Kept { cursor, work, .. } = kept;
        let mut answer = v1::PollResponse { cursor, snapshot: true, ..v1::PollResponse::default() };
        for work in work {
            match work.item {
                Some(v1::work::Item::Service(service)) => answer.services.push(*service),
                Some(v1::work::Item::Cluster(cluster)) => answer.cluster = Some(cluster),
                Some(v1::work::Item::StackRun(_)) | None => anyhow::bail!("work of an unknown kind"),
            }
        }
        let mut bytes = owner.to_vec();
        answer.encode(&mut bytes)?;
        fs::write(self.folder.path().join(FORMER), bytes)?;
        Ok(())
    }

    /// Whether the cluster has the record of what a service owns.
    pub(crate) async fn is_recorded(&self, id: ServiceId) -> anyhow::Result<bool> {
        let inventories: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.agent_namespace);
        Ok(inventories.get_opt(&format!("plural-inventory-{id}")).await?.is_some())
    }

    /// Waits for an event.
    pub(crate) async fn event<T>(
        &self,
        what: &str,
        fits: impl Fn(&AgentEvent) -> Option<T>,
    ) -> anyhow::Result<T> {
        let mut told = self.told.subscribe();
        let wait = async {
            loop {
                told.borrow_and_update();
                let found = self.events.lock().iter().rev().find_map(&fits);
                if let Some(found) = found {
                    return found;
                }
                let _ = told.changed().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        waited.map_err(|_| anyhow::anyhow!("no event {what}: {:#?}", self.events.lock()))
    }

    pub(crate) fn service(&self, name: &str, files: &[(&str, String)]) -> (ServiceId, v1::Service) {
        let id = ServiceId::new();
        let service = v1::Service {
            id: id.to_string(),
            name: name.to_owned(),
            namespace: self.namespace.clone(),
            artifact_digest: self.console.artifact(files),
            folder: "app".to_owned(),
            commit_sha: "c0ffee".to_owned(),
            templated: true,
            sync_config_json: "{}".to_owned(),
            ..v1::Service::default()
        };
        (id, service)
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Names of the ConfigMaps that services made.
    pub(crate) async fn map_names(&self) -> anyhow::Result<Vec<String>> {
        let list = self.maps().list(&ListParams::default()).await?;
        let mut names: Vec<String> = list.iter().map(ResourceExt::name_any).collect();
        names.retain(|name| !name.starts_with("plural-inventory-") && name != "kube-root-ca.crt");
        Ok(names)
    }

    pub(crate) async fn value(&self, name: &str) -> anyhow::Result<String> {
        Ok(self.maps().get(name).await?.data.unwrap_or_default()["key"].clone())
    }

    /// Changes a ConfigMap as somebody else would.
    pub(crate) async fn meddle(&self, name: &str, value: &str) -> anyhow::Result<()> {
        let somebody = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
        let change = ConfigMap {
            metadata: ObjectMeta::default(),
            data: Some([("key".to_owned(), value.to_owned())].into()),
            ..ConfigMap::default()
        };
        self.maps().patch(name, &somebody, &Patch::Merge(change)).await?;
        Ok(())
    }

    pub(crate) async fn until_value(&self, name: &str, value: &str) -> anyhow::Result<()> {
        let seen = async {
            while self.value(name).await.ok().as_deref() != Some(value) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, seen).await.map_err(|_| anyhow::anyhow!("{name} is not {value}"))
    }
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&to)?;
            copy_files(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

pub(crate) fn map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  key: \"{value}\"\n")
}
