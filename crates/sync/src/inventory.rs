//! What a service owns, recorded in the cluster: one ConfigMap per service in the agent's namespace.
//!
//! An object is recorded before it is first written, and its record stays until the API server has
//! confirmed that the object is gone. A new agent reads the records and can prune what an earlier
//! one applied.

use std::collections::BTreeSet;

use plural_core::ServiceId;
use serde_json::{Value, json};

use crate::{
    api::{Api, ApiError, FIELD_MANAGER, View, encode},
    key::ObjectKey,
};

const LABEL: &str = "plural.sh/inventory";
/// Beyond this the API server refuses a ConfigMap (1 MiB with everything around it).
const MAX_BYTES: usize = 950_000;

/// The record of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inventory {
    pub(crate) service: ServiceId,
    pub(crate) name: String,
    pub(crate) entries: BTreeSet<ObjectKey>,
}

fn path(namespace: &str, service: ServiceId) -> String {
    format!("/api/v1/namespaces/{}/configmaps/plural-inventory-{service}", encode(namespace))
}

/// All records in `namespace`. A record that cannot be read is left alone and logged: nothing that
/// it names is ever deleted.
pub(crate) async fn load_all(api: &Api, namespace: &str) -> Result<Vec<Inventory>, ApiError> {
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
                "an inventory cannot be read: what it names will not be pruned"
            );
        }
    }
    Ok(inventories)
}

fn read(item: &Value) -> Option<Inventory> {
    let service =
        item["metadata"]["annotations"]["deployments.plural.sh/inventory-of"].as_str()?.parse().ok()?;
    let name = item["data"]["service"].as_str()?.to_owned();
    let lines = item["data"]["objects"].as_str()?.lines().filter(|line| !line.is_empty());
    let entries: Result<BTreeSet<ObjectKey>, ()> = lines.map(str::parse).collect();
    Some(Inventory { service, name, entries: entries.ok()? })
}

/// Writes the record, creating the agent's namespace where it is missing.
pub(crate) async fn store(api: &Api, namespace: &str, inventory: &Inventory) -> Result<(), ApiError> {
    let lines: Vec<String> = inventory.entries.iter().map(ToString::to_string).collect();
    let objects = lines.join("\n");
    if objects.len() > MAX_BYTES {
        return Err(ApiError::Status {
            code: 413,
            reason: "RequestEntityTooLarge".to_owned(),
            message: format!(
                "the service owns {} objects, more than one record can name: split it into several services",
                inventory.entries.len()
            ),
            fields: Vec::new(),
            retry_after: None,
        });
    }
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": format!("plural-inventory-{}", inventory.service),
            "namespace": namespace,
            "labels": {LABEL: "true"},
            "annotations": {"deployments.plural.sh/inventory-of": inventory.service.to_string()},
        },
        "data": {"service": inventory.name, "objects": objects},
    })
    .to_string();
    let path = path(namespace, inventory.service);
    match api.apply(&path, FIELD_MANAGER, true, body.clone().into()).await {
        Err(error) if error.is_not_found() => {
            create_namespace(api, namespace).await?;
            api.apply(&path, FIELD_MANAGER, true, body.into()).await?;
            Ok(())
        }
        answer => answer.map(|_| ()),
    }
}

/// Forgets the record.
pub(crate) async fn remove(api: &Api, namespace: &str, service: ServiceId) -> Result<(), ApiError> {
    match api.delete(&path(namespace, service), None).await {
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
