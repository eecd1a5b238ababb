//! A console, a cluster and an agent for one test.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams},
};
use plural_agent::{Agent, AgentConfig, AgentEvent, RunningAgent};
use plural_core::ServiceId;
use plural_testkit::TestCluster;
use plural_tunnel::{ConsoleOptions, v1};
use tokio::sync::watch;

use crate::console::{Console, TOKEN};

/// How long the slowest of the parts may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

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
        let (events, told) = (Arc::clone(&self.events), self.told.clone());
        config.observer = Some(Arc::new(move |event| {
            let count = {
                let mut events = events.lock().unwrap();
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

    /// As kill -9 would.
    pub(crate) fn kill(&mut self) {
        self.agent = None;
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
                let found = self.events.lock().unwrap().iter().rev().find_map(&fits);
                if let Some(found) = found {
                    return found;
                }
                let _ = told.changed().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        waited.map_err(|_| anyhow::anyhow!("no event {what}: {:#?}", self.events.lock().unwrap()))
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
            sync_config: Some(v1::SyncConfig {
                create_namespace: true,
                require_ownership: true,
                ..Default::default()
            }),
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

pub(crate) fn map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  key: \"{value}\"\n")
}
