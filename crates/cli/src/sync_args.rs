//! How a service is synced: flags of `plural cd services create` and `update`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use plural_wire::{Change, Document as _, Json, SyncConfig, SyncConfigPatch};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::{
    error::CliError,
    file,
    key::{parse_duration, parse_pair},
    terminal::Terminal,
};

/// Who brings a new revision in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SyncMode {
    /// The agent, at once.
    Automatic,
    /// A person, by `plural cd services sync`.
    Manual,
}

/// How it is synced
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Sync")]
pub(crate) struct SyncArgs {
    /// JSON or YAML file with the fields of syncConfig as `describe -o yaml` shows them, or - for standard
    /// input. Flags take precedence
    #[arg(long, value_name = "FILE")]
    sync_config: Option<PathBuf>,

    /// Any field of syncConfig by its path: policy.prunePercent=30, or policy.waveTimeout=null to clear it. May
    /// be given several times. Overrides the file; dedicated flags override it
    #[arg(long, value_parser = parse_setting, value_name = "PATH=VALUE")]
    set: Vec<(String, String)>,

    /// Who brings a new revision in
    #[arg(long, value_enum, value_name = "MODE")]
    sync: Option<SyncMode>,

    /// Delete what left git
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    prune: Option<bool>,

    /// Revert changes that did not come from git
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    self_heal: Option<bool>,

    /// Percent of the service that may be deleted without approval
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100), value_name = "N")]
    prune_percent: Option<u32>,

    /// Number of objects that may be deleted without approval, where that is more
    #[arg(long, value_name = "N")]
    prune_objects: Option<u32>,

    /// Wait for the health of each wave before the next
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    wave_wait: Option<bool>,

    /// How long a wave may take to become healthy: 90s, 5m, 1h
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    wave_timeout: Option<Duration>,

    /// How often a sync that failed is tried again; 0: without limit
    #[arg(long, value_name = "N")]
    retry_limit: Option<u32>,

    /// First wait before another try
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    retry_wait: Option<Duration>,

    /// Longest wait before another try
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    retry_max_wait: Option<Duration>,

    /// ServiceAccount whose rights count, NAME or NAMESPACE/NAME; empty: the agent's own
    #[arg(long, value_name = "ACCOUNT")]
    service_account: Option<String>,

    /// Make the namespace when it is missing
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    create_namespace: Option<bool>,

    /// Label of the namespace; may be given several times
    #[arg(long, value_parser = parse_pair, value_name = "NAME=VALUE")]
    namespace_label: Vec<(String, String)>,

    /// Annotation of the namespace; may be given several times
    #[arg(long, value_parser = parse_pair, value_name = "NAME=VALUE")]
    namespace_annotation: Vec<(String, String)>,

    /// Force every object into the service's namespace
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    enforce_namespace: Option<bool>,

    /// Fail when an object belongs to another service
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    require_ownership: Option<bool>,

    /// Remove the namespace with the service
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    delete_namespace: Option<bool>,
}

impl SyncArgs {
    /// What they ask for; nothing when none was given.
    pub(crate) fn attributes(
        &self,
        terminal: &mut Terminal<'_>,
    ) -> Result<Option<SyncConfigPatch>, CliError> {
        let Self {
            sync_config,
            set,
            sync,
            prune,
            self_heal,
            prune_percent,
            prune_objects,
            wave_wait,
            wave_timeout,
            retry_limit,
            retry_wait,
            retry_max_wait,
            service_account,
            create_namespace,
            namespace_label,
            namespace_annotation,
            enforce_namespace,
            require_ownership,
            delete_namespace,
        } = self.clone();
        let mut all = Value::Object(Map::new());
        if let Some(path) = sync_config {
            all = file::mapping("sync config", &path, terminal)?.into();
            read(&all).map_err(|error| {
                CliError::usage(format!("{} is not a valid sync config: {error}", path.display()))
            })?;
        }
        for (path, text) in &set {
            put(&mut all, path, text)
                .map_err(|error| CliError::usage(format!("--set {path}={text}: {error}")))?;
        }
        let mut all = read(&all).map_err(CliError::usage)?;
        let time = |given: Option<Duration>| given.map(|time| format!("{}s", time.as_secs()));
        let mut policy = all.policy.take().unwrap_or_default();
        policy.manual = sync.map(|mode| mode == SyncMode::Manual).or(policy.manual);
        policy.prune = prune.or(policy.prune);
        policy.self_heal = self_heal.or(policy.self_heal);
        policy.wave_wait = wave_wait.or(policy.wave_wait);
        policy.prune_percent = over(prune_percent, policy.prune_percent);
        policy.prune_objects = over(prune_objects, policy.prune_objects);
        policy.wave_timeout = over(time(wave_timeout), policy.wave_timeout);
        policy.retry_limit = match retry_limit {
            Some(0) => Change::Clear,
            limit => over(limit, policy.retry_limit),
        };
        policy.retry_wait = over(time(retry_wait), policy.retry_wait);
        policy.retry_max_wait = over(time(retry_max_wait), policy.retry_max_wait);
        all.policy = Some(policy).filter(|policy| !policy.is_empty());
        all.create_namespace = create_namespace.or(all.create_namespace);
        all.enforce_namespace = enforce_namespace.or(all.enforce_namespace);
        all.require_ownership = require_ownership.or(all.require_ownership);
        all.delete_namespace = delete_namespace.or(all.delete_namespace);
        all.service_account = match service_account {
            Some(account) if account.is_empty() => Change::Clear,
            account => over(account, all.service_account),
        };
        let mut metadata = all.namespace_metadata.take().unwrap_or_default();
        let map = |pairs: Vec<(String, String)>| {
            (!pairs.is_empty()).then(|| Json(pairs.into_iter().collect::<Value>()))
        };
        metadata.labels = map(namespace_label).or(metadata.labels);
        metadata.annotations = map(namespace_annotation).or(metadata.annotations);
        all.namespace_metadata = Some(metadata).filter(|metadata| !metadata.is_empty());
        let readable = SyncConfig::made(all.clone());
        readable.map_err(|fault| CliError::usage(fault.within("syncConfig").to_string()))?;
        Ok((!all.is_empty()).then_some(all))
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.is_empty() => Ok((path.into(), value.into())),
        _ => Err("it must have the form PATH=VALUE".into()),
    }
}

/// No secrets are in a sync config: the parser's words may be shown.
fn read(all: &Value) -> Result<SyncConfigPatch, String> {
    SyncConfigPatch::deserialize(all).map_err(|error| error.to_string())
}

/// Puts one field where its path says. The text is JSON if that fits the field, and else the value itself: `5m` needs no
/// quotes, and neither does a name of digits.
fn put(all: &mut Value, path: &str, text: &str) -> Result<(), String> {
    let as_text = Value::String(text.to_owned());
    let value = serde_json::from_str(text).unwrap_or_else(|_| as_text.clone());
    let value = match read(&nested(path, value.clone())) {
        Ok(_) => value,
        Err(error) => match read(&nested(path, as_text.clone())) {
            Ok(_) => as_text,
            Err(_) => return Err(error),
        },
    };
    let mut place = all;
    for key in path.split('.') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[key];
    }
    *place = value;
    Ok(())
}

/// A document with one field.
fn nested(path: &str, value: Value) -> Value {
    path.rsplit('.').fold(value, |value, key| Value::Object(Map::from_iter([(key.to_owned(), value)])))
}

/// A flag, or what was given otherwise.
fn over<T>(flag: Option<T>, given: Change<T>) -> Change<T> {
    flag.map_or(given, Change::Set)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(all: &[(&str, &str)]) -> Result<Value, String> {
        let mut made = json!({"policy": null, "createNamespace": false});
        for (path, text) in all {
            put(&mut made, path, text)?;
        }
        read(&made).map(|patch| serde_json::to_value(patch).unwrap())
    }

    #[test]
    fn any_field_is_set_by_its_path() {
        for (path, text, expected) in [
            ("policy.prunePercent", "30", json!({"policy": {"prunePercent": 30}})),
            ("policy.waveTimeout", "5m", json!({"policy": {"waveTimeout": "5m"}})),
            ("policy.waveTimeout", "600", json!({"policy": {"waveTimeout": "600"}})),
            ("policy.waveTimeout", "null", json!({"policy": {"waveTimeout": null}})),
            ("policy.manual", "true", json!({"policy": {"manual": true}})),
            ("serviceAccount", "ci/deployer", json!({"serviceAccount": "ci/deployer"})),
            ("serviceAccount", "007", json!({"serviceAccount": "007"})),
            (
                "namespaceMetadata.labels",
                r#"{"a": "b"}"#,
                json!({"namespaceMetadata": {"labels": {"a": "b"}}}),
            ),
            (
                "diffNormalizers",
                r#"[{"managers": ["istiod"]}]"#,
                json!({"diffNormalizers": [{"managers": ["istiod"]}]}),
            ),
        ] {
            let mut expected = expected;
            expected["createNamespace"] = json!(false);
            assert_eq!(set(&[(path, text)]).unwrap(), expected, "{path}={text}");
        }
        let two = set(&[("policy.prune", "false"), ("policy.retryLimit", "3")]).unwrap();
        assert_eq!(two["policy"], json!({"prune": false, "retryLimit": 3}));
    }

    #[test]
    fn what_is_no_field_is_refused_with_its_name() {
        for (path, text, words) in [
            ("policy.prunePercentage", "30", "prunePercentage"),
            ("polcy.prune", "true", "polcy"),
            ("policy.prunePercent", "many", "u32"),
            ("policy", "true", "SyncPolicyPatch"),
            ("policy.prune.x", "true", "boolean"),
        ] {
            let error = set(&[(path, text)]).unwrap_err();
            assert!(error.contains(words), "{path}={text}: {error}");
        }
    }
}
