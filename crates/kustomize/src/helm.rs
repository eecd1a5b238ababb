//! Charts named in a Kustomization: what is asked of the renderer that the caller injects.

use super::error::{Error, ErrorKind, Res, Within};
use super::json::{Cx, Numbers, normalize, write_json};
use super::loader::Loader;
use super::resource::{Resource, parse_all};
use super::target::Env;
use super::yaml::node::Node;
use super::yaml::resolve::Dialect;

/// `helmGlobals`.
#[derive(Clone, Debug, Default)]
pub(crate) struct HelmGlobals {
    chart_home: String,
    config_home: String,
}

impl HelmGlobals {
    pub(crate) fn fill_from(&mut self, other: Self) {
        if !other.chart_home.is_empty() {
            self.chart_home = other.chart_home;
        }
        if !other.config_home.is_empty() {
            self.config_home = other.config_home;
        }
    }
}

/// One of `helmCharts`.
#[derive(Clone, Debug, Default)]
pub(crate) struct HelmChart {
    name: String,
    version: String,
    repo: String,
    release_name: String,
    pub(crate) namespace: String,
    additional_values_files: Vec<String>,
    values_file: String,
    values_inline: Option<Node>,
    values_merge: String,
    include_crds: bool,
    skip_hooks: bool,
    api_versions: Vec<String>,
    kube_version: String,
    name_template: String,
    skip_tests: bool,
    devel: bool,
}

/// What a chart is to be rendered with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartRequest {
    /// Folder of the tree that `kustomize build` pulls the chart into; empty when it names no repository or no version.
    /// The renderer looks here first.
    pub pulled: String,
    /// Folder of the tree that the chart lies in otherwise.
    pub folder: String,
    /// Name of the chart in its repository.
    pub name: String,
    /// Address of the repository (`https://` or `oci://`), or empty.
    pub repository: String,
    /// Version or range, or empty.
    pub version: String,
    /// Whether pre-releases count when the version is a range.
    pub pre_releases: bool,
    /// Name of the release, or empty for the chart's own way of naming it.
    pub release_name: String,
    /// Template of the release's name, or empty.
    pub name_template: String,
    /// Namespace of the release, or empty.
    pub namespace: String,
    /// Values as YAML or JSON texts, later ones over earlier ones.
    pub values: Vec<String>,
    /// Whether the chart's `crds` folder is part of the output.
    pub include_crds: bool,
    /// Whether hooks are left out.
    pub skip_hooks: bool,
    /// Whether tests are left out.
    pub skip_tests: bool,
    /// API versions that the cluster has besides the usual ones.
    pub api_versions: Vec<String>,
    /// Version of the cluster, or empty.
    pub kube_version: String,
}

/// Renders charts for the build.
pub trait HelmPort {
    /// The chart's manifests as one YAML text.
    ///
    /// # Errors
    /// What went wrong, for a person.
    fn inflate(&self, request: &ChartRequest) -> Result<String, String>;
}

pub(crate) fn decode_globals(node: &Node, cx: &Cx) -> Res<HelmGlobals> {
    let mut g = HelmGlobals::default();
    cx.object(node, |name, value, cx| globals_field(&mut g, name, value, cx))?;
    Ok(g)
}

fn globals_field(g: &mut HelmGlobals, name: &str, value: &Node, cx: &Cx) -> Res<bool> {
    match name {
        "charthome" => g.chart_home = cx.text(value)?,
        "confighome" => g.config_home = cx.text(value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

pub(crate) fn decode_chart(node: &Node, cx: &Cx) -> Res<HelmChart> {
    let mut c = HelmChart::default();
    cx.object(node, |name, value, cx| chart_field(&mut c, name, value, cx))?;
    Ok(c)
}

/// A generator's own file: chart and globals side by side.
pub(crate) fn decode_both(node: &Node, cx: &Cx) -> Res<(HelmChart, HelmGlobals)> {
    let (mut c, mut g) = (HelmChart::default(), HelmGlobals::default());
    cx.object(node, |name, value, cx| {
        Ok(globals_field(&mut g, name, value, cx)? || chart_field(&mut c, name, value, cx)?)
    })?;
    Ok((c, g))
}

fn inline(value: &Node) -> Option<Node> {
    Some(value.clone()).filter(|v| !v.is_null())
}

fn chart_field(c: &mut HelmChart, name: &str, value: &Node, cx: &Cx) -> Res<bool> {
    match name {
        "name" => c.name = cx.text(value)?,
        "version" => c.version = cx.text(value)?,
        "repo" => c.repo = cx.text(value)?,
        "releasename" => c.release_name = cx.text(value)?,
        "namespace" => c.namespace = cx.text(value)?,
        "additionalvaluesfiles" => c.additional_values_files = cx.texts(value)?,
        "valuesfile" => c.values_file = cx.text(value)?,
        "valuesinline" => c.values_inline = inline(value),
        "valuesmerge" => c.values_merge = cx.text(value)?,
        "includecrds" => c.include_crds = cx.bool(value)?,
        "skiphooks" => c.skip_hooks = cx.bool(value)?,
        "apiversions" => c.api_versions = cx.texts(value)?,
        "kubeversion" => c.kube_version = cx.text(value)?,
        "nametemplate" => c.name_template = cx.text(value)?,
        "skiptests" => c.skip_tests = cx.bool(value)?,
        "debug" => {
            cx.bool(value)?;
        }
        "devel" => c.devel = cx.bool(value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// `helmChartInflationGenerator`, the field's old name and shape.
pub(crate) fn decode_old(node: &Node, cx: &Cx) -> Res<(HelmChart, HelmGlobals)> {
    let (mut c, mut g) = (HelmChart::default(), HelmGlobals::default());
    cx.object(node, |name, value, cx| {
        match name {
            "chartname" => c.name = cx.text(value)?,
            "chartversion" => c.version = cx.text(value)?,
            "chartrepourl" => c.repo = cx.text(value)?,
            "charthome" => g.chart_home = cx.text(value)?,
            "helmhome" => g.config_home = cx.text(value)?,
            "values" => c.values_file = cx.text(value)?,
            "valueslocal" => c.values_inline = inline(value),
            "valuesmerge" => c.values_merge = cx.text(value)?,
            "releasename" => c.release_name = cx.text(value)?,
            "chartreponame" | "helmbin" | "releasenamespace" => {
                cx.text(value)?;
            }
            "extraargs" => {
                cx.texts(value)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok((c, g))
}

/// # Errors
/// No renderer, values that cannot be read, or what the renderer says.
pub(crate) fn inflate(
    chart: &HelmChart,
    globals: &HelmGlobals,
    loader: &Loader<'_>,
    env: &Env<'_>,
) -> Res<Vec<Resource>> {
    if chart.name.is_empty() {
        return Err(Error::new("chart name cannot be empty"));
    }
    let home = if globals.chart_home.is_empty() { "charts" } else { &globals.chart_home };
    let mut values = Vec::new();
    let file = |path: &str| loader.load_text(path).map(str::to_owned);
    let inline = match &chart.values_inline {
        Some(node) => {
            let mut node = node.clone();
            normalize(&mut node, Dialect::Old, Numbers::Exact).map_err(Error::new)?;
            let mut text = String::new();
            write_json(&node, &mut text);
            Some(text).filter(|t| t != "{}")
        }
        None => None,
    };
    let base = if chart.values_file.is_empty() { None } else { Some(file(&chart.values_file)?) };
    match (chart.values_merge.as_str(), inline) {
        (_, None) => values.extend(base),
        ("" | "override", Some(inline)) => values.extend(base.into_iter().chain([inline])),
        ("merge", Some(inline)) => values.extend([inline].into_iter().chain(base)),
        ("replace", Some(inline)) => values.push(inline),
        (other, Some(_)) => {
            return Err(Error::new(format!(
                "valuesMerge must be one of [merge override replace], got {}",
                super::quote::quote(other)
            )));
        }
    }
    for path in &chart.additional_values_files {
        values.push(file(path).within(|| "could not load additionalValuesFile")?);
    }
    let pulled = if chart.repo.is_empty() || chart.version.is_empty() {
        String::new()
    } else {
        loader.inside(&format!("{home}/{0}-{1}/{0}", chart.name, chart.version))
    };
    let request = ChartRequest {
        pulled,
        folder: loader.inside(&format!("{home}/{}", chart.name)),
        name: chart.name.clone(),
        repository: chart.repo.clone(),
        version: chart.version.clone(),
        pre_releases: chart.devel,
        release_name: chart.release_name.clone(),
        name_template: chart.name_template.clone(),
        namespace: chart.namespace.clone(),
        values,
        include_crds: chart.include_crds,
        skip_hooks: chart.skip_hooks,
        skip_tests: chart.skip_tests,
        api_versions: chart.api_versions.clone(),
        kube_version: chart.kube_version.clone(),
    };
    let Some(port) = env.helm else {
        return Err(Error::of(
            ErrorKind::Helm,
            format!(
                "trouble configuring builtin HelmChartInflationGenerator: chart {} needs the Helm renderer, which this \
                 build was not given: render it as a Helm service, or build with Helm enabled",
                chart.name
            ),
        ));
    };
    let text = port
        .inflate(&request)
        .map_err(|e| Error::of(ErrorKind::Helm, format!("chart {}: {e}", chart.name)))?;
    let mut list = parse_all(&text, env.budget)?;
    for r in &mut list {
        r.memory.from_helm = true;
    }
    Ok(list)
}
