//! A service whose folder is a chart: its objects.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    capabilities::Capabilities,
    chart::Chart,
    load::ArchiveLimits,
    render::{LookupPort, RenderOptions, render},
};
use crate::{
    error::{Problem, RenderError},
    gotemplate::exec::Limits,
    inputs::Inputs,
    object::{Object, Origin, Rendered, Warning},
    tree::{Tree, join},
    yaml,
};

/// Renders the chart in `inputs.folder`, with `values` over its own: CRDs first, then everything in
/// install order, hooks last with their annotations.
///
/// The release has the service's name and namespace; the cluster's version decides what
/// `.Capabilities` says.
///
/// # Errors
/// One problem in Helm's words, at the chart's folder.
pub fn service_objects(
    tree: &Tree,
    inputs: &Inputs,
    values: &Map<String, Value>,
    lookup: Option<&dyn LookupPort>,
) -> Result<Rendered, RenderError> {
    let failed = |message: String| {
        RenderError::Files(vec![Problem { path: join(&inputs.folder, "Chart.yaml"), line: 0, message }])
    };
    let version = if inputs.cluster.version.is_empty() { "1.35.0" } else { &inputs.cluster.version };
    let capabilities = Capabilities::new(version, &[]).map_err(failed)?;
    let chart = Chart::from_tree(tree, &inputs.folder, &ArchiveLimits::default())
        .map_err(|error| failed(error.message))?;
    let options = RenderOptions {
        release: &inputs.service.name,
        namespace: &inputs.service.namespace,
        values,
        capabilities: &capabilities,
        include_crds: true,
        skip_schema: false,
        is_upgrade: false,
        seed: &inputs.seed,
        clock_ms: inputs.clock_ms,
        lookup,
        limits: Limits::default(),
    };
    let release = render(&chart, &options).map_err(|error| failed(error.message))?;
    let mut collected = Collected::default();
    for crd in &release.crds {
        for document in yaml::split_documents(&crd.content) {
            match yaml::parse(document.as_bytes()) {
                Ok(value) => collected.add(&crd.path, value),
                Err(error) => collected.problem(&crd.path, error.to_string()),
            }
        }
    }
    for manifest in release.manifests.into_iter().chain(release.hooks.into_iter().map(|hook| hook.manifest)) {
        collected.add(&manifest.path, manifest.value);
    }
    if collected.problems.is_empty() {
        Ok(collected.rendered)
    } else {
        Err(RenderError::Files(collected.problems))
    }
}

#[derive(Default)]
struct Collected {
    rendered: Rendered,
    problems: Vec<Problem>,
    seen: BTreeSet<[String; 4]>,
}

impl Collected {
    fn problem(&mut self, path: &str, message: String) {
        self.problems.push(Problem { path: path.to_owned(), line: 0, message });
    }

    /// Takes an object in, or each of a list; of two with the same name the later one counts.
    fn add(&mut self, path: &str, value: Value) {
        if value.is_null() {
            return;
        }
        let text =
            |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        if kind.ends_with("List")
            && let Some(Value::Array(items)) = value.get("items")
        {
            for item in items.clone() {
                self.add(path, item);
            }
            return;
        }
        let unnamed = name.is_empty() && text("/metadata/generateName").is_empty();
        if api_version.is_empty() || kind.is_empty() || unnamed {
            let missing = "an object without apiVersion, kind or metadata.name";
            return self.problem(path, format!("the template wrote {missing}"));
        }
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        let namespace = text("/metadata/namespace");
        let origin = Origin { path: path.to_owned(), line: 0 };
        if !name.is_empty()
            && !self.seen.insert([group.clone(), kind.clone(), namespace.clone(), name.clone()])
        {
            let message = format!("{kind}/{name} is written twice: the later one counts");
            self.rendered.warnings.push(Warning { origin: origin.clone(), message });
            self.rendered.objects.retain(|object| {
                let old = object.api_version().rsplit_once('/').map_or("", |(group, _)| group);
                old != group
                    || object.kind() != kind
                    || object.namespace() != namespace
                    || object.name() != name
            });
        }
        self.rendered.objects.push(Object { value, origin });
    }
}
