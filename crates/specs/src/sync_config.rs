//! How a service is synced: what is compared, when, how far, and with whose rights.

use crate::document::document;
use crate::{Fault, Json, Result, Seconds, ServiceAccount};

/// Normalizers of one service at most.
const MAX_NORMALIZERS: usize = 100;
/// Pointers or managers of one normalizer at most.
const MAX_OF_ONE: usize = 100;
/// Bytes of one pattern, pointer or manager at most.
const MAX_TEXT: usize = 512;
/// The longest time that can be asked for, in seconds: a week.
const MAX_SECONDS: u32 = 7 * 24 * 3600;

document! {
    /// Labels and annotations of a namespace that we make.
    NamespaceMetadata {
        /// What is absent stays as it is.
        patch NamespaceMetadataPatch = "MetadataAttributes",
        shown NamespaceMetadataObject = "NamespaceMetadata"
    }
    /// Labels: a JSON object of texts.
    labels: map(Json);
    /// Annotations: a JSON object of texts.
    annotations: map(Json);
}

document! {
    /// Fields that are not compared. What is absent, or `*`, matches all.
    DiffNormalizer {
        patch DiffNormalizerPatch = "DiffNormalizerAttributes",
        shown DiffNormalizerObject = "DiffNormalizer"
    }
    /// Pattern of names.
    name: option(String);
    /// Pattern of kinds.
    kind: option(String);
    /// Pattern of namespaces.
    namespace: option(String);
    /// Fields, as JSON pointers; a part `*` is every key or element.
    json_pointers: texts(String);
    /// Send the live value instead of leaving the field out.
    backfill: value(bool);
    /// Everything that one of these field managers owns on the live object.
    managers: texts(String);
}

document! {
    /// When a service is synced, and how far a sync goes.
    SyncPolicy {
        /// What is absent stays as it is; null clears what can be absent.
        patch SyncPolicyPatch = "SyncPolicyAttributes",
        shown SyncPolicyObject = "SyncPolicy"
    }
    /// A new revision waits until somebody asks for it.
    manual: value(bool);
    /// What left git is deleted without being asked for.
    prune: value(bool) = true;
    /// Foreign changes are put right.
    self_heal: value(bool) = true;
    /// A wave waits for the health of the one before.
    wave_wait: value(bool) = true;
    /// How long a wave may take to become healthy: `90s`, `5m`, `1h`; 10 minutes when absent.
    wave_timeout: text(Seconds), in 1..=MAX_SECONDS, usual Seconds(600);
    /// How often a sync that failed is tried again before it waits for a change; without limit when absent.
    retry_limit: option(u32), in 1..=1000;
    /// First wait before another try: `90s`, `5m`, `1h`; the agent's own when absent.
    retry_wait: text(Seconds), in 1..=MAX_SECONDS;
    /// Longest wait before another try: `90s`, `5m`, `1h`.
    retry_max_wait: text(Seconds), in 1..=MAX_SECONDS;
    /// Share of the service, in percent, whose deletion needs no approval; 20 when absent.
    prune_percent: option(u32), in 1..=100, usual 20;
    /// Number of objects whose deletion needs no approval, where that is more; 10 when absent.
    prune_objects: option(u32), in 1..=100_000, usual 10;
}

document! {
    /// How a service is applied.
    SyncConfig {
        /// What is absent stays as it is, or is as by default in something new; null clears what can be absent.
        patch SyncConfigPatch = "SyncConfigAttributes",
        shown SyncConfigObject = "SyncConfig"
    }
    /// Make the namespace when it is missing.
    create_namespace: value(bool) = true;
    /// Force every object into the service's namespace.
    enforce_namespace: value(bool);
    /// Remove the namespace with the service.
    delete_namespace: value(bool);
    /// Fail when an object belongs to another service.
    require_ownership: value(bool) = true;
    /// For the namespace that we make.
    namespace_metadata: merge(NamespaceMetadata);
    /// Fields that are not compared; a list that is given replaces the one before.
    diff_normalizers: list(DiffNormalizer);
    /// When it is synced, and how far.
    policy: merge(SyncPolicy);
    /// ServiceAccount whose rights count, `NAME` or `NAMESPACE/NAME`; the agent's own when absent.
    service_account: option(String);
}

impl DiffNormalizer {
    /// Checks patterns and pointers.
    ///
    /// # Errors
    /// [`Fault`] of the whole for one that matches no field, or a pointer that is none.
    pub fn check(&self) -> Result<()> {
        let Self { name, kind, namespace, json_pointers, backfill: _, managers } = self;
        if json_pointers.is_empty() && managers.is_empty() {
            return Err(Fault::at("", "each must name jsonPointers or managers"));
        }
        if json_pointers.len() > MAX_OF_ONE || managers.len() > MAX_OF_ONE {
            return Err(Fault::at("", format!("one must not name more than {MAX_OF_ONE} fields")));
        }
        let texts = [name, kind, namespace].into_iter().flatten().chain(json_pointers).chain(managers);
        for text in texts {
            if text.len() > MAX_TEXT || text.chars().any(char::is_control) {
                return Err(Fault::at("", format!("a text must not be longer than {MAX_TEXT} bytes")));
            }
        }
        for pointer in json_pointers {
            let escapes = pointer.split('~').skip(1).all(|part| part.starts_with(['0', '1']));
            if !pointer.starts_with('/') || pointer.len() == 1 || !escapes {
                return Err(Fault::at(
                    "",
                    format!("{pointer:?} is not a JSON pointer such as /spec/replicas"),
                ));
            }
        }
        if managers.iter().any(String::is_empty) {
            return Err(Fault::at("", "a manager must have a name"));
        }
        Ok(())
    }
}

impl SyncPolicy {
    /// Checks times and budgets.
    ///
    /// # Errors
    /// [`Fault`] for a number that means nothing.
    pub fn check(&self) -> Result<()> {
        self.check_ranges()?;
        if self.retry_max_wait.is_some() && self.retry_wait.is_none() {
            return Err(Fault::at("retry_max_wait", "needs a retryWait to begin with"));
        }
        Ok(())
    }
}

impl SyncConfig {
    /// Checks what it says beside its switches.
    ///
    /// # Errors
    /// [`Fault`] for a pointer that is none, a number that means nothing, a name that cannot be.
    pub fn check(&self) -> Result<()> {
        let Self { diff_normalizers, policy, service_account, .. } = self;
        if diff_normalizers.len() > MAX_NORMALIZERS {
            return Err(Fault::at("diff_normalizers", format!("at most {MAX_NORMALIZERS} are allowed")));
        }
        let each = diff_normalizers.iter().try_for_each(DiffNormalizer::check);
        each.map_err(|fault| fault.within("diff_normalizers"))?;
        policy.check().map_err(|fault| fault.within("policy"))?;
        match service_account {
            None => Ok(()),
            Some(account) => ServiceAccount::parse(account, "own").map(drop),
        }
    }
}

#[cfg(test)]
#[path = "sync_config_tests.rs"]
mod tests;
