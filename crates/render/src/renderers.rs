//! Which renderer makes a service's objects.

use std::collections::HashMap;

use crate::{
    chart,
    error::{Problem, RenderError},
    inputs::Inputs,
    kustomization,
    object::{Object, Origin, Rendered},
    raw,
    rendering::{HelmInput, KustomizeInput, Ports, RendererInput, RendererKind},
    tree::{self, Tree},
};

/// The names by which a Kustomization is known; the last two only where templates are rendered.
const KUSTOMIZATIONS: [&str; 5] = [
    "kustomization.yaml",
    "kustomization.yml",
    "Kustomization",
    "kustomization.yaml.liquid",
    "kustomization.yml.liquid",
];

/// Renders the service that lives in `inputs.folder` of `tree`.
///
/// Its `renderers` decide, in their order; an object that two of them make is the later one's. Without any, what the
/// folder's root holds decides: a Kustomization that is set for the service, a `Chart.yaml`, a `kustomization.yaml`,
/// else raw manifests.
///
/// # Errors
/// When any file cannot be read as what it claims to be: all such files are named, and no object is
/// returned, so that a broken file is never mistaken for a deleted one. No message holds a value of the configuration.
pub fn render(tree: &Tree, inputs: &Inputs, ports: Ports<'_>) -> Result<Rendered, RenderError> {
    made(tree, inputs, ports).map_err(|error| error.without_values(inputs))
}

fn made(tree: &Tree, inputs: &Inputs, ports: Ports<'_>) -> Result<Rendered, RenderError> {
    if !tree.has_folder(&inputs.folder) {
        return Err(RenderError::FolderMissing { folder: inputs.folder.clone() });
    }
    let rendering = &inputs.rendering;
    let site = Site { tree, inputs, ports };
    let rendered = if rendering.renderers.is_empty() {
        site.detected(&inputs.folder, &rendering.helm)?
    } else {
        let mut all = Rendered::default();
        for renderer in &rendering.renderers {
            let Rendered { objects, warnings } = site.renderer(renderer)?;
            all.objects.extend(objects);
            all.warnings.extend(warnings);
        }
        last_wins(&mut all, &inputs.service.namespace);
        raw::check_count(all.objects.len())?;
        all
    };
    match &rendering.helm.kustomize_postrender {
        Some(path) => {
            let folder = site.folder(path, "helm.kustomizePostrender")?;
            kustomization::postrender(tree, &folder, inputs, rendered)
        }
        None => Ok(rendered),
    }
}

struct Site<'a> {
    tree: &'a Tree,
    inputs: &'a Inputs,
    ports: Ports<'a>,
}

impl Site<'_> {
    fn renderer(&self, renderer: &RendererInput) -> Result<Rendered, RenderError> {
        let RendererInput { path, kind } = renderer;
        let service = &self.inputs.rendering.helm;
        match kind {
            RendererKind::Raw => {
                if let Some(file) = tree::resolve(&self.inputs.folder, path)
                    && self.tree.read(&file).is_some()
                {
                    return raw::render(&self.tree.only(&file), &self.at(tree::parent(&file)));
                }
                raw::render(self.tree, &self.at(&self.folder(path, "renderers.path")?))
            }
            RendererKind::Auto(helm) => {
                self.detected(&self.folder(path, "renderers.path")?, helm.as_ref().unwrap_or(service))
            }
            RendererKind::Helm(helm) => {
                self.chart(&self.folder(path, "renderers.path")?, helm.as_ref().unwrap_or(service))
            }
            RendererKind::Kustomize => self.kustomization(&self.folder(path, "renderers.path")?),
            RendererKind::Command(name) => self.command(name, &self.folder(path, "renderers.path")?),
        }
    }

    fn detected(&self, folder: &str, helm: &HelmInput) -> Result<Rendered, RenderError> {
        let holds = |name: &str| self.tree.read(&tree::join(folder, name)).is_some();
        let kustomizations = if self.inputs.templated { &KUSTOMIZATIONS[..] } else { &KUSTOMIZATIONS[..3] };
        if self.inputs.rendering.kustomize.is_some() {
            self.kustomization(folder)
        } else if holds("Chart.yaml") {
            self.chart(folder, helm)
        } else if kustomizations.iter().copied().any(holds) {
            self.kustomization(folder)
        } else {
            raw::render(self.tree, &self.at(folder))
        }
    }

    fn chart(&self, folder: &str, helm: &HelmInput) -> Result<Rendered, RenderError> {
        chart::render(self.tree, folder, helm, self.inputs, self.ports)
    }

    fn kustomization(&self, folder: &str) -> Result<Rendered, RenderError> {
        let usual = KustomizeInput { path: String::new(), enable_helm: true, envsubst: false };
        let kustomize = self.inputs.rendering.kustomize.as_ref().unwrap_or(&usual);
        let folder = tree::resolve(folder, &kustomize.path)
            .filter(|path| self.tree.has_folder(path))
            .ok_or_else(|| missing(&kustomize.path, "kustomize.path"))?;
        kustomization::render(self.tree, &folder, kustomize, self.inputs)
    }

    fn command(&self, name: &str, folder: &str) -> Result<Rendered, RenderError> {
        let origin = Origin { path: folder.to_owned(), line: 0 };
        let failed = |message: String| {
            RenderError::Files(vec![Problem { path: origin.path.clone(), line: 0, message }])
        };
        let commands = self.ports.commands.ok_or_else(|| {
            failed(format!("the command renderer {name:?} runs in an agent that declares it, not here"))
        })?;
        let output = commands.run(name, self.tree, folder).map_err(failed)?;
        let documents = raw::parse_documents(&format!("output of {name}"), &output)
            .map_err(|problem| RenderError::Files(vec![problem]))?;
        raw::collect(
            self.inputs,
            documents.into_iter().map(|document| {
                let line = document.line;
                (document.value, Origin { line, ..origin.clone() })
            }),
        )
    }

    /// The folder of the tree that a setting of the service names.
    fn folder(&self, path: &str, setting: &'static str) -> Result<String, RenderError> {
        tree::resolve(&self.inputs.folder, path)
            .filter(|path| self.tree.has_folder(path))
            .ok_or_else(|| missing(path, setting))
    }

    /// The inputs as if the service's folder were this one.
    fn at(&self, folder: &str) -> Inputs {
        Inputs { folder: folder.to_owned(), ..self.inputs.clone() }
    }
}

fn missing(path: &str, setting: &'static str) -> RenderError {
    let message = format!("does not exist at this commit: correct the service's {setting}");
    RenderError::Files(vec![Problem { path: path.to_owned(), line: 0, message }])
}

/// An object that several renderers make is the last one's, at the last one's place.
fn last_wins(rendered: &mut Rendered, namespace: &str) {
    let key = |object: &Object| key(object, namespace);
    let last: HashMap<Key, usize> =
        rendered.objects.iter().enumerate().map(|(place, object)| (key(object), place)).collect();
    let mut place = 0;
    rendered.objects.retain(|object| {
        let keep = last.get(&key(object)) == Some(&place);
        place += 1;
        keep
    });
}

type Key = (String, String, String, String);

/// Group, kind, namespace and name; without one the object goes to the service's namespace.
fn key(object: &Object, namespace: &str) -> Key {
    let group = object.api_version().rsplit_once('/').map_or("", |(group, _)| group);
    let namespace = Some(object.namespace()).filter(|own| !own.is_empty()).unwrap_or(namespace);
    (group.to_owned(), object.kind().to_owned(), namespace.to_owned(), object.name().to_owned())
}
