//! How a service is synced: what it says, and what it is given.

use std::collections::BTreeMap;

use async_graphql::{InputObject, MaybeUndefined, SimpleObject};
use plural_core::{Error, Result};

use super::{
    error::{List, items, list},
    scalar::{Json, Map},
    service_input::seconds,
};

/// Labels and annotations of a namespace that we make.
#[derive(SimpleObject)]
pub(crate) struct NamespaceMetadata {
    /// Labels.
    labels: Option<Map>,
    /// Annotations.
    annotations: Option<Map>,
}

/// Fields that are not compared. What is absent, or `*`, matches all.
#[derive(SimpleObject)]
pub(crate) struct DiffNormalizer {
    /// Pattern of names.
    name: Option<String>,
    /// Pattern of kinds.
    kind: Option<String>,
    /// Pattern of namespaces.
    namespace: Option<String>,
    /// Fields, as JSON pointers; a part `*` is every key or element.
    json_pointers: List<String>,
    /// Send the live value instead of leaving the field out.
    backfill: Option<bool>,
    /// Everything that one of these field managers owns on the live object.
    managers: List<String>,
}

/// When a service is synced, and how far a sync goes.
#[derive(SimpleObject)]
pub(crate) struct SyncPolicy {
    /// A new revision waits until somebody asks for it.
    manual: Option<bool>,
    /// What left git is deleted without being asked for.
    prune: Option<bool>,
    /// Foreign changes are put right.
    self_heal: Option<bool>,
    /// A wave waits for the health of the one before.
    wave_wait: Option<bool>,
    /// How long a wave may take to become healthy; 10 minutes when absent.
    wave_timeout: Option<String>,
    /// How often a sync that failed is tried again; without limit when absent.
    retry_limit: Option<u32>,
    /// First wait before another try.
    retry_wait: Option<String>,
    /// Longest wait before another try.
    retry_max_wait: Option<String>,
    /// Share of the service, in percent, whose deletion needs no approval; 20 when absent.
    prune_percent: Option<u32>,
    /// Number of objects whose deletion needs no approval, where that is more; 10 when absent.
    prune_objects: Option<u32>,
}

/// How a service is applied.
#[derive(SimpleObject)]
pub(crate) struct SyncConfig {
    /// Make the namespace when it is missing.
    create_namespace: Option<bool>,
    /// Force every object into the service's namespace.
    enforce_namespace: Option<bool>,
    /// Remove the namespace with the service.
    delete_namespace: Option<bool>,
    /// Fail when an object belongs to another service.
    require_ownership: Option<bool>,
    /// For the namespace that we make.
    namespace_metadata: Option<NamespaceMetadata>,
    /// Fields that are not compared.
    diff_normalizers: List<DiffNormalizer>,
    /// When it is synced, and how far.
    policy: Option<SyncPolicy>,
    /// ServiceAccount whose rights count, `NAME` or `NAMESPACE/NAME`; the agent's own when absent.
    service_account: Option<String>,
}

impl From<plural_core::DiffNormalizer> for DiffNormalizer {
    fn from(normalizer: plural_core::DiffNormalizer) -> Self {
        let plural_core::DiffNormalizer { name, kind, namespace, json_pointers, backfill, managers } =
            normalizer;
        Self {
            name,
            kind,
            namespace,
            json_pointers: list(json_pointers),
            backfill: Some(backfill),
            managers: list(managers),
        }
    }
}

impl From<plural_core::SyncPolicy> for SyncPolicy {
    fn from(policy: plural_core::SyncPolicy) -> Self {
        let plural_core::SyncPolicy {
            manual,
            prune,
            self_heal,
            wave_wait,
            wave_timeout_seconds,
            retry_limit,
            retry_seconds,
            retry_max_seconds,
            prune_percent,
            prune_objects,
        } = policy;
        let time = |seconds: Option<u32>| seconds.map(|seconds| format!("{seconds}s"));
        Self {
            manual: Some(manual),
            prune: Some(prune),
            self_heal: Some(self_heal),
            wave_wait: Some(wave_wait),
            wave_timeout: time(wave_timeout_seconds),
            retry_limit,
            retry_wait: time(retry_seconds),
            retry_max_wait: time(retry_max_seconds),
            prune_percent,
            prune_objects,
        }
    }
}

impl From<plural_core::SyncConfig> for SyncConfig {
    fn from(config: plural_core::SyncConfig) -> Self {
        let plural_core::SyncConfig {
            create_namespace,
            enforce_namespace,
            delete_namespace,
            require_ownership,
            namespace_metadata,
            diff_normalizers,
            policy,
            service_account,
        } = config;
        let plural_core::NamespaceMetadata { labels, annotations } = namespace_metadata;
        Self {
            create_namespace: Some(create_namespace),
            enforce_namespace: Some(enforce_namespace),
            delete_namespace: Some(delete_namespace),
            require_ownership: Some(require_ownership),
            namespace_metadata: Some(NamespaceMetadata {
                labels: Some(labels.into()),
                annotations: Some(annotations.into()),
            }),
            diff_normalizers: list(diff_normalizers.into_iter().map(Into::into)),
            policy: Some(policy.into()),
            service_account,
        }
    }
}

/// Labels and annotations of a namespace that we make.
#[derive(Debug, InputObject)]
pub(crate) struct MetadataAttributes {
    /// A JSON object of texts.
    labels: Option<Json>,
    /// A JSON object of texts.
    annotations: Option<Json>,
}

/// Fields that are not compared. What is absent, or `*`, matches all.
#[derive(Debug, InputObject)]
pub(crate) struct DiffNormalizerAttributes {
    /// Pattern of names.
    name: Option<String>,
    /// Pattern of kinds.
    kind: Option<String>,
    /// Pattern of namespaces.
    namespace: Option<String>,
    /// Fields, as JSON pointers; a part `*` is every key or element.
    json_pointers: List<String>,
    /// Send the live value instead of leaving the field out.
    backfill: Option<bool>,
    /// Everything that one of these field managers owns on the live object.
    managers: List<String>,
}

/// When a service is synced, and how far; what is absent stays, null clears.
#[derive(Debug, InputObject)]
pub(crate) struct SyncPolicyAttributes {
    /// A new revision waits until somebody asks for it.
    manual: Option<bool>,
    /// What left git is deleted without being asked for.
    prune: Option<bool>,
    /// Foreign changes are put right.
    self_heal: Option<bool>,
    /// A wave waits for the health of the one before.
    wave_wait: Option<bool>,
    /// How long a wave may take to become healthy: `90s`, `5m`, `1h`.
    wave_timeout: MaybeUndefined<String>,
    /// How often a sync that failed is tried again.
    retry_limit: MaybeUndefined<u32>,
    /// First wait before another try: `90s`, `5m`, `1h`.
    retry_wait: MaybeUndefined<String>,
    /// Longest wait before another try: `90s`, `5m`, `1h`.
    retry_max_wait: MaybeUndefined<String>,
    /// Share of the service, in percent, whose deletion needs no approval.
    prune_percent: MaybeUndefined<u32>,
    /// Number of objects whose deletion needs no approval, where that is more.
    prune_objects: MaybeUndefined<u32>,
}

/// How a service is applied; what is absent is as by default, or stays as it is.
#[derive(Debug, InputObject)]
pub(crate) struct SyncConfigAttributes {
    /// Make the namespace when it is missing.
    create_namespace: Option<bool>,
    /// Force every object into the service's namespace.
    enforce_namespace: Option<bool>,
    /// Remove the namespace with the service.
    delete_namespace: Option<bool>,
    /// Fail when an object belongs to another service.
    require_ownership: Option<bool>,
    /// For the namespace that we make.
    namespace_metadata: Option<MetadataAttributes>,
    /// Fields that are not compared; replaces the list.
    diff_normalizers: List<DiffNormalizerAttributes>,
    /// When it is synced, and how far.
    policy: Option<SyncPolicyAttributes>,
    /// ServiceAccount whose rights count, `NAME` or `NAMESPACE/NAME`; null: the agent's own.
    service_account: MaybeUndefined<String>,
}

impl SyncConfigAttributes {
    /// `base` with what was given.
    pub(super) fn over(self, base: plural_core::SyncConfig) -> Result<plural_core::SyncConfig> {
        let Self {
            create_namespace,
            enforce_namespace,
            delete_namespace,
            require_ownership,
            namespace_metadata,
            diff_normalizers,
            policy,
            service_account,
        } = self;
        let plural_core::NamespaceMetadata { labels, annotations } = base.namespace_metadata;
        let MetadataAttributes { labels: new_labels, annotations: new_annotations } =
            namespace_metadata.unwrap_or(MetadataAttributes { labels: None, annotations: None });
        Ok(plural_core::SyncConfig {
            create_namespace: create_namespace.unwrap_or(base.create_namespace),
            enforce_namespace: enforce_namespace.unwrap_or(base.enforce_namespace),
            delete_namespace: delete_namespace.unwrap_or(base.delete_namespace),
            require_ownership: require_ownership.unwrap_or(base.require_ownership),
            namespace_metadata: plural_core::NamespaceMetadata {
                labels: texts("attributes.syncConfig.namespaceMetadata.labels", new_labels)?
                    .unwrap_or(labels),
                annotations: texts("attributes.syncConfig.namespaceMetadata.annotations", new_annotations)?
                    .unwrap_or(annotations),
            },
            diff_normalizers: match items(diff_normalizers) {
                Some(given) => given.into_iter().map(DiffNormalizerAttributes::parse).collect(),
                None => base.diff_normalizers,
            },
            policy: match policy {
                Some(given) => given.over(&base.policy)?,
                None => base.policy,
            },
            service_account: given(service_account, base.service_account),
        })
    }
}

impl DiffNormalizerAttributes {
    pub(super) fn parse(self) -> plural_core::DiffNormalizer {
        let Self { name, kind, namespace, json_pointers, backfill, managers } = self;
        plural_core::DiffNormalizer {
            name,
            kind,
            namespace,
            json_pointers: items(json_pointers).unwrap_or_default(),
            backfill: backfill.unwrap_or(false),
            managers: items(managers).unwrap_or_default(),
        }
    }
}

impl SyncPolicyAttributes {
    fn over(self, base: &plural_core::SyncPolicy) -> Result<plural_core::SyncPolicy> {
        let Self {
            manual,
            prune,
            self_heal,
            wave_wait,
            wave_timeout,
            retry_limit,
            retry_wait,
            retry_max_wait,
            prune_percent,
            prune_objects,
        } = self;
        Ok(plural_core::SyncPolicy {
            manual: manual.unwrap_or(base.manual),
            prune: prune.unwrap_or(base.prune),
            self_heal: self_heal.unwrap_or(base.self_heal),
            wave_wait: wave_wait.unwrap_or(base.wave_wait),
            wave_timeout_seconds: time(
                "attributes.syncConfig.policy.waveTimeout",
                wave_timeout,
                base.wave_timeout_seconds,
            )?,
            retry_limit: given(retry_limit, base.retry_limit),
            retry_seconds: time("attributes.syncConfig.policy.retryWait", retry_wait, base.retry_seconds)?,
            retry_max_seconds: time(
                "attributes.syncConfig.policy.retryMaxWait",
                retry_max_wait,
                base.retry_max_seconds,
            )?,
            prune_percent: given(prune_percent, base.prune_percent),
            prune_objects: given(prune_objects, base.prune_objects),
        })
    }
}

/// What was given, nothing for null, what was there for what is absent.
fn given<T>(value: MaybeUndefined<T>, base: Option<T>) -> Option<T> {
    match value {
        MaybeUndefined::Value(value) => Some(value),
        MaybeUndefined::Null => None,
        MaybeUndefined::Undefined => base,
    }
}

fn time(field: &'static str, value: MaybeUndefined<String>, base: Option<u32>) -> Result<Option<u32>> {
    match value {
        MaybeUndefined::Value(text) => seconds(field, &text).map(Some),
        MaybeUndefined::Null => Ok(None),
        MaybeUndefined::Undefined => Ok(base),
    }
}

fn texts(field: &'static str, json: Option<Json>) -> Result<Option<BTreeMap<String, String>>> {
    match json {
        None | Some(Json(serde_json::Value::Null)) => Ok(None),
        Some(Json(value)) => serde_json::from_value(value)
            .map(Some)
            .map_err(|_| Error::invalid(field, "must be a JSON object whose values are texts")),
    }
}
