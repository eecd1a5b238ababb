//! How a service is synced: flags of `plural cd services create` and `update`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use plural_wire::{Change, Document as _, Json, SyncConfig, SyncConfigPatch};
use serde_json::Value;

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
    /// JSON or YAML file with the fields of syncConfig as `describe -o yaml` shows them, or - for standard input. Flags
    /// stand over it
    #[arg(long, value_name = "FILE")]
    sync_config: Option<PathBuf>,

    /// Who brings a new revision in
    #[arg(long, value_enum, value_name = "MODE")]
    sync: Option<SyncMode>,

    /// Delete what left git
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    prune: Option<bool>,

    /// Put foreign changes right
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
        let mut all = match sync_config {
            None => SyncConfigPatch::default(),
            Some(path) => {
                let value = file::mapping("sync config", &path, terminal)?.into();
                // No secrets are in it: the parser's words may be shown.
                serde_json::from_value(value).map_err(|error| {
                    CliError::usage(format!("{} is no sync config: {error}", path.display()))
                })?
            }
        };
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

/// A flag, or what was given otherwise.
fn over<T>(flag: Option<T>, given: Change<T>) -> Change<T> {
    flag.map_or(given, Change::Set)
}
