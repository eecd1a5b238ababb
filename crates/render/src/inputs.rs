//! Everything besides files that a render may depend on.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::{Map, Value, json};

use crate::rendering::{ChartAsked, RenderingInput};

/// What a service is rendered with.
#[derive(Clone)]
pub struct Inputs {
    /// Root of the service inside the tree; empty for the tree's own root.
    pub folder: String,
    /// Whether `.liquid` files are rendered; when false they are read as they are.
    pub templated: bool,
    /// The service itself.
    pub service: ServiceInput,
    /// The cluster it is for.
    pub cluster: ClusterInput,
    /// The service's configuration, in clear.
    pub configuration: BTreeMap<String, String>,
    /// The contexts that the service names, by name, secret values included.
    pub contexts: Map<String, Value>,
    /// The outputs of the stacks that the service imports, by the stacks' names, sensitive ones included.
    pub imports: Map<String, Value>,
    /// The renderer's clock: milliseconds since 1970-01-01 UTC.
    pub clock_ms: i64,
    /// Seed of the random functions: secret, one per service and cluster.
    pub seed: Vec<u8>,
    /// How it becomes objects, where its files do not say.
    pub rendering: RenderingInput,
    /// What charts see as `.Capabilities`. Unknown: the version that `cluster` tells, and the APIs that Helm takes
    /// for granted.
    pub api_server: Option<ApiServer>,
}

/// An API server as charts see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiServer {
    /// For example `v1.36.2`.
    pub version: String,
    /// `group/version` and `group/version/Kind` of everything that it serves.
    pub api_versions: Arc<[String]>,
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs")
            .field("service", &self.service.name)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// What templates see as `service`.
#[derive(Debug, Clone, Default)]
pub struct ServiceInput {
    /// Id in the console.
    pub id: String,
    /// Name of the service.
    pub name: String,
    /// Namespace its objects go to unless they say otherwise.
    pub namespace: String,
}

/// What templates see as `cluster`.
#[derive(Debug, Clone, Default)]
pub struct ClusterInput {
    /// Id in the console.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Unique handle.
    pub handle: String,
    /// Distribution as in the GraphQL enum, for example `EKS`.
    pub distro: String,
    /// Kubernetes version, for example `1.36.2`.
    pub version: String,
    /// Tags by name.
    pub tags: BTreeMap<String, String>,
    /// Free metadata.
    pub metadata: Value,
}

impl Inputs {
    /// A message without the values of the configuration, of contexts and of imports that it may quote; those of three characters and
    /// fewer are words that say nothing.
    pub(crate) fn without_values(&self, message: &str) -> String {
        let mut values: Vec<&String> = self.configuration.values().collect();
        self.contexts.values().chain(self.imports.values()).for_each(|all| texts(all, &mut values));
        values.retain(|value| value.len() > 3);
        // The longest first: one value may hold another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.into_iter().fold(message.to_owned(), |text, value| text.replace(value.as_str(), "…"))
    }

    /// The data of a template: `configuration`, `contexts`, `imports`, `cluster`, `service`.
    pub(crate) fn data(&self) -> Value {
        let ClusterInput { id, name, handle, distro, version, tags, metadata } = &self.cluster;
        let metadata = if metadata.is_null() { json!({}) } else { metadata.clone() };
        json!({
            "configuration": self.configuration,
            "contexts": self.contexts,
            "imports": self.imports,
            "cluster": {
                "id": id,
                "name": name,
                "handle": handle,
                "distro": distro,
                "version": version,
                "currentVersion": version,
                "tags": tags,
                "metadata": metadata,
            },
            "service": {
                "id": self.service.id,
                "name": self.service.name,
                "namespace": self.service.namespace,
                "helm": self.helm_data(),
            },
        })
    }

    /// What templates see as `service.helm`: nothing of the values.
    fn helm_data(&self) -> Value {
        let helm = &self.rendering.helm;
        let ChartAsked { chart, version, url } = &helm.asked;
        json!({
            "release": helm.release.as_deref().unwrap_or(&self.service.name),
            "valuesFiles": helm.values_files,
            "chart": chart,
            "version": version,
            "url": url,
        })
    }
}

/// All texts inside a value.
fn texts<'v>(value: &'v Value, found: &mut Vec<&'v String>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(map) => map.values().for_each(|item| texts(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
