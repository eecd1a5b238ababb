//! How a service is synced: flags of `plural cd services create` and `update`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use plural_wire::{Document as _, Seconds, SyncConfig, SyncConfigPatch};
use serde::{Deserialize as _, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{
    error::CliError,
    file,
    key::{parse_pair, parse_seconds},
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

    #[command(flatten)]
    flags: ConfigFlags,
}

// A setting's flag is a field of its name, where syncConfig has it. What has no flag is set by `--set`.

/// How it is applied
#[derive(Debug, Clone, Default, Args, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigFlags {
    #[command(flatten)]
    policy: PolicyFlags,

    /// ServiceAccount whose rights count, NAME or NAMESPACE/NAME; empty: the agent's own
    #[arg(long, value_name = "ACCOUNT")]
    service_account: Option<String>,

    /// Make the namespace when it is missing
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    create_namespace: Option<bool>,

    #[command(flatten)]
    namespace_metadata: NamespaceFlags,

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

/// When it is synced, and how far
#[derive(Debug, Clone, Default, Args, Serialize)]
#[serde(rename_all = "camelCase")]
struct PolicyFlags {
    /// Who brings a new revision in
    #[arg(long, value_enum, value_name = "MODE")]
    #[serde(rename = "manual")]
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
    #[arg(long, value_parser = parse_seconds, value_name = "DURATION")]
    wave_timeout: Option<Seconds>,

    /// How often a sync that failed is tried again; 0: without limit
    #[arg(long, value_name = "N")]
    retry_limit: Option<u32>,

    /// First wait before another try
    #[arg(long, value_parser = parse_seconds, value_name = "DURATION")]
    retry_wait: Option<Seconds>,

    /// Longest wait before another try
    #[arg(long, value_parser = parse_seconds, value_name = "DURATION")]
    retry_max_wait: Option<Seconds>,
}

/// The namespace that is made for it
#[derive(Debug, Clone, Default, Args, Serialize)]
struct NamespaceFlags {
    /// Label of the namespace; may be given several times
    #[arg(long, value_parser = parse_pair, value_name = "NAME=VALUE")]
    #[serde(rename = "labels", serialize_with = "pairs")]
    namespace_label: Vec<(String, String)>,

    /// Annotation of the namespace; may be given several times
    #[arg(long, value_parser = parse_pair, value_name = "NAME=VALUE")]
    #[serde(rename = "annotations", serialize_with = "pairs")]
    namespace_annotation: Vec<(String, String)>,
}

impl SyncArgs {
    /// What they ask for; nothing when none was given.
    pub(crate) fn attributes(
        &self,
        terminal: &mut Terminal<'_>,
    ) -> Result<Option<SyncConfigPatch>, CliError> {
        let Self { sync_config, set, flags } = self;
        let mut all = Value::Object(Map::new());
        if let Some(path) = sync_config {
            all = file::mapping("sync config", path, terminal)?.into();
            read(&all).map_err(|error| {
                CliError::usage(format!("{} is not a valid sync config: {error}", path.display()))
            })?;
        }
        for (path, text) in set {
            put(&mut all, path, text)
                .map_err(|error| CliError::usage(format!("--set {path}={text}: {error}")))?;
        }
        let mut all = flags.patch().map_err(CliError::usage)?.or(read(&all).map_err(CliError::usage)?);
        all.policy = all.policy.filter(|policy| !policy.is_empty());
        all.namespace_metadata = all.namespace_metadata.filter(|metadata| !metadata.is_empty());
        let readable = SyncConfig::made(all.clone());
        readable.map_err(|fault| CliError::usage(fault.within("syncConfig").to_string()))?;
        Ok((!all.is_empty()).then_some(all))
    }
}

/// The change that has a service's namespace removed with it.
pub(crate) fn namespace_goes() -> Result<SyncConfigPatch, CliError> {
    read(&serde_json::json!({"deleteNamespace": true})).map_err(CliError::new)
}

impl ConfigFlags {
    /// What was given of them.
    fn patch(&self) -> Result<SyncConfigPatch, String> {
        let mut given = serde_json::to_value(self).map_err(|error| error.to_string())?;
        without_absent(&mut given);
        // What clears has a word of its own on a command line.
        for (path, word) in [("/policy/retryLimit", Value::from(0)), ("/serviceAccount", Value::from(""))] {
            if let Some(value) = given.pointer_mut(path).filter(|value| **value == word) {
                *value = Value::Null;
            }
        }
        read(&given)
    }
}

/// Leaves out what was not given.
fn without_absent(given: &mut Value) {
    if let Value::Object(fields) = given {
        fields.values_mut().for_each(without_absent);
        fields.retain(|_, value| !value.is_null() && !value.as_object().is_some_and(Map::is_empty));
    }
}

impl Serialize for SyncMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(*self == Self::Manual)
    }
}

/// A map, if there is any pair.
fn pairs<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    if pairs.is_empty() {
        return serializer.serialize_none();
    }
    serializer.collect_map(pairs.iter().map(|pair| (&pair.0, &pair.1)))
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

    #[derive(Debug, clap::Parser)]
    struct Given {
        #[command(flatten)]
        sync: SyncArgs,
    }

    fn flags(all: &[&str]) -> Value {
        let given: Given = clap::Parser::try_parse_from([&["x"], all].concat()).unwrap();
        serde_json::to_value(given.sync.flags.patch().unwrap()).unwrap()
    }

    #[test]
    fn each_flag_is_the_setting_of_its_name() {
        assert_eq!(flags(&[]), json!({}));
        let all = [
            "--sync",
            "manual",
            "--prune=false",
            "--self-heal",
            "--prune-percent",
            "30",
            "--prune-objects=5",
            "--wave-wait=false",
            "--wave-timeout=1h30m",
            "--retry-limit=3",
            "--retry-wait=5",
            "--retry-max-wait=1m",
            "--service-account",
            "ci/deployer",
            "--create-namespace=false",
            "--namespace-label",
            "a=b",
            "--namespace-label=c=d",
            "--namespace-annotation=e=f",
            "--enforce-namespace",
            "--require-ownership=false",
            "--delete-namespace",
        ];
        let expected = json!({
            "policy": {
                "manual": true, "prune": false, "selfHeal": true, "prunePercent": 30, "pruneObjects": 5,
                "waveWait": false, "waveTimeout": "5400s", "retryLimit": 3, "retryWait": "5s", "retryMaxWait": "60s",
            },
            "serviceAccount": "ci/deployer", "createNamespace": false,
            "namespaceMetadata": {"labels": {"a": "b", "c": "d"}, "annotations": {"e": "f"}},
            "enforceNamespace": true, "requireOwnership": false, "deleteNamespace": true,
        });
        assert_eq!(flags(&all), expected);
        assert_eq!(flags(&["--sync=automatic"]), json!({"policy": {"manual": false}}));
        let cleared = json!({"policy": {"retryLimit": null}, "serviceAccount": null});
        assert_eq!(flags(&["--retry-limit=0", "--service-account="]), cleared);
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
