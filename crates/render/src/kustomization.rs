//! A service, or a part of one, whose folder is a Kustomize root; and a Kustomization over what others rendered.

mod overlay;

use std::collections::BTreeMap;

use plural_kustomize::{Build, ChartRequest, Entry, Files, HelmPort, Options, build};
use serde_json::{Value, json};

use crate::{
    envsubst::envsubst,
    error::{Problem, RenderError},
    helm::{ArchiveLimits, Chart, TemplateFlags, ValueSource, template},
    inputs::Inputs,
    object::{Object, Origin, Rendered, Warning},
    raw,
    rendering::KustomizeInput,
    tree,
    tree::Tree,
    yaml,
};

use overlay::Overlay;

/// The file, beside a Kustomization that others' objects are put through, that stands for them.
const BASE: &str = "base.yaml";

/// Renders the Kustomization in `folder`.
pub(crate) fn render(
    tree: &Tree,
    folder: &str,
    kustomize: &KustomizeInput,
    inputs: &Inputs,
) -> Result<Rendered, RenderError> {
    let charts = Charts { tree, seed: &inputs.seed, clock_ms: inputs.clock_ms };
    let helm: Option<&dyn HelmPort> = if kustomize.enable_helm { Some(&charts) } else { None };
    let overlay = Overlay::new(tree, inputs, BTreeMap::new());
    let built = built(&overlay, folder, helm)?;
    if !kustomize.envsubst {
        let objects = built.objects();
        return collect(folder, inputs, &built, objects);
    }
    let problem = |line, message| {
        let path = format!("{} (after substitution)", named(folder));
        RenderError::Files(vec![Problem { path, line, message }])
    };
    let text = envsubst(&built.yaml, &inputs.configuration)
        .map_err(|error| problem(error.line, inputs.without_values(&error.message)))?;
    let documents = raw::parse_documents("kustomization.yaml", text.as_bytes())
        .map_err(|error| problem(error.line, inputs.without_values(&error.message)))?;
    let objects = documents.into_iter().map(|document| document.value).collect();
    collect(folder, inputs, &built, objects)
}

/// Puts `rendered` through the Kustomization in `folder`: its resources are those objects, then whatever it names itself.
pub(crate) fn postrender(
    tree: &Tree,
    folder: &str,
    inputs: &Inputs,
    rendered: Rendered,
) -> Result<Rendered, RenderError> {
    let overlay = Overlay::new(tree, inputs, BTreeMap::new());
    let wrong = |path: &str, line, message| {
        RenderError::Files(vec![Problem { path: path.to_owned(), line, message }])
    };
    let found = ["kustomization.yaml", "kustomization.yml", "Kustomization"].into_iter().find_map(|name| {
        let path = tree::join(folder, name);
        match overlay.entry(&path) {
            Some(Entry::File(bytes)) => Some((path, bytes.to_vec())),
            Some(Entry::Folder | Entry::Link(_)) | None => None,
        }
    });
    if let Some(problem) = overlay.problem() {
        return Err(RenderError::Files(vec![problem]));
    }
    let (path, text) = found.ok_or_else(|| {
        let message = "the folder of helm.kustomizePostrender holds no kustomization.yaml".to_owned();
        wrong(folder, 0, message)
    })?;
    let mut kustomization = match yaml::parse(&text) {
        Ok(Value::Object(map)) => map,
        Ok(Value::Null) => serde_json::Map::new(),
        Ok(_) => return Err(wrong(&path, 1, "the Kustomization is not a map of names".to_owned())),
        Err(error) => return Err(wrong(&path, error.line(), error.to_string())),
    };
    let resources = kustomization.entry("resources").or_insert_with(|| json!([]));
    match resources {
        Value::Array(all) if all.iter().any(|item| item.as_str() == Some(BASE)) => {}
        Value::Array(all) => all.insert(0, BASE.into()),
        other => *other = json!([BASE]),
    }
    let mut base = String::new();
    for object in &rendered.objects {
        base.push_str("---\n");
        base.push_str(&object.value.to_string());
        base.push('\n');
    }
    let added = BTreeMap::from([
        (path, Value::Object(kustomization).to_string().into_bytes()),
        (tree::join(folder, BASE), base.into_bytes()),
    ]);
    let overlay = Overlay::new(tree, inputs, added);
    let built = built(&overlay, folder, None)?;
    let objects = built.objects();
    let mut after = collect(folder, inputs, &built, objects)?;
    keep_origins(&rendered.objects, &mut after.objects);
    after.warnings.splice(0..0, rendered.warnings);
    Ok(after)
}

fn built(overlay: &Overlay<'_>, folder: &str, helm: Option<&dyn HelmPort>) -> Result<Build, RenderError> {
    let built = build(overlay, folder, &Options { helm, ..Options::default() });
    // A template that cannot be rendered looks like a missing file to the build.
    if let Some(problem) = overlay.problem() {
        return Err(RenderError::Files(vec![problem]));
    }
    built.map_err(|error| {
        let message = error.message().to_owned();
        RenderError::Files(vec![Problem { path: named(folder), line: 0, message }])
    })
}

fn collect(
    folder: &str,
    inputs: &Inputs,
    built: &Build,
    objects: Vec<Value>,
) -> Result<Rendered, RenderError> {
    let origin = Origin { path: named(folder), line: 0 };
    let mut rendered = raw::collect(inputs, objects.into_iter().map(|value| (value, origin.clone())))?;
    let warnings =
        built.warnings.iter().map(|message| Warning { origin: origin.clone(), message: message.clone() });
    rendered.warnings.extend(warnings);
    Ok(rendered)
}

/// Objects that went through under their names are still from where they were written.
fn keep_origins(before: &[Object], after: &mut [Object]) {
    let key = |object: &Object| (object.kind().to_owned(), object.name().to_owned());
    let known: BTreeMap<_, &Origin> = before.iter().map(|object| (key(object), &object.origin)).collect();
    for object in after {
        if let Some(origin) = known.get(&key(object)) {
            object.origin = (*origin).clone();
        }
    }
}

/// A tree's links were resolved when it was made, so it shows files and folders only.
impl Files for Tree {
    fn entry(&self, path: &str) -> Option<Entry<'_>> {
        match self.read(path) {
            Some(bytes) => Some(Entry::File(bytes)),
            None => self.has_folder(path).then_some(Entry::Folder),
        }
    }
}

fn named(folder: &str) -> String {
    tree::join(folder, "kustomization.yaml")
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
        let is_pulled = !request.pulled.is_empty() && self.tree.has_folder(&request.pulled);
        let folder = if is_pulled { &request.pulled } else { &request.folder };
        if !self.tree.has_folder(folder) {
            return Err(format!(
                "the chart {} is not in the repository: put it into {} (`helm pull --untar {}`); charts are not \
                 fetched while rendering",
                request.name, request.folder, request.name
            ));
        }
        let chart =
            Chart::from_tree(self.tree, folder, &ArchiveLimits::default()).map_err(|error| error.message)?;
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
