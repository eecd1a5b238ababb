//! A service whose folder is a Helm chart.
//!
//! The values are the chart's own, under those of a `values.yaml.liquid` beside its `Chart.yaml`, which is
//! rendered with the service's data first.

use serde_json::{Map, Value};

use crate::{
    error::{Problem, RenderError},
    helm::{
        ArchiveLimits, Capabilities, Chart, HelmError, Limits, RenderOptions, Stage, render as render_chart,
    },
    inputs::Inputs,
    liquid::Liquid,
    object::{Origin, Rendered},
    raw,
    tree::{self, Tree},
    yaml,
};

/// The values that are a template.
const VALUES_TEMPLATE: &str = "values.yaml.liquid";
/// What a chart is told when the cluster's version is not known yet.
const UNKNOWN_VERSION: &str = "1.30.0";

pub(crate) fn render(tree: &Tree, inputs: &Inputs) -> Result<Rendered, RenderError> {
    let failed = |error: HelmError| problem(&inputs.folder, &error);
    let chart = Chart::from_tree(tree, &inputs.folder, &ArchiveLimits::default()).map_err(failed)?;
    let values = values(tree, inputs)?;
    let version = if inputs.cluster.version.is_empty() { UNKNOWN_VERSION } else { &inputs.cluster.version };
    let capabilities = Capabilities::new(version, &[])
        .map_err(|message| failed(HelmError { stage: Stage::KubeVersion, message }))?;
    let release = render_chart(
        &chart,
        &RenderOptions {
            release: &inputs.service.name,
            namespace: &inputs.service.namespace,
            values: &values,
            capabilities: &capabilities,
            include_crds: true,
            skip_schema: false,
            // A service is brought to a state again and again: there is no first time to tell apart.
            is_upgrade: true,
            seed: &inputs.seed,
            clock_ms: inputs.clock_ms,
            lookup: None,
            limits: Limits::default(),
        },
    )
    .map_err(failed)?;
    let mut documents = Vec::new();
    for crd in &release.crds {
        let parsed = raw::parse_documents(&crd.path, crd.content.as_bytes())
            .map_err(|problem| RenderError::Files(vec![problem]))?;
        documents.extend(parsed.into_iter().map(|document| (document.value, at(&crd.path, document.line))));
    }
    for manifest in release.manifests {
        documents.push((manifest.value, at(&manifest.path, 0)));
    }
    // Tests run when somebody asks for them, not with every commit.
    for hook in release.hooks.into_iter().filter(|hook| !hook.is_test()) {
        documents.push((hook.manifest.value, at(&hook.manifest.path, 0)));
    }
    raw::collect(inputs, documents)
}

fn at(path: &str, line: usize) -> Origin {
    Origin { path: path.to_owned(), line }
}

fn values(tree: &Tree, inputs: &Inputs) -> Result<Map<String, Value>, RenderError> {
    let path = tree::join(&inputs.folder, VALUES_TEMPLATE);
    let Some(source) = tree.read(&path).filter(|_| inputs.templated) else { return Ok(Map::new()) };
    let wrong = |line, message| RenderError::Files(vec![Problem { path: path.clone(), line, message }]);
    let text =
        Liquid::new(inputs).render(&path, source).map_err(|problem| RenderError::Files(vec![problem]))?;
    match yaml::parse(text.as_bytes()) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(wrong(1, "the values are not a map of names".to_owned())),
        Err(error) => Err(wrong(error.line(), error.to_string())),
    }
}

fn problem(folder: &str, error: &HelmError) -> RenderError {
    RenderError::Files(vec![Problem {
        path: tree::join(folder, "Chart.yaml"),
        line: 0,
        message: error.message.clone(),
    }])
}
