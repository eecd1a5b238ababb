//! What a service owns and how far its sync is, recorded in the cluster: one ConfigMap per service in the
//! agent's namespace.
//!
//! An object is recorded before it is first written, and its record stays until the API server has
//! confirmed that the object is gone. A new agent reads the records, goes on where the last one was, and can
//! prune what an earlier one applied.

use std::collections::{BTreeMap, BTreeSet};

use plural_core::ids::ServiceId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    api::{Api, ApiError, Applying, View, encode},
    directive::Propagation,
    key::ObjectKey,
    order::default_wave,
    phase::Phase,
    target::{Promoted, Request},
};

const LABEL: &str = "plural.sh/inventory";
/// Annotation by which a person approves pending deletions without the console: their digest.
pub const APPROVED_PRUNE_ANNOTATION: &str = "deployments.plural.sh/approved-prune";
/// Beyond this the API server refuses a ConfigMap (1 MiB with everything around it).
const MAX_BYTES: usize = 950_000;

/// The record of one service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Inventory {
    pub(crate) name: String,
    pub(crate) entries: BTreeSet<ObjectKey>,
    /// Where objects stand that do not stand where their kind does by default.
    pub(crate) places: BTreeMap<ObjectKey, Place>,
    pub(crate) run: Run,
}

/// Where an object stands in the order of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) phase: Phase,
    pub(crate) wave: i32,
}

impl Place {
    /// Where objects of this kind stand unless they say otherwise.
    pub(crate) fn default_of(key: &ObjectKey) -> Self {
        Self { phase: Phase::Sync, wave: default_wave(&key.kind, !key.namespace.is_empty()) }
    }
}

/// How far the sync of a service is. Empty for a service that is simply applied: no hooks, nothing to
/// wait for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Run {
    /// What is being synced.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) digest: String,
    /// It went through all waves.
    pub(crate) complete: bool,
    /// What stands in the cluster was made with values that leave it nowhere: of references, of encrypted files.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) secret: bool,
    /// The sync-fail phase was begun.
    pub(crate) failed: bool,
    /// Hooks that ended, by `phase/key`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) hooks: BTreeMap<String, HookRecord>,
    /// By phase, the last request that asked for its hooks to be run again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) rounds: BTreeMap<String, String>,
    /// Request that was done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) request_done: String,
    /// The last word to canaries, and what came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) promoted: Option<Promoted>,
    /// Objects whose deletion a person approved and that are not confirmed gone.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) approved: BTreeSet<String>,
}

impl Run {
    /// What tells runs of one hook apart when a person asks for it again; empty unless one did.
    pub(crate) fn round(&self, phase: Phase, request: Option<&Request>) -> String {
        let again = |request: &&Request| {
            request.id != self.request_done
                && (request.repeat_hooks || (request.run_tests && phase == Phase::Test))
        };
        match request.filter(again) {
            Some(request) => request.id.clone(),
            None => self.rounds.get(phase.as_str()).cloned().unwrap_or_default(),
        }
    }
}

/// A hook that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HookRecord {
    /// Of the manifest that ran.
    pub(crate) hash: String,
    pub(crate) succeeded: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
}

fn path(namespace: &str, service: ServiceId) -> String {
    format!("/api/v1/namespaces/{}/configmaps/plural-inventory-{service}", encode(namespace))
}

/// All records in `namespace`. A record that cannot be read is left alone and logged: nothing that
/// it names is ever deleted.
pub(crate) async fn load_all(api: &Api, namespace: &str) -> Result<Vec<(ServiceId, Inventory)>, ApiError> {
    let collection = format!("/api/v1/namespaces/{}/configmaps", encode(namespace));
    let query = format!("labelSelector={}%3Dtrue", encode(LABEL));
    let list = api.list(&collection, &query, View::Whole).await?;
    let mut inventories = Vec::new();
    for item in list["items"].as_array().into_iter().flatten() {
        if let Some(inventory) = read(item) {
            inventories.push(inventory);
        } else {
            tracing::error!(
                name = item["metadata"]["name"].as_str().unwrap_or_default(),
                "an inventory cannot be read; its objects will not be pruned"
            );
        }
    }
    Ok(inventories)
}

fn read(item: &Value) -> Option<(ServiceId, Inventory)> {
    let service =
        item["metadata"]["annotations"]["deployments.plural.sh/inventory-of"].as_str()?.parse().ok()?;
    let data = &item["data"];
    let name = data["service"].as_str()?.to_owned();
    let lines = data["objects"].as_str()?.lines().filter(|line| !line.is_empty());
    let entries: Result<BTreeSet<ObjectKey>, ()> = lines.map(str::parse).collect();
    let places = data["places"].as_str().unwrap_or_default().lines().filter_map(read_place).collect();
    let run = match data["run"].as_str() {
        Some(text) => serde_json::from_str(text).ok()?,
        None => Run::default(),
    };
    Some((service, Inventory { name, entries: entries.ok()?, places, run }))
}

/// `phase wave key`, the key last because a name may hold anything but a slash.
fn read_place(line: &str) -> Option<(ObjectKey, Place)> {
    let (phase, rest) = line.split_once(' ')?;
    let (wave, key) = rest.split_once(' ')?;
    Some((key.parse().ok()?, Place { phase: Phase::parse(phase)?, wave: wave.parse().ok()? }))
}

/// Writes the record, creating the agent's namespace where it is missing.
pub(crate) async fn store(
    api: &Api,
    namespace: &str,
    service: ServiceId,
    inventory: &Inventory,
) -> Result<(), ApiError> {
    let Inventory { name, entries, places, run } = inventory;
    let lines: Vec<String> = entries.iter().map(ToString::to_string).collect();
    let objects = lines.join("\n");
    let mut data = json!({"service": name, "objects": objects});
    if !places.is_empty() {
        let line =
            |(key, place): (&ObjectKey, &Place)| format!("{} {} {key}", place.phase.as_str(), place.wave);
        data["places"] = places.iter().map(line).collect::<Vec<_>>().join("\n").into();
    }
    if *run != Run::default() {
        data["run"] = serde_json::to_string(run).unwrap_or_default().into();
    }
    let size: usize =
        data.as_object().into_iter().flatten().map(|(_, text)| text.as_str().map_or(0, str::len)).sum();
    if size > MAX_BYTES {
        return Err(ApiError::Status {
            code: 413,
            reason: "RequestEntityTooLarge".to_owned(),
            message: format!(
                "the service owns {} objects, more than one record can name: split it into several services",
                entries.len()
            ),
            fields: Vec::new(),
            retry_after: None,
        });
    }
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": format!("plural-inventory-{service}"),
            "namespace": namespace,
            "labels": {LABEL: "true"},
            "annotations": {"deployments.plural.sh/inventory-of": service.to_string()},
        },
        "data": data,
    })
    .to_string();
    let path = path(namespace, service);
    match api.apply(&path, Applying::OURS, body.clone().into()).await {
        Err(error) if error.is_not_found() => {
            create_namespace(api, namespace).await?;
            api.apply(&path, Applying::OURS, body.into()).await?;
            Ok(())
        }
        answer => answer.map(|_| ()),
    }
}

/// The digest that a person wrote on the record, if there is one.
pub(crate) async fn approved_by_annotation(
    api: &Api,
    namespace: &str,
    service: ServiceId,
) -> Result<Option<String>, ApiError> {
    match api.get(&path(namespace, service)).await {
        Ok(live) => {
            let annotation = &live["metadata"]["annotations"][APPROVED_PRUNE_ANNOTATION];
            Ok(annotation.as_str().map(str::to_owned))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Forgets the record.
pub(crate) async fn remove(api: &Api, namespace: &str, service: ServiceId) -> Result<(), ApiError> {
    match api.delete(&path(namespace, service), None, Propagation::Background).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Creates a namespace that may exist already.
pub(crate) async fn create_namespace(api: &Api, name: &str) -> Result<(), ApiError> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    match api.create("/api/v1/namespaces", body.to_string().into()).await {
        Err(error) if error.code() != 409 => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_an_earlier_version_is_read() {
        let service = ServiceId::new();
        let item = json!({
            "metadata": {"annotations": {"deployments.plural.sh/inventory-of": service.to_string()}},
            "data": {"service": "shop", "objects": "/ConfigMap/ns/a\n/ConfigMap/ns/b"},
        });
        let (id, inventory) = read(&item).unwrap();
        assert_eq!((id, inventory.entries.len(), inventory.run), (service, 2, Run::default()));
    }

    #[test]
    fn places_read_back() {
        let key: ObjectKey = "rbac.authorization.k8s.io/ClusterRole//a b".parse().unwrap();
        let place = Place { phase: Phase::PreSync, wave: -3 };
        assert_eq!(read_place(&format!("pre-sync -3 {key}")), Some((key, place)));
        assert_eq!(read_place("soon -3 /ConfigMap/ns/a"), None);
    }
}
