//! A namespace, an engine and a service for one test.

use std::time::Duration;

use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use plural_core::component::ComponentState;
use plural_core::ids::ServiceId;
use plural_render::{Object, Origin};
use plural_sync::{Component, Engine, EngineOptions, Outcome, Target};
use plural_testkit::TestCluster;
use serde_json::{Value, json};

/// How long a cluster may take for what it does by itself.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Fixture {
    pub(crate) cluster: TestCluster,
    pub(crate) client: kube::Client,
    pub(crate) namespace: String,
    /// Where the engine keeps its records, out of every service's reach.
    pub(crate) agent_namespace: String,
    pub(crate) engine: Engine,
    pub(crate) target: Target,
}

pub(crate) fn target(name: &str, namespace: &str) -> Target {
    Target::new(ServiceId::new(), name, namespace)
}

/// Options of an engine whose records lie in a namespace of its own.
pub(crate) fn options(agent_namespace: &str) -> EngineOptions {
    EngineOptions { request_deadline: Duration::from_secs(20), ..EngineOptions::new(agent_namespace) }
}

impl Fixture {
    pub(crate) async fn new(cluster: TestCluster) -> anyhow::Result<Self> {
        let client = cluster.client().await?;
        let namespace = cluster.namespace().await?;
        let agent_namespace = cluster.namespace().await?;
        let engine = Engine::start(client.clone(), options(&agent_namespace)).await?;
        let target = target("shop", &namespace);
        Ok(Self { cluster, client, namespace, agent_namespace, engine, target })
    }

    /// An engine that knows only what the cluster tells: what a restarted agent starts with.
    pub(crate) async fn restart(&mut self) -> anyhow::Result<()> {
        self.engine = Engine::start(self.client.clone(), options(&self.agent_namespace)).await?;
        Ok(())
    }

    pub(crate) async fn sync(&self, objects: Vec<Object>) -> Outcome {
        self.engine.sync(&self.target, objects).await
    }

    /// Syncs whenever the engine says that something changed, until `done`.
    pub(crate) async fn settle(
        &self,
        objects: &[Object],
        done: impl Fn(&Outcome) -> bool,
    ) -> anyhow::Result<Outcome> {
        tokio::time::timeout(PATIENCE, async {
            loop {
                let changes = self.engine.changes().await;
                if changes.get(&self.target.id).is_some_and(|change| change.resync) {
                    let outcome = self.sync(objects.to_vec()).await;
                    if done(&outcome) {
                        return outcome;
                    }
                }
            }
        })
        .await
        .map_err(|_| anyhow::anyhow!("the engine saw no change that ends the wait"))
    }

    pub(crate) fn api(&self, api_version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// The engine's records.
    pub(crate) fn records(&self) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        Api::namespaced_with(self.client.clone(), &self.agent_namespace, &resource)
    }

    pub(crate) fn config_maps(&self) -> Api<DynamicObject> {
        self.api("v1", "ConfigMap", "configmaps")
    }

    /// Names of the ConfigMaps of the namespace that are not the cluster's own.
    pub(crate) async fn config_map_names(&self) -> anyhow::Result<Vec<String>> {
        let list = self.config_maps().list(&kube::api::ListParams::default()).await?;
        let mut names: Vec<String> = list.iter().map(ResourceExt::name_any).collect();
        names.retain(|name| name != "kube-root-ca.crt");
        Ok(names)
    }

    /// What the record in the cluster names; `None` when there is no record.
    pub(crate) async fn recorded(&self) -> anyhow::Result<Option<Vec<String>>> {
        let record = self.records().get_opt(&format!("plural-inventory-{}", self.target.id)).await?;
        Ok(record.map(|record| {
            let objects = record.data["data"]["objects"].as_str().unwrap_or_default();
            objects.lines().map(|line| line.rsplit('/').next().unwrap().to_owned()).collect()
        }))
    }

    /// Changes an object as somebody else would.
    pub(crate) async fn meddle(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        patch: Value,
    ) -> anyhow::Result<()> {
        let somebody = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
        api.patch(name, &somebody, &Patch::Merge(patch)).await?;
        Ok(())
    }

    pub(crate) fn component(&self, name: &str) -> Option<Component> {
        self.engine.components(self.target.id).into_iter().find(|component| component.key.name == name)
    }

    pub(crate) async fn until_running(&self, name: &str) -> anyhow::Result<()> {
        let wait = async {
            while self.component(name).is_none_or(|found| found.state != Some(ComponentState::Running)) {
                self.engine.changes().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .map_err(|_| anyhow::anyhow!("{name} is not running: {:?}", self.component(name)))
    }
}

pub(crate) fn object(value: Value) -> Object {
    Object { value, origin: Origin { path: "app/objects.yaml".to_owned(), line: 1 } }
}

pub(crate) fn config_map(name: &str, value: &str) -> Object {
    object(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}}),
    )
}

pub(crate) fn deployment(name: &str) -> Object {
    object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "web", "image": "example.org/web:1", "ports": [{"containerPort": 80}]}]}}},
    }))
}

pub(crate) fn service(name: &str) -> Object {
    object(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 80}]},
    }))
}

pub(crate) fn secret(name: &str) -> Object {
    object(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"password": "x"},
    }))
}
