//! How a service becomes objects: flags of `plural cd services create` and `update`.

use std::path::{Path, PathBuf};

use clap::Args;
use plural_wire::{
    Client, GetServiceRendering, HelmSummary, KustomizeAttributes, RendererSummary, RenderingAttributes,
    Secret, ServiceRendering,
};
use serde_json::Value;

use crate::{error::CliError, file, output::or_dash, terminal::Terminal};

/// How it becomes objects; without these, by what the folder's root holds
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Rendering")]
pub(crate) struct RenderingArgs {
    /// Chart of the Helm repository at --chart-url
    #[arg(long, value_name = "NAME")]
    chart: Option<String>,

    /// Version of the chart, or a range such as "4.4.x"
    #[arg(long, value_name = "VERSION")]
    chart_version: Option<String>,

    /// Helm repository: https:// or oci://
    #[arg(long, value_name = "URL")]
    chart_url: Option<String>,

    /// Name of the Helm release; else the service's name
    #[arg(long, value_name = "NAME")]
    release: Option<String>,

    /// YAML file on this machine with values for the chart, or - for standard input. Kept encrypted
    #[arg(long, value_name = "FILE")]
    values: Option<PathBuf>,

    /// Values file in the service's folder; may be given several times, later over earlier
    #[arg(long, value_name = "PATH")]
    values_file: Vec<String>,

    /// Leave out the chart's hooks
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    ignore_hooks: Option<bool>,

    /// Leave out the chart's crds/
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    ignore_crds: Option<bool>,

    /// Lua file in the service's folder that makes values
    #[arg(long, value_name = "PATH")]
    lua_file: Option<String>,

    /// Folder of Lua files that make values
    #[arg(long, value_name = "PATH")]
    lua_folder: Option<String>,

    /// Kustomization in the service's folder
    #[arg(long, visible_aliases = ["kustomize-path", "kustomize-folder"], value_name = "FOLDER")]
    kustomize_folder: Option<String>,

    /// Inflate charts that the Kustomization names
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    enable_helm: Option<bool>,

    /// JSON or YAML file with helm, kustomize, renderers and sources as in the API, or - for standard input; each
    /// part that it names is replaced. Flags take precedence
    #[arg(long, value_name = "FILE")]
    rendering: Option<PathBuf>,
}

impl RenderingArgs {
    /// Whether nothing was given.
    pub(crate) fn is_empty(&self) -> bool {
        self.rendering.is_none() && !self.names_helm() && !self.names_kustomize()
    }

    /// Whether a chart from elsewhere is named, so that no git repository is needed.
    pub(crate) fn names_chart(&self) -> bool {
        self.chart_url.is_some() || self.rendering.is_some()
    }

    /// What they ask for, of a new service.
    pub(crate) fn of_new(&self, terminal: &mut Terminal<'_>) -> Result<RenderingAttributes, CliError> {
        self.over(ServiceRendering { helm: None, kustomize: None }, terminal)
    }

    /// What they ask for, of the service `id`: what they do not name of its chart stays.
    pub(crate) async fn of_known(
        &self,
        id: &str,
        client: &Client,
        terminal: &mut Terminal<'_>,
    ) -> Result<RenderingAttributes, CliError> {
        if self.is_empty() {
            return Ok(RenderingAttributes::default());
        }
        let known = client.send(&GetServiceRendering { id: id.to_owned() }).await?;
        self.over(known, terminal)
    }

    fn names_helm(&self) -> bool {
        let Self {
            chart,
            chart_version,
            chart_url,
            release,
            values,
            values_file,
            ignore_hooks,
            ignore_crds,
            lua_file,
            lua_folder,
            kustomize_folder: _,
            enable_helm: _,
            rendering: _,
        } = self;
        [chart, chart_version, chart_url, release, lua_file, lua_folder].into_iter().any(Option::is_some)
            || values.is_some()
            || !values_file.is_empty()
            || ignore_hooks.is_some()
            || ignore_crds.is_some()
    }

    fn names_kustomize(&self) -> bool {
        self.kustomize_folder.is_some() || self.enable_helm.is_some()
    }

    fn over(
        &self,
        known: ServiceRendering,
        terminal: &mut Terminal<'_>,
    ) -> Result<RenderingAttributes, CliError> {
        let mut rendering = match &self.rendering {
            Some(path) => read_rendering(path, terminal)?,
            None => RenderingAttributes::default(),
        };
        if self.names_helm() {
            let mut helm = rendering.helm.take().or(known.helm).unwrap_or_default();
            for (field, given) in [
                (&mut helm.chart, &self.chart),
                (&mut helm.version, &self.chart_version),
                (&mut helm.url, &self.chart_url),
                (&mut helm.release, &self.release),
                (&mut helm.lua_file, &self.lua_file),
                (&mut helm.lua_folder, &self.lua_folder),
            ] {
                if given.is_some() {
                    field.clone_from(given);
                }
            }
            if let Some(path) = &self.values {
                let values = Value::from(file::mapping("values of the chart", path, terminal)?);
                helm.values = Some(Secret::new(values.to_string()));
            }
            if !self.values_file.is_empty() {
                helm.values_files = Some(self.values_file.clone());
            }
            helm.ignore_hooks = self.ignore_hooks.or(helm.ignore_hooks);
            helm.ignore_crds = self.ignore_crds.or(helm.ignore_crds);
            rendering.helm = Some(helm);
        }
        if self.names_kustomize() {
            let mut kustomize = rendering.kustomize.take().or(known.kustomize).unwrap_or_default();
            if let Some(path) = &self.kustomize_folder {
                kustomize.path.clone_from(path);
            }
            kustomize.enable_helm = self.enable_helm.or(kustomize.enable_helm);
            rendering.kustomize = Some(kustomize);
        }
        Ok(rendering)
    }
}

/// Lines of a description: what was set, and nothing otherwise.
pub(crate) fn described(
    helm: Option<&HelmSummary>,
    kustomize: Option<&KustomizeAttributes>,
    renderers: &[RendererSummary],
) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push(vec![format!("{name}:"), or_dash(Some(&value))]);
    if let Some(HelmSummary { chart, version, url, release, values_files }) = helm {
        let parts = [url, chart, version].into_iter().flatten().map(String::as_str);
        let chart: Vec<&str> = parts.collect();
        if !chart.is_empty() {
            line("Chart", chart.join(" "));
        }
        if let Some(release) = release {
            line("Release", release.clone());
        }
        if !values_files.is_empty() {
            line("Values files", values_files.join(", "));
        }
    }
    if let Some(KustomizeAttributes { path, .. }) = kustomize {
        line("Kustomization", if path.is_empty() { ".".to_owned() } else { path.clone() });
    }
    if !renderers.is_empty() {
        let all: Vec<String> = renderers
            .iter()
            .map(|RendererSummary { path, kind, command }| {
                let path = if path.is_empty() { "." } else { path };
                format!("{path} by {}", command.as_deref().unwrap_or(kind.as_str()))
            })
            .collect();
        line("Renderers", all.join(", "));
    }
    lines
}

/// Values may be written out in such a file; the API takes them as text.
fn read_rendering(path: &Path, terminal: &mut Terminal<'_>) -> Result<RenderingAttributes, CliError> {
    let mut file = Value::from(file::mapping("helm, kustomize, renderers, sources", path, terminal)?);
    let as_text = |helm: Option<&mut Value>| {
        if let Some(values) = helm.and_then(|helm| helm.get_mut("values")).filter(|values| values.is_object())
        {
            *values = Value::String(values.to_string());
        }
    };
    as_text(file.get_mut("helm"));
    for renderer in file.get_mut("renderers").and_then(Value::as_array_mut).into_iter().flatten() {
        as_text(renderer.get_mut("helm"));
    }
    serde_json::from_value(file).map_err(|error| {
        // Other messages quote the text, which may hold secrets.
        let message = error.to_string();
        let known = ["unknown field", "missing field"].iter().any(|start| message.starts_with(start));
        let why = if known { message } else { "a field has the wrong type".to_owned() };
        CliError::usage(format!("{} does not describe a rendering: {why}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use plural_wire::RendererType;

    use super::*;

    fn over(args: &RenderingArgs, input: &str) -> Result<RenderingAttributes, CliError> {
        let (mut out, mut err, mut input) = (Vec::new(), Vec::new(), input.as_bytes());
        let mut terminal = Terminal {
            out: &mut out,
            err: &mut err,
            input: &mut input,
            interactive: false,
            screen: None,
            variable: Box::new(|_| None),
        };
        args.of_new(&mut terminal)
    }

    #[test]
    fn flags_stand_over_the_file() {
        let args = RenderingArgs {
            rendering: Some("-".into()),
            chart_version: Some("2.x".into()),
            ..RenderingArgs::default()
        };
        let file = "helm: {chart: web, version: 1.x, values: {a: {b: 1}}}\nrenderers: [{path: a, type: RAW}]";
        let json = serde_json::to_value(over(&args, file).unwrap()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "helm": {"chart": "web", "version": "2.x", "values": "{\"a\":{\"b\":1}}"},
                "renderers": [{"path": "a", "type": "RAW"}],
            })
        );
    }

    #[test]
    fn what_is_set_is_described() {
        assert!(described(None, None, &[]).is_empty());
        let helm = HelmSummary {
            chart: Some("redis".into()),
            version: Some("19.x".into()),
            values_files: vec!["a.yaml".into(), "b.yaml".into()],
            ..HelmSummary::default()
        };
        let kustomize = KustomizeAttributes::default();
        let renderers = [
            RendererSummary { path: String::new(), kind: RendererType::Raw, command: None },
            RendererSummary {
                path: "lib".into(),
                kind: RendererType::Command,
                command: Some("jsonnet".into()),
            },
        ];
        let lines: Vec<String> =
            described(Some(&helm), Some(&kustomize), &renderers).iter().map(|line| line.join(" ")).collect();
        assert_eq!(
            lines,
            [
                "Chart: redis 19.x",
                "Values files: a.yaml, b.yaml",
                "Kustomization: .",
                "Renderers: . by RAW, lib by jsonnet"
            ]
        );
    }

    #[test]
    fn a_misspelt_field_is_named_and_no_value_is() {
        let args = RenderingArgs { rendering: Some("-".into()), ..RenderingArgs::default() };
        let text = over(&args, "helm: {chrt: web}").unwrap_err().to_string();
        assert!(text.contains("unknown field `chrt`"), "{text}");
        let text = over(&args, "helm: hunter2").unwrap_err().to_string();
        assert!(!text.contains("hunter2"), "{text}");
    }
}
