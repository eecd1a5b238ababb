//! A service whose folder is a Kustomize root.

use crate::{
    error::{Problem, RenderError},
    helm::{ArchiveLimits, Chart, TemplateFlags, ValueSource, template},
    inputs::Inputs,
    kustomize::{ChartRequest, HelmPort, Options, build},
    object::{Origin, Rendered, Warning},
    raw, tree,
    tree::Tree,
};

pub(crate) fn render(tree: &Tree, inputs: &Inputs) -> Result<Rendered, RenderError> {
    let origin = Origin { path: tree::join(&inputs.folder, "kustomization.yaml"), line: 0 };
    let charts = Charts { tree, seed: &inputs.seed, clock_ms: inputs.clock_ms };
    let options = Options { helm: Some(&charts), ..Options::default() };
    let built = build(tree, &inputs.folder, &options).map_err(|error| {
        let message = error.message().to_owned();
        RenderError::Files(vec![Problem { path: origin.path.clone(), line: 0, message }])
    })?;
    let documents = built.objects().into_iter().map(|value| (value, origin.clone()));
    let mut rendered = raw::collect(inputs, documents)?;
    let warnings =
        built.warnings.iter().map(|message| Warning { origin: origin.clone(), message: message.clone() });
    rendered.warnings.extend(warnings);
    Ok(rendered)
}

/// Renders the charts that a Kustomization names and the tree holds. Nothing is fetched.
#[derive(Debug, Clone, Copy)]
pub struct Charts<'a> {
    /// Where the charts are.
    pub tree: &'a Tree,
    /// Seed of the random functions.
    pub seed: &'a [u8],
    /// The clock: milliseconds since 1970-01-01 UTC.
    pub clock_ms: i64,
}

impl HelmPort for Charts<'_> {
    fn inflate(&self, request: &ChartRequest) -> Result<String, String> {
        if !self.tree.has_folder(&request.folder) {
            return Err(format!(
                "the chart {} is not in the repository: put it into {} (`helm pull --untar {}`); charts are not \
                 fetched while rendering",
                request.name, request.folder, request.name
            ));
        }
        let chart = Chart::from_tree(self.tree, &request.folder, &ArchiveLimits::default())
            .map_err(|error| error.message)?;
        let release = match request.release_name.as_str() {
            "" if request.name_template.is_empty() => "release-name",
            "" => return Err("nameTemplate is not supported: give releaseName".to_owned()),
            name => name,
        };
        let flags = TemplateFlags {
            release: release.to_owned(),
            namespace: if request.namespace.is_empty() { "default" } else { &request.namespace }.to_owned(),
            values: request.values.iter().map(|text| ValueSource::File(text.clone().into_bytes())).collect(),
            kube_version: request.kube_version.clone(),
            api_versions: request.api_versions.clone(),
            include_crds: request.include_crds,
            skip_tests: request.skip_tests,
            no_hooks: request.skip_hooks,
            seed: self.seed.to_vec(),
            clock_ms: self.clock_ms,
            ..TemplateFlags::default()
        };
        template(&chart, &flags).map_err(|error| error.message)
    }
}
