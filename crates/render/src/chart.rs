//! A service, or a part of one, whose folder is a Helm chart.

mod values;

use crate::{
    error::{Problem, RenderError},
    helm::{
        ArchiveLimits, Capabilities, Chart, HelmError, Limits, RenderOptions, Stage, render as render_chart,
    },
    inputs::{ApiServer, Inputs},
    object::{Origin, Rendered},
    raw,
    rendering::{HelmInput, Ports},
    tree::{self, Tree},
};

/// What a chart is told when the cluster's version is not known yet.
const UNKNOWN_VERSION: &str = "1.30.0";

/// Renders the chart in `folder`.
pub(crate) fn render(
    tree: &Tree,
    folder: &str,
    helm: &HelmInput,
    inputs: &Inputs,
    ports: Ports<'_>,
) -> Result<Rendered, RenderError> {
    let failed = |error: HelmError| problem(folder, values::hidden(helm, inputs, &error.message));
    let chart = Chart::from_tree(tree, folder, &ArchiveLimits::default()).map_err(failed)?;
    let values = values::values(tree, folder, helm, inputs)?;
    let capabilities =
        capabilities(inputs).map_err(|message| failed(HelmError { stage: Stage::KubeVersion, message }))?;
    let release = render_chart(
        &chart,
        &RenderOptions {
            release: helm.release.as_deref().unwrap_or(&inputs.service.name),
            namespace: &inputs.service.namespace,
            values: &values,
            capabilities: &capabilities,
            include_crds: !helm.ignore_crds,
            skip_schema: false,
            // A service is brought to a state again and again: there is no first time to tell apart.
            is_upgrade: true,
            seed: &inputs.seed,
            clock_ms: inputs.clock_ms,
            lookup: ports.lookup,
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
        documents.push((manifest.value(), at(&manifest.path, 0)));
    }
    // Tests among them: whoever applies this runs them when somebody asks.
    for hook in release.hooks.into_iter().filter(|_| !helm.ignore_hooks) {
        documents.push((hook.manifest.value(), at(&hook.manifest.path, 0)));
    }
    raw::collect(inputs, documents)
}

fn capabilities(inputs: &Inputs) -> Result<Capabilities, String> {
    let version = match inputs.cluster.version.as_str() {
        "" => UNKNOWN_VERSION,
        version => version,
    };
    match &inputs.api_server {
        Some(ApiServer { version, api_versions }) => Capabilities::of_cluster(version, api_versions),
        None => Capabilities::new(version, &[]),
    }
}

fn at(path: &str, line: usize) -> Origin {
    Origin { path: path.to_owned(), line }
}

fn problem(folder: &str, message: String) -> RenderError {
    RenderError::Files(vec![Problem { path: tree::join(folder, "Chart.yaml"), line: 0, message }])
}
