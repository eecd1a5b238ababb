//! How a service is synced: as it is told, and as a file or flags ask for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::shared::list;

/// How a service is synced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncConfig {
    /// The namespace is made when it is missing.
    pub create_namespace: Option<bool>,
    /// Every object goes into the service's namespace.
    pub enforce_namespace: Option<bool>,
    /// The namespace goes with the service.
    pub delete_namespace: Option<bool>,
    /// An object of another service is an error.
    pub require_ownership: Option<bool>,
    /// For the namespace that is made.
    pub namespace_metadata: Option<NamespaceMetadata>,
    /// Fields that are not compared.
    #[serde(default, deserialize_with = "list")]
    pub diff_normalizers: Vec<DiffNormalizer>,
    /// When it is synced, and how far.
    pub policy: Option<SyncPolicy>,
    /// ServiceAccount whose rights count.
    pub service_account: Option<String>,
}

/// Labels and annotations of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceMetadata {
    /// Labels.
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations.
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Fields that are not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiffNormalizer {
    /// Pattern of names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Pattern of kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Pattern of namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Fields, as JSON pointers.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub json_pointers: Vec<String>,
    /// Send the live value instead of leaving the field out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfill: Option<bool>,
    /// Everything that one of these field managers owns on the live object.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub managers: Vec<String>,
}

/// When a service is synced, and how far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncPolicy {
    /// A new revision waits until somebody asks for it.
    pub manual: Option<bool>,
    /// What left git is deleted without being asked for.
    pub prune: Option<bool>,
    /// Foreign changes are put right.
    pub self_heal: Option<bool>,
    /// A wave waits for the health of the one before.
    pub wave_wait: Option<bool>,
    /// How long a wave may take to become healthy.
    pub wave_timeout: Option<String>,
    /// How often a sync that failed is tried again.
    pub retry_limit: Option<u32>,
    /// First wait before another try.
    pub retry_wait: Option<String>,
    /// Longest wait before another try.
    pub retry_max_wait: Option<String>,
    /// Share of the service, in percent, whose deletion needs no approval.
    pub prune_percent: Option<u32>,
    /// Number of objects whose deletion needs no approval, where that is more.
    pub prune_objects: Option<u32>,
}

/// How a service is to be synced; what is absent stays, null clears. Read from files, too: they have the
/// fields of [`SyncConfig`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SyncConfigAttributes {
    /// Make the namespace when it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_namespace: Option<bool>,
    /// Force every object into the service's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_namespace: Option<bool>,
    /// Remove the namespace with the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_namespace: Option<bool>,
    /// Fail when an object belongs to another service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_ownership: Option<bool>,
    /// For the namespace that is made.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "as_json_texts")]
    pub namespace_metadata: Option<NamespaceMetadata>,
    /// Fields that are not compared; the whole list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_normalizers: Option<Vec<DiffNormalizer>>,
    /// When it is synced, and how far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<SyncPolicyAttributes>,
    /// ServiceAccount whose rights count.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub service_account: Option<Option<String>>,
}

/// When a service is to be synced, and how far; what is absent stays, null clears.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SyncPolicyAttributes {
    /// A new revision waits until somebody asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<bool>,
    /// What left git is deleted without being asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prune: Option<bool>,
    /// Foreign changes are put right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_heal: Option<bool>,
    /// A wave waits for the health of the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave_wait: Option<bool>,
    /// How long a wave may take to become healthy: `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub wave_timeout: Option<Option<String>>,
    /// How often a sync that failed is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub retry_limit: Option<Option<u32>>,
    /// First wait before another try: `10s`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub retry_wait: Option<Option<String>>,
    /// Longest wait before another try: `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub retry_max_wait: Option<Option<String>>,
    /// Share of the service, in percent, whose deletion needs no approval.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub prune_percent: Option<Option<u32>>,
    /// Number of objects whose deletion needs no approval, where that is more.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub prune_objects: Option<Option<u32>>,
}

impl SyncConfigAttributes {
    /// Nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A value that was given, null included.
#[expect(clippy::option_option, reason = "absent, null and a value are three things")]
fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

/// The schema takes these mappings as texts that hold JSON.
#[expect(clippy::ref_option, reason = "serde's serialize_with hands over a reference to the field")]
fn as_json_texts<S: Serializer>(value: &Option<NamespaceMetadata>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = |map: &BTreeMap<String, String>| serde_json::to_string(map).unwrap_or_default();
    let texts: BTreeMap<&str, String> = value
        .iter()
        .flat_map(|NamespaceMetadata { labels, annotations }| {
            [("labels", labels.as_ref().map(text)), ("annotations", annotations.as_ref().map(text))]
        })
        .filter_map(|(name, text)| Some((name, text?)))
        .collect();
    texts.serialize(serializer)
}
