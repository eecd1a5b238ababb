//! `plural template helm`: the flags of `helm template`, without the files they name.

use plural_gotemplate::{exec::Limits, glob};
use serde_json::{Map, Value};

use super::{
    capabilities::Capabilities,
    chart::Chart,
    load,
    render::{HelmError, RenderOptions, Stage, render},
    strvals,
};

/// Values from the command line; later flags win over earlier ones of the same kind, and kinds win
/// in the order in which they stand here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueSource {
    /// `-f`: the content of a file of YAML.
    File(Vec<u8>),
    /// `--set-json`
    SetJson(String),
    /// `--set`
    Set(String),
    /// `--set-string`
    SetString(String),
    /// `--set-file`: the key, and the content of the file.
    SetFile(String, String),
    /// `--set-literal`
    SetLiteral(String),
}

/// The flags of `helm template`.
#[derive(Debug, Clone, Default)]
pub struct TemplateFlags {
    /// Name of the release.
    pub release: String,
    /// `--namespace`
    pub namespace: String,
    /// All flags that give values.
    pub values: Vec<ValueSource>,
    /// `--kube-version`; Helm's own default when empty.
    pub kube_version: String,
    /// `--api-versions`
    pub api_versions: Vec<String>,
    /// `--include-crds`
    pub include_crds: bool,
    /// `--skip-schema-validation`
    pub skip_schema: bool,
    /// `--skip-tests`
    pub skip_tests: bool,
    /// `--no-hooks`
    pub no_hooks: bool,
    /// `--is-upgrade`
    pub is_upgrade: bool,
    /// `--show-only`
    pub show_only: Vec<String>,
    /// Seed of the random functions.
    pub seed: Vec<u8>,
    /// The clock: milliseconds since 1970-01-01 UTC.
    pub clock_ms: i64,
}

/// The Kubernetes version that Helm assumes.
const DEFAULT_KUBE_VERSION: &str = "1.35.0";

/// Renders a chart and gives the text that `helm template` prints.
///
/// # Errors
/// In Helm's words.
pub fn template(chart: &Chart, flags: &TemplateFlags) -> Result<String, HelmError> {
    let kube = if flags.kube_version.is_empty() { DEFAULT_KUBE_VERSION } else { &flags.kube_version };
    let capabilities = Capabilities::new(kube, &flags.api_versions)
        .map_err(|error| HelmError::new(Stage::KubeVersion, error))?;
    let values = merged(&flags.values).map_err(|error| HelmError::new(Stage::Values, error))?;
    let options = RenderOptions {
        release: &flags.release,
        namespace: if flags.namespace.is_empty() { "default" } else { &flags.namespace },
        values: &values,
        capabilities: &capabilities,
        include_crds: flags.include_crds,
        skip_schema: flags.skip_schema,
        is_upgrade: flags.is_upgrade,
        seed: &flags.seed,
        clock_ms: flags.clock_ms,
        lookup: None,
        limits: Limits::default(),
    };
    let release = render(chart, &options)?;
    let text = release.text_without(|hook| flags.no_hooks || flags.skip_tests && hook.is_test());
    if flags.show_only.is_empty() {
        return Ok(text);
    }
    show_only(&text, &flags.show_only)
}

/// The documents of the files that patterns name.
fn show_only(text: &str, patterns: &[String]) -> Result<String, HelmError> {
    let documents = crate::yaml::split_documents(text);
    let path_of = |document: &str| {
        document.lines().find_map(|line| {
            let at = line.find("# Source: ")?;
            Some(line[at + 10..].split_once('/')?.1.to_owned())
        })
    };
    let mut out = String::new();
    for pattern in patterns {
        let mut missing = true;
        for document in &documents {
            let Some(path) = path_of(document) else { continue };
            if glob::path_match(pattern, &path) == Some(true) {
                missing = false;
                out.push_str("---\n");
                out.push_str(document);
                out.push('\n');
            }
        }
        if missing {
            return Err(HelmError::new(Stage::Render, format!("could not find template {pattern} in chart")));
        }
    }
    Ok(out)
}

/// All values of the flags as one map.
fn merged(sources: &[ValueSource]) -> Result<Map<String, Value>, String> {
    let mut values = Map::new();
    let rank = |source: &ValueSource| match source {
        ValueSource::File(_) => 0,
        ValueSource::SetJson(_) => 1,
        ValueSource::Set(_) => 2,
        ValueSource::SetString(_) => 3,
        ValueSource::SetFile(..) => 4,
        ValueSource::SetLiteral(_) => 5,
    };
    let mut sources: Vec<&ValueSource> = sources.iter().collect();
    sources.sort_by_key(|source| rank(source));
    for source in sources {
        match source {
            ValueSource::File(content) => merge(&mut values, load::read_values(content)?, 0)?,
            ValueSource::SetJson(text) => {
                if text.trim_start().starts_with('{') {
                    match serde_json::from_str(text) {
                        Ok(Value::Object(map)) => merge(&mut values, map, 0)?,
                        _ => return Err(format!("failed parsing --set-json data JSON: {text}")),
                    }
                } else {
                    strvals::set(&mut values, text, strvals::Kind::Json)
                        .map_err(|error| format!("failed parsing --set-json data {text}: {error}"))?;
                }
            }
            ValueSource::Set(text) => strvals::set(&mut values, text, strvals::Kind::Typed)
                .map_err(|error| format!("failed parsing --set data: {error}"))?,
            ValueSource::SetString(text) => strvals::set(&mut values, text, strvals::Kind::Text)
                .map_err(|error| format!("failed parsing --set-string data: {error}"))?,
            ValueSource::SetFile(key, content) => strvals::set_one(&mut values, key, content)
                .map_err(|error| format!("failed parsing --set-file data: {error}"))?,
            ValueSource::SetLiteral(text) => {
                let (key, value) = text
                    .split_once('=')
                    .ok_or_else(|| format!("failed parsing --set-literal data: key {text:?} has no value"))?;
                strvals::set_one(&mut values, key, value)
                    .map_err(|error| format!("failed parsing --set-literal data: {error}"))?;
            }
        }
    }
    Ok(values)
}

/// Puts `over` over `values`: maps are merged, everything else is replaced.
///
/// # Errors
/// When they are nested too deep.
pub(crate) fn merge_values(values: &mut Map<String, Value>, over: Map<String, Value>) -> Result<(), String> {
    merge(values, over, 0)
}

/// Sets one value as `--set NAME=VALUE` does.
///
/// # Errors
/// In the words of `--set`.
pub(crate) fn set_value(values: &mut Map<String, Value>, name: &str, value: &str) -> Result<(), String> {
    strvals::set(values, &format!("{name}={value}"), strvals::Kind::Typed)
}

/// Later files over earlier ones: maps are merged, everything else is replaced.
fn merge(target: &mut Map<String, Value>, source: Map<String, Value>, depth: usize) -> Result<(), String> {
    if depth > 1000 {
        return Err("values are nested too deep".to_owned());
    }
    for (key, value) in source {
        match (target.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new, depth + 1)?,
            (_, value) => {
                target.insert(key, value);
            }
        }
    }
    Ok(())
}
